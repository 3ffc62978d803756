"""From a counterfactual back towards the factual, as far as it stays accepted.

The last step of the paper's Algorithm 4, on what may move: numbers slide along the line and settle on their grid; a
category is the factual's or the counterfactual's, never in between. Every point looked at is tested as it would be
handed out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.features.feature import Feature
from holdfast.features.kinds import Kind
from holdfast.generators.base import Task
from holdfast.generators.finish import accepted
from holdfast.generators.walk import project
from holdfast.network import Floats

# The paper walks in steps of 0.05; the stretch between the last good and the first bad step is then halved.
_FRACTIONS = np.arange(1, 20) / 20.0
_HALVINGS = 24


def line_search(task: Task, rows: NDArray[np.intp], points: Floats) -> Floats:
    """For accepted points of these rows, accepted points that cost no more.

    Parameters
    ----------
    rows
        The rows of the task that the points belong to, each at most once.
    points
        Settled points that the network, or every network in Δ where Δ is given, gives the target class.
    """
    if rows.size == 0:
        return points
    search = _Search(task, rows, points.copy(), _costs(task, rows, points))
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

    def offer(self, places: NDArray[np.intp], trials: Floats) -> NDArray[np.bool_]:
        """Take the trials, one for each place, that are allowed, accepted and cheaper; say which."""
        rows = self.rows[places]
        trials = project(self.task, rows, trials)
        cost = _costs(self.task, rows, trials)
        better = cost < self.cost[places]
        maybe = np.flatnonzero(better)
        better[maybe] = accepted(self.task, rows[maybe], trials[maybe])
        if self.task.space.rules:
            maybe = np.flatnonzero(better)
            people = self.task.frame.iloc[rows[maybe].tolist()]
            better[maybe] = self.task.space.satisfied(trials[maybe], people)
        self.best[places[better]], self.cost[places[better]] = trials[better], cost[better]
        return better


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
    """The least fraction of the way that is accepted, to the paper's step and then by halving."""
    task = search.task
    moving = [variable for f in task.space.features if not _is_category(f) for variable in f.variables]
    sliding = np.array(moving, dtype=np.intp)
    factuals, ends = task.factuals[search.rows], search.best.copy()

    def at(places: NDArray[np.intp], fractions: Floats) -> Floats:
        trials = ends[places]
        start = factuals[np.ix_(places, sliding)]
        trials[:, sliding] = start + fractions[:, None] * (trials[:, sliding] - start)
        return trials

    places = np.arange(search.rows.size)
    high = np.ones(search.rows.size)
    for fraction in _FRACTIONS[::-1]:
        taken = search.offer(places, at(places, np.full(places.size, fraction)))
        high[places[taken]] = fraction
    low = high - 1.0 / 20.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        taken = search.offer(places, at(places, middle))
        high, low = np.where(taken, middle, high), np.where(taken, low, middle)


def _is_category(feature: Feature) -> bool:
    return feature.one_hot or feature.kind in (Kind.CATEGORICAL, Kind.BINARY)


def _costs(task: Task, rows: NDArray[np.intp], points: Floats) -> Floats:
    return np.asarray(np.abs(points - task.factuals[rows]) @ task.space.weights / task.space.n_variables)
