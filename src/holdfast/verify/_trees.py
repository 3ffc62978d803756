"""Who decides about trees whose leaves and thresholds may move, of which some may go and others come.

For each rival the margin is a sum over trees,  sum_t w·leaf_t(x) / divisor + constant;  every tree takes its own worst
leaf among those that the row may reach. What the library's own sums may round is taken off.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast._forest import Forest, sum_less_dropped
from holdfast._leaf_masks import Least
from holdfast._network import Floats, Ints, Network
from holdfast._scored import CHECKED, Scored
from holdfast._trees import TreeEnsemble
from holdfast.changes import TreeChanges
from holdfast.errors import InvalidInputError
from holdfast.importers import Model
from holdfast.importers._model import as_network
from holdfast.verify._closed_form import ClosedForm, upper_end
from holdfast.verify._tree_radius import Moving, chunks, openings


@dataclass(frozen=True)
class Over:
    """A rival: the margin over it is  weights · sums + constant; added trees take `lost` times the shift off it.

    Of forests the shift is one of probabilities: where two are compared, one may fall and the other rise.
    """

    weights: Floats
    constant: float
    lost: float = 1.0


def rivals(trees: TreeEnsemble, target: int) -> list[Over]:
    """The margins that have to stay above 0, in the trees' own sums."""
    votes, k = trees.score, trees.forest.n_outputs
    sign = 1.0 if target == 1 else -1.0
    if len(trees.labels) > 2:
        if votes.shares and votes.off:
            raise InvalidInputError(
                "threshold: expected none for a forest of several classes whose leaves may move, got some"
            )
        off = np.array(votes.off or np.zeros(k))
        units, lost = np.eye(k), 2.0 if votes.shares else 1.0
        return [
            Over(units[target] - units[other], float(off[other] - off[target]), lost)
            for other in range(k)
            if other != target
        ]
    if not votes.shares:
        return [Over(np.array([sign]), -sign * votes.off[0] if votes.off else 0.0)]
    if votes.off:
        raise InvalidInputError(
            "model: expected a forest without calibration where its leaves may move, got a calibrated one"
        )
    if votes.bar is None:
        return [Over(sign * np.array([-1.0, 1.0]), 0.0, 2.0)]
    if votes.first:
        return [Over(sign * np.array([-1.0, 0.0]), sign * votes.bar)]
    return [Over(sign * np.array([0.0, 1.0]), -sign * votes.bar)]


