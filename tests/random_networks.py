"""Random networks, points and changes with everything in them that has ever broken a verifier."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from holdfast import Network, PlausibleChanges


def random_network(
    rng: np.random.Generator,
    features: int,
    hidden: Sequence[int],
    outputs: int,
    *,
    awkward: bool = True,
) -> Network:
    """A network with weights of order one; `awkward` adds dead, saturated and duplicated neurons and zero weights."""
    sizes = [features, *hidden, outputs]
    weights = [
        rng.normal(0.0, 1.2 / np.sqrt(n_in), (n_out, n_in)) for n_in, n_out in pairwise(sizes)
    ]
    biases = [rng.normal(0.0, 0.3, n_out) for n_out in sizes[1:]]
    if awkward:
        for layer in range(len(hidden)):
            _make_awkward(rng, weights, biases, layer)
    return Network(weights, biases)


def _make_awkward(
    rng: np.random.Generator, weights: list[np.ndarray], biases: list[np.ndarray], layer: int
) -> None:
    """With some luck, one neuron of the layer becomes dead, saturated, a copy of another, or loses weights."""
    neuron, other = rng.integers(0, len(biases[layer]), 2)
    kind = rng.integers(0, 8)
    if kind == 0:
        biases[layer][neuron] = -20.0
    elif kind == 1:
        biases[layer][neuron] = 8.0
    elif kind == 2:
        weights[layer][neuron], biases[layer][neuron] = weights[layer][other], biases[layer][other]
    elif kind == 3:
        weights[layer][rng.random(weights[layer].shape) < 0.4] = 0.0
    elif kind == 4:
        weights[layer][neuron], biases[layer][neuron] = 0.0, 0.0


def random_points(rng: np.random.Generator, n: int, features: int) -> np.ndarray:
    """Points of both signs, some with zeros, some of [0, 1] as scaled data are."""
    kind = rng.integers(0, 3)
    if kind == 0:
        return rng.uniform(0.0, 1.0, (n, features))
    points = rng.normal(0.0, 1.0, (n, features))
    if kind == 1:
        points[rng.random(points.shape) < 0.3] = 0.0
    return points


def random_changes(rng: np.random.Generator, layers: int) -> PlausibleChanges:
    """A box: one radius or one for each layer (some of them zero), with or without the biases."""
    delta = 10.0 ** rng.uniform(-3.0, -0.7)
    biases = bool(rng.random() < 0.75)
    if rng.random() < 0.65:
        return PlausibleChanges(delta, biases=biases)
    radii = delta * rng.uniform(0.3, 2.0, layers) * (rng.random(layers) < 0.7)
    radii[rng.integers(0, layers)] = delta
    return PlausibleChanges(tuple(radii.tolist()), biases=biases)


def shift_last_bias(network: Network, output: int, amount: float) -> Network:
    """The same network with one output's bias moved."""
    last = network.biases[-1].copy()
    last[output] += amount
    return Network(network.weights, [*network.biases[:-1], last], network.classes)
