"""A feature space from a table: what each column is, and how it is scaled and encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from holdfast.errors import InvalidInputError
from holdfast.features.columns import Storage, column_codes, column_numbers, observed_labels, plain_label
from holdfast.features.constraints import Names, as_names, refuse_overlap, refuse_unknown
from holdfast.features.feature import Feature
from holdfast.features.kinds import Kind, Label, Name
from holdfast.features.scaling import Scaling
from holdfast.network import Floats

SCALES = ("minmax", "standard", "none")
ENCODINGS = ("onehot", "binary")
Orders = Mapping[Name, Sequence[Label]] | Names


def check_frame(frame: object) -> pd.DataFrame:
    """A table with at least one row and distinct column names, or an error that says what is wrong with it."""
    if not isinstance(frame, pd.DataFrame):
        came = f"{type(frame).__module__.partition('.')[0]}.{type(frame).__name__}".removeprefix("builtins.")
        way_out = "; frame.to_pandas() makes one of it" if hasattr(frame, "to_pandas") else ""
        raise InvalidInputError(f"frame: expected a pandas DataFrame, got {came}{way_out}")
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise InvalidInputError(f"frame: expected at least one row and one column, got shape {frame.shape}")
    if not frame.columns.is_unique:
        raise InvalidInputError(f"frame: expected distinct column names, got {list(frame.columns)}")
    for name in frame.columns:
        if not isinstance(name, str | int):
            raise InvalidInputError(f"frame: expected column names that are strings, got {name!r}")
    return frame


def declared_kinds(
    known: Sequence[Name],
    *,
    categorical: Names = (),
    integer: Names = (),
    ordinal: Orders = (),
    binary: Names = (),
    continuous: Names = (),
) -> tuple[dict[Name, Kind], dict[Name, Sequence[Label]]]:
    """The kinds the caller named, and the orders of the ordinal columns."""
    orders = dict(ordinal) if isinstance(ordinal, Mapping) else {}
    groups = {
        "categorical": as_names(categorical, "categorical"),
        "integer": as_names(integer, "integer"),
        "ordinal": tuple(orders) if isinstance(ordinal, Mapping) else as_names(ordinal, "ordinal"),
        "binary": as_names(binary, "binary"),
        "continuous": as_names(continuous, "continuous"),
    }
    for argument, named in groups.items():
        refuse_unknown(named, known, argument)
    refuse_overlap(groups)
    return {name: Kind(argument) for argument, named in groups.items() for name in named}, orders


def inferred_kind(series: pd.Series[Any]) -> Kind:
    """What a column is if nobody says: booleans are binary, text is categorical, whole-number dtypes are integer.

    So are floats that are all whole where some are missing: pandas has no other room for a gap.
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
        return Kind.INTEGER if 0 < len(known) < len(series) and (known % 1 == 0).all() else Kind.CONTINUOUS
    if pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype):
        return Kind.CATEGORICAL
    raise InvalidInputError(f"column {series.name!r}: expected numbers, booleans or labels, got dtype {dtype}")


def column_feature(series: pd.Series[Any], name: Name, kind: Kind, order: Sequence[Label] | None = None) -> Feature:
    """A column as it is in the table: its range or its labels, not yet scaled, free to move."""
    storage = Storage.of(series)
    labels = _labels(series, name, kind, order)
    if labels:
        column_codes(series, name, labels)
        return Feature(name, kind, 0.0, float(len(labels) - 1), (), categories=labels, storage=storage)
    if kind is Kind.CONTINUOUS and storage.precision == "integer":
        storage = Storage()
    if storage.precision == "float64":
        storage = Storage() if storage.dtype in ("object", "category") else storage
    numbers = column_numbers(series, name, storage)
    whole = kind in (Kind.INTEGER, Kind.ORDINAL)
    if whole and (np.rint(numbers) != numbers).any():
        value = float(numbers[np.flatnonzero(np.rint(numbers) != numbers)[0]])
        raise InvalidInputError(f"column {name!r}: expected whole numbers for an {kind} column, got {value}")
    step = 1.0 if whole else None
    return Feature(name, kind, float(numbers.min()), float(numbers.max()), (), step=step, storage=storage)


