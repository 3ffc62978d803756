"""Linear bounds with the best multipliers, and branch and bound on the neurons they are unsure of; many rows at a time.

Walking backwards (see `bounds.layers`), a neuron's function c z + d z⁺ is bounded by  l L + u U + k:

    ReLU, d > 0   l = alpha d,  u = 0                    alpha in [0, 1]: z⁺ >= alpha L
    ReLU, d < 0   l = 0,        u = stretch slope d      slope of the chord above z⁺ on the range of U, stretch >= 1
    identity      c + d slope (or alpha for d > 0), on L where that is positive and on U where it is not

A branch says that U (of an identity neuron: z) is >= 0 or <= 0, which cuts its range, and may add any multiple of the
right sign of U (or z): `extra`. k is the least of  c z + d z⁺ - l L - u U  on the range, so any multipliers are sound.
The bound is concave in each layer's multipliers; a few steps of projected ascent with Polyak's length come near the
linear program's optimum, and the neuron whose better branch promises most is split next.

What proves a row is the set of its closed branches, each with its multipliers: `verify.proof` writes them down.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.arrays import Array, array_namespace, beside, dot_rows, row_sum, take_rows, to_numpy
from holdfast.bounds.layers import Layers, Start
from holdfast.deadline import Deadline
from holdfast.network import Floats
from holdfast.verify.program import propose

Rows = NDArray[np.intp]
# Slope and intercept of the line above z⁺ for every later neuron, (n, N) each.
Lines: TypeAlias = tuple[Array, Array]

# Of a branch, where two hidden layers need no more, with more of them, and where a bound must be fine; of one with
# nothing to split.
_STEPS, _LAST_STEPS = (1, 3, 4), 10
# Branches at a time: what stays in a core's cache, what fills a device.
_BATCH, _DEVICE_BATCH = 256, 2**15
# Ranges by backward walks take a matrix for each row.
_RANGE_BATCH = 128
_MOST_STRETCH, _HUGE = 1e3, 1e9
# A counter-model that a radius is to follow is looked for until no margin is this many times as far below 0, in so
# many branches.
_DEEPER, _DEEPER_NODES = 1.5, 1000
# What an attack or a search computes is a network in Δ up to rounding, as is the network that is written down: a
# margin this many rounding errors below zero stays below it.
WITNESS_SAFETY = 8.0


@dataclass(frozen=True)
class Relaxation:
    """Layers, their start, and a range for every later neuron, layers side by side (n, N): of U; of z without ReLU."""

    layers: Layers
    start: Start
    bottom: Array
    top: Array
    # What bounds the sums that each later neuron, and the margin (n, 1), takes part in; all values' sizes together.
    sizes: Array
    margin_size: Array
    bulk: Array

    @classmethod
    def of(cls, layers: Layers, start: Start) -> Relaxation:
        """Ranges layer by layer: over the box of the values before; from the third hidden layer on by walks back."""
        xp = array_namespace(start.low)
        found = cls(layers, start, *(start.low[:, :0],) * 3, start.low[:, :1], start.low[:, :1] * 0.0)
        low, high = _values(start.low, layers.relus[0]), _values(start.high, layers.relus[0])
        bulk = row_sum(xp.maximum(xp.abs(low), xp.abs(high)))
        for i in range(1, layers.depth):
            layer, relu = layers.hidden[i], layers.relus[i]
            size = layer.size(xp.maximum(xp.abs(low), xp.abs(high)))
            slack = layer.slack(size)
            least, bottom, top = layer.over(low, high)
            least, bottom, top = least - slack, bottom - slack, top + slack
            if i > 1:
                ends = _walked_ends(replace(found, bulk=bulk), i, size)
                # As the checker has them.
                bottom, top = ends[0], xp.minimum(top, ends[1])
                least = least if relu else xp.maximum(least, ends[0])
            low, high = (xp.maximum(least, 0.0), xp.maximum(top, 0.0)) if relu else (least, top)
            low = xp.minimum(low, high)
            bulk = bulk + row_sum(xp.maximum(xp.abs(low), xp.abs(high)))
            columns = (bottom if relu else least, top, size)
            joined = [
                xp.concat(pair, axis=1) for pair in zip((found.bottom, found.top, found.sizes), columns, strict=True)
            ]
            found = replace(found, bottom=joined[0], top=joined[1], sizes=joined[2])
        size = layers.margin.size(xp.maximum(xp.abs(low), xp.abs(high)))
        return replace(found, margin_size=size, bulk=bulk)

    def on(self, convert: Any) -> Relaxation:
        """The same with its arrays converted."""
        parts = {f.name: convert(getattr(self, f.name)) for f in fields(self)[2:]}
        start = Start(convert(self.start.low), convert(self.start.high))
        return Relaxation(self.layers.on(convert), start, **parts)

    def take(self, rows: Array) -> Relaxation:
        """The relaxation of some rows."""
        parts = {f.name: take_rows(getattr(self, f.name), rows) for f in fields(self)[2:]}
        return Relaxation(self.layers.take(rows), self.start.take(rows), **parts)

    def split(self, decided: Array) -> Relaxation:
        """With the ranges that a branch leaves: 1 for above 0, -1 for below, 0 for undecided, (n, N)."""
        xp = array_namespace(decided)
        bottom = xp.where(decided > 0, xp.maximum(self.bottom, 0.0), self.bottom)
        return replace(self, bottom=bottom, top=xp.where(decided < 0, xp.minimum(self.top, 0.0), self.top))

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
        weighed = self.margin_size[:, 0] + dot_rows(total, self.sizes)
        return self.layers.allowance(weighed, (row_sum(total) + self.bulk)[:, 0])


def _values(ends: Array, relu: bool) -> Array:
    return array_namespace(ends).maximum(ends, 0.0) if relu else ends


def _walked_ends(relaxation: Relaxation, i: int, size: Array) -> tuple[Array, Array]:
    """The ends of layer i's U, or of z between L and U, each by its own walk back with chords on both sides."""
    like = relaxation.start.low
    one = _on(like, array_namespace(like).eye(size.shape[1], dtype=like.dtype)[None, ...])
    lower, upper = (0.0 * one, one) if relaxation.layers.relus[i] else (one, 0.0 * one)
    return _walk_rows(relaxation, i, lower, upper, size), -_walk_rows(relaxation, i, 0.0 * one, -one, size)


