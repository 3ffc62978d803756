"""A feature space from fitted scikit-learn preprocessing: its own arithmetic, read off and repeated bit for bit.

Each transformer maps *sources* (what a model variable is made of: a column, a chain of scalings, or one label of a
column) to sources. The result is compared with the transformer's own `transform` on the caller's table, so the network
sees the same bits as in production, or there is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest, SelectPercentile, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.utils.validation import check_is_fitted

from holdfast.errors import InvalidInputError
from holdfast.features.columns import plain_label
from holdfast.features.curves import FUNCTIONS
from holdfast.features.kinds import Label, Name


@dataclass(frozen=True)
class Source:
    """What one model variable is made of.

    No `labels`: the column's number, scaled. `labels` and no `codes`: the label's position, or the number that
    `values` has for it, scaled. `codes`: 1 where the column has one of these labels. `edges`: the same of the bins
    that they part.
    """

    column: Name
    labels: tuple[Label, ...] = ()
    codes: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()
    # Whether it says only that the column has no value, and whether an earlier step takes care of missing values.
    flag: bool = False
    imputed: bool = False
    # The constant that stands for a missing value, and for nothing else where nobody has it.
    fill: Any = None
    operations: tuple[tuple[str, Any], ...] = ()

    @property
    def untouched(self) -> bool:
        return not self.labels and not self.edges and not self.operations


Sources = list[Source]


def read_sources(transformer: Any, frame: pd.DataFrame) -> tuple[Any, Sources]:
    """The preprocessing without a final classifier, and what each of its outputs is made of."""
    if isinstance(transformer, Pipeline) and not hasattr(transformer.steps[-1][1], "transform"):
        final = transformer.steps[-1][1]
        if final != "passthrough":
            transformer = Pipeline(transformer.steps[:-1]) if len(transformer.steps) > 1 else "passthrough"
    if isinstance(transformer, str):
        raise InvalidInputError("expected preprocessing in the pipeline, got a model alone; use from_frame")
    names = getattr(transformer, "feature_names_in_", frame.columns)
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise InvalidInputError(f"frame: expected the pipeline's column {missing[0]!r}, got {list(frame.columns)}")
    expected = getattr(transformer, "n_features_in_", len(names))
    if expected != len(names):
        raise InvalidInputError(f"frame: expected the pipeline's {expected} columns, got {len(names)}")
    sources = _apply(transformer, [Source(name) for name in names])
    _refuse_column_twice(sources)
    return transformer, sources


def missing_values(transformer: Any, frame: pd.DataFrame, column: Name) -> np.ndarray[Any, Any]:
    """What the preprocessing makes of one row as it is, and of the same row with nothing in this column, (2, d)."""
    rows = pd.concat([frame.apply(lambda part: part.dropna().iloc[0]).to_frame().T] * 2, ignore_index=True)
    rows = rows.astype({name: dtype for name, dtype in frame.dtypes.items() if name != column})
    own = frame[column]
    gone = own[own.isna()]
    known = own.dropna().iloc[0]
    values = pd.Series([known, gone.iloc[0] if len(gone) else np.nan], dtype=object)
    # A column of whole numbers has no room for what is missing.
    rows[column] = values.astype(own.dtype) if len(gone) else values.infer_objects()
    return production_values(transformer, rows)


def production_values(transformer: Any, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    """What the preprocessing itself makes of the table, dense."""
    names = list(getattr(transformer, "feature_names_in_", []))
    values = transformer.transform(frame[names] if names else frame.to_numpy())
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)


def _apply(transformer: Any, sources: Sources) -> Sources:
    if transformer is None or transformer == "passthrough":
        return sources
    reader = _READERS.get(type(transformer))
    if reader is None:
        known = ", ".join(sorted(kind.__name__ for kind in _READERS))
        raise _unsupported(transformer, f"expected one of {known}")
    try:
        check_is_fitted(transformer)
    except NotFittedError:
        raise InvalidInputError(f"expected a fitted {type(transformer).__name__}, got one before fit") from None
    return reader(transformer, sources)


def _pipeline(pipeline: Any, sources: Sources) -> Sources:
    for _, step in pipeline.steps:
        sources = _apply(step, sources)
    return sources


def _column_transformer(transformer: Any, sources: Sources) -> Sources:
    names = list(getattr(transformer, "feature_names_in_", []))
    result: Sources = []
    for _, part, columns in transformer.transformers_:
        if part != "drop":
            picked = [sources[i] for i in column_positions(columns, names, len(sources))]
            result += _apply(part, picked) if picked else []
    return result


def column_positions(columns: Any, names: Sequence[Name], n_columns: int) -> list[int]:
    """The column positions a ColumnTransformer's selection stands for: names, positions, a slice or a mask."""
    if isinstance(columns, slice):
        ends = [names.index(end) if isinstance(end, str) else end for end in (columns.start, columns.stop)]
        # A slice of names includes its last one, as in pandas.
        stop = ends[1] + 1 if isinstance(columns.stop, str) and ends[1] is not None else ends[1]
        return list(range(n_columns))[slice(ends[0], stop, columns.step)]
    listed = [columns] if isinstance(columns, str | int) else list(columns)
    if listed and all(isinstance(entry, bool | np.bool_) for entry in listed):
        return [int(i) for i in np.flatnonzero(listed)]
    return [names.index(e) if isinstance(e, str) else int(e) % n_columns for e in listed]


