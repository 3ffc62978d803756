"""Figures of a column of all rows, summed over its parts in constant memory."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd

from holdfast._network import Bools
from holdfast.cli._screens import SHOWN, WIDE, show_table


class Shares:
    """The share of rows that have at least a given value, to four digits."""

    def __init__(self) -> None:
        self.counts = Counter[float]()

    def add(self, values: pd.Series) -> None:
        """Count another part."""
        # To four digits, rounded down: there are few of them however many rows there are, and `at least` stays true.
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = 10.0 ** (np.floor(np.log10(values.to_numpy())) - 3)
            down = np.floor(values / unit) * unit
        self.counts.update(np.where(np.isfinite(down), np.minimum(down, values), values).tolist())

    def least(self, share: float) -> float:
        """The largest value that this share of the rows reaches."""
        ends = sorted(self.counts)
        counts = np.cumsum([self.counts[end] for end in ends])
        return ends[int(np.searchsorted(counts, (1 - share) * (counts[-1] - 1), "right"))]


class Smallest:
    """The few rows with the least values of a column."""

    def __init__(self) -> None:
        self.rows = pd.Series(dtype=np.float64)

    def add(self, values: pd.Series, counted: Bools) -> None:
        """Take in another part; only `counted` rows."""
        full = len(self.rows) == SHOWN
        few = np.flatnonzero(
            counted & (values.to_numpy() <= (self.rows.iloc[-1] if full else np.inf))
        )
        if not few.size:
            return
        least = values.iloc[few].nsmallest(SHOWN)
        both = least if self.rows.empty else pd.concat([self.rows, least])
        self.rows = both.nsmallest(SHOWN)

    def show(self, title: str, heading: str) -> None:
        """Show them as a table."""
        rows = ((key, f"{value:.6g}") for key, value in self.rows.items())
        key = str(self.rows.index.name or "row")
        show_table((key, heading), rows, right=(heading,), first_width=WIDE, title=title)
