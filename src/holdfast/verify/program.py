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
from numpy.typing import NDArray

from holdfast.bounds.layers import Layer, Layers
from holdfast.milp.builder import ProgramBuilder
from holdfast.milp.solve import SolveStatus, solve
from holdfast.network import Floats

# What a unit of a split that does not hold costs, in units of the margin; and how far values may follow it.
_GIVE = 1e3


@dataclass(frozen=True)
class Proposal:
    """Multipliers of L and U of all later neurons, the hidden values, later neurons' sides, and what to split next."""

    lower: Floats
    upper: Floats
    values: list[Floats]
    sides: list[Floats]
    loosest: tuple[int, int] | None


def propose(layers: Layers, ranges: list[Floats], decided: dict[tuple[int, int], int]) -> Proposal | None:
    """What HiGHS makes of a case; None if it has no answer, or if its numbers cannot be written down."""
    try:
        return CaseProgram(layers, ranges, decided).solve()
    except (OverflowError, ValueError):
        return None


class CaseProgram:
    """The linear program of a case: the values of every hidden layer, and of those without a ReLU v⁺ beside them."""

    def __init__(
        self, layers: Layers, ranges: list[Floats], decided: dict[tuple[int, int], int], *, elastic: bool = False
    ) -> None:
        self.layers, self.ranges, self.decided, self.elastic = layers, ranges, decided, elastic
        self.builder = ProgramBuilder()
        # For each layer the columns of v and of v⁺, and what one unit of either stands for.
        self.columns: list[NDArray[np.intp]] = []
        self.plus: list[NDArray[np.intp]] = []
        self.units: list[Floats] = []
        # Rows of L and U for each later neuron, and of its case, with what they are multiplied by; -1 for none.
        self.rows: list[list[tuple[int, float]]] = []
        self.given: list[int] = []
        for i, ends in enumerate(self.ranges):
            self._values(i, ends)
            if i:
                for j, (bottom, top) in enumerate(ends.tolist()):
                    self._neuron(i, j, bottom, top)
        self.cost, _ = self._side(self.layers.margin, 0, 0, len(self.ranges) - 1)

    def _values(self, i: int, ranges: Floats) -> None:
        relu = self.layers.relus[i]
        low, high = np.maximum(ranges, 0.0).T if relu and i == 0 else ranges.T
        if relu and i:
            high = np.maximum(high, 0.0)
            above = np.array([self.elastic and self.decided.get((i, j), 0) > 0 for j in range(high.size)])
            low = np.where(above, -_GIVE * high, 0.0)
        size = np.maximum(np.abs(low), np.abs(high))
        unit = 2.0 ** np.round(np.log2(np.where(size > 0.0, size, 1.0)))
        names = [self.builder.variable(a / u, b / u) for a, b, u in zip(low, high, unit, strict=True)]
        self.columns.append(np.array(names))
        self.units.append(np.asarray(unit, dtype=np.float64))
        if relu:
            self.plus.append(self.columns[-1])
            return
        plus = [
            self.builder.variable(max(a, 0.0) / u, max(b, 0.0) / u) for a, b, u in zip(low, high, unit, strict=True)
        ]
        self.plus.append(np.array(plus))
        for v, p, a, b, u in zip(names, plus, low, high, unit, strict=True):
            slope, intercept = _chord(a, b)
            self.builder.row([p, v], [1.0, -1.0], lower=0.0)
            self.builder.row([p, v], [1.0, -slope], upper=intercept / u)

    def _side(self, layer: Layer, j: int, side: int, before: int) -> tuple[dict[int, float], float]:
        """L (side 0) or U (side 1) of a neuron that reads the layer `before`, as coefficients and a constant."""
        low, high = (end[j] * self.units[before] for end in layer.ends)
        own, plus = self.columns[before].tolist(), self.plus[before].tolist()
        if layer.rectified:
            row = dict(zip(own, (low, high)[side].tolist(), strict=True))
        else:
            row = dict(zip(own, (high, low)[side].tolist(), strict=True))
            row |= dict(zip(plus, (low - high, high - low)[side].tolist(), strict=True))
        return row, float(layer.bias_ends[side][j])

    def _neuron(self, i: int, j: int, bottom: float, top: float) -> None:
        layer, relu, own, unit = self.layers.hidden[i], self.layers.relus[i], self.columns[i][j], self.units[i][j]
        slope, intercept = _chord(bottom, top) if relu else (1.0, 0.0)
        rows = []
        for side, factor, constant in ((0, 1.0, 0.0), (1, slope, intercept)):
            coefficients, edge = self._side(layer, j, side, i - 1)
            coefficients = {column: -factor * value for column, value in coefficients.items()}
            coefficients[int(own)] = float(unit)
            self._give(coefficients, 1 if side == 0 else -1)
            ends = {"lower": edge} if side == 0 else {"upper": factor * edge + constant}
            rows.append((*self._row(coefficients, **ends), factor))
        choice = self.decided.get((i, j), 0)
        if relu and choice:
            coefficients, edge = self._side(layer, j, 1, i - 1)
            self._give(coefficients, choice)
            rows.append((*self._row(coefficients, **{"lower" if choice > 0 else "upper": -edge}), -1.0))
        self.rows.append([(number, scale * factor) for number, scale, factor in rows])

    def _give(self, coefficients: dict[int, float], way: int) -> None:
        """Let a row be broken at a price: a case without any network in it has a solution then, and multipliers."""
        if self.elastic:
            self.given.append(self.builder.variable(0.0, math.inf))
            coefficients[self.given[-1]] = way * max(map(abs, coefficients.values()), default=1.0)

    def _row(self, coefficients: dict[int, float], **ends: float) -> tuple[int, float]:
        """Write a row in a scale in which its largest coefficient is about 1; its number, and the scale."""
        scale = _near_one(coefficients)
        values = [value * scale for value in coefficients.values()]
        return self.builder.row(list(coefficients), values, **{name: end * scale for name, end in ends.items()}), scale

    def solve(self) -> Proposal | None:
        """What HiGHS makes of it; None if it has no answer."""
        size = _near_one(self.cost)
        for column, value in self.cost.items():
            self.builder.pay_from(column, 0.0, value * size)
        for column in self.given:
            self.builder.pay_from(column, 0.0, _GIVE * sum(map(abs, self.cost.values())) * size)
        solution = solve(self.builder.build())
        if solution.status is SolveStatus.INFEASIBLE and not self.elastic:
            return CaseProgram(self.layers, self.ranges, self.decided, elastic=True).solve()
        if solution.status is not SolveStatus.OPTIMAL or solution.row_duals is None or solution.values is None:
            return None
        duals, lower, upper = solution.row_duals / size, [], []
        for (low, low_scale), *others in self.rows:
            lower.append(max(float(duals[low]) * low_scale, 0.0))
            upper.append(sum(float(duals[row]) * scale for row, scale in others))
        values, plus = (
            [solution.values[one] * unit for one, unit in zip(columns, self.units, strict=True)]
            for columns in (self.columns, self.plus)
        )
        return Proposal(np.array(lower), np.array(upper), values, *self._seen(values, plus))

    def _seen(self, values: list[Floats], plus: list[Floats]) -> tuple[list[Floats], tuple[int, int] | None]:
        """The sides on which later neurons come nearest to their values, and the neuron to be split."""
        chosen: list[Floats] = []
        best: tuple[float, tuple[int, int] | None] = (-math.inf, None)
        before = np.maximum(values[0], 0.0) if self.layers.relus[0] else values[0]
        for i, (layer, relu) in enumerate(zip(self.layers.hidden, self.layers.relus, strict=True)):
            most = values[i]
            if i:
                below, above = (side[0] for side in layer.sides(before[None, :]))
                most = layer.sides(values[i - 1][None, :], plus[i - 1][None, :])[1][0] if relu else most
                z = np.clip(values[i], below, above)
                z = np.where((values[i] <= 0.0) & relu, below, z)
                center = before @ layer.weight.T + layer.bias
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


def _near_one(coefficients: dict[int, float]) -> float:
    """The power of two that brings the largest coefficient near 1, or as near as floats go."""
    largest = max(map(abs, coefficients.values()), default=1.0) or 1.0
    return float(2.0 ** min(-round(math.log2(largest)), 1000))


def _chord(bottom: float, top: float) -> tuple[float, float]:
    """Slope and intercept of the line above max(z, 0) on [bottom, top]."""
    if bottom >= 0.0 or top <= 0.0:
        return float(bottom >= 0.0), 0.0
    slope = top / (top - bottom)
    return slope, -slope * bottom
