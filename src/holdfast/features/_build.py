"""A feature space from a table: what each column is, and how it is scaled and encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from holdfast._network import Floats
from holdfast.errors import InvalidInputError
from holdfast.features._columns import (
    Storage,
    column_codes,
    column_numbers,
    observed_labels,
    plain_label,
)
from holdfast.features._constraints import (
    FeatureConstraints,
    Names,
    as_names,
    constrain,
    named_once,
    refuse_unknown,
)
from holdfast.features._feature import Feature
from holdfast.features._kinds import Kind, Label, Name, Ranks
from holdfast.features._scaling import Scaling

SCALES = ("minmax", "standard", "none")
ENCODINGS = ("onehot", "binary")
Orders = Ranks | Names
Encoding = str | Mapping[Name, str]


def features_from_frame(
    frame: pd.DataFrame,
    kinds: Mapping[str, Orders],
    missing: Mapping[Name, Any] | Names,
    scale: str,
    encoding: Encoding,
    constraints: FeatureConstraints,
) -> tuple[Feature, ...]:
    """Columns as declared or inferred, constrained, then scaled by their final range."""
    columns = list(check_frame(frame).columns)
    declared, orders = declared_kinds(kinds, columns)
    fills = (
        dict(missing)
        if isinstance(missing, Mapping)
        else dict.fromkeys(as_names(missing, "missing"))
    )
    refuse_unknown(fills, columns, "missing")
    drafts = [
        column_feature(
            frame[name], name, declared.get(name), orders.get(name), missing=name in fills
        )
        for name in columns
    ]
    values: dict[Name, pd.Series] = {name: frame[name].dropna() for name in columns}
    features = [
        scaled(one, one.numbers(values[one.name]), scale) for one in constrain(drafts, constraints)
    ]
    stated = {
        name: values[name] if fill is None else pd.Series([fill]) for name, fill in fills.items()
    }
    return placed(features, encoding, stated)


def check_frame(frame: object) -> pd.DataFrame:
    """A table with at least one row and distinct column names, or an error that says what is wrong with it."""
    if not isinstance(frame, pd.DataFrame):
        came = f"{type(frame).__module__.partition('.')[0]}.{type(frame).__name__}".removeprefix(
            "builtins."
        )
        way_out = "; pass frame.to_pandas()" if hasattr(frame, "to_pandas") else ""
        raise InvalidInputError(f"frame: expected a pandas DataFrame, got {came}{way_out}")
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise InvalidInputError(
            f"frame: expected at least one row and one column, got shape {frame.shape}"
        )
    if not frame.columns.is_unique:
        raise InvalidInputError(f"frame: expected distinct column names, got {list(frame.columns)}")
    for name in frame.columns:
        if not isinstance(name, str | int):
            raise InvalidInputError(f"frame: expected column names that are strings, got {name!r}")
    return frame


def declared_kinds(
    kinds: Mapping[str, Orders], known: Sequence[Name]
) -> tuple[dict[Name, Kind], Ranks]:
    """The kinds that the caller named, and the orders of the ordinal columns."""
    ordinal = kinds["ordinal"]
    declared = {name: Kind(argument) for name, argument in named_once(kinds, known).items()}
    return declared, ordinal if isinstance(ordinal, Mapping) else {}


def inferred_kind(series: pd.Series) -> Kind:
    """The default kind of a column: booleans are binary, text is categorical, whole-number dtypes are integer.

    Whole floats with gaps are integer too: pandas stores whole numbers with gaps as floats.
    """
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return Kind.ORDINAL if dtype.ordered else Kind.CATEGORICAL
    if pd.api.types.is_bool_dtype(dtype):
        return Kind.BINARY
    if pd.api.types.is_integer_dtype(dtype):
        return Kind.INTEGER
    if pd.api.types.is_float_dtype(dtype):
        known = series.dropna()
        return (
            Kind.INTEGER
            if 0 < len(known) < len(series) and (known % 1 == 0).all()
            else Kind.CONTINUOUS
        )
    if pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype):
        return Kind.CATEGORICAL
    raise InvalidInputError(
        f"column {series.name!r}: expected numbers, booleans or labels, got dtype {dtype}"
    )


def column_feature(
    column: pd.Series,
    name: Name,
    kind: Kind | None,
    order: Sequence[Label] | None = None,
    *,
    missing: bool,
) -> Feature:
    """A column as in the table: its range or its labels, not yet scaled, free to move.

    The encoding of a missing value is set later, once the variables have their places.
    """
    kind = kind or inferred_kind(column)
    series, gap = (column.dropna(), (0.0,)) if missing else (column, ())
    storage = Storage.of(series)
    labels = _labels(series, name, kind, order)
    if labels:
        column_codes(series, name, labels)
        last = float(len(labels) - 1)
        return Feature(name, kind, 0.0, last, (), categories=labels, missing=gap, storage=storage)
    if (kind is Kind.CONTINUOUS and storage.precision == "integer") or storage.dtype in (
        "object",
        "category",
    ):
        storage = Storage()
    numbers = column_numbers(series, name, storage)
    whole = kind in (Kind.INTEGER, Kind.ORDINAL)
    if whole and (np.rint(numbers) != numbers).any():
        value = float(numbers[np.flatnonzero(np.rint(numbers) != numbers)[0]])
        raise InvalidInputError(
            f"column {name!r}: expected whole numbers for an {kind} column, got {value}"
        )
    step = 1.0 if whole else None
    return Feature(
        name,
        kind,
        float(numbers.min()),
        float(numbers.max()),
        (),
        step,
        missing=gap,
        storage=storage,
    )


def scaled(feature: Feature, numbers: Floats, scale: str) -> Feature:
    """The feature with its scaling: by its range, by mean and standard deviation, or none; 0/1 codes stay 0/1."""
    if scale not in SCALES:
        raise InvalidInputError(f"scale: expected one of {list(SCALES)}, got {scale!r}")
    if feature.kind in (Kind.CATEGORICAL, Kind.BINARY):
        return feature
    if scale != "none":
        shift, high = _ends(feature, numbers)
        width = high - shift
        if not np.isfinite(shift):
            raise InvalidInputError(
                f"column {feature.name!r}: a schema without 'min' and 'max' has no range to scale by; "
                "add them, or pass scale='none'"
            )
        if scale == "standard":
            shift, width = float(numbers.mean()), float(numbers.std())
        width = width if 0.0 < width < np.inf else 1.0
        feature = replace(feature, scaling=Scaling((("subtract", shift), ("divide", width))))
    return spanned(feature, numbers)


def spanned(feature: Feature, numbers: Floats) -> Feature:
    """The feature with its range as its unit of cost under any scaling; the unit is 1 where it has no range."""
    if feature.n_codes:
        return feature
    low, high = feature.scaling.apply(np.array(_ends(feature, numbers))).tolist()
    return replace(feature, span=high - low) if 0.0 < high - low < np.inf else feature


def _ends(feature: Feature, numbers: Floats) -> tuple[float, float]:
    """The ends of the range that is declared; of the table's where it has none."""
    low = feature.lower if np.isfinite(feature.lower) else float(numbers.min(initial=np.inf))
    high = feature.upper if np.isfinite(feature.upper) else float(numbers.max(initial=-np.inf))
    return low, high


