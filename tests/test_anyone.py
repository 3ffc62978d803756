"""Models of any kind: what is said of a row is what the model itself says to that very row."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import holdfast as hf
from holdfast import metrics
from holdfast.errors import HoldfastError, InvalidInputError, UnsupportedModelError
from recourse_cases import SPACES

Scores = Callable[[pd.DataFrame], Any]
NUMBERS = ["age", "income", "savings", "months_of_history", "months_in_job", "guarantor"]


@dataclass(frozen=True)
class World:
    """A fitted model, another trained since, and what each of them says to rows of the caller's table by itself."""

    model: Any
    later: Any
    probabilities: Scores
    space: hf.FeatureSpace
    table: pd.DataFrame
    target: Any


def _people(space: str) -> tuple[pd.DataFrame, hf.FeatureSpace, Any]:
    make_people, make_space = SPACES[space]
    table = make_people(260, np.random.default_rng(5))
    numbers = table.select_dtypes("number").to_numpy(dtype=np.float64)
    ranks = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    return table, make_space(table), ranks[:, 0] - ranks[:, 1] + np.sin(2.0 * ranks[:, 2])


def _columns() -> Any:
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["job", "home"]), ("passthrough", NUMBERS)
    )


def _boosted(library: str, name: str, **settings: Any) -> Any:
    threads = {} if "thread_count" in settings else {"n_jobs": 1}
    return getattr(pytest.importorskip(library), name)(n_estimators=12, **threads, **settings)


# name: (space, labels in rising order, what it is fitted on, the estimator)
MODELS: dict[str, tuple[str, tuple[Any, ...], str, Callable[[], Any]]] = {
    "forest": ("continuous", (0, 1), "table", lambda: RandomForestClassifier(20, random_state=0)),
    "boosted trees": ("continuous", (False, True), "table", lambda: HistGradientBoostingClassifier(max_iter=15)),
    "boosted, on points": ("mixed", (1, 2), "points", lambda: GradientBoostingClassifier(n_estimators=15)),
    "boosted, on variables": ("mixed", (0, 1), "variables", lambda: HistGradientBoostingClassifier(max_iter=15)),
    "pipeline": ("mixed", ("no", "yes"), "table", lambda: make_pipeline(_columns(), RandomForestClassifier(20))),
    "pipeline, on an array": (
        "continuous", (0, 1), "array", lambda: make_pipeline(StandardScaler(), SVC()),
    ),
    "support vectors": ("continuous", ("deny", "grant"), "points", lambda: SVC(C=10.0)),
    "calibrated": (
        "continuous", (0, 1), "table",
        lambda: CalibratedClassifierCV(HistGradientBoostingClassifier(max_iter=10), cv=3, method="isotonic"),
    ),
    "search": ("continuous", (0, 1), "table", lambda: GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, cv=2)),
    "three classes": ("mixed", ("low", "mid", "top"), "points", lambda: RandomForestClassifier(20, random_state=0)),
    "xgboost": ("continuous", (0, 1), "table", lambda: _boosted("xgboost", "XGBClassifier")),
    "lightgbm": (
        "mixed", ("no", "yes"), "points", lambda: _boosted("lightgbm", "LGBMClassifier", verbose=-1),
    ),
    "lightgbm, three classes": (
        "continuous", (3, 5, 9), "table", lambda: _boosted("lightgbm", "LGBMClassifier", verbose=-1),
    ),
    "catboost": (
        "continuous", ("no", "yes"), "table",
        lambda: _boosted("catboost", "CatBoostClassifier", verbose=0, thread_count=1, allow_writing_files=False),
    ),
}  # fmt: skip
CHANGES = {"none": lambda w: None, "shift": lambda w: hf.PlausibleShift(0.4),
           "ensemble": lambda w: hf.EnsembleShift([w.later, w.model], 0.1)}  # fmt: skip
GENERATORS: dict[str, Callable[[pd.DataFrame], hf.Generator]] = {
    "nnce": hf.NNCE,
    "rnce": hf.RNCE,
    "rnce, certified": lambda table: hf.RNCE(table, certified_candidates=True),
    "rnce, line search": lambda table: hf.RNCE(table, line_search=True),
    "st-ce": lambda table: hf.STCE(table, k=32, sigma=0.02),
    "nnce, raised": lambda table: hf.Robust(hf.NNCE(table)),
}


