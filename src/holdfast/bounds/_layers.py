"""The one thing that walks a network under Δ: forwards over boxes, forwards on sides, backwards with multipliers.

Every neuron owns its parameters, each of which lies between `weight - down` and `weight + up` (biases alike). So given
what a layer reads, v, its preactivation z may be anything between its two sides,

    L = low v                       U = high v                      where v >= 0: after a ReLU
    L = high v - (high - low) v⁺    U = low v + (high - low) v⁺     where v has either sign;  v⁺ = max(v, 0)

with low = weight - down, high = weight + up and the biases as one more column. What later layers see of a neuron is a
function c z + d z⁺ of its preactivation: c = 0 after a ReLU; without an activation d comes of the second line above.
Bounded from below by  l L + u U + k,  l >= 0, it becomes such a function of the layer before:

    after a ReLU   c = 0,               d = l low + u high
    otherwise      c = l high + u low,  d = (u - l) (high - low)

The walk starts from a margin's own row, whose L is wanted, and ends at what the points determine: a box, an interval of
its own for each neuron of the first hidden layer. (Points that are boxes would be one more layer, without activation.)
All radii may be multiplied by `scale`: a number, or a column with one for each row of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast._arrays import Array, RowBatch, array_namespace, row_sum, take_rows, to_numpy
from holdfast._network import Floats, Network
from holdfast.changes import PlausibleChanges
from holdfast.changes._parameters import Radius, down_up

# A sum of n products is off by n units of the last place of their absolute values, in whatever order it is taken, and
# by what products below the normal range lose: all they have, on some devices. Both several times over.
_UNIT, _TINY = 2.0**-50, 2.0**-1016


@dataclass(frozen=True)
class Layer:
    """Affine functions with their radii; `rectified` says that what they read is never negative."""

    weight: Array
    bias: Array
    down: Array
    up: Array
    bias_down: Array
    bias_up: Array
    rectified: bool
    scale: Array = 1.0

    def on(self, convert: Any) -> Layer:
        """The same layer with its arrays converted, to another library or device."""
        fields = (self.weight, self.bias, self.down, self.up, self.bias_down, self.bias_up)
        known = {
            id(part): part if isinstance(part, float) else convert(part)
            for part in (*fields, self.scale)
        }
        weight, bias, down, up, bias_down, bias_up, scale = (
            known[id(part)] for part in (*fields, self.scale)
        )
        return Layer(weight, bias, down, up, bias_down, bias_up, self.rectified, scale)

    @cached_property
    def ends(self) -> tuple[Array, Array, Array, Array]:
        """`low` and `high`, (out, in) each, or (n, out, in) where every row has a scale of its own; then of biases."""
        scale = self.scale if isinstance(self.scale, float) else self.scale[:, :, None]
        biases = self.bias - self.scale * self.bias_down, self.bias + self.scale * self.bias_up
        return self.weight - scale * self.down, self.weight + scale * self.up, *biases

    def today(self, values: Array) -> Array:
        """The preactivations with today's parameters, (n, out)."""
        return values @ self.weight.T + self.bias

    def sides(
        self, values: Array, plus: Array | None = None, today: Array | None = None
    ) -> tuple[Array, Array]:
        """L and U at some values, (n, out) each; `plus` stands for v⁺ where a relaxation has made it something else."""
        center = self.today(values) if today is None else today
        even = self.up is self.down and self.bias_up is self.bias_down
        if not self.rectified:
            plus = array_namespace(values).maximum(values, 0.0) if plus is None else plus
            minus = plus - values
            below = _at(plus, self.down) + _at(minus, self.up)
            above = below if even else _at(plus, self.up) + _at(minus, self.down)
        else:
            below = _at(values, self.down)
            above = below if even else _at(values, self.up)
        return center - self.scale * (below + self.bias_down), center + self.scale * (
            above + self.bias_up
        )

    def on_side(self, values: Array, side: Array) -> Array:
        """The preactivations on one side each: low (True) or high; or as a number from -1 to 1, how far on which."""
        xp = array_namespace(values)
        center = self.today(values)
        below, above = self.sides(values, today=center)
        if side.dtype == xp.bool:
            return xp.where(side, below, above)
        return center + side * xp.where(side < 0.0, center - below, above - center)

    def pull(self, lower: Array, upper: Array) -> tuple[Array | None, Array, Array]:
        """c (None for 0), d and the constant of  lower L + upper U  for the layer before; multipliers (n, ..., out)."""
        flat = scale = self.scale
        if not isinstance(scale, float):
            flat, scale = (scale[:, 0], scale) if lower.ndim == 2 else (scale, scale[:, :, None])
        both = lower + upper
        center = both @ self.weight
        constant = both @ self.bias + flat * (
            _dot(upper, self.bias_up) - _dot(lower, self.bias_down)
        )
        if self.rectified:
            return None, center + scale * (_by(upper, self.up) - _by(lower, self.down)), constant
        width = scale * (_by(upper - lower, self.down) + _by(upper - lower, self.up))
        return (
            center + scale * (_by(lower, self.up) - _by(upper, self.down)),
            width + 0.0 * center,
            constant,
        )

    def over(self, low: Array, high: Array) -> tuple[Array, Array, Array]:
        """The least L, the least U and the greatest U over a box of values, (n, out) each, exact but for rounding."""
        below, above, bias_low, bias_high = self.ends
        if self.rectified:
            bottom, top = _least(above, low, high), -_least(-above, low, high)
            return _least(below, low, high) + bias_low, bottom + bias_high, top + bias_high
        xp = array_namespace(low)
        ends = [(below * v[:, None, :], above * v[:, None, :]) for v in (low, high)]
        most = [xp.maximum(*pair) for pair in ends]
        # U is convex in each value, with its kink at 0.
        dip = xp.minimum(*most)
        dip = xp.where(((low < 0.0) & (high > 0.0))[:, None, :], xp.minimum(dip, 0.0), dip)
        least = xp.minimum(xp.minimum(*ends[0]), xp.minimum(*ends[1]))
        sums = [xp.sum(part, axis=2) for part in (least, dip, xp.maximum(*most))]
        return sums[0] + bias_low, sums[1] + bias_high, sums[2] + bias_high

    def size(self, values: Array) -> tuple[Array, Array]:
        """What no sum of absolute values met in computing this layer exceeds for |v| <= values; what rounding may add.

        (n, out) each.
        """
        xp = array_namespace(values)
        reach = _at(values, self.down) + _at(values, self.up) + self.bias_down + self.bias_up
        size = values @ xp.abs(self.weight).T + xp.abs(self.bias) + self.scale * reach
        return size, (self.weight.shape[1] + 8.0) * (_UNIT * size + _TINY)


