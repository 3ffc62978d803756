"""The linear program of a case, for one point: HiGHS proposes multipliers and a counter-model, and is believed nothing.

Variables are the values v of every hidden layer, the first in its box, and v⁺ beside those that have no ReLU:

    ReLU        v >= 0,  v >= L,  v <= slope U + intercept     the chord above max(z, 0) on the range of U; a split
                                                               says U >= 0 or U <= 0
    identity    L <= v <= U,  v⁺ >= 0,  v⁺ >= v,  v⁺ <= slope v + intercept

Its duals are the multipliers of L and U with which the walk back of `verify.search` proves as much as can be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from holdfast._network import Floats, Ints, Pair
from holdfast.bounds._layers import Layer, Layers
from holdfast.milp._relaxation import Program, Relaxation

# What breaking a row by one unit costs, in units of the margin, where a case would be empty otherwise.
_GIVE = 1e3


@dataclass(frozen=True)
class Proposal:
    """Multipliers of L and U of all later neurons, the hidden values, later neurons' sides, and what to split next."""

    lower: Floats
    upper: Floats
    values: list[Floats]
    sides: list[Floats]
    loosest: tuple[int, int] | None


def propose(
    layers: Layers, ranges: list[Floats], decided: dict[tuple[int, int], int]
) -> Proposal | None:
    """What HiGHS makes of a case: (H, 2) ranges for each hidden layer, and on which side of 0 splits put a neuron.

    None if it has no answer, or if its numbers cannot be written down.
    """
    program = _Case(layers, ranges, decided)
    # A case without any network in it has no solution; at a price it has, and with that multipliers.
    for elastic in (False, True):
        solution = program.solved(elastic)
        if solution is not None:
            return program.proposal(*solution)
    return None