@cache
def world(name: str) -> World:
    kind, labels, fitted_on, make = MODELS[name]
    table, space, score = _people(kind)
    parts = np.quantile(
        score, np.linspace(0, 1, len(labels) + 1)[1:-1] if len(labels) > 2 else [0.6]
    )
    y = np.array(labels)[np.searchsorted(parts, score)]
    reads: Scores = {
        "table": lambda rows: rows,
        "array": lambda rows: rows.to_numpy(),
        "points": space.encode,
        "variables": lambda rows: pd.DataFrame(space.encode(rows), columns=list(space.variables)),
    }[fitted_on]
    estimator = make()
    model, later = (
        estimator.fit(reads(table), y),
        clone(estimator).fit(reads(table.iloc[40:]), y[40:]),
    )
    margin = "decision_function" if not hasattr(model, "predict_proba") else "predict_proba"
    return World(
        model, later, lambda rows: getattr(model, margin)(reads(rows)), space, table, labels[-1]
    )


def own_margins(scores: Any, target: int) -> Any:
    """What a model's probabilities or decision function say of a class, in logits."""
    if scores.ndim == 1:
        return scores if target == 1 else -scores
    rest = np.delete(scores, target, axis=1).max(axis=1)
    return np.log(np.maximum(scores[:, target], 1e-300)) - np.log(np.maximum(rest, 1e-300))


@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_said_of_a_row_is_what_the_model_says_to_it(name: str, changes: str) -> None:
    w = world(name)
    loaded = hf.load_model(w.model)
    denied = w.table[
        loaded.in_space(w.space).classifier.predict(w.space.encode(w.table)) != w.target
    ].head(9)
    given = CHANGES[changes](w)
    for label, make in GENERATORS.items():
        if given is None and "raised" in label:
            continue
        result = hf.explain(
            w.model, denied, target=w.target, changes=given, generator=make(w.table), space=w.space
        )
        found = np.flatnonzero(result.found)
        assert found.size, (label, result.reason.tolist())
        rows = result.counterfactuals[list(w.space.names)].iloc[found].infer_objects()
        rows = rows.astype(w.table.dtypes.to_dict())
        margins = own_margins(np.asarray(w.probabilities(rows)), int(result.targets[0]))
        assert (margins > 0.0).all(), label
        assert result.calls.rows >= len(denied) + len(w.table) - 1
        assert not any(w.space.violations(rows, denied.iloc[found]))
        if result.classifier.decode is not None:
            pd.testing.assert_frame_equal(
                result.classifier.decode(result.points[found]),
                rows.reset_index(drop=True),
                check_exact=True,
            )
        if given is None:
            continue
        certificates = result.certificates
        assert certificates is not None
        np.testing.assert_allclose(certificates.margin_lower, certificates.margin_upper, atol=1e-9)
        if changes == "shift":
            np.testing.assert_array_equal(certificates.robust, margins >= 0.4)
            again = hf.certify(w.model, rows, w.target, given, space=w.space)
            np.testing.assert_array_equal(again.robust, certificates.robust)
            radius = hf.certified_radius(w.model, rows, w.target, changes=given, space=w.space)
            # Log-odds end where probabilities do, at 2^-53.
            np.testing.assert_allclose(
                radius.lower, np.minimum(margins, 53 * np.log(2)), rtol=1e-6, atol=1e-6
            )
        assert label.startswith(("nnce", "st-ce")) or certificates.robust.all(), label
        for i in np.flatnonzero(certificates.verdict == "NOT_ROBUST")[:3]:
            witness = certificates.witness(int(i))
            assert witness.predict(result.points[found[i]][None, :])[0] != w.target


