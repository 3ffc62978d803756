"""Small worlds of trees whose every admissible row can be tried: the cheapest row, by the library and by `certify`.

A seed draws the library, the columns (numbers with steps, a flag, ordered labels, labels, missing values), what people
can change (directions, rules, moves, costs with ties), how many classes, a threshold and Δ.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder

import holdfast as hf
from holdfast.generators import _exact, _tree_pieces
from holdfast.generators._tree_search import TreeSearch

KINDS = ("xgboost", "lightgbm", "histogram", "boosted", "forest")
GRADES, JOBS = ["d", "c", "b", "a"], ["none", "part", "full"]
ROWS = 220
RULES = ["months + 3*flag <= 7", "months <= 4*flag + 4", "2*share + debt <= 2"]
TIGHT = 1e-9
FIRST = (True, False)


@dataclass(frozen=True)
class World:
    """A model with its table and space, people who ask, and what they ask for."""

    model: Any
    frame: pd.DataFrame
    space: hf.FeatureSpace
    changes: hf.Changes
    people: pd.DataFrame
    target: int
    threshold: float | None
    most: int | None

    @property
    def loaded(self) -> Any:
        """The model at its threshold."""
        return hf.load_model(self.model, threshold=self.threshold)

    def explained(self, under: bool, seconds: float | None = None) -> Any:
        """What `Closest` finds under Δ, or `MCE` for today's trees."""
        return hf.explain(
            self.loaded, self.people, target=self.target, space=self.space, time_limit=seconds,
            changes=self.changes if under else None,
            generator=hf.Closest(max_features_changed=self.most) if under else hf.MCE(),
        )  # fmt: skip

    def truth(self, i: int, under: bool) -> tuple[float, float]:
        """What the cheapest accepted row costs; and where `certify` does not know, what it may cost."""
        person = self.people.iloc[[i]]
        rows = every_row(self.space, person).astype(self.frame.dtypes)
        unsure = np.zeros(len(rows), dtype=bool)
        points = self.space.encode(rows)
        loaded = self.loaded.in_space(self.space, rows)
        if under:
            verdict = hf.certify(loaded, points, target=self.target, changes=self.changes).verdict
            fine, unsure = verdict == hf.Verdict.ROBUST, verdict == hf.Verdict.UNKNOWN
            if self.most is not None:
                few = self.space.changed(rows, person) <= self.most
                fine, unsure = fine & few, unsure & few
        elif self.threshold is None:
            fine = np.asarray(self.model.predict(rows)) == self.target
        else:
            fine = loaded.classifier.predict_index(points) == self.target
        costs = self.space.cost_l1(rows, person)
        least = float(costs[fine].min(initial=np.inf))
        return least, float(costs[fine | unsure].min(initial=np.inf))


def every_row(space: hf.FeatureSpace, person: pd.DataFrame) -> pd.DataFrame:
    """All rows that this person could be told to become."""
    own, columns = space.numbers(person)[0], []
    for feature, mine in zip(space.features, own.tolist(), strict=True):
        if feature.labelled:
            values = [float(code) for code in range(feature.n_codes)]
        else:
            assert feature.grid is not None
            values = feature.grid.value(
                np.arange(feature.grid.first, feature.grid.last + 1.0)
            ).tolist()
        columns.append(sorted({*values}) + ([mine] if np.isnan(mine) or mine not in values else []))
    rows = space.restore(np.array([*itertools.product(*columns)]))
    return rows[space.satisfied(rows, person)].reset_index(drop=True)


