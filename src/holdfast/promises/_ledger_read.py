"""Read a ledger: promises in batches, and the overview of them that an audit reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast._files import Place, is_parquet, whole_file, write_csv
from holdfast._network import Floats, Ints, Values
from holdfast.changes import Changes, PlausibleChanges
from holdfast.errors import FileFormatError
from holdfast.promises._ledger_file import LedgerFile
from holdfast.promises._pages import (
    ERASED,
    VERDICTS,
    Page,
    as_objects,
    restored_rows,
    rows_from_json,
)
from holdfast.promises._terms import Terms

# How many promises at most are read at once.
BATCH = 10_000
# What is said of a promise in a table of promises.
FRAME_COLUMNS = (
    *("number", "key", "date", "model", "terms", "threshold", "target"),
    *("delta", "norm", "verdict", "radius", "statement", "factual", "counterfactual"),
)
_REACH = "SELECT reach FROM pages WHERE terms = ? AND first BETWEEN ? AND ?"
_REACHES = 10_000
_OVERVIEW = "number, first, size, terms, note, hash, date, x'', targets, verdicts, radii, keys"


@dataclass(frozen=True, eq=False)
class Promises:
    """A batch of promises made under the same terms.

    Attributes
    ----------
    terms
        The model, the feature space, the threshold and Δ.
    numbers
        The number of each promise in the ledger, from 1.
    keys, dates
        The key of the person, and the date of the promise (ISO 8601).
    targets
        The class promised, a label of ``terms.classifier.classes``.
    verdicts
        "ROBUST", "NOT_ROBUST" or "UNKNOWN" under Δ; None without Δ.
    radius
        The certified radius: delta in ``terms.norm``, or the margin or radius of another kind of change; nan if it was
        not recorded.
    points
        x' as the recorded model reads it.
    erased
        The numbers of erased promises among these; no other field has data of them.
    """

    terms: Terms
    numbers: Ints
    keys: Values
    dates: Values
    targets: Values
    verdicts: Values
    radius: Floats
    points: Floats
    factual_texts: Values
    counterfactual_texts: Values
    erased: Ints

    @classmethod
    def of(cls, page: Page, terms: Terms, places: Ints) -> Promises:
        """Some of the promises of a page."""
        said = page.columns(terms.space.n_variables)
        gone = said.verdicts[places] == ERASED
        erased = page.numbers[places[gone]]
        places = places[~gone]
        said = said.take(places)
        try:
            keys = as_objects(json.loads(f"[{','.join(said.keys)}]"))
            targets = as_objects(terms.classifier.classes.tolist())[said.targets]
            verdicts = as_objects(VERDICTS)[said.verdicts]
        except (ValueError, IndexError) as error:
            raise FileFormatError(
                f"page {page.number}: expected what a ledger writes, got: {error}"
            ) from error
        return cls(
            terms=terms,
            numbers=page.numbers[places],
            keys=keys,
            dates=as_objects([page.date] * len(places)),
            targets=targets,
            verdicts=verdicts,
            radius=said.radii,
            points=said.points,
            factual_texts=said.factuals,
            counterfactual_texts=said.counterfactuals,
            erased=erased,
        )

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

    def _restored(self, texts: Values) -> pd.DataFrame:
        space = self.terms.space
        return restored_rows(space, rows_from_json(space, texts), pd.Index(self.keys, name="key"))

    def to_frame(self) -> pd.DataFrame:
        """A table with one row for each promise: number, key, date, model, target, Δ, verdict, radius, then x, x' as
        JSON.

        The verdict of an erased promise is "ERASED", and only its terms are known.
        """
        terms = self.terms
        n = len(self.numbers)
        said = {
            "number": self.numbers,
            "key": self.keys,
            "date": self.dates,
            "model": [terms.model_hash] * n,
            "terms": [terms.hash] * n,
            "threshold": [terms.threshold] * n,
            "target": self.targets,
            "delta": [_delta_text(terms.changes)] * n,
            "norm": ["" if terms.norm is None else str(terms.norm)] * n,
            "verdict": self.verdicts,
            "radius": self.radius,
            "statement": [terms.statement(verdict) for verdict in self.verdicts],
            "factual": self._named(self.factual_texts),
            "counterfactual": self._named(self.counterfactual_texts),
        }
        if not self.erased.size:
            return pd.DataFrame(said)
        gone = pd.DataFrame(
            {"number": self.erased, "verdict": "ERASED", "statement": "erased"}, columns=list(said)
        )
        gone["model"] = terms.model_hash
        gone["terms"] = terms.hash
        return pd.concat([pd.DataFrame(said)] * bool(n) + [gone]).sort_values(
            "number", ignore_index=True
        )

    def _named(self, texts: Values) -> list[str]:
        """Rows as JSON objects with the names of the columns."""
        names = [str(name) for name in self.terms.space.names]
        return [json.dumps(dict(zip(names, json.loads(text), strict=True))) for text in texts]


def promises_frame(batches: Sequence[Promises]) -> pd.DataFrame:
    """All promises in one table, in the order of the ledger; without promises it still has its columns."""
    if not batches:
        return pd.DataFrame(columns=list(FRAME_COLUMNS))
    frames = [batch.to_frame() for batch in batches]
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


def _delta_text(changes: Changes | None) -> str:
    """The radius or radii as JSON; in words if there are many, or of another kind: the terms have them in full."""
    if changes is None:
        return ""
    plain = isinstance(changes, PlausibleChanges) and not changes.per_parameter
    return json.dumps(changes.to_dict()["delta"]) if plain else changes.words


# ---------------------------------------------------------------- what an audit reads


class Overview:
    """The overview of the promises in some pages under the same terms.

    Points and rows are long, and are read only when needed. So a ledger whose promises are all certain is audited in a
    moment.
    """

    def __init__(self, file: LedgerFile, terms: Terms, spans: Ints) -> None:
        self._file = file
        self._terms = terms
        self._between = (terms.hash, int(spans[0, 0]), int(spans[-1, 0]))
        self.pages = [Page(*row) for row in self._columns(_OVERVIEW)]
        if not np.array_equal([(page.first, page.size) for page in self.pages], spans):
            raise FileFormatError(
                f"pages from promise {spans[0, 0]} on: expected a file that is only added to"
            )
        self.numbers = np.concatenate([page.numbers for page in self.pages])
        self.targets = np.concatenate([page.values("targets", "<u2") for page in self.pages])
        self.radius = np.concatenate([page.values("radii", "<f8") for page in self.pages])
        verdicts = np.concatenate([page.values("verdicts", "u1") for page in self.pages])
        self.robust = verdicts == VERDICTS.index("ROBUST")
        self.erased = verdicts == ERASED
        if (self.targets[~self.erased] >= len(terms.classifier.classes)).any():
            raise self._without("a class")

    def __len__(self) -> int:
        return int(self.numbers.shape[0])

    def places(self, first: int) -> slice | Ints:
        """The positions of these promises from one number on: a slice if they are contiguous, which is faster."""
        start, end = int(self.numbers[0]) - first, int(self.numbers[-1]) + 1 - first
        return slice(start, end) if end - start == len(self) else self.numbers - first

    def _columns(self, names: str) -> list[Any]:
        asked = (
            f"SELECT {names} FROM pages WHERE terms = ? AND first BETWEEN ? AND ? ORDER BY first"
        )
        return self._file.query(asked, *self._between)

    def _without(self, what: str) -> FileFormatError:
        return FileFormatError(
            f"promises {self.numbers[0]} to {self.numbers[-1]}: expected {what} of each, got others: the file is "
            "damaged, or a promise was erased meanwhile"
        )

    def points(self, places: Ints) -> Floats:
        """x' of some of these promises, as the recorded model reads them."""
        content = b"".join(chain(*self._columns("points")))
        width = self._terms.space.n_variables
        if len(content) != 8 * width * len(self):
            raise self._without("a point")
        points = np.frombuffer(content, dtype="<f8").reshape(-1, width)
        points = points if len(places) == len(points) else points[places]
        if np.isnan(points).any():
            raise self._without("a point")
        return points

    def counterfactuals(self, places: Ints) -> pd.DataFrame:
        """x' of some of these promises in raw units: float64, or labels."""
        lines = as_objects(
            [line for (text,) in self._columns("counterfactuals") for line in text.split("\n")]
        )
        if len(lines) != len(self):
            raise self._without("a row")
        return rows_from_json(self._terms.space, lines[places])


