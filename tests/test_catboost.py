"""CatBoost's trees: margins bit for bit, at the borders and beside them, whatever is missing."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast.errors import FileFormatError, InvalidInputError
from onnx_trees import odd_rows
from tree_changes import changes_for, sampled

catboost = pytest.importorskip("catboost", reason="catboost is large and not among the dev tools")

RNG = np.random.default_rng(0)
FULL = RNG.normal(size=(300, 3)).round(2)
X = np.where(RNG.random(FULL.shape) < 0.1, np.nan, FULL)
SCORE = FULL[:, 0] + FULL[:, 1] * FULL[:, 2] + 0.3 * RNG.normal(size=300)
NAMES = np.array(["a", "b", "c"])
Y = {2: NAMES[(SCORE > 0.0).astype(int)], 3: NAMES[np.digitize(SCORE, [-0.5, 0.5])]}
OPTIONS: dict[str, dict[str, Any]] = {
    "symmetric": {},
    "missing above": {"nan_mode": "Max"},
    "by depth": {"grow_policy": "Depthwise"},
    "by loss": {"grow_policy": "Lossguide", "max_leaves": 7},
    "stumps": {"depth": 1},
}


@cache
def fitted(name: str, classes: int, gaps: bool = True) -> Any:
    given = {"iterations": 12, "depth": 4, "verbose": 0, "thread_count": 1, "random_seed": 0}
    model = catboost.CatBoostClassifier(**{**given, **OPTIONS[name]}, allow_writing_files=False)
    return model.fit(X if gaps else FULL, Y[classes])


def margins(model: Any, rows: Any) -> np.ndarray:
    return np.asarray(model.predict(rows, prediction_type="RawFormulaVal"))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", OPTIONS)
def test_margins_are_the_librarys(name: str, classes: int) -> None:
    for gaps in (True, False):
        model = fitted(name, classes, gaps)
        trees = hf.load_model(model).classifier
        assert isinstance(trees, hf.TreeEnsemble), trees.why
        assert trees.forest.ordered
        rows = odd_rows(X, trees.forest)
        sums = trees.forest.sums(trees.score.matrix(rows))
        np.testing.assert_array_equal(sums, margins(model, rows).reshape(sums.shape))
        labels = trees.classes[trees.winners(trees.score.logits(sums))]
        assert (labels == np.asarray(model.predict(rows)).ravel()).all()


def test_files_and_names(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["income", "debt", "age"])
    model = catboost.CatBoostClassifier(
        iterations=5, verbose=0, thread_count=1, allow_writing_files=False
    ).fit(frame, Y[2])
    trees = hf.load_model(model).classifier
    assert trees.columns == ("income", "debt", "age")
    model.save_model(str(tmp_path / "model.cbm"))
    assert hf.load_model(tmp_path / "model.cbm").classifier.forest == trees.forest
    model.save_model(str(tmp_path / "model.json"), format="json")
    # CatBoost rounds leaves when it reads its own JSON: what it holds then is what is read.
    loaded = catboost.CatBoostClassifier().load_model(str(tmp_path / "model.json"), format="json")
    sums = hf.load_model(tmp_path / "model.json").classifier.forest.sums(X)[:, 0]
    np.testing.assert_array_equal(sums, margins(loaded, frame))
    certs = hf.certify(
        model, frame[:20], "b", hf.TreeChanges(leaves=0.01, thresholds={"debt": 0.1})
    )
    assert (model.predict(frame[:20])[certs.robust] == "b").all()
    (tmp_path / "broken.cbm").write_bytes(b"CBM1....")
    with pytest.raises(FileFormatError, match="of CatBoost"):
        hf.load_model(tmp_path / "broken.cbm")


def test_a_scale_and_a_start_within_the_bound(tmp_path: Path) -> None:
    model = fitted("symmetric", 2)
    model.save_model(str(tmp_path / "model.cbm"))
    moved = catboost.CatBoostClassifier().load_model(str(tmp_path / "model.cbm"))
    moved.set_scale_and_bias(0.3, 0.1)
    trees = hf.load_model(moved).classifier
    assert not trees.forest.ordered
    sums = trees.forest.sums(X)[:, 0]
    assert (np.abs(sums - margins(moved, X)) <= trees.forest.rounding()[0]).all()


@pytest.mark.parametrize(("name", "classes"), [("symmetric", 3), ("missing above", 2)])
def test_no_verdict_is_false(name: str, classes: int) -> None:
    rng, rows, model = np.random.default_rng(1), X[:40], fitted(name, classes)
    today = hf.load_model(model).classifier
    for changes in changes_for(today.forest, rng):
        if isinstance(changes.thresholds, dict):
            changes = hf.TreeChanges(leaves=changes.leaves, thresholds={"1": 0.3})
        certs = hf.certify(model, rows, "b", changes)
        for _ in range(8):
            assert (sampled(today, changes, rng).predict(rows) == "b")[certs.robust].all()
        broken = np.flatnonzero([str(verdict) == "NOT_ROBUST" for verdict in certs.verdict])
        for row in broken[[0, -1]].tolist():
            assert certs.witness(row).predict(rows[[row]])[0] != "b"
            assert changes.shift or changes.contains(today, certs.witness(row))


def test_a_pipeline_in_front_and_a_threshold() -> None:
    last = catboost.CatBoostClassifier(
        iterations=5, verbose=0, thread_count=1, allow_writing_files=False
    )
    model = make_pipeline(StandardScaler(), last).fit(X, Y[2])
    loaded = hf.load_model(model, threshold=0.7)
    assert isinstance(loaded.classifier, hf.TreeEnsemble)
    accepted = model.predict_proba(X)[:, 1] >= 0.7
    assert (loaded.classifier.predict(loaded.variables(X)) == NAMES[accepted.astype(int)]).all()


def test_what_cannot_be_read_exactly_is_known_by_its_scores_and_says_why(tmp_path: Path) -> None:
    frame = pd.DataFrame({"k": NAMES[RNG.integers(0, 3, 300)], "x": FULL[:, 0]})
    options = {"iterations": 3, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    make = catboost.CatBoostClassifier
    strict = make(**options).fit(FULL, Y[2])
    strict.set_probability_threshold(0.7)
    for model, why in (
        (make(**options).fit(frame, Y[2], cat_features=["k"]), "categorical features.*OneHotEnco"),
        (
            make(**options, loss_function="Focal:focal_alpha=0.5;focal_gamma=2").fit(FULL, Y[2]),
            "Focal",
        ),
        (strict, "threshold of 0.5, got 0.7"),
    ):
        loaded = hf.load_model(model).classifier
        assert not isinstance(loaded, hf.TreeEnsemble)
        with pytest.raises(InvalidInputError, match=why):
            hf.certify(model, (frame if "k" in why else FULL)[:3], "b", hf.TreeChanges())
    one = make(**options, loss_function="MultiClassOneVsAll").fit(FULL, Y[3])
    with pytest.raises(InvalidInputError, match="log-odds"):
        hf.load_model(one, threshold=(0.2, 0.3, 0.4))
    with pytest.raises(InvalidInputError, match="not fitted"):
        hf.load_model(make())
    catboost.CatBoostRegressor(**options).fit(FULL, SCORE).save_model(str(tmp_path / "r.cbm"))
    with pytest.raises(hf.errors.HoldfastError, match="at least two classes"):
        hf.load_model(tmp_path / "r.cbm")
