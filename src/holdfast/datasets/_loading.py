"""`Dataset`, a public table with its space and caveats, and `load`, which reads it from a folder, the cache or the
network."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from holdfast._files import read_csv
from holdfast.datasets._catalogue import Facts
from holdfast.datasets._loans import make_loans
from holdfast.datasets._places import DATA, cache_folder, fetch, find_given, schema_for, searched
from holdfast.errors import DatasetNotFoundError, DownloadError, FileFormatError
from holdfast.features import FeatureSpace, Kind, Schema

# The percentiles of the house value at which the paper cuts its three classes.
_HOUSING_CUTS = (33, 67)
_HOUSING_MEMBER = "CaliforniaHousing/cal_housing.data"
_HOUSING_COLUMNS = (
    "Longitude", "Latitude", "HouseAge", "rooms", "bedrooms", "Population", "households", "MedInc", "value",
)  # fmt: skip
_KAGGLE_DECIMALS = 9


@dataclass(frozen=True, eq=False)
class Dataset(Facts):
    """A public table with its space and labels; unpacks as ``X, space, y = load(...)``.

    Attributes
    ----------
    name, title
        Its short name and its title.
    frame
        The features in raw units, one row a person. Also `X`.
    space
        Kinds, ranges and possible changes; ``space.encode(frame)`` is the model's input.
    target
        The label of each row, on the index of `frame`. Also `y`.
    wanted
        The class to ask for: ``explain(model, data.X, target=data.wanted, ...)``.
    classes
        The meaning of each label.
    caveats
        Warnings to read before trusting a figure from this table.
    licence, source, derivation
        Its licence, its origin, and the changes made to it.
    path
        The file of the table; None for a table that needs no file.
    """

    frame: pd.DataFrame
    space: FeatureSpace
    target: pd.Series
    path: Path | None

    @property
    def X(self) -> pd.DataFrame:  # noqa: N802
        """The features: `frame` under the name that scikit-learn's users give it."""
        return self.frame

    @property
    def y(self) -> pd.Series:
        """The labels: `target` under the name that scikit-learn's users give it."""
        return self.target

    @property
    def description(self) -> str:
        """Classes, source, licence and caveats, as text."""
        counts = self.target.value_counts()
        lines = [
            self.title,
            f"{len(self.frame):,} rows, {len(self.frame.columns)} features, label {self.target.name!r}:",
            *(
                f"  {label} {meaning}: {counts.get(label, 0):,} rows{' (wanted)' if label == self.wanted else ''}"
                for label, meaning in self.classes.items()
            ),
            f"From {self.source}. {self.derivation}",
            f"Licence: {self.licence}.",
            *(f"Caveat: {caveat}" for caveat in self.caveats),
        ]
        return "\n".join(lines)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.frame, self.space, self.target))

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {len(self.frame):,} rows, {len(self.frame.columns)} features, "
            f"{len(self.classes)} classes, wanted {self.wanted})"
        )


def load(
    name: str,
    *,
    actionability: str = "schema",
    kinds: str = "schema",
    encoding: str = "binary",
    as_in_paper: bool = False,
    download: bool = True,
    progress: bool | None = None,
) -> Dataset:
    """Load a public table by its name: DataFrame, feature space, labels, and caveats.

    `load` looks for the file in the folder $HOLDFAST_DATA, then in the cache ($HOLDFAST_CACHE, or the platform's folder
    for caches), and then downloads it into the cache. A download that differs from the expected file is refused. A
    different ``NAME.schema.json`` next to a file in $HOLDFAST_DATA replaces the package's schema.

    Parameters
    ----------
    name
        "adult", "compas", "gmc", "heloc", "california_housing", "iris" (comes with scikit-learn) or "loans"
        (`make_loans`).
    actionability, kinds, encoding
        Source of the directions, whether whole numbers stay whole, and the encoding of two categories; see
        `FeatureSpace.from_schema`. To compare with the paper, take ``kinds="carla"`` and "carla" or "free".
    as_in_paper
        The rows of the paper's experiments: in gmc each row of class 0 three times. The copies follow the table and
        share their index label. Other tables are not affected.
    download
        Whether the network may be used.
    progress
        Whether to show a progress bar; by default if stderr is a terminal.

    Returns
    -------
    Dataset
        ``X, space, y = load(name)``, or by name: `frame`, `space`, `target`, `wanted`, `caveats`, ...

    Raises
    ------
    DatasetNotFoundError
        No file was found and the network cannot be used; the message names the places and the address.
    FileFormatError
        The file is not the expected table.

    Examples
    --------
    >>> X, space, y = load("loans")
    >>> X.shape, space.encode(X).shape, int(y.sum())
    ((4000, 10), (4000, 17), 2012)
    >>> iris = load("iris")
    >>> iris
    Dataset('iris': 150 rows, 4 features, 3 classes, wanted 2)
    >>> iris.classes[iris.wanted]
    'virginica'
    """
    facts = Facts.of(name)
    given = find_given(facts)
    schema = schema_for(facts, given)
    space = FeatureSpace.from_schema(
        schema, actionability=actionability, kinds=kinds, encoding=encoding
    )
    path = given or _cached(facts, download, progress)
    if path is not None:
        table = read_table(path, schema)
    elif name == "loans":
        table = make_loans(facts.rows)
    else:
        from sklearn.datasets import load_iris

        table = as_schema(load_iris(as_frame=True).frame, schema, "scikit-learn's iris")
    if as_in_paper and name == "gmc":
        # The paper's code uses each row of class 0 three times.
        extra = table[table[schema.target] == 0]
        table = pd.concat([table, extra, extra])
    label = schema.target
    return Dataset(
        **vars(facts), frame=table.drop(columns=label), space=space, target=table[label], path=path
    )


def _cached(facts: Facts, allowed: bool, progress: bool | None) -> Path | None:
    """The file in the cache, downloaded if need be, or an error that says what to do; None if no file is needed."""
    wanted = facts.download
    if wanted is None:
        return None
    try:
        return fetch(wanted, cache_folder(), allowed=allowed, progress=progress)
    except DownloadError as error:
        raise DatasetNotFoundError(
            f"{facts.name}: no file in {searched(facts)}, and no download: {error}. "
            f"Fetch {wanted.url} by hand and save it as {cache_folder() / wanted.file}, "
            f"or set {DATA} to a folder that has it"
        ) from error


# ------------------------------------------------------------------ from a file to the same frame, bit for bit


def read_table(path: Path, schema: Schema) -> pd.DataFrame:
    """The features in the schema's order and the label last, with the dtypes that the schema's kinds ask for."""
    try:
        frame = _housing(path) if path.suffix == ".tgz" else read_csv(path)
    except (OSError, EOFError, KeyError, ValueError, tarfile.TarError) as error:
        raise FileFormatError(f"{path}: the file has no table {schema.name}: {error}") from error
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
            f"{origin}: the table has no column {missing[0]!r}, which {schema.name} needs"
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
