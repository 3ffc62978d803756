"""How a scikit-learn classifier is trained again: its last step alone, on preprocessing as it was fitted.

A scaler or an encoder that is fitted anew changes what each parameter means, and the distance between two sets of
parameters would say nothing. So the earlier steps of a pipeline stay as they are.

Trees are trained on with their structure kept, by the libraries' own calls, no more:

refit       LightGBM's `refit`, with its `refit_decay_rate`; XGBoost's `process_type="update"` with `refresh`
continue    more rounds of boosting on top of today's
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from holdfast._network import Floats
from holdfast.errors import InvalidInputError
from holdfast.importers._sklearn import unwrapped
from holdfast.retraining._logistic import BATCH, gradient_steps

_ASK_FOR_A_FUNCTION = (
    "pass retrain=, a function (model, X, y, seed) that returns the retrained model"
)


def can_train(model: object) -> bool:
    """Whether these trainers know the model's kind."""
    return isinstance(model, BaseEstimator) or (
        hasattr(model, "get_params") and hasattr(model, "fit")
    )


def fine_tune(model: Any, points: Floats, y: Any, seed: int, epochs: int) -> Any:
    """A copy of the model after `epochs` more passes over these rows, from today's parameters.

    `MLPClassifier`: scikit-learn's `partial_fit`, which goes on with the optimiser as training left it.
    `LogisticRegression`: passes of Adam, see `gradient_steps`.
    """
    tuned = copy.deepcopy(_classifier_in(model))
    if isinstance(tuned, LogisticRegression):
        gradient_steps(tuned, points, y, np.random.default_rng(seed), epochs)
        return _with_classifier(model, tuned)
    if not hasattr(tuned, "partial_fit"):
        solver = f" with solver={tuned.solver!r}" if isinstance(tuned, MLPClassifier) else ""
        raise InvalidInputError(
            f"model: expected a classifier that can learn on from where it is, got {type(tuned).__name__}{solver}; "
            + _ASK_FOR_A_FUNCTION
        )
    settings = {"random_state": check_random_state(seed)} | _only_known(
        tuned, {"early_stopping": False}
    )
    before = {name: tuned.get_params(deep=False)[name] for name in settings}
    tuned.set_params(**settings)
    if getattr(tuned, "best_loss_", 0.0) is None:
        # Early stopping kept validation scores instead; partial_fit compares with the best loss so far.
        tuned.best_loss_ = np.inf
    with quietly():
        for _ in range(epochs):
            tuned.partial_fit(_named(tuned, points), y)
    return _with_classifier(model, tuned.set_params(**before))


def train_anew(model: Any, points: Floats, y: Any, seed: int, epochs: int | None = None) -> Any:
    """A copy of the model trained from scratch with the same settings and another seed."""
    classifier = _classifier_in(model)
    fresh = clone(classifier)
    passes = {} if epochs is None else {"max_iter": epochs}
    fresh.set_params(**_only_known(fresh, {"random_state": seed} | passes))
    with quietly():
        return _with_classifier(model, fresh.fit(_named(classifier, points), y))


def train_whole(model: Any, table: Any, y: Any, seed: int) -> Any:
    """A copy of any estimator, with all that is inside it, fitted from scratch with another seed."""
    fresh = clone(getattr(model, "best_estimator_", model))
    # CatBoost names only what was set.
    seeds = ["random_seed"] * (type(fresh).__module__.partition(".")[0] == "catboost")
    fresh.set_params(**dict.fromkeys([*seeds, *random_states(fresh)], seed % 2**31))
    with quietly():
        return fresh.fit(table, y)


