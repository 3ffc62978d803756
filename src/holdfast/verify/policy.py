"""A threshold that may move: whoever decides has to accept at the hardest one.

two classes, class 1 from the probability t on, t in [low, high]:    for class 1 the hardest is high, for class 0 low
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from holdfast.changes import Changes
from holdfast.classifier import Classifier
from holdfast.errors import InvalidInputError
from holdfast.importers import Model
from holdfast.importers.thresholds import HALF


@dataclass(frozen=True)
class MovingThreshold:
    """A model under changes that let its threshold move too."""

    model: Model
    changes: Changes
    decide: Callable[[Model, Changes], Any]

    def __post_init__(self) -> None:
        if self.model.classifier.n_outputs > 1:
            raise InvalidInputError("threshold: expected a model of two classes for one that may move, got several")

    @property
    def classifier(self) -> Classifier:
        """Today's model, at today's threshold."""
        return self.model.classifier

    def toward(self, targets: ArrayLike) -> Any:
        """Who decides whether these classes are kept, at the threshold that is hardest for them."""
        wanted = np.unique(np.asarray(targets))
        if wanted.size != 1:
            raise InvalidInputError("target: expected one class for all rows where the threshold may move, got several")
        assert self.changes.threshold is not None
        own, (low, high) = self.model.threshold or HALF, self.changes.threshold
        assert isinstance(own, float)
        hardest = max(own, high) if int(wanted[0]) == 1 else min(own, low)
        # All three are the caller's probabilities: of a calibrated model the calibrated ones, which `at` minds.
        trained = replace(self.model, classifier=self.model.trained, threshold=None, as_trained=None)
        return self.decide(trained.at(hardest), self.changes)