def test_several_targets_and_prepared_candidates() -> None:
    w = world("three classes")
    classes = hf.load_model(w.model).in_space(w.space).classifier.predict(w.space.encode(w.table))
    people = w.table[classes == "low"].head(6)
    targets = ["mid", "top"] * 3
    shift = hf.PlausibleShift(0.2)
    kept = hf.RNCE(w.table).prepare(w.model, target=["mid", "top"], changes=shift, space=w.space)
    one, two = (
        hf.explain(
            w.model, people, target=targets, changes=shift, generator=hf.RNCE(table), space=w.space
        )
        for table in (w.table, kept)
    )
    assert one.found.all()
    assert one.robust.all()
    np.testing.assert_array_equal(one.points, two.points)
    assert w.model.predict(w.space.encode(one.counterfactuals)).tolist() == targets


# ------------------------------------------------------------------ the very row


def test_trees_that_split_at_the_data_get_the_very_row() -> None:
    """Thirds of thousands: long fractions, of which many share an encoding with a neighbour; splits between them."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.integers(-1500, 1500, 150) / 3.0, rng.uniform(-1e6, 1e6, 150)])
    low = np.nextafter(values, -np.inf)
    table = pd.DataFrame({"a": np.concatenate([values, low]), "b": rng.random(600)})
    y = np.repeat([1, 0], 300)
    space = hf.FeatureSpace.from_frame(table)
    seen = []

    def ask(rows: pd.DataFrame) -> Any:
        """Accepts what is one of these values to the last bit."""
        seen.append(rows)
        return np.where(rows["a"].isin(values), 0.9, 0.1)

    people = table[y == 0].head(40)
    result = hf.explain(hf.scored(ask), people, target=1, changes=hf.PlausibleShift(0.5),
                        generator=hf.NNCE(table), space=space)  # fmt: skip
    rows = result.counterfactuals[result.found]
    assert result.found.any()
    assert rows["a"].isin(values).all()
    assert all(
        "tell this row from another" in text
        for text in result.reason[~result.found]
        if "candidates" not in text
    )
    handed = result.classifier.decode(result.points[result.found])
    pd.testing.assert_frame_equal(handed, rows.reset_index(drop=True), check_exact=True)


def test_two_rows_that_the_space_cannot_tell_apart() -> None:
    table = pd.DataFrame({"a": [0.3, 0.1 + 0.2, 1e6, -1e6]})
    space = hf.FeatureSpace.from_frame(table)
    model = hf.scored(lambda rows: np.where(rows["a"] == 0.3, 0.9, 0.2))
    assert hf.certify(model, table.iloc[[0]], 1, hf.PlausibleShift(1.0), space=space).robust.all()
    assert not hf.certify(
        model, table.iloc[[1]], 1, hf.PlausibleShift(1.0), space=space
    ).robust.any()
    with pytest.raises(
        InvalidInputError, match="X: row 1: the space cannot tell this row from another"
    ):
        hf.certify(model, table, 1, hf.PlausibleShift(1.0), space=space)
    told = hf.certify(
        model,
        table,
        1,
        hf.PlausibleShift(1.0),
        space=hf.FeatureSpace.from_frame(table, scale="none"),
    )
    assert told.robust.tolist() == [True, False, False, False]


def test_an_array_is_read_as_networks_read_it() -> None:
    table, space, score = _people("continuous")
    y = (score > 0.0).astype(int)
    on_points = HistGradientBoostingClassifier(max_iter=10).fit(space.encode(table), y)
    shift = hf.PlausibleShift(0.1)
    ours = hf.certify(on_points, table, 1, shift, space=space).robust
    np.testing.assert_array_equal(ours, on_points.decision_function(space.encode(table)) >= 0.1)
    with pytest.raises(
        InvalidInputError,
        match="expected one with the 4 variables of a model that was fitted on an",
    ):
        hf.certify(on_points, table, 1, shift, space=hf.FeatureSpace.from_frame(table.iloc[:, :3]))
    on_table = HistGradientBoostingClassifier(max_iter=10).fit(table, y)
    with pytest.raises(InvalidInputError, match="space: expected the model's column 'd'"):
        hf.certify(on_table, table, 1, shift, space=hf.FeatureSpace.from_frame(table.iloc[:, :3]))


class ByName:
    """An object of one's own, which reads columns by name and says nothing about what it learned from."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, rows: pd.DataFrame) -> Any:
        yes = 1.0 / (1.0 + np.exp(-(rows["a"] - rows["b"] / 100.0)))
        return np.column_stack([1.0 - yes, yes])


