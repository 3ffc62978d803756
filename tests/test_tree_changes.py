"""Trees whose leaves and thresholds may move: verdicts against fractions, samples and the libraries themselves."""

from __future__ import annotations

import time
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast._leaf_masks import Least
from holdfast.changes import changes_from_dict
from holdfast.errors import FileFormatError, InvalidInputError, UnsupportedModelError
from holdfast.importers import Model
from holdfast.importers._tree_files import suffixes, write_trees
from holdfast.promises import write_parameters
from holdfast.verify._certify import certify_points
from holdfast.verify._deciders import decider_for
from test_trees import FULL, MODELS, NUMBERS, N, Y, around, lgb, xgb
from tree_changes import changes_for, sampled

ROWS = 12


def by_the_library(path: Path, X: pd.DataFrame) -> Any:
    if path.suffix == ".txt":
        shares = lightgbm.Booster(model_file=str(path)).predict(X)
        return (shares > 0.5).astype(int) if shares.ndim == 1 else shares.argmax(axis=1)
    model = xgboost.XGBClassifier()
    model.load_model(path)
    return model.predict(X)


# Every model with two classes or with three in turn, one of each library with both; bench/trees.py has many more.
BOTH = ("xgboost", "lightgbm", "random forest")


@pytest.mark.parametrize(
    ("name", "classes"),
    [(name, k) for i, name in enumerate(MODELS) for k in (2, 3) if k == 2 + i % 2 or name in BOTH],
)
def test_no_verdict_is_false(name: str, classes: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([classes, *map(ord, name)])
    make, X = MODELS[name]
    today = hf.load_model(make(classes)).classifier
    assert isinstance(today, hf.TreeEnsemble)
    rows = X.iloc[rng.choice(N, ROWS, replace=False)].reset_index(drop=True)
    asked, points = today.about(rows)
    assert isinstance(asked, hf.TreeEnsemble)
    for changes in changes_for(today.forest, rng):
        targets = asked.predict_index(points)
        targets[:2] = (targets[:2] + 1) % classes
        certs = certify_points(decider_for(Model(asked), changes), points, targets)
        assert not certs.robust[:2].any()
        for _ in range(8):
            other = sampled(asked, changes, rng).predict_index(points)
            assert (other == targets)[certs.robust].all()
        broken = np.flatnonzero([str(verdict) == "NOT_ROBUST" for verdict in certs.verdict])
        for row in broken[[0, -1]].tolist():
            witness = certs.witness(row)
            assert int(witness.predict_index(points[[row]])[0]) != targets[row]
            assert changes.contains(asked, witness)
            if today.origin is None or (changes.shift and today.forest.divisor != 1.0):
                continue
            path = tmp_path / f"witness{suffixes(today)[0]}"
            write_trees(witness, path)
            assert by_the_library(path, rows)[row] != targets[row]
            matrix = today.score.matrix(rows)
            np.testing.assert_array_equal(
                hf.load_model(path).classifier.forest.sums(matrix), witness.forest.sums(matrix)
            )


def brute_force(
    forest: Any, radii: Any, low: Any, high: Any, x: Any, dropped: int
) -> tuple[Fraction, int]:
    """The least sum over every leaf moved up, down or not at all and every threshold at an end, tree by tree."""
    terms, steps = [], 0
    for tree in range(forest.n_trees):
        nodes = np.flatnonzero(forest.tree_of == tree)
        inner = [node for node in nodes if forest.feature[node] >= 0]
        reached = []
        for ends in product(*[(low[node], forest.threshold[node], high[node]) for node in inner]):
            at, limits = int(forest.roots[tree]), dict(zip(inner, ends, strict=True))
            while forest.feature[at] >= 0:
                number = np.float32(x[forest.feature[at]])
                at = int(forest.left[at] if number < limits[at] else forest.right[at])
            value, radius = Fraction(float(forest.values[at, 0])), Fraction(float(radii[at]))
            reached.append(min(value - radius, value, value + radius))
            steps += 1
        terms.append(min(reached))
    gone = sorted(terms, reverse=True)[:dropped]
    total = Fraction(float(forest.base[0])) + sum(terms) - sum(max(t, Fraction(0)) for t in gone)
    return total, steps


def test_worst_margins_are_those_of_brute_force() -> None:
    rng = np.random.default_rng(0)
    X, y = FULL[NUMBERS].to_numpy(), Y[2]
    decided, robust = 0, 0
    for seed in range(6):
        model = xgboost.XGBClassifier(
            n_estimators=3, max_depth=2, n_jobs=1, random_state=seed, subsample=0.5
        ).fit(X, y)
        today = hf.load_model(model).classifier
        changes = hf.TreeChanges(
            leaves=rng.random(int(today.forest.leaves.sum())) * 0.2,
            thresholds=float(rng.choice([0.0, 0.01, 0.3])),
            dropped=int(rng.integers(0, 2)),
        )
        radii = changes.leaf_radii(today)
        low, high = today.forest.around(changes.threshold_radii(today))
        certs = hf.certify(model, X[:40], 1, changes)
        for row, x in enumerate(X[:40]):
            least, steps = brute_force(today.forest, radii, low, high, x, changes.dropped)
            assert steps >= 3 * 27
            assert certs.margin_lower[row] <= least <= certs.margin_upper[row]
            assert float(certs.margin_upper[row] - certs.margin_lower[row]) < 1e-5
            if abs(least) > 1e-5:
                decided += 1
                robust += certs.robust[row]
                assert certs.robust[row] == (least > 0)
    assert decided > 200
    assert 20 < robust < decided - 20


def test_a_radius_is_where_the_verdict_turns() -> None:
    X = FULL[NUMBERS]
    for model in (
        xgboost.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1).fit(X, Y[2]),
        lightgbm.LGBMClassifier(n_estimators=6, verbose=-1, n_jobs=1).fit(X, Y[2]),
        RandomForestClassifier(6, max_depth=3, random_state=0).fit(X, Y[3]),
    ):
        for changes in (
            hf.TreeChanges(leaves=0.01),
            hf.TreeChanges(leaves=0.01, thresholds=0.01, dropped=1, shift=0.01),
        ):
            found = hf.certified_radius(model, X[:15], 1, changes=changes)
            for row in range(15):
                one = X.iloc[[row]]
                lower, upper = found.lower[row], found.upper[row]
                if np.isfinite(upper) and upper > 0.0:
                    assert upper - lower < 1e-3 * upper + 1e-5
                    assert not hf.certify(model, one, 1, changes.resized(upper)).robust[0]
                if 0.0 < lower < np.inf:
                    assert hf.certify(model, one, 1, changes.resized(lower * 0.999)).robust[0]