def drawn(seed: int) -> World | None:
    """A world at random; None where nobody is denied."""
    rng, kind = np.random.default_rng(seed), KINDS[seed % len(KINDS)]
    k = int(rng.integers(2, 4))
    gaps = kind in KINDS[:3] and rng.random() < 0.5
    frame = _table(rng, gaps)
    y = _classes(rng, frame, k)
    model = _fitted(kind, frame, y, rng)
    space = _space(rng, frame, gaps)
    changes = _changes(hf.load_model(model).classifier, rng, kind)
    denied = frame[np.asarray(model.predict(frame)) == 0]
    denied = denied[space.satisfied(denied, denied)]
    people = pd.concat([denied[denied["share"].isna()].head(1), denied.head(2)])
    moves = isinstance(changes, hf.TreeChanges) and kind == "forest"
    threshold = 0.6 if k == 2 and not moves and rng.random() < 0.4 else None
    most = None if rng.random() < 0.6 else int(rng.integers(1, 4))
    people = people[~people.index.duplicated()]
    return (
        World(model, frame, space, changes, people, k - 1, threshold, most) if len(people) else None
    )


def _table(rng: Any, gaps: bool) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "months": rng.integers(0, 8, ROWS),
            "share": rng.integers(0, 9, ROWS) / 8.0,
            "debt": rng.normal(size=ROWS).round(1).clip(-2.0, 2.0),
            "flag": rng.integers(0, 2, ROWS),
            "grade": pd.Categorical(rng.choice(GRADES, ROWS), categories=GRADES),
            "job": pd.Categorical(rng.choice(JOBS, ROWS), categories=JOBS),
        }
    )
    if gaps:
        frame.loc[rng.random(ROWS) < 0.2, "share"] = np.nan
    # Grids stay small enough to be tried as a whole.
    return frame.drop(columns=rng.choice(["grade", "job"], int(rng.integers(1, 3)), replace=False))


def _classes(rng: Any, frame: pd.DataFrame, k: int) -> Any:
    score = frame["months"] / 4.0 + 2.0 * frame["share"].fillna(0.3) - frame["debt"]
    score = score + float(rng.choice([-1.5, 1.0])) * frame["flag"]
    for name in ("grade", "job"):
        if name in frame:
            score = score + 0.6 * frame[name].cat.codes
    return np.asarray(pd.qcut(score + rng.normal(scale=0.5, size=ROWS), k, labels=False))


def _fitted(kind: str, frame: pd.DataFrame, y: Any, rng: Any) -> Any:
    n, depth, seed = int(rng.integers(2, 9)), int(rng.integers(2, 5)), int(rng.integers(1000))
    trees: dict[str, Any] = {
        "xgboost": xgboost.XGBClassifier(
            n_estimators=n, max_depth=depth, learning_rate=0.5, n_jobs=1, enable_categorical=True,
            base_score=float(rng.choice([0.3, 0.5])),
        ),
        "lightgbm": lightgbm.LGBMClassifier(
            n_estimators=n, num_leaves=2**depth, learning_rate=0.5, min_child_samples=4, verbose=-1, n_jobs=1,
            min_data_per_group=5, cat_smooth=1.0,
        ),
        "histogram": HistGradientBoostingClassifier(
            max_iter=n, max_depth=depth, categorical_features="from_dtype", min_samples_leaf=5
        ),
        "boosted": GradientBoostingClassifier(n_estimators=n, max_depth=depth, random_state=seed),
        "forest": RandomForestClassifier(n_estimators=n, max_depth=depth, random_state=seed),
    }  # fmt: skip
    if kind in KINDS[:3]:
        return trees[kind].fit(frame, y)
    labels = {"job": OneHotEncoder(categories=[JOBS]), "grade": OrdinalEncoder(categories=[GRADES])}
    steps = [(step, [name]) for name, step in labels.items() if name in frame]
    before = make_column_transformer(*steps, (MinMaxScaler(), ["debt"]), remainder="passthrough")
    return make_pipeline(before, trees[kind]).fit(frame, y)


