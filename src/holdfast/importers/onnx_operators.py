"""What each ONNX operator that makes up a layer does to a chain, as `torch.onnx` and skl2onnx write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.importers.chain import Chain
from holdfast.importers.onnx_values import Labels, Operation, Scores, Value

BATCH = "the number of rows"
# The numbers that TensorProto.DataType gives to float32, float16, float64 and bfloat16.
_FLOAT_TYPES = {1: np.float32, 10: None, 11: np.float64, 16: None}


def _gemm(op: Operation) -> Chain:
    """alpha A B' + beta C, taken as one layer with the weights alpha B' and the bias beta C."""
    if op.attributes.get("transA", 0):
        raise op.refused("expected transA=0, got 1")
    matrix = op.weights(1).astype(np.float64) * op.attributes.get("alpha", 1.0)
    bias = op.constant(2)
    scaled = None if bias is None else bias.astype(np.float64) * op.attributes.get("beta", 1.0)
    return op.chain.affine(op.label, matrix if op.attributes.get("transB", 0) else matrix.T, scaled)


def _matmul(op: Operation) -> Chain:
    return op.chain.affine(op.label, op.weights(1).T, None)


def _add(op: Operation) -> Chain:
    match op.inputs:
        case [Chain() as chain, np.ndarray() as bias] | [np.ndarray() as bias, Chain() as chain]:
            return chain.add(op.label, bias)
    raise op.refused("expected the sum of a layer and a stored bias, got two computed values")


def _relu(op: Operation) -> Chain:
    return op.chain.relu(op.label)


def _sigmoid(op: Operation) -> Chain:
    return op.chain.squash(op.label, "sigmoid")


def _softmax(op: Operation) -> Chain:
    op.check_axis(-1)
    return op.chain.squash(op.label, "softmax")


def _identity(op: Operation) -> Value:
    value = op.inputs[0]
    if value is None:
        raise op.refused("expected one input, got none")
    return value


def _dropout(op: Operation) -> Chain:
    training = op.constant(2)
    if training is not None and bool(training.any()):
        raise op.refused("expected dropout to be off, got training_mode=1: export the model in eval mode")
    return op.chain


def _cast(op: Operation) -> Value:
    value, to = _identity(op), op.attributes["to"]
    if isinstance(value, Labels):
        return value
    if to not in _FLOAT_TYPES:
        raise op.refused(f"expected a cast to a float type, got type {to}")
    dtype = _FLOAT_TYPES[to]
    if isinstance(value, np.ndarray):
        if dtype is None:
            raise op.refused("expected stored numbers in float32 or float64, got a cast to 16 bits")
        return value.astype(dtype)
    return value


def _flatten(op: Operation) -> Chain:
    op.check_axis(1)
    return op.chain.reshape(op.label, None)


def _reshape(op: Operation) -> Value:
    """Rows that stay rows; labels and probabilities may be laid out in any way."""
    value, shape = _identity(op), op.constant(1)
    if isinstance(value, Labels | Scores):
        return value
    match None if shape is None else shape.tolist():
        case [-1]:
            return op.chain.squeeze(op.label)
        case [first, -1] if first == BATCH or first == (0 if not op.attributes.get("allowzero") else None):
            return op.chain.reshape(op.label, None)
        case [int(first), -1] if first == op.rows > 0:
            return op.chain.reshape(op.label, None)
        case [first, int(width)] if width > 0 and first in (BATCH, -1, op.rows):
            return op.chain.reshape(op.label, width)
        case other:
            raise op.refused(f"expected rows to stay rows, got the shape {other}")


def _squeeze(op: Operation) -> Value:
    value = _identity(op)
    return op.chain.squeeze(op.label) if isinstance(value, Chain) else value


def _shape(op: Operation) -> NDArray[Any]:
    """The rows are known only when the model is called; the columns are not needed to keep rows as they are."""
    dimensions = [BATCH, op.chain.width if op.chain.flat else None]
    return np.array(dimensions, dtype=object)[op.attributes.get("start", 0) : op.attributes.get("end")]


def _gather(op: Operation) -> NDArray[Any]:
    values, index = op.constant(0), op.constant(1)
    if values is None or index is None or values.ndim != 1:
        raise op.refused("expected one size out of a shape")
    return np.array(values[index], dtype=object)


def _unsqueeze(op: Operation) -> NDArray[Any]:
    values = op.constant(0)
    if values is None or values.size != 1:
        raise op.refused("expected a single size")
    return values.reshape(1)


def _transpose(op: Operation) -> NDArray[Any]:
    return op.weights(0).T


LAYERS: dict[str, Callable[[Operation], Value]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _add,
    "Relu": _relu,
    "Sigmoid": _sigmoid,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Identity": _identity,
    "Dropout": _dropout,
    "Cast": _cast,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Shape": _shape,
    "Gather": _gather,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
}
