"""ONNX: the imported network agrees with onnxruntime on what torch and skl2onnx write; the rest is refused by name."""

import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from scipy.special import softmax
from skl2onnx import to_onnx
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from holdfast.errors import FileFormatError, HoldfastError, MissingExtraError, UnsupportedModelError
from holdfast.importers import load_network, read_model

RNG = np.random.default_rng(0)
POINTS = RNG.normal(scale=2.0, size=(200, 4)).astype(np.float32)
BINARY = (POINTS[:, 0] > 0.2).astype(int)
SEVERAL = np.array(["high", "low", "middle"])[np.digitize(POINTS[:, 0] + POINTS[:, 1], [-1, 1])]


def run(proto, points=POINTS):
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {session.get_inputs()[0].name: points})


def close(actual, expected):
    """Agreement up to the float32 that onnxruntime computes in."""
    np.testing.assert_allclose(
        actual, expected, rtol=0, atol=1e-6 * max(1.0, float(np.abs(expected).max())) * 10
    )


def probabilities(logits):
    """One column for each class; a single logit is that of the second class against 0."""
    return softmax(
        np.column_stack([np.zeros(len(logits)), logits]) if logits.shape[1] == 1 else logits, axis=1
    )


def as_columns(results):
    """What onnxruntime gives beside the labels: an array, a dictionary for each row, or an array for each class."""
    if len(results) > 2:
        return np.column_stack(results[1:])
    rows = results[1]
    return np.array([list(row.values()) for row in rows]) if isinstance(rows, list) else rows


class TestTorchExports:
    @staticmethod
    def export(module, folder, *, dynamo, dynamic, points=POINTS[:3]):
        path = folder / "model.onnx"
        options = {"dynamo": dynamo}
        if dynamic and dynamo:
            options["dynamic_shapes"] = ({0: torch.export.Dim("rows")},)
        elif dynamic:
            options |= {"input_names": ["x"], "dynamic_axes": {"x": {0: "rows"}}}
        with warnings.catch_warnings():
            # Both exporters go through interfaces that torch itself has deprecated.
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module.eval(), (torch.from_numpy(points),), path, verbose=False, **options
            )
        return path

    @pytest.mark.parametrize("dynamic", [True, False], ids=["any rows", "fixed rows"])
    @pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
    def test_a_sequential(self, tmp_path, dynamo, dynamic):
        # 40 neurons: weights of this size the dynamo exporter writes to a second file.
        module = nn.Sequential(
            nn.Flatten(), nn.Linear(4, 40), nn.ReLU(), nn.Dropout(), nn.Linear(40, 3)
        )
        path = self.export(module, tmp_path, dynamo=dynamo, dynamic=dynamic)
        network = load_network(path)
        assert network.hidden == (40,)
        np.testing.assert_array_equal(
            network.weights[0], module[1].weight.detach().numpy().astype(np.float64)
        )
        close(network.logits(POINTS), module(torch.from_numpy(POINTS)).detach().numpy())

    @pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
    @pytest.mark.parametrize(
        ("last", "n_outputs"),
        [(nn.Sigmoid(), 1), (nn.Softmax(1), 3), (nn.LogSoftmax(-1), 2)],
        ids=repr,
    )
    def test_a_squashing_last_layer(self, tmp_path, dynamo, last, n_outputs):
        module = nn.Sequential(nn.Linear(4, 5, bias=False), nn.ReLU(), nn.Linear(5, n_outputs))
        path = self.export(nn.Sequential(module, last), tmp_path, dynamo=dynamo, dynamic=False)
        close(load_network(path).logits(POINTS), module(torch.from_numpy(POINTS)).detach().numpy())

    @pytest.mark.parametrize("dynamic", [True, False], ids=["any rows", "fixed rows"])
    @pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
    def test_shapes_computed_in_forward(self, tmp_path, dynamo, dynamic):
        class Viewed(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1, bias=False))

            def forward(self, x):
                return torch.sigmoid(self.body(x.view(x.size(0), -1))).squeeze(-1)

        module = Viewed()
        path = self.export(module, tmp_path, dynamo=dynamo, dynamic=dynamic)
        close(
            load_network(path).logits(POINTS),
            module.body(torch.from_numpy(POINTS)).detach().numpy(),
        )

    def test_weights_beside_the_file(self, tmp_path):
        module = nn.Sequential(nn.Linear(4, 40), nn.ReLU(), nn.Linear(40, 1))
        path = self.export(module, tmp_path, dynamo=True, dynamic=False)
        beside = path.with_name("model.onnx.data")
        with pytest.raises(FileFormatError, match=r"in another file \(external data\)"):
            load_network(onnx.load(path, load_external_data=False))
        load_network(onnx.load(path))
        whole = beside.read_bytes()
        beside.write_bytes(whole[:100])
        with pytest.raises(FileFormatError, match=r"expected .*0\.weight"):
            load_network(path)
        (tmp_path / "elsewhere").write_bytes(whole)
        beside.unlink()
        with pytest.raises(FileFormatError, match=r"model\.onnx\.data.*is not there"):
            load_network(path)
        beside.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(FileFormatError, match="is not there or is elsewhere"):
            load_network(path)

    @pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "", ".."])
    def test_no_other_file_is_opened(self, tmp_path, location):
        (tmp_path / "secret").write_bytes(np.ones(8, np.float32).tobytes())
        proto = gemm_model()
        tensor = proto.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
        folder = tmp_path / "folder"
        folder.mkdir()
        (folder / "model.onnx").write_bytes(proto.SerializeToString())
        with pytest.raises(FileFormatError, match="in a file next to it"):
            load_network(folder / "model.onnx")


