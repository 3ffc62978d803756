"""Best response: the adversary's cheap search for a network in Δ that breaks the margin.

For fixed active neurons one walk back gives the worst side of every neuron. Each round moves there and looks again
which neurons are active. Two or three rounds find most counter-models.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast._arrays import Array, RowBatch, array_namespace
from holdfast.bounds._layers import Box, Layers, activated


@dataclass(frozen=True)
class _Response(RowBatch):
    """The margins (n,), the first layer's values, and the neurons (first layer, later ones) that must be low."""

    margin: Array
    corner: Array
    first: Array
    low: Array


def attack(layers: Layers, points: Array, rounds: int = 3) -> tuple[Array, Array]:
    """The least margin reached from today's activations, (n,), and the side of each hidden neuron there, (n, N)."""
    first, relu = layers.hidden[0], layers.relus[0]
    today = first.today(points)
    # Of a neuron with a ReLU only the values matter.
    box = Box(*(activated(end, relu) for end in first.sides(points, today=today)))
    best, z = _respond(layers, box, layers.seen(activated(today, relu), None))
    for _ in range(rounds - 1 if layers.spans else 0):
        last, z = _respond(layers, box, z)
        best = best.where(best.margin <= last.margin, last)
    if not relu:
        return best.margin, sides(layers, points, best.corner, best.low)
    xp = array_namespace(points)
    # Also where both ends are 0 here: at other points the side may count.
    low = xp.concat([best.first, best.low], axis=1)
    return best.margin, 1 - 2 * xp.astype(low, xp.int8)


def _respond(layers: Layers, box: Box, z: Array) -> tuple[_Response, Array]:
    """The worst response while exactly the later neurons with z > 0 are active, and their new z."""
    (c, d, _), _, low, _ = layers.gradient(z)
    corner = box.least(c, d)[1]
    first = array_namespace(d).broadcast_to(d > 0.0, corner.shape)
    low = low if layers.spans else z > 0.0
    margin, z = layers.reach(corner, low)
    return _Response(margin, corner, first, low), z


def sides(layers: Layers, points: Array, corner: Array, low: Array) -> Array:
    """The side of each hidden neuron in [-1, 1]: its move down or up, as a share of the largest allowed move.

    For later neurons `low` is either a flag (on the low side) or the side itself.
    """
    xp, share = array_namespace(points), layers.hidden[0].share(points, corner, layers.relus[0])
    low = 1.0 - 2.0 * xp.astype(low, share.dtype) if low.dtype == xp.bool else low
    return xp.concat([share, low], axis=1)
