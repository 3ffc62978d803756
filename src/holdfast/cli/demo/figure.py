"""The demo's picture; it reads in black and white."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from holdfast.changes import PlausibleChanges
from holdfast.generators import Recourse
from holdfast.network import Floats
from holdfast.presentation.drawing import DARK, INK, headline, new_figure, percent, tidy
from holdfast.verify import output_bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Two hundred broken promises side by side must not outweigh the ones that survive.
LIGHT = "0.75"


def draw(promises: Recourse, radius: Floats, moved: Floats, delta: float, path: Path) -> None:
    """Left: every promise, today and in the worst case. Right: for every delta, the share that survives; below it how
    far the updates moved that delta was calibrated on.
    """
    figure = new_figure("the demo's picture", (11, 4.8), w_pad=0.15, h_pad=0.1, wspace=0.04)
    left, right = figure.subplots(1, 2, width_ratios=[1.35, 1])
    for axes in (left, right):
        percent(tidy(axes))
    _every_promise(left, promises, delta)
    _survival(right, radius, moved, delta)
    figure.savefig(path, dpi=150)


def _every_promise(axes: Axes, promises: Recourse, delta: float) -> None:
    """One vertical line per promise, from today's probability down to the least over Δ, the worst first."""
    margin = output_bounds(promises.network, promises.points, PlausibleChanges(delta)).lower[:, 0]
    order = np.argsort(margin)
    today = _probability(promises.network.logits(promises.points)[order, 0])
    worst, robust = _probability(margin[order]), promises.robust[order]
    rank = np.arange(1, len(order) + 1)
    axes.vlines(rank[~robust], worst[~robust], today[~robust], color=LIGHT, linewidth=1.3, label="can be broken")
    axes.vlines(rank[robust], worst[robust], today[robust], color=DARK, linewidth=1.3, label="provably survives")
    axes.plot(rank, today, "o", color=DARK, markersize=2, label="today's model")
    axes.plot(rank, worst, "_", color=DARK, markersize=3, label="worst model within delta")
    axes.axhline(50, color=DARK, linewidth=1)
    axes.text(len(order), 49, "rejected", va="top", ha="right", color=INK)
    axes.set_xlim(0, len(order) + 1)
    axes.set_xlabel("one line for each promise, the most fragile first")
    axes.set_ylabel("probability of acceptance")
    axes.legend(loc="lower right", frameon=False, fontsize="small", ncols=2, handlelength=1.2)
    headline(axes, f"{robust.sum()} of {len(order)} promises survive every model within delta = {delta:g}")


def _survival(axes: Axes, radius: Floats, moved: Floats, delta: float) -> None:
    """The share of promises whose certified radius exceeds delta: one curve that answers for every delta at once."""
    radius = np.sort(radius)
    share = 100 * (1 - np.arange(1, len(radius) + 1) / len(radius))
    axes.step(np.append(0.0, radius), np.append(100.0, share), where="post", color=DARK)
    for size in (delta / 2, delta, 2 * delta):
        survive = 100 * float(np.mean(radius > size))
        axes.plot([size, size], [0, survive], color=INK, linewidth=1, linestyle=(0, (2, 2)))
        axes.plot([size], [survive], "o", color=DARK, markersize=5)
        axes.annotate(f"{size:g}: {survive:.0f}%", (size, survive), (7, 3), textcoords="offset points", va="bottom")
    axes.set_xlim(0, max(2.5 * delta, 1.1 * moved.max()))
    axes.plot(moved, np.full(moved.shape, 4.0), "|", color=DARK, markersize=13, markeredgewidth=1.2, clip_on=False)
    words = f"how far {len(moved)} updates\nmoved the model"
    axes.annotate(words, (moved.max(), 4), (7, 0), textcoords="offset points", va="center", color=INK, fontsize="small")
    axes.set_xlabel("delta: how far each parameter may move")
    axes.set_ylabel("promises that provably survive")
    headline(axes, "The further it may move, the fewer survive")


def _probability(margin: Floats) -> Floats:
    return np.asarray(100 / (1 + np.exp(-margin)))