def _on(like: Array, array: Array) -> Array:
    """`array` where `like` is."""
    return array.to(like.device) if hasattr(like, "is_cuda") else array


def _walk_rows(relaxation: Relaxation, i: int, lower: Array, upper: Array, size: Array) -> Array:
    """Sound lower bounds (n, m) of the rows  lower L + upper U  of layer i, whose sizes are (n, m)."""
    xp = array_namespace(relaxation.start.low)
    columns = (*relaxation.chords(), relaxation.sizes)
    c, d, constant = relaxation.layers.hidden[i].pull(lower, upper)
    plain = relaxation.bulk
    for k, span in relaxation.layers.spans[-i + 1 :]:
        slopes, intercepts, sizes = (column[:, span, None] for column in columns)
        constant = constant + (xp.minimum(d, 0.0) @ intercepts)[..., 0]
        line = d * slopes[:, None, :, 0] if c is None else c + d * slopes[:, None, :, 0]
        lower, upper = xp.maximum(line, 0.0), xp.minimum(line, 0.0)
        size, plain = size + ((lower - upper) @ sizes)[..., 0], plain + xp.sum(lower - upper, axis=-1)
        c, d, added = relaxation.layers.hidden[k].pull(lower, upper)
        constant = constant + added
    least, _ = relaxation.start.least(c, d)
    return least + constant - relaxation.layers.allowance(size, plain)


@dataclass(frozen=True)
class Walk:
    """A walk back: the bound without its allowance for rounding, and what it met, (n, N) each."""

    bound: Array
    lower: Array
    upper: Array
    # What multiplies z⁺ of each later neuron, and whether the adversary wants it low.
    d: Array
    low: Array
    # The first layer's preactivations where the bound is met.
    corner: Array

    def take(self, rows: Array) -> Walk:
        """The walk of some rows."""
        return Walk(*(take_rows(getattr(self, f.name), rows) for f in fields(self)))