def activated(values: Array, relu: bool) -> Array:
    """What a layer hands on of its preactivations."""
    return array_namespace(values).maximum(values, 0.0) if relu else values


def chords(bottom: Array, top: Array) -> tuple[Array, Array]:
    """Slope and intercept of the line above z⁺ on each range: right at both ends, however the slope was rounded."""
    xp = array_namespace(top)
    high, low = xp.maximum(top, 0.0), xp.minimum(bottom, 0.0)
    width = high - low
    slope = xp.where(width > 0.0, high / xp.where(width > 0.0, width, 1.0), 0.0)
    slope = xp.where(bottom >= 0.0, 1.0, xp.where(top <= 0.0, 0.0, slope))
    intercept = xp.maximum(-slope * low, (1.0 - slope) * high)
    return slope, xp.where((bottom < 0.0) & (top > 0.0), intercept, 0.0)


def _by(rows: Array, radius: Array) -> Array:
    """rows @ radius; one number stands for a matrix full of it."""
    return row_sum(rows) * radius if isinstance(radius, float) else rows @ radius


def _at(values: Array, radius: Array) -> Array:
    """values @ radius.T likewise."""
    return row_sum(values) * radius if isinstance(radius, float) else values @ radius.T


def _dot(rows: Array, radius: Array) -> Array:
    """rows @ radius for a vector likewise."""
    return row_sum(rows)[..., 0] * radius if isinstance(radius, float) else rows @ radius


def _least(matrix: Array, low: Array, high: Array) -> Array:
    """The least of matrix v over the box, (n, out); the matrix is (out, in), or (n, out, in)."""
    xp = array_namespace(low)
    positive, negative = xp.maximum(matrix, 0.0), xp.minimum(matrix, 0.0)
    if matrix.ndim == 2:
        return low @ positive.T + high @ negative.T
    return (positive @ low[:, :, None] + negative @ high[:, :, None])[..., 0]


