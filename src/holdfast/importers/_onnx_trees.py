"""ONNX's tree operators: numbers in float32 or float64, as the file has them, summed by a runtime in its own order.

true iff    x <= value, x < value, x > value or x >= value; a value that is missing is true iff the node says so
sums        what a runtime computes lies within `Forest.rounding` of ours: its threads add in any order
labels      of two classes onnxruntime compares the sum with 1/2 where no weight is negative, else with 0; of several
            the greatest sum wins
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from holdfast.importers._chain import Chain
from holdfast.importers._onnx_leaves import MODES, Grown, WeighedNodes
from holdfast.importers._onnx_operators import AfterScores, Node, Value, class_labels


def classifier(node: Node) -> tuple[AfterScores, AfterScores]:
    """Weights of classes in the leaves, and labels."""
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
        raise node.refused("expected a score for every class in every row, got leaves without")
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
    """Of two classes the score that onnxruntime compares with 0, with the place that it has in the weights."""
    weights, given = leaves.weights, leaves.given
    used = np.flatnonzero(given.any(axis=0)).tolist()
    if transform == b"SOFTMAX":
        raise node.refused("expected post_transform NONE or LOGISTIC for two classes, got SOFTMAX")
    if used == [0, 1]:
        mirrored = (weights[:, 0] == -weights[:, 1]).all() and not base.size
        # onnxruntime then answers 0 and 1, whatever the labels are.
        if not mirrored or (labels.dtype.kind == "i" and labels.tolist() != [0, 1]):
            raise node.refused(
                "expected one score for two classes, or two that are each other's negative for the labels 0 and 1, "
                "got two scores"
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
    """Weights of targets in the leaves; what follows makes classes of them."""
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
    """Version 5 of the operator: leaves in lists of their own. Its trees are written as those of a regressor."""
    given = node.attributes
    how = {0: b"AVERAGE", 1: b"SUM"}.get(given.get("aggregate_function", 1), b"MIN or MAX")
    if given.get("post_transform", 0) != 0:
        raise node.refused("expected post_transform NONE, got another")
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
        raise node.refused("expected trees, each node and leaf below one other") from error
    columns = np.array(rows, dtype=object).reshape(-1, len(_NODES)).T.tolist()
    parts: dict[str, Any] = {f"nodes_{name}": part for name, part in zip(_NODES, columns, strict=True)}
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
