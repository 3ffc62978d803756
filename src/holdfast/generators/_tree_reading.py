"""What trees read of the columns of a space: which way each of their questions sends every value of a column.

    ordered    numbers: a question is  number <= end,  so that the ends cut the column into cells
    listed     labels, bins and categories: a question sends each of them left or right
    missing    one more value of either

A question whose threshold may move sends some values both ways.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast._classifier import Floats
from holdfast._trees import TreeEnsemble
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.features._codec import Rows
from holdfast.features._pipeline import output_columns

Ints = NDArray[np.intp]
Mask = NDArray[np.bool_]
# Where a number has no end, it is looked at up to here.
_FAR = 1e300
# Numbers between which an end lies are halved so often before the trees are asked again.
_HALVINGS = 4


@dataclass
class Questions:
    """The questions of all nodes, asked of the columns of a space.

    Attributes
    ----------
    column
        The column of the space that a node asks about, (nodes,); -1 at a leaf, or where every row reads the same.
    ends
        For each ordered column the numbers at which its cells end, rising; the last cell has none.
    sure_left, maybe_left
        For nodes that ask an ordered column: the last cell that goes left for certain, and the last that may.
    left, right
        For each listed column, (codes, nodes): which codes may go left, and right.
    gap_left, gap_right
        Where a value that is missing may go, (nodes,).
    scored
        For each listed column which codes the model can score at all.
    """

    column: Ints

    def __post_init__(self) -> None:
        self.ends: dict[int, Floats] = {}
        self.left: dict[int, Mask] = {}
        self.right: dict[int, Mask] = {}
        self.scored: dict[int, Mask] = {}
        self.sure_left, self.maybe_left = (np.full_like(self.column, -1) for _ in range(2))
        self.gap_left, self.gap_right = (np.zeros(self.column.shape, bool) for _ in range(2))


class TreeReader:
    """From numbers of a space's columns to what the trees read."""

    def __init__(self, ensemble: TreeEnsemble, space: FeatureSpace, person: Rows) -> None:
        self.ensemble, self.space, self.forest = ensemble, space, ensemble.forest
        self.base = person.numbers[0]
        self.owner = self._owners()
        asked = ~self.forest.leaves
        self.column = np.where(asked, self.owner[np.where(asked, self.forest.feature, 0)], -1)
        categorical = np.unique(self.column[self.forest.category >= 0])
        for column in categorical.tolist():
            if not space.features[column].labelled:
                raise InvalidInputError(
                    f"column {space.names[column]!r}: expected labels in the space, as the trees take it for "
                    "categories, got numbers; RNCE and NNCE take it"
                )

    def covers(self, person: Rows) -> bool:
        """Whether what was found for one person holds for another: numbers beyond all ranges were not looked at."""
        if self.ensemble.decode is not None and self.ensemble.score.before is None:
            return True
        return all(
            np.isnan(own) or self._range(i)[0] <= own <= self._range(i)[1]
            for i, own in enumerate(person.numbers[0].tolist())
        )

    def _owners(self) -> Ints:
        """The column of the space that each column of the trees is made of."""
        space, votes = self.space, self.ensemble.score
        if self.ensemble.decode is None and votes.before is None:
            owner = np.empty(space.n_variables, dtype=np.intp)
            for i, feature in enumerate(space.features):
                owner[feature.places] = i
            return owner
        names = [*(map(str, space.names) if votes.columns is None else self.ensemble.columns or ())]
        if votes.before is not None:
            steps = getattr(votes.before, "transformers", None)
            if steps is None:
                raise InvalidInputError(
                    "model: expected preprocessing of scikit-learn in front of the trees, got "
                    f"{votes.before!r}; RNCE and NNCE take it"
                )
            example = space.restore(self.base[None, :])[names]
            # What a step drops may have any value.
            gone = sorted(getattr(votes.before, "unread", frozenset()).difference(names))
            example = example.assign(**dict.fromkeys(gone, 0.0))
            listed = [str(f.name) for f in space.features if f.listed or f.labelled]
            names = [str(name) for name in output_columns(steps, example, listed)]
        if any(how == "zero" for how in self.forest.missing):
            raise InvalidInputError(
                "model: expected trees to which only NaN is missing, got some to which 0 is too; RNCE and NNCE take it"
            )
        places = {str(name): i for i, name in enumerate(space.names)}
        return np.array([places[name] for name in names], dtype=np.intp)

    def read(self, numbers: Floats) -> Floats:
        """What the trees read of rows, given as numbers of the columns, (n, width)."""
        votes = self.ensemble.score
        if self.ensemble.decode is None:
            matrix = votes.matrix(self.space.encode_numbers(numbers))
        else:
            table = self.space.restore(numbers)
            columns = self.ensemble.columns
            matrix = votes.matrix(table if columns is None else table[list(columns)])
        return self.forest.seen(matrix)

    def questions(self, low: Floats, high: Floats) -> Questions:
        """All questions, where each cut may lie between low and high."""
        asked, features = Questions(self.column), self.space.features
        columns = np.unique(self.column[self.column >= 0]).tolist()
        listed = [i for i in columns if features[i].listed or features[i].labelled]
        self._ask_listed(asked, listed, low, high)
        self._ask_ordered(asked, [i for i in columns if i not in listed], low, high)
        self._ask_missing(asked, low, high)
        return asked

    def _ask_listed(self, asked: Questions, listed: list[int], low: Floats, high: Floats) -> None:
        features = self.space.features
        for i in listed:
            n_codes = features[i].n_codes
            numbers = np.repeat(self.base[None, :], n_codes, axis=0)
            numbers[:, i] = features[i].starts if features[i].edges else np.arange(n_codes)
            fine, rows = (
                np.ones(n_codes, dtype=np.bool_),
                np.full((n_codes, self.forest.width), np.nan),
            )
            try:
                rows[:] = self.read(numbers)
            except InvalidInputError:
                # Some label is new to the model: whoever has it cannot be scored.
                for code in range(n_codes):
                    try:
                        rows[code] = self.read(numbers[[code]])[0]
                    except InvalidInputError:
                        fine[code] = False
            nodes = np.flatnonzero(self.column == i)
            left, right = (np.zeros((n_codes, self.column.size), dtype=np.bool_) for _ in range(2))
            values = rows[:, self.forest.feature[nodes]]
            for code in range(n_codes):
                left[code, nodes], right[code, nodes] = self.forest.sides(
                    nodes, values[code], low, high
                )
            asked.left[i], asked.right[i], asked.scored[i] = left, right, fine

    def _ask_ordered(self, asked: Questions, ordered: list[int], low: Floats, high: Floats) -> None:
        nodes = np.flatnonzero(np.isin(self.column, ordered))
        if not nodes.size:
            return
        both = [self._last_numbers(nodes, low[nodes])] * 2
        if not np.array_equal(low[nodes], high[nodes]):
            both[1] = self._last_numbers(nodes, high[nodes])
        for i in ordered:
            mine = self.column[nodes] == i
            ends = np.unique(np.concatenate([both[0][mine], both[1][mine]]))
            # A column whose every number goes left ends nowhere.
            asked.ends[i] = ends[(ends > -np.inf) & (ends < np.finfo(np.float64).max)]
            at = nodes[mine]
            for goal, numbers in ((asked.sure_left, both[0]), (asked.maybe_left, both[1])):
                cells = np.searchsorted(asked.ends[i], numbers[mine])
                goal[at] = np.where(np.isneginf(numbers[mine]), -1, cells)

    def _last_numbers(self, nodes: Ints, cuts: Floats) -> Floats:
        """For each node the greatest number of its column that is read as at most the cut; -inf if none, inf if all."""
        if self.ensemble.decode is not None and self.ensemble.score.before is None:
            zero = self.forest.zero
            cuts = np.where((cuts >= 0.0) & (cuts < zero), zero, cuts)
            below = np.nextafter(-zero, -np.inf)
            return np.where((cuts < 0.0) & (cuts >= -zero) & (zero > 0.0), below, cuts)
        # Many nodes ask the same.
        same = np.column_stack([self.forest.feature[nodes].astype(np.float64), cuts])
        first, back = np.unique(same, axis=0, return_index=True, return_inverse=True)[1:]
        return self._bisected(nodes[first], cuts[first])[back.ravel()]

    def _bisected(self, nodes: Ints, cuts: Floats) -> Floats:
        columns = self.column[nodes]
        ranges = np.array([self._range(i) for i in range(len(self.space.features))])
        least, most = _key(ranges[columns, 0]), _key(ranges[columns, 1])
        below, above = least - 1, most.copy()
        order = [np.flatnonzero(columns == i) for i in np.unique(columns)]
        while (below < above).any():
            # Several numbers at once, since a table takes hardly longer than a row.
            ends = [below, above]
            for _ in range(_HALVINGS):
                # Halfway, rounded up, without an overflow.
                middles = [(a | b) - ((a ^ b) >> 1) for a, b in itertools.pairwise(ends)]
                ends = [ends[0], *itertools.chain(*zip(middles, ends[1:], strict=True))]
            asked = np.array(ends[1:])
            fits = self._read_each(nodes, columns, order, _number(np.maximum(asked, least))) <= cuts
            # What lies before the first number is only a name for "none".
            fits |= asked < least
            place = fits.sum(axis=0)
            every = np.array(ends)
            rows = np.arange(nodes.size)
            below = every[place, rows]
            above = np.where(
                place < len(asked), every[np.minimum(place + 1, len(asked)), rows] - 1, below
            )
        numbers = _number(np.maximum(below, least))
        return np.where(below < least, -np.inf, np.where(below >= most, np.inf, numbers))

    def _range(self, column: int) -> tuple[float, float]:
        feature, own = self.space.features[column], self.base[column]
        ends = [max(feature.lower, -_FAR), min(feature.upper, _FAR)]
        ends += [] if np.isnan(own) else [float(own)]
        return min(ends), max(ends)

    def _read_each(self, nodes: Ints, columns: Ints, order: list[Ints], numbers: Floats) -> Floats:
        """What each node reads of its column with several numbers in turn, (turns, nodes); all columns at once."""
        turns, longest = numbers.shape[0], max(part.size for part in order)
        rows = np.repeat(self.base[None, :], turns * longest, axis=0)
        for part in order:
            rows.reshape(turns, longest, -1)[:, : part.size, columns[part[0]]] = numbers[:, part]
        read = self.read(rows).reshape(turns, longest, -1)
        result = np.empty((turns, nodes.size))
        for part in order:
            result[:, part] = read[:, np.arange(part.size), self.forest.feature[nodes[part]]]
        return result

    def _ask_missing(self, asked: Questions, low: Floats, high: Floats) -> None:
        may = [i for i, feature in enumerate(self.space.features) if feature.missing]
        nodes = np.flatnonzero(np.isin(self.column, may))
        if not nodes.size:
            return
        numbers = np.repeat(self.base[None, :], len(may), axis=0)
        numbers[np.arange(len(may)), may] = np.nan
        rows = self.read(numbers)
        place = np.zeros(len(self.space.features), dtype=np.intp)
        place[may] = np.arange(len(may))
        x = rows[place[self.column[nodes]], self.forest.feature[nodes]]
        asked.gap_left[nodes], asked.gap_right[nodes] = self.forest.sides(nodes, x, low, high)


def _key(numbers: Floats) -> Any:
    """Whole numbers in the order of the floats: neighbours are neighbours."""
    bits = (numbers + 0.0).view(np.int64)
    return np.where(bits >= 0, bits, -(bits & np.int64(2**63 - 1)))


def _number(keys: Any) -> Floats:
    bits = np.where(keys >= 0, keys, -keys)
    values = bits.astype(np.int64).view(np.float64)
    return np.asarray(np.where(keys >= 0, values, -values))
