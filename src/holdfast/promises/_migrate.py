"""Ledgers of version 1, in which the chain ran over the promises themselves, written anew."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np

from holdfast._files import Place, whole_file
from holdfast._network import Floats
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.promises._ledger_file import LedgerFile, check_secret
from holdfast.promises._pages import VERDICTS, Columns, as_objects, encode_json, rows_from_json
from holdfast.promises._terms import Terms

_ENTRIES = """
SELECT number, key, date, terms.hash, target, verdict, radius, factual, counterfactual, promises.hash
FROM promises JOIN terms ON terms = id ORDER BY number
"""
_AT_ONCE = 10_000


def migrate(old: Place, new: Place, *, secret: str | bytes | None = None) -> tuple[int, str]:
    """Write a ledger of version 1 as a new file; returns how many promises it has, and the old ledger's head.

    Nothing is certified again: the old chain is verified to its end, and what it says is taken over. The new chain
    builds on the old head, which `Ledger.verify` knows; heads noted down before belong to the old file.

    Parameters
    ----------
    old, new
        The two files; the new one must not be there yet.
    secret
        As for `Ledger`: the new file has pseudonyms in the place of keys.
    """
    if Path(new).exists():
        raise InvalidInputError(f"{new}: expected a file that is not there yet, got one that is")
    if not Path(old).is_file():
        raise InvalidInputError(f"{old}: expected a ledger, got no such file")
    try:
        with (
            whole_file(Path(new)) as partial,
            closing(
                sqlite3.connect(f"{Path(old).absolute().as_uri()}?mode=ro", uri=True)
            ) as connection,
        ):
            return _copy(connection, partial, secret)
    except sqlite3.Error as error:
        raise FileFormatError(f"{old}: expected a ledger of version 1, got: {error}") from error


def _copy(
    connection: sqlite3.Connection, path: Path, secret: str | bytes | None
) -> tuple[int, str]:
    if connection.execute("PRAGMA user_version").fetchone() != (1,):
        raise FileFormatError("expected a ledger of version 1, got another file")
    (name,) = connection.execute("SELECT value FROM about WHERE name = 'id'").fetchone()
    end = connection.execute(
        "SELECT number, hash FROM promises ORDER BY number DESC LIMIT 1"
    ).fetchone()
    if end is None:
        raise FileFormatError("expected a ledger with promises, got one without")
    number = 0
    previous = hashlib.sha256(f"holdfast-ledger 1 {name}".encode()).digest()
    file = LedgerFile(
        path, create=True, secret=check_secret(secret), migrated=f"{end[1].hex()} {end[0]}"
    )
    with closing(file.connection):
        for name, date, rows in _runs(connection.execute(_ENTRIES)):
            terms = Terms.read(name, lambda own: _content(connection, own))
            points = terms.space.encode(rows_from_json(terms.space, [row[8] for row in rows]))
            for row, point in zip(rows, points, strict=True):
                said = encode_json(row[:9]).encode() + b"\n" + point.astype("<f8").tobytes()
                previous = hashlib.sha256(previous + said).digest()
                if row[0] != number + 1 or previous != row[9]:
                    raise FileFormatError(
                        f"entry {row[0]}: it, or the entry before it, is not what was written"
                    )
                number = row[0]
            file.append([(terms, _columns(file, terms, rows, points))], date)
    if (number, previous) != end:
        raise FileFormatError(f"expected {end[0]} entries, each with its terms, got {number}")
    return number, previous.hex()


def _runs(entries: Iterable[tuple[Any, ...]]) -> Iterator[tuple[str, str, list[tuple[Any, ...]]]]:
    """Entries in a row with the same terms and date."""
    for (name, date), run in groupby(entries, lambda row: (row[3], row[2])):
        while rows := list(islice(run, _AT_ONCE)):
            yield name, date, rows


def _content(connection: sqlite3.Connection, name: str) -> bytes:
    stored = connection.execute("SELECT content FROM objects WHERE hash = ?", (name,)).fetchone()
    if stored is None:
        raise FileFormatError(f"object {name[:12]}: expected it in the ledger, got none")
    return bytes(stored[0])


def _columns(
    file: LedgerFile, terms: Terms, rows: list[tuple[Any, ...]], points: Floats
) -> Columns:
    """What the entries say, as a page has it."""
    _, keys, _, _, targets, verdicts, radii, factuals, counterfactuals, _ = zip(*rows, strict=True)
    classes = [encode_json(label) for label in terms.classifier.classes.tolist()]
    return Columns(
        keys=as_objects([encode_json(file.name_of(key)) for key in keys]),
        targets=np.array([classes.index(target) for target in targets]),
        verdicts=np.array([VERDICTS.index(verdict) for verdict in verdicts], dtype=np.uint8),
        radii=np.array(radii, dtype=np.float64),
        points=points,
        counterfactuals=as_objects(counterfactuals),
        factuals=as_objects(factuals),
    )
