"""`holdfast benchmark changes`: the promises kept under each kind of change, on public tables, as a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from holdfast import datasets as public
from holdfast._numbers import share
from holdfast.calibration import risk_calibrated
from holdfast.changes import Changes, PlausibleShift
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators import RNCE
from holdfast.retraining._retrain import run_seeds
from holdfast.study._asked import StudyMethod
from holdfast.study._markdown import filled_page
from holdfast.study._recipes import RECIPES, bootstrap
from holdfast.study._result import BenchmarkResult
from holdfast.study._run import benchmark
from holdfast.study._situation import Situation
from holdfast.study._survival import Survival, named, survival_tables, with_worst_kind
from holdfast.study._tables import some_of

TABLES = ("heloc", "compas", "adult", "gmc", "breast_cancer")
# The kinds that start from scratch come first in `RECIPES`.
AGAIN = tuple(recipe.name for recipe in RECIPES[:7])
# Of which share of the promises may be broken, and on how many models that is measured.
BROKEN, MEASURED = 0.1, 20


def calibrated(situation: Situation) -> Changes:
    """The margin from conformal risk control, on models retrained from scratch on bootstrap samples.

    The people and the models differ from those of the study.
    """
    table = situation.table
    people = situation.rejects(situation.halves.new_test)
    seeds = run_seeds(situation.seed + 1000, MEASURED)
    models = (bootstrap(situation.fitted, situation.learned, seed) for seed in seeds)
    return risk_calibrated(
        situation.models.classifier, table.X.iloc[people], target=table.target, retrained=models,
        generator=RNCE(situation.training_table), space=table.space, broken=BROKEN, coverage=0.9, progress=False,
    ).changes  # fmt: skip


# What promises are made for: a margin of today's model, which every model has, or a Δ, which needs parameters. At δ
# 0.03 answers are certified only.
MARGINS: dict[str, Any] = {
    f"p ≥ {p:g}": PlausibleShift(math.log(p / (1.0 - p))) for p in (0.7, 0.9)
}
MARGINS["risk ≤ 0.1"] = calibrated
DELTAS: dict[str, Any] = {"δ 0.005": 0.005, "δ 0.01": 0.01, "δ 0.03": 0.03}
METHODS = (
    StudyMethod("nearest row", "nnce"),
    StudyMethod("row with", "rnce", deltas=tuple(MARGINS)),
    StudyMethod("RNCE", "rnce", deltas=("δ 0.005", "δ 0.01")),
    StudyMethod("cheapest point", "mce"),
    StudyMethod("Closest", "closest", deltas=("δ 0.01",)),
)
# The advice of the first table: what it is, and what is known of it. A chance is measured, a proof is inside Δ.
PROMISES = {
    "cheapest point": ("cheapest point (`MCE`)", ""),
    "nearest row": ("nearest accepted row", ""),
    "row with p ≥ 0.7": ("nearest row with a probability of at least 0.7", ""),
    "row with p ≥ 0.9": ("nearest row with a probability of at least 0.9", ""),
    "row with risk ≤ 0.1": (
        "nearest row with a margin from [`risk_calibrated`](delta.md)",
        "a chance: at most 1 in 10 promises is expected to break",
    ),
    "RNCE δ 0.005": ("nearest row proven at δ 0.005 (`RNCE`)", "a proof for models within 0.005"),
    "RNCE δ 0.01": ("nearest row proven at δ 0.01 (`RNCE`)", "a proof for models within 0.01"),
    "Closest δ 0.01": (
        "cheapest point proven at δ 0.01 (`Closest`)",
        "a proof for models within 0.01",
    ),
}
# Of which models what is asked on which tables. Trees have no parameters to prove anything about, and read off the
# labels that leak into heloc's columns.
MODELS: dict[str, tuple[Any, tuple[StudyMethod, ...], dict[str, Any], tuple[str, ...]]] = {
    "network": (
        MLPClassifier((32, 32), max_iter=60, learning_rate_init=0.005),
        METHODS,
        MARGINS | DELTAS,
        TABLES,
    ),
    "boosted trees": (
        HistGradientBoostingClassifier(max_iter=50),
        METHODS[:2],
        MARGINS,
        TABLES[1:],
    ),
}


@dataclass(frozen=True)
class ChangesExtent:
    """The sizes of the study: rows of each table, people, base models, and variants of each kind."""

    rows: int = 4000
    inputs: int = 20
    seeds: int = 2
    variants: int = 12
    time_limit: float = 3.0


FULL = ChangesExtent()
QUICK = ChangesExtent(rows=2000, inputs=10, seeds=1, variants=5)


def run_changes(
    out: Path,
    *,
    extent: ChangesExtent = FULL,
    names: Sequence[str] | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> dict[str, BenchmarkResult]:
    """Run the studies of the page, one for each kind of model, each in its own folder below `out`."""
    tables = {name: _table(name, extent.rows) for name in some_of(TABLES, names, "datasets")}
    return {
        model: benchmark(
            {name: tables[name] for name in tables if name in suited}, models={model: estimator}, methods=methods,
            deltas=deltas, seeds=extent.seeds, inputs=extent.inputs, retrained={}, changes_of=RECIPES,
            variants=extent.variants, out=out / model.replace(" ", "-"), n_jobs=n_jobs, progress=progress,
            time_limit=extent.time_limit,
        )
        for model, (estimator, methods, deltas, suited) in MODELS.items()
        if set(tables) & set(suited)
    }  # fmt: skip


def _table(name: str, rows: int) -> Any:
    """A table, or a random part of it; breast_cancer standardised, the others as CARLA has them."""
    if name == "breast_cancer":
        X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        space = FeatureSpace.from_frame(X, scale="standard")
        # The page's costs are in standard deviations.
        return X, y, space.constrained(costs={one.name: one.span for one in space.features})
    data = public.load(name, actionability="carla", kinds="carla", progress=False)
    if rows >= len(data):
        return data
    kept, _ = train_test_split(
        np.arange(len(data)), train_size=rows, stratify=data.y, random_state=0
    )
    return replace(data, frame=data.frame.iloc[kept], target=data.target.iloc[kept])


def draw(results: dict[str, BenchmarkResult], folder: Path) -> list[Path]:
    """Draw a picture for each kind of model."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {model: folder / f"changes-{model.replace(' ', '-')}.png" for model in results}
    for model, path in paths.items():
        _survival(results[model]).plot(path)
    return list(paths.values())


