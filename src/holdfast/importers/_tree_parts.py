"""Helpers that the readers of tree libraries share: join single trees into one forest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast._forest import Forest
from holdfast._trees import TreeEnsemble, Votes
from holdfast.importers._model import Model


@dataclass(frozen=True)
class Tree:
    """One tree: its nodes are counted from 0, the root; a leaf has the feature -1."""

    feature: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    missing_left: NDArray[Any]
    values: NDArray[Any]
    threshold: NDArray[Any]
    output: int = 0
    # The codes that go left at a node, and whether codes that are not among `known` do.
    sets: tuple[tuple[int, frozenset[int], bool, frozenset[int] | None], ...] = ()


@dataclass(frozen=True)
class Origin:
    """The library of a model, and the model in that library's format."""

    library: str
    content: Any


def forest_of(trees: Sequence[Tree], base: Any, width: int, **options: Any) -> Forest:
    """Join the trees in flat arrays."""
    sizes = [tree.feature.size for tree in trees]
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1].astype(np.int32)

    def joined(name: str, kind: Any) -> Any:
        return np.concatenate([np.asarray(getattr(tree, name)) for tree in trees]).astype(kind)

    feature = joined("feature", np.int32)
    leaves = feature < 0
    shift = np.repeat(starts, sizes)
    below = {
        side: np.where(leaves, -1, joined(side, np.int64) + shift).astype(np.int32)
        for side in ("left", "right")
    }
    sets = [
        (start + node, codes, other, known)
        for start, tree in zip(starts, trees, strict=True)
        for node, codes, other, known in tree.sets
    ]
    codes_seen = [max([-1, *codes, *(known or ())]) for _, codes, _, known in sets]
    table = np.zeros((len(sets), max(codes_seen, default=-1) + 2), dtype=np.bool_)
    category = np.full(feature.size, -1, dtype=np.int32)
    for row, (node, codes, other, known) in enumerate(sets):
        category[node] = row
        table[row] = other
        if known is not None:
            table[row, list(known)] = False
        table[row, list(codes)] = True
    return Forest(
        feature=feature,
        left=below["left"],
        right=below["right"],
        missing_left=joined("missing_left", np.bool_),
        category=category,
        sets=table,
        values=np.concatenate([np.atleast_2d(tree.values.T).T for tree in trees]).astype(
            np.float64
        ),
        roots=starts,
        output=np.array([tree.output for tree in trees], dtype=np.int32),
        base=np.asarray(base, dtype=np.float64),
        width=width,
        threshold=joined("threshold", np.float64),
        **options,
    )


def bits(words: Iterable[int]) -> frozenset[int]:
    """The codes in a set that is written as words of 32 bits."""
    return frozenset(
        32 * place + bit for place, word in enumerate(words) for bit in range(32) if word >> bit & 1
    )


def tree_model(
    votes: Votes, labels: Sequence[Any], origin: Any = None, *, tie: int = 0, why: str = ""
) -> Model:
    """The model of these trees, which read the caller's table if they know its columns."""
    trees = TreeEnsemble(
        votes,
        tuple(labels),
        votes.columns,
        votes.forest.width,
        why=why or "trees are no network",
        raw=votes.columns is not None,
        tie=tie,
        origin=origin,
    )
    return Model(trees, feature_names=votes.columns, odds=votes.odds)


def half_band(probability: Callable[[float], float], kind: type) -> float:
    """The greatest margin at which a library's own probability, in its own precision, is still one half."""
    low, high = 0.0, 1e-3
    while True:
        middle = float(kind((low + high) / 2.0))
        if not low < middle < high:
            return low
        low, high = (low, middle) if probability(middle) > 0.5 else (middle, high)


def double_sigmoid(margin: float) -> float:
    """1 / (1 + exp(-m))."""
    return 1.0 / (1.0 + math.exp(-margin))
