"""Faults of a table: the constraints that it breaks, exactly, and likely mistakes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from holdfast._given import row_words
from holdfast._network import Bools, Floats
from holdfast.errors import HoldfastWarning, InvalidInputError
from holdfast.features._codec import Rows, differs
from holdfast.features._feature import Feature
from holdfast.features._kinds import Direction
from holdfast.features._limits import limit_words, share_limits
from holdfast.features._rules import RuleTerms

Broken = tuple[Bools, Callable[[int], str]]
# The rows, the sentence about them, and the values in the sentence.
BrokenColumn = tuple[Bools, str, tuple[float, ...]]
# A column with more labels than these is rarely one that a model can learn from.
_MANY_LABELS = 250
# In widths of the range: a value of the wrong sign may be outside by the first, any value by the second, unremarked;
# beyond the third it is refused.
_SIGN, _NEAR, _FAR = 0.1, 1.0, 100.0
# Units of cost that differ by this factor leave all but one column without a say.
_UNLIKE = 1000.0


def broken_constraints(
    features: Sequence[Feature], rules: Sequence[RuleTerms], rows: Rows, own: Rows, *, raw: bool
) -> Iterator[Broken]:
    """For each constraint, the rows that break it and the sentence about it; points must be encodings of rows."""
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
    """A number as written in the caller's table."""
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
    if feature.max_change:
        least, most = share_limits(feature.max_change, own)
        beyond = changed & ((numbers < least) | (numbers > most))
        yield beyond, f"may change by {limit_words(feature.max_change)} of its value", ()
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


# ------------------------------------------------------------------ warnings about likely mistakes


def remark_on_labels(features: Sequence[Feature]) -> None:
    """Warn of columns with very many labels."""
    for feature in features:
        if len(feature.categories) > _MANY_LABELS:
            _warn(
                f"column {feature.name!r}: {len(feature.categories):,} labels become {len(feature.places):,} variables "
                "of the model. Leave the column out if it names people or things, or group its rare labels"
            )


def remark_on_rules(rules: Sequence[RuleTerms], numbers: Floats) -> None:
    """Warn of rules that rows of the table break."""
    for terms in rules:
        broken = np.flatnonzero(~terms.holds(numbers))
        if broken.size:
            _warn(
                f"rule {terms.rule.text!r}: {broken.size:,} of {len(numbers):,} rows of the table break it, first row "
                f"{broken[0]}. Check the direction of the rule. People who break a rule may get no advice"
            )


def remark_on_people(features: Sequence[Feature], numbers: Floats, index: Any) -> None:
    """Refuse values that are very far outside a column's range, and warn of those clearly outside it."""
    first, count = "", 0
    for feature, values in zip(features, numbers.T, strict=True):
        if feature.labelled or not feature.ranged or not feature.width:
            continue
        outside = np.maximum(feature.lower - values, values - feature.upper)
        free = np.where((values < 0.0) & (feature.lower >= 0.0), _SIGN, _NEAR)
        odd = np.flatnonzero(outside > free * feature.width)
        if not odd.size:
            continue
        row = int(odd[outside[odd].argmax()])
        about = (
            f"column {feature.name!r} is {show(feature, values[row])} in {row_words(row, index)}, outside its range "
            f"[{show(feature, feature.lower)}, {show(feature, feature.upper)}]"
        )
        if outside[row] > _FAR * feature.width:
            raise InvalidInputError(
                f"X: {about} by more than {_FAR:.0f} times its width. Correct the value, or widen the range with "
                f"ranges={{{feature.name!r}: ...}}"
            )
        first, count = first or about, count + odd.size
    if count:
        _warn(
            f"X: {first}. The model may never have seen such a value; check those outside the ranges ({count:,} here)"
        )


def remark_on_units(features: Sequence[Feature], numbers: Floats) -> None:
    """Warn where columns without a range, whose unit of cost is 1, are in units that are far apart."""
    widths = {
        feature.name: float(np.ptp(values[known]))
        for feature, values, known in zip(features, numbers.T, ~np.isnan(numbers.T), strict=True)
        if feature.cost == 1.0 and not feature.ranged and known.any()
    }
    ranked = sorted((width, str(name)) for name, width in widths.items() if width > 0.0)
    if ranked and ranked[-1][0] >= _UNLIKE * ranked[0][0]:
        (least, small), (most, large) = ranked[0], ranked[-1]
        _warn(
            f"space: the range of {large!r} is {most / least:,.0f} times that of {small!r}, but a change by 1 costs "
            "the same in both, because their ranges are unknown; pass space=FeatureSpace.from_frame(X_train, "
            "scale='none')"
        )


def _warn(text: str) -> None:
    # To the caller of `from_frame`, `from_pipeline` or `explain`.
    warnings.warn(text, HoldfastWarning, stacklevel=5)
