"""`Ledger`: every promise that was made, in a file that shows when it was tampered with.

Each entry's hash covers the entry before it, so that an entry cannot be removed, altered, moved or put in between
without every later hash being wrong. What the chain alone cannot show is that its last entries were cut off: for that,
keep the `head` elsewhere and give it to `verify`.
"""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.changes import PlausibleChanges
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators import Recourse
from holdfast.generators.reading import find_space, model_points
from holdfast.importers import load_model
from holdfast.network import Floats
from holdfast.promises.ledger_export import export
from holdfast.promises.ledger_rows import Overview, Promises, encode_json, rows_as_json, rows_from_json
from holdfast.promises.ledger_store import PAGE, Entry, Store
from holdfast.promises.ledger_terms import Terms, check_threshold
from holdfast.promises.ledger_verify import Verification, verify
from holdfast.verify import certified_radius, certify
from holdfast.verify.inputs import read_targets

_ENTRY = "number, key, date, target, verdict, radius, factual, counterfactual"
_PAGES_AFTER = "SELECT first, size, terms FROM pages WHERE first > ? AND first <= ? ORDER BY first LIMIT 1000"
_SIZES = "SELECT first, size FROM pages WHERE terms = ? AND first > ? AND first <= ? ORDER BY first LIMIT 10000"
_OVERVIEW = (
    "SELECT first, size, date, target, keys, verdicts, radii FROM pages "
    "WHERE terms = ? AND first BETWEEN ? AND ? ORDER BY first"
)
_POINTS = (
    "SELECT first, size, points FROM pages WHERE terms = ?1 AND first <= ?3 AND first + size > ?2 "
    f"AND first > ?2 - {PAGE} ORDER BY first"
)
BATCH = 10_000


@dataclass(frozen=True)
class Receipt:
    """What an `add` wrote: so many promises, the rows without an answer that it skipped, and the new head."""

    added: int
    skipped: int
    total: int
    head: str


