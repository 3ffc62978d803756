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
    columns = zip(headings, *cells, strict=True)
    widths = [_least(column, whole=no_wrap) for column in columns]
    if sum(widths) + 3 * len(widths) >= console.width:
        # A narrower table would break words: rows become lines.
        for row in cells:
            pairs = zip(headings, row, strict=True)
            say("; ".join(f"{heading} {cell}".strip() for heading, cell in pairs))
        return
    table = Table(title_justify="left", **options)
    for heading, width in zip(headings, widths, strict=True):
        side: Literal["left", "right"] = "right" if heading in right else "left"
        table.add_column(Text(heading), justify=side, min_width=width, no_wrap=no_wrap)
    table.columns[0].min_width = max(first_width, widths[0])
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _text(cell: object) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def _least(column: Iterable[object], *, whole: bool) -> int:
    """The least width of a column whose words, or whole cells, are not broken."""
    texts = [str(cell) for cell in column]
    return max(len(part) for text in texts for part in ([text] if whole else text.split() or [""]))


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
