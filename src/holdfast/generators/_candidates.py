"""Other people's rows as candidates, and the order in which a person meets them.

A candidate is taken as far as the constraints allow: what may not move stays the factual's, the rest becomes the
candidate's (`FeatureSpace.project`). The distance is what that costs: an immutable column counts nothing, and a column
that may only rise counts only what it rises by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from holdfast._classifier import Classifier
from holdfast._given import given_array
from holdfast._network import Bools, Floats, Ints
from holdfast._scored import Scored
from holdfast.errors import InvalidInputError
from holdfast.features import Direction, Feature, FeatureSpace
from holdfast.features._admissible import nearest, reach
from holdfast.generators._base import Generator, Task
from holdfast.generators._memory import remembered

# A tree looks at a few candidates only, unless there are so many columns that most are about as far away.
_MOST_TREE_COLUMNS = 24
_FEWEST_FOR_A_TREE = 500
# For fewer people all distances are sooner computed than a tree is built.
_FEWEST_TO_ASK_A_TREE = 200
# Distances are sums in one order in the tree and in another here; closer than this they count as a tie.
_TIE = 1e-9
# How many distances are held in memory, and from how many candidates at a time they are computed, so that these stay
# in the processor's cache for all people.
_PAIRS = 1_000_000
_BLOCK = 1024
# How many candidates are settled at a time.
_ROWS = 16_384


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates for one target, in the model's variables.

    Parameters
    ----------
    space
        What a person can change.
    table
        Rows as they came, candidates among them.
    settled_table
        The rows on the grid and in range, so that the distance to them is what a change costs.
    rows
        Which rows of the table are candidates: it may be large, and is not copied.
    """

    space: FeatureSpace
    table: Floats
    settled_table: Floats
    rows: Ints

    @classmethod
    def of(cls, points: Floats, space: FeatureSpace) -> Candidates:
        """All of these points."""
        return cls(space, points, _settled(points, space), np.arange(len(points)))

    def __len__(self) -> int:
        return self.rows.size

    def where(self, mask: Bools) -> Candidates:
        """Some of them."""
        return replace(self, rows=self.rows[mask])

    def points(self, which: Ints) -> Floats:
        """Candidates as they came."""
        return self.table[self.rows[which]]

    def settled(self, which: slice = slice(None)) -> Floats:
        """Candidates on the grid and in range."""
        return self.settled_table[self.rows[which]]

    @property
    def handed_out_as_they_are(self) -> bool:
        """Whether candidates stay as they are under the constraints of every person."""
        features = self.space.features
        free = all(
            f.direction is Direction.FREE and not (f.restricted or f.missing or f.max_change)
            for f in features
        )
        return free and not self.space.rules and np.array_equal(self.table, self.settled_table)

    def first(self, factuals: Floats, k: int) -> list[Ints]:
        """For each factual the first `k` candidates in order of distance, the earlier candidate first on a tie."""
        if k < len(self) and len(factuals) >= _FEWEST_TO_ASK_A_TREE and self.by_tree:
            return self._first_by_tree(factuals, k)
        people = max(1, _PAIRS // max(1, len(self)))
        parts = (factuals[start : start + people] for start in range(0, len(factuals), people))
        return [_least(distances, k) for part in parts for distances in self.distances(part)]

    @property
    def by_tree(self) -> bool:
        """Whether the distance is one that a tree knows, and a tree is faster for many people."""
        useful = 0 < self._free.size <= _MOST_TREE_COLUMNS and len(self) >= _FEWEST_FOR_A_TREE
        limited = any(feature.max_change for feature in self.space.features)
        return useful and not (self._directed or self._restricted or limited)

    def distances(self, factuals: Floats, subset: Any = slice(None)) -> Floats:
        """What it costs each person to become like each candidate as far as the constraints allow, in cost_l1."""
        candidates = self.rows[subset]
        near = self._near[subset]
        scaled = factuals[:, self._free] * self._scale[self._free]
        distance = np.zeros((len(factuals), candidates.size))
        for start in range(0, candidates.size, _BLOCK):
            rows = slice(start, start + _BLOCK)
            if self._free.size:
                distance[:, rows] = cdist(scaled, near[rows], "cityblock")
            for variable, sign in self._directed:
                change = sign * (
                    self.settled_table[candidates[rows], variable] - factuals[:, variable, None]
                )
                distance[:, rows] += self._scale[variable] * np.maximum(change, 0.0)
        for feature in self.space.features:
            if feature.max_change and feature.direction is not Direction.IMMUTABLE:
                distance += self._limited_distances(
                    feature, factuals[:, feature.places], candidates
                )
        for feature, prices, codes in self._restricted:
            own = feature.scores(factuals[:, list(feature.variables)]).argmax(axis=1)
            distance += prices[own[:, None], codes[subset]]
        return distance

    def _limited_distances(self, feature: Feature, factuals: Floats, candidates: Ints) -> Floats:
        """The cost for each person to become like each candidate in a column with a largest change."""
        column = replace(feature, missing=(), flags=(), fillable=False)
        variables = list(feature.variables)
        scale, blocks = self._scale[variables], factuals[:, : len(variables)]
        own, theirs = column.decode(blocks), self.settled_table[candidates[:, None], variables]
        if not feature.listed:
            low, high = reach(column, own, len(own))
            fixed = low > high
            low, high = (
                np.where(fixed, blocks[:, 0], column.scaling.apply(np.where(fixed, own, end)))
                for end in (low, high)
            )
            moved = np.clip(theirs[:, 0], low[:, None], high[:, None])
            return np.asarray(scale[0] * np.abs(moved - blocks))
        theirs, places = np.unique(theirs, axis=0, return_inverse=True)
        result = np.empty((len(factuals), candidates.size))
        for row, block in enumerate(blocks):
            moved = column.encode(nearest(column, theirs, np.repeat(own[row], len(theirs))))
            result[row] = (np.abs(moved - block) @ scale)[places.reshape(-1)]
        return result

    def _first_by_tree(self, factuals: Floats, k: int) -> list[Ints]:
        reach, neighbours = self._tree.query((factuals * self._scale)[:, self._free], k=k + 1, p=1)
        result = []
        for factual, far, near in zip(factuals, reach, neighbours, strict=True):
            if far[k - 1] < far[k] * (1.0 - _TIE):
                near = np.sort(near[:k])
                result.append(
                    near[np.argsort(self.distances(factual[None], near)[0], kind="stable")]
                )
            else:
                # Others may share the k-th distance, and the tree does not say which of them comes first.
                result.append(_least(self.distances(factual[None])[0], k))
        return result

    @cached_property
    def _scale(self) -> Floats:
        return self.space.weights / self.space.n_variables

    @cached_property
    def _free(self) -> Ints:
        """Variables that move both ways."""
        free = [
            variable
            for feature in self.space.features
            if feature.direction is Direction.FREE
            and not (feature.restricted or feature.max_change)
            for variable in feature.variables
        ]
        return np.array(sorted(free), dtype=np.intp)

    @cached_property
    def _near(self) -> Floats:
        """The candidates' variables that move both ways, scaled so that distances are costs."""
        columns = (
            self.settled_table[self.rows, variable] * self._scale[variable]
            for variable in self._free
        )
        return np.fromiter(columns, dtype=(np.float64, len(self)), count=self._free.size).T.copy()

    @cached_property
    def _directed(self) -> list[tuple[int, float]]:
        """Variables that move one way, with the sign of that way."""
        signs = {Direction.INCREASING: 1.0, Direction.DECREASING: -1.0}
        return [
            (variable, signs[feature.direction])
            for feature in self.space.features
            if feature.direction in signs and not (feature.listed or feature.max_change)
            for variable in feature.variables
        ]

    @cached_property
    def _restricted(self) -> list[tuple[Feature, Floats, Ints]]:
        """Columns some of whose labels cannot be reached: what each move costs, nothing if it cannot be made."""
        found = []
        for feature in self.space.features:
            if (
                feature.listed
                and feature.restricted
                and not feature.max_change
                and feature.direction is not Direction.IMMUTABLE
            ):
                blocks = feature.blocks
                change = (
                    np.abs(blocks[:, None, :] - blocks[None, :, :])
                    @ self._scale[list(feature.variables)]
                )
                codes = feature.scores(self.settled()[:, list(feature.variables)]).argmax(axis=1)
                found.append((feature, np.where(feature.moves, change, 0.0), codes))
        return found

    @cached_property
    def _tree(self) -> Any:
        return cKDTree(self._near)


def _least(distances: Floats, k: int) -> Ints:
    """Where the `k` least distances are, in their order, the earlier first on a tie."""
    if min(k, distances.size) == 0:
        return np.empty(0, dtype=np.intp)
    last = min(k, distances.size) - 1
    # The k-th of a part lies no lower than the k-th of all: a small part leaves a few to look at closely.
    part = distances[:: max(1, distances.size // (16 * k))]
    near = np.flatnonzero(distances <= np.partition(part, last)[last])
    values = distances[near]
    near = near[values <= np.partition(values, last)[last]]
    return np.asarray(near[np.argsort(distances[near], kind="stable")[:k]])


def read_candidates(candidates: Any, space: FeatureSpace, network: Classifier) -> Floats:
    """A table of candidates, raw like X, in the model's variables."""
    try:
        points = _encoded(candidates, space)
        network.check_points(points)
    except InvalidInputError as error:
        raise InvalidInputError(f"candidates: {str(error).removeprefix('X: ')}") from error
    if len(points) == 0:
        raise InvalidInputError("candidates: expected at least one row, got an empty table")
    return points


def read_ahead(generator: Generator, space: FeatureSpace, network: Classifier) -> None:
    """Read the generator's table now, if it has one, so that the first question takes no longer than the second."""
    table = generator.example_table()
    if table is not None and not isinstance(table, FeatureSpace):
        _settled(read_candidates(table, space, network), space)


@remembered
def _encoded(candidates: Any, space: FeatureSpace) -> Floats:
    return _frozen(space.encode(candidates))


@remembered
def _settled(points: Floats, space: FeatureSpace) -> Floats:
    """The points settled; the points themselves where that changes none."""
    result = points
    for start in range(0, len(points), _ROWS):
        rows = slice(start, start + _ROWS)
        settled = space.settled_points(points[rows])
        if not np.array_equal(settled, points[rows]):
            result = points.copy() if result is points else result
            result[rows] = settled
    return _frozen(result)


def _frozen(points: Floats) -> Floats:
    """What is remembered must not be written to."""
    points = points.view()
    points.flags.writeable = False
    return points


def check_candidates(candidates: Any) -> Any:
    """A private copy of the table as it came, or an error if it is not a table."""
    if isinstance(candidates, pd.DataFrame):
        return candidates.copy()
    values = given_array(candidates, "candidates").copy()
    if values.ndim != 2:
        raise InvalidInputError(
            f"candidates: expected a table with one row for each, got shape {values.shape}"
        )
    return values


def accepted_candidates(
    table: Any, space: FeatureSpace, classifier: Classifier, targets: Iterable[int]
) -> dict[int, Candidates]:
    """For each target the candidates that today's model gives this class."""
    every = Candidates.of(read_candidates(table, space, classifier), space)
    # How often a model that is known by its scores is asked is counted, and paid for.
    ask = _asked if isinstance(classifier, Scored) else _classes
    classes = ask(every.table, classifier)
    return {target: every.where(classes == target) for target in targets}


def _asked(points: Floats, classifier: Classifier) -> Ints:
    return classifier.predict_index(points)


_classes = remembered(_asked)


@dataclass(frozen=True, eq=False)
class FromTable(Generator):
    """A generator that uses other people's rows, from a private copy of the table."""

    candidates: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", check_candidates(self.candidates))

    def accepted(self, task: Task) -> dict[int, Candidates]:
        """For each target of a task the candidates that today's model gives this class."""
        targets = np.unique(task.targets).tolist()
        return accepted_candidates(self.candidates, task.space, task.classifier, targets)
