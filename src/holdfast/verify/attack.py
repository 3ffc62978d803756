"""Best response: the adversary's cheap search for a network in Δ that breaks the margin.

Fix which neurons are active; then the worst side of every neuron follows from one walk back. Move there, look which
neurons are active now, and repeat. Two or three rounds find most counter-models there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from holdfast.arrays import Array, array_namespace, take_rows
from holdfast.bounds.layers import Layers, Start


@dataclass(frozen=True)
class Attack:
    """The least margin that was reached, (n,), and the network there: which hidden neurons are on the low side.

    Of a first hidden layer without a ReLU, whose neurons may be anywhere in between, `first` are the preactivations.
    """

    margin: Array
    first: Array
    low: Array

    def parts(self) -> tuple[Array, ...]:
        """The arrays that it consists of."""
        return self.margin, self.first, self.low

    def sides(self, layers: Layers, points: Array) -> Array:
        """Each hidden neuron's side: -1 or 1, or for a first neuron without a ReLU a number in between."""
        xp = array_namespace(points)
        if layers.relus[0]:
            return 1 - 2 * xp.astype(xp.concat([self.first, self.low], axis=1), xp.int8)
        return sides(layers, points, self.first, self.low)

    def take(self, rows: Array) -> Attack:
        """Some rows."""
        return Attack(*(take_rows(part, rows) for part in self.parts()))


def attack(layers: Layers, points: Array, rounds: int = 3, clear: float = -math.inf) -> Attack:
    """Alternate between activations and sides, starting from today's activations, and keep the best.

    Rows whose margin falls below `clear` are left alone from then on.
    """
    xp = array_namespace(points)
    today = layers.hidden[0].today(points)
    start = Start(*layers.hidden[0].sides(points, today=today))
    # Of a neuron with a ReLU only the values matter.
    start = Start(xp.maximum(start.low, 0.0), xp.maximum(start.high, 0.0)) if layers.relus[0] else start
    best, active = _respond(layers, start, _todays_activations(layers, today))
    rows: Array | None = None
    for _ in range(0 if layers.depth == 1 else rounds - 1):
        left = xp.nonzero((best.margin if rows is None else take_rows(best.margin, rows)) >= clear)[0]
        if not left.shape[0]:
            break
        if left.shape[0] < start.low.shape[0]:
            rows = left if rows is None else take_rows(rows, left)
            layers, start = layers.take(left), start.take(left)
            active = [take_rows(mask, left) for mask in active]
        found, active = _respond(layers, start, active)
        best = _better(best, found, rows)
    return best


def _better(old: Attack, new: Attack, rows: Array | None) -> Attack:
    """The lower margin of each row; `new` may be about some `rows` only."""
    xp = array_namespace(old.margin)
    lower = new.margin < (old.margin if rows is None else take_rows(old.margin, rows))
    pairs = zip(old.parts(), new.parts(), strict=True)
    if rows is None:
        return Attack(*(xp.where(lower if a.ndim == 1 else lower[:, None], b, a) for a, b in pairs))
    for ours, theirs in pairs:
        ours[rows[lower], ...] = theirs[lower, ...]
    return old


def _respond(layers: Layers, start: Start, active: list[Array]) -> tuple[Attack, list[Array]]:
    """The worst sides for these activations, the margin there, and the activations there."""
    xp = array_namespace(start.low)
    c, d, _ = layers.wanted
    lows: list[Array] = []
    worst = layers.worst
    for layer, mask in zip(layers.hidden[:0:-1], active[::-1], strict=True):
        if worst and not lows:
            lows.append(xp.broadcast_to(d > 0.0, mask.shape))
            d = mask @ worst[2]
            continue
        line = d * mask if c is None else c + d * mask
        lower = xp.maximum(line, 0.0)
        lows.append(line > 0.0 if c is not None else xp.broadcast_to(d > 0.0, mask.shape))
        c, d, _ = layer.pull(lower, line - lower)
    if c is None:
        first = xp.broadcast_to(d > 0.0, start.low.shape)
        values = xp.where(first, start.low, start.high)
    else:
        values = first = start.least(c, d)[1]
    active = []
    for layer, relu, low in zip(layers.hidden[1:], layers.relus[1:], lows[::-1], strict=True):
        last = worst and len(active) == len(lows) - 1
        z = values @ worst[0] + worst[1] if last else xp.where(low, *layer.sides(values))
        active.append(xp.astype(z > 0.0, z.dtype))
        values = z * active[-1] if relu else z
    low = lows[0] if len(lows) == 1 else xp.concat(lows[::-1], axis=1) if lows else first[:, :0]
    # Copies, since the better of several rounds are written into them.
    return Attack(layers.reached(values), *(xp.asarray(part, copy=True) for part in (first, low))), active


def _todays_activations(layers: Layers, today: Array) -> list[Array]:
    """Which neurons of the later hidden layers are above zero today; of the first these are the preactivations."""
    xp = array_namespace(today)
    values, active = xp.maximum(today, 0.0) if layers.relus[0] else today, []
    for layer, relu in zip(layers.hidden[1:], layers.relus[1:], strict=True):
        z = layer.today(values)
        active.append(xp.astype(z > 0.0, z.dtype))
        values = z * active[-1] if relu else z
    return active


def sides(layers: Layers, points: Array, corner: Array, low: Array) -> Array:
    """Each hidden neuron's side in [-1, 1]: how far it is moved down or up, as a share of how far it may be.

    Of later neurons `low` says whether they are on the low side, or it is their sides already.
    """
    xp = array_namespace(points)
    first = layers.hidden[0]
    center = first.today(points)
    bottom, top = first.sides(points, today=center)
    reach = xp.where(corner < center, center - bottom, top - center)
    share = xp.where(reach > 0.0, (corner - center) / xp.where(reach > 0.0, reach, 1.0), 0.0)
    share = xp.where(corner <= bottom, -1.0, xp.where(corner >= top, 1.0, share))
    low = 1.0 - 2.0 * xp.astype(low, share.dtype) if low.dtype == xp.bool else low
    return xp.concat([xp.minimum(xp.maximum(share, -1.0), 1.0), low], axis=1)
