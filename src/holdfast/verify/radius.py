"""The certified radius: how far the model may drift before a point can lose its class.

For each rival the adversary's best response gives a radius at which a counter-model exists; a root search brings it
down to the boundary. A proof just below it then closes the case, and where the proof finds a counter-model instead, the
search goes on from there. Every row has its own radius all along, so the whole table moves together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.arrays import to_numpy
from holdfast.bounds.abstraction import IntervalNetwork, Margin, margins_for
from holdfast.bounds.linear import pull_back, relax, value_box
from holdfast.changes import PlausibleChanges
from holdfast.errors import InvalidInputError, UnsupportedModelError
from holdfast.network import CHUNK, Floats, Network
from holdfast.notebook import HEAD, never_fails, show
from holdfast.verify.attack import best_response
from holdfast.verify.balls import ball_error
from holdfast.verify.branch import branch_and_bound, sides_of
from holdfast.verify.exact import settle_exactly
from holdfast.verify.inputs import Space, check_scale, positive_number, read_table, read_targets
from holdfast.verify.problem import WITNESS_SAFETY, Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = NDArray[np.intp]

# How often the counter-model of a failed proof is followed before a row counts as stubborn.
_PROOF_ROUNDS = 12
# Branches that a proof may take; one costs a hundredth of a program, so it may take many.
_PROOF_NODES = 20_000
# Where no counter-model is met up to this radius, the search ends with what can be proven there.
_FAR = 1e6


@dataclass(frozen=True)
class CertifiedRadius:
    """For each row: robust for every delta < `lower`; a counter-model exists at `upper`."""

    lower: Floats
    upper: Floats
    index: pd.Index

    def to_frame(self) -> pd.DataFrame:
        """One row for each point, with the caller's index."""
        return pd.DataFrame({"radius_lower": self.lower, "radius_upper": self.upper}, index=self.index)

    def plot(self, ax: Axes | None = None, *, delta: Any = None, moved: Any = None) -> Axes:
        """For every delta the share of points that provably survive it.

        Parameters
        ----------
        ax
            Where to draw; new axes by default.
        delta
            What to read off the curve: a number or several, a `PlausibleChanges`, or a delta that was chosen.
        moved
            How far retrainings moved the model, as ticks: numbers, or a `RetrainedModels`.
        """
        from holdfast.verify.plots import draw_survival

        return draw_survival(self.lower, ax, delta=delta, moved=moved)

    def __len__(self) -> int:
        return int(self.lower.shape[0])

    def __repr__(self) -> str:
        median = f", median {np.median(self.lower):.4g}" if len(self) else ""
        spread = f": {self.lower.min():.4g} to {self.lower.max():.4g}{median}" if len(self) else ""
        return f"CertifiedRadius({len(self)} rows{spread})"

    @never_fails
    def _repr_html_(self) -> str:
        head = pd.DataFrame({"safe below": self.lower[:HEAD], "broken at": self.upper[:HEAD]}, index=self.index[:HEAD])
        facts = [
            ("least", self.lower.min(initial=np.inf)),
            ("median", np.median(self.lower) if len(self) else None),
            ("largest", self.lower.max(initial=0.0)),
            ("lost today already", int((self.upper == 0.0).sum())),
        ]
        return show(
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
) -> CertifiedRadius:
    """The largest delta for which each row keeps its class, to within `tol`.

    Parameters
    ----------
    model, X, target, space
        As for `certify`.
    norm, biases
        As for `PlausibleChanges`. For norms other than inf the radius is exact without hidden layers; with hidden
        layers it is supported for norm inf only.
    tol
        The greatest `upper - lower` wanted.

    Examples
    --------
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> radius = certified_radius(net, [[0.7, 0.9], [0.7, 0.5]], 1)
    >>> radius.lower.round(6)
    array([0.076923, 0.      ])
    """
    tol = positive_number(tol, "tol")
    unit = PlausibleChanges(1.0, norm, biases)
    table = read_table(model, X, space)
    network, points = table.network, table.points
    targets = read_targets(network, target, points.shape[0])
    check_scale(network, unit, points)
    if not network.rectified:
        raise UnsupportedModelError(
            f"certified_radius: expected ReLU after every hidden layer, got {network.activations}"
        )
    if network.hidden and unit.norm != math.inf:
        raise InvalidInputError(f"norm: expected inf for a network with hidden layers, got {norm}")
    lower, upper = np.full(points.shape[0], np.inf), np.full(points.shape[0], np.inf)
    for k in np.unique(targets):
        rows = np.flatnonzero(targets == k)
        lows: list[Floats] = []
        for margin in margins_for(network, int(k)):
            low, high = _margin_radius(network, unit, points[rows], int(k), margin, tol)
            lows.append(low)
            upper[rows] = np.minimum(upper[rows], high)
        for margin, low in zip(margins_for(network, int(k)), lows, strict=True):
            # A rival that never breaks the row need only be held off as far as the others let it go.
            short = np.isfinite(upper[rows]) & (low < upper[rows] - tol)
            if network.hidden and short.any():
                search = _Search(network, unit, points[rows[short]], int(k), margin, tol)
                low[short], upper[rows[short]] = search.run_to(low[short], upper[rows[short]])
            lower[rows] = np.minimum(lower[rows], low)
    return CertifiedRadius(lower, upper, table.index)


