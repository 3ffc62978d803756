"""From relaxed points to a table's rows: a greedy repair where rounding lost the class, then cheaper rows nearby.

Both move one column at a time and look at what the model says to the row itself, so that labels, whole numbers and
steps are as good as any other column.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holdfast._deadline import Deadline
from holdfast._network import Bools, Floats, Ints
from holdfast.generators._base import Proposals, Task
from holdfast.generators._gradient import Aim, Loss, RelaxedSpace, descend, halved
from holdfast.verify._margins import rounding_of_margins

# People who are searched for at once; enough to make single numpy calls worth their while, few enough for the cache.
_BLOCK = 256
# How far a number may go towards an end of its range in one move.
_FRACTIONS = (1.0, 0.5, 0.25, 0.1, 0.03)
# How much of the greatest move back that keeps the margin is tried; a hair less where rounding went the wrong way.
_BACK = (1.0, 1.0 - 1e-7, 0.75, 0.5, 0.25)
_HALVINGS = 40
_FURTHER = 0.3
# A move that costs less than this counts as costing this much.
_FREE = 1e-9
_LOOKED_AT = 16
_STARTS = 4
_WORTH = 1e-4


def answer_by_descent(
    task: Task,
    aim_of: Callable[[Task], Aim],
    loss: Loss,
    *,
    least: float = 0.0,
    rounds: int = 14,
    moves_back: int = 12,
) -> Proposals:
    """Descend, keep what is good once it is a row of the caller's table, and cheapen it by at most `moves_back` moves.

    A few hundred people at a time, each block with its deadline. The other options are those of `descend`.
    """
    proposals = task.nothing()
    for begin in range(0, len(task), _BLOCK):
        rows = np.arange(begin, min(begin + _BLOCK, len(task)))
        block = task.take(rows)
        deadline = task.deadline(rows.size)
        relaxed = RelaxedSpace.of(block)
        polish = Polish(aim_of(block), relaxed, deadline)
        ends = descend(polish.aim, relaxed, loss, least=least, rounds=rounds, deadline=deadline)
        polish.run(ends, moves_back)
        proposals.put(rows, Proposals.of(polish.points, polish.reasons()))
        task.advance(rows.size)
    return proposals


class Polish:
    """For each person of a block the cheapest point so far that obeys every constraint and has the aim's margin."""

    def __init__(self, aim: Aim, relaxed: RelaxedSpace, deadline: Deadline) -> None:
        self.aim = aim
        self.relaxed = relaxed
        self.deadline = deadline
        self.task = aim.task
        space = aim.task.space
        self.points = np.full(self.task.factuals.shape, np.nan)
        self.prices = np.full(len(self.task), np.inf)
        # Which variables stand for each column.
        self.masks = np.array(
            [np.isin(np.arange(space.n_variables), f.variables) for f in space.features]
        )
        self.one_hot = np.array([feature.one_hot for feature in space.features])
        self.steps = np.zeros(space.n_variables)
        for grid in space.grids:
            self.steps[grid.variable] = grid.step

    @property
    def found(self) -> Bools:
        """Which people have an answer."""
        return np.asarray(np.isfinite(self.prices))

    def run(self, ends: list[Floats], moves_back: int) -> None:
        """Repair the rows without an answer from where the descent ended, or from elsewhere; then cheapen them all."""
        self.offer(
            *self._stretched(np.concatenate(ends), np.tile(np.arange(len(self.task)), len(ends)))
        )
        self._repair([ends[-1], self.relaxed.factuals])
        # At random among the points that each person can reach, for where every slope leads nowhere. What is drawn
        # belongs to the person, whoever else is in the table.
        lower, upper = self.relaxed.ends(self.relaxed.factuals, np.arange(len(self.task)))
        starts = np.zeros((_STARTS, *lower.shape))
        for row in np.flatnonzero(~self.found):
            own = np.ascontiguousarray(self.task.factuals[row]).view(np.uint32)
            rng = np.random.default_rng([self.task.seed, *own])
            starts[:, row] = rng.uniform(lower[row], upper[row], (_STARTS, lower.shape[1]))
        self._repair(list(starts))
        # Take back one column at a time, or all a little, as far as the margin lasts; the best of these, again.
        rows = np.flatnonzero(self.found)
        for _ in range(moves_back):
            if not rows.size or self.deadline.over:
                return
            enough = self.prices[rows] * (1.0 - _WORTH)
            self.offer(*self._promising(*self._backward(rows)))
            rows = rows[self.prices[rows] < enough]

    def reasons(self) -> list[str]:
        """A sentence for every person without an answer."""
        demand = f" with a margin of {self.aim.demand:g}" if self.aim.demand > 0.0 else ""
        demand += " in time" if self.deadline.over else ""
        start = "the descent came to no point within the constraints that is classified as"
        labels = self.task.network.classes[self.task.targets]
        return [
            "" if found else f"{start} {label}{demand}"
            for found, label in zip(self.found, labels, strict=True)
        ]

    def offer(self, points: Floats, rows: Ints) -> None:
        """Project the points, and keep for each row the cheapest that will do."""
        points = self.task.project(rows, points)
        prices = self.aim.price(points, rows)
        # A margin of nothing but rounding may be gone in a table of another length.
        spare = rounding_of_margins(self.task.network, points)
        fine = (prices < self.prices[rows]) & (self.aim.margins(points, rows) >= spare)
        good = np.flatnonzero(self.task.allowed(fine, rows, points))
        # Of several assignments to one row the last counts, which is the cheapest.
        order = good[np.argsort(-prices[good], kind="stable")]
        self.points[rows[order]] = points[order]
        self.prices[rows[order]] = prices[order]

    def _stretched(self, points: Floats, rows: Ints) -> tuple[Floats, Ints]:
        """The points, and those that fell a little short taken on the same way until they have the margin."""
        short = np.flatnonzero(self.aim.margins(points, rows) < 0.0)
        near = points[short]
        whose = rows[short]
        far = self.relaxed.inside(near + _FURTHER * (near - self.relaxed.factuals[whose]), whose)
        there = self.aim.margins(far, whose) >= 0.0
        far, whose, way = far[there], whose[there], (near - far)[there]
        return (
            np.concatenate([points, far + self._furthest(far, way, whose)[:, None] * way]),
            np.concatenate([rows, whose]),
        )

    # ------------------------------------------------------------------ out: to a row that has the margin

    def _repair(self, starts: list[Floats]) -> None:
        """One column at a time, the move that gains the most margin for its price, until the margin is there."""
        aim = self.aim
        rows = np.flatnonzero(~self.found)
        if not rows.size:
            return
        now = np.concatenate([start[rows] for start in starts])
        rows = np.tile(rows, len(starts))
        self.offer(now, rows)
        for _ in range(2 * len(self.masks)):
            still = ~self.found[rows]
            now = now[still]
            rows = rows[still]
            if not rows.size or self.deadline.over:
                return
            options, whose = self._moves(now, rows)
            margins = aim.margins(options, rows[whose])
            enough = np.flatnonzero(margins >= 0.0)
            self.offer(*self._promising(options[enough], rows[whose[enough]]))
            gain = margins - aim.margins(now, rows)[whose]
            spent = aim.price(options, rows[whose]) - aim.price(now, rows)[whose]
            rate = np.where(gain > 0.0, gain / np.maximum(spent, _FREE), -np.inf)
            # Of several assignments to one walker the last counts, which is the best rate.
            order = np.argsort(rate, kind="stable")
            best = np.zeros(rows.size, dtype=np.intp)
            best[whose[order]] = order
            able = rate[best] > 0.0
            now = options[best[able]]
            rows = rows[able]

    def _moves(self, now: Floats, rows: Ints) -> tuple[Floats, Ints]:
        """Every move of one column: to another label, or some of the way to an end of the range; and whose it is."""
        options = []
        movable = self.relaxed.movable(rows)
        for mask in self.masks[self.one_hot]:
            free = movable[:, mask].any(axis=1, keepdims=True)
            for corner in np.vstack([np.eye(mask.sum()), np.zeros(mask.sum())]):
                option = now.copy()
                option[:, mask] = np.where(free, corner, now[:, mask])
                options.append(option)
        for end in self.relaxed.ends(now, rows):
            for fraction in _FRACTIONS:
                # On the grid if there is one, at least a step away.
                way = (end - now) * fraction
                step = np.where(self.steps > 0.0, self.steps, 1.0)
                stepwise = np.where(np.abs(way) < step, np.sign(way), np.rint(way / step)) * step
                way = np.where(self.steps > 0.0, stepwise, way)
                options += [now + mask * way for mask in self.masks[~self.one_hot]]
        whose = np.tile(np.arange(rows.size), len(options))
        points = np.concatenate(options)
        moved = (points != now[whose]).any(axis=1)
        return points[moved], whose[moved]

    # ------------------------------------------------------------------ back: to cheaper rows with the margin

    def _backward(self, rows: Ints) -> tuple[Floats, Ints]:
        """Points between an answer and the factual, in one column or in all, that still have the margin."""
        change = self.relaxed.factuals[rows] - self.points[rows]
        ways = np.concatenate([change, *(mask * change for mask in self.masks)])
        moving = ways.any(axis=1)
        way = ways[moving]
        who = np.tile(rows, len(self.masks) + 1)[moving]
        here = self.points[who]
        reach = self._furthest(here, way, who)
        points = [here + (reach * share)[:, None] * way for share in _BACK]
        # Where a number was rounded towards the factual, and lost the margin by that, the next step out may have it.
        points += [points[0] - self.steps * np.sign(way)]
        return np.concatenate(points), np.tile(who, len(points))

    def _promising(self, points: Floats, rows: Ints) -> tuple[Floats, Ints]:
        """The cheapest few for each row: to bring a point to the caller's units takes longer than to look at it."""
        prices = self.aim.price(points, rows)
        cheaper = np.flatnonzero(prices < self.prices[rows])
        order = cheaper[np.lexsort((prices[cheaper], rows[cheaper]))]
        first = np.searchsorted(rows[order], rows[order])
        order = order[np.arange(order.size) - first < _LOOKED_AT]
        return points[order], rows[order]

    def _furthest(self, here: Floats, way: Floats, rows: Ints) -> Floats:
        """By bisection, the greatest share of the way that keeps the margin."""

        def lost(share: Floats) -> Bools:
            return ~(self.aim.margins(here + share[:, None] * way, rows) >= 0.0)

        whole = np.ones(rows.size)
        return halved(lost, np.where(lost(whole), 0.0, 1.0), whole, _HALVINGS)[0]
