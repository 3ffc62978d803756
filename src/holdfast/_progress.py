"""A progress bar for work that takes longer than a look."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Moves a bar by so many.
Advance = Callable[[int], object]
# Seconds between two lines where there is no terminal to draw a bar on.
_EVERY = 10.0


@contextmanager
def progress_bar(
    title: str, total: int, *, wanted: bool | None, long: int, lines: bool = False
) -> Iterator[Advance]:
    """A bar on stderr and the function that moves it; by default from `long` rows on if stderr is a terminal.

    Without a bar the function does nothing; with `lines`, and no terminal, it says now and then how far it is.
    """
    if lines and not sys.stderr.isatty():
        yield _lines(title, total)
        return
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


def _lines(title: str, total: int) -> Advance:
    started = said = time.monotonic()
    done = 0

    def advance(more: int) -> None:
        nonlocal said, done
        done += more
        now = time.monotonic()
        if now - said >= _EVERY and 0 < done < total:
            said = now
            gone = now - started
            left = gone * (total - done) / done
            share = f"{done:,} of {total:,} ({done / total:.0%})"
            sys.stderr.write(f"{title}: {share}, {gone:.0f} s; about {left:.0f} s to go\n")
            sys.stderr.flush()

    return advance
