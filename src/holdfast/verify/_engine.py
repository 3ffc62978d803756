"""The engine for networks: the sign, the value and the root of the least margin over Δ.

`TABLE` gives the order of the stages and the meaning of `decided_by`. Each row of people goes down the table until a
stage proves it or breaks it; later stages see only the open rows.

No verdict rests on a solver's word: solvers have been seen to report false bounds with the status "optimal".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from holdfast._arrays import Array, array_namespace, to_numpy
from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._network import CHUNK, Bools, Floats, Ints, Network, Pair, Values
from holdfast._progress import Advance, no_bar
from holdfast.bounds import _balls as balls
from holdfast.bounds._layers import (
    Layers,
    Margin,
    Pass,
    forward_error,
    interval_pass,
    margins_for,
    suspect,
)
from holdfast.changes import PlausibleChanges
from holdfast.errors import HoldfastError, InvalidInputError
from holdfast.importers import Model
from holdfast.verify._attack import attack
from holdfast.verify._search import WITNESS_SAFETY, Search
from holdfast.verify._verdict import NOT_ROBUST, ROBUST, Outcome, Stage
from holdfast.verify._witness import build_witness, flips

# Values of searched layers that are looked at together.
_WIDE = 2**15
# So many rows of a table are asked first whether they are accepted today.
_SAMPLED = 32
# Rows at a time where they live on a device: enough to fill it. The ranges of deep networks take a matrix for each row:
# so many numbers in all.
_DEVICE_CHUNK, _DEVICE_NUMBERS = 2**20, 2**25


def quiet() -> np.errstate:
    """Silence overflow of sums at the ends of the float range: a nan neither proves nor breaks a row."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


@dataclass(frozen=True)
class Step:
    """One row of the table."""

    stage: Stage
    # None: it runs with the one before.
    run: Callable[[Job], None] | None
    proves: bool
    breaks: bool
    # What it may spend on a row, and what it does, in words.
    budget: str
    does: str
    # Whether it is for Δ in a norm other than inf, for the box, or for both (None).
    ball: bool | None = None


class PreparedTarget:
    """The margins of one target, with all values that do not depend on the points."""

    @quiet()
    def __init__(self, engine: Engine, margins: Sequence[Margin]) -> None:
        network, self.convert, self.chunk = engine.network, engine.convert, engine.chunk
        self.margins = list(margins)
        layers = [Layers.of(network, engine.box, margin) for margin in margins]
        # A lone logit is a margin itself.
        alone = network.n_outputs == 1
        logits = [
            Layers.of(network, engine.box, Margin.of(network, k, -1))
            for k in range(0 if alone else network.n_outputs)
        ]
        # What bounds the rounding of any of the margins, and of the logits whose difference it is.
        # A margin below zero by more is lost in every order of these sums, so that its counter-model replays.
        self.norms = np.max([one.norms for one in (*layers, *logits)], axis=0).tolist()
        parts = [(layer.weight.T, layer.bias) for layer in layers[0].hidden]
        output = np.concatenate([one.margin.weight for one in layers])
        parts.append((output.T, np.concatenate([one.margin.bias for one in layers])))
        self.today = Pass(parts, network.n_features, self.convert, layers[0].relus)
        self.layers = [one.on(self.convert) for one in layers] if engine.device else layers
        self.rectified = network.rectified
        # The interval bounds of the margins, (n, k), before any allowance for rounding.
        self.least: Callable[[Array], Array] = (
            interval_pass(layers, self.convert)
            if self.rectified
            else lambda points: array_namespace(points).stack(
                [one.least(points) for one in self.layers], axis=1
            )
        )

    @cached_property
    def suspects(self) -> list[tuple[Values, Pass]]:
        """For each margin one network that breaks most of the breakable rows; empty unless all layers have a ReLU."""
        return [suspect(one, self.convert) for one in self.layers] if self.rectified else []

    def rounding(self, points: Floats) -> Floats:
        """A bound of the rounding error of the margins of each row."""
        return np.asarray(forward_error(self.norms, np.abs(points).max(axis=1)))

    def passed(self, network: Callable[[Array], Array], points: Floats) -> Pair:
        """The output of a pass at points, (n, k), and a bound of its rounding error, (n,)."""
        margins, error = np.empty((len(points), len(self.margins))), np.empty(len(points))
        for start in range(0, len(points), self.chunk):
            part = slice(start, start + self.chunk)
            margins[part] = to_numpy(network(self.convert(points[part])))
            error[part] = self.error(points[part])
        # One error for a whole part is enough but near 0, where it would let a row's verdict depend on its neighbours.
        near = np.flatnonzero(~(_least(np.abs(margins)) > error))
        if near.size:
            error[near] = self.rounding(points[near])
        return margins, error

    def meet(self, outcome: Outcome, points: Floats, rows: slice | Ints) -> None:
        """Record today's margins of some rows."""
        margins, error = self.passed(self.today, points[rows])
        outcome.upper[rows] = _least(margins) + error

    def error(self, points: Floats) -> float:
        """A bound of the rounding error of a margin; raises if logits could leave the range of floats."""
        greatest = max(float(points.max()), -float(points.min()))
        error = float(forward_error(self.norms, greatest))
        if not error < 1e280:
            raise InvalidInputError(
                "X: the logits of these points overflow floating point; scale the columns of X or the model"
            )
        return error