def test_radii_of_hundreds_of_rows_take_no_longer_than_some_passes() -> None:
    X = FULL[NUMBERS]
    model = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(X, Y[2])
    changes = hf.TreeChanges(leaves=0.01, thresholds=0.01)
    hf.certified_radius(model, X[:1], 1, changes=changes)
    started = time.process_time()
    found = hf.certified_radius(model, X[:200], 1, changes=changes)
    assert time.process_time() - started < 2.0
    assert (found.upper == 0.0).any()
    assert (found.lower > 0.0).any()


def test_a_radius_of_leaves_is_the_margin_over_the_radii_met() -> None:
    X = FULL[NUMBERS]
    model = lightgbm.LGBMClassifier(n_estimators=6, verbose=-1, n_jobs=1).fit(X, Y[2])
    margins = model.predict(X, raw_score=True)
    for size in (1e-9, 0.01, 1e3):
        found = hf.certified_radius(model, X, 1, changes=hf.TreeChanges(leaves=size))
        expected = np.maximum(margins, 0.0) / (6 * size)
        np.testing.assert_allclose(found.lower, expected, rtol=1e-6)
        assert (found.lower <= expected * (1.0 + 1e-12)).all()
    # Nothing that a row meets moves: no factor is too large.
    still = hf.certified_radius(model, X, 1, changes=hf.TreeChanges())
    assert (np.isinf(still.lower) == (margins > 0.0)).all()


