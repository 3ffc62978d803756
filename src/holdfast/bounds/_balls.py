"""Changes in a p-norm, 1 <= p < inf: bounds of the margin, and networks with small margins.

Let q be the dual norm, 1/p + 1/q = 1, and E_i the change of the weights and the bias of layer i. A layer that reads
v' moves by E_i (v', 1), and by Hölder's inequality u . E_i (v', 1) <= ||E_i||_p ||u||_q ||(v', 1)||_q.

*Any depth.* Take the values v of today's network as centres. With D_i the slopes of the activations between centre and
changed value, and g_i = row D_{L-1} W_{L-1} ... W_{i+1} D_i, the changed margin is exactly

    margin' = margin + sum_i g_i E_i (v'_{i-1}, 1) >= margin - sum_i ||E_i||_p s_i

with sensitivities s_i = ||g_i||_q ||(v'_{i-1}, 1)||_q; that is at most delta ||s||_q if the layers share a radius.
Slopes and values are bounded layer by layer in the same way, or from the ranges of the values before if that is
tighter. Rounding errors of the centres are changes too: they go through the same slopes and weights. The output
layer is treated as below, with chords instead of its gains.

*One hidden layer.* Neuron j moves by e_j = R s_j and its output weight by d rho_j, with sum |s|^p + sum |rho|^p <= 1.
With a price (Lagrange multiplier) on that constraint, the rest separates into one function of one number per
neuron:

    margin' >= offset - price + sum_j min_s  w_j v_j(s) - price h(d |v_j(s)| / price) + price |s|^p

with h(a) = max over rho in [0, 1] of a rho - rho^p. Prices are searched. If neurons jump between two minima, the
range of s is split (branch and bound), which closes the gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._files import Document
from holdfast._network import Floats, Network
from holdfast.bounds._layers import Margin, activated
from holdfast.changes import PlausibleChanges
from holdfast.changes._parameters import (
    apart,
    flat,
    p_norm,
    p_norm_above,
    rebuilt,
)

_UNIT = 2.0**-53
# A product that underflows loses less than this.
_TINY = 2.0**-1022
_LEAST = 5e-324
# Numbers that the slopes of one chunk of rows may fill.
_CHUNK = 500_000
# Steps that a descent takes at most, and how far towards the steepest change it tries to go.
_ROUNDS, _SHARES = 30, np.array([[1.0], [0.5], [0.2], [0.05], [0.01]])
# A gap this small against what changes do to the margin is closed.
_GAP = 1e-8
# How far, in powers of two, prices are looked for around the best so far.
_WIDTHS = (12.0, 4.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
# How the shifts of a neuron are spread around the best one: ever closer to it.
_NEAR = np.concatenate(
    [sign * 2.0 ** -np.arange(6.0, 26.0) for sign in (-1.0, 1.0)] + [np.zeros(1)]
)


class _Ball:
    """The norm, its dual, 1 or 0 for biases that move or stay, and the shared radius (inf: one for each layer)."""

    def __init__(self, changes: PlausibleChanges) -> None:
        self.p, self.q, self.biases = changes.norm, changes.dual_norm, float(bool(changes.biases))
        self.shared = math.inf if isinstance(changes.delta, tuple) else changes.delta

    def size(self, values: Floats) -> Floats:
        """An upper bound of ||(v, 1)||_q; without the 1 if biases stay."""
        return p_norm_above(self.extend(values), self.q)

    def extend(self, values: Floats) -> Floats:
        """(v, 1), or (v, 0) if biases stay."""
        last = np.full((*values.shape[:-1], 1), self.biases)
        return np.concatenate([values, last], axis=-1)

    def root(self, count: int) -> float:
        """An upper bound of count^(1/q)."""
        return 1.0 if count == 1 else float(count) ** (1.0 / self.q) * (1.0 + 8.0 * _UNIT)

    def most(self, sensitivities: Floats, radii: Floats) -> Floats:
        """The maximum of sum_i ||E_i||_p s_i, with each layer within its radius and all within the shared one."""
        each = _up((radii * sensitivities).sum(axis=-1), sensitivities.shape[-1])
        if self.shared == math.inf:
            return each
        return np.minimum(each, _up(self.shared * p_norm_above(sensitivities, self.q), 1))


def _radii(network: Network, changes: PlausibleChanges) -> Floats:
    """The radius of each layer."""
    return np.array([radius.weight for radius in changes.layer_radii(network)])


def _up(values: Floats, terms: int) -> Floats:
    """An upper bound, in exact arithmetic, of a sum of that many products >= 0."""
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


def _affine(weight: Floats, bias: Floats, values: Floats) -> tuple[Floats, Floats]:
    """W v + b, and a bound of its rounding error."""
    size = np.abs(values) @ np.abs(weight).T + np.abs(bias)
    terms = weight.shape[1] + 1
    return values @ weight.T + bias, size * (2 * terms + 8) * _UNIT + terms * _TINY


def _slopes(centre: Floats, low: Floats, high: Floats) -> Floats:
    """The least and the greatest slope of max(z, 0) from the centre to [low, high], and the slope of the tangent."""
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


def _around(centre: Floats, deviation: Floats) -> tuple[Floats, Floats]:
    """[centre - deviation, centre + deviation], rounded outward; the whole line on overflow."""
    slack = (np.abs(centre) + np.abs(deviation)) * 8.0 * _UNIT + _LEAST
    low, high = centre - deviation - slack, centre + deviation + slack
    return np.where(np.isfinite(low), low, -np.inf), np.where(np.isfinite(high), high, np.inf)


class _Enclosure:
    """Today's values at some points, layer by layer, with their ranges under the changes."""

    def __init__(self, network: Network, changes: PlausibleChanges, points: Floats) -> None:
        self.ball = ball = _Ball(changes)
        self.radii = radii = np.tile(_radii(network, changes), (len(points), 1))
        self.layers: list[_Layer] = []
        # What the last layer hands on: the centre, the range around it, and ||(v', 1)||_q from above.
        self.centre = self.low = self.high = points
        self.size = ball.size(points)
        for weight, bias, kind in zip(
            network.weights, network.biases, network.activations, strict=False
        ):
            centre, residual = _affine(weight, bias, self.centre)
            low, high = (
                _around(centre, self.reach(rows)[0] + residual)[side]
                for side, rows in enumerate((weight, -weight))
            )
            relu, neurons = kind == "relu", weight.shape[0]
            slopes = _slopes(centre, low, high) if relu else np.ones((3, *centre.shape))
            self.layers.append(_Layer(weight, slopes, self.size, residual))
            self.centre, self.low, self.high = (activated(end, relu) for end in (centre, low, high))
            size = ball.size(np.maximum(np.abs(self.low), np.abs(self.high)))
            if len(self.layers) == 1:
                # Neurons share the radius too: ||v' - v||_p <= ||E (x, 1)||_p <= ||E||_p ||(x, 1)||_q.
                wider = float(neurons) ** max(1.0 / ball.q - 1.0 / ball.p, 0.0)
                moved = wider * radii[:, 0] * self.size + residual.sum(axis=1)
                size = np.minimum(size, _up(ball.size(self.centre) + moved, neurons + 16))
            self.size = size

    def _fall(self, rows: Floats) -> tuple[list[Floats], Floats]:
        """The largest fall of rows . v' below rows . v, rows (n, k, H): for each unit that a layer moves, and by
        itself.

        A positive coefficient keeps today's slope, because max(z, 0) lies above its tangents.
        """
        middle, half = rows, np.zeros(rows.shape)
        sensitivities, fixed = [], np.zeros(rows.shape[:2])
        for layer in reversed(self.layers):
            low, high, terms = middle - half, middle + half, layer.weight.shape[0]
            least, greatest, tangent = layer.slopes[:, :, None, :]
            least, greatest = (np.where(low > 0.0, tangent, slope) for slope in (least, greatest))
            low, high = low * greatest, high * np.where(high > 0.0, greatest, least)
            middle, half = 0.5 * (low + high), 0.5 * (high - low)
            # Three roundings above and the products below: all relative to the greatest coefficient.
            reach = _up(np.maximum(np.abs(low), np.abs(high)), 4)
            sensitivities.append(_up(p_norm_above(reach, self.ball.q) * layer.size[:, None], 1))
            fixed = _up(fixed + (reach * layer.residual[:, None, :]).sum(axis=-1), terms + 2)
            magnitude = np.abs(layer.weight)
            lost = (reach @ magnitude) * (4 * terms + 32) * _UNIT + terms * _TINY
            middle, half = middle @ layer.weight, half @ magnitude + lost
        return sensitivities[::-1], fixed

    def reach(self, rows: Floats, root: float = 1.0) -> tuple[Floats, list[Floats]]:
        """The largest fall of rows . v' while a layer changes the rows themselves, (n, k), and the fall for each layer.

        It is the better of two bounds: all layers together, or the values one by one, each within its range.
        """
        moves, fixed = self._fall(np.broadcast_to(rows, (self.size.size, *rows.shape)))
        own = np.broadcast_to(_up(root * self.size, 1)[:, None], fixed.shape)
        radii = self.radii[:, None, : len(moves) + 1]
        together = self.ball.most(np.stack([*moves, own], axis=-1), radii) + fixed
        falls, rises = self.centre - self.low, self.high - self.centre
        single = falls @ np.maximum(rows, 0.0).T + rises @ np.maximum(-rows, 0.0).T
        single = single + radii[:, :, -1] * own
        # What is not a number, for ranges without an end, says nothing.
        return _up(np.fmin(together, single), 2 * rows.shape[1] + 4), moves

    def least(self, margin: Margin) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Bounds with and without a price on the output layer: the bound, its price (or 0), and whether it is
        shared."""
        row, shared = margin.row[None, :], self.ball.shared
        today, residual = _affine(row, np.array([margin.offset]), self.centre)
        moved, moves = self.reach(row, self.ball.root(margin.count))
        tried = [(_around(today, moved + residual)[0], np.zeros_like(today))]
        if moves and shared < math.inf:
            tried.append(self._priced(margin, moves))
        together = sum(bounds.shape[1] for bounds, _ in tried)
        if moves and shared == math.inf:
            tried.append(self._priced(margin, []))
        bounds, prices = (np.concatenate(parts, axis=1) for parts in zip(*tried, strict=True))
        return bounds, prices, np.arange(bounds.shape[1]) < together

    def _priced(self, margin: Margin, moves: list[Floats]) -> tuple[Floats, Floats]:
        """Bounds on a margin for several prices of the output layer's change, and the prices, (n, prices) each.

        The gain of an output weight less its price, price h(pull |v'| / price), is convex in v' and lies below its
        chord. The chords are added to the row, and the earlier layers are bounded for the sum. With `moves` (how
        far a unit of each layer moves the margin) they pay the same price for the shared radius; otherwise the
        output layer keeps to its own radius.
        """
        ball, row, radii = self.ball, margin.row, self.radii[:, None, :]
        last = np.full((radii.shape[0], 1), ball.shared) if moves else radii[:, :, -1]
        pull = _up(last * ball.root(margin.count), 1)
        gains = [last * move for move in moves] + [pull * ball.size(self.centre)[:, None]]
        guess = p_norm_above(np.concatenate(gains, axis=1), ball.q)[:, None] / ball.p + 1e-300
        price = guess * 2.0 ** np.linspace(-1.0, 1.0, 7)
        low, high = self.low[:, None, :], self.high[:, None, :]
        at_low, at_high = (
            _taken(ball, pull[:, :, None] * np.abs(end), price[:, :, None]) for end in (low, high)
        )
        chord = (at_high - at_low) / np.where(high > low, high - low, 1.0)
        constant = np.maximum(at_low - chord * low, at_high - chord * high)
        rows = row - chord
        parts, fixed = self._fall(rows)
        sensitivities = np.stack(parts, axis=-1)
        each = ball.most(sensitivities, radii[:, :, :-1])
        if moves:
            together = ball.shared * p_norm_above(sensitivities, ball.q)
            each = np.minimum(each, _taken(ball, together, price))
        cost = price + each + _taken(ball, pull * ball.biases, price)
        bound = (rows * self.centre[:, None, :] - constant).sum(axis=-1) + margin.offset - cost
        farthest = np.maximum(np.abs(low), np.abs(high))
        size = (np.abs(row) + 2.0 * np.abs(chord)) * farthest + at_low + at_high
        size = size.sum(axis=-1) + abs(margin.offset) + cost + np.abs(fixed)
        bound = bound - fixed - _up(size * (4 * row.size + 64) * _UNIT, 2 * row.size)
        return np.where(np.isfinite(bound), bound, -np.inf), price


@np.errstate(all="ignore")
def least_margins(
    network: Network,
    changes: PlausibleChanges,
    points: Floats,
    margins: Sequence[Margin],
) -> Floats:
    """A lower bound on each margin over the ball, (n, margins), rounding included; exact without hidden layers."""
    bounds = np.empty((points.shape[0], len(margins)))
    chunk = max(1, _CHUNK // max([1, *(size * size for size in network.hidden)]))
    for start in range(0, len(points), chunk):
        part = slice(start, start + chunk)
        enclosure = _Enclosure(network, changes, points[part])
        bounds[part] = np.stack([enclosure.least(one)[0].max(axis=1) for one in margins], axis=1)
    return bounds


@np.errstate(all="ignore")
def leaf(network: Network, changes: PlausibleChanges, x: Floats, margin: Margin) -> Document:
    """The evidence for the bound of `least_margins`, as `holdfast.checker` reads it."""
    bounds, prices, shared = _Enclosure(network, changes, x[None, :]).least(margin)
    best = int(bounds[0].argmax())
    return {"price": float(prices[0, best]), "shared": bool(shared[best])} if best else {}


def _taken(ball: _Ball, gain: Floats, price: Floats) -> Floats:
    """An upper bound of price h(gain / price), the maximum over rho of gain rho - price rho^p."""
    offer = gain / price * (1.0 + 8.0 * _UNIT) + _LEAST
    kept = (ball.p - 1.0) * np.minimum(offer / ball.p, 1.0) ** ball.q + np.maximum(
        offer - ball.p, 0.0
    )
    return price * kept * (1.0 + 32.0 * _UNIT) + _TINY


def linear_radius(
    norm: float, biases: bool, points: Floats, margins: Sequence[Margin]
) -> tuple[Floats, Floats]:
    """Bounds of the radius margin / (count^(1/q) ||(x, 1)||_q) of a model without hidden layers, (n, margins).

    Both are 0 if the margin is lost today, and inf if no change moves it.

    Examples
    --------
    >>> net = Network([[[3.0, 4.0]]], [[0.0]])
    >>> linear_radius(2.0, False, np.array([[3.0, 4.0]]), [Margin.of(net, 0, -1)])[0].round(9)
    array([[5.]])
    """
    ball = _Ball(PlausibleChanges(1.0, norm, biases))
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


def _direction(ball: _Ball, gradient: Floats) -> Floats:
    """The point of the unit p-ball with the largest inner product with the gradient."""
    sizes = np.abs(gradient)
    largest = sizes.max()
    direction = np.sign(gradient) * (sizes / (largest if largest > 0.0 else 1.0)) ** (ball.q - 1.0)
    # The largest entry is 1, unless all are 0 and stay so.
    return np.asarray(direction / np.maximum(p_norm(direction, ball.p), 1.0))


@dataclass(eq=False)
class _Descent:
    """Steepest descent of one margin at one point, inside the ball.

    A change is one row of parameters, as `flat` has them.
    """

    network: Network
    changes: PlausibleChanges
    x: Floats
    margin: Margin
    deadline: Deadline = NO_LIMIT

    def __post_init__(self) -> None:
        network, changes = self.network, self.changes
        self.ball, self.radii = _Ball(changes), _radii(network, changes)
        self.today, self.signal = flat(network), self.margin.signs(network.n_outputs)
        self.together = changes.balls(network)

    def least(self, goal: float | None) -> tuple[float, Floats]:
        """The best of several descents, which first treat inactive neurons as inactive, half active or active."""
        still = np.zeros_like(self.today)
        descents = [self.run(self.steepest(still, leak), goal) for leak in (0.0, 0.3, 1.0)]
        return min(descents, key=itemgetter(0))

    def run(self, change: Floats, goal: float | None) -> tuple[float, Floats]:
        """The least margin met, or one clearly below the goal, and its change."""
        value = self.margins(change)
        # What is below by more than rounding errors stays below when it is moved inwards and replayed.
        enough = -math.inf if goal is None else goal - 1e-9 * abs(value)
        for _ in range(_ROUNDS):
            if value < enough or self.deadline.over:
                break
            tried = change + _SHARES * (self.steepest(change) - change)
            margins = self.margins(tried)
            best = int(margins.argmin())
            if not margins[best] < value:
                break
            change, value = tried[best], margins[best]
        return float(value), change

    def margins(self, changes: Floats) -> Floats:
        """The margin after each change, (...)."""
        return np.nan_to_num(self._forward(changes)[-1][2] @ self.signal, nan=np.inf)

    def _forward(self, changes: Floats) -> list[tuple[Floats, Floats, Floats, str]]:
        """For each layer after each change: the weights, the input, the preactivations, and the output."""
        layers, values = [], self.x
        for weight, bias, kind in zip(
            *apart(self.network, self.today + changes),
            (*self.network.activations, ""),
            strict=True,
        ):
            before = np.einsum("...oi,...i->...o", weight, values) + bias
            layers.append((weight, values, before, kind))
            values = activated(before, kind == "relu")
        return layers

    def gradient(self, change: Floats, leak: float = 0.0) -> Floats:
        """The gradient of the margin after a change; inactive neurons pass on the share `leak` of it."""
        signal = self.signal
        parts: list[Floats] = []
        for weight, values, before, kind in reversed(self._forward(change)):
            if kind == "relu":
                signal = signal * np.where(before > 0.0, 1.0, leak)
            parts += [signal * self.ball.biases, np.outer(signal, values).ravel()]
            signal = signal @ weight
        return np.concatenate(parts[::-1])

    def steepest(self, change: Floats, leak: float = 0.0) -> Floats:
        """The change on the edge of the ball that lowers the margin most, to first order."""
        gradient, step = self.gradient(change, leak), np.zeros_like(change)
        for rows, radius in self.together:
            step[rows] = -radius * _direction(self.ball, gradient[rows])
        return step

    def with_shifts(self, shifts: Floats) -> Floats:
        """The change that moves the hidden neurons by these shares of the radius, and the output by the rest."""
        ball, left = self.ball, 1.0
        shifts = shifts / max(float(p_norm_above(shifts, ball.p)), 1.0)
        if ball.shared < math.inf:
            left = max(1.0 - float((np.abs(shifts) ** ball.p).sum()), 0.0) ** (1.0 / ball.p)
        first = self.radii[0] * np.outer(shifts, _direction(ball, ball.extend(self.x)))
        change = np.append(first[:, :-1], first[:, -1])
        still = np.zeros(self.today.size - change.size)
        gradient = self.gradient(np.append(change, still))[change.size :]
        return np.append(change, -left * self.radii[1] * _direction(ball, gradient))

    def network_of(self, change: Floats) -> Network | None:
        """Today's network after a change, moved inwards until it is proven to be in the ball."""
        for less in (1e-12, 1e-10, 1e-8, 1e-6, 1e-4):
            moved = self.today + (1.0 - less) * change
            if not np.isfinite(moved).all():
                return None
            changed = rebuilt(self.network, moved)
            if self.changes.contains(self.network, changed):
                return changed
        return None


@np.errstate(all="ignore")
def worst(network: Network, changes: PlausibleChanges, x: Floats, margin: Margin) -> Network:
    """The network inside the ball with the smallest margin at x that descents find; possibly today's."""
    descent = _Descent(network, changes, x, margin)
    return descent.network_of(descent.least(None)[1]) or network


@dataclass(eq=False)
class _Part:
    """A part of the ball: its bound, a range for each shift, and the prices and shifts of the bound."""

    bound: float
    low: Floats
    high: Floats
    prices: Floats
    shifts: Floats
    # Where it has been cut in two, and the halves.
    at: tuple[int, float] = (0, 0.0)
    halves: Sequence[_Part] = ()

    def cut(self, j: int, middle: float) -> list[tuple[Floats, Floats]]:
        """The ranges of the two parts below and above a value of a coordinate."""
        self.at = j, float(middle)
        below, above = self.high.copy(), self.low.copy()
        below[j] = above[j] = middle
        return [(self.low, below), (above, self.high)]

    def tree(self) -> Document:
        """The cuts, as `holdfast.checker` reads them, with the evidence for each uncut part."""
        if not self.halves:
            return {"prices": self.prices.tolist()}
        below, above = (half.tree() for half in self.halves)
        return {"cut": self.at[0], "at": self.at[1], "below": below, "above": above}


class _ShiftSearch:
    """One margin of a network with one hidden layer, at one point: neuron j reads centre_j + reach * s_j.

    Branch and bound over the shifts s, until the bound or a change is beyond the goal.
    """

    def __init__(self, descent: _Descent, goal: float | None) -> None:
        network, ball, row = descent.network, descent.ball, descent.margin.row
        centre, residual = _affine(network.weights[0], network.biases[0], descent.x[None, :])
        self.descent, self.ball, self.margin = descent, ball, descent.margin
        self.goal = math.inf if goal is None else goal
        self.centre, self.rectified = centre[0], network.activations[0] == "relu"
        # How far the first layer moves one neuron, and the output layer a margin for each unit that it reads.
        first, last = descent.radii
        self.reach = float(_up(first * ball.size(descent.x), 1))
        self.pull = float(_up(last * ball.root(self.margin.count), 1))
        # What rounding of the centre and of the row can cost.
        self.error = float(_up(residual[0] @ (np.abs(row) + self.pull), row.size))
        self.least, self.shifts = math.inf, np.zeros_like(row)

    def values(self, shifts: Floats) -> Floats:
        """v(s), neurons on the last axis."""
        return np.asarray(activated(self.centre + self.reach * shifts, self.rectified))

    def bound(
        self, low: Floats, high: Floats, prices: Floats, near: Floats
    ) -> tuple[Floats, Floats]:
        """For each pair of prices a lower bound for shifts in [low, high], and each neuron's shift.

        Between two shifts the concave part lies above its chord, and price |s|^p above every tangent. The shifts
        are spread evenly, with more around the shifts in `near`.
        """
        p, row, offset = self.ball.p, self.margin.row, self.margin.offset
        price, last = prices.T[:, :, None, None]
        low, width = low[:, None], (high - low)[:, None]
        kink = np.nan_to_num(-self.centre / self.reach)[:, None]
        # Even ones up to the end and beyond, so that it is met.
        marks = [
            low + width * np.linspace(0.0, 1.1, 28),
            near[:, None] + width * _NEAR,
            kink,
            0.0 * kink,
        ]
        grid = np.sort(np.clip(np.concatenate(marks, axis=1), low, high[:, None]), axis=1)
        values = self.values(grid.T).T
        concave = row[:, None] * values - _taken(self.ball, self.pull * np.abs(values), last)
        left, right, cell = grid[:, :-1], grid[:, 1:], np.diff(grid, axis=1)
        slope = np.diff(concave, axis=2) / np.where(cell > 0.0, cell, 1.0)
        touch = -np.sign(slope) * (np.abs(slope) / (p * price)) ** (self.ball.q - 1.0)
        touch = np.clip(touch, left, right)
        tilt = p * np.abs(touch) ** (p - 1.0) * np.where(left + right < 0.0, -1.0, 1.0)
        at_left, at_right = (
            price * (np.abs(touch) ** p + tilt * (end - touch)) for end in (left, right)
        )
        least = np.minimum(concave[:, :, :-1] + at_left, concave[:, :, 1:] + at_right)
        best = least.argmin(axis=2)[:, :, None]
        parts = np.take_along_axis(least, best, axis=2)[:, :, 0]
        paid = prices[:, 0] if self.ball.shared < math.inf else prices.sum(axis=1)
        bias = _taken(self.ball, np.array(self.pull * self.ball.biases), prices[:, 1])
        size = (np.abs(row) + self.pull) * (np.abs(self.centre) + self.reach) + _TINY
        size = size.sum() + abs(offset) + self.pull + (p * row.size + 2.0) * prices.sum(axis=1)
        error = self.error + size * (4 * row.size + 128) * _UNIT
        bounds = offset + parts.sum(axis=1) - paid - bias - error
        shifts = np.take_along_axis(touch, best, axis=2)[:, :, 0]
        return np.where(np.isfinite(bounds), bounds, -np.inf), shifts

    def part(
        self, low: Floats, high: Floats, prices: Floats, widths: Sequence[float] = _WIDTHS
    ) -> _Part:
        """Search the prices from coarse to fine; every bound is valid, and the last ones use the finest cells."""
        near, shared = np.zeros_like(low), self.ball.shared < math.inf
        for width in widths:
            factors = 2.0 ** np.linspace(-width, width, 9 if shared else 7)
            pairs = zip(factors, factors, strict=True) if shared else product(factors, factors)
            tried = prices * np.array([*pairs])
            bounds, shifts = self.bound(low, high, tried, near)
            best = int(bounds.argmax())
            prices, near = tried[best], shifts[best]
            value = float(self.descent.margins(self.descent.with_shifts(near)))
            if value < self.least:
                self.least, self.shifts = value, near
            if bounds[best] > self.goal:
                break
        return _Part(float(bounds[best]), low, high, prices, shifts)

    def run(self, rounds: int) -> tuple[float, Document]:
        """The least bound over all parts, after at most `rounds` splits, and its evidence."""
        still, row = np.zeros_like(self.centre), self.margin.row
        values = self.values(still)
        today = float(values @ row + self.margin.offset)
        gain = self.reach * p_norm_above(row, self.ball.q) + self.pull * self.ball.size(values)
        price = np.full(2, gain / self.ball.p + 1e-300)

        def enough(bound: float) -> bool:
            closed = self.least - bound <= _GAP * abs(today - bound)
            return closed or bound > self.goal or self.least < self.goal < math.inf

        whole = self.part(still - 1.0, still + 1.0, price)
        parts = [whole]
        for _ in range(rounds):
            part = min(parts, key=attrgetter("bound"))
            if enough(part.bound):
                break
            parts.remove(part)
            part.halves = self.cut(part)
            for half in part.halves:
                # A part is no worse than the whole it was cut from.
                half.bound = max(half.bound, part.bound)
            parts += part.halves
        return min(part.bound for part in parts), whole.tree()

    def cut(self, part: _Part) -> list[_Part]:
        """A cut between the two minima of a neuron that jumps as the prices move."""
        prices, shifts = part.prices, part.shifts
        least, greatest = shifts.min(axis=0), shifts.max(axis=0)
        j = int((greatest - least).argmax())
        middle = 0.5 * (least[j] + greatest[j])
        if not part.low[j] < middle < part.high[j]:
            middle = 0.5 * (part.low[j] + part.high[j])
        return [self.part(*ends, prices, _WIDTHS[2:]) for ends in part.cut(j, middle)]


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
) -> tuple[float, Network | None, Document | None]:
    """A tighter lower bound on one margin over the ball, and a network inside it that breaks the margin, if one is met.

    The last result is the evidence for the bound, if `least_margins` was not enough. The bound is exact to a small
    gap with at most one hidden layer. The search stops when the bound or a network is beyond the `goal`.
    """
    lower, tree = float(least_margins(network, changes, x[None, :], [margin])[0, 0]), None
    descent = _Descent(network, changes, x, margin, deadline)
    value, change = descent.least(goal)
    if len(network.hidden) == 1 and (goal is None or lower <= goal <= value):
        search = _ShiftSearch(descent, goal)
        bound, tree = search.run(rounds)
        again = descent.run(descent.with_shifts(search.shifts), goal)
        value, change = min((value, change), again, key=itemgetter(0))
        lower = max(lower, bound)
    return lower, descent.network_of(change) if value <= 0.0 else None, tree
