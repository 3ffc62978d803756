"""What must hold for every network, point and set of changes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.verify import OutputBounds
from oracle import (
    MILP_TOLERANCE,
    exact_class,
    inside_exactly,
    logit_range_milp,
    robust_linear_exactly,
    sample_changed,
    search_counter_model,
)
from random_networks import random_changes, random_network, random_points

UNKNOWN, ROBUST, NOT_ROBUST = hf.Verdict.UNKNOWN, hf.Verdict.ROBUST, hf.Verdict.NOT_ROBUST
FINITE_NORMS = [1.0, 2.0]


class Table(NamedTuple):
    network: hf.Network
    X: np.ndarray
    changes: hf.PlausibleChanges
    rng: np.random.Generator


@st.composite
def tables(draw: st.DrawFn, hidden: st.SearchStrategy[list[int]] | None = None) -> Table:
    """A random network with awkward neurons, a few points and a box of changes."""
    sizes = draw(st.lists(st.integers(1, 5), max_size=3) if hidden is None else hidden)
    outputs = draw(st.sampled_from([1, 2, 3, 5]))
    features, rows = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    network = random_network(rng, features, sizes, outputs)
    return Table(
        network, random_points(rng, rows, features), random_changes(rng, len(network.weights)), rng
    )


def some(n: int):
    """`n` examples of a property that costs more than a moment."""
    return settings(max_examples=n)


# --- bounds -----------------------------------------------------------------------------------------------------------


@some(60)
@given(tables())
def test_changed_networks_stay_inside_the_bounds_and_interval_holds_exact(table: Table):
    network, X, changes, rng = table
    exact = hf.output_bounds(network, X, changes)
    interval = hf.output_bounds(network, X, changes, method="interval")
    assert exact.lower.shape == exact.upper.shape == (len(X), network.n_outputs)
    slack = 1e-12 * (1.0 + np.abs(interval.upper) + np.abs(interval.lower))
    assert (interval.lower <= exact.lower + slack).all()
    assert (exact.upper <= interval.upper + slack).all()
    for corners in (False, True):
        logits = sample_changed(network, changes, 300, rng, corners=corners).logits(X)
        assert (exact.lower <= logits.min(axis=0) + slack).all()
        assert (logits.max(axis=0) <= exact.upper + slack).all()


@some(25)
@given(tables(st.lists(st.integers(1, 4), min_size=2, max_size=3)))
def test_exact_bounds_are_the_milps_and_not_the_intervals(table: Table):
    network, X, changes, _ = table
    bounds = hf.output_bounds(network, X[:2], changes)
    for i, x in enumerate(X[:2]):
        for output in range(network.n_outputs):
            least, greatest = logit_range_milp(network, x, output, changes)
            assert bounds.lower[i, output] == pytest.approx(least, abs=3 * MILP_TOLERANCE)
            assert bounds.upper[i, output] == pytest.approx(greatest, abs=3 * MILP_TOLERANCE)


@some(40)
@given(tables(st.lists(st.integers(1, 5), max_size=1)))
def test_with_at_most_one_hidden_layer_interval_is_exact(table: Table):
    network, X, changes, _ = table
    exact, interval = (
        hf.output_bounds(network, X, changes, method=m) for m in ("exact", "interval")
    )
    np.testing.assert_allclose(interval.lower, exact.lower, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(interval.upper, exact.upper, rtol=1e-9, atol=1e-9)


@some(40)
@given(tables())
def test_probabilities_are_sound(table: Table):
    network, X, changes, rng = table
    low, high = hf.output_bounds(network, X, changes).probabilities()
    assert (low >= 0).all()
    assert (high <= 1).all()
    logits = sample_changed(network, changes, 300, rng, corners=True).logits(X)
    if network.n_outputs == 1:
        probabilities = 1.0 / (1.0 + np.exp(-logits[..., 0]))
        low, high = low[:, -1], high[:, -1]
    else:
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        probabilities = powers / powers.sum(axis=-1, keepdims=True)
    assert (low <= probabilities.min(axis=0) + 1e-12).all()
    assert (probabilities.max(axis=0) <= high + 1e-12).all()


def test_probabilities_of_wide_ranges_of_logits():
    """What one class may reach is no part of the sum of the others: it would drown them."""
    wide = OutputBounds(np.array([[0.0, -50.0]]), np.array([[0.0, 50.0]]), np.array([[True, True]]))
    low, high = wide.probabilities()
    least = np.exp(-50.0) / (1.0 + np.exp(-50.0))
    np.testing.assert_allclose(low, [[least, least]], rtol=1e-12)
    assert (low < least).all()
    assert (high <= 1.0).all()
    np.testing.assert_allclose(high, 1.0, rtol=1e-12)
    one = OutputBounds(np.array([[-50.0]]), np.array([[50.0]]), np.array([[True]])).probabilities()
    np.testing.assert_array_equal(one, (low, high))
    wider = OutputBounds(*(np.array([[0.0, end, 0.0]]) for end in (-800.0, 800.0)), wide.met)
    for end, expected in zip(
        wider.probabilities(), ([0.0, 0.0, 0.0], [0.5, 1.0, 0.5]), strict=True
    ):
        np.testing.assert_allclose(end, [expected], atol=1e-12)


# --- verdicts ---------------------------------------------------------------------------------------------------------


@some(60)
@given(tables(), st.floats(0.05, 0.95))
def test_robust_at_delta_is_robust_at_less(table: Table, factor: float):
    network, X, changes, _ = table
    target = int(network.predict_index(X)[0])
    wide, narrow = (hf.certify(network, X, target, c) for c in (changes, changes.scaled(factor)))
    assert not (wide.robust & ~narrow.robust).any()
    assert not ((narrow.verdict == NOT_ROBUST) & (wide.verdict != NOT_ROBUST)).any()


@some(40)
@given(tables())
def test_the_order_of_rows_and_their_company_do_not_matter(table: Table):
    network, X, changes, rng = table
    X = np.vstack([X, random_points(rng, 10, X.shape[1])])
    targets = rng.integers(0, max(2, network.n_outputs), len(X))
    whole = hf.certify(network, X, targets, changes)
    order = rng.permutation(len(X))
    shuffled = hf.certify(network, X[order], targets[order], changes)
    assert shuffled.verdict.tolist() == whole.verdict[order].tolist()
    alone = [
        hf.certify(network, X[i : i + 1], int(targets[i]), changes).verdict[0]
        for i in range(len(X))
    ]
    assert alone == whole.verdict.tolist()
    for target in set(targets.tolist()):
        rows = targets == target
        assert (
            hf.certify(network, X[rows], target, changes).verdict.tolist()
            == whole.verdict[rows].tolist()
        )


@some(30)
@given(tables())
def test_a_permutation_of_hidden_neurons_changes_nothing(table: Table):
    network, X, changes, rng = table
    weights, biases = list(network.weights), list(network.biases)
    for layer in range(len(network.hidden)):
        order = rng.permutation(network.hidden[layer])
        weights[layer], biases[layer] = weights[layer][order], biases[layer][order]
        weights[layer + 1] = weights[layer + 1][:, order]
    target = int(network.predict_index(X)[0])
    first, second = (
        hf.certify(net, X, target, changes) for net in (network, hf.Network(weights, biases))
    )
    assert first.verdict.tolist() == second.verdict.tolist()


@some(40)
@given(tables())
def test_what_is_not_robust_has_a_witness_and_what_is_robust_has_none(table: Table):
    network, X, changes, _ = table
    target = int(network.predict_index(X)[0])
    certs = hf.certify(network, X, target, changes)
    for i, x in enumerate(X):
        witness = certs.witness(i)
        assert (witness is None) == (certs.verdict[i] != NOT_ROBUST)
        if witness is not None:
            assert inside_exactly(network, changes, witness)
            assert exact_class(witness, x) != target
        else:
            assert (
                search_counter_model(network, changes, x, target, restarts=16, steps=8)[0] is None
            )


def test_a_long_table_is_settled_as_its_rows_are():
    """More rows than go through any stage together."""
    rng = np.random.default_rng(3)
    network = random_network(rng, 4, (8, 8), 3, awkward=False)
    X, targets = random_points(rng, 70_000, 4), rng.integers(0, 3, 70_000)
    changes = hf.PlausibleChanges(0.03)
    whole = hf.certify(network, X, targets, changes)
    rows = rng.choice(len(X), 500, replace=False)
    part = hf.certify(network, X[rows], targets[rows], changes)
    assert part.verdict.tolist() == whole.verdict[rows].tolist()
    assert {ROBUST, NOT_ROBUST} == set(whole.verdict.tolist())
    for i in np.flatnonzero(whole.verdict == NOT_ROBUST)[-20:]:
        assert exact_class(whole.witness(int(i)), X[i]) != targets[i]


@pytest.mark.parametrize("time_limit", [1e-9, 0.02])
def test_a_time_limit_leaves_rows_unknown_and_never_calls_them_broken(time_limit: float):
    rng = np.random.default_rng(4)
    network = random_network(rng, 5, (16, 16, 16), 1, awkward=False)
    X = random_points(rng, 3000, 5)
    targets = network.predict_index(X)
    changes = hf.PlausibleChanges(0.03)
    limited, whole = (
        hf.certify(network, X, targets, changes, time_limit=limit) for limit in (time_limit, None)
    )
    undecided = limited.verdict == UNKNOWN
    assert UNKNOWN not in whole.verdict.tolist()
    assert limited.verdict[~undecided].tolist() == whole.verdict[~undecided].tolist()
    if time_limit < 1e-6:
        assert undecided.any()
    for i in np.flatnonzero(limited.verdict == NOT_ROBUST)[:20]:
        assert exact_class(limited.witness(int(i)), X[i]) != targets[i]


def test_dataframe_index_is_kept_and_labels_are_the_models():
    rng = np.random.default_rng(1)
    network = random_network(rng, 3, (4, 4), 3)
    network = hf.Network(network.weights, network.biases, classes=["deny", "refer", "grant"])
    X = random_points(rng, 6, 3)
    frame = pd.DataFrame(
        X, columns=["a", "b", "c"], index=[f"person {i}" for i in (5, 3, 8, 1, 0, 2)]
    )
    targets = network.predict(X)
    changes = hf.PlausibleChanges(0.02)
    certs = hf.certify(network, frame, targets, changes)
    table = certs.to_frame()
    assert table.index.tolist() == frame.index.tolist()
    assert {"verdict", "margin_lower", "margin_upper", "decided_by"} <= set(table.columns)
    assert certs.verdict.tolist() == hf.certify(network, X, targets, changes).verdict.tolist()
    assert hf.certify(network, X, targets, changes).to_frame().index.tolist() == list(range(6))


@some(30)
@given(tables())
def test_factuals_are_sound_iff_their_own_class_is_robust(table: Table):
    """Δ is sound for x iff x keeps under all of Δ the class that it has today."""
    network, X, changes, rng = table
    factuals = random_points(rng, len(X), X.shape[1])
    target = int(network.predict_index(X)[0])
    certs = hf.certify(network, X, target, changes, factuals=factuals)
    own = hf.certify(network, factuals, network.predict_index(factuals), changes)
    assert certs.sound.tolist() == own.robust.tolist()


# --- other norms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", FINITE_NORMS)
@some(40)
@given(table=tables(), per_layer=st.booleans())
def test_a_ball_never_breaks_what_is_called_robust(norm: float, table: Table, per_layer: bool):
    network, X, changes, rng = table
    delta = (
        tuple(rng.uniform(0.02, 0.4, len(network.weights)).tolist())
        if per_layer
        else float(rng.uniform(0.02, 0.6))
    )
    ball = hf.PlausibleChanges(delta, norm=norm, biases=changes.biases)
    target = int(network.predict_index(X)[0])
    certs = hf.certify(network, X, target, ball)
    bounds = hf.output_bounds(network, X, ball)
    for changed in ball.sample(network, 40, seed=rng):
        assert (changed.predict_index(X)[certs.robust] == target).all()
        logits = changed.logits(X)
        assert (bounds.lower <= logits + 1e-12).all()
        assert (logits <= bounds.upper + 1e-12).all()
    for i, x in enumerate(X):
        if certs.robust[i]:
            assert search_counter_model(network, ball, x, target, restarts=16, steps=12)[0] is None
        elif certs.verdict[i] == NOT_ROBUST:
            assert inside_exactly(network, ball, certs.witness(i))
            assert exact_class(certs.witness(i), x) != target


@pytest.mark.parametrize("norm", [*FINITE_NORMS, math.inf])
@some(40)
@given(
    table=tables(st.just([])), factor=st.sampled_from([0.3, 0.999, 0.999999, 1.000001, 1.001, 3.0])
)
def test_linear_models_are_exact_in_every_norm(norm: float, table: Table, factor: float):
    """Decided, and as the dual norm says in fractions: margin against delta * ||(x, 1)||_q, or two rows of it."""
    network, X, changes, _ = table
    target = int(network.predict_index(X)[0])
    unit = hf.certified_radius(network, X, target, norm=norm) if changes.biases else None
    delta = float(unit.upper[0]) * factor if unit is not None else 0.1 * factor
    if delta <= 1e-9:
        return
    ball = hf.PlausibleChanges(delta, norm=norm, biases=changes.biases)
    certs = hf.certify(network, X, target, ball)
    for i, x in enumerate(X):
        assert certs.verdict[i] != UNKNOWN
        assert bool(certs.robust[i]) == robust_linear_exactly(network, x, target, ball)


@pytest.mark.parametrize("norm", FINITE_NORMS)
@some(30)
@given(table=tables())
def test_a_ball_is_no_harder_than_its_box(norm: float, table: Table):
    network, X, _, rng = table
    delta = float(rng.uniform(0.005, 0.2))
    target = int(network.predict_index(X)[0])
    box, ball = (
        hf.certify(network, X, target, hf.PlausibleChanges(delta, norm=p)) for p in (math.inf, norm)
    )
    assert not (box.robust & ~ball.robust).any()


@some(30)
@given(tables())
def test_other_norms_are_covered_soundly(table: Table):
    """p = 3: at least the box's proofs, and no sampled network breaks them."""
    network, X, _, rng = table
    delta = float(rng.uniform(0.005, 0.2))
    target = int(network.predict_index(X)[0])
    box = hf.certify(network, X, target, hf.PlausibleChanges(delta))
    cube = hf.PlausibleChanges(delta, norm=3.0)
    certs = hf.certify(network, X, target, cube)
    assert not (box.robust & ~certs.robust).any()
    for changed in cube.sample(network, 30, seed=rng):
        assert (changed.predict_index(X)[certs.robust] == target).all()
    for i in np.flatnonzero(certs.verdict == NOT_ROBUST):
        assert cube.contains(network, certs.witness(int(i)))


@pytest.mark.parametrize("norm", FINITE_NORMS)
def test_balls_prove_more_than_boxes(norm: float):
    rng = np.random.default_rng(2)
    gained = 0
    for _ in range(10):
        network = random_network(rng, 4, (5, 4), 1)
        X = random_points(rng, 20, 4)
        target = network.predict_index(X)
        box, ball = (
            hf.certify(network, X, target, hf.PlausibleChanges(0.1, norm=p))
            for p in (math.inf, norm)
        )
        gained += int((ball.robust & ~box.robust).sum())
    assert gained > 20
