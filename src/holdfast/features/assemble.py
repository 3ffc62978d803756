"""The three ways to a feature space, each as features and rules: a table, a schema file, fitted preprocessing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from holdfast.errors import InvalidInputError
from holdfast.features.build import (
    check_frame,
    column_feature,
    declared_kinds,
    inferred_kind,
    placed,
    scaled,
    with_missing,
)
from holdfast.features.constraints import Names, as_names, constrain, refuse_unknown
from holdfast.features.feature import Feature
from holdfast.features.kinds import Kind, Label, Name
from holdfast.features.pipeline import Source, missing_values, production_values, read_sources
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
    missing: Mapping[Name, Any] | Names = (),
) -> Parts:
    """Columns as declared or inferred, constrained, then scaled by their final range."""
    frame = check_frame(frame)
    declared, orders = declared_kinds(list(frame.columns), **kinds)
    fills = dict(missing) if isinstance(missing, Mapping) else dict.fromkeys(as_names(missing, "missing"))
    refuse_unknown(fills, list(frame.columns), "missing")
    columns: dict[Name, pd.Series[Any]] = {
        name: frame[name].dropna() if name in fills else frame[name] for name in frame.columns
    }
    drafts = [
        column_feature(series, name, declared.get(name) or inferred_kind(frame[name]), orders.get(name))
        for name, series in columns.items()
    ]
    # What a missing value is encoded as comes once the variables have their places.
    drafts = [replace(draft, missing=(0.0,)) if draft.name in fills else draft for draft in drafts]
    constrained = constrain(drafts, **constraints)
    features = [scaled(feature, feature.numbers(columns[feature.name]), scale) for feature in constrained]
    return with_missing(placed(features, encoding), columns, fills), parse_rules(rules)


def features_from_schema(
    schema: Schema,
    *,
    actionability: str,
    kinds: str,
    constraints: Mapping[str, Any],
    rules: Iterable[str | Rule],
    scale: str,
    encoding: str | Mapping[Name, str],
    orders: Mapping[Name, Sequence[Label]],
) -> Parts:
    """Columns as the schema says; the scale comes from the schema's ranges, whatever `constraints` narrow."""
    if scale not in ("minmax", "none"):
        raise InvalidInputError(f"scale: expected 'minmax' or 'none' (a schema has no means), got {scale!r}")
    columns = schema.features(actionability=actionability, kinds=kinds)
    encoded = [feature.name for feature in columns if feature.variables]
    if encoded and len(encoded) < len(columns):
        raise InvalidInputError(f"columns: expected an 'encoding' in each column or in none, got it in {encoded}")
    refuse_unknown(orders, [feature.name for feature in columns if feature.labelled], "ordinal (columns with labels)")
    drafts = columns if encoded else [scaled(feature, np.empty(0), scale) for feature in columns]
    features = constrain(constrain(drafts, **schema.moves), ordinal=orders, **constraints)
    if not encoded:
        fills = schema.fills
        values = {name: pd.Series([] if fill is None else [fill]) for name, fill in fills.items()}
        features = with_missing(placed(features, encoding, ordered=schema.categorical), values, fills)
    return features, (*parse_rules(schema.rules), *parse_rules(rules))


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
    declared, orders = declared_kinds([name for name in frame.columns if name in owned], **kinds)
    drafts = []
    for name in frame.columns:
        if name in owned:
            sources = _stand_ins(sources, owned[name], frame[name])
            mine = [i for i in owned[name] if not sources[i].flag]
            own = [sources[i] for i in mine]
            if not own:
                raise InvalidInputError(f"column {name!r}: expected a variable for its value, got only one for missing")
            feature = _encoded_feature(frame[name], name, declared.get(name), orders.get(name), own, mine)
            if own[0].imputed:
                known, gone = missing_values(preprocessing, frame, name)
                flags = tuple((i, float(known[i]), float(gone[i])) for i in owned[name] if sources[i].flag)
                feature = replace(feature, missing=tuple(gone[mine].tolist()), flags=flags)
            drafts.append(feature)
    return (constrain(drafts, **constraints), parse_rules(rules)), production_values(preprocessing, frame)


