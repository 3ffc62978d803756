"""scikit-learn's trees: forests and single trees give probabilities, both kinds of boosting give margins.

HistGradientBoosting compares float64 with <=; all others round a number to float32 first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from holdfast._forest import Forest
from holdfast._trees import Votes
from holdfast.errors import UnsupportedModelError
from holdfast.importers._model import Model
from holdfast.importers._tree_parts import Tree, bits, forest_of, tree_model


def _tree(tree: Any, values: Any, output: int = 0) -> Tree:
    leaf = tree.children_left < 0
    missing = getattr(tree, "missing_go_to_left", np.zeros(leaf.size))
    return Tree(
        feature=np.where(leaf, -1, tree.feature),
        left=tree.children_left,
        right=tree.children_right,
        missing_left=missing,
        values=np.where(leaf[:, None], values, 0.0),
        threshold=tree.threshold,
        output=output,
    )


def _forest(model: Any) -> tuple[Forest, dict[str, Any]]:
    """The mean of the trees' shares of each class; the greatest wins, and the first of equal ones."""
    several = hasattr(model, "estimators_")
    members = model.estimators_ if several else [model]
    if model.n_outputs_ > 1:
        raise UnsupportedModelError(
            f"{type(model).__name__}: expected one label for each row, got {model.n_outputs_}"
        )
    trees = [_tree(one.tree_, one.tree_.value[:, 0, :]) for one in members]
    forest = forest_of(
        trees,
        np.zeros(len(model.classes_)),
        model.n_features_in_,
        divisor=float(len(members)),
        compare="float32 <=",
        # Threads add whatever is ready.
        ordered=not several or model.n_jobs in (None, 1),
    )
    return forest, {"shares": True}


def _boosted(model: Any) -> tuple[Forest, dict[str, Any]]:
    """The first guess plus a learning rate times each tree; a margin of 0 is the second class."""
    if model.init_ != "zero" and type(model.init_).__name__ != "DummyClassifier":
        raise UnsupportedModelError(
            f"GradientBoostingClassifier(init={type(model.init_).__name__}): expected the same first guess for all"
        )
    if model.loss != "log_loss":
        raise UnsupportedModelError(
            f"GradientBoostingClassifier(loss={model.loss!r}): expected 'log_loss'"
        )
    base = model._raw_predict_init(np.zeros((1, model.n_features_in_)))[0]
    trees = [
        _tree(one.tree_, model.learning_rate * one.tree_.value[:, 0, :], output)
        for stage in model.estimators_
        for output, one in enumerate(stage)
    ]
    return forest_of(trees, base, model.n_features_in_, compare="float32 <="), {}


def _histogram(model: Any) -> tuple[Forest, dict[str, Any]]:
    """The first guess plus each tree; float64 throughout."""
    order = np.arange(model.n_features_in_)
    labels: list[Any] = [None] * model.n_features_in_
    known: list[frozenset[int] | None] = [None] * model.n_features_in_
    if model.is_categorical_ is not None and not hasattr(model, "feature_names_in_"):
        raise UnsupportedModelError(
            "HistGradientBoostingClassifier: expected a table with column names for categories, got an array"
        )
    if model.is_categorical_ is not None:
        asked = np.asarray(model.is_categorical_)
        order = np.concatenate([np.flatnonzero(asked), np.flatnonzero(~asked)])
        encoder = model._preprocessor.named_transformers_["encoder"]
        for place, categories in zip(order, encoder.categories_, strict=False):
            named = [one for one in categories.tolist() if one == one and one is not None]
            labels[place], known[place] = tuple(named), frozenset(range(len(named)))
    trees = [
        _histogram_tree(one, order, known, output)
        for stage in model._predictors
        for output, one in enumerate(stage)
    ]
    base = np.asarray(model._baseline_prediction, dtype=np.float64).ravel()
    return forest_of(trees, base, model.n_features_in_), {"labels": tuple(labels)}


def _histogram_tree(tree: Any, order: Any, known: list[Any], output: int) -> Tree:
    nodes = tree.nodes
    leaf = nodes["is_leaf"].astype(bool)
    feature = np.where(leaf, -1, order[np.where(leaf, 0, nodes["feature_idx"])])
    missing = nodes["missing_go_to_left"].astype(bool)
    sets = []
    for node in np.flatnonzero(nodes["is_categorical"].astype(bool) & ~leaf).tolist():
        words = tree.raw_left_cat_bitsets[nodes["bitset_idx"][node]].tolist()
        # A code that the column never had counts as missing.
        sets.append((node, bits(words), bool(missing[node]), known[feature[node]]))
    return Tree(
        feature=feature,
        left=nodes["left"],
        right=nodes["right"],
        missing_left=missing,
        values=np.where(leaf, nodes["value"], 0.0),
        threshold=nodes["num_threshold"],
        output=output,
        sets=tuple(sets),
    )


# By exact class: a subclass may compute its scores in its own way.
READERS: dict[type, Callable[[Any], tuple[Forest, dict[str, Any]]]] = {
    DecisionTreeClassifier: _forest,
    ExtraTreeClassifier: _forest,
    RandomForestClassifier: _forest,
    ExtraTreesClassifier: _forest,
    GradientBoostingClassifier: _boosted,
    HistGradientBoostingClassifier: _histogram,
}


def read(model: Any, columns: tuple[str, ...] | None, why: str) -> Model:
    """Read the trees of a fitted classifier; `why` states the reason that it is not a network."""
    forest, options = READERS[type(model)](model)
    labels = np.asarray(model.classes_).tolist()
    if len(labels) < 2:
        raise UnsupportedModelError(
            f"{type(model).__name__}: expected at least two classes, got {labels}"
        )
    return tree_model(
        Votes(forest, columns, **options),
        labels,
        why=why,
        tie=1 if isinstance(model, GradientBoostingClassifier) else 0,
    )
