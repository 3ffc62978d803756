"""Linear bounds with the best multipliers, and branch and bound on the neurons they are unsure of; many rows at a time.

Walking backwards (see `bounds.layers`), a neuron's function c z + d z⁺ is bounded by  l L + u U + k:

    ReLU, d > 0   l = alpha d,  u = 0                    alpha in [0, 1]: z⁺ >= alpha L
    ReLU, d < 0   l = 0,        u = stretch slope d      slope of the chord above z⁺ on the range of U, stretch >= 1
    identity      c + d slope (or alpha for d > 0), on L where that is positive and on U where it is not

A branch says that U (of an identity neuron: z) is >= 0 or <= 0, which cuts its range, and may add any multiple of the
right sign of U (or z): `extra`. k is the least of  c z + d z⁺ - l L - u U  on the range, so any multipliers are sound.
The bound is concave in each layer's multipliers; a few steps of projected ascent with Polyak's length come near the
linear program's optimum, and the neuron whose better branch promises most is split next.

What proves a row is the set of its closed branches, each with its multipliers: `verify.exact` writes them down.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast._arrays import Array, RowBatch, array_namespace, beside, row_sum, take_rows, to_numpy
from holdfast._deadline import Deadline
from holdfast._network import Floats
from holdfast.bounds._layers import Box, Layers, activated
from holdfast.verify._attack import sides
from holdfast.verify._program import propose

Rows = NDArray[np.intp]
# Slope and intercept of the line above z⁺ for every later neuron, (n, N) each.
Lines: TypeAlias = tuple[Array, Array]

# Of a branch, where two hidden layers need no more, with more of them, and where a bound must be fine; of one with
# nothing to split.
_STEPS, _LAST_STEPS = (1, 3, 4), 10
# Branches at a time: what stays in a core's cache, what fills a device.
_BATCH, _DEVICE_BATCH = 256, 2**15
_MOST_STRETCH, _HUGE = 1e3, 1e9
# A counter-model that a radius is to follow is looked for until no margin is this many times as far below 0, in so
# many branches.
_DEEPER, _DEEPER_NODES = 1.5, 1000
# What an attack or a search computes is a network in Δ up to rounding, as is the network that is written down: a
# margin this many rounding errors below zero stays below it.
WITNESS_SAFETY = 8.0


@dataclass(frozen=True)
class Ranges(RowBatch):
    """Layers, their start, and a range for every later neuron, layers side by side (n, N): of U; of z without ReLU."""

    layers: Layers
    start: Box
    bottom: Array
    top: Array
    # What bounds the sums that each later neuron, and the margin (n, 1), takes part in; all values' sizes together.
    sizes: Array
    margin_size: Array
    bulk: Array

    @classmethod
    def of(cls, layers: Layers, start: Box) -> Ranges:
        """Ranges layer by layer: over the box of the values before; from the third hidden layer on by walks back."""
        xp = array_namespace(start.low)
        ranges = cls(
            layers, start, *(start.low[:, :0],) * 3, start.low[:, :1], start.low[:, :1] * 0.0
        )
        low, high = activated(start.low, layers.relus[0]), activated(start.high, layers.relus[0])
        bulk = row_sum(xp.maximum(xp.abs(low), xp.abs(high)))
        for i in range(1, len(layers.hidden)):
            layer, relu = layers.hidden[i], layers.relus[i]
            size, slack = layer.size(xp.maximum(xp.abs(low), xp.abs(high)))
            least, bottom, top = layer.over(low, high)
            least, bottom, top = least - slack, bottom - slack, top + slack
            if i > 1:
                ends = _walked_ends(replace(ranges, bulk=bulk), i, size)
                # As the checker has them.
                bottom, top = ends[0], xp.minimum(top, ends[1])
                least = least if relu else xp.maximum(least, ends[0])
            low, high = activated(least, relu), activated(top, relu)
            low = xp.minimum(low, high)
            bulk = bulk + row_sum(xp.maximum(xp.abs(low), xp.abs(high)))
            ranges = replace(
                ranges,
                bottom=xp.concat([ranges.bottom, bottom if relu else least], axis=1),
                top=xp.concat([ranges.top, top], axis=1),
                sizes=xp.concat([ranges.sizes, size], axis=1),
            )
        size, _ = layers.margin.size(xp.maximum(xp.abs(low), xp.abs(high)))
        return replace(ranges, margin_size=size, bulk=bulk)

    def on(self, convert: Any) -> Ranges:
        """The same with its arrays converted."""
        parts = {f.name: convert(getattr(self, f.name)) for f in fields(self)[2:]}
        return Ranges(
            self.layers.on(convert), Box(convert(self.start.low), convert(self.start.high)), **parts
        )

    def split(self, decided: Array) -> Ranges:
        """With the ranges that a branch leaves: 1 for above 0, -1 for below, 0 for undecided, (n, N)."""
        xp = array_namespace(decided)
        bottom = xp.where(decided > 0, xp.maximum(self.bottom, 0.0), self.bottom)
        return replace(
            self, bottom=bottom, top=xp.where(decided < 0, xp.minimum(self.top, 0.0), self.top)
        )

    def chords(self) -> tuple[Array, Array]:
        """Slope and intercept of the line above z⁺ on each range: right at both ends, however the slope was rounded."""
        xp = array_namespace(self.top)
        top, bottom = xp.maximum(self.top, 0.0), xp.minimum(self.bottom, 0.0)
        width = top - bottom
        slope = xp.where(width > 0.0, top / xp.where(width > 0.0, width, 1.0), 0.0)
        slope = xp.where(self.bottom >= 0.0, 1.0, xp.where(self.top <= 0.0, 0.0, slope))
        intercept = xp.maximum(-slope * bottom, (1.0 - slope) * top)
        return slope, xp.where((self.bottom < 0.0) & (self.top > 0.0), intercept, 0.0)

    def error(self, lower: Array, upper: Array) -> Array:
        """How far rounding may carry the bound of these multipliers, (n,); whoever rounds them differently, too."""
        xp = array_namespace(lower)
        total = xp.abs(lower) + xp.abs(upper)
        weighed = self.margin_size[:, 0] + xp.vecdot(total, self.sizes)
        return self.layers.allowance(weighed, (row_sum(total) + self.bulk)[:, 0])


def _walked_ends(ranges: Ranges, i: int, size: Array) -> tuple[Array, Array]:
    """The ends of layer i's U, or of z between L and U, each by its own walk back with chords on both sides."""
    one = beside(ranges.start.low, np.eye(size.shape[1])[None, ...])
    lower, upper = (0.0 * one, one) if ranges.layers.relus[i] else (one, 0.0 * one)
    return _walk_rows(ranges, i, lower, upper, size), -_walk_rows(ranges, i, 0.0 * one, -one, size)


