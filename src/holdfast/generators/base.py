"""What a generator gets, what it returns, and what every generator is.

A generator only proposes points. `explain` settles what it proposes in the caller's units, checks the constraints and
the class, and certifies the very point that is handed out: no generator can declare itself robust.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.changes import Changes
from holdfast.classifier import Classifier
from holdfast.deadline import Deadline
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.features.codec import Rows
from holdfast.importers import Model
from holdfast.network import Floats, Network
from holdfast.verify.deciders import Decider


@dataclass(frozen=True)
class Task:
    """A question to a generator: `n` people, the class each of them wants, and what may change.

    Parameters
    ----------
    model
        The classifier; `network` where it is one.
    space
        What a person can change. Without a space from the caller: the model's own variables, unbounded.
    factuals
        The people, (n, d) points; bit for bit ``space.encode(frame)``.
    targets
        The class wanted in each row, an index of ``network.classes``.
    decider
        Who says whether a point survives Δ; None where only today's model counts.
    seed
        For whatever is random: the same seed gives the same proposals.
    time_limit
        Seconds of work for each row, or None; see `Deadline`.
    n_jobs
        How many rows at once, for generators that work row by row; as in joblib.
    advance
        Called with the number of rows just finished.
    frame
        The people in the caller's columns and units.
    people
        The same as the space reads them, once for all that is asked about them.
    """

    model: Model
    space: FeatureSpace
    factuals: Floats
    targets: NDArray[np.intp]
    decider: Decider | None
    seed: int
    time_limit: float | None
    n_jobs: int | None
    advance: Callable[[int], object] | None
    frame: pd.DataFrame
    people: Rows

    def __len__(self) -> int:
        return int(self.factuals.shape[0])

    @property
    def classifier(self) -> Classifier:
        """The classifier, of any kind."""
        return self.model.classifier

    @property
    def network(self) -> Network:
        """The classifier as a network; raises where it is none."""
        return self.model.network

    @property
    def changes(self) -> Changes | None:
        """Δ."""
        return None if self.decider is None else self.decider.changes

    def take(self, rows: NDArray[np.intp]) -> Task:
        """The same question for some of the rows."""
        return replace(
            self,
            factuals=self.factuals[rows],
            targets=self.targets[rows],
            frame=self.frame.iloc[rows],
            people=self.people.take(rows),
        )

    def seconds(self, n_rows: int) -> float | None:
        """The time for so many rows."""
        return None if self.time_limit is None else self.time_limit * n_rows

    def deadline(self, n_rows: int) -> Deadline:
        """The end of the time for so many rows, if it begins now."""
        return Deadline.after(self.seconds(n_rows))

    def report(self, done: int) -> None:
        """Move the progress bar on by so many rows."""
        if self.advance is not None and done:
            self.advance(done)


@dataclass(frozen=True)
class Proposals:
    """What a generator answers, one entry for each row of the task.

    Parameters
    ----------
    points
        (n, d) points; a row of NaN where there is none.
    reason
        "" where a point is proposed, otherwise a sentence; it starts with "proven: " where no point can exist.
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
        unknown = np.full(points.shape[0], np.nan)
        return cls(points, reason, unknown, unknown.copy())

    @property
    def found(self) -> NDArray[np.bool_]:
        """Which rows have a point."""
        return np.asarray(~np.isnan(self.points).any(axis=1))


class Generator(ABC):
    """A way to find recourse: a frozen value that can be kept, compared, pickled and used for any number of people."""

    name: ClassVar[str]
    good_for: ClassVar[str]
    paper: ClassVar[str]
    # Whether what it proposes depends on Δ; a study asks one that ignores Δ once for all deltas.
    uses_changes: ClassVar[bool] = True
    # Whether its answers are rows of its own table, or lie on the way to one.
    keeps_to_rows: ClassVar[bool] = False

    @abstractmethod
    def propose(self, task: Task) -> Proposals:
        """A point for each row, or a reason why there is none; called by `explain`, which checks what comes back."""

    def example_table(self) -> object:
        """A table of people in raw units that this generator has, to take ranges from, or its own space; or None."""
        return None

    def harder(self, step: float) -> Generator:
        """A copy that demands more: step 0 is the generator itself, each further step leads further from the factual.

        What `Robust` (the paper's Algorithm 1) raises from round to round, by fractions of a step where a whole one is
        more than there is.
        """
        raise InvalidInputError(
            f"{type(self).__name__} has no parameter that trades cost for validity, so Robust cannot raise it"
        )
