"""Δ, the set of plausible model changes, and the distance that defines it.

    Δ = { θ' : ||θ' - θ||_p <= delta },   weights and biases together

With one radius per layer, each layer's change is bounded by its own radius in the same norm. With one per parameter, Δ
is any box around today's parameters: each may go down and up by radii of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from holdfast._files import Document
from holdfast._given import given_number
from holdfast._network import Bools, Floats, Network
from holdfast._numbers import at_most
from holdfast.changes._kind import Chance, Changes, check_policy
from holdfast.errors import InvalidInputError

Radius = float | Floats


class LayerRadius(NamedTuple):
    """How far a layer's weights and its biases may move: a number each, or (2, *shape) with [down, up]."""

    weight: Radius
    bias: Radius


def down_up(radius: Radius, ndim: int = 0) -> tuple[Radius, Radius]:
    """How far down and how far up, of a radius as `layer_radii` gives it.

    An array like a parameter of `ndim` dimensions, the same in both directions, is told from [down, up] by that number.

    Examples
    --------
    >>> down_up(0.5), down_up(np.array([[0.0, 0.25], [0.5, 0.25]]))
    ((0.5, 0.5), (array([0.  , 0.25]), array([0.5 , 0.25])))
    """
    if isinstance(radius, float) or np.ndim(radius) <= ndim:
        return radius, radius
    down, up = radius
    return down, up


