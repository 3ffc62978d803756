"""`certified_radius` against closed forms, against roots found with the independent MILP, and against `certify`."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq

import holdfast as hf
from holdfast.bounds._layers import margins_for
from holdfast.verify import CertifiedRadius
from holdfast.verify._engine import Engine, PreparedTarget
from holdfast.verify._radius import _Rays
from oracle import (
    exact_class,
    inside_exactly,
    least_margins_milp,
    robust_linear_exactly,
    search_counter_model,
)
from random_networks import random_network, random_points

TOL = 1e-6
# The MILP is good to 1e-6 in the margin, and the margin falls by at least 1 for each unit of delta (the last bias).
ROOT = 2e-6
SHAPES = [
    ((), 1),
    ((), 3),
    ((6,), 1),
    ((5,), 3),
    ((4, 4), 1),
    ((4, 3), 3),
    ((3, 3, 3), 1),
    ((3, 2, 3), 2),
]


def _radius_by_root_finding(network: hf.Network, x: np.ndarray, target: int) -> float:
    """Where the MILP's least margin is zero; it falls as delta grows, if only through the last bias."""

    def least(delta: float) -> float:
        return least_margins_milp(network, x, target, hf.PlausibleChanges(delta))

    high = 1e-3
    while least(high) > 0:
        high *= 4
    return float(brentq(least, 1e-12, high, xtol=1e-8))


@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_logistic_regression_is_the_closed_form(outputs: int, norm: float):
    """One logit: |z| / ||(x, 1)||_q. Several: the two rows move together, (z_t - z_c) / ||(x, 1, x, 1)||_q."""
    rng = np.random.default_rng(1)
    network = random_network(rng, 5, (), outputs)
    X = random_points(rng, 40, 5)
    target = network.predict_index(X)
    moved = np.column_stack([X, np.ones(len(X))])
    logits = network.logits(X)
    if outputs == 1:
        margin = np.abs(logits[:, 0])
    else:
        moved = np.hstack([moved, moved])
        ordered = np.sort(logits, axis=1)
        margin = ordered[:, -1] - ordered[:, -2]
    dual = {1.0: np.inf, 2.0: 2.0, math.inf: 1.0}[norm]
    expected = margin / np.linalg.norm(moved, dual, axis=1)
    radius = hf.certified_radius(network, X, target, norm=norm, tol=TOL)
    assert (radius.lower <= expected + 1e-12).all()
    assert (expected <= radius.upper + 1e-12).all()
    assert (radius.upper - radius.lower <= TOL).all()


@pytest.mark.parametrize(("hidden", "outputs"), SHAPES, ids=str)
def test_radius_agrees_with_the_root_of_the_independent_milp(hidden: tuple[int, ...], outputs: int):
    rng = np.random.default_rng([2, len(hidden), outputs])
    network = random_network(rng, 3, hidden, outputs)
    X = random_points(rng, 5, 3)
    target = network.predict_index(X)
    radius = hf.certified_radius(network, X, target, tol=TOL)
    expected = np.array(
        [_radius_by_root_finding(network, x, t) for x, t in zip(X, target, strict=True)]
    )
    assert (radius.lower <= expected + ROOT).all()
    assert (radius.upper >= expected - ROOT).all()


@pytest.mark.parametrize(("hidden", "outputs"), SHAPES, ids=str)
def test_certify_just_below_and_just_above_the_radius(hidden: tuple[int, ...], outputs: int):
    rng = np.random.default_rng([3, len(hidden), outputs])
    compared = 0
    for _ in range(4):
        network = random_network(rng, 4, hidden, outputs)
        X = random_points(rng, 10, 4)
        target = network.predict_index(X)
        radius = hf.certified_radius(network, X, target, tol=TOL)
        assert (radius.lower >= 0).all()
        assert (radius.lower <= radius.upper).all()
        assert (radius.upper - radius.lower <= TOL).all()
        for i in range(len(X)):
            x, t = X[i : i + 1], int(target[i])
            if radius.lower[i] > 0:
                below = hf.PlausibleChanges(radius.lower[i] * (1 - 1e-6))
                assert hf.certify(network, x, t, below).verdict.tolist() == [hf.Verdict.ROBUST]
            above = hf.PlausibleChanges(radius.upper[i] * (1 + 1e-6))
            certs = hf.certify(network, x, t, above)
            assert certs.verdict.tolist() == [hf.Verdict.NOT_ROBUST]
            assert inside_exactly(network, above, certs.witness(0))
            assert exact_class(certs.witness(0), X[i]) != t
            compared += 1
    assert compared == 40


