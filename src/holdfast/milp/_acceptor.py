"""Acceptors of a point as layers over its variables: one network, or Δ's interval bound.

    v_1 = f_1(W_1 (x, x⁻) + b_1),   v_i = f_i(W_i v_{i-1} + b_i),   rows . v_L + offsets >= 0,   f_i ReLU or identity

The interval bound of a ReLU layer is itself such a layer, of twice the width, whose values are the lower and upper ends
side by side. Variables of unknown sign enter it by x⁻ = max(-x, 0) too, always on the convex side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from holdfast._network import Bools, Floats, Ints, Network
from holdfast.bounds._layers import Layers, activated, chords, margins_for
from holdfast.changes import PlausibleChanges
from holdfast.changes._parameters import down_up
from holdfast.milp._domain import Domain

_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Acceptor:
    """Hidden layers and the margins that must not be negative.

    `hidden` has for each layer its weights, its biases and whether it ends in a ReLU. `falling` names the variables
    whose x⁻ follow the variables themselves as further inputs.
    """

    hidden: tuple[tuple[Floats, Floats, bool], ...]
    rows: Floats
    offsets: Floats
    falling: Ints

    @classmethod
    def of(cls, network: Network, target: int, demand: float = 0.0) -> Acceptor:
        """One concrete network, its class, and the margin that it has to give."""
        margins = margins_for(network, target)
        relus = [activation == "relu" for activation in network.activations]
        return cls(
            tuple(zip(network.weights, network.biases, relus, strict=False)),
            np.stack([margin.row for margin in margins]),
            np.array([margin.offset for margin in margins]) - demand,
            np.empty(0, dtype=np.intp),
        )

    @classmethod
    def interval(
        cls, network: Network, changes: PlausibleChanges, target: int, domain: Domain
    ) -> Acceptor:
        """The interval bound over the box `changes`, for up to one hidden layer with ReLU.

            L = low x - (high - low) x⁻,    U = high x + (high - low) x⁻

        It accepts exactly the points that are Δ-robust.
        """
        margins = margins_for(network, target)
        signs = np.stack([margin.signs(network.n_outputs) for margin in margins])
        ends = np.stack([_least(network, changes, sign) for sign in (*signs, *-signs)])
        rows, minus_high = np.split(ends[:, :-1], 2)
        offsets = ends[: len(signs), -1]
        low, high = rows, -minus_high
        if network.hidden:
            low, high, *edges = Layers.of(network, changes, margins[0]).hidden[0].ends
        # Of a variable that is never positive the other end of a weight is the worst.
        near, far = np.where(domain.upper > 0.0, (low, high), (high, low))
        falling = np.flatnonzero((domain.lower < 0.0) & (domain.upper > 0.0))
        width = (high - low)[:, falling]
        lower = np.concatenate([near, -width], axis=1)
        if not network.hidden:
            return cls((), lower, offsets, falling)
        first = np.concatenate([lower, np.concatenate([far, width], axis=1)])
        # The least of the margins takes lower ends where a weight is positive, upper ends where it is negative.
        rows = np.concatenate([np.maximum(rows, 0.0), np.minimum(rows, 0.0)], axis=1)
        return cls(((first, np.concatenate(edges), True),), rows, offsets, falling)

    def layers(self, points: Floats) -> tuple[list[Floats], Floats]:
        """The preactivations of each hidden layer at some points, and the margins, (n, ...) each."""
        values = np.concatenate([points, np.maximum(-points[:, self.falling], 0.0)], axis=1)
        before = []
        for weight, bias, relu in self.hidden:
            before.append(values @ weight.T + bias)
            values = activated(before[-1], relu)
        return before, values @ self.rows.T + self.offsets

    def needed(self) -> list[Bools]:
        """For each layer, (2, H): which neurons must not be overstated, which not understated, for honest margins.

        A neuron that only helps the margins must not be overstated, which is not convex and may need a binary; one
        that only harms must not be understated, which is convex.
        """
        helps = np.ones(len(self.rows), dtype=np.bool_)
        harms = ~helps
        needed = []
        for weight in (self.rows, *(weight for weight, _, _ in self.hidden[:0:-1])):
            more, less = weight > 0.0, weight < 0.0
            helps, harms = helps @ more | harms @ less, helps @ less | harms @ more
            needed.append(np.stack([helps, harms]))
        return needed[::-1]

    def ranges(self, domain: Domain) -> tuple[list[Floats], Floats, Floats]:
        """Sound ranges (2, H) of the preactivations, layer by layer: each end by a backward walk to the variables.

        `size` is the result of the same layers with every sign positive. Every number on the way is at most a few
        times `size` and has a bounded number of roundings. So the widened ranges are true in exact arithmetic.
        Returns the ranges, the margins' size, and the margin that a forward pass in floats and rounded parameters may
        overstate.
        """
        ranges: list[Floats] = []
        size = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
        size, terms = np.concatenate([size, size[self.falling]]), size.shape[0]
        for i, (weight, bias, _) in enumerate(self.hidden):
            size = np.abs(weight) @ size + np.abs(bias)
            terms = terms + weight.shape[1]
            slack = _rounding(terms * (i + 1), size)
            both = np.concatenate([weight, -weight]), np.concatenate([bias, -bias])
            high, minus_low = np.split(self._greatest(ranges, domain, *both), 2)
            ranges.append(np.stack([-(minus_low + slack), high + slack]))
        size = np.abs(self.rows) @ size + np.abs(self.offsets)
        return ranges, size, _rounding(terms + self.rows.shape[1], size)

    def _greatest(
        self, ranges: list[Floats], domain: Domain, matrix: Floats, constant: Floats
    ) -> Floats:
        """An upper bound on  matrix . v + constant  after the layers of these ranges.

        Each ReLU is replaced by a line above or below it, and each x⁻ by its greatest value or by 0.
        """
        known = list(zip(self.hidden, ranges, strict=False))
        for (weight, bias, relu), (low, high) in reversed(known):
            if relu:
                slope, intercept = chords(low, high)
                positive, negative = np.maximum(matrix, 0.0), np.minimum(matrix, 0.0)
                constant = constant + positive @ intercept
                matrix = positive * slope + negative * (high > -low)
            constant = constant + matrix @ bias
            matrix = matrix @ weight
        own, falls = np.split(matrix, [domain.own.shape[0]], axis=1)
        deepest = np.maximum(-domain.lower[self.falling], 0.0)
        return np.asarray(domain.greatest(own) + np.maximum(falls, 0.0) @ deepest + constant)


def _least(network: Network, changes: PlausibleChanges, signs: Floats) -> Floats:
    """The least that  signs . output layer  can be over the box: the row's weights, and its bias as one more.

    Each is a sum that is rounded once: the worst of a difference may be far smaller than its terms.
    """
    weight, bias = changes.layer_radii(network)[-1]
    sums: list[float] = []
    for values, radius in ((network.weights[-1].T, weight), (network.biases[-1][None, :], bias)):
        down, up = map(np.transpose, down_up(radius))
        moves = np.broadcast_to(np.abs(signs) * np.where(signs > 0.0, down, up), values.shape)
        sums += map(math.fsum, np.concatenate([signs * values, -moves], axis=1))
    return np.array(sums)


def _rounding(terms: int, size: Floats) -> Floats:
    """An allowance for this number of roundings at this size, also of numbers too small to be rounded relatively."""
    return 16 * (terms + 8) * _EPSILON * size + 1e-290
