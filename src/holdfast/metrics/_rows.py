"""The metrics, for a whole table and row by row; a row without advice has nan.

Each metric is computed on the rows with advice and put back at its place. A row without advice is never dropped and
never shifts another row.

All metrics except `coverage` share one denominator, the rows with advice; without such rows they are nan. Multiply
a share by coverage to get a share of all inputs. Read the two together: a method may find advice for few people
only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from holdfast._network import Bools, Floats, Ints
from holdfast.changes import Changes
from holdfast.errors import InvalidInputError
from holdfast.features._codec import Rows
from holdfast.generators import Recourse
from holdfast.generators._density import Density
from holdfast.generators._recourse import check_recourse
from holdfast.importers import Model, load_model
from holdfast.verify import Verdict


def mean_of_answered(values: Floats) -> float:
    """The mean over the rows with advice, which are not nan."""
    answered = values[~np.isnan(values)]
    return float(answered.mean()) if answered.size else float("nan")


def coverage(answers: Recourse) -> float:
    """The share of the people with advice.

    Examples
    --------
    >>> from holdfast import Network
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> coverage(Recourse.of(net, [[0.5, 0.75], [np.nan, np.nan]], [[0.5, 0.25], [0.9, 0.1]], target=1))
    0.5
    """
    return mean_of_answered(check_recourse(answers).found.astype(np.float64))


def validity(answers: Recourse) -> float:
    """The share of the advice that today's model accepts."""
    return mean_of_answered(valid_rows(check_recourse(answers)))


def validity_retrained(answers: Recourse, retrained: Sequence[object]) -> float:
    """The paper's vr: the share of pairs of advice and a retrained model in which the model accepts the advice.

    The paper uses 15 models: 5 from scratch on old and new data, 5 without 1% of the rows, 5 fine-tuned on new
    data.
    """
    return mean_of_answered(valid_retrained_rows(check_recourse(answers), retrained))


def delta_validity(
    answers: Recourse, changes: Changes, *, time_limit: float | None = None
) -> float:
    """The paper's v-Δ: the share of the advice that is proven robust; UNKNOWN is not proven."""
    return verdict_share(answers, changes, Verdict.ROBUST, time_limit)


def delta_unknown(answers: Recourse, changes: Changes, *, time_limit: float | None = None) -> float:
    """The share of the advice with the verdict UNKNOWN: neither a proof nor a counter-model was found."""
    return verdict_share(answers, changes, Verdict.UNKNOWN, time_limit)


def verdict_share(
    answers: Recourse, changes: Changes, verdict: Verdict, time_limit: float | None
) -> float:
    """The share of the advice with this verdict."""
    verdicts = (
        check_recourse(answers).under(changes.bare, time_limit=time_limit).verdict[answers.found]
    )
    return float(np.mean(verdicts == verdict)) if verdicts.size else float("nan")


def cost_l1(answers: Recourse) -> float:
    """The mean cost, as in the paper: the sum of absolute changes / the number of the model's variables."""
    return mean_of_answered(check_recourse(answers).cost_l1)


def lof(answers: Recourse, density: Density) -> float:
    """The mean local outlier factor among the people of the target class; about 1 for typical rows."""
    return mean_of_answered(lof_rows(check_recourse(answers), density))


def sparsity(answers: Recourse) -> float:
    """The mean number of the caller's columns that change."""
    return mean_of_answered(changed_rows(check_recourse(answers)))


def violations(answers: Recourse) -> float:
    """The mean number of constraints that advice breaks; 0 for all advice of `explain`."""
    return mean_of_answered(violation_rows(check_recourse(answers)))


def accepted_by(model: object, today: Model, points: Floats, targets: Ints) -> Bools:
    """The points to which a model gives these classes, which are indices of today's model's classes."""
    classifier = load_model(model, today.by_label).beside(today)
    # A model trained later may know its classes in another order, so labels are compared.
    wanted = today.classifier.classes[targets]
    unknown = [
        label
        for label in dict.fromkeys(wanted.tolist())
        if label not in classifier.classes.tolist()
    ]
    if unknown:
        raise InvalidInputError(
            f"retrained: expected models with the class {unknown[0]!r}, got the classes {classifier.classes.tolist()}"
        )
    return (
        np.asarray(classifier.predict(points) == wanted)
        if len(points)
        else np.empty(0, dtype=np.bool_)
    )