@pytest.mark.parametrize("threshold", [None, 0.6])
def test_a_shift_of_a_forest_is_one_of_its_probability(threshold: float | None) -> None:
    X = FULL[NUMBERS]
    model = RandomForestClassifier(20, max_depth=4, random_state=0).fit(X, Y[2])
    share, bar = model.predict_proba(X)[:, 1], threshold or 0.5
    for target, above in ((1, share - bar), (0, bar - share)):
        shift = float(np.median(above[above > 0.0]))
        clear = np.abs(above - shift) > 1e-9
        changes = hf.TreeChanges(shift=shift)
        certs = hf.certify(model, X, target, changes, threshold=threshold)
        assert (certs.robust == (above > shift))[clear].all()
        found = hf.certified_radius(model, X, target, changes=changes, threshold=threshold)
        np.testing.assert_allclose(found.lower, np.maximum(above, 0.0) / shift, atol=1e-6)
        near = int(np.argmax(np.where(above < shift, above, -1.0)))
        today = hf.load_model(model, threshold).classifier
        assert changes.contains(today, certs.witness(near))
        assert not hf.TreeChanges(shift=0.9 * shift).contains(today, certs.witness(near))


def test_trees_that_were_added_belong_to_the_set_where_they_add_little() -> None:
    X = FULL[NUMBERS]
    for classes in (2, 3):
        model = xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1).fit(X, Y[classes])
        more = xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1)
        more.fit(X, Y[classes], xgb_model=model)
        today, grown = (hf.load_model(one).classifier for one in (model, more))
        sums = [one.forest.sums(today.score.matrix(X)) for one in (today, grown)]
        moved = np.sort(np.abs(sums[1] - sums[0]), axis=1)[:, -2:].sum(axis=1).max()
        assert not hf.TreeChanges(shift=0.9 * moved).contains(today, grown)
        assert not hf.TreeChanges(leaves=9.0).contains(today, grown)
        assert hf.TreeChanges(shift=20.0 * moved).contains(today, grown)
        assert not hf.TreeChanges(shift=20.0 * moved).contains(grown, today)
        # A tenth is no float32: what a witness adds is the last one below it.
        changes, targets = hf.TreeChanges(shift=0.1), model.predict(X)
        certs = hf.certify(model, X, targets, changes)
        for row in np.flatnonzero(~certs.robust)[:3].tolist():
            assert certs.witness(row).forest.n_trees > today.forest.n_trees
            assert changes.contains(today, certs.witness(row))


def test_a_changed_model_belongs_to_the_set_or_does_not() -> None:
    today = hf.load_model(xgb(2)).classifier
    changes = hf.TreeChanges(leaves=0.1, thresholds=0.05, dropped=1)
    rng = np.random.default_rng(0)
    assert changes.contains(today, today)
    for _ in range(10):
        assert changes.contains(today, sampled(today, changes, rng))
    for wider in (
        hf.TreeChanges(leaves=0.2, thresholds=0.05),
        hf.TreeChanges(leaves=0.1, thresholds=0.1),
        hf.TreeChanges(leaves=0.1, dropped=3),
    ):
        assert not all(changes.contains(today, sampled(today, wider, rng)) for _ in range(5))
    assert not changes.contains(today, hf.load_model(xgb(2, max_depth=2)).classifier)
    assert not changes.contains(today, hf.load_model(lgb(2)).classifier)


def test_it_is_a_value_with_words() -> None:
    given = hf.TreeChanges(leaves=[0.1, 0.2], thresholds={"a": 1.0}, dropped=2, shift=0.5)
    assert changes_from_dict(given.to_dict()) == given != given.resized(2.0)
    assert str(given) == (
        "TreeChanges(leaves in radii of their own, at most 0.2, thresholds of a within 1, up to 2 trees dropped, "
        "trees added that take at most 0.5 off the margin, or off a forest's probability)"
    )
    for wrong in ({"leaves": -1.0}, {"leaves": [[0.1]]}, {"dropped": 0.5}, {"shift": np.inf}):
        with pytest.raises(InvalidInputError):
            hf.TreeChanges(**wrong)
    model = lgb(2)
    with pytest.raises(InvalidInputError, match="one radius for each of the"):
        hf.certify(model, FULL, "yes", given)
    with pytest.raises(InvalidInputError, match="expected trees"):
        hf.certify(hf.Network([[[1.0]]], [[0.0]]), [[1.0]], 1, hf.TreeChanges(leaves=0.1))
    with pytest.raises(UnsupportedModelError):
        hf.certify(model, FULL, "yes", hf.PlausibleChanges(0.1))


