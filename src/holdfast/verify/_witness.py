"""Turn an adversary's choices into a counter-model that is exactly inside Δ.

The adversary chooses for each hidden neuron a side t in [-1, 1]: its parameters move by that share of their radii.
For t < 0 a parameter moves down if it multiplies a positive value, and up if it multiplies a negative one. Rounding
goes towards today's parameters, so the result never leaves Δ.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from holdfast._network import Floats, Network
from holdfast.bounds._layers import Margin, activated
from holdfast.changes._parameters import LayerRadius, Radius, down_up, move_within


def build_witness(
    network: Network,
    radii: list[LayerRadius],
    margin: Margin,
    x: Floats,
    sides: Floats,
) -> Network:
    """The network with hidden neurons on `sides` (layers side by side) and the worst output row.

    A value of 0 counts as positive.
    """
    weights, biases = [], []
    values = x
    every = np.append(sides, -margin.signs(network.n_outputs))
    steps = np.split(every, np.cumsum(network.hidden, dtype=np.intp))
    kinds = (*network.activations, "")
    for weight, bias, step, radius, kind in zip(
        network.weights, network.biases, steps, radii, kinds, strict=True
    ):
        signs = np.where(values < 0.0, -1.0, 1.0)
        weights.append(_moved(weight, step[:, None] * signs, radius.weight))
        biases.append(_moved(bias, step, radius.bias))
        values = activated(weights[-1] @ values + biases[-1], kind == "relu")
    return network.with_parameters(weights, biases)


def _moved(parameters: Floats, share: Floats, radius: Radius) -> Floats:
    down, up = down_up(radius)
    return move_within(parameters, share * np.where(share < 0.0, down, up), radius)


def exact_margin(network: Network, margin: Margin, x: Floats) -> Fraction:
    """The margin of a network at x in exact arithmetic."""
    values = _fractions(x)
    for weight, bias, activation in zip(
        network.weights, network.biases, (*network.activations, ""), strict=True
    ):
        values = _fractions(weight) @ values + _fractions(bias)
        values = np.maximum(values, _fractions(0.0)) if activation == "relu" else values
    exact: Fraction = _fractions(margin.signs(network.n_outputs)) @ values
    return exact


_fractions = np.vectorize(Fraction, otypes=[object])


def flips(witness: Network, margin: Margin, x: Floats) -> bool:
    """Whether the witness breaks the margin at x, in exact arithmetic and in its own forward pass."""
    predicted = int(witness.predict_index(x[None, :])[0])
    kept = margin.above if witness.n_outputs > 1 else int(margin.above == 0)
    if predicted == kept:
        return False
    exact = exact_margin(witness, margin, x)
    return exact <= 0 if margin.strict else exact < 0
