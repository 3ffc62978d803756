"""From a counterfactual back towards the factual, as far as it stays accepted.

The last step of the paper's Algorithm 4, on what may move: numbers slide along the line and settle on their grid; a
category is the factual's or the counterfactual's, never in between. Every point looked at is tested as it would be
handed out.
"""

from __future__ import annotations

import numpy as np

from holdfast._deadline import Deadline
from holdfast._network import Floats, Ints
from holdfast.features import Kind
from holdfast.generators._base import Task

# The paper walks in steps of 0.05; what lies between the last good and the next step is then looked at ever closer.
_STEPS = 20
_CLOSER = 8
_ROUNDS = 5


def line_search(task: Task, rows: Ints, points: Floats, deadline: Deadline) -> Floats:
    """For accepted points of these rows, accepted points that cost no more.

    Parameters
    ----------
    rows
        The rows of the task that the points belong to, each at most once.
    points
        Points that the network, or every network in Δ where Δ is given, gives the target class, as rows of the table.
    deadline
        Up to when to look; what is best by then is the answer.
    """
    best = points.copy()
    factuals = task.factuals[rows]
    everyone = np.arange(rows.size)
    listed = [f.listed or f.kind in (Kind.CATEGORICAL, Kind.BINARY) for f in task.space.features]
    columns = [np.array(f.variables, dtype=np.intp) for f in task.space.features]
    categories = [block for block, fixed in zip(columns, listed, strict=True) if fixed]
    # The factual's categories back: all at once where that is accepted, otherwise one column after the other.
    for block in [np.concatenate(categories), *categories] if categories else []:
        places = np.flatnonzero((best[:, block] != factuals[:, block]).any(axis=1))
        trials = best[places]
        trials[:, block] = factuals[np.ix_(places, block)]
        _offer(task, rows, best, places, trials, deadline)
    sliding = np.concatenate(
        [
            np.empty(0, dtype=np.intp),
            *(block for block, fixed in zip(columns, listed, strict=True) if not fixed),
        ]
    )
    ends = best.copy()
    low = np.zeros(rows.size)
    high = np.ones(rows.size)
    parts = _STEPS
    # The least fraction of the way that is accepted, to the paper's step and then closer.
    for _ in range(_ROUNDS + 1):
        steps = np.arange(1, parts) / parts
        places = np.repeat(everyone, steps.size)
        fractions = (low[:, None] + np.outer(high - low, steps)).ravel()
        trials = ends[places]
        start = factuals[np.ix_(places, sliding)]
        trials[:, sliding] = start + fractions[:, None] * (trials[:, sliding] - start)
        taken = _offer(task, rows, best, places, trials, deadline)
        width = (high - low) / parts
        high[places[taken]] = fractions[taken]
        low = np.maximum(high - width, 0.0)
        parts = _CLOSER
    return best


def _offer(
    task: Task,
    rows: Ints,
    best: Floats,
    places: Ints,
    trials: Floats,
    deadline: Deadline,
) -> Ints:
    """For each place the cheapest of its trials that is allowed, accepted and cheaper; which of them were taken."""
    if deadline.over or not places.size:
        return np.empty(0, dtype=np.intp)
    whose = rows[places]
    trials = task.project(whose, trials)
    cost, before = (
        np.abs(x - task.factuals[whose]) @ task.space.weights for x in (trials, best[places])
    )
    better = task.allowed(cost < before, whose, trials)
    better = task.robust(better, whose, trials, deadline)
    order = np.lexsort((cost, places))
    order = order[better[order]]
    first = order[np.unique(places[order], return_index=True)[1]]
    best[places[first]] = trials[first]
    return first
