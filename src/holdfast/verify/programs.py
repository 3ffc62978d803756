"""A branch's best multipliers from a linear program, for one point.

HiGHS only proposes: the bound is what the backward walk makes of the multipliers, whatever the solver believes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.arrays import to_numpy
from holdfast.bounds.interval import Ranges
from holdfast.bounds.linear import FREE, Multipliers, Relaxation, pull_back, with_multipliers
from holdfast.milp.encode import MarginProgram, margin_program
from holdfast.milp.solve import Solution, SolveStatus, solve
from holdfast.network import Floats
from holdfast.verify.problem import Problem

Choices = tuple[NDArray[np.int8], ...]


@dataclass(frozen=True)
class ProgramBound:
    """What a branch's program led to; `bound` lacks the allowance `error` for rounding."""

    multipliers: Multipliers
    bound: float
    error: float
    # The program's hidden values, layer by layer.
    values: list[Floats]
    # How far each undecided later neuron's value lies above what its upper side allows, -inf for the others.
    excess: Floats
    # The program's own duals of the later neurons' lower and upper sides; the multipliers keep one for each neuron.
    lower: Floats
    upper: Floats


def program_bound(
    problem: Problem, relaxation: Relaxation, ranges: tuple[Ranges, ...], decided: Choices
) -> ProgramBound | None:
    """Solve the linear program of a branch of the one point in `problem`; None if the solver fails."""
    solved = _solved(problem, relaxation, ranges, decided)
    if solved is None:
        return None
    encoded, solution = solved
    assert solution.row_duals is not None
    assert solution.values is not None
    lower = np.maximum(solution.row_duals[encoded.lower_rows], 0.0)
    upper = np.maximum(-solution.row_duals[encoded.upper_rows], 0.0)
    multipliers = _multipliers(problem, relaxation, lower, upper)
    walked = pull_back(problem.net, with_multipliers(relaxation, multipliers), problem.row, problem.offset)
    values = encoded.layer_values(solution.values)
    error = float(to_numpy(problem.error)[0]) * float(multipliers.growth()[0])
    excess = _excess(problem, values, ranges, decided)
    return ProgramBound(multipliers, float(walked.bound[0]), error, values, excess, lower, upper)


def _solved(
    problem: Problem, relaxation: Relaxation, ranges: tuple[Ranges, ...], decided: Choices
) -> tuple[MarginProgram, Solution] | None:
    box, row = (relaxation.low, relaxation.high), np.ravel(to_numpy(problem.row))
    # A branch may be empty; multipliers are wanted all the same.
    for always_feasible in (False, True):
        encoded = margin_program(
            problem.net, box, ranges, row, decided=decided, relaxed=True, always_feasible=always_feasible
        )
        solution = solve(encoded.program)
        if solution.status is not SolveStatus.INFEASIBLE:
            break
    if solution.status is not SolveStatus.OPTIMAL or solution.values is None or solution.row_duals is None:
        return None
    return encoded, solution


def _multipliers(problem: Problem, relaxation: Relaxation, lower: Floats, upper: Floats) -> Multipliers:
    """Duals over coefficients; a layer's coefficients are known once the layers after it are done."""
    ends = np.cumsum(problem.network.hidden[1:])[:-1]
    lowers, uppers = np.split(lower, ends), np.split(upper, ends)
    alphas = [np.zeros((1, layer.shape[0])) for layer in lowers]
    stretches = [np.ones((1, layer.shape[0])) for layer in uppers]
    for i in range(len(lowers) - 1, -1, -1):
        current = with_multipliers(relaxation, Multipliers(tuple(alphas), tuple(stretches)))
        coefficients = pull_back(problem.net, current, problem.row, problem.offset).coefficients[i + 1][0]
        size = np.where(coefficients == 0.0, 1.0, np.abs(coefficients))
        # Solvers leave dust near the ends.
        alpha = np.where(coefficients > 0.0, lowers[i] / size, 0.0)
        alphas[i] = np.where(alpha < 1e-7, 0.0, np.where(alpha > 1.0 - 1e-7, 1.0, alpha))[None, :]
        stretch = np.where(coefficients < 0.0, uppers[i] / size, 1.0)
        stretches[i] = np.where(stretch < 1.0 + 1e-7, 1.0, stretch)[None, :]
    return Multipliers(tuple(alphas), tuple(stretches))


def _excess(problem: Problem, values: list[Floats], ranges: tuple[Ranges, ...], decided: Choices) -> Floats:
    net, parts = problem.net, []
    for i in range(1, len(values)):
        radius, bias_radius = float(np.ravel(net.weight_radii[i])[0]), float(np.ravel(net.bias_radii[i])[0])
        top = (net.weights[i] + radius) @ values[i - 1] + net.biases[i] + bias_radius
        unsure = (ranges[i - 1].upper_min[0] < 0.0) & (ranges[i - 1].upper_max[0] > 0.0)
        open_ = unsure & (decided[i - 1].ravel() == FREE)
        parts.append(np.where(open_, values[i] - np.maximum(top, 0.0), -np.inf))
    return np.concatenate(parts)
