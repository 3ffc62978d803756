"""A progress bar for work that takes longer than a look."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# With fewer rows most generators are done before a bar could be read.
_LONG_TABLE = 20


@contextmanager
def progress_bar(total: int, wanted: bool | None) -> Iterator[Callable[[int], object] | None]:
    """A bar on stderr and the function that moves it; by default on long tables if stderr is a terminal."""
    if wanted is None:
        wanted = total >= _LONG_TABLE and sys.stderr.isatty()
    if not wanted:
        yield None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    with Progress(*Progress.get_default_columns(), MofNCompleteColumn(), TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task("explain", total=total)
        yield lambda done: bar.advance(task, done)
