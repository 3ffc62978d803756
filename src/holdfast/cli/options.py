"""Options that several commands share, and what a command does with an error."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

import holdfast as hf
from holdfast.changes import Changes, changes_from_dict
from holdfast.classifier import Classifier
from holdfast.cli import screens
from holdfast.cli.wording import in_options
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.files import read_json
from holdfast.importers import Model

BAD_INPUT = 2
BROKEN = 3

FILE = {"exists": True, "dir_okay": False, "readable": True}
MODELS = ".onnx, .skops, a network saved by holdfast (.npz), or with --trust-pickle a pickle."
ModelFile = Annotated[Path, typer.Option("--model", help=f"The classifier: {MODELS}", **FILE)]
DataFile = Annotated[Path, typer.Option("--data", help="The points, one a row: .csv, .csv.gz or .parquet.", **FILE)]
Target = Annotated[str, typer.Option(help="The class that the points were promised.")]
Schema = Annotated[
    Path | None,
    typer.Option(
        help="How the model reads columns, and what a person can change: what `holdfast schema` wrote, or "
        "FeatureSpace.to_dict() as JSON.",
        **FILE,
    ),
]
Norm = Annotated[float, typer.Option(metavar="inf|1|2", help="The p-norm in which delta is measured.")]
Index = Annotated[str | None, typer.Option(metavar="COLUMN", help="A key column, kept in the output.")]
Drop = Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out; may be repeated.")]
Out = Annotated[Path | None, typer.Option(help="Where the full result goes: .csv, .csv.gz or .parquet.")]
TrustPickle = Annotated[
    bool, typer.Option("--trust-pickle", help="Open a .pkl, .joblib or .pt file, which can run any code it holds.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]


@dataclass(frozen=True, kw_only=True)
class MayChange:
    """What may become of the model."""

    delta: Annotated[
        list[float] | None,
        typer.Option(help="How far each parameter may move; repeat it for one a layer. Or --margin or --changes."),
    ] = None
    margin: Annotated[
        float | None,
        typer.Option(help="In place of --delta, for any model: how far the margin may fall below today's, in logits."),
    ] = None
    changes: Annotated[
        Path | None, typer.Option("--changes", help="In place of --delta: what `holdfast delta --out` wrote.", **FILE)
    ] = None
    norm: Norm = math.inf
    no_biases: Annotated[bool, typer.Option("--no-biases", help="Only the weights move.")] = False
    threshold_range: Annotated[
        str | None, typer.Option(metavar="LOW:HIGH", help="Between which probabilities the threshold may move, too.")
    ] = None

    def read(self) -> Changes | None:
        """What the options describe; None where they say nothing of it."""
        found = self._read()
        if self.threshold_range is None:
            return found
        if found is None:
            raise InvalidInputError("--threshold-range: expected --delta, --margin or --changes beside it, got none")
        form = "--threshold-range LOW:HIGH"
        return found.moving(tuple(_number(end, "--threshold-range") for end in _ends(self.threshold_range, form)))

    def _read(self) -> Changes | None:
        alone = "--changes" if self.changes is not None else "--margin" if self.margin is not None else ""
        beside = ["--delta"] * bool(self.delta) + ["--margin"] * (alone == "--changes" and self.margin is not None)
        beside += ["--norm"] * (self.norm != math.inf) + ["--no-biases"] * self.no_biases
        if alone and beside:
            raise InvalidInputError(f"{alone}: expected neither --delta nor its options beside it, got {beside[0]}")
        if self.changes is not None:
            document = read_json(self.changes)
            if not isinstance(document, dict):
                raise FileFormatError(
                    f"{self.changes}: expected what `holdfast delta --out` wrote, got {document!r:.40}"
                )
            try:
                return changes_from_dict(document)
            except (KeyError, TypeError, AttributeError) as error:
                raise FileFormatError(f"{self.changes}: expected plausible changes, got no {error}") from error
        if self.margin is not None:
            return hf.PlausibleShift(self.margin)
        if not self.delta:
            return None
        radii = tuple(self.delta) if len(self.delta) > 1 else self.delta[0]
        return hf.PlausibleChanges(radii, self.norm, not self.no_biases)

    def needed(self) -> Changes:
        """The same, where a command cannot do without."""
        changes = self.read()
        if changes is None:
            raise InvalidInputError("expected --delta or --margin, got neither (nor --changes)")
        return changes


@dataclass(frozen=True, kw_only=True)
class Deciding:
    """From which probability on the model's user says yes."""

    threshold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROBABILITY",
            help="Class 1 from this probability on; of several classes CLASS=PROBABILITY for each, repeated. "
            "By default as the model itself predicts.",
        ),
    ] = None

    def at(self, model: Model) -> Model:
        """The model that decides so."""
        if not self.threshold:
            return model
        if len(self.threshold) == 1 and "=" not in self.threshold[0]:
            return model.at(_number(self.threshold[0], "--threshold"))
        pairs = _pairs(self.threshold, "--threshold CLASS=PROBABILITY")
        return model.at({label_of(name, model.classifier): _number(text, "--threshold") for name, text in pairs})


