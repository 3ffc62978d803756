"""`Closest` and `MCE` for trees against whole grids: every admissible row of small tables, scored by the library."""

from __future__ import annotations

import itertools
import time
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
from sklearn.preprocessing import KBinsDiscretizer, MinMaxScaler, OneHotEncoder

import holdfast as hf
from holdfast.datasets import make_loans
from holdfast.generators._tree_pieces import outer_boxes, pieces_of
from holdfast.generators._tree_reading import Questions, TreeReader
from tree_grids import compared, every_row
from tree_problems import cut_off, dear, faults

# Rules that rows break, and people who are out of the ranges, are what some of these tests are about.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{start}:holdfast.errors.HoldfastWarning")
    for start in ("X. column", "rule ")
]

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


@pytest.mark.parametrize("seed", range(10))
def test_cheapest_row_of_a_whole_grid(seed: int) -> None:
    """Today's trees, then those of a Δ drawn at random; with first answers, and by bounds alone."""
    said = [*compared(seed)]
    assert said
    assert [(what, where) for what, fine, where in said if not fine] == []


def test_searches_cut_off_nothing_that_is_cheaper() -> None:
    """Hundreds of small problems with every choice tried; each bound of its own, where it is tight."""
    false, ruled_out = [], 0
    for seed in range(60):
        false += faults(seed)
        said, count = cut_off(seed)
        false, ruled_out = false + said, ruled_out + count
    assert false == []
    assert ruled_out > 150
    # No tree matters to one of the rivals here.
    assert faults(1246) == []