def test_an_object_of_ones_own_reads_the_table() -> None:
    table, space, _ = _people("continuous")
    found = hf.certify(ByName(), table, "yes", hf.PlausibleShift(0.1), space=space)
    np.testing.assert_array_equal(
        found.robust, own_margins(ByName().predict_proba(table), 1) >= 0.1
    )


def test_a_service_is_asked_in_batches_and_the_calls_are_counted() -> None:
    table, space, score = _people("mixed")
    forest = RandomForestClassifier(10, random_state=0).fit(space.encode(table), score > 0.5)
    sizes = []

    def service(rows: pd.DataFrame) -> Any:
        sizes.append(len(rows))
        return forest.predict_proba(space.encode(rows))[:, 1]

    model = hf.scored(service, classes=("deny", "grant"), batch=64)
    denied = table[service(table) <= 0.5].head(5)
    sizes.clear()
    result = hf.explain(
        model,
        denied,
        target="grant",
        changes=hf.PlausibleShift(0.3),
        generator=hf.RNCE(table),
        space=space,
    )
    assert result.found.all()
    assert result.robust.all()
    assert max(sizes) <= 64
    assert (result.calls.calls, result.calls.rows) == (len(sizes), sum(sizes))
    assert "asked of the model" in result._repr_html_()
    sizes.clear()
    again = hf.explain(model, denied, target="grant", generator=hf.NNCE(table), space=space)
    assert again.calls.rows == sum(sizes)
    network = hf.explain(
        hf.Network([[[1.0]]], [[0.0]]), [[-1.0]], target=1, generator=hf.NNCE([[1.0]])
    )
    assert network.calls.calls == 0


# ------------------------------------------------------------------ retrained


@pytest.mark.parametrize(
    "name",
    ["forest", "pipeline", "boosted, on points", "xgboost", "lightgbm", "catboost", "search"],
)
def test_any_estimator_is_retrained_by_cloning(name: str) -> None:
    w = world(name)
    raw = MODELS[name][2] == "table"
    y = w.model.predict(w.table if raw else w.space.encode(w.table)).ravel()
    flips = np.random.default_rng(0).random(len(y)) < 0.1
    y = np.where(flips, w.target, y).astype(y.dtype)
    later = hf.retrain(w.model, w.table, y, how="leave_one_out", removed=0.3, n=3, space=w.space)
    assert len(later) == 3
    assert later.n_rows == 182
    assert not later.comparable
    assert re.search("known by their scores|trees of another structure", repr(later))
    with pytest.raises(UnsupportedModelError, match=r"only margins are known|have no gradient"):
        later.distances()
    table = w.table if raw else w.space.encode(w.table)
    scores = [later[i].predict_proba(table) for i in range(3)]
    assert not np.array_equal(scores[0], scores[1])
    denied = w.table[(w.model.predict(table).ravel() != w.target)].head(6)
    result = hf.explain(w.model, denied, target=w.target, changes=hf.EnsembleShift(tuple(later), 0.1),
                        generator=hf.RNCE(w.table), space=w.space)  # fmt: skip
    rows = result.counterfactuals[result.found]
    table = rows if raw else w.space.encode(rows)
    kept = np.mean([one.predict(table).ravel() == w.target for one in later])
    assert metrics.validity_retrained(result, later) == pytest.approx(kept)
    share = metrics.per_row(result, changes=hf.PlausibleShift(0.1), retrained=later)
    assert share["valid_retrained"].notna().sum() == result.found.sum()
    again = hf.retrain(w.model, w.table, y, how="leave_one_out", removed=0.3, n=1, space=w.space)
    np.testing.assert_array_equal(
        again[0].predict_proba(w.table if raw else w.space.encode(w.table)), scores[0]
    )
    with pytest.raises(
        InvalidInputError, match=r"'complete' or 'leave_one_out'.*got 'incremental'"
    ):
        hf.retrain(w.model, w.table, y, how="incremental", space=w.space)
    with pytest.raises(InvalidInputError, match="got epochs = 3"):
        hf.retrain(w.model, w.table, y, how="complete", epochs=3, space=w.space)


