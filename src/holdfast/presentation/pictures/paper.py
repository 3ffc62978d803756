"""Figures 4 and 5 of the paper; they read in black and white."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from holdfast.presentation.pictures.drawing import new_figure, tidy
from holdfast.study.paper.printed import Printed
from holdfast.study.paper.results import Results
from holdfast.study.paper.settings import BASELINE, CURVES, DELTA_INC, DELTA_VAL, NN, TARGETS

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
            figure = paint(results, printed, datasets)
            drawn.append(folder / f"paper-{name}.png")
            figure.savefig(drawn[-1], dpi=130)
    return drawn


def _panels(datasets: list[str], height: float) -> tuple[Figure, list[Axes]]:
    """Two panels in a row."""
    n_rows = (len(datasets) + 1) // 2
    figure = new_figure("the paper's figures", (11, height * n_rows), w_pad=0.12, h_pad=0.12, wspace=0.03, hspace=0.03)
    axes = np.atleast_1d(figure.subplots(n_rows, 2 if len(datasets) > 1 else 1)).ravel().tolist()
    for spare in axes[len(datasets) :]:
        spare.set_visible(False)
    for panel, dataset in zip(axes, datasets, strict=False):
        tidy(panel).set_title(dataset, loc="left", fontweight="bold", fontsize="medium")
    return figure, axes


def _deltas(results: Results, printed: Printed, datasets: list[str]) -> Figure:
    """The distance to today's model against the share of new rows, with both of our δ and the paper's."""
    figure, axes = _panels(datasets, 3.6)
    for panel, dataset in zip(axes, datasets, strict=False):
        nothing_yet = pd.DataFrame({"share": [0.0], "distance": [0.0]})
        frame = pd.concat([nothing_yet, _of(results.distances, dataset)[["share", "distance"]]])
        by_share = frame.groupby("share")["distance"]
        shares, mean = by_share.mean().index.to_numpy(), by_share.mean().to_numpy()
        panel.fill_between(
            100 * shares, by_share.min(), by_share.max(), color=LIGHT, linewidth=0, label="least to largest"
        )
        panel.plot(100 * shares, mean, color=DARK, linewidth=1.2, label="mean distance to today's model")
        for block, marker, text in ((DELTA_VAL, "s", "δ_val"), (DELTA_INC, "o", "δ_inc")):
            _mark_delta(panel, results, printed, dataset, block, marker, text, shares, mean)
        panel.set_xlim(0, 102)
        # Room for the legend above the curve.
        panel.set_ylim(0, 1.5 * frame["distance"].max())
        panel.set_xlabel("% of the second half that the model is trained on with")
        panel.set_ylabel("δ")
        panel.legend(loc="upper left", frameon=False, fontsize="small")
    return figure


def _mark_delta(
    panel: Axes, results: Results, printed: Printed, dataset: str, block: Any, marker: str, text: str,
    shares: Any, mean: Any,
) -> None:  # fmt: skip
    """Ours: a filled mark where the curve reaches it. The paper's: a dotted line with its value."""
    frame = _of(results.calibrated, dataset)
    ours = frame[frame["block"] == block]["delta"].mean()
    if not np.isnan(ours):
        at = 100 * float(np.interp(ours, mean, shares)) if block == DELTA_VAL else 10.0
        panel.plot([at], [ours], marker, color=DARK, markersize=7, label=f"{text} = {ours:.3g}, ours")
    paper = printed.delta_used(NN, dataset, block)
    if paper is not None:
        panel.axhline(paper, color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
        panel.annotate(
            f"{text} of the paper {paper:g}", (101 if block == DELTA_INC else 66, paper), (0, 2),
            textcoords="offset points", fontsize="small", color=INK, ha="right", va="bottom",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )  # fmt: skip


def _survival(results: Results, printed: Printed, datasets: list[str]) -> Figure:
    """The share of answers whose certified radius exceeds δ."""
    figure, axes = _panels(datasets, 3.9)
    for panel, dataset in zip(axes, datasets, strict=False):
        largest = printed.delta_used(NN, dataset, DELTA_INC) or 0.1
        deltas = np.linspace(0.0, BEYOND * largest, 401)
        for place, method in enumerate(CURVES):
            robust = method.endswith("-R") or method == "RNCE-FF"
            rows = results.cell(NN, dataset, DELTA_INC if robust else BASELINE, method)
            radii = rows[rows["found"].astype(bool)]["radius"].to_numpy(dtype=float)
            if radii.size:
                share = np.array([np.mean(radii >= delta) for delta in deltas])
                _curve(panel, method, robust, deltas, share, place / len(CURVES))
        for block, text in zip(TARGETS, ("δ_val", "δ_inc"), strict=True):
            delta = printed.delta_used(NN, dataset, block)
            if delta is not None:
                panel.axvline(delta, color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
                panel.annotate(text, (delta, 103), ha="center", fontsize="small", color=INK, annotation_clip=False)
        panel.set_xlim(0, BEYOND * largest)
        panel.set_ylim(-3, 103)
        panel.yaxis.set_major_formatter("{x:.0f}%")
        panel.set_xlabel("δ: how far each parameter may move")
        panel.set_ylabel("provably survive")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize="small")
    return figure


def _curve(panel: Axes, method: str, robust: bool, deltas: Any, share: Any, shift: float) -> None:
    """Baselines dashed with hollow marks, robust methods solid with filled ones; a mark for each kind.

    Many curves lie on top of each other, at 100% or at 0%: each has its marks at places of its own.
    """
    every = len(deltas) // STEPS
    panel.plot(
        deltas, 100 * share, color=DARK if robust else INK, linewidth=1.3 if robust else 1.0,
        linestyle="-" if robust else (0, (4, 2)), marker=MARKERS[method.removesuffix("-R")],
        markevery=(int((0.1 + shift) * every), every), markersize=6.5,
        markerfacecolor=DARK if robust else "white", label=method,
    )  # fmt: skip


def _of(frame: pd.DataFrame, dataset: str) -> pd.DataFrame:
    return frame[(frame["model"] == NN) & (frame["dataset"] == dataset)]
