"""The encoding of promised rows for a new model, and the rows that it can read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from holdfast._network import Bools
from holdfast._scored import Scored
from holdfast.errors import InvalidInputError
from holdfast.features import Feature, FeatureSpace
from holdfast.generators._reading import find_space, own_columns
from holdfast.importers import Model
from holdfast.verify._inputs import check_reading, variable_places


def reading_of(
    loaded: Model,
    given: FeatureSpace | None,
    promised: FeatureSpace,
    example: Callable[[], pd.DataFrame],
) -> FeatureSpace | None:
    """The feature space by which the model reads the promises' columns; None if none fits, or it reads them itself.

    Parameters
    ----------
    given
        The caller's feature space; the audit checks row by row that the model's own preprocessing agrees.
    promised
        The space of the promises.
    example
        Returns some of the promised rows; called only if the model has its own preprocessing.
    """
    if given is not None:
        return find_space(loaded, None, given)
    if loaded.preprocess is not None:
        rows = example()
        try:
            rows = rows[accepted_rows(loaded, rows, promised)]
            return find_space(loaded, rows, None, rows)
        except InvalidInputError:
            return None
    if isinstance(loaded.classifier, Scored):
        return None
    if promised.n_variables != loaded.classifier.n_features:
        raise InvalidInputError(
            f"space: expected one for the new model, because it reads {loaded.classifier.n_features} variables and "
            f"the ledger's promises have {promised.n_variables}, got None"
        )
    if loaded.feature_names is not None:
        # A model that knows its variables by name may have them in another order.
        places = variable_places(promised)
        known = [places.get(name, ()) for name in loaded.feature_names]
        if not all(i in candidates for i, candidates in enumerate(known)):
            order = {candidates[0]: i for i, candidates in enumerate(known) if len(candidates) == 1}
            if len(order) != promised.n_variables:
                raise InvalidInputError(
                    f"space: expected one for the new model, because it was fitted on {list(loaded.feature_names)} "
                    f"and the ledger's promises have the variables {list(promised.variables)}, got None"
                )
            features = (
                replace(one, variables=tuple(map(order.__getitem__, one.variables)))
                for one in promised.features
            )
            promised = FeatureSpace(tuple(features), promised.rules)
    check_reading(loaded, promised)
    return promised


def readable_rows(space: FeatureSpace, frame: pd.DataFrame) -> Bools:
    """Mask of the rows whose value in every column can be encoded by the space."""
    readable = np.ones(len(frame), dtype=np.bool_)
    for feature in space.features:
        if feature.name not in frame.columns:
            return np.zeros(len(frame), dtype=np.bool_)
        column = frame[feature.name]
        try:
            feature.numbers(column)
        except InvalidInputError:
            readable &= column.map(
                {value: _can_read(feature, value) for value in column.unique()}
            ).to_numpy(bool)
    return readable


def _can_read(feature: Feature, value: Any) -> bool:
    try:
        feature.numbers(pd.Series([value]))
    except InvalidInputError:
        return False
    return True


def accepted_rows(loaded: Model, frame: pd.DataFrame, promised: FeatureSpace) -> Bools:
    """Mask of the rows that the model's own preprocessing accepts: a refused category affects only its own rows.

    Rows with the same labels are accepted or refused together, so one of each is tried.
    """
    if not len(frame) or _takes(loaded, frame):
        return np.ones(len(frame), dtype=np.bool_)
    labelled = [feature.name for feature in promised.features if feature.labelled]
    if not labelled or not set(loaded.feature_names or ()) - loaded.unread <= set(
        map(str, frame.columns)
    ):
        return np.zeros(len(frame), dtype=np.bool_)
    kinds = frame.groupby(labelled, sort=False, observed=True).ngroup().to_numpy()
    firsts = np.unique(kinds, return_index=True)[1]
    accepted = np.zeros(len(firsts), dtype=np.bool_)
    open_parts = [np.arange(len(firsts))]
    while open_parts:
        part = open_parts.pop()
        if _takes(loaded, frame.iloc[firsts[part]]):
            accepted[part] = True
        elif len(part) > 1:
            open_parts += np.array_split(part, 2)
    return accepted[kinds]


def _takes(loaded: Model, frame: pd.DataFrame) -> bool:
    try:
        if isinstance(loaded.classifier, Scored):
            asked, rows = loaded.classifier.about(frame)
            asked.logits(rows)
        else:
            loaded.variables(own_columns(loaded, frame))
    except InvalidInputError:
        return False
    return True