class MovingTrees(ClosedForm):
    """Trees whose leaves and thresholds may move."""

    classifier: TreeEnsemble
    changes: TreeChanges

    def __init__(self, model: Model, changes: TreeChanges) -> None:
        trees = model.classifier
        if not isinstance(trees, TreeEnsemble):
            why = f": {trees.why}" if isinstance(trees, Scored) else ""
            raise InvalidInputError(f"TreeChanges: expected trees, got {trees!r}{why}")
        if changes.dropped and trees.forest.divisor != 1.0 and (trees.score.bar or trees.score.off):
            # The mean of fewer trees is another mean: only its sign at one half stays a sum's.
            raise InvalidInputError(
                "dropped: expected 0 for the mean of trees at a threshold of its own, got "
                f"{changes.dropped}"
            )
        self.classifier, self.changes, self.forest = trees, changes, trees.forest
        self._set(changes)

    def _set(self, changes: TreeChanges) -> None:
        self.radii = changes.leaf_radii(self.classifier)
        self.low, self.high = self.forest.around(changes.threshold_radii(self.classifier))
        self.cuts = self.forest.cuts(self.low), self.forest.cuts(self.high)
        self.least: dict[tuple[float, ...], Least] = {}
        self.shift = changes.shift * changes.factor
        reach = np.abs(self.forest.values) + self.radii[:, None]
        if not max(reach.max(initial=0.0), self.shift * self.forest.divisor) < 1e300:
            raise InvalidInputError(
                f"leaves: expected radii whose sums stay within floating point, got {changes!r}"
            )
        # At most so large are the terms of each sum together, whatever the row.
        self.most = self.forest.sizes(reach)[None, :] + self.shift * self.forest.divisor

    def worst(self, points: Floats, target: int) -> tuple[Floats, Floats]:
        """The sum of the least that each tree adds, less what is dropped and shifted."""
        X = self._read(points)
        overs = rivals(self.classifier, target)
        sums = np.stack([self._sums(X, over) for over in overs])
        spare = np.stack([self._spare(self.most, over) for over in overs])
        lower, upper = self._ends(sums, spare)
        near = np.flatnonzero(~(lower > 0.0) & ~(upper < 0.0))
        if near.size:
            sizes = self._sizes(X[near])
            spare = np.stack([self._spare(sizes, over) for over in overs])
            lower[near], upper[near] = self._ends(sums[:, near], spare)
        return self._as_logits(lower), self._as_logits(upper)

    def _read(self, points: Floats) -> Floats:
        """What the trees read at points."""
        if self.classifier.predict_labels is not None and not self.classifier.tally.agreed:
            # Held against the model's own predictions, once.
            self.classifier.logits(points[:CHECKED])
        return self.classifier.matrix(points)

    def ranges(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """Bounds of each logit from below and from above, and how much of them is rounding, (n, logits) each."""
        votes, forest = self.classifier.score, self.forest
        if votes.shares or (self.changes.dropped and forest.divisor != 1.0):
            raise InvalidInputError(
                "model: expected trees whose logits are sums of leaves, got a forest, whose logits are logarithms, or "
                "a mean of which trees are dropped"
            )
        X, off = self.classifier.matrix(points), votes.off or (0.0,) * forest.n_outputs
        sizes = self._sizes(X)
        ends, spares = [], []
        for sign in (1.0, -1.0):
            overs = [
                Over(sign * unit, -sign * float(less))
                for unit, less in zip(np.eye(forest.n_outputs), off, strict=True)
            ]
            spare = np.stack([self._spare(sizes, over) for over in overs], axis=1) + votes.band
            sums = np.stack([self._sums(X, over) for over in overs], axis=1)
            ends.append(sign * (sums - spare))
            spares.append(2.0 * spare)
        return ends[0], ends[1], np.maximum(*spares)

    def _ends(self, sums: Floats, spare: Floats) -> tuple[Floats, Floats]:
        """Bounds of the least margin over all rivals, (rivals, rows)."""
        band = self.classifier.score.doubt
        # The worst leaves that a library can hold lie a unit of rounding beside those of the set.
        return (sums - spare - band).min(axis=0), (sums + 2.0 * spare + band).min(axis=0)

    def _sizes(self, X: Floats) -> Floats:
        """At most so large are the terms of each sum together, at each row, (rows, outputs)."""
        forest = self.forest
        sizes = np.tile(np.abs(forest.base) + self.shift * forest.divisor, (X.shape[0], 1))
        reach = np.abs(forest.values) + self.radii[:, None]
        for place in range(reach.shape[1]):
            for rows, terms in forest.least(X, -reach[:, place], *self.cuts):
                if forest.vector:
                    sizes[rows, place] -= terms.sum(axis=1)
                else:
                    np.subtract.at(sizes[rows].T, forest.output, terms.T)
        return np.asarray(sizes * (1.0 + 2.0**-40))

    def _spare(self, sizes: Floats, over: Over) -> Floats:
        """How far a library's margin may be from the sum of its leaves, and ours, in float64, from the true one."""
        forest, weights = self.forest, np.abs(over.weights)
        ours = 2.0**-53 * (2 * forest.n_trees + 16)
        total = sizes @ weights / forest.divisor + abs(over.constant) + over.lost * self.shift
        return np.asarray(forest.sum_error(sizes) @ weights + ours * total)

    def _sums(self, X: Floats, over: Over) -> Floats:
        forest, out = self.forest, np.empty(X.shape[0])
        start = float(over.weights @ forest.base)
        key = tuple(over.weights.tolist())
        if key not in self.least:
            costs = forest.worth(over.weights, self.radii)
            self.least[key] = Least(forest, costs, *self.cuts)
        for rows, terms in self.least[key](X):
            total = sum_less_dropped(terms, self.changes.dropped)
            out[rows] = (start + total) / forest.divisor + over.constant - over.lost * self.shift
        return out

    def _as_logits(self, margins: Floats) -> Floats:
        """Differences of two probabilities as log-odds, to keep one scale; others as they are."""
        votes = self.classifier.score
        if not votes.shares or len(self.classifier.labels) > 2 or votes.bar is not None:
            return margins
        inside = np.clip(margins, -1.0 + 2.0**-52, 1.0 - 2.0**-52)
        return np.asarray(2.0 * np.arctanh(inside))

    def holds(self, point: Floats, target: int) -> bool:
        """The worst margin in fractions, less what a library's sums may round at this point."""
        x = self.classifier.matrix(point[None, :])[0]
        ways = self.forest.reachable(x, *self.cuts)
        reached = [way[-1] for tree in ways for way in tree]
        still = len(reached) == len(ways) and not self.radii[reached].any()
        # Another order of the same sum may round otherwise.
        sure = self.forest.ordered and _decides(self.classifier)
        if still and sure and not (self.changes.dropped or self.shift):
            # Nothing that moves is met: every model computes what today's computes.
            return int(self.classifier.predict_index(point[None, :])[0]) == target
        return all(
            self._exactly(ways, over) > self._error(x, over)
            for over in rivals(self.classifier, target)
        )

    def _exactly(self, ways: list[list[tuple[int, ...]]], over: Over) -> Fraction:
        factors = self.forest.factors(over.weights)
        terms = [min(self._term(way[-1], factors) for way in tree) for tree in ways]
        start = sum(
            (
                Fraction(w) * Fraction(b)
                for w, b in zip(over.weights, self.forest.base, strict=True)
            ),
            Fraction(0),
        )
        gone = sorted(terms, reverse=True)[: self.changes.dropped]
        total = start + sum(terms) - sum(max(term, Fraction(0)) for term in gone)
        divisor = Fraction(self.forest.divisor)
        return (
            total / divisor + Fraction(over.constant) - Fraction(over.lost) * Fraction(self.shift)
        )

    def _term(self, leaf: int, factors: Floats) -> Fraction:
        radius = Fraction(float(self.radii[leaf]))
        parts = zip(factors[leaf].tolist(), self.forest.values[leaf].tolist(), strict=True)
        return sum(
            (Fraction(w) * Fraction(v) - abs(Fraction(w)) * radius for w, v in parts), Fraction(0)
        )

    def _error(self, x: Floats, over: Over) -> Fraction:
        """How far the library's sum may be from the true one at a row, over what it may reach."""
        sizes = self._sizes(x[None, :])[0]
        error = self.forest.sum_error(sizes) @ np.abs(over.weights)
        # The threshold is taken off in float64.
        rounded = 4.0 * 2.0**-53 * (float(sizes.sum()) / self.forest.divisor + abs(over.constant))
        return Fraction(float(error) + rounded + self.classifier.score.doubt)

    def counter_model(self, point: Floats, target: int) -> TreeEnsemble | None:
        """Today's trees, or the worst ones for a rival, as the library can hold them."""
        for over in (None, *rivals(self.classifier, target)):
            other = self.classifier if over is None else self._worst(point, over)
            if int(other.predict_index(point[None, :])[0]) != target and self._sure(
                other, point, target
            ):
                return other
        return None

    def _sure(self, other: TreeEnsemble, point: Floats, target: int) -> bool:
        """Probabilities of several classes, or at a threshold, may tie where margins do not, as in another order."""
        forest, band = other.forest, other.score.doubt
        if forest.ordered and _decides(other):
            return True
        sums = forest.sums(other.matrix(point[None, :]))[0]
        spare = np.zeros(sums.size) if forest.ordered else 2.0 * forest.rounding()
        return any(
            over.weights @ sums + over.constant < -(band + np.abs(over.weights) @ spare)
            for over in rivals(other, target)
        )

    def _worst(self, point: Floats, over: Over) -> TreeEnsemble:
        forest = self.forest
        ways = forest.reachable(self.classifier.matrix(point[None, :])[0], *self.cuts)
        values, threshold = forest.values.copy(), forest.threshold.copy()
        costs = forest.worth(over.weights, self.radii)
        chosen = [min(tree, key=lambda way: costs[way[-1]]) for tree in ways]
        away = np.sign(forest.factors(over.weights)) * self.radii[:, None]
        moved = inward(values - away, values, self.radii, forest)
        values = np.where(forest.leaves[:, None], moved, values)
        for way in chosen:
            for node, below in pairwise(way):
                if forest.numeric[node]:
                    left = below == forest.left[node]
                    threshold[node] = self.high[node] if left else self.low[node]
        terms = np.array([costs[way[-1]] for way in chosen])
        for tree in np.argsort(-terms, kind="stable")[: self.changes.dropped].tolist():
            if terms[tree] > 0.0:
                values[forest.tree_of == tree] = 0.0
        other = forest.changed(values, threshold)
        if self.shift:
            most, none = np.nextafter(self.shift * forest.divisor, [0.0]), np.zeros((1, 1))
            part = inward(most[:, None], none, most, forest).item()
            for place in np.flatnonzero(over.weights)[: int(over.lost)].tolist():
                other = other.with_constant(place, -float(np.sign(over.weights[place])) * part)
        return self.classifier.with_forest(other)

    def radius(self, points: Floats, target: int) -> tuple[Floats, Floats]:
        """The factor up to which each point holds, the least over all rivals; each end is proven."""
        X = self._read(points)
        lower, upper = np.full(X.shape[0], np.inf), np.full(X.shape[0], np.inf)
        unit = self.changes.resized(1.0)
        radii, far = unit.leaf_radii(self.classifier), unit.threshold_radii(self.classifier)
        for rows in chunks(X.shape[0], int(self.forest.leaves.sum())):
            leaves, starts, opens = self._open(X[rows], far)
            for over in rivals(self.classifier, target):
                moving = self._moving(over, radii, leaves, starts, opens)
                low, high = moving.ends()
                lower[rows] = np.minimum(lower[rows], low)
                upper[rows] = np.minimum(upper[rows], high)
        return lower, upper_end(upper)

    def _open(self, X: Floats, far: Floats) -> tuple[NDArray[Any], Ints, Floats | None]:
        """The leaves that rows may ever reach, (rows, leaves), where trees begin, and the factors that open them."""
        forest = self.forest
        if not far.any():
            return forest.leaf_of(X), np.arange(forest.n_trees), None
        nodes, starts = forest.by_tree
        return np.tile(nodes, (X.shape[0], 1)), starts, openings(forest, X, far)[:, nodes]

    def _moving(
        self, over: Over, radii: Floats, leaves: NDArray[Any], starts: Ints, opens: Floats | None
    ) -> Moving:
        forest, sizes = self.forest, np.abs(over.weights)
        factors = forest.factors(over.weights)
        value, size = (
            (factors * forest.values).sum(axis=1),
            np.abs(factors * forest.values).sum(axis=1),
        )
        value, moves, size = (
            part[leaves] for part in (value, np.abs(factors).sum(axis=1) * radii, size)
        )
        if opens is None and not self.changes.dropped:
            # What never changes its leaf is one sum.
            value, moves, size = (part.sum(axis=1, keepdims=True) for part in (value, moves, size))
        started = float(sizes @ np.abs(forest.base)) / forest.divisor + abs(over.constant)
        start = float(over.weights @ forest.base) / forest.divisor + over.constant
        return Moving(
            forest, value, moves, size, opens, starts, start, started,
            (self.changes.shift * over.lost, self.changes.shift * float(sizes.sum())),
            self.changes.dropped, self.classifier.score.doubt,
        )  # fmt: skip

    def critics(self, point: Floats, target: int) -> list[Network]:
        """Trees are no network."""
        return [as_network(self.classifier)]


def _decides(trees: TreeEnsemble) -> bool:
    """Whether our margins give the library's class to the last bit: its probability at a threshold is not known so."""
    votes = trees.score
    return not votes.doubt or (len(trees.labels) == 2 and not votes.off)


def inward(wanted: Floats, today: Floats, radii: Floats, forest: Forest) -> Floats:
    """Leaves as the library can hold them, rounded towards today's, never further from them than their radii."""
    if forest.single:
        near = wanted.astype(np.float32)
        back = np.nextafter(near, today.astype(np.float32))
        wanted = near.astype(np.float64)
    else:
        back = np.nextafter(wanted, today)
    # A difference of two numbers rounds; a unit inside is inside.
    unsure = np.abs(wanted - today) >= radii[:, None] * (1.0 - 2.0**-50)
    return np.where(unsure, np.asarray(back, dtype=np.float64), wanted)
