"""Δ, the set of plausible model changes, and the distance that defines it.

    Δ = { θ' : ||θ' - θ||_p <= delta },   weights and biases together

With one radius per layer, each layer's change is bounded by its own radius in the same norm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.drawing import at_most
from holdfast.errors import InvalidInputError
from holdfast.given import given_number
from holdfast.network import Floats, Network
from holdfast.notebook import never_fails, show


class LayerRadius(NamedTuple):
    """How far a layer's weights and its biases may move."""

    weight: float
    bias: float


@dataclass(frozen=True)
class PlausibleChanges:
    """Every network whose parameters differ from today's by at most `delta` in the p-norm `norm`.

    Parameters
    ----------
    delta
        One radius for all parameters together, or one for each layer. A layer's radius may be 0 (that layer stays as
        it is), but not every one.
    norm
        p >= 1, `math.inf` by default: each single parameter moves by at most delta.
    biases
        False leaves the biases as they are.

    Examples
    --------
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> changes = PlausibleChanges(0.1)
    >>> changes.contains(net, Network([[[-1.1, 1.0]]], [[0.05]]))
    False
    >>> changes.contains(net, Network([[[-1.0625, 1.0]]], [[0.05]]))
    True
    >>> all(changes.contains(net, changed) for changed in changes.sample(net, 100, seed=0))
    True
    """

    delta: float | tuple[float, ...]
    norm: float = math.inf
    biases: bool = True

    def __post_init__(self) -> None:
        norm = _check_norm(self.norm)
        delta: object = self.delta
        if isinstance(delta, Sequence | np.ndarray) and not isinstance(delta, str | bytes):
            radii = tuple(_radius(value) for value in delta)
            if not radii or max(radii) <= 0.0:
                raise InvalidInputError(f"expected at least one layer radius > 0, got {list(radii)}")
            object.__setattr__(self, "delta", radii)
        else:
            radius = _radius(delta)
            if radius == 0.0:
                raise InvalidInputError(f"expected delta > 0, got {self.delta}")
            object.__setattr__(self, "delta", radius)
        object.__setattr__(self, "norm", norm)
        object.__setattr__(self, "biases", bool(self.biases))

    @property
    def per_layer(self) -> bool:
        """Whether each layer has a radius of its own."""
        return isinstance(self.delta, tuple)

    @property
    def dual_norm(self) -> float:
        """q with 1/p + 1/q = 1: how far a p-ball of parameters moves the output of a neuron."""
        if self.norm == math.inf:
            return 1.0
        return math.inf if self.norm == 1.0 else self.norm / (self.norm - 1.0)

    @property
    def largest(self) -> float:
        """The radius; of several the largest, whose ball holds them all."""
        return max(self.delta) if isinstance(self.delta, tuple) else self.delta

    @property
    def words(self) -> str:
        """The radius as people read it, never more than it is, with whatever is unusual about Δ.

        Examples
        --------
        >>> PlausibleChanges(0.02).words, PlausibleChanges((0.01, 0.02), norm=2, biases=False).words
        ('delta = 0.02', 'delta = (0.01, 0.02) layer by layer in norm 2, biases as they are')
        """
        radii = self.delta if isinstance(self.delta, tuple) else (self.delta,)
        shown = ", ".join(at_most(radius) for radius in radii)
        parts = [f"delta = ({shown}) layer by layer" if self.per_layer else f"delta = {shown}"]
        parts += [f" in norm {self.norm:g}"] * (self.norm != math.inf) + [", biases as they are"] * (not self.biases)
        return "".join(parts)

    def layer_radii(self, network: Network) -> list[LayerRadius]:
        """The radius of each layer's weights and biases."""
        n_layers = len(network.weights)
        radii = self.delta if isinstance(self.delta, tuple) else (self.delta,) * n_layers
        if len(radii) != n_layers:
            raise InvalidInputError(f"expected one radius for each of the {n_layers} layers, got {len(radii)}")
        return [LayerRadius(radius, radius if self.biases else 0.0) for radius in radii]

    def scaled(self, factor: float) -> PlausibleChanges:
        """The same set with every radius multiplied by `factor`."""
        delta = tuple(r * factor for r in self.delta) if isinstance(self.delta, tuple) else self.delta * factor
        return PlausibleChanges(delta, self.norm, self.biases)

    @never_fails
    def _repr_html_(self) -> str:
        facts = [
            (
                "how far each parameter may move" if self.norm == math.inf else "how far they may move together",
                self.delta,
            ),
            ("norm", self.norm),
            ("biases", "move too" if self.biases else "stay as they are"),
        ]
        return show(f"Plausible changes: {self.words}", facts)

    def contains(self, network: Network, other: Network) -> bool:
        """Whether `other` is `network` after a plausible change; decided in exact arithmetic for norms 1, 2, inf."""
        differences = _differences(network, other)
        radii = self.layer_radii(network)
        if not self.biases and any((bias != 0).any() for _, bias in differences):
            return False
        if self.norm == math.inf:
            return all(
                _within(theirs, ours, radius.weight) and _within(their_bias, our_bias, radius.bias)
                for ours, theirs, our_bias, their_bias, radius in zip(
                    network.weights, other.weights, network.biases, other.biases, radii, strict=True
                )
            )
        layers = list(zip(_flat_layers(network), _flat_layers(other), radii, strict=True))
        if not self.per_layer:
            ours, theirs = (np.concatenate([layer[side] for layer in layers]) for side in (0, 1))
            return _in_ball(ours, theirs, radii[0].weight, self.norm)
        return all(_in_ball(ours, theirs, radius.weight, self.norm) for ours, theirs, radius in layers)

    def sample(self, network: Network, n: int, seed: int | np.random.Generator | None = None) -> list[Network]:
        """`n` networks drawn uniformly from Δ, each inside it to the last bit."""
        _check_network(network)
        rng = np.random.default_rng(seed)
        return [self._sample_one(network, rng) for _ in range(n)]

    def _sample_one(self, network: Network, rng: np.random.Generator) -> Network:
        radii = self.layer_radii(network)
        sizes = [w.size + (b.size if self.biases else 0) for w, b in zip(network.weights, network.biases, strict=True)]
        if self.norm == math.inf:
            steps = [radius.weight * rng.uniform(-1.0, 1.0, size) for radius, size in zip(radii, sizes, strict=True)]
        elif self.per_layer:
            steps = [
                radius.weight * _unit_ball(size, self.norm, rng) for radius, size in zip(radii, sizes, strict=True)
            ]
        else:
            whole = radii[0].weight * _unit_ball(sum(sizes), self.norm, rng)
            steps = np.split(whole, np.cumsum(sizes)[:-1])
        weights, biases = [], []
        for weight, bias, step, radius in zip(network.weights, network.biases, steps, radii, strict=True):
            weights.append(move_within(weight, step[: weight.size].reshape(weight.shape), radius.weight))
            moved = move_within(bias, step[weight.size :], radius.bias) if self.biases else bias
            biases.append(moved)
        return network.with_parameters(weights, biases)


