"""Best response: the adversary's cheap search for a network in Δ that breaks the margin.

Fix which neurons are active; then the worst side of every neuron follows from one walk back. Move there, look which
neurons are active now, and repeat. Two or three rounds find most counter-models there are.
"""

from __future__ import annotations

import math

import numpy as np

from holdfast._arrays import Array, array_namespace, beside, take_rows
from holdfast.bounds._layers import Box, Layers, activated


def attack(
    layers: Layers, points: Array, rounds: int = 3, clear: float = -math.inf
) -> tuple[Array, Array]:
    """The least margin that was reached from today's activations, (n,), and each hidden neuron's side there, (n, N).

    Rows whose margin falls below `clear` are left alone from then on.
    """
    xp = array_namespace(points)
    everyone = layers
    first = layers.hidden[0]
    today = first.today(points)
    low, high = first.sides(points, today=today)
    # Of a neuron with a ReLU only the values matter.
    box = Box(activated(low, layers.relus[0]), activated(high, layers.relus[0]))
    values = activated(today, layers.relus[0])
    active = []
    for layer, relu in zip(layers.hidden[1:], layers.relus[1:], strict=True):
        z = layer.today(values)
        active.append(xp.astype(z > 0.0, z.dtype))
        values = activated(z, relu)
    best, active = _respond(layers, box, active)
    rows = beside(points, np.arange(points.shape[0]))
    for _ in range(0 if len(layers.hidden) == 1 else rounds - 1):
        left = xp.nonzero(take_rows(best[0], rows) >= clear)[0]
        if not left.shape[0]:
            break
        if left.shape[0] < rows.shape[0]:
            rows = take_rows(rows, left)
            layers = layers.take(left)
            box = box.take(left)
            active = [take_rows(mask, left) for mask in active]
        new, active = _respond(layers, box, active)
        lower = new[0] < take_rows(best[0], rows)
        for i, theirs in enumerate(new):
            if rows.shape[0] == points.shape[0]:
                best[i] = xp.where(lower[:, None] if i else lower, theirs, best[i])
            else:
                best[i][rows[lower], ...] = theirs[lower, ...]
    margin, start, later = best
    if layers.relus[0]:
        return margin, 1 - 2 * xp.astype(xp.concat([start, later], axis=1), xp.int8)
    return margin, sides(everyone, points, start, later)


def _respond(layers: Layers, box: Box, active: list[Array]) -> tuple[list[Array], list[Array]]:
    """The margin on the worst sides for these activations, these sides, and the activations there.

    Sides say which neurons are low; of a first hidden layer without a ReLU, whose neurons may be anywhere in between,
    the first are its preactivations.
    """
    xp = array_namespace(box.low)
    c, d, _ = layers.wanted
    lows: list[Array] = []
    for (i, _), mask in zip(layers.spans, active[::-1], strict=True):
        line = d * mask if c is None else c + d * mask
        lows.append(line > 0.0 if c is not None else xp.broadcast_to(d > 0.0, mask.shape))
        c, d, _ = layers.pulled(i, line, lows[-1])
    if c is None:
        first = xp.broadcast_to(d > 0.0, box.low.shape)
        values = xp.where(first, box.low, box.high)
    else:
        values = first = box.least(c, d)[1]
    active = []
    for i, low in enumerate(lows[::-1], 1):
        z = layers.on_side(i, values, low)
        active.append(xp.astype(z > 0.0, z.dtype))
        values = z * active[-1] if layers.relus[i] else z
    low = lows[0] if len(lows) == 1 else xp.concat(lows[::-1], axis=1) if lows else first[:, :0]
    # Copies, since the better of several rounds are written into them.
    return [
        layers.reached(values),
        xp.asarray(first, copy=True),
        xp.asarray(low, copy=True),
    ], active


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
    share = xp.where(corner >= activated(top, layers.relus[0]), 1.0, share)
    share = xp.where(corner <= activated(bottom, layers.relus[0]), -1.0, share)
    low = 1.0 - 2.0 * xp.astype(low, share.dtype) if low.dtype == xp.bool else low
    return xp.concat([xp.minimum(xp.maximum(share, -1.0), 1.0), low], axis=1)
