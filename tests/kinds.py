"""Every kind of plausible change with every kind of model, one table; and what is true of each, in fractions.

Nothing here shares code with what it judges: worst margins are computed by plain elimination.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

import holdfast as hf
from holdfast._trees import Votes
from holdfast.changes import Changes
from holdfast.importers._tree_parts import Tree, forest_of, tree_model
from reference import exact_logits

Exact = list[Fraction]


# --- what is true ----------------------------------------------------------------------------------------------------


def logits_of(model: Any, x: np.ndarray) -> Exact:
    """The scores of a model at a point, exactly."""
    if isinstance(model, hf.Network):
        return exact_logits(model, x)
    return [Fraction(score) for score in model.logits(x[None])[0].tolist()]


def rivals_of(logits: Exact, target: int, tie: int) -> list[tuple[Fraction, bool]]:
    """The margin over each rival, and whether a tie with it is lost."""
    if len(logits) == 1:
        return [(logits[0] if target else -logits[0], target != tie)]
    return [
        (logits[target] - logit, rival < target)
        for rival, logit in enumerate(logits)
        if rival != target
    ]


def accepts(model: Any, x: np.ndarray, target: int) -> bool:
    """Whether a model gives the class, in exact arithmetic."""
    return all(
        m > 0 or (m == 0 and not lost)
        for m, lost in rivals_of(logits_of(model, x), target, model.tie)
    )


def inverse_square(shape: np.ndarray, direction: list[Fraction]) -> Fraction:
    """gᵀ H⁻¹ g by plain elimination in fractions."""
    rows = [
        [Fraction(h) for h in row] + [g] for row, g in zip(shape.tolist(), direction, strict=True)
    ]
    total = Fraction(0)
    for i, pivot in enumerate(rows):
        for row in rows[i + 1 :]:
            factor = row[i] / pivot[i]
            row[i:] = [a - factor * b for a, b in zip(row[i:], pivot[i:], strict=True)]
        total += pivot[-1] ** 2 / pivot[i]
    return total


def directions(network: hf.Network, x: np.ndarray, target: int) -> list[list[Fraction]]:
    """For each rival g with  margin = gᵀθ,  θ the weights, output by output, and then the biases."""
    point, k = [Fraction(v) for v in x.tolist()], network.n_outputs
    signs = (
        [[1 if target else -1]]
        if k == 1
        else [
            [int(o == target) - int(o == rival) for o in range(k)]
            for rival in range(k)
            if rival != target
        ]
    )
    return [[s * v for s in row for v in point] + [Fraction(s) for s in row] for row in signs]


def reached(forest: Any, node: int, x: list[float], radii: list[float]) -> list[int]:
    """The leaves below a node that a row reaches for some thresholds, floats within their radii."""
    column = int(forest.feature[node])
    if column < 0:
        return [node]
    value, cut, reach = x[column], float(forest.threshold[node]), Fraction(radii[column])
    left = right = bool(forest.missing_left[node])
    right = not left
    if value == value:
        left = value <= Fraction(cut) + reach
        right = value > cut or math.nextafter(value, -math.inf) >= Fraction(cut) - reach
    found = reached(forest, int(forest.left[node]), x, radii) if left else []
    return found + (reached(forest, int(forest.right[node]), x, radii) if right else [])


def worst_of_trees(model: Any, changes: Any, x: np.ndarray, target: int) -> list[Fraction]:
    """The worst margin over each rival: every tree takes its least leaf, the dearest trees are dropped."""
    forest, k = model.forest, model.forest.n_outputs
    leaves = np.flatnonzero(forest.feature < 0).tolist()
    each = np.broadcast_to(changes.leaves, len(leaves)) * changes.factor
    radius = dict(zip(leaves, map(Fraction, each.tolist()), strict=True))
    reach = [float(changes.thresholds * changes.factor)] * forest.width
    found = [reached(forest, root, x.tolist(), reach) for root in forest.roots.tolist()]
    sides = (
        [[1 if target else -1]]
        if k == 1
        else [
            [(o == target) - (o == rival) for o in range(k)]
            for rival in range(k)
            if rival != target
        ]
    )
    worst = []
    for side in sides:
        terms = [
            min(
                side[o] * Fraction(float(forest.values[i, 0])) - abs(side[o]) * radius[i]
                for i in own
            )
            for own, o in zip(found, forest.output.tolist(), strict=True)
        ]
        gone = sum(
            (max(t, Fraction(0)) for t in sorted(terms)[::-1][: changes.dropped]), Fraction(0)
        )
        start = sum(
            (w * Fraction(b) for w, b in zip(side, forest.base.tolist(), strict=True)), Fraction(0)
        )
        worst.append(start + sum(terms) - gone - Fraction(changes.shift * changes.factor))
    return worst


def among_trees(model: Any, changes: Any, witness: Any) -> bool:
    """Whether trees are today's but for leaves, thresholds, trees dropped and one that is added, exactly."""
    ours, theirs = model.forest, witness.forest
    n, added = ours.feature.size, theirs.n_trees - ours.n_trees
    extra = sum(abs(Fraction(v)) for v in theirs.values[n:, 0].tolist())
    leaves = np.flatnonzero(ours.feature < 0).tolist()
    each = (np.broadcast_to(changes.leaves, len(leaves)) * changes.factor).tolist()
    gone = set()
    for leaf, radius in zip(leaves, each, strict=True):
        a, b = (Fraction(float(forest.values[leaf, 0])) for forest in (ours, theirs))
        if abs(a - b) > Fraction(radius):
            gone.add(int(ours.tree_of[leaf]))
    emptied = all(not theirs.values[:n][ours.tree_of == tree].any() for tree in gone)
    reach = Fraction(float(changes.thresholds * changes.factor))
    moved = [
        abs(Fraction(a) - Fraction(b)) <= reach
        for a, b in zip(ours.threshold.tolist(), theirs.threshold[:n].tolist(), strict=True)
    ]
    return (
        np.array_equal(ours.feature, theirs.feature[:n])
        and np.array_equal(ours.left, theirs.left[:n])
        and np.array_equal(ours.missing_left, theirs.missing_left[:n])
        and added <= (changes.shift > 0.0)
        and extra <= Fraction(changes.shift * changes.factor)
        and emptied
        and len(gone) <= changes.dropped
        and all(moved)
    )