def parameter_distance(a: Network, b: Network, norm: float = math.inf) -> float:
    """The paper's p-distance between two networks of the same shape: the p-norm of the difference of their parameters.

    Examples
    --------
    >>> parameter_distance(Network([[[-1.0, 1.0]]], [[0.0]]), Network([[[0.8, 1.0]]], [[0.0]]))
    1.8
    """
    norm = _check_norm(norm)
    differences = _differences(a, b)
    return p_norm(np.concatenate([part.ravel() for pair in differences for part in pair]), norm)


def p_norm(values: Floats, norm: float) -> float:
    """The p-norm of some numbers, also where their p-th powers are too small or too large for floats.

    Examples
    --------
    >>> round(p_norm(np.full(3, 0.02), 400.0), 6)
    0.020055
    """
    largest = float(np.abs(values).max(initial=0.0))
    if norm in (1.0, 2.0, math.inf) or largest == 0.0 or not math.isfinite(largest):
        return float(np.linalg.norm(values, norm))
    return largest * float(np.linalg.norm(values / largest, norm))


def move_within(center: Floats, step: Floats, radius: float) -> Floats:
    """`center + step`, rounded towards `center` wherever rounding would carry it further than `radius` away."""
    moved = center + step
    outside = ~_near(moved, center, radius)
    if outside.any():
        moved = np.where(outside, np.nextafter(moved, center), moved)
        moved = np.where(_near(moved, center, radius), moved, center)
    return moved


