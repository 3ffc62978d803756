"""`Audit`: which promises a new model keeps, row by row and in total."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast._files import Document
from holdfast._network import Bools, Floats, Ints, Values
from holdfast._shown import HEAD, Shown, Summary
from holdfast.errors import FileFormatError
from holdfast.importers._thresholds import Threshold
from holdfast.promises._pages import as_objects
from holdfast.promises._terms import Terms

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Status(StrEnum):
    """What became of a promise; members compare equal to their names, and `meaning` is a sentence for people."""

    KEPT_FOR_CERTAIN = "KEPT_FOR_CERTAIN"
    KEPT = "KEPT"
    BROKEN = "BROKEN"
    UNREADABLE = "UNREADABLE"
    ERASED = "ERASED"

    @property
    def meaning(self) -> str:
        """What the status says."""
        return {
            Status.KEPT_FOR_CERTAIN: "the new model lies within what was certified: proven when the promise was made",
            Status.KEPT: "the new model was run on the promised row and gives it the promised class",
            Status.BROKEN: "the new model was run on the promised row and gives it another class",
            Status.UNREADABLE: "the new model cannot read the promised row: a column or a category is missing",
            Status.ERASED: "the promise was erased from the ledger, so that nothing can be said of it",
        }[self]

    @property
    def words(self) -> str:
        """The status in a word or three, for tables and pictures."""
        return self.name.lower().replace("_", " ")


STATUSES = tuple(Status)
CERTAIN, KEPT, BROKEN, UNREADABLE, ERASED = range(5)


def _listed(totals: dict[Status, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in totals.items() if count) or "none"


@dataclass(frozen=True, eq=False)
class Group:
    """The promises made under the same terms, and how the new model compares with the model of that day.

    Attributes
    ----------
    terms
        Model, feature space, threshold and Δ of the promises.
    how
        "parameters", or "folded" where a changed scaling, encoder or threshold was taken into the parameters; "" where
        the two models cannot be compared, and `why_not` says why.
    distance
        An upper bound on the distance between the two; infinite where they cannot be compared.
    inside
        Whether the new model certainly lies in Δ.
    totals
        How many promises have each status.
    margin_error
        How far a margin here may be off from that of running the new model on the row as it reads it. Not 0 where a
        changed scaling was taken into the parameters: each margin is larger than that, or was computed from the row
        in raw units after all.
    """

    terms: Terms
    how: str
    why_not: str
    distance: float
    inside: bool
    totals: dict[Status, int]
    margin_error: float = 0.0

    def merged(self, other: Group) -> Group:
        """The same terms, with the promises of another part of the ledger."""
        totals = {status: count + other.totals[status] for status, count in self.totals.items()}
        error = max(self.margin_error, other.margin_error)
        return replace(self, totals=totals, margin_error=error)

    def __repr__(self) -> str:
        return f"Group({self.terms!r}, distance {self.distance:.4g}: {_listed(self.totals)})"

    def to_dict(self) -> Document:
        """The group as plain JSON-able data."""
        changes = self.terms.changes
        return {
            "terms": self.terms.hash,
            "model": self.terms.model_hash,
            "space": self.terms.space_hash,
            "threshold": self.terms.threshold,
            "changes": None if changes is None else changes.to_dict(),
            **{
                name: None if changes is None else changes.facts().get(name)
                for name in ("delta", "biases")
            },
            "norm": None if self.terms.norm is None else str(self.terms.norm),
            "compared_by": self.how,
            "not_comparable": self.why_not,
            "distance": self.distance if np.isfinite(self.distance) else None,
            "inside": self.inside,
            "margin_error": self.margin_error,
            "totals": {str(status): count for status, count in self.totals.items()},
        }


@dataclass(frozen=True, eq=False)
class AuditTotals:
    """What an audit says of all promises together.

    Attributes
    ----------
    groups
        The promises by the terms they were made under.
    model, space, threshold
        The hashes of the new model's parameters (or its content) and of its feature space (None: that of each
        promise), and its threshold.
    head
        The ledger's head when it was audited.
    """

    groups: tuple[Group, ...]
    model: str
    space: str | None
    threshold: Threshold
    head: str

    def __len__(self) -> int:
        return sum(self.totals.values())

    @property
    def totals(self) -> dict[Status, int]:
        """How many promises have each status."""
        return {status: sum(own.totals[status] for own in self.groups) for status in STATUSES}

    @property
    def n_broken(self) -> int:
        """How many promises the new model does not keep: BROKEN or UNREADABLE."""
        return self.totals[Status.BROKEN] + self.totals[Status.UNREADABLE]

    @property
    def kept(self) -> bool:
        """Whether every promise is kept: what a gate before promotion asks."""
        return not self.n_broken

    @property
    def words(self) -> str:
        """The outcome in one sentence."""
        return (
            f"{self.n_broken:,} of {len(self):,} promises are not kept"
            if self.n_broken
            else f"All {len(self):,} promises are kept"
        )

    def to_dict(self) -> Document:
        """Everything but the single promises, as plain JSON-able data."""
        return {
            "format": "holdfast-audit",
            "version": 1,
            "promises": len(self),
            "kept": self.kept,
            "totals": {str(status): count for status, count in self.totals.items()},
            "model": self.model,
            "space": self.space,
            "threshold": self.threshold,
            "ledger_head": self.head,
            "groups": [group.to_dict() for group in self.groups],
        }


@dataclass(frozen=True, eq=False)
class Audit(AuditTotals, Shown):
    """What `audit` found, one entry for each promise in the order of the ledger.

    Attributes
    ----------
    pages
        For each page of the ledger its first promise, how many it has, their date, and their keys as lines of JSON, as
        the ledger had them when it was audited; `keys` and `dates` have them one by one, None where one was erased.
    codes
        The status of each as a position in `Status`; `status` has the members.
    targets
        Which class each promised; None where it was erased.
    margin
        How far the promised class lies above its strongest rival under the new model, in logits, up to
        `Group.margin_error`; nan where there was no need to run it.
    radius_left
        How far the model may move from here before the promise can break, in the unit of the promise's own changes;
        None unless asked for, nan where it was not computed.
    first
        Where the first of these promises stands in the ledger: 1, unless it is the audit of a part.
    groups, model, space, threshold, head
        The promises by the terms they were made under; the hashes of the new model's parameters (or its content) and of
        its feature space (None: that of each promise), and its threshold; the ledger's head when it was audited.
    """

    pages: tuple[tuple[int, int, str, str], ...]
    codes: NDArray[np.int8]
    targets: Values
    margin: Floats
    radius_left: Floats | None
    first: int = 1

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    @property
    def numbers(self) -> Ints:
        """Where each promise stands in the ledger: 1, 2, ..."""
        return np.arange(self.first, self.first + len(self))

    @property
    def keys(self) -> Values:
        """Whose promise each is."""
        return self._keys(np.arange(len(self)))

    @property
    def dates(self) -> Values:
        """When each was made, ISO 8601."""
        dates = np.repeat(
            as_objects([page[2] for page in self.pages]), [page[1] for page in self.pages]
        )
        dates[self.codes == ERASED] = None
        return dates

    def _keys(self, rows: Ints) -> Values:
        """Whose promise some are, given in rising order; a million keys take a moment, so each page is read once."""
        keys = np.empty(len(rows), dtype=object)
        ends = np.cumsum([page[1] for page in self.pages])
        places = np.searchsorted(ends, rows, side="right")
        for place in np.unique(places).tolist():
            first, size, _, text = self.pages[place]
            mine = slice(*np.searchsorted(places, [place, place + 1]))
            try:
                if text.startswith(" ") or "\n " in text:
                    text = re.sub("^ +$", "null", text, flags=re.MULTILINE)
                names = json.loads("[" + text.replace("\n", ",") + "]")
            except ValueError as error:
                raise FileFormatError(
                    f"page of promise {first}: expected keys as JSON, got: {error}"
                ) from error
            if len(names) != size:
                raise FileFormatError(
                    f"page of promise {first}: expected {size} keys, got {len(names)}"
                )
            keys[mine] = as_objects(names)[rows[mine] + self.first - first]
        return keys

    @property
    def status(self) -> Values:
        """A `Status` for each promise."""
        return as_objects(STATUSES)[self.codes]

    @property
    def broken(self) -> Bools:
        """Which promises the new model does not keep: BROKEN or UNREADABLE."""
        return np.asarray((self.codes == BROKEN) | (self.codes == UNREADABLE))

    def to_frame(self) -> pd.DataFrame:
        """One row for each promise, indexed by its number."""
        frame = self._frame(np.arange(len(self)))
        return frame if self.radius_left is None else frame.assign(radius_left=self.radius_left)

    def contact_list(self) -> pd.DataFrame:
        """Whose promise is not kept: one row for each such promise."""
        return self._frame(np.flatnonzero(self.broken))

    def _frame(self, rows: Ints) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "key": self._keys(rows),
                "date": self.dates[rows],
                "target": self.targets[rows],
                "status": as_objects([str(status) for status in STATUSES])[self.codes[rows]],
                "margin": self.margin[rows],
            },
            index=pd.Index(self.numbers[rows], name="number"),
        )

    def __repr__(self) -> str:
        return f"Audit({len(self)} promises: {_listed(self.totals)})"

    def plot(self, ax: Axes | None = None) -> Axes:
        """How many promises are kept for certain, kept, broken and unreadable, a bar for each of the terms."""
        from holdfast.promises._plots import draw_audit

        return draw_audit(self, ax)

    def overview(self) -> Summary:
        """What a notebook shows."""
        rows = np.flatnonzero(self.broken)
        # Whose promises are not kept; if all are, a few of those that are.
        shown = (rows if rows.size else np.arange(len(self)))[:HEAD]
        table = self._frame(shown)
        table["status"] = [Status(name).words for name in table["status"]]
        distances = [group.distance for group in self.groups]
        facts = [
            *((status.words, count) for status, count in self.totals.items()),
            ("distance from the models of the promises", max(distances) if distances else None),
            ("new model", self.model[:12]),
            ("threshold", self.threshold),
            ("ledger's head", " ".join(self.head.split())),
        ]
        count, what = (
            (rows.size, "promises that are not kept") if rows.size else (len(self), "promises")
        )
        return Summary(self.words, facts, table, total=count, rows=what)