def _stand_ins(sources: list[Source], positions: list[int], series: pd.Series[Any]) -> list[Source]:
    """A label that stands for what is missing, and that nobody has, is none to get to: its variable is a flag."""
    result = list(sources)
    for i in positions:
        fill, labels = sources[i].fill, sources[i].labels
        alone = fill in labels and fill not in set(series.dropna())
        flag = alone and sources[i].codes == (labels.index(fill),)
        result[i] = replace(sources[i], fill=fill if alone else None, flag=sources[i].flag or flag)
    return result


def _encoded_feature(
    column: pd.Series[Any],
    name: Name,
    declared: Kind | None,
    order: Sequence[Label] | None,
    sources: list[Source],
    positions: list[int],
) -> Feature:
    """A column with the encoding that the preprocessing gives it."""
    source, variables = sources[0], tuple(positions)
    scaling = Scaling(source.operations)
    series = column.dropna() if source.imputed else column
    if source.labels:
        return replace(_labelled_feature(series, name, declared, order, sources), variables=variables, scaling=scaling)
    kind = declared or inferred_kind(column)
    feature = column_feature(series, name, kind)
    if kind is Kind.CATEGORICAL or (feature.labelled and feature.categories != (0, 1)):
        raise InvalidInputError(
            f"column {name!r}: expected numbers or 0/1, as the pipeline passes them on, "
            f"got {list(feature.categories)[:5]}"
        )
    feature = replace(feature, variables=variables, scaling=scaling)
    if not source.edges:
        return feature
    if feature.labelled:
        raise InvalidInputError(
            f"column {name!r}: expected numbers for bins, got labels; name it in continuous or integer"
        )
    # A bin whose variable was left out is the one where all of them are 0.
    hot = {code: i for i, one in enumerate(sources) for code in one.codes}
    cells = tuple(hot.get(code, -1) for code in range(len(source.edges) + 1)) if hot else ()
    return replace(feature, edges=source.edges, one_hot=bool(hot), cells=cells)


def _labelled_feature(
    series: pd.Series[Any],
    name: Name,
    declared: Kind | None,
    order: Sequence[Label] | None,
    sources: list[Source],
) -> Feature:
    """A column whose labels the preprocessing turns into numbers: in the order that the caller gives, or its own."""
    source, ranked = sources[0], not sources[0].codes and not sources[0].values
    kind = Kind.ORDINAL if ranked or order is not None else Kind.CATEGORICAL
    if declared not in (None, kind):
        raise InvalidInputError(f"column {name!r}: expected {kind}, as the pipeline encodes it, got {declared}")
    known = tuple(label for label in source.labels if label != source.fill)
    labels = known if order is None else tuple(order)
    if set(labels) != set(known) or len(labels) != len(known):
        raise InvalidInputError(
            f"ordinal[{name!r}]: expected the labels {list(known)} from low to high, got {list(labels)}"
        )
    places = {label: code for code, label in enumerate(source.labels)}
    cells = tuple(
        next((i for i, one in enumerate(sources) if places[label] in one.codes), -1) for label in labels if source.codes
    )
    # Of two labels of which one has no variable, the variable is a flag.
    if len(labels) == 2 and cells == (-1, 0) and len(sources) == 1:
        return column_feature(series, name, kind, labels)
    feature = column_feature(series, name, kind, labels)
    if source.codes:
        return replace(feature, one_hot=True, cells=cells)
    numbers = source.values or tuple(float(code) for code in range(len(source.labels)))
    values = tuple(numbers[places[label]] for label in labels)
    return replace(feature, values=() if values == tuple(range(len(labels))) else values)
