"""Explainable boosting machines: tables of scores for columns and for pairs of columns, each written as a tree.

bins       a number is in the bin after the last cut that is at most as large; float64, compared with <
missing    missing values have their own score, so their own leaf, to the right of all numbers
sums       the intercept, then term after term, in float64: bit for bit
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from interpret.glassbox import ExplainableBoostingClassifier

from holdfast._trees import Votes
from holdfast.errors import InvalidInputError, UnsupportedModelError
from holdfast.importers._model import Model
from holdfast.importers._tree_parts import Tree, forest_of, tree_model

_LINKS = ("logit", "mlogit")
# Larger tables of terms are not written as trees.
_MOST = 2**18


def import_model(model: Any) -> Model:
    """Read the terms of a classifier as trees."""
    name = type(model).__name__
    if not isinstance(model, ExplainableBoostingClassifier):
        raise UnsupportedModelError(
            f"{name} is not supported: expected an ExplainableBoostingClassifier"
        )
    if not hasattr(model, "term_scores_"):
        raise InvalidInputError(f"expected a fitted {name}, got one that is not fitted")
    if model.link_ not in _LINKS:
        raise UnsupportedModelError(
            f"{name}: expected the link {' or '.join(_LINKS)}, got {model.link_}"
        )
    labels = np.asarray(model.classes_).tolist()
    base = np.asarray(model.intercept_, dtype=np.float64).ravel()
    if len(labels) < 2 or base.size != (1 if len(labels) == 2 else len(labels)):
        raise UnsupportedModelError(
            f"{name}: expected a score for each of the classes {labels}, got {base.size}"
        )
    if not model.term_scores_:
        raise UnsupportedModelError(f"{name}: expected at least one term, got none")
    names: Any = tuple(map(str, model.feature_names_in_))
    # It numbers the columns of an array.
    columns = None if names == tuple(f"feature_{i:04}" for i in range(len(names))) else names
    categories = [_categories(model, column) for column in range(len(names))]
    if columns is None and any(known is not None for known in categories):
        raise UnsupportedModelError(
            f"{name}: expected a table with column names for categories, got an array"
        )
    trees = [
        _Term(model, features, np.asarray(scores, dtype=np.float64), categories).tree()
        for features, scores in zip(model.term_features_, model.term_scores_, strict=True)
    ]
    forest = forest_of(trees, base, len(names), compare="float64 <")
    return tree_model(Votes(forest, columns, tuple(categories)), labels)


def _categories(model: Any, column: int) -> tuple[str, ...] | None:
    """The categories of a column, in the order of their codes; None for numbers."""
    levels = model.bins_[column]
    kind = model.feature_types_in_[column]
    if kind == "continuous":
        return None
    if kind not in ("nominal", "ordinal") or any({*level} != {*levels[0]} for level in levels):
        raise UnsupportedModelError(
            f"ExplainableBoostingClassifier: expected columns that are continuous, nominal or ordinal, got {kind}"
        )
    return tuple(levels[0])


@dataclass
class _Term:
    """One term as a tree: each column splits into its bins, and below each bin the next column does."""

    model: Any
    features: tuple[int, ...]
    scores: Any
    categories: list[tuple[str, ...] | None]
    # What each node asks, and the nodes below it; sets of codes by node.
    nodes: list[tuple[int, float, int, int]] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    sets: list[tuple[int, frozenset[int], bool, frozenset[int] | None]] = field(
        default_factory=list
    )

    def tree(self) -> Tree:
        """The finished tree."""
        if self.scores.size > _MOST or not np.isfinite(self.scores).all():
            raise UnsupportedModelError(
                f"ExplainableBoostingClassifier: expected terms of at most {_MOST} finite scores, got "
                f"{self.scores.size}"
            )
        self._split(0, self.scores)
        feature, cut, left, right = (np.array(part) for part in zip(*self.nodes, strict=True))
        return Tree(
            feature=feature,
            left=left,
            right=right,
            missing_left=np.zeros(feature.size, dtype=np.bool_),
            values=np.array(self.values),
            threshold=cut,
            sets=tuple(self.sets),
        )

    def _split(self, place: int, scores: Any) -> int:
        """Build a tree over the bins of one column of the term; returns the number of its root."""
        if place == len(self.features):
            return self._add(-1, 0.0, scores)
        feature = self.features[place]
        levels = self.model.bins_[feature]
        level = levels[min(len(levels), len(self.features)) - 1]
        below = [partial(self._split, place + 1, part) for part in scores]
        known = self.categories[feature]
        root = self._add(feature, np.inf)
        if known is None:
            # Bin 0 is for what is missing, the last one for what is no number.
            inside = self._numbers(feature, np.asarray(level), below[1:-1])
        else:
            codes: list[frozenset[int]] = [frozenset()] * (len(below) - 2)
            for code, label in enumerate(known):
                codes[level[label] - 1] |= {code}
            self.sets.append((root, frozenset[int]().union(*codes), False, None))
            inside = self._codes(feature, codes, below[1:-1])
        self.nodes[root] = (feature, np.inf, inside, below[0]())
        return root

    def _add(self, feature: int, cut: float, value: Any = 0.0) -> int:
        self.nodes.append((feature, cut, 0, 0))
        outputs = self.scores.ndim - len(self.features)
        self.values.append(np.zeros(self.scores.shape[-1]) + value if outputs else float(value))
        return len(self.nodes) - 1

    def _numbers(self, feature: int, cuts: Any, below: list[Any]) -> int:
        """Split the bins between cuts in halves."""
        if not cuts.size:
            return int(below[0]())
        middle = cuts.size // 2
        node = self._add(feature, float(cuts[middle]))
        left = self._numbers(feature, cuts[:middle], below[: middle + 1])
        right = self._numbers(feature, cuts[middle + 1 :], below[middle + 1 :])
        self.nodes[node] = (feature, float(cuts[middle]), left, right)
        return node

    def _codes(self, feature: int, codes: list[frozenset[int]], below: list[Any]) -> int:
        """Split the bins of categories in halves."""
        if len(codes) == 1:
            return int(below[0]())
        middle = len(codes) // 2
        node = self._add(feature, np.inf)
        self.sets.append((node, frozenset[int]().union(*codes[:middle]), False, None))
        left = self._codes(feature, codes[:middle], below[:middle])
        right = self._codes(feature, codes[middle:], below[middle:])
        self.nodes[node] = (feature, np.inf, left, right)
        return node
