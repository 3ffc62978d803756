"""The layers that a reader collects on its way from a model's input to its output.

    x -> affine [-> ReLU] -> affine -> ... -> affine [-> sigmoid or softmax]

A chain refuses any model that a `Network` cannot represent exactly, so all readers refuse the same models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from holdfast._given import given_floats
from holdfast._network import Floats, Network, Values
from holdfast.errors import InvalidInputError, UnsupportedModelError

Squash = Literal["sigmoid", "softmax"]
# A size that is known only when the model is called.
BATCH = "the number of rows"
# The kinds of numbers that trees tell apart, as ONNX counts them.
SINGLE, DOUBLE = 1, 11


@dataclass(frozen=True)
class Affine:
    """One layer: weight (out, in), and a bias unless none has been found yet."""

    weight: Floats
    bias: Floats | None
    source: object


@dataclass(frozen=True, eq=False)
class Chain:
    """The operations between the model's input and one value inside it. Each method returns a longer chain.

    Parameters
    ----------
    affines
        The affine layers so far.
    activations
        The activation after each of them except the last: "relu", or "identity" for none. Two consecutive affine layers
        are not merged, because then Δ would move other parameters than the model's.
    rectified
        The name of the ReLU that follows the last affine layer, empty if there is none.
    squashed
        The name of the sigmoid or softmax at the end, empty if there is none. It does not change the winning class, so
        it is dropped, and must be the last operation.
    folding
        A scale and a shift for each column, to be merged into the next affine layer, and the name of the operation that
        they come from.
    width
        Number of columns of the value, if known.
    flat
        False while the value has more than the two dimensions (rows, columns).
    classes
        The labels of the outputs, if the model has them.
    kind
        The number type of the input, as ONNX numbers types: trees distinguish float32 and float64.
    """

    affines: tuple[Affine, ...] = ()
    activations: tuple[str, ...] = ()
    rectified: str = ""
    squashed: str = ""
    folding: tuple[str, Floats, Floats] | None = None
    width: int | None = None
    flat: bool = True
    classes: Values | None = None
    kind: int = SINGLE

    def affine(
        self, name: str, weight: ArrayLike, bias: ArrayLike | None, *, source: object = None
    ) -> Chain:
        """Append W v + b. `source` is the object that holds the weights: the same object twice is a shared layer."""
        self._check(name, started=False, folding=True)
        if not self.flat:
            raise UnsupportedModelError(
                f"{name}: expected rows of variables, got an input of more than 2 dimensions"
            )
        if source is not None and any(layer.source is source for layer in self.affines):
            raise UnsupportedModelError(
                f"{name} is used twice, which is not supported: Δ moves the parameters of each layer separately"
            )
        matrix = given_floats(weight, name)
        if self.width is not None and matrix.shape[1] != self.width:
            raise InvalidInputError(
                f"{name}: expected weights for {self.width} columns, got {matrix.shape[1]}"
            )
        vector = None if bias is None else _bias(name, bias, matrix.shape[0])
        if self.folding is not None:
            _, scale, shift = self.folding
            vector = matrix @ shift + (0.0 if vector is None else vector)
            matrix = matrix * scale
        layer = Affine(matrix, vector, source)
        before = (("relu" if self.rectified else "identity"),) if self.affines else ()
        return replace(
            self,
            affines=(*self.affines, layer),
            activations=(*self.activations, *before),
            rectified="",
            folding=None,
            width=matrix.shape[0],
        )

    def normalise(self, name: str, scale: Floats, shift: Floats) -> Chain:
        """Append scale * v + shift for each column, merged into the affine layer before it or else after it."""
        self._check(name, started=False)
        if self.width not in (None, scale.size):
            raise InvalidInputError(f"{name}: expected {self.width} columns, got {scale.size}")
        if not self.affines or self.rectified:
            return replace(self, folding=(name, scale, shift), width=scale.size)
        last = self.affines[-1]
        bias = shift if last.bias is None else scale * last.bias + shift
        layer = replace(last, weight=scale[:, None] * last.weight, bias=bias)
        return replace(self, affines=(*self.affines[:-1], layer))

    def add(self, name: str, bias: ArrayLike) -> Chain:
        """Append + b, which must be the bias of an affine layer that has none yet."""
        self._check(name, started=False, folding=True)
        if not self.affines or self.rectified or self.affines[-1].bias is not None:
            raise UnsupportedModelError(
                f"{name}: an addition is supported only as the bias of an affine layer"
            )
        last = self.affines[-1]
        layer = replace(last, bias=_bias(name, bias, last.weight.shape[0]))
        return replace(self, affines=(*self.affines[:-1], layer))

    def relu(self, name: str) -> Chain:
        """Append max(v, 0); a second ReLU directly after it changes nothing."""
        self._check(name)
        return replace(self, rectified=name)

    def squash(self, name: str, kind: Squash) -> Chain:
        """Append the sigmoid of one logit or the softmax of several, which must be the last operation."""
        self._check(name, ending=True)
        if kind == "sigmoid" and self.width != 1:
            raise UnsupportedModelError(
                f"{name}: a sigmoid of {self.width} outputs is a multi-label model; expected one output, or a softmax"
            )
        if kind == "softmax" and self.width == 1:
            raise UnsupportedModelError(
                f"{name}: the softmax of one output is always 1; expected at least two outputs"
            )
        return replace(self, squashed=name)

    def flatten(self) -> Chain:
        """Flatten each row to its columns."""
        return replace(self, flat=True)

    def reshape(self, name: str, shape: Sequence[object]) -> Chain:
        """Append a reshape, with -1 for the remaining size; rows must stay rows."""
        match list(shape):
            case [-1]:
                return self.squeeze(name)
            case [first, -1] if first == BATCH:
                return self.flatten()
            case [first, int(width)] if first in (BATCH, -1) and width > 0:
                if self.width not in (None, width):
                    raise UnsupportedModelError(
                        f"{name}: expected rows of {self.width} columns to stay rows, got {width}"
                    )
                return replace(self, width=width, flat=True)
        raise UnsupportedModelError(
            f"{name}: expected rows to stay rows, got the shape {list(shape)}"
        )

    def squeeze(self, name: str) -> Chain:
        """Append (n, 1) to (n,), which changes no number."""
        if self.width != 1:
            raise UnsupportedModelError(
                f"{name}: expected one column to drop the dimension of, got {self.width}"
            )
        return self

    def network(self) -> Network:
        """The finished network."""
        if not self.affines:
            raise UnsupportedModelError(
                "expected at least one affine layer between input and output, got none"
            )
        loose = self.rectified if self.folding is None else self.folding[0]
        if loose:
            raise UnsupportedModelError(
                f"{loose} has no affine layer after it: expected logits at the end, without a ReLU"
            )
        weights = []
        biases = []
        for layer in self.affines:
            weights.append(layer.weight)
            biases.append(np.zeros(len(layer.weight)) if layer.bias is None else layer.bias)
        return Network(weights, biases, self.classes, self.activations)

    def _check(
        self, name: str, *, started: bool = True, folding: bool = False, ending: bool = False
    ) -> None:
        """Refuse operations after the end, operations without a layer before them, folds without a layer after them."""
        if self.squashed:
            raise UnsupportedModelError(
                f"{self.squashed} is supported only as the last operation, and {name} comes after it"
            )
        if started and not self.affines:
            raise UnsupportedModelError(
                f"{name} is applied to the input: expected an affine layer first"
            )
        if self.folding is not None and not folding:
            raise UnsupportedModelError(
                f"{self.folding[0]}: expected an affine layer between it and {name}"
            )


def _bias(name: str, values: ArrayLike, size: int) -> Floats:
    """The values as a vector with an entry for each neuron; a single value is repeated."""
    bias = given_floats(values, name)
    if bias.size not in (1, size) or (bias.ndim > 0 and bias.shape[-1] != bias.size):
        raise UnsupportedModelError(
            f"{name}: expected a bias of {size} values, got shape {bias.shape}"
        )
    return np.broadcast_to(bias.reshape(-1), (size,))


@dataclass(frozen=True)
class Operation:
    """One step of a model in its library: its name for messages, and its inputs."""

    label: str
    inputs: Sequence[Any]

    @property
    def chain(self) -> Chain:
        """The first input, which must have been computed from the model's input."""
        value = self.inputs[0] if self.inputs else None
        if not isinstance(value, Chain):
            raise self.refused(
                "expected its first input to be a table computed from the model's input"
            )
        return value

    def check_axis(self, axis: object) -> None:
        """Refuse any axis except the columns."""
        if axis not in (None, 1, -1):
            raise self.refused(f"expected axis 1, the columns, got axis {axis}")

    def refused(self, reason: str) -> UnsupportedModelError:
        """The error that names this operation."""
        return UnsupportedModelError(f"{self.label}: {reason}")


def relu(op: Operation) -> Chain:
    """max(v, 0)."""
    return op.chain.relu(op.label)


def sigmoid(op: Operation) -> Chain:
    """1 / (1 + exp(-v))."""
    return op.chain.squash(op.label, "sigmoid")


def ancestors(value: Any, before: Callable[[Any], Iterable[Any]]) -> set[Any]:
    """The values that a value is computed from, itself included."""
    known, waiting = {value}, [value]
    while waiting:
        new = set(before(waiting.pop())) - known
        known |= new
        waiting += new
    return known
