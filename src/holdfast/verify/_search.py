"""Linear bounds with the best multipliers, and branch and bound on the neurons that stay open; many rows at a time.

The walk back (see `bounds.layers`) bounds a neuron's function c z + d z⁺ by  l L + u U + k,  on one side each:

    d > 0                l = share d                 share in [0, 1]: z⁺ >= share L
    d < 0                u = share slope d           share >= 1; slope of the chord above z⁺ on the range of U
    d < 0, U <= 0        u = -share d                share >= 0: a multiple of U that helps
    identity             c + the same, on L if the sum is positive, else on U

In the last hidden layer d keeps its sign; neurons before it have one share for either sign.
A branch says that U (of an identity neuron: z) is >= 0, where the chord is U itself, or <= 0, where z⁺ is 0. k is the
least of  c z + d z⁺ - l L - u U  on the range, so any shares are sound. The bound is concave in each layer's shares; a
few steps of projected ascent with Polyak's length come near the linear program's optimum, and the neuron whose better
branch promises most is split next.

The proof of a row is the set of its closed branches, each with its multipliers; `verify.exact` writes it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from holdfast._arrays import Array, RowBatch, array_namespace, beside, row_sum, take_rows, to_numpy
from holdfast._deadline import Deadline
from holdfast._network import Bools, Floats, Ints, Values
from holdfast.bounds._layers import Box, Layers, activated, chords, slack
from holdfast.verify._attack import sides
from holdfast.verify._program import propose

# Of a branch, where two hidden layers need no more, with more of them, and where a bound must be fine; of one with
# nothing to split.
_STEPS, _LAST_STEPS = (1, 3, 4), (4, 10)
# Branches at a time: what stays in a core's cache, what fills a device.
_BATCH, _DEVICE_BATCH = 256, 2**15
# Neurons of a branch that are split at once, at most.
_AT_ONCE = 3
_MOST_SHARE, _HUGE = 1e3, 1e9
# A counter-model that a radius is to follow is looked for until no margin is this many times as far below 0, in so
# many branches.
_DEEPER, _DEEPER_NODES = 1.5, 1000
# What an attack or a search computes is a network in Δ up to rounding, as is the network that is written down: a
# margin this many rounding errors below zero stays below it.
WITNESS_SAFETY = 8.0


@dataclass(frozen=True)
class Ranges(RowBatch):
    """Layers, their start, and for every later neuron a range of U (of z without a ReLU), (n, N)."""

    layers: Layers
    start: Box
    bottom: Array
    top: Array
    # How far rounding may carry a walk back, whoever rounds it differently: for each unit of a later neuron's
    # multiplier, and whatever these are, (n,).
    unit_error: Array
    error: Array

    @classmethod
    def of(cls, layers: Layers, start: Box) -> Ranges:
        """Ranges layer by layer, over the box of the values before; from the third hidden layer on by walks back."""
        xp = array_namespace(start.low)
        low, high = activated(start.low, layers.relus[0]), activated(start.high, layers.relus[0])
        # Of all values' sizes together.
        bulk = 0.0 * low[:, :1]
        ranges = cls(layers, Box(low, high), *(low[:, :0],) * 3, bulk[:, 0])
        for i, layer in enumerate(layers.all[1:], 1):
            # The greatest sizes of what the layer before hands on.
            most = high if layers.relus[i - 1] else xp.maximum(xp.abs(low), xp.abs(high))
            size, bulk = layer.size(most), bulk + row_sum(most)
            if layer is layers.margin:
                break
            spare, relu = slack(layer.terms, size), layers.relus[i]
            least, bottom, top = layer.over(low, high)
            least, bottom, top = least - spare, bottom - spare, top + spare
            if i > 1:
                one = beside(start.low, np.eye(size.shape[1])[None, ...])
                lower, upper = (0.0 * one, one) if relu else (one, 0.0 * one)
                error = slack(layers.terms, size, 1.0 + bulk)
                # The ends of U, or of z between L and U, as the checker has them.
                bottom = _walked(ranges, i, lower, upper) - error
                top = xp.minimum(top, error - _walked(ranges, i, 0.0 * one, -one))
                least = least if relu else xp.maximum(least, bottom)
            low, high = activated(least, relu), activated(top, relu)
            low = xp.minimum(low, high)
            before = ranges.bottom, ranges.top, ranges.unit_error
            parts = bottom if relu else least, top, slack(layers.terms, size)
            pairs = zip(before, parts, strict=True)
            bottom, top, unit_error = (xp.concat(pair, axis=1) for pair in pairs)
            ranges = replace(ranges, bottom=bottom, top=top, unit_error=unit_error)
        return replace(ranges, error=slack(layers.terms, size, 1.0 + bulk)[:, 0])

    def relaxed(self) -> tuple[Case, Array]:
        """The case for walks back, and the first shares: the slope of the chord where d > 0, else 1."""
        xp, before = array_namespace(self.top), self.layers.before
        slope, intercept = chords(self.bottom, self.top)
        first, last = slope[:, :before], slope[:, before:]
        rising = self.layers.wanted[1] > 0.0
        shares = xp.concat([first, xp.where(rising, last, 1.0), xp.ones_like(first)], axis=1)
        slope = xp.concat([first, xp.where(rising, 1.0, last)], axis=1)
        last = xp.where(rising, 0.0, intercept[:, before:])
        intercept = xp.concat([intercept[:, :before], last], axis=1)
        case = Case(self.layers, self.start, slope, intercept, self.unit_error, self.error)
        return case, shares


def _walked(ranges: Ranges, i: int, lower: Array, upper: Array) -> Array:
    """Lower bounds (n, m) of the rows  lower L + upper U  of layer i, with chords on both sides.

    They contain no allowance for rounding if no later neuron has a multiplier.
    """
    xp = array_namespace(lower)
    slope, intercept = (part[:, None, :] for part in chords(ranges.bottom, ranges.top))

    def chord(span: slice, d: Array) -> tuple[Array, Array]:
        below = xp.vecdot(xp.minimum(d, 0.0), intercept[..., span])
        return d * slope[..., span], below

    line = ranges.layers.hidden[i].pull(lower, upper)
    (c, d, constant), total, *_ = ranges.layers.back(chord, line=line, before=i)
    error = xp.vecdot(xp.abs(total), ranges.unit_error[:, None, :])
    return ranges.start.least(c, d)[0] + constant - error


@dataclass(frozen=True)
class Case(RowBatch):
    """The data of a row or a branch for a walk back: its end, the line above z⁺ of each later neuron, rounding.

    Slope and intercept are (n, N). A neuron below 0 by a decision of the branch has slope -1. In the last hidden
    layer
        the line is L itself where d is positive.
    """

    layers: Layers
    start: Box
    slope: Array
    intercept: Array
    unit_error: Array
    error: Array


@dataclass(frozen=True)
class Walk(RowBatch):
    """A walk back: its bound, its shares, and the values that it met, (n, N) each.

    The last columns of the shares are those for d <= 0 of the neurons before the last hidden layer.
    """

    bound: Array
    shares: Array
    # The multiplier of L or of U of each later neuron; which of the two it is of: whether the adversary wants it low.
    total: Array
    low: Array
    # What multiplies z⁺.
    d: Array
    # The first layer's values where the bound is met.
    corner: Array

    def better(self, new: Walk) -> Walk:
        """Row by row the higher bound."""
        higher = new.bound > self.bound
        return new if array_namespace(higher).all(higher) else new.where(higher, self)

    @property
    def multipliers(self) -> tuple[Array, Array]:
        """The multipliers of L and of U."""
        lower = array_namespace(self.total).where(self.low, self.total, 0.0)
        return lower, self.total - lower


def walk_back(case: Case, shares: Array) -> Walk:
    """Pull the margin back to the start; the bound contains no allowance for rounding."""
    layers, xp, width = case.layers, array_namespace(shares), case.slope.shape[1]

    def weighed(span: slice, d: Array) -> tuple[Array, Array]:
        share, slope, down = shares[:, span], case.slope[:, span], d
        if span.start < layers.before:
            rising = d > 0.0
            share = xp.where(rising, share, shares[:, width:][:, span])
            slope, down = xp.where(rising, 1.0, slope), xp.minimum(d, 0.0)
        # No less than this: a split's range ends at 0, and there it is 0.
        return d * slope * share, xp.vecdot(share * case.intercept[:, span], down)

    (c, first, constant), total, low, d = layers.back(weighed)
    least, corner = case.start.least(c, first)
    return Walk(least + constant, shares, total, low, d, corner)


def proven(ranges: Ranges, lower: Array, upper: Array) -> Array:
    """The bound (n,) that multipliers of L and U of the later neurons prove, less rounding.

    After a ReLU the rest of a neuron,  d z⁺ - l L - u U  with l >= 0, is least where L = z, at z = U or 0: it is
        -(l + u) U + min(d, l) U⁺. Without a ReLU both L and U are z itself.
    """
    xp = array_namespace(lower)
    c, d, constant = ranges.layers.wanted
    columns = (lower, upper, ranges.bottom, ranges.top)
    for i, span in ranges.layers.spans:
        low, up, bottom, top = (column[:, span] for column in columns)
        if c is None:
            rest = -(low + up), xp.minimum(d, low)
        else:
            low, up = xp.maximum(low, 0.0), xp.minimum(up, 0.0)
            rest = c - low - up, d
        c, d, added = ranges.layers.hidden[i].pull(low, up)
        constant = constant + Box(bottom, top).least(*rest)[0] + added
    error = ranges.error + xp.vecdot(xp.abs(lower) + xp.abs(upper), ranges.unit_error)
    return ranges.start.least(c, d)[0] + constant - error


def _seen(case: Case, walk: Walk) -> Array:
    """L or U of every later neuron (z without a ReLU) on its side, where the bound is attained, (n, N)."""
    xp, layers, width = array_namespace(walk.corner), case.layers, case.slope.shape[1]

    def handed(i: int, span: slice, z: Array) -> tuple[Array, Array | None]:
        first, second = walk.shares[:, span], walk.shares[:, width:][:, span]
        chord = case.slope[:, span] * z + case.intercept[:, span]
        line = xp.where(walk.d[:, span] > 0.0, first * z, second * chord)
        return (line, None) if layers.relus[i] else (z, line)

    return layers.seen(walk.corner, walk.low, handed)


def raised(case: Case, walk: Walk, cutoff: Array) -> Array | None:
    """The shares after a step upwards, towards a bound above `cutoff`; None if no share changes the bound."""
    xp, z = array_namespace(walk.bound), _seen(case, walk)
    line, rising = case.slope * z + case.intercept, walk.d > 0.0
    slope, chord, before = walk.d * line, case.slope, case.layers.before
    if before:
        # Only the share for d's own sign has a say.
        up = rising[:, :before]
        first = xp.where(up, (walk.d * z)[:, :before], 0.0)
        second = xp.where(up, 0.0, slope[:, :before])
        slope = xp.concat([first, slope[:, before:], second], axis=1)
        chord = xp.concat([chord, chord[:, :before]], axis=1)
        yes = xp.ones_like(up)
        rising = xp.concat([yes, rising[:, before:], ~yes], axis=1)
    # Between what the shares lie.
    least = xp.astype(~rising & (chord >= 0.0), chord.dtype)
    most = _MOST_SHARE - (_MOST_SHARE - 1.0) * xp.astype(rising, chord.dtype)
    # Without the parts that would leave the range at once.
    stays = (slope > 0.0) & (walk.shares < most) | (slope < 0.0) & (walk.shares > least)
    slope = slope * xp.astype(stays, slope.dtype)
    square = xp.vecdot(slope, slope)
    # A little further than the cutoff, since not all of what a step promises is kept.
    gap = 1.05 * xp.maximum(xp.minimum(cutoff, _HUGE) - walk.bound, 0.0)
    if not xp.any(gap * square > 0.0):
        return None
    length = (gap / xp.where(square > 0.0, square, 1.0))[:, None]
    return xp.minimum(xp.maximum(walk.shares + length * slope, least), most)


def descend(layers: Layers, start: Box, walk: Walk, steps: int) -> Array:
    """Descend from a walk's corner towards its bound, later neurons on its sides; return the best first values.

    A minimum inside the box is near the bound, never at a corner.
    """
    xp, values = array_namespace(walk.corner), walk.corner
    best, met = values, xp.inf + 0.0 * walk.bound
    for _ in range(steps):
        margin, z = layers.reach(values, walk.low)
        (c, d, _), *_ = layers.gradient(z, walk.low)
        slope = d if c is None else c + xp.where(values > 0.0, d, 0.0)
        best, met = xp.where((margin < met)[:, None], values, best), xp.minimum(margin, met)
        leaving = xp.where(slope > 0.0, values <= start.low, values >= start.high)
        slope = xp.where(leaving, 0.0, slope)
        square = xp.vecdot(slope, slope)
        length = (margin - walk.bound) / xp.where(square > 0.0, square, 1.0)
        values = xp.minimum(xp.maximum(values - length[:, None] * slope, start.low), start.high)
    return best


@dataclass(frozen=True)
class Leaves:
    """Closed branches: their rows, the decision for each later neuron, and the multipliers of L and U."""

    row: Ints
    decided: Values
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class Branches(RowBatch):
    """Open branches: rows, decisions, shares, the next neurons to split (-1 for none), and bounds."""

    row: Ints
    decided: Array
    shares: Array
    neuron: Ints
    bound: Floats

    def joined(self, other: Branches) -> Branches:
        """The branches of both."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Branches(*(array_namespace(ours).concat([ours, theirs]) for ours, theirs in pairs))


