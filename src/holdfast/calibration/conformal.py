"""`delta_calibrated`: a delta that the next retraining respects with a stated probability.

    delta = the k-th smallest of n distances,   k = ceil((n + 1) p)

If the next distance is exchangeable with these n, it is as likely to rank first among the n + 1 as second, third, ...,
so it is at most the k-th smallest with probability at least k / (n + 1) >= p. No other assumption is made: not on the
model, nor on the shape of the distribution (split conformal prediction).

That probability is over the history too: one history in a few covers less. With a confidence c the rank is the least k
with P(Binomial(n, p) < k) >= c, so that with probability c over histories of independent retrainings the delta covers
at least the share p of all that may come (a tolerance limit after Wilks).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from holdfast.calibration.incremental import IncrementalDelta
from holdfast.calibration.result import PICTURE, SINGLE_STEP, ChosenDelta, Delta, outward
from holdfast.changes import parameter_distance
from holdfast.drawing import CHOSEN, DARK, INK, axes_to_draw_on, legend_below
from holdfast.errors import InvalidInputError
from holdfast.importers import load_model
from holdfast.importers.preprocessing import same_preprocessing
from holdfast.network import Floats
from holdfast.retraining import RetrainedModels, layer_distances
from holdfast.retraining.result import SAME_PREPROCESSING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHARED_ROWS = "these share rows with each other, so this speaks of further draws from the same rows only"


@dataclass(frozen=True, eq=False, repr=False)
class CalibratedDelta(ChosenDelta):
    """What `delta_calibrated` found.

    Attributes
    ----------
    evidence
        One row for each retraining: distance, role ("shape" or "rank") and, where known, the distance of each layer.
    coverage
        The probability asked for.
    rank, n_ranked
        delta is the rank-th smallest of so many.
    confidence
        How sure it is that `coverage` is reached with this very history; None where only the average is promised.
    shared_rows
        Whether the retrainings are known to have learned from rows of each other. Then the next one is exchangeable
        with them if it draws from those rows too, and not on rows that nobody has seen.
    single_step
        Whether each retraining is known to have been a single step of the optimiser.
    """

    coverage: float
    rank: int
    n_ranked: int
    confidence: float | None = None
    shared_rows: bool = False
    single_step: bool = False

    @property
    def guaranteed(self) -> float:
        """The probability that is guaranteed, histories included: rank / (n_ranked + 1), at least `coverage`."""
        return self.rank / (self.n_ranked + 1)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The share of retrainings within every distance, and delta."""
        ax = axes_to_draw_on(ax, PICTURE)
        radii = self.delta if isinstance(self.delta, tuple) else (self.delta,)
        columns = [f"layer_{i + 1}" for i in range(len(radii))] if isinstance(self.delta, tuple) else ["distance"]
        for column, radius, style in zip(columns, radii, cycle(("-", "--", ":", "-.")), strict=False):
            distances = np.sort(self.evidence[column].to_numpy())
            share = 100 * np.arange(1, distances.size + 1) / distances.size
            ax.step(np.append(0.0, distances), np.append(0.0, share), where="post", color=DARK, linestyle=style)
            label = (
                f"{self.name}: {radius:.3g}" if column == "distance" else f"{column.replace('_', ' ')}: {radius:.3g}"
            )
            ax.axvline(radius, color=CHOSEN, linestyle=style, label=label)
        ax.axhline(100 * self.coverage, color=INK, linestyle=(0, (1, 3)), linewidth=1)
        ax.set_xlabel("distance from today's parameters")
        ax.set_ylabel("per cent of the retrainings")
        ax.set_xlim(left=0)
        ax.set_ylim(0, 103)
        legend_below(ax)
        return ax

    @property
    def name(self) -> str:
        """What a picture calls it."""
        return f"calibrated at {self.coverage:g}"

    def __str__(self) -> str:
        if isinstance(self.delta, tuple):
            whole = f"number {self.rank} of {self.n_ranked} ratios to the layers' usual distances, in rising order"
        else:
            whole = f"number {self.rank} of {self.n_ranked} distances in rising order"
        if self.confidence is not None:
            promise = (
                f"delta = {self.shown}: {whole}; with confidence {self.confidence:g} at least {self.coverage:g} of the "
                "retrainings to come stay within it, if they and these are independent and made alike"
            )
        else:
            promise = (
                f"delta = {self.shown}: {whole}; the next retraining stays within it with probability at least "
                f"{self.guaranteed:.3g}, if it is exchangeable with these"
            )
        caveats = [_SHARED_ROWS] * self.shared_rows + [SINGLE_STEP] * self.single_step
        return "; ".join([promise, *caveats])


