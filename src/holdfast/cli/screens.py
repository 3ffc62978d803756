"""What the commands show: tables on stdout, complaints on stderr."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.changes import Changes
from holdfast.numbers import at_most

SHOWN = 5


def complain(message: str, kind: str = "error") -> None:
    """One line on stderr."""
    Console(stderr=True, soft_wrap=True).print(
        f"[bold]{kind}:[/bold] {escape(' '.join(message.split()))}", highlight=False
    )


def show_certificates(result: pd.DataFrame, *, target: str, changes: Changes, seconds: float, out: Path | None) -> None:
    """How many rows hold, who decided, and which hold most narrowly."""
    console = Console()
    robust = int(result["robust"].sum())
    console.print(
        f"{robust:,} of {len(result):,} rows provably keep class {escape(target)} under {escape(changes.every_model)}.",
        highlight=False,
    )
    if "sound" in result:
        sound, both = int(result["sound"].sum()), int((result["sound"] & result["robust"]).sum())
        console.print(
            f"Every such model keeps the class of {sound:,} of the factuals; in {both:,} rows both hold.",
            highlight=False,
        )
    console.print(shares(result["verdict"], "verdict", order=["ROBUST", "NOT_ROBUST", "UNKNOWN"]))
    console.print(shares(result["decided_by"], "decided by"))
    narrow = result[result["robust"]].nsmallest(SHOWN, "margin_lower")
    if len(narrow) > 0:
        console.print(_keyed(narrow, "margin_lower", "smallest certified margins", "margin at least"))
    _footer(console, len(result), seconds, out)


def show_radii(
    result: pd.DataFrame, *, target: str, changes: Changes, size: float | None, seconds: float, out: Path | None
) -> None:
    """The spread of the radii and the smallest of them; with a size also how many rows allow that much."""
    console = Console(highlight=False)
    moves = f"the model may move (norm {_norm(getattr(changes, 'norm', 2.0))})"
    far = "the margin may fall" if changes.unit == "margin" else moves
    console.print(f"How far {far} before each row loses class {escape(target)}:")
    if size is not None:
        console.print(f"{int((result['radius_lower'] > size).sum()):,} of {len(result):,} rows allow {at_most(size)}.")
    table = Table(title="certified radius", title_justify="left")
    table.add_column("of the rows")
    table.add_column("radius at least", justify="right")
    for share in (1.0, 0.95, 0.75, 0.5, 0.25, 0.05):
        table.add_row(f"{share:.0%}", f"{result['radius_lower'].quantile(1 - share, interpolation='lower'):.6g}")
    console.print(table)
    smallest = result.nsmallest(SHOWN, "radius_lower")
    console.print(_keyed(smallest, "radius_lower", "smallest radii", "radius at least"))
    _footer(console, len(result), seconds, out)


def shares(values: pd.Series, title: str, order: list[str] | None = None) -> Table:
    """A table of counts and percentages, in the given order or the most frequent first."""
    counts = values.value_counts()
    if order is not None:
        counts = counts.reindex(order, fill_value=0)
    table = Table()
    table.add_column(title, min_width=18)
    table.add_column("rows", justify="right")
    table.add_column("share", justify="right")
    for name, count in counts.items():
        table.add_row(escape(str(name)), f"{count:,}", f"{count / len(values):.1%}")
    return table


def _norm(norm: float) -> str:
    return "inf" if norm == math.inf else f"{norm:g}"


def _keyed(rows: pd.DataFrame, column: str, title: str, heading: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(escape(str(rows.index.name or "row")), min_width=18)
    table.add_column(heading, justify="right")
    for key, value in rows[column].items():
        table.add_row(escape(str(key)), f"{value:.6g}")
    return table


def _footer(console: Console, rows: int, seconds: float, out: Path | None) -> None:
    console.print(f"{rows:,} rows in {seconds:.2f} s", highlight=False)
    if out is not None:
        console.print(f"full result: {escape(str(out))}", highlight=False, soft_wrap=True)
