"""Decider for trees whose leaves and thresholds may move, and whose trees may be removed and added.

For each rival the margin is a sum over trees,  sum_t w·leaf_t(x) / divisor + constant;  every tree takes its own worst
leaf among the reachable ones. The rounding of the library's own sums is subtracted.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from holdfast._forest import Forest, sum_less_dropped
from holdfast._leaf_masks import Least
from holdfast._network import Floats, Network, Pair
from holdfast._scored import CHECKED, Scored
from holdfast._trees import TreeEnsemble
from holdfast.changes import TreeChanges
from holdfast.errors import InvalidInputError
from holdfast.importers import Model
from holdfast.importers._model import as_network
from holdfast.verify._closed_form import ClosedForm, upper_end
from holdfast.verify._engine import cut
from holdfast.verify._tree_radius import Moving, Reached

_fractions = np.vectorize(Fraction, otypes=[object])
# So many leaves of rows are held at once.
_HELD = 2**20


@dataclass(frozen=True)
class Rivals:
    """The margins over the rivals are  weights · sums + constants; added trees subtract `lost` times the shift.

    For forests the shift is one of probabilities: of two compared classes one may fall and the other rise.
    """

    weights: Floats
    constants: Floats
    lost: float = 1.0


def rivals(trees: TreeEnsemble, target: int) -> Rivals:
    """The margins that must stay above 0, in the trees' own sums."""
    votes, k = trees.score, trees.forest.n_outputs
    if len(trees.labels) > 2:
        if votes.shares and votes.off:
            raise InvalidInputError(
                "threshold: a forest of several classes under TreeChanges takes no threshold; leave threshold= out"
            )
        off, units = np.array(votes.off or np.zeros(k)), np.eye(k)
        return Rivals(
            units[target] - np.delete(units, target, axis=0),
            np.delete(off, target) - off[target],
            2.0 if votes.shares else 1.0,
        )
    # Of class 1; where there is a bar, the probability of one class alone is held against it.
    weights, constants, lost = [[1.0]], [-votes.off[0] if votes.off else 0.0], 1.0
    if votes.shares:
        if votes.off:
            raise InvalidInputError(
                "model: TreeChanges needs a forest without calibration, got a calibrated one; pass the forest "
                "itself, or use PlausibleShift"
            )
        if votes.bar is None:
            weights, lost = [[-1.0, 1.0]], 2.0
        elif votes.first:
            weights, constants = [[-1.0, 0.0]], [votes.bar]
        else:
            weights, constants = [[0.0, 1.0]], [-votes.bar]
    sign = 1.0 if target == 1 else -1.0
    return Rivals(sign * np.array(weights), sign * np.array(constants), lost)


