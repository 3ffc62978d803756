"""Walks through a network under Δ: forwards over boxes, forwards on sides, backwards with multipliers.

Every neuron owns its parameters, and each parameter is between `weight - down` and `weight + up` (biases too). So
for a layer's input v, its preactivation z may be any value between its two sides,

    L = low v                       U = high v                      where v >= 0: after a ReLU
    L = high v - (high - low) v⁺    U = low v + (high - low) v⁺     where v has either sign;  v⁺ = max(v, 0)

with low = weight - down, high = weight + up and the biases as one more column. Later layers see of a neuron a
function c z + d z⁺ of its preactivation: c = 0 after a ReLU; without an activation d comes from the second line
above. With a lower bound  l L + u U + k,  l >= 0, it becomes such a function of the layer before:

    after a ReLU   c = 0,               d = l low + u high
    otherwise      c = l high + u low,  d = (u - l) (high - low)

The walk starts from a margin's own row, with its L, and ends at the first hidden layer, where the points determine
an interval for each neuron. (Boxes instead of points would be one more layer, without activation.) `scale`
multiplies all radii: a number, or a column with one number for each row of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any

import numpy as np

from holdfast._arrays import Array, RowBatch, array_namespace, beside, row_sum, take_rows, to_numpy
from holdfast._network import Floats, Network, Values
from holdfast.changes import PlausibleChanges
from holdfast.changes._parameters import Radius, down_up

# Of the function  c z + d z⁺  of each neuron, summed up, c (None for 0) and d, and a constant.
Line = tuple[Array | None, Array, Array]

# What a layer on sides that are the same for all rows multiplies by and adds.
Fixed = tuple[Array, Array] | None

# A sum of n products is off by n units of the last place of their absolute values, in whatever order it is taken, and
# by what products below the normal range lose: all they have, on some devices. Both several times over.
_UNIT, _TINY = 2.0**-50, 2.0**-1016


@dataclass(frozen=True)
class Layer:
    """Affine functions with their radii; `rectified` says that their input is never negative."""

    weight: Array
    bias: Array
    down: Array
    up: Array
    bias_down: Array
    bias_up: Array
    rectified: bool
    scale: Array = 1.0

    def on(self, convert: Any) -> Layer:
        """The same layer with its arrays in another library or on another device."""
        parts = [getattr(self, field.name) for field in fields(self)]
        # What is one array stays one.
        known: dict[int, Any] = {
            id(part): part if isinstance(part, float | bool) else convert(part) for part in parts
        }
        return Layer(*(known[id(part)] for part in parts))

    @cached_property
    def ends(self) -> tuple[Array, Array, Array, Array]:
        """`low` and `high` of the weights, (out, in) each, or (n, out, in) if every row has its own scale; then
        biases."""
        scale = self.scale if isinstance(self.scale, float) else self.scale[:, :, None]
        biases = self.bias - self.scale * self.bias_down, self.bias + self.scale * self.bias_up
        return self.weight - scale * self.down, self.weight + scale * self.up, *biases

    def today(self, values: Array) -> Array:
        """The preactivations with today's parameters, (n, out)."""
        return values @ self.weight.T + self.bias

    def sides(
        self, values: Array, plus: Array | None = None, today: Array | None = None
    ) -> tuple[Array, Array]:
        """L and U at some values, (n, out) each; `plus` replaces v⁺ if a relaxation changed it."""
        center = self.today(values) if today is None else today
        # Where v >= 0 it is v⁺.
        plus = activated(values, not self.rectified) if plus is None else plus

        def moved(one: Array, other: Array) -> Array:
            """The moves down and up, with one radius on v⁺ and the other on v⁻."""
            return _at(plus, one) if self.rectified else _at(plus, one) + _at(plus - values, other)

        below = moved(self.down, self.up)
        above = below if self.up is self.down else moved(self.up, self.down)
        return (
            center - self.scale * (below + self.bias_down),
            center + self.scale * (above + self.bias_up),
        )

    def on_side(self, values: Array, side: Array, plus: Array | None = None) -> Array:
        """The preactivations on one side each: low (True) or high, or a number from -1 (low) to 1 (high)."""
        xp = array_namespace(values)
        if side.dtype == xp.bool:
            return xp.where(side, *self.sides(values, plus))
        center = self.today(values)
        below, above = self.sides(values, today=center)
        return center + side * xp.where(side < 0.0, center - below, above - center)

    def share(self, values: Array, z: Array, relu: bool) -> Array:
        """The side of z, or of its activation, from -1 (low) to 1 (high), for `on_side`."""
        xp, center = array_namespace(values), self.today(values)
        bottom, top = self.sides(values, today=center)
        reach = xp.where(z < center, center - bottom, top - center)
        share = xp.where(reach > 0.0, (z - center) / xp.where(reach > 0.0, reach, 1.0), 0.0)
        share = xp.where(z >= activated(top, relu), 1.0, share)
        share = xp.where(z <= activated(bottom, relu), -1.0, share)
        return xp.minimum(xp.maximum(share, -1.0), 1.0)

    def pull(self, lower: Array, upper: Array) -> Line:
        """c (None for 0), d and the constant of  lower L + upper U  for the layer before; multipliers (n, ..., out)."""
        scale = one_scale = self.scale
        if not isinstance(scale, float):
            scale = scale if lower.ndim == 2 else scale[:, :, None]
            one_scale = scale[..., 0]
        both = lower + upper
        center = both @ self.weight
        bias = _dot(upper, self.bias_up) - _dot(lower, self.bias_down)
        constant = both @ self.bias + one_scale * bias
        if self.rectified:
            return None, center + scale * (_by(upper, self.up) - _by(lower, self.down)), constant
        width = scale * (_by(upper - lower, self.down) + _by(upper - lower, self.up))
        return (
            center + scale * (_by(lower, self.up) - _by(upper, self.down)),
            width + 0.0 * center,
            constant,
        )

    @cached_property
    def lines(self) -> list[Line]:
        """L, U and -U of every neuron as functions of the layer before."""
        one = beside(self.weight, np.eye(self.weight.shape[0])[None, ...])
        return [self.pull(one, 0.0 * one), self.pull(0.0 * one, one), self.pull(0.0 * one, -one)]

    def over(self, low: Array, high: Array) -> list[Array]:
        """The least L, the least U and the greatest U over a box of values, (n, out) each, exact up to rounding."""
        xp, least = array_namespace(low), []
        for c, d, constant in self.lines:
            if c is None and d.shape[0] == 1:
                # The same for all rows: two products are faster.
                positive, negative = xp.maximum(d[0, ...], 0.0), xp.minimum(d[0, ...], 0.0)
                least.append(low @ positive.T + high @ negative.T + constant)
            else:
                least.append(Box(low, high).least(c, d)[0] + constant)
        return [*least[:2], -least[2]]

    def size(self, values: Array) -> Array:
        """An upper bound of all sums of absolute values in computing this layer for |v| <= values, (n, out)."""
        xp = array_namespace(values)
        reach = _at(values, self.down) + _at(values, self.up) + self.bias_down + self.bias_up
        return values @ xp.abs(self.weight).T + xp.abs(self.bias) + self.scale * reach

    @property
    def terms(self) -> float:
        """An upper bound, with a safety factor, of the number of roundings in a sum."""
        return float(self.weight.shape[1]) + 8.0


