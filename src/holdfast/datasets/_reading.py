"""From a file to the table: the same frame, bit for bit, whichever form of the file there is."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from holdfast._files import read_csv
from holdfast.errors import FileFormatError
from holdfast.features import Kind, Schema

# The percentiles of the house value at which the paper cuts its three classes.
_HOUSING_CUTS = (33, 67)
_HOUSING_MEMBER = "CaliforniaHousing/cal_housing.data"
_HOUSING_COLUMNS = (
    "Longitude", "Latitude", "HouseAge", "rooms", "bedrooms", "Population", "households", "MedInc", "value",
)  # fmt: skip
_KAGGLE_DECIMALS = 9


def read_table(path: Path, schema: Schema) -> pd.DataFrame:
    """The features in the schema's order and the label last, with the dtypes that the schema's kinds ask for."""
    try:
        frame = _housing(path) if path.suffix == ".tgz" else read_csv(path)
    except (OSError, EOFError, KeyError, ValueError, tarfile.TarError) as error:
        raise FileFormatError(
            f"{path}: expected the table {schema.name}, got a file without it: {error}"
        ) from error
    if schema.name == "gmc":
        # CARLA's went through a parser that was off by an ulp or two; Kaggle wrote at most nine decimals. Rounding is
        # exact here: the nearest whole number of 1e-9ths, divided once.
        frame = frame.assign(**frame.select_dtypes("float64").round(_KAGGLE_DECIMALS))
    return as_schema(frame, schema, str(path))


def as_schema(frame: pd.DataFrame, schema: Schema, origin: str) -> pd.DataFrame:
    """The columns of the schema, in its order, whole numbers as int64 and other numbers as float64."""
    wanted: Sequence[str] = [*schema.feature_names, schema.target]
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise FileFormatError(
            f"{origin}: expected the columns of {schema.name}, got none of the name {missing[0]!r}"
        )
    frame = frame[wanted]
    incomplete = int(frame.isna().any(axis=1).sum())
    if frame.empty or incomplete:
        raise FileFormatError(
            f"{origin}: expected rows without missing values, got {len(frame)} rows, {incomplete} of them with some"
        )
    kinds = {column["name"]: Kind(column["kind"]) for column in schema.columns}
    return frame.assign(**{name: _cast(frame[name], kinds[name], origin) for name in wanted})


def _cast(column: pd.Series, kind: Kind, origin: str) -> pd.Series:
    if not pd.api.types.is_numeric_dtype(column.dtype):
        if kind is not Kind.CATEGORICAL:
            raise FileFormatError(
                f"{origin}: expected numbers in column {column.name!r}, got {column.iloc[0]!r}"
            )
        return column
    if kind in (Kind.CONTINUOUS, Kind.CATEGORICAL):
        return column.astype("float64") if kind is Kind.CONTINUOUS else column.astype("str")
    whole = column.astype("int64")
    if (whole != column).any():
        raise FileFormatError(
            f"{origin}: expected whole numbers in column {column.name!r}, got others"
        )
    return whole


def _housing(path: Path) -> pd.DataFrame:
    """The archive of the census file, as scikit-learn's fetch_california_housing and the paper's classes read it."""
    with tarfile.open(path) as archive:
        member = archive.extractfile(_HOUSING_MEMBER)
        if member is None:
            raise KeyError(_HOUSING_MEMBER)
        raw = read_csv(member, header=None, names=list(_HOUSING_COLUMNS))
    value = raw["value"] / 100_000
    low, high = np.percentile(value, _HOUSING_CUTS)
    return raw.assign(
        AveRooms=raw["rooms"] / raw["households"],
        AveBedrms=raw["bedrooms"] / raw["households"],
        AveOccup=raw["Population"] / raw["households"],
        target=(value > low).astype("int64") + (value > high),
    )
