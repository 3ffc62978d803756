"""Trees in ONNX files: the rows go where onnxruntime sends them, and sums agree within the stated bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from skl2onnx import to_onnx
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import holdfast as hf
from holdfast.errors import UnsupportedModelError
from onnx_trees import graph, odd_rows, run
from tree_changes import changes_for, sampled

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)).round(2)
SCORE = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * RNG.normal(size=300)
NAMES = np.array(["a", "b", "c"])
FAMILIES = {
    "forest": RandomForestClassifier(20, max_depth=5, random_state=0),
    "extra": ExtraTreesClassifier(20, max_depth=5, random_state=0),
    "boosted": GradientBoostingClassifier(n_estimators=15, max_depth=3, random_state=0),
    "histogram": HistGradientBoostingClassifier(max_iter=15, max_depth=4, random_state=0),
    "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
}


@pytest.fixture(autouse=True)
def whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """skl2onnx writes some flags as booleans, which newer versions of onnx do not take for whole numbers."""
    make = helper.make_attribute

    def attribute(key: str, value: Any, *more: Any, **options: Any) -> Any:
        if isinstance(value, list):
            value = [int(v) if isinstance(v, bool | np.bool_) else v for v in value]
        return make(key, value, *more, **options)

    monkeypatch.setattr(helper, "make_attribute", attribute)


def fitted(name: str, classes: int) -> Any:
    y = NAMES[np.digitize(SCORE, [0.0] if classes == 2 else [-0.5, 0.5])]
    return FAMILIES[name].fit(X, y)


def agrees(proto: Any, rows: np.ndarray) -> hf.TreeEnsemble:
    """Labels are onnxruntime's, and so are the sums within the bound that certificates take off."""
    trees = hf.load_model(proto).classifier
    assert isinstance(trees, hf.TreeEnsemble)
    rows = odd_rows(rows, trees.forest)
    label, scores = run(proto, rows)
    sums = trees.forest.sums(trees.score.matrix(rows))
    ours = trees.score.logits(sums)
    error = 2.0 * trees.forest.rounding()
    np.testing.assert_array_equal(trees.classes[trees.winners(ours)].astype(str), label.astype(str))
    transform = next(
        a.s for a in proto.graph.node[0].attribute if a.name == "post_transform"
    )  # fmt: skip
    theirs = np.asarray(scores, dtype=np.float64)
    if not trees.forest.single:
        # Sums in float64 are written as float32.
        error = error + 2.0**-24 * np.abs(theirs).max()
    if transform == b"NONE":
        half = 0.5 if (sums.shape[1] == 1 and trees.forest.base[0] <= -0.4) else 0.0
        theirs = theirs[:, -sums.shape[1] :] - half
    else:
        # The probabilities are in float32 themselves.
        theirs, error = np.log(theirs), error + 1e-6
        theirs = theirs[:, [1]] - theirs[:, [0]] if sums.shape[1] == 1 else theirs - theirs[:, [0]]
        sums = sums if sums.shape[1] == 1 else sums - sums[:, [0]]
    assert (np.abs(theirs - sums) <= error).all()
    return trees


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", FAMILIES)
def test_what_skl2onnx_writes(name: str, classes: int, tmp_path: Path) -> None:
    model = fitted(name, classes)
    proto = to_onnx(model, X[:1].astype(np.float32), options={"zipmap": False})
    trees = agrees(proto, X)
    onnx.save(proto, tmp_path / "trees.onnx")
    assert hf.load_model(tmp_path / "trees.onnx").classifier.forest == trees.forest
    # The same trees as scikit-learn's own, but for float32.
    own = hf.load_model(model).classifier.forest
    assert trees.forest.n_trees == own.n_trees
    assert np.array_equal(trees.forest.feature, own.feature)


@pytest.mark.parametrize("name", ["forest", "boosted", "histogram"])
def test_no_verdict_is_false(name: str) -> None:
    rng, rows = np.random.default_rng(1), X[:40]
    proto = to_onnx(fitted(name, 3), X[:1].astype(np.float32), options={"zipmap": False})
    today = hf.load_model(proto).classifier
    for changes in changes_for(today.forest, rng):
        if isinstance(changes.thresholds, dict):
            changes = hf.TreeChanges(leaves=changes.leaves, thresholds={"1": 0.3})
        certs = hf.certify(proto, rows, "b", changes)
        for _ in range(8):
            other = sampled(today, changes, rng).predict(rows)
            assert (other == "b")[certs.robust].all()
        broken = np.flatnonzero([str(verdict) == "NOT_ROBUST" for verdict in certs.verdict])
        for row in broken[[0, -1]].tolist():
            assert certs.witness(row).predict(rows[[row]])[0] != "b"
            assert changes.shift or changes.contains(today, certs.witness(row))


