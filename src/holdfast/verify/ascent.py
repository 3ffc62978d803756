"""The best multipliers of a linear bound, by projected ascent with Polyak's step.

The bound is concave in the multipliers alpha, and alpha_ij's derivative is coefficient_ij times the lower side's
preactivation, seen on a walk forwards through the relaxation from the corner at which the bound is attained.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.arrays import Array, array_namespace, row_sum
from holdfast.bounds.linear import Relaxation, pull_back, walk_forward, with_alphas
from holdfast.verify.problem import Problem


@dataclass(frozen=True)
class Tightened:
    """The best bound with its multipliers, and the least margin met on the way with the network that has it."""

    bound: Array
    alphas: tuple[Array, ...]
    margin: Array
    # The first layer's values and the later neurons' sides at that margin.
    corner: Array
    sides: tuple[Array, ...]
    # How much each uncertain line costs at the bound's corner: the later layers side by side.
    looseness: Array


def tighten(problem: Problem, relaxation: Relaxation, upper: Array, rounds: int) -> Tightened:
    """`rounds` steps upwards; `upper` is the least margin known so far, which sets the length of the steps."""
    net, row, offset = problem.net, problem.row, problem.offset
    xp = array_namespace(relaxation.low)
    alphas = [line.alpha for line in relaxation.lines]
    best: Tightened | None = None
    average, damping = relaxation.low * 0.0, 1.0
    for step in range(rounds):
        current = with_alphas(relaxation, alphas)
        walked = pull_back(net, current, row, offset)
        believed = walk_forward(net, walked.corner, walked.coefficients, offset, current.lines)
        average = average + (walked.corner - average) / (step + 1)
        # A least value inside the box is met by the average of the corners, never by one of them.
        start = average if step % 2 else walked.corner
        reached = walk_forward(net, start, walked.coefficients, offset, None)
        sides = tuple(xp.where(c > 0.0, -1.0, 1.0) for c in walked.coefficients[1:])
        candidate = Tightened(
            walked.bound,
            tuple(alphas),
            reached.margin,
            start,
            sides,
            _looseness(current, walked.coefficients, believed),
        )
        best = candidate if best is None else _merge(best, candidate)
        upper = xp.minimum(upper, reached.margin)
        if step + 1 < rounds:
            slopes = [
                xp.where(c > 0.0, c * z, 0.0)
                for c, z in zip(walked.coefficients[1:], believed.preactivations, strict=True)
            ]
            gap = xp.maximum(upper - walked.bound, 0.0)
            alphas = _ascend(alphas, slopes, damping * gap)
            damping *= 0.9
    assert best is not None
    return best


def _ascend(alphas: list[Array], slopes: list[Array], gap: Array) -> list[Array]:
    """One step of length gap / |slope|^2 along the slope, kept inside [0, 1]."""
    xp = array_namespace(gap)
    useful = [
        xp.where(((a >= 1.0) & (s > 0.0)) | ((a <= 0.0) & (s < 0.0)), 0.0, s)
        for a, s in zip(alphas, slopes, strict=True)
    ]
    square = sum(row_sum(s * s) for s in useful)
    length = gap[:, None] / xp.where(square > 0.0, square, xp.ones_like(square))
    return [xp.minimum(xp.maximum(a + length * s, 0.0), 1.0) for a, s in zip(alphas, useful, strict=True)]


def _looseness(relaxation: Relaxation, coefficients: tuple[Array, ...], believed: object) -> Array:
    """|c_j| (line above relu - relu) at the corner, for the neurons whose upper side is in use."""
    xp = array_namespace(relaxation.low)
    parts = []
    for i, line in enumerate(relaxation.lines):
        preactivation = believed.preactivations[i]  # type: ignore[attr-defined]
        gap = line.slope * preactivation + line.intercept - xp.maximum(preactivation, 0.0)
        parts.append(xp.where(coefficients[i + 1] < 0.0, -coefficients[i + 1] * gap, 0.0))
    return xp.concat(parts, axis=1)


def _merge(old: Tightened, new: Tightened) -> Tightened:
    """Row by row the higher bound and the lower margin."""
    xp = array_namespace(old.bound)
    higher, lower = new.bound > old.bound, new.margin < old.margin

    def choose(mask: Array, a: Array, b: Array) -> Array:
        return xp.where(mask[:, None], a, b)

    return Tightened(
        xp.where(higher, new.bound, old.bound),
        tuple(choose(higher, a, b) for a, b in zip(new.alphas, old.alphas, strict=True)),
        xp.where(lower, new.margin, old.margin),
        choose(lower, new.corner, old.corner),
        tuple(choose(lower, a, b) for a, b in zip(new.sides, old.sides, strict=True)),
        choose(higher, new.looseness, old.looseness),
    )
