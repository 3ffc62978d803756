"""How far the radii of trees may grow, for many rows at once, each with a factor f of its own.

    worst margin of a row at f  =  sum over trees of the least  value - f·radius  among the leaves that are open at f

A leaf opens where the last of the thresholds on the way to it can let the row pass: at |x - threshold| / radius. So all
that depends on f is known before it is sought, and brackets are halved without walking any tree again. Both ends are
proven: what a library's sums may round is taken off, and openings are taken too early below, too late above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast._forest import Bools, Forest, sum_less_dropped
from holdfast._network import Floats, Pair

# The factors within which one is looked for, and how often a bracket is halved.
_LEAST, _MOST, _HALVINGS = 2.0**-60, 2.0**60, 38
# So many leaves of rows are held at once.
_HELD = 2**20
# Relative: what a quotient of two differences may round.
_HAIR = 8.0 * 2.0**-53


@dataclass(frozen=True)
class Moving:
    """One rival of some rows: for each row and leaf what it adds, how that may move, how large it is, when it opens.

    Parameters
    ----------
    forest
        The trees.
    value, radius, size
        (rows, leaves): what a leaf adds to the margin, the most that moves by at factor 1, and the sizes of its terms.
    opens
        (rows, leaves): the factor from which on the row can reach the leaf; None where each tree has one leaf.
    starts
        Where each tree begins among the leaves.
    start, started
        What the margin begins with, and the sizes of that.
    shift
        What added trees take off at factor 1, and the sizes of their terms.
    dropped
        How many trees may go.
    band
        What no margin may be within.
    """

    forest: Forest
    value: Floats
    radius: Floats
    size: Floats
    opens: Floats | None
    starts: NDArray[np.intp]
    start: float
    started: float
    shift: tuple[float, float]
    dropped: int
    band: float

    def ends(self) -> Pair:
        """The factor below which each row holds, and one at which it is broken; negative where it is broken at 0."""
        n = self.value.shape[0]
        none, all_ = np.zeros(n), np.full(n, np.inf)
        proven = self._turn(lambda f: self.margin(f, -1.0) > 0.0)[0]
        lower = np.where(self.margin(all_, -1.0) > 0.0, np.inf, proven)
        upper = self._turn(lambda f: ~(self.margin(f, 1.0) < 0.0))[1]
        return lower, np.where(self.margin(none, 1.0) < 0.0, -1.0, upper)

    def _turn(self, yes: Callable[[Floats], Bools]) -> Pair:
        """For each row the last factor found with a yes, or 0, and the first with a no, or infinity."""
        n = self.value.shape[0]
        low, high = np.full(n, _LEAST), np.full(n, _MOST)
        first, last = yes(low), yes(high)
        for _ in range(_HALVINGS):
            wide = high > 2.0 * low
            middle = np.where(wide, np.sqrt(low * high), 0.5 * (low + high))
            fine = yes(middle)
            low, high = np.where(fine, middle, low), np.where(fine, high, middle)
        found = np.where(last, _MOST, np.where(first, low, 0.0))
        return found, np.where(last, np.inf, np.where(first, high, _LEAST))

    def margin(self, factor: Floats, side: float) -> Floats:
        """The worst margin of each row at a factor of its own, from below (side -1) or from above (side 1)."""
        f = factor[:, None]
        with np.errstate(invalid="ignore", over="ignore"):
            moved = np.where(self.radius > 0.0, f * self.radius, 0.0)
            terms, sizes = self.value - moved, self.size + moved
            if self.opens is not None:
                # Too early where a row has to hold, too late where it has to break.
                open_ = self.opens * (1.0 + side * _HAIR) <= f
                open_ &= self.opens < np.inf
                early = (self.opens * (1.0 - _HAIR) <= f) & (self.opens < np.inf)
                terms = np.minimum.reduceat(np.where(open_, terms, np.inf), self.starts, axis=1)
                sizes = np.maximum.reduceat(np.where(early, sizes, 0.0), self.starts, axis=1)
            total = sum_less_dropped(terms, self.dropped)
            less, by = (
                np.where(part > 0.0, factor * part, 0.0) for part in map(np.float64, self.shift)
            )
            divisor = self.forest.divisor
            margin = total / divisor + self.start - less
            whole = sizes.sum(axis=1) + by * divisor + self.started * divisor
            ours = (4 * self.forest.n_trees + 32) * 2.0**-53 * (whole / divisor + less)
            spare = self.forest.sum_error(whole) + ours
            # The worst leaves that a library can hold lie a unit of rounding beside those of the set.
            return np.asarray(margin + side * ((1.5 + 0.5 * side) * spare + self.band))


def openings(forest: Forest, X: Floats, radii: Floats) -> Floats:
    """The factor of `radii` from which on each row can reach each node, (rows, nodes); infinite where it never can."""
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
    """The factors from which on each node can send each row left, and right."""
    goes = forest.sides(slice(None), value, forest.cut, forest.cut)
    moves = forest.numeric & (radii > 0.0) & np.isfinite(forest.threshold) & ~np.isnan(value)
    ends = []
    with np.errstate(all="ignore"):
        for sign, own, needed in zip((1.0, -1.0), goes, _needed(forest, value), strict=True):
            opens = sign * (needed - forest.threshold) / radii
            ends.append(np.where(own, 0.0, np.where(moves, np.maximum(opens, 0.0), np.inf)))
    return ends[0], ends[1]


def _needed(forest: Forest, value: Floats) -> Pair:
    """The least threshold that the library can hold and that sends a value left, the greatest that sends it right."""
    with np.errstate(over="ignore"):
        read: Any = value.astype(np.float32) if forest.compare.startswith("float32") else value
        held: Any = read.astype(np.float32 if forest.single else np.float64)
        after, before = (np.nextafter(held, held.dtype.type(end)) for end in (np.inf, -np.inf))
    if forest.compare.endswith("<"):
        ends = np.where(held > read, held, after), np.where(held <= read, held, before)
    else:
        ends = np.where(held >= read, held, after), np.where(held < read, held, before)
    return np.asarray(ends[0], np.float64), np.asarray(ends[1], np.float64)


def chunks(rows: int, leaves: int) -> Iterator[slice]:
    """Rows in parts that fit into memory with all their leaves."""
    step = max(1, _HELD // max(leaves, 1))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))
