"""What the plots have in common: their two sizes, how a method looks, and where delta is drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from holdfast.network import Floats
from holdfast.presentation.report.contents import Contents
from holdfast.presentation.report.numbers import count, delta
from holdfast.presentation.report.svg import DASHES, SHAPES, Canvas, Scale, element, joined, mark

WIDE = Canvas(760, 400, left=52, right=24, top=52, bottom=48, narrow=False)
NARROW = Canvas(358, 330, left=44, right=14, top=52, bottom=46, narrow=True)


@dataclass(frozen=True)
class Plot:
    """A plot in both its sizes, and the table that says the same in numbers."""

    drawings: Markup
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str
    note: str = ""


@dataclass(frozen=True)
class Look:
    """How a method is drawn: its dash and its mark; the first is the one whose advice was given."""

    number: int

    @property
    def dash(self) -> str | None:
        """The pattern of the line."""
        return DASHES[self.number % len(DASHES)] or None

    @property
    def shape(self) -> str:
        """The shape of the mark."""
        return SHAPES[self.number % len(SHAPES)]

    @property
    def given(self) -> str:
        """The class that colours it."""
        return "first" if self.number == 0 else "other"

    def mark(self, x: float, y: float, size: float = 4.5, tip: str | None = None) -> Markup:
        """Its mark at a place."""
        hollow = "" if self.shape in ("circle", "square", "triangle", "diamond") else " hollow"
        return mark(self.shape, x, y, size, f"mark {self.given}{hollow}", tip)

    def sample(self) -> Markup:
        """A bit of line with a mark, for the legend."""
        line = element("line", class_=f"curve {self.given}", x1=1, x2=39, y1=8, y2=8, stroke_dasharray=self.dash)
        return element(
            "svg", line, self.mark(20, 8), width=40, height=16, viewBox="0 0 40 16", aria_hidden="true", class_="sample"
        )


def delta_lines(contents: Contents, x: Scale, y: Scale) -> Markup:
    """Upright lines at delta and at the calibrated delta, with their names above the plot."""
    lines: list[tuple[float, str, str]] = []
    if contents.delta is not None:
        largest = "" if contents.least_delta is None else "largest "
        lines.append((contents.delta, f"{largest}{contents.symbol} = {delta(contents.delta)}", "promised"))
    if contents.calibrated is not None:
        value = contents.calibrated.delta
        if contents.delta is not None and value <= contents.delta and delta(value) == delta(contents.delta):
            lines = [(contents.delta, f"{lines[0][1]}, as calibrated", "promised")]
        else:
            lines.append((value, f"calibrated δ = {delta(value)}", "calibrated"))
    parts = []
    for (value, text, style), (flip, row) in zip(sorted(lines), _sides(sorted(lines), x), strict=True):
        place, height = x(value), y.end - 8 - 16 * row
        parts.append(element("line", class_=f"limit {style}", x1=place, x2=place, y1=height - 9, y2=y.start))
        anchor = "end" if flip else "start"
        parts.append(
            element("text", text, class_="label halo", x=place + (-5 if flip else 5), y=height, text_anchor=anchor)
        )
    return joined(parts)


def _sides(lines: list[tuple[float, str, str]], x: Scale) -> list[tuple[bool, int]]:
    """For each name whether it stands left of its line, and in which row above the plot: no name crosses a line."""
    widths = [7.4 * len(text) + 8 for _, text, _ in lines]
    beyond = [x(value) + width > x.end + 20 for (value, *_), width in zip(lines, widths, strict=True)]
    if len(lines) < 2:
        return [(flip, 0) for flip in beyond]
    if not beyond[1] and x(lines[0][0]) - widths[0] > x.start - 20:
        return [(True, 0), (False, 0)]
    return [(True, 0), (True, 1)] if beyond[1] else [(False, 1), (False, 0)]


def marked_deltas(contents: Contents) -> list[float]:
    calibrated = [] if contents.calibrated is None else [contents.calibrated.delta]
    return sorted({*([] if contents.delta is None else [contents.delta]), *calibrated})


def numbers_of(values: tuple[float | None, ...]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def reach_of(values: Floats) -> float:
    """Where an axis ends: at the largest value, unless a few lie far beyond the others."""
    if not values.size:
        return 0.0
    usual = 1.5 * float(np.quantile(values, 0.98))
    return min(float(values.max()), usual) if usual > 0 else float(values.max())


def people_in_words(people: int) -> str:
    return f"{count(people)} {'person' if people == 1 else 'people'}"


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
