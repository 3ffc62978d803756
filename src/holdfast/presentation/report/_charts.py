"""The plots of the page, as values: what is drawn where, in the units of the data; `charts.j2` draws them.

Each plot comes in two sizes, wide and narrow, and with the table that says the same in numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import floor, log10
from typing import Any

import numpy as np

from holdfast._network import Floats, Pair
from holdfast._numbers import at_most, figure, part_of, radius, share
from holdfast.presentation.pictures._drawing import may_change
from holdfast.presentation.report._contents import Contents, Curve

# What is drawn in one place: the template reads it by name.
Mark = dict[str, Any]
# More people than this are counted in squares: every mark costs bytes, and they would hide each other.
MOST_MARKS = 1500
_SQUARE = 13.0
_BINS = 36
_FIFTHS = ("cheapest fifth", "second fifth", "middle fifth", "fourth fifth", "most expensive fifth")


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
        steps = power * np.array([1, 2, 2.5, 5, 10])
        step = float(steps[steps >= rough * 0.99][0])
        step = max(float(round(step)), 1.0) if whole else step
        first = -floor(-self.low / step + 1e-9)
        last = floor(self.high / step + 1e-9)
        return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot, and the table that says the same.

    Attributes
    ----------
    reach, top
        The largest values on the two axes, which begin at 0.
    counts
        What the upright axis counts: "shares", "people", or nothing.
    limits
        Values to be marked by a line, and what they are called.
    named
        What stands beside its curve or mark: a `name`, and how high.
    curves, people, medians, bars
        What is drawn: falling curves, a mark for each person, a large mark for each method, bars.
    counted
        Costs and radii of people who are too many for a mark each.
    """

    name: str
    title: str
    description: str
    across: str
    upright: str
    reach: float
    top: float
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    caption: str
    counts: str = ""
    note: str = ""
    limits: Sequence[tuple[float, str, str]] = ()
    named: Sequence[tuple[Mark, float]] = ()
    curves: Sequence[Mark] = ()
    people: Sequence[Mark] = ()
    medians: Sequence[Mark] = ()
    bars: Sequence[Mark] = ()
    counted: Pair | None = None

    def placed_limits(self, x: Scale) -> Iterator[tuple[float, str, str, bool, int]]:
        """Upright lines, and for each name if it stands left of its line, and in which row: no name crosses a line."""
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
        """The names, each as near as it can be to the height where it is wanted."""
        names, wanted = zip(*self.named, strict=True) if self.named else ((), ())
        return zip(names, spread([*map(y, wanted)], gap, y.end, low), strict=True)

    def squares(self, x: Scale, y: Scale) -> Iterator[tuple[float, float, float, str]]:
        """People counted on a grid: where, how large, and in words; the area of a square is their number."""
        assert self.counted is not None
        columns = round(abs(x.end - x.start) / _SQUARE)
        rows = round(abs(y.end - y.start) / _SQUARE)
        across = np.linspace(x.low, x.high, columns + 1)
        up = np.linspace(y.low, y.high, rows + 1)
        costs, radii = self.counted
        counts, _, _ = np.histogram2d(
            np.minimum(costs, x.high), np.minimum(radii, y.high), bins=(across, up)
        )
        for i, j in np.argwhere(counts):
            people = int(counts[i, j])
            half = max(0.8, (_SQUARE - 1.5) / 2 * float(np.sqrt(people / counts.max())))
            tip = (
                f"{people_in_words(people)}: cost {figure(across[i])} to {figure(across[i + 1])}, "
                f"radius {radius(up[j])} to {radius(up[j + 1])}"
            )
            yield x((across[i] + across[i + 1]) / 2), y((up[j] + up[j + 1]) / 2), half / 0.9, tip


