"""Schema files: the columns of a data set, their kinds and ranges, and how a person can change them, as JSON.

A column of any role may have notes: ``"protected": true``, ``"label": "number of missed payments"``,
``"words": {"A151": "rented"}`` for its values or its unit, and ``"reason": {"code": "38", "text": "Serious
delinquency"}``. Each text may be a text for each language, ``{"en": "rented", "de": "gemietet"}``; see
`holdfast.features._notes`.

The encoding of a column follows from its kind and range. An ``"encoding"`` in the file is fixed: other edits change no
variable of the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast._files import Document, Facts, Place, read_json
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features._build import Encoding, placed, scaled
from holdfast.features._columns import Storage
from holdfast.features._constraints import FeatureConstraints, constrain, in_order, refuse_unknown
from holdfast.features._feature import Feature
from holdfast.features._kinds import Direction, Kind, Label, Ranks
from holdfast.features._notes import Notes
from holdfast.features._rules import Rule
from holdfast.features._serial import feature_from_dict, feature_to_dict

ACTIONABILITY = ("schema", "carla", "free")
KINDS = ("schema", "carla")
_UNDECIDED = "undecided"
_DIRECTIONS = {
    "mutable": Direction.FREE,
    "immutable": Direction.IMMUTABLE,
    "increase_only": Direction.INCREASING,
    "decrease_only": Direction.DECREASING,
    # Free, until a person has decided.
    _UNDECIDED: Direction.FREE,
}
# What a person may edit stands beside the encoding of a column, not in it.
_EDITED = (
    "name",
    "kind",
    "lower",
    "upper",
    "step",
    "direction",
    "max_change",
    "allowed",
    "fillable",
    "cost",
    "unit",
)
# The entries of a column that mean something; others are the file's own notes.
_ENTRIES = (
    "name", "role", "kind", "min", "max", "step", "actionability", "max_change", "ordered", "categories", "allowed",
    "missing", "fillable", "cost", "unit", "label", "words", "protected", "reason", "with_time", "encoding",
    "carla_immutable", "carla_type",
)  # fmt: skip
_HELP = {
    "actionability": f"how a person can change it: {', '.join(_DIRECTIONS)} (= mutable, with a warning)",
    "min, max, step": "range of changed values; changed values are multiples of step",
    "max_change": "largest change as a share of the own value: 0.4, or [down, up] such as [0, 0.4]",
    "ordered": "true: the categories are listed from low to high, and may go up or down",
    "allowed": 'possible moves, [["temporary", "permanent"], ...]; by default every move',
    "fillable": "true: a person whose value is missing can state it",
    "cost, unit": "cost of a change over the whole range, by default 1; unit of the numbers",
    "label, words": 'names for people: {"en": "housing", "de": "Wohnen"}, values {"A151": "rented"}',
    "protected, reason": 'true: never named to a person; {"code": "38", "text": "Cards used too much"}',
    "rules": 'linear rules between columns: ["debt <= 2 * income"]',
    "encoding": "how the model reads the column: do not edit",
}


@dataclass(frozen=True)
class Schema:
    """The content of a schema file.

    Examples
    --------
    >>> schema = Schema.from_dict({"name": "loans", "target": {"column": "paid", "desirable": 1}, "columns": [
    ...     {"name": "age", "role": "feature", "kind": "integer", "min": 18, "max": 90, "actionability": "immutable"},
    ...     {"name": "paid", "role": "target", "kind": "binary", "min": 0, "max": 1}]})
    >>> schema.target, schema.desirable, schema.feature_names
    ('paid', 1, ('age',))
    """

    name: str
    data_file: str
    target: str
    desirable: int | str
    classes: tuple[tuple[str, str], ...]
    columns: tuple[Facts, ...]
    rules: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: Place) -> Schema:
        """Read a schema file."""
        return cls.from_dict(read_json(Path(path), "a JSON schema file"), str(path))

    @classmethod
    def from_dict(cls, data: Facts, origin: str = "schema") -> Schema:
        """A schema from the content of its file."""
        try:
            target = data.get("target", {"column": ""})
            columns = tuple(dict(column) for column in data["columns"])
            for column in columns:
                _ = column["name"], column["role"] == "auxiliary" or Kind(column["kind"])
            Notes.from_list(columns).check(())
            schema = cls(
                name=str(data["name"]),
                data_file=str(data.get("data_file", "")),
                target=str(target["column"]),
                desirable=target.get("desirable", 1),
                classes=tuple((str(k), str(v)) for k, v in target.get("classes", {}).items()),
                columns=columns,
                rules=tuple(str(rule) for rule in data.get("rules", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise FileFormatError(
                f"{origin}: expected a schema with name and columns (name, role, kind), got {what}"
            ) from error
        for column in columns:
            _refuse_typos(column, origin)
        return schema

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns that a model may read: neither the target nor auxiliary ones."""
        return tuple(column["name"] for column in self._features)

    @property
    def _features(self) -> list[Facts]:
        return [column for column in self.columns if column["role"] == "feature"]

    @property
    def notes(self) -> Notes:
        """Protected columns, the names people use, adverse-action reasons, and undecided columns."""
        return Notes.from_list(
            {**column, _UNDECIDED: column.get("actionability") == _UNDECIDED}
            for column in self.columns
        )

    def features(
        self, *, actionability: str = "schema", kinds: str = "schema"
    ) -> tuple[Feature, ...]:
        """The feature columns, not yet scaled or placed; see `FeatureSpace.from_schema` for the arguments."""
        for argument, value, allowed in (
            ("actionability", actionability, ACTIONABILITY),
            ("kinds", kinds, KINDS),
        ):
            if value not in allowed:
                raise InvalidInputError(
                    f"{argument}: expected one of {list(allowed)}, got {value!r}"
                )
        return tuple(_feature(column, actionability, kinds) for column in self._features)

    def encoded(
        self,
        actionability: str,
        kinds: str,
        scale: str,
        encoding: Encoding,
        ordinal: Ranks,
        constraints: FeatureConstraints,
    ) -> tuple[Feature, ...]:
        """The columns of `features` encoded; scaled by the file's ranges, before `constraints` narrow them."""
        if scale not in ("minmax", "none"):
            raise InvalidInputError(
                f"scale: expected 'minmax' or 'none' (a schema has no means), got {scale!r}"
            )
        drafts = self.features(actionability=actionability, kinds=kinds)
        given = [feature.name for feature in drafts if feature.variables]
        if given and len(given) < len(drafts):
            raise InvalidInputError(
                f"columns: expected an 'encoding' in each column or in none, got it in {given}"
            )
        labelled = [feature.name for feature in drafts if feature.labelled]
        refuse_unknown(ordinal, labelled, "ordinal (columns with labels)")
        if given:
            return constrain(drafts, constraints, ordinal)
        features = constrain(
            [scaled(feature, np.empty(0), scale) for feature in drafts], constraints, ordinal
        )
        fills = {
            column["name"]: column["missing"]
            for column in self._features
            if _may_be_missing(column)
        }
        stated = {name: pd.Series([] if fill is True else [fill]) for name, fill in fills.items()}
        categorical = [
            column["name"] for column in self._features if column["kind"] == Kind.CATEGORICAL
        ]
        return placed(features, encoding, stated, ordered=categorical)