def test_a_coarser_tolerance_brackets_the_same_radius():
    rng = np.random.default_rng(4)
    network = random_network(rng, 4, (6, 5), 1)
    X = random_points(rng, 20, 4)
    target = network.predict_index(X)
    fine, coarse = (hf.certified_radius(network, X, target, tol=tol) for tol in (1e-8, 1e-2))
    assert (fine.upper - fine.lower <= 1e-8).all()
    assert (coarse.upper - coarse.lower <= 1e-2).all()
    assert (coarse.lower <= fine.upper).all()
    assert (fine.lower <= coarse.upper).all()


@pytest.mark.parametrize("outputs", [1, 3])
def test_rows_of_another_class_have_radius_zero(outputs: int):
    rng = np.random.default_rng(5)
    network = random_network(rng, 4, (5, 5), outputs)
    X = random_points(rng, 30, 4)
    predicted = network.predict_index(X)
    target = int(predicted[0])
    radius = hf.certified_radius(network, X, target)
    assert 0 < (predicted != target).sum() < 30
    np.testing.assert_array_equal(radius.lower == 0.0, predicted != target)
    np.testing.assert_array_equal(radius.upper[predicted != target], 0.0)


@pytest.mark.parametrize("norm", [1.0, 2.0])
@pytest.mark.parametrize("outputs", [1, 3])
def test_radii_in_a_ball_are_larger_than_the_boxs_and_hold_against_search(
    norm: float, outputs: int
):
    """A ball lies inside its box. Just inside its own radius no network breaks the point, just outside one does."""
    rng = np.random.default_rng(6)
    network = random_network(rng, 3, (), outputs)
    X = random_points(rng, 8, 3)
    target = network.predict_index(X)
    box, ball = (
        hf.certified_radius(network, X, target),
        hf.certified_radius(network, X, target, norm=norm),
    )
    assert (ball.upper >= box.lower).all()
    assert np.median(ball.lower / box.upper) > 1.2
    for x, t, delta in zip(X, target, ball.lower, strict=True):
        inside, outside = (hf.PlausibleChanges(float(delta) * f, norm=norm) for f in (0.999, 1.02))
        assert search_counter_model(network, inside, x, int(t), steps=30)[0] is None
        assert search_counter_model(network, outside, x, int(t), steps=30)[0] is not None


@pytest.mark.parametrize("norm", [1.0, 2.0])
@pytest.mark.parametrize(("hidden", "outputs"), [((5,), 1), ((4,), 3), ((4, 3), 1)], ids=str)
def test_radii_in_a_ball_with_hidden_layers_are_brackets(
    hidden: tuple[int, ...], outputs: int, norm: float
):
    """At `lower` certify proves the point and no search breaks it, at `upper` certify breaks it; beyond the box's."""
    rng = np.random.default_rng([8, len(hidden), outputs])
    network = random_network(rng, 3, hidden, outputs)
    X = random_points(rng, 4, 3)
    target = network.predict_index(X)
    box, ball = (
        hf.certified_radius(network, X, target, norm=p, tol=1e-4) for p in (math.inf, norm)
    )
    assert (ball.lower >= box.lower - 1e-4).all()
    assert (ball.lower > 0.0).all()
    np.testing.assert_array_equal(ball.met, ball.upper - ball.lower <= 1e-4)
    for x, t, low, high in zip(X, target, ball.lower, ball.upper, strict=True):
        inside, broken = (hf.PlausibleChanges(float(delta), norm=norm) for delta in (low, high))
        assert search_counter_model(network, inside, x, int(t), steps=30)[0] is None
        assert hf.certify(network, x[None], int(t), inside).robust[0]
        witness = hf.certify(network, x[None], int(t), broken).witness(0)
        assert broken.contains(network, witness)
        assert exact_class(witness, x) != t


def test_met_says_where_the_tolerance_is_kept():
    """In the 3-norm two hidden layers are bounded, not searched: some brackets stay open, and none is called met."""
    network = random_network(np.random.default_rng(6), 3, (5, 4), 1)
    X = random_points(np.random.default_rng(6), 4, 3)
    target = network.predict_index(X)
    radius = hf.certified_radius(network, X, target, norm=3.0, tol=1e-6)
    assert (radius.lower < radius.upper).all()
    assert not radius.met.all()
    np.testing.assert_array_equal(radius.met, radius.upper - radius.lower <= 1e-6)
    assert hf.certified_radius(network, X, target).met.all()


