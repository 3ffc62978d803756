"""The last word, one point at a time and in integers: what `holdfast.checker` makes of a proposal is what counts.

Interval bounds settle networks of up to one hidden layer. Deeper ones are cut into cases: HiGHS proposes the multipliers
of a case, or a counter-model; the checker's arithmetic says what the multipliers prove, and a replay whether the
counter-model is one. A case that stays open is split at the neuron that the program's solution believes least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checker
from holdfast.arrays import to_numpy
from holdfast.bounds.layers import Layer, Layers, Margin
from holdfast.changes import PlausibleChanges
from holdfast.deadline import Deadline
from holdfast.milp.builder import ProgramBuilder
from holdfast.milp.solve import SolveStatus, solve
from holdfast.network import Floats, Network
from holdfast.verify.attack import attack, sides
from holdfast.verify.witness import build_witness, flips

MAX_CASES = 500
# Multipliers in units of 1/65536 are short to write down; where that is too coarse, about as fine as a float.
UNITS = (2**16, 2**48)
# Where a margin is exactly 0 only the fractions themselves will do, if they are short.
_SHORT, _LONGEST = 4096, 2**4096


class NoProofError(checker.CheckError):
    """There is no proof, or none in a form that the checker takes."""


@dataclass(frozen=True)
class Answer:
    """The part of a certificate that proves the margin with its bound, or the sides of a counter-model, or neither."""

    part: dict[str, Any] | None = None
    lower: float = -math.inf
    sides: Floats | None = None


def checker_model(network: Network) -> checker.Model:
    """A network as the checker reads it."""
    # Equal networks may differ in the types of their classes, and with that in the names.
    return _checker_model(network, checker.canonical(network.classes.tolist()))


@lru_cache(maxsize=8)
def _checker_model(network: Network, _: str) -> checker.Model:
    return checker.Model.read(parameters(network))


def parameters(network: Network) -> dict[str, Any]:
    """A network as an object of JSON."""
    return {
        "format": "holdfast-network",
        "version": 1,
        "classes": network.classes.tolist(),
        "activations": list(network.activations),
        "weights": [weight.tolist() for weight in network.weights],
        "biases": [bias.tolist() for bias in network.biases],
    }


def classes_of(network: Network, margin: Margin) -> tuple[int, int]:
    """The class that a margin is for, and its rival."""
    if network.n_outputs > 1:
        return margin.above, margin.below
    return (1, 0) if margin.above == 0 else (0, 1)


class Exact:
    """One margin at one point under the box `changes`."""

    def __init__(self, network: Network, changes: PlausibleChanges, layers: Layers, margin: Margin, x: Floats) -> None:
        self.network, self.changes, self.margin, self.x = network, changes, margin, x
        # Whatever device the engine works on, programs are written here.
        self.layers = layers.on(to_numpy)
        target, self.rival = classes_of(network, margin)
        model = checker_model(network)
        read = checker.read_changes(changes.to_dict(), model)
        self.question = checker.Question(model, read, x.tolist(), target)
        self.visited = 0

    def settle(self, deadline: Deadline, max_cases: int = MAX_CASES) -> Answer:
        """Prove the margin or break it; neither where no counter-model can be represented, or time is up."""
        part = self.with_bound({"rival": self.rival, "method": "interval"})
        if part is None:
            found = self._attacked()
            if found is not None or self.layers.depth < 2:
                return Answer(sides=found)
            tree = self._tree(self.question.ranges, {}, deadline, max_cases)
            if not isinstance(tree, dict):
                return Answer(sides=tree)
            part = self.with_bound({"rival": self.rival, "method": "cases", "tree": tree})
            assert part is not None
        return Answer(part, part["bound"])

    def tree_of(self, case: checker.Ranges, max_cases: int) -> dict[str, Any]:
        """A tree that proves a case, by programs."""
        tree = self._tree(case, {}, Deadline.after(None), self.visited + max_cases)
        if not isinstance(tree, dict):
            raise NoProofError(f"a proof takes more than {max_cases} cases, or there is none; max_cases= allows more")
        return tree

    def with_bound(self, part: dict[str, Any]) -> dict[str, Any] | None:
        """A part with what it proves, if that is enough."""
        bound = self.question.bound(part)
        return {**part, "bound": checker.float_below(bound)} if self.question.suffices(self.rival, bound) else None

    def leaf(self, case: checker.Ranges, lower: Floats, upper: Floats) -> dict[str, Any] | None:
        """The leaf that multipliers for all later neurons make, in the coarsest units in which they prove the case."""
        cuts = np.cumsum(self.network.hidden[1:])[:-1]
        layers = list(zip(np.split(lower, cuts), np.split(upper, cuts), strict=True))
        for unit in UNITS:
            lines = [([math.floor(v * unit) for v in a], [round(v * unit) for v in b]) for a, b in layers]
            if self._suffices(case, lines, unit):
                return _leaf(lines, unit)
        exact = [[[Fraction(float(v)).limit_denominator(_SHORT) for v in part] for part in pair] for pair in layers]
        unit = math.lcm(*(value.denominator for pair in exact for part in pair for value in part))
        if unit < _LONGEST:
            lines = [([int(v * unit) for v in a], [int(v * unit) for v in b]) for a, b in exact]
            if self._suffices(case, lines, unit):
                return _leaf(lines, unit)
        return None

    def _suffices(self, case: checker.Ranges, lines: checker.Lines, unit: int) -> bool:
        rows = self.question.margin(self.rival)
        return self.question.suffices(self.rival, self.question.least(*rows, case, lines, unit))

    def _attacked(self) -> Floats | None:
        if not self.layers.hidden:
            return self._breaks(np.zeros(0))
        points = self.x[None, :]
        found = attack(self.layers, points, rounds=4)
        return self._breaks(sides(self.layers, points, found.corner, found.low)[0])

    def _breaks(self, chosen: Floats) -> Floats | None:
        radii = self.changes.layer_radii(self.network)
        witness = build_witness(self.network, radii, self.margin, self.x, chosen)
        return chosen if flips(witness, self.margin, self.x) else None

    def _tree(
        self, case: checker.Ranges, decided: dict[tuple[int, int], int], deadline: Deadline, max_cases: int
    ) -> dict[str, Any] | Floats | None:
        """The tree that proves a case, the sides that break the margin, or None."""
        self.visited += 1
        if deadline.over or self.visited > max_cases:
            return None
        program = _Case(self, case, decided)
        solved = program.solve()
        if solved is None:
            return None
        lower, upper, values = solved
        leaf = self.leaf(case, lower, upper)
        if leaf is not None:
            return leaf
        chosen = self._sides_of(values)
        for option in (chosen, self._at_worst(chosen)):
            if self._breaks(option) is not None:
                return option
        place = program.loosest(values)
        if place is None:
            return None
        i, j = place
        bottom, top = case[i][j]
        node: dict[str, Any] = {"split": [i, j]}
        for name, side, ends in (("below", -1, (bottom, 0)), ("above", 1, (0, top))):
            cut = [list(layer) for layer in case]
            cut[i][j] = ends
            found = self._tree(cut, {**decided, (i, j): side}, deadline, max_cases)
            if not isinstance(found, dict):
                return found
            node[name] = found
        return node

    def _sides_of(self, values: list[Floats]) -> Floats:
        """The sides on which neurons come nearest to given values; a value of 0 after a ReLU is reached from below."""
        before, found = self.x[None, :], []
        for layer, relu, wanted in zip(self.layers.hidden, self.layers.relus, values, strict=True):
            center = before @ layer.weight.T + layer.bias
            bottom, top = layer.sides(before)
            z = np.clip(wanted[None, :], bottom, top)
            z = np.where(relu & (wanted[None, :] <= 0.0), bottom, z)
            reach = np.where(z < center, center - bottom, top - center)
            share = np.where(reach > 0.0, (z - center) / np.where(reach > 0.0, reach, 1.0), 0.0)
            share = np.where(np.abs(share) > 1.0 - 1e-7, np.sign(share), share)
            found.append(share[0])
            before = np.maximum(z, 0.0) if relu else z
        return np.concatenate(found)

    def _at_worst(self, chosen: Floats) -> Floats:
        """The same with the last hidden layer on the sides that its output row asks for."""
        row = self.layers.margin.ends[0][0]
        return np.concatenate([chosen[: chosen.shape[0] - row.shape[0]], np.where(row > 0.0, -1.0, 1.0)])


def _leaf(lines: checker.Lines, unit: int) -> dict[str, Any]:
    return {"lower": [line[0] for line in lines], "upper": [line[1] for line in lines], "denominator": unit}


class _Case:
    """The linear program of a case: the values of every hidden layer, and of those without a ReLU v⁺ beside them."""

    def __init__(self, exact: Exact, case: checker.Ranges, decided: dict[tuple[int, int], int]) -> None:
        self.layers, self.decided = exact.layers, decided
        one = 1 << exact.question.fine
        self.ranges = [[(bottom / one, top / one) for bottom, top in layer] for layer in case]
        self.builder = ProgramBuilder()
        # For each layer the columns of v and of v⁺, and what one unit of either stands for.
        self.columns: list[NDArray[np.intp]] = []
        self.plus: list[NDArray[np.intp]] = []
        self.units: list[Floats] = []
        # Rows of L and U for each later neuron, and of its case, with what they are multiplied by; -1 for none.
        self.rows: list[list[tuple[int, float]]] = []
        for i, ranges in enumerate(self.ranges):
            self._values(i, np.array(ranges))
            if i:
                for j, ends in enumerate(ranges):
                    self._neuron(i, j, *ends)
        self.cost, _ = self._side(self.layers.margin, 0, 0, len(self.ranges) - 1)

    def _values(self, i: int, ranges: Floats) -> None:
        relu = self.layers.relus[i]
        low, high = np.maximum(ranges, 0.0).T if relu and i == 0 else ranges.T
        if relu and i:
            low, high = np.zeros_like(low), np.maximum(high, 0.0)
        size = np.maximum(np.abs(low), np.abs(high))
        unit = 2.0 ** np.round(np.log2(np.where(size > 0.0, size, 1.0)))
        names = [self.builder.variable(a / u, b / u) for a, b, u in zip(low, high, unit, strict=True)]
        self.columns.append(np.array(names))
        self.units.append(unit)
        if relu:
            self.plus.append(self.columns[-1])
            return
        plus = [self.builder.variable(max(a, 0.0) / u, max(b, 0.0) / u) for a, b, u in zip(low, high, unit, strict=True)]
        self.plus.append(np.array(plus))
        for v, p, a, b, u in zip(names, plus, low, high, unit, strict=True):
            slope, intercept = _chord(a, b)
            self.builder.row([p, v], [1.0, -1.0], lower=0.0)
            self.builder.row([p, v], [1.0, -slope], upper=intercept / u)

    def _side(self, layer: Layer, j: int, side: int, before: int) -> tuple[dict[int, float], float]:
        """L (side 0) or U (side 1) of a neuron that reads the layer `before`, as coefficients and a constant."""
        low, high = (end[j] * self.units[before] for end in layer.ends)
        own, plus = self.columns[before].tolist(), self.plus[before].tolist()
        if layer.rectified:
            row = dict(zip(own, (low, high)[side].tolist(), strict=True))
        else:
            row = dict(zip(own, (high, low)[side].tolist(), strict=True))
            row |= dict(zip(plus, (low - high, high - low)[side].tolist(), strict=True))
        return row, float(layer.bias_ends[side][j])

    def _neuron(self, i: int, j: int, bottom: float, top: float) -> None:
        layer, relu, own, unit = self.layers.hidden[i], self.layers.relus[i], self.columns[i][j], self.units[i][j]
        slope, intercept = _chord(bottom, top) if relu else (1.0, 0.0)
        rows = []
        for side, factor, constant in ((0, 1.0, 0.0), (1, slope, intercept)):
            coefficients, edge = self._side(layer, j, side, i - 1)
            coefficients = {column: -factor * value for column, value in coefficients.items()}
            coefficients[int(own)] = float(unit)
            ends = {"lower": edge} if side == 0 else {"upper": factor * edge + constant}
            rows.append((*self._row(coefficients, **ends), factor))
        choice = self.decided.get((i, j), 0)
        if relu and choice:
            coefficients, edge = self._side(layer, j, 1, i - 1)
            rows.append((*self._row(coefficients, **{"lower" if choice > 0 else "upper": -edge}), -1.0))
        self.rows.append([(number, scale * factor) for number, scale, factor in rows])

    def _row(self, coefficients: dict[int, float], **ends: float) -> tuple[int, float]:
        """Write a row in a scale in which its largest coefficient is about 1; its number, and the scale."""
        scale = 2.0 ** -round(math.log2(max(map(abs, coefficients.values()), default=1.0) or 1.0))
        values = [value * scale for value in coefficients.values()]
        return self.builder.row(list(coefficients), values, **{name: end * scale for name, end in ends.items()}), scale

    def solve(self) -> tuple[Floats, Floats, list[Floats]] | None:
        """Multipliers of L and U of every later neuron, and the values of each layer; None if HiGHS has no answer."""
        size = 2.0 ** -round(math.log2(max(map(abs, self.cost.values()), default=1.0) or 1.0))
        for column, value in self.cost.items():
            self.builder.pay_from(column, 0.0, value * size)
        solution = solve(self.builder.build())
        if solution.status is not SolveStatus.OPTIMAL or solution.row_duals is None or solution.values is None:
            return None
        duals, lower, upper = solution.row_duals / size, [], []
        for (low, low_scale), *others in self.rows:
            lower.append(max(float(duals[low]) * low_scale, 0.0))
            upper.append(sum(float(duals[row]) * scale for row, scale in others))
        values = [solution.values[columns] * unit for columns, unit in zip(self.columns, self.units, strict=True)]
        self.seen = [solution.values[columns] * unit for columns, unit in zip(self.plus, self.units, strict=True)]
        return np.array(lower), np.array(upper), values

    def loosest(self, values: list[Floats]) -> tuple[int, int] | None:
        """The undecided neuron whose v⁺ lies furthest above what the values before allow; any, if none does."""
        best: tuple[float, tuple[int, int]] | None = None
        for i, layer in enumerate(self.layers.hidden):
            relu = self.layers.relus[i]
            if i == 0 and relu:
                continue
            most = values[i] if not relu else layer.sides(values[i - 1][None, :], self.seen[i - 1][None, :])[1][0]
            excess = self.seen[i] - np.maximum(most, 0.0)
            for j, (bottom, top) in enumerate(self.ranges[i]):
                if bottom < 0.0 < top and (best is None or excess[j] > best[0]):
                    best = float(excess[j]), (i, j)
        return None if best is None else best[1]


def _chord(bottom: float, top: float) -> tuple[float, float]:
    """Slope and intercept of the line above max(z, 0) on [bottom, top]."""
    if bottom >= 0.0 or top <= 0.0:
        return float(bottom >= 0.0), 0.0
    slope = top / (top - bottom)
    return slope, -slope * bottom
