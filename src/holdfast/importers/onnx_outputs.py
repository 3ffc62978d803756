"""What a classifier's ONNX graph does with its scores: probabilities of two classes, the highest score, its label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import FileFormatError
from holdfast.importers.chain import Chain
from holdfast.importers.onnx_values import Complement, Labels, Operation, Scores, Value


def _linear_classifier(op: Operation) -> tuple[Labels, Scores]:
    """Rows of coefficients, one for each class; for two classes often w and -w, which is the one logit w."""
    transform = op.attributes.get("post_transform", b"NONE")
    if transform not in (b"NONE", b"LOGISTIC", b"SOFTMAX"):
        raise op.refused(f"expected post_transform NONE, LOGISTIC or SOFTMAX, got {transform.decode(errors='replace')}")
    classes = _class_labels(op, "classlabels_ints", "classlabels_strings")
    biases = np.array(op.attributes.get("intercepts") or [0.0] * len(classes), dtype=np.float64)
    coefficients = np.array(op.attributes["coefficients"], dtype=np.float64)
    if len(biases) == 0 or coefficients.size % len(biases) != 0:
        raise op.refused(f"expected as many coefficients for each class, got {coefficients.size} for {len(biases)}")
    weights = coefficients.reshape(len(biases), -1)
    if len(biases) == 2 and (weights[0] == -weights[1]).all() and biases[0] == -biases[1]:
        weights, biases = weights[1:], biases[1:]
    chain = replace(op.chain.affine(op.label, weights, biases), classes=classes if classes.size else None)
    # The label is the highest of the raw scores, so no transform of them matters.
    chain = replace(chain, squashed="" if transform == b"NONE" else op.label)
    return Labels(chain), Scores(chain)


def _class_labels(op: Operation, integers: str, strings: str) -> NDArray[Any]:
    found = op.attributes.get(strings)
    return _decoded(op, found) if found else np.array(op.attributes.get(integers) or [], dtype=np.int64)


def _decoded(op: Operation, labels: list[Any]) -> NDArray[Any]:
    try:
        return np.array([label.decode() if isinstance(label, bytes) else label for label in labels])
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{op.label}: expected class labels in UTF-8, got {error.object!r}") from error


def _subtract(op: Operation) -> Complement:
    """1 - p, which skl2onnx writes for the first of two classes."""
    match op.inputs:
        case [np.ndarray() as one, Chain() as chain] if chain.squashed and chain.width == 1 and (one == 1.0).all():
            return Complement(chain)
    raise op.refused("a subtraction is supported only as 1 - p of the probability p at the end")


def _concat(op: Operation) -> Value:
    """(1 - p, p), or the pieces of a shape."""
    match op.inputs:
        case [Complement(chain=first), Chain() as second] if first is second:
            op.check_axis(1)
            return Scores(second)
        case values if all(isinstance(value, np.ndarray) for value in values):
            return np.concatenate([np.atleast_1d(value) for value in values])  # type: ignore[arg-type]
    raise op.refused("joining values is supported only as (1 - p, p) of the probability p at the end")


def _scores(op: Operation) -> Scores:
    """The first input as one column for each class."""
    value = op.inputs[0]
    if isinstance(value, Chain) and value.width is not None and value.width > 1:
        return Scores(value)
    if not isinstance(value, Scores):
        raise op.refused("expected one column of scores for each class")
    return value


def _argmax(op: Operation) -> Labels:
    op.check_axis(0)
    return Labels(_scores(op).chain)


def _normalizer(op: Operation) -> Scores:
    """Dividing a row of probabilities by a positive number leaves the highest the highest."""
    scores = _scores(op)
    if not scores.chain.squashed:
        raise op.refused("expected it to be applied to probabilities")
    return scores


def _zipmap(op: Operation) -> Scores:
    classes = _class_labels(op, "classlabels_int64s", "classlabels_strings")
    return Scores(replace(_scores(op).chain, classes=classes))


def _array_feature_extractor(op: Operation) -> Labels:
    """classes[argmax]."""
    match op.inputs:
        case [np.ndarray() as classes, Labels(chain=chain)]:
            return Labels(replace(chain, classes=_decoded(op, classes.reshape(-1).tolist())))
    raise op.refused("expected stored class labels and the index of the highest score")


OUTPUTS: dict[str, Callable[[Operation], Value | tuple[Value, ...]]] = {
    "LinearClassifier": _linear_classifier,
    "Sub": _subtract,
    "Concat": _concat,
    "ArgMax": _argmax,
    "Normalizer": _normalizer,
    "ZipMap": _zipmap,
    "ArrayFeatureExtractor": _array_feature_extractor,
}
