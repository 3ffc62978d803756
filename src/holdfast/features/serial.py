"""A feature space as plain JSON-able data and back: no pickle, nothing is executed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features.columns import Storage
from holdfast.features.feature import Feature
from holdfast.features.kinds import Direction, Kind
from holdfast.features.notes import Notes
from holdfast.features.rules import Rule
from holdfast.features.scaling import Scaling

FORMAT = "holdfast-feature-space"
VERSION = 1


def to_dict(features: Sequence[Feature], rules: Sequence[Rule], notes: Notes) -> dict[str, Any]:
    """Only str, bool, int, finite float, None, list and dict; floats survive JSON to the last bit."""
    said = {"notes": notes.to_list()} if notes else {}
    return {
        "format": FORMAT,
        "version": VERSION,
        "features": [feature_to_dict(feature) for feature in features],
        "rules": [rule.text for rule in rules],
        **said,
    }


def from_dict(data: Mapping[str, Any]) -> tuple[tuple[Feature, ...], tuple[Rule, ...], Notes]:
    """What `to_dict` wrote."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT or data.get("version") != VERSION:
        came = f"{data.get('format')} version {data.get('version')}" if isinstance(data, Mapping) else repr(data)
        raise FileFormatError(f"expected {FORMAT} version {VERSION}, got {came}")
    try:
        features = tuple(feature_from_dict(entry) for entry in data["features"])
        rules = tuple(Rule.parse(text) for text in data["rules"])
        notes = Notes.from_list(data.get("notes", ()))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(
            f"expected a feature space written by holdfast, got one with an error: {error}"
        ) from error
    return features, rules, notes


def feature_to_dict(feature: Feature) -> dict[str, Any]:
    """One column."""
    return {
        "name": feature.name,
        "kind": str(feature.kind),
        "lower": None if math.isinf(feature.lower) else feature.lower,
        "upper": None if math.isinf(feature.upper) else feature.upper,
        "variables": list(feature.variables),
        "step": feature.step,
        "direction": str(feature.direction),
        "categories": list(feature.categories),
        "one_hot": feature.one_hot,
        **_unusual(feature),
        "cost": feature.cost,
        "unit": feature.unit,
        "scaling": [[name, list(c) if isinstance(c, tuple) else c] for name, c in feature.scaling.operations],
        "storage": {
            "dtype": feature.storage.dtype,
            "precision": feature.storage.precision,
            "levels": list(feature.storage.levels),
            "ordered": feature.storage.ordered,
        },
    }


def _unusual(feature: Feature) -> dict[str, Any]:
    """What most columns do not have, so that their files stay as they were."""
    usual = tuple(range(len(feature.variables) - feature.n_codes, len(feature.variables)))
    found: dict[str, Any] = {}
    if feature.one_hot and feature.cells != usual:
        found["cells"] = list(feature.cells)
    if feature.missing:
        found |= {"flags": [list(flag) for flag in feature.flags], "fillable": feature.fillable}
    for name in ("values", "edges", "missing"):
        if getattr(feature, name):
            found[name] = list(getattr(feature, name))
    if feature.allowed is not None:
        found["allowed"] = [list(pair) for pair in feature.allowed]
    return found


def feature_from_dict(entry: Mapping[str, Any]) -> Feature:
    """What `feature_to_dict` wrote."""
    storage = entry["storage"]
    if storage["precision"] not in ("integer", "float16", "float32", "float64"):
        raise InvalidInputError(f"unknown precision {storage['precision']!r}")
    return Feature(
        name=entry["name"],
        kind=Kind(entry["kind"]),
        lower=-math.inf if entry["lower"] is None else float(entry["lower"]),
        upper=math.inf if entry["upper"] is None else float(entry["upper"]),
        variables=tuple(int(variable) for variable in entry["variables"]),
        step=None if entry["step"] is None else float(entry["step"]),
        direction=Direction(entry["direction"]),
        categories=tuple(entry["categories"]),
        one_hot=bool(entry["one_hot"]),
        cells=tuple(int(cell) for cell in entry.get("cells", ())),
        values=tuple(float(value) for value in entry.get("values", ())),
        edges=tuple(float(edge) for edge in entry.get("edges", ())),
        missing=tuple(float(value) for value in entry.get("missing", ())),
        flags=tuple((int(place), float(known), float(gone)) for place, known, gone in entry.get("flags", ())),
        fillable=bool(entry.get("fillable", False)),
        allowed=None if entry.get("allowed") is None else tuple((int(a), int(b)) for a, b in entry["allowed"]),
        cost=float(entry["cost"]),
        unit=str(entry["unit"]),
        scaling=Scaling(tuple((str(operation), _constant(constant)) for operation, constant in entry["scaling"])),
        storage=Storage(
            str(storage["dtype"]), str(storage["precision"]), tuple(storage["levels"]), bool(storage["ordered"])
        ),
    )


def _constant(value: Any) -> float | tuple[float, ...]:
    return tuple(float(part) for part in value) if isinstance(value, list | tuple) else float(value)