def walk_back(relaxation: Relaxation, lines: Lines, multipliers: Array) -> Walk:
    """The margin pulled back to the start, with alpha, stretch and extra stacked: (3, n, N)."""
    layers = relaxation.layers
    xp = array_namespace(relaxation.top)
    c, d, constant = layers.wanted
    kept: list[tuple[Array, ...]] = []
    for i, span in layers.spans:
        slope, intercept = (line[:, span] for line in lines)
        alpha, stretch, extra = (multipliers[k, :, span] for k in range(3))
        rising = d > 0.0
        if c is None:
            lower = xp.where(rising, alpha * d, 0.0)
            upper = xp.where(rising, 0.0, stretch * slope * d) + extra
            # No less than this: a split's range ends at 0, and there it is 0.
            constant = constant + dot_rows(xp.minimum(d, 0.0), stretch * intercept)
            low = rising
        else:
            line = c + d * xp.where(rising, alpha, slope) + extra
            lower, upper = xp.maximum(line, 0.0), xp.minimum(line, 0.0)
            constant = constant + dot_rows(xp.minimum(d, 0.0), intercept)
            low = line > 0.0
        kept.append((lower, upper, xp.broadcast_to(d, lower.shape), xp.broadcast_to(low, lower.shape)))
        c, d, added = layers.hidden[i].pull(lower, upper)
        constant = constant + added
    least, corner = relaxation.start.least(c, d)
    joined = kept[0] if len(kept) == 1 else [xp.concat(part[::-1], axis=1) for part in zip(*kept, strict=True)]
    return Walk(least + constant, joined[0], joined[1], joined[2], joined[3], corner)


def _least_rest(d: Array, lower: Array, upper: Array, bottom: Array, top: Array) -> Array:
    """The least of  d z⁺ - lower L - upper U  over L <= U in [bottom, top] and L <= z <= U: at an end or at U = 0."""
    xp = array_namespace(d)
    below, above = -(lower + upper), xp.minimum(d - lower, 0.0) - upper
    ends = [xp.where(end < 0.0, below, above) * end for end in (bottom, top)]
    found = xp.minimum(*ends)
    return xp.where((bottom < 0.0) & (top > 0.0), xp.minimum(found, 0.0), found)


def reach(layers: Layers, corner: Array, low: Array) -> Array:
    """The margin (n,) of the network in Δ that has these first preactivations and later neurons on these sides.

    `low` says which neurons are on their low side; or, as a number from -1 to 1, how far on which.
    """
    xp = array_namespace(corner)
    values, start = _values(corner, layers.relus[0]), 0
    for layer, relu in zip(layers.hidden[1:], layers.relus[1:], strict=True):
        below, above = layer.sides(values)
        end = start + layer.weight.shape[0]
        share = low[:, start:end]
        if share.dtype == xp.bool:
            z = xp.where(share, below, above)
        else:
            center = values @ layer.weight.T + layer.bias
            z = center + share * xp.where(share < 0.0, center - below, above - center)
        values, start = _values(z, relu), end
    return layers.reached(values)


def proven(relaxation: Relaxation, lower: Array, upper: Array) -> Array:
    """The bound (n,) that given multipliers of L and U of the later neurons prove, rounding taken off."""
    xp = array_namespace(lower)
    c, d, constant = relaxation.layers.wanted
    columns = (lower, upper, relaxation.bottom, relaxation.top)
    for i, span in relaxation.layers.spans:
        low, up, bottom, top = (column[:, span] for column in columns)
        if c is None:
            rest = _least_rest(d, low, up, bottom, top)
        else:
            # Without a ReLU both L and U stand for z itself, l >= 0 and u <= 0.
            low, up = xp.maximum(low, 0.0), xp.minimum(up, 0.0)
            rest = Start(bottom, top).least(c - low - up, d)[0]
        constant = constant + (xp.sum(rest, axis=1) if c is None else rest)
        c, d, added = relaxation.layers.hidden[i].pull(low, up)
        constant = constant + added
    return relaxation.start.least(c, d)[0] + constant - relaxation.error(lower, upper)


