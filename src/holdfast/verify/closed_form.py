"""The kinds of change whose worst margin is a closed form: a shift of the margin, an ellipsoid of parameters.

A decider answers for one model and one value of `changes=` what the engine answers for networks and boxes: which points
hold, how far they hold, and a model that breaks them. What rounding leaves open is settled in fractions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds.layers import margins_for
from holdfast.changes import Changes, PlausibleChanges
from holdfast.classifier import Classifier
from holdfast.deadline import Deadline
from holdfast.errors import HoldfastError
from holdfast.network import Floats, Network
from holdfast.verify.engine import Engine, by_target
from holdfast.verify.margins import least_margins
from holdfast.verify.verdict import NOT_ROBUST, PLACES, ROBUST, Outcome, Stage
from holdfast.verify.witness import exact_margin

_NO_LIMIT = Deadline.after(None)


class ClosedForm(ABC):
    """One model under one value of `changes=`."""

    classifier: Classifier
    changes: Changes

    @abstractmethod
    def worst(self, points: Floats, target: int) -> tuple[Floats, Floats]:
        """Bounds of the worst margin of each point, from below and from above, (n,) each."""

    @abstractmethod
    def holds(self, point: Floats, target: int) -> bool:
        """Whether no model breaks the point, in exact arithmetic."""

    @abstractmethod
    def counter_model(self, point: Floats, target: int) -> Classifier | None:
        """A model that breaks the point, replayed; None where rounding is in the way."""

    @abstractmethod
    def radius(self, points: Floats, target: int) -> tuple[Floats, Floats]:
        """The size up to which each point holds: bounds from below and from above, (n,) each."""

    @abstractmethod
    def critics(self, point: Floats, target: int) -> list[Network]:
        """Networks that have to accept whatever is promised, the worst for this point among them."""

    def settle(
        self,
        points: Floats,
        target: int | NDArray[np.intp],
        *,
        deadline: Deadline = _NO_LIMIT,
        until: Stage = Stage.EXACT,
        keep: bool = True,
        advance: Callable[[int], object] | None = None,
    ) -> Outcome:
        """As `Engine.settle`."""
        outcome = Outcome.empty(points.shape[0])
        for one, rows in by_target(target, points.shape[0]):
            there = np.asarray(rows)
            lower, upper = self.worst(points[there], one)
            outcome.lower[there], outcome.upper[there] = lower, upper
            # A margin of exactly 0 is for fractions to judge too: it depends on who wins a tie.
            self._mark(outcome, there[lower > 0.0], ROBUST, Stage.CLOSED_FORM)
            self._mark(outcome, there[upper < 0.0], NOT_ROBUST, Stage.CLOSED_FORM)
            for row in there[(lower <= 0.0) & (upper >= 0.0)].tolist() if until is Stage.EXACT else ():
                if deadline.over:
                    break
                if self.holds(points[row], one):
                    self._mark(outcome, row, ROBUST, Stage.EXACT)
                elif self.counter_model(points[row], one) is not None:
                    self._mark(outcome, row, NOT_ROBUST, Stage.EXACT)
            if advance is not None:
                advance(there.size)
        return outcome

    @staticmethod
    def _mark(outcome: Outcome, rows: Any, verdict: int, stage: Stage) -> None:
        outcome.verdict[rows], outcome.stage[rows] = verdict, PLACES[stage]

    def witness(self, outcome: Outcome, row: int, point: Floats, target: int) -> Classifier:
        """The counter-model of a row that is NOT_ROBUST."""
        found = self.counter_model(point, target)
        if found is None:
            raise HoldfastError(f"row {row}: the counter-model did not replay; please report this as a bug")
        return found

    def proof(self, outcome: Outcome, row: int, point: Floats, target: int, max_cases: int) -> list[dict[str, Any]]:
        """Nothing beyond the point: the checker computes the closed form itself, in fractions."""
        return []


class Margins:
    """The margins of a network with what rounding may have done to them; of any other model as it computes them."""

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier
        # Of the engine only today's margins are asked, so that the radius does not matter.
        network = isinstance(classifier, Network)
        self.engine = Engine(classifier, PlausibleChanges(1e-300)) if network else None  # type: ignore[arg-type]

    def each(self, points: Floats, target: int) -> tuple[Floats, Floats]:
        """The margin over each rival, (n, k), and how far rounding may have carried any of them, (n,)."""
        if self.engine is None:
            return least_margins(self.classifier, target, points)[:, None], np.zeros(points.shape[0])
        self.engine.check_scale(points)
        prepared = self.engine.prepared(target)
        error = prepared.error(np.abs(points).max(axis=1))
        return np.asarray(self.engine.margins(points, prepared)), np.asarray(error) + np.zeros(points.shape[0])

    def exactly(self, point: Floats, target: int) -> list[tuple[Fraction, bool]]:
        """Each margin as a fraction, and whether a tie is lost."""
        if isinstance(self.classifier, Network):
            rivals = margins_for(self.classifier, target)
            return [(exact_margin(self.classifier, margin, point), margin.strict) for margin in rivals]
        least = float(least_margins(self.classifier, target, point[None, :])[0])
        if self.classifier.n_outputs == 1:
            return [(Fraction(least), target != self.classifier.tie)]
        logits = self.classifier.logits(point[None, :])[0]
        lost = int(np.delete(np.arange(logits.size), target)[np.delete(logits, target).argmax()]) < target
        return [(Fraction(least), lost)]
