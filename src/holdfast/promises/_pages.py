"""A page of a ledger: promises made on one day under the same terms, column by column, and its place in the chain.

Of each promise the chain has a *commitment*, the SHA-256 of a random salt and of everything that the promise says:

    commitment = SHA-256(salt, class, verdict, radius, x' as the model read it, key, x, x', date, terms)
    hash       = SHA-256(hash of the page before, number, first, size, terms, note, commitments)

So the chain holds without the promises themselves, and says nothing of them without the salt. An erasure overwrites
everything else that a page says of a promise, the salt too, and is a page of its own, without promises, whose note
names the erased promises.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from holdfast._network import Floats, Ints, Values
from holdfast.errors import FileFormatError
from holdfast.features import FeatureSpace
from holdfast.features._codec import differs

# How many promises at most are in a page, and how many bytes a salt has.
PAGE, SALT = 2048, 32
# A verdict is stored as its place among these.
VERDICTS = ("UNKNOWN", "ROBUST", "NOT_ROBUST", None)
# What is erased is overwritten with this byte, as a verdict too; texts are overwritten with blanks.
ERASED = 255
encode_json: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


# What is said in numbers, and of which kind, and what in lines of text.
_NUMBERS = {"targets": "<u2", "verdicts": "u1", "radii": "<f8", "points": "<f8"}
_TEXTS = ("keys", "counterfactuals", "factuals")


class Columns(NamedTuple):
    """The contents of promises by column; keys and rows are lines of JSON, classes and verdicts their places."""

    keys: Values
    targets: Values
    verdicts: Values
    radii: Values
    points: Values
    counterfactuals: Values
    factuals: Values

    def take(self, places: slice | Values) -> Columns:
        """Those of some promises."""
        return Columns(*(column[places] for column in self))


class Page(NamedTuple):
    """A row of the file; long values come last, so that the rest is read without them.

    `reach` has the largest |value| of each of the model's variables over the page's points.
    """

    number: int
    first: int
    size: int
    terms: str
    note: str = ""
    hash: bytes = b""
    date: str = ""
    reach: bytes = b""
    targets: bytes = b""
    verdicts: bytes = b""
    radii: bytes = b""
    keys: str = ""
    points: bytes = b""
    counterfactuals: str = ""
    factuals: str = ""
    salts: bytes = b""
    commitments: bytes = b""

    @classmethod
    def of(cls, terms: str, date: str, said: Columns) -> Page:
        """Promises on their way into the ledger, which gives the page its place in the chain."""
        size = len(said.keys)
        content: dict[str, Any] = {name: "\n".join(getattr(said, name)) for name in _TEXTS}
        for name, kind in _NUMBERS.items():
            content[name] = getattr(said, name).astype(kind).tobytes()
        page = cls(
            number=0,
            first=0,
            size=size,
            terms=terms,
            date=date,
            reach=_reach(said.points),
            salts=os.urandom(SALT * size),
            **content,
        )
        return page._replace(commitments=page.commit())

    @classmethod
    def erasure(cls, numbers: Sequence[int], who: str, date: str, why: str) -> Page:
        """The entry that names the erased promises, the date, the reason, and the hash of their person."""
        note = encode_json({"erased": list(numbers), "who": who, "date": date, "why": why})
        return cls(0, 0, 0, "", note)

    def linked(self, number: int, first: int, previous: bytes) -> Page:
        """The page at its place in the chain, after the page with this hash."""
        place = encode_json([number, first, self.size, self.terms, self.note])
        own = hashlib.sha256(previous + place.encode() + b"\n" + self.commitments)
        return self._replace(number=number, first=first, hash=own.digest())

    def lines(self, column: str) -> Values:
        """The lines of a column of text, one for each promise."""
        return self._checked(as_objects(getattr(self, column).split("\n")), column)

    def values(self, column: str, kind: str, width: int | None = None) -> Values:
        """The numbers of a column, one for each promise, or a row of `width` numbers."""
        try:
            each = np.dtype(kind if width is None else (kind, (width,)))
            return self._checked(np.frombuffer(getattr(self, column), dtype=each), column)
        except (TypeError, ValueError) as error:
            raise FileFormatError(
                f"page {self.number}: expected numbers as its {column}, got: {error}"
            ) from error

    def _checked(self, values: Values, column: str) -> Values:
        if len(values) != self.size:
            raise FileFormatError(
                f"page {self.number}: expected {self.size} {column}, got {len(values)}"
            )
        return values

    def columns(self, width: int) -> Columns:
        """All that the page says of its promises, whose points have `width` variables."""
        points = {"points": width}
        numbers = {name: self.values(name, _NUMBERS[name], points.get(name)) for name in _NUMBERS}
        return Columns(**numbers, **{name: self.lines(name) for name in _TEXTS})

    @property
    def numbers(self) -> Ints:
        """The place of each promise in the ledger."""
        return np.arange(self.first, self.first + self.size, dtype=np.int64)

    def commit(self) -> bytes:
        """The commitments to what the page says, one after the other."""
        widths = {
            "salts": SALT,
            "targets": 2,
            "verdicts": 1,
            "radii": 8,
            "points": len(self.points) // self.size,
        }
        fixed = np.hstack([self.values(column, "u1", width) for column, width in widths.items()])
        content = fixed.tobytes()
        width = fixed.shape[1]
        end = f"\n{self.date}\n{self.terms}".encode()
        texts = zip(
            self.lines("keys"), self.lines("factuals"), self.lines("counterfactuals"), strict=True
        )
        return b"".join(
            hashlib.sha256(
                content[i * width : (i + 1) * width] + "\n".join(text).encode() + end
            ).digest()
            for i, text in enumerate(texts)
        )

    def blanked(self, places: Ints) -> Page:
        """The page without the contents of some promises, its `reach` as the others have it.

        No length changes: SQLite then overwrites the old contents and leaves no copy of them.
        """

        def blank(text: str) -> str:
            lines = text.split("\n")
            for i in places.tolist():
                lines[i] = " " * len(lines[i])
            return "\n".join(lines)

        def overwritten(content: bytes) -> bytes:
            rows = np.frombuffer(content, dtype="u1").reshape(self.size, -1).copy()
            rows[places] = ERASED
            return rows.tobytes()

        gone: dict[str, Any] = {name: blank(getattr(self, name)) for name in _TEXTS}
        for name in (*_NUMBERS, "salts"):
            gone[name] = overwritten(getattr(self, name))
        return self._replace(
            date=self.date if gone["verdicts"].strip(bytes([ERASED])) else " " * len(self.date),
            reach=_reach(np.frombuffer(gone["points"], dtype="<f8").reshape(self.size, -1)),
            **gone,
        )


def _reach(points: Floats) -> bytes:
    """The largest |value| of each variable over the points that are there."""
    return bytes(np.fmax.reduce(np.abs(points), axis=0, initial=0.0).astype("<f8").tobytes())


# ---------------------------------------------------------------- rows in raw units


def plain_rows(space: FeatureSpace, numbers: Floats) -> list[tuple[Any, ...]]:
    """Each row's raw values as JSON has them, from their numbers; None for missing values.

    Examples
    --------
    >>> people = pd.DataFrame({"income": [1800.0, 2500.5], "children": [0, 2], "job": ["no", "full"]})
    >>> space = FeatureSpace.from_frame(people)
    >>> plain_rows(space, space.numbers(people))
    [(1800.0, 0, 'no'), (2500.5, 2, 'full')]
    """
    columns: list[list[Any]] = []
    for i, feature in enumerate(space.features):
        known = ~np.isnan(numbers[:, i])
        column = numbers[:, i]
        values = as_objects([None] * len(column))
        if feature.labelled:
            values[known] = as_objects([feature.categories[int(code)] for code in column[known]])
        else:
            whole = feature.precision == "integer"
            values[known] = (column[known].astype(np.int64) if whole else column[known]).tolist()
        columns.append(values.tolist())
    return list(zip(*columns, strict=True))


def rows_as_json(space: FeatureSpace, frame: pd.DataFrame) -> Values:
    """Each row's raw values as a JSON array, in the order of the space's columns.

    Numbers have the fewest decimals that read back as the same float, labels are as they are, so that the row says in
    the caller's own units what was promised.

    Examples
    --------
    >>> people = pd.DataFrame({"income": [1800.0, 2500.5], "children": [0, 2], "job": ["no", "full"]})
    >>> rows_as_json(FeatureSpace.from_frame(people), people).tolist()
    ['[1800.0,0,"no"]', '[2500.5,2,"full"]']
    """
    return as_objects([encode_json(row) for row in plain_rows(space, space.numbers(frame))])


def rows_from_json(space: FeatureSpace, lines: Sequence[str] | Values) -> pd.DataFrame:
    """The raw values as a table that any space with these columns can encode: float64, or labels as they are."""
    try:
        rows = json.loads(f"[{','.join(lines)}]")
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(space.features)
        if len(rows) != len(lines) or len(columns) != len(space.features):
            raise ValueError(f"{len(rows)} rows of {len(columns)} values")
        table: dict[Any, Any] = {}
        for feature, column in zip(space.features, columns, strict=True):
            table[feature.name] = (
                as_objects(column) if feature.labelled else np.array(column, dtype=np.float64)
            )
    except (TypeError, ValueError) as error:
        raise FileFormatError(
            f"expected rows of {len(space.features)} values as JSON, got: {error}"
        ) from error
    return pd.DataFrame(table)


def restored_rows(
    space: FeatureSpace, raw: pd.DataFrame, index: pd.Index | None = None
) -> pd.DataFrame:
    """What `rows_from_json` gave in the caller's dtypes."""
    numbers = space.numbers(raw)
    restored = space.restore(numbers, index)
    # The promise is the number that was written: a column that cannot hold it (float32, int8) gives way.
    for i in np.flatnonzero(differs(space.numbers(restored), numbers).any(axis=0)):
        restored[space.features[i].name] = raw[space.features[i].name].to_numpy()
    return restored


def as_objects(values: Sequence[Any]) -> Values:
    """An array of these objects, as they are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
