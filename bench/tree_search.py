"""The cheapest row for trees beside treecf, the package for counterfactuals of trees with an exact search.

    python bench/tree_search.py --rows 3 --seconds 10
    python bench/tree_search.py                          ten people for each model, 60 s each

XGBoost models of several sizes on the same table, all columns free within their ranges, cost the sum of changes as
shares of the ranges. Both search for the cheapest row with class 1 of today's model; ours again under leaf radii: a
tenth of how far a leaf's value moves between bootstrap samples, as a refit that keeps nine tenths of it would. Seconds
are CPU seconds of one thread, of the search of one person; what is read from a model once is left out on both sides.
Tables: $HOLDFAST_DATA.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import treecf
import xgboost
from rich.console import Console
from threadpoolctl import threadpool_limits

import holdfast as hf
from holdfast.datasets import load
from holdfast.generators._tree_judge import TreeJudge

SIZES = ((30, 3), (100, 4), (200, 5), (500, 6))
# Of heloc as CARLA has it, columns and rows whose filled values give the label away.
LEAKING = [
    "NetFractionInstallBurden",
    "NumInstallTradesWBalance",
    "NumBank2NatlTradesWHighUtilization",
]
# A cost is above another only beyond this, relatively: treecf keeps to float32.
SAME = 1e-5
# XGBoost's own probability of a margin no larger than this is one half, which is no yes.
ABOVE = 6e-7


@dataclass(frozen=True)
class Answers:
    """For each person seconds, whether the answer is proven to be the cheapest, and what it costs (inf: none)."""

    seconds: np.ndarray
    proven: np.ndarray
    cost: np.ndarray

    @property
    def words(self) -> str:
        """As a cell of the table."""
        return f"{np.median(self.seconds):.3f} ({int(self.proven.sum())}/{self.proven.size})"


def numbers(name: str) -> tuple[pd.DataFrame, Any]:
    """A table's columns of numbers, as float64."""
    frame, _, y = load(name)
    frame = frame.select_dtypes("number").astype(float)
    if name == "heloc":
        frame = frame.drop(columns=LEAKING)
        kept = (frame == frame.round()).all(axis=1)
        frame, y = frame[kept], y[kept.to_numpy()]
    return frame.reset_index(drop=True), np.asarray(y).astype(int)


def ours(
    model: Any, people: pd.DataFrame, space: hf.FeatureSpace, seconds: float, changes: Any
) -> Answers:
    """Each person alone; the seconds of the search itself."""
    spent: list[float] = []
    search = TreeJudge.search

    def timed(judge: TreeJudge, *args: Any, **options: Any) -> Any:
        began = time.process_time()
        answer = search(judge, *args, **options)
        spent.append(time.process_time() - began)
        return answer

    generator = hf.MCE() if changes is None else hf.Closest()
    # The first search also reads the model.
    hf.explain(
        model,
        people.head(1),
        target=1,
        generator=generator,
        changes=changes,
        space=space,
        time_limit=1e-3,
    )
    TreeJudge.search = timed  # type: ignore[method-assign]
    try:
        result = hf.explain(
            model,
            people,
            target=1,
            generator=generator,
            changes=changes,
            space=space,
            time_limit=seconds,
        )
    finally:
        TreeJudge.search = search  # type: ignore[method-assign]
    proven = np.array([reason.kind.proven for reason in result.reason])
    proven |= result.found & (result.optimality_gap == 0.0)
    cost = np.where(result.found, result.cost_l1 * space.n_variables, np.inf)
    # Where there is no answer, further searches say what is in the way; the first of a person counts.
    return Answers(np.array(spent[: len(people)]), proven, cost)


def theirs(model: Any, people: pd.DataFrame, frame: pd.DataFrame, seconds: float) -> Answers:
    """treecf's exact backend, one thread, the same costs."""
    ranges = (frame.max() - frame.min()).replace(0.0, 1.0)
    limits = [
        treecf.Range(name, float(frame[name].min()), float(frame[name].max())) for name in frame
    ]
    explainer = treecf.Explainer(model, normalizers=ranges.to_dict(), constraints=limits)
    spent, proven, cost = [], [], []
    for row in people.to_numpy():
        began = time.process_time()
        found = explainer.explain(
            row,
            treecf.Target.raw(op=">=", value=ABOVE),
            backend="exact",
            time_budget_s=seconds,
            seed=0,
        )
        spent.append(time.process_time() - began)
        answer = isinstance(found, treecf.Counterfactual)
        proven.append(found.proof == "optimal" if answer else getattr(found, "proven", False))
        cost.append(found.distance if answer else np.inf)
    return Answers(np.array(spent), np.array(proven), np.array(cost))


def leaf_radii(model: Any, frame: pd.DataFrame, y: Any) -> hf.TreeChanges:
    """A tenth of how far the mean gradient of each leaf's rows moves between bootstrap samples."""
    trees = hf.load_model(model).classifier
    margin = model.predict(frame, output_margin=True)
    gradient = y - 1.0 / (1.0 + np.exp(-margin))
    size = 1.0 / (1.0 + np.exp(-margin)) * (1.0 - 1.0 / (1.0 + np.exp(-margin)))
    leaves = trees.forest.leaf_of(trees.score.matrix(frame))
    rng, draws = np.random.default_rng(0), []
    for _ in range(10):
        weight = rng.poisson(1.0, len(frame))
        top, bottom = (np.zeros(trees.forest.feature.size) for _ in range(2))
        for tree in range(trees.forest.n_trees):
            np.add.at(top, leaves[:, tree], weight * gradient)
            np.add.at(bottom, leaves[:, tree], weight * size)
        draws.append(top / (bottom + 1.0))
    spread = 0.1 * model.get_params()["learning_rate"] * np.std(draws, axis=0)
    return hf.TreeChanges(leaves=spread[trees.forest.leaves])


def main() -> None:
    """Print one line for each table and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--tables", nargs="+", default=["heloc", "adult", "gmc"])
    parser.add_argument("--sizes", nargs="+", default=[f"{n}x{d}" for n, d in SIZES])
    given = parser.parse_args()
    console = Console(width=160)
    console.print(
        "median seconds (proven): table, trees x depth, ours, treecf, ours under leaf radii, ours above treecf"
    )
    with threadpool_limits(1):
        for name in given.tables:
            frame, y = numbers(name)
            space = hf.FeatureSpace.from_frame(frame)
            for size in given.sizes:
                n, depth = map(int, size.split("x"))
                model = xgboost.XGBClassifier(
                    n_estimators=n, max_depth=depth, learning_rate=0.1, n_jobs=1, random_state=0
                ).fit(frame, y)
                people = frame[model.predict(frame) == 0].head(given.rows)
                mine = ours(model, people, space, given.seconds, None)
                other = theirs(model, people, frame, given.seconds)
                under = ours(model, people, space, given.seconds, leaf_radii(model, frame, y))
                both = mine.proven & other.proven
                above = int((mine.cost[both] > other.cost[both] * (1.0 + SAME)).sum())
                console.print(
                    f"{name} {size}: {mine.words} | {other.words} | {under.words} | {above} of {int(both.sum())}"
                )


if __name__ == "__main__":
    main()