def _scaler(*attributes: tuple[str, str, str]) -> Callable[[Any, Sources], Sources]:
    """A reader for (operation, fitted attribute, switch that turns it on or "")."""

    def read(scaler: Any, sources: Sources) -> Sources:
        if getattr(scaler, "clip", False):
            raise _unsupported(scaler, "with clip=True several values look the same to the model")
        steps = [
            (operation, np.asarray(getattr(scaler, attribute), dtype=np.float64))
            for operation, attribute, switch in attributes
            if not switch or getattr(scaler, switch)
        ]
        result = []
        for i, source in enumerate(sources):
            if source.codes:
                raise _unsupported(
                    scaler,
                    f"it scales the one-hot variables of column {source.column!r}; let it scale the numbers only",
                )
            added = tuple((operation, float(constants[i])) for operation, constants in steps)
            result.append(replace(source, operations=source.operations + added))
        return result

    return read


def _one_hot(encoder: Any, sources: Sources) -> Sources:
    """A variable for each label but the dropped one; infrequent labels share one, the last."""
    result: Sources = []
    dropped = encoder.drop_idx_ if encoder.drop_idx_ is not None else [None] * len(sources)
    rare = getattr(encoder, "infrequent_categories_", None) or [None] * len(sources)
    every = zip(sources, _encoder_labels(encoder, sources), encoder.categories_, dropped, rare, strict=True)
    for source, labels, categories, drop, few in every:
        shared = set() if few is None else {plain_label(label, source.column) for label in few}
        groups = [(code,) for code, label in enumerate(labels) if label not in shared]
        variables = [replace(source, labels=labels, codes=group) for group in groups]
        if len(categories) > len(labels):
            # Missing values are a category of their own, which comes last.
            variables.append(replace(source, flag=True, imputed=True))
            variables = [replace(variable, imputed=True) for variable in variables]
        if shared:
            group = tuple(code for code, label in enumerate(labels) if label in shared)
            variables.append(replace(source, labels=labels, codes=group))
        result += [variable for i, variable in enumerate(variables) if i != drop]
    return result


def _ordinal(encoder: Any, sources: Sources) -> Sources:
    """The position of each label; infrequent ones share the last."""
    rare = getattr(encoder, "infrequent_categories_", None) or [None] * len(sources)
    result = []
    for source, labels, few in zip(sources, _encoder_labels(encoder, sources), rare, strict=True):
        shared = set() if few is None else {plain_label(label, source.column) for label in few}
        common = [label for label in labels if label not in shared]
        places = tuple(float(common.index(label)) if label in common else float(len(common)) for label in labels)
        result.append(replace(source, labels=labels, values=places if shared else ()))
    return result


def _target(encoder: Any, sources: Sources) -> Sources:
    """The mean of the target among the rows with each label."""
    if encoder.target_type_ == "multiclass":
        raise _unsupported(encoder, "with several classes it writes several numbers for one label")
    return [
        replace(source, labels=labels, values=tuple(float(value) for value in values[: len(labels)]))
        for source, labels, values in zip(sources, _encoder_labels(encoder, sources), encoder.encodings_, strict=True)
    ]


def _bins(binner: Any, sources: Sources) -> Sources:
    """Which bin a number lies in, as its place or one-hot."""
    result: Sources = []
    for source, edges in zip(sources, binner.bin_edges_, strict=True):
        if not source.untouched:
            raise _unsupported(binner, f"column {source.column!r} has been transformed before")
        inner, n = tuple(float(edge) for edge in edges[1:-1]), len(edges) - 1
        if not inner:
            raise _unsupported(binner, f"it has a single bin for column {source.column!r}")
        hot = [replace(source, codes=(code,), edges=inner) for code in range(n)]
        result += [replace(source, edges=inner)] if binner.encode == "ordinal" else hot
    return result


