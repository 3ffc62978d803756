"""Advice that comes as a table, from a file or from another program: read, checked and certified like any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.changes import Changes
from holdfast.deadline import Deadline
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators.finish import sentence_list
from holdfast.generators.reading import find_space, model_points, own_columns
from holdfast.generators.recourse import Recourse
from holdfast.importers import load_model
from holdfast.network import Floats
from holdfast.verify.certify import certify_points
from holdfast.verify.deciders import decider_for
from holdfast.verify.inputs import read_table, read_targets

_UNSAID = "no advice was given"


def recourse_from(
    model: object,
    factuals: pd.DataFrame,
    counterfactuals: pd.DataFrame,
    *,
    target: Any,
    changes: Changes | None = None,
    space: FeatureSpace | None = None,
    reasons: Sequence[Any] | pd.Series | None = None,
    time_limit: float | None = None,
    threshold: Any = None,
) -> Recourse:
    """The `Recourse` that two tables state; costs and verdicts are computed here, whatever a file says about them.

    Parameters
    ----------
    model, target, changes, space, threshold
        As for `explain`.
    factuals, counterfactuals
        x and x' in raw units, row by row; the result has the index of `factuals`. A row of `counterfactuals` with a
        missing value in a column of the space has no answer, unless the value may be missing and is in `factuals` too.
    reasons
        Why a row has no answer, one entry for each row; those of the other rows are not read.
    time_limit
        Seconds for certifying all rows; those still open by then are UNKNOWN.

    Returns
    -------
    Recourse
        Advice that breaks a constraint of the space counts as found, and `reason` names the constraint: it was given.

    Raises
    ------
    InvalidInputError
        Advice that does not lead to the target class under this model; it may belong to another model.

    Examples
    --------
    >>> from holdfast import Network, PlausibleChanges
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> people = pd.DataFrame({"debt": [0.7, 0.9], "income": [0.5, 0.1]})
    >>> advice = pd.DataFrame({"debt": [0.6, None], "income": [0.9, None]})
    >>> told = recourse_from(net, people, advice, target=1, changes=PlausibleChanges(0.1), reasons=["", "out of reach"])
    >>> told.to_frame()[["found", "verdict", "cost_l1"]]
       found verdict  cost_l1
    0   True  ROBUST     0.25
    1  False    None      NaN
    >>> told.describe(0), told.describe(1)
    ('lower debt from 0.7 to 0.6; raise income from 0.5 to 0.9', 'out of reach')
    """
    if len(factuals) != len(counterfactuals):
        raise InvalidInputError(
            f"factuals: expected one for each of the {len(counterfactuals)} counterfactuals, got {len(factuals)}"
        )
    if len(factuals) == 0:
        raise InvalidInputError("factuals: expected at least one row, got none")
    loaded = load_model(model, threshold)
    given, space = space, find_space(loaded, counterfactuals, space, factuals)
    for table, argument in ((factuals, "factuals"), (counterfactuals, "counterfactuals")):
        missing = [name for name in space.names if name not in table.columns]
        if missing:
            raise InvalidInputError(f"{argument}: expected the column {missing[0]!r}, got {list(table.columns)}")
    found = answered(factuals, counterfactuals, space)
    rows = np.flatnonzero(found)
    before = model_points(loaded, factuals, space)
    points = np.full(before.shape, np.nan)
    table = _whole_rows(factuals, counterfactuals, rows, space)
    if rows.size:
        points[rows] = read_table(loaded, own_columns(loaded, table), space, "counterfactuals").points
    loaded = loaded.in_space(space, table)
    targets = read_targets(loaded.classifier, target, len(factuals))
    _refuse_other_class(loaded.classifier.predict_index(points[rows]) != targets[rows], table.index)
    certificates = None
    if changes is not None and rows.size:
        decider, deadline = decider_for(loaded, changes), Deadline.after(time_limit)
        certificates = certify_points(decider, points[rows], targets[rows], deadline=deadline)
    verdict = np.full(len(factuals), None, dtype=object)
    if certificates is not None:
        verdict[rows] = certificates.verdict
    cost = np.full(len(factuals), np.nan)
    cost[rows] = space.cost_l1(points[rows], before[rows])
    unknown = np.full(len(factuals), np.nan)
    return Recourse(
        counterfactuals=_beside(factuals, table, rows, space),
        found=found,
        reason=_sentences(found, reasons, given, points, before),
        cost_l1=cost,
        verdict=verdict,
        optimality_gap=unknown,
        lower_bound=unknown.copy(),
        factuals=factuals,
        points=points,
        targets=targets,
        model=loaded,
        space=space,
        changes=changes,
        certificates=certificates,
    )


def answered(factuals: pd.DataFrame, counterfactuals: pd.DataFrame, space: FeatureSpace) -> NDArray[np.bool_]:
    """The rows with a value in every column, but for those that the person has not stated and need not state."""
    stated = factuals.reindex(columns=list(space.names)).notna().to_numpy()
    unstated = ~stated & [bool(feature.missing) for feature in space.features]
    return np.asarray((counterfactuals[list(space.names)].notna().to_numpy() | unstated).all(axis=1))


def _whole_rows(
    factuals: pd.DataFrame, counterfactuals: pd.DataFrame, rows: NDArray[np.intp], space: FeatureSpace
) -> pd.DataFrame:
    """The rows with an answer, in the factuals' dtypes: a column with gaps has become one of floats or objects."""
    table = factuals.iloc[rows].copy()
    stated = counterfactuals.iloc[rows]
    for name in space.names:
        column = stated[name].array
        narrowed = pd.Series(column, index=table.index, dtype=stated[name].dtype)
        wanted = factuals[name].dtype
        if narrowed.dtype != wanted:
            try:
                cast = narrowed.astype(wanted)
            except (TypeError, ValueError):
                cast = narrowed
            # What cannot be said in the factuals' dtype without becoming another value stays as it is.
            narrowed = cast if bool((cast.astype(object) == narrowed.astype(object)).all()) else narrowed
        table[name] = narrowed
    return table


