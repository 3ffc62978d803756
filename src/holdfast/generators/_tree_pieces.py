"""The worst case of trees, cut into boxes: on each the worst leaf is the same.

A question that sends a value both ways leaves two subtrees to be followed at once, of which the worse leaf counts.
Where that would make too many boxes, one that is left open is worth what the least of its subtrees is worth at most: a
bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast._classifier import Floats
from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._forest import Forest
from holdfast.generators._tree_reading import Questions

Ints = NDArray[np.intp]
Mask = NDArray[np.bool_]
# Trees may fall into so many boxes for each of their leaves, and into so many together.
_MOST_BOXES, _MOST_TOGETHER = 40, 2**17


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


def pieces_of(
    forest: Forest,
    worth: Floats,
    asked: Questions,
    n_columns: int,
    deadline: Deadline = NO_LIMIT,
) -> Pieces:
    """Boxes that each tree falls into; `worth` is what each leaf adds to a margin at worst, (nodes, rivals).

    In every box some nodes are still to be followed, `nodes`, and the worst leaf that is reached is known, `worst`.
    """
    front = _roots(forest, asked, n_columns)
    least, best = _below(forest, worth)
    n_done, n_leaves = 0, int(forest.leaves.sum())
    most = min(max(_MOST_TOGETHER, n_leaves), _MOST_BOXES * n_leaves)
    nodes, worst = front.node[:, None], np.full((front.node.size, worth.shape[1]), np.inf)
    done, exact = [(front.take([]), worst[:0])], True
    while front.node.size:
        there = nodes >= 0
        leaf = there & forest.leaves[nodes]
        worst = np.minimum(worst, np.where(leaf[:, :, None], worth[nodes], np.inf).min(axis=1))
        # A subtree whose every leaf is better than what is reached for certain does not matter.
        open_ = there & ~leaf & (least[nodes] < worst[:, None, :]).any(axis=2)
        full = deadline.over or n_done + front.node.size > most
        stop = ~open_.any(axis=1) | full
        exact &= not open_[stop].any()
        bound = np.where(open_[:, :, None], best[nodes], np.inf).min(axis=1)
        done.append((front.take(stop), np.minimum(worst, bound)[stop]))
        n_done += int(stop.sum())
        nodes, worst, front = np.where(open_, nodes, -1)[~stop], worst[~stop], front.take(~stop)
        # The open ones first.
        nodes = -np.sort(-nodes, axis=1)[:, : int(open_.sum(axis=1).max(initial=1))]
        front.node = nodes[:, 0].copy()
        parts = []
        for way, sides in (("left", [1, 0]), ("right", [0, 1]), ("both", [1, 1])):
            part, rows = _part(asked, front, way)
            below = np.column_stack([forest.left[part.node], forest.right[part.node]])
            below = np.where(np.array(sides, dtype=bool), below, -1)
            parts.append((part, np.column_stack([below, nodes[rows][:, 1:]]), worst[rows]))
        front = _joined([part for part, _, _ in parts])
        nodes, worst = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    value = np.concatenate([value for _, value in done])
    return _pieces(forest, _joined([part for part, _ in done]), value, exact)


def outer_boxes(forest: Forest, worth: Floats, asked: Questions, n_columns: int) -> Pieces:
    """For each leaf the box of all rows that may reach it; where questions send values both ways, boxes overlap."""
    front, done = _roots(forest, asked, n_columns), []
    while front.node.size:
        leaf = forest.leaves[front.node]
        done.append(front.take(leaf))
        front = front.take(~leaf)
        parts = [_part(asked, front, way)[0] for way in ("may left", "may right")]
        for part, below in zip(parts, (forest.left, forest.right), strict=True):
            part.node = below[part.node].astype(np.intp)
        front = _joined(parts)
    boxes = _joined(done)
    return _pieces(forest, boxes, worth[boxes.node], exact=True)


def _roots(forest: Forest, asked: Questions, n_columns: int) -> _Front:
    """Every tree in a box with everything in it."""
    ends, size = np.zeros(n_columns, dtype=np.intp), forest.n_trees
    for column, numbers in asked.ends.items():
        ends[column] = numbers.size
    return _Front(
        forest.roots.astype(np.intp),
        np.zeros((size, n_columns), dtype=np.intp),
        np.repeat(ends[None, :], size, axis=0),
        np.ones((size, n_columns), dtype=np.bool_),
        {i: np.repeat(fine[None, :], size, axis=0) for i, fine in asked.scored.items()},
    )


def _pieces(forest: Forest, boxes: _Front, worth: Floats, exact: bool) -> Pieces:
    """What was found, sorted by tree."""
    tree = forest.tree_of[boxes.node].astype(np.intp)
    order = np.argsort(tree, kind="stable")
    boxes = boxes.take(order)
    return Pieces(tree[order], worth[order], boxes.low, boxes.high, boxes.gap, boxes.among, exact)


def _part(asked: Questions, front: _Front, way: str) -> tuple[_Front, Mask]:
    """The part of each box that its node sends one way, where there is any; and where that is.

    "left" and "right": for certain; "may left" and "may right": perhaps; "both": either way.
    """
    part, nodes = front.take(np.arange(front.node.size)), front.node
    rows, columns = np.arange(nodes.size), asked.column[nodes]
    part.gap[rows, columns] &= _ways(asked.gap_left, asked.gap_right, way)[nodes]
    fine = part.gap[rows, columns].copy()
    ordered = np.isin(columns, list(asked.ends))
    r, c = rows[ordered], columns[ordered]
    sure, maybe = asked.sure_left[nodes[r]], asked.maybe_left[nodes[r]]
    if way in ("left", "may left", "both"):
        part.high[r, c] = np.minimum(part.high[r, c], sure if way == "left" else maybe)
    if way in ("right", "may right", "both"):
        part.low[r, c] = np.maximum(part.low[r, c], (maybe if way == "right" else sure) + 1)
    fine[r] |= part.low[r, c] <= part.high[r, c]
    for column, codes in part.among.items():
        r = rows[columns == column]
        codes[r] &= _ways(asked.left[column], asked.right[column], way)[:, nodes[r]].T
        fine[r] |= codes[r].any(axis=1)
    return part.take(fine), fine


def _ways(left: Mask, right: Mask, way: str) -> Mask:
    return {
        "left": left & ~right,
        "may left": left,
        "right": right & ~left,
        "may right": right,
        "both": left & right,
    }[way]


def _joined(fronts: list[_Front]) -> _Front:
    join = np.concatenate
    return _Front(
        join([front.node for front in fronts]),
        join([front.low for front in fronts]),
        join([front.high for front in fronts]),
        join([front.gap for front in fronts]),
        {i: join([front.among[i] for front in fronts]) for i in fronts[0].among},
    )


def _below(forest: Forest, worth: Floats) -> tuple[Floats, Floats]:
    """What the leaves below each node are worth at least and at most."""
    least, best = worth.copy(), worth.copy()
    for front in reversed(forest.levels):
        for ends, pick in ((least, np.minimum), (best, np.maximum)):
            ends[front] = pick(ends[forest.left[front]], ends[forest.right[front]])
    return least, best
