"""Pictures of how delta was chosen, and how the setting of a risk."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from holdfast._numbers import share
from holdfast._shown import draw
from holdfast.calibration import (
    CalibratedDelta,
    CalibratedRisk,
    ChosenDelta,
    IncrementalDelta,
    ValidationDelta,
)
from holdfast.calibration._incremental import in_words
from holdfast.presentation.pictures._drawing import (
    CHOSEN,
    DARK,
    INK,
    LIGHT,
    axes_to_draw_on,
    headline,
    legend_below,
    panel_below,
    percent,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PURPOSE = "a picture of how delta was chosen"


@draw.register(IncrementalDelta)
def draw_incremental(
    chosen: IncrementalDelta, ax: Axes | None, also: Iterable[ChosenDelta]
) -> Axes:
    """See `IncrementalDelta.plot`."""
    ax = axes_to_draw_on(ax, _PURPOSE)
    curve = chosen.curve()
    ax.plot(
        100 * chosen.evidence["share"], chosen.evidence["distance"], "o", color=LIGHT, markersize=3
    )
    ax.plot(100 * curve.index, curve, color=DARK, label=f"{in_words(chosen.statistic)} distance")
    label = f"chosen at {100 * chosen.share:.3g}%: {chosen.shown}"
    ax.plot([100 * chosen.share], [float(chosen)], "o", color=CHOSEN, markersize=7, label=label)
    for style, other in zip(("--", ":", "-."), also, strict=False):
        ax.axhline(
            float(other),
            color=INK,
            linestyle=style,
            linewidth=1,
            label=f"{other.name}: {other.shown}",
        )
    ax.set(
        xlabel="% of the new data that retraining sees",
        ylabel="delta: distance from today's parameters",
        xlim=(0, None),
        ylim=(0, None),
    )
    return headline(legend_below(ax), f"How far updates move the model: delta {chosen.shown}")


@draw.register(ValidationDelta)
def draw_validation(chosen: ValidationDelta, ax: Axes | None) -> Axes:
    """See `ValidationDelta.plot`."""
    ax = axes_to_draw_on(ax, _PURPOSE)
    deltas = chosen.evidence["delta"]
    ax.plot(
        deltas,
        100 * chosen.evidence["validity"],
        "o-",
        color=DARK,
        label="advice that every model accepts",
    )
    ax.plot(
        deltas,
        100 * chosen.evidence["coverage"],
        "s--",
        color=INK,
        mfc="white",
        label="people with advice",
    )
    if chosen.reached:
        ax.axvline(float(chosen), color=CHOSEN, label=f"{chosen.name}: {chosen.shown}")
    ax.set(xlabel="delta that advice is made for", ylabel="%", xscale="log", ylim=(0, 103))
    chose = f"delta {chosen.shown}" if chosen.reached else "no delta reaches the share asked for"
    return headline(legend_below(ax), f"Advice that retrained models accept: {chose}")


@draw.register(CalibratedDelta)
def draw_calibrated(chosen: CalibratedDelta, ax: Axes | None) -> Axes:
    """See `CalibratedDelta.plot`."""
    ax = axes_to_draw_on(ax, _PURPOSE)
    measure = "distance from today's parameters"
    lines = {"distance": float(chosen)}
    if isinstance(chosen.biases, tuple):
        measure = "largest move relative to its parameter's radius"
        lines = {"ratio": 1.0}
    elif isinstance(chosen.delta, tuple):
        lines = {f"layer_{i + 1}": radius for i, radius in enumerate(map(float, chosen.delta))}
    for (column, radius), style in zip(lines.items(), cycle(("-", "--", ":", "-.")), strict=False):
        distances = np.sort(chosen.evidence[column].to_numpy())
        within = np.linspace(0, 100, distances.size + 1)
        ax.step(np.append(0.0, distances), within, where="post", color=DARK, linestyle=style)
        name = column.replace("_", " ") if column.startswith("layer") else chosen.name
        ax.axvline(radius, color=CHOSEN, linestyle=style, label=f"{name}: {radius:.3g}")
    ax.axhline(100 * chosen.coverage, color=INK, linestyle=(0, (1, 3)), linewidth=1)
    ax.set(xlabel=measure, ylabel="% of retrainings", xlim=(0, None), ylim=(0, 103))
    share_of = f"{chosen.rank:,} of {chosen.n_ranked:,} retrainings stay within delta"
    return headline(legend_below(ax), share_of)


@draw.register(CalibratedRisk)
def draw_risk(chosen: CalibratedRisk, ax: Axes | None) -> Axes:
    """See `CalibratedRisk.plot`."""
    ax = axes_to_draw_on(ax, "a picture of how the setting was chosen", (6.4, 5.6))
    # Settings far beyond the chosen one are left out.
    near = (
        (chosen.evidence["setting"] <= 3.0 * chosen.size).to_numpy()
        if chosen.size > 0.0
        else slice(None)
    )
    rows = chosen.evidence[near]
    losses = 100 * chosen.losses[:, near]
    each = ax.plot(rows["setting"], losses.T, color=LIGHT, linewidth=0.6)
    each[0].set_label("broken, by each retrained model")
    ax.plot(
        rows["setting"],
        100 * rows["loss"],
        "o-",
        color=DARK,
        ms=3,
        label="broken, mean of the models",
    )
    ax.axhline(
        100 * chosen.broken,
        color=INK,
        linestyle="--",
        linewidth=1,
        label=f"asked for: {share(chosen.broken)}",
    )
    if chosen.reached:
        ax.axvline(chosen.size, color=CHOSEN, label=f"chosen: {chosen.size:.3g}")
    percent(ax)
    most = min(100.0, 1.1 * max(200 * chosen.broken, float(np.nanmax(losses))))
    ax.set(ylabel="promises broken", ylim=(0, most))
    ax.locator_params(axis="y", integer=True)
    ax.tick_params(labelbottom=False)
    # The cost has a panel of its own, so that its line crosses no share.
    below = panel_below(ax)
    below.plot(rows["setting"], rows["times"], color=DARK)
    if chosen.reached:
        below.axvline(chosen.size, color=CHOSEN)
    dearest = float(np.nanmax([2.0, *rows["times"]]))
    below.set(
        xlabel=f"{chosen.unit} that promises are made for",
        ylabel="cost, times\nthe least",
        ylim=(0, 1.1 * dearest),
    )
    legend_below(ax, on=below)
    if not chosen.reached:
        return headline(ax, "Promises that retrained models break: more than asked for")
    loss = share(float(chosen.evidence["loss"][chosen.evidence["setting"] == chosen.size].max()))
    return headline(
        ax, f"At {chosen.unit} {chosen.size:.3g}, retrained models break {loss} of the promises"
    )
