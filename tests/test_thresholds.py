"""Decision thresholds: one place, every verb, and whoever brings one of its own."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import holdfast as hf
from holdfast import checker, metrics
from holdfast.errors import InvalidInputError
from holdfast.importers._thresholds import lowered, offsets
from holdfast.presentation.report._beside import chances
from holdfast.promises import promise_expiry
from holdfast.verify._exact import parameters


@pytest.fixture(scope="module")
def table() -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    return X, (X["a"] + X["b"] - 0.5 * X["c"] + rng.normal(0.0, 0.5, 300) > 0).astype(
        int
    ).to_numpy()


def _models(X: pd.DataFrame, y: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {
        "regression": LogisticRegression().fit(X, y),
        "network": make_pipeline(
            StandardScaler(), MLPClassifier((5,), max_iter=800, random_state=0, tol=1e-3)
        ).fit(X, y),
        "forest": RandomForestClassifier(20, random_state=0).fit(X, y),
    }


@pytest.mark.parametrize("name", ["regression", "network", "forest"])
@pytest.mark.parametrize("threshold", [0.3, 0.7])
def test_what_is_promised_is_what_the_threshold_says(table, name, threshold) -> None:
    X, y = table
    model = _models(X, y)[name]
    accepted = model.predict_proba(X)[:, 1] >= threshold
    assert (
        hf.load_model(model, threshold).classifier.predict(hf.load_model(model).variables(X))
        == accepted
    ).all()
    denied = X[~accepted].head(10)
    space = hf.FeatureSpace.from_frame(X, scale="none") if name != "network" else None
    result = hf.explain(
        model,
        denied,
        target=1,
        changes=hf.PlausibleShift(0.2),
        generator=hf.RNCE(X),
        space=space,
        threshold=threshold,
    )
    promised = result.counterfactuals[result.found]
    assert result.robust.sum() == result.found.sum() > 0
    assert (model.predict_proba(promised)[:, 1] >= threshold).all()
    radius = hf.certified_radius(
        model, promised, 1, changes=hf.PlausibleShift(0.0), space=result.space, threshold=threshold
    )
    odds = np.log(model.predict_proba(promised)[:, 1]) - np.log(model.predict_proba(promised)[:, 0])
    expected = np.minimum(odds, math.log(2.0**53)) - math.log(threshold / (1.0 - threshold))
    assert radius.lower == pytest.approx(expected, abs=1e-9)
    again = hf.Recourse.of(
        model,
        result.points[result.found],
        denied[result.found],
        target=1,
        space=result.space,
        threshold=threshold,
    )
    assert metrics.validity(again) == 1.0
    assert metrics.validity_retrained(result, [model]) == 1.0


def test_bound_and_verdict_are_those_of_the_moved_bias(table) -> None:
    X, y = table
    network = hf.load_network(
        MLPClassifier((5, 4), max_iter=500, random_state=1, tol=1e-3).fit(X, y)
    )
    changes = hf.PlausibleChanges(0.02)
    moved = network.with_parameters(
        network.weights, [*network.biases[:-1], network.biases[-1] - math.log(0.8 / 0.2)]
    )
    ours, theirs = (
        hf.certify(network, X.to_numpy(), 1, changes, threshold=0.8), hf.certify(moved, X.to_numpy(), 1, changes)
    )  # fmt: skip
    assert (ours.verdict == theirs.verdict).all()
    assert ours.margin_lower == pytest.approx(theirs.margin_lower)


def test_thresholds_that_models_bring(table) -> None:
    X, y = table
    for inner in (LogisticRegression(), RandomForestClassifier(10, random_state=0), GaussianNB()):
        for model in (
            FixedThresholdClassifier(inner, threshold=0.7),
            TunedThresholdClassifierCV(inner, cv=3),
        ):
            model.fit(X, y)
            loaded = hf.load_model(model)
            assert (loaded.classifier.predict(loaded.variables(X)) == model.predict(X)).all()
            assert loaded.threshold == pytest.approx(getattr(model, "best_threshold_", 0.7))
    other = FixedThresholdClassifier(LogisticRegression(), threshold=0.7, pos_label=0).fit(X, y)
    assert (hf.load_model(other).classifier.predict(X.to_numpy()) == other.predict(X)).all()
    with pytest.raises(hf.HoldfastError, match=r"expected the model's own"):
        hf.load_model(other, 0.6)
    piped = make_pipeline(
        StandardScaler(), FixedThresholdClassifier(LogisticRegression(), threshold=0.6)
    ).fit(X, y)
    loaded = hf.load_model(piped)
    assert (loaded.network.predict(loaded.variables(X)) == piped.predict(X)).all()


@pytest.mark.parametrize(
    "inner",
    [
        LogisticRegression(),
        MLPClassifier((4,), max_iter=600, random_state=0, tol=1e-3),
        LinearSVC(),
    ],
)
def test_a_sigmoid_over_one_classifier(table, inner) -> None:
    X, y = table
    model = CalibratedClassifierCV(
        FrozenEstimator(inner.fit(X[:150], y[:150])), method="sigmoid"
    ).fit(X[150:], y[150:])
    for threshold in (None, 0.35, 0.8):
        loaded = hf.load_model(model, threshold)
        expected = model.predict_proba(X)[:, 1] >= (0.5 if threshold is None else threshold)
        assert (loaded.network.predict(X.to_numpy()) == expected).all()
    for refused in (
        CalibratedClassifierCV(LogisticRegression(), method="sigmoid", cv=3).fit(X, y),
        CalibratedClassifierCV(FrozenEstimator(inner), method="isotonic").fit(X, y),
    ):
        with pytest.raises(hf.HoldfastError, match="CalibratedClassifierCV"):
            hf.load_network(refused)


@pytest.mark.parametrize(
    "inner", [LogisticRegression(C=100.0), MLPClassifier((4,), max_iter=600, random_state=0)]
)
def test_the_threshold_of_a_calibrated_model_moves_on_its_own_probabilities(
    table, tmp_path, inner
) -> None:
    X, y = table
    noisy = np.where(np.arange(len(y)) % 4 == 0, 1 - y, y)
    model = CalibratedClassifierCV(FrozenEstimator(inner.fit(X, y)), method="sigmoid").fit(X, noisy)
    chances, changes = (
        model.predict_proba(X)[:, 1],
        hf.PlausibleChanges(1e-9, threshold=(0.4, 0.65)),
    )
    assert (hf.certify(model, X, 1, changes).robust == (chances >= 0.65)).all()
    assert (hf.certify(model, X, 0, changes).robust == (chances < 0.4)).all()
    between = X[(chances > 0.51) & (chances < 0.64)]
    assert len(between)
    ledger = hf.Ledger(tmp_path / "promises.ledger")
    with pytest.raises(hf.HoldfastError, match="threshold: expected a fixed one"):
        ledger.add_frame(model, between, between, target=1, changes=changes)
    # A threshold near 1 on calibrated probabilities is kept to the last bit, and so is what an audit says of it.
    high = float(np.sort(chances)[-6:-4].mean())
    told = X[chances >= high]
    ledger.add_frame(model, told, told, target=1, changes=hf.PlausibleChanges(1e-9), threshold=high)
    recorded = pd.concat([ledger.find(key) for key in told.index])["verdict"].to_numpy()
    expected = hf.certify(model, told, 1, hf.PlausibleChanges(1e-9), threshold=high).verdict
    assert (recorded == expected.astype(str)).all()
    assert hf.audit(ledger, model, threshold=high).kept
    rejected = X[chances < high].head(1)
    with pytest.raises(hf.HoldfastError, match="another class under this model"):
        ledger.add_frame(model, rejected, rejected, target=1, changes=None, threshold=high)


@pytest.mark.parametrize(
    "model", [SGDClassifier(random_state=0), RidgeClassifier(), LinearSVC(), Perceptron()]
)
@pytest.mark.parametrize("several", [False, True])
def test_linear_classifiers_with_a_margin(table, model, several) -> None:
    X, y = table
    labels = np.where(X["a"] > 1.0, 2, y) if several else y
    model.fit(X, labels)
    network = hf.load_network(model)
    assert network.hidden == ()
    assert (network.predict(X.to_numpy()) == model.predict(X)).all()


def test_several_classes_by_label(table) -> None:
    X, y = table
    labels = np.where(X["a"] > 1.0, "c", np.where(y == 1, "b", "a"))
    model = LogisticRegression().fit(X, labels)
    cut = {"a": 0.2, "b": 0.5, "c": 0.3}
    loaded = hf.load_model(model, cut)
    expected = model.classes_[(model.predict_proba(X) / np.array([0.2, 0.5, 0.3])).argmax(axis=1)]
    assert (loaded.classifier.predict(X.to_numpy()) == expected).all()
    assert offsets((0.2, 0.5, 0.3)) == [math.log(0.2), math.log(0.5), math.log(0.3)]
    with pytest.raises(hf.HoldfastError, match="a probability for each of the classes"):
        hf.load_model(model, 0.7)


@pytest.mark.parametrize("kind", ["parameters", "shift", "ellipsoid"])
def test_a_promise_that_survives_a_change_of_policy(table, kind) -> None:
    X, y = table
    model = LogisticRegression().fit(X, y)
    make = {
        "parameters": lambda **given: hf.PlausibleChanges(0.01, **given),
        "shift": lambda **given: hf.PlausibleShift(0.1, **given),
        "ellipsoid": lambda **given: hf.Ellipsoid(np.eye(4) * 1e4, 1.0, **given),
    }[kind]
    for target, hardest in ((1, 0.8), (0, 0.4)):
        moving = hf.certify(model, X, target, make(threshold=(0.4, 0.8)), threshold=0.6)
        still = hf.certify(model, X, target, make(), threshold=hardest)
        assert (moving.verdict == still.verdict).all()
        assert (
            0
            < moving.robust.sum()
            < hf.certify(model, X, target, make(), threshold=0.6).robust.sum()
        )
        radii = [
            hf.certified_radius(model, X[:50], target, changes=c, threshold=t).lower
            for c, t in ((make(threshold=(0.4, 0.8)), 0.6), (make(), hardest))
        ]
        assert (radii[0] == radii[1]).all()
    changes = make(threshold=(0.4, 0.8))
    assert "whichever threshold from 0.4 to 0.8 is used" in changes.every_model
    assert type(changes).from_dict(changes.to_dict()) == changes
    assert changes.resized(changes.size).threshold == (0.4, 0.8)
    denied = X[model.predict_proba(X)[:, 1] < 0.6].head(4)
    result = hf.explain(
        model, denied, target=1, changes=changes, generator=hf.Closest(), threshold=0.6
    )
    assert (model.predict_proba(result.counterfactuals[result.found])[:, 1] >= 0.8).all()
    with pytest.raises(hf.HoldfastError, match="one target class for all rows"):
        hf.certify(model, X, y, changes)


def test_the_ledger_keeps_the_threshold_of_the_advice(table, tmp_path) -> None:
    X, y = table
    model = LogisticRegression().fit(X, y)
    denied = X[model.predict_proba(X)[:, 1] < 0.7].head(5)
    result = hf.explain(
        model,
        denied,
        target=1,
        changes=hf.PlausibleChanges(0.01),
        generator=hf.Closest(),
        threshold=0.7,
    )
    ledger = hf.Ledger(tmp_path / "promises.ledger")
    ledger.add(result)
    assert [terms.threshold for terms in ledger.terms] == [0.7]
    assert hf.audit(ledger, model, threshold=0.7).to_frame()["status"].str.startswith("KEPT").all()
    assert (
        not hf.audit(ledger, model, threshold=0.95)
        .to_frame()["status"]
        .str.startswith("KEPT")
        .all()
    )
    own = FixedThresholdClassifier(LogisticRegression(), threshold=0.7).fit(X, y)
    assert hf.audit(ledger, own).to_frame()["status"].str.startswith("KEPT").all()


@pytest.mark.parametrize("threshold", [0.0, 1.0, -1, math.nan, True, "half", (0.1, 0.2)])
def test_what_is_no_threshold(table, threshold) -> None:
    X, y = table
    with pytest.raises(hf.HoldfastError, match="threshold: expected"):
        hf.certify(
            LogisticRegression().fit(X, y), X, 1, hf.PlausibleChanges(0.01), threshold=threshold
        )
    with pytest.raises(hf.HoldfastError, match="threshold: expected"):
        hf.PlausibleShift(0.1, threshold=threshold if threshold != (0.1, 0.2) else (0.2, 0.1))


@pytest.mark.parametrize("kind", ["parameters", "shift", "ensemble", "ellipsoid"])
def test_certificates_state_the_threshold_and_the_checker_minds_it(table, kind) -> None:
    X, y = table
    model = LogisticRegression().fit(X, y)
    network = hf.load_network(model)
    changes = {
        "parameters": hf.PlausibleChanges(0.01, threshold=(0.6, 0.8)),
        "shift": hf.PlausibleShift(0.1, threshold=(0.6, 0.8)),
        "ensemble": hf.EnsembleShift([LogisticRegression(C=0.5).fit(X, y)], 0.1),
        "ellipsoid": hf.Ellipsoid(np.eye(4) * 1e4, 1.0),
    }[kind]
    certs = hf.certify(model, X, 1, changes, threshold=0.7)
    rows = [int(np.flatnonzero(certs.robust == holds)[0]) for holds in (True, False)]
    for row in rows:
        document = hf.certificate(certs, row)
        hardest = 0.8 if changes.threshold else 0.7
        assert document["threshold"]["probability"] == hardest
        assert f"at the threshold {hardest}" in document["statement"]
        assert hf.check_certificate(document, network).accepted
        for forged in (
            {**document, "threshold": {"probability": 0.5, "offsets": [0.0]}},
            {**document, "threshold": {**document["threshold"], "probability": 0.9}},
            {**document, "threshold": {**document["threshold"], "offsets": [0.1]}},
            {key: part for key, part in document.items() if key != "threshold"},
        ):
            forged = forged | {"statement": checker.statement(forged), "id": ""}
            forged["id"] = checker.sha256(forged)
            accepted = hf.check_certificate(forged, network).accepted
            stated = forged.get("threshold", {"probability": 0.5, "offsets": [0.0]})
            consistent = (
                stated["offsets"] == [0.0]
                and stated["probability"] == 0.5
                and changes.threshold is None
            )
            # At a half it is another statement, which the certificate may prove or not; all else contradicts itself.
            still = hf.certify(model, X[row : row + 1], 1, changes).verdict[0]
            assert accepted <= (consistent and str(still) == document["verdict"])
    assert (
        hf.certificate(hf.certify(model, X, 1, hf.PlausibleShift(0.1)), rows[0]).get("threshold")
        is None
    )


def test_an_audit_asks_at_the_threshold_of_the_promises(table, tmp_path) -> None:
    X, y = table
    today, later = (
        RandomForestClassifier(20, random_state=0).fit(X, y),
        RandomForestClassifier(20, random_state=1).fit(X, y),
    )
    space = hf.FeatureSpace.from_frame(X, scale="none")
    denied = X[today.predict_proba(X)[:, 1] < 0.8].head(60)
    asked = {
        "target": 1,
        "changes": hf.PlausibleShift(0.0),
        "generator": hf.NNCE(X),
        "space": space,
    }
    advice = hf.explain(today, denied, **asked, threshold=0.8)
    kept = later.predict_proba(advice.counterfactuals)[:, 1] >= 0.8
    assert (later.predict(advice.counterfactuals)[~kept] == 1).any()
    with hf.Ledger(tmp_path / "promises.ledger") as ledger:
        ledger.add(advice)
        assert (hf.audit(ledger, later).broken == ~kept).all()
        # A model that brings a threshold of its own decides at that one.
        moved = FixedThresholdClassifier(
            FrozenEstimator(later), threshold=0.6, response_method="predict_proba"
        ).fit(X, y)
        assert (
            hf.audit(ledger, moved).broken == (moved.predict(advice.counterfactuals) != 1)
        ).all()
        for promises in (ledger, advice):
            assert promise_expiry(promises, [today, later], horizon=1).share[0] == pytest.approx(
                kept.mean()
            )
        ledger.add(hf.explain(today, denied, **asked, threshold=0.9))
        with pytest.raises(
            hf.HoldfastError,
            match=r"threshold: expected one, because promises were made at 0\.8, 0\.9",
        ):
            hf.audit(ledger, later)


def test_a_calibrated_chance_is_about_the_threshold(table) -> None:
    X, y = table
    today = RandomForestClassifier(20, random_state=0).fit(X, y)
    later = [RandomForestClassifier(20, random_state=i).fit(X, y) for i in range(1, 12)]
    space = hf.FeatureSpace.from_frame(X, scale="none")
    asked: dict[str, Any] = {"target": 1, "generator": hf.NNCE(X), "space": space, "threshold": 0.8}
    risk = hf.risk_calibrated(today, X[:60], retrained=later, **asked, settings=[0.0], coverage=0.1)
    denied = X[:60][today.predict_proba(X[:60])[:, 1] < 0.8]
    promised = hf.explain(today, denied, changes=hf.PlausibleShift(0.0), **asked).counterfactuals
    assert risk.losses[:, 0] == pytest.approx(
        [(m.predict_proba(promised)[:, 1] < 0.8).mean() for m in later]
    )


def test_a_study_at_a_threshold() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(300, 2)), columns=["a", "b"])
    y = (X["a"] + X["b"] + rng.normal(0.0, 0.2, 300) > 1.0).astype(int)
    tables = {"mine": (X, y, hf.FeatureSpace.from_frame(X))}
    found = {
        threshold: hf.benchmark(
            tables, models=LogisticRegression(), methods=["nnce"], deltas=[0.01], seeds=1, inputs=10,
            retrained={"complete": 2}, threshold=threshold, progress=False,
        ).results["cost_l1"].mean()
        for threshold in (None, 0.5, 0.9)
    }  # fmt: skip
    assert found[None] == found[0.5] < found[0.9]


@pytest.mark.parametrize(
    "model", [SGDClassifier(loss="modified_huber", random_state=0), LinearSVC(), Perceptron()]
)
def test_a_threshold_takes_scores_that_are_log_odds(table, model) -> None:
    """A hinge's score is none: at 0.3 a person whom the model gives 20% was called accepted."""
    X, y = table
    with pytest.raises(hf.HoldfastError, match="log-odds of probabilities"):
        hf.load_model(make_pipeline(StandardScaler(), model).fit(X, y), 0.3)
    several = SGDClassifier(loss="log_loss", random_state=0).fit(X, np.where(X["a"] > 1.0, 2, y))
    with pytest.raises(hf.HoldfastError, match="log-odds of probabilities"):
        hf.load_model(several, (0.2, 0.3, 0.5))


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7, "auto"])
@pytest.mark.parametrize("positive", [0, 1])
def test_a_forest_at_a_tie_is_what_its_wrapper_predicts(table, threshold, positive) -> None:
    X, y = table
    model = FixedThresholdClassifier(
        RandomForestClassifier(10, random_state=0), threshold=threshold, pos_label=positive
    ).fit(X, y)
    rows = pd.DataFrame(np.random.default_rng(1).normal(size=(500, 3)), columns=X.columns)
    for label in (0, 1):
        kept = hf.certify(model, rows, label, hf.PlausibleShift(0.0)).robust
        assert (kept == (model.predict(rows) == label)).all()


