"""`Closest`: the cheapest point that every model in Δ accepts, with a proof."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from holdfast._network import Floats
from holdfast._trees import TreeEnsemble
from holdfast.errors import InvalidInputError
from holdfast.generators._acceptance import Judge, judge_of
from holdfast.generators._base import Generator, Proposals, Task
from holdfast.generators._candidates import Candidates, check_candidates, read_candidates
from holdfast.generators._exact import Searcher, search_rows
from holdfast.milp._people import PointLimits
from holdfast.verify._margins import least_margins

# Candidates are certified in blocks, the nearest first, ever larger ones until enough of them are robust.
_FIRST, _GROWTH = 64, 4
# A margin this far below zero is no rounding error.
_NEARLY = 1e-6


@dataclass(frozen=True, eq=False)
class Closest(Generator):
    """The cheapest Δ-robust point of the feature space.

    A master problem finds the cheapest point that every counter-model so far accepts; the exact test names the next
    counter-model, or accepts. `optimality_gap` is 0 if the point is proven to be the cheapest; if time runs
    out, it bounds how much cheaper another point can be. If no point is robust, that is proven too, and the reason
    names the constraints in the way. For trees, a branch and bound searches the cells between their thresholds and
    finds the cheapest row in the same sense.

    Parameters
    ----------
    plausible
        A table of people, raw like X. The point is then in the convex hull of the nearest Δ-robust people, each moved
        as far as the constraints allow; None: anywhere in the space. Not for trees.
    neighbours
        The number of people that span the hull.
    max_features_changed
        The largest number of columns that may change.

    Examples
    --------
    >>> import holdfast as hf
    >>> from holdfast.generators import explain
    >>> net = hf.Network([[[-1.0, 1.0]]], [[0.0]])
    >>> changes = hf.PlausibleChanges(0.1, biases=False)
    >>> result = explain(net, [[0.7, 0.5]], target=1, changes=changes, generator=Closest())
    >>> result.counterfactuals.round(4)
           x0   x1
    0  0.4091  0.5
    >>> print(result.verdict[0], result.optimality_gap[0])
    ROBUST 0.0
    """

    name = "closest"
    good_for = (
        "the cheapest change that every model in Δ accepts, with a proof that none is cheaper"
    )
    paper = "holdfast; the hull after Jiang, Lan, Leofante, Rago and Toni 2023, PROPLACE"
    row_by_row = True

    plausible: Any = None
    neighbours: int = 10
    max_features_changed: int | None = None

    def __post_init__(self) -> None:
        if self.plausible is not None:
            object.__setattr__(self, "plausible", check_candidates(self.plausible))
        limited = ["max_features_changed"] if self.max_features_changed is not None else []
        self.check_numbers(counts=["neighbours", *limited])

    def propose(self, task: Task) -> Proposals:
        """The nearest Δ-robust point of each row, with its gap."""
        if task.decider is None:
            raise InvalidInputError(
                "changes: expected PlausibleChanges(delta) for Closest, got None; or take MCE()"
            )
        hull_for = None
        if self.plausible is not None:
            if isinstance(task.classifier, TreeEnsemble):
                raise InvalidInputError(
                    "plausible: expected None with trees, whose accepted rows fill no hull, got a table; RNCE "
                    "keeps to its rows"
                )
            points = read_candidates(self.plausible, task.space, task.network)
            table = Candidates.of(points, task.space)
            hull_for = partial(_robust_neighbours, table, self.neighbours)
        limits = PointLimits(max_changed=self.max_features_changed)
        return search_rows(task, partial(judge_of, task.decider), limits, hull_for)


def _robust_neighbours(table: Candidates, k: int, judge: Searcher, task: Task) -> Floats:
    """The k cheapest robust points among the candidates as this person could become them, (<= k, d)."""
    assert isinstance(judge, Judge)
    space, person = task.space, task.people
    factual = person.points[0]
    order = np.argsort(table.distances(factual[None, :])[0], kind="stable")
    found = np.empty((0, space.n_variables))
    if not space.rules:
        # Up to rounding, what becomes of a candidate: most are told from it, sooner than they are settled.
        about = np.clip(table.settled(), *space.bounds_for(person))
        order = order[least_margins(judge.network, judge.target, about)[order] > -_NEARLY]
    start, size = 0, _FIRST
    while start < order.size and len(found) < k:
        points = np.unique(space.project(table.points(order[start : start + size]), person), axis=0)
        points = points[space.satisfied(points, person)] if space.rules else points
        found = np.unique(np.concatenate([found, points[judge.accepts(points)]]), axis=0)
        start = start + size
        size = _GROWTH * size
    return found[np.argsort(np.abs(found - factual) @ space.weights, kind="stable")][:k]
