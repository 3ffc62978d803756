"""What must accept a point, as layers over its variables: one network, or Δ's interval bound.

    v_1 = f_1(W_1 (x, |x|) + b_1),   v_i = f_i(W_i v_{i-1} + b_i),   rows . v_L + offsets >= 0,   f_i ReLU or identity

The interval bound of a ReLU layer is itself such a layer, of twice the width, whose values are the lower and upper ends
side by side. Variables of unknown sign enter it by their absolute values too, always on the convex side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from holdfast._network import Bools, Floats, Ints, Network, Pair
from holdfast.bounds._layers import chords, margins_for
from holdfast.changes import PlausibleChanges
from holdfast.changes._parameters import down_up
from holdfast.milp._domain import Domain

_EPSILON = float(np.finfo(np.float64).eps)
# The least and the greatest preactivation of each neuron of a layer over a domain.
Range = Pair


@dataclass(frozen=True)
class Acceptor:
    """Hidden layers and the margins that must not be negative.

    `rectified` says for each layer whether it ends in a ReLU. `absolute` names the variables whose absolute values
    follow the variables themselves as further inputs.
    """

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    rectified: tuple[bool, ...]
    rows: Floats
    offsets: Floats
    absolute: Ints

    @classmethod
    def of(cls, network: Network, target: int, demand: float = 0.0) -> Acceptor:
        """One concrete network and the class it has to give, with so much margin."""
        margins = margins_for(network, target)
        return cls(
            network.weights[:-1],
            network.biases[:-1],
            tuple(activation == "relu" for activation in network.activations),
            np.stack([margin.row for margin in margins]),
            np.array([margin.offset for margin in margins]) - demand,
            np.empty(0, dtype=np.intp),
        )

    @classmethod
    def interval(
        cls, network: Network, changes: PlausibleChanges, target: int, domain: Domain
    ) -> Acceptor:
        """The interval bound over the box `changes`, for up to one hidden layer with ReLU.

        It accepts exactly the points that are Δ-robust.
        """
        unsure = (domain.lower < 0.0) & (domain.upper > 0.0)
        absolute = np.flatnonzero(unsure)
        # What a layer reads: the variables, the absolute values, 1 for the bias.
        read = [*range(unsure.size), *absolute, unsure.size]
        # How much of max(x, 0) and of max(-x, 0) is in each of them: known by the sign, or by the absolute value.
        half = np.full(absolute.size, 0.5)
        plus: Floats | float = np.concatenate(
            [np.where(unsure, 0.5, domain.upper > 0.0), half, [1.0]]
        )
        minus: Floats | float = np.concatenate(
            [np.where(unsure, -0.5, -1.0 * (domain.upper <= 0.0)), half, [0.0]]
        )
        ends: list[list[tuple[Floats, ...]]] = []
        for radius, weight, bias in zip(
            changes.layer_radii(network), network.weights, network.biases, strict=True
        ):
            down, up = (
                np.column_stack(
                    [np.broadcast_to(part, weight.shape), np.broadcast_to(edge, bias.shape)]
                )
                for part, edge in zip(down_up(radius.weight), down_up(radius.bias), strict=True)
            )
            today = np.column_stack([weight, bias])
            if not ends:
                today, down, up = (part[:, read] for part in (today, down, up))
                today[:, unsure.size : -1] = 0.0
            ends.append([(today, -down * plus, -up * minus), (today, up * plus, down * minus)])
            plus, minus = 1.0, 0.0
        outputs = []
        for margin in margins_for(network, target):
            parts = [
                (s, end, o)
                for s, end, o in ((1.0, 0, margin.above), (-1.0, 1, margin.below))
                if o >= 0
            ]
            outputs.append(_sum(*(s * term[o] for s, end, o in parts for term in ends[-1][end])))
        rows = np.stack(outputs)[:, :-1]
        offsets = np.stack(outputs)[:, -1]
        if len(ends) == 1:
            return cls((), (), (), rows, offsets, absolute)
        first = np.concatenate([_sum(*end) for end in ends[0]])
        # The least of the margins takes lower ends where a weight is positive, upper ends where it is negative.
        rows = np.concatenate([np.maximum(rows, 0.0), np.minimum(rows, 0.0)], axis=1)
        return cls((first[:, :-1],), (first[:, -1],), (True,), rows, offsets, absolute)

    def layers(self, points: Floats) -> tuple[list[Floats], Floats]:
        """The preactivations of each hidden layer at some points, and the margins, (n, ...) each."""
        values = np.concatenate([points, np.abs(points[:, self.absolute])], axis=1)
        before = []
        for weight, bias, relu in zip(self.weights, self.biases, self.rectified, strict=True):
            before.append(values @ weight.T + bias)
            values = np.maximum(before[-1], 0.0) if relu else before[-1]
        return before, values @ self.rows.T + self.offsets

    def needed(self) -> list[tuple[Bools, Bools]]:
        """For each layer, which neurons must not be overstated and which not understated, to keep the margins honest.

        A neuron that only helps the margins must not be overstated, which is not convex and may need a binary; one
        that only harms must not be understated, which is convex.
        """
        helps = np.asarray((self.rows > 0.0).any(axis=0))
        harms = np.asarray((self.rows < 0.0).any(axis=0))
        needed = [(helps, harms)]
        for weight in self.weights[:0:-1]:
            positive = weight > 0.0
            negative = weight < 0.0
            helps, harms = (
                np.asarray(positive[helps].any(axis=0) | negative[harms].any(axis=0)),
                np.asarray(positive[harms].any(axis=0) | negative[helps].any(axis=0)),
            )
            needed.append((helps, harms))
        return needed[::-1]


# A sum of a few numbers, element by element, rounded once: the worst of a difference may be far smaller than its terms.
_sum = np.vectorize(lambda *terms: math.fsum(terms), otypes=[np.float64])


def layer_ranges(acceptor: Acceptor, domain: Domain) -> tuple[list[Range], Floats, int]:
    """Sound ranges, layer by layer: each end by a backward walk to the variables.

    No number on the way exceeds a few times `size`, what the same layers give with every sign positive, and each is the
    result of at most `terms` roundings. So the ranges, widened by as much, hold in exact arithmetic. The margins' size
    and terms come second and third.
    """
    ranges: list[Range] = []
    size = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
    size, terms = np.concatenate([size, size[acceptor.absolute]]), size.shape[0]
    for i, (weight, bias) in enumerate(zip(acceptor.weights, acceptor.biases, strict=True)):
        size = np.abs(weight) @ size + np.abs(bias)
        terms = terms + weight.shape[1]
        slack = rounding(terms * (i + 1), size)
        both = np.concatenate([weight, -weight]), np.concatenate([bias, -bias])
        high, minus_low = np.split(_walk_back(acceptor, ranges, domain, *both), 2)
        ranges.append((-(minus_low + slack), high + slack))
    return (
        ranges,
        np.abs(acceptor.rows) @ size + np.abs(acceptor.offsets),
        terms + acceptor.rows.shape[1],
    )


def rounding(terms: int, size: Floats) -> Floats:
    """An allowance for so many roundings of numbers of this size, and for those too small to be rounded relatively."""
    return 16 * (terms + 8) * _EPSILON * size + 1e-290


def _walk_back(
    acceptor: Acceptor, ranges: list[Range], domain: Domain, matrix: Floats, constant: Floats
) -> Floats:
    """An upper bound on matrix . v + constant, each ReLU replaced by a line above or below it."""
    for k in range(len(ranges) - 1, -1, -1):
        if acceptor.rectified[k]:
            low, high = ranges[k]
            chord, intercept = chords(low, high)
            positive, negative = np.maximum(matrix, 0.0), np.minimum(matrix, 0.0)
            constant = constant + positive @ intercept
            matrix = positive * chord + negative * (high > -low)
        constant = constant + matrix @ acceptor.biases[k]
        matrix = matrix @ acceptor.weights[k]
    d = domain.own.shape[0]
    own, extra = matrix[:, :d], matrix[:, d:]
    if extra.shape[1]:
        size = np.maximum(np.abs(domain.lower), np.abs(domain.upper))[acceptor.absolute]
        constant = constant + np.maximum(extra, 0.0) @ size
    return domain.greatest(own) + constant