def test_margins_that_are_no_log_odds_are_not_compared_with_a_threshold(table) -> None:
    X, y = table
    model = AdaBoostClassifier(n_estimators=8, random_state=0).fit(X, y)
    for threshold in (0.45, 0.55):
        robust = hf.certify(model, X, 1, hf.PlausibleShift(0.0), threshold=threshold).robust
        assert (robust == (model.predict_proba(X)[:, 1] >= threshold)).all()
    with pytest.raises(hf.HoldfastError, match="gives probabilities"):
        hf.certify(SVC().fit(X, y), X, 1, hf.PlausibleShift(0.0), threshold=0.6)


def test_a_sigmoid_over_a_wrapper_is_what_it_predicts(table) -> None:
    X, y = table
    regression = LogisticRegression().fit(X, y)
    inside = FixedThresholdClassifier(regression, threshold=0.8).fit(X, y)
    again = CalibratedClassifierCV(FrozenEstimator(regression)).fit(X[:20], y[:20])
    for inner in (inside, again):
        model = CalibratedClassifierCV(FrozenEstimator(inner)).fit(X, y)
        assert (hf.certify(model, X, 1, hf.PlausibleShift(0.0)).robust == model.predict(X)).all()


_MLP = MLPClassifier((4,), max_iter=900, random_state=0, tol=1e-3)


