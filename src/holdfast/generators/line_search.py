"""From a counterfactual back towards the factual, as far as it stays accepted.

The last step of the paper's Algorithm 4, on what may move: numbers slide along the line and settle on their grid; a
category is the factual's or the counterfactual's, never in between. Every point looked at is tested as it would be
handed out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.deadline import Deadline
from holdfast.features.feature import Feature
from holdfast.features.kinds import Kind
from holdfast.generators.base import Task
from holdfast.network import Floats

# The paper walks in steps of 0.05; what lies between the last good and the next step is then looked at ever closer.
_STEPS = 20
_CLOSER = 8
_ROUNDS = 5


def line_search(task: Task, rows: NDArray[np.intp], points: Floats, deadline: Deadline) -> Floats:
    """For accepted points of these rows, accepted points that cost no more.

    Parameters
    ----------
    rows
        The rows of the task that the points belong to, each at most once.
    points
        Settled points that the network, or every network in Δ where Δ is given, gives the target class.
    deadline
        Up to when to look; what is best by then is the answer.
    """
    if rows.size == 0:
        return points
    search = _Search(task, rows, points.copy(), _costs(task, rows, points), deadline)
    _restore_categories(search)
    _slide(search)
    return search.best


@dataclass(frozen=True)
class _Search:
    """The best accepted point of each row so far."""

    task: Task
    rows: NDArray[np.intp]
    best: Floats
    cost: Floats
    deadline: Deadline

    def offer(self, places: NDArray[np.intp], trials: Floats) -> NDArray[np.bool_]:
        """For each place the cheapest of its trials that is allowed, accepted and cheaper; say which were taken."""
        taken = np.zeros(places.size, dtype=np.bool_)
        if self.deadline.over:
            return taken
        rows = self.rows[places]
        trials = self.task.project(rows, trials)
        cost = _costs(self.task, rows, trials)
        better = self.task.allowed(cost < self.cost[places], rows, trials)
        better = self.task.robust(better, rows, trials, self.deadline)
        order = np.lexsort((cost, places))
        order = order[better[order]]
        first = order[np.unique(places[order], return_index=True)[1]]
        self.best[places[first]], self.cost[places[first]] = trials[first], cost[first]
        taken[first] = True
        return taken


def _restore_categories(search: _Search) -> None:
    """The factual's categories back: all at once where that is accepted, otherwise one column after the other."""
    blocks = [np.array(f.variables, dtype=np.intp) for f in search.task.space.features if _is_category(f)]
    if not blocks:
        return
    factuals = search.task.factuals[search.rows]
    for block in [np.concatenate(blocks), *(blocks if len(blocks) > 1 else [])]:
        places = np.flatnonzero((search.best[:, block] != factuals[:, block]).any(axis=1))
        trials = search.best[places]
        trials[:, block] = factuals[np.ix_(places, block)]
        if places.size:
            search.offer(places, trials)


def _slide(search: _Search) -> None:
    """The least fraction of the way that is accepted, to the paper's step and then closer."""
    task = search.task
    moving = [variable for f in task.space.features if not _is_category(f) for variable in f.variables]
    sliding = np.array(moving, dtype=np.intp)
    factuals, ends = task.factuals[search.rows], search.best.copy()
    n = search.rows.size
    low, high, parts = np.zeros(n), np.ones(n), _STEPS
    for _ in range(_ROUNDS + 1):
        steps = np.arange(1, parts) / parts
        places, fractions = np.repeat(np.arange(n), steps.size), (low[:, None] + np.outer(high - low, steps)).ravel()
        trials, start = ends[places], factuals[np.ix_(places, sliding)]
        trials[:, sliding] = start + fractions[:, None] * (trials[:, sliding] - start)
        taken = search.offer(places, trials)
        width = (high - low) / parts
        high[places[taken]] = fractions[taken]
        low, parts = np.maximum(high - width, 0.0), _CLOSER


def _is_category(feature: Feature) -> bool:
    return feature.listed or feature.kind in (Kind.CATEGORICAL, Kind.BINARY)


def _costs(task: Task, rows: NDArray[np.intp], points: Floats) -> Floats:
    return np.asarray(np.abs(points - task.factuals[rows]) @ task.space.weights / task.space.n_variables)
