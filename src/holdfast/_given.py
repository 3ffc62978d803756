"""Read numbers and tables as given: exactly, or not at all."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.errors import InvalidInputError

# From here on float64 has no place for every whole number.
_WIDE = 2**53

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 80


def shown(value: Any) -> str:
    """A value as text for an error message: Python's form, shortened in the middle if it is long.

    Examples
    --------
    >>> shown("castle"), len(shown(10**400))
    ("'castle'", 80)
    """
    return _SHORT.repr(value)


def given_number(value: Any) -> float | None:
    """`value` as a float; None if it is no number, such as a truth value, a text, a complex number or a gap.

    Examples
    --------
    >>> given_number(2), given_number(True), given_number("2"), given_number(2 + 0j)
    (2.0, None, None, None)
    """
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    if isinstance(value, bool | str | bytes) or value is np.ma.masked or kind not in "iuf":
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def positive_number(value: Any, name: str, *, or_zero: bool = False) -> float:
    """`value` as a finite float > 0 (or >= 0 with `or_zero`), or an error that names the argument."""
    number = given_number(value)
    if number is None or not (0.0 < number < math.inf or (or_zero and number == 0.0)):
        # Texts in quotes, and numbers without the name of their type.
        came = shown(value) if isinstance(value, str | bytes | int) else value
        raise InvalidInputError(
            f"{name}: expected a number {'>=' if or_zero else '>'} 0, got {came}"
        )
    return number


def whole_number(value: Any, name: str, *, least: int) -> int:
    """`value` as an int of at least `least`, or an error that names the argument."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidInputError(f"{name}: expected a whole number >= {least}, got {value!r}")
    return int(value)


def given_share(value: Any, name: str, *, or_one: bool = False) -> float:
    """`value` as a float above 0 and below 1 (or at most 1 with `or_one`), or an error that names the argument."""
    number = given_number(value)
    if number is None or not 0.0 < number <= 1.0 or (number == 1.0 and not or_one):
        most = "at most 1" if or_one else "below 1"
        raise InvalidInputError(f"{name}: expected a share above 0 and {most}, got {value!r}")
    return number


def check_options(verb: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse an option that a verb does not have."""
    for name in given:
        if name not in known:
            raise InvalidInputError(
                f"{name}: {verb} has no such option; it has {', '.join(sorted(known))}"
            )


def given_list(values: Any, name: str) -> list[Any]:
    """`values` as a list, or an error that names the argument."""
    try:
        return list(values)
    except TypeError:
        raise InvalidInputError(f"{name}: expected a list, got {shown(values)}") from None


def given_row(row: Any, n: int) -> int:
    """The number of a row in a table of `n` rows, counted from 0; negative numbers count from the end.

    Examples
    --------
    >>> given_row(2, 3), given_row(-1, 3)
    (2, 2)
    """
    if isinstance(row, bool) or not isinstance(row, int | np.integer) or not -n <= row < n:
        raise InvalidInputError(f"row: expected one of the {n} rows, counted from 0, got {row!r}")
    return int(row) % n


def row_words(row: int, index: Any) -> str:
    """The name of a row in messages: its number from 0, and its index label if that differs."""
    label = index[row]
    label = label.item() if isinstance(label, np.generic) else label
    return (
        f"row {row}" if isinstance(label, Integral) and label == row else f"row {row} ({label!r})"
    )


def given_array(values: Any, name: str) -> NDArray[Any]:
    """Numbers or labels as an array; gaps of a masked array and whole numbers that float64 would round are errors."""
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    try:
        masked = isinstance(values, list | tuple | np.ma.MaskedArray) and np.ma.is_masked(
            np.ma.array(values)
        )
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{name}: expected a table, got {type(values).__name__}: {error}"
        ) from error
    if masked:
        raise InvalidInputError(
            f"{name}: expected a value in every place, got a masked array with gaps"
        )
    if array.dtype.kind == "O" or (
        array.dtype.kind in "iuf" and (np.abs(array) >= np.float64(_WIDE)).any()
    ):
        # Beside fractions the whole numbers of a list or of a DataFrame are rounded by now.
        exact = np.asarray(
            values.astype(object) if hasattr(values, "astype") else values, dtype=object
        )
        for value in exact.flat:
            if isinstance(value, Integral) and _is_rounded(int(value)):
                raise InvalidInputError(
                    f"{name}: expected numbers that float64 can hold, got {shown(int(value))}"
                )
    return array


def given_floats(values: Any, name: str) -> NDArray[np.float64]:
    """Real numbers as float64, exactly as given, or an error that names the fault.

    Examples
    --------
    >>> given_floats([[1, 2.5]], "X")
    array([[1. , 2.5]])
    >>> given_floats([[2**53 + 1, 2.5]], "X")
    Traceback (most recent call last):
    ...
    holdfast.errors.InvalidInputError: X: expected numbers that float64 can hold, got 9007199254740993
    """
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    if isinstance(values, pd.DataFrame) and all(dtype == np.float64 for dtype in values.dtypes):
        # Nothing was rounded; and a large table is gone through no more often than it must be.
        return values.to_numpy(copy=True)
    array = given_array(values, name)
    if array.dtype.kind == "c":
        raise InvalidInputError(f"{name}: expected real numbers, got dtype {array.dtype}")
    if array.dtype.kind not in "biufO":
        raise InvalidInputError(f"{name}: expected numbers, got dtype {array.dtype}")
    if array.dtype.kind == "O":
        wrong = [(i, value) for i, value in enumerate(array.flat) if not isinstance(value, Real)]
        if wrong:
            # Among numbers that are written as texts, the one that is none is to blame.
            place, value = next((one for one in wrong if not _reads_as_number(one[1])), wrong[0])
            where = f" in row {place}" if array.ndim == 1 and array.size > 1 else ""
            raise InvalidInputError(f"{name}: expected numbers, got {shown(value)}{where}")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{name}: expected numbers, got {type(values).__name__}: {error}"
        ) from error


def _reads_as_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def given_points(
    values: Any, name: str, n_columns: int, variables: Sequence[str] = ()
) -> NDArray[np.float64]:
    """A table of finite numbers with a column for each variable of the model; `variables` are their names."""
    points = given_floats(values, name)
    if points.ndim != 2 or points.shape[1] != n_columns:
        raise InvalidInputError(
            f"{name}: expected a table with {n_columns} columns, one for each variable of the model, "
            f"got shape {points.shape}"
        )
    finite = np.isfinite(points)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        where = repr(variables[column]) if variables else f"column {column}"
        raise InvalidInputError(
            f"{name}: expected finite numbers, got {points[row, column]} in row {row}, {where}"
        )
    return points


def _is_rounded(whole: int) -> bool:
    """True if float64 cannot hold a whole number: without its factors of 2 it has over 53 bits."""
    whole = abs(whole)
    return whole > _WIDE and (whole // (whole & -whole)).bit_length() > 53