PAIRS = RNG.normal(size=(4, 2)).astype(np.float32).astype(float)
WEIGHTS = RNG.normal(size=(4, 3, 1)) / 3


@pytest.mark.parametrize("tracks", [False, True])
@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE"])
def test_modes_and_what_is_missing(mode: str, tracks: bool) -> None:
    agrees(graph(WEIGHTS, PAIRS, mode=mode, tracks=tracks, base=[0.1], post="LOGISTIC"), X[:, :2])
    trees = agrees(graph(WEIGHTS, PAIRS + 1e-12, mode=mode, tracks=tracks, double=True), X[:, :2])
    assert trees.forest.compare.startswith("float64")
    assert not trees.forest.single


def test_conventions_of_classes() -> None:
    rows, shares = X[:, :2], np.abs(WEIGHTS)
    agrees(graph(shares, PAIRS), rows)
    agrees(graph(shares, PAIRS, base=[0.05], classes=("no", "yes")), rows)
    agrees(graph(WEIGHTS, PAIRS, classes=(5, 7)), rows)
    # What CatBoost writes: two scores that are each other's negative.
    agrees(graph(np.concatenate([-WEIGHTS, WEIGHTS], axis=2), PAIRS, ids=(0, 1)), rows)
    several = RNG.normal(size=(4, 3, 3))
    agrees(graph(several, PAIRS, ids=(0, 1, 2), classes=(3, 4, 5), post="SOFTMAX"), rows)
    agrees(
        graph(several, PAIRS, ids=(0, 1, 2), classes=NAMES.tolist(), base=[0.1, -0.2, 0.3]), rows
    )


def test_a_regressor_that_ends_in_classes() -> None:
    after = [
        helper.make_node("Sigmoid", ["scores"], ["p"]),
        helper.make_node("Constant", [], ["one"], value_floats=[1.0]),
        helper.make_node("Sub", ["one", "p"], ["q"]),
        helper.make_node("Concat", ["q", "p"], ["both"], axis=1),
        helper.make_node("ArgMax", ["both"], ["label"], axis=1, keepdims=0),
    ]
    proto = graph(WEIGHTS, PAIRS, classes=None, base=[-0.05], after=after)
    trees = hf.load_model(proto).classifier
    rows = odd_rows(X[:, :2], trees.forest)
    assert (trees.classes[trees.winners(trees.score(rows))] == run(proto, rows)[0]).all()
    mean = graph(
        RNG.normal(size=(4, 3, 3)), PAIRS, classes=None, ids=(0, 1, 2), aggregate_function="AVERAGE",
        after=[helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0)],
    )  # fmt: skip
    trees = hf.load_model(mean).classifier
    assert trees.forest.divisor == 4.0
    rows = odd_rows(X[:, :2], trees.forest)
    assert (trees.classes[trees.winners(trees.score(rows))] == run(mean, rows)[0]).all()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"mode": "BRANCH_EQ"}, "BRANCH_EQ"),
        ({"mode": "BRANCH_NEQ"}, "BRANCH_NEQ"),
        ({"post": "PROBIT"}, "PROBIT"),
        ({"post": "SOFTMAX_ZERO"}, "SOFTMAX_ZERO"),
        ({"post": "SOFTMAX"}, "NONE or LOGISTIC for two classes"),
        ({"base": [0.1, 0.2]}, "2 base values"),
        ({"ids": (1,)}, r"the classes \[1\]"),
        ({"nodes_modes": ["BRANCH_LEQ", "BRANCH_LT", *["LEAF"] * 3] * 4}, "one kind of comparison"),
        ({"nodes_truenodeids": [1, 1, 0, 0, 0] * 4}, "root of each first"),
        ({"nodes_truenodeids": [4, 2, 0, 0, 0] * 4}, "root of each first"),
        ({"nodes_featureids": [0, 2, 0, 0, 0] * 4}, "columns among 2, got number 2"),
        ({"class_nodeids": [2, 3, 3] * 4}, "weights at every leaf"),
        ({"class_ids": [0, 0, 2] * 4}, "weights at every leaf"),
    ],
)
def test_what_is_refused_is_named(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(UnsupportedModelError, match=why):
        hf.load_model(graph(WEIGHTS, PAIRS, **wrong))


def test_more_that_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="takes the sum for a probability when it dec"):
        hf.load_model(graph(np.abs(WEIGHTS), PAIRS, post="LOGISTIC"))
    with pytest.raises(
        UnsupportedModelError, match="the negative of the other, for the labels 0 and 1"
    ):
        hf.load_model(graph(np.concatenate([WEIGHTS, WEIGHTS], 2), PAIRS, ids=(0, 1)))
    with pytest.raises(UnsupportedModelError, match="a score for every class"):
        hf.load_model(
            graph(
                np.full((4, 3, 1), -1.0), PAIRS, classes=(0, 1, 2), class_ids=[0, 1, 2] * 4
            )
        )  # fmt: skip
    scaled = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=2))
    proto = to_onnx(scaled.fit(X, SCORE > 0.0), X[:1].astype(np.float32))
    with pytest.raises(UnsupportedModelError, match=r"Scaler.*Preprocessing belongs outside"):
        hf.load_model(proto)
    with pytest.raises(UnsupportedModelError, match="trees are no network"):
        hf.load_network(graph(WEIGHTS, PAIRS))


