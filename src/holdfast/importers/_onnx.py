"""ONNX: read a graph from its input to its scores. Nothing is run and nothing is fetched.

Graphs that PyTorch and skl2onnx write for dense ReLU classifiers are supported, and the tree operators. The parameters
are those in the file, as rounded by the export. Two layers that share one stored tensor are read as two layers:
exporters also store equal tensors once, and Δ over both contains Δ over the shared tensor.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from holdfast._classifier import Values
from holdfast._files import Place
from holdfast.errors import FileFormatError, MissingExtraError, UnsupportedModelError
from holdfast.importers._chain import Chain, ancestors
from holdfast.importers._model import Model, qualified_name
from holdfast.importers._onnx_operators import OPERATORS, AfterScores, Node, Value
from holdfast.importers._onnx_trees import OPERATORS as TREES
from holdfast.importers._onnx_trees import Grown

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise MissingExtraError("onnx", "onnx", "reading an ONNX model") from error

_DEFAULT_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
_LABEL_TYPES = (TensorProto.INT32, TensorProto.INT64, TensorProto.STRING, TensorProto.BOOL)
_WAY_OUT = (
    "Preprocessing belongs outside of the network: give the scikit-learn pipeline itself (.skops, or a pickle), or "
    "export its last step alone, to_onnx(pipeline[-1], variables), and say in a schema how columns become variables"
)


def import_model(proto: Any) -> Model:
    """Read the model of an `onnx.ModelProto` that holds its own weights."""
    if not isinstance(proto, onnx.ModelProto):
        raise UnsupportedModelError(f"expected an onnx.ModelProto, got {qualified_name(proto)}")
    outside = [
        tensor.name for tensor in _tensors(proto) if tensor.data_location == TensorProto.EXTERNAL
    ]
    if outside:
        raise FileFormatError(
            f"expected a model that holds its weights, got {outside} in another file (external data): "
            "give the path of the .onnx file, or load it with onnx.load"
        )
    _check(proto, "the ONNX model")
    return _model(proto.graph)


def read_file(path: Place) -> Model:
    """Read the model of an .onnx file, whose weights may be in a second file next to it (external data)."""
    try:
        proto = onnx.load(path, load_external_data=False)
    # The protobuf runtimes have exceptions of their own, and none in common.
    except Exception as error:
        raise FileFormatError(
            f"{path}: expected an ONNX model, got a file that cannot be read: {error}"
        ) from error
    for tensor in _tensors(proto):
        if tensor.data_location == TensorProto.EXTERNAL:
            _fetch(tensor, Path(path))
    _check(proto, str(path))
    return _model(proto.graph)


def _fetch(tensor: Any, path: Path) -> None:
    """Read a tensor's numbers from the file next to the model's own; no other file is opened."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    source = path.parent / location
    if (
        not location
        or Path(location).name != location
        or source.is_symlink()
        or not source.is_file()
    ):
        raise FileFormatError(
            f"{path}: expected the weights {tensor.name!r} in a file next to it (external data), got {location!r}, "
            "which is not there or is elsewhere"
        )
    try:
        offset = int(entries.get("offset", 0))
        length = int(entries.get("length", -1))
        with source.open("rb") as file:
            file.seek(offset)
            tensor.raw_data = file.read(length)
    except (OSError, ValueError) as error:
        raise FileFormatError(
            f"{path}: expected the weights {tensor.name!r} in {location!r}: {error}"
        ) from error
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]


def _check(proto: Any, source: str) -> None:
    try:
        onnx.checker.check_model(proto)
    except Exception as error:
        raise FileFormatError(
            f"{source}: expected a valid ONNX model, got one with this fault: {error}"
        ) from error


def _tensors(proto: Any) -> list[Any]:
    """The stored tensors: initializers, and the values of Constant nodes."""
    constants = [
        attribute.t
        for node in proto.graph.node
        for attribute in node.attribute
        if attribute.HasField("t")
    ]
    return [*proto.graph.initializer, *constants]


def _model(graph: Any) -> Model:
    chain = _classifier(graph)
    if isinstance(chain, Grown):
        return chain.model()
    return Model(chain.network())


