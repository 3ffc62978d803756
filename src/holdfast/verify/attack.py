"""Best response: the adversary's cheap search for a network in Δ that breaks the margin.

Fix which neurons are active; then the worst side of every neuron follows from one backward walk. Move there, look which
neurons are active now, and repeat. Two or three rounds find most counter-models there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.arrays import Array, array_namespace, take_rows, to_numpy
from holdfast.bounds.interval import first_layer_box
from holdfast.bounds.linear import Lines, Relaxation, pull_back, walk_forward
from holdfast.network import Floats
from holdfast.verify.problem import Problem


@dataclass(frozen=True)
class Attack:
    """The least margin that was reached, and each hidden neuron's side there (-1 low, 1 high), layers side by side."""

    margin: Floats
    sides: NDArray[np.int8]


def best_response(problem: Problem, rounds: int = 3, stop_below: Floats | None = None) -> Attack:
    """Alternate between activations and sides, starting from today's activations, and keep the best.

    Points whose margin falls below `stop_below` are left alone from then on.
    """
    low, high = first_layer_box(problem.net, problem.points)
    xp = array_namespace(low)
    active = _todays_activations(problem, (low + high) * 0.5)
    box = (xp.maximum(low, 0.0), xp.maximum(high, 0.0))
    margin = np.full(len(problem), np.inf)
    sides = np.empty((len(problem), sum(problem.network.hidden)), dtype=np.int8)
    rows = np.arange(len(problem))
    for step in range(1 if problem.net.depth == 1 else rounds):
        lines = tuple(Lines(mask, mask, xp.zeros_like(mask)) for mask in active)
        offset = problem.offset
        walked = pull_back(problem.net, Relaxation(*box, lines), problem.row, offset)
        reached = walk_forward(problem.net, walked.corner, walked.coefficients, offset, None)
        found = to_numpy(reached.margin)
        better = found < margin[rows]
        margin[rows[better]] = found[better]
        lows = np.concatenate([to_numpy(c)[better] > 0.0 for c in walked.coefficients], axis=1)
        sides[rows[better]] = np.where(lows, np.int8(-1), np.int8(1))
        active = [xp.astype(preactivation > 0.0, low.dtype) for preactivation in reached.preactivations]
        if stop_below is not None and step + 1 < rounds:
            keep = np.flatnonzero(found >= stop_below[rows])
            if not keep.size:
                break
            rows, chosen = rows[keep], xp.asarray(keep)
            problem = problem.take(chosen)
            box = (take_rows(box[0], chosen), take_rows(box[1], chosen))
            active = [take_rows(mask, chosen) for mask in active]
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
