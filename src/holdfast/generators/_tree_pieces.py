"""The worst that trees can become, cut into boxes: on each the worst leaf is the same.

A question that sends a value both ways leaves two subtrees to be followed at once, of which the worse leaf counts. Where
that would make too many boxes, one that is left open is worth what the least of its subtrees is worth at most: a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast._classifier import Floats
from holdfast._forest import Forest
from holdfast.generators._tree_reading import Questions

Ints = NDArray[np.intp]
Mask = NDArray[np.bool_]
# A tree may fall into so many boxes for each of its leaves.
_MOST_BOXES = 40


@dataclass(frozen=True)
class Pieces:
    """Boxes that each tree falls into.

    Attributes
    ----------
    tree, worth
        The tree, (n,), and what it adds to each rival's margin at worst, (n, rivals).
    low, high
        The cells of the ordered columns, (n, columns), from low to high.
    gap
        Whether a missing value is in the box, (n, columns).
    among
        For each listed column the codes in the box, (n, codes).
    exact
        Whether all worths are what they are, and none only a bound.
    """

    tree: Ints
    worth: Floats
    low: Ints
    high: Ints
    gap: Mask
    among: dict[int, Mask]
    exact: bool


@dataclass
class _Front:
    """Nodes that are followed, each in a box of its own."""

    node: Ints
    low: Ints
    high: Ints
    gap: Mask
    among: dict[int, Mask]

    def take(self, rows: Any) -> _Front:
        """Some of them, copied."""
        among = {column: codes[rows] for column, codes in self.among.items()}
        return _Front(self.node[rows], self.low[rows], self.high[rows], self.gap[rows], among)


def pieces_of(forest: Forest, worth: Floats, asked: Questions, n_columns: int) -> Pieces:
    """The boxes of all trees; `worth` is what each leaf adds to each rival's margin at worst, (nodes, rivals)."""
    both = _both_ways(forest, asked)
    open_trees = np.unique(forest.tree_of[both & (forest.tree_of >= 0)])
    ends = np.zeros(n_columns, dtype=np.intp)
    for column, numbers in asked.ends.items():
        ends[column] = numbers.size
    size = forest.n_trees
    start = _Front(
        forest.roots.astype(np.intp),
        np.zeros((size, n_columns), dtype=np.intp),
        np.repeat(ends[None, :], size, axis=0),
        np.ones((size, n_columns), dtype=np.bool_),
        {i: np.repeat(fine[None, :], size, axis=0) for i, fine in asked.scored.items()},
    )
    closed = np.flatnonzero(~np.isin(np.arange(forest.n_trees), open_trees))
    done = _walk(forest, asked, start.take(closed))
    found = [(done, worth[done.node])]
    exact = True
    for tree in open_trees.tolist():
        forked = _Forked(forest, asked, worth, int(forest.roots[tree]))
        found += forked.boxes(start.take([tree]))
        exact &= forked.exact
    tree = np.concatenate([forest.tree_of[front.node] for front, _ in found])
    order = np.argsort(tree, kind="stable")
    join = np.concatenate
    return Pieces(
        tree[order].astype(np.intp),
        join([values for _, values in found])[order],
        join([front.low for front, _ in found])[order],
        join([front.high for front, _ in found])[order],
        join([front.gap for front, _ in found])[order],
        {i: join([front.among[i] for front, _ in found])[order] for i in asked.scored},
        exact,
    )


def _both_ways(forest: Forest, asked: Questions) -> Mask:
    """Nodes that send some value both ways."""
    both = (asked.sure_left < asked.maybe_left) | (asked.gap_left & asked.gap_right)
    for column in asked.left:
        both |= (asked.left[column] & asked.right[column]).any(axis=0)
    return np.asarray(both & ~forest.leaves)


def _walk(forest: Forest, asked: Questions, front: _Front) -> _Front:
    """Follow nodes down to their leaves, where every question has one answer."""
    done = []
    while True:
        leaf = forest.leaves[front.node]
        done.append(front.take(leaf))
        front = front.take(~leaf)
        if not front.node.size:
            return _joined(done)
        left, right = _part(asked, front, "left"), _part(asked, front, "right")
        left.node = forest.left[left.node].astype(np.intp)
        right.node = forest.right[right.node].astype(np.intp)
        front = _joined([left, right])


