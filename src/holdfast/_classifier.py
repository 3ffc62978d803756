"""The interface of every model: it scores a table. Some promises need nothing more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast._given import given_points, shown
from holdfast.errors import InvalidInputError

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]
Values = NDArray[Any]
# Two arrays, as a rule what bounds something from below and from above.
Pair = tuple[Floats, Floats]


class Classifier(ABC):
    """A model given by its scores: one logit for two classes, otherwise one for each class; the highest wins."""

    classes: Values

    @property
    @abstractmethod
    def tie(self) -> int:
        """The class, of two, that a logit of exactly 0 means; of several classes, the earlier one."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of variables that the model reads."""

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Number of logits: 1 for two classes, otherwise one for each class."""

    @abstractmethod
    def logits(self, X: ArrayLike) -> Floats:
        """The scores before any sigmoid or softmax, (n, n_outputs)."""

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class label of each row."""
        return self.classes[self.predict_index(X)]

    def predict_index(self, X: ArrayLike) -> Ints:
        """The index of each row's class in `classes`."""
        return self.winners(self.logits(X))

    def winners(self, logits: Floats) -> Ints:
        """The index of the class that these logits give."""
        if self.n_outputs > 1:
            return np.asarray(logits.argmax(axis=1))
        won = logits[:, 0] >= 0.0 if self.tie == 1 else logits[:, 0] > 0.0
        return np.asarray(won, dtype=np.intp)

    def class_index(self, target: object) -> int:
        """The position of the label `target` in `classes`."""
        labels = self.classes.tolist()
        target = target.item() if isinstance(target, np.generic) else target
        if labels.count(target) != 1:
            raise InvalidInputError(f"target: expected one of {labels}, got {shown(target)}")
        return int(labels.index(target))

    def check_points(self, X: ArrayLike) -> Floats:
        """X as a finite (n, n_features) float64 array; raises `InvalidInputError` and names the fault otherwise."""
        return given_points(X, "X", self.n_features)
