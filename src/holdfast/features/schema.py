"""Schema files: a data set's columns, kinds, ranges and what a person can change, as JSON.

A column, of whatever role, may also say ``"protected": true``, ``"label": "number of missed payments"``,
``"words": {"A151": "rented"}`` of its values or its unit, and ``"reason": {"code": "38", "text": "Serious
delinquency"}``; each text may be one for each language, ``{"en": "rented", "de": "gemietet"}``: see
`holdfast.features.notes`.

How the model sees a column follows from its kind and range, unless it has an ``"encoding"``: then that is fixed, and
whatever else people edit in the file changes no variable of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features.columns import Storage
from holdfast.features.constraints import in_order
from holdfast.features.feature import Feature
from holdfast.features.kinds import Direction, Kind, Label, Name
from holdfast.features.notes import Notes
from holdfast.features.rules import Rule
from holdfast.features.serial import feature_from_dict, feature_to_dict
from holdfast.files import read_json

ACTIONABILITY = ("schema", "carla", "free")
KINDS = ("schema", "carla")
_DIRECTIONS = {
    "mutable": Direction.FREE,
    "immutable": Direction.IMMUTABLE,
    "increase_only": Direction.INCREASING,
    "decrease_only": Direction.DECREASING,
}
_HELP = {
    "actionability": f"what a person can do: {', '.join(_DIRECTIONS)}",
    "min, max, step": "the least and the largest value that a change may lead to; changed values are multiples of step",
    "ordered": "true: the categories stand from low to high, in the order of this file, and may go up or down",
    "allowed": 'the moves that are possible, [["temporary", "permanent"], ...]; without it, every one',
    "fillable": "true: a person whose value is missing can state it",
    "cost, unit": "how much a change counts; what numbers are counted in",
    "label, words": 'what people call the column and its values: {"en": "housing", "de": "Wohnen"}, {"A151": "rented"}',
    "protected, reason": 'true: never named to a person; {"code": "38", "text": "Cards used too much"}',
    "rules": 'linear rules between columns: ["debt <= 2 * income"]',
    "encoding": "how the model sees the column: leave it as it is",
}


@dataclass(frozen=True)
class Schema:
    """What a schema file says about a data set.

    Examples
    --------
    >>> schema = Schema.from_dict({"name": "loans", "target": {"column": "paid", "desirable": 1}, "columns": [
    ...     {"name": "age", "role": "feature", "kind": "integer", "min": 18, "max": 90, "actionability": "immutable"},
    ...     {"name": "paid", "role": "target", "kind": "binary", "min": 0, "max": 1}]})
    >>> schema.target, schema.desirable, schema.feature_names
    ('paid', 1, ('age',))
    """

    name: str
    title: str
    data_file: str
    target: str
    desirable: int | str
    classes: tuple[tuple[str, str], ...]
    columns: tuple[Mapping[str, Any], ...]
    rules: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Schema:
        """Read a schema file."""
        return cls.from_dict(read_json(Path(path), "a JSON schema file"), str(path))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], origin: str = "schema") -> Schema:
        """A schema from the content of its file."""
        try:
            target = data.get("target", {"column": ""})
            columns = tuple(dict(column) for column in data["columns"])
            for column in columns:
                _ = column["name"], column["role"] == "auxiliary" or Kind(column["kind"])
            Notes.from_list(columns)
            return cls(
                name=str(data["name"]),
                title=str(data.get("title", data["name"])),
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

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns that a model may read: neither the target nor auxiliary ones."""
        return tuple(column["name"] for column in self._features)

    @property
    def categorical(self) -> tuple[str, ...]:
        """The feature columns with labels that are no numbers, in an order or not."""
        return tuple(c["name"] for c in self._features if c["kind"] == Kind.CATEGORICAL)

    @property
    def fills(self) -> dict[Name, Any]:
        """The columns that may be missing, and what the model reads in place of a missing value; None: no label."""
        gaps = {c["name"]: c["missing"] for c in self._features if c.get("missing", False) is not False}
        return {name: None if fill is True else fill for name, fill in gaps.items()}

    @property
    def moves(self) -> dict[str, Any]:
        """What else the file says about changes, as `constrain` takes it."""
        return {
            "allowed": {c["name"]: c["allowed"] for c in self._features if "allowed" in c},
            "fillable": [c["name"] for c in self._features if c.get("fillable", False)],
            "costs": {c["name"]: c["cost"] for c in self._features if "cost" in c},
            "ranges": {c["name"]: (c["min"], c["max"]) for c in self._features if "encoding" in c and "min" in c},
        }

    @property
    def _features(self) -> list[Mapping[str, Any]]:
        return [column for column in self.columns if column["role"] == "feature"]

    @property
    def notes(self) -> Notes:
        """Which columns are protected, what people call them, and their adverse-action reasons."""
        return Notes.from_list(self.columns)

    def features(self, *, actionability: str = "schema", kinds: str = "schema") -> tuple[Feature, ...]:
        """The feature columns, not yet scaled or placed; see `FeatureSpace.from_schema` for the arguments."""
        for argument, value, allowed in (("actionability", actionability, ACTIONABILITY), ("kinds", kinds, KINDS)):
            if value not in allowed:
                raise InvalidInputError(f"{argument}: expected one of {list(allowed)}, got {value!r}")
        return tuple(
            _encoded(column, actionability) if "encoding" in column else _feature(column, actionability, kinds)
            for column in self._features
        )


