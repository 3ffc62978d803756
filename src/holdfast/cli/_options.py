"""Options that several commands share, their groups in help, and errors as one line."""

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
from typing import Annotated, Any, get_args, get_type_hints

import pandas as pd
import typer
from typer import Option
from typer.models import ArgumentInfo, OptionInfo

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

# Settings of options: a file to read, a file or folder to read, a number from 1 on.
FILE: dict[str, Any] = {"exists": True, "dir_okay": False, "readable": True}
THERE = {"exists": True}
COUNT = {"min": 1}
# A file with a name of its own.
NAMED_FILE = "NAME=FILE"


ModelFile = Annotated[
    Path,
    FILE,
    "The classifier: .npz, .onnx, .skops, trees of XGBoost, LightGBM or CatBoost, or a pickle.",
]
DataFile = Annotated[Path, THERE, "The people: .csv, .parquet or a folder of those."]
Schema = Annotated[Path | None, FILE, "What a person can change, from `holdfast schema`."]
Norm = Annotated[float, "inf|1|2", "The norm of delta."]
Index = Annotated[str | None, "COLUMN", "The column with the people's keys."]
Texts = list[str] | None
Drop = Annotated[Texts, "COLUMN", "A column to leave out."]
Out = Annotated[Path | None, "Write the result here: .csv, .csv.gz or .parquet."]
Jobs = Annotated[int, "Batches at once; -1: all cores."]
TrustPickle = Annotated[bool, "Open pickles, which can run any code."]

ARGUMENTS = "Arguments"
# The groups of options in help, and the order of the options in each.
GROUPS: tuple[tuple[str, str], ...] = (
    (ARGUMENTS, ""),
    ("What may change in the model", "delta margin changes norm no_biases threshold_range"),
    (
        "Input",
        "model data schema space index drop label target_column candidates factuals accepted row origin threshold "
        "scale tables datasets compare group trust_pickle",
    ),
    (
        "Method",
        "method methods answers rows how runs history retrained key epochs coverage confidence broken probability "
        "shape radius no_radius calibrated horizon period target hidden seeds inputs variants quick applicants "
        "promises seed time_limit as_in_paper recheck head",
    ),
    (
        "What people can change",
        "immutable increasing decreasing free range max_change step order allowed fillable rule protected",
    ),
    (
        "Wording",
        "until sender subject name language templates title outcome date why no_certificates",
    ),
    (
        "Service",
        "host port workers token_file audit_token_file max_bytes max_people max_seconds max_waiting",
    ),
    (
        "Output",
        "out overwrite force certificates table parameters evidence report contacts page ledger letters secret "
        "write_templates",
    ),
    ("Running", "n_jobs fail_if_broken"),
)
_PLACES = {
    option: (number, place)
    for number, (_, options) in enumerate(GROUPS)
    for place, option in enumerate(options.split())
}


@dataclass(frozen=True, kw_only=True)
class MayChange:
    """The set of plausible changes of the model, Δ."""

    delta: Annotated[list[float] | None, "How far parameters may move; repeat for layers."] = None
    margin: Annotated[float | None, "Or, for any model: how far the margin may fall."] = None
    changes: Annotated[Path | None, FILE, "Or: the file of `holdfast delta` or `risk`."] = None
    norm: Norm = math.inf
    no_biases: Annotated[bool, "Only the weights move."] = False
    threshold_range: Annotated[
        str | None, "LOW:HIGH", "The threshold may move in this range too."
    ] = None

    def read(self) -> Changes | None:
        """The changes that the options describe; None without such options."""
        changes = self._read()
        if self.threshold_range is None:
            return changes
        if changes is None:
            raise InvalidInputError("--threshold-range also needs --delta, --margin or --changes")
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
                f"{said[0]} and {said[-1]} exclude each other; keep one of them"
            )
        if self.changes is not None:
            document = read_json(self.changes)
            if not isinstance(document, dict):
                raise FileFormatError(
                    f"--changes {self.changes}: this is not a changes file; `holdfast delta --out` writes one"
                )
            try:
                return changes_from_dict(document)
            except (KeyError, TypeError, AttributeError) as error:
                raise FileFormatError(
                    f"--changes {self.changes}: this is not a changes file: it has no {error}; "
                    "`holdfast delta --out` writes one"
                ) from error
        if self.margin is not None:
            return hf.PlausibleShift(self.margin)
        if not self.delta:
            return None
        radii = tuple(self.delta) if len(self.delta) > 1 else self.delta[0]
        return hf.PlausibleChanges(radii, self.norm, not self.no_biases)

    def needed(self) -> Changes:
        """The same, for a command that needs it."""
        changes = self.read()
        if changes is None:
            raise InvalidInputError(
                "this command needs --delta, --margin or --changes: how far the model may change"
            )
        return changes


