"""The effect of each ONNX operator on a chain, as `torch.onnx` and skl2onnx write them.

A classifier's graph continues after the scores: to the probabilities of two classes, the highest one, its label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from holdfast._classifier import Values
from holdfast.errors import FileFormatError
from holdfast.importers._chain import BATCH, Chain, Operation, relu, sigmoid

# The numbers that TensorProto.DataType gives to float32, float16, float64 and bfloat16.
_FLOAT_TYPES = {1: np.float32, 10: None, 11: np.float64, 16: None}


@dataclass(frozen=True)
class AfterScores:
    """A value computed from the final scores of a chain.

    "complement" is 1 - p of a probability p; "scores" one column for each class, such as (1 - p, p) of a single logit;
    "labels" the class of each row.
    """

    kind: Literal["complement", "scores", "labels"]
    chain: Chain


Value = Chain | AfterScores | Values


@dataclass(frozen=True)
class Node(Operation):
    """One node of the graph, with its attributes and the number of rows that the graph was exported for, or 0."""

    attributes: dict[str, Any]
    rows: int

    @property
    def value(self) -> Value:
        """The first input, of any kind."""
        if not self.inputs or self.inputs[0] is None:
            raise self.refused("expected one input, got none")
        value: Value = self.inputs[0]
        return value

    def constant(self, position: int) -> Values | None:
        """An input that must be stored in the graph; None if it is omitted."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is not None and not isinstance(value, np.ndarray):
            raise self.refused(
                f"expected input {position} to be stored in the graph, got a computed value"
            )
        return value

    def weights(self, position: int) -> Values:
        """A constant matrix."""
        value = self.constant(position)
        if value is None or value.ndim != 2:
            raise self.refused(f"expected input {position} to be a matrix of weights")
        return value

    def transform(self) -> bytes:
        """The final transformation of the scores."""
        transform: bytes = self.attributes.get("post_transform", b"NONE")
        if transform not in (b"NONE", b"LOGISTIC", b"SOFTMAX"):
            came = transform.decode(errors="replace")
            raise self.refused(f"expected post_transform NONE, LOGISTIC or SOFTMAX, got {came}")
        return transform

    def axis(self, default: int) -> int:
        """The axis of the operation, which must be the columns."""
        axis: int = self.attributes.get("axis", default)
        self.check_axis(axis)
        return axis


# ------------------------------------------------------------------ layers


def _gemm(node: Node) -> Chain:
    """Read alpha A B' + beta C as one layer with the weights alpha B' and the bias beta C."""
    if node.attributes.get("transA", 0):
        raise node.refused("expected transA=0, got 1")
    matrix = node.weights(1).astype(np.float64) * node.attributes.get("alpha", 1.0)
    bias = node.constant(2)
    scaled = None if bias is None else bias.astype(np.float64) * node.attributes.get("beta", 1.0)
    return node.chain.affine(
        node.label, matrix if node.attributes.get("transB", 0) else matrix.T, scaled
    )


def _matmul(node: Node) -> Chain:
    return node.chain.affine(node.label, node.weights(1).T, None)


def _add(node: Node) -> Chain:
    match node.inputs:
        case [Chain() as chain, np.ndarray() as bias] | [np.ndarray() as bias, Chain() as chain]:
            return chain.add(node.label, bias)
    raise node.refused("expected the sum of a layer and a stored bias, got two computed values")


def _softmax(node: Node) -> Chain:
    node.axis(-1)
    return node.chain.squash(node.label, "softmax")


def _identity(node: Node) -> Value:
    return node.value


def _dropout(node: Node) -> Chain:
    training = node.constant(2)
    if training is not None and bool(training.any()):
        raise node.refused(
            "expected dropout to be off, got training_mode=1: export the model in eval mode"
        )
    return node.chain


def _cast(node: Node) -> Value:
    value = node.value
    to = node.attributes["to"]
    if isinstance(value, AfterScores) and value.kind == "labels":
        return value
    if to not in _FLOAT_TYPES:
        raise node.refused(f"expected a cast to a float type, got type {to}")
    dtype = _FLOAT_TYPES[to]
    if isinstance(value, np.ndarray):
        if dtype is None:
            raise node.refused(
                "expected stored numbers in float32 or float64, got a cast to 16 bits"
            )
        return value.astype(dtype)
    # What trees read is what the input is rounded to.
    return replace(value, kind=to) if isinstance(value, Chain) and not value.affines else value


def _flatten(node: Node) -> Chain:
    node.axis(1)
    return node.chain.flatten()


def _reshape(node: Node) -> Value:
    """Append a layout in which rows stay rows; labels and probabilities may have any layout."""
    if isinstance(node.value, AfterScores) and node.value.kind != "complement":
        return node.value
    shape = node.constant(1)
    first, *others = [None] if shape is None else shape.tolist()
    if others and (first == node.rows > 0 or (first == 0 and not node.attributes.get("allowzero"))):
        first = BATCH
    return node.chain.reshape(node.label, [first, *others])


def _squeeze(node: Node) -> Value:
    return node.value.squeeze(node.label) if isinstance(node.value, Chain) else node.value


