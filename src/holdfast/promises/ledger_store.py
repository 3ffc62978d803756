"""The ledger's file: an SQLite database that is only ever added to.

The rollback journal (SQLite's default) keeps everything in one file that can be copied and mailed, and appends are what
it does best. Beside the entries lie their pages, which an audit reads (`ledger_entries`). A transaction takes the write
lock before it reads the end of the chain, so two writers never build on the same entry; a process that dies leaves a
journal that the next one to open the file rolls back.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.promises.ledger_entries import COLUMNS, Entry, Page, chain_hash, pages_of

_APPLICATION_ID = 0x486F4C64
_VERSION = 1
# Seconds to wait while another process writes.
_PATIENCE = 120.0

_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE objects (hash TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE terms (id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE REFERENCES objects (hash));
CREATE TABLE promises (
  number INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  date TEXT NOT NULL,
  terms INTEGER NOT NULL REFERENCES terms (id),
  target TEXT NOT NULL,
  verdict TEXT,
  radius REAL,
  factual TEXT NOT NULL,
  counterfactual TEXT NOT NULL,
  hash BLOB NOT NULL
);
CREATE TABLE pages (
  first INTEGER PRIMARY KEY,
  size INTEGER NOT NULL,
  terms INTEGER NOT NULL REFERENCES terms (id),
  date TEXT NOT NULL,
  target TEXT NOT NULL,
  reach BLOB NOT NULL,
  verdicts BLOB NOT NULL,
  radii BLOB NOT NULL,
  keys TEXT NOT NULL,
  points BLOB NOT NULL
);
CREATE INDEX promises_by_key ON promises (key);
CREATE INDEX pages_by_terms ON pages (terms, first, size);
"""
_GUARD = """
CREATE TRIGGER {table}_{event} BEFORE {event} ON {table}
BEGIN SELECT RAISE(ABORT, 'a ledger is only ever added to'); END;
"""
_GUARDS = tuple(
    _GUARD.format(table=table, event=event)
    for table in ("objects", "terms", "promises", "pages")
    for event in ("UPDATE", "DELETE")
)
_STATEMENTS = (*(part for part in _SCHEMA.split(";") if part.strip()), *_GUARDS)
_RECORDED = (
    "SELECT 1 FROM promises WHERE key = ? AND date = ? AND target = ? AND counterfactual = ? AND terms = ? LIMIT 1"
)
# What ANALYZE leaves is about speed alone; it is known by its definition, for anything could have such a name.
_STATISTICS = ("CREATE TABLE sqlite_stat1(tbl,idx,stat)", "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)")
_DEFINITIONS = f"SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND sql NOT IN {_STATISTICS}"
_EXTENT = """
SELECT
  (SELECT count(*) FROM promises), (SELECT min(number) FROM promises), (SELECT max(number) FROM promises),
  (SELECT hash FROM promises ORDER BY number DESC LIMIT 1),
  (SELECT min(first) FROM pages), (SELECT max(first) FROM pages)
"""
_TYPES = {
    "terms": {"id": "'integer'", "hash": "'text'"},
    "promises": {
        "number": "'integer'", "key": "'text'", "date": "'text'", "terms": "'integer'", "target": "'text'",
        "verdict": "'text', 'null'", "radius": "'real', 'null'", "factual": "'text'", "counterfactual": "'text'",
        "hash": "'blob'",
    },
    "pages": {
        "first": "'integer'", "size": "'integer'", "terms": "'integer'", "date": "'text'", "target": "'text'",
        "reach": "'blob'", "verdicts": "'blob'", "radii": "'blob'", "keys": "'text'", "points": "'blob'",
    },
}  # fmt: skip


