"""One person's columns as choices: the cells that they can get to, the cheapest number in each, and what it costs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast._classifier import Floats
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.features._admissible import number_in, possible_codes, reach
from holdfast.features._codec import Rows
from holdfast.features._feature import Feature
from holdfast.features._scaling import hold_down
from holdfast.generators._tree_forms import LinearForms
from holdfast.generators._tree_pieces import Pieces
from holdfast.generators._tree_problem import Cells, Mask, Problem, Rival
from holdfast.generators._tree_reading import Questions

# A column in a rule has a choice for each of its steps, up to so many.
_MOST_STEPS = 20_000
# A person may have so many gaps that may be filled in: each doubles the work.
_MOST_GAPS = 6
# Relatively, what rounding may do to a rule.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Options:
    """What one person can do about one column, from the least number to the greatest.

    Attributes
    ----------
    number, cost
        The cheapest number of each option, and what it costs.
    least, most
        The numbers that the option stands for, all alike to the trees.
    cell
        The cell of the ordered column, or the code of the listed one; unused where the value is missing.
    home
        The cheapest option, and whether it leaves the column as it is.
    """

    number: Floats
    cost: Floats
    least: Floats
    most: Floats
    cell: Cells
    home: int = 0
    stays: bool = True

    def take(self, rows: Cells) -> Options:
        """The options in another order."""
        names = ("number", "cost", "least", "most", "cell")
        parts: dict[str, Any] = {name: getattr(self, name)[rows] for name in names}
        return replace(self, **parts, home=int(np.flatnonzero(rows == self.home)[0]))


def filled_gaps(space: FeatureSpace, person: Rows) -> Iterator[frozenset[int]]:
    """The sets of columns whose missing values may be filled in, the empty one first."""
    gone = [
        i
        for i, feature in enumerate(space.features)
        if feature.fills and np.isnan(person.numbers[0, i])
    ]
    if len(gone) > _MOST_GAPS:
        raise InvalidInputError(
            f"X: expected at most {_MOST_GAPS} missing values that may be filled in, got {len(gone)}; RNCE and NNCE "
            "take them"
        )
    for size in range(len(gone) + 1):
        yield from map(frozenset, itertools.combinations(gone, size))


class PersonChoices:
    """The choices of one person, some of whose gaps are filled in."""

    def __init__(
        self, space: FeatureSpace, person: Rows, asked: Questions, filled: frozenset[int]
    ) -> None:
        self.space, self.own, self.person = space, person.numbers[0], person
        ruled = {column for terms in space.bound_rules for column in terms.columns}
        self.options = [
            self._options(i, asked, i in filled, i in ruled) for i in range(len(space.features))
        ]
        self.columns = [
            i
            for i, options in enumerate(self.options)
            if options.number.size > 1 and (i in ruled or i in asked.ends or i in asked.scored)
        ]

    def problem(
        self,
        asked: Questions,
        pieces: Pieces,
        forms: LinearForms,
        most: int | None,
    ) -> Problem:
        """The search's problem: leaves that this person can reach, over the columns with a choice."""
        kept = self._reachable(asked, pieces)
        low, high = (np.zeros((kept.size, len(self.columns)), dtype=np.intp) for _ in range(2))
        among: dict[int, Cells] = {}
        order: dict[int, Cells] = {}
        for place, i in enumerate(self.columns):
            cells = self.options[i].cell
            if i in asked.ends:
                low[:, place] = np.searchsorted(cells, pieces.low[kept, i], side="left")
                high[:, place] = np.searchsorted(cells, pieces.high[kept, i], side="right") - 1
            elif i in asked.scored:
                taken = pieces.among[i][np.ix_(kept, cells)]
                # Labels of like worth beside each other, the cheapest first.
                worth = (taken * pieces.worth[kept, :1]).sum(axis=0)
                order[place] = np.lexsort((worth, self.options[i].cost))
                taken = taken[:, order[place]]
                low[:, place] = taken.argmax(axis=1)
                high[:, place] = taken.shape[1] - 1 - taken[:, ::-1].argmax(axis=1)
                among[place] = np.pad(np.cumsum(taken, axis=1), ((0, 0), (1, 0))).astype(np.intp)
            else:
                high[:, place] = self.options[i].number.size - 1
        for place, rows in order.items():
            i = self.columns[place]
            self.options[i] = self.options[i].take(rows)
        chosen = [self.options[i] for i in self.columns]
        return Problem(
            pieces.tree[kept],
            low,
            high,
            among,
            [_rival(pieces, kept, forms, number) for number in range(forms.offsets.size)],
            [options.cost for options in chosen],
            np.array([options.home for options in chosen], dtype=np.intp),
            np.array([options.stays for options in chosen], dtype=np.bool_),
            most,
            self._fits if self.space.rules else lambda low, high: True,
        )

    def numbers(self, choices: Cells) -> Floats:
        """The cheapest numbers of each choice, (n, columns of the space)."""
        home = np.array([options.number[options.home] for options in self.options])
        numbers = np.repeat(home[None, :], len(choices), axis=0)
        for i, cells in zip(self.columns, choices.T, strict=True):
            numbers[:, i] = self.options[i].number[cells]
        return numbers

    def breaks_rules(self, numbers: Floats, choice: Cells) -> bool:
        """Whether every row of a choice breaks a rule: where its numbers are all there is."""
        cells = dict(zip(self.columns, choice.tolist(), strict=True))
        only = [
            not options.least[cell] < options.most[cell]
            for i, options in enumerate(self.options)
            for cell in [cells.get(i, options.home)]
        ]
        return any(
            all(only[column] for column in terms.columns) and not terms.holds(numbers[None, :])[0]
            for terms in self.space.bound_rules
        )

    @property
    def apart(self) -> float:
        """What the columns without a choice cost: gaps that can only be filled in one way."""
        return sum(
            float(options.cost[options.home])
            for i, options in enumerate(self.options)
            if i not in self.columns
        )

    def _reachable(self, asked: Questions, pieces: Pieces) -> Cells:
        """The boxes in which this person may be."""
        fine = np.ones(pieces.tree.size, dtype=np.bool_)
        for i, options in enumerate(self.options):
            if np.isnan(options.number[0]):
                if i in asked.ends or i in asked.scored:
                    fine &= pieces.gap[:, i]
            elif i in asked.ends:
                cells = options.cell if i in self.columns else options.cell[[options.home]]
                fine &= np.searchsorted(cells, pieces.low[:, i], side="left") < np.searchsorted(
                    cells, pieces.high[:, i], side="right"
                )
            elif i in asked.scored:
                fine &= pieces.among[i][:, options.cell].any(axis=1)
        return np.flatnonzero(fine)

    def _fits(self, low: Cells, high: Cells) -> bool:
        """Whether some row between the two choices may obey the rules."""
        # A column that no tree asks for may be anywhere in its only cell.
        least, most = (
            np.array([getattr(options, end)[options.home] for options in self.options])
            for end in ("least", "most")
        )
        for place, i in enumerate(self.columns):
            options, cells = self.options[i], slice(low[place], high[place] + 1)
            # Labels stand in the order of their costs, not of their numbers.
            least[i], most[i] = options.least[cells].min(), options.most[cells].max()
        for terms in self.space.bound_rules:
            ends = np.where(terms.coefficients > 0.0, least[terms.columns], most[terms.columns])
            size = np.abs(ends * terms.coefficients).sum() + abs(terms.bound)
            if ends @ terms.coefficients > terms.bound + _ROUNDING * size:
                return False
        return True

    # ------------------------------------------------------------------ one column

    def _options(self, i: int, asked: Questions, fill: bool, ruled: bool) -> Options:
        feature, own = self.space.features[i], float(self.own[i])
        if np.isnan(own) and not fill:
            return _single(own, -1)
        if feature.listed or feature.labelled:
            options = self._labels(feature, own, asked.scored.get(i))
        else:
            options = _numbers(feature, own, asked.ends.get(i, np.zeros(0)), ruled)
        block = feature.encode(np.append(options.number, own))
        cost = np.abs(block[:-1] - block[-1]) @ feature.weights
        stays = not np.isnan(own)
        if not options.number.size:
            return options
        home = int(np.flatnonzero(options.number == own)[0]) if stays else int(cost.argmin())
        return replace(options, cost=cost, home=home, stays=stays)

    def _labels(self, feature: Feature, own: float, scored: Mask | None) -> Options:
        codes = np.arange(feature.n_codes)
        if np.isnan(own):
            possible = np.ones(feature.n_codes, dtype=np.bool_)
            numbers = feature.starts if feature.edges else codes.astype(np.float64)
        else:
            mine = np.array([own])
            possible = possible_codes(feature, mine)[0]
            if not feature.listed and not feature.edges:
                low, high = reach(feature, mine, 1)
                possible &= ((codes >= low) & (codes <= high)) | (codes == own)
            numbers = codes.astype(np.float64)
            if feature.edges:
                numbers = number_in(feature, codes, np.repeat(mine, feature.n_codes))
        if scored is not None:
            possible = possible & scored
        codes, numbers = codes[possible], numbers[possible]
        least = most = numbers
        if feature.edges:
            # All numbers of a bin are alike to the trees, and a rule may ask for another than the nearest.
            ends = np.array([-np.inf, *feature.edges, np.inf])
            least, most = (
                np.clip(end, min(feature.lower, own), max(feature.upper, own))
                for end in (ends[codes], ends[codes + 1])
            )
        return Options(numbers, np.zeros(codes.size), least, most, codes)