class MovingTrees(ClosedForm):
    """Trees whose leaves and thresholds may move."""

    classifier: TreeEnsemble
    changes: TreeChanges

    def __init__(self, model: Model, changes: TreeChanges) -> None:
        trees = model.classifier
        if not isinstance(trees, TreeEnsemble):
            why = f": {trees.why}" if isinstance(trees, Scored) else ""
            raise InvalidInputError(f"TreeChanges: expected trees, got {type(trees).__name__}{why}")
        if changes.dropped and trees.forest.divisor != 1.0 and (trees.score.bar or trees.score.off):
            # The mean of fewer trees is another mean: only its sign at one half stays a sum's.
            raise InvalidInputError(
                "dropped: expected 0 for a mean of trees with its own threshold, got "
                f"{changes.dropped}"
            )
        self.classifier, self.changes, self.forest = trees, changes, trees.forest
        self.radii = changes.leaf_radii(trees)
        self.low, self.high = self.forest.around(changes.threshold_radii(trees))
        self.cuts = self.forest.cuts(self.low), self.forest.cuts(self.high)
        self.least: dict[bytes, Least] = {}
        self.shift = changes.shift * changes.factor
        reach = np.abs(self.forest.values) + self.radii[:, None]
        if not max(reach.max(initial=0.0), self.shift * self.forest.divisor) < 1e300:
            raise InvalidInputError(
                "leaves: the sums of these radii overflow floating point; use smaller radii in TreeChanges"
            )
        # At most so large are the terms of each sum together, whatever the row.
        self.most = self.forest.sizes(reach) + self.shift * self.forest.divisor

    def worst(self, points: Floats, target: int) -> Pair:
        """The sum of the least value of each tree, less dropped trees and the shift."""
        X = self._read(points)
        over = rivals(self.classifier, target)
        sums = self._sums(X, over)
        lower, upper = self._ends(sums, self._spare(self.most, over))
        near = np.flatnonzero(~(lower > 0.0) & ~(upper < 0.0))
        if near.size:
            spare = self._spare(self._sizes(X[near]), over)
            lower[near], upper[near] = self._ends(sums[near], spare)
        return self._as_logits(lower), self._as_logits(upper)

    def _read(self, points: Floats) -> Floats:
        """The values that the trees read at points."""
        if self.classifier.predict_labels is not None and not self.classifier.tally.agreed:
            # Held against the model's own predictions, once.
            self.classifier.logits(points[:CHECKED])
        return self.classifier.matrix(points)

    def ranges(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """Lower and upper bounds of each logit, and the part of them that is rounding, (n, logits) each."""
        votes, forest = self.classifier.score, self.forest
        if votes.shares or (self.changes.dropped and forest.divisor != 1.0):
            raise InvalidInputError(
                "model: output_bounds needs trees whose logits are sums of leaves; a forest, or a mean of trees with "
                "dropped > 0, has no such logits"
            )
        X, units = self.classifier.matrix(points), np.eye(forest.n_outputs)
        off = np.array(votes.off or np.zeros(forest.n_outputs))
        logits, turned = Rivals(units, -off), Rivals(-units, off)
        spare = self._spare(self._sizes(X), logits) + votes.band
        return self._sums(X, logits) - spare, spare - self._sums(X, turned), 2.0 * spare

    def _ends(self, sums: Floats, spare: Floats) -> Pair:
        """Bounds of the least margin over all rivals, each (rows, rivals)."""
        band = self.classifier.score.doubt
        # The worst leaves that a library can hold lie a unit of rounding beside those of the set.
        return (sums - spare - band).min(axis=1), (sums + 2.0 * spare + band).min(axis=1)

    def _sizes(self, X: Floats) -> Floats:
        """An upper bound of the sum of absolute terms of each sum, at each row, (rows, outputs)."""
        forest = self.forest
        sizes = np.tile(np.abs(forest.base) + self.shift * forest.divisor, (len(X), 1))
        reach = np.abs(forest.values) + self.radii[:, None]
        for place in range(reach.shape[1]):
            for rows, terms in forest.least(X, -reach[:, place], *self.cuts):
                if forest.vector:
                    sizes[rows, place] -= terms.sum(axis=1)
                else:
                    np.subtract.at(sizes[rows].T, forest.output, terms.T)
        return sizes * (1.0 + 2.0**-40)

    def _spare(self, sizes: Floats, over: Rivals) -> Floats:
        """A bound of the rounding of a library's margins, and of ours, against the exact sums of leaves."""
        forest, weights = self.forest, np.abs(over.weights).T
        ours = 2.0**-53 * (2 * forest.n_trees + 16)
        total = sizes @ weights / forest.divisor + np.abs(over.constants) + over.lost * self.shift
        return forest.sum_error(sizes) @ weights + ours * total

    def _sums(self, X: Floats, over: Rivals) -> Floats:
        """The least value of each margin, (rows, rivals)."""
        forest, sums = self.forest, np.empty((len(X), len(over.weights)))
        for weights, out in zip(over.weights, sums.T, strict=True):
            key = weights.tobytes()
            if key not in self.least:
                costs = forest.worth(weights, self.radii)
                self.least[key] = Least(forest, costs, *self.cuts)
            for rows, terms in self.least[key](X):
                out[rows] = sum_less_dropped(terms, self.changes.dropped)
        sums = (over.weights @ forest.base + sums) / forest.divisor
        return sums + over.constants - over.lost * self.shift

    def _as_logits(self, margins: Floats) -> Floats:
        """Turn differences of two probabilities into log-odds, to keep one scale; other margins stay."""
        votes = self.classifier.score
        if not votes.shares or len(self.classifier.labels) > 2 or votes.bar is not None:
            return margins
        inside = np.clip(margins, -1.0 + 2.0**-52, 1.0 - 2.0**-52)
        return 2.0 * np.arctanh(inside)

    def holds(self, point: Floats, target: int) -> bool:
        """Whether the worst margin in fractions, less the rounding of the library's sums, is positive."""
        x = self.classifier.matrix(point[None, :])[0]
        ways = self.forest.reachable(x, *self.cuts)
        reached = [way[-1] for tree in ways for way in tree]
        still = len(reached) == len(ways) and not self.radii[reached].any()
        # Another order of the same sum may round otherwise.
        sure = self.forest.ordered and _decides(self.classifier)
        if still and sure and not (self.changes.dropped or self.shift):
            # Nothing that moves is met: every model computes what today's computes.
            return int(self.classifier.predict_index(point[None, :])[0]) == target
        over = rivals(self.classifier, target)
        return all(
            self._exactly(ways, weights) + Fraction(constant) - Fraction(over.lost * self.shift)
            > Fraction(error)
            for weights, constant, error in zip(
                over.weights, over.constants, self._errors(x, over), strict=True
            )
        )

    def _exactly(self, ways: list[list[tuple[int, ...]]], weights: Floats) -> Fraction:
        """The least value of weights · sums, before constants and shifts are added."""
        leaves = [way[-1] for tree in ways for way in tree]
        factors = _fractions(self.forest.factors(weights)[leaves])
        worth = (factors * _fractions(self.forest.values[leaves])).sum(axis=1)
        worth -= abs(factors).sum(axis=1) * _fractions(self.radii[leaves])
        cost = dict(zip(leaves, worth, strict=True))
        terms = [min(cost[way[-1]] for way in tree) for tree in ways]
        gone = sorted(terms, reverse=True)[: self.changes.dropped]
        total = _fractions(weights) @ _fractions(self.forest.base) + sum(terms)
        left: Fraction = total - sum(max(term, Fraction(0)) for term in gone)
        return left / Fraction(self.forest.divisor)

    def _errors(self, x: Floats, over: Rivals) -> Floats:
        """A bound of the rounding of the library's sums at a row, over all reachable leaves."""
        sizes = self._sizes(x[None, :])[0]
        error = self.forest.sum_error(sizes) @ np.abs(over.weights).T
        # The threshold is taken off in float64.
        rounded = 4.0 * 2.0**-53 * (sizes.sum() / self.forest.divisor + np.abs(over.constants))
        return np.asarray(error + rounded + self.classifier.score.doubt)

    def counter_model(self, point: Floats, target: int) -> TreeEnsemble | None:
        """Today's trees, or the worst trees for a rival, in the library's own precision."""
        over = rivals(self.classifier, target)
        worst = (self._worst(point, weights, int(over.lost)) for weights in over.weights)
        for other in itertools.chain([self.classifier], worst):
            lost = int(other.predict_index(point[None, :])[0]) != target
            if lost and self._sure(other, point, target):
                return other
        return None

    def _sure(self, other: TreeEnsemble, point: Floats, target: int) -> bool:
        """Whether the verdict is safe from ties: probabilities may tie where margins do not."""
        forest, band = other.forest, other.score.doubt
        if forest.ordered and _decides(other):
            return True
        sums = forest.sums(other.matrix(point[None, :]))[0]
        spare = np.zeros(sums.size) if forest.ordered else 2.0 * forest.rounding()
        over = rivals(other, target)
        allowed = -(band + np.abs(over.weights) @ spare)
        return bool((over.weights @ sums + over.constants < allowed).any())

    def _worst(self, point: Floats, weights: Floats, lost: int) -> TreeEnsemble:
        """Today's trees with every radius at its worst for one rival, in the library's own precision."""
        forest = self.forest
        ways = forest.reachable(self.classifier.matrix(point[None, :])[0], *self.cuts)
        values, threshold = forest.values, forest.threshold.copy()
        costs = forest.worth(weights, self.radii)
        chosen = [min(tree, key=lambda way: costs[way[-1]]) for tree in ways]
        away = np.sign(forest.factors(weights)) * self.radii[:, None]
        values = inward(values - away, values, self.radii, forest)
        for way in chosen:
            for node, below in itertools.pairwise(way):
                if forest.numeric[node]:
                    left = below == forest.left[node]
                    threshold[node] = self.high[node] if left else self.low[node]
        terms = np.array([costs[way[-1]] for way in chosen])
        gone = np.argsort(-terms, kind="stable")[: self.changes.dropped]
        values[np.isin(forest.tree_of, gone[terms[gone] > 0.0])] = 0.0
        other = forest.changed(values, threshold)
        if self.shift:
            most, none = np.nextafter(self.shift * forest.divisor, [0.0]), np.zeros((1, 1))
            part = inward(most[:, None], none, most, forest).item()
            for place in np.flatnonzero(weights)[:lost].tolist():
                other = other.with_constant(place, -float(np.sign(weights[place])) * part)
        return self.classifier.with_forest(other)

    def radius(self, points: Floats, target: int) -> Pair:
        """The largest factor for which each point is robust, the least over all rivals; both ends are proven."""
        X, over = self._read(points), rivals(self.classifier, target)
        lower, upper = np.full(len(X), np.inf), np.full(len(X), np.inf)
        unit = self.changes.resized(1.0)
        for rows in cut(np.arange(len(X)), max(1, _HELD // int(self.forest.leaves.sum()))):
            reached = Reached(self.classifier, unit, X[rows])
            for weights, constant in zip(over.weights, over.constants, strict=True):
                low, high = Moving(reached, weights, constant, over.lost).ends()
                lower[rows] = np.minimum(lower[rows], low)
                upper[rows] = np.minimum(upper[rows], high)
        return lower, upper_end(upper)

    def critics(self, point: Floats, target: int) -> list[Network]:
        """None: trees have no critics, which are networks."""
        return [as_network(self.classifier)]


def _decides(trees: TreeEnsemble) -> bool:
    """Whether our margins give the library's class exactly; a rounded probability at a threshold may not."""
    votes = trees.score
    return not votes.doubt or (len(trees.labels) == 2 and not votes.off)


def inward(wanted: Floats, today: Floats, radii: Floats, forest: Forest) -> Floats:
    """Leaves in the library's precision, rounded towards today's, never further away than their radii."""
    if forest.single:
        near = wanted.astype(np.float32)
        back = np.nextafter(near, today.astype(np.float32))
        wanted = near.astype(np.float64)
    else:
        back = np.nextafter(wanted, today)
    # A difference of two numbers rounds; a unit inside is inside.
    unsure = np.abs(wanted - today) >= radii[:, None] * (1.0 - 2.0**-50)
    return np.where(unsure, np.asarray(back, dtype=np.float64), wanted)
