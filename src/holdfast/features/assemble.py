"""The three ways to a feature space, each as features and rules: a table, a schema file, fitted preprocessing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from holdfast.errors import InvalidInputError
from holdfast.features.build import check_frame, column_feature, declared_kinds, inferred_kind, placed, scaled
from holdfast.features.constraints import constrain
from holdfast.features.feature import Feature
from holdfast.features.kinds import Kind, Name
from holdfast.features.pipeline import Source, production_values, read_sources
from holdfast.features.rules import Rule
from holdfast.features.scaling import Scaling
from holdfast.features.schema import Schema

Parts = tuple[tuple[Feature, ...], tuple[Rule, ...]]


def parse_rules(rules: Iterable[str | Rule]) -> tuple[Rule, ...]:
    """One rule or several, as text or parsed."""
    listed = [rules] if isinstance(rules, str | Rule) else list(rules)
    return tuple(rule if isinstance(rule, Rule) else Rule.parse(rule) for rule in listed)


def features_from_frame(
    frame: pd.DataFrame,
    *,
    kinds: Mapping[str, Any],
    constraints: Mapping[str, Any],
    rules: Iterable[str | Rule],
    scale: str,
    encoding: str | Mapping[Name, str],
) -> Parts:
    """Columns as declared or inferred, constrained, then scaled by their final range."""
    frame = check_frame(frame)
    declared, orders = declared_kinds(list(frame.columns), **kinds)
    drafts = [
        column_feature(frame[name], name, declared.get(name) or inferred_kind(frame[name]), orders.get(name))
        for name in frame.columns
    ]
    constrained = constrain(drafts, **constraints)
    features = [scaled(feature, feature.numbers(frame[feature.name]), scale) for feature in constrained]
    return placed(features, encoding), parse_rules(rules)


def features_from_schema(
    schema: Schema,
    *,
    actionability: str,
    kinds: str,
    constraints: Mapping[str, Any],
    rules: Iterable[str | Rule],
    scale: str,
    encoding: str | Mapping[Name, str],
) -> Parts:
    """Columns as the schema says; the scale comes from the schema's ranges, whatever `constraints` narrow."""
    if scale not in ("minmax", "none"):
        raise InvalidInputError(f"scale: expected 'minmax' or 'none' (a schema has no means), got {scale!r}")
    drafts = [
        scaled(feature, np.empty(0), scale) for feature in schema.features(actionability=actionability, kinds=kinds)
    ]
    return placed(constrain(drafts, **constraints), encoding), (*parse_rules(schema.rules), *parse_rules(rules))


def features_from_pipeline(
    transformer: Any,
    frame: pd.DataFrame,
    *,
    kinds: Mapping[str, Any],
    constraints: Mapping[str, Any],
    rules: Iterable[str | Rule],
) -> tuple[Parts, np.ndarray[Any, Any]]:
    """Columns as the preprocessing reads them, and what it makes of the table, to compare with."""
    frame = check_frame(frame)
    preprocessing, sources = read_sources(transformer, frame)
    owned: dict[Name, list[int]] = {}
    for position, source in enumerate(sources):
        owned.setdefault(source.column, []).append(position)
    declared, _ = declared_kinds([name for name in frame.columns if name in owned], **kinds)
    drafts = [
        _encoded_feature(frame[name], name, declared.get(name), sources[owned[name][0]], owned[name])
        for name in frame.columns
        if name in owned
    ]
    return (constrain(drafts, **constraints), parse_rules(rules)), production_values(preprocessing, frame)


def _encoded_feature(
    series: pd.Series[Any], name: Name, declared: Kind | None, source: Source, positions: list[int]
) -> Feature:
    """A column with the encoding that the preprocessing gives it."""
    variables, scaling = tuple(positions), Scaling(source.operations)
    if source.labels:
        kind = Kind.ORDINAL if source.code is None else Kind.CATEGORICAL
        if declared not in (None, kind):
            raise InvalidInputError(f"column {name!r}: expected {kind}, as the pipeline encodes it, got {declared}")
        feature = column_feature(series, name, kind, source.labels)
        one_hot = source.code is not None and not (source.dropped and len(source.labels) == 2)
        return replace(feature, variables=variables, one_hot=one_hot, scaling=scaling)
    kind = declared or inferred_kind(series)
    feature = column_feature(series, name, kind)
    if kind is Kind.CATEGORICAL or (feature.labelled and feature.categories != (0, 1)):
        raise InvalidInputError(
            f"column {name!r}: expected numbers or 0/1, as the pipeline passes them on, "
            f"got {list(feature.categories)[:5]}"
        )
    return replace(feature, variables=variables, scaling=scaling)
