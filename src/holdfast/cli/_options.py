"""Options that several commands share, and what a command does with an error."""

from __future__ import annotations

import inspect
import math
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, wraps
from itertools import product
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import pandas as pd
import typer
from typer import Option
from typer.models import ArgumentInfo

import holdfast as hf
from holdfast._files import read_json
from holdfast.changes import Changes, changes_from_dict
from holdfast.cli import _tables as tables
from holdfast.cli._screens import complain
from holdfast.cli._wording import in_options
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features._checks import remark_on_rules
from holdfast.importers import Model, read_model
from holdfast.verify._fingerprint import leave_out

BAD_INPUT = 2
BROKEN = 3

# Settings of options: a file to be read, whatever is there, a number from 1 on.
FILE: dict[str, Any] = {"exists": True, "dir_okay": False, "readable": True}
THERE = {"exists": True}
COUNT = {"min": 1}
# A file that stands behind a name of its own.
NAMED_FILE = "NAME=FILE"


MODELS = (
    ".onnx, .skops, a network saved by holdfast (.npz), trees of XGBoost (.json, .ubj), LightGBM (.txt) or "
    "CatBoost (.cbm), or with --trust-pickle a pickle."
)
ModelFile = Annotated[Path, FILE, f"The classifier: {MODELS}"]
DataFile = Annotated[
    Path,
    THERE,
    "The points, one a row: .csv, .csv.gz, .parquet, or a folder of Parquet files.",
]
Schema = Annotated[
    Path | None,
    FILE,
    "How the model reads columns, and what a person can change: what `holdfast schema` wrote, or "
    "FeatureSpace.to_dict() as JSON.",
]
Norm = Annotated[float, "inf|1|2", "The p-norm in which delta is measured."]
Index = Annotated[str | None, "COLUMN", "A key column, kept in the output."]
Texts = list[str] | None
Drop = Annotated[Texts, "COLUMN", "A column to leave out; may be repeated."]
Out = Annotated[Path | None, "Where the full result goes: .csv, .csv.gz or .parquet."]
Jobs = Annotated[int, "How many batches at once; -1: one for each core."]
TrustPickle = Annotated[
    bool,
    "Open a .pkl, .joblib or .pt file, which can run any code it holds.",
]
Debug = Annotated[bool, "Show where an error came from."]


@dataclass(frozen=True, kw_only=True)
class MayChange:
    """What may become of the model."""

    delta: Annotated[
        list[float] | None,
        "How far each parameter may move; repeat it for one a layer. Or --margin or --changes.",
    ] = None
    margin: Annotated[
        float | None,
        "In place of --delta, for any model: how far the margin may fall below today's, in logits.",
    ] = None
    changes: Annotated[
        Path | None,
        FILE,
        "In place of --delta: what `holdfast delta --out` wrote.",
    ] = None
    norm: Norm = math.inf
    no_biases: Annotated[bool, "Only the weights move."] = False
    threshold_range: Annotated[
        str | None,
        "LOW:HIGH",
        "Between which probabilities the threshold may move, too.",
    ] = None

    def read(self) -> Changes | None:
        """What the options describe; None where they say nothing of it."""
        changes = self._read()
        if self.threshold_range is None:
            return changes
        if changes is None:
            raise InvalidInputError(
                "--threshold-range: expected --delta, --margin or --changes beside it, got none"
            )
        ends = _ends(self.threshold_range, "--threshold-range LOW:HIGH")
        if changes.chance is not None:
            leave_out("chance", "it was measured without --threshold-range", "risk")
        return changes.moving(tuple(_number(end, "--threshold-range") for end in ends))

    def _read(self) -> Changes | None:
        given = {
            "--delta": self.delta,
            "--norm": self.norm != math.inf,
            "--no-biases": self.no_biases,
            "--margin": self.margin is not None,
            "--changes": self.changes is not None,
        }
        said = [option for option, value in given.items() if value]
        if len(said) > 1 and said[-1] in ("--margin", "--changes"):
            raise InvalidInputError(
                f"{said[-1]}: expected neither --delta nor its options beside it, got {said[0]}"
            )
        if self.changes is not None:
            document = read_json(self.changes)
            if not isinstance(document, dict):
                raise FileFormatError(
                    f"{self.changes}: expected what `holdfast delta --out` wrote, got {document!r:.40}"
                )
            try:
                return changes_from_dict(document)
            except (KeyError, TypeError, AttributeError) as error:
                raise FileFormatError(
                    f"{self.changes}: expected plausible changes, got no {error}"
                ) from error
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
        Texts,
        "PROBABILITY",
        "Class 1 from this probability on; of several classes CLASS=PROBABILITY for each, repeated. "
        "By default as the model itself predicts.",
    ] = None

    def at(self, model: Model) -> Model:
        """The model that decides so."""
        if not self.threshold:
            return model
        if len(self.threshold) == 1 and "=" not in self.threshold[0]:
            return model.at(_number(self.threshold[0], "--threshold"))
        pairs = _pairs(self.threshold, "--threshold CLASS=PROBABILITY")
        labels = model.classifier.classes.tolist()
        return model.at(
            {spelled(name, labels): _number(text, "--threshold") for name, text in pairs}
        )