@dataclass(frozen=True)
class Margin:
    """What must stay >= 0, or > 0 if `strict`: one logit above another; -1 stands for the constant 0.

    `row` and `offset` are the margin as a function of the last hidden layer, `count` how many output rows take part.
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
        row, offset, count = np.zeros(network.weights[-1].shape[1]), 0.0, 0
        for sign, output in ((1.0, above), (-1.0, below)):
            if output >= 0:
                row, count = row + sign * network.weights[-1][output], count + 1
                offset += sign * float(network.biases[-1][output])
        return cls(row, offset, count, strict, above, below)

    def signs(self, n_outputs: int) -> Floats:
        """What each logit counts in it: 1, -1 or 0."""
        ones = np.eye(n_outputs + 1, n_outputs)
        return np.asarray(ones[self.above] - ones[self.below])

    def reach(self, radius: Radius) -> tuple[Array, Array]:
        """How far down and how far up it goes where the output layer's parameters have these radii."""
        down, up = down_up(radius)
        if isinstance(down, float) or isinstance(up, float):
            return (self.count * down,) * 2
        below: Array = 0.0
        above: Array = 0.0
        # The logit that is taken off moves the margin down where it goes up.
        for output, fall, rise in ((self.above, down, up), (self.below, up, down)):
            if output >= 0:
                below, above = below + fall[output : output + 1], above + rise[output : output + 1]
        return below, above


def margins_for(network: Network, target: int) -> list[Margin]:
    """What must stay on the right side for the class at index `target`: a margin for each rival, in order."""
    if network.n_outputs == 1:
        return [Margin.of(network, *((0, -1) if target == 1 else (-1, 0)), strict=target == 0)]
    rivals = [rival for rival in range(network.n_outputs) if rival != target]
    return [Margin.of(network, target, rival, strict=rival < target) for rival in rivals]


