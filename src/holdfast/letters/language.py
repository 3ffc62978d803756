"""How a language writes numbers and dates: exact where it matters, and always to be read back."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context

import numpy as np

from holdfast.errors import InvalidInputError

_MOST_DECIMALS = 2
_SHORT = Context(prec=3, rounding=ROUND_DOWN)


@dataclass(frozen=True)
class Language:
    """The number and date formats of a language: what ``format.json`` in its folder of templates says.

    Examples
    --------
    >>> months = tuple("January February March April May June July August September October November December".split())
    >>> english = Language(".", ",", "{}%", "about {}", "yes", "no", "{day} {month} {year}", months)
    >>> english.number(1750.0), english.number(0.1 + 0.2), english.short(0.1 + 0.2), english.rounded_down(0.0052349)
    ('1,750', '0.30000000000000004', 'about 0.3', '0.00523')
    >>> english.read("1,750.5"), english.day(datetime.date(2027, 1, 31))
    (1750.5, '31 January 2027')
    """

    decimal: str
    thousands: str
    percent: str
    about: str
    yes: str
    no: str
    date: str
    months: tuple[str, ...]
    missing: str = "–"

    def __post_init__(self) -> None:
        signs = (self.decimal, self.thousands)
        if len(self.decimal) != 1 or self.decimal == self.thousands or set("".join(signs)) & set("0123456789-e"):
            raise InvalidInputError(f"format.json: expected different signs for 'decimal' and 'thousands', got {signs}")
        if len(self.months) != 12:
            raise InvalidInputError(f"format.json: expected 12 months, got {len(self.months)}")

    def number(self, value: float) -> str:
        """The number with as many digits as it takes to read back the same float64."""
        whole, _, fraction = np.format_float_positional(abs(value), unique=True, trim="-").partition(".")
        grouped = f"{int(whole):,}".replace(",", self.thousands)
        return f"{'-' if value < 0 else ''}{grouped}{self.decimal if fraction else ''}{fraction}"

    def read(self, text: str) -> float:
        """The number that `number` wrote."""
        return float(text.replace(self.thousands, "").replace(self.decimal, "."))

    def short(self, value: float) -> str:
        """The number for people: long fractions are shortened, and marked as such."""
        shortened = round(value, _MOST_DECIMALS) if abs(value) >= 0.1 else float(f"{value:.{_MOST_DECIMALS}g}")
        text = self.number(shortened)
        return text if shortened == value else self.about.replace("{}", text)

    def rounded_down(self, value: float) -> str:
        """At most three digits, never more than the number itself."""
        return self.number(float(_SHORT.create_decimal(repr(value))))

    def day(self, date: datetime.date) -> str:
        """A date in words."""
        parts = {"{day}": str(date.day), "{month}": self.months[date.month - 1], "{year}": str(date.year)}
        text = self.date
        for place, part in parts.items():
            text = text.replace(place, part)
        return text