def _near(a: Floats, b: Floats, radius: float) -> NDArray[np.bool_]:
    """|a - b| <= radius in exact arithmetic, by an error-free subtraction: a - b = difference + error."""
    difference = a - b
    subtracted = difference - a
    error = (a - (difference - subtracted)) + (-b - subtracted)
    distance = np.abs(difference)
    outward = np.where(difference > 0, error, -error)
    return np.asarray((distance < radius) | ((distance == radius) & (outward <= 0)))


def _within(a: Floats, b: Floats, radius: float) -> bool:
    return bool(_near(a, b, radius).all())


def _check_network(network: object) -> None:
    if not isinstance(network, Network):
        raise InvalidInputError(f"expected a holdfast Network (see load_network), got {type(network).__name__}")


def _differences(a: Network, b: Network) -> list[tuple[Floats, Floats]]:
    """Layer by layer b - a; raises if the shapes differ."""
    for network in (a, b):
        _check_network(network)
    if [w.shape for w in a.weights] != [w.shape for w in b.weights] or a.activations != b.activations:
        raise InvalidInputError(f"expected two networks of the same shape, got {a!r} and {b!r}")
    return [(w2 - w1, b2 - b1) for w1, w2, b1, b2 in zip(a.weights, b.weights, a.biases, b.biases, strict=True)]


def _flat_layers(network: Network) -> list[Floats]:
    return [np.concatenate([w.ravel(), b]) for w, b in zip(network.weights, network.biases, strict=True)]


def _in_ball(a: Floats, b: Floats, radius: float, norm: float) -> bool:
    """||a - b||_p <= radius, in exact fractions where the norm allows it; otherwise not unless it surely is."""
    if norm not in (1.0, 2.0):
        return p_norm(a - b, norm) * (1.0 + (a.size + 8) * 2.0**-51) <= radius
    power = int(norm)
    moved = (abs(Fraction(x) - Fraction(y)) ** power for x, y in zip(a.tolist(), b.tolist(), strict=True))
    return sum(moved, Fraction(0)) <= Fraction(radius) ** power


def _unit_ball(size: int, norm: float, rng: np.random.Generator) -> Floats:
    """A point drawn uniformly from the unit p-ball (Barthe et al. 2005), a hair inside so that rounding is harmless."""
    magnitudes = rng.gamma(1.0 / norm, 1.0, size) ** (1.0 / norm)
    direction = magnitudes * rng.choice([-1.0, 1.0], size)
    scale = (np.sum(magnitudes**norm) + rng.exponential()) ** (1.0 / norm)
    return np.asarray(direction / scale * (1.0 - 1e-9))


def _check_norm(norm: float) -> float:
    value = given_number(norm)
    if value == 0.0:
        raise InvalidInputError(
            "expected a norm p >= 1 or inf, got 0: it counts parameters and does not bound how far they move"
        )
    if value is None or not value >= 1.0:
        raise InvalidInputError(f"expected a norm p >= 1 or inf, got {norm}")
    return value


def _radius(value: object) -> float:
    radius = given_number(value)
    if radius is None:
        raise InvalidInputError(f"expected delta to be a number > 0, got {value!r}")
    if not (math.isfinite(radius) and radius >= 0.0):
        raise InvalidInputError(f"expected delta > 0 and finite, got {value}")
    return radius