def test_refits_keep_the_structure_and_give_each_leaf_a_radius() -> None:
    X, y = FULL[NUMBERS], Y[2]
    for model in (
        xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(X, y),
        lightgbm.LGBMClassifier(n_estimators=5, num_leaves=6, verbose=-1, n_jobs=1).fit(X, y),
        # Of a pipeline the trees alone are trained on.
        make_pipeline(StandardScaler(), xgboost.XGBClassifier(n_estimators=5, n_jobs=1)).fit(X, y),
    ):
        today = hf.load_model(model).classifier
        refits = hf.retrain(model, X, y, how="refit", share=0.5, n=14)
        assert all(one.forest.same_structure(today.forest) for one in refits.classifiers)
        assert not any(one == today for one in refits.classifiers)
        for kept, one in zip(refits.models, refits.classifiers, strict=True):
            assert (one.predict(X) == kept.predict(X)).all()
            assert one.reads_like(today)
        chosen = hf.delta_calibrated(refits, coverage=0.9)
        inside = [chosen.changes.contains(today, one) for one in refits.classifiers]
        assert chosen.rank == chosen.n_ranked == 10 or chosen.guaranteed >= 0.9
        # Those that were ranked up to the rank lie inside, whatever the shape saw.
        assert sum(inside[-chosen.n_ranked :]) >= chosen.rank
        further = hf.retrain(model, X, y, how="continue", share=0.5, n=2, epochs=3)
        assert [one.forest.n_trees for one in further.classifiers] == [8, 8]
        with pytest.raises(InvalidInputError, match="have another structure"):
            hf.delta_calibrated(further, coverage=0.5)
        # Trees say how far their leaves moved; and what to do where they cannot be fine-tuned.
        assert "today's trees with leaves moved by up to" in repr(refits)
        assert "trees of another structure" in repr(further)
        with pytest.raises(InvalidInputError, match="expected 'refit', 'continue', 'complete' or"):
            hf.retrain(model, X, y, how="incremental")
        for ignored in ({"shape": "parameter"}, {"shape": "uniform"}, {"norm": 2.0}):
            with pytest.raises(InvalidInputError, match="shape, norm: leave them out for trees"):
                hf.delta_calibrated(refits, coverage=0.5, **ignored)
    with pytest.raises(InvalidInputError, match="XGBClassifier or an LGBMClassifier"):
        hf.retrain(MODELS["a tree"][0](2), X, y, how="refit")


