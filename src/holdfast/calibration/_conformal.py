"""`delta_calibrated`: a delta that the next retraining stays within, with a stated probability.

    delta = the k-th smallest of n distances,   k = ceil((n + 1) p)

If the next distance is exchangeable with these n, each rank among the n + 1 is equally likely. So the next distance
is at most the k-th smallest with probability at least k / (n + 1) >= p. This needs no other assumption about the
model or the distribution (split conformal prediction).

That probability is over histories too: a single history may cover less. With a confidence c the rank is the least k
with P(Binomial(n, p) < k) >= c. Then, with probability c over histories of independent retrainings, delta covers at
least the share p of all future retrainings (a tolerance limit after Wilks).

A delta with a shape has one radius s_i for each layer or parameter. The first retrainings give the shape, and the
others are ranked by max_i distance_i / s_i; the radii are s_i times the ratio of that rank. The ranked retrainings
must not shape delta, because the next one does not: the probability needs this symmetry. Each s_i has a floor, so
every ratio is finite. Without the floor, a part that moves only in ranked retrainings would leave no result, and
the returned radii would contain the next model less often than stated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from holdfast._given import given_share
from holdfast._network import Floats, Network, Pair
from holdfast._scored import Scored
from holdfast._trees import TreeEnsemble
from holdfast.calibration._incremental import IncrementalDelta
from holdfast.calibration._result import SINGLE_STEP, ChosenDelta, Delta, outward
from holdfast.changes import Changes, Inside, TreeChanges, parameter_distance
from holdfast.changes._parameters import apart, flat, p_norm, part_ends
from holdfast.errors import HoldfastError, InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.importers import Model, load_model
from holdfast.importers._model import same_preprocessing
from holdfast.retraining import RetrainedModels, layer_distances
from holdfast.retraining._result import SAME_PREPROCESSING, copies, leaf_moves
from holdfast.verify._fingerprint import fingerprint
from holdfast.verify._inputs import read_table
from holdfast.verify._radius import radius_of_points

# Of the largest radius of a shape by layer, or of the mean of one by parameter or leaf: no part has less.
_FLOOR = 0.25


@dataclass(frozen=True, eq=False, repr=False)
class CalibratedDelta(ChosenDelta):
    """The result of `delta_calibrated`: a delta and the probability that the next retraining stays within it.

    Attributes
    ----------
    evidence
        One row for each retraining: distance, role ("shape" or "rank"), if known the distance of each layer, and
        for radii by parameter the largest move relative to its radius (`ratio`).
    coverage
        The requested probability.
    rank, n_ranked
        delta is the rank-th smallest of `n_ranked` distances.
    confidence
        The confidence that this history reaches `coverage`; None if `coverage` holds on average over histories.
    caveats
        Notes on the result: which rows the next retraining has to draw to be exchangeable with these, whether some
        are copies or single steps of the optimiser, and how many accepted rows are robust at leaf radii.
    today
        The fingerprint of the model that delta is around; "" if distances were given, which name no model.
    retrained
        The fingerprint of each retraining. `changes` carry no probability if some are copies.
    """

    coverage: float
    rank: int
    n_ranked: int
    confidence: float | None = None
    caveats: tuple[str, ...] = ()
    today: str = ""
    retrained: tuple[str, ...] = ()

    @property
    def inside(self) -> Inside:
        """The probability that the next retraining lies in Δ; `changes` carry it."""
        record = {"model": self.today, "retrained": [*self.retrained]} if self.today else None
        return Inside(self.rank, self.n_ranked, self.coverage, self.confidence, record)

    @property
    def changes(self) -> Changes:
        """Δ with this delta, and with the probability that it contains the next model."""
        return self._known(super().changes)

    def _known(self, changes: Changes) -> Changes:
        alone = len(set(self.retrained)) == len(self.retrained)
        return changes.calibrated(self.inside.of(changes)) if alone else changes

    @property
    def guaranteed(self) -> float:
        """The probability rank / (n_ranked + 1), over histories too; it is at least `coverage`."""
        return self.inside.probability

    @property
    def name(self) -> str:
        """The label in plots."""
        return f"calibrated at {self.coverage:g}"

    def __str__(self) -> str:
        ranked = (
            "distances"
            if not isinstance(self.delta, tuple)
            else "ratios to the leaves' usual moves,"
            if isinstance(self, CalibratedLeaves)
            else "ratios to the parameters' usual moves,"
            if isinstance(self.biases, tuple)
            else "ratios to the layers' usual distances,"
        )
        whole = (
            f"delta = {self.shown}: number {self.rank} of {self.n_ranked} {ranked} in rising order"
        )
        return "; ".join([whole, self.inside.sentence("it", "these"), *self.caveats])


def delta_calibrated(
    history: Any,
    *,
    coverage: float = 0.95,
    confidence: float | None = None,
    shape: str | None = None,
    norm: float = math.inf,
    origin: Any = None,
    X: Any = None,
) -> CalibratedDelta:
    """Find a delta that the next retraining stays within, with probability at least `coverage`.

    The only condition: the next retraining is *exchangeable* with those in `history`, so that every order of them
    is equally likely. Independent retrainings, made in the same way on data drawn in the same way, meet it. It
    fails if retraining drifts (each month further), if the next run uses another optimiser or ten times the data,
    or if calm months were picked for the history. The probability is an average over histories; `confidence` makes
    a statement about the given one.

    Parameters
    ----------
    history
        One of three. Retrainings of one model: a `RetrainedModels`, or the result of `delta_incremental`. Or models
        in the order of their use, each a retraining of the one before. Or distances: n numbers, or n rows with one
        for each layer. Distances name no model: apply the result only to the model that they were measured on,
        because nothing checks this. Models must share their preprocessing, because parameters behind a refitted
        scaler mean something else. Refitted trees keep their structure: each leaf gets a radius, and `changes` are
        `TreeChanges`.
    coverage
        The probability p. It needs n >= p / (1 - p) retrainings: 9 for 0.9, 19 for 0.95, 99 for 0.99.
    confidence
        If given, the probability that this history's delta covers at least `coverage` of all future retrainings, if
        retrainings are independent and made alike. It needs a longer history: at confidence 0.95, 29 retrainings
        for coverage 0.9 and 59 for 0.95.
    shape
        "uniform", the default for networks, is one radius for all parameters. "layer" and "parameter" give one
        radius to each, with the same probability for all of them *together*. The first quarter of the history (less
        if too few would be left) gives the shape; the others are ranked. The shape of "layer" is each layer's mean
        distance, at least a quarter of the largest. The shape of "parameter" is the largest move of each parameter
        down and up, plus half of its largest move in either direction, plus half of the mean over its layer's
        weights or biases; at least a quarter of the overall mean. It needs models and the norm inf. Trees always
        have a radius for each leaf.
    norm
        The p of the norm of the distances.
    origin
        The model from which every model of `history` was retrained, for a plain list of models.
    X
        For trees: rows of the table. The result says how many of the rows in today's last class are robust at the
        radii. By default the rows that `retrain` drew from.

    Raises
    ------
    InvalidInputError
        For example if the history is too short for the coverage, or its models differ in their preprocessing.

    Examples
    --------
    >>> chosen = delta_calibrated([0.03, 0.05, 0.02, 0.04, 0.06, 0.01, 0.03, 0.02, 0.05], coverage=0.8)
    >>> print(chosen)
    delta = 0.05: number 8 of 9 distances in rising order; the next retraining stays within it with probability at \
