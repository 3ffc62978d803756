"""The tables that commands read: people, points, advice, by key or row by row."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from holdfast._files import check_place, is_parquet, read_csv, read_json
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features import FeatureSpace, Schema
from holdfast.features._serial import FORMAT
from holdfast.importers import Model

# What `explain` and `alternatives` put beside the columns of people.
ADDED = (
    "found",
    "verdict",
    "cost_l1",
    "optimality_gap",
    "lower_bound",
    "reason",
    "advice",
    "answer",
    "left_alone",
)


def read_table(
    path: Path,
    *,
    index: str | None = None,
    drop: Sequence[str] = (),
    space: FeatureSpace | None = None,
) -> pd.DataFrame:
    """The table in a file, keyed by the column `index`, without the columns `drop`.

    A key in a CSV file is the text that is written there: 007 is not 7, and NA may be someone's initials. So is a
    label, where the space says that all labels of its column are text.
    """
    parquet = is_parquet(path)
    try:
        frame = pd.read_parquet(path) if parquet else _with_text(read_csv(path), path, index, space)
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{path}: expected a table in UTF-8, got another encoding: {error}"
        ) from error
    except (ValueError, OSError) as error:
        raise FileFormatError(
            f"{path}: expected a table, got a file that cannot be read: {error}"
        ) from error
    for column in [*([] if index is None else [index]), *drop]:
        if column not in frame.columns:
            raise InvalidInputError(
                f"{path}: expected a column {column!r}, got {list(frame.columns)}{_hint(frame)}"
            )
    if frame.empty:
        raise InvalidInputError(f"{path}: expected at least one row, got none")
    frame = frame.rename_axis("row") if index is None else frame.set_index(index)
    return frame.drop(columns=list(drop))


def _with_text(
    frame: pd.DataFrame, path: Path, index: str | None, space: FeatureSpace | None
) -> pd.DataFrame:
    """The frame with its key, and with labels that are text, as they are written; an empty cell is a missing label."""
    labelled = [
        feature.name
        for feature in (() if space is None else space.features)
        if feature.labelled and all(isinstance(label, str) for label in feature.categories)
    ]
    texts = [name for name in dict.fromkeys([*labelled, index]) if name in frame.columns]
    if not texts:
        return frame
    written = read_csv(path, usecols=texts, dtype=str, keep_default_na=False)
    for name in texts:
        frame[name] = (
            written[name] if name == index else written[name].where(written[name] != "", other=None)
        )
    return frame


def _hint(frame: pd.DataFrame) -> str:
    """What is probably the matter with a table of one column."""
    split = len(frame.columns) == 1 and ";" in str(frame.columns[0])
    return (
        "; is it separated by semicolons? Save it with commas, and with points in its numbers"
        if split
        else ""
    )


def read_schema(path: Path) -> tuple[FeatureSpace, Hashable]:
    """The feature space that `FeatureSpace.to_dict` wrote, or that of a schema with its label column."""
    data = read_json(path)
    if isinstance(data, dict) and data.get("format") == FORMAT:
        return FeatureSpace.from_dict(data), None
    return FeatureSpace.from_schema(path), Schema.from_dict(data, str(path)).target


def own_columns(
    frame: pd.DataFrame, model: Model, path: Path, space: FeatureSpace | None = None
) -> pd.DataFrame:
    """The columns that the model reads: by name where it knows them, else all but those that `explain` added.

    For a model that knows no names the count must match, unless a space picks the columns; a model that does know them
    names the culprit itself.
    """
    names = list(model.feature_names or ())
    if names or space is not None:
        return frame[names] if names and set(names) <= set(frame.columns) else frame
    frame = frame.drop(
        columns=[name for name in map(partial(advice_name, frame), ADDED) if name is not None]
    )
    expected = model.classifier.n_features
    if model.preprocess is None and len(frame.columns) != expected:
        raise InvalidInputError(
            f"{path}: expected {expected} columns, one for each variable of the model, got {len(frame.columns)}: "
            f"{', '.join(map(str, frame.columns))} (--index makes one the key, --drop leaves one out)"
        )
    return frame


def advice_name(frame: pd.DataFrame, name: str) -> str | None:
    """What `explain` called one of the columns that it added; None in a table that is not its own."""
    if not {"optimality_gap", "recourse_optimality_gap"} & set(frame.columns):
        return None
    return next((own for own in (f"recourse_{name}", name) if own in frame.columns), None)


def answered(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with an answer, of what `explain` wrote; of any other table, all."""
    found = advice_name(frame, "found")
    return frame if found is None else frame[frame[found].to_numpy(dtype=np.bool_)]


def rows_by_key(table: pd.DataFrame, wanted: pd.DataFrame, path: Path, whose: str) -> pd.DataFrame:
    """The rows of a table with the keys of another, in its order; a key is the same whatever type a file gives it."""
    keys, known, index = wanted.index.map(str), table.index.map(str), table.index.name
    if not known.is_unique:
        raise InvalidInputError(f"{path}: expected each {index!r} once, got repeated ones")
    missing = keys.difference(known)
    if len(missing):
        raise InvalidInputError(
            f"{path}: expected every {index!r} of {whose}, got none for {missing[0]!r}"
        )
    return table.iloc[known.get_indexer(keys)]


def column_of(people: pd.DataFrame, name: str, data: Path, option: str) -> pd.Series:
    """A column that an option names."""
    if name not in people.columns:
        raise InvalidInputError(
            f"{data}: expected a column {name!r} for {option}, got {list(people.columns)}"
        )
    return people[name]


def check_output(path: Path | None, *, table: bool = True) -> None:
    """Refuse what cannot be written before any work is done."""
    if path is not None:
        check_place(path)
        if table:
            is_parquet(path)