def test_answers_for_a_network_are_put_to_trees_and_pipelines() -> None:
    table, space, score = _people("continuous")
    y = (score > 0.0).astype(int)
    model = LogisticRegression(C=10.0).fit(space.encode(table), y)
    denied = table[model.predict(space.encode(table)) == 0].head(8)
    result = hf.explain(
        model,
        denied,
        target=1,
        changes=hf.PlausibleShift(0.2),
        generator=hf.RNCE(table),
        space=space,
    )
    reordered = table[["c", "a", "d", "b"]]
    others = [
        RandomForestClassifier(10, random_state=0).fit(reordered, y),
        make_pipeline(StandardScaler(), LogisticRegression()).fit(reordered, y),
        GradientBoostingClassifier(n_estimators=10).fit(space.encode(table), y),
    ]
    rows = result.counterfactuals[result.found]
    theirs = [others[0].predict(rows[["c", "a", "d", "b"]]), others[1].predict(rows[["c", "a", "d", "b"]]),
              others[2].predict(space.encode(rows))]  # fmt: skip
    for other, said in zip(others, theirs, strict=True):
        assert metrics.validity_retrained(result, [other]) == pytest.approx(np.mean(said == 1))
    found = hf.delta_validation(
        model, denied, retrained=others, candidates=table, space=space, deltas=[1e-6], coverage=0.1
    )
    assert found.n_models == 3
    assert 0.0 <= found.evidence["validity_mean"][0] <= 1.0


# ------------------------------------------------------------------ what does not go together


def _three_dimensional(rows: Any) -> Any:
    return np.full((len(rows), 2, 2), 0.5)


