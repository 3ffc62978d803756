"""A classifier together with the way from the caller's table to the variables that it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from holdfast.classifier import Classifier
from holdfast.errors import HoldfastError, InvalidInputError, UnsupportedModelError
from holdfast.features import FeatureSpace
from holdfast.given import given_array
from holdfast.network import Floats, Network
from holdfast.scored import Scored


@dataclass(frozen=True)
class Model:
    """A classifier, and how a raw table becomes what it reads.

    Parameters
    ----------
    classifier
        The classifier itself: a `Network`, or any other model by its scores.
    preprocess
        What is done to a raw table first, such as the earlier steps of a scikit-learn pipeline. It is never folded into
        the network's parameters, because Δ is about the parameters of the classifier as it was trained.
    feature_names
        The columns of the raw table, where the model knows them.
    estimator
        The classifier without preprocessing that the network was read from, where a pipeline may hold it.

    Examples
    --------
    >>> import pandas as pd
    >>> model = Model(Network([[[1.0, -1.0]]], [[0.0]]), feature_names=("income", "debt"))
    >>> model.variables(pd.DataFrame({"debt": [1.0, 2.0], "income": [5.0, 6.0]}))
    array([[5., 1.],
           [6., 2.]])
    """

    classifier: Classifier
    preprocess: Callable[[Any], Any] | None = None
    feature_names: tuple[str, ...] | None = None
    estimator: Any = field(default=None, compare=False, repr=False)

    @property
    def network(self) -> Network:
        """The classifier as a network; raises for a model that is known by its scores alone."""
        return as_network(self.classifier)

    def logits(self, X: Any) -> Floats:
        """The scores of a raw table, preprocessing included, (n, n_outputs)."""
        return self.classifier.logits(self.variables(X))

    def in_space(self, space: FeatureSpace) -> Model:
        """The model, asked about points of this space: a model that is no network reads the rows they stand for."""
        if not isinstance(self.classifier, Scored):
            return self
        return replace(self, classifier=self.classifier.reading(space.decode, space.n_variables))

    def variables(self, X: Any) -> Floats:
        """X in the variables that the classifier reads, a float64 array (n, n_features).

        Parameters
        ----------
        X
            A table: a DataFrame, whose columns are matched by name where the model knows its names, or an array, whose
            columns are taken in the model's order.
        """
        if isinstance(X, list | tuple | np.ndarray):
            X = given_array(X, "X")
        if self.feature_names is not None and hasattr(X, "columns"):
            X = _in_order(X, self.feature_names)
        if self.preprocess is not None:
            if self.feature_names is not None and not hasattr(X, "columns"):
                X = _named(X, self.feature_names)
            X = _preprocessed(X, self.preprocess)
        return self.classifier.check_points(_dense(X))


def as_network(classifier: Classifier) -> Network:
    """The classifier, which must be a network."""
    if isinstance(classifier, Network):
        return classifier
    why = classifier.why if isinstance(classifier, Scored) else repr(classifier)
    raise UnsupportedModelError(
        f"{why}; without a network only margins are known: PlausibleShift and EnsembleShift as changes, NNCE, RNCE and "
        "STCE as generators take any model"
    )


def _preprocessed(X: Any, preprocess: Callable[[Any], Any]) -> Any:
    try:
        return preprocess(X)
    except HoldfastError:
        raise
    # A pipeline step may be anyone's code and raise anything; to the caller it is the table that did not fit.
    except Exception as error:
        raise InvalidInputError(
            f"X: expected a table that the model's preprocessing accepts, got {type(error).__name__}: {error}"
        ) from error


def _in_order(frame: Any, names: tuple[str, ...]) -> Any:
    """The columns `names` of the frame in that order; raises unless the frame has exactly those."""
    columns = list(frame.columns)
    missing = [name for name in names if name not in columns]
    extra = [column for column in columns if column not in names]
    if missing or extra:
        faults = [f"missing {missing}"] * bool(missing) + [f"unknown to the model {extra}"] * bool(extra)
        raise InvalidInputError(f"X: expected the columns {list(names)}, got {columns}: {', '.join(faults)}")
    if len(columns) != len(names):
        twice = sorted({str(column) for column in columns if columns.count(column) > 1})
        raise InvalidInputError(f"X: expected each column once, got {twice} more than once")
    return frame[list(names)]


def _named(X: Any, names: tuple[str, ...]) -> pd.DataFrame:
    """An array as the frame that the first step was fitted on: a column transformer looks columns up by name."""
    values = given_array(_dense(X), "X")
    if values.ndim != 2 or values.shape[1] != len(names):
        raise InvalidInputError(f"X: expected a table with the columns {list(names)}, got shape {values.shape}")
    return pd.DataFrame(values, columns=list(names))


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X