def survival(contents: Contents) -> Plot | None:
    """For every delta, the share of the advice that provably survives it; None where no radius is known."""
    curves = [
        (i, m.name, m.survival)
        for i, m in enumerate(contents.methods)
        if m.survival and m.survival.x
    ]
    if not curves:
        return None
    symbol = contents.symbol
    limits = _limits(contents)
    marked = [value for value, *_ in limits]
    # One curve is shown until almost nothing survives; several end where their names can still be told apart.
    level = 0.08 if len(curves) == 1 else 0.2
    falls = []
    for *_, curve in curves:
        low = np.flatnonzero(np.asarray(curve.y) <= level)
        falls.append(curve.x[low[0] if low.size else -1])
    reach = 1.05 * max(float(np.median(falls)), 1.6 * max(marked, default=0.0), 1e-12)
    shown = sorted({*Scale(0, reach, 0, 1).ticks(9), *marked})
    many = 8 if len(curves) < 4 else 4
    drawn: list[Mark] = []
    told: list[str] = []
    columns = [[at_most(x) for x in shown]]
    for i, name, curve in curves:
        places = sorted({*((np.arange(many) + 0.5 + (i % 4) / 8) * reach / many).tolist(), *marked})
        at = [f"{share(curve.at(x))} at {symbol} = {at_most(x)}" for x in marked or shown[::3]]
        told.append(f"{name}: {', '.join(at)}")
        columns.append([share(curve.at(x)) for x in shown])
        drawn.append(
            {
                "name": cut(name, 18),
                "number": i,
                "path": partial(_steps, curve),
                "marks": [
                    (
                        x,
                        curve.at(x),
                        f"{name}: {share(curve.at(x))} survives {symbol} = {radius(x)}",
                    )
                    for x in places
                ],
                "end": curve.at(reach),
            }
        )
    return Plot(
        name="survival",
        title=f"Share of advice that provably survives, for every {symbol}",
        description=". ".join(told),
        across=f"{symbol}: how far {may_change(contents.unit)}",
        upright="advice that survives",
        reach=reach,
        top=1,
        heads=(symbol, *[name for _, name, _ in curves]),
        rows=list(zip(*columns, strict=True)),
        caption=f"Share of the advice found that provably survives, by {symbol}",
        counts="shares",
        limits=limits,
        named=[(one, one["end"]) for one in reversed(drawn)] if len(curves) > 1 else (),
        curves=drawn,
    )


def trade(contents: Contents) -> Plot | None:
    """Cost against radius: the people of the first method, and the median of every method."""
    if not contents.methods:
        return None
    first = contents.methods[0]
    limit = contents.delta
    people = [
        {
            "person": i,
            "cost": person.cost,
            "radius": person.radius,
            "proven": limit is None or person.verdict == "ROBUST",
            "tip": f"{person.key}: {_in_words(person.cost, person.radius)}",
        }
        for i, person in enumerate(contents.people)
        if person.cost is not None and person.radius is not None
    ]
    costs, radii = (
        np.array([(one["cost"], one["radius"]) for one in people], dtype=np.float64)
        .reshape(-1, 2)
        .T
    )
    medians: list[Mark] = [
        {
            "number": i,
            "name": method.name,
            "cost": cost,
            "radius": height,
            "words": _in_words(cost, height),
        }
        for i, method in enumerate(contents.methods)
        if (cost := method.median_cost) is not None and (height := method.median_radius) is not None
    ]
    if not people and not medians:
        return None
    right = max(_reach(costs), *[one["cost"] for one in medians], 1e-12)
    top = max(_reach(radii), *[one["radius"] for one in medians], 1.25 * (limit or 0.0), 1e-12)
    beyond = int(np.sum((costs > 1.04 * right) | (radii > 1.04 * top)))
    binned = len(people) > MOST_MARKS
    own = "Δ's" if contents.symbol == "radius" else contents.symbol
    note = "Each square counts people; the larger, the more. " if binned else ""
    if beyond:
        note += f"{beyond:,} {'lies' if beyond == 1 else 'lie'} beyond the frame and "
        note += f"{'is' if beyond == 1 else 'are'} drawn at its edge."
    shown = medians if len(contents.methods) > 1 or len(people) > 1 else []
    return Plot(
        name="trade",
        title=f"Cost against certified radius, {len(people):,} people"
        + (f", advice by {first.name}" if first.name else ""),
        description="; ".join([f"median of {one['name']}: {one['words']}" for one in medians]),
        across="cost of the advice",
        upright="certified radius",
        reach=1.04 * right,
        top=1.04 * top,
        heads=("people by cost", "people", "median cost", "median radius", f"radius above {own}"),
        rows=_fifths(costs, radii, limit),
        caption="Cost and radius, from the cheapest advice to the most expensive",
        note=note,
        limits=[]
        if limit is None
        else [(limit, f"{contents.symbol} = {at_most(limit)}", "promised")],
        named=[
            (one | {"name": cut(one["name"], 22) if len(medians) > 1 else "median"}, one["radius"])
            for one in shown
        ],
        people=[] if binned else people,
        medians=shown,
        counted=(costs, radii) if binned else None,
    )


