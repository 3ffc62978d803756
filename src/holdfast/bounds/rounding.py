"""How far a floating-point bound can be from its exact value.

Every quantity computed here is a sum of products along the paths of the network, with factors in [-1, 1] put in
between. Such a sum is off by at most gamma_K times the same sum with absolute values everywhere (Higham, Accuracy and
Stability of Numerical Algorithms, ch. 3), and a sum of absolute values is bounded by row-sum norms, layer by layer:

    M_0 = max |x|,    M_i = 2 (max_j sum_l (|W_jl| + radius) M_{i-1} + max_j |b_j| + radius)

The factor 2 pays for the intercepts of the relaxations. It is a crude bound, a thousand times what happens, and costs
nothing: a verdict it leaves open is settled in exact fractions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.arrays import Array, array_namespace, take_rows
from holdfast.bounds.abstraction import IntervalNetwork
from holdfast.network import Network

_UNIT = 2.0**-53
# Products that fall below the smallest normal number lose all relative accuracy; this is far above what they can lose.
_UNDERFLOW = 1e-290


@dataclass(frozen=True)
class RoundingModel:
    """Error bounds of one network under one set of radii: `slope * max|x| + constant` for each layer."""

    slopes: tuple[Array, ...]
    constants: tuple[Array, ...]
    gamma: float

    @classmethod
    def of(cls, network: Network, net: IntervalNetwork) -> RoundingModel:
        """Row-sum norms of the hidden layers and of the output layer, with their radii."""
        slope, constant = 1.0, 0.0
        slopes, constants, steps = [], [], 4
        radii = [*zip(net.weight_radii, net.bias_radii, strict=True)]
        radii.append((2.0 * net.output_weight_radius, 2.0 * net.output_bias_radius))
        for i, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
            n_inputs = weight.shape[1]
            weight_radius, bias_radius = radii[i]
            # The margin of two classes is the difference of two rows.
            rows = 2.0 if i == len(network.weights) - 1 else 1.0
            norm = rows * float(np.abs(weight).sum(axis=1).max()) + n_inputs * weight_radius
            offset = rows * float(np.abs(bias).max()) + bias_radius
            slope, constant = 2.0 * norm * slope, 2.0 * (norm * constant + offset)
            slopes.append(slope)
            constants.append(constant)
            steps += 3 * n_inputs + 12
        gamma = 4.0 * steps * _UNIT
        return cls(tuple(slopes), tuple(constants), gamma)

    def layer(self, i: int, magnitude: Array) -> Array:
        """The error of layer i's preactivation bounds for points with max |x| = `magnitude`."""
        return self.gamma * (self.slopes[i] * magnitude + self.constants[i]) + _UNDERFLOW

    def output(self, magnitude: Array) -> Array:
        """The error of a margin for points with max |x| = `magnitude`."""
        return self.layer(len(self.slopes) - 1, magnitude)

    def take(self, rows: Array) -> RoundingModel:
        """The model for some rows only, where the radii differ from row to row."""
        slopes = tuple(take_rows(slope, rows) for slope in self.slopes)
        constants = tuple(take_rows(constant, rows) for constant in self.constants)
        return RoundingModel(slopes, constants, self.gamma)


def magnitude(points: Array) -> Array:
    """max |x| of each row, as a column."""
    xp = array_namespace(points)
    return xp.max(xp.abs(points), axis=1, keepdims=True)
