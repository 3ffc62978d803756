"""Run work in parallel as joblib is configured: by `n_jobs`, or by `joblib.parallel_config` around a call.

The parts of the work do not depend on the number of workers, so the results do not either.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from multiprocessing import current_process
from numbers import Integral
from typing import Any, TypeVar

import joblib
import numpy as np

from holdfast.errors import InvalidInputError

T = TypeVar("T")
R = TypeVar("R")
_END = object()


# How many workers there are: `workers()`.
workers: Callable[[], int] = partial(joblib.effective_n_jobs, None)


def spread(function: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
    """Apply a function to each part, in order; parts are made when a worker is free. The function must pickle.

    Examples
    --------
    >>> list(spread(abs, [-2, 3]))
    [2, 3]
    """
    if workers() == 1:
        return map(function, parts)
    work = map(joblib.delayed(partial(_watched, os.getpid(), function)), parts)
    return joblib.Parallel(return_as="generator")(work)  # type: ignore[no-any-return]


def _watched(parent: int, function: Callable[[T], R], part: T) -> R:
    """Apply the function to a part in a process that ends with its parent; joblib's would outlive it by minutes."""
    if current_process().name.startswith("LokyProcess") and os.getpid() != parent:
        _settle_in(parent)
    return function(part)


@cache
def _settle_in(parent: int) -> None:
    """Prepare a process once: end with the parent, and keep the memory of freed arrays.

    glibc returns memory to the system if it is larger than the largest piece freed so far. Fetching it again for
    every large array takes a tenth of the time of a radius. glibc keeps at most 32 MiB.
    """
    np.empty(2**25 - 2**16, dtype=np.uint8)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def beside(function: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
    """Apply a function as `spread` does; without workers a thread computes the next result while the caller works."""
    if workers() > 1:
        yield from spread(function, parts)
        return
    with ThreadPoolExecutor(1) as thread:
        waiting: list[Future[R]] = []
        for part in parts:
            waiting.append(thread.submit(function, part))
            if len(waiting) > 1:
                yield waiting.pop(0).result()
        for last in waiting:
            yield last.result()


def ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield the same items; a thread makes only the next one in advance, because items may be large.

    Examples
    --------
    >>> list(ahead([2, 3]))
    [2, 3]
    """
    source = iter(items)
    with ThreadPoolExecutor(1) as maker:
        following = maker.submit(next, source, _END)
        while (item := following.result()) is not _END:
            following = maker.submit(next, source, _END)
            yield item  # type: ignore[misc]


def check_jobs(n_jobs: Any) -> None:
    """Refuse an invalid number of workers before any work is done."""
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise InvalidInputError(
            f"n_jobs: expected a whole number other than 0, such as 2, or -1 for all, got {n_jobs!r}"
        )


def jobs(n_jobs: Any) -> AbstractContextManager[Any]:
    """Context in which `spread` uses this many workers, as in joblib; None leaves the number as it is."""
    if n_jobs is None:
        return nullcontext()
    check_jobs(n_jobs)
    return joblib.parallel_config(n_jobs=int(n_jobs))  # type: ignore[no-any-return]
