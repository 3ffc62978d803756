"""How much of the advice survives, for every delta."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from markupsafe import Markup

from holdfast.presentation.drawing import may_change
from holdfast.presentation.report.contents import Contents, Curve, Method
from holdfast.presentation.report.numbers import delta, radius, share
from holdfast.presentation.report.plots import NARROW, WIDE, Look, Plot, cut, delta_lines, marked_deltas
from holdfast.presentation.report.svg import Canvas, Scale, axes, drawing, element, joined, spread

# Of a method's name, at the end of its curve, so many characters.
_NAME = 18


def survival(contents: Contents) -> Plot | None:
    """For every delta, the share of the advice that provably survives it; None where no radius is known."""
    curves = [(i, method) for i, method in enumerate(contents.methods) if method.survival and method.survival.x]
    if not curves:
        return None
    marked = marked_deltas(contents)
    # One curve is shown until almost nothing survives; several end where their names can still be told apart.
    falls = [_falls_to(method.survival, 0.08 if len(curves) == 1 else 0.2) for _, method in curves if method.survival]
    reach = 1.05 * max(float(np.median(falls)), 1.6 * max(marked, default=0.0), 1e-12)
    shown = _deltas(reach, marked)
    title = f"Share of advice that provably survives, for every {contents.symbol}"
    description = ". ".join(
        f"{method.name}: "
        + ", ".join(f"{share(at(method.survival, x))} at {contents.symbol} = {delta(x)}" for x in marked or shown[::3])
        for _, method in curves
        if method.survival
    )
    named = len(curves) > 1
    room = 28 + 8 * min(max(len(method.name) for _, method in curves), _NAME) if named else WIDE.right
    drawings = joined(
        [
            _survival(canvas, contents, curves, reach, named, title, description)
            for canvas in (replace(WIDE, right=room), NARROW)
        ]
    )
    rows = tuple((delta(x), *(share(at(method.survival, x)) for _, method in curves if method.survival)) for x in shown)
    heads = (contents.symbol, *(method.name for _, method in curves))
    return Plot(drawings, heads, rows, f"Share of the advice found that provably survives, by {contents.symbol}")


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
    across = f"{contents.symbol}: how far {may_change(contents.unit)}"
    parts = [axes(canvas, x, y, across, "advice that survives", percent=True)]
    parts.append(delta_lines(contents, x, y))
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
        places = sorted({*((k + 0.5 + (i % 4) / 8) * reach / many for k in range(many)), *marked_deltas(contents)})
        for place in places:
            tip = f"{method.name}: {share(at(curve, place))} survives {contents.symbol} = {radius(place)}"
            parts.append(look.mark(x(place), y(at(curve, place)), 4.5 if i == 0 else 4, tip))
    if named and not canvas.narrow:
        heights = spread([height for *_, height in ends], 16, canvas.top, y.start)
        for (i, name, height), place in zip(ends, heights, strict=True):
            edge = x.end
            parts.append(
                element("path", d=f"M{edge + 3:.1f} {height:.1f}L{edge + 13:.1f} {place:.1f}", class_="leader")
            )
            label = cut(name, _NAME)
            parts.append(element("text", label, class_=f"label {Look(i).given}", x=edge + 16, y=place + 4))
    return drawing(canvas, "survival", title, description, *parts)


def at(curve: Curve, where: float) -> float:
    """The value of a step function; before its first step what it is there, which is no more than the truth."""
    return curve.y[max(int(np.searchsorted(curve.x, where, side="right")) - 1, 0)]


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