class _Case:
    """The rows of a case, as dense arrays: few neurons, and most of them read all of the layer before."""

    def __init__(
        self, layers: Layers, ranges: list[Floats], decided: dict[tuple[int, int], int]
    ) -> None:
        self.layers = layers
        self.ranges = ranges
        sizes = [ends.shape[0] for ends in ranges]
        # The columns of v and of v⁺, which are the same after a ReLU.
        doubled = [
            size if relu else 2 * size for size, relu in zip(sizes, layers.relus, strict=True)
        ]
        starts = np.concatenate([[0], np.cumsum(doubled)])
        self.n = int(starts[-1])
        self.own = [
            np.arange(start, start + size) for start, size in zip(starts, sizes, strict=False)
        ]
        self.plus = [
            own if relu else own + own.size
            for own, relu in zip(self.own, layers.relus, strict=True)
        ]
        self.low, self.high, self.cost = np.zeros(self.n), np.zeros(self.n), np.zeros(self.n)
        # Rows A x in [bottom, top]; the multiplier of L or of U that a dual is, as (side, neuron, factor) or None.
        self.rows: list[Floats] = []
        self.ends: list[Pair] = []
        self.duals: list[tuple[int, Ints, Floats] | None] = []
        first = 0
        for i, (size, relu) in enumerate(zip(sizes, layers.relus, strict=True)):
            bottom, top = np.maximum(ranges[i].T, 0.0) if relu else ranges[i].T
            self.low[self.own[i]] = bottom if i == 0 or not relu else 0.0
            self.high[self.own[i]] = top
            slope, intercept = _chords(ranges[i])
            if not relu:
                self.low[self.plus[i]] = np.maximum(bottom, 0.0)
                self.high[self.plus[i]] = np.maximum(top, 0.0)
                plus = self._at(self.plus[i])
                own = self._at(self.own[i])
                self._add(plus - own, 0.0, np.inf)
                self._add(plus - slope[:, None] * own, -np.inf, intercept)
            if i:
                slope, intercept = (slope, intercept) if relu else (np.ones(size), np.zeros(size))
                neurons = np.arange(first, first + size)
                (lower, base), (upper, lift) = (
                    self._side(layers.hidden[i], side, i - 1) for side in (0, 1)
                )
                self._add(self._at(self.own[i]) - lower, base, np.inf, (0, neurons, np.ones(size)))
                most = slope * lift + intercept
                self._add(
                    self._at(self.own[i]) - slope[:, None] * upper,
                    -np.inf,
                    most,
                    (1, neurons, slope),
                )
                for sign in (1, -1):
                    split = np.array(
                        [j for j in range(size) if relu and decided.get((i, j)) == sign],
                        dtype=np.intp,
                    )
                    bottom, top = (-lift[split], np.inf) if sign > 0 else (-np.inf, -lift[split])
                    self._add(upper[split], bottom, top, (1, neurons[split], -np.ones(split.size)))
                first += size
        self.later = first
        self.cost = self._side(layers.margin, 0, len(sizes) - 1)[0][0]

    def _at(self, columns: Ints) -> Floats:
        """A row for each of these columns."""
        return np.eye(self.n)[columns]

    def _side(self, layer: Layer, side: int, before: int) -> Pair:
        """L (side 0) or U (side 1) of a layer's neurons as rows over what it reads, and their constants."""
        low, high, *biases = layer.ends
        rows = np.zeros((low.shape[0], self.n))
        if layer.rectified:
            rows[:, self.own[before]] = (low, high)[side]
        else:
            rows[:, self.own[before]] = (high, low)[side]
            rows[:, self.plus[before]] = (low - high, high - low)[side]
        return rows, biases[side]

    def _add(
        self,
        rows: Floats,
        bottom: Floats | float,
        top: Floats | float,
        dual: tuple[int, Ints, Floats] | None = None,
    ) -> None:
        self.rows.append(rows)
        self.ends.append(
            (np.broadcast_to(bottom, rows.shape[:1]), np.broadcast_to(top, rows.shape[:1]))
        )
        self.duals.append(dual)

    def solved(self, elastic: bool) -> Pair | None:
        """The solution and the duals of the rows; with `elastic`, rows may be broken at a price."""
        rows = np.concatenate(self.rows)
        (bottom, top) = map(np.concatenate, zip(*self.ends, strict=True))
        low = self.low
        high = self.high
        cost = self.cost
        if elastic:
            reach = np.maximum(np.abs(low), np.abs(high))
            size = np.abs(rows) @ reach
            size = np.where(size > 0.0, size, 1.0)
            rows = np.concatenate(
                [rows, np.diag(np.where(np.isfinite(bottom), size, -size))], axis=1
            )
            low, high = (
                np.append(part, np.full(size.size, end))
                for part, end in ((low, 0.0), (high, np.inf))
            )
            cost = np.append(cost, np.full(size.size, _GIVE * np.abs(cost) @ reach))
        if not all(np.isfinite(part).all() for part in (rows, cost, low)):
            return None
        return Relaxation(Program(cost, low, high, rows, bottom, top)).run(low, high)

    def proposal(self, solution: Floats, duals: Floats) -> Proposal:
        """What a solution and its duals stand for."""
        multipliers = np.zeros((2, self.later))
        start = 0
        for rows, dual in zip(self.rows, self.duals, strict=True):
            part = duals[start : start + rows.shape[0]]
            start += rows.shape[0]
            if dual is not None:
                side, neurons, factor = dual
                multipliers[side, neurons] += part * factor
        values, plus = ([solution[columns] for columns in group] for group in (self.own, self.plus))
        return Proposal(
            np.maximum(multipliers[0], 0.0), multipliers[1], values, *self._seen(values, plus)
        )

    def _seen(
        self, values: list[Floats], plus: list[Floats]
    ) -> tuple[list[Floats], tuple[int, int] | None]:
        """The sides on which later neurons come nearest to their values, and the neuron to be split."""
        chosen: list[Floats] = []
        best: tuple[float, tuple[int, int] | None] = (-math.inf, None)
        before = np.maximum(values[0], 0.0) if self.layers.relus[0] else values[0]
        for i, (layer, relu) in enumerate(zip(self.layers.hidden, self.layers.relus, strict=True)):
            most = values[i]
            if i:
                below, above = (side[0] for side in layer.sides(before[None, :]))
                most = (
                    layer.sides(values[i - 1][None, :], plus[i - 1][None, :])[1][0]
                    if relu
                    else most
                )
                z = np.clip(values[i], below, above)
                z = np.where((values[i] <= 0.0) & relu, below, z)
                center = layer.today(before)
                reach = np.where(z < center, center - below, above - center)
                share = (z - center) / np.where(reach > 0.0, reach, 1.0)
                chosen.append(np.where(np.abs(share) > 1.0 - 1e-7, np.sign(share), share))
                before = np.maximum(z, 0.0) if relu else z
            if i or not relu:
                split = (self.ranges[i][:, 0] < 0.0) & (self.ranges[i][:, 1] > 0.0)
                excess = np.where(split, plus[i] - np.maximum(most, 0.0), -math.inf)
                j = int(excess.argmax())
                best = (float(excess[j]), (i, j)) if excess[j] > best[0] else best
        return chosen, best[1]


def _chords(ranges: Floats) -> Pair:
    """Slope and intercept of the line above max(z, 0) on each range."""
    bottom, top = ranges.T
    open_ = (bottom < 0.0) & (top > 0.0)
    slope = np.where(open_, top / np.where(open_, top - bottom, 1.0), bottom >= 0.0)
    return slope, np.where(open_, -slope * bottom, 0.0)
