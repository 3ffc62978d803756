"""Proofs that `holdfast.checker` accepts: the shortest kind that is enough, found in floats and tried in integers.

Interval bounds are enough for most points, the checker's own lines for most others. What is left is cut into cases: a
linear program proposes the multipliers of a case, the checker's arithmetic says what they prove, and a case that
stays open is split at the neuron that the program's solution believes least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from holdfast import checker
from holdfast.bounds.abstraction import IntervalNetwork, Margin
from holdfast.bounds.linear import FREE, LINEAR, ZERO, relax, value_box
from holdfast.changes import PlausibleChanges
from holdfast.errors import HoldfastError
from holdfast.network import Floats, Network
from holdfast.verify.problem import Problem
from holdfast.verify.programs import Choices, ProgramBound, program_bound
from holdfast.verify.rational import RationalNetwork

# Multipliers in units of 1/65536 are short to write down; where that is too coarse, about as fine as a float.
_DENOMINATORS = (2**16, 2**48)


class NoProofError(HoldfastError):
    """There is no proof, or none in a form that the checker takes."""


def prove_part(
    prover: checker.Prover, network: Network, changes: PlausibleChanges, rival: int, max_cases: int
) -> dict[str, Any]:
    """The part of a ROBUST certificate that says why the target stays ahead of one rival."""
    attempts: list[tuple[str, Any]] = [("interval", None)]
    if changes.norm in (1.0, 2.0):
        attempts.append(("ball", None))
    deep = network.rectified and len(network.hidden) > 1
    if deep:
        attempts.append(("cases", {}))
    if len(network.hidden) > 2 and deep:
        attempts.append(("cases", {"refine": True}))
    for method, tree in attempts:
        above, below = prover.bound(rival, method, tree)
        if prover.suffices(rival, above):
            return _part(rival, method, tree, above, below)
    if not deep:
        raise NoProofError("interval bounds do not prove it, and the checker knows no other proof for this model")
    tree = _Search(prover, network, changes, rival, max_cases).tree()
    return _part(rival, "cases", tree, *prover.bound(rival, "cases", tree))


def _part(rival: int, method: str, tree: Any, above: int, below: int) -> dict[str, Any]:
    part: dict[str, Any] = {"rival": rival, "method": method, "bound": checker.float_below(above, below)}
    return part if tree is None else {**part, "tree": tree}


@dataclass
class _Search:
    """Depth first through the cases of one margin."""

    prover: checker.Prover
    network: Network
    changes: PlausibleChanges
    rival: int
    max_cases: int
    visited: int = 0

    def __post_init__(self) -> None:
        box = PlausibleChanges(self.changes.delta, biases=self.changes.biases)
        x = np.array([self.prover.point])
        target = self.prover.target
        if self.network.n_outputs == 1:
            margin = Margin.of_logit(self.network, 0, 1 if target == 1 else -1, strict=target == 0)
        else:
            margin = Margin.of_pair(self.network, target, self.rival)
        self.radii = box.layer_radii(self.network)
        self.problem = problem = Problem.of(self.network, IntervalNetwork.of(self.network, box), margin, x)
        self.box = value_box(problem.net, problem.points, problem.rounding, problem.sizes)
        self.cases = self.prover.cases(self.rival)
        # From the third hidden layer on, tighter ranges at the root serve every case.
        self.refine = problem.net.depth > 2
        self.known = (
            relax(problem.net, self.box, problem.rounding, problem.sizes, refine=True)[1] if self.refine else None
        )
        self.exact_known = self.cases.ranges({}, refine=True) if self.refine else None

    def tree(self) -> dict[str, Any]:
        """The whole tree."""
        root = self._node(tuple(np.full(size, FREE, dtype=np.int8) for size in self.network.hidden[1:]))
        return {"refine": True, **root} if self.refine else root

    def _node(self, decided: Choices) -> dict[str, Any]:
        self.visited += 1
        if self.visited > self.max_cases:
            raise NoProofError(f"a proof takes more than {self.max_cases} cases (max_cases)")
        found = self._program(decided, refine=False)
        leaf = self._leaf(decided, found)
        if leaf is not None:
            return leaf
        loosest = int(found.excess.argmax())
        if found.excess[loosest] == -np.inf:
            leaf = self._refined_leaf(decided) if self.refine else None
            if leaf is None:
                raise NoProofError("a case cannot be split any further, and is not proven")
            return leaf
        layer, neuron = self._place(loosest)
        children = {}
        for name, choice in (("below", ZERO), ("above", LINEAR)):
            chosen = tuple(part.copy() for part in decided)
            chosen[layer - 1][neuron] = choice
            children[name] = self._node(chosen)
        return {"split": [layer, neuron], **children}

    def _program(self, decided: Choices, *, refine: bool) -> ProgramBound:
        problem = self.problem
        relaxation, ranges = relax(
            problem.net,
            self.box,
            problem.rounding,
            problem.sizes,
            decided=tuple(choice[None, :] for choice in decided),
            known=self.known,
            refine=refine,
        )
        found = program_bound(problem, relaxation, ranges, decided)
        if found is None:
            raise NoProofError("the linear program of a case has no solution")
        return found

    def _refined_leaf(self, decided: Choices) -> dict[str, Any] | None:
        """The case once more, with tighter ranges of its own."""
        ranges = self.cases.ranges(_decisions(decided), self.exact_known, refine=True)
        leaf = self._leaf(decided, self._program(decided, refine=True), ranges)
        return None if leaf is None else {"refine": True, **leaf}

    def _leaf(
        self, decided: Choices, found: ProgramBound, known: list[checker.Sides] | None = None
    ) -> dict[str, Any] | None:
        """The leaf that the program's multipliers make, if it is proven in exact arithmetic."""
        ranges = self.cases.ranges(_decisions(decided), known or self.exact_known)
        for denominator in _DENOMINATORS:
            leaf = self._tried(
                ranges, _from_duals(self._split(found.lower), self._split(found.upper), decided, denominator)
            )
            if leaf is not None:
                return leaf
        if self.problem.net.depth == 2 and abs(found.bound) <= found.error:
            return self._tried(ranges, self._without_rounding(decided, found))
        return None

    def _tried(self, ranges: list[checker.Sides], choose: checker.Choose) -> dict[str, Any] | None:
        """A leaf with these multipliers if they prove it."""
        used: dict[int, tuple[list[int], list[int], int]] = {}

        def chosen(i: int, coefficients: list[int], below: int, sides: checker.Sides) -> Any:
            used[i] = choose(i, coefficients, below, sides)
            return used[i]

        above, _ = self.cases.leaf(ranges, chosen)
        if not self.prover.suffices(self.rival, above):
            return None
        parts = zip(*(used[i] for i in range(1, len(self.network.hidden))), strict=True)
        leaf = dict(zip(("multipliers", "constraints", "denominators"), map(list, parts), strict=True))
        if not any(any(part) for part in leaf["constraints"]):
            del leaf["constraints"]
        return leaf

    def _split(self, values: Floats) -> list[Floats]:
        return np.split(values, np.cumsum(self.network.hidden[1:])[:-1])

    def _without_rounding(self, decided: Choices, found: ProgramBound) -> checker.Choose:
        """Two hidden layers and a margin of zero: multipliers that solve the equations exactly."""
        alphas, stretches = (
            tuple(layer[0] for layer in part) for part in (found.multipliers.alphas, found.multipliers.stretches)
        )
        best = RationalNetwork(self.problem, self.radii).best_alphas(self._x, decided, alphas, stretches)[0]

        def choose(i: int, coefficients: list[int], below: int, sides: checker.Sides) -> Any:
            wanted = [
                alpha if c > 0 else Fraction(float(stretch)) * _chord(side)
                for c, alpha, stretch, side in zip(coefficients, best, stretches[0], sides, strict=True)
            ]
            unit = math.lcm(*(value.denominator for value in wanted))
            return [int(value * unit) for value in wanted], [0] * len(wanted), unit

        return choose

    @property
    def _x(self) -> Floats:
        return np.asarray(self.prover.point, dtype=np.float64)

    def _place(self, neuron: int) -> tuple[int, int]:
        """(layer, neuron) of a neuron that is numbered through the layers after the first."""
        for layer, size in enumerate(self.network.hidden[1:], 1):
            if neuron < size:
                return layer, neuron
            neuron -= size
        raise AssertionError(neuron)


