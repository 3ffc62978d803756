"""The nodes of an ONNX tree operator as a forest, and the chain that they end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast._forest import Forest
from holdfast._trees import TreeEnsemble, Votes
from holdfast.errors import UnsupportedModelError
from holdfast.importers._chain import DOUBLE, SINGLE, Chain, Squash
from holdfast.importers._onnx_operators import Node
from holdfast.importers._tree_parts import Tree, ensemble, forest_of

# How each mode sends a number to its true side: whether that is the lower one, and whether it ends before the value.
MODES = {
    b"BRANCH_LEQ": (True, False),
    b"BRANCH_LT": (True, True),
    b"BRANCH_GT": (False, False),
    b"BRANCH_GTE": (False, True),
}
# A runtime's softmax or sigmoid in float32 may round margins that are this near to each other to a tie.
_BAND = 2.0**-20


@dataclass(frozen=True, eq=False)
class Grown(Chain):
    """Trees on the model's own input: nothing but a sigmoid or a softmax may follow them."""

    forest: Forest | None = None
    odds: bool = False

    def squash(self, name: str, kind: Squash) -> Chain:
        """The scores are then the log-odds of probabilities."""
        return replace(super().squash(name, kind), odds=True)  # type: ignore[call-arg]

    def _check(self, name: str, **options: Any) -> None:
        if self.squashed or not options.get("ending"):
            raise UnsupportedModelError(f"{name}: expected labels or probabilities after trees")

    def trees(self) -> TreeEnsemble:
        """The finished model."""
        assert self.forest is not None
        labels = range(max(2, self.forest.n_outputs)) if self.classes is None else self.classes
        band = _BAND if self.odds and self.squashed else 0.0
        votes = Votes(self.forest, odds=self.odds, band=band)
        return ensemble(votes, np.asarray(labels).tolist())