class Ledger:
    """The promises made so far; opens the file, or creates it.

    Use it in a ``with`` statement, in one thread; any number of processes may have the same file open.

    Parameters
    ----------
    path
        The file, an SQLite database.
    create
        False refuses a file that is not there, or empty.

    Examples
    --------
    >>> import tempfile
    >>> from holdfast import NNCE, Network, explain
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> people, changes = [[0.7, 0.5], [0.2, 0.6]], PlausibleChanges(0.05)
    >>> advice = explain(net, people, target=1, changes=changes, generator=NNCE([[0.2, 0.9]]))
    >>> with tempfile.TemporaryDirectory() as folder, Ledger(f"{folder}/promises.ledger") as ledger:
    ...     receipt = ledger.add(advice, keys=["Ann", "Bob"], date="2026-11-16")
    ...     (receipt.added, receipt.skipped, len(ledger), receipt.head == ledger.head, ledger.verify().intact)
    (1, 1, 1, True, True)
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True) -> None:
        self._store = Store(path, create=create)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; nothing is lost without it, every `add` has been written to the disk when it returns."""
        self._store.close()

    def __len__(self) -> int:
        return self._store.count()

    def __repr__(self) -> str:
        return f"Ledger({str(self._store.path)!r}: {len(self):,} promises, head {self.head[:12]})"

    @property
    def head(self) -> str:
        """The hash of the last entry, which stands for the whole ledger: keep it where nobody can change it."""
        return self.end[1]

    @property
    def end(self) -> tuple[int, str]:
        """The number of the last entry and its hash, read at once."""
        number, head = self._store.head()
        return number, head.hex()

    @property
    def terms(self) -> tuple[Terms, ...]:
        """Everything that promises were made under: model, feature space, threshold and Δ."""
        return tuple(Terms.read(name, self._store.fetch) for name in self._store.terms().values())

    # ------------------------------------------------------------------ writing

    def add(
        self,
        recourse: Recourse,
        *,
        keys: Sequence[Any] | pd.Index | None = None,
        date: str | datetime.date | None = None,
        threshold: float = 0.5,
        radius: bool = True,
    ) -> Receipt:
        """Record what `explain` returned, all of it or nothing.

        It is certified again: what is recorded rests on no object that could have been put together by hand.

        Parameters
        ----------
        recourse
            Rows without an answer are skipped.
        keys
            Whose row it is, one for each row of `recourse`; its index by default.
        date
            When the promise was made, today (UTC) by default: a date, or text in ISO 8601.
        threshold
            The probability from which on the model's user says class 1.
        radius
            Also compute and record each promise's certified radius, which costs more than its verdict.

        Raises
        ------
        InvalidInputError
            Among others if today's model at this threshold does not give some row its class: nothing is recorded.
        """
        if not isinstance(recourse, Recourse):
            raise InvalidInputError(f"recourse: expected what explain returned, got {type(recourse).__name__}")
        rows = np.flatnonzero(recourse.found)
        terms = Terms(recourse.network, recourse.space, recourse.changes, check_threshold(threshold))
        names = _keys(recourse.counterfactuals.index if keys is None else keys, len(recourse))
        if rows.size and not _same_bits(recourse.points[rows], terms.space.encode(recourse.counterfactuals.iloc[rows])):
            raise InvalidInputError("recourse: expected points that are the encoding of its counterfactuals")
        return self._record(
            terms, recourse.factuals.iloc[rows], recourse.counterfactuals.iloc[rows], recourse.targets[rows],
            names[rows], date, radius, len(recourse) - rows.size,
        )  # fmt: skip

    def add_frame(
        self,
        model: object,
        factuals: pd.DataFrame,
        counterfactuals: pd.DataFrame,
        *,
        target: Any,
        changes: PlausibleChanges | None = None,
        space: FeatureSpace | None = None,
        keys: Sequence[Any] | pd.Index | None = None,
        date: str | datetime.date | None = None,
        threshold: float = 0.5,
        radius: bool = True,
    ) -> Receipt:
        """Record promises that come as tables, such as the file that ``holdfast explain --out`` writes.

        They are certified here, so that what is recorded does not rest on the word of a file.

        Parameters
        ----------
        model, space, target, changes
            As for `explain`.
        factuals, counterfactuals
            x and x' in raw units, row by row. A row of `counterfactuals` with a missing value in a column of the space
            has no answer and is skipped.
        keys, date, threshold, radius
            As for `add`; the keys are by default the index of `counterfactuals`.
        """
        if len(factuals) != len(counterfactuals):
            raise InvalidInputError(
                f"factuals: expected one for each of the {len(counterfactuals)} counterfactuals, got {len(factuals)}"
            )
        loaded = load_model(model)
        space = find_space(loaded, counterfactuals, space, factuals)
        missing = [name for name in space.names if name not in counterfactuals.columns]
        if missing:
            raise InvalidInputError(
                f"counterfactuals: expected the column {missing[0]!r}, got {list(counterfactuals.columns)}"
            )
        rows = np.flatnonzero(counterfactuals[list(space.names)].notna().all(axis=1).to_numpy())
        if loaded.preprocess is not None and rows.size:
            own = [name for name in factuals.columns if name in counterfactuals.columns]
            for table in (factuals, counterfactuals[own]):
                model_points(loaded, table.iloc[rows], space)
        names = _keys(counterfactuals.index if keys is None else keys, len(counterfactuals))
        targets = read_targets(loaded.network, target, len(counterfactuals))
        terms = Terms(loaded.network, space, changes, check_threshold(threshold))
        return self._record(
            terms, factuals.iloc[rows], counterfactuals.iloc[rows], targets[rows], names[rows], date,
            radius, len(counterfactuals) - rows.size,
        )  # fmt: skip

    def _record(
        self,
        terms: Terms,
        factuals: pd.DataFrame,
        counterfactuals: pd.DataFrame,
        targets: NDArray[np.intp],
        keys: NDArray[Any],
        date: str | datetime.date | None,
        radius: bool,
        skipped: int,
    ) -> Receipt:
        """Check, certify and write; the lock is held for the writing alone."""
        if not isinstance(radius, bool):
            raise InvalidInputError(f"radius: expected True or False, for radii are computed here, got {radius!r}")
        if not len(keys):
            return Receipt(0, skipped, len(self), self.head)
        space, decision = terms.space, terms.decision
        before, after = rows_as_json(space, factuals), rows_as_json(space, counterfactuals)
        points = space.encode(rows_from_json(space, after))
        # What is promised is the row in raw units: its encoding must not have changed on the way through the text.
        if not _same_bits(points, space.encode(counterfactuals)):
            raise InvalidInputError("counterfactuals: expected rows that survive being written down, got other values")
        broken = np.flatnonzero(decision.predict_index(points) != targets)
        if broken.size:
            raise InvalidInputError(
                f"counterfactuals: expected rows with the class that is promised, got another class today for "
                f"{broken.size} of {len(keys)}, the first with the key {keys[broken[0]]!r}"
            )
        labels = decision.classes[targets]
        when = _iso(date)
        # The same row may be promised to many.
        _, firsts, places = np.unique(
            np.column_stack([points, targets]), axis=0, return_index=True, return_inverse=True
        )
        verdicts, radii = _proven(terms, points[firsts], labels[firsts], radius)
        verdicts, radii = verdicts[places.ravel()], radii[places.ravel()]
        entries = [
            Entry(
                0, key, when, 0, encode_json(label), None if verdict is None else str(verdict), known, x, x_new, point
            )
            for key, label, verdict, known, x, x_new, point in zip(
                keys, labels.tolist(), verdicts, _finite(radii), before, after, _blobs(points), strict=True
            )
        ]
        total, head = self._store.append(terms.hash, terms.objects(), entries)
        return Receipt(len(entries), skipped, total, head.hex())

    # ------------------------------------------------------------------ reading

    def promises(
        self, *, batch: int = BATCH, terms: Terms | None = None, last: int | None = None
    ) -> Iterator[Promises]:
        """Every promise, a batch at a time; what is appended meanwhile is left out.

        Parameters
        ----------
        batch
            How many at most are in memory at once.
        terms
            Only those made under these terms.
        last
            Only those up to this number.
        """
        known = {place: Terms.read(name, self._store.fetch) for place, name in self._store.terms().items()}
        wanted = known if terms is None else {self._place(terms): terms}
        end = self._store.head()[0] if last is None else last
        for place, first, until in self._runs(wanted, batch, end):
            made_under = wanted[place]
            rows = self._between(_ENTRY, made_under, first, until)
            points = self.points(made_under, first, until)
            if not len(rows) == len(points) == until + 1 - first:
                raise FileFormatError(f"entries {first} to {until}: expected {until + 1 - first}, got {len(rows)}")
            yield _batch(made_under, rows, points)

    def _runs(self, wanted: Mapping[int, Terms], batch: int, last: int) -> Iterator[tuple[int, int, int]]:
        """(terms, first, last) of promises in a row, at most `batch` of them, in the order of the ledger."""
        after = 0
        while pages := self._store.query(_PAGES_AFTER, (after, last)):
            after = pages[-1][0]
            for first, count, place in pages:
                if place in wanted:
                    for start in range(first, min(first + count - 1, last) + 1, batch):
                        yield place, start, min(start + batch, first + count, last + 1) - 1

    def overview(self, terms: Terms, *, last: int, batch: int = BATCH) -> Iterator[Overview]:
        """Number, key, date, target, verdict and radius of the promises under some terms, without x and x'.

        They come from the pages, so that a ledger whose promises need not be looked at is gone through in a moment.
        """
        place, after = self._place(terms), 0
        while sizes := self._store.query(_SIZES, (place, after, last)):
            total, chosen = 0, []
            for first, count in sizes:
                chosen.append((first, count))
                total += count
                if total >= batch:
                    break
            after = chosen[-1][0]
            pages = self._store.query(_OVERVIEW, (place, chosen[0][0], after))
            yield Overview.of(pages, last)

    def points(self, terms: Terms, first: int, last: int) -> Floats:
        """x' of the promises under some terms from one number to another, as the model of that day read them."""
        pages = self._store.query(_POINTS, (self._place(terms), first, last))
        content = b"".join(page[2] for page in pages)
        width = 8 * terms.space.n_variables
        if any(len(blob) != count * width for _, count, blob in pages):
            raise FileFormatError(f"entries {first} to {last}: expected a point for each, got pages of another size")
        points = np.frombuffer(content, dtype="<f8").reshape(-1, terms.space.n_variables)
        # The first page may begin before the first promise wanted, and the last end after the last.
        begin = max(first - pages[0][0], 0) if pages else 0
        beyond = max(pages[-1][0] + pages[-1][1] - 1 - last, 0) if pages else 0
        return points[begin : len(points) - beyond]

    def counterfactual_rows(self, terms: Terms, numbers: NDArray[np.int64]) -> pd.DataFrame:
        """x' of some promises under the same terms, in raw units: float64, or labels."""
        if not numbers.size:
            return rows_from_json(terms.space, [])
        rows = self._between("number, counterfactual", terms, int(numbers[0]), int(numbers[-1]))
        wanted = set(numbers.tolist())
        texts = [text for number, text in rows if number in wanted]
        if len(texts) != len(numbers):
            raise FileFormatError(f"entries {numbers[0]} to {numbers[-1]}: expected {len(numbers)}, got {len(texts)}")
        return rows_from_json(terms.space, texts)

    def _between(self, columns: str, terms: Terms, first: int, last: int) -> list[Any]:
        return self._store.query(
            f"SELECT {columns} FROM promises WHERE number BETWEEN ? AND ? AND terms = ? ORDER BY number",
            (first, last, self._place(terms)),
        )

    def _place(self, terms: Terms) -> int:
        """The number of some terms in this file; 0 if it does not have them."""
        return next((place for place, name in self._store.terms().items() if name == terms.hash), 0)

    def verify(self, *, head: str | None = None) -> Verification:
        """Whether the ledger is what was written: every hash, every model, every row and its encoding.

        Parameters
        ----------
        head
            The `head` that was noted down at some time: it has to be in the chain, so nothing up to then is missing.
        """
        return verify(self._store, head)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write every promise to a table (.csv, .csv.gz or .parquet) and return how many there are."""
        return export(self.promises(), path)


def _batch(terms: Terms, rows: list[tuple[Any, ...]], points: Floats) -> Promises:
    numbers, keys, dates, targets, verdicts, radius, before, after = zip(*rows, strict=True)
    labels = {encode_json(label): label for label in terms.network.classes.tolist()}
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


def _blobs(points: Floats) -> list[bytes]:
    content, width = np.ascontiguousarray(points, dtype="<f8").tobytes(), 8 * points.shape[1]
    return [content[start : start + width] for start in range(0, len(content), width)]


def _same_bits(a: Floats, b: Floats) -> bool:
    return a.shape == b.shape and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def _keys(keys: Sequence[Any] | pd.Index, n: int) -> NDArray[Any]:
    names = np.array([str(key) for key in keys], dtype=object)
    if names.shape != (n,):
        raise InvalidInputError(f"keys: expected one for each of the {n} rows, got {len(names)}")
    return names


def _proven(terms: Terms, points: Floats, labels: NDArray[Any], radius: bool) -> tuple[NDArray[Any], Floats]:
    """The verdicts, None without Δ, and the certified radii, nan without a way to compute them.

    An audit believes what a ledger says, so nothing is taken over from whoever adds to it.
    """
    network, n = terms.decision, len(points)
    verdicts, radii = np.full(n, None, dtype=object), np.full(n, np.nan)
    if terms.changes is not None:
        verdicts = certify(network, points, labels, terms.changes).verdict
    if radius and network.rectified and not (network.hidden and terms.norm != np.inf):
        radii = certified_radius(network, points, labels, norm=terms.norm, biases=terms.biases).lower
    return verdicts, radii


def _finite(radii: Floats) -> list[float | None]:
    """What SQLite and JSON can hold: nothing for nan, and the largest float for a point that no change can reach."""
    return [None if np.isnan(radius) else min(radius, sys.float_info.max) for radius in radii.tolist()]


def _iso(date: str | datetime.date | None) -> str:
    if date is None:
        return datetime.datetime.now(datetime.UTC).date().isoformat()
    if isinstance(date, str):
        try:
            datetime.datetime.fromisoformat(date)
        except ValueError as error:
            raise InvalidInputError(f"date: expected one such as '2026-11-16', got {date!r}") from error
        return date
    if not isinstance(date, datetime.date):
        raise InvalidInputError(f"date: expected a date or text in ISO 8601, got {date!r}")
    return date.isoformat()
