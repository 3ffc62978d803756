"""The paper's own test of one point: a mixed-integer program over the interval abstraction, solved by HiGHS.

    min v_out   subject to, for every hidden neuron j with a binary xi_j ("inactive"),

    v_j >= 0,   v_j <= M (1 - xi_j)
    v_j <= (W_j + delta) v + (b_j + delta) + M xi_j
    v_j >= (W_j - delta) v + (b_j - delta)

    and the last two rows, without M, for the output. The input has a variable of its own, fixed at x.

M is one constant for all neurons, and the signs are right for x >= 0 only. Nothing of holdfast's own encoding is
shared: this is what the cascade is compared with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import highspy
import numpy as np
from scipy.sparse import csr_array

from holdfast import Network
from holdfast._network import Floats

BIG_M = 1000.0


@dataclass(frozen=True)
class PaperAnswer:
    """The least output by the solver's reckoning, and whether it got to the end."""

    least: float
    # No feasible output lies below this; equal to `least` up to the solver's gap where it finished.
    bound: float
    finished: bool


def least_output(
    network: Network,
    x: Floats,
    delta: float,
    *,
    time_limit: float | None = None,
    tight: bool = False,
) -> PaperAnswer:
    """Build the program for one point and solve it on one thread; `tight` replaces HiGHS's default tolerances."""
    if network.n_outputs != 1 or (x < 0.0).any():
        raise ValueError(
            "expected a binary classifier and x >= 0: the paper's signs are right there only"
        )
    options: dict[str, object] = {"output_flag": False, "threads": 1}
    if time_limit is not None:
        options["time_limit"] = time_limit
    if tight:
        options |= {"mip_rel_gap": 0.0, "mip_abs_gap": 1e-9}
        options |= dict.fromkeys(
            (
                "mip_feasibility_tolerance",
                "primal_feasibility_tolerance",
                "dual_feasibility_tolerance",
            ),
            1e-9,
        )
    solver = highspy.Highs()
    for name, value in options.items():
        solver.setOptionValue(name, value)
    solver.passModel(_program(network, x, delta))
    solver.run()
    info = solver.getInfo()
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return PaperAnswer(
        least=info.objective_function_value if found else math.inf,
        bound=info.mip_dual_bound,
        finished=solver.getModelStatus() == highspy.HighsModelStatus.kOptimal,
    )


def _program(network: Network, x: Floats, delta: float) -> highspy.HighsLp:
    """Columns: the input, every hidden layer, the output, then the binaries in the order of the hidden neurons."""
    sizes = (network.n_features, *network.hidden, 1)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    n_values, n_hidden = int(starts[-1]), sum(network.hidden)
    rows, lower, upper = [], [], []

    for i, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True), start=1):
        before, own = slice(starts[i - 1], starts[i]), np.arange(starts[i], starts[i + 1])
        here = np.arange(sizes[i])
        down, up = np.zeros((2, sizes[i], n_values + n_hidden))
        down[here, own] = up[here, own] = 1.0
        down[:, before], up[:, before] = -(weight - delta), -(weight + delta)
        if i <= len(network.hidden):
            inactive = own - starts[1] + n_values
            up[here, inactive] = -BIG_M
            off = np.zeros_like(up)
            off[here, own], off[here, inactive] = 1.0, BIG_M
            rows.append(off)
            lower.append(np.full(sizes[i], -np.inf))
            upper.append(np.full(sizes[i], BIG_M))
        rows += [down, up]
        lower += [bias - delta, np.full(sizes[i], -np.inf)]
        upper += [np.full(sizes[i], np.inf), bias + delta]

    matrix = csr_array(np.concatenate(rows))
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = matrix.shape
    cost = np.zeros(n_values + n_hidden)
    cost[n_values - 1] = 1.0
    model.col_cost_ = cost
    model.col_lower_ = np.concatenate(
        [x, np.zeros(sum(network.hidden)), [-np.inf], np.zeros(n_hidden)]
    )
    model.col_upper_ = np.concatenate(
        [x, np.full(sum(network.hidden) + 1, np.inf), np.ones(n_hidden)]
    )
    model.row_lower_, model.row_upper_ = np.concatenate(lower), np.concatenate(upper)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_ = (
        matrix.indptr.astype(np.int32),
        matrix.indices.astype(np.int32),
    )
    model.a_matrix_.value_ = matrix.data
    whole, real = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
    model.integrality_ = [real] * n_values + [whole] * n_hidden
    return model