def delta_calibrated(
    history: Any,
    *,
    coverage: float = 0.95,
    confidence: float | None = None,
    per_layer: bool = False,
    norm: float = math.inf,
    origin: Any = None,
) -> CalibratedDelta:
    """A delta that the next retraining stays within, with probability at least `coverage`.

    The one condition: the next retraining is *exchangeable* with those in `history`, that is, no order of all of them
    is likelier than another. It holds for independent retrainings made in the same way, on data drawn in the same way.
    It fails where retraining drifts (each month further), where the next run uses another optimiser or ten times the
    data, and where the history was picked for being calm. The probability is over the history as well: over many
    calibrations, so large a part of the next retrainings is covered. `confidence` asks it of the one at hand.

    Parameters
    ----------
    history
        Retrainings of one model (a `RetrainedModels`, or what `delta_incremental` found); or models in the order in
        which they were in use, each the retraining of the one before; or distances: n numbers, or n rows with one for
        each layer. Models have to share their preprocessing: behind a scaler that was fitted anew, parameters mean
        something else.
    coverage
        The probability p. It takes n >= p / (1 - p) retrainings: 9 for 0.9, 19 for 0.95, 99 for 0.99.
    confidence
        If given, the probability that this history's delta covers at least `coverage` of all retrainings to come, for
        independent ones made alike. It takes a longer history: at confidence 0.95, 29 retrainings for coverage 0.9 and
        59 for 0.95.
    per_layer
        One radius for each layer, with the same guarantee for all layers *together*. The first quarter of the history
        (fewer if the rest would be too few) gives the shape, each layer's mean distance s_l; the others are ranked by
        max_l distance_l / s_l, and the radii are s_l times the ratio of that rank. The shape comes from retrainings
        that are not ranked, because a shape that had seen the ranked ones, but not the next, would break the symmetry
        that the guarantee rests on.
    norm
        The norm in which models are compared.
    origin
        The model that all of `history` was retrained from, where it is a plain list of models.

    Raises
    ------
    InvalidInputError
        Among others if the history is too short for the coverage, or its models differ in their preprocessing.

    Examples
    --------
    >>> found = delta_calibrated([0.03, 0.05, 0.02, 0.04, 0.06, 0.01, 0.03, 0.02, 0.05], coverage=0.8)
    >>> print(found)
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
    if not (isinstance(coverage, int | float) and 0.0 < coverage < 1.0):
        raise InvalidInputError(f"coverage: expected a probability between 0 and 1, got {coverage!r}")
    if confidence is not None and not (isinstance(confidence, int | float) and 0.0 < confidence < 1.0):
        raise InvalidInputError(f"confidence: expected a probability between 0 and 1, or None, got {confidence!r}")
    if isinstance(history, IncrementalDelta):
        history = history.retrained
    whole, layers, measured = _distances(history, origin, norm)
    _check_distances(whole)
    needed = least_history(coverage, confidence)
    if per_layer:
        if layers is None:
            raise InvalidInputError("history: expected models, or a distance for each layer, got one for each model")
        _check_length(len(whole), needed, coverage, confidence, unranked=1)
        n_shape = max(1, min(len(whole) // 4, len(whole) - needed))
        shape, scores = _ratios(layers, n_shape)
    else:
        _check_length(len(whole), needed, coverage, confidence, unranked=0)
        n_shape, shape, scores = 0, np.ones(1), whole
    rank = _rank(scores.size, coverage, confidence)
    value = float(np.sort(scores)[rank - 1])
    if math.isinf(value):
        raise InvalidInputError(
            "history: expected each layer that ever moves to move in the first retrainings too, which give the shape; "
            "calibrate one radius for all layers instead"
        )
    # Numbers are the caller's own measure, and are handed back as they came.
    radii = outward(shape * value, norm) if measured or per_layer else shape * value
    delta: Delta = tuple(radii.tolist()) if per_layer else float(radii[0])
    evidence = _evidence(whole, layers, n_shape)
    drawn = isinstance(history, RetrainedModels)
    return CalibratedDelta(
        delta, float(norm), evidence, float(coverage), rank, int(scores.size), confidence,
        shared_rows=drawn and not history.disjoint, single_step=drawn and history.steps == 1,
    )  # fmt: skip


def _rank(n: int, coverage: float, confidence: float | None) -> int:
    """Which of n distances in rising order is large enough."""
    if confidence is None:
        # The product of two floats may lie a hair above a whole number.
        return max(1, math.ceil((n + 1) * coverage - 1e-9))
    return int(binom.ppf(confidence, n, coverage)) + 1


def least_history(coverage: float, confidence: float | None = None) -> int:
    """How many retrainings it takes, so that the largest distance will do: n / (n + 1) >= p, or p ** n <= 1 - c."""
    if confidence is None:
        return max(1, math.ceil(coverage / (1.0 - coverage) - 1e-9))
    n = max(1, math.ceil(math.log1p(-confidence) / math.log(coverage) - 1e-9))
    return n if _rank(n, coverage, confidence) <= n else n + 1


def _check_length(n: int, needed: int, coverage: float, confidence: float | None, *, unranked: int) -> None:
    if n < needed + unranked:
        ranked = n - unranked
        most = 0.0 if ranked < 1 else ranked / (ranked + 1) if confidence is None else (1 - confidence) ** (1 / ranked)
        at_most = f"; {n} support at most {most:.3g}" if most else ""
        surely = "" if confidence is None else f" with confidence {confidence:g}"
        raise InvalidInputError(
            f"history: expected at least {needed + unranked} retrainings for coverage {coverage:g}{surely}, "
            f"got {n}{at_most}"
        )


def _ratios(layers: Floats, n_shape: int) -> tuple[Floats, Floats]:
    """The shape from the first retrainings, and the largest ratio to it of each of the others."""
    shape, rest = layers[:n_shape].mean(axis=0), layers[n_shape:]
    unknown = np.where(rest > 0.0, np.inf, 0.0)
    ratios = np.divide(rest, shape, out=unknown, where=np.broadcast_to(shape > 0.0, rest.shape))
    return shape, np.asarray(ratios.max(axis=1))


def _distances(history: Any, origin: Any, norm: float) -> tuple[Floats, Floats | None, bool]:
    """Each retraining's distance, that of its layers where known, and whether they were measured on models here."""
    if isinstance(history, RetrainedModels) and origin is None:
        return history.distances(norm), history.distances(norm, per_layer=True), True
    numbers = _as_numbers(history)
    if numbers is not None:
        if numbers.ndim == 1:
            return numbers, None, False
        return np.linalg.norm(numbers, norm, axis=1), numbers, False
    models = [load_model(model) for model in history]
    steps = list(pairwise(models)) if origin is None else [(load_model(origin), model) for model in models]
    if not steps:
        raise InvalidInputError("history: expected at least two models, one retrained from the other")
    if not all(same_preprocessing(a, b) for a, b in steps):
        raise InvalidInputError(f"history: expected models {SAME_PREPROCESSING}")
    pairs = [(a.network, b.network) for a, b in steps]
    whole = np.array([parameter_distance(a, b, norm) for a, b in pairs])
    return whole, np.array([layer_distances(a, b, norm) for a, b in pairs]), True


