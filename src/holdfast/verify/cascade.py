"""The exact test as a cascade that spends on each row only what that row needs.

    forward pass       today's model already says otherwise                         -> NOT_ROBUST
    interval           one pass of twice the width proves the margin                -> ROBUST
    attack             best response finds a network in Δ that breaks it            -> NOT_ROBUST
    linear bound       backward bound with good multipliers proves it               -> ROBUST
    branch and bound   the same on cases, until every case is proven                -> either
    milp               HiGHS proposes multipliers or a counter-model, we check them -> either
    exact              fractions, where the margin is nearer to 0 than rounding     -> either, or UNKNOWN

Without a hidden layer the first two are one closed form, and what it leaves open goes to fractions at once.

No verdict rests on a solver's word: solvers have been seen to report false bounds with the status "optimal".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds.abstraction import IntervalNetwork, Margin, margins_for
from holdfast.bounds.interval import IntervalPass
from holdfast.bounds.linear import relax, value_box
from holdfast.bounds.rounding import RoundingModel
from holdfast.changes import LayerRadius, PlausibleChanges
from holdfast.milp.encode import margin_program
from holdfast.milp.solve import solve
from holdfast.network import CHUNK, Floats, Network
from holdfast.verify.attack import best_response
from holdfast.verify.branch import branch_and_bound, sides_of
from holdfast.verify.exact import settle_exactly
from holdfast.verify.identity import run_identity
from holdfast.verify.problem import WITNESS_SAFETY, Problem
from holdfast.verify.verdict import NOT_ROBUST, ROBUST, STAGES, Outcome, Stage
from holdfast.verify.witness import build_witness, flips, sides_from_values

Rows = NDArray[np.intp]

# Rows that go through the dear stages together: many enough to pay for numpy's overhead, few enough to bound memory.
BLOCK = 32768
# How far the searches go before and after the dearest ones have been asked.
_FEW_VISITS, _MANY_VISITS, _MANY_NODES = 200, 5000, 300_000


@dataclass(frozen=True)
class Question:
    """The network, Δ and one target class, prepared once for all rows."""

    network: Network
    radii: list[LayerRadius]
    net: IntervalNetwork
    margins: list[Margin]
    rounding: RoundingModel
    interval: IntervalPass | None

    @classmethod
    def of(
        cls, network: Network, changes: PlausibleChanges, target: int, only: tuple[int, int] | None = None
    ) -> Question:
        """Prepare everything that does not depend on the points."""
        net = IntervalNetwork.of(network, changes)
        margins = [m for m in margins_for(network, target) if only is None or (m.above, m.below) == only]
        return cls(
            network=network,
            radii=changes.layer_radii(network),
            net=net,
            margins=margins,
            rounding=RoundingModel.of(network, net),
            interval=IntervalPass.of(net, margins) if net.depth else None,
        )


def run_cascade(
    network: Network,
    changes: PlausibleChanges,
    points: Floats,
    targets: NDArray[np.intp],
    *,
    deadline: float | None = None,
    advance: Callable[[int], object] | None = None,
    bounds_only: bool = False,
    only: tuple[int, int] | None = None,
) -> Outcome:
    """Settle every row for its own target class under the box `changes`; `bounds_only` stops after the interval bound.

    `only` asks about one margin alone, named by its (above, below) logits.
    """
    if not network.rectified:
        return run_identity(network, changes, points, targets, deadline=deadline, bounds_only=bounds_only)
    outcome = Outcome.empty(points.shape[0])
    # Almost always there is one target for all rows, which is cheaper seen than sorted out.
    for target in targets[:1] if (targets == targets[0]).all() else np.unique(targets):
        question = Question.of(network, changes, int(target), only)
        waiting = _Waiting(question, points, outcome, deadline)
        rows = np.flatnonzero(targets == target)
        for start in range(0, rows.shape[0], BLOCK):
            block = rows[start : start + BLOCK]
            lower = _cheap_stages(question, points, block, outcome)
            if not bounds_only:
                waiting.add(block, lower)
            if advance is not None:
                advance(block.shape[0])
        waiting.flush()
    return outcome


@dataclass
class _Waiting:
    """Rows that the cheap stages left open, gathered until there are enough to go through the dear ones together."""

    question: Question
    points: Floats
    outcome: Outcome
    deadline: float | None
    rows: list[Rows] = field(default_factory=list)
    lower: list[Floats] = field(default_factory=list)

    def add(self, block: Rows, lower: Floats) -> None:
        """Take in a block's open rows; work them off when there are many."""
        rest = np.flatnonzero(self.outcome.verdict[block] == 0)
        self.rows.append(block[rest])
        self.lower.append(lower[rest])
        if sum(part.shape[0] for part in self.rows) >= BLOCK:
            self.flush()

    def flush(self) -> None:
        """Work off what is waiting."""
        if self.rows:
            rows, lower = np.concatenate(self.rows), np.concatenate(self.lower)
            self.rows, self.lower = [], []
            if rows.size:
                _DearStages(self.question, self.points, rows, lower, self.outcome, self.deadline).run()


