"""The last word: one point at a time, by a search that believes nothing because a solver said so.

Up to one hidden layer the least margin has a closed form, evaluated in fractions. Deeper, a branch and bound whose
branches are linear programs: HiGHS proposes multipliers, and a backward walk with them, in floats and if need be in
fractions, decides what they prove; HiGHS proposes a counter-model, and its replay decides whether it is one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from holdfast.arrays import to_numpy
from holdfast.bounds.linear import FREE, LINEAR, ZERO, relax, value_box
from holdfast.changes import LayerRadius
from holdfast.network import Floats
from holdfast.verify.attack import best_response
from holdfast.verify.branch import Leaf
from holdfast.verify.problem import Problem
from holdfast.verify.programs import Choices, ProgramBound, program_bound
from holdfast.verify.rational import RationalNetwork, float_below
from holdfast.verify.witness import build_witness, flips, sides_from_values


@dataclass(frozen=True)
class ExactAnswer:
    """`robust` is None where neither a proof nor a representable counter-model exists (or time ran out)."""

    robust: bool | None
    lower: float
    sides: Floats | None = None
    leaves: tuple[Leaf, ...] = ()
    in_fractions: bool = False


_UNDECIDED = ExactAnswer(None, -np.inf)


def settle_exactly(
    problem: Problem, radii: list[LayerRadius], *, max_visits: int = 2000, deadline: float | None = None
) -> ExactAnswer:
    """Decide the margin of the one point in `problem`."""
    x = to_numpy(problem.points)[0]
    if problem.net.depth > 1:
        return _Search(problem, radii, x).run(max_visits, deadline)
    least, sides = RationalNetwork(problem, radii).least_margin_shallow(x)
    if least > 0 or (least == 0 and not problem.margin.strict):
        return ExactAnswer(True, float_below(least), in_fractions=True)
    witness = build_witness(problem.network, radii, problem.margin, x, sides)
    if flips(problem.network, witness, problem.margin, x):
        return ExactAnswer(False, float_below(least), sides, in_fractions=True)
    return ExactAnswer(None, float_below(least), in_fractions=True)


def proven_above(problem: Problem, radii: list[LayerRadius], value: float, *, max_visits: int = 2000) -> bool:
    """Whether a search proves that the margin of the one point in `problem` stays above `value`."""
    search = _Search(problem, radii, to_numpy(problem.points)[0], value)
    return bool(search.run(max_visits, None).robust)


class _Search:
    """Depth-first branch and bound on one point: does its margin stay on the right side of `value`?"""

    def __init__(self, problem: Problem, radii: list[LayerRadius], x: Floats, value: float = 0.0) -> None:
        self.problem, self.radii, self.x, self.value = problem, radii, x, value
        self.box = value_box(problem.net, problem.points, problem.rounding, problem.sizes)
        self.row = np.ravel(to_numpy(problem.row))
        self.leaves: list[Leaf] = []

    @cached_property
    def rational(self) -> RationalNetwork:
        """The network in fractions, converted only if floats cannot tell."""
        return RationalNetwork(self.problem, self.radii)

    def run(self, max_visits: int, deadline: float | None) -> ExactAnswer:
        """Visit branches until one breaks the margin or all are proven."""
        attack = best_response(self.problem).sides[0].astype(np.float64)
        if self._breaks(attack):
            return ExactAnswer(False, -np.inf, attack)
        stack: list[Choices] = [tuple(np.full(size, FREE, dtype=np.int8) for size in self.problem.network.hidden[1:])]
        for _ in range(max_visits):
            if deadline is not None and time.monotonic() > deadline:
                return _UNDECIDED
            decided = stack.pop()
            outcome = self._visit(decided)
            if isinstance(outcome, ExactAnswer):
                return outcome
            if outcome is not None:
                stack.extend(_with_choice(decided, outcome, choice) for choice in (LINEAR, ZERO))
            if not stack:
                lowest = min(leaf.bound for leaf in self.leaves)
                return ExactAnswer(True, lowest, None, tuple(self.leaves), "rational" in self.__dict__)
        return _UNDECIDED

    def _visit(self, decided: Choices) -> ExactAnswer | int | None:
        """None: this branch is proven. A number: branch on that neuron. An answer: the search is over."""
        problem = self.problem
        batched = tuple(choice[None, :] for choice in decided)
        relaxation, ranges = relax(
            problem.net, self.box, problem.rounding, problem.sizes, decided=batched, refine=problem.net.depth > 2
        )
        found = program_bound(problem, relaxation, ranges, decided)
        if found is None:
            return _UNDECIDED
        if self._proven(decided, found):
            return None
        sides = self._broken_by(found.values)
        if sides is not None:
            return ExactAnswer(False, -np.inf, sides)
        # Where no value lies too high the bound misses zero by rounding alone, and any undecided neuron will do.
        loosest = int(found.excess.argmax())
        return loosest if found.excess[loosest] > -np.inf else _UNDECIDED

    def _proven(self, decided: Choices, found: ProgramBound) -> bool:
        """Whether the program's multipliers prove the branch; fractions only if floats cannot tell."""
        bound = found.bound - self.value
        if bound < -found.error:
            return False
        alphas = tuple(alpha[0] for alpha in found.multipliers.alphas)
        stretches = tuple(stretch[0] for stretch in found.multipliers.stretches)
        if bound > found.error:
            self.leaves.append(Leaf(decided, alphas, stretches, bound - found.error))
            return True
        if self.value != 0.0:
            return False
        candidates: list[Any] = [alphas]
        if self.problem.net.depth == 2:
            candidates.append(self.rational.best_alphas(self.x, decided, alphas, stretches))
        for chosen in candidates:
            exact = self.rational.bound(self.x, decided, chosen, stretches)
            if exact > 0 or (exact == 0 and not self.problem.margin.strict):
                kept = tuple(np.array(layer, dtype=object) for layer in chosen)
                self.leaves.append(Leaf(decided, kept, stretches, float_below(exact)))
                return True
        return False

    def _broken_by(self, values: list[Floats]) -> Floats | None:
        """The program's own values, and the same first layer with the last layer at its worst."""
        proposal = sides_from_values(self.problem.network, self.radii, self.x, values)
        snapped = np.where(np.abs(proposal) > 1.0 - 1e-7, np.sign(proposal), proposal)
        worst = np.concatenate([snapped[: -self.row.shape[0]], np.where(self.row > 0.0, -1.0, 1.0)])
        return next((sides for sides in (worst, snapped) if self._breaks(sides)), None)

    def _breaks(self, sides: Floats) -> bool:
        if self.value != 0.0:
            return False
        network, margin = self.problem.network, self.problem.margin
        return flips(network, build_witness(network, self.radii, margin, self.x, sides), margin, self.x)


def _with_choice(decided: Choices, neuron: int, choice: int) -> Choices:
    """The same choices and one more, for a neuron numbered through the later layers."""
    choices = np.concatenate(decided)
    choices[neuron] = choice
    return tuple(np.split(choices, np.cumsum([part.shape[0] for part in decided])[:-1]))
