"""Δ, the set of plausible model changes, and the distance that defines it.

    Δ = { θ' : ||θ' - θ||_p <= delta },   weights and biases together

One radius per layer bounds each layer's change by its own radius in the same norm. Radii per parameter make Δ any
box around today's parameters: each parameter has its own radius down and up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from holdfast._files import Document, Facts
from holdfast._given import given_number
from holdfast._network import Bools, Floats, Ints, Network
from holdfast._numbers import at_most
from holdfast.changes._kind import Chance, Changes, Inside, Interval, check_policy
from holdfast.errors import InvalidInputError

Radius = float | Floats
# What radii for parameters of one and two dimensions look like.
_LIKE = {1: "(out,) like the layer's biases", 2: "(out, in) like the layer's weights"}


class LayerRadius(NamedTuple):
    """The radii of a layer's weights and of its biases: a number each, or (2, *shape) with [down, up]."""

    weight: Radius
    bias: Radius


def down_up(radius: Radius, ndim: int = 0) -> tuple[Radius, Radius]:
    """Split a radius from `layer_radii` into the radius down and the radius up.

    An array with the `ndim` dimensions of the parameter is one radius for both directions; [down, up] has one more.

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
        One radius for all parameters together, one for each layer, or one for each parameter. Radii for parameters
        are, for each layer, an array like its weights (out, in), or two such arrays, [down, up]. A radius of 0
        keeps its parameters; at least one radius must be positive.
    norm
        The p of the norm, at least 1. The default `math.inf` lets every single parameter move by at most delta.
        Radii for each parameter need inf.
    biases
        False keeps the biases. If delta has a radius for each parameter, give the radii of the biases here: for
        each layer an array (out,), or two, [down, up].
    chance
        The measured chance of broken promises; `risk_calibrated` fills it in.
    threshold
        The range of probabilities within which the decision threshold may move, such as ``(0.6, 0.8)``. The proof
        then also covers a change of policy. None keeps the threshold.
    inside
        The probability that the next retraining lies in Δ; `delta_calibrated` fills it in.

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
    threshold: Interval | None = None
    inside: Inside | None = None

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
                    "biases: radii for biases need a radius for each weight in delta; use True or False with one delta"
                )
            radii: Any = _radius(self.delta) if delta is None else tuple(map(_radius, delta))
            moved: Any = bool(self.biases)
        else:
            if norm != math.inf or (biases is None and self.biases):
                raise InvalidInputError(
                    "delta: a radius for each weight needs norm=inf, and biases=False or a radius for each bias, got "
                    f"norm={norm:g}, biases={self.biases if biases is None else 'radii'}"
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
        return any(isinstance(part, np.ndarray) for part in self._parts)

    @property
    def dual_norm(self) -> float:
        """The q with 1/p + 1/q = 1, the norm in which a p-ball of parameters moves a neuron's output."""
        if self.norm == math.inf:
            return 1.0
        return math.inf if self.norm == 1.0 else self.norm / (self.norm - 1.0)

    @property
    def size(self) -> float:
        """The radius; of several the largest, whose ball contains all others."""
        return float(max(map(np.max, self._parts), default=0.0))

    @property
    def least(self) -> float:
        """The radius; of several the least, whose ball is inside all others."""
        return float(min(map(np.min, self._parts)))

    @property
    def _parts(self) -> tuple[Radius, ...]:
        radii = self.delta if isinstance(self.delta, tuple) else (self.delta,)
        return (*radii, *self.biases) if isinstance(self.biases, tuple) else radii

    def resized(self, size: float) -> PlausibleChanges:
        """The same shape with another largest radius."""
        if isinstance(self.delta, float):
            return super().resized(size)
        return self.scaled(size / self.size)

    def in_words(self, number: Callable[[float], str] = at_most) -> str:
        """The radius in words, rounded down, with the norm, the biases and the threshold if they are unusual.

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
        norm = "" if self.norm == math.inf else f" in norm {self.norm:g}"
        biases = "" if self.biases else ", biases as they are"
        return text + norm + biases + self.policy

    @property
    def every_model(self) -> str:
        """The models inside Δ, as the subject of a sentence."""
        return f"every model within {self.words}"

    def facts(self) -> Document:
        """As for every kind; the norm inf is text, because JSON has no infinity."""
        return super().facts() | {"norm": "inf" if self.norm == math.inf else self.norm}

    def to_dict(self) -> Document:
        """As for every kind, without the key ``kind``."""
        return {name: part for name, part in super().to_dict().items() if name != "kind"}

    @classmethod
    def of_facts(cls, facts: Facts) -> Self:
        """Read the values that `facts` wrote.

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
        radii: Any = self.delta if isinstance(self.delta, tuple) else (self.delta,) * n
        if len(radii) != n:
            raise InvalidInputError(
                f"expected one radius for each of the {n} layers, got {len(radii)}"
            )
        if not self.per_parameter:
            return [LayerRadius(radius, radius if self.biases else 0.0) for radius in radii]
        shapes = [weight.shape for weight in network.weights]
        got = [np.shape(part)[-2:] for part in radii]
        if got != shapes:
            raise InvalidInputError(
                f"delta: expected radii for weights of the shapes {shapes}, got {got}"
            )
        both = [np.stack(down_up(radius, 2)) for radius in radii]
        biases: list[Radius] = [0.0] * n
        if isinstance(self.biases, tuple):
            biases = [np.stack(down_up(radius, 1)) for radius in self.biases]
        return list(map(LayerRadius, both, biases))

    def scaled(self, factor: float) -> PlausibleChanges:
        """The same set with every radius multiplied by `factor`."""
        if isinstance(self.delta, float):
            return super().resized(self.delta * factor)
        delta: Any = tuple(part * factor for part in self.delta)
        biases: Any = self.biases
        if isinstance(biases, tuple):
            biases = tuple(part * factor for part in biases)
        return self._measured_at(self.size * factor, delta=delta, biases=biases)

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
        ours, theirs, radii = flat(today), flat(other), self._radii(today)
        if self.norm == math.inf:
            return bool(within(theirs, ours, radii).all())
        still = radii[1] == 0.0
        return np.array_equal(theirs[still], ours[still]) and all(
            _in_ball(theirs[rows], ours[rows], radius, self.norm)
            for rows, radius in self.balls(today)
        )

    def _radii(self, network: Network) -> Floats:
        """The largest move of each single parameter down and up, (2, parameters), in the order of `flat`."""
        each = zip(_parameters(network), itertools.chain(*self.layer_radii(network)), strict=True)
        sides = [np.broadcast_to(radius, (2, *part.shape)).reshape(2, -1) for part, radius in each]
        return np.concatenate(sides, axis=1)

    def balls(self, network: Network) -> list[tuple[Ints, float]]:
        """The places in `flat` of parameters that share a radius (a layer's, or all), and the radius."""
        radii = self._radii(network)[1]
        moving = np.flatnonzero(radii)
        starts = np.searchsorted(moving, part_ends(network)[1::2] if self.per_layer else [])
        together = np.split(moving, starts)
        return [(rows, float(radii[rows[0]])) for rows in together if rows.size]

    def sample(
        self, network: Network, n: int, seed: int | np.random.Generator | None = None
    ) -> list[Network]:
        """Draw `n` networks uniformly from Δ; each is exactly inside."""
        check_alike(network, network)
        rng = np.random.default_rng(seed)
        center, radii, networks = flat(network), self._radii(network), []
        balls = self.balls(network)
        for _ in range(n):
            if self.norm == math.inf:
                share = rng.uniform(size=center.size)
                step = share * radii[1] - (1.0 - share) * radii[0]
            else:
                step = np.zeros(center.size)
                for rows, radius in balls:
                    step[rows] = _ball_step(center[rows], radius, self.norm, rng)
            networks.append(rebuilt(network, move_within(center, step, radii)))
        return networks


