"""Several different answers for each person.

A second answer that changes the same column a little less is no choice. Each further answer therefore leaves alone the
column that the answers before leaned on most, and is the generator's best under that condition, found and certified
like any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from holdfast._given import whole_number
from holdfast.changes import Changes
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators._base import Generator
from holdfast.generators._explain import explain
from holdfast.generators._recourse import Recourse
from holdfast.verify._fingerprint import leave_out


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
    if changes is not None and changes.chance is not None:
        leave_out("chance", "it is about one answer a person, not alternatives", "risk_calibrated")
        changes = changes.calibrated(None)
    fixed = {"target": target, "changes": changes, "generator": generator, **options}
    # The rows that wait for their next answer, by the columns that it has to leave alone.
    waiting: dict[tuple[Any, ...], list[int]] = {(): list(range(len(X)))}
    parts = []
    for answer in range(1, n_answers + 1):
        asked, waiting = waiting, {}
        for columns, rows in asked.items():
            result = explain(
                model, X.iloc[rows], space=space.constrained(immutable=columns), **fixed
            )
            table = result.to_frame().assign(
                answer=answer, left_alone=", ".join(map(str, columns)), _row=rows
            )
            parts.append(table if answer == 1 else table[result.found])
            for row, column in zip(
                np.array(rows)[result.answered].tolist(), _leaned_on(result), strict=True
            ):
                waiting.setdefault((*columns, column), []).append(row)
    joined = pd.concat(parts)
    order = np.lexsort((joined["answer"].to_numpy(), joined["_row"].to_numpy()))
    return joined.iloc[order].drop(columns="_row")


def _leaned_on(result: Recourse) -> list[Any]:
    """For each row that has an answer, the column whose change costs most."""
    space = result.space
    rows = result.answered
    change = np.abs(result.points[rows] - result.people.points[rows]) * space.weights
    costs = np.stack(
        [change[:, list(feature.variables)].sum(axis=1) for feature in space.features], axis=1
    )
    return [space.names[place] for place in costs.argmax(axis=1)]