def _part(asked: Questions, front: _Front, way: str) -> _Front:
    """The part of each box that its node sends left only, right only or both ways, where there is any."""
    part, nodes = front.take(np.arange(front.node.size)), front.node
    rows, columns = np.arange(nodes.size), asked.column[nodes]
    part.gap[rows, columns] &= _ways(asked.gap_left, asked.gap_right, way)[nodes]
    fine = part.gap[rows, columns].copy()
    ordered = np.isin(columns, list(asked.ends))
    r, c = rows[ordered], columns[ordered]
    sure, maybe = asked.sure_left[nodes[r]], asked.maybe_left[nodes[r]]
    if way != "right":
        part.high[r, c] = np.minimum(part.high[r, c], sure if way == "left" else maybe)
    if way != "left":
        part.low[r, c] = np.maximum(part.low[r, c], (maybe if way == "right" else sure) + 1)
    fine[r] |= part.low[r, c] <= part.high[r, c]
    for column, codes in part.among.items():
        r = rows[columns == column]
        codes[r] &= _ways(asked.left[column], asked.right[column], way)[:, nodes[r]].T
        fine[r] |= codes[r].any(axis=1)
    return part.take(fine)


def _ways(left: Mask, right: Mask, way: str) -> Mask:
    if way == "both":
        return left & right
    return left & ~right if way == "left" else right & ~left


def _joined(fronts: list[_Front]) -> _Front:
    join = np.concatenate
    return _Front(
        join([front.node for front in fronts]),
        join([front.low for front in fronts]),
        join([front.high for front in fronts]),
        join([front.gap for front in fronts]),
        {i: join([front.among[i] for front in fronts]) for i in fronts[0].among},
    )


class _Forked:
    """A tree with questions that send some values both ways."""

    def __init__(self, forest: Forest, asked: Questions, worth: Floats, root: int) -> None:
        self.forest, self.asked, self.root, self.exact = forest, asked, root, True
        order = [root]
        for node in order:
            order += [] if forest.feature[node] < 0 else self._below(node)
        self.most = _MOST_BOXES * (len(order) + 1) // 2
        # What the leaves below each node are worth at least and at most.
        self.least = {node: worth[node] for node in order}
        self.best = dict(self.least)
        for node in reversed(order):
            if forest.feature[node] >= 0:
                left, right = self._below(node)
                self.least[node] = np.minimum(self.least[left], self.least[right])
                self.best[node] = np.maximum(self.best[left], self.best[right])

    def _below(self, node: int) -> list[int]:
        return [int(self.forest.left[node]), int(self.forest.right[node])]

    def boxes(self, whole: _Front) -> list[tuple[_Front, Floats]]:
        """The boxes, each with what the tree is worth in it."""
        todo = [(whole, [self.root], np.full_like(self.least[self.root], np.inf))]
        done: list[tuple[_Front, Floats]] = []
        while todo:
            box, nodes, worst = todo.pop()
            for node in nodes:
                worst = np.minimum(worst, self.least[node]) if self._leaf(node) else worst
            # A subtree whose every leaf is better than what is reached for certain does not matter.
            nodes = [
                node for node in nodes if not self._leaf(node) and (self.least[node] < worst).any()
            ]
            if not nodes or len(done) + len(todo) >= self.most:
                self.exact &= not nodes
                value = np.min([worst, *(self.best[node] for node in nodes)], axis=0)
                box.node[:] = self.root
                done.append((box, value[None, :]))
                continue
            node, *others = nodes
            box.node[:] = node
            left, right = self._below(node)
            for way, below in (("left", [left]), ("right", [right]), ("both", [left, right])):
                part = _part(self.asked, box, way)
                if part.node.size:
                    todo.append((part, others + below, worst))
        return done

    def _leaf(self, node: int) -> bool:
        return bool(self.forest.feature[node] < 0)
