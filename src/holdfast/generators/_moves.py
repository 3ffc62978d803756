"""What advice asks for: which columns move, for how many people, and by how much in the caller's units."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from holdfast._network import Floats
from holdfast.features import Feature, Kind
from holdfast.features._codec import differs
from holdfast.features._describe import readable, unit_after
from holdfast.features._notes import Notes

if TYPE_CHECKING:
    from holdfast.generators._recourse import Recourse

_MOST_SWAPS = 5


@dataclass(frozen=True)
class Move:
    """How the answers move one column.

    Attributes
    ----------
    notes
        What people call the column, its values and its unit.
    up, down, other
        How many people are told to raise it, to lower it, and, where there is no order or no value yet, to change it.
    low, median, high
        Of the changes, with their signs and in the column's units: the 10%, 50% and 90% quantiles; nan for labels.
    swaps
        For labels, the changes that most people are told, the commonest first: from, to, and to how many.
    """

    feature: Feature
    notes: Notes
    up: int
    down: int
    other: int
    low: float = np.nan
    median: float = np.nan
    high: float = np.nan
    swaps: tuple[tuple[str, str, int], ...] = ()

    @property
    def label(self) -> str:
        """What people call the column."""
        return self.notes.label(self.feature.name)

    @property
    def changed(self) -> int:
        """How many people are told to change it."""
        return self.up + self.down + self.other

    @property
    def amount(self) -> str:
        """By how much, in a few words: "+550 USD (+50 to +1,200)", or "rent → owner (12)"."""
        if self.swaps:
            before, after, people = self.swaps[0]
            return f"{before} → {after} ({people:,})"
        low, median, high = (_signed(self, value) for value in (self.low, self.median, self.high))
        return f"{median}{unit_after(self.feature, self.notes)}" + (
            f" ({low} to {high})" if low != high else ""
        )


def change_table(recourse: Recourse, n: int) -> pd.DataFrame:
    """The first `n` people and the columns that any of them is to change: "1,200 → 1,750", "" where it stays."""
    rows = np.flatnonzero(recourse.found[:n])
    before, after = (
        recourse.space.numbers(table.iloc[rows])
        for table in (recourse.factuals, recourse.counterfactuals)
    )
    columns, notes = {}, recourse.space.notes
    for i, feature in enumerate(recourse.space.features):
        changed = np.flatnonzero(differs(before[:, i], after[:, i]))
        if changed.size:
            cells = np.full(min(n, len(recourse)), "", dtype=object)
            cells[rows[changed]] = [
                " → ".join(readable(feature, table[row, i], notes) for table in (before, after))
                for row in changed
            ]
            label = notes.label(feature.name)
            unit = f"({unit_after(feature, notes).strip()})"
            columns[label if unit == "()" or label.endswith(unit) else f"{label} {unit}"] = cells
    return pd.DataFrame(columns, index=recourse.factuals.index[:n])


def move_of(feature: Feature, notes: Notes, before: Floats, after: Floats) -> Move:
    """How a column moves from what people have to what they are told."""
    rows = np.flatnonzero(differs(before, after))
    before, after = before[rows], after[rows]
    up = int((after > before).sum())
    down = int((after < before).sum())
    if not feature.labelled and up + down:
        # Whole units stay whole: of these the quantiles are changes that somebody was told.
        how = "nearest" if feature.grid is not None else "linear"
        low, median, high = np.nanquantile(after - before, [0.1, 0.5, 0.9], method=how).tolist()  # type: ignore[call-overload]
        return Move(feature, notes, up, down, len(rows) - up - down, low, median, high)
    told = Counter(
        (readable(feature, old, notes), readable(feature, new, notes))
        for old, new in zip(before, after, strict=True)
    )
    if feature.kind in (Kind.CATEGORICAL, Kind.BINARY):
        up = down = 0
    swaps = tuple((old, new, people) for (old, new), people in told.most_common(_MOST_SWAPS))
    return Move(feature, notes, up, down, len(rows) - up - down, swaps=swaps)


def _signed(move: Move, value: float) -> str:
    """Three digits are enough of a quantile."""
    return f"{'+' if value > 0 else ''}{readable(move.feature, float(f'{value:.3g}'), move.notes)}"