class TestSklearnExports:
    @staticmethod
    def export(estimator, labels, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimator.fit(POINTS, labels)
        return to_onnx(estimator, POINTS[:1], options={id(estimator): options})

    ZIPMAPS = pytest.mark.parametrize(
        "zipmap", [True, False, "columns"], ids=["zipmap", "array", "columns"]
    )
    LABELS = pytest.mark.parametrize(
        "labels",
        [BINARY, np.where(BINARY, "yes", "no"), SEVERAL, 10 * np.digitize(POINTS[:, 0], [-1, 1])],
    )

    @ZIPMAPS
    @LABELS
    @pytest.mark.parametrize(
        "estimator",
        [LogisticRegression(), MLPClassifier((6, 5), max_iter=20, random_state=0)],
        ids=["logistic", "perceptron"],
    )
    def test_classifiers(self, estimator, labels, zipmap):
        proto = self.export(estimator, labels, zipmap=zipmap)
        network = load_network(proto)
        np.testing.assert_array_equal(network.classes, estimator.classes_)
        assert network.n_outputs == (1 if len(estimator.classes_) == 2 else len(estimator.classes_))
        results = run(proto)
        np.testing.assert_array_equal(network.predict(POINTS), results[0])
        close(network.logits(POINTS), load_network(estimator).logits(POINTS))
        close(probabilities(network.logits(POINTS)), as_columns(results))

    @LABELS
    def test_raw_scores(self, labels):
        proto = self.export(LogisticRegression(), labels, zipmap=False, raw_scores=True)
        scores = run(proto)[1]
        close(
            load_network(proto).logits(POINTS), scores[:, -1:] if scores.shape[1] == 2 else scores
        )

    def test_class_labels_as_an_output(self):
        proto = self.export(LogisticRegression(), SEVERAL, zipmap=False, output_class_labels=True)
        assert load_network(proto).classes.tolist() == ["high", "low", "middle"]

    @pytest.mark.parametrize("zipmap", [True, False])
    @pytest.mark.parametrize("labels", [BINARY, SEVERAL], ids=["binary", "several"])
    @pytest.mark.parametrize(
        "estimator",
        [LogisticRegression(), MLPClassifier((6,), max_iter=20, random_state=0)],
        ids=["logistic", "perceptron"],
    )
    def test_probabilities_alone(self, estimator, labels, zipmap):
        proto = self.export(estimator, labels, zipmap=zipmap)
        del proto.graph.output[0]
        network = load_network(proto)
        close(network.logits(POINTS), load_network(estimator).logits(POINTS))
        if zipmap:
            np.testing.assert_array_equal(network.classes, estimator.classes_)

    def test_multi_label_is_refused(self):
        several = np.column_stack([BINARY, 1 - BINARY, BINARY])
        proto = self.export(MLPClassifier((3,), max_iter=5), several, zipmap=False)
        with pytest.raises(UnsupportedModelError):
            load_network(proto)

    def test_preprocessing_is_refused_by_the_name_of_its_operator(self):
        pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(POINTS, BINARY)
        with pytest.raises(
            UnsupportedModelError, match=r"Scaler \(node 'Scaler'\).*scikit-learn pipeline itself"
        ):
            load_network(to_onnx(pipeline, POINTS[:1]))


def tensor(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(values, dtype=dtype), name)


WEIGHTS = RNG.normal(size=(3, 4))


def model(
    nodes,
    constants=(),
    *,
    inputs=("x",),
    shape=(None, 4),
    output_type=TensorProto.FLOAT,
    outputs=("y",),
):
    """A graph of the given (operator, inputs, output, attributes) over the input x."""
    output_shape = (
        (None, None) if output_type in (TensorProto.FLOAT, TensorProto.DOUBLE) else (None,)
    )
    domains = {
        "LinearClassifier": "ai.onnx.ml",
        "TreeEnsembleClassifier": "ai.onnx.ml",
        "Own": "my.domain",
    }
    graph = helper.make_graph(
        [
            helper.make_node(
                kind,
                ins,
                outs.split(),
                name=f"{kind}_{i}",
                domain=domains.get(kind, ""),
                **attributes,
            )
            for i, (kind, ins, outs, attributes) in enumerate(nodes)
        ],
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in inputs],
        [helper.make_tensor_value_info(name, output_type, output_shape) for name in outputs],
        list(constants),
    )
    versions = [
        helper.make_opsetid("", 18),
        helper.make_opsetid("ai.onnx.ml", 3),
        helper.make_opsetid("my.domain", 1),
    ]
    return helper.make_model(graph, opset_imports=versions, ir_version=9)


