"""The interval network in fractions: what a closed form or a set of multipliers proves, with no rounding at all."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds.linear import FREE, LINEAR, ZERO
from holdfast.changes import LayerRadius
from holdfast.network import Floats
from holdfast.verify.problem import Problem

_ZERO, _ONE = Fraction(0), Fraction(1)


class RationalNetwork:
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

    def _upper_ranges(self, x: Floats, decided: Sequence[NDArray[np.int8]]) -> list[list[tuple[Fraction, Fraction]]]:
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
                zero = decided[i - 1][j] == ZERO
                next_high.append(next_low[-1] if zero else max(top, _ZERO))
            ranges.append(layer)
            low, high = next_low, next_high
        return ranges

    def best_alphas(
        self, x: Floats, decided: Sequence[NDArray[np.int8]], alphas: Sequence[Floats], stretches: Sequence[Floats]
    ) -> list[list[Fraction]]:
        """Two hidden layers: the multipliers that make fractional alphas exactly stationary.

        A program's duals are rounded. Where 0 < alpha_j < 1 the least value lies on the kink of neuron j and inside the
        first layer's box in some coordinates, whose coefficients vanish at the best alphas: linear equations.
        """
        weight_radius, _ = self.radii[-1]
        radius, _ = self.radii[1]
        ranges = self._upper_ranges(x, decided)[0]
        exact = [Fraction(float(alpha)) for alpha in alphas[0]]
        fixed, kinks, rows = [_ZERO] * self.hidden[0], [], []
        for j, value in enumerate(self.row):
            c = value - self.count * weight_radius
            if c > 0:
                row = [c * (w - radius) for w in self.weights[1][j]]
                if 0 < exact[j] < 1:
                    kinks.append(j)
                    rows.append(row)
                    continue
                scale = exact[j]
            else:
                slope, _ = _line(int(decided[0][j]), *ranges[j])
                scale = Fraction(float(stretches[0][j])) * slope
                row = [c * (w + radius) for w in self.weights[1][j]]
            fixed = [f + scale * r for f, r in zip(fixed, row, strict=True)]
        near = sorted(
            range(self.hidden[0]),
            key=lambda i: abs(fixed[i] + sum((exact[j] * row[i] for j, row in zip(kinks, rows, strict=True)), _ZERO)),
        )
        chosen = near[: len(kinks)]
        solved = _solve([[row[i] for row in rows] for i in chosen], [-fixed[i] for i in chosen])
        if solved is not None and all(0 <= value <= 1 for value in solved):
            for j, value in zip(kinks, solved, strict=True):
                exact[j] = value
        return [exact]

    def bound(
        self,
        x: Floats,
        decided: Sequence[NDArray[np.int8]],
        alphas: Sequence[Sequence[float | Fraction] | Floats],
        stretches: Sequence[Floats],
    ) -> Fraction:
        """What a branch's choices and multipliers prove."""
        weight_radius, bias_radius = self.radii[-1]
        coefficients = [value - self.count * weight_radius for value in self.row]
        constant = self.offset - self.count * bias_radius
        ranges = self._upper_ranges(x, decided)
        for i in range(len(self.hidden) - 1, 0, -1):
            pulled = []
            for j, c in enumerate(coefficients):
                if c > 0:
                    pulled.append(c * Fraction(alphas[i - 1][j]))
                else:
                    slope, intercept = _line(int(decided[i - 1][j]), *ranges[i - 1][j])
                    stretched = c * Fraction(float(stretches[i - 1][j]))
                    constant += stretched * intercept
                    pulled.append(stretched * slope)
            total = sum((abs(p) for p in pulled), _ZERO)
            weight_radius, bias_radius = self.radii[i]
            constant += sum((p * b for p, b in zip(pulled, self.biases[i], strict=True)), _ZERO) - total * bias_radius
            coefficients = [
                sum((p * row[k] for p, row in zip(pulled, self.weights[i], strict=True) if p), -total * weight_radius)
                for k in range(self.hidden[i - 1])
            ]
        return _least(coefficients, *self._box(x)) + constant


def _least(row: list[Fraction], low: list[Fraction], high: list[Fraction]) -> Fraction:
    """The least value of row . v for v in the box."""
    return sum((c * (bottom if c > 0 else top) for c, bottom, top in zip(row, low, high, strict=True) if c), _ZERO)


def _solve(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction] | None:
    """Gaussian elimination on a small square system; None if it is singular."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k] != 0), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(len(rows)):
            if i != k and rows[i][k] != 0:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]


def float_below(value: Fraction) -> float:
    """The greatest float that does not exceed `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else float(np.nextafter(nearest, -np.inf))


def _line(choice: int, bottom: Fraction, top: Fraction) -> tuple[Fraction, Fraction]:
    """Slope and intercept of the line above relu on [bottom, top], or the branch's choice."""
    if choice == LINEAR or (choice == FREE and bottom >= 0):
        return _ONE, _ZERO
    if choice == ZERO or top <= 0:
        return _ZERO, _ZERO
    slope = top / (top - bottom)
    return slope, -slope * bottom
