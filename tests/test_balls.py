"""Changes in a p-norm: closed forms in high precision, brute force, and networks of the ball that no bound may miss."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from holdfast import Network, PlausibleChanges
from holdfast.bounds._balls import least_margins, linear_radius, refine, worst
from holdfast.bounds._layers import Margin, margins_for
from holdfast.changes._parameters import p_norm, p_norm_above
from holdfast.verify._witness import exact_margin, flips
from random_networks import random_network, random_points

NORMS = [1.0, 1.0 + 1e-6, 1.01, 1.5, 2.0, 4.0, 1e3]
SHAPES = [(), (4,), (6,), (4, 3), (3, 3, 3)]


def exact_norm(values: np.ndarray, p: float) -> Decimal:
    """The dual norm of p in sixty digits."""
    sizes = [Decimal(value).copy_abs() for value in values.tolist()]
    if p == 1.0 or not any(sizes):
        return max(sizes)
    q = Decimal(p) / (Decimal(p) - 1)
    largest = max(sizes)
    return largest * sum((size / largest) ** q for size in sizes if size) ** (1 / q)


def dual(p: float) -> float:
    return math.inf if p == 1.0 else p / (p - 1.0)


def random_ball(
    rng: np.random.Generator, layers: int, p: float, scale: float = 1.0
) -> PlausibleChanges:
    """One radius or one for each layer (some of them zero), with or without biases."""
    radii = scale * rng.uniform(0.02, 0.1, layers) * (rng.random(layers) < 0.8)
    radii[rng.integers(layers)] = 0.05 * scale
    delta = tuple(radii.tolist()) if rng.random() < 0.4 else 0.05 * scale
    return PlausibleChanges(delta, norm=p, biases=bool(rng.random() < 0.7))


# --- closed forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [*NORMS, 1.0 + 1e-12, 1e8])
@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-200, 1e-30, 1.0, 1e30, 1e300])
def test_dual_norms_are_outward_and_tight(p: float, scale: float):
    rng = np.random.default_rng(3)
    values = scale * np.concatenate(
        [rng.normal(size=(8, 5)), 10.0 ** rng.uniform(-20.0, 0.0, (8, 5))]
    )
    above, below = p_norm_above(values, dual(p)), p_norm(values, dual(p)) * (1.0 - 45 * 2.0**-53)
    with localcontext() as context:
        context.prec = 60
        for row, high, low in zip(values, above, below, strict=True):
            exact = exact_norm(row, p)
            assert Decimal(float(low)) - Decimal("5e-324") <= exact <= Decimal(float(high))
            assert float(high - low) <= 2e-14 * float(high) + 2e-323


def test_nothing_is_lost_and_nothing_overflows_in_dual_norms():
    assert p_norm_above(np.zeros(3), 101.0) == 0.0
    assert p_norm_above(np.array([1e-4, 2e-4]), 101.0) >= 2e-4
    assert p_norm_above(np.array([1e4, 1.0]), 1e6) == pytest.approx(1e4)
    assert p_norm_above(np.array([1.7e308, 1.7e308]), 2.0) == math.inf


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("scale", [1e-30, 1e-4, 1.0, 1e4, 1e30])
def test_linear_models_are_the_closed_form(p: float, scale: float):
    """least margin = margin - delta count^(1/q) ||(x, 1)||_q, and the radius where that is 0."""
    rng = np.random.default_rng(7)
    for outputs in (1, 3):
        for biases in (False, True):
            network, x = random_network(rng, 5, (), outputs), scale * rng.normal(size=5)
            margins = margins_for(network, 1)
            changes = PlausibleChanges(0.25, norm=p, biases=biases)
            bounds = least_margins(network, changes, x[None, :], margins)[0]
            lower, upper = linear_radius(p, biases, x[None, :], margins)
            for k, margin in enumerate(margins):
                with localcontext() as context:
                    context.prec = 60
                    today = exact_margin(network, margin, x)
                    today = Decimal(today.numerator) / Decimal(today.denominator)
                    root = Decimal(margin.count) ** (1 - 1 / Decimal(p))
                    reach = root * exact_norm(np.append(x, float(biases)), p)
                    least, radius = today - reach / 4, max(today, Decimal(0)) / reach
                    size = (
                        abs(Decimal(float(np.abs(margin.row) @ np.abs(x) + abs(margin.offset))))
                        + reach
                    )
                    assert (
                        Decimal(float(bounds[k]))
                        <= least
                        <= Decimal(float(bounds[k])) + size / 10**14
                    )
                    assert Decimal(float(lower[0, k])) <= radius <= Decimal(float(upper[0, k]))
                    assert Decimal(float(upper[0, k] - lower[0, k])) <= size / reach / (5 * 10**13)


def test_norms_near_one_feel_every_change():
    """Powers of small numbers underflow to nothing, and those of large ones to inf."""
    network = Network([[[1.0, 1.0]]], [[0.5]])
    margin = margins_for(network, 1)
    for x, radius in (([1e-4, 2e-4], 2501.5), ([1e4, 1.0], 1.00015)):
        points = np.array([x])
        assert (
            least_margins(network, PlausibleChanges(1e5, norm=1.01, biases=False), points, margin)[
                0, 0
            ]
            < -1.0
        )
        lower, upper = linear_radius(1.01, False, points, margin)
        assert lower[0, 0] == pytest.approx(radius)
        assert upper[0, 0] == pytest.approx(radius)


def test_radii_of_lost_and_of_unmoved_points():
    network = Network([[[1.0, 1.0]]], [[0.5]])
    margin = margins_for(network, 1)
    points = np.array([[-1.0, 0.0], [0.0, 0.0], [5e-324, 0.0]])
    lower, upper = linear_radius(2.0, False, points, margin)
    assert lower[:, 0].tolist() == [0.0, math.inf, np.finfo(float).max]
    assert upper[:, 0].tolist() == [0.0, math.inf, math.inf]


# --- no network of the ball lies below a bound ------------------------------------------------------------------------


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("hidden", SHAPES)
def test_no_network_of_the_ball_lies_below_a_bound(p: float, hidden: tuple[int, ...]):
    rng = np.random.default_rng([len(hidden), int(10 * p)])
    for _ in range(6):
        network = random_network(rng, 3, hidden, int(rng.choice([1, 3])))
        network = Network(
            network.weights,
            network.biases,
            network.classes,
            rng.choice(["relu", "relu", "identity"], len(hidden)),
        )
        points, changes = random_points(rng, 3, 3), random_ball(rng, len(hidden) + 1, p)
        margins = margins_for(network, 1)
        bounds = least_margins(network, changes, points, margins)
        for k, margin in enumerate(margins):
            lower, broken, _ = refine(network, changes, points[0], margin, rounds=2)
            assert lower >= bounds[0, k] - 1e-14
            found = [broken, *(worst(network, changes, x, margin) for x in points)]
            for changed in [
                *changes.sample(network, 20, seed=rng),
                *(one for one in found if one is not None),
            ]:
                assert changes.contains(network, changed)
                values = changed.logits(points) @ margin.signs(changed.n_outputs)
                assert (values >= bounds[:, k] - 1e-14).all()
                assert exact_margin(changed, margin, points[0]) >= Fraction(lower)


@pytest.mark.parametrize("seed", range(20))
def test_no_scale_of_parameters_makes_a_bound_false(seed: int):
    """Layers of 1e-200 before layers of 1e200: what underflows in one is large after the next."""
    rng = np.random.default_rng(seed)
    hidden = tuple(rng.integers(1, 4, rng.integers(0, 4)))
    base = random_network(rng, 2, hidden, int(rng.choice([1, 2])), awkward=False)
    reach = rng.choice([30.0, 200.0])
    scales = 10.0 ** rng.uniform(-reach, min(reach, 100.0), len(base.weights))
    network = Network(
        [w * s for w, s in zip(base.weights, scales, strict=True)],
        [
            b * s * 10.0 ** rng.uniform(-reach, 0.0)
            for b, s in zip(base.biases, scales, strict=True)
        ],
    )
    x = rng.normal(size=2) * 10.0 ** rng.uniform(-reach, 50.0, 2)
    for p in (1.0, 1.01, 2.0, 4.0):
        changes = PlausibleChanges(
            float(10.0 ** rng.uniform(-reach, 30.0)), norm=p, biases=bool(rng.integers(2))
        )
        for margin in margins_for(network, 1):
            bound = float(least_margins(network, changes, x[None, :], [margin])[0, 0])
            lower, broken, _ = refine(network, changes, x, margin, rounds=1)
            near = [
                network,
                *changes.sample(network, 5, seed=seed),
                *([broken] if broken is not None else []),
            ]
            for changed in near:
                assert max(bound, lower) == -math.inf or exact_margin(
                    changed, margin, x
                ) >= Fraction(max(bound, lower))


def test_a_residual_goes_through_the_weights_that_follow():
    """1e-170 squared underflows to 0, and 1e300 times it is not nothing."""
    network = Network(
        [[[-1e-170]], [[-1e300]], [[1.0]]], [[1e-320], [1e-30], [0.0]], activations=["identity"] * 2
    )
    x = np.array([1e-170])
    margin = Margin.of(network, 0, -1)
    for p in (1.0, 2.0):
        lower, _, _ = refine(network, PlausibleChanges(1e-300, norm=p), x, margin, rounds=0)
        assert Fraction(lower) <= exact_margin(network, margin, x)


# --- one hidden layer is exact ----------------------------------------------------------------------------------------


def brute_force(
    network: Network, changes: PlausibleChanges, x: np.ndarray, margin: Margin, n: int
) -> float:
    """The least margin over a grid: how far each neuron moves, then the best output row for what is left."""
    q, p = dual(changes.norm), changes.norm
    radii = [radius.weight for radius in changes.layer_radii(network)]
    read = np.append(x, 1.0) if changes.biases else x
    sides = np.linspace(-1.0, 1.0, n)
    shares = np.stack(np.meshgrid(*[sides] * network.hidden[0]), axis=-1).reshape(
        -1, network.hidden[0]
    )
    used = (np.abs(shares) ** p).sum(axis=1)
    shares, used = shares[used <= 1.0], used[used <= 1.0]
    values = (
        network.weights[0] @ x + network.biases[0] + radii[0] * np.linalg.norm(read, q) * shares
    )
    values = np.maximum(values, 0.0) if network.rectified else values
    left = 1.0 if changes.per_layer else (1.0 - used) ** (1.0 / p)
    outputs = np.concatenate([values, np.full((len(values), 1), float(changes.biases))], axis=1)
    pull = margin.count ** (1.0 / q) * radii[1] * left * np.linalg.norm(outputs, q, axis=1)
    return float((values @ margin.row + margin.offset - pull).min())


@pytest.mark.parametrize("p", [1.0, 1.1, 1.5, 2.0, 4.0, 50.0])
@pytest.mark.parametrize("kind", ["relu", "identity"])
def test_one_hidden_layer_is_what_brute_force_finds(p: float, kind: str):
    rng = np.random.default_rng([int(10 * p), len(kind)])
    for trial in range(6):
        neurons, n = ((2, 801), (3, 81))[trial % 2]
        network = random_network(rng, 2, (neurons,), int(rng.choice([1, 3])))
        network = Network(network.weights, network.biases, network.classes, [kind])
        delta = float(rng.choice([0.1, 0.5]))
        changes = PlausibleChanges(
            delta if trial % 3 else (delta, 0.5 * delta), norm=p, biases=bool(trial % 2)
        )
        x, margin = random_points(rng, 1, 2)[0], margins_for(network, 1)[0]
        lower, _, _ = refine(network, changes, x, margin, rounds=60)
        least = brute_force(network, changes, x, margin, n)
        today = float(exact_margin(network, margin, x))
        assert lower <= least + 1e-12
        # The grid misses the least by half a step along each neuron at most.
        assert least - lower <= (8.0 / n) * (today - least) + 1e-9


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0])
def test_networks_of_one_hidden_layer_are_decided(p: float):
    """A bound above 0, or a network of the ball that replays in fractions."""
    rng = np.random.default_rng(int(10 * p))
    verdicts = []
    for trial in range(8):
        network = random_network(rng, 4, (8,), 1)
        margin = Margin.of(network, 0, -1)
        for x in random_points(rng, 3, 4):
            changes = PlausibleChanges((0.2, 0.1) if trial % 2 else 0.2, norm=p)
            lower, broken, _ = refine(network, changes, x, margin, goal=0.0)
            assert (lower > 0.0) != (broken is not None)
            assert broken is None or flips(broken, margin, x)
            verdicts.append(broken is None)
    assert 0 < sum(verdicts) < len(verdicts)


def test_a_neuron_that_must_jump_is_found():
    """To first order nothing helps: the inactive neuron has to be lifted over its kink by most of the radius."""
    network = Network([[[1.0], [1.0]], [[0.1, -5.0]]], [[0.0, -1.5], [0.5]])
    changes, x = PlausibleChanges(0.6, norm=2.0), np.array([1.0])
    margin = Margin.of(network, 0, -1)
    lower, broken, _ = refine(network, changes, x, margin)
    assert broken is not None
    assert float(exact_margin(broken, margin, x)) == pytest.approx(lower, rel=1e-6)


# --- deeper networks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1.0, 2.0, 4.0])
def test_deeper_networks_are_mostly_decided(p: float):
    rng = np.random.default_rng(int(p))
    undecided = rows = 0
    for _ in range(6):
        network = random_network(rng, 4, (6, 5), 1)
        margin, changes = Margin.of(network, 0, -1), PlausibleChanges(0.1, norm=p)
        for x in random_points(rng, 4, 4):
            lower, broken, _ = refine(network, changes, x, margin, rounds=6, goal=0.0)
            assert not (lower > 0.0 and broken is not None)
            undecided += lower <= 0.0 and broken is None
            rows += 1
    assert undecided <= 0.1 * rows


@pytest.mark.parametrize("p", [1.0, 1.5])
def test_cutting_the_ball_brings_the_bound_nearer(p: float):
    rng = np.random.default_rng(5)
    gained = 0.0
    for delta in (0.05, 0.1, 0.3, 0.3):
        network = random_network(rng, 4, (6,), 1)
        margin, changes = Margin.of(network, 0, -1), PlausibleChanges(delta, norm=p)
        for x in random_points(rng, 3, 4):
            whole, cut = (
                refine(network, changes, x, margin, rounds=rounds)[0] for rounds in (0, 5)
            )
            assert cut >= whole
            gained += cut - whole
    assert gained > 0.0


@pytest.mark.parametrize("p", [1.5, 2.0])
def test_parts_of_a_ball_hold_every_network_of_it(p: float):
    """The bound after many cuts against the best of many descents, at radii where neurons change sides."""
    rng = np.random.default_rng(11)
    for _ in range(4):
        network = random_network(rng, 3, (4,), 2)
        x, margin = random_points(rng, 1, 3)[0], margins_for(network, 1)[0]
        lower, _, _ = refine(network, PlausibleChanges(0.4, norm=p), x, margin, rounds=12)
        for delta in (0.1, 0.2, 0.4):
            for changed in PlausibleChanges(delta, norm=p).sample(network, 200, seed=rng):
                assert (
                    float(changed.logits(x[None, :])[0] @ margin.signs(changed.n_outputs))
                    >= lower - 1e-13
                )