def _space(rng: Any, frame: pd.DataFrame, gaps: bool) -> hf.FeatureSpace:
    more: dict[str, Any] = {"missing": ["share"], "fillable": ["share"]} if gaps else {}
    if "grade" in frame:
        more["ordinal"] = {"grade": GRADES}
    if "job" in frame and rng.random() < 0.4:
        more["allowed"] = {"job": [("none", "part"), ("part", "full"), ("none", "full")]}
    way = str(rng.choice(["immutable", "increasing", "decreasing", "free"]))
    if way != "free":
        more[way] = [str(rng.choice(["months", "debt", "grade" if "grade" in frame else "flag"]))]
    if rng.random() < 0.5:
        more["rules"] = [str(rng.choice(RULES[: 2 if gaps else 3]))]
    # Equal costs of different steps, and steps that cost nothing, make ties.
    costs = {name: float(rng.choice([0.0, 0.5, 1.0, 1.0, 3.0])) for name in frame}
    steps = {"months": 1, "share": 0.25, "debt": 0.5}
    return hf.FeatureSpace.from_frame(frame, binary=["flag"], steps=steps, costs=costs, **more)


def _changes(trees: Any, rng: Any, kind: str) -> hf.Changes:
    size = 0.02 if kind == "forest" else 0.15
    if rng.random() < 0.2:
        return hf.PlausibleShift(float(rng.choice([size, 4.0 * size])))
    each = rng.uniform(0.0, 2.0 * size, int(trees.forest.leaves.sum()))
    return hf.TreeChanges(
        leaves=each if rng.random() < 0.5 else float(rng.choice([0.0, size, 4.0 * size])),
        thresholds=float(rng.choice([0.0, 0.05, 0.6])),
        dropped=int(rng.integers(3)),
        shift=float(rng.choice([0.0, size])),
    )


@contextmanager
def helpless(first: bool, boxes: int = 40) -> Iterator[None]:
    """A search without its first answers, so that bounds alone lead to the cheapest row; trees cut into few boxes."""
    with pytest.MonkeyPatch.context() as patch:
        if not first:
            patch.setattr(TreeSearch, "_first_answers", lambda self: iter(()))
            # Said once: it takes as long as the rest.
            patch.setattr(_exact, "_what_is_in_the_way", lambda *_: "")
        patch.setattr(_tree_pieces, "_MOST_BOXES", boxes)
        yield


def compared(seed: int) -> Iterator[tuple[str, bool, str]]:
    """What was said of one world, whether it is true, and where."""
    world = drawn(seed)
    if world is None:
        return
    truth = {
        (i, under): world.truth(i, under)
        for i in range(len(world.people))
        for under in (False, True)
    }
    for under, first in itertools.product((False, True), FIRST):
        with helpless(first, 1 if seed % 7 == 3 else 40):
            full = world.explained(under)
            short = full if first else world.explained(under, float(10.0 ** -(1 + seed % 5)))
        for i in range(len(world.people)):
            least, below = truth[i, under]
            where = f"seed {seed}, person {i}, under Δ {under}, first answers {first}"
            yield from _answer(full, i, least, below, where, seed % 7 == 3)
            yield from _limited(short, i, below, where)


def _answer(
    full: Any, i: int, least: float, below: float, where: str, rough: bool
) -> Iterator[Any]:
    if not full.found[i]:
        yield (
            "none exists" if full.reason[i].kind.proven else "none found",
            np.isinf(least),
            where,
        )
        return
    cost, gap = full.cost_l1[i], full.optimality_gap[i]
    yield "cheapest", below - TIGHT <= cost and (cost <= least + TIGHT or rough), where
    yield "gap", not cost - below > gap * cost + TIGHT, where
    # Where trees are cut into few boxes, or `certify` does not know, a true gap may stay.
    yield "gap 0", gap == 0.0 or rough or below < least or cost == 0.0, where
    yield "lower bound", full.lower_bound[i] <= below * (1.0 + TIGHT), where


def _limited(short: Any, i: int, below: float, where: str) -> Iterator[Any]:
    bound, gap = short.lower_bound[i], short.optimality_gap[i]
    if not np.isnan(bound):
        yield "bound in little time", bound <= below * (1.0 + TIGHT), where
    if short.found[i]:
        cost = short.cost_l1[i]
        fine = cost >= below * (1.0 - TIGHT) and not cost - below > gap * cost + TIGHT
        yield "gap in little time", bool(fine), where
    elif short.reason[i].kind.proven:
        yield "none exists in little time", np.isinf(below), where
