"""The few things a plot is made of: elements whose texts are escaped, scales, ticks, axes, marks.

A plot is drawn twice, wide and narrow, so that its letters stay readable on a telephone; the style sheet shows one of
them. Colours and weights are classes of the style sheet, so that paper, dark screens and bright ones all read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10

from markupsafe import Markup, escape

from holdfast.presentation.report.numbers import figure

# Marks and dashes tell the methods apart, in this order; then the combinations go on.
SHAPES = ("circle", "square", "triangle", "diamond", "plus", "cross", "ring", "box")
DASHES = ("", "7 4", "2 3", "9 3 2 3")


def element(tag: str, *inside: Markup | str, **attributes: object) -> Markup:
    """One element; everything that is not `Markup` is escaped, attributes that are None are left out.

    >>> element("text", "a < b", x=1.25, class_="axis", text_anchor="end")
    Markup('<text x="1.2" class="axis" text-anchor="end">a &lt; b</text>')
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{written}>{''.join(escape(part) for part in inside)}</{tag}>")


def _attribute(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return escape(value)


def joined(parts: Sequence[Markup]) -> Markup:
    """Elements one after the other."""
    return Markup("").join(parts)


@dataclass(frozen=True)
class Scale:
    """A straight line from values to places."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where a value lies; one outside lies on the edge.

        >>> Scale(0, 10, 100, 200)(5), Scale(0, 10, 100, 200)(99)
        (150.0, 200.0)
        """
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, about: int, whole: bool = False) -> list[float]:
        """Round numbers within the scale, roughly so many; `whole` ones where they count something.

        >>> Scale(0, 0.013, 0, 1).ticks(6)
        [0.0, 0.0025, 0.005, 0.0075, 0.01, 0.0125]
        """
        rough = (self.high - self.low) / about
        power = 10.0 ** floor(log10(rough))
        step = next(step for step in (1, 2, 2.5, 5, 10) if step * power >= rough * 0.99) * power
        step = max(float(round(step)), 1.0) if whole else step
        first, last = -floor(-self.low / step + 1e-9), floor(self.high / step + 1e-9)
        return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


@dataclass(frozen=True)
class Canvas:
    """The size of a drawing and the margins around its plot; `narrow` is the one for telephones."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    narrow: bool

    def across(self, low: float, high: float) -> Scale:
        """The scale from left to right."""
        return Scale(low, high, self.left, self.width - self.right)

    def up(self, low: float, high: float) -> Scale:
        """The scale from bottom to top."""
        return Scale(low, high, self.height - self.bottom, self.top)

    @property
    def ending(self) -> str:
        """What makes this drawing's ids its own."""
        return "narrow" if self.narrow else "wide"


def drawing(canvas: Canvas, name: str, title: str, description: str, *inside: Markup) -> Markup:
    """The svg element, with the title and the description that a screen reader says."""
    ids = [f"{name}-{what}-{canvas.ending}" for what in ("title", "description")]
    return element(
        "svg",
        element("title", title, id=ids[0]),
        element("desc", description, id=ids[1]),
        *inside,
        viewBox=f"0 0 {canvas.width} {canvas.height}",
        class_=f"drawing {canvas.ending}",
        role="img",
        aria_labelledby=" ".join(ids),
    )


def axes(
    canvas: Canvas, x: Scale, y: Scale, x_title: str, y_title: str, percent: bool = False, whole: bool = False
) -> Markup:
    """Faint lines across, numbers on both axes; the title of the upright one lies flat above it."""
    parts = []
    for tick in y.ticks(4 if canvas.narrow else 5, whole):
        at = y(tick)
        parts.append(element("line", class_="rule", x1=x.start, x2=x.end, y1=at, y2=at))
        text = f"{100 * tick:.0f}%" if percent else figure(tick)
        parts.append(element("text", text, class_="tick", x=x.start - 8, y=at + 4, text_anchor="end"))
    for tick in x.ticks(4 if canvas.narrow else 7):
        parts.append(element("line", class_="axis", x1=x(tick), x2=x(tick), y1=y.start, y2=y.start + 5))
        parts.append(element("text", figure(tick), class_="tick", x=x(tick), y=y.start + 19, text_anchor="middle"))
    parts.append(element("line", class_="axis", x1=x.start, x2=x.end, y1=y.start, y2=y.start))
    parts.append(element("text", y_title, class_="title", x=0, y=14))
    parts.append(element("text", x_title, class_="title", x=x.end, y=canvas.height - 4, text_anchor="end"))
    return joined(parts)


def mark(shape: str, x: float, y: float, size: float, class_: str, tip: str | None = None, **more: object) -> Markup:
    """A mark of a shape around a place; its tip is shown to pointers and to the keyboard."""
    attributes = {"class_": class_, "data_tip": tip, **more}
    if shape in ("circle", "ring"):
        return element("circle", cx=x, cy=y, r=size, **attributes)
    s = {"plus": 1.2, "cross": 1.0, "triangle": 1.2, "diamond": 1.3}.get(shape, 0.9) * size
    if shape in ("square", "box"):
        return element("rect", x=x - s, y=y - s, width=2 * s, height=2 * s, **attributes)
    corners = {
        "triangle": f"M{x:.1f} {y - s:.1f}L{x + s:.1f} {y + 0.8 * s:.1f}H{x - s:.1f}Z",
        "diamond": f"M{x:.1f} {y - s:.1f}L{x + s:.1f} {y:.1f}L{x:.1f} {y + s:.1f}L{x - s:.1f} {y:.1f}Z",
        "plus": f"M{x - s:.1f} {y:.1f}H{x + s:.1f}M{x:.1f} {y - s:.1f}V{y + s:.1f}",
        "cross": f"M{x - s:.1f} {y - s:.1f}L{x + s:.1f} {y + s:.1f}M{x - s:.1f} {y + s:.1f}L{x + s:.1f} {y - s:.1f}",
    }
    return element("path", d=corners[shape], **attributes)


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Heights for labels, each as near as it can be to where it is wanted, `gap` apart and within the frame.

    >>> spread([10, 12, 50], 15, 0, 100)
    [10.0, 25.0, 50.0]
    >>> spread([95, 96], 15, 0, 100)
    [85.0, 100.0]
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    places = [0.0] * len(wanted)
    least = low
    for i in order:
        places[i] = max(float(wanted[i]), least)
        least = places[i] + gap
    most = float(high)
    for i in reversed(order):
        places[i] = min(places[i], most)
        most = places[i] - gap
    return places
