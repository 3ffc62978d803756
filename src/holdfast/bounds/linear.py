"""Backward linear bounds: a margin pulled back through the layers to a linear function of the first hidden layer.

A neuron's value v_j lies between relu(L_j) and relu(U_j), with L_j = (W_j - radius) v + b_j - radius and U_j the same
with plus signs, v >= 0 the layer before. Walking backwards with a coefficient c_j on v_j:

    c_j > 0:  v_j >= alpha_j L_j                             for any multiplier alpha_j in [0, 1]
    c_j < 0:  v_j <= stretch_j (slope_j U_j + intercept_j)   a line above relu on U_j's range, for any stretch_j
                                                             >= 1: as v_j >= 0, so is the line

so with R_j = c_j alpha_j or c_j stretch_j slope_j the coefficients of the layer before are  R W - radius * sum |R|.  At
the first hidden layer the values form a box that is reached exactly, so the bound is a least value on a box.

Branching: v_j <= relu(U_j) means v_j <= 0 or v_j <= U_j, so an uncertain line is replaced by one of these two, and
nothing else need be known of the domain. With every line decided and the best multipliers the bound is exact.

The same walk with slopes equal to today's activations is the adversary's best response.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.arrays import Array, array_namespace, dot_rows, row_sum, take_rows, to_numpy
from holdfast.bounds.abstraction import IntervalNetwork
from holdfast.bounds.interval import Ranges, first_layer_box, preactivation_ranges
from holdfast.bounds.rounding import RoundingModel


@dataclass(frozen=True)
class Lines:
    """For one layer: multipliers of the lower side, and the lines above the upper side; each (n, H)."""

    alpha: Array
    slope: Array
    intercept: Array

    def take(self, rows: Array) -> Lines:
        """The lines of some rows only."""
        return Lines(take_rows(self.alpha, rows), take_rows(self.slope, rows), take_rows(self.intercept, rows))


@dataclass(frozen=True)
class Relaxation:
    """The box of the first hidden layer's values and the lines of every later hidden layer."""

    low: Array
    high: Array
    lines: tuple[Lines, ...]

    def take(self, rows: Array) -> Relaxation:
        """The relaxation of some rows only."""
        return Relaxation(
            take_rows(self.low, rows), take_rows(self.high, rows), tuple(line.take(rows) for line in self.lines)
        )


@dataclass(frozen=True)
class LinearBound:
    """What the backward walk found: the bound, and where it is attained."""

    bound: Array
    # The corner of the first layer's box at which the linear function is least.
    corner: Array
    # The coefficient on each hidden layer's values, first layer first.
    coefficients: tuple[Array, ...]


def value_box(net: IntervalNetwork, points: Array, rounding: RoundingModel, sizes: Array) -> tuple[Array, Array]:
    """The box of the first hidden layer's values, widened by what rounding may have cost; `sizes` holds max |x|."""
    xp = array_namespace(points)
    low, high = first_layer_box(net, points)
    slack = rounding.layer(0, sizes)
    return xp.maximum(low - slack, 0.0), xp.maximum(high + slack, 0.0)


# What a branch has decided of a neuron's upper side: nothing yet, v <= U, or v <= 0.
FREE, LINEAR, ZERO = 0, 1, 2


def relax(
    net: IntervalNetwork,
    box: tuple[Array, Array],
    rounding: RoundingModel,
    sizes: Array,
    *,
    decided: tuple[Array, ...] | None = None,
    known: tuple[Ranges, ...] | None = None,
    refine: bool = False,
) -> tuple[Relaxation, tuple[Ranges, ...]]:
    """Chords and starting multipliers for the layers after the first, and the ranges they stand on.

    Parameters
    ----------
    decided
        A branch's choices, for each later layer.
    known
        Ranges known from elsewhere, such as from the root of a search.
    refine
        Bound the preactivations from the third hidden layer on by backward walks of their own; dearer and tighter.
    """
    xp = array_namespace(box[0])
    low, high = box
    lines: list[Lines] = []
    all_ranges: list[Ranges] = []
    for i in range(1, net.depth):
        slack = rounding.layer(i, sizes)
        ranges = preactivation_ranges(net, i, low, high).widened(slack)
        if known is not None:
            ranges = ranges.within(known[i - 1])
        if refine and i > 1:
            ranges = ranges.within(backward_ranges(net, i, Relaxation(*box, tuple(lines))).widened(slack))
        line = lines_over(ranges)
        low, high = xp.maximum(ranges.lower_min, 0.0), xp.maximum(ranges.upper_max, 0.0)
        if decided is not None:
            choice = decided[i - 1]
            line = Lines(
                line.alpha,
                xp.where(choice == FREE, line.slope, xp.astype(choice == LINEAR, line.slope.dtype)),
                xp.where(choice == FREE, line.intercept, 0.0),
            )
            high = xp.where(choice == ZERO, low, high)
        lines.append(line)
        all_ranges.append(ranges)
    return Relaxation(*box, tuple(lines)), tuple(all_ranges)


