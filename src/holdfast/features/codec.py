"""Between the caller's table and points: rows of the model's variables, float64, as the network reads them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from holdfast.errors import InvalidInputError
from holdfast.features.feature import Feature
from holdfast.features.kinds import Name
from holdfast.given import given_array, given_floats
from holdfast.network import Floats


class Rows(NamedTuple):
    """A table both ways, read once to be used often: one number per feature, and the model's variables."""

    numbers: Floats
    points: Floats

    def take(self, rows: NDArray[np.intp]) -> Rows:
        """Some of the rows, each as often as it is named."""
        return Rows(self.numbers[rows], self.points[rows])


Table = pd.DataFrame | ArrayLike | Rows


@dataclass(frozen=True)
class Codec:
    """Encodes and decodes the columns it is made of, bit for bit both ways."""

    features: tuple[Feature, ...]

    @property
    def names(self) -> tuple[Name, ...]:
        """The caller's columns."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def n_variables(self) -> int:
        """How many variables the model reads."""
        return sum(len(feature.variables) + len(feature.flags) for feature in self.features)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The names of the model's variables: a column's, or column=label."""
        names = [""] * self.n_variables
        for feature in self.features:
            for variable, name in zip(feature.variables, feature.variable_names(), strict=True):
                names[variable] = name
            for variable, _, _ in feature.flags:
                names[variable] = f"{feature.name} missing"
        return tuple(names)

    def encode(self, frame: Table) -> Floats:
        """Raw values -> points, (n, n_variables). An array has one column per feature, in the features' order."""
        return self.encode_numbers(self.numbers(frame))

    def decode(self, points: ArrayLike, index: Any = None, *, factuals: pd.DataFrame | None = None) -> pd.DataFrame:
        """Points -> the caller's columns, dtypes and units.

        Each value is one whose encoding is exactly the point's, where such a value exists, and else the nearest the
        column can hold. Several raw values can share an encoding: then it is the factual's own if `factuals` are given
        and have it, a grid point or an end of the range, and else the one with the fewest decimals. A number whose
        last decimal place is worth more than 1e-14 of the column's largest numbers comes back as it was encoded; a
        longer fraction may come back as a neighbour that the model cannot tell from it, unless `factuals` have it.
        """
        if factuals is None:
            return self.restore(self.rows(points).numbers, index)
        rows, _ = self.rows_beside(points, factuals)
        if index is None and len(factuals) == rows.numbers.shape[0]:
            index = factuals.index
        return self.restore(rows.numbers, index)

    def numbers(self, frame: Table) -> Floats:
        """Raw values as one number per feature: itself, or the position of its label."""
        if not isinstance(frame, pd.DataFrame):
            values = given_array(frame, "X")
            if values.ndim != 2 or values.shape[1] != len(self.features):
                raise InvalidInputError(
                    f"expected a table with {len(self.features)} columns, one for each feature, "
                    f"got shape {values.shape}"
                )
            frame = pd.DataFrame(values, columns=list(self.names))
        missing = [name for name in self.names if name not in frame.columns]
        if missing:
            raise InvalidInputError(f"expected the column {missing[0]!r}, got {list(frame.columns)}")
        numbers = np.empty((len(frame), len(self.features)))
        for i, feature in enumerate(self.features):
            numbers[:, i] = feature.numbers(frame[feature.name])
        return numbers

    def encode_numbers(self, numbers: Floats) -> Floats:
        """Numbers -> points."""
        points = np.empty((numbers.shape[0], self.n_variables))
        for i, feature in enumerate(self.features):
            points[:, list(feature.variables)] = feature.encode(numbers[:, i])
            for variable, known, missing in feature.flags:
                points[:, variable] = np.where(np.isnan(numbers[:, i]), missing, known)
        return points

    def restore(self, numbers: Floats, index: Any = None) -> pd.DataFrame:
        """Numbers -> the caller's columns."""
        columns = {feature.name: feature.restore(numbers[:, i]) for i, feature in enumerate(self.features)}
        return pd.DataFrame(columns, index=pd.RangeIndex(numbers.shape[0]) if index is None else index)

    def check_points(self, points: ArrayLike) -> Floats:
        """Points as a finite (n, n_variables) float64 array, or an error that says what is wrong with them."""
        values = given_floats(points, "points")
        if values.ndim != 2 or values.shape[1] != self.n_variables:
            raise InvalidInputError(
                f"points: expected a table with {self.n_variables} columns, one for each variable of the model, "
                f"got shape {values.shape}"
            )
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            raise InvalidInputError(
                f"points: expected finite numbers, got {values[row, column]} in row {row}, {self.variables[column]!r}"
            )
        return values

    def rows(self, table: Table, n_rows: int | None = None) -> Rows:
        """A DataFrame of raw values or an array of points, both ways; a single row repeated to `n_rows`."""
        if isinstance(table, Rows):
            numbers, points = table
        elif isinstance(table, pd.DataFrame):
            numbers = self.numbers(table)
            points = self.encode_numbers(numbers)
        else:
            points = self.check_points(table)
            numbers = np.empty((points.shape[0], len(self.features)))
            for i, feature in enumerate(self.features):
                numbers[:, i] = feature.decode(points[:, list(feature.variables)])
                numbers[says_missing(feature, points), i] = np.nan
        return Rows(_repeated(numbers, n_rows), _repeated(points, n_rows))

    def points(self, table: Table, n_rows: int | None = None) -> Floats:
        """The points of `rows`, without the numbers."""
        if isinstance(table, Rows):
            points = table.points
        else:
            points = self.encode(table) if isinstance(table, pd.DataFrame) else self.check_points(table)
        return _repeated(points, n_rows)

    def rows_beside(self, table: Table, factuals: Table) -> tuple[Rows, Rows]:
        """A table and its factuals; where the model cannot tell a value from the factual's, it is the factual's.

        Only tables of raw values, DataFrames or what `rows` made of them, are compared value by value.
        """
        rows = self.rows(table)
        own = self.rows(factuals, rows.numbers.shape[0])
        if not (is_raw(table) and is_raw(factuals)):
            rows = Rows(rows.numbers.copy(), rows.points)
            for i, feature in enumerate(self.features):
                columns = [*feature.variables, *(flag[0] for flag in feature.flags)]
                same = (rows.points[:, columns] == own.points[:, columns]).all(axis=1)
                rows.numbers[same, i] = own.numbers[same, i]
        return rows, own


