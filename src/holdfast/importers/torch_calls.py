"""What each PyTorch module, function or tensor method does to a chain."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from holdfast.errors import InvalidInputError, UnsupportedModelError
from holdfast.importers.chain import Chain
from holdfast.network import Floats


class _Symbol:
    """A size that is known only when the model is called."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


BATCH = _Symbol("the number of rows")
SIZE = _Symbol("the size of a tensor")


@dataclass(frozen=True)
class Call:
    """One call: what it is applied to, its other arguments, and the module for its settings."""

    label: str
    subject: Any
    args: tuple[Any, ...]
    options: dict[str, Any]
    module: nn.Module | None

    @property
    def chain(self) -> Chain:
        """The subject, which must have been computed from the input."""
        if not isinstance(self.subject, Chain):
            raise UnsupportedModelError(f"{self.label}: expected it to be applied to values computed from the input")
        return self.subject

    def option(self, position: int, name: str, default: Any) -> Any:
        """An argument by name, by position after the subject, or from the module's settings."""
        if self.module is not None:
            return getattr(self.module, name, default)
        return self.args[position] if position < len(self.args) else self.options.get(name, default)


def _linear_module(call: Call) -> Chain:
    return _affine(call, call.option(0, "weight", None), call.option(1, "bias", None))


def _linear_function(call: Call) -> Chain:
    weight, bias = call.option(0, "weight", None), call.option(1, "bias", None)
    if not isinstance(weight, torch.Tensor) or not isinstance(bias, torch.Tensor | None):
        raise UnsupportedModelError(f"{call.label}: expected a weight and a bias that are parameters, got others")
    return _affine(call, weight, bias)


def _affine(call: Call, weight: torch.Tensor, bias: torch.Tensor | None) -> Chain:
    numbers = None if bias is None else _numbers(call.label, bias)
    return call.chain.affine(call.label, _numbers(call.label, weight), numbers, source=weight)


def _numbers(label: str, tensor: torch.Tensor) -> Floats:
    """The tensor in float64, which holds every smaller float type exactly."""
    if tensor.is_meta or not tensor.is_floating_point():
        came = "no data (meta device)" if tensor.is_meta else str(tensor.dtype)
        raise InvalidInputError(f"{label}: expected parameters of a float type, got {came}")
    array: Floats = tensor.detach().cpu().to(torch.float64).numpy()
    return array


def _relu(call: Call) -> Chain:
    return call.chain.relu(call.label)


def _batch_norm(call: Call) -> Chain:
    """In eval mode (x - mean) / sqrt(variance + eps) * weight + bias: a scale and a shift for each column."""
    module: Any = call.module
    if module.running_mean is None:
        raise UnsupportedModelError(
            f"{call.label}: expected statistics kept from training, got track_running_stats=False: what it computes "
            "for a row depends on the other rows"
        )
    mean, variance = (_numbers(call.label, part) for part in (module.running_mean, module.running_var))
    scale = 1.0 / np.sqrt(variance + module.eps)
    if module.weight is not None:
        scale = scale * _numbers(call.label, module.weight)
    shift = -scale * mean + (0.0 if module.bias is None else _numbers(call.label, module.bias))
    return call.chain.normalise(call.label, scale, shift)


def _same(call: Call) -> Chain:
    return call.chain


def _dropout(call: Call) -> Chain:
    """In training mode the module itself was refused; the function has a switch of its own, which is on by default."""
    if call.module is None and call.option(1, "training", True) and call.option(0, "p", 0.5) > 0:
        raise InvalidInputError(
            f"{call.label}: expected dropout to be off, got training=True: "
            "call model.eval(), and pass training=self.training to the function"
        )
    return call.chain


def _sigmoid(call: Call) -> Chain:
    return call.chain.squash(call.label, "sigmoid")


def _softmax(call: Call) -> Chain:
    dim = call.option(0, "dim", None)
    if dim not in (None, 1, -1):
        raise UnsupportedModelError(f"{call.label}: expected a softmax over the classes (dim=1 or -1), got dim={dim}")
    return call.chain.squash(call.label, "softmax")


