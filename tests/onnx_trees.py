"""Graphs of ONNX tree operators, written by hand or by skl2onnx, and what onnxruntime makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

# A tree of depth two over two columns: nodes 0 and 1 ask, 2, 3 and 4 are leaves.
TREE = {"nodeids": [0, 1, 2, 3, 4], "truenodeids": [1, 2, 0, 0, 0], "falsenodeids": [4, 3, 0, 0, 0]}


def graph(
    weights: Any,
    thresholds: Any,
    *,
    mode: str = "BRANCH_LEQ",
    classes: Any = (0, 1),
    ids: Any = (0,),
    base: Any = None,
    post: str = "NONE",
    tracks: bool = False,
    double: bool = False,
    after: Any = (),
    **options: Any,
) -> Any:
    """So many trees as there are pairs of thresholds; `weights` (trees, 3, ids) at their leaves."""
    weights, n = np.asarray(weights, dtype=float), len(thresholds)
    what = "class" if classes is not None else "target"
    leaves = [(tree, node, k) for tree in range(n) for node in (2, 3, 4) for k in ids]
    parts: dict[str, Any] = {
        **{f"nodes_{name}": list(values) * n for name, values in TREE.items()},
        "nodes_treeids": [tree for tree in range(n) for _ in range(5)],
        "nodes_featureids": [0, 1, 0, 0, 0] * n,
        "nodes_modes": [mode, mode, "LEAF", "LEAF", "LEAF"] * n,
        **{
            f"{what}_{name}": [leaf[i] for leaf in leaves]
            for i, name in enumerate(("treeids", "nodeids", "ids"))
        },
        "post_transform": post,
        **options,
    }
    values = [number for pair in thresholds for number in (*pair, 0.0, 0.0, 0.0)]
    numbers = {"nodes_values": values, f"{what}_weights": weights.ravel().tolist()}
    if base is not None:
        numbers["base_values"] = list(base)
    for name, given in numbers.items():
        if double:
            tensor = helper.make_tensor(name, TensorProto.DOUBLE, [len(given)], given)
            parts[f"{name}_as_tensor"] = tensor
        else:
            parts[name] = given
    if tracks:
        parts["nodes_missing_value_tracks_true"] = [1, 0, 0, 0, 0] * n
    kind = TensorProto.DOUBLE if double else TensorProto.FLOAT
    if classes is None:
        outputs, op = ["scores"], "TreeEnsembleRegressor"
        parts.setdefault("n_targets", len(ids))
    else:
        outputs, op = ["label", "scores"], "TreeEnsembleClassifier"
        texts = isinstance(classes[0], str)
        parts["classlabels_strings" if texts else "classlabels_int64s"] = list(classes)
    nodes = [helper.make_node(op, ["X"], outputs, domain="ai.onnx.ml", **parts), *after]
    texts = classes is not None and isinstance(classes[0], str)
    label = helper.make_tensor_value_info(
        "label", TensorProto.STRING if texts else TensorProto.INT64, [None]
    )
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, None])
    X = helper.make_tensor_value_info("X", kind, [None, 2])
    made = helper.make_graph(nodes, "trees", [X], [label] if after else [label, scores])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(made, opset_imports=opsets, ir_version=8)


def run(proto: Any, X: np.ndarray) -> list[Any]:
    """What onnxruntime answers to these rows, rounded to what the graph takes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    given = session.get_inputs()[0]
    with np.errstate(over="ignore"):
        rows = X.astype(np.float64 if "double" in given.type else np.float32)
    return list(session.run(None, {given.name: rows}))


def odd_rows(X: np.ndarray, forest: Any) -> np.ndarray:
    """The rows, and rows at every threshold, at its neighbours in both precisions, and at what is odd."""
    rows = [X]
    with np.errstate(over="ignore"):
        rows += [_odd(X, forest, column) for column in range(X.shape[1])]
    return np.vstack(rows)


def _odd(X: np.ndarray, forest: Any, column: int) -> np.ndarray:
    asked = forest.feature == column
    ends = np.unique(np.append(forest.cut[asked], forest.threshold[asked]))
    ends = ends[np.isfinite(ends)][:60]
    near = ends.astype(np.float32)
    values = np.concatenate(
        [
            *(np.nextafter(ends, side) for side in (-np.inf, np.inf)),
            *(np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)),
            ends,
            near,
            [np.nan, -0.0, 0.0, 5e-324, -1e-45, 1e-40, 3.4e38, -3.5e38, 1e300, np.inf, -np.inf],
        ]
    )
    other = X[np.arange(values.size) % len(X)].copy()
    other[:, column] = values
    return other
