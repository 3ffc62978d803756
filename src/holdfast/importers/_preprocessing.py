"""Whether two models read a table in the same way, so that their parameters can be compared number by number."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import pandas as pd

from holdfast.importers._model import Model

# Attributes of scikit-learn's transformers that say how they were fitted or how they run, never what they return.
_BOOKKEEPING = {
    "n_samples_seen_",
    "sparse_output_",
    "n_jobs",
    "verbose",
    "verbose_feature_names_out",
    "copy",
    "memory",
}


def same_preprocessing(a: Model, b: Model) -> bool:
    """Whether both bring a raw table into their variables alike: the same steps, fitted to the same numbers.

    Behind a scaler that was fitted anew every parameter means something else, and a distance between parameters says
    nothing about what the models do. What was fitted is compared bit for bit; there is no table to try it on.

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
    return _same(a.preprocess, b.preprocess)


def _same(a: Any, b: Any) -> bool:
    """Equal in type and in all that they are made of."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return _same_arrays(a, b)
    if isinstance(a, pd.DataFrame | pd.Series | pd.Index):
        return bool(a.equals(b))
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, FunctionType):
        return (
            a.__code__ == b.__code__
            and _same(a.__defaults__, b.__defaults__)
            and _same(_closure(a), _closure(b))
        )
    if isinstance(a, MethodType):
        return a.__func__ is b.__func__ and _same(a.__self__, b.__self__)
    if isinstance(a, partial):
        return _same((a.func, a.args, a.keywords), (b.func, b.args, b.keywords))
    if isinstance(a, float | np.floating):
        return bool(a == b or (np.isnan(a) and np.isnan(b)))
    if hasattr(a, "__dict__") and not isinstance(a, type | str | Set):
        return _same(_state(a), _state(b))
    return bool(a == b)


def _same_arrays(a: Any, b: Any) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.hasobject:
        # Categories may hold nan, which no array of objects finds equal to itself.
        return _same(a.tolist(), b.tolist())
    return bool(np.array_equal(a, b)) or bool(a.tobytes() == b.tobytes())


def _state(transformer: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(transformer).items() if name not in _BOOKKEEPING}


def _closure(function: FunctionType) -> list[Any]:
    return [cell.cell_contents for cell in function.__closure__ or ()]
