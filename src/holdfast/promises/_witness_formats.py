"""The libraries that a witness can be written for: arrays of a model, its file, and its class."""

from __future__ import annotations

import copy
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from holdfast._network import Floats, Network, Values
from holdfast.errors import FileFormatError, UnsupportedModelError
from holdfast.importers import load_network
from holdfast.importers._files import extra

Parts = dict[str, Values]
# The ONNX operators that a layer's weights and biases go through.
_LAYERS = {"Gemm", "MatMul", "Add", "Transpose", "Cast", "Identity"}


class Format(ABC):
    """A model of one library."""

    suffix: str

    def __init__(self, model: Any) -> None:
        self.model = model

    @abstractmethod
    def parts(self) -> Parts:
        """The arrays of floats that the model stores."""

    @abstractmethod
    def with_parts(self, parts: Parts) -> Any:
        """A copy of the model with other numbers."""

    @abstractmethod
    def replay(self, parts: Parts, path: Path, x: Floats) -> tuple[Network, Any]:
        """Save such a copy, load it, and return its network and the class that its own library gives x."""


def format_of(like: Any) -> Format:
    """The format of a model, by the library of its class or of a base class."""
    if isinstance(like, str | PathLike):
        return _Onnx.of_file(Path(like))
    for base in type(like).__mro__:
        made = _FORMATS.get(base.__module__.partition(".")[0])
        if made is not None:
            return made(like)
    raise UnsupportedModelError(
        f"like: expected a scikit-learn estimator, a torch module or an ONNX model, got {type(like).__name__}"
    )


class _Sklearn(Format):
    suffix = ".skops"

    def parts(self) -> Parts:
        estimator = _classifier(self.model)
        if hasattr(estimator, "coefs_"):
            layers = enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True))
            return {
                f"{kind}{i}": array
                for i, pair in layers
                for kind, array in zip("wb", pair, strict=True)
            }
        return {"w0": np.asarray(estimator.coef_), "b0": np.asarray(estimator.intercept_)}

    def with_parts(self, parts: Parts) -> Any:
        changed = copy.deepcopy(self.model)
        estimator = _classifier(changed)
        if hasattr(estimator, "coefs_"):
            layers = range(len(estimator.coefs_))
            estimator.coefs_ = [parts[f"w{i}"] for i in layers]
            estimator.intercepts_ = [parts[f"b{i}"] for i in layers]
        else:
            estimator.coef_ = parts["w0"]
            estimator.intercept_ = parts["b0"]
        return changed

    def replay(self, parts: Parts, path: Path, x: Floats) -> tuple[Network, Any]:
        skops = extra("skops.io", "writing a .skops file")
        skops.dump(self.with_parts(parts), path)
        # It was written a moment ago, from an object that is in memory: nothing in it is a stranger.
        loaded = skops.load(path, trusted=skops.get_untrusted_types(file=path))
        classifier = _classifier(loaded)
        names = getattr(classifier, "feature_names_in_", None)
        if names is not None:
            import pandas as pd

            return load_network(loaded), classifier.predict(pd.DataFrame(x, columns=names))[
                0
            ].item()
        return load_network(loaded), classifier.predict(x)[0].item()


def _classifier(model: Any) -> Any:
    """The classifier at the end of pipelines and inside searches."""
    from holdfast.importers._sklearn import unwrapped

    return unwrapped(model)[1]


class _Torch(Format):
    suffix = ".pt"

    def parts(self) -> Parts:
        state = self.model.state_dict()
        return {
            name: tensor.detach().cpu().numpy()
            for name, tensor in state.items()
            if tensor.is_floating_point()
        }

    def with_parts(self, parts: Parts) -> Any:
        changed = copy.deepcopy(self.model)
        changed.load_state_dict(self._state(parts))
        return changed

    def _state(self, parts: Parts) -> dict[str, Any]:
        import torch

        return {
            **self.model.state_dict(),
            **{name: torch.from_numpy(array.copy()) for name, array in parts.items()},
        }

    def replay(self, parts: Parts, path: Path, x: Floats) -> tuple[Network, Any]:
        import torch

        torch.save(self._state(parts), path)
        loaded = copy.deepcopy(self.model)
        loaded.load_state_dict(torch.load(path, weights_only=True))
        network = load_network(loaded)
        parameter = next(loaded.parameters())
        with torch.no_grad():
            out = loaded(torch.as_tensor(x, dtype=parameter.dtype, device=parameter.device))
        return network, _class_of(network, out.double().cpu().numpy(), x)


