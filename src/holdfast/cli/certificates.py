"""The command ``certificates``: the proof of each promise in a file of its own, which anybody can check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from holdfast.cli import tables
from holdfast.cli.advice import AdviceFile, AdviceReader, Promised
from holdfast.cli.options import (
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
from holdfast.cli.screens import shares
from holdfast.files import write_table
from holdfast.importers.files import read_model
from holdfast.promises.certificate import write_certificates, write_parameters


@spread
def certificates(
    recourse: AdviceFile,
    model: ModelFile,
    data: DataFile,
    target: Promised,
    out: Annotated[Path, typer.Option(help="A folder, for a file each, or one file of lines: promises.jsonl.")],
    may: MayChange,
    deciding: Deciding,
    *,
    schema: Schema = None,
    table: Annotated[
        Path | None, typer.Option(help="Where each person's verdict and certificate id go: .csv, .csv.gz or .parquet.")
    ] = None,
    parameters: Annotated[
        Path | None, typer.Option(help="Where the model's parameters go, as JSON: what the checker reads on its own.")
    ] = None,
    index: Index = None,
    drop: Drop = None,
    trust_pickle: TrustPickle = False,
    debug: Debug = False,
) -> None:
    """A certificate for each promise that `explain` made, which `holdfast check` checks without trusting anyone."""
    with plain_errors(debug):
        tables.check_output(table)
        tables.check_output(parameters, table=False)
        changes = may.needed()
        classifier = deciding.at(read_model(model, trust_pickle=trust_pickle))
        space, people = read_people(data, schema, index, drop)
        label = label_of(target, classifier.classifier)
        told = AdviceReader(classifier, space, people, data, index or "row", label, changes).read(recourse)
        if parameters is not None:
            write_parameters(classifier, parameters)
        written = write_certificates(told, out)
        if table is not None:
            write_table(written.rename_axis(index or "row"), table)
        console = Console(highlight=False)
        console.print(f"{written['certificate'].notna().sum():,} certificates for {len(written):,} people.")
        without = written["reason"][written["certificate"].isna()]
        if len(without):
            console.print(shares(without.str.replace(r"^row \d+: ", "", regex=True), "no certificate because"))
        for path in (out, table, parameters):
            if path is not None:
                console.print(f"written: {escape(str(path))}", soft_wrap=True)
