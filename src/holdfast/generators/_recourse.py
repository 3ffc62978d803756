"""`Recourse`: advice, row by row, with verdicts; from a generator, a file or a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from holdfast._classifier import Classifier, Values
from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._files import Place
from holdfast._given import given_floats, given_row
from holdfast._network import Bools, Floats, Ints, Network
from holdfast._scored import Tally
from holdfast._shown import HEAD, Shown, Summary, draw
from holdfast.changes import Chance, Changes
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.features._codec import Rows, Table
from holdfast.features._describe import describe_change
from holdfast.generators._base import Generator, ReasonKind, RecourseReason, Task
from holdfast.generators._moves import Move, change_table, move_of
from holdfast.generators._radii import Radii, radii_of
from holdfast.generators._reading import own_variables, read_people
from holdfast.generators._regions import regions_of
from holdfast.importers import Model, load_model
from holdfast.verify import Certificates, CertifiedRadius, Verdict
from holdfast.verify._certify import certify_points
from holdfast.verify._deciders import Decider, decider_for
from holdfast.verify._fingerprint import known_of
from holdfast.verify._radius import radius_of_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from holdfast.generators._reasons import Against
    from holdfast.presentation.letters import Letter
    from holdfast.presentation.letters._compose import LetterOptions
    from holdfast.presentation.report._page import ReportOptions

# Solvers and sums round: a relative gap below this is none.
_NO_GAP = 1e-9
# What `to_frame` puts beside the columns of people.
ADDED_COLUMNS = (
    "found", "verdict", "cost_l1", "optimality_gap", "lower_bound", "reason", "main_reasons"
)  # fmt: skip
_MANY = 3
# Fields with an entry for each row, but for verdicts and their proofs.
_BY_ROW = (
    "counterfactuals", "found", "reason", "cost_l1", "optimality_gap", "lower_bound", "factuals", "points", "targets",
    "main_reasons",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Recourse(Shown):
    """Advice for each person, in the order and with the index of the caller's table.

    Attributes
    ----------
    counterfactuals
        The caller's columns and units; missing values in rows without advice. Columns that the model does not read are
        as they were.
    found
        Which rows have advice.
    reason
        Why a row has no advice, a `RecourseReason`: a sentence with a kind, or "". It starts with "proven: " if no
        advice can exist.
    cost_l1
        The mean change over the model's variables, in units of each column's range; nan without advice.
    verdict
        A `Verdict` for each row with advice; None without advice, or without Δ.
    optimality_gap
        The largest relative excess of the cost over the least possible; 0 is proven optimal, nan is not proven.
    lower_bound
        A proven lower bound on `cost_l1`, or nan.
    factuals
        The caller's table.
    points
        The advice as the network reads it; rows of nan without advice.
    targets
        The class wanted in each row, an index of ``network.classes``.
    certificates
        The proofs and counter-models behind the verdicts, of the rows with advice only.
    calls
        The number of `calls` and `rows` for which a score-only model was asked; a service may charge for them.
    generator
        The method that found the advice; None if it came as a table.
    measured
        The rows for which the chance in `changes` is stated; None: no row.
    data
        A table of people, from whom `main_reasons` learns usual values; None: the generator's candidates.
    main_reasons
        The main reasons as a file states them, a text for each row; None: they are computed, once.
    left_alone
        Of `alternatives`: the columns that each row leaves as they are, "" in a person's first row.
    """

    counterfactuals: pd.DataFrame
    found: Bools
    reason: Values
    cost_l1: Floats
    verdict: Values
    optimality_gap: Floats
    lower_bound: Floats
    factuals: pd.DataFrame
    points: Floats
    targets: Ints
    model: Model
    space: FeatureSpace
    changes: Changes | None
    certificates: Certificates | None
    calls: Tally = field(default_factory=Tally)
    generator: Generator | None = None
    measured: Bools | None = None
    data: Any = None
    main_reasons: Values | None = None
    left_alone: Values | None = None

    @classmethod
    def of(
        cls,
        model: object,
        points: ArrayLike,
        factuals: Table,
        *,
        target: Any,
        space: FeatureSpace | None = None,
        threshold: Any = None,
        data: Any = None,
    ) -> Recourse:
        """Wrap counterfactuals from another library or a file. Call `under` to certify them.

        Parameters
        ----------
        model
            Today's model; anything `load_network` takes.
        points
            (n, d) in the model's variables, a row of nan without advice.
        factuals
            The people, in the same order: a DataFrame in the caller's units, or points.
        target
            The class wanted: one label, or one for each row.
        space
            Columns, units and what a person can change. Default: the model's own variables, free and unbounded.
        threshold, data
            As for `explain`.

        Examples
        --------
        >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
        >>> answers = Recourse.of(net, [[0.5, 0.75], [np.nan, np.nan]], [[0.5, 0.25], [0.9, 0.1]], target=1)
        >>> answers.found
        array([ True, False])
        """
        loaded = load_model(model, threshold)
        space = own_variables(loaded, factuals) if space is None else space
        values = given_floats(points, "points").copy()
        if (
            values.ndim != 2
            or not values.shape[1]
            == space.n_variables
            == loaded.in_space(space).classifier.n_features
        ):
            raise InvalidInputError(
                f"points: expected a table with {space.n_variables} columns, one for each variable of the model and of "
                f"the space, got shape {values.shape}"
            )
        if np.shape(factuals)[0] != len(values):
            raise InvalidInputError(
                f"factuals: expected one for each of the {len(values)} rows, got {np.shape(factuals)[0]}"
            )
        missing = np.isnan(values)
        wrong = np.flatnonzero(
            (missing.any(axis=1) & ~missing.all(axis=1)) | np.isinf(values).any(axis=1)
        )
        if wrong.size:
            raise InvalidInputError(
                f"points: row {wrong[0]} has a missing or infinite number; give finite numbers, or a whole row of nan"
            )
        frame = factuals if isinstance(factuals, pd.DataFrame) else space.decode(factuals)
        rows = np.flatnonzero(~missing.any(axis=1))
        answers = space.decode(values[rows], factuals=frame.iloc[rows])
        task = read_people(loaded, frame, space, target=target)
        return replace(cls.judged(task, values, answers, [""] * len(values)), data=data)

    @classmethod
    def judged(
        cls,
        task: Task,
        points: Floats,
        frame: pd.DataFrame,
        reason: Sequence[str],
        deadline: Deadline = NO_LIMIT,
        lower_bound: Floats | None = None,
        optimality_gap: Floats | None = None,
    ) -> Recourse:
        """Measure and certify points for the people of a task.

        Parameters
        ----------
        points
            (n, d), a row of nan without advice.
        frame
            The rows with advice, in the caller's columns.
        lower_bound, optimality_gap
            Proven bounds of the costs, limited by the costs themselves.
        """
        n = len(task)
        found = np.asarray(~np.isnan(points).any(axis=1))
        rows = np.flatnonzero(found)
        cost = np.full(n, np.nan)
        cost[rows] = task.space.cost_l1(points[rows], task.people.take(rows))
        lower = (
            np.full(n, np.nan)
            if lower_bound is None
            else np.where(found, np.minimum(lower_bound, cost), lower_bound)
        )
        gap = np.divide(
            cost - lower, cost, where=cost > 0.0, out=np.where(np.isnan(cost - lower), np.nan, 0.0)
        )
        gap = np.where(gap < _NO_GAP, 0.0, gap)
        gap = gap if optimality_gap is None else np.fmax(gap, optimality_gap)
        answers = frame.set_axis(pd.Index(rows), axis=0).reindex(np.arange(n))
        table = task.frame.copy()
        for name in task.space.names:
            table[name] = answers[name].array
        sentences = [
            text if isinstance(text, RecourseReason) else RecourseReason(ReasonKind.OTHER, text)
            for text in reason
        ]
        certificates, verdict = _judged(task.decider, points, task.targets, deadline)
        return cls(
            counterfactuals=table,
            found=found,
            reason=np.array(sentences, dtype=object),
            cost_l1=cost,
            verdict=verdict,
            optimality_gap=np.where(found, gap, np.nan),
            lower_bound=lower,
            factuals=task.frame,
            points=points,
            targets=task.targets,
            model=task.model,
            space=task.space,
            changes=task.changes,
            certificates=certificates,
        )

    def under(self, changes: Changes | None, *, time_limit: float | None = None) -> Recourse:
        """The same advice, certified under another Δ; rows still open after `time_limit` seconds are UNKNOWN.

        A chance belongs to advice that was found under its own changes: it is left out, with a warning.
        """
        if changes is not None:
            changes = known_of(self.model, changes, "the advice was found under other changes")
        decider = None if changes is None else decider_for(self.model, changes)
        certificates, verdict = _judged(
            decider, self.points, self.targets, Deadline.after(time_limit)
        )
        return replace(
            self, changes=changes, certificates=certificates, verdict=verdict, measured=None
        )

    def __len__(self) -> int:
        return len(self.found)

    def chance(self, row: int) -> Chance | None:
        """The measured chance of promises like that in this row, or None."""
        if self.changes is None or self.measured is None or not self.measured[row]:
            return None
        return self.changes.chance

    @property
    def answered(self) -> Ints:
        """The rows with advice."""
        return np.flatnonzero(self.found)

    @property
    def answer(self) -> Ints:
        """The number of each row among the rows of its person, counted from 1."""
        alone = np.full(len(self), "") if self.left_alone is None else self.left_alone
        first = pd.Series(alone == "")
        return np.asarray(first.groupby(first.cumsum()).cumcount() + 1, dtype=np.intp)

    @property
    def first(self) -> Recourse:
        """The first row of each person."""
        if self.left_alone is None:
            return self
        rows = np.flatnonzero(self.answer == 1)
        own: dict[str, Any] = {}
        for name in _BY_ROW:
            value = getattr(self, name)
            own[name] = None if value is None else getattr(value, "iloc", value)[rows]
        return replace(self, **own, left_alone=None).under(self.changes)

    @cached_property
    def people(self) -> Rows:
        """The caller's table as the space reads it."""
        return self.space.rows(self.factuals)

    @cached_property
    def answers(self) -> Floats:
        """The counterfactuals of the rows with advice, a number for each column."""
        return self.space.numbers(self.counterfactuals.iloc[self.answered])

    @cached_property
    def against(self) -> list[list[Against]]:
        """The main reasons of each person, the weightiest first; the one source of letters, report and tables."""
        from holdfast.generators._reasons import against

        return against(self)

    @cached_property
    def moves(self) -> list[Move]:
        """The columns that advice changes, the most often changed first."""
        before, features = self.people.numbers[self.answered], self.space.features
        moves = [
            move_of(feature, self.space.notes, before[:, i], self.answers[:, i])
            for i, feature in enumerate(features)
        ]
        told = filter(attrgetter("changed"), moves)
        return sorted(told, key=attrgetter("changed"), reverse=True)

    @cached_property
    def regions(self) -> pd.DataFrame:
        """Proven ranges around each advice: every ensemble in Δ accepts every row within them.

        A line for each advice and each column that the trees read: `row` (counted from 0), `column`, whether the advice
        changes it, `at_least` and `at_most` (nan: no such end). The proof covers all columns anywhere between their
        ends at once. Changed columns are widened first, the largest change first, and away from the person's value.
        Ends are round numbers if there is one inside. Behind preprocessing a range ends with the column's range. For
        trees only, alone or under `TreeChanges` or `PlausibleShift`; advice that is not proven has no line.
        """
        return regions_of(self, self.answered.tolist())

    def certified_radius(self, rows: Ints) -> CertifiedRadius:
        """How far the model may move before the advice in these rows can break, in Δ's norm and with its biases."""
        return radius_of_points(self.model, self.points[rows], self.targets[rows], self.changes)

    @cached_property
    def radii(self) -> Radii:
        """How far the model may move before each advice can break, in agreement with the verdicts; computed once."""
        return radii_of(self)

    @property
    def classifier(self) -> Classifier:
        """Today's model, of any kind."""
        return self.model.classifier

    @property
    def network(self) -> Network:
        """Today's model as a network; an error if it is not a network."""
        return self.model.network

    @property
    def verdict_names(self) -> pd.Series:
        """The names of the verdicts, or None."""
        names: list[Any] = [None if verdict is None else verdict.name for verdict in self.verdict]
        return pd.Series(names, index=self.factuals.index, dtype=object)

    @property
    def robust(self) -> Bools:
        """Which rows have advice that every model in Δ accepts."""
        return np.asarray(self.verdict == Verdict.ROBUST)

    def describe(self, row: int) -> str:
        """The advice for this row (counted from 0) in words, or the reason why there is none.

        "raise savings from 1,200 to 1,750 USD; lower card_utilisation from 64% to 30%"
        """
        row = given_row(row, len(self))
        if not self.found[row]:
            return str(self.reason[row])
        before = self.people.numbers[row]
        after = self.answers[np.searchsorted(self.answered, row)]
        return "; ".join(describe_change(self.space.features, self.space.notes, before, after))

    @property
    def advice(self) -> list[tuple[str, ...]]:
        """The changes for each person in words; empty without advice."""
        result: list[tuple[str, ...]] = [()] * len(self)
        rows, features, notes = self.answered, self.space.features, self.space.notes
        for row, old, new in zip(
            rows.tolist(), self.people.numbers[rows], self.answers, strict=True
        ):
            result[row] = tuple(describe_change(features, notes, old, new))
        return result

    def to_frame(self) -> pd.DataFrame:
        """The counterfactuals with found, verdict, cost_l1, optimality_gap, lower_bound, reason and main_reasons.

        `main_reasons` is JSON, a list of [column, usual value, margin, within reach, source of the usual value]. Of
        `alternatives` there are `answer` and `left_alone`, too. A name that the caller's table has gets the prefix
        ``recourse_``.
        """
        from holdfast.generators._reasons import written

        result = self.counterfactuals.copy()
        columns: dict[str, Any] = {
            "found": self.found,
            "verdict": self.verdict_names,
            "cost_l1": self.cost_l1,
            "optimality_gap": self.optimality_gap,
            "lower_bound": self.lower_bound,
            "reason": np.array([*map(str, self.reason)], dtype=object),
            "main_reasons": np.array([*map(written, self.against)], dtype=object),
        }
        if self.left_alone is not None:
            columns |= {"answer": self.answer, "left_alone": self.left_alone}
        for name, values in columns.items():
            column = added_column(name, self.counterfactuals.columns)
            # An object column stays one: None is no answer, not a missing text.
            result[column] = pd.Series(values, index=result.index, dtype=values.dtype)
        return result

    def report(
        self,
        path: Place,
        *,
        n_jobs: int | None = None,
        **options: Unpack[ReportOptions],
    ) -> Path:
        """Write a report on this advice as one HTML page; the options are those of `hf.report`."""
        from holdfast.presentation.report import report

        return report(self, path, n_jobs=n_jobs, **options)

    def letter(
        self,
        row: int,
        *,
        key: str | None = None,
        name: str | None = None,
        **options: Unpack[LetterOptions],
    ) -> Letter:
        """The letter to the person in this row, as text and HTML; see `holdfast.presentation.letters.write_letter`."""
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
        """Draw the advice.

        Parameters
        ----------
        kind
            "changes": which columns change, for how many people, and by how much in their units. "cost": each cost
            against its certified radius. "survival": for every delta the share of advice that is robust to it.
        ax
            Where to draw; new axes by default.
        radius
            The certified radii for "cost" and "survival", if computed already: of rows with advice, or of all rows.
        delta
            The delta to mark. Default: that of `changes`.
        moved
            How far retrainings moved the model, as ticks under "survival": numbers, or a `RetrainedModels`.
        most
            The largest number of columns in "changes".
        """
        picture: Axes = draw(self, kind, ax, radius=radius, delta=delta, moved=moved, most=most)
        return picture

    def __repr__(self) -> str:
        found = int(self.found.sum())
        robust = f", {int(self.robust.sum())} robust" if self.changes is not None else ""
        cost = f", mean cost_l1 {np.nanmean(self.cost_l1):.4g}" if found else ""
        return f"Recourse({len(self)} rows: {found} found{robust}{cost})"

    def overview(self) -> Summary:
        """The summary in a notebook."""
        verdicts = [
            f"no advice: {self.reason[i]}"
            if not self.found[i]
            else getattr(self.verdict[i], "words", "found")
            for i in range(min(HEAD, len(self)))
        ]
        table = change_table(self, HEAD)
        table.insert(0, "advice", verdicts, allow_duplicates=True)
        table.insert(1, "cost_l1", self.cost_l1[:HEAD], allow_duplicates=True)
        found = int(self.found.sum())
        robust = (
            f", and {int(self.robust.sum()):,} of it proven" if self.changes is not None else ""
        )
        facts = [
            ("for", None if self.changes is None else self.changes.every_model),
            ("mean cost_l1", float(self.cost_l1[self.found].mean()) if found else None),
            ("without advice", len(self) - found),
            ("model", repr(self.classifier)),
            ("asked of the model", str(self.calls) if self.calls.calls else None),
        ]
        return Summary(
            f"{found:,} of {len(self):,} people have advice{robust}",
            facts,
            table,
            total=len(self),
            rows="people",
        )


def check_recourse(given: object, name: str = "answers") -> Recourse:
    """An error unless this is a `Recourse`."""
    if not isinstance(given, Recourse):
        raise InvalidInputError(
            f"{name}: expected what explain returns, or Recourse.of(...), got {type(given).__name__}"
        )
    return given


def added_column(name: str, columns: pd.Index) -> str:
    """The name of a column of `to_frame` next to these columns of the caller."""
    return f"recourse_{name}" if name in columns else name


def _judged(
    decider: Decider | None, points: Floats, targets: Ints, deadline: Deadline
) -> tuple[Certificates | None, Values]:
    """The certificates of the rows with an answer, and a verdict for every row; none without Δ."""
    verdict = np.full(len(points), None, dtype=object)
    rows = np.flatnonzero(~np.isnan(points).any(axis=1))
    if decider is None or not rows.size:
        return None, verdict
    certificates = certify_points(decider, points[rows], targets[rows], deadline=deadline)
    verdict[rows] = certificates.verdict
    return certificates, verdict


def sentence_list(parts: list[str]) -> str:
    """The first few of several sentences."""
    more = f"; and {len(parts) - _MANY} more" if len(parts) > _MANY else ""
    return "; ".join(parts[:_MANY]) + more