def scaled(feature: Feature, numbers: Floats, scale: str) -> Feature:
    """The feature with its scaling: by its range, by mean and standard deviation, or none; 0/1 codes stay 0/1."""
    if scale not in SCALES:
        raise InvalidInputError(f"scale: expected one of {list(SCALES)}, got {scale!r}")
    if scale == "none" or feature.kind in (Kind.CATEGORICAL, Kind.BINARY):
        return feature
    if scale == "minmax":
        low = feature.lower if np.isfinite(feature.lower) else float(numbers.min())
        high = feature.upper if np.isfinite(feature.upper) else float(numbers.max())
        shift, width = low, high - low
    else:
        shift, width = float(numbers.mean()), float(numbers.std())
    if not (np.isfinite(width) and width > 0.0):
        width = 1.0
    return replace(feature, scaling=Scaling((("subtract", shift), ("divide", width))))


def placed(
    features: Sequence[Feature], encoding: str | Mapping[Name, str], ordered: Sequence[Name] = ()
) -> tuple[Feature, ...]:
    """The features with their variables, side by side in the features' order; categoricals encoded as asked.

    `ordered` columns have labels from low to high and are encoded like categorical ones all the same.
    """
    chosen = encoding if isinstance(encoding, Mapping) else {}
    hot = [f.name for f in features if f.kind is Kind.CATEGORICAL or f.name in ordered]
    ranked = [f.name for f in features if f.kind is Kind.ORDINAL and f.labelled and f.name in chosen]
    refuse_unknown(chosen, [*hot, *ranked], "encoding (categorical columns)")
    result, position = [], 0
    for feature in features:
        wish = chosen.get(feature.name, "onehot") if isinstance(encoding, Mapping) else encoding
        if wish not in ENCODINGS:
            raise InvalidInputError(f"encoding: expected one of {list(ENCODINGS)}, got {wish!r}")
        two = len(feature.categories) == 2
        if wish == "binary" and feature.name in chosen and not two:
            raise InvalidInputError(
                f"encoding: expected two categories for a binary variable, got {len(feature.categories)} "
                f"in column {feature.name!r}"
            )
        one_hot = feature.name in [*hot, *ranked] and not (wish == "binary" and two)
        size = len(feature.categories) if one_hot else 1
        result.append(replace(feature, one_hot=one_hot, variables=tuple(range(position, position + size))))
        position += size
    return tuple(result)


def with_missing(
    features: Sequence[Feature], columns: Mapping[Name, pd.Series[Any]], fills: Mapping[Name, Any]
) -> tuple[Feature, ...]:
    """The features with a flag, after all other variables, for each column that may be missing.

    A missing number is encoded as the median, or as the value given; a missing label as none of the labels.
    """
    result, position = [], sum(len(feature.variables) for feature in features)
    for feature in features:
        if feature.name in fills:
            block = np.zeros(len(feature.variables))
            fill = fills[feature.name]
            if fill is not None:
                feature.numbers(pd.Series([fill]))
            if not feature.one_hot:
                numbers = feature.numbers(columns[feature.name])
                if not numbers.size:
                    raise InvalidInputError(
                        f"column {feature.name!r}: expected what the model reads where the value is missing, got none"
                    )
                middle = float(np.sort(numbers)[numbers.size // 2])
                given = middle if fill is None else feature.numbers(pd.Series([fill]))[0]
                block = feature.encode(np.array([given]))[0]
            feature = replace(feature, missing=tuple(block.tolist()), flags=((position, 0.0, 1.0),))
            position += 1
        result.append(feature)
    return tuple(result)


def _labels(series: pd.Series[Any], name: Name, kind: Kind, order: Sequence[Label] | None) -> tuple[Label, ...]:
    """The labels in the order of their codes; none for a numeric column."""
    if order is not None:
        labels = tuple(plain_label(label, name) for label in order)
        if len(set(labels)) != len(labels) or not labels:
            raise InvalidInputError(f"ordinal[{name!r}]: expected different labels from low to high, got {list(order)}")
        return labels
    if kind is Kind.CATEGORICAL:
        return observed_labels(series, name)
    if kind is Kind.BINARY:
        labels = observed_labels(series, name)
        if set(labels) <= {False, True}:
            return (False, True) if pd.api.types.is_bool_dtype(series.dtype) else (0, 1)
        if len(labels) != 2:
            raise InvalidInputError(f"column {name!r}: expected two values for a binary column, got {list(labels)[:5]}")
        return labels
    dtype = series.dtype
    if kind is Kind.ORDINAL and isinstance(dtype, pd.CategoricalDtype) and dtype.ordered:
        return observed_labels(series, name)
    if kind is Kind.ORDINAL and not pd.api.types.is_numeric_dtype(dtype):
        raise InvalidInputError(
            f"column {name!r}: expected the order of its labels, ordinal={{{name!r}: [low, ..., high]}}"
        )
    return ()
