"""What a ROBUST verdict stands on, in the form that `holdfast.checker` reads: a part for each rival.

Most rows are proven by interval bounds, which need no more than to be named. Others by the closed branches of a search:
its splits make a tree, and each leaf has its multipliers. Nothing is searched for that is at hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checker
from holdfast.bounds.layers import Layers, margins_for
from holdfast.deadline import Deadline
from holdfast.verify.engine import Engine
from holdfast.verify.exact import Exact, NoProofError, narrowed
from holdfast.verify.verdict import Evidence

_Branch = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def proof(
    engine: Engine, evidence: Evidence, row: int, x: NDArray[np.float64], target: int, max_cases: int
) -> list[Any]:
    """The parts of the row's proof; NoProofError where the checker knows no form for what proved it."""
    parts = []
    for margin in margins_for(engine.network, target):
        layers = Layers.of(engine.network, engine.box, margin)
        exact = Exact(engine.network, engine.changes, layers, margin, x)
        known = evidence.trees.get((row, margin.above, margin.below))
        parts.append(known or _part(exact, evidence.branches(row, margin), max_cases))
    return parts


def _part(exact: Exact, branches: list[_Branch], max_cases: int) -> dict[str, Any]:
    for method in ("interval", "ball")[: 1 + (exact.changes.norm in (1.0, 2.0))]:
        part = exact.with_bound({"rival": exact.rival, "method": method})
        if part is not None:
            return part
    if branches:
        tree = _tree(exact, branches, exact.question.ranges, max_cases)
        part = exact.with_bound({"rival": exact.rival, "method": "cases", "tree": tree})
        assert part is not None
        return part
    found = exact.settle(Deadline.after(None), max_cases).part
    if found is None:
        raise NoProofError(
            f"what proves it takes more than {max_cases} cases (max_cases= allows more) or has no form for the checker"
        )
    return found


def _tree(exact: Exact, branches: list[_Branch], case: checker.Ranges, max_cases: int) -> dict[str, Any]:
    """From closed branches to the checker's tree of a case: a neuron that all of them decide is the first split."""
    if len(branches) > max_cases:
        raise NoProofError(f"a proof takes more than {max_cases} cases; max_cases= allows more")
    if len(branches) == 1:
        _, lower, upper = branches[0]
        leaf = exact.leaf(case, lower.astype(np.float64), upper.astype(np.float64))
        # A bound that rounding the multipliers has spoilt is found again by a program.
        return leaf if leaf is not None else exact.tree_of(case, max_cases)
    decided = np.stack([branch[0] for branch in branches])
    neuron = int((decided != 0).all(axis=0).argmax())
    i, j = [(i, j) for i, size in enumerate(exact.network.hidden) if i for j in range(size)][neuron]
    # Decided here, it is no longer to be decided further down.
    here = np.arange(decided.shape[1]) == neuron
    below, above = (
        [(np.where(here, 0, branch[0]), *branch[1:]) for branch in branches if branch[0][neuron] == side]
        for side in (-1, 1)
    )
    bottom, top = case[i][j]
    if not bottom < 0 < top:
        # In whole numbers the range is a hair narrower, and only one of the cases is left.
        return _tree(exact, above if bottom >= 0 else below, case, max_cases)
    return {
        "split": [i, j],
        "below": _tree(exact, below, narrowed(case, i, j, (bottom, 0)), max_cases),
        "above": _tree(exact, above, narrowed(case, i, j, (0, top)), max_cases),
    }
