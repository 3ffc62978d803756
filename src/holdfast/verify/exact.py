"""The last word: verdicts in exact rational arithmetic, one point at a time.

Up to one hidden layer the least margin has a closed form. Deeper, a branch and bound whose branches are linear
programs: HiGHS proposes multipliers, and fractions decide what they prove; HiGHS proposes a counter-model, and
fractions replay it. Nothing is believed because a solver said so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from holdfast.arrays import to_numpy
from holdfast.bounds.linear import FREE, LINEAR, ZERO, relax, value_box
from holdfast.changes import LayerRadius
from holdfast.milp.encode import margin_program
from holdfast.milp.solve import SolveStatus, solve
from holdfast.network import Floats
from holdfast.verify.branch import Leaf
from holdfast.verify.problem import Problem
from holdfast.verify.witness import build_witness, flips, sides_from_values

_ZERO, _ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True)
class ExactAnswer:
    """`robust` is None where neither a proof nor a representable counter-model exists (or time ran out)."""

    robust: bool | None
    lower: float
    sides: Floats | None
    leaves: tuple[Leaf, ...] = ()


def settle_exactly(
    problem: Problem, radii: list[LayerRadius], *, max_leaves: int = 4000, deadline: float | None = None
) -> ExactAnswer:
    """Decide one point's margin (`problem` holds one point) in exact arithmetic."""
    exact = _ExactNetwork.of(problem, radii)
    x = to_numpy(problem.points)[0]
    if problem.net.depth <= 1:
        least, sides = exact.least_margin_shallow(x)
        if _kept(least, problem.margin.strict):
            return ExactAnswer(True, float(least), None)
        witness = build_witness(problem.network, radii, problem.margin, x, sides)
        broken = flips(problem.network, witness, problem.margin, x)
        return ExactAnswer(False if broken else None, float(least), sides if broken else None)
    return _ExactSearch(problem, exact, radii, x).run(max_leaves, deadline)


def _kept(value: Fraction, strict: bool) -> bool:
    return value > 0 if strict else value >= 0


class _ExactSearch:
    """Depth-first branch and bound on one point, with rational proofs at the leaves."""

    def __init__(self, problem: Problem, exact: _ExactNetwork, radii: list[LayerRadius], x: Floats) -> None:
        self.problem, self.exact, self.radii, self.x = problem, exact, radii, x
        self.box = value_box(problem.net, problem.points, problem.rounding, problem.sizes)
        self.leaves: list[Leaf] = []

    def run(self, max_leaves: int, deadline: float | None) -> ExactAnswer:
        later = self.problem.network.hidden[1:]
        stack = [tuple(np.full(size, FREE, dtype=np.int8) for size in later)]
        visited = 0
        while stack:
            visited += 1
            if visited > max_leaves or (deadline is not None and time.monotonic() > deadline):
                return ExactAnswer(None, -np.inf, None)
            decided = stack.pop()
            outcome = self._visit(decided)
            if isinstance(outcome, ExactAnswer):
                return outcome
            if outcome is not None:
                layer, neuron = outcome
                for choice in (LINEAR, ZERO):
                    child = tuple(part.copy() for part in decided)
                    child[layer][neuron] = choice
                    stack.append(child)
        lowest = min(leaf.bound for leaf in self.leaves)
        return ExactAnswer(True, lowest, None, tuple(self.leaves))

    def _visit(self, decided: tuple[NDArray[np.int8], ...]) -> ExactAnswer | tuple[int, int] | None:
        """None: this branch is proven. A pair: branch there. An answer: the search is over."""
        problem = self.problem
        batched = tuple(choice[None, :] for choice in decided)
        _, ranges = relax(problem.net, self.box, problem.rounding, problem.sizes, decided=batched, refine=True)
        encoded = margin_program(
            problem.net, self.box, ranges, np.ravel(to_numpy(problem.row)), decided=decided, relaxed=True
        )
        solution = solve(encoded.program)
        if solution.status is not SolveStatus.OPTIMAL or solution.values is None or solution.row_duals is None:
            return ExactAnswer(None, -np.inf, None)
        duals = np.maximum(solution.row_duals[encoded.lower_rows], 0.0)
        duals_by_layer = np.split(duals, np.cumsum(problem.network.hidden[1:])[:-1])
        bound, alphas = self.exact.bound(self.x, decided, duals_by_layer)
        if _kept(bound, problem.margin.strict):
            self.leaves.append(Leaf(decided, alphas, float(bound)))
            return None
        values = encoded.layer_values(solution.values)
        if self._try_witness(values) is not None:
            return ExactAnswer(False, float(bound), self._try_witness(values))
        return self._loosest(decided, values)

    def _try_witness(self, values: list[Floats]) -> Floats | None:
        """The program's own values, and the same first layer with every later neuron at its worst."""
        network, margin = self.problem.network, self.problem.margin
        proposal = sides_from_values(network, self.radii, self.x, values)
        first = network.hidden[0]
        snapped = np.where(np.abs(proposal) > 1.0 - 1e-7, np.sign(proposal), proposal)
        last = -np.sign(np.where(self.exact.float_row == 0.0, 1.0, self.exact.float_row))
        for sides in (snapped, np.concatenate([snapped[:first], snapped[first : -last.shape[0]], last])):
            if flips(network, build_witness(network, self.radii, margin, self.x, sides), margin, self.x):
                return sides
        return None

    def _loosest(self, decided: tuple[NDArray[np.int8], ...], values: list[Floats]) -> ExactAnswer | tuple[int, int]:
        """The undecided neuron whose value lies furthest above what its upper side really allows."""
        best, place = -1.0, None
        for i in range(1, len(values)):
            weight, bias = self.problem.network.weights[i], self.problem.network.biases[i]
            radius = self.radii[i]
            top = (weight + radius.weight) @ values[i - 1] + bias + radius.bias
            excess = np.where(decided[i - 1] == FREE, values[i] - np.maximum(top, 0.0), -np.inf)
            unsure = self.exact.unsure(i, self.x)
            excess = np.where(unsure, excess, -np.inf)
            if excess.size and excess.max() > best:
                best, place = float(excess.max()), (i - 1, int(excess.argmax()))
        if place is None:
            return ExactAnswer(None, -np.inf, None)
        return place


