"""The plot of the page, as values: what is drawn where, in the units of the data; `charts.j2` draws it.

It comes in two sizes, wide and narrow, and with the table that says the same in numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import floor, log10
from typing import Any

import numpy as np

from holdfast._numbers import share
from holdfast.presentation.report._contents import Contents, Curve
from holdfast.presentation.report._gauge import plain

# What is drawn in one place: the template reads it by name.
Mark = dict[str, Any]
_ACROSS = {
    "delta": "how far each number of the model moves",
    "margin": "how far the score falls",
    "factor": "how far the model moves, in times of the promise",
}


@dataclass(frozen=True)
class Scale:
    """A straight line from values to places."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value; a value outside is on the edge.

        >>> Scale(0, 10, 100, 200)(5), Scale(0, 10, 100, 200)(99)
        (150.0, 200.0)
        """
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, about: int) -> list[float]:
        """Round numbers within the scale, roughly `about` of them.

        >>> Scale(0, 0.013, 0, 1).ticks(6)
        [0.0, 0.0025, 0.005, 0.0075, 0.01, 0.0125]
        """
        rough = (self.high - self.low) / about
        power = 10.0 ** floor(log10(rough))
        steps = power * np.array([1, 2, 2.5, 5, 10])
        step = float(steps[steps >= rough * 0.99][0])
        first = -floor(-self.low / step + 1e-9)
        last = floor(self.high / step + 1e-9)
        return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot, and the table that says the same.

    Attributes
    ----------
    reach
        The largest value across; upright are shares from 0 to 1.
    limits
        Values that a line marks, their names and styles.
    curves
        Falling curves, each with its `name`, `path`, `marks` and where it ends.
    """

    title: str
    description: str
    across: str
    reach: float
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    caption: str
    note: str = ""
    limits: Sequence[tuple[float, str, str]] = ()
    curves: Sequence[Mark] = ()

    def placed_limits(self, x: Scale) -> Iterator[tuple[float, str, str, bool, int]]:
        """Upright lines; for each name its side of the line and its row, so that no name crosses a line."""
        widths = [7.4 * len(text) + 8 for _, text, _ in self.limits]
        beyond = [
            x(value) + width > x.end + 20
            for (value, *_), width in zip(self.limits, widths, strict=True)
        ]
        sides = [(left, 0) for left in beyond]
        if len(self.limits) == 2:
            if not beyond[1] and x(self.limits[0][0]) - widths[0] > x.start - 20:
                sides = [(True, 0), (False, 0)]
            else:
                sides = [(True, 0), (True, 1)] if beyond[1] else [(False, 1), (False, 0)]
        for limit, side in zip(self.limits, sides, strict=True):
            yield (*limit, *side)

    def placed_names(self, y: Scale, gap: float, low: float) -> Iterator[tuple[Mark, float]]:
        """The names of several curves, each as near to the end of its curve as there is room."""
        named = [*reversed(self.curves)] if len(self.curves) > 1 else []
        places = spread([y(one["end"]) for one in named], gap, y.end, low)
        return zip(named, places, strict=True)


def survival(contents: Contents) -> Plot | None:
    """The share of the advice that is proven, by how far the model moves; None where no radius is known."""
    curves = [
        (i, m.name, m.survival)
        for i, m in enumerate(contents.methods)
        if m.survival and m.survival.x
    ]
    if not curves:
        return None
    gauge = contents.gauge
    unit = gauge.unit if gauge is not None and gauge.unit else 1.0
    measured = unit != 1.0
    limits = _limits(contents)
    marked = [value for value, *_ in limits]
    # One curve is shown until almost nothing survives; several end where their names can still be told apart.
    level = 0.08 if len(curves) == 1 else 0.2
    falls = []
    for *_, curve in curves:
        low = np.flatnonzero(np.asarray(curve.y) <= level)
        falls.append(curve.x[low[0] if low.size else -1])
    reach = 1.05 * max(float(np.median(falls)), 1.6 * max(marked, default=0.0), 1e-12)
    shown = sorted({*[unit * tick for tick in Scale(0, reach / unit, 0, 1).ticks(9)], *marked})
    many = 8 if len(curves) < 4 else 4
    drawn: list[Mark] = []
    told: list[str] = []
    columns = [[plain(x / unit) for x in shown]]
    for i, name, curve in curves:
        places = sorted({*((np.arange(many) + 0.5 + (i % 4) / 8) * reach / many).tolist(), *marked})
        at = [f"{share(curve.at(x))} at {plain(x / unit)}" for x in marked or shown[::3]]
        told.append(f"{name}: {', '.join(at)}")
        columns.append([share(curve.at(x)) for x in shown])
        drawn.append(
            {
                "name": cut(name, 18),
                "number": i,
                "path": partial(_steps, curve, unit),
                "marks": [(x / unit, curve.at(x)) for x in places],
                "end": curve.at(reach),
            }
        )
    across = (
        "how far the model moves, in typical updates"
        if measured
        else _ACROSS.get(contents.unit, "how far the model moves")
    )
    first = curves[0][2]
    just = contents.delta is not None and first.at(contents.delta) - first.at(1.3 * contents.delta)
    return Plot(
        title="Share of the advice that is proven, by how far the model moves",
        description=". ".join(told),
        across=across,
        reach=reach / unit,
        heads=(across.capitalize(), *[name for _, name, _ in curves]),
        rows=list(zip(*columns, strict=True)),
        caption="Share of the advice found that is proven, by how far the model moves",
        note="The advice is made just strong enough for the promise, which keeps it cheap: beyond it, the curve falls."
        if just and just > 0.4
        else "",
        limits=[(value / unit, text, style) for value, text, style in limits],
        curves=drawn,
    )


def _limits(contents: Contents) -> list[tuple[float, str, str]]:
    """The edge of Δ, and the typical update or the calibrated delta, in rising order."""
    limits = []
    # Where parts of the model have radii of their own, no place on the axis is the edge of Δ.
    if contents.delta and contents.least_delta is None:
        limits.append((contents.delta, "promised", "promised"))
    if contents.gauge is not None and contents.gauge.unit:
        limits.append((contents.gauge.unit, "typical update", "calibrated"))
    elif contents.calibrated is not None and contents.calibrated.delta != contents.delta:
        limits.append((contents.calibrated.delta, "calibrated", "calibrated"))
    return sorted(limits)


def _steps(curve: Curve, unit: float, x: Scale, y: Scale) -> str:
    """The path of a step function, at the resolution of the picture: a step is drawn early rather than late."""
    values = [value / unit for value in curve.x]
    pixel = np.floor(2 * np.array([x(value) for value in values if value <= x.high])) / 2
    last = np.flatnonzero(np.diff(pixel, append=np.inf))
    steps = [f"H{pixel[i]:g}V{y(curve.y[i]):.1f}" for i in last]
    return f"M{x.start:.1f} {y(curve.at(0.0)):.1f}{''.join(steps)}H{x.end:.1f}"


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Heights for labels, each near the height that is wanted, `gap` apart and within the frame.

    >>> spread([10, 12, 50], 15, 0, 100)
    [10.0, 25.0, 50.0]
    >>> spread([95, 96], 15, 0, 100)
    [85.0, 100.0]
    """
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
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


def cut(text: str, most: int) -> str:
    """The first `most` characters of a name."""
    return text if len(text) <= most else text[: most - 1] + "…"
