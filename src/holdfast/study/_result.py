"""`BenchmarkResult`: what a study found, as frames, as a table for people and as files."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from holdfast._files import Place, write_table, write_text
from holdfast._shown import Shown, Summary, draw
from holdfast.study._markdown import markdown_table
from holdfast.study._survival import Survival

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS = (
    "inputs",
    "coverage",
    "validity",
    "validity_retrained",
    "delta_validity",
    "delta_unknown",
    "cost_l1",
    "lof",
    "sparsity",
    "violations",
    "seconds",
)
# The least of any study, and what distinguishes one row of the summary from another.
GROUPS = ["dataset", "model", "method", "delta_label", "verified_label"]


@dataclass(frozen=True, eq=False)
class BenchmarkResult(Shown):
    """What a study found.

    Attributes
    ----------
    results
        One row for each dataset, model, seed, method, delta that it was asked for (nan if it ignores Δ) and delta that
        its answers were certified at. `coverage` is a share of the inputs, all other means are over the answers.
        `seconds` are CPU seconds for all inputs; `error` is "" or the text of what went wrong.
    details
        One row for each input: found, reason, cost_l1, the verdict at each delta, ..., and `cell`: the points are
        in ``cells/<cell>.json``.
    models
        One row for each model that was trained: accuracy on the test part, and how many rejected people were drawn.
    out
        The folder, or None.
    computed, reused
        How many "models" (sets of networks), "cells" (answers of a method), "verdicts" and "kinds" of change were
        computed in this run, and how many were found in the folder.
    survival
        What survived which kind of change; None where `changes_of` named none.
    """

    results: pd.DataFrame
    details: pd.DataFrame
    models: pd.DataFrame
    out: Path | None
    computed: Mapping[str, int]
    reused: Mapping[str, int]
    survival: Survival | None = None

    @property
    def failures(self) -> pd.DataFrame:
        """The rows whose method, or whose model, raised an error."""
        return self.results[self.results["error"] != ""]

    def summary(self) -> pd.DataFrame:
        """Mean and standard deviation over seeds: a column and a column ending in _std for each metric."""
        kept = self.results[self.results["error"] == ""]
        grouped = kept.groupby(GROUPS, sort=False)[["delta", "verified_delta", *METRICS]]
        mean = grouped.mean()
        std = grouped.std().add_suffix("_std")
        paired = [name for metric in mean.columns for name in (metric, f"{metric}_std")]
        seeds = kept.groupby(GROUPS, sort=False)["seed"].nunique().rename("seeds")
        return pd.concat([seeds, pd.concat([mean, std], axis=1)[paired]], axis=1).reset_index()

    def to_markdown(self, *, seconds: bool = False) -> str:
        """A table for each dataset and model: mean ± standard deviation over seeds."""
        return markdown_table(self.summary(), self.failures, seconds=seconds)

    def plot(self, path: Place | None = None) -> Figure:
        """Draw what survives against what it costs, a column of pictures for each dataset and model.

        To a file if `path` is given, else on a figure of pyplot's, which a notebook shows.
        """
        picture: Figure = draw(self, path)
        return picture

    def __repr__(self) -> str:
        cells = sum(part.get("cells", 0) for part in (self.computed, self.reused))
        failed = f", {len(self.failures)} rows with errors" if len(self.failures) else ""
        return f"BenchmarkResult({len(self.results)} rows, {cells} cells: {self.reused.get('cells', 0)} reused{failed})"

    def overview(self) -> Summary:
        """What a notebook shows."""
        summary = self.summary().set_index("method")
        kept = ["dataset", "model", "delta_label", "verified_label", "seeds", *METRICS]
        methods = summary.index.nunique()
        tables = len(summary[["dataset", "model"]].drop_duplicates())
        facts = [
            ("cells", sum(part.get("cells", 0) for part in (self.computed, self.reused))),
            ("found in the folder", self.reused.get("cells", 0)),
            ("rows with errors", len(self.failures) or None),
            ("folder", self.out),
        ]
        table = summary[kept].rename(
            columns={"delta_label": "asked for", "verified_label": "certified at"}
        )
        return Summary(
            f"{methods} methods on {tables} models and tables",
            facts,
            table,
            most=100,
            notes=["Means over seeds."],
        )


def write_result(result: BenchmarkResult, folder: Path) -> None:
    """Write the tables; all but timings.csv are the same, byte for byte, whenever the same study has been run."""
    keys = [name for name in result.results.columns if name not in (*METRICS, "error")]
    untimed = result.results.drop(columns="seconds")
    tables = {
        "results.csv": untimed,
        "details.csv": result.details,
        "models.csv": result.models,
        "timings.csv": result.results[[*keys, "seconds"]],
    }
    pages = {"results.md": result.to_markdown()}
    if result.survival is not None:
        tables["survival.csv"] = result.survival.to_frame()
        pages["survival.md"] = result.survival.to_markdown()
    if importlib.util.find_spec("pyarrow") is not None:
        tables["results.parquet"] = untimed
    for name, table in tables.items():
        write_table(table, folder / name, index=False)
    for name, page in pages.items():
        write_text(page, folder / name)
