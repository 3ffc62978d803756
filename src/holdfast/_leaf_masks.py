"""The least leaf that each row may reach in each tree, by one AND of bits for each column.

A tree's leaves are the bits of a word, the least of them lowest. What a column says about a row leaves some of a tree's
leaves open and closes the others; that depends on which two cuts its number lies between, so all words for all trees
stand in a table with a row for each place between cuts, one for each category, and one for what is missing. The AND of
the words of all columns are the leaves that the row may reach; its lowest bit is the least of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast._classifier import Floats
from holdfast._forest import Forest

Words = NDArray[Any]
# Tables are worth their making from so many rows on. A chunk of rows is looked up at once, for a block of trees with so
# many bytes a row at most; its words take about so many bytes, which stay in the cache.
_ROWS, _BLOCK, _BYTES = 2048, 1024, 2**19
_LEAST, _GREATEST = 512, 2048
# Numbers find their place between cuts through so many equal cells, if none holds more cuts than this.
_CELLS, _MOST = 8192, 4


class Least:
    """For chunks of rows the least cost of a leaf that each may reach in each tree, (rows, trees).

    At a node a row may go left where its number is at most the threshold `high`, right where it is above `low`.
    """

    def __init__(self, forest: Forest, costs: Floats, low: Floats, high: Floats) -> None:
        self.forest, self.costs, self.low, self.high = forest, costs, low, high

    def __reduce__(self) -> tuple[Any, ...]:
        # Tables are made anew.
        return type(self), (self.forest, self.costs, self.low, self.high)

    def __call__(self, X: Floats) -> Iterator[tuple[slice, Floats]]:
        n = X.shape[0]
        if n < _ROWS or not self._blocks:
            yield from self.forest.least(X, self.costs, self.low, self.high)
            return
        # Chunk after chunk is written into the same places, which belong to this call alone: threads share the tables.
        first = self._blocks[0]
        size = _BYTES // (first.n * np.iinfo(first.kind).bits // 8)
        size = max(_LEAST, min(size, _GREATEST))
        terms = np.empty((size, self.forest.n_trees))
        spaces = [block.space(size) for block in self._blocks]
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            columns = np.ascontiguousarray(self.forest.seen(X[rows]).T)
            for block, space in zip(self._blocks, spaces, strict=True):
                block.fill(columns, terms, space)
            yield rows, terms[: rows.stop - start]

    @cached_property
    def _blocks(self) -> list[_Block]:
        """The trees in blocks; none where a tree has more leaves than a word has bits."""
        forest = self.forest
        sizes = np.bincount(forest.tree_of[forest.leaves & (forest.tree_of >= 0)])
        sets = forest.category >= 0
        mixed = np.intersect1d(forest.feature[sets], forest.feature[forest.numeric])
        if sizes.max() > 64 or mixed.size:
            return []
        kind = next(
            kind
            for kind in (np.uint8, np.uint16, np.uint32, np.uint64)
            if np.iinfo(kind).bits >= sizes.max()
        )
        most = _BLOCK * 8 // np.iinfo(kind).bits
        trees = range(0, forest.n_trees, most)
        return [_Block(self, slice(begin, begin + most), kind) for begin in trees]


class _Block:
    """Some trees with a table of words for each column that they ask about."""

    def __init__(self, least: Least, trees: slice, kind: Any) -> None:
        forest = least.forest
        self.trees, self.kind = trees, kind
        first, stop, _ = trees.indices(forest.n_trees)
        self.n = stop - first
        nodes = np.flatnonzero((forest.tree_of >= first) & (forest.tree_of < stop))
        self.tree = forest.tree_of[nodes] - first
        below = self._below(least, nodes)
        place = np.full(forest.feature.size, -1)
        place[nodes] = np.arange(nodes.size)
        inner = np.flatnonzero(~forest.leaves[nodes])
        left, right = (place[side[nodes[inner]]] for side in (forest.left, forest.right))
        # What stays open to a row that goes left; that goes right.
        stays = ~below[right], ~below[left]
        self.tables: list[_Numbers | _Categories] = []
        for column in np.unique(forest.feature[nodes[inner]]).tolist():
            own = forest.feature[nodes[inner]] == column
            given = (least, column, nodes[inner[own]], self.tree[inner[own]], self.n)
            words = stays[0][own], stays[1][own]
            sets = forest.category[given[2][0]] >= 0
            self.tables.append((_Categories if sets else _Numbers)(*given, *words))

    def _below(self, least: Least, nodes: NDArray[np.intp]) -> Words:
        """For each node the leaves below it as bits; what each leaf costs, in the order of the bits."""
        forest, costs = least.forest, least.costs[nodes]
        leaf = np.flatnonzero(forest.leaves[nodes])
        order = leaf[np.lexsort((costs[leaf], self.tree[leaf]))]
        starts = np.searchsorted(self.tree[order], np.arange(self.n))
        self.costs, self.starts = costs[order], starts
        words = np.zeros(forest.feature.size, dtype=self.kind)
        bits = (np.arange(order.size) - starts[self.tree[order]]).astype(self.kind)
        words[nodes[order]] = np.left_shift(self.kind(1), bits)
        fronts = [nodes[np.isin(nodes, forest.roots)]]
        while fronts[-1].size:
            front = fronts[-1][forest.feature[fronts[-1]] >= 0]
            fronts.append(np.concatenate([forest.left[front], forest.right[front]]))
        for front in reversed(fronts):
            front = front[forest.feature[front] >= 0]
            words[front] = np.bitwise_or(words[forest.left[front]], words[forest.right[front]])
        return np.asarray(words[nodes])

    def fill(self, columns: Floats, terms: Floats, space: tuple[Words, ...]) -> None:
        """The least costs of a chunk of rows, into their places."""
        n = columns.shape[1]
        open_, word, at = (part[:n] for part in space)
        # A tree that asks nothing has one leaf.
        open_.fill(np.iinfo(self.kind).max)
        for table in self.tables:
            table.words.take(table.places(columns[table.column]), axis=0, out=word, mode="clip")
            np.bitwise_and(open_, word, out=open_)
        # The lowest bit stands where the ones below it end.
        np.subtract(open_, self.kind(1), out=word)
        np.bitwise_and(np.bitwise_not(open_, out=open_), word, out=word)
        np.add(np.bitwise_count(word), self.starts, out=at)
        if self.n == terms.shape[1]:
            self.costs.take(at, out=terms[:n], mode="clip")
        else:
            terms[:n, self.trees] = self.costs.take(at, mode="clip")

    def space(self, rows: int) -> tuple[Words, ...]:
        """Where the words of a chunk stand, and the places of its leaves."""
        shape = (rows, self.n)
        return np.empty(shape, self.kind), np.empty(shape, self.kind), np.empty(shape, np.intp)


class _Numbers:
    """A column of numbers: a row of words for each place between cuts, one for what is missing."""

    def __init__(
        self,
        least: Least,
        column: int,
        nodes: NDArray[np.intp],
        tree: NDArray[Any],
        trees: int,
        lefts: Words,
        rights: Words,
    ) -> None:
        forest, self.column = least.forest, column
        low, high = (forest.cuts(part[nodes]) for part in (least.low, least.high))
        self.cuts = np.unique(np.concatenate([low, high]))
        size = self.cuts.size
        words = np.full((2, size + 2, trees), np.iinfo(lefts.dtype).max, dtype=lefts.dtype)
        # Above its high cut a node sends to the right alone, at or below its low cut to the left alone.
        np.bitwise_and.at(words[0], (np.searchsorted(self.cuts, high) + 1, tree), rights)
        np.bitwise_and.at(words[1], (np.searchsorted(self.cuts, low), tree), lefts)
        np.bitwise_and.accumulate(words[0, :-1], axis=0, out=words[0, :-1])
        down = words[1, -2::-1]
        np.bitwise_and.accumulate(down, axis=0, out=down)
        missing = np.where(forest.missing_left[nodes], lefts, rights)
        np.bitwise_and.at(words[0, size + 1], tree, missing)
        self.words: Words = words[0] & words[1]
        self._cells()

    def _cells(self) -> None:
        """Equal cells from the first cut to the last, with the number of cuts before each.

        What puts a number into its cell never decreases with the number, so cuts of earlier cells are below it, cuts of
        later ones above; those of its own cell are compared.
        """
        first, last = self.cuts[0], self.cuts[-1]
        self.steps = -1
        with np.errstate(all="ignore"):
            self.scale = _CELLS / (last - first)
        if not (np.isfinite(self.scale) and self.scale > 0.0):
            return
        own = self._cell(self.cuts)
        self.before = np.searchsorted(own, np.arange(_CELLS))
        self.steps = int(np.bincount(own).max())
        self.padded = np.append(self.cuts, np.inf)

    def _cell(self, x: Floats) -> NDArray[np.intp]:
        with np.errstate(over="ignore"):
            far = (x - self.cuts[0]) * self.scale
        cell: NDArray[np.intp] = np.clip(far, 0.0, _CELLS - 1.0, out=far).astype(np.intp)
        return cell

    def places(self, x: Floats) -> NDArray[np.intp]:
        """How many cuts are below each number; beyond all for what is missing."""
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


class _Categories:
    """A column of codes: a row of words for each, one for all others, one for what is missing."""

    def __init__(
        self,
        least: Least,
        column: int,
        nodes: NDArray[np.intp],
        tree: NDArray[Any],
        trees: int,
        lefts: Words,
        rights: Words,
    ) -> None:
        forest, self.column = least.forest, column
        sides = np.column_stack([forest.sets[forest.category[nodes]], forest.missing_left[nodes]])
        self.codes = sides.shape[1] - 2
        full = np.iinfo(lefts.dtype).max
        self.words: Words = np.full((sides.shape[1], trees), full, dtype=lefts.dtype)
        for node, left in enumerate(sides):
            self.words[:, tree[node]] &= np.where(left, lefts[node], rights[node])

    def places(self, x: Floats) -> NDArray[np.intp]:
        """The code, or what stands for all others, or for what is missing."""
        gaps = np.isnan(x)
        x = np.where(gaps, 0.0, x)
        at = np.where((x >= 0.0) & (x < self.codes), x, self.codes).astype(np.intp)
        return np.where(gaps, self.codes + 1, at)
