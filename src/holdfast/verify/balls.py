"""Changes in a p-norm other than inf: exact for linear models, sound bounds and a search for others.

A p-ball of parameters moves a neuron by at most  radius * ||(v, 1)||_q  with 1/p + 1/q = 1, so interval propagation
goes through with that reach. A margin of two classes shares one ball between two rows, and moves 2^(1/q) times as much.

The search linearises: at the current network the steepest change inside the ball is, layer by layer, a rank-one matrix
made of backward signals and forward values. Walk there, linearise again, keep the best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from holdfast.bounds.abstraction import IntervalNetwork, Margin
from holdfast.bounds.rounding import RoundingModel
from holdfast.changes import PlausibleChanges
from holdfast.network import Floats, Network

# q-norms take powers and roots; the allowance for rounding is widened by this much.
_POWER_SAFETY = 16.0


def ball_lower(network: Network, changes: PlausibleChanges, points: Floats, margins: Sequence[Margin]) -> Floats:
    """A lower bound on each margin over the p-ball, (n, margins), rounding included; exact without hidden layers."""
    q = changes.dual_norm
    radii = changes.layer_radii(network)
    low = high = points
    for i, (weight, bias) in enumerate(zip(network.weights[:-1], network.biases[:-1], strict=True)):
        reach = radii[i].weight * _extended_norm(np.maximum(np.abs(low), np.abs(high)), q, changes.biases)
        positive, negative = np.maximum(weight, 0.0).T, np.minimum(weight, 0.0).T
        low, high = low @ positive + high @ negative + bias - reach, high @ positive + low @ negative + bias + reach
        if network.activations[i] == "relu":
            low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    reach = radii[-1].weight * _extended_norm(np.maximum(np.abs(low), np.abs(high)), q, changes.biases)
    error = ball_error(network, changes, points)
    bounds = []
    for margin in margins:
        positive, negative = np.maximum(margin.row, 0.0), np.minimum(margin.row, 0.0)
        shared = margin.count ** (0.0 if q == math.inf else 1.0 / q)
        bounds.append(low @ positive + high @ negative + margin.offset - shared * reach[:, 0] - error)
    return np.stack(bounds, axis=1)


def ball_error(network: Network, changes: PlausibleChanges, points: Floats) -> Floats:
    """An allowance for rounding, (n,): that of the box with the same radius, which contains the ball."""
    net = IntervalNetwork.of(network, PlausibleChanges(changes.delta, biases=changes.biases))
    sizes = np.abs(points).max(axis=1)
    return np.asarray(_POWER_SAFETY * RoundingModel.of(network, net).output(sizes))


def _extended_norm(values: Floats, q: float, biases: bool) -> Floats:
    """||(v, 1)||_q of each row as a column; without the 1 where biases stay."""
    extended = np.concatenate([values, np.ones((values.shape[0], 1))], axis=1) if biases else values
    return np.asarray(np.linalg.norm(extended, ord=q, axis=1, keepdims=True))


def search_ball(
    network: Network, changes: PlausibleChanges, x: Floats, margin: Margin, rounds: int = 8
) -> Network | None:
    """A network inside the ball that breaks the margin at x by more than rounding, or None."""
    clear = -4.0 * float(ball_error(network, changes, x[None, :])[0])
    current = network
    for _ in range(rounds):
        signals, values = _backward(current, margin, x)
        current = _steepest(network, changes, signals, values)
        if margin.of_logits(current.logits(x[None, :]))[0] < clear and changes.contains(network, current):
            return current
    return None


def _backward(network: Network, margin: Margin, x: Floats) -> tuple[list[Floats], list[Floats]]:
    """The derivative of the margin by each layer's preactivations, and the values each layer reads."""
    values, masks = [x], []
    for weight, bias, activation in zip(network.weights[:-1], network.biases[:-1], network.activations, strict=True):
        preactivation = weight @ values[-1] + bias
        relu = activation == "relu"
        masks.append(preactivation > 0.0 if relu else np.ones(preactivation.shape, dtype=bool))
        values.append(np.maximum(preactivation, 0.0) if relu else preactivation)
    signal = np.zeros(network.n_outputs)
    if margin.above >= 0:
        signal[margin.above] += 1.0
    if margin.below >= 0:
        signal[margin.below] -= 1.0
    signals = [signal]
    for weight, mask in zip(network.weights[:0:-1], masks[::-1], strict=True):
        signals.append((signals[-1] @ weight) * mask)
    return signals[::-1], values


def _steepest(network: Network, changes: PlausibleChanges, signals: list[Floats], values: list[Floats]) -> Network:
    """Today's network moved to the edge of the ball, a hair inside, against the gradient signals x values."""
    radii = changes.layer_radii(network)
    ones = np.ones(1) if changes.biases else np.zeros(1)
    gradients = [np.outer(s, np.concatenate([v, ones])) for s, v in zip(signals, values, strict=True)]
    groups = [[i] for i in range(len(gradients))] if changes.per_layer else [list(range(len(gradients)))]
    weights, biases = list(network.weights), list(network.biases)
    for group in groups:
        flat = np.concatenate([gradients[i].ravel() for i in group])
        step = -radii[group[0]].weight * (1.0 - 1e-12) * _dual_direction(flat, changes.norm)
        for i, part in zip(group, np.split(step, np.cumsum([gradients[i].size for i in group])[:-1]), strict=True):
            moved = part.reshape(gradients[i].shape)
            weights[i], biases[i] = network.weights[i] + moved[:, :-1], network.biases[i] + moved[:, -1]
    return network.with_parameters(weights, biases)


def _dual_direction(gradient: Floats, p: float) -> Floats:
    """The point of the unit p-ball at which the gradient's inner product is greatest."""
    if not gradient.any():
        return np.zeros_like(gradient)
    if p == 1.0:
        direction = np.zeros_like(gradient)
        steepest = np.abs(gradient).argmax()
        direction[steepest] = np.sign(gradient[steepest])
        return direction
    scaled = np.abs(gradient) / np.abs(gradient).max()
    direction = np.sign(gradient) * scaled ** (1.0 / (p - 1.0))
    return np.asarray(direction / np.linalg.norm(direction, p))
