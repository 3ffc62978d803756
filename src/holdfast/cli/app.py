"""The commands and their options.

Exit codes: 0 done, 1 an error nobody foresaw, 2 bad input or usage, 3 a row is not robust and ``--fail-if-broken`` was
given.
"""

from __future__ import annotations

import math
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

import holdfast as hf
from holdfast.cli import audit, benchmark, check, datasets, ledger, letters, recourse, report, screens, tables
from holdfast.cli.advice import Schema
from holdfast.cli.options import (
    BROKEN,
    FILE,
    DataFile,
    Debug,
    Delta,
    Drop,
    Index,
    Margin,
    ModelFile,
    NoBiases,
    Norm,
    Out,
    Target,
    TrustPickle,
    changes_of,
    label_of,
    plain_errors,
)
from holdfast.errors import InvalidInputError
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
def certify(
    model: ModelFile,
    data: DataFile,
    target: Target,
    delta: Delta = None,
    margin: Margin = None,
    schema: Schema = None,
    norm: Norm = math.inf,
    no_biases: NoBiases = False,
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
        changes = changes_of(delta, norm, no_biases, margin)
        if changes is None:
            raise InvalidInputError("expected --delta or --margin, got neither")
        classifier = read_model(model, trust_pickle=trust_pickle)
        space, frame = _points(data, classifier, schema, index, drop)
        before = None
        if factuals is not None:
            before = tables.read_factuals(factuals, frame, index=index, drop=drop or (), space=space)
            if space is None:
                tables.check_columns(before, classifier, factuals)
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
            tables.write_table(result, out)
        screens.show_certificates(result, target=target, changes=changes, seconds=seconds, out=out)
    if fail_if_broken and not result["robust"].all():
        screens.complain(f"{int((~result['robust']).sum())} of {len(result)} rows are not ROBUST (--fail-if-broken)")
        raise typer.Exit(BROKEN)


@app.command()
def radius(
    model: ModelFile,
    data: DataFile,
    target: Target,
    schema: Schema = None,
    margin: Annotated[
        float | None,
        typer.Option(help="For any model: how far the margin may fall instead, and how many rows allow this much."),
    ] = None,
    norm: Norm = math.inf,
    index: Index = None,
    drop: Drop = None,
    out: Out = None,
    trust_pickle: TrustPickle = False,
    debug: Debug = False,
) -> None:
    """How far may the model move, or its margin fall, before each point loses its class?"""
    with plain_errors(debug):
        tables.check_output(out)
        changes = changes_of(None, norm, margin=margin)
        classifier = read_model(model, trust_pickle=trust_pickle)
        space, frame = _points(data, classifier, schema, index, drop)
        started = time.perf_counter()
        label = label_of(target, classifier.classifier)
        radii = hf.certified_radius(classifier, frame, label, norm=norm, space=space, changes=changes)
        seconds = time.perf_counter() - started
        result = screens.radius_frame(radii.lower, radii.upper, frame.index)
        if out is not None:
            tables.write_table(result, out)
        screens.show_radii(result, target=target, norm=norm, margin=margin, seconds=seconds, out=out)


def _points(
    data: Path, classifier: Model, schema: Path | None, index: str | None, drop: list[str] | None
) -> tuple[hf.FeatureSpace | None, pd.DataFrame]:
    """The points, in raw units where a schema says how the model reads them."""
    space, frame = recourse.read_people(data, schema, index, drop)
    if space is None:
        tables.check_columns(frame, classifier, data)
    return space, frame


app.command()(recourse.explain)
app.command()(recourse.methods)
app.command()(datasets.datasets)
app.command()(check.check)
app.add_typer(ledger.app, name="ledger")
app.command()(audit.audit)
app.command()(letters.letters)
app.command()(report.report)
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
