"""The range of each logit over Δ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._given import positive_number
from holdfast._network import Bools, Floats, Pair
from holdfast.bounds._layers import Margin
from holdfast.changes import PlausibleChanges, TreeChanges
from holdfast.errors import InvalidInputError
from holdfast.verify._engine import Engine
from holdfast.verify._inputs import Space, check_changes, read_table
from holdfast.verify._trees import MovingTrees


@dataclass(frozen=True)
class OutputBounds:
    """Bounds ``lower <= logit <= upper`` for every model in Δ, (n, outputs) each.

    `met` is True where both bounds are within the requested tolerance.
    """

    lower: Floats
    upper: Floats
    met: Bools

    def probabilities(self) -> Pair:
        """Sound bounds on the probabilities, (n, classes) each: sigmoid for one logit, softmax for several.

        A class is least probable if its own logit is least and every other logit is greatest. Each range is computed
        separately, so for several classes the bounds are sound but one model may not attain them together.
        """
        # One logit is class 1's, beside a constant 0.
        lower, upper = (
            np.insert(end, 0, 0.0, axis=1) if end.shape[1] == 1 else end
            for end in (self.lower, self.upper)
        )
        return _probabilities(lower, upper, -1.0), _probabilities(upper, lower, 1.0)


def output_bounds(
    model: object,
    X: Any,
    changes: PlausibleChanges | TreeChanges,
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
        "exact" is tight to within `tol` for norm inf; `met` is False where rounding or the budget of the search
        prevented it. "interval" uses interval propagation alone: sound, fast, and exact up to one hidden layer. For
        other norms both give the sound bound of the p-ball, which is exact without hidden layers. For boosted trees
        under `TreeChanges` both are exact up to the rounding of the library's sums.
    tol
        Largest distance of an exact bound from the true end of the range.

    Examples
    --------
    >>> from holdfast import Network
    >>> net = Network([[[1.0, 0.0], [0.0, 1.0]], [[1.0, -1.0]]], [[0.0, 0.0], [0.0]])
    >>> bounds = output_bounds(net, [[1.0, 2.0]], PlausibleChanges(0.05, biases=False))
    >>> bounds.lower.round(4), bounds.upper.round(4)
    (array([[-1.45]]), array([[-0.55]]))
    """
    if method not in ("exact", "interval"):
        raise InvalidInputError(f"method: expected 'exact' or 'interval', got {method!r}")
    if isinstance(changes, TreeChanges):
        if changes.threshold is not None:
            raise InvalidInputError(
                "changes: output_bounds does not use a threshold; leave threshold= out of TreeChanges"
            )
        table = read_table(model, X, space)
        lower, upper, spare = MovingTrees(table.model, changes).ranges(table.points)
        return OutputBounds(lower, upper, spare <= positive_number(tol, "tol"))
    check_changes(changes)
    table = read_table(model, X, space)
    engine = Engine(table.model.network, changes)
    engine.prepared(0).error(table.points)
    return logit_ranges(engine, table.points, positive_number(tol, "tol"), exact=method == "exact")


def logit_ranges(
    engine: Engine, points: Floats, tol: float, *, exact: bool, deadline: Deadline = NO_LIMIT
) -> OutputBounds:
    """`output_bounds` for a given engine and points."""
    columns = []
    for k in range(engine.network.n_outputs):
        margins = (Margin.of(engine.network, *ends) for ends in ((k, -1), (-1, k)))
        (low, low_met), (high, high_met) = (
            engine.least(points, margin, tol, exact=exact, deadline=deadline) for margin in margins
        )
        columns.append((low, -high, np.maximum(low_met - low, high_met - high) <= tol))
    return OutputBounds(*(np.stack(parts, axis=1) for parts in zip(*columns, strict=True)))


def _probabilities(own: Floats, others: Floats, side: float) -> Floats:
    """The probability of each class with its logit at one end and all others at the other, rounded towards `side`."""
    n = own.shape[1]
    # Without a sum of all, from which one logit's own would have to be taken off again.
    rest = [np.logaddexp.reduce(np.delete(others, k, axis=1), axis=1) for k in range(n)]
    against = np.stack(rest, axis=1)
    # Each of the sums on the way may be rounded, in units of the largest logit.
    largest = np.abs(others).max(axis=1, keepdims=True)
    spare = side * 2.0**-48 * (np.abs(own) + n * (largest + n))
    with np.errstate(invalid="ignore", under="ignore"):
        shares = np.exp(-np.logaddexp(0.0, against - own - spare)) * (1.0 + side * 2.0**-50)
    shares = np.nan_to_num(shares + side * 2e-323, nan=max(side, 0.0))
    return np.asarray(np.clip(shares, 0.0, 1.0))
