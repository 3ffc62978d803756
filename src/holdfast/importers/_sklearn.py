"""scikit-learn: linear classifiers, the multi-layer perceptron, and pipelines, searches and thresholds around them.

scikit-learn chooses the second of two classes at a score > 0, a `Network` at >= 0: they differ only on the boundary.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from operator import is_
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from holdfast._scored import Scored
from holdfast._trees import TreeEnsemble
from holdfast.errors import InvalidInputError, UnsupportedModelError
from holdfast.importers import _sklearn_trees
from holdfast.importers._chain import Chain
from holdfast.importers._model import Model, dense, qualified_name
from holdfast.importers._thresholds import Sigmoid, check_threshold, logit

_PASSTHROUGH = (None, "passthrough")
WITH_THRESHOLD = (FixedThresholdClassifier, TunedThresholdClassifierCV)
# Libraries of trees whose classifiers may end a pipeline, and who reads them with `import_model`.
TREES = {
    "xgboost": "holdfast.importers._xgboost",
    "lightgbm": "holdfast.importers._lightgbm",
    "catboost": "holdfast.importers._catboost",
    "interpret": "holdfast.importers._interpret",
}
# Classifiers around which no pipeline was found, with what they had learnt by then: looking takes tens of milliseconds.
_ALONE: WeakKeyDictionary[Any, tuple[Any, ...]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Steps:
    """The fitted transformers before the classifier, in order."""

    transformers: tuple[Any, ...]

    def __call__(self, X: Any) -> Any:
        for transformer in self.transformers:
            X = transformer.transform(X)
        return X

    @property
    def unread(self) -> frozenset[str]:
        """The columns that a `ColumnTransformer` drops."""
        first = _first_step(self.transformers[0])
        names = list(column_names(self.transformers[0]) or ())
        if not isinstance(first, ColumnTransformer):
            return frozenset()
        parts = [name for name, part, _ in first.transformers_ if part != "drop"]
        read = {place for name in parts for place in first._transformer_to_input_indices[name]}
        return frozenset(name for place, name in enumerate(names) if place not in read)


def import_model(model: Any) -> Model:
    """Read the model of a fitted estimator."""
    transformers, estimator = unwrapped(model)
    if isinstance(estimator, WITH_THRESHOLD):
        inner, threshold, first = own_threshold(estimator)
        classified = at_own_threshold(import_model(inner), threshold, first)
    elif isinstance(estimator, CalibratedClassifierCV):
        classified = _calibrated(estimator)
    else:
        classified = _classified(estimator)
    if isinstance(classified.classifier, TreeEnsemble):
        return _trees_behind(transformers, classified)
    if isinstance(classified.preprocess, Steps):
        transformers += classified.preprocess.transformers
    return replace(
        classified,
        preprocess=Steps(transformers) if transformers else None,
        feature_names=column_names((*transformers, estimator)[0]),
        estimator=None if transformers else classified.estimator,
    )


def at_own_threshold(model: Model, threshold: float, first: bool) -> Model:
    """Apply a model's own threshold; one for the first class is converted, and scores keep it to the last bit."""
    second = 1.0 - threshold if first else threshold
    scored = model.classifier
    if not isinstance(scored, Scored):
        return model.at(second)
    check_threshold(second)
    moved = scored.at([logit(second)], threshold, first)
    return replace(model, classifier=moved, threshold=second, as_trained=scored)


def _trees_behind(transformers: tuple[Any, ...], model: Model) -> Model:
    """Trees read the table itself, through the transformers before them."""
    if not transformers:
        return model
    # Step by step, as a pipeline's own prediction does, which asks less of them than a part of it would.
    steps = tuple(
        step
        for part in transformers
        for step in ([one for _, one in part.steps] if isinstance(part, Pipeline) else [part])
        if hasattr(step, "transform")
    )
    names = column_names(transformers[0])
    width = getattr(_first_step(transformers[0]), "n_features_in_", None)

    def behind(trees: Any) -> Any:
        return None if trees is None else trees.behind(Steps(steps), names, width)

    return replace(
        model,
        classifier=behind(model.classifier),
        as_trained=behind(model.as_trained),
        feature_names=names,
    )


