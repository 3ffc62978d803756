"""`Ledger`: every promise, in a file that shows tampering.

The chain covers a commitment to each promise. So removing, altering, moving or inserting a promise makes every later
hash wrong. The chain stays valid when a person's promises are erased. The chain alone cannot show that its last entries
were cut off, or that the whole chain was rewritten: store the `head` elsewhere and give it to `verify`. The chain also
does not show that a promise was ever certified: `verify` can certify promises again.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from holdfast._dates import iso_date
from holdfast._deadline import Deadline
from holdfast._files import Place, given_path
from holdfast._given import shown, whole_number
from holdfast._shown import HEAD, Shown, Summary
from holdfast.changes import Changes
from holdfast.errors import HoldfastError, InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators import Recourse
from holdfast.generators._recourse import check_recourse
from holdfast.generators._stated import recourse_from
from holdfast.importers import Model
from holdfast.promises._ledger_file import LedgerFile, check_secret
from holdfast.promises._ledger_read import BATCH, Promises, export, promises_frame
from holdfast.promises._ledger_record import Receipt, certified_columns, read_keys, same_bits
from holdfast.promises._ledger_verify import Verification, rechecked, verify
from holdfast.promises._pages import as_objects, encode_json
from holdfast.promises._terms import Terms
from holdfast.verify._fingerprint import known_of
from holdfast.verify._inputs import check_changes

__all__ = ["Ledger", "Receipt"]


class Ledger(Shown):
    """The recorded promises; opens the file, or creates it.

    Use it in a ``with`` statement, in one thread; any number of processes may have the same file open.

    Parameters
    ----------
    path
        The file, an SQLite database.
    create
        False raises for a file that is missing or empty.
    secret
        Records a pseudonym instead of each key: HMAC-SHA256 with this secret of at least 16 bytes. A reader of the file
        without the secret cannot tell whose promise it is. A ledger is created with or without a secret, permanently.

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

    def __init__(
        self,
        path: Place,
        *,
        create: bool = True,
        secret: str | bytes | None = None,
    ) -> None:
        self.file = LedgerFile(given_path(path, "path"), create=create, secret=check_secret(secret))
        self._terms: dict[str, Terms] = {}

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Every `add` is on the disk when it returns, so nothing is lost without closing."""
        self.file.connection.close()

    def __len__(self) -> int:
        return self.end[0]

    def __repr__(self) -> str:
        try:
            number, head = self.end
        except HoldfastError:
            return f"Ledger({str(self.file.path)!r}: closed, or unreadable)"
        return f"Ledger({str(self.file.path)!r}: {number:,} promises, head {head.split()[-1][:12]})"

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
        number, head = self.end
        terms = ["no Δ" if own.changes is None else own.changes.words for own in self.terms]
        facts = [
            ("file", self.file.path),
            ("made under", "; ".join(terms[:HEAD]) + "; …" * (len(terms) > HEAD)),
            ("head, to be kept elsewhere", " ".join(head.split())),
        ]
        return Summary(f"A ledger of {number:,} promises", facts)

    @property
    def head(self) -> str:
        """A summary of the whole ledger: store it where people who can write the ledger cannot change it.

        Three lines, the body of a C2SP checkpoint: the ledger's name, the number of pages, the hash of the last page.
        """
        return self.end[1]

    @property
    def end(self) -> tuple[int, str]:
        """Number of promises, erased ones included, and the head, read at the same time."""
        with self.file.reading():
            pages, number, own = self.file.end()
            return number, self.file.head(pages, own)

    @property
    def terms(self) -> tuple[Terms, ...]:
        """All recorded terms of promises: model, feature space, threshold and Δ."""
        with self.file.reading():
            return tuple(map(self._read_terms, self.file.terms()))

    def _read_terms(self, name: str) -> Terms:
        """Read terms once and check them by their hash."""
        if name not in self._terms:
            self._terms[name] = Terms.read(name, self.file.fetch)
        return self._terms[name]

    def pseudonym(self, key: Any) -> str:
        """The recorded name of a person: the key as text, or its pseudonym if the ledger was opened with a secret."""
        return self.file.name_of(str(read_keys([key], 1)[0]))

    # ------------------------------------------------------------------ writing

    def add(
        self,
        recourse: Recourse,
        *,
        keys: Sequence[Any] | pd.Index | None = None,
        date: str | datetime.date | None = None,
        threshold: Any = None,
        radius: bool = True,
    ) -> Receipt:
        """Record the result of `explain`, all of it or nothing.

        The advice is certified again, so that the record does not depend on an object that a caller could have altered.
        Advice that was UNKNOWN is recorded as such, because the person received it as such. A row that is already
        recorded (the same key, date, terms, class and x') is left out, so an `add` can be repeated; pass the date in
        that case.

        Parameters
        ----------
        recourse
            The advice; rows without advice are skipped.
        keys
            The key of the person of each row of `recourse`; default: its index.
        date
            The date of the promise, by default today (UTC): a date, or text in ISO 8601.
        threshold
            The probability from which the model decides for class 1; default: that of the advice.
        radius
            True also computes and records each promise's certified radius, which is slower than its verdict. In a norm
            other than ∞ with two or more hidden layers no radius is recorded, because each takes up to two seconds.

        Raises
        ------
        InvalidInputError
            For example if today's model at this threshold gives a row another class, or if a row is about an erased
            person. Nothing is recorded then.
        """
        check_recourse(recourse, "recourse")
        keys = recourse.counterfactuals.index if keys is None else keys
        model, changes = recourse.model.at(threshold), recourse.changes
        if changes is not None and model.recorded[1] != recourse.model.recorded[1]:
            changes = known_of(model, changes, "it was measured at a different threshold")
        terms = _terms(model, recourse.space, changes)
        return self._record(terms, recourse, keys, date, radius=radius)

    def add_answered(self, recourse: Recourse, deadline: Deadline, *, radius: bool) -> Receipt:
        """Record advice that this process has just certified: its verdicts, and radii while time is left."""
        terms = _terms(recourse.model, recourse.space, recourse.changes)
        keys = recourse.counterfactuals.index
        return self._record(terms, recourse, keys, None, radius=radius, deadline=deadline)

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
    ) -> Receipt:
        """Record promises given as tables, such as the file that ``holdfast explain --out`` writes.

        They are certified here, so the record does not depend on the verdicts in a file.

        Parameters
        ----------
        model, space, target, changes
            As for `explain`.
        factuals, counterfactuals
            x and x' in raw units, row by row. A row of `counterfactuals` with a missing value in a column of the space
            has no advice and is skipped, unless the value may be missing and is in `factuals` too.
        keys, date, threshold, radius
            As for `add`; by default the keys are the index of `counterfactuals`.
        """
        if changes is not None:
            check_changes(changes)
        told = recourse_from(
            model, factuals, counterfactuals, target=target, space=space, threshold=threshold
        )
        if changes is not None:
            changes = known_of(told.model, changes, "the table does not say that it was stated")
        keys = counterfactuals.index if keys is None else keys
        return self._record(
            _terms(told.model, told.space, changes), told, keys, date, radius=radius
        )

    def _record(
        self,
        terms: Terms,
        recourse: Recourse,
        keys: Sequence[Any] | pd.Index,
        date: str | datetime.date | None,
        *,
        radius: bool,
        deadline: Deadline | None = None,
    ) -> Receipt:
        """Check, certify and write the rows with advice; the lock is held only for the writing."""
        if not isinstance(radius, bool):
            raise InvalidInputError(f"radius: expected True or False, got {radius!r}")
        if self.file.about.get("pseudonyms") and self.file.secret is None:
            raise InvalidInputError(
                "secret: expected the secret of this ledger, whose keys are pseudonyms, got None"
            )
        names = read_keys(keys, len(recourse))
        rows = recourse.answered
        if not rows.size:
            return Receipt(0, len(recourse), *self.end)
        before = recourse.factuals.iloc[rows]
        after = recourse.counterfactuals.iloc[rows]
        if not same_bits(recourse.points[rows], terms.space.encode(after)):
            raise InvalidInputError(
                "recourse: expected points that are the encoding of its counterfactuals"
            )
        known = as_objects([self.file.name_of(key) for key in names[rows]])
        said = certified_columns(
            terms,
            known,
            before,
            after,
            recourse.targets[rows],
            recourse.verdict[rows],
            radius,
            deadline,
        )
        parts = [(terms, said)]
        if terms.changes is not None and terms.changes.chance is not None:
            # Nothing measured is recorded of people who are plainly unlike those of whom it was.
            told = np.array([recourse.chance(row) is not None for row in rows.tolist()])
            bare = replace(terms, changes=terms.changes.calibrated(None))
            parts = [
                (terms, said.take(np.flatnonzero(told))),
                (bare, said.take(np.flatnonzero(~told))),
            ]
            parts = [part for part in parts if len(part[1].keys)]
        added, proven, total, head = self.file.append(parts, iso_date(date, "date"))
        return Receipt(added, len(recourse) - rows.size, total, head, rows.size - added, proven)

    def erase(self, key: Any, *, why: str = "") -> tuple[int, ...]:
        """Remove all data of a person's promises from the file; returns the numbers of the promises.

        Their places in the chain remain. A new entry states which promises were erased, and when. It contains eight
        bytes of a hash of the key, so that `add` refuses this person later. Copies made before are not changed:
        exports, backups, letters, certificates.

        Parameters
        ----------
        key
            The person's key, or the recorded pseudonym if the ledger has pseudonyms and was opened without its secret.
        why
            A reason to record, which cannot be erased later: do not name people in it.

        Raises
        ------
        InvalidInputError
            If the ledger has no promise to this person, or it was erased already.
        """
        name = encode_json(self.pseudonym(key))
        erased = self.file.erase(name, iso_date(None, "date"), str(why))
        if not erased:
            raise InvalidInputError(
                f"key: expected a key with promises in {self.file.path}, got {shown(key)}, which has none; "
                "a ledger of pseudonyms also needs its secret"
            )
        return tuple(erased)

    # ------------------------------------------------------------------ reading

    def promises(
        self, *, batch: int = BATCH, terms: Terms | None = None, last: int | None = None
    ) -> Iterator[Promises]:
        """Yield all promises in batches; promises added during the reading are left out.

        Parameters
        ----------
        batch
            Largest number of promises in memory at once.
        terms
            Only promises under these terms.
        last
            Only promises up to this number.
        """
        last = len(self) if last is None else last
        asked = "SELECT number FROM pages WHERE size > 0 AND first <= ? AND (? = '' OR terms = ?) ORDER BY first"
        name = "" if terms is None else terms.hash
        with self.file.reading():
            for (number,) in self.file.query(asked, last, name, name):
                (page,) = self.file.pages(number)
                count = min(page.size, last + 1 - page.first)
                for start in range(0, count, batch):
                    places = np.arange(start, min(start + batch, count))
                    yield Promises.of(page, self._read_terms(page.terms), places)

    def find(self, key: Any) -> pd.DataFrame:
        """A table of the promises made to a person, the oldest first; without rows if there are none.

        Parameters
        ----------
        key
            The person's key, compared as text, as in `add`; or the recorded pseudonym if the ledger has pseudonyms and
            was opened without its secret.
        """
        name = encode_json(self.pseudonym(key))
        with self.file.reading():
            parts = []
            for page in self.file.pages(*self.file.pages_of(name)):
                places = np.flatnonzero(page.lines("keys") == name)
                parts.append(Promises.of(page, self._read_terms(page.terms), places))
            return promises_frame(parts)

    def verify(self, *, head: str | None = None, recheck: bool | int = 0) -> Verification:
        """Check that the ledger is as it was written: every hash, every model, every row and its encoding.

        Parameters
        ----------
        head
            A `head` that was stored earlier. It must be in the chain, so all promises up to it are present. A signed
            note is accepted too; its signatures are not checked here.
        recheck
            Also certify promises again by the recorded model: all of them, or a random sample of this size. A promise
            whose class, verdict or radius cannot be proven again is a fault.
        """
        sample = len(self) if recheck is True else whole_number(recheck, "recheck", least=0)
        with self.file.reading():
            result = verify(self.file, head)
            if result.faults or not sample:
                return result
            return rechecked(result, self.promises, sample)

    def export(self, path: Place) -> int:
        """Write every promise to a table (.csv, .csv.gz or .parquet) and return the number of promises."""
        with self.file.reading():
            return export(self.promises(), path, self.terms)


def _terms(model: Model, space: FeatureSpace, changes: Changes | None) -> Terms:
    """The terms of a promise; a threshold that may move is on the recorded model's own probabilities."""
    if changes is not None and changes.threshold is not None and model.calibration is not None:
        raise InvalidInputError(
            "threshold: expected a fixed one, to record promises of a calibrated model, got one that may move from "
            f"{changes.threshold[0]:g} to {changes.threshold[1]:g}"
        )
    classifier, threshold = model.recorded
    return Terms(classifier, space, changes, threshold)
