"""Trees as a JSON object, as the checker reads them and a ledger stores them, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from holdfast._forest import Forest
from holdfast._trees import Recorded, TreeEnsemble, Votes, steps_digest
from holdfast.errors import UnsupportedModelError

FORMAT, VERSION = "holdfast-trees", 1
_LISTS = (
    "feature",
    "left",
    "right",
    "missing_left",
    "category",
    "sets",
    "values",
    "roots",
    "output",
    "base",
)
_PLAIN = ("divisor", "zero", "compare")


def tree_document(trees: TreeEnsemble) -> dict[str, Any]:
    """All that the trees compute of a row, and how a table becomes one; earlier steps of a pipeline as a hash.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from holdfast import load_model
    >>> tree = load_model(DecisionTreeClassifier(max_depth=1).fit([[1.0], [3.0]], [0, 1])).classifier
    >>> document = tree_document(tree)
    >>> document["threshold"][0], of_tree_document(document).forest.same_structure(tree.forest)
    (2.0, True)
    """
    forest, votes = trees.forest, trees.score
    if votes.off or votes.bar is not None:
        raise UnsupportedModelError(
            "expected trees as they were trained, got trees that include a threshold"
        )
    labels = [None if each is None else [_plain(label) for label in each] for each in votes.labels]
    return {
        "format": FORMAT,
        "version": VERSION,
        "classes": trees.classes.tolist(),
        "columns": list(votes.names or map(str, range(forest.width))),
        **{name: getattr(forest, name).tolist() for name in _LISTS},
        **{name: getattr(forest, name) for name in _PLAIN},
        # A leaf asks for nothing.
        "threshold": [_number(t) for t in np.where(forest.numeric, forest.threshold, 0.0).tolist()],
        "precision": 24 if forest.single else 53,
        "missing": list(forest.missing),
        "shares": votes.shares,
        "band": float(votes.band),
        "reading": {
            "columns": None if votes.columns is None else list(votes.columns),
            "labels": labels,
            "codes": int(forest.sets.shape[1]),
            "odds": votes.odds,
            "ordered": bool(forest.ordered),
            "raw": trees.raw,
            "tie": int(trees.tie),
            **({} if votes.before is None else {"before": steps_digest(votes.before)}),
        },
    }


def of_tree_document(document: dict[str, Any]) -> TreeEnsemble:
    """The trees of a document, for comparing others with them; steps before them are known only by their hash."""
    kinds = {"missing_left": np.bool_, "sets": np.bool_, "values": np.float64, "base": np.float64}
    lists: dict[str, Any] = {
        name: np.array(document[name], dtype=kinds.get(name, np.int32)) for name in _LISTS
    }
    plain: dict[str, Any] = {name: document[name] for name in _PLAIN}
    lists["sets"] = lists["sets"].reshape(-1, document["reading"]["codes"])
    reading, width = document["reading"], len(document["columns"])
    threshold = np.array([float(t) for t in document["threshold"]])
    forest = Forest(
        **lists,
        **plain,
        threshold=threshold,
        width=width,
        single=document["precision"] == 24,
        ordered=reading["ordered"],
        missing=tuple(document["missing"]),
    )
    columns = None if reading["columns"] is None else tuple(reading["columns"])
    votes = Votes(
        forest=forest,
        columns=columns,
        labels=tuple(None if each is None else tuple(each) for each in reading["labels"]),
        shares=document["shares"],
        band=document["band"],
        odds=reading["odds"],
        before=Recorded(reading["before"]) if "before" in reading else None,
    )
    classes = tuple(document["classes"])
    return TreeEnsemble(votes, classes, columns, width, raw=reading["raw"], tie=reading["tie"])


def _number(value: float) -> float | str:
    """A number for JSON, which has no infinity."""
    return value if math.isfinite(value) else repr(value)


def _plain(label: Any) -> Any:
    label = label.item() if isinstance(label, np.generic) else label
    if not isinstance(label, str | bool | int | float) or label != label:
        raise UnsupportedModelError(f"expected categories that are texts or numbers, got {label!r}")
    return label