@dataclass(frozen=True, eq=False, repr=False)
class PlausibleChanges(Changes):
    """Every network whose parameters differ from today's by at most `delta` in the p-norm `norm`.

    Parameters
    ----------
    delta
        One radius for all parameters together, one for each layer, or one for each parameter: for each layer an array
        like its weights (out, in), or two of them, [down, up], for how far each may go down and how far up. A radius
        may be 0 (that stays as it is), but not every one.
    norm
        p >= 1, `math.inf` by default: each single parameter moves by at most delta. Radii for each parameter take inf.
    biases
        False leaves the biases as they are. With radii for each parameter the alternative is those of the biases: for
        each layer an array (out,), or two of them, [down, up].
    chance
        What was measured of promises under this Δ; `risk_calibrated` fills it in.
    threshold
        Between which probabilities the decision threshold may move, ``(0.6, 0.8)``: the promise then survives a change
        of policy too. None: it stays.

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
    >>> upwards = PlausibleChanges([[[[0.0, 0.0]], [[0.1, 0.3]]]], biases=[[0.05]])
    >>> upwards
    PlausibleChanges(a radius for each parameter, at most 0.3)
    >>> [upwards.contains(net, Network([[[-1.0, weight]]], [[0.0]])) for weight in (0.75, 1.25)]
    [False, True]
    """

    kind: ClassVar[str] = "parameters"
    unit: ClassVar[str] = "delta"

    delta: float | tuple[float, ...] | tuple[Floats, ...]
    norm: float = math.inf
    biases: bool | tuple[Floats, ...] = True
    chance: Chance | None = None
    threshold: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        norm = _check_norm(self.norm)
        delta = _items(self.delta)
        biases = _items(self.biases)
        if biases is None and not isinstance(self.biases, bool | np.bool_):
            raise InvalidInputError(
                f"biases: expected True, False, or radii for each layer, got {self.biases!r}"
            )
        if delta is None or all(_items(part) is None for part in delta):
            if biases is not None:
                raise InvalidInputError(
                    "biases: expected True or False, got radii without one for each weight in delta"
                )
            radii: Any = _radius(self.delta) if delta is None else tuple(map(_radius, delta))
            moved: Any = bool(self.biases)
        else:
            if norm != math.inf or (biases is None and self.biases):
                raise InvalidInputError(
                    "delta: expected norm=inf, and biases=False or a radius for each bias, beside a radius for each "
                    f"weight, got norm={norm:g}, biases={self.biases if biases is None else 'radii'}"
                )
            radii = _arrays(delta, 2, "delta")
            moving = _arrays(biases or (), 1, "biases")
            sizes = [part.shape[-2] for part in radii]
            given = [part.shape[-1] for part in moving]
            if biases is not None and given != sizes:
                raise InvalidInputError(
                    f"biases: expected radii for {sizes} biases, layer by layer, got {given}"
                )
            moved = moving if any(part.any() for part in moving) else False
        policy = check_policy(self.threshold)
        vars(self).update(delta=radii, biases=moved, norm=norm, threshold=policy)
        if self.size == 0.0:
            raise InvalidInputError(
                f"expected delta > 0, got {self.words if self.per_parameter else self.delta}"
            )

    @property
    def per_layer(self) -> bool:
        """Whether each layer has a radius of its own."""
        return isinstance(self.delta, tuple) and not self.per_parameter

    @property
    def per_parameter(self) -> bool:
        """Whether each parameter has a radius of its own."""
        return isinstance(self.delta, tuple) and any(
            isinstance(part, np.ndarray) for part in self.delta
        )

    @property
    def dual_norm(self) -> float:
        """q with 1/p + 1/q = 1: how far a p-ball of parameters moves the output of a neuron."""
        if self.norm == math.inf:
            return 1.0
        return math.inf if self.norm == 1.0 else self.norm / (self.norm - 1.0)

    @property
    def size(self) -> float:
        """The radius; of several the largest, whose ball holds them all."""
        return float(max(map(np.max, self._parts), default=0.0))

    @property
    def least(self) -> float:
        """The radius; of several the least, whose ball lies in all."""
        return float(min(map(np.min, self._parts)))

    @property
    def _parts(self) -> tuple[Radius, ...]:
        radii = self.delta if isinstance(self.delta, tuple) else (self.delta,)
        return (*radii, *self.biases) if isinstance(self.biases, tuple) else radii

    def resized(self, size: float) -> PlausibleChanges:
        """The same shape with another largest radius."""
        return (
            self.scaled(size / self.size)
            if isinstance(self.delta, tuple)
            else super().resized(size)
        )

    def in_words(self, number: Callable[[float], str] = at_most) -> str:
        """The radius as people read it, never more than it is, with whatever is unusual about Δ.

        Examples
        --------
        >>> PlausibleChanges(0.02).words, PlausibleChanges((0.01, 0.02), norm=2, biases=False).words
        ('delta = 0.02', 'delta = (0.01, 0.02) layer by layer in norm 2, biases as they are')
        >>> PlausibleChanges([[[0.01, 0.02]]], biases=[[0.03]]).words
        'a radius for each parameter, at most 0.03'
        """
        if self.per_parameter:
            text = f"a radius for each parameter, at most {number(self.size)}"
        else:
            shown = ", ".join(map(number, map(float, self._parts)))
            text = f"delta = ({shown}) layer by layer" if self.per_layer else f"delta = {shown}"
        parts = [f" in norm {self.norm:g}"] * (self.norm != math.inf) + [", biases as they are"] * (
            not self.biases
        )
        return text + "".join(parts) + self.policy

    @property
    def every_model(self) -> str:
        """The models inside Δ."""
        return f"every model within {self.words}"

    def facts(self) -> Document:
        """The radii, with every digit."""
        norm = "inf" if self.norm == math.inf else self.norm
        return {"delta": _plain(self.delta), "norm": norm, "biases": _plain(self.biases)}

    def to_dict(self) -> Document:
        """As of every kind; files from before there were kinds have none."""
        return {name: part for name, part in super().to_dict().items() if name != "kind"}

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> PlausibleChanges:
        """What `facts` wrote.

        Examples
        --------
        >>> changes = PlausibleChanges([[[0.01, 0.02]]], biases=[[0.03]])
        >>> PlausibleChanges.from_dict(changes.to_dict()) == changes
        True
        """
        return cls(facts["delta"], float(facts["norm"]), facts["biases"])

    def layer_radii(self, network: Network) -> list[LayerRadius]:
        """The radius of each layer's weights and biases."""
        n = len(network.weights)
        radii: tuple[Radius, ...] = (
            self.delta if isinstance(self.delta, tuple) else (self.delta,) * n
        )
        if len(radii) != n:
            raise InvalidInputError(
                f"expected one radius for each of the {n} layers, got {len(radii)}"
            )
        biases = (
            self.biases if isinstance(self.biases, tuple) else radii if self.biases else (0.0,) * n
        )
        if isinstance(radii[0], float):
            return list(map(LayerRadius, radii, biases))
        shapes = [weight.shape for weight in network.weights]
        got = [np.shape(part)[-2:] for part in radii]
        if got != shapes:
            raise InvalidInputError(
                f"delta: expected radii for weights of the shapes {shapes}, got {got}"
            )
        return [
            LayerRadius(
                np.stack(down_up(weight, 2)),
                bias if isinstance(bias, float) else np.stack(down_up(bias, 1)),
            )
            for weight, bias in zip(radii, biases, strict=True)
        ]

    def scaled(self, factor: float) -> PlausibleChanges:
        """The same set with every radius multiplied by `factor`."""
        delta: Any = (
            tuple(part * factor for part in self.delta)
            if isinstance(self.delta, tuple)
            else self.delta * factor
        )
        biases = (
            tuple(part * factor for part in self.biases)
            if isinstance(self.biases, tuple)
            else self.biases
        )
        return replace(self, delta=delta, biases=biases, chance=None)

    @property
    def _key(self) -> tuple[object, ...]:
        arrays = tuple((np.shape(part), np.asarray(part).tobytes()) for part in self._parts)
        return (
            self.norm,
            bool(self.biases),
            isinstance(self.delta, tuple),
            arrays,
            self.threshold,
            self.chance,
        )

    def __repr__(self) -> str:
        if self.per_parameter:
            return f"PlausibleChanges({self.words})"
        return f"PlausibleChanges(delta={self.delta}, norm={self.norm}, biases={self.biases})"

    def _table(self) -> list[tuple[str, object]]:
        several = f"{at_most(self.least)} to {at_most(self.size)}, by parameter"
        return [
            (
                "how far each parameter may move"
                if self.norm == math.inf
                else "how far they may move together",
                several if self.per_parameter else self.delta,
            ),
            ("norm", self.norm),
            ("biases", "move too" if self.biases else "stay as they are"),
            *super()._table()[1:],
        ]

    def contains(self, today: Network, other: Network) -> bool:
        """Whether `other` is `today` after a plausible change; decided in exact arithmetic for norms 1, 2, inf."""
        check_alike(today, other)
        radii = self.layer_radii(today)
        if self.norm == math.inf:
            for ours, theirs, radius in zip(
                _parameters(today), _parameters(other), itertools.chain(*radii), strict=True
            ):
                if not _near(theirs, ours, radius).all():
                    return False
            return True
        if not (self.biases or all(map(np.array_equal, today.biases, other.biases))):
            return False
        groups = zip(self._together(today), self._together(other), radii, strict=False)
        return all(_in_ball(a, b, float(radius.weight), self.norm) for a, b, radius in groups)

    def _together(self, network: Network) -> list[Floats]:
        """The parameters that share a radius, in one row each: a layer's, or all; without biases that stay."""
        layers = [
            np.append(weight, bias if self.biases else ())
            for weight, bias in zip(network.weights, network.biases, strict=True)
        ]
        return layers if self.per_layer else [np.concatenate(layers)]

    def sample(
        self, network: Network, n: int, seed: int | np.random.Generator | None = None
    ) -> list[Network]:
        """`n` networks drawn uniformly from Δ, each inside it to the last bit."""
        check_alike(network, network)
        rng = np.random.default_rng(seed)
        return [self._sample_one(network, rng) for _ in range(n)]

    def _sample_one(self, network: Network, rng: np.random.Generator) -> Network:
        parts = list(_parameters(network))
        radii = self.layer_radii(network)
        if self.norm == math.inf:
            steps = [
                _box_step(part, radius, rng)
                for part, radius in zip(parts, itertools.chain(*radii), strict=True)
            ]
        else:
            drawn = [
                _ball_step(group, float(radius.weight), self.norm, rng)
                for group, radius in zip(self._together(network), radii, strict=False)
            ]
            sizes = [part.size if self.biases or part.ndim == 2 else 0 for part in parts]
            steps = np.split(np.concatenate(drawn), np.cumsum(sizes)[:-1])
        moved = [
            move_within(part, step.reshape(part.shape) if step.size else 0.0 * part, radius)
            for part, step, radius in zip(parts, steps, itertools.chain(*radii), strict=True)
        ]
        return network.with_parameters(moved[::2], moved[1::2])


