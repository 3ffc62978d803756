"""Several different answers for each person.

A second answer that changes the same column a little less is no choice. Each further answer therefore leaves alone the
column that the answers before leaned on most, and is the generator's best under that condition, found and certified
like any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.changes import Changes
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators.base import Generator
from holdfast.generators.explain import explain
from holdfast.generators.recourse import Recourse
from holdfast.given import whole_number


def alternatives(
    model: object,
    X: pd.DataFrame,
    *,
    target: Any,
    changes: Changes | None = None,
    generator: Generator,
    space: FeatureSpace,
    n_answers: int = 3,
    **options: Any,
) -> pd.DataFrame:
    """Up to `n_answers` answers for each row, each avoiding a column that the ones before leaned on.

    Parameters
    ----------
    model, X, target, changes, generator, space, options
        As for `explain`; X is a DataFrame, and `target` one class.
    n_answers
        How many answers to look for.

    Returns
    -------
    DataFrame
        As `Recourse.to_frame`, with a column ``answer`` (1, 2, ...) and a column ``left_alone`` that names the columns
        the answer does without; for each row of X the answers found, cheapest conditions first, and answer 1 always,
        with its reason where there is none.

    Examples
    --------
    >>> import holdfast as hf
    >>> people = pd.DataFrame({"income": [20.0, 60.0, 40.0], "debt": [30.0, 10.0, 0.0]})
    >>> space = hf.FeatureSpace.from_frame(people)
    >>> net = hf.Network([[[2.0, -1.5]]], [[0.5]])
    >>> found = alternatives(
    ...     net, people.head(1), target=1, changes=hf.PlausibleChanges(0.01), generator=hf.Closest(), space=space
    ... )
    >>> found[["answer", "left_alone", "verdict"]]
       answer left_alone verdict
    0       1             ROBUST
    0       2     income  ROBUST
    """
    whole_number(n_answers, "n_answers", least=1)
    if not isinstance(X, pd.DataFrame):
        raise InvalidInputError(f"X: expected a DataFrame, got {type(X).__name__}")
    fixed = {"target": target, "changes": changes, "generator": generator, **options}
    frozen: list[tuple[Any, ...]] = [()] * len(X)
    waiting = np.arange(len(X))
    parts = []
    for answer in range(1, n_answers + 1):
        still_waiting = []
        for columns in dict.fromkeys(frozen[row] for row in waiting):
            rows = np.array([row for row in waiting if frozen[row] == columns])
            found = explain(model, X.iloc[rows], space=space.constrained(immutable=columns), **fixed)
            kept = found.found if answer > 1 else np.ones(rows.shape[0], dtype=np.bool_)
            parts.append(_table(found, rows, kept, answer, columns))
            for row, column in zip(rows[found.found], _leaned_on(found), strict=True):
                frozen[row] = (*columns, column)
            still_waiting.extend(rows[found.found].tolist())
        waiting = np.array(sorted(still_waiting), dtype=np.intp)
        if not waiting.size:
            break
    joined = pd.concat(parts)
    order = np.lexsort((joined["answer"].to_numpy(), joined["_row"].to_numpy()))
    return joined.iloc[order].drop(columns="_row")


def _table(
    found: Recourse, rows: NDArray[np.intp], kept: NDArray[np.bool_], answer: int, columns: tuple[Any, ...]
) -> pd.DataFrame:
    table = found.to_frame()
    table["answer"] = answer
    table["left_alone"] = ", ".join(map(str, columns))
    table["_row"] = rows
    return table[kept]


def _leaned_on(found: Recourse) -> list[Any]:
    """For each row that has an answer, the column whose change costs most."""
    space, rows = found.space, found.found
    change = np.abs(found.points[rows] - space.encode(found.factuals[rows])) * space.weights
    names = list(space.names)
    costs = np.stack([change[:, list(feature.variables)].sum(axis=1) for feature in space.features], axis=1)
    return [names[place] for place in costs.argmax(axis=1)]
