"""Deciders for kinds of change whose worst margin is a closed form: a shift of the margin, an ellipsoid.

For one model and one value of `changes=` a decider computes verdicts, radii and counter-models, as the engine does
for networks and boxes. Fractions settle the rows that rounding leaves open.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from holdfast._classifier import Classifier
from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._network import Floats, Ints, Network, Pair
from holdfast._progress import Advance, no_bar
from holdfast._trees import TreeEnsemble
from holdfast.bounds._layers import margins_for
from holdfast.changes import Changes, PlausibleChanges
from holdfast.errors import HoldfastError
from holdfast.importers import Model
from holdfast.verify._engine import Engine, by_target
from holdfast.verify._verdict import NOT_ROBUST, ROBUST, Outcome, Stage
from holdfast.verify._witness import exact_margin


class ClosedForm(ABC):
    """One model under one value of `changes=`."""

    classifier: Classifier
    changes: Changes
    # Where the classifier comes from, with its threshold.
    model: Model | None = None

    @abstractmethod
    def worst(self, points: Floats, target: int) -> Pair:
        """Lower and upper bounds of the worst margin of each point, (n,) each."""

    @abstractmethod
    def holds(self, point: Floats, target: int) -> bool:
        """Whether every model accepts the point, in exact arithmetic."""

    @abstractmethod
    def counter_model(self, point: Floats, target: int) -> Classifier | None:
        """A replayed model that breaks the point; None if rounding prevents one."""

    @abstractmethod
    def radius(self, points: Floats, target: int) -> Pair:
        """Lower and upper bounds of the largest size for which each point is robust, (n,) each."""

    @abstractmethod
    def critics(self, point: Floats, target: int) -> list[Network]:
        """Networks that must accept every promised point; the worst network for this point is among them."""

    def settle(
        self,
        points: Floats,
        target: int | Ints,
        *,
        deadline: Deadline = NO_LIMIT,
        until: Stage = Stage.EXACT,
        keep: bool = True,
        advance: Advance = no_bar,
    ) -> Outcome:
        """As `Engine.settle`."""
        outcome = Outcome.empty(len(points))
        for one, rows in by_target(target, len(points)):
            lower, upper = self.worst(points[rows], one)
            outcome.lower[rows] = lower
            outcome.upper[rows] = upper
            outcome.mark(rows[lower > 0.0], ROBUST, Stage.CLOSED_FORM)
            outcome.mark(rows[upper < 0.0], NOT_ROBUST, Stage.CLOSED_FORM)
            # Fractions judge a margin of exactly 0 too, which depends on who wins a tie, and what overflowed.
            for row in rows[~(lower > 0.0) & ~(upper < 0.0)].tolist():
                if deadline.over or until is not Stage.EXACT:
                    break
                if self.holds(points[row], one):
                    outcome.mark(row, ROBUST, Stage.EXACT)
                elif self.counter_model(points[row], one) is not None:
                    outcome.mark(row, NOT_ROBUST, Stage.EXACT)
            advance(rows.size)
        return outcome

    def witness(self, outcome: Outcome, row: int, point: Floats, target: int) -> Classifier:
        """The counter-model of a row that is NOT_ROBUST."""
        counter = self.counter_model(point, target)
        if counter is None:
            raise HoldfastError(
                f"row {row}: replaying the counter-model gave the target class; please report this as a bug"
            )
        return counter

    def proof(
        self, outcome: Outcome, row: int, point: Floats, target: int, max_cases: int
    ) -> list[dict[str, Any]]:
        """An empty proof: the checker computes the closed form itself, in fractions."""
        return []


class Margins:
    """Margins with a bound of their rounding error for a network; margins as computed for any other model."""

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier
        # Of the engine only today's margins are asked, so that the radius does not matter.
        network = isinstance(classifier, Network)
        self.engine = Engine(classifier, PlausibleChanges(1e-300)) if network else None  # type: ignore[arg-type]
        # How far the sums of trees whose library adds in an order of its own may be from ours.
        self.spare = 0.0
        if isinstance(classifier, TreeEnsemble):
            votes, forest = classifier.score, classifier.forest
            if not (votes.shares or forest.ordered):
                self.spare = 4.0 * float(forest.rounding().max())
            # A library holds its own probability, which it rounds, against a threshold.
            self.spare += votes.doubt if votes.off else 0.0

    def each(self, points: Floats, target: int) -> Pair:
        """The margin over each rival, (n, k), and a bound of the rounding error of any of them, (n,)."""
        if self.engine is None:
            logits = self.classifier.logits(points)
            error = np.finfo(np.float64).eps * np.abs(logits).max(axis=1) + self.spare
            if logits.shape[1] == 1:
                return logits if target == 1 else -logits, error
            return logits[:, [target]] - np.delete(logits, target, axis=1), error
        prepared = self.engine.prepared(target)
        prepared.error(points)
        return prepared.today(points), prepared.rounding(points)

    def exactly(self, point: Floats, target: int) -> list[tuple[Fraction, bool]]:
        """The margin over each rival as a fraction, and whether a tie with this rival is lost."""
        if isinstance(self.classifier, Network):
            rivals = margins_for(self.classifier, target)
            return [
                (exact_margin(self.classifier, margin, point), margin.strict) for margin in rivals
            ]
        logits = [Fraction(logit) for logit in self.classifier.logits(point[None, :])[0].tolist()]
        if len(logits) == 1:
            return [(logits[0] if target == 1 else -logits[0], target != self.classifier.tie)]
        return [
            (logits[target] - logit, rival < target)
            for rival, logit in enumerate(logits)
            if rival != target
        ]


def accepted(margins: Iterable[tuple[Fraction, bool]]) -> bool:
    """Whether a model with these margins, and these rules for ties, gives the target class."""
    return all(margin > 0 or (margin == 0 and not lost) for margin, lost in margins)


def upper_end(radius: Floats) -> Floats:
    """The next float above, where a counter-model exists; 0 for negative values (lost already today)."""
    return np.where(
        radius < 0.0, 0.0, np.nextafter(np.nan_to_num(radius, nan=np.inf, posinf=np.inf), np.inf)
    )
