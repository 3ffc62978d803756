"""The commands below ``ledger``: add, show, verify, erase, export and migrate."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.cli import screens, tables
from holdfast.cli.advice import AdviceFile, Promised
from holdfast.cli.options import (
    BROKEN,
    FILE,
    DataFile,
    Debug,
    Deciding,
    Drop,
    Index,
    MayChange,
    ModelFile,
    Schema,
    TrustPickle,
    label_of,
    plain_errors,
    spread,
)
from holdfast.cli.tables import read_people
from holdfast.importers.files import read_model
from holdfast.promises.ledger import Ledger
from holdfast.promises.migrate import migrate as migrate_ledger

app = typer.Typer(
    help="Every promise that was made, in a file that shows when it was tampered with.", no_args_is_help=True
)

LedgerFile = Annotated[Path, typer.Option("--ledger", help="The ledger.", **FILE)]
# The secret itself is no option: what is typed in a shell is kept, and shown to others.
SECRET = "HOLDFAST_LEDGER_SECRET"
SecretFile = Annotated[
    Path | None,
    typer.Option(
        "--secret-file", help=f"A file with the secret behind pseudonyms; else ${SECRET} is looked at.", **FILE
    ),
]


def read_secret(path: Path | None) -> str | None:
    """The secret of a ledger whose keys are pseudonyms: in a file, or in the environment."""
    return (os.environ.get(SECRET) or None) if path is None else path.read_text(encoding="utf-8").strip()


@app.command()
@spread
def add(
    recourse: AdviceFile,
    ledger: Annotated[Path, typer.Option("--ledger", dir_okay=False, help="The ledger; created if it is not there.")],
    model: ModelFile,
    data: DataFile,
    target: Promised,
    may: MayChange,
    deciding: Deciding,
    *,
    schema: Schema = None,
    date: Annotated[
        str | None, typer.Option(help="When the promises were made, 2026-11-16; today if not given.")
    ] = None,
    no_radius: Annotated[
        bool, typer.Option("--no-radius", help="Do not compute each promise's certified radius.")
    ] = False,
    once: Annotated[
        bool,
        typer.Option("--once", help="Leave out what is recorded already (same key, date, terms, class and advice)."),
    ] = False,
    index: Index = None,
    drop: Drop = None,
    secret: SecretFile = None,
    trust_pickle: TrustPickle = False,
    debug: Debug = False,
) -> None:
    """Record the promises that `explain` made: all of them, or none if anything is wrong."""
    with plain_errors(debug):
        classifier = deciding.at(read_model(model, trust_pickle=trust_pickle))
        space, people = read_people(data, schema, index, drop)
        advice = tables.read_table(recourse, index=index or "row", space=space)
        found = advice.get("recourse_found", advice.get("found"))
        answered = advice if found is None else advice[found.astype(bool)]
        if space is None and classifier.preprocess is None:
            answered = answered[[name for name in people.columns if name in answered.columns]]
        with Ledger(ledger, secret=read_secret(secret)) as book:
            receipt = book.add_frame(
                classifier,
                tables.rows_by_key(people, answered, data, "the recourse"),
                answered,
                target=label_of(target, classifier.classifier),
                changes=may.read(),
                space=space,
                date=date,
                radius=not no_radius,
                once=once,
            )
        console = Console(highlight=False)
        skipped = receipt.skipped + len(advice) - len(answered)
        console.print(f"{receipt.added:,} promises recorded, {skipped:,} rows without an answer skipped.")
        if once:
            console.print(f"{receipt.repeated:,} were recorded already.")
        console.print(f"{receipt.total:,} promises in {escape(str(ledger))}", soft_wrap=True)
        console.print(f"head {receipt.head}", soft_wrap=True)
        console.print("Keep the head elsewhere: with it, `ledger verify --head` also sees entries cut off at the end.")


@app.command()
def show(
    ledger: LedgerFile,
    key: Annotated[str | None, typer.Option(help="Show the promises made to this person instead.")] = None,
    secret: SecretFile = None,
    debug: Debug = False,
) -> None:
    """How many promises there are, under which models and Δ; or, with --key, someone's promises one by one."""
    with plain_errors(debug), Ledger(ledger, create=False, secret=read_secret(secret)) as book:
        console = Console(highlight=False)
        if key is not None:
            _show_person(console, key, book.find(key))
            return
        table = Table()
        for heading in ("model", "delta", "threshold", "promises", "robust", "erased", "from", "to"):
            right = heading in ("promises", "robust", "erased")
            table.add_column(heading, justify="right" if right else "left", no_wrap=True)
        last, chances = len(book), {}
        for terms, spans in book.spans(last):
            counts, dates = np.zeros(3, dtype=np.int64), set[str]()
            for part in book.overviews(terms, spans):
                counts += (len(part), part.robust.sum(), part.erased.sum())
                dates |= {page.date for page in part.pages if page.date.strip()}
            words = "none" if terms.changes is None else terms.changes.words.removeprefix("delta = ")
            if terms.changes is not None and terms.changes.chance is not None:
                chances[words] = terms.changes.chance
            thresholds = terms.threshold if isinstance(terms.threshold, tuple) else (terms.threshold,)
            table.add_row(
                terms.model_hash[:12],
                escape(words),
                ", ".join(f"{part:g}" for part in thresholds),
                *(f"{count:,}" for count in counts),
                min(dates, default="none"),
                max(dates, default="none"),
            )
        console.print(f"{last:,} promises")
        console.print(table)
        for words, chance in chances.items():
            console.print(escape(f"{words}: measured, not proven: {chance}"), soft_wrap=True)
        console.print(f"head {book.head}", soft_wrap=True)