def test_a_history_of_refitted_trees_gives_each_leaf_a_radius(tmp_path: Path) -> None:
    X, y = FULL[NUMBERS], Y[2]
    model = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=6, verbose=-1, n_jobs=1).fit(X, y)
    parts = [np.arange(i, N, 12) for i in range(12)]
    months = [model.booster_.refit(X.iloc[rows], y[rows], decay_rate=0.98) for rows in parts]
    for i, month in enumerate(months):
        month.save_model(tmp_path / f"{i:02d}.txt")
    files = sorted(tmp_path.glob("*.txt"))
    found = hf.delta_calibrated(months, origin=model, coverage=0.8, X=X)
    today, moves = hf.load_model(model).classifier, found.evidence["distance"]
    kept = [found.changes.contains(today, hf.load_model(month).classifier) for month in months]
    assert sum(kept[-found.n_ranked :]) == found.rank
    values = [hf.load_model(month).classifier.forest.values for month in months]
    assert moves.tolist() == [float(np.abs(one - today.forest.values).max()) for one in values]
    robust = hf.certify(model, X[model.predict(X) == 1], 1, found.changes).robust
    said = f"{robust.sum()} of {len(robust)} rows of class 1 are robust at these radii of up to"
    assert said in str(found)
    assert "use risk_calibrated" not in str(found)
    by_file = hf.delta_calibrated(files, origin=model, coverage=0.8, X=X)
    assert by_file.changes == found.changes
    # In the order of their use, each the retraining of the one before: the last is today's.
    chain = [model.booster_]
    for rows in parts:
        chain.append(chain[-1].refit(X.iloc[rows], y[rows], decay_rate=0.0))
    far = hf.delta_calibrated(chain, coverage=0.8, X=X)
    assert len(far.evidence) == 12
    last = hf.load_model(chain[-1])
    accepted = X[last.classifier.predict(X) == 1]
    assert not hf.certify(last, accepted, 1, far.changes).robust.any()
    radii = hf.certified_radius(last, accepted, 1, changes=far.changes).lower
    largest = far.changes.leaves.max()
    said = f"0 of {len(accepted)} rows of class 1 are robust at these radii of up to {largest:.2g}"
    assert f"{said}, half of them at {np.median(radii) * largest:.2g}: use risk_cal" in str(far)
    # What cannot be compared is named by its number, and why.
    other = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=6, verbose=-1).fit(X[::2], y[::2])
    for bad, said in (
        (other, r"trees of retraining 3 have another structure; .* risk_calibrated"),
        (
            lambda table: np.zeros(len(table)),
            r"retraining 3 have another structure \(the model is known by its scores alone\)",
        ),
        (tmp_path / "none.txt", "model 3: .*none.txt"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            hf.delta_calibrated([*months[:2], bad, *months[3:]], origin=model, coverage=0.8)
    with pytest.raises(InvalidInputError, match="X: only trees take a table here"):
        hf.delta_calibrated([0.1] * 9, coverage=0.8, X=X)


def test_a_row_without_a_value_is_certified_where_the_trees_know_where_it_goes() -> None:
    X = FULL[NUMBERS].copy()
    X.loc[::3, "a"] = np.nan
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(X, Y[2])
    certs = hf.certify(model, X, 1, hf.TreeChanges())
    assert (certs.robust == (model.predict(X) == 1)).all()


def test_a_witness_is_saved_as_a_file_of_its_library(tmp_path: Path) -> None:
    X, y = FULL[NUMBERS], Y[2]
    changes = hf.TreeChanges(leaves=0.1, thresholds=0.05)
    boosted = xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(X, y)
    certs = hf.certify(boosted, X, 1, changes)
    accepted = boosted.predict(X) == 1
    row = int(
        np.flatnonzero((certs.outcome.verdict == certs.outcome.verdict[~accepted][0]) & accepted)[0]
    )
    witness = certs.witness(row)
    point = X.iloc[[row]].to_numpy()
    path = tmp_path / "witness.ubj"
    saved = hf.save_witness(witness, boosted, path, point=point, target=1, changes=changes)
    assert saved.predicted == 0 == by_the_library(path, X)[row]
    with pytest.raises(InvalidInputError, match=r"\.json"):
        hf.save_witness(
            witness, boosted, tmp_path / "a.txt", point=point, target=1, changes=changes
        )


def test_trees_of_other_libraries_have_no_file_and_are_told_what_to_do(tmp_path: Path) -> None:
    X, changes = FULL[NUMBERS], hf.TreeChanges(leaves=0.2)
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, Y[2])
    witness = hf.certify(model, X, model.predict(X), changes).witness(0)
    options: dict[str, Any] = {
        "point": X.head(1),
        "target": model.predict(X)[0],
        "changes": changes,
    }
    with pytest.raises(InvalidInputError, match=r"XGBoost \(\.json, \.ubj\) or LightGBM \(\.txt\)"):
        hf.save_witness(witness, model, tmp_path / "witness.json", **options)
    write_parameters(witness, tmp_path / "trees.json")
    assert (tmp_path / "trees.json").exists()


def _robust(model, X, changes, target=1, **options):
    return hf.certify(model, X, target, changes, **options).robust


def test_rounds_past_the_best_one_are_not_counted(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 1.5 * rng.normal(size=1500) > 0).astype(int)
    fitted = xgboost.XGBClassifier(
        n_estimators=60, early_stopping_rounds=5, n_jobs=1, learning_rate=0.6
    ).fit(X[:700], y[:700], eval_set=[(X[700:], y[700:])], verbose=False)
    fitted.save_model(tmp_path / "m.json")
    model = xgboost.XGBClassifier()
    model.load_model(tmp_path / "m.json")
    sums = hf.load_model(model).classifier.sums(X).ravel()
    assert (sums == model.predict(X, output_margin=True)).all()
    robust = _robust(model, X, hf.TreeChanges(leaves=0.001))
    assert robust.any()
    assert (model.predict(X)[robust] == 1).all()


def test_categories_in_an_array_are_known_by_scores_alone():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), rng.choice([1.0, 2.0, 3.0], 300)])
    y = ((X[:, 1] == 2) * 2 + X[:, 0] > 1).astype(int)
    model = HistGradientBoostingClassifier(max_iter=5, categorical_features=[1]).fit(X, y)
    with pytest.raises(InvalidInputError, match="table with column names for categories"):
        _robust(model, X, hf.TreeChanges(leaves=0.001))


