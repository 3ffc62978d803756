"""What `explain` holds against every proposal: the caller's units, the constraints, the class, and Δ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.deadline import Deadline
from holdfast.features.codec import Rows
from holdfast.generators.base import Proposals, Task
from holdfast.network import Floats
from holdfast.scored import Scored
from holdfast.verify import Certificates
from holdfast.verify.certify import certify_points

_MANY = 3


@dataclass(frozen=True)
class Finished:
    """What is left of a generator's proposals.

    Parameters
    ----------
    rows
        The rows with a valid counterfactual.
    points, frame
        The counterfactuals of these rows, as the network sees them and in the caller's columns; the one is, bit for
        bit, the encoding of the other.
    reason
        For every row of the task why there is none, or what else there is to say.
    certificates
        Of these rows, where Δ is given.
    """

    rows: NDArray[np.intp]
    points: Floats
    frame: pd.DataFrame
    reason: list[str]
    certificates: Certificates | None


def finish(task: Task, proposals: Proposals) -> Finished:
    """Settle what was proposed, drop what breaks a constraint or has another class, certify the rest."""
    reason = list(proposals.reason)
    proposed = proposals.found & np.isfinite(proposals.points).all(axis=1)
    for row in np.flatnonzero(~proposed).tolist():
        reason[row] = reason[row] or "the method found no counterfactual"
    rows = np.flatnonzero(proposed)
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
    rows, points = rows[good], points[good]
    return Finished(rows, points, frame.iloc[good], reason, certify_rows(task, rows, points, task.seconds(rows.size)))


def _as_asked(task: Task, points: Floats, frame: pd.DataFrame, people: Rows) -> pd.DataFrame:
    """Of the rows that share an encoding, the one that a model which reads rows was asked about, where allowed."""
    decode = task.classifier.decode if isinstance(task.classifier, Scored) else None
    if decode is None or not len(points):
        return frame
    asked = decode(points).set_axis(frame.index, axis=0)
    fine = task.space.satisfied(asked, people)
    return asked if fine.all() else asked.where(pd.Series(fine, index=frame.index), frame)


def certify_rows(
    task: Task, rows: NDArray[np.intp], points: Floats, seconds: float | None, *, method: str = "joint"
) -> Certificates | None:
    """The Δ-robustness test of a point for each of these rows; None without Δ or without rows."""
    if task.decider is None or rows.size == 0:
        return None
    return certify_points(task.decider, points, task.targets[rows], deadline=Deadline.after(seconds), method=method)


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
    if task.changes is None:
        return fine
    proven, seconds = np.zeros_like(fine), deadline.left()
    asked = np.flatnonzero(fine & (seconds != 0.0))
    certificates = certify_rows(task, rows[asked], points[asked], seconds, method=method)
    if certificates is not None:
        proven[asked] = certificates.robust
    return proven


def allowed(task: Task, fine: NDArray[np.bool_], rows: NDArray[np.intp], points: Floats) -> NDArray[np.bool_]:
    """Of the projected points that are fine so far, those with the target class that obey the rules."""
    fine = fine & (task.classifier.predict_index(points) == task.targets[rows])
    if task.space.rules:
        # Everything else holds by projection; a rule that a factual breaks may be beyond repair.
        asked = np.flatnonzero(fine)
        fine[asked] = task.space.satisfied(points[asked], task.people.take(rows[asked]))
    return fine


def sentence_list(parts: list[str]) -> str:
    """The first few of several sentences."""
    more = f"; and {len(parts) - _MANY} more" if len(parts) > _MANY else ""
    return "; ".join(parts[:_MANY]) + more