def _column(text: str, metavar: str = "COLUMN") -> Any:
    return typer.Option(metavar=metavar, help=f"{text}; may be repeated.")


Columns = list[str] | None


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """What a person can change, on top of what a schema says."""

    immutable: Annotated[Columns, _column("A column that cannot change")] = None
    increasing: Annotated[Columns, _column("A column that can only go up")] = None
    decreasing: Annotated[Columns, _column("A column that can only go down")] = None
    order: Annotated[
        Columns, _column("A column's labels from low to high, so that it can go up", "COLUMN=LABEL,LABEL,...")
    ] = None
    allowed: Annotated[
        Columns, _column("A move between labels that is possible, and others are not", "COLUMN=FROM:TO")
    ] = None
    fillable: Annotated[Columns, _column("A column whose missing value a person can state")] = None
    range: Annotated[Columns, _column("Where changes may lead; either end may be left out", "COLUMN=LOW:HIGH")] = None
    step: Annotated[Columns, _column("Changed values are multiples of this", "COLUMN=NUMBER")] = None
    rule: Annotated[Columns, _column('A linear rule between columns, "debt <= 2 * income"', "RULE")] = None

    def over(self, space: hf.FeatureSpace) -> hf.FeatureSpace:
        """The space with these constraints."""
        ordered = {
            column: _labels(space, column, text.split(","))
            for column, text in _pairs(self.order, "--order COLUMN=LABEL,LABEL,...")
        }
        allowed: dict[str, list[list[object]]] = {}
        for column, text in _pairs(self.allowed, "--allowed COLUMN=FROM:TO"):
            allowed.setdefault(column, []).append(_labels(space, column, _ends(text, "--allowed COLUMN=FROM:TO")))
        ranges = {
            column: tuple(_number(end, "--range") if end else None for end in _ends(text, "--range COLUMN=LOW:HIGH"))
            for column, text in _pairs(self.range, "--range COLUMN=LOW:HIGH")
        }
        steps = {column: _number(text, "--step") for column, text in _pairs(self.step, "--step COLUMN=NUMBER")}
        given: Any = {"ordinal": ordered, "allowed": allowed, "ranges": ranges, "steps": steps}
        return space.constrained(
            immutable=self.immutable or (), increasing=self.increasing or (), decreasing=self.decreasing or (),
            fillable=self.fillable or (), rules=(*space.rules, *(self.rule or ())), **given,
        )  # fmt: skip


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its groups of options, which are dataclasses, as options of its own."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        group = groups.get(name)
        for one in [parameter] if group is None else inspect.signature(group).parameters.values():
            types = hints if group is None else get_type_hints(group, include_extras=True)
            parameters[one.name] = one.replace(annotation=types[one.name], kind=inspect.Parameter.KEYWORD_ONLY)

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return run


def named(text: str, form: str) -> tuple[str, str]:
    """Both sides of NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        option, _, wanted = form.partition(" ")
        raise InvalidInputError(f"{option}: expected {wanted}, got {text!r}")
    return name, value


def _pairs(texts: Sequence[str] | None, form: str) -> list[tuple[str, str]]:
    return [named(text, form) for text in texts or ()]


def _ends(text: str, form: str) -> list[str]:
    ends = [end.strip() for end in text.split(":")]
    if len(ends) != 2:
        option, _, wanted = form.partition(" ")
        raise InvalidInputError(f"{option}: expected {wanted}, got {text!r} after the =")
    return ends


def _labels(space: hf.FeatureSpace, column: str, texts: Sequence[str]) -> list[object]:
    """The column's own labels that are spelled so."""
    own = {str(label): label for feature in space.features if feature.name == column for label in feature.categories}
    return [own.get(text.strip(), text.strip()) for text in texts]


def _number(text: str, option: str) -> float:
    number = _float(text)
    if number is None:
        raise InvalidInputError(f"{option}: expected a number, got {text!r}")
    return number


def label_of(target: str, classifier: Classifier) -> object:
    """The model's own label that `target` spells, so that 1 means 1, 1.0 or "1", whichever the model has."""
    for label in classifier.classes.tolist():
        if str(label) == target:
            return label
    for label in classifier.classes.tolist():
        if isinstance(label, int | float) and _float(target) == label:
            return label
    return classifier.classes[classifier.class_index(target)]


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@contextmanager
def plain_errors(debug: bool) -> Iterator[None]:
    """What a user can mend, or should know, is one line on stderr; a traceback is for the unforeseen, or on request."""
    with warnings.catch_warnings():
        if not debug:
            warnings.showwarning = lambda message, *_: screens.complain(in_options(str(message)), "warning")
        try:
            yield
        except hf.HoldfastError as error:
            if debug:
                raise
            screens.complain(in_options(str(error)))
            raise typer.Exit(BAD_INPUT) from None
