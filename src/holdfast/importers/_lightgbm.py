"""LightGBM: float64 throughout; a row goes left if its value is at most the threshold.

The library's text describes the whole model: thresholds and leaves with every digit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm
import numpy as np

from holdfast._trees import Votes
from holdfast.errors import FileFormatError, InvalidInputError, UnsupportedModelError
from holdfast.importers._model import Model
from holdfast.importers._tree_parts import (
    Origin,
    Tree,
    bits,
    double_sigmoid,
    forest_of,
    half_band,
    tree_model,
)

# What LightGBM takes for 0, a float32 of theirs.
_ZERO = float(np.float32(1e-35))
_MISSING = ("none", "zero", "nan")
_VERSIONS = ("v3", "v4")


def read_file(path: Path) -> Any:
    """Read the booster in a file."""
    content = path.read_bytes()
    # LightGBM takes the whole process down where a text ends too soon.
    if b"end of trees" not in content:
        raise FileFormatError(
            f"{path}: expected a model of LightGBM, got a text that ends too soon"
        )
    # It reads texts of any version, and gives them its own when it writes them again.
    head = content.partition(b"\nTree=")[0].decode("utf-8", errors="replace")
    version = _facts(head).get("version")
    if version not in _VERSIONS:
        raise FileFormatError(
            f"{path}: expected a model of LightGBM of version {' or '.join(_VERSIONS)}, got {version!r}"
        )
    try:
        return lightgbm.Booster(model_file=str(path))
    except (lightgbm.basic.LightGBMError, ValueError) as error:
        raise FileFormatError(
            f"{path}: expected a model of LightGBM, got a file that it cannot load: {error}"
        ) from error


def import_model(model: Any) -> Model:
    """Read the trees of a booster or of a classifier."""
    if isinstance(model, lightgbm.Booster):
        return _model(model, None)
    if not isinstance(model, lightgbm.LGBMClassifier):
        raise UnsupportedModelError(
            f"{type(model).__name__} is not supported: expected an LGBMClassifier or a Booster"
        )
    try:
        booster = model.booster_
    except Exception as error:
        raise InvalidInputError(
            f"expected a fitted {type(model).__name__}, got one that is not fitted"
        ) from error
    return _model(booster, model.classes_.tolist())


def _model(booster: Any, labels: Any) -> Model:
    text = booster.model_to_string()
    head, *blocks = text.partition("end of trees")[0].split("\nTree=")
    facts = _facts(head)
    objective, *options = facts.get("objective", "custom objective").split()
    if objective not in ("binary", "multiclass"):
        raise UnsupportedModelError(
            f"LightGBM's {objective} is not supported: expected binary or multiclass"
        )
    k = int(facts["num_tree_per_iteration"])
    labels = list(range(max(k, 2))) if labels is None else labels
    if len(labels) != max(k, 2):
        raise UnsupportedModelError(
            f"LightGBM: expected a margin for each of the classes {labels}, got {k}"
        )
    if not blocks:
        raise UnsupportedModelError("LightGBM: expected at least one tree, got none")
    width = int(facts["max_feature_idx"]) + 1
    kinds: list[str | None] = [None] * width
    trees = [_tree(_facts(block), i % k, kinds) for i, block in enumerate(blocks)]
    forest = forest_of(
        trees,
        np.zeros(k),
        width,
        divisor=float(len(trees) // k) if "average_output" in facts else 1.0,
        zero=_ZERO,
        missing=tuple(kind or "nan" for kind in kinds),
    )
    names: Any = tuple(facts["feature_names"].split(" "))
    # LightGBM numbers the columns of an array.
    if names == tuple(f"Column_{i}" for i in range(width)):
        names = None
    steep = float(dict(part.split(":") for part in options if ":" in part).get("sigmoid", 1.0))
    votes = Votes(
        forest,
        names,
        _labels(booster, text, facts["feature_infos"].split()),
        odds=steep == 1.0,
        band=half_band(lambda m: double_sigmoid(steep * m), float)
        if objective == "binary"
        # Probabilities of margins that are as near as this may be equal: exp, a sum and a division, rounded each.
        else 1e-15,
    )
    return tree_model(votes, labels, Origin("lightgbm", text))


def _facts(block: str) -> dict[str, str]:
    lines = [line.partition("=") for line in block.splitlines()]
    return {name: value for name, _, value in lines if name}


def _numbers(facts: dict[str, str], name: str, kind: Any) -> Any:
    return np.array(facts.get(name, "").split(), dtype=kind)


def _tree(facts: dict[str, str], output: int, kinds: list[str | None]) -> Tree:
    """Read a tree: inner nodes first, then the leaves, which LightGBM counts from -1 down."""
    if facts.get("is_linear", "0") != "0":
        raise UnsupportedModelError("LightGBM: linear leaves are not supported: expected numbers")
    leaves = _numbers(facts, "leaf_value", np.float64)
    feature = _numbers(facts, "split_feature", np.int64)
    inner = feature.size
    if leaves.size != inner + 1:
        raise FileFormatError(f"LightGBM: expected {inner + 1} leaves in a tree, got {leaves.size}")
    below = {
        side: np.where((at := _numbers(facts, f"{side}_child", np.int64)) < 0, inner - 1 - at, at)
        for side in ("left", "right")
    }
    decision = _numbers(facts, "decision_type", np.int64)
    number = _numbers(facts, "threshold", np.float64)
    categorical, default_left = (decision & 1) > 0, (decision & 2) > 0
    sets = []
    bounds = _numbers(facts, "cat_boundaries", np.int64)
    words = _numbers(facts, "cat_threshold", np.uint64)
    for node in range(inner):
        how = _MISSING[(int(decision[node]) >> 2) & 3]
        column = int(feature[node])
        if categorical[node]:
            part = words[bounds[int(number[node])] : bounds[int(number[node]) + 1]].tolist()
            sets.append((node, bits(part), False, None))
            # A gap is no category and goes right, whatever the tree says of it.
            how = "nan"
            default_left[node] = False
        if kinds[column] not in (None, how):
            raise UnsupportedModelError(
                f"LightGBM: the trees treat missing values in column {column} in two ways; expected one"
            )
        kinds[column] = how
    pad = np.zeros(leaves.size)
    return Tree(
        feature=np.concatenate([feature, np.full(leaves.size, -1)]),
        left=np.concatenate([below["left"], pad]),
        right=np.concatenate([below["right"], pad]),
        missing_left=np.concatenate([default_left, pad > 0]),
        values=np.concatenate([np.zeros(inner), leaves]),
        threshold=np.concatenate([number, pad]),
        output=output,
        sets=tuple(sets),
    )


def _labels(booster: Any, text: str, infos: list[str]) -> tuple[Any, ...]:
    """The categories of each column in the order of their codes: LightGBM codes the categorical columns of a frame."""
    kept = getattr(booster, "pandas_categorical", None)
    if not kept:
        return ()
    # Its settings name these columns; its notes on the rows say nothing of a column that was constant in them.
    settings = text.partition("[categorical_feature: ")[2].partition("]")[0]
    places = [int(place) for place in settings.split(",") if place]
    # Older files do not.
    if not places and "none" not in infos:
        places = [i for i, info in enumerate(infos) if not info.startswith("[")]
    if len(places) != len(kept):
        raise UnsupportedModelError(
            f"LightGBM: the frame has {len(kept)} columns of categories, but the model splits {len(places)} columns by "
            "category; train on a frame in which these are the same columns"
        )
    labels: list[Any] = [None] * len(infos)
    for place, categories in zip(places, kept, strict=True):
        labels[place] = tuple(categories)
    return tuple(labels)
