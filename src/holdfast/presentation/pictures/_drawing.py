"""What every picture shares: where to draw, and how it looks. Pictures read in black and white.

matplotlib is an extra and is imported when something is drawn. Axes of the caller are returned, and pyplot is left
alone; new axes belong to pyplot, so that a notebook, or ``pyplot.show()``, shows them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast._network import Floats
from holdfast.errors import MissingExtraError
from holdfast.verify import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Lines and marks; what is told apart by its shade is told apart by its shape or dashes too.
DARK, INK, LIGHT, CHOSEN = "black", "0.25", "0.65", "#c00000"
DOTTED = (0, (1, 2))
# The verdicts as people read them.
VERDICTS = {
    Verdict.ROBUST: "proven",
    Verdict.NOT_ROBUST: "can be broken",
    Verdict.UNKNOWN: "undecided",
}
_SIZE = (6.4, 4.0)
# Height of a lower panel and of the gap above it, in inches.
_PANEL, _GAP = 0.9, 0.25
# Letters of a headline in a line.
_LINE = 70


def new_figure(
    purpose: str, size: tuple[float, float], *, shown: bool = False, **pads: Any
) -> Figure:
    """An empty figure that makes room for what is put on it; pyplot's if it is to be `shown`, else for a file only.

    `pads` are matplotlib's ``w_pad``, ``h_pad``, ``wspace`` and ``hspace``.
    """
    try:
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        layout = ConstrainedLayoutEngine(**pads)
        if shown:
            from matplotlib import pyplot

            return pyplot.figure(figsize=size, layout=layout)
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", purpose) from error
    return Figure(figsize=size, layout=layout)


def axes_to_draw_on(ax: Axes | None, purpose: str, size: tuple[float, float] = _SIZE) -> Axes:
    """The caller's axes, or new ones of pyplot's."""
    return tidy(new_figure(purpose, size, shown=True).subplots() if ax is None else ax)


def tidy(ax: Axes) -> Axes:
    """Without the frame's upper and right side."""
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def headline(ax: Axes, text: str) -> Axes:
    """The message of the picture, above its left end, in as many lines as it takes."""
    ax.set_title(
        textwrap.fill(text, _LINE), loc="left", fontweight="bold", fontsize="medium", pad=12
    )
    return ax


def percent(ax: Axes) -> None:
    """The vertical axis from 0% to 100%."""
    ax.set_ylim(0, 100)
    ax.yaxis.set_major_formatter("{x:.0f}%")


def legend_below(ax: Axes, columns: int = 2, on: Axes | None = None) -> Axes:
    """A legend under the horizontal axis, or under that of the axes `on`; none if there is nothing to explain."""
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        (on or ax).legend(
            handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), borderaxespad=4.2, ncols=columns,
            frameon=False, fontsize="small", handlelength=1.6,
        )  # fmt: skip
    return ax


def panel_below(ax: Axes) -> Axes:
    """Lower axes with the same horizontal axis: a panel of a fixed height, so that the layout makes room for it."""
    from matplotlib.transforms import Bbox

    def place(_: Any, renderer: Any) -> Bbox:
        box = ax.get_position()
        height = ax.figure.bbox.height / ax.figure.get_dpi()
        low = box.y0 - (_PANEL + _GAP) / height
        return Bbox.from_bounds(box.x0, low, box.width, _PANEL / height)

    panel = tidy(ax.inset_axes((0.0, 0.0, 1.0, 1.0), sharex=ax))
    panel.set_axes_locator(place)
    return panel


def stacked_bars(
    ax: Axes, names: Sequence[str], parts: Iterable[tuple[str, Floats, dict[str, Any]]], **text: Any
) -> Axes:
    """A bar for each name, its parts (label, counts, style) end to end."""
    places = np.arange(len(names))
    left = np.zeros(len(names))
    for label, counts, style in parts:
        if counts.any():
            ax.barh(
                places, counts, 0.62, left=left, label=label, edgecolor=DARK, linewidth=0.8, **style
            )
        left += counts
    ax.set_yticks(places, names, **text)
    ax.set(ylim=(len(names) - 0.4, -0.6), xlim=(0, 1.02 * left.max()))
    ax.locator_params(axis="x", integer=True)
    return ax


def may_change(unit: str) -> str:
    """The change that Δ allows, by the unit of its size: the end of "how far ..." and of "the further ..."."""
    free = {"margin": "the margin may fall", "factor": "the radii of Δ may grow"}
    return free.get(unit, "the parameters may move")


def nothing_to_draw(ax: Axes, text: str) -> Axes:
    """Axes that say why they are empty."""
    ax.set(xticks=[], yticks=[])
    ax.text(0.5, 0.5, text, ha="center", va="center", color=INK, transform=ax.transAxes)
    return ax


def plain(text: object) -> str:
    """A name as it is written: matplotlib would typeset the text between two dollar signs."""
    return str(text).replace("$", r"\$")
