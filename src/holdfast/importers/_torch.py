"""PyTorch: trace a module symbolically, so in the order of its calls instead of the order of its attributes.

A Linear without a bias gets a bias of zeros. Unless Δ leaves biases alone, it then moves a bias that the model does not
have: proofs stay valid, for a larger set of networks than necessary. A BatchNorm1d in eval mode is a scale and a shift
for each column. It is merged into the Linear before it, or else into the one after it, and Δ moves the merged
parameters.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import fx, nn

from holdfast._network import Floats
from holdfast.errors import InvalidInputError, UnsupportedModelError
from holdfast.importers._chain import BATCH, Chain, Operation, ancestors, relu, sigmoid
from holdfast.importers._model import Model, qualified_name

SUPPORTED = (
    "Linear, ReLU, BatchNorm1d next to a Linear, Identity, Dropout, Flatten, and Sigmoid, Softmax or LogSoftmax at the "
    "end"
)
_REASONS: dict[type, str] = {
    nn.modules.batchnorm._NormBase: "of the normalisations only BatchNorm1d is supported, next to a Linear",
    nn.Tanh: "it is not piecewise linear",
    nn.Sigmoid: "it is supported only at the end",
}

# Calls without a lasting effect: tracing writes the checks of default arguments, and a size may be read in vain.
_HARMLESS = frozenset(
    {
        operator.eq,
        operator.getitem,
        getattr,
        torch._assert,
        "size",
        fx._symbolic_trace._assert_is_none,
    }
)


def import_model(model: Any) -> Model:
    """Read the model of a `torch.nn.Module` in eval mode."""
    if not isinstance(model, nn.Module):
        raise UnsupportedModelError(f"expected a torch.nn.Module, got {qualified_name(model)}")
    if isinstance(model, torch.jit.ScriptModule):
        raise UnsupportedModelError(
            "expected a torch.nn.Module, got TorchScript: pass the module it was compiled from"
        )
    # What torch.compile returns computes the same as the module it wraps.
    model = getattr(model, "_orig_mod", model)
    _check_mode(model)
    return Model(_follow(model, _trace(model)).network())


def _check_mode(model: nn.Module) -> None:
    """Refuse modes and hooks that make the module compute something else than its layers."""
    for path, module in model.named_modules():
        label = _label(path, module)
        random = isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0
        if module.training and (random or isinstance(module, nn.modules.batchnorm._NormBase)):
            raise InvalidInputError(
                f"expected a model in eval mode, got {label} in training mode: call model.eval()"
            )
        if module._forward_hooks or module._forward_pre_hooks:
            raise UnsupportedModelError(
                f"{label} has forward hooks, which may change its values: remove them first"
            )


def _trace(model: nn.Module) -> fx.Graph:
    """The graph of calls in the module's forward, with defaults for all arguments except the first."""
    parameters = list(inspect.signature(model.forward).parameters.values())
    defaults = {
        p.name: p.default for p in parameters[1:] if p.default is not inspect.Parameter.empty
    }
    try:
        return fx.Tracer().trace(model, concrete_args=defaults or None)
    # forward is the user's code and is run with stand-ins for its tensors: it may raise anything.
    except Exception as error:
        raise UnsupportedModelError(
            f"{type(model).__name__}.forward cannot be followed ({type(error).__name__}: {error}); "
            "write it without branches on the data, as an nn.Sequential, or export it to ONNX"
        ) from error


def _follow(model: nn.Module, graph: fx.Graph) -> Chain:
    """Follow the calls that the result depends on, from the input to the returned value."""
    output = next(node for node in graph.nodes if node.op == "output")
    if not isinstance(output.args[0], fx.Node):
        raise UnsupportedModelError(
            f"{type(model).__name__}.forward: expected one tensor of logits to be returned, got {output.args[0]!r}"
        )
    values: dict[fx.Node, Any] = {}
    for node in _needed(graph, output):
        values[node] = _value(model, node, values)
    result = values[output.args[0]]
    if not isinstance(result, Chain):
        raise UnsupportedModelError(
            f"{type(model).__name__}.forward: expected it to return logits, got {result!r}"
        )
    return result


def _needed(graph: fx.Graph, output: fx.Node) -> list[fx.Node]:
    """The nodes that the output depends on, in order."""
    needed = ancestors(output, lambda node: node.all_input_nodes) - {output}
    for node in graph.nodes:
        if node.op.startswith("call") and node not in needed and node.target not in _HARMLESS:
            raise UnsupportedModelError(
                f"{_target_name(node)} (node {node.name!r}): its result is not used, "
                "and it may change a value in place; remove it from forward"
            )
    nodes = [node for node in graph.nodes if node in needed]
    inputs = [node.name for node in nodes if node.op == "placeholder"]
    if len(inputs) != 1:
        raise UnsupportedModelError(f"expected logits computed from one input, got {inputs}")
    return nodes


def _value(model: nn.Module, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    if node.op == "placeholder":
        return Chain()
    if node.op == "get_attr":
        owner, _, name = str(node.target).rpartition(".")
        return getattr(model.get_submodule(owner), name)
    module = model.get_submodule(str(node.target)) if node.op == "call_module" else None
    label = (
        _label(str(node.target), module)
        if module is not None
        else f"{_target_name(node)} (node {node.name!r})"
    )
    args: tuple[Any, ...]
    options: dict[str, Any]
    args, options = fx.node.map_arg((node.args, dict(node.kwargs)), values.__getitem__)
    handler = HANDLERS.get(node.target if module is None else type(module))
    inputs = args or (options.pop("input", None),)
    several = any(isinstance(value, Chain) for value in (*inputs[1:], *options.values()))
    if handler is None or several:
        raise UnsupportedModelError(
            f"{label} cannot be represented exactly: {_reason(module, several)}"
        )
    return handler(Call(label, inputs, dict(options), module))


def _label(path: str, module: nn.Module) -> str:
    return f"{path or 'model'} ({type(module).__name__})"


def _target_name(node: fx.Node) -> str:
    return (
        node.target
        if isinstance(node.target, str)
        else getattr(node.target, "__name__", str(node.target))
    )


def _reason(module: nn.Module | None, several: bool) -> str:
    if several:
        return "it combines two values computed from the input, and a network here is one chain of layers"
    known = [reason for kind, reason in _REASONS.items() if isinstance(module, kind)]
    return known[0] if known else f"supported are {SUPPORTED}"


# ------------------------------------------------------------------ what each call does to a chain

SIZE = "the size of a tensor"


@dataclass(frozen=True)
class Call(Operation):
    """One call: its inputs, its other arguments, and the module with its settings."""

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
        raise call.refused("expected a weight and a bias that are parameters, got other values")
    numbers = None if bias is None else _numbers(call, bias)
    return call.chain.affine(call.label, _numbers(call, weight), numbers, source=weight)


def _numbers(call: Call, tensor: torch.Tensor) -> Floats:
    """The tensor in float64, which represents every smaller float type exactly."""
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
            "expected statistics kept from training, got track_running_stats=False: the result for a row then depends "
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
    """Read the function's own switch, which is on by default; a module in training mode was refused before."""
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
    """Read view(x.size(0), -1), view(-1, columns), and view(-1) of a single column."""
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
