"""A column of the caller's table and the numbers that stand for it: values as they are, labels by their position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd

from holdfast._given import given_floats, row_words, shown
from holdfast._network import Floats
from holdfast.errors import InvalidInputError
from holdfast.features._codec import differs
from holdfast.features._kinds import Label, Name

_LARGEST_WHOLE = 2.0**53
_SHORT = 100


@dataclass(frozen=True)
class Storage:
    """How the caller's column is stored, so that what is handed back has the same dtype.

    `precision` is what numbers in it can be: "integer", "float16", "float32" or "float64". `levels` and `ordered`
    belong to pandas' category dtype.
    """

    dtype: str = "float64"
    precision: str = "float64"
    levels: tuple[Label, ...] = ()
    ordered: bool = False

    @classmethod
    def of(cls, series: pd.Series) -> Storage:
        """The storage of an existing column."""
        dtype = series.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            levels = tuple(plain_label(level, series.name) for level in dtype.categories)
            return cls("category", "float64", levels, bool(dtype.ordered))
        if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_integer_dtype(dtype):
            return cls(str(dtype), "integer")
        if pd.api.types.is_float_dtype(dtype):
            size = 8 * plain_dtype(dtype).itemsize
            return cls(str(dtype), f"float{size}" if size in (16, 32) else "float64")
        return cls(str(dtype))

    def limits(self) -> tuple[float, float]:
        """The least and the largest whole number an integer column can hold; infinite for other columns."""
        if self.precision != "integer" or "bool" in self.dtype.lower():
            return -np.inf, np.inf
        dtype: Any = pd.api.types.pandas_dtype(self.dtype)
        info = np.iinfo(plain_dtype(dtype))
        return max(float(info.min), -_LARGEST_WHOLE), min(float(info.max), _LARGEST_WHOLE)

    def restore(self, values: Sequence[Any] | Floats | np.ndarray[Any, Any]) -> Any:
        """The values as an array of the column's dtype."""
        if self.dtype == "category":
            return pd.Categorical(values, categories=list(self.levels), ordered=self.ordered)
        gone = np.asarray(pd.isna(np.asarray(values)))
        if self.precision == "integer" and gone.any():
            if isinstance(pd.api.types.pandas_dtype(self.dtype), np.dtype):
                # numpy's whole numbers and flags have no room for what is missing.
                return pd.Series(values).infer_objects().to_numpy()
            values = [
                None if missing else int(value) for value, missing in zip(values, gone, strict=True)
            ]
        elif (
            self.precision == "integer"
            and isinstance(values, np.ndarray)
            and values.dtype == np.float64
        ):
            values = values.astype(np.int64)
        if self.dtype == "object":
            return np.array(values, dtype=object)
        column = pd.array(values, dtype=cast(Any, self.dtype))
        if self.precision in ("float16", "float32"):
            # A factual's own number from a table of float64 may not fit; rounded, it would be another point.
            exact = np.asarray(values, dtype=np.float64)
            if differs(column.to_numpy(np.float64, na_value=np.nan), exact).any():
                return exact
        return column


def plain_dtype(dtype: Any) -> np.dtype[Any]:
    """numpy's dtype behind one of pandas' nullable or Arrow dtypes."""
    plain: np.dtype[Any] = np.dtype(getattr(dtype, "numpy_dtype", dtype))
    return plain


def column_numbers(series: pd.Series, name: Name, storage: Storage) -> Floats:
    """A numeric column as float64, or an error that names the column, the row and the value."""
    values = series.to_numpy()
    if values.dtype.kind not in "biu" and (values.dtype.kind != "f" or np.isnan(values).any()):
        _refuse_missing(series, name)
    numbers = given_floats(values, f"column {name!r}") + 0.0
    infinite = np.flatnonzero(~np.isfinite(numbers))
    if infinite.size:
        row = int(infinite[0])
        raise InvalidInputError(
            f"column {name!r}: expected finite numbers, got {numbers[row]} in {row_words(row, series.index)}"
        )
    if storage.precision == "integer":
        bad = (np.rint(numbers) != numbers) | (np.abs(numbers) > _LARGEST_WHOLE)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise InvalidInputError(
                f"column {name!r}: expected whole numbers up to 2**53, got {numbers[row]} in "
                f"{row_words(row, series.index)}"
            )
    return numbers


def refuse_truth(series: pd.Series, name: Name) -> None:
    """Refuse True and False in a column of numbers."""
    for row, value in enumerate(series):
        if isinstance(value, bool | np.bool_):
            raise InvalidInputError(
                f"column {name!r}: expected numbers, got {bool(value)} in {row_words(row, series.index)}"
            )


def column_codes(series: pd.Series, name: Name, categories: Sequence[Label]) -> Floats:
    """The position in `categories` of each of the column's labels."""
    positions = {label: place for place, label in enumerate(categories)}
    # A short column is sooner looked up value by value than sorted out.
    codes, values = (
        (np.arange(len(series)), series.tolist()) if len(series) <= _SHORT else pd.factorize(series)
    )
    places = [*map(positions.get, values)]
    if None in places or (codes < 0).any():
        _refuse_missing(series, name)
        unknown = places.index(None)
        row = int(np.flatnonzero(codes == unknown)[0])
        raise InvalidInputError(
            f"column {name!r}: expected one of {list(categories)}, got {shown(values[unknown])} in "
            f"{row_words(row, series.index)}"
        )
    return np.array(places, dtype=np.float64)[codes]


def observed_labels(series: pd.Series, name: Name) -> tuple[Label, ...]:
    """The labels a column can have, sorted where they can be: pandas' levels, or the values that occur."""
    _refuse_missing(series, name)
    if isinstance(series.dtype, pd.CategoricalDtype):
        return tuple(plain_label(level, name) for level in series.dtype.categories)
    labels = [plain_label(value, name) for value in pd.unique(series)]
    try:
        return tuple(sorted(labels))
    except TypeError:
        return tuple(labels)


def plain_label(value: object, name: object) -> Label:
    """A label as a plain str, bool, int or float, which a JSON file can hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | bool | int | float) and value == value:
        return value
    raise InvalidInputError(
        f"column {name!r}: expected labels that are strings, numbers or booleans, "
        f"got {value!r} ({type(value).__name__}); convert the column to strings"
    )


def _refuse_missing(series: pd.Series, name: Name) -> None:
    missing = series.isna().to_numpy()
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        where = row_words(row, series.index)
        raise InvalidInputError(
            f"column {name!r}: expected a value in every row, got {series.iloc[row]} in {where}; "
            f"FeatureSpace.from_frame(X, missing=[{name!r}]) lets the column have gaps"
        )
