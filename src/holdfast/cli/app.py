"""The commands and their options.

Exit codes: 0 done, 1 an error nobody foresaw, 2 bad input or usage, 3 a row is not robust and ``--fail-if-broken`` was
given.
"""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

import holdfast as hf
from holdfast.changes import Changes
from holdfast.cli import (
    audit,
    benchmark,
    certificates,
    check,
    datasets,
    delta,
    ledger,
    letters,
    recourse,
    report,
    risk,
    schema,
    screens,
    tables,
)
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
    Out,
    Schema,
    Target,
    TrustPickle,
    label_of,
    plain_errors,
    spread,
)
from holdfast.files import write_table
from holdfast.importers import Model
from holdfast.importers.files import read_model

app = typer.Typer(
    name="holdfast",
    help="Recourse that survives retraining, with a proof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Method(StrEnum):
    """How `certify` decides."""

    joint = "joint"
    separate = "separate"
    interval = "interval"


@app.command()
@spread
def certify(
    model: ModelFile,
    data: DataFile,
    target: Target,
    may: MayChange,
    deciding: Deciding,
    *,
    schema: Schema = None,
    factuals: Annotated[
        Path | None,
        typer.Option(help="The rows that the points explain: also ask whether Δ keeps their class.", **FILE),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Rows undecided by then are UNKNOWN.")
    ] = None,
    method: Annotated[
        Method, typer.Option(help="joint is exact; separate ranges and interval bounds are weaker, to compare.")
    ] = Method.joint,
    index: Index = None,
    drop: Drop = None,
    out: Out = None,
    trust_pickle: TrustPickle = False,
    fail_if_broken: Annotated[
        bool, typer.Option("--fail-if-broken", help="Exit with 3 unless every row is ROBUST; UNKNOWN is not ROBUST.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Does each point keep its class under every model within delta of this one, or under a lower margin?"""
    with plain_errors(debug):
        tables.check_output(out)
        changes = may.needed()
        classifier = deciding.at(read_model(model, trust_pickle=trust_pickle))
        space, frame = _points(data, classifier, schema, index, drop)
        before = None
        if factuals is not None:
            before = tables.read_factuals(factuals, frame, index=index, drop=drop or (), space=space)
            before = tables.own_columns(before, classifier, factuals, space)
        started = time.perf_counter()
        certificates = hf.certify(
            classifier,
            frame,
            label_of(target, classifier.classifier),
            changes,
            space=space,
            factuals=before,
            time_limit=time_limit,
            method=method.value,
        )
        seconds = time.perf_counter() - started
        result = certificates.to_frame()
        if out is not None:
            write_table(result, out)
        screens.show_certificates(result, target=target, changes=changes, seconds=seconds, out=out)
    if fail_if_broken and not result["robust"].all():
        screens.complain(f"{int((~result['robust']).sum())} of {len(result)} rows are not ROBUST (--fail-if-broken)")
        raise typer.Exit(BROKEN)


@app.command()
@spread
def radius(
    model: ModelFile,
    data: DataFile,
    target: Target,
    may: MayChange,
    deciding: Deciding,
    *,
    schema: Schema = None,
    index: Index = None,
    drop: Drop = None,
    out: Out = None,
    trust_pickle: TrustPickle = False,
    debug: Debug = False,
) -> None:
    """How far may the model move, or its margin fall, before each point loses its class?

    With --delta, --margin or --changes it is measured in that way, and one also sees how many rows allow as much.
    """
    with plain_errors(debug):
        tables.check_output(out)
        asked = may.read()
        changes: Changes = hf.PlausibleChanges(1.0, may.norm, not may.no_biases) if asked is None else asked
        classifier = deciding.at(read_model(model, trust_pickle=trust_pickle))
        space, frame = _points(data, classifier, schema, index, drop)
        started = time.perf_counter()
        label = label_of(target, classifier.classifier)
        radii = hf.certified_radius(classifier, frame, label, space=space, changes=changes)
        seconds = time.perf_counter() - started
        result = radii.to_frame()
        if out is not None:
            write_table(result, out)
        size = None if asked is None else asked.size
        screens.show_radii(result, target=target, changes=changes, size=size, seconds=seconds, out=out)


def _points(
    data: Path, classifier: Model, schema: Path | None, index: str | None, drop: list[str] | None
) -> tuple[hf.FeatureSpace | None, pd.DataFrame]:
    """The points, in raw units where a schema says how the model reads them; of advice, those that there are."""
    space, frame = recourse.read_people(data, schema, index, drop)
    return space, tables.own_columns(tables.answered(frame), classifier, data, space)


for command in (
    schema.schema, delta.delta, risk.risk, recourse.explain, recourse.alternatives, recourse.methods, datasets.datasets,
    certificates.certificates, check.check, audit.audit, letters.letters, report.report,
):  # fmt: skip
    app.command()(command)
app.add_typer(ledger.app, name="ledger")
app.add_typer(benchmark.app, name="benchmark")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(file_okay=False, help="The folder for picture and report.")] = Path("out"),
    applicants: Annotated[int, typer.Option(min=400, help="How many made-up applicants the model learns from.")] = 4000,
    promises: Annotated[int, typer.Option(min=10, help="How many rejected applicants get advice.")] = 200,
    delta: Annotated[
        float | None, typer.Option(help="How far each parameter may move; calibrated by retraining if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same applicants and the same model.")] = 7,
    debug: Debug = False,
) -> None:
    """Loan applicants, the advice they were given, and how much of it survives retraining."""
    from holdfast.cli.demo import run_demo

    with plain_errors(debug):
        run_demo(out, applicants=applicants, promises=promises, delta=delta, seed=seed)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=lambda asked: _version(asked), help="Show the version.")
    ] = False,
) -> None:
    """Recourse that survives retraining, with a proof."""


def main() -> None:
    """Run the command ``holdfast``."""
    app()


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"holdfast {hf.__version__}")
        raise typer.Exit
