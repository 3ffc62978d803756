"""Schema files: a data set's columns, kinds, ranges and what a person can change, as JSON.

A column, of whatever role, may also say ``"protected": true``, ``"label": "number of missed payments"``,
``"words": {"A151": "rented"}`` of its values or its unit, and ``"reason": {"code": "38", "text": "Serious
delinquency"}``; each text may be one for each language, ``{"en": "rented", "de": "gemietet"}``: see
`holdfast.features.notes`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features.columns import Storage
from holdfast.features.feature import Feature
from holdfast.features.kinds import Direction, Kind, Label
from holdfast.features.notes import Notes

ACTIONABILITY = ("schema", "carla", "free")
KINDS = ("schema", "carla")
_DIRECTIONS = {
    "mutable": Direction.FREE,
    "immutable": Direction.IMMUTABLE,
    "increase_only": Direction.INCREASING,
    "decrease_only": Direction.DECREASING,
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
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise FileFormatError(
                f"{path}: expected a JSON schema file, got one that cannot be read: {error}"
            ) from error
        return cls.from_dict(data, str(path))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], origin: str = "schema") -> Schema:
        """A schema from the content of its file."""
        try:
            target = data["target"]
            columns = tuple(dict(column) for column in data["columns"])
            for column in columns:
                _ = column["name"], column["role"], Kind(column["kind"])
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
                f"{origin}: expected a schema with name, target and columns (name, role, kind), got {what}"
            ) from error

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns that a model may read: neither the target nor auxiliary ones."""
        return tuple(column["name"] for column in self.columns if column["role"] == "feature")

    @property
    def notes(self) -> Notes:
        """Which columns are protected, what people call them, and their adverse-action reasons."""
        return Notes.from_list(self.columns)

    def features(self, *, actionability: str = "schema", kinds: str = "schema") -> tuple[Feature, ...]:
        """The feature columns, not yet scaled or placed; see `FeatureSpace.from_schema` for the arguments."""
        for argument, value, allowed in (("actionability", actionability, ACTIONABILITY), ("kinds", kinds, KINDS)):
            if value not in allowed:
                raise InvalidInputError(f"{argument}: expected one of {list(allowed)}, got {value!r}")
        return tuple(_feature(column, actionability, kinds) for column in self.columns if column["role"] == "feature")


def _feature(column: Mapping[str, Any], actionability: str, kinds: str) -> Feature:
    name = str(column["name"])
    kind = Kind(column["kind"])
    if kinds == "carla" and kind in (Kind.INTEGER, Kind.ORDINAL) and _needed(column, "carla_type") == "continuous":
        kind = Kind.CONTINUOUS
    direction, unit = _direction(column, actionability), str(column.get("unit", ""))
    labels = tuple(_label(entry["value"], kind) for entry in column.get("categories", ()))
    if kind is Kind.BINARY and not labels:
        labels = (0, 1)
    if labels:
        dtype = str(pd.Series([str(labels[0])]).dtype) if isinstance(labels[0], str) else "int64"
        return Feature(
            name, kind, 0.0, len(labels) - 1.0, (), direction=direction, categories=labels, unit=unit,
            storage=Storage(dtype, "float64" if isinstance(labels[0], str) else "integer"),
        )  # fmt: skip
    whole = kind in (Kind.INTEGER, Kind.ORDINAL)
    step = column.get("step", 1.0 if whole else None)
    return Feature(
        name, kind, float(_needed(column, "min")), float(_needed(column, "max")), (),
        step=None if step is None else float(step), direction=direction, unit=unit,
        storage=Storage("int64", "integer") if whole else Storage(),
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
