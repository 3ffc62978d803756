"""What gradient methods share: a relaxed space to descend in, and a multiplier that is raised no further than needed.

    minimise    c * loss(margin(x')) + price(x'),    price(x') = sum_v weight_v |x'_v - x_v| + smooth(x')

over the box that a person can reach, with one-hot columns relaxed to weights that sum to 1. For each person the least
multiplier c is sought whose minimum has a margin of at least 0: just across the boundary. RelaxedSpace points are no
answers: `Polish` keeps the cheapest that has the margin, and the class, once it is a row of the caller's table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from holdfast._deadline import Deadline
from holdfast._network import Bools, Floats, Ints, Pair
from holdfast.generators._base import Task
from holdfast.verify._margins import least_margins, margin_slopes

# The least margin to be content with, in logits: nearer to 0 it is rounding that decides the class.
_HAIR = 1e-9
# The step size follows the steepest slope met lately: a kink must not make it jump.
_FORGET = 0.8
_TINY = 1e-12
_WIDEN = 4.0
# A multiplier that changes by less than this share leads to the same point.
_SAME = 1e-4
# Unbounded variables go so far at a time, in units of the model's variables.
_FAR = 1.0
_STEPS = 25


@dataclass(frozen=True)
class Aim:
    """What a method wants of a point: that its margin reaches 0, at the least price.

    This one wants today's margin to reach `demand`, and at least a hair more than 0, at the least weighted l1 distance;
    others build on it. `rows` says whose each point is.
    """

    task: Task
    weights: Floats
    demand: float = 0.0
    # How fast the slope of the smooth part of the price changes: what a step size has to know.
    curvature: float = 0.0

    def margins(self, points: Floats, rows: Ints) -> Floats:
        """What is there beyond the demand, (n,)."""
        return least_margins(self.task.network, self.task.targets[rows], points) - max(
            self.demand, _HAIR
        )

    def slopes(self, points: Floats, rows: Ints) -> Pair:
        """The margins and their gradients."""
        values, gradients = margin_slopes(self.task.network, self.task.targets[rows], points)
        return values - max(self.demand, _HAIR), gradients

    def price(self, points: Floats, rows: Ints) -> Floats:
        """What each point costs, (n,)."""
        return np.abs(points - self.task.factuals[rows]) @ self.weights

    def smooth_slopes(self, points: Floats, rows: Ints) -> Floats | float:
        """The gradient of the smooth part of the price; the l1 part is left to the proximal step."""
        return 0.0


class Loss(NamedTuple):
    """A falling convex function of the margin: minus its slope, in [0, 1], and the largest change of that slope."""

    pressure: Callable[[Floats], Floats]
    curvature: float


def logistic_loss() -> Loss:
    """log(1 + exp(-margin)), the log-loss of today's model."""
    return Loss(lambda margin: np.asarray(expit(-margin)), 0.25)


def hinge_loss(width: float) -> Loss:
    """max(0, -margin), its kink rounded off over `width` so that there is a step size."""
    return Loss(lambda margin: np.clip(1.0 - margin / width, 0.0, 1.0), 1.0 / width)


@dataclass(frozen=True)
class RelaxedSpace:
    """Where each person's variables can go once steps and categories are forgotten; (n, d) bounds."""

    factuals: Floats
    lower: Floats
    upper: Floats
    groups: tuple[Ints, ...]
    partial_groups: tuple[Ints, ...]

    @classmethod
    def of(cls, task: Task) -> RelaxedSpace:
        """The relaxation for every row of a task."""
        lower, upper = task.space.bounds_for(task.factuals)
        return cls(
            task.factuals, lower, upper, tuple(task.space.groups), tuple(task.space.partial_groups)
        )

    def inside(self, points: Floats, rows: Ints) -> Floats:
        """The points clipped to what each person can reach; one-hot weights sum to 1 (or at most 1)."""
        points = np.clip(points, self.lower[rows], self.upper[rows])
        for group in self.groups:
            points[:, group] = _onto_simplex(points[:, group])
        for group in self.partial_groups:
            over = np.flatnonzero(points[:, group].sum(axis=1) > 1.0)
            points[np.ix_(over, group)] = _onto_simplex(points[np.ix_(over, group)])
        # An immutable label is a corner of its simplex already, but for rounding.
        return np.clip(points, self.lower[rows], self.upper[rows])

    def ends(self, points: Floats, rows: Ints) -> Pair:
        """How far each variable can go down and up, and some way from the points where there is no end."""
        lower = self.lower[rows]
        upper = self.upper[rows]
        return (
            np.where(np.isfinite(lower), lower, points - _FAR),
            np.where(np.isfinite(upper), upper, points + _FAR),
        )

    def movable(self, rows: Ints) -> Bools:
        """Which variables can move at all."""
        return self.upper[rows] > self.lower[rows]