def _walk_rows(ranges: Ranges, i: int, lower: Array, upper: Array, size: Array) -> Array:
    """Sound lower bounds (n, m) of the rows  lower L + upper U  of layer i, whose sizes are (n, m)."""
    xp = array_namespace(ranges.start.low)
    columns = (*ranges.chords(), ranges.sizes)
    c, d, constant = ranges.layers.hidden[i].pull(lower, upper)
    plain = ranges.bulk
    for k, span in ranges.layers.spans[-i + 1 :]:
        slopes, intercepts, sizes = (column[:, span, None] for column in columns)
        constant = constant + (xp.minimum(d, 0.0) @ intercepts)[..., 0]
        line = d * slopes[:, None, :, 0] if c is None else c + d * slopes[:, None, :, 0]
        lower, upper = xp.maximum(line, 0.0), xp.minimum(line, 0.0)
        size, plain = (
            size + ((lower - upper) @ sizes)[..., 0],
            plain + xp.sum(lower - upper, axis=-1),
        )
        c, d, added = ranges.layers.hidden[k].pull(lower, upper)
        constant = constant + added
    least, _ = ranges.start.least(c, d)
    return least + constant - ranges.layers.allowance(size, plain)


@dataclass(frozen=True)
class Walk(RowBatch):
    """A walk back: its bound, the multipliers that it took and what it met, (n, N) each."""

    bound: Array
    # alpha, stretch and extra, (n, 3, N).
    multipliers: Array
    lower: Array
    upper: Array
    # What multiplies z⁺ of each later neuron, and whether the adversary wants it low.
    d: Array
    low: Array
    # The first layer's preactivations where the bound is met.
    corner: Array

    def better(self, new: Walk) -> Walk:
        """Row by row the higher bound."""
        xp = array_namespace(self.bound)
        higher = new.bound > self.bound
        if xp.all(higher):
            return new
        columns = [higher, higher[:, None], higher[:, None, None]]
        pairs = ((getattr(new, f.name), getattr(self, f.name)) for f in fields(self))
        return Walk(*(xp.where(columns[ours.ndim - 1], ours, theirs) for ours, theirs in pairs))


