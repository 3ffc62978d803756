"""Every metric row by row: one value for each person, nan where there is no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.changes import Changes
from holdfast.deadline import Deadline
from holdfast.errors import InvalidInputError
from holdfast.generators import Recourse
from holdfast.generators.density import Density
from holdfast.importers import load_model
from holdfast.metrics.answers import Answers
from holdfast.network import Floats
from holdfast.verify.certify import certify_points
from holdfast.verify.deciders import decider_for


def valid_rows(answers: Answers, model: object = None) -> Floats:
    """1 where the model, today's unless another is given, gives the answer its target class, else 0."""
    classifier = (
        answers.classifier if model is None else load_model(model, answers.model.by_label).beside(answers.model)
    )
    # A model trained later may know its classes in another order, so labels are compared.
    wanted = answers.classifier.classes[answers.targets[answers.found]]
    unknown = [label for label in dict.fromkeys(wanted.tolist()) if label not in classifier.classes.tolist()]
    if unknown:
        raise InvalidInputError(
            f"retrained: expected models that know the class {unknown[0]!r}, got {classifier.classes.tolist()}"
        )
    points = answers.points[answers.found]
    return answers.spread(classifier.predict(points) == wanted if len(points) else [])


def valid_retrained_rows(answers: Answers, retrained: Sequence[object]) -> Floats:
    """The share of the retrained models that give the answer its target class."""
    if not len(retrained):
        raise InvalidInputError("retrained: expected at least one model, got none")
    return np.asarray(np.mean([valid_rows(answers, network) for network in retrained], axis=0))


def verdict_rows(answers: Answers, changes: Changes, *, time_limit: float | None = None) -> NDArray[Any]:
    """A `Verdict` for each answer, None where there is none."""
    verdicts = np.full(len(answers), None, dtype=object)
    rows = np.flatnonzero(answers.found)
    if rows.size:
        decider, deadline = decider_for(answers.model, changes), Deadline.after(time_limit)
        found = certify_points(decider, answers.points[rows], answers.targets[rows], deadline=deadline)
        verdicts[rows] = found.verdict
    return verdicts


def cost_rows(answers: Answers) -> Floats:
    """The mean absolute change over the model's variables: sum of absolute changes / number of variables."""
    return answers.spread(answers.space.cost_l1(*answers.tables()) if answers.found.any() else [])


def lof_rows(answers: Answers, density: Density) -> Floats:
    """The local outlier factor of each answer among the people of the target class."""
    if not isinstance(density, Density):
        raise InvalidInputError(
            "density: expected Density(rows), with the rows of the target class in the model's variables, "
            f"got {type(density).__name__}"
        )
    return answers.spread(density.outlier_factor(answers.points[answers.found]))


def changed_rows(answers: Answers) -> Floats:
    """How many of the caller's columns change."""
    return answers.spread(answers.space.changed(*answers.tables()) if answers.found.any() else [])


def violation_rows(answers: Answers) -> Floats:
    """How many constraints the answer breaks."""
    if not answers.found.any():
        return answers.spread([])
    return answers.spread([len(broken) for broken in answers.space.violations(*answers.tables())])


def per_row(
    answers: Recourse | Answers,
    *,
    changes: Changes | Mapping[str, Changes] | None = None,
    retrained: Sequence[object] = (),
    density: Density | None = None,
    time_limit: float | None = None,
) -> pd.DataFrame:
    """Every metric for each person, in their order and with their index.

    Parameters
    ----------
    answers
        What `explain` returned, or `Answers`.
    changes
        Δ, or several by name: a column ``verdict``, or ``verdict_<name>`` for each.
    retrained
        Models as later training runs left them: the column ``valid_retrained`` is the share that accepts.
    density
        Where people of the target class live: the column ``lof``.
    time_limit
        Seconds for the verdicts under each Δ; rows undecided by then are UNKNOWN.

    Returns
    -------
    pandas.DataFrame
        found, valid, valid_retrained, verdict, cost_l1, lof, changed, violations; numbers are nan and verdicts None
        where there is no answer.

    Examples
    --------
    >>> from holdfast import Network, PlausibleChanges
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> answers = Answers.of(net, [[0.5, 0.75], [np.nan, np.nan]], [[0.5, 0.25], [0.9, 0.1]], target=1)
    >>> per_row(answers, changes=PlausibleChanges(0.1))
       found  valid verdict  cost_l1  changed  violations
    0   True    1.0  ROBUST     0.25      1.0         0.0
    1  False    NaN    None      NaN      NaN         NaN
    """
    rows = Answers.read(answers)
    columns: dict[str, Any] = {"found": rows.found, "valid": valid_rows(rows)}
    if len(retrained):
        columns["valid_retrained"] = valid_retrained_rows(rows, retrained)
    several = changes if isinstance(changes, Mapping) else {} if changes is None else {"": changes}
    for name, delta in several.items():
        verdicts = verdict_rows(rows, delta, time_limit=time_limit)
        names = [None if verdict is None else verdict.name for verdict in verdicts]
        columns[f"verdict_{name}" if name else "verdict"] = pd.Series(names, index=rows.index, dtype=object)
    columns["cost_l1"] = cost_rows(rows)
    if density is not None:
        columns["lof"] = lof_rows(rows, density)
    columns |= {"changed": changed_rows(rows), "violations": violation_rows(rows)}
    return pd.DataFrame(columns, index=rows.index)
