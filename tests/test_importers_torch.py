"""PyTorch: the traced network computes what the module does, in the order of its calls; the rest is refused by name."""

import copy
import itertools
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from holdfast.errors import InvalidInputError, UnsupportedModelError
from holdfast.importers import load_network

POINTS = np.random.default_rng(0).normal(scale=2.0, size=(200, 4))


def outputs(module, points=POINTS):
    """What the module itself computes, in double precision."""
    with torch.no_grad():
        return module.double()(torch.from_numpy(points)).numpy()


def agree(module, points=POINTS):
    network = load_network(module)
    expected = outputs(module, points)
    np.testing.assert_allclose(
        network.logits(points), expected.reshape(len(points), -1), rtol=0, atol=1e-6
    )
    return network


def body(*, inputs=4, outputs=3):
    return [nn.Linear(inputs, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, outputs)]


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=2, max_size=6),
    bias=st.booleans(),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16]),
    seed=st.integers(0, 2**16),
)
def test_any_sequential_of_linear_and_relu(sizes, bias, dtype, seed):
    torch.manual_seed(seed)
    layers = [nn.Linear(n_in, n_out, bias=bias) for n_in, n_out in itertools.pairwise(sizes)]
    module = nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())][:-1]).to(
        dtype
    )
    network = load_network(module)
    assert (network.n_features, *network.hidden, network.n_outputs) == tuple(sizes)
    for layer, weight in zip(layers, network.weights, strict=True):
        np.testing.assert_array_equal(weight, layer.weight.detach().to(torch.float64).numpy())
    points = np.random.default_rng(seed).normal(size=(20, sizes[0]))
    np.testing.assert_allclose(network.logits(points), outputs(module, points), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(4, 1),
        nn.Sequential(nn.Flatten(), *body(), nn.Identity()),
        nn.Sequential(
            nn.Sequential(*body()[:2]),
            nn.Identity(),
            nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 1)),
        ),
        nn.Sequential(nn.Linear(4, 3), nn.ReLU(inplace=True), nn.ReLU(), nn.Linear(3, 2)),
    ],
    ids=["linear", "flatten", "nested", "relu twice"],
)
def test_containers(module):
    agree(module.eval())


@pytest.mark.parametrize(
    ("last", "n_outputs"),
    [(nn.Sigmoid(), 1), (nn.Softmax(dim=1), 3), (nn.Softmax(dim=-1), 2), (nn.LogSoftmax(dim=1), 3)],
    ids=repr,
)
def test_a_squashing_last_layer_is_dropped(last, n_outputs):
    layers = body(outputs=n_outputs)
    network = load_network(nn.Sequential(*layers, last, nn.Identity()))
    np.testing.assert_allclose(
        network.logits(POINTS), outputs(nn.Sequential(*layers)), rtol=0, atol=1e-6
    )


def test_one_output_is_a_binary_logit():
    module = nn.Sequential(*body(outputs=1), nn.Sigmoid())
    np.testing.assert_array_equal(
        load_network(module).predict(POINTS), (outputs(module) >= 0.5).astype(int)[:, 0]
    )


def test_a_missing_bias_is_a_bias_of_zeros():
    network = agree(nn.Sequential(nn.Linear(4, 3, bias=False), nn.ReLU(), nn.Linear(3, 1)))
    np.testing.assert_array_equal(network.biases[0], np.zeros(3))


def test_training_mode_without_random_layers_is_fine():
    module = nn.Sequential(*body(), nn.Dropout(0.0))
    assert module.training
    agree(module)


