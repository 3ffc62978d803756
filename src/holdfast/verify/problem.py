"""One question about many points: how small can this margin become over Δ?"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.arrays import Array, take_rows
from holdfast.bounds.abstraction import IntervalNetwork, Margin
from holdfast.bounds.rounding import RoundingModel, magnitude
from holdfast.network import Network

# What an attack computes is a network inside Δ up to rounding in its own parameters too: flips must clear this many
# rounding errors, so that the witness still flips when it is written down and replayed elsewhere.
WITNESS_SAFETY = 8.0


@dataclass(frozen=True)
class Problem:
    """Points, the interval network around them, the margin in question and the allowance for rounding."""

    network: Network
    net: IntervalNetwork
    margin: Margin
    rounding: RoundingModel
    points: Array
    sizes: Array

    @classmethod
    def of(cls, network: Network, net: IntervalNetwork, margin: Margin, points: Array) -> Problem:
        """The problem with its rounding model."""
        return cls(network, net, margin, RoundingModel.of(network, net), points, magnitude(points))

    def take(self, rows: Array) -> Problem:
        """The same question about some of the points."""
        return Problem(
            self.network,
            self.net.take(rows),
            self.margin,
            self.rounding.take(rows),
            take_rows(self.points, rows),
            take_rows(self.sizes, rows),
        )

    def __len__(self) -> int:
        return int(self.points.shape[0])

    @property
    def row(self) -> Array:
        """The output row at its worst, (H,) or (n, H)."""
        return self.margin.worst_row(self.net)

    @property
    def offset(self) -> Array:
        """The output's constant at its worst, a number or (n,)."""
        return self.margin.worst_offset(self.net)

    @property
    def error(self) -> Array:
        """How far a computed margin may be from its exact value, (n,)."""
        return self.rounding.output(self.sizes)[:, 0]
