"""The certified radius: the largest delta for which a point keeps its class.

For each rival the adversary's best response gives a radius at which a counter-model exists; a root search lowers it
to the boundary. A proof just below ends the search. If the proof finds a counter-model instead, the search
continues from there. Every row has its own radius, so the whole table is searched together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._given import positive_number
from holdfast._network import Bools, Floats, Ints, Network, Pair
from holdfast._parallel import jobs, spread
from holdfast._progress import Advance, no_bar, progress_bar
from holdfast._shown import HEAD, Shown, Summary, draw
from holdfast.bounds import _balls as balls
from holdfast.bounds._layers import Layers, activated, forward_error
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

# How often the counter-model of a failed attack or proof is followed.
_ROUNDS = 12
# A radius beside which no parameter counts.
_VAST = 2.0**100
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
    """For each row: robust for every delta < `lower`, and a counter-model exists at `upper`."""

    lower: Floats
    upper: Floats
    index: pd.Index
    tol: float = 1e-6
    # What the radius is: delta, or the margin or radius of another kind of change.
    unit: str = "delta"

    @property
    def met(self) -> Bools:
        """True where the radius is within the requested tolerance, or is proven to be infinite."""
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
        """Plot the share of points that are proven robust, for every delta.

        Parameters
        ----------
        ax
            The axes to draw on; new axes by default.
        delta
            Deltas to mark on the curve: a number, several, a value of `changes=`, or a chosen delta.
        moved
            Distances of retrainings from today's model, drawn as ticks: numbers, or a `RetrainedModels`.
        """
        picture: Axes = draw(self, ax, delta=delta, moved=moved)
        return picture

    def __len__(self) -> int:
        return len(self.lower)

    def __repr__(self) -> str:
        if not len(self):
            return "CertifiedRadius(0 rows)"
        ends = f"{self.lower.min():.4g} to {self.lower.max():.4g}"
        return f"CertifiedRadius({len(self)} rows: {ends}, median {np.median(self.lower):.4g})"

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
        head = pd.DataFrame(
            {"robust below": self.lower[:HEAD], "broken at": self.upper[:HEAD]},
            index=self.index[:HEAD],
        )
        facts = [
            ("least", self.lower.min(initial=np.inf)),
            ("median", np.median(self.lower) if len(self) else None),
            ("largest", self.lower.max(initial=0.0)),
            ("rejected today", int((self.upper == 0.0).sum())),
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
        As for `PlausibleChanges`. In a norm other than ∞ a row takes up to two seconds if the network has two or more
        hidden layers.
    changes
        Another kind of change; its own size does not matter. The result is the largest margin of a `PlausibleShift`
        or an `EnsembleShift`, or the largest radius of an `Ellipsoid`.
    tol
        Largest ``upper - lower``; `met` is False where rounding or the budget of a search prevented it.
    n_jobs
        The number of groups of rows that run in parallel, as for `certify`. The result does not depend on it.
    progress
        Show a progress bar on stderr. By default it shows from 200 rows on if stderr is a terminal.

    Examples
    --------
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> radius = certified_radius(net, [[0.7, 0.9], [0.7, 0.5]], 1)
    >>> radius.lower.round(6)
    array([0.076923, 0.      ])
    """
    table = read_table(load_model(model, threshold), X, space)
    targets = read_targets(table.model.classifier, target, len(table.points))
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
    targets: Ints,
    changes: Changes | None,
    *,
    tol: float = 1e-6,
    index: pd.Index | None = None,
    advance: Advance = no_bar,
    deadline: Deadline = NO_LIMIT,
) -> CertifiedRadius:
    """`certified_radius` for given points and class indices; None means `PlausibleChanges` in norm inf.

    A shape with radii by layer or by parameter is scaled as a whole. If the time is over, each end is the last known.
    """
    tol, n = positive_number(tol, "tol"), len(points)
    kind = PlausibleChanges(1.0) if changes is None else changes
    if kind.threshold is not None:
        if n:
            # At the hardest threshold; what is decided there is decided about a model like any other.
            at_hardest = toward(decider_for(model, kind), targets).model
            assert at_hardest is not None
            model = at_hardest
        kind = kind.moving(None)
    if isinstance(kind, PlausibleChanges):
        kind = PlausibleChanges(1.0, kind.norm, bool(kind.biases))
    decider = decider_for(model, kind)
    if isinstance(decider, Engine):
        # It is sent to other processes, and its model may be large.
        decider.model = None
    lower, upper = np.empty(n), np.empty(n)
    for one, rows in by_target(targets, n):
        if deadline.over:
            ends = np.zeros(rows.size), np.full(rows.size, np.inf)
        elif isinstance(decider, Engine):
            ends = _of_network(decider, one, points[rows], tol, advance, deadline)
        else:
            assert isinstance(decider, ClosedForm)
            ends = decider.radius(points[rows], one)
            advance(rows.size)
        lower[rows], upper[rows] = ends
    index = pd.RangeIndex(n) if index is None else index
    return CertifiedRadius(lower, upper, index, tol, kind.unit)