def _seen(layers: Layers, lines: Lines, multipliers: Array, walk: Walk) -> tuple[Array, Array, Array]:
    """L and U of every later neuron (of one without a ReLU z, twice) where the bound is met, and the line above U."""
    xp = array_namespace(walk.corner)
    plus: Array | None = None
    values = _values(walk.corner, layers.relus[0])
    seen: list[tuple[Array, ...]] = []
    for i, span in layers.spans[::-1]:
        slope, intercept, d, low = (column[:, span] for column in (*lines, walk.d, walk.low))
        alpha, stretch = (multipliers[k, :, span] for k in range(2))
        below, above = layers.hidden[i].sides(values, plus)
        if not layers.relus[i]:
            below = above = xp.where(low, below, above)
        line = slope * above + intercept
        if i + 1 < layers.depth:
            plus = None if layers.relus[i] else xp.where(d < 0.0, line, alpha * above)
            values = xp.where(low, alpha * below, stretch * line) if layers.relus[i] else above
        seen.append((below, above, line))
    below, above, line = seen[0] if len(seen) == 1 else (xp.concat(part, axis=1) for part in zip(*seen, strict=True))
    return below, above, line


@dataclass(frozen=True)
class Tightened:
    """A bound with its multipliers."""

    bound: Array
    multipliers: Array
    lower: Array
    upper: Array

    def better(self, new: Tightened) -> Tightened:
        """Row by row the higher bound."""
        xp = array_namespace(self.bound)
        higher = new.bound > self.bound
        if xp.all(higher):
            return new
        pairs = ((new.multipliers, self.multipliers), (new.lower, self.lower), (new.upper, self.upper))
        parts = (xp.where(higher[:, None], ours, theirs) for ours, theirs in pairs)
        return Tightened(xp.where(higher, new.bound, self.bound), *parts)


def tighten(
    relaxation: Relaxation, lines: Lines, decided: Array, multipliers: Array, steps: int, cutoff: Array
) -> tuple[Tightened, Walk]:
    """Some steps upwards, towards a bound above `cutoff`: the best of them, rounding taken off, and the last walk."""
    xp = array_namespace(relaxation.top)
    walk = walk_back(relaxation, lines, multipliers)
    best = Tightened(walk.bound, multipliers, walk.lower, walk.upper)
    low, high = _limits(decided, lines[0]) if steps > 1 else lines
    for _ in range(1, steps):
        if xp.all(best.bound > cutoff):
            break
        below, above, line = _seen(relaxation.layers, lines, multipliers, walk)
        falling = walk.d < 0.0
        slope = xp.stack([xp.where(falling, 0.0, walk.d * below), xp.where(falling, walk.d * line, 0.0), above])
        # Without the parts that would leave the range at once.
        leaving = ((multipliers >= high) & (slope > 0.0)) | ((multipliers <= low) & (slope < 0.0))
        slope = xp.where(leaving, 0.0, slope)
        square = xp.sum(dot_rows(slope, slope), axis=0)
        # A little further than the cutoff, since not all of what a step promises is kept.
        gap = xp.where(walk.bound > cutoff, 0.0, 1.05 * (xp.minimum(cutoff, _HUGE) - walk.bound))
        length = (gap / xp.where(square > 0.0, square, 1.0))[:, None]
        multipliers = xp.minimum(xp.maximum(multipliers + length * slope, low), high)
        walk = walk_back(relaxation, lines, multipliers)
        best = best.better(Tightened(walk.bound, multipliers, walk.lower, walk.upper))
    return replace(best, bound=best.bound - relaxation.error(best.lower, best.upper)), walk


def descend(layers: Layers, start: Start, walk: Walk, steps: int) -> Array:
    """From a walk's corner towards its bound, later neurons on its sides; the first preactivations of the least margin.

    A least value inside the box is met near it, never at a corner.
    """
    xp, relu = array_namespace(walk.corner), layers.relus[0]
    bottom, top, values = (_values(part, relu) for part in (start.low, start.high, walk.corner))
    best, met = values, xp.inf + 0.0 * walk.bound
    for _ in range(steps):
        margin, slope = _margin_and_slope(layers, values, walk.low)
        best, met = xp.where((margin < met)[:, None], values, best), xp.minimum(margin, met)
        slope = xp.where(((values <= bottom) & (slope > 0.0)) | ((values >= top) & (slope < 0.0)), 0.0, slope)
        square = dot_rows(slope, slope)
        length = (margin - walk.bound) / xp.where(square > 0.0, square, 1.0)
        values = xp.minimum(xp.maximum(values - length[:, None] * slope, bottom), top)
    return xp.where(best <= 0.0, start.low, best) if relu else best