@pytest.mark.parametrize("inner", [LogisticRegression(C=0.01), _MLP])
def test_a_moving_threshold_is_one_on_calibrated_probabilities(table, inner) -> None:
    X, y = table
    model = CalibratedClassifierCV(FrozenEstimator(inner.fit(X, y))).fit(X, y)
    for own in (None, 0.6):
        kept = hf.certify(
            model, X, 1, hf.PlausibleShift(0.0, threshold=(0.55, 0.8)), threshold=own
        ).robust
        assert (kept == (model.predict_proba(X)[:, 1] >= 0.8)).all()


def test_probabilities_in_a_report_are_the_models_own(table) -> None:
    X, y = table
    inner = MLPClassifier((4,), max_iter=900, random_state=0, tol=1e-3).fit(X, y)
    model = CalibratedClassifierCV(FrozenEstimator(inner)).fit(X, y)
    denied = X[model.predict(X) == 0].head(3)
    result = hf.explain(
        model, denied, target=1, changes=hf.PlausibleShift(0.1), generator=hf.NNCE(X)
    )
    assert chances(result, result.points) == pytest.approx(
        model.predict_proba(result.counterfactuals)[:, 1]
    )
    machine = make_pipeline(StandardScaler(), LinearSVC()).fit(X, y)
    result = hf.explain(
        machine, denied, target=1, changes=hf.PlausibleShift(0.1), generator=hf.NNCE(X)
    )
    assert np.isnan(chances(result, result.points)).all()


