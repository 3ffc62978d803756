"""The cheapest accepted point there is, with a proof: branch and bound with cuts.

    program  the cheapest point that every model named so far accepts; its linear relaxation gives a lower bound
    branch   split where the relaxation's point is between two possible values, or a neuron is neither on nor off
    judge    does every model that matters accept the point? If not, name one that objects: a further cut

Any model that has to accept is a valid cut, so the bounds are proven however the cuts were found, and each bound is one
that `Relaxation` checked; a part of the tree whose bound could not be checked keeps its parent's. What is handed out is
settled in the caller's units and judged after that; the solver's own point is never trusted.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holdfast._deadline import Deadline
from holdfast._network import Floats
from holdfast.features import FeatureSpace
from holdfast.features._codec import Rows
from holdfast.generators._descent import Descent
from holdfast.milp._acceptor import Acceptor
from holdfast.milp._domain import Domain
from holdfast.milp._people import PointLimits
from holdfast.milp._recourse import RecourseProgram

if TYPE_CHECKING:
    from holdfast.generators._acceptance import Judge

# A gap below this, relatively, is none.
PROVEN = 1e-6
# Margins asked for on top where rounding is in the way, one after the other, relative to the numbers they are made of.
_EXTRA = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6)
# With infinite ranges the search grows from a small radius.
_FIRST_RADIUS, _LAST_RADIUS = 1.0, 1e6
_MOST_ROUNDINGS = 6
# Of the points that the descent seemed to find accepted, so many are judged, each a little further out as well.
_LAST, _OUTWARDS = 4, (0.0, 1e-6, 1e-4)
_SNAP = 1e-9
# Relatively: a saving of less than this is none.
_CLEARLY = 1e-5
# An answer cheaper than this share of the last one makes big-M so much smaller that it pays to start again.
_MUCH_CHEAPER = 0.8
# Nearer to 0 or 1 than this, a binary is decided.
_DECIDED = 1e-9


# A part of the domain: the variables whose ranges are narrowed in it, and to what.
_Part = dict[int, tuple[float, float]]


@dataclass
class CuttingPlanes:
    """One person's search."""

    judge: Judge
    space: FeatureSpace
    person: Rows
    limits: PointLimits
    deadline: Deadline
    any_will_do: bool = False

    def run(self) -> tuple[Floats | None, float]:
        """The best point, None if there is none, and a proven lower bound on costs; infinite if no point exists."""
        self.point: Floats | None = None
        self.cost = np.inf
        self.bound = 0.0
        self.radius = np.inf
        self.demand = 0.0
        self.domain = Domain.of(self.space, self.person)
        own = self.domain.own
        endless = ~np.isfinite([self.domain.lower, self.domain.upper]).all(axis=0)
        free = endless & (self.domain.weights == 0.0)
        if free.any():
            # No cost keeps these near: what lies far out is left out, and nothing is proven.
            self.domain = self.domain.limited(np.where(free, _LAST_RADIUS, np.inf))
        self.cuts: list[Acceptor] = self.judge.opening(self.domain)
        self._start()
        if self.point is None and endless.any():
            self.radius = _FIRST_RADIUS
        while self._tree():
            pass
        # The costs that this is compared with are sums of rounded numbers.
        bound = (
            0.0 if free.any() else self.bound * (1.0 - 8.0 * own.size * np.finfo(np.float64).eps)
        )
        return self.point, min(bound, self.cost)

    def _start(self) -> None:
        """A first answer and first cuts, from a search that follows slopes."""
        own, critics = self.domain.own, []
        if self.limits.hull is not None:
            # Its own points span the hull, and each of them is accepted.
            self._offer(self.limits.hull, judged=True)
        else:
            descent = Descent(self.judge, self.space, self.person, self.domain, self.limits.last)
            descent.run(self.deadline)
            critics = descent.critics[-2:]
            if descent.trail:
                last = np.array(descent.trail[-_LAST:])
                # A step outwards where rounding took them over the edge.
                outwards = np.concatenate([last + share * (last - own) for share in _OUTWARDS])
                self._offer(self.space.project(outwards, self.person))
        if not self.cuts:
            worst = self.judge.objections(own if self.point is None else self.point)[0][1]
            # Each once, and in an order that is the same in every run.
            networks = dict.fromkeys([*critics, worst])
            self.cuts = [
                Acceptor.of(network, self.judge.target, self.judge.demand) for network in networks
            ]

    def _done(self) -> bool:
        enough = self.any_will_do or self._closed(self.bound)
        return (self.point is not None and enough) or self.deadline.over

    # ------------------------------------------------------------------ the tree

    def _tree(self) -> bool:
        """Search the part of the domain within the radius; whether to search again, further out or with more margin."""
        self.limit = min(self.cost, self.radius)
        region = self.domain.within(self.limit)
        self.program = RecourseProgram(region, self.limits, self.cuts, self.demand)
        serial = itertools.count()
        heap: list[tuple[float, int, _Part]] = [(self.bound, next(serial), {})]
        # The least bound of the parts that are given up undecided.
        undecided = np.inf
        while True:
            least = min(heap[0][0] if heap else np.inf, undecided, self.limit)
            # With more margin asked for than there has to be, nothing is proven.
            self.bound = max(self.bound, least) if self.demand == 0.0 else self.bound
            if not heap:
                break
            if self._done():
                return False
            if self.cost < _MUCH_CHEAPER * self.limit:
                self.demand = 0.0
                return True
            bound, _, part = heapq.heappop(heap)
            bound, children = self._look(bound, part)
            if bound < min(self.cost, self.limit):
                for child in children:
                    heapq.heappush(heap, (bound, next(serial), child))
                undecided = undecided if children else min(undecided, bound)
        # After a search to the end: look further out, or for more margin than rounding can take away.
        if self.point is not None:
            # An answer from beyond the radius: its own cost takes over.
            again = self.cost > self.limit
            self.radius = np.inf
        elif undecided < np.inf and self.demand < _EXTRA[-1]:
            again = True
            self.demand = max(10.0 * self.demand, _EXTRA[0])
        else:
            self.radius *= 4.0
            again = self.radius <= _LAST_RADIUS
        return again and not self._done()

    def _look(self, bound: float, part: _Part) -> tuple[float, list[_Part]]:
        """A better bound for a part of the domain, and the parts to split it into; none where it is done with."""
        lower = self.program.program.lower.copy()
        upper = self.program.program.upper.copy()
        for column, ends in part.items():
            lower[column], upper[column] = ends
        solved = self.program.relaxation.solve(lower, upper)
        bound = max(bound, solved.bound)
        if bound >= min(self.cost, self.limit):
            return bound, []
        split: tuple[int, float, float] | None = None
        if solved.values is None:
            binaries = self.program.binaries
            undecided = binaries[lower[binaries] < upper[binaries]]
            split = (int(undecided[0]), 0.0, 1.0) if undecided.size else None
        else:
            values = np.clip(solved.values, lower, upper)
            point = values[: self.domain.own.size]
            fits = self.program.fits(point)
            split = self._split(values, solved.weights, lower, upper, fits)
            if fits and split is not None:
                self._offer(self._settled(point))
            if split is None and not self._closed(bound):
                if self._consider(point, bound):
                    return bound, [part]
                split = self._split(values, solved.weights, lower, upper, fits, apart=True)
        if split is None or self._closed(bound):
            return bound, []
        column, below, above = split
        return bound, [
            {**part, column: (lower[column], below)},
            {**part, column: (above, upper[column])},
        ]

    def _closed(self, bound: float) -> bool:
        """Whether the best answer is as cheap as a bound allows."""
        return self.cost * (1.0 - PROVEN) <= bound

    def _split(
        self,
        values: Floats,
        weights: Floats,
        lower: Floats,
        upper: Floats,
        fits: bool,
        apart: bool = False,
    ) -> tuple[int, float, float] | None:
        """The variable whose doubt matters most, and the values on either side of it; None where there is no doubt.

        Neurons are in doubt only where some model rejects the point, and come first: a step decided before them leaves
        them to be decided on either side of it. `apart`: the point is nothing to go by, so set it apart from the other
        steps.
        """
        region = self.program.domain
        gaps: dict[int, tuple[float, float]] = {}
        if not fits:
            binaries = self.program.binaries
            doubt = np.minimum(values, 1.0 - values)[binaries]
            gaps = dict.fromkeys(binaries[doubt > _DECIDED].tolist(), (0.0, 1.0))
        if not gaps and not apart:
            gaps = region.loose(values[: region.own.size])
        elif not gaps:
            values = values.copy()
            for i in np.flatnonzero(region.step > 0.0).tolist():
                gap = region.gap(i, values[i])
                if gap is None and lower[i] < upper[i]:
                    values[i] = np.nextafter(values[i], np.inf if values[i] < upper[i] else -np.inf)
                    gap = region.gap(i, values[i])
                if gap is not None:
                    gaps[i] = gap
        options = [
            (
                weights[i] * (values[i] - below) * (above - values[i]) / (above - below),
                i,
                below,
                above,
            )
            for i, (below, above) in gaps.items()
        ]
        return max(options)[1:] if options else None

    # ------------------------------------------------------------------ answers

    def _consider(self, point: Floats, bound: float) -> bool:
        """Every model named so far accepts the point: is it an answer, up to rounding? Whether there are new cuts."""
        if self._add_cuts(point):
            return True
        for extra in _EXTRA:
            pushed = self.program.push(point, extra)
            if pushed is None or self._offer(self._settled(pushed)):
                break
            if self._add_cuts(pushed, thorough=True):
                return True
        if not self._closed(bound):
            self._offer(self._settled(point), hairline=True)
        return not self._closed(bound) and self._add_cuts(point, thorough=True)

    def _add_cuts(self, point: Floats, *, thorough: bool = False) -> bool:
        """Let the models that clearly reject the solver's point become cuts."""
        objections = self.judge.objections(point, self.deadline if thorough else None)
        new = [
            Acceptor.of(network, self.judge.target, self.judge.demand)
            for margin, network in objections
            if margin < -2.0 * self.program.nearly
        ]
        self.cuts += new
        if new:
            self.program.write(new)
        return bool(new)

    def _settled(self, point: Floats) -> Floats:
        """Admissible points around the solver's, each a row of the caller's table: every rounding of what is loose."""
        own = self.domain.own
        region = self.program.domain
        point = np.where(np.abs(point - own) < _SNAP * (region.upper - region.lower), own, point)
        loose = dict(itertools.islice(region.loose(point).items(), _MOST_ROUNDINGS))
        options = np.repeat(point[None, :], 2 ** len(loose), axis=0)
        options[:, list(loose)] = list(itertools.product(*loose.values()))
        return np.unique(self.space.project(options, self.person), axis=0)

    def _offer(self, points: Floats, *, judged: bool = False, hairline: bool = False) -> bool:
        """Take the cheapest of the points that is accepted and better than the best; whether there was one."""
        costs = np.abs(points - self.domain.own) @ self.domain.weights
        # What holds by a hair is worth having only where nothing else does, or costs clearly more.
        limit = self.cost * (1.0 - _CLEARLY) if hairline else self.cost
        better = np.flatnonzero(costs < limit)
        if self.domain.rules and better.size:
            # All else holds by projection; a rule may be beyond repair.
            better = better[self.space.satisfied(points[better], self.person)]
        if self.limits.max_changed is not None:
            better = better[
                self.space.changed(points[better], self.person) <= self.limits.max_changed
            ]
        better = better[np.argsort(costs[better])]
        if not better.size:
            return False
        first = 0 if judged else self.judge.first(points[better], self.deadline, hairline=hairline)
        if first is None:
            return False
        self.point = points[better[first]]
        self.cost = float(costs[better[first]])
        return True
