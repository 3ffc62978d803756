"""The result of `certify`, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from holdfast._classifier import Classifier, Values
from holdfast._given import given_row
from holdfast._network import Bools, Floats, Ints, Network
from holdfast._shown import HEAD, Shown, Summary, draw
from holdfast.changes import Changes
from holdfast.errors import InvalidInputError
from holdfast.importers._model import as_network
from holdfast.verify._closed_form import ClosedForm
from holdfast.verify._engine import Engine
from holdfast.verify._verdict import (
    NOT_ROBUST,
    ROBUST,
    STAGES,
    VERDICTS,
    Outcome,
    Verdict,
    spelled_out,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Certificates(Shown):
    """Verdicts on a table of points, in its order and with its index.

    Attributes
    ----------
    decider, points, targets
        The input of `certify`: the model with its changes, the points in the model's variables, and the target of
        each row (an index of the model's classes).
    sound
        For each row, whether every model in Δ keeps the class of the factual; None if no factuals were given.
    """

    decider: Engine | ClosedForm
    points: Floats
    targets: Ints
    index: pd.Index
    outcome: Outcome
    sound: Bools | None = None

    def __len__(self) -> int:
        return len(self.points)

    @property
    def classifier(self) -> Classifier:
        """Today's model."""
        return self.decider.classifier

    @property
    def network(self) -> Network:
        """Today's model, if it is a network; raises for other models."""
        return as_network(self.classifier)

    @property
    def changes(self) -> Changes:
        """The set of plausible changes, Δ."""
        return self.decider.changes

    @property
    def verdict(self) -> Values:
        """One `Verdict` for each row."""
        return np.array(VERDICTS, dtype=object)[self.outcome.verdict]

    @property
    def robust(self) -> Bools:
        """True where the row is proven to keep its class under every model in Δ."""
        return np.asarray(self.outcome.verdict == ROBUST)

    @property
    def margin_lower(self) -> Floats:
        """Proven lower bound of the margin over Δ, for each row."""
        return self.outcome.lower

    @property
    def margin_upper(self) -> Floats:
        """Upper bound of the least margin over Δ, for each row: some model in Δ has this margin or less."""
        return self._complete().upper

    def _complete(self) -> Outcome:
        if isinstance(self.decider, Engine):
            self.decider.complete(self.outcome, self.points, self.targets)
        return self.outcome

    @property
    def decided_by(self) -> Values:
        """The stage of the cascade that settled each row."""
        return np.array(STAGES, dtype=object)[self.outcome.stage]

    def witness(self, row: int) -> Any:
        """A model inside Δ that gives the row (counted from 0) another class; None unless the row is NOT_ROBUST.

        The model's own forward pass has confirmed the other class.
        """
        row = given_row(row, len(self))
        if self.outcome.verdict[row] != NOT_ROBUST:
            return None
        return self.decider.witness(self.outcome, row, self.points[row], int(self.targets[row]))

    def proof(self, row: int, max_cases: int = 5000) -> list[dict[str, Any]]:
        """The proof of the row's ROBUST verdict, as `holdfast.checker` reads it: one part for each rival class."""
        row = given_row(row, len(self))
        if self.outcome.verdict[row] != ROBUST:
            raise InvalidInputError(
                f"proof: only a ROBUST row has a proof, and row {row} is {self.verdict[row].name}"
            )
        return self.decider.proof(
            self.outcome, row, self.points[row], int(self.targets[row]), max_cases
        )

    def to_frame(self, *, categories: bool = False) -> pd.DataFrame:
        """One row for each point, with the caller's index.

        Verdicts and stages are text, or categories (one byte a row) with ``categories=True``.
        """
        frame = self._complete().to_frame(self.index)
        if self.sound is not None:
            frame["sound"] = self.sound
        return frame if categories else spelled_out(frame)

    def counts(self) -> dict[Verdict, int]:
        """The number of rows with each verdict."""
        rows = np.bincount(self.outcome.verdict, minlength=len(VERDICTS)).tolist()
        return {verdict: rows[VERDICTS.index(verdict)] for verdict in Verdict}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot each point today and in the worst case over Δ, the most fragile first.

        Each point is a line from today's probability of its target down to the least probability over Δ. The lower
        end is a proven lower bound for a robust point, and an upper bound for a point with a counter-model. Long
        tables show a thousand points, evenly spread in that order.
        """
        picture: Axes = draw(self, ax)
        return picture

    @property
    def stages(self) -> dict[str, int]:
        """The number of rows that each stage of the cascade settled, in falling order."""
        rows = np.bincount(self.outcome.stage, minlength=len(STAGES))
        return {STAGES[i]: int(rows[i]) for i in np.argsort(-rows, kind="stable") if rows[i]}

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{count} {verdict.name}" for verdict, count in self.counts().items())
        stages = ", ".join(f"{count} by {stage}" for stage, count in self.stages.items())
        return f"Certificates({len(self)} rows: {verdicts}; {stages})"

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
        counts = self.counts()
        head = self._complete().to_frame(self.index[:HEAD], slice(HEAD))
        head["verdict"] = [Verdict(name).words for name in head["verdict"]]
        if self.sound is not None:
            head["sound"] = self.sound[:HEAD]
        robust = f"{counts[Verdict.ROBUST]:,} of {len(self):,} points"
        others = (Verdict.NOT_ROBUST, Verdict.UNKNOWN)
        stages = ", ".join(f"{stage}: {count:,}" for stage, count in self.stages.items())
        return Summary(
            f"{robust} proven for {self.changes.every_model}",
            [
                *((verdict.words, counts[verdict]) for verdict in others),
                ("settled by", stages),
                ("model", repr(self.classifier)),
            ],
            head.drop(columns="robust"),
            total=len(self),
            rows="points",
        )
