"""Explainable boosting machines as trees: scores bit for bit, at the cuts and beside them, whatever is missing."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import holdfast as hf
from holdfast._tree_document import of_tree_document, tree_document
from holdfast.errors import InvalidInputError
from holdfast.promises import certificate, check_certificate
from tree_changes import changes_for, sampled

glassbox = pytest.importorskip(
    "interpret.glassbox", reason="interpret-core is not among the dev tools"
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:(Missing values detected|For multiclass):UserWarning"
)

RNG = np.random.default_rng(0)
N = 400
X = pd.DataFrame(RNG.normal(size=(N, 3)).round(2), columns=list("abc"))
X["k"] = RNG.choice(["x", "y", "z"], N)
SCORE = X["b"] + (X["k"] == "x") + X["c"] * X["b"] + 0.3 * RNG.normal(size=N)
X.loc[RNG.random(N) < 0.1, "a"] = np.nan
X.loc[RNG.random(N) < 0.1, "k"] = None
NAMES = np.array(["no", "perhaps", "yes"])


@cache
def fitted(classes: int, columns: str = "abck") -> Any:
    y = NAMES[np.digitize(SCORE, [0.3] if classes == 2 else [-0.3, 0.8])]
    table = X[list(columns)]
    return glassbox.ExplainableBoostingClassifier(
        interactions=2, max_rounds=40, outer_bags=1, max_bins=12, max_interaction_bins=6, n_jobs=1
    ).fit(table if "k" in columns else table.to_numpy(), y)


def odd(model: Any) -> pd.DataFrame:
    """The rows, and rows at every cut and one unit of rounding beside it, and with what is odd."""
    rows = [X]
    for column, name in enumerate("abc"):
        cuts = np.concatenate(model.bins_[column])
        beside = [np.nextafter(cuts, side) for side in (-np.inf, np.inf)]
        values = np.concatenate([cuts, *beside, [np.nan, -0.0, 5e-324, -5e-324, 1e300, -1e300]])
        near = cuts.astype(np.float32).astype(float)
        values = np.concatenate([values, near])
        rows.append(X.iloc[np.arange(values.size) % N].assign(**{name: values}))
    return pd.concat(rows, ignore_index=True)


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_are_the_librarys(classes: int) -> None:
    model = fitted(classes)
    assert {len(term) for term in model.term_features_} == {1, 2}
    trees = hf.load_model(model).classifier
    assert isinstance(trees, hf.TreeEnsemble), trees.why
    rows = odd(model)
    sums = trees.forest.sums(trees.score.matrix(rows))
    np.testing.assert_array_equal(sums, model.decision_function(rows).reshape(sums.shape))
    assert (trees.classes[trees.winners(trees.score(rows))] == model.predict(rows)).all()
    again = of_tree_document(tree_document(trees)).forest
    np.testing.assert_array_equal(again.sums(trees.score.matrix(rows)), sums)


def test_an_array_of_numbers_and_a_threshold() -> None:
    model = fitted(2, "abc")
    rows = X[list("abc")].to_numpy()
    loaded = hf.load_model(model, threshold=0.7)
    assert isinstance(loaded.classifier, hf.TreeEnsemble)
    sums = hf.load_model(model).classifier.sums(rows)[:, 0]
    np.testing.assert_array_equal(sums, model.decision_function(rows))
    accepted = model.predict_proba(rows)[:, 1] >= 0.7
    assert ((loaded.classifier.predict(rows) == "perhaps") == accepted).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_no_verdict_is_false(classes: int) -> None:
    rng, model = np.random.default_rng(1), fitted(classes, "abc")
    rows = X[list("abc")].to_numpy()[:30]
    today = hf.load_model(model).classifier
    for changes in changes_for(today.forest, rng):
        if isinstance(changes.thresholds, dict):
            changes = hf.TreeChanges(leaves=changes.leaves, thresholds={"1": 0.3})
        certs = hf.certify(model, rows, "perhaps", changes)
        for _ in range(8):
            assert (sampled(today, changes, rng).predict(rows) == "perhaps")[certs.robust].all()
        broken = np.flatnonzero([str(verdict) == "NOT_ROBUST" for verdict in certs.verdict])
        for row in broken[[0, -1]].tolist():
            assert certs.witness(row).predict(rows[[row]])[0] != "perhaps"
            assert changes.contains(today, certs.witness(row))
        if changes.thresholds:
            document = certificate(certs, int(broken[0]))
            assert check_certificate(document, model).accepted


def test_thresholds_move_as_far_as_the_library_can_hold_them() -> None:
    """A row at the end of the reach of a cut: x < t, so the left side ends one unit before the furthest t."""
    model = fitted(2, "abc")
    forest = hf.load_model(model).classifier.forest
    low, high = forest.around(np.full(forest.feature.size, 0.1))
    asked = forest.numeric & np.isfinite(forest.threshold)
    assert (forest.cuts(high)[asked] == np.nextafter(high[asked], -np.inf)).all()
    assert (high[asked] > forest.threshold[asked]).all()
    assert (low[asked] < forest.threshold[asked]).all()
    # What is missing has a leaf of its own, which no threshold leads to.
    gap = forest.numeric & np.isinf(forest.threshold)
    assert gap.any()
    assert (low[gap] == high[gap]).all()


def test_regions_end_at_cuts_alone() -> None:
    """What asks whether a value is missing cuts no numbers."""
    model, space = fitted(2), hf.FeatureSpace.from_frame(X, missing=["a", "k"])
    people = X[model.predict(X) == "no"].head(5)
    options: dict[str, Any] = {"target": "perhaps", "changes": hf.TreeChanges(leaves=0.001)}
    found = hf.explain(model, people, generator=hf.Closest(), space=space, **options)
    assert found.robust.any()
    lines = found.regions[found.regions["column"].isin(["a", "b", "c"])]
    ends = lines[["at_least", "at_most"]].astype(float)
    assert ends.isna().to_numpy().any()
    assert not (ends.abs() > 10.0).to_numpy().any()
    assert found.letter(int(np.flatnonzero(found.robust)[0])).guaranteed


def test_what_is_refused_is_named() -> None:
    with pytest.raises(InvalidInputError, match=r"has seen in 'k'.*got 'new'"):
        hf.load_model(fitted(2)).classifier.score(X.assign(k="new"))
    with pytest.raises(InvalidInputError, match="not fitted"):
        hf.load_model(glassbox.ExplainableBoostingClassifier())
    arrayed = glassbox.ExplainableBoostingClassifier(
        interactions=0, max_rounds=5, outer_bags=1, n_jobs=1
    ).fit(X[["b", "k"]].fillna("x").to_numpy(), SCORE > 0)
    loaded = hf.load_model(arrayed).classifier
    assert not isinstance(loaded, hf.TreeEnsemble)
    assert "column names for categories" in loaded.why
