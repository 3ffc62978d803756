"""Trees as flat arrays: the leaf that a row reaches, and the sum of the leaves, bit for bit as in the library.

numbers       left iff x <= cut             one comparison of float64 for every library, see `cut_below`
categories    left iff sets[code]           whole codes; codes without a column use the last column
missing       left iff missing_left
sums          base, then tree after tree, in the library's own precision; divided by `divisor`
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast._classifier import Floats
from holdfast.errors import InvalidInputError

Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
# What there is for each node.
_NODES = (
    "feature", "left", "right", "missing_left", "category", "values", "threshold",
)  # fmt: skip
# So many rows walk at once: with their columns they fit into the cache.
_CHUNK = 4096


def cut_below(thresholds: Any, *, strict: bool) -> Floats:
    """The largest float64 whose float32 value is below a threshold, or at most at it unless `strict`.

    Then  x <= cut  in float64 is the same as the library's  float32(x) < t,  or  float32(x) <= t.

    Examples
    --------
    >>> cut = cut_below(np.array([0.1]), strict=True)[0]
    >>> bool(np.float32(cut) < np.float32(0.1)), bool(np.float32(np.nextafter(cut, 1.0)) < np.float32(0.1))
    (True, False)
    """
    given = np.asarray(thresholds, dtype=np.float64)
    with np.errstate(over="ignore"):
        near = given.astype(np.float32)
    # The greatest float32 on the left side, and its neighbour.
    inside = near < given if strict else near <= given
    with np.errstate(over="ignore"):
        below = np.where(inside, near, np.nextafter(near, np.float32(-np.inf)))
        above = np.nextafter(below, np.float32(np.inf)).astype(np.float64)
    # Past the greatest float32 a float64 rounds to infinity from where a next one would round up.
    above = np.where(np.isinf(above) & np.isfinite(below), 2.0**128, above)
    with np.errstate(invalid="ignore"):
        middle = below.astype(np.float64) / 2.0 + above / 2.0
    with np.errstate(over="ignore"):
        down = middle.astype(np.float32) <= below
    cut = np.where(down, middle, np.nextafter(middle, -np.inf))
    cut = np.where(np.isneginf(below), np.where(np.isneginf(given), -np.inf, cut), cut)
    return np.where(np.isposinf(below), np.inf, cut)


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees in flat arrays, with a place for each node.

    Parameters
    ----------
    feature
        The column that a node compares; -1 at a leaf.
    left, right
        The nodes below; -1 at a leaf.
    missing_left
        True if a row with a missing value goes left.
    category
        The row of `sets` with the codes that go left; -1 where a node compares a number.
    sets
        (sets, codes + 1); the last column is for all codes without a column of their own.
    values
        The value of a leaf, (nodes, 1), or its value for every output, (nodes, outputs).
    roots, output
        The first node of each tree; the output that the tree adds to, if leaves have one value.
    base
        The number that each sum begins with.
    width
        Number of columns.
    threshold
        The thresholds of the nodes, as the library stores them.
    single
        True if sums are kept in float32, otherwise in float64.
    divisor
        The number that the sums are divided by at the end.
    ordered
        True if the library adds in the order of the trees; otherwise sums may differ by rounding.
    zero
        Numbers of at most this size are 0 to the library.
    missing
        For each column the values that the library treats as missing: "nan", "zero" (0 too), or "none": then NaN is 0.
    compare
        The library's comparison of a number with a threshold: in "float32" or "float64", with "<" or "<=".
    """

    feature: Ints
    left: Ints
    right: Ints
    missing_left: Bools
    category: Ints
    sets: Bools
    values: Floats
    roots: Ints
    output: Ints
    base: Floats
    width: int
    threshold: Floats
    single: bool = False
    divisor: float = 1.0
    ordered: bool = True
    zero: float = 0.0
    missing: tuple[str, ...] = ()
    compare: str = "float64 <="

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return int(self.roots.size)

    @property
    def n_outputs(self) -> int:
        """Number of sums."""
        return int(self.base.size)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first and the last place of each tree's nodes, if the trees follow each other in the arrays."""
        return list(pairwise([*self.roots.tolist(), self.feature.size]))

    @cached_property
    def leaves(self) -> Bools:
        """Mask of the nodes that are leaves."""
        return np.asarray(self.feature < 0)

    @property
    def vector(self) -> bool:
        """True if a leaf adds to every output."""
        return bool(self.values.shape[1] > 1)

    @cached_property
    def levels(self) -> list[Ints]:
        """The nodes that are no leaves, level after level, from the roots down."""
        found, front = [], self.roots
        while (front := front[self.feature[front] >= 0]).size:
            found.append(front)
            front = np.column_stack([self.left[front], self.right[front]]).ravel()
        return found

    @cached_property
    def tree_of(self) -> Ints:
        """The tree of each node."""
        owner = np.full(self.feature.size, -1, dtype=np.int32)
        owner[self.roots] = np.arange(self.n_trees, dtype=np.int32)
        for front in self.levels:
            for side in (self.left, self.right):
                owner[side[front]] = owner[front]
        return owner

    def __reduce__(self) -> tuple[Any, ...]:
        # What was worked out from the arrays is left behind.
        return type(self), self._parts

    @property
    def _parts(self) -> tuple[Any, ...]:
        return tuple(getattr(self, part.name) for part in fields(self))

    @cached_property
    def digest(self) -> str:
        """A hash of what the trees compute."""
        hashed = hashlib.sha256()
        for part in self._parts:
            given = part if isinstance(part, np.ndarray) else np.array(repr(part))
            hashed.update(f"{given.dtype}{given.shape}".encode() + given.tobytes())
        return hashed.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Forest) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def numeric(self) -> Bools:
        """Mask of the nodes that compare a number."""
        return np.asarray(~self.leaves & (self.category < 0))

    @cached_property
    def cut(self) -> Floats:
        """The cut of each node: a row goes left if its number is at most the cut; infinite if it compares none."""
        return self.cuts(self.threshold)

    def changed(self, values: Floats, threshold: Floats) -> Forest:
        """The same trees with other leaves and thresholds."""
        return replace(self, values=values, threshold=threshold)

    def with_constant(self, output: int, value: float) -> Forest:
        """Add a tree of a single leaf for one output."""
        leaf = np.zeros((1, self.values.shape[1]))
        leaf[0, output if self.vector else 0] = value
        add = {
            "feature": -1, "left": -1, "right": -1, "missing_left": False,
            "category": -1, "threshold": 0.0,
        }  # fmt: skip
        parts: dict[str, Any] = {
            name: np.append(getattr(self, name), np.array([more], getattr(self, name).dtype))
            for name, more in add.items()
        }
        return replace(
            self,
            **parts,
            values=np.vstack([self.values, leaf]),
            roots=np.append(self.roots, np.int32(self.feature.size)),
            output=np.append(self.output, np.int32(0 if self.vector else output)),
        )

    def first(self, trees: int) -> Forest:
        """The first trees alone, if their nodes are before all others; otherwise all trees."""
        nodes = int((self.tree_of < trees).sum())
        if (self.tree_of[:nodes] >= trees).any():
            return self
        ends = dict.fromkeys(_NODES, nodes) | {"roots": trees, "output": trees}
        return replace(self, **{name: getattr(self, name)[:end] for name, end in ends.items()})

    def greatest(self, first: int) -> list[Fraction]:
        """Largest amount by which the trees from `first` on change each sum, for any row."""
        most = [Fraction(0)] * self.n_outputs
        leaf, (order, starts) = np.abs(self.values), self.by_tree
        each = np.maximum.reduceat(leaf[order], starts, axis=0)[first:]
        for output, sizes in zip(self.output[first:].tolist(), each.tolist(), strict=True):
            for place, size in enumerate(sizes):
                most[place if self.vector else output] += Fraction(size)
        return most

    def same_structure(self, other: Forest) -> bool:
        """True if another forest differs only in its leaves and thresholds."""
        free = ("values", "threshold", "ordered")
        return self.values.shape == other.values.shape and all(
            np.array_equal(getattr(self, part.name), getattr(other, part.name))
            for part in fields(self)
            if part.name not in free
        )

    def empty_trees(self, other: Forest) -> Bools:
        """Mask of the trees that add nothing in another forest of the same structure, but something here."""
        empty = []
        for one in (self, other):
            any_value = np.zeros(self.n_trees, dtype=np.bool_)
            some = one.leaves & (one.values != 0.0).any(axis=1)
            any_value[self.tree_of[some]] = True
            empty.append(~any_value)
        return np.asarray(empty[1] & ~empty[0])

    def factors(self, weights: Floats) -> Floats:
        """The weight of each value of each node in  weights · sums,  (nodes, values)."""
        if not self.vector:
            weights = weights[self.output[np.maximum(self.tree_of, 0)]][:, None]
        return np.broadcast_to(weights, self.values.shape)

    def worth(self, weights: Floats, radii: Floats) -> Floats:
        """The least that each leaf adds to  weights · sums  if its values may move by a radius, (nodes,)."""
        factors = self.factors(weights)
        return np.asarray((factors * self.values).sum(axis=1) - np.abs(factors).sum(axis=1) * radii)

    def cuts(self, thresholds: Floats) -> Floats:
        """The cuts that correspond to thresholds of the library."""
        strict = self.compare.endswith("<")
        if self.compare.startswith("float32"):
            cut = cut_below(thresholds, strict=strict)
        else:
            cut = np.nextafter(thresholds, -np.inf) if strict else thresholds
        return np.where(self.numeric, cut, np.inf)

    def around(self, radii: Floats) -> tuple[Floats, Floats]:
        """The least and the greatest threshold, exactly, that the library can hold within a radius of each node's."""
        ends = []
        radii = np.where(self.numeric & np.isfinite(self.threshold), radii, 0.0)
        given = np.where(radii > 0.0, self.threshold, 0.0)
        for sign in (-1.0, 1.0):
            moved = given + sign * radii
            # What the sum lost in rounding.
            back = moved - given
            lost = (given - (moved - back)) + (sign * radii - back)
            moved = np.where(sign * lost < 0.0, np.nextafter(moved, -sign * np.inf), moved)
            if self.single:
                with np.errstate(over="ignore"):
                    near = moved.astype(np.float32)
                step = np.nextafter(near, np.float32(-sign * np.inf))
                moved = np.where(sign * near > sign * moved, step, near).astype(np.float64)
            ends.append(np.where(radii > 0.0, moved, self.threshold))
        return ends[0], ends[1]

    def least(
        self, X: Floats, costs: Floats, low: Floats, high: Floats
    ) -> Iterator[tuple[slice, Floats]]:
        """For chunks of rows the least cost of a leaf that each row may reach in each tree, (rows, trees).

        At a node a row may go left where its number is at most the cut `high`, right where it is above the cut `low`.
        """
        still = (low == self.cut).all() and (high == self.cut).all()
        for rows in _chunks(X.shape[0]):
            if still:
                yield rows, costs[self.leaf_of(X[rows])]
            else:
                walked = self._walk.costs(self.seen(X[rows]), costs, low, high)
                yield rows, np.stack(list(walked), axis=1)

    def reachable(self, x: Floats, low: Floats, high: Floats) -> list[list[tuple[int, ...]]]:
        """The paths to the leaves that one row may reach, for each tree: the nodes from the root on.

        At a node it may go left where its number is at most the cut `high`, right where it is above the cut `low`.
        """
        value = self.seen(x[None, :])[0][np.maximum(self.feature, 0)]
        may = self.sides(slice(None), value, low, high)
        # A leaf leads nowhere.
        left, right = (
            np.where(self.leaves | ~side, -1, below).tolist()
            for side, below in zip(may, (self.left, self.right), strict=True)
        )
        leaf, ways = self.leaves.tolist(), []
        for root in self.roots.tolist():
            front: list[tuple[int, ...]] = [(root,)]
            done: list[tuple[int, ...]] = []
            while front:
                way = front.pop()
                node = way[-1]
                if leaf[node]:
                    done.append(way)
                front += [(*way, child) for child in (left[node], right[node]) if child >= 0]
            ways.append(done)
        return ways

    def sides(self, nodes: Any, x: Floats, low: Floats, high: Floats) -> tuple[Bools, Bools]:
        """Masks of values, (..., nodes), that may go left and right at a node; cuts are between `low` and `high`."""
        left, right, sets = x <= high[nodes], x > low[nodes], self.category[nodes]
        if (sets >= 0).any():
            inside = self.sets[sets, self.code(x)]
            left, right = np.where(sets >= 0, inside, left), np.where(sets >= 0, ~inside, right)
        gone, missing = np.isnan(x), self.missing_left[nodes]
        return np.where(gone, missing, left), np.where(gone, ~missing, right)

    def code(self, x: Floats) -> NDArray[np.intp]:
        """The column of `sets` for each value: the last column for values without a column of their own."""
        codes = self.sets.shape[1] - 1
        return np.where((x >= 0.0) & (x < codes), x, codes).astype(np.intp)

    def seen(self, X: Floats) -> Floats:
        """The numbers as the library sees them: small ones are 0, and NaN marks missing values."""
        if not (self.zero or any(how != "nan" for how in self.missing)):
            return X
        X = np.where(np.abs(X) <= self.zero, 0.0, X)
        for column, how in enumerate(self.missing):
            if how == "none":
                X[:, column] = np.where(np.isnan(X[:, column]), 0.0, X[:, column])
            elif how == "zero":
                X[:, column] = np.where(X[:, column] == 0.0, np.nan, X[:, column])
        return X

    @cached_property
    def _walk(self) -> _Walk:
        return _Walk(self)

    def leaf_of(self, X: Floats) -> Ints:
        """The leaf that each row reaches in each tree, (n, trees)."""
        out = np.empty((X.shape[0], self.n_trees), dtype=np.int32)
        for rows in _chunks(X.shape[0]):
            for tree, nodes in enumerate(self._walk.trees(self.seen(X[rows]))):
                out[rows, tree] = nodes
        return out

    def sums(self, X: Floats) -> Floats:
        """The sums of the leaves as the library computes them, (n, outputs)."""
        kind = np.float32 if self.single else np.float64
        leaf = np.ascontiguousarray(self.values.astype(kind).T)
        out = np.empty((X.shape[0], self.n_outputs))
        for rows in _chunks(X.shape[0]):
            sums = np.empty((self.n_outputs, rows.stop - rows.start), dtype=kind)
            sums[:] = self.base.astype(kind)[:, None]
            for tree, nodes in enumerate(self._walk.trees(self.seen(X[rows]))):
                for place, column in enumerate(leaf):
                    sums[place if self.vector else self.output[tree]] += column[nodes]
            out[rows] = sums.T
        return out if self.divisor == 1.0 else out / self.divisor

    def rounding(self, values: Floats | None = None) -> Floats:
        """Largest rounding error of any order of the sums of any leaves, for each output, after the division.

        With u the unit of rounding, n terms of sizes a_i are added with an error of at most  n u / (1 - n u) sum a_i.
        """
        return self.sum_error(self.sizes(np.abs(self.values if values is None else values)))

    def sizes(self, reach: Floats) -> Floats:
        """Largest total size of the terms of each sum if leaves are as large as `reach`, (outputs,)."""
        order, starts = self.by_tree
        largest, sizes = np.maximum.reduceat(reach[order], starts, axis=0), np.abs(self.base)
        if self.vector:
            return np.asarray(sizes + largest.sum(axis=0))
        np.add.at(sizes, self.output, largest[:, 0])
        return sizes

    def sum_error(self, sizes: Floats) -> Floats:
        """Largest error of the library's sum if the sizes of its terms add up to `sizes`."""
        unit = 2.0**-24 if self.single else 2.0**-53
        n = self.n_trees + 3
        return np.asarray(sizes * (n * unit / (1.0 - n * unit)) / self.divisor) * (1.0 + 2.0**-40)

    @cached_property
    def by_tree(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The leaves, tree by tree, and the first leaf of each tree among them."""
        nodes = np.flatnonzero(self.leaves & (self.tree_of >= 0))
        order = nodes[np.argsort(self.tree_of[nodes], kind="stable")]
        return order, np.searchsorted(self.tree_of[order], np.arange(self.n_trees))


class _Walk:
    """The trees in a layout for walking: siblings are neighbours, and every comparison is  x > cut.

    Columns appear twice if values may be missing, as -inf and as +inf, and once for each set of categories.
    """

    def __init__(self, forest: Forest) -> None:
        self.forest, self.width = forest, forest.width
        inner = ~forest.leaves
        sets = forest.category >= 0
        column = np.where(inner, forest.feature, 0)
        column = np.where(inner & ~forest.missing_left & ~sets, column + self.width, column)
        self.asked, places = np.unique(
            np.column_stack([forest.feature, forest.category, forest.missing_left])[sets],
            axis=0,
            return_inverse=True,
        )
        column[sets] = 2 * self.width + places.ravel()
        self.order, left = _brothers(forest)
        self.column = column[self.order].astype(np.int64)
        self.inner, self.sets = inner, sets
        self.cut = self.cuts(forest.cut)
        # A leaf leads to itself.
        self.left = left.astype(np.int64)
        self.depths = np.zeros(forest.n_trees, dtype=np.int64)
        for depth, front in enumerate(forest.levels, 1):
            self.depths[forest.tree_of[front]] = depth
        self.starts = np.flatnonzero(np.isin(self.order, forest.roots))

    def cuts(self, cut: Floats) -> Floats:
        """Cuts in the order of the walk."""
        # Where every number goes left, what is missing may still go right.
        cut = np.minimum(cut, np.finfo(np.float64).max)
        ordered: Floats = np.where(self.sets, 0.0, np.where(self.inner, cut, np.inf))[self.order]
        return ordered

    def costs(self, X: Floats, costs: Floats, low: Floats, high: Floats) -> Iterator[Floats]:
        """For each tree the least cost of a leaf that each row may reach, with cuts between two bounds."""
        table, costs = self.table(X), costs[self.order]
        flat, first = table.ravel(), np.arange(X.shape[0]) * table.shape[1]
        low, high = self.cuts(low), self.cuts(high)
        for start, depth in zip(self.starts, self.depths, strict=True):
            rows, at = np.arange(X.shape[0]), np.full(X.shape[0], start)
            out = np.full(X.shape[0], np.inf)
            while rows.size:
                # Where a row may go both ways, it goes left now and right later.
                later = [(rows[:0], at[:0])]
                for _ in range(depth):
                    x = flat.take(first[rows] + self.column.take(at, mode="clip"), mode="clip")
                    right = x > high.take(at, mode="clip")
                    below = self.left.take(at, mode="clip")
                    both = np.flatnonzero((x > low.take(at, mode="clip")) & ~right)
                    later.append((rows[both], below[both] + 1))
                    at = below + right
                np.minimum.at(out, rows, costs[at])
                rows, at = (np.concatenate(parts) for parts in zip(*later, strict=True))
            yield out

    def table(self, X: Floats) -> Floats:
        """The columns that the trees compare, (n, columns)."""
        gaps = np.isnan(X)
        low, high = (
            (np.where(gaps, -np.inf, X), np.where(gaps, np.inf, X)) if gaps.any() else (X, X)
        )
        if not len(self.asked):
            return np.ascontiguousarray(np.hstack([low, high]))
        parts = []
        for feature, category, missing_left in self.asked:
            inside = self.forest.sets[category][self.forest.code(X[:, feature])]
            parts.append(~np.where(gaps[:, feature], missing_left > 0, inside))
        return np.ascontiguousarray(np.hstack([low, high, np.column_stack(parts)]))

    def trees(self, X: Floats) -> Iterator[Ints]:
        """The leaves that the rows reach, for each tree; with few rows many trees are walked at once."""
        table = self.table(X)
        flat = table.ravel()
        first = np.arange(X.shape[0]) * table.shape[1]
        together = max(1, _CHUNK // max(1, X.shape[0]))
        for begin in range(0, len(self.depths), together):
            group = slice(begin, begin + together)
            at = np.repeat(self.starts[group, None], X.shape[0], axis=1)
            for _ in range(max(self.depths[group])):
                x = flat.take(first + self.column.take(at, mode="clip"), mode="clip")
                at = self.left.take(at, mode="clip") + (x > self.cut.take(at, mode="clip"))
            yield from self.order[at]


def _brothers(forest: Forest) -> tuple[Ints, Ints]:
    """An order of the nodes in which siblings are neighbours, and the place of each left child (or of the node)."""
    below = [np.column_stack([forest.left[front], forest.right[front]]) for front in forest.levels]
    order = np.concatenate([forest.roots, *map(np.ravel, below)])
    order = order[np.argsort(forest.tree_of[order], kind="stable")]
    place = np.empty(forest.feature.size, dtype=np.int32)
    own = np.arange(order.size, dtype=np.int32)
    place[order] = own
    return order, np.where(forest.leaves[order], own, place[forest.left[order]])


def sum_less_dropped(terms: Floats, dropped: int) -> Floats:
    """The sum of terms, (..., trees), without the `dropped` greatest: the least sum after removing trees."""
    total, kept = terms.sum(axis=-1), max(terms.shape[-1] - dropped, 0)
    if dropped:
        lost = np.partition(terms, kept, axis=-1)[..., kept:] if kept else terms
        total = total - np.maximum(lost, 0.0).sum(axis=-1)
    return np.asarray(total)


def _chunks(n: int) -> list[slice]:
    return [slice(i, min(i + _CHUNK, n)) for i in range(0, n, _CHUNK)]


def check_codes(X: Floats, forest: Forest, known: tuple[Any, ...], names: Any = None) -> None:
    """Refuse a category that the model has not seen."""
    asked = np.unique(forest.feature[forest.category >= 0])
    for column in asked.tolist():
        x = X[:, column]
        x = x[~np.isnan(x)]
        labels = known[column] if column < len(known) else None
        most = np.inf if labels is None else len(labels) - 1
        wrong = x[(x != np.floor(x)) | (x < 0) | (x > most)]
        if wrong.size:
            name = repr(names[column]) if names is not None else f"column {column}"
            raise InvalidInputError(
                f"X: expected a category that the model has seen in {name}, got the code {wrong[0]:g}"
            )
