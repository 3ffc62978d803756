"""A good answer at little cost: follow the most critical model's slope, then walk back towards cheaper points.

Near a point the most critical model is linear. The cheapest way to please a linear function is to spend on the
variables with the best slope for their cost, each to its end. Go there, ask again who objects, and repeat until nobody
does. From an accepted point the same step leads to a cheaper one; walk there as far as the way stays accepted.

An answer found so is no more than a start: its cost is the radius that makes the exact search fast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.features import FeatureSpace
from holdfast.features.codec import Rows
from holdfast.generators.acceptance import Judge, Objection
from holdfast.milp.domain import Domain
from holdfast.network import Floats
from holdfast.verify.margins import margin_slopes

_ROUNDS = 16
# Slopes flatten out on the way: each round asks for so much more.
_OVERSHOOT = 1.2
_FRACTIONS = np.array([1.0, 0.97, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.05])
_WALKS = 8
_LAST = 4
_WORTH = 1e-3


@dataclass
class Start:
    """The best accepted point so far (None if none), and the models that objected on the way, newest last."""

    point: Floats | None = None
    cost: float = np.inf
    objections: list[Objection] = field(default_factory=list)


class Descent:
    """One person's search for a start."""

    def __init__(
        self, judge: Judge, space: FeatureSpace, person: Rows, domain: Domain, left: Callable[[], float | None]
    ) -> None:
        self.judge, self.space, self.person, self.domain = judge, space, person, domain
        # Seconds left, or None without a limit.
        self.left = left
        self.start = Start()
        # What was accepted on the way, cheaper and cheaper; only the end of it is proven.
        self.trail: list[Floats] = []
        # Ranges alone are kept by staying between their ends; all else has to be settled column by column.
        self.plain = not (domain.step.any() or domain.detached.any() or domain.rule_bounds.size)

    def run(self) -> Start:
        """Out to an accepted point, and back to cheaper ones."""
        self._out()
        if self.start.point is not None:
            for _ in range(_WALKS):
                before = self.start.cost
                self._towards(self._step_from(self.start.point, 1.0))
                self._take_back()
                if self.start.cost > before * (1.0 - _WORTH) or self.left() == 0.0:
                    break
            self._settle()
        return self.start

    def _out(self) -> None:
        x, overshoot = self.domain.own, 1.0
        for _ in range(_ROUNDS):
            y = self._admissible(self._step_from(x, overshoot)[None, :])
            if self._offer(y) or self.left() == 0.0:
                return
            x, overshoot = y[0], overshoot * _OVERSHOOT

    def _step_from(self, x: Floats, overshoot: float) -> Floats:
        """The cheapest point that the model most critical at x would accept if it were linear."""
        worst = self.judge.objections(x, self.domain)[0]
        self.start.objections.append(worst)
        gradient = margin_slopes(worst.network, self.judge.target, x[None, :])[1][0]
        missing = -(worst.margin + float(gradient @ (self.domain.own - x)))
        return _cheapest_move(self.domain, gradient, overshoot * max(missing, 0.0) + 1e-6)

    def _towards(self, goal: Floats) -> None:
        """Walk from the best point to the goal as far as the way is accepted."""
        assert self.start.point is not None
        self._offer(self._admissible(self.start.point + _FRACTIONS[:, None] * (goal - self.start.point)))

    def _take_back(self) -> None:
        """Move one changed column at a time back towards its own value, as far as the point stays accepted."""
        assert self.start.point is not None
        own, point, options = self.domain.own, self.start.point, []
        for variables in self.domain.features:
            if (point[variables] != own[variables]).any():
                block = np.repeat(point[None, :], _FRACTIONS.size, axis=0)
                block[:, variables] += _FRACTIONS[:, None] * (own[variables] - point[variables])
                options.append(block)
        if options:
            self._offer(self._admissible(np.concatenate(options)))

    def _admissible(self, points: Floats) -> Floats:
        """Points that obey the constraints of each column."""
        if self.plain:
            return np.clip(points, self.domain.lower, self.domain.upper)
        return self.space.project(points, self.person)

    def _offer(self, points: Floats) -> bool:
        """Take the cheapest point that seems accepted and is better than the best; whether there was one."""
        costs, better = self._cheaper(points)
        better = better[self.judge.clears(points[better])] if better.size else better
        if not better.size:
            return False
        self.start.point, self.start.cost = points[better[0]], float(costs[better[0]])
        self.trail.append(self.start.point)
        return True

    def _cheaper(self, points: Floats) -> tuple[Floats, NDArray[np.intp]]:
        """The costs of points, and which are cheaper than the best and obey the rules, the cheapest first."""
        costs = np.abs(points - self.domain.own) @ self.domain.weights
        better = np.flatnonzero(costs < self.start.cost)
        if self.domain.rule_bounds.size and better.size:
            better = better[self.space.satisfied(points[better], self.person)]
        return costs, better[np.argsort(costs[better])]

    def _settle(self) -> None:
        """The last points as rows of the caller's table, a step outwards where rounding took them over the edge."""
        own, last = self.domain.own, np.array(self.trail[-_LAST:])
        self.start.point, self.start.cost = None, np.inf
        outwards = np.concatenate([last + share * (last - own) for share in (0.0, 1e-6, 1e-4)])
        points = self.space.project(outwards, self.person)
        costs, better = self._cheaper(points)
        first = self.judge.first(points[better], seconds=self.left()) if better.size else None
        if first is not None:
            self.start.point, self.start.cost = points[better[first]], float(costs[better[first]])


def _cheapest_move(domain: Domain, gradient: Floats, missing: float) -> Floats:
    """The own point moved at least cost until gradient . (x - own) >= missing, or as far as it goes."""
    room = np.where(gradient > 0.0, domain.upper - domain.own, domain.own - domain.lower)
    price = domain.weights.copy()
    rate = np.abs(gradient)
    moves = {i: {i: float(np.sign(gradient[i]))} for i in np.flatnonzero((rate > 0.0) & (room > 0.0)).tolist()}
    for group in domain.groups:
        own, best = int(group[domain.own[group].argmax()]), int(group[gradient[group].argmax()])
        for v in group.tolist():
            moves.pop(v, None)
        if domain.upper[best] > domain.lower[best] and gradient[best] > gradient[own]:
            moves[best] = {best: 1.0, own: -1.0}
            rate[best], price[best], room[best] = gradient[best] - gradient[own], 2.0 * domain.weights[best], 1.0
    x = domain.own.copy()
    for i in sorted(moves, key=lambda i: -rate[i] / max(price[i], 1e-12)):
        if missing <= 0.0:
            break
        distance = missing / rate[i]
        if 0.0 < domain.step[i] < np.inf:
            distance = np.ceil(distance / domain.step[i] - 1e-9) * domain.step[i]
        distance = min(distance, room[i])
        for v, sign in moves[i].items():
            x[v] += sign * distance
        missing -= distance * rate[i]
    return x
