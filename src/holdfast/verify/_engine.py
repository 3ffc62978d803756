"""The one engine: how small can a margin get over Δ? Its sign for `certify`, its value for ranges, its root for radii.

`TABLE` is at once the order of the stages, the meaning of `decided_by` and the documentation: each row of people goes
down the table until a stage proves it or breaks it, and no stage sees what an earlier one has settled.

No verdict rests on a solver's word: solvers have been seen to report false bounds with the status "optimal".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast._arrays import Array, array_namespace, take_rows, to_numpy
from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._network import CHUNK, Floats, Network
from holdfast.bounds import _balls as balls
from holdfast.bounds._layers import (
    Layers,
    Margin,
    Pass,
    Passes,
    forward_error,
    interval_passes,
    margins_for,
    one_network,
)
from holdfast.changes import PlausibleChanges
from holdfast.errors import HoldfastError, InvalidInputError
from holdfast.importers import Model
from holdfast.verify._attack import attack
from holdfast.verify._search import WITNESS_SAFETY, Search
from holdfast.verify._verdict import NOT_ROBUST, ROBUST, Outcome, Stage
from holdfast.verify._witness import build_witness, flips

Rows = NDArray[np.intp]

# Values of searched layers that are looked at together.
_WIDE = 2**15
# Rows that are looked at first; where there are so many, what is found there is tried on all.
_FEW, _MANY = 32, 512
# Rows at a time where they live on a device: enough to fill it. The ranges of deep networks take a matrix for each row:
# so many numbers in all.
_DEVICE_CHUNK, _DEVICE_NUMBERS = 2**20, 2**25


def quiet() -> np.errstate:
    """At the ends of the range of floats sums overflow: what is not a number then proves nothing and breaks nothing."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


@dataclass(frozen=True)
class Step:
    """One row of the table."""

    stage: Stage
    run: Callable[[Job, Deadline], None]
    proves: bool
    breaks: bool
    # What it may spend on a row, and what it does, in words.
    budget: str
    does: str
    # Whether it is for Δ in a norm other than inf, for the box, or for both (None).
    ball: bool | None = None


class PreparedTarget:
    """The margins of one target, with everything about them that does not depend on the points."""

    def __init__(self, engine: Engine, margins: Sequence[Margin]) -> None:
        network = engine.network
        self.margins = list(margins)
        self.layers = [Layers.of(network, engine.box, margin) for margin in margins]
        # What bounds the rounding of any of the margins: the greatest of each.
        *hidden, _ = self.layers[0].norms
        self.norms = [
            *hidden,
            tuple(np.max([one.norms[-1] for one in self.layers], axis=0).tolist()),
        ]
        relus = (False, *self.layers[0].relus)
        rows, offsets = (
            np.stack([one.row for one in margins]),
            np.array([one.offset for one in margins]),
        )
        weights, biases = (*network.weights[:-1], rows), (*network.biases[:-1], offsets)
        parts = [
            (weight.T, bias, relu)
            for weight, bias, relu in zip(weights, biases, relus, strict=True)
        ]
        self.today = Pass(parts, engine.convert)
        plain = bool(network.hidden) and network.rectified
        self.interval = interval_passes(self.layers, engine.convert) if plain else None
        self.layers = (
            [one.on(engine.convert) for one in self.layers] if engine.device else self.layers
        )

    def least(self, points: Array) -> Array:
        """The interval bounds of the margins, (n, k), before any allowance for rounding."""
        if self.interval is not None:
            return self.interval(points)
        return array_namespace(points).stack([one.least(points) for one in self.layers], axis=1)


