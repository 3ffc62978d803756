"""The command ``letters``: advice in a file, as a letter to each person."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape

import holdfast as hf
from holdfast.cli import tables
from holdfast.cli.options import (
    FILE,
    DataFile,
    Debug,
    Drop,
    Index,
    ModelFile,
    NoBiases,
    Norm,
    TrustPickle,
    changes_of,
    label_of,
    plain_errors,
)
from holdfast.cli.recourse import read_schema
from holdfast.errors import InvalidInputError
from holdfast.generators.stated import recourse_from
from holdfast.importers import Model
from holdfast.importers.files import read_model

FOLDER = {"exists": True, "file_okay": False, "readable": True}


def _write_templates(folder: Path | None) -> None:
    """``--write-templates`` copies our templates and ends the command, whatever else was given."""
    if folder is None:
        return
    from holdfast.letters import write_templates

    with plain_errors(debug=False):
        for path in write_templates(folder):
            typer.echo(path)
    raise typer.Exit


def letters(
    recourse: Annotated[
        Path, typer.Argument(help="What `holdfast explain --out` wrote: .csv, .csv.gz or .parquet.", **FILE)
    ],
    model: ModelFile,
    data: DataFile,
    target: Annotated[str, typer.Option(help="The class that the people were promised.")],
    out: Annotated[Path, typer.Option(help="A new or empty folder for the letters and their manifest.csv.")],
    schema: Annotated[
        Path | None,
        typer.Option(help="The columns and units, as for `explain`: FeatureSpace.to_dict() as JSON.", **FILE),
    ] = None,
    delta: Annotated[
        list[float] | None,
        typer.Option(help="How far each parameter may move; repeat it for one radius per layer. None: no guarantees."),
    ] = None,
    norm: Norm = math.inf,
    no_biases: NoBiases = False,
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
    subject: Annotated[str | None, typer.Option(help='What about: "your loan application".')] = None,
    name: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of --data with people's names.")
    ] = None,
    date: Annotated[str | None, typer.Option(help="The letters' date, 2026-11-16; today if not given.")] = None,
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
    from holdfast.letters import write_letters

    with plain_errors(debug):
        if until is not None and history:
            raise InvalidInputError("--until: expected a date or --history, got both")
        classifier = read_model(model, trust_pickle=trust_pickle)
        space, label_column = (None, None) if schema is None else read_schema(schema)
        people = tables.read_table(data, index=index, drop=drop or [])
        if label_column in people.columns:
            people = people.drop(columns=str(label_column))
        names = None if name is None else _names(people, name, data)
        if space is None and name is not None:
            people = people.drop(columns=name)
        told = _read_advice(
            recourse, classifier, space, people, data, index or "row", label_of(target, classifier.network),
            changes_of(delta, norm, no_biases) if delta else None,
        )  # fmt: skip
        expiry = None
        if history:
            earlier = [read_model(path, trust_pickle=trust_pickle) for path in history]
            expiry = hf.promise_expiry(
                _radii(told), [old.network for old in (*earlier, classifier)], confidence=confidence, period=period,
                norm=norm,
            )  # fmt: skip
        manifest = write_letters(
            told, out, names=names, sender=None if sender is None else sender.replace("\\n", "\n"), subject=subject,
            date=date, until=until, expiry=expiry, language=language, templates=templates,
            certified=not no_certificates,
        )  # fmt: skip
        _show(manifest, out)


def _show(manifest: pd.DataFrame, out: Path) -> None:
    console = Console(highlight=False)
    count = manifest["outcome"].value_counts()
    written = int((manifest["file"] != "").sum())
    console.print(
        f"{written:,} letters: {count.get('guaranteed', 0):,} with a guarantee, "
        f"{count.get('not_guaranteed', 0):,} with advice that is not guaranteed, {count.get('no_answer', 0):,} without "
        "advice.",
        soft_wrap=True,
    )
    if count.get("already_accepted", 0):
        console.print(f"{count['already_accepted']:,} people have the class already and get none.")
    console.print(f"letters and manifest.csv: {escape(str(out))}", soft_wrap=True)


def _names(people: pd.DataFrame, column: str, data: Path) -> dict[str, object]:
    if column not in people.columns:
        raise InvalidInputError(f"{data}: expected a column {column!r} for --name, got {list(people.columns)}")
    return {str(key): value for key, value in people[column].items()}


def _read_advice(
    path: Path,
    classifier: Model,
    space: hf.FeatureSpace | None,
    people: pd.DataFrame,
    data: Path,
    index: str,
    label: object,
    changes: hf.PlausibleChanges | None,
) -> hf.Recourse:
    """The advice in a file with the people it is for; costs and verdicts are computed anew."""
    advice = tables.read_table(path, index=index)
    factuals = tables.rows_by_key(people, advice, data, index, "the recourse")
    missing = [column for column in factuals.columns if column not in advice.columns]
    if space is None and missing:
        raise InvalidInputError(f"{path}: expected the column {missing[0]!r}, got {list(advice.columns)}")
    found = advice.get("recourse_found", advice.get("found"))
    stated = advice[[column for column in advice.columns if column in factuals.columns]]
    if found is not None:
        stated = stated.where(np.broadcast_to(found.to_numpy(dtype=np.bool_)[:, None], stated.shape))
    return recourse_from(
        classifier, factuals, stated, target=label, changes=changes, space=space,
        reasons=advice.get("recourse_reason", advice.get("reason")),
    )  # fmt: skip


def _radii(told: hf.Recourse) -> np.ndarray:
    """The certified radius of what is guaranteed, 0 for everything else."""
    radii, rows = np.zeros(len(told)), np.flatnonzero(told.robust)
    if rows.size and told.changes is not None:
        labels = told.network.classes[told.targets[rows]]
        radii[rows] = hf.certified_radius(told.network, told.points[rows], labels, norm=told.changes.norm).lower
    return radii
