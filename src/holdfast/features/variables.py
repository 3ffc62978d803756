"""The space as a solver wants it: bounds, groups, grids and rows over the model's variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.features.admissible import possible_codes, reach
from holdfast.features.binding import RuleTerms, bind_rules
from holdfast.features.codec import Codec, Rows, Table, is_raw
from holdfast.features.feature import Feature
from holdfast.features.kinds import Direction
from holdfast.features.rules import Rule
from holdfast.network import Floats


class VariableGrid(NamedTuple):
    """The values a variable can change to: offset + k * step for k = 0, ..., n_steps, up to rounding.

    Good for a solver; `FeatureSpace.settle` then gives the exact encoding of the exact raw value.
    """

    variable: int
    offset: float
    step: float
    n_steps: int


@dataclass(frozen=True)
class VariableView(Codec):
    """The model's variables with their bounds, groups, grids and rules."""

    rules: tuple[Rule, ...] = ()

    @cached_property
    def bound_rules(self) -> tuple[RuleTerms, ...]:
        """The rules by position of the features, ready to be evaluated."""
        return bind_rules(self.rules, self.features)

    @cached_property
    def lower(self) -> Floats:
        """The least value of each variable within the ranges."""
        return _variable_ends(self.features, self.n_variables)[0]

    @cached_property
    def upper(self) -> Floats:
        """The largest value of each variable within the ranges."""
        return _variable_ends(self.features, self.n_variables)[1]

    @cached_property
    def groups(self) -> list[NDArray[np.intp]]:
        """The one-hot groups: variables of which exactly one is 1 and the others are 0."""
        return [np.array(f.variables, dtype=np.intp) for f in self.features if f.one_hot and not f.drops_one]

    @cached_property
    def partial_groups(self) -> list[NDArray[np.intp]]:
        """The one-hot groups without a variable for their first label: at most one is 1."""
        return [np.array(f.variables, dtype=np.intp) for f in self.features if f.drops_one]

    @cached_property
    def grids(self) -> tuple[VariableGrid, ...]:
        """The grid of each single variable whose changed values are countable (steps, whole numbers, 0/1, ranks)."""
        return _variable_grids(self.features)

    @cached_property
    def integer_variables(self) -> NDArray[np.intp]:
        """The variables with countable values: those with a grid and those that stand for labels."""
        curved = [f for f in self.features if f.listed or (f.grid is not None and not f.scaling.linear)]
        hot = [variable for feature in curved for variable in feature.variables]
        return np.array(sorted([*hot, *(grid.variable for grid in self.grids)]), dtype=np.intp)

    @cached_property
    def weights(self) -> Floats:
        """The cost weight of each variable."""
        weights = np.ones(self.n_variables)
        for feature in self.features:
            weights[[*feature.variables, *(flag[0] for flag in feature.flags)]] = feature.cost
        weights.setflags(write=False)
        return weights

    def rule_rows(self) -> tuple[Floats, Floats]:
        """The rules over the model's variables, A x <= b, up to rounding; `violations` checks them exactly."""
        return _rule_rows(self.features, self.bound_rules, self.n_variables)

    def bounds_for(self, factuals: Table) -> tuple[Floats, Floats]:
        """Per row, the least and the largest value of each variable that this person can reach.

        Immutable variables have both equal to the factual's, also the members of a one-hot group. The bounds enclose
        the factual's own value, also where it is outside the range, and all that a change can lead to. A single row
        (1-d) gives 1-d bounds.
        """
        single = not is_raw(factuals) and np.ndim(cast(ArrayLike, factuals)) == 1
        own = self.rows(np.atleast_2d(np.asarray(factuals)) if single else factuals)
        lower, upper = _reachable_bounds(self.features, own)
        return (lower[0], upper[0]) if single else (lower, upper)


