"""The values a stepped column can take: the multiples of its step in its range.

    value(k) = k * numerator / denominator,    first <= k <= last

A step of 0.1 is kept as 1 / 10, so that point 3 is the float written 0.3 and not 0.1 + 0.1 + 0.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from holdfast._network import Floats
from holdfast.errors import InvalidInputError

_EXACT = 2.0**53


@dataclass(frozen=True)
class Grid:
    """Multiples of a step. Grid numbers k are whole float64 numbers, so that they vectorise with the values.

    Examples
    --------
    >>> grid = Grid.over(0.1, 0.25, 1.0)
    >>> grid.first, grid.last
    (3, 10)
    >>> grid.value(np.array([3.0, 7.0])).tolist()
    [0.3, 0.7]
    """

    numerator: float
    denominator: float
    first: int
    last: int

    @classmethod
    def over(cls, step: float, lower: float, upper: float) -> Grid:
        """The multiples of `step` in [lower, upper]; at least one is needed."""
        if not (math.isfinite(lower) and math.isfinite(upper)):
            raise InvalidInputError(
                f"expected a finite range for a column with steps, got [{lower}, {upper}]"
            )
        numerator, denominator = _as_decimal(step, max(abs(lower), abs(upper)))
        exact = Fraction(numerator) / Fraction(denominator)
        # The range's ends are floats too, so the rounded value decides: 0.3 itself is a point of the grid 0.1.
        first = math.ceil(Fraction(lower) / exact)
        last = math.floor(Fraction(upper) / exact)
        first -= (first - 1) * numerator / denominator >= lower
        last += (last + 1) * numerator / denominator <= upper
        if first > last:
            raise InvalidInputError(
                f"the range [{lower}, {upper}] has no multiple of the step {step}; widen it or take a smaller step"
            )
        return cls(numerator, denominator, first, last)

    def value(self, k: Floats) -> Floats:
        """The k-th multiple, always computed by this one formula."""
        return k * self.numerator / self.denominator + 0.0

    def nearest(self, values: Floats) -> Floats:
        """The number of the multiple nearest to each value, also outside the range."""
        return np.rint(values * self.denominator / self.numerator)

    def floor(self, values: Floats) -> Floats:
        """The number of the last multiple <= each value, also outside the range."""
        k = self.nearest(values)
        k = k - (self.value(k) > values)
        return k + (self.value(k + 1.0) <= values)

    def ceil(self, values: Floats) -> Floats:
        """The number of the first multiple >= each value, also outside the range."""
        return -self.floor(-values)


class VariableGrid(NamedTuple):
    """The values a variable can change to: offset + k * step for k = 0, ..., n_steps, up to rounding.

    Good for a solver; `FeatureSpace.settle` then gives the exact encoding of the exact raw value.
    """

    variable: int
    offset: float
    step: float
    n_steps: int


def _as_decimal(step: float, largest: float) -> tuple[float, float]:
    """step = numerator / denominator as it is written in decimals, if every multiple is then exact; else (step, 1)."""
    exponent = Decimal(repr(step)).as_tuple().exponent
    decimals = max(0, -exponent) if isinstance(exponent, int) else 0
    numerator = Fraction(Decimal(repr(step))) * 10**decimals
    if decimals <= 22 and (largest + step) * 10**decimals < _EXACT:
        return float(numerator), 10.0**decimals
    return step, 1.0