def gemm_model():
    return model(
        [("Gemm", ["x", "w", "b"], "y", {"transB": 1})],
        [tensor("w", WEIGHTS), tensor("b", [1, 2, 3])],
    )


W, B, ONE = tensor("w", WEIGHTS.T), tensor("b", [1, 2, 3]), tensor("one", [[0.3], [0.1], [-0.4]])


@pytest.mark.parametrize(
    "proto",
    [
        gemm_model(),
        model([("Gemm", ["x", "w", "b"], "y", {"alpha": 0.5, "beta": 2.0})], [W, B]),
        model([("Gemm", ["x", "w", "c"], "y", {})], [W, tensor("c", 0.7)]),
        model([("MatMul", ["x", "w"], "z", {}), ("Add", ["z", "b"], "y", {})], [W, B]),
        model([("MatMul", ["x", "w"], "z", {}), ("Add", ["b", "z"], "y", {})], [W, tensor("b", [[1, 2, 3]])]),
        model([("Transpose", ["w"], "t", {}), ("MatMul", ["x", "t"], "y", {})], [tensor("w", WEIGHTS)]),
        model([("Constant", [], "w", {"value": tensor("", WEIGHTS.T)}), ("MatMul", ["x", "w"], "y", {})]),
        model([("Identity", ["x"], "i", {}), ("Dropout", ["i"], "d", {}), ("MatMul", ["d", "w"], "y", {})], [W]),
        model([("Cast", ["x"], "c", {"to": TensorProto.DOUBLE}), ("MatMul", ["c", "w"], "y", {})],
              [tensor("w", WEIGHTS.T, np.float64)], output_type=TensorProto.DOUBLE),
        model([("Reshape", ["x", "s"], "r", {}), ("MatMul", ["r", "w"], "y", {})], [W, tensor("s", [-1, 4], np.int64)]),
        model([("Reshape", ["x", "s"], "r", {}), ("MatMul", ["r", "w"], "y", {})], [W, tensor("s", [0, -1], np.int64)]),
        model([("LinearClassifier", ["x"], "label y", {"coefficients": WEIGHTS.ravel().tolist(),
               "intercepts": [0.1, 0.2, 0.3], "classlabels_ints": [4, 5, 6]})]),
    ],
)  # fmt: skip
def test_one_layer_written_in_many_ways(proto):
    network = load_network(proto)
    close(network.logits(POINTS), run(proto)[0])


def test_one_row_of_coefficients_for_two_classes():
    attributes = {
        "coefficients": WEIGHTS[0].tolist(),
        "intercepts": [0.1],
        "classlabels_strings": ["no", "yes"],
    }
    proto = model(
        [("LinearClassifier", ["x"], "y scores", attributes)], output_type=TensorProto.STRING
    )
    np.testing.assert_array_equal(load_network(proto).predict(POINTS), run(proto)[0])