def _margin_and_slope(layers: Layers, values: Array, low: Array) -> tuple[Array, Array]:
    """The margin of the first hidden layer's values with later neurons on these sides, (n,), and its slope there."""
    xp = array_namespace(values)
    first, seen = values, []
    for i, span in layers.spans[::-1]:
        seen.append(xp.where(low[:, span], *layers.hidden[i].sides(values)))
        values = _values(seen[-1], layers.relus[i])
    c, d, _ = layers.wanted
    for i, span in layers.spans:
        line = xp.where(seen.pop() > 0.0, d, 0.0) + (0.0 if c is None else c)
        c, d, _ = layers.hidden[i].pull(*(xp.where(low[:, span] == side, line, 0.0) for side in (True, False)))
    return layers.reached(values), d if c is None else c + xp.where(first > 0.0, d, 0.0)


def _limits(decided: Array, like: Array) -> tuple[Array, Array]:
    """Between what alpha, stretch and extra lie: extra multiples of U are <= 0 above 0, >= 0 below, else none."""
    xp, zero = array_namespace(like), 0.0 * like
    least = xp.stack([zero, zero + 1.0, xp.where(decided > 0, -xp.inf, zero)])
    return least, xp.stack([zero + 1.0, zero + _MOST_STRETCH, xp.where(decided < 0, xp.inf, zero)])


@dataclass(frozen=True)
class Leaves:
    """Closed branches: their rows, what was decided of each later neuron, and the multipliers of L and U."""

    row: Rows
    decided: NDArray[np.int8]
    lower: Floats
    upper: Floats


@dataclass
class Found:
    """For each row the least margin lies in [lower, upper]; `open` where the search gave up; what proves or breaks."""

    lower: Floats
    upper: Floats
    open: NDArray[np.bool_]
    nodes: NDArray[np.int64]
    # The first layer's preactivations and each later neuron's side, -1 for low, where `upper` was met.
    corner: Floats
    sides: Floats
    leaves: list[Leaves] = field(default_factory=list)


@dataclass(frozen=True)
class _Nodes:
    """Branches in waiting: rows, what was decided, multipliers, the neuron to split next, -1 for none, and bounds."""

    row: Rows
    decided: Array
    multipliers: Array
    neuron: Rows
    bound: Floats

    def take(self, rows: Rows) -> _Nodes:
        chosen = beside(self.decided, rows)
        multipliers = array_namespace(self.decided).take(self.multipliers, chosen, axis=1)
        return _Nodes(self.row[rows], take_rows(self.decided, chosen), multipliers, self.neuron[rows], self.bound[rows])

    def joined(self, other: _Nodes) -> _Nodes:
        xp = array_namespace(self.decided)
        return _Nodes(
            np.concatenate([self.row, other.row]),
            xp.concat([self.decided, other.decided]),
            xp.concat([self.multipliers, other.multipliers], axis=1),
            np.concatenate([self.neuron, other.neuron]),
            np.concatenate([self.bound, other.bound]),
        )