def parameter_distance(a: Network, b: Network, norm: float = math.inf) -> float:
    """The paper's p-distance between two networks of the same shape: the p-norm of the difference of their parameters.

    Examples
    --------
    >>> parameter_distance(Network([[[-1.0, 1.0]]], [[0.0]]), Network([[[0.8, 1.0]]], [[0.0]]))
    1.8
    """
    norm = _check_norm(norm)
    check_alike(a, b)
    return float(p_norm(flat(b) - flat(a), norm))


@np.errstate(over="ignore", invalid="ignore")
def p_norm(values: Floats, norm: float) -> Floats:
    """The p-norm along the last axis, also for p-th powers that overflow or underflow.

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
    """An upper bound of the p-norm along the last axis, for numbers with a few roundings each; 0 if all are 0.

    The largest number contributes exactly 1 to the sum of powers. A quotient is off by a factor 1 + u, which the
    root removes again; a power, the sum and the root add at most m + 30 more.

    Examples
    --------
    >>> bool(p_norm_above(np.array([3e-200, 4e-200]), 2.0) < 5e-200 * (1.0 + 1e-14))
    True
    """
    size = p_norm(values, norm)
    above = size * (1.0 + (values.shape[-1] + 40) * 2.0**-53) + 5e-324
    return np.where(size > 0.0, above, size)


def move_within(center: Floats, step: Floats, radius: Radius) -> Floats:
    """`center + step`, rounded towards `center` where rounding would exceed `radius`."""
    moved = center + step
    outside = ~within(moved, center, radius)
    if outside.any():
        moved = np.where(outside, np.nextafter(moved, center), moved)
        moved = np.where(within(moved, center, radius), moved, center)
    return moved


@np.errstate(over="ignore", invalid="ignore")
def within(a: Floats, b: Floats, radius: Radius) -> Bools:
    """Whether -down <= a - b <= up in exact arithmetic: a - b = difference + error, without rounding."""
    down, up = down_up(radius, np.ndim(b))
    difference = a - b
    subtracted = difference - a
    error = (a - (difference - subtracted)) + (-b - subtracted)
    low_enough = (difference < up) | ((difference == up) & (error <= 0))
    high_enough = (difference > -down) | ((difference == -down) & (error >= 0))
    # Two infinities have no difference.
    return np.asarray((a == b) | (low_enough & high_enough))


def _parameters(network: Network) -> Iterator[Floats]:
    """Weights and biases, layer by layer."""
    return itertools.chain(*zip(network.weights, network.biases, strict=True))


def flat(network: Network) -> Floats:
    """All parameters in one row: layer by layer, the weights and then the biases."""
    return np.concatenate([part.ravel() for part in _parameters(network)])


def part_ends(network: Network) -> Ints:
    """The places in `flat` where one layer's weights or biases end and the next begin."""
    return np.cumsum([part.size for part in _parameters(network)])[:-1]