class _Onnx(Format):
    suffix = ".onnx"

    @classmethod
    def of_file(cls, path: Path) -> _Onnx:
        onnx = extra("onnx", "reading an ONNX model")
        if path.suffix.lower() != ".onnx":
            raise UnsupportedModelError(
                f"like: expected the path of an .onnx file, or the model itself, got {path}"
            )
        try:
            return cls(onnx.load(path))
        # The protobuf runtimes have exceptions of their own, and none in common.
        except Exception as error:
            raise FileFormatError(
                f"{path}: expected an ONNX model, got a file that cannot be read: {error}"
            ) from error

    def parts(self) -> Parts:
        from onnx import numpy_helper

        parts = {
            name: numpy_helper.to_array(tensor) for name, tensor in _tensors(self.model).items()
        }
        parts = {
            name: array for name, array in parts.items() if array.dtype in (np.float32, np.float64)
        }
        return parts | {
            name: _own(attribute) for name, attribute in _attributes(self.model).items()
        }

    def with_parts(self, parts: Parts) -> Any:
        from onnx import numpy_helper

        changed = copy.deepcopy(self.model)
        for name, tensor in _tensors(changed).items():
            if name in parts:
                tensor.CopyFrom(
                    numpy_helper.from_array(np.ascontiguousarray(parts[name]), tensor.name)
                )
        for name, attribute in _attributes(changed).items():
            values = parts[name].tolist()
            # Of two classes a LinearClassifier stores w and -w.
            attribute.floats[:] = (
                [-value for value in values] if len(values) < len(attribute.floats) else []
            ) + values
        return changed

    def replay(self, parts: Parts, path: Path, x: Floats) -> tuple[Network, Any]:
        import onnx

        onnx.save(self.with_parts(parts), path)
        loaded = onnx.load(path)
        network = load_network(loaded)
        stored = {tensor.name for tensor in loaded.graph.initializer}
        source = next(value for value in loaded.graph.input if value.name not in stored)
        double = source.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
        results = _run(path, {source.name: x.astype(np.float64 if double else np.float32)})
        labels = [np.asarray(value) for value in results if np.asarray(value).dtype.kind in "iUSOb"]
        if labels and labels[0].size == 1 and not isinstance(labels[0].reshape(-1)[0], dict):
            label = labels[0].reshape(-1)[0]
            return network, label.item() if isinstance(label, np.generic) else label
        return network, _class_of(network, np.asarray(results[0], dtype=np.float64), x)


def _run(path: Path, given: dict[str, Any]) -> list[Any]:
    """Run the model with onnxruntime if it is installed, otherwise with ONNX's reference implementation."""
    if importlib.util.find_spec("onnxruntime") is not None:
        import onnxruntime

        session = onnxruntime.InferenceSession(
            path.read_bytes(), providers=["CPUExecutionProvider"]
        )
        return list(session.run(None, given))
    from onnx.reference import ReferenceEvaluator

    return list(ReferenceEvaluator(str(path)).run(None, given))


def _tensors(model: Any) -> dict[str, Any]:
    """The stored tensors that layers read: initializers, and the values of Constant nodes."""
    readers: dict[str, set[str]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, set()).add(node.op_type)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    constants = [node for node in model.graph.node if node.op_type == "Constant"]
    stored |= {
        node.output[0]: attribute.t
        for node in constants
        for attribute in node.attribute
        if attribute.HasField("t")
    }
    return {name: tensor for name, tensor in stored.items() if readers.get(name, set()) & _LAYERS}


def _attributes(model: Any) -> dict[str, Any]:
    """The coefficients and intercepts of LinearClassifier nodes."""
    return {
        f"{attribute.name} {i}": attribute
        for i, node in enumerate(model.graph.node)
        if node.op_type == "LinearClassifier"
        for attribute in node.attribute
        if attribute.name in ("coefficients", "intercepts")
    }


def _own(attribute: Any) -> Values:
    """The second half of the stored values if the first half is its negative, as for two classes; otherwise all."""
    values = np.array(attribute.floats, dtype=np.float32)
    half = values.size // 2
    mirrored = values.size % 2 == 0 and (values[:half] == -values[half:]).all()
    return values[half:] if mirrored else values


def _class_of(network: Network, out: Floats, x: Floats) -> Any:
    """The class of a model's raw outputs: logits, or their sigmoid or softmax."""
    out = out.reshape(1, -1)
    if out.shape[1] > 1:
        return network.classes[int(out[0].argmax())].item()
    logit = float(network.logits(x)[0, 0])
    squashed = 1.0 / (1.0 + np.exp(-logit))
    edge = 0.5 if abs(out[0, 0] - squashed) < abs(out[0, 0] - logit) else 0.0
    return network.classes[int(out[0, 0] >= edge)].item()


_FORMATS: dict[str, Callable[[Any], Format]] = {"sklearn": _Sklearn, "torch": _Torch, "onnx": _Onnx}
