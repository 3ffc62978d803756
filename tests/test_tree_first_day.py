"""The first day with trees: errors name the way out, witnesses answer for the caller's rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

import holdfast as hf
from holdfast.datasets import make_loans
from holdfast.errors import InvalidInputError
from holdfast.promises import save_witness

LOANS = make_loans(600)
Y = LOANS.pop("accepted")
WORDS = ["employment", "housing"]
NUMBERS = [name for name in LOANS if name not in WORDS]
TABLE = LOANS.astype(dict.fromkeys(WORDS, "category"))


def boosted(X: Any, *before: Any) -> Any:
    trees = lightgbm.LGBMClassifier(
        n_estimators=8, num_leaves=16, verbose=-1, n_jobs=1, min_data_per_group=5, cat_smooth=1.0
    )
    return make_pipeline(*before, trees).fit(X, Y) if before else trees.fit(X, Y)


def encoder() -> Any:
    return make_column_transformer(
        (OneHotEncoder(sparse_output=False), WORDS), remainder="passthrough"
    )


def test_thresholds_are_for_columns_of_numbers() -> None:
    space = hf.FeatureSpace.from_frame(TABLE)
    model = boosted(TABLE)
    assert (hf.load_model(model).classifier.forest.category >= 0).any()
    with pytest.raises(InvalidInputError, match="columns of numbers; 'employment'"):
        hf.certify(model, TABLE, 1, hf.TreeChanges(thresholds={"employment": 1.0}), space=space)
    hf.certify(model, TABLE[:5], 1, hf.TreeChanges(thresholds={"income": 1.0}), space=space)


def test_names_that_are_positions_are_explained(tmp_path: Path) -> None:
    changes, space = hf.TreeChanges(thresholds={"income": 1.0}), hf.FeatureSpace.from_frame(LOANS)
    with pytest.raises(InvalidInputError, match=r"earlier steps.*get_feature_names_out"):
        hf.certify(boosted(LOANS, encoder()), LOANS, 1, changes, space=space)
    plain = GradientBoostingClassifier(n_estimators=2).fit(LOANS[NUMBERS].to_numpy(), Y)
    with pytest.raises(InvalidInputError, match="knows no column names"):
        hf.certify(plain, LOANS[NUMBERS].to_numpy(), 1, changes)


def test_gaps_name_the_way_out() -> None:
    X = LOANS.copy()
    X.loc[X.index[::7], "savings"] = np.nan
    with pytest.raises(InvalidInputError, match=r"from_frame\(X, missing=\['savings'\]\)"):
        hf.FeatureSpace.from_frame(X)
    filled = make_column_transformer(
        (OneHotEncoder(sparse_output=False), WORDS), (SimpleImputer(), NUMBERS)
    )
    model = boosted(X, filled)
    with pytest.raises(
        InvalidInputError,
        match=r"missing: the pipeline's imputers set the filled values.*from_frame",
    ):
        hf.FeatureSpace.from_pipeline(model, X, missing=["savings"])  # type: ignore[call-arg]
    read = hf.FeatureSpace.from_pipeline(model, X)
    with pytest.raises(InvalidInputError, match=r"from_frame\(X, missing="):
        hf.certify(model, X, 1, hf.TreeChanges(), space=read)
    space = hf.FeatureSpace.from_frame(X, missing=["savings"])
    certs = hf.certify(model, X, 1, hf.TreeChanges(), space=space)
    assert (certs.robust == (model.predict(X) == 1)).all()
    with pytest.raises(InvalidInputError, match=r"missing=\[...\] where"):
        hf.certify(model, X, 1, hf.TreeChanges())


def test_an_immutable_gap_stays_although_it_may_be_filled_in() -> None:
    X = LOANS[NUMBERS].astype(float)
    X.loc[X.index[::5], "savings"] = np.nan
    space = hf.FeatureSpace.from_frame(X, missing=["savings"], fillable=["savings"])
    space = space.constrained(immutable=["savings"])
    linear = LogisticRegression(max_iter=2000).fit(space.encode(X), Y)
    models = (boosted(X), hf.TreeChanges(leaves=0.01)), (linear, hf.PlausibleChanges(0.001))
    for model, changes in models:
        table = X if isinstance(changes, hf.TreeChanges) else space.encode(X)
        people = X[(model.predict(table) == 0) & X["savings"].isna()].head(4)
        lower, upper = space.bounds_for(people)
        stays = [f.name for f in space.features if (lower == upper)[:, f.places].all()]
        assert stays == ["savings"]
        for generator in (hf.Closest(), hf.RNCE(X), hf.NNCE(X)):
            result = hf.explain(
                model, people, target=1, changes=changes, generator=generator, space=space
            )
            assert result.found.all(), list(result.reason)
            assert result.counterfactuals["savings"].isna().all()


@pytest.mark.parametrize("kind", ["forest", "boosted", "by its scores"])
def test_a_pipeline_may_drop_columns(kind: str) -> None:
    before = make_column_transformer(
        (StandardScaler(), ["income", "debt"]), (OrdinalEncoder(), ["employment"]), remainder="drop"
    )
    last = {
        "forest": RandomForestClassifier(5, random_state=0),
        "boosted": lightgbm.LGBMClassifier(n_estimators=8, verbose=-1, n_jobs=1),
        "by its scores": KNeighborsClassifier(),
    }[kind]
    model = make_pipeline(before, last).fit(LOANS, Y)
    space = hf.FeatureSpace.from_pipeline(model, LOANS)
    assert list(space.names) == ["income", "debt", "employment"]
    people = LOANS[model.predict(LOANS) == 0].head(3)
    ways: list[Any] = [(hf.PlausibleShift(0.01), hf.RNCE(LOANS))]
    if kind != "by its scores":
        ways += [(hf.TreeChanges(leaves=0.001), hf.Closest()), (hf.PlausibleShift(0.01), hf.MCE())]
    for changes, generator in ways:
        result = hf.explain(
            model, people, target=1, changes=changes, generator=generator, space=space
        )
        assert result.found.all(), list(result.reason)
        advised = people.assign(**{name: result.counterfactuals[name] for name in space.names})
        assert (model.predict(advised) == 1).all()
        certificates = hf.certify(model, advised[list(space.names)], 1, changes, space=space)
        assert certificates.verdict.tolist() == result.verdict.tolist()


def test_a_witness_answers_for_the_callers_row(tmp_path: Path) -> None:
    changes, space = hf.TreeChanges(leaves=0.05), hf.FeatureSpace.from_frame(TABLE)
    model = boosted(TABLE)
    certs = hf.certify(model, TABLE, 1, changes, space=space)
    row = int(np.flatnonzero(~certs.robust & (model.predict(TABLE) == 1))[0])
    person, witness = TABLE.iloc[[row]], certs.witness(row)
    assert witness.predict(person).tolist() == [0]
    path = tmp_path / "witness.txt"
    saved = save_witness(witness, model, path, point=person, target=1, changes=changes)
    assert saved.predicted == 0
    assert (lightgbm.Booster(model_file=str(path)).predict(person) < 0.5).all()
    with pytest.raises(InvalidInputError, match="one row"):
        save_witness(witness, model, path, point=TABLE, target=1, changes=changes)
    with pytest.raises(InvalidInputError, match=r"ends in \.txt"):
        save_witness(witness, model, tmp_path / "a.json", point=person, target=1, changes=changes)


def test_a_space_in_other_numbers_than_the_trees_is_refused() -> None:
    X = LOANS[NUMBERS].astype(float)
    model = GradientBoostingClassifier(n_estimators=5).fit(X.to_numpy(), Y)
    with pytest.raises(
        InvalidInputError, match=r"numbers that the trees were fitted on.*scale='none'"
    ):
        hf.certify(model, X, 1, hf.TreeChanges(), space=hf.FeatureSpace.from_frame(X))
    for known, space in (
        (model, hf.FeatureSpace.from_frame(X, scale="none")),
        (None, hf.FeatureSpace.from_frame(X)),
    ):
        encoded = space.encode(X)
        fitted = known or GradientBoostingClassifier(n_estimators=5).fit(encoded, Y)
        certs = hf.certify(fitted, X, 1, hf.TreeChanges(), space=space)
        assert (certs.robust == (fitted.predict(encoded) == 1)).all()


def test_rows_are_named_in_plain_words() -> None:
    X = pd.DataFrame({"a": [1.0, np.nan]}, index=np.array([4, 9]))
    with pytest.raises(InvalidInputError, match=r"row 1 \(9\)"):
        hf.FeatureSpace.from_frame(X)


def test_advice_is_in_numbers_that_people_write() -> None:
    X = LOANS[NUMBERS].astype(float)
    model = xgboost.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1).fit(X, Y)
    denied = X[model.predict(X) == 0][:3]
    advice = hf.explain(
        model, denied, target=1, changes=hf.TreeChanges(leaves=0.005), generator=hf.Closest(),
        space=hf.FeatureSpace.from_frame(X),
    )  # fmt: skip
    some = 0
    for row in np.flatnonzero(advice.found).tolist():
        asked = advice.letter(row, date="2026-11-18").text
        assert not re.search(r"(at most|at least) [\d,]+\.\d{5}", asked), asked
        some += "at most" in asked or "at least" in asked
        words = advice.describe(row)
        for old, new in re.findall(r"from (\S+) to about (\S+)", words):
            assert old != new.rstrip(".,;")
    assert some


def test_a_hair_is_put_into_words() -> None:
    space = hf.FeatureSpace.from_frame(pd.DataFrame({"late": [0.0, 2.0, 5.0]}))
    before, after = pd.DataFrame({"late": [2.0]}), pd.DataFrame({"late": [1.9999999403953552]})
    assert "from 2 to just below 2" in str(space.describe_change(before, after))


@pytest.mark.parametrize("generator", [hf.Closest(), hf.RNCE(LOANS)], ids=["Closest", "RNCE"])
def test_a_scaler_in_the_pipeline_changes_no_advice(generator: Any) -> None:
    advice = []
    for scaler in ("passthrough", StandardScaler(), MinMaxScaler()):
        before = make_column_transformer(
            (make_pipeline(SimpleImputer(), scaler), NUMBERS),
            (OneHotEncoder(sparse_output=False), WORDS),
        )
        trees = HistGradientBoostingClassifier(max_iter=10, random_state=0)
        model = make_pipeline(before, trees).fit(LOANS, Y)
        people = LOANS[model.predict(LOANS) == 0].head(12)
        for space in (
            hf.FeatureSpace.from_frame(LOANS),
            hf.FeatureSpace.from_frame(LOANS, scale="none"),
            hf.FeatureSpace.from_pipeline(model, LOANS),
        ):
            changes = hf.TreeChanges(leaves=0.005)
            advice.append(
                hf.explain(
                    model, people, target=1, changes=changes, generator=generator, space=space
                )
            )
    for result in advice:
        assert result.found.all()
        np.testing.assert_allclose(result.cost_l1, advice[0].cost_l1, atol=1e-5)
        if isinstance(generator, hf.Closest):
            assert (result.optimality_gap <= 1e-9).all()
            assert (result.counterfactuals["housing"] == people["housing"]).all()
