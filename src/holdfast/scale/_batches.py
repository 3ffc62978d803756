"""A verb as a function of batches: it takes a batch and returns the results of its rows.

Every tool that moves batches (joblib, Dask, Spark, Ray, a loop over a file) calls the same function. It reads no files.
Between calls it keeps only its prepared arguments, once in each process.
"""

from __future__ import annotations

import inspect
import threading
import uuid
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from holdfast._given import row_words
from holdfast.errors import InvalidInputError, MissingExtraError
from holdfast.features import FeatureSpace
from holdfast.generators import explain
from holdfast.generators._measured import marks_of
from holdfast.generators._reading import space_for
from holdfast.generators._recourse import added_column
from holdfast.importers import load_model
from holdfast.verify import certified_radius, certify, prepare
from holdfast.verify._inputs import read_targets
from holdfast.verify._verdict import spelled_out

Columns = dict[Hashable, Any]
Answer = Callable[[pd.DataFrame], pd.DataFrame]

# What was prepared in this process, by the token of the function that it was prepared for; the oldest go first.
_PREPARED: dict[str, Answer] = {}
_MOST = 8
_LOCK = threading.Lock()


def over_batches(
    verb: str, model: object, like: Any, *, keep: Sequence[Hashable] = (), **options: Any
) -> BatchFunction:
    """Make a verb a function of one batch, for tables larger than memory and for several machines.

    Parameters
    ----------
    verb
        "certify", "certified_radius" or "explain".
    model
        Any model that the verb takes.
    like
        The layout of the batches: a DataFrame, of which only columns and types count, or an Arrow schema. Columns that
        it does not have are ignored. A batch without one of its columns, or with other kinds of values in it, is an
        error.
    keep
        Columns that are returned as they are, before the verb's results, to tell rows apart if there is no index. They
        are not passed to the verb, unless the model or the space has a column of that name.
    options
        The other arguments of the verb, such as ``target=1, changes=hf.PlausibleChanges(0.02)``. For "certify",
        `factuals` is the prefix of the columns that hold each row's factual: ``"was_"`` for ``was_income``.

    Examples
    --------
    >>> import pandas as pd
    >>> from holdfast import Network, PlausibleChanges
    >>> net, table = Network([[[-1.0, 1.0]]], [[0.0]]), pd.DataFrame({"id": ["a", "b"], "x": 0.7, "y": [0.7, 0.9]})
    >>> answer = over_batches("certify", net, table, keep=["id"], target=1, changes=PlausibleChanges(0.05))
    >>> answer(table)[["id", "verdict"]]
      id     verdict
    0  a  NOT_ROBUST
    1  b      ROBUST
    """
    if verb not in _VERBS:
        raise InvalidInputError(f"verb: expected one of {', '.join(_VERBS)}, got {verb!r}")
    if isinstance(keep, str) or not isinstance(keep, Iterable):
        raise InvalidInputError(f"keep: expected a list of columns, such as ['id'], got {keep!r}")
    example = _example(like)
    missing = [name for name in keep if name not in example.columns]
    if missing:
        raise InvalidInputError(
            f"keep: expected columns of the table, got {missing[0]!r}; it has {list(example.columns)}"
        )
    signature = inspect.signature(_VERBS[verb].function)
    try:
        # What is not known at all is said before what is missing: it may be the same, in another spelling.
        _ = signature.bind_partial(model, X=None, **options)
        _ = signature.bind(model, X=None, **options)
    except TypeError as error:
        raise InvalidInputError(f"options: expected those of {verb}, got: {error}") from error
    loaded, space = load_model(model, options.get("threshold")), options.get("space")
    if not isinstance(space, FeatureSpace | None):
        raise InvalidInputError(f"space: expected a FeatureSpace, got {type(space).__name__}")
    _ = read_targets(loaded.classifier, options["target"], 1)
    names: Any = (loaded.feature_names or ()) if space is None else space.names
    aside = tuple(name for name in keep if name not in names)
    if verb == "explain":
        people = example.drop(columns=list(aside))
        options["space"] = space_for(loaded, people, space, options["generator"])
    function = BatchFunction(verb, model, example, tuple(keep), aside, options)
    _ = function.meta  # which refuses what cannot be declared
    return function


