"""Warnings about a table that a space was made of, or about people that it is asked about: likely mistakes, by name."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast._given import row_words
from holdfast._network import Floats
from holdfast.errors import HoldfastWarning, InvalidInputError
from holdfast.features._checks import show
from holdfast.features._feature import Feature
from holdfast.features._rules import RuleTerms

# A column with more labels than these is rarely one that a model can learn from.
_MANY_LABELS = 250
# In widths of the range: a value of the wrong sign may be outside by the first, any value by the second, unremarked;
# beyond the third it is refused.
_SIGN, _NEAR, _FAR = 0.1, 1.0, 100.0
# Units of cost that differ by this factor leave all but one column without a say.
_UNLIKE = 1000.0


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
                f"{broken[0]}. Is it meant the other way round? People who break a rule may get no advice"
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
            "the same in both, since no space says their ranges; pass space=FeatureSpace.from_frame(X_train, "
            "scale='none')"
        )


def _warn(text: str) -> None:
    # To the caller of `from_frame`, `from_pipeline` or `explain`.
    warnings.warn(text, HoldfastWarning, stacklevel=5)
