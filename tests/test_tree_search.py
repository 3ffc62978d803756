"""`Closest` and `MCE` for trees against whole grids: every admissible row of small tables, scored by the library."""

from __future__ import annotations

import itertools
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

import holdfast as hf

ROWS = 160


def table(seed: int, *, gaps: bool = False) -> pd.DataFrame:
    """Three numbers and a label; some values missing."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "months": rng.integers(0, 9, ROWS),
            "share": rng.integers(0, 21, ROWS) / 20.0,
            "debt": rng.normal(size=ROWS).round(1),
            "job": rng.choice(["none", "part", "full", "own"], ROWS),
        }
    )
    if gaps:
        frame.loc[rng.random(ROWS) < 0.2, "share"] = np.nan
    return frame


def classes(frame: pd.DataFrame, seed: int, k: int) -> Any:
    rng = np.random.default_rng(seed + 1000)
    score = (
        frame["months"] / 4.0
        + 2.0 * frame["share"].fillna(0.3)
        - frame["debt"]
        + frame["job"].map({"none": -1.0, "part": 0.0, "full": 0.7, "own": 0.4})
        + rng.normal(scale=0.5, size=len(frame))
    )
    return np.asarray(pd.qcut(score, k, labels=False))


def fitted(kind: str, frame: pd.DataFrame, y: Any, seed: int) -> Any:
    """A small ensemble of one library, behind a one-hot encoder where it needs numbers."""
    hot = make_column_transformer(
        (OneHotEncoder(), ["job"]), (MinMaxScaler(), ["debt"]), remainder="passthrough"
    )
    category = frame.assign(job=frame["job"].astype("category"))
    if kind == "xgboost":
        model = xgboost.XGBClassifier(
            n_estimators=6, max_depth=3, learning_rate=0.5, enable_categorical=True
        )
        return model.fit(category, y), category
    if kind == "lightgbm":
        model = lightgbm.LGBMClassifier(
            n_estimators=6, num_leaves=6, learning_rate=0.5, min_child_samples=5, verbose=-1, min_data_per_group=5,
            cat_smooth=1.0,
        )  # fmt: skip
        return model.fit(category, y), category
    if kind == "histogram":
        model = HistGradientBoostingClassifier(
            max_iter=5, max_leaf_nodes=6, categorical_features="from_dtype", min_samples_leaf=5
        )
        return model.fit(category, y), category
    if kind == "boosted":
        model = GradientBoostingClassifier(
            n_estimators=5, max_depth=3, learning_rate=0.5, random_state=seed
        )
    elif kind == "forest":
        model = RandomForestClassifier(n_estimators=5, max_depth=4, random_state=seed)
    else:
        model = ExtraTreesClassifier(n_estimators=5, max_depth=4, random_state=seed)
    return make_pipeline(hot, model).fit(frame, y), frame


def space_of(frame: pd.DataFrame, seed: int, **more: Any) -> hf.FeatureSpace:
    """Columns on grids, now and then one that cannot move, or only one way."""
    rng = np.random.default_rng(seed + 7)
    way = ["immutable", "increasing", "decreasing", "free"][int(rng.integers(4))]
    limits: dict[str, Any] = {} if way == "free" else {way: ["months"]}
    limits["costs"] = {"share": float(rng.choice([0.5, 1.0, 3.0]))}
    return hf.FeatureSpace.from_frame(frame, steps={"share": 0.25, "debt": 0.5}, **limits, **more)


def every_row(space: hf.FeatureSpace, person: pd.DataFrame) -> pd.DataFrame:
    """All rows that this person could be told to become."""
    own, columns = space.numbers(person)[0], []
    for feature, mine in zip(space.features, own.tolist(), strict=True):
        if feature.labelled:
            values = [float(code) for code in range(feature.n_codes)]
        else:
            grid = feature.grid
            values = grid.value(np.arange(grid.first, grid.last + 1.0)).tolist()
        columns.append(sorted({*values}) + ([mine] if np.isnan(mine) or mine not in values else []))
    numbers = np.array([*itertools.product(*columns)])
    rows = space.restore(numbers)
    fine = space.satisfied(rows, person)
    return rows[fine].reset_index(drop=True)


def cheapest(
    model: Any, space: hf.FeatureSpace, person: pd.DataFrame, target: int, accepted: Any = None
) -> float:
    """The cost of the cheapest accepted row of all; inf where none is."""
    rows = every_row(space, person)
    rows = rows.astype({name: person[name].dtype for name in person.columns if name == "job"})
    fine = np.asarray(model.predict(rows)) == target if accepted is None else accepted(rows)
    costs = space.cost_l1(rows, person)
    return float(costs[fine].min(initial=np.inf))


def check(result: Any, least: float) -> None:
    """The answer is the cheapest; or it is proven that there is none."""
    if np.isinf(least):
        assert not result.found[0]
        assert result.reason[0].kind.proven, result.reason[0]
        return
    assert result.found[0], result.reason[0]
    assert result.cost_l1[0] == pytest.approx(least, abs=1e-12)
    assert result.optimality_gap[0] == 0.0
    assert result.lower_bound[0] <= least * (1.0 + 1e-9)


def certified(model: Any, changes: hf.Changes, target: int, space: hf.FeatureSpace) -> Any:
    """Which rows every ensemble in Δ accepts, as `certify` says; it says so of each of them."""

    def accepted(rows: pd.DataFrame) -> Any:
        points = space.encode(rows)
        loaded = hf.load_model(model).in_space(space, rows)
        verdicts = hf.certify(loaded, points, target=target, changes=changes).verdict
        assert not any(verdict is hf.Verdict.UNKNOWN for verdict in verdicts)
        return np.array([verdict is hf.Verdict.ROBUST for verdict in verdicts])

    return accepted


KINDS = ["xgboost", "lightgbm", "histogram", "boosted", "forest", "extra"]


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_cheapest_row_of_a_whole_grid(kind: str, k: int) -> None:
    """Today's trees, then those of a Δ drawn at random: leaves, thresholds, trees dropped, a shift."""
    seed, rng = KINDS.index(kind) + k, np.random.default_rng(k)
    gaps = k == 3 and kind in ("xgboost", "lightgbm", "histogram")
    frame = table(seed, gaps=gaps)
    model, read = fitted(kind, frame, classes(frame, seed, k), seed)
    space = space_of(read, seed, **({"missing": ["share"], "fillable": ["share"]} if gaps else {}))
    denied = read[model.predict(read) == 0]
    people = pd.concat([denied.head(2), denied[denied["share"].isna()].head(1)])
    size = 0.02 if kind in ("forest", "extra") else 0.2
    changes = hf.TreeChanges(
        leaves=float(rng.choice([size / 3.0, size, 6.0 * size])),
        thresholds=float(rng.choice([0.0, 0.1, 0.6])),
        dropped=int(rng.integers(2)),
        shift=float(rng.choice([0.0, size / 3.0])),
    )
    options: dict[str, Any] = {"target": k - 1, "space": space}
    today = hf.explain(model, people, generator=hf.MCE(), **options)
    under = hf.explain(model, people, generator=hf.Closest(), changes=changes, **options)
    robust = certified(model, changes, k - 1, space)
    for i in range(len(people)):
        person = people.iloc[[i]]
        check(_row(today, i), cheapest(model, space, person, k - 1))
        check(_row(under, i), cheapest(model, space, person, k - 1, robust))


