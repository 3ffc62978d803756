"""Write changed trees to a file of their library, which loads them bit for bit."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from holdfast._forest import Forest
from holdfast._trees import TreeEnsemble
from holdfast.errors import InvalidInputError


def write_trees(trees: TreeEnsemble, path: Path) -> None:
    """Write trees in the format of their library: JSON or UBJ for XGBoost, text for LightGBM."""
    suffixes(trees)
    _WRITERS[trees.origin.library](trees.forest, trees.origin.content, path)


def suffixes(trees: TreeEnsemble) -> tuple[str, ...]:
    """The file names' endings of the library."""
    if trees.origin is None:
        raise InvalidInputError(
            "model: expected trees of XGBoost (.json, .ubj) or LightGBM (.txt), whose files can be written, got trees "
            "of another library; use predict for their classes, or write_parameters to write them for the checker"
        )
    return {"xgboost": (".json", ".ubj"), "lightgbm": (".txt",)}[trees.origin.library]


def _xgboost(forest: Forest, document: dict[str, Any], path: Path) -> None:
    """Write an ordinary booster: the weights of DART are already in the leaves."""
    import json

    import xgboost

    booster = document["learner"]["gradient_booster"]
    model = booster["gbtree"]["model"] if booster["name"] == "dart" else booster["model"]
    trees = []
    for number, (begin, end) in enumerate(forest.spans):
        numbers = np.where(
            forest.leaves[begin:end], forest.values[begin:end, 0], forest.threshold[begin:end]
        )
        stored = [float(value) for value in numbers.astype(np.float32).astype(np.float64)]
        tree = model["trees"][number] if number < len(model["trees"]) else _leaf(model["trees"][0])
        trees.append(dict(tree, split_conditions=stored, id=number))
    outputs = forest.output.tolist()
    # Added trees are rounds of their own; what early stopping left out is not written.
    rounds = [place for place in model["iteration_indptr"] if place <= forest.n_trees]
    rounds += [*range(rounds[-1] + 1, forest.n_trees + 1)]
    parameters = dict(model["gbtree_model_param"], num_trees=str(forest.n_trees))
    content = dict(
        model,
        trees=trees,
        tree_info=outputs,
        iteration_indptr=rounds,
        gbtree_model_param=parameters,
    )
    learner = dict(document["learner"], gradient_booster={"model": content, "name": "gbtree"})
    learner["attributes"] = {
        name: value for name, value in learner["attributes"].items() if not name.startswith("best_")
    }
    text = json.dumps(dict(document, learner=learner)).encode()
    booster = xgboost.Booster()
    booster.load_model(bytearray(text))
    booster.save_model(str(path))


def _leaf(tree: dict[str, Any]) -> dict[str, Any]:
    """A tree of one leaf, in the layout of another tree."""
    one = {
        "base_weights": [0.0], "default_left": [0], "left_children": [-1], "loss_changes": [0.0],
        "parents": [2147483647], "right_children": [-1], "split_indices": [0], "split_type": [0],
        "sum_hessian": [0.0], "categories": [], "categories_nodes": [], "categories_segments": [],
        "categories_sizes": [],
    }  # fmt: skip
    return dict(tree, **one, tree_param=dict(tree["tree_param"], num_nodes="1"))


def _lightgbm(forest: Forest, text: str, path: Path) -> None:
    head, *blocks = text.split("\nTree=")
    last, end, tail = blocks[-1].partition("end of trees")
    blocks[-1] = last
    if forest.n_trees > len(blocks) and forest.divisor != 1.0:
        raise InvalidInputError(
            "LightGBM: trees cannot be added to a forest whose trees are averaged"
        )
    # Sizes of blocks would be others now; LightGBM goes without them.
    head = re.sub(r"\ntree_sizes=[^\n]*", "", head)
    written: list[str] = []
    for number, (begin, stop) in enumerate(forest.spans):
        leaves = forest.leaves[begin:stop]
        values = forest.values[begin:stop, 0][leaves]
        if number >= len(blocks):
            # Trees come in rounds, one for each class.
            for output in range(forest.n_outputs):
                value = values if output == forest.output[number] else [0.0]
                written.append(_ONE_LEAF.format(len(written), _words(value)))
            continue
        block = blocks[number]
        block = re.sub(r"\nleaf_value=[^\n]*", f"\nleaf_value={_words(values)}", block)
        if not leaves.all():
            numbers = _words(forest.threshold[begin:stop][~leaves])
            block = re.sub(r"\nthreshold=[^\n]*", f"\nthreshold={numbers}", block)
        written.append(block)
    path.write_text("\nTree=".join([head, *written]) + end + tail, encoding="utf-8")


_ONE_LEAF = "{}\nnum_leaves=1\nnum_cat=0\nleaf_value={}\nis_linear=0\nshrinkage=1\n\n\n"


def _words(values: Any) -> str:
    return " ".join(repr(float(value)) for value in values)


_WRITERS: dict[str, Callable[[Forest, Any, Path], None]] = {
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
}
