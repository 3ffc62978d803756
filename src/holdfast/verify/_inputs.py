"""From what the caller has, a model, a table and a target, to what the mathematics takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from holdfast._arrays import to_numpy
from holdfast._classifier import Classifier
from holdfast._given import given_array
from holdfast._network import Floats, Ints
from holdfast._scored import Scored
from holdfast.changes import Changes
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.features._feature import Feature
from holdfast.importers import Model, load_model
from holdfast.importers._sklearn import pipelines_around

# Two encodings differ by no more than their rounding.
_SAME = 1e-9


class Space(Protocol):
    """What this room needs of a feature space."""

    def encode(self, frame: Any) -> Floats:
        """Raw units to the model's variables."""


@dataclass(frozen=True)
class Table:
    """Points in the model's variables, with the caller's index."""

    model: Model
    points: Floats
    index: pd.Index


def read_table(model: object, X: Any, space: Space | None = None, name: str = "X") -> Table:
    """Load the model and bring X into its variables; at least one row is expected.

    Refuses a row that a model which reads the caller's table would not be asked about to the last bit.
    """
    loaded = load_model(model)
    X = to_numpy(X) if hasattr(X, "is_cuda") else X
    index = X.index if isinstance(X, pd.DataFrame) else None
    if index is not None and index.empty:  # before a pipeline complains in words of its own
        raise InvalidInputError(f"{name}: expected at least one row, got an empty table")
    try:
        if isinstance(space, FeatureSpace):
            # A network reads points; any other model is asked about these very rows.
            asked = index is not None and isinstance(loaded.classifier, Scored)
            loaded = loaded.in_space(space, X if asked else None)
            check_reading(loaded, space)
        if space is None:
            points = loaded.variables(X)
        else:
            points = loaded.classifier.check_points(space.encode(X))
            check_encoding(loaded, X, points)
    except InvalidInputError as error:
        raise InvalidInputError(str(error).replace("X: ", f"{name}: ", 1)) from error
    if not len(points):
        raise InvalidInputError(f"{name}: expected at least one row, got an empty table")
    if index is not None and isinstance(loaded.classifier, Scored):
        other = loaded.classifier.other_rows(points, X)
        if other.any():
            row = int(other.argmax())
            raise InvalidInputError(
                f"{name}: row {row}: {loaded.classifier.why_other(X.iloc[row])}"
            )
    return Table(loaded, points, pd.RangeIndex(len(points)) if index is None else index)


def check_encoding(loaded: Model, X: Any, points: Floats) -> None:
    """A pipeline and a feature space both say what the network sees of a table; they must say the same."""
    if loaded.preprocess is None:
        return
    difference = _difference(loaded.variables(_in_float64(X)), points)
    if not difference <= _SAME:
        raise InvalidInputError(
            "space: expected the feature space to encode rows as the model's own preprocessing does, got a difference "
            f"of {difference:.3g}; derive the space from the pipeline with FeatureSpace.from_pipeline(pipeline, X)"
        )


def _in_float64(X: Any) -> Any:
    """Narrower floats in float64, which holds them as they are: a pipeline would compute on in float32."""
    if isinstance(X, pd.DataFrame):
        narrow = [i for i, dtype in enumerate(X.dtypes) if dtype in (np.float16, np.float32)]
        return X if not narrow else X.astype(dict.fromkeys(X.columns[narrow], np.float64))
    values = given_array(X, "X")
    return values.astype(np.float64) if values.dtype in (np.float16, np.float32) else X


def check_reading(loaded: Model, space: FeatureSpace) -> None:
    """Refuse a space that is not how this model reads a table, as far as there is something to hold it against.

    A model fitted on a table with column names knows its variables by name, a classifier cut out of a pipeline by what
    the pipeline does before it. A model with preprocessing is compared row by row; all others are taken at their word.
    """
    if isinstance(loaded.classifier, Scored) or loaded.preprocess is not None:
        return
    if loaded.feature_names is not None:
        _check_names(loaded.feature_names, space)
    elif loaded.estimator is not None and not all(map(_is_as_it_is, space.features)):
        around = pipelines_around(loaded.estimator)
        if around and not any(_reads_alike(model, space) for model in around):
            raise InvalidInputError(
                "space: expected one that encodes rows as the pipeline that this classifier is the last step of, got "
                "another; pass the pipeline as the model, with space=FeatureSpace.from_pipeline(pipeline, X)"
            )


