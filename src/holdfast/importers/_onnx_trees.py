"""ONNX's tree operators: float32 or float64 numbers as in the file, summed by a runtime in any order.

true iff    x <= value, x < value, x > value or x >= value; for a missing value as the node's attribute states
sums        the runtime's result is within `Forest.rounding` of ours: its threads add in any order
labels      two classes: onnxruntime compares the sum with 1/2 if no weight is negative, otherwise with 0; several:
            the greatest sum wins
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from holdfast._forest import Forest
from holdfast._trees import Votes
from holdfast.errors import UnsupportedModelError
from holdfast.importers._chain import DOUBLE, SINGLE, Chain, Squash
from holdfast.importers._model import Model
from holdfast.importers._onnx_operators import AfterScores, Node, Value, class_labels
from holdfast.importers._tree_parts import Tree, forest_of, tree_model

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
    """Trees on the model's own input, followed at most by a sigmoid or a softmax."""

    forest: Forest | None = None
    odds: bool = False

    def squash(self, name: str, kind: Squash) -> Chain:
        """Mark the scores as log-odds of probabilities."""
        return replace(super().squash(name, kind), odds=True)  # type: ignore[call-arg]

    def _check(self, name: str, **options: Any) -> None:
        if self.squashed or not options.get("ending"):
            raise UnsupportedModelError(f"{name}: expected labels or probabilities after trees")

    def model(self) -> Model:
        """The finished model."""
        assert self.forest is not None
        labels = range(max(2, self.forest.n_outputs)) if self.classes is None else self.classes
        band = _BAND if self.odds and self.squashed else 0.0
        votes = Votes(self.forest, odds=self.odds, band=band)
        return tree_model(votes, np.asarray(labels).tolist())


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
            raise node.refused(
                "the attributes of the nodes have different lengths; expected one entry for each node"
            )
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
            raise self.node.refused(f"expected finite numbers in {name}, got NaN or infinity")
        return values

    def _sides(self, modes: list[Any], true: Any, false: Any) -> None:
        """Find the children of each node by their places; the lower side is the left child."""
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
            raise self.node.refused(
                "expected trees, the root of each first, got a graph that is not a tree"
            )

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
            raise self.node.refused("expected weights at every leaf, at most one for each output")
        self.weights = np.zeros((self.size, outputs))
        self.weights[at, targets] = weights
        self.given = np.zeros((self.size, outputs), dtype=np.bool_)
        self.given[at, targets] = True

    @property
    def complete(self) -> bool:
        """True if every row has a score for every output: some tree has a score in each of its leaves."""
        bare = np.add.reduceat(self.leaf[:, None] & ~self.given, self.starts, axis=0)
        return bool((bare == 0).any(axis=0).all())

    def forest(self, weights: Any, base: Any, divisor: float = 1.0) -> Forest:
        """The trees, with these weights at their leaves."""
        node, double = self.node, self.node.chain.kind == DOUBLE
        if not (double or self.single):
            raise node.refused("expected an input of float64 for values of float64, got float32")
        largest = int(self.feature[~self.leaf].max(initial=0)) + 1
        width = self.width or largest
        if width < largest or (self.feature[~self.leaf] < 0).any():
            raise node.refused(f"expected columns among {width}, got number {largest - 1}")
        # Where each tree adds to one output alone, its leaves are single numbers.
        adds = np.logical_or.reduceat(weights != 0.0, self.starts, axis=0)
        alone = bool((adds.sum(axis=1) <= 1).all())
        trees = []
        for number, (begin, end) in enumerate(pairwise([*self.starts.tolist(), self.size])):
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
            raise node.refused("expected trees, got nodes that no root reaches")
        return forest


# ------------------------------------------------------------------ operators


def classifier(node: Node) -> tuple[AfterScores, AfterScores]:
    """Read weights of classes in the leaves, and labels."""
    labels = class_labels(node, "classlabels_int64s")
    transform = node.transform()
    if len(labels) < 2:
        raise node.refused(f"expected at least two classes, got {labels.tolist()}")
    leaves = WeighedNodes(node, "class", len(labels))
    weights, base = leaves.weights, leaves.numbers("base_values")
    odds = transform == b"SOFTMAX"
    if len(labels) == 2:
        weights, base = _one_score(node, leaves, labels, base, transform)
        odds = transform == b"LOGISTIC"
    elif base.size not in (0, len(labels)):
        raise node.refused(f"expected base_values for {len(labels)} classes, got {base.size}")
    elif not (base.size or leaves.complete or (weights[leaves.given] > 0.0).all()):
        raise node.refused(
            "some leaves have no score for a class; expected a score for every class"
        )
    chain = Grown(
        forest=leaves.forest(weights, base),
        width=weights.shape[1],
        classes=labels,
        # The label is the highest of the raw scores, so no transform of them matters.
        odds=odds,
    )
    return AfterScores("labels", chain), AfterScores("scores", chain)


