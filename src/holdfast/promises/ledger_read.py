"""Reading a ledger: batch by batch, so that no more than a batch is in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.errors import FileFormatError
from holdfast.network import Floats
from holdfast.promises.ledger_entries import PAGE
from holdfast.promises.ledger_pages import Overview
from holdfast.promises.ledger_rows import Promises, encode_json, rows_from_json
from holdfast.promises.ledger_store import Store
from holdfast.promises.ledger_terms import Terms

BATCH = 10_000
_ENTRY = "number, key, date, target, verdict, radius, factual, counterfactual"
_PAGES_AFTER = "SELECT first, size, terms FROM pages WHERE first > ? AND first <= ? ORDER BY first LIMIT 1000"
_SIZES = "SELECT first, size FROM pages WHERE terms = ? AND first > ? AND first <= ? ORDER BY first LIMIT 10000"
_OVERVIEW = (
    "SELECT first, size, date, target, verdicts, radii, keys FROM pages "
    "WHERE terms = ? AND first BETWEEN ? AND ? ORDER BY first"
)
_POINTS = (
    "SELECT first, size, points FROM pages WHERE terms = ?1 AND first <= ?3 AND first + size > ?2 "
    f"AND first > ?2 - {PAGE} ORDER BY first"
)
_REACH = "SELECT first, reach FROM pages WHERE terms = ? AND first > ? AND first <= ? ORDER BY first LIMIT 10000"
# Rows so far apart are looked up one by one; SQLite takes at least 999 arguments.
_SPARSE, _ARGUMENTS = 20, 500


class Reader:
    """Everything in a ledger's file that is not written."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._read: dict[str, Terms] = {}

    def terms(self) -> dict[int, Terms]:
        """What promises were made under, by its number in this file."""
        return {place: self._terms(name) for place, name in self.store.terms().items()}

    def _terms(self, name: str) -> Terms:
        """Read once and held against their hash, which is all that they can ever be."""
        if name not in self._read:
            self._read[name] = Terms.read(name, self.store.fetch)
        return self._read[name]

    def place(self, terms: Terms) -> int:
        """The number of some terms in this file; 0 if it does not have them."""
        return next((place for place, name in self.store.terms().items() if name == terms.hash), 0)

    # ------------------------------------------------------------------ whole promises

    def promises(self, *, batch: int, terms: Terms | None, last: int | None) -> Iterator[Promises]:
        """See `Ledger.promises`."""
        wanted = self.terms() if terms is None else {self.place(terms): terms}
        end = self.store.head()[0] if last is None else last
        for place, first, until in self._runs(wanted, batch, end):
            rows = self._between(_ENTRY, place, first, until)
            points = self.under(wanted[place]).points(first, until)
            if not len(rows) == len(points) == until + 1 - first:
                raise FileFormatError(f"entries {first} to {until}: expected {until + 1 - first}, got {len(rows)}")
            yield _batch(wanted[place], rows, points)

    def _runs(self, wanted: Mapping[int, Terms], batch: int, last: int) -> Iterator[tuple[int, int, int]]:
        """(terms, first, last) of promises in a row, at most `batch` of them, in the order of the ledger."""
        after = 0
        while pages := self.store.query(_PAGES_AFTER, (after, last)):
            after = pages[-1][0]
            for first, count, place in pages:
                if place in wanted:
                    for start in range(first, min(first + count - 1, last) + 1, batch):
                        yield place, start, min(start + batch, first + count, last + 1) - 1

    def find(self, key: str) -> list[Promises]:
        """The promises made to someone, those under the same terms together."""
        names, found = self.store.terms(), []
        rows = self.store.query(f"SELECT terms, {_ENTRY} FROM promises WHERE key = ? ORDER BY number", (key,))
        for place in dict.fromkeys(row[0] for row in rows):
            if place not in names:
                raise FileFormatError(f"key {key!r}: expected a promise with terms, got one without")
            terms, mine = self._terms(names[place]), [row[1:] for row in rows if row[0] == place]
            # The point of a promise is the encoding of its row, and the row is at hand.
            points = terms.space.encode(rows_from_json(terms.space, [row[-1] for row in mine]))
            found.append(_batch(terms, mine, points))
        return found

    def _between(self, columns: str, place: int, first: int, last: int) -> list[Any]:
        return self.store.query(
            f"SELECT {columns} FROM promises WHERE number BETWEEN ? AND ? AND terms = ? ORDER BY number",
            (first, last, place),
        )

    def under(self, terms: Terms) -> TermsReader:
        """What there is of the promises made under some terms, without opening all of them."""
        return TermsReader(self, terms)