def _row(result: Any, i: int) -> Any:
    class One:
        found, reason, cost_l1 = result.found[[i]], result.reason[[i]], result.cost_l1[[i]]
        optimality_gap, lower_bound = result.optimality_gap[[i]], result.lower_bound[[i]]

    return One


def world(kind: str = "xgboost", seed: int = 5) -> tuple[Any, pd.DataFrame, pd.DataFrame]:
    frame = table(seed)
    model, read = fitted(kind, frame, classes(frame, seed, 2), seed)
    return model, read, read[model.predict(read) == 0]


@pytest.mark.parametrize("kind", ["xgboost", "forest"])
def test_closest_under_a_shift_and_at_a_threshold(kind: str) -> None:
    model, read, denied = world(kind)
    space, changes = space_of(read, 5), hf.PlausibleShift(0.4)
    loaded = hf.load_model(model, threshold=0.6)
    result = hf.explain(
        loaded, denied.head(3), target=1, generator=hf.Closest(), changes=changes, space=space
    )
    for i in range(3):
        accepted = certified(loaded, changes, 1, space)
        check(_row(result, i), cheapest(model, space, denied.iloc[[i]], 1, accepted))


def test_rules_margins_and_the_number_of_columns() -> None:
    model, read, denied = world()
    space = space_of(read, 3, rules=["months <= 10*share + 2"])
    obeying = denied[denied["months"] <= 10.0 * denied["share"] + 2.0].head(3)
    loaded = hf.load_model(model).in_space(space, read)
    for generator, limited in (
        (hf.MCE(margin=0.3), False),
        (hf.Closest(max_features_changed=1), True),
    ):
        changes = hf.TreeChanges(leaves=0.01) if limited else None
        result = hf.explain(
            model, obeying, target=1, generator=generator, changes=changes, space=space
        )
        for i in range(len(obeying)):
            person = obeying.iloc[[i]]

            def accepted(rows: pd.DataFrame, person: Any = person, limited: bool = limited) -> Any:
                if limited:
                    fine = certified(model, hf.TreeChanges(leaves=0.01), 1, space)(rows)
                    return fine & (space.changed(rows, person) <= 1)
                return loaded.classifier.logits(space.encode(rows))[:, 0] >= 0.3

            check(_row(result, i), cheapest(model, space, person, 1, accepted))


