"""The command ``datasets``: the tables that `holdfast.datasets.load` knows, with their sources and caveats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich import box
from typer import Argument

from holdfast._files import write_json, write_table
from holdfast.cli import _tables as tables
from holdfast.cli._options import Out, command
from holdfast.cli._screens import say, show_table
from holdfast.datasets import load, names
from holdfast.datasets._catalogue import Facts
from holdfast.datasets._places import DATA, find, find_given
from holdfast.errors import InvalidInputError
from holdfast.features import Direction

_MOVES = {
    Direction.FREE: "either way",
    Direction.INCREASING: "up",
    Direction.DECREASING: "down",
    Direction.IMMUTABLE: "no",
}


@command
def datasets(
    name: Annotated[
        str | None, Argument(help="One table: its columns, its source and its caveats.")
    ] = None,
    out: Out = None,
    schema: Annotated[
        Path | None,
        "Write the feature space here, as JSON, for --schema.",
    ] = None,
    as_in_paper: Annotated[
        bool,
        "gmc: repeat each row of class 0 three times, as the paper does.",
    ] = False,
) -> None:
    """List the public tables, show one in detail, or write it to a file.

    $ holdfast datasets adult --out adult.csv --schema adult.json
    """
    if name is None:
        if out is not None or schema is not None:
            raise InvalidInputError(
                f"--out and --schema also need NAME: one of {', '.join(names())}"
            )
        _show_all()
        return
    _show_one(Facts.of(name))
    if out is not None or schema is not None:
        _write(name, out, schema, as_in_paper)


def _write(name: str, out: Path | None, schema: Path | None, as_in_paper: bool) -> None:
    """The table with its label last, and the space; a missing table is downloaded."""
    tables.check_output(out)
    tables.check_output(schema, table=False)
    data = load(name, as_in_paper=as_in_paper)
    if out is not None:
        table = data.frame.assign(**{str(data.target.name): data.target})
        write_table(table.rename_axis(str(data.frame.index.name or "row")), out)
        say(f"table: {out}, {len(data):,} rows")
    if schema is not None:
        write_json(data.space.to_dict(), schema)
        say(f"feature space: {schema}")


def _show_all() -> None:
    sizes = ("rows", "features", "classes")
    rows = (
        (
            facts.name, f"{facts.rows:,}", len(facts.schema.feature_names), len(facts.classes),
            _where(facts, short=True), facts.licence.partition(";")[0],
        )
        for facts in map(Facts.of, names())
    )  # fmt: skip
    show_table(
        ("name", *sizes, "where", "licence"), rows, right=sizes, first_width=max(map(len, names())),
        box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False,
    )  # fmt: skip
    say("`holdfast datasets NAME` shows one with its columns, licence and caveats.")


def _show_one(facts: Facts) -> None:
    say((facts.title, "bold"), f": {facts.rows:,} rows")
    for label, meaning in facts.classes.items():
        say(f"  class {label}: {meaning}{' (wanted)' if label == facts.wanted else ''}")
    columns = []
    for feature in facts.schema.features():
        labels = ", ".join(map(str, feature.categories))
        values = labels or f"{feature.lower:g} to {feature.upper:g} {feature.unit}"
        columns.append((feature.name, feature.kind, values.rstrip(), _MOVES[feature.direction]))
    show_table(("column", "kind", "values", "may move"), columns)
    said = [
        ("source", facts.source),
        ("made by", facts.derivation),
        ("licence", facts.licence),
        ("in the paper", facts.paper),
        ("where", _where(facts)),
    ]
    for title, text in [*said, *(("caveat", caveat) for caveat in facts.caveats)]:
        say((title, "bold"), f": {text}")


def _where(facts: Facts, *, short: bool = False) -> str:
    """The place of the table; in a few words for the list, if `short`."""
    if facts.download is None:
        return "comes with holdfast" if facts.name == "loans" else "comes with scikit-learn"
    path = find(facts)
    if path is None:
        return "not here: will be downloaded" + ("" if short else f" from {facts.download.url}")
    if not short:
        return str(path)
    return "in the cache" if find_given(facts) is None else f"in ${DATA}"