@dataclass(frozen=True, kw_only=True)
class Opening:
    """How models are read."""

    trust_pickle: TrustPickle = False

    def model_in(self, path: Path) -> Model:
        """The model in a file."""
        return read_model(path, trust_pickle=self.trust_pickle)


@dataclass(frozen=True, kw_only=True)
class Classes(MayChange, Deciding, Opening):
    """A model, what may become of it, and the class that people are to have."""

    model: ModelFile
    target: Annotated[str, "The class that the points were promised."]
    schema: Schema = None

    @cached_property
    def loaded(self) -> Model:
        """The model, at the threshold that is asked for."""
        return self.at(self.model_in(self.model))

    @property
    def label(self) -> object:
        """The model's own label that the target spells."""
        return spelled(self.target, self.loaded.classifier.classes.tolist())

    @property
    def space(self) -> hf.FeatureSpace | None:
        """The feature space in the schema, if one is given."""
        return self._space_and_label[0]

    @cached_property
    def _space_and_label(self) -> tuple[hf.FeatureSpace | None, Any]:
        return tables.read_schema(self.schema)


@dataclass(frozen=True, kw_only=True)
class Reading(Opening):
    """How tables and models are read."""

    index: Index = None
    drop: Drop = None

    def table_in(self, path: Path, space: hf.FeatureSpace | None = None) -> pd.DataFrame:
        """The table in a file, by its key and without what is to be left out."""
        return tables.read_table(path, index=self.index, drop=self.drop or (), space=space)


