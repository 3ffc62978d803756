"""Check that a ledger is as it was written: compute every hash again, encode every row again."""

from __future__ import annotations

import base64
import json
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from holdfast._classifier import Bools, Ints
from holdfast._given import shown
from holdfast._shown import Shown, Summary
from holdfast.errors import HoldfastError, InvalidInputError
from holdfast.generators._radii import RADIUS_TOLERANCE
from holdfast.promises._ledger_file import LedgerFile
from holdfast.promises._ledger_read import Promises
from holdfast.promises._ledger_record import OtherClassError, certified_columns
from holdfast.promises._pages import ERASED, VERDICTS, Columns, Page, as_objects, rows_from_json
from holdfast.promises._terms import Terms

# So many pages are read at once.
_PAGES = 16
# More are not listed: one removed promise is one fault, a file full of them is a different file.
_MOST_FAULTS = 20


@dataclass(frozen=True)
class Verification(Shown):
    """The result of `Ledger.verify`.

    Attributes
    ----------
    entries, head
        Number of promises recorded, and the head of the chain.
    faults
        The faults found, as sentences; empty if there are none.
    known_head
        Number of promises at the time of the given head; None if none was given or it is not in the chain.
    warnings
        Checks that were not possible: with `recheck`, promises of a model that the ledger knows only by name.
    erased
        Number of erased promises, according to entries of the chain.
    rechecked
        Number of promises that were certified again.
    """

    entries: int
    head: str
    faults: tuple[str, ...]
    known_head: int | None = None
    warnings: tuple[str, ...] = ()
    erased: int = 0
    rechecked: int = 0

    @property
    def intact(self) -> bool:
        """True if there is no fault. Missing entries at the end are detected only with a later head."""
        return not self.faults

    @property
    def _promises(self) -> str:
        return f"{self.entries:,} promises" + f", {self.erased:,} of them erased" * bool(
            self.erased
        )

    def __str__(self) -> str:
        if self.faults:
            return f"{self._promises}, NOT intact: {'; '.join(self.faults)}"
        until = (
            ""
            if self.known_head is None
            else f"; the head noted down is that of entry {self.known_head:,}"
        )
        beware = "".join(f"; warning: {warning}" for warning in self.warnings)
        again = f", {self.rechecked:,} certified again" * bool(self.rechecked)
        head = " ".join(self.head.split())
        return f"{self._promises}, chain intact{again}{until}; head {head}{beware}"

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
        facts = [
            ("head", " ".join(self.head.split())),
            ("certified again", self.rechecked or None),
            ("the head noted down is that of entry", self.known_head),
            *(("warning", warning) for warning in self.warnings),
        ]
        state = "the chain is intact" if self.intact else "NOT intact"
        return Summary(f"{self._promises}, {state}", facts, notes=self.faults)


def verify(file: LedgerFile, head: str | None) -> Verification:
    """Check the whole file; see `Ledger.verify`."""
    faults = [
        f"the database is damaged: {answer}"
        for (answer,) in file.query("PRAGMA integrity_check(5)")
        if answer != "ok"
    ]
    wanted = None if head is None else _read_head(head)
    number = 0
    last = 0
    previous = file.genesis
    known = 0 if wanted == (file.origin, 0, previous) else None
    (end, total, newest) = file.end()
    terms = _read_terms(file, faults)
    erased = _erased(file, faults)
    blank = set[int]()
    for pages in _groups(file, end):
        for page in pages:
            if (page.number, page.first) != (number + 1, last + 1):
                faults.append(
                    f"page {page.number}: expected page {number + 1}, from promise {last + 1} on"
                )
            if page.linked(page.number, page.first, previous).hash != page.hash:
                faults.append(f"page {page.number}: it, or the page before it, was changed")
            number = page.number
            last = page.first + page.size - 1
            previous = page.hash
            known = last if (file.origin, number, previous) == wanted else known
        faults += _wrong_rows(pages, terms, erased, blank)
        if len(faults) > _MOST_FAULTS:
            faults[_MOST_FAULTS:] = ["and more"]
            break
    else:
        # Promises may have been erased meanwhile: what is missing by now has to be so by an entry of the chain.
        missing = sorted(blank - _erased(file, []))
        faults += [
            f"promise {one}: it is missing, and no entry says that it was erased" for one in missing
        ]
    if wanted is not None and known is None:
        faults.append(
            f"no entry has the head that was noted down, of page {wanted[1]} of {wanted[0]}: it belongs to another "
            "ledger, or pages are missing or were rewritten"
        )
    return Verification(total, file.head(end, newest), tuple(faults), known, erased=len(blank))


def _read_head(head: str) -> tuple[str, int, bytes]:
    """Origin, number of pages and hash, from a checkpoint's body or a signed note."""
    try:
        origin, size, root = head.strip().splitlines()[:3]
        return origin, int(size), base64.b64decode(root, validate=True)
    except ValueError as error:
        raise InvalidInputError(
            "head: expected the three lines of `Ledger.head` (the ledger's name, a number, a hash in base64), got "
            f"{shown(head)}"
        ) from error


