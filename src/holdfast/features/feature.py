"""One column: its kind, its range, where a person can move it, and the model's variables that stand for it.

Each value is a *number* inside: itself for a numeric column, its position in `categories` for a labelled one. All
rules about what is allowed are about these numbers, so they hold exactly in the caller's units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from holdfast.errors import InvalidInputError
from holdfast.features.columns import Storage, column_codes, column_numbers
from holdfast.features.grid import Grid
from holdfast.features.kinds import Direction, Kind, Label, Name
from holdfast.features.scaling import Scaling
from holdfast.network import Floats

_LABELLED_ONLY = (Kind.CATEGORICAL, Kind.BINARY)


@dataclass(frozen=True)
class Feature:
    """A column of the caller's table.

    Parameters
    ----------
    name, kind
        The column and what it holds.
    lower, upper
        The range, in the column's units. A value that is changed has to end up in it; a factual outside it may stay.
        For a labelled column: the first and the last position.
    variables
        The positions of the model's variables that stand for this column.
    step
        Changed values are multiples of it: 250 for "income in 250s". Integer columns have 1 unless told otherwise.
    direction
        Which way the value may move.
    categories
        The labels in the order of their codes; empty for a numeric column.
    one_hot
        One 0/1 variable per label, instead of one scaled variable for the column. With one variable fewer than
        labels, the first label is the one where all are 0.
    cost
        The weight of this column in `FeatureSpace.cost_l1`.
    unit
        For texts: "USD", "percent", "years".
    """

    name: Name
    kind: Kind
    lower: float
    upper: float
    variables: tuple[int, ...]
    step: float | None = None
    direction: Direction = Direction.FREE
    categories: tuple[Label, ...] = ()
    one_hot: bool = False
    cost: float = 1.0
    unit: str = ""
    scaling: Scaling = field(default=Scaling(), repr=False)
    storage: Storage = field(default=Storage(), repr=False)

    def __post_init__(self) -> None:
        if self.kind in _LABELLED_ONLY and not self.categories:
            raise InvalidInputError(f"column {self.name!r}: expected categories for a {self.kind} column, got none")
        if not self.lower <= self.upper:
            raise InvalidInputError(
                f"column {self.name!r}: expected a range with lower <= upper, got [{self.lower}, {self.upper}]"
            )
        if not (math.isfinite(self.cost) and self.cost >= 0.0):
            raise InvalidInputError(f"column {self.name!r}: expected a cost weight >= 0, got {self.cost}")
        if self.step is not None and not (math.isfinite(self.step) and self.step > 0.0):
            raise InvalidInputError(f"column {self.name!r}: expected a step > 0, got {self.step}")
        if self.step is not None and self.precision == "integer" and self.step != int(self.step):
            raise InvalidInputError(f"column {self.name!r}: expected a whole step for whole numbers, got {self.step}")
        if self.kind is Kind.CATEGORICAL and self.direction in (Direction.INCREASING, Direction.DECREASING):
            raise InvalidInputError(
                f"column {self.name!r}: expected an order for a column that is {self.direction}; "
                "name its labels from low to high in ordinal={...}"
            )
        try:
            _ = self.grid
        except InvalidInputError as error:
            raise InvalidInputError(f"column {self.name!r}: {error}") from error

    @property
    def labelled(self) -> bool:
        """Whether its values are labels, which numbers 0, 1, ... stand for."""
        return bool(self.categories)

    @property
    def numeric(self) -> bool:
        """Whether arithmetic on its values makes sense: a number, or a 0/1 flag."""
        return not self.labelled or tuple(self.categories) == (0, 1)

    @property
    def drops_first(self) -> bool:
        """One-hot, with no variable for the first label."""
        return self.one_hot and len(self.variables) == len(self.categories) - 1

    @property
    def precision(self) -> str:
        """What its numbers can be: "integer", "float16", "float32" or "float64"."""
        return "integer" if self.labelled else self.storage.precision

    @cached_property
    def grid(self) -> Grid | None:
        """The numbers a changed value can take, if they are countable."""
        if self.labelled:
            return Grid.over(1.0, self.lower, self.upper)
        return None if self.step is None else Grid.over(self.step, self.lower, self.upper)

    def numbers(self, series: pd.Series[Any]) -> Floats:
        """The caller's column as numbers."""
        if self.labelled:
            return column_codes(series, self.name, self.categories)
        return column_numbers(series, self.name, self.storage)

    def restore(self, numbers: Floats) -> Any:
        """Numbers as an array of the caller's dtype."""
        if not self.labelled:
            return self.storage.restore(numbers)
        labels = np.empty(len(self.categories), dtype=object)
        labels[:] = self.categories
        return self.storage.restore(labels[numbers.astype(np.intp)])

    def encode(self, numbers: Floats) -> Floats:
        """Numbers -> the model's variables, (n, len(variables))."""
        if not self.one_hot:
            return self.scaling.apply(numbers)[:, None]
        codes = np.arange(len(self.categories) - len(self.variables), len(self.categories), dtype=np.float64)
        return np.asarray((numbers[:, None] == codes).astype(np.float64))

    def decode(self, block: Floats) -> Floats:
        """The model's variables -> numbers: an exact original where there is one, otherwise the nearest."""
        if self.one_hot:
            return np.asarray(self.scores(block).argmax(axis=1).astype(np.float64))
        favourites: list[float | Floats] = [end for end in (self.upper, self.lower) if math.isfinite(end)]
        if self.grid is not None:
            favourites = [self.grid.value(self.grid.nearest(self.scaling.estimate(block[:, 0])))]
        numbers = self.scaling.invert(block[:, 0], self.precision, favourites)
        return np.clip(numbers, self.lower, self.upper) if self.labelled else numbers

    def scores(self, block: Floats) -> Floats:
        """For a one-hot column, the weight of each label, the one without a variable included."""
        if not self.drops_first:
            return block
        return np.column_stack([1.0 - block.sum(axis=1), block])

    def variable_names(self) -> tuple[str, ...]:
        """The names of its variables: the column's, or column=label."""
        if self.one_hot:
            skipped = len(self.categories) - len(self.variables)
            return tuple(f"{self.name}={label}" for label in self.categories[skipped:])
        if self.kind is Kind.CATEGORICAL:
            return (f"{self.name}={self.categories[-1]}",)
        return (str(self.name),)
