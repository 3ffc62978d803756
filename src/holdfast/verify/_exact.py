"""The last stage, one point at a time and in integers; the verdict is that of `holdfast.checker`.

Interval bounds settle networks of up to one hidden layer. Deeper networks are cut into cases. For each case HiGHS
proposes multipliers or a counter-model; the checker's arithmetic evaluates the multipliers, and a replay the
counter-model. An open case is split at the neuron with the largest error in the program's solution.
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
from holdfast._classifier import Classifier
from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._files import Document
from holdfast._network import Floats, Network, Values
from holdfast._tree_document import tree_document
from holdfast._trees import TreeEnsemble
from holdfast.bounds._balls import leaf
from holdfast.bounds._layers import Layers, Margin
from holdfast.importers._model import as_network
from holdfast.verify._attack import attack, sides
from holdfast.verify._program import propose
from holdfast.verify._witness import build_witness, flips

if TYPE_CHECKING:
    from holdfast.verify._engine import Engine

# Multipliers of 16 bits are short to write down; where that is too coarse, about as fine as a float, or finer.
_BITS = (16, 48, 80)
# Where a margin is exactly 0 only the fractions themselves will do, if they are short.
_SHORT, _LONGEST = 4096, 2**4096


class NoProofError(checker.CheckError):
    """No proof exists, or none in a form that the checker reads."""


def parameters(classifier: Classifier) -> Document:
    """A network, or trees, as a JSON object."""
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
    """One margin at one point, against every network that an engine's changes allow."""

    def __init__(
        self,
        engine: Engine,
        margin: Margin,
        x: Floats,
        *,
        deadline: Deadline = NO_LIMIT,
        max_cases: int = 500,
    ) -> None:
        self.engine, self.margin, self.x = engine, margin, x
        self.deadline, self.max_cases, self.visited = deadline, max_cases, 0
        # Whatever device the engine works on, programs are written here.
        self.layers = Layers.of(engine.network, engine.box, margin)
        # A lone logit is class 1's, and class 0 is -1 in its margins.
        alone = int(engine.network.n_outputs == 1)
        self.rival = margin.below + alone
        model = plain_model(engine.network)
        changes = checker.read_changes(engine.changes.to_dict(), model)
        self.question = checker.Question(model, changes, x.tolist(), margin.above + alone)

    def settle(self) -> Document | Floats | None:
        """The part of a certificate that proves the margin, the sides of a counter-model, or None.

        None if floats cannot represent a counter-model, or the time is over.
        """
        part = self._by_bound()
        if part is not None:
            return part
        chosen = np.zeros(0)
        if self.layers.hidden:
            (chosen,) = attack(self.layers, self.x[None, :], rounds=4)[1]
        return chosen if self._breaks(chosen) else self._by_cases([])

    def proof(self, branches: list[Values], tree: Document | None = None) -> Document:
        """The part of a certificate for a proven margin; uses the closed branches of a search, if given.

        `tree` says how a ball was cut.
        """
        proven = self._by_bound(tree) or (self._by_cases(branches) if branches else self.settle())
        if not isinstance(proven, dict):
            raise NoProofError(
                f"the proof needs more than {self.max_cases} cases, or has no form that the checker reads; "
                "a larger max_cases= helps only in the first case"
            )
        return proven

    def _by_bound(self, tree: Document | None = None) -> Document | None:
        part, engine = self._with_bound(method="interval"), self.engine
        if part is None and engine.changes.norm in (1.0, 2.0):
            part = self._with_bound(method="ball") or self._with_bound(method="ball", tree={})
            if part is None:
                tree = tree or leaf(engine.network, engine.changes, self.x, self.margin)
                part = self._with_bound(method="ball", tree=tree)
        return part

    def _by_cases(self, branches: list[Values]) -> Document | Floats | None:
        if len(self.layers.hidden) < 2:
            return None
        tree = self._tree(self.question.ranges, branches or [np.zeros(0)] * 3)
        return self._with_bound(method="cases", tree=tree) if isinstance(tree, dict) else tree

    def _with_bound(self, **part: Any) -> Document | None:
        """The part with its proven bound, if the bound suffices."""
        part = {"rival": self.rival, **part}
        bound = self.question.bound(part)
        enough = self.question.suffices(self.rival, bound)
        return {**part, "bound": checker.float_below(bound)} if enough else None

    def _breaks(self, chosen: Floats) -> bool:
        engine = self.engine
        witness = build_witness(engine.network, engine.radii, self.margin, self.x, chosen)
        return flips(witness, self.margin, self.x)

    def _tree(self, case: checker.Ranges, branches: list[Values]) -> Document | Floats | None:
        """The tree that proves a case, the sides that break the margin, or None.

        Closed branches of a search (one row of each array for each branch) give the splits; below them, or without
        branches, linear programs do.
        """
        decided, lower, upper = branches
        if len(decided) > 1:
            neuron = int((decided != 0).all(axis=0).argmax())
            i, j = [(i, j) for i, layer in enumerate(case) if i for j in range(len(layer))][neuron]
            side, decided = decided[:, neuron], decided * (np.arange(decided.shape[1]) != neuron)
            below, above = (
                [part[side == sign] for part in (decided, lower, upper)] for sign in (-1, 1)
            )
        else:
            self.visited += 1
            if self.deadline.over or self.visited > self.max_cases:
                return None
            leaf = self.leaf(case, lower[0], upper[0]) if len(decided) else None
            # A bound that rounding the multipliers has spoilt is found again by a program.
            answer = self.proposed(case) if leaf is None else leaf
            if not isinstance(answer, tuple):
                return answer
            i, j = answer
            below = above = [part[:0] for part in branches]
        bottom, top = case[i][j]
        if not bottom < 0 < top:
            # In whole numbers the range is a hair narrower, and only one of the cases is left.
            return self._tree(case, above if bottom >= 0 else below)
        node: Document = {"split": [i, j]}
        for name, ends, half in (("below", (bottom, 0), below), ("above", (0, top), above)):
            cut = [list(layer) for layer in case]
            cut[i][j] = ends
            part = self._tree(cut, half)
            if not isinstance(part, dict):
                return part
            node[name] = part
        return node

    def leaf(self, case: checker.Ranges, lower: Values, upper: Values) -> Document | None:
        """The leaf from multipliers of all later neurons, in the coarsest units that prove the case."""
        rows = self.question.margin(self.rival)
        cuts = np.cumsum([len(layer) for layer in case[1:-1]], dtype=np.intp)
        both = np.stack([lower, upper]).astype(np.float64)
        for lines, unit in _in_whole_numbers(np.split(both, cuts, axis=1)):
            if self.question.suffices(self.rival, self.question.least(*rows, case, lines, unit)):
                low, high = map(list, zip(*lines, strict=True))
                return {"lower": low, "upper": high, "denominator": unit}
        return None

    def proposed(self, case: checker.Ranges) -> Document | Floats | tuple[int, int] | None:
        """The result of a program: a leaf that proves the case, sides that break the margin, or where to split."""
        one = 1 << self.question.fine
        ranges = [np.array([(bottom / one, top / one) for bottom, top in layer]) for layer in case]
        solved = propose(self.layers, ranges)
        if solved is None:
            return None
        leaf = self.leaf(case, solved.lower, solved.upper)
        if leaf is not None:
            return leaf
        points = self.x[None, :]
        (chosen,) = sides(self.layers, points, solved.first[None, :], solved.later[None, :])
        # The same with the last hidden layer on the sides that its output row asks for.
        row = self.layers.margin.ends[0][0]
        worst = np.append(chosen[: -row.size], np.where(row > 0.0, -1.0, 1.0))
        for option in (chosen, worst):
            if self._breaks(option):
                return option
        return solved.loosest


def _in_whole_numbers(layers: list[Floats]) -> Iterator[tuple[list[Any], int]]:
    """The multipliers of each layer over one denominator, finer each time."""
    # A layer of small multipliers has as many bits as one of large ones.
    sizes = [float(np.abs(layer).max()) for layer in layers]
    finer = max(0, -math.frexp(min((size for size in sizes if size > 0.0), default=1.0))[1])
    for bits in (finer + bits for bits in _BITS):
        # Of L no more than z⁺ has; of U what is nearest, which is exact where a margin is 0.
        yield (
            [
                [
                    [math.floor(math.ldexp(v, bits)) for v in lower.tolist()],
                    [round(math.ldexp(v, bits)) for v in upper.tolist()],
                ]
                for lower, upper in layers
            ],
            2**bits,
        )
    exact = [
        [[Fraction(v).limit_denominator(_SHORT) for v in side] for side in layer.tolist()]
        for layer in layers
    ]
    unit = math.lcm(*(value.denominator for layer in exact for side in layer for value in side))
    if unit < _LONGEST:
        yield [[[int(value * unit) for value in side] for side in layer] for layer in exact], unit
