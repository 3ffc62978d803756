"""The commands together.

Exit codes: 0 done, 1 an error nobody foresaw, 2 bad input or usage, 3 a row is not robust and ``--fail-if-broken`` was
given.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

import holdfast as hf
from holdfast.cli import _benchmark as benchmark
from holdfast.cli import _ledger as ledger
from holdfast.cli._audit import audit
from holdfast.cli._certificates import certificates, check
from holdfast.cli._certify import certify, radius
from holdfast.cli._datasets import datasets
from holdfast.cli._letters import letters
from holdfast.cli._measured import delta, risk
from holdfast.cli._options import command
from holdfast.cli._recourse import alternatives, explain, methods
from holdfast.cli._report import report
from holdfast.cli._schema import schema
from holdfast.cli._serve import serve

app = typer.Typer(
    name="holdfast",
    help="Recourse that survives retraining, with a proof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for function in (
    certify, radius, schema, delta, risk, explain, alternatives, methods, datasets, certificates, check, audit, letters,
    report, serve,
):  # fmt: skip
    app.command()(function)
app.add_typer(ledger.app, name="ledger")
app.add_typer(benchmark.app, name="benchmark")


@app.command()
@command
def demo(
    out: Annotated[Path, {"file_okay": False}, "The folder for picture and report."] = Path("out"),
    applicants: Annotated[
        int, {"min": 400}, "How many made-up applicants the model learns from."
    ] = 4000,
    promises: Annotated[int, {"min": 10}, "How many rejected applicants get advice."] = 200,
    delta: Annotated[
        float | None,
        "How far each parameter may move; calibrated by retraining if not given.",
    ] = None,
    seed: Annotated[int, "The same seed gives the same applicants and the same model."] = 7,
) -> None:
    """Loan applicants, the advice they were given, and how much of it survives retraining."""
    from holdfast.cli.demo import run_demo

    run_demo(out, applicants=applicants, promises=promises, delta=delta, seed=seed)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"holdfast {hf.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None:
    """Recourse that survives retraining, with a proof."""


def main() -> None:
    """Run the command ``holdfast``."""
    app()
