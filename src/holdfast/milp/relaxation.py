"""A linear program that HiGHS keeps warm while the ranges of its variables change, with bounds that we check ourselves.

For any multipliers y of the rows, whoever names them,

    cost . x  =  y . A x + (cost - A' y) . x  >=  y . bounds of the rows + least (cost - A' y) . x in the box

so the solver only suggests y; the right-hand side is added up here, with an allowance for its rounding. With cost 0 and
a right-hand side above 0 (Farkas), no point satisfies the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import highspy
import numpy as np
from numpy.typing import NDArray

from holdfast.milp.solve import Program, open_solver, scaled
from holdfast.network import Floats

_EPSILON = float(np.finfo(np.float64).eps)
# Products too small to be rounded relatively are off by less than this.
_TINY = 1e-290


@dataclass(frozen=True)
class Relaxed:
    """A proven lower bound (inf: no point exists), the solver's point if it has one, and how much each variable weighs.

    `weights` is how much the bound could change for each unit that a variable is moved by, at the most.
    """

    bound: float
    values: Floats | None
    weights: Floats


class Relaxation:
    """A `Program` without its whole numbers.

    Examples
    --------
    >>> from holdfast.milp.builder import ProgramBuilder
    >>> builder = ProgramBuilder()
    >>> x, y = builder.variable(0.0, 1.0, cost=1.0), builder.variable(0.0, 1.0, cost=2.0)
    >>> _ = builder.row([x, y], [1.0, 1.0], lower=1.5)
    >>> relaxation = Relaxation(builder.build())
    >>> solved = relaxation.solve(np.zeros(2), np.ones(2))
    >>> round(solved.bound, 9), solved.values
    (2.0, array([1. , 0.5]))
    >>> relaxation.solve(np.zeros(2), np.array([1.0, 0.25])).bound
    inf
    """

    def __init__(self, program: Program) -> None:
        self.program, self.units, self.row_units, self.cost_unit = scaled(program)
        rows = np.repeat(np.arange(program.row_lower.size), np.diff(program.starts))
        self.transposed = np.zeros((program.cost.size, program.row_lower.size))
        self.transposed[program.columns, rows] = self.program.values
        self.absolute = np.abs(self.transposed)
        self.gamma = (program.cost.size + program.row_lower.size + 16) * _EPSILON
        self.numbers = np.arange(program.cost.size, dtype=np.int32)
        whole = np.zeros_like(program.integer)
        self.solver = open_solver(replace(self.program, integer=whole), presolve="off")

    def solve(self, lower: Floats, upper: Floats) -> Relaxed:
        """The least cost for these ranges of the variables."""
        low, high = lower / self.units, upper / self.units
        values = self._run(low, high)
        if values is not None:
            multipliers = np.array(self.solver.getSolution().row_dual)
            bound, weights = self._bound(multipliers, self.program.cost, low, high)
            return Relaxed(bound / self.cost_unit, values, weights / self.units)
        nothing = np.zeros_like(low)
        impossible = any(self._bound(ray, nothing, low, high)[0] > 0.0 for ray in self._rays())
        return Relaxed(np.inf if impossible else -np.inf, None, nothing)

    def push(self, lower: Floats, upper: Floats, rows: NDArray[np.intp], extra: Floats) -> Floats | None:
        """The solver's point with so much more asked of some rows; nothing is proven by it."""
        raised = self.program.row_lower[rows] + extra * self.row_units[rows]
        self.solver.changeRowsBounds(rows.size, rows.astype(np.int32), raised, self.program.row_upper[rows])
        values = self._run(lower / self.units, upper / self.units)
        kept = self.program.row_lower[rows], self.program.row_upper[rows]
        self.solver.changeRowsBounds(rows.size, rows.astype(np.int32), *kept)
        return values

    def _run(self, low: Floats, high: Floats) -> Floats | None:
        self.solver.changeColsBounds(low.size, self.numbers, low, high)
        self.solver.run()
        if self.solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return np.array(self.solver.getSolution().col_value) * self.units

    def _rays(self) -> Iterator[Floats]:
        """Multipliers that may show that no point exists: the solver's, of either sign, or one row alone."""
        known, ray = False, np.empty(0)
        if self.solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            _, known, ray = self.solver.getDualRay()
        rays = np.asarray(ray)[None, :] if known else np.eye(self.row_units.size)
        yield from (side * row for row in rays for side in (1.0, -1.0))

    def _bound(self, multipliers: Floats, cost: Floats, low: Floats, high: Floats) -> tuple[float, Floats]:
        """The proven bound that these multipliers give, and the variables' weights."""
        program = self.program
        endless = ((multipliers > 0.0) & np.isinf(program.row_lower)) | (
            (multipliers < 0.0) & np.isinf(program.row_upper)
        )
        y = np.where(endless, 0.0, multipliers)
        paid = y * np.where(y > 0.0, program.row_lower, np.where(y < 0.0, program.row_upper, 0.0))
        weights = self.absolute @ np.abs(y)
        reduced = cost - self.transposed @ y
        doubt = self.gamma * (weights + np.abs(cost)) + _TINY
        terms = np.minimum(reduced * low, reduced * high) - doubt * np.maximum(np.abs(low), np.abs(high))
        bound = paid.sum() + terms.sum() - self.gamma * (np.abs(paid).sum() + np.abs(terms).sum()) - _TINY
        return (float(bound) if np.isfinite(bound) else -np.inf), weights
