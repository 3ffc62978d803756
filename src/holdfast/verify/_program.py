"""The linear program of a case, for one point: HiGHS proposes multipliers and a counter-model, which are checked.

Variables are the values v of every hidden layer, the first in its box, and v⁺ for layers without a ReLU:

    ReLU        v >= 0,  v >= L,  v <= slope U + intercept     the chord above max(z, 0) on the range of U; a split
                                                               says U >= 0 or U <= 0, and so its range
    identity    L <= v <= U,  v⁺ >= 0,  v⁺ >= v,  v⁺ <= slope v + intercept

Its duals are the multipliers of L and U with which the walk back of `verify.search` gives its best bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from holdfast._network import Floats, Ints, Pair
from holdfast.bounds._layers import Layer, Layers, activated, chords
from holdfast.milp._relaxation import Program, Relaxation

# What breaking a row by one unit costs, in units of the margin, where a case would be empty otherwise.
_GIVE = 1e3


class Proposal(NamedTuple):
    """Multipliers of L and U of all later neurons, the first values, the later neurons' sides, and the next split."""

    lower: Floats
    upper: Floats
    first: Floats
    later: Floats
    loosest: tuple[int, int] | None


def propose(layers: Layers, ranges: list[Floats]) -> Proposal | None:
    """The proposal of HiGHS for a case: (H, 2) ranges for each hidden layer, of U for later layers with a ReLU.

    None if HiGHS finds no solution, or if its numbers are not finite.
    """
    program = _Case(layers, ranges)
    # A case without any network in it has no solution; at a price it has, and with that multipliers.
    for elastic in (False, True):
        solution = program.solved(elastic)
        if solution is not None:
            return program.proposal(*solution)
    return None


class _Rows(NamedTuple):
    """One row in [bottom, top] for each neuron of a layer; its dual times `factor` is the multiplier of a side."""

    rows: Floats
    bottom: Floats | float
    top: Floats | float
    layer: int
    side: int = 0
    factor: Floats | float = 0.0


