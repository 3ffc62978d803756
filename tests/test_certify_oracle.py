"""`certify` against an independent exact encoding, its own witnesses, and a million changed networks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import brentq
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import LabelBinarizer

import holdfast as hf
from oracle import (
    MILP_TOLERANCE,
    adversarial_changed,
    exact_class,
    inside_exactly,
    least_margins_exact,
    least_margins_milp,
    sample_changed,
    search_counter_model,
    separate_margin_milp,
)
from random_networks import random_changes, random_network, random_points, shift_last_bias

# BATCHES * (TABLES * ROWS + NEAR_ZERO) = 2,320 cases; more batches for a longer run.
BATCHES, TABLES, ROWS, NEAR_ZERO = int(os.environ.get("HOLDFAST_ORACLE_BATCHES", "20")), 7, 8, 60
HIDDEN = [(), (4,), (3, 3), (5, 4), (4, 6), (3, 3, 3), (2, 4, 3)]


class Case(NamedTuple):
    network: hf.Network
    X: np.ndarray
    target: int
    changes: hf.PlausibleChanges
    least: np.ndarray


def _random_case(rng: np.random.Generator, rows: int) -> Case:
    outputs = int(rng.choice([1, 1, 2, 3, 4, 5]))
    hidden = HIDDEN[rng.integers(0, len(HIDDEN))]
    features = int(rng.integers(1, 6))
    network = random_network(rng, features, hidden, outputs)
    X = random_points(rng, rows, features)
    target = (
        int(network.predict_index(X)[0])
        if rng.random() < 0.8
        else int(rng.integers(0, max(2, outputs)))
    )
    changes = random_changes(rng, len(network.weights))
    least = np.array([least_margins_milp(network, x, target, changes) for x in X])
    return Case(network, X, target, changes, least)


def _near_zero(case: Case, rng: np.random.Generator) -> Case:
    """The same points with the output bias moved, so that the first one's least margin is ±1e-3 ... ±1e-5.6.

    The bias enters every margin as it is, so the least margins move by the same amount.
    """
    wanted = rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-5.6, -3.0)
    amount = wanted - case.least[0]
    if case.network.n_outputs == 1:
        network = shift_last_bias(case.network, 0, amount if case.target == 1 else -amount)
    else:
        network = shift_last_bias(case.network, case.target, amount)
    return case._replace(network=network, least=case.least + amount)


def _cases(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng([2, seed])
    for _ in range(TABLES):
        yield _random_case(rng, ROWS)
    for _ in range(NEAR_ZERO):
        yield _near_zero(_random_case(rng, 1), rng)


@pytest.mark.parametrize("seed", range(BATCHES))
def test_certify_agrees_with_the_independent_milp(seed: int):
    """No disagreement and no row left UNKNOWN; margins within the MILP's own tolerance are left out, and few."""
    compared, too_close, disagreements = 0, 0, []
    for case in _cases(seed):
        certs = hf.certify(case.network, case.X, case.target, case.changes)
        assert hf.Verdict.UNKNOWN not in certs.verdict.tolist()
        np.testing.assert_array_equal(certs.robust, certs.verdict == hf.Verdict.ROBUST)
        assert (certs.margin_lower <= case.least + MILP_TOLERANCE).all()
        assert (certs.margin_upper >= case.least - MILP_TOLERANCE).all()
        decided = np.abs(case.least) > MILP_TOLERANCE
        too_close += int((~decided).sum())
        compared += int(decided.sum())
        wrong = decided & (certs.robust != (case.least > 0))
        disagreements += [(case, int(i), certs.decided_by[i]) for i in np.flatnonzero(wrong)]
    assert disagreements == []
    assert compared + too_close == TABLES * ROWS + NEAR_ZERO
    assert too_close < 0.02 * (compared + too_close)


def test_the_cases_hold_what_they_promise():
    """Both verdicts, both signs of x, every depth, one logit and several, near and far: the comparison has teeth."""
    cases = list(_cases(0))
    least = np.concatenate([case.least for case in cases])
    assert 0.25 < np.mean(least > 0) < 0.75
    assert np.mean(np.abs(least) < 1e-3) > 0.4
    assert {case.network.n_outputs for case in cases} == {1, 2, 3, 4, 5}
    assert {len(case.network.hidden) for case in cases} == {0, 1, 2, 3}
    assert {case.target for case in cases if case.network.n_outputs == 1} == {0, 1}
    assert any((case.X < 0).any() for case in cases)
    assert any(0.0 in case.changes.delta for case in cases if case.changes.per_layer)
    assert {case.changes.biases for case in cases} == {True, False}


@pytest.mark.parametrize("seed", range(6))
def test_separate_and_interval_are_sound_and_separate_is_the_papers_test(seed: int):
    rng = np.random.default_rng([3, seed])
    for _ in range(6):
        network = random_network(rng, 3, HIDDEN[rng.integers(1, len(HIDDEN))], 3)
        X = random_points(rng, 6, 3)
        target = int(network.predict_index(X)[0])
        changes = hf.PlausibleChanges(10.0 ** rng.uniform(-2.5, -1.0))
        joint = hf.certify(network, X, target, changes)
        separate = hf.certify(network, X, target, changes, method="separate")
        interval = hf.certify(network, X, target, changes, method="interval")
        expected = np.array([separate_margin_milp(network, x, target, changes) for x in X])
        clear = np.abs(expected) > MILP_TOLERANCE
        np.testing.assert_array_equal(separate.robust[clear], expected[clear] > 0)
        assert not (separate.robust & ~joint.robust).any()
        assert not (interval.robust & ~joint.robust).any()


