"""Changes in a p-norm, 1 <= p < inf: how far they move a margin, and the networks that move it furthest.

Write q for the dual norm, 1/p + 1/q = 1, and E_i for what a change adds to the weights and the bias of layer i. By
Hölder's inequality a layer that reads v' moves by E_i (v', 1), and u . E_i (v', 1) <= ||E_i||_p ||u||_q ||(v', 1)||_q.

*Any depth.* Take the values v of today's network as centres. With D_i the slopes of the activations between centre and
changed value, and g_i = row D_{L-1} W_{L-1} ... W_{i+1} D_i, the changed margin is exactly

    margin' = margin + sum_i g_i E_i (v'_{i-1}, 1) >= margin - sum_i ||E_i||_p s_i

with sensitivities s_i = ||g_i||_q ||(v'_{i-1}, 1)||_q; that is at most delta ||s||_q if the layers share a radius.
Slopes and values are bounded layer by layer in the same way. Rounding errors of the centres are changes too: they go
through the same slopes and weights. The output layer is treated as below, with chords in place of its gains, and where
that is not enough the ball is cut by how much of the radius a layer takes.

*One hidden layer.* Neuron j moves by e_j = R s_j and its output weight by d rho_j, with sum |s|^p + sum |rho|^p <= 1.
Put a price on that constraint; what is left falls apart into one function of one number for each neuron:

    margin' >= offset - price + sum_j min_s  w_j v_j(s) - price h(d |v_j(s)| / price) + price |s|^p

with h(a) = max over rho in [0, 1] of a rho - rho^p. Prices are searched, and where neurons jump between two minima the
range of s is split (branch and bound), which closes the gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._network import Floats, Network
from holdfast.bounds._layers import Margin
from holdfast.changes import PlausibleChanges
from holdfast.changes._parameters import p_norm, p_norm_above

_UNIT = 2.0**-53
# A product that underflows loses less than this.
_TINY = 2.0**-1022
_LEAST = 5e-324
# Numbers that the slopes of one chunk of rows may fill.
_CHUNK = 500_000
# Steps that a descent takes at most, and how far towards the steepest change it tries to go.
_ROUNDS, _SHARES = 30, np.array([1.0, 0.5, 0.2, 0.05, 0.01])[:, None, None]
# A gap this small against what changes do to the margin is closed.
_GAP = 1e-8
# How far, in powers of two, prices are looked for around the best so far.
_WIDTHS = (12.0, 4.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
# Parts of a ball that one round of the search cuts in two.
_OPEN = 64
# How the shifts of a neuron are spread around the best one: ever closer to it.
_NEAR = np.concatenate(
    [sign * 2.0 ** -np.arange(6.0, 26.0) for sign in (-1.0, 1.0)] + [np.zeros(1)]
)


@dataclass(frozen=True)
class _Ball:
    """The norm, its dual, and the radius that the layers share (inf where each has its own)."""

    p: float
    q: float
    shared: float
    biases: bool

    @classmethod
    def of(cls, changes: PlausibleChanges) -> _Ball:
        shared = math.inf if isinstance(changes.delta, tuple) else changes.delta
        return cls(changes.norm, changes.dual_norm, shared, bool(changes.biases))

    def size(self, values: Floats) -> Floats:
        """||(v, 1)||_q from above; without the 1 where biases stay."""
        return p_norm_above(self.extend(values), self.q)

    def extend(self, values: Floats) -> Floats:
        """(v, 1), or (v, 0) where biases stay."""
        last = np.full((*values.shape[:-1], 1), float(self.biases))
        return np.concatenate([values, last], axis=-1)

    def root(self, count: int) -> float:
        """count^(1/q), from above."""
        return 1.0 if count == 1 else float(count) ** (1.0 / self.q) * (1.0 + 8.0 * _UNIT)

    def most(self, sensitivities: Floats, radii: Floats) -> Floats:
        """The most that sum_i ||E_i||_p s_i can be: each layer within its radius, all within the shared one."""
        each = _up((radii * sensitivities).sum(axis=-1), sensitivities.shape[-1])
        if self.shared == math.inf:
            return each
        return np.minimum(each, _up(self.shared * p_norm_above(sensitivities, self.q), 1))


def _up(values: Floats, terms: int) -> Floats:
    """What a sum of that many products, none of them negative, can be at most in exact arithmetic."""
    return values * (1.0 + (2 * terms + 8) * _UNIT) + terms * _TINY


class _Layer(NamedTuple):
    """A hidden layer around its centre."""

    weight: Floats
    # Of (v' - v) / (z' - z): the least, the greatest, and that of the tangent at the centre.
    slopes: Floats
    # Of what the layer reads: ||(v', 1)||_q from above.
    size: Floats
    # How far the centre's preactivation is from W v + b.
    residual: Floats


class _Values(NamedTuple):
    """What a layer hands on: the centre, the range around it, and ||(v', 1)||_q from above."""

    centre: Floats
    low: Floats
    high: Floats
    size: Floats


def _affine(weight: Floats, bias: Floats, values: Floats) -> tuple[Floats, Floats]:
    """W v + b, and how far rounding may have put it off."""
    size = np.abs(values) @ np.abs(weight).T + np.abs(bias)
    terms = weight.shape[1] + 1
    return values @ weight.T + bias, size * (2 * terms + 8) * _UNIT + terms * _TINY


def _fall(ball: _Ball, layers: list[_Layer], rows: Floats) -> tuple[list[Floats], Floats]:
    """How far rows . v' can fall below rows . v, rows (n, k, H): for each unit that a layer moves, and by itself.

    A coefficient that is surely positive keeps today's slope: max(z, 0) lies above its tangents.
    """
    middle, half = rows, np.zeros(rows.shape)
    sensitivities, fixed = [], np.zeros(rows.shape[:2])
    for layer in reversed(layers):
        low, high, terms = middle - half, middle + half, layer.weight.shape[0]
        least, greatest, tangent = layer.slopes[:, :, None, :]
        least, greatest = (np.where(low > 0.0, tangent, slope) for slope in (least, greatest))
        low, high = low * greatest, high * np.where(high > 0.0, greatest, least)
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        # Three roundings above and the products below: all relative to the greatest coefficient.
        reach = _up(np.maximum(np.abs(low), np.abs(high)), 4)
        sensitivities.append(_up(p_norm_above(reach, ball.q) * layer.size[:, None], 1))
        fixed = _up(fixed + (reach * layer.residual[:, None, :]).sum(axis=-1), terms + 2)
        magnitude = np.abs(layer.weight)
        half = half @ magnitude + (reach @ magnitude) * (4 * terms + 32) * _UNIT + terms * _TINY
        middle = middle @ layer.weight
    return sensitivities[::-1], fixed


def _slopes(centre: Floats, low: Floats, high: Floats) -> Floats:
    """Of max(z, 0) from the centre to a point of [low, high]: the least and the greatest slope, and the tangent's."""
    least, greatest = (
        (np.maximum(end, 0.0) - np.maximum(centre, 0.0))
        / np.where(end == centre, np.nan, end - centre)
        for end in (low, high)
    )
    # A range that is too wide or too narrow for floats tells nothing by its quotient.
    least = np.nan_to_num(least * (1.0 - 16.0 * _UNIT) - _TINY, nan=0.0)
    greatest = np.nan_to_num(greatest * (1.0 + 16.0 * _UNIT) + _TINY, nan=1.0)
    greatest = np.where(np.maximum(high, centre) <= 0.0, 0.0, np.minimum(greatest, 1.0))
    least = np.where(np.minimum(low, centre) >= 0.0, greatest, np.maximum(least, 0.0))
    return np.stack([least, greatest, centre > 0.0])


def _forward(
    network: Network, ball: _Ball, points: Floats, radii: Floats
) -> tuple[list[_Layer], _Values]:
    """Every hidden layer around today's values, where layer i may move by radii[:, i]."""
    values = _Values(points, points, points, ball.size(points))
    layers: list[_Layer] = []
    for i, kind in enumerate(network.activations):
        weight = network.weights[i]
        centre, residual = _affine(weight, network.biases[i], values.centre)
        own = np.broadcast_to(values.size[:, None], centre.shape)
        ends = []
        for side, rows in enumerate((weight, -weight)):
            moves, fixed = _fall(
                ball, layers, np.broadcast_to(rows, (points.shape[0], *rows.shape))
            )
            moved = ball.most(np.stack([*moves, own], axis=-1), radii[:, None, : i + 1]) + fixed
            ends.append(_around(centre, moved + residual)[side])
        low, high = ends
        slopes = np.ones((3, *centre.shape))
        if kind == "relu":
            slopes = _slopes(centre, low, high)
            centre, low, high = (np.maximum(part, 0.0) for part in (centre, low, high))
        layers.append(_Layer(weight, slopes, values.size, residual))
        size = ball.size(np.maximum(np.abs(low), np.abs(high)))
        if i == 0:
            # Neurons share the radius too: ||v' - v||_p <= ||E (x, 1)||_p <= ||E||_p ||(x, 1)||_q.
            wider = float(weight.shape[0]) ** max(1.0 / ball.q - 1.0 / ball.p, 0.0)
            together = ball.size(centre) + wider * radii[:, 0] * values.size + residual.sum(axis=1)
            size = np.minimum(size, _up(together, weight.shape[0] + 16))
        values = _Values(centre, low, high, size)
    return layers, values


def _around(centre: Floats, deviation: Floats) -> tuple[Floats, Floats]:
    """[centre - deviation, centre + deviation], rounded outward; everything where floats do not reach."""
    slack = (np.abs(centre) + np.abs(deviation)) * 8.0 * _UNIT + _LEAST
    low, high = centre - deviation - slack, centre + deviation + slack
    return np.where(np.isfinite(low), low, -np.inf), np.where(np.isfinite(high), high, np.inf)


@np.errstate(all="ignore")
def least_margins(
    network: Network,
    changes: PlausibleChanges,
    points: Floats,
    margins: Sequence[Margin],
    most: Floats | None = None,
) -> Floats:
    """A lower bound on each margin over the ball, (n, margins), rounding included; exact without hidden layers.

    `most` is how far the layers move at most, (n, layers), where that is less than their radii.
    """
    ball, n = _Ball.of(changes), points.shape[0]
    if most is None:
        radii = np.array([radius.weight for radius in changes.layer_radii(network)])
        most = np.broadcast_to(radii, (n, radii.size))
    bounds = np.empty((n, len(margins)))
    chunk = max(1, _CHUNK // max([1, *(size * size for size in network.hidden)]))
    for part in (slice(start, start + chunk) for start in range(0, n, chunk)):
        layers, values = _forward(network, ball, points[part], most[part])
        for k, margin in enumerate(margins):
            bounds[part, k] = _least(ball, layers, values, most[part], margin)
    return bounds


def _least(
    ball: _Ball, layers: list[_Layer], values: _Values, radii: Floats, margin: Margin
) -> Floats:
    """The better of two bounds: with a price on the output layer, and from the ranges of the last values one by one."""
    today, residual = _affine(margin.row[None, :], np.array([margin.offset]), values.centre)
    away = np.where(margin.row > 0.0, values.centre - values.low, values.high - values.centre)
    own = radii[:, -1] * _up(ball.root(margin.count) * values.size, 1)
    moved = (away @ np.abs(margin.row) + own)[:, None] + residual
    tried = [_around(today, _up(moved, away.shape[1] + 4))[0]]
    kinds = [True] * (ball.shared < math.inf) + [False] * bool((radii[:, -1] < ball.shared).any())
    tried += [_priced(ball, layers, values, radii, margin, joint) for joint in kinds if layers]
    return np.asarray(np.concatenate(tried, axis=1).max(axis=1))


def _priced(
    ball: _Ball, layers: list[_Layer], values: _Values, radii: Floats, margin: Margin, joint: bool
) -> Floats:
    """Bounds on a margin for several prices of the output layer's change, (n, prices).

    What an output weight gains after paying, price h(pull |v'| / price), is convex in v' and lies below its chord; the
    chords join the row, and the earlier layers are held against the sum. They pay the same price for the shared radius
    if `joint`; otherwise the output layer is held to its own radius.
    """
    n, neurons = values.centre.shape
    pull = _up((np.full(n, ball.shared) if joint else radii[:, -1]) * ball.root(margin.count), 1)
    gains = (pull * ball.size(values.centre))[:, None]
    if joint:
        moves, _ = _fall(ball, layers, np.broadcast_to(margin.row, (n, 1, neurons)))
        gains = np.concatenate([*(ball.shared * move for move in moves), gains], axis=1)
    price = (p_norm_above(gains, ball.q) / ball.p + 1e-300)[:, None] * 2.0 ** np.linspace(
        -1.0, 1.0, 7
    )
    low, high = values.low[:, None, :], values.high[:, None, :]
    at_low, at_high = (
        _taken(ball, pull[:, None, None] * np.abs(end), price[:, :, None]) for end in (low, high)
    )
    chord = (at_high - at_low) / np.where(high > low, high - low, 1.0)
    constant = np.maximum(at_low - chord * low, at_high - chord * high)
    rows = margin.row - chord
    moves, fixed = _fall(ball, layers, rows)
    sensitivities = np.stack(moves, axis=-1)
    each = ball.most(sensitivities, radii[:, None, :-1])
    if joint:
        each = np.minimum(
            each, _taken(ball, ball.shared * p_norm_above(sensitivities, ball.q), price)
        )
    bias = _taken(ball, pull[:, None] * float(ball.biases), price)
    bound = (
        margin.offset
        + (rows * values.centre[:, None, :] - constant).sum(axis=-1)
        - price
        - each
        - bias
    )
    farthest = np.maximum(np.maximum(np.abs(low), np.abs(high)), values.centre[:, None, :])
    size = (np.abs(margin.row) + 2.0 * np.abs(chord)) * farthest + at_low + at_high
    size = size.sum(axis=-1) + abs(margin.offset) + price + each + bias + np.abs(fixed)
    bound = bound - fixed - _up(size * (4 * neurons + 64) * _UNIT, 2 * neurons)
    return np.where(np.isfinite(bound), bound, -np.inf)


def _taken(ball: _Ball, gain: Floats, price: Floats) -> Floats:
    """price h(gain / price) from above: the most that a share rho of a radius brings, gain rho - price rho^p."""
    offer = gain / price * (1.0 + 8.0 * _UNIT) + _LEAST
    kept = (ball.p - 1.0) * np.minimum(offer / ball.p, 1.0) ** ball.q + np.maximum(
        offer - ball.p, 0.0
    )
    return price * kept * (1.0 + 32.0 * _UNIT) + _TINY


def linear_radius(
    norm: float, biases: bool, points: Floats, margins: Sequence[Margin]
) -> tuple[Floats, Floats]:
    """margin / (count^(1/q) ||(x, 1)||_q) of a model without hidden layers, (n, margins), from below and from above.

    Both are 0 where the margin is lost today, and inf where no change moves it.

    Examples
    --------
    >>> net = Network([[[3.0, 4.0]]], [[0.0]])
    >>> linear_radius(2.0, False, np.array([[3.0, 4.0]]), [Margin.of(net, 0, -1)])[0].round(9)
    array([[5.]])
    """
    ball = _Ball.of(PlausibleChanges(1.0, norm, biases))
    rows, offsets = np.stack([m.row for m in margins]), np.array([m.offset for m in margins])
    roots, read = np.array([ball.root(m.count) for m in margins]), ball.extend(points)
    greatest, slack = np.finfo(float).max, (read.shape[1] + 40) * _UNIT
    with np.errstate(all="ignore"):
        low, high = _around(*_affine(rows, offsets, points))
        reach = np.minimum(p_norm(read, ball.q)[:, None] * roots, greatest)
        lower = low / (reach * (1.0 + slack) + _LEAST) * (1.0 - 8.0 * _UNIT) - _LEAST
        least = np.maximum(reach * (1.0 - slack) - _LEAST, 0.0)
        upper = high / least * (1.0 + 8.0 * _UNIT) + _LEAST
    # A point at the origin of a model whose biases stay does not feel any change.
    still = (read == 0.0).all(axis=1, keepdims=True)
    lower = np.where(still & (low > 0.0), np.inf, np.clip(lower, 0.0, greatest))
    upper = np.where(high < 0.0, 0.0, upper)
    return np.nan_to_num(lower, nan=0.0, posinf=np.inf), np.nan_to_num(
        upper, nan=np.inf, posinf=np.inf
    )


# One change, or several to choose from: for each layer (changes, out, in + 1), the bias last.
_Steps = list[Floats]


def _direction(gradient: Floats, p: float) -> Floats:
    """Along the last axis, the point of the unit p-ball at which the inner product with the gradient is greatest."""
    sizes = np.abs(gradient)
    largest = sizes.max(axis=-1, keepdims=True)
    shares = sizes / np.where(largest > 0.0, largest, 1.0)
    direction = np.sign(gradient) * shares ** (math.inf if p == 1.0 else 1.0 / (p - 1.0))
    # The largest entry is 1, unless all are 0 and stay so.
    return np.asarray(
        direction
        / np.maximum((np.abs(direction) ** p).sum(axis=-1, keepdims=True), 1.0) ** (1.0 / p)
    )


class _Descent:
    """Steepest descent of one margin at one point, inside the ball.

    The gradient of a layer is the product of a backward signal and of what the layer reads. So is the steepest change.
    """

    def __init__(
        self,
        network: Network,
        changes: PlausibleChanges,
        x: Floats,
        margin: Margin,
        deadline: Deadline = NO_LIMIT,
    ) -> None:
        self.network, self.changes, self.margin, self.deadline = network, changes, margin, deadline
        self.ball = _Ball.of(changes)
        self.radii = np.array([radius.weight for radius in changes.layer_radii(network)])
        self.today = [
            np.concatenate([w, b[:, None]], axis=1)
            for w, b in zip(network.weights, network.biases, strict=True)
        ]
        self.x = np.append(x, 1.0)
        self.signal = margin.signs(network.n_outputs)

    def least(self, goal: float | None) -> tuple[float, _Steps]:
        """The best of several descents, which take inactive neurons for inactive, half and fully active at first."""
        still = [np.zeros((1, *layer.shape)) for layer in self.today]
        descents = [self.run(self.steepest(still, leak), goal) for leak in (0.0, 0.3, 1.0)]
        return min(descents, key=lambda pair: pair[0])

    def run(self, steps: _Steps, goal: float | None) -> tuple[float, _Steps]:
        """The least margin met, or one clearly below the goal, and the change that leads to it."""
        value = self.margins(steps)[0]
        # What is below by more than rounding errors stays below when it is moved inwards and replayed.
        enough = -math.inf if goal is None else goal - 1e-9 * abs(value)
        for _ in range(_ROUNDS):
            if value < enough or self.deadline.over:
                break
            tried = [
                a + _SHARES * (b - a) for a, b in zip(steps, self.steepest(steps), strict=True)
            ]
            margins = self.margins(tried)
            best = int(margins.argmin())
            if not margins[best] < value:
                break
            steps, value = [layer[[best]] for layer in tried], margins[best]
        return float(value), steps

    def margins(self, steps: _Steps) -> Floats:
        """The margin after each change."""
        return np.nan_to_num(self._forward(steps)[0][-1] @ self.signal, nan=np.inf)

    def _forward(self, steps: _Steps) -> tuple[list[Floats], list[Floats]]:
        """The preactivations of each layer, and what it reads."""
        read, outputs = [np.broadcast_to(self.x, (steps[0].shape[0], self.x.size))], []
        for today, step, kind in zip(
            self.today, steps, (*self.network.activations, ""), strict=True
        ):
            outputs.append(np.einsum("soi,si->so", today + step, read[-1]))
            values = np.maximum(outputs[-1], 0.0) if kind == "relu" else outputs[-1]
            read.append(np.concatenate([values, np.ones((values.shape[0], 1))], axis=1))
        return outputs, read

    def aims(self, steps: _Steps, leak: float = 0.0) -> Iterator[tuple[Floats, Floats]]:
        """From the last layer back, the change of norm 1 that lowers the margin most to first order; by how much."""
        outputs, read = self._forward(steps)
        signal = np.broadcast_to(self.signal, outputs[-1].shape)
        ball = self.ball
        for i in reversed(range(len(self.today))):
            if i + 1 < len(self.today):
                signal = np.einsum(
                    "so,soi->si", signal, (self.today[i + 1] + steps[i + 1])[:, :, :-1]
                )
                if self.network.activations[i] == "relu":
                    signal = signal * np.where(outputs[i] > 0.0, 1.0, leak)
            reads = ball.extend(read[i][:, :-1])
            aim = -_direction(signal, ball.p)[:, :, None] * _direction(reads, ball.p)[:, None, :]
            yield aim, p_norm(signal, ball.q) * p_norm(reads, ball.q)

    def steepest(self, steps: _Steps, leak: float = 0.0) -> _Steps:
        """The change on the edge of the ball that lowers the margin most to first order."""
        aims, gains = zip(*self.aims(steps, leak), strict=True)
        # Layers that share a radius take from it as the entries of one vector do.
        shares = np.stack(gains[::-1], axis=1)
        budget = (
            self.ball.shared * _direction(shares, self.ball.p)
            if self.ball.shared < math.inf
            else self.radii * np.sign(shares)
        )
        return [aim * budget[:, i, None, None] for i, aim in enumerate(aims[::-1])]

    def with_shifts(self, shifts: Floats) -> _Steps:
        """The change that moves one hidden layer's neurons by these shares of the radius; the rest for the output."""
        ball, p = self.ball, self.ball.p
        shifts = shifts / max(float(p_norm_above(shifts, p)), 1.0)
        first = np.outer(shifts, _direction(ball.extend(self.x[:-1]), p))[None] * self.radii[0]
        last, _ = next(self.aims([first, np.zeros((1, *self.today[1].shape))]))
        left = 1.0
        if ball.shared < math.inf:
            left = max(1.0 - float((np.abs(shifts) ** p).sum()), 0.0) ** (1.0 / p)
        return [first, left * self.radii[1] * last]

    def network_of(self, steps: _Steps) -> Network | None:
        """Today's network after the one change in `steps`, moved inwards until it surely lies in the ball."""
        for less in (1e-12, 1e-10, 1e-8, 1e-6, 1e-4):
            moved = [
                today + (1.0 - less) * step[0]
                for today, step in zip(self.today, steps, strict=True)
            ]
            if not all(np.isfinite(layer).all() for layer in moved):
                return None
            changed = self.network.with_parameters(
                [m[:, :-1] for m in moved], [m[:, -1] for m in moved]
            )
            if self.changes.contains(self.network, changed):
                return changed
        return None


@np.errstate(all="ignore")
def worst(network: Network, changes: PlausibleChanges, x: Floats, margin: Margin) -> Network:
    """A network inside the ball with as small a margin at x as descents find; today's, if that is all."""
    descent = _Descent(network, changes, x, margin)
    return descent.network_of(descent.least(None)[1]) or network


class _BallPart(NamedTuple):
    """A part of the ball: a range of shifts for each neuron, with its bound and what the bound was found at."""

    bound: float
    low: Floats
    high: Floats
    prices: Floats
    shifts: Floats


class _ShiftSearch:
    """One margin of a network with one hidden layer, at one point: neuron j reads centre_j + reach * s_j.

    Branch and bound over the shifts s, until the bound or a change is beyond the goal.
    """

    def __init__(self, descent: _Descent, goal: float | None) -> None:
        network, margin, x = descent.network, descent.margin, descent.x[:-1]
        first, last = descent.radii
        centre, residual = _affine(network.weights[0], network.biases[0], x[None, :])
        self.ball, self.descent, self.goal = (
            descent.ball,
            descent,
            math.inf if goal is None else goal,
        )
        self.centre, self.row, self.offset = centre[0], margin.row, margin.offset
        self.rectified = network.activations[0] == "relu"
        # How far the first layer moves one neuron, and the output layer a margin for each unit that it reads.
        self.reach = float(_up(first * self.ball.size(x), 1))
        self.pull = float(_up(last * self.ball.root(margin.count), 1))
        # What rounding of the centre and of the row can cost.
        self.error = float(_up(residual[0] @ (np.abs(margin.row) + self.pull), centre.size))
        self.least, self.shifts = math.inf, np.zeros_like(self.centre)

    def values(self, shifts: Floats) -> Floats:
        """v(s), neurons on the last axis."""
        read = np.asarray(self.centre + self.reach * shifts)
        return np.maximum(read, 0.0) if self.rectified else read

    def bound(
        self, low: Floats, high: Floats, prices: Floats, near: Floats
    ) -> tuple[Floats, Floats]:
        """For each pair of prices: a lower bound for shifts in [low, high], and each neuron's shift.

        Between two shifts the concave part lies above its chord and price |s|^p above every tangent. The shifts are
        spread evenly, with more of them around those in `near`, (neurons, any).
        """
        p, price = self.ball.p, prices[:, 0, None, None]
        kink = -self.centre / self.reach if self.reach > 0.0 else np.zeros_like(self.centre)
        evenly = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, 25)
        marks = [evenly, high[:, None], np.zeros((kink.size, 1)), kink[:, None]]
        marks += [at[:, None] + _NEAR * (high - low)[:, None] for at in near.T]
        grid = np.sort(np.clip(np.concatenate(marks, axis=1), low[:, None], high[:, None]), axis=1)
        values = self.values(grid.T).T
        concave = self.row[:, None] * values - _taken(
            self.ball, self.pull * np.abs(values), prices[:, 1, None, None]
        )
        left, right, width = grid[:, :-1], grid[:, 1:], np.diff(grid, axis=1)
        slope = np.diff(concave, axis=2) / np.where(width > 0.0, width, 1.0)
        touch = -np.sign(slope) * (np.abs(slope) / (p * price)) ** (
            math.inf if p == 1.0 else 1.0 / (p - 1.0)
        )
        touch = np.clip(touch, left, right)
        tilt = p * np.abs(touch) ** (p - 1.0) * np.where(left + right < 0.0, -1.0, 1.0)
        at_left, at_right = (
            price * (np.abs(touch) ** p + tilt * (end - touch)) for end in (left, right)
        )
        least = np.minimum(concave[:, :, :-1] + at_left, concave[:, :, 1:] + at_right)
        best = least.argmin(axis=2)[:, :, None]
        parts = np.take_along_axis(least, best, axis=2)[:, :, 0]
        paid = prices[:, 0] if self.ball.shared < math.inf else prices.sum(axis=1)
        bias = _taken(self.ball, np.array(self.pull * float(self.ball.biases)), prices[:, 1])
        size = (
            (np.abs(self.row) + self.pull) * (np.abs(self.centre) + self.reach) + _TINY
        ).sum() + abs(self.offset)
        size = size + self.pull + (p * parts.shape[1] + 2.0) * prices.sum(axis=1)
        error = self.error + size * (4 * parts.shape[1] + 128) * _UNIT
        bounds = self.offset + parts.sum(axis=1) - paid - bias - error
        shifts = np.take_along_axis(touch, best, axis=2)[:, :, 0]
        return np.where(np.isfinite(bounds), bounds, -np.inf), shifts

    def node(
        self, low: Floats, high: Floats, prices: Floats, widths: Sequence[float] = _WIDTHS
    ) -> _BallPart:
        """Search the prices from rough to fine; every bound holds, the last ones over the finest cells."""
        near, shared = np.empty((low.size, 0)), self.ball.shared < math.inf
        for width in widths:
            factors = 2.0 ** np.linspace(-width, width, 9 if shared else 7)
            pairs = (
                [(a, a) for a in factors] if shared else [(a, b) for a in factors for b in factors]
            )
            tried = prices * np.array(pairs)
            bounds, shifts = self.bound(low, high, tried, near)
            best = int(bounds.argmax())
            prices, near = tried[best], shifts[[best]].T
            value = float(self.descent.margins(self.descent.with_shifts(shifts[best]))[0])
            if value < self.least:
                self.least, self.shifts = value, shifts[best]
            if bounds[best] > self.goal:
                break
        return _BallPart(float(bounds[best]), low, high, prices, shifts)

    def run(self, rounds: int) -> float:
        """The least bound over all parts, after at most `rounds` splits."""
        still = np.zeros_like(self.centre)
        values = self.values(still)
        today = float(values @ self.row + self.offset)
        gain = self.reach * p_norm_above(self.row, self.ball.q) + self.pull * self.ball.size(values)
        nodes = [self.node(still - 1.0, still + 1.0, np.full(2, gain / self.ball.p + 1e-300))]
        for _ in range(rounds):
            node = min(nodes, key=lambda node: node.bound)
            closed = self.least - node.bound <= _GAP * abs(today - node.bound)
            if closed or node.bound > self.goal or self.least < self.goal < math.inf:
                break
            # Between the minima that a neuron jumps between as the prices move.
            least, greatest = node.shifts.min(axis=0), node.shifts.max(axis=0)
            j = int((greatest - least).argmax())
            middle = 0.5 * (least[j] + greatest[j])
            if not node.low[j] < middle < node.high[j]:
                middle = 0.5 * (node.low[j] + node.high[j])
            below, above = node.high.copy(), node.low.copy()
            below[j] = above[j] = middle
            nodes = [other for other in nodes if other is not node]
            for low, high in ((node.low, below), (above, node.high)):
                child = self.node(low, high, node.prices, _WIDTHS[2:])
                nodes.append(child._replace(bound=max(child.bound, node.bound)))
        return min(node.bound for node in nodes)


def _cut(descent: _Descent, rounds: int, goal: float) -> float:
    """Branch and bound over what each layer takes of the shared radius."""
    ball, radii, x = descent.ball, descent.radii, descent.x[:-1]

    def bound(most: Floats) -> Floats:
        points = np.broadcast_to(x, (most.shape[0], x.size))
        return least_margins(descent.network, descent.changes, points, [descent.margin], most)[:, 0]

    # Of each part of the ball the least and the most that the layers move.
    parts = np.stack([np.zeros_like(radii), radii])[None]
    bounds = bound(parts[:, 1])
    for _ in range(rounds):
        cut = bounds.argsort(kind="stable")[:_OPEN]
        cut = cut[bounds[cut] <= goal]
        if not cut.size or descent.deadline.over:
            break
        halves = parts[np.tile(cut, 2)]
        each, layer = np.arange(2 * cut.size), (halves[:, 1] - halves[:, 0]).argmax(axis=1)
        halves[each, np.repeat([1, 0], cut.size), layer] = halves[each, :, layer].mean(axis=1)
        # What the other layers move at least is gone from the shared radius.
        powers = (halves[:, 0] / ball.shared) ** ball.p
        rest = (
            np.maximum(1.0 - (powers.sum(axis=1, keepdims=True) - powers), 0.0)
            + (ball.p + 8.0) * 2.0**-48
        )
        halves[:, 1] = np.minimum(
            halves[:, 1], ball.shared * rest ** (1.0 / ball.p) * (1.0 + 2.0**-48)
        )
        # A part is no worse than the whole it was cut from.
        new = np.maximum(bound(halves[:, 1]), np.tile(bounds[cut], 2))
        parts, bounds = np.delete(parts, cut, axis=0), np.delete(bounds, cut)
        parts, bounds = np.concatenate([parts, halves]), np.concatenate([bounds, new])
    return float(bounds.min())


@np.errstate(all="ignore")
def refine(
    network: Network,
    changes: PlausibleChanges,
    x: Floats,
    margin: Margin,
    *,
    rounds: int = 20,
    goal: float | None = None,
    deadline: Deadline = NO_LIMIT,
) -> tuple[float, Network | None]:
    """A tighter lower bound on one margin over the ball, and a network inside it that breaks the margin, if one is met.

    Exact to a small gap with at most one hidden layer. Stops where the bound or a network is beyond the `goal`.
    """
    lower = float(least_margins(network, changes, x[None, :], [margin])[0, 0])
    descent = _Descent(network, changes, x, margin, deadline)
    value, steps = descent.least(goal)
    if network.hidden and (goal is None or lower <= goal <= value):
        if len(network.hidden) == 1:
            search = _ShiftSearch(descent, goal)
            lower = max(lower, search.run(rounds))
            again = descent.run(descent.with_shifts(search.shifts), goal)
            value, steps = min((value, steps), again, key=lambda pair: pair[0])
        elif descent.ball.shared < math.inf:
            lower = max(lower, _cut(descent, rounds, value if goal is None else goal))
    return lower, descent.network_of(steps) if value <= 0.0 else None