class _Case:
    """The rows of a case, as dense arrays: neurons are few, and most read the whole layer before."""

    def __init__(self, layers: Layers, ranges: list[Floats]) -> None:
        self.layers, self.ranges = layers, ranges
        # The columns of v and of v⁺, which are the same after a ReLU.
        self.own: list[Ints] = []
        self.plus: list[Ints] = []
        self.n = 0
        for ends, relu in zip(ranges, layers.relus, strict=True):
            self.own.append(self.n + np.arange(len(ends)))
            self.plus.append(self.own[-1] + (0 if relu else len(ends)))
            self.n = int(self.plus[-1][-1]) + 1
        self.low, self.high = np.zeros(self.n), np.zeros(self.n)
        self.rows: list[_Rows] = []
        for i, relu in enumerate(layers.relus):
            bottom, top = ranges[i].T
            own, plus = np.eye(self.n)[self.own[i]], np.eye(self.n)[self.plus[i]]
            # A solver need not have it from above: what it proposes is checked.
            slope = chords(bottom, top)[0]
            intercept = -slope * np.minimum(bottom, 0.0)
            self.low[self.own[i]], self.high[self.own[i]] = bottom, top
            # A later neuron whose U is positive may be 0 all the same.
            self.low[self.plus[i]] = np.maximum(bottom, 0.0) * (not (i and relu))
            self.high[self.plus[i]] = np.maximum(top, 0.0)
            if not relu:
                self.rows.append(_Rows(plus - own, 0.0, np.inf, i))
                self.rows.append(_Rows(plus - slope[:, None] * own, -np.inf, intercept, i))
                slope, intercept = np.ones_like(slope), np.zeros_like(slope)
            if i:
                lower, base = self._side(layers.hidden[i], 0, i - 1)
                upper, lift = self._side(layers.hidden[i], 1, i - 1)
                below, most = own - slope[:, None] * upper, slope * lift + intercept
                self.rows.append(_Rows(own - lower, base, np.inf, i, 0, 1.0))
                self.rows.append(_Rows(below, -np.inf, most, i, 1, slope))
            if i and relu:
                # What is known of U's sign, by a split or without.
                least = np.where(bottom >= 0.0, bottom - lift, -np.inf)
                most = np.where(top <= 0.0, top - lift, np.inf)
                self.rows.append(_Rows(upper, least, most, i, 1, -1.0))
        self.cost = self._side(layers.margin, 0, len(ranges) - 1)[0][0]

    def _side(self, layer: Layer, side: int, before: int) -> Pair:
        """L (side 0) or U (side 1) of a layer's neurons as rows over the layer's input, and their constants.

        far v + (near - far) v⁺,  which is  near v  if v = v⁺.
        """
        near, far = layer.ends[side], layer.ends[1 - side]
        rows = np.zeros((near.shape[0], self.n))
        rows[:, self.own[before]] = far
        rows[:, self.plus[before]] += near - far
        return rows, layer.ends[2 + side]

    def solved(self, elastic: bool) -> Pair | None:
        """The solution and the duals of the rows; with `elastic`, violated rows are penalised."""
        rows = np.concatenate([part.rows for part in self.rows])
        bottom, top = (
            np.concatenate([np.broadcast_to(part[end], len(part.rows)) for part in self.rows])
            for end in (1, 2)
        )
        low, high, cost = self.low, self.high, self.cost
        if elastic:
            reach = np.maximum(np.abs(low), np.abs(high))
            size = np.abs(rows) @ reach
            size = np.where(size > 0.0, size, 1.0)
            give = np.diag(np.where(np.isfinite(bottom), size, -size))
            rows = np.concatenate([rows, give], axis=1)
            low, high = np.append(low, 0.0 * size), np.append(high, np.inf * size)
            cost = np.append(cost, np.full(size.size, _GIVE * np.abs(cost) @ reach))
        if not all(np.isfinite(part).all() for part in (rows, cost, low)):
            return None
        return Relaxation(Program(cost, low, high, rows, bottom, top)).run(low, high)

    def proposal(self, solution: Floats, duals: Floats) -> Proposal:
        """The multipliers and the counter-model that a solution and its duals describe."""
        multipliers = [np.zeros((2, len(ends))) for ends in self.ranges]
        ends = np.cumsum([len(part.rows) for part in self.rows])
        for part, dual in zip(self.rows, np.split(duals, ends[:-1]), strict=True):
            multipliers[part.layer][part.side] += part.factor * dual
        for both, relu in zip(multipliers, self.layers.relus, strict=True):
            # Without a ReLU both bound z itself, L from below and U from above.
            both[1] = both[1] if relu else np.minimum(both[1], 0.0)
        lower, upper = np.concatenate(multipliers[1:], axis=1)
        values, plus = ([solution[columns] for columns in group] for group in (self.own, self.plus))
        return Proposal(np.maximum(lower, 0.0), upper, values[0], *self._seen(values, plus))

    def _seen(
        self, values: list[Floats], plus: list[Floats]
    ) -> tuple[Floats, tuple[int, int] | None]:
        """The sides on which later neurons are nearest to their values, and the neuron to split."""
        chosen: list[Floats] = []
        best: tuple[float, tuple[int, int] | None] = (-math.inf, None)
        z = values[0]
        for i, (layer, relu) in enumerate(zip(self.layers.hidden, self.layers.relus, strict=True)):
            most = values[i]
            if i:
                before = activated(z, self.layers.relus[i - 1])[None, :]
                share: Floats = layer.share(before, most[None, :], relu)
                share = np.where(np.abs(share) > 1.0 - 1e-7, np.sign(share), share)
                (z,) = layer.on_side(before, share)
                chosen.append(share[0])
                if relu:
                    most = layer.sides(values[i - 1][None, :], plus[i - 1][None, :])[1][0]
            if i or not relu:
                bottom, top = self.ranges[i].T
                excess = np.where(
                    (bottom < 0.0) & (top > 0.0), plus[i] - np.maximum(most, 0.0), -math.inf
                )
                j = int(excess.argmax())
                best = (float(excess[j]), (i, j)) if excess[j] > best[0] else best
        return np.concatenate(chosen), best[1]
