"""From a column's own unit to the model's variable and back, without losing track of a single bit.

A scaling is a short chain of operations with constants, e.g. minmax: subtract the least value, divide by the range.
Each is carried out in float64 in the order given, which is how scikit-learn's scalers do it, so the network sees the
same bits as in production. Such a chain never decreases but it is not one-to-one on floats: several raw values can
share one encoded value. `Scaling.invert` therefore picks one of them by a rule that depends on the encoded value alone:
the one with the fewest decimals. So a number with at most 17 decimals comes back as it was if its last decimal place
is worth more than 1e-14 of `Scaling.magnitude`, the largest number on the way (value, shift, range). Longer fractions
may come back as a neighbour with the same encoding, which the model cannot tell from the original.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from holdfast._network import Floats
from holdfast.errors import InvalidInputError
from holdfast.features._curves import ARITHMETIC, CURVES

_MOST_DECIMALS = 17
_EPSILON = float(np.finfo(np.float64).eps)
_STEPS = ARITHMETIC | CURVES


@dataclass(frozen=True)
class Scaling:
    """A chain of ("subtract" | "add" | "divide" | "multiply", constant); factors are positive, so order is kept.

    A step may also be one of `curves.CURVES`, an increasing function, with its parameters.

    Examples
    --------
    >>> scaling = Scaling((("subtract", 20.0), ("divide", 50.0)))
    >>> scaling.apply(np.array([20.0, 45.0, 70.0]))
    array([0. , 0.5, 1. ])
    >>> scaling.invert(scaling.apply(np.array([33.3])), "float64").item()
    33.3
    """

    operations: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for operation, constant in self.operations:
            if operation in CURVES and np.isfinite(constant).all():
                continue
            factor = operation in ("divide", "multiply")
            if (
                operation not in ARITHMETIC
                or not math.isfinite(constant)
                or (factor and constant <= 0.0)
            ):
                raise InvalidInputError(
                    f"expected a scaling with finite constants and factors > 0, got {self}"
                )

    def apply(self, values: Floats) -> Floats:
        """Raw values -> encoded values; zeros come out unsigned."""
        with np.errstate(all="ignore"):
            for operation, constant in self.operations:
                values = _STEPS[operation][0](values, constant)
        return values + 0.0

    @cached_property
    def linear(self) -> bool:
        """Whether there is no curve in it."""
        return CURVES.keys().isdisjoint(dict(self.operations))

    def estimate(self, encoded: Floats) -> Floats:
        """Encoded values -> raw values, up to rounding."""
        with np.errstate(all="ignore"):
            for operation, constant in reversed(self.operations):
                encoded = _STEPS[operation][1](encoded, constant)
        return encoded + 0.0

    def line(self) -> tuple[Fraction, Fraction]:
        """(slope, offset) with encoded = slope * raw + offset, exactly; only where there is no curve."""
        if not self.linear:
            curve = next(operation for operation, _ in self.operations if operation in CURVES)
            raise InvalidInputError(
                f"expected columns that are scaled linearly, got one that goes through {curve}; take NNCE or RNCE, "
                "which keep linear rules on it"
            )
        slope = Fraction(1)
        offset = Fraction(0)
        for operation, constant in self.operations:
            exact = Fraction(constant)
            if operation in ("multiply", "divide"):
                factor = exact if operation == "multiply" else 1 / exact
                slope = slope * factor
                offset = offset * factor
            else:
                offset += exact if operation == "add" else -exact
        return slope, offset

    def affine(self) -> tuple[float, float]:
        """(slope, offset) with raw = slope * encoded + offset, each correctly rounded."""
        slope, offset = self.line()
        return float(1 / slope), float(-offset / slope)

    def magnitude(self, encoded: Floats) -> Floats:
        """How large, in raw units, the numbers get on the way: rounding is a few ulps of this."""
        size = np.abs(encoded)
        for operation, constant in reversed(self.operations):
            if operation in CURVES:
                # How far a few ulps of the encoded number are in raw units: the number itself, and its slope there.
                with np.errstate(all="ignore"):
                    ends = [
                        CURVES[operation][1](side * size * f, constant)
                        for side in (1, -1)
                        for f in (1, 1.001)
                    ]
                spread = [np.abs(ends[i + 1] - ends[i]) * 1e3 for i in (0, 2)]
                parts = [
                    np.nan_to_num(np.abs(part), nan=0.0, posinf=0.0) for part in (*ends, *spread)
                ]
                size = np.max(parts, axis=0)
                continue
            factor = operation in ("divide", "multiply")
            size = ARITHMETIC[operation][1](size, constant) if factor else size + abs(constant)
        return size

    def invert(
        self, encoded: Floats, precision: str, favourites: Sequence[float | Floats] = ()
    ) -> Floats:
        """A raw value for each encoded one: exactly an original where one exists, otherwise the nearest.

        Parameters
        ----------
        precision
            What the column can hold: "integer", "float16", "float32" or "float64".
        favourites
            Raw values taken before any other with the same encoding: the ends of the range, the nearest grid points.
        """
        guess = self.estimate(encoded)
        result = hold(guess, precision)
        pending = np.arange(encoded.shape[0])

        def keep(candidate: Floats) -> None:
            nonlocal pending
            hit = self.apply(candidate) == encoded[pending]
            result[pending[hit]] = candidate[hit]
            pending = pending[~hit]

        for value in favourites:
            if pending.size:
                keep(np.broadcast_to(value, encoded.shape)[pending])
        for decimals in range(1 if precision == "integer" else _MOST_DECIMALS + 1):
            if pending.size:
                keep(hold(round_decimals(guess[pending], decimals), precision))
        if precision == "float64" and pending.size:
            result[pending] = self._bisect(encoded[pending], guess[pending])
        return result

    def _bisect(self, encoded: Floats, guess: Floats) -> Floats:
        """A float that `apply` maps to exactly `encoded`, near `guess`; `guess` where there is none."""
        width = 8.0 * _EPSILON * (len(self.operations) + 1) * self.magnitude(encoded)
        low = guess - width
        high = guess + width
        result = guess.copy()
        active = self.apply(guess) != encoded
        while active.any():
            middle = low + (high - low) / 2.0
            image = self.apply(middle)
            result = np.where(active & (image == encoded), middle, result)
            exhausted = (middle <= low) | (middle >= high)
            low = np.where(image < encoded, middle, low)
            high = np.where(image > encoded, middle, high)
            active &= (image != encoded) & ~exhausted
        return result


def round_decimals(values: Floats, decimals: int) -> Floats:
    """Rounded to `decimals` decimals: the float that the decimal literal reads as."""
    power = 10.0**decimals
    with np.errstate(over="ignore"):
        scaled = np.rint(values * power) / power
    return np.where(np.isfinite(scaled), scaled, values) + 0.0


def hold(values: Floats, precision: str) -> Floats:
    """The nearest value, as float64, that a column of this precision can hold."""
    if precision == "integer":
        return np.rint(values) + 0.0
    if precision == "float64":
        return np.array(values, dtype=np.float64)
    return values.astype(np.dtype(precision)).astype(np.float64)


def hold_down(values: Floats, precision: str) -> Floats:
    """The largest value, as float64, up to each of these that a column of this precision can hold."""
    if precision == "integer":
        return np.floor(values)
    with np.errstate(over="ignore"):
        short = values.astype(np.dtype(precision))
    return np.where(short <= values, short, np.nextafter(short, short.dtype.type(-np.inf))).astype(
        np.float64
    )


def hold_inward(lower: float, upper: float, precision: str) -> tuple[float, float]:
    """The largest range inside [lower, upper] whose ends a column of this precision can hold."""
    low, high = hold_down(np.array([-lower, upper]), precision).tolist()
    return -low, high