def _of_network(
    engine: Engine, target: int, points: Floats, tol: float, advance: Advance, deadline: Deadline
) -> Pair:
    """The radii of a network's points of one class, for multiples of a set with radius 1."""
    prepared, changes, n = engine.prepared(target), engine.changes, len(points)
    prepared.error(points)
    if not engine.network.hidden:
        low, high = balls.linear_radius(
            changes.norm, bool(changes.biases), points, prepared.margins
        )
        advance(n)
        return low.min(axis=1), high.min(axis=1)
    lower, upper, left = np.zeros(n), np.full(n, np.inf), np.arange(n)
    if not engine.ball:
        # Groups of rows are the same however many workers there are, and so are their radii.
        groups = cut(left, engine.group)
        each = map if len(groups) == 1 else spread
        rays = each(
            partial(_rays, engine, target, tol, deadline), [points[group] for group in groups]
        )
        for group, ends in zip(groups, rays, strict=True):
            lower[group], upper[group] = ends
            advance(group.size - _open(*ends, tol).size)
        left = _open(lower, upper, tol)
    # One by one what is stubborn, so that nothing waits for it.
    alone = ((points[row : row + 1], lower[row], upper[row]) for row in left)
    halves = spread(partial(_bisected, engine, target, tol, deadline), alone)
    for row, both in zip(left, halves, strict=True):
        lower[row], upper[row] = both
        advance(1)
    return lower, upper


def _open(lower: Floats, upper: Floats, tol: float) -> Ints:
    """The rows with a counter-model whose radius is not yet within the tolerance."""
    return np.flatnonzero((upper - lower > tol) & np.isfinite(upper))


def _between(low: float, high: float) -> float:
    """The next radius to try; it grows while no known radius breaks the point."""
    return 0.5 * (low + high) if high < math.inf else max(4.0 * low, 0.02)


def _bisected(
    unit: Engine, target: int, tol: float, deadline: Deadline, part: tuple[Floats, float, float]
) -> tuple[float, float]:
    """Bisect the radius of one point between proven and broken, with all stages of the engine.

    If a radius in between is undecided, the search continues on both sides of it.
    """
    point, low, high = part
    deadline = deadline.within(_BALL_PATIENCE if unit.ball else _PATIENCE)
    far = _far(unit.network)
    # The greatest radius that was not broken, and the least that was not proven.
    kept, doubted = low, high
    # What was handed in may be nearly met.
    first = max(high - 0.75 * tol, _between(low, high))
    while not deadline.over:
        bottom, top = (low, doubted) if doubted - low > tol else (kept, high)
        radius = first if bottom < first < top else _between(bottom, top)
        if not (top - bottom > tol and bottom < radius < top and radius <= far):
            break
        first = math.inf
        engine = Engine(unit.network, unit.changes.scaled(radius))
        # One hard radius must not take the time of all the others.
        limit = Deadline.after(0.1 * _PATIENCE)
        (verdict,) = engine.settle(point, target, deadline=limit, keep=False).verdict
        low, doubted = (radius, doubted) if verdict == ROBUST else (low, min(doubted, radius))
        high, kept = (radius, kept) if verdict == NOT_ROBUST else (high, max(kept, radius))
    return low, high