def _margin_radius(
    network: Network, unit: PlausibleChanges, points: Floats, target: int, margin: Margin, tol: float
) -> tuple[Floats, Floats]:
    if not network.hidden:
        return _linear_radius(network, unit, points, margin)
    lower, upper = np.empty(points.shape[0]), np.empty(points.shape[0])
    for start in range(0, points.shape[0], CHUNK):
        part = slice(start, start + CHUNK)
        lower[part], upper[part] = _Search(network, unit, points[part], target, margin, tol).run()
    return lower, upper


def _linear_radius(network: Network, unit: PlausibleChanges, points: Floats, margin: Margin) -> tuple[Floats, Floats]:
    """margin / (count^(1/q) ||(x, 1)||_q)."""
    q = unit.dual_norm
    extended = np.concatenate([points, np.ones((points.shape[0], 1))], axis=1) if unit.biases else points
    reach = np.linalg.norm(extended, ord=q, axis=1) * margin.count ** (0.0 if q == math.inf else 1.0 / q)
    nominal = points @ margin.row + margin.offset
    error = ball_error(network, PlausibleChanges(1e-6, unit.norm, unit.biases), points)
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.maximum(nominal - error, 0.0) / reach, np.maximum(nominal + error, 0.0) / reach
    # A point at the origin of a model without biases does not feel any change.
    still = reach == 0.0
    low, high = np.where(still & (nominal > error), np.inf, low), np.where(still & (nominal > -error), np.inf, high)
    return np.nan_to_num(low * (1 - 1e-14), posinf=np.inf), np.nan_to_num(high * (1 + 1e-14), posinf=np.inf)