def _shape(node: Node) -> Values:
    """Read a shape: the number of rows is known only at the call; keeping rows does not need the columns."""
    dimensions = [BATCH, node.chain.width if node.chain.flat else None]
    return np.array(dimensions, dtype=object)[
        node.attributes.get("start", 0) : node.attributes.get("end")
    ]


def _gather(node: Node) -> Values:
    values = node.constant(0)
    index = node.constant(1)
    if values is None or index is None or values.ndim != 1:
        raise node.refused("expected one size out of a shape")
    return np.array(values[index], dtype=object)


def _unsqueeze(node: Node) -> Values:
    values = node.constant(0)
    if values is None or values.size != 1:
        raise node.refused("expected a single size")
    return values.reshape(1)


def _transpose(node: Node) -> Values:
    return node.weights(0).T


# ------------------------------------------------------------------ from scores to labels


def _linear_classifier(node: Node) -> tuple[AfterScores, AfterScores]:
    """Read rows of coefficients, one for each class; two classes often have w and -w, which is the one logit w."""
    transform = node.transform()
    classes = class_labels(node, "classlabels_ints")
    biases = np.array(node.attributes.get("intercepts") or [0.0] * len(classes), dtype=np.float64)
    coefficients = np.array(node.attributes["coefficients"], dtype=np.float64)
    if len(biases) == 0 or coefficients.size % len(biases) != 0:
        raise node.refused(
            f"expected as many coefficients for each class, got {coefficients.size} for {len(biases)}"
        )
    weights = coefficients.reshape(len(biases), -1)
    if len(biases) == 2 and (weights[0] == -weights[1]).all() and biases[0] == -biases[1]:
        weights = weights[1:]
        biases = biases[1:]
    chain = replace(
        node.chain.affine(node.label, weights, biases),
        classes=classes if classes.size else None,
        # The label is the highest of the raw scores, so no transform of them matters.
        squashed="" if transform == b"NONE" else node.label,
    )
    return AfterScores("labels", chain), AfterScores("scores", chain)


def class_labels(node: Node, integers: str) -> Values:
    """The labels of the classes: texts, or the whole numbers of this attribute."""
    strings = node.attributes.get("classlabels_strings")
    return (
        _decoded(node, strings)
        if strings
        else np.array(node.attributes.get(integers) or [], dtype=np.int64)
    )


def _decoded(node: Node, labels: list[Any]) -> Values:
    try:
        return np.array([label.decode() if isinstance(label, bytes) else label for label in labels])
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{node.label}: expected class labels in UTF-8, got {error.object!r}"
        ) from error


def _subtract(node: Node) -> AfterScores:
    """Read 1 - p, which skl2onnx writes for the first of two classes."""
    match node.inputs:
        case [np.ndarray() as one, Chain() as chain] if (
            chain.squashed and chain.width == 1 and (one == 1.0).all()
        ):
            return AfterScores("complement", chain)
    raise node.refused("a subtraction is supported only as 1 - p of the probability p at the end")


def _concat(node: Node) -> Value:
    """Read (1 - p, p), or the pieces of a shape."""
    match node.inputs:
        case [AfterScores("complement", first), Chain() as second] if first is second:
            node.axis(1)
            return AfterScores("scores", second)
        case values if all(isinstance(value, np.ndarray) for value in values):
            return np.concatenate([np.atleast_1d(value) for value in values])
    raise node.refused(
        "joining values is supported only as (1 - p, p) of the probability p at the end"
    )


def _scores(node: Node) -> Chain:
    """The chain of the first input, which must have one column for each class."""
    match node.value:
        case AfterScores("scores", chain):
            return chain
        case Chain(width=int(width)) as chain if width > 1:
            return chain
    raise node.refused("expected one column of scores for each class")


def _argmax(node: Node) -> AfterScores:
    node.axis(0)
    return AfterScores("labels", _scores(node))


def _normalizer(node: Node) -> AfterScores:
    """Divide a row of probabilities by a positive number: the highest stays the highest."""
    if not _scores(node).squashed:
        raise node.refused("expected it to be applied to probabilities")
    return AfterScores("scores", _scores(node))


def _zipmap(node: Node) -> AfterScores:
    return AfterScores(
        "scores", replace(_scores(node), classes=class_labels(node, "classlabels_int64s"))
    )


def _array_feature_extractor(node: Node) -> AfterScores:
    """classes[argmax]."""
    match node.inputs:
        case [np.ndarray() as classes, AfterScores("labels", chain)]:
            return AfterScores(
                "labels", replace(chain, classes=_decoded(node, classes.reshape(-1).tolist()))
            )
    raise node.refused("expected stored class labels and the index of the highest score")


OPERATORS: dict[str, Callable[[Node], Value | tuple[Value, ...]]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _add,
    "Relu": relu,
    "Sigmoid": sigmoid,
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
    "LinearClassifier": _linear_classifier,
    "Sub": _subtract,
    "Concat": _concat,
    "ArgMax": _argmax,
    "Normalizer": _normalizer,
    "ZipMap": _zipmap,
    "ArrayFeatureExtractor": _array_feature_extractor,
}
