"""One column: its kind, its range, the possible changes, and the model's variables that encode it.

Each value is a *number* inside: itself for a numeric column, its position in `categories` for a labelled one. All
constraints are about these numbers, so they hold exactly in the caller's units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from holdfast._network import Bools, Floats, Ints, Pair
from holdfast.errors import InvalidInputError
from holdfast.features._columns import Storage, column_codes, column_numbers, refuse_truth
from holdfast.features._grid import Grid
from holdfast.features._kinds import Direction, Kind, Label, Name
from holdfast.features._limits import read_shares
from holdfast.features._scaling import Scaling, hold

_LABELLED_ONLY = (Kind.CATEGORICAL, Kind.BINARY)
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Feature:
    """A column of the caller's table.

    Parameters
    ----------
    name, kind
        The name of the column and the kind of its values.
    lower, upper
        The range, in the column's units. A changed value has to be in it; a factual outside it may stay.
        For a labelled column: the first and the last position.
    variables
        The positions of the model's variables that encode this column.
    step
        Changed values are multiples of it: 250 for "income in 250s". The default of integer columns is 1.
    direction
        The way in which the value may move.
    max_change
        The largest change down and up, as shares of the person's own value: (0.0, 0.4) allows up to 40% more. None in
        its place sets no limit that way; the empty tuple sets none at all.
    categories
        The labels in the order of their codes; empty for a numeric column.
    one_hot
        0/1 variables for the labels, instead of one scaled variable for the column.
    cells
        For a one-hot column, the variable that is 1 for each label. Labels that share a variable look the same to the
        model; -1 marks the label where all variables are 0. By default each label has a variable, in order. With one
        variable fewer than labels, all are 0 for the first label.
    values
        For a labelled column with one variable, the number of each label before scaling, such as a mean of the target.
        The default is its position.
    edges
        For a column of numbers of which the model sees only the bin: the edges between the bins.
    allowed
        For a labelled column, the possible moves as pairs of positions; None: every move that the direction allows.
        Staying is always possible.
    missing
        The model's variables for a missing value; empty for a column that always has a value.
    flags
        Further variables that only mark a missing value: (position, value if known, value if missing) each.
    fillable
        Whether a missing value may become a known one. A known value never becomes missing.
    cost
        The weight of this column in `FeatureSpace.cost_l1`: the cost of a change over its whole range.
    span
        For a column of numbers: the unit of its cost, its range on the scale of its variable. 1 where the range is
        unknown.
    unit
        For texts: "USD", "percent", "years".
    """

    name: Name
    kind: Kind
    lower: float
    upper: float
    variables: tuple[int, ...]
    step: float | None = None
    direction: Direction = Direction.FREE
    max_change: tuple[float | None, ...] = ()
    categories: tuple[Label, ...] = ()
    one_hot: bool = False
    cells: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()
    allowed: tuple[tuple[int, int], ...] | None = None
    missing: tuple[float, ...] = ()
    flags: tuple[tuple[int, float, float], ...] = ()
    fillable: bool = False
    cost: float = 1.0
    span: float = 1.0
    unit: str = ""
    scaling: Scaling = field(default=Scaling(), repr=False)
    storage: Storage = field(default=Storage(), repr=False)

    def __post_init__(self) -> None:
        whole = self.step is None or self.precision != "integer" or self.step % 1 == 0
        for fine, expected in (
            (
                self.categories or self.kind not in _LABELLED_ONLY,
                f"categories for a {self.kind} column, got none",
            ),
            (
                self.lower <= self.upper,
                f"a range with lower <= upper, got [{self.lower}, {self.upper}]",
            ),
            (0.0 <= self.cost < math.inf, f"a cost weight >= 0, got {self.cost}"),
            (0.0 < self.span < math.inf, f"a range > 0 as the unit of cost, got {self.span}"),
            (self.step is None or 0.0 < self.step < math.inf, f"a step > 0, got {self.step}"),
            (
                not self.max_change
                or (
                    self.max_change == read_shares(self.max_change, "max_change")
                    and not (self.labelled or self.kind is Kind.ORDINAL)
                ),
                f"no max_change for a {self.kind} column, got {self.max_change}",
            ),
            (whole, f"a whole step for whole numbers, got {self.step}"),
            (
                len(self.values) in (0, self.n_codes),
                f"a value for each of {self.n_codes} labels or bins, got {len(self.values)}",
            ),
            (
                self.missing or not (self.fillable or self.flags),
                "a column that may be missing, as it is to be filled in",
            ),
            (
                self.kind is not Kind.CATEGORICAL
                or self.direction in (Direction.FREE, Direction.IMMUTABLE),
                f"an order for a column that is {self.direction}; name its labels from low to high in ordinal={{...}}",
            ),
        ):
            if not fine:
                raise InvalidInputError(f"column {self.name!r}: expected {expected}")
        if not self.scaling.linear:
            ends = self.scaling.apply(
                np.array([end for end in (self.lower, self.upper) if math.isfinite(end)])
            )
            if not np.isfinite(ends).all():
                curve = ", ".join(operation for operation, _ in self.scaling.operations)
                raise InvalidInputError(
                    f"column {self.name!r}: expected a range on which {curve} has values, "
                    f"got [{self.lower}, {self.upper}]"
                )
        if self.one_hot and not self.cells:
            first = len(self.variables) - self.n_codes
            object.__setattr__(self, "cells", tuple(range(first, len(self.variables))))
        try:
            _ = self.grid
        except InvalidInputError as error:
            raise InvalidInputError(f"column {self.name!r}: {error}") from error

    @cached_property
    def labelled(self) -> bool:
        """Whether its values are labels, numbered 0, 1, ..."""
        return bool(self.categories)

    @cached_property
    def numeric(self) -> bool:
        """Whether arithmetic on its values makes sense: a number, or a 0/1 flag."""
        return not self.labelled or tuple(self.categories) == (0, 1)

    @cached_property
    def places(self) -> list[int]:
        """All of its variables: those of its value, then the marks of a missing value."""
        return [*self.variables, *(place for place, _, _ in self.flags)]

    @cached_property
    def n_codes(self) -> int:
        """How many labels or bins there are; 0 for a plain column of numbers."""
        return len(self.categories) if self.labelled else len(self.edges) + bool(self.edges)

    def codes(self, numbers: Floats) -> Ints:
        """Which label, or which bin, each number is."""
        if self.edges:
            return np.searchsorted(self.edges, numbers, side="right")
        return numbers.astype(np.intp)

    @cached_property
    def blocks(self) -> Floats:
        """The variables of each label or bin, (n_codes, len(variables))."""
        if self.one_hot:
            return np.asarray(
                np.equal.outer(self.cells, np.arange(len(self.variables))), dtype=np.float64
            )
        return self.scaling.apply(np.array(self.values or range(self.n_codes), dtype=np.float64))[
            :, None
        ]

    @cached_property
    def hull(self) -> Pair:
        """The least and the largest value at each of its places, over all values in the range."""
        block = (
            self.blocks
            if self.listed
            else self.scaling.apply(np.array([[self.lower], [self.upper]]))
        )
        known = [known for _, known, _ in self.flags]
        return np.append(block.min(axis=0), known), np.append(block.max(axis=0), known)

    @cached_property
    def weights(self) -> Floats:
        """The cost of a change by 1 at each of its places: `cost` over the width of the column's range there.

        The width of a 0/1 variable of a label is 1, so another label costs twice `cost`.
        """
        width = 1.0 if self.one_hot else float(np.ptp(self.blocks)) if self.n_codes else self.span
        widths = np.array([width] * len(self.variables) + [abs(b - a) for _, a, b in self.flags])
        # A scaler's rounding makes no unit of its own; a column with one value has no width.
        widths[(np.abs(widths - 1.0) < _ROUNDING) | (widths == 0.0)] = 1.0
        return self.cost / widths

    @cached_property
    def ranged(self) -> bool:
        """Whether the unit of its cost is its range; else it is 1, as no table says the range."""
        known = self.span != 1.0 or bool(self.n_codes or self.scaling.operations)
        return known or self.upper - self.lower <= 1.0 + _ROUNDING

    @cached_property
    def width(self) -> float:
        """The width of the range that is the unit of cost, in the column's units."""
        if self.scaling.linear and not self.edges:
            return self.span * self.scaling.affine()[0]
        return self.upper - self.lower

    @cached_property
    def moves(self) -> Bools:
        """Whether a person with the first label, or in the first bin, may get to the second, (n_codes, n_codes)."""
        codes = np.arange(self.n_codes)
        step = codes[None, :] - codes[:, None]
        ways = {
            Direction.IMMUTABLE: step == 0,
            Direction.INCREASING: step >= 0,
            Direction.DECREASING: step <= 0,
            Direction.FREE: np.ones_like(step, dtype=np.bool_),
        }
        moves = ways[self.direction]
        if self.allowed is not None:
            moves = moves & [[(int(a), int(b)) in self.allowed for b in codes] for a in codes]
        return np.asarray(moves | (step == 0))

    @property
    def fills(self) -> bool:
        """Whether a person's missing value may be filled in; an immutable column stays missing."""
        return self.fillable and self.direction is not Direction.IMMUTABLE

    @cached_property
    def free(self) -> Feature:
        """The same column without directions and limits; its range and its grid stay."""
        return replace(
            self, direction=Direction.FREE, max_change=(), allowed=None, fillable=bool(self.missing)
        )

    @cached_property
    def listed(self) -> bool:
        """Whether its values have to be listed one by one: labels whose variables do not follow their order."""
        return self.one_hot or bool(self.values or self.edges) or self.allowed is not None

    @cached_property
    def restricted(self) -> bool:
        """Whether some of its labels or bins cannot be reached from some others."""
        return self.n_codes > 0 and not bool(self.moves.all())

    @cached_property
    def precision(self) -> str:
        """The precision of its numbers: "integer", "float16", "float32" or "float64"."""
        return "integer" if self.labelled else self.storage.precision

    @cached_property
    def grid(self) -> Grid | None:
        """The numbers a changed value can take, if they are countable."""
        if self.labelled:
            return Grid.over(1.0, self.lower, self.upper)
        return None if self.step is None else Grid.over(self.step, self.lower, self.upper)

    def numbers(self, series: pd.Series) -> Floats:
        """The caller's column as numbers; nan where it may be missing and is."""
        if self.missing and series.isna().any():
            known = series.notna().to_numpy()
            numbers = np.full(len(series), np.nan)
            numbers[known] = self.numbers(series[known])
            return numbers
        if self.labelled:
            return column_codes(series, self.name, self.categories)
        if series.dtype.kind in "bO" and 1.0 < self.upper - self.lower < math.inf:
            refuse_truth(series, self.name)
        return column_numbers(series, self.name, self.storage)

    def restore(self, numbers: Floats) -> Any:
        """Numbers as an array of the caller's dtype."""
        if not self.labelled:
            return self.storage.restore(numbers)
        labels = np.empty(len(self.categories) + 1, dtype=object)
        labels[:-1] = self.categories
        labels[-1] = np.nan
        return self.storage.restore(
            labels[np.nan_to_num(numbers, nan=len(self.categories)).astype(np.intp)]
        )

    def encode(self, numbers: Floats) -> Floats:
        """Numbers -> the model's variables, (n, len(places))."""
        gone = np.isnan(numbers)
        known = np.where(gone, 0.0, numbers) if self.missing else numbers
        block = (
            self.blocks[self.codes(known)] if self.listed else self.scaling.apply(known)[:, None]
        )
        if self.missing:
            flags = np.array(self.flags).reshape(-1, 3)
            block = np.column_stack(
                [block, *np.broadcast_to(flags[:, 1], (len(gone), len(flags))).T]
            )
            block[gone] = [*self.missing, *flags[:, 2]]
        return block

    def decode(self, block: Floats) -> Floats:
        """The model's variables, (n, len(places)) -> numbers, nan where they say that the value is missing."""
        numbers = self.decode_known(block)
        return np.where(self.says_missing(block), np.nan, numbers) if self.flags else numbers

    def decode_known(self, block: Floats) -> Floats:
        """The variables that stand for a value -> an exact original where there is one, otherwise the nearest."""
        if self.listed:
            codes = self.scores(block).argmax(axis=1)
            return np.asarray(codes.astype(np.float64) if self.labelled else self.starts[codes])
        encoded = self.on_curve(block[:, 0])
        favourites: list[float | Floats] = [
            end for end in (self.upper, self.lower) if math.isfinite(end)
        ]
        if self.grid is not None:
            favourites = [self.grid.value(self.grid.nearest(self.scaling.estimate(encoded)))]
        numbers = self.scaling.invert(encoded, self.precision, favourites)
        return np.clip(numbers, self.lower, self.upper) if self.labelled else numbers

    def on_curve(self, encoded: Floats) -> Floats:
        """The variable, no further than the ends of its range: beyond them a curve may have no inverse."""
        if self.scaling.linear:
            return encoded
        return np.clip(encoded, *self.scaling.apply(np.array([self.lower, self.upper])))

    def says_missing(self, block: Floats) -> Bools:
        """Whether the variables that say so say that the column has no value; never without such variables."""
        said = np.full(block.shape[0], bool(self.flags))
        for values, (_, known, missing) in zip(
            block[:, len(self.variables) :].T, self.flags, strict=True
        ):
            said &= np.abs(values - missing) < np.abs(values - known)
        return said

    def scores(self, block: Floats) -> Floats:
        """For each label how well the variables fit it: of a one-hot column its weight, else minus the distance."""
        block = block[:, : len(self.variables)]
        if not self.one_hot:
            return -np.abs(block - self.blocks[:, 0])
        if self.cells == tuple(range(len(self.variables))):
            return block
        return np.column_stack([block, 1.0 - block.sum(axis=1)])[:, list(self.cells)]

    @cached_property
    def starts(self) -> Floats:
        """A number of each bin: where it begins, as far as the range allows."""
        begins = np.array([max(self.lower, -1e300), *self.edges])
        ends = np.array([*self.edges, np.inf])
        low = np.where((begins < self.lower) & (self.lower < ends), self.lower, begins)
        if self.grid is not None:
            low = self.grid.value(self.grid.ceil(low))
        return hold(low, self.precision)

    def variable_names(self) -> tuple[str, ...]:
        """The names of its variables: the column's, or column=label; then those that say whether it has a value."""
        flags = (f"{self.name} missing" for _ in self.flags)
        if self.one_hot:
            owners: list[list[str]] = [[] for _ in self.variables]
            bins = [f"from {edge:g}" for edge in self.edges]
            names = self.categories if self.labelled else [f"below {self.edges[0]:g}", *bins]
            for label, cell in zip(names, self.cells, strict=True):
                if cell >= 0:
                    owners[cell].append(str(label))
            return (*(f"{self.name}={'|'.join(labels)}" for labels in owners), *flags)
        label = f"={self.categories[-1]}" if self.kind is Kind.CATEGORICAL else ""
        return (f"{self.name}{label}", *flags)
