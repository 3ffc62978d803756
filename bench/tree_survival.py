"""Promises of trees, kept or broken by models that were really refitted, refreshed, extended or retrained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd

import holdfast as hf
from report import ROOT, Table
from tree_cases import TABLES, World, fitted, world

TREES, DEPTH = 100, 4
# Rows to learn from, rows that came since, people who ask, models that calibrate, and models that are counted.
OLD, NEW, PEOPLE, MODELS = 4000, 4000, 60, 20
COVERAGE, BROKEN = 0.9, 0.1
PICTURE = ROOT / "docs" / "images" / "trees-survival.png"
WAYS = (
    ("lightgbm", "refit, decay 0.9"),
    ("lightgbm", "refit, decay 0.5"),
    ("xgboost", "refresh, new rows"),
    ("xgboost", "refresh, old and new"),
    ("lightgbm", "20 more rounds"),
    ("xgboost", "20 more rounds"),
    ("lightgbm", "from scratch"),
    ("xgboost", "from scratch"),
)
STYLES = (("nearest row", "o", "#888888"), ("leaf radii", "s", "#1b6ca8"), ("risk", "D", "#c1502e"))


@dataclass(frozen=True)
class Promise:
    """Promises made one way: what was said of them, what became of them, and what they cost."""

    way: str
    said: str
    kept: float
    cost: float
    covered: float


def later(model: Any, way: str, here: World, seed: int) -> Any:
    """Models of tomorrow: on a quarter of the new rows, or on three quarters of all rows, with a separate draw for
    each."""
    X, y = here.part(slice(OLD))
    X_new, y_new = here.part(slice(OLD, OLD + NEW))
    both, labels = pd.concat([X, X_new], ignore_index=True), np.append(y, y_new)
    quarter: dict[str, Any] = {"X_new": X_new, "y_new": y_new, "share": 0.25}
    run: dict[str, Any] = {"n": MODELS, "seed": seed, "progress": False}
    if way == "refresh, new rows":
        return hf.retrain(model, X, y, how="refit", **quarter, **run)
    if way == "20 more rounds":
        return hf.retrain(model, X, y, how="continue", epochs=20, **quarter, **run)
    if way == "from scratch":
        return hf.retrain(model, both, labels, how="leave_one_out", removed=0.25, **run)
    if way.startswith("refit"):
        model = model.set_params(refit_decay_rate=float(way[-3:]))
    return hf.retrain(model, both, labels, how="refit", share=0.75, **run)


def promises(name: str, library: str, way: str) -> Iterator[Promise]:
    """The nearest row, calibrated leaf radii where the structure stays, and calibrated risk."""
    here = world(name)
    X, y = here.part(slice(OLD))
    model = fitted(library, X, y, TREES, DEPTH)
    others = here.frame.iloc[OLD + NEW :]
    people = others[model.predict(others) == 0].head(PEOPLE).reset_index(drop=True)
    known, following = later(model, way, here, 1), later(model, way, here, 2)
    options: dict[str, Any] = {"target": 1, "space": here.space}
    nearest = hf.explain(model, people, generator=hf.NNCE(X), changes=None, **options)

    def made(words: str, said: str, found: Any) -> Promise:
        rows = np.flatnonzero(found.found & nearest.found)
        if not rows.size:
            return Promise(words, said, np.nan, np.nan, 0.0)
        advice = found.counterfactuals.iloc[rows].astype(here.frame.dtypes)
        kept = np.mean([one.predict(advice) == 1 for one in following.models])
        cost = float(found.cost_l1[rows].sum() / nearest.cost_l1[rows].sum())
        return Promise(words, said, float(kept), cost, rows.size / max(1, nearest.found.sum()))

    yield made("nearest row", "nothing", nearest)
    if way.startswith("ref"):
        delta = hf.delta_calibrated(known, coverage=COVERAGE)
        inside = np.mean(
            [delta.changes.contains(known.classifier, one) for one in following.classifiers]
        )
        found = hf.explain(model, people, generator=hf.RNCE(X), changes=delta.changes, **options)
        said = f"all, by {COVERAGE:.0%} of models: {inside:.0%} were inside"
        yield made("leaf radii", said, found)
    risk = hf.risk_calibrated(
        model, people, retrained=known.models, generator=hf.RNCE(X), broken=BROKEN, coverage=0.8,
        progress=False, **options,
    )  # fmt: skip
    if risk.changes is None:
        yield Promise("risk", "no margin passes", np.nan, np.nan, 0.0)
        return
    found = hf.explain(model, people, generator=hf.RNCE(X), changes=risk.changes, **options)
    yield made("risk", f"{1.0 - BROKEN:.0%} on average", found)


def survival(quick: bool) -> Table:
    """A line for each table, library, way and kind of promise; and the picture."""
    tables = TABLES[:1] if quick else TABLES
    found = {
        (name, library, way): [*promises(name, library, way)]
        for name, (library, way) in product(tables, WAYS)
    }
    lines = [
        [f"{name}, {library}, {way}", one.way, one.said, *_numbers(one)]
        for (name, library, way), made in found.items()
        for one in made
    ]
    if not quick:
        _draw(found)
    note = (
        f"{TREES} trees of depth {DEPTH} on {OLD:,} rows; {NEW:,} rows are new. {MODELS} models calibrate; "
        f"{MODELS} others, made alike, are counted, on promises to {PEOPLE} people. Refits and training from "
        "scratch use three quarters of all rows; more rounds, and a refresh on new rows, use a quarter of the new "
        "rows, with a separate draw for each model. *Leaf radii*: `delta_calibrated` and `RNCE`; it is proven that "
        "a model inside the radii keeps every promise. *Risk*: `risk_calibrated`, a chance. *Kept*: the share of "
        "promises that the counted models keep. *Cost*: relative to the nearest accepted row of the same people. "
        "*Answered*: the share of people with advice, among people with a nearest row.\n\n![Promises kept by "
        "tomorrow's models, for each way to retrain, table and kind of promise](images/trees-survival.png)"
    )
    columns = ["table, library, retrained", "promise", "said", "kept", "cost", "answered"]
    return Table("Promises under models that were really retrained", columns, lines, note)


def _numbers(one: Promise) -> list[str]:
    if np.isnan(one.kept):
        return ["-", "-", f"{one.covered:.0%}"]
    return [f"{one.kept:.1%}", f"{one.cost:.2f}", f"{one.covered:.0%}"]


def _draw(found: dict[tuple[str, str, str], list[Promise]]) -> None:
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    names = [f"{library}: {way}" for library, way in WAYS]
    figure, axes = plt.subplots(1, len(TABLES), figsize=(11, 4.2), sharey=True, sharex=True)
    for axis, name in zip(axes, TABLES, strict=True):
        for kind, marker, colour in STYLES:
            at = [
                (one.kept, place, one.cost)
                for place, (library, way) in enumerate(WAYS)
                for one in found[name, library, way]
                if one.way == kind and not np.isnan(one.kept)
            ]
            kept, places, costs = zip(*at, strict=True)
            axis.scatter(
                100 * np.array(kept), places, marker=marker, color=colour, label=kind, zorder=3
            )
            if kind != "nearest row":
                for x, y, cost in zip(kept, places, costs, strict=True):
                    axis.annotate(
                        f"{cost:.2f}",
                        (100 * x, y),
                        (0, 6),
                        textcoords="offset points",
                        fontsize=7,
                        ha="center",
                    )
        axis.set_title(name)
        axis.set_xlabel("promises kept, %")
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower left", fontsize=8, ncols=3)
    figure.suptitle(
        "Promises kept by models that calibration has not seen; numbers: cost by that of the nearest row",
        fontsize=10,
    )
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)
