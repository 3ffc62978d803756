"""XGBoost: sums and comparisons in float32; a row goes left if its value is below the threshold.

The library's JSON describes the whole model. The library itself converts its base score.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import xgboost

from holdfast._trees import Votes
from holdfast.errors import FileFormatError, InvalidInputError, UnsupportedModelError
from holdfast.importers._model import Model
from holdfast.importers._tree_parts import Origin, Tree, forest_of, half_band, tree_model

_OBJECTIVES = (
    "binary:logistic",
    "binary:logitraw",
    "binary:hinge",
    "multi:softprob",
    "multi:softmax",
)


def read_file(path: Path) -> Any:
    """Read the booster in a file, as a classifier if scikit-learn's interface wrote it."""
    try:
        return xgboost.Booster(model_file=str(path))
    except (xgboost.core.XGBoostError, ValueError) as error:
        raise FileFormatError(
            f"{path}: expected a model of XGBoost, got a file that it cannot load: {str(error).splitlines()[0]}"
        ) from error


def import_model(model: Any) -> Model:
    """Read the trees of a booster or of a classifier."""
    if isinstance(model, xgboost.XGBClassifier):
        return _classifier(model)
    if not isinstance(model, xgboost.Booster):
        raise UnsupportedModelError(
            f"{type(model).__name__} is not supported: expected an XGBClassifier or a Booster"
        )
    # Where scikit-learn's interface wrote the booster, it predicts as the classifier does.
    return _model(model, best=bool(model.attr("scikit_learn")))


def _classifier(model: Any) -> Model:
    try:
        booster = model.get_booster()
    except Exception as error:
        raise InvalidInputError(
            f"expected a fitted {type(model).__name__}, got one that is not fitted"
        ) from error
    if not (isinstance(model.missing, float) and np.isnan(model.missing)):
        raise UnsupportedModelError(
            f"XGBClassifier(missing={model.missing}): expected missing=nan, so that only NaN is missing"
        )
    if np.ndim(model.n_classes_) or getattr(model, "n_classes_", 2) < 2:
        raise UnsupportedModelError(
            "XGBClassifier: expected one label for each row, of two or more classes"
        )
    return _model(booster, model.classes_.tolist(), best=True)


def _model(booster: Any, labels: Any = None, *, best: bool) -> Model:
    """The model with these labels; `best` ends it at the best round, if one is known."""
    document = json.loads(bytes(booster.save_raw("json")))
    learner = document["learner"]
    objective, parameters = learner["objective"]["name"], learner["learner_model_param"]
    if objective not in _OBJECTIVES:
        raise UnsupportedModelError(
            f"XGBoost's {objective} is not supported: expected one of {', '.join(_OBJECTIVES)}"
        )
    if objective == "binary:logitraw" and labels is not None:
        raise UnsupportedModelError(
            "XGBClassifier(objective='binary:logitraw') predicts class 1 from a margin of 0.5 on; pass its booster, "
            "whose margin is 0 between the classes"
        )
    if int(parameters.get("num_target", 1)) > 1:
        raise UnsupportedModelError("XGBoost: expected one label for each row, got several targets")
    k = max(int(parameters["num_class"]), 1)
    labels = list(range(max(k, 2))) if labels is None else labels
    if len(labels) != max(k, 2):
        raise UnsupportedModelError(
            f"XGBoost: expected a margin for each of the classes {labels}, got {k}"
        )
    names = tuple(learner.get("feature_names") or ()) or None
    model, weights = _gbtree(learner["gradient_booster"])
    width, cats = int(parameters["num_feature"]), model.get("cats", {})
    base = _base(document, model, k)
    trees = [
        _tree(one, int(output), weight, base[int(output)])
        for one, output, weight in zip(model["trees"], model["tree_info"], weights, strict=True)
    ]
    last = booster.attr("best_iteration") if best else None
    if last is not None:
        trees = trees[: model["iteration_indptr"][int(last) + 1]]
    forest = forest_of(trees, base, width, single=True, compare="float32 <")
    votes = Votes(
        forest,
        names,
        _labels(cats, width),
        band=_band(objective),
        odds=objective != "binary:hinge",
    )
    return tree_model(votes, labels, Origin("xgboost", document))


