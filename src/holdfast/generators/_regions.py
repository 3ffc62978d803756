"""Advice widened to a box: every ensemble in Δ accepts every row in it.

proof    the sum over trees of the worst leaf that meets the box, less what may be dropped, stays above 0
order    the columns that the advice changes come first, the costliest change first: away from the person's value, then
         back towards it; then the other columns
ends     round numbers, where some lie between the answer and the end of what is proven
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from holdfast._forest import sum_less_dropped
from holdfast._numbers import roundest
from holdfast._trees import TreeEnsemble
from holdfast.errors import InvalidInputError
from holdfast.features._codec import Rows, differs
from holdfast.generators._tree_judge import TreeJudge, TreesToday, trees_under
from holdfast.generators._tree_person import first_after, last_until
from holdfast.generators._tree_pieces import outer_boxes
from holdfast.generators._tree_problem import Cells, Mask
from holdfast.verify._closed_form import ClosedForm
from holdfast.verify._deciders import decider_for, toward

if TYPE_CHECKING:
    from holdfast.generators._recourse import Recourse

# The last part of a range, as a share of it, in which its end may be rounded.
_ROUNDED = 0.1


def regions_of(result: Recourse, rows: Iterable[int]) -> pd.DataFrame:
    """For these rows, which have answers, the numbers between which every row is accepted; see `Recourse.regions`."""
    judges = {int(target): _judge(result, int(target)) for target in np.unique(result.targets)}
    parts = []
    for row in rows:
        person = result.people.take(np.array([row]))
        region = _Region(judges[int(result.targets[row])], result, person, row)
        parts += region.widened()
    columns = ["row", "column", "changed", "at_least", "at_most"]
    return pd.DataFrame(parts, columns=columns).astype({"row": int, "changed": bool})


def _judge(result: Recourse, target: int) -> TreeJudge:
    """The models that have to accept the rows of a region."""
    trees = result.classifier
    if isinstance(trees, TreeEnsemble):
        if result.changes is None:
            return TreesToday(trees, target)
        one = toward(decider_for(result.model, result.changes), target)
        if isinstance(one, ClosedForm) and (judge := trees_under(one, target)):
            return judge
    raise InvalidInputError(
        f"regions: expected an ensemble of trees, alone or under TreeChanges or PlausibleShift, got {trees!r} "
        f"under {result.changes!r}"
    )


class _Region:
    """One person's region: cells from low to high in every column of numbers."""

    def __init__(self, judge: TreeJudge, result: Recourse, person: Rows, row: int) -> None:
        self.space, self.row, self.own = result.space, row, person.numbers[0]
        point, decode = result.points[[row]], judge.ensemble.decode
        # The row as the trees are asked about it, to the last bit.
        self.answer = self.space.rows(point if decode is None else decode(point)).numbers[0]
        spent = np.abs(point[0] - person.points[0]) * self.space.weights
        self.spent = [float(spent[feature.places].sum()) for feature in self.space.features]
        worst = judge.worst(self.space, person)
        self.asked, self.forms = worst.asked, worst.forms
        # Behind preprocessing, or in a space's own units, cuts are known within the ranges alone.
        everywhere = judge.ensemble.decode is not None and judge.ensemble.score.before is None
        features = [] if everywhere else self.space.features
        self.known = {
            i: (min(f.lower, self.own[i]), max(f.upper, self.own[i]))
            for i, f in enumerate(features)
            if i in self.asked.ends and not np.isnan(self.answer[i])
        }
        boxes = outer_boxes(judge.ensemble.forest, worst.forms.worth, worst.asked, len(self.spent))
        fine = np.ones(boxes.tree.size, dtype=bool)
        for i, number in enumerate(self.answer.tolist()):
            if np.isnan(number) and (i in self.asked.ends or i in self.asked.scored):
                fine &= boxes.gap[:, i]
            elif i in self.asked.scored:
                fine &= boxes.among[i][:, int(self.space.features[i].codes(self.answer[[i]])[0])]
        self.free = [i for i in self.asked.ends if not np.isnan(self.answer[i])]
        cells = [np.searchsorted(self.asked.ends[i], self.answer[i]) for i in self.free]
        self.low = np.array(cells, dtype=np.intp)
        self.high = self.low.copy()
        self.tree, self.worth = boxes.tree[fine], boxes.worth[fine]
        self.leaf_low = boxes.low[fine][:, self.free]
        self.leaf_high = boxes.high[fine][:, self.free]

    def widened(self) -> list[tuple[Any, ...]]:
        """A line for each column that the trees read; nothing where not even the answer itself is proven."""
        changed = differs(self.answer, self.own)
        order = sorted(
            range(len(self.free)),
            key=lambda p: (not changed[self.free[p]], -self.spent[self.free[p]]),
        )
        if not self._steps(self._met(-1), np.zeros(self.tree.size, dtype=np.intp), 1) or any(
            not low <= self.answer[i] <= high for i, (low, high) in self.known.items()
        ):
            return []
        for place in order:
            i = self.free[place]
            up = bool(self.answer[i] >= self.own[i])
            self._widen(place, up)
            self._widen(place, not up)
        named = sorted({*self.free, *self.asked.scored})
        return [(self.row, self.space.names[i], bool(changed[i]), *self._ends(i)) for i in named]

    def _met(self, without: int) -> Mask:
        """The leaves that meet the box, with one column left out of the test."""
        meets = (self.leaf_low <= self.high) & (self.leaf_high >= self.low)
        if without >= 0:
            meets[:, without] = True
        return np.asarray(meets.all(axis=1))

    def _widen(self, place: int, up: bool) -> None:
        """Take in cells on one side of a column as long as the worst leaves are enough."""
        last = self.asked.ends[self.free[place]].size
        met = self._met(place)
        if up:
            met &= self.leaf_high[:, place] >= self.low[place]
            away, room = self.leaf_low[:, place] - self.high[place], last - self.high[place]
        else:
            met &= self.leaf_low[:, place] <= self.high[place]
            away, room = self.low[place] - self.leaf_high[:, place], self.low[place]
        more = self._steps(met, np.maximum(away, 0), int(room) + 1) - 1
        if up:
            self.high[place] += more
        else:
            self.low[place] -= more

    def _steps(self, met: Mask, away: Cells, n_steps: int) -> int:
        """For how many steps the leaves that come no later keep every margin above what rounding may take."""
        tree, away = self.tree[met], away[met]
        n_trees, enough = int(self.tree.max(initial=-1)) + 1, np.ones(n_steps, dtype=bool)
        for number, worth in enumerate(self.worth[met].T):
            least = np.full((n_steps, n_trees), np.inf)
            order = np.argsort(-worth, kind="stable")
            order = order[away[order] < n_steps]
            least[away[order], tree[order]] = worth[order]
            np.minimum.accumulate(least, axis=0, out=least)
            total = sum_less_dropped(least, self.forms.dropped) + self.forms.offsets[number]
            enough &= total > 2.0 * self.forms.slack[number]
        return int(enough.size if enough.all() else enough.argmin())

    def _ends(self, i: int) -> tuple[Any, Any]:
        """The least and the greatest value of a column in the region, rounded inwards; nan where there is no end."""
        feature, answer = self.space.features[i], float(self.answer[i])
        if i not in self.free:
            value = self.space.restore(self.answer[None, :])[feature.name].iloc[0]
            return value, value
        place, ends = self.free.index(i), self.asked.ends[i]
        low, high = self.low[place], self.high[place]
        least, most = np.nan, np.nan
        if low > 0:
            # A person between two steps, who stays there, is inside.
            least = min(float(first_after(feature, ends[[low - 1]])[0]), answer)
            least = roundest(least, min(answer, least + _ROUNDED * (answer - least)), up=False)
        if high < ends.size:
            most = max(float(last_until(feature, ends[[high]])[0]), answer)
            most = roundest(max(answer, most - _ROUNDED * (most - answer)), most, up=True)
        ends_known = np.array(self.known.get(i, (-np.inf, np.inf)))
        ends_known[np.isinf(ends_known)] = np.nan
        return np.fmax(least, ends_known[0]), np.fmin(most, ends_known[1])
