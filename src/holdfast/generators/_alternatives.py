"""Several different pieces of advice for each person.

A second advice that changes the same column slightly less is no choice. Each further advice therefore leaves alone the
column that the advice before changed most. It is the generator's best under that condition, found and certified like
any other.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from holdfast._given import check_options, whole_number
from holdfast.changes import Changes
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.features._kinds import Name
from holdfast.generators._base import Generator
from holdfast.generators._explain import explain
from holdfast.generators._recourse import Recourse
from holdfast.generators._stated import recourse_from
from holdfast.verify._fingerprint import leave_out


def alternatives(
    model: object,
    X: pd.DataFrame,
    *,
    target: Any,
    changes: Changes | None = None,
    generator: Generator,
    space: FeatureSpace | None = None,
    n_answers: int = 3,
    **options: Any,
) -> Recourse:
    """Find up to `n_answers` pieces of advice for each row, each without a column that the ones before changed most.

    Parameters
    ----------
    model, X, target, changes, generator, space, options
        As for `explain`; X is a DataFrame.
    n_answers
        The largest number for each row.

    Returns
    -------
    Recourse
        A row for each piece of advice, those of a person together; the index repeats the person's key. Row 1 of a
        person is always there, with a reason if no advice was found. `left_alone` names the columns that each row
        leaves as they are, and `first` has the first row of each person. `letters` writes a letter for each row, a
        ledger records each as a promise to the same person, and a report shows the others as other ways.

    Examples
    --------
    >>> import holdfast as hf
    >>> people = pd.DataFrame({"income": [20.0, 60.0, 40.0], "debt": [30.0, 10.0, 0.0]})
    >>> space = hf.FeatureSpace.from_frame(people)
    >>> net = hf.Network([[[2.0, -1.5]]], [[0.5]])
    >>> found = alternatives(
    ...     net, people.head(1), target=1, changes=hf.PlausibleChanges(0.01), generator=hf.Closest(), space=space
    ... )
    >>> found.to_frame()[["answer", "left_alone", "verdict"]]
       answer left_alone verdict
    0       1             ROBUST
    0       2     income  ROBUST
    """
    whole_number(n_answers, "n_answers", least=1)
    if not isinstance(X, pd.DataFrame):
        raise InvalidInputError(f"X: expected a DataFrame, got {type(X).__name__}")
    known = [*inspect.signature(explain).parameters, "n_answers"]
    check_options("alternatives", options, known)
    if isinstance(changes, Changes) and changes.chance is not None:
        leave_out("chance", "it is about one answer a person, not alternatives", "risk_calibrated")
        changes = changes.calibrated(None)
    # The rows that wait for their next answer, by the columns that it has to leave alone.
    waiting: dict[tuple[Any, ...], list[int]] = {(): list(range(len(X)))}
    asked: dict[str, Any] = {"space": space, "changes": changes, "generator": generator, **options}
    wanted, parts, n = target, list[Recourse](), 0
    # Of each answer: whose it is, its place in all parts together, and what it leaves alone.
    told: list[tuple[int, int, str]] = []
    for _ in range(n_answers):
        now, waiting = waiting, {}
        for columns, rows in now.items():
            if parts:
                asked["space"] = narrower(parts[0].space, columns)
                wanted = parts[0].classifier.classes[parts[0].targets[rows]]
            parts.append(explain(model, X.iloc[rows], target=wanted, **asked))
            leaned = _leaned_on(parts[-1])
            for place, row in enumerate(rows):
                if place in leaned:
                    waiting.setdefault((*columns, leaned[place]), []).append(row)
                if place in leaned or not columns:
                    told.append((row, n + place, ", ".join(map(str, columns))))
            n += len(rows)
    # A person's answers stay in their order.
    told.sort(key=itemgetter(0))
    whose, order, alone = map(list, zip(*told, strict=True))
    lower, gap, reasons = (
        np.concatenate([getattr(part, name) for part in parts])[order]
        for name in ("lower_bound", "optimality_gap", "reason")
    )
    first = parts[0]
    advice = recourse_from(
        model, X.iloc[whose], pd.concat([part.counterfactuals for part in parts]).iloc[order],
        target=first.classifier.classes[first.targets[whose]], changes=changes, space=first.space,
        reasons=list(reasons), threshold=options.get("threshold"),
    )  # fmt: skip
    return replace(
        advice, generator=generator, data=first.data, left_alone=np.array(alone, dtype=object), lower_bound=lower,
        optimality_gap=gap,
    )  # fmt: skip


def narrower(space: FeatureSpace, columns: Iterable[Name]) -> FeatureSpace:
    """The space with these columns as they are; both give a warning once between them."""
    result = space.constrained(immutable=columns)
    vars(result)["warned"] = space.warned
    return result


def _leaned_on(result: Recourse) -> dict[int, Any]:
    """For each row that has an answer, the column whose change costs most."""
    space = result.space
    rows = result.answered
    change = np.abs(result.points[rows] - result.people.points[rows]) * space.weights
    costs = np.stack(
        [change[:, list(feature.variables)].sum(axis=1) for feature in space.features], axis=1
    )
    return {
        row: space.names[place]
        for row, place in zip(rows.tolist(), costs.argmax(axis=1).tolist(), strict=True)
    }
