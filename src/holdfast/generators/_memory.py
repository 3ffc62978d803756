"""A short memory for results of large tables, so that a second question reads no table twice."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_MOST = 8


def remembered(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with its last few results kept for as long as the very objects that it was called with live.

    Only for functions of objects that stay unchanged. Equal objects are not looked for: to compare two tables takes as
    long as to read one.

    Examples
    --------
    >>> calls = []
    >>> class Table: ...
    >>> @remembered
    ... def read(table):
    ...     calls.append(table)
    ...     return len(calls)
    >>> one, other = Table(), Table()
    >>> read(one), read(one), read(other), read(one)
    (1, 1, 2, 1)
    """
    kept: dict[tuple[int, ...], tuple[tuple[weakref.ref[object], ...], R]] = {}

    @wraps(function)
    def recalled(*args: P.args, **kwargs: P.kwargs) -> R:
        assert not kwargs, "expected positions only"
        key = tuple(map(id, args))
        entry = kept.get(key)
        # An id may be taken over by another object once its own is gone.
        if entry is not None and all(ref() is arg for ref, arg in zip(entry[0], args, strict=True)):
            return entry[1]
        result = function(*args, **kwargs)
        kept[key] = (tuple(weakref.ref(arg, lambda _: kept.pop(key, None)) for arg in args), result)
        while len(kept) > _MOST:
            kept.pop(next(iter(kept)), None)
        return result

    return recalled