def test_what_another_order_of_sums_could_tip_is_not_proven() -> None:
    """Also under a shift: the margin that is known is ours, not the runtime's."""
    proto = graph(WEIGHTS, PAIRS, base=[0.1], post="LOGISTIC")
    trees, rows = hf.load_model(proto).classifier, X[:30, :2]
    margins, error = trees.logits(rows)[:, 0], float(trees.forest.rounding()[0])
    row = int(margins.argmax())
    for below, robust in ((0.0, False), (error / 2, False), (100.0 * error, True)):
        changes = hf.PlausibleShift(float(margins[row]) - below)
        assert hf.certify(proto, rows[[row]], 1, changes).robust[0] == robust


MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "MEMBER"]


def newer(mode: int = 0, **options: Any) -> Any:
    """Two trees as version 5 of the operator has them; the second is one question."""
    floats, kind = TensorProto.FLOAT, TensorProto.UINT8
    parts: dict[str, Any] = {
        "aggregate_function": 1, "n_targets": 3, "post_transform": 0, "tree_roots": [0, 2],
        "nodes_featureids": [0, 1, 1], "nodes_truenodeids": [1, 0, 2], "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [3, 1, 4], "nodes_falseleafs": [1, 1, 1],
        "nodes_missing_value_tracks_true": [1, 0, 1], "leaf_targetids": [0, 1, 1, 2, 0],
        "nodes_splits": helper.make_tensor("s", floats, [3], [0.1, 0.2, -0.3]),
        "nodes_modes": helper.make_tensor("m", kind, [3], [mode] * 3),
        "leaf_weights": helper.make_tensor("w", floats, [5], [0.7, 0.8, 0.1, 0.9, -0.05]),
        **options,
    }  # fmt: skip
    nodes = [
        helper.make_node("TreeEnsemble", ["X"], ["scores"], domain="ai.onnx.ml", **parts),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    X = helper.make_tensor_value_info("X", floats, [None, 2])
    label = helper.make_tensor_value_info("label", TensorProto.INT64, [None])
    made = helper.make_graph(nodes, "trees", [X], [label])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 5)]
    return helper.make_model(made, opset_imports=opsets, ir_version=10)


def test_the_newer_operator() -> None:
    for mode in range(4):
        proto = newer(mode)
        trees = hf.load_model(proto).classifier
        assert trees.forest.n_trees == 2
        rows = odd_rows(X[:, :2], trees.forest)
        label = run(proto, rows)[0]
        assert len(np.unique(label)) == 3
        assert (trees.classes[trees.winners(trees.score(rows))] == label).all()
    for mode in range(4, 6):
        with pytest.raises(UnsupportedModelError, match=MODES[mode]):
            hf.load_model(newer(mode))
    for wrong, why in (
        ({"aggregate_function": 2}, "MIN or MAX"),
        ({"post_transform": 1}, "expected post_transform NONE"),
        ({"nodes_truenodeids": [0, 0, 2]}, "each node and leaf below exactly one other"),
        ({"nodes_truenodeids": [9, 0, 2]}, "each node and leaf below exactly one other"),
    ):
        with pytest.raises(UnsupportedModelError, match=why):
            hf.load_model(newer(**wrong))
