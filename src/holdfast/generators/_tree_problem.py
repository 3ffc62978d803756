"""One person's choices as a search sees them: cells of columns with their costs, and leaves over these cells."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from holdfast._classifier import Floats
from holdfast._forest import sum_less_dropped

Cells = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Rival:
    """What must not fall below 0: offset + the sum over trees of a leaf's worth, less the `dropped` largest.

    Attributes
    ----------
    leaves, tree, worth
        The leaves of the trees that matter, in rising order of their worth: where two write, the better one stays.
    offset, slack
        What the sum begins with, and how much of that is for rounding.
    """

    leaves: Cells
    tree: Cells
    worth: Floats
    offset: float
    slack: float
    dropped: int = 0

    @cached_property
    def place(self) -> Cells:
        """For each leaf the number of its tree among those that matter."""
        return np.unique(self.tree, return_inverse=True)[1]

    @cached_property
    def n_trees(self) -> int:
        """How many trees matter."""
        return int(self.place.max(initial=-1)) + 1

    @cached_property
    def by_tree(self) -> tuple[Cells, Cells, Floats]:
        """The leaves, tree by tree, with the numbers of their trees and their worths."""
        order = np.argsort(self.place, kind="stable")
        return self.leaves[order], self.place[order], self.worth[order]

    def total(self, best: Floats) -> Floats:
        """The bound from what each tree adds at best, (..., trees)."""
        return sum_less_dropped(best, self.dropped) + self.offset

    def bound(self, kept: Mask) -> float:
        """The bound with these leaves only."""
        best = np.full(self.n_trees, -np.inf)
        best[self.place[kept]] = self.worth[kept]
        return float(self.total(best))

    def running(
        self, shape: tuple[int, int, int], ends: Cells, tree: Cells, worth: Floats, fixed: Floats
    ) -> Floats:
        """The bound with the leaves that begin by the first, the second, ... cell of each column, (columns, cells).

        `shape` are columns, cells and trees; `ends` says where each leaf begins, (leaves, columns); `fixed` is what
        further trees add.
        """
        n_columns, n_cells, n_trees = shape
        table = np.full((n_cells, n_columns, n_trees), -np.inf)
        places = (ends * n_columns + np.arange(n_columns)) * n_trees + tree[:, None]
        # Leaves come in rising order of their worth, so that the best one stays.
        table.reshape(-1)[places.ravel()] = np.repeat(worth, n_columns)
        for before, after in itertools.pairwise(table):
            np.maximum(before, after, out=after)
        if not self.dropped:
            return np.asarray(table.sum(axis=2).T + (self.offset + fixed.sum()))
        same = np.broadcast_to(fixed, (n_cells, n_columns, fixed.size))
        return self.total(np.concatenate([table, same], axis=2)).T


@dataclass
class Problem:
    """The columns that can change, and the leaves that can be reached.

    Attributes
    ----------
    tree, low, high
        The tree of each leaf, (n,), and the cells that it takes, from low to high, (n, columns).
    among
        For columns whose cells have no order: how many of the first k cells a leaf takes, (n, cells + 1). Low and high
        are the first and the last of them.
    costs
        What each cell of each column costs; never falling on the way from the cheapest, `home`, to either side.
    stays
        Whether home leaves the column as it is.
    most
        How many columns may change, or None.
    fits
        Whether some row with cells from low to high may obey the rules.
    """

    tree: Cells
    low: Cells
    high: Cells
    among: dict[int, Cells]
    rivals: list[Rival]
    costs: list[Floats]
    home: Cells
    stays: Mask
    most: int | None
    fits: Callable[[Cells, Cells], bool]

    def __post_init__(self) -> None:
        self.sizes = np.array([len(cost) for cost in self.costs], dtype=np.intp)
        self.start = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.intp)
        self.flat = np.concatenate([*self.costs, np.zeros(0)])
        self.column = np.repeat(np.arange(self.sizes.size), self.sizes)
        self.cell = np.arange(self.flat.size) - self.start[self.column]

    def first(self, fine: Mask, low: Cells, high: Cells) -> Cells:
        """For each column the first cell from low to high that is fine; beyond high where none is."""
        fine = fine & (self.cell >= low[self.column]) & (self.cell <= high[self.column])
        cells = np.where(fine, self.cell, self.flat.size)
        return np.minimum.reduceat(cells, self.start[:-1]) if cells.size else low

    def last(self, fine: Mask, low: Cells, high: Cells) -> Cells:
        """For each column the last cell from low to high that is fine; -1 where none is."""
        fine = fine & (self.cell >= low[self.column]) & (self.cell <= high[self.column])
        cells = np.where(fine, self.cell, -1)
        return np.maximum.reduceat(cells, self.start[:-1]) if cells.size else high

    def changed(self, cells: Cells) -> Mask:
        """Which columns a choice changes."""
        return np.asarray((cells != self.home) | ~self.stays)

    def price(self, cells: Cells) -> Floats:
        """What each column of a choice costs, (..., columns)."""
        return np.asarray(self.flat[self.start[:-1] + cells])

    def cost(self, cells: Cells) -> float:
        """What a choice costs."""
        return float(self.price(cells).sum())

    def meets(self, leaves: Cells, column: int, low: int, high: int) -> Mask:
        """Which leaves take one of the cells from low to high."""
        count = self.among.get(column)
        if count is not None:
            return np.asarray(count[leaves, high + 1] > count[leaves, low])
        return np.asarray((self.low[leaves, column] <= high) & (self.high[leaves, column] >= low))

    def leaf_prices(self, leaves: Cells, low: Cells, high: Cells) -> Floats:
        """For each column what it costs at least to be in a leaf, within a box, (n, columns)."""
        nearest = np.clip(
            self.home, np.maximum(self.low[leaves], low), np.minimum(self.high[leaves], high)
        )
        return self.price(nearest)

    def leaf_costs(self, leaves: Cells, low: Cells, high: Cells) -> Floats:
        """What it costs at least to be in a leaf, within a box, (n,)."""
        return np.asarray(self.leaf_prices(leaves, low, high).sum(axis=1))

    def inside(self, cells: Cells) -> Mask:
        """For each leaf and column whether it takes the cell of a choice, (n, columns)."""
        taken: Mask = np.asarray((self.low <= cells) & (self.high >= cells))
        for column, count in self.among.items():
            taken[:, column] = count[:, cells[column] + 1] > count[:, cells[column]]
        return taken

    def margins(self, cells: Cells) -> Floats:
        """The bound of each rival at one choice."""
        there: Mask = np.asarray(self.inside(cells).all(axis=1))
        return np.array([rival.bound(there[rival.leaves]) for rival in self.rivals])

    def clear(self, cells: Cells) -> bool:
        """Whether a choice is enough by more than rounding."""
        spare = np.array([2.0 * rival.slack for rival in self.rivals])
        return bool((self.margins(cells) > spare).all())

    def profile(self, cells: Cells) -> tuple[Floats, float]:
        """The least bound after a change of any one column to any of its cells, (all cells,), and as it is.

        To look around, not to prove: trees are dropped as they would be at the choice itself.
        """
        outside: Mask = np.logical_not(self.inside(cells))
        count = outside.sum(axis=1)
        column = outside.argmax(axis=1)
        least, here = np.full(self.flat.size, np.inf), np.inf
        for rival in self.rivals:
            there, near = count[rival.leaves] == 0, count[rival.leaves] == 1
            now = np.zeros(rival.n_trees)
            now[rival.place[there]] = rival.worth[there]
            total = float(rival.total(now))
            gain = rival.worth[near] - now[rival.place[near]]
            leaves = rival.leaves[near]
            least = np.minimum(least, total + self._spread(leaves, column[leaves], gain))
            here = min(here, total)
        return least, here

    def _spread(self, leaves: Cells, column: Cells, gain: Floats) -> Floats:
        """The sum of gains at every cell that the leaves take in their column."""
        steps = np.zeros(self.flat.size + 1)
        ordered = ~np.isin(column, list(self.among))
        rows, at = leaves[ordered], column[ordered]
        np.add.at(steps, self.start[at] + self.low[rows, at], gain[ordered])
        np.add.at(steps, self.start[at] + self.high[rows, at] + 1, -gain[ordered])
        total = np.cumsum(steps)[:-1]
        for one, count in self.among.items():
            here = column == one
            taken = np.diff(count[leaves[here]], axis=1)
            total[self.start[one] : self.start[one + 1]] += gain[here] @ taken
        return np.asarray(total)
