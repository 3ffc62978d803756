"""The largest factor f by which the radii of trees may grow, for many rows at once.

    worst margin of a row at f  =  sum over trees of the least  value - f·radius  among the leaves that are open at f

A leaf opens when the last threshold on its path can let the row pass, at f = |x - threshold| / radius. All openings
are computed once, so brackets are halved without walking a tree again. Both ends are proven: the rounding of a
library's sums is subtracted, and openings count slightly early for the lower end and slightly late for the upper
end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast._forest import Bools, Forest, sum_less_dropped
from holdfast._network import Floats, Pair
from holdfast._trees import TreeEnsemble
from holdfast.changes import TreeChanges

# The factors within which one is looked for, and how often a bracket is halved.
_LEAST, _MOST, _HALVINGS = 2.0**-60, 2.0**60, 38
# Relative: what a quotient of two differences may round.
_HAIR = 8.0 * 2.0**-53


class Reached:
    """The leaves that rows may reach as the radii grow, and the factor at which each opens.

    Attributes
    ----------
    leaves
        The leaves, (rows, leaves), or (1, leaves) if every row has all of them.
    starts
        The place among them where each tree begins.
    opens
        (rows, leaves): the least factor at which the row can reach the leaf; None if each tree has one leaf.
    """

    def __init__(self, trees: TreeEnsemble, unit: TreeChanges, X: Floats) -> None:
        self.trees, self.unit, self.rows = trees, unit, len(X)
        forest, far = trees.forest, unit.threshold_radii(trees)
        nodes, self.starts = forest.by_tree
        self.opens = openings(forest, X, far)[:, nodes] if far.any() else None
        self.leaves = forest.leaf_of(X) if self.opens is None else nodes[None, :]


class Moving:
    """One rival of some rows: for each row and leaf its value, the radius of the value, and its absolute size."""

    def __init__(self, reached: Reached, weights: Floats, constant: float, lost: float) -> None:
        self.reached, self.forest = reached, reached.trees.forest
        self.dropped, shift = reached.unit.dropped, reached.unit.shift
        factors, sizes = self.forest.factors(weights), np.abs(weights)
        added, moves = factors * self.forest.values, np.abs(factors).sum(axis=1)
        each = (
            added.sum(axis=1),
            moves * reached.unit.leaf_radii(reached.trees),
            np.abs(added).sum(axis=1),
        )
        parts = [part[reached.leaves] for part in each]
        if reached.opens is None and not self.dropped:
            # What never changes its leaf is one sum.
            parts = [part.sum(axis=1, keepdims=True) for part in parts]
        self.value, self.radius, self.size = parts
        base, divisor = self.forest.base, self.forest.divisor
        # What the margin begins with, and the sizes of that; what added trees take off, and the sizes of their terms.
        self.start = float(weights @ base) / divisor + constant
        self.started = float(sizes @ np.abs(base)) / divisor + abs(constant)
        self.less, self.more = np.float64(shift * lost), shift * sizes.sum()

    def ends(self) -> Pair:
        """The factor below which each row is robust, and one at which it is broken; negative if it is broken at 0."""
        none, all_ = np.zeros(self.reached.rows), np.full(self.reached.rows, np.inf)
        proven = self._turn(lambda f: self.margin(f, -1.0) > 0.0)[0]
        lower = np.where(self.margin(all_, -1.0) > 0.0, np.inf, proven)
        upper = self._turn(lambda f: ~(self.margin(f, 1.0) < 0.0))[1]
        return lower, np.where(self.margin(none, 1.0) < 0.0, -1.0, upper)

    def _turn(self, yes: Callable[[Floats], Bools]) -> Pair:
        """For each row the largest factor found with True (else 0), and the least with False (else infinity).

        The two ends of the first bracket are not evaluated; every later end is.
        """
        low, high = np.full(self.reached.rows, _LEAST), np.full(self.reached.rows, _MOST)
        for _ in range(_HALVINGS):
            wide = high > 2.0 * low
            middle = np.where(wide, np.sqrt(low * high), 0.5 * (low + high))
            fine = yes(middle)
            low, high = np.where(fine, middle, low), np.where(fine, high, middle)
        return np.where(low > _LEAST, low, 0.0), np.where(high < _MOST, high, np.inf)

    def margin(self, factor: Floats, side: float) -> Floats:
        """A lower (side -1) or upper (side 1) bound of the worst margin of each row at its own factor."""
        f, opens, starts = factor[:, None], self.reached.opens, self.reached.starts
        with np.errstate(invalid="ignore", over="ignore"):
            moved, less, more = (
                np.where(part > 0.0, by * part, 0.0)
                for by, part in ((f, self.radius), (factor, self.less), (factor, self.more))
            )
            terms, sizes = self.value - moved, self.size + moved
            if opens is not None:
                # Too early where a row has to hold, too late where it has to break.
                late, early = (
                    (opens * (1.0 + hair) <= f) & (opens < np.inf)
                    for hair in (side * _HAIR, -_HAIR)
                )
                terms = np.minimum.reduceat(np.where(late, terms, np.inf), starts, axis=1)
                sizes = np.maximum.reduceat(np.where(early, sizes, 0.0), starts, axis=1)
            total = sum_less_dropped(terms, self.dropped)
            divisor = self.forest.divisor
            margin = total / divisor + self.start - less
            whole = sizes.sum(axis=1) + more * divisor + self.started * divisor
            ours = (4 * self.forest.n_trees + 32) * 2.0**-53 * (whole / divisor + less)
            spare = self.forest.sum_error(whole) + ours
            # The worst leaves that a library can hold lie a unit of rounding beside those of the set.
            doubt = self.reached.trees.score.doubt
            return np.asarray(margin + side * ((1.5 + 0.5 * side) * spare + doubt))


def openings(forest: Forest, X: Floats, radii: Floats) -> Floats:
    """The least factor of `radii` at which each row can reach each node, (rows, nodes); infinite if never."""
    seen = forest.seen(X)
    value = seen[:, np.maximum(forest.feature, 0)]
    left, right = _sides(forest, value, radii)
    out = np.full(value.shape, np.inf)
    out[:, forest.roots] = 0.0
    for front in forest.levels:
        for side, opens in ((forest.left, left), (forest.right, right)):
            out[:, side[front]] = np.maximum(out[:, front], opens[:, front])
    return out


def _sides(forest: Forest, value: Floats, radii: Floats) -> Pair:
    """The least factors at which each node can send each row left, and right."""
    goes = forest.sides(slice(None), value, forest.cut, forest.cut)
    moves = forest.numeric & (radii > 0.0) & np.isfinite(forest.threshold) & ~np.isnan(value)
    ends = []
    with np.errstate(all="ignore"):
        for sign, own, needed in zip((1.0, -1.0), goes, _needed(forest, value), strict=True):
            opens = sign * (needed - forest.threshold) / radii
            ends.append(np.where(own, 0.0, np.where(moves, np.maximum(opens, 0.0), np.inf)))
    return ends[0], ends[1]


def _needed(forest: Forest, value: Floats) -> Pair:
    """The least representable threshold that sends a value left, and the greatest that sends it right."""
    with np.errstate(over="ignore"):
        read: Any = value.astype(np.float32) if forest.compare.startswith("float32") else value
        held: Any = read.astype(np.float32 if forest.single else np.float64)
        after, before = (np.nextafter(held, held.dtype.type(end)) for end in (np.inf, -np.inf))
    left = held > read if forest.compare.endswith("<") else held >= read
    return (
        np.where(left, held, after).astype(np.float64),
        np.where(left, before, held).astype(np.float64),
    )
