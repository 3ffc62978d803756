"""Trees of every library become the same flat arrays, and compute what the library computes, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import holdfast as hf
from holdfast._forest import cut_below
from holdfast.errors import FileFormatError, InvalidInputError

N = 400
NAMES = np.array(["no", "yes", "perhaps"])


def table(gaps: bool = True, seed: int = 0) -> pd.DataFrame:
    """Numbers of two digits, so that many stand at a threshold; categories beyond 32; gaps and zeros."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(N, 4)).round(2), columns=list("abcd"))
    X.loc[rng.random(N) < 0.3, "d"] = 0.0
    labels = [f"c{i:02d}" for i in range(40)]
    X["k"] = pd.Categorical(rng.choice(labels, N), categories=labels)
    X["j"] = pd.Categorical(rng.choice([3, 7, 9], N), categories=[3, 7, 9])
    if gaps:
        for name in "abk":
            X.loc[rng.random(N) < 0.1, name] = np.nan
    return X


FULL, GAPS = table(False), table()
NUMBERS, SCORE = list("abcd"), FULL["b"] + FULL["k"].cat.codes * 0.05
NOISE = np.random.default_rng(1).normal(size=N)
Y = {2: (SCORE + NOISE > 1).astype(int).to_numpy(), 3: np.digitize(SCORE + NOISE, [0.0, 1.5])}


def xgb(classes: int, **options: Any) -> Any:
    given = {"n_estimators": 8, "max_depth": 4, "enable_categorical": True, "n_jobs": 1, **options}
    return xgboost.XGBClassifier(**given).fit(GAPS, Y[classes])


def lgb(classes: int, **options: Any) -> Any:
    given: dict[str, Any] = {"n_estimators": 8, "num_leaves": 12, "verbose": -1, "n_jobs": 1}
    given |= {"min_data_per_group": 3, "cat_smooth": 1, "min_child_samples": 5, **options}
    return lightgbm.LGBMClassifier(**given).fit(GAPS, NAMES[Y[classes]])


def margins(model: Any, X: Any) -> np.ndarray:
    """What the library itself computes."""
    if isinstance(model, xgboost.XGBClassifier):
        return np.asarray(model.predict(X, output_margin=True))
    if isinstance(model, lightgbm.LGBMClassifier):
        return np.asarray(model.predict(X, raw_score=True))
    score = getattr(model, "decision_function", None) or model.predict_proba
    return np.asarray(score(X))


MODELS: dict[str, tuple[Callable[[int], Any], pd.DataFrame]] = {
    "xgboost": (xgb, GAPS),
    "xgboost, sets": (lambda k: xgb(k, max_cat_to_onehot=1), GAPS),
    "xgboost, dart": (lambda k: xgb(k, booster="dart", rate_drop=0.5), GAPS),
    "xgboost, parallel": (lambda k: xgb(k, num_parallel_tree=3, subsample=0.5), GAPS),
    "xgboost, base": (lambda k: xgb(k, base_score=0.3), GAPS),
    "xgboost, a leaf": (lambda k: xgb(k, gamma=1e9), GAPS),
    "xgboost, other": (
        lambda k: xgb(k, objective="binary:hinge" if k == 2 else "multi:softmax"),
        GAPS,
    ),
    "lightgbm": (lgb, GAPS),
    "lightgbm, dart": (lambda k: lgb(k, boosting_type="dart"), GAPS),
    "lightgbm, zeros": (lambda k: lgb(k, zero_as_missing=True), GAPS),
    "lightgbm, no gaps": (lambda k: lgb(k, use_missing=False), GAPS),
    "lightgbm, a leaf": (lambda k: lgb(k, min_child_samples=10_000), GAPS),
    "lightgbm, weights": (lambda k: lgb(k, class_weight="balanced"), GAPS),
    "histogram": (
        lambda k: HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=5).fit(
            GAPS, NAMES[Y[k]]
        ),
        GAPS,
    ),
    "gradient boosting": (
        lambda k: GradientBoostingClassifier(n_estimators=6).fit(FULL[NUMBERS], NAMES[Y[k]]),
        FULL[NUMBERS],
    ),
    "random forest": (
        lambda k: RandomForestClassifier(9, max_depth=6, random_state=0).fit(GAPS[NUMBERS], Y[k]),
        GAPS[NUMBERS],
    ),
    "extra trees": (
        lambda k: ExtraTreesClassifier(9, max_depth=6, random_state=0).fit(GAPS[NUMBERS], Y[k]),
        GAPS[NUMBERS],
    ),
    "a tree": (
        lambda k: DecisionTreeClassifier(max_depth=6, random_state=0).fit(GAPS[NUMBERS], Y[k]),
        GAPS[NUMBERS],
    ),
}
# Each is trained once, whoever asks.
MODELS = {name: (cache(make), X) for name, (make, X) in MODELS.items()}


