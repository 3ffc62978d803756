"""The certified radius: how far the model may drift before a point can lose its class.

For each rival the adversary's best response gives a radius at which a counter-model exists; a root search brings it
down to the boundary. A proof just below it then closes the case, and where the proof finds a counter-model instead, the
search goes on from there. Every row has its own radius all along, so the whole table moves together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._given import positive_number
from holdfast._network import Floats, Network
from holdfast._parallel import jobs, spread
from holdfast._progress import no_bar, progress_bar
from holdfast._shown import HEAD, Shown, Summary, draw
from holdfast.bounds import _balls as balls
from holdfast.bounds._layers import Layers, activated, forward_error, margins_for
from holdfast.changes import Changes, PlausibleChanges
from holdfast.importers import Model, load_model
from holdfast.verify._attack import attack
from holdfast.verify._closed_form import ClosedForm
from holdfast.verify._deciders import decider_for, toward
from holdfast.verify._engine import Engine, by_target, cut, quiet
from holdfast.verify._inputs import Space, check_changes, read_table, read_targets
from holdfast.verify._search import WITNESS_SAFETY, Search
from holdfast.verify._verdict import NOT_ROBUST, ROBUST

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = NDArray[np.intp]

# How often the counter-model of a failed attack or proof is followed.
_ROUNDS = 12
# Branches that a proof may take.
_PROOF_NODES = 50_000
# Seconds in which a stubborn row's bounds are halved; in a p-norm, where that is all there is, more.
_PATIENCE, _BALL_PATIENCE = 0.3, 2.0
# Where no counter-model is met up to this radius (times the largest parameter), what is proven there is all there is.
_FAR = 2.0**20
# With fewer rows one rarely waits.
_LONG = 200


@dataclass(frozen=True)
class CertifiedRadius(Shown):
    """For each row: robust for every delta < `lower`; a counter-model exists at `upper`; `met` where `tol` is kept."""

    lower: Floats
    upper: Floats
    index: pd.Index
    tol: float = 1e-6
    # What the radius is: delta, or the margin or radius of another kind of change.
    unit: str = "delta"

    @property
    def met(self) -> NDArray[np.bool_]:
        """Where the radius is as tight as was asked; or infinite, and proven to be."""
        with np.errstate(invalid="ignore"):
            gap = self.upper - self.lower
        met = np.asarray((self.lower == np.inf) | (gap < self.tol))
        # Where the difference is the tolerance it may have been rounded down to it.
        for i in np.flatnonzero(gap == self.tol):
            met[i] = Fraction(self.upper[i]) - Fraction(self.lower[i]) <= Fraction(self.tol)
        return met

    def to_frame(self) -> pd.DataFrame:
        """One row for each point, with the caller's index."""
        return pd.DataFrame(
            {"radius_lower": self.lower, "radius_upper": self.upper}, index=self.index
        )

    def plot(self, ax: Axes | None = None, *, delta: Any = None, moved: Any = None) -> Axes:
        """For every delta the share of points that provably survive it.

        Parameters
        ----------
        ax
            Where to draw; new axes by default.
        delta
            What to read off the curve: a number or several, a value of `changes=`, or a delta that was chosen.
        moved
            How far retrainings moved the model, as ticks: numbers, or a `RetrainedModels`.
        """
        picture: Axes = draw(self, ax, delta=delta, moved=moved)
        return picture

    def __len__(self) -> int:
        return int(self.lower.shape[0])

    def __repr__(self) -> str:
        median = f", median {np.median(self.lower):.4g}" if len(self) else ""
        spread = f": {self.lower.min():.4g} to {self.lower.max():.4g}{median}" if len(self) else ""
        return f"CertifiedRadius({len(self)} rows{spread})"

    def overview(self) -> Summary:
        """What a notebook shows."""
        head = pd.DataFrame(
            {"safe below": self.lower[:HEAD], "broken at": self.upper[:HEAD]},
            index=self.index[:HEAD],
        )
        facts = [
            ("least", self.lower.min(initial=np.inf)),
            ("median", np.median(self.lower) if len(self) else None),
            ("largest", self.lower.max(initial=0.0)),
            ("lost today already", int((self.upper == 0.0).sum())),
        ]
        return Summary(
            f"How far the model may move before any of {len(self):,} points can lose its class",
            facts, head, total=len(self), rows="points",
        )  # fmt: skip


