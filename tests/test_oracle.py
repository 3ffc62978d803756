"""The oracles are checked against each other and against brute force, so that they may be trusted about `certify`."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from holdfast import Network, PlausibleChanges
from oracle import (
    MILP_TOLERANCE,
    adversarial_changed,
    inside_exactly,
    least_margin_milp,
    least_margins_exact,
    least_margins_milp,
    logit_range_milp,
    radii_of,
    robust_linear_exactly,
    sample_changed,
    search_counter_model,
    separate_margin_milp,
)
from random_networks import random_changes, random_network, random_points
from reference import exact_class, exact_logits, rivals_of

SHAPES = [(), (3,), (2, 2), (3, 3), (2, 3), (1, 2, 2), (2, 1, 2), (2, 2, 2, 2)]


def test_the_smallest_case_of_the_sign_error():
    """w = (1, 1), bias fixed, x = (-1, 1.05), delta 0.1: the paper's encoding says +0.045, the truth is -0.155."""
    network, x = Network([[[1.0, 1.0]]], [[0.0]]), np.array([-1.0, 1.05])
    changes = PlausibleChanges(0.1, biases=False)
    assert least_margins_milp(network, x, 1, changes) == pytest.approx(-0.155, abs=1e-12)
    assert float(least_margins_exact(network, x, 1, changes)[None]) == pytest.approx(
        -0.155, abs=1e-12
    )


@pytest.mark.parametrize("hidden", SHAPES, ids=str)
@pytest.mark.parametrize("outputs", [1, 3])
def test_milp_and_fractions_agree(hidden: tuple[int, ...], outputs: int):
    rng = np.random.default_rng([len(hidden), sum(hidden), outputs])
    for _ in range(12):
        network = random_network(rng, 3, hidden, outputs)
        x = random_points(rng, 1, 3)[0]
        changes = random_changes(rng, len(network.weights))
        target = int(rng.integers(0, max(2, outputs)))
        radii = radii_of(network, changes)
        for rival, exact in least_margins_exact(network, x, target, changes).items():
            assert least_margin_milp(network, x, target, rival, radii) == pytest.approx(
                float(exact), abs=MILP_TOLERANCE / 2
            )


@pytest.mark.parametrize("hidden", [(3,), (2, 2), (2, 2, 2)], ids=str)
def test_milp_against_a_grid_over_every_neuron(hidden: tuple[int, ...]):
    """Each neuron moves by s * (dw |v|_1 + db), s in [-1, 1]: a fine grid over s comes close, and never below."""
    rng = np.random.default_rng(5)
    grid = np.linspace(-1.0, 1.0, 21 if sum(hidden) < 5 else 7)
    for _ in range(6):
        network = random_network(rng, 2, hidden, 1)
        x = rng.normal(0.0, 1.0, 2)
        changes = PlausibleChanges(0.15)
        pushes = np.array(list(product(grid, repeat=sum(hidden))))
        values, start = np.broadcast_to(x, (len(pushes), 2)), 0
        for weight, bias in zip(network.weights[:-1], network.biases[:-1], strict=True):
            push = pushes[:, start : start + len(bias)]
            start += len(bias)
            spread = 0.15 * (np.abs(values).sum(axis=1, keepdims=True) + 1.0)
            values = np.maximum(values @ weight.T + bias + push * spread, 0.0)
        least = (values @ (network.weights[-1][0] - 0.15) + network.biases[-1][0] - 0.15).min()
        exact = least_margins_milp(network, x, 1, changes)
        assert exact <= least + MILP_TOLERANCE
        assert exact >= least - 0.1


@pytest.mark.parametrize("hidden", [(), (4,), (3, 3), (3, 3, 3)], ids=str)
@pytest.mark.parametrize("outputs", [1, 4])
def test_no_changed_network_is_below_the_milp_and_the_search_comes_near(
    hidden: tuple[int, ...], outputs: int
):
    rng = np.random.default_rng([7, len(hidden), outputs])
    gaps = []
    for _ in range(8):
        network = random_network(rng, 3, hidden, outputs)
        x = random_points(rng, 1, 3)[0]
        changes = random_changes(rng, len(network.weights))
        target = int(rng.integers(0, max(2, outputs)))
        exact = least_margins_milp(network, x, target, changes)
        batches = [
            sample_changed(network, changes, 500, rng, corners=corners) for corners in (False, True)
        ]
        batches += adversarial_changed(network, changes, x, target, restarts=32, steps=12, rng=rng)
        least = min(float(_margins(batch.logits(x[None])[:, 0], target).min()) for batch in batches)
        assert least >= exact - MILP_TOLERANCE
        gaps.append((least - exact) / (_today(network, x, target) - exact + 1e-9))
    assert np.median(gaps) < 0.02


