"""Options that several commands share, and what a command does with an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import holdfast as hf
from holdfast.classifier import Classifier
from holdfast.cli import screens

BAD_INPUT = 2
BROKEN = 3

FILE = {"exists": True, "dir_okay": False, "readable": True}
ModelFile = Annotated[
    Path, typer.Option("--model", help="The classifier: .onnx, .skops, or a network saved by holdfast (.npz).", **FILE)
]
DataFile = Annotated[Path, typer.Option("--data", help="The points, one a row: .csv, .csv.gz or .parquet.", **FILE)]
Target = Annotated[str, typer.Option(help="The class that the points were promised.")]
Norm = Annotated[float, typer.Option(metavar="inf|1|2", help="The p-norm in which delta is measured.")]
NoBiases = Annotated[bool, typer.Option("--no-biases", help="Only the weights move.")]
Index = Annotated[str | None, typer.Option(metavar="COLUMN", help="A key column, kept in the output.")]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out; may be repeated.")]
Out = Annotated[Path | None, typer.Option(help="Where the full result goes: .csv, .csv.gz or .parquet.")]
TrustPickle = Annotated[
    bool, typer.Option("--trust-pickle", help="Open a .pkl, .joblib or .pt file, which can run any code it holds.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]


def changes_of(delta: list[float], norm: float, no_biases: bool) -> hf.PlausibleChanges:
    """Δ as the options describe it."""
    return hf.PlausibleChanges(tuple(delta) if len(delta) > 1 else delta[0], norm, not no_biases)


def label_of(target: str, network: Classifier) -> object:
    """The model's own label that `target` spells, so that 1 means 1, 1.0 or "1", whichever the model has."""
    for label in network.classes.tolist():
        if str(label) == target:
            return label
    for label in network.classes.tolist():
        if isinstance(label, int | float) and _number(target) == label:
            return label
    return network.classes[network.class_index(target)]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@contextmanager
def plain_errors(debug: bool) -> Iterator[None]:
    """What a user can mend is one line on stderr; a traceback is for what nobody foresaw, or on request."""
    try:
        yield
    except hf.HoldfastError as error:
        if debug:
            raise
        screens.complain(str(error))
        raise typer.Exit(BAD_INPUT) from None
