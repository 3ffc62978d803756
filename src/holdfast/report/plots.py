"""The three plots of the report: how much survives, cost against radius, and the radii themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup

from holdfast.network import Floats
from holdfast.report.contents import Contents, Curve, Method
from holdfast.report.numbers import count, delta, figure, part_of, radius, share
from holdfast.report.svg import DASHES, SHAPES, Canvas, Scale, axes, drawing, element, joined, mark, spread

# More people than this are counted in squares: every mark costs bytes, and they would hide each other.
MOST_MARKS = 1500
_WIDE = Canvas(760, 400, left=52, right=24, top=52, bottom=48, narrow=False)
_NARROW = Canvas(358, 330, left=44, right=14, top=52, bottom=46, narrow=True)
_LABELS = 120
_BINS = 36


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


def at(curve: Curve, where: float) -> float:
    """The value of a step function; before its first step what it is there, which is no more than the truth."""
    return curve.y[max(int(np.searchsorted(curve.x, where, side="right")) - 1, 0)]


def survival(contents: Contents) -> Plot | None:
    """For every delta, the share of the advice that provably survives it; None where no radius is known."""
    curves = [(i, method) for i, method in enumerate(contents.methods) if method.survival and method.survival.x]
    if not curves:
        return None
    marked = _marked(contents)
    # One curve is shown until almost nothing survives; several end where their names can still be told apart.
    falls = [_falls_to(method.survival, 0.08 if len(curves) == 1 else 0.2) for _, method in curves if method.survival]
    reach = 1.05 * max(float(np.median(falls)), 1.6 * max(marked, default=0.0), 1e-12)
    shown = _deltas(reach, marked)
    title = "Share of advice that provably survives, for every δ"
    description = ". ".join(
        f"{method.name}: "
        + ", ".join(f"{share(at(method.survival, x))} at δ = {delta(x)}" for x in marked or shown[::3])
        for _, method in curves
        if method.survival
    )
    named = len(curves) > 1
    drawings = joined(
        [
            _survival(canvas, contents, curves, reach, named, title, description)
            for canvas in (_with_labels(_WIDE) if named else _WIDE, _NARROW)
        ]
    )
    rows = tuple((delta(x), *(share(at(method.survival, x)) for _, method in curves if method.survival)) for x in shown)
    heads = ("δ", *(method.name for _, method in curves))
    return Plot(drawings, heads, rows, "Share of the advice found that provably survives every model within δ")


def _survival(
    canvas: Canvas,
    contents: Contents,
    curves: list[tuple[int, Method]],
    reach: float,
    named: bool,
    title: str,
    description: str,
) -> Markup:
    x, y = canvas.across(0, reach), canvas.up(0, 1)
    parts = [axes(canvas, x, y, "δ: how far the model may move", "advice that survives", percent=True)]
    parts.append(_deltas_marked(contents, x, y))
    ends = []
    for i, method in reversed(curves):
        look, curve = Look(i), method.survival
        assert curve is not None
        path = _steps(curve, x, y)
        parts.append(element("path", d=path, class_=f"curve {look.given}", stroke_dasharray=look.dash))
        ends.append((i, method.name, y(at(curve, reach))))
    for i, method in curves:
        look, curve = Look(i), method.survival
        assert curve is not None
        many = 8 if len(curves) < 4 else 4
        places = sorted({*((k + 0.5 + (i % 4) / 8) * reach / many for k in range(many)), *_marked(contents)})
        for place in places:
            tip = f"{method.name}: {share(at(curve, place))} survives δ = {figure(place)}"
            parts.append(look.mark(x(place), y(at(curve, place)), 4.5 if i == 0 else 4, tip))
    if named and not canvas.narrow:
        heights = spread([height for *_, height in ends], 16, canvas.top, y.start)
        for (i, name, height), place in zip(ends, heights, strict=True):
            edge = x.end
            parts.append(
                element("path", d=f"M{edge + 3:.1f} {height:.1f}L{edge + 13:.1f} {place:.1f}", class_="leader")
            )
            label = _cut(name, 14)
            parts.append(element("text", label, class_=f"label {Look(i).given}", x=edge + 16, y=place + 4))
    return drawing(canvas, "survival", title, description, *parts)


def trade(contents: Contents) -> Plot | None:
    """Cost against radius: the people of the first method, and the median of every method."""
    if not contents.methods:
        return None
    first = contents.methods[0]
    costs, radii = _numbers(first.costs), _numbers(first.radii)
    both = np.flatnonzero(np.isfinite(costs) & np.isfinite(radii))
    medians = [
        (i, method, method.median_cost, method.median_radius)
        for i, method in enumerate(contents.methods)
        if method.median_cost is not None and method.median_radius is not None
    ]
    if not both.size and not medians:
        return None
    right = max(_reach(costs[both]), *(cost for *_, cost, _ in medians), 1e-12)
    top = max(_reach(radii[both]), *(high for *_, high in medians), 1.25 * (contents.delta or 0.0), 1e-12)
    beyond = int(np.sum((costs[both] > 1.04 * right) | (radii[both] > 1.04 * top)))
    binned = both.size > MOST_MARKS
    title = f"Cost against certified radius, {count(both.size)} people" + (
        f", advice by {first.name}" if first.name else ""
    )
    description = "; ".join(
        f"median of {method.name}: cost {figure(cost)}, radius {radius(height)}" for _, method, cost, height in medians
    )
    drawings = []
    for canvas in (replace(_WIDE, top=30, height=378), replace(_NARROW, top=30, height=308)):
        x, y = canvas.across(0, 1.04 * right), canvas.up(0, 1.04 * top)
        parts = [axes(canvas, x, y, "cost of the advice", "certified radius")]
        parts += (
            _squares(costs[both], radii[both], x, y, canvas) if binned else _people(contents, both, costs, radii, x, y)
        )
        if contents.delta is not None:
            parts.append(_delta_across(contents.delta, x, y, "" if canvas.narrow else ": proven above"))
        if len(contents.methods) > 1 or both.size > 1:
            parts += _medians(medians, x, y, canvas)
        drawings.append(drawing(canvas, "trade", title, description, *parts))
    rows = _trade_rows(costs[both], radii[both], contents.delta)
    heads = ("people by cost", "people", "median cost", "median radius", "radius above δ")
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
            f"{_people_in_words(people)}: cost {figure(across[i])} to {figure(across[i + 1])}, "
            f"radius {figure(up[j])} to {figure(up[j + 1])}"
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
        name = _cut(method.name, 22) if len(medians) > 1 else "median"
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


def histogram(contents: Contents) -> Plot | None:
    """How many people have which certified radius, with delta marked; None where no radius is known."""
    if not contents.methods:
        return None
    values = _numbers(contents.methods[0].radii)
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    marked = _marked(contents)
    reach = max(_reach(values), 1.15 * max(marked, default=0.0), 1e-12)
    edges = _edges(reach, contents.delta)
    inside = np.minimum(values, edges[-1])
    counts, _ = np.histogram(inside, bins=edges)
    limit = contents.delta
    safe = counts if limit is None else np.histogram(inside[values > limit], bins=edges)[0]
    more = int(np.sum(values > edges[-1]))
    title = f"How far the model may move before the advice fails, {count(values.size)} people"
    description = f"Median radius {radius(float(np.median(values)))}" + (
        f"; {part_of(int(np.sum(values > limit)), values.size)} lie above δ = {delta(limit)}"
        if limit is not None
        else ""
    )
    drawings = []
    for canvas in (_WIDE, _NARROW):
        x, y = canvas.across(0, float(edges[-1])), canvas.up(0, 1.08 * float(counts.max()))
        parts = [axes(canvas, x, y, "certified radius", "people", whole=True)]
        for low, high, many, above in zip(edges[:-1], edges[1:], counts, safe, strict=True):
            parts += _bar(x, y, float(low), float(high), int(many), int(above), high == edges[-1] and more > 0)
        parts.append(_deltas_marked(contents, x, y))
        drawings.append(drawing(canvas, "radii", title, description, *parts))
    rows = tuple(
        (f"{figure(float(low))} to {figure(float(high))}", count(int(many)), part_of(int(many), values.size))
        for low, high, many in zip(edges[:-1], edges[1:], counts, strict=True)
    )
    if more:
        rows = (*rows[:-1], (f"{figure(float(edges[-2]))} or more", *rows[-1][1:]))
    note = f"The last bar holds {count(more)} whose radius is larger still." if more else ""
    return Plot(joined(drawings), ("radius", "people", "share"), rows, "People by certified radius", note)


def _bar(x: Scale, y: Scale, low: float, high: float, many: int, above: int, last: bool) -> list[Markup]:
    """One bar: full where the radius exceeds delta, striped where it does not."""
    if not many:
        return []
    span = f"radius {figure(low)} or more" if last else f"radius {figure(low)} to {figure(high)}"
    tip = f"{_people_in_words(many)}, {span}"
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


def _edges(reach: float, limit: float | None) -> Floats:
    """Edges of the bars; delta is one of them where bars of a sensible width allow it."""
    width = reach / _BINS
    if limit is not None and limit > width:
        width = limit / np.floor(limit / width)
    return np.asarray(width * np.arange(int(np.ceil(reach / width - 1e-9)) + 1), dtype=np.float64)


def _deltas_marked(contents: Contents, x: Scale, y: Scale) -> Markup:
    """Upright lines at delta and at the calibrated delta, with their names above the plot."""
    lines: list[tuple[float, str, str]] = []
    if contents.delta is not None:
        lines.append((contents.delta, f"δ = {delta(contents.delta)}", "promised"))
    if contents.calibrated is not None:
        value = contents.calibrated.delta
        if contents.delta is not None and delta(value) == delta(contents.delta):
            lines = [(contents.delta, f"δ = {delta(value)}, as calibrated", "promised")]
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


def _delta_across(value: float, x: Scale, y: Scale, words: str) -> Markup:
    line = element("line", class_="limit promised", x1=x.start, x2=x.end, y1=y(value), y2=y(value))
    text = f"δ = {delta(value)}{words}"
    return line + element("text", text, class_="label halo", x=x.end, y=y(value) - 6, text_anchor="end")


def _marked(contents: Contents) -> list[float]:
    calibrated = [] if contents.calibrated is None else [contents.calibrated.delta]
    return sorted({*([] if contents.delta is None else [contents.delta]), *calibrated})


def _falls_to(curve: Curve | None, level: float) -> float:
    """From where on the curve lies at or below a level; its last step where it never does."""
    if curve is None:
        return 0.0
    low = np.flatnonzero(np.asarray(curve.y) <= level)
    return float(curve.x[low[0] if low.size else -1])


def _deltas(reach: float, marked: list[float]) -> list[float]:
    """The deltas that the table names: round ones, and those that are marked."""
    return sorted({*Scale(0, reach, 0, 1).ticks(9), *marked})


def _steps(curve: Curve, x: Scale, y: Scale) -> str:
    """The path of a step function, at the resolution of the picture: a step is drawn early rather than late."""
    xs, ys = np.asarray(curve.x, dtype=np.float64), np.asarray(curve.y, dtype=np.float64)
    seen = xs <= x.high
    pixel = np.floor(2 * np.array([x(value) for value in xs[seen]])) / 2
    last = np.append(np.flatnonzero(np.diff(pixel)), pixel.size - 1) if pixel.size else np.array([], dtype=int)
    parts = [f"M{x.start:.1f} {y(at(curve, 0.0)):.1f}"]
    parts += [f"H{pixel[i]:g}V{y(float(ys[i])):.1f}" for i in last]
    return "".join(parts) + f"H{x.end:.1f}"


def _with_labels(canvas: Canvas) -> Canvas:
    return replace(canvas, right=_LABELS)


def _numbers(values: tuple[float | None, ...]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _reach(values: Floats) -> float:
    """Where an axis ends: at the largest value, unless a few lie far beyond the others."""
    if not values.size:
        return 0.0
    usual = 1.5 * float(np.quantile(values, 0.98))
    return min(float(values.max()), usual) if usual > 0 else float(values.max())


def _people_in_words(people: int) -> str:
    return f"{count(people)} {'person' if people == 1 else 'people'}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
