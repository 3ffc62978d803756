"""A mixed-integer linear program as plain arrays, and its solution by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from holdfast.network import Floats


class SolveStatus(Enum):
    """How a solver left a program; each value is a sentence for people."""

    OPTIMAL = "solved to optimality"
    INFEASIBLE = "no point satisfies the constraints"
    LIMIT = "the time limit was reached"
    FAILED = "the solver gave up"


@dataclass(frozen=True)
class Program:
    """min cost . x  subject to  row_lower <= A x <= row_upper,  lower <= x <= upper,  x[integer] whole.

    A is given by its non-zeros, row after row.
    """

    cost: Floats
    lower: Floats
    upper: Floats
    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: Floats
    row_lower: Floats
    row_upper: Floats
    integer: NDArray[np.bool_]


@dataclass(frozen=True)
class Solution:
    """Status, the solver's point (None if it has none) and its bound: no feasible point costs less than `bound`."""

    status: SolveStatus
    values: Floats | None
    objective: float
    bound: float
    row_duals: Floats | None


_STATUS = {
    highspy.HighsModelStatus.kOptimal: SolveStatus.OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: SolveStatus.INFEASIBLE,
    highspy.HighsModelStatus.kTimeLimit: SolveStatus.LIMIT,
}


def solve(program: Program, *, time_limit: float | None = None) -> Solution:
    """Run HiGHS on one thread; the tightest tolerances it offers, because the answer is part of a proof."""
    options = {} if time_limit is None else {"time_limit": max(time_limit, 1e-3)}
    in_units, units, row_units, cost_unit = scaled(program)
    solver = open_solver(in_units, **options)
    solver.run()
    status = _STATUS.get(solver.getModelStatus(), SolveStatus.FAILED)
    info = solver.getInfo()
    has_point = info.primal_solution_status == 2
    solution = solver.getSolution()
    integer = bool(program.integer.any())
    bound = info.mip_dual_bound if integer else info.objective_function_value
    if not integer and status is not SolveStatus.OPTIMAL:
        bound = -np.inf
    return Solution(
        status,
        np.array(solution.col_value) * units if has_point else None,
        info.objective_function_value / cost_unit if has_point else np.inf,
        float(bound) / cost_unit,
        np.array(solution.row_dual) * row_units / cost_unit if not integer and solution.dual_valid else None,
    )


def scaled(program: Program) -> tuple[Program, Floats, Floats, float]:
    """The program with its variables, rows and cost in other units, and these, so that no number is far from 1 in size.

    HiGHS drops coefficients below 1e-9 and takes rows for satisfied that are short by 1e-9. Units are powers of two, so
    that nothing is rounded: x = units * scaled x, scaled row = row_units * row, scaled cost = cost_unit * cost.
    """
    units = np.where(program.integer, 1.0, _power(np.maximum(np.abs(program.lower), np.abs(program.upper))))
    sizes = np.abs(program.values) * units[program.columns]
    filled = np.flatnonzero(np.diff(program.starts))
    largest = np.zeros(program.row_lower.size)
    if filled.size:
        largest[filled] = np.maximum.reduceat(sizes, program.starts[filled])
    row_units = 1.0 / _power(largest)
    cost_unit = 1.0 / float(_power(np.abs(program.cost * units).max(initial=0.0)))
    result = replace(
        program,
        cost=program.cost * units * cost_unit,
        lower=program.lower / units,
        upper=program.upper / units,
        values=program.values * (np.repeat(row_units, np.diff(program.starts)) * units[program.columns]),
        row_lower=program.row_lower * row_units,
        row_upper=program.row_upper * row_units,
    )
    return result, units, row_units, cost_unit


def _power(sizes: Floats) -> Floats:
    """The power of two above each size; 1 where that could lead out of the range of floats."""
    exponents = np.frexp(sizes)[1]
    usual = (sizes > 0.0) & np.isfinite(sizes) & (np.abs(exponents) < 300)
    return np.asarray(np.ldexp(1.0, np.where(usual, exponents, 0)))


def open_solver(program: Program, **options: float | str) -> Any:
    """HiGHS with a program and further options."""
    solver = highspy.Highs()
    usual: dict[str, Any] = {
        "output_flag": False,
        "threads": 1,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": 1e-9,
        "mip_feasibility_tolerance": 1e-9,
        "primal_feasibility_tolerance": 1e-9,
        "dual_feasibility_tolerance": 1e-9,
        # What is smaller HiGHS takes for 0; it allows no less.
        "small_matrix_value": 1e-12,
    }
    for name, value in (usual | options).items():
        solver.setOptionValue(name, value)
    solver.passModel(_to_highs(program))
    return solver


def _to_highs(program: Program) -> Any:
    model = highspy.HighsLp()
    model.num_col_ = program.cost.shape[0]
    model.num_row_ = program.row_lower.shape[0]
    model.col_cost_ = program.cost
    model.col_lower_, model.col_upper_ = program.lower, program.upper
    model.row_lower_, model.row_upper_ = program.row_lower, program.row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = program.starts
    model.a_matrix_.index_ = program.columns
    model.a_matrix_.value_ = program.values
    if program.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[int(whole)] for whole in program.integer]
    return model