def parameter_distance(a: Network, b: Network, norm: float = math.inf) -> float:
    """The paper's p-distance between two networks of the same shape: the p-norm of the difference of their parameters.

    Examples
    --------
    >>> parameter_distance(Network([[[-1.0, 1.0]]], [[0.0]]), Network([[[0.8, 1.0]]], [[0.0]]))
    1.8
    """
    norm = _check_norm(norm)
    check_alike(a, b)
    moved = map(np.subtract, _parameters(b), _parameters(a))
    return float(p_norm(np.concatenate([*map(np.ravel, moved)]), norm))


@np.errstate(over="ignore", invalid="ignore")
def p_norm(values: Floats, norm: float) -> Floats:
    """The p-norm along the last axis, also where p-th powers are too small or too large for floats.

    Examples
    --------
    >>> round(float(p_norm(np.full(3, 0.02), 400.0)), 6), p_norm(np.array([[3e-200, 4e-200]]), 2.0)
    (0.020055, array([5.e-200]))
    """
    if norm in (1.0, math.inf):
        return np.asarray(np.linalg.norm(values, norm, axis=-1))
    largest = np.abs(values).max(axis=-1, initial=0.0)
    scale = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
    return np.asarray(scale * np.linalg.norm(values / scale[..., None], norm, axis=-1))


