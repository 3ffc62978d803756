"""The largest change of a number, as a share of the person's own value.

    own - down * |own|  <=  new  <=  own + up * |own|

Shares and values count as the decimals that they are written as. So 0.7 of 1,000 is 700, although the float 0.7 is a
little less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from holdfast._given import given_number, shown
from holdfast._network import Floats, Pair
from holdfast.errors import InvalidInputError

# A whole number up to here over a power of ten is written with just these digits: a float64 holds 15 of them.
_EXACT = 1e15
# The largest share, 1,000%: a larger number is a percentage.
_MOST = 10.0
_MOST_DECIMALS, _MOST_DIGITS = 6, 12

Shares = tuple[float | None, ...]


def read_shares(given: Any, argument: str) -> Shares:
    """A share, or (down, up), as a pair; empty where neither way has a limit."""
    pair = [given, given]
    if isinstance(given, Sequence) and not isinstance(given, str):
        pair = list(given)
        if len(pair) != 2:
            raise InvalidInputError(
                f"{argument}: a pair is (down, up), such as (0, 0.4), got {len(pair)} values"
            )
    shares = tuple(_share(one, argument) for one in pair)
    return () if shares == (None, None) else shares


def _share(given: Any, argument: str) -> float | None:
    if given is None:
        return None
    number = given_number(given)
    if number is None or not math.isfinite(number):
        raise InvalidInputError(
            f"{argument}: expected a share of the own value, such as 0.4 for 40%, got {shown(given)}"
        )
    if number < 0.0:
        raise InvalidInputError(
            f"{argument}: a share is 0 or more, got {number:g}; the pair (0.2, 0.4) allows 20% down and 40% up"
        )
    if number > _MOST:
        raise InvalidInputError(
            f"{argument}: expected a share such as 0.4 for 40%, got {number:g}; the largest share is {_MOST:g}"
        )
    return number + 0.0


def limit_words(shares: Shares) -> str:
    """The limits for a reader.

    Examples
    --------
    >>> limit_words((0.4, 0.4)), limit_words((0.0, 0.4)), limit_words((None, 0.075))
    ('at most 40%', 'at most 0% down and 40% up', 'at most 7.5% up')
    """
    down, up = shares
    if down == up:
        return f"at most {_percent(up)}"
    ways = ((down, "down"), (up, "up"))
    return (
        f"at most {' and '.join(f'{_percent(one)} {way}' for one, way in ways if one is not None)}"
    )


def _percent(share: float | None) -> str:
    return f"{100.0 * (share or 0.0):.6g}%"


def share_limits(shares: Shares, own: Floats) -> Pair:
    """The least and the largest number that each own value may change to, exactly; nan stays nan.

    Examples
    --------
    >>> low, high = share_limits((0.25, 0.7), np.array([1000.0, -40.0, 0.0]))
    >>> low.tolist(), high.tolist()
    ([750.0, -50.0, 0.0], [1700.0, -12.0, 0.0])
    """
    down, up = shares
    low = np.full(own.shape, -np.inf) if down is None else 0.0 - _most(-own, down)
    high = np.full(own.shape, np.inf) if up is None else _most(own, up)
    return low, high


def _most(own: Floats, share: float) -> Floats:
    """The largest float that is written as at most  own + share * |own|."""
    values, places = np.unique(own, return_inverse=True)
    result = np.full(values.shape, np.nan)
    pending = ~np.isnan(values)
    exact = Fraction(repr(share))
    digits = next(d for d in range(400) if 10**d % exact.denominator == 0)
    # Most values have a few decimals: then one division rounds to the float that is written as the limit itself.
    for decimals in range(_MOST_DECIMALS + 1 if digits <= _MOST_DIGITS else 0):
        scale, per = 10.0**decimals, 10.0**digits
        with np.errstate(all="ignore"):
            whole = np.rint(values * scale)
            rise = np.abs(whole) * float(exact * 10**digits)
            limit = whole * per + rise
            size = np.abs(whole * per) + rise
            fits = pending & (whole / scale == values) & (size < _EXACT)
        result[fits] = limit[fits] / (per * scale)
        pending &= ~fits
    for place in np.flatnonzero(pending).tolist():
        result[place] = _written_at_most(float(values[place]), exact)
    return np.asarray(result[places.reshape(own.shape)] + 0.0)


def _written_at_most(own: float, share: Fraction) -> float:
    written = Fraction(repr(own))
    limit = written + share * abs(written)
    try:
        nearest = float(limit)
    except OverflowError:
        return math.inf
    while Fraction(repr(nearest)) > limit:
        nearest = math.nextafter(nearest, -math.inf)
    return nearest