class _Search:
    """Radii of one margin at some points of a network with hidden layers."""

    def __init__(
        self, network: Network, unit: PlausibleChanges, points: Floats, target: int, margin: Margin, tol: float
    ) -> None:
        self.network, self.unit, self.points, self.target, self.margin, self.tol = (
            network,
            unit,
            points,
            target,
            margin,
            tol,
        )
        self.net = IntervalNetwork.of(network, unit)
        self.lower, self.upper = np.zeros(points.shape[0]), np.full(points.shape[0], np.inf)
        self.settled = np.zeros(points.shape[0], dtype=bool)

    def run(self) -> tuple[Floats, Floats]:
        """Bracket, search, prove; what resists is proven one point at a time."""
        today = Problem.of(self.network, self.net.scaled(0.0), self.margin, self.points)
        nominal = best_response(today, rounds=1).margin
        broken = nominal < -WITNESS_SAFETY * to_numpy(today.error)
        self.upper[broken] = 0.0
        self._bracket(np.flatnonzero(~broken))
        self._root(self._open())
        self._prove_rest()
        return self.lower, self.upper

    def run_to(self, lower: Floats, cap: Floats) -> tuple[Floats, Floats]:
        """Prove as far as `cap`, beyond which nobody asks, from what is proven already."""
        self.lower, self.upper = lower.copy(), cap.copy()
        self._prove_rest()
        return self.lower, self.upper

    def _prove_rest(self) -> None:
        stubborn = np.zeros(self.points.shape[0], dtype=bool)
        for _ in range(_PROOF_ROUNDS):
            rest = self._open()
            rest = rest[~stubborn[rest]]
            if not rest.size:
                break
            stubborn[self._prove(rest)] = True
        for row in self._open():
            self._prove_one(int(row))

    def _open(self) -> Rows:
        return np.flatnonzero(~self.settled & (self.upper - self.lower > self.tol))

    def _problem(self, rows: Rows, radius: Floats) -> Problem:
        return Problem.of(self.network, self.net.scaled(radius[:, None]), self.margin, self.points[rows])

    def _breaks(self, rows: Rows, radius: Floats) -> tuple[Floats, Floats]:
        """The best response's margin at each row's radius, and the margin below which it counts as broken."""
        problem = self._problem(rows, radius)
        return best_response(problem).margin, -WITNESS_SAFETY * problem.error

    def _bracket(self, rows: Rows) -> None:
        """Double the radius until a counter-model is met."""
        radius = np.full(rows.shape[0], 0.02)
        while rows.size:
            found, clear = self._breaks(rows, radius)
            met = found < clear
            self.upper[rows[met]] = radius[met]
            rows, radius = rows[~met], radius[~met] * 2.0
            far = radius > _FAR
            if far.any():
                self._prove_far(rows[far])
            rows, radius = rows[~far], radius[~far]

    def _prove_far(self, rows: Rows) -> None:
        """Rows that nothing breaks: `upper` stays infinite, and `lower` is what a proof reaches."""
        self.settled[rows] = True
        radius = _FAR
        while rows.size and radius > self.tol:
            proven = self._proven_at(rows, np.full(rows.shape[0], radius))
            self.lower[rows[proven]] = radius
            rows, radius = rows[~proven], radius / 4.0

    def _root(self, rows: Rows) -> None:
        """Shrink `upper` to where the best response stops breaking: false position with a safeguard, rows together."""
        low, high = self.lower[rows].copy(), self.upper[rows].copy()
        at_low, _ = self._breaks(rows, low)
        at_high, _ = self._breaks(rows, high)
        at_low = np.maximum(at_low, 1e-12)
        for step in range(60):
            wide = high - low > 0.25 * self.tol
            if not wide.any():
                break
            share = at_low / (at_low - np.minimum(at_high, -1e-300))
            # Aim a little beyond the estimate, so that the bracket closes from both sides; every third step bisects.
            share = np.clip(share, 0.02, 0.98) if step % 3 else np.full_like(share, 0.5)
            middle = low + share * (high - low)
            found, clear = self._breaks(rows, middle)
            broken = found < clear
            high, at_high = np.where(broken, middle, high), np.where(broken, found, at_high)
            low, at_low = np.where(broken, low, middle), np.where(broken, at_low, np.maximum(found, 1e-12))
        self.upper[rows] = high

    def _prove(self, rows: Rows) -> Rows:
        """Prove each row a little below its `upper`, or follow the counter-model met there; return the stubborn."""
        radius = self._just_below(rows)
        problem = self._problem(rows, radius)
        if self.net.depth == 1:
            proven = self._proven_at(rows, radius)
            self.lower[rows[proven]] = radius[proven]
            return np.asarray(rows[~proven])
        found = branch_and_bound(problem, np.full(rows.shape[0], np.inf), max_nodes=_PROOF_NODES)
        broken = found.upper < -WITNESS_SAFETY * to_numpy(problem.error)
        proven = ~broken & ~found.open
        self.lower[rows[proven]] = radius[proven]
        if broken.any():
            sides = sides_of(problem, found.values)
            self._follow(rows[broken], radius[broken], sides[broken])
        return np.asarray(rows[~broken & ~proven])

    def _proven_at(self, rows: Rows, radius: Floats) -> NDArray[np.bool_]:
        """Whether one linear bound at each row's radius proves it; exact with one hidden layer."""
        problem = self._problem(rows, radius)
        box = value_box(problem.net, problem.points, problem.rounding, problem.sizes)
        relaxation, _ = relax(problem.net, box, problem.rounding, problem.sizes)
        return to_numpy(pull_back(problem.net, relaxation, problem.row, problem.offset).bound > problem.error)

    def _just_below(self, rows: Rows) -> Floats:
        middle = 0.5 * (self.lower[rows] + self.upper[rows])
        return np.asarray(np.maximum(self.upper[rows] - 0.9 * self.tol, middle))

    def _follow(self, rows: Rows, radius: Floats, sides: Floats) -> None:
        """Bring `upper` down to the radius at which a counter-model on these sides stops breaking."""
        low, high = self.lower[rows].copy(), radius.copy()
        while (high - low > 0.05 * self.tol).any():
            middle = 0.5 * (low + high)
            problem = self._problem(rows, middle)
            broken = _margin_on_sides(problem, sides) < -WITNESS_SAFETY * to_numpy(problem.error)
            low, high = np.where(broken, low, middle), np.where(broken, middle, high)
        self.upper[rows] = high

    def _prove_one(self, row: int) -> None:
        """The search that solves a program for each branch."""
        here = np.array([row])
        for _ in range(2 * _PROOF_ROUNDS):
            if self.upper[row] - self.lower[row] <= self.tol:
                return
            radius = self._just_below(here)
            changes = PlausibleChanges(float(radius[0]), biases=self.unit.biases)
            net = IntervalNetwork.of(self.network, changes)
            problem = Problem.of(self.network, net, self.margin, self.points[here])
            answer = settle_exactly(problem, changes.layer_radii(self.network))
            if answer.robust:
                self.lower[row] = radius[0]
            elif answer.sides is not None:
                self._follow(here, radius, answer.sides[None, :])
            else:
                return


def _margin_on_sides(problem: Problem, sides: Floats) -> Floats:
    """The margin of the networks whose hidden neurons sit on `sides`, each at its row's radius."""
    net, values, start = problem.net, problem.points, 0
    for i, size in enumerate(problem.network.hidden):
        reach = np.abs(values).sum(axis=1, keepdims=True) * net.weight_radii[i] + net.bias_radii[i]
        preactivation = values @ net.weights[i].T + net.biases[i] + sides[:, start : start + size] * reach
        values, start = np.maximum(preactivation, 0.0), start + size
    return np.asarray((values * problem.row).sum(axis=1) + problem.offset)
