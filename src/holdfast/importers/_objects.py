"""Choose the reader for an object by the library of its class, or of a base class.

Any other object with `predict_proba` or a decision function, or a function of a table, is known only by its scores.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from holdfast._network import Network
from holdfast._scored import Scored, log_odds, scored
from holdfast._trees import TreeEnsemble
from holdfast.errors import HoldfastError, InvalidInputError, UnsupportedModelError
from holdfast.importers._model import Model, qualified_name
from holdfast.importers._sklearn import (
    TREES,
    WITH_THRESHOLD,
    Steps,
    at_own_threshold,
    column_names,
    own_threshold,
)

# A row is a library and the module that reads its models with `import_model`; it is imported when the first one comes.
_READERS = {
    "sklearn": "holdfast.importers._sklearn",
    "torch": "holdfast.importers._torch",
    "onnx": "holdfast.importers._onnx",
    **TREES,
}
EXPECTED = (
    "expected a fitted scikit-learn, torch or ONNX classifier, a holdfast Network, the path of a model file, "
    "or anything with predict_proba"
)
# Libraries that give their raw margin when `predict` is asked in this way, exact where log-odds would round.
_RAW: dict[str, dict[str, Any]] = {
    "xgboost": {"output_margin": True},
    "lightgbm": {"raw_score": True},
    "catboost": {"prediction_type": "RawFormulaVal"},
}


def import_object(model: Any) -> Model:
    """Read the model of any object that is not a path."""
    if isinstance(model, Model):
        return model
    if isinstance(model, Network):
        return Model(model)
    if isinstance(model, Scored):
        return Model(model, feature_names=model.columns)
    for base in type(model).__mro__:
        reader = _READERS.get(base.__module__.partition(".")[0])
        if reader is not None:
            try:
                imported: Model = import_module(reader).import_model(model)
            except UnsupportedModelError as why:
                return _by_its_scores(model, why)
            return _with_its_word(model, imported)
    if inspect.isroutine(model):
        return Model(scored(model))
    came = (
        f"the class {model.__name__}, not an object of it"
        if isinstance(model, type)
        else qualified_name(model)
    )
    return _by_its_scores(model, UnsupportedModelError(f"{EXPECTED}; got {came}"))


def _with_its_word(model: Any, imported: Model) -> Model:
    """Attach the prediction of the original model to trees; any other model stays as it is."""
    trees = imported.classifier
    if not isinstance(trees, TreeEnsemble) or not hasattr(model, "classes_"):
        return imported
    if imported.threshold or imported.calibration:
        return imported
    array = trees.columns is None and trees.score.before is None
    own = Scoring(model, "predict", array=array)
    return replace(imported, classifier=replace(trees, predict_labels=own))


def _by_its_scores(model: Any, why: UnsupportedModelError) -> Model:
    """A model that is not a network, with all its preprocessing, as a function of the table.

    Its own threshold is for the probability of its first or second class, which decides to the last bit.
    """
    wrapped = isinstance(model, WITH_THRESHOLD)
    inner, threshold, first = own_threshold(model) if wrapped else (model, 0.5, False)
    classifier = _scored(inner, why)
    known = Model(classifier, feature_names=classifier.columns)
    return at_own_threshold(known, threshold, first) if wrapped else known


def _scored(model: Any, why: HoldfastError) -> Scored:
    """The model by its scores; without scores raises `why`, the reason that it is not a network."""
    # A search is what it found; only that takes further arguments.
    model = getattr(model, "best_estimator_", model)
    classes = getattr(model, "classes_", None)
    if classes is None:
        if isinstance(model, type) or not (
            hasattr(model, "predict_proba") or hasattr(model, "decision_function")
        ):
            raise why
        name = type(model).__name__
        raise InvalidInputError(
            f"expected a fitted {name} with classes_, got one that is not fitted"
        )
    labels = tuple(np.asarray(classes).tolist())
    if len(labels) < 2 or any(isinstance(label, list | np.ndarray) for label in labels):
        raise UnsupportedModelError(
            f"expected a classifier of at least two classes, got classes_ = {classes!r}"
        )
    columns = _columns(model)
    # Whatever knows how many columns it learned from, but not their names, learned from an array.
    array = columns is None and hasattr(model, "n_features_in_")
    width = getattr(model, "n_features_in_", None if columns is None else len(columns))
    return Scored(
        _score_of(model, why, array),
        labels,
        columns,
        None if width is None else int(width),
        predict_labels=Scoring(model, "predict", array=array)
        if hasattr(model, "predict")
        else None,
        why=str(why),
        raw=not array or len(getattr(model, "steps", ())) > 1,
    )


def _columns(model: Any) -> tuple[str, ...] | None:
    """The names of the columns that the model was fitted on; None if it was fitted on an array."""
    # CatBoost's; it numbers the columns of an array.
    names = tuple(map(str, getattr(model, "feature_names_", None) or ()))
    return column_names(model) or (None if names == tuple(map(str, range(len(names)))) else names)


def _score_of(model: Any, why: HoldfastError, array: bool) -> Callable[[Any], Any]:
    """The numbers that the model itself compares: its raw margin, its decision function, or its probabilities."""
    steps = getattr(model, "steps", None)
    last = steps[-1][1] if steps else model
    for base in type(last).__mro__:
        raw = _RAW.get(base.__module__.partition(".")[0])
        if raw is not None and hasattr(last, "predict_proba"):
            return Scoring(model, "predict", tuple(raw.items()), array)
    known = [name for name in ("decision_function", "predict_proba") if hasattr(model, name)]
    if not known:
        raise why
    # Of several classes a decision function may be one against one; probabilities are of each class.
    method = known[0] if len(model.classes_) == 2 else known[-1]
    return Scoring(model, method, array=array, odds=method == "predict_proba")


@dataclass(frozen=True)
class Scoring:
    """A method of a model, as a function of the table that can be pickled."""

    model: Any
    method: str
    options: tuple[tuple[str, Any], ...] = ()
    # Whether it learned from an array, and would complain of column names.
    array: bool = False
    odds: bool = False
    threshold: float | None = None
    first: bool = False

    @property
    def before(self) -> Steps | None:
        """The earlier steps of a pipeline."""
        steps = getattr(self.model, "steps", ())
        return Steps((self.model[:-1],)) if len(steps) > 1 else None

    def odds_at(self, threshold: float | None, first: bool = False) -> Scoring:
        """The model's probabilities at a threshold: its margins may differ from their log-odds."""
        if not hasattr(self.model, "predict_proba"):
            raise InvalidInputError(
                f"threshold: expected a model that gives probabilities, got {type(self.model).__name__}"
            )
        return replace(
            self, method="predict_proba", options=(), odds=True, threshold=threshold, first=first
        )

    def __call__(self, table: Any) -> Any:
        table = np.asarray(table) if self.array else table
        scores = getattr(self.model, self.method)(table, **dict(self.options))
        return log_odds(scores, self.threshold, self.first) if self.odds else scores
