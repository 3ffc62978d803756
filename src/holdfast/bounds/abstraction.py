"""The paper's interval abstraction of a network, and the margin that must stay on the right side.

Each neuron owns its weights, so for norm inf the adversary has one number per neuron, its side t in [-1, 1]:

    z_j = W_j v + b_j + t_j (weight_radius ||v||_1 + bias_radius)

and a target's margin over a rival is least at one known output row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast.arrays import Array, take_rows
from holdfast.changes import PlausibleChanges
from holdfast.network import Floats, Network


@dataclass(frozen=True)
class IntervalNetwork:
    """The hidden layers with their radii; a radius is one number, or a column with one for each row of the table."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    weight_radii: tuple[Array, ...]
    bias_radii: tuple[Array, ...]
    output_weight_radius: Array
    output_bias_radius: Array

    @classmethod
    def of(cls, network: Network, changes: PlausibleChanges, xp: Any = np) -> IntervalNetwork:
        """The abstraction of `network` under box `changes`, in the array library `xp`."""
        radii = changes.layer_radii(network)
        return cls(
            weights=tuple(xp.asarray(weight) for weight in network.weights[:-1]),
            biases=tuple(xp.asarray(bias) for bias in network.biases[:-1]),
            weight_radii=tuple(radius.weight for radius in radii[:-1]),
            bias_radii=tuple(radius.bias for radius in radii[:-1]),
            output_weight_radius=radii[-1].weight,
            output_bias_radius=radii[-1].bias,
        )

    @property
    def depth(self) -> int:
        """The number of hidden layers."""
        return len(self.weights)

    def first(self, depth: int) -> IntervalNetwork:
        """The first `depth` hidden layers alone."""
        return replace(
            self,
            weights=self.weights[:depth],
            biases=self.biases[:depth],
            weight_radii=self.weight_radii[:depth],
            bias_radii=self.bias_radii[:depth],
        )

    def scaled(self, factor: Array) -> IntervalNetwork:
        """Every radius multiplied by `factor`: a number, or a column with one factor for each row."""
        return replace(
            self,
            weight_radii=tuple(radius * factor for radius in self.weight_radii),
            bias_radii=tuple(radius * factor for radius in self.bias_radii),
            output_weight_radius=self.output_weight_radius * factor,
            output_bias_radius=self.output_bias_radius * factor,
        )

    def take(self, rows: Array) -> IntervalNetwork:
        """The abstraction for some rows of the table only."""
        return replace(
            self,
            weight_radii=tuple(take_rows(radius, rows) for radius in self.weight_radii),
            bias_radii=tuple(take_rows(radius, rows) for radius in self.bias_radii),
            output_weight_radius=take_rows(self.output_weight_radius, rows),
            output_bias_radius=take_rows(self.output_bias_radius, rows),
        )


@dataclass(frozen=True)
class Margin:
    """A linear function of the last hidden layer's values that must stay >= 0, or > 0 if `strict`.

    Over all plausible output rows its least value at v >= 0 is

        (row - count * weight_radius) v + offset - count * bias_radius,

    where `count` is how many output rows take part: one, or two for the difference of two logits.
    """

    row: Floats
    offset: float
    count: int
    strict: bool
    # Which logit must stay above which; -1 stands for the constant 0.
    above: int
    below: int

    @classmethod
    def of_logit(cls, network: Network, output: int, sign: int, *, strict: bool = False) -> Margin:
        """The logit itself (sign = 1) or its negative (sign = -1)."""
        above, below = (output, -1) if sign > 0 else (-1, output)
        row, offset = network.weights[-1][output], float(network.biases[-1][output])
        return cls(sign * row, sign * offset, 1, strict, above, below)

    @classmethod
    def of_pair(cls, network: Network, target: int, rival: int) -> Margin:
        """How far the target's logit lies above the rival's; on a tie the lower index wins.

        The row is a difference of floats and so may be off by a rounding error, which `rounding_error` covers.
        """
        weight, bias = network.weights[-1], network.biases[-1]
        row, offset = weight[target] - weight[rival], float(bias[target] - bias[rival])
        return cls(row, offset, 2, rival < target, target, rival)

    def of_logits(self, logits: Floats) -> Floats:
        """The margin of a network with these logits, (n, outputs) -> (n,)."""
        above = logits[:, self.above] if self.above >= 0 else 0.0
        below = logits[:, self.below] if self.below >= 0 else 0.0
        return np.asarray(above - below)

    def worst_row(self, net: IntervalNetwork) -> Array:
        """The output row at which the margin is least for v >= 0: (H,), or (n, H) with one radius for each row."""
        return self.row - self.count * net.output_weight_radius

    def worst_offset(self, net: IntervalNetwork) -> Array:
        """The constant that goes with `worst_row`: a number, or (n,)."""
        offset = self.offset - self.count * net.output_bias_radius
        return offset if isinstance(offset, float) else offset[:, 0]


def margins_for(network: Network, target: int) -> list[Margin]:
    """What must stay on the right side for the class at index `target`: one margin for each rival."""
    if network.n_outputs == 1:
        return [Margin.of_logit(network, 0, 1 if target == 1 else -1, strict=target == 0)]
    return [Margin.of_pair(network, target, rival) for rival in range(network.n_outputs) if rival != target]
