"""The batched mathematics runs on a library that offers the array API standard and nothing else, and on torch."""

from itertools import pairwise
from types import SimpleNamespace

import array_api_strict
import numpy as np
import pytest
import torch

import holdfast as hf
from holdfast._arrays import to_numpy
from holdfast._deadline import Deadline
from holdfast.bounds._layers import Layers, forward_error, interval_pass, margins_for
from holdfast.verify._attack import attack
from holdfast.verify._engine import Engine
from holdfast.verify._search import Ranges, Search, descend, proven, raised, walk_back

CHANGES = hf.PlausibleChanges(0.03)
LIBRARIES = pytest.mark.parametrize(
    "convert", [array_api_strict.asarray, torch.tensor], ids=["strict", "torch"]
)


@pytest.fixture(
    params=[
        ((4, 6, 1), ()),
        ((4, 6, 5, 1), ()),
        ((4, 5, 4, 3, 3), ()),
        ((4, 5, 4, 1), ("relu", "identity")),
        ((4, 5, 4, 4, 1), ("identity", "relu", "identity")),
    ],
    ids=str,
)
def case(request):
    rng = np.random.default_rng(2)
    sizes, kinds = request.param
    weights = [rng.normal(size=(b, a)) for a, b in pairwise(sizes)]
    biases = [rng.normal(size=size) for size in sizes[1:]]
    network = hf.Network(weights, biases, activations=kinds or None)
    # A radius for each parameter, so that no shortcut for one number is taken.
    radii = [0.03 * rng.uniform(0.5, 1.0, weight.shape) for weight in weights]
    own = hf.PlausibleChanges(
        radii, biases=[0.03 * rng.uniform(0.5, 1.0, bias.shape) for bias in biases]
    )
    return SimpleNamespace(network=network, own=own, points=rng.normal(size=(40, sizes[0])))


def _same(theirs, ours):
    assert not isinstance(theirs, np.ndarray)
    np.testing.assert_allclose(to_numpy(theirs), ours, atol=1e-11)


def _both(case, convert, changes):
    """Layers and points of numpy, and of the other library."""
    layers = Layers.of(case.network, changes, margins_for(case.network, 0)[0])
    return (layers, case.points), (layers.on(convert), convert(case.points))


@LIBRARIES
def test_interval_pass(case, convert):
    if not case.network.rectified:
        pytest.skip("a pass of twice the width is for ReLU everywhere")
    layers = [Layers.of(case.network, CHANGES, margin) for margin in margins_for(case.network, 0)]
    ours, theirs = interval_pass(layers), interval_pass(layers, convert)
    for points in (np.abs(case.points), case.points):
        _same(theirs(convert(points)), ours(points))
        np.testing.assert_allclose(ours(points)[:, 0], layers[0].least(points), atol=1e-11)


@LIBRARIES
@pytest.mark.parametrize("shape", ["uniform", "own"])
def test_interval_bound_attack_and_sides(case, convert, shape):
    ours, theirs = _both(case, convert, CHANGES if shape == "uniform" else case.own)
    _same(theirs[0].least(theirs[1]), ours[0].least(ours[1]))
    found = [attack(layers, points) for layers, points in (ours, theirs)]
    for ours_, theirs_ in zip(*found, strict=True):
        _same(theirs_, ours_)


@LIBRARIES
@pytest.mark.parametrize("shape", ["uniform", "own"])
def test_relaxation_and_its_multipliers(case, convert, shape):
    pair = _both(case, convert, CHANGES if shape == "uniform" else case.own)
    if len(pair[0][0].hidden) < 2:
        pytest.skip("one hidden layer leaves nothing to relax")
    found = []
    for (layers, points), asarray in zip(pair, (np.asarray, convert), strict=True):
        ranges = Ranges.of(layers, layers.start(points))
        case, shares = ranges.relaxed()
        cutoff = asarray(np.zeros(case.slope.shape[0]))
        best = walk_back(case, shares)
        for _ in range(3):
            shares = raised(case, best, cutoff)
            best = best if shares is None else best.better(walk_back(case, shares))
        again = proven(ranges, *best.multipliers)
        met, _ = layers.reach(descend(layers, ranges.start, best, 4), best.low)
        found.append([ranges.bottom, ranges.top, best.bound, again, met])
    for ours, theirs in zip(*found, strict=True):
        _same(theirs, ours)


@LIBRARIES
def test_search(case, convert):
    """Whole searches end alike: what is closed, what is broken, and between which numbers."""
    pair = _both(case, convert, hf.PlausibleChanges(0.08))
    if len(pair[0][0].hidden) < 2:
        pytest.skip("one hidden layer leaves nothing to search")
    ends = []
    for layers, points in pair:
        n = points.shape[0]
        error = np.asarray(forward_error(pair[0][0].norms, np.abs(case.points).max(axis=1)))
        ends.append(Search(layers, points, np.full(n, np.inf), error, gap=np.full(n, 1e-6)))
        ends[-1].run(10_000, Deadline.after(None))
    ours, theirs = ends
    # Neurons of a first layer without ReLU are not split here: the last stage does that.
    assert ours.open.sum() <= (0 if case.network.activations[0] == "relu" else 2)
    assert (ours.nodes > 1).any()
    np.testing.assert_array_equal(theirs.open, ours.open)
    # Ties between neurons may be broken otherwise, and both answers lie within the gap of the truth.
    np.testing.assert_allclose(theirs.upper, ours.upper, atol=2e-6)
    np.testing.assert_allclose(theirs.lower, ours.lower, atol=2e-6)


def test_the_engine_on_torch(case):
    """`device="cpu"` of the engine itself is torch: the same verdicts, and as good a proof."""
    targets = case.network.predict_index(case.points)
    changes = hf.PlausibleChanges(0.15)
    ours, theirs = (
        Engine(case.network, changes, device).settle(case.points, targets)
        for device in (None, "cpu")
    )
    np.testing.assert_array_equal(theirs.verdict, ours.verdict)
    np.testing.assert_array_equal(theirs.stage, ours.stage)
    np.testing.assert_allclose(theirs.lower, ours.lower, atol=1e-9)
    assert {1, 2} <= set(ours.verdict.tolist())
