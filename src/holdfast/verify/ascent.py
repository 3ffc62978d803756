"""The best multipliers of a linear bound, by projected ascent with Polyak's step.

The bound is concave in the multipliers of a layer, and a multiplier's derivative is the coefficient times what it
multiplies: the lower side's preactivation for alpha, the line's value for stretch, both seen on a walk forwards through
the relaxation from the corner at which the bound is attained.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.arrays import Array, array_namespace, row_sum
from holdfast.bounds.linear import (
    ForwardWalk,
    LinearBound,
    Multipliers,
    Relaxation,
    pull_back,
    walk_forward,
    with_multipliers,
)
from holdfast.verify.problem import Problem

_MOST_STRETCH = 1e3


@dataclass(frozen=True)
class Tightened:
    """The best bound with its multipliers, and the least margin met on the way with the network that has it."""

    # What stretched lines add to the rounding error is already taken off.
    bound: Array
    multipliers: Multipliers
    margin: Array
    # The first layer's values and the later neurons' sides at that margin.
    corner: Array
    sides: tuple[Array, ...]
    # How much each uncertain line costs at the bound's corner: the later layers side by side.
    looseness: Array


def tighten(problem: Problem, relaxation: Relaxation, multipliers: Multipliers, upper: Array, rounds: int) -> Tightened:
    """`rounds` steps upwards; `upper` is the least margin known so far, which sets the length of the steps."""
    net, row, offset, error = problem.net, problem.row, problem.offset, problem.error
    xp = array_namespace(relaxation.low)
    best: Tightened | None = None
    average, damping = relaxation.low * 0.0, 1.0
    for step in range(rounds):
        current = with_multipliers(relaxation, multipliers)
        walked = pull_back(net, current, row, offset)
        believed = walk_forward(net, walked.corner, walked.coefficients, offset, current.lines)
        average = average + (walked.corner - average) / (step + 1)
        # A least value inside the box is met by the average of the corners, never by one of them.
        start = average if step % 2 else walked.corner
        reached = walk_forward(net, start, walked.coefficients, offset, None)
        candidate = Tightened(
            walked.bound - error * (multipliers.growth() - 1.0),
            multipliers,
            reached.margin,
            start,
            tuple(1.0 - 2.0 * xp.astype(c > 0.0, c.dtype) for c in walked.coefficients[1:]),
            _looseness(current, walked, believed),
        )
        best = candidate if best is None else _merge(best, candidate)
        upper = xp.minimum(upper, reached.margin)
        if step + 1 < rounds:
            gap = xp.maximum(upper - walked.bound, 0.0) * damping
            multipliers = _ascend(relaxation, multipliers, walked, believed, gap)
            damping *= 0.9
    assert best is not None
    return best


def _ascend(
    relaxation: Relaxation, multipliers: Multipliers, walked: LinearBound, believed: ForwardWalk, gap: Array
) -> Multipliers:
    """One step of length gap / |slope|^2 along the slope, kept inside the multipliers' ranges."""
    xp = array_namespace(gap)
    alpha_slopes, stretch_slopes = [], []
    for i, line in enumerate(relaxation.lines):
        coefficient, seen = walked.coefficients[i + 1], believed.preactivations[i]
        alpha_slopes.append(xp.where(coefficient > 0.0, coefficient * seen, 0.0))
        stretch_slopes.append(xp.where(coefficient < 0.0, coefficient * (line.slope * seen + line.intercept), 0.0))
    alpha_slopes = [_inside(s, a, 0.0, 1.0) for s, a in zip(alpha_slopes, multipliers.alphas, strict=True)]
    stretch_slopes = [
        _inside(s, a, 1.0, _MOST_STRETCH) for s, a in zip(stretch_slopes, multipliers.stretches, strict=True)
    ]
    square = sum(row_sum(slope * slope) for slope in (*alpha_slopes, *stretch_slopes))
    length = gap[:, None] / xp.where(square > 0.0, square, xp.ones_like(square))
    return Multipliers(
        tuple(
            xp.minimum(xp.maximum(a + length * s, 0.0), 1.0)
            for a, s in zip(multipliers.alphas, alpha_slopes, strict=True)
        ),
        tuple(
            xp.minimum(xp.maximum(a + length * s, 1.0), _MOST_STRETCH)
            for a, s in zip(multipliers.stretches, stretch_slopes, strict=True)
        ),
    )


def _inside(slope: Array, value: Array, low: float, high: float) -> Array:
    """The slope without the parts that would leave the range at once."""
    xp = array_namespace(slope)
    return xp.where(((value >= high) & (slope > 0.0)) | ((value <= low) & (slope < 0.0)), 0.0, slope)


def _looseness(relaxation: Relaxation, walked: LinearBound, believed: ForwardWalk) -> Array:
    """|c_j| (line above relu - relu) at the corner, for the neurons whose upper side is in use."""
    xp = array_namespace(relaxation.low)
    parts = []
    for i, line in enumerate(relaxation.lines):
        coefficient, seen = walked.coefficients[i + 1], believed.preactivations[i]
        gap = line.slope * seen + line.intercept - xp.maximum(seen, 0.0)
        parts.append(xp.where(coefficient < 0.0, -coefficient * gap, 0.0))
    return xp.concat(parts, axis=1)


def _merge(old: Tightened, new: Tightened) -> Tightened:
    """Row by row the higher bound and the lower margin."""
    xp = array_namespace(old.bound)
    higher, lower = new.bound > old.bound, new.margin < old.margin

    def choose(mask: Array, ours: tuple[Array, ...], theirs: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(xp.where(mask[:, None], a, b) for a, b in zip(ours, theirs, strict=True))

    return Tightened(
        xp.where(higher, new.bound, old.bound),
        Multipliers(
            choose(higher, new.multipliers.alphas, old.multipliers.alphas),
            choose(higher, new.multipliers.stretches, old.multipliers.stretches),
        ),
        xp.where(lower, new.margin, old.margin),
        choose(lower, (new.corner,), (old.corner,))[0],
        choose(lower, new.sides, old.sides),
        choose(higher, (new.looseness,), (old.looseness,))[0],
    )
