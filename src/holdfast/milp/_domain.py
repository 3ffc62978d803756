"""The domain of one person's variables: their own value, and every value that a change can lead to.

    { own }  ∪  [low, high] ∩ grid          for each variable
    sum_i weight_i |x_i - own_i| <= radius  for all of them together, once advice at that cost is known

The least and the greatest value of a linear function over box and ball is a fractional knapsack, in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from holdfast._network import Bools, Floats, Ints
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.features._admissible import possible_codes, reach
from holdfast.features._codec import Rows
from holdfast.features._grid import Grid
from holdfast.features._kinds import Direction
from holdfast.features._scaling import Scaling

# A solver's value this many steps off the grid still counts as on it.
_ON_GRID = 1e-6
# A radius is widened by this much, so that rounding never cuts off the point that it comes from.
_SLACK = 1e-9
# Where a variable with countable values can be: on a grid in the column's units, with the way from there, or listed.
Places = tuple[Grid, Scaling] | Floats


@dataclass(frozen=True)
class Domain:
    """One person's variables, (d,) each.

    Attributes
    ----------
    own
        The factual.
    low, high
        The least and the greatest value that a change can lead to; both `own` where nothing can change.
    step
        The distance of the grid points between low and high, up to rounding; 0 where every value is possible.
    grids
        The grid of a variable with a step, in the column's units, and the way from there to the variable; or the values
        of a variable whose step is infinite, one by one.
    weights
        The cost of a change of one unit.
    groups, partial_groups
        One-hot variables: exactly one, or at most one, of each group is 1.
    features
        The variables of each column.
    rules
        Of each rule  a . x <= b,  up to rounding: a, b, and the largest number met on the way from the columns' units.
    radius
        No point that costs more is of interest.
    """

    own: Floats
    low: Floats
    high: Floats
    step: Floats
    grids: dict[int, Places]
    weights: Floats
    groups: list[Ints]
    partial_groups: list[Ints]
    features: list[Ints]
    rules: list[tuple[Floats, float, float]]
    radius: float = np.inf

    @classmethod
    def of(cls, space: FeatureSpace, person: Rows) -> Domain:
        """The domain of one person."""
        factual = person.points[0]
        low = factual.copy()
        high = factual.copy()
        step = np.zeros_like(factual)
        steps = {grid.variable: grid.step for grid in space.grids}
        grids: dict[int, Places] = {}
        groups: tuple[list[Ints], list[Ints]] = ([], [])
        features = [np.array(feature.variables) for feature in space.features]
        for i, (feature, variables) in enumerate(zip(space.features, features, strict=True)):
            first = feature.variables[0]
            own = person.numbers[0, i : i + 1]
            gone = bool(np.isnan(own[0]))
            if gone and feature.fills and (feature.flags or feature.listed):
                raise InvalidInputError(
                    f"column {feature.name!r}: this method cannot fill in a missing value; take RNCE or NNCE, or leave "
                    "the column out of fillable="
                )
            if feature.listed and not gone:
                possible = possible_codes(feature, own)[0]
                blocks = feature.blocks[possible]
                low[variables], high[variables] = blocks.min(axis=0), blocks.max(axis=0)
                grids |= dict.fromkeys(feature.variables, np.unique(blocks))
                step[variables] = 1.0 if feature.one_hot else np.inf
                if feature.one_hot:
                    # At most one of the variables is 1 where a label without a variable can be reached.
                    bare = bool((np.array(feature.cells)[possible] < 0).any())
                    groups[bare].append(variables)
            elif feature.direction is not Direction.IMMUTABLE and (feature.fills or not gone):
                least, most = np.concatenate(reach(feature, None if gone else own, 1))
                if least <= most:
                    low[first], high[first] = feature.scaling.apply(np.array([least, most]))
                    if feature.grid is not None:
                        grids[first] = (feature.grid, feature.scaling)
                        # Through a curve the grid's points are not evenly apart.
                        step[first] = steps.get(first, np.inf)
        rules = []
        for row, bound, terms in zip(*space.rule_rows(), space.bound_rules, strict=True):
            largest = [
                space.features[column].scaling.magnitude(np.zeros(())) for column in terms.columns
            ]
            size = abs(terms.bound) + np.abs(terms.coefficients) @ largest
            unit = max(np.abs(row).max(), 1e-300)
            rules.append((row / unit, bound / unit, size / unit))
        return cls(
            own=factual,
            low=low,
            high=high,
            step=np.where(low < high, step, 0.0),
            grids=grids,
            weights=space.weights,
            groups=groups[0],
            partial_groups=groups[1],
            features=features,
            rules=rules,
        )

    @cached_property
    def lower(self) -> Floats:
        """The least value of each variable, the own one included."""
        return np.minimum(self.low, self.own)

    @cached_property
    def upper(self) -> Floats:
        """The greatest."""
        return np.maximum(self.high, self.own)

    @property
    def detached(self) -> Bools:
        """Variables whose own value is out of the range that a change could lead to."""
        return (self.own < self.low) | (self.own > self.high)

    def within(self, radius: float) -> Domain:
        """The part that costs at most `radius`."""
        radius = min(self.radius, radius * (1.0 + _SLACK))
        with np.errstate(divide="ignore"):
            span = np.where(self.prices > 0.0, radius / self.prices, np.inf)
        return replace(self.limited(span), radius=radius)

    def limited(self, span: Floats) -> Domain:
        """The part where no variable moves further than its span."""
        low = np.maximum(self.low, self.own - span)
        high = np.minimum(self.high, self.own + span)
        for i in self.grids:
            low[i], high[i] = self._nearest(i, low[i], -1.0), self._nearest(i, high[i], 1.0)
        low, high = np.where(low > high, self.own, (low, high))
        return replace(self, low=low, high=high)

    # ------------------------------------------------------------------ between the values that are possible

    def loose(self, point: Floats) -> dict[int, tuple[float, float]]:
        """The variables that are clearly between two possible values, with these."""
        apart = (self.step > 0.0) | (point < self.low) | (point > self.high)
        gaps = {}
        for i in np.flatnonzero(apart & (point != self.own)).tolist():
            gap = self.gap(i, float(point[i]))
            if gap is not None:
                below, above = gap
                near = _ON_GRID * (above - below)
                if below + near < point[i] < above - near:
                    gaps[i] = gap
        return gaps

    def gap(self, i: int, value: float) -> tuple[float, float] | None:
        """The possible values of variable i next to a value, to the last bit; None where the value itself is one."""
        below = self._nearest(i, value, 1.0)
        above = self._nearest(i, value, -1.0)
        own = float(self.own[i])
        below, above = (max(below, own), above) if own <= value else (below, min(above, own))
        return None if value in (below, above) or not below < above else (below, above)

    def _nearest(self, i: int, value: float, side: float) -> float:
        """The last value that a change can lead to on the way up to this one (side 1), or down to it (-1); or ∓inf.

        Where a grid is finer than rounding, the value itself: as if there were no grid.
        """
        low = float(self.low[i])
        high = float(self.high[i])
        value = min(value, high) if side > 0.0 else max(value, low)
        if not low <= value <= high:
            return -side * np.inf
        places = self.grids.get(i)
        if places is None:
            return value
        if isinstance(places, tuple):
            grid, scaling = places
            numbers = grid.nearest(scaling.estimate(np.array([value]))) + np.arange(-2.0, 3.0)
            places = scaling.apply(grid.value(numbers))
            if (side * places <= side * value).all():
                return value
        good = places[side * places <= side * value]
        return float(good[-1 if side > 0 else 0]) if good.size else value

    # ------------------------------------------------------------------ linear functions

    @cached_property
    def prices(self) -> Floats:
        """What a unit of each variable's move costs: another label is two changes, one variable down and one up."""
        prices = self.weights.copy()
        for group in self.groups:
            prices[group] *= 2.0
        return prices

    @cached_property
    def labels(self) -> list[tuple[int, Ints]]:
        """Of each one-hot group the own label's variable, and those of the others that can be reached."""
        labels = []
        for group in self.groups:
            own = int(group[self.own[group].argmax()])
            open_ = (self.lower[group] < self.upper[group]) & (group != own)
            labels.append((own, group[open_]))
        return labels

    def moves(self, slopes: Floats) -> tuple[Floats, Floats, Floats]:
        """What each variable's move gains and costs for each unit, and how far it goes, for each row of slopes.

        A one-hot group is one move, in the place of its own label: from there to the best other.
        """
        rate = np.abs(slopes)
        room = np.where(slopes > 0.0, self.upper - self.own, self.own - self.lower)
        for group, (own, others) in zip(self.groups, self.labels, strict=True):
            best = slopes[:, others].max(axis=1, initial=-np.inf)
            room[:, group] = 0.0
            room[:, own] = 1.0
            rate[:, own] = np.maximum(best - slopes[:, own], 0.0)
        return rate, np.broadcast_to(self.prices, slopes.shape), np.where(rate > 0.0, room, 0.0)

    def greatest(self, matrix: Floats) -> Floats:
        """The greatest value of each row of `matrix` over box and ball, (m,).

        Start from the own values and spend the radius on the moves with the best gain for their cost.
        """
        rate, price, room = self.moves(matrix)
        if np.isfinite(self.radius):
            # What costs nothing comes first, and takes nothing from the radius.
            with np.errstate(all="ignore"):
                order = np.argsort(-np.where(rate > 0.0, rate / price, -1.0), axis=1)
                rate, price, room = (
                    np.take_along_axis(part, order, axis=1) for part in (rate, price, room)
                )
                full = np.nan_to_num(np.where(price > 0.0, price * room, 0.0))
                left = np.clip(self.radius - (np.cumsum(full, axis=1) - full), 0.0, None)
                room = np.minimum(room, np.where(price > 0.0, left / price, np.inf))
        return np.asarray(matrix @ self.own + (room * rate).sum(axis=1))