def overviews(
    file: LedgerFile, terms: Terms, spans: Ints, batch: int = BATCH
) -> Iterator[Overview]:
    """Yield whole pages with these (first, size), until there are `batch` promises."""
    ends = np.cumsum(spans[:, 1])
    start = 0
    while start < len(spans):
        before = ends[start - 1] if start else 0
        stop = min(int(np.searchsorted(ends, before + batch)) + 1, len(spans))
        yield Overview(file, terms, spans[start:stop])
        start = stop


def reach_of(file: LedgerFile, terms: Terms, spans: Ints) -> Floats:
    """The largest |u| of each of the model's variables over the promises in the pages with these (first, size)."""
    largest = np.zeros(terms.space.n_variables)
    for start in range(0, len(spans), _REACHES):
        some = spans[start : start + _REACHES, 0].tolist()
        rows = file.query(_REACH, terms.hash, some[0], some[-1])
        if any(len(reach) != largest.nbytes for (reach,) in rows):
            raise FileFormatError(
                f"pages from promise {some[0]} on: expected a reach over {len(largest)} variables"
            )
        values = np.frombuffer(b"".join(chain(*rows)), dtype="<f8").reshape(-1, len(largest))
        largest = np.maximum(largest, values.max(axis=0))
    return largest


# ---------------------------------------------------------------- the whole ledger as a table


def export(batches: Iterable[Promises], path: Place, terms: Iterable[Terms]) -> int:
    """Write the table in the format of the file's name, in batches; returns the number of promises."""
    place = Path(path)
    tables = (batch.to_frame() for batch in batches)
    # Labels of different models may have different types, which one column of a file cannot hold.
    frames = (table.assign(target=table["target"].map(str, na_action="ignore")) for table in tables)
    parquet = is_parquet(place)
    with whole_file(place) as partial:
        if not parquet:
            return _write_csv(frames, partial)
        # There may be a threshold for each class.
        several = any(isinstance(own.threshold, tuple) for own in terms)
        return _write_parquet(frames, partial, text={"threshold"} if several else set())


def _write_csv(frames: Iterable[pd.DataFrame], path: Path) -> int:
    write_csv(pd.DataFrame(columns=list(FRAME_COLUMNS)), path, index=False)
    count = 0
    for frame in frames:
        write_csv(frame, path, index=False, header=False, mode="a")
        count += len(frame)
    return count


def _write_parquet(frames: Iterable[pd.DataFrame], path: Path, text: set[str]) -> int:
    import pyarrow  # type: ignore[import-untyped]
    from pyarrow import parquet

    kinds = {"number": pyarrow.int64(), "threshold": pyarrow.float64(), "radius": pyarrow.float64()}
    kinds |= dict.fromkeys(text, pyarrow.string())
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in FRAME_COLUMNS])
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for frame in frames:
            frame = frame.assign(**{name: frame[name].map(str) for name in text})
            writer.write_table(
                pyarrow.Table.from_pandas(frame, schema=schema, preserve_index=False)
            )
            count += len(frame)
    return count
