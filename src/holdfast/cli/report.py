"""The command ``report``: advice in a file, as one page on what was promised and how sure it is."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape

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
    named,
    plain_errors,
    spread,
)
from holdfast.cli.recourse import read_people
from holdfast.errors import InvalidInputError
from holdfast.files import check_place
from holdfast.importers.files import read_model


@spread
def report(
    recourse: AdviceFile,
    model: ModelFile,
    data: DataFile,
    target: Promised,
    out: Annotated[Path, typer.Option(help="Where the page goes: one HTML file that needs nothing else.")],
    may: MayChange,
    deciding: Deciding,
    *,
    schema: Schema = None,
    name: Annotated[str | None, typer.Option(help="What the method is called that gave the advice.")] = None,
    outcome: Annotated[
        str | None, typer.Option(help='What the promised class gives people, in words: "a loan".')
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="Another method's advice for the same people; may be repeated."),
    ] = None,
    calibrated: Annotated[
        float | None, typer.Option(metavar="DELTA", help="The delta that retraining was measured to stay within.")
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column of the data to compare people by; may be repeated."),
    ] = None,
    no_radius: Annotated[
        bool, typer.Option("--no-radius", help="Do not compute certified radii, which takes long for large models.")
    ] = False,
    accepted: Accepted = None,
    retrained: Annotated[
        list[Path] | None,
        typer.Option(help="A model retrained in fact, to say whether it keeps the promises; may be repeated.", **FILE),
    ] = None,
    certificates: Annotated[
        Path | None,
        typer.Option(help="The promises' certificates, a folder or .jsonl: the page quotes ids.", exists=True),
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="The promises' ledger: the page states its head.", **FILE)] = None,
    letters: Annotated[
        Path | None, typer.Option(help="What `holdfast letters` wrote: the page leads to them.", exists=True)
    ] = None,
    title: Annotated[str | None, typer.Option(help="The page's heading.")] = None,
    date: Annotated[str | None, typer.Option(help="When it was written, 2026-11-16; today if not given.")] = None,
    index: Index = None,
    drop: Drop = None,
    trust_pickle: TrustPickle = False,
    debug: Debug = False,
) -> None:
    """What was promised and how sure it is, as one page; the advice is certified anew."""
    import holdfast as hf
    from holdfast.promises import Ledger

    with plain_errors(debug):
        check_place(out)
        started = time.perf_counter()
        others = [_named_file(text) for text in compare or []]
        classifier = deciding.at(read_model(model, trust_pickle=trust_pickle))
        space, people = read_people(data, schema, index, drop)
        groups = {column: tables.column_of(people, column, data, "--group") for column in group or []}
        if space is None and classifier.preprocess is None:
            people = _without_groups(people, groups, classifier.classifier.n_features)
        reader = AdviceReader(
            classifier, space, people, data, index or "row", label_of(target, classifier.classifier),
            may.read(),
        )  # fmt: skip
        told = reader.read(recourse)
        aligned = {
            column: tables.rows_by_key(values.to_frame(), told.factuals, data, index or "row", "the recourse")[column]
            for column, values in groups.items()
        }
        book = None if ledger is None else Ledger(ledger, create=False)
        written = hf.report(
            told, out, accepted=None if accepted is None else tables.read_table(accepted, space=space), ledger=book,
            certificates=certificates, letters=letters,
            retrained=(read_model(path, trust_pickle=trust_pickle) for path in retrained or ()),
            title=title, name=name, outcome=outcome, calibrated=calibrated, groups=aligned, date=date,
            others={name: reader.read(path, told) for name, path in others}, radii=not no_radius,
        )  # fmt: skip
        console = Console(highlight=False)
        console.print(f"{len(told):,} people, {int(told.found.sum()):,} with advice.")
        if told.changes is not None:
            held = f"{int(told.robust.sum()):,} of these promises hold under {told.changes.every_model}."
            console.print(escape(held), soft_wrap=True)
        console.print(
            f"report: {escape(str(written))} ({written.stat().st_size / 1e6:.2g} MB, "
            f"{time.perf_counter() - started:.1f} s)",
            soft_wrap=True,
        )


def _without_groups(people: pd.DataFrame, groups: Iterable[str], features: int) -> pd.DataFrame:
    """Where every column is one of the model's, those that only name groups are none of them."""
    return people.drop(columns=list(groups)) if len(people.columns) > features else people


def _named_file(text: str) -> tuple[str, Path]:
    name, path = named(text, "--compare NAME=FILE")
    if not Path(path).is_file():
        raise InvalidInputError(f"--compare: expected a file, got {path!r}, which is not there")
    return name, Path(path)
