"""Bring rows that break a linear rule back to it, by the cheapest admissible change of one column at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast._network import Floats
from holdfast.features._admissible import canonical, reach
from holdfast.features._feature import Feature
from holdfast.features._rules import RuleTerms
from holdfast.features._scaling import hold

_SWEEPS = 8
_NUDGES = 14
_EPSILON = float(np.finfo(np.float64).eps)


def repair(
    features: Sequence[Feature], rules: Sequence[RuleTerms], numbers: Floats, own: Floats
) -> Floats:
    """The numbers with as many rules obeyed as this finds; all of them wherever the factual obeys them.

    Each broken rule is met by moving the column for which that costs least; rules that share columns take turns. Rows
    that still break a rule which the factual obeys get the factual's values back in its columns.
    """
    numbers = numbers.copy()
    for _ in range(_SWEEPS * len(rules)):
        obeyed = True
        for terms in rules:
            rows = np.flatnonzero(~terms.holds(numbers))
            if rows.size:
                obeyed = False
                numbers[rows] = _meet(features, terms, numbers[rows], own[rows])
        if obeyed:
            return numbers
    # A rule all of whose columns are the factual's again cannot break once more, so this ends.
    for _ in rules:
        for terms in rules:
            rows = np.flatnonzero(~terms.holds(numbers) & terms.holds(own))
            for column in terms.columns:
                numbers[rows, column] = own[rows, column]
    return numbers


def _meet(features: Sequence[Feature], terms: RuleTerms, numbers: Floats, own: Floats) -> Floats:
    """Rows that break one rule, moved until they obey it or nothing more can move."""
    for _ in terms.columns:
        broken = np.flatnonzero(~terms.holds(numbers))
        if broken.size == 0:
            break
        rows = numbers[broken]
        mine = own[broken]
        options, costs, gains = [], [], []
        for column, coefficient in zip(terms.columns, terms.coefficients, strict=True):
            feature = features[column]
            option = _move(feature, terms, column, float(coefficient), rows, mine)
            change = np.abs(feature.encode(option) - feature.encode(rows[:, column]))
            options.append(_with(rows, column, option))
            costs.append(np.where(terms.holds(options[-1]), change @ feature.weights, np.inf))
            gains.append(np.abs(coefficient * (option - rows[:, column])))
        enough = np.isfinite(np.min(costs, axis=0))
        choice = np.where(enough, np.argmin(costs, axis=0), np.argmax(gains, axis=0))
        numbers[broken] = np.array(options)[choice, np.arange(broken.size)]
    return numbers


def _move(
    feature: Feature, terms: RuleTerms, column: int, coefficient: float, rows: Floats, own: Floats
) -> Floats:
    """The smallest admissible move of one column that meets the rule, or its largest move towards it."""
    current = rows[:, column]
    mine = own[:, column]
    down = coefficient > 0
    wanted = current - terms.excess(rows) / coefficient
    option = _up_to(feature, wanted, mine, down)
    if feature.grid is not None:
        return option
    size = np.abs(rows[:, terms.columns] * terms.coefficients).sum(axis=1) + abs(terms.bound)
    ulp = _EPSILON * (
        size / abs(coefficient) + feature.scaling.magnitude(feature.scaling.apply(current))
    )
    for nudge in range(_NUDGES):
        short = ~terms.holds(_with(rows, column, option))
        if not short.any():
            break
        further = wanted - np.sign(coefficient) * ulp * 2.0**nudge
        option = np.where(short, _up_to(feature, further, mine, down), option)
    return option


def _up_to(feature: Feature, limit: Floats, own: Floats, down: bool) -> Floats:
    """The admissible number nearest to the limit on its good side (below it if `down`), else nearest at all."""
    low, high = reach(feature, own, limit.shape[0])
    moved = np.minimum(np.maximum(limit, low), high)
    if feature.grid is not None:
        moved = feature.grid.value(feature.grid.floor(moved) if down else feature.grid.ceil(moved))
    moved = np.where(low <= high, moved, own)
    own_good, moved_good = (
        (own <= limit, moved <= limit) if down else (own >= limit, moved >= limit)
    )
    nearer = np.abs(own - limit) < np.abs(moved - limit)
    use_own = (own_good & ~moved_good) | ((own_good == moved_good) & nearer)
    return canonical(feature, np.where(use_own, own, hold(moved, feature.precision)), own)


def _with(rows: Floats, column: int, values: Floats) -> Floats:
    changed = rows.copy()
    changed[:, column] = values
    return changed
