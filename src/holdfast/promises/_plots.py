"""Pictures of promises: kept or broken by a new model, and how long they last. They read in black and white."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast._numbers import share
from holdfast.presentation.pictures._drawing import (
    CHOSEN,
    DARK,
    LIGHT,
    axes_to_draw_on,
    headline,
    legend_below,
    nothing_to_draw,
    percent,
    stacked_bars,
)
from holdfast.promises._audit_result import Audit, Group, Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from holdfast.promises._expiry import Expiry

_BARS: dict[Status, dict[str, Any]] = {
    Status.KEPT_FOR_CERTAIN: {"facecolor": DARK},
    Status.KEPT: {"facecolor": LIGHT},
    Status.BROKEN: {"facecolor": "white", "hatch": "////"},
    Status.UNREADABLE: {"facecolor": "white", "hatch": "...."},
    Status.ERASED: {"facecolor": "white"},
}


def draw_audit(audit: Audit, ax: Axes | None) -> Axes:
    """See `Audit.plot`."""
    ax = axes_to_draw_on(ax, "a picture of an audit", (7.2, 2.1 + 0.55 * max(len(audit.groups), 1)))
    ax.set_xlabel("promises")
    if len(audit) == 0:
        return nothing_to_draw(ax, "no promises to draw")
    parts = []
    for status, style in _BARS.items():
        counts = np.array([group.totals.get(status, 0) for group in audit.groups], dtype=float)
        parts.append((f"{status.words}: {int(counts.sum()):,}", counts, style))
    stacked_bars(ax, [*map(_terms, audit.groups)], parts, fontsize="small")
    return headline(legend_below(ax), audit.words)


def _terms(group: Group) -> str:
    """The Δ of some promises, and how far the new model lies from the model of that day."""
    promised = (
        "not certified" if group.terms.changes is None else f"made for {group.terms.changes.words}"
    )
    moved = (
        f"the model moved by {group.distance:.3g}"
        if math.isfinite(group.distance)
        else "the model was run"
    )
    return f"{promised}\n{moved}"


def draw_expiry(expiry: Expiry, ax: Axes | None) -> Axes:
    """See `Expiry.plot`."""
    ax = axes_to_draw_on(ax, "a picture of how long promises last")
    percent(ax)
    horizon = len(expiry.drift)
    known = expiry.known
    ax.set(xlabel=f"retrainings ahead, one a {expiry.period}", ylabel="promises kept all along")
    if len(expiry.radius) == 0:
        return nothing_to_draw(ax, "no promises to draw")
    ahead = np.arange(known + 1)
    kept = np.array([np.mean(expiry.retrainings >= k) for k in ahead])
    ax.step(ahead, 100 * kept, where="post", color=DARK, linewidth=1, linestyle=(0, (2, 2)))
    ax.plot(ahead, 100 * kept, "o", color=DARK, markersize=6, clip_on=False)
    for k in ahead[1:]:
        ax.annotate(
            share(kept[k]), (k, 100 * kept[k]), (6, 5), textcoords="offset points", fontsize="small",
            annotation_clip=False,
        )  # fmt: skip
    if known < horizon:
        ax.axvspan(
            known + 0.5, horizon + 0.5, facecolor="white", edgecolor=LIGHT, hatch="//", linewidth=0
        )
        ax.axvline(
            known + 0.5, color=CHOSEN, linewidth=1.2, linestyle="--", label="here the history ends"
        )
        legend_below(ax, 1)
    ax.set_xlim(0, horizon + 0.5)
    ax.locator_params(axis="x", integer=True)
    return headline(ax, f"Promises that last, with confidence {100 * expiry.confidence:.4g}%")
