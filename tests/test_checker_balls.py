"""The checker's proofs about balls: no tree may prove more than holds, and every ROBUST row has one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import holdfast as hf
from holdfast import checker
from holdfast.bounds._balls import least_margins, refine, worst
from holdfast.bounds._layers import Margin, margins_for
from holdfast.promises import certificate
from holdfast.promises._certificate import plain_model
from holdfast.verify._witness import exact_margin
from random_networks import random_network, random_points

SHAPES = [(), (3,), (4,), (3, 3), (4, 2), (3, 3, 2), (2, 2, 2, 2)]


def _random_changes(rng: np.random.Generator, layers: int, norm: float) -> hf.PlausibleChanges:
    """One radius, or one for each layer, some of them zero; large enough for neurons to change sides."""
    size = float(rng.choice([0.01, 0.1, 0.3, 1.0]))
    radii = size * rng.uniform(0.3, 1.5, layers) * (rng.random(layers) < 0.8)
    radii[rng.integers(layers)] = size
    delta = tuple(radii.tolist()) if rng.random() < 0.4 else size
    return hf.PlausibleChanges(delta, norm=norm, biases=bool(rng.random() < 0.7))


def _random_tree(
    rng: np.random.Generator,
    cell: list[tuple[float, float]],
    shared: bool,
    one: bool,
    depth: int = 3,
):
    """Any tree with any prices: most prove little, and none may prove too much."""
    open_ = [j for j, (low, high) in enumerate(cell) if low < high]
    if depth and open_ and (shared or one) and rng.random() < 0.6:
        j = int(rng.choice(open_))
        low, high = cell[j]
        at = float(low + (high - low) * rng.choice([0.1, 0.5, 0.9, rng.uniform(0.01, 0.99)]))
        halves = [[*cell[:j], ends, *cell[j + 1 :]] for ends in ((low, at), (at, high))]
        below, above = (_random_tree(rng, half, shared, one, depth - 1) for half in halves)
        return {"cut": j, "at": at, "below": below, "above": above}
    if len(cell) == 1 and not one:
        # Without hidden layers there is nothing to put a price on.
        return {}
    price, other = (10.0 ** rng.uniform(-4.0, 1.0, 2)).tolist()
    kind = rng.integers(3)
    if kind == 0:
        return {}
    if kind == 1 and one:
        return {"prices": [price, price if shared else other]}
    return {"price": price, "shared": bool(shared and rng.random() < 0.5)}


def _bound(
    network: hf.Network, changes: hf.PlausibleChanges, x: np.ndarray, margin: Margin, tree
) -> Fraction:
    """What a tree proves of a margin."""
    alone = int(network.n_outputs == 1)
    model = plain_model(network)
    question = checker.Question(
        model, checker.read_changes(changes.to_dict(), model), x.tolist(), margin.above + alone
    )
    return question.bound({"rival": margin.below + alone, "method": "ball", "tree": tree})


def _networks(
    rng: np.random.Generator,
    network: hf.Network,
    changes: hf.PlausibleChanges,
    x: np.ndarray,
    margin: Margin,
):
    """Networks of the ball: the worst that a descent finds, today's, and some on its edge."""
    yield worst(network, changes, x, margin)
    yield network
    yield from changes.sample(network, 3, seed=rng)


@pytest.mark.parametrize("norm", [1.0, 2.0])
@pytest.mark.parametrize("hidden", SHAPES)
def test_no_tree_proves_more_than_holds(norm: float, hidden: tuple[int, ...]):
    rng = np.random.default_rng([int(norm), *hidden])
    for _ in range(40):
        network = random_network(rng, 2, hidden, int(rng.choice([1, 1, 2, 3])))
        if rng.random() < 0.3:
            kinds = rng.choice(["relu", "identity"], len(hidden)).tolist()
            network = hf.Network(network.weights, network.biases, activations=kinds)
        changes = _random_changes(rng, len(hidden) + 1, norm)
        (x,) = random_points(rng, 1, 2)
        margin = margins_for(network, int(rng.integers(len(network.classes))))[0]
        shared, one = not isinstance(changes.delta, tuple), len(hidden) == 1
        cell = (
            [(-1.0, 1.0)] * hidden[0]
            if one
            else [(0.0, radius.weight) for radius in changes.layer_radii(network)]
        )
        bounds = [
            _bound(network, changes, x, margin, _random_tree(rng, cell, shared, one))
            for _ in range(4)
        ]
        for changed in _networks(rng, network, changes, x, margin):
            assert changes.contains(network, changed)
            assert max(bounds) <= exact_margin(changed, margin, x)