class Custom(nn.Module):
    """Layers registered in another order than they are called in."""

    def __init__(self, call):
        super().__init__()
        self.last = nn.Linear(6, 1)
        self.first = nn.Linear(4, 6)
        self.call = call

    def forward(self, x, scale=None, check: bool = True):
        return self.call(self, x) if scale is None and check else x


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m.last(F.relu(m.first(x))),
        lambda m, x: m.last(torch.relu(m.first(x))),
        lambda m, x: m.last(m.first(x).relu()),
        lambda m, x: m.last(m.first(x).relu_()),
        lambda m, x: m.last(F.relu(m.first(torch.flatten(x, 1)))),
        lambda m, x: m.last(F.relu(m.first(x.flatten(start_dim=1)))),
        lambda m, x: m.last(F.relu(m.first(x.view(x.size(0), -1)))),
        lambda m, x: m.last(F.relu(m.first(x.reshape(x.shape[0], 4)))),
        lambda m, x: m.last(F.relu(m.first(x.view((-1, 4)).contiguous()))),
        lambda m, x: m.last(F.dropout(F.relu(m.first(x)), 0.3, training=m.training)),
        lambda m, x: F.linear(
            F.relu(F.linear(x, m.first.weight, m.first.bias)), m.last.weight, m.last.bias
        ),
        lambda m, x: m.last(F.relu(m.first(x))).squeeze(-1),
        lambda m, x: m.last(F.relu(m.first(x))).view(-1),
        lambda m, x: m.last(F.relu(m.first(x))).flatten(),
        lambda m, x: m.last(F.relu(m.first(x.to(torch.float64).double()))),
    ],
)
def test_a_custom_forward_is_followed(call):
    agree(Custom(call).eval())


@pytest.mark.parametrize(
    "squash",
    [torch.sigmoid, F.sigmoid, lambda z: z.sigmoid(), lambda z: torch.sigmoid(z).squeeze(1)],
    ids=["torch", "functional", "method", "squeezed"],
)
def test_a_custom_forward_may_end_in_a_sigmoid(squash):
    module = Custom(lambda m, x: squash(m.last(F.relu(m.first(x))))).eval()
    plain = Custom(lambda m, x: m.last(F.relu(m.first(x)))).eval()
    plain.load_state_dict(module.state_dict())
    np.testing.assert_allclose(
        load_network(module).logits(POINTS), outputs(plain), rtol=0, atol=1e-6
    )