def _cheap_stages(question: Question, points: Floats, block: Rows, outcome: Outcome) -> Floats:
    """Forward pass and interval bound, in chunks that stay in the cache; the margins' lower bounds, (rows, margins)."""
    lower = np.full((block.shape[0], len(question.margins)), -np.inf)
    for start in range(0, block.shape[0], CHUNK):
        rows = block[start : start + CHUNK]
        chunk = points[rows[0] : rows[-1] + 1] if rows[-1] - rows[0] + 1 == rows.shape[0] else points[rows]
        smallest = float(chunk.min())
        error = float(question.rounding.output(max(float(chunk.max()), -smallest)))
        nominal, low = _nominal_margins(question, chunk)
        outcome.upper[rows] = nominal + error
        broken = nominal < -error
        outcome.settle(rows[broken], NOT_ROBUST, Stage.FORWARD)
        kept = np.flatnonzero(~broken)
        if question.interval is not None:
            chosen = chunk if kept.shape[0] == chunk.shape[0] else chunk[kept]
            low = question.interval.lower(chosen, nonnegative=smallest >= 0.0)
        else:
            assert low is not None
            low = low[kept]
        low -= error
        lower[start + kept] = low
        least = low[:, 0] if low.shape[1] == 1 else low.min(axis=1)
        outcome.lower[rows[kept]] = least
        stage = Stage.INTERVAL if question.net.depth else Stage.CLOSED_FORM
        outcome.settle(rows[kept[least > 0.0]], ROBUST, stage)
    return lower


def _nominal_margins(question: Question, chunk: Floats) -> tuple[Floats, Floats | None]:
    """Today's least margin of each row and, without hidden layers, the least over Δ of each margin."""
    network, margins = question.network, question.margins
    values = chunk
    for weight, bias in zip(network.weights[:-1], network.biases[:-1], strict=True):
        values = values @ weight.T
        values += bias
        np.maximum(values, 0.0, out=values)
    if len(margins) == 1:
        today = (values @ margins[0].row + margins[0].offset)[:, None]
    else:
        today = values @ np.stack([margin.row for margin in margins]).T
        today += np.array([margin.offset for margin in margins])
    nominal = today[:, 0] if len(margins) == 1 else today.min(axis=1)
    if question.net.depth:
        return nominal, None
    reach = np.abs(chunk).sum(axis=1) * question.net.output_weight_radius + question.net.output_bias_radius
    return nominal, today - reach[:, None] * np.array([margin.count for margin in margins])