def library_of(model: Any) -> str | None:
    """Which library trains these trees, or those that a pipeline ends in, on; None where no known one does."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    names = (base.__module__.partition(".")[0] for base in type(last).__mro__)
    known = (name for name in names if name in ("xgboost", "lightgbm") and hasattr(last, "fit"))
    return next(known, None)


def refit(model: Any, table: Any, y: Any, seed: int, rounds: int) -> Any:
    """The same splits, with leaves from these rows."""
    if library_of(model) == "lightgbm":
        fitted = copy.copy(model)
        fitted._Booster = model.booster_.refit(
            table,
            model._le.transform(y),
            decay_rate=model.get_params().get("refit_decay_rate", 0.9),
        )
        return fitted
    import xgboost

    booster, fitted = model.get_booster(), copy.copy(model)
    settings = {"process_type": "update", "updater": "refresh", "refresh_leaf": True}
    rows = xgboost.DMatrix(table, label=y, enable_categorical=bool(model.enable_categorical))
    with warnings.catch_warnings():
        # That updaters are named is the point.
        warnings.filterwarnings("ignore", message=".*updater.*", category=UserWarning)
        fitted._Booster = xgboost.train(
            {**model.get_xgb_params(), **settings},
            rows,
            booster.num_boosted_rounds(),
            xgb_model=booster,
        )
    best = booster.attr("best_iteration")
    if best is not None:
        fitted._Booster.set_attr(best_iteration=best)
    return fitted


def more_rounds(model: Any, table: Any, y: Any, seed: int, rounds: int) -> Any:
    """So many rounds on top of today's trees."""
    settings: dict[str, Any] = {"n_estimators": rounds, "random_state": seed % 2**31}
    if library_of(model) == "lightgbm":
        return clone(model).set_params(**settings).fit(table, y, init_model=model)
    again = clone(model).set_params(**settings, early_stopping_rounds=None)
    return again.fit(table, y, xgb_model=model.get_booster())


WAYS: dict[str, Callable[..., Any]] = {"refit": refit, "continue": more_rounds}


def train_on(model: Any, table: Any, y: Any, seed: int, *, how: str, rounds: int) -> Any:
    """Trees, or the trees that a pipeline ends in, trained on in one of the ways."""
    if library_of(model) is None:
        raise InvalidInputError(
            f"how: expected an XGBClassifier or an LGBMClassifier for {how!r}, got a {type(model).__name__}"
        )
    if not isinstance(model, Pipeline):
        return WAYS[how](model, table, y, seed, rounds)
    last, read = model.steps[-1][1], model[:-1].transform(table)
    return _with_classifier(model, WAYS[how](last, read, y, seed, rounds))


def random_states(estimator: Any) -> dict[str, Any]:
    """The settings that an estimator, and all that is inside it, draws at random by."""
    settings = estimator.get_params(deep=True)
    return {
        name: value for name, value in settings.items() if name.split("__")[-1] == "random_state"
    }


def optimiser_steps(model: Any, n_rows: int, epochs: int) -> int | None:
    """How many steps the optimiser takes in `fine_tune` with so many rows and passes; None where that is not known."""
    classifier = unwrapped(model)[1]
    if isinstance(classifier, LogisticRegression):
        batch = BATCH
    elif isinstance(classifier, MLPClassifier):
        # scikit-learn's own rule for "auto".
        batch = 200 if classifier.batch_size == "auto" else max(1, int(classifier.batch_size))
    else:
        return None
    return epochs * math.ceil(n_rows / batch)


def _classifier_in(model: Any) -> Any:
    """What a pipeline ends in, and what a search found."""
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_"):
        model = model.steps[-1][1] if isinstance(model, Pipeline) else model.best_estimator_
    return model


def _with_classifier(model: Any, classifier: Any) -> Any:
    """The model with another classifier in the place of its own; searches give way to what they found."""
    if isinstance(model, Pipeline):
        other = copy.copy(model)
        name, last = model.steps[-1]
        other.steps = [*model.steps[:-1], (name, _with_classifier(last, classifier))]
        return other
    if hasattr(model, "best_estimator_"):
        return _with_classifier(model.best_estimator_, classifier)
    return classifier


def _only_known(estimator: Any, settings: dict[str, Any]) -> dict[str, Any]:
    known = estimator.get_params(deep=False)
    return {name: value for name, value in settings.items() if name in known}


def _named(estimator: Any, points: Floats) -> Any:
    """A classifier that learned from named columns gets them again, else scikit-learn warns."""
    names = getattr(estimator, "feature_names_in_", None)
    return points if names is None else pd.DataFrame(points, columns=names)


@contextmanager
def quietly() -> Iterator[None]:
    """Without the warnings that today's settings cause again: too few epochs to converge, a batch above the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings(
            "ignore", message="Got `batch_size` less than 1", category=UserWarning
        )
        yield
