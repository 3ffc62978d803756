"""What survives against what it costs; it reads in black and white."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pandas as pd

from holdfast.errors import InvalidInputError
from holdfast.presentation.pictures.drawing import DARK, LIGHT, new_figure, plain, tidy
from holdfast.shown import draw
from holdfast.study.result import BenchmarkResult
from holdfast.study.survival import Survival, named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = "osD^v<>PX*phd"


@draw.register(BenchmarkResult)
def draw_study(result: BenchmarkResult, path: str | os.PathLike[str] | None) -> Figure:
    """A column of pictures for each dataset and model: validity after retraining, then Δ-validity at each delta."""
    summary = result.summary()
    if summary.empty:
        raise InvalidInputError("plot: expected at least one method that answered, got none")
    places = list(summary.groupby(["dataset", "model"], sort=False))
    labels = list(dict.fromkeys(summary["verified_label"]))
    rows = [("validity_retrained", "valid after retraining", labels[0])]
    rows += [("delta_validity", f"proven at delta {label}", label) for label in labels]
    names = list(dict.fromkeys(summary["method"]))
    size = (1.2 + 3.3 * len(places), 0.9 + 2.6 * len(rows))
    figure = new_figure("a picture of the study", size, shown=path is None)
    grid: Any = figure.subplots(len(rows), len(places), squeeze=False, sharey=True)
    for j, ((dataset, model), part) in enumerate(places):
        for i, (metric, heading, label) in enumerate(rows):
            axes = grid[i, j]
            _scatter(axes, part[part["verified_label"] == label], metric, names)
            title = plain(f"{dataset}, {model}") if i == 0 else ""
            axes.set_title(title, fontsize="medium", fontweight="bold", loc="left")
            axes.set_ylabel(heading if j == 0 else "")
            axes.set_xlabel("cost_l1" if i == len(rows) - 1 else "")
    handles = dict(zip(*reversed(grid[0, 0].get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _scatter(axes: Any, part: pd.DataFrame, metric: str, names: list[str]) -> None:
    """One mark for each method and delta; filled where it was asked for a delta."""
    for name in names:
        rows = part[part["method"] == name]
        asked = bool((rows["delta_label"] != "").any())
        axes.errorbar(
            rows["cost_l1"], 100 * rows[metric],
            xerr=rows["cost_l1_std"].fillna(0.0), yerr=100 * rows[f"{metric}_std"].fillna(0.0),
            fmt=_MARKERS[names.index(name) % len(_MARKERS)], label=plain(name), color=DARK, ecolor="0.7",
            elinewidth=0.8, markersize=5, markerfacecolor=DARK if asked else "white",
        )  # fmt: skip
    axes.set_ylim(-5, 105)
    axes.yaxis.set_major_formatter("{x:.0f}%")
    tidy(axes)


@draw.register(Survival)
def draw_survival(result: Survival, path: str | os.PathLike[str] | None) -> Figure:
    """A column of pictures for each table and model: promises kept, then people kept by all, against relative cost.

    The line joins what no other method beats in both.
    """
    kept = result.summary().dropna(subset=["survival", "cost_relative"])
    if kept.empty:
        raise InvalidInputError("plot: expected at least one method that answered, got none")
    places = list(kept.groupby(["dataset", "model"], sort=False))
    names = list(dict.fromkeys(map(named, kept.to_dict("records"))))
    figure = new_figure("a picture of what survives", (1.2 + 2.7 * len(places), 6.4), shown=path is None)
    rows = {"survival": "promises kept", "every_variant": "people whose promise\nevery changed model keeps"}
    grid: Any = figure.subplots(len(rows), len(places), squeeze=False, sharey="row")
    for j, ((dataset, model), part) in enumerate(places):
        for i, (metric, heading) in enumerate(rows.items()):
            axes = tidy(grid[i, j])
            front = part.sort_values(["cost_relative", metric], ascending=[True, False])
            front = front[front[metric] > front[metric].cummax().shift(fill_value=-1.0)]
            axes.step(front["cost_relative"], 100 * front[metric], where="post", color=LIGHT, linewidth=1.0, zorder=1)
            for row in part.to_dict("records"):
                place = names.index(named(row))
                axes.plot(
                    row["cost_relative"], 100 * row[metric], _MARKERS[place % len(_MARKERS)], label=plain(names[place]),
                    markersize=7 if row["delta_label"] else 9, markerfacecolor=DARK if row["delta_label"] else "none",
                    markeredgecolor="white" if row["delta_label"] else DARK, markeredgewidth=0.8,
                )  # fmt: skip
            axes.set_title(
                plain(f"{dataset}, {model}") if i == 0 else "", fontsize="medium", fontweight="bold", loc="left"
            )
            axes.set_ylabel(heading if j == 0 else "")
            axes.set_xlabel("cost / nearest row's" if i == len(rows) - 1 else "")
            axes.yaxis.set_major_formatter("{x:.0f}%")
            axes.locator_params(axis="x", nbins=4)
    handles: dict[str, Any] = {}
    for axes in grid[0]:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    if path is not None:
        figure.savefig(path, dpi=130)
    return figure