def _far(network: Network) -> float:
    """The largest radius at which the search looks for a counter-model."""
    return _FAR * max(
        1.0, *(float(np.abs(part).max()) for part in (*network.weights, *network.biases))
    )


@quiet()
def _rays(engine: Engine, target: int, tol: float, deadline: Deadline, points: Floats) -> Pair:
    """Radii of some points under a box, all rivals together."""
    rays = _Rays(engine, target, tol, points, deadline)
    rays.bracket()
    rays.follow()
    rays.prove()
    return rays.lower, rays.upper


class _Rays:
    """Radii of some points under the box of radius 1 and its multiples, all rivals together.

    `lower` is proven; at `upper` some network in Δ breaks a margin.
    """

    def __init__(
        self,
        engine: Engine,
        target: int,
        tol: float,
        points: Floats,
        deadline: Deadline = NO_LIMIT,
    ) -> None:
        self.engine, self.points, self.tol, self.deadline = engine, points, tol, deadline
        self.layers = engine.prepared(target).layers
        self.size = np.abs(points).max(axis=1)
        # What bounds rounding where nothing moves, and how much more of it a radius of 1 makes, (layers, 3, 1).
        self.still, self.more = (
            np.max([one.scaled(scale).norms for one in self.layers], axis=0)[:, :, None] / most
            for scale, most in ((0.0, 1.0), (_VAST, _VAST))
        )
        n = len(points)
        self.lower, self.upper = np.zeros(n), np.full(n, np.inf)
        # The rival that breaks a row at `upper`, and how: each hidden neuron's side.
        self.rival = np.zeros(n, dtype=np.intp)
        self.sides = np.zeros((n, sum(engine.network.hidden)))

    def bracket(self) -> None:
        """Enlarge the radii from 0 until a counter-model is met; if none is, prove the largest radius."""
        rows, radius, far = np.arange(self.size.size), 0.0, _far(self.engine.network)
        while rows.size and radius <= far and not self.deadline.over:
            rows = rows[~self._broken_at(rows, np.full(rows.size, radius))]
            radius = _between(radius, math.inf)
        self._prove(rows, np.full(rows.size, radius))

    def follow(self) -> None:
        """Shrink the radius of each counter-model to where it stops breaking, until attacks find none just below."""
        rows = _open(self.lower, self.upper, self.tol)
        for _ in range(_ROUNDS):
            if not rows.size:
                break
            self._shrink(rows)
            rows = rows[self._broken_at(rows, np.maximum(self.upper[rows] - 0.25 * self.tol, 0.0))]

    def prove(self) -> None:
        """Prove just below `upper`; if the proof meets a counter-model, follow it."""
        rows = _open(self.lower, self.upper, self.tol)
        for step in range(2 * _ROUNDS):
            # Where it was broken again and again, further below, and in the end by halves.
            low, high = self.lower[rows], self.upper[rows]
            below = high - 0.75 * self.tol * 4.0 ** max(step - 4, 0)
            radius = np.maximum(below, 0.5 * (low + high))
            between = (radius > low) & (radius < high)
            rows, radius = rows[between], radius[between]
            if not rows.size or self.deadline.over:
                break
            self._prove(rows, radius)
            proven, broken = (end[rows] == radius for end in (self.lower, self.upper))
            self._shrink(rows[broken])
            rows = np.intersect1d(rows[proven | broken], _open(self.lower, self.upper, self.tol))

    def _at(self, k: int, radius: Floats) -> Layers:
        """The layers at each row's radius; the radius of a single row is a number."""
        return self.layers[k].scaled(float(radius[0]) if radius.size == 1 else radius[:, None])

    def _error(self, rows: Ints, radius: Floats) -> Floats:
        """A bound of the rounding error of a margin at each row's radius."""
        return np.asarray(forward_error(self.still + self.more * radius, self.size[rows]))

    def _on_sides(self, rows: Ints, radius: Floats) -> Floats:
        """The margin over each row's rival at another radius, on the sides that broke the row, (n,)."""
        margins, rivals = np.empty(rows.size), self.rival[rows]
        for k in np.unique(rivals):
            part = np.flatnonzero(rivals == k)
            here, layers = rows[part], self._at(k, radius[part])
            first, later = np.split(self.sides[here], [layers.hidden[0].weight.shape[0]], axis=1)
            values = layers.hidden[0].on_side(self.points[here], first)
            margins[part] = layers.reach(activated(values, layers.relus[0]), later)[0]
        return margins

    def _broken_at(self, rows: Ints, radius: Floats) -> Bools:
        """Whether best responses break a row at this radius; it then becomes `upper`."""
        broken = np.zeros(rows.size, dtype=bool)
        for k in range(len(self.layers)):
            for part in cut(np.flatnonzero(~broken), self.engine.chunk):
                here = rows[part]
                margin, chosen = attack(self._at(k, radius[part]), self.points[here])
                hit = margin < -WITNESS_SAFETY * self._error(here, radius[part])
                self._take(here[hit], radius[part[hit]], k, chosen[hit])
                broken[part] = hit
        return broken

    def _take(self, rows: Ints, radius: Floats, k: int, chosen: Floats) -> None:
        self.upper[rows], self.rival[rows], self.sides[rows] = radius, k, chosen

    def _shrink(self, rows: Ints) -> None:
        """Lower `upper` to where the counter-model on its sides stops breaking, by false position (Illinois)."""
        low, high = self.lower[rows], self.upper[rows]
        at_low, at_high = self._on_sides(rows, low), self._on_sides(rows, high)
        # Of larger radii, and with that no less than of those between.
        clear, last = -WITNESS_SAFETY * self._error(rows, high), np.zeros(rows.size)
        for step in range(60):
            # Where it breaks already below what is proven, the two disagree by rounding.
            if not (high - low > 0.05 * self.tol).any():
                break
            share = at_low / np.where(at_low > at_high, at_low - at_high, 1.0)
            middle = low + (share if step % 6 != 5 else 0.5) * (high - low)
            edge = np.minimum(0.02 * self.tol, 0.5 * (high - low))
            middle = np.clip(middle, low + edge, high - edge)
            margin = self._on_sides(rows, middle)
            broken = margin < clear
            # An end that stays counts half the next time, so that the other comes to it.
            at_low = np.where(
                broken, np.where(last > 0, 0.5, 1.0) * at_low, np.maximum(margin, 0.0)
            )
            at_high = np.where(broken, margin, np.where(last < 0, 0.5, 1.0) * at_high)
            low, high = np.where(broken, low, middle), np.where(broken, middle, high)
            last = np.where(broken, 1.0, -1.0)
        self.upper[rows] = np.minimum(self.upper[rows], high)

    def _prove(self, rows: Ints, radius: Floats) -> None:
        """Prove all margins at each row's radius; if a counter-model is met, the radius becomes `upper`."""
        proven = np.ones(rows.size, dtype=bool)
        for k in range(len(self.layers)):
            for part in cut(np.flatnonzero(proven), self.engine.group):
                layers, here = self._at(k, radius[part]), rows[part]
                error = self._error(here, radius[part])
                if len(layers.hidden) == 1:
                    proven[part] = layers.least(self.points[here]) > error
                    continue
                start = np.full(part.size, np.inf)
                search = Search(layers, self.points[here], start, error, fine=True)
                search.run(_PROOF_NODES, self.deadline)
                proven[part] = search.closed & (search.lower > 0.0)
                hit = np.flatnonzero(search.broken)
                self._take(here[hit], radius[part[hit]], k, search.sides(hit))
        self.lower[rows[proven]] = radius[proven]
