"""The little that the batched mathematics needs to run on any array library that follows the array API standard."""

from __future__ import annotations

from typing import Any, TypeAlias

import array_api_compat
import array_api_compat.numpy as numpy_namespace
import numpy as np
from numpy.typing import NDArray

# An array of whatever library the caller chose, float64; numpy is the default.
Array: TypeAlias = Any

__all__ = ["Array", "array_namespace", "dot_rows", "row_sum", "take_rows", "to_numpy"]


def array_namespace(array: Array) -> Any:
    """The array library that `array` belongs to; numpy, the usual case, is recognised at once."""
    return numpy_namespace if type(array) is np.ndarray else array_api_compat.array_namespace(array)


def to_numpy(array: Array) -> NDArray[Any]:
    """The same values as a numpy array, wherever they live now."""
    if isinstance(array, np.ndarray):
        return array
    return np.asarray(array.cpu().numpy() if hasattr(array, "cpu") else np.from_dlpack(array))


def take_rows(value: Array, rows: Array) -> Array:
    """The chosen rows of an array, or the value itself where it is one number for all rows."""
    if isinstance(value, float):
        return value
    return array_namespace(value).take(value, rows, axis=0)


def row_sum(values: Array) -> Array:
    """Sums over the last axis, kept as a column."""
    xp = array_namespace(values)
    return xp.sum(values, axis=-1, keepdims=True)


def dot_rows(a: Array, b: Array) -> Array:
    """The dot product of each row of `a` with the same row of `b`, (n,)."""
    return array_namespace(a).vecdot(a, b)
