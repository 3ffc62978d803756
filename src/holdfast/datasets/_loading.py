"""`Dataset`, a table with all that a person has to know of it, and `load`: by its name, from a folder of yours, the
cache, or the network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from holdfast.datasets._catalogue import Facts
from holdfast.datasets._loans import make_loans
from holdfast.datasets._places import DATA, cache_folder, fetch, find_given, schema_for, searched
from holdfast.datasets._reading import as_schema, read_table
from holdfast.errors import DatasetNotFoundError, DownloadError
from holdfast.features import FeatureSpace


@dataclass(frozen=True, eq=False)
class Dataset(Facts):
    """A table to try things on; unpacks as ``X, space, y = load(...)``.

    Attributes
    ----------
    name, title
        What it is called.
    frame
        The features in raw units, one row a person. Also `X`.
    space
        Kinds, ranges and what a person can change; ``space.encode(frame)`` is what a model sees.
    target
        The label of each row, on the index of `frame`. Also `y`.
    wanted
        The class to ask for: ``explain(model, data.X, target=data.wanted, ...)``.
    classes
        What each label means.
    caveats
        What to know before trusting a figure from this table.
    licence, source, derivation
        Whose it is, where it comes from, and what was done to it on the way.
    path
        The file it was read from; None where none was needed.
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
        """Everything but the numbers, as text."""
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
    """A table by its name: DataFrame, feature space, labels, and its caveats.

    The file is looked for in the folder $HOLDFAST_DATA, then in the cache ($HOLDFAST_CACHE, or where the platform keeps
    caches), and is downloaded into the cache otherwise; a download that is not the expected file to the last bit is
    refused. A ``NAME.schema.json`` beside a file in $HOLDFAST_DATA that says anything else than the package's schema is
    used in its place.

    Parameters
    ----------
    name
        "adult", "compas", "gmc", "heloc", "california_housing", "iris" (comes with scikit-learn) or "loans"
        (`make_loans`).
    actionability, kinds, encoding
        Who says what a person can change, whether whole numbers stay whole, how two categories are encoded: see
        `FeatureSpace.from_schema`. To compare with the paper, ``kinds="carla"`` and "carla" or "free".
    as_in_paper
        The rows that the paper's experiments use: in gmc each row of class 0 three times (the copies follow the table
        and share their index label); nothing is repeated in the other tables.
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
        No file and no network; the message says where it was looked for and what to fetch by hand.
    FileFormatError
        A file that is not the table it should be.

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
            f"{facts.name}: expected a file in {searched(facts)}, or a download; got neither: {error}. "
            f"Fetch {wanted.url} by hand and save it as {cache_folder() / wanted.file}, "
            f"or set {DATA} to a folder that has it"
        ) from error
