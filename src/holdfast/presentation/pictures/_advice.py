"""Pictures of recourse: its changes, its cost, and how far its proof reaches. They read in black and white."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast._network import Floats
from holdfast._numbers import at_most
from holdfast._shown import draw
from holdfast.changes import PlausibleChanges
from holdfast.errors import InvalidInputError
from holdfast.generators import Recourse
from holdfast.presentation.pictures._certified import draw_survival, read_deltas
from holdfast.presentation.pictures._drawing import (
    CHOSEN,
    DARK,
    INK,
    LIGHT,
    VERDICTS,
    axes_to_draw_on,
    headline,
    legend_below,
    may_change,
    nothing_to_draw,
    plain,
    stacked_bars,
)
from holdfast.verify import CertifiedRadius, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKS: dict[Verdict | None, dict[str, Any]] = {
    Verdict.ROBUST: {"marker": "o", "color": DARK},
    Verdict.NOT_ROBUST: {
        "marker": "X",
        "color": LIGHT,
        "markeredgecolor": INK,
        "markeredgewidth": 0.5,
    },
    Verdict.UNKNOWN: {"marker": "s", "color": DARK, "markerfacecolor": "white"},
    None: {"marker": "o", "color": DARK},
}

_LABEL_WIDTH = 28

_BARS: dict[str, tuple[str, dict[str, Any]]] = {
    "up": ("raise", {"facecolor": DARK}),
    "down": ("lower", {"facecolor": "white", "hatch": "////"}),
    "other": ("change", {"facecolor": LIGHT}),
}


@draw.register(Recourse)
def draw_recourse(
    recourse: Recourse,
    kind: str,
    ax: Axes | None,
    *,
    radius: Any,
    delta: Any,
    moved: Any,
    most: int,
) -> Axes:
    """See `Recourse.plot`."""
    if kind == "changes":
        return draw_changes(recourse, ax, most)
    if kind not in ("cost", "survival"):
        raise InvalidInputError(f"kind: expected 'changes', 'cost' or 'survival', got {kind!r}")
    delta = recourse.changes if delta is None else delta
    radii = _radii(recourse, radius)
    if kind == "cost":
        return draw_cost(recourse, radii, ax, delta)
    return draw_survival(
        radii, ax, delta=delta, moved=moved, what="pieces of advice", unit=_unit(recourse)
    )


def draw_changes(recourse: Recourse, ax: Axes | None, most: int) -> Axes:
    """A bar for each column: how many people are told to change it, and by how much."""
    drawn = recourse.moves[:most]
    ax = axes_to_draw_on(ax, "a picture of recourse", (7.6, 1.9 + 0.34 * max(len(drawn), 3)))
    answers = int(recourse.found.sum())
    ax.set_xlabel(f"people told to change it, of {answers:,} with advice")
    if not drawn:
        return nothing_to_draw(ax, "no column is to be changed")
    # A label may be a whole sentence: broken into lines, and cut where even these would leave no room for the bars.
    lines = (
        textwrap.wrap(move.label, _LABEL_WIDTH, max_lines=2, placeholder=" …") for move in drawn
    )
    names = [plain("\n".join(own)) for own in lines]
    # Up, down and to another label.
    parts = (
        (label, np.array([getattr(move, name) for move in drawn], dtype=float), style)
        for name, (label, style) in _BARS.items()
    )
    amounts = stacked_bars(ax, names, parts).secondary_yaxis("right")
    amounts.set_yticks(range(len(drawn)), [plain(move.amount) for move in drawn], fontsize="small")
    amounts.tick_params(length=0)
    amounts.spines["right"].set_visible(False)
    ax.annotate(
        "median change (10% to 90%)", (1, 1), (7, 4), xycoords="axes fraction", textcoords="offset points",
        fontsize="small", color=INK, annotation_clip=False,
    )  # fmt: skip
    legend_below(ax, 3)
    more = (
        ""
        if len(drawn) == len(recourse.moves)
        else f", the first {len(drawn)} of {len(recourse.moves)}"
    )
    return headline(ax, f"What people are told to change{more}")


def draw_cost(recourse: Recourse, radii: Floats, ax: Axes | None, delta: Any) -> Axes:
    """The cost of each piece of advice against its certified radius, marked by its verdict."""
    unit = _unit(recourse)
    deltas = read_deltas(delta, unit)
    ax = axes_to_draw_on(ax, "a picture of recourse", (6.4, 4.6))
    ax.set(
        xlabel=f"certified radius: how far {may_change(unit)} with the proof",
        ylabel="cost_l1: mean change of the model's variables",
    )
    costs = recourse.cost_l1[recourse.found]
    verdicts = recourse.verdict[recourse.found]
    drawn = np.isfinite(radii) & np.isfinite(costs)
    if not drawn.any():
        return nothing_to_draw(ax, "no advice to draw")
    for verdict, style in _MARKS.items():
        rows = drawn & np.array([own is verdict for own in verdicts])
        if rows.any():
            label = f"{VERDICTS[verdict] if verdict else 'advice'}: {int(rows.sum()):,}"
            ax.plot(
                radii[rows], costs[rows], linestyle="none", markersize=5.5, label=label, **style
            )
    for value in deltas:
        label = delta.words if isinstance(delta, PlausibleChanges) else f"{unit} = {at_most(value)}"
        ax.axvline(value, color=CHOSEN, linewidth=1.2, linestyle="--", label=label)
    if not drawn.all():
        ax.plot([], [], " ", label=f"{int((~drawn).sum()):,} that no change breaks: not drawn")
    ax.set(xlim=(0, None), ylim=(0, None))
    return headline(legend_below(ax, 3), f"Cost of the advice, and how far {may_change(unit)}")


def _unit(recourse: Recourse) -> str:
    """The unit of the radii of this advice: Δ's own unit, and delta without a Δ."""
    return "delta" if recourse.changes is None else recourse.changes.unit


def _radii(recourse: Recourse, radius: Any) -> Floats:
    """The certified radii of the rows with advice: the caller's, or computed."""
    rows = recourse.answered
    if radius is not None:
        if isinstance(radius, CertifiedRadius):
            if radius.unit != _unit(recourse):
                raise InvalidInputError(
                    f"radius: expected a {_unit(recourse)} for each piece of advice, got a {radius.unit}"
                )
            radius = radius.lower
        given = np.asarray(radius, dtype=np.float64)
        if given.shape not in ((len(recourse),), (rows.size,)):
            raise InvalidInputError(
                f"radius: expected one for each of the {rows.size} pieces of advice or {len(recourse)} rows, "
                f"got {given.shape}"
            )
        return given if given.shape == (rows.size,) else given[rows]
    if recourse.radii.unknown and rows.size:
        return recourse.certified_radius(rows).lower
    return recourse.radii.lower[rows]
