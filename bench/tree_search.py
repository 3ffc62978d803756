"""The cheapest row for trees, compared with treecf, the package for counterfactuals of trees with an exact search.

A part of bench/trees.py: `python bench/trees.py search`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import treecf
import xgboost

import holdfast as hf
from holdfast.datasets import load
from holdfast.generators._tree_judge import TreeJudge
from report import Table

# Trees, their depth, and how many columns are free.
SIZES = ((30, 3, 18), (100, 4, 18), (200, 5, 12), (200, 5, 18))
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
    def words(self) -> list[str]:
        """As cells of the table."""
        return [f"{np.median(self.seconds):.3f}", f"{int(self.proven.sum())}/{self.proven.size}"]


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


def theirs(
    model: Any, people: pd.DataFrame, frame: pd.DataFrame, fixed: list[str], seconds: float
) -> Answers:
    """treecf's exact backend, one thread, the same costs."""
    ranges = (frame.max() - frame.min()).replace(0.0, 1.0)
    limits = [
        treecf.Range(name, float(frame[name].min()), float(frame[name].max())) for name in frame
    ]
    limits += [treecf.Freeze(name) for name in fixed]
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


def compared(rows: int, seconds: float) -> Table:
    """A line for each size and number of columns that are free."""
    frame, y = numbers("heloc")
    lines = []
    for trees, depth, free in SIZES:
        model = xgboost.XGBClassifier(
            n_estimators=trees, max_depth=depth, learning_rate=0.1, n_jobs=1, random_state=0
        ).fit(frame, y)
        fixed = [*frame.columns[free:]]
        space = hf.FeatureSpace.from_frame(frame, immutable=fixed)
        people = frame[model.predict(frame) == 0].head(rows)
        mine = ours(model, people, space, seconds, None)
        other = theirs(model, people, frame, fixed, seconds)
        under = ours(model, people, space, seconds, leaf_radii(model, frame, y))
        both = mine.proven & other.proven
        dearer = (mine.cost[both] > other.cost[both] * (1.0 + SAME)).sum()
        lines.append(
            [
                f"{trees} x {depth}, {free} free", *mine.words, *other.words, *under.words,
                f"{int(dearer)} of {int(both.sum())}",
            ]
        )  # fmt: skip
    note = (
        f"XGBoost on heloc without its filled rows and leaking columns (18 columns); {rows} people, "
        f"{seconds:g} s each. Median processor seconds of one person's search, and the number of proven results: "
        "optimal, or proven that none exists. Both search the cheapest row with class 1 of today's model; the cost is "
        "the sum of changes as shares of the ranges. Ours also runs under leaf radii, a tenth of the moves of leaves "
        "between bootstrap samples. *Dearer*: ours against treecf's, if both are proven. Reading a model once is left "
        "out on both sides. treecf's limit is wall time."
    )
    columns = [
        "trees x depth",
        "ours",
        "proven",
        f"treecf {treecf.__version__}",
        "proven",
        "ours under Δ",
        "proven",
        "ours dearer",
    ]
    return Table("Closest and treecf's exact backend", columns, lines, note)
