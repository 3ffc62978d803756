"""The one engine: how small can a margin get over Δ? Its sign for `certify`, its value for ranges, its root for radii.

`TABLE` is at once the order of the stages, the meaning of `decided_by` and the documentation: each row of people goes
down the table until a stage proves it or breaks it, and no stage sees what an earlier one has settled.

No verdict rests on a solver's word: solvers have been seen to report false bounds with the status "optimal".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.arrays import Array, array_namespace, beside, take_rows, to_numpy
from holdfast.bounds import balls
from holdfast.bounds.layers import IntervalPass, Layers, Margin, margins_for, rectify, with_bias, with_one
from holdfast.changes import PlausibleChanges
from holdfast.deadline import Deadline
from holdfast.errors import HoldfastError, InvalidInputError
from holdfast.importers import Model
from holdfast.network import CHUNK, Floats, Network
from holdfast.verify.attack import attack, sides
from holdfast.verify.search import WITNESS_SAFETY, Search
from holdfast.verify.verdict import NOT_ROBUST, PLACES, ROBUST, STAGES, Outcome, Stage
from holdfast.verify.witness import build_witness, flips

Rows = NDArray[np.intp]

# Rows that go through the later stages together, and values of a searched layer that do.
_BLOCK, _WIDE = 32768, 2**15
# Rows at a time where they live on a device: enough to fill it.
_DEVICE_CHUNK = 2**20
_NO_LIMIT = Deadline.after(None)


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
        rows, offsets = np.stack([margin.row for margin in margins]).T, np.array([margin.offset for margin in margins])
        self.rows = engine.convert(with_bias(rows, offsets)[:, :-1].copy())
        plain = bool(network.hidden) and network.rectified
        self.interval = IntervalPass(self.layers, engine.convert) if plain else None
        self.layers = [one.on(engine.convert) for one in self.layers] if engine.device else self.layers

    def error(self, magnitude: Array) -> Array:
        """How far rounding may carry any of the margins of points with |x| <= magnitude."""
        errors = [one.forward_error(magnitude) for one in self.layers]
        return errors[0] if len(errors) == 1 else array_max(errors)

    def least(self, points: Array) -> Array:
        """The interval bounds of the margins, (n, k), before any allowance for rounding."""
        if self.interval is not None:
            return self.interval.lower(points, nonnegative=bool(points.min() >= 0.0))
        xp = array_namespace(points)
        return xp.stack([one.least(points) for one in self.layers], axis=1)


def array_max(errors: list[Array]) -> Array:
    """The greatest of numbers, or of columns entry by entry."""
    if isinstance(errors[0], float):
        return max(errors)
    xp = array_namespace(errors[0])
    return xp.max(xp.stack(errors), axis=0)


class Engine:
    """A network and Δ, prepared: services keep one and ask it point by point."""

    def __init__(self, network: Network, changes: PlausibleChanges, device: str | None = None) -> None:
        self.network, self.changes, self.device = network, changes, device
        self.ball = changes.norm != math.inf
        # The box that contains Δ; for norm inf Δ itself.
        self.box = replace(changes, norm=math.inf) if self.ball else changes
        self.radii = changes.layer_radii(network)
        self._prepared: dict[int, PreparedTarget] = {}
        # Where the network comes from, with its threshold.
        self.model: Model | None = None

    @property
    def classifier(self) -> Network:
        """The network, as every decider calls it."""
        return self.network

    def __reduce__(self) -> tuple[Any, ...]:
        return Engine, (self.network, self.changes, self.device), {"model": self.model}

    def witness(self, outcome: Outcome, row: int, point: Floats, target: int) -> Network | None:
        """A network inside Δ that breaks a row that is NOT_ROBUST, replayed; None where none was kept."""
        if STAGES[outcome.stage[row]] is Stage.FORWARD:
            return self.network
        found = outcome.evidence.breaker(row)
        if found is None:
            return None
        margin, sides = found
        if isinstance(sides, Network):
            return sides
        witness = build_witness(self.network, self.radii, margin, point, sides)
        if witness.predict_index(point[None, :])[0] == target:
            raise HoldfastError(f"row {row}: the counter-model did not replay; please report this as a bug")
        return witness

    def proof(self, outcome: Outcome, row: int, point: Floats, target: int, max_cases: int) -> list[dict[str, Any]]:
        """What the ROBUST verdict of a row stands on, as `holdfast.checker` reads it: a part for each rival."""
        # As in `_exact`: the checker is imported when it is asked for.
        from holdfast.verify.proof import proof

        return proof(self, outcome.evidence, row, point, target, max_cases)

    @cached_property
    def convert(self) -> Callable[[Any], Array]:
        """From numpy to where the work is done."""
        if self.device is None:
            return np.asarray
        import torch

        device = self.device
        # Always a copy: a network's arrays are read-only, and torch warns of sharing such memory.
        return lambda array: torch.tensor(array, dtype=torch.float64, device=device)

    @cached_property
    def parameters(self) -> list[tuple[Array, bool]]:
        """Weights (turned) with their biases and whether a ReLU follows, of the hidden layers."""
        kinds = zip(self.network.weights[:-1], self.network.biases[:-1], self.network.activations, strict=True)
        return [(self.convert(with_bias(weight.T, bias)), kind == "relu") for weight, bias, kind in kinds]

    def prepared(self, target: int) -> PreparedTarget:
        """What is known of the class at index `target` beforehand."""
        if target not in self._prepared:
            self._prepared[target] = PreparedTarget(self, margins_for(self.network, target))
        return self._prepared[target]

    def check_scale(self, points: Floats) -> float:
        """The greatest |x|; refused if logits could leave the range of floating point: nothing true could be said."""
        greatest = _greatest(points)
        with quiet():
            worst = self.prepared(0).error(greatest)
        if not worst < 1e280:
            raise InvalidInputError(
                "X: expected points and parameters whose logits stay within floating point, got overflow"
            )
        return greatest

    def margins(self, points: Array, prepared: PreparedTarget) -> Array:
        """Today's margins, (n, k)."""
        values = with_one(points)
        for matrix, relu in self.parameters:
            values = values @ matrix
            values = rectify(values) if relu else values
        return values @ prepared.rows

    def settle(
        self,
        points: Floats,
        target: int | Rows,
        *,
        deadline: Deadline = _NO_LIMIT,
        until: Stage = Stage.EXACT,
        keep: bool = True,
        advance: Callable[[int], object] | None = None,
    ) -> Outcome:
        """The sign of the margins of every row, for one target class or one a row, by the stages up to `until`.

        `keep` keeps what proves the rows, for certificates.
        """
        with quiet():
            return self._settle(points, target, deadline, until, keep, advance)

    def _settle(
        self,
        points: Floats,
        target: int | Rows,
        deadline: Deadline,
        until: Stage,
        keep: bool,
        advance: Callable[[int], object] | None,
    ) -> Outcome:
        greatest, outcome = self.check_scale(points), Outcome.empty(points.shape[0])
        if points.shape[0] == 1:
            only = self.prepared(target if isinstance(target, int) else int(target[0]))
            if self._at_once(points, only, only.error(greatest), outcome):
                return outcome
        jobs: list[Job] = []
        block = _DEVICE_CHUNK if self.device else _BLOCK
        for one, rows in by_target(target, points.shape[0]):
            waiting: list[Job] = []
            for start in range(0, len(rows), block):
                part = rows[start : start + block]
                job = Job(self, self.prepared(one), points, part, outcome, keep)
                job.run(CHEAP, deadline, until)
                waiting.append(job)
                if advance is not None:
                    advance(len(part))
            if until is not Stage.INTERVAL:
                jobs += _gathered(waiting, block)
        # What is easy in every class and block before what is hard in any: a time limit should cost only the latter.
        for steps in (ATTACKS, SEARCHES):
            for job in jobs:
                job.run(steps, deadline, until)
        return outcome

    def _at_once(self, point: Floats, prepared: PreparedTarget, error: float, outcome: Outcome) -> bool:
        """Whether forward pass or interval bound settle a single point: the same as the stages, without their ado."""
        there = self.convert(point)
        least = float(self.margins(there, prepared).min())
        outcome.upper[0] = least + error
        if least < -error:
            outcome.verdict[0], outcome.stage[0] = NOT_ROBUST, PLACES[Stage.FORWARD]
            return True
        outcome.lower[0] = lower = float(prepared.least(there).min()) - error
        if lower > 0.0:
            stage = Stage.INTERVAL if self.network.hidden else Stage.CLOSED_FORM
            outcome.verdict[0], outcome.stage[0] = ROBUST, PLACES[stage]
        return bool(lower > 0.0)

    def least(
        self, points: Floats, margin: Margin, tol: float, *, exact: bool, deadline: Deadline = _NO_LIMIT
    ) -> tuple[Floats, Floats]:
        """The least value of a margin over the box: bounds from below and from above, `tol` apart where that is met."""
        with quiet():
            return self._least(points, margin, tol, exact, deadline)

    def _least(
        self, points: Floats, margin: Margin, tol: float, exact: bool, deadline: Deadline
    ) -> tuple[Floats, Floats]:
        prepared = PreparedTarget(self, [margin])
        layers, n = prepared.layers[0], points.shape[0]
        error = np.asarray(prepared.error(np.abs(points).max(axis=1)))
        if self.ball:
            lower = balls.least_margins(self.network, self.changes, points, [margin])[:, 0]
            return lower, np.full(n, np.inf) if self.network.hidden else lower + 4.0 * error
        lower, upper = np.empty(n), np.empty(n)
        for part in _chunks(n, _WIDE // max(self.network.hidden, default=_WIDE // CHUNK)):
            chunk = self.convert(points[part])
            lower[part] = to_numpy(prepared.least(chunk))[:, 0]
            upper[part] = lower[part] if not layers.hidden else to_numpy(attack(layers, chunk).margin)
        lower, upper = lower - error, upper + error
        short = np.flatnonzero(upper - lower > tol) if exact and layers.depth > 1 else np.zeros(0, dtype=np.intp)
        for part in _chunks(short.size, max(_WIDE // max(sum(self.network.hidden), 1), 16)):
            if deadline.over:
                break
            rows = short[part]
            start = layers.start(self.convert(points[rows]))
            search = Search(layers, start, upper[rows], error[rows], gap=np.maximum(tol - 2.0 * error[rows], 0.5 * tol))
            found = search.run(_MOST_NODES, deadline)
            lower[rows], upper[rows] = np.maximum(lower[rows], found.lower), found.upper
        return lower, upper


def quiet() -> np.errstate:
    """At the ends of the range of floats sums overflow: what is not a number then proves nothing and breaks nothing."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def _greatest(points: Floats) -> float:
    """The greatest |x|."""
    return max(float(points.max()), -float(points.min()))


def by_target(target: int | Rows, n: int) -> Iterator[tuple[int, Rows | range]]:
    """Each class that is asked for with its rows, in order; one class for all is the usual case."""
    if isinstance(target, int):
        yield target, range(n)
    elif (target == target[0]).all():
        yield int(target[0]), range(n)
    else:
        for one in np.unique(target):
            yield int(one), np.flatnonzero(target == one)


def _chunks(n: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _gathered(jobs: list[Job], block: int) -> Iterator[Job]:
    """The open rows of several blocks, as blocks of about the usual size."""
    waiting: list[Job] = []
    for job in jobs:
        rest = job.rest()
        if rest is not None:
            waiting.append(rest)
        if sum(one.rows.shape[0] for one in waiting) >= block:
            yield Job.joined(waiting)
            waiting = []
    if waiting:
        yield Job.joined(waiting)


class Job:
    """A block of rows with one target class on its way down the table."""

    def __init__(
        self, engine: Engine, prepared: PreparedTarget, points: Floats, rows: Rows | range, outcome: Outcome, keep: bool
    ) -> None:
        self.engine, self.prepared, self.outcome, self.keep = engine, prepared, outcome, keep
        self.points = points[rows.start : rows.stop] if isinstance(rows, range) else points[rows]
        self.rows = np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows
        n, k = self.rows.shape[0], len(prepared.margins)
        # What is known of each (row, margin): a lower bound, and whether it is proven to stay on the right side.
        self.lower, self.proven = np.full((n, k), -np.inf), np.zeros((n, k), dtype=bool)
        # What rounding may do to today's margins and to interval bounds.
        self.error = np.empty(n)
        self.searches: list[tuple[int, Rows, Search]] = []

    def rest(self) -> Job | None:
        """The job without the rows that are settled."""
        left = np.flatnonzero(self.outcome.verdict[self.rows] == 0)
        if not left.size:
            return None
        job = Job(self.engine, self.prepared, self.points, left, self.outcome, self.keep)
        job.rows, job.lower, job.proven = self.rows[left], self.lower[left], self.proven[left]
        return job

    @staticmethod
    def joined(jobs: list[Job]) -> Job:
        """Several jobs with the same target as one."""
        first = jobs[0]
        if len(jobs) > 1:
            first.points, first.rows, first.lower, first.proven = (
                np.concatenate([getattr(job, name) for job in jobs]) for name in ("points", "rows", "lower", "proven")
            )
        return first

    def run(self, steps: Sequence[Step], deadline: Deadline, until: Stage) -> None:
        """Each step in turn on what the ones before left open."""
        for step in steps:
            if step.ball in (None, self.engine.ball) and PLACES[step.stage] <= PLACES[until]:
                if deadline.over or not self.open().size:
                    return
                step.run(self, deadline)

    def open(self, k: int | None = None) -> Rows:
        """The rows that are not settled; with `k`, those whose k-th margin is not proven either."""
        free = self.outcome.verdict[self.rows] == 0
        return np.flatnonzero(free if k is None else free & ~self.proven[:, k])

    def magnitude(self, local: Rows) -> Floats:
        """max |x| of some rows."""
        return np.asarray(np.abs(self.points[local]).max(axis=1))

    def prove(self, local: Rows, k: int, lower: Floats, stage: Stage) -> None:
        """What a step showed of the k-th margin; a row all of whose margins are proven is robust."""
        self.lower[local, k] = np.maximum(self.lower[local, k], lower)
        proven = local[lower > 0.0]
        self.proven[proven, k] = True
        self.robust(local, proven[self.proven[proven].all(axis=1)], stage)

    def robust(self, local: Rows, proven: Rows, stage: Stage) -> None:
        """Write down the bounds of some rows, and the verdict of those that are proven."""
        rows = self.rows[local]
        self.outcome.lower[rows] = self.lower[local, 0] if self.lower.shape[1] == 1 else self.lower[local].min(axis=1)
        self.outcome.verdict[self.rows[proven]] = ROBUST
        self.outcome.stage[self.rows[proven]] = PLACES[stage]

    def reached(self, local: Rows, upper: Floats, broken: NDArray[np.bool_], stage: Stage) -> Rows:
        """Write down margins that some network in Δ does not exceed, and the rows that they break."""
        rows = self.rows[local]
        self.outcome.upper[rows] = np.minimum(self.outcome.upper[rows], upper)
        self.outcome.verdict[rows[broken]] = NOT_ROBUST
        self.outcome.stage[rows[broken]] = PLACES[stage]
        return rows[broken]


def _forward(job: Job, deadline: Deadline) -> None:
    engine, n = job.engine, job.rows.shape[0]
    least = np.empty(n)
    for part in _chunks(n, _DEVICE_CHUNK if engine.device else CHUNK):
        chunk = job.points[part]
        margins = to_numpy(engine.margins(engine.convert(chunk), job.prepared))
        job.error[part] = job.prepared.error(_greatest(chunk))
        least[part] = margins[:, 0] if margins.shape[1] == 1 else margins.min(axis=1)
    job.reached(np.arange(n), least + job.error, least < -job.error, Stage.FORWARD)


def _interval(job: Job, deadline: Deadline) -> None:
    engine, prepared = job.engine, job.prepared
    stage = Stage.INTERVAL if engine.network.hidden else Stage.CLOSED_FORM
    rows = job.open()
    whole = rows.size == job.rows.size
    lower, error = np.empty((rows.size, len(prepared.margins))), job.error[rows]
    wide = CHUNK if engine.network.rectified else _WIDE // max(engine.network.hidden)
    for part in _chunks(rows.size, _DEVICE_CHUNK if engine.device else wide):
        chunk = job.points[part if whole else rows[part]]
        lower[part] = to_numpy(prepared.least(engine.convert(chunk)))
    lower -= error[:, None]
    job.lower[rows], job.proven[rows] = lower, lower > 0.0
    job.robust(rows, rows[(lower > 0.0).all(axis=1) if lower.shape[1] > 1 else lower[:, 0] > 0.0], stage)
    if not engine.network.hidden and not engine.ball:
        for k, margin in enumerate(prepared.margins):
            broken = lower[:, k] < -WITNESS_SAFETY * error
            found = job.reached(rows, lower[:, k] + 2.0 * error, broken, stage)
            job.outcome.evidence.add_sides(found, margin, np.zeros((found.size, 0)))


def _attack(job: Job, deadline: Deadline) -> None:
    engine = job.engine
    for k, margin in enumerate(job.prepared.margins):
        layers, rows = job.prepared.layers[k], job.open(k)
        for part in _chunks(rows.size if layers.hidden else 0, _DEVICE_CHUNK if engine.device else CHUNK):
            local = rows[part]
            points = job.points[local]
            chunk, error = engine.convert(points), layers.forward_error(_greatest(points))
            clear = -WITNESS_SAFETY * error
            found = attack(layers, chunk, clear=clear)
            margins = to_numpy(found.margin)
            broken = margins < clear
            chosen = np.flatnonzero(broken)
            met = found.take(beside(found.margin, chosen)).sides(layers, take_rows(chunk, beside(chunk, chosen)))
            job.outcome.evidence.add_sides(
                job.reached(local, margins + error, broken, Stage.ATTACK), margin, to_numpy(met)
            )


def _linear(job: Job, deadline: Deadline) -> None:
    engine = job.engine
    for k in range(len(job.prepared.margins)):
        layers, rows = job.prepared.layers[k], job.open(k)
        if layers.depth < 2:
            return
        for part in _chunks(
            rows.size, _DEVICE_CHUNK if engine.device else max(_WIDE // sum(engine.network.hidden), 16)
        ):
            if deadline.over:
                return
            local = rows[part]
            error = np.asarray(layers.forward_error(job.magnitude(local)))
            start = layers.start(engine.convert(job.points[local]))
            search = Search(layers, start, job.outcome.upper[job.rows[local]], error, keep=job.keep)
            search.root_bounds()
            _take_over(job, k, local, search, Stage.LINEAR)
            if search.stack:
                job.searches.append((k, local, search))


def _branch(job: Job, deadline: Deadline) -> None:
    for k, local, search in job.searches:
        search.skip(np.flatnonzero(job.outcome.verdict[job.rows[local]] != 0))
        search.branch(_MOST_NODES, deadline)
        _take_over(job, k, local, search, Stage.BRANCH)
    job.searches = []


def _take_over(job: Job, k: int, local: Rows, search: Search, stage: Stage) -> None:
    """What a search knows by now of its rows."""
    found, margin, layers = search.found, job.prepared.margins[k], job.prepared.layers[k]
    broken = search.broken & (job.outcome.verdict[job.rows[local]] == 0)
    if job.engine.ball:
        broken[:] = False
    else:
        chosen = np.flatnonzero(broken)
        met = sides(
            layers,
            *(job.engine.convert(a) for a in (job.points[local[chosen]], found.corner[chosen], found.sides[chosen])),
        )
        rows = job.reached(local, found.upper, broken, stage)
        job.outcome.evidence.add_sides(rows, margin, to_numpy(met))
    closed = np.flatnonzero(search.closed & ~broken & (job.outcome.verdict[job.rows[local]] == 0))
    job.prove(local[closed], k, found.lower[closed], stage)
    rest = np.flatnonzero(~search.closed)
    job.prove(local[rest], k, np.minimum(search.root_bound[rest], 0.0), stage)
    for leaves in found.leaves:
        job.outcome.evidence.add_leaves(margin, replace(leaves, row=job.rows[local[leaves.row]]))
    found.leaves.clear()


def _ball(job: Job, deadline: Deadline) -> None:
    engine, local = job.engine, job.open()
    lower = balls.least_margins(engine.network, engine.changes, job.points[local], job.prepared.margins)
    stage = Stage.BALL if engine.network.hidden else Stage.CLOSED_FORM
    for k in range(lower.shape[1]):
        job.prove(local, k, lower[:, k], stage)


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
            lower, witness = balls.refine(engine.network, engine.changes, x, margin, goal=0.0, deadline=deadline)
            if witness is not None and flips(witness, margin, x):
                (row,) = job.reached(np.array([one]), np.zeros(1), np.ones(1, dtype=bool), stage)
                job.outcome.evidence.networks[int(row)] = (margin, witness)
                break
            job.prove(np.array([one]), int(k), np.array([lower]), Stage.BALL)


def _exact(job: Job, deadline: Deadline) -> None:
    """Row by row in integers, where floats cannot tell: the margin is nearer to 0 than rounding allows."""
    # Not before it is asked for: `python -m holdfast.checker` has to come before whoever imports the checker.
    from holdfast.verify.exact import Exact

    engine = job.engine
    for k, margin in enumerate(job.prepared.margins):
        layers = job.prepared.layers[k]
        for one in job.open(k):
            if deadline.over:
                return
            exact = Exact(engine.network, engine.changes, layers, margin, job.points[one])
            answer = exact.settle(deadline)
            here, row = np.array([one]), int(job.rows[one])
            if answer.part is not None:
                job.outcome.evidence.trees[row, margin.above, margin.below] = answer.part
                # A margin of exactly 0 that keeps the class is proven, too.
                job.proven[one, k] = True
                job.lower[one, k] = max(answer.lower, 0.0)
                job.robust(here, here[job.proven[here].all(axis=1)], Stage.EXACT)
            elif answer.sides is not None and not engine.ball:
                job.reached(here, np.array([0.0]), np.ones(1, dtype=bool), Stage.EXACT)
                job.outcome.evidence.add_sides(np.array([row]), margin, answer.sides[None, :])


_MOST_NODES = 2**18

TABLE = (
    Step(Stage.FORWARD, _forward, False, True, "one forward pass", "today's model already says otherwise"),
    Step(
        Stage.INTERVAL,
        _interval,
        True,
        False,
        "one pass of twice the width",
        "every value between its least and greatest",
    ),
    Step(Stage.BALL, _ball, True, False, "one pass", "a radius that all parameters share", ball=True),
    Step(Stage.ATTACK, _ball_attack, True, True, "some descents", "a network in the ball that breaks it", ball=True),
    Step(Stage.ATTACK, _attack, False, True, "three best responses", "a network in Δ that breaks it", ball=False),
    Step(Stage.LINEAR, _linear, True, True, "four walks back", "a linear bound with good multipliers"),
    Step(Stage.BRANCH, _branch, True, True, f"{_MOST_NODES:,} branches", "the same on cases, until each is proven"),
    Step(Stage.EXACT, _exact, True, True, "500 linear programs", "whole numbers, where floats cannot tell"),
)
CHEAP, ATTACKS, SEARCHES = TABLE[:2], TABLE[2:5], TABLE[5:]