@dataclass(frozen=True)
class Layers(RowBatch):
    """The hidden layers under a box Δ, and one margin after them."""

    hidden: tuple[Layer, ...]
    relus: tuple[bool, ...]
    margin: Layer

    @classmethod
    def of(cls, network: Network, changes: PlausibleChanges, margin: Margin) -> Layers:
        """The picture of `network` under `changes`, whose norm is taken to be inf, with a margin at its end."""
        *radii, last = changes.layer_radii(network)
        hidden: list[Layer] = []
        relus: list[bool] = []
        for weight, bias, radius, kind in zip(
            network.weights, network.biases, radii, network.activations, strict=False
        ):
            rectified = bool(relus) and relus[-1]
            hidden.append(
                Layer(weight, bias, *down_up(radius.weight), *down_up(radius.bias), rectified)
            )
            relus.append(kind == "relu")
        down, up = margin.reach(last.weight)
        bias_down, bias_up = margin.reach(last.bias)
        row, offset = margin.row[None, :], np.array([margin.offset])
        output = Layer(row, offset, down, up, bias_down, bias_up, bool(relus) and relus[-1])
        return cls(tuple(hidden), tuple(relus), output)

    def on(self, convert: Any) -> Layers:
        """The same layers with their arrays converted."""
        return Layers(
            tuple(layer.on(convert) for layer in self.hidden), self.relus, self.margin.on(convert)
        )

    def scaled(self, scale: Array) -> Layers:
        """Every radius multiplied by `scale`: a number, or a column."""
        hidden = tuple(replace(layer, scale=scale) for layer in self.hidden)
        return Layers(hidden, self.relus, replace(self.margin, scale=scale))

    def at_one_scale(self) -> Layers:
        """The layers for a table of one row, its scale a number."""
        scale = self.margin.scale
        return self if isinstance(scale, float) else self.scaled(float(scale[0, 0]))

    def take(self, rows: Array) -> Layers:
        """The layers for some rows of the table."""
        scale = self.margin.scale
        return self if isinstance(scale, float) else self.scaled(take_rows(scale, rows))

    @cached_property
    def spans(self) -> list[tuple[int, slice]]:
        """Each later hidden layer, last first, with its columns in an array that has one for every later neuron."""
        spans, start = [], 0
        for i, layer in enumerate(self.hidden[1:], 1):
            spans.append((i, slice(start, start + layer.weight.shape[0])))
            start += layer.weight.shape[0]
        return spans[::-1]

    @property
    def before(self) -> int:
        """How many of the later neurons come before the last hidden layer."""
        return int(self.spans[0][1].start)

    def start(self, points: Array) -> Box:
        """What the points determine: the box of the first hidden layer's preactivations, rounding included."""
        xp = array_namespace(points)
        first = self.hidden[0]
        low, high = first.sides(points)
        _, slack = first.size(xp.abs(points))
        return Box(low - slack, high + slack)

    @cached_property
    def norms(self) -> list[tuple[Array, Array, float]]:
        """Of each layer, and of the margin, what bounds its rounding.

        The greatest sum of |weights| of a row with all that they may move, the greatest |bias| likewise, and how many
        roundings a sum takes, several times over.
        """
        xp, norms = array_namespace(self.margin.weight), []
        for layer in (*self.hidden, self.margin):
            n_inputs, norm, edge = layer.weight.shape[1], 0.0, 0.0
            for radius, bias in ((layer.down, layer.bias_down), (layer.up, layer.bias_up)):
                norm += (
                    radius * n_inputs
                    if isinstance(radius, float)
                    else float(xp.max(xp.sum(radius, axis=1)))
                )
                edge += bias if isinstance(bias, float) else float(xp.max(bias))
            weights, biases = (
                float(xp.max(xp.sum(xp.abs(layer.weight), axis=1))),
                float(xp.max(xp.abs(layer.bias))),
            )
            norms.append(
                (weights + layer.scale * norm, biases + layer.scale * edge, n_inputs + 8.0)
            )
        return norms

    @cached_property
    def wanted(self) -> tuple[Array | None, Array, Array]:
        """c, d and the constant with which a walk back begins: the margin's L, once or for each row."""
        scale = self.margin.scale
        one = array_namespace(self.margin.bias).ones_like(
            self.margin.bias[None, :] if isinstance(scale, float) else scale
        )
        return self.margin.pull(one, 0.0 * one)

    @cached_property
    def worst(self) -> tuple[Array, ...]:
        """The last hidden layer on the sides that the margin wants, where all rows want the same; otherwise nothing.

        Its matrix and its bias.
        """
        layer = self.hidden[-1]
        if len(self.hidden) < 2 or not (
            layer.rectified and self.margin.rectified and isinstance(layer.scale, float)
        ):
            return ()
        xp, is_low = array_namespace(layer.weight), self.wanted[1][0, :] > 0.0
        low, high, *biases = layer.ends
        return xp.where(is_low[:, None], low, high), xp.where(is_low, *biases)

    def pulled(self, i: int, total: Array, low: Array) -> tuple[Array | None, Array, Array]:
        """What multipliers of layer i's neurons, of L where `low` and else of U, make of the layer before: `pull`."""
        if self.worst and i == len(self.hidden) - 1:
            return None, total @ self.worst[0], total @ self.worst[1]
        lower = array_namespace(total).where(low, total, 0.0)
        return self.hidden[i].pull(lower, total - lower)

    def on_side(self, i: int, values: Array, low: Array, plus: Array | None = None) -> Array:
        """The preactivations of layer i on these sides, the margin's own in the last; `plus` as for `sides`."""
        xp, layer = array_namespace(values), self.hidden[i]
        if low.dtype != xp.bool:
            return layer.on_side(values, low)
        if self.worst and i == len(self.hidden) - 1:
            return values @ self.worst[0].T + self.worst[1]
        return xp.where(low, *layer.sides(values, plus))

    def reached(self, values: Array) -> Array:
        """The margin at its worst where the last hidden layer has these values, (n,)."""
        margin = self.margin
        if margin.rectified and isinstance(margin.scale, float):
            low, _, bias, _ = margin.ends
            return (values @ low.T + bias)[:, 0]
        return margin.sides(values)[0][:, 0]

    def allowance(self, size: Array, plain: Array) -> Array:
        """How far rounding may carry a walk back whose terms add up to `size`, and whose factors to `plain`."""
        terms = 0.0
        for layer in (*self.hidden, self.margin):
            terms += layer.weight.shape[1] + 8.0
        # Each product may lose what is below the normal range, and what multiplies it magnifies that.
        return terms * (_UNIT * size + _TINY * (1.0 + plain))

    def least(self, points: Array) -> Array:
        """The interval bound of the margin, (n,), before any allowance for rounding."""
        if not self.hidden:
            return self.reached(points)
        low, high = self.hidden[0].sides(points)
        for layer, relu in zip((*self.hidden[1:], self.margin), self.relus, strict=True):
            low, _, high = layer.over(activated(low, relu), activated(high, relu))
        return low[:, 0]


def forward_error(norms: Sequence[tuple[Array, Array, float]], magnitude: Array) -> Array:
    """How far rounding may carry a margin, or an interval bound, of layers with these norms where |x| <= magnitude."""
    error = 0.0 * magnitude
    for norm, edge, terms in norms:
        bulk = norm * magnitude + edge
        error = norm * error + terms * (_UNIT * bulk + _TINY)
        magnitude = bulk + error
    return error