def walk_back(ranges: Ranges, lines: Lines, multipliers: Array) -> Walk:
    """The margin pulled back to the start; its bound is without an allowance for rounding."""
    layers = ranges.layers
    xp = array_namespace(ranges.top)
    c, d, constant = layers.wanted
    kept: list[tuple[Array, ...]] = []
    for i, span in layers.spans:
        slope, intercept = (line[:, span] for line in lines)
        alpha, stretch, extra = (multipliers[:, k, span] for k in range(3))
        rising = d > 0.0
        if c is None:
            lower = xp.where(rising, alpha * d, 0.0)
            upper = xp.where(rising, 0.0, stretch * slope * d) + extra
            # No less than this: a split's range ends at 0, and there it is 0.
            constant = constant + xp.vecdot(xp.minimum(d, 0.0), stretch * intercept)
            low = rising
        else:
            line = c + d * xp.where(rising, alpha, slope) + extra
            lower, upper = xp.maximum(line, 0.0), xp.minimum(line, 0.0)
            constant = constant + xp.vecdot(xp.minimum(d, 0.0), intercept)
            low = line > 0.0
        kept.append(
            (lower, upper, xp.broadcast_to(d, lower.shape), xp.broadcast_to(low, lower.shape))
        )
        c, d, added = layers.hidden[i].pull(lower, upper)
        constant = constant + added
    least, corner = ranges.start.least(c, d)
    joined = (
        kept[0]
        if len(kept) == 1
        else [xp.concat(part[::-1], axis=1) for part in zip(*kept, strict=True)]
    )
    lower, upper, d, low = joined
    return Walk(least + constant, multipliers, lower, upper, d, low, corner)


def _least_rest(d: Array, lower: Array, upper: Array, bottom: Array, top: Array) -> Array:
    """The least of  d z⁺ - lower L - upper U  over L <= U in [bottom, top] and L <= z <= U: at an end or at U = 0."""
    xp = array_namespace(d)
    below, above = -(lower + upper), xp.minimum(d - lower, 0.0) - upper
    ends = [xp.where(end < 0.0, below, above) * end for end in (bottom, top)]
    least = xp.minimum(*ends)
    return xp.where((bottom < 0.0) & (top > 0.0), xp.minimum(least, 0.0), least)


def reach(layers: Layers, corner: Array, low: Array) -> Array:
    """The margin (n,) of the network in Δ that has these first preactivations and later neurons on these sides.

    `low` says which neurons are on their low side; or, as a number from -1 to 1, how far on which.
    """
    values = activated(corner, layers.relus[0])
    for i, span in layers.spans[::-1]:
        values = activated(layers.hidden[i].on_side(values, low[:, span]), layers.relus[i])
    return layers.reached(values)


def proven(ranges: Ranges, lower: Array, upper: Array) -> Array:
    """The bound (n,) that given multipliers of L and U of the later neurons prove, rounding taken off."""
    xp = array_namespace(lower)
    c, d, constant = ranges.layers.wanted
    columns = (lower, upper, ranges.bottom, ranges.top)
    for i, span in ranges.layers.spans:
        low, up, bottom, top = (column[:, span] for column in columns)
        if c is None:
            rest = _least_rest(d, low, up, bottom, top)
        else:
            # Without a ReLU both L and U stand for z itself, l >= 0 and u <= 0.
            low, up = xp.maximum(low, 0.0), xp.minimum(up, 0.0)
            rest = Box(bottom, top).least(c - low - up, d)[0]
        constant = constant + (xp.sum(rest, axis=1) if c is None else rest)
        c, d, added = ranges.layers.hidden[i].pull(low, up)
        constant = constant + added
    return ranges.start.least(c, d)[0] + constant - ranges.error(lower, upper)


