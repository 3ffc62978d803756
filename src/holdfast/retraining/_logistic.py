"""Gradient steps for a logistic regression: scikit-learn fits one to convergence or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.utils.class_weight import compute_sample_weight

from holdfast._network import Floats
from holdfast.errors import InvalidInputError

# The paper's optimiser: Adam with these settings, and the decay rates that everybody uses.
LEARNING_RATE = 0.01
BATCH = 256
_DECAY = 0.9
_SQUARE_DECAY = 0.999
_TINY = 1e-8


def gradient_steps(
    estimator: Any, X: Floats, y: Any, rng: np.random.Generator, epochs: int
) -> None:
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
    """1 / C, the weight of the squared coefficients."""
    ratio = getattr(estimator, "l1_ratio", None)
    mixed = isinstance(ratio, int | float) and ratio != 0
    if mixed or getattr(estimator, "penalty", "l2") in ("l1", "elasticnet"):
        raise InvalidInputError(
            "model: expected a LogisticRegression with a squared penalty or none to fine-tune by gradient steps, got "
            "an l1 penalty; pass retrain=, a function (model, X, y, seed) that fine-tunes it"
        )
    strength = np.asarray(
        getattr(estimator, "C_", getattr(estimator, "C", np.inf)), dtype=np.float64
    )
    return 0.0 if getattr(estimator, "penalty", "l2") is None else float(np.mean(1.0 / strength))