def _numbers(feature: Feature, own: float, ends: Floats, ruled: bool) -> Options:
    """The cells that a person can get to, the own one among them; for a rule every step."""
    mine = None if np.isnan(own) else np.array([own])
    low, high = (float(end[0]) for end in reach(feature, mine, 1))
    below, above = np.append(-np.inf, ends), np.append(ends, np.inf)
    first, last = (
        np.maximum(first_after(feature, below), low),
        np.minimum(last_until(feature, above), high),
    )
    cell = np.arange(below.size)
    if ruled and feature.grid is not None:
        grid = feature.grid
        # Where nothing can be reached, the own number alone is left.
        ends_at = grid.floor(np.array([low, high])) if low <= high else np.array([0.0, -1.0])
        steps = np.arange(ends_at[0], ends_at[1] + 1.0)
        if steps.size > _MOST_STEPS:
            raise InvalidInputError(
                f"column {feature.name!r}: expected at most {_MOST_STEPS:,} steps in a column with a rule, "
                f"got {steps.size:,}"
            )
        first = last = grid.value(steps)
        cell = np.searchsorted(ends, first)
    fine = first <= last
    first, last, cell = first[fine], last[fine], cell[fine]
    wanted = own
    if mine is None:
        wanted = float(feature.scaling.estimate(np.array(feature.missing[:1]))[0])
    number = np.clip(_near(feature, wanted, first, last), first, last)
    if mine is not None:
        # The own number stands for its cell; with a rule beside the others.
        at = int(np.searchsorted(ends, own))
        other = (number != own) if ruled and feature.grid is not None else cell != at
        least, most = own, own
        if (same := np.flatnonzero(~other)).size and not (ruled and feature.grid is not None):
            least, most = min(own, float(first[same[0]])), max(own, float(last[same[0]]))
        first, last = np.append(first[other], least), np.append(last[other], most)
        number, cell = np.append(number[other], own), np.append(cell[other], at)
    order = np.argsort(number, kind="stable")
    return Options(number[order], np.zeros(order.size), first[order], last[order], cell[order])