class Deep(nn.Module):
    """A list of layers, a subclass of Linear, and a softmax function at the end."""

    class Scaled(nn.Linear):
        pass

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([self.Scaled(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return F.log_softmax(self.layers[-1](x), dim=1)


def test_a_loop_over_layers():
    module = Deep()
    network = load_network(module)
    assert network.hidden == (5, 5)
    logits = network.logits(POINTS)
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(outputs(module), expected, rtol=0, atol=1e-6)


def trained_norm(size, affine=True):
    """A BatchNorm1d that has seen rows, with a scale and a shift of its own."""
    norm = nn.BatchNorm1d(size, affine=affine)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.1, 3.0)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


def test_a_batch_norm_is_folded_into_the_linear_beside_it():
    torch.manual_seed(0)
    first, bare = nn.Linear(4, 6), nn.Linear(4, 6, bias=False)
    for layers, folded in (
        ((trained_norm(4), first, nn.ReLU(), nn.Linear(6, 1)), (True, False)),
        ((bare, trained_norm(6), nn.ReLU(), nn.Linear(6, 1)), (True, False)),
        ((first, trained_norm(6, affine=False), nn.ReLU(), nn.Linear(6, 3)), (True, False)),
        ((first, nn.ReLU(), nn.Dropout(), trained_norm(6), nn.Linear(6, 3)), (False, True)),
        (
            (trained_norm(4), bare, trained_norm(6), trained_norm(6), nn.ReLU(), nn.Linear(6, 3)),
            (True, False),
        ),
    ):
        module = nn.Sequential(*layers).eval()
        network = load_network(module)
        own = [layer.weight.detach().numpy() for layer in layers if isinstance(layer, nn.Linear)]
        assert (
            tuple(not np.array_equal(a, b) for a, b in zip(network.weights, own, strict=True))
            == folded
        )
        np.testing.assert_allclose(
            network.logits(POINTS), outputs(copy.deepcopy(module)), rtol=0, atol=1e-12
        )
    with pytest.raises(InvalidInputError, match=r"1 \(BatchNorm1d\): expected 6 columns, got 5"):
        load_network(nn.Sequential(first, trained_norm(5), nn.Linear(5, 1)).eval())


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            nn.Sequential(nn.Linear(4, 3), nn.InstanceNorm1d(3), nn.Linear(3, 1)),
            r"1 \(InstanceNorm1d\).*only BatchNorm1d",
        ),
        (
            nn.Sequential(
                nn.Linear(4, 3), nn.ReLU(), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1)
            ),
            r"2 .*and 3 \(ReLU\)",
        ),
        (
            nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.BatchNorm1d(3)),
            r"has no affine layer after it",
        ),
        (
            nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 1)),
            r"0 .*depends on the other rows",
        ),
        (
            nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.Tanh()), nn.Linear(3, 1)),
            r"0\.1 \(Tanh\)",
        ),
        (
            nn.Sequential(nn.Linear(4, 3), nn.LeakyReLU(), nn.Linear(3, 1)),
            r"1 \(LeakyReLU\).*supported are Linear",
        ),
        (nn.Sequential(nn.Conv1d(4, 3, 1), nn.Flatten()), r"0 \(Conv1d\)"),
        (
            nn.Sequential(nn.Linear(4, 3), nn.Sigmoid(), nn.Linear(3, 1)),
            r"1 \(Sigmoid\).*multi-label",
        ),
        (
            nn.Sequential(nn.Linear(4, 1), nn.Sigmoid(), nn.Linear(1, 1)),
            r"1 \(Sigmoid\) .*last.*2 \(Linear\)",
        ),
        (
            nn.Sequential(nn.Linear(4, 3), nn.Softmax(1), nn.ReLU()),
            r"1 \(Softmax\) .*last.*2 \(ReLU\)",
        ),
        (nn.Sequential(nn.Linear(4, 3), nn.Softmax(0)), r"1 \(Softmax\).*axis 0"),
        (nn.Sequential(nn.Linear(4, 1), nn.Softmax(1)), r"softmax of one output"),
        (nn.Sequential(nn.Linear(4, 3), nn.ReLU()), r"1 \(ReLU\) has no affine layer after it"),
        (nn.Sequential(nn.ReLU(), nn.Linear(4, 1)), r"0 \(ReLU\) is applied to the input"),
        (nn.Sequential(nn.Flatten(0), nn.Linear(4, 1)), r"0 \(Flatten\).*start_dim=0"),
        (nn.Sequential(nn.Identity()), "at least one affine layer"),
        (nn.LSTM(4, 3), "LSTM"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_said_exactly_is_refused_by_name(module, message):
    with pytest.raises(UnsupportedModelError, match=message):
        load_network(module.eval())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda m, x: m.last(F.relu(m.first(x)) + m.first(x)),
            r"add \(node 'add'\).*combines two values",
        ),
        (lambda m, x: m.last(torch.cat([F.relu(m.first(x)), x], 1)), r"cat \(node 'cat'\)"),
        (lambda m, x: m.last(F.relu(m.first(x * 2.0))), r"mul \(node 'mul'\)"),
        (lambda m, x: m.last(F.gelu(m.first(x))), r"gelu \(node 'gelu'\)"),
        (
            lambda m, x: m.last(F.relu(m.first(x))) if x.sum() > 0 else x,
            r"Custom\.forward cannot be followed",
        ),
        (lambda m, x: (m.last(F.relu(m.first(x))), x), "expected one tensor of logits"),
        (lambda m, x: m.last(F.relu(m.first(x.view(-1, 2, 2)))), r"view.*rows to stay rows"),
        (lambda m, x: m.last(F.relu(m.first(x.view(8, -1)))), r"view.*rows to stay rows"),
        (lambda m, x: m.last(F.relu(m.first(x[:, :4]))), r"getitem.*indexing"),
        (lambda m, x: m.last(F.relu(m.first(x.half()))), r"half \(node 'half'\)"),
        (lambda m, x: m.last(F.relu(m.first(x.to(torch.int64)))), r"to .*torch\.int64"),
        (lambda m, x: F.linear(F.relu(m.first(x)), m.last.weight * 2.0), "mul"),
        (lambda m, x: x.size(0), "expected it to return logits"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_custom_forward_that_does_something_else(call, message):
    with pytest.raises(UnsupportedModelError, match=message):
        load_network(Custom(call).eval())


def test_an_operation_in_place_whose_result_is_not_used():
    def call(module, x):
        z = module.last(F.relu(module.first(x)))
        z.relu_()
        return z

    with pytest.raises(
        UnsupportedModelError, match=r"relu_ \(node 'relu_'\): its result is not used"
    ):
        load_network(Custom(call).eval())


@pytest.mark.parametrize("shared", ["module", "parameter"])
def test_shared_layers_are_refused(shared):
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    module = nn.Sequential(
        first, nn.ReLU(), first if shared == "module" else second, nn.ReLU(), nn.Linear(4, 1)
    )
    with pytest.raises(UnsupportedModelError, match="is used twice"):
        load_network(module)


@pytest.mark.parametrize("layer", [nn.Dropout(0.2), nn.BatchNorm1d(6)], ids=repr)
def test_training_mode_is_refused(layer):
    module = nn.Sequential(nn.Linear(4, 6), layer, nn.ReLU(), nn.Linear(6, 1))
    with pytest.raises(
        InvalidInputError, match=rf"1 \({type(layer).__name__}\) in training mode: call model.eval"
    ):
        load_network(module)


@pytest.mark.parametrize("training", [True, False])
def test_dropout_as_a_function_that_is_on(training):
    module = Custom(lambda m, x: m.last(F.dropout(F.relu(m.first(x)), 0.3))).train(training)
    with pytest.raises(InvalidInputError, match=r"dropout .*training=self\.training"):
        load_network(module)


def test_hooks_may_change_values():
    module = nn.Sequential(*body())
    module[0].register_forward_hook(lambda *_: None)
    with pytest.raises(UnsupportedModelError, match=r"0 \(Linear\) has forward hooks"):
        load_network(module)


def test_two_inputs():
    class Two(nn.Module):
        def forward(self, x, y):
            return x + y

    with pytest.raises(UnsupportedModelError, match=r"one input, got \['x', 'y'\]"):
        load_network(Two())


def test_parameters_without_numbers():
    with pytest.raises(InvalidInputError, match="meta device"):
        load_network(nn.Sequential(nn.Linear(4, 1, device="meta")))


def test_widths_that_do_not_fit():
    with pytest.raises(
        InvalidInputError, match=r"2 \(Linear\): expected weights for 3 columns, got 5"
    ):
        load_network(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(5, 1)))


@pytest.mark.parametrize("thing", [torch.zeros(3), torch.float32], ids=["tensor", "dtype"])
def test_other_torch_objects(thing):
    with pytest.raises(UnsupportedModelError, match=r"expected a torch\.nn\.Module, got torch"):
        load_network(thing)


def test_torchscript_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        script = torch.jit.script(nn.Sequential(*body()))
    with pytest.raises(
        UnsupportedModelError, match="got TorchScript: pass the module it was compiled from"
    ):
        load_network(script)


def test_a_compiled_module_is_the_module_it_wraps():
    module = nn.Sequential(*body())
    with warnings.catch_warnings():
        # The compiler's own modules use what torch has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        compiled = torch.compile(module)
    assert load_network(compiled) == load_network(module)


def test_torch_is_not_imported_without_need():
    program = (
        "import sys, holdfast.importers as i; from holdfast import Network\n"
        "i.load_network(Network([[[1.0]]], [[0.0]])); sys.exit('torch' in sys.modules or 'onnx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