def test_the_joint_margin_proves_what_separate_ranges_cannot():
    """The target's bias is placed half-way between the two tests: least joint margin > 0 > separate margin."""
    rng = np.random.default_rng(12)
    gaps = []
    while len(gaps) < 15:
        network = random_network(rng, 3, (4, 3), 3)
        x = rng.normal(0.0, 1.0, 3)
        changes = hf.PlausibleChanges(0.05)
        joint, separate = (
            f(network, x, 0, changes) for f in (least_margins_milp, separate_margin_milp)
        )
        if joint - separate < 1e-3:
            continue
        gaps.append(joint - separate)
        between = shift_last_bias(network, 0, -(joint + separate) / 2)
        assert hf.certify(between, x[None], 0, changes).robust.tolist() == [True]
        assert hf.certify(between, x[None], 0, changes, method="separate").robust.tolist() == [
            False
        ]
    assert max(gaps) > 0.01


# --- witnesses --------------------------------------------------------------------------------------------------------


def _sklearn_class(network: hf.Network, x: np.ndarray) -> int:
    """The class that scikit-learn itself gives x, with the network's parameters inside a fitted estimator."""
    n_classes = max(2, network.n_outputs)
    if not network.hidden:
        model = LogisticRegression()
        model.coef_, model.intercept_ = network.weights[0], network.biases[0]
        model.classes_ = np.arange(n_classes)
        return int(model.predict(x[None])[0])
    model = MLPClassifier(hidden_layer_sizes=network.hidden)
    model.coefs_ = [weight.T for weight in network.weights]
    model.intercepts_ = list(network.biases)
    model.n_layers_, model.n_outputs_ = len(network.weights) + 1, network.n_outputs
    model.out_activation_ = "logistic" if network.n_outputs == 1 else "softmax"
    model.classes_, model.n_features_in_ = np.arange(n_classes), network.n_features
    model._label_binarizer = LabelBinarizer().fit(model.classes_)
    return int(model.predict(x[None])[0])


def _torch_class(network: hf.Network, x: np.ndarray) -> int:
    """The class that a float64 torch.nn.Sequential with the network's parameters gives x."""
    torch = pytest.importorskip("torch")
    modules = []
    for weight, bias in zip(network.weights, network.biases, strict=True):
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(weight))
            linear.bias.copy_(torch.tensor(bias))
        modules += [linear, torch.nn.ReLU()]
    with torch.no_grad():
        logits = torch.nn.Sequential(*modules[:-1]).eval()(torch.tensor(x)[None])[0]
    return int(logits[0] >= 0) if network.n_outputs == 1 else int(logits.argmax())


@pytest.mark.parametrize("seed", range(8))
def test_every_witness_is_inside_the_changes_and_flips_the_class_everywhere(seed: int):
    """Inside Δ and flipping: as holdfast says, in fractions, and in scikit-learn's and torch's own forward passes."""
    rng = np.random.default_rng([4, seed])
    replayed = 0
    for _ in range(25):
        case = _near_zero(_random_case(rng, 2), rng)
        certs = hf.certify(case.network, case.X, case.target, case.changes)
        for i, x in enumerate(case.X):
            witness = certs.witness(i)
            if certs.verdict[i] is not hf.Verdict.NOT_ROBUST:
                assert witness is None
                continue
            replayed += 1
            assert case.changes.contains(case.network, witness)
            assert inside_exactly(case.network, case.changes, witness)
            assert witness.predict_index(x[None])[0] != case.target
            assert exact_class(witness, x) != case.target
            assert _torch_class(witness, x) != case.target
            assert _sklearn_class(witness, x) != case.target
    assert replayed > 12


def test_the_frameworks_that_replay_witnesses_are_set_up_rightly():
    """The hand-made estimators give what `Network.predict` gives, for one logit and for several, at every depth."""
    rng = np.random.default_rng(5)
    for outputs in (1, 2, 4):
        for hidden in HIDDEN:
            network = random_network(rng, 3, hidden, outputs)
            for x in random_points(rng, 5, 3):
                expected = network.predict_index(x[None])[0]
                assert (
                    _sklearn_class(network, x)
                    == _torch_class(network, x)
                    == exact_class(network, x)
                    == expected
                )


# --- a million changed networks ---------------------------------------------------------------------------------------

POINTS, SAMPLED, RESTARTS, STEPS = 100, 7_800, 200, 10


class Edge(NamedTuple):
    """A point of class `target`, robust at delta `low` and not at `high` according to the MILP."""

    network: hf.Network
    x: np.ndarray
    target: int
    low: float
    high: float


