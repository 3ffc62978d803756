"""Dates as callers give them: a date object, or unambiguous text in ISO 8601."""

from __future__ import annotations

import datetime
from typing import Any

import pandas as pd

from holdfast.errors import InvalidInputError


def read_day(value: Any, name: str) -> datetime.date:
    """Read a date.

    Examples
    --------
    >>> read_day("2026-11-16", "until")
    datetime.date(2026, 11, 16)
    """
    try:
        # pandas would read 05.11.2026 as the 11th of May, and a whole number as nanoseconds since 1970.
        stamp = pd.Timestamp(
            datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
        )
        if isinstance(value, bool | int | float) or pd.isna(stamp):
            raise ValueError("no date")
        return stamp.date()
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{name}: expected a date such as '2026-11-16', got {value!r}"
        ) from error


def iso_date(value: Any, name: str) -> str:
    """Write a date in ISO 8601: text stays as it is; None is today (UTC)."""
    if value is None:
        return datetime.datetime.now(datetime.UTC).date().isoformat()
    day = read_day(value, name)
    if isinstance(value, str):
        return value
    return value.isoformat() if isinstance(value, datetime.date) else day.isoformat()