def _flatten(call: Call) -> Chain:
    start, end = call.option(0, "start_dim", 0), call.option(1, "end_dim", -1)
    if (start, end) == (0, -1) and call.chain.width == 1:
        return call.chain.squeeze(call.label)
    if start != 1 or end not in (1, -1):
        raise UnsupportedModelError(f"{call.label}: expected rows to stay rows (start_dim=1), got start_dim={start}")
    return call.chain.reshape(call.label, None)


def _view(call: Call) -> Chain:
    """view(x.size(0), -1), view(-1, columns), and view(-1) of a single column."""
    shape = call.option(0, "shape", ()) if not call.args or isinstance(call.args[0], tuple | list) else call.args
    match tuple(shape):
        case (-1,):
            return call.chain.squeeze(call.label)
        case (first, -1) if first is BATCH:
            return call.chain.reshape(call.label, None)
        case (first, int(width)) if width > 0 and (first is BATCH or first == -1):
            return call.chain.reshape(call.label, width)
    raise UnsupportedModelError(f"{call.label}: expected rows to stay rows, got the shape {tuple(shape)}")


def _squeeze(call: Call) -> Chain:
    dim = call.option(0, "dim", None)
    if dim not in (None, 1, -1):
        raise UnsupportedModelError(f"{call.label}: expected dim=1 or -1, got dim={dim}")
    return call.chain.squeeze(call.label)


def _cast(call: Call) -> Chain:
    dtypes = [value for value in (*call.args, *call.options.values()) if isinstance(value, torch.dtype)]
    if any(dtype not in (torch.float32, torch.float64) for dtype in dtypes):
        raise UnsupportedModelError(f"{call.label}: expected float32 or float64, got {dtypes[0]}")
    return call.chain


def _size(call: Call) -> Any:
    dim = call.option(0, "dim", None)
    return SIZE if dim is None else _dimension(call, dim)


def _getattr(call: Call) -> Any:
    if call.args[:1] != ("shape",):
        raise UnsupportedModelError(f"{call.label}: expected .shape, got .{call.args[0]}")
    return SIZE


def _getitem(call: Call) -> Any:
    if call.subject is not SIZE:
        raise UnsupportedModelError(f"{call.label}: indexing values computed from the input is not supported")
    return _dimension(call, call.args[0])


def _dimension(call: Call, dim: object) -> _Symbol:
    if dim != 0:
        raise UnsupportedModelError(f"{call.label}: expected the size of dimension 0, the rows, got dimension {dim}")
    return BATCH


Handler = Callable[[Call], Any]

# By exact class: a subclass may compute something else, and is then followed into its own forward.
MODULES: dict[Any, Handler] = {
    nn.Linear: _linear_module,
    nn.ReLU: _relu,
    nn.BatchNorm1d: _batch_norm,
    nn.Identity: _same,
    nn.Dropout: _dropout,
    nn.AlphaDropout: _dropout,
    nn.Flatten: _flatten,
    nn.Sigmoid: _sigmoid,
    nn.Softmax: _softmax,
    nn.LogSoftmax: _softmax,
}
FUNCTIONS: dict[Any, Handler] = {
    F.linear: _linear_function,
    F.relu: _relu,
    F.relu_: _relu,
    torch.relu: _relu,
    torch.relu_: _relu,
    F.dropout: _dropout,
    torch.flatten: _flatten,
    torch.reshape: _view,
    torch.squeeze: _squeeze,
    F.sigmoid: _sigmoid,
    torch.sigmoid: _sigmoid,
    F.softmax: _softmax,
    torch.softmax: _softmax,
    F.log_softmax: _softmax,
    torch.log_softmax: _softmax,
    getattr: _getattr,
    operator.getitem: _getitem,
}
METHODS: dict[Any, Handler] = {
    "relu": _relu,
    "relu_": _relu,
    "flatten": _flatten,
    "view": _view,
    "reshape": _view,
    "squeeze": _squeeze,
    "sigmoid": _sigmoid,
    "softmax": _softmax,
    "log_softmax": _softmax,
    "contiguous": _same,
    "float": _cast,
    "double": _cast,
    "to": _cast,
    "size": _size,
}