def test_kept_promises_are_counted_at_their_threshold(table) -> None:
    X, y = table
    history = [LogisticRegression().fit(X[i::6], y[i::6]) for i in range(6)]
    denied = X[history[0].predict_proba(X)[:, 1] < 0.7].head(30)
    result = hf.explain(
        history[0],
        denied,
        target=1,
        changes=hf.PlausibleShift(0.0),
        generator=hf.RNCE(X),
        threshold=0.7,
    )
    kept = [model.predict_proba(result.counterfactuals)[:, 1] >= 0.7 for model in history]
    expected = np.mean([after[before].mean() for before, after in pairwise(kept)])
    assert expected < 1.0
    assert hf.promise_expiry(result, history, horizon=1).share[0] == pytest.approx(expected)


def test_thresholds_may_come_as_an_array(table) -> None:
    X, y = table
    model = LogisticRegression().fit(X, np.where(X["a"] > 1.0, 2, y))
    loaded = hf.load_model(model, np.array([0.2, 0.3, 0.5]))
    assert loaded.threshold == (0.2, 0.3, 0.5)
    assert loaded.at(np.array([0.2, 0.3, 0.5])) is loaded
    with pytest.raises(hf.HoldfastError, match="for each of the classes"):
        hf.load_model(model, pd.Series([0.2, 0.3, 0.5]))