def around(model: hf.TreeEnsemble, X: pd.DataFrame) -> pd.DataFrame:
    """The rows, and rows at the thresholds and one unit of rounding beside them; -0.0, tiny and huge numbers."""
    rows, forest = [X], model.forest
    odd = [-0.0, 5e-324, -5e-324, 1e-40, -1e-36, 1e-35, 1.1e-35, 3e38, -3e38]
    for column in range(4):
        asked = forest.feature == column
        cuts = np.unique(np.append(forest.cut[asked], forest.threshold[asked]))
        cuts = cuts[np.isfinite(cuts)][:40]
        values = np.concatenate(
            [cuts, np.nextafter(cuts, -np.inf), np.nextafter(cuts, np.inf), odd]
        )
        rows.append(X.iloc[np.arange(values.size) % N].assign(**{X.columns[column]: values}))
    return pd.concat(rows, ignore_index=True)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_margins_are_the_librarys(name: str, classes: int) -> None:
    make, X = MODELS[name]
    model = make(classes)
    loaded = hf.load_model(model).classifier
    assert isinstance(loaded, hf.TreeEnsemble)
    X = around(loaded, X)
    sums = loaded.forest.sums(loaded.score.matrix(X))
    theirs = margins(model, X).astype(np.float64).reshape(sums.shape)
    np.testing.assert_array_equal(sums, theirs)
    labels = loaded.classes[loaded.winners(loaded.score(X))]
    assert (labels.astype(str) == np.asarray(model.predict(X)).astype(str)).all()
    # Any order of the sums stays within the stated error.
    values = loaded.forest.values[loaded.forest.leaf_of(loaded.score.matrix(X[:20]))]
    total = loaded.forest.base + np.stack(
        [
            (values[:, :, 0] * (loaded.forest.output == k)).sum(axis=1)
            if not loaded.forest.vector
            else values[:, :, k].sum(axis=1)
            for k in range(loaded.forest.n_outputs)
        ],
        axis=1,
    )
    assert (
        np.abs(total / loaded.forest.divisor - sums[:20]) <= loaded.forest.rounding() + 1e-15
    ).all()