class Search:
    """Branch and bound on one margin of some rows: until each row's bound exceeds its cutoff or its margin meets it.

    For each row the least margin is in [lower, upper]; `open` marks the rows without a result.

    Parameters
    ----------
    layers, points
        The rows' layers, and the rows.
    upper
        An attained margin of each row.
    error
        A bound of the rounding error of an attained margin, (n,).
    gap
        None sets the cutoff to 0, and a margin clearly below 0 ends a row. Otherwise the cutoff is ``upper - gap``.
    keep
        Whether to keep the closed branches, in `leaves`.
    fine
        Whether margins are near 0, so that good multipliers and counter-models are worth their time.
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
        n = len(upper)
        self.points, self.root = points, Ranges.of(layers, layers.start(points))
        self.case, self.shares = self.root.relaxed()
        self.error, self.gap, self.keep, self.fine = error, gap, keep, fine
        self.steps = _STEPS[2 if fine or gap is not None else len(layers.hidden) > 2]
        self.lower, self.upper, self.root_bound = (
            np.full(n, np.inf),
            upper.copy(),
            np.full(n, -np.inf),
        )
        self.open, self.done = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        self.nodes = np.ones(n, dtype=np.int64)
        # The first layer's values and each later neuron's side, -1 for low, where `upper` was met.
        self.corner, self.later = np.zeros(self.root.start.low.shape), np.zeros(self.root.top.shape)
        self.leaves: list[Leaves] = []
        self.stack: list[Branches] = []

    def run(self, max_nodes: int, deadline: Deadline) -> None:
        """Search from the root to the end."""
        self.root_bounds()
        self.branch(max_nodes, deadline)

    def root_bounds(self) -> None:
        """Compute the linear bounds without decisions; open rows wait for `branch`."""
        xp, rows = array_namespace(self.root.top), np.arange(len(self.done))
        decided = xp.zeros_like(self.root.top, dtype=xp.int8)
        branches = Branches(rows, decided, self.shares, rows[:, None], self.root_bound)
        branches = self._bounded(branches, max(self.steps, 3), root=True)
        self.root_bound[branches.row] = branches.bound
        self.stack = [branches] if branches.row.size else []

    def branch(self, max_nodes: int, deadline: Deadline) -> None:
        """Search to the end, or until the budget is used; open rows keep the bound of their root."""
        stack = self.stack
        batch = _BATCH if isinstance(self.root.top, np.ndarray) else _DEVICE_BATCH
        while stack:
            branches = _popped(stack, batch)
            most = np.where(self.broken & self.fine, min(_DEEPER_NODES, max_nodes), max_nodes)
            worn = (self.nodes > most)[branches.row] | deadline.over
            self._give_up(branches.row[worn])
            branches = branches.take(np.flatnonzero(self._still_open(branches)))
            idle = branches.neuron[:, 0] < 0
            if idle.any():
                freed = self._unstuck(branches.take(np.flatnonzero(idle)))
                branches = branches.take(np.flatnonzero(~idle)).joined(freed)
                branches = branches.take(np.argsort(branches.row, kind="stable"))
            branches = self._bounded(self._children(branches), self.steps)
            if branches.row.size:
                stack.append(branches)

    @property
    def broken(self) -> Bools:
        """Rows whose margin is clearly below zero for some network in Δ."""
        return self.upper < -WITNESS_SAFETY * self.error

    @property
    def closed(self) -> Bools:
        """Rows all of whose branches are closed."""
        waiting = np.zeros(len(self.done), dtype=bool)
        for branches in self.stack:
            waiting[branches.row] = True
        return ~waiting & ~self.done

    def sides(self, rows: Ints) -> Floats:
        """The side of each hidden neuron where `upper` was attained."""
        points = take_rows(self.points, rows)
        corner, later = beside(points, self.corner[rows]), beside(points, self.later[rows])
        return to_numpy(sides(self.root.layers.take(rows), points, corner, later))

    def _bounded(self, branches: Branches, steps: int, *, root: bool = False) -> Branches:
        """Bound the branches, close all above their cutoff, record the margins met, and return the rest."""
        xp, case = array_namespace(branches.decided), self.case
        if not root:
            # The lines of each branch's row, but for chords that it has decided: a program may also split where the
            # line is L itself, and that stays.
            case = case.take(branches.row)
            free = (branches.decided == 0) | (case.intercept == 0.0)
            slope = xp.where(free, case.slope, xp.astype(branches.decided, case.slope.dtype))
            case = replace(case, slope=slope, intercept=xp.where(free, case.intercept, 0.0))
        best = walk = walk_back(case, branches.shares)
        for step in range(steps):
            branches, rest = self._shut(branches, case, walk)
            if rest.size < branches.row.size:
                branches, case, walk = branches.take(rest), case.take(rest), walk.take(rest)
                best = best.take(rest) if step else walk
            if not rest.size:
                return branches
            best = best.better(walk) if step else walk
            cutoff = beside(walk.bound, self._cutoff(branches.row))
            shares = raised(case, walk, cutoff) if step + 1 < steps else None
            if shares is None:
                break
            walk = walk_back(case, shares)
        walk = best
        corner = descend(case.layers, case.start, walk, steps) if steps > 3 else walk.corner
        z, alone = _seen(case, walk), len(case.layers.spans) == 1
        if alone and corner is walk.corner:
            met = case.layers.reached(activated(z, case.layers.relus[1]))
        else:
            met, _ = case.layers.reach(corner, walk.low)
        self._meet(branches.row, to_numpy(met), corner, walk.low)
        # What both branches of each neuron that may be split promise; from relaxed values, only the better one.
        line = case.slope * z + case.intercept
        promised = line * (z - line) if alone else xp.minimum(-line, z - line)
        score = xp.where(case.intercept > 0.0, xp.minimum(walk.d, 0.0) * promised, 0.0)
        missing = beside(walk.bound, self._cutoff(branches.row)) - walk.bound
        return replace(branches, shares=walk.shares, neuron=self._best(score, missing))

    def _shut(self, branches: Branches, case: Case, walk: Walk) -> tuple[Branches, Ints]:
        """Close the branches above their cutoff; return all with their bounds, and a flag for the open ones."""
        # Where the ranges of a branch contradict each other, it is empty, and whatever is claimed of it holds.
        xp, rows = array_namespace(walk.total), branches.row
        error = case.error + xp.vecdot(xp.abs(walk.total), case.unit_error)
        bound = np.fmax(branches.bound, to_numpy(walk.bound - error))
        branches = replace(branches, bound=bound)
        stays = self._still_open(branches)
        shut = np.flatnonzero(~stays & ~self.done[rows])
        if self.keep and shut.size:
            decided = to_numpy(take_rows(branches.decided, shut))
            lower, upper = map(to_numpy, walk.take(shut).multipliers)
            self.leaves.append(Leaves(rows[shut], decided, lower, upper))
        return branches, np.flatnonzero(stays)

    def _best(self, score: Array, missing: Array) -> Ints:
        """The next neurons to split, best first: as many as the missing part of the bound is estimated to need."""
        xp, more = array_namespace(score), True
        best = np.full((score.shape[0], _AT_ONCE), -1)
        places = beside(score, np.arange(score.shape[1])[None, :])
        for k in range(_AT_ONCE):
            most, promised = xp.argmax(score, axis=1), xp.max(score, axis=1)
            wanted = more & (promised > 0.0)
            best[:, k] = to_numpy(xp.where(wanted, most, -1))
            missing = missing - promised
            more = wanted & (missing > 0.0)
            if not xp.any(more):
                break
            score = xp.where(places == most[:, None], 0.0, score)
        return best

    def _still_open(self, branches: Branches) -> Bools:
        """The branches of open rows, without branches above a cutoff that has fallen since."""
        above = branches.bound > self._cutoff(branches.row)
        np.minimum.at(self.lower, branches.row[above], branches.bound[above])
        return ~above & ~self.done[branches.row]

    def _cutoff(self, rows: Ints) -> Floats:
        if self.gap is not None:
            return self.upper[rows] - self.gap[rows]
        if not self.fine:
            return np.zeros(len(rows))
        return np.where(self.broken[rows], _DEEPER * self.upper[rows], 0.0)

    def _meet(self, rows: Ints, reached: Floats, corner: Array, low: Array) -> None:
        """Record networks with a smaller margin than known, the best last, so that it stays."""
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

    def _children(self, branches: Branches) -> Branches:
        """The children of each branch: two for each neuron to split."""
        xp, split = array_namespace(branches.decided), (branches.neuron >= 0).sum(axis=1)
        # One after the other in a binary number: which side each of its neurons is on.
        which = np.repeat(np.arange(split.size), 1 << split)
        number = np.arange(which.size) - np.repeat(np.cumsum(1 << split) - (1 << split), 1 << split)
        children = branches.take(which)
        self.nodes += np.bincount(children.row, minlength=self.nodes.size)
        chosen = np.zeros(children.decided.shape, dtype=np.int8)
        for k in range(split.max(initial=0)):
            rows = np.flatnonzero(split[which] > k)
            chosen[rows, children.neuron[rows, k]] = 1 - 2 * (number[rows] >> k & 1)
        new, before = beside(children.decided, chosen), self.root.layers.before
        fresh = xp.concat([new, new[:, :before]], axis=1) if before else new
        shares = xp.where(fresh < 0, 0.0, children.shares)
        return replace(children, decided=children.decided + new, shares=shares)

    def _unstuck(self, branches: Branches) -> Branches:
        """Improve the multipliers of branches without a promising neuron; then use a linear program."""
        for steps in _LAST_STEPS:
            branches = self._bounded(branches, steps) if branches.row.size else branches
            branches = branches.take(np.flatnonzero(self._still_open(branches)))
        neuron = branches.neuron.copy()
        for i in np.flatnonzero(neuron[:, 0] < 0):
            one = branches.take(np.array([i]))
            neuron[i, 0] = self._by_program(one) if self._still_open(one)[0] else -1
        return replace(branches, neuron=neuron).take(np.flatnonzero(neuron[:, 0] >= 0))

    def _by_program(self, branch: Branches) -> int:
        """Close one branch by its linear program, or attain its margin; return the neuron to split, or -1 for none.

        Even with every line decided, a few steps may stay too far from the best multipliers.
        """
        ranges, decided = self.root.take(branch.row).on(to_numpy), to_numpy(branch.decided)
        xp, layers, start = array_namespace(decided), ranges.layers, ranges.start
        bottom = xp.where(decided > 0, xp.maximum(ranges.bottom, 0.0), ranges.bottom)
        top = xp.where(decided < 0, xp.minimum(ranges.top, 0.0), ranges.top)
        later = ((bottom[:, span], top[:, span]) for _, span in layers.spans[::-1])
        ends = [np.concatenate(pair).T for pair in ((start.low, start.high), *later)]
        # Of one row the scale is a number.
        proposal = propose(layers.scaled(float(np.max(layers.margin.scale))), ends)
        if proposal is None:
            self._give_up(branch.row)
            return -1
        *parts, loosest = proposal
        lower, upper, first, chosen = (part[None, :] for part in parts)
        bound = proven(replace(ranges, bottom=bottom, top=top), lower, upper)
        # A solver keeps to its box but for a tolerance, which is no network in Δ.
        corner = np.clip(activated(first, layers.relus[0]), start.low, start.high)
        self._meet(branch.row, layers.reach(corner, chosen)[0], corner, chosen)
        if bound[0] > self._cutoff(branch.row)[0]:
            self.lower[branch.row] = np.minimum(self.lower[branch.row], bound)
            if self.keep:
                self.leaves.append(Leaves(branch.row, decided, lower, upper))
            return -1
        if loosest is None or loosest[0] == 0:
            self._give_up(branch.row)
            return -1
        layer, neuron = loosest
        return int(dict(layers.spans)[layer].start) + neuron

    def _give_up(self, rows: Ints) -> None:
        rows = rows[~self.done[rows]]
        self.done[rows] = True
        self.open[rows] = True
        self.lower[rows] = self.root_bound[rows]


def _popped(stack: list[Branches], batch: int) -> Branches:
    """Take from the top about as many branches as are bounded together.

    The next branches of a row depend only on its own branches, so its bounds do not depend on other rows. All
    branches of a piece are taken, or the last ones if they are too many; the rest waits until these are done.
    """
    branches = stack.pop()
    while (
        stack
        and branches.row.size + stack[-1].row.size <= batch
        and stack[-1].row[-1] not in branches.row
    ):
        branches = stack.pop().joined(branches)
    n = branches.row.size
    if n > 2 * batch:
        first = np.flatnonzero(np.diff(branches.row, prepend=-1))
        cut = first[first <= n - batch][-1]
        if n - cut > 2 * batch:
            cut = n - batch if cut == first[-1] else first[first > cut][0]
        stack.append(branches.take(np.arange(cut)))
        branches = branches.take(np.arange(cut, n))
    return branches