def certified_radius(
    model: object,
    X: Any,
    target: Any,
    *,
    norm: float = math.inf,
    tol: float = 1e-6,
    biases: bool = True,
    space: Space | None = None,
    changes: Changes | None = None,
    threshold: Any = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> CertifiedRadius:
    """The largest delta for which each row keeps its class, to within `tol`.

    Parameters
    ----------
    model, X, target, space, threshold
        As for `certify`.
    norm, biases
        As for `PlausibleChanges`.
    changes
        Another kind of change to measure along, whatever its own size: the largest margin under a `PlausibleShift` or
        an `EnsembleShift`, the largest radius of an `Ellipsoid`.
    tol
        The greatest `upper - lower` wanted; `met` says where rounding, or the budget of a search, was in the way.
    n_jobs
        How many groups of rows at once, as for `certify`; the result is the same.
    progress
        Show a progress bar on stderr; by default from two hundred rows on if stderr is a terminal.

    Examples
    --------
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> radius = certified_radius(net, [[0.7, 0.9], [0.7, 0.5]], 1)
    >>> radius.lower.round(6)
    array([0.076923, 0.      ])
    """
    table = read_table(load_model(model, threshold), X, space)
    targets = read_targets(table.model.classifier, target, table.points.shape[0])
    kind = PlausibleChanges(1.0, norm, biases) if changes is None else changes
    check_changes(kind)
    bar = progress_bar("certified_radius", targets.size, wanted=progress, long=_LONG)
    with jobs(n_jobs), bar as advance:
        return radius_of_points(
            table.model, table.points, targets, kind, tol=tol, index=table.index, advance=advance
        )


def radius_of_points(
    model: Model,
    points: Floats,
    targets: Rows,
    changes: Changes | None,
    *,
    tol: float = 1e-6,
    index: pd.Index | None = None,
    advance: Callable[[int], object] | None = None,
) -> CertifiedRadius:
    """`certified_radius` for whoever has points and class indices already; None stands for Δ in norm inf.

    Radii by layer or by parameter are measured by one radius for all.
    """
    tol, n, done = positive_number(tol, "tol"), points.shape[0], advance or (lambda _: None)
    index = pd.RangeIndex(n) if index is None else index
    if changes is not None and changes.threshold is not None and n:
        # At the hardest threshold; what is decided there is decided about a model like any other.
        model = Model(toward(decider_for(model, changes), targets).classifier)
        changes = changes.moving(None)
    if changes is not None and not isinstance(changes, PlausibleChanges):
        decider = decider_for(model, changes)
        assert isinstance(decider, ClosedForm)
        lower, upper = np.empty(n), np.empty(n)
        for one, rows in by_target(targets, n) if n else ():
            lower[rows], upper[rows] = decider.radius(points[rows], one)
            done(rows.size)
        return CertifiedRadius(lower, upper, index, tol, changes.unit)
    norm, biases = (math.inf, True) if changes is None else (changes.norm, bool(changes.biases))
    network = model.network
    engine = Engine(network, PlausibleChanges(1.0, norm, biases))
    if n:
        engine.prepared(0).error(points)
    lower, upper = np.empty(n), np.empty(n)
    for k, rows in by_target(targets, n) if n else ():
        if not network.hidden:
            radii = balls.linear_radius(
                engine.changes.norm, biases, points[rows], margins_for(network, k)
            )
            lower[rows], upper[rows] = (end.min(axis=1) for end in radii)
            done(rows.size)
            continue
        lower[rows], upper[rows], left = 0.0, math.inf, rows
        if not engine.ball:
            # Groups of rows are the same however many workers there are, and so are their radii.
            groups = cut(rows, engine.group)
            rays = partial(_rays, engine, k, tol, done if len(groups) == 1 else no_bar)
            parts = (points[group] for group in groups)
            ends = map(rays, parts) if len(groups) == 1 else spread(rays, parts)
            for group, (low, high) in zip(groups, ends, strict=True):
                lower[group], upper[group] = low, high
                stubborn = np.isfinite(high) & (high - low > tol)
                done(int((~stubborn).sum()) if len(groups) > 1 else 0)
            left = rows[np.isfinite(upper[rows]) & (upper[rows] - lower[rows] > tol)]
        # One by one what is stubborn, so that nothing waits for it.
        alone = ((points[row : row + 1], lower[row], upper[row]) for row in left)
        halves = partial(_bisected, engine, k, tol)
        for row, both in zip(left, spread(halves, alone), strict=True):
            lower[row], upper[row] = both
            done(1)
    return CertifiedRadius(lower, upper, index, tol)


def _rays(
    engine: Engine, target: int, tol: float, done: Callable[[int], object], points: Floats
) -> tuple[Floats, Floats]:
    return _Rays(engine, target, points, tol, done).run()


def _bisected(
    unit: Engine, target: int, tol: float, part: tuple[Floats, float, float]
) -> tuple[float, float]:
    """The radius of one point by halves between what is proven and what is broken, with all that the engine has.

    Where a radius in between is neither, on either side of it as far as that goes.
    """
    point, low, high = part
    deadline = Deadline.after(_BALL_PATIENCE if unit.ball else _PATIENCE)

    def verdict(radius: float) -> int:
        engine = Engine(unit.network, unit.changes.scaled(radius))
        # One hard radius must not take the time of all the others.
        return int(
            engine.settle(
                point, target, deadline=Deadline.after(0.1 * _PATIENCE), keep=False
            ).verdict[0]
        )

    far = _far(unit.network)
    # What is neither proven nor broken lies in [start, end].
    start, end = math.inf, -math.inf
    # What was handed in may be nearly met.
    first = max(high - 0.75 * tol, 0.5 * (low + high))
    while not deadline.over:
        below, above = min(start, high), max(end, low)
        if below - low > tol:
            radius = 0.5 * (low + below) if below < math.inf else max(4.0 * low, 0.02)
            radius, first = (first, math.inf) if radius < first < below else (radius, first)
        elif high - above > tol:
            radius = 0.5 * (above + high) if high < math.inf else max(4.0 * above, 0.02)
        else:
            break
        if not low < radius < high or radius in (start, end) or radius > far:
            break
        answer = verdict(radius)
        if answer == ROBUST:
            low = radius
        elif answer == NOT_ROBUST:
            high = radius
        else:
            start, end = min(start, radius), max(end, radius)
    return low, high


def _far(network: Network) -> float:
    """A radius beyond which no counter-model is looked for."""
    return _FAR * max(
        1.0, *(float(np.abs(part).max()) for part in (*network.weights, *network.biases))
    )


class _Rays:
    """Radii of some points under the box of radius 1 and its multiples, all rivals together.

    `lower` is proven, at `upper` some network in Δ breaks a margin.
    """

    def __init__(
        self, engine: Engine, target: int, points: Floats, tol: float, done: Callable[[int], object]
    ) -> None:
        self.engine, self.points, self.tol, self.done = engine, points, tol, done
        self.layers = engine.prepared(target).layers
        self.size = np.abs(points).max(axis=1)
        # What bounds rounding where nothing moves, and how much more of it a radius of 1 makes.
        self.norms = [
            [
                (*still, np.subtract(unit, still))
                for still, unit in zip(a.norms, b.norms, strict=True)
            ]
            for a, b in ((layers.scaled(0.0), layers) for layers in self.layers)
        ]
        n = points.shape[0]
        self.lower, self.upper = np.zeros(n), np.full(n, np.inf)
        # The rival that breaks a row at `upper`, and how: each hidden neuron's side.
        self.rival, self.sides = (
            np.zeros(n, dtype=np.intp),
            np.zeros((n, sum(engine.network.hidden))),
        )
        self.far = _far(engine.network)

    @quiet()
    def run(self) -> tuple[Floats, Floats]:
        """Bracket by attacks, close in on their root, prove just below it; follow what a proof meets instead."""
        rows = np.arange(self.points.shape[0])
        still = np.zeros(rows.size)
        error = np.stack([self._error(k, rows, still) for k in range(len(self.layers))])
        today = self._on_sides(rows, still, self.sides)
        self.upper[(today < -WITNESS_SAFETY * error).any(axis=0)] = 0.0
        self._bracket(rows[self.upper > 0.0])
        rows = self._open()
        for _ in range(_ROUNDS):
            if not rows.size:
                break
            self._shrink(rows)
            rows = rows[self._broken_at(rows, np.maximum(self.upper[rows] - 0.25 * self.tol, 0.0))]
        rows, told = self._open(), 0
        for step in range(2 * _ROUNDS):
            closed = self.lower.size - self._open().size
            self.done(closed - told)
            told = closed
            # Just below `upper`; where that was broken, again and again, further below, and in the end by halves.
            middle = 0.5 * (self.lower[rows] + self.upper[rows])
            radius = np.maximum(
                self.upper[rows] - 0.75 * self.tol * 4.0 ** max(step - 4, 0), middle
            )
            between = (radius > self.lower[rows]) & (radius < self.upper[rows])
            rows, radius = rows[between], radius[between]
            if not rows.size:
                break
            broken = self._prove(rows, radius)
            moved = (self.lower[rows] == radius) | (self.upper[rows] == radius)
            self._shrink(broken)
            rows = np.intersect1d(rows[moved], self._open())
        self.done(self.lower.size - self._open().size - told)
        return self.lower, self.upper

    def _open(self) -> Rows:
        return np.flatnonzero((self.upper - self.lower > self.tol) & np.isfinite(self.upper))

    def _at(self, k: int, radius: Floats) -> Layers:
        """The layers at each row's radius; that of a lone row is a number."""
        return self.layers[k].scaled(float(radius[0]) if radius.size == 1 else radius[:, None])

    def _error(self, k: int, rows: Rows, radius: Floats) -> Floats:
        """What rounding may do to a margin at each row's radius."""
        norms = [
            (norm + radius * more[0], edge + radius * more[1], terms)
            for norm, edge, terms, more in self.norms[k]
        ]
        return np.asarray(forward_error(norms, self.size[rows]))

    def _on_sides(self, rows: Rows, radius: Floats, chosen: Floats) -> Floats:
        """Every rival's margin on these sides at each row's radius, (k, n)."""
        margins = []
        for k in range(len(self.layers)):
            layers = self._at(k, radius)
            first, later = np.split(chosen, [layers.hidden[0].weight.shape[0]], axis=1)
            values = layers.hidden[0].on_side(self.points[rows], first)
            margins.append(layers.reach(activated(values, layers.relus[0]), later)[0])
        return np.stack(margins)

    def _broken_at(self, rows: Rows, radius: Floats) -> NDArray[np.bool_]:
        """Whether best responses break a row at this radius, which then is its `upper`."""
        broken = np.zeros(rows.size, dtype=bool)
        for k in range(len(self.layers)):
            left = np.flatnonzero(~broken)
            for part in cut(left, self.engine.chunk):
                here, layers = rows[part], self._at(k, radius[part])
                margin, chosen = attack(layers, self.points[here])
                clear = -WITNESS_SAFETY * self._error(k, here, radius[part])
                hit = np.flatnonzero(margin < clear)
                self._take(here[hit], radius[part[hit]], k, chosen[hit])
                broken[part[hit]] = True
        return broken

    def _take(self, rows: Rows, radius: Floats, k: int, chosen: Floats) -> None:
        self.upper[rows], self.rival[rows], self.sides[rows] = radius, k, chosen

    def _bracket(self, rows: Rows) -> None:
        """Larger radii until a counter-model is met; where none is, even far out, what can be proven there."""
        radius = np.full(rows.size, 0.02)
        while rows.size:
            met = self._broken_at(rows, radius)
            rows, radius = rows[~met], radius[~met] * 4.0
            far = radius > self.far
            while far.any():
                self._prove(rows[far], radius[far])
                rows, radius = rows[~far], radius[~far]
                far = radius > self.far

    def _shrink(self, rows: Rows) -> None:
        """Bring `upper` down to where the counter-model on its sides stops breaking: false position (Illinois)."""
        low, high = self.lower[rows].copy(), self.upper[rows].copy()
        chosen, pick = self.sides[rows], (self.rival[rows], np.arange(rows.size))
        at_low, at_high = (self._on_sides(rows, end, chosen)[pick] for end in (low, high))
        # Of larger radii, and with that no less than of those between.
        errors = np.stack([self._error(k, rows, high) for k in range(len(self.layers))])
        clear, last = -WITNESS_SAFETY * errors[pick], np.zeros(rows.size)
        for step in range(60):
            # Where it breaks already below what is proven, the two disagree by rounding.
            if not (high - low > 0.05 * self.tol).any():
                break
            share = at_low / np.where(at_low > at_high, at_low - at_high, 1.0)
            middle = low + (share if step % 6 != 5 else 0.5) * (high - low)
            edge = np.minimum(0.02 * self.tol, 0.5 * (high - low))
            middle = np.clip(middle, low + edge, high - edge)
            margin = self._on_sides(rows, middle, chosen)[pick]
            broken = margin < clear
            # An end that stays counts half the next time, so that the other comes to it.
            at_low = np.where(
                broken, np.where(last > 0, 0.5, 1.0) * at_low, np.maximum(margin, 0.0)
            )
            at_high = np.where(broken, margin, np.where(last < 0, 0.5, 1.0) * at_high)
            low, high = np.where(broken, low, middle), np.where(broken, middle, high)
            last = np.where(broken, 1.0, -1.0)
        self.upper[rows] = np.minimum(self.upper[rows], high)

    def _prove(self, rows: Rows, radius: Floats) -> Rows:
        """Prove all margins at each row's radius; the rows that a counter-model was met for instead."""
        proven, broken = np.ones(rows.size, dtype=bool), np.zeros(rows.size, dtype=bool)
        for k in range(len(self.layers)):
            left = np.flatnonzero(proven)
            for part in cut(left, self.engine.group):
                layers, here = self._at(k, radius[part]), rows[part]
                error = self._error(k, here, radius[part])
                if len(layers.hidden) == 1:
                    proven[part] = layers.least(self.points[here]) > error
                    continue
                search = Search(
                    layers, self.points[here], np.full(part.size, np.inf), error, fine=True
                )
                search.run(_PROOF_NODES, NO_LIMIT)
                proven[part] = search.closed & (search.lower > 0.0)
                hit = np.flatnonzero(search.broken)
                self._take(here[hit], radius[part[hit]], k, search.sides(hit))
                broken[part[hit]] = True
        self.lower[rows[proven]] = np.maximum(self.lower[rows[proven]], radius[proven])
        return np.asarray(rows[broken])
