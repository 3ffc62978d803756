"""Decider for a linear model whose parameters may move within an ellipsoid."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from holdfast._network import Floats, Network, Pair
from holdfast.bounds._layers import Margin, margins_for
from holdfast.changes import Ellipsoid
from holdfast.changes._parameters import flat, whole_numbers
from holdfast.importers import Model
from holdfast.verify._closed_form import ClosedForm, upper_end
from holdfast.verify._engine import quiet
from holdfast.verify._witness import flips

_UNIT, _TINY = 2.0**-53, 2.0**-1020
# Counter-models stay so much inside, relatively, that what is computed about them may round.
_INSIDE = 1e-12


class InEllipsoid(ClosedForm):
    """Decider for a linear model under an `Ellipsoid`."""

    classifier: Network
    changes: Ellipsoid

    def __init__(self, model: Model, changes: Ellipsoid) -> None:
        self.classifier = model.network
        self.changes = changes
        changes.check(self.classifier)
        self._theta = flat(self.classifier)

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(np.linalg.inv(self.changes.balanced), dtype=np.float64)

    @cached_property
    def _room(self) -> float:
        """A radius so far inside that a counter-model there stays in the ellipsoid after rounding.

        In the balanced shape, whose trace is at most 2 n and whose eigenvalues are at least λ, the parameters θ and a
        step of length r move by no more than  2 u (|θ| + r / sqrt(λ))  in rounding.
        """
        changes = self.changes
        radius = self.changes.size
        with quiet():
            theta = np.ldexp(self._theta, -changes.exponents)
            rounded = (
                2.0
                * _UNIT
                * (float(np.linalg.norm(theta)) + radius / math.sqrt(changes.least_eigenvalue))
            )
            return max(radius * (1.0 - _INSIDE) - math.sqrt(2.0 * theta.size) * rounded, 0.0)

    def _directions(self, points: Floats, margin: Margin) -> Floats:
        """g with  margin(θ) = gᵀθ  at each point, (n, parameters)."""
        n = len(points)
        signs = margin.signs(self.classifier.n_outputs)
        weights = signs[:, None] * points[:, None, :]
        return np.hstack([weights.reshape(n, -1), np.broadcast_to(signs, (n, signs.size))])

    def _solved(self, directions: Floats) -> tuple[Floats, NDArray[np.intc], Floats]:
        """Directions in the balanced shape, the power of two that divides each, and y with  H y ≈ g."""
        own = self.changes.exponents
        powers = np.max(
            np.frexp(directions)[1] + own, axis=1, where=directions != 0.0, initial=-4000
        )
        g = np.ldexp(directions, own - powers[:, None])
        y = np.zeros_like(g)
        for _ in range(2):
            y += (g - y @ self.changes.balanced) @ self._inverse
        return g, powers, y

    def _reach(self, directions: Floats) -> Pair:
        """Bounds of sqrt(gᵀ H⁻¹ g), (n,) each; a counter-model in floats attains the first.

        For any y and r = g - H y,  gᵀ H⁻¹ g = 2 gᵀy - yᵀ H y + rᵀ H⁻¹ r,  and the last is between 0 and |r|² / λ.
        """
        shape = self.changes.balanced
        g, powers, y = self._solved(directions)
        product = y @ shape
        unit = 4.0 * (len(shape) + 4) * _UNIT
        sizes = np.abs(g) + np.abs(y) @ np.abs(shape)
        along = np.sum(np.abs(g * y), axis=1)
        square = 2.0 * np.sum(g * y, axis=1) - np.sum(y * product, axis=1)
        error = unit * (2.0 * along + np.sum(np.abs(y) * sizes, axis=1))
        rest = (
            np.sum((np.abs(g - product) + unit * sizes) ** 2, axis=1)
            / self.changes.least_eigenvalue
        )
        least = np.sqrt(np.maximum(square - error, 0.0))
        most = np.sqrt(square + error + rest * (1.0 + unit))
        # What the forward pass of a counter-model rounds grows with the sizes of its terms.
        least = np.maximum(least - unit * along / np.maximum(least, _UNIT), 0.0)
        return np.nextafter(np.ldexp(least, powers), 0.0), np.nextafter(
            np.ldexp(most, powers), np.inf
        )

    def _parts(self, points: Floats, target: int) -> Floats:
        """Bounds of the margin over each rival, and of its move at radius 1, (4, rivals, n)."""
        parts = []
        unit = 4.0 * (self._theta.size + 4) * _UNIT
        for margin in margins_for(self.classifier, target):
            directions = self._directions(points, margin)
            value = directions @ self._theta
            # What is below the normal range is lost altogether, at worst.
            error = unit * (np.abs(directions) @ np.abs(self._theta)) + self._theta.size * _TINY
            parts.append((value - error, value + error, *self._reach(directions)))
        return np.stack(parts, axis=1)

    def worst(self, points: Floats, target: int) -> Pair:
        """The worst margin θᵀg - radius sqrt(gᵀ H⁻¹ g), the least over the rivals."""
        tiny = 4.0 * _UNIT
        with quiet():
            low, high, near, far = self._parts(points, target)
            lower = low - self.changes.size * far * (1.0 + tiny) - tiny * np.abs(low)
            upper = high - self._room * near * (1.0 - tiny) + tiny * np.abs(high)
        return lower.min(axis=0), upper.min(axis=0)

    def holds(self, point: Floats, target: int) -> bool:
        """Compare margin² with radius² gᵀ H⁻¹ g in the exact arithmetic of the checker."""
        # The checker is imported when it is asked for: `python -m holdfast.checker` has to come before.
        from holdfast.checker import closed_form
        from holdfast.verify._exact import plain_model

        model = plain_model(Network(self.classifier.weights, self.classifier.biases))
        return closed_form(self.changes.to_dict(), model, point.tolist(), target)

    def counter_model(self, point: Floats, target: int) -> Network | None:
        """Today's model, or the worst model for a rival."""
        margins = margins_for(self.classifier, target)
        for network in (self.classifier, *self.critics(point, target)):
            if any(flips(network, margin, point) for margin in margins):
                return network
        return None

    def _worst(self, point: Floats, margin: Margin) -> Network:
        """The model θ - r H⁻¹ g / sqrt(gᵀ H⁻¹ g) with the least margin at the point; r is slightly below the radius.

        Scaling by the length of the computed y = H⁻¹ g corrects for its rounding.
        """
        _, _, (y,) = self._solved(self._directions(point[None, :], margin))
        step = np.ldexp(y, self.changes.exponents)
        length = math.sqrt(self.changes.square(*whole_numbers(step)))
        network = (
            Ellipsoid.moved(self.classifier, step * (-self._room / length))
            if length > 0.0
            else self.classifier
        )
        return network if self.changes.contains(self.classifier, network) else self.classifier

    def radius(self, points: Floats, target: int) -> Pair:
        """The radius margin / sqrt(gᵀ H⁻¹ g), the least over the rivals."""
        with quiet():
            low, high, near, far = self._parts(points, target)
            lower = (np.maximum(low, 0.0) / far).min(axis=0)
            upper = (high / near).min(axis=0)
        return np.nextafter(np.nan_to_num(lower, nan=0.0, posinf=np.inf), 0.0), upper_end(upper)

    def critics(self, point: Floats, target: int) -> list[Network]:
        """The worst model for each rival."""
        return [self._worst(point, margin) for margin in margins_for(self.classifier, target)]
