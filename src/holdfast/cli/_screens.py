"""The output of commands: lines and tables on stdout, errors and warnings on stderr."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

SHOWN = 5
WIDE = 18


def complain(message: str, kind: str = "error") -> None:
    """One line on stderr."""
    text = Text.assemble((f"{kind}:", "bold"), " ", " ".join(message.split()))
    _print(text, Console(stderr=True))


def say(*parts: str | tuple[str, str]) -> None:
    """A line on stdout of any length; a part may be a text with its style."""
    _print(Text.assemble(*parts), Console())


def _print(text: Text, console: Console) -> None:
    """One line for files and pipes; on a terminal it wraps between words."""
    console.print(text, soft_wrap=not console.is_terminal)


def say_entry(name: str, text: str, column: int) -> None:
    """A name, and next to it a text that is wrapped between words."""
    width = min(Console().width, 100) - column - 2
    for number, line in enumerate(textwrap.wrap(text, max(width, 30), break_long_words=False)):
        say(f"{name if number == 0 else '':{column}}  {line}")


def show_table(
    headings: Iterable[str],
    rows: Iterable[Iterable[object]],
    *,
    right: Collection[str] = (),
    first_width: int = 0,
    no_wrap: bool = False,
    **options: Any,
) -> None:
    """A table on stdout with the columns `right` aligned right; `first_width` is the least width of the first one."""
    console = Console()
    headings, cells = list(headings), [list(map(_text, row)) for row in rows]
    columns = [list(map(str, column)) for column in zip(headings, *cells, strict=True)]
    gap = 2 if options.get("collapse_padding") else 3
    widths = _widths(columns, console.width - 1, gap, whole=no_wrap)
    if widths is None:
        # A narrower table would break words: rows become lines.
        for row in cells:
            pairs = zip(headings, row, strict=True)
            say("; ".join(f"{heading} {cell}".strip() for heading, cell in pairs))
        return
    widths[0] = max(widths[0], first_width)
    table = Table(title_justify="left", **options)
    for heading, width in zip(headings, widths, strict=True):
        side: Literal["left", "right"] = "right" if heading in right else "left"
        table.add_column(Text(heading), justify=side, width=width)
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _text(cell: object) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def _widths(columns: list[list[str]], width: int, gap: int, *, whole: bool) -> list[int] | None:
    """Widths of columns that fit without a broken word, or without a broken cell if `whole`; None: there are none."""
    widest = [max(map(len, column)) for column in columns]
    least = [
        size if whole else max(len(word) for cell in column for word in cell.split() or [""])
        for size, column in zip(widest, columns, strict=True)
    ]
    room = width - gap * len(columns)
    if sum(least) > room:
        return None
    while sum(widest) > room:
        slack = [now - end for now, end in zip(widest, least, strict=True)]
        widest[slack.index(max(slack))] -= 1
    return widest


def show_shares(counts: Mapping[Any, int], title: str, order: list[str] | None = None) -> None:
    """Counts and percentages, in the given order or the most frequent first."""
    names = order or sorted(counts, key=lambda name: -counts[name])
    total = sum(counts.values())
    rows = (
        (name, f"{counts.get(name, 0):,}", f"{counts.get(name, 0) / total:.1%}") for name in names
    )
    show_table((title, "rows", "share"), rows, right=("rows", "share"), first_width=WIDE)


def finish(what: str, seconds: float, out: Path | None = None) -> None:
    """The time that it took, and the place of the full result, if there is one."""
    say(f"{what} in {seconds:.2f} s")
    if out is not None:
        say(f"full result: {out}")