def _as_numbers(history: Any) -> Floats | None:
    """The history as an array if it is one of numbers, else None."""
    if isinstance(history, pd.Series | pd.DataFrame):
        history = history.to_numpy()
    if not isinstance(history, Sequence | np.ndarray) or isinstance(history, str | bytes):
        raise InvalidInputError(f"history: expected a sequence of models or of distances, got {type(history).__name__}")
    if not all(isinstance(item, int | float | np.number | Sequence | np.ndarray) for item in history):
        return None
    if any(isinstance(item, str) for item in history):
        return None
    try:
        numbers = np.asarray(history, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"history: expected distances, got {error}") from error
    if numbers.ndim not in (1, 2):
        raise InvalidInputError(f"history: expected n distances, or n rows of them, got shape {numbers.shape}")
    return numbers


def _check_distances(distances: Floats) -> None:
    if not (np.isfinite(distances) & (distances >= 0.0)).all():
        worst = distances[~(np.isfinite(distances) & (distances >= 0.0))][0]
        raise InvalidInputError(f"history: expected distances >= 0, got {worst}")


def _evidence(whole: Floats, layers: Floats | None, n_shape: int) -> pd.DataFrame:
    role = np.where(np.arange(len(whole)) < n_shape, "shape", "rank")
    columns = {} if layers is None else {f"layer_{i + 1}": layers[:, i] for i in range(layers.shape[1])}
    return pd.DataFrame({"distance": whole, "role": role} | columns)
