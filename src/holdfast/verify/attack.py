"""Best response: the adversary's cheap search for a network in Δ that breaks the margin.

Fix which neurons are active; then the worst side of every neuron follows from one walk back. Move there, look which
neurons are active now, and repeat. Two or three rounds find most counter-models there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.arrays import Array, array_namespace, take_rows
from holdfast.bounds.layers import Layers, Start


@dataclass(frozen=True)
class Attack:
    """The least margin that was reached, (n,), and the network there: first preactivations, who is on the low side."""

    margin: Array
    corner: Array
    low: Array


def attack(layers: Layers, points: Array, rounds: int = 3, clear: Array | None = None) -> Attack:
    """Alternate between activations and sides, starting from today's activations, and keep the best.

    Rows whose margin falls below `clear` are left alone from then on.
    """
    xp = array_namespace(points)
    start = Start(*layers.hidden[0].sides(points))
    best, active = _respond(layers, start, _todays_activations(layers, points))
    rows: Array | None = None
    for _ in range(0 if layers.depth == 1 else rounds - 1):
        if clear is not None:
            margin = best.margin if rows is None else take_rows(best.margin, rows)
            left = xp.nonzero(margin >= (clear if rows is None else take_rows(clear, rows)))[0]
            if not left.shape[0]:
                break
            rows = left if rows is None else take_rows(rows, left)
            layers, start = layers.take(left), start.take(left)
            active = [take_rows(mask, left) for mask in active]
        found, active = _respond(layers, start, active)
        best = _better(best, found, rows)
    return best


def _better(old: Attack, new: Attack, rows: Array | None) -> Attack:
    """The lower margin of each row; `new` may be about some `rows` only."""
    xp = array_namespace(old.margin)
    if rows is None:
        lower = new.margin < old.margin
        wide = lower[:, None]
        corner, low = xp.where(wide, new.corner, old.corner), xp.where(wide, new.low, old.low)
        return Attack(xp.where(lower, new.margin, old.margin), corner, low)
    better = new.margin < take_rows(old.margin, rows)
    for ours, theirs in ((old.margin, new.margin), (old.corner, new.corner), (old.low, new.low)):
        ours[rows[better], ...] = theirs[better, ...]
    return old


def _respond(layers: Layers, start: Start, active: list[Array]) -> tuple[Attack, list[Array]]:
    """The worst sides for these activations, the margin there, and the activations there."""
    xp = array_namespace(start.low)
    one = xp.ones_like(start.low[:, :1])
    c, d, _ = layers.margin.pull(one, 0.0 * one)
    lows: list[Array] = []
    for layer, mask in zip(layers.hidden[:0:-1], active[::-1], strict=True):
        line = d * mask if c is None else c + d * mask
        lower = xp.maximum(line, 0.0)
        lows.append(line > 0.0 if c is not None else d > 0.0)
        c, d, _ = layer.pull(lower, line - lower)
    _, corner = start.least(c, d)
    values = xp.maximum(corner, 0.0) if layers.relus[0] else corner
    active = []
    for layer, relu, low in zip(layers.hidden[1:], layers.relus[1:], lows[::-1], strict=True):
        z = xp.where(low, *layer.sides(values))
        active.append(xp.astype(z > 0.0, z.dtype))
        values = z * active[-1] if relu else z
    margin = layers.margin.sides(values)[0][:, 0]
    return Attack(margin, corner, xp.concat(lows[::-1], axis=1) if lows else corner[:, :0] > 0.0), active


def _todays_activations(layers: Layers, points: Array) -> list[Array]:
    """Which neurons of the later hidden layers are above zero today."""
    xp = array_namespace(points)
    values, active = points, []
    for i, layer in enumerate(layers.hidden):
        z = values @ layer.weight.T + layer.bias
        active.append(xp.astype(z > 0.0, z.dtype))
        values = z * active[-1] if layers.relus[i] else z
    return active[1:]


def sides(layers: Layers, points: Array, corner: Array, low: Array) -> Array:
    """Each hidden neuron's side in [-1, 1]: how far it is moved down or up, as a share of how far it may be.

    Of later neurons `low` says whether they are on the low side, or it is their sides already.
    """
    xp = array_namespace(points)
    first = layers.hidden[0]
    center = points @ first.weight.T + first.bias
    bottom, top = first.sides(points)
    reach = xp.where(corner < center, center - bottom, top - center)
    share = xp.where(reach > 0.0, (corner - center) / xp.where(reach > 0.0, reach, 1.0), 0.0)
    share = xp.where(corner <= bottom, -1.0, xp.where(corner >= top, 1.0, share))
    low = 1.0 - 2.0 * xp.astype(low, share.dtype) if low.dtype == xp.bool else low
    return xp.concat([xp.minimum(xp.maximum(share, -1.0), 1.0), low], axis=1)
