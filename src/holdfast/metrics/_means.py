"""The metrics of a whole table: one number each.

One denominator for all of them but `coverage`: the rows with an answer, nan where there is no such row. Shares of all
inputs are products with coverage, so that a method that answers few people cannot hide it: read the two together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast._network import Floats
from holdfast.changes import Changes
from holdfast.generators import Recourse
from holdfast.generators._density import Density
from holdfast.metrics._rows import (
    changed_rows,
    check_recourse,
    lof_rows,
    valid_retrained_rows,
    valid_rows,
    violation_rows,
)
from holdfast.verify import Verdict


def mean_of_answered(values: Floats) -> float:
    """The mean over the rows with an answer, which are those that are not nan."""
    answered = values[~np.isnan(values)]
    return float(answered.mean()) if answered.size else float("nan")


def coverage(answers: Recourse) -> float:
    """The share of the inputs that have an answer.

    Examples
    --------
    >>> from holdfast import Network
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> coverage(Recourse.of(net, [[0.5, 0.75], [np.nan, np.nan]], [[0.5, 0.25], [0.9, 0.1]], target=1))
    0.5
    """
    return mean_of_answered(check_recourse(answers).found.astype(np.float64))


def validity(answers: Recourse) -> float:
    """The share of the answers that today's model accepts."""
    return mean_of_answered(valid_rows(check_recourse(answers)))


def validity_retrained(answers: Recourse, retrained: Sequence[object]) -> float:
    """The paper's vr: over answers and retrained models, the share of pairs in which the model accepts the answer.

    The paper takes 15 models: 5 trained anew on old and new data, 5 without 1% of the rows, 5 fine-tuned on new data.
    """
    return mean_of_answered(valid_retrained_rows(check_recourse(answers), retrained))


def delta_validity(
    answers: Recourse, changes: Changes, *, time_limit: float | None = None
) -> float:
    """The paper's v-Δ: the share of the answers that are proven robust; UNKNOWN is not proven."""
    return verdict_share(answers, changes, Verdict.ROBUST, time_limit)


def delta_unknown(answers: Recourse, changes: Changes, *, time_limit: float | None = None) -> float:
    """The share of the answers of which neither a proof nor a counter-model was found."""
    return verdict_share(answers, changes, Verdict.UNKNOWN, time_limit)


def verdict_share(
    answers: Recourse, changes: Changes, verdict: Verdict, time_limit: float | None
) -> float:
    """The share of the answers with this verdict."""
    verdicts = check_recourse(answers).under(changes, time_limit=time_limit).verdict[answers.found]
    return float(np.mean(verdicts == verdict)) if verdicts.size else float("nan")


def cost_l1(answers: Recourse) -> float:
    """The mean cost: sum of absolute changes / number of the model's variables, as in the paper."""
    return mean_of_answered(check_recourse(answers).cost_l1)


def lof(answers: Recourse, density: Density) -> float:
    """The mean local outlier factor among the people of the target class: about 1 where they live."""
    return mean_of_answered(lof_rows(check_recourse(answers), density))


def sparsity(answers: Recourse) -> float:
    """How many of the caller's columns change, on average."""
    return mean_of_answered(changed_rows(check_recourse(answers)))


def violations(answers: Recourse) -> float:
    """How many constraints an answer breaks, on average; 0 for whatever `explain` hands out."""
    return mean_of_answered(violation_rows(check_recourse(answers)))
