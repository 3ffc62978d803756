"""The last word, one point at a time and in integers: what `holdfast.checker` makes of a proposal is what counts.

Interval bounds settle networks of up to one hidden layer. Deeper ones are cut into cases: HiGHS proposes multipliers of
a case, or a counter-model; the checker's arithmetic says what the multipliers prove, and a replay whether the
counter-model is one. A case that stays open is split at the neuron that the program's solution believes least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checker
from holdfast._arrays import to_numpy
from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._network import Floats, Network
from holdfast.bounds._layers import Layers, Margin, margins_for
from holdfast.changes import PlausibleChanges
from holdfast.verify._attack import attack, sides
from holdfast.verify._program import propose
from holdfast.verify._verdict import Outcome
from holdfast.verify._witness import build_witness, flips

if TYPE_CHECKING:
    from holdfast.verify._engine import Engine

MAX_CASES = 500
# Multipliers of 16 bits are short to write down; where that is too coarse, about as fine as a float, or finer.
_BITS = (16, 48, 80)
# Where a margin is exactly 0 only the fractions themselves will do, if they are short.
_SHORT, _LONGEST = 4096, 2**4096


_Branch = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


class NoProofError(checker.CheckError):
    """There is no proof, or none in a form that the checker takes."""


def checker_model(network: Network) -> checker.PlainModel:
    """A network as the checker reads it."""
    # Equal networks may differ in the types of their classes, and with that in the names.
    return _checker_model(network, checker.canonical(network.classes.tolist()))


@lru_cache(maxsize=8)
def _checker_model(network: Network, _: str) -> checker.PlainModel:
    return checker.PlainModel.read(parameters(network))


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


class Exact:
    """One margin at one point under the box `changes`."""

    def __init__(
        self, network: Network, changes: PlausibleChanges, layers: Layers, margin: Margin, x: Floats
    ) -> None:
        self.network, self.changes, self.margin, self.x = network, changes, margin, x
        # Whatever device the engine works on, programs are written here.
        self.layers = layers.on(to_numpy)
        # A lone logit is class 1's, and class 0 is -1 in its margins.
        alone = int(network.n_outputs == 1)
        target, self.rival = margin.above + alone, margin.below + alone
        model = checker_model(network)
        read = checker.read_changes(changes.to_dict(), model)
        self.question = checker.Question(model, read, x.tolist(), target)
        self.visited = 0

    def settle(
        self, deadline: Deadline, max_cases: int = MAX_CASES
    ) -> dict[str, Any] | Floats | None:
        """The part of a certificate that proves the margin, or the sides of a counter-model.

        Neither where no counter-model can be represented, or time is up.
        """
        part = self.with_bound({"rival": self.rival, "method": "interval"})
        if part is not None:
            return part
        chosen = (
            attack(self.layers, self.x[None, :], rounds=4)[1][0]
            if self.layers.hidden
            else np.zeros(0)
        )
        broken = self._breaks(chosen.astype(np.float64))
        if broken is not None or len(self.layers.hidden) < 2:
            return broken
        tree = self._tree(self.question.ranges, {}, deadline, max_cases)
        return (
            self.with_bound({"rival": self.rival, "method": "cases", "tree": tree})
            if isinstance(tree, dict)
            else tree
        )

    def tree_of(self, case: checker.Ranges, max_cases: int) -> dict[str, Any]:
        """A tree that proves a case, by programs."""
        tree = self._tree(case, {}, NO_LIMIT, self.visited + max_cases)
        if not isinstance(tree, dict):
            raise NoProofError(
                f"a proof takes more than {max_cases} cases, or there is none; max_cases= allows more"
            )
        return tree

    def with_bound(self, part: dict[str, Any]) -> dict[str, Any] | None:
        """A part with what it proves, if that is enough."""
        bound = self.question.bound(part)
        return (
            {**part, "bound": checker.float_below(bound)}
            if self.question.suffices(self.rival, bound)
            else None
        )

    def leaf(self, case: checker.Ranges, lower: Floats, upper: Floats) -> dict[str, Any] | None:
        """The leaf that multipliers for all later neurons make, in the coarsest units in which they prove the case."""
        cuts, rows = np.cumsum(self.network.hidden[1:])[:-1], self.question.margin(self.rival)
        for lines, unit in _in_whole_numbers(
            list(zip(np.split(lower, cuts), np.split(upper, cuts), strict=True))
        ):
            if self.question.suffices(self.rival, self.question.least(*rows, case, lines, unit)):
                below, above = map(list, zip(*lines, strict=True))
                return {"lower": below, "upper": above, "denominator": unit}
        return None

    def _breaks(self, chosen: Floats) -> Floats | None:
        radii = self.changes.layer_radii(self.network)
        witness = build_witness(self.network, radii, self.margin, self.x, chosen)
        return chosen if flips(witness, self.margin, self.x) else None

    def _tree(
        self,
        case: checker.Ranges,
        decided: dict[tuple[int, int], int],
        deadline: Deadline,
        max_cases: int,
    ) -> dict[str, Any] | Floats | None:
        """The tree that proves a case, the sides that break the margin, or None."""
        self.visited += 1
        if deadline.over or self.visited > max_cases:
            return None
        one = 1 << self.question.fine
        ranges = [np.array([(bottom / one, top / one) for bottom, top in layer]) for layer in case]
        solved = propose(self.layers, ranges, decided)
        if solved is None:
            return None
        leaf = self.leaf(case, solved.lower, solved.upper)
        if leaf is not None:
            return leaf
        points = self.x[None, :]
        # What a ReLU makes 0 may be as low as can be.
        low = (solved.values[0] <= 0.0) & self.layers.relus[0]
        corner = np.where(low, self.layers.hidden[0].sides(points)[0], solved.values[0])
        chosen = sides(self.layers, points, corner, np.concatenate(solved.sides)[None, :])[0]
        for option in (chosen, self._at_worst(chosen)):
            if self._breaks(option) is not None:
                return option
        if solved.loosest is None:
            return None
        i, j = solved.loosest
        bottom, top = case[i][j]
        node: dict[str, Any] = {"split": [i, j]}
        for name, side, ends in (("below", -1, (bottom, 0)), ("above", 1, (0, top))):
            branch = self._tree(
                narrowed(case, i, j, ends), {**decided, (i, j): side}, deadline, max_cases
            )
            if not isinstance(branch, dict):
                return branch
            node[name] = branch
        return node

    def _at_worst(self, chosen: Floats) -> Floats:
        """The same with the last hidden layer on the sides that its output row asks for."""
        row = self.layers.margin.ends[0][0]
        return np.concatenate(
            [chosen[: chosen.shape[0] - row.shape[0]], np.where(row > 0.0, -1.0, 1.0)]
        )


def narrowed(case: checker.Ranges, i: int, j: int, ends: tuple[int, int]) -> checker.Ranges:
    """A case with another range for one neuron."""
    cut = [list(layer) for layer in case]
    cut[i][j] = ends
    return cut


def _in_whole_numbers(layers: list[tuple[Floats, Floats]]) -> Iterator[tuple[checker.Lines, int]]:
    """The multipliers of each layer over one denominator, ever finer."""
    # A layer of small multipliers has as many bits as one of large ones.
    sizes = [float(np.abs(pair).max()) for pair in layers]
    finer = max(0, -math.frexp(min((size for size in sizes if size > 0.0), default=1.0))[1])
    for bits in (finer + bits for bits in _BITS):
        yield (
            [
                (
                    [math.floor(math.ldexp(v, bits)) for v in a.tolist()],
                    [round(math.ldexp(v, bits)) for v in b.tolist()],
                )
                for a, b in layers
            ],
            2**bits,
        )
    exact = [
        [[Fraction(float(v)).limit_denominator(_SHORT) for v in part] for part in pair]
        for pair in layers
    ]
    unit = math.lcm(*(value.denominator for pair in exact for part in pair for value in part))
    if unit < _LONGEST:
        yield [([int(v * unit) for v in a], [int(v * unit) for v in b]) for a, b in exact], unit


def proof(
    engine: Engine, outcome: Outcome, row: int, x: NDArray[np.float64], target: int, max_cases: int
) -> list[Any]:
    """The parts of the row's proof; NoProofError where the checker knows no form for what proved it."""
    parts = []
    for margin in margins_for(engine.network, target):
        layers = Layers.of(engine.network, engine.box, margin)
        exact = Exact(engine.network, engine.changes, layers, margin, x)
        known = outcome.trees.get((row, margin.above, margin.below))
        parts.append(known or _part(exact, outcome.branches(row, margin), max_cases))
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
    proven = exact.settle(NO_LIMIT, max_cases)
    if not isinstance(proven, dict):
        raise NoProofError(
            f"what proves it takes more than {max_cases} cases (max_cases= allows more) or has no form for the checker"
        )
    return proven


def _tree(
    exact: Exact, branches: list[_Branch], case: checker.Ranges, max_cases: int
) -> dict[str, Any]:
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
        [
            (np.where(here, 0, branch[0]), *branch[1:])
            for branch in branches
            if branch[0][neuron] == side
        ]
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