def worst_of(
    model: Any, changes: Changes, x: np.ndarray, target: int
) -> tuple[bool, Fraction, Fraction]:
    """Whether the promise holds; and an enclosure of the worst margin."""
    if isinstance(changes, hf.TreeChanges):
        each = worst_of_trees(model, changes, x, target)
        ties = [lost for _, lost in rivals_of(logits_of(model, x), target, model.tie)]
        holds = all(m > 0 or (m == 0 and not lost) for m, lost in zip(each, ties, strict=True))
        return holds, min(each), min(each)
    today = rivals_of(logits_of(model, x), target, model.tie)
    if isinstance(changes, hf.Ellipsoid):
        holds, ends = True, []
        for (margin, lost), g in zip(today, directions(model, x, target), strict=True):
            square = Fraction(changes.radius) ** 2 * inverse_square(changes.shape, g)
            holds = (
                holds and margin >= 0 and (margin**2 > square or (margin**2 == square and not lost))
            )
            low = root(square)
            ends.append((margin - low * (1 + Fraction(1, 2**200)), margin - low))
        return holds, min(low for low, _ in ends), min(high for _, high in ends)
    models = list(changes.models) if isinstance(changes, hf.EnsembleShift) else [model]
    each = [rivals_of(logits_of(one, x), target, model.tie) for one in models]
    least = min(
        sum(m for m, _ in rival) / len(models) for rival in zip(*each, strict=True)
    ) - Fraction(changes.size)
    # Whatever has that margin may become of the model: also one with a tie that is lost, if any is.
    lost = any(lost for _, lost in today)
    kept = (least > 0 or (least == 0 and not lost)) and accepts(model, x, target)
    least = min(least, *(m for m, _ in today))
    return kept, least, least


