"""A progress bar for work that takes longer than a look."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Moves a bar by so many.
Advance = Callable[[int], object]


@contextmanager
def progress_bar(title: str, total: int, *, wanted: bool | None, long: int) -> Iterator[Advance]:
    """A bar on stderr and the function that moves it; by default from `long` rows on if stderr is a terminal.

    Without a bar the function does nothing.
    """
    if wanted is None:
        wanted = total >= long and sys.stderr.isatty()
    if not wanted:
        yield no_bar
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    with Progress(
        *Progress.get_default_columns(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
    ) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)


def no_bar(done: int) -> None:
    """Moves nothing; another process, which has no bar to move, can be given it too."""
