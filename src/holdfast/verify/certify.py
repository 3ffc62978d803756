"""The exact Δ-robustness test, for a whole table at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds.abstraction import margins_for
from holdfast.changes import PlausibleChanges
from holdfast.errors import InvalidInputError
from holdfast.network import Floats, Network
from holdfast.progress import progress_bar
from holdfast.verify.balls import ball_error, ball_lower, search_ball
from holdfast.verify.cascade import run_cascade
from holdfast.verify.certificates import Certificates
from holdfast.verify.inputs import Space, check_scale, positive_number, read_table, read_targets
from holdfast.verify.separate import run_separate
from holdfast.verify.verdict import NOT_ROBUST, ROBUST, Outcome, Stage

# A table shorter than this is done before a progress bar could be read.
_LONG_TABLE = 200_000


def certify(
    model: object,
    X: Any,
    target: Any,
    changes: PlausibleChanges,
    *,
    space: Space | None = None,
    factuals: Any = None,
    time_limit: float | None = None,
    method: str = "joint",
    progress: bool | None = None,
) -> Certificates:
    """Decide for each row whether every model in Δ gives it the target class.

    Parameters
    ----------
    model
        Anything `load_network` takes; with a scikit-learn pipeline, X goes through its earlier steps first.
    X
        The points: an array in the model's variables, or a DataFrame in the caller's units.
    target
        The class that the points must keep: one label, or one for each row.
    changes
        Δ.
    space
        How raw units become the model's variables, where the model does not bring its own preprocessing.
    factuals
        The points that recourse started from, row by row: `sound` then says whether Δ keeps their class too.
    time_limit
        Seconds after which the rows still open are left UNKNOWN.
    method
        "joint" (exact: the least difference of two logits), "separate" (the paper's test for several classes: the
        target's least logit against each rival's greatest; weaker, for comparison), or "interval" (propagation alone:
        fast, sound, and UNKNOWN where it proves nothing).
    progress
        Show a progress bar on stderr; by default on long tables if stderr is a terminal.

    Examples
    --------
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> certs = certify(net, [[0.7, 0.7], [0.7, 0.9]], 1, PlausibleChanges(0.1, biases=False))
    >>> [str(verdict) for verdict in certs.verdict]
    ['NOT_ROBUST', 'ROBUST']
    >>> certs.witness(0).predict([[0.7, 0.7]])
    array([0])
    """
    if not isinstance(changes, PlausibleChanges):
        raise InvalidInputError(f"changes: expected PlausibleChanges(delta), got {changes!r}")
    table = read_table(model, X, space)
    targets = read_targets(table.network, target, table.points.shape[0])
    deadline = _deadline(time_limit)
    with progress_bar("certify", table.points.shape[0], wanted=progress, long=_LONG_TABLE) as advance:
        outcome = _decide(table.network, changes, table.points, targets, method, deadline, advance)
    sound = None
    if factuals is not None:
        before = read_table(model, factuals, space, name="factuals")
        if before.points.shape[0] != table.points.shape[0]:
            expected, got = table.points.shape[0], before.points.shape[0]
            raise InvalidInputError(f"factuals: expected one for each of the {expected} rows, got {got}")
        classes = table.network.predict_index(before.points)
        kept = _decide(table.network, changes, before.points, classes, method, deadline, None)
        sound = kept.verdict == ROBUST
    return Certificates(table.network, changes, table.points, targets, table.index, outcome, sound)


def _decide(
    network: Network,
    changes: PlausibleChanges,
    points: Floats,
    targets: NDArray[np.intp],
    method: str,
    deadline: float | None,
    advance: Callable[[int], object] | None,
) -> Outcome:
    if method not in ("joint", "separate", "interval"):
        raise InvalidInputError(f"method: expected 'joint', 'separate' or 'interval', got {method!r}")
    check_scale(network, changes, points)
    if changes.norm != math.inf:
        if method == "separate":
            raise InvalidInputError(f"method: 'separate' is the paper's test for norm inf, got norm {changes.norm}")
        return _decide_ball(network, changes, points, targets, method, deadline)
    if method == "separate" and network.n_outputs > 1:
        return run_separate(network, changes, points, targets, deadline=deadline)
    return run_cascade(
        network, changes, points, targets, deadline=deadline, advance=advance, bounds_only=method == "interval"
    )


def _decide_ball(
    network: Network,
    changes: PlausibleChanges,
    points: Floats,
    targets: NDArray[np.intp],
    method: str,
    deadline: float | None,
) -> Outcome:
    """Norms other than inf: the ball's own bound, a search, and last the box that contains the ball."""
    box = PlausibleChanges(changes.delta, biases=changes.biases)
    outcome = run_cascade(network, box, points, targets, deadline=deadline, bounds_only=True)
    for target in np.unique(targets):
        rows = np.flatnonzero((targets == target) & (outcome.verdict == 0))
        if not rows.size:
            continue
        margins = margins_for(network, int(target))
        lower = ball_lower(network, changes, points[rows], margins)
        outcome.lower[rows] = np.maximum(outcome.lower[rows], lower.min(axis=1))
        stage = Stage.INTERVAL if network.hidden else Stage.CLOSED_FORM
        outcome.settle(rows[lower.min(axis=1) > 0.0], ROBUST, stage)
        for i, row in enumerate(rows):
            if outcome.verdict[row] != 0 or (deadline is not None and time.monotonic() > deadline):
                continue
            for k in np.argsort(lower[i]):
                witness = search_ball(network, changes, points[row], margins[k]) if lower[i, k] <= 0.0 else None
                if witness is not None:
                    outcome.settle(np.array([row]), NOT_ROBUST, Stage.ATTACK if network.hidden else Stage.CLOSED_FORM)
                    outcome.adversaries.add_network(int(row), margins[k], witness)
                    error = float(ball_error(network, changes, points[row : row + 1])[0])
                    outcome.upper[row] = min(outcome.upper[row], error)
                    break
    rest = np.flatnonzero(outcome.verdict == 0)
    if rest.size and method == "joint" and network.hidden:
        inner = run_cascade(network, box, points[rest], targets[rest], deadline=deadline)
        proven = inner.verdict == ROBUST
        outcome.lower[rest] = np.maximum(outcome.lower[rest], inner.lower)
        outcome.verdict[rest[proven]], outcome.stage[rest[proven]] = ROBUST, inner.stage[proven]
    return outcome


def _deadline(time_limit: float | None) -> float | None:
    if time_limit is None:
        return None
    return time.monotonic() + positive_number(time_limit, "time_limit")
