"""Who decides about a linear model whose parameters may move within an ellipsoid."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

import numpy as np

from holdfast.bounds.layers import Margin, margins_for
from holdfast.changes import Ellipsoid
from holdfast.importers import Model
from holdfast.network import Floats, Network
from holdfast.verify.closed_form import ClosedForm, Margins
from holdfast.verify.search import WITNESS_SAFETY
from holdfast.verify.witness import exact_margin, flips

# Counter-models stay so much inside, relatively, that rounding does not carry them out.
_INSIDE = (1e-13, 1e-11, 1e-9)


class InEllipsoid(ClosedForm):
    """A linear model whose parameters may move within an ellipsoid."""

    classifier: Network
    changes: Ellipsoid

    def __init__(self, model: Model, changes: Ellipsoid) -> None:
        self.classifier, self.changes = model.network, changes
        changes.check(self.classifier)
        self.today = Margins(self.classifier)

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(np.linalg.inv(self.changes.shape), dtype=np.float64)

    def _directions(self, points: Floats, margin: Margin) -> Floats:
        """g with  margin(θ) = gᵀθ  at each point, (n, parameters)."""
        network, n = self.classifier, points.shape[0]
        weights = np.zeros((n, network.n_outputs, network.n_features))
        biases = np.zeros((n, network.n_outputs))
        for output, sign in ((margin.above, 1.0), (margin.below, -1.0)):
            if output >= 0:
                weights[:, output], biases[:, output] = sign * points, sign
        return np.hstack([weights.reshape(n, -1), biases])

    def _reach(self, directions: Floats) -> tuple[Floats, Floats]:
        """Bounds of sqrt(gᵀ H⁻¹ g), (n,) each.

        For any y and r = g - H y,  gᵀ H⁻¹ g = 2 gᵀy - yᵀ H y + rᵀ H⁻¹ r,  and the last is between 0 and |r|² / λ.
        """
        shape, n = self.changes.shape, len(self.changes.shape)
        y = directions @ self._inverse
        product = y @ shape
        rest = directions - product
        unit = 4.0 * (n + 4) * 2.0**-53
        sizes = np.abs(directions) + np.abs(y) @ np.abs(shape)
        square = 2.0 * np.sum(directions * y, axis=1) - np.sum(y * product, axis=1)
        error = unit * (2.0 * np.sum(np.abs(directions * y), axis=1) + np.sum(np.abs(y) * sizes, axis=1))
        left = np.sum((np.abs(rest) + unit * sizes) ** 2, axis=1) / self.changes.least_eigenvalue * (1.0 + unit)
        low, high = np.maximum(square - error, 0.0), square + error + left
        return np.sqrt(low) * (1.0 - 1e-15), np.sqrt(high) * (1.0 + 1e-15)

    def _parts(self, points: Floats, target: int) -> list[tuple[Floats, Floats, Floats, Floats]]:
        """For each rival: bounds of the margin, and of how far it moves at radius 1."""
        values, error = self.today.each(points, target)
        error = WITNESS_SAFETY * error
        parts = []
        for k, margin in enumerate(margins_for(self.classifier, target)):
            low, high = self._reach(self._directions(points, margin))
            parts.append((values[:, k] - error, values[:, k] + error, low, high))
        return parts

    def worst(self, points: Floats, target: int) -> tuple[Floats, Floats]:
        """θᵀg - radius sqrt(gᵀ H⁻¹ g), the least over the rivals."""
        radius, tiny = self.changes.size, 4.0 * 2.0**-53
        parts = self._parts(points, target)
        # Counter-models lie a hair inside the ellipsoid.
        lower = [low - radius * far * (1.0 + tiny) - tiny * np.abs(low) for low, _, _, far in parts]
        upper = [high - radius * near * (1.0 - 1e-12) + tiny * np.abs(high) for _, high, near, _ in parts]
        return np.min(lower, axis=0), np.min(upper, axis=0)

    def holds(self, point: Floats, target: int) -> bool:
        """margin² against radius² gᵀ H⁻¹ g, by elimination in fractions."""
        square = Fraction(self.changes.size) ** 2
        for margin in margins_for(self.classifier, target):
            value = exact_margin(self.classifier, margin, point)
            direction = [Fraction(part) for part in self._directions(point[None, :], margin)[0].tolist()]
            reach = square * _quadratic_inverse(self.changes.shape, direction)
            if value < 0 or value**2 < reach or (margin.strict and value**2 == reach):
                return False
        return True

    def counter_model(self, point: Floats, target: int) -> Network | None:
        """θ - radius H⁻¹ g / sqrt(gᵀ H⁻¹ g) of the rival that comes nearest, a hair inside."""
        if int(self.classifier.predict_index(point[None, :])[0]) != target:
            return self.classifier
        for margin in margins_for(self.classifier, target):
            network = self._worst(point, margin)
            if flips(network, margin, point):
                return network
        return None

    def _worst(self, point: Floats, margin: Margin) -> Network:
        """The model of the ellipsoid with the least margin at the point, a hair inside."""
        direction = self._directions(point[None, :], margin)[0]
        y = self._inverse @ direction
        length = float(np.sqrt(max(direction @ y, 0.0)))
        for inside in _INSIDE if length > 0.0 else ():
            network = Ellipsoid.moved(self.classifier, y * (-(1.0 - inside) * self.changes.size / length))
            if self.changes.contains(self.classifier, network):
                return network
            # Where H is nearly singular the inverse is not good enough to say how long y is.
            length *= self.changes.distance(self.classifier, network) / self.changes.size if self.changes.size else 1.0
        return self.classifier

    def radius(self, points: Floats, target: int) -> tuple[Floats, Floats]:
        """margin / sqrt(gᵀ H⁻¹ g), the least over the rivals."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = [
                (np.maximum(low, 0.0) / far * (1.0 - 1e-15), np.maximum(high, 0.0) / near * (1.0 + 1e-15))
                for low, high, near, far in self._parts(points, target)
            ]
        lower = np.min([low for low, _ in ends], axis=0)
        return np.nan_to_num(lower, nan=0.0, posinf=np.inf), np.min([high for _, high in ends], axis=0)

    def critics(self, point: Floats, target: int) -> list[Network]:
        """The worst model for each rival."""
        return [self._worst(point, margin) for margin in margins_for(self.classifier, target)]


def _quadratic_inverse(shape: Floats, direction: list[Fraction]) -> Fraction:
    """gᵀ H⁻¹ g in exact arithmetic: elimination on [H | g]; H is positive definite, so are the pivots."""
    rows = [[Fraction(h) for h in row] + [g] for row, g in zip(shape.tolist(), direction, strict=True)]
    total = Fraction(0)
    for i, pivot in enumerate(rows):
        for row in rows[i + 1 :]:
            factor = row[i] / pivot[i]
            if factor:
                for j in range(i, len(pivot)):
                    row[j] -= factor * pivot[j]
        total += pivot[-1] ** 2 / pivot[i]
    return total
