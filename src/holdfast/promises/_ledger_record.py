"""Check and certify promises before they are written to a ledger."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._given import given_list
from holdfast._network import Floats, Ints, Values
from holdfast._scored import Scored
from holdfast._shown import Shown, Summary
from holdfast.errors import InvalidInputError
from holdfast.generators._radii import measured_along, why_no_radius
from holdfast.importers import Model
from holdfast.promises._pages import (
    VERDICTS,
    Columns,
    as_objects,
    encode_json,
    restored_rows,
    rows_as_json,
    rows_from_json,
)
from holdfast.promises._terms import Terms
from holdfast.verify._certify import certify_points
from holdfast.verify._deciders import decider_for
from holdfast.verify._radius import radius_of_points


class OtherClassError(InvalidInputError):
    """A row for which the model does not give the promised class."""


@dataclass(frozen=True)
class Receipt(Shown):
    """The result of an `add`.

    Attributes
    ----------
    added
        Number of promises recorded.
    skipped
        Number of rows without advice, which promise nothing.
    total, head
        Number of promises in the ledger now, and its `Ledger.head`.
    repeated
        Number of rows that were already recorded, and were not recorded again.
    proven
        Number of the `added` promises that are proven under their Δ.
    """

    added: int
    skipped: int
    total: int
    head: str
    repeated: int = 0
    proven: int = 0

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
        facts = [
            ("rows without advice", self.skipped),
            ("already recorded", self.repeated or None),
            ("promises in the ledger", self.total),
            ("head, to be kept elsewhere", " ".join(self.head.split())),
        ]
        return Summary(self.words, facts)

    @property
    def words(self) -> str:
        """The number of promises recorded, and how many of these are proven if not all are."""
        proven = f", {self.proven:,} of them proven" if self.proven < self.added else ""
        return f"{self.added:,} promises recorded{proven}"


def certified_columns(
    terms: Terms,
    keys: Values,
    factuals: pd.DataFrame,
    counterfactuals: pd.DataFrame,
    targets: Ints,
    answered: Values,
    radius: bool,
    deadline: Deadline | None,
) -> Columns:
    """Check and certify the rows to record.

    An audit trusts the ledger, so nothing is taken over from the caller, except UNKNOWN. With a deadline, `answered`
    has just been proven here: it is taken over, and radii are computed until the deadline.
    """
    space = terms.space
    after = rows_as_json(terms.space, counterfactuals)
    raw = rows_from_json(space, after)
    points = space.encode(raw)
    # What is promised is the row in raw units: its encoding must not have changed on the way through the text.
    if not same_bits(points, space.encode(counterfactuals)):
        raise InvalidInputError(
            "counterfactuals: expected rows that stay the same in JSON, got other values"
        )
    classifier = terms.classifier
    asked = points
    if isinstance(classifier, Scored):
        # Such a model reads the row itself, not what a network would see of it.
        rows = restored_rows(space, raw)
        if not classifier.raw and not same_bits(points, rows.to_numpy(dtype=np.float64)):
            raise InvalidInputError(
                "model: a ledger stores rows in raw units, but this model was fitted on a space's variables; "
                "put their scaling or encoding into a pipeline before the model"
            )
        classifier, asked = classifier.about(rows)
    model = Model(classifier).at(terms.threshold)
    broken = np.flatnonzero(model.classifier.predict_index(asked) != targets)
    if broken.size:
        raise OtherClassError(
            f"counterfactuals: expected rows with the promised class, got another class today for "
            f"{broken.size} of {len(keys)}, the first with the key {keys[broken[0]]!r}"
        )
    # The same row may be promised to many.
    _, firsts, places = np.unique(
        np.column_stack([points, targets]), axis=0, return_index=True, return_inverse=True
    )
    places = places.ravel()
    verdicts = answered.copy()
    if deadline is None and terms.changes is not None:
        decided = answered.astype(str) != "UNKNOWN"
        needed = np.unique(places[decided])
        own, proven = firsts[needed], np.empty(len(firsts), dtype=object)
        decider = decider_for(model, terms.changes)
        proven[needed] = certify_points(decider, asked[own], targets[own]).verdict
        verdicts[decided] = proven[places[decided]]
    radii = np.full(len(firsts), np.nan)
    if radius and not why_no_radius(model.classifier, measured_along(terms.changes)):
        limit = deadline or NO_LIMIT
        radii = radius_of_points(
            model, asked[firsts], targets[firsts], terms.changes, deadline=limit
        ).lower
        # No change reaches a point with an infinite radius; tables and JSON hold the largest float for it.
        radii = np.minimum(radii, sys.float_info.max)
        radii[(radii <= 0.0) & limit.over] = np.nan
    return Columns(
        keys=as_objects([encode_json(key) for key in keys]),
        targets=targets.astype(np.uint16),
        verdicts=np.array([VERDICTS.index(v if v is None else str(v)) for v in verdicts], np.uint8),
        radii=radii[places],
        points=points,
        counterfactuals=after,
        factuals=rows_as_json(space, factuals),
    )


def same_bits(a: Floats, b: Floats) -> bool:
    """True if two tables of numbers are the same to the last bit."""
    return (
        a.shape == b.shape
        and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
    )


def read_keys(keys: Sequence[Any] | pd.Index, n: int) -> Values:
    """The keys as text, one for each row; missing values and empty texts are errors."""
    keys = given_list(keys, "keys")
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