def _seen(layers: Layers, lines: Lines, walk: Walk) -> tuple[Array, Array, Array]:
    """L and U of every later neuron (of one without a ReLU z, twice) where the bound is met, and the line above U."""
    xp = array_namespace(walk.corner)
    plus: Array | None = None
    values = activated(walk.corner, layers.relus[0])
    seen: list[tuple[Array, ...]] = []
    for i, span in layers.spans[::-1]:
        slope, intercept, d, low = (column[:, span] for column in (*lines, walk.d, walk.low))
        alpha, stretch = (walk.multipliers[:, k, span] for k in range(2))
        below, above = layers.hidden[i].sides(values, plus)
        if not layers.relus[i]:
            below = above = xp.where(low, below, above)
        line = slope * above + intercept
        if i + 1 < len(layers.hidden):
            plus = None if layers.relus[i] else xp.where(d < 0.0, line, alpha * above)
            values = xp.where(low, alpha * below, stretch * line) if layers.relus[i] else above
        seen.append((below, above, line))
    below, above, line = (
        seen[0] if len(seen) == 1 else (xp.concat(part, axis=1) for part in zip(*seen, strict=True))
    )
    return below, above, line


def tighten(
    ranges: Ranges, lines: Lines, decided: Array, multipliers: Array, steps: int, cutoff: Array
) -> Walk:
    """Some steps upwards, towards a bound above `cutoff`: the best of them, rounding taken off its bound."""
    xp = array_namespace(ranges.top)
    best = walk = walk_back(ranges, lines, multipliers)
    if steps > 1:
        # Between what alpha, stretch and extra lie: extra multiples of U are <= 0 above 0, >= 0 below, else none.
        zero = 0.0 * lines[0]
        low = xp.stack([zero, zero + 1.0, xp.where(decided > 0, -xp.inf, zero)], axis=1)
        high = xp.stack(
            [zero + 1.0, zero + _MOST_STRETCH, xp.where(decided < 0, xp.inf, zero)], axis=1
        )
    for _ in range(1, steps):
        if xp.all(best.bound > cutoff):
            break
        below, above, line = _seen(ranges.layers, lines, walk)
        falling = walk.d < 0.0
        parts = [
            xp.where(falling, 0.0, walk.d * below),
            xp.where(falling, walk.d * line, 0.0),
            above,
        ]
        slope = xp.stack(parts, axis=1)
        # Without the parts that would leave the range at once.
        leaving = ((walk.multipliers >= high) & (slope > 0.0)) | (
            (walk.multipliers <= low) & (slope < 0.0)
        )
        slope = xp.where(leaving, 0.0, slope)
        square = xp.sum(xp.vecdot(slope, slope), axis=1)
        # A little further than the cutoff, since not all of what a step promises is kept.
        gap = xp.where(walk.bound > cutoff, 0.0, 1.05 * (xp.minimum(cutoff, _HUGE) - walk.bound))
        length = (gap / xp.where(square > 0.0, square, 1.0))[:, None, None]
        walk = walk_back(
            ranges, lines, xp.minimum(xp.maximum(walk.multipliers + length * slope, low), high)
        )
        best = best.better(walk)
    return replace(best, bound=best.bound - ranges.error(best.lower, best.upper))


def descend(layers: Layers, start: Box, walk: Walk, steps: int) -> Array:
    """From a walk's corner towards its bound, later neurons on its sides; the first preactivations of the least margin.

    A least value inside the box is met near it, never at a corner.
    """
    xp, relu = array_namespace(walk.corner), layers.relus[0]
    bottom, top, values = (activated(part, relu) for part in (start.low, start.high, walk.corner))
    best, met = values, xp.inf + 0.0 * walk.bound
    for _ in range(steps):
        margin, slope = _margin_and_slope(layers, values, walk.low)
        best, met = xp.where((margin < met)[:, None], values, best), xp.minimum(margin, met)
        slope = xp.where(
            ((values <= bottom) & (slope > 0.0)) | ((values >= top) & (slope < 0.0)), 0.0, slope
        )
        square = xp.vecdot(slope, slope)
        length = (margin - walk.bound) / xp.where(square > 0.0, square, 1.0)
        values = xp.minimum(xp.maximum(values - length[:, None] * slope, bottom), top)
    return xp.where(best <= 0.0, start.low, best) if relu else best


def _margin_and_slope(layers: Layers, values: Array, low: Array) -> tuple[Array, Array]:
    """The margin of the first hidden layer's values with later neurons on these sides, (n,), and its slope there."""
    xp = array_namespace(values)
    first, seen = values, []
    for i, span in layers.spans[::-1]:
        seen.append(layers.hidden[i].on_side(values, low[:, span]))
        values = activated(seen[-1], layers.relus[i])
    c, d, _ = layers.wanted
    for i, span in layers.spans:
        line = xp.where(seen.pop() > 0.0, d, 0.0) + (0.0 if c is None else c)
        c, d, _ = layers.hidden[i].pull(
            *(xp.where(low[:, span] == side, line, 0.0) for side in (True, False))
        )
    return layers.reached(values), d if c is None else c + xp.where(first > 0.0, d, 0.0)


