"""The commands below ``ledger``: add, show, head, verify, erase and export."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from typer import Argument, Option

from holdfast.cli import _tables as tables
from holdfast.cli._advice import Advised
from holdfast.cli._options import BROKEN, FILE, command
from holdfast.cli._screens import complain, say, show_table
from holdfast.errors import InvalidInputError
from holdfast.promises import Ledger
from holdfast.promises._ledger_read import overviews

app = typer.Typer(
    help="Every promise that was made, in a file that shows when it was tampered with.",
    no_args_is_help=True,
)

LedgerFile = Annotated[Path, FILE, "The ledger."]
# The secret itself is no option: what is typed in a shell is kept, and shown to others.
SECRET = "HOLDFAST_LEDGER_SECRET"
SecretFile = Annotated[
    Path | None,
    Option(
        "--secret-file",
        help=f"A file with the secret behind pseudonyms; else ${SECRET} is looked at.",
        **FILE,
    ),
]


def read_secret(path: Path | None) -> str | None:
    """The secret of a ledger whose keys are pseudonyms: in a file, or in the environment."""
    return (
        (os.environ.get(SECRET) or None)
        if path is None
        else path.read_text(encoding="utf-8").strip()
    )


@app.command()
@command
def add(
    advised: Advised,
    ledger: Annotated[Path, {"dir_okay": False}, "The ledger; created if it is not there."],
    *,
    date: Annotated[
        str | None, "When the promises were made, 2026-11-16; today if not given."
    ] = None,
    no_radius: Annotated[bool, "Do not compute each promise's certified radius."] = False,
    secret: SecretFile = None,
) -> None:
    """Record the promises that `explain` made: all of them, or none if anything is wrong.

    What is recorded already (same key, date, terms, class and advice) is left out.
    """
    recourse = advised.read_advice(advised.table)
    with Ledger(ledger, secret=read_secret(secret)) as book:
        receipt = book.add(recourse, date=date, radius=not no_radius)
    say(f"{receipt.added:,} promises recorded, {receipt.skipped:,} rows without an answer skipped.")
    if receipt.repeated:
        say(f"{receipt.repeated:,} were recorded already.")
    say(f"{receipt.total:,} promises in {ledger}")
    say(
        "Keep the ledger's head elsewhere (`holdfast ledger head`): `ledger verify --head` then also sees entries that "
        "were cut off at the end."
    )


@app.command()
@command
def show(
    ledger: LedgerFile,
    *,
    key: Annotated[str | None, "Show the promises made to this person instead."] = None,
    secret: SecretFile = None,
) -> None:
    """How many promises there are, under which models and Δ; or, with --key, someone's promises one by one."""
    with Ledger(ledger, create=False, secret=read_secret(secret)) as book:
        if key is not None:
            _show_person(key, book.find(key))
            return
        last = len(book)
        rows = []
        chances = {}
        for terms in book.terms:
            counts = np.zeros(3, dtype=np.int64)
            dates = set[str]()
            for part in overviews(book.file, terms, book.file.spans(terms.hash, last)):
                counts += (len(part), part.robust.sum(), part.erased.sum())
                dates |= {page.date for page in part.pages if page.date.strip()}
            words = "none"
            if terms.changes is not None:
                words = terms.changes.words.removeprefix("delta = ")
                chances[words] = terms.changes.measured
            rows.append(
                [
                    terms.model_hash[:12],
                    words,
                    ", ".join(f"{part:g}" for part in np.atleast_1d(terms.threshold)),
                    *(f"{count:,}" for count in counts),
                    min(dates, default="none"),
                    max(dates, default="none"),
                ]
            )
        say(f"{last:,} promises")
        numbers = ("promises", "robust", "erased")
        show_table(
            ("model", "delta", "threshold", *numbers, "from", "to"),
            rows,
            right=numbers,
            no_wrap=True,
        )
        for words, measured in chances.items():
            for one in measured:
                say(f"{words}: measured, not proven: {one}")


@app.command()
@command
def head(ledger: LedgerFile) -> None:
    """What stands for the whole ledger, to be kept elsewhere: three lines, the body of a C2SP checkpoint."""
    with Ledger(ledger, create=False) as book:
        typer.echo(book.head, nl=False)


def _show_person(key: str, promises: pd.DataFrame) -> None:
    say(f"{len(promises):,} promise{'' if len(promises) == 1 else 's'} to {key}")
    for row in promises.to_dict("records"):
        before = json.loads(row["factual"])
        after = json.loads(row["counterfactual"])
        changes = [
            f"{name} {before[name]} -> {value}"
            for name, value in after.items()
            if before[name] != value
        ]
        verdict = (
            f", {row['verdict']} ({row['statement']})" if isinstance(row["verdict"], str) else ""
        )
        radius = "" if np.isnan(row["radius"]) else f", radius {row['radius']:.4g}"
        made = f"{row['number']}, {row['date']}: class {row['target']} from model {row['model'][:12]}{verdict}{radius}"
        say(f"{made}: {'; '.join(changes) or 'nothing to change'}")


@app.command()
@command
def verify(
    ledger: LedgerFile,
    *,
    head: Annotated[
        Path | None, FILE, "A head that was kept: what `ledger head` printed, or a signed note."
    ] = None,
    recheck: Annotated[
        str | None, "all, or N", "Also certify promises again: all of them, or N drawn at random."
    ] = None,
) -> None:
    """Is every entry what was written, in its place? Exit code 3 if not.

    Entries cut off at the end show only against a head that was kept. That a promise was ever certified shows only
    with --recheck.
    """
    if recheck not in (None, "all") and not recheck.isdecimal():
        raise InvalidInputError(f"--recheck: expected all or a whole number, got {recheck!r}")
    kept = None if head is None else head.read_text(encoding="utf-8", errors="replace")
    with Ledger(ledger, create=False) as book:
        again = recheck == "all" or int(recheck or 0)
        result = book.verify(head=kept, recheck=again)
    if not result.intact:
        complain(str(result))
        raise typer.Exit(BROKEN)
    say(str(result))


@app.command()
@command
def export(
    ledger: LedgerFile,
    *,
    out: Annotated[Path, "Where the table goes: .csv, .csv.gz or .parquet."],
) -> None:
    """Every promise as a table, x and x' as JSON in raw units."""
    tables.check_output(out)
    with Ledger(ledger, create=False) as book:
        say(f"{book.export(out):,} promises: {out}")


@app.command()
@command
def erase(
    key: Annotated[str, Argument(help="Whose promises; a pseudonym as it is, without the secret.")],
    ledger: LedgerFile,
    *,
    why: Annotated[str, "A reason to put on record. It cannot be erased: name nobody."] = "",
    secret: SecretFile = None,
) -> None:
    """Take everything that the ledger says of someone's promises out of the file; their place in the chain remains.

    Exports, backups, letters and certificates are not reached.
    """
    with Ledger(ledger, create=False, secret=read_secret(secret)) as book:
        erased = book.erase(key, why=why)
        say(f"{len(erased):,} promise{'' if len(erased) == 1 else 's'} erased")
