"""The cheapest accepted point there is, with a proof: cutting planes.

    master   the cheapest point that every model named so far accepts: a mixed-integer program, and a lower bound
    judge    does every model that matters accept it? If not, name one that objects

Repeat until the judge accepts, or the bound meets the best answer. Any model that has to accept is a valid cut, so the
master's bound is proven however the cuts were found. What is handed out is settled in the caller's units and judged
after that; the solver's own point is never trusted.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np

from holdfast.features import FeatureSpace
from holdfast.generators.acceptance import Judge
from holdfast.generators.descent import Descent, Start
from holdfast.milp.acceptor import Acceptor
from holdfast.milp.domain import ON_GRID, Domain
from holdfast.milp.people import Limits, wide_grids
from holdfast.milp.recourse import Cheapest, RecourseProgram
from holdfast.milp.solve import SolveStatus
from holdfast.network import Floats

# A gap below this is a proof: HiGHS works to 1e-6, relatively.
PROVEN = 1e-6
# A model that rejects a point by less than this may be one that the solver satisfied up to its tolerances.
_CLEAR = 1e-7
# Margins asked for on top where rounding is in the way, one after the other.
_EXTRA = (1e-7, 1e-6, 1e-5, 1e-4)
# With infinite ranges the search grows from a small radius.
_FIRST_RADIUS, _LAST_RADIUS = 1.0, 1e6
_MOST_ROUNDINGS = 6
_MOST_ROUNDS = 1000
_SNAP = 1e-9
# Relatively: a saving of less than this is none.
_CLEARLY = 1e-5


@dataclass(frozen=True)
class Answer:
    """The best point found (None if none), its cost, and a proven lower bound; infinite if no point exists."""

    point: Floats | None
    cost: float
    bound: float
    rounds: int

    @property
    def impossible(self) -> bool:
        """Whether it is proven that no point exists."""
        return self.point is None and self.bound == np.inf

    @property
    def gap(self) -> float:
        """How far, relatively, the cost may lie above the least possible."""
        gap = (self.cost - self.bound) / max(self.cost, 1e-12)
        return 0.0 if gap <= PROVEN else gap


@dataclass
class CuttingPlanes:
    """One person's search."""

    judge: Judge
    space: FeatureSpace
    domain: Domain
    limits: Limits
    deadline: float | None
    any_will_do: bool = False

    def run(self) -> Answer:
        """Search to the end, or until the deadline."""
        self.best, self.bound, self.rounds = Start(), 0.0, 0
        self.demand, self.radius = 0.0, np.inf
        self.cuts: list[Acceptor] = self.judge.opening(self.domain)
        self._start()
        # Without a radius to make them short, very fine grids are better left out at first.
        self.all_grids = self.best.point is not None
        if self.best.point is None and not np.isfinite([self.domain.lower, self.domain.upper]).all():
            self.radius = _FIRST_RADIUS
        while not self._done() and self.rounds < _MOST_ROUNDS:
            self.rounds += 1
            if not self._round():
                break
        return Answer(self.best.point, self.best.cost, min(self.bound, self.best.cost), self.rounds)

    def _start(self) -> None:
        """A first answer and first cuts, from a search that follows slopes."""
        found = Descent(self.judge, self.space, self.domain, self._left).run()
        if self.limits.hull is not None:
            # Its own points span the hull, and each of them is accepted.
            self._offer(self.limits.hull, judged=True)
        elif found.point is not None:
            self._offer(found.point[None, :], judged=True)
        at = self.domain.own if self.best.point is None else self.best.point
        known = {objection.network for objection in found.objections[-2:]}
        known |= {objection.network for objection in self.judge.objections(at, self.domain)[:1]}
        if not self.cuts:
            self.cuts = [self.judge.cut(network) for network in known]

    def _done(self) -> bool:
        found = self.best.point is not None
        proven = found and self.best.cost - self.bound <= PROVEN * self.best.cost
        return proven or (found and self.any_will_do) or self._left() == 0.0

    def _left(self) -> float | None:
        """Seconds left, or None without a limit."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)

    def _round(self) -> bool:
        """One master problem and the judge's answer to it; False where nothing more can be learnt."""
        region = self.domain.within(min(self.best.cost, self.radius))
        program = RecourseProgram.of(
            region, self.cuts, demand=self.demand, limits=self.limits, all_grids=self.all_grids
        )
        found = program.solve(time_limit=self._left())
        self._learn(found)
        if found.status is SolveStatus.INFEASIBLE:
            return self._widen()
        if found.point is None or found.values is None or self._done():
            return False
        self._offer(self._settled(found.point))
        if self._done() or self._add_cuts(found.point) or self._push(program, found.values):
            return True
        # An answer from beyond the radius: the bound was held at the radius, and its own cost takes over now.
        guessed, self.radius = self.radius, np.inf
        return self.best.point is not None and guessed < np.inf

    def _learn(self, found: Cheapest) -> None:
        """Raise the bound: by the solver's own, or by the radius if nothing lies within it."""
        if self.demand > 0.0:
            return
        limit = min(self.best.cost, self.radius)
        self.bound = max(self.bound, min(found.bound, limit))

    def _widen(self) -> bool:
        """Nothing within the radius: look further, unless that proves the best answer or that there is none."""
        if self.radius >= self.best.cost or not np.isfinite(self.radius):
            return False
        self.radius *= 4.0
        return self.radius <= _LAST_RADIUS

    def _add_cuts(self, point: Floats, *, thorough: bool = False) -> bool:
        """Let the models that clearly reject the solver's point become cuts."""
        objections = self.judge.objections(point, self.domain, thorough=thorough, seconds=self._left())
        new = [objection for objection in objections if objection.margin < -_CLEAR]
        self.cuts += [self.judge.cut(objection.network) for objection in new]
        return bool(new)

    def _push(self, program: RecourseProgram, values: Floats) -> bool:
        """The solver's point is accepted up to rounding: ask for a little more margin, then for exact grids."""
        if not self.all_grids and wide_grids(self.domain.within(self.best.cost)).any():
            self.all_grids = True
            return True
        for extra in _EXTRA:
            polished = program.polish(values, extra, self._left())
            if polished.point is None:
                break
            if self._offer(self._settled(polished.point)):
                break
            if self._add_cuts(polished.point, thorough=True):
                return True
        if self._done():
            return True
        self._offer(self._settled(values[program.columns]), hairline=True)
        if self._done():
            return True
        if self._add_cuts(values[program.columns], thorough=True):
            return True
        if self.best.point is None and self.demand < _EXTRA[-1]:
            self.demand = max(10.0 * self.demand, _EXTRA[0])
            return True
        return False

    def _settled(self, point: Floats) -> Floats:
        """Admissible points around the solver's, each a row of the caller's table: every rounding of fine grids."""
        domain = self.domain
        point = np.where(np.abs(point - domain.own) < _SNAP, domain.own, point)
        stepped = domain.step > 0.0
        anchor, unit = np.where(stepped, domain.low, 0.0), np.where(stepped, domain.step, 1.0)
        steps = (point - anchor) / unit
        between = stepped & (np.abs(steps - np.rint(steps)) > ON_GRID) & (point != domain.own)
        loose = np.flatnonzero(between)[:_MOST_ROUNDINGS]
        options = [point]
        for rounding in itertools.product((np.floor, np.ceil), repeat=loose.size):
            option = point.copy()
            for i, direction in zip(loose, rounding, strict=True):
                option[i] = anchor[i] + direction(steps[i]) * unit[i]
            options.append(option)
        return np.unique(self.space.project(np.array(options), domain.own[None, :]), axis=0)

    def _offer(self, points: Floats, *, judged: bool = False, hairline: bool = False) -> bool:
        """Take the cheapest of the points that is accepted and better than the best; whether there was one."""
        own = self.domain.own[None, :]
        costs = np.abs(points - own) @ self.domain.weights
        # What holds by a hair is worth having only where nothing else does, or costs clearly more.
        limit = self.best.cost * (1.0 - _CLEARLY) if hairline else self.best.cost
        better = np.flatnonzero((costs < limit) & self.space.satisfied(points, own))
        if self.limits.max_changed is not None:
            better = better[self.space.changed(points[better], own) <= self.limits.max_changed]
        better = better[np.argsort(costs[better])]
        accepted = better
        if not judged and better.size:
            accepted = better[self.judge.accepts(points[better], hairline=hairline, seconds=self._left())]
        if not accepted.size:
            return False
        self.best.point, self.best.cost = points[accepted[0]], float(costs[accepted[0]])
        return True
