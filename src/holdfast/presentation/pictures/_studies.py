"""Pictures of studies: promises kept against their cost; they read in black and white."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pandas as pd

from holdfast._files import Place
from holdfast._shown import draw
from holdfast.errors import InvalidInputError
from holdfast.presentation.pictures._drawing import DARK, LIGHT, new_figure, plain, tidy
from holdfast.study import BenchmarkResult, Survival
from holdfast.study._survival import named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = "osD^v<>PX*phd"


@draw.register(BenchmarkResult)
def draw_study(result: BenchmarkResult, path: Place | None) -> Figure:
    """A column of pictures for each dataset and model: validity after retraining, then Δ-validity at each delta."""
    summary = result.summary()
    names, labels = (
        list(dict.fromkeys(summary[column])) for column in ("method", "verified_label")
    )
    marks = partial(_scatter, names=names)
    rows = {
        "valid after retraining": partial(
            marks, metric="validity_retrained", label=next(iter(labels), "")
        )
    }
    rows |= {
        f"proven at delta {label}": partial(marks, metric="delta_validity", label=label)
        for label in labels
    }
    return _pictures(summary, rows, "cost_l1", path)


@draw.register(Survival)
def draw_survival(survival: Survival, path: Place | None) -> Figure:
    """A column of pictures for each table and model: promises kept, then people kept by all, against relative cost.

    The line joins the methods that no other method beats in both.
    """
    kept = survival.summary().dropna(subset=["survival", "cost_relative"])
    front = partial(_front, names=list(dict.fromkeys(map(named, kept.to_dict("records")))))
    rows = {
        "promises kept": partial(front, metric="survival"),
        "people whose promise\nevery changed model keeps": partial(front, metric="every_variant"),
    }
    return _pictures(kept, rows, "cost / nearest row's", path)


def _pictures(
    summary: pd.DataFrame,
    rows: Mapping[str, Callable[[Any, pd.DataFrame], None]],
    cost: str,
    path: Place | None,
) -> Figure:
    """A column for each table and model, and a picture in each of its rows; saved if there is a path, else shown."""
    if summary.empty:
        raise InvalidInputError("plot: expected at least one method that answered, got none")
    places = list(summary.groupby(["dataset", "model"], sort=False))
    size = (1.2 + 3.0 * len(places), 0.9 + 2.7 * len(rows))
    figure = new_figure("a picture of what survives", size, shown=path is None)
    grid: Any = figure.subplots(len(rows), len(places), squeeze=False, sharey="row")
    handles: dict[str, Any] = {}
    for column, ((dataset, model), part) in zip(grid.T, places, strict=True):
        for axes, paint in zip(column, rows.values(), strict=True):
            paint(tidy(axes), part)
            axes.yaxis.set_major_formatter("{x:.0f}%")
            axes.locator_params(axis="x", nbins=4)
        column[0].set_title(
            plain(f"{dataset}, {model}"), fontsize="medium", fontweight="bold", loc="left"
        )
        column[-1].set_xlabel(cost)
        handles |= dict(zip(*reversed(column[0].get_legend_handles_labels()), strict=True))
    for axes, heading in zip(grid[:, 0], rows, strict=True):
        axes.set_ylabel(heading)
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False
    )
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _scatter(axes: Any, part: pd.DataFrame, names: list[str], metric: str, label: str) -> None:
    """One mark for each method and delta; filled where it was asked for a delta."""
    for name, marker in zip(names, cycle(_MARKERS), strict=False):
        rows = part[(part["method"] == name) & (part["verified_label"] == label)]
        asked = bool((rows["delta_label"] != "").any())
        axes.errorbar(
            rows["cost_l1"], 100 * rows[metric],
            xerr=rows["cost_l1_std"].fillna(0.0), yerr=100 * rows[f"{metric}_std"].fillna(0.0),
            fmt=marker, label=plain(name), color=DARK, ecolor="0.7", elinewidth=0.8, markersize=5,
            markerfacecolor=DARK if asked else "white",
        )  # fmt: skip
    axes.set_ylim(-5, 105)


def _front(axes: Any, part: pd.DataFrame, names: list[str], metric: str) -> None:
    """One mark for each method, and a line that joins the methods that no other beats."""
    front = part.sort_values(["cost_relative", metric], ascending=[True, False])
    front = front[front[metric] > front[metric].cummax().shift(fill_value=-1.0)]
    axes.step(
        front["cost_relative"],
        100 * front[metric],
        where="post",
        color=LIGHT,
        linewidth=1.0,
        zorder=1,
    )
    markers = dict(zip(names, cycle(_MARKERS), strict=False))
    for row in part.to_dict("records"):
        name = named(row)
        asked = bool(row["delta_label"])
        axes.plot(
            row["cost_relative"], 100 * row[metric], markers[name], label=plain(name), markersize=7 if asked else 9,
            markerfacecolor=DARK if asked else "none", markeredgecolor="white" if asked else DARK, markeredgewidth=0.8,
        )  # fmt: skip
