"""Cost against certified radius, for every person and every method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from markupsafe import Markup

from holdfast.network import Floats
from holdfast.presentation.report.contents import Contents, Method
from holdfast.presentation.report.numbers import count, delta, figure, part_of, radius
from holdfast.presentation.report.plots import NARROW, WIDE, Look, Plot, cut, numbers_of, people_in_words, reach_of
from holdfast.presentation.report.svg import Canvas, Scale, axes, drawing, element, joined, mark, spread

# More people than this are counted in squares: every mark costs bytes, and they would hide each other.
MOST_MARKS = 1500


def trade(contents: Contents) -> Plot | None:
    """Cost against radius: the people of the first method, and the median of every method."""
    if not contents.methods:
        return None
    first = contents.methods[0]
    costs, radii = numbers_of(first.costs), numbers_of(first.radii)
    both = np.flatnonzero(np.isfinite(costs) & np.isfinite(radii))
    medians = [
        (i, method, method.median_cost, method.median_radius)
        for i, method in enumerate(contents.methods)
        if method.median_cost is not None and method.median_radius is not None
    ]
    if not both.size and not medians:
        return None
    right = max(reach_of(costs[both]), *(cost for *_, cost, _ in medians), 1e-12)
    top = max(reach_of(radii[both]), *(high for *_, high in medians), 1.25 * (contents.delta or 0.0), 1e-12)
    beyond = int(np.sum((costs[both] > 1.04 * right) | (radii[both] > 1.04 * top)))
    binned = both.size > MOST_MARKS
    title = f"Cost against certified radius, {count(both.size)} people" + (
        f", advice by {first.name}" if first.name else ""
    )
    description = "; ".join(
        f"median of {method.name}: cost {figure(cost)}, radius {radius(height)}" for _, method, cost, height in medians
    )
    drawings = []
    for canvas in (replace(WIDE, top=30, height=378), replace(NARROW, top=30, height=308)):
        x, y = canvas.across(0, 1.04 * right), canvas.up(0, 1.04 * top)
        parts = [axes(canvas, x, y, "cost of the advice", "certified radius")]
        parts += (
            _squares(costs[both], radii[both], x, y, canvas) if binned else _people(contents, both, costs, radii, x, y)
        )
        if contents.delta is not None:
            words = f"{contents.symbol} = {delta(contents.delta)}{'' if canvas.narrow else ': proven above'}"
            parts.append(_delta_across(contents.delta, x, y, words))
        if len(contents.methods) > 1 or both.size > 1:
            parts += _medians(medians, x, y, canvas)
        drawings.append(drawing(canvas, "trade", title, description, *parts))
    rows = _trade_rows(costs[both], radii[both], contents.delta)
    own = "Δ's" if contents.symbol == "radius" else contents.symbol
    heads = ("people by cost", "people", "median cost", "median radius", f"radius above {own}")
    note = "Each square counts people; the larger, the more. " if binned else ""
    if beyond:
        note += (
            f"{count(beyond)} {'lies' if beyond == 1 else 'lie'} beyond the frame and {'is' if beyond == 1 else 'are'} "
        )
        note += "drawn at its edge."
    return Plot(joined(drawings), heads, rows, "Cost and radius, from the cheapest advice to the dearest", note)


def _people(contents: Contents, rows: np.ndarray, costs: Floats, radii: Floats, x: Scale, y: Scale) -> list[Markup]:
    parts = []
    for i in rows:
        person = contents.people[i] if i < len(contents.people) else None
        above = contents.delta is None or (person is not None and person.verdict == "ROBUST")
        tip = f"{person.key if person else i}: cost {figure(costs[i])}, radius {radius(radii[i])}"
        shape, style = ("circle", "dot") if above else ("ring", "dot open")
        parts.append(mark(shape, x(costs[i]), y(radii[i]), 3.2, style, tip, data_person=int(i) if person else None))
    return parts


def _squares(costs: Floats, radii: Floats, x: Scale, y: Scale, canvas: Canvas) -> list[Markup]:
    """People counted on a grid; the area of a square is their number."""
    side = 13.0
    columns, rows = round(abs(x.end - x.start) / side), round(abs(y.end - y.start) / side)
    across, up = np.linspace(x.low, x.high, columns + 1), np.linspace(y.low, y.high, rows + 1)
    counts, _, _ = np.histogram2d(np.minimum(costs, x.high), np.minimum(radii, y.high), bins=(across, up))
    parts = []
    for i, j in np.argwhere(counts):
        people = int(counts[i, j])
        half = max(0.8, (side - 1.5) / 2 * float(np.sqrt(people / counts.max())))
        tip = (
            f"{people_in_words(people)}: cost {figure(across[i])} to {figure(across[i + 1])}, "
            f"radius {radius(up[j])} to {radius(up[j + 1])}"
        )
        place = x((across[i] + across[i + 1]) / 2), y((up[j] + up[j + 1]) / 2)
        parts.append(mark("square", *place, half / 0.9, "dot", tip))
    return parts


def _medians(medians: list[tuple[int, Method, float, float]], x: Scale, y: Scale, canvas: Canvas) -> list[Markup]:
    heights = spread([y(height) for *_, height in medians], 17, canvas.top, y.start - 4)
    marks, names = [], []
    for (i, method, cost, height), place in zip(medians, heights, strict=True):
        tip = f"Median of {method.name}: cost {figure(cost)}, radius {radius(height)}"
        marks.append(element("g", Look(i).mark(x(cost), y(height), 7, tip), class_="median"))
        if canvas.narrow:
            continue
        name = cut(method.name, 22) if len(medians) > 1 else "median"
        side = -1 if x(cost) + 16 + 7.5 * len(name) > canvas.width - 4 else 1
        if abs(place - y(height)) > 2:
            line = f"M{x(cost) + side * 7:.1f} {y(height):.1f}L{x(cost) + side * 16:.1f} {place:.1f}"
            names.append(element("path", d=line, class_="leader"))
        anchor = "end" if side < 0 else "start"
        label = element(
            "text", name, class_="label strong halo", x=x(cost) + side * 18, y=place + 4, text_anchor=anchor
        )
        names.append(label)
    return [*marks, *names]


def _delta_across(value: float, x: Scale, y: Scale, words: str) -> Markup:
    line = element("line", class_="limit promised", x1=x.start, x2=x.end, y1=y(value), y2=y(value))
    return line + element("text", words, class_="label halo", x=x.end, y=y(value) - 6, text_anchor="end")


def _trade_rows(costs: Floats, radii: Floats, limit: float | None) -> tuple[tuple[str, ...], ...]:
    """Fifths of the people by cost: how robust the cheap and the dear advice is."""
    if not costs.size:
        return ()
    order = np.argsort(costs, kind="stable")
    names = ("cheapest fifth", "second fifth", "middle fifth", "fourth fifth", "dearest fifth")
    fifths = zip(names, np.array_split(order, 5), strict=True) if costs.size >= 5 else [("all", order)]
    return tuple(
        (
            name,
            count(len(some)),
            figure(float(np.median(costs[some]))),
            radius(float(np.median(radii[some]))),
            part_of(int(np.sum(radii[some] > limit)), len(some)) if limit is not None else "–",
        )
        for name, some in fifths
    )
