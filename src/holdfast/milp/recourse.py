"""The cheapest point of a person's domain that some networks accept, as a mixed-integer program.

    min  sum_i weight_i |x_i - own_i|    over x in the domain,    margins of every acceptor at x >= demand

ReLU neurons are written with big-M from their own ranges over box and ball. Neurons whose sign is known need no binary,
neither do those that only harm. Neurons that several acceptors share, with the same weights over the same inputs, are
written once: counter-models pick their first layer from two copies of each neuron.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.milp.acceptor import Acceptor, LayerRange, layer_ranges
from holdfast.milp.builder import ProgramBuilder
from holdfast.milp.domain import Domain
from holdfast.milp.people import NO_LIMITS, Limits, add_person, wide_grids
from holdfast.milp.solve import Program, Solution, SolveStatus, solve
from holdfast.network import Floats


@dataclass(frozen=True)
class Cheapest:
    """What the solver found: a point (None if it has none), and a cost that no admissible point undercuts."""

    status: SolveStatus
    point: Floats | None
    bound: float
    program: RecourseProgram
    values: Floats | None


@dataclass(frozen=True)
class RecourseProgram:
    """The program, and where to find things in it."""

    program: Program
    columns: NDArray[np.intp]
    margin_rows: NDArray[np.intp]
    constant: float

    @classmethod
    def of(
        cls,
        domain: Domain,
        acceptors: Sequence[Acceptor],
        *,
        demand: float = 0.0,
        limits: Limits = NO_LIMITS,
        all_grids: bool = False,
    ) -> RecourseProgram:
        """Write the program; unless `all_grids`, very fine grids are left out, which only lowers the bound."""
        builder = ProgramBuilder()
        relaxed = np.zeros(domain.own.shape[0], dtype=np.bool_) if all_grids else wide_grids(domain)
        columns = add_person(builder, domain, limits, relaxed)
        layers = _Layers(builder, domain, columns)
        rows = [row for acceptor in acceptors for row in layers.accept(acceptor, demand)]
        return cls(builder.build(), np.array(columns), np.array(rows, dtype=np.intp), builder.constant)

    def solve(self, *, time_limit: float | None = None, relative_gap: float = 1e-6) -> Cheapest:
        """The cheapest point, to within the gap."""
        return self._answer(solve(self.program, time_limit=time_limit, relative_gap=relative_gap))

    def polish(self, values: Floats, demand: float, time_limit: float | None = None) -> Cheapest:
        """The cheapest point with the same labels, counts and active neurons and a little more margin."""
        program = self.program
        fixed = np.rint(values)
        lower, upper = np.where(program.integer, fixed, program.lower), np.where(program.integer, fixed, program.upper)
        row_lower = program.row_lower.copy()
        row_lower[self.margin_rows] += demand
        linear = replace(program, lower=lower, upper=upper, row_lower=row_lower, integer=np.zeros_like(program.integer))
        return self._answer(solve(linear, time_limit=time_limit))

    def _answer(self, solution: Solution) -> Cheapest:
        point = None if solution.values is None else solution.values[self.columns]
        bound = np.inf if solution.status is SolveStatus.INFEASIBLE else solution.bound + self.constant
        return Cheapest(solution.status, point, bound, self, solution.values)


class _Layers:
    """The acceptors' neurons in the program, each written once."""

    def __init__(self, builder: ProgramBuilder, domain: Domain, columns: list[int]) -> None:
        self.builder, self.domain, self.columns = builder, domain, columns
        self.absolute: dict[int, int] = {}
        self.neurons: dict[tuple[bytes, ...], int] = {}

    def accept(self, acceptor: Acceptor, demand: float) -> list[int]:
        """Write the acceptor's neurons and its margins; the numbers of the margins' rows."""
        inputs = np.array([*self.columns, *(self._absolute(int(i)) for i in acceptor.absolute)])
        needed = acceptor.needed()
        for i, layer_range in enumerate(layer_ranges(acceptor, self.domain)):
            inputs = self._layer(acceptor.weights[i], acceptor.biases[i], inputs, layer_range, needed[i])
        alive = inputs >= 0
        return [
            self.builder.row(inputs[alive], row[alive], lower=demand - offset)
            for row, offset in zip(acceptor.rows, acceptor.offsets, strict=True)
        ]

    def _absolute(self, i: int) -> int:
        """A variable >= |x_i|: it only ever harms, so its lower side is enough."""
        if i not in self.absolute:
            lower, upper = self.domain.lower[i], self.domain.upper[i]
            size = self.builder.variable(0.0, max(-lower, upper))
            self.builder.row([size, self.columns[i]], [1.0, -1.0], lower=0.0)
            self.builder.row([size, self.columns[i]], [1.0, 1.0], lower=0.0)
            self.absolute[i] = size
        return self.absolute[i]

    def _layer(
        self,
        weight: Floats,
        bias: Floats,
        inputs: NDArray[np.intp],
        span: LayerRange,
        needed: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    ) -> NDArray[np.intp]:
        """The variables of a layer's values; -1 for a neuron that is surely 0 or that nothing looks at."""
        alive = inputs >= 0
        inputs, weight = inputs[alive], weight[:, alive]
        values = np.full(weight.shape[0], -1, dtype=np.intp)
        for j in np.flatnonzero((span.high > 0.0) & (needed[0] | needed[1])):
            above, below = bool(needed[0][j]), bool(needed[1][j])
            key = (weight[j].tobytes(), bias[j].tobytes(), inputs.tobytes(), bytes([above, below]))
            if key not in self.neurons:
                ends = float(span.low[j]), float(span.high[j])
                self.neurons[key] = self._neuron(inputs, weight[j], float(bias[j]), ends, above, below)
            values[j] = self.neurons[key]
        return values

    def _neuron(
        self, inputs: NDArray[np.intp], weight: Floats, bias: float, ends: tuple[float, float], above: bool, below: bool
    ) -> int:
        """v = max(z, 0) with z = weight . inputs + bias in [low, high]: v not above it, v not below it, or both.

        v >= z, v >= 0;    v <= z - low * inactive,  v <= high (1 - inactive)  with a binary where the sign is open.
        """
        low, high = ends
        builder = self.builder
        v = builder.variable(max(low, 0.0), high)
        columns, values = np.append(inputs, v), np.append(-weight, 1.0)
        if low >= 0.0:
            builder.row(columns, values, bias, bias)
            return v
        if below:
            builder.row(columns, values, lower=bias)
        if above:
            inactive = builder.binary()
            builder.row(np.append(columns, inactive), np.append(values, low), upper=bias)
            builder.row([v, inactive], [1.0, high], upper=high)
        return v
