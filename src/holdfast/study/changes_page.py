"""`holdfast benchmark changes`: what survives which change, on public tables, as a page with its figures in words."""

from __future__ import annotations

import math
import textwrap
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from holdfast.retraining.retrain import run_seeds
from holdfast.study.markdown import table
from holdfast.study.methods import StudyMethod
from holdfast.study.recipes import RECIPES, bootstrap
from holdfast.study.result import BenchmarkResult
from holdfast.study.run import benchmark
from holdfast.study.situation import Situation
from holdfast.study.survival import Survival, kinds_table, methods_table, named, with_worst_kind

TABLES = ("heloc", "compas", "adult", "gmc", "breast_cancer")
# The kinds that start from scratch come first in `RECIPES`.
AGAIN = tuple(recipe.name for recipe in RECIPES[:7])
# Of which share of the promises may be broken, and on how many models that is measured.
BROKEN, MEASURED = 0.1, 20


def calibrated(situation: Situation) -> Changes:
    """The margin of which conformal risk control says so, on models trained again on bootstrap samples.

    Neither the people nor the models are those of the study.
    """
    table, people = situation.table, situation.rejects(situation.halves.new_test)
    seeds = run_seeds(situation.seed + 1000, MEASURED)
    models = (bootstrap(situation.fitted, situation.learned, seed) for seed in seeds)
    return risk_calibrated(
        situation.models.classifier, table.X.iloc[people], target=table.target, retrained=models,
        generator=RNCE(situation.training_table), space=table.space, broken=BROKEN, coverage=0.9, progress=False,
    ).changes  # fmt: skip


# What promises are made for: a margin of today's model, which every model has, or a Δ, which needs parameters. At δ
# 0.03 answers are certified only.
MARGINS: dict[str, Any] = {f"p ≥ {p:g}": PlausibleShift(math.log(p / (1.0 - p))) for p in (0.7, 0.9)}
MARGINS["risk ≤ 0.1"] = calibrated
DELTAS: dict[str, Any] = {"δ 0.005": 0.005, "δ 0.01": 0.01, "δ 0.03": 0.03}
METHODS = (
    StudyMethod("nearest row", "nnce"),
    StudyMethod("row with", "rnce", deltas=tuple(MARGINS)),
    StudyMethod("RNCE", "rnce", deltas=("δ 0.005", "δ 0.01")),
    StudyMethod("cheapest point", "mce"),
    StudyMethod("Closest", "closest", deltas=("δ 0.01",)),
)
# Of which models what is asked on which tables. Trees have no parameters to prove anything about, and read off the
# labels that leak into heloc's columns.
MODELS: dict[str, tuple[Any, tuple[StudyMethod, ...], dict[str, Any], tuple[str, ...]]] = {
    "network": (MLPClassifier((32, 32), max_iter=60, learning_rate_init=0.005), METHODS, MARGINS | DELTAS, TABLES),
    "boosted trees": (HistGradientBoostingClassifier(max_iter=50), METHODS[:2], MARGINS, TABLES[1:]),
}


@dataclass(frozen=True)
class ChangesExtent:
    """How much of everything: rows of each table, people and base models for each, variants of each kind."""

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
    """The studies of the page, one for each kind of model, each in its own folder below `out`; resumed at will."""
    unknown = sorted(set(names or ()) - set(TABLES))
    if unknown:
        raise InvalidInputError(f"datasets: expected some of {', '.join(TABLES)}, got {', '.join(unknown)}")
    tables = {name: _table(name, extent.rows) for name in names or TABLES}
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
        return X, y, FeatureSpace.from_frame(X, scale="standard")
    data = public.load(name, actionability="carla", kinds="carla", progress=False)
    if rows >= len(data):
        return data
    kept, _ = train_test_split(np.arange(len(data)), train_size=rows, stratify=data.y, random_state=0)
    return replace(data, frame=data.frame.iloc[kept], target=data.target.iloc[kept])