def valid_rows(recourse: Recourse, model: object = None) -> Floats:
    """1 if the model (by default today's) gives the advice its target class, else 0."""
    points = recourse.points[recourse.answered]
    targets = recourse.targets[recourse.answered]
    if model is not None:
        return _spread(recourse, accepted_by(model, recourse.model, points, targets))
    return _spread(
        recourse, recourse.classifier.predict_index(points) == targets if len(points) else []
    )


def valid_retrained_rows(recourse: Recourse, retrained: Sequence[object]) -> Floats:
    """The share of the retrained models that give the advice its target class."""
    if not len(retrained):
        raise InvalidInputError("retrained: expected at least one model, got none")
    return np.asarray(np.mean([valid_rows(recourse, network) for network in retrained], axis=0))


def lof_rows(recourse: Recourse, density: Density) -> Floats:
    """The local outlier factor of each advice among the people of the target class."""
    if not isinstance(density, Density):
        raise InvalidInputError(
            "density: expected Density(rows), with the rows of the target class in the model's variables, "
            f"got {type(density).__name__}"
        )
    return _spread(recourse, density.outlier_factor(recourse.points[recourse.answered]))


def changed_rows(recourse: Recourse) -> Floats:
    """The number of the caller's columns that change."""
    return _spread(recourse, recourse.space.changed(*_before_and_after(recourse)))


def violation_rows(recourse: Recourse) -> Floats:
    """The number of constraints that the advice breaks."""
    return _spread(
        recourse,
        [len(broken) for broken in recourse.space.violations(*_before_and_after(recourse))],
    )


def _before_and_after(recourse: Recourse) -> tuple[Floats, Rows]:
    return recourse.points[recourse.answered], recourse.people.take(recourse.answered)


def _spread(recourse: Recourse, values: ArrayLike) -> Floats:
    """Values of the rows with advice at their places; nan elsewhere."""
    result = np.full(len(recourse), np.nan)
    result[recourse.found] = np.asarray(values, dtype=np.float64)
    return result


def per_row(
    answers: Recourse,
    *,
    changes: Changes | Mapping[str, Changes] | None = None,
    retrained: Sequence[object] = (),
    density: Density | None = None,
    time_limit: float | None = None,
) -> pd.DataFrame:
    """Every metric for each person, in the order and with the index of the advice.

    Parameters
    ----------
    answers
        The advice: the result of `explain` or `Recourse.of`.
    changes
        Δ, or several by name: a column ``verdict``, or ``verdict_<name>`` for each.
    retrained
        Retrained models; the column ``valid_retrained`` is the share that accepts.
    density
        The density of people of the target class, for the column ``lof``.
    time_limit
        Seconds for the verdicts under each Δ; later rows are UNKNOWN.

    Returns
    -------
    pandas.DataFrame
        found, valid, valid_retrained, verdict, cost_l1, lof, changed, violations; without advice numbers are nan
        and verdicts None.

    Examples
    --------
    >>> from holdfast import Network, PlausibleChanges
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> answers = Recourse.of(net, [[0.5, 0.75], [np.nan, np.nan]], [[0.5, 0.25], [0.9, 0.1]], target=1)
    >>> per_row(answers, changes=PlausibleChanges(0.1))
       found  valid verdict  cost_l1  changed  violations
    0   True    1.0  ROBUST     0.25      1.0         0.0
    1  False    NaN    None      NaN      NaN         NaN
    """
    columns: dict[str, Any] = {"found": check_recourse(answers).found, "valid": valid_rows(answers)}
    if len(retrained):
        columns["valid_retrained"] = valid_retrained_rows(answers, retrained)
    several = changes if isinstance(changes, Mapping) else {} if changes is None else {"": changes}
    for name, delta in several.items():
        verdicts = answers.under(delta.bare, time_limit=time_limit).verdict_names
        columns[f"verdict_{name}" if name else "verdict"] = verdicts
    columns["cost_l1"] = answers.cost_l1
    if density is not None:
        columns["lof"] = lof_rows(answers, density)
    columns |= {"changed": changed_rows(answers), "violations": violation_rows(answers)}
    return pd.DataFrame(columns, index=answers.factuals.index)