def schema_document(
    features: Iterable[Feature],
    rules: Iterable[Rule],
    notes: Notes,
    *,
    name: str,
    target: str | None,
    auxiliary: Iterable[str],
) -> Document:
    """What goes into a schema file that people can edit: the columns of a space, each with its encoding, and others."""
    said = {entry["name"]: entry for entry in notes.to_list()}
    columns = [_column(feature) for feature in features]
    for column in columns:
        undecided = said.get(column["name"], {}).pop(_UNDECIDED, False)
        stated = 0.0 in column.get("max_change", ())
        if undecided and not stated and column["actionability"] == "mutable":
            column["actionability"] = _UNDECIDED
    columns += [{"name": other, "role": "auxiliary"} for other in auxiliary]
    label = {} if target is None else {"target": {"column": target}}
    return {
        "name": name, "help": _HELP, **label, "columns": [column | said.get(column["name"], {}) for column in columns],
        "rules": [rule.text for rule in rules],
    }  # fmt: skip


def _column(feature: Feature) -> Document:
    """A column as people edit it, and its encoding apart."""
    encoding = {key: value for key, value in feature_to_dict(feature).items() if key not in _EDITED}
    column: Document = {"name": feature.name, "role": "feature", "kind": str(feature.kind)}
    if feature.labelled:
        column["categories"] = [{"value": label} for label in feature.categories]
        column["ordered"] = feature.kind is Kind.ORDINAL
    else:
        ends = zip(
            ("min", "max", "step"), (feature.lower, feature.upper, feature.step), strict=True
        )
        column |= {
            key: None if math.isinf(value) else value for key, value in ends if value is not None
        }
    column["actionability"] = next(
        word for word, way in _DIRECTIONS.items() if way is feature.direction
    )
    if feature.max_change:
        column["max_change"] = list(feature.max_change)
    if feature.allowed is not None:
        column["allowed"] = [
            [feature.categories[place] for place in pair] for pair in feature.allowed
        ]
    if feature.missing:
        column |= {"missing": True, "fillable": feature.fillable}
    return column | {"cost": feature.cost, "unit": feature.unit, "encoding": encoding}


