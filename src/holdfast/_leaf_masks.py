"""The least leaf that each row may reach in each tree, by one AND of bits for each column.

The leaves of a tree are the bits of a word, the least leaf lowest. The value of a column leaves some of a tree's leaves
open and closes the others; only the two cuts around the value matter. So a table holds the words of all trees, with a
row for each interval between cuts, one for each category, and one for missing values. The AND of the words of all
columns gives the leaves that the row may reach; its lowest bit is the least of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast._classifier import Floats
from holdfast._forest import Forest

Words = NDArray[Any]
Places = Callable[[Floats], NDArray[np.intp]]
# Tables are worth their making from so many rows on, all calls together; so many rows are a chunk. The words of as many
# of them are looked up at once as take so many bytes, which stay in the cache.
_ROWS, _CHUNK, _BYTES = 2048, 2048, 2**18
# Numbers find their place between cuts through so many equal cells, if none holds more cuts than this.
_CELLS, _MOST = 8192, 4


class Least:
    """For chunks of rows the least cost of a leaf that each row may reach in each tree, (rows, trees).

    At a node a row may go left where its number is at most the cut `high`, right where it is above the cut `low`.
    """

    def __init__(self, forest: Forest, costs: Floats, low: Floats, high: Floats) -> None:
        self.forest, self.costs, self.low, self.high = forest, costs, low, high
        self.met = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # Tables are made anew.
        return type(self), (self.forest, self.costs, self.low, self.high)

    def __call__(self, X: Floats) -> Iterator[tuple[slice, Floats]]:
        n = X.shape[0]
        self.met += n
        if self.met < _ROWS or self._tables is None:
            yield from self.forest.least(X, self.costs, self.low, self.high)
            return
        # Chunk after chunk is written into the same places, which belong to this call alone: threads share the tables.
        terms, space = np.empty((_CHUNK, self.forest.n_trees)), self._tables.space()
        for start in range(0, n, _CHUNK):
            rows = slice(start, min(start + _CHUNK, n))
            columns = np.ascontiguousarray(self.forest.seen(X[rows]).T)
            self._tables.fill(columns, terms, space)
            yield rows, terms[: rows.stop - start]

    @cached_property
    def _tables(self) -> _Tables | None:
        """None if a tree has more leaves than a word has bits, or a column is both a number and a category."""
        forest = self.forest
        leaves = np.diff(forest.by_tree[1], append=forest.by_tree[0].size).max()
        sets = forest.category >= 0
        if leaves > 64 or np.intersect1d(forest.feature[sets], forest.feature[forest.numeric]).size:
            return None
        kinds = (np.uint8, np.uint16, np.uint32, np.uint64)
        return _Tables(self, next(kind for kind in kinds if np.iinfo(kind).bits >= leaves))


class _Tables:
    """A table of words for each column that the trees compare."""

    def __init__(self, least: Least, kind: Any) -> None:
        forest, self.kind = least.forest, kind
        order, self.starts = forest.by_tree
        tree = forest.tree_of
        order = order[np.lexsort((least.costs[order], tree[order]))]
        self.costs = least.costs[order]
        # The leaves below each node.
        below = np.zeros(tree.size, dtype=kind)
        bits = np.arange(order.size) - self.starts[tree[order]]
        below[order] = np.left_shift(kind(1), bits.astype(kind))
        for front in reversed(forest.levels):
            below[front] = below[forest.left[front]] | below[forest.right[front]]
        self.columns: list[tuple[int, Places, Words]] = []
        inner = np.concatenate([forest.roots[:0], *forest.levels])
        for column in np.unique(forest.feature[inner]).tolist():
            nodes = inner[forest.feature[inner] == column]
            # What stays open to a row that goes left; that goes right.
            stays = ~below[forest.right[nodes]], ~below[forest.left[nodes]]
            made = _by_code if forest.category[nodes[0]] >= 0 else _by_cut
            self.columns.append((column, *made(least, nodes, *stays)))
        self.step = max(1, _BYTES // (self.starts.size * np.iinfo(kind).bits // 8))

    def space(self) -> tuple[Words, ...]:
        """Buffers for words, and for the places of leaves."""
        shape = (min(self.step, _CHUNK), self.starts.size)
        return np.empty(shape, self.kind), np.empty(shape, self.kind), np.empty(shape, np.intp)

    def fill(self, columns: Floats, terms: Floats, space: tuple[Words, ...]) -> None:
        """Write the least costs of a chunk of rows into `terms`."""
        found = [(find(columns[column]), words) for column, find, words in self.columns]
        for start in range(0, columns.shape[1], self.step):
            rows = slice(start, min(start + self.step, columns.shape[1]))
            open_, word, at = (part[: rows.stop - start] for part in space)
            # A tree that asks nothing has one leaf.
            open_.fill(np.iinfo(self.kind).max)
            for places, words in found:
                words.take(places[rows], axis=0, out=word, mode="clip")
                np.bitwise_and(open_, word, out=open_)
            # The lowest bit stands where the ones below it end.
            np.subtract(open_, self.kind(1), out=word)
            np.bitwise_and(np.bitwise_not(open_, out=open_), word, out=word)
            np.add(np.bitwise_count(word), self.starts, out=at)
            self.costs.take(at, out=terms[rows], mode="clip")


def _by_cut(least: Least, nodes: NDArray[Any], lefts: Words, rights: Words) -> tuple[Places, Words]:
    """A column of numbers: a row of words for each interval between cuts, one for missing values."""
    forest, tree = least.forest, least.forest.tree_of[nodes]
    low, high = least.low[nodes], least.high[nodes]
    cuts = np.unique(np.concatenate([low, high]))
    size, full = cuts.size, np.iinfo(lefts.dtype).max
    words = np.full((2, size + 2, forest.n_trees), full, dtype=lefts.dtype)
    # Above its high cut a node sends to the right alone, at or below its low cut to the left alone.
    np.bitwise_and.at(words[0], (np.searchsorted(cuts, high) + 1, tree), rights)
    np.bitwise_and.at(words[1], (np.searchsorted(cuts, low), tree), lefts)
    np.bitwise_and.accumulate(words[0, :-1], axis=0, out=words[0, :-1])
    down = words[1, -2::-1]
    np.bitwise_and.accumulate(down, axis=0, out=down)
    missing = np.where(forest.missing_left[nodes], lefts, rights)
    np.bitwise_and.at(words[0, size + 1], tree, missing)
    return _Cuts(cuts), words[0] & words[1]


def _by_code(
    least: Least, nodes: NDArray[Any], lefts: Words, rights: Words
) -> tuple[Places, Words]:
    """A column of codes: a row of words for each code, one for all other codes, one for missing values."""
    forest, tree = least.forest, least.forest.tree_of[nodes]
    sides = np.column_stack([forest.sets[forest.category[nodes]], forest.missing_left[nodes]])
    gap = sides.shape[1] - 1
    words: Words = np.full((gap + 1, forest.n_trees), np.iinfo(lefts.dtype).max, dtype=lefts.dtype)
    for node, left in enumerate(sides):
        words[:, tree[node]] &= np.where(left, lefts[node], rights[node])
    return lambda x: np.where(np.isnan(x), gap, forest.code(x)), words


class _Cuts:
    """Find the interval between cuts of each number, with equal cells from the first cut to the last.

    The cell number never decreases with the number. So cuts of earlier cells are below it and cuts of later cells above
    it; only cuts of its own cell are compared.
    """

    def __init__(self, cuts: Floats) -> None:
        self.cuts, self.steps = cuts, -1
        with np.errstate(all="ignore"):
            self.scale = _CELLS / (cuts[-1] - cuts[0])
        if np.isfinite(self.scale) and self.scale > 0.0:
            own = self._cell(cuts)
            # The number of cuts before each cell.
            self.before = np.searchsorted(own, np.arange(_CELLS))
            self.steps = int(np.bincount(own).max())
            self.padded = np.append(cuts, np.inf)

    def _cell(self, x: Floats) -> NDArray[np.intp]:
        with np.errstate(over="ignore"):
            far = (x - self.cuts[0]) * self.scale
        cell: NDArray[np.intp] = np.clip(far, 0.0, _CELLS - 1.0, out=far).astype(np.intp)
        return cell

    def __call__(self, x: Floats) -> NDArray[np.intp]:
        """Number of cuts below each number; for missing values, the place after all intervals."""
        gaps = np.isnan(x)
        some = bool(gaps.any())
        if some:
            x = np.where(gaps, 0.0, x)
        if 0 <= self.steps <= _MOST:
            at: NDArray[np.intp] = self.before.take(self._cell(x), mode="clip")
            for _ in range(self.steps):
                at += x > self.padded.take(at, mode="clip")
        else:
            at = np.searchsorted(self.cuts, x)
        if some:
            at[gaps] = self.cuts.size + 1
        return at