def test_lightgbm_with_categories_is_read_after_a_refit_on_rows_in_which_columns_are_constant():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "a": rng.normal(size=300), "job": pd.Categorical(rng.choice(["x", "y", "z"], 300)),
        "k": rng.integers(0, 3, 300).astype(float), "flag": pd.Categorical(rng.choice(["no", "yes"], 300)),
    })  # fmt: skip
    y = (X["a"] + (X["job"] == "x") + (X["flag"] == "yes") > 0.8).astype(int)
    options = {
        "n_estimators": 5,
        "min_data_per_group": 5,
        "cat_smooth": 1,
        "verbose": -1,
        "n_jobs": 1,
    }
    model = lightgbm.LGBMClassifier(**options).fit(X, y)
    today = hf.load_model(model).classifier
    assert (today.forest.category >= 0).any()
    # A number that is constant, a category that is, and both.
    for rows in (X["k"] == 1, X["flag"] == "no", (X["k"] == 1) & (X["flag"] == "no")):
        later = model.booster_.refit(X[rows], y[rows])
        assert "none" in later.model_to_string()
        refit = hf.load_model(later).classifier
        assert refit.score.labels == today.score.labels
        assert refit.forest.same_structure(today.forest)
        assert refit.reads_like(today)
        np.testing.assert_array_equal(refit.score(X)[:, 0], later.predict(X, raw_score=True))


def test_categories_that_may_be_anyones_are_known_by_scores_alone():
    rng = np.random.default_rng(0)
    a, c = rng.normal(size=300), rng.choice([1.0, 2.0, 3.0], 300)
    y = ((c == 2) * 2 + a > 1).astype(int)
    alone = pd.Categorical([7.0] * 300, categories=[7.0, 2.0, 3.0, 1.0])
    X = pd.DataFrame({"k": alone, "a": a, "c": c})
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1, min_data_per_group=5)
    model.fit(X, y, categorical_feature=["k", "c"])
    space = hf.FeatureSpace.from_frame(X, scale="none")
    with pytest.raises(InvalidInputError, match="in which these are the same columns"):
        _robust(model, X, hf.TreeChanges(leaves=0.001), space=space)


def test_the_mean_of_fewer_trees_is_refused_at_a_threshold():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, (X[:, 0] > 0).astype(int))
    with pytest.raises(InvalidInputError, match="dropped: expected 0"):
        _robust(model, X, hf.TreeChanges(dropped=1), 0, threshold=0.7)
    assert _robust(model, X, hf.TreeChanges(dropped=1)).any()


def test_margins_that_a_softmax_takes_for_equal_prove_nothing(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 1)), np.arange(60) % 3
    model = lightgbm.LGBMClassifier(
        n_estimators=1, num_leaves=2, verbose=-1, n_jobs=1, min_child_samples=5
    ).fit(X, y)
    today = hf.load_model(model).classifier
    forest = today.forest
    margins = np.array([0.0, 1e-17, -1.0])[forest.output[forest.tree_of]]
    values = np.where(forest.leaves, margins, 0.0)[:, None]
    write_trees(today.with_forest(forest.changed(values, forest.threshold)), tmp_path / "m.txt")
    tied = lightgbm.Booster(model_file=str(tmp_path / "m.txt"))
    assert tied.predict(X[:1]).argmax() == 0
    for leaves in (0.0, 1e-25):
        assert not _robust(tied, X[:1], hf.TreeChanges(leaves=leaves)).any()


