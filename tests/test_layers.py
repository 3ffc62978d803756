"""The walker of layers against its definition: sides, boxes and ranges hold for every network in Δ."""

from itertools import pairwise, product

import numpy as np
import pytest

import holdfast as hf
from holdfast.bounds._layers import Layer, Layers, Margin, activated, margins_for
from holdfast.verify._attack import attack, sides
from holdfast.verify._search import Ranges
from holdfast.verify._witness import build_witness
from random_networks import random_points

KINDS = [
    ("relu", "relu"),
    ("relu", "identity"),
    ("identity", "relu"),
    ("identity", "identity"),
    ("relu",),
    ("identity",),
]


def _layer(rng: np.random.Generator, rectified: bool) -> Layer:
    weight, bias = rng.normal(size=(3, 2)), rng.normal(size=3)
    return Layer(
        weight, bias, *rng.uniform(0.0, 0.8, (2, 3, 2)), *rng.uniform(0.0, 0.5, (2, 3)), rectified
    )


def _members(layer: Layer):
    """The layer at every corner of its own box: (weight, bias) pairs."""
    low, high, bias_low, bias_high = layer.ends
    for signs in product((0, 1), repeat=low.shape[1] + 1):
        up = np.array(signs[:-1], dtype=bool)
        yield np.where(up, high, low), bias_high if signs[-1] else bias_low


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rectified", [True, False])
def test_sides_are_the_least_and_greatest_of_all_networks(seed, rectified):
    """Neurons own their parameters, so that the corners of a row's box say all."""
    rng = np.random.default_rng(seed)
    layer, values = _layer(rng, rectified), rng.normal(size=(10, 2))
    values = np.abs(values) if rectified else values
    reached = np.stack([values @ weight.T + bias for weight, bias in _members(layer)])
    below, above = layer.sides(values)
    np.testing.assert_allclose(below, reached.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(above, reached.max(axis=0), atol=1e-12)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("rectified", [True, False])
def test_a_box_of_values_is_bounded_exactly(seed, rectified):
    """L is concave and U convex, with kinks where a value is 0: their extremes lie at ends and 0, value by value."""
    rng = np.random.default_rng(seed)
    layer = _layer(rng, rectified)
    low, high = np.sort(rng.normal(size=(2, 2)), axis=0)
    low, high = (np.abs(low), np.abs(low) + high - low) if rectified else (low, high)
    places = [[a, b, *([0.0] if a < 0.0 < b else [])] for a, b in zip(low, high, strict=True)]
    below, above = layer.sides(np.array(list(product(*places))))
    expected = below.min(axis=0), above.min(axis=0), above.max(axis=0)
    for ours, theirs in zip(layer.over(low[None], high[None]), expected, strict=True):
        np.testing.assert_allclose(ours[0], theirs, atol=1e-12)


@pytest.mark.parametrize("kinds", KINDS, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_no_network_leaves_the_ranges_or_undercuts_the_bounds(kinds, seed):
    rng = np.random.default_rng([seed, len(kinds)])
    sizes = [3, *(int(n) for n in rng.integers(2, 6, len(kinds))), 1]
    weights = [rng.normal(size=(b, a)) for a, b in pairwise(sizes)]
    network = hf.Network(weights, [rng.normal(size=size) for size in sizes[1:]], activations=kinds)
    sides = [0.3 * rng.random((2, *part.shape)) for part in (*network.weights, *network.biases)]
    changes = hf.PlausibleChanges(sides[: len(weights)], biases=sides[len(weights) :])
    points = random_points(rng, 5, 3)
    layers = Layers.of(network, changes, margins_for(network, 1)[0])
    least, start = layers.least(points), layers.start(points)
    ranges = Ranges.of(layers, start) if len(layers.hidden) > 1 else None
    for other in changes.sample(network, 200, seed=seed):
        values = points
        for i, kind in enumerate(kinds):
            z = values @ other.weights[i].T + other.biases[i]
            if i == 0:
                assert ((start.low <= z) & (z <= start.high)).all()
            elif i == 1 and ranges is not None:
                # The range is of U, which z does not exceed; without a ReLU it is of z itself.
                above = layers.hidden[1].sides(values)[1] if kind == "relu" else z
                assert ((ranges.bottom <= above) & (above <= ranges.top)).all()
            values = np.maximum(z, 0.0) if kind == "relu" else z
        assert (other.logits(points)[:, 0] >= least - 1e-12).all()


@pytest.mark.parametrize("kinds", KINDS[:4], ids=str)
def test_a_margin_that_is_reached_is_that_of_a_network_in_the_changes(kinds):
    """`reach` on sides is what the counter-model built on those sides computes."""
    rng = np.random.default_rng(7)
    network = hf.Network(
        [rng.normal(size=shape) for shape in ((4, 3), (3, 4), (1, 3))],
        [rng.normal(size=n) for n in (4, 3, 1)],
        activations=kinds,
    )
    changes, margin = hf.PlausibleChanges(0.1), margins_for(network, 1)[0]
    layers = Layers.of(network, changes, margin)

    for x in rng.normal(size=(20, 3)):
        bottom, top = layers.hidden[0].sides(x[None])
        corner, low = bottom + rng.random(bottom.shape) * (top - bottom), rng.random((1, 3)) < 0.5
        chosen = sides(layers, x[None], corner, low)[0]
        witness = build_witness(network, changes.layer_radii(network), margin, x, chosen)
        assert changes.contains(network, witness)
        assert witness.logits(x[None])[0, 0] == pytest.approx(
            layers.reach(activated(corner, layers.relus[0]), low)[0][0], abs=1e-9
        )


@pytest.mark.parametrize("weight", [1.0, -1.0])
def test_a_neuron_that_is_off_at_a_point_is_wanted_on_a_side_all_the_same(weight):
    """The counter-model has to be the worst at points around it, where the neuron is on."""
    network = hf.Network([[[1.0]], [[weight]]], [[-5.0], [1.0]])
    layers = Layers.of(network, hf.PlausibleChanges(0.1), Margin.of(network, 0, -1))
    _, wanted = attack(layers, np.array([[1.0]]))
    assert wanted.tolist() == [[-weight]]
