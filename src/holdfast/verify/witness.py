"""From an adversary's choices to a concrete counter-model inside Δ, to the last bit.

The adversary chose for each hidden neuron a side t in [-1, 1]; its weights move by t * radius towards the sign of what
they multiply. Rounding goes towards today's parameters, so the result never leaves Δ.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from holdfast.bounds.abstraction import Margin
from holdfast.changes import LayerRadius, move_within
from holdfast.network import Floats, Network


def build_witness(network: Network, radii: list[LayerRadius], margin: Margin, x: Floats, sides: Floats) -> Network:
    """The network whose hidden neurons sit on `sides` (layers side by side), and whose output row is at its worst."""
    weights, biases = [], []
    values, signs = x, np.sign(x)
    layers = np.split(sides, np.cumsum(network.hidden)) if network.hidden else [sides]
    for i, (weight, bias) in enumerate(zip(network.weights[:-1], network.biases[:-1], strict=True)):
        side, radius = layers[i], radii[i]
        weights.append(move_within(weight, np.outer(side * radius.weight, signs), radius.weight))
        biases.append(move_within(bias, side * radius.bias, radius.bias))
        values = weights[-1] @ values + biases[-1]
        values = np.maximum(values, 0.0) if network.activations[i] == "relu" else values
        signs = np.where(values < 0.0, -1.0, 1.0)
    step = np.zeros(network.n_outputs)
    if margin.above >= 0:
        step[margin.above] = -1.0
    if margin.below >= 0:
        step[margin.below] = 1.0
    radius = radii[-1]
    weights.append(move_within(network.weights[-1], np.outer(step * radius.weight, signs), radius.weight))
    biases.append(move_within(network.biases[-1], step * radius.bias, radius.bias))
    return network.with_parameters(weights, biases)


def sides_from_values(network: Network, radii: list[LayerRadius], x: Floats, values: list[Floats]) -> Floats:
    """The sides that produce given hidden values, layer by layer; a value of 0 is reached from the lowest side."""
    before, sides = x, []
    for i, wanted in enumerate(values):
        center = network.weights[i] @ before + network.biases[i]
        reach = radii[i].weight * np.abs(before).sum() + radii[i].bias
        side = np.clip((wanted - center) / reach, -1.0, 1.0) if reach > 0.0 else np.zeros_like(center)
        sides.append(np.where(wanted > 0.0, side, -1.0))
        before = np.maximum(center + sides[-1] * reach, 0.0)
    return np.concatenate(sides)


def exact_margin(network: Network, margin: Margin, x: Floats) -> Fraction:
    """The margin of a network at x in exact arithmetic."""
    values = [Fraction(value) for value in x.tolist()]
    for weight, bias, activation in zip(network.weights[:-1], network.biases[:-1], network.activations, strict=True):
        values = exact_affine(weight, bias, values)
        values = [max(value, Fraction(0)) for value in values] if activation == "relu" else values
    logits = exact_affine(network.weights[-1], network.biases[-1], values)
    above = logits[margin.above] if margin.above >= 0 else Fraction(0)
    below = logits[margin.below] if margin.below >= 0 else Fraction(0)
    return above - below


def exact_affine(weight: Floats, bias: Floats, values: list[Fraction]) -> list[Fraction]:
    """W v + b in fractions."""
    return [
        sum((Fraction(w) * v for w, v in zip(row, values, strict=True) if w), Fraction(b))
        for row, b in zip(weight.tolist(), bias.tolist(), strict=True)
    ]


def flips(network: Network, witness: Network, margin: Margin, x: Floats) -> bool:
    """Whether the witness really breaks the margin at x: in exact arithmetic, and in its own forward pass."""
    predicted = int(witness.predict_index(x[None, :])[0])
    kept = margin.above if network.n_outputs > 1 else int(margin.above == 0)
    if predicted == kept:
        return False
    exact = exact_margin(witness, margin, x)
    return exact <= 0 if margin.strict else exact < 0
