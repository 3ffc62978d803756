"""The certified radii, counted."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from holdfast.network import Floats
from holdfast.presentation.drawing import may_change
from holdfast.presentation.report.contents import Contents
from holdfast.presentation.report.numbers import count, delta, part_of, radius
from holdfast.presentation.report.plots import (
    NARROW,
    WIDE,
    Plot,
    delta_lines,
    marked_deltas,
    numbers_of,
    people_in_words,
    reach_of,
)
from holdfast.presentation.report.svg import Scale, axes, drawing, element, joined

_BINS = 36


def histogram(contents: Contents) -> Plot | None:
    """How many people have which certified radius, with delta marked; None where no radius is known."""
    if not contents.methods:
        return None
    values = numbers_of(contents.methods[0].radii)
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    marked = marked_deltas(contents)
    reach = max(reach_of(values), 1.15 * max(marked, default=0.0), 1e-12)
    edges = _edges(reach, contents.delta)
    inside = np.minimum(values, edges[-1])
    counts, _ = np.histogram(inside, bins=edges)
    limit = contents.delta
    safe = counts if limit is None else np.histogram(inside[values > limit], bins=edges)[0]
    more = int(np.sum(values > edges[-1]))
    title = f"How far {may_change(contents.unit)} before the advice fails, {count(values.size)} people"
    description = f"Median radius {radius(float(np.median(values)))}" + (
        f"; {part_of(int(np.sum(values > limit)), values.size)} lie above {contents.symbol} = {delta(limit)}"
        if limit is not None
        else ""
    )
    drawings = []
    for canvas in (WIDE, NARROW):
        x, y = canvas.across(0, float(edges[-1])), canvas.up(0, 1.08 * float(counts.max()))
        parts = [axes(canvas, x, y, "certified radius", "people", whole=True)]
        for low, high, many, above in zip(edges[:-1], edges[1:], counts, safe, strict=True):
            parts += _bar(x, y, float(low), float(high), int(many), int(above), high == edges[-1] and more > 0)
        parts.append(delta_lines(contents, x, y))
        drawings.append(drawing(canvas, "radii", title, description, *parts))
    rows = tuple(
        (f"{_edge(low)} to {_edge(high)}", count(int(many)), part_of(int(many), values.size))
        for low, high, many in zip(edges[:-1], edges[1:], counts, strict=True)
    )
    if more:
        rows = (*rows[:-1], (f"{_edge(edges[-2])} or more", *rows[-1][1:]))
    note = f"The last bar holds {count(more)} whose radius is larger still." if more else ""
    return Plot(joined(drawings), ("radius", "people", "share"), rows, "People by certified radius", note)


def _bar(x: Scale, y: Scale, low: float, high: float, many: int, above: int, last: bool) -> list[Markup]:
    """One bar: full where the radius exceeds delta, striped where it does not."""
    if not many:
        return []
    span = f"radius {_edge(low)} or more" if last else f"radius {_edge(low)} to {_edge(high)}"
    tip = f"{people_in_words(many)}, {span}"
    left, width = x(low) + 0.6, max(x(high) - x(low) - 1.2, 0.8)
    parts = []
    if above:
        parts.append(
            element("rect", class_="bar", x=left, width=width, y=y(above), height=y.start - y(above), data_tip=tip)
        )
    if many > above:
        height = y(above) - y(many)
        shape = element(
            "rect", class_="bar below", x=left, width=width, y=y(many), height=height, data_tip=None if above else tip
        )
        parts.append(shape)
    return parts


def _edge(value: float) -> str:
    """Where a bar begins or ends, as the radii in it are said: never more than it is, save for the last bits."""
    return radius(float(f"{value:.12g}"))


def _edges(reach: float, limit: float | None) -> Floats:
    """Edges of the bars; delta is one of them where bars of a sensible width allow it."""
    width = reach / _BINS
    if limit is not None and limit > width:
        width = limit / np.floor(limit / width)
    return np.asarray(width * np.arange(int(np.ceil(reach / width - 1e-9)) + 1), dtype=np.float64)
