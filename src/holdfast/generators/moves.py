"""What advice asks for: which columns move, for how many people, and by how much in the caller's units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.features.describe import readable, unit_after
from holdfast.features.feature import Feature
from holdfast.features.kinds import Kind
from holdfast.network import Floats

if TYPE_CHECKING:
    from holdfast.generators.recourse import Recourse


@dataclass(frozen=True)
class Move:
    """How the answers move one column.

    Attributes
    ----------
    label
        What people call the column.
    up, down, other
        How many people are told to raise it, to lower it, and, where its labels have no order, to change it.
    low, median, high
        Of the changes, with their signs and in the column's units: the 10%, 50% and 90% quantiles; nan for labels.
    commonest
        For labels, the change that most people are told: from, to, and to how many.
    """

    feature: Feature
    label: str
    up: int
    down: int
    other: int
    low: float = np.nan
    median: float = np.nan
    high: float = np.nan
    commonest: tuple[str, str, int] | None = None

    @property
    def changed(self) -> int:
        """How many people are told to change it."""
        return self.up + self.down + self.other

    @property
    def amount(self) -> str:
        """By how much, in a few words: "+550 USD (+50 to +1,200)", or "rent → owner (12)"."""
        if self.commonest is not None:
            before, after, people = self.commonest
            return f"{before} → {after} ({people:,})"
        low, median, high = (_signed(self.feature, value) for value in (self.low, self.median, self.high))
        return f"{median}{unit_after(self.feature)}" + (f" ({low} to {high})" if low != high else "")


def moves(recourse: Recourse) -> list[Move]:
    """The columns that someone is told to change, the most often changed first."""
    before, after = _numbers(recourse, np.flatnonzero(recourse.found))
    found = [
        _move(feature, recourse.space.label(feature.name), before[:, i], after[:, i])
        for i, feature in enumerate(recourse.space.features)
        if (before[:, i] != after[:, i]).any()
    ]
    return sorted(found, key=lambda move: -move.changed)


def change_table(recourse: Recourse, n: int) -> pd.DataFrame:
    """The first `n` people and the columns that any of them is to change: "1,200 → 1,750", "" where it stays."""
    rows = np.flatnonzero(recourse.found[:n])
    before, after = _numbers(recourse, rows)
    columns = {}
    for i, feature in enumerate(recourse.space.features):
        changed = np.flatnonzero(before[:, i] != after[:, i])
        if changed.size:
            cells = np.full(min(n, len(recourse)), "", dtype=object)
            cells[rows[changed]] = [
                f"{readable(feature, before[row, i])} → {readable(feature, after[row, i])}" for row in changed
            ]
            label, unit = recourse.space.label(feature.name), f"({unit_after(feature).strip()})"
            columns[label if unit == "()" or label.endswith(unit) else f"{label} {unit}"] = cells
    return pd.DataFrame(columns, index=recourse.factuals.index[:n])


def _numbers(recourse: Recourse, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Factuals and answers of these rows, a number for each column."""
    names, space = list(recourse.space.names), recourse.space
    return (
        space.numbers(recourse.factuals[names].iloc[rows]),
        space.numbers(recourse.counterfactuals[names].iloc[rows]),
    )


def _move(feature: Feature, label: str, before: Floats, after: Floats) -> Move:
    rows = np.flatnonzero(before != after)
    before, after = before[rows], after[rows]
    up = int((after > before).sum())
    if not feature.labelled:
        low, median, high = np.quantile(after - before, [0.1, 0.5, 0.9]).tolist()
        return Move(feature, label, up, len(rows) - up, 0, low, median, high)
    pairs, counts = np.unique(np.column_stack([before, after]), axis=0, return_counts=True)
    old, new = pairs[counts.argmax()].tolist()
    commonest = (readable(feature, old), readable(feature, new), int(counts.max()))
    if feature.kind in (Kind.CATEGORICAL, Kind.BINARY):
        return Move(feature, label, 0, 0, len(rows), commonest=commonest)
    return Move(feature, label, up, len(rows) - up, 0, commonest=commonest)


def _signed(feature: Feature, value: float) -> str:
    """Three digits are enough of a quantile."""
    return f"{'+' if value > 0 else ''}{readable(feature, float(f'{value:.3g}'))}"