@dataclass(frozen=True)
class Leaves:
    """Closed branches: their rows, what was decided of each later neuron, and the multipliers of L and U."""

    row: Rows
    decided: NDArray[np.int8]
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class Branches(RowBatch):
    """Branches in waiting: rows, what was decided, multipliers, the neuron to split next, -1 for none, and bounds."""

    row: Rows
    decided: Array
    multipliers: Array
    neuron: Rows
    bound: Floats

    def joined(self, other: Branches) -> Branches:
        """Both together."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Branches(*(array_namespace(ours).concat([ours, theirs]) for ours, theirs in pairs))


class Search:
    """Branch and bound on one margin of some rows: until each row's bound exceeds its cutoff or its margin meets it.

    For each row the least margin lies in [lower, upper]; `open` says where the search gave up.

    Parameters
    ----------
    layers, points
        The rows' layers, and the rows.
    upper
        A margin known to be reached in each row.
    error
        What rounding may do to a reached margin, (n,).
    gap
        None: the cutoff is 0, and a margin clearly below 0 ends a row. Otherwise the cutoff is `upper - gap`.
    keep
        Whether to keep the closed branches, in `leaves`.
    fine
        Whether margins are known to come near 0, so that good multipliers and counter-models pay.
    """

    def __init__(
        self,
        layers: Layers,
        points: Array,
        upper: Floats,
        error: Floats,
        *,
        gap: Floats | None = None,
        keep: bool = False,
        fine: bool = False,
    ) -> None:
        n = upper.shape[0]
        self.points, self.root = points, Ranges.of(layers, layers.start(points))
        self.lines = self.root.chords()
        self.error, self.gap, self.keep, self.fine = error, gap, keep, fine
        self.steps = _STEPS[2 if fine or gap is not None else len(layers.hidden) > 2]
        self.lower, self.upper, self.root_bound = (
            np.full(n, np.inf),
            upper.copy(),
            np.full(n, -np.inf),
        )
        self.open, self.done = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        self.nodes = np.zeros(n, dtype=np.int64)
        # The first layer's preactivations and each later neuron's side, -1 for low, where `upper` was met.
        self.corner, self.later = np.zeros(self.root.start.low.shape), np.zeros(self.root.top.shape)
        self.leaves: list[Leaves] = []
        self.stack: list[Branches] = []

    def run(self, max_nodes: int, deadline: Deadline) -> None:
        """From the root to the end."""
        self.root_bounds()
        self.branch(max_nodes, deadline)

    def root_bounds(self) -> None:
        """The linear bounds, nothing decided; what they leave open waits for `branch`."""
        xp = array_namespace(self.root.top)
        zero = 0.0 * self.root.top
        rows = np.arange(self.done.shape[0])
        multipliers = xp.stack([self.lines[0], zero + 1.0, zero], axis=1)
        branches = Branches(rows, xp.astype(zero, xp.int8), multipliers, rows, self.root_bound)
        for steps in (1, _LAST_STEPS if self.steps > 3 else 3):
            branches = self._bounded(branches, steps, root=True)
        self.nodes[:] = 1
        self.stack = [branches] if branches.row.size else []

    def branch(self, max_nodes: int, deadline: Deadline) -> None:
        """Search to the end, or as far as the budget goes; open rows keep the bound of their root."""
        stack, batch = (
            self.stack,
            _BATCH if isinstance(self.root.top, np.ndarray) else _DEVICE_BATCH,
        )
        # Branches with nothing to split, which wait for others of their kind.
        stuck: list[Branches] = []
        while stack or stuck:
            last = not stack or sum(branches.row.size for branches in stuck) > batch
            branches = _popped(stuck if last else stack, batch)
            most = np.where(self.broken & self.fine, min(_DEEPER_NODES, max_nodes), max_nodes)
            worn = (
                branches.row if deadline.over else branches.row[(self.nodes > most)[branches.row]]
            )
            self._give_up(np.unique(worn))
            still = self._still_open(branches)
            if last:
                branches = self._unstuck(branches.take(np.flatnonzero(still)))
            else:
                idle = np.flatnonzero(still & (branches.neuron < 0))
                if idle.size:
                    stuck.append(branches.take(idle))
                split = branches.take(np.flatnonzero(still & (branches.neuron >= 0)))
                branches = self._bounded(self._children(split), self.steps)
            if branches.row.size:
                stack.append(branches)

    @property
    def broken(self) -> NDArray[np.bool_]:
        """Rows whose margin is clearly below zero for some network in Δ."""
        return np.asarray(self.upper < -WITNESS_SAFETY * self.error)

    @property
    def closed(self) -> NDArray[np.bool_]:
        """Rows all of whose branches are closed."""
        waiting = np.zeros(self.done.shape[0], dtype=bool)
        for branches in self.stack:
            waiting[branches.row] = True
        return ~waiting & ~self.open & ~self.done

    def sides(self, rows: Rows) -> Floats:
        """Each hidden neuron's side where `upper` was met."""
        points = take_rows(self.points, rows)
        corner, later = beside(points, self.corner[rows]), beside(points, self.later[rows])
        return to_numpy(sides(self.root.layers.take(rows), points, corner, later))

    def _bounded(self, branches: Branches, steps: int, *, root: bool = False) -> Branches:
        """Bound the branches; close those above their cutoff, record the margins met, return the rest."""
        if not branches.row.size:
            return branches
        # The ranges of each branch's row, before any split, and the chords of the branch.
        xp, ranges, free = (
            array_namespace(branches.decided),
            self.root.take(branches.row),
            branches.decided == 0,
        )
        slope, intercept = (
            take_rows(self.lines[0], branches.row),
            take_rows(self.lines[1], branches.row),
        )
        above = xp.astype(branches.decided > 0, slope.dtype)
        lines = xp.where(free, slope, above), xp.where(free, intercept, 0.0)
        cutoff = self._cutoff(branches.row)
        # Where the ranges of a branch contradict each other, it is empty, and whatever is claimed of it holds.
        walk = tighten(
            ranges, lines, branches.decided, branches.multipliers, steps, beside(ranges.top, cutoff)
        )
        bound = to_numpy(walk.bound)
        if root:
            self.root_bound[branches.row] = np.maximum(self.root_bound[branches.row], bound)
        free = ~self.done[branches.row]
        shut = np.flatnonzero((bound > cutoff) & free)
        self._close(branches.row[shut], bound[shut], branches.decided, walk.lower, walk.upper, shut)
        rest = np.flatnonzero(~(bound > cutoff) & free)
        branches = replace(branches, multipliers=walk.multipliers, bound=bound).take(rest)
        if not rest.size:
            return branches
        layers, walk = ranges.layers.take(rest), walk.take(rest)
        lines = take_rows(lines[0], rest), take_rows(lines[1], rest)
        corner = descend(layers, ranges.start.take(rest), walk, steps) if steps > 3 else walk.corner
        self._meet(branches.row, to_numpy(reach(layers, corner, walk.low)), corner, walk.low)
        # What the better branch of each neuron that may be split promises.
        _, above, line = _seen(layers, lines, walk)
        score = xp.where(
            lines[1] > 0.0, -xp.minimum(walk.d, 0.0) * xp.maximum(line, line - above), 0.0
        )
        neuron = to_numpy(xp.where(xp.max(score, axis=1) > 0.0, xp.argmax(score, axis=1), -1))
        return replace(branches, neuron=neuron)

    def _still_open(self, branches: Branches) -> NDArray[np.bool_]:
        """Which branches are of rows that are not done, less those above a cutoff that has come down since."""
        above = branches.bound > self._cutoff(branches.row)
        np.minimum.at(self.lower, branches.row[above], branches.bound[above])
        return np.asarray(~above & ~self.done[branches.row])

    def _cutoff(self, rows: Rows) -> Floats:
        if self.gap is not None:
            return np.asarray(self.upper[rows] - self.gap[rows])
        if not self.fine:
            return np.zeros(rows.shape[0])
        return np.where(self.broken[rows], _DEEPER * self.upper[rows], 0.0)

    def _meet(self, rows: Rows, reached: Floats, corner: Array, low: Array) -> None:
        """Record networks with a smaller margin than was known, the best last so that it stays."""
        margin = reached + self.error[rows]
        better = np.flatnonzero(margin < self.upper[rows])
        if not better.size:
            return
        better = better[np.argsort(-margin[better], kind="stable")]
        self.upper[rows[better]] = margin[better]
        self.corner[rows[better]] = to_numpy(take_rows(corner, better))
        chosen = to_numpy(take_rows(low, better))
        self.later[rows[better]] = (
            np.where(chosen, -1.0, 1.0) if chosen.dtype == np.bool_ else chosen
        )
        if self.gap is None and not self.fine:
            self.done |= self.broken

    def _close(
        self, rows: Rows, bound: Floats, decided: Array, lower: Array, upper: Array, which: Rows
    ) -> None:
        """Close branches of these rows with these bounds; the other arrays have them at `which`."""
        np.minimum.at(self.lower, rows, bound)
        if self.keep and rows.size:
            leaves = map(to_numpy, map(take_rows, (decided, lower, upper), (which,) * 3))
            self.leaves.append(Leaves(rows, *leaves))

    def _children(self, branches: Branches) -> Branches:
        """Two branches for each."""
        both, xp = branches.joined(branches), array_namespace(branches.decided)
        np.add.at(self.nodes, both.row, 1)
        chosen = both.neuron[:, None] == np.arange(both.decided.shape[1])
        side = np.repeat(np.array([1, -1], dtype=np.int8), branches.row.size)[:, None]
        here = (beside(both.decided, part) for part in (chosen, side))
        return replace(both, decided=xp.where(*here, both.decided))

    def _unstuck(self, branches: Branches) -> Branches:
        """Better multipliers for branches without a neuron that promises anything; then, as a program says."""
        branches = self._bounded(branches, _LAST_STEPS)
        neuron = branches.neuron.copy()
        for i in np.flatnonzero(neuron < 0):
            one = branches.take(np.array([i]))
            neuron[i] = self._by_program(one) if self._still_open(one)[0] else -1
        return replace(branches, neuron=neuron).take(np.flatnonzero(neuron >= 0))

    def _by_program(self, branch: Branches) -> int:
        """Close one branch by its linear program, or meet its margin; the neuron to split, -1 if there is nothing left.

        With every line decided, few steps need not come near enough to the best multipliers.
        """
        ranges = self.root.take(branch.row).split(branch.decided).on(to_numpy)
        decided, layers = to_numpy(branch.decided), ranges.layers
        places = [
            (i, j)
            for i, layer in enumerate(layers.hidden)
            if i
            for j in range(layer.weight.shape[0])
        ]
        ends = np.concatenate(
            [[ranges.start.low[0], ranges.start.high[0]], [ranges.bottom[0], ranges.top[0]]], axis=1
        ).T
        cuts = np.cumsum([layer.weight.shape[0] for layer in layers.hidden])[:-1]
        known = {
            place: int(choice) for place, choice in zip(places, decided[0], strict=True) if choice
        }
        proposal = propose(layers.at_one_scale(), np.split(ends, cuts), known)
        if proposal is None:
            self._give_up(branch.row)
            return -1
        lower, upper = proposal.lower[None, :], proposal.upper[None, :]
        bound, first = proven(ranges, lower, upper), proposal.values[0]
        corner = np.where((first <= 0.0) & layers.relus[0], ranges.start.low[0], first)[None, :]
        chosen = np.concatenate(proposal.sides)[None, :]
        self._meet(branch.row, reach(layers, corner, chosen), corner, chosen)
        if bound[0] > self._cutoff(branch.row)[0]:
            self._close(branch.row, bound, decided, lower, upper, np.zeros(1, dtype=np.intp))
            return -1
        if proposal.loosest is None or proposal.loosest[0] == 0:
            self._give_up(branch.row)
            return -1
        return places.index(proposal.loosest)

    def _give_up(self, rows: Rows) -> None:
        rows = rows[~self.done[rows]]
        self.done[rows] = True
        self.open[rows] = True
        self.lower[rows] = self.root_bound[rows]


def _popped(stack: list[Branches], batch: int) -> Branches:
    """As many branches from the top as are bounded together."""
    branches = stack.pop()
    while stack and branches.row.size + stack[-1].row.size <= batch:
        branches = branches.joined(stack.pop())
    if branches.row.size > 2 * batch:
        stack.append(branches.take(np.arange(branches.row.size - batch)))
        branches = branches.take(np.arange(branches.row.size - batch, branches.row.size))
    return branches
