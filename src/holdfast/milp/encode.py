"""The least margin over Δ at one point, as a mixed-integer program.

Variables: the values v_i of every hidden layer, first layer in its exact box. For each later neuron j

    v_j >= 0,   v_j >= (W_j - radius) v + b_j - radius                    the lower side is convex
    v_j <= (W_j + radius) v + b_j + radius        where the upper side is surely active
    v_j <= 0                                      where it is surely inactive
    v_j <= U_j - upper_min * inactive_j,  v_j <= upper_max (1 - inactive_j)  otherwise, with a binary inactive_j

so only an upper side of unknown sign needs a binary, and each big-M is that neuron's own bound. With `decided` choices
(see `bounds.linear`) the same rows give the linear program of a branch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.arrays import to_numpy
from holdfast.bounds.abstraction import IntervalNetwork
from holdfast.bounds.interval import Ranges
from holdfast.bounds.linear import FREE, LINEAR, ZERO
from holdfast.milp.solve import Program
from holdfast.network import Floats


@dataclass(frozen=True)
class MarginProgram:
    """The program, and where to find things in it."""

    program: Program
    hidden: tuple[int, ...]
    # The row numbers of each later neuron's lower side and, without binaries, of its line, layers side by side.
    lower_rows: NDArray[np.intp]
    upper_rows: NDArray[np.intp]

    def layer_values(self, values: Floats) -> list[Floats]:
        """A solution's hidden values, layer by layer."""
        return np.split(values[: sum(self.hidden)], np.cumsum(self.hidden)[:-1])


def margin_program(
    net: IntervalNetwork,
    box: tuple[Floats, Floats],
    ranges: tuple[Ranges, ...],
    row: Floats,
    *,
    decided: tuple[NDArray[np.int8], ...] | None = None,
    relaxed: bool = False,
    always_feasible: bool = False,
) -> MarginProgram:
    """Minimise row . v_last for one point: `box` is (H1,), `ranges` hold one row each; `relaxed` leaves out binaries.

    With `relaxed`, a neuron whose upper side is of unknown sign and undecided gets its chord. A branch with v_j <= U_j
    may be empty, because v_j >= 0; `always_feasible` lets such a v_j go below 0.
    """
    hidden = tuple(int(weight.shape[0]) for weight in net.weights)
    starts = np.concatenate([[0], np.cumsum(hidden)])
    builder = _Rows()
    lower, upper = [np.asarray(box[0]).ravel()], [np.asarray(box[1]).ravel()]
    binaries, lower_rows, upper_rows = 0, [], []
    for i in range(1, net.depth):
        weight, bias = to_numpy(net.weights[i]), to_numpy(net.biases[i])
        radius, bias_radius = float(np.ravel(net.weight_radii[i])[0]), float(np.ravel(net.bias_radii[i])[0])
        bottom, top = to_numpy(ranges[i - 1].upper_min).ravel(), to_numpy(ranges[i - 1].upper_max).ravel()
        linear = np.zeros(hidden[i], dtype=bool) if decided is None else decided[i - 1].ravel() == LINEAR
        lower.append(np.where(linear & always_feasible, np.minimum(bottom, 0.0), 0.0))
        upper.append(np.maximum(top, 0.0))
        before = np.arange(starts[i - 1], starts[i])
        for j in range(hidden[i]):
            own = starts[i] + j
            choice = FREE if decided is None else int(decided[i - 1].ravel()[j])
            # v_j - (W_j - radius) v >= b_j - radius; a branch with v_j = 0 asks nothing more of the layer before.
            side = -np.inf if choice == ZERO else bias[j] - bias_radius
            lower_rows.append(builder.add(own, before, -(weight[j] - radius), side, np.inf))
            if choice != FREE:
                slope, intercept = (1.0, 0.0) if choice == LINEAR else (0.0, 0.0)
            elif bottom[j] >= 0.0 or top[j] <= 0.0:
                slope, intercept = float(bottom[j] >= 0.0), 0.0
            elif relaxed:
                slope = top[j] / (top[j] - bottom[j])
                intercept = -slope * bottom[j]
            else:
                inactive = starts[-1] + binaries
                binaries += 1
                up, most = -(weight[j] + radius), bias[j] + bias_radius
                builder.add(own, np.append(before, inactive), np.append(up, bottom[j]), -np.inf, most)
                builder.add(own, np.array([inactive]), np.array([top[j]]), -np.inf, top[j])
                continue
            up = -slope * (weight[j] + radius)
            upper_rows.append(builder.add(own, before, up, -np.inf, slope * (bias[j] + bias_radius) + intercept))
    n_values = int(starts[-1])
    cost = np.zeros(n_values + binaries)
    cost[starts[-2] : starts[-1]] = row
    program = Program(
        cost=cost,
        lower=np.concatenate([*lower, np.zeros(binaries)]),
        upper=np.concatenate([*upper, np.ones(binaries)]),
        starts=np.array(builder.starts, dtype=np.int32),
        columns=np.concatenate(builder.columns).astype(np.int32),
        values=np.concatenate(builder.values),
        row_lower=np.array(builder.lower),
        row_upper=np.array(builder.upper),
        integer=np.arange(n_values + binaries) >= n_values,
    )
    return MarginProgram(program, hidden, np.array(lower_rows, dtype=np.intp), np.array(upper_rows, dtype=np.intp))


class _Rows:
    """Constraint rows of the form  x_own + coefficients . x_others  in [lower, upper]."""

    def __init__(self) -> None:
        self.starts: list[int] = [0]
        self.columns: list[NDArray[np.intp]] = []
        self.values: list[Floats] = []
        self.lower: list[float] = []
        self.upper: list[float] = []

    def add(self, own: int, others: NDArray[np.intp], coefficients: Floats, lower: float, upper: float) -> int:
        """Add one row and return its number."""
        self.columns.append(np.append(others, own))
        self.values.append(np.append(coefficients, 1.0))
        self.lower.append(float(lower))
        self.upper.append(float(upper))
        self.starts.append(self.starts[-1] + others.shape[0] + 1)
        return len(self.lower) - 1