def test_met_is_said_of_the_exact_difference():
    """lower + tol and upper - lower both round: to the tolerance from above, too."""
    tol = 1e-6
    above = np.nextafter(tol, 1.0)
    lower = np.array([196.7123632408254, 0.0, 0.0, 0.6 * (above - tol), 1.0])
    upper = np.array([196.71236324082543 + tol, tol, above, above, 1.0 + 2**-20])
    exact = [Fraction(b) - Fraction(a) <= Fraction(tol) for a, b in zip(lower, upper, strict=True)]
    radius = CertifiedRadius(lower, upper, pd.RangeIndex(5), tol)
    assert radius.met.tolist() == exact == [False, True, False, False, True]


def test_where_nothing_breaks_a_radius_is_met_only_if_it_is_proven_to_be_infinite():
    """At x = 0 with fixed biases the logit is 1 for any weights; behind a hidden layer that is shown only so far."""
    for weights, biases, met in (
        ([[[1.0]]], [[1.0]], True),
        ([[[1.0]], [[1.0]]], [[0.0], [1.0]], False),
    ):
        radius = hf.certified_radius(hf.Network(weights, biases), [[0.0]], 1, biases=False)
        assert radius.upper.tolist() == [math.inf]
        assert radius.lower[0] > 1e5
        assert radius.met.tolist() == [met] == [radius.lower[0] == math.inf]


def test_linear_radius_in_fractions():
    """At lower the point is robust in exact arithmetic, at upper it is not, for every norm."""
    rng = np.random.default_rng(7)
    for norm in (1.0, 2.0, math.inf):
        network = random_network(rng, 4, (), 1)
        X = random_points(rng, 10, 4)
        target = network.predict_index(X)
        radius = hf.certified_radius(network, X, target, norm=norm)
        for i, x in enumerate(X):
            inside = hf.PlausibleChanges(np.nextafter(radius.lower[i], 0.0), norm=norm)
            beyond = hf.PlausibleChanges(np.nextafter(radius.upper[i], np.inf), norm=norm)
            assert robust_linear_exactly(network, x, int(target[i]), inside)
            assert not robust_linear_exactly(network, x, int(target[i]), beyond)


def test_a_rival_that_nothing_brings_near_does_not_hold_the_others_back():
    """Some logit never reaches the target's, whatever the delta, and no one bound proves that."""
    draw = np.random.default_rng(11127)
    sizes = [2, 5, 4, 4, 3]
    (
        draw.integers(1, 6),
        draw.integers(2, 6, size=int(draw.integers(0, 4))),
        draw.choice([1, 1, 3, 4]),
    )
    network = hf.Network(
        [draw.normal(size=(b, a)) for a, b in pairwise(sizes)],
        [draw.normal(size=b) * 0.3 for b in sizes[1:]],
    )
    target = int(draw.integers(0, 3))
    points = draw.uniform(0, 1, size=(200, 2))
    points = points[network.predict_index(points) == target][:12]
    radius = hf.certified_radius(network, points, target)
    assert len(points) == 12
    assert (radius.upper - radius.lower <= 1e-6).all()
    widest = int(np.argmax(radius.lower))
    for delta, verdict in (
        (radius.lower[widest] * 0.999, hf.Verdict.ROBUST),
        (radius.upper[widest], hf.Verdict.NOT_ROBUST),
    ):
        assert (
            hf.certify(network, points[[widest]], target, hf.PlausibleChanges(delta)).verdict[0]
            is verdict
        )


@pytest.mark.parametrize("weight", [1.0, 1e8, 1e17, 1e30])
@pytest.mark.parametrize("radius", [1e-3, 1.0, 1e12, 1e20, 1e35])
def test_the_allowance_for_rounding_is_that_of_the_box_of_the_radius(weight: float, radius: float):
    """Whatever is far smaller than the other: parameters or changes."""
    network, X = random_network(np.random.default_rng(8), 3, (4, 3), 3), np.ones((2, 3))
    network = network.with_parameters([w * weight for w in network.weights], network.biases)
    with np.errstate(over="ignore", invalid="ignore"):
        box = PreparedTarget(Engine(network, hf.PlausibleChanges(radius)), margins_for(network, 0))
        expected = box.rounding(X)
        got = _Rays(Engine(network, hf.PlausibleChanges(1.0)), 0, 1e-6, X)._error(
            np.arange(2), np.full(2, radius)
        )
    assert (got >= expected * (1.0 - 1e-9)).all()
    if radius <= 1e20:
        np.testing.assert_allclose(got, expected, rtol=1e-9)