def _feature(column: Facts, actionability: str, kinds: str) -> Feature:
    """A column as the file says; how the model sees it too where the file has an encoding."""
    name = column["name"]
    kind = Kind(column["kind"])
    encoding = column.get("encoding")
    gap = _may_be_missing(column)
    if encoding is None:
        if (
            kinds == "carla"
            and kind in (Kind.INTEGER, Kind.ORDINAL)
            and _needed(column, "carla_type") == "continuous"
        ):
            kind = Kind.CONTINUOUS
        encoding = _plain_encoding(column, kind, gap)
        kind = Kind.ORDINAL if encoding["categories"] and column.get("ordered", False) else kind
    labels = encoding.get("categories", ())
    ends = (0.0, len(labels) - 1.0) if labels else (_needed(column, "min"), _needed(column, "max"))
    step = (
        None
        if labels
        else column.get("step", 1.0 if kind in (Kind.INTEGER, Kind.ORDINAL) else None)
    )
    own = {"name": name, "kind": kind, "lower": ends[0], "upper": ends[1], "step": step}
    try:
        feature = feature_from_dict({**encoding, **own, "unit": column.get("unit", "")})
    except InvalidInputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(
            f"column {name!r}: the encoding was edited: {error}; write the schema again with holdfast schema"
        ) from error
    if gap != bool(feature.missing):
        raise FileFormatError(
            f"column {name!r}: expected 'missing' as it was written, got {column.get('missing')!r}"
        )
    if feature.labelled and feature.variables:
        ranked = in_order(feature, [entry["value"] for entry in column.get("categories", ())])
        feature = ranked if column.get("ordered", feature.kind is Kind.ORDINAL) else feature
    limits: FeatureConstraints = {"fillable": [name] if column.get("fillable", False) else []}
    if "allowed" in column:
        limits["allowed"] = {name: column["allowed"]}
    if "max_change" in column:
        limits["max_change"] = {name: column["max_change"]}
    if "cost" in column:
        limits["costs"] = {name: column["cost"]}
    if feature.variables and "min" in column:
        limits["ranges"] = {name: ends}
    return constrain([replace(feature, direction=_direction(column, actionability))], limits)[0]


def _refuse_typos(column: Facts, origin: str) -> None:
    """Refuse an unknown entry that is close to a known one; other unknown entries are the file's own notes."""
    known = {_plain(entry): entry for entry in _ENTRIES}
    for entry in map(str, column):
        if entry not in _ENTRIES and (close := get_close_matches(_plain(entry), known, 1, 0.8)):
            raise FileFormatError(
                f"{origin}: column {column['name']!r}: unknown entry {entry!r}; did you mean {known[close[0]]!r}?"
            )


def _plain(entry: str) -> str:
    return entry.lower().replace("_", "").replace("-", "")


def _may_be_missing(column: Facts) -> bool:
    return column.get("missing", False) is not False


def _plain_encoding(column: Facts, kind: Kind, gap: bool) -> Document:
    """What a column says about itself where it says nothing about variables: its labels, and how it is stored."""
    labels: list[Label] = [_label(entry["value"], kind) for entry in column.get("categories", ())]
    if kind is Kind.BINARY and not labels:
        labels = [0, 1]
    storage = Storage()
    if labels and isinstance(labels[0], str):
        storage = Storage(str(pd.Series([labels[0]]).dtype))
    elif labels or (kind in (Kind.INTEGER, Kind.ORDINAL) and not gap):
        storage = Storage("float64" if gap else "int64", "integer")
    return {
        "variables": (),
        "categories": labels,
        "missing": [0.0] if gap else [],
        "storage": asdict(storage),
    }


def _label(value: object, kind: Kind) -> Label:
    """Labels as in the data file: text, but the 0 and 1 of a binary column are numbers."""
    return int(str(value)) if kind is Kind.BINARY and str(value) in ("0", "1") else str(value)


def _direction(column: Facts, actionability: str) -> Direction:
    if actionability == "free":
        return Direction.FREE
    if actionability == "carla":
        return Direction.IMMUTABLE if _needed(column, "carla_immutable") else Direction.FREE
    given = _needed(column, "actionability")
    if given not in _DIRECTIONS:
        raise FileFormatError(
            f"column {column['name']!r}: expected one of {list(_DIRECTIONS)}, got {given!r}"
        )
    return _DIRECTIONS[given]


def _needed(column: Facts, key: str) -> Any:
    if key not in column:
        raise FileFormatError(
            f"column {column['name']!r}: expected {key!r} in the schema, got none"
        )
    return column[key]
