"""Train a scikit-learn classifier further or from scratch: only its last step, with the fitted preprocessing.

Refitting a scaler or an encoder would change the meaning of each parameter, and distances between parameters would
be meaningless. So the earlier steps of a pipeline stay as they are.

Trees are trained further by the libraries' own calls:

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
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight

from holdfast._network import Floats
from holdfast.errors import InvalidInputError
from holdfast.importers._sklearn import unwrapped

# The paper's optimiser: Adam with these settings, and the decay rates that everybody uses.
LEARNING_RATE = 0.01
BATCH = 256
_DECAY = 0.9
_SQUARE_DECAY = 0.999
_TINY = 1e-8


def can_train(model: object) -> bool:
    """Whether these trainers can train this kind of model."""
    return isinstance(model, BaseEstimator) or (
        hasattr(model, "get_params") and hasattr(model, "fit")
    )


def fine_tune(model: Any, points: Floats, y: Any, seed: int, epochs: int) -> Any:
    """A copy of the model after `epochs` more passes over these rows, from today's parameters.

    `MLPClassifier`: scikit-learn's `partial_fit`, which continues with the optimiser's last state.
    `LogisticRegression`: passes of Adam, see `gradient_steps`.
    """
    tuned = copy.deepcopy(_classifier_in(model))
    if isinstance(tuned, LogisticRegression):
        gradient_steps(tuned, points, y, np.random.default_rng(seed), epochs)
        return _with_classifier(model, tuned)
    if not hasattr(tuned, "partial_fit"):
        solver = f" with solver={tuned.solver!r}" if isinstance(tuned, MLPClassifier) else ""
        raise InvalidInputError(
            f"model: {type(tuned).__name__}{solver} cannot be fine-tuned; "
            "pass retrain=, a function (model, X, y, seed) that returns the retrained model"
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


def gradient_steps(
    estimator: Any, X: Floats, y: Any, rng: np.random.Generator, epochs: int
) -> None:
    """Train a fitted `LogisticRegression` further by `epochs` passes of Adam over these rows; changes the model.

    The loss is the estimator's own on these rows, mean log loss + ||W||^2 / (2 C n), with its class weights. A few
    passes are fine-tuning; a fit to convergence on a small share of new data would forget the old data.
    """
    targets = (np.asarray(y)[:, None] == estimator.classes_).astype(np.float64)
    binary = estimator.coef_.shape[0] == 1
    probabilities = expit if binary else lambda scores: softmax(scores, axis=1)
    targets = targets[:, 1:] if binary else targets
    importance = compute_sample_weight(estimator.class_weight, y)[:, None]
    shrink = _penalty(estimator) / X.shape[0]
    # The weights, and the bias in the last column.
    parameters = np.column_stack([estimator.coef_, estimator.intercept_]).astype(np.float64)
    weights = parameters[:, :-1]
    biases = parameters[:, -1]
    gradient, mean, square = np.zeros((3, *parameters.shape))
    steps = 0
    for _ in range(epochs):
        order = rng.permutation(X.shape[0])
        for start in range(0, X.shape[0], BATCH):
            rows = order[start : start + BATCH]
            error = importance[rows] * (probabilities(X[rows] @ weights.T + biases) - targets[rows])
            gradient[:, :-1] = error.T @ X[rows] / rows.size + shrink * weights
            if estimator.fit_intercept:
                gradient[:, -1] = error.mean(axis=0)
            # Kingma and Ba's Adam.
            steps += 1
            rate = LEARNING_RATE * np.sqrt(1 - _SQUARE_DECAY**steps) / (1 - _DECAY**steps)
            mean += (1 - _DECAY) * (gradient - mean)
            square += (1 - _SQUARE_DECAY) * (gradient**2 - square)
            parameters -= rate * mean / (np.sqrt(square) + _TINY)
    estimator.coef_ = weights.copy()
    estimator.intercept_ = biases.copy()


def _penalty(estimator: Any) -> float:
    """The weight of the squared coefficients, 1 / C."""
    ratio = getattr(estimator, "l1_ratio", None)
    mixed = isinstance(ratio, int | float) and ratio != 0
    if mixed or getattr(estimator, "penalty", "l2") in ("l1", "elasticnet"):
        raise InvalidInputError(
            "model: gradient steps cannot fine-tune a LogisticRegression with an l1 penalty; use an l2 penalty "
            "or none, or pass retrain=, a function (model, X, y, seed) that fine-tunes it"
        )
    strength = np.asarray(
        getattr(estimator, "C_", getattr(estimator, "C", np.inf)), dtype=np.float64
    )
    return 0.0 if getattr(estimator, "penalty", "l2") is None else float(np.mean(1.0 / strength))


def train_anew(model: Any, points: Floats, y: Any, seed: int, epochs: int | None = None) -> Any:
    """A copy of the model trained from scratch with the same settings and another seed."""
    classifier = _classifier_in(model)
    fresh = clone(classifier)
    passes = {} if epochs is None else {"max_iter": epochs}
    fresh.set_params(**_only_known(fresh, {"random_state": seed} | passes))
    with quietly():
        return _with_classifier(model, fresh.fit(_named(classifier, points), y))


def train_whole(model: Any, table: Any, y: Any, seed: int) -> Any:
    """A copy of any estimator with all its parts, fitted from scratch with another seed."""
    fresh = clone(getattr(model, "best_estimator_", model))
    # CatBoost names only what was set.
    seeds = ["random_seed"] * (type(fresh).__module__.partition(".")[0] == "catboost")
    fresh.set_params(**dict.fromkeys([*seeds, *random_states(fresh)], seed % 2**31))
    with quietly():
        return fresh.fit(table, y)


def library_of(model: Any) -> str | None:
    """The library that can train these trees, or a pipeline's last step, further; None if unknown."""
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
    """Today's trees with more rounds of boosting."""
    settings: dict[str, Any] = {"n_estimators": rounds, "random_state": seed % 2**31}
    if library_of(model) == "lightgbm":
        return clone(model).set_params(**settings).fit(table, y, init_model=model)
    again = clone(model).set_params(**settings, early_stopping_rounds=None)
    return again.fit(table, y, xgb_model=model.get_booster())