def descend(
    aim: Aim,
    relaxed: RelaxedSpace,
    loss: Loss,
    *,
    least: float,
    rounds: int,
    deadline: Deadline,
) -> list[Floats]:
    """Accelerated proximal gradient descent (FISTA with restarts), the multiplier adapted from round to round.

    Each round goes on from where the one before ended. Where the margin was reached the multiplier falls, elsewhere it
    grows, first by a factor, then by bisection.

    Parameters
    ----------
    least
        The multiplier never falls below this.

    Returns
    -------
    The points after each round, (n, d) each; the caller has to project and test them.
    """
    n = len(relaxed.factuals)
    rows, x = np.arange(n), relaxed.factuals
    c = np.maximum(_first_multiplier(aim, relaxed, rows), least)
    low = np.zeros(n)
    high = np.full(n, np.inf)
    ends = []
    for _ in range(rounds):
        x = _fista(aim, relaxed, loss, rows, x, c)
        ends.append(x)
        if deadline.over:
            break
        reached = aim.margins(x, rows) >= 0.0
        high = np.where(reached, c, high)
        low = np.where(reached, low, c)
        middle = np.sqrt(np.maximum(low, _TINY) * np.where(np.isfinite(high), high, 1.0))
        before = c
        c = np.maximum(
            np.where(np.isinf(high), low * _WIDEN, np.where(low == 0.0, high / _WIDEN, middle)),
            least,
        )
        if (np.abs(c - before) <= _SAME * before).all():
            break
    return ends


def _first_multiplier(aim: Aim, relaxed: RelaxedSpace, rows: Ints) -> Floats:
    """Where half the loss's slope balances the price of the best single variable: exact for a linear model."""
    _, gradients = aim.slopes(relaxed.factuals, rows)
    gain = np.abs(gradients) / np.maximum(aim.weights, _TINY) * relaxed.movable(rows)
    best = gain.max(axis=1)
    return np.where(best > _TINY, 2.0 / np.maximum(best, _TINY), 1.0)


def _fista(aim: Aim, relaxed: RelaxedSpace, loss: Loss, rows: Ints, x: Floats, c: Floats) -> Floats:
    """`_STEPS` accelerated proximal steps for every row at once, each with its own step size and momentum."""
    y = x
    t = np.ones(rows.size)
    steepest = np.zeros(rows.size)
    for _ in range(_STEPS):
        values, gradients = aim.slopes(y, rows)
        steepest = np.maximum((gradients**2).sum(axis=1), _FORGET * steepest)
        size = 1.0 / np.maximum(c * loss.curvature * steepest + aim.curvature, _TINY)
        down = aim.smooth_slopes(y, rows) - (c * loss.pressure(values))[:, None] * gradients
        # The proximal step of the l1 distance: every variable moved towards the factual by its threshold.
        change = y - size[:, None] * down - relaxed.factuals[rows]
        change = np.sign(change) * np.maximum(np.abs(change) - size[:, None] * aim.weights, 0.0)
        new = relaxed.inside(relaxed.factuals[rows] + change, rows)
        # Momentum that points uphill is dropped.
        t = np.where(((y - new) * (new - x)).sum(axis=1) > 0.0, 1.0, t)
        following = (1.0 + np.sqrt(1.0 + 4.0 * t**2)) / 2.0
        y = relaxed.inside(new + ((t - 1.0) / following)[:, None] * (new - x), rows)
        x, t = new, following
    return x


def halved(holds: Callable[[Floats], Bools], low: Floats, high: Floats, times: int) -> Pair:
    """Pairs of ends, halved `times` times around the point where `holds` begins: true at `high`, false at `low`."""
    for _ in range(times):
        middle = (low + high) / 2.0
        there = holds(middle)
        low = np.where(there, low, middle)
        high = np.where(there, middle, high)
    return low, high


def _onto_simplex(points: Floats) -> Floats:
    """The nearest weights >= 0 that sum to 1, row by row."""
    ordered = -np.sort(-points, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, points.shape[1] + 1)
    count = (ordered > excess).sum(axis=1)
    return np.maximum(points - np.take_along_axis(excess, count[:, None] - 1, axis=1), 0.0)
