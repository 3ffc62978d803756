"""The probability from which a model decides for a class: a constant subtracted from the logits of any model.

    two classes      class 1 iff p_1 >= t          the logit less log(t / (1 - t))
    several          the class with the greatest p_k / t_k          each logit less log(t_k)

The second formula gives the first for two classes with the thresholds (1 - t, t). A network at a threshold is again
a network: its last biases are the floats nearest to the differences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from holdfast._classifier import Classifier
from holdfast._given import given_number
from holdfast._network import Floats, Network
from holdfast._scored import Scored
from holdfast.errors import InvalidInputError

# A probability for two classes; for several one for each, in the model's order.
Threshold = float | tuple[float, ...]
HALF = 0.5
# What rounding may take from the constant before a model is refused, as in `holdfast.checker`.
LOST_AT_MOST = 1e-9


def check_threshold(threshold: Any, classifier: Classifier | None = None) -> Threshold:
    """A probability strictly between 0 and 1; of several classes one for each, by label or in the model's order."""
    if classifier is not None and classifier.n_outputs > 1:
        return _several(threshold, classifier)
    number = given_number(threshold)
    if number is None or not 0.0 < number < 1.0:
        raise InvalidInputError(
            f"threshold: expected a probability between 0 and 1, got {threshold!r}"
        )
    return number


def _several(threshold: Any, classifier: Classifier) -> Threshold:
    labels = classifier.classes.tolist()
    if given_number(threshold) == HALF:
        return HALF
    given, unknown = threshold, False
    if isinstance(threshold, Mapping):
        given = [threshold.get(label) for label in labels]
        unknown = any(label not in labels for label in threshold)
    parts = given if isinstance(given, Sequence | np.ndarray) else []
    numbers = tuple(given_number(part) or 0.0 for part in parts)
    if unknown or len(numbers) != len(labels) or not all(0.0 < n < 1.0 for n in numbers):
        raise InvalidInputError(
            f"threshold: expected a probability for each of the classes {labels}, between 0 and 1, got {threshold!r}"
        )
    return numbers


def logit(threshold: float) -> float:
    """log(t / (1 - t)): the logit at which a model with the threshold t changes its decision."""
    return math.log(threshold) - math.log1p(-threshold)


@dataclass(frozen=True)
class Sigmoid:
    """Probabilities  1 / (1 + exp(a f + b)),  a < 0, of a classifier's score f: its logit, or its own probability."""

    a: float
    b: float
    by_logit: bool

    def __call__(self, threshold: float) -> float:
        """The logit of the classifier at which the probability is the threshold."""
        score = (-self.b - logit(threshold)) / self.a
        if self.by_logit:
            return score
        if not 0.0 < score < 1.0:
            raise InvalidInputError(
                f"threshold: expected a probability that the calibrated model can reach, got {threshold}"
            )
        return logit(score)

    def log_odds(self, logits: Floats) -> Floats:
        """Log-odds of the probability, from the classifier's logits."""
        return -self.a * (logits if self.by_logit else 1.0 / (1.0 + np.exp(-logits))) - self.b


def offsets(threshold: Threshold) -> list[float]:
    """The amounts subtracted from each logit."""
    if isinstance(threshold, tuple):
        return [math.log(part) for part in threshold]
    return [logit(threshold)]


def at_threshold(classifier: Classifier, threshold: Threshold) -> Classifier:
    """The model at a threshold: its logits less a constant.

    Examples
    --------
    >>> at_threshold(Network([[[1.0]]], [[0.0]]), 0.75).biases[-1].round(6)
    array([-1.098612])
    """
    if threshold == HALF:
        return classifier
    checked = check_threshold(threshold, classifier)
    return lowered(classifier, offsets(checked), checked if isinstance(checked, float) else None)


def lowered(
    classifier: Classifier, off: Sequence[float], threshold: float | None = None
) -> Classifier:
    """The model with a constant subtracted from each of its logits for a threshold."""
    if isinstance(classifier, Scored):
        return classifier.at(off, threshold)
    assert isinstance(classifier, Network)
    last = classifier.biases[-1] - np.array(off)
    for moved, bias, less in zip(last.tolist(), classifier.biases[-1].tolist(), off, strict=True):
        # Of several logits two are held against each other.
        lost = abs(Fraction(moved) - Fraction(bias) + Fraction(less)) * min(len(off), 2)
        if lost > LOST_AT_MOST:
            raise InvalidInputError(
                f"threshold: expected a model whose last biases can be lowered by {less:g}, got {bias:g}, too large to "
                "represent the difference"
            )
    return classifier.with_parameters(classifier.weights, [*classifier.biases[:-1], last])