def radii(contents: Contents) -> Plot | None:
    """How many people have which certified radius, with delta marked; None where no radius is known."""
    values = np.array([person.radius for person in contents.people if person.radius is not None])
    if not values.size:
        return None
    limit = contents.delta
    limits = _limits(contents)
    reach = max(_reach(values), 1.15 * (limits[-1][0] if limits else 0.0), 1e-12)
    # Delta is an edge of the bars where bars of a sensible width allow it.
    width = reach / _BINS
    if limit is not None and limit > width:
        width = limit / np.floor(limit / width)
    edges = width * np.arange(int(np.ceil(reach / width - 1e-9)) + 1)
    inside = np.minimum(values, edges[-1])
    counts, _ = np.histogram(inside, bins=edges)
    safe = counts if limit is None else np.histogram(inside[values > limit], bins=edges)[0]
    more = int(np.sum(values > edges[-1]))
    # Where a bar begins or ends, as the radii in it are said: never more than it is, save for the last bits.
    said = [radius(float(f"{edge:.12g}")) for edge in edges]
    spans = [f"{low} to {high}" for low, high in pairwise(said)]
    if more:
        spans[-1] = f"{said[-2]} or more"
    bars = list(zip(spans, pairwise(edges.tolist()), counts.tolist(), safe.tolist(), strict=True))
    description = f"Median radius {radius(float(np.median(values)))}"
    if limit is not None:
        above = part_of(int(np.sum(values > limit)), values.size)
        description += f"; {above} lie above {contents.symbol} = {at_most(limit)}"
    return Plot(
        name="radii",
        title=f"How far {may_change(contents.unit)} before the advice fails, {values.size:,} people",
        description=description,
        across="certified radius",
        upright="people",
        reach=float(edges[-1]),
        top=1.08 * float(counts.max()),
        heads=("radius", "people", "share"),
        rows=[(span, f"{many:,}", part_of(many, values.size)) for span, _, many, _ in bars if many],
        caption="People by certified radius",
        counts="people",
        note=f"The last bar holds {more:,} whose radius is larger still." if more else "",
        limits=limits,
        bars=[
            {
                "low": low,
                "high": high,
                "people": n,
                "above": above,
                "tip": f"{people_in_words(n)}, radius {span}",
            }
            for span, (low, high), n, above in bars
            if n
        ],
    )


def _limits(contents: Contents) -> list[tuple[float, str, str]]:
    """Delta and the calibrated delta, in rising order: one where they are the same to a reader."""
    limits = []
    if contents.delta is not None:
        largest = "" if contents.least_delta is None else "largest "
        limits.append(
            (contents.delta, f"{largest}{contents.symbol} = {at_most(contents.delta)}", "promised")
        )
    if contents.calibrated is not None:
        value = contents.calibrated.delta
        if (
            contents.delta is not None
            and value <= contents.delta
            and at_most(value) == at_most(contents.delta)
        ):
            return [(contents.delta, f"{limits[0][1]}, as calibrated", "promised")]
        limits.append((value, f"calibrated {contents.symbol} = {at_most(value)}", "calibrated"))
    return sorted(limits)


def _steps(curve: Curve, x: Scale, y: Scale) -> str:
    """The path of a step function, at the resolution of the picture: a step is drawn early rather than late."""
    pixel = np.floor(2 * np.array([x(value) for value in curve.x if value <= x.high])) / 2
    last = np.flatnonzero(np.diff(pixel, append=np.inf))
    steps = [f"H{pixel[i]:g}V{y(curve.y[i]):.1f}" for i in last]
    return f"M{x.start:.1f} {y(curve.at(0.0)):.1f}{''.join(steps)}H{x.end:.1f}"


def _in_words(cost: float, height: float) -> str:
    return f"cost {figure(cost)}, radius {radius(height)}"


def _fifths(costs: Floats, radii: Floats, limit: float | None) -> list[tuple[str, ...]]:
    """Fifths of the people by cost: how robust the cheap and the expensive advice is."""
    if not costs.size:
        return []
    order = np.argsort(costs, kind="stable")
    fifths = (
        dict(zip(_FIFTHS, np.array_split(order, 5), strict=True))
        if costs.size >= 5
        else {"all": order}
    )
    return [
        (
            name,
            f"{len(some):,}",
            figure(float(np.median(costs[some]))),
            radius(float(np.median(radii[some]))),
            part_of(int(np.sum(radii[some] > limit)), len(some)) if limit is not None else "–",
        )
        for name, some in fifths.items()
    ]


def _reach(values: Floats) -> float:
    """Where an axis ends: at the largest value, unless a few lie far beyond the others."""
    if not values.size:
        return 0.0
    usual = 1.5 * float(np.quantile(values, 0.98))
    return min(float(values.max()), usual) if usual > 0 else float(values.max())


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Heights for labels, each as near as it can be to where it is wanted, `gap` apart and within the frame.

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


def people_in_words(people: int) -> str:
    """So many people."""
    return f"{people:,} {'person' if people == 1 else 'people'}"


def cut(text: str, most: int) -> str:
    """So many characters of a name."""
    return text if len(text) <= most else text[: most - 1] + "…"