def test_a_threshold_that_rounding_would_lose_is_refused():
    """By holdfast, and by the checker, whatever a certificate says of it."""
    network = hf.Network([[[-(2.0**54), 0.5]]], [[2.0**54]])
    with pytest.raises(InvalidInputError, match="threshold: expected a model whose last biases"):
        hf.certify(network, [[1.0, 1.0]], 1, hf.PlausibleChanges(0.01), threshold=0.7)
    model = checker.PlainModel.read(parameters(network))
    (off,) = offsets(0.7)
    with pytest.raises(checker.CheckError, match="too large for"):
        model.at({"probability": 0.7, "offsets": [off]})
    # A logit that is another one by a trillionth is another threshold.
    with pytest.raises(checker.CheckError, match="expected the logits"):
        checker.read_offsets({"probability": 0.7, "offsets": [off - 1e-12]}, 1)
    assert checker.read_offsets({"probability": 0.7, "offsets": [off]}, 1) == [off]


def test_two_logits_lose_no_more_than_one():
    """Where two biases are rounded towards each other, the margin between them loses both."""
    off = [9e-10, -9e-10, 0.0]
    network = hf.Network([[[0.0]] * 3], [[2.0**23 + 1.0] * 3])
    model = checker.PlainModel.read(parameters(network))
    with pytest.raises(checker.CheckError, match="too large for"):
        model.at({"probability": None, "offsets": off})
    with pytest.raises(InvalidInputError, match="threshold: expected a model whose last biases"):
        lowered(network, off)