def _one_score(
    node: Node, leaves: WeighedNodes, labels: Any, base: Any, transform: bytes
) -> tuple[Any, Any]:
    """The score of two classes that onnxruntime compares with 0, and its place in the weights."""
    weights, given = leaves.weights, leaves.given
    used = np.flatnonzero(given.any(axis=0)).tolist()
    if transform == b"SOFTMAX":
        raise node.refused("expected post_transform NONE or LOGISTIC for two classes, got SOFTMAX")
    if used == [0, 1]:
        mirrored = (weights[:, 0] == -weights[:, 1]).all() and not base.size
        # onnxruntime then answers 0 and 1, whatever the labels are.
        if not mirrored or (labels.dtype.kind == "i" and labels.tolist() != [0, 1]):
            raise node.refused(
                "expected one score for two classes, or two scores of which one is the negative of the other, for the "
                "labels 0 and 1; got two scores"
            )
        return weights[:, 1:], np.zeros(1)
    if used != [0] or base.size > 1:
        raise node.refused(
            f"expected one score for two classes, of class 0 by its number, and one base value at most, got the "
            f"classes {used} and {base.size} base values"
        )
    start = base if base.size else np.zeros(1)
    if (weights[given] < 0.0).any():
        return weights[:, :1], start
    if transform == b"LOGISTIC":
        raise node.refused(
            "expected some negative weight where post_transform is LOGISTIC, got none: onnxruntime then takes the sum "
            "for a probability when it decides, and for a logit when it writes probabilities"
        )
    return weights[:, :1], start - 0.5


def regressor(node: Node) -> Chain:
    """Read weights of targets in the leaves; later operators turn them into classes."""
    transform = node.attributes.get("post_transform", b"NONE")
    if transform != b"NONE":
        raise node.refused(
            f"expected post_transform NONE, got {transform.decode(errors='replace')}"
        )
    how = node.attributes.get("aggregate_function", b"SUM")
    targets = int(node.attributes.get("n_targets", 1))
    leaves = WeighedNodes(node, "target", targets)
    base = leaves.numbers("base_values")
    if how not in (b"SUM", b"AVERAGE") or (how == b"AVERAGE" and base.any()):
        raise node.refused(
            f"expected the SUM of trees, or their AVERAGE without base values, got "
            f"{how.decode(errors='replace')} and {base.size} base values"
        )
    if base.size not in (0, targets):
        raise node.refused(f"expected base_values for {targets} targets, got {base.size}")
    divisor = float(len(leaves.starts)) if how == b"AVERAGE" else 1.0
    return Grown(forest=leaves.forest(leaves.weights, base, divisor), width=targets)


# The attributes of a regressor's nodes, in the order of the rows below.
_NODES = (
    "treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids", "values_as_tensor",
    "missing_value_tracks_true",
)  # fmt: skip


def grouped(node: Node) -> Chain:
    """Read version 5 of the operator, with leaves in separate lists, as a regressor's trees."""
    given = node.attributes
    how = {0: b"AVERAGE", 1: b"SUM"}.get(given.get("aggregate_function", 1), b"MIN or MAX")
    if given.get("post_transform", 0) != 0:
        raise node.refused("expected post_transform NONE for this operator")
    modes = [*[*MODES][:2], b"BRANCH_GTE", b"BRANCH_GT", b"BRANCH_EQ", b"BRANCH_NEQ", b"MEMBER"]
    tracks = given.get("nodes_missing_value_tracks_true", [])
    splits, weights = given["nodes_splits"], given["leaf_weights"]
    rows: list[list[Any]] = []
    leaves: list[tuple[int, int, int]] = []
    try:
        for tree, root in enumerate(given["tree_roots"]):
            waiting, first = [(root, False, -1, 0)], len(rows)
            while waiting:
                place, leaf, parent, side = waiting.pop()
                if place < 0 or len(rows) > 2 * len(splits) + len(given["tree_roots"]):
                    raise IndexError
                here = len(rows) - first
                if parent >= 0:
                    rows[parent][side] = here
                if leaf:
                    leaves.append((tree, here, place))
                    rows.append([tree, here, 0, b"LEAF", 0, 0, 0.0, 0])
                    continue
                mode = modes[int(given["nodes_modes"][place])]
                asked = given["nodes_featureids"][place]
                missing = tracks[place] if len(tracks) else 0
                rows.append([tree, here, asked, mode, 0, 0, splits[place], missing])
                for side, name in ((5, "false"), (4, "true")):
                    below = given[f"nodes_{name}nodeids"][place]
                    ends = bool(given[f"nodes_{name}leafs"][place])
                    waiting.append((below, ends, len(rows) - 1, side))
    except IndexError as error:
        raise node.refused(
            "expected trees, with each node and leaf below exactly one other"
        ) from error
    columns = np.array(rows, dtype=object).reshape(-1, len(_NODES)).T.tolist()
    parts: dict[str, Any] = {
        f"nodes_{name}": part for name, part in zip(_NODES, columns, strict=True)
    }
    parts["nodes_values_as_tensor"] = np.array(parts["nodes_values_as_tensor"], splits.dtype)
    tree_ids, node_ids, places = np.array(leaves, dtype=np.int64).reshape(-1, 3).T
    parts |= {
        "target_treeids": tree_ids,
        "target_nodeids": node_ids,
        "target_ids": np.array(given["leaf_targetids"])[places],
        "target_weights_as_tensor": weights[places],
        "n_targets": given.get("n_targets", 1),
        "aggregate_function": how,
    }
    return regressor(replace(node, attributes=parts))


OPERATORS: dict[str, Callable[[Node], Value | tuple[Value, ...]]] = {
    "TreeEnsembleClassifier": classifier,
    "TreeEnsembleRegressor": regressor,
    "TreeEnsemble": grouped,
}
