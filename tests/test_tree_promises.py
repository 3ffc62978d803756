"""A ledger keeps trees in full; an audit knows for certain only what lies inside the set, and runs the rest."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import holdfast as hf
from holdfast._tree_document import of_tree_document, tree_document
from holdfast.errors import InvalidInputError
from holdfast.importers._sklearn import Steps
from holdfast.presentation.report._gather import gather
from holdfast.promises._audit_compare import compare
from holdfast.promises._terms import Terms
from test_trees import FULL, NUMBERS, Y
from tree_changes import sampled

X, CHANGES = FULL[NUMBERS], hf.TreeChanges(leaves=0.03, thresholds=0.01, dropped=1)
CERTAIN = "KEPT_FOR_CERTAIN"


@pytest.fixture(scope="module")
def model() -> Any:
    return xgboost.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1).fit(X, Y[2])


def recorded(model: Any, path: Path, changes: Any = CHANGES) -> Path:
    accepted = X[model.predict(X) == 1].head(30)
    denied = X[model.predict(X) == 0].head(len(accepted))
    space = hf.FeatureSpace.from_frame(X, scale="none")
    promised = accepted.head(len(denied)).set_axis(denied.index)
    with hf.Ledger(path) as ledger:
        ledger.add_frame(
            model, denied, promised, target=1, changes=changes, space=space, radius=False
        )
        assert ledger.verify().intact
    return path


def test_what_lies_inside_is_certain_and_all_else_is_run(model: Any, tmp_path: Path) -> None:
    path = recorded(model, tmp_path / "trees.ledger")
    with hf.Ledger(path) as ledger:
        (terms,) = ledger.terms
        promised = next(iter(ledger.promises(batch=1000)))
    today = hf.load_model(model).classifier
    assert isinstance(terms.classifier, hf.TreeEnsemble)
    assert terms.classifier.forest.same_structure(today.forest)
    robust = hf.certify(model, promised.counterfactuals[NUMBERS], 1, CHANGES).robust
    assert 0 < robust.sum() < len(robust)
    rng = np.random.default_rng(0)
    for changes in (hf.TreeChanges(), CHANGES, CHANGES):
        found = hf.audit(path, sampled(today, changes, rng))
        statuses = np.array([str(status) for status in found.to_frame()["status"]])
        assert ((statuses == CERTAIN) == robust).all()
        assert found.groups[0].inside
    # Outside, or of another structure, the model is run on each row.
    for other in (
        sampled(today, CHANGES.resized(20.0), rng),
        hf.load_model(
            xgboost.XGBClassifier(n_estimators=6, max_depth=2, n_jobs=1).fit(X, Y[2])
        ).classifier,
        xgboost.XGBClassifier(n_estimators=7, max_depth=3, n_jobs=1).fit(X, Y[2]),
    ):
        found = hf.audit(path, other)
        assert not found.groups[0].inside
        statuses = [str(status) for status in found.to_frame()["status"]]
        rows = promised.counterfactuals[NUMBERS]
        asked = other if not isinstance(other, hf.TreeEnsemble) else None
        theirs = asked.predict(rows) if asked is not None else other.predict(rows.to_numpy())
        assert statuses == ["KEPT" if one == 1 else "BROKEN" for one in theirs]


def test_no_detail_of_the_structure_may_differ(model: Any) -> None:
    today = hf.load_model(model).classifier
    space = hf.FeatureSpace.from_frame(X, scale="none")
    terms = Terms(today, space, CHANGES)
    terms = Terms.read(terms.hash, terms.objects().__getitem__)

    def inside(other: Any, threshold: float = 0.5) -> bool:
        found = compare(terms, other, threshold, None, None)
        assert found.how or found.why_not
        return found.within(CHANGES)

    plain = json.loads(json.dumps(tree_document(today)))
    assert inside(today)
    assert inside(of_tree_document(plain))
    assert not inside(today, 0.6)
    assert not inside(hf.Network([[[1.0] * 4]], [[0.0]]))
    root = plain["roots"][0]
    leaf = plain["feature"].index(-1)
    moves: dict[str, Any] = {
        "feature": (root, (plain["feature"][root] + 1) % 4),
        "missing_left": (root, not plain["missing_left"][root]),
        "base": (0, plain["base"][0] + 0.001),
        "threshold": (root, plain["threshold"][root] + 0.0101),
        "values": (leaf, [plain["values"][leaf][0] + 0.0301]),
        "left": (root, plain["right"][root]),
        "output": (0, 1),
        "columns": None,
    }
    for name, move in moves.items():
        changed = copy.deepcopy(plain)
        if name == "left":
            changed["right"][root] = changed["left"][root]
        if name == "columns":
            changed["reading"]["columns"] = list("bacd")
        else:
            changed[name][move[0]] = move[1]
        assert not inside(of_tree_document(changed)), name
    for entry in (
        {"compare": "float64 <="},
        {"precision": 53},
        {"divisor": 2.0},
        {"zero": 0.1},
        {"band": 0.1},
    ):
        assert not inside(of_tree_document({**plain, **entry})), entry
    assert not inside(of_tree_document({**plain, "missing": ["zero"] * 4}))
    assert not inside(of_tree_document({**plain, "classes": [1, 0]}))
    assert not inside(
        replace(today, score=replace(today.score, labels=(None, ("x", "y"), None, None)))
    )
    assert not inside(today.behind(StandardScaler().fit(X).transform, None, 4))


def own_step(table: Any) -> Any:
    return table * 2.0


def test_trees_behind_the_same_steps_are_certain_and_behind_others_are_run(tmp_path: Path) -> None:
    changes = hf.TreeChanges(leaves=0.05)
    booster = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=6, verbose=-1, n_jobs=1)
    model = make_pipeline(StandardScaler(), booster).fit(X, Y[2])
    path = recorded(model, tmp_path / "pipeline.ledger", changes)
    with hf.Ledger(path) as ledger:
        promised = next(iter(ledger.promises(batch=1000))).counterfactuals[NUMBERS]
        assert ledger.terms[0].classifier.forest == hf.load_model(model).classifier.forest
    robust = hf.certify(model, promised, 1, changes).robust
    assert 0 < robust.sum() < len(robust)
    scaler, today = model[0], hf.load_model(booster).classifier
    rng = np.random.default_rng(0)

    def statuses(new: Any, inside: bool, why: str = "") -> Any:
        found = hf.audit(path, new)
        assert found.groups[0].inside == inside
        assert why in found.groups[0].why_not
        return np.array([str(status) for status in found.to_frame()["status"]])

    # The same steps, as they are or read from a file, before leaves that moved within their radii.
    again = pickle.loads(pickle.dumps(scaler))
    for step in (scaler, again):
        moved = sampled(today, changes, rng).behind(Steps((step,)), tuple(NUMBERS), len(NUMBERS))
        found = statuses(moved, True)
        assert ((found == CERTAIN) == robust).all()
        assert (moved.predict(promised.to_numpy())[robust] == 1).all()
    # Others: fitted anew, with other options, of anyone's, or none.
    other = StandardScaler().fit(X * 1.001)
    bare = StandardScaler(with_mean=False).fit(X)
    mine = FunctionTransformer(own_step).fit(X)
    for step in (other, bare, mine):
        behind = today.with_forest(today.forest).behind(
            Steps((step,)), tuple(NUMBERS), len(NUMBERS)
        )
        found = statuses(behind, False, "in another way")
        assert (found == "KEPT").tolist() == (behind.predict(promised.to_numpy()) == 1).tolist()
    statuses(booster, False, "in another way")
    # A step of the caller's own is known by its name alone: nothing is certain behind it.
    owned = make_pipeline(mine, lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1))
    path = recorded(owned.fit(X, Y[2]), tmp_path / "own.ledger", changes)
    assert set(statuses(owned, False, "without a complete hash")) == {"KEPT"}


def test_rows_that_a_model_does_not_read_are_not_recorded(tmp_path: Path) -> None:
    """A ledger keeps rows in raw units; trees fitted on scaled variables would be asked about other rows."""
    space = hf.FeatureSpace.from_frame(X)
    model = xgboost.XGBClassifier(n_estimators=4, n_jobs=1).fit(space.encode(X), Y[2])
    accepted = X[model.predict(space.encode(X)) == 1].head(5)
    with hf.Ledger(tmp_path / "a.ledger") as ledger, pytest.raises(InvalidInputError, match="raw"):
        ledger.add_frame(
            model, X.head(5), accepted.set_axis(X.index[:5]), target=1, changes=CHANGES, space=space
        )


def test_an_audit_measures_what_is_left_and_reads_columns_by_name(
    model: Any, tmp_path: Path
) -> None:
    today = hf.load_model(model).classifier
    changes = hf.TreeChanges(leaves=np.full(int(today.forest.leaves.sum()), 0.02), dropped=1)
    path = recorded(model, tmp_path / "left.ledger", changes)
    with hf.Ledger(path) as ledger:
        rows = next(iter(ledger.promises(batch=1000))).counterfactuals[NUMBERS]
    refit = hf.retrain(model, X, Y[2], how="refit", share=0.5, n=1).models[0]
    settings: dict[str, Any] = {"n_estimators": 6, "max_depth": 3, "n_jobs": 1}
    turned = xgboost.XGBClassifier(**settings).fit(X[NUMBERS[::-1]], Y[2])
    moved = xgboost.XGBClassifier(**settings, base_score=0.3).fit(X, Y[2])
    for other, structure in ((model, True), (refit, True), (turned, False), (moved, False)):
        names = NUMBERS[::-1] if other is turned else NUMBERS
        kept = other.predict(rows[names]) == 1
        plain, found = hf.audit(path, other), hf.audit(path, other, radius=True)
        for one in (plain, found):
            said = np.array([str(status) for status in one.to_frame()["status"]])
            assert one.groups[0].inside == (other is model)
            assert ((said == "BROKEN") == ~kept).all()
            assert ((said == CERTAIN).any()) == (other is model)
        left = found.to_frame()["radius_left"].to_numpy()
        assert np.isnan(left[~kept]).all()
        assert np.isnan(left[kept]).all() != structure
        if structure:
            # Around the new model, in factors of what was promised.
            wanted = hf.certified_radius(other, rows[kept], 1, changes=changes).lower
            np.testing.assert_array_equal(left[kept], wanted)


def test_a_report_says_what_trees_are_and_how_far_theirs_was_calibrated(
    model: Any, tmp_path: Path
) -> None:
    refits = hf.retrain(model, X, Y[2], how="refit", n=12, share=0.5)
    chosen = hf.delta_calibrated(refits, coverage=0.8)
    space = hf.FeatureSpace.from_frame(X, scale="none")
    denied = X[model.predict(X) == 0].head(4)
    advice = hf.explain(
        model, denied, target=1, changes=chosen.changes, generator=hf.generators.MCE(), space=space
    )
    page = hf.report(advice, tmp_path / "page.html", calibrated=chosen).read_text("utf-8")
    assert "6 trees, " in page
    assert f"{len(NUMBERS)} columns" in page
    assert "Known by its scores" not in page
    assert "distance of" not in page.split("<script")[0]
    assert "<dt>Calibrated factor</dt><dd>1. " in page
    assert "moves no further than " in page.split("<script")[0]
    assert "moves of up to {} times" in page
    half = replace(chosen.changes, leaves=chosen.changes.leaves / 2, inside=None)
    contents = gather(advice.under(half), calibrated=chosen)
    assert contents.calibrated is not None
    assert contents.calibrated.delta == 2.0
    assert not contents.calibrated.covered
    with pytest.raises(InvalidInputError, match="leaf radii of the same trees"):
        gather(advice.under(hf.TreeChanges(leaves=0.1)), calibrated=chosen)
