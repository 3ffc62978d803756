"""scikit-learn: logistic regression, the multi-layer perceptron, and pipelines that end in one of them.

scikit-learn gives the second of two classes to a score > 0, a `Network` to one >= 0: they differ on the boundary alone.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from holdfast.errors import InvalidInputError, UnsupportedModelError
from holdfast.importers.chain import Chain
from holdfast.importers.model import Model
from holdfast.importers.objects import qualified_name
from holdfast.network import Floats

_PASSTHROUGH = (None, "passthrough")


@dataclass(frozen=True)
class Steps:
    """The fitted transformers before the classifier, one after the other."""

    transformers: tuple[Any, ...]

    def __call__(self, X: Any) -> Any:
        for transformer in self.transformers:
            X = transformer.transform(X)
        return X


def import_model(model: Any) -> Model:
    """The model of a fitted estimator."""
    transformers, estimator = unwrapped(model)
    read = _CLASSIFIERS.get(type(estimator))
    if read is None:
        raise UnsupportedModelError(f"{qualified_name(estimator)} is not supported: expected {_SUPPORTED}")
    _check_fitted(estimator)
    names = getattr(_first_step((*transformers, estimator)[0]), "feature_names_in_", None)
    return Model(
        read(estimator).network(),
        preprocess=Steps(transformers) if transformers else None,
        feature_names=None if names is None else tuple(str(name) for name in names),
        estimator=None if transformers else estimator,
    )


def pipelines_around(estimator: Any) -> list[Model]:
    """The fitted pipelines in memory that end in this very classifier: it reads what their earlier steps write.

    A classifier keeps nothing of what it was fitted on; whoever cut it out of a pipeline mostly still has that.
    """
    # A step is a pair of a name and an estimator; without one there is no need to look through everything.
    if not any(type(holder) is tuple for holder in gc.get_referrers(estimator)):
        return []
    pipelines = [item for item in gc.get_objects() if Pipeline in type(item).__mro__]
    models = [import_model(pipeline) for pipeline in pipelines if _last_step(pipeline) is estimator]
    return [model for model in models if model.preprocess is not None]


def _last_step(pipeline: Pipeline) -> Any:
    """What a pipeline ends in; None before the steps in front of it are fitted."""
    try:
        transformers, estimator = unwrapped(pipeline)
        for transformer in transformers:
            check_is_fitted(transformer)
    except (NotFittedError, InvalidInputError):
        return None
    return estimator


def unwrapped(model: Any) -> tuple[tuple[Any, ...], Any]:
    """The transformers and the classifier inside pipelines and searches, however they are nested."""
    transformers: tuple[Any, ...] = ()
    while isinstance(model, Pipeline | GridSearchCV | RandomizedSearchCV):
        if isinstance(model, Pipeline):
            # The slice of an imbalanced-learn pipeline leaves its samplers out, as its own prediction does.
            earlier = [step for _, step in model.steps[:-1] if step not in _PASSTHROUGH]
            transformers += (model[:-1],) if earlier else ()
            model = model.steps[-1][1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            raise InvalidInputError(
                f"expected a {type(model).__name__} with a best_estimator_, got one that is not fitted "
                "or was fitted with refit=False"
            )
    return transformers, model


def _first_step(estimator: Any) -> Any:
    """What meets the raw table first, and so knows its columns."""
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


def _logistic_regression(estimator: Any) -> Chain:
    """z = W x + b: one row for two classes, one row for each of several."""
    chain = Chain(classes=estimator.classes_)
    return chain.affine(type(estimator).__name__, _dense(estimator.coef_), estimator.intercept_)


def _perceptron(estimator: Any) -> Chain:
    """coefs_[i] is (in, out), and every layer but the last is followed by the activation."""
    if estimator.out_activation_ == "logistic" and estimator.n_outputs_ > 1:
        raise UnsupportedModelError(
            f"MLPClassifier fitted on {estimator.n_outputs_} labels at once (multi-label) is not supported: "
            "expected one class for each row"
        )
    chain = Chain(classes=estimator.classes_)
    n_layers = len(estimator.coefs_)
    for i, (weight, bias) in enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True)):
        hidden = i + 1 < n_layers
        name = f"hidden layer {i + 1} (activation={estimator.activation!r})" if hidden else "the output layer"
        chain = chain.affine(name, weight.T, bias)
        if hidden:
            chain = _activated(chain, name, estimator.activation)
    return chain


def _activated(chain: Chain, name: str, activation: str) -> Chain:
    """An identity appends nothing: the chain takes note that nothing stands between two affine layers."""
    if activation not in ("relu", "identity"):
        expected = "expected activation='relu' or 'identity'"
        raise UnsupportedModelError(f"MLPClassifier: {name} is not piecewise linear: {expected}")
    return chain.relu(name) if activation == "relu" else chain


def _dense(coefficients: Any) -> Floats:
    """`LogisticRegression.sparsify` leaves a scipy matrix behind."""
    return np.asarray(coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients)


# By exact class: a subclass may compute its scores in its own way.
_CLASSIFIERS: dict[type, Callable[[Any], Chain]] = {
    LogisticRegression: _logistic_regression,
    LogisticRegressionCV: _logistic_regression,
    MLPClassifier: _perceptron,
}
_SUPPORTED = (
    ", ".join(classifier.__name__ for classifier in _CLASSIFIERS)
    + ", a Pipeline that ends in one of them, or a GridSearchCV or RandomizedSearchCV over one"
)