def test_numbers_without_steps_end_at_the_cuts() -> None:
    """Without a grid the cheapest row lies at a cut: all of them, and the numbers beside them, are tried."""
    model, read, denied = world("lightgbm", 2)
    space = hf.FeatureSpace.from_frame(read, immutable=["job", "months"])
    forest = hf.load_model(model).classifier.forest
    options = []
    for column in ("share", "debt"):
        place = list(read.columns).index(column)
        cuts = forest.cut[forest.feature == place]
        # LightGBM takes the least numbers for 0, and so a cut among them as if it were below all of these.
        options.append(
            np.unique([*cuts, *np.nextafter(cuts, np.inf), *np.nextafter(cuts, -np.inf)])
        )
    result = hf.explain(model, denied.head(4), target=1, generator=hf.MCE(), space=space)
    for i in range(4):
        person = denied.iloc[[i]]
        pairs = itertools.product(
            *(
                [*part, person[c].iloc[0]]
                for part, c in zip(options, ("share", "debt"), strict=True)
            )
        )
        rows = pd.concat(
            [person] * (len(options[0]) + 1) * (len(options[1]) + 1), ignore_index=True
        )
        rows[["share", "debt"]] = [*pairs]
        fine = (model.predict(rows) == 1) & space.satisfied(rows, person)
        least = float(space.cost_l1(rows, person)[fine].min(initial=np.inf))
        if np.isinf(least):
            assert result.reason[i].kind.proven
        else:
            assert result.cost_l1[i] == pytest.approx(least, rel=1e-9)
            assert result.optimality_gap[i] == 0.0


def test_a_time_limit_gives_a_true_gap() -> None:
    model, read, denied = world("boosted")
    space = space_of(read, 1)
    for limit in (1e-6, 0.02, 0.05):
        result = hf.explain(
            model, denied.head(3), target=1, generator=hf.MCE(), space=space, time_limit=limit
        )
        for i in range(3):
            least = cheapest(model, space, denied.iloc[[i]], 1)
            assert np.isnan(result.lower_bound[i]) or result.lower_bound[i] <= least * (1.0 + 1e-9)
            assert not result.found[i] or result.cost_l1[i] >= least * (1.0 - 1e-9)