def _beside(factuals: pd.DataFrame, table: pd.DataFrame, rows: NDArray[np.intp], space: FeatureSpace) -> pd.DataFrame:
    """The answers at their places in the factuals' table, missing values elsewhere."""
    answers = table.set_axis(pd.Index(rows), axis=0).reindex(np.arange(len(factuals)))
    result = factuals.copy()
    for name in space.names:
        result[name] = answers[name].array
    return result


def _refuse_other_class(other: NDArray[np.bool_], index: pd.Index) -> None:
    if other.any():
        first = index[int(np.flatnonzero(other)[0])]
        raise InvalidInputError(
            f"counterfactuals: expected rows with the class that was promised, got another class under this model for "
            f"{int(other.sum())} of {len(other)}, the first with the key {first!r}"
        )


def _sentences(
    found: NDArray[np.bool_],
    reasons: Sequence[Any] | pd.Series | None,
    space: FeatureSpace | None,
    points: Floats,
    before: Floats,
) -> NDArray[Any]:
    """The caller's reasons where there is no answer; where there is one, constraints of the caller's that it breaks."""
    given = [None] * len(found) if reasons is None else list(reasons)
    if len(given) != len(found):
        raise InvalidInputError(f"reasons: expected one for each of the {len(found)} rows, got {len(given)}")
    sentences = np.full(len(found), "", dtype=object)
    for row in np.flatnonzero(~found).tolist():
        text = given[row]
        sentences[row] = text.strip() if isinstance(text, str) and text.strip() else _UNSAID
    rows = np.flatnonzero(found)
    if rows.size and space is not None:
        for row in rows[~space.satisfied(points[rows], before[rows])].tolist():
            broken = space.violations(points[[row]], before[[row]])[0]
            sentences[row] = f"the advice breaks a constraint: {sentence_list(broken)}"
    return sentences
