"""Rows of the caller's table as JSON and back, and the batches in which a ledger is read.

A row is a JSON array of raw values in the order of the space's columns. Numbers are written with the fewest decimals
that read back as the same float, labels as they are, so that the row says in the caller's own units what was promised.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.changes import Changes, PlausibleChanges
from holdfast.errors import FileFormatError
from holdfast.features import FeatureSpace
from holdfast.features.codec import differs
from holdfast.network import Floats
from holdfast.promises.ledger_terms import Terms

# What is said of a promise in a table of promises.
FRAME_COLUMNS = (
    *("number", "key", "date", "model", "terms", "threshold", "target"),
    *("delta", "norm", "verdict", "radius", "statement", "factual", "counterfactual"),
)
encode_json: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def rows_as_json(space: FeatureSpace, frame: pd.DataFrame) -> list[str]:
    """Each row's raw values as a JSON array.

    Examples
    --------
    >>> people = pd.DataFrame({"income": [1800.0, 2500.5], "children": [0, 2], "job": ["no", "full"]})
    >>> rows_as_json(FeatureSpace.from_frame(people), people)
    ['[1800.0,0,"no"]', '[2500.5,2,"full"]']
    """
    numbers = space.numbers(frame)
    columns: list[list[Any]] = []
    for i, feature in enumerate(space.features):
        known, column = ~np.isnan(numbers[:, i]), numbers[:, i]
        values = as_objects([None] * len(column))
        if feature.labelled:
            values[known] = as_objects([feature.categories[int(code)] for code in column[known]])
        else:
            whole = feature.precision == "integer"
            values[known] = (column[known].astype(np.int64) if whole else column[known]).tolist()
        columns.append(values.tolist())
    return [encode_json(row) for row in zip(*columns, strict=True)]


def rows_from_json(space: FeatureSpace, texts: Sequence[str]) -> pd.DataFrame:
    """The raw values as a table that any space with these columns can encode: float64, or labels as they are."""
    try:
        rows = json.loads(f"[{','.join(texts)}]")
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(space.features)
        if len(rows) != len(texts) or len(columns) != len(space.features):
            raise ValueError(f"{len(rows)} rows of {len(columns)} values")
        table: dict[Any, Any] = {}
        for feature, column in zip(space.features, columns, strict=True):
            table[feature.name] = as_objects(column) if feature.labelled else np.array(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"expected rows of {len(space.features)} values as JSON, got: {error}") from error
    return pd.DataFrame(table)


def restored_rows(space: FeatureSpace, raw: pd.DataFrame, index: pd.Index | None = None) -> pd.DataFrame:
    """What `rows_from_json` gave in the caller's dtypes."""
    numbers = space.numbers(raw)
    restored = space.restore(numbers, index)
    # The promise is the number that was written: a column that cannot hold it (float32, int8) gives way.
    for i, lost in enumerate(np.any(differs(space.numbers(restored), numbers), axis=0).tolist()):
        if lost:
            restored[space.features[i].name] = raw[space.features[i].name].to_numpy()
    return restored


def as_objects(values: Sequence[Any]) -> NDArray[Any]:
    """One object for each value, whatever it is."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@dataclass(frozen=True, eq=False)
class Promises:
    """A batch of promises made under the same terms.

    Attributes
    ----------
    terms
        The model, the feature space, the threshold and Δ.
    numbers
        Where each stands in the ledger, from 1.
    keys, dates
        Whose it is and when it was made (ISO 8601).
    targets
        The class promised, a label of ``terms.classifier.classes``.
    verdicts
        "ROBUST", "NOT_ROBUST" or "UNKNOWN" under Δ; None without Δ.
    radius
        The certified radius: delta in ``terms.norm``, or the margin or radius of another kind of change; nan where it
        was not recorded.
    points
        x' as the model of that day read it.
    """

    terms: Terms
    numbers: NDArray[np.int64]
    keys: NDArray[Any]
    dates: NDArray[Any]
    targets: NDArray[Any]
    verdicts: NDArray[Any]
    radius: Floats
    points: Floats
    factual_texts: Sequence[str]
    counterfactual_texts: Sequence[str]

    def __len__(self) -> int:
        return int(self.numbers.shape[0])

    @cached_property
    def factuals(self) -> pd.DataFrame:
        """x in the caller's columns, dtypes and units, indexed by key."""
        return self._restored(self.factual_texts)

    @cached_property
    def counterfactuals(self) -> pd.DataFrame:
        """x' in the caller's columns, dtypes and units, indexed by key."""
        return self._restored(self.counterfactual_texts)

    def _restored(self, texts: Sequence[str]) -> pd.DataFrame:
        space = self.terms.space
        return restored_rows(space, rows_from_json(space, texts), pd.Index(self.keys, name="key"))

    def to_frame(self) -> pd.DataFrame:
        """One row for each promise: number, key, date, model, target, Δ, verdict, radius, then x and x' as JSON."""
        return pd.DataFrame(
            {
                "number": self.numbers,
                "key": self.keys,
                "date": self.dates,
                "model": self.terms.model_hash,
                "terms": self.terms.hash,
                "threshold": [self.terms.threshold] * len(self.numbers),
                "target": self.targets,
                "delta": _delta_text(self.terms.changes),
                "norm": "" if self.terms.norm is None else str(self.terms.norm),
                "verdict": self.verdicts,
                "radius": self.radius,
                "statement": [self.terms.statement(verdict) for verdict in self.verdicts],
                "factual": _with_names(self.terms.space, self.factual_texts),
                "counterfactual": _with_names(self.terms.space, self.counterfactual_texts),
            }
        )


def promises_frame(batches: Sequence[Promises]) -> pd.DataFrame:
    """All of them in one table, which has its columns even if there are none, in the order of the ledger."""
    if not batches:
        return pd.DataFrame(columns=list(FRAME_COLUMNS))
    frame = pd.concat([batch.to_frame() for batch in batches])
    return frame.sort_values("number", ignore_index=True)


def _delta_text(changes: Changes | None) -> str:
    """The radius or radii as JSON; in words where they are many, or of another kind: the terms say them in full."""
    if changes is None:
        return ""
    plain = isinstance(changes, PlausibleChanges) and not changes.per_parameter
    return json.dumps(changes.to_dict()["delta"]) if plain else changes.words


def _with_names(space: FeatureSpace, texts: Sequence[str]) -> list[str]:
    """Rows as JSON objects, which say what each value is."""
    names = [str(name) for name in space.names]
    return [json.dumps(dict(zip(names, json.loads(text), strict=True))) for text in texts]
