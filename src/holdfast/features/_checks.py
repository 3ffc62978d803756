"""Does a table obey every constraint? Exactly, in the caller's units, with a sentence for each one broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from holdfast._network import Bools, Floats
from holdfast.features._codec import Rows, differs
from holdfast.features._feature import Feature
from holdfast.features._kinds import Direction
from holdfast.features._rules import RuleTerms

Broken = tuple[Bools, Callable[[int], str]]
# Which rows, what is wrong with them, and the values that are named in it.
BrokenColumn = tuple[Bools, str, tuple[float, ...]]


def broken_constraints(
    features: Sequence[Feature], rules: Sequence[RuleTerms], rows: Rows, own: Rows, *, raw: bool
) -> Iterator[Broken]:
    """For each constraint, which rows break it and how to say so; a table that came as points has to be an encoding."""
    for i, feature in enumerate(features):
        numbers = rows.numbers[:, i]
        before = own.numbers[:, i]
        for mask, what, values in _broken_in_column(feature, numbers, before):
            yield mask, partial(_said, feature, before, numbers, what, values)
        if not raw:
            yield _not_a_value(feature, numbers, rows.points[:, feature.places])
    for terms in rules:
        yield ~terms.holds(rows.numbers), partial(_broken_rule, terms, rows.numbers)


def show(feature: Feature, number: float) -> str:
    """A number as it stands in the caller's table."""
    if np.isnan(number):
        return "missing"
    if feature.labelled:
        return str(feature.categories[int(number)])
    return (
        str(int(number))
        if number == np.rint(number) and abs(number) < 1e16
        else repr(float(number))
    )


def _said(
    feature: Feature, own: Floats, numbers: Floats, what: str, values: tuple[float, ...], row: int
) -> str:
    broken = what.format(*(show(feature, value) for value in values))
    return f"{feature.name} {broken}: {show(feature, own[row])} -> {show(feature, numbers[row])}"


def _broken_in_column(feature: Feature, numbers: Floats, own: Floats) -> Iterator[BrokenColumn]:
    changed = differs(numbers, own)
    known = ~(np.isnan(numbers) | np.isnan(own))
    if feature.missing:
        yield changed & np.isnan(numbers), "has a value and cannot become missing", ()
        filled = changed & np.isnan(own)
        if not feature.fillable:
            yield filled, "is missing and cannot be filled in", ()
        # What follows is about values: a filled-in one comes from nowhere, and only has to be possible.
        changed = changed & ~np.isnan(numbers)
        numbers, own = (
            np.where(known | filled, numbers, 0.0),
            np.where(known, own, np.where(filled, numbers, 0.0)),
        )
    if feature.direction is Direction.IMMUTABLE:
        yield changed, "is immutable", ()
    elif feature.direction is Direction.INCREASING:
        yield numbers < own, "may only increase", ()
    elif feature.direction is Direction.DECREASING:
        yield numbers > own, "may only decrease", ()
    if feature.labelled:
        if feature.allowed is not None:
            forbidden = changed & ~feature.moves[own.astype(np.intp), numbers.astype(np.intp)]
            yield forbidden, "has no allowed move", ()
        return
    outside = changed & ((numbers < feature.lower) | (numbers > feature.upper))
    yield outside, "has the range [{}, {}]", (feature.lower, feature.upper)
    if feature.grid is not None:
        nearest = feature.grid.value(feature.grid.nearest(numbers))
        yield changed & (nearest != numbers), "has steps of {}", (feature.step or 1.0,)


def _not_a_value(feature: Feature, numbers: Floats, block: Floats) -> Broken:
    """Variables that are no encoding of a value of the column: half a category, a fraction of a whole number."""

    def message(row: int) -> str:
        variables = ", ".join(
            f"{name} = {value!r}"
            for name, value in zip(feature.variable_names(), block[row].tolist(), strict=True)
        )
        return f"{feature.name} has no value with {variables}; the nearest is {show(feature, numbers[row])}"

    return (feature.encode(numbers) != block).any(axis=1), message


def _broken_rule(terms: RuleTerms, numbers: Floats, row: int) -> str:
    return terms.rule.explain(
        dict(zip(terms.rule.names, numbers[row, terms.columns].tolist(), strict=True))
    )
