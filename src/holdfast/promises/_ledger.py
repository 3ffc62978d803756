"""`Ledger`: every promise that was made, in a file that shows when it was tampered with.

The chain covers a commitment to each promise, so that a promise cannot be removed, altered, moved or put in between
without every later hash being wrong; it still holds when someone's promises are erased. What the chain alone cannot
show is that its last entries were cut off, or that it was written anew: for that, keep the `head` elsewhere and give it
to `verify`. Nor does it show that a promise was ever certified: for that, `verify` certifies promises again.
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
    """The promises made so far; opens the file, or creates it.

    Use it in a ``with`` statement, in one thread; any number of processes may have the same file open.

    Parameters
    ----------
    path
        The file, an SQLite database.
    create
        False refuses a file that is not there, or empty.
    secret
        Record a pseudonym in the place of each key: HMAC-SHA256 with this secret, at least 16 bytes of it. Whoever has
        the file and not the secret cannot tell whose promise it is. A ledger is begun with or without one, for good.

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
        """Close the file; nothing is lost without it, every `add` has been written to the disk when it returns."""
        self.file.connection.close()

    def __len__(self) -> int:
        return self.end[0]

    def __repr__(self) -> str:
        try:
            number, head = self.end
        except HoldfastError:
            return f"Ledger({str(self.file.path)!r}: closed, or no longer to be read)"
        return f"Ledger({str(self.file.path)!r}: {number:,} promises, head {head.split()[-1][:12]})"

    def overview(self) -> Summary:
        """What a notebook shows."""
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
        """What stands for the whole ledger: keep it where nobody who may write the ledger can change it.

        Three lines, the body of a C2SP checkpoint: the ledger's name, the number of pages, the hash of the last page.
        """
        return self.end[1]

    @property
    def end(self) -> tuple[int, str]:
        """How many promises there are, those that were erased too, and the head, read at once."""
        with self.file.reading():
            pages, number, own = self.file.end()
            return number, self.file.head(pages, own)

    @property
    def terms(self) -> tuple[Terms, ...]:
        """Everything that promises were made under: model, feature space, threshold and Δ."""
        with self.file.reading():
            return tuple(map(self._read_terms, self.file.terms()))

    def _read_terms(self, name: str) -> Terms:
        """Read once and held against their hash, which is all that they can ever be."""
        if name not in self._terms:
            self._terms[name] = Terms.read(name, self.file.fetch)
        return self._terms[name]

    def pseudonym(self, key: Any) -> str:
        """What the ledger knows someone by: the key as text, or its pseudonym where the ledger was given a secret."""
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
        """Record what `explain` returned, all of it or nothing.

        It is certified again: what is recorded rests on no object that could have been put together by hand. Advice
        that was UNKNOWN is recorded as such, because that is what the person was told. A row that is recorded already
        (the same key, date, terms, class and x') is left out, so an `add` can be repeated; name the date then.

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
            Also compute and record each promise's certified radius, which costs more than its verdict. In a norm other
            than ∞ with two or more hidden layers none is recorded, since each takes up to two seconds.

        Raises
        ------
        InvalidInputError
            Among others if today's model at this threshold does not give some row its class, or if a row is about
            someone who was erased: nothing is recorded.
        """
        check_recourse(recourse, "recourse")
        keys = recourse.counterfactuals.index if keys is None else keys
        model, changes = recourse.model.at(threshold), recourse.changes
        if changes is not None and model.recorded[1] != recourse.model.recorded[1]:
            changes = known_of(model, changes, "it was measured at another threshold")
        terms = _terms(model, recourse.space, changes)
        return self._record(terms, recourse, keys, date, radius=radius)

    def add_answered(self, recourse: Recourse, deadline: Deadline, *, radius: bool) -> Receipt:
        """`add` for the process that certified the advice a moment ago: its verdicts, and radii while there is time."""
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
        """Record promises that come as tables, such as the file that ``holdfast explain --out`` writes.

        They are certified here, so that what is recorded does not rest on the word of a file.

        Parameters
        ----------
        model, space, target, changes
            As for `explain`.
        factuals, counterfactuals
            x and x' in raw units, row by row. A row of `counterfactuals` with a missing value in a column of the space
            has no answer and is skipped, unless the value may be missing and is in `factuals` too.
        keys, date, threshold, radius
            As for `add`; the keys are by default the index of `counterfactuals`.
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
        """Check, certify and write the rows with an answer; the lock is held for the writing alone."""
        if not isinstance(radius, bool):
            raise InvalidInputError(f"radius: expected True or False, got {radius!r}")
        if self.file.about.get("pseudonyms") and self.file.secret is None:
            raise InvalidInputError(
                "secret: expected that of this ledger, whose keys are pseudonyms, got None"
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
        added, total, head = self.file.append(parts, iso_date(date, "date"))
        return Receipt(added, len(recourse) - rows.size, total, head, rows.size - added)

    def erase(self, key: Any, *, why: str = "") -> tuple[int, ...]:
        """Take everything that the ledger says of someone's promises out of the file; returns their numbers.

        Their place in the chain remains, and an entry of its own that says which promises were erased, and when. It has
        eight bytes of a hash of the key, by which `add` refuses this person later. What was copied before is not
        reached: exports, backups, letters, certificates.

        Parameters
        ----------
        key
            Whose promises; a pseudonym as it is where the ledger has such and no secret was given.
        why
            A reason to put on record, which cannot be erased: name nobody in it.

        Raises
        ------
        InvalidInputError
            If the ledger has no promise to this person, or has it no more.
        """
        name = encode_json(self.pseudonym(key))
        erased = self.file.erase(name, iso_date(None, "date"), str(why))
        if not erased:
            raise InvalidInputError(
                f"key: expected someone with promises in {self.file.path}, got {shown(key)}, who has none; a ledger of "
                "pseudonyms also needs its secret"
            )
        return tuple(erased)

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
        """Every promise made to someone, the oldest first; no row if there is none.

        Parameters
        ----------
        key
            Whose promises; its text counts, as it does for `add`. A pseudonym as it is where the ledger has such and
            no secret was given.
        """
        name = encode_json(self.pseudonym(key))
        with self.file.reading():
            parts = []
            for page in self.file.pages(*self.file.pages_of(name)):
                places = np.flatnonzero(page.lines("keys") == name)
                parts.append(Promises.of(page, self._read_terms(page.terms), places))
            return promises_frame(parts)

    def verify(self, *, head: str | None = None, recheck: bool | int = 0) -> Verification:
        """Whether the ledger is what was written: every hash, every model, every row and its encoding.

        Parameters
        ----------
        head
            The `head` that was noted down at some time: it has to be in the chain, so nothing up to then is missing. A
            signed note is read too; the signatures on it are for others to check.
        recheck
            Also certify promises again by the model on record: all of them, or so many drawn at random. A promise whose
            class, verdict or radius cannot be proven again is a fault.
        """
        sample = len(self) if recheck is True else whole_number(recheck, "recheck", least=0)
        with self.file.reading():
            result = verify(self.file, head)
            if result.faults or not sample:
                return result
            return rechecked(result, self.promises, sample)

    def export(self, path: Place) -> int:
        """Write every promise to a table (.csv, .csv.gz or .parquet) and return how many there are."""
        with self.file.reading():
            return export(self.promises(), path, self.terms)


def _terms(model: Model, space: FeatureSpace, changes: Changes | None) -> Terms:
    """What a promise was made under; a threshold that may move is one on the recorded model's own probabilities."""
    if changes is not None and changes.threshold is not None and model.calibration is not None:
        raise InvalidInputError(
            "threshold: expected one that stays, to record promises of a calibrated model, got one that may move from "
            f"{changes.threshold[0]:g} to {changes.threshold[1]:g}"
        )
    classifier, threshold = model.recorded
    return Terms(classifier, space, changes, threshold)
