"""The exact test of Δ-robustness for a whole table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from holdfast._arrays import check_device
from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._given import positive_number
from holdfast._network import Floats, Ints
from holdfast._parallel import jobs, spread
from holdfast._progress import Advance, no_bar, progress_bar
from holdfast._scored import Scored
from holdfast.changes import Changes
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.importers import Model, load_model
from holdfast.verify._certificates import Certificates
from holdfast.verify._closed_form import ClosedForm
from holdfast.verify._deciders import Decider, asked_about, decider_for, toward
from holdfast.verify._engine import Engine, cut
from holdfast.verify._fingerprint import known_of
from holdfast.verify._inputs import Space, Table, check_changes, read_table, read_targets
from holdfast.verify._outputs import logit_ranges
from holdfast.verify._verdict import NOT_ROBUST, ROBUST, UNKNOWN, Outcome, Stage

# A table shorter than this is done before a progress bar could be read.
_LONG_TABLE = 200_000
_SEPARATE_TOL = 1e-7
# Rows that go through the cheap stages together.
_BLOCK = 2**16


def certify(
    model: object,
    X: Any,
    target: Any,
    changes: Changes,
    *,
    space: Space | None = None,
    factuals: Any = None,
    time_limit: float | None = None,
    method: str = "joint",
    n_jobs: int | None = None,
    progress: bool | None = None,
    device: str | None = None,
    threshold: Any = None,
) -> Certificates:
    """Decide for each row whether every model in Δ gives it the target class.

    Parameters
    ----------
    model
        Any model that `load_network` takes; a scikit-learn pipeline first applies its earlier steps to X. Under a
        `PlausibleShift` or an `EnsembleShift`, any model that `load_model` takes; under `TreeChanges`, trees of any
        supported library.
    X
        The points: an array in the model's variables, or a DataFrame in the caller's units.
    target
        The class that the points must keep: one label, or one for each row.
    changes
        Δ: `PlausibleChanges`, or another kind of plausible change.
    space
        The feature space, which turns raw units into the model's variables. A model with its own preprocessing needs
        none.
    factuals
        The points that recourse started from, one for each row. `sound` then says whether Δ keeps their class too.
    time_limit
        Seconds of processor time; rows that are still open after them are UNKNOWN.
    method
        "joint" is exact: it bounds the least difference of two logits. "separate" is the paper's weaker test for
        several classes: it compares the target's least logit with each rival's greatest. "interval" uses interval
        propagation alone: fast and sound, with the verdict UNKNOWN for rows that it cannot prove.
    n_jobs
        The number of blocks of rows that run in parallel, as in joblib. None takes the setting of
        `joblib.parallel_config`, or one. The result does not depend on it. Slow rows are searched separately, so no
        block waits for them.
    progress
        Show a progress bar on stderr. By default it shows for long tables if stderr is a terminal.
    device
        A torch device, such as "cuda". By default the device of X if X is a tensor, else numpy.
    threshold
        The decision threshold: the least probability for which class 1 is chosen, or one probability for each of
        several classes; see `load_model`. By default the model's own decision.

    Examples
    --------
    >>> from holdfast import Network, PlausibleChanges
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> certs = certify(net, [[0.7, 0.7], [0.7, 0.9]], 1, PlausibleChanges(0.1, biases=False))
    >>> [str(verdict) for verdict in certs.verdict]
    ['NOT_ROBUST', 'ROBUST']
    >>> certs.witness(0).predict([[0.7, 0.7]])
    array([0])
    """
    prepared = prepare(
        model, changes, space=space, device=check_device(device, X), threshold=threshold
    )
    return prepared.certify(
        X, target, factuals=factuals, time_limit=time_limit, method=method, n_jobs=n_jobs, progress=progress
    )  # fmt: skip


def prepare(
    model: object,
    changes: Changes,
    *,
    space: Space | None = None,
    device: str | None = None,
    threshold: Any = None,
) -> Prepared:
    """Read a model and Δ once, for services that certify point by point.

    Parameters
    ----------
    model, changes, space, device, threshold
        As for `certify`.

    Examples
    --------
    >>> from holdfast import Network, PlausibleChanges
    >>> prepared = prepare(Network([[[-1.0, 1.0]]], [[0.0]]), PlausibleChanges(0.1, biases=False))
    >>> bool(prepared.certify([[0.7, 0.9]], 1).robust[0])
    True
    """
    check_changes(changes)
    device = check_device(device, None)
    loaded = load_model(model, threshold)
    changes = known_of(
        loaded,
        changes,
        "it describes advice that `explain` found, and these points come from the caller",
    )
    if isinstance(space, FeatureSpace):
        loaded = loaded.in_space(space)
    return Prepared(loaded, decider_for(loaded, changes, device), space)


@dataclass(frozen=True)
class Prepared:
    """A model and Δ, prepared by `prepare`."""

    model: Model
    decider: Decider
    space: Space | None

    def certify(
        self,
        X: Any,
        target: Any,
        *,
        factuals: Any = None,
        time_limit: float | None = None,
        method: str = "joint",
        n_jobs: int | None = None,
        progress: bool | None = False,
    ) -> Certificates:
        """Decide for each row whether every model in Δ gives it the target class; as `certify`."""
        deadline = Deadline.after(
            None if time_limit is None else positive_number(time_limit, "time_limit")
        )
        table, decider = self._read(X, "X")
        n = len(table.points)
        targets = read_targets(decider.classifier, target, n)
        with jobs(n_jobs), progress_bar("certify", n, wanted=progress, long=_LONG_TABLE) as advance:
            certificates = certify_points(
                decider,
                table.points,
                targets,
                index=table.index,
                deadline=deadline,
                method=method,
                advance=advance,
            )
        if factuals is None:
            return certificates
        table, decider = self._read(factuals, "factuals")
        before = table.points
        if len(before) != n:
            raise InvalidInputError(
                f"factuals: expected one row for each of the {n} rows of X, got {len(before)}"
            )
        classes = decider.classifier.predict_index(before)
        with jobs(n_jobs):
            kept = certify_points(decider, before, classes, deadline=deadline, method=method)
        return replace(certificates, sound=kept.robust)

    def _read(self, X: Any, name: str) -> tuple[Table, Decider]:
        """The table and its decider: a model that reads the caller's table is evaluated on exactly these rows."""
        table = read_table(self.model, X, self.space, name=name)
        scored = isinstance(table.model.classifier, Scored)
        return table, asked_about(self.decider, table.model) if scored else self.decider