@pytest.mark.parametrize(("target", "hardest"), [(1, 0.1), (0, 0.9)])
def test_the_ends_of_a_threshold_that_may_move_are_in_order(target: int, hardest: float):
    """Turned round, the easiest of them would pass for the hardest."""
    network = hf.Network([[[1.0]]], [[0.0]])
    changes = hf.PlausibleChanges(0.01, threshold=(hardest, hardest))
    certs = hf.certify(network, [[target - 0.5]], target, changes, threshold=hardest)
    document = hf.certificate(certs, 0)
    for ends in ([0.1, 0.9], [0.9, 0.1]):
        forged = {**document, "changes": {**document["changes"], "threshold": ends}, "id": ""}
        forged["statement"] = checker.statement(forged)
        forged["id"] = checker.sha256(forged)
        report = hf.check_certificate(forged, network)
        assert not report.accepted
        assert "expected the hardest" in report.reason


NET = hf.Network([[[1.0]]], [[-0.2]])
ABOVE = hf.PlausibleChanges(0.01, threshold=(0.2, 0.3))


@pytest.mark.parametrize(
    "changes",
    [
        ABOVE,
        hf.PlausibleShift(0.01, threshold=(0.2, 0.3)),
        hf.EnsembleShift([NET, NET], 0.01, threshold=(0.2, 0.3)),
        hf.Ellipsoid(np.eye(2) * 1e4, 1.0, threshold=(0.2, 0.3)),
    ],
    ids=lambda changes: changes.kind,
)
@pytest.mark.parametrize("target", [0, 1])
def test_a_range_of_thresholds_is_that_range_whatever_todays_is(changes, target) -> None:
    """p = .45 at 0: above every threshold from .2 to .3, so that class 1 is proven and class 0 is lost."""
    points = [[0.0], [-0.9], [-0.5]]
    moving = hf.certify(NET, points, target, changes)
    each = [
        hf.certify(NET, points, target, changes.moving(None), threshold=t).robust
        for t in (0.2, 0.25, 0.3)
    ]
    assert moving.robust.tolist() == np.all(each, axis=0).tolist()
    assert (moving.verdict[0] == "ROBUST") == (target == 1)
    assert not hf.certify(NET, points, 1, changes.moving(None)).robust.any()
    for row in np.flatnonzero(moving.verdict == "NOT_ROBUST"):
        # The witness decides at the hardest threshold of the range.
        witness = moving.witness(int(row))
        assert witness.predict_index(np.array([points[row]]))[0] != target
        document = hf.certificate(moving, int(row))
        hardest = 0.3 if target == 1 else 0.2
        assert document["threshold"]["probability"] == hardest
        assert hf.check_certificate(document, NET).accepted
    radius = hf.certified_radius(NET, points, target, changes=changes)
    hardest = hf.certified_radius(
        NET, points, target, changes=changes.moving(None), threshold=0.3 if target == 1 else 0.2
    )
    assert radius.lower.tolist() == hardest.lower.tolist()
    assert radius.upper.tolist() == hardest.upper.tolist()


