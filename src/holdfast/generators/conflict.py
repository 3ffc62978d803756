"""Where no point exists: which constraints are in the way?

Leave out one kind of constraint at a time and search again. Where that brings an answer back, the columns that this
answer moves beyond what was allowed are the ones to name. Protected attributes stay as they are in all of this: nobody
is told that they should be another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from holdfast.deadline import Deadline
from holdfast.features import FeatureSpace
from holdfast.features.codec import Rows
from holdfast.features.kinds import Direction
from holdfast.generators.acceptance import Judge
from holdfast.generators.cutting import CuttingPlanes
from holdfast.milp.people import Limits
from holdfast.network import Floats

# Seconds for each kind of constraint left out: an explanation is a courtesy.
_PATIENCE = 3.0
# Ranges are widened by so many times their width: a number without any range has no big-M.
_WIDER = 3.0


@dataclass(frozen=True)
class _Relaxed:
    """The question with one kind of constraint left out, and how to say so; `names` are the columns it binds."""

    sentence: str
    space: FeatureSpace
    limits: Limits
    names: tuple[str, ...] = ()


def name_conflict(judge: Judge, space: FeatureSpace, person: Rows, limits: Limits, deadline: Deadline) -> str:
    """What would have to give, as the end of a sentence; "" where time ran out before anything was certain."""
    found, all_proven = [], True
    for relaxed in _relaxations(space, limits):
        until = deadline.within(_PATIENCE)
        if until.over:
            return ""
        answer = CuttingPlanes(judge, relaxed.space, person, relaxed.limits, until, any_will_do=True).run()
        if answer.point is not None:
            moved = [name for name in relaxed.names if _moves(space, name, answer.point, person)]
            found.append(relaxed.sentence.format(", ".join(map(space.label, moved or relaxed.names))))
        all_proven &= answer.impossible
    if not found:
        # Named moves, values that stay missing, steps and the ranges of curves are left as they are.
        all_proven &= not any(
            f.allowed is not None or f.missing or (f.step or 1.0) != 1.0 or not f.scaling.linear
            for f in space.unprotected
        )
        apart = " (protected attributes apart)" if space.protected else ""
        return f"; leaving out any one kind of constraint{apart} does not help" if all_proven else ""
    return f"; there is one {', or '.join(found)}"


def _relaxations(space: FeatureSpace, limits: Limits) -> Iterator[_Relaxed]:
    open_to_all = space.unprotected
    fixed = [f for f in open_to_all if f.direction is Direction.IMMUTABLE]
    directed = [f for f in open_to_all if f.direction in (Direction.INCREASING, Direction.DECREASING)]
    # Outside its range a curve may have no values.
    finite = [f for f in open_to_all if not f.labelled and np.isfinite([f.lower, f.upper]).all()]
    numbers = [f for f in finite if f.scaling.linear]
    kept = [rule for rule in space.rules if set(rule.names) & set(map(str, space.protected))]
    if fixed:
        names = [f.name for f in fixed]
        yield _Relaxed("if {} (immutable) may change", space.constrained(free=names), limits, tuple(map(str, names)))
    if directed:
        names = [f.name for f in directed]
        yield _Relaxed("if {} may move both ways", space.constrained(free=names), limits, tuple(map(str, names)))
    if numbers:
        reach = {f.name: _WIDER * (f.upper - f.lower) for f in numbers}
        ranges = {f.name: (f.lower - reach[f.name], f.upper + reach[f.name]) for f in numbers}
        wider = space.constrained(ranges=ranges)
        yield _Relaxed("if {} may leave the range", wider, limits, tuple(str(f.name) for f in numbers))
    if len(kept) < len(space.rules):
        texts = ", ".join(repr(rule.text) for rule in space.rules if rule not in kept)
        yield _Relaxed(f"without the rules {texts}", space.constrained(rules=kept), limits)
    if limits.max_changed is not None:
        yield _Relaxed(f"with more than {limits.max_changed} columns changed", space, replace(limits, max_changed=None))
    if limits.hull is not None:
        yield _Relaxed("outside the hull of plausible points", space, replace(limits, hull=None))


def _moves(space: FeatureSpace, name: str, point: Floats, person: Rows) -> bool:
    """Whether the point moves the column beyond what the constraints allow."""
    variables = [v for f in space.features if str(f.name) == name for v in f.variables]
    lower, upper = (end[0] for end in space.bounds_for(person))
    here = point[variables]
    return bool(((here < lower[variables]) | (here > upper[variables])).any())
