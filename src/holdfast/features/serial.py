"""A feature as plain JSON-able data and back: no pickle, nothing is executed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from enum import StrEnum
from typing import Any

from holdfast.features.columns import Storage
from holdfast.features.feature import Feature
from holdfast.features.kinds import Direction, Kind
from holdfast.features.scaling import Scaling

FORMAT = "holdfast-feature-space"
VERSION = 1


def feature_to_dict(feature: Feature) -> dict[str, Any]:
    """Only str, bool, int, finite float, None, list and dict; floats survive JSON to the last bit."""
    usual = tuple(range(len(feature.variables) - feature.n_codes, len(feature.variables)))
    # What most columns do not have is left out.
    absent: dict[str, Any] = {"values": (), "edges": (), "allowed": None, "missing": ()}
    absent |= {"cells": usual if feature.one_hot else ()}
    absent |= {} if feature.missing else {"flags": (), "fillable": False}
    entry = {one.name: getattr(feature, one.name) for one in fields(feature)}
    entry |= {"scaling": feature.scaling.operations, "storage": asdict(feature.storage)}
    entry["storage"]["levels"] = list(feature.storage.levels)
    return {key: _plain(value) for key, value in entry.items() if key not in absent or value != absent[key]}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, StrEnum):
        return str(value)
    return None if isinstance(value, float) and math.isinf(value) else value


def feature_from_dict(entry: Mapping[str, Any]) -> Feature:
    """What `feature_to_dict` wrote."""
    ends = {"lower": -math.inf, "upper": math.inf}
    known: dict[str, Any] = {
        key: ends.get(key) if value is None else _TYPES[key](value) for key, value in entry.items()
    }
    return Feature(**known)


def _constant(value: Any) -> Any:
    return _floats(value) if isinstance(value, list) else float(value)


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def _storage(entry: Mapping[str, Any]) -> Storage:
    if entry["precision"] not in ("integer", "float16", "float32", "float64"):
        raise ValueError(f"unknown precision {entry['precision']!r}")
    return Storage(**{**entry, "levels": tuple(entry["levels"])})


_TYPES: dict[str, Callable[[Any], Any]] = {
    "name": lambda name: name,
    "kind": Kind,
    "lower": float,
    "upper": float,
    "variables": _ints,
    "step": float,
    "direction": Direction,
    "categories": tuple,
    "one_hot": bool,
    "cells": _ints,
    "values": _floats,
    "edges": _floats,
    "allowed": lambda moves: tuple(_ints(pair) for pair in moves),
    "missing": _floats,
    "flags": lambda flags: tuple((int(place), float(known), float(gone)) for place, known, gone in flags),
    "fillable": bool,
    "cost": float,
    "unit": str,
    "scaling": lambda steps: Scaling(tuple((str(step), _constant(constant)) for step, constant in steps)),
    "storage": _storage,
}