def _classified(estimator: Any) -> Model:
    """Read a classifier without transformers."""
    if type(estimator) in _sklearn_trees.READERS:
        _check_fitted(estimator)
        return _sklearn_trees.read(estimator, column_names(estimator), _no_network(estimator))
    for base in type(estimator).__mro__:
        reader = TREES.get(base.__module__.partition(".")[0])
        if reader is not None:
            boosted: Model = import_module(reader).import_model(estimator)
            return boosted
    read = _CLASSIFIERS.get(type(estimator))
    if read is None:
        raise UnsupportedModelError(_no_network(estimator))
    _check_fitted(estimator)
    # Whether its scores are log-odds: a hinge has none, and one against the rest is scaled to sum to one.
    odds = hasattr(estimator, "predict_proba")
    if isinstance(estimator, SGDClassifier):
        odds = bool(estimator.loss == "log_loss" and len(estimator.classes_) == 2)
    return Model(read(estimator).network(), estimator=estimator, odds=odds)


def _no_network(estimator: Any) -> str:
    return f"{qualified_name(estimator)} is not supported: expected {_SUPPORTED}"


def column_names(estimator: Any) -> tuple[str, ...] | None:
    """The names of the columns that an estimator was fitted on, if it has any."""
    names = getattr(_first_step(estimator), "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)


def own_threshold(model: Any) -> tuple[Any, float, bool]:
    """The classifier inside one with its own threshold, the threshold, and True if it is for the first class."""
    _check_fitted(model)
    inner = model.estimator_
    tuned = isinstance(model, TunedThresholdClassifierCV)
    if model.response_method not in ("auto", "predict_proba"):
        raise UnsupportedModelError(
            f"{type(model).__name__}: expected a threshold on probabilities, got one on scores"
        )
    if not hasattr(inner, "predict_proba"):
        raise UnsupportedModelError(
            f"{type(model).__name__} over {type(inner).__name__}: expected a classifier that gives probabilities"
        )
    threshold = (
        model.best_threshold_ if tuned else 0.5 if model.threshold == "auto" else model.threshold
    )
    label = model._curve_scorer._get_pos_label() if tuned else model.pos_label
    return inner, float(threshold), label is not None and bool(label == model.classes_[0])


def _calibrated(model: Any) -> Model:
    """Read a single prefitted classifier under a sigmoid: p = 1 / (1 + exp(a f + b)) of its score f, a < 0."""
    _check_fitted(model)
    name = type(model).__name__
    parts = model.calibrated_classifiers_
    if model.method != "sigmoid":
        raise UnsupportedModelError(
            f"{name}(method={model.method!r}): expected 'sigmoid', which is one map of the margin"
        )
    if len(parts) != 1 or len(model.classes_) != 2:
        raise UnsupportedModelError(
            f"{name}: expected one classifier of two classes, fitted before, got a mean over {len(parts)} folds and "
            f"{len(model.classes_)} classes; ensemble=False or a FrozenEstimator gives one"
        )
    inner = parts[0].estimator
    sigmoid = parts[0].calibrators[0]
    if not sigmoid.a_ < 0.0:
        raise UnsupportedModelError(
            f"{name}: expected a sigmoid that rises with the score, got a = {sigmoid.a_}"
        )
    imported = import_model(inner)
    if imported.as_trained is not None or imported.calibration is not None:
        raise UnsupportedModelError(
            f"{name} over {type(inner).__name__}: expected a classifier as it was trained"
        )
    by_logit = hasattr(inner, "decision_function")
    return replace(imported, calibration=Sigmoid(float(sigmoid.a_), float(sigmoid.b_), by_logit))


def pipelines_around(estimator: Any) -> list[Model]:
    """The fitted pipelines in memory whose last step is this very classifier.

    A classifier does not store its training table. A caller who took it out of a pipeline usually still has the
    pipeline, whose earlier steps give the classifier its columns.
    """
    learnt, known = tuple(vars(estimator).values()), _ALONE.get(estimator, ())
    if len(learnt) == len(known) and all(map(is_, learnt, known)):
        return []
    # A step is a pair of a name and an estimator; without one there is no need to look through everything.
    holders = gc.get_referrers(estimator)
    if not any(type(one) is tuple and len(one) == 2 and type(one[0]) is str for one in holders):
        _ALONE[estimator] = learnt
        return []
    pipelines = [item for item in gc.get_objects() if Pipeline in type(item).__mro__]
    models = [import_model(pipeline) for pipeline in pipelines if _last_step(pipeline) is estimator]
    return [model for model in models if model.preprocess is not None]


def _last_step(pipeline: Pipeline) -> Any:
    """The last step of a pipeline; None if the steps before it are not fitted."""
    try:
        transformers, estimator = unwrapped(pipeline)
        for transformer in transformers:
            check_is_fitted(transformer)
    except (NotFittedError, InvalidInputError):
        return None
    return estimator


def unwrapped(model: Any) -> tuple[tuple[Any, ...], Any]:
    """The transformers and the classifier inside nested pipelines, searches and frozen estimators."""
    transformers: tuple[Any, ...] = ()
    while True:
        if isinstance(model, Pipeline):
            # The slice of an imbalanced-learn pipeline leaves its samplers out, as its own prediction does.
            earlier = [step for _, step in model.steps[:-1] if step not in _PASSTHROUGH]
            transformers += (model[:-1],) if earlier else ()
            model = model.steps[-1][1]
        # By its name, since older versions of scikit-learn do not have it.
        elif type(model).__name__ == "FrozenEstimator":
            model = model.estimator
        elif not isinstance(model, GridSearchCV | RandomizedSearchCV):
            return transformers, model
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            raise InvalidInputError(
                f"expected a {type(model).__name__} with a best_estimator_, got one that is not fitted "
                "or was fitted with refit=False"
            )


def _first_step(estimator: Any) -> Any:
    """The step that reads the raw table, and so knows its columns."""
    while isinstance(estimator, Pipeline):
        estimator = next(step for _, step in estimator.steps if step not in _PASSTHROUGH)
    return estimator


def _check_fitted(estimator: Any) -> None:
    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        raise InvalidInputError(
            f"expected a fitted {type(estimator).__name__}, got one that is not fitted: call its fit method first"
        ) from error


def _linear(estimator: Any) -> Chain:
    """Read z = W x + b: one row for two classes, otherwise one row for each class."""
    chain = Chain(classes=estimator.classes_)
    # `LogisticRegression.sparsify` leaves a scipy matrix behind.
    weights = np.atleast_2d(dense(estimator.coef_))
    biases = np.broadcast_to(
        np.asarray(estimator.intercept_, dtype=np.float64), (weights.shape[0],)
    )
    return chain.affine(type(estimator).__name__, weights, biases)


def _perceptron(estimator: Any) -> Chain:
    """Read coefs_[i] as (in, out); every layer except the last is followed by the activation."""
    if estimator.out_activation_ == "logistic" and estimator.n_outputs_ > 1:
        raise UnsupportedModelError(
            f"MLPClassifier fitted on {estimator.n_outputs_} labels at once (multi-label) is not supported: "
            "expected one class for each row"
        )
    chain = Chain(classes=estimator.classes_)
    n_layers = len(estimator.coefs_)
    for i, (weight, bias) in enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True)):
        hidden = i + 1 < n_layers
        name = (
            f"hidden layer {i + 1} (activation={estimator.activation!r})"
            if hidden
            else "the output layer"
        )
        chain = chain.affine(name, weight.T, bias)
        if hidden and estimator.activation not in ("relu", "identity"):
            expected = "expected activation='relu' or 'identity'"
            raise UnsupportedModelError(
                f"MLPClassifier: {name} is not piecewise linear: {expected}"
            )
        # An identity appends nothing: the chain takes note that nothing stands between two affine layers.
        chain = chain.relu(name) if hidden and estimator.activation == "relu" else chain
    return chain


# By exact class: a subclass may compute its scores in its own way.
_CLASSIFIERS: dict[type, Callable[[Any], Chain]] = {
    LogisticRegression: _linear,
    LogisticRegressionCV: _linear,
    MLPClassifier: _perceptron,
    LinearSVC: _linear,
    Perceptron: _linear,
    RidgeClassifier: _linear,
    SGDClassifier: _linear,
}
_SUPPORTED = (
    ", ".join(classifier.__name__ for classifier in _CLASSIFIERS)
    + ", a Pipeline that ends in one of them, or a GridSearchCV or RandomizedSearchCV over one"
)
