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
    Console(stderr=True).print(text, soft_wrap=True)


def say(*parts: str | tuple[str, str]) -> None:
    """A line on stdout of any length; a part may be a text with its style."""
    Console().print(Text.assemble(*parts), soft_wrap=True)


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
    first_width: int | None = None,
    no_wrap: bool = False,
    **options: Any,
) -> None:
    """A table on stdout with the columns `right` aligned right; `first_width` is the least width of the first one."""
    table = Table(title_justify="left", **options)
    for heading in headings:
        side: Literal["left", "right"] = "right" if heading in right else "left"
        table.add_column(Text(heading), justify=side, overflow="fold", no_wrap=no_wrap)
    table.columns[0].min_width = first_width
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    Console().print(table)


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