def root(square: Fraction) -> Fraction:
    """The square root of a fraction, from below, to 2**-200 relatively."""
    if not square:
        return square
    shift = 2 * (210 + max(0, square.denominator.bit_length() - square.numerator.bit_length()))
    return Fraction(
        math.isqrt((square.numerator << shift) // square.denominator), 2 ** (shift // 2)
    )


def belongs(model: Any, changes: Changes, x: np.ndarray, target: int, witness: Any) -> bool:
    """Whether a counter-model is one of those that may come, in exact arithmetic."""
    if witness is model:
        return True
    if isinstance(changes, hf.TreeChanges):
        return among_trees(model, changes, witness)
    if isinstance(changes, hf.Ellipsoid):
        ours, theirs = (
            np.append(net.weights[0], net.biases[0]).tolist() for net in (model, witness)
        )
        step = [Fraction(b) - Fraction(a) for a, b in zip(ours, theirs, strict=True)]
        shape = changes.shape.tolist()
        length = sum(
            step[i] * sum(Fraction(h) * s for h, s in zip(shape[i], step, strict=True))
            for i in range(len(step))
        )
        return bool(length <= Fraction(changes.radius) ** 2)
    own = min(m for m, _ in rivals_of(logits_of(witness, x), target, model.tie))
    models = list(changes.models) if isinstance(changes, hf.EnsembleShift) else [model]
    each = [rivals_of(logits_of(one, x), target, model.tie) for one in models]
    least = min(sum(m for m, _ in rival) / len(models) for rival in zip(*each, strict=True))
    return bool(own >= least - Fraction(changes.size))


# --- the table of cases ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A model, a kind of change, and points with the classes that they should keep."""

    model: Any
    changes: Changes
    points: np.ndarray
    targets: np.ndarray


def random_model(
    rng: np.random.Generator, hidden: tuple[int, ...], outputs: int, d: int, kind: str = "relu"
) -> hf.Network:
    sizes = [d, *hidden, outputs]
    weights = [rng.normal(size=(b, a)) for a, b in pairwise(sizes)]
    biases = [rng.normal(size=b) * 0.3 for b in sizes[1:]]
    return hf.Network(weights, biases, activations=[kind] * len(hidden))


def random_trees(rng: np.random.Generator, d: int, outputs: int) -> hf.TreeEnsemble:
    """A few trees of two levels, which know where a row goes that lacks a value."""
    trees = []
    for number in range(int(rng.integers(1, 4)) * outputs):
        cut = np.append(rng.normal(size=3), np.zeros(4))
        trees.append(
            Tree(
                feature=np.append(rng.integers(0, d, 3), np.full(4, -1)),
                left=np.array([1, 3, 5, 0, 0, 0, 0]),
                right=np.array([2, 4, 6, 0, 0, 0, 0]),
                missing_left=rng.random(7) < 0.5,
                values=np.append(np.zeros(3), rng.normal(size=4)),
                threshold=cut,
                output=number % outputs,
            )
        )
    forest = forest_of(trees, rng.normal(size=outputs) * 0.3, d)
    trees = tree_model(Votes(forest), range(max(2, outputs))).classifier
    assert isinstance(trees, hf.TreeEnsemble)
    return trees


MODELS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "linear": lambda rng, d: random_model(rng, (), 1, d),
    "several classes": lambda rng, d: random_model(rng, (), 3, d),
    "network": lambda rng, d: random_model(rng, (3, 2), 1, d),
    "network of several classes": lambda rng, d: random_model(rng, (3,), 3, d),
    "identity layers": lambda rng, d: random_model(rng, (2, 2), 2, d, "identity"),
    "scores": lambda rng, d: hf.scored(Line(rng.normal(size=(1, d))), output="margin"),
    "scores of several classes": lambda rng, d: hf.scored(
        Line(rng.normal(size=(3, d))), classes=(0, 1, 2), output="margin"
    ),
    "trees": lambda rng, d: random_trees(rng, d, 1),
    "trees of several classes": lambda rng, d: random_trees(rng, d, 3),
}


@dataclass(frozen=True)
class Line:
    """A score that no reader looks into."""

    weight: np.ndarray

    def __call__(self, table: Any) -> np.ndarray:
        # A sum that does not depend on how many rows there are.
        return np.sum(np.asarray(table, dtype=float)[:, None, :] * self.weight, axis=2)


def _shift(rng: np.random.Generator, make: Callable[[], Any], model: Any) -> Changes:
    return hf.PlausibleShift(float(10.0 ** rng.uniform(-3, 0.5)) * rng.integers(0, 3))


def _ensemble(rng: np.random.Generator, make: Callable[[], Any], model: Any) -> Changes:
    return hf.EnsembleShift(
        [make() for _ in range(int(rng.integers(1, 4)))], float(10.0 ** rng.uniform(-3, 0.3))
    )


def random_ellipsoid(
    rng: np.random.Generator, make: Callable[[], Any] | None, model: Any, spread: float = 1.5
) -> Changes:
    """A shape with eigenvalues that lie so many powers of ten apart, and more."""
    n = model.n_parameters
    turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
    shape = (turn * 10.0 ** rng.uniform(-spread, spread, n)) @ turn.T
    return hf.Ellipsoid((shape + shape.T) / 2.0, float(10.0 ** rng.uniform(-3, 0.5)))


def _trees(rng: np.random.Generator, make: Callable[[], Any], model: Any) -> Changes:
    own = int(model.forest.leaves.sum())
    return hf.TreeChanges(
        leaves=rng.random(own) * 0.3 if rng.random() < 0.5 else float(rng.random() * 0.3),
        thresholds=float(rng.choice([0.0, 0.2, 0.5])),
        dropped=int(rng.integers(0, 2)),
        shift=float(rng.choice([0.0, 0.1])),
    )


KINDS = {
    "shift": _shift,
    "ensemble": _ensemble,
    "ellipsoid": random_ellipsoid,
    "trees": _trees,
}
TABLE = [
    (kind, model, scale)
    for kind in KINDS
    for model in MODELS
    for scale in ("ordinary", "dyadic", "extreme", "ill")
    if model.startswith("trees") or kind != "trees"
    if not model.startswith("trees") or (kind != "ellipsoid" and scale != "extreme")
    if kind != "ellipsoid" or model in ("linear", "several classes")
    if kind == "ellipsoid" or scale != "ill"
]