def test_a_forest_by_random_samples_is_averaged() -> None:
    model = lgb(2, boosting_type="rf", subsample=0.6, subsample_freq=1)
    loaded = hf.load_model(model).classifier
    margin = loaded.forest.sums(loaded.score.matrix(GAPS))[:, 0]
    np.testing.assert_allclose(
        1.0 / (1.0 + np.exp(-margin)), model.predict_proba(GAPS)[:, 1], rtol=1e-14
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_files_say_what_objects_say(tmp_path: Any, classes: int) -> None:
    boosted, light = xgb(classes), lgb(classes)
    for suffix in ("json", "ubj"):
        boosted.save_model(tmp_path / f"model.{suffix}")
    light.booster_.save_model(tmp_path / "model.txt")
    for name, model in (("model.json", boosted), ("model.ubj", boosted), ("model.txt", light)):
        loaded = hf.load_model(tmp_path / name).classifier
        assert isinstance(loaded, hf.TreeEnsemble)
        sums = loaded.forest.sums(loaded.score.matrix(GAPS))
        np.testing.assert_array_equal(sums, margins(model, GAPS).reshape(sums.shape))
    (tmp_path / "broken.json").write_text("{}")
    (tmp_path / "broken.txt").write_text("tree\nversion=v9")
    for name in ("broken.json", "broken.txt"):
        with pytest.raises(FileFormatError, match=r"expected a model of XGBoost|ends too soon"):
            hf.load_model(tmp_path / name)


def test_a_text_of_another_version_is_refused(tmp_path: Any) -> None:
    lgb(2).booster_.save_model(tmp_path / "model.txt")
    text = (tmp_path / "model.txt").read_text()
    assert "\nversion=v4\n" in text
    for version, fine in (("v3", True), ("v4", True), ("v2", False), ("v5", False), ("", False)):
        (tmp_path / "other.txt").write_text(text.replace("version=v4", f"version={version}", 1))
        if fine:
            assert isinstance(hf.load_model(tmp_path / "other.txt").classifier, hf.TreeEnsemble)
            continue
        with pytest.raises(FileFormatError, match=f"version v3 or v4, got '{version}'"):
            hf.load_model(tmp_path / "other.txt")


def test_early_stopping_is_what_predict_uses(tmp_path: Any) -> None:
    model = xgboost.XGBClassifier(
        n_estimators=60, max_depth=3, early_stopping_rounds=2, enable_categorical=True, n_jobs=1
    ).fit(GAPS[:250], Y[2][:250], eval_set=[(GAPS[250:], Y[2][250:])], verbose=False)
    model.save_model(tmp_path / "model.ubj")
    for given in (model, tmp_path / "model.ubj"):
        loaded = hf.load_model(given).classifier
        assert (
            loaded.forest.n_trees
            == model.best_iteration + 1
            < model.get_booster().num_boosted_rounds()
        )
        np.testing.assert_array_equal(
            loaded.forest.sums(loaded.score.matrix(GAPS))[:, 0], margins(model, GAPS)
        )


def test_a_category_that_was_never_seen_is_refused() -> None:
    for model in (xgb(2), lgb(2), MODELS["histogram"][0](2)):
        loaded = hf.load_model(model).classifier
        other = FULL.assign(k=pd.Categorical(["new"] * N))
        with pytest.raises(InvalidInputError, match=r"has seen in 'k'.*got 'new'"):
            loaded.score(other)


def test_what_cannot_be_read_exactly_is_known_by_its_scores_and_says_why() -> None:
    linear = lgb(2, linear_tree=True)
    ranked = lgb(3, objective="multiclassova")
    raw = xgb(2, objective="binary:logitraw")
    gblinear = xgboost.XGBClassifier(booster="gblinear").fit(FULL[NUMBERS], Y[2])
    for model, why in (
        (linear, "linear leaves"),
        (ranked, "multiclassova"),
        (raw, "logitraw"),
        (gblinear, "gblinear"),
    ):
        loaded = hf.load_model(model).classifier
        assert not isinstance(loaded, hf.TreeEnsemble)
        assert why in loaded.why


def test_a_pipeline_in_front_and_a_threshold() -> None:
    X, y = FULL[NUMBERS], Y[2]
    for last in (
        xgboost.XGBClassifier(n_estimators=5, n_jobs=1),
        RandomForestClassifier(5, max_depth=4, random_state=0),
    ):
        model = make_pipeline(StandardScaler(), last).fit(X, y)
        loaded = hf.load_model(model)
        assert isinstance(loaded.classifier, hf.TreeEnsemble)
        assert (loaded.classifier.predict(loaded.variables(X)) == model.predict(X)).all()
        at = hf.load_model(FixedThresholdClassifier(model, threshold=0.7).fit(X, y))
        accepted = model.predict_proba(X)[:, 1] >= 0.7
        assert isinstance(at.classifier, hf.TreeEnsemble)
        assert (at.classifier.predict(at.variables(X)) == accepted).all()
        chosen = hf.load_model(model, threshold=0.7)
        assert (chosen.classifier.predict(chosen.variables(X)) == accepted).all()


def test_a_cut_says_what_a_cast_says() -> None:
    rng = np.random.default_rng(0)
    t = np.concatenate(
        [rng.normal(size=200) * 10.0 ** rng.integers(-44, 38, 200), [0.0, -0.0, 1e-45, -1e-45]]
    )
    for strict in (True, False):
        given = t.astype(np.float32).astype(np.float64) if strict else t
        cut = cut_below(given, strict=strict)
        for x in (cut, np.nextafter(cut, np.inf), np.nextafter(cut, -np.inf), given, given * 1.1):
            cast = x.astype(np.float32).astype(np.float64)
            left = cast < given if strict else cast <= given
            np.testing.assert_array_equal(x <= cut, left)
    assert cut_below(np.array([np.inf]), strict=False)[0] == np.inf
    assert np.isfinite(np.float32(cut_below(np.array([np.inf]), strict=True)[0]))