def slack(terms: float, size: Array, factors: Array = 1.0) -> Array:
    """A bound of the error of `terms` roundings, with terms that add up to `size`.

    Each product may underflow, and its multipliers, `factors` in all, magnify the loss.
    """
    return terms * (_UNIT * size + _TINY * factors)


def _side_by_side(parts: list[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Join the arrays of each layer (last first) into arrays of all layers."""
    if len(parts) == 1:
        return parts[0]
    concat = array_namespace(parts[0][0]).concat
    return tuple(concat(part, axis=-1) for part in zip(*parts[::-1], strict=True))


def activated(values: Array, relu: bool) -> Array:
    """The output of a layer from its preactivations."""
    return array_namespace(values).maximum(values, 0.0) if relu else values


def chords(bottom: Array, top: Array) -> tuple[Array, Array]:
    """Slope and intercept of the line above z⁺ on each range; valid at both ends after rounding of the slope."""
    xp = array_namespace(top)
    high, low = xp.maximum(top, 0.0), xp.minimum(bottom, 0.0)
    width = high - low
    slope = high / xp.where(width > 0.0, width, 1.0)
    slope = xp.where(bottom >= 0.0, 1.0, xp.where(top <= 0.0, 0.0, slope))
    intercept = xp.maximum(-slope * low, (1.0 - slope) * high)
    return slope, xp.where((bottom < 0.0) & (top > 0.0), intercept, 0.0)


def _by(rows: Array, radius: Array) -> Array:
    """rows @ radius; a number means a matrix filled with it."""
    return row_sum(rows) * radius if isinstance(radius, float) else rows @ radius


def _at(values: Array, radius: Array) -> Array:
    """values @ radius.T likewise."""
    return row_sum(values) * radius if isinstance(radius, float) else values @ radius.T


def _dot(rows: Array, radius: Array) -> Array:
    """rows @ radius for a vector likewise."""
    return row_sum(rows)[..., 0] * radius if isinstance(radius, float) else rows @ radius


@dataclass(frozen=True)
class Margin:
    """A margin that must stay >= 0, or > 0 if `strict`: one logit minus another; -1 means the constant 0.

    `row` and `offset` are the margin as a function of the last hidden layer; `count` is its number of output rows.
    """

    row: Floats
    offset: float
    count: int
    strict: bool
    above: int
    below: int

    @classmethod
    def of(cls, network: Network, above: int, below: int, *, strict: bool = False) -> Margin:
        """The margin of one logit over another, or over 0."""
        margin = cls(np.zeros(0), 0.0, 0, strict, above, below)
        signs = margin.signs(network.n_outputs)
        row, offset = signs @ network.weights[-1], float(signs @ network.biases[-1])
        return replace(margin, row=row, offset=offset, count=int(np.abs(signs).sum()))

    def signs(self, n_outputs: int) -> Floats:
        """The sign of each logit in the margin: 1, -1 or 0."""
        ones = np.eye(n_outputs + 1, n_outputs)
        return np.asarray(ones[self.above] - ones[self.below])

    def reach(self, radius: Radius) -> tuple[Array, Array]:
        """The radii of the margin down and up, from these radii of the output layer's parameters."""
        down, up = down_up(radius)
        if isinstance(down, float) or isinstance(up, float):
            return (self.count * down,) * 2
        # The logit that is taken off moves the margin down where it goes up.
        signs = self.signs(down.shape[0])[None, :]
        kept, taken = np.maximum(signs, 0.0), np.maximum(-signs, 0.0)
        return kept @ down + taken @ up, kept @ up + taken @ down


def margins_for(network: Network, target: int) -> list[Margin]:
    """The margins of the class at index `target`: one for each rival, in order."""
    if network.n_outputs == 1:
        return [Margin.of(network, *((0, -1) if target == 1 else (-1, 0)), strict=target == 0)]
    rivals = [rival for rival in range(network.n_outputs) if rival != target]
    return [Margin.of(network, target, rival, strict=rival < target) for rival in rivals]


@dataclass(frozen=True)
class Layers(RowBatch):
    """The hidden layers under a box Δ, followed by one margin."""

    hidden: tuple[Layer, ...]
    relus: tuple[bool, ...]
    margin: Layer

    @classmethod
    def of(cls, network: Network, changes: PlausibleChanges, margin: Margin) -> Layers:
        """The layers of `network` under `changes` (as if its norm were inf), followed by a margin."""
        *radii, last = changes.layer_radii(network)
        relus = tuple(kind == "relu" for kind in network.activations)
        # What a layer reads is never negative after a ReLU.
        *reads, rectified = False, *relus
        hidden = tuple(
            Layer(weight, bias, *down_up(radius.weight), *down_up(radius.bias), read)
            for weight, bias, radius, read in zip(
                network.weights, network.biases, radii, reads, strict=False
            )
        )
        (down, up), (bias_down, bias_up) = map(margin.reach, last)
        row, offset = margin.row[None, :], np.array([margin.offset])
        return cls(hidden, relus, Layer(row, offset, down, up, bias_down, bias_up, rectified))

    @property
    def all(self) -> tuple[Layer, ...]:
        """The hidden layers and the margin."""
        return *self.hidden, self.margin

    def on(self, convert: Any) -> Layers:
        """The same layers with their arrays in another library or on another device."""
        return Layers(
            tuple(layer.on(convert) for layer in self.hidden), self.relus, self.margin.on(convert)
        )

    def scaled(self, scale: Array) -> Layers:
        """The layers with every radius multiplied by `scale`: a number, or a column."""
        hidden = tuple(replace(layer, scale=scale) for layer in self.hidden)
        return Layers(hidden, self.relus, replace(self.margin, scale=scale))

    def take(self, rows: Array) -> Layers:
        """The layers for some rows of the table."""
        scale = self.margin.scale
        return self if isinstance(scale, float) else self.scaled(take_rows(scale, rows))

    @cached_property
    def spans(self) -> list[tuple[int, slice]]:
        """Each later hidden layer, last first, with its columns in an array of all later neurons."""
        spans, start = [], 0
        for i, layer in enumerate(self.hidden[1:], 1):
            spans.append((i, slice(start, start + layer.weight.shape[0])))
            start += layer.weight.shape[0]
        return spans[::-1]

    @property
    def before(self) -> int:
        """The number of later neurons before the last hidden layer."""
        return int(self.spans[0][1].start)

    def start(self, points: Array) -> Box:
        """The box of the first hidden layer's preactivations at these points, rounding included."""
        xp = array_namespace(points)
        first = self.hidden[0]
        low, high = first.sides(points)
        spare = slack(first.terms, first.size(xp.abs(points)))
        return Box(low - spare, high + spare)

    @cached_property
    def norms(self) -> list[tuple[float, float, float]]:
        """For each layer, and for the margin, the sizes that bound its rounding.

        They are the greatest sum of |weights| of a row (radii included), the greatest |bias| (radius included), and
        the number of roundings in a sum.
        """
        xp, norms = array_namespace(self.margin.weight), []
        for layer in self.all:
            weights = xp.abs(layer.weight) + layer.scale * (layer.down + layer.up)
            biases = xp.abs(layer.bias) + layer.scale * (layer.bias_down + layer.bias_up)
            norms.append((float(xp.max(row_sum(weights))), float(xp.max(biases)), layer.terms))
        return norms

    @cached_property
    def terms(self) -> float:
        """An upper bound, with a safety factor, of the number of roundings in a walk back."""
        return sum(layer.terms for layer in self.all)

    @cached_property
    def lowest(self) -> Fixed:
        """Matrix and bias of the margin on its low side; None for negative input, or radii that differ by row."""
        if not self.margin.rectified or not isinstance(self.margin.scale, float):
            return None
        low, _, bias, _ = self.margin.ends
        return low, bias

    @cached_property
    def worst(self) -> Fixed:
        """Matrix and bias of the last hidden layer on the margin's worst sides, if these are equal for all rows."""
        layer = self.hidden[-1]
        if self.lowest is None or not layer.rectified:
            return None
        xp, is_low = array_namespace(layer.weight), self.lowest[0][0, :] > 0.0
        low, high, *biases = layer.ends
        return xp.where(is_low[:, None], low, high), xp.where(is_low, *biases)

    @cached_property
    def wanted(self) -> Line:
        """c, d and the constant at the start of a walk back: the margin's L, once or for each row."""
        if self.lowest:
            return None, *self.lowest
        one, scale = self.margin.bias[None, :], self.margin.scale
        one = array_namespace(one).ones_like(one if isinstance(scale, float) else scale)
        return self.margin.pull(one, 0.0 * one)

    def pulled(self, i: int, total: Array, low: Array) -> Line:
        """`pull` for multipliers of layer i's neurons: of L where `low`, else of U."""
        if i == len(self.hidden) - 1 and self.worst:
            matrix, bias = self.worst
            return None, total @ matrix, total @ bias
        lower = array_namespace(total).where(low, total, 0.0)
        return self.hidden[i].pull(lower, total - lower)

    def back(
        self,
        bound: Callable[[slice, Array], tuple[Array, Array]],
        *,
        low: Array | None = None,
        line: Line | None = None,
        before: int | None = None,
    ) -> tuple[Line, Array, Array, Array]:
        """Walk back: c, d and the constant at the first layer; for later neurons the multiplier, the side, and d.

        `bound` maps the columns of a layer and its d to the multiplier that bounds  d z⁺, and to the constant.
        Sides are the worst for these multipliers, or those in `low`. The walk begins with `line` before layer
        `before`; by default with the margin.
        """
        c, d, constant = self.wanted if line is None else line
        xp = array_namespace(d)
        met: list[tuple[Array, ...]] = []
        for i, span in self.spans:
            if before is not None and i >= before:
                continue
            total, added = bound(span, d)
            total = total if c is None else c + total
            d = d if d.shape == total.shape else xp.broadcast_to(d, total.shape)
            # After a ReLU also of a neuron that is inactive.
            worst = d if c is None else total
            is_low = worst > 0.0 if low is None else low[:, span]
            met.append((total, is_low, d))
            c, d, more = self.pulled(i, total, is_low)
            constant = constant + added + more
        return (c, d, constant), *(_side_by_side(met) if met else (d[:, :0],) * 3)

    def gradient(self, z: Array, low: Array | None = None) -> tuple[Line, Array, Array, Array]:
        """Walk back with exactly the later neurons active whose z is positive: `back` without a relaxation."""
        active = array_namespace(z).astype(z > 0.0, z.dtype)
        return self.back(lambda span, d: (d * active[:, span], 0.0), low=low)

    def on_side(self, i: int, values: Array, low: Array, plus: Array | None = None) -> Array:
        """The preactivations of layer i on these sides (the last layer is the margin); `plus` as for `sides`."""
        last = i == len(self.hidden) - 1
        if last and low.dtype == array_namespace(low).bool and self.worst:
            matrix, bias = self.worst
            return values @ matrix.T + bias
        return self.hidden[i].on_side(values, low, plus)

    def seen(
        self,
        values: Array,
        low: Array | None,
        handed: Callable[[int, slice, Array], tuple[Array, Array | None]] | None = None,
    ) -> Array:
        """Walk forwards: z of every later neuron on its side, (n, N); today's z if `low` is None.

        `values` are the outputs of the first hidden layer. `handed` computes the outputs of later layers and their
        v⁺; by default it applies their activation.
        """
        seen: list[tuple[Array, ...]] = []
        plus = None
        for i, span in self.spans[::-1]:
            layer = self.hidden[i]
            z = layer.today(values) if low is None else self.on_side(i, values, low[:, span], plus)
            seen.append((z,))
            if layer is self.hidden[-1]:
                break
            values, plus = handed(i, span, z) if handed else (activated(z, self.relus[i]), None)
        return _side_by_side(seen[::-1])[0] if seen else values[:, :0]

    def reach(self, values: Array, low: Array) -> tuple[Array, Array]:
        """The margin (n,) of the network in Δ with these first values and later neurons on these sides, and their z.

        `low` is a flag for the low side, or a number from -1 (low) to 1 (high).
        """
        z = self.seen(values, low)
        if self.spans:
            values = activated(z[:, self.before :], self.relus[-1])
        return self.reached(values), z

    def reached(self, values: Array) -> Array:
        """The worst margin for the outputs `values` of the last hidden layer, (n,)."""
        if self.lowest is None:
            return self.margin.sides(values)[0][:, 0]
        row, bias = self.lowest
        return (values @ row.T + bias)[:, 0]

    def least(self, points: Array) -> Array:
        """The interval bound of the margin, (n,), before any allowance for rounding."""
        low, high = self.hidden[0].sides(points)
        for layer, relu in zip(self.all[1:], self.relus, strict=True):
            low, _, high = layer.over(activated(low, relu), activated(high, relu))
        return low[:, 0]


def forward_error(norms: Sequence[tuple[Any, Any, float]], magnitude: Any) -> Any:
    """A bound of the rounding error of a margin or an interval bound, for these norms and |x| <= magnitude."""
    error = 0.0 * magnitude
    for norm, edge, terms in norms:
        bulk = norm * magnitude + edge
        error = norm * error + slack(terms, bulk)
        magnitude = bulk + error
    return error


@dataclass(frozen=True)
class Box(RowBatch):
    """The box [low, high] of a layer's outputs, (n, H) each."""

    low: Array
    high: Array

    def least(self, c: Array | None, d: Array) -> tuple[Array, Array]:
        """The minimum over the box of  c z + d z⁺  summed over the neurons, (n, ...), and its z."""
        xp = array_namespace(self.low)
        low, high = (
            (self.low, self.high) if d.ndim == 2 else (self.low[:, None, :], self.high[:, None, :])
        )
        if c is None:
            corner = xp.where(d > 0.0, low, high)
            return xp.vecdot(d, corner), corner
        at_low, at_high = (c * end + d * xp.maximum(end, 0.0) for end in (low, high))
        least, corner = xp.minimum(at_low, at_high), xp.where(at_low < at_high, low, high)
        inside = (low < 0.0) & (high > 0.0) & (least > 0.0)
        return xp.sum(xp.where(inside, 0.0, least), axis=-1), xp.where(inside, 0.0, corner)


class Pass:
    """A fast forward pass: affine functions with a ReLU between them.

    Each function is a transposed matrix and its bias; `relus` says where a ReLU is missing. A first matrix with
    twice as many rows as variables reads x⁺ and x⁻ side by side; for points x >= 0 the first half is enough.
    """

    def __init__(
        self,
        parts: Sequence[tuple[Floats, Floats]],
        n_features: int,
        convert: Any,
        relus: Sequence[bool] | None = None,
    ) -> None:
        self.relus = relus or (True,) * len(parts)
        wholes = [np.concatenate([matrix, bias[None, :]]) for matrix, bias in parts]
        # What takes [v | 1] to [v matrix + bias | 1]: a longer product costs less than a sum.
        for k, whole in enumerate(wholes[:-1]):
            wholes[k] = np.concatenate([whole, np.eye(len(whole))[:, -1:]], axis=1)
        self.split = len(wholes[0]) > n_features + 1
        self.either_sign, *self.later = map(convert, wholes)
        self.nonnegative = convert(np.concatenate([wholes[0][:n_features], wholes[0][-1:]]))

    def __call__(self, points: Array) -> Array:
        """The output of the last function at points, (n, k)."""
        xp, numpy, first = array_namespace(points), isinstance(points, np.ndarray), self.nonnegative
        columns = [points]
        if self.split and not xp.min(points) >= 0.0:
            first, plus = self.either_sign, xp.maximum(points, 0.0)
            columns = [plus, plus - points]
        one = _filled((points.shape[0], 1), 1.0) if numpy else xp.ones_like(points[:, :1])
        values = xp.concat([*columns, one], axis=1) @ first
        for matrix, relu in zip(self.later, self.relus, strict=False):
            if relu and numpy:
                # In the memory that is there: fresh memory costs more than the sums, and a number more than zeros.
                np.maximum(values, _filled(values.shape, 0.0), out=values)
            elif relu:
                values = xp.maximum(values, 0.0)
            values = values @ matrix
        return values


def interval_pass(layers: Sequence[Layers], convert: Any = np.asarray) -> Pass:
    """The interval bounds of several margins as one plain pass of twice the width, for networks with ReLU everywhere.

    The values are the lower and upper ends side by side:

        first layer     L = low x⁺ - high x⁻,  U = high x⁺ - low x⁻
        later layers    low  <- low⁺ low + low⁻ high      with low⁺, low⁻ the positive and negative entries
                        high <- high⁺ high + high⁻ low
        margin          low⁺ low + low⁻ high

    Columns that no margin uses are left out; with a single margin that is half of the last layer's columns.
    """
    parts: list[tuple[Floats, Floats]] = []
    margins = zip(*map(attrgetter("margin.ends"), layers), strict=True)
    ends = [layer.ends for layer in layers[0].hidden]
    for low, high, *biases in (*ends, map(np.concatenate, margins)):
        if parts:
            lower = np.maximum(low, 0.0), np.minimum(low, 0.0)
            upper = np.minimum(high, 0.0), np.maximum(high, 0.0)
        else:
            lower, upper = (low, -high), (high, -low)
        parts.append((np.block([[*lower], [*upper]]).T, np.concatenate(biases)))
    matrix, bias = (part[..., : len(layers)] for part in parts.pop())
    if parts:
        before, edges = parts.pop()
        used = np.flatnonzero(np.any(matrix != 0.0, axis=1))
        parts.append((before[:, used], edges[used]))
        matrix = matrix[used]
    parts.append((matrix, bias))
    return Pass(parts, layers[0].all[0].weight.shape[1], convert)


def suspect(layers: Layers, convert: Any) -> tuple[Values, Pass]:
    """The sides and the margin of one network in Δ that breaks most breakable rows; needs ReLU everywhere.

    If every later neuron is active, these are the worst sides for every point.
    """
    sides, slope = [np.ones(1, dtype=bool)], np.ones((1, 1))
    parts: list[tuple[Floats, Floats]] = []
    for layer in layers.all[::-1]:
        low, high, *biases = map(to_numpy, layer.ends)
        is_low = sides[-1]
        rows, others = np.where(is_low[:, None], (low, high), (high, low))
        parts.append((rows.T, np.where(is_low, *biases)))
        slope = slope @ rows
        sides.append(slope[0] > 0.0)
    matrix, bias = parts[-1]
    # Of negative values the other end of a weight is the worst.
    parts[-1] = np.concatenate([matrix, -others.T]), bias
    chosen = 1 - 2 * np.concatenate(sides[-2:0:-1]).astype(np.int8)
    return chosen, Pass(parts[::-1], matrix.shape[0], convert)


@lru_cache(maxsize=16)
def _filled(shape: tuple[int, ...], value: float) -> Floats:
    return np.full(shape, value)
