"""The last word, one point at a time and in integers: what `holdfast.checker` makes of a proposal is what counts.

Interval bounds settle networks of up to one hidden layer. Deeper ones are cut into cases: HiGHS proposes multipliers of
a case, or a counter-model; the checker's arithmetic says what the multipliers prove, and a replay whether the
counter-model is one. A case that stays open is split at the neuron that the program's solution believes least.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast import checker
from holdfast._arrays import to_numpy
from holdfast._classifier import Classifier
from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._files import Document
from holdfast._network import Floats, Network, Pair, Values
from holdfast._tree_document import tree_document
from holdfast._trees import TreeEnsemble
from holdfast.bounds._layers import Layers, Margin, margins_for
from holdfast.changes import PlausibleChanges
from holdfast.importers._model import as_network
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

# A certificate, a part of one, a network: objects of JSON.
_Branch = tuple[Values, Values, Values]


class NoProofError(checker.CheckError):
    """There is no proof, or none in a form that the checker takes."""


def parameters(classifier: Classifier) -> Document:
    """A network, or trees, as an object of JSON."""
    if isinstance(classifier, TreeEnsemble):
        return tree_document(classifier)
    network = as_network(classifier)
    return {
        "format": "holdfast-network",
        "version": 1,
        "classes": network.classes.tolist(),
        "activations": list(network.activations),
        "weights": [*map(np.ndarray.tolist, network.weights)],
        "biases": [*map(np.ndarray.tolist, network.biases)],
    }


def plain_model(classifier: Classifier) -> Any:
    """A network, or trees, as the checker reads them."""
    model = classifier if isinstance(classifier, TreeEnsemble) else as_network(classifier)
    # Equal models may differ in the types of their classes, and with that in the names.
    return _plain_model(model, checker.canonical(model.classes.tolist()))


@lru_cache(maxsize=8)
def _plain_model(model: Network | TreeEnsemble, _: str) -> Any:
    if isinstance(model, Network):
        return checker.PlainModel.read(parameters(model))
    # As a file would have it.
    return checker.PlainTrees(json.loads(checker.canonical(parameters(model))))


class Exact:
    """One margin at one point under the box `changes`."""

    def __init__(
        self, network: Network, changes: PlausibleChanges, layers: Layers, margin: Margin, x: Floats
    ) -> None:
        self.network = network
        self.changes = changes
        self.margin = margin
        self.x = x
        # Whatever device the engine works on, programs are written here.
        self.layers = layers.on(to_numpy)
        # A lone logit is class 1's, and class 0 is -1 in its margins.
        alone = int(network.n_outputs == 1)
        target = margin.above + alone
        self.rival = margin.below + alone
        model = plain_model(network)
        read = checker.read_changes(changes.to_dict(), model)
        self.question = checker.Question(model, read, x.tolist(), target)
        self.visited = 0

    def settle(self, deadline: Deadline, max_cases: int = MAX_CASES) -> Document | Floats | None:
        """The part of a certificate that proves the margin, or the sides of a counter-model.

        Neither where no counter-model can be represented, or time is up.
        """
        part = self._by_bound()
        if part is not None:
            return part
        chosen = np.zeros(0)
        if self.layers.hidden:
            chosen = attack(self.layers, self.x[None, :], rounds=4)[1][0].astype(np.float64)
        if self._breaks(chosen):
            return chosen
        return self._by_cases(deadline, max_cases, []) if len(self.layers.hidden) > 1 else None

    def proof(self, branches: list[_Branch], max_cases: int) -> Document:
        """The part of a certificate for a margin that is proven: by closed branches of a search, if there are any."""
        proven: Document | Floats | None = self._by_bound()
        if proven is None and branches:
            proven = self._by_cases(NO_LIMIT, max_cases, branches)
        elif proven is None:
            proven = self.settle(NO_LIMIT, max_cases)
        if not isinstance(proven, dict):
            raise NoProofError(
                f"a proof takes more than {max_cases} cases; max_cases= allows more, unless what proves it has "
                "no form for the checker"
            )
        return proven

    def _by_bound(self) -> Document | None:
        for method in ("interval", "ball")[: 1 + (self.changes.norm in (1.0, 2.0))]:
            part = self._with_bound(method=method)
            if part is not None:
                return part
        return None

    def _by_cases(
        self, deadline: Deadline, max_cases: int, branches: list[_Branch]
    ) -> Document | Floats | None:
        tree = self._tree(self.question.ranges, deadline, max_cases, branches)
        return self._with_bound(method="cases", tree=tree) if isinstance(tree, dict) else tree

    def _with_bound(self, **part: Any) -> Document | None:
        """A part with what it proves, if that is enough."""
        part = {"rival": self.rival, **part}
        bound = self.question.bound(part)
        enough = self.question.suffices(self.rival, bound)
        return {**part, "bound": checker.float_below(bound)} if enough else None

    def leaf(self, case: checker.Ranges, lower: Values, upper: Values) -> Document | None:
        """The leaf that multipliers for all later neurons make, in the coarsest units in which they prove the case."""
        rows = self.question.margin(self.rival)
        cuts = np.cumsum(self.network.hidden[1:])[:-1]
        below, above = (np.split(part.astype(np.float64), cuts) for part in (lower, upper))
        for lines, unit in _in_whole_numbers(list(zip(below, above, strict=True))):
            if self.question.suffices(self.rival, self.question.least(*rows, case, lines, unit)):
                low, high = map(list, zip(*lines, strict=True))
                return {"lower": low, "upper": high, "denominator": unit}
        return None

    def _breaks(self, chosen: Floats) -> bool:
        radii = self.changes.layer_radii(self.network)
        witness = build_witness(self.network, radii, self.margin, self.x, chosen)
        return flips(witness, self.margin, self.x)

    def _tree(
        self,
        case: checker.Ranges,
        deadline: Deadline,
        max_cases: int,
        branches: list[_Branch],
    ) -> Document | Floats | None:
        """The tree that proves a case, the sides that break the margin, or None.

        Closed branches of a search say where to split; below them, or without them, programs do.
        """
        halves: list[list[_Branch]] = [[], []]
        if len(branches) > 1:
            (i, j), halves = self._first_split(branches)
        else:
            self.visited += 1
            if deadline.over or self.visited > max_cases:
                return None
            leaf = self.leaf(case, *branches[0][1:]) if branches else None
            # A bound that rounding the multipliers has spoilt is found again by a program.
            answer = self.proposed(case) if leaf is None else leaf
            if not isinstance(answer, tuple):
                return answer
            i, j = answer
        bottom, top = case[i][j]
        if not bottom < 0 < top:
            # In whole numbers the range is a hair narrower, and only one of the cases is left.
            return self._tree(case, deadline, max_cases, halves[bottom >= 0])
        node: Document = {"split": [i, j]}
        ends = ("below", (bottom, 0)), ("above", (0, top))
        for (name, range_), half in zip(ends, halves, strict=True):
            cut = [list(layer) for layer in case]
            cut[i][j] = range_
            branch = self._tree(cut, deadline, max_cases, half)
            if not isinstance(branch, dict):
                return branch
            node[name] = branch
        return node

    def _first_split(self, branches: list[_Branch]) -> tuple[tuple[int, int], list[list[_Branch]]]:
        """A neuron that all branches decide, and the branches below and above 0, for which it is decided now."""
        decided = np.stack([branch[0] for branch in branches])
        neuron = int((decided != 0).all(axis=0).argmax())
        here = np.arange(decided.shape[1]) == neuron
        halves = [
            [
                (np.where(here, 0, branch[0]), *branch[1:])
                for branch in branches
                if branch[0][neuron] == side
            ]
            for side in (-1, 1)
        ]
        sizes = enumerate(self.network.hidden)
        return [(i, j) for i, size in sizes if i for j in range(size)][neuron], halves

    def proposed(self, case: checker.Ranges) -> Document | Floats | tuple[int, int] | None:
        """What a program makes of a case: the leaf that proves it, sides that break the margin, or where to split."""
        one = 1 << self.question.fine
        ranges = [np.array([(bottom / one, top / one) for bottom, top in layer]) for layer in case]
        solved = propose(self.layers, ranges)
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
            if self._breaks(option):
                return option
        return solved.loosest

    def _at_worst(self, chosen: Floats) -> Floats:
        """The same with the last hidden layer on the sides that its output row asks for."""
        row = self.layers.margin.ends[0][0]
        return np.concatenate(
            [chosen[: chosen.shape[0] - row.shape[0]], np.where(row > 0.0, -1.0, 1.0)]
        )


def _in_whole_numbers(layers: list[Pair]) -> Iterator[tuple[checker.Lines, int]]:
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
    engine: Engine, outcome: Outcome, row: int, x: Floats, target: int, max_cases: int
) -> list[Any]:
    """The parts of the row's proof; NoProofError where the checker knows no form for what proved it."""
    parts = []
    for margin in margins_for(engine.network, target):
        layers = Layers.of(engine.network, engine.box, margin)
        exact = Exact(engine.network, engine.changes, layers, margin, x)
        known = outcome.trees.get((row, margin.above, margin.below))
        parts.append(known or exact.proof(outcome.branches(row, margin), max_cases))
    return parts
