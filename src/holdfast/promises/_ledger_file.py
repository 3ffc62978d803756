"""The ledger's file: an SQLite database to which pages are only appended, except that promises can be erased.

The rollback journal (SQLite's default) keeps all data in one file that can be copied and mailed. A transaction takes
the write lock before it reads the end of the chain, so two writers never build on the same page. A process that dies
leaves a journal, which the next opening of the file rolls back. Deleted data are overwritten with zeros.

The table of people is an index by which `append` finds recorded promises. It holds no keys, only the first bytes of a
keyed hash of each; the hash's own key is replaced with every erasure. An erasure's entry has such a hash too, by which
a later `add` recognises the person.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from holdfast._files import Place
from holdfast._network import Ints, Values
from holdfast.errors import FileFormatError, HoldfastError, InvalidInputError
from holdfast.promises._pages import PAGE, VERDICTS, Columns, Page
from holdfast.promises._terms import Terms

_APPLICATION_ID, VERSION = 0x486F4C64, 3
# What a head begins with, before the ledger's own name.
_ORIGIN = "holdfast.ledger/"
# What values of other types and sizes than were written lead to in Python.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
# Seconds to wait while another process writes.
_PATIENCE = 120.0
_LEAST_SECRET = 16

_STATEMENTS = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE objects (hash TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT",
    """
