"""A feature space from fitted scikit-learn preprocessing: its own arithmetic, read off and repeated bit for bit.

Each transformer maps *sources* (what a model variable is made of: a column, a chain of scalings, or one label of a
column) to sources. The result is compared with the transformer's own `transform` on the caller's table, so the network
sees the same bits as in production, or there is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from holdfast.features._build import (
    Orders,
    check_frame,
    column_feature,
    declared_kinds,
    spanned,
)
from holdfast.features._columns import plain_label
from holdfast.features._constraints import FeatureConstraints, constrain
from holdfast.features._curves import FUNCTIONS
from holdfast.features._feature import Feature
from holdfast.features._kinds import Kind, Label, Name
from holdfast.features._scaling import Scaling


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


def features_from_pipeline(
    transformer: Any,
    frame: pd.DataFrame,
    kinds: Mapping[str, Orders],
    constraints: FeatureConstraints,
) -> tuple[tuple[Feature, ...], np.ndarray[Any, Any]]:
    """Columns as the preprocessing reads them, and what it makes of the table, to compare with."""
    preprocessing, sources = _read_sources(transformer, check_frame(frame))
    owned: dict[Name, dict[int, Source]] = {}
    for position, source in enumerate(sources):
        owned.setdefault(source.column, {})[position] = source
    columns = [name for name in frame.columns if name in owned]
    declared, orders = declared_kinds(kinds, columns)
    drafts = []
    for name in columns:
        mine = owned[name]
        # A label that stands for what is missing, and that nobody has, is none to get to: its variable is a flag.
        fills = {source.fill for source in mine.values() if source.fill in source.labels} - set(
            frame[name].dropna()
        )
        flags = [
            i
            for i, source in mine.items()
            if source.flag or any(source.codes == (source.labels.index(fill),) for fill in fills)
        ]
        own = [i for i in mine if i not in flags]
        if not own:
            raise InvalidInputError(
                f"column {name!r}: expected a variable for its value, got only one for missing"
            )
        feature = _feature(
            frame[name], name, declared.get(name), orders.get(name), [mine[i] for i in own], fills
        )
        feature = replace(feature, variables=tuple(own))
        if feature.missing:
            known, gone = _missing_values(preprocessing, frame, name)
            told = tuple((i, float(known[i]), float(gone[i])) for i in flags)
            feature = replace(feature, missing=tuple(gone[own].tolist()), flags=told)
        drafts.append(feature)
    features = tuple(
        spanned(feature, np.array([draft.lower, draft.upper]))
        for feature, draft in zip(constrain(drafts, constraints), drafts, strict=True)
    )
    return features, _production_values(preprocessing, frame)


def _feature(
    column: pd.Series,
    name: Name,
    kind: Kind | None,
    order: Sequence[Label] | None,
    sources: Sources,
    fills: set[Label],
) -> Feature:
    """A column with the encoding that the preprocessing gives it; labels in the order that the caller gives."""
    source = sources[0]
    # A label or bin whose variable was left out is the one where all of them are 0.
    hot = {code: i for i, one in enumerate(sources) for code in one.codes}
    codes: list[int] = list(range(len(source.edges) + 1))
    values: tuple[float, ...] = ()
    if source.labels:
        ranked = not hot and not source.values
        encoded = Kind.ORDINAL if ranked or order is not None else Kind.CATEGORICAL
        if kind not in (None, encoded):
            raise InvalidInputError(
                f"column {name!r}: expected {encoded}, as the pipeline encodes it, got {kind}"
            )
        known = [label for label in source.labels if label not in fills]
        labels = known if order is None else list(order)
        if set(labels) != set(known) or len(labels) != len(known):
            raise InvalidInputError(
                f"ordinal[{name!r}]: expected the labels {known} from low to high, got {labels}"
            )
        codes = [source.labels.index(label) for label in labels]
        numbers = source.values or tuple(float(code) for code in range(len(source.labels)))
        values = () if hot else tuple(numbers[code] for code in codes)
        values = () if values == tuple(range(len(codes))) else values
        feature = column_feature(column, name, encoded, labels, missing=source.imputed)
    else:
        feature = column_feature(column, name, kind, missing=source.imputed)
        if feature.kind is Kind.CATEGORICAL or (feature.labelled and feature.categories != (0, 1)):
            raise InvalidInputError(
                f"column {name!r}: expected numbers or 0/1, as the pipeline passes them on, "
                f"got {list(feature.categories)[:5]}"
            )
        values = source.values
        if source.edges and feature.labelled:
            if not values and source.codes != (0, 1):
                raise InvalidInputError(
                    f"column {name!r}: expected numbers for bins, got labels; name it in continuous or integer"
                )
            source = replace(source, edges=())
    cells = tuple(hot.get(code, -1) for code in codes) if hot else ()
    # Of two labels of which one has no variable, the variable is a flag.
    if source.labels and cells == (-1, 0) and len(sources) == 1:
        cells = ()
    scaling = Scaling(source.operations)
    return replace(
        feature,
        one_hot=bool(cells),
        cells=cells,
        values=values,
        edges=source.edges,
        scaling=scaling,
    )


def _read_sources(transformer: Any, frame: pd.DataFrame) -> tuple[Any, Sources]:
    """The preprocessing without a final classifier, and what each of its outputs is made of."""
    if isinstance(transformer, Pipeline) and not hasattr(transformer.steps[-1][1], "transform"):
        final = transformer.steps[-1][1]
        if final != "passthrough":
            transformer = (
                Pipeline(transformer.steps[:-1]) if len(transformer.steps) > 1 else "passthrough"
            )
    if isinstance(transformer, str):
        raise InvalidInputError(
            "expected preprocessing in the pipeline, got a model alone; use from_frame"
        )
    names = getattr(transformer, "feature_names_in_", frame.columns)
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise InvalidInputError(
            f"frame: expected the pipeline's column {missing[0]!r}, got {list(frame.columns)}"
        )
    expected = getattr(transformer, "n_features_in_", len(names))
    if expected != len(names):
        raise InvalidInputError(
            f"frame: expected the pipeline's {expected} columns, got {len(names)}"
        )
    sources = _apply(transformer, [Source(name) for name in names])
    seen: dict[Name, Source] = {}
    for source in sources:
        first = source if source.flag else seen.setdefault(source.column, source)
        if first is not source and (
            not source.codes or first.labels != source.labels or first.codes == source.codes
        ):
            raise InvalidInputError(
                f"expected each column once in the pipeline, got {source.column!r} twice"
            )
    return transformer, sources


def output_columns(
    transformers: Sequence[Any], frame: pd.DataFrame, listed: Sequence[str]
) -> list[Name]:
    """The column of the table that each output of some transformers in a row is made of, and of no other.

    Outputs follow their column's numbers in rising order, or belong to a column that is `listed` by its values; others
    are refused by name.
    """
    _, sources = _read_sources(
        Pipeline([(str(i), one) for i, one in enumerate(transformers)]), frame
    )
    for source in sources:
        if source.edges and source.codes and str(source.column) not in listed:
            raise InvalidInputError(
                f"column {source.column!r}: expected one whose bins are in order, got bins with a variable each"
            )
    return [source.column for source in sources]


def _missing_values(transformer: Any, frame: pd.DataFrame, column: Name) -> np.ndarray[Any, Any]:
    """What the preprocessing makes of one row as it is, and of the same row with nothing in this column, (2, d)."""
    own = frame[column]
    rows = frame[own.notna()].iloc[[0, 0]].reset_index(drop=True)
    gone = own[own.isna()]
    values = pd.Series([rows[column].iloc[0], gone.iloc[0] if len(gone) else np.nan], dtype=object)
    # A column of whole numbers has no room for what is missing.
    rows[column] = values.astype(own.dtype) if len(gone) else values.infer_objects()
    return _production_values(transformer, rows)


def _production_values(transformer: Any, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
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
        raise InvalidInputError(
            f"expected a fitted {type(transformer).__name__}, got one before fit"
        ) from None
    return reader(transformer, sources)


def _pipeline(pipeline: Any, sources: Sources) -> Sources:
    for _, step in pipeline.steps:
        sources = _apply(step, sources)
    return sources


def _column_transformer(transformer: Any, sources: Sources) -> Sources:
    result: Sources = []
    for name, part, _ in transformer.transformers_:
        if part != "drop":
            result += _apply(
                part, [sources[i] for i in transformer._transformer_to_input_indices[name]]
            )
    return result


def _scaler(*attributes: tuple[str, str, str]) -> Callable[[Any, Sources], Sources]:
    """A reader for (operation, fitted attribute, switch that turns it on or "")."""

    def read(scaler: Any, sources: Sources) -> Sources:
        if getattr(scaler, "clip", False):
            raise _unsupported(scaler, "with clip=True several values look the same to the model")
        for operation, attribute, switch in attributes:
            if not switch or getattr(scaler, switch):
                constants = np.asarray(getattr(scaler, attribute), dtype=np.float64).tolist()
                sources = _onward(scaler, sources, operation, constants)
        return sources

    return read


def _one_hot(encoder: Any, sources: Sources) -> Sources:
    """A variable for each label but the dropped one; infrequent labels share one, the last."""
    result: Sources = []
    dropped = encoder.drop_idx_ if encoder.drop_idx_ is not None else [None] * len(sources)
    for source, drop, categories, (labels, common, rare) in zip(
        sources, dropped, encoder.categories_, _encoder_labels(encoder, sources), strict=True
    ):
        gap = len(categories) > len(labels)
        base = replace(source, imputed=source.imputed or gap)
        # Missing values are a category of their own, which comes after the others.
        variables = [replace(base, labels=labels, codes=(code,)) for code in common]
        variables += [replace(base, flag=True)] if gap else []
        variables += [replace(base, labels=labels, codes=rare)] if rare else []
        result += [variable for i, variable in enumerate(variables) if i != drop]
    return result


def _ordinal(encoder: Any, sources: Sources) -> Sources:
    """The position of each label; infrequent ones share the last."""
    result = []
    for source, (labels, common, rare) in zip(
        sources, _encoder_labels(encoder, sources), strict=True
    ):
        places = tuple(
            float(len(common) if code in rare else common.index(code))
            for code in range(len(labels))
        )
        result.append(replace(source, labels=labels, values=places if rare else ()))
    return result


def _target(encoder: Any, sources: Sources) -> Sources:
    """The mean of the target among the rows with each label."""
    if encoder.target_type_ == "multiclass":
        raise _unsupported(encoder, "with several classes it writes several numbers for one label")
    read = zip(sources, _encoder_labels(encoder, sources), encoder.encodings_, strict=True)
    return [
        replace(
            source, labels=labels, values=tuple(float(value) for value in values[: len(labels)])
        )
        for source, (labels, _, _), values in read
    ]


def _bins(binner: Any, sources: Sources) -> Sources:
    """Which bin a number lies in, as its place or one-hot."""
    result: Sources = []
    for source, edges in zip(sources, binner.bin_edges_, strict=True):
        if not source.untouched:
            raise _unsupported(binner, f"column {source.column!r} has been transformed before")
        n = len(edges) - 1
        # A single bin is two that look the same, on both sides of any number.
        inner = tuple(float(edge) for edge in edges[1:-1]) or (0.0,)
        hot = [
            replace(source, codes=(code,) if n > 1 else (0, 1), edges=inner) for code in range(n)
        ]
        place = replace(source, edges=inner, values=() if n > 1 else (0.0, 0.0))
        result += [place] if binner.encode == "ordinal" else hot
    return result


def _selected(selector: Any, sources: Sources) -> Sources:
    """Some of the variables."""
    return [source for source, kept in zip(sources, selector.get_support(), strict=True) if kept]


def _encoder_labels(
    encoder: Any, sources: Sources
) -> list[tuple[tuple[Label, ...], list[int], tuple[int, ...]]]:
    """For each column its labels, and which of them are common and which infrequent."""
    result = []
    few = getattr(encoder, "infrequent_categories_", None) or [None] * len(sources)
    for source, categories, rare in zip(sources, encoder.categories_, few, strict=True):
        if not source.untouched:
            raise _unsupported(encoder, f"column {source.column!r} has been transformed before")
        labels = tuple(
            plain_label(label, source.column) for label in categories if not pd.isna(label)
        )
        shared = [] if rare is None else [plain_label(label, source.column) for label in rare]
        common = [code for code, label in enumerate(labels) if label not in shared]
        result.append(
            (labels, common, tuple(code for code in range(len(labels)) if code not in common))
        )
    return result


def _imputer(imputer: Any, sources: Sources) -> Sources:
    """What is missing becomes a constant; for the columns that lacked values, flags may say so, after all others."""
    marker = imputer.missing_values
    if not (marker is None or marker is pd.NA or marker != marker):
        raise _unsupported(
            imputer, f"expected one that fills what is missing (nan), got {marker!r} for missing"
        )
    if len(imputer.statistics_) != len(sources) or pd.isna(imputer.statistics_).any():
        raise _unsupported(imputer, "it drops a column without values")
    fills = imputer.statistics_ if imputer.strategy == "constant" else [None] * len(sources)
    filled = [
        replace(source, imputed=True, fill=fill)
        for source, fill in zip(sources, fills, strict=True)
    ]
    flagged = imputer.indicator_.features_.tolist() if imputer.add_indicator else []
    return [*filled, *(replace(filled[i], flag=True) for i in flagged)]


def _function(transformer: Any, sources: Sources) -> Sources:
    """None, or an increasing function of numpy's that is known here."""
    if transformer.func is None:
        return sources
    known = [name for name, (there, _) in FUNCTIONS.items() if transformer.func is there]
    if not known or transformer.kw_args:
        names = ", ".join(f"np.{name}" for name in FUNCTIONS)
        raise _unsupported(
            transformer,
            f"its function {transformer.func!r} could be anything; expected one of {names}",
        )
    return _onward(transformer, sources, known[0], [0.0] * len(sources))


