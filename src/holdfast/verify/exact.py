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
from numpy.typing import NDArray

from holdfast.arrays import to_numpy
from holdfast.bounds.interval import Ranges
from holdfast.bounds.linear import (
    FREE,
    LINEAR,
    ZERO,
    Multipliers,
    Relaxation,
    pull_back,
    relax,
    value_box,
    with_multipliers,
)
from holdfast.changes import LayerRadius
from holdfast.milp.encode import margin_program
from holdfast.milp.solve import SolveStatus, solve
from holdfast.network import Floats
from holdfast.verify.attack import best_response
from holdfast.verify.branch import Leaf
from holdfast.verify.problem import Problem
from holdfast.verify.rational import RationalNetwork, float_below
from holdfast.verify.witness import build_witness, flips, sides_from_values

Choices = tuple[NDArray[np.int8], ...]


@dataclass(frozen=True)
class ExactAnswer:
    """`robust` is None where neither a proof nor a representable counter-model exists (or time ran out)."""

    robust: bool | None
    lower: float
    sides: Floats | None = None
    leaves: tuple[Leaf, ...] = ()


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
        return ExactAnswer(True, float_below(least))
    witness = build_witness(problem.network, radii, problem.margin, x, sides)
    if flips(problem.network, witness, problem.margin, x):
        return ExactAnswer(False, float_below(least), sides)
    return ExactAnswer(None, float_below(least))


class _Search:
    """Depth-first branch and bound on one point."""

    def __init__(self, problem: Problem, radii: list[LayerRadius], x: Floats) -> None:
        self.problem, self.radii, self.x = problem, radii, x
        self.box = value_box(problem.net, problem.points, problem.rounding, problem.sizes)
        self.row = np.ravel(to_numpy(problem.row))
        self.error = float(to_numpy(problem.error)[0])
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
                stack.extend(_with_choice(decided, *outcome, choice) for choice in (LINEAR, ZERO))
            if not stack:
                return ExactAnswer(True, min(leaf.bound for leaf in self.leaves), None, tuple(self.leaves))
        return _UNDECIDED

    def _visit(self, decided: Choices) -> ExactAnswer | tuple[int, int] | None:
        """None: this branch is proven. A pair: branch there. An answer: the search is over."""
        problem = self.problem
        batched = tuple(choice[None, :] for choice in decided)
        relaxation, ranges = relax(
            problem.net, self.box, problem.rounding, problem.sizes, decided=batched, refine=problem.net.depth > 2
        )
        encoded = margin_program(problem.net, self.box, ranges, self.row, decided=decided, relaxed=True)
        solution = solve(encoded.program)
        if solution.status is SolveStatus.INFEASIBLE:
            encoded = margin_program(
                problem.net, self.box, ranges, self.row, decided=decided, relaxed=True, always_feasible=True
            )
            solution = solve(encoded.program)
        if solution.status is not SolveStatus.OPTIMAL or solution.values is None or solution.row_duals is None:
            return _UNDECIDED
        if self._proven(
            decided, relaxation, solution.row_duals[encoded.lower_rows], solution.row_duals[encoded.upper_rows]
        ):
            return None
        values = encoded.layer_values(solution.values)
        sides = self._broken_by(values)
        if sides is not None:
            return ExactAnswer(False, -np.inf, sides)
        return self._loosest(decided, values, ranges)

    def _proven(self, decided: Choices, relaxation: Relaxation, lower: Floats, upper: Floats) -> bool:
        """Whether multipliers made of the program's duals prove the branch; fractions only if floats cannot tell."""
        multipliers = self._multipliers(relaxation, np.maximum(lower, 0.0), np.maximum(-upper, 0.0))
        walked = pull_back(self.problem.net, with_multipliers(relaxation, multipliers), self.row, self.problem.offset)
        bound, error = float(walked.bound[0]), self.error * float(multipliers.growth()[0])
        if bound < -error:
            return False
        alphas = tuple(alpha[0] for alpha in multipliers.alphas)
        stretches = tuple(stretch[0] for stretch in multipliers.stretches)
        if bound > error:
            self.leaves.append(Leaf(decided, alphas, stretches, bound - error))
            return True
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

    def _multipliers(self, relaxation: Relaxation, lower: Floats, upper: Floats) -> Multipliers:
        """Duals over coefficients; a layer's coefficients are known once the layers after it are done."""
        ends = np.cumsum(self.problem.network.hidden[1:])[:-1]
        lowers, uppers = np.split(lower, ends), np.split(upper, ends)
        alphas = [np.zeros((1, layer.shape[0])) for layer in lowers]
        stretches = [np.ones((1, layer.shape[0])) for layer in uppers]
        for i in range(len(lowers) - 1, -1, -1):
            current = with_multipliers(relaxation, Multipliers(tuple(alphas), tuple(stretches)))
            coefficients = pull_back(self.problem.net, current, self.row, self.problem.offset).coefficients[i + 1][0]
            size = np.where(coefficients == 0.0, 1.0, np.abs(coefficients))
            # Solvers leave dust near the ends.
            alpha = np.where(coefficients > 0.0, lowers[i] / size, 0.0)
            alphas[i] = np.where(alpha < 1e-7, 0.0, np.where(alpha > 1.0 - 1e-7, 1.0, alpha))[None, :]
            stretch = np.where(coefficients < 0.0, uppers[i] / size, 1.0)
            stretches[i] = np.where(stretch < 1.0 + 1e-7, 1.0, stretch)[None, :]
        return Multipliers(tuple(alphas), tuple(stretches))

    def _broken_by(self, values: list[Floats]) -> Floats | None:
        """The program's own values, and the same first layer with the last layer at its worst."""
        proposal = sides_from_values(self.problem.network, self.radii, self.x, values)
        snapped = np.where(np.abs(proposal) > 1.0 - 1e-7, np.sign(proposal), proposal)
        worst = np.concatenate([snapped[: -self.row.shape[0]], np.where(self.row > 0.0, -1.0, 1.0)])
        return next((sides for sides in (worst, snapped) if self._breaks(sides)), None)

    def _breaks(self, sides: Floats) -> bool:
        network, margin = self.problem.network, self.problem.margin
        return flips(network, build_witness(network, self.radii, margin, self.x, sides), margin, self.x)

    def _loosest(
        self, decided: Choices, values: list[Floats], ranges: tuple[Ranges, ...]
    ) -> ExactAnswer | tuple[int, int]:
        """The undecided neuron whose value lies furthest above what its upper side really allows.

        Where none does, the bound misses zero by rounding in its lines alone, and any undecided neuron will do.
        """
        best, place = -np.inf, None
        for i in range(1, len(values)):
            weight, bias, radius = self.problem.network.weights[i], self.problem.network.biases[i], self.radii[i]
            top = (weight + radius.weight) @ values[i - 1] + bias + radius.bias
            unsure = (ranges[i - 1].upper_min[0] < 0.0) & (ranges[i - 1].upper_max[0] > 0.0)
            open_ = unsure & (decided[i - 1] == FREE)
            excess = np.where(open_, values[i] - np.maximum(top, 0.0), -np.inf)
            if excess.max() > best:
                best, place = float(excess.max()), (i - 1, int(excess.argmax()))
        return _UNDECIDED if place is None else place


def _with_choice(decided: Choices, layer: int, neuron: int, choice: int) -> Choices:
    child = tuple(part.copy() for part in decided)
    child[layer][neuron] = choice
    return child