def test_joint_margin_is_at_least_the_separate_one_and_ranges_hold():
    rng = np.random.default_rng(8)
    tighter = 0
    for _ in range(10):
        network = random_network(rng, 3, (4, 3), 3)
        x = rng.normal(0.0, 1.0, 3)
        changes = PlausibleChanges(0.05)
        joint, separate = (
            f(network, x, 0, changes) for f in (least_margins_milp, separate_margin_milp)
        )
        assert joint >= separate - MILP_TOLERANCE
        tighter += joint > separate + 1e-3
        low, high = logit_range_milp(network, x, 2, changes)
        outputs = sample_changed(network, changes, 200, rng, corners=True).logits(x[None])[:, 0, 2]
        assert low - MILP_TOLERANCE <= outputs.min() <= outputs.max() <= high + MILP_TOLERANCE
    assert tighter >= 5


def test_fractions_evaluate_a_network():
    network = Network([[[0.5, -1.0], [2.0, 0.25]], [[1.0, -0.5]]], [[0.125, -1.0], [0.75]])
    x = np.array([1.0, 0.5])
    assert exact_logits(network, x) == [Fraction(1, 8) - Fraction(9, 16) + Fraction(3, 4)]
    assert exact_class(network, x) == 1
    tied = Network([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]], [[0.0, 0.0, 0.0]])
    assert exact_class(tied, x) == 0


def test_membership_in_fractions():
    network = Network([[[1.0, 2.0]]], [[0.5]])
    near = Network([[[1.25, 1.75]]], [[0.5]])
    assert inside_exactly(network, PlausibleChanges(0.25), near)
    assert not inside_exactly(network, PlausibleChanges(np.nextafter(0.25, 0.0)), near)
    assert inside_exactly(network, PlausibleChanges(0.5, norm=1), near)
    assert not inside_exactly(network, PlausibleChanges(0.499, norm=1), near)
    assert inside_exactly(network, PlausibleChanges(0.354, norm=2), near)
    assert not inside_exactly(network, PlausibleChanges(0.353, norm=2), near)
    moved_bias = Network([[[1.0, 2.0]]], [[0.5625]])
    assert not inside_exactly(network, PlausibleChanges(0.25, biases=False), moved_bias)


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("outputs", [1, 3])
def test_linear_models_just_inside_and_outside_the_dual_norm(norm: float, outputs: int):
    rng = np.random.default_rng(3)
    for _ in range(20):
        network = random_network(rng, 4, (), outputs, awkward=False)
        x = rng.normal(0.0, 1.0, 4)
        target = exact_class(network, x)
        dual = {1.0: np.inf, 2.0: 2.0, math.inf: 1.0}[norm]
        moved = np.append(x, 1.0) if outputs == 1 else np.concatenate([x, [1.0], x, [1.0]])
        logits = network.logits(x[None])[0]
        margin = min(
            abs(logits[0]) if rival is None else logits[target] - logits[rival]
            for rival in rivals_of(network, target)
        )
        radius = float(margin / np.linalg.norm(moved, dual))
        inside, outside = (PlausibleChanges(radius * f, norm=norm) for f in (1 - 1e-9, 1 + 1e-9))
        assert robust_linear_exactly(network, x, target, inside)
        assert not robust_linear_exactly(network, x, target, outside)
        counter_model, _ = search_counter_model(
            network, PlausibleChanges(radius * 1.02, norm=norm), x, target, steps=30
        )
        assert counter_model is not None
        assert search_counter_model(network, inside, x, target)[0] is None


def _margins(logits: np.ndarray, target: int) -> np.ndarray:
    if logits.shape[1] == 1:
        return logits[:, 0] if target == 1 else -logits[:, 0]
    return logits[:, target] - np.delete(logits, target, axis=1).max(axis=1)


def _today(network: Network, x: np.ndarray, target: int) -> float:
    return float(_margins(network.logits(x[None]), target)[0])