@dataclass(frozen=True, kw_only=True)
class Deciding:
    """The decision threshold."""

    threshold: Annotated[
        Texts,
        "PROBABILITY",
        "Decision threshold; several classes: CLASS=PROBABILITY. [default: the model's own]",
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
    """A model, Δ and the class that people want."""

    model: ModelFile
    target: Annotated[str, "The class that people want."]
    schema: Schema = None

    @cached_property
    def loaded(self) -> Model:
        """The model at the given threshold."""
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
        """The table in a file, by its key and without the columns of --drop."""
        return tables.read_table(path, index=self.index, drop=self.drop or (), space=space)


@dataclass(frozen=True, kw_only=True)
class Points(Classes, Reading):
    """A model, a table and the class that its rows should have."""

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
                f"--index: the model reads the column {self.index!r}, so it cannot be the key; name another column"
            )
        return tables.TableFile(
            self.data, self.index, tuple(self.drop or ()), self.space, self.elsewhere
        )

    @property
    def elsewhere(self) -> Collection[str]:
        """Columns that --drop may name though the data has none of the name."""
        return ()

    def batches(self, size: int | None) -> Iterator[pd.DataFrame]:
        """The same rows in batches of this size."""
        label = self._space_and_label[1]
        for people in self.file.batches(size):
            yield people.drop(columns=label) if label in people.columns else people


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """What a person can change, in addition to a schema."""

    immutable: Annotated[Texts, "COLUMN", "It cannot change."] = None
    increasing: Annotated[Texts, "COLUMN", "It can only go up."] = None
    decreasing: Annotated[Texts, "COLUMN", "It can only go down."] = None
    order: Annotated[Texts, "COLUMN=LABELS", "Its labels from low to high, with commas."] = None
    allowed: Annotated[Texts, "COLUMN=FROM:TO", "A move that is allowed; others are not."] = None
    fillable: Annotated[Texts, "COLUMN", "A person can state its missing value."] = None
    range: Annotated[Texts, "COLUMN=LOW:HIGH", "Advice stays in it; LOW or HIGH may be empty."] = (
        None
    )
    free: Annotated[Texts, "COLUMN", "It may change in any way."] = None
    max_change: Annotated[
        Texts, "COLUMN=SHARE", "Largest change: 0.4 of the own value, or DOWN:UP."
    ] = None
    step: Annotated[Texts, "COLUMN=NUMBER", "Changed values are multiples of NUMBER."] = None
    rule: Annotated[Texts, "RULE", 'A linear rule, such as "debt <= 2 * income".'] = None

    def over(self, space: hf.FeatureSpace, table: Any = None) -> hf.FeatureSpace:
        """The space with these constraints; a warning names rules that rows of the table break."""
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
    """The function as a command: the fields of its dataclasses become options, in the order of `GROUPS`."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
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
    parameters.sort(key=_place)

    @wraps(function)
    def run(**given: Any) -> None:
        _check_outputs({name: (run.__annotations__[name], value) for name, value in given.items()})
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        function(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _place(parameter: inspect.Parameter) -> tuple[bool, bool, tuple[int, int]]:
    """Arguments come first, then required options, then the groups in their order."""
    settings = getattr(parameter.annotation, "__metadata__", ())
    argument = any(isinstance(one, ArgumentInfo) for one in settings)
    needed = parameter.default is inspect.Parameter.empty
    return not argument, not needed, _PLACES.get(parameter.name, (len(GROUPS), 0))


def _option(name: str, hint: Any) -> Any:
    """An option made of the texts of a hint: last its help, before it the word for its value; and its settings.

    A flag is turned on by its name, and cannot be turned off.
    """
    *before, text = getattr(hint, "__metadata__", [None])
    heading = GROUPS[_PLACES[name][0]][0] if name in _PLACES else None
    if isinstance(text, OptionInfo | ArgumentInfo):
        text.rich_help_panel = ARGUMENTS if isinstance(text, ArgumentInfo) else heading
        if isinstance(text, OptionInfo):
            text.metavar = text.metavar or _word(hint.__origin__, vars(text))
        return hint
    if not isinstance(text, str):
        return hint
    settings: dict[str, Any] = {"help": text, "rich_help_panel": heading}
    for part in before:
        settings |= {"metavar": part} if isinstance(part, str) else part
    settings.setdefault("metavar", _word(hint.__origin__, settings))
    names = [f"--{name.replace('_', '-')}"] if hint.__origin__ is bool else []
    return Annotated[hint.__origin__, Option(*names, **settings)]


def _word(kind: Any, settings: Mapping[str, Any]) -> str | None:
    """The word for an option's value: FILE, NUMBER, TEXT."""
    kinds = {kind, *get_args(kind)}
    kinds |= {one for inner in kinds for one in get_args(inner)}
    if bool in kinds:
        return None
    if Path in kinds:
        return "FILE" if settings.get("file_okay", True) else "FOLDER"
    return "NUMBER" if kinds & {int, float} else "TEXT"


def _check_outputs(given: Mapping[str, tuple[Any, Any]]) -> None:
    """Refuse an output that is also an input or another output. A path that may be missing is an output."""
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
            got = "the same file as" if same else "inside"
            raise InvalidInputError(
                f"{mine.option} {mine.path} is {got} {other.option} {other.path}; choose another place for the output"
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
    """The column's own labels with these spellings."""
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
    """The label with this spelling: 1 means 1, 1.0 or "1". Without such a label: the text itself."""
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
    """Errors and warnings for the user are one line on stderr; with `debug` an error keeps its traceback."""
    said = set()

    def warn(message: str) -> None:
        # The same warning for another batch, with other counts, is printed once.
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