def test_the_index_of_the_highest_score():
    nodes = [("Gemm", ["x", "w", "b"], "z", {}), ("ArgMax", ["z"], "y", {"axis": 1, "keepdims": 0})]
    proto = model(nodes, [W, B], output_type=TensorProto.INT64)
    np.testing.assert_array_equal(load_network(proto).predict(POINTS), run(proto)[0])


def test_an_image_is_flattened_first():
    proto = model(
        [("Flatten", ["x"], "f", {}), ("MatMul", ["f", "w"], "y", {})], [W], shape=(None, 1, 2, 2)
    )
    close(load_network(proto).logits(POINTS), run(proto, POINTS.reshape(-1, 1, 2, 2))[0])


def test_constants_written_as_attributes():
    nodes = [
        ("Constant", [], "s", {"value_ints": [-1, 4]}),
        ("Constant", [], "b", {"value_floats": [1.0, 2.0, 3.0]}),
        ("Reshape", ["x", "s"], "r", {}),
        ("Gemm", ["r", "w", "b"], "y", {}),
    ]
    proto = model(nodes, [W])
    close(load_network(proto).logits(POINTS), run(proto)[0])
    with pytest.raises(UnsupportedModelError, match=r"expected numbers, got \['value_string'\]"):
        load_network(
            model([("Constant", [], "w", {"value_string": "w"}), ("MatMul", ["x", "w"], "y", {})])
        )


def test_labels_that_are_no_text():
    attributes = {
        "coefficients": WEIGHTS[0].tolist(),
        "intercepts": [0.1],
        "classlabels_strings": [b"\xff", b"yes"],
    }
    proto = model(
        [("LinearClassifier", ["x"], "y scores", attributes)], output_type=TensorProto.STRING
    )
    with pytest.raises(FileFormatError, match="UTF-8"):
        load_network(proto)


def test_a_double_model_is_exact():
    proto = model([("Gemm", ["x", "w"], "y", {"transB": 1})], [tensor("w", WEIGHTS, np.float64)])
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    np.testing.assert_array_equal(load_network(proto).weights[0], WEIGHTS)


TWICE = [("MatMul", ["x", "w"], "h", {}), ("Relu", ["h"], "r", {})]
SCORES = [("Gemm", ["x", "w", "b"], "z", {})]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [*SCORES, ("Tanh", ["z"], "y", {})],
            r"Tanh \(node 'Tanh_1'\) cannot be represented exactly",
        ),
        ([("Conv", ["x", "w"], "y", {})], r"Conv \(node 'Conv_0'\)"),
        ([("Own", ["x"], "y", {})], r"my\.domain::Own \(node 'Own_0'\)"),
        ([("TreeEnsembleClassifier", ["x"], "l y", {})], "TreeEnsembleClassifier"),
        ([*SCORES, ("Add", ["z", "z"], "y", {})], r"Add \(node 'Add_1'\).*two computed values"),
        ([*SCORES, ("Add", ["z", "b"], "y", {})], r"Add \(node 'Add_1'\).*only as the bias"),
        ([("Add", ["x", "four"], "y", {})], r"Add \(node 'Add_0'\).*only as the bias"),
        (
            [("MatMul", ["w", "x"], "y", {})],
            r"MatMul \(node 'MatMul_0'\): expected its first input",
        ),
        ([("MatMul", ["x", "x"], "y", {})], "stored in the graph, got a computed value"),
        ([("Gemm", ["x", "w"], "y", {"transA": 1})], "transA=0"),
        (
            [*SCORES, ("Relu", ["z"], "y", {})],
            r"Relu \(node 'Relu_1'\) has no affine layer after it",
        ),
        ([("Relu", ["x"], "y", {})], "applied to the input"),
        ([*SCORES, ("Softmax", ["z"], "y", {"axis": 0})], "got axis 0"),
        (
            [*SCORES, ("Softmax", ["z"], "p", {}), ("MatMul", ["p", "one"], "y", {})],
            r"Softmax .*last .*MatMul_2",
        ),
        ([*SCORES, ("Sigmoid", ["z"], "y", {})], "sigmoid of 3 outputs"),
        (
            [*TWICE, ("MatMul", ["r", "one"], "z", {}), ("Sub", ["four", "z"], "y", {})],
            "only as 1 - p",
        ),
        ([*SCORES, ("Concat", ["z", "z"], "y", {"axis": 1})], "joining values"),
        ([*SCORES, ("Reshape", ["z", "seven"], "y", {})], "rows to stay rows"),
        (
            [("Dropout", ["x", "", "true"], "d", {}), ("MatMul", ["d", "w"], "y", {})],
            "training_mode=1",
        ),
        (
            [("Cast", ["x"], "c", {"to": TensorProto.INT64}), ("MatMul", ["c", "w"], "y", {})],
            "cast to a float type",
        ),
        ([("Identity", ["x"], "y", {})], "at least one affine layer"),
        ([("Shape", ["x"], "y", {})], "expected an output of labels, probabilities or logits"),
        (
            [
                (
                    "LinearClassifier",
                    ["x"],
                    "l y",
                    {"coefficients": [1.0], "post_transform": "PROBIT"},
                )
            ],
            "got PROBIT",
        ),
        (
            [
                (
                    "LinearClassifier",
                    ["x"],
                    "l y",
                    {"coefficients": [1.0] * 5, "intercepts": [0.0] * 2},
                )
            ],
            "5 for 2",
        ),
        ([*SCORES, ("Normalizer", ["z"], "y", {})], "Normalizer"),
        (
            [*TWICE, ("MatMul", ["r", "one"], "z", {}), ("ArgMax", ["z"], "y", {"axis": 1})],
            "for each class",
        ),
    ],
)
def test_what_cannot_be_said_exactly_is_refused_by_name(nodes, message, monkeypatch):
    # Some of these graphs are not valid either; what is asked here is what the reader makes of them.
    monkeypatch.setattr(onnx.checker, "check_model", lambda proto: None)
    constants = [
        W,
        B,
        ONE,
        tensor("four", [4.0]),
        tensor("seven", [7, -1], np.int64),
        tensor("true", True, bool),
    ]
    with pytest.raises(UnsupportedModelError, match=message):
        load_network(model(nodes, constants))


