"""The commands together.

Exit codes: 0 done, 1 an unforeseen error, 2 bad input or usage, 3 a broken promise, a rejected certificate or, with
``--fail-if-broken``, a row that is not robust.
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
from holdfast.cli._help import Command, CommandGroup
from holdfast.cli._init import init
from holdfast.cli._letters import letters
from holdfast.cli._measured import delta, risk
from holdfast.cli._options import FILE, command
from holdfast.cli._recourse import alternatives, explain, methods
from holdfast.cli._report import report
from holdfast.cli._schema import schema
from holdfast.cli._serve import serve


@command
def demo(
    out: Annotated[Path, {"file_okay": False}, "The folder for the picture and the report."] = Path(
        "out"
    ),
    applicants: Annotated[
        int, {"min": 400}, "Made-up applicants that the model learns from."
    ] = 4000,
    promises: Annotated[int, {"min": 10}, "Rejected applicants who get advice."] = 200,
    delta: Annotated[
        float | None, "How far each parameter may move. Without it: measured by retraining."
    ] = None,
    seed: Annotated[int, "The same seed gives the same applicants and model."] = 7,
) -> None:
    """Show on made-up loan applicants how much advice survives retraining.

    $ holdfast demo --out out
    """
    from holdfast.cli.demo import run_demo

    run_demo(out, applicants=applicants, promises=promises, delta=delta, seed=seed)


app = typer.Typer(
    name="holdfast",
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for function in (
    schema, explain, letters, report, audit, check, init, delta, risk, certify, radius, alternatives, certificates,
    methods, serve, datasets, demo,
):  # fmt: skip
    app.command(cls=Command)(function)
app.add_typer(ledger.app, name="ledger")
app.add_typer(benchmark.app, name="benchmark")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"holdfast {hf.__version__}")
        raise typer.Exit


@app.callback()
def options(
    config: Annotated[
        Path | None,
        Option(metavar="FILE", help="Read this project file instead of holdfast.toml.", **FILE),
    ] = None,
    no_config: Annotated[bool, Option("--no-config", help="Read no project file.")] = False,
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None:
    """Recourse that survives retraining, with a proof.

    Start with `holdfast init`: it writes holdfast.toml, and the other commands then need few options. `holdfast COMMAND
    --help` explains a command.
    """


def main() -> None:
    """Run the command ``holdfast``."""
    app()
