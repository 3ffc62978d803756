"""The command ``datasets``: the tables that `holdfast.datasets.load` knows, and what to know about each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.cli import tables
from holdfast.cli.options import Debug, Out, plain_errors
from holdfast.datasets import load, names
from holdfast.datasets.catalogue import Facts
from holdfast.datasets.places import DATA, find, find_given
from holdfast.errors import InvalidInputError
from holdfast.features.kinds import Direction
from holdfast.files import write_json, write_table

_MOVES = {
    Direction.FREE: "either way",
    Direction.INCREASING: "up",
    Direction.DECREASING: "down",
    Direction.IMMUTABLE: "no",
}
_JUSTIFY: dict[str, Literal["left"]] = {"name": "left", "where": "left", "licence": "left"}


def datasets(
    name: Annotated[str | None, typer.Argument(help="One table: its columns, its source and its caveats.")] = None,
    out: Out = None,
    schema: Annotated[
        Path | None, typer.Option(help="Where the feature space goes, as JSON: what `explain --schema` reads.")
    ] = None,
    as_in_paper: Annotated[
        bool, typer.Option("--as-in-paper", help="gmc: each row of class 0 three times, as in the paper's experiments.")
    ] = False,
    debug: Debug = False,
) -> None:
    """The public tables: rows, classes, licence, where each is found; one of them in detail, or as a file."""
    with plain_errors(debug):
        if name is None:
            if out is not None or schema is not None:
                raise InvalidInputError(f"expected the NAME of a table to write, one of {', '.join(names())}")
            _show_all()
            return
        _show_one(Facts.of(name))
        if out is not None or schema is not None:
            _write(name, out, schema, as_in_paper)


def _write(name: str, out: Path | None, schema: Path | None, as_in_paper: bool) -> None:
    """The table with its label last, and the space, from the network if need be."""
    console = Console(highlight=False)
    tables.check_output(out)
    data = load(name, as_in_paper=as_in_paper)
    if out is not None:
        table = data.frame.assign(**{str(data.target.name): data.target})
        write_table(table.rename_axis(str(data.frame.index.name or "row")), out)
        console.print(f"table: {escape(str(out))}, {len(data):,} rows", soft_wrap=True)
    if schema is not None:
        write_json(data.space.to_dict(), schema)
        console.print(f"feature space: {escape(str(schema))}", soft_wrap=True)


def _show_all() -> None:
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for heading in ("name", "rows", "features", "classes", "where", "licence"):
        table.add_column(heading, no_wrap=heading == "name", overflow="fold", justify=_JUSTIFY.get(heading, "right"))
    for facts in map(Facts.of, names()):
        size = f"{facts.rows:,}", str(len(facts.schema.feature_names)), str(len(facts.classes))
        table.add_row(facts.name, *size, _place(facts), escape(facts.licence.partition(";")[0]))
    console = Console(highlight=False)
    console.print(table)
    console.print("`holdfast datasets NAME` shows one with its columns, licence and caveats.")


def _show_one(facts: Facts) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]{escape(facts.title)}[/bold]: {facts.rows:,} rows")
    for label, meaning in facts.classes.items():
        console.print(f"  class {label}: {escape(meaning)}{' (wanted)' if label == facts.wanted else ''}")
    Console(highlight=False).print(_columns(facts))
    lines = {
        "source": facts.upstream,
        "made by": facts.derivation,
        "licence": facts.licence,
        "in the paper": facts.paper,
    }
    for title, text in (lines | {"where": _where(facts)}).items():
        console.print(f"[bold]{title}[/bold]: {escape(text)}")
    for caveat in facts.caveats:
        console.print(f"[bold]caveat[/bold]: {escape(caveat)}")


def _columns(facts: Facts) -> Table:
    table = Table()
    for heading in ("column", "kind", "values", "may move"):
        table.add_column(heading, overflow="fold")
    for feature in facts.schema.features():
        labels = ", ".join(map(str, feature.categories))
        values = labels or f"{feature.lower:g} to {feature.upper:g} {feature.unit}"
        table.add_row(escape(str(feature.name)), str(feature.kind), escape(values.rstrip()), _MOVES[feature.direction])
    return table


def _place(facts: Facts) -> str:
    """In a word, for the list."""
    if facts.download is None:
        return _where(facts)
    if find(facts) is None:
        return "not here: will be downloaded"
    return "in the cache" if find_given(facts) is None else f"in ${DATA}"


def _where(facts: Facts) -> str:
    if facts.download is None:
        return "comes with holdfast" if facts.name == "loans" else "comes with scikit-learn"
    path = find(facts)
    return f"not here: will be downloaded from {facts.download.url}" if path is None else str(path)
