"""The audit of a pipeline whose preprocessing was fitted anew: what it says is what the pipeline itself predicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler, TargetEncoder

import holdfast as hf

ENCODERS: dict[str, Any] = {
    "bins": lambda: (
        KBinsDiscretizer(4, encode="onehot-dense", quantile_method="averaged_inverted_cdf"),
        ["a"],
    ),
    "bin numbers": lambda: (
        KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf"),
        ["a"],
    ),
    "target means": lambda: (TargetEncoder(), ["city"]),
    "imputed": lambda: (SimpleImputer(), ["gaps"]),
    "flagged": lambda: (SimpleImputer(add_indicator=True), ["gaps"]),
    "imputed labels": lambda: (
        make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(sparse_output=False)),
        ["town"],
    ),
    "rare together": lambda: (OneHotEncoder(min_frequency=0.1, sparse_output=False), ["city"]),
}


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.Series[int], pd.DataFrame]:
    """Today's table, and one whose bins, means, commonest and rare labels are others."""
    rng, n = np.random.default_rng(0), 400
    X = pd.DataFrame({"a": rng.normal(50, 20, n).round(1), "b": rng.normal(0, 1, n).round(2)})
    X["city"] = rng.choice(list("pqrst"), n, p=[0.4, 0.3, 0.2, 0.06, 0.04])
    y = ((X["a"] - 50) / 20 + X["b"] + (X["city"] == "p") + rng.normal(0, 0.5, n) > 0.3).astype(int)
    later = X.assign(
        a=0.8 * X["a"] + 15, city=X["city"].map(dict(zip("pqrst", "sqrpt", strict=True)))
    )
    gone = rng.random(n) < 0.3
    X, later = (t.assign(gaps=t["a"].mask(gone), town=t["city"].mask(gone)) for t in (X, later))
    return X, y, later.assign(gaps=later["gaps"] - 40)


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_fitted_anew_is_not_taken_for_the_old_one(tables, name, tmp_path) -> None:
    X, y, later = tables
    # A TargetEncoder cuts its table at random, by numpy's own generator: that of every version.
    np.random.seed(1)  # noqa: NPY002

    def encoder() -> Any:
        return make_column_transformer(ENCODERS[name](), ("passthrough", ["b"]))

    today = make_pipeline(encoder(), LogisticRegression(max_iter=2000)).fit(X, y)
    # The parameters are the very same, so that a distance between them would say that nothing has changed.
    refitted = make_pipeline(encoder().fit(later, 1 - y), today[-1])
    denied = X[today.predict(X) == 0].head(100)
    space = hf.FeatureSpace.from_pipeline(today, X)
    asked = {
        "target": 1,
        "changes": hf.PlausibleChanges(1e-4),
        "generator": hf.RNCE(X),
        "space": space,
    }
    advice = hf.explain(today, denied, **asked)
    promised = advice.counterfactuals[advice.found]
    kept = refitted.predict(promised) == 1
    assert 0 < kept.sum() < len(kept)
    with hf.Ledger(tmp_path / "promises.ledger") as ledger:
        ledger.add(advice)
        assert (hf.audit(ledger, refitted).broken == ~kept).all()
        assert (hf.audit(ledger, today).status == "KEPT_FOR_CERTAIN").all()


def test_columns_that_a_pipeline_drops_need_not_be_in_the_ledger(tables, tmp_path) -> None:
    X, y, _ = tables
    steps = make_column_transformer(
        (StandardScaler(), ["a"]), ("passthrough", ["b"]), remainder="drop"
    )
    today = make_pipeline(steps, LogisticRegression()).fit(X, y)
    refits = [
        make_pipeline(steps, LogisticRegression(C=c).fit(steps.transform(X), y))
        for c in np.linspace(0.01, 2, 10)
    ]
    space = hf.FeatureSpace.from_pipeline(today, X)
    denied = X[today.predict(X) == 0].head(20)
    asked: dict[str, Any] = {"target": 1, "generator": hf.RNCE(X), "space": space}
    advice = hf.explain(today, denied, changes=hf.PlausibleShift(0.0), **asked)
    kept = np.array([refit.predict(advice.counterfactuals) == 1 for refit in refits])
    with hf.Ledger(tmp_path / "promises.ledger") as ledger:
        ledger.add(advice)
        assert (hf.audit(ledger, refits[0]).broken == ~kept[0]).all()
        counted = hf.promise_expiry(ledger, [today, *refits], horizon=1)
        assert counted.share[0] == hf.promise_expiry(advice, [today, *refits], horizon=1).share[0]
    risk = hf.risk_calibrated(today, denied, retrained=refits, settings=[0.0], **asked)
    assert risk.losses[:, 0] == pytest.approx(1.0 - kept.mean(axis=1))


def test_labels_that_are_missing_keep_their_dtype(tables, tmp_path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    X, y, later = tables
    X, later = (t[["a", "town"]].astype({"town": "category"}) for t in (X, later))
    today, new = (
        lightgbm.LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1).fit(t, y) for t in (X, later)
    )
    space = hf.FeatureSpace.from_frame(X, missing=["town"])
    asked = {
        "target": 1,
        "changes": hf.PlausibleShift(0.1),
        "generator": hf.RNCE(X),
        "space": space,
    }
    advice = hf.explain(today, X[today.predict(X) == 0].head(30), **asked)
    assert advice.counterfactuals["town"].isna().any()
    with hf.Ledger(tmp_path / "promises.ledger") as ledger:
        ledger.add(advice)
        assert (hf.audit(ledger, new).broken == (new.predict(advice.counterfactuals) != 1)).all()
