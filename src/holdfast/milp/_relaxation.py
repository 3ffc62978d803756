"""A linear program that HiGHS keeps warm while the ranges of its variables change, with bounds that we check ourselves.

For any multipliers y of the rows, from any source,

    cost . x  =  y . A x + (cost - A' y) . x  >=  y . bounds of the rows + least (cost - A' y) . x in the box

so the solver only suggests y; the right-hand side is added up here, with an allowance for its rounding. With cost 0 and
a right-hand side above 0 (Farkas), no point satisfies the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from scipy.sparse import csr_array

from holdfast._network import Floats, Pair

_EPSILON = float(np.finfo(np.float64).eps)
# Products too small to be rounded relatively are off by less than this.
_TINY = 1e-290
# The tightest tolerances there are, because the answer is part of a proof. What is smaller than the last HiGHS takes
# for 0; it allows no less.
_OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "threads": 1,
    "presolve": "off",
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
    "small_matrix_value": 1e-12,
}


@dataclass(frozen=True)
class Program:
    """min cost . x + constant  subject to  row_lower <= rows x <= row_upper,  lower <= x <= upper."""

    cost: Floats
    lower: Floats
    upper: Floats
    rows: Floats
    row_lower: Floats
    row_upper: Floats
    constant: float = 0.0


def _power(sizes: Floats) -> Floats:
    """The power of two above each size; 1 where that could lead out of the range of floats."""
    exponents = np.frexp(sizes)[1]
    usual = (sizes > 0.0) & np.isfinite(sizes) & (np.abs(exponents) < 300)
    return np.ldexp(1.0, np.where(usual, exponents, 0))


@dataclass(frozen=True)
class SolvedProgram:
    """A proven lower bound (inf: no point exists), the solver's point if it has one, and how much each variable weighs.

    `weights` is how much the bound could change for each unit that a variable is moved by, at the most.
    """

    bound: float
    values: Floats | None
    weights: Floats


class Relaxation:
    """A `Program` in HiGHS, with its variables, rows and cost in units that leave no number far from 1.

    HiGHS drops coefficients below 1e-9 and takes rows for satisfied that are short by 1e-9. Units are powers of two, so
    that nothing is rounded: x = units * scaled x, scaled row = row_units * row, scaled cost = cost_unit * cost.

    Examples
    --------
    >>> from holdfast.milp._builder import ProgramBuilder
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
        self.units = units = _power(np.maximum(np.abs(program.lower), np.abs(program.upper)))
        rows, cost = program.rows * units, program.cost * units
        self.row_units = 1.0 / _power(np.abs(rows).max(axis=1, initial=0.0))
        self.cost_unit = 1.0 / float(_power(np.abs(cost).max(initial=0.0)))
        self.constant = program.constant
        self.program = program = Program(
            cost * self.cost_unit,
            program.lower / units,
            program.upper / units,
            rows * self.row_units[:, None],
            program.row_lower * self.row_units,
            program.row_upper * self.row_units,
        )
        self.gamma = (cost.size + self.row_units.size + 16) * _EPSILON
        self.solver = highspy.Highs()
        for name, value in _OPTIONS.items():
            self.solver.setOptionValue(name, value)
        model = highspy.HighsLp()
        model.num_row_, model.num_col_ = program.rows.shape
        model.col_cost_ = program.cost
        model.col_lower_ = program.lower
        model.col_upper_ = program.upper
        model.row_lower_ = program.row_lower
        model.row_upper_ = program.row_upper
        matrix = csr_array(program.rows)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = matrix.indptr
        model.a_matrix_.index_ = matrix.indices
        model.a_matrix_.value_ = matrix.data
        self.solver.passModel(model)

    def solve(self, lower: Floats, upper: Floats) -> SolvedProgram:
        """The least cost for these ranges of the variables."""
        low = lower / self.units
        high = upper / self.units
        solution = self.run(lower, upper)
        if solution is not None:
            values, multipliers = solution
            bound, weights = self._bound(
                multipliers / self.row_units * self.cost_unit, self.program.cost, low, high
            )
            least = bound / self.cost_unit
            least += self.constant - _EPSILON * (abs(least) + abs(self.constant))
            return SolvedProgram(least, values, weights / self.units)
        # Multipliers that may show that no point exists: the solver's, of either sign, or one row alone.
        known, ray = False, np.empty(0)
        if self.solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            _, known, ray = self.solver.getDualRay()
        rays = np.asarray(ray)[None, :] if known else np.eye(self.row_units.size)
        nothing = np.zeros_like(low)
        impossible = any(
            self._bound(multipliers, nothing, low, high)[0] > 0.0
            for multipliers in np.concatenate([rays, -rays])
        )
        return SolvedProgram(np.inf if impossible else -np.inf, None, nothing)

    def run(self, lower: Floats, upper: Floats) -> Pair | None:
        """The solver's point and its multipliers of the rows; nothing is proven by them."""
        numbers = np.arange(lower.size, dtype=np.int32)
        self.solver.changeColsBounds(lower.size, numbers, lower / self.units, upper / self.units)
        self.solver.run()
        if self.solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self.solver.getSolution()
        multipliers = np.array(solution.row_dual) * self.row_units / self.cost_unit
        return np.array(solution.col_value) * self.units, multipliers

    def _bound(
        self, multipliers: Floats, cost: Floats, low: Floats, high: Floats
    ) -> tuple[float, Floats]:
        """The proven bound that these multipliers give, and the variables' weights."""
        program = self.program
        side = np.where(multipliers > 0.0, program.row_lower, program.row_upper)
        y = np.where(np.isinf(side), 0.0, multipliers)
        paid = y * np.where(y == 0.0, 0.0, side)
        weights = np.abs(y) @ np.abs(program.rows)
        reduced = cost - y @ program.rows
        doubt = self.gamma * (weights + np.abs(cost)) + _TINY
        terms = np.minimum(reduced * low, reduced * high) - doubt * np.maximum(
            np.abs(low), np.abs(high)
        )
        bound = (
            paid.sum()
            + terms.sum()
            - self.gamma * (np.abs(paid).sum() + np.abs(terms).sum())
            - _TINY
        )
        return (float(bound) if np.isfinite(bound) else -np.inf), weights
