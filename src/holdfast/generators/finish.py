"""What `explain` holds against every proposal: the caller's units, the constraints, the class, and Δ."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.deadline import Deadline
from holdfast.features.codec import Rows
from holdfast.generators.base import Proposals, Task
from holdfast.generators.recourse import Recourse, sentence_list
from holdfast.network import Floats
from holdfast.scored import Scored
from holdfast.verify.certify import certify_points


def finish(task: Task, proposals: Proposals) -> Recourse:
    """Express what was proposed in the caller's units, drop what breaks a constraint or has another class, certify."""
    reason = list(proposals.reason)
    for row in np.flatnonzero(~proposals.found).tolist():
        reason[row] = reason[row] or "the method found no counterfactual"
    rows = np.flatnonzero(proposals.found)
    people = task.people.take(rows)
    points, frame = task.space.settle(proposals.points[rows], people, index=task.frame.index[rows])
    frame = _as_asked(task, points, frame, people)
    kept = task.space.satisfied(frame, people)
    for i in np.flatnonzero(~kept).tolist():
        broken = task.space.violations(frame.iloc[[i]], people.take(np.array([i])))[0]
        reason[rows[i]] = f"the point found breaks a constraint: {sentence_list(broken)}"
    classes = task.classifier.predict_index(points)
    other = kept & (classes != task.targets[rows])
    for i in np.flatnonzero(other).tolist():
        label = task.classifier.classes[classes[i]]
        reason[rows[i]] = f"the point found is classified as {label} once it is expressed in the caller's units"
    doubts = task.classifier.doubts(points, frame, classes) if isinstance(task.classifier, Scored) else [""] * rows.size
    for i, doubt in enumerate(doubts):
        reason[rows[i]] = reason[rows[i]] or doubt
    good = np.flatnonzero(kept & ~other & (np.array(doubts) == ""))
    answers = np.full(proposals.points.shape, np.nan)
    answers[rows[good]] = points[good]
    bounds = proposals.lower_bound, proposals.optimality_gap
    return Recourse.judged(task, answers, frame.iloc[good], reason, task.deadline(good.size), *bounds)


def _as_asked(task: Task, points: Floats, frame: pd.DataFrame, people: Rows) -> pd.DataFrame:
    """Of the rows that share an encoding, the one that a model which reads rows was asked about, where allowed."""
    decode = task.classifier.decode if isinstance(task.classifier, Scored) else None
    if decode is None or not len(points):
        return frame
    asked = decode(points).set_axis(frame.index, axis=0)
    fine = task.space.satisfied(asked, people)
    return asked if fine.all() else asked.where(pd.Series(fine, index=frame.index), frame)


def narrow(
    task: Task,
    fine: NDArray[np.bool_],
    rows: NDArray[np.intp],
    points: Floats,
    deadline: Deadline,
    *,
    method: str = "joint",
) -> NDArray[np.bool_]:
    """Of the points that are fine so far, those that are proven Δ-robust in time; all of them without Δ."""
    if task.decider is None:
        return fine
    proven, asked = np.zeros_like(fine), np.flatnonzero(fine)
    if asked.size and not deadline.over:
        targets = task.targets[rows[asked]]
        proven[asked] = certify_points(task.decider, points[asked], targets, deadline=deadline, method=method).robust
    return proven


def allowed(task: Task, fine: NDArray[np.bool_], rows: NDArray[np.intp], points: Floats) -> NDArray[np.bool_]:
    """Of the projected points that are fine so far, those with the target class that obey the rules."""
    fine = fine & (task.classifier.predict_index(points) == task.targets[rows])
    if task.space.rules:
        # Everything else holds by projection; a rule that a factual breaks may be beyond repair.
        asked = np.flatnonzero(fine)
        fine[asked] = task.space.satisfied(points[asked], task.people.take(rows[asked]))
    return fine
