"""Numbers as people read them; the script of the report's page writes them in the same way.

Halves are rounded up in decimal notation, as in browsers. A radius, and a delta that something is proven for, are
rounded down.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd

NOTHING = "–"
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_PERCENT = ("%", "percent")
_SMALL, _LARGE = 1e-4, 1000
# A number with more decimals than this is not written by hand.
_DECIMALS = 4
# Of a text so many characters.
_LONGEST = 300


def figure(number: float | None, digits: int = 3, rounding: str = ROUND_HALF_UP) -> str:
    """Write a cost or a distance to some significant digits, with all digits before the point.

    >>> figure(0.12345), figure(48832.4), figure(0.000052), figure(-2.5), figure(None)
    ('0.123', '48,832', '5.2×10⁻⁵', '−2.5', '–')
    """
    if number is None or number != number:
        return NOTHING
    if not isfinite(number):
        return "∞" if number > 0 else "−∞"
    exact = Decimal(repr(float(number)))
    if abs(number) >= _LARGE:
        return _grouped(exact.to_integral_value(rounding=rounding))
    rounded = Context(prec=digits, rounding=rounding).create_decimal(exact)
    if number == 0 or abs(number) >= _SMALL:
        return _grouped(rounded)
    exponent = rounded.adjusted()
    return f"{_grouped(rounded.scaleb(-exponent))}×10{str(exponent).translate(_SUPERSCRIPT)}"


def radius(number: float | None) -> str:
    """Write a certified radius, rounded down to what is proven.

    >>> radius(0.0051999), radius(None)
    ('0.00519', '–')
    """
    return figure(number, rounding=ROUND_DOWN)


def at_most(number: float | None) -> str:
    """Write a delta that something is proven for, rounded down, with one digit more than radii.

    >>> at_most(0.00519996), at_most(0.1 + 0.2)
    ('0.005199', '0.3')
    """
    return figure(number, digits=4, rounding=ROUND_DOWN)


def about(number: float) -> str:
    """Write a delta in a sentence or next to a plot, marked if digits were left out.

    >>> about(0.005), about(0.00519996)
    ('0.005', 'about 0.005199')
    """
    text = at_most(number)
    return text if text == figure(number, digits=17) else f"about {text}"


def deltas(least: float | None, most: float) -> str:
    """Write the radius of Δ; of several radii, the least and the largest.

    >>> deltas(None, 0.02), deltas(0.001, 0.02)
    ('0.02', '0.001 to 0.02, by part of the model')
    """
    return (
        at_most(most)
        if least is None
        else f"{at_most(least)} to {at_most(most)}, by part of the model"
    )


def share(part: float) -> str:
    """Write a share in percent; rounding never gives "all" or "none".

    >>> share(0.846), share(0.9996), share(1.0), share(0.001)
    ('85%', '>99%', '100%', '<1%')
    """
    if 0 < part < 0.01:
        return "<1%"
    if 0.99 < part < 1:
        return ">99%"
    return f"{Decimal(repr(float(100 * part))).quantize(Decimal(1), rounding=ROUND_HALF_UP)}%"


def part_of(part: int, whole: int) -> str:
    """Write a share of people in percent; a dash if there are no people.

    >>> part_of(3, 4), part_of(0, 0)
    ('75%', '–')
    """
    return share(part / whole) if whole else NOTHING


def roundest(low: float, high: float, *, up: bool) -> float:
    """The number with the fewest digits from `low` to `high`; of several the greatest if `up`, otherwise the least.

    >>> roundest(37.2, 41.9, up=True), roundest(0.1234, 0.1299, up=False), roundest(3.0, 3.0, up=True)
    (40.0, 0.125, 3.0)
    """
    ends = Decimal(low), Decimal(high)
    size = max(abs(end) for end in ends)
    for exponent in range(size.adjusted() + 1, -18, -1) if size and low < high else ():
        for unit in (Decimal(1), Decimal(5).scaleb(-1)):
            step = unit.scaleb(exponent)
            way = ROUND_FLOOR if up else ROUND_CEILING
            multiple = (ends[up] / step).to_integral_value(rounding=way) * step
            if ends[0] <= multiple <= ends[1] and low <= float(multiple) <= high:
                return float(multiple)
    return high if up else low


def short(number: float, *, up: bool) -> float:
    """A number of few decimals within a thousandth above or below the given one, or the given one if it is short.

    >>> short(2999.999877929687, up=False), short(1.9999999403953552, up=False), short(0.25, up=False)
    (2999.0, 1.999, 0.25)
    """
    exact = Decimal(number)
    if round(number, _DECIMALS) == number:
        return number
    for decimals in range(_DECIMALS + 1):
        way = ROUND_CEILING if up else ROUND_FLOOR
        rounded = exact.quantize(Decimal(1).scaleb(-decimals), rounding=way)
        inside = float(rounded) >= number if up else float(rounded) <= number
        if inside and abs(rounded - exact) <= abs(exact) / _LARGE:
            return float(rounded)
    return number


def change(value: float | None, unit: str = "") -> str:
    """Write a signed change in the caller's unit, to four significant digits; percentages change in points.

    >>> change(1250.0, "USD"), change(-0.5), change(7, "%")
    ('+1,250 USD', '−0.5', '+7 points')
    """
    if value is None:
        return NOTHING
    text = ("+" if value > 0 else "") + figure(value, digits=4)
    unit = "points" if unit in _PERCENT else unit
    return f"{text} {unit}" if unit else text


def readable(value: Any) -> str:
    """Write any value: fractions to four digits, a thousands separator, yes and no.

    >>> [readable(value) for value in (0.123456, 1234567, float("inf"), None, True, "as it is")]
    ['0.1235', '1,234,567', '∞', '–', 'yes', 'as it is']
    """
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):
        return figure(float(value), digits=4)
    if value is None or value is pd.NaT or value is pd.NA:
        return NOTHING
    text = str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _grouped(number: Decimal) -> str:
    whole, _, fraction = f"{number:f}".partition(".")
    fraction = fraction.rstrip("0")
    text = f"{int(whole):,}" if abs(int(whole)) else whole
    return (text + (f".{fraction}" if fraction else "")).replace("-", "−")
