"""From what the caller has, a model, a table and a target, to what the mathematics takes."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.arrays import to_numpy
from holdfast.changes import PlausibleChanges
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.importers import Model, load_model
from holdfast.network import Floats, Network


class Space(Protocol):
    """What this room needs of a feature space."""

    def encode(self, frame: Any) -> Floats:
        """Raw units to the model's variables."""


@dataclass(frozen=True)
class Table:
    """Points in the model's variables, with the caller's index."""

    network: Network
    points: Floats
    index: pd.Index


def read_table(model: object, X: Any, space: Space | None = None, name: str = "X") -> Table:
    """Load the model and bring X into its variables; at least one row is expected."""
    loaded = load_model(model)
    X = to_numpy(X) if hasattr(X, "is_cuda") else X
    index = X.index if isinstance(X, pd.DataFrame) else None
    if index is not None and index.empty:  # before a pipeline complains in words of its own
        raise InvalidInputError(f"{name}: expected at least one row, got an empty table")
    try:
        points = _variables(loaded, X, space)
    except InvalidInputError as error:
        raise InvalidInputError(str(error).replace("X: ", f"{name}: ", 1)) from error
    if points.shape[0] == 0:
        raise InvalidInputError(f"{name}: expected at least one row, got an empty table")
    return Table(loaded.network, points, pd.RangeIndex(points.shape[0]) if index is None else index)


def _variables(loaded: Model, X: Any, space: Space | None) -> Floats:
    if space is None:
        return loaded.variables(X)
    if isinstance(space, FeatureSpace):
        check_order(loaded, space)
    points = loaded.network.check_points(space.encode(X))
    if loaded.preprocess is not None:
        _check_same_encoding(loaded.variables(X), points)
    return points


def check_order(loaded: Model, space: FeatureSpace) -> None:
    """Refuse a space that has one of the model's own variables at another place than the model.

    A model fitted on a table with column names knows its variables by name. Names that the space does not know say
    nothing: whoever fits on encoded columns may call them anything. A model with preprocessing is compared by value.
    """
    if loaded.preprocess is not None or loaded.feature_names is None:
        return
    places = variable_places(space)
    for i, name in enumerate(loaded.feature_names):
        if i not in places.get(name, (i,)):
            raise InvalidInputError(
                f"space: expected the variables in the order in which the model was fitted, "
                f"{list(loaded.feature_names)}, got {list(space.variables)}: {name!r} is elsewhere"
            )


def variable_places(space: FeatureSpace) -> dict[str, tuple[int, ...]]:
    """Where each name is among the space's variables: that of a variable, or of a column that is one variable."""
    names = [(str(name), i) for i, name in enumerate(space.variables)]
    names += [(str(feature.name), feature.variables[0]) for feature in space.features if len(feature.variables) == 1]
    places: dict[str, tuple[int, ...]] = {}
    for name, i in dict.fromkeys(names):
        places[name] = (*places.get(name, ()), i)
    return places


def check_changes(changes: object) -> None:
    """Refuse what is not a set of plausible changes."""
    if not isinstance(changes, PlausibleChanges):
        raise InvalidInputError(f"changes: expected PlausibleChanges(delta), got {changes!r}")


def positive_number(value: Any, name: str) -> float:
    """`value` as a finite float > 0, or an error that names it."""
    number = _finite(value)
    if number is None or not number > 0.0:
        raise InvalidInputError(f"{name}: expected a number > 0, got {_shown(value)}")
    return number


def non_negative_number(value: Any, name: str) -> float:
    """`value` as a finite float >= 0, or an error that names it."""
    number = _finite(value)
    if number is None or not number >= 0.0:
        raise InvalidInputError(f"{name}: expected a number >= 0, got {_shown(value)}")
    return number


def whole_number(value: Any, name: str, *, least: int) -> int:
    """`value` as an int of at least `least`, or an error that names it."""
    try:
        number = operator.index(value)
    except TypeError as error:
        raise InvalidInputError(f"{name}: expected a whole number >= {least}, got {value!r}") from error
    if number < least:
        raise InvalidInputError(f"{name}: expected at least {least}, got {value}")
    return number


def _shown(value: Any) -> Any:
    """Texts in quotes, and numbers without the name of their type."""
    return repr(value) if isinstance(value, str | bytes) else value


def _finite(value: Any) -> float | None:
    """`value` as a finite float, or None. A text that reads like a number is a text."""
    if isinstance(value, str | bytes):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _check_same_encoding(theirs: Floats, ours: Floats) -> None:
    """A pipeline and a feature space both say what the network sees; they must say the same."""
    difference = np.abs(theirs - ours).max(initial=0.0) if theirs.shape == ours.shape else np.inf
    if not difference <= 1e-9:
        raise InvalidInputError(
            "space: expected the feature space to encode rows as the model's own preprocessing does, got a difference "
            f"of {difference:.3g}; derive the space from the pipeline with "
            "FeatureSpace.from_pipeline, or pass the pipeline's last step as the model"
        )


def read_targets(network: Network, target: Any, n: int) -> NDArray[np.intp]:
    """The class index of each row's target: one label for all rows, or one per row."""
    if isinstance(target, str) or np.ndim(target) == 0:
        return np.full(n, network.class_index(target), dtype=np.intp)
    labels = np.asarray(target)
    if labels.shape != (n,):
        raise InvalidInputError(
            f"target: expected one class, or one for each of the {n} rows, got shape {labels.shape}"
        )
    unique, inverse = np.unique(labels, return_inverse=True)
    return np.array([network.class_index(label) for label in unique], dtype=np.intp)[inverse]