def backward_ranges(net: IntervalNetwork, i: int, relaxation: Relaxation) -> Ranges:
    """The ranges of layer i's two sides, each end by its own backward walk through the layers before."""
    below = net.first(i)
    ends: list[Array] = []
    for side in (-1.0, 1.0):
        weight = net.weights[i] + side * _third_axis(net.weight_radii[i])
        bias = net.biases[i] + side * net.bias_radii[i]
        ends.extend(sign * _least_values(below, relaxation, sign * weight) + bias for sign in (1.0, -1.0))
    return Ranges(*ends)


def _least_values(net: IntervalNetwork, relaxation: Relaxation, rows: Array) -> Array:
    """Bounds (n, m) of many linear functions of the last layer at once; `rows` is (m, H) or (n, m, H)."""
    xp = array_namespace(relaxation.low)
    n = relaxation.low.shape[0]
    coefficients = xp.broadcast_to(rows, (n, *rows.shape[-2:]))
    constant = xp.zeros((n, rows.shape[-2]))
    for i in range(net.depth - 1, 0, -1):
        lines = relaxation.lines[i - 1]
        positive, negative = xp.maximum(coefficients, 0.0), xp.minimum(coefficients, 0.0)
        pulled = positive * lines.alpha[:, None, :] + negative * lines.slope[:, None, :]
        total = xp.sum(xp.abs(pulled), axis=-1)
        lifted = (negative @ lines.intercept[:, :, None])[..., 0]
        constant = constant + lifted + pulled @ net.biases[i] - total * net.bias_radii[i]
        coefficients = pulled @ net.weights[i] - total[..., None] * _third_axis(net.weight_radii[i])
    positive, negative = xp.maximum(coefficients, 0.0), xp.minimum(coefficients, 0.0)
    return (positive @ relaxation.low[:, :, None] + negative @ relaxation.high[:, :, None])[..., 0] + constant


def _third_axis(radius: Array) -> Array:
    """A radius that can be combined with (n, m, H) arrays."""
    return radius if isinstance(radius, float) else radius[:, :, None]


def lines_over(ranges: Ranges) -> Lines:
    """Chords above relu on the upper side's range; multipliers that start at the lower side's likelier sign."""
    xp = array_namespace(ranges.upper_max)
    top = xp.maximum(ranges.upper_max, 0.0)
    bottom = xp.minimum(ranges.upper_min, 0.0)
    width = top - bottom
    slope = xp.where(width > 0.0, top / xp.where(width > 0.0, width, xp.ones_like(width)), xp.zeros_like(width))
    # The least intercept that is right for this slope at both ends, so a rounded slope does no harm.
    intercept = xp.maximum(-slope * bottom, (1.0 - slope) * top)
    above, below = xp.maximum(ranges.lower_max, 0.0), xp.maximum(-ranges.lower_min, 0.0)
    alpha = xp.where(below > 0.0, above / xp.where(above + below > 0.0, above + below, xp.ones_like(above)), 1.0)
    return Lines(alpha, slope, intercept)


