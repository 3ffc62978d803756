"""A row that trees accept, found by asking about rows alone: up until the margin is enough, then back towards the person.

It needs neither boxes nor bounds, so that advice comes within any time limit; how dear it is, the search says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from holdfast._classifier import Floats
from holdfast._deadline import Deadline
from holdfast.generators._tree_problem import Cells, Problem

# Moves up and back; choices at random, the best of which is a start; and how many cells of a column a move looks at.
_MOVES, _BACK, _RANDOM, _SPREAD = 20, 60, 512, 24
_TINY = 1e-12


@dataclass
class TreeWalk:
    """One person's walk; `margin` says of choices, (n, columns), how sure they are to be accepted: above 0."""

    problem: Problem
    margin: Callable[[Cells], Floats]
    deadline: Deadline

    def answers(self) -> Iterator[Cells]:
        """Accepted choices: on the way from the person, then on the way from a choice at random."""
        problem = self.problem
        up = self._up(problem.home[None, :], 1.0)
        if up is None and problem.home.size:
            drawn = np.random.default_rng(0).random((_RANDOM, problem.home.size))
            cells = (drawn * problem.sizes).astype(np.intp)
            if problem.most is not None:
                # The columns that stay are drawn too.
                order = np.argsort(np.where(problem.stays, drawn * 7.0 % 1.0, -1.0), axis=1)
                np.put_along_axis(cells, order[:, problem.most :], -1, axis=1)
                cells = np.where(cells < 0, problem.home, cells)
            up = self._up(cells, 0.0)
        if up is not None:
            yield self._back(up)

    def _up(self, starts: Cells, power: float) -> Cells | None:
        """From the best start on the move with the best gain for its cost, until the margin is enough."""
        problem, margins = self.problem, self.margin(starts)
        here, cells = float(margins.max()), starts[margins.argmax()]
        for _ in range(_MOVES):
            if here > 0.0:
                return cells
            moves = self._moves(cells)
            if self.deadline.over or not len(moves):
                return None
            margins = self.margin(moves)
            more = problem.price(moves).sum(axis=1) - problem.cost(cells)
            enough = np.flatnonzero(margins > 0.0)
            if enough.size:
                return moves[enough[more[enough].argmin()]]
            rate = (margins - here) / np.maximum(more, 1e-6) ** power
            if not (margins > here + _TINY).any():
                return None
            best = int(np.where(margins > here + _TINY, rate, -np.inf).argmax())
            cells, here = moves[best], float(margins[best])
        return None

    def _back(self, cells: Cells) -> Cells:
        """The move that saves most while the margin is enough, until there is none."""
        for _ in range(_BACK):
            moves = self._moves(cells)
            saved = self.problem.cost(cells) - self.problem.price(moves).sum(axis=1)
            moves, saved = moves[saved > _TINY], saved[saved > _TINY]
            if self.deadline.over or not len(moves):
                break
            fine = self.margin(moves) > 0.0
            if not fine.any():
                break
            cells = moves[np.where(fine, saved, -np.inf).argmax()]
        return cells

    def _moves(self, cells: Cells) -> Cells:
        """Choices that differ in one column: some spread over all its cells, and ever nearer ones to where it is."""
        problem, found = self.problem, []
        changed = problem.changed(cells)
        full = problem.most is not None and changed.sum() >= problem.most
        near = 2 ** np.arange(16)
        for column, (size, at) in enumerate(zip(problem.sizes.tolist(), cells.tolist(), strict=True)):
            if full and not changed[column]:
                continue
            spread = np.linspace(0, size - 1, min(size, _SPREAD)).astype(np.intp)
            some = np.unique([*spread, *(at - near), *(at + near), problem.home[column]])
            some = some[(some >= 0) & (some < size) & (some != at)]
            rows = np.repeat(cells[None, :], some.size, axis=0)
            rows[:, column] = some
            found.append(rows)
        return np.concatenate([cells[None, :][:0], *found])
