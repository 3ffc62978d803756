"""CatBoost: numbers rounded to float32, a row goes right where its value is above the border, sums in float64.

A symmetric tree has the same comparison at every node of a level; here each node has its own. The library's JSON
describes the whole model, and its leaves are compared with those of the library, to the last bit.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import catboost
import numpy as np

from holdfast._trees import Votes
from holdfast.errors import FileFormatError, InvalidInputError, UnsupportedModelError
from holdfast.importers._model import Model
from holdfast.importers._tree_parts import Tree, forest_of, tree_model

_BINARY = ("Logloss", "CrossEntropy")
_SEVERAL = ("MultiClass", "MultiClassOneVsAll")
_WAY_OUT = (
    "encode them before the model, in a pipeline with a OneHotEncoder or OrdinalEncoder, which is read in full; or "
    "pass a function of the model's scores, which works for any model"
)


def read_file(path: Path) -> Any:
    """Read the classifier in a .cbm or .json file."""
    model = catboost.CatBoostClassifier()
    try:
        return model.load_model(str(path), format=path.suffix.lower().lstrip("."))
    except (catboost.CatBoostError, ValueError) as error:
        raise FileFormatError(
            f"{path}: expected a model of CatBoost, got a file that it cannot load: {str(error).splitlines()[0]}"
        ) from error


def import_model(model: Any) -> Model:
    """Read the trees of a classifier."""
    if not isinstance(model, catboost.CatBoostClassifier):
        raise UnsupportedModelError(
            f"{type(model).__name__} is not supported: expected a CatBoostClassifier"
        )
    if not model.is_fitted():
        raise InvalidInputError("expected a fitted CatBoostClassifier, got one that is not fitted")
    loss = str(model.get_all_params().get("loss_function", "unknown loss")).partition(":")[0]
    if loss not in (*_BINARY, *_SEVERAL):
        raise UnsupportedModelError(
            f"CatBoost's {loss} is not supported: expected one of {', '.join((*_BINARY, *_SEVERAL))}"
        )
    labels = np.asarray(model.classes_).tolist()
    outputs = 1 if loss in _BINARY else len(labels)
    if outputs == 1 and model.get_probability_threshold() != 0.5:
        raise UnsupportedModelError(
            f"CatBoost: expected a probability threshold of 0.5, got {model.get_probability_threshold()}; put it back "
            "with set_probability_threshold(0.5) and pass it as threshold="
        )
    if len(labels) < 2 or (outputs == 1) != (len(labels) == 2):
        raise UnsupportedModelError(
            f"CatBoost: expected a margin for each of the classes {labels}, got {outputs}"
        )
    document = _document(model)
    ways = _checked(document["features_info"])
    scale, bias = model.get_scale_and_bias()
    base = np.zeros(outputs) + np.asarray(bias, dtype=np.float64)
    values = np.asarray(model.get_leaf_values(), dtype=np.float64).reshape(-1, outputs)
    trees = list(_trees(document, values, scale, ways))
    if not trees:
        raise UnsupportedModelError("CatBoost: expected at least one tree, got none")
    names: Any = tuple(map(str, model.feature_names_))
    # CatBoost numbers the columns of an array.
    columns = None if names == tuple(map(str, range(len(names)))) else names
    forest = forest_of(
        trees,
        base,
        len(names),
        compare="float32 <=",
        # What is added at last, or multiplied, is so in another order than here.
        ordered=scale == 1.0 and not base.any(),
    )
    # It decides by its margins, not by probabilities: no two of them tie that differ.
    return tree_model(Votes(forest, columns, odds=loss != "MultiClassOneVsAll"), labels)


def _document(model: Any) -> dict[str, Any]:
    """The model as the library writes it in JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _checked(features: dict[str, Any]) -> list[bool]:
    """For each column of numbers, True if a missing value is above every border."""
    others = [name for name, found in features.items() if name != "float_features" and found]
    if others:
        raise UnsupportedModelError(
            f"CatBoost's {others[0].replace('_', ' ')} are not supported: expected numbers alone; {_WAY_OUT}"
        )
    found = features["float_features"]
    if [one["flat_feature_index"] for one in found] != list(range(len(found))):
        raise UnsupportedModelError("CatBoost: expected the columns of numbers in their order")
    return [one["nan_value_treatment"] == "AsTrue" for one in found]


def _trees(document: dict[str, Any], values: Any, scale: float, ways: list[bool]) -> Iterator[Tree]:
    """Yield the trees one by one, each with its leaves."""
    start = 0
    for tree in document.get("oblivious_trees") or document.get("trees") or ():
        flat = _symmetric(tree) if "oblivious_trees" in document else _grown(tree)
        feature, border, left, right, said = flat
        leaf = np.flatnonzero(feature < 0)
        own = values[start : start + leaf.size]
        start += leaf.size
        # The library lists the leaves of grown trees in another order than its JSON.
        if not np.array_equal(np.sort(own, axis=0), np.sort(said, axis=0)):
            raise UnsupportedModelError(
                "CatBoost: the leaves in the model's JSON differ from the leaves of the model"
            )
        numbers = np.zeros((feature.size, values.shape[1]))
        numbers[leaf] = said * scale
        yield Tree(
            feature=feature,
            left=left,
            right=right,
            missing_left=~np.array(ways)[np.maximum(feature, 0)],
            values=numbers if values.shape[1] > 1 else numbers[:, 0],
            threshold=border,
        )
    if start != len(values):
        raise UnsupportedModelError(
            "CatBoost: the model and its JSON have different numbers of leaves"
        )


def _split(split: dict[str, Any]) -> tuple[int, float]:
    if split["split_type"] != "FloatFeature":
        raise UnsupportedModelError(
            f"CatBoost's splits of type {split['split_type']} are not supported: expected numbers; {_WAY_OUT}"
        )
    return int(split["float_feature_index"]), float(np.float32(split["border"]))


def _symmetric(tree: dict[str, Any]) -> tuple[Any, ...]:
    """Read 2**depth leaves: bit i of a leaf's number is 1 if the row is above border i; the root is the last bit."""
    splits = [_split(split) for split in tree["splits"] or ()]
    depth = len(splits)
    inner = 2**depth - 1
    size = 2 * inner + 1
    level = np.log2(np.arange(1, inner + 1)).astype(int)
    feature, border = np.full(size, -1), np.zeros(size)
    for place in range(depth):
        feature[:inner][level == depth - 1 - place] = splits[place][0]
        border[:inner][level == depth - 1 - place] = splits[place][1]
    below = 2 * np.arange(size) + 1
    said = np.array(tree["leaf_values"], dtype=np.float64).reshape(inner + 1, -1)
    return feature, border, below, below + 1, said


def _grown(tree: dict[str, Any]) -> tuple[Any, ...]:
    """Read a tree of nested nodes, the left one before the right one."""
    nodes: list[list[Any]] = []
    said = []

    def add(node: dict[str, Any]) -> int:
        place = len(nodes)
        nodes.append([-1, 0.0, 0, 0])
        if "split" in node:
            sides = [add(node[side]) for side in ("left", "right")]
            nodes[place] = [*_split(node["split"]), *sides]
        else:
            said.append(np.atleast_1d(node["value"]))
        return place

    add(tree)
    feature, border, left, right = (np.array(part) for part in zip(*nodes, strict=True))
    return feature, border, left, right, np.array(said)
