"""From what the caller has, a model, a table, a target and perhaps a space, to a `Task`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from holdfast._given import positive_number, whole_number
from holdfast._network import Network
from holdfast.changes import Changes
from holdfast.errors import InvalidInputError
from holdfast.features import Feature, FeatureSpace, Kind
from holdfast.features._checks import remark_on_people, remark_on_units
from holdfast.features._columns import Storage
from holdfast.generators._base import Generator, Task
from holdfast.importers import Model, load_model
from holdfast.verify._deciders import decider_for
from holdfast.verify._fingerprint import known_of
from holdfast.verify._inputs import check_changes, check_encoding, check_reading, read_targets


def read_question(
    model: object,
    X: Any,
    *,
    target: Any,
    changes: Changes | None,
    generator: Generator,
    space: FeatureSpace | None,
    seed: int = 0,
    time_limit: float | None = None,
    threshold: Any = None,
) -> Task:
    """Check every argument of `explain` and bring X into the model's variables."""
    loaded = load_model(model, threshold)
    space = space_for(loaded, X, space, generator)
    task = read_people(loaded, space.as_frame(X), space, target=target, changes=changes)
    features, numbers = task.space.features, task.people.numbers
    remark_on_people(features, numbers, task.frame.index)
    remark_on_units(features, numbers)
    return replace(
        task,
        seed=whole_number(seed, "seed", least=0),
        time_limit=None if time_limit is None else positive_number(time_limit, "time_limit"),
    )


def read_people(
    loaded: Model,
    table: pd.DataFrame,
    space: FeatureSpace,
    *,
    target: Any,
    changes: Changes | None = None,
    known: pd.DataFrame | None = None,
) -> Task:
    """The people in the model's variables, and what they want; `known` are rows that the model will be asked about."""
    if changes is not None:
        check_changes(changes)
        # Whoever asks states the chance where it fits.
        changes = known_of(loaded, changes.calibrated(None), "")
    if not len(table):
        raise InvalidInputError("X: expected at least one row, got an empty table")
    check_reading(loaded, space)
    people = space.rows(table)
    loaded = loaded.in_space(space, people if known is None else known)
    points = loaded.classifier.check_points(people.points)
    if loaded.preprocess is not None:
        check_encoding(loaded, own_columns(loaded, table), points)
    return Task(
        model=loaded,
        space=space,
        people=people,
        targets=read_targets(loaded.classifier, target, len(table)),
        decider=None if changes is None else decider_for(loaded, changes),
        frame=table,
    )


def space_for(
    loaded: Model, X: Any, space: FeatureSpace | None, generator: Generator
) -> FeatureSpace:
    """The caller's space, or the one that a generator's advice is in without it."""
    if not isinstance(generator, Generator):
        raise InvalidInputError(
            "generator: expected one such as RNCE(X_train), got "
            f"{getattr(generator, '__name__', type(generator).__name__)}"
        )
    return find_space(loaded, X, space, generator.example_table())


def find_space(
    loaded: Model, X: Any, space: FeatureSpace | None, example: Any = None
) -> FeatureSpace:
    """The caller's space; else one with the preprocessing's encoding; else the model's own variables, unbounded.

    Preprocessing has no ranges, so a space like it takes them from `example`, the candidates that a generator has;
    candidates that were certified before bring their space with them.
    """
    if space is not None:
        if not isinstance(space, FeatureSpace):
            raise InvalidInputError(f"space: expected a FeatureSpace, got {type(space).__name__}")
        known = loaded.classifier
        if isinstance(known, Network) and space.n_variables != known.n_features:
            raise InvalidInputError(
                f"space: expected one with the model's {known.n_features} variables, got {space.n_variables}"
            )
        check_reading(loaded, space)
        return space
    if isinstance(example, FeatureSpace):
        check_reading(loaded, example)
        return example
    if loaded.preprocess is None:
        return own_variables(loaded, X)
    transformers = getattr(loaded.preprocess, "transformers", None)
    if transformers is None or not isinstance(example, pd.DataFrame):
        raise InvalidInputError(
            "space: expected a feature space for a model with preprocessing, got None; "
            "pass space=FeatureSpace.from_pipeline(pipeline, X_train)"
        )
    example = loaded.with_unread(example)
    names = list(example.columns if loaded.feature_names is None else loaded.feature_names)
    missing = [name for name in names if name not in example.columns]
    if missing:
        raise InvalidInputError(
            f"candidates: expected the column {missing[0]!r}, got {list(example.columns)}"
        )
    pipeline = Pipeline([(str(i), transformer) for i, transformer in enumerate(transformers)])
    try:
        return FeatureSpace.from_pipeline(pipeline, example[names])
    except InvalidInputError as error:
        raise InvalidInputError(
            f"space: expected one, because none could be derived from the model's preprocessing: {error}"
        ) from error


def own_variables(loaded: Model, X: Any) -> FeatureSpace:
    """The model's variables as they are: continuous, free and unbounded.

    Examples
    --------
    >>> from holdfast._network import Network
    >>> own_variables(load_model(Network([[[1.0, -1.0]]], [[0.0]])), [[0.0, 1.0]]).variables
    ('x0', 'x1')
    """
    loaded.check_numbers(X)
    n_variables = loaded.classifier.n_features
    names: list[Any] = [f"x{i}" for i in range(n_variables)]
    if loaded.feature_names is not None:
        names = list(loaded.feature_names)
    elif isinstance(X, pd.DataFrame):
        names = list(X.columns)
    if len(names) != n_variables:
        raise InvalidInputError(
            f"X: expected {n_variables} columns, one for each variable of the model, got {len(names)}"
        )
    features = []
    for i, name in enumerate(names):
        floats = (
            isinstance(X, pd.DataFrame)
            and name in X.columns
            and pd.api.types.is_float_dtype(X.dtypes[name])
        )
        storage = Storage.of(X[name]) if floats else Storage()
        features.append(Feature(name, Kind.CONTINUOUS, -np.inf, np.inf, (i,), storage=storage))
    return FeatureSpace(tuple(features))


def own_columns(loaded: Model, table: pd.DataFrame) -> pd.DataFrame:
    """The columns that the model's preprocessing reads, in its order, where it knows them; else the table as it is."""
    known = loaded.feature_names
    table = loaded.with_unread(table)
    if (
        loaded.preprocess is not None
        and known is not None
        and all(name in table.columns for name in known)
    ):
        return table[list(known)]
    return table