def test_an_image_that_is_not_flattened():
    with pytest.raises(UnsupportedModelError, match="more than 2 dimensions"):
        load_network(model([("MatMul", ["x", "w"], "y", {})], [W], shape=(None, 3, 4)))


def test_several_inputs_or_outputs():
    nodes = [("MatMul", ["x", "w"], "y", {}), ("MatMul", ["v", "w"], "z", {})]
    with pytest.raises(UnsupportedModelError, match=r"one input table, got \['x', 'v'\]"):
        load_network(model(nodes, [W], inputs=("x", "v")))
    nodes = [("MatMul", ["x", "w"], "y", {}), ("MatMul", ["x", "w"], "z", {})]
    with pytest.raises(UnsupportedModelError, match=r"one output .*got \['y', 'z'\]"):
        load_network(model(nodes, [W], outputs=("y", "z")))


def test_weights_listed_among_the_inputs():
    proto = gemm_model()
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, (3, 4)))
    close(load_network(proto).logits(POINTS), POINTS @ WEIGHTS.T + [1, 2, 3])


def test_an_invalid_graph():
    with pytest.raises(FileFormatError, match="expected a valid ONNX model"):
        load_network(model([("Relu", ["nowhere"], "y", {})]))
    with pytest.raises(FileFormatError, match="expected a valid ONNX model"):
        load_network(onnx.ModelProto())


def test_other_onnx_objects():
    with pytest.raises(
        UnsupportedModelError, match=r"expected an onnx\.ModelProto, got .*GraphProto"
    ):
        load_network(gemm_model().graph)


def test_damaged_files_raise_errors_of_our_own(tmp_path):
    whole = gemm_model().SerializeToString()
    path = tmp_path / "damaged.onnx"
    survived = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        damaged = bytearray(whole[: rng.integers(len(whole) // 2, len(whole) + 1)])
        for position in rng.integers(0, len(damaged), size=rng.integers(0, 4)):
            damaged[position] = rng.integers(256)
        path.write_bytes(bytes(damaged))
        try:
            read_model(path)
            survived += 1
        except HoldfastError:
            pass
    assert survived < 300


def test_a_missing_package_names_its_install_command(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_bytes(gemm_model().SerializeToString())
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "holdfast.importers._onnx", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'holdfast\[onnx\]'"):
        read_model(path)