def test_a_range_of_thresholds_in_trees_is_that_range(table) -> None:
    X, y = table
    for model in (
        RandomForestClassifier(9, max_depth=3, random_state=0).fit(X, y),
        GradientBoostingClassifier(n_estimators=30, random_state=0).fit(X, y),
    ):
        for target, hardest in ((1, 0.3), (0, 0.2)):
            moving = hf.certify(
                model, X, target, hf.TreeChanges(leaves=0.001, threshold=(0.2, 0.3))
            )
            still = hf.certify(model, X, target, hf.TreeChanges(leaves=0.001), threshold=hardest)
            assert (moving.verdict == still.verdict).all()
            assert moving.robust.any()


def test_a_statement_names_the_threshold_that_was_the_hardest() -> None:
    document = hf.certificate(hf.certify(NET, [[0.0]], 1, ABOVE), 0)
    assert "at the threshold 0.3" in document["statement"]
    assert "the hardest from 0.2 to 0.3" in document["statement"]
    assert hf.check_certificate(document, NET).accepted
    # A proof at another threshold is of another statement.
    other = hf.certificate(hf.certify(NET, [[0.9]], 1, hf.PlausibleChanges(0.01), threshold=0.4), 0)
    forged = {**other, "changes": document["changes"], "id": ""}
    forged["statement"] = checker.statement(forged)
    forged["id"] = checker.sha256(forged)
    assert "expected the hardest" in hf.check_certificate(forged, NET).reason