def _powers(transformer: Any, sources: Sources) -> Sources:
    """A power, its exponent fitted for each column; then scaled."""
    sources = _onward(transformer, sources, transformer.method, transformer.lambdas_.tolist())
    return (
        _READERS[StandardScaler](transformer._scaler, sources)
        if transformer.standardize
        else sources
    )


def _ranks(transformer: Any, sources: Sources) -> Sources:
    """Where a number stands among those of the training table."""
    quantiles = map(tuple, transformer.quantiles_.T.tolist())
    return _onward(transformer, sources, f"{transformer.output_distribution} ranks", quantiles)


def _onward(
    transformer: Any, sources: Sources, operation: str, constants: Iterable[Any]
) -> Sources:
    """One more operation on every column, each with its own constant."""
    for source in sources:
        if source.codes:
            raise _unsupported(
                transformer, f"it changes the one-hot variables of column {source.column!r}"
            )
    steps = zip(sources, constants, strict=True)
    return [
        replace(source, operations=(*source.operations, (operation, constant)))
        for source, constant in steps
    ]


def _unsupported(transformer: Any, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"{type(transformer).__name__} is not supported in a feature space: {why}"
    )


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
    RobustScaler: _scaler(
        ("subtract", "center_", "with_centering"), ("divide", "scale_", "with_scaling")
    ),
    SimpleImputer: _imputer,
    SelectKBest: _selected,
    SelectPercentile: _selected,
    StandardScaler: _scaler(("subtract", "mean_", "with_mean"), ("divide", "scale_", "with_std")),
    TargetEncoder: _target,
    VarianceThreshold: _selected,
}
