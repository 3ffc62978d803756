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

from holdfast._network import Floats
from holdfast.errors import InvalidInputError
from holdfast.importers._chain import BATCH, Chain, Operation, relu, sigmoid

SIZE = "the size of a tensor"


@dataclass(frozen=True)
class Call(Operation):
    """One call: what it is applied to, its other arguments, and the module for its settings."""

    options: dict[str, Any]
    module: nn.Module | None

    def option(self, position: int, name: str, default: Any) -> Any:
        """An argument by name, by position after the first, or from the module's settings."""
        if self.module is not None:
            return getattr(self.module, name, default)
        return (
            self.inputs[position]
            if position < len(self.inputs)
            else self.options.get(name, default)
        )


def _linear(call: Call) -> Chain:
    weight = call.option(1, "weight", None)
    bias = call.option(2, "bias", None)
    if not isinstance(weight, torch.Tensor) or not isinstance(bias, torch.Tensor | None):
        raise call.refused("expected a weight and a bias that are parameters, got others")
    numbers = None if bias is None else _numbers(call, bias)
    return call.chain.affine(call.label, _numbers(call, weight), numbers, source=weight)


def _numbers(call: Call, tensor: torch.Tensor) -> Floats:
    """The tensor in float64, which holds every smaller float type exactly."""
    if tensor.is_meta or not tensor.is_floating_point():
        came = "no data (meta device)" if tensor.is_meta else str(tensor.dtype)
        raise InvalidInputError(f"{call.label}: expected parameters of a float type, got {came}")
    array: Floats = tensor.detach().cpu().to(torch.float64).numpy()
    return array


def _batch_norm(call: Call) -> Chain:
    """In eval mode (x - mean) / sqrt(variance + eps) * weight + bias: a scale and a shift for each column."""
    module: Any = call.module
    if module.running_mean is None:
        raise call.refused(
            "expected statistics kept from training, got track_running_stats=False: what it computes for a row depends "
            "on the other rows"
        )
    scale = 1.0 / np.sqrt(_numbers(call, module.running_var) + module.eps)
    if module.weight is not None:
        scale = scale * _numbers(call, module.weight)
    shift = -scale * _numbers(call, module.running_mean)
    return call.chain.normalise(
        call.label, scale, shift if module.bias is None else shift + _numbers(call, module.bias)
    )


def _same(call: Call) -> Chain:
    return call.chain


def _dropout(call: Call) -> Chain:
    """In training mode the module itself was refused; the function has a switch of its own, which is on by default."""
    if call.module is None and call.option(2, "training", True) and call.option(1, "p", 0.5) > 0:
        raise InvalidInputError(
            f"{call.label}: expected dropout to be off, got training=True: "
            "call model.eval(), and pass training=self.training to the function"
        )
    return call.chain


def _softmax(call: Call) -> Chain:
    call.check_axis(call.option(1, "dim", None))
    return call.chain.squash(call.label, "softmax")


def _flatten(call: Call) -> Chain:
    start = call.option(1, "start_dim", 0)
    end = call.option(2, "end_dim", -1)
    if (start, end) == (0, -1) and call.chain.width == 1:
        return call.chain.squeeze(call.label)
    if start != 1 or end not in (1, -1):
        raise call.refused(f"expected rows to stay rows (start_dim=1), got start_dim={start}")
    return call.chain.flatten()


def _view(call: Call) -> Chain:
    """view(x.size(0), -1), view(-1, columns), and view(-1) of a single column."""
    shape = call.option(1, "shape", ())
    return call.chain.reshape(
        call.label, shape if isinstance(shape, tuple | list) else call.inputs[1:]
    )


def _squeeze(call: Call) -> Chain:
    call.check_axis(call.option(1, "dim", None))
    return call.chain.squeeze(call.label)


def _cast(call: Call) -> Chain:
    dtypes = [
        value for value in (*call.inputs, *call.options.values()) if isinstance(value, torch.dtype)
    ]
    if any(dtype not in (torch.float32, torch.float64) for dtype in dtypes):
        raise call.refused(f"expected float32 or float64, got {dtypes[0]}")
    return call.chain


def _size(call: Call) -> str:
    dim = call.option(1, "dim", None)
    return SIZE if dim is None else _rows(call, dim)


def _getattr(call: Call) -> str:
    if call.inputs[1] != "shape":
        raise call.refused(f"expected .shape, got .{call.inputs[1]}")
    return SIZE


def _getitem(call: Call) -> str:
    if call.inputs[0] is not SIZE:
        raise call.refused("indexing values computed from the input is not supported")
    return _rows(call, call.inputs[1])


def _rows(call: Call, dim: object) -> str:
    if dim != 0:
        raise call.refused(f"expected the size of dimension 0, the rows, got dimension {dim}")
    return BATCH


# Modules by their exact class: a subclass may compute something else, and is then followed into its own forward.
_HANDLED: dict[Callable[[Call], Any], tuple[Any, ...]] = {
    _linear: (nn.Linear, F.linear),
    relu: (nn.ReLU, F.relu, F.relu_, torch.relu, torch.relu_, "relu", "relu_"),
    _batch_norm: (nn.BatchNorm1d,),
    _same: (nn.Identity, "contiguous"),
    _dropout: (nn.Dropout, nn.AlphaDropout, F.dropout),
    _flatten: (nn.Flatten, torch.flatten, "flatten"),
    _view: (torch.reshape, "view", "reshape"),
    _squeeze: (torch.squeeze, "squeeze"),
    sigmoid: (nn.Sigmoid, F.sigmoid, torch.sigmoid, "sigmoid"),
    _softmax: (
        nn.Softmax, nn.LogSoftmax, F.softmax, torch.softmax, F.log_softmax, torch.log_softmax, "softmax", "log_softmax",
    ),
    _cast: ("float", "double", "to"),
    _size: ("size",),
    _getattr: (getattr,),
    _getitem: (operator.getitem,),
}  # fmt: skip
HANDLERS = {target: handler for handler, targets in _HANDLED.items() for target in targets}