class Engine:
    """A prepared network and Δ; services keep one and evaluate it point by point."""

    def __init__(
        self, network: Network, changes: PlausibleChanges, device: str | None = None
    ) -> None:
        self.network = self.classifier = network
        self.changes, self.device = changes, device
        self.ball = changes.norm != math.inf
        # The box that contains Δ; for norm inf Δ itself.
        self.box = replace(changes, norm=math.inf) if self.ball else changes
        self.radii = changes.layer_radii(network)
        # The last of the stages that cost about as much as a few forward passes.
        self.easy = Stage.BALL if self.ball else Stage.ATTACK
        self._prepared: dict[int, PreparedTarget] = {}
        # Where the network comes from, with its threshold.
        self.model: Model | None = None
        # From numpy to where the work is done.
        self.convert: Callable[[Any], Array] = np.asarray
        if device is not None:
            import torch

            # Always a copy: a network's arrays are read-only, and torch warns of sharing such memory.
            self.convert = partial(torch.tensor, dtype=torch.float64, device=device)
        # How many rows at a time stay in a core's cache, or fill a device; how many hard ones are searched together.
        hidden, rectified = network.hidden, network.rectified
        widest = max(hidden, default=1)
        self.chunk = CHUNK if rectified else max(min(_WIDE // widest, CHUNK), 16)
        self.group = max(_WIDE // max(sum(hidden), 1), 16)
        if device is not None:
            self.chunk = self.group = _DEVICE_CHUNK
            if not rectified or len(hidden) > 2:
                self.group = max(_DEVICE_NUMBERS // widest**2, 16)
            self.chunk = self.chunk if rectified else self.group

    def __reduce__(self) -> tuple[Any, ...]:
        return Engine, (self.network, self.changes, self.device), {"model": self.model}

    def witness(self, outcome: Outcome, row: int, point: Floats, target: int) -> Network | None:
        """A replayed network inside Δ that breaks a NOT_ROBUST row; None if none was kept."""
        if outcome.stage[row] == Stage.FORWARD:
            return self.network
        for rows, k, sides in outcome.sides:
            for chosen in sides[rows == row]:
                margin = self.prepared(target).margins[k]
                witness = build_witness(self.network, self.radii, margin, point, chosen)
                if witness.predict_index(point[None, :])[0] == target:
                    raise HoldfastError(
                        f"row {row}: replaying the counter-model gave the target class; please report this as a bug"
                    )
                return witness
        return outcome.networks.get(row)

    def proof(
        self, outcome: Outcome, row: int, point: Floats, target: int, max_cases: int
    ) -> list[dict[str, Any]]:
        """The proof of the row's ROBUST verdict, as `holdfast.checker` reads it: one part for each rival class."""
        # As in `_exact`: the checker is imported when it is asked for.
        from holdfast.verify._exact import Exact

        parts = []
        for k, margin in enumerate(self.prepared(target).margins):
            known = outcome.trees.get((row, k), {})
            if "bound" not in known:
                exact = Exact(self, margin, point, max_cases=max_cases)
                known = exact.proof(outcome.branches(row, k), known.get("tree"))
            parts.append(known)
        return parts

    def prepared(self, target: int) -> PreparedTarget:
        """The prepared margins of the class at index `target`."""
        if target not in self._prepared:
            self._prepared[target] = PreparedTarget(self, margins_for(self.network, target))
        return self._prepared[target]

    @quiet()
    def settle(
        self,
        points: Floats,
        target: int | Ints,
        *,
        deadline: Deadline = NO_LIMIT,
        since: Stage = Stage.FORWARD,
        until: Stage = Stage.EXACT,
        keep: bool = True,
        advance: Advance = no_bar,
    ) -> Outcome:
        """Settle the sign of each row's margins by the stages `since` to `until`.

        `target` is one class for all rows, or one a row. `keep` keeps the proofs of the rows, for certificates.
        `complete` fills in today's margins that may be missing.
        """
        n = len(points)
        if n == 1:
            outcome = self._at_once(points, target if isinstance(target, int) else int(target[0]))
            if outcome.verdict[0]:
                return outcome
        jobs = []
        for one, rows in by_target(target, n):
            own = points if rows.size == n else points[rows]
            jobs.append((rows, Job(self, self.prepared(one), own, keep, deadline)))
        # What is easy in every class before what is hard in any: a time limit should cost only the latter.
        for step in TABLE:
            due = since <= step.stage <= until and step.ball in (None, self.ball)
            for _, job in jobs if due else ():
                before = job.left.size
                if step.run and before and not deadline.over:
                    step.run(job)
                    advance(before - job.left.size)
        if len(jobs) == 1:
            outcome = jobs[0][1].outcome
        else:
            outcome = Outcome.empty(n)
            for rows, job in jobs:
                outcome.put(rows, job.outcome)
        advance(int(np.count_nonzero(outcome.verdict == 0)))
        return outcome

    def _at_once(self, point: Floats, target: int) -> Outcome:
        """Settle a single point by interval bound or forward pass if possible: a faster `_plain`."""
        prepared, outcome, there = self.prepared(target), Outcome.empty(1), self.convert(point)
        error = prepared.error(point)
        outcome.lower[0] = lower = float(_least(to_numpy(prepared.least(there)))[0]) - error
        if lower > 0.0:
            outcome.mark(0, ROBUST, Stage.INTERVAL if self.network.hidden else Stage.CLOSED_FORM)
            return outcome
        outcome.upper[0] = upper = float(_least(to_numpy(prepared.today(there)))[0]) + error
        if upper < 0.0:
            outcome.lower[0] = -np.inf
            outcome.mark(0, NOT_ROBUST, Stage.FORWARD)
        return outcome

    @quiet()
    def complete(self, outcome: Outcome, points: Floats, target: Ints) -> None:
        """Record today's margins of rows that were proven without them."""
        missing = np.flatnonzero(outcome.upper == np.inf)
        for one, some in by_target(target[missing], missing.size):
            self.prepared(one).meet(outcome, points, missing[some])

    @quiet()
    def least(
        self,
        points: Floats,
        margin: Margin,
        tol: float,
        *,
        exact: bool,
        deadline: Deadline = NO_LIMIT,
    ) -> Pair:
        """Lower and upper bounds of the least margin over the box, at most `tol` apart if the search succeeds."""
        prepared, hidden = PreparedTarget(self, [margin]), self.network.hidden
        layers, n = prepared.layers[0], len(points)
        error = prepared.rounding(points)
        if self.ball:
            lower = balls.least_margins(self.network, self.changes, points, [margin])[:, 0]
            return lower, np.full(n, np.inf) if hidden else lower + 4.0 * error
        lower, upper = np.empty(n), np.empty(n)
        for rows in cut(np.arange(n), self.chunk):
            chunk = self.convert(points[rows])
            lower[rows] = to_numpy(prepared.least(chunk))[:, 0]
            upper[rows] = to_numpy(attack(layers, chunk)[0]) if hidden else lower[rows]
        lower, upper = lower - error, upper + error
        short = np.flatnonzero((upper - lower > tol) & (exact and len(hidden) > 1))
        for rows in cut(short, self.group):
            if deadline.over:
                break
            gap = np.maximum(tol - 2.0 * error[rows], 0.5 * tol)
            search = Search(layers, self.convert(points[rows]), upper[rows], error[rows], gap=gap)
            search.run(_MOST_NODES, deadline)
            lower[rows], upper[rows] = np.maximum(lower[rows], search.lower), search.upper
        return lower, upper


def cut(rows: Ints, size: int) -> list[Ints]:
    """Slices of at most `size` rows."""
    return np.split(rows, range(size, len(rows), size)) if len(rows) else []


def by_target(target: int | Ints, n: int) -> Iterator[tuple[int, Ints]]:
    """Each target class with its rows, in order."""
    each = np.broadcast_to(target, n)
    if n and (each == each[0]).all():
        # The usual case.
        yield int(each[0]), np.arange(n)
    else:
        for one in np.unique(each):
            yield int(one), np.flatnonzero(each == one)


@dataclass
class Job:
    """Rows of one target class that go down the table of stages."""

    engine: Engine
    prepared: PreparedTarget
    points: Floats
    keep: bool
    deadline: Deadline

    def __post_init__(self) -> None:
        n, k = len(self.points), len(self.prepared.margins)
        self.outcome = Outcome.empty(n)
        # What is known of each (row, margin): a lower bound, and whether it is proven to stay on the right side.
        self.lower, self.proven = np.full((n, k), -np.inf), np.zeros((n, k), dtype=bool)
        self.searches: list[tuple[int, Ints, Search]] = []

    @property
    def left(self) -> Ints:
        """The open rows."""
        return np.flatnonzero(self.outcome.verdict == 0)

    def open(self, k: int) -> Ints:
        """The open rows whose k-th margin is not proven."""
        return np.flatnonzero((self.outcome.verdict == 0) & ~self.proven[:, k])

    def prove(
        self, rows: Ints, k: int, lower: Floats, stage: Stage, *, proven: bool = False
    ) -> None:
        """Record lower bounds of the k-th margin; a row is robust when all its margins are proven above 0."""
        self.lower[rows, k] = np.maximum(self.lower[rows, k], lower)
        self.outcome.lower[rows] = self.lower[rows].min(axis=1)
        new = rows[(lower > 0.0) | proven]
        self.proven[new, k] = True
        self.outcome.mark(new[self.proven[new].all(axis=1)], ROBUST, stage)

    def reached(
        self,
        rows: Ints,
        k: int,
        upper: Floats,
        broken: Bools,
        sides: Values,
        stage: Stage,
    ) -> None:
        """Record upper bounds of the least margins, and the sides of the network for the rows that it breaks."""
        self.outcome.upper[rows] = np.minimum(self.outcome.upper[rows], upper)
        self.outcome.mark(rows[broken], NOT_ROBUST, stage)
        if broken.any():
            # A byte for each neuron where all are corners.
            corners = sides.dtype != np.int8 and (np.abs(sides) == 1.0).all()
            kept = sides.astype(np.int8) if corners else sides
            self.outcome.sides.append((rows[broken], k, kept))


def _plain(job: Job) -> None:
    """Forward pass and interval bound. No row is settled by both, so their order changes only the time."""
    prepared, outcome, points = job.prepared, job.outcome, job.points
    error = np.empty(len(points))

    def interval(rows: slice | Ints) -> None:
        lower, error[rows] = prepared.passed(prepared.least, points[rows])
        job.lower[rows] = lower - error[rows, None]

    few, _ = prepared.passed(prepared.today, points[:: len(points) // _SAMPLED + 1])
    if 2 * np.count_nonzero(_least(few) > 0.0) > len(few):
        # Where most rows are accepted, most may be proven, and nobody asks what their margins are today.
        interval(slice(None))
        prepared.meet(outcome, points, np.flatnonzero(~(_least(job.lower) > 0.0)))
    else:
        prepared.meet(outcome, points, slice(None))
        interval(np.flatnonzero(~(outcome.upper < 0.0)))
    # Of rows that today's network loses nobody asks how low they get.
    lost = outcome.upper < 0.0
    job.lower[lost] = -np.inf
    outcome.lower[:] = _least(job.lower)
    np.greater(job.lower, 0.0, out=job.proven)
    hidden, rows = job.engine.network.hidden, np.flatnonzero(~lost)
    stage = Stage.INTERVAL if hidden else Stage.CLOSED_FORM
    outcome.mark(lost, NOT_ROBUST, Stage.FORWARD)
    outcome.mark(outcome.lower > 0.0, ROBUST, stage)
    # Without hidden layers the bound is the least margin itself.
    for k, least in enumerate(() if hidden or job.engine.ball else job.lower[rows].T):
        slack = error[rows]
        broken = (least < -WITNESS_SAFETY * slack) & (outcome.verdict[rows] == 0)
        sides = np.zeros((np.count_nonzero(broken), 0))
        job.reached(rows, k, least + 2.0 * slack, broken, sides, stage)


def _least(margins: Array) -> Array:
    """The least of the margins of each row."""
    return margins[:, 0] if margins.shape[1] == 1 else margins.min(axis=1)


def _attack(job: Job) -> None:
    engine, prepared = job.engine, job.prepared
    for k, layers in enumerate(prepared.layers if engine.network.hidden else ()):
        for suspected in (True, False) if prepared.suspects else (False,):
            for rows in cut(job.open(k), engine.chunk):
                points = job.points[rows]
                error = prepared.rounding(points)
                there = engine.convert(points)
                if suspected:
                    chosen, network = prepared.suspects[k]
                    margins = to_numpy(network(there))[:, 0]
                    sides = np.broadcast_to(chosen, (rows.size, chosen.size))
                else:
                    margins, sides = map(to_numpy, attack(layers, there, 2))
                broken = margins < -WITNESS_SAFETY * error
                job.reached(rows, k, margins + error, broken, sides[broken], Stage.ATTACK)


def _linear(job: Job) -> None:
    engine = job.engine
    for k, layers in enumerate(job.prepared.layers if len(engine.network.hidden) > 1 else ()):
        for rows in cut(job.open(k), engine.group):
            if job.deadline.over:
                return
            points = job.points[rows]
            error = job.prepared.rounding(points)
            # Broken is what the search itself meets: what is known already may be of another margin.
            upper = np.full(rows.size, np.inf)
            search = Search(layers, engine.convert(points), upper, error, keep=job.keep)
            search.root_bounds()
            _take_over(job, k, rows, search, Stage.LINEAR)
            if search.stack:
                job.searches.append((k, rows, search))


def _branch(job: Job) -> None:
    for k, rows, search in job.searches:
        # Rows that are settled by another margin are left out.
        search.done[job.outcome.verdict[rows] != 0] = True
        search.branch(_MOST_NODES, job.deadline)
        _take_over(job, k, rows, search, Stage.BRANCH)
    job.searches = []


def _take_over(job: Job, k: int, rows: Ints, search: Search, stage: Stage) -> None:
    """Record the current bounds of a search."""
    broken = search.broken & (job.outcome.verdict[rows] == 0)
    if not job.engine.ball:
        job.reached(rows, k, search.upper, broken, search.sides(np.flatnonzero(broken)), stage)
    closed = search.closed & (job.outcome.verdict[rows] == 0)
    lower = np.where(closed, search.lower, np.minimum(search.root_bound, 0.0))
    job.prove(rows, k, lower, stage)
    for leaves in search.leaves:
        job.outcome.add_leaves(rows, k, leaves)
    search.leaves.clear()


def _ball(job: Job) -> None:
    engine, rows = job.engine, job.left
    stage = Stage.BALL if engine.network.hidden else Stage.CLOSED_FORM
    lower = balls.least_margins(
        engine.network, engine.changes, job.points[rows], job.prepared.margins
    )
    for k in range(lower.shape[1]):
        job.prove(rows, k, lower[:, k], stage)


def _ball_attack(job: Job) -> None:
    engine, outcome = job.engine, job.outcome
    stage = Stage.ATTACK if engine.network.hidden else Stage.CLOSED_FORM
    for one in job.left:
        for k in np.argsort(job.lower[one]):
            if job.deadline.over:
                return
            margin, x = job.prepared.margins[k], job.points[one]
            if job.proven[one, k]:
                continue
            lower, witness, tree = balls.refine(
                engine.network, engine.changes, x, margin, goal=0.0, deadline=job.deadline
            )
            if witness is not None and flips(witness, margin, x):
                outcome.upper[one] = min(outcome.upper[one], 0.0)
                outcome.mark(one, NOT_ROBUST, stage)
                outcome.networks[int(one)] = witness
                break
            job.prove(np.array([one]), int(k), np.array([lower]), Stage.BALL)
            if tree is not None and lower > 0.0 and job.keep:
                outcome.trees[int(one), int(k)] = {"tree": tree}


def _exact(job: Job) -> None:
    """Settle row by row in integers: these margins are so near to 0 that floats cannot decide."""
    # Not before it is asked for: `python -m holdfast.checker` has to come before whoever imports the checker.
    from holdfast.verify._exact import Exact

    engine = job.engine
    for k, margin in enumerate(job.prepared.margins):
        for row in cut(job.open(k), 1):
            if job.deadline.over:
                return
            x = job.points[row[0]]
            answer = Exact(engine, margin, x, deadline=job.deadline).settle()
            if isinstance(answer, dict):
                job.outcome.trees[int(row[0]), k] = answer
                # A margin of exactly 0 that keeps the class is proven, too.
                job.prove(row, k, np.array([max(answer["bound"], 0.0)]), Stage.EXACT, proven=True)
            elif answer is not None and not engine.ball:
                broken = np.ones(1, dtype=bool)
                job.reached(row, k, np.zeros(1), broken, answer[None, :], Stage.EXACT)


_MOST_NODES = 2**18

TABLE = (
    Step(
        Stage.FORWARD,
        _plain,
        False,
        True,
        "one forward pass",
        "today's model already says otherwise",
    ),
    Step(
        Stage.INTERVAL,
        None,
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
        "one pass, two best responses",
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
