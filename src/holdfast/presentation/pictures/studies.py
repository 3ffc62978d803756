"""What survives against what it costs; it reads in black and white."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from holdfast.errors import InvalidInputError
from holdfast.presentation.pictures.drawing import DARK, LIGHT, new_figure, plain, tidy
from holdfast.shown import draw
from holdfast.study.result import BenchmarkResult
from holdfast.study.survival import Survival, named

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "osD^v<>PX*phd"


@draw.register(BenchmarkResult)
def draw_study(result: BenchmarkResult, path: str | os.PathLike[str] | None) -> Figure:
    """A column of pictures for each dataset and model: validity after retraining, then Δ-validity at each delta."""
    summary = result.summary()
    names = list(dict.fromkeys(summary["method"]))
    labels = list(dict.fromkeys(summary["verified_label"]))
    rows = {"valid after retraining": partial(_methods, "validity_retrained", labels[:1], names)}
    rows |= {f"proven at delta {label}": partial(_methods, "delta_validity", [label], names) for label in labels}
    figure = new_figure("a picture of the study", _size(summary, 3.3, 0.9 + 2.6 * len(rows)), shown=path is None)
    return _drawn(figure, summary, rows, "cost_l1", path, sharey=True)


@draw.register(Survival)
def draw_survival(result: Survival, path: str | os.PathLike[str] | None) -> Figure:
    """A column of pictures for each table and model: promises kept, then people kept by all, against relative cost.

    The line joins what no other method beats in both.
    """
    summary = result.summary().dropna(subset=["survival", "cost_relative"])
    names = list(dict.fromkeys(map(named, summary.to_dict("records"))))
    rows = {
        "promises kept": partial(_front, "survival", names),
        "people whose promise\nevery changed model keeps": partial(_front, "every_variant", names),
    }
    figure = new_figure("a picture of what survives", _size(summary, 2.7, 6.4), shown=path is None)
    return _drawn(figure, summary, rows, "cost / nearest row's", path, sharey="row")


def _size(summary: pd.DataFrame, width: float, height: float) -> tuple[float, float]:
    """So much room for each dataset and model."""
    if summary.empty:
        raise InvalidInputError("plot: expected at least one method that answered, got none")
    return 1.2 + width * len(summary.groupby(["dataset", "model"])), height


def _drawn(
    figure: Figure,
    summary: pd.DataFrame,
    rows: Mapping[str, Callable[[Axes, pd.DataFrame], object]],
    cost: str,
    path: str | os.PathLike[str] | None,
    sharey: Any,
) -> Figure:
    """A row of pictures for each heading, a column for each dataset and model, and a legend for all."""
    places = list(summary.groupby(["dataset", "model"], sort=False))
    grid: Any = figure.subplots(len(rows), len(places), squeeze=False, sharey=sharey)
    handles: dict[str, Any] = {}
    for column, ((dataset, model), part) in zip(grid.T, places, strict=True):
        for axes, fill in zip(column, rows.values(), strict=True):
            fill(tidy(axes), part)
            axes.yaxis.set_major_formatter("{x:.0f}%")
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        column[0].set_title(plain(f"{dataset}, {model}"), fontsize="medium", fontweight="bold", loc="left")
        column[-1].set_xlabel(cost)
    for axes, heading in zip(grid[:, 0], rows, strict=True):
        axes.set_ylabel(heading)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _methods(metric: str, labels: Sequence[str], names: Sequence[str], axes: Axes, part: pd.DataFrame) -> None:
    """One mark for each method and delta; filled where it was asked for a delta."""
    for name in names:
        rows = part[(part["method"] == name) & part["verified_label"].isin(labels)]
        asked = bool((rows["delta_label"] != "").any())
        axes.errorbar(
            rows["cost_l1"], 100 * rows[metric],
            xerr=rows["cost_l1_std"].fillna(0.0), yerr=100 * rows[f"{metric}_std"].fillna(0.0),
            fmt=_MARKERS[names.index(name) % len(_MARKERS)], label=plain(name), color=DARK, ecolor="0.7",
            elinewidth=0.8, markersize=5, markerfacecolor=DARK if asked else "white",
        )  # fmt: skip
    axes.set_ylim(-5, 105)


def _front(metric: str, names: Sequence[str], axes: Axes, part: pd.DataFrame) -> None:
    """One mark for each method and delta, and the line of what no other beats."""
    front = part.sort_values(["cost_relative", metric], ascending=[True, False])
    front = front[front[metric] > front[metric].cummax().shift(fill_value=-1.0)]
    axes.step(front["cost_relative"], 100 * front[metric], where="post", color=LIGHT, linewidth=1.0, zorder=1)
    for row in part.to_dict("records"):
        place, asked = names.index(named(row)), row["delta_label"]
        axes.plot(
            row["cost_relative"], 100 * row[metric], _MARKERS[place % len(_MARKERS)], label=plain(names[place]),
            markersize=7 if asked else 9, markerfacecolor=DARK if asked else "none",
            markeredgecolor="white" if asked else DARK, markeredgewidth=0.8,
        )  # fmt: skip
    axes.locator_params(axis="x", nbins=4)
