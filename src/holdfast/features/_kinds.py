"""The small vocabulary of features: what a column is, and which way a person can move it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

Name = str | int
Label = str | int | float | bool
# The labels of columns, from low to high.
Ranks = Mapping[Name, Sequence[Label]]


class Kind(StrEnum):
    """What sort of values a column holds."""

    CONTINUOUS = "continuous"
    INTEGER = "integer"
    ORDINAL = "ordinal"
    CATEGORICAL = "categorical"
    BINARY = "binary"


class Direction(StrEnum):
    """Which way a value may move away from the factual's."""

    FREE = "free"
    IMMUTABLE = "immutable"
    INCREASING = "increasing"
    DECREASING = "decreasing"