def schema_document(
    features: Iterable[Feature],
    rules: Iterable[Rule],
    notes: Notes,
    *,
    name: str,
    target: str | None = None,
    auxiliary: Iterable[str] = (),
) -> dict[str, Any]:
    """What goes into a schema file that people can edit: the columns of a space, each with its encoding, and others."""
    said = {entry["name"]: entry for entry in notes.to_list()}
    columns = [_column(feature) for feature in features]
    columns += [{"name": other, "role": "auxiliary"} for other in auxiliary]
    label = {} if target is None else {"target": {"column": target}}
    return {
        "name": name, "help": _HELP, **label, "columns": [column | said.get(column["name"], {}) for column in columns],
        "rules": [rule.text for rule in rules],
    }  # fmt: skip


def _column(feature: Feature) -> dict[str, Any]:
    """A column as people edit it, and its encoding apart."""
    entry = feature_to_dict(feature)
    actions = {direction: word for word, direction in _DIRECTIONS.items()}
    column = {"name": entry.pop("name"), "role": "feature", "kind": entry.pop("kind")}
    lower, upper, step, moves = (entry.pop(key, None) for key in ("lower", "upper", "step", "allowed"))
    if feature.labelled:
        column["categories"] = [{"value": label} for label in feature.categories]
        column["ordered"] = feature.kind is Kind.ORDINAL
    else:
        column |= {"min": lower, "max": upper} | ({} if step is None else {"step": step})
    column |= {"actionability": actions[Direction(entry.pop("direction"))]}
    if moves is not None:
        column["allowed"] = [[feature.categories[place] for place in pair] for pair in moves]
    if feature.missing:
        column |= {"missing": True, "fillable": entry.pop("fillable")}
    return column | {"cost": entry.pop("cost"), "unit": entry.pop("unit"), "encoding": entry}


def _encoded(column: Mapping[str, Any], actionability: str) -> Feature:
    """A column with its encoding; whatever a person can change is the file's."""
    name, labels = column["name"], list(column["encoding"].get("categories", ()))
    ends = {"lower": 0.0, "upper": len(labels) - 1.0} if labels else {"lower": column["min"], "upper": column["max"]}
    step = column.get("step", 1.0 if column["kind"] in (Kind.INTEGER, Kind.ORDINAL) and not labels else None)
    own = {"name": name, "kind": column["kind"], "step": step, "direction": "free", "cost": 1.0}
    try:
        feature = feature_from_dict({**column["encoding"], **ends, **own, "unit": column.get("unit", "")})
    except InvalidInputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(f"column {name!r}: expected the encoding as it was written, got: {error}") from error
    if bool(column.get("missing", False)) != bool(feature.missing):
        raise FileFormatError(f"column {name!r}: expected 'missing' as it was written, got {column.get('missing')!r}")
    if feature.labelled:
        listed = [entry["value"] for entry in column.get("categories", ())]
        ranked = in_order(feature, listed)
        feature = ranked if column.get("ordered", feature.kind is Kind.ORDINAL) else feature
    return replace(feature, direction=_direction(column, actionability))


def _feature(column: Mapping[str, Any], actionability: str, kinds: str) -> Feature:
    name = str(column["name"])
    kind = Kind(column["kind"])
    if kinds == "carla" and kind in (Kind.INTEGER, Kind.ORDINAL) and _needed(column, "carla_type") == "continuous":
        kind = Kind.CONTINUOUS
    direction, unit = _direction(column, actionability), str(column.get("unit", ""))
    # What the model reads in place of a missing value comes once the variables have their places.
    missing = (0.0,) if column.get("missing", False) is not False else ()
    labels = tuple(_label(entry["value"], kind) for entry in column.get("categories", ()))
    if kind is Kind.BINARY and not labels:
        labels = (0, 1)
    if labels:
        kind = Kind.ORDINAL if column.get("ordered", False) else kind
        numbers = "float64" if missing else "int64"
        dtype = str(pd.Series([str(labels[0])]).dtype) if isinstance(labels[0], str) else numbers
        return Feature(
            name, kind, 0.0, len(labels) - 1.0, (), direction=direction, categories=labels, unit=unit, missing=missing,
            storage=Storage(dtype, "float64" if isinstance(labels[0], str) else "integer"),
        )  # fmt: skip
    whole = kind in (Kind.INTEGER, Kind.ORDINAL)
    step = column.get("step", 1.0 if whole else None)
    return Feature(
        name, kind, float(_needed(column, "min")), float(_needed(column, "max")), (),
        step=None if step is None else float(step), direction=direction, unit=unit, missing=missing,
        storage=Storage("int64", "integer") if whole and not missing else Storage(),
    )  # fmt: skip


def _label(value: object, kind: Kind) -> Label:
    """Labels as in the data file: text, but the 0 and 1 of a binary column are numbers."""
    return int(str(value)) if kind is Kind.BINARY and str(value) in ("0", "1") else str(value)


def _direction(column: Mapping[str, Any], actionability: str) -> Direction:
    if actionability == "free":
        return Direction.FREE
    if actionability == "carla":
        return Direction.IMMUTABLE if _needed(column, "carla_immutable") else Direction.FREE
    given = _needed(column, "actionability")
    if given not in _DIRECTIONS:
        raise FileFormatError(f"column {column['name']!r}: expected one of {list(_DIRECTIONS)}, got {given!r}")
    return _DIRECTIONS[given]


def _needed(column: Mapping[str, Any], key: str) -> Any:
    if key not in column:
        raise FileFormatError(f"column {column['name']!r}: expected {key!r} in the schema, got none")
    return column[key]