def rechecked(
    result: Verification, promises: Callable[[], Iterable[Promises]], sample: int
) -> Verification:
    """Certify promises again: all of them, or a random sample that cannot be foreseen."""
    numbers = range(1, result.entries + 1)
    chosen = secrets.SystemRandom().sample(numbers, min(sample, result.entries))
    faults, warnings, count = list[str](), set[str](), 0
    for batch in promises():
        rows = np.flatnonzero(np.isin(batch.numbers, chosen))
        try:
            wrong = rows[_unproven(batch, rows)] if rows.size else rows
        except OtherClassError as error:
            faults.append(f"promises {batch.numbers[0]} to {batch.numbers[-1]}: {error}")
        except HoldfastError as error:
            name = batch.terms.model_hash[:12]
            warnings.add(f"promises of model {name} were not certified again: {error}")
        else:
            count += rows.size
            faults += [
                f"promise {number}: its verdict or radius cannot be proven again"
                for number in batch.numbers[wrong]
            ]
    faults[_MOST_FAULTS:] = ["and more"] * (len(faults) > _MOST_FAULTS)
    return replace(result, faults=tuple(faults), warnings=tuple(warnings), rechecked=count)


def _unproven(batch: Promises, rows: Ints) -> Bools:
    """Mask of the promises that state more than the recorded model proves."""
    space, verdicts, radii = batch.terms.space, batch.verdicts[rows], batch.radius[rows]
    index = batch.terms.classifier.class_index
    said = certified_columns(
        batch.terms,
        batch.keys[rows],
        rows_from_json(space, batch.factual_texts[rows]),
        rows_from_json(space, batch.counterfactual_texts[rows]),
        np.array([index(label) for label in batch.targets[rows]]),
        verdicts,
        not np.isnan(radii).all(),
        None,
    )
    other = as_objects(VERDICTS)[said.verdicts] != verdicts
    return np.asarray(other | (~np.isnan(radii) & ~(radii <= said.radii + RADIUS_TOLERANCE)))


def _groups(file: LedgerFile, end: int) -> Iterator[list[Page]]:
    """Pages in the order of the chain, up to its original end; pages before its beginning are included."""
    asked = f"SELECT * FROM pages WHERE number BETWEEN ? AND ? ORDER BY number LIMIT {_PAGES}"
    start = -(2**63)
    while start <= end and (rows := file.query(asked, start, end)):
        yield [Page(*row) for row in rows]
        start = rows[-1][0] + 1


def _read_terms(file: LedgerFile, faults: list[str]) -> dict[str, Terms]:
    """Read the terms, which must be as written and be read with the same meaning."""
    terms = {}
    for name in file.terms():
        try:
            terms[name] = Terms.read(name, file.fetch)
            if replace(terms[name]).hash != name:
                faults.append(
                    f"terms {name[:12]}: expected the parts as written, got parts with another meaning"
                )
        except HoldfastError as error:
            faults.append(str(error))
    return terms


def _erased(file: LedgerFile, faults: list[str]) -> set[int]:
    """The erased promises, according to entries of the chain."""
    try:
        notes = [
            json.loads(note) for (note,) in file.query("SELECT note FROM pages WHERE size = 0")
        ]
        return {number for note in notes for number in note["erased"]}
    except (ValueError, TypeError, KeyError) as error:
        faults.append(f"expected entries that say which promises were erased, got: {error!r}")
        return set()


def _wrong_rows(
    pages: list[Page], terms: dict[str, Terms], erased: set[int], blank: set[int]
) -> list[str]:
    """Compare pages with their commitments; promises without any data are added to `blank`."""
    faults = []
    whole = defaultdict[str, list[Columns]](list)
    for page in pages:
        if page.size == 0:
            # All but the links of the chain and the note.
            faults += [f"page {page.number}: an erasure contains data of a promise"] * any(page[6:])
            continue
        try:
            verdicts = page.values("verdicts", "u1")
            committed = page.values("commitments", "u1", 32)
            gone = np.flatnonzero(verdicts == ERASED)
            there = np.flatnonzero(verdicts != ERASED)
            wrong = (np.frombuffer(page.commit(), dtype="u1").reshape(-1, 32) != committed).any(
                axis=1
            )
            faults += [f"promise {page.numbers[i]}: it was changed" for i in there[wrong[there]]]
            faults += [
                f"promise {one}: it was erased, but its place is not empty"
                for one in erased.intersection(page.numbers[there].tolist())
            ]
            if page.blanked(gone) != page:
                faults.append(
                    f"page {page.number}: data of an erased promise is left, or its reach is wrong"
                )
            if page.terms in terms:
                said = page.columns(terms[page.terms].space.n_variables)
                whole[page.terms].append(said.take(there))
        except (HoldfastError, ValueError, UnicodeError) as error:
            faults.append(f"page {page.number}: it cannot be read: {error}")
            continue
        blank.update(page.numbers[gone].tolist())
    for name, parts in whole.items():
        faults += _wrong_encodings(
            terms[name], Columns(*map(np.concatenate, zip(*parts, strict=True))), pages[0]
        )
    return faults


def _wrong_encodings(terms: Terms, said: Columns, first: Page) -> list[str]:
    """Check that the point of each row is the encoding of the row, bit for bit."""
    try:
        points = terms.space.encode(rows_from_json(terms.space, said.counterfactuals))
        terms.space.encode(rows_from_json(terms.space, said.factuals))
    except HoldfastError as error:
        return [f"pages from {first.number} on: a row cannot be read: {error}"]
    if points.tobytes() == said.points.tobytes():
        return []
    other = np.flatnonzero(
        (points.view("u8") != np.ascontiguousarray(said.points).view("u8")).any(axis=1)
    )
    return [
        f"pages from {first.number} on: the point of {said.keys[i]} is not the encoding of its row"
        for i in other
    ]
