"""Whatever has `predict_proba` or a decision function, or is a function of a table: a model known by its scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.errors import HoldfastError, InvalidInputError, UnsupportedModelError
from holdfast.scored import Scored, log_odds

# Libraries that give their raw margin when `predict` is asked in this way, exact where log-odds would round.
_RAW: dict[str, dict[str, Any]] = {
    "xgboost": {"output_margin": True},
    "lightgbm": {"raw_score": True},
    "catboost": {"prediction_type": "RawFormulaVal"},
}


def by_its_scores(model: Any, why: HoldfastError) -> Scored:
    """The model by its scores; raises `why` it is not a network where it has none."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        if isinstance(model, type) or not (hasattr(model, "predict_proba") or hasattr(model, "decision_function")):
            raise why
        name = type(model).__name__
        raise InvalidInputError(f"expected a fitted {name} with classes_, got one that is not fitted")
    labels = tuple(np.asarray(classes).tolist())
    if len(labels) < 2 or any(isinstance(label, list | np.ndarray) for label in labels):
        raise UnsupportedModelError(f"expected a classifier of at least two classes, got classes_ = {classes!r}")
    names = getattr(model, "feature_names_in_", None)
    columns = None if names is None else tuple(str(name) for name in names)
    width = getattr(model, "n_features_in_", None if columns is None else len(columns))
    return Scored(
        _score_of(model, why),
        labels,
        columns,
        None if width is None else int(width),
        predict_labels=model.predict if hasattr(model, "predict") else None,
        why=str(why),
    )


def _score_of(model: Any, why: HoldfastError) -> Callable[[Any], Any]:
    """What the model itself compares: its raw margin, its decision function, or its probabilities."""
    steps = getattr(model, "steps", None)
    last = steps[-1][1] if steps else model
    for base in type(last).__mro__:
        raw = _RAW.get(base.__module__.partition(".")[0])
        if raw is not None and hasattr(last, "predict_proba"):
            return Asked(model, "predict", tuple(raw.items()))
    if hasattr(model, "decision_function") and len(model.classes_) == 2:
        return Asked(model, "decision_function")
    if hasattr(model, "predict_proba"):
        return Asked(model, "predict_proba", odds=True)
    if hasattr(model, "decision_function"):
        return Asked(model, "decision_function")
    raise why


@dataclass(frozen=True)
class Asked:
    """A method of a model, as a function of the table that can be pickled."""

    model: Any
    method: str
    options: tuple[tuple[str, Any], ...] = ()
    odds: bool = False

    def __call__(self, table: Any) -> Any:
        scores = getattr(self.model, self.method)(table, **dict(self.options))
        return log_odds(scores) if self.odds else scores
