"""The search for the cheapest row for trees against brute force: every row of a grid, on small random ensembles.

    python bench/tree_check.py 300

Each ensemble has its library, table, classes, space and Δ drawn at random: leaf radii (one, or one for each leaf),
thresholds, trees dropped, a shift, or `PlausibleShift`. Every admissible row of the grid is judged by the library's own
`predict` (today's trees) or by `certify` (Δ), and the cheapest of them held against what `MCE` and `Closest` say:
their answers, "proven: none exists", and lower bounds under tiny time limits. Regions are checked with rows inside the
box, at its ends too, under today's trees, `certify`, and ensembles drawn from Δ.
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import holdfast as hf

KINDS = ("xgboost", "lightgbm", "boosted", "forest")
ROWS, DRAWN = 150, 8


def drawn(seed: int) -> tuple[Any, pd.DataFrame, hf.FeatureSpace, hf.Changes, int]:
    """An ensemble with its table, space, Δ and number of classes."""
    rng, kind = np.random.default_rng(seed), KINDS[seed % len(KINDS)]
    frame = pd.DataFrame(
        {
            "a": rng.integers(0, 8, ROWS).astype(float),
            "b": rng.integers(0, 13, ROWS) / 12.0,
            "c": rng.normal(size=ROWS).round(1),
        }
    )
    k = int(rng.integers(2, 4))
    score = frame.to_numpy() @ rng.normal(size=3) + rng.normal(scale=0.7, size=ROWS)
    y = np.asarray(pd.qcut(score, k, labels=False))
    n, depth = int(rng.integers(2, 7)), int(rng.integers(2, 5))
    model = {
        "xgboost": xgboost.XGBClassifier(n_estimators=n, max_depth=depth, learning_rate=0.5, n_jobs=1),
        "lightgbm": lightgbm.LGBMClassifier(
            n_estimators=n, num_leaves=2**depth, learning_rate=0.5, min_child_samples=4, verbose=-1, n_jobs=1
        ),
        "boosted": GradientBoostingClassifier(n_estimators=n, max_depth=depth, random_state=seed),
        "forest": RandomForestClassifier(n_estimators=n, max_depth=depth, random_state=seed),
    }[kind].fit(frame, y)  # fmt: skip
    way = str(rng.choice(["immutable", "increasing", "decreasing", "free"]))
    limits: dict[str, Any] = {} if way == "free" else {way: ["a"]}
    space = hf.FeatureSpace.from_frame(
        frame,
        steps={"a": 1, "b": 0.25, "c": 0.5},
        costs={"b": float(rng.choice([0.5, 3.0]))},
        **limits,
    )
    return model, frame, space, _changes(model, rng, kind), k


def _changes(model: Any, rng: Any, kind: str) -> hf.Changes:
    size = 0.02 if kind == "forest" else 0.15
    if rng.random() < 0.2:
        return hf.PlausibleShift(float(rng.choice([size, 4.0 * size])))
    leaves = hf.load_model(model).classifier.forest.leaves.sum()
    each = rng.uniform(0.0, 2.0 * size, int(leaves))
    return hf.TreeChanges(
        leaves=each if rng.random() < 0.5 else float(rng.choice([0.0, size, 4.0 * size])),
        thresholds=float(rng.choice([0.0, 0.05, 0.6])),
        dropped=int(rng.integers(2)),
        shift=float(rng.choice([0.0, size])),
    )


def grid(space: hf.FeatureSpace, person: pd.DataFrame) -> pd.DataFrame:
    """All rows that this person could be told to become."""
    columns = []
    for feature, mine in zip(space.features, person.iloc[0].tolist(), strict=True):
        steps = feature.grid
        assert steps is not None
        values = steps.value(np.arange(steps.first, steps.last + 1.0)).tolist()
        columns.append(sorted({*values, mine}))
    rows = pd.DataFrame([*itertools.product(*columns)], columns=[*person.columns])
    return rows[space.satisfied(rows, person)].reset_index(drop=True)


class Check:
    """Counts what was compared, and what was false."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.false: list[str] = []

    def hold(self, what: str, fine: bool, where: object) -> None:
        """One comparison."""
        self.seen[what] += 1
        if not fine:
            self.false.append(f"{what}: {where}")

    def ensemble(self, seed: int) -> None:
        """Everything about one ensemble."""
        model, frame, space, changes, k = drawn(seed)
        people = frame[model.predict(frame) == 0].head(2)
        if not len(people):
            return
        loaded = hf.load_model(model).in_space(space, frame)
        for under in (None, changes):
            options: dict[str, Any] = {
                "target": k - 1, "space": space, "changes": under,
                "generator": hf.MCE() if under is None else hf.Closest(),
            }  # fmt: skip
            full = hf.explain(model, people, **options)
            short = hf.explain(model, people, time_limit=float(10.0 ** -(1 + seed % 5)), **options)
            for i in range(len(people)):
                person, where = people.iloc[[i]], (seed, i, under)
                rows = grid(space, person)
                fine, unsure = self._accepted(loaded, model, space, rows, k - 1, under)
                costs = space.cost_l1(rows, person)
                least = float(costs[fine].min(initial=np.inf))
                # Where `certify` does not know, an answer may be there, and may be missing.
                below = float(costs[fine | unsure].min(initial=np.inf))
                self._answer(full, i, least, below, where)
                self._limited(short, i, below, where)
            self._regions(full, model, space, under, k - 1, seed)

    @staticmethod
    def _accepted(
        loaded: Any, model: Any, space: hf.FeatureSpace, rows: pd.DataFrame, target: int, under: Any
    ) -> tuple[Any, Any]:
        if under is None:
            fine = np.asarray(model.predict(rows)) == target
            return fine, np.zeros(fine.size, dtype=bool)
        verdict = hf.certify(loaded, space.encode(rows), target=target, changes=under).verdict
        return verdict == hf.Verdict.ROBUST, verdict == hf.Verdict.UNKNOWN

    def _answer(self, full: Any, i: int, least: float, below: float, where: object) -> None:
        if not full.found[i]:
            if full.reason[i].kind.proven:
                self.hold("none exists", np.isinf(least), where)
            else:
                self.hold("none found", np.isinf(least), where)
            return
        self.hold("cheapest", below - 1e-12 <= full.cost_l1[i] <= least + 1e-12, where)
        self.hold("gap 0", full.optimality_gap[i] == 0.0 or below < least, where)
        self.hold("lower bound", full.lower_bound[i] <= least * (1.0 + 1e-9), where)

    def _limited(self, short: Any, i: int, below: float, where: object) -> None:
        bound, gap = short.lower_bound[i], short.optimality_gap[i]
        if not np.isnan(bound):
            self.hold("bound in little time", bound <= below * (1.0 + 1e-9), where)
        if short.found[i]:
            cost = short.cost_l1[i]
            true = cost >= below * (1.0 - 1e-9) and not cost - below > gap * cost + 1e-9
            self.hold("gap in little time", bool(true), where)
        elif short.reason[i].kind.proven:
            self.hold("none exists in little time", np.isinf(below), where)

    def _regions(
        self, full: Any, model: Any, space: hf.FeatureSpace, under: Any, target: int, seed: int
    ) -> None:
        trees, rng = hf.load_model(model).classifier, np.random.default_rng(seed)
        for row, lines in full.regions.groupby("row"):
            answer = full.counterfactuals.iloc[row]
            choices = [[float(answer[name])] for name in space.names]
            for line in lines.itertuples():
                value = float(answer[line.column])
                low = value - 50.0 if np.isnan(line.at_least) else line.at_least
                high = value + 50.0 if np.isnan(line.at_most) else line.at_most
                self.hold("region has its answer", low <= value <= high, (seed, row, under))
                choices[space.names.index(line.column)] += [
                    low,
                    high,
                    *rng.uniform(min(low, high), max(low, high), 3),
                ]
            every = np.array([*itertools.product(*choices)])
            rows = pd.DataFrame(every, columns=[*space.names])
            fine = bool((np.asarray(model.predict(rows)) == target).all())
            self.hold("region, today", fine, (seed, row, under))
            if under is None:
                continue
            robust = hf.certify(model, rows, target=target, changes=under).robust
            self.hold("region, certified", bool(robust.all()), (seed, row, under))
            if isinstance(under, hf.TreeChanges):
                self._drawn(trees, rows, under, target, rng, (seed, row, under))

    def _drawn(
        self, trees: Any, rows: pd.DataFrame, under: Any, target: int, rng: Any, where: object
    ) -> None:
        """Ensembles of Δ whose leaves and thresholds lie near the ends of their ranges."""
        leaf, cut = under.leaf_radii(trees), under.threshold_radii(trees)
        forest = trees.forest
        for _ in range(DRAWN):
            # A little within the ends, so that rounding does not lead out of Δ.
            sign = 0.999 * rng.choice([-1.0, 1.0], forest.values.shape)
            values = forest.values + sign * leaf[:, None]
            threshold = forest.threshold + 0.999 * rng.choice([-1.0, 1.0], cut.size) * cut
            other = trees.with_forest(forest.changed(values, threshold))
            self.hold("region, drawn", bool((other.predict_index(rows) == target).all()), where)


def main() -> None:
    """Print what was compared."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ensembles", type=int, nargs="?", default=300)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given, check = parser.parse_args(), Check()
    for seed in range(given.first, given.first + given.ensembles):
        check.ensemble(seed)
    print(f"{given.ensembles} ensembles of {', '.join(KINDS)}")
    for what, count in check.seen.items():
        print(
            f"{what}: {count:,} compared, {sum(f.startswith(what + ':') for f in check.false)} false"
        )
    for line in check.false[:20]:
        print(line)


if __name__ == "__main__":
    main()