@dataclass(frozen=True, eq=False)
class BatchFunction:
    """The function that `over_batches` returns: it takes a DataFrame, an Arrow record batch or an Arrow table and
    returns the same type.

    It pickles with its arguments only; each process prepares them on the first call.
    """

    verb: str
    model: Any
    like: pd.DataFrame
    keep: tuple[Hashable, ...]
    aside: tuple[Hashable, ...]
    options: Mapping[str, Any]
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @cached_property
    def meta(self) -> pd.DataFrame:
        """The columns and types of every result, as a DataFrame without rows, for Dask."""
        asked = self.like.drop(columns=list(self.aside))
        answer = _VERBS[self.verb].columns(asked, self.options)
        twice = [name for name in self.keep if name in answer]
        if twice:
            raise InvalidInputError(
                f"keep: {twice[0]!r} is also a column of the result, {list(answer)}; rename it in the batch"
            )
        kept = {name: self.like[name].dtype for name in self.keep}
        types = {name: pd.Series(dtype=dtype) for name, dtype in (kept | answer).items()}
        return pd.DataFrame(types, index=self.like.index)

    @cached_property
    def schema(self) -> Any:
        """The columns and types of every result as an Arrow schema, for Spark and Parquet files."""
        try:
            import pyarrow  # type: ignore[import-untyped]
        except ImportError:
            raise MissingExtraError("pyarrow", "parquet", "an Arrow schema") from None
        return pyarrow.Schema.from_pandas(self.meta, preserve_index=False).remove_metadata()

    def __call__(self, batch: Any) -> Any:
        """The results of a batch, row by row, in the type of the batch."""
        result = self.coded(_frame(batch))
        result = _VERBS[self.verb].spelled(result)
        types = self.meta.dtypes
        other = types[result.dtypes.to_numpy() != types.to_numpy()].to_dict()
        for name in [name for name in self.keep if name in other and result[name].isna().any()]:
            # Arrow has no other type for whole numbers that may be missing.
            if isinstance(batch, pd.DataFrame):
                own = result[name]
                row = int(np.flatnonzero(own.isna())[0])
                raise InvalidInputError(
                    f"column {name!r}: expected a value in every row, got {own.iloc[row]} in "
                    f"{row_words(row, own.index)}; declare it as {own.dtype} if it may be missing"
                )
            del other[name]
        result = result.astype(other) if other else result
        if isinstance(batch, pd.DataFrame):
            return result
        return type(batch).from_pandas(result, schema=self.schema, preserve_index=False)

    def coded(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The same for a DataFrame; words that many rows share may be categories, which are faster to count."""
        frame = _checked(frame, self.like)
        if frame.index.empty:
            return self.meta.iloc[:0]
        asked = frame.drop(columns=list(self.aside)) if self.aside else frame
        answer = self._prepared()(asked)
        for place, name in enumerate(self.keep):
            answer.insert(place, name, frame[name].array)
        return answer[list(self.meta.columns)]

    def _prepared(self) -> Answer:
        with _LOCK:
            if self.token not in _PREPARED:
                _PREPARED[self.token] = _VERBS[self.verb].prepared(
                    self.model, {**self.options, "progress": False}
                )
                while len(_PREPARED) > _MOST:
                    del _PREPARED[next(iter(_PREPARED))]
            return _PREPARED[self.token]


# ---------------------------------------------------------------- what comes in


def _example(like: Any) -> pd.DataFrame:
    """A table without rows that has the columns and types."""
    like = getattr(like, "schema", like)
    if hasattr(like, "empty_table"):
        like = like.empty_table().to_pandas()
    if not isinstance(like, pd.DataFrame):
        raise InvalidInputError(f"like: expected a DataFrame or an Arrow schema, got {like!r:.80}")
    _refuse_twice("like", like)
    return like.iloc[:0]


def _frame(batch: Any) -> pd.DataFrame:
    """The batch as a DataFrame; columns of whole numbers with missing values stay whole."""
    if isinstance(batch, pd.DataFrame):
        return batch
    if not all(hasattr(batch, name) for name in ("schema", "num_rows", "to_pandas")):
        raise InvalidInputError(
            f"batch: expected a DataFrame, an Arrow record batch or an Arrow table, got {type(batch).__name__}"
        )
    frame: pd.DataFrame = batch.to_pandas(integer_object_nulls=True)
    return frame


def _checked(frame: pd.DataFrame, like: pd.DataFrame) -> pd.DataFrame:
    """The batch's declared columns, in their order and types; whole numbers are accepted as fractions."""
    missing = [name for name in like.columns if name not in frame.columns]
    if missing:
        raise InvalidInputError(
            f"batch: expected the column {missing[0]!r}, got {list(frame.columns)}"
        )
    if not frame.columns.is_unique:
        _refuse_twice("batch", frame[list(like.columns)])
    frame = frame if frame.columns.equals(like.columns) else frame[list(like.columns)]
    changed = like.columns[frame.dtypes.to_numpy() != like.dtypes.to_numpy()]
    frame = frame.copy(deep=False) if len(changed) else frame
    for name in changed:
        frame[name] = _as_declared(frame[name], like[name].dtype)
    return frame


def _refuse_twice(what: str, frame: pd.DataFrame) -> None:
    if not frame.columns.is_unique:
        name = frame.columns[frame.columns.duplicated()][0]
        raise InvalidInputError(f"{what}: expected the column {name!r} once, got it twice")


# The type of what a column may lack that cannot be missing itself.
_MAY_LACK = {"whole numbers": "Int64", "yes or no": "boolean"}


def _as_declared(own: pd.Series, dtype: Any) -> pd.Series:
    """The column in its declared type or, with missing values, in a type that allows them."""
    gone = own.isna()
    known = own[~gone].infer_objects() if gone.any() else own
    came, expected = _kind(known.dtype), _kind(dtype)
    whole = gone.any() and came == "numbers" and bool((known % 1 == 0).all())
    if (
        known.empty
        or (whole and expected == "whole numbers")
        or (came, expected) == ("whole numbers", "numbers")
    ):
        came = expected
    if came != expected:
        raise InvalidInputError(
            f"batch: expected {expected} in the column {own.name!r}, as in the table that was declared, got {came}: "
            f"{known.tolist()[0]!r:.40}"
        )
    own = own.where(~gone, None) if own.dtype == object else own
    lacking = gone.any() and isinstance(dtype, np.dtype)
    declared = own.astype(_MAY_LACK.get(expected, dtype) if lacking else dtype)
    if expected.endswith("numbers"):
        lost = np.flatnonzero(declared[~gone].to_numpy() != known.to_numpy())
        if lost.size:
            raise InvalidInputError(
                f"batch: expected {dtype} in the column {own.name!r}, as in the table that was declared, got "
                f"{known.tolist()[lost[0]]!r}"
            )
    return declared


def _kind(dtype: Any) -> str:
    if types.is_bool_dtype(dtype):
        return "yes or no"
    if types.is_integer_dtype(dtype):
        return "whole numbers"
    return "numbers" if types.is_float_dtype(dtype) else "labels"


# ---------------------------------------------------------------- the verbs


@dataclass(frozen=True)
class _Verb:
    """The function, its result's columns for a table, the preparation in a process, and words for codes."""

    function: Callable[..., Any]
    columns: Callable[[pd.DataFrame, Mapping[str, Any]], Columns]
    prepared: Callable[[Any, dict[str, Any]], Answer]
    spelled: Answer = lambda answer: answer


def _certify_columns(like: pd.DataFrame, options: Mapping[str, Any]) -> Columns:
    columns: Columns = {
        "verdict": "str",
        "robust": bool,
        "margin_lower": float,
        "margin_upper": float,
        "decided_by": "str",
    }
    return columns if options.get("factuals") is None else columns | {"sound": bool}


def _certify(model: Any, options: dict[str, Any]) -> Answer:
    reading = {
        name: options.pop(name) for name in ("space", "device", "threshold") if name in options
    }
    ready, target = prepare(model, options.pop("changes"), **reading), options.pop("target")
    before = options.pop("factuals", None)

    def answer(frame: pd.DataFrame) -> pd.DataFrame:
        if before is None:
            return ready.certify(frame, target, **options).to_frame(categories=True)
        was = frame.columns.astype(str).str.startswith(before)
        own = frame.loc[:, ~was]
        factuals = frame.loc[:, was].rename(columns=lambda name: name.removeprefix(before))
        certificates = ready.certify(own, target, factuals=factuals, **options)
        return certificates.to_frame(categories=True)

    return answer


def _radius(model: Any, options: dict[str, Any]) -> Answer:
    loaded = load_model(model, options.pop("threshold", None))
    return lambda frame: certified_radius(loaded, frame, **options).to_frame()


def _explain_columns(like: pd.DataFrame, options: Mapping[str, Any]) -> Columns:
    # Who has no answer has nothing in these columns; and advice is in whole numbers only where the space says so.
    columns: Columns = {
        name: _MAY_LACK.get(_kind(dtype), dtype) for name, dtype in like.dtypes.items()
    }
    for feature in options["space"].features:
        if columns.get(feature.name) == "Int64" and not feature.labelled:
            whole = feature.storage.precision == "integer"
            columns[feature.name] = "Int64" if whole else float
    added = {
        "found": bool,
        "verdict": "str",
        "cost_l1": float,
        "optimality_gap": float,
        "lower_bound": float,
        "reason": "str",
        "main_reasons": "str",
    }
    columns |= {added_column(name, like.columns): dtype for name, dtype in added.items()}
    if getattr(options.get("changes"), "chance", None):
        columns[added_column("chance", like.columns)] = "str"
    return columns | {"advice": "str"}


def _explain(model: Any, options: dict[str, Any]) -> Answer:
    loaded = load_model(model, options.pop("threshold", None))

    def answer(frame: pd.DataFrame) -> pd.DataFrame:
        result = explain(loaded, frame, **options)
        marks = {added_column("chance", frame.columns): marks_of(result)}
        return result.to_frame().assign(
            advice=["; ".join(parts) for parts in result.advice], **marks
        )

    return answer


_VERBS = {
    "certify": _Verb(certify, _certify_columns, _certify, spelled_out),
    "certified_radius": _Verb(
        certified_radius, lambda *_: {"radius_lower": float, "radius_upper": float}, _radius
    ),
    "explain": _Verb(explain, _explain_columns, _explain),
}
