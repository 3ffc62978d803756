"""Networks with hidden layers that have no activation: interval bounds and a search.

After such a layer values may be negative, so a weight's worst change depends on the sign of what it multiplies:

    w v - radius |v|  is least at one of the ends of v's range, for each weight on its own.

With one hidden layer the bound is exact. Deeper, a row that it does not prove and that the search does not break stays
UNKNOWN.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds.abstraction import IntervalNetwork, Margin, margins_for
from holdfast.bounds.rounding import RoundingModel
from holdfast.changes import LayerRadius, PlausibleChanges
from holdfast.network import Floats, Network
from holdfast.verify.problem import WITNESS_SAFETY
from holdfast.verify.verdict import NOT_ROBUST, ROBUST, Outcome, Stage

_BLOCK = 512
_ROUNDS = 4


def run_identity(
    network: Network,
    changes: PlausibleChanges,
    points: Floats,
    targets: NDArray[np.intp],
    *,
    deadline: float | None = None,
    bounds_only: bool = False,
) -> Outcome:
    """Forward pass, interval bound and search under the box `changes`."""
    outcome = Outcome.empty(points.shape[0])
    radii = changes.layer_radii(network)
    error_model = RoundingModel.of(network, IntervalNetwork.of(network, changes))
    for target in np.unique(targets):
        margins = margins_for(network, int(target))
        rows = np.flatnonzero(targets == target)
        for start in range(0, rows.shape[0], _BLOCK):
            if deadline is not None and time.monotonic() > deadline:
                return outcome
            block = rows[start : start + _BLOCK]
            error = np.asarray(error_model.output(np.abs(points[block]).max(axis=1)))
            _settle(network, radii, margins, points, block, error, outcome, bounds_only)
    return outcome


def _settle(
    network: Network,
    radii: list[LayerRadius],
    margins: list[Margin],
    points: Floats,
    block: NDArray[np.intp],
    error: Floats,
    outcome: Outcome,
    bounds_only: bool,
) -> None:
    logits = network.logits(points[block])
    today = np.stack([margin.of_logits(logits) for margin in margins], axis=1).min(axis=1)
    outcome.upper[block] = today + error
    lower = identity_lower(network, radii, margins, points[block]) - error[:, None]
    outcome.lower[block] = lower.min(axis=1)
    broken = today < -error
    outcome.settle(block[broken], NOT_ROBUST, Stage.FORWARD)
    outcome.settle(block[~broken & (outcome.lower[block] > 0.0)], ROBUST, Stage.INTERVAL)
    for k, margin in enumerate([] if bounds_only else margins):
        local = np.flatnonzero((outcome.verdict[block] == 0) & (lower[:, k] <= 0.0))
        if local.size:
            reached, sides = _search(network, radii, margin, points[block[local]])
            rows = block[local]
            outcome.upper[rows] = np.minimum(outcome.upper[rows], reached + error[local])
            found = reached < -WITNESS_SAFETY * error[local]
            outcome.settle(rows[found], NOT_ROBUST, Stage.ATTACK)
            outcome.adversaries.add(rows[found], margin, sides[found])


def identity_lower(network: Network, radii: list[LayerRadius], margins: Sequence[Margin], points: Floats) -> Floats:
    """A lower bound on each margin, (n, margins), before any allowance for rounding."""
    low = high = points
    for i, (weight, bias) in enumerate(zip(network.weights[:-1], network.biases[:-1], strict=True)):
        radius, bias_radius = radii[i]
        least = _least(weight, low, high, radius) + bias - bias_radius
        most = -_least(-weight, low, high, radius) + bias + bias_radius
        relu = network.activations[i] == "relu"
        low, high = (np.maximum(least, 0.0), np.maximum(most, 0.0)) if relu else (least, most)
    rows = np.stack([margin.row for margin in margins])
    counts = np.array([margin.count for margin in margins])
    offsets = np.array([margin.offset for margin in margins]) - counts * radii[-1].bias
    return _least(rows, low, high, counts[:, None] * radii[-1].weight) + offsets


def _least(weight: Floats, low: Floats, high: Floats, radius: float | Floats) -> Floats:
    """min over v in [low, high] of W v - radius ||v||_1, (n, rows of W)."""
    ends = [weight * value[:, None, :] - radius * np.abs(value)[:, None, :] for value in (low, high)]
    return np.asarray(np.minimum(*ends).sum(axis=2))


def _search(network: Network, radii: list[LayerRadius], margin: Margin, points: Floats) -> tuple[Floats, Floats]:
    """Best response on sides: walk forwards on the sides chosen so far, then choose them anew from the gradient."""
    hidden = network.hidden
    sides = [np.zeros((points.shape[0], size)) for size in hidden]
    best, best_sides = np.full(points.shape[0], np.inf), np.zeros((points.shape[0], sum(hidden)))
    for _ in range(_ROUNDS):
        values, masks = [points], []
        for i, (weight, bias) in enumerate(zip(network.weights[:-1], network.biases[:-1], strict=True)):
            reach = radii[i].weight * np.abs(values[-1]).sum(axis=1, keepdims=True) + radii[i].bias
            preactivation = values[-1] @ weight.T + bias + sides[i] * reach
            relu = network.activations[i] == "relu"
            masks.append(preactivation > 0.0 if relu else np.ones(preactivation.shape, dtype=bool))
            values.append(np.maximum(preactivation, 0.0) if relu else preactivation)
        reach = radii[-1].weight * np.abs(values[-1]).sum(axis=1) + radii[-1].bias
        reached = values[-1] @ margin.row + margin.offset - margin.count * reach
        better = reached < best
        best = np.where(better, reached, best)
        best_sides = np.where(better[:, None], np.concatenate(sides, axis=1), best_sides)
        signal = margin.row - margin.count * radii[-1].weight * _signs(values[-1])
        for i in range(len(hidden) - 1, -1, -1):
            sides[i] = np.where(signal > 0.0, -1.0, 1.0)
            pulled = signal * masks[i]
            total = -np.abs(pulled).sum(axis=1, keepdims=True) * radii[i].weight
            signal = pulled @ network.weights[i] + total * _signs(values[i])
    return best, best_sides


def _signs(values: Floats) -> Floats:
    return np.where(values < 0.0, -1.0, 1.0)