def _decisions(decided: Choices) -> checker.Decided:
    """What a branch has decided, as the checker writes it."""
    return {
        (i, int(j)): bool(layer[j] == LINEAR)
        for i, layer in enumerate(decided, 1)
        for j in np.flatnonzero(layer != FREE)
    }


def _chord(side: tuple[int, int, int, int]) -> Fraction:
    """The slope of the chord above relu over U's range."""
    bottom, top = min(side[2], 0), max(side[3], 0)
    return Fraction(top, top - bottom) if top > bottom else Fraction(0)


def _from_duals(lower: list[Floats], upper: list[Floats], decided: Choices, denominator: int) -> checker.Choose:
    """Multipliers from a program's duals, in units of 1/denominator.

    What a coefficient c > 0 has no room for in the dual of a lower side, and the dual of an upper side where c > 0, are
    uses of the case's own constraint, U <= 0 or U >= 0.
    """

    def choose(i: int, coefficients: list[int], below: int, sides: checker.Sides) -> Any:
        multipliers, constraints = [], []
        for j, (coefficient, side) in enumerate(zip(coefficients, sides, strict=True)):
            c, low, high, choice = (
                coefficient / below,
                float(lower[i - 1][j]),
                float(upper[i - 1][j]),
                decided[i - 1][j],
            )
            constraint = 0.0
            if c > 0.0:
                multiplier = min(low / c, 1.0)
                rest = low - c * multiplier
                constraint = rest if choice == ZERO else -max(high - rest, 0.0) if choice == LINEAR else 0.0
            elif choice == ZERO or c == 0.0:
                multiplier = 0.0
            else:
                multiplier = max(high * float(_chord(side)) - low, 0.0) / -c
            multipliers.append(round(multiplier * denominator))
            constraints.append(round(constraint * denominator))
        return multipliers, constraints, denominator

    return choose