def render(
    results: dict[str, BenchmarkResult],
    command: str,
    extent: ChangesExtent,
    pictures: Sequence[str] = (),
) -> str:
    """The page as Markdown: the main figures, then the kinds of change, then each kind of model and each table."""
    pairs = zip_longest(results.items(), pictures)
    models = pd.concat([result.models for result in results.values()])
    distances = _survival(results["network"]).models.groupby("kind")["distance"].agg(["min", "max"])
    return filled_page(
        "changes.md.j2",
        command=command,
        extent=extent,
        people=models.groupby("dataset", sort=False)["inputs"].sum(),
        accuracy=models.pivot_table("accuracy", "dataset", "model", sort=False),
        recipes=[recipe for recipe in RECIPES if recipe.name in distances.index],
        distances=distances,
        models=[_of_model(model, result, picture) for (model, result), picture in pairs],
        **_truth(results["network"]),
    )


def _truth(result: BenchmarkResult) -> dict[str, Any]:
    """The figures at the top of the page: proofs inside Δ, models outside Δ, and promises kept by distance."""
    survival = _survival(result)
    frame = survival.to_frame()
    inside = survival.people.merge(_proven(result.details))
    distance = survival.models.set_index("kind")["distance"]
    kinds = _mean(frame[frame["kind"].isin(AGAIN)], ["method", "delta_label", "kind"])
    kept = {named(row): row for row in _mean(kinds, ["method", "delta_label"]).to_dict("records")}
    return {
        "pairs": int(inside["inside"].sum()),
        "broken": round(((1.0 - inside["kept_inside"]) * inside["inside"]).sum()),
        "again": distance[distance.index.isin(AGAIN)],
        "far": share(
            result.results[result.results["verified_label"] == "δ 0.03"]["delta_validity"].mean()
        ),
        "kept": [(PROMISES[name], kept[name]) for name in PROMISES if name in kept],
    }


def _proven(details: pd.DataFrame) -> pd.DataFrame:
    """The people whose advice is proven for its own delta, by the keys of `Survival.people`."""
    keys = ["dataset", "model", "seed", "method", "delta_label"]
    numbered = details.assign(row=details.groupby(keys, sort=False).cumcount())
    proven = [
        row.get(f"verdict_{row['delta_label']}") == "ROBUST" for row in details.to_dict("records")
    ]
    return numbered.loc[proven, [*keys, "row"]]


def _of_model(model: str, result: BenchmarkResult, picture: str | None) -> dict[str, Any]:
    """The promises kept for one kind of model: the mean over all tables, and each table."""
    survival = _survival(result)
    by = ["method", "delta_label"]
    kinds = _mean(survival.to_frame(), [*by, "kind"])
    over_tables = with_worst_kind(
        _mean(survival.summary().drop(columns="worst_survival"), by), kinds, by
    )
    without = result.failures[result.failures["delta_label"] == "risk ≤ 0.1"].to_dict("records")
    return {
        "name": model,
        "picture": picture,
        "over_tables": survival_tables(over_tables, kinds),
        "without": [f"{row['dataset']} (seed {row['seed']})" for row in without],
        "tables": survival.to_markdown().replace("## ", "### "),
    }


def _mean(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Means over all other columns."""
    return frame.groupby(by, sort=False).mean(numeric_only=True).reset_index()


def _survival(result: BenchmarkResult) -> Survival:
    if result.survival is None or not len(result.survival.people):
        raise InvalidInputError(
            "page: this study has no kinds of change, or no advice; set changes_of="
        )
    return result.survival
