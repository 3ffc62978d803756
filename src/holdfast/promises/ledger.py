"""`Ledger`: every promise that was made, in a file that shows when it was tampered with.

Each entry's hash covers the entry before it, so that an entry cannot be removed, altered, moved or put in between
without every later hash being wrong. What the chain alone cannot show is that its last entries were cut off: for that,
keep the `head` elsewhere and give it to `verify`.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import pandas as pd

from holdfast.changes import Changes
from holdfast.errors import HoldfastError, InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators import Recourse
from holdfast.generators.reading import find_space, model_points
from holdfast.generators.stated import answered
from holdfast.importers import Model, load_model
from holdfast.promises.ledger_export import export
from holdfast.promises.ledger_read import BATCH, Reader, TermsReader
from holdfast.promises.ledger_record import Draft, Receipt, read_keys, record, same_bits
from holdfast.promises.ledger_rows import Promises, promises_frame
from holdfast.promises.ledger_store import Store
from holdfast.promises.ledger_terms import Terms
from holdfast.promises.ledger_verify import Verification, verify
from holdfast.shown import HEAD, Shown, Summary
from holdfast.verify.inputs import check_changes, read_targets

__all__ = ["Ledger", "Receipt"]


class Ledger(Shown):
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
    >>> from holdfast import NNCE, Network, PlausibleChanges, explain
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
        self._reader = Reader(self._store)

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
        try:
            number, head = self.end
        except HoldfastError:
            return f"Ledger({str(self._store.path)!r}: closed, or no longer to be read)"
        return f"Ledger({str(self._store.path)!r}: {number:,} promises, head {head[:12]})"

    def overview(self) -> Summary:
        """What a notebook shows."""
        number, head = self.end
        terms = ["no Δ" if own.changes is None else own.changes.words for own in self.terms]
        facts = [
            ("file", self._store.path),
            ("made under", "; ".join(terms[:HEAD]) + "; …" * (len(terms) > HEAD)),
            ("head, to be kept elsewhere", head),
        ]
        return Summary(f"A ledger of {number:,} promises", facts)

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
        return tuple(self._reader.terms().values())

    # ------------------------------------------------------------------ writing

    def add(
        self,
        recourse: Recourse,
        *,
        keys: Sequence[Any] | pd.Index | None = None,
        date: str | datetime.date | None = None,
        threshold: Any = None,
        radius: bool = True,
        once: bool = False,
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
            The probability from which on the model's user says class 1; by default that of the advice.
        radius
            Also compute and record each promise's certified radius, which costs more than its verdict.
        once
            Leave out what is recorded already: the same key, date, terms, class and x'. So an `add` of which one does
            not know whether it came to its end can be repeated; name the date, for tomorrow is another one.

        Raises
        ------
        InvalidInputError
            Among others if today's model at this threshold does not give some row its class: nothing is recorded.
        """
        if not isinstance(recourse, Recourse):
            raise InvalidInputError(f"recourse: expected what explain returned, got {type(recourse).__name__}")
        rows = np.flatnonzero(recourse.found)
        model = recourse.model.at(threshold)
        terms = _terms(model, recourse.space, recourse.changes)
        names = read_keys(recourse.counterfactuals.index if keys is None else keys, len(recourse))
        answers = recourse.counterfactuals.iloc[rows]
        if rows.size and not same_bits(recourse.points[rows], terms.space.encode(answers)):
            raise InvalidInputError("recourse: expected points that are the encoding of its counterfactuals")
        draft = Draft(terms, recourse.factuals.iloc[rows], answers, recourse.targets[rows], names[rows], date)
        return record(self._store, draft, skipped=len(recourse) - rows.size, radius=radius, once=once)

    def add_frame(
        self,
        model: object,
        factuals: pd.DataFrame,
        counterfactuals: pd.DataFrame,
        *,
        target: Any,
        changes: Changes | None = None,
        space: FeatureSpace | None = None,
        keys: Sequence[Any] | pd.Index | None = None,
        date: str | datetime.date | None = None,
        threshold: Any = None,
        radius: bool = True,
        once: bool = False,
    ) -> Receipt:
        """Record promises that come as tables, such as the file that ``holdfast explain --out`` writes.

        They are certified here, so that what is recorded does not rest on the word of a file.

        Parameters
        ----------
        model, space, target, changes
            As for `explain`.
        factuals, counterfactuals
            x and x' in raw units, row by row. A row of `counterfactuals` with a missing value in a column of the space
            has no answer and is skipped, unless the value may be missing and is in `factuals` too.
        keys, date, threshold, radius, once
            As for `add`; the keys are by default the index of `counterfactuals`.
        """
        if len(factuals) != len(counterfactuals):
            raise InvalidInputError(
                f"factuals: expected one for each of the {len(counterfactuals)} counterfactuals, got {len(factuals)}"
            )
        loaded = load_model(model, threshold)
        space = find_space(loaded, counterfactuals, space, factuals)
        missing = [name for name in space.names if name not in counterfactuals.columns]
        if missing:
            raise InvalidInputError(
                f"counterfactuals: expected the column {missing[0]!r}, got {list(counterfactuals.columns)}"
            )
        rows = np.flatnonzero(answered(factuals, counterfactuals, space))
        if loaded.preprocess is not None and rows.size:
            own = [name for name in factuals.columns if name in counterfactuals.columns]
            for table in (factuals, counterfactuals[own]):
                model_points(loaded, table.iloc[rows], space)
        names = read_keys(counterfactuals.index if keys is None else keys, len(counterfactuals))
        if changes is not None:
            check_changes(changes)
        targets = read_targets(loaded.classifier, target, len(counterfactuals))
        terms = _terms(loaded, space, changes)
        draft = Draft(terms, factuals.iloc[rows], counterfactuals.iloc[rows], targets[rows], names[rows], date)
        return record(self._store, draft, skipped=len(counterfactuals) - rows.size, radius=radius, once=once)

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
        return self._reader.promises(batch=batch, terms=terms, last=last)

    def find(self, key: Any) -> pd.DataFrame:
        """Every promise made to someone, the oldest first; no row if there is none.

        Parameters
        ----------
        key
            Whose promises; its text counts, as it does for `add`.
        """
        return promises_frame(self._reader.find(read_keys([key], 1)[0]))

    def under(self, terms: Terms) -> TermsReader:
        """The promises under some terms by their columns, which is how an audit goes through them."""
        return self._reader.under(terms)

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


def _terms(model: Model, space: FeatureSpace, changes: Changes | None) -> Terms:
    """What a promise was made under; a threshold that may move is one on the recorded model's own probabilities."""
    if changes is not None and changes.threshold is not None and model.calibration is not None:
        raise InvalidInputError(
            "threshold: expected one that stays, to record promises of a calibrated model, got one that may move from "
            f"{changes.threshold[0]:g} to {changes.threshold[1]:g}"
        )
    classifier, threshold = model.recorded
    return Terms(classifier, space, changes, threshold)