def test_robust_alternatives_and_what_is_refused() -> None:
    model, read, denied = world()
    space, changes = space_of(read, 1), hf.TreeChanges(leaves=0.02)
    options: dict[str, Any] = {"target": 1, "changes": changes, "space": space}
    robust = hf.explain(model, denied.head(2), generator=hf.Robust(hf.MCE()), **options)
    closest = hf.explain(model, denied.head(2), generator=hf.Closest(), **options)
    assert robust.robust.all()
    assert closest.robust.all()
    assert (robust.cost_l1 >= closest.cost_l1 - 1e-12).all()
    ways = hf.alternatives(model, denied.head(1), generator=hf.Closest(), **options)
    assert ways["answer"].tolist()[:2] == [1, 2]
    with pytest.raises(hf.HoldfastError, match="plausible: expected None with trees"):
        hf.explain(model, denied.head(1), generator=hf.Closest(plausible=read), **options)
    network = hf.Network([[[-1.0, 1.0]]], [[0.0]])
    other = hf.explain(network, [[0.7, 0.5]], target=1, generator=hf.MCE())
    with pytest.raises(hf.HoldfastError, match="regions: expected an ensemble of trees"):
        _ = other.regions


def within(regions: pd.DataFrame, answer: pd.Series[Any], seed: int, n: int) -> pd.DataFrame:
    """Rows of a region: at its ends, near them, and anywhere between."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame([answer] * n).reset_index(drop=True)
    for line in regions.itertuples():
        if isinstance(answer[line.column], str):
            continue
        low, high = (
            float(answer[line.column]) + far if np.isnan(end) else float(end)
            for end, far in ((line.at_least, -9.0), (line.at_most, 9.0))
        )
        values = rng.choice([low, high, *rng.uniform(low, high, 5)], n)
        whole = line.column == "months"
        rows[line.column] = (
            np.clip(np.rint(values), np.ceil(low), np.floor(high)) if whole else values
        )
    return rows


def test_a_region_holds_whoever_is_between_two_steps() -> None:
    X = pd.DataFrame({"a": [0.0, 0.0, 1.0, 1.0, 1.0] * 5, "b": [0.2, 0.5, 0.42, 0.45, 0.6] * 5})
    model = GradientBoostingClassifier(n_estimators=10, random_state=0)
    model.fit(X, ((X["a"] > 0.5) & (X["b"] < 0.43)).astype(int))
    space = hf.FeatureSpace.from_frame(X, steps={"a": 1, "b": 0.25}, immutable=["b"])
    person = pd.DataFrame({"a": [0.0], "b": [0.42]})
    result = hf.explain(model, person, target=1, generator=hf.MCE(), space=space)
    assert result.found.all()
    # The last step before the cut at 0.435 is 0.2.
    assert result.regions.set_index("column").loc["b", "at_most"] == 0.42


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "boosted", "forest"])
def test_every_row_of_a_region_is_accepted(kind: str) -> None:
    for seed in (len(kind) % 2,):
        frame = table(seed)
        k = 2 + seed
        model, read = fitted(kind, frame, classes(frame, seed, k), seed)
        size = 0.01 if kind == "forest" else 0.05
        space = hf.FeatureSpace.from_frame(read, scale="none")
        changes = [
            hf.TreeChanges(leaves=size, thresholds=0.05, dropped=seed),
            hf.PlausibleShift(0.1),
        ]
        people = read[model.predict(read) == 0].head(2)
        for one in (None, *changes):
            generator = hf.MCE(margin=0.2) if one is None else hf.Closest()
            result = hf.explain(
                model, people, target=k - 1, generator=generator, changes=one, space=space
            )
            regions = result.regions
            assert set(regions["row"]) == set(result.answered)
            for row, lines in regions.groupby("row"):
                told = lines[lines["changed"]]["column"]
                answer = result.counterfactuals.iloc[row]
                before = people.iloc[row]
                assert set(told) == {c for c in read.columns if answer[c] != before[c]}
                rows = within(lines, answer, seed, 80).astype(read.dtypes)
                loaded = hf.load_model(model).in_space(space, rows)
                if one is None:
                    assert (loaded.classifier.predict_index(space.encode(rows)) == k - 1).all()
                else:
                    judged = hf.certify(loaded, space.encode(rows), target=k - 1, changes=one)
                    assert judged.robust.all()
