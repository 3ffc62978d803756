"""Gradient steps for a logistic regression: scikit-learn fits one to convergence or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.utils.class_weight import compute_sample_weight

from holdfast.errors import InvalidInputError
from holdfast.network import Floats

# The paper's optimiser: Adam with these settings, and the decay rates that everybody uses.
LEARNING_RATE = 0.01
BATCH = 256
_DECAY, _SQUARE_DECAY, _TINY = 0.9, 0.999, 1e-8


def gradient_steps(estimator: Any, X: Floats, y: Any, rng: np.random.Generator, epochs: int) -> None:
    """Move a fitted `LogisticRegression` by `epochs` passes of Adam over these rows, in place.

    The loss is the estimator's own on these rows, mean log loss + ||W||^2 / (2 C n), with its class weights. A fit to
    convergence on a small share of new data would forget the old data altogether; this is fine-tuning.
    """
    targets = (np.asarray(y)[:, None] == estimator.classes_).astype(np.float64)
    binary = estimator.coef_.shape[0] == 1
    probabilities = expit if binary else lambda scores: softmax(scores, axis=1)
    targets = targets[:, 1:] if binary else targets
    importance = compute_sample_weight(estimator.class_weight, y)[:, None]
    shrink = _penalty(estimator) / X.shape[0]
    parameters = [np.array(estimator.coef_, dtype=np.float64), np.array(estimator.intercept_, dtype=np.float64)]
    adam = _Adam(parameters)
    for _ in range(epochs):
        order = rng.permutation(X.shape[0])
        for start in range(0, X.shape[0], BATCH):
            rows = order[start : start + BATCH]
            error = importance[rows] * (probabilities(X[rows] @ parameters[0].T + parameters[1]) - targets[rows])
            slope, offset = error.T @ X[rows] / rows.size + shrink * parameters[0], error.mean(axis=0)
            adam.step([slope, offset if estimator.fit_intercept else np.zeros_like(offset)])
    estimator.coef_, estimator.intercept_ = parameters


class _Adam:
    """Kingma and Ba's optimiser over a list of arrays, which it changes in place."""

    def __init__(self, parameters: list[Floats]) -> None:
        self._parameters = parameters
        self._mean = [np.zeros_like(values) for values in parameters]
        self._square = [np.zeros_like(values) for values in parameters]
        self._steps = 0

    def step(self, gradients: list[Floats]) -> None:
        self._steps += 1
        rate = LEARNING_RATE * np.sqrt(1 - _SQUARE_DECAY**self._steps) / (1 - _DECAY**self._steps)
        for values, gradient, mean, square in zip(self._parameters, gradients, self._mean, self._square, strict=True):
            mean += (1 - _DECAY) * (gradient - mean)
            square += (1 - _SQUARE_DECAY) * (gradient**2 - square)
            values -= rate * mean / (np.sqrt(square) + _TINY)


def _penalty(estimator: Any) -> float:
    """1 / C, the weight of the squared coefficients."""
    ratio = getattr(estimator, "l1_ratio", None)
    mixed = isinstance(ratio, int | float) and ratio != 0
    if mixed or getattr(estimator, "penalty", "l2") in ("l1", "elasticnet"):
        raise InvalidInputError(
            "model: expected a LogisticRegression with a squared penalty or none to fine-tune by gradient steps, got "
            "an l1 penalty; pass retrain=, a function (model, X, y, seed) that fine-tunes it"
        )
    strength = np.asarray(getattr(estimator, "C_", getattr(estimator, "C", np.inf)), dtype=np.float64)
    return 0.0 if getattr(estimator, "penalty", "l2") is None else float(np.mean(1.0 / strength))
