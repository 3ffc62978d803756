"""A walk to a row that trees accept: up until the margin is enough, then back towards the person.

A walk needs rows and their margins only, no boxes and no bounds: advice comes within short time limits. The search then
bounds how much cheaper another row may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from holdfast._classifier import Floats
from holdfast._deadline import Deadline
from holdfast.generators._tree_problem import Cells, Problem

# Moves up and back; choices at random, the best of which is a start; and how many cells of a column a move looks at.
_MOVES, _BACK, _RANDOM, _SPREAD = 20, 60, 256, 24
_TINY = 1e-12


@dataclass
class TreeWalk:
    """One person's walk; `margin` says of choices, (n, columns), how sure they are to be accepted: above 0."""

    problem: Problem
    margin: Callable[[Cells], Floats]
    deadline: Deadline

    def answers(self) -> Iterator[Cells]:
        """Accepted choices: on the way from the person and from a choice at random; then without one of the moves."""
        home = self.problem.home
        if not home.size:
            return
        best = None
        for start in (home[None, :], self._random()):
            best = self._cheaper(best, self._up(start, 1.0))
            if best is not None:
                yield best
        for column in np.flatnonzero(best != home).tolist() if best is not None else ():
            start = best.copy()
            start[column] = home[column]
            best = self._cheaper(best, self._up(start[None, :], 1.0, column))
            yield best

    def _random(self) -> Cells:
        """Choices at random, with as many columns changed as may be."""
        problem = self.problem
        drawn = np.random.default_rng(0).random((2, _RANDOM, problem.home.size))
        cells = (drawn[0] * problem.sizes).astype(np.intp)
        if problem.most is None:
            return cells
        order = np.where(problem.stays, drawn[1], -1.0).argsort(axis=1).argsort(axis=1)
        return np.where(order < problem.most, cells, problem.home)

    def _cheaper(self, best: Cells | None, up: Cells | None) -> Cells | None:
        """The cheaper one of an answer and what comes of another on the way back."""
        back = best if up is None else self._back(up)
        if best is None or back is None:
            return back
        return min(best, back, key=self.problem.cost)

    def _up(self, starts: Cells, power: float, without: int = -1) -> Cells | None:
        """From the best start on the move with the best gain for its cost, until the margin is enough."""
        problem, margins = self.problem, self.margin(starts)
        here, cells = float(margins.max()), starts[margins.argmax()]
        for _ in range(_MOVES):
            if here > 0.0:
                return cells
            moves = self._moves(cells, without)
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

    def _moves(self, cells: Cells, without: int = -1) -> Cells:
        """Choices that differ in one column: some spread over all its cells, and ever nearer ones to where it is."""
        problem, found = self.problem, []
        changed = problem.changed(cells)
        full = problem.most is not None and changed.sum() >= problem.most
        near = 2 ** np.arange(16)
        for column, (size, at) in enumerate(
            zip(problem.sizes.tolist(), cells.tolist(), strict=True)
        ):
            if column == without or (full and not changed[column]):
                continue
            spread = np.linspace(0, size - 1, min(size, _SPREAD)).astype(np.intp)
            some = np.unique([*spread, *(at - near), *(at + near), problem.home[column]])
            some = some[(some >= 0) & (some < size) & (some != at)]
            rows = np.repeat(cells[None, :], some.size, axis=0)
            rows[:, column] = some
            found.append(rows)
        return np.concatenate([cells[None, :][:0], *found])
