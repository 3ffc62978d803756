"""The command ``letters``: advice in a file, as a letter to each person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape

import holdfast as hf
from holdfast.cli import tables
from holdfast.cli.advice import Accepted, AdviceFile, AdviceReader, Promised
from holdfast.cli.options import (
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
from holdfast.cli.recourse import read_people
from holdfast.errors import InvalidInputError
from holdfast.importers.files import read_model

FOLDER = {"exists": True, "file_okay": False, "readable": True}


def _write_templates(folder: Path | None) -> None:
    """``--write-templates`` copies our templates and ends the command, whatever else was given."""
    if folder is None:
        return
    from holdfast.presentation.letters import write_templates

    with plain_errors(debug=False):
        for path in write_templates(folder):
            typer.echo(path)
    raise typer.Exit


@spread
def letters(
    recourse: AdviceFile,
    model: ModelFile,
    data: DataFile,
    target: Promised,
    out: Annotated[Path, typer.Option(help="A new or empty folder for the letters and their manifest.csv.")],
    may: MayChange,
    deciding: Deciding,
    *,
    schema: Schema = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="Until when you commit to what is guaranteed: 2027-01-31.")
    ] = None,
    history: Annotated[
        list[Path] | None,
        typer.Option(
            help="A model that was in use before --model, the oldest first; repeat it. The letters then say through "
            "how many retrainings a guarantee lasts.",
            **FILE,
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="With --history: how sure that is to be.")] = 0.95,
    period: Annotated[
        str, typer.Option(metavar="day|week|month|quarter|year", help="With --history: how often it is retrained.")
    ] = "month",
    language: Annotated[str, typer.Option(help="en, de, or one that --templates has.")] = "en",
    templates: Annotated[
        Path | None, typer.Option(help="A folder with templates of your own, see --write-templates.", **FOLDER)
    ] = None,
    sender: Annotated[str | None, typer.Option(help="Who writes; \\n begins a new line.")] = None,
    subject: Annotated[
        str | None, typer.Option(help='What about: "your loan application"; in German "Ihren Kreditantrag".')
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of --data with people's names.")
    ] = None,
    date: Annotated[str | None, typer.Option(help="The letters' date, 2026-11-16; today if not given.")] = None,
    accepted: Accepted = None,
    no_certificates: Annotated[
        bool, typer.Option("--no-certificates", help="Do not make a certificate for each guarantee and quote its id.")
    ] = False,
    write_templates: Annotated[
        Path | None,
        typer.Option(
            callback=_write_templates, is_eager=True, metavar="DIR", help="Copy our templates to a folder, and stop."
        ),
    ] = None,
    index: Index = None,
    drop: Drop = None,
    trust_pickle: TrustPickle = False,
    debug: Debug = False,
) -> None:
    """A letter to each person on what was decided and what to change; the advice is certified anew."""
    with plain_errors(debug):
        if until is not None and history:
            raise InvalidInputError("--until: expected a date or --history, got both")
        changes = may.read()
        if history and not isinstance(changes, hf.PlausibleChanges | None):
            raise InvalidInputError(
                f"--history: expected --delta beside it, because it says how far models move, got {changes.words}"
            )
        classifier = deciding.at(read_model(model, trust_pickle=trust_pickle))
        space, people = read_people(data, schema, index, drop)
        names = None
        if name is not None:
            names = {str(key): value for key, value in tables.column_of(people, name, data, "--name").items()}
            people = people if space is not None else people.drop(columns=name)
        told = AdviceReader(
            classifier, space, people, data, index or "row", label_of(target, classifier.classifier),
            changes,
        ).read(recourse)  # fmt: skip
        expiry = None
        if history:
            earlier = [read_model(path, trust_pickle=trust_pickle) for path in history]
            radii = _radii(told, [past.network for past in earlier])
            expiry = hf.promise_expiry(
                radii, [*earlier, classifier], confidence=confidence, period=period, norm=may.norm
            )
        manifest = hf.letters(
            told, out, names=names, sender=None if sender is None else sender.replace("\\n", "\n"), subject=subject,
            date=date, until=until, expiry=expiry, language=language, templates=templates,
            certified=not no_certificates,
            accepted=None if accepted is None else tables.read_table(accepted, space=space),
        )  # fmt: skip
        _show(manifest, out)


def _show(manifest: pd.DataFrame, out: Path) -> None:
    console = Console(highlight=False)
    count = manifest["outcome"].value_counts()
    written = int((manifest["file"] != "").sum())
    kinds = {
        "guaranteed": "with a guarantee", "chance": "with a chance",
        "not_guaranteed": "with advice that is not guaranteed", "no_answer": "without advice",
    }  # fmt: skip
    listed = ", ".join(f"{count.get(outcome, 0):,} {words}" for outcome, words in kinds.items())
    console.print(f"{written:,} letters: {listed}.", soft_wrap=True)
    if count.get("already_accepted", 0):
        console.print(f"{count['already_accepted']:,} people have the class already and get none.")
    console.print(f"letters and manifest.csv: {escape(str(out))}", soft_wrap=True)


def _radii(told: hf.Recourse, earlier: Sequence[hf.Network]) -> np.ndarray:
    """The certified radius of what is guaranteed, 0 for everything else.

    Where retrainings have moved the biases, it lets them move, even if Δ does not: it is held against those moves.
    """
    radii, rows = np.zeros(len(told)), np.flatnonzero(told.robust)
    if rows.size and isinstance(told.changes, hf.PlausibleChanges):
        moved = any(not all(map(np.array_equal, past.biases, told.network.biases)) for past in earlier)
        changes = replace(told.changes, biases=told.changes.biases or moved)
        radii[rows] = replace(told, changes=changes).radii.measured[rows]
    return radii