@np.errstate(over="ignore")
def p_norm_above(values: Floats, norm: float) -> Floats:
    """At least the p-norm along the last axis of numbers that are each known to a few roundings; 0 if they all are.

    The largest contributes exactly 1 to the sum of powers. A quotient is off by a factor 1 + u, which the root takes
    out of the power again; a power, the sum and the root add at most m + 30 more.

    Examples
    --------
    >>> bool(p_norm_above(np.array([3e-200, 4e-200]), 2.0) < 5e-200 * (1.0 + 1e-14))
    True
    """
    size = p_norm(values, norm)
    above = size * (1.0 + (values.shape[-1] + 40) * 2.0**-53) + 5e-324
    return np.where(size > 0.0, above, size)


def move_within(center: Floats, step: Floats, radius: Radius) -> Floats:
    """`center + step`, rounded towards `center` wherever rounding would carry it further than `radius` away."""
    moved = center + step
    outside = ~_near(moved, center, radius)
    if outside.any():
        moved = np.where(outside, np.nextafter(moved, center), moved)
        moved = np.where(_near(moved, center, radius), moved, center)
    return moved


def _near(a: Floats, b: Floats, radius: Radius) -> Bools:
    """-down <= a - b <= up in exact arithmetic, by an error-free subtraction: a - b = difference + error."""
    down, up = down_up(radius, np.ndim(b))
    difference = a - b
    subtracted = difference - a
    error = (a - (difference - subtracted)) + (-b - subtracted)
    distance = np.abs(difference)
    reach = np.where(difference > 0, up, down)
    outward = np.where(difference > 0, error, -error)
    return np.asarray((distance < reach) | ((distance == reach) & (outward <= 0)))


def _parameters(network: Network) -> Iterator[Floats]:
    """Weights and biases, layer by layer."""
    return itertools.chain(*zip(network.weights, network.biases, strict=True))


