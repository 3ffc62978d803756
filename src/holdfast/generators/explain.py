"""`explain`: ask a generator, then check and certify what it proposes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.changes import Changes
from holdfast.errors import HoldfastError, HoldfastWarning
from holdfast.features import FeatureSpace
from holdfast.features.kinds import Direction
from holdfast.generators.base import Generator, Proposals, Task
from holdfast.generators.candidates import check_candidates, read_candidates
from holdfast.generators.density import density_of
from holdfast.generators.finish import Finished, finish
from holdfast.generators.reading import Question, read_question
from holdfast.generators.recourse import Recourse
from holdfast.given import whole_number
from holdfast.network import Floats
from holdfast.progress import progress_bar
from holdfast.scored import Tally

# Solvers and sums round: a relative gap below this is none.
_NO_GAP = 1e-9
# With fewer rows most generators are done before a bar could be read.
_LONG_TABLE = 20


def explain(
    model: object,
    X: Any,
    *,
    target: Any,
    changes: Changes | None = None,
    generator: Generator,
    space: FeatureSpace | None = None,
    data: Any = None,
    seed: int = 0,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    threshold: Any = None,
) -> Recourse:
    """What each person could change to get the target class, and whether that survives retraining.

    Parameters
    ----------
    model
        Anything `load_network` takes.
    X
        The people: a DataFrame in the caller's units, or an array with one column for each feature of the space, or
        without a space one for each variable of the model.
    target
        The class wanted: one label, or one for each row.
    changes
        Δ. Every counterfactual is certified under it, whatever the generator says; without it there are no verdicts.
    generator
        How to look for an answer; ``holdfast methods`` lists them.
    space
        Columns, units and what a person can change. Without it: that of the model's preprocessing, where the generator
        has candidates to take the ranges from; else the model's own variables, free and unbounded.
    data
        People to hold the answers against, a table raw like X, such as the training table; by default the one that the
        generator has, unless its answers are rows of it. A `HoldfastWarning` says how many answers lie far off it:
        those whose local outlier factor is more than 1.25 times that of the person and of 99% of the table's rows.
    seed
        For whatever is random in the generator.
    time_limit
        Seconds for each row: for the search, and as many again for the certificate of what it found. What counts is the
        CPU time of the thread or process that works on the row, so that a busy machine or `n_jobs` costs no answers.
        Generators that work on many rows at once share out the seconds of all of them.
    n_jobs
        How many rows at once, for generators that work row by row; as in joblib.
    progress
        Show a progress bar on stderr; by default on long tables if stderr is a terminal.
    threshold
        The probability from which on the model's user says class 1, or one for each of several classes; see
        `load_model`. By default as the model itself predicts.

    Returns
    -------
    Recourse
        One entry for each row of X, in its order and with its index. A row without an answer says why; so does a row
        that has the target class already.

    Examples
    --------
    >>> from holdfast.generators import NNCE, RNCE
    >>> from holdfast import Network, PlausibleChanges
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> people = [[0.7, 0.5], [0.2, 0.6]]
    >>> others = [[0.7, 0.7], [0.6, 0.9], [0.3, 0.3]]
    >>> changes = PlausibleChanges(0.1, biases=False)
    >>> nearest = explain(net, people, target=1, changes=changes, generator=NNCE(others))
    >>> nearest.to_frame()[["x0", "x1", "found", "verdict"]]
        x0   x1  found     verdict
    0  0.7  0.7   True  NOT_ROBUST
    1  NaN  NaN  False        None
    >>> nearest.reason[1]
    'already classified as 1'
    >>> robust = explain(net, people, target=1, changes=changes, generator=RNCE(others))
    >>> robust.to_frame()[["x0", "x1", "verdict"]].head(1)
        x0   x1 verdict
    0  0.6  0.9  ROBUST
    """
    question = read_question(
        model, X, target=target, changes=changes, generator=generator, space=space,
        seed=whole_number(seed, "seed", least=0), time_limit=time_limit, n_jobs=n_jobs, threshold=threshold,
    )  # fmt: skip
    tally = getattr(question.task.classifier, "tally", Tally())
    before = replace(tally)
    reason = _settled_beforehand(question.task)
    rows = np.flatnonzero([text == "" for text in reason])
    with progress_bar("explain", rows.size, wanted=progress, long=_LONG_TABLE) as advance:
        task = replace(question.task.take(rows), advance=advance)
        proposals = _ask(generator, task)
    result = _recourse(question, rows, proposals, finish(task, proposals), reason)
    _warn_of_far_answers(question.task, result, generator, data)
    return replace(result, calls=tally.since(before), generator=generator)


def _warn_of_far_answers(task: Task, result: Recourse, generator: Generator, data: Any) -> None:
    """Say how many answers lie where there are hardly any data, if there is a table to tell."""
    table = None if data is None else check_candidates(data)
    if data is None and not getattr(generator, "base", generator).keeps_to_rows:
        table = generator.example_table()
    found = np.flatnonzero(result.found)
    if table is None or isinstance(table, FeatureSpace) or not found.size:
        return
    density = density_of(read_candidates(table, task.space, task.classifier))
    far = 0 if density is None else int(density.far_off(result.points[found], task.factuals[found]).sum())
    if far:
        warnings.warn(
            f"{far} of {found.size} answers lie far off the data: their local outlier factor is more than 1.25 times "
            "that of the person and of 99% of the table's rows. Points off the data break more often when models are "
            "retrained; RNCE(X) and Closest(plausible=X) keep to rows",
            HoldfastWarning,
            stacklevel=3,
        )


def _settled_beforehand(task: Task) -> list[str]:
    """Rows that need no search: they have the target class already, or nothing about them can change."""
    reason = [""] * len(task)
    lower, upper = task.space.bounds_for(task.people)
    fixed = [task.space.label(f.name) for f in task.space.unprotected if f.direction is Direction.IMMUTABLE]
    for row in np.flatnonzero((lower == upper).all(axis=1)):
        of_them = f" ({', '.join(fixed)} immutable)" if fixed else ""
        reason[row] = f"proven: nothing may change{of_them}, and today's class is another"
    for row in np.flatnonzero(task.classifier.predict_index(task.factuals) == task.targets):
        reason[row] = f"already classified as {task.classifier.classes[task.targets[row]]}"
    return reason


def _ask(generator: Generator, task: Task) -> Proposals:
    """The generator's proposals, refused if they are not of the shape agreed on."""
    if len(task) == 0:
        return Proposals.of(np.empty((0, task.space.n_variables)), [])
    proposals = generator.propose(task)
    parts = (proposals.points, proposals.reason, proposals.optimality_gap, proposals.lower_bound)
    if proposals.points.shape != task.factuals.shape or any(len(part) != len(task) for part in parts):
        raise HoldfastError(
            f"{type(generator).__name__}: expected a proposal for each of {len(task)} rows, "
            f"got points of shape {proposals.points.shape}"
        )
    return proposals