def _near(feature: Feature, wanted: float, first: Floats, last: Floats) -> Floats:
    """The admissible number nearest to a wanted one, where it lies inside; else the wanted one."""
    if feature.grid is None:
        return np.full(first.shape, wanted)
    near = float(feature.grid.value(feature.grid.nearest(np.array([wanted])))[0])
    inside = (first <= wanted) & (wanted <= last)
    return np.where(inside, near, wanted)


def last_until(feature: Feature, ends: Floats) -> Floats:
    """The last number up to each end that the column can hold."""
    finite = np.isfinite(ends)
    known = np.where(finite, ends, 0.0)
    if feature.grid is not None:
        held = feature.grid.value(feature.grid.floor(known))
    else:
        held = known if feature.precision == "float64" else hold_down(known, feature.precision)
    return np.where(finite, held, ends)


def first_after(feature: Feature, ends: Floats) -> Floats:
    """The first number after each end that the column can hold."""
    finite = np.isfinite(ends)
    known = np.where(finite, ends, 0.0)
    if feature.grid is not None:
        held = feature.grid.value(feature.grid.floor(known) + 1.0)
    else:
        up = np.nextafter(known, np.inf)
        held = up if feature.precision == "float64" else -hold_down(-up, feature.precision)
    return np.where(finite, held, ends)


def _single(number: float, cell: int) -> Options:
    one = np.array([number])
    return Options(one, np.zeros(1), one, one, np.array([cell], dtype=np.intp))


def _rival(pieces: Pieces, kept: Cells, forms: LinearForms, number: int) -> Rival:
    """The trees that matter for one rival."""
    worth, tree = pieces.worth[kept, number], pieces.tree[kept]
    matter = np.zeros(int(tree.max(initial=-1)) + 1, dtype=np.bool_)
    matter[tree[worth != 0.0]] = True
    leaves = np.flatnonzero(matter[tree])
    leaves = leaves[np.argsort(worth[leaves], kind="stable")]
    offset, slack = float(forms.offsets[number]), float(forms.slack[number])
    return Rival(leaves, tree[leaves], worth[leaves], offset, slack, forms.dropped)