def check_alike(a: Network, b: Network) -> None:
    """Refuse what are not two networks of the same build."""
    for network in (a, b):
        if not isinstance(network, Network):
            raise InvalidInputError(
                f"expected a holdfast Network (see load_network), got {type(network).__name__}"
            )
    shapes = [*map(np.shape, a.weights)]
    if shapes != [*map(np.shape, b.weights)] or a.activations != b.activations:
        raise InvalidInputError(f"expected two networks of the same shape, got {a!r} and {b!r}")


def _in_ball(a: Floats, b: Floats, radius: float, norm: float) -> bool:
    """||a - b||_p <= radius, in exact fractions where the norm allows it; otherwise not unless it surely is."""
    if norm not in (1.0, 2.0):
        return bool(p_norm_above(a - b, norm) <= radius)
    power = int(norm)
    moved = (
        abs(Fraction(x) - Fraction(y)) ** power for x, y in zip(a.tolist(), b.tolist(), strict=True)
    )
    return sum(moved, Fraction(0)) <= Fraction(radius) ** power


def _box_step(center: Floats, radius: Radius, rng: np.random.Generator) -> Floats:
    down, up = down_up(radius, center.ndim)
    share = rng.uniform(size=center.shape)
    return share * up - (1.0 - share) * down


def _ball_step(center: Floats, radius: float, norm: float, rng: np.random.Generator) -> Floats:
    """A point drawn uniformly from a p-ball (Barthe et al. 2005), with room for the rounding of `center` + step."""
    powers = rng.gamma(1.0 / norm, 1.0, center.size)
    direction = powers ** (1.0 / norm) * rng.choice([-1.0, 1.0], center.size)
    room = radius * (1.0 - 1e-9) - float(p_norm(np.spacing(np.abs(center) + radius), norm))
    return np.asarray(
        direction / (np.sum(powers) + rng.exponential()) ** (1.0 / norm) * max(room, 0.0)
    )


def _check_norm(norm: float) -> float:
    value = given_number(norm)
    if value == 0.0:
        raise InvalidInputError(
            "expected a norm p >= 1 or inf, got 0: it counts parameters and does not bound how far they move"
        )
    if value is None or not value >= 1.0:
        raise InvalidInputError(f"expected a norm p >= 1 or inf, got {norm}")
    return value


def _items(value: object) -> Sequence[Any] | None:
    """The radii in a sequence of them; None for a single one."""
    if isinstance(value, np.ndarray):
        return list(value) if value.ndim else None
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else None


def _radius(value: object) -> float:
    radius = given_number(value)
    if radius is None:
        raise InvalidInputError(f"expected delta to be a number > 0, got {value!r}")
    if not (math.isfinite(radius) and radius >= 0.0):
        raise InvalidInputError(f"expected delta > 0 and finite, got {value}")
    return radius


def _arrays(given: Sequence[Any], ndim: int, name: str) -> tuple[Floats, ...]:
    """Read-only radii for parameters of `ndim` dimensions, [down, up] only where the two differ."""
    radii = []
    for i, part in enumerate(given):
        try:
            array = np.array(part, dtype=np.float64) + 0.0
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(
                f"{name}[{i}]: expected an array of radii, got {error}"
            ) from error
        if (
            array.size == 0
            or array.ndim not in (ndim, ndim + 1)
            or (array.ndim > ndim and array.shape[0] != 2)
        ):
            shape = (
                "(out, in) like the layer's weights"
                if ndim == 2
                else "(out,) like the layer's biases"
            )
            raise InvalidInputError(
                f"{name}[{i}]: expected an array {shape}, or two, [down, up], got {array.shape}"
            )
        if not (np.isfinite(array) & (array >= 0.0)).all():
            raise InvalidInputError(
                f"{name}[{i}]: expected radii >= 0 and finite, got {array.min()} to {array.max()}"
            )
        down, up = down_up(array, ndim)
        array = np.array(down if np.array_equal(down, up) else array)
        array.setflags(write=False)
        radii.append(array)
    return tuple(radii)


def _plain(radii: object) -> Any:
    return [np.asarray(part).tolist() for part in radii] if isinstance(radii, tuple) else radii
