"""Whether two models read a table in the same way, so that their parameters can be compared number by number."""

from __future__ import annotations

from holdfast._trees import steps_digest
from holdfast.importers._model import Model


def same_preprocessing(a: Model, b: Model) -> bool:
    """Whether both bring a raw table into their variables alike: the same steps, fitted to the same numbers.

    Behind a scaler that was fitted anew every parameter means something else, and a distance between parameters says
    nothing about what the models do. Two copies are compared by the hash of all that was fitted; steps that have no
    hash, such as code of others, count as different.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from holdfast.importers import load_model
    >>> today, refitted = (
    ...     load_model(make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, [0, 0, 1]))
    ...     for rows in ([[1.0], [2.0], [3.0]], [[1.0], [2.0], [4.0]])
    ... )
    >>> same_preprocessing(today, today), same_preprocessing(today, refitted)
    (True, False)
    """
    if (
        a.feature_names is not None
        and b.feature_names is not None
        and a.feature_names != b.feature_names
    ):
        return False
    if a.preprocess == b.preprocess:
        return True
    digest = steps_digest(a.preprocess)
    return digest is not None and digest == steps_digest(b.preprocess)
