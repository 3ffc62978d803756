"""The cheapest point of a person's domain that some networks accept, as a linear program with binaries.

    min  sum_i weight_i |x_i - own_i|    over x in the domain,    margins of every acceptor at x >= 0

ReLU neurons are written with big-M from their own ranges over box and ball. Neurons whose sign is known need no binary,
neither do those that only harm, nor those without a ReLU. Neurons that several acceptors share, with the same weights
over the same inputs, are written once: counter-models pick their first layer from two copies of each neuron.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast._network import Bools, Floats, Ints
from holdfast.milp._acceptor import Acceptor
from holdfast.milp._builder import ProgramBuilder
from holdfast.milp._domain import Domain
from holdfast.milp._people import PointLimits, add_person
from holdfast.milp._relaxation import Relaxation

# Relative to the numbers that a margin is made of: what a solver may be short by, and a little more.
NEARLY = 1e-9


@dataclass(frozen=True)
class _Written:
    """An acceptor in the program: the binaries of each layer (-1 where there is none), and its margins' rows."""

    acceptor: Acceptor
    inactive: list[Ints]
    rows: list[int]
    size: Floats


class RecourseProgram:
    """The program: `relaxation` without the binaries, and the places of its parts.

    Every point of the domain that the acceptors accept, in exact arithmetic or in a forward pass, satisfies it. With a
    `demand`, only points with that relative margin satisfy it.
    """

    def __init__(
        self, domain: Domain, limits: PointLimits, acceptors: list[Acceptor], demand: float = 0.0
    ) -> None:
        self.domain = domain
        self.limits = limits
        self.demand = demand
        self.builder = ProgramBuilder()
        add_person(self.builder, domain, limits)
        self._written: list[_Written] = []
        self._neurons: dict[tuple[Any, ...], tuple[int, int]] = {}
        self.write(acceptors)

    def write(self, acceptors: list[Acceptor]) -> None:
        """Add acceptors; what is known about the program without them stays true."""
        for acceptor in acceptors:
            self._accept(acceptor)
        self.program = self.builder.build()
        self.relaxation = Relaxation(self.program)
        self.binaries = np.array(self.builder.binaries, dtype=np.intp)

    @property
    def nearly(self) -> float:
        """A margin that the solver's tolerances could make or break."""
        return NEARLY * max(float(one.size.max()) for one in self._written)

    def fits(self, point: Floats) -> bool:
        """Whether the acceptors accept it, with no more columns changed than may, up to the solver's tolerances."""
        moved, most = self._moved(point), self.limits.max_changed
        changed = sum(bool(moved[variables].any()) for variables in self.domain.features)
        return (most is None or changed <= most) and all(
            (one.acceptor.layers(point[None, :])[1] >= -NEARLY * one.size).all()
            for one in self._written
        )

    def _moved(self, point: Floats) -> Bools:
        """Which variables are off the own values by more than the solver's tolerances."""
        return np.abs(point - self.domain.own) > NEARLY * (self.domain.upper - self.domain.lower)

    def push(self, point: Floats, extra: float) -> Floats | None:
        """The cheapest point with the same steps and active neurons and, relatively, this much more margin."""
        lower = self.program.lower.copy()
        upper = self.program.upper.copy()
        asked = self.program.row_lower.copy()
        for one in self._written:
            preactivations, _ = one.acceptor.layers(point[None, :])
            for inactive, before in zip(one.inactive, preactivations, strict=True):
                there = inactive >= 0
                lower[inactive[there]] = upper[inactive[there]] = before[0, there] < 0.0
            asked[one.rows] += extra * one.size
        fixed = (self.domain.step > 0.0) | self.domain.detached
        if self.limits.max_changed is not None:
            fixed |= ~self._moved(point)
        still = np.flatnonzero(fixed)
        lower[still] = upper[still] = point[still]
        solution = Relaxation(replace(self.program, row_lower=asked)).run(lower, upper)
        return None if solution is None else solution[0][: point.size]

    def _accept(self, acceptor: Acceptor) -> None:
        """Write the acceptor's neurons and its margins.

        `inputs` are the variables of a layer's values, -1 where one is surely 0 or nothing looks at it.
        """
        inputs = np.array([*range(self.domain.own.size), *map(self._fall_of, acceptor.falling)])
        ranges, size, doubt = acceptor.ranges(self.domain)
        binaries = []
        for (weight, bias, relu), ends, needed in zip(
            acceptor.hidden, ranges, acceptor.needed(), strict=False
        ):
            alive = inputs >= 0
            before, weight = inputs[alive], weight[:, alive]
            inputs, inactive = np.full((2, bias.size), -1)
            dead = (ends[1] <= 0.0) & relu
            for j in np.flatnonzero(needed.any(axis=0) & ~dead):
                kind = bias[j], *needed[:, j].tolist(), relu
                key = before.tobytes(), weight[j].tobytes(), *kind
                if key not in self._neurons:
                    self._neurons[key] = self._neuron(before, weight[j], *ends[:, j], *kind)
                inputs[j], inactive[j] = self._neurons[key]
            binaries.append(inactive)
        alive = inputs >= 0
        least = self.demand * size - acceptor.offsets - doubt
        rows = [
            self.builder.row(inputs[alive], row[alive], lower=bottom)
            for row, bottom in zip(acceptor.rows, least, strict=True)
        ]
        self._written.append(_Written(acceptor, binaries, rows, size))

    def _fall_of(self, i: int) -> int:
        """A variable >= x_i⁻ = max(-x_i, 0): it only ever harms, so its lower side is enough."""
        fall = self.builder.variable(0.0, max(-self.domain.lower[i], 0.0))
        self.builder.row([fall, i], [1.0, 1.0], lower=0.0)
        return fall

    def _neuron(
        self,
        inputs: Ints,
        weight: Floats,
        low: float,
        high: float,
        bias: float,
        above: bool,
        below: bool,
        relu: bool,
    ) -> tuple[int, int]:
        """v = max(z, 0) with z = weight . inputs + bias in [low, high]: v not above it, v not below it, or both.

        v >= z, v >= 0;    v <= z - low * inactive,  v <= high (1 - inactive)  with a binary where the sign is open.
        """
        builder = self.builder
        v = builder.variable(max(low, 0.0) if relu else low, high)
        columns = np.append(inputs, v)
        values = np.append(-weight, 1.0)
        if low >= 0.0 or not relu:
            builder.row(columns, values, bias, bias)
            return v, -1
        if below:
            builder.row(columns, values, lower=bias)
        if not above:
            return v, -1
        inactive = builder.binary()
        builder.row(np.append(columns, inactive), np.append(values, low), upper=bias)
        builder.row([v, inactive], [1.0, high], upper=high)
        return v, inactive