class OnlyPredicts:
    """A model without a margin."""

    classes_ = np.array([0, 1])

    def predict(self, X: Any) -> Any:
        return np.zeros(len(X))


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "only predict": (lambda: OnlyPredicts(), "or anything with predict_proba; got .*OnlyPredicts"),
    "not fitted": (lambda: RandomForestClassifier(), "expected a fitted RandomForestClassifier"),
    "a class": (lambda: RandomForestClassifier, "not an object of it"),
    "nan": (lambda: hf.scored(lambda rows: np.full(len(rows), np.nan)), "between 0 and 1, got .* not a number"),
    "nan margins": (lambda: hf.scored(lambda rows: np.full(len(rows), np.nan), output="margin"), "not a number"),
    "three dimensions": (lambda: hf.scored(_three_dimensional), r"probabilities .* got shape \(3, 2, 2\)"),
    "too long": (lambda: hf.scored(lambda rows: np.full(len(rows) + 1, 0.5)), r"each of 3 rows .* got shape \(4,"),
    "beyond one": (lambda: hf.scored(lambda rows: np.full(len(rows), 1.5)), "between 0 and 1, got .* from 1.5 to 1.5"),
    "raises": (lambda: hf.scored(lambda rows: 1 // 0), "expected a table that the model can score, got"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_model_gets_a_sentence(name: str) -> None:
    make, sentence = BAD[name]
    table = pd.DataFrame({"a": [0.0, 0.5, 1.0]})
    with pytest.raises(HoldfastError, match=sentence):
        hf.certify(
            make(), table, 1, hf.PlausibleShift(0.1), space=hf.FeatureSpace.from_frame(table)
        )


NEEDS_A_NETWORK: dict[str, Callable[[pd.DataFrame], hf.Generator]] = {
    "closest": lambda table: hf.Closest(),
    "mce": lambda table: hf.MCE(),
    "gce": lambda table: hf.GCE(),
    "roar": lambda table: hf.ROAR(),
    "proto": lambda table: hf.PROTO(table),
    "rbr": lambda table: hf.RBR(table),
}


@pytest.mark.parametrize("name", NEEDS_A_NETWORK)
def test_what_needs_a_network_says_so(name: str) -> None:
    w = world("forest")
    # Closest and MCE take trees, but not a function of which nobody knows that it is one.
    by_its_scores = hf.scored(w.model.predict_proba)
    with pytest.raises(UnsupportedModelError, match="use RNCE, NNCE or STCE"):
        hf.explain(by_its_scores, w.table, target=1, changes=hf.PlausibleShift(0.1), space=w.space,
                   generator=NEEDS_A_NETWORK[name](w.table))  # fmt: skip
    with pytest.raises(
        UnsupportedModelError,
        match="is for networks; this is an ensemble of trees: use PlausibleShift",
    ):
        hf.certify(w.model, w.table, 1, hf.PlausibleChanges(0.1), space=w.space)


def test_retrained_models_of_other_classes_or_columns() -> None:
    w = world("forest")
    denied = w.table[w.model.predict(w.table) == 0].head(4)
    result = hf.explain(w.model, denied, target=1, generator=hf.NNCE(w.table), space=w.space)
    y = np.array(["no", "yes"])[w.model.predict(w.table)]
    other = RandomForestClassifier(5).fit(w.table, y)
    with pytest.raises(
        InvalidInputError,
        match=r"expected models with the class 1, got the classes \['no', 'yes'\]",
    ):
        metrics.validity_retrained(result, [other])
    more = RandomForestClassifier(5).fit(w.table.assign(extra=0.0), w.model.predict(w.table))
    with pytest.raises(InvalidInputError, match="expected the model's column 'extra'"):
        metrics.validity_retrained(result, [more])
    with pytest.raises(InvalidInputError, match="models: expected today's classes"):
        hf.explain(w.model, denied, target=1, changes=hf.EnsembleShift([other], 0.1), generator=hf.NNCE(w.table),
                   space=w.space)  # fmt: skip
    mixed = world("pipeline")
    for ask in (
        lambda: hf.certify(mixed.model, mixed.table, "yes", hf.PlausibleShift(0.1)),
        lambda: hf.explain(mixed.model, mixed.table, target="yes", generator=hf.NNCE(mixed.table)),
    ):
        with pytest.raises(
            InvalidInputError, match=r"space: the column 'job' has labels; pass space="
        ):
            ask()
    with pytest.raises(InvalidInputError, match="space: expected a FeatureSpace"):
        hf.explain(
            hf.scored(lambda rows: np.zeros(len(rows))),
            denied,
            target=1,
            generator=hf.NNCE(w.table),
        )


def test_a_threshold_of_its_own_is_refused() -> None:
    """A model that does not predict what its scores say."""

    class Strict(RandomForestClassifier):
        def predict(self, X: Any) -> Any:
            return self.classes_[(self.predict_proba(X)[:, 1] > 0.9).astype(int)]

    w = world("forest")
    model = Strict(10, random_state=0).fit(w.table, w.model.predict(w.table))
    with pytest.raises(
        UnsupportedModelError,
        match="expected a model that predicts the class with the highest score",
    ):
        hf.certify(model, w.table, 1, hf.PlausibleShift(0.1), space=w.space)


def test_probabilities_that_share_a_logarithm_keep_their_order() -> None:
    from holdfast._scored import log_odds

    first = np.full(1000, 0.36) * (1.0 + 1e-3 * np.arange(1000))
    second = np.nextafter(first, 1.0)
    third = np.full(1000, 0.1)
    assert (log_odds(np.column_stack([first, second, third])).argmax(axis=1) == 1).all()
    assert (log_odds(np.column_stack([first, second])) > 0.0).all()
    assert (log_odds(np.column_stack([second, first])) <= 0.0).all()


def test_an_ensemble_whose_models_read_the_table_each_in_its_own_way() -> None:
    table, space, score = _people("continuous")
    y = (score > 0.0).astype(int)
    reordered = table[["c", "a", "d", "b"]]
    others = [
        RandomForestClassifier(10, random_state=0).fit(reordered, y),
        make_pipeline(StandardScaler(), LogisticRegression()).fit(reordered, y),
        GradientBoostingClassifier(n_estimators=10).fit(space.encode(table), y),
        LogisticRegression().fit(space.encode(table), y),
    ]

    def said(rows: pd.DataFrame) -> Any:
        """The mean of their log-odds, each asked as it was fitted."""
        ways = [rows[["c", "a", "d", "b"]]] * 2 + [space.encode(rows)] * 2
        shares = [other.predict_proba(way) for other, way in zip(others, ways, strict=True)]
        return np.mean([own_margins(np.clip(share, 2.0**-53, 1.0), 1) for share in shares], axis=0)

    for today in (others[0], others[2], others[3]):
        classifier = hf.load_model(today).in_space(space, table).classifier
        accepted = classifier.predict(space.encode(table)) == 1
        found = hf.certify(today, table, 1, hf.EnsembleShift(others, 0.3), space=space)
        np.testing.assert_array_equal(found.robust, accepted & (said(table) >= 0.3))


# ------------------------------------------------------------------ off the data


def test_answers_far_off_the_data_are_warned_about() -> None:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400)})
    # Nobody is below -5, and only they are accepted by this model.
    model = hf.Network([[[-1.0, 0.0]]], [[-5.0]])
    changes = hf.PlausibleChanges(0.01)
    people = table.head(5)
    space = hf.FeatureSpace.from_frame(
        table, ranges={"a": (-9.0, 9.0), "b": (-9.0, 9.0)}, scale="none"
    )
    with pytest.warns(hf.HoldfastWarning, match="^5 of 5 pieces of advice are far off the data"):
        far = hf.explain(
            model,
            people,
            target=1,
            changes=changes,
            generator=hf.Closest(),
            space=space,
            data=table,
        )
    assert far.robust.all()
    # Without a table there is nothing to compare with; rows of the table are where the data are.
    hf.explain(model, people, target=1, changes=changes, generator=hf.Closest(), space=space)
    near = hf.Network([[[-1.0, 0.0]]], [[-0.5]])
    denied = table[table["a"] > -0.4].head(20)
    for generator in (hf.RNCE(table), hf.Closest(plausible=table), hf.Robust(hf.NNCE(table))):
        assert hf.explain(
            near, denied, target=1, changes=changes, generator=generator, space=space, data=table
        ).found.all()


