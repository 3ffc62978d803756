"""Interval propagation: the cheapest sound bound, and the exact one up to one hidden layer.

With one radius for all rows the whole bound is a plain pass through one fixed network of twice the width, whose values
are the lower and upper ends side by side, v = [low | high]:

    first layer     [W x + b - r | W x + b + r],  r = weight_radius ||x||_1 + bias_radius
    later layers    low  <- (W - radius)+ low + (W - radius)- high + b - radius
                    high <- (W + radius)+ high + (W + radius)- low + b + radius
    margin          c+ low + c- high + offset,   c = row - count * radius

The split by signs is right because the values after a ReLU are >= 0. Columns that no margin looks at are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.arrays import Array, array_namespace, row_sum, take_rows
from holdfast.bounds.abstraction import IntervalNetwork, Margin


@dataclass(frozen=True)
class IntervalPass:
    """Interval propagation of one network and some margins, ready to run on any number of points."""

    # For points with no negative entry the radius folds into the weights.
    first_nonnegative: tuple[Array, Array]
    # In general the points get two more columns: ||x||_1 and 1.
    first_general: Array
    later: tuple[tuple[Array, Array], ...]
    output: tuple[Array, Array]

    @classmethod
    def of(cls, net: IntervalNetwork, margins: Sequence[Margin], xp: Any = np) -> IntervalPass:
        """Build the pass; every radius of `net` must be one number."""
        rows = np.stack([np.asarray(margin.row) - margin.count * net.output_weight_radius for margin in margins])
        offsets = np.array([margin.offset - margin.count * net.output_bias_radius for margin in margins])
        output = np.concatenate([np.maximum(rows, 0.0), np.minimum(rows, 0.0)], axis=1).T
        matrices = [_stacked(net, i) for i in range(1, net.depth)]
        biases = [_stacked_bias(net, i) for i in range(net.depth)]
        weight, radius = np.asarray(net.weights[0]), net.weight_radii[0]
        nonnegative = np.concatenate([weight - radius, weight + radius]).T
        ones = np.full((1, weight.shape[0]), radius)
        general = np.concatenate([np.concatenate([weight.T, weight.T], axis=1), np.concatenate([-ones, ones], axis=1)])
        firsts = [nonnegative, np.concatenate([general, biases[0][None, :]])]

        # Only the ends that a margin looks at are worth computing: with one margin, one per neuron of the last layer.
        used = np.flatnonzero(np.any(output != 0.0, axis=1))
        output = output[used]
        if matrices:
            matrices[-1] = matrices[-1][:, used]
        else:
            firsts = [first[:, used] for first in firsts]
        biases[-1] = biases[-1][used]

        later = zip(matrices, biases[1:], strict=True)
        return cls(
            first_nonnegative=(_native(firsts[0], xp), _native(biases[0], xp)),
            first_general=_native(firsts[1], xp),
            later=tuple((_native(matrix, xp), _native(bias, xp)) for matrix, bias in later),
            output=(_native(output, xp), _native(offsets, xp)),
        )

    def lower(self, points: Array, *, nonnegative: bool) -> Array:
        """A lower bound on each margin, (n, margins), before any allowance for rounding."""
        xp = array_namespace(points)
        values = self._first_layer(points, nonnegative=nonnegative)
        for matrix, bias in self.later:
            values = _rectified(xp, values @ matrix, bias)
        matrix, offsets = self.output
        return values @ matrix + offsets

    def _first_layer(self, points: Array, *, nonnegative: bool) -> Array:
        xp = array_namespace(points)
        if nonnegative:
            matrix, bias = self.first_nonnegative
            return _rectified(xp, points @ matrix, bias)
        norms = row_sum(xp.abs(points))
        extended = xp.concat([points, norms, xp.ones_like(norms)], axis=1)
        return _rectified(xp, extended @ self.first_general, None)


def _rectified(xp: Any, values: Array, bias: Array | None) -> Array:
    """max(values + bias, 0), in the memory of `values` where the library allows: fresh memory is dear."""
    if bias is not None:
        values += bias
    if isinstance(values, np.ndarray):
        return np.maximum(values, 0.0, out=values)
    return xp.maximum(values, 0.0)


def first_layer_box(net: IntervalNetwork, points: Array) -> tuple[Array, Array]:
    """The exact range of each first-layer preactivation: W x + b ± (weight_radius ||x||_1 + bias_radius)."""
    xp = array_namespace(points)
    center = points @ net.weights[0].T + net.biases[0]
    reach = row_sum(xp.abs(points)) * net.weight_radii[0] + net.bias_radii[0]
    return center - reach, center + reach


@dataclass(frozen=True)
class Ranges:
    """Sound ranges of a layer's two extreme preactivations over the box of the layer before.

    `lower_min <= (W - radius) v + b - radius <= lower_max` and `upper_min <= (W + radius) v + b + radius <= upper_max`.
    """

    lower_min: Array
    lower_max: Array
    upper_min: Array
    upper_max: Array

    def widened(self, slack: Array) -> Ranges:
        """Every end moved outwards by `slack`."""
        return Ranges(self.lower_min - slack, self.lower_max + slack, self.upper_min - slack, self.upper_max + slack)

    def within(self, other: Ranges) -> Ranges:
        """What both ranges allow."""
        xp = array_namespace(self.lower_min)
        return Ranges(
            xp.maximum(self.lower_min, other.lower_min),
            xp.minimum(self.lower_max, other.lower_max),
            xp.maximum(self.upper_min, other.upper_min),
            xp.minimum(self.upper_max, other.upper_max),
        )

    def take(self, rows: Array) -> Ranges:
        """The ranges of some rows only."""
        return Ranges(
            take_rows(self.lower_min, rows),
            take_rows(self.lower_max, rows),
            take_rows(self.upper_min, rows),
            take_rows(self.upper_max, rows),
        )


def joined_ranges(parts: Sequence[Ranges]) -> Ranges:
    """The ranges of several blocks of rows as one."""
    xp = array_namespace(parts[0].lower_min)
    return Ranges(
        xp.concat([part.lower_min for part in parts]),
        xp.concat([part.lower_max for part in parts]),
        xp.concat([part.upper_min for part in parts]),
        xp.concat([part.upper_max for part in parts]),
    )


def preactivation_ranges(net: IntervalNetwork, i: int, low: Array, high: Array) -> Ranges:
    """Layer i's ranges for values in [low, high], exact over that box where one radius serves all rows.

    With a radius for each row, W v and radius * sum(v) are bounded each on its own, so that no matrix depends on a row.
    """
    xp = array_namespace(low)
    weight, bias = net.weights[i], net.biases[i]
    radius, bias_radius = net.weight_radii[i], net.bias_radii[i]
    if isinstance(radius, float):
        down_min, down_max = _affine_range(weight - radius, low, high)
        up_min, up_max = _affine_range(weight + radius, low, high)
        down, up = bias - bias_radius, bias + bias_radius
        return Ranges(down_min + down, down_max + down, up_min + up, up_max + up)
    least, most = _affine_range(weight, low, high)
    reach_min = row_sum(low) * radius + bias_radius
    reach_max = row_sum(high) * radius + bias_radius
    least, most = xp.add(least, bias), xp.add(most, bias)
    return Ranges(least - reach_max, most - reach_min, least + reach_min, most + reach_max)


def _affine_range(weight: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """The least and the greatest W v over the box."""
    xp = array_namespace(low)
    positive, negative = xp.maximum(weight, 0.0).T, xp.minimum(weight, 0.0).T
    return low @ positive + high @ negative, high @ positive + low @ negative


def _stacked(net: IntervalNetwork, i: int) -> Any:
    """The matrix that takes [low | high] of layer i - 1 to [low | high] of layer i."""
    weight, radius = np.asarray(net.weights[i]), net.weight_radii[i]
    down, up = weight - radius, weight + radius
    low = np.concatenate([np.maximum(down, 0.0), np.minimum(down, 0.0)], axis=1)
    high = np.concatenate([np.minimum(up, 0.0), np.maximum(up, 0.0)], axis=1)
    return np.concatenate([low, high]).T


def _stacked_bias(net: IntervalNetwork, i: int) -> Any:
    bias, radius = np.asarray(net.biases[i]), net.bias_radii[i]
    return np.concatenate([bias - radius, bias + radius])


def _native(array: Any, xp: Any) -> Array:
    return xp.asarray(np.ascontiguousarray(array))
