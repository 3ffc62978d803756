"""Δ of every shape: what may be said, what is in it, and that it is stored and said as it is."""

import copy
import json
import math
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.changes._parameters import down_up, move_within, p_norm, p_norm_above
from random_networks import random_network

NETWORK = hf.Network([np.arange(6.0).reshape(2, 3), [[1.0, -1.0]]], [[0.5, -0.5], [0.25]])
WEIGHTS = [np.array([[0.1, 0.0, 0.2], [0.3, 0.1, 0.0]]), np.array([[0.05, 0.0]])]
SIDES = [np.stack([WEIGHTS[0], 2.0 * WEIGHTS[0]]), np.stack([WEIGHTS[1], 0.0 * WEIGHTS[1]])]
BIASES = [np.array([0.1, 0.0]), np.array([0.02])]
SHAPES = {
    "one radius": hf.PlausibleChanges(0.1),
    "weights only": hf.PlausibleChanges(0.1, biases=False),
    "layers": hf.PlausibleChanges((0.1, 0.0)),
    "layers in norm 2": hf.PlausibleChanges((0.1, 0.2), norm=2, biases=False),
    "together in norm 1.5": hf.PlausibleChanges(0.1, norm=1.5),
    "parameters": hf.PlausibleChanges(WEIGHTS, biases=BIASES),
    "parameters but biases": hf.PlausibleChanges(WEIGHTS, biases=False),
    "sides": hf.PlausibleChanges(SIDES, biases=[np.stack([part, 3.0 * part]) for part in BIASES]),
    "sides of one layer": hf.PlausibleChanges([SIDES[0], WEIGHTS[1]], biases=BIASES),
    "sides as lists": hf.PlausibleChanges(
        [part.tolist() for part in SIDES], biases=[part.tolist() for part in BIASES]
    ),
}


def inside_exactly(changes, network, other):
    """Every parameter, in fractions."""
    for weight, bias, new_weight, new_bias, radius in zip(
        network.weights,
        network.biases,
        other.weights,
        other.biases,
        changes.layer_radii(network),
        strict=True,
    ):
        for old, new, reach in ((weight, new_weight, radius.weight), (bias, new_bias, radius.bias)):
            down, up = (
                np.broadcast_to(side, old.shape).ravel().tolist() for side in down_up(reach)
            )
            moves = [
                Fraction(b) - Fraction(a)
                for a, b in zip(old.ravel().tolist(), new.ravel().tolist(), strict=True)
            ]
            if not all(
                -Fraction(d) <= move <= Fraction(u)
                for d, u, move in zip(down, up, moves, strict=True)
            ):
                return False
    return True


@pytest.mark.parametrize("name", SHAPES)
def test_a_set_is_a_value(name):
    changes = SHAPES[name]
    for again in (
        pickle.loads(pickle.dumps(changes)),
        copy.deepcopy(changes),
        replace(changes),
        hf.PlausibleChanges.from_dict(json.loads(json.dumps(changes.to_dict(), allow_nan=False))),
        changes.scaled(4.0).scaled(0.25),
    ):
        assert again == changes
        assert hash(again) == hash(changes)
        assert again.words == changes.words
        for part in again.delta if again.per_parameter else ():
            with pytest.raises(ValueError, match="read-only"):
                part[:] = 1.0
    assert [other for other in SHAPES if SHAPES[other] == changes] == [name]
    assert changes != changes.scaled(1.5)
    assert changes != 0.1
    assert len(repr(changes)) < 100
    assert "cannot be shown" not in changes._repr_html_()


@pytest.mark.parametrize("name", SHAPES)
def test_samples_lie_inside_and_the_same_a_hair_further_out_does_not(name):
    changes = SHAPES[name]
    rng = np.random.default_rng(0)
    network = NETWORK.with_parameters(
        [w + rng.normal(size=w.shape) for w in NETWORK.weights], NETWORK.biases
    )
    samples = changes.sample(network, 200, seed=1)
    assert all(changes.contains(network, other) for other in samples)
    if changes.norm == math.inf:
        assert all(inside_exactly(changes, network, other) for other in samples)
        for i, radius in enumerate(changes.layer_radii(network)):
            moved = np.array([other.weights[i] - network.weights[i] for other in samples])
            down, up = (
                np.broadcast_to(side, network.weights[i].shape) for side in down_up(radius.weight)
            )
            assert (moved[:, up == 0.0] <= 0.0).all()
            assert (moved[:, down == 0.0] >= 0.0).all()
            # Uniform: both ends are nearly reached.
            np.testing.assert_allclose(moved.max(axis=0), up, atol=0.1 * (down + up).max())
            np.testing.assert_allclose(-moved.min(axis=0), down, atol=0.1 * (down + up).max())


