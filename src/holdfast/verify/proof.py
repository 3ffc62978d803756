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
from holdfast.verify.exact import Exact, NoProofError
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
    attempts: list[dict[str, Any]] = [{"method": "interval"}]
    if exact.changes.norm in (1.0, 2.0):
        attempts.append({"method": "ball"})
    for attempt in attempts:
        part = exact.with_bound({"rival": exact.rival, **attempt})
        if part is not None:
            return part
    if branches:
        tree = _Tree(exact, max_cases).of(branches, exact.question.ranges)
        part = exact.with_bound({"rival": exact.rival, "method": "cases", "tree": tree})
        assert part is not None
        return part
    found = exact.settle(Deadline.after(None), max_cases).part
    if found is None:
        raise NoProofError(
            f"what proves it takes more than {max_cases} cases (max_cases= allows more) or has no form for the checker"
        )
    return found


class _Tree:
    """From closed branches to the checker's tree: a neuron that all of them decide is the first split."""

    def __init__(self, exact: Exact, max_cases: int) -> None:
        self.exact, self.max_cases = exact, max_cases
        hidden = exact.network.hidden[1:]
        self.places = [(i, j) for i, size in enumerate(hidden, 1) for j in range(size)]

    def of(self, branches: list[_Branch], case: checker.Ranges) -> dict[str, Any]:
        """The tree of a case."""
        if len(branches) > self.max_cases:
            raise NoProofError(f"a proof takes more than {self.max_cases} cases; max_cases= allows more")
        if len(branches) == 1:
            _, lower, upper = branches[0]
            leaf = self.exact.leaf(case, lower.astype(np.float64), upper.astype(np.float64))
            # A bound that rounding the multipliers has spoilt is found again by a program.
            return leaf if leaf is not None else self.exact.tree_of(case, self.max_cases)
        decided = np.stack([branch[0] for branch in branches])
        neuron = int((decided != 0).all(axis=0).argmax())
        i, j = self.places[neuron]
        bottom, top = case[i][j]
        ends = {"below": (-1, (bottom, 0)), "above": (1, (0, top))}
        # Decided here, it is no longer to be decided further down.
        parts = {
            name: [
                (np.where(np.arange(len(b[0])) == neuron, 0, b[0]), *b[1:]) for b in branches if b[0][neuron] == side
            ]
            for name, (side, _) in ends.items()
        }
        if not bottom < 0 < top:
            # In whole numbers the range is a hair narrower, and only one of the cases is left.
            return self.of(parts["above" if bottom >= 0 else "below"], case)
        nodes = {name: self.of(parts[name], _with(case, i, j, cut)) for name, (_, cut) in ends.items()}
        return {"split": [i, j], **nodes}


def _with(case: checker.Ranges, i: int, j: int, ends: tuple[int, int]) -> checker.Ranges:
    cut = [list(layer) for layer in case]
    cut[i][j] = ends
    return cut
