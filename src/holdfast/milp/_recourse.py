"""The cheapest point of a person's domain that some networks accept, as a linear program with binaries.

    min  sum_i weight_i |x_i - own_i|    over x in the domain,    margins of every acceptor at x >= 0

ReLU neurons are written with big-M from their own ranges over box and ball. Neurons whose sign is known need no binary,
neither do those that only harm, nor those without a ReLU. Neurons that several acceptors share, with the same weights
over the same inputs, are written once: counter-models pick their first layer from two copies of each neuron.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from holdfast._network import Bools, Floats, Ints
from holdfast.milp._acceptor import Acceptor, layer_ranges, rounding
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
    """The program: `relaxation` without the binaries, and where to find things in it.

    Every point of the domain that the acceptors accept, in exact arithmetic or in a forward pass, satisfies it; with a
    `demand`, only those that they accept by so much, relatively.
    """

    def __init__(
        self, domain: Domain, limits: PointLimits, acceptors: list[Acceptor], demand: float = 0.0
    ) -> None:
        self.domain = domain
        self.limits = limits
        self.demand = demand
        self.builder = ProgramBuilder()
        self.columns = add_person(self.builder, domain, limits)
        self._written: list[_Written] = []
        self._absolute: dict[int, int] = {}
        self._neurons: dict[tuple[bytes, ...], tuple[int, int]] = {}
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

    def fits(self, points: Floats) -> Bools:
        """Which points the acceptors accept, with no more columns changed than may, up to the solver's tolerances."""
        fine = np.ones(points.shape[0], dtype=np.bool_)
        for one in self._written:
            fine &= (one.acceptor.layers(points)[1] >= -NEARLY * one.size).all(axis=1)
        if self.limits.max_changed is not None:
            moved = self._moved(points)
            changed = [moved[:, variables].any(axis=1) for variables in self.domain.features]
            fine &= np.sum(changed, axis=0) <= self.limits.max_changed
        return fine

    def _moved(self, points: Floats) -> Bools:
        """Which variables are off the own values by more than the solver's tolerances."""
        return np.abs(points - self.domain.own) > NEARLY * (self.domain.upper - self.domain.lower)

    def push(self, point: Floats, extra: float) -> Floats | None:
        """The cheapest point with the same steps and active neurons and, relatively, so much more margin."""
        lower = self.program.lower.copy()
        upper = self.program.upper.copy()
        for one in self._written:
            for inactive, before in zip(
                one.inactive, one.acceptor.layers(point[None, :])[0], strict=True
            ):
                there = inactive >= 0
                lower[inactive[there]] = upper[inactive[there]] = before[0, there] < 0.0
        fixed = (self.domain.step > 0.0) | self.domain.detached
        if self.limits.max_changed is not None:
            fixed |= ~self._moved(point)
        lower[self.columns[fixed]] = upper[self.columns[fixed]] = point[fixed]
        asked = self.program.row_lower.copy()
        for one in self._written:
            asked[one.rows] += extra * one.size
        solution = Relaxation(replace(self.program, row_lower=asked)).run(lower, upper)
        return None if solution is None else solution[0][self.columns]

    def _accept(self, acceptor: Acceptor) -> None:
        """Write the acceptor's neurons and its margins.

        `inputs` are the variables of a layer's values, -1 where one is surely 0 or nothing looks at it.
        """
        inputs = np.concatenate(
            [self.columns, np.array([*map(self._size_of, acceptor.absolute)], dtype=np.intp)]
        )
        needed = acceptor.needed()
        (ranges, size, terms) = layer_ranges(acceptor, self.domain)
        binaries = []
        for i, (low, high) in enumerate(ranges):
            helps, harms = needed[i]
            alive = inputs >= 0
            bias = acceptor.biases[i]
            relu = acceptor.rectified[i]
            before = inputs[alive]
            weight = acceptor.weights[i][:, alive]
            inputs, inactive = np.full((2, weight.shape[0]), -1, dtype=np.intp)
            dead = (high <= 0.0) & relu
            for j in np.flatnonzero(~dead & (helps | harms)):
                above = bool(helps[j])
                below = bool(harms[j])
                key = (
                    weight[j].tobytes(),
                    bias[j].tobytes(),
                    before.tobytes(),
                    bytes([above, below, relu]),
                )
                if key not in self._neurons:
                    ends = float(low[j]), float(high[j])
                    self._neurons[key] = self._neuron(
                        before, weight[j], float(bias[j]), ends, above, below, relu
                    )
                inputs[j], inactive[j] = self._neurons[key]
            binaries.append(inactive)
        alive = inputs >= 0
        # A forward pass in floats, and parameters that were rounded, may find this much more margin than there is.
        least = self.demand * size - acceptor.offsets - rounding(terms, size)
        rows = []
        for row, bottom in zip(acceptor.rows, least, strict=True):
            rows.append(self.builder.row(inputs[alive], row[alive], lower=bottom))
        self._written.append(_Written(acceptor, binaries, rows, size))

    def _size_of(self, i: int) -> int:
        """A variable >= |x_i|: it only ever harms, so its lower side is enough."""
        if i not in self._absolute:
            lower = self.domain.lower[i]
            upper = self.domain.upper[i]
            size = self.builder.variable(0.0, max(-lower, upper))
            self.builder.row([size, self.columns[i]], [1.0, -1.0], lower=0.0)
            self.builder.row([size, self.columns[i]], [1.0, 1.0], lower=0.0)
            self._absolute[i] = size
        return self._absolute[i]

    def _neuron(
        self,
        inputs: Ints,
        weight: Floats,
        bias: float,
        ends: tuple[float, float],
        above: bool,
        below: bool,
        relu: bool,
    ) -> tuple[int, int]:
        """v = max(z, 0) with z = weight . inputs + bias in [low, high]: v not above it, v not below it, or both.

        v >= z, v >= 0;    v <= z - low * inactive,  v <= high (1 - inactive)  with a binary where the sign is open.
        """
        low, high = ends
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