WAYS: dict[str, Callable[..., Any]] = {"refit": refit, "continue": more_rounds}


def train_on(model: Any, table: Any, y: Any, seed: int, *, how: str, rounds: int) -> Any:
    """Trees, or a pipeline that ends in trees, trained further by ``refit`` or ``continue``."""
    if library_of(model) is None:
        raise InvalidInputError(
            f"how: {how!r} needs an XGBClassifier or an LGBMClassifier, got a {type(model).__name__}"
        )
    if not isinstance(model, Pipeline):
        return WAYS[how](model, table, y, seed, rounds)
    last, read = model.steps[-1][1], model[:-1].transform(table)
    return _with_classifier(model, WAYS[how](last, read, y, seed, rounds))


def random_states(estimator: Any) -> dict[str, Any]:
    """The random states of an estimator and of all its parts."""
    settings = estimator.get_params(deep=True)
    return {
        name: value for name, value in settings.items() if name.split("__")[-1] == "random_state"
    }


def optimiser_steps(model: Any, n_rows: int, epochs: int) -> int | None:
    """The number of optimiser steps in `fine_tune` for `n_rows` rows and these passes; None if unknown."""
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
    """The classifier at the end of a pipeline, or the one that a search found."""
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_"):
        model = model.steps[-1][1] if isinstance(model, Pipeline) else model.best_estimator_
    return model


def _with_classifier(model: Any, classifier: Any) -> Any:
    """The model with another classifier instead of its own; a search gives way to the classifier that it found."""
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
    """Restore the column names for a classifier fitted on named columns; otherwise scikit-learn warns."""
    names = getattr(estimator, "feature_names_in_", None)
    return points if names is None else pd.DataFrame(points, columns=names)


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress warnings that today's settings repeat: too few epochs to converge, a batch larger than the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings(
            "ignore", message="Got `batch_size` less than 1", category=UserWarning
        )
        yield