@pytest.mark.parametrize("most", [40, 1])
def test_boxes_of_trees_whose_thresholds_move_are_worth_their_worst_leaf(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut into few boxes only, they are worth no less."""
    monkeypatch.setattr("holdfast.generators._tree_pieces._MOST_BOXES", most)
    rng, frame = np.random.default_rng(0), table(0, gaps=True)
    frame = frame.drop(columns="job").astype(float)
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=4, n_jobs=1)
    trees = hf.load_model(model.fit(frame, classes(table(0), 0, 2))).classifier
    space = hf.FeatureSpace.from_frame(frame, scale="none", missing=["share"])
    trees, _ = trees.about(frame)
    changes = hf.TreeChanges(thresholds=0.4)
    low, high = trees.forest.around(changes.threshold_radii(trees))
    cuts = trees.forest.cuts(low), trees.forest.cuts(high)
    reader = TreeReader(trees, space, space.rows(frame.head(1)))
    asked, worth = reader.questions(*cuts), rng.integers(-5, 6, (low.size, 2)).astype(float)
    pieces = pieces_of(trees.forest, worth, asked, 3)
    assert pieces.exact == (most == 40)
    for row in frame.to_numpy():
        cells = [np.searchsorted(asked.ends[i], row[i]) for i in range(3)]
        inside = np.where(
            np.isnan(row), pieces.gap, (pieces.low <= cells) & (cells <= pieces.high)
        ).all(axis=1)
        ways = trees.forest.reachable(row, *cuts)
        for tree, leaves in enumerate(ways):
            (piece,) = np.flatnonzero(inside & (pieces.tree == tree))
            worst = worth[[way[-1] for way in leaves]].min(axis=0)
            assert (pieces.worth[piece] >= worst).all()
            assert most == 1 or (pieces.worth[piece] == worst).all()


def test_prices_rule_out_nothing_that_is_just_enough() -> None:
    """The best choice within the limit is enough by a hair, for one rival alone: no bound may be below it."""
    assert [said for seed in range(120) for said in dear(seed)] == []


@pytest.mark.parametrize("gap", [False, True])
def test_what_goes_both_ways_is_followed_both_ways(gap: bool) -> None:
    """Labels whose threshold moves, or a gap that an imputer fills with a number near one: nothing else does here."""
    frame = table(0).drop(columns="job").astype(float)
    model = xgboost.XGBClassifier(n_estimators=4, max_depth=4, n_jobs=1)
    forest: Any = hf.load_model(model.fit(frame, classes(table(0), 0, 2))).classifier.forest
    rng, nodes = np.random.default_rng(0), forest.feature.size
    asked = Questions(np.where(forest.leaves, -1, forest.feature).astype(np.intp))
    left = rng.random((9, nodes)) < 0.5
    asked.left[0], asked.right[0] = left, ~left if gap else ~left | (rng.random(left.shape) < 0.3)
    asked.scored[0] = np.ones(9, dtype=bool)
    for i in (1, 2):
        mine = asked.column == i
        asked.ends[i] = np.unique(forest.cut[mine])
        cells = np.searchsorted(asked.ends[i], forest.cut[mine])
        asked.sure_left[mine], asked.maybe_left[mine] = cells, cells
    asked.gap_left[asked.column == 1] = True
    asked.gap_right[:] = gap & asked.gap_left
    worth = np.arange(nodes, dtype=float)[:, None]
    inner, outer = (cut(forest, worth, asked, 3) for cut in (pieces_of, outer_boxes))
    assert inner.exact
    for code, cell, other in itertools.product(range(9), (None, 0, 3), range(asked.ends[2].size)):

        def inside(pieces: Any, at: Any = (code, cell, other)) -> Any:
            code, cell, other = at
            fine = pieces.among[0][:, code] & (pieces.low[:, 2] <= other)
            fine &= other <= pieces.high[:, 2]
            if cell is None:
                return fine & pieces.gap[:, 1]
            return fine & (pieces.low[:, 1] <= cell) & (cell <= pieces.high[:, 1])

        for tree, root in enumerate(forest.roots.tolist()):
            front, reached = [root], []
            while front:
                node = front.pop()
                ways = [True, True]
                if asked.column[node] == 0:
                    ways = [asked.left[0][code, node], asked.right[0][code, node]]
                elif cell is None and asked.column[node] == 1:
                    ways = [asked.gap_left[node], asked.gap_right[node]]
                elif asked.column[node] > 0:
                    below = (cell if asked.column[node] == 1 else other) <= asked.sure_left[node]
                    ways = [below, not below]
                reached += [node] if forest.leaves[node] else []
                below_it = zip((forest.left[node], forest.right[node]), ways, strict=True)
                front += [int(child) for child, way in below_it if way and child >= 0]
            found = inner.worth[inside(inner) & (inner.tree == tree), 0]
            assert found.tolist() == [min(reached)]
            assert sorted(outer.worth[inside(outer) & (outer.tree == tree), 0]) == sorted(reached)


@pytest.mark.parametrize(("column", "rule"), [("flag", "b + 4*flag <= 6"), ("q", "b <= 2*q - 1")])
def test_rules_about_a_flag_and_about_a_number_in_bins(column: str, rule: str) -> None:
    """What stands in the order of its costs is in no order for a rule; a bin holds more than its nearest number."""
    rng, n = np.random.default_rng(5), 300
    frame = pd.DataFrame(
        {
            "flag": rng.integers(0, 2, n), "q": rng.integers(0, 17, n) / 2.0,
            "a": rng.integers(0, 8, n) * 1.0, "b": rng.integers(0, 8, n) * 1.0,
        }
    )[[column, "a", "b"]]  # fmt: skip
    steps = {"a": 1, "b": 1}
    score = frame["a"] + 2.0 * frame["b"] - (4.0 if column == "flag" else 1.5) * frame[column]
    y = (score + rng.normal(size=n) > (12 if column == "flag" else 8)).astype(int)
    model: Any = GradientBoostingClassifier(n_estimators=8, random_state=0)
    if column == "q":
        bins = KBinsDiscretizer(
            4, encode="onehot-dense", strategy="uniform", quantile_method="linear"
        )
        before = make_column_transformer((bins, ["q"]), remainder="passthrough")
        model = make_pipeline(before, model)
        model.fit(frame, y)
        space = hf.FeatureSpace.from_pipeline(
            model[0], frame, steps={"q": 0.5, **steps}, rules=rule
        )
    else:
        model.fit(frame, y)
        space = hf.FeatureSpace.from_frame(frame, binary=[column], steps=steps, rules=[rule])
    obeying = frame[space.satisfied(frame, frame) & (model.predict(frame) == 0)]
    people = obeying[obeying[column] > 0].head(8)
    result = hf.explain(model, people, target=1, generator=hf.MCE(), space=space)
    assert len(people) > 4
    values = np.arange(17) / 2.0 if column == "q" else [0, 1]
    rows = pd.DataFrame([*itertools.product(values, range(8), range(8))], columns=frame.columns)
    rows = rows.astype(frame.dtypes)
    for i in range(len(people)):
        fine = (model.predict(rows) == 1) & space.satisfied(rows, people.iloc[[i]])
        least = float(space.cost_l1(rows, people.iloc[[i]])[fine].min(initial=np.inf))
        if result.reason[i].kind.proven:
            assert np.isinf(least)
        bound, gap = result.lower_bound[i], result.optimality_gap[i]
        assert np.isnan(bound) or bound <= least * (1.0 + 1e-9)
        assert gap != 0.0 or result.cost_l1[i] == pytest.approx(least, abs=1e-12)
        if column == "flag":
            assert result.found[i] == np.isfinite(least)


@pytest.mark.parametrize("asked", [False, True])
def test_a_rule_about_a_column_without_steps_rules_out_no_row_of_its_cells(asked: bool) -> None:
    """Another number of the same cell may obey a rule that the own number breaks; also where no tree asks for it."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(0.0, 10.0, 300), "b": rng.integers(0, 11, 300) * 1.0})
    y = (frame["b"] > 5.0) | (asked & (frame["a"] > 9.0))
    model = GradientBoostingClassifier(n_estimators=2, max_depth=1 + asked, learning_rate=1.0)
    forest: Any = hf.load_model(model.fit(frame, y)).classifier.forest
    assert (forest.feature == 0).any() == asked
    space = hf.FeatureSpace.from_frame(frame, scale="none", steps={"b": 1}, rules=["b <= a"])
    person, other = (pd.DataFrame({"a": [a], "b": [b]}) for a, b in ((3.0, 2.0), (7.0, 6.0)))
    assert model.predict(other)[0]
    assert space.satisfied(other, person).all()
    result = hf.explain(model, person, target=True, generator=hf.MCE(), space=space)
    assert not result.reason[0].kind.proven
    assert not result.lower_bound[0] > space.cost_l1(other, person)[0]


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


def test_trees_that_ask_for_nothing_accept_nobody_else() -> None:
    X = pd.DataFrame({"a": np.arange(30.0), "b": np.zeros(30)})
    model = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1)
    model.fit(X, np.arange(30) % 3 == 0)
    space = hf.FeatureSpace.from_frame(X)
    found = hf.explain(model, X.head(1), target=True, generator=hf.MCE(), space=space)
    assert found.reason[0].kind.proven


