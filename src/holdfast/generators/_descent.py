"""A good answer at little cost: follow the most critical model's slope, then walk back towards cheaper points.

Near a point the most critical model is linear. The cheapest way to please a linear function is to spend on the
variables with the best slope for their cost, each to its end. Go there, ask again which model rejects, and repeat until
none does. From an accepted point the same step leads to a cheaper one; walk there as far as the way stays accepted.

The point is only a start: its cost is the radius that makes the exact search fast.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from holdfast._deadline import Deadline
from holdfast._network import Floats, Network
from holdfast.features import FeatureSpace
from holdfast.features._codec import Rows
from holdfast.milp._domain import Domain
from holdfast.verify._margins import margin_slopes

if TYPE_CHECKING:
    from holdfast.generators._acceptance import Judge

_ROUNDS = 16
# Slopes flatten out on the way: each round asks for so much more.
_OVERSHOOT = 1.2
_FRACTIONS = np.array([1.0, 0.97, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.05])
# The answer to a softer demand, and further out on the same way.
_FURTHER = np.linspace(1.0, 1.6, 13)
_WALKS = 8
_WORTH = 1e-3


@dataclass
class Descent:
    """One person's search for a start.

    `last` is the answer to a softer demand, if there was one. `trail` is what seemed accepted on the way, cheaper and
    cheaper, none of it proven; `critics` are the models that were the most critical on the way, newest last.
    """

    judge: Judge
    space: FeatureSpace
    person: Rows
    domain: Domain
    last: Floats | None = None
    trail: list[Floats] = field(default_factory=list)
    critics: list[Network] = field(default_factory=list)
    cost: float = np.inf

    def run(self, deadline: Deadline) -> None:
        """Out to an accepted point, and back to cheaper ones."""
        x, overshoot = self.domain.own, 1.0
        if self.last is not None:
            self._offer(x + _FURTHER[:, None] * (self.last - x))
        for _ in range(_ROUNDS):
            if self.trail or deadline.over:
                break
            x = self._offer(self._step_from(x, overshoot)[None, :])[0]
            overshoot *= _OVERSHOOT
        for _ in range(_WALKS if self.trail else 0):
            before = self.cost
            best = self.trail[-1]
            self._offer(best + _FRACTIONS[:, None] * (self._step_from(best, 1.0) - best))
            # One changed column at a time back towards its own value, as far as the point stays accepted.
            point = self.trail[-1]
            own = self.domain.own
            options = [point[None, :]]
            for variables in self.domain.features:
                if (point[variables] != own[variables]).any():
                    block = np.repeat(point[None, :], _FRACTIONS.size, axis=0)
                    block[:, variables] += _FRACTIONS[:, None] * (own[variables] - point[variables])
                    options.append(block)
            self._offer(np.concatenate(options))
            if self.cost > before * (1.0 - _WORTH) or deadline.over:
                break

    def _step_from(self, x: Floats, overshoot: float) -> Floats:
        """The cheapest point that the model most critical at x would accept if it were linear.

        The own point moved at least cost until gradient . (x - own) >= missing, or as far as it goes.
        """
        domain = self.domain
        margin, worst = self.judge.objections(x)[0]
        self.critics.append(worst)
        gradient = margin_slopes(worst, self.judge.target, x[None, :])[1][0]
        missing = overshoot * max(-(margin + float(gradient @ (domain.own - x))), 0.0) + 1e-6
        (rate,), (price,), (room,) = domain.moves(gradient[None, :])
        best = {
            own: others[gradient[others].argmax()] for own, others in domain.labels if len(others)
        }
        x = domain.own.copy()
        for i in np.argsort(-rate / np.maximum(price, 1e-12), kind="stable").tolist():
            if missing <= 0.0:
                break
            if room[i] <= 0.0:
                continue
            distance = missing / rate[i]
            if 0.0 < domain.step[i] < np.inf:
                distance = np.ceil(distance / domain.step[i] - 1e-9) * domain.step[i]
            distance = min(distance, room[i])
            if i in best:
                x[i] -= distance
                x[best[i]] += distance
            else:
                x[i] += np.sign(gradient[i]) * distance
            missing -= distance * rate[i]
        return x

    def _offer(self, points: Floats) -> Floats:
        """The points as the constraints of each column allow; the cheapest that seems accepted joins the trail."""
        domain = self.domain
        # Ranges alone are kept by staying between their ends; all else has to be settled column by column.
        if not (domain.step.any() or domain.detached.any() or domain.rules):
            points = np.clip(points, domain.lower, domain.upper)
        else:
            points = self.space.project(points, self.person)
        costs = np.abs(points - domain.own) @ domain.weights
        better = np.flatnonzero(costs < self.cost)
        if domain.rules and better.size:
            better = better[self.space.satisfied(points[better], self.person)]
        better = better[self.judge.clears(points[better])] if better.size else better
        if better.size:
            best = better[costs[better].argmin()]
            self.cost = float(costs[best])
            self.trail.append(points[best])
        return points