class Search:
    """Branch and bound on one margin of some rows: until each row's bound exceeds its cutoff or its margin meets it.

    Parameters
    ----------
    layers, start
        The rows' layers, and where they start.
    upper
        A margin known to be reached in each row.
    error
        What rounding may do to a reached margin, (n,).
    gap
        None: the cutoff is 0, and a margin clearly below 0 ends a row. Otherwise the cutoff is `upper - gap`.
    keep
        Whether to keep the closed branches.
    fine
        Whether margins are known to come near 0, so that good multipliers and counter-models pay.
    """

    def __init__(
        self,
        layers: Layers,
        start: Start,
        upper: Floats,
        error: Floats,
        *,
        gap: Floats | None = None,
        keep: bool = False,
        fine: bool = False,
    ) -> None:
        n, later = upper.shape[0], sum(layer.weight.shape[0] for layer in layers.hidden[1:])
        parts = []
        batch = n if layers.depth < 3 else _RANGE_BATCH
        for first in range(0, n, max(batch, 1)):
            rows = beside(start.low, np.arange(first, min(first + batch, n)))
            parts.append(Relaxation.of(layers.take(rows), start.take(rows)))
        self.root = _joined(layers, start, parts)
        self.lines = self.root.chords()
        self.error, self.gap, self.keep, self.fine = error, gap, keep, fine
        self.steps = _STEPS[2 if fine or gap is not None else layers.depth > 2]
        self.done = np.zeros(n, dtype=bool)
        first_size = layers.hidden[0].weight.shape[0]
        self.found = Found(
            np.full(n, np.inf),
            upper.copy(),
            np.zeros(n, dtype=bool),
            np.zeros(n, dtype=np.int64),
            np.zeros((n, first_size)),
            np.zeros((n, later)),
        )
        self.root_bound = np.full(n, -np.inf)

    def run(self, max_nodes: int, deadline: Deadline) -> Found:
        """From the root to the end."""
        self.root_bounds()
        self.branch(max_nodes, deadline)
        return self.found

    def root_bounds(self) -> None:
        """The linear bounds, nothing decided; what they leave open waits for `branch`."""
        xp = array_namespace(self.root.top)
        zero = 0.0 * self.root.top
        rows = np.arange(self.done.shape[0])
        nodes = _Nodes(
            rows, xp.astype(zero, xp.int8), xp.stack([self.lines[0], zero + 1.0, zero]), rows, self.root_bound
        )
        for steps in (1, _LAST_STEPS if self.steps > 3 else 3):
            if nodes.row.size:
                nodes = self._bounded(nodes, steps, root=True)
        self.found.nodes[:] = 1
        self.stack = [nodes] if nodes.row.size else []

    def branch(self, max_nodes: int, deadline: Deadline) -> None:
        """Search to the end, or as far as the budget goes; open rows keep the bound of their root."""
        stack, batch = self.stack, _BATCH if isinstance(self.root.top, np.ndarray) else _DEVICE_BATCH
        # Branches with nothing to split, which wait for others of their kind.
        stuck: list[_Nodes] = []
        while stack or stuck:
            last = not stack or sum(nodes.row.size for nodes in stuck) > batch
            nodes = _popped(stuck if last else stack, batch)
            most = np.where(self.broken & self.fine, min(_DEEPER_NODES, max_nodes), max_nodes)
            worn = nodes.row if deadline.over else nodes.row[(self.found.nodes > most)[nodes.row]]
            self._give_up(np.unique(worn))
            still = self._still_open(nodes)
            if last:
                nodes = self._unstuck(nodes.take(np.flatnonzero(still)))
            else:
                idle = np.flatnonzero(still & (nodes.neuron < 0))
                if idle.size:
                    stuck.append(nodes.take(idle))
                nodes = self._bounded(self._children(nodes, np.flatnonzero(still & (nodes.neuron >= 0))), self.steps)
            if nodes.row.size:
                stack.append(nodes)

    def skip(self, rows: Rows) -> None:
        """Leave out rows that are settled otherwise."""
        self.done[rows] = True

    @property
    def broken(self) -> NDArray[np.bool_]:
        """Rows whose margin is clearly below zero for some network in Δ."""
        return np.asarray(self.found.upper < -WITNESS_SAFETY * self.error)

    @property
    def closed(self) -> NDArray[np.bool_]:
        """Rows all of whose branches are closed."""
        waiting = np.zeros(self.done.shape[0], dtype=bool)
        for nodes in self.stack:
            waiting[nodes.row] = True
        return ~waiting & ~self.found.open & ~self.done

    def _bounded(self, nodes: _Nodes, steps: int, *, root: bool = False) -> _Nodes:
        """Bound the branches; close those above their cutoff, record the margins met, return the rest."""
        if not nodes.row.size:
            return nodes
        relaxation, lines = self._case(nodes)
        xp = array_namespace(relaxation.top)
        cutoff = self._cutoff(nodes.row)
        # Where the ranges of a branch contradict each other, it is empty, and whatever is claimed of it holds.
        tightened, walk = tighten(
            relaxation, lines, nodes.decided, nodes.multipliers, steps, _on(relaxation.top, xp.asarray(cutoff))
        )
        bound = to_numpy(tightened.bound)
        if root:
            self.root_bound[nodes.row] = np.maximum(self.root_bound[nodes.row], bound)
        closed = bound > cutoff
        shut = np.flatnonzero(closed & ~self.done[nodes.row])
        parts = (take_rows(part, beside(part, shut)) for part in (nodes.decided, tightened.lower, tightened.upper))
        self._close(nodes.row[shut], bound[shut], *parts)
        rest = np.flatnonzero(~closed & ~self.done[nodes.row])
        if not rest.size:
            return nodes.take(rest)
        chosen = beside(nodes.decided, rest)
        nodes = replace(nodes, multipliers=tightened.multipliers, bound=bound).take(rest)
        layers, walk = relaxation.layers.take(chosen), walk.take(chosen)
        corner = descend(layers, relaxation.start.take(chosen), walk, steps) if steps > 3 else walk.corner
        self._meet(nodes.row, reach(layers, corner, walk.low), corner, walk.low)
        lines = take_rows(lines[0], chosen), take_rows(lines[1], chosen)
        # What the better branch of each neuron that may be split promises.
        _, above, line = _seen(layers, lines, nodes.multipliers, walk)
        score = xp.where(lines[1] > 0.0, -xp.minimum(walk.d, 0.0) * xp.maximum(line, line - above), 0.0)
        neuron = to_numpy(xp.where(xp.max(score, axis=1) > 0.0, xp.argmax(score, axis=1), -1))
        return replace(nodes, neuron=neuron)

    def _case(self, nodes: _Nodes) -> tuple[Relaxation, Lines]:
        """The relaxation of each node's row, before any split, and the chords of the node."""
        xp = array_namespace(nodes.decided)
        chosen = beside(nodes.decided, nodes.row)
        slope, intercept = (take_rows(line, chosen) for line in self.lines)
        free, above = nodes.decided == 0, xp.astype(nodes.decided > 0, slope.dtype)
        return self.root.take(chosen), (xp.where(free, slope, above), xp.where(free, intercept, 0.0))

    def _still_open(self, nodes: _Nodes) -> NDArray[np.bool_]:
        """Which branches are of rows that are not done, less those above a cutoff that has come down since."""
        above = nodes.bound > self._cutoff(nodes.row)
        np.minimum.at(self.found.lower, nodes.row[above], nodes.bound[above])
        return np.asarray(~above & ~self.done[nodes.row])

    def _cutoff(self, rows: Rows) -> Floats:
        if self.gap is not None:
            return np.asarray(self.found.upper[rows] - self.gap[rows])
        if not self.fine:
            return np.zeros(rows.shape[0])
        return np.where(self.broken[rows], _DEEPER * self.found.upper[rows], 0.0)

    def _meet(self, rows: Rows, reached: Array, corner: Array, low: Array) -> None:
        """Record networks with a smaller margin than was known, the best last so that it stays."""
        margin = to_numpy(reached) + self.error[rows]
        better = np.flatnonzero(margin < self.found.upper[rows])
        if not better.size:
            return
        better = better[np.argsort(-margin[better], kind="stable")]
        self.found.upper[rows[better]] = margin[better]
        chosen = beside(low, better)
        self.found.corner[rows[better]] = to_numpy(take_rows(corner, chosen))
        self.found.sides[rows[better]] = np.where(to_numpy(take_rows(low, chosen)), -1.0, 1.0)
        if self.gap is None and not self.fine:
            self.done |= self.broken

    def _close(self, rows: Rows, bound: Floats, *leaves: Array) -> None:
        np.minimum.at(self.found.lower, rows, bound)
        if self.keep and rows.size:
            self.found.leaves.append(Leaves(rows, *(to_numpy(part) for part in leaves)))

    def _children(self, nodes: _Nodes, chosen: Rows) -> _Nodes:
        """Two branches for each of some nodes."""
        both, xp = nodes.take(np.concatenate([chosen, chosen])), array_namespace(nodes.decided)
        np.add.at(self.found.nodes, both.row, 1)
        columns = beside(both.decided, np.arange(both.decided.shape[1]))[None, :]
        side = beside(both.decided, np.repeat(np.array([1, -1], dtype=np.int8), chosen.size))[:, None]
        return replace(
            both, decided=xp.where(beside(both.decided, both.neuron)[:, None] == columns, side, both.decided)
        )

    def _unstuck(self, nodes: _Nodes) -> _Nodes:
        """Better multipliers for branches without a neuron that promises anything; then, as a program says."""
        nodes = self._bounded(nodes, _LAST_STEPS)
        neuron = nodes.neuron.copy()
        for i in np.flatnonzero(neuron < 0):
            node = nodes.take(np.array([i]))
            neuron[i] = self._by_program(node) if self._still_open(node)[0] else -1
        return replace(nodes, neuron=neuron).take(np.flatnonzero(neuron >= 0))

    def _by_program(self, node: _Nodes) -> int:
        """Close one branch by its linear program, or meet its margin; the neuron to split, -1 if there is nothing left.

        With every line decided, few steps need not come near enough to the best multipliers.
        """
        relaxation = self.root.take(beside(node.decided, node.row)).split(node.decided).on(to_numpy)
        decided = to_numpy(node.decided)
        hidden = [layer.weight.shape[0] for layer in relaxation.layers.hidden]
        places = [(i, j) for i, size in enumerate(hidden[1:], 1) for j in range(size)]
        ends = np.stack([relaxation.bottom[0], relaxation.top[0]], axis=1)
        first = np.stack([relaxation.start.low[0], relaxation.start.high[0]], axis=1)
        ranges = [first, *np.split(ends, np.cumsum(hidden[1:])[:-1])]
        known = {place: int(choice) for place, choice in zip(places, decided[0], strict=True) if choice}
        found = propose(relaxation.layers.at_one_scale(), ranges, known)
        if found is None:
            self._give_up(node.row)
            return -1
        lower, upper = found.lower[None, :], found.upper[None, :]
        bound = proven(relaxation, lower, upper)
        relus = relaxation.layers.relus
        corner = np.where((found.values[0] <= 0.0) & relus[0], relaxation.start.low[0], found.values[0])[None, :]
        chosen = np.concatenate(found.sides)[None, :]
        margin = reach(relaxation.layers, corner, chosen) + self.error[node.row]
        if margin[0] < self.found.upper[node.row[0]]:
            self.found.upper[node.row], self.found.corner[node.row], self.found.sides[node.row] = margin, corner, chosen
            if self.gap is None and not self.fine:
                self.done |= self.broken
        if bound[0] > self._cutoff(node.row)[0]:
            self._close(node.row, bound, decided, lower, upper)
            return -1
        if found.loosest is None or found.loosest[0] == 0:
            self._give_up(node.row)
            return -1
        return places.index(found.loosest)

    def _give_up(self, rows: Rows) -> None:
        rows = rows[~self.done[rows]]
        self.done[rows] = True
        self.found.open[rows] = True
        self.found.lower[rows] = self.root_bound[rows]


def _popped(stack: list[_Nodes], batch: int) -> _Nodes:
    """As many branches from the top as are bounded together."""
    nodes = stack.pop()
    while stack and nodes.row.size + stack[-1].row.size <= batch:
        nodes = nodes.joined(stack.pop())
    if nodes.row.size > 2 * batch:
        stack.append(nodes.take(np.arange(nodes.row.size - batch)))
        nodes = nodes.take(np.arange(nodes.row.size - batch, nodes.row.size))
    return nodes


def _joined(layers: Layers, start: Start, parts: list[Relaxation]) -> Relaxation:
    if len(parts) == 1:
        return parts[0]
    xp = array_namespace(start.low)
    names = [f.name for f in fields(Relaxation)[2:]]
    return Relaxation(layers, start, *(xp.concat([getattr(part, name) for part in parts]) for name in names))
