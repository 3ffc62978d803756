"""What a generator gets, what it returns, and what every generator is.

A generator only proposes points. `explain` expresses what it proposes in the caller's units, checks the constraints and
the class, and certifies the very point that is handed out: no generator can declare itself robust.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar

import numpy as np
import pandas as pd

from holdfast._classifier import Classifier
from holdfast._deadline import Deadline
from holdfast._given import positive_number, whole_number
from holdfast._network import Bools, Floats, Ints, Network
from holdfast._progress import Advance, no_bar
from holdfast.changes import Changes
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.features._codec import Rows
from holdfast.importers import Model
from holdfast.importers._model import as_network
from holdfast.verify._certify import certify_points
from holdfast.verify._deciders import Decider


@dataclass(frozen=True)
class Task:
    """A question to a generator: `n` people, the class each of them wants, and what may change.

    Parameters
    ----------
    model
        The classifier; `network` where it is one.
    space
        What a person can change. Without a space from the caller: the model's own variables, unbounded.
    people
        The people as the space reads them, once for all that is asked about them; see `factuals`.
    targets
        The class wanted in each row, an index of ``network.classes``.
    decider
        Who says whether a point survives Δ; None where only today's model counts.
    seed
        For whatever is random: the same seed gives the same proposals.
    time_limit
        Seconds of work for each row, or None; see `Deadline`.
    advance
        Called with the number of rows just finished, to move a progress bar.
    frame
        The caller's table: the people in the caller's columns and units, and whatever other columns it has.
    last
        (n, d) answers to a softer demand, from which a search may begin; NaN where there was none.
    """

    model: Model
    space: FeatureSpace
    people: Rows
    targets: Ints
    decider: Decider | None
    frame: pd.DataFrame
    seed: int = 0
    time_limit: float | None = None
    advance: Advance = no_bar
    last: Floats | None = None

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def factuals(self) -> Floats:
        """The people, (n, d) points; bit for bit ``space.encode(frame)``."""
        return self.people.points

    @property
    def classifier(self) -> Classifier:
        """The classifier, of any kind."""
        return self.model.classifier

    @property
    def network(self) -> Network:
        """The classifier as a network; raises where it is none."""
        return as_network(self.classifier, "generator")

    @property
    def changes(self) -> Changes | None:
        """Δ."""
        return None if self.decider is None else self.decider.changes

    def take(self, rows: Ints) -> Task:
        """The same question for some of the rows."""
        return replace(
            self,
            targets=self.targets[rows],
            frame=self.frame.iloc[rows],
            people=self.people.take(rows),
            last=None if self.last is None else self.last[rows],
        )

    def deadline(self, n_rows: int) -> Deadline:
        """The end of the time for so many rows, if it begins now."""
        return Deadline.after(None if self.time_limit is None else self.time_limit * n_rows)

    def project(self, rows: Ints, points: Floats) -> Floats:
        """Each point moved to where the constraints of its row's person allow, as a row of the caller's table."""
        return self.space.project(points, self.people.take(rows))

    def allowed(self, fine: Bools, rows: Ints, points: Floats) -> Bools:
        """Of the projected points that are fine so far, those with the target class that obey the rules."""
        fine = fine & (self.classifier.predict_index(points) == self.targets[rows])
        if self.space.rules:
            # Everything else holds by projection; a rule that a factual breaks may be beyond repair.
            asked = np.flatnonzero(fine)
            fine[asked] = self.space.satisfied(points[asked], self.people.take(rows[asked]))
        return fine

    def robust(
        self,
        fine: Bools,
        rows: Ints,
        points: Floats,
        deadline: Deadline,
        *,
        method: str = "joint",
    ) -> Bools:
        """Of the points that are fine so far, those that are proven Δ-robust in time; all of them without Δ."""
        if self.decider is None:
            return fine
        proven = np.zeros_like(fine)
        asked = np.flatnonzero(fine)
        if asked.size and not deadline.over:
            targets = self.targets[rows[asked]]
            certificates = certify_points(
                self.decider, points[asked], targets, deadline=deadline, method=method
            )
            proven[asked] = certificates.robust
        return proven

    def nothing(self) -> Proposals:
        """A table to fill with proposals: no point and no reason yet."""
        return Proposals.of(np.full(self.factuals.shape, np.nan), [""] * len(self))


class ReasonKind(Enum):
    """What a reason says, and how its text starts."""

    FIXED = "proven: nothing may change"
    IMPOSSIBLE = "proven: "
    ACCEPTED = "already classified as "
    # None was found, or none was given; or there is an answer, with a remark or without.
    OTHER = ""

    @property
    def proven(self) -> bool:
        """Whether it is proven that there is no answer."""
        return self in (ReasonKind.FIXED, ReasonKind.IMPOSSIBLE)


class RecourseReason(str):
    """Why a row has no answer: a sentence that begins as its `kind` says, which is what to ask instead of the text.

    Examples
    --------
    >>> reason = RecourseReason(ReasonKind.IMPOSSIBLE, "no point is accepted")
    >>> reason, reason.bare, RecourseReason.read(str(reason)).kind.name
    ('proven: no point is accepted', 'no point is accepted', 'IMPOSSIBLE')
    """

    kind: ReasonKind

    def __new__(cls, kind: ReasonKind, rest: str) -> RecourseReason:
        reason = super().__new__(cls, kind.value + rest)
        reason.kind = kind
        return reason

    def __getnewargs__(self) -> tuple[ReasonKind, str]:  # type: ignore[override]
        return self.kind, self.removeprefix(self.kind.value)

    @classmethod
    def read(cls, text: str) -> RecourseReason:
        """A reason as a file has it."""
        kind = next(kind for kind in ReasonKind if text.startswith(kind.value))
        return cls(kind, text.removeprefix(kind.value))

    @property
    def bare(self) -> str:
        """The sentence for a reader who sees by other means that it is proven."""
        return self.removeprefix(ReasonKind.IMPOSSIBLE.value)


@dataclass(frozen=True)
class Proposals:
    """What a generator answers, one entry for each row of the task.

    Parameters
    ----------
    points
        (n, d) points; a row of NaN where there is none.
    reason
        "" where a point is proposed, otherwise a sentence; a `RecourseReason` can say that no point exists.
    optimality_gap
        How far, relatively, the cost may lie above the least possible; 0 proven, nan where the method proves nothing.
    lower_bound
        A proven lower bound on `cost_l1`, nan where there is none.
    """

    points: Floats
    reason: list[str]
    optimality_gap: Floats
    lower_bound: Floats

    @classmethod
    def of(cls, points: Floats, reason: list[str]) -> Proposals:
        """Points of a method that proves nothing about their cost."""
        unknown = np.full(len(points), np.nan)
        return cls(points, reason, unknown, unknown.copy())

    @property
    def found(self) -> Bools:
        """Which rows have a point."""
        return np.asarray(np.isfinite(self.points).all(axis=1))

    def fill(self, rows: Ints, points: Mapping[int, Floats], none: str) -> None:
        """Take over the points that were found for these rows; `none` says why the others have none."""
        for row in rows.tolist():
            if row in points:
                self.points[row] = points[row]
            else:
                self.reason[row] = none

    def put(self, rows: Ints, others: Proposals) -> None:
        """Take over the proposals that were made for these rows."""
        self.points[rows] = others.points
        self.optimality_gap[rows] = others.optimality_gap
        self.lower_bound[rows] = others.lower_bound
        for row, text in zip(rows.tolist(), others.reason, strict=True):
            self.reason[row] = text


class Generator(ABC):
    """A way to find recourse: a frozen value that can be kept, compared, pickled and used for any number of people."""

    name: ClassVar[str]
    good_for: ClassVar[str]
    paper: ClassVar[str]
    # Whether what it proposes depends on Δ; a study asks one that ignores Δ once for all deltas.
    uses_changes: ClassVar[bool] = True
    # The parameter that trades cost for validity, where `raise_by` says how much of it a step is.
    raises: ClassVar[str] = ""
    raise_by: float
    # Whether it asks about one person at a time and spreads that itself.
    row_by_row: ClassVar[bool] = False
    # Whether its answers are rows of its own table, or lie on the way to one.
    keeps_to_rows: ClassVar[bool] = False

    @abstractmethod
    def propose(self, task: Task) -> Proposals:
        """A point for each row, or a reason why there is none; called by `explain`, which checks what comes back."""

    def check_numbers(
        self,
        *,
        positive: Sequence[str] = (),
        non_negative: Sequence[str] = (),
        counts: Sequence[str] = (),
    ) -> None:
        """Refuse parameters of these names that are not numbers > 0, numbers >= 0, or whole numbers >= 1."""
        for name in (*positive, *non_negative):
            positive_number(getattr(self, name), name, or_zero=name in non_negative)
        for name in counts:
            whole_number(getattr(self, name), name, least=1)

    def example_table(self) -> object:
        """A table of people in raw units that this generator has, to take ranges from, or its own space; or None."""
        return getattr(self, "candidates", None)

    def harder(self, step: float) -> Generator:
        """A copy that demands more: step 0 is the generator itself, each further step leads further from the factual.

        What `Robust` (the paper's Algorithm 1) raises from round to round, by fractions of a step where a whole one is
        more than there is. A parameter named by `raises` grows by `raise_by` for each step, and by up to twice that by
        step 20: far demands come in larger strides.
        """
        if not self.raises:
            raise InvalidInputError(
                f"{type(self).__name__} has no parameter that trades cost for validity, so Robust cannot raise it"
            )
        more = self.raise_by * step * (1.0 + step / 20.0)
        return replace(self, **{self.raises: getattr(self, self.raises) + more})  # type: ignore[type-var]


@dataclass(frozen=True)
class ByMargin(Generator):
    """A generator for today's model that can be asked for more margin than none."""

    uses_changes = False
    raises = "margin"

    margin: float = 0.0
    raise_by: float = 0.1

    def __post_init__(self) -> None:
        self.check_numbers(positive=["raise_by"], non_negative=["margin"])
