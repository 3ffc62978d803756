"""The space as a solver wants it: the grids of the model's variables, and what each person can reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from holdfast.features.admissible import possible_codes, reach
from holdfast.features.codec import Rows
from holdfast.features.feature import Feature
from holdfast.features.kinds import Direction
from holdfast.network import Floats


class VariableGrid(NamedTuple):
    """The values a variable can change to: offset + k * step for k = 0, ..., n_steps, up to rounding.

    Good for a solver; `FeatureSpace.settle` then gives the exact encoding of the exact raw value.
    """

    variable: int
    offset: float
    step: float
    n_steps: int


def reachable_bounds(features: Sequence[Feature], own: Rows) -> tuple[Floats, Floats]:
    """Per row the hull of the factual's own value and of everything a change can lead to, in the model's variables."""
    lower, upper = own.points.copy(), own.points.copy()
    for i, feature in enumerate(features):
        numbers = own.numbers[:, i]
        known = ~np.isnan(numbers)
        if feature.fillable:
            filled = np.ix_(~known, np.array(feature.places))
            lower[filled] = np.minimum(lower[filled], feature.hull[0])
            upper[filled] = np.maximum(upper[filled], feature.hull[1])
        if feature.direction is Direction.IMMUTABLE:
            continue
        if feature.listed:
            rows = np.ix_(known, np.array(feature.variables))
            possible = possible_codes(feature, numbers[known])[:, :, None]
            lower[rows] = np.where(possible, feature.blocks, np.inf).min(axis=1, initial=np.inf)
            upper[rows] = np.where(possible, feature.blocks, -np.inf).max(axis=1, initial=-np.inf)
            continue
        low, high = reach(feature, numbers, numbers.shape[0])
        moving, variable = (low <= high) & known, feature.variables[0]
        lower[moving, variable] = np.minimum(lower[moving, variable], feature.scaling.apply(low[moving]))
        upper[moving, variable] = np.maximum(upper[moving, variable], feature.scaling.apply(high[moving]))
    return lower, upper