def _check_names(names: tuple[str, ...], space: FeatureSpace) -> None:
    """The model's variables are the space's, each at its place, and not such as the space would scale once more.

    Where all names are those of the table's columns, the model may just as well have been fitted on the table itself.
    """
    places = variable_places(space)
    sure = "load_network(model) says that the model reads the space's variables"
    for i, name in enumerate(names):
        if i not in places.get(name, ()):
            raise InvalidInputError(
                f"space: expected the variables in the order in which the model was fitted, {list(names)}, "
                f"got {list(space.variables)}: {name!r} is elsewhere; {sure}"
            )
    scaled = [feature.name for feature in space.features if not _is_as_it_is(feature)]
    if scaled and set(names) <= set(map(str, space.names)):
        raise InvalidInputError(
            f"space: expected one that leaves the columns {list(names)}, on which the model was fitted, as they are, "
            f"got one that scales {scaled[0]!r}; scale='none' leaves them, fit on space.encode(X) for a model that "
            f"reads scaled values, {sure}"
        )


def _is_as_it_is(feature: Feature) -> bool:
    """Whether the model's variable is the number in the caller's table."""
    return feature.numeric and not feature.one_hot and feature.scaling.affine() == (1.0, 0.0)


def _reads_alike(model: Model, space: FeatureSpace) -> bool:
    """Whether a pipeline makes the same of rows as the space does: ends, middles and every label of the columns."""
    n = max(3, *(len(feature.categories) for feature in space.features))
    columns = []
    for feature in space.features:
        lower, upper = max(feature.lower, -1e6), min(feature.upper, 1e6)
        values = np.array([lower, upper, lower / 2 + upper / 2])
        if feature.labelled:
            values = np.arange(len(feature.categories))
        columns.append(np.resize(np.rint(values) if feature.precision == "integer" else values, n))
    frame = space.restore(np.column_stack(columns).astype(np.float64))
    try:
        names = model.feature_names
        theirs = model.variables(frame.to_numpy() if names is None else frame.filter(list(names)))
    except InvalidInputError:
        return False
    return _difference(theirs, space.encode(frame)) <= _SAME


def variable_places(space: FeatureSpace) -> dict[str, tuple[int, ...]]:
    """Where each name is among the space's variables: that of a variable, or of a column that is one variable."""
    columns = {
        feature.variables[0]: feature.name
        for feature in space.features
        if len(feature.variables) == 1
    }
    places: dict[str, tuple[int, ...]] = {}
    for i, variable in enumerate(space.variables):
        for name in {str(variable), str(columns.get(i, variable))}:
            places[name] = (*places.get(name, ()), i)
    return places


def check_changes(changes: object) -> None:
    """Refuse what is not a set of plausible changes."""
    if not isinstance(changes, Changes):
        raise InvalidInputError(
            f"changes: expected PlausibleChanges(delta) or another kind of change, got {changes!r}"
        )


def _difference(a: Floats, b: Floats) -> float:
    return float(np.abs(a - b).max(initial=0.0)) if a.shape == b.shape else math.inf


def read_targets(classifier: Classifier, target: Any, n: int) -> Ints:
    """The class index of each row's target: one label for all rows, or one per row."""
    if isinstance(target, str) or np.ndim(target) == 0:
        return np.full(n, classifier.class_index(target), dtype=np.intp)
    labels = np.asarray(target)
    if labels.shape != (n,):
        raise InvalidInputError(
            f"target: expected one class, or one for each of the {n} rows, got shape {labels.shape}"
        )
    unique, inverse = np.unique(labels, return_inverse=True)
    return np.array([classifier.class_index(label) for label in unique], dtype=np.intp)[inverse]
