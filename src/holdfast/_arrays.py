"""Helpers that let the batched mathematics run on any library that follows the array API standard."""

from __future__ import annotations

from typing import Any, Self, TypeAlias

import array_api_compat
import array_api_compat.numpy as numpy_namespace
import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidInputError, MissingExtraError

# An array of whatever library the caller chose, float64; numpy is the default.
Array: TypeAlias = Any

__all__ = [
    "Array",
    "RowBatch",
    "array_namespace",
    "beside",
    "check_device",
    "row_sum",
    "take_rows",
    "to_numpy",
]


def array_namespace(array: Array) -> Any:
    """Return the array library that `array` belongs to; numpy, the usual case, is recognised at once."""
    return numpy_namespace if type(array) is np.ndarray else array_api_compat.array_namespace(array)


def to_numpy(array: Array) -> NDArray[Any]:
    """Return the same values as a numpy array on the CPU."""
    if isinstance(array, np.ndarray):
        return array
    try:
        return np.asarray(
            array.detach().cpu().numpy() if hasattr(array, "cpu") else np.from_dlpack(array)
        )
    except (TypeError, NotImplementedError) as error:
        raise InvalidInputError(
            f"expected an array of a kind that numpy has, got {array.dtype}: {error}"
        ) from error


def check_device(device: str | None, X: Any) -> str | None:
    """Return the device of torch: `device`, or that of X; None for numpy. An unknown device is an error."""
    if device is None:
        device = str(X.device) if hasattr(X, "is_cuda") else "cpu"
    if device == "cpu":
        return None
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("torch", "torch", f"device={device!r}") from error
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
    except Exception as error:
        there = (
            [f"cuda:{i}" for i in range(torch.cuda.device_count())]
            if torch.cuda.is_available()
            else []
        )
        raise InvalidInputError(
            f"device: expected one of {['cpu', *there]}, got {device!r}: {error}"
        ) from error
    return str(device)


def take_rows(value: Array, rows: Array) -> Array:
    """Take the chosen rows of an array; a single number for all rows is returned unchanged."""
    if type(value) is np.ndarray:
        return value.take(rows, axis=0)
    if isinstance(value, float):
        return value
    return array_namespace(value).take(value, beside(value, rows), axis=0)


def beside(like: Array, rows: Array) -> Array:
    """Convert numpy's row numbers, or other numbers, to an array on the device of `like`."""
    if isinstance(like, np.ndarray) or not isinstance(rows, np.ndarray):
        return rows
    array = array_namespace(like).asarray(rows)
    return array.to(like.device) if hasattr(like, "is_cuda") else array


class RowBatch:
    """A dataclass of arrays, and of further batches, with a row for each point."""

    __match_args__: tuple[str, ...]

    def take(self, rows: Array) -> Self:
        """Take some of the rows."""
        taken = []
        for name in self.__match_args__:
            part = getattr(self, name)
            whole = isinstance(part, RowBatch)
            taken.append(part.take(rows) if whole else take_rows(part, rows))
        return type(self)(*taken)

    def on(self, convert: Any) -> Self:
        """Return the batch with its arrays converted to another library or device."""
        parts = (getattr(self, name) for name in self.__match_args__)
        return type(self)(
            *(part.on(convert) if isinstance(part, RowBatch) else convert(part) for part in parts)
        )

    def where(self, chosen: Array, other: Self) -> Self:
        """Take each row from this batch where `chosen`, otherwise from `other`; for batches of arrays only."""
        xp, parts = array_namespace(chosen), []
        for name in self.__match_args__:
            ours, theirs = getattr(self, name), getattr(other, name)
            parts.append(xp.where(chosen if ours.ndim == 1 else chosen[:, None], ours, theirs))
        return type(self)(*parts)


def row_sum(values: Array) -> Array:
    """Sums over the last axis, kept as a column."""
    if isinstance(values, np.ndarray):
        # A product is several times faster than a sum along short rows.
        return values @ np.ones((values.shape[-1], 1))
    return array_namespace(values).sum(values, axis=-1, keepdims=True)