@cache
def _definitions() -> dict[tuple[str, str], str]:
    """How everything in a ledger is defined, in SQLite's own words."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in _STATEMENTS:
            connection.execute(statement)
        return {(kind, name): _plain(sql) for kind, name, sql in connection.execute(_DEFINITIONS)}


def _plain(sql: str) -> str:
    return " ".join(sql.split())


class Extent(NamedTuple):
    """How many entries there are, the least and the largest number, the hash of the last; the same of pages."""

    entries: int
    least: int
    last: int
    head: bytes
    least_page: int
    last_page: int


class Store:
    """An open ledger file. One thread, one store."""

    def __init__(self, path: str | os.PathLike[str], *, create: bool) -> None:
        self.path = Path(os.fspath(path))
        if not create and not self.path.is_file():
            raise InvalidInputError(f"{path}: expected a ledger, got no such file")
        if not self.path.absolute().parent.is_dir():
            raise InvalidInputError(f"{path}: expected a file in an existing folder")
        if not create and self.path.stat().st_size == 0:
            raise FileFormatError(f"{path}: expected a ledger, got an empty file")
        mode = "rwc" if create else "rw"
        with self._complaints():
            uri = f"{self.path.absolute().as_uri()}?mode={mode}"
            self.connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)
            try:
                self._open(create)
            except BaseException:
                self.connection.close()
                raise

    def _open(self, create: bool) -> None:
        # EXTRA also syncs the folder, so that a commit that was reported survives a power cut.
        self.connection.execute("PRAGMA synchronous = EXTRA")
        self.connection.execute("PRAGMA foreign_keys = ON")
        # Nothing in the file may run anything: not a view, not a trigger of someone else's.
        self.connection.execute("PRAGMA trusted_schema = OFF")
        # The tables are created together with the first promise, so that an `add` that failed leaves no ledger.
        self._blank, self._own_id = self._is_blank(), secrets.token_hex(16)
        if not (self._blank and create):
            self._check()

    def _check(self) -> None:
        """Refuse what is no ledger."""
        kind, version = self._pragma("application_id"), self._pragma("user_version")
        if kind != _APPLICATION_ID:
            raise FileFormatError(f"{self.path}: expected a ledger, got another SQLite database")
        if version != _VERSION:
            raise FileFormatError(f"{self.path}: expected a ledger of version {_VERSION}, got version {version}")
        for fault in self.foreign():
            raise FileFormatError(f"{self.path}: expected the tables of a ledger, got another database: {fault}")

    def _create(self) -> None:
        for statement in _STATEMENTS:
            self.connection.execute(statement)
        self.connection.execute("INSERT INTO about VALUES ('id', ?)", (self._own_id,))
        self.connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        self.connection.execute(f"PRAGMA user_version = {_VERSION}")

    def _pragma(self, name: str) -> int:
        return int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _is_blank(self) -> bool:
        """Whether nothing was ever written."""
        tables = int(self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        return tables == 0 and self._pragma("user_version") == 0

    def mistyped(self) -> list[str]:
        """Rows with a value of another type than their column's, which SQLite does not refuse."""
        faults = []
        for table, columns in _TYPES.items():
            odd = " OR ".join(f"typeof({column}) NOT IN ({types})" for column, types in columns.items())
            name = next(iter(columns))
            rows = self.query(f"SELECT {name} FROM {table} WHERE {odd} LIMIT 5")
            faults += [f"{table} {row[0]}: expected values of its columns' types, got another" for row in rows]
        return faults

    def foreign(self) -> list[str]:
        """What in the file is not defined as a ledger defines it: a view for a table, a trigger, a lost constraint.

        The guards against mistakes may be missing; whoever removed them left everything else in its place.
        """
        found = {(kind, name): _plain(sql) for kind, name, sql in self.query(_DEFINITIONS)}
        if self._blank:
            return []
        expected = _definitions()
        wanted = [key for key in expected if key[0] != "trigger"]
        return [
            *(f"the {kind} {name} is missing" for kind, name in wanted if (kind, name) not in found),
            *(
                f"the {kind} {name} is not what it was created as"
                for (kind, name), sql in found.items()
                if expected.get((kind, name)) != sql
            ),
        ]

    def unguarded(self) -> list[str]:
        """The guards against UPDATE and DELETE that are missing."""
        found = {name for kind, name, _ in self.query(_DEFINITIONS) if kind == "trigger"}
        return [] if self._blank else [name for kind, name in _definitions() if kind == "trigger" and name not in found]

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    @contextmanager
    def _complaints(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise InvalidInputError(
                f"{self.path}: expected a ledger that can be read and written, got: {error}"
            ) from error
        except (sqlite3.DatabaseError, UnicodeError) as error:
            # Damaged definitions are quoted in SQLite's complaint about them, and may be no text at all.
            raise FileFormatError(f"{self.path}: expected a ledger, got: {error}") from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """All or nothing, one writer at a time."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
                self._blank = self._is_blank()
            raise

    def query(self, statement: str, arguments: Sequence[Any] = ()) -> list[Any]:
        """All rows of an answer, none from a file without tables: no lock is held once it is back."""
        with self._complaints():
            if self._blank:
                if self._is_blank():
                    return []
                self._blank = False
                self._check()
            return self.connection.execute(statement, arguments).fetchall()

    # ------------------------------------------------------------------ what is in it

    @property
    def genesis(self) -> bytes:
        """What the first entry's hash builds on; no two ledgers share it."""
        found = self.query("SELECT value FROM about WHERE name = 'id'")
        if not found and self._blank:
            found = [(self._own_id,)]
        if not found:
            raise FileFormatError(f"{self.path}: expected a ledger with an id, got none")
        return hashlib.sha256(f"holdfast-ledger {_VERSION} {found[0][0]}".encode()).digest()

    def head(self) -> tuple[int, bytes]:
        """The number and the hash of the last entry."""
        found = self.query("SELECT number, hash FROM promises ORDER BY number DESC LIMIT 1")
        if found and not isinstance(found[0][1], bytes):
            raise FileFormatError(f"{self.path}: expected a hash with entry {found[0][0]}, got {found[0][1]!r}")
        return (int(found[0][0]), found[0][1]) if found else (0, self.genesis)

    def count(self) -> int:
        """How many entries there are."""
        return sum(int(count) for (count,) in self.query("SELECT count(*) FROM promises"))

    def extent(self) -> Extent:
        """Where the entries and pages begin and end, all at one moment."""
        found = self.query(_EXTENT)
        count, least, last, head, first_page, last_page = found[0] if found else (0,) + (None,) * 5
        return Extent(
            count, 1 if least is None else least, last or 0, bytes(head or self.genesis),
            1 if first_page is None else first_page, last_page or 0,
        )  # fmt: skip

    def terms(self) -> dict[int, str]:
        """The hashes of the terms by their number in this file."""
        return dict(self.query("SELECT id, hash FROM terms ORDER BY id"))

    def fetch(self, name: str) -> bytes:
        """The content stored under a hash."""
        found = self.query("SELECT content FROM objects WHERE hash = ?", (name,))
        if not found:
            raise FileFormatError(f"{self.path}: expected an object {name[:12]}, which an entry refers to, got none")
        content = found[0][0]
        return content.encode() if isinstance(content, str) else bytes(content)

    def append(
        self, terms: str, objects: dict[str, bytes], entries: Sequence[Entry], *, once: bool = False
    ) -> tuple[int, int, bytes]:
        """Write the entries (their numbers and terms are filled in here): how many, and the number and hash at the end.

        With `once`, those that are recorded already are left out.
        """
        with self._complaints(), self.writing():
            if self._is_blank():
                self._create()
            write = self.connection.execute
            for name, content in objects.items():
                write("INSERT OR IGNORE INTO objects VALUES (?, ?)", (name, content))
            write("INSERT OR IGNORE INTO terms (hash) VALUES (?)", (terms,))
            place = int(write("SELECT id FROM terms WHERE hash = ?", (terms,)).fetchone()[0])
            number, head = self.head()
            if once:
                entries = self._unrecorded(entries, place)
            numbered = [entry._replace(number=number + i, terms=place) for i, entry in enumerate(entries, 1)]

            def chained() -> Iterator[tuple[Any, ...]]:
                nonlocal head
                for entry in numbered:
                    head = chain_hash(head, entry, terms)
                    yield (*entry[:-1], head)

            marks = ", ".join("?" * (len(COLUMNS) + 1))
            self.connection.executemany(f"INSERT INTO promises VALUES ({marks})", chained())
            marks = ", ".join("?" * len(Page._fields))
            self.connection.executemany(f"INSERT INTO pages VALUES ({marks})", pages_of(numbered))
        return len(numbered), number + len(numbered), head

    def _unrecorded(self, entries: Sequence[Entry], place: int) -> list[Entry]:
        """The entries of which no other, here or before, has the key, date, terms, target and x'."""
        new: dict[tuple[str, ...], Entry] = {}
        for entry in entries:
            new.setdefault((entry.key, entry.date, entry.target, entry.counterfactual), entry)
        find = self.connection.execute
        return [
            entry for said, entry in new.items() if find(_RECORDED, (*said, place)).fetchone() is None
        ]  # fmt: skip