def test_down_is_not_up():
    changes = hf.PlausibleChanges([[[[0.25, 0.0]], [[0.0, 0.5]]]], biases=[[[0.0], [0.125]]])
    network = hf.Network([[[1.0, 1.0]]], [[0.0]])
    for weight, bias, inside in (
        ([0.75, 1.5], 0.125, True),
        ([1.0, 1.0], 0.0, True),
        ([np.nextafter(0.75, 0.0), 1.0], 0.0, False),
        ([np.nextafter(1.0, 2.0), 1.0], 0.0, False),
        ([1.0, np.nextafter(1.5, 2.0)], 0.0, False),
        ([1.0, np.nextafter(1.0, 0.0)], 0.0, False),
        ([1.0, 1.0], np.nextafter(0.125, 1.0), False),
        ([1.0, 1.0], -5e-324, False),
    ):
        assert changes.contains(network, hf.Network([[weight]], [[bias]])) is inside
    assert (changes.least, changes.size) == (0.0, 0.5)


def test_the_same_down_and_up_is_one_radius_and_biases_that_stay_are_false():
    twice = [np.stack([part, part]) for part in WEIGHTS]
    assert hf.PlausibleChanges(twice, biases=BIASES) == SHAPES["parameters"]
    still = hf.PlausibleChanges(WEIGHTS, biases=[np.zeros(2), np.zeros(1)])
    assert still == SHAPES["parameters but biases"]
    assert still.biases is False
    assert still.words == "a radius for each parameter, at most 0.3, biases as they are"


def test_radii_are_read_once_and_kept():
    given = WEIGHTS[0].copy()
    changes = hf.PlausibleChanges([given, WEIGHTS[1]], biases=BIASES)
    given[:] = 9.0
    assert changes == SHAPES["parameters"]
    assert changes.size == 0.3


def test_layer_radii_have_two_sides_or_are_numbers():
    for name, changes in SHAPES.items():
        for radius, weight, bias in zip(
            changes.layer_radii(NETWORK), NETWORK.weights, NETWORK.biases, strict=True
        ):
            for part, like in ((radius.weight, weight), (radius.bias, bias)):
                assert isinstance(part, float) or part.shape == (2, *like.shape), name
    down, up = down_up(SHAPES["sides"].layer_radii(NETWORK)[0].weight)
    np.testing.assert_array_equal(up, 2.0 * down)
    # An array like the parameter is told from [down, up] by its dimensions.
    assert down_up(WEIGHTS[0], 2)[1] is WEIGHTS[0]


def test_documents():
    assert SHAPES["one radius"].to_dict() == {"delta": 0.1, "norm": "inf", "biases": True}
    assert SHAPES["layers in norm 2"].to_dict() == {
        "delta": [0.1, 0.2],
        "norm": 2.0,
        "biases": False,
    }
    assert SHAPES["parameters"].to_dict() == {
        "delta": [part.tolist() for part in WEIGHTS],
        "norm": "inf",
        "biases": [part.tolist() for part in BIASES],
    }
    assert SHAPES["sides"].to_dict()["delta"] == [part.tolist() for part in SIDES]


