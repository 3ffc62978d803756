"""Proofs that `holdfast.checker` accepts: the shortest kind that is enough, found in floats and tried in integers.

Interval bounds are enough for most points, the checker's own lines for most others. What is left is cut into cases: the
duals of a linear program are the multipliers of a case, the checker's arithmetic says what they prove, and a case that
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
from holdfast.bounds.interval import Ranges
from holdfast.bounds.linear import FREE, LINEAR, ZERO, Lines, Relaxation, lines_over, value_box
from holdfast.changes import PlausibleChanges
from holdfast.errors import HoldfastError
from holdfast.network import Network
from holdfast.verify.problem import Problem
from holdfast.verify.programs import Choices, ProgramBound, program_bound
from holdfast.verify.rational import RationalNetwork

# Multipliers in units of 1/65536 are short to write down; where that is too coarse, about as fine as a float.
_DENOMINATORS = (2**16, 2**48)


class NoProofError(HoldfastError):
    """There is no proof, or none in a form that the checker takes."""


def prove_part(
    question: checker.Question, network: Network, changes: PlausibleChanges, rival: int, max_cases: int
) -> dict[str, Any]:
    """The part of a ROBUST certificate that says why the target stays ahead of one rival."""
    attempts: list[dict[str, Any]] = [{"method": "interval"}]
    if changes.norm in (1.0, 2.0):
        attempts.append({"method": "ball"})
    deep = network.rectified and len(network.hidden) > 1
    if deep:
        attempts.append({"method": "cases", "tree": {}})
    for attempt in attempts:
        part = _with_bound(question, {"rival": rival, **attempt})
        if part is not None:
            return part
    if not deep:
        raise NoProofError("interval bounds do not prove it, and the checker knows no other proof for this model")
    tree = _Search(question, network, changes, rival, max_cases).tree()
    part = _with_bound(question, {"rival": rival, "method": "cases", "tree": tree})
    assert part is not None
    return part


def _with_bound(question: checker.Question, part: dict[str, Any]) -> dict[str, Any] | None:
    """A part with what it proves, if that is enough."""
    bound = question.bound(part)
    return {**part, "bound": checker.float_below(bound)} if question.suffices(part["rival"], bound) else None


def exact_rival(model: checker.Model, point: list[float], target: int) -> tuple[int, Fraction]:
    """The class that comes closest to the target, or is furthest ahead of it, and the target's margin over it."""
    still = ((0.0, 0.0),) * len(model.weights)
    question = checker.Question(model, (still, math.inf, True), point, target)
    rivals = [c for c in range(len(model.classes)) if c != target]
    margins = [question.bound({"method": "interval", "rival": rival}) for rival in rivals]
    least = min(range(len(rivals)), key=margins.__getitem__)
    return rivals[least], margins[least]


