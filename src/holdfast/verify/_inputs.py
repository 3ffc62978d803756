"""Turn the caller's model, table and target into points, classes and indices."""

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
    """The part of a feature space that certifying uses."""

    def encode(self, frame: Any) -> Floats:
        """Turn raw units into the model's variables."""


@dataclass(frozen=True)
class Table:
    """Points in the model's variables, with the caller's index."""

    model: Model
    points: Floats
    index: pd.Index


def read_table(model: object, X: Any, space: Space | None = None, name: str = "X") -> Table:
    """Load the model and bring X into its variables; at least one row is expected.

    Raises for a row whose encoding changes a value that a model of the caller's table would read.
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
    """Raise unless a pipeline and a feature space encode the table alike."""
    if loaded.preprocess is None:
        return
    difference = _difference(loaded.variables(_in_float64(X)), points)
    if not difference <= _SAME:
        raise InvalidInputError(
            "space: it encodes rows differently from the model's own preprocessing (largest difference "
            f"{difference:.3g}); derive the space from the pipeline with FeatureSpace.from_pipeline(pipeline, X)"
        )


def _in_float64(X: Any) -> Any:
    """Narrow floats as float64, without loss; a pipeline would continue in float32."""
    if isinstance(X, pd.DataFrame):
        narrow = [i for i, dtype in enumerate(X.dtypes) if dtype in (np.float16, np.float32)]
        return X if not narrow else X.astype(dict.fromkeys(X.columns[narrow], np.float64))
    values = given_array(X, "X")
    return values.astype(np.float64) if values.dtype in (np.float16, np.float32) else X


def check_reading(loaded: Model, space: FeatureSpace) -> None:
    """Raise if the space contradicts how the model reads a table, as far as the model says so.

    A model fitted on named columns knows its variables by name. A classifier cut out of a pipeline is compared with
    the
        steps of the pipeline. A model with preprocessing is compared row by row. Other models are not checked.
    """
    if isinstance(loaded.classifier, Scored) or loaded.preprocess is not None:
        return
    if loaded.feature_names is not None:
        _check_names(loaded.feature_names, space)
    elif loaded.estimator is not None and not all(map(_is_as_it_is, space.features)):
        around = pipelines_around(loaded.estimator)
        if around and not any(_reads_alike(model, space) for model in around):
            raise InvalidInputError(
                "space: it encodes rows differently from the pipeline that ends in this classifier; "
                "pass the pipeline as the model, with space=FeatureSpace.from_pipeline(pipeline, X)"
            )


def _check_names(names: tuple[str, ...], space: FeatureSpace) -> None:
    """Raise unless the model's variables are those of the space, in order, and are not scaled twice.

    If all names are columns of the table, the model may have been fitted on the table itself.
    """
    places = variable_places(space)
    sure = "or pass load_network(model) to state that the model reads the space's variables"
    for i, name in enumerate(names):
        if i not in places.get(name, ()):
            raise InvalidInputError(
                f"space: {name!r} is not at its place: the model was fitted on {', '.join(names)}, and the space "
                f"has {', '.join(map(str, space.variables))}; use the model's order, {sure}"
            )
    scaled = [feature.name for feature in space.features if not _is_as_it_is(feature)]
    if scaled and set(names) <= set(map(str, space.names)):
        raise InvalidInputError(
            f"space: it scales {scaled[0]!r}, but the model was fitted on the unscaled columns {', '.join(names)}; "
            f"use scale='none', or fit the model on space.encode(X), {sure}"
        )


def _is_as_it_is(feature: Feature) -> bool:
    """Whether the model's variable is the number in the caller's table."""
    return feature.numeric and not feature.one_hot and feature.scaling.affine() == (1.0, 0.0)


def _reads_alike(model: Model, space: FeatureSpace) -> bool:
    """Whether a pipeline and the space encode the ends, the middle and every label of the columns alike."""
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
    """The places of each name among the variables: a variable's name, or that of a column with one variable."""
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
    """Raise unless `changes` is a set of plausible changes."""
    if not isinstance(changes, Changes):
        raise InvalidInputError(
            "changes: expected PlausibleChanges(delta) or another kind of change, got "
            f"{changes!r:.80}"
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
            f"target: expected one class, or one class for each of the {n} rows, got shape {labels.shape}"
        )
    unique, inverse = np.unique(labels, return_inverse=True)
    return np.array([classifier.class_index(label) for label in unique], dtype=np.intp)[inverse]
