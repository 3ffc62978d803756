"""The base class of generators, its question (`Task`) and its result (`Proposals`).

A generator only proposes points. `explain` converts them to the caller's units, checks the constraints and the class,
and certifies the final point: no generator can declare itself robust.
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
        The classifier; `network` if it is a network.
    space
        What a person can change. Without a space from the caller: the model's own variables, unbounded.
    people
        The people as the space reads them; see `factuals`.
    targets
        The class wanted in each row, an index of ``network.classes``.
    decider
        Decides whether a point is Δ-robust; None if only today's model counts.
    seed
        The seed of random numbers: the same seed gives the same points.
    time_limit
        Seconds of work for each row, or None; see `Deadline`.
    advance
        Called with the number of rows just finished, to move a progress bar.
    frame
        The caller's table: the people in the caller's columns and units, with all other columns.
    last
        (n, d) points for a softer demand, from which a search may begin; NaN in rows without one.
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
        """The classifier as a network; an error if it is not a network."""
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
        """The end of the time for this number of rows, if it begins now."""
        return Deadline.after(None if self.time_limit is None else self.time_limit * n_rows)

    def project(self, rows: Ints, points: Floats) -> Floats:
        """Each point moved to where the constraints of its row's person allow, as a row of the caller's table."""
        return self.space.project(points, self.people.take(rows))

    def allowed(self, fine: Bools, rows: Ints, points: Floats) -> Bools:
        """The projected points, among those given, that have the target class and obey the rules."""
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
        """The points, among those given, that are proven Δ-robust in time; all of them without Δ."""
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
    """The kinds of a `RecourseReason`, and how its text starts."""

    FIXED = "proven: nothing may change"
    IMPOSSIBLE = "proven: "
    ACCEPTED = "already classified as "
    # None was found, or none was given; or there is an answer, with a remark or without.
    OTHER = ""

    @property
    def proven(self) -> bool:
        """Whether it is proven that no advice exists."""
        return self in (ReasonKind.FIXED, ReasonKind.IMPOSSIBLE)


class RecourseReason(str):
    """Why a row has no advice: a sentence with a `kind`. Compare the kind, not the text.

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
        """Read a reason from its text in a file."""
        kind = next(kind for kind in ReasonKind if text.startswith(kind.value))
        return cls(kind, text.removeprefix(kind.value))

    @property
    def bare(self) -> str:
        """The sentence without "proven: "."""
        return self.removeprefix(ReasonKind.IMPOSSIBLE.value)


@dataclass(frozen=True)
class Proposals:
    """The result of a generator, one entry for each row of the task.

    Parameters
    ----------
    points
        (n, d) points; a row of NaN without a point.
    reason
        "" in rows with a point, otherwise a sentence; a `RecourseReason` can say that no point exists.
    optimality_gap
        The largest relative excess of the cost over the least possible; 0 is proven optimal, nan is not proven.
    lower_bound
        A proven lower bound on `cost_l1`, or nan.
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
    """A method that finds advice: a frozen value to store, compare, pickle and use for any number of people."""

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
        """A point for each row, or a reason; `explain` calls this method and checks the result."""

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
        """The generator's table of people in raw units, or its own space, or None; `explain` takes ranges from it."""
        return getattr(self, "candidates", None)

    def harder(self, step: float) -> Generator:
        """A copy that demands more: step 0 is the generator itself, each further step leads further from the factual.

        `Robust` (the paper's Algorithm 1) raises the step from round to round, by fractions if a whole step finds no
        point. A parameter named by `raises` grows by `raise_by` for each step, and by up to twice that by step 20.
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