def _variable_ends(features: Sequence[Feature], n_variables: int) -> tuple[Floats, Floats]:
    """The least and the largest value of each variable within the ranges."""
    lower, upper = np.zeros(n_variables), np.ones(n_variables)
    for feature in features:
        if not feature.one_hot:
            ends = feature.blocks if feature.values or feature.edges else feature.encode(_ends(feature))
            lower[feature.variables[0]], upper[feature.variables[0]] = ends.min(), ends.max()
        for variable, known, missing in feature.flags:
            lower[variable], upper[variable] = min(known, missing), max(known, missing)
    lower.setflags(write=False)
    upper.setflags(write=False)
    return lower, upper


def _ends(feature: Feature) -> Floats:
    return np.array([feature.lower, feature.upper])


def _variable_grids(features: Sequence[Feature]) -> tuple[VariableGrid, ...]:
    """The grid of each single variable whose changed values are countable."""
    grids = []
    for feature in features:
        if feature.grid is not None and not feature.listed and feature.scaling.linear:
            ends = feature.grid.value(np.array([feature.grid.first, feature.grid.last], dtype=np.float64))
            first, last = feature.scaling.apply(ends).tolist()
            n_steps = feature.grid.last - feature.grid.first
            grids.append(VariableGrid(feature.variables[0], first, (last - first) / max(n_steps, 1), n_steps))
    return tuple(grids)


def _reachable_bounds(features: Sequence[Feature], own: Rows) -> tuple[Floats, Floats]:
    """Per row the hull of the factual's own value and of everything a change can lead to, in the model's variables."""
    lower, upper = own.points.copy(), own.points.copy()
    for i, feature in enumerate(features):
        gone = np.isnan(own.numbers[:, i])
        if gone.any():
            _fill(feature, gone, lower, upper)
        if feature.direction is Direction.IMMUTABLE:
            continue
        if feature.listed:
            _widen(feature, np.flatnonzero(~gone), own.numbers[:, i], lower, upper)
            continue
        low, high = reach(feature, own.numbers[:, i], own.numbers.shape[0])
        rows, variable = (low <= high) & ~gone, feature.variables[0]
        lower[rows, variable] = np.minimum(lower[rows, variable], feature.scaling.apply(low[rows]))
        upper[rows, variable] = np.maximum(upper[rows, variable], feature.scaling.apply(high[rows]))
    return lower, upper


def _widen(feature: Feature, rows: NDArray[np.intp], own: Floats, lower: Floats, upper: Floats) -> None:
    """The hull of the variables of every label that each person can get."""
    places = np.ix_(rows, np.array(feature.variables))
    possible = possible_codes(feature, own[rows])[:, :, None]
    lower[places] = np.where(possible, feature.blocks, np.inf).min(axis=1, initial=np.inf)
    upper[places] = np.where(possible, feature.blocks, -np.inf).max(axis=1, initial=-np.inf)


def _fill(feature: Feature, rows: NDArray[np.bool_], lower: Floats, upper: Floats) -> None:
    """Where a missing value may be filled in: the hull of what it is now and of every value that it could get."""
    if not feature.fillable:
        return
    ends = feature.blocks if feature.listed else feature.encode(_ends(feature))
    for column, values in zip(feature.variables, ends.T, strict=True):
        lower[rows, column] = np.minimum(lower[rows, column], values.min())
        upper[rows, column] = np.maximum(upper[rows, column], values.max())
    for column, known, _ in feature.flags:
        lower[rows, column], upper[rows, column] = (
            np.minimum(lower[rows, column], known), np.maximum(upper[rows, column], known),
        )  # fmt: skip


def _rule_rows(features: Sequence[Feature], rules: Sequence[RuleTerms], n_variables: int) -> tuple[Floats, Floats]:
    """A x <= b over the model's variables: raw = slope * x + offset put into each rule."""
    matrix, bounds = np.zeros((len(rules), n_variables)), np.zeros(len(rules))
    for i, terms in enumerate(rules):
        bounds[i] = terms.bound
        for column, coefficient in zip(terms.columns, terms.coefficients, strict=True):
            slope, offset = features[column].scaling.affine()
            # Of a one-hot flag the last variable, that of label 1, is its number.
            matrix[i, features[column].variables[-1]] += coefficient * slope
            bounds[i] -= coefficient * offset
    return matrix, bounds
