"""What a ledger's file holds of a promise: an entry in the chain, and its place in a page.

A *page* is what an audit looks at: up to some thousands of promises in one row of a table, as arrays that are read at
the speed of memory. It says nothing that its entries do not say; `verify` compares the two to the last byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from holdfast.promises.ledger_rows import encode_json

COLUMNS = ("number", "key", "date", "terms", "target", "verdict", "radius", "factual", "counterfactual")
# The byte that stands for a verdict in a page.
VERDICT_CODES: dict[str | None, int] = {"UNKNOWN": 0, "ROBUST": 1, "NOT_ROBUST": 2, None: 3}
# How many promises at most are in a page.
PAGE = 4096


class Entry(NamedTuple):
    """A promise as it is stored, its point in a page; `terms` is the number of its terms in this file."""

    number: int
    key: str
    date: str
    terms: int
    target: str
    verdict: str | None
    radius: float | None
    factual: str
    counterfactual: str
    point: bytes


def chain_hash(previous: bytes, entry: Entry, terms: str) -> bytes:
    """sha256 over the hash of the entry before, everything this entry says, and the hash of its terms."""
    said = encode_json((entry.number, entry.key, entry.date, terms, *entry[4:9]))
    return hashlib.sha256(previous + said.encode() + b"\n" + entry.point).digest()


class Page(NamedTuple):
    """Promises in a row with the same terms, date and target; what is long comes last, so the rest is read without it.

    `reach` has the largest |value| of each of the model's variables over the page's points.
    """

    first: int
    size: int
    terms: int
    date: str
    target: str
    reach: bytes
    verdicts: bytes
    radii: bytes
    keys: str
    points: bytes

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Page:
        """The page of some entries."""
        head, points = entries[0], b"".join(entry.point for entry in entries)
        return cls(
            head.number,
            len(entries),
            head.terms,
            head.date,
            head.target,
            _reach(points, len(entries)),
            bytes(VERDICT_CODES.get(entry.verdict, 255) for entry in entries),
            np.array([np.nan if entry.radius is None else entry.radius for entry in entries], dtype="<f8").tobytes(),
            encode_json([entry.key for entry in entries]),
            points,
        )


def pages_of(entries: Iterable[Entry]) -> Iterator[Page]:
    """The pages that hold these entries."""
    for _, run in groupby(entries, lambda entry: (entry.terms, entry.date, entry.target)):
        alike = list(run)
        for start in range(0, len(alike), PAGE):
            yield Page.of(alike[start : start + PAGE])


def _reach(points: bytes, size: int) -> bytes:
    """The largest |value| of each variable; nothing for bytes that are no table, as a damaged file may have them."""
    if len(points) % (8 * size):
        return b""
    values = np.frombuffer(points, dtype="<f8").reshape(size, -1)
    return bytes(np.abs(values).max(axis=0).astype("<f8").tobytes())