least 0.8, if it is exchangeable with these
    >>> print(delta_calibrated([0.03, 0.05, 0.02, 0.04, 0.06], coverage=0.5, confidence=0.9))
    delta = 0.06: number 5 of 5 distances in rising order; with confidence 0.9 at least 0.5 of the retrainings to come \
stay within it, if they and these are independent and made alike
    >>> delta_calibrated([0.03, 0.05, 0.02], coverage=0.8)
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidInputError: history: expected at least 4 retrainings for coverage 0.8, got 3; 3 support \
at most 0.75
    """
    given_share(coverage, "coverage")
    if confidence is not None:
        given_share(confidence, "confidence")
    if isinstance(history, IncrementalDelta):
        history = history.retrained
    if shape not in (None, "uniform", "layer", "parameter") or (
        shape == "parameter" and norm != math.inf
    ):
        raise InvalidInputError(
            f"shape: expected 'uniform', 'layer', or 'parameter' with norm=inf, got {shape!r} with norm={norm:g}"
        )
    drawn = isinstance(history, RetrainedModels)
    caveats = [*history.caveats, *[SINGLE_STEP] * (history.steps == 1)] if drawn else []
    numbers = None if drawn else _as_numbers(history)
    steps = [] if numbers is not None else _steps(history, origin)
    pairs: list[Any] = [(before.classifier, after.classifier) for before, after in steps]
    trees = any(isinstance(one, TreeEnsemble) for pair in pairs for one in pair)
    if trees and (shape is not None or norm != math.inf):
        raise InvalidInputError(
            "shape, norm: leave them out for trees, which always get a radius for each leaf"
        )
    if X is not None and not trees:
        raise InvalidInputError("X: only trees take a table here; leave X= out for networks")
    shape = "leaf" if trees else shape or "uniform"
    if trees:
        _check_trees(pairs, drawn)
    elif not all(same_preprocessing(before, after) for before, after in steps):
        raise InvalidInputError(f"history: expected models {SAME_PREPROCESSING}")
    elif pairs:
        pairs = [(before.network, after.network) for before, after in steps]
    caveats += [] if drawn else copies([after for _, after in pairs])
    whole, layers = _distances(numbers, pairs, norm)
    wrong = whole[~(np.isfinite(whole) & (whole >= 0.0))]
    if wrong.size:
        raise InvalidInputError(f"history: expected distances >= 0, got {wrong[0]}")
    n_shape = _n_shape(len(whole), coverage, confidence, shaped=shape != "uniform")
    moves, unit = _shaped(shape, n_shape, whole, layers, pairs)
    scores = np.sort(_ratios(moves[n_shape:], unit))
    rank = _rank(scores.size, coverage, confidence)
    radii = unit * scores[rank - 1]
    if pairs or n_shape:
        # Other numbers are the caller's own measure, and are handed back as they came.
        radii = outward(radii, norm)
    role = np.where(np.arange(len(whole)) < n_shape, "shape", "rank")
    evidence = pd.DataFrame({"distance": whole, "role": role})
    if layers is not None:
        evidence[[f"layer_{i + 1}" for i in range(layers.shape[1])]] = layers
    delta: Delta = float(radii[0]) if shape == "uniform" else tuple(radii.tolist())
    biases: bool | tuple[Floats, ...] = True
    if shape in ("parameter", "leaf"):
        evidence["ratio"] = _ratios(moves, radii)
    if shape == "parameter":
        delta, biases = apart(pairs[0][0], radii.reshape(2, -1))
    # The model that the next one is retrained from.
    today = steps[-1][0 if drawn or origin is not None else 1] if steps else None
    if trees and today is not None:
        delta = (radii,)
        if X is not None:
            caveats.append(_borne(today, X, radii))
        elif drawn:
            # The caller did not ask about these rows: where they need a space to be read, nothing is said.
            with suppress(HoldfastError):
                caveats.append(_borne(today, history.some_rows, radii))
    kind = CalibratedLeaves if trees else CalibratedDelta
    return kind(
        delta, float(norm), evidence, float(coverage), rank, len(whole) - n_shape, confidence, tuple(caveats),
        "" if today is None else fingerprint(today.trained),
        tuple(fingerprint(after.trained)[:16] for _, after in steps), biases=biases,
    )  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class CalibratedLeaves(CalibratedDelta):
    """The result of `delta_calibrated` for refitted trees: a radius for each leaf."""

    @property
    def changes(self) -> Changes:
        """`TreeChanges` with these radii, for `certify` and `explain`."""
        assert isinstance(self.delta, tuple)
        return self._known(TreeChanges(leaves=self.delta[0]))

    @property
    def shown(self) -> str:
        """The radius in words."""
        return f"up to {float(self):.3g}, by leaf"


def _check_trees(pairs: list[Any], drawn: bool) -> None:
    """Raise, with its number, for a retraining that changed the structure of the first trees."""
    for number, pair in enumerate(pairs, 1):
        alike = leaf_moves([(pairs[0][0], one) for one in pair]) is not None
        if not alike or not (drawn or pair[0].reads_like(pair[1])):
            why = next((f" ({one.why})" for one in pair if type(one) is Scored), "")
            raise InvalidInputError(
                f"history: the trees of retraining {number} have another structure{why}; refit them with "
                "retrain(how='refit'), or use risk_calibrated, which takes any models"
            )


def _borne(model: Model, X: Any, radii: Floats) -> str:
    """How many rows in today's last class are robust at these leaf radii, and the median radius, in words."""
    space = None
    if isinstance(X, pd.DataFrame):
        gaps = X.columns[X.isna().any()]
        space = FeatureSpace.from_frame(X, scale="none", missing=gaps)
    table = read_table(model, X, space)
    trees = table.model.classifier
    classes = trees.predict_index(table.points)
    rows, label = np.flatnonzero(classes == classes.max()), trees.classes[classes.max()]
    changes, most = TreeChanges(leaves=radii), float(radii.max())
    factors = radius_of_points(table.model, table.points[rows], classes[rows], changes).lower
    bear = int((factors > 1.0).sum())
    said = (
        f"{bear} of {rows.size} rows of class {label} are robust at these radii of up to {most:.2g}"
    )
    return f"{said}, half of them at {np.median(factors) * most:.2g}" + ": use risk_calibrated" * (
        not bear
    )