def _recourse(
    question: Question,
    asked: NDArray[np.intp],
    proposals: Proposals,
    finished: Finished,
    reason: list[str],
) -> Recourse:
    """The checked proposals at their places in the caller's table."""
    task, n = question.task, len(question.task)
    rows = asked[finished.rows]
    for row, text in zip(asked, finished.reason, strict=True):
        reason[row] = text
    points = np.full((n, task.space.n_variables), np.nan)
    points[rows] = finished.points
    found = np.zeros(n, dtype=np.bool_)
    found[rows] = True
    cost, lower, gap = np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan)
    cost[rows] = task.space.cost_l1(finished.points, task.factuals[rows])
    lower[asked] = proposals.lower_bound
    lower = np.fmin(lower, np.where(found, cost, np.inf), where=~np.isnan(lower), out=lower)
    gap[asked] = proposals.optimality_gap
    gap = np.where(found, np.fmax(gap, _relative_gap(cost, lower)), np.nan)
    verdict = np.full(n, None, dtype=object)
    if finished.certificates is not None:
        verdict[rows] = finished.certificates.verdict
    sentences = np.empty(n, dtype=object)
    sentences[:] = reason
    return Recourse(
        counterfactuals=_in_the_callers_table(question.table, rows, finished.frame, task.space),
        found=found,
        reason=sentences,
        cost_l1=cost,
        verdict=verdict,
        optimality_gap=gap,
        lower_bound=lower,
        factuals=question.table,
        points=points,
        targets=task.targets,
        model=task.model,
        space=task.space,
        changes=task.changes,
        certificates=finished.certificates,
    )


def _relative_gap(cost: Floats, lower: Floats) -> Floats:
    """(cost - lower) / cost of what is handed out, whatever the generator's solver thought it was."""
    gap = np.divide(cost - lower, cost, where=cost > 0.0, out=np.where(np.isnan(cost - lower), np.nan, 0.0))
    return np.asarray(np.where(gap < _NO_GAP, 0.0, gap))


def _in_the_callers_table(
    table: pd.DataFrame, rows: NDArray[np.intp], frame: pd.DataFrame, space: FeatureSpace
) -> pd.DataFrame:
    """The answers in the caller's columns and index, missing values elsewhere; other columns as they were."""
    answers = frame.set_axis(pd.Index(rows), axis=0).reindex(np.arange(len(table)))
    result = table.copy()
    for name in space.names:
        result[name] = answers[name].array
    return result