def _selected(selector: Any, sources: Sources) -> Sources:
    """Some of the variables."""
    return [source for source, kept in zip(sources, selector.get_support(), strict=True) if kept]


def _encoder_labels(encoder: Any, sources: Sources) -> list[tuple[Label, ...]]:
    for source in sources:
        if not source.untouched:
            raise _unsupported(encoder, f"column {source.column!r} has been transformed before")
    return [
        tuple(plain_label(label, source.column) for label in labels if not pd.isna(label))
        for source, labels in zip(sources, encoder.categories_, strict=True)
    ]


def _imputer(imputer: Any, sources: Sources) -> Sources:
    """What is missing becomes a constant; for the columns that lacked values, flags may say so, after all others."""
    marker = imputer.missing_values
    if not (marker is None or marker is pd.NA or marker != marker):
        raise _unsupported(imputer, f"expected one that fills what is missing (nan), got {marker!r} for missing")
    if len(imputer.statistics_) != len(sources) or pd.isna(imputer.statistics_).any():
        raise _unsupported(imputer, "it drops a column without values")
    fills = imputer.statistics_ if imputer.strategy == "constant" else [None] * len(sources)
    filled = [replace(source, imputed=True, fill=fill) for source, fill in zip(sources, fills, strict=True)]
    flagged = imputer.indicator_.features_.tolist() if imputer.add_indicator else []
    return [*filled, *(replace(filled[i], flag=True) for i in flagged)]


def _function(transformer: Any, sources: Sources) -> Sources:
    """None, or an increasing function of numpy's that is known here."""
    if transformer.func is None:
        return sources
    known = [name for name, (there, _) in FUNCTIONS.items() if transformer.func is there]
    known += ["sqrt"] * (transformer.func is np.sqrt)
    if not known or transformer.kw_args:
        names = ", ".join(f"np.{name}" for name in (*FUNCTIONS, "sqrt"))
        raise _unsupported(transformer, f"its function {transformer.func!r} could be anything; expected one of {names}")
    return [_onward(transformer, source, (known[0], 0.0)) for source in sources]


def _powers(transformer: Any, sources: Sources) -> Sources:
    """A power, its exponent fitted for each column; then scaled."""
    steps = [(transformer.method, float(exponent)) for exponent in transformer.lambdas_]
    sources = [_onward(transformer, source, step) for source, step in zip(sources, steps, strict=True)]
    return _READERS[StandardScaler](transformer._scaler, sources) if transformer.standardize else sources


def _ranks(transformer: Any, sources: Sources) -> Sources:
    """Where a number stands among those of the training table."""
    name = f"{transformer.output_distribution} ranks"
    columns = zip(sources, transformer.quantiles_.T.tolist(), strict=True)
    return [_onward(transformer, source, (name, tuple(quantiles))) for source, quantiles in columns]


def _onward(transformer: Any, source: Source, step: tuple[str, Any]) -> Source:
    if source.codes:
        raise _unsupported(transformer, f"it changes the one-hot variables of column {source.column!r}")
    return replace(source, operations=(*source.operations, step))


def _unsupported(transformer: Any, why: str) -> InvalidInputError:
    return InvalidInputError(f"{type(transformer).__name__} is not supported in a feature space: {why}")


def _refuse_column_twice(sources: Sources) -> None:
    seen: dict[Name, Source] = {}
    for source in sources:
        if source.flag:
            continue
        first = seen.setdefault(source.column, source)
        if first is not source and (not source.codes or first.labels != source.labels or first.codes == source.codes):
            raise InvalidInputError(f"expected each column once in the pipeline, got {source.column!r} twice")


_READERS: dict[type, Callable[[Any, Sources], Sources]] = {
    ColumnTransformer: _column_transformer,
    FunctionTransformer: _function,
    KBinsDiscretizer: _bins,
    MaxAbsScaler: _scaler(("divide", "scale_", "")),
    MinMaxScaler: _scaler(("multiply", "scale_", ""), ("add", "min_", "")),
    OneHotEncoder: _one_hot,
    OrdinalEncoder: _ordinal,
    Pipeline: _pipeline,
    PowerTransformer: _powers,
    QuantileTransformer: _ranks,
    RobustScaler: _scaler(("subtract", "center_", "with_centering"), ("divide", "scale_", "with_scaling")),
    SimpleImputer: _imputer,
    SelectKBest: _selected,
    SelectPercentile: _selected,
    StandardScaler: _scaler(("subtract", "mean_", "with_mean"), ("divide", "scale_", "with_std")),
    TargetEncoder: _target,
    VarianceThreshold: _selected,
}