def says_missing(feature: Feature, points: Floats) -> NDArray[np.bool_]:
    """Whether the variables that say so say that the column has no value; never without such variables."""
    said = np.full(points.shape[0], bool(feature.flags))
    for variable, known, missing in feature.flags:
        said &= np.abs(points[:, variable] - missing) < np.abs(points[:, variable] - known)
    return said


def differs(numbers: Floats, own: Floats) -> NDArray[np.bool_]:
    """Where two tables of numbers differ: what is missing in both does not."""
    return np.asarray((numbers != own) & ~(np.isnan(numbers) & np.isnan(own)))


@dataclass(frozen=True, eq=False)
class Decoder:
    """`decode` for a model that reads the caller's table: values that are known to occur come back to the last bit.

    Several raw values can share an encoding; of two known ones that do, the first comes back.
    """

    space: Codec
    known: Rows | None = None

    def __call__(self, points: ArrayLike) -> pd.DataFrame:
        rows = self.space.rows(points)
        for i, encoded, numbers in self._known:
            asked = rows.points[:, self.space.features[i].variables[0]]
            at = np.searchsorted(encoded, asked).clip(max=encoded.size - 1)
            same = (encoded[at] == asked) & ~np.isnan(rows.numbers[:, i])
            rows.numbers[:, i] = np.where(same, numbers[at], rows.numbers[:, i])
        return self.space.restore(rows.numbers)

    @cached_property
    def _known(self) -> list[tuple[int, Floats, Floats]]:
        """By column, the encodings of known values that would come back as others, in rising order, and the values."""
        found = []
        for i, feature in enumerate(self.space.features if self.known is not None else ()):
            assert self.known is not None
            there = ~np.isnan(self.known.numbers[:, i])
            encoded, first = np.unique(self.known.points[there, feature.variables[0]], return_index=True)
            numbers = self.known.numbers[there, i][first]
            other = np.zeros(0) if feature.listed else np.flatnonzero(feature.decode(encoded[:, None]) != numbers)
            if other.size:
                found.append((i, encoded[other], numbers[other]))
        return found


def is_raw(table: Table) -> bool:
    """Whether a table has the caller's values, not only what the model sees of them."""
    return isinstance(table, pd.DataFrame | Rows)


def _repeated(rows: Floats, n_rows: int | None) -> Floats:
    """A single row as often as it is needed."""
    if n_rows is None or rows.shape[0] == n_rows:
        return rows
    if rows.shape[0] != 1:
        raise InvalidInputError(f"factuals: expected 1 row or {n_rows}, one for each point, got {rows.shape[0]}")
    return np.repeat(rows, n_rows, axis=0)
