"""Networks with hidden layers that have no activation."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPClassifier

import holdfast as hf


def _network(rng: np.random.Generator, sizes: list[int], activations: list[str]) -> hf.Network:
    weights = [rng.normal(size=(b, a)) for a, b in pairwise(sizes)]
    biases = [rng.normal(size=size) for size in sizes[1:]]
    return hf.Network(weights, biases, activations=activations)


SHAPES = [
    ([3, 4, 1], ["identity"]),
    ([3, 4, 3], ["identity"]),
    ([3, 4, 3, 1], ["identity", "relu"]),
    ([3, 3, 4, 3], ["relu", "identity"]),
    ([3, 3, 3, 1], ["identity", "identity"]),
]


@pytest.mark.parametrize("hidden", [(5,), (6, 4)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_scikit_learn_identity_perceptron_is_imported(hidden: tuple[int, ...], n_classes: int):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    y = np.argmax(X[:, :n_classes], axis=1)
    clf = MLPClassifier(
        hidden, activation="identity", max_iter=20, tol=1e3, n_iter_no_change=50, random_state=0
    )
    with pytest.warns(Warning, match="Maximum iterations"):
        clf.fit(X, y)
    network = hf.load_network(clf)
    assert network.activations == ("identity",) * len(hidden)
    logits = network.logits(X)
    if n_classes == 2:
        probabilities = 1.0 / (1.0 + np.exp(-logits[:, 0]))
        np.testing.assert_allclose(probabilities, clf.predict_proba(X)[:, 1], atol=1e-9)
    else:
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        np.testing.assert_allclose(
            shifted / shifted.sum(axis=1, keepdims=True), clf.predict_proba(X), atol=1e-9
        )
    np.testing.assert_array_equal(network.predict(X), clf.predict(X))


def test_two_torch_layers_in_a_row_stay_two_layers():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)).double().eval()
    network = hf.load_network(module)
    assert network.activations == ("identity",)
    X = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_allclose(
        network.logits(X), module(torch.from_numpy(X)).detach().numpy(), atol=1e-12
    )


@pytest.mark.parametrize(("sizes", "activations"), SHAPES)
def test_no_sampled_change_leaves_the_bounds_or_breaks_a_robust_point(
    sizes: list[int], activations: list[str]
):
    rng = np.random.default_rng(7)
    network = _network(rng, sizes, activations)
    changes = hf.PlausibleChanges(0.03)
    X = rng.normal(size=(60, sizes[0]))
    bounds = hf.output_bounds(network, X, changes)
    certs = hf.certify(network, X, network.predict(X), changes)
    assert certs.robust.any()
    # Corners of the box are where networks break: sample those.
    for _ in range(300):
        signs = [rng.choice([-0.0299, 0.0299], weight.shape) for weight in network.weights]
        shifts = [rng.choice([-0.0299, 0.0299], bias.shape) for bias in network.biases]
        changed = network.with_parameters(
            [w + s for w, s in zip(network.weights, signs, strict=True)],
            [b + s for b, s in zip(network.biases, shifts, strict=True)],
        )
        logits = changed.logits(X)
        assert (logits >= bounds.lower).all()
        assert (logits <= bounds.upper).all()
        assert (changed.predict(X) == network.predict(X))[certs.robust].all()


@pytest.mark.parametrize(("sizes", "activations"), SHAPES)
def test_witnesses_are_inside_the_changes_and_flip(sizes: list[int], activations: list[str]):
    rng = np.random.default_rng(3)
    network = _network(rng, sizes, activations)
    changes = hf.PlausibleChanges(0.1)
    X = rng.normal(size=(80, sizes[0]))
    certs = hf.certify(network, X, network.predict(X), changes)
    broken = np.flatnonzero([verdict is hf.Verdict.NOT_ROBUST for verdict in certs.verdict])
    assert broken.size
    for row in broken:
        witness = certs.witness(int(row))
        assert changes.contains(network, witness)
        assert witness.predict(X[row : row + 1])[0] != network.predict(X[row : row + 1])[0]


def test_one_hidden_layer_is_decided_exactly():
    rng = np.random.default_rng(5)
    network = _network(rng, [4, 6, 1], ["identity"])
    X = rng.normal(size=(500, 4))
    certs = hf.certify(network, X, network.predict(X), hf.PlausibleChanges(0.05))
    assert all(verdict is not hf.Verdict.UNKNOWN for verdict in certs.verdict)


def test_the_smallest_case_by_hand():
    # v = x with x = -1, z = -v + 0: a negative value makes the weight move the other way.
    network = hf.Network([[[1.0]], [[-1.0]]], [[0.0], [0.0]], activations=["identity"])
    bounds = hf.output_bounds(network, [[-1.0]], hf.PlausibleChanges(0.1, biases=False))
    assert bounds.lower[0, 0] == pytest.approx(0.9 * 0.9)
    assert bounds.upper[0, 0] == pytest.approx(1.1 * 1.1)


def test_saved_and_compared_with_its_activations(tmp_path):
    network = _network(np.random.default_rng(0), [2, 3, 1], ["identity"])
    network.save(tmp_path / "net.npz")
    assert hf.Network.load(tmp_path / "net.npz") == network
    assert network != hf.Network(network.weights, network.biases)


@pytest.mark.parametrize(("sizes", "activations"), SHAPES)
def test_the_radius_is_where_certify_changes_its_mind(sizes: list[int], activations: list[str]):
    rng = np.random.default_rng(9)
    network = _network(rng, sizes, activations)
    X = rng.normal(size=(6, sizes[0]))
    classes = network.predict(X)
    radius = hf.certified_radius(network, X, classes)
    assert radius.met.all()
    for x, label, low, high in zip(X, classes, radius.lower, radius.upper, strict=True):
        assert low > 0.0
        assert hf.certify(
            network, x[None], label, hf.PlausibleChanges(float(low) * (1.0 - 1e-6))
        ).robust[0]
        changes = hf.PlausibleChanges(float(high) * (1.0 + 1e-6))
        witness = hf.certify(network, x[None], label, changes).witness(0)
        assert changes.contains(network, witness)
        assert witness.predict(x[None])[0] != label


def test_the_radius_of_the_smallest_case_by_hand():
    """z = w u x at x = -1 with w = -1, u = 1: |u| falls to 1 - r and |w| to 1 - r, and the product is 0 at r = 1."""
    network = hf.Network([[[1.0]], [[-1.0]]], [[0.0], [0.0]], activations=["identity"])
    radius = hf.certified_radius(network, [[-1.0]], 1, biases=False)
    assert radius.lower[0] <= 1.0 <= radius.upper[0]
    assert radius.met.all()
