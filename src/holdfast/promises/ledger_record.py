"""Writing to a ledger: what is promised is checked and certified, then appended."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.dates import iso_date
from holdfast.errors import InvalidInputError
from holdfast.importers import Model
from holdfast.network import Floats, Network
from holdfast.promises.ledger_entries import Entry
from holdfast.promises.ledger_rows import encode_json, restored_rows, rows_as_json, rows_from_json
from holdfast.promises.ledger_store import Store
from holdfast.promises.ledger_terms import Terms
from holdfast.scored import Scored
from holdfast.shown import Shown, Summary
from holdfast.verify.certify import certify_points
from holdfast.verify.deciders import decider_for
from holdfast.verify.radius import radius_of_points


@dataclass(frozen=True)
class Receipt(Shown):
    """What an `add` wrote.

    Attributes
    ----------
    added
        So many promises were recorded.
    skipped
        Rows without an answer, which promise nothing.
    total, head
        How many promises the ledger has now, and the hash of the last.
    repeated
        With `once`: rows that were recorded already, and were not recorded again.
    """

    added: int
    skipped: int
    total: int
    head: str
    repeated: int = 0

    def overview(self) -> Summary:
        """What a notebook shows."""
        facts = [
            ("rows without an answer", self.skipped),
            ("recorded already", self.repeated or None),
            ("promises in the ledger", self.total),
            ("head, to be kept elsewhere", self.head),
        ]
        return Summary(f"{self.added:,} promises recorded", facts)


@dataclass(frozen=True, eq=False)
class Draft:
    """Promises that are to be recorded: x and x' in raw units, row by row, the classes promised, and to whom."""

    terms: Terms
    factuals: pd.DataFrame
    counterfactuals: pd.DataFrame
    targets: NDArray[np.intp]
    keys: NDArray[Any]
    date: str | datetime.date | None

    def entries(self, radius: bool) -> list[Entry]:
        """Checked and certified; where they go in the chain is for the store to say."""
        terms, space, targets = self.terms, self.terms.space, self.targets
        before, after = rows_as_json(space, self.factuals), rows_as_json(space, self.counterfactuals)
        points = space.encode(rows_from_json(space, after))
        # What is promised is the row in raw units: its encoding must not have changed on the way through the text.
        if not same_bits(points, space.encode(self.counterfactuals)):
            raise InvalidInputError("counterfactuals: expected rows that survive being written down, got other values")
        model, asked = Model(terms.classifier).at(terms.threshold), points
        if isinstance(terms.classifier, Scored):
            # Such a model reads the row itself, not what a network would see of it.
            classifier, asked = terms.classifier.about(restored_rows(space, rows_from_json(space, after)))
            model = Model(classifier).at(terms.threshold)
        broken = np.flatnonzero(model.classifier.predict_index(asked) != targets)
        if broken.size:
            raise InvalidInputError(
                f"counterfactuals: expected rows with the class that is promised, got another class today for "
                f"{broken.size} of {len(self.keys)}, the first with the key {self.keys[broken[0]]!r}"
            )
        labels, when = model.classifier.classes[targets], iso_date(self.date, "date")
        # The same row may be promised to many.
        _, firsts, places = np.unique(
            np.column_stack([points, targets]), axis=0, return_index=True, return_inverse=True
        )
        verdicts, radii = _proven(terms, model, asked[firsts], targets[firsts], radius)
        verdicts, radii = verdicts[places.ravel()], radii[places.ravel()]
        return [
            Entry(
                0, key, when, 0, encode_json(label), None if verdict is None else str(verdict), known, x, x_new, point
            )
            for key, label, verdict, known, x, x_new, point in zip(
                self.keys, labels.tolist(), verdicts, _finite(radii), before, after, _blobs(points), strict=True
            )
        ]


def record(store: Store, draft: Draft, *, skipped: int, radius: bool, once: bool) -> Receipt:
    """Check, certify and write; the lock is held for the writing alone."""
    if not isinstance(radius, bool):
        raise InvalidInputError(f"radius: expected True or False, for radii are computed here, got {radius!r}")
    if not isinstance(once, bool):
        raise InvalidInputError(f"once: expected True or False, got {once!r}")
    if not len(draft.keys):
        return Receipt(0, skipped, store.count(), store.head()[1].hex())
    entries = draft.entries(radius)
    added, total, head = store.append(draft.terms.hash, draft.terms.objects(), entries, once=once)
    return Receipt(added, skipped, total, head.hex(), len(entries) - added)


def _blobs(points: Floats) -> list[bytes]:
    content, width = np.ascontiguousarray(points, dtype="<f8").tobytes(), 8 * points.shape[1]
    return [content[start : start + width] for start in range(0, len(content), width)]


def same_bits(a: Floats, b: Floats) -> bool:
    """Whether two tables of numbers are the same to the last bit."""
    return a.shape == b.shape and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def read_keys(keys: Sequence[Any] | pd.Index, n: int) -> NDArray[Any]:
    """The keys as text, one for each row; nobody is told by a missing value or an empty text."""
    for key in keys:
        if (pd.api.types.is_scalar(key) and pd.isna(key)) or not str(key).strip():
            raise InvalidInputError(f"keys: expected a name or number for every row, got {key!r}")
    names = np.array([str(key) for key in keys], dtype=object)
    if names.shape != (n,):
        raise InvalidInputError(f"keys: expected one for each of the {n} rows, got {len(names)}")
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"keys: expected text that a file can hold, got {error}") from error
    return names


def _proven(
    terms: Terms, model: Model, points: Floats, targets: NDArray[np.intp], radius: bool
) -> tuple[NDArray[Any], Floats]:
    """The verdicts, None without Δ, and the certified radii, nan without a way to compute them.

    An audit believes what a ledger says, so nothing is taken over from whoever adds to it.
    """
    classifier, changes, n = model.classifier, terms.changes, len(points)
    verdicts, radii = np.full(n, None, dtype=object), np.full(n, np.nan)
    if changes is not None:
        verdicts = certify_points(decider_for(model, changes), points, targets).verdict
    known = terms.norm is None or (
        isinstance(classifier, Network) and classifier.rectified and not (classifier.hidden and terms.norm != np.inf)
    )
    if radius and known:
        radii = radius_of_points(model, points, targets, changes).lower
    return verdicts, radii


def _finite(radii: Floats) -> list[float | None]:
    """What SQLite and JSON can hold: nothing for nan, and the largest float for a point that no change can reach."""
    return [None if np.isnan(radius) else min(radius, sys.float_info.max) for radius in radii.tolist()]
