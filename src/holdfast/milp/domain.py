"""Where one person's variables can go: their own value, or wherever a change may lead.

    { own }  ∪  [low, high] ∩ grid          for each variable
    sum_i weight_i |x_i - own_i| <= radius  for all of them together, once some answer at that cost is known

The least and the greatest value of a linear function over box and ball is a fractional knapsack, in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.features import FeatureSpace
from holdfast.features.admissible import reach
from holdfast.features.kinds import Direction
from holdfast.network import Floats

# Grids are known up to rounding in the model's variables: this many steps off still counts as on the grid.
ON_GRID = 1e-6
# A radius is widened by this much, so that rounding never cuts off the very answer that it comes from.
_SLACK = 1e-9


@dataclass(frozen=True)
class Domain:
    """One person's variables, (d,) each.

    Attributes
    ----------
    own
        The factual.
    lower, upper
        The hull of everything reachable, the own value included.
    low, high
        The least and the greatest value that a change can lead to; both `own` where nothing can change.
    step
        The distance of the grid points low, low + step, ..., high; 0 where every value between is possible.
    weights
        What a change of one unit costs.
    groups, partial_groups
        One-hot variables: exactly one, or at most one, of each group is 1.
    features
        The variables of each column.
    rule_matrix, rule_bounds
        The rules, A x <= b.
    radius
        No point that costs more is of interest.
    """

    own: Floats
    lower: Floats
    upper: Floats
    low: Floats
    high: Floats
    step: Floats
    weights: Floats
    groups: tuple[NDArray[np.intp], ...]
    partial_groups: tuple[NDArray[np.intp], ...]
    features: tuple[NDArray[np.intp], ...]
    rule_matrix: Floats
    rule_bounds: Floats
    radius: float = np.inf

    @classmethod
    def of(cls, space: FeatureSpace, factual: Floats) -> Domain:
        """The domain of a factual, given as a point."""
        lower, upper = space.bounds_for(factual)
        numbers = space.rows(factual[None, :]).numbers[0]
        low, high, step = factual.copy(), factual.copy(), np.zeros_like(factual)
        for i, feature in enumerate(space.features):
            if feature.direction is Direction.IMMUTABLE:
                continue
            variables = list(feature.variables)
            if feature.one_hot:
                low[variables], high[variables], step[variables] = 0.0, 1.0, 1.0
                continue
            least, most = (float(end[0]) for end in reach(feature, numbers[i : i + 1], 1))
            if least <= most:
                variable = variables[0]
                low[variable], high[variable] = feature.scaling.apply(np.array([least, most]))
        for grid in space.grids:
            if high[grid.variable] > low[grid.variable]:
                step[grid.variable] = grid.step
        matrix, bounds = space.rule_rows()
        size = np.maximum(np.abs(matrix).max(axis=1, initial=0.0), 1e-300)
        return cls(
            own=factual,
            lower=lower,
            upper=upper,
            low=low,
            high=high,
            step=step,
            weights=space.weights,
            groups=tuple(space.groups),
            partial_groups=tuple(space.partial_groups),
            features=tuple(np.array(feature.variables, dtype=np.intp) for feature in space.features),
            rule_matrix=matrix / size[:, None],
            rule_bounds=bounds / size,
        )

    @property
    def detached(self) -> NDArray[np.bool_]:
        """Variables whose own value is no value that a change could lead to: off the grid or out of the range."""
        outside = (self.own < self.low) | (self.own > self.high)
        stepped = self.step > 0.0
        steps = (self.own - np.where(stepped, self.low, 0.0)) / np.where(stepped, self.step, 1.0)
        off_grid = stepped & (np.abs(steps - np.rint(steps)) > ON_GRID)
        return np.asarray(outside | off_grid)

    def cost(self, point: Floats) -> float:
        """What it takes to get there."""
        return float(np.abs(point - self.own) @ self.weights)

    def within(self, radius: float) -> Domain:
        """The part that costs at most `radius`."""
        radius = min(self.radius, radius * (1.0 + _SLACK) + _SLACK)
        with np.errstate(divide="ignore"):
            span = np.where(self.weights > 0.0, radius / self.weights, np.inf)
        for group in self.groups:
            # Another label costs two changes: one variable down, one up.
            span[group] = np.where(2.0 * self.weights[group] > radius, 0.0, span[group])
        low, high = np.maximum(self.low, self.own - span), np.minimum(self.high, self.own + span)
        stepped = self.step > 0.0
        anchor, unit = self.low[stepped], self.step[stepped]
        low[stepped] = anchor + np.ceil((low[stepped] - anchor) / unit - ON_GRID) * unit
        high[stepped] = anchor + np.floor((high[stepped] - anchor) / unit + ON_GRID) * unit
        empty = low > high
        low, high = np.where(empty, self.own, low), np.where(empty, self.own, high)
        lower, upper = np.minimum(low, self.own), np.maximum(high, self.own)
        return replace(self, low=low, high=high, lower=lower, upper=upper, radius=radius)

    def greatest(self, matrix: Floats) -> Floats:
        """The greatest value of each row of `matrix` over box and ball, (m,).

        Start from the own values and spend the radius on the moves with the best gain for their cost. A one-hot group
        is one move, from the own label to the best other.
        """
        base = matrix @ self.own
        room = np.where(matrix > 0.0, self.upper - self.own, self.own - self.lower)
        rate, price = np.abs(matrix), np.broadcast_to(self.weights, matrix.shape).copy()
        for group in self.groups:
            own = group[self.own[group].argmax()]
            movable = self.upper[group] > self.lower[group]
            gain = (matrix[:, group] - matrix[:, [own]]).max(axis=1) * float(movable.any())
            room[:, group] = 0.0
            room[:, own], rate[:, own], price[:, own] = 1.0, np.maximum(gain, 0.0), 2.0 * self.weights[own]
        if not np.isfinite(self.radius):
            room = np.where(rate > 0.0, room, 0.0)
            return np.asarray(base + (room * rate).sum(axis=1))
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-np.where(rate > 0.0, rate / price, -1.0), axis=1)
        rate, price, room = (np.take_along_axis(part, order, axis=1) for part in (rate, price, room))
        with np.errstate(invalid="ignore"):
            full = np.where(rate > 0.0, np.nan_to_num(price * room, nan=0.0), 0.0)
        spent = np.cumsum(full, axis=1) - full
        left = np.clip(self.radius - np.nan_to_num(spent, nan=np.inf), 0.0, None)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.minimum(room, np.where(price > 0.0, left / price, np.inf))
        return np.asarray(base + np.where(rate > 0.0, moved * rate, 0.0).sum(axis=1))

    def least(self, matrix: Floats) -> Floats:
        """The least value of each row of `matrix` over box and ball, (m,)."""
        return -self.greatest(-matrix)
