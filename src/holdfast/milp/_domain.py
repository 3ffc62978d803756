"""Where one person's variables can go: their own value, or wherever a change may lead.

    { own }  ∪  [low, high] ∩ grid          for each variable
    sum_i weight_i |x_i - own_i| <= radius  for all of them together, once some answer at that cost is known

The least and the greatest value of a linear function over box and ball is a fractional knapsack, in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
# A radius is widened by this much, so that rounding never cuts off the very answer that it comes from.
_SLACK = 1e-9
# Where a variable with countable values can be: on a grid in the column's units, with the way from there, or listed.
Places = tuple[Grid, Scaling] | Floats
# The values of a label's variable.
_LABEL = (Grid(1.0, 1.0, 0, 1), Scaling())


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
        The distance of the grid points between low and high, up to rounding; 0 where every value is possible.
    grids
        The grid of a variable with a step, in the column's units, and the way from there to the variable; or the values
        of a variable whose step is infinite, one by one.
    weights
        What a change of one unit costs.
    groups, partial_groups
        One-hot variables: exactly one, or at most one, of each group is 1.
    features
        The variables of each column.
    rule_matrix, rule_bounds, rule_sizes
        The rules, A x <= b up to rounding, and the largest number met on the way from the columns' units to b.
    radius
        No point that costs more is of interest.
    """

    own: Floats
    lower: Floats
    upper: Floats
    low: Floats
    high: Floats
    step: Floats
    grids: dict[int, Places]
    weights: Floats
    groups: tuple[Ints, ...]
    partial_groups: tuple[Ints, ...]
    features: tuple[Ints, ...]
    rule_matrix: Floats
    rule_bounds: Floats
    rule_sizes: Floats
    radius: float = np.inf

    @classmethod
    def of(cls, space: FeatureSpace, person: Rows) -> Domain:
        """The domain of one person."""
        numbers = person.numbers[0]
        factual = person.points[0]
        lower, upper = np.concatenate(space.bounds_for(person))
        low = factual.copy()
        high = factual.copy()
        step = np.zeros_like(factual)
        grids: dict[int, Places] = {}
        features: list[Ints] = []
        groups: tuple[list[Ints], ...] = ([], [])
        for i, feature in enumerate(space.features):
            variables = np.array(feature.variables, dtype=np.intp)
            features.append(variables)
            gone = bool(np.isnan(numbers[i]))
            possible = (
                possible_codes(feature, numbers[i : i + 1])[0]
                if feature.listed and not gone
                else None
            )
            if feature.one_hot and possible is not None:
                # At most one of the variables is 1 where a label without a variable can be reached.
                bare = bool((np.array(feature.cells)[possible] < 0).any())
                groups[bare].append(variables)
            if gone and feature.fillable and (feature.flags or feature.listed):
                raise InvalidInputError(
                    f"column {feature.name!r}: expected one that stays missing or is known, for a method that solves "
                    "programs, got one that may be filled in; RNCE and NNCE take it"
                )
            if feature.direction is Direction.IMMUTABLE or (gone and not feature.fillable):
                continue
            if feature.one_hot:
                low[variables] = lower[variables]
                high[variables] = upper[variables]
                step[variables] = np.where(low[variables] < high[variables], 1.0, 0.0)
                grids |= dict.fromkeys(feature.variables, _LABEL)
                continue
            if possible is not None:
                values = np.unique(feature.blocks[possible, 0])
                low[variables] = values[0]
                high[variables] = values[-1]
                step[variables] = np.inf
                grids[feature.variables[0]] = values
                continue
            least, most = np.concatenate(reach(feature, None if gone else numbers[i : i + 1], 1))
            if least <= most:
                variable = feature.variables[0]
                low[variable], high[variable] = feature.scaling.apply(np.array([least, most]))
                if feature.grid is not None:
                    grids[variable] = (feature.grid, feature.scaling)
                    # Through a curve the grid's points are not evenly apart.
                    step[variable] = 0.0 if feature.scaling.linear or least == most else np.inf
        for grid in space.grids:
            if high[grid.variable] > low[grid.variable]:
                step[grid.variable] = grid.step
        matrix, bounds = space.rule_rows()
        sizes = np.zeros_like(bounds)
        for k, terms in enumerate(space.bound_rules):
            largest = [
                space.features[column].scaling.magnitude(np.zeros(())) for column in terms.columns
            ]
            sizes[k] = abs(terms.bound) + np.abs(terms.coefficients) @ largest
        size = np.maximum(np.abs(matrix).max(axis=1, initial=0.0), 1e-300)
        return cls(
            own=factual,
            lower=lower,
            upper=upper,
            low=low,
            high=high,
            step=step,
            grids=grids,
            weights=space.weights,
            groups=tuple(groups[0]),
            partial_groups=tuple(groups[1]),
            features=tuple(features),
            rule_matrix=matrix / size[:, None],
            rule_bounds=bounds / size,
            rule_sizes=sizes / size,
        )

    @property
    def detached(self) -> Bools:
        """Variables whose own value is out of the range that a change could lead to."""
        return (self.own < self.low) | (self.own > self.high)

    def within(self, radius: float) -> Domain:
        """The part that costs at most `radius`."""
        radius = min(self.radius, radius * (1.0 + _SLACK))
        with np.errstate(divide="ignore"):
            span = np.where(self.weights > 0.0, radius / self.weights, np.inf)
        for group in self.groups:
            # Another label costs two changes: one variable down, one up.
            span[group] = np.where(2.0 * self.weights[group] > radius, 0.0, span[group])
        return replace(self.limited(span), radius=radius)

    def limited(self, span: Floats) -> Domain:
        """The part where no variable moves further than its span."""
        low = np.maximum(self.low, self.own - span)
        high = np.minimum(self.high, self.own + span)
        for i in self.grids:
            low[i], high[i] = self._nearest(i, low[i], -1.0), self._nearest(i, high[i], 1.0)
        empty = low > high
        low = np.where(empty, self.own, low)
        high = np.where(empty, self.own, high)
        lower = np.minimum(low, self.own)
        upper = np.maximum(high, self.own)
        return replace(self, low=low, high=high, lower=lower, upper=upper)

    # ------------------------------------------------------------------ between the values that are possible

    def loose(self, point: Floats) -> list[int]:
        """The variables that are clearly between two possible values."""
        apart = (self.step > 0.0) | (point < self.low) | (point > self.high)
        variables = []
        for i in np.flatnonzero(apart & (point != self.own)).tolist():
            gap = self.gap(i, float(point[i]))
            share = 0.0 if gap is None else (point[i] - gap[0]) / (gap[1] - gap[0])
            if _ON_GRID < share < 1.0 - _ON_GRID:
                variables.append(i)
        return variables

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
        if isinstance(places, np.ndarray):
            options = places
            otherwise = -side * np.inf
        else:
            grid, scaling = places
            numbers = grid.nearest(scaling.estimate(np.array([value]))) + np.arange(-2.0, 3.0)
            options = scaling.apply(grid.value(numbers))
            otherwise = value
        good = options[side * options <= side * value]
        beyond = good.size < options.size or isinstance(places, np.ndarray)
        return float(good[-1 if side > 0 else 0]) if good.size and beyond else otherwise

    # ------------------------------------------------------------------ linear functions

    def greatest(self, matrix: Floats) -> Floats:
        """The greatest value of each row of `matrix` over box and ball, (m,).

        Start from the own values and spend the radius on the moves with the best gain for their cost. A one-hot group
        is one move, from the own label to the best other.
        """
        base = matrix @ self.own
        room = np.where(matrix > 0.0, self.upper - self.own, self.own - self.lower)
        rate = np.abs(matrix)
        price = np.broadcast_to(self.weights, matrix.shape).copy()
        for group in self.groups:
            own = group[self.own[group].argmax()]
            movable = self.upper[group] > self.lower[group]
            gain = (matrix[:, group] - matrix[:, [own]]).max(axis=1) * float(movable.any())
            room[:, group] = 0.0
            room[:, own], rate[:, own], price[:, own] = (
                1.0,
                np.maximum(gain, 0.0),
                2.0 * self.weights[own],
            )
        room = np.where(rate > 0.0, room, 0.0)
        if np.isfinite(self.radius):
            # What costs nothing comes first, and takes nothing from the radius.
            with np.errstate(all="ignore"):
                order = np.argsort(-np.where(rate > 0.0, rate / price, -1.0), axis=1)
                rate, price, room = np.take_along_axis(
                    np.stack([rate, price, room]), order[None], axis=2
                )
                full = np.nan_to_num(np.where(price > 0.0, price * room, 0.0))
                left = np.clip(self.radius - (np.cumsum(full, axis=1) - full), 0.0, None)
                room = np.minimum(room, np.where(price > 0.0, left / price, np.inf))
        return np.asarray(base + (room * rate).sum(axis=1))
