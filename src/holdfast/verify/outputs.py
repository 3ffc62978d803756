"""The range of each logit over Δ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.bounds.abstraction import IntervalNetwork, Margin
from holdfast.bounds.interval import IntervalPass
from holdfast.bounds.linear import relax, value_box
from holdfast.bounds.rounding import RoundingModel
from holdfast.changes import LayerRadius, PlausibleChanges
from holdfast.errors import InvalidInputError
from holdfast.milp.encode import margin_program
from holdfast.milp.solve import solve
from holdfast.network import CHUNK, Floats, Network
from holdfast.verify.attack import best_response
from holdfast.verify.balls import ball_lower
from holdfast.verify.branch import branch_and_bound
from holdfast.verify.exact import proven_above
from holdfast.verify.identity import identity_lower
from holdfast.verify.inputs import Space, check_scale, positive_number, read_table
from holdfast.verify.problem import Problem


@dataclass(frozen=True)
class OutputBounds:
    """`lower <= logit <= upper` for every model in Δ, (n, outputs) each."""

    lower: Floats
    upper: Floats

    def probabilities(self) -> tuple[Floats, Floats]:
        """Sound bounds on the probabilities, (n, classes) each: sigmoid for one logit, softmax for several.

        A class is least probable when its own logit is least and every other greatest; each logit's range is taken on
        its own, so for several classes the bounds are sound but may not be attained together.
        """
        if self.lower.shape[1] == 1:
            low, high = _sigmoid(self.lower[:, 0]), _sigmoid(self.upper[:, 0])
            return np.stack([1.0 - high, low], axis=1), np.stack([1.0 - low, high], axis=1)
        return _softmax_end(self.lower, self.upper), _softmax_end(self.upper, self.lower)


def output_bounds(
    model: object,
    X: Any,
    changes: PlausibleChanges,
    method: str = "exact",
    *,
    space: Space | None = None,
    tol: float = 1e-7,
) -> OutputBounds:
    """The least and the greatest value of each logit over Δ.

    Parameters
    ----------
    model, X, changes, space
        As for `certify`.
    method
        "exact": tight to within `tol` for norm inf. "interval": propagation alone, sound and fast, exact up to one
        hidden layer. For other norms both are the sound bound of the p-ball, exact without hidden layers, and for
        networks with identity layers both are interval propagation.
    tol
        How far an exact bound may lie outside the true range.

    Examples
    --------
    >>> net = Network([[[1.0, 0.0], [0.0, 1.0]], [[1.0, -1.0]]], [[0.0, 0.0], [0.0]])
    >>> bounds = output_bounds(net, [[1.0, 2.0]], PlausibleChanges(0.05, biases=False))
    >>> bounds.lower.round(4), bounds.upper.round(4)
    (array([[-1.45]]), array([[-0.55]]))
    """
    if method not in ("exact", "interval"):
        raise InvalidInputError(f"method: expected 'exact' or 'interval', got {method!r}")
    if not isinstance(changes, PlausibleChanges):
        raise InvalidInputError(f"changes: expected PlausibleChanges(delta), got {changes!r}")
    table = read_table(model, X, space)
    check_scale(table.network, changes, table.points)
    tol = positive_number(tol, "tol")
    return logit_ranges(table.network, changes, table.points, exact=method == "exact", tol=tol)


def logit_ranges(
    network: Network, changes: PlausibleChanges, points: Floats, *, exact: bool, tol: float = 1e-7
) -> OutputBounds:
    """`output_bounds` on points in the model's variables."""
    ends = []
    for sign in (1, -1):
        margins = [Margin.of_logit(network, k, sign) for k in range(network.n_outputs)]
        if changes.norm != math.inf:
            least = ball_lower(network, changes, points, margins)
        else:
            least = least_values(network, changes, points, margins, exact=exact, tol=tol)
        ends.append(sign * least)
    return OutputBounds(*ends)


def least_values(
    network: Network, changes: PlausibleChanges, points: Floats, margins: list[Margin], *, exact: bool, tol: float
) -> Floats:
    """The least value of each margin over the box, from below; within `tol` of it if `exact`."""
    net = IntervalNetwork.of(network, changes)
    if not network.rectified:
        error = RoundingModel.of(network, net).output(np.abs(points).max(axis=1))
        lower = identity_lower(network, changes.layer_radii(network), margins, points)
        return np.asarray(lower - np.asarray(error)[:, None])
    problems = [Problem.of(network, net, margin, points) for margin in margins]
    lower = np.empty((points.shape[0], len(margins)))
    if not net.depth:
        reach = np.abs(points).sum(axis=1) * net.output_weight_radius + net.output_bias_radius
        for k, margin in enumerate(margins):
            lower[:, k] = points @ margin.row + margin.offset - margin.count * reach - problems[k].error
        return lower
    interval = IntervalPass.of(net, margins)
    for start in range(0, points.shape[0], CHUNK):
        chunk = points[start : start + CHUNK]
        lower[start : start + CHUNK] = interval.lower(chunk, nonnegative=float(chunk.min()) >= 0.0)
    lower -= np.stack([problem.error for problem in problems], axis=1)
    if exact and net.depth > 1:
        for k, problem in enumerate(problems):
            lower[:, k] = np.maximum(lower[:, k], _exact_least(problem, changes.layer_radii(network), lower[:, k], tol))
    return lower


def _exact_least(problem: Problem, radii: list[LayerRadius], lower: Floats, tol: float) -> Floats:
    """Branch and bound to within `tol`; what it leaves open is proven just below the value that HiGHS names."""
    attained = best_response(problem).margin + problem.error
    rest = np.flatnonzero(attained - lower > tol)
    least = lower.copy()
    if not rest.size:
        return least
    inner = problem.take(rest)
    found = branch_and_bound(inner, attained[rest], gap=tol - 2.0 * float(problem.error.max()))
    least[rest] = np.maximum(least[rest], found.lower)
    for i in np.flatnonzero(found.open):
        one = inner.take(np.array([i]))
        box = value_box(one.net, one.points, one.rounding, one.sizes)
        _, ranges = relax(one.net, box, one.rounding, one.sizes, refine=True)
        solution = solve(margin_program(one.net, box, ranges, np.ravel(one.row)).program)
        value = min(solution.objective + float(np.ravel(one.offset)[0]), float(found.upper[i])) - tol
        if np.isfinite(value) and proven_above(one, radii, value):
            least[rest[i]] = max(least[rest[i]], value)
    return least


def _sigmoid(logits: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits)))


def _softmax_end(own: Floats, others: Floats) -> Floats:
    """The probability of each class with its own logit at one end and every other at the other."""
    shift = np.maximum(own.max(axis=1), others.max(axis=1))[:, None]
    mine, theirs = np.exp(own - shift), np.exp(others - shift)
    rest = theirs.sum(axis=1, keepdims=True) - theirs
    return np.asarray(mine / (mine + rest))
