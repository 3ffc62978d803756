"""The tables of a study: people, labels, feature space and target class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import UnionType
from typing import Any

import numpy as np
import pandas as pd

from holdfast._network import Floats, Ints, Values
from holdfast.datasets import Dataset, load
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.study._store import digest


@dataclass(frozen=True, eq=False)
class Learned:
    """The training data of today's model and the new data, in the model's variables."""

    X: Floats
    y: Values
    X_new: Floats
    y_new: Values


@dataclass(frozen=True, eq=False)
class StudyTable:
    """A table with its name in a study.

    Parameters
    ----------
    name
        The name in the results.
    X, y
        The people in raw units, and their labels.
    space
        The feature space: columns, units and constraints. The models of the study read ``space.encode(X)``.
    target
        The target class.
    """

    name: str
    X: pd.DataFrame
    y: Values
    space: FeatureSpace
    target: Any

    @cached_property
    def points(self) -> Floats:
        """The table in the models' variables."""
        return self.space.encode(self.X)

    def labelled(self, rows: Ints) -> tuple[Floats, Values]:
        """Some rows in the models' variables, and their labels."""
        return self.points[rows], self.y[rows]

    @cached_property
    def identity(self) -> str:
        """A hash of the content."""
        return digest([self.X[list(self.space.names)], self.y, self.space, self.target])


def by_name(
    given: Any, what: str, expected: str, single: type | UnionType = str
) -> list[tuple[str | None, Any]]:
    """Values by name, from a mapping, a list or a single value; None for values without a name."""
    if isinstance(given, Mapping):
        return [(str(name), value) for name, value in given.items()]
    several = [given] if isinstance(given, single) else given
    if not isinstance(several, Iterable):
        raise InvalidInputError(f"{what}: expected {expected}, got {given!r:.80}")
    return [(None, value) for value in several]


def check_names(names: Sequence[str], what: str) -> None:
    """Raise for an empty list and for repeated names."""
    if not names or len(set(names)) != len(names):
        raise InvalidInputError(f"{what}: expected at least one, each once, got {names}")


def some_of(known: Sequence[str], wanted: Sequence[str] | None, what: str) -> Sequence[str]:
    """The wanted names, all of them if None; raises for unknown names."""
    unknown = [name for name in wanted or () if name not in known]
    if unknown or wanted == []:
        raise InvalidInputError(
            f"{what}: expected some of {', '.join(known)}, got {', '.join(unknown) or 'none'}"
        )
    return known if wanted is None else wanted


def read_tables(datasets: Any, target: Any = None) -> tuple[StudyTable, ...]:
    """Read names of public data sets, `Dataset` values, or the caller's own (X, y, space) by name."""
    if isinstance(datasets, tuple | list) and any(
        isinstance(part, pd.DataFrame) for part in datasets
    ):
        kinds = ", ".join(type(part).__name__ for part in datasets)
        raise InvalidInputError(
            f"datasets: give the table a name, {{'people': (X, y, space)}}; got ({kinds})"
        )
    expected = "names, or a mapping from names to (X, y, space)"
    named = by_name(datasets, "datasets", expected, str | Dataset)
    tables = tuple(_table(name, value, target) for name, value in named)
    check_names([table.name for table in tables], "datasets")
    return tables


def _table(name: str | None, value: Any, target: Any) -> StudyTable:
    if name is None:
        # What the paper and the CARLA library let people change.
        value = (
            load(value, actionability="carla", kinds="carla") if isinstance(value, str) else value
        )
        if not isinstance(value, Dataset):
            raise InvalidInputError(
                "datasets: expected names of public data sets, or a mapping {name: (X, y, space)}, "
                f"got {type(value).__name__}"
            )
        name = value.name
    if isinstance(value, Dataset):
        X = value.X
        y = value.y
        space = value.space
        wanted = value.wanted
    elif isinstance(value, tuple | list) and len(value) == 3:
        X, y, space = value
        wanted = None
    else:
        raise InvalidInputError(
            f"datasets[{name!r}]: expected (X, y, space), got {type(value).__name__}"
        )
    if not isinstance(X, pd.DataFrame) or not isinstance(space, FeatureSpace):
        raise InvalidInputError(
            f"datasets[{name!r}]: expected (X, y, space) with a DataFrame and a FeatureSpace, "
            f"got ({type(X).__name__}, {type(y).__name__}, {type(space).__name__})"
        )
    labels = np.asarray(y)
    if labels.shape != (len(X),):
        raise InvalidInputError(
            f"datasets[{name!r}]: expected a label for each of {len(X)} rows, got {labels.shape}"
        )
    classes, counts = np.unique(labels, return_counts=True)
    # Each class has to occur in the training and test part of both halves.
    if classes.size < 2 or counts.min() < 4:
        raise InvalidInputError(
            f"datasets[{name!r}]: expected at least two classes with four rows each, "
            f"got {dict(zip(classes.tolist(), counts.tolist(), strict=True))}"
        )
    wanted = target if target is not None else classes[-1].item() if wanted is None else wanted
    if wanted not in classes.tolist():
        raise InvalidInputError(
            f"target: expected one of {classes.tolist()} for {name!r}, got {wanted!r}"
        )
    return StudyTable(name, X, labels, space, wanted)
