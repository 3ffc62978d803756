"""Figures 4 and 5 of the paper; they read in black and white."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from holdfast.presentation.pictures._drawing import DOTTED, new_figure, tidy
from holdfast.study.paper._printed import Printed
from holdfast.study.paper._results import Results
from holdfast.study.paper._settings import BASELINE, CURVES, DELTA_INC, DELTA_NAMES, DELTA_VAL, NN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DARK, LIGHT, INK = "black", "0.8", "0.35"
MARKERS = {"GCE": ">", "PROTO": "v", "MCE": "<", "ROAR": "o", "RNCE-FF": "P"}
# How often a curve carries its mark, and how far beyond the δ that robust methods were given the picture goes.
STEPS = 5
BEYOND = 1.25


def draw(results: Results, printed: Printed, folder: Path) -> list[Path]:
    """Draw what there are results for: paper-deltas.png and paper-survival.png."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, paint, frame in (
        ("deltas", _deltas, results.distances),
        ("survival", _survival, results.inputs),
    ):
        datasets = list(dict.fromkeys(frame[frame["model"] == NN]["dataset"]))
        if datasets:
            drawn.append(folder / f"paper-{name}.png")
            _panels(datasets, partial(paint, results, printed)).savefig(drawn[-1], dpi=130)
    return drawn


def _panels(datasets: list[str], paint: Callable[[Axes, str], None]) -> Figure:
    """A panel for each data set, two in a row."""
    n_rows = (len(datasets) + 1) // 2
    figure = new_figure(
        "the paper's figures", (11, 3.8 * n_rows), w_pad=0.12, h_pad=0.12, wspace=0.03, hspace=0.03
    )
    grid = figure.subplots(n_rows, 2 if len(datasets) > 1 else 1, squeeze=False).ravel()
    for panel, dataset in zip(grid, datasets, strict=False):
        tidy(panel).set_title(dataset, loc="left", fontweight="bold", fontsize="medium")
        paint(panel, dataset)
    for spare in grid[len(datasets) :]:
        spare.set_visible(False)
    # Where all panels show the same, one legend is enough.
    handles, labels = grid[0].get_legend_handles_labels()
    if grid[0].get_legend() is None:
        figure.legend(
            handles,
            labels,
            loc="outside upper center",
            ncols=len(labels),
            frameon=False,
            fontsize="small",
        )
    return figure


def _deltas(results: Results, printed: Printed, panel: Axes, dataset: str) -> None:
    """The distance to today's model against the share of new rows, with both of our δ and the paper's."""
    nothing_yet = pd.DataFrame({"share": [0.0], "distance": [0.0]})
    distances, calibrated = (
        frame[(frame["model"] == NN) & (frame["dataset"] == dataset)]
        for frame in (results.distances, results.calibrated)
    )
    by_share = pd.concat([nothing_yet, distances[["share", "distance"]]]).groupby("share")[
        "distance"
    ]
    mean = by_share.mean()
    shares = 100 * by_share.mean().index.to_numpy()
    panel.fill_between(
        shares, by_share.min(), by_share.max(), color=LIGHT, linewidth=0, label="least to largest"
    )
    panel.plot(shares, mean, color=DARK, linewidth=1.2, label="mean distance to today's model")
    for block, marker, right in ((DELTA_VAL, "s", 66), (DELTA_INC, "o", 101)):
        # Ours: a filled mark where the curve reaches it. The paper's: a dotted line with its value.
        ours = calibrated[calibrated["block"] == block]["delta"].mean()
        text = DELTA_NAMES[block]
        if not np.isnan(ours):
            at = float(np.interp(ours, mean, shares)) if block == DELTA_VAL else 10.0
            panel.plot(
                [at], [ours], marker, color=DARK, markersize=7, label=f"{text} = {ours:.3g}, ours"
            )
        paper = printed.delta_used(NN, dataset, block)
        if paper is not None:
            panel.axhline(paper, color=INK, linewidth=0.9, linestyle=DOTTED)
            panel.annotate(
                f"{text} of the paper {paper:g}", (right, paper), (0, 2), textcoords="offset points", fontsize="small",
                color=INK, ha="right", va="bottom", bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            )  # fmt: skip
    # Room for the legend above the curve.
    panel.set(xlim=(0, 102), ylim=(0, 1.5 * distances["distance"].max()), ylabel="δ")
    panel.set_xlabel("% of the second half that the model is trained on with")
    panel.legend(loc="upper left", frameon=False, fontsize="small")


def _survival(results: Results, printed: Printed, panel: Axes, dataset: str) -> None:
    """The share of answers whose certified radius exceeds δ.

    Baselines dashed with hollow marks, robust methods solid with filled ones; a mark for each kind. Many curves lie on
    top of each other, at 100% or at 0%: each has its marks at places of its own.
    """
    largest = printed.delta_used(NN, dataset, DELTA_INC) or 0.1
    deltas = np.linspace(0.0, BEYOND * largest, 401)
    every = len(deltas) // STEPS
    for place, method in enumerate(CURVES):
        robust = method.endswith("-R") or method == "RNCE-FF"
        rows = results.cell(NN, dataset, DELTA_INC if robust else BASELINE, method)
        radii = np.sort(rows[rows["found"].astype(bool)]["radius"].to_numpy(dtype=float))
        if radii.size:
            panel.plot(
                deltas, 100 * (1 - np.searchsorted(radii, deltas) / radii.size), color=DARK if robust else INK,
                linewidth=1.3 if robust else 1.0, linestyle="-" if robust else (0, (4, 2)),
                marker=MARKERS[method.removesuffix("-R")], markersize=6.5, markerfacecolor=DARK if robust else "white",
                markevery=(int((0.1 + place / len(CURVES)) * every), every), label=method,
            )  # fmt: skip
    for block, text in DELTA_NAMES.items():
        delta = printed.delta_used(NN, dataset, block)
        if delta is not None:
            panel.axvline(delta, color=INK, linewidth=0.9, linestyle=DOTTED)
            panel.annotate(
                text, (delta, 103), ha="center", fontsize="small", color=INK, annotation_clip=False
            )
    panel.set(xlabel="δ: how far each parameter may move", ylabel="share proven")
    panel.set(xlim=(0, BEYOND * largest), ylim=(-3, 103))
    panel.yaxis.set_major_formatter("{x:.0f}%")
