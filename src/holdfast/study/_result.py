"""`BenchmarkResult`: the result of a study, as frames, Markdown and files."""

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
    """The result of a study.

    Attributes
    ----------
    results
        One row for each dataset, model, seed, method, delta of the method (nan if it ignores Δ) and delta of the
        certificates. `coverage` is a share of the inputs; all other means are over the inputs with advice.
        `seconds` are CPU seconds for all inputs; `error` is "" or the text of the error.
    details
        One row for each input: found, reason, cost_l1, the verdict at each delta, ..., and `cell`, whose points are
        in ``cells/<cell>.json``.
    models
        One row for each trained model: its accuracy on the test part, and the number of rejected people.
    out
        The folder, or None.
    computed, reused
        The numbers of "models" (sets of networks), "cells" (advice of a method), "verdicts" and "kinds" of change
        that this run computed, or found in the folder.
    survival
        The promises kept under each kind of change; None without `changes_of`.
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
        """The rows whose method or model raised an error."""
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
        """Plot the share of robust and kept advice against its cost, a column for each dataset and model.

        It is written to `path` if given, else drawn on a pyplot figure, which a notebook shows.
        """
        picture: Figure = draw(self, path)
        return picture

    def __repr__(self) -> str:
        cells = sum(part.get("cells", 0) for part in (self.computed, self.reused))
        failed = f", {len(self.failures)} rows with errors" if len(self.failures) else ""
        return f"BenchmarkResult({len(self.results)} rows, {cells} cells: {self.reused.get('cells', 0)} reused{failed})"

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
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
    """Write the tables; all except timings.csv are equal, byte for byte, after every run of the same study."""
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
