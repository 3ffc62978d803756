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
from holdfast.cli._help import Command, CommandGroup
from holdfast.cli._options import BROKEN, FILE, command
from holdfast.cli._screens import complain, say, show_table
from holdfast.errors import InvalidInputError
from holdfast.promises import Ledger
from holdfast.promises._ledger_read import overviews

app = typer.Typer(
    help="Record promises in a file that shows tampering, and read them.",
    cls=CommandGroup,
    no_args_is_help=True,
)

LedgerFile = Annotated[Path, FILE, "The ledger."]
# The secret itself is not an option: shells keep typed text and show it to others.
SECRET = "HOLDFAST_LEDGER_SECRET"
SecretFile = Annotated[
    Path | None,
    Option(
        "--secret-file",
        help=f"A file with the secret of the pseudonyms. [default: ${SECRET}]",
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


@app.command(cls=Command)
@command
def add(
    advised: Advised,
    ledger: Annotated[Path, {"dir_okay": False}, "The ledger; it is created if missing."],
    *,
    date: Annotated[str | None, "YYYY-MM-DD", "The date of the promises. [default: today]"] = None,
    no_radius: Annotated[bool, "Compute no certified radii."] = False,
    secret: SecretFile = None,
) -> None:
    """Record the promises in a file of advice: all of them, or none after an error.

    A promise that is recorded already (same key, date, terms, class and advice) is not repeated.

        $ holdfast ledger add recourse.csv --ledger promises.ledger --model model.npz \\
            --data people.csv --index id --target 1 --delta 0.02
    """
    recourse = advised.read_advice(advised.table)
    if not recourse.found.any() and not ledger.exists():
        say(f"No row has advice: there is no promise to record, and {ledger} is not created.")
        return
    with Ledger(ledger, secret=read_secret(secret)) as book:
        receipt = book.add(recourse, date=date, radius=not no_radius)
    say(f"{receipt.words}, {receipt.skipped:,} rows without advice skipped.")
    if receipt.repeated:
        say(f"{receipt.repeated:,} were recorded already.")
    say(f"{receipt.total:,} promises in {ledger}")
    say(
        "Keep the ledger's head elsewhere (`holdfast ledger head`). `ledger verify --head` then also finds entries "
        "that were cut off at the end."
    )


@app.command(cls=Command)
@command
def show(
    ledger: LedgerFile,
    *,
    key: Annotated[str | None, "Show the promises to this person."] = None,
    secret: SecretFile = None,
) -> None:
    """Count the promises by model and Δ, or show the promises to one person.

    $ holdfast ledger show --ledger promises.ledger --key 3
    """
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


@app.command(cls=Command)
@command
def head(ledger: LedgerFile) -> None:
    """Print the ledger's head: three lines to keep elsewhere, the body of a C2SP checkpoint.

    $ holdfast ledger head --ledger promises.ledger > head.txt
    """
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


@app.command(cls=Command)
@command
def verify(
    ledger: LedgerFile,
    *,
    head: Annotated[
        Path | None, FILE, "A kept head: the output of `ledger head`, or a signed note."
    ] = None,
    recheck: Annotated[
        str | None, "all|N", "Also certify promises again: all, or N drawn at random."
    ] = None,
) -> None:
    """Check that no entry was changed, moved or removed. Exit code 3 if one was.

    Only --head finds entries that were cut off at the end. Only --recheck shows that a promise was ever certified.

        $ holdfast ledger verify --ledger promises.ledger --head head.txt --recheck 50
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


@app.command(cls=Command)
@command
def export(
    ledger: LedgerFile,
    *,
    out: Annotated[Path, "The file to write: .csv, .csv.gz or .parquet."],
) -> None:
    """Write every promise to a table; the person's row and the advice are JSON in raw units.

    $ holdfast ledger export --ledger promises.ledger --out promises.csv
    """
    tables.check_output(out)
    with Ledger(ledger, create=False) as book:
        say(f"{book.export(out):,} promises: {out}")


@app.command(cls=Command)
@command
def erase(
    key: Annotated[str, Argument(help="The person's key; a pseudonym needs no secret.")],
    ledger: LedgerFile,
    *,
    why: Annotated[str, "The reason, which is recorded for good: name no person in it."] = "",
    secret: SecretFile = None,
) -> None:
    """Erase the contents of a person's promises; their places in the chain remain.

    Exports, backups, letters and certificates are not erased.

        $ holdfast ledger erase 3 --ledger promises.ledger --why "request of 2026-02-01"
    """
    with Ledger(ledger, create=False, secret=read_secret(secret)) as book:
        erased = book.erase(key, why=why)
        say(f"{len(erased):,} promise{'' if len(erased) == 1 else 's'} erased")