def test_the_hull_is_that_of_the_nearest_robust_rows() -> None:
    """The cheapest point between rows costs no more than the nearest row, and lies between rows."""
    table, space, score = _people("continuous")
    model = LogisticRegression(C=10.0).fit(space.encode(table), score > 0.0)
    denied = table[~model.predict(space.encode(table))].head(12)
    changes = hf.PlausibleChanges(0.05)
    hull, row = (
        hf.explain(model, denied, target=True, changes=changes, generator=generator, space=space)
        for generator in (hf.Closest(plausible=table), hf.RNCE(table))
    )
    assert hull.robust.all()
    np.testing.assert_array_equal(hull.found, row.found)
    assert (hull.cost_l1 <= row.cost_l1 * (1.0 + 1e-9)).all()
    assert (hull.optimality_gap < 1e-6).all()


# ------------------------------------------------------------------ a study


def test_a_benchmark_of_models_that_are_no_networks() -> None:
    table, space, score = _people("mixed")
    models = {
        "forest": RandomForestClassifier(10, max_depth=4, random_state=0),
        "scaled": make_pipeline(StandardScaler(), SVC(C=10.0)),
        "regression": LogisticRegression(max_iter=500),
        "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    }
    study = hf.benchmark(
        {"people": (table, (score > 0.0).astype(int), space)}, models=models, methods=["nnce", "rnce", "st-ce", "mce"],
        deltas={"shift": hf.PlausibleShift(0.2)}, seeds=1, inputs=4, retrained={"complete": 1, "incremental": 1},
    )  # fmt: skip
    results = study.results.set_index(["model", "method"])
    for model in ("forest", "scaled", "regression"):
        assert (
            results.loc[[(model, "nnce"), (model, "rnce"), (model, "st-ce")], "error"] == ""
        ).all()
        assert results.loc[(model, "rnce"), "delta_validity"] == 1.0
        assert 0.0 <= results.loc[(model, "nnce"), "validity_retrained"] <= 1.0
    assert results.loc[("forest", "mce"), "error"] == ""
    assert "use RNCE, NNCE or STCE" in results.loc[("scaled", "mce"), "error"]
    assert results.loc[("regression", "mce"), "error"] == ""
    assert "expected a network without preprocessing" in results.loc[("pipeline", "nnce"), "error"]