def _n_shape(n: int, coverage: float, confidence: float | None, *, shaped: bool) -> int:
    """The number of retrainings that give the shape, so that enough are left to rank; raises if n is too small."""
    needed = least_history(coverage, confidence)
    if n < needed + shaped:
        ranked = n - shaped
        most = (
            0.0
            if ranked < 1
            else ranked / (ranked + 1)
            if confidence is None
            else (1 - confidence) ** (1 / ranked)
        )
        at_most = f"; {n} support at most {most:.3g}" if most else ""
        surely = "" if confidence is None else f" with confidence {confidence:g}"
        raise InvalidInputError(
            f"history: expected at least {needed + shaped} retrainings for coverage {coverage:g}{surely}, "
            f"got {n}{at_most}"
        )
    return max(1, min(n // 4, n - needed)) if shaped else 0


def _rank(n: int, coverage: float, confidence: float | None) -> int:
    """The rank among n distances in rising order that is large enough."""
    if confidence is None:
        # The product of two floats may lie a hair above a whole number.
        return max(1, math.ceil((n + 1) * coverage - 1e-9))
    return int(binom.ppf(confidence, n, coverage)) + 1


def least_history(coverage: float, confidence: float | None = None) -> int:
    """The least n for which the largest distance suffices: n / (n + 1) >= p, or p ** n <= 1 - c."""
    if confidence is None:
        return max(1, math.ceil(coverage / (1.0 - coverage) - 1e-9))
    n = max(1, math.ceil(math.log1p(-confidence) / math.log(coverage) - 1e-9))
    return n if _rank(n, coverage, confidence) <= n else n + 1


def _shaped(
    shape: str,
    n: int,
    whole: Floats,
    layers: Floats | None,
    pairs: list[Any],
) -> Pair:
    """The measurements of each retraining, and the shape from the first `n`."""
    if shape == "uniform":
        return whole[:, None], np.ones(1)
    leaves = leaf_moves(pairs)
    if leaves is not None:
        forest, most = pairs[0][0].forest, leaves[:n].max(axis=0)
        tree = forest.tree_of[forest.leaves]
        # The most of a few says little of a single leaf: each leans on the others of its tree, and on all.
        means = np.bincount(tree, most, forest.n_trees) / np.bincount(tree)
        return leaves, _floored(most + 0.5 * (means[tree] + most.mean()), np.mean)
    if shape == "layer" and layers is not None:
        return layers, _floored(layers[:n].mean(axis=0), np.max)
    if shape == "parameter" and pairs:
        up = np.array([flat(after) - flat(before) for before, after in pairs])
        moves = np.maximum(np.concatenate([-up, up], axis=1), 0.0)
        return moves, _usual(moves[:n], pairs[0][0])
    also = ", or a distance for each layer" * (shape == "layer")
    raise InvalidInputError(
        f"history: shape={shape!r} needs models{also}, got one distance for each retraining"
    )


def _ratios(moves: Floats, shape: Floats) -> Floats:
    """The largest ratio to the shape in each row; infinite if a part with radius 0 moved."""
    unknown = np.where(moves > 0.0, np.inf, 0.0)
    ratios = np.divide(moves, shape, out=unknown, where=np.broadcast_to(shape > 0.0, moves.shape))
    return np.asarray(ratios.max(axis=1))


def _usual(moves: Floats, network: Network) -> Floats:
    """The usual move of each parameter down and up, from a few retrainings.

    The maximum of a few moves is a poor estimate for a single parameter, and the worst estimate sets the ratio. So
    each estimate also uses the other direction and the other parameters of its kind.
    """
    most = moves.max(axis=0).reshape(2, -1)
    either = most.max(axis=0)
    means = [np.full(part.shape, part.mean()) for part in np.split(either, part_ends(network))]
    return _floored(np.ravel(most + 0.5 * (either + np.concatenate(means))), np.mean)


def _floored(unit: Floats, common: Callable[[Floats], Any]) -> Floats:
    """The shape with a floor for parts that hardly moved; ones if no part moved."""
    scale = float(common(unit))
    return np.maximum(unit, _FLOOR * scale) if scale > 0.0 else np.ones_like(unit)


def _steps(history: Any, origin: Any) -> list[tuple[Model, Model]]:
    """The models before and after each retraining."""
    if isinstance(history, RetrainedModels) and origin is None:
        today = history.classifier
        if isinstance(today, Network) and not history.comparable:
            raise InvalidInputError(f"history: expected models {SAME_PREPROCESSING}")
        return [(Model(today), Model(one)) for one in history.classifiers]
    models = []
    for number, one in enumerate(history, 1):
        try:
            models.append(load_model(one))
        except HoldfastError as error:
            raise InvalidInputError(f"history: model {number}: {error}") from error
    start = None if origin is None else load_model(origin)
    steps = list(pairwise(models)) if start is None else [(start, model) for model in models]
    if not steps:
        raise InvalidInputError(
            "history: expected at least two models, each retrained from the one before, or origin="
        )
    return steps


def _distances(
    numbers: Floats | None, pairs: list[Any], norm: float
) -> tuple[Floats, Floats | None]:
    """The distance of each retraining, and of its layers if known."""
    if numbers is not None:
        return (numbers, None) if numbers.ndim == 1 else (p_norm(numbers, norm), numbers)
    leaves = leaf_moves(pairs)
    if leaves is not None:
        return leaves.max(axis=1), None
    whole, layers = (
        np.array([distance(a, b, norm) for a, b in pairs])
        for distance in (parameter_distance, layer_distances)
    )
    return whole, layers


def _as_numbers(history: Any) -> Floats | None:
    """The history as an array if it consists of numbers, else None."""
    if isinstance(history, pd.Series | pd.DataFrame):
        history = history.to_numpy()
    if not isinstance(history, Sequence | np.ndarray) or isinstance(history, str | bytes):
        raise InvalidInputError(
            f"history: expected a sequence of models or of distances, got {type(history).__name__}"
        )
    if not all(
        isinstance(item, int | float | np.number | list | tuple | np.ndarray) for item in history
    ):
        return None
    try:
        numbers = np.asarray(history, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"history: expected distances, got {error}") from error
    if numbers.ndim not in (1, 2):
        raise InvalidInputError(
            f"history: expected n distances, or n rows of them, got shape {numbers.shape}"
        )
    return numbers