class Engine:
    """A network and Δ, prepared: services keep one and ask it point by point."""

    def __init__(
        self, network: Network, changes: PlausibleChanges, device: str | None = None
    ) -> None:
        self.network = self.classifier = network
        self.changes, self.device = changes, device
        self.ball = changes.norm != math.inf
        # The box that contains Δ; for norm inf Δ itself.
        self.box = replace(changes, norm=math.inf) if self.ball else changes
        self.radii = changes.layer_radii(network)
        self._prepared: dict[int, PreparedTarget] = {}
        # Where the network comes from, with its threshold.
        self.model: Model | None = None
        # From numpy to where the work is done.
        self.convert: Callable[[Any], Array] = np.asarray
        if device is not None:
            import torch

            # Always a copy: a network's arrays are read-only, and torch warns of sharing such memory.
            self.convert = partial(torch.tensor, dtype=torch.float64, device=device)

    def __reduce__(self) -> tuple[Any, ...]:
        return Engine, (self.network, self.changes, self.device), {"model": self.model}

    def witness(self, outcome: Outcome, row: int, point: Floats, target: int) -> Network | None:
        """A network inside Δ that breaks a row that is NOT_ROBUST, replayed; None where none was kept."""
        if outcome.stage[row] == Stage.FORWARD:
            return self.network
        breaker = outcome.breaker(row)
        if breaker is None:
            return None
        margin, sides = breaker
        if isinstance(sides, Network):
            return sides
        witness = build_witness(self.network, self.radii, margin, point, sides)
        if witness.predict_index(point[None, :])[0] == target:
            raise HoldfastError(
                f"row {row}: the counter-model did not replay; please report this as a bug"
            )
        return witness

    def proof(
        self, outcome: Outcome, row: int, point: Floats, target: int, max_cases: int
    ) -> list[dict[str, Any]]:
        """What the ROBUST verdict of a row stands on, as `holdfast.checker` reads it: a part for each rival."""
        # As in `_exact`: the checker is imported when it is asked for.
        from holdfast.verify._exact import proof

        return proof(self, outcome, row, point, target, max_cases)

    def prepared(self, target: int) -> PreparedTarget:
        """What is known of the class at index `target` beforehand."""
        if target not in self._prepared:
            with quiet():
                self._prepared[target] = PreparedTarget(self, margins_for(self.network, target))
        return self._prepared[target]

    def chunks(self, n: int, width: int | None = None) -> Iterator[slice]:
        """As many of n rows at a time as stay in a core's cache, or fill a device; each takes `width` values."""
        size = CHUNK if width is None else max(_WIDE // max(width, 1), 16)
        if self.device:
            deep = width is not None and len(self.network.hidden) > 2
            size = (
                max(_DEVICE_NUMBERS // max(self.network.hidden) ** 2, 16) if deep else _DEVICE_CHUNK
            )
        for start in range(0, n, size):
            yield slice(start, min(start + size, n))

    @property
    def group(self) -> int:
        """How many hard rows are searched together."""
        return max(_WIDE // max(sum(self.network.hidden), 1), 16)

    @property
    def easy(self) -> Stage:
        """The last of the stages that cost about as much as a few forward passes."""
        return Stage.BALL if self.ball else Stage.ATTACK

    def check_scale(self, points: Floats, target: int = 0) -> float:
        """How far rounding may carry a margin; refused if logits could leave the range of floats: nothing were true."""
        error = forward_error(self.prepared(target).norms, _greatest(points))
        if not error < 1e280:
            raise InvalidInputError(
                "X: expected points and parameters whose logits stay within floating point, got overflow"
            )
        return float(error)

    @quiet()
    def settle(
        self,
        points: Floats,
        target: int | Rows,
        *,
        deadline: Deadline = NO_LIMIT,
        until: Stage = Stage.EXACT,
        keep: bool = True,
        advance: Callable[[int], object] = lambda _: None,
        known: tuple[Floats, Floats] | None = None,
    ) -> Outcome:
        """The sign of the margins of every row, for one target class or one a row, by the stages up to `until`.

        `keep` keeps what proves the rows, for certificates. `known` are bounds of rows that the easy stages have left
        open: with one margin a row, they need not see them again. See `complete` for what may be missing.
        """
        only, outcome = (
            target if isinstance(target, int) else int(target[0]),
            Outcome.empty(points.shape[0]),
        )
        error = self.check_scale(points, only)
        again = known is None or len(self.prepared(only).margins) > 1
        if known is not None:
            outcome.lower[:], outcome.upper[:] = known
        elif points.shape[0] == 1 and self._at_once(points, self.prepared(only), error, outcome):
            return outcome
        jobs = []
        for one, rows in by_target(target, points.shape[0]):
            some = points if len(rows) == len(points) else points[rows]
            jobs.append(Job(self, self.prepared(one), some, rows, outcome, keep))
        # What is easy in every class before what is hard in any: a time limit should cost only the latter.
        for step in TABLE:
            due = step.stage <= until and (again or step.stage > self.easy)
            for job in jobs if due and step.ball in (None, self.ball) else ():
                before = job.left.size
                if before and not deadline.over:
                    step.run(job, deadline)
                    advance(before - job.open().size)
        advance(int(np.sum(outcome.verdict == 0)))
        return outcome

    def _at_once(
        self, point: Floats, prepared: PreparedTarget, error: float, outcome: Outcome
    ) -> bool:
        """Whether forward pass or interval bound settle a single point: the same as the stages, without their ado."""
        there = self.convert(point)
        alone = len(prepared.margins) == 1
        bounds = prepared.least(there)
        outcome.lower[0] = lower = float(bounds[0, 0] if alone else bounds.min()) - error
        if lower > 0.0:
            outcome.mark(0, ROBUST, Stage.INTERVAL if self.network.hidden else Stage.CLOSED_FORM)
            return True
        today = prepared.today(there)
        least = float(today[0, 0] if alone else today.min())
        outcome.upper[0] = least + error
        if least < -error:
            outcome.lower[0] = -np.inf
            outcome.mark(0, NOT_ROBUST, Stage.FORWARD)
        return least < -error

    @quiet()
    def complete(self, outcome: Outcome, points: Floats, target: Rows) -> None:
        """Write down today's margins of rows that were proven before anyone asked for them."""
        rows = np.flatnonzero(outcome.upper == np.inf)
        for one, some in by_target(target[rows], rows.size) if rows.size else ():
            local = rows[some]
            job = Job(self, self.prepared(one), points[local], local, outcome, keep=False)
            job.reached(job.left, job.today(job.left) + job.error, np.zeros(0, np.intp), Stage.NONE)

    @quiet()
    def least(
        self,
        points: Floats,
        margin: Margin,
        tol: float,
        *,
        exact: bool,
        deadline: Deadline = NO_LIMIT,
    ) -> tuple[Floats, Floats]:
        """The least value of a margin over the box: bounds from below and from above, `tol` apart where that is met."""
        prepared, hidden = PreparedTarget(self, [margin]), self.network.hidden
        layers, n = prepared.layers[0], points.shape[0]
        error = np.asarray(forward_error(prepared.norms, np.abs(points).max(axis=1)))
        if self.ball:
            lower = balls.least_margins(self.network, self.changes, points, [margin])[:, 0]
            return lower, np.full(n, np.inf) if hidden else lower + 4.0 * error
        lower, upper = np.empty(n), np.empty(n)
        for part in self.chunks(n, max(hidden, default=None)):
            chunk = self.convert(points[part])
            lower[part] = to_numpy(prepared.least(chunk))[:, 0]
            upper[part] = to_numpy(attack(layers, chunk)[0]) if hidden else lower[part]
        lower, upper = lower - error, upper + error
        short = (
            np.flatnonzero(upper - lower > tol)
            if exact and len(hidden) > 1
            else np.zeros(0, dtype=np.intp)
        )
        for part in self.chunks(short.size, sum(hidden)):
            if deadline.over:
                break
            rows = short[part]
            gap = np.maximum(tol - 2.0 * error[rows], 0.5 * tol)
            search = Search(layers, self.convert(points[rows]), upper[rows], error[rows], gap=gap)
            search.run(_MOST_NODES, deadline)
            lower[rows], upper[rows] = np.maximum(lower[rows], search.lower), search.upper
        return lower, upper


def _greatest(points: Floats) -> float:
    """The greatest |x|."""
    return max(float(points.max()), -float(points.min()))


def by_target(target: int | Rows, n: int) -> Iterator[tuple[int, Rows]]:
    """Each class that is asked for with its rows, in order; one class for all is the usual case."""
    if isinstance(target, int) or (target == target[0]).all():
        yield target if isinstance(target, int) else int(target[0]), np.arange(n)
    else:
        for one in np.unique(target):
            yield int(one), np.flatnonzero(target == one)


class Job:
    """Rows with one target class on their way down the table."""

    def __init__(
        self,
        engine: Engine,
        prepared: PreparedTarget,
        points: Floats,
        rows: Rows,
        outcome: Outcome,
        keep: bool,
    ) -> None:
        self.engine, self.prepared, self.outcome, self.keep = engine, prepared, outcome, keep
        self.points, self.rows = points, rows
        n, k = rows.shape[0], len(prepared.margins)
        # The rows that were open when they were last looked at; none is ever opened again.
        self.left = np.arange(n)
        # What is known of each (row, margin): a lower bound, and whether it is proven to stay on the right side.
        self.lower, self.proven = np.full((n, k), -np.inf), np.zeros((n, k), dtype=bool)
        # Whether interval bounds have been taken; what rounding may do to them and to today's margins.
        self.bounded, self.error = False, np.empty(n)
        for part in engine.chunks(n):
            self.error[part] = forward_error(prepared.norms, _greatest(points[part]))
        self.searches: list[tuple[int, Rows, Search]] = []

    def at(self, local: Rows) -> Any:
        """Where some rows are in the outcome; all of them together need not be picked out."""
        if local.size == self.outcome.verdict.size:
            return slice(None)
        return local if self.rows.size == self.outcome.verdict.size else self.rows[local]

    def open(self, k: int | None = None) -> Rows:
        """The rows that are not settled; with `k`, those whose k-th margin is not proven either."""
        self.left = self.left[self.outcome.verdict[self.at(self.left)] == 0]
        return self.left if k is None else self.left[~self.proven[self.left, k]]

    def some(self, local: Rows) -> Floats:
        """The points of some rows."""
        return self.points if local.size == self.rows.size else self.points[local]

    def today(self, local: Rows) -> Floats:
        """The least of today's margins of some rows."""
        points, least = self.some(local), np.empty(local.size)
        for part in self.engine.chunks(local.size):
            margins = to_numpy(self.prepared.today(self.engine.convert(points[part])))
            least[part] = margins[:, 0] if margins.shape[1] == 1 else margins.min(axis=1)
        return least

    def prove(
        self, local: Rows, k: int | slice, lower: Floats, stage: Stage, *, proven: bool = False
    ) -> None:
        """Lower bounds of the k-th margin, or of all: proven above 0, or by what else is known; robust if all are."""
        at = slice(None) if local.size == self.rows.size else local
        self.lower[at, k] = np.maximum(self.lower[at, k], lower)
        known, proves = self.lower[at], (lower > 0.0) | proven
        alone = known.shape[1] == 1
        self.outcome.lower[self.at(local)] = known[:, 0] if alone else known.min(axis=1)
        self.proven[at, k] |= proves
        new = local[proves if proves.ndim == 1 else proves[:, 0] if alone else proves.any(axis=1)]
        new = new if alone else new[self.proven[new].all(axis=1)]
        self.outcome.mark(self.at(new), ROBUST, stage)

    def reached(self, local: Rows, upper: Floats, broken: Any, stage: Stage) -> Rows:
        """Write down margins that some network in Δ does not exceed, and the rows that they break."""
        at = self.at(local)
        self.outcome.upper[at] = np.minimum(self.outcome.upper[at], upper)
        lost: Rows = self.rows[local[broken]]
        self.outcome.mark(lost, NOT_ROBUST, stage)
        return lost


def _forward(job: Job, deadline: Deadline) -> None:
    # Where most rows are accepted, few of them are left to ask about once those with good bounds are proven.
    few = job.left[:: job.left.size // _FEW + 1]
    if np.count_nonzero(job.today(few) > 0.0) > few.size // 2:
        _interval(job, deadline)
    rows = job.open()
    least, error = job.today(rows), job.error[rows]
    lost = job.reached(rows, least + error, least < -error, Stage.FORWARD)
    # Of rows that today's network loses nobody asks how low they get, whatever rows there are beside them.
    job.outcome.lower[lost] = -np.inf


def _interval(job: Job, deadline: Deadline) -> None:
    engine, prepared, rows = job.engine, job.prepared, job.open()
    if job.bounded:
        return
    job.bounded = True
    stage = Stage.INTERVAL if engine.network.hidden else Stage.CLOSED_FORM
    points, error = job.some(rows), job.error[rows]
    lower = np.empty((rows.size, len(prepared.margins)))
    for part in engine.chunks(
        rows.size, None if engine.network.rectified else max(engine.network.hidden)
    ):
        lower[part] = to_numpy(prepared.least(engine.convert(points[part])))
    lower -= error[:, None]
    job.prove(rows, slice(None), lower, stage)
    if not engine.network.hidden and not engine.ball:
        for k, margin in enumerate(prepared.margins):
            broken = lower[:, k] < -WITNESS_SAFETY * error
            lost = job.reached(rows, lower[:, k] + 2.0 * error, broken, stage)
            job.outcome.add_sides(lost, margin, np.zeros((lost.size, 0)))


def _attack(job: Job, deadline: Deadline) -> None:
    engine, prepared = job.engine, job.prepared
    for k, layers in enumerate(prepared.layers if engine.network.hidden else ()):
        rows = job.open(k)
        if prepared.interval is not None and rows.size > _MANY:
            # What breaks some rows breaks most of the others, too.
            few = engine.convert(job.points[rows[:: rows.size // _FEW]])
            margins, sides = map(to_numpy, attack(layers, few, 2))
            chosen = sides.mean(axis=0) < 0.0
            network = one_network(layers, chosen, engine.convert)
            _break(job, k, network, tuple(np.where(chosen, -1, 1)))
            missed = margins[to_numpy(network(few))[:, 0] >= 0.0]
            if len(layers.hidden) == 2 and 2 * np.count_nonzero(missed < 0.0) <= missed.size:
                # What is left are mostly rows to prove, and the linear bound meets networks as well.
                continue
        _break(job, k)


def _break(job: Job, k: int, network: Passes | None = None, chosen: tuple[int, ...] = ()) -> None:
    """Attack the open rows: with one network for all, whose sides are known, or with the best responses of each."""
    layers, rows = job.prepared.layers[k], job.open(k)
    for part in job.engine.chunks(rows.size):
        points = job.points[rows[part]]
        error = forward_error(layers.norms, _greatest(points))
        there, clear = job.engine.convert(points), -WITNESS_SAFETY * error
        margins, sides = (
            (network(there)[:, 0], chosen) if network else attack(layers, there, 2, clear)
        )
        margins = to_numpy(margins)
        broken = np.flatnonzero(margins < clear)
        lost = job.reached(rows[part], margins + error, broken, Stage.ATTACK)
        own = np.tile(sides, (lost.size, 1)) if network else to_numpy(take_rows(sides, broken))
        job.outcome.add_sides(lost, job.prepared.margins[k], own)


def _linear(job: Job, deadline: Deadline) -> None:
    engine = job.engine
    for k, layers in enumerate(job.prepared.layers):
        rows = job.open(k)
        for part in engine.chunks(
            rows.size if len(layers.hidden) > 1 else 0, sum(engine.network.hidden)
        ):
            if deadline.over:
                return
            local = rows[part]
            points = job.points[local]
            error = np.asarray(forward_error(layers.norms, np.abs(points).max(axis=1)))
            upper = job.outcome.upper[job.at(local)]
            search = Search(layers, engine.convert(points), upper, error, keep=job.keep)
            search.root_bounds()
            _take_over(job, k, local, search, Stage.LINEAR)
            if search.stack:
                job.searches.append((k, local, search))


def _branch(job: Job, deadline: Deadline) -> None:
    for k, local, search in job.searches:
        # Rows that are settled by another margin are left out.
        search.done[job.outcome.verdict[job.rows[local]] != 0] = True
        search.branch(_MOST_NODES, deadline)
        _take_over(job, k, local, search, Stage.BRANCH)
    job.searches = []


def _take_over(job: Job, k: int, local: Rows, search: Search, stage: Stage) -> None:
    """What a search knows by now of its rows."""
    margin, free = job.prepared.margins[k], job.outcome.verdict[job.rows[local]] == 0
    broken = search.broken & free & (not job.engine.ball)
    if not job.engine.ball:
        lost = job.reached(local, search.upper, broken, stage)
        job.outcome.add_sides(lost, margin, search.sides(np.flatnonzero(broken)))
    closed = np.flatnonzero(search.closed & ~broken & free)
    job.prove(local[closed], k, search.lower[closed], stage)
    rest = np.flatnonzero(~search.closed)
    job.prove(local[rest], k, np.minimum(search.root_bound[rest], 0.0), stage)
    for leaves in search.leaves:
        job.outcome.add_leaves(margin, replace(leaves, row=job.rows[local[leaves.row]]))
    search.leaves.clear()


def _ball(job: Job, deadline: Deadline) -> None:
    engine, local = job.engine, job.open()
    lower = balls.least_margins(
        engine.network, engine.changes, job.points[local], job.prepared.margins
    )
    stage = Stage.BALL if engine.network.hidden else Stage.CLOSED_FORM
    job.prove(local, slice(None), lower, stage)


def _ball_attack(job: Job, deadline: Deadline) -> None:
    engine = job.engine
    stage = Stage.ATTACK if engine.network.hidden else Stage.CLOSED_FORM
    for one in job.open():
        for k in np.argsort(job.lower[one]):
            if deadline.over:
                return
            margin = job.prepared.margins[k]
            if job.proven[one, k]:
                continue
            x = job.points[one]
            lower, witness = balls.refine(
                engine.network, engine.changes, x, margin, goal=0.0, deadline=deadline
            )
            if witness is not None and flips(witness, margin, x):
                (row,) = job.reached(np.array([one]), np.zeros(1), np.ones(1, dtype=bool), stage)
                job.outcome.networks[int(row)] = (margin, witness)
                break
            job.prove(np.array([one]), int(k), np.array([lower]), Stage.BALL)


def _exact(job: Job, deadline: Deadline) -> None:
    """Row by row in integers, where floats cannot tell: the margin is nearer to 0 than rounding allows."""
    # Not before it is asked for: `python -m holdfast.checker` has to come before whoever imports the checker.
    from holdfast.verify._exact import Exact

    engine = job.engine
    for k, margin in enumerate(job.prepared.margins):
        layers = job.prepared.layers[k]
        for one in job.open(k):
            if deadline.over:
                return
            answer = Exact(engine.network, engine.changes, layers, margin, job.points[one]).settle(
                deadline
            )
            here, row = np.array([one]), int(job.rows[one])
            if isinstance(answer, dict):
                job.outcome.trees[row, margin.above, margin.below] = answer
                # A margin of exactly 0 that keeps the class is proven, too.
                job.prove(here, k, np.array([max(answer["bound"], 0.0)]), Stage.EXACT, proven=True)
            elif answer is not None and not engine.ball:
                job.reached(here, np.array([0.0]), np.ones(1, dtype=bool), Stage.EXACT)
                job.outcome.add_sides(np.array([row]), margin, answer[None, :])


_MOST_NODES = 2**18

TABLE = (
    Step(
        Stage.FORWARD,
        _forward,
        False,
        True,
        "one forward pass",
        "today's model already says otherwise",
    ),
    Step(
        Stage.INTERVAL,
        _interval,
        True,
        False,
        "one pass of twice the width",
        "every value between its least and greatest",
    ),
    Step(
        Stage.BALL, _ball, True, False, "one pass", "a radius that all parameters share", ball=True
    ),
    Step(
        Stage.ATTACK,
        _ball_attack,
        True,
        True,
        "some descents",
        "a network in the ball that breaks it",
        ball=True,
    ),
    Step(
        Stage.ATTACK,
        _attack,
        False,
        True,
        "two best responses",
        "a network in Δ that breaks it",
        ball=False,
    ),
    Step(
        Stage.LINEAR, _linear, True, True, "four walks back", "a linear bound with good multipliers"
    ),
    Step(
        Stage.BRANCH,
        _branch,
        True,
        True,
        f"{_MOST_NODES:,} branches",
        "the same on cases, until each is proven",
    ),
    Step(
        Stage.EXACT,
        _exact,
        True,
        True,
        "500 linear programs",
        "whole numbers, where floats cannot tell",
    ),
)
