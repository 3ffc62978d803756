"""A progress bar for long work."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

# Moves a bar by so many.
Advance = Callable[[int], object]
# Seconds between two lines where there is no terminal to draw a bar on.
_EVERY = 10.0


def no_bar(done: int) -> None:
    """Do nothing: the function for work without a bar, which other processes can be given too."""


# What moves the bar around a batch that is worked on in this process; last the innermost.
_AROUND: list[Advance] = [no_bar]


@contextmanager
def progress_bar(
    title: str, total: int, *, wanted: bool | None, long: int, lines: bool = False
) -> Iterator[Advance]:
    """Show a bar on stderr and yield the function that moves it; by default from `long` rows on in a terminal.

    If stderr is no terminal, such as a log, a line reports the progress from time to time. Without a bar, the function
    moves the outer bar, which counts batches, or does nothing. With `lines`, the lines are always written.
    """
    terminal = sys.stderr.isatty()
    if lines or wanted or (wanted is None and terminal and total >= long):
        drawn = (
            _bar(title, total, long * lines)
            if terminal
            else nullcontext(_lines(title, total, to_the_end=not lines))
        )
    else:
        drawn = nullcontext(_AROUND[-1])
    with drawn as move:
        outer = _Outer(move)
        # Whoever is asked in turn would count the same rows again.
        with _around(outer.within if lines else no_bar):
            yield outer.advance if lines else move


class _Outer:
    """Moves a bar by finished batches, and within a batch by the rows known to be done."""

    def __init__(self, move: Advance) -> None:
        self.move, self.known = move, 0

    def within(self, done: int) -> None:
        """Count rows of unfinished batches."""
        self.known += done
        self.move(done)

    def advance(self, done: int) -> None:
        """Count a finished batch."""
        counted = min(self.known, done)
        self.known -= counted
        self.move(done - counted)


@contextmanager
def _around(move: Advance) -> Iterator[None]:
    _AROUND.append(move)
    try:
        yield
    finally:
        _AROUND.pop()


@contextmanager
def _bar(title: str, total: int, long: int = 0) -> Iterator[Advance]:
    if total < long:
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


def _lines(title: str, total: int, *, to_the_end: bool) -> Advance:
    started = said = time.monotonic()
    done = 0

    def advance(more: int) -> None:
        nonlocal said, done
        done += more
        now = time.monotonic()
        ended = 0 < total <= done
        if (more and to_the_end) if ended else now - said >= _EVERY:
            said, gone = now, now - started
            share = f"{done:,} of {total:,} ({done / total:.0%})" if total else f"{done:,}"
            left = f"; about {gone * (total - done) / done:.0f} s to go" if 0 < done < total else ""
            sys.stderr.write(f"{title}: {share}, {gone:.0f} s{left}\n")
            sys.stderr.flush()

    return advance
