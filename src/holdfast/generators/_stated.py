"""Advice that comes as a table, from a file or from another program: read, checked and certified like any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from holdfast._deadline import Deadline
from holdfast._network import Bools, Floats, Ints
from holdfast.changes import Changes
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators._base import RecourseReason
from holdfast.generators._measured import stated
from holdfast.generators._reading import find_space, own_columns, read_people
from holdfast.generators._recourse import Recourse, sentence_list
from holdfast.importers import load_model
from holdfast.verify._fingerprint import fingerprint, sha256
from holdfast.verify._inputs import read_table

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
    marks: Sequence[Any] | pd.Series | None = None,
) -> Recourse:
    """The `Recourse` that two tables state; costs and verdicts are computed here, not taken from a file.

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
    marks
        The column `chance` of the file that `holdfast explain` wrote: of which rows the chance of `changes` is stated.

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
    given = space
    space = find_space(loaded, counterfactuals, space, factuals)
    space.as_frame(factuals, "factuals")
    space.as_frame(counterfactuals, "counterfactuals")
    found = answered(factuals, counterfactuals, space)
    table = _whole_rows(factuals, counterfactuals, np.flatnonzero(found), space)
    points = np.full((len(factuals), space.n_variables), np.nan)
    if found.any():
        points[found] = read_table(
            loaded, own_columns(loaded, table), space, "counterfactuals"
        ).points
    task = read_people(loaded, factuals, space, target=target, changes=changes, known=table)
    other = task.classifier.predict_index(points[found]) != task.targets[found]
    if other.any():
        raise InvalidInputError(
            "counterfactuals: expected rows that today's model gives the class that was promised, got another class "
            f"under this model for {int(other.sum())} of {len(other)}, the first with the key "
            f"{table.index[int(other.argmax())]!r}"
        )
    reason = _sentences(found, reasons, given, points, task.factuals)
    told = Recourse.judged(task, points, table, reason, Deadline.after(time_limit))
    return stated(told, changes, marks)


def answered(factuals: pd.DataFrame, counterfactuals: pd.DataFrame, space: FeatureSpace) -> Bools:
    """The rows with a value in every column, except values that may be missing and are missing in the factual too."""
    stated = factuals.reindex(columns=list(space.names)).notna().to_numpy()
    unstated = ~stated & [bool(feature.missing) for feature in space.features]
    return np.asarray(
        (counterfactuals[list(space.names)].notna().to_numpy() | unstated).all(axis=1)
    )


def _whole_rows(
    factuals: pd.DataFrame,
    counterfactuals: pd.DataFrame,
    rows: Ints,
    space: FeatureSpace,
) -> pd.DataFrame:
    """The rows with an answer, in the factuals' dtypes: a column with gaps has become one of floats or objects."""
    table = factuals.iloc[rows].copy()
    stated = counterfactuals.iloc[rows].set_axis(table.index)
    for name in space.names:
        narrowed, wanted = stated[name], factuals[name].dtype
        if narrowed.dtype != wanted:
            try:
                cast = narrowed.astype(wanted)
            except (TypeError, ValueError):
                cast = narrowed
            # What cannot be said in the factuals' dtype without becoming another value stays as it is.
            narrowed = (
                cast if bool((cast.astype(object) == narrowed.astype(object)).all()) else narrowed
            )
        table[name] = narrowed
    return table


def _sentences(
    found: Bools,
    reasons: Sequence[Any] | pd.Series | None,
    space: FeatureSpace | None,
    points: Floats,
    before: Floats,
) -> list[str]:
    """The caller's reasons where there is no answer; where there is one, constraints of the caller's that it breaks."""
    given = [None] * len(found) if reasons is None else list(reasons)
    if len(given) != len(found):
        raise InvalidInputError(
            f"reasons: expected one for each of the {len(found)} rows, got {len(given)}"
        )
    sentences = [""] * len(found)
    for row in np.flatnonzero(~found).tolist():
        text = given[row]
        sentences[row] = RecourseReason.read(
            text.strip() if isinstance(text, str) and text.strip() else _UNSAID
        )
    rows = np.flatnonzero(found)
    if rows.size and space is not None:
        for row in rows[~space.satisfied(points[rows], before[rows])].tolist():
            broken = space.violations(points[[row]], before[[row]])[0]
            sentences[row] = f"the advice breaks a constraint: {sentence_list(broken)}"
    return sentences


def advice_ids(recourse: Recourse) -> list[str]:
    """For each row a hash of the person, the advice, the class, the verdict, the model and Δ."""
    model, changes = recourse.model, recourse.changes
    shared = sha256(
        [
            fingerprint(model.trained),
            list(model.offsets),
            None if changes is None else changes.to_dict(),
        ]
    )
    # Zeros unsigned. A person may lack a value, and JSON has no nan: the bytes are hashed.
    rows = zip(recourse.people.points + 0.0, recourse.points + 0.0, strict=True)
    verdicts = recourse.verdict_names.fillna("")
    return [
        sha256([shared, own.tobytes().hex(), told.tobytes().hex(), target, verdict])
        for (own, told), target, verdict in zip(
            rows, recourse.targets.tolist(), verdicts, strict=True
        )
    ]
