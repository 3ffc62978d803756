"""`Audit`: the promises that a new model keeps, row by row and in total."""

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
    """The outcome of a promise; members compare equal to their names, and `meaning` is a sentence for people."""

    KEPT_FOR_CERTAIN = "KEPT_FOR_CERTAIN"
    KEPT = "KEPT"
    BROKEN = "BROKEN"
    UNREADABLE = "UNREADABLE"
    ERASED = "ERASED"

    @property
    def meaning(self) -> str:
        """The status as a sentence."""
        return {
            Status.KEPT_FOR_CERTAIN: "the new model is within the changes that the promise was proven for",
            Status.KEPT: "the new model was run on the promised row and gives it the promised class",
            Status.BROKEN: "the new model was run on the promised row and gives it another class",
            Status.UNREADABLE: "the new model cannot read the promised row: a column or a category is missing",
            Status.ERASED: "the promise was erased from the ledger, so its outcome is not known",
        }[self]

    @property
    def words(self) -> str:
        """The status in one to three words, for tables and pictures."""
        return self.name.lower().replace("_", " ")


STATUSES = tuple(Status)
CERTAIN, KEPT, BROKEN, UNREADABLE, ERASED = range(5)


def _listed(totals: dict[Status, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in totals.items() if count) or "none"


@dataclass(frozen=True, eq=False)
class Group:
    """The promises made under the same terms, and the new model compared with the model of these promises.

    Attributes
    ----------
    terms
        Model, feature space, threshold and Δ of the promises.
    how
        The value "parameters", or "folded" if a changed scaling, encoder or threshold is included in the parameters; ""
        if the two models cannot be compared: `why_not` gives the reason.
    distance
        Upper bound of the distance between the two; infinite if they cannot be compared.
    inside
        True if the new model is proven to be in Δ.
    totals
        Number of promises with each status.
    margin_error
        Largest difference of a margin here from the margin of the new model on the row as it reads it. It exceeds 0
        only if a changed scaling is included in the parameters. Each margin is then larger than this difference, or was
        computed from the row in raw units.
    """

    terms: Terms
    how: str
    why_not: str
    distance: float
    inside: bool
    totals: dict[Status, int]
    margin_error: float = 0.0

    def merged(self, other: Group) -> Group:
        """Merge with the promises of another part of the ledger under the same terms."""
        totals = {status: count + other.totals[status] for status, count in self.totals.items()}
        error = max(self.margin_error, other.margin_error)
        return replace(self, totals=totals, margin_error=error)

    def __repr__(self) -> str:
        return f"Group({self.terms!r}, distance {self.distance:.4g}: {_listed(self.totals)})"

    def to_dict(self) -> Document:
        """The group as plain data for JSON."""
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
    """The result of an audit for all promises together.

    Attributes
    ----------
    groups
        The promises by their terms.
    model, space, threshold
        The hashes of the new model's parameters (or its content) and of its feature space (None: that of each promise),
        and the model's threshold.
    head
        The ledger's head at the time of the audit.
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
        """Number of promises with each status."""
        return {status: sum(own.totals[status] for own in self.groups) for status in STATUSES}

    @property
    def n_broken(self) -> int:
        """Number of promises that the new model does not keep: BROKEN or UNREADABLE."""
        return self.totals[Status.BROKEN] + self.totals[Status.UNREADABLE]

    @property
    def kept(self) -> bool:
        """True if every promise is kept, the condition for promoting the new model."""
        return not self.n_broken

    @property
    def words(self) -> str:
        """The result in one sentence."""
        return (
            f"{self.n_broken:,} of {len(self):,} promises are not kept"
            if self.n_broken
            else f"All {len(self):,} promises are kept"
        )

    def to_dict(self) -> Document:
        """Everything except the single promises, as plain data for JSON."""
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
    """The result of `audit`, with one entry for each promise in the order of the ledger.

    Attributes
    ----------
    pages
        For each page of the ledger: its first promise, its size, its date, and its keys as lines of JSON, as recorded
        at the time of the audit. `keys` and `dates` list them one by one, with None for erased promises.
    codes
        The status of each promise as a position in `Status`; `status` has the members.
    targets
        The promised class of each promise; None if it was erased.
    margin
        The margin of the promised class over its strongest rival under the new model, in logits, up to
        `Group.margin_error`; nan if the model was not run.
    radius_left
        Largest further change of the model before the promise can break, in the unit of the promise's own changes; None
        unless requested, nan if it was not computed.
    first
        The ledger's number of the first promise here: 1, except in the audit of a part.
    groups, model, space, threshold, head
        The promises by their terms; the hashes of the new model's parameters (or its content) and of its feature space
        (None: that of each promise), and its threshold; the ledger's head at the time of the audit.
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
        """The number of each promise in the ledger: 1, 2, ..."""
        return np.arange(self.first, self.first + len(self))

    @property
    def keys(self) -> Values:
        """The key of the person of each promise."""
        return self._keys(np.arange(len(self)))

    @property
    def dates(self) -> Values:
        """The date of each promise, ISO 8601."""
        dates = np.repeat(
            as_objects([page[2] for page in self.pages]), [page[1] for page in self.pages]
        )
        dates[self.codes == ERASED] = None
        return dates

    def _keys(self, rows: Ints) -> Values:
        """The keys of some promises, in rising order; each page is read once, because a million keys take a moment."""
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
        """Mask of the promises that the new model does not keep: BROKEN or UNREADABLE."""
        return np.asarray((self.codes == BROKEN) | (self.codes == UNREADABLE))

    def to_frame(self) -> pd.DataFrame:
        """A table with one row for each promise, indexed by its number."""
        frame = self._frame(np.arange(len(self)))
        return frame if self.radius_left is None else frame.assign(radius_left=self.radius_left)

    def contact_list(self) -> pd.DataFrame:
        """A table of the promises that are not kept, with the keys of the people to contact."""
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
        """Draw the numbers of promises kept for certain, kept, broken and unreadable, with a bar for each terms."""
        from holdfast.promises._plots import draw_audit

        return draw_audit(self, ax)

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
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
