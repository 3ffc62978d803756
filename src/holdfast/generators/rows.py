"""Exact generators work row by row: the same search for each person, side by side on several cores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import joblib
import numpy as np

from holdfast.generators.acceptance import Judge
from holdfast.generators.base import Proposals, Reason, ReasonKind, Task
from holdfast.generators.conflict import name_conflict
from holdfast.generators.cutting import CuttingPlanes
from holdfast.milp.people import Limits
from holdfast.network import Floats


@dataclass(frozen=True)
class RowAnswer:
    """What came of one person: a point or a reason, and what is proven about its cost_l1."""

    point: Floats | None
    reason: str
    gap: float = np.nan
    bound: float = np.nan


def answer_rows(task: Task, one: Callable[[Task, int], RowAnswer]) -> Proposals:
    """Ask `one` about each row, in parallel if the task says so; `one` has to pickle."""
    # A progress bar stays in this process.
    quiet = replace(task, advance=None)
    if task.n_jobs in (None, 1) or len(task) == 1:
        answers = (one(quiet, row) for row in range(len(task)))
    else:
        parallel = joblib.Parallel(n_jobs=task.n_jobs, return_as="generator")
        answers = parallel(joblib.delayed(one)(quiet, row) for row in range(len(task)))
    points = np.full(task.factuals.shape, np.nan)
    reason = [""] * len(task)
    gap, bound = np.full(len(task), np.nan), np.full(len(task), np.nan)
    for row, answer in enumerate(answers):
        if answer.point is not None:
            points[row] = answer.point
        reason[row], gap[row], bound[row] = answer.reason, answer.gap, answer.bound
        task.report(1)
    return Proposals(points, reason, gap, bound)


def search_row(task: Task, row: int, judge: Judge, limits: Limits) -> RowAnswer:
    """The search for one row of a task, and what it proves about cost_l1."""
    deadline = task.deadline(1)
    person = task.people.take(np.array([row]))
    answer = CuttingPlanes(judge, task.space, person, limits, deadline).run()
    bound = answer.bound / task.space.n_variables
    if answer.point is not None:
        return RowAnswer(answer.point, "", answer.gap, bound)
    if answer.impossible:
        why = name_conflict(judge, task.space, person, limits, deadline)
        text = f"no point within the constraints is {judge.praise}{why}"
        return RowAnswer(None, Reason(ReasonKind.IMPOSSIBLE, text), bound=bound)
    return RowAnswer(None, f"no point {judge.praise} was found{' in time' if deadline.over else ''}", bound=bound)