def _classifier(graph: Any) -> Chain:
    """The chain that leads to the graph's labels, if it has labels (they name the classes), or else to its scores."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in stored]
    if len(inputs) != 1:
        raise UnsupportedModelError(
            f"expected an ONNX model with one input table, got {[value.name for value in inputs]}. {_WAY_OUT}"
        )
    origin = {output: node for node in graph.node for output in node.output}

    def needed(name: str) -> set[str]:
        """The values that a value is computed from; an omitted optional input has no name."""
        return ancestors(name, lambda value: origin[value].input if value in origin else ()) - {""}

    outputs = [value for value in graph.output if inputs[0].name in needed(value.name)]
    labels = [value for value in outputs if value.type.tensor_type.elem_type in _LABEL_TYPES]
    chosen = labels or outputs
    if len(chosen) != 1:
        names = [value.name for value in graph.output]
        raise UnsupportedModelError(f"expected one output of labels or of scores, got {names}")
    match _follow(graph, stored, inputs[0], needed(chosen[0].name))[chosen[0].name]:
        case (Chain() as chain) | AfterScores("labels" | "scores", chain):
            return chain
    raise UnsupportedModelError(
        f"{chosen[0].name}: expected an output of labels, probabilities or logits"
    )


def _follow(graph: Any, stored: dict[str, Any], source: Any, needed: set[str]) -> dict[str, Value]:
    """Compute the needed values one by one; a checked graph lists its nodes in the order of computation."""
    dimensions = source.type.tensor_type.shape.dim
    values: dict[str, Value] = {
        name: _array(tensor) for name, tensor in stored.items() if name in needed
    }
    # Without a stated shape the input is taken for what a table is: rows and columns.
    values[source.name] = Chain(
        flat=len(dimensions) in (0, 2),
        width=(dimensions[1].dim_value or None) if len(dimensions) == 2 else None,
        kind=source.type.tensor_type.elem_type,
    )
    rows = dimensions[0].dim_value if len(dimensions) > 0 else 0
    for node in graph.node:
        if not needed.isdisjoint(node.output):
            results = _result(node, [values.get(name) for name in node.input], rows)
            values.update(
                zip(
                    node.output, results if isinstance(results, tuple) else (results,), strict=False
                )
            )
    return values


def _result(node: Any, inputs: list[Value | None], rows: int) -> Value | tuple[Value, ...]:
    kind = node.op_type if node.domain in _DEFAULT_DOMAINS else f"{node.domain}::{node.op_type}"
    attributes = {
        attribute.name: _array(value) if isinstance(value, TensorProto) else value
        for attribute in node.attribute
        for value in [helper.get_attribute_value(attribute)]
    }
    label = (
        f"{kind} (node {node.name!r})"
        if node.name
        else f"{kind} (the node that gives {node.output[0]!r})"
    )
    operation = Node(label, inputs, attributes, rows)
    if kind == "Constant":
        return _constant(operation)
    known = {**OPERATORS, **TREES}
    if kind not in known:
        raise UnsupportedModelError(
            f"{label} cannot be represented exactly: supported are dense layers (Gemm, MatMul and Add, "
            f"LinearClassifier) with Relu between them, or trees (TreeEnsembleClassifier, TreeEnsembleRegressor), and "
            f"Sigmoid, Softmax or LogSoftmax at the end. {_WAY_OUT}"
        )
    return known[kind](operation)


def _constant(operation: Node) -> Values:
    """A stored tensor, or numbers in an attribute."""
    for name, value in operation.attributes.items():
        if name == "value":
            return np.asarray(value)
        if name in ("value_float", "value_floats", "value_int", "value_ints"):
            return np.array(value, dtype=np.float32 if "float" in name else np.int64)
    raise UnsupportedModelError(
        f"{operation.label}: expected numbers, got {list(operation.attributes)}"
    )


def _array(tensor: Any) -> Values:
    try:
        array: Values = numpy_helper.to_array(tensor)
    except (TypeError, ValueError) as error:
        raise FileFormatError(
            f"expected the numbers of {tensor.name!r}, got unreadable data: {error}"
        ) from error
    return array