def pull_back(net: IntervalNetwork, relaxation: Relaxation, row: Array, offset: Array) -> LinearBound:
    """The backward walk from `row . v_last + offset`; `row` is (n, H) or (H,)."""
    xp = array_namespace(relaxation.low)
    coefficients = xp.broadcast_to(row, (relaxation.low.shape[0], row.shape[-1]))
    walked = [coefficients]
    constant = offset
    for i in range(net.depth - 1, 0, -1):
        lines = relaxation.lines[i - 1]
        positive, negative = xp.maximum(coefficients, 0.0), xp.minimum(coefficients, 0.0)
        pulled = positive * lines.alpha + negative * lines.slope
        total = row_sum(xp.abs(pulled))
        constant = (
            constant + dot_rows(negative, lines.intercept) + pulled @ net.biases[i] - (total * net.bias_radii[i])[:, 0]
        )
        coefficients = pulled @ net.weights[i] - total * net.weight_radii[i]
        walked.append(coefficients)
    corner = xp.where(coefficients > 0.0, relaxation.low, relaxation.high)
    return LinearBound(dot_rows(coefficients, corner) + constant, corner, tuple(walked[::-1]))


@dataclass(frozen=True)
class ForwardWalk:
    """Values seen on the way forwards from a point of the first layer's box."""

    margin: Array
    # For each later hidden layer, the side's preactivation: L_j where its coefficient is > 0, U_j elsewhere.
    preactivations: tuple[Array, ...]
    # The values of every hidden layer, first layer first.
    values: tuple[Array, ...]


def walk_forward(
    net: IntervalNetwork, corner: Array, coefficients: tuple[Array, ...], offset: Array, lines: tuple[Lines, ...] | None
) -> ForwardWalk:
    """Forwards from `corner`, each neuron on the side that its coefficient asks for.

    Without `lines` through relu: a network that is really in Δ, so its margin is an upper bound on the least one.
    With `lines` through the relaxation itself: what the linear bound believes.
    """
    xp = array_namespace(corner)
    values, seen, preactivations = corner, [corner], []
    for i in range(1, net.depth):
        rising = coefficients[i] > 0.0
        reach = row_sum(values) * net.weight_radii[i] + net.bias_radii[i]
        preactivation = values @ net.weights[i].T + net.biases[i] + xp.where(rising, -reach, reach)
        if lines is None:
            values = xp.maximum(preactivation, 0.0)
        else:
            line = lines[i - 1]
            values = xp.where(rising, line.alpha * preactivation, line.slope * preactivation + line.intercept)
        preactivations.append(preactivation)
        seen.append(values)
    margin = dot_rows(xp.broadcast_to(coefficients[-1], values.shape), values) + offset
    return ForwardWalk(margin, tuple(preactivations), tuple(seen))


@dataclass(frozen=True)
class Multipliers:
    """What a linear bound is free to choose, for each later layer: alpha in [0, 1] and stretch >= 1, each (n, H)."""

    alphas: tuple[Array, ...]
    stretches: tuple[Array, ...]

    @classmethod
    def start(cls, relaxation: Relaxation) -> Multipliers:
        """The relaxation's own alphas and no stretch."""
        xp = array_namespace(relaxation.low)
        alphas = tuple(line.alpha for line in relaxation.lines)
        return cls(alphas, tuple(xp.ones_like(alpha) for alpha in alphas))

    def take(self, rows: Array) -> Multipliers:
        """The multipliers of some rows only."""
        return Multipliers(
            tuple(take_rows(alpha, rows) for alpha in self.alphas),
            tuple(take_rows(stretch, rows) for stretch in self.stretches),
        )

    def to_numpy(self) -> Multipliers:
        """The same multipliers as numpy arrays."""
        return Multipliers(tuple(map(to_numpy, self.alphas)), tuple(map(to_numpy, self.stretches)))

    def growth(self) -> Array:
        """By how much the stretches may have magnified rounding errors, (n,)."""
        xp = array_namespace(self.stretches[0])
        growth = xp.max(self.stretches[0], axis=1)
        for stretch in self.stretches[1:]:
            growth = growth * xp.max(stretch, axis=1)
        return growth


def with_multipliers(relaxation: Relaxation, multipliers: Multipliers) -> Relaxation:
    """The same relaxation with other multipliers."""
    lines = tuple(
        Lines(alpha, line.slope * stretch, line.intercept * stretch)
        for line, alpha, stretch in zip(relaxation.lines, multipliers.alphas, multipliers.stretches, strict=True)
    )
    return replace(relaxation, lines=lines)