def _show_person(console: Console, key: str, promises: pd.DataFrame) -> None:
    console.print(f"{len(promises):,} promise{'' if len(promises) == 1 else 's'} to {escape(key)}")
    for row in promises.to_dict("records"):
        before, after = json.loads(row["factual"]), json.loads(row["counterfactual"])
        changes = [f"{name} {before[name]} -> {value}" for name, value in after.items() if before[name] != value]
        verdict = f", {row['verdict']} ({row['statement']})" if isinstance(row["verdict"], str) else ""
        radius = "" if np.isnan(row["radius"]) else f", radius {row['radius']:.4g}"
        made = f"{row['number']}, {row['date']}: class {row['target']} from model {row['model'][:12]}{verdict}{radius}"
        console.print(escape(f"{made}: {'; '.join(changes) or 'nothing to change'}"), soft_wrap=True)


@app.command()
def verify(
    ledger: LedgerFile,
    head: Annotated[str | None, typer.Option(metavar="HASH", help="A head that was noted down before.")] = None,
    debug: Debug = False,
) -> None:
    """Is every entry what was written, in its place? Exit code 3 if not.

    Entries cut off at the end do not show in the chain: give the head that was printed when they were added.
    """
    with plain_errors(debug), Ledger(ledger, create=False) as book:
        result = book.verify(head=head)
    if not result.intact:
        screens.complain(str(result))
        raise typer.Exit(BROKEN)
    Console(highlight=False).print(str(result), soft_wrap=True)


@app.command()
def export(
    ledger: LedgerFile,
    out: Annotated[Path, typer.Option(help="Where the table goes: .csv, .csv.gz or .parquet.")],
    debug: Debug = False,
) -> None:
    """Every promise as a table, x and x' as JSON in raw units."""
    with plain_errors(debug), Ledger(ledger, create=False) as book:
        tables.check_output(out)
        count = book.export(out)
        Console(highlight=False).print(f"{count:,} promises: {escape(str(out))}", soft_wrap=True)


@app.command()
def erase(
    key: Annotated[str, typer.Argument(help="Whose promises; a pseudonym as it is, without the secret.")],
    ledger: LedgerFile,
    why: Annotated[str, typer.Option(help="A reason to put on record. It cannot be erased: name nobody.")] = "",
    secret: SecretFile = None,
    debug: Debug = False,
) -> None:
    """Take everything that the ledger says of someone's promises out of the file; their place in the chain remains.

    Exports, backups, letters and certificates are not reached.
    """
    with plain_errors(debug), Ledger(ledger, create=False, secret=read_secret(secret)) as book:
        erased = book.erase(key, why=why)
        console = Console(highlight=False)
        console.print(f"{len(erased):,} promise{'' if len(erased) == 1 else 's'} erased")
        console.print(f"head {book.head}", soft_wrap=True)


@app.command()
def migrate(
    old: Annotated[Path, typer.Argument(help="A ledger that an earlier version wrote.", **FILE)],
    new: Annotated[Path, typer.Argument(dir_okay=False, help="The file to write; it must not be there yet.")],
    secret: SecretFile = None,
    debug: Debug = False,
) -> None:
    """Write a ledger of version 1 as a new file, after its whole chain was verified; the old file stays as it is."""
    with plain_errors(debug):
        count, head = migrate_ledger(old, new, secret=read_secret(secret))
        console = Console(highlight=False)
        console.print(f"{count:,} promises: {escape(str(new))}", soft_wrap=True)
        console.print(f"head of the old ledger {head}", soft_wrap=True)
