"""`Recourse`: the answer of `explain`, row by row."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.changes import Changes
from holdfast.classifier import Classifier
from holdfast.features import FeatureSpace
from holdfast.generators.base import Generator
from holdfast.generators.moves import change_table
from holdfast.given import given_row
from holdfast.importers import Model
from holdfast.network import Floats, Network
from holdfast.presentation.notebook import HEAD, never_fails, show
from holdfast.scored import Tally
from holdfast.verify import Certificates, CertifiedRadius, Verdict
from holdfast.verify.radius import radius_of_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from holdfast.presentation.letters import Letter, LetterOptions
    from holdfast.presentation.report import ReportOptions


@dataclass(frozen=True, eq=False)
class Recourse:
    """What each person could change, in the order and with the index of the table that was asked about.

    Attributes
    ----------
    counterfactuals
        The caller's columns and units; missing values in the rows without an answer. Columns that the model does not
        read are as they were.
    found
        Which rows have an answer.
    reason
        Why a row has none, a sentence; "" where there is nothing to say. It starts with "proven: " where no answer can
        exist.
    cost_l1
        The mean absolute change over the model's variables; nan where there is no answer.
    verdict
        A `Verdict` for each answer; None where there is no answer, or no Δ to hold it against.
    optimality_gap
        How far, relatively, the cost may lie above the least possible; 0 proven, nan where the method proves nothing.
    lower_bound
        A proven lower bound on `cost_l1`; nan where there is none.
    factuals
        The caller's table.
    points
        The answers as the network sees them; rows of nan where there is none.
    targets
        The class each row was to get, an index of ``network.classes``.
    certificates
        The proofs and counter-models behind the verdicts, of the rows with an answer only.
    calls
        How often a model that is no network was asked, `calls` and `rows`: what a service may charge for.
    generator
        How the answers were looked for; None where they came as a table.
    """

    counterfactuals: pd.DataFrame
    found: NDArray[np.bool_]
    reason: NDArray[Any]
    cost_l1: Floats
    verdict: NDArray[Any]
    optimality_gap: Floats
    lower_bound: Floats
    factuals: pd.DataFrame
    points: Floats
    targets: NDArray[np.intp]
    model: Model
    space: FeatureSpace
    changes: Changes | None
    certificates: Certificates | None
    calls: Tally = field(default_factory=Tally)
    generator: Generator | None = None

    def __len__(self) -> int:
        return int(self.found.shape[0])

    @property
    def classifier(self) -> Classifier:
        """Today's model, of any kind."""
        return self.model.classifier

    @property
    def network(self) -> Network:
        """Today's model as a network; raises where it is none."""
        return self.model.network

    @property
    def robust(self) -> NDArray[np.bool_]:
        """Which rows have an answer that every model in Δ accepts."""
        return np.array([verdict is Verdict.ROBUST for verdict in self.verdict], dtype=np.bool_)

    def certified_radius(self, rows: NDArray[np.intp]) -> CertifiedRadius:
        """How far the model may move before the answers in these rows can break, in Δ's norm and with its biases."""
        return radius_of_points(self.model, self.points[rows], self.targets[rows], self.changes)

    def describe(self, row: int) -> str:
        """What the person in this row (counted from 0) has to do, or why there is no answer.

        "raise savings from 1,200 to 1,750 USD; lower card_utilisation from 64% to 30%"
        """
        row = given_row(row, len(self))
        if not self.found[row]:
            return str(self.reason[row])
        names = list(self.space.names)
        before, after = (table[names].iloc[row] for table in (self.factuals, self.counterfactuals))
        return "; ".join(self.space.describe_change(before, after))

    def to_frame(self) -> pd.DataFrame:
        """The counterfactuals beside found, verdict, cost_l1, optimality_gap, lower_bound and reason.

        A name that the caller's table has already gets the prefix ``recourse_``.
        """
        result = self.counterfactuals.copy()
        verdicts = np.array([None if verdict is None else verdict.name for verdict in self.verdict], dtype=object)
        columns = {
            "found": self.found,
            "verdict": verdicts,
            "cost_l1": self.cost_l1,
            "optimality_gap": self.optimality_gap,
            "lower_bound": self.lower_bound,
            "reason": self.reason,
        }
        for name, values in columns.items():
            column = name if name not in self.counterfactuals.columns else f"recourse_{name}"
            # An object column stays one: None is no answer, not a missing text.
            result[column] = pd.Series(values, index=result.index, dtype=values.dtype)
        return result

    def report(self, path: str | os.PathLike[str], **options: Unpack[ReportOptions]) -> Path:
        """Write what was promised and how sure it is as one HTML page; the options are those of `holdfast.report`."""
        from holdfast.presentation.report import report

        return report(self, path, **options)

    def letter(
        self, row: int, *, key: str | None = None, name: str | None = None, **options: Unpack[LetterOptions]
    ) -> Letter:
        """What the person in this row is told, as text and HTML; see `holdfast.presentation.letters.write_letter`."""
        from holdfast.presentation.letters import write_letter

        return write_letter(self, row, key=key, name=name, **options)

    def plot(
        self,
        kind: str = "changes",
        ax: Axes | None = None,
        *,
        radius: Any = None,
        delta: Any = None,
        moved: Any = None,
        most: int = 12,
    ) -> Axes:
        """Draw the answers.

        Parameters
        ----------
        kind
            "changes": which columns move, for how many people, and by how much in their units. "cost": each answer's
            cost against its certified radius. "survival": for every delta the share of answers that survive it.
        ax
            Where to draw; new axes by default.
        radius
            The certified radii for "cost" and "survival", if they have been computed: of the answers, or of all rows.
        delta
            What to mark in them; the delta that was asked for by default.
        moved
            How far retrainings moved the model, as ticks under "survival": numbers, or a `RetrainedModels`.
        most
            So many columns are drawn by "changes".
        """
        from holdfast.generators.plots import draw_recourse

        return draw_recourse(self, kind, ax, radius=radius, delta=delta, moved=moved, most=most)

    def __repr__(self) -> str:
        found = int(self.found.sum())
        robust = f", {int(self.robust.sum())} robust" if self.changes is not None else ""
        cost = f", mean cost_l1 {np.nanmean(self.cost_l1):.4g}" if found else ""
        return f"Recourse({len(self)} rows: {found} found{robust}{cost})"

    @never_fails
    def _repr_html_(self) -> str:
        answers = [
            f"no answer: {self.reason[i]}" if not self.found[i] else getattr(self.verdict[i], "words", "found")
            for i in range(min(HEAD, len(self)))
        ]
        table = change_table(self, HEAD)
        table.insert(0, "answer", answers, allow_duplicates=True)
        table.insert(1, "cost_l1", self.cost_l1[:HEAD], allow_duplicates=True)
        found = int(self.found.sum())
        robust = f", and {int(self.robust.sum()):,} of these provably survive" if self.changes is not None else ""
        facts = [
            ("for", None if self.changes is None else self.changes.every_model),
            ("mean cost_l1", float(self.cost_l1[self.found].mean()) if found else None),
            ("without an answer", len(self) - found),
            ("model", repr(self.classifier)),
            ("asked of the model", str(self.calls) if self.calls.calls else None),
        ]
        return show(
            f"{found:,} of {len(self):,} people have an answer{robust}", facts, table, total=len(self), rows="people"
        )
