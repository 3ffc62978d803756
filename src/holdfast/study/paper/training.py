"""The authors' training, by scikit-learn."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from holdfast.network import Floats
from holdfast.study.paper.settings import LEARNING_RATE, PENALTY_PER_ROW, Training


def classifier(training: Training, rows: int) -> MLPClassifier:
    """So many passes of Adam, converged or not; without hidden layers it is a logistic regression, as theirs.

    `rows` is how many the least of its trainings has: scikit-learn minds a batch that is larger.
    """
    return MLPClassifier(
        training.hidden,
        alpha=PENALTY_PER_ROW * training.batch,
        batch_size=min(training.batch, rows),
        learning_rate_init=LEARNING_RATE,
        max_iter=training.epochs,
        n_iter_no_change=training.epochs,
    )


def fitted(model: MLPClassifier, points: Floats, labels: NDArray[Any]) -> MLPClassifier:
    """The classifier after its passes over these rows."""
    with warnings.catch_warnings():
        # So many passes are what is meant, converged or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(points, labels)


@dataclass(frozen=True)
class FineTune:
    """One more pass over other rows, by an Adam that starts anew.

    scikit-learn's `partial_fit` goes on with the running means of the training, the authors' has none: its first steps
    move every parameter by the whole learning rate, which is what makes δ_inc as large as it is.
    """

    batch: int

    def __call__(self, model: MLPClassifier, X: Floats, y: NDArray[Any], seed: int) -> MLPClassifier:
        tuned = copy.deepcopy(model)
        vars(tuned).pop("_optimizer", None)
        tuned.set_params(random_state=seed, batch_size=min(self.batch, len(X)))
        return tuned.partial_fit(X, y)