@dataclass(frozen=True)
class Box(RowBatch):
    """The box [low, high] of what a layer hands on, (n, H) each."""

    low: Array
    high: Array

    def least(self, c: Array | None, d: Array) -> tuple[Array, Array]:
        """The least of  c z + d z⁺  over the box summed over the neurons, (n, ...), and z where it is met."""
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
    """Affine functions with a ReLU between them, as fast as a pass can be.

    Each is a matrix, turned, and its bias; `relus` says where one is missing. One that begins with twice as many rows
    as there are variables reads points as x⁺ and x⁻ side by side; of points x >= 0 the first half is enough.
    """

    def __init__(
        self,
        parts: Sequence[tuple[Floats, Floats]],
        n_features: int,
        convert: Any,
        relus: Sequence[bool] | None = None,
    ) -> None:
        self.relus = relus or (True,) * len(parts)
        wholes = []
        for k, (matrix, bias) in enumerate(parts):
            # What takes [v | 1] to [v matrix + bias | 1]: a longer product costs less than a sum.
            rows, columns = matrix.shape
            whole = np.zeros((rows + 1, columns + (k + 1 < len(parts))))
            whole[:rows, :columns], whole[rows, :columns], whole[rows, columns:] = matrix, bias, 1.0
            wholes.append(whole)
        self.split = wholes[0].shape[0] > n_features + 1
        self.either_sign, *self.later = map(convert, wholes)
        self.nonnegative = convert(np.concatenate([wholes[0][:n_features], wholes[0][-1:]]))

    def __call__(self, points: Array) -> Array:
        """What the last function makes of points, (n, k)."""
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
    """The interval bounds of several margins of a network with ReLU everywhere, one plain pass of twice the width.

    The values are the lower and upper ends side by side:

        first layer     L = low x⁺ - high x⁻,  U = high x⁺ - low x⁻
        later layers    low  <- low⁺ low + low⁻ high      with low⁺, low⁻ the positive and negative entries
                        high <- high⁺ high + high⁻ low
        margin          low⁺ low + low⁻ high

    Columns that no margin looks at are left out; with a single margin that is half of the last layer's.
    """
    parts: list[tuple[Floats, Floats]] = []
    for layer in layers[0].hidden:
        low, high, *biases = layer.ends
        ends = (low, -high, high, -low) if not parts else (
            np.maximum(low, 0.0), np.minimum(low, 0.0), np.minimum(high, 0.0), np.maximum(high, 0.0)
        )  # fmt: skip
        parts.append((np.block([[*ends[:2]], [*ends[2:]]]).T, np.concatenate(biases)))
    lows, _, edges, _ = zip(*map(attrgetter("margin.ends"), layers), strict=True)
    rows = np.concatenate(lows)
    output = np.concatenate([np.maximum(rows, 0.0), np.minimum(rows, 0.0)], axis=1)
    used = np.flatnonzero(np.any(output != 0.0, axis=0))
    matrix, bias = parts[-1]
    parts[-1:] = [(matrix[:, used], bias[used]), (output[:, used].T, np.concatenate(edges))]
    return Pass(parts, layers[0].hidden[0].weight.shape[1], convert)


def suspect(layers: Layers, convert: Any = np.asarray) -> tuple[NDArray[np.int8], Pass]:
    """One network in Δ that breaks most of what can be broken, of those with ReLU everywhere: its sides, its margin.

    Where every later neuron is active, these are the worst sides, whatever the point.
    """
    sides: list[NDArray[np.bool_]] = []
    parts: list[tuple[Floats, Floats]] = []
    d = np.ones(1)
    for layer in (layers.margin, *layers.hidden[::-1]):
        low, high, *biases = map(to_numpy, layer.ends)
        is_low = d > 0.0
        sides.append(is_low)
        rows = np.where(is_low[:, None], low, high)
        parts.append((rows.T, np.where(is_low, *biases)))
        d = d @ rows
    matrix, bias = parts[-1]
    # Of negative values the other end of a weight is the worst.
    parts[-1] = np.concatenate([matrix, -np.where(is_low[:, None], high, low).T]), bias
    chosen = 1 - 2 * np.concatenate(sides[:0:-1]).astype(np.int8)
    return chosen, Pass(parts[::-1], matrix.shape[0], convert)


@lru_cache(maxsize=16)
def _filled(shape: tuple[int, ...], value: float) -> Floats:
    return np.full(shape, value)