def question(kind: str, model: str, seed: int, scale: str) -> Question:
    """Points and parameters of any size, half of them moved to where the answer turns."""
    rng = np.random.default_rng([seed, *map(ord, kind + model)])
    d = int(rng.integers(1, 4))
    make = lambda: MODELS[model](rng, d)  # noqa: E731
    today = make()
    changes = (
        KINDS[kind](rng, make, today) if scale != "ill" else random_ellipsoid(rng, make, today, 5.0)
    )
    points = rng.normal(size=(4, d)) * (rng.random((4, d)) > 0.1)
    if isinstance(today, hf.TreeEnsemble):
        points = np.where(rng.random((4, d)) < 0.1, np.nan, points)
    if scale == "dyadic":
        points = np.round(4 * points) / 4
        today, changes = _dyadic(today, changes)
    elif scale == "extreme":
        today, changes, points = _extreme(rng, today, changes, points)
    targets = today.predict_index(points)
    if rng.random() < 0.2:
        targets = rng.integers(0, len(today.classes), 4)
    return Question(
        today, _at_the_edge(rng, today, changes, points[0], int(targets[0]), scale), points, targets
    )


def _dyadic(model: Any, changes: Changes) -> tuple[Any, Changes]:
    """Few bits in everything, so that margins meet shifts exactly."""
    if isinstance(changes, hf.Ellipsoid):
        changes = hf.Ellipsoid(
            np.diag(4.0 ** np.round(np.log2(np.diag(changes.shape)) / 2.0)), 0.25
        )
    elif isinstance(changes, hf.TreeChanges):
        changes = hf.TreeChanges(
            leaves=np.round(8 * np.asarray(changes.leaves)) / 8,
            thresholds=round(4 * changes.thresholds) / 4,
            dropped=changes.dropped,
            shift=round(8 * changes.shift) / 8,
        )
    elif isinstance(changes, hf.EnsembleShift):
        changes = hf.EnsembleShift(
            [_rounded(one) for one in changes.models], round(4 * changes.size) / 4
        )
    else:
        changes = changes.resized(round(4 * changes.size) / 4)
    return _rounded(model), changes


def _rounded(model: Any) -> Any:
    if isinstance(model, hf.TreeEnsemble):
        forest = model.forest.changed(
            np.round(4 * model.forest.values) / 4, np.round(4 * model.forest.threshold) / 4
        )
        return model.with_forest(replace(forest, base=np.round(4 * forest.base) / 4))
    if not isinstance(model, hf.Network):
        return hf.scored(
            Line(np.round(2 * model.score.weight) / 2), classes=model.labels, output="margin"
        )
    weights, biases = (
        [np.round(2 * part) / 2 for part in parts] for parts in (model.weights, model.biases)
    )
    return model.with_parameters(weights, biases)


def _extreme(
    rng: np.random.Generator, model: Any, changes: Changes, points: np.ndarray
) -> tuple[Any, Changes, np.ndarray]:
    """Columns in units from 1e-30 to 1e30."""
    units = 10.0 ** rng.uniform(-30, 30, points.shape[1])
    if isinstance(model, hf.Network):
        size = 10.0 ** rng.uniform(-30, 30)
        weights = [model.weights[0] / units, *model.weights[1:]]
        weights[-1] = weights[-1] * size
        model = model.with_parameters(weights, [*model.biases[:-1], model.biases[-1] * size])
        if isinstance(changes, hf.Ellipsoid):
            each = size / np.append(np.tile(units, model.n_outputs), np.ones(model.n_outputs))
            each *= 10.0 ** rng.uniform(-6, 6)
            changes = hf.Ellipsoid(changes.shape / each / each[:, None], changes.radius)
        elif not isinstance(changes, hf.EnsembleShift):
            changes = changes.resized(changes.size * size)
    return model, changes, points * units


def _at_the_edge(
    rng: np.random.Generator, model: Any, changes: Changes, x: np.ndarray, target: int, scale: str
) -> Changes:
    """The size at which the answer for one point turns, or a hair beside it; else the changes as they are."""
    if rng.random() < 0.4:
        return changes
    lower, upper = (
        hf.certified_radius(model, x[None], model.classes[target], changes=changes)
        .to_frame()
        .iloc[0]
    )
    if not 0.0 < upper < 1e200:
        return changes
    size = (
        0.5
        * (lower + upper)
        * (1.0 + rng.choice([-1.0, 1.0]) * rng.choice([0.0, 1e-16, 1e-15, 1e-13, 1e-9, 0.1]))
    )
    return changes.resized(
        round(64 * size) / 64
        if scale == "dyadic" and not isinstance(changes, hf.Ellipsoid)
        else size
    )