class _DearStages:
    """The rows of one block that forward pass and interval bound left open."""

    def __init__(
        self, question: Question, points: Floats, rows: Rows, lower: Floats, outcome: Outcome, deadline: float | None
    ) -> None:
        self.question, self.points, self.rows = question, points, rows
        self.outcome, self.deadline = outcome, deadline
        # What is known of each (row, margin): a lower bound, and whether it is proven to stay on the right side.
        self.lower = lower
        self.proven = lower > 0.0
        self.stage = np.zeros(lower.shape[0], dtype=np.int8)

    def run(self) -> None:
        """Each stage in turn on what the one before left open."""
        stages = [self._attack, self._branch, self._search, self._branch_on, self._milp, self._search_on]
        if self.question.net.depth <= 1:
            # The bound so far is the exact value: the attack reaches it, and only rounding can be in the way.
            stages = [self._attack, self._search]
        for stage in stages:
            for k, margin in enumerate(self.question.margins):
                if self.deadline is not None and time.monotonic() > self.deadline:
                    return
                local = np.flatnonzero(~self.proven[:, k] & (self.outcome.verdict[self.rows] == 0))
                if local.size:
                    stage(k, margin, local)
            self._collect()
            if (self.outcome.verdict[self.rows] != 0).all():
                return

    def _collect(self) -> None:
        """Rows all of whose margins are proven are robust; bounds go into the table."""
        rows = self.rows
        open_ = self.outcome.verdict[rows] == 0
        self.outcome.lower[rows[open_]] = self.lower.min(axis=1)[open_]
        proven = open_ & self.proven.all(axis=1)
        self.outcome.verdict[rows[proven]] = ROBUST
        self.outcome.stage[rows[proven]] = self.stage[proven]

    def _problem(self, margin: Margin, local: Rows) -> Problem:
        return Problem.of(self.question.network, self.question.net, margin, self.points[self.rows[local]])

    def _break(self, local: Rows, margin: Margin, sides: NDArray[Any], stage: Stage) -> None:
        rows = self.rows[local]
        self.outcome.settle(rows, NOT_ROBUST, stage)
        self.outcome.adversaries.add(rows, margin, sides)
        self.outcome.lower[rows] = self.lower[local].min(axis=1)

    def _lower_upper(self, local: Rows, margin: Floats) -> None:
        rows = self.rows[local]
        self.outcome.upper[rows] = np.minimum(self.outcome.upper[rows], margin)

    def _prove(self, local: Rows, k: int, stage: Stage) -> None:
        self.proven[local, k] = True
        self.stage[local] = np.maximum(self.stage[local], STAGES.index(stage))

    def _attack(self, k: int, margin: Margin, local: Rows) -> None:
        if self.question.net.depth == 0:
            broken = local[self.lower[local, k] < -WITNESS_SAFETY * self._error(local)]
            self._lower_upper(broken, self.lower[broken, k] + 2.0 * self._error(broken))
            self._break(broken, margin, np.zeros((broken.shape[0], 0)), Stage.CLOSED_FORM)
            return
        for start in range(0, local.shape[0], CHUNK):
            part = local[start : start + CHUNK]
            problem = self._problem(margin, part)
            error = problem.error
            clear = -WITNESS_SAFETY * error
            attack = best_response(problem, stop_below=clear)
            self._lower_upper(part, attack.margin + error)
            broken = attack.margin < clear
            self._break(part[broken], margin, attack.sides[broken], Stage.ATTACK)

    def _error(self, local: Rows) -> Floats:
        sizes = np.abs(self.points[self.rows[local]]).max(axis=1)
        return np.asarray(self.question.rounding.output(sizes))

    def _branch_on(self, k: int, margin: Margin, local: Rows) -> None:
        self._branch(k, margin, local, _MANY_NODES)

    def _branch(self, k: int, margin: Margin, local: Rows, max_nodes: int | None = None) -> None:
        problem = self._problem(margin, local)
        upper = self.outcome.upper[self.rows[local]]
        found = branch_and_bound(problem, upper, max_nodes=max_nodes, deadline=self.deadline)
        broken = found.upper < -WITNESS_SAFETY * problem.error
        proven = ~broken & ~found.open
        self._lower_upper(local, found.upper + problem.error)
        self.lower[local, k] = np.maximum(self.lower[local, k], np.where(broken, -np.inf, found.lower))
        self._prove(local[proven & (found.nodes == 1)], k, Stage.LINEAR)
        self._prove(local[proven & (found.nodes > 1)], k, Stage.BRANCH)
        if broken.any():
            sides = sides_of(problem, found.values)
            for stage, here in ((Stage.LINEAR, found.nodes == 1), (Stage.BRANCH, found.nodes > 1)):
                self._break(local[broken & here], margin, sides[broken & here], stage)

    def _milp(self, k: int, margin: Margin, local: Rows) -> None:
        """One mixed-integer program for each row, for the counter-model that its solution may be."""
        network, radii = self.question.network, self.question.radii
        for one in local:
            limit = None if self.deadline is None else self.deadline - time.monotonic()
            if limit is not None and limit <= 0.0:
                return
            problem = self._problem(margin, np.array([one]))
            box = value_box(problem.net, problem.points, problem.rounding, problem.sizes)
            _, ranges = relax(problem.net, box, problem.rounding, problem.sizes, refine=True)
            encoded = margin_program(problem.net, box, ranges, np.ravel(problem.row))
            solution = solve(encoded.program, time_limit=limit)
            if solution.values is None:
                continue
            x = problem.points[0]
            sides = sides_from_values(network, radii, x, encoded.layer_values(solution.values))
            if flips(network, build_witness(network, radii, margin, x, sides), margin, x):
                self._break(np.array([one]), margin, sides[None, :], Stage.MILP)

    def _search_on(self, k: int, margin: Margin, local: Rows) -> None:
        self._search(k, margin, local, _MANY_VISITS)

    def _search(self, k: int, margin: Margin, local: Rows, max_visits: int = _FEW_VISITS) -> None:
        """Row by row: closed forms in fractions, or a search that solves a linear program for each case."""
        for one in local:
            if self.deadline is not None and time.monotonic() > self.deadline:
                return
            problem = self._problem(margin, np.array([one]))
            answer = settle_exactly(problem, self.question.radii, max_visits=max_visits, deadline=self.deadline)
            stage = Stage.EXACT if answer.in_fractions else Stage.MILP
            here = np.array([one])
            if answer.robust:
                self.lower[one, k] = max(answer.lower, 0.0)
                self._prove(here, k, stage)
            elif answer.robust is False and answer.sides is not None:
                self._break(here, margin, answer.sides[None, :], stage)
