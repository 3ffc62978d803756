"""Features and changes in words: the overview of a space, and what a person would have to do."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pandas as pd

from holdfast._network import Floats
from holdfast.features._feature import Feature
from holdfast.features._kinds import Kind
from holdfast.features._limits import limit_words
from holdfast.features._notes import Notes

PERCENT = ("percent", "%")
NOT_STATED = "not stated"
_MOST_DECIMALS = 6


def describe_change(
    features: Sequence[Feature], notes: Notes, before: Floats, after: Floats
) -> list[str]:
    """One fragment for each column that differs: "raise savings from 1,200 to 1,750 USD"."""
    return [
        _fragment(feature, notes, float(old), float(new))
        for feature, old, new in zip(features, before, after, strict=True)
        if old != new and not (np.isnan(old) and np.isnan(new))
    ]


def readable(feature: Feature, number: float, notes: Notes) -> str:
    """A value for people: words, thousands separated, long fractions shortened and marked as such, percent signs."""
    if np.isnan(number):
        return NOT_STATED
    if feature.labelled:
        label = feature.categories[int(number)]
        word = notes.word(feature.name, label)
        return ("no", "yes")[label] if isinstance(label, bool) and word == str(label) else word
    rounded = round(number, _MOST_DECIMALS)
    text = f"{abs(rounded):,}".removesuffix(".0")
    # Very large and very small ones have an exponent.
    text = f"{Decimal(text):,f}" if "e" in text else text
    text = f"{'-' if number < 0 else ''}{text}{'%' if feature.unit in PERCENT else ''}"
    return text if rounded == number else f"about {text}"


def unit_after(feature: Feature, notes: Notes) -> str:
    """The unit, to stand after a readable number; percent signs stand there already."""
    return (
        ""
        if not feature.unit or feature.unit in PERCENT
        else f" {notes.word(feature.name, feature.unit)}"
    )


def overview(features: Sequence[Feature], variables: Sequence[str]) -> pd.DataFrame:
    """One row per feature: kind, range, step, direction, largest change, categories, cost, unit, variables."""
    shown = [
        "kind",
        "lower",
        "upper",
        "step",
        "direction",
        "categories",
        "cost",
        "unit",
        "variables",
    ]
    rows = [{key: getattr(feature, key) for key in shown} for feature in features]
    frame = pd.DataFrame(
        rows, index=pd.Index([feature.name for feature in features], name="feature")
    )
    frame.loc[[feature.labelled for feature in features], ["lower", "upper"]] = np.nan
    frame["categories"] = [", ".join(map(str, labels)) for labels in frame["categories"]]
    if any(feature.max_change for feature in features):
        limits = [
            limit_words(feature.max_change) if feature.max_change else "" for feature in features
        ]
        frame.insert(shown.index("direction") + 1, "max_change", limits)
    frame["variables"] = [", ".join(variables[i] for i in places) for places in frame["variables"]]
    return frame.astype(
        {"kind": str, "direction": str, "lower": float, "upper": float, "step": float}
    )


def _fragment(feature: Feature, notes: Notes, old: float, new: float) -> str:
    label = notes.label(feature.name)
    after = f"{readable(feature, new, notes)}{unit_after(feature, notes)}"
    if np.isnan(old):
        return f"state {label}: {after}"
    before = readable(feature, old, notes)
    if after.removeprefix("about ") == f"{before}{unit_after(feature, notes)}":
        # A hair across a threshold, further than can be read.
        after = f"just {'above' if new > old else 'below'} {before}{unit_after(feature, notes)}"
    span = f"{label} from {before} to {after}"
    if feature.kind in (Kind.CATEGORICAL, Kind.BINARY):
        return f"change {span}"
    return f"raise {span}" if new > old else f"lower {span}"