@dataclass(frozen=True, kw_only=True)
class Points(Classes, Reading):
    """A model, a table and the class that its rows are to have: what most commands are about."""

    data: DataFile

    @cached_property
    def table(self) -> pd.DataFrame:
        """The rows of the data, without the label that the schema names."""
        return next(self.batches(None))

    @cached_property
    def file(self) -> tables.TableFile:
        """The data, to be read a batch at a time."""
        read = (self.loaded.feature_names if self.space is None else self.space.names) or ()
        if self.index in read:
            raise InvalidInputError(
                f"--index: expected a column that the model does not read, got {self.index!r}; a key is text"
            )
        return tables.TableFile(
            self.data, self.index, tuple(self.drop or ()), self.space, self.elsewhere
        )

    @property
    def elsewhere(self) -> Collection[str]:
        """Columns that --drop may name though the data has none of the name."""
        return ()

    def batches(self, size: int | None) -> Iterator[pd.DataFrame]:
        """The same rows, so many at a time."""
        label = self._space_and_label[1]
        for people in self.file.batches(size):
            yield people.drop(columns=label) if label in people.columns else people


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """What a person can change, on top of what a schema says."""

    immutable: Annotated[Texts, "COLUMN", "A column that cannot change; may be repeated."] = None
    increasing: Annotated[Texts, "COLUMN", "A column that can only go up; may be repeated."] = None
    decreasing: Annotated[Texts, "COLUMN", "A column that can only go down; may be repeated."] = (
        None
    )
    free: Annotated[Texts, "COLUMN", "A column that may change any way; may be repeated."] = None
    max_change: Annotated[
        Texts,
        "COLUMN=SHARE",
        "Largest change, as a share of the own value: 0.4, or DOWN:UP as 0:0.4; may be repeated.",
    ] = None
    order: Annotated[
        Texts,
        "COLUMN=LABEL,LABEL,...",
        "A column's labels from low to high, so that it can go up; may be repeated.",
    ] = None
    allowed: Annotated[
        Texts,
        "COLUMN=FROM:TO",
        "A move between labels that is possible, and others are not; may be repeated.",
    ] = None
    fillable: Annotated[
        Texts, "COLUMN", "A column whose missing value a person can state; may be repeated."
    ] = None
    range: Annotated[
        Texts,
        "COLUMN=LOW:HIGH",
        "Where changes may lead; either end may be left out; may be repeated.",
    ] = None
    step: Annotated[
        Texts, "COLUMN=NUMBER", "Changed values are multiples of this; may be repeated."
    ] = None
    rule: Annotated[
        Texts, "RULE", 'A linear rule between columns, "debt <= 2 * income"; may be repeated.'
    ] = None

    def over(self, space: hf.FeatureSpace, table: Any = None) -> hf.FeatureSpace:
        """The space with these constraints; rules that rows of the table break are named."""
        ordered = {
            column: _labels(space, column, text.split(","))
            for column, text in _pairs(self.order, "--order COLUMN=LABEL,LABEL,...")
        }
        allowed: dict[str, list[list[object]]] = {}
        for column, text in _pairs(self.allowed, "--allowed COLUMN=FROM:TO"):
            allowed.setdefault(column, []).append(
                _labels(space, column, _ends(text, "--allowed COLUMN=FROM:TO"))
            )
        ranges = {
            column: tuple(
                _number(end, "--range") if end else None
                for end in _ends(text, "--range COLUMN=LOW:HIGH")
            )
            for column, text in _pairs(self.range, "--range COLUMN=LOW:HIGH")
        }
        steps = {
            column: _number(text, "--step")
            for column, text in _pairs(self.step, "--step COLUMN=NUMBER")
        }
        shares = {
            column: tuple(
                _number(end, "--max-change") if end else None
                for end in (text.split(":", 1) if ":" in text else (text, text))
            )
            for column, text in _pairs(self.max_change, "--max-change COLUMN=SHARE")
        }
        given: Any = {"ordinal": ordered, "allowed": allowed, "ranges": ranges, "steps": steps}
        given |= {"max_change": shares, "free": self.free or ()}
        own = space.constrained(
            immutable=self.immutable or (), increasing=self.increasing or (), decreasing=self.decreasing or (),
            fillable=self.fillable or (), rules=(*space.rules, *(self.rule or ())), **given,
        )  # fmt: skip
        if own.rules and table is not None:
            remark_on_rules(own.bound_rules, own.numbers(table))
        return own


