"""What must accept a point, as ReLU layers over its variables: one network, or Δ's interval bound.

    v_1 = relu(W_1 (x, |x|) + b_1),   v_i = relu(W_i v_{i-1} + b_i),   rows . v_L + offsets >= 0

The interval bound of a network is itself such a network, of twice the width, whose values are the lower and upper ends
side by side. Variables of unknown sign enter it by their absolute values too, always on the convex side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds.abstraction import margins_for
from holdfast.changes import PlausibleChanges
from holdfast.milp.domain import Domain
from holdfast.network import Floats, Network


@dataclass(frozen=True)
class Acceptor:
    """Hidden layers and the margins that must not be negative.

    `absolute` names the variables whose absolute values follow the variables themselves as further inputs.
    """

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    rows: Floats
    offsets: Floats
    absolute: NDArray[np.intp]

    @classmethod
    def of(cls, network: Network, target: int) -> Acceptor:
        """One concrete network and the class it has to give."""
        margins = margins_for(network, target)
        return cls(
            network.weights[:-1],
            network.biases[:-1],
            np.stack([margin.row for margin in margins]),
            np.array([margin.offset for margin in margins]),
            np.empty(0, dtype=np.intp),
        )

    @classmethod
    def interval(cls, network: Network, changes: PlausibleChanges, target: int, domain: Domain) -> Acceptor:
        """The interval bound over the box `changes`: what it accepts, every network in Δ accepts.

        Up to one hidden layer it accepts exactly the points that are Δ-robust.
        """
        margins = margins_for(network, target)
        radii = changes.layer_radii(network)
        unsure = (domain.lower < 0.0) & (domain.upper > 0.0)
        absolute = np.flatnonzero(unsure)
        # The adversary moves a weight against the sign of what it multiplies: known, or by way of the absolute value.
        signs = np.concatenate([np.where(unsure, 0.0, np.where(domain.upper > 0.0, 1.0, -1.0)), np.ones(absolute.size)])
        rows = np.stack([margin.row for margin in margins])
        counts = np.array([margin.count for margin in margins], dtype=np.float64)
        offsets = np.array([margin.offset for margin in margins]) - counts * radii[-1].bias
        if not network.hidden:
            rows = np.concatenate([rows, np.zeros((rows.shape[0], absolute.size))], axis=1)
            return cls((), (), rows - np.outer(counts, radii[-1].weight * signs), offsets, absolute)
        rows = rows - counts[:, None] * radii[-1].weight
        rows = np.concatenate([np.maximum(rows, 0.0), np.minimum(rows, 0.0)], axis=1)
        weights, biases = [], []
        for i, (weight, bias) in enumerate(zip(network.weights[:-1], network.biases[:-1], strict=True)):
            radius = radii[i]
            if i == 0:
                wide = np.concatenate([weight, np.zeros((weight.shape[0], absolute.size))], axis=1)
                weights.append(np.concatenate([wide - radius.weight * signs, wide + radius.weight * signs]))
            else:
                down, up = weight - radius.weight, weight + radius.weight
                low = np.concatenate([np.maximum(down, 0.0), np.minimum(down, 0.0)], axis=1)
                high = np.concatenate([np.minimum(up, 0.0), np.maximum(up, 0.0)], axis=1)
                weights.append(np.concatenate([low, high]))
            biases.append(np.concatenate([bias - radius.bias, bias + radius.bias]))
        return cls(tuple(weights), tuple(biases), rows, offsets, absolute)

    def needed(self) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """For each layer, which neurons must not be overstated and which not understated, to keep the margins honest.

        A neuron that only helps the margins must not be overstated, which is not convex and may need a binary; one
        that only harms must not be understated, which is convex.
        """
        helps, harms = np.asarray((self.rows > 0.0).any(axis=0)), np.asarray((self.rows < 0.0).any(axis=0))
        found = [(helps, harms)]
        for weight in self.weights[:0:-1]:
            positive, negative = weight > 0.0, weight < 0.0
            helps, harms = (
                np.asarray(positive[helps].any(axis=0) | negative[harms].any(axis=0)),
                np.asarray(positive[harms].any(axis=0) | negative[helps].any(axis=0)),
            )
            found.append((helps, harms))
        return found[::-1]


@dataclass(frozen=True)
class LayerRange:
    """The least and the greatest preactivation of each neuron of a layer over a domain."""

    low: Floats
    high: Floats


def layer_ranges(acceptor: Acceptor, domain: Domain) -> list[LayerRange]:
    """Sound ranges, layer by layer: the better of interval propagation and a backward walk to the variables."""
    ranges: list[LayerRange] = []
    for i, (weight, bias) in enumerate(zip(acceptor.weights, acceptor.biases, strict=True)):
        high = _walk_back(acceptor, ranges, domain, weight, bias)
        low = -_walk_back(acceptor, ranges, domain, -weight, -bias)
        if i > 0:
            before_low, before_high = np.maximum(ranges[-1].low, 0.0), np.maximum(ranges[-1].high, 0.0)
            positive, negative = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
            high = np.minimum(high, positive @ before_high + negative @ before_low + bias)
            low = np.maximum(low, positive @ before_low + negative @ before_high + bias)
        # Wider than rounding could matter: a big-M one ulp too small would cut off a point.
        slack = 1e-9 * (1.0 + np.maximum(np.abs(low), np.abs(high)))
        ranges.append(LayerRange(low - slack, high + slack))
    return ranges


def _walk_back(
    acceptor: Acceptor, ranges: list[LayerRange], domain: Domain, matrix: Floats, constant: Floats
) -> Floats:
    """An upper bound on matrix . v + constant, each ReLU replaced by a line above or below it."""
    for k in range(len(ranges) - 1, -1, -1):
        low, high = ranges[k].low, ranges[k].high
        unstable = (low < 0.0) & (high > 0.0)
        chord = np.where(unstable, high / np.where(unstable, high - low, 1.0), (low >= 0.0).astype(np.float64))
        floor = np.where(unstable, (high > -low).astype(np.float64), chord)
        positive, negative = np.maximum(matrix, 0.0), np.minimum(matrix, 0.0)
        constant = constant - positive @ np.where(unstable, chord * low, 0.0)
        matrix = positive * chord + negative * floor
        constant = constant + matrix @ acceptor.biases[k]
        matrix = matrix @ acceptor.weights[k]
    d = domain.own.shape[0]
    own, extra = matrix[:, :d], matrix[:, d:]
    if extra.shape[1]:
        size = np.maximum(np.abs(domain.lower), np.abs(domain.upper))[acceptor.absolute]
        constant = constant + np.maximum(extra, 0.0) @ size
    return np.asarray(domain.greatest(own) + constant)
