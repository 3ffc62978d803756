"""Features and changes in words: the overview of a space, and what a person would have to do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from holdfast.features.feature import Feature
from holdfast.features.kinds import Kind
from holdfast.network import Floats

PERCENT = ("percent", "%")
_MOST_DECIMALS = 6


def describe_change(features: Sequence[Feature], labels: Sequence[str], before: Floats, after: Floats) -> list[str]:
    """One fragment for each column that differs: "raise savings from 1,200 to 1,750 USD"."""
    return [
        _fragment(feature, label, float(old), float(new))
        for feature, label, old, new in zip(features, labels, before, after, strict=True)
        if old != new and not (np.isnan(old) and np.isnan(new))
    ]


def readable(feature: Feature, number: float) -> str:
    """A value for people: thousands separated, long fractions shortened and marked as such, percent signs."""
    if np.isnan(number):
        return "missing"
    if feature.labelled:
        label = feature.categories[int(number)]
        return ("no", "yes")[label] if isinstance(label, bool) else str(label)
    rounded = round(number, _MOST_DECIMALS)
    digits = np.format_float_positional(abs(rounded), trim="-")
    whole, _, fraction = digits.partition(".")
    text = f"{'-' if number < 0 else ''}{int(whole):,}{'.' if fraction else ''}{fraction}"
    text += "%" if feature.unit in PERCENT else ""
    return text if rounded == number else f"about {text}"


def unit_after(feature: Feature) -> str:
    """The unit, to stand after a readable number; percent signs stand there already."""
    return "" if not feature.unit or feature.unit in PERCENT else f" {feature.unit}"


def overview(features: Sequence[Feature], variables: Sequence[str]) -> pd.DataFrame:
    """One row per feature: kind, range, step, direction, categories, cost, unit, variables."""
    rows = [
        {
            "kind": str(feature.kind),
            "lower": None if feature.labelled else feature.lower,
            "upper": None if feature.labelled else feature.upper,
            "step": feature.step,
            "direction": str(feature.direction),
            "categories": ", ".join(map(str, feature.categories)),
            "cost": feature.cost,
            "unit": feature.unit,
            "variables": ", ".join(variables[i] for i in feature.variables),
        }
        for feature in features
    ]
    frame = pd.DataFrame(rows, index=pd.Index([feature.name for feature in features], name="feature"))
    return frame.astype({"lower": "float64", "upper": "float64", "step": "float64"})


def _fragment(feature: Feature, label: str, old: float, new: float) -> str:
    if np.isnan(old):
        return f"state {label}: {readable(feature, new)}{unit_after(feature)}"
    span = f"{label} from {readable(feature, old)} to {readable(feature, new)}{unit_after(feature)}"
    if feature.kind in (Kind.CATEGORICAL, Kind.BINARY):
        return f"change {span}"
    return f"raise {span}" if new > old else f"lower {span}"
