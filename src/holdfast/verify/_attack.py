"""Best response: the adversary's cheap search for a network in Δ that breaks the margin.

Fix which neurons are active; then the worst side of every neuron follows from one walk back. Move there, look which
neurons are active now, and repeat. Two or three rounds find most counter-models there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast._arrays import Array, RowBatch, array_namespace
from holdfast.bounds._layers import Box, Layers, activated


@dataclass(frozen=True)
class _Response(RowBatch):
    """Margins (n,), the first layer's values there, and whether neurons are wanted low: its own, the later ones'."""

    margin: Array
    corner: Array
    first: Array
    low: Array


def attack(layers: Layers, points: Array, rounds: int = 3) -> tuple[Array, Array]:
    """The least margin that was reached from today's activations, (n,), and each hidden neuron's side there, (n, N)."""
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
    """The worst that can be done while those later neurons are active whose z is positive; their z then."""
    (c, d, _), _, low, _ = layers.gradient(z)
    corner = box.least(c, d)[1]
    first = array_namespace(d).broadcast_to(d > 0.0, corner.shape)
    low = low if layers.spans else z > 0.0
    margin, z = layers.reach(corner, low)
    return _Response(margin, corner, first, low), z


def sides(layers: Layers, points: Array, corner: Array, low: Array) -> Array:
    """Each hidden neuron's side in [-1, 1]: how far it is moved down or up, as a share of how far it may be.

    Of later neurons `low` says whether they are on the low side, or it is their sides already.
    """
    xp, share = array_namespace(points), layers.hidden[0].share(points, corner, layers.relus[0])
    low = 1.0 - 2.0 * xp.astype(low, share.dtype) if low.dtype == xp.bool else low
    return xp.concat([share, low], axis=1)
