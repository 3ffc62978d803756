"""A table held against its factuals: is it allowed, what does it cost, what would a person have to do?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.errors import InvalidInputError
from holdfast.features import describe
from holdfast.features.checks import broken_constraints
from holdfast.features.codec import Table, differs, is_raw
from holdfast.features.notes import NotedView
from holdfast.network import Floats


@dataclass(frozen=True)
class MeasuredView(NotedView):
    """Compares rows with the factuals that they are advice for."""

    def violations(self, table: Table, factuals: Table) -> list[list[str]]:
        """For each row the constraints it breaks, as sentences: "age is immutable: 40 -> 41"."""
        rows, own = self.rows_beside(table, factuals)
        found: list[list[str]] = [[] for _ in range(rows.numbers.shape[0])]
        points = None if is_raw(table) else rows.points
        for mask, message in broken_constraints(self.features, self.bound_rules, rows.numbers, own.numbers, points):
            for row in np.flatnonzero(mask).tolist():
                found[row].append(message(row))
        return found

    def satisfied(self, table: Table, factuals: Table) -> NDArray[np.bool_]:
        """Whether each row obeys every constraint, exactly; a point also has to be the encoding of some row."""
        rows, own = self.rows_beside(table, factuals)
        points = None if is_raw(table) else rows.points
        fine = np.ones(rows.numbers.shape[0], dtype=np.bool_)
        for mask, _ in broken_constraints(self.features, self.bound_rules, rows.numbers, own.numbers, points):
            fine &= ~mask
        return fine

    def cost_l1(self, table: Table, factuals: Table) -> Floats:
        """The mean absolute change over the model's variables, each times its column's weight.

        ``sum_v weight_v |x'_v - x_v| / n_variables``: with all weights 1 (the default) this is the paper's.
        """
        points = self.points(table)
        own = self.points(factuals, points.shape[0])
        return np.asarray(np.abs(points - own) @ self.weights / self.n_variables)

    def changed(self, table: Table, factuals: Table) -> NDArray[np.intp]:
        """How many of the caller's columns differ, per row."""
        rows, own = self.rows_beside(table, factuals)
        return np.asarray(differs(rows.numbers, own.numbers).sum(axis=1))

    def describe_change(self, before: Any, after: Any) -> list[str]:
        """What to do to get from one row to the other: ["raise savings from 1,200 to 1,750 USD"].

        Each row is a Series, a mapping from column to value, or a DataFrame with a single row. Columns and
        values go by their labels.
        """
        numbers = [self.numbers(_one_row(row))[0] for row in (before, after)]
        return describe.describe_change(self.features, self.notes, numbers[0], numbers[1])


def _one_row(row: Any) -> pd.DataFrame:
    frame = row if isinstance(row, pd.DataFrame) else pd.DataFrame([dict(row)])
    if len(frame) != 1:
        raise InvalidInputError(f"expected one row, got {len(frame)}")
    return frame
