"""Best response: the adversary's cheap search for a network in Δ that breaks the margin.

Fix which neurons are active; then the worst side of every neuron follows from one backward walk. Move there, look which
neurons are active now, and repeat. Two or three rounds find most counter-models there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.arrays import Array, array_namespace
from holdfast.bounds.interval import first_layer_box
from holdfast.bounds.linear import Lines, Relaxation, pull_back, walk_forward
from holdfast.verify.problem import Problem


@dataclass(frozen=True)
class Attack:
    """The least margin that was reached, and each hidden neuron's side there (-1 low, 1 high), layers side by side."""

    margin: Array
    sides: Array


def best_response(problem: Problem, rounds: int = 3) -> Attack:
    """Alternate between activations and sides, starting from today's activations, and keep the best."""
    net, points = problem.net, problem.points
    xp = array_namespace(points)
    low, high = first_layer_box(net, points)
    box = (xp.maximum(low, 0.0), xp.maximum(high, 0.0))
    row, offset = problem.row, problem.offset
    active = _todays_activations(problem, (low + high) * 0.5)
    margin = sides = None
    for _ in range(rounds):
        zero = [xp.zeros_like(mask) for mask in active]
        lines = tuple(Lines(mask, mask, none) for mask, none in zip(active, zero, strict=True))
        walked = pull_back(net, Relaxation(*box, lines), row, offset)
        reached = walk_forward(net, walked.corner, walked.coefficients, offset, None)
        found = xp.concat([xp.where(c > 0.0, -1.0, 1.0) for c in walked.coefficients], axis=1)
        if margin is None:
            margin, sides = reached.margin, found
        else:
            better = reached.margin < margin
            margin = xp.where(better, reached.margin, margin)
            sides = xp.where(better[:, None], found, sides)
        if net.depth == 1:
            break
        active = [xp.astype(preactivation > 0.0, row.dtype) for preactivation in reached.preactivations]
    return Attack(margin, sides)


def _todays_activations(problem: Problem, first: Array) -> list[Array]:
    """Which neurons of the later hidden layers today's network switches on; `first` is its first preactivation."""
    net = problem.net
    xp = array_namespace(first)
    values, active = xp.maximum(first, 0.0), []
    for weight, bias in zip(net.weights[1:], net.biases[1:], strict=True):
        preactivation = values @ weight.T + bias
        active.append(xp.astype(preactivation > 0.0, first.dtype))
        values = xp.maximum(preactivation, 0.0)
    return active