def command(function: Callable[..., None]) -> Callable[..., None]:
    """The function as a command: its groups of options, which are dataclasses, spread out, and errors as one line."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    debug = inspect.Parameter(
        "debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_option("debug", Debug)
    )
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        group = groups.get(name)
        types = hints if group is None else get_type_hints(group, include_extras=True)
        own = [parameter] if group is None else inspect.signature(group).parameters.values()
        parameters += [
            one.replace(
                annotation=_option(one.name, types[one.name]), kind=inspect.Parameter.KEYWORD_ONLY
            )
            for one in own
        ]

    @wraps(function)
    def run(debug: bool, **given: Any) -> None:
        with plain_errors(debug, run.__annotations__):
            _check_outputs(
                {name: (run.__annotations__[name], value) for name, value in given.items()}
            )
            for name, group in groups.items():
                given[name] = group(
                    **{field.name: given.pop(field.name) for field in fields(group)}
                )
            function(**given)

    run.__signature__ = inspect.Signature([*parameters, debug])  # type: ignore[attr-defined]
    run.__annotations__ = {
        parameter.name: parameter.annotation for parameter in (*parameters, debug)
    }
    return run


def _option(name: str, hint: Any) -> Any:
    """What the texts of a hint say: last an option's help, before it what stands for its value; and its settings.

    A flag is turned on by its name, and off by nothing.
    """
    *before, text = getattr(hint, "__metadata__", [None])
    if not isinstance(text, str):
        return hint
    settings: dict[str, Any] = {"help": text}
    for part in before:
        settings |= {"metavar": part} if isinstance(part, str) else part
    names = [f"--{name.replace('_', '-')}"] if hint.__origin__ is bool else []
    return Annotated[hint.__origin__, Option(*names, **settings)]


def _check_outputs(given: Mapping[str, tuple[Any, Any]]) -> None:
    """Refuse to write over what is read, or over what is written, too: a path that need not be there is written to."""
    places = [
        place for name, (hint, value) in given.items() for place in _places(name, hint, value)
    ]
    written = [place for place in places if not place.read]
    for mine, other in product(written, places):
        if mine is other:
            continue
        path, theirs = mine.path.resolve(), other.path.resolve()
        same = path == theirs or (path.exists() and theirs.exists() and path.samefile(theirs))
        inside = other.read and path.is_relative_to(theirs)
        if same or inside:
            got = "the same" if same else "one inside it"
            raise InvalidInputError(
                f"{mine.path}: expected another place for {mine.option} than {other.option}, {other.path}, got {got}"
            )


@dataclass(frozen=True)
class _Place:
    """A path that an option names, and whether it is read."""

    option: str
    path: Path
    read: bool


def _places(name: str, hint: Any, value: Any) -> Iterator[_Place]:
    setting = next(
        (one for one in getattr(hint, "__metadata__", ()) if hasattr(one, "exists")), None
    )
    if setting is None:
        return
    spelled_out = [text for text in setting.param_decls or () if text.startswith("--")]
    argument = isinstance(setting, ArgumentInfo)
    option = name.upper() if argument else (*spelled_out, f"--{name.replace('_', '-')}")[0]
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str) and setting.metavar == NAMED_FILE:
            yield _Place(option, Path(one.partition("=")[2]), True)
        elif isinstance(one, Path):
            yield _Place(option, one, setting.exists)


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
    own = {
        str(label): label
        for feature in space.features
        if feature.name == column
        for label in feature.categories
    }
    return [own.get(text.strip(), text.strip()) for text in texts]


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidInputError(f"{option}: expected a number, got {text!r}") from error


def spelled(text: str, labels: Sequence[Any]) -> Any:
    """The label that is spelled so: 1 means 1, 1.0 or "1", whichever there is; the text itself where none is."""
    by_text = {str(label): label for label in labels}
    try:
        number = next(
            (label for label in labels if isinstance(label, int | float) and label == float(text)),
            text,
        )
    except ValueError:
        number = text
    return by_text.get(text, number)


@contextmanager
def plain_errors(debug: bool, options: Collection[str] = ()) -> Iterator[None]:
    """What a user can mend, or should know, is one line on stderr; a traceback is for the unforeseen, or on request."""
    said = set()

    def warn(message: str) -> None:
        # What is said of every batch, with other counts, is said once.
        about = re.sub(r"\d+", "", message)
        if about not in said:
            complain(in_options(message, options), "warning")
        said.add(about)

    with warnings.catch_warnings():
        if not debug:
            warnings.showwarning = lambda message, *_: warn(str(message))
        try:
            yield
        except hf.HoldfastError as error:
            if debug:
                raise
            complain(in_options(str(error), options))
            raise typer.Exit(BAD_INPUT) from None
