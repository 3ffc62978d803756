"""How far a point lies from where the data are: the local outlier factor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.neighbors import LocalOutlierFactor

from holdfast._network import Bools, Floats
from holdfast.errors import InvalidInputError
from holdfast.generators._memory import remembered

NEIGHBOURS = 10
# So many rows tell where the data are; fewer than the least say nothing about what is usual.
_MOST, _LEAST = 5000, 100
_CLEARLY = 1.25


@dataclass(frozen=True, eq=False)
class Density:
    """Where people of one class live, fitted once and asked about any number of points.

    The local outlier factor compares the density around a point with the density around its nearest neighbours: about
    1 among them, the larger the further out. Rows that occur more than once count once: where ten people are the same
    to the model, the density is infinite and says nothing.

    Parameters
    ----------
    rows
        (n, d) rows of the target class, in the model's variables; such as the training rows that have its label.
    neighbours
        How many neighbours count, 10 as in the paper; fewer where there are fewer rows.

    Examples
    --------
    >>> grid = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0)), axis=-1).reshape(-1, 2)
    >>> Density(grid).outlier_factor([[3.5, 3.5], [30.0, 30.0]]).round(1)
    array([ 1. , 15.5])
    """

    rows: Any
    neighbours: int = NEIGHBOURS

    def __post_init__(self) -> None:
        values = np.asarray(self.rows, dtype=np.float64)
        if values.ndim != 2 or not np.isfinite(values).all():
            raise InvalidInputError(
                f"rows: expected a table of finite numbers, got shape {values.shape}"
            )
        distinct = np.unique(values, axis=0)
        if len(distinct) < 2 or self.neighbours < 1:
            raise InvalidInputError(
                f"rows: expected at least two different rows and one neighbour, "
                f"got {len(distinct)} and {self.neighbours}"
            )
        object.__setattr__(self, "rows", distinct)

    def outlier_factor(self, points: ArrayLike) -> Floats:
        """The local outlier factor of each point."""
        values = np.asarray(points, dtype=np.float64)
        return np.asarray(-self._fitted.score_samples(values)) if len(values) else np.empty(0)

    @cached_property
    def usual(self) -> float:
        """What 99% of the rows themselves stay below."""
        return float(np.quantile(-self._fitted.negative_outlier_factor_, 0.99))

    def far_off(self, points: Floats, factuals: Floats) -> Bools:
        """Which points lie far off the data: clearly beyond what is usual, and beyond the people whom they are for.

        A person with a rare age is an outlier before any advice; only the part that the advice adds counts.
        """
        usual = np.maximum(self.usual, self.outlier_factor(factuals))
        return self.outlier_factor(points) > _CLEARLY * usual

    @cached_property
    def _fitted(self) -> Any:
        neighbours = min(self.neighbours, len(self.rows) - 1)
        return LocalOutlierFactor(n_neighbors=neighbours, novelty=True).fit(self.rows)


@remembered
def density_of(points: Floats) -> Density | None:
    """Where the rows of a table are, by as many of them as it takes; None where they are too few to say."""
    rows = np.unique(np.random.default_rng(0).permutation(points)[:_MOST], axis=0)
    return Density(rows) if len(rows) >= _LEAST else None