def draw(results: dict[str, BenchmarkResult], folder: Path) -> list[Path]:
    """A picture for each kind of model."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {model: folder / f"changes-{model.replace(' ', '-')}.png" for model in results}
    for model, path in paths.items():
        _survival(results[model]).plot(path)
    return list(paths.values())


def render(
    results: dict[str, BenchmarkResult], command: str, extent: ChangesExtent, pictures: Sequence[str] = ()
) -> str:
    """The page as Markdown: the truth first, then the kinds of change, then each kind of model and each table."""
    parts = ["# What survives which change", _truth(results["network"]), f"```sh\n{command}\n```"]
    parts += [_protocol(results, extent), "## The kinds of change", _kinds(_survival(results["network"]))]
    for number, (model, result) in enumerate(results.items()):
        survival = _survival(result)
        kinds = _mean(survival.to_frame(), ["method", "delta_label", "kind"])
        parts += [f"## All tables, {model}", _READING, methods_table(_over_tables(survival, kinds)), kinds_table(kinds)]
        without = result.failures[result.failures["delta_label"] == "risk ≤ 0.1"].to_dict("records")
        if without:
            places = ", ".join(f"{row['dataset']} (seed {row['seed']})" for row in without)
            parts.append(f"No margin broke few enough promises, and the others are averaged: {places}.")
        if pictures:
            parts.append(f"![Promises kept against their cost, {model}]({pictures[number]})")
        parts.append(survival.to_markdown().replace("## ", "### ").rstrip())
    return "\n\n".join(parts) + "\n"


_READING = """\
Means over the tables. **Found**: people with an answer; all else is over those. **Cost**: in units of the nearest
accepted row's. **Kept**: of promises times changed models. **People kept by all**: those whose promise every changed
model of every kind keeps. In the picture marks are filled where a method was asked for a margin or a Δ, and the line
joins what no other method beats in cost and share at once."""


def _truth(result: BenchmarkResult) -> str:
    """The first paragraph: what proofs cover, what they do not, what distance buys."""
    survival, whole = _survival(result), _survival(result).to_frame()
    inside = survival.people.merge(_proven(result.details))
    distance = survival.models.set_index("kind")["distance"]
    again, tuned = distance[distance.index.isin(AGAIN)], distance[distance.index == "fine-tuning"]
    far = result.results[result.results["verified_label"] == "δ 0.03"]["delta_validity"].mean()
    kinds = _mean(whole[whole["kind"].isin(AGAIN)], ["method", "delta_label", "kind"])
    kept = defaultdict(lambda: "none")
    for row in _mean(kinds, ["method", "delta_label"]).to_dict("records"):
        kept[named(row)] = f"{100 * row['survival']:.1f}% ({row['cost_relative']:.2f})"
    text = _TRUTH.format(
        pairs=f"{int(inside['inside'].sum()):,}", least=f"{again.min():.2f}", most=f"{again.max():.2f}",
        broken=round(((1.0 - inside["kept_inside"]) * inside["inside"]).sum()) or "none", far=share(far), kept=kept,
        tuned=f"{tuned.min():.3f} to {tuned.max():.3f}",
    )  # fmt: skip
    return _filled(text)


_TRUTH = """\
**A proof covers the models inside Δ and no others.** {pairs} times a promise proven for δ 0.005 or 0.01 met a
changed network inside that Δ, and {broken} of them were broken. **It does not cover a network that is trained
again**: those lay {least} to {most} from today's in the ∞-norm (fine-tuned ones {tuned}), and already at δ 0.03 only
{far} of the answers below are proven. **What keeps promises there is distance from the boundary, however it was come
by.** Networks that were trained again kept the shares of promises that follow, each with its cost in brackets, where
the nearest accepted row costs 1: {kept[cheapest point]} of the cheapest points, {kept[nearest row]} of the nearest
accepted rows;
{kept[row with p ≥ 0.7]} of the nearest rows with a probability of at least 0.7 and {kept[row with p ≥ 0.9]} of those
with at least 0.9, {kept[row with risk ≤ 0.1]} of the nearest rows with a margin calibrated so that at most one
promise in ten is broken ([risk control](delta.md)), for all of which nothing about parameters is proven;
{kept[RNCE δ 0.005]} of RNCE's rows proven at δ 0.005 and {kept[RNCE δ 0.01]} of those proven at δ 0.01;
{kept[Closest δ 0.01]} of the points that `Closest` proved at δ 0.01, which need not lie where people are. Whoever
trains again should promise with a margin, and measure how many of such promises are broken: `hf.risk_calibrated`
does both. Every figure here was written by"""


def _proven(details: pd.DataFrame) -> pd.DataFrame:
    """The people whose answer is proven for what it was asked for, by the keys of `Survival.people`."""
    keys = ["dataset", "model", "seed", "method", "delta_label"]
    numbered = details.assign(row=details.groupby(keys, sort=False).cumcount())
    proven = [row.get(f"verdict_{row['delta_label']}") == "ROBUST" for row in details.to_dict("records")]
    return numbered.loc[proven, [*keys, "row"]]


def _protocol(results: dict[str, BenchmarkResult], extent: ChangesExtent) -> str:
    """How the figures came about."""
    models = pd.concat([result.models for result in results.values()])
    accuracy = models.pivot_table("accuracy", "dataset", "model", sort=False)
    people = models.groupby("dataset", sort=False)["inputs"].sum()
    lines = [[name, str(people[name]), *map(_figure, accuracy.loc[name, list(results)])] for name in people.index]
    headings = ["table", "people", *(f"accuracy, {model}" for model in results)]
    return _filled(_PROTOCOL.format(extent=extent)) + "\n\n" + table(headings, lines)


_PROTOCOL = """\
At most {extent.rows:,} rows of each table: half are there today and half come later, and a fifth of each half is
kept for testing. Base models for each table: {extent.seeds} networks with two hidden layers of 32 and {extent.seeds}
sets of 50 boosted trees, each with its own halves and its own people, at most {extent.inputs} from the test part
whom it rejects. Changed models of each kind, for each base model: {extent.variants}. The cheapest point and
`Closest` have {extent.time_limit:g} CPU seconds for each person; where these run out, answers depend on the machine.
Trees have no parameters, so that methods which need a Δ, and kinds of change which move parameters or layers, are
left out for them; so is heloc, whose columns give labels away to trees ([data sets](datasets.md))."""


def _kinds(survival: Survival) -> str:
    """Each kind, what it does, and how far networks move."""
    distance = survival.models.groupby("kind")["distance"].agg(["min", "max"])
    lines = []
    for recipe in RECIPES:
        if recipe.name in distance.index:
            far = " to ".join(filter(None, map(_figure, distance.loc[recipe.name])))
            lines.append([f"**{recipe.name}**: {recipe.sentence}", far])
    return _KINDS + table(["kind of change", "distance"], lines)


_KINDS = """\
Whatever is trained again also starts from another seed, which changes nothing for trees that are grown without
randomness, as here. The distance is that of the parameters from today's network in
the ∞-norm, where the two have parameters to compare. A kind of your own is a function `(model, data, seed) -> model`:
see [Compare methods on your own data](benchmarking.md).

"""


def _filled(text: str) -> str:
    """A paragraph in lines of the usual length, whatever figures were put in."""
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def _figure(value: Any) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"


def _mean(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Means over whatever is not named."""
    return frame.groupby(by, sort=False).mean(numeric_only=True).reset_index()


def _over_tables(survival: Survival, kinds: pd.DataFrame) -> pd.DataFrame:
    """The summary of all tables: means, and the kind that is worst in the mean."""
    by = ["method", "delta_label"]
    return with_worst_kind(_mean(survival.summary().drop(columns="worst_survival"), by), kinds, by)


def _survival(result: BenchmarkResult) -> Survival:
    if result.survival is None or not len(result.survival.people):
        raise InvalidInputError("page: expected a study with kinds of change and an answer, got none")
    return result.survival