def test_radii_beyond_floats_and_a_text_cut_short_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    model = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1)
    model.fit(X, (X[:, 0] > 0).astype(int))
    with pytest.raises(InvalidInputError, match="leaves: the sums of these radii overflow"):
        _robust(model, X, hf.TreeChanges(leaves=1e308))
    text = model.booster_.model_to_string()
    (tmp_path / "cut.txt").write_text(text[: len(text) // 3])
    with pytest.raises(FileFormatError, match="ends too soon"):
        hf.load_model(tmp_path / "cut.txt")


@pytest.mark.parametrize("name", ["xgboost, sets", "lightgbm, zeros", "histogram", "random forest"])
def test_tables_of_bits_say_what_walking_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast._leaf_masks._ROWS", 1)
    make, X = MODELS[name]
    trees = hf.load_model(make(3)).classifier
    forest, matrix = trees.forest, trees.score.matrix(around(trees, X))
    costs = np.random.default_rng(0).normal(size=forest.feature.size)
    for cells in (8192, 2):
        monkeypatch.setattr("holdfast._leaf_masks._CELLS", cells)
        for radius in (0.0, 0.3):
            low, high = map(forest.cuts, forest.around(np.full(costs.size, radius)))
            least = Least(forest, costs, low, high)
            ours = np.vstack([terms.copy() for _, terms in least(matrix)])
            walked = np.vstack([terms for _, terms in forest.least(matrix, costs, low, high)])
            np.testing.assert_array_equal(ours, walked)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "gradient boosting"])
def test_no_logit_leaves_its_range_and_its_ends_are_met(name: str, classes: int) -> None:
    rng, X = np.random.default_rng(classes), FULL[NUMBERS][:20]
    if name == "gradient boosting":
        model = MODELS[name][0](classes)
    else:
        make = xgboost.XGBClassifier if name == "xgboost" else lightgbm.LGBMClassifier
        options = {"verbose": -1} if name == "lightgbm" else {}
        model = make(n_estimators=6, n_jobs=1, **options).fit(FULL[NUMBERS], Y[classes])
    today = hf.load_model(model).classifier
    forest, rows = today.forest, X.to_numpy()
    for changes in changes_for(forest, rng):
        found = hf.output_bounds(model, X, changes, tol=1e-4)
        assert found.lower.shape == (20, 1 if classes == 2 else 3)
        assert found.met.all()
        for _ in range(10):
            logits = sampled(today, changes, rng).logits(rows)
            assert (found.lower <= logits).all()
            assert (logits <= found.upper).all()
        # By hand: what each tree adds at least and at most, of the leaves that it may reach.
        radii = changes.leaf_radii(today)
        ends = [forest.cuts(end) for end in forest.around(changes.threshold_radii(today))]
        for row in range(3):
            for k in range(found.lower.shape[1]):
                own = [
                    np.array([way[-1] for way in ways])
                    for ways, output in zip(
                        forest.reachable(rows[row], *ends), forest.output, strict=True
                    )
                    if output == k
                ]
                for sign, end in ((1.0, found.lower), (-1.0, found.upper)):
                    terms = sorted(
                        (sign * forest.values[leaves, 0] - radii[leaves]).min() for leaves in own
                    )
                    gone = terms[len(terms) - changes.dropped :]
                    worst = sign * forest.base[k] + sum(terms) - sum(max(t, 0.0) for t in gone)
                    assert abs(sign * end[row, k] - worst + changes.shift) < 1e-4


def test_ranges_of_what_is_no_sum_are_refused() -> None:
    forest = MODELS["random forest"][0](2)
    with pytest.raises(InvalidInputError, match="logits are sums of leaves"):
        hf.output_bounds(forest, FULL[NUMBERS][:2], hf.TreeChanges(leaves=0.1))
    with pytest.raises(InvalidInputError, match="expected trees"):
        hf.output_bounds(hf.Network([[[1.0]]], [[0.0]]), [[1.0]], hf.TreeChanges(leaves=0.1))
    with pytest.raises(InvalidInputError, match="does not use a threshold"):
        hf.output_bounds(forest, FULL[NUMBERS][:2], hf.TreeChanges(threshold=(0.4, 0.6)))
