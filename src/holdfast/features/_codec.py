"""Tables as a space reads them: the caller's values, or points, which are rows of the model's variables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from holdfast._network import Bools, Floats, Ints
from holdfast.errors import InvalidInputError


class Rows(NamedTuple):
    """A table both ways, read once to be used often: one number per feature, and the model's variables."""

    numbers: Floats
    points: Floats

    def take(self, rows: Ints) -> Rows:
        """Some of the rows, each as often as it is named."""
        return Rows(self.numbers[rows], self.points[rows])


# Tables that have the caller's values, not only what the model sees of them; and any table.
RAW = (pd.DataFrame, Rows)
Table = pd.DataFrame | ArrayLike | Rows


def differs(numbers: Floats, own: Floats) -> Bools:
    """Where two tables of numbers differ: what is missing in both does not."""
    return np.asarray((numbers != own) & ~(np.isnan(numbers) & np.isnan(own)))


def repeated(rows: Floats, n_rows: int | None) -> Floats:
    """A single row as often as it is needed."""
    if n_rows is None or rows.shape[0] == n_rows:
        return rows
    if rows.shape[0] != 1:
        raise InvalidInputError(
            f"factuals: expected 1 row or {n_rows}, one for each point, got {rows.shape[0]}"
        )
    return np.repeat(rows, n_rows, axis=0)