def apart(network: Network, rows: Floats) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Split rows in the order of `flat`, (..., parameters), into each layer's weights and biases."""
    split = zip(np.split(rows, part_ends(network), axis=-1), _parameters(network), strict=True)
    shaped = [part.reshape(*rows.shape[:-1], *like.shape) for part, like in split]
    return tuple(shaped[::2]), tuple(shaped[1::2])


def rebuilt(network: Network, row: Floats) -> Network:
    """A network of the same build with the parameters in this row."""
    return network.with_parameters(*apart(network, row))


def check_alike(a: Network, b: Network) -> None:
    """Raise unless both are networks of the same build."""
    for network in (a, b):
        if not isinstance(network, Network):
            raise InvalidInputError(
                f"expected a holdfast Network, got {type(network).__name__}; use load_network(model)"
            )
    shapes = [*map(np.shape, a.weights)]
    if shapes != [*map(np.shape, b.weights)] or a.activations != b.activations:
        raise InvalidInputError(f"expected two networks of the same shape, got {a!r} and {b!r}")


def _in_ball(a: Floats, b: Floats, radius: float, norm: float) -> bool:
    """Whether ||a - b||_p <= radius, in exact fractions if the norm allows it; otherwise False when in doubt."""
    if norm not in (1.0, 2.0):
        return bool(p_norm_above(a - b, norm) <= radius)
    (ours, theirs), power = whole_numbers(np.stack([a, b]))
    moved = Fraction((abs(ours - theirs) ** int(norm)).sum())
    return moved <= (Fraction(radius) / Fraction(2) ** power) ** int(norm)


def whole_numbers(values: Floats) -> tuple[NDArray[np.object_], int]:
    """Floats as whole numbers times one power of two, and that power: exact arithmetic for whole arrays.

    Examples
    --------
    >>> whole_numbers(np.array([0.5, -3.0]))[0] * Fraction(2) ** whole_numbers(np.array([0.5, -3.0]))[1]
    array([Fraction(1, 2), Fraction(-3, 1)], dtype=object)
    """
    parts, powers = np.frexp(values)
    least = int(powers.min(where=values != 0.0, initial=2000))
    above = np.maximum(powers - least, 0).astype(object)
    return np.ldexp(parts, 53).astype(np.int64).astype(object) * 2**above, least - 53


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
            "norm: expected p >= 1 or inf, got 0, which counts changed parameters and does not bound their moves"
        )
    if value is None or not value >= 1.0:
        raise InvalidInputError(f"norm: expected p >= 1 or inf, got {norm}")
    return value


def _items(value: object) -> Sequence[Any] | None:
    """The radii of a sequence; None for a single radius."""
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
    """Read-only radii for parameters of `ndim` dimensions; [down, up] only if the two differ."""
    radii = []
    for i, part in enumerate(given):
        try:
            array = np.array(part, dtype=np.float64) + 0.0
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(
                f"{name}[{i}]: expected an array of radii, got {error}"
            ) from error
        if not array.size or array.ndim < ndim or array.shape[:-ndim] not in ((), (2,)):
            raise InvalidInputError(
                f"{name}[{i}]: expected an array {_LIKE[ndim]}, or two, [down, up], got {array.shape}"
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