@pytest.mark.parametrize("norm", [1.0, 2.0])
def test_cuts_and_prices_of_a_search_prove_what_it_says(norm: float):
    rng = np.random.default_rng(int(norm))
    cut = 0
    for _ in range(20):
        network = random_network(rng, 3, (5,), int(rng.choice([1, 3])))
        changes = hf.PlausibleChanges(
            float(rng.choice([0.1, 0.4])), norm=norm, biases=bool(rng.random() < 0.7)
        )
        (x,) = random_points(rng, 1, 3)
        margin = margins_for(network, 1)[0]
        lower, _, tree = refine(network, changes, x, margin, rounds=60)
        proven = float(_bound(network, changes, x, margin, tree))
        # Between two shifts floats take a chord and a tangent, fractions the function itself.
        assert lower - 1e-12 <= proven <= lower + 1e-6
        cut += "cut" in tree
    assert cut


@pytest.mark.parametrize("norm", [1.0, 2.0])
@pytest.mark.parametrize("hidden", [(), (6,), (5, 4), (4, 4, 4)])
def test_floats_and_fractions_agree(norm: float, hidden: tuple[int, ...]):
    """What needs no cut is the same formula twice: in floats, rounded outwards, and in fractions."""
    rng = np.random.default_rng([9, int(norm), *hidden])
    for _ in range(10):
        network = random_network(rng, 3, hidden, int(rng.choice([1, 3])))
        changes = _random_changes(rng, len(hidden) + 1, norm)
        (x,) = random_points(rng, 1, 3)
        for margin in margins_for(network, 0):
            tree = hf.bounds._balls.leaf(network, changes, x, margin)
            lower = float(least_margins(network, changes, x[None, :], [margin])[0, 0])
            proven = float(_bound(network, changes, x, margin, tree))
            assert lower <= proven <= lower + 1e-9 * max(1.0, abs(lower))


@pytest.mark.parametrize("norm", [1.0, 2.0])
def test_every_robust_row_has_a_certificate(norm: float):
    rng = np.random.default_rng(int(norm) + 30)
    methods = set()
    for k in range(140):
        hidden = SHAPES[k % len(SHAPES)]
        network = random_network(rng, 4, hidden, int(rng.choice([1, 2, 3])))
        X = random_points(rng, 4, 4)
        targets = network.predict(X)
        changes = _random_changes(rng, len(hidden) + 1, norm)
        certs = hf.certify(network, X, targets, changes)
        for row in np.flatnonzero(certs.robust):
            document = certificate(certs, int(row))
            methods |= {
                (part["method"], *sorted(part.get("tree", {"-": 0})))
                for part in document["proof"]["parts"]
            }
    assert ("ball",) in methods
    assert any("price" in method or "prices" in method for method in methods)


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"price": 0.0, "shared": True}, "price: expected one above 0"),
        ({"price": 1.0, "shared": False, "more": 1}, "expected the entries"),
        ({"prices": [1.0, 1.0]}, "with one hidden layer"),
        ({"cut": 3, "at": 0.05, "below": {}, "above": {}}, "cut: expected"),
        ({"cut": -1, "at": 0.05, "below": {}, "above": {}}, "cut: expected"),
        ({"cut": 0, "at": 0.1, "below": {}, "above": {}}, "cut: expected"),
        ({"cut": 0, "at": 0.05, "below": {}}, "expected the entries"),
        ({"cut": 0, "at": 0.05, "below": {}, "above": {"price": "1"}}, "expected the entries"),
    ],
)
def test_what_is_no_proof_is_refused(tree, said: str):
    network = random_network(np.random.default_rng(0), 2, (3, 3), 1, awkward=False)
    margin = margins_for(network, 1)[0]
    with pytest.raises(checker.CheckError, match=said):
        _bound(network, hf.PlausibleChanges(0.1, norm=2.0), np.array([0.5, 0.25]), margin, tree)


def test_prices_of_a_shared_radius_are_one():
    network = random_network(np.random.default_rng(0), 2, (3,), 1, awkward=False)
    margin = margins_for(network, 1)[0]
    with pytest.raises(checker.CheckError, match="the same for a radius that is shared"):
        _bound(
            network,
            hf.PlausibleChanges(0.1, norm=2.0),
            np.array([0.5, 0.25]),
            margin,
            {"prices": [1.0, 2.0]},
        )