CREATE TABLE pages (
  number INTEGER PRIMARY KEY, first INTEGER NOT NULL, size INTEGER NOT NULL, terms TEXT NOT NULL, note TEXT NOT NULL,
  hash BLOB NOT NULL, date TEXT NOT NULL, reach BLOB NOT NULL, targets BLOB NOT NULL, verdicts BLOB NOT NULL,
  radii BLOB NOT NULL, keys TEXT NOT NULL, points BLOB NOT NULL, counterfactuals TEXT NOT NULL, factuals TEXT NOT NULL,
  salts BLOB NOT NULL, commitments BLOB NOT NULL
) STRICT
""",
    "CREATE TABLE people (hash INTEGER, page INTEGER, PRIMARY KEY (hash, page)) STRICT, WITHOUT ROWID",
    "CREATE INDEX pages_by_terms ON pages (terms, first, size)",
)
# What an erasure writes over; the rest of a page is the chain's.
_ERASABLE = (
    "date", "reach", "targets", "verdicts", "radii", "keys", "points", "counterfactuals", "factuals", "salts",
)  # fmt: skip


class ErasedError(InvalidInputError):
    """A promise to a person who was erased from the ledger."""


class LedgerFile:
    """An open ledger file, for one thread.

    Parameters
    ----------
    path, create
        As for `Ledger`.
    secret
        The secret that turns keys into pseudonyms; None if keys are recorded as they are, or the secret is not known.
    """

    def __init__(self, path: Place, *, create: bool, secret: bytes | None = None) -> None:
        self.path = Path(os.fspath(path))
        self.secret = secret
        if not create and not self.path.is_file():
            raise InvalidInputError(f"{path}: expected a ledger, got no such file")
        if not self.path.absolute().parent.is_dir():
            raise InvalidInputError(f"{path}: expected a file in an existing folder")
        if not create and self.path.stat().st_size == 0:
            raise FileFormatError(f"{path}: expected a ledger, got an empty file")
        name = secrets.token_hex(16)
        self._new = {
            "id": name,
            "index": secrets.token_hex(32),
            "pseudonyms": "" if secret is None else _pseudonym(secret, f"ledger {name}"),
        }
        self._blank = False
        with self.reading():
            uri = f"{self.path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
            self.connection = sqlite3.connect(
                uri, uri=True, timeout=_PATIENCE, isolation_level=None
            )
            try:
                # EXTRA also syncs the folder, so that a commit that was reported survives a power cut; and nothing in
                # the file may run anything: not a view, not a trigger of someone else's.
                for setting in (
                    "synchronous = EXTRA",
                    "trusted_schema = OFF",
                    "secure_delete = ON",
                ):
                    self.connection.execute(f"PRAGMA {setting}")
                # The tables are created together with the first promise, so that an `add` that failed leaves no ledger.
                self._blank = self._is_blank()
                self._unlogged()
                if not (self._blank and create):
                    self._check()
            except BaseException:
                self.connection.close()
                raise

    def _check(self) -> None:
        """Refuse a file that is not a ledger, or a ledger whose keys are hidden by another secret."""
        if self._pragma("application_id") != _APPLICATION_ID:
            raise FileFormatError(f"{self.path}: expected a ledger, got another SQLite database")
        version = self._pragma("user_version")
        if version != VERSION:
            raise FileFormatError(
                f"{self.path}: expected a ledger of version {VERSION}, got version {version}"
            )
        for (name,) in self.query(
            "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')"
        ):
            raise FileFormatError(
                f"{self.path}: expected a ledger, got one to which a trigger or view was added: {name}"
            )
        about = self.about
        known = about.get("pseudonyms")
        if self.secret is not None and known != _pseudonym(
            self.secret, f"ledger {about.get('id')}"
        ):
            raise InvalidInputError(
                f"secret: expected {'the one that this ledger was begun with' if known else 'none'}, got another: "
                f"{self.path} has {'other pseudonyms' if known else 'plain keys'}"
            )

    def _pragma(self, name: str) -> Any:
        return self.connection.execute(f"PRAGMA {name}").fetchone()[0]

    def _is_blank(self) -> bool:
        """True if nothing was ever written to the file."""
        tables = int(self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        return tables == 0 and self._pragma("user_version") == 0

    def _unlogged(self) -> None:
        """Set SQLite's default journal; in the other mode, WAL, a second file would keep erased data."""
        if self._pragma("journal_mode") == "wal":
            try:
                self.connection.execute("PRAGMA journal_mode = DELETE")
            except sqlite3.OperationalError as error:
                raise InvalidInputError(
                    f"{self.path}: expected a ledger with SQLite's default journal, got one in WAL mode, whose -wal "
                    "file keeps erased data; close the other programs that have it open, and try again"
                ) from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn errors of a damaged file, or of a file that is not a ledger, into an error that names the file."""
        try:
            yield
        except HoldfastError:
            raise
        except sqlite3.OperationalError as error:
            raise InvalidInputError(
                f"{self.path}: expected a ledger that can be read and written, got: {error}"
            ) from error
        except (sqlite3.DatabaseError, *_DAMAGE) as error:
            raise FileFormatError(
                f"{self.path}: expected a ledger, got a damaged file: {error}; restore a copy of it"
            ) from error

    def query(self, statement: str, *arguments: Any) -> list[Any]:
        """All rows of a query, none for a file without tables; no lock is held afterwards."""
        with self.reading():
            if self._blank:
                if self._is_blank():
                    return []
                self._blank = False
                self._check()
            return self.connection.execute(statement, arguments).fetchall()

    # ------------------------------------------------------------------ what is in it

    @property
    def about(self) -> dict[str, str]:
        """The ledger's identity; for a ledger that is not written yet, its future identity."""
        return dict(self.query("SELECT name, value FROM about")) or self._new

    @property
    def genesis(self) -> bytes:
        """The start value of the first page's hash; it differs in every ledger."""
        about = self.about
        parts = (about.get(name, "") for name in ("id", "pseudonyms"))
        return hashlib.sha256(" ".join(("holdfast-ledger", str(VERSION), *parts)).encode()).digest()

    def end(self) -> tuple[int, int, bytes]:
        """The number of the last page, the number of the last promise, and the hash of the last page: the head."""
        last = self.query(
            "SELECT number, first + size - 1, hash FROM pages ORDER BY number DESC LIMIT 1"
        )
        return last[0] if last else (0, 0, self.genesis)

    @property
    def origin(self) -> str:
        """The first line of this ledger's heads."""
        return _ORIGIN + self.about.get("id", "")

    def head(self, number: int, own: bytes) -> str:
        """The head of a chain of `number` pages, the last with this hash: the body of a C2SP checkpoint."""
        return f"{self.origin}\n{number}\n{base64.b64encode(own).decode()}\n"

    def terms(self) -> list[str]:
        """The hashes of the recorded terms, the oldest first."""
        return [
            *chain(
                *self.query(
                    "SELECT terms FROM pages WHERE terms != '' GROUP BY terms ORDER BY min(first)"
                )
            )
        ]

    def fetch(self, name: str) -> bytes:
        """The content stored under a hash."""
        rows = self.query("SELECT content FROM objects WHERE hash = ?", name)
        if not rows:
            raise FileFormatError(
                f"{self.path}: expected an object {name[:12]}, which a page refers to, got none"
            )
        return bytes(rows[0][0])

    def spans(self, terms: str, last: int) -> Ints:
        """(first, size) of every page under some terms that begins at or before a promise."""
        rows = self.query(
            "SELECT first, size FROM pages WHERE terms = ? AND first <= ? ORDER BY first",
            terms,
            last,
        )
        return np.array(rows, dtype=np.int64).reshape(-1, 2)

    def pages(self, *numbers: int) -> list[Page]:
        """Whole pages, by their numbers."""
        marks = ", ".join("?" * len(numbers))
        rows = self.query(
            f"SELECT * FROM pages WHERE number IN ({marks}) ORDER BY number", *numbers
        )
        return [Page(*row) for row in rows]

    def pages_of(self, name: str) -> list[int]:
        """The pages with promises to a person, given by the recorded name as JSON.

        The keys themselves are searched instead of their index, which could have been tampered with.
        """
        asked = "SELECT number FROM pages WHERE instr(char(10) || keys || char(10), char(10) || ? || char(10))"
        return [number for (number,) in self.query(asked, name)]

    def name_of(self, key: str) -> str:
        """The recorded name of a person: the key, or its pseudonym if there is a secret."""
        return key if self.secret is None else _pseudonym(self.secret, key)

    def key_hashes(self, names: Iterable[str]) -> list[int]:
        """The index entries of these names; blank names have none."""
        hashes = self._hashes(filter(str.strip, names), "index")
        return [int.from_bytes(own, "little", signed=True) for own in hashes]

    def _hashes(self, names: Iterable[str], by: str) -> list[bytes]:
        """A hash of each name, keyed by one of the ledger's random numbers."""
        key = self.about.get(by, "").encode()[:64]
        return [hashlib.blake2b(name.encode(), digest_size=8, key=key).digest() for name in names]

    # ------------------------------------------------------------------ writing

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write all or nothing, one writer at a time."""
        with self.reading():
            self._is_blank()
            self._unlogged()
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                    self._blank = self._is_blank()
                raise

    def append(
        self, parts: Iterable[tuple[Terms, Columns]], date: str
    ) -> tuple[int, int, int, str]:
        """Write promises that are not yet recorded, under their terms, all or none.

        Returns the number of new promises, of the proven ones of these, the number of all promises, and the head.
        """
        with self._writing():
            if self._is_blank():
                for statement in _STATEMENTS:
                    self.connection.execute(statement)
                self.connection.executemany("INSERT INTO about VALUES (?, ?)", self._new.items())
                self.connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                self.connection.execute(f"PRAGMA user_version = {VERSION}")
            added = proven = 0
            for terms, said in parts:
                self._refuse_erased(said.keys)
                self.connection.executemany(
                    "INSERT OR IGNORE INTO objects VALUES (?, ?)", terms.objects().items()
                )
                said = said.take(self._unrecorded(terms.hash, date, said))
                for start in range(0, len(said.keys), PAGE):
                    self._write(Page.of(terms.hash, date, said.take(slice(start, start + PAGE))))
                added += len(said.keys)
                proven += int((said.verdicts == VERDICTS.index("ROBUST")).sum())
            number, total, own = self.end()
            head = self.head(number, own)
        return added, proven, total, head

    def _refuse_erased(self, keys: Values) -> None:
        notes = self.query("SELECT note FROM pages WHERE terms = ''")
        gone = {bytes.fromhex(json.loads(note)["who"]) for (note,) in notes}
        back = np.isin(self._hashes(keys, "id"), [*gone]) if gone else np.zeros(0)
        if back.any():
            raise ErasedError(
                f"keys: {back.sum()} of {len(keys)} rows are about people who were erased from this ledger, the first "
                f"{keys[back][0]}; leave them out, or give someone who applies again a new key"
            )

    def _write(self, page: Page) -> None:
        """Write the page at the end of the chain, and the index of its people."""
        number, last, head = self.end()
        page = page.linked(number + 1, last + 1, head)
        self.connection.execute(f"INSERT INTO pages VALUES ({', '.join('?' * len(page))})", page)
        if self.end()[2] != page.hash:
            raise FileFormatError(
                f"{self.path}: expected a ledger, got one that does not keep new pages"
            )
        self._index([(page.number, page.keys)])

    def _index(self, pages: Iterable[tuple[int, str]]) -> None:
        parts = [
            (own, number) for number, keys in pages for own in self.key_hashes(keys.split("\n"))
        ]
        self.connection.executemany("INSERT OR IGNORE INTO people VALUES (?, ?)", sorted(parts))

    def _unrecorded(self, terms: str, date: str, said: Columns) -> Ints:
        """The promises whose key, date, terms, class and x' are not recorded yet, here or before."""
        asked = "SELECT page FROM people JOIN pages ON page = number WHERE people.hash = ? AND terms = ? AND date = ?"
        pages = {
            page
            for own in set(self.key_hashes(said.keys))
            for (page,) in self.query(asked, own, terms, date)
        }
        known: set[tuple[Any, ...]] = set()
        for number in pages:
            (page,) = self.pages(number)
            recorded = (
                page.lines("keys"),
                page.values("targets", "<u2"),
                page.lines("counterfactuals"),
            )
            known.update(zip(*recorded, strict=True))
        new: dict[tuple[Any, ...], int] = {}
        for i, promise in enumerate(
            zip(said.keys, said.targets, said.counterfactuals, strict=True)
        ):
            if promise not in known:
                new.setdefault(promise, i)
        return np.array(list(new.values()), dtype=np.intp)

    def erase(self, name: str, date: str, why: str) -> list[int]:
        """Overwrite all data of the promises to a person; returns their numbers."""
        with self._writing():
            erased: list[int] = []
            for number in self.pages_of(name):
                (page,) = self.pages(number)
                places = np.flatnonzero(page.lines("keys") == name)
                erased += page.numbers[places].tolist()
                blank = page.blanked(places)
                changed = ", ".join(f"{column} = ?" for column in _ERASABLE)
                values = [getattr(blank, column) for column in _ERASABLE]
                self.connection.execute(
                    f"UPDATE pages SET {changed} WHERE number = ?", (*values, number)
                )
            if erased:
                (who,) = self._hashes([name], "id")
                self._write(Page.erasure(erased, who.hex(), date, why))
                self._reindex()
        return erased

    def _reindex(self) -> None:
        """Rebuild the index with another key: remains of the old index in the file cannot be matched with names."""
        self.connection.execute("DELETE FROM people")
        self.connection.execute(
            "UPDATE about SET value = ? WHERE name = 'index'", (secrets.token_hex(32),)
        )
        self._index(self.connection.execute("SELECT number, keys FROM pages WHERE size > 0"))


def check_secret(secret: object) -> bytes | None:
    """A secret as bytes, long enough that it cannot be guessed."""
    content = secret.encode() if isinstance(secret, str) else secret
    if content is not None and (not isinstance(content, bytes) or len(content) < _LEAST_SECRET):
        raise InvalidInputError(
            f"secret: expected text or bytes with at least {_LEAST_SECRET} bytes, got another value"
        )
    return content


def _pseudonym(secret: bytes, key: str) -> str:
    """HMAC-SHA256 of a key, in hexadecimal digits."""
    return hmac.new(secret, key.encode(), hashlib.sha256).hexdigest()