def _gbtree(booster: dict[str, Any]) -> tuple[dict[str, Any], list[float | None]]:
    """The trees, and for DART the weight of each."""
    name = booster["name"]
    if name not in ("gbtree", "dart"):
        raise UnsupportedModelError(f"XGBoost's {name} is not supported: expected gbtree or dart")
    model = booster["gbtree"]["model"] if name == "dart" else booster["model"]
    if not model["trees"]:
        raise UnsupportedModelError("XGBoost: expected at least one tree, got none")
    return model, booster.get("weight_drop") or [None] * len(model["trees"])


def _tree(tree: dict[str, Any], output: int, weight: float | None, base: Any) -> Tree:
    if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise UnsupportedModelError("XGBoost: expected one value in each leaf, got a vector")
    left = np.array(tree["left_children"], dtype=np.int64)
    leaf = left < 0
    # Written with as few digits as tell float32 numbers apart.
    numbers = np.array(tree["split_conditions"], dtype=np.float32).astype(np.float64)
    categorical = np.array(tree.get("split_type", []), dtype=np.int64) == 1
    sets, stored = [], np.array(tree.get("categories", []), dtype=np.int64)
    for node, begin, size in zip(
        tree.get("categories_nodes", []),
        tree.get("categories_segments", []),
        tree.get("categories_sizes", []),
        strict=True,
    ):
        # The codes that are stored go right; all others left.
        known = frozenset(stored[begin : begin + size].tolist())
        sets.append((int(node), frozenset[int](), True, known))
    if categorical.size and int((categorical & ~leaf).sum()) != len(sets):
        raise FileFormatError("XGBoost: expected the categories of each categorical split")
    values = np.where(leaf, numbers, 0.0).astype(np.float32)
    if weight is not None:
        # DART takes the base off the sum of both, and weighs the rest.
        start = np.float32(base)
        values = ((start + values) - start) * np.float32(weight)
    return Tree(
        feature=np.where(leaf, -1, tree["split_indices"]),
        left=left,
        right=np.array(tree["right_children"]),
        missing_left=np.array(tree["default_left"]),
        values=np.where(leaf, values, 0.0),
        threshold=numbers,
        output=output,
        sets=tuple(sets),
    )


def _base(document: dict[str, Any], model: dict[str, Any], k: int) -> Any:
    """The number that the library's sums start with: the margin of a model whose only tree adds 0."""
    learner = dict(document["learner"], attributes={})
    first = model["trees"][0]
    nothing = dict(
        model,
        trees=[dict(first, split_conditions=[0.0] * len(first["split_conditions"]))],
        tree_info=[0],
        iteration_indptr=[0, 1],
        gbtree_model_param=dict(model["gbtree_model_param"], num_trees="1", num_parallel_tree="1"),
    )
    nothing.pop("cats", None)
    learner["gradient_booster"] = {"model": nothing, "name": "gbtree"}
    learner["feature_names"], learner["feature_types"] = [], []
    bare = xgboost.Booster()
    bare.load_model(bytearray(json.dumps(dict(document, learner=learner)).encode()))
    row = np.zeros((1, int(learner["learner_model_param"]["num_feature"])))
    return bare.predict(xgboost.DMatrix(row), output_margin=True).reshape(k).astype(np.float64)


def _labels(cats: dict[str, Any], width: int) -> tuple[tuple[Any, ...] | None, ...]:
    """The categories of each column in the order of their codes, if the model holds them."""
    labels: list[tuple[Any, ...] | None] = []
    for part in cats.get("enc", []):
        words = part["values"]
        if "offsets" in part:
            text = bytes(value & 255 for value in words)
            try:
                words = [text[a:b].decode() for a, b in pairwise(part["offsets"])]
            except UnicodeDecodeError as error:
                raise UnsupportedModelError(
                    "XGBoost: expected the names of categories in ASCII, got other letters, which XGBoost truncates"
                ) from error
        labels.append(tuple(words) or None)
    return tuple(labels) if any(labels) and len(labels) == width else ()


def _band(objective: str) -> float:
    """The margins above 0 at which the library's own probabilities, in float32, are a tie."""
    if objective == "binary:logistic":
        return half_band(_sigmoid, np.float32)
    return 2.0**-20 if objective == "multi:softprob" else 0.0


def _sigmoid(margin: float) -> float:
    """XGBoost's own sigmoid, in float32."""
    one = np.float32(1.0)
    return float(one / (np.float32(np.exp(np.float64(-np.float32(margin)))) + one))