def _edges(rng: np.random.Generator) -> Iterator[Edge]:
    while True:
        outputs = int(rng.choice([1, 3]))
        network = random_network(rng, 4, [(), (8,), (8, 6), (5, 5, 5)][rng.integers(0, 4)], outputs)
        x = random_points(rng, 1, 4)[0]
        target = int(network.predict_index(x[None])[0])

        def least(delta: float) -> float:
            return least_margins_milp(network, x, target, hf.PlausibleChanges(delta))  # noqa: B023

        if least(0.01) > 0 > least(0.5):
            radius = float(brentq(least, 0.01, 0.5, xtol=1e-5))
            yield Edge(network, x, target, radius - 2e-5, radius + 2e-5)


@pytest.mark.parametrize("seed", range(10))
def test_no_sampled_or_searched_network_breaks_a_robust_point(seed: int):
    """A tenth of a million for each seed, at 0.99 of each point's radius, where the margin left is thin."""
    rng = np.random.default_rng([6, seed])
    tried = broken = 0
    for network, x, target, low, _ in islice(_edges(rng), POINTS // 10):
        changes = hf.PlausibleChanges(0.99 * low)
        assert hf.certify(network, x[None], target, changes).robust.tolist() == [True]
        batches = [
            sample_changed(network, changes, SAMPLED // 2, rng, corners=corners)
            for corners in (True, False)
        ]
        batches += adversarial_changed(
            network, changes, x, target, restarts=RESTARTS, steps=STEPS, rng=rng
        )
        for batch in batches:
            classes = batch.classify(x[None])[:, 0]
            tried += len(classes)
            broken += int((classes != target).sum())
    assert tried == POINTS // 10 * (SAMPLED + RESTARTS * (STEPS + 1)) >= 100_000
    assert broken == 0


def test_the_same_search_breaks_points_just_beyond_their_radius():
    """At 1.02 times the radius it finds a counter-model for most points: the million above is a real attempt."""
    rng = np.random.default_rng(7)
    outcomes = []
    for network, x, target, _, high in islice(_edges(rng), 12):
        changes = hf.PlausibleChanges(1.02 * high)
        assert hf.certify(network, x[None], target, changes).robust.tolist() == [False]
        counter_model, _ = search_counter_model(
            network, changes, x, target, restarts=RESTARTS, steps=STEPS
        )
        outcomes.append(counter_model is not None)
    assert np.mean(outcomes) >= 0.8


def test_margins_are_bounds_of_the_exact_fraction():
    """margin_lower <= the least margin <= margin_upper in fractions, where the fraction is cheap."""
    rng = np.random.default_rng(8)
    for hidden in [(), (4,), (2, 3), (3, 2)]:
        for outputs in (1, 3):
            network = random_network(rng, 3, hidden, outputs)
            X = random_points(rng, 6, 3)
            target = int(network.predict_index(X)[0])
            changes = random_changes(rng, len(network.weights))
            certs = hf.certify(network, X, target, changes)
            for i, x in enumerate(X):
                exact = min(least_margins_exact(network, x, target, changes).values())
                lower, upper = float(certs.margin_lower[i]), float(certs.margin_upper[i])
                assert lower == -np.inf or Fraction(lower) <= exact
                assert upper == np.inf or exact <= Fraction(upper)
                assert lower > -np.inf or upper < np.inf


def test_where_only_the_papers_test_fails_the_answer_is_unknown_and_not_a_claim():
    network = hf.Network([[[1.0]], [[1.0], [0.5], [0.0]]], [[1.0], [0.0, 0.0, 0.0]])
    changes = hf.PlausibleChanges((0.5, 0.0))
    joint, separate = (
        hf.certify(network, [[1.0]], 0, changes, method=m) for m in ("joint", "separate")
    )
    assert joint.verdict[0] is hf.Verdict.ROBUST
    assert separate.verdict[0] is hf.Verdict.UNKNOWN
    assert separate.margin_lower[0] <= joint.margin_lower[0] <= separate.margin_upper[0]


def test_verdicts_compare_with_their_names():
    certs = hf.certify(
        hf.Network([[[-1.0, 1.0]]], [[0.0]]), [[0.7, 0.9], [0.7, 0.7]], 1, hf.PlausibleChanges(0.01)
    )
    assert (certs.verdict == "ROBUST").tolist() == [True, False]
    assert all(verdict.meaning for verdict in hf.Verdict)


@pytest.mark.parametrize("outputs", [1, 3])
def test_without_hidden_layers_the_interval_bound_is_the_least_margin(outputs):
    rng = np.random.default_rng(3)
    network = hf.Network([rng.normal(size=(outputs, 4))], [rng.normal(size=outputs)])
    points, changes = rng.normal(size=(200, 4)), hf.PlausibleChanges(0.1)
    bounds = hf.certify(network, points, 0, changes, method="interval").to_frame()
    assert set(bounds.decided_by) == {"forward pass", "closed form"}
    kept = bounds[bounds.decided_by == "closed form"]
    assert set(kept.verdict) == {"ROBUST", "NOT_ROBUST"}
    np.testing.assert_allclose(kept.margin_upper, kept.margin_lower, rtol=0.0, atol=1e-12)