class _ExactNetwork:
    """The interval network in fractions."""

    def __init__(self, problem: Problem, radii: list[LayerRadius]) -> None:
        network, margin = problem.network, problem.margin
        self.hidden = network.hidden
        self.weights = [[[Fraction(w) for w in row] for row in weight.tolist()] for weight in network.weights]
        self.biases = [[Fraction(b) for b in bias.tolist()] for bias in network.biases]
        self.radii = [(Fraction(radius.weight), Fraction(radius.bias)) for radius in radii]
        n_last = network.weights[-1].shape[1]
        rows = {margin.above: _ONE, margin.below: -_ONE}
        rows.pop(-1, None)
        self.row = [sum((s * self.weights[-1][k][i] for k, s in rows.items()), _ZERO) for i in range(n_last)]
        self.offset = sum((s * self.biases[-1][k] for k, s in rows.items()), _ZERO)
        self.count = margin.count
        self.float_row = np.array([float(value - self.count * self.radii[-1][0]) for value in self.row])

    @classmethod
    def of(cls, problem: Problem, radii: list[LayerRadius]) -> _ExactNetwork:
        """The network of a problem, converted once."""
        return cls(problem, radii)

    def least_margin_shallow(self, x: Floats) -> tuple[Fraction, Floats]:
        """No or one hidden layer: the least margin itself, and the sides that reach it."""
        weight_radius, bias_radius = self.radii[-1]
        constant = self.offset - self.count * bias_radius
        if not self.hidden:
            point = [Fraction(value) for value in x.tolist()]
            norm = sum((abs(value) for value in point), _ZERO)
            nominal = sum((w * v for w, v in zip(self.row, point, strict=True)), _ZERO)
            return nominal + constant - self.count * weight_radius * norm, np.zeros(0)
        low, high = self._box(x)
        row = [value - self.count * weight_radius for value in self.row]
        least = _least(row, low, high) + constant
        return least, np.array([-1.0 if c > 0 else 1.0 for c in row])

    def _box(self, x: Floats) -> tuple[list[Fraction], list[Fraction]]:
        """The first hidden layer's values."""
        point = [Fraction(value) for value in x.tolist()]
        weight_radius, bias_radius = self.radii[0]
        reach = weight_radius * sum((abs(value) for value in point), _ZERO) + bias_radius
        centers = [
            sum((w * v for w, v in zip(row, point, strict=True)), bias)
            for row, bias in zip(self.weights[0], self.biases[0], strict=True)
        ]
        return [max(c - reach, _ZERO) for c in centers], [max(c + reach, _ZERO) for c in centers]

    def _upper_ranges(
        self, x: Floats, decided: Sequence[NDArray[np.int8]] | None
    ) -> list[list[tuple[Fraction, Fraction]]]:
        """For each later layer the exact interval range of every neuron's upper side."""
        low, high = self._box(x)
        ranges = []
        for i in range(1, len(self.hidden)):
            weight_radius, bias_radius = self.radii[i]
            layer, next_low, next_high = [], [], []
            for j, (row, bias) in enumerate(zip(self.weights[i], self.biases[i], strict=True)):
                up, down = [w + weight_radius for w in row], [w - weight_radius for w in row]
                bottom = _least(up, low, high) + bias + bias_radius
                top = -_least([-w for w in up], low, high) + bias + bias_radius
                layer.append((bottom, top))
                next_low.append(max(_least(down, low, high) + bias - bias_radius, _ZERO))
                zero = decided is not None and decided[i - 1][j] == ZERO
                next_high.append(next_low[-1] if zero else max(top, _ZERO))
            ranges.append(layer)
            low, high = next_low, next_high
        return ranges

    def unsure(self, i: int, x: Floats) -> NDArray[np.bool_]:
        """Which neurons of layer i have an upper side of unknown sign."""
        return np.array([bottom < 0 < top for bottom, top in self._upper_ranges(x, None)[i - 1]])

    def bound(
        self, x: Floats, decided: Sequence[NDArray[np.int8]], duals: Sequence[Floats]
    ) -> tuple[Fraction, tuple[Floats, ...]]:
        """What the multipliers prove of a branch; `duals` are coefficients times multipliers of lower sides."""
        weight_radius, bias_radius = self.radii[-1]
        coefficients = [value - self.count * weight_radius for value in self.row]
        constant = self.offset - self.count * bias_radius
        ranges = self._upper_ranges(x, decided)
        alphas: list[Floats] = []
        for i in range(len(self.hidden) - 1, 0, -1):
            pulled, chosen = [], np.zeros(self.hidden[i])
            for j, c in enumerate(coefficients):
                if c > 0:
                    alpha = _multiplier(duals[i - 1][j], c)
                    chosen[j] = float(alpha)
                    pulled.append(c * Fraction(float(alpha)))
                else:
                    slope, intercept = _line(int(decided[i - 1][j]), *ranges[i - 1][j])
                    constant += c * intercept
                    pulled.append(c * slope)
            alphas.append(chosen)
            total = sum((abs(p) for p in pulled), _ZERO)
            weight_radius, bias_radius = self.radii[i]
            constant += sum((p * b for p, b in zip(pulled, self.biases[i], strict=True)), _ZERO) - total * bias_radius
            coefficients = [
                sum((p * row[k] for p, row in zip(pulled, self.weights[i], strict=True) if p), -total * weight_radius)
                for k in range(self.hidden[i - 1])
            ]
        return _least(coefficients, *self._box(x)) + constant, tuple(alphas[::-1])


def _least(row: list[Fraction], low: list[Fraction], high: list[Fraction]) -> Fraction:
    """The least value of row . v for v in the box."""
    return sum((c * (bottom if c > 0 else top) for c, bottom, top in zip(row, low, high, strict=True) if c), _ZERO)


def _multiplier(dual: float, coefficient: Fraction) -> Fraction:
    """dual / coefficient in [0, 1]; solvers leave dust near the ends, which is swept away."""
    ratio = float(dual) / float(coefficient)
    if ratio < 1e-7:
        return _ZERO
    return _ONE if ratio > 1.0 - 1e-7 else Fraction(ratio)


def _line(choice: int, bottom: Fraction, top: Fraction) -> tuple[Fraction, Fraction]:
    """Slope and intercept of the line above relu on [bottom, top], or the branch's choice."""
    if choice == LINEAR or (choice == FREE and bottom >= 0):
        return _ONE, _ZERO
    if choice == ZERO or top <= 0:
        return _ZERO, _ZERO
    slope = top / (top - bottom)
    return slope, -slope * bottom
