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
    if depth and open_ and one and rng.random() < 0.6:
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
    for k in range(70):
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
        ({"cut": 0, "at": 0.05, "below": {}, "above": {}}, "cut: expected a neuron of one hidden"),
        ({"cut": 0, "at": 0.05, "below": {}}, "expected the entries"),
    ],
)
def test_what_is_no_proof_is_refused(tree, said: str):
    network = random_network(np.random.default_rng(0), 2, (3, 3), 1, awkward=False)
    margin = margins_for(network, 1)[0]
    with pytest.raises(checker.CheckError, match=said):
        _bound(network, hf.PlausibleChanges(0.1, norm=2.0), np.array([0.5, 0.25]), margin, tree)


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"cut": 3, "at": 0.05, "below": {}, "above": {}}, "cut: expected"),
        ({"cut": 0, "at": 1.0, "below": {}, "above": {}}, "cut: expected"),
        ({"cut": 0, "at": 0.05, "below": {}, "above": {"price": "1"}}, "expected the entries"),
    ],
)
def test_a_cut_names_a_neuron_and_a_shift(tree, said: str):
    network = random_network(np.random.default_rng(0), 2, (3,), 1, awkward=False)
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


# --- one step at a time, by hand --------------------------------------------------------------------------------------


def _question(weights, x, delta, norm, *, biases=None, kinds=None, moved=False) -> checker.Question:
    """The question whether x keeps class 1, as the checker reads it; biases are 0 and stay unless told otherwise."""
    biases = biases or [[0.0] * len(layer) for layer in weights]
    kinds = kinds or ["relu"] * (len(weights) - 1)
    model = checker.PlainModel(weights, biases, kinds, [0, 1])
    changes = {"delta": delta, "norm": norm, "biases": moved}
    return checker.Question(model, checker.read_changes(changes, model), x, 1)


def _ball(question: checker.Question) -> checker.Ball:
    return checker.Ball(question, [(a + b) // 2 for a, b in zip(*question.margin(0), strict=True)])


def _proven(question: checker.Question, tree) -> Fraction:
    return question.bound({"rival": 0, "method": "ball", "tree": tree})


def _chain(delta, norm, last=1.0) -> checker.Question:
    """Three layers of one neuron each, without biases: the margin is the product of the weights."""
    return _question([[[1.0]], [[1.0]], [[last]]], [1.0], delta, norm)


@pytest.mark.parametrize("norm", [1.0, 2.0])
def test_a_neuron_that_stays_at_zero(norm: float):
    """It hands on nothing, and takes nothing off what others hand on: with a first weight of 1.5 the margin is -0.5."""
    weights = [[[1.0]], [[1.0], [1.0]], [[1.0, -1.0], [0.5, 0.5]], [[-0.5, -1.0]]]
    biases = [[0.0], [0.0, 0.0], [0.0, -1.0], [0.0]]
    question = _question(weights, [1.0], [0.5, 0.0, 0.0, 0.0], norm, biases=biases)
    assert _proven(question, {}) <= -0.5


def test_slopes_hold_every_quotient():
    unit = 1 << 64
    places = [(0, 0, 0), (0, -1, 0), (0, 0, 1), (1, -2, 4), (-1, -3, 2), (2, -5, 3), (-1, -1, 6)]
    for z, low, high in [*places, (7, -3, 8), (5, -1, 5), (-2, -3, 5)]:
        least, greatest, below = checker.slopes_between(z, low, high)
        assert least <= greatest
        for end in set(range(low, high + 1)) - {z}:
            rise = max(end, 0) - max(z, 0)
            assert least <= Fraction(rise, end - z) * unit <= greatest
            assert rise >= Fraction(below, unit) * (end - z)


def test_roots_are_rounded_up():
    ball = _ball(_question([[[1.0]]], [1.0], 0.5, 2.0))
    for values in ([1, 1], [1, 2], [3, 4], [1, 0], [2, 5, 7]):
        for count in (1, 2):
            assert ball.dual(values, 1, count) ** 2 >= count * sum(v * v for v in values)
    for x in ([1.0], [1.0, 1.0], [0.5, 0.25, 1.0]):
        question = _question(
            [[[0.0] * len(x)], [[1.0]]], x, 0.5, 2.0, kinds=["identity"], moved=True
        )
        ball = _ball(question)
        ((low, high),) = ball.ranges
        square = Fraction(1, 4) * (1 + sum(Fraction(v) ** 2 for v in x))
        assert min(Fraction(end, ball.one_is) ** 2 for end in (low, high)) >= square
        assert low < 0 < high


@pytest.mark.parametrize("norm", [1.0, 2.0])
def test_the_output_bias_moves_where_the_first_layer_does_not(norm: float):
    question = _question([[[1.0]], [[1.0]]], [1e-3], [0.0, 0.5], norm, moved=True)
    leaves: list[dict] = [{"prices": [1e-9, 0.25]}, {"prices": [1e-9, 0.5]}, {}]
    for tree in (*leaves, {"price": 0.25, "shared": False}):
        assert _proven(question, tree) <= Fraction(1e-3) - Fraction(1, 2)


def test_the_least_over_shifts_is_below_that_of_a_grid():
    """One identity neuron, often far below 0, where what its weight takes is linear again."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        w, b, v = rng.uniform([-1, -1, -2], [1, 0, 2]).tolist()
        question = _question(
            [[[w]], [[v]]],
            [1.0],
            [1.0, 1.0],
            2.0,
            biases=[[b], [0.0]],
            kinds=["identity"],
            moved=True,
        )
        first, last = map(Fraction, rng.uniform([0.1, 0.05], [2, 0.5]).tolist())
        move = _ball(question).hidden[0][2]

        def taken(gain: Fraction, price: Fraction = last) -> Fraction:
            return gain - price if gain > 2 * price else gain * gain / (4 * price)

        least = min(
            Fraction(v) * value - taken(abs(value)) + first * Fraction(k, 200) ** 2
            for k in range(-200, 201)
            for value in [Fraction(w) + Fraction(b) + move * Fraction(k, 200)]
        )
        proven = _proven(question, {"prices": [float(first), float(last)]})
        assert proven <= least - first - last - taken(Fraction(1))


@pytest.mark.parametrize(
    ("delta", "layers", "tree"),
    [
        *((0.1, 3, {"cut": 0, "at": at, "below": {}, "above": {}}) for at in (-1.0, -0.09, 0.0, 0.11)),
        (0.1, 3, {"cut": 0, "at": 0.05, "above": {}, "below": {"cut": 0, "at": 0.06, "below": {}, "above": {}}}),
        ([0.1] * 3, 3, {"cut": 0, "at": 0.05, "below": {}, "above": {}}),
        ([0.1] * 3, 3, {"price": 1.0, "shared": True}),
        *(([0.1] * 2, 2, {"prices": prices}) for prices in ([1.0, 0.0], [-1.0, 1.0], [0.0, 1.0], [1.0], [1.0] * 3)),
        *((0.1, 3, tree) for tree in (None, 3, True, [], "cut")),
    ],
)  # fmt: skip
def test_what_lies_outside_is_refused(delta, layers: int, tree):
    with pytest.raises(checker.CheckError, match=r"proof\.tree"):
        _proven(_question([[[1.0]]] * layers, [1.0], delta, 2.0), tree)