def test_a_rule_may_bind_a_column_that_cannot_change() -> None:
    model, read, denied = world()
    space = hf.FeatureSpace.from_frame(
        read,
        steps={"share": 0.25, "debt": 0.5},
        immutable=["months"],
        rules=["months <= 10*share + 2"],
    )
    people = denied[denied["months"] <= 10.0 * denied["share"] + 2.0].head(2)
    result = hf.explain(model, people, target=1, generator=hf.MCE(), space=space)
    for i in range(2):
        check(_row(result, i), cheapest(model, space, people.iloc[[i]], 1))


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


@pytest.mark.parametrize("kind", ["boosted", "forest"])
def test_thresholds_that_move_keep_to_the_time_limit(kind: str) -> None:
    """Bands of thresholds that overlap cut trees into more boxes than can be made; advice comes all the same."""
    X = make_loans(800)
    y, numbers = X.pop("accepted"), X.select_dtypes("number").astype(float)
    trees = {
        "boosted": lightgbm.LGBMClassifier(n_estimators=40, verbose=-1, n_jobs=1),
        "forest": RandomForestClassifier(15, random_state=0),
    }
    model = trees[kind].fit(numbers, y)
    person = numbers[model.predict(numbers) == 0].head(1)
    space = hf.FeatureSpace.from_frame(numbers, scale="none")
    changes = hf.TreeChanges(leaves=0.001, thresholds=2.0)
    began = time.process_time()
    result = hf.explain(
        model,
        person,
        target=1,
        changes=changes,
        space=space,
        generator=hf.Closest(),
        time_limit=0.3,
    )
    assert time.process_time() - began < 1.2
    assert result.found[0], result.reason[0]
    assert 0.0 < result.lower_bound[0] <= result.cost_l1[0]


@pytest.mark.parametrize(
    ("n_trees", "changes"),
    [(4, hf.TreeChanges(shift=0.25)), (3, hf.TreeChanges(dropped=1))],
    ids=["shift", "dropped"],
)
def test_a_tie_takes_nobody_their_advice(n_trees: int, changes: hf.Changes) -> None:
    """Pure leaves and round shares tie exactly, and `certify` cannot say who wins: cheaper cells stay open."""
    X = make_loans(400)
    y, numbers = 1 - X.pop("accepted"), X.select_dtypes("number").astype(float)
    model = RandomForestClassifier(n_trees, random_state=0).fit(numbers, y)
    people = numbers[model.predict(numbers) == 1].head(2)
    space = hf.FeatureSpace.from_frame(numbers, scale="none")
    assert (hf.certify(model, numbers, 0, changes).verdict == hf.Verdict.UNKNOWN).any()
    options: dict[str, Any] = {"target": 0, "changes": changes, "space": space}
    closest = hf.explain(model, people, generator=hf.Closest(), time_limit=0.2, **options)
    nearest = hf.explain(model, people, generator=hf.RNCE(numbers), **options)
    assert nearest.found.all()
    assert closest.found.all(), list(closest.reason)
    assert (closest.lower_bound <= closest.cost_l1).all()


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
    assert ways.answer.tolist()[:2] == [1, 2]
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
