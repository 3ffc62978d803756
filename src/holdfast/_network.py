"""The representation of a network: affine layers with ReLU between them, logits at the end.

    v_0 = x,    z_i = W_i v_{i-1} + b_i,    v_i = max(z_i, 0),    logits = z_L

A hidden layer may also have no activation, v_i = z_i ("identity"). Such a layer is not merged with the next one:
Δ moves the parameters of each layer separately.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from holdfast._classifier import Bools, Classifier, Floats, Ints, Pair, Values
from holdfast._files import Place, whole_file
from holdfast._given import given_floats
from holdfast._shown import Shown, Summary
from holdfast.errors import FileFormatError, InvalidInputError

__all__ = ["Bools", "Floats", "Ints", "Network", "Pair", "Values"]

# Rows that keep a layer of some tens of neurons inside a core's own cache: up to 2.7 times faster than one big product.
CHUNK = 1024
_FORMAT = "holdfast-network"
# More labels than these are not listed.
_FEW = 12


@dataclass(frozen=True, eq=False)
class Network(Shown, Classifier):
    """A feed-forward ReLU classifier, in float64 and read-only.

    Parameters
    ----------
    weights, biases
        One array per layer; ``weights[i]`` is (out, in) and ``biases[i]`` is (out,). A single weight matrix (no hidden
        layer) is a logistic regression. One output is a binary classifier (class 1 iff its logit is >= 0). Several
        outputs are one logit per class: the highest wins, and the lower index on a tie.
    classes
        The labels of the outputs, in order; 0, 1, ... if not given.
    activations
        "relu" or "identity" for each hidden layer; all "relu" if not given.

    Examples
    --------
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> net.logits([[0.7, 0.5]]).round(3)
    array([[-0.2]])
    >>> net.predict([[0.7, 0.5], [0.7, 0.7]])
    array([0, 1])
    """

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    classes: Values
    activations: tuple[str, ...]

    def __init__(
        self,
        weights: Sequence[ArrayLike],
        biases: Sequence[ArrayLike],
        classes: ArrayLike | None = None,
        activations: Sequence[str] | None = None,
    ) -> None:
        if len(weights) == 0 or len(weights) != len(biases):
            raise InvalidInputError(
                "expected as many bias vectors as weight matrices and at least one, "
                f"got {len(weights)} weights and {len(biases)} biases"
            )
        frozen_weights = _frozen(weights, 2, "weights")
        frozen_biases = _frozen(biases, 1, "biases")
        for i, (weight, bias) in enumerate(zip(frozen_weights, frozen_biases, strict=True)):
            if bias.shape[0] != weight.shape[0]:
                raise InvalidInputError(
                    f"biases[{i}]: expected {weight.shape[0]} values, got {bias.shape[0]}"
                )
            if i > 0 and weight.shape[1] != frozen_weights[i - 1].shape[0]:
                raise InvalidInputError(
                    f"weights[{i}]: expected {frozen_weights[i - 1].shape[0]} columns, one for each neuron "
                    f"of the layer before, got {weight.shape[1]}"
                )
        n_classes = max(2, frozen_weights[-1].shape[0])
        labels = np.arange(n_classes) if classes is None else np.array(classes)
        if labels.shape != (n_classes,) or len(set(labels.tolist())) != n_classes:
            raise InvalidInputError(
                f"classes: expected {n_classes} different labels, got {labels.tolist()}"
            )
        labels.setflags(write=False)
        kinds = ("relu",) * (len(weights) - 1) if activations is None else tuple(activations)
        if len(kinds) != len(weights) - 1 or not set(kinds) <= {"relu", "identity"}:
            raise InvalidInputError(
                f"activations: expected 'relu' or 'identity' for each of {len(weights) - 1} hidden layers, got {kinds}"
            )
        vars(self).update(
            weights=frozen_weights, biases=frozen_biases, classes=labels, activations=kinds
        )

    def with_parameters(self, weights: Sequence[ArrayLike], biases: Sequence[ArrayLike]) -> Network:
        """A network of the same layers with other parameters."""
        return Network(weights, biases, self.classes, self.activations)

    @property
    def tie(self) -> int:
        """The class of a logit of 0: class 1."""
        return 1

    @property
    def rectified(self) -> bool:
        """True if every hidden layer ends in a ReLU."""
        return "identity" not in self.activations

    @property
    def n_features(self) -> int:
        """Number of variables that the network reads."""
        return int(self.weights[0].shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of logits: 1 for a binary classifier, otherwise one per class."""
        return int(self.weights[-1].shape[0])

    @property
    def hidden(self) -> tuple[int, ...]:
        """The sizes of the hidden layers; empty for a logistic regression."""
        return tuple(map(len, self.weights[:-1]))

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return sum(map(np.size, (*self.weights, *self.biases)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Network) or self.activations != other.activations:
            return False
        ours, theirs = ((*net.weights, *net.biases, net.classes) for net in (self, other))
        return all(map(np.array_equal, ours, theirs))

    def __hash__(self) -> int:
        return hash(tuple(map(np.ndarray.tobytes, (*self.weights, *self.biases))))

    def __reduce__(self) -> tuple[Any, ...]:
        return Network, (self.weights, self.biases, self.classes, self.activations)

    def __repr__(self) -> str:
        sizes = " -> ".join(map(str, self._sizes))
        return f"Network({sizes}, {self.n_parameters} parameters)"

    @property
    def _sizes(self) -> tuple[int, ...]:
        """Number of values before each layer, and at the end."""
        return self.n_features, *map(len, self.weights)

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
        names = [f"hidden {i + 1}" for i in range(len(self.hidden))] + ["output"]
        parameters = list(map(np.append, self.weights, self.biases))
        layers = pd.DataFrame(
            {
                "reads": self._sizes[:-1],
                "writes": self._sizes[1:],
                "activation": [*self.activations, "none: logits"],
                "parameters": list(map(len, parameters)),
                "largest parameter": [np.abs(part).max() for part in parameters],
            },
            index=pd.Index(names, name="layer"),
        )
        classes = ", ".join(map(str, self.classes[:_FEW]))
        more = ", …" if len(self.classes) > _FEW else ""
        facts = [("parameters", self.n_parameters), ("classes", classes + more)]
        sizes = " → ".join(map(str, self._sizes))
        return Summary(f"Network {sizes}", facts, layers, rows="layers")

    @property
    def _hidden_layers(self) -> Iterator[tuple[Floats, Floats, str]]:
        """Weights, biases and activation of each hidden layer."""
        return zip(self.weights, self.biases, self.activations, strict=False)

    def logits(self, X: ArrayLike) -> Floats:
        """The network's outputs before any sigmoid or softmax, (n, n_outputs)."""
        points = self.check_points(X)
        out = np.empty((points.shape[0], self.n_outputs))
        for start in range(0, points.shape[0], CHUNK):
            values = points[start : start + CHUNK]
            for weight, bias, activation in self._hidden_layers:
                values = values @ weight.T
                values += bias
                if activation == "relu":
                    np.maximum(values, 0.0, out=values)
            np.matmul(values, self.weights[-1].T, out=out[start : start + CHUNK])
        out += self.biases[-1]
        return out

    def input_gradient(
        self, X: ArrayLike, output: ArrayLike = 0, *, minus: ArrayLike | None = None
    ) -> Floats:
        """Gradient of one logit, or of the difference of two, with respect to the input, (n, n_features).

        Parameters
        ----------
        output
            The logit's index: one for all rows, or one per row.
        minus
            If given, the gradient is that of ``logits[output] - logits[minus]``.
        """
        points = self.check_points(X)
        active = []
        values = points
        for weight, bias, activation in self._hidden_layers:
            values = values @ weight.T + bias
            active.append((values > 0.0) | (activation != "relu"))
            values = values * active[-1]
        gradient = self.weights[-1][np.asarray(output)]
        if minus is not None:
            gradient = gradient - self.weights[-1][np.asarray(minus)]
        for weight, mask in zip(self.weights[-2::-1], active[::-1], strict=True):
            gradient = (gradient * mask) @ weight
        return np.array(np.broadcast_to(gradient, points.shape))

    def save(self, path: Place) -> None:
        """Write the network to a file of plain arrays (a zip of .npy parts, no pickle)."""
        header = {
            "format": _FORMAT,
            "version": 1,
            "layers": len(self.weights),
            "classes": self.classes.tolist(),
            "activations": list(self.activations),
        }
        arrays: dict[str, Any] = {f"weight_{i}": weight for i, weight in enumerate(self.weights)}
        arrays |= {f"bias_{i}": bias for i, bias in enumerate(self.biases)}
        with whole_file(Path(path)) as partial, partial.open("wb") as file:
            np.savez(file, header=np.array(json.dumps(header)), **arrays)

    @classmethod
    def load(cls, path: Place) -> Network:
        """Read a file that `save` wrote. No code in the file is run."""
        # A file that cannot be opened is the caller's to hear of; whatever its bytes then lead to is a damaged file.
        with open(path, "rb") as file:
            content = io.BytesIO(file.read())
        try:
            with np.load(content, allow_pickle=False) as parts:
                header = json.loads(str(parts["header"]))
                if header.get("format") != _FORMAT or header.get("version") != 1:
                    came = f"{header.get('format')} version {header.get('version')}"
                    raise FileFormatError(f"{path}: expected {_FORMAT} version 1, got {came}")
                # Of two parts with nearly the same name another reader of the file may take the other one.
                names = parts.zip.namelist()
                weights, biases = (
                    [f"{kind}_{i}" for i in range(len(names) // 2)] for kind in ("weight", "bias")
                )
                expected = sorted(f"{name}.npy" for name in ("header", *weights, *biases))
                if header["layers"] != len(weights) or sorted(names) != expected:
                    raise FileFormatError(
                        f"{path}: expected the parts of {header['layers']} layers, got {names}"
                    )
                return cls(
                    [parts[name] for name in weights],
                    [parts[name] for name in biases],
                    header["classes"],
                    header["activations"],
                )
        except FileFormatError:
            raise
        # Damaged bytes surface as BadZipFile, zlib.error, NotImplementedError for a method of compression, and others.
        except Exception as error:
            raise FileFormatError(
                f"{path}: expected a network saved by holdfast, got: {error}"
            ) from error


def _frozen(parts: Sequence[ArrayLike], ndim: int, name: str) -> tuple[Floats, ...]:
    """Read-only float64 copies, checked for shape and finiteness."""
    frozen = []
    for i, values in enumerate(parts):
        array = np.array(given_floats(values, f"{name}[{i}]"), order="C")
        if array.ndim != ndim or array.size == 0:
            raise InvalidInputError(
                f"{name}[{i}]: expected a non-empty array of {ndim} dimension(s), got shape {array.shape}"
            )
        if not np.isfinite(array).all():
            raise InvalidInputError(f"{name}[{i}]: expected finite numbers, got NaN or infinity")
        array.setflags(write=False)
        frozen.append(array)
    return tuple(frozen)
