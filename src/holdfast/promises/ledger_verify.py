"""Is the ledger what was written? Every hash is computed again, every row encoded again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.promises.ledger_entries import COLUMNS, Entry, Page, chain_hash, pages_of
from holdfast.promises.ledger_rows import rows_from_json
from holdfast.promises.ledger_store import Extent, Store
from holdfast.promises.ledger_terms import Terms
from holdfast.shown import Shown, Summary

_BATCH = 10_000
# More are not listed: one removed entry is one fault, a file full of them is a different file.
_MOST_FAULTS = 20


@dataclass(frozen=True)
class Verification(Shown):
    """What `Ledger.verify` found.

    Attributes
    ----------
    entries, head
        How many entries there are, and the hash of the last one.
    faults
        What is wrong, as sentences; empty if nothing is.
    known_head
        The number of the entry whose hash is the head that was noted down; None if none was given or it is not there.
    warnings
        What is not as a ledger leaves it although every entry is what was written. So far that is one thing: that the
        guards against UPDATE and DELETE are missing, which do not go away by themselves.
    """

    entries: int
    head: str
    faults: tuple[str, ...]
    known_head: int | None = None
    warnings: tuple[str, ...] = ()

    @property
    def intact(self) -> bool:
        """Whether nothing is wrong. Entries cut off at the end show only if a head was given that came after them."""
        return not self.faults

    def __str__(self) -> str:
        if self.faults:
            return f"{self.entries:,} promises, NOT intact: {'; '.join(self.faults)}"
        until = "" if self.known_head is None else f"; the head noted down is that of entry {self.known_head:,}"
        beware = "".join(f"; warning: {warning}" for warning in self.warnings)
        return f"{self.entries:,} promises, chain intact{until}; head {self.head}{beware}"

    def overview(self) -> Summary:
        """What a notebook shows."""
        facts = [
            ("head", self.head),
            ("the head noted down is that of entry", self.known_head),
            *(("warning", warning) for warning in self.warnings),
        ]
        state = "the chain is intact" if self.intact else "NOT intact"
        return Summary(f"{self.entries:,} promises, {state}", facts, notes=self.faults)


def verify(store: Store, head: str | None) -> Verification:
    """Go through the whole file; see `Ledger.verify`."""
    wanted = None if head is None else head.strip().lower()
    faults = store.foreign() or store.mistyped()
    if faults:
        # What such tables say means nothing.
        return Verification(0, "", tuple(faults))
    for (answer,) in store.query("PRAGMA integrity_check(5)"):
        if answer != "ok":
            faults.append(f"the database is damaged: {answer}")
    terms: dict[int, Terms | None] = {}
    names = store.terms()
    for name, count in Counter(names.values()).items():
        if count > 1:
            faults.append(f"terms {name[:12]}: expected them once, got them {count} times")
    for place, name in names.items():
        try:
            terms[place] = Terms.read(name, store.fetch)
        except HoldfastError as error:
            terms[place] = None
            faults.append(str(error))
    number, previous = 0, store.genesis
    known = 0 if wanted == previous.hex() else None
    paged = 0
    extent = store.extent()
    faults += _outside(extent)
    for pages, rows in _groups(store, extent.last):
        for page in pages:
            if page.first != paged + 1:
                faults.append(f"page {page.first}: expected it to go on after entry {paged}")
            paged = page.first + page.size - 1
        points, misfits = _points_of(pages)
        faults += misfits
        entries = [Entry._make((*row[:-1], points.get(row[0], b""))) for row in rows]
        for entry, (*_, found) in zip(entries, rows, strict=True):
            if entry.number != number + 1:
                faults.append(f"entry {number + 1}: expected it after entry {number}, got entry {entry.number}")
            if entry.terms not in names:
                faults.append(f"entry {entry.number}: its terms are missing")
            if not _follows(previous, entry, names.get(entry.terms, ""), found):
                faults.append(f"entry {entry.number}: it, or the entry before it, is not what was written")
            number, previous = entry.number, bytes(found)
            if previous.hex() == wanted:
                known = number
        faults += _wrong_pages(pages, entries) + _wrong_encodings(terms, entries)
        if len(faults) > _MOST_FAULTS:
            faults[_MOST_FAULTS:] = ["and more"]
            break
    if wanted is not None and known is None:
        faults.append(f"no entry has the head that was noted down, {wanted[:12]}: entries after it, or it, are missing")
    return Verification(extent.entries, extent.head.hex(), tuple(faults), known, tuple(_warnings(store)))


def _outside(extent: Extent) -> list[str]:
    """Entries and pages where no ledger has any: below 1, and pages beyond the last entry."""
    faults = [f"entry {extent.least}: expected entries from 1 on"] * (extent.least < 1)
    faults += [f"page {extent.least_page}: expected pages from entry 1 on"] * (extent.least_page < 1)
    beyond = f"page {extent.last_page}: expected pages up to entry {extent.last}"
    return faults + [beyond] * (extent.last_page > extent.last)


def _follows(previous: bytes, entry: Entry, terms: str, found: bytes) -> bool:
    """Whether the hash beside an entry is the one that it must have."""
    try:
        return chain_hash(previous, entry, terms) == found
    except ValueError:
        # An infinite radius, which no ledger writes, has no hash.
        return False


def _warnings(store: Store) -> list[str]:
    missing = store.unguarded()
    if not missing:
        return []
    return [
        f"the guards against UPDATE and DELETE are missing ({', '.join(missing)}), so someone took them away; each "
        "entry fits the one before it, and only a head noted down earlier shows that they were not all written anew"
    ]


def _groups(store: Store, last: int) -> Iterator[tuple[list[Page], list[Any]]]:
    """Pages with some thousands of promises, and the entries from where the last group ended to where this one does.

    Only up to the entry `last`: what is added meanwhile has its pages and entries at different moments.
    """
    entries = (
        f"SELECT {', '.join(COLUMNS)}, hash FROM promises NOT INDEXED WHERE number > ? AND number <= ? ORDER BY number"
    )
    after, done = 0, 0
    while rows := store.query(
        "SELECT * FROM pages WHERE first > ? AND first <= ? ORDER BY first LIMIT 8", (after, last)
    ):
        pages = [Page(*row) for row in rows]
        after, until = pages[-1].first, max(min(pages[-1].first + pages[-1].size - 1, last), done)
        yield pages, store.query(entries, (done, until))
        done = until
    # Entries beyond the last page have no point, and so no place in the chain.
    while rest := store.query(f"{entries} LIMIT {_BATCH}", (done, last)):
        yield [], rest
        done = rest[-1][0]


def _points_of(pages: list[Page]) -> tuple[dict[int, bytes], list[str]]:
    """The point of each entry by its number."""
    points, faults = {}, []
    for page in pages:
        width, odd = divmod(len(page.points), max(page.size, 1))
        if odd or not width:
            faults.append(f"page {page.first}: its points are not as many as its promises")
            continue
        for i in range(page.size):
            points[page.first + i] = bytes(page.points[i * width : (i + 1) * width])
    return points, faults


def _wrong_pages(pages: list[Page], entries: list[Entry]) -> list[str]:
    """A page must say what its entries say, to the last byte."""
    by_number = {entry.number: entry for entry in entries}
    faults = []
    for page in pages:
        mine = [by_number.get(number) for number in range(page.first, page.first + page.size)]
        whole = [entry for entry in mine if entry is not None]
        if len(whole) < len(mine) or list(pages_of(whole)) != [page]:
            faults.append(f"page {page.first}: it does not say what its entries say")
    return faults


def _wrong_encodings(terms: dict[int, Terms | None], entries: list[Entry]) -> list[str]:
    """The point beside a row must be the encoding of that row, bit for bit."""
    faults = []
    for place in dict.fromkeys(entry.terms for entry in entries):
        known = terms.get(place)
        if known is None:
            continue
        mine = [entry for entry in entries if entry.terms == place]
        try:
            points = known.space.encode(rows_from_json(known.space, [entry.counterfactual for entry in mine]))
            known.space.encode(rows_from_json(known.space, [entry.factual for entry in mine]))
        except HoldfastError as error:
            faults.append(f"entries {mine[0].number} to {mine[-1].number}: a row cannot be read: {error}")
            continue
        content, width = points.tobytes(), 8 * points.shape[1]
        for i, entry in enumerate(mine):
            if content[i * width : (i + 1) * width] != entry.point:
                faults.append(f"entry {entry.number}: its point is not the encoding of its row")
    return faults