class WeighedNodes:
    """The nodes of an operator, tree by tree, and the weights at its leaves, (nodes, outputs)."""

    def __init__(self, node: Node, what: str, outputs: int) -> None:
        self.node, self.what, self.single = node, what, True
        chain = node.chain
        if chain.affines or chain.folding or isinstance(chain, Grown) or not chain.flat:
            raise node.refused("expected trees on the model's own input")
        if chain.kind not in (SINGLE, DOUBLE):
            raise node.refused("expected an input of float32 or float64 numbers")
        self.width = chain.width
        self.tree, self.id, self.feature, true, false = (
            self._whole(f"nodes_{name}")
            for name in ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")
        )
        self.size = self.tree.size
        self.values = self.numbers("nodes_values")
        modes = list(node.attributes.get("nodes_modes", []))
        sizes = {self.size, self.id.size, self.feature.size, true.size, false.size}
        if sizes != {len(modes)} or self.values.size != self.size or not modes:
            raise node.refused("expected as many entries for each node, got other numbers of them")
        self.place = {key: at for at, key in enumerate(zip(self.tree, self.id, strict=True))}
        self.leaf = np.array([mode == b"LEAF" for mode in modes])
        self._sides(modes, true, false)
        self._weigh(outputs)

    def _whole(self, name: str) -> Any:
        return np.array(self.node.attributes.get(name, []), dtype=np.int64)

    def numbers(self, name: str) -> Any:
        """An attribute of float32 numbers, or of a tensor of float64 numbers."""
        tensor = self.node.attributes.get(f"{name}_as_tensor")
        self.single = self.single and (tensor is None or tensor.dtype == np.float32)
        given = self.node.attributes.get(name, []) if tensor is None else tensor
        values = np.array(given, dtype=np.float64).ravel()
        # Below infinity is every number: such a node asks for what is missing alone.
        if np.isnan(values).any() or (name != "nodes_values" and np.isinf(values).any()):
            raise self.node.refused(f"expected finite numbers in {name}, got others")
        return values

    def _sides(self, modes: list[Any], true: Any, false: Any) -> None:
        """Which node is below which, by its place; the lower side is the left one."""
        unknown = sorted({mode for mode in modes if mode != b"LEAF"} - {*MODES})
        if unknown:
            raise self.node.refused(
                f"expected the modes {', '.join(mode.decode() for mode in MODES)}, got "
                f"{unknown[0].decode(errors='replace')}"
            )
        lower, strict = (
            np.array([MODES.get(mode, (True, False))[part] for mode in modes]) for part in (0, 1)
        )
        inner = ~self.leaf
        if np.unique(strict[inner]).size > 1:
            raise self.node.refused(
                "expected one kind of comparison, <= and > or < and >=, got both"
            )
        self.strict = bool(strict[inner].any())
        place = self.place
        below = [
            [place.get((tree, child), -1) for tree, child in zip(self.tree, side, strict=True)]
            for side in (true, false)
        ]
        self.left = np.where(lower, below[0], below[1])
        self.right = np.where(lower, below[1], below[0])
        tracks = self._whole("nodes_missing_value_tracks_true")
        if tracks.size not in (0, self.size):
            raise self.node.refused("expected nodes_missing_value_tracks_true for every node")
        self.missing_left = lower == (tracks == 1 if tracks.size else np.zeros(self.size, np.bool_))
        starts = np.flatnonzero(np.append(True, self.tree[1:] != self.tree[:-1]))
        self.starts = starts
        children = np.concatenate([self.left[inner], self.right[inner]])
        # Every node but the roots is below exactly one other, and each tree stands in one piece.
        expected = np.delete(np.arange(self.size), starts)
        if (
            len(place) != self.size
            or np.unique(self.tree).size != starts.size
            or not np.array_equal(np.sort(children), expected)
        ):
            raise self.node.refused("expected trees, the root of each first, got other graphs")

    def _weigh(self, outputs: int) -> None:
        trees, ids, targets = (
            self._whole(f"{self.what}_{name}") for name in ("treeids", "nodeids", "ids")
        )
        weights = self.numbers(f"{self.what}_weights")
        at = np.array(
            [self.place.get(key, -1) for key in zip(trees, ids, strict=True)], dtype=np.int64
        )
        if (
            not trees.size == ids.size == targets.size == weights.size
            or (at < 0).any()
            or not self.leaf[at].all()
            or not ((targets >= 0) & (targets < outputs)).all()
            or np.unique(at * outputs + targets).size != at.size
            or not np.isin(np.flatnonzero(self.leaf), at).all()
        ):
            raise self.node.refused(
                "expected weights at every leaf, one for each output at most, got others"
            )
        self.weights = np.zeros((self.size, outputs))
        self.weights[at, targets] = weights
        self.given = np.zeros((self.size, outputs), dtype=np.bool_)
        self.given[at, targets] = True

    @property
    def complete(self) -> bool:
        """Whether every row has a score for every output: some tree has one in all its leaves."""
        bare = np.add.reduceat(self.leaf[:, None] & ~self.given, self.starts, axis=0)
        return bool((bare == 0).any(axis=0).all())

    def forest(self, weights: Any, base: Any, divisor: float = 1.0) -> Forest:
        """The trees, with these weights at their leaves."""
        node, double = self.node, self.node.chain.kind == DOUBLE
        if not (double or self.single):
            raise node.refused("expected an input of float64 for values of float64, got float32")
        ends = [*self.starts.tolist()[1:], self.size]
        largest = int(self.feature[~self.leaf].max(initial=0)) + 1
        width = self.width or largest
        if width < largest or (self.feature[~self.leaf] < 0).any():
            raise node.refused(f"expected columns among {width}, got number {largest - 1}")
        # Where each tree adds to one output alone, its leaves are single numbers.
        adds = np.logical_or.reduceat(weights != 0.0, self.starts, axis=0)
        alone = bool((adds.sum(axis=1) <= 1).all())
        trees = []
        for number, (begin, end) in enumerate(zip(self.starts.tolist(), ends, strict=True)):
            own = slice(begin, end)
            output = int(adds[number].argmax()) if alone else 0
            trees.append(
                Tree(
                    feature=np.where(self.leaf, -1, self.feature)[own],
                    left=self.left[own] - begin,
                    right=self.right[own] - begin,
                    missing_left=self.missing_left[own],
                    values=weights[own, output] if alone else weights[own],
                    threshold=self.values[own],
                    output=output,
                )
            )
        forest = forest_of(
            trees,
            base if base.size else np.zeros(weights.shape[1]),
            width,
            single=self.single,
            divisor=divisor,
            ordered=False,
            compare=f"float{64 if double else 32} <{'' if self.strict else '='}",
        )
        if (forest.tree_of < 0).any():
            raise node.refused("expected trees, got nodes that no root leads to")
        return forest