BAD = {
    "biases unsaid": (
        lambda: hf.PlausibleChanges(WEIGHTS),
        "biases=False or a radius for each bias.*biases=True",
    ),
    "norm": (
        lambda: hf.PlausibleChanges(WEIGHTS, 2, BIASES),
        "needs norm=inf.*got norm=2, biases=radii",
    ),
    "biases alone": (
        lambda: hf.PlausibleChanges(0.1, biases=BIASES),
        "biases: radii for biases need",
    ),
    "biases beside layers": (
        lambda: hf.PlausibleChanges((0.1, 0.1), biases=BIASES),
        "biases: radii for biases need",
    ),
    "biases by name": (
        lambda: hf.PlausibleChanges(0.1, biases="no"),
        "biases: expected True, False.*got 'no'",
    ),
    "biases left out": (
        lambda: hf.PlausibleChanges(WEIGHTS, biases=None),
        "biases: expected True, False.*got None",
    ),
    "all 0": (
        lambda: hf.PlausibleChanges([np.zeros((1, 2))], biases=[[0.0]]),
        "expected delta > 0, got a radius",
    ),
    "negative": (
        lambda: hf.PlausibleChanges([[[0.1, -0.1]]], biases=False),
        r"delta\[0\]: expected radii >= 0",
    ),
    "nan": (
        lambda: hf.PlausibleChanges([[[0.1, math.nan]]], biases=False),
        r"delta\[0\]: expected radii >= 0",
    ),
    "infinite": (
        lambda: hf.PlausibleChanges([[[math.inf]]], biases=False),
        r"delta\[0\]: expected .* finite, got inf",
    ),
    "negative bias": (
        lambda: hf.PlausibleChanges([[[1.0]]], biases=[[-1.0]]),
        r"biases\[0\]: expected radii >= 0",
    ),
    "ragged": (
        lambda: hf.PlausibleChanges([[[0.1, 0.2], [0.3]]], biases=False),
        r"delta\[0\]: expected an array",
    ),
    "words": (
        lambda: hf.PlausibleChanges([[["wide"]]], biases=False),
        r"delta\[0\]: expected an array of radii",
    ),
    "huge": (
        lambda: hf.PlausibleChanges([[[10**400]]], biases=False),
        r"delta\[0\]: expected an array of radii",
    ),
    "huge radius": (lambda: hf.PlausibleChanges(10**400), "expected delta to be a number > 0"),
    "a vector": (
        lambda: hf.PlausibleChanges([[0.1, 0.2]], biases=False),
        r"\(out, in\) like .*, got \(2,\)",
    ),
    "a mix": (
        lambda: hf.PlausibleChanges([WEIGHTS[0], 0.1], biases=False),
        r"delta\[1\]: expected .*, got \(\)",
    ),
    "three sides": (
        lambda: hf.PlausibleChanges(np.ones((1, 3, 2, 2)), biases=False),
        r"got \(3, 2, 2\)",
    ),
    "bias matrix": (
        lambda: hf.PlausibleChanges([[[1.0]]], biases=[np.ones((3, 1))]),
        r"\(out,\) .* got \(3, 1\)",
    ),
    "biases of one layer": (
        lambda: hf.PlausibleChanges(WEIGHTS, biases=BIASES[:1]),
        r"expected radii for \[2, 1\]",
    ),
    "no biases": (
        lambda: hf.PlausibleChanges(WEIGHTS, biases=[]),
        r"expected radii for \[2, 1\] biases.*got \[\]",
    ),
    "too many biases": (
        lambda: hf.PlausibleChanges([[[1.0]]], biases=[[1.0, 1.0]]),
        r"for \[1\] biases.*got \[2\]",
    ),
    "layers": (
        lambda: SHAPES["parameters"].layer_radii(hf.Network([[[1.0]]], [[0.0]])),
        "of the 1 layers, got 2",
    ),
    "shape": (
        lambda: SHAPES["parameters"].contains(
            *[hf.Network([np.ones((2, 2)), [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])] * 2
        ),
        r"delta: expected radii for weights of the shapes \[\(2, 2\), \(1, 2\)\], got \[\(2, 3\), \(1, 2\)\]",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_radius_is_named(name):
    call, message = BAD[name]
    with pytest.raises(hf.HoldfastError, match=message):
        call()


floats = st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1.0, 5e-324, -1e-300, 1e300])


@given(
    center=floats,
    step=floats,
    down=st.floats(0.0, 10.0) | st.just(0.0),
    up=st.floats(0.0, 10.0) | st.just(5e-324),
)
def test_what_is_moved_within_never_leaves(center, step, down, up):
    for radius in (np.array([[down], [up]]), np.array([down]), up):
        low, high = (float(np.ravel(side)[0]) for side in down_up(radius, 1))
        moved = move_within(np.array([center]), np.array([step]), radius)
        assert -Fraction(low) <= Fraction(float(moved[0])) - Fraction(center) <= Fraction(high)


@given(seed=st.integers(0, 2**31), power=st.integers(-9, 1))
def test_a_box_of_any_shape_against_fractions(seed, power):
    """The corners of the box and their neighbours among the floats, on the right side of it each."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, 2, (2,), 1)
    sides = [
        10.0**power * rng.random((2, *w.shape)) * (rng.random((2, *w.shape)) < 0.8)
        for w in network.weights
    ]
    biases = [10.0**power * rng.random((2, *b.shape)) for b in network.biases]
    changes = hf.PlausibleChanges(sides, biases=biases)
    for up in (0, 1):
        corner = network.with_parameters(
            [w + (2 * up - 1) * part[up] for w, part in zip(network.weights, sides, strict=True)],
            [b + (2 * up - 1) * part[up] for b, part in zip(network.biases, biases, strict=True)],
        )
        assert changes.contains(network, corner) is inside_exactly(changes, network, corner)
    one = rng.integers(0, 2)
    weights = [w.copy() for w in network.weights]
    weights[one][0, 0] += sides[one][1, 0, 0]
    for towards in (-np.inf, np.inf):
        near = [w.copy() for w in weights]
        near[one][0, 0] = np.nextafter(near[one][0, 0], towards)
        other = network.with_parameters(near, network.biases)
        assert changes.contains(network, other) is inside_exactly(changes, network, other)


@pytest.mark.parametrize("norm", [1.0, 1.0000001, 1.5, 2.0, 3.0, 400.0, 1e9, math.inf])
@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e-5, 1.0, 1e200, 1e300])
def test_norms_neither_overflow_nor_vanish(norm, scale):
    values = scale * np.array([3.0, -4.0, 0.0, 1.0])
    size = p_norm(values, norm)
    plain = p_norm(np.array([3.0, -4.0, 0.0, 1.0]), norm)
    assert size == pytest.approx(scale * plain, rel=1e-3 if scale < 1e-300 else 1e-12)
    assert p_norm_above(values, norm) > size
    assert p_norm_above(0.0 * values, norm) == 0.0


@pytest.mark.parametrize("norm", [1.0, 1.5, 2.0, 7.0])
@pytest.mark.parametrize("delta", [1e-14, 1e-9, 1e-3, 10.0])
def test_samples_of_a_ball_lie_inside_even_where_it_is_no_wider_than_rounding(norm, delta):
    for radii in (delta, (delta, 2.0 * delta)):
        changes = hf.PlausibleChanges(radii, norm)
        assert all(
            changes.contains(NETWORK, other) for other in changes.sample(NETWORK, 50, seed=0)
        )