@dataclass
class _Search:
    """Depth first through the cases of one margin."""

    question: checker.Question
    network: Network
    changes: PlausibleChanges
    rival: int
    max_cases: int
    visited: int = 0

    def __post_init__(self) -> None:
        box = PlausibleChanges(self.changes.delta, biases=self.changes.biases)
        question, target = self.question, self.question.target
        # What the checker reads ends with a 1 for the bias.
        *point, one = question.point
        self.x = np.array([value / one for value in point])
        if self.network.n_outputs == 1:
            margin = Margin.of_logit(self.network, 0, 1 if target == 1 else -1, strict=target == 0)
        else:
            margin = Margin.of_pair(self.network, target, self.rival)
        self.radii = box.layer_radii(self.network)
        self.problem = problem = Problem.of(self.network, IntervalNetwork.of(self.network, box), margin, self.x[None])
        self.box = value_box(problem.net, problem.points, problem.rounding, problem.sizes)
        self.rows = question.margin(self.rival)
        self.floats = [self._as_floats(layer) for layer in question.ranges[1:]]

    def _as_floats(self, layer: list[tuple[int, int]]) -> Ranges:
        """The checker's own ranges of U; those of L do not matter here."""
        bottom, top = (np.array([[end / 2**self.question.fine for end in ends]]) for ends in zip(*layer, strict=True))
        return Ranges(bottom, top, bottom, top)

    def tree(self) -> dict[str, Any]:
        """The whole tree."""
        decided = tuple(np.full(size, FREE, dtype=np.int8) for size in self.network.hidden[1:])
        return self._node(decided, self.question.ranges)

    def _node(self, decided: Choices, exact: checker.Ranges) -> dict[str, Any]:
        self.visited += 1
        if self.visited > self.max_cases:
            raise NoProofError(f"a proof takes more than {self.max_cases} cases; max_cases= allows more")
        found = self._program(decided)
        leaf = self._leaf(decided, exact, found)
        if leaf is not None:
            return leaf
        loosest = int(found.excess.argmax())
        if found.excess[loosest] == -np.inf:
            if self.changes.norm != math.inf:
                raise NoProofError(
                    f"the checker's cases are for norm inf, where this delta is too much; what proves it for norm "
                    f"{self.changes.norm:g} has no form that the checker takes"
                )
            raise NoProofError("a case cannot be split any further, and is not proven")
        i, j = self._place(loosest)
        bottom, top = exact[i + 1][j]
        children = {}
        for name, choice, ends in (("below", ZERO, (bottom, 0)), ("above", LINEAR, (0, top))):
            chosen, ranges = tuple(part.copy() for part in decided), [list(layer) for layer in exact]
            chosen[i][j], ranges[i + 1][j] = choice, ends
            children[name] = self._node(chosen, ranges)
        return {"split": [i + 1, j], **children}

    def _program(self, decided: Choices) -> ProgramBound:
        lines = []
        for ranges, choice in zip(self.floats, decided, strict=True):
            line = lines_over(ranges)
            slope = np.where(choice == FREE, line.slope, choice == LINEAR)
            lines.append(Lines(line.alpha, slope, np.where(choice == FREE, line.intercept, 0.0)))
        found = program_bound(self.problem, Relaxation(*self.box, tuple(lines)), tuple(self.floats), decided)
        if found is None:
            raise NoProofError("the linear program of a case has no solution")
        return found

    def _leaf(self, decided: Choices, exact: checker.Ranges, found: ProgramBound) -> dict[str, Any] | None:
        """The leaf that the program's multipliers make, if it is proven in exact arithmetic."""
        for unit in _DENOMINATORS:
            leaf = self._tried(exact, self._duals(decided, exact, found, unit), unit)
            if leaf is not None:
                return leaf
        if abs(found.bound) <= found.error:
            return self._tried(exact, *self._without_rounding(decided, exact, found))
        return None

    def _tried(self, exact: checker.Ranges, lines: checker.Lines, unit: int) -> dict[str, Any] | None:
        """A leaf with these multipliers if they prove it."""
        if not self.question.suffices(self.rival, self.question.least(*self.rows, exact, lines, unit)):
            return None
        return {"lower": [line[0] for line in lines], "upper": [line[1] for line in lines], "denominator": unit}

    def _duals(self, decided: Choices, exact: checker.Ranges, found: ProgramBound, unit: int) -> checker.Lines:
        """The program's duals of v >= L and v <= slope U + intercept, in units of 1/unit.

        What a coefficient has no room for in the dual of its lower side goes to U, which is more than L.
        """
        cuts = np.cumsum(self.network.hidden[1:])[:-1]
        lowers, uppers = np.split(found.lower, cuts), np.split(found.upper, cuts)
        # One by one, as integers of this size may be beyond any float.
        coefficients = np.array([w / 2**self.question.shift for w in self.rows[0][:-1]])
        lines: checker.Lines = []
        for i in range(len(exact) - 2, -1, -1):
            slopes = np.array([float(slope) for slope in _slopes(decided[i].tolist(), exact[i + 1])])
            lower = np.where(decided[i] == ZERO, 0.0, np.minimum(lowers[i], np.maximum(coefficients, 0.0)))
            upper = lowers[i] - lower - uppers[i] * slopes
            upper = np.where(decided[i] == ZERO, upper, np.minimum(upper, 0.0))
            # Rounded down, so that what should be a coefficient is not more than that.
            units = [math.floor(value * unit * (1 - 1e-15)) for value in lower.tolist()]
            lines.insert(0, (units, [round(value * unit) for value in upper.tolist()]))
            radius, _ = self.radii[i + 1]
            coefficients = (lower + upper) @ self.network.weights[i + 1] + (upper - lower).sum() * float(radius)
        return lines

    def _without_rounding(
        self, decided: Choices, exact: checker.Ranges, found: ProgramBound
    ) -> tuple[checker.Lines, int]:
        """Where the margin is zero: multipliers as exact fractions of the exact coefficients."""
        alphas, stretches = (
            [[Fraction(value) for value in layer[0].tolist()] for layer in part]
            for part in (found.multipliers.alphas, found.multipliers.stretches)
        )
        if self.problem.net.depth == 2:
            # Fractional multipliers that solve the equations instead of coming close to it.
            floats = tuple(layer[0] for layer in found.multipliers.alphas)
            steps = tuple(layer[0] for layer in found.multipliers.stretches)
            alphas = RationalNetwork(self.problem, self.radii).best_alphas(self.x, decided, floats, steps)
        one = 1 << self.question.shift
        coefficients = [Fraction(w, one) for w in self.rows[0][:-1]]
        lines: list[tuple[list[Fraction], list[Fraction]]] = []
        for i in range(len(exact) - 2, -1, -1):
            slopes = _slopes(decided[i].tolist(), exact[i + 1])
            lower = [max(c, Fraction(0)) * alpha for c, alpha in zip(coefficients, alphas[i], strict=True)]
            upper = [min(c, Fraction(0)) * t * s for c, t, s in zip(coefficients, stretches[i], slopes, strict=True)]
            lines.insert(0, (lower, upper))
            layer = self.question.layers[i + 1]
            columns = zip(*layer.low, *layer.high, strict=True)
            coefficients = [
                sum((m * w for m, w in zip(lower + upper, column, strict=True)), Fraction(0)) / one
                for column in columns
            ][:-1]
        unit = math.lcm(*(value.denominator for line in lines for part in line for value in part))
        return [([int(v * unit) for v in lower], [int(v * unit) for v in upper]) for lower, upper in lines], unit

    def _place(self, neuron: int) -> tuple[int, int]:
        """(layer, neuron) of a neuron that is numbered through the layers after the first."""
        for layer, size in enumerate(self.network.hidden[1:]):
            if neuron < size:
                return layer, neuron
            neuron -= size
        raise AssertionError(neuron)


def _slopes(decided: list[int], ranges: list[tuple[int, int]]) -> list[Fraction]:
    """The slope of each line above relu: of the chord over U's range, or what the case leaves of relu."""
    chords = [Fraction(max(top, 0), max(top, 0) - min(bottom, 0)) if top > 0 else Fraction(0) for bottom, top in ranges]
    known = {ZERO: Fraction(0), LINEAR: Fraction(1)}
    return [known.get(choice, chord) for choice, chord in zip(decided, chords, strict=True)]