class TermsReader:
    """The promises made under the same terms, by their columns: what an audit goes through."""

    def __init__(self, reader: Reader, terms: Terms) -> None:
        self.reader, self.terms = reader, terms

    @cached_property
    def _place(self) -> int:
        return self.reader.place(self.terms)

    def pages(self, last: int) -> NDArray[np.int64]:
        """(first, size) of every page that begins up to a number."""
        after, parts = -(2**62), [np.empty((0, 2), dtype=np.int64)]
        while found := self.reader.store.query(_SIZES, (self._place, after, last)):
            try:
                parts.append(np.array(found, dtype=np.int64))
            except (TypeError, ValueError, OverflowError) as error:
                raise FileFormatError(f"pages from {found[0][0]} on: expected sizes, got: {error}") from error
            after = found[-1][0]
        return np.concatenate(parts)

    def overview(self, pages: NDArray[np.int64], batch: int) -> Iterator[Overview]:
        """Key, date, target, verdict and radius of the promises in some pages, whole pages until there are `batch`.

        A ledger whose promises need not be looked at is gone through in a moment.
        """
        ends = np.cumsum(pages[:, 1])
        start = 0
        while start < len(pages):
            before = ends[start - 1] if start else 0
            stop = min(int(np.searchsorted(ends, before + batch)) + 1, len(pages))
            firsts = (int(pages[start, 0]), int(pages[stop - 1, 0]))
            found = self.reader.store.query(_OVERVIEW, (self._place, *firsts))
            if [list(row[:2]) for row in found] != pages[start:stop].tolist():
                raise FileFormatError(f"pages {firsts[0]} to {firsts[1]}: expected a file that is only added to")
            yield Overview.of(found)
            start = stop

    def points(self, first: int, last: int) -> Floats:
        """x' of the promises from one number to another, as the model of that day read them."""
        pages = self.reader.store.query(_POINTS, (self._place, first, last))
        width = 8 * self.terms.space.n_variables
        if any(not isinstance(blob, bytes) or len(blob) != count * width for _, count, blob in pages):
            raise FileFormatError(f"entries {first} to {last}: expected a point for each, got pages of another size")
        content = b"".join(page[2] for page in pages)
        points = np.frombuffer(content, dtype="<f8").reshape(-1, self.terms.space.n_variables)
        # The first page may begin before the first promise wanted, and the last end after the last.
        begin = max(first - pages[0][0], 0) if pages else 0
        beyond = max(pages[-1][0] + pages[-1][1] - 1 - last, 0) if pages else 0
        return points[begin : len(points) - beyond]

    def reach(self, last: int) -> Floats:
        """The largest |u| of each of the model's variables over the promises up to a number."""
        width, after = self.terms.space.n_variables, -(2**62)
        largest = np.zeros(width)
        while found := self.reader.store.query(_REACH, (self._place, after, last)):
            if any(not isinstance(blob, bytes) or len(blob) != 8 * width for _, blob in found):
                raise FileFormatError(f"pages from {found[0][0]} on: expected a reach of {width} variables")
            values = np.frombuffer(b"".join(blob for _, blob in found), dtype="<f8").reshape(-1, width)
            largest, after = np.maximum(largest, values.max(axis=0)), found[-1][0]
        return largest

    def counterfactual_rows(self, numbers: NDArray[np.int64]) -> pd.DataFrame:
        """x' of some promises, in raw units: float64, or labels."""
        wanted, texts = numbers.tolist(), {}
        if wanted and wanted[-1] - wanted[0] < _SPARSE * len(wanted):
            texts = dict(self.reader._between("number, counterfactual", self._place, wanted[0], wanted[-1]))
        else:
            for start in range(0, len(wanted), _ARGUMENTS):
                some = wanted[start : start + _ARGUMENTS]
                marks = ", ".join("?" * len(some))
                statement = f"SELECT number, counterfactual FROM promises WHERE number IN ({marks}) AND terms = ?"
                texts |= dict(self.reader.store.query(statement, (*some, self._place)))
        missing = [number for number in wanted if number not in texts]
        if missing:
            raise FileFormatError(f"entry {missing[0]}: expected it in the ledger, got none")
        return rows_from_json(self.terms.space, [texts[number] for number in wanted])


def _batch(terms: Terms, rows: list[tuple[Any, ...]], points: Floats) -> Promises:
    numbers, keys, dates, targets, verdicts, radius, before, after = zip(*rows, strict=True)
    labels = {encode_json(label): label for label in terms.classifier.classes.tolist()}
    strange = next((i for i, text in enumerate(targets) if text not in labels), None)
    if strange is not None:
        raise FileFormatError(f"entry {numbers[strange]}: expected a class of its model, got {targets[strange]}")
    return Promises(
        terms=terms,
        numbers=np.array(numbers, dtype=np.int64),
        keys=np.array(keys, dtype=object),
        dates=np.array(dates, dtype=object),
        targets=np.array([labels[text] for text in targets], dtype=object),
        verdicts=np.array(verdicts, dtype=object),
        radius=np.array(radius, dtype=np.float64),
        points=points,
        factual_texts=before,
        counterfactual_texts=after,
    )