def certify_points(
    decider: Decider,
    points: Floats,
    targets: Ints,
    *,
    index: pd.Index | None = None,
    deadline: Deadline = NO_LIMIT,
    method: str = "joint",
    advance: Advance = no_bar,
) -> Certificates:
    """`certify` for a given decider, points and class indices."""
    if method not in ("joint", "separate", "interval"):
        raise InvalidInputError(
            f"method: expected 'joint', 'separate' or 'interval', got {method!r}"
        )
    decider = toward(decider, targets)
    if method == "separate":
        outcome = _separate(decider, points, targets, deadline)
    else:
        until = Stage.BALL if method == "interval" else Stage.EXACT
        outcome = _settled(decider, points, targets, deadline, until, advance)
    return Certificates(
        decider, points, targets, pd.RangeIndex(len(points)) if index is None else index, outcome
    )


def _settled(
    decider: Engine | ClosedForm,
    points: Floats,
    targets: Ints,
    deadline: Deadline,
    until: Stage,
    advance: Advance,
) -> Outcome:
    """Settle blocks of rows by the cheap stages, then the open rows in groups, which free workers take.

    Blocks and groups do not depend on the number of workers, so the result of each row does not either.
    """
    settle: Callable[..., Outcome] = decider.settle
    n, group, easy, device = len(points), _BLOCK, until, None
    if isinstance(decider, Engine):
        group, easy, device = decider.group, min(until, decider.easy), decider.device
    if n <= group or device:
        return settle(points, targets, deadline=deadline, until=until, advance=advance)
    outcome = Outcome.empty(n)

    def run(blocks: list[Ints], stage: Stage) -> None:
        def part(i: int) -> tuple[Callable[..., Outcome], float | None]:
            rows = blocks[i]
            # Rows that lie together need no copy.
            together = rows[-1] - rows[0] == len(rows) - 1
            own: Any = slice(rows[0], rows[-1] + 1) if together else rows
            left = deadline.left()
            work = partial(settle, points[own], targets[own], until=stage)
            return work, None if left is None else left / (len(blocks) - i)

        parts = map(part, range(len(blocks)))
        settled = map(_settle_part, parts) if len(blocks) == 1 else spread(_settle_part, parts)
        for rows, own in zip(blocks, settled, strict=True):
            outcome.put(rows, own)
            advance(int((own.verdict != 0).sum()) if stage < until else len(rows))

    run(cut(np.arange(n), _BLOCK), easy)
    if easy < until:
        if decider.classifier.n_outputs < 3:
            # With one margin a row, rows that are left open need not see the easy stages again.
            settle = partial(settle, since=Stage(easy + 1))
        run(cut(np.flatnonzero(outcome.verdict == 0), group), until)
    return outcome


def _settle_part(part: tuple[Callable[..., Outcome], float | None]) -> Outcome:
    """Settle a worker's share of the rows; each worker counts its own time."""
    settle, seconds = part
    return settle(deadline=Deadline.after(seconds))


def _separate(
    engine: Engine | ClosedForm, points: Floats, targets: Ints, deadline: Deadline
) -> Outcome:
    """The paper's test, which is weaker: often no single model attains the worst value of both logits.

    A row that passes is ROBUST. Other rows are NOT_ROBUST if a counter-model is found, else UNKNOWN.
    """
    if not isinstance(engine, Engine):
        raise InvalidInputError(
            "method: 'separate' is the paper's test for networks under PlausibleChanges, got "
            f"{type(engine.changes).__name__}; use method='joint'"
        )
    if engine.ball:
        raise InvalidInputError(
            f"method: 'separate' is the paper's test for norm=inf, got norm={engine.changes.norm:g}; use method='joint'"
        )
    outcome = engine.settle(points, targets, deadline=deadline)
    if engine.network.n_outputs == 1:
        return outcome
    ranges = logit_ranges(engine, points, _SEPARATE_TOL, exact=True, deadline=deadline)
    rows = np.arange(len(points))
    differences = ranges.lower[rows, targets][:, None] - ranges.upper
    differences[rows, targets] = np.inf
    outcome.lower = differences.min(axis=1)
    outcome.mark(outcome.verdict != NOT_ROBUST, UNKNOWN, Stage.NONE)
    outcome.mark(outcome.lower > 0.0, ROBUST, Stage.SEPARATE)
    return outcome