def placed(
    features: Sequence[Feature],
    encoding: Encoding,
    stated: Mapping[Name, pd.Series],
    ordered: Sequence[Name] = (),
) -> tuple[Feature, ...]:
    """The features with their variables, side by side in the features' order; categoricals encoded as asked.

    `ordered` columns have labels from low to high and are encoded like categorical ones all the same. For each column
    that may be missing there is a flag, after all other variables; its missing numbers are encoded as the median of
    those that are `stated`, its missing labels as none of the labels.
    """
    chosen = encoding if isinstance(encoding, Mapping) else {}
    hot = [
        feature.name
        for feature in features
        if feature.kind is Kind.CATEGORICAL
        or feature.name in ordered
        or (feature.kind is Kind.ORDINAL and feature.labelled and feature.name in chosen)
    ]
    refuse_unknown(chosen, hot, "encoding (categorical columns)")
    drafts, position = [], 0
    for feature in features:
        wish = chosen.get(feature.name, "onehot") if isinstance(encoding, Mapping) else encoding
        if wish not in ENCODINGS:
            raise InvalidInputError(f"encoding: expected one of {list(ENCODINGS)}, got {wish!r}")
        n_labels = len(feature.categories)
        if wish == "binary" and feature.name in chosen and n_labels != 2:
            raise InvalidInputError(
                f"encoding: expected two categories for a binary variable, got {n_labels} in column {feature.name!r}"
            )
        one_hot = feature.name in hot and not (wish == "binary" and n_labels == 2)
        size = n_labels if one_hot else 1
        drafts.append(
            replace(feature, one_hot=one_hot, variables=tuple(range(position, position + size)))
        )
        position += size
    result = []
    for feature in drafts:
        if feature.name in stated:
            numbers = np.sort(feature.numbers(stated[feature.name]))
            if not (numbers.size or feature.one_hot):
                raise InvalidInputError(
                    f"column {feature.name!r}: the table has no known value to stand for a missing one; name a "
                    f"value in missing={{{feature.name!r}: ...}}"
                )
            middle = numbers[numbers.size // 2 :][:1]
            block = (
                np.zeros(len(feature.variables)) if feature.one_hot else feature.encode(middle)[0]
            )
            feature = replace(feature, missing=tuple(block.tolist()), flags=((position, 0.0, 1.0),))
            position += 1
        result.append(feature)
    return tuple(result)


def _labels(
    series: pd.Series, name: Name, kind: Kind, order: Sequence[Label] | None
) -> tuple[Label, ...]:
    """The labels in the order of their codes; none for a numeric column."""
    dtype = series.dtype
    if order is not None:
        labels = tuple(plain_label(label, name) for label in order)
        if len(set(labels)) != len(labels) or not labels:
            raise InvalidInputError(
                f"ordinal[{name!r}]: expected different labels from low to high, got {list(order)}"
            )
        return labels
    if (
        kind is Kind.ORDINAL
        and not getattr(dtype, "ordered", False)
        and not pd.api.types.is_numeric_dtype(dtype)
    ):
        raise InvalidInputError(
            f"column {name!r}: expected the order of its labels, ordinal={{{name!r}: [low, ..., high]}}"
        )
    if kind in (Kind.INTEGER, Kind.CONTINUOUS) or (
        kind is Kind.ORDINAL and pd.api.types.is_numeric_dtype(dtype)
    ):
        return ()
    labels = observed_labels(series, name)
    if kind is not Kind.BINARY:
        return labels
    if set(labels) <= {False, True}:
        return (False, True) if pd.api.types.is_bool_dtype(dtype) else (0, 1)
    if len(labels) != 2:
        raise InvalidInputError(
            f"column {name!r}: expected two values for a binary column, got {list(labels)[:5]}"
        )
    return labels
