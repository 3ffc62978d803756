"""Options that several commands share, and what a command does with an error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import holdfast as hf
from holdfast.changes import Changes
from holdfast.classifier import Classifier
from holdfast.cli import screens
from holdfast.errors import InvalidInputError

BAD_INPUT = 2
BROKEN = 3

FILE = {"exists": True, "dir_okay": False, "readable": True}
ModelFile = Annotated[
    Path, typer.Option("--model", help="The classifier: .onnx, .skops, or a network saved by holdfast (.npz).", **FILE)
]
DataFile = Annotated[Path, typer.Option("--data", help="The points, one a row: .csv, .csv.gz or .parquet.", **FILE)]
Target = Annotated[str, typer.Option(help="The class that the points were promised.")]
Delta = Annotated[
    list[float] | None,
    typer.Option(help="How far each parameter may move; repeat it for one radius per layer. Or --margin."),
]
Margin = Annotated[
    float | None,
    typer.Option(help="In place of --delta, for any model: how far the margin may fall below today's, in logits."),
]
Norm = Annotated[float, typer.Option(metavar="inf|1|2", help="The p-norm in which delta is measured.")]
NoBiases = Annotated[bool, typer.Option("--no-biases", help="Only the weights move.")]
Index = Annotated[str | None, typer.Option(metavar="COLUMN", help="A key column, kept in the output.")]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out; may be repeated.")]
Out = Annotated[Path | None, typer.Option(help="Where the full result goes: .csv, .csv.gz or .parquet.")]
TrustPickle = Annotated[
    bool, typer.Option("--trust-pickle", help="Open a .pkl, .joblib or .pt file, which can run any code it holds.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]


def changes_of(
    delta: list[float] | None, norm: float = math.inf, no_biases: bool = False, margin: float | None = None
) -> Changes | None:
    """What may change, as the options describe it; None where they say nothing of it."""
    if margin is not None:
        beside = ["--delta"] * bool(delta) + ["--norm"] * (norm != math.inf) + ["--no-biases"] * no_biases
        if beside:
            raise InvalidInputError(f"--margin: expected neither --delta nor its options beside it, got {beside[0]}")
        return hf.PlausibleShift(margin)
    return hf.PlausibleChanges(tuple(delta) if len(delta) > 1 else delta[0], norm, not no_biases) if delta else None


def label_of(target: str, classifier: Classifier) -> object:
    """The model's own label that `target` spells, so that 1 means 1, 1.0 or "1", whichever the model has."""
    for label in classifier.classes.tolist():
        if str(label) == target:
            return label
    for label in classifier.classes.tolist():
        if isinstance(label, int | float) and _number(target) == label:
            return label
    return classifier.classes[classifier.class_index(target)]


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