def test_advice_is_for_today_and_for_every_threshold_of_the_range() -> None:
    asked: dict[str, Any] = {"target": 1, "changes": ABOVE}
    found = hf.explain(NET, [[-1.0]], generator=hf.RNCE([[-0.5], [0.5]]), **asked)
    assert found.counterfactuals.to_numpy().tolist() == [[0.5]]
    assert found.robust.all()
    with pytest.raises(InvalidInputError, match="harder than every threshold"):
        hf.explain(NET, [[-1.0]], generator=hf.Closest(), **asked)
    # Where today's is no harder, it asks nothing beyond the range.
    near = hf.explain(NET, [[-2.0]], generator=hf.Closest(), threshold=0.15, **asked)
    assert near.robust.all()
    assert near.points[0, 0] == pytest.approx((math.log(0.3 / 0.7) + 0.21) / 0.99, abs=0.02)


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7])
@pytest.mark.parametrize(
    "inner",
    [
        HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2),
        GradientBoostingClassifier(n_estimators=3),
    ],
    ids=["hist", "gradient"],
)
def test_boosted_trees_at_a_tie_are_what_their_wrapper_predicts(inner, threshold, positive) -> None:
    """At p = .5 exactly, which is the first class where the threshold is one for it."""
    X = np.array([[0.0], [0.0], [1.0], [1.0], [2.0], [2.0]] * 10)
    y = np.array([0, 1, 0, 0, 1, 1] * 10)
    model = FixedThresholdClassifier(
        inner, threshold=threshold, pos_label=positive, response_method="predict_proba"
    ).fit(X, y)
    rows = np.array([[0.0], [1.0], [2.0]])
    assert model.estimator_.predict_proba(rows)[0, 1] == 0.5
    assert (hf.load_model(model).classifier.predict(rows) == model.predict(rows)).all()
    for label in (0, 1):
        for changes in (hf.PlausibleShift(0.0), hf.TreeChanges()):
            robust = hf.certify(model, rows, label, changes).robust
            assert (robust <= (model.predict(rows) == label)).all()
            # Only what is exactly at the threshold is left open.
            assert threshold == 0.5 or (robust == (model.predict(rows) == label)).all()
