"""Exact generators work row by row: the same search for each person, side by side on several cores.

Where no point exists, which constraints are in the way? Leave out one kind of constraint at a time and search again.
Where that brings an answer back, the columns that this answer moves beyond what was allowed are the ones to name.
Protected attributes always stay as they are: no reason says that one should differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from holdfast._deadline import Deadline
from holdfast._network import Floats
from holdfast._parallel import spread
from holdfast._progress import no_bar
from holdfast.features import Direction, FeatureSpace
from holdfast.features._codec import Rows
from holdfast.features._kinds import Name
from holdfast.generators._base import Proposals, ReasonKind, RecourseReason, Task
from holdfast.milp._people import PointLimits

# Seconds for each kind of constraint left out: an explanation is a courtesy.
_PATIENCE = 3.0
# Ranges are widened by so many times their width: a number without any range has no big-M.
_WIDER = 3.0


class Searcher(ABC):
    """A model, or every model in Δ, with a search for the cheapest point that it accepts."""

    who: ClassVar[str] = "every model in Δ"

    @abstractmethod
    def search(
        self,
        space: FeatureSpace,
        person: Rows,
        limits: PointLimits,
        deadline: Deadline,
        *,
        any_will_do: bool = False,
    ) -> tuple[Floats | None, float]:
        """The best point, None if there is none, and a proven lower bound on costs; infinite if no point exists."""


def search_rows(
    task: Task,
    judge_of: Callable[[int], Searcher],
    limits: PointLimits,
    hull_for: Callable[[Searcher, Task], Floats] | None = None,
) -> Proposals:
    """The cheapest point for each row alone, side by side where there are workers.

    Parameters
    ----------
    judge_of
        Who has to accept a point of this class.
    hull_for
        The points between which the answer to one row has to lie; it has to pickle.
    """
    targets = np.unique(task.targets).tolist()
    judges = dict(zip(targets, map(judge_of, targets), strict=True))
    # A progress bar stays in this process.
    people = map(replace(task, advance=no_bar).take, np.arange(len(task))[:, None])
    proposals = task.nothing()
    answers = spread(partial(_search, judges, limits, hull_for), people)
    for row, (point, reason, bound) in enumerate(answers):
        if point is not None:
            proposals.points[row] = point
        proposals.reason[row] = reason
        proposals.lower_bound[row] = bound
        task.advance(1)
    return proposals


def _search(
    judges: Mapping[int, Searcher],
    limits: PointLimits,
    hull_for: Callable[[Searcher, Task], Floats] | None,
    task: Task,
) -> tuple[Floats | None, str, float]:
    """What came of one person: a point or a reason, and a proven lower bound on cost_l1."""
    judge, person = judges[int(task.targets[0])], task.people
    if hull_for is not None:
        hull = hull_for(judge, task)
        if not len(hull):
            return None, "none of the plausible points is robust within the constraints", np.nan
        limits = replace(limits, hull=hull)
    if task.last is not None and np.isfinite(task.last).all():
        limits = replace(limits, last=task.last[0])
    deadline = task.deadline(1)
    point, bound = judge.search(task.space, person, limits, deadline)
    reason = ""
    if point is None and bound == np.inf:
        why = _what_is_in_the_way(judge, task.space, person, limits, deadline)
        reason = RecourseReason(
            ReasonKind.IMPOSSIBLE,
            f"no point within the constraints is accepted by {judge.who}{why}",
        )
    elif point is None:
        reason = f"no point accepted by {judge.who} was found{' in time' if deadline.over else ''}"
    return point, reason, bound / task.space.n_variables


def _what_is_in_the_way(
    judge: Searcher, space: FeatureSpace, person: Rows, limits: PointLimits, deadline: Deadline
) -> str:
    """What would have to give, as the end of a sentence; "" where time ran out before anything was certain."""
    ways, all_proven = [], True
    lower, upper = (end[0] for end in space.bounds_for(person))
    for sentence, wider, fewer, names in _relaxations(space, limits):
        until = deadline.within(_PATIENCE)
        if until.over:
            return ""
        point, bound = judge.search(wider, person, fewer, until, any_will_do=True)
        if point is not None:
            outside = np.flatnonzero((point < lower) | (point > upper))
            moved = [
                f.name
                for f in space.features
                if f.name in names and np.isin(f.variables, outside).any()
            ]
            ways.append(sentence.format(", ".join(map(space.label, moved or names))))
        all_proven &= point is None and bound == np.inf
    if ways:
        return f"; there is one {', or '.join(ways)}"
    # Named moves, values that stay missing, steps and the ranges of curves are left as they are.
    kept = (
        f.allowed is not None or f.missing or (f.step or 1.0) != 1.0 or not f.scaling.linear
        for f in space.unprotected
    )
    apart = " (protected attributes apart)" if space.protected else ""
    return (
        f"; leaving out any one kind of constraint{apart} does not help"
        if all_proven and not any(kept)
        else ""
    )


def _relaxations(
    space: FeatureSpace, limits: PointLimits
) -> Iterator[tuple[str, FeatureSpace, PointLimits, list[Name]]]:
    """The question with one kind of constraint left out: how to say so, and the columns that it binds."""
    open_to_all = space.unprotected
    fixed = [f.name for f in open_to_all if f.direction is Direction.IMMUTABLE]
    directed = [
        f.name for f in open_to_all if f.direction in (Direction.INCREASING, Direction.DECREASING)
    ]
    limited = [f.name for f in open_to_all if f.max_change]
    # Outside its range a curve may have no values.
    finite = [f for f in open_to_all if not f.labelled and np.isfinite([f.lower, f.upper]).all()]
    numbers = [f for f in finite if f.scaling.linear]
    kept = [rule for rule in space.rules if set(rule.names) & set(map(str, space.protected))]
    for names, sentence in (
        (fixed, "if {} (immutable) may change"),
        (directed, "if {} may move both ways"),
    ):
        if names:
            yield sentence, space.constrained(free=names), limits, names
    if limited:
        wider = space.constrained(max_change=dict.fromkeys(limited))
        yield "if {} may change by more than max_change", wider, limits, limited
    if numbers:
        reach = {f.name: _WIDER * (f.upper - f.lower) for f in numbers}
        ranges = {f.name: (f.lower - reach[f.name], f.upper + reach[f.name]) for f in numbers}
        yield "if {} may leave the range", space.constrained(ranges=ranges), limits, [*ranges]
    if len(kept) < len(space.rules):
        texts = ", ".join(repr(rule.text) for rule in space.rules if rule not in kept)
        yield f"without the rules {texts}", space.constrained(rules=kept), limits, []
    if limits.max_changed is not None:
        yield (
            f"with more than {limits.max_changed} columns changed",
            space,
            replace(limits, max_changed=None),
            [],
        )
    if limits.hull is not None:
        yield "outside the hull of plausible points", space, replace(limits, hull=None), []
