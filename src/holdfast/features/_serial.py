"""A feature as plain JSON-able data and back: no pickle, nothing is executed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from holdfast._files import Document
from holdfast.features._columns import Storage
from holdfast.features._feature import Feature
from holdfast.features._kinds import Direction, Kind
from holdfast.features._scaling import Scaling

FORMAT = "holdfast-feature-space"
VERSION = 1


def feature_to_dict(feature: Feature) -> Document:
    """Only str, bool, int, finite float, None, list and dict; floats survive JSON to the last bit."""
    usual = tuple(range(len(feature.variables) - feature.n_codes, len(feature.variables)))
    # What most columns do not have is left out.
    absent: Document = {"values": (), "edges": (), "allowed": None, "missing": (), "span": 1.0}
    absent |= {"max_change": ()}
    absent |= {"cells": usual if feature.one_hot else ()}
    absent |= {} if feature.missing else {"flags": (), "fillable": False}
    entry = {one.name: getattr(feature, one.name) for one in fields(feature)}
    entry |= {"scaling": feature.scaling.operations, "storage": asdict(feature.storage)}
    entry |= {end: None for end in ("lower", "upper") if math.isinf(entry[end])}
    said = {key: value for key, value in entry.items() if key not in absent or value != absent[key]}
    plain: Document = json.loads(json.dumps(said))
    return plain


def feature_from_dict(entry: Mapping[str, Any]) -> Feature:
    """What `feature_to_dict` wrote."""
    storage = entry["storage"]
    if storage["precision"] not in ("integer", "float16", "float32", "float64"):
        raise ValueError(f"unknown precision {storage['precision']!r}")
    known = {key: _frozen(value) for key, value in entry.items()}
    known |= {
        "kind": Kind(entry["kind"]),
        "direction": Direction(entry.get("direction", Direction.FREE)),
    }
    absent = {"lower": -math.inf, "upper": math.inf, "step": None, "cost": 1.0, "span": 1.0}
    for key, nothing in absent.items():
        known[key] = nothing if entry.get(key) is None else float(entry[key])
    known["scaling"] = Scaling(_frozen(entry.get("scaling", ())))
    known["storage"] = Storage(**{key: _frozen(value) for key, value in storage.items()})
    return Feature(**known)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
