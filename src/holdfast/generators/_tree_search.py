"""The cheapest choice of one cell in every column that an ensemble of trees accepts: branch and bound without a solver.

    cells     trees are constant on them, and what a choice costs is a sum over columns
    box       cells from low to high in every column; the best leaf that it meets bounds each tree
    ball      leaves that cost more than the best answer do not count, and columns shrink to what is left
    prices    a price on every column, shared out among the trees, bounds all trees together

Bounds hold for what the library computes: what rounding may have done is in `Rival.offset`. The judge has the last
word on every choice, and an undecided choice stays open: the gap is true.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from holdfast._classifier import Floats
from holdfast._deadline import Deadline
from holdfast.generators._tree_problem import Cells, Problem, Rival

# What the cheapest accepted row of a choice costs, infinite if none is, and whether there is none cheaper in it.
Offer = Callable[[Cells], tuple[float, bool]]
# A gap below this, relatively, is none.
_PROVEN = 1e-9
# Radii are tried one after the other, each so much larger: a small ball is soon searched.
_FIRST, _GROWTH, _NEAR = 1.3, 1.6, 1.25
# How cost counts against gain when columns are changed one by one; how often, and how often again without one.
_GREEDY = (1.0, 0.5, 0.0, 0.75)
_MOST_MOVES, _ROUNDS = 40, 3
# Shares of the time for first answers, by bounds and in all. Choices at random, the best of which is a start; and cells
# of a column that are looked at where rows are asked about.
_BOUNDS, _OPENING, _DRAWN, _SPREAD = 0.2, 0.7, 256, 24
# Passes over the columns of a box until nothing shrinks.
_PASSES = 3
# Steps that improve the prices.
_STEPS = 10
_TINY = 1e-12


@dataclass(frozen=True)
class CellBox:
    """Some of the choices: cells from low to high; the leaves that they meet; and what they cost at least."""

    bound: float
    low: Cells
    high: Cells
    alive: Cells


@dataclass(frozen=True)
class Cut:
    """Bounds of the parts of a box: [low, k] and [k, high] at every cell k of every column, all rivals together.

    As shares of what the whole box has: 1 where nothing is lost, at most 0 where a part is not enough for some rival.
    """

    below: Floats
    above: Floats


class TreeSearch:
    """One person's search."""

    def __init__(
        self,
        problem: Problem,
        offer: Offer,
        deadline: Deadline,
        ceiling: float = np.inf,
        margins: Callable[[Cells], Floats] | None = None,
    ) -> None:
        self.problem, self.offer, self.deadline = problem, offer, deadline
        self.margins, self.until, self.profile = margins, deadline, problem.profile
        self.best: Cells | None = None
        # Nothing at this cost or above is of interest; of what stays open the least cost; what is proven.
        self.cost, self.open, self.bound = ceiling, np.inf, 0.0
        self.known: dict[bytes, tuple[float, bool]] = {}

    def run(self, *, any_will_do: bool = False) -> tuple[Cells | None, float]:
        """The best choice below the ceiling, None if there is none, and a proven lower bound on all choices."""
        problem = self.problem
        for found in self._first_answers():
            if found and any_will_do:
                return self.best, 0.0
        low, high = np.zeros_like(problem.sizes), problem.sizes - 1
        root = CellBox(0.0, low, high, np.arange(problem.tree.size))
        self.bound = min(self._reach(root), self.cost)
        radius = max(self.bound, _TINY) * _FIRST
        # What is open at a smaller radius proves no more, but there may be an answer further out.
        further = self.bound < self.cost * (1.0 - _PROVEN)
        while further:
            radius = np.inf if radius > problem.flat.sum() else radius
            radius = self.cost if radius * _NEAR >= self.cost else radius
            further = self._tree(root, radius, any_will_do)
            radius *= _GROWTH
        return self.best, min(self.bound, self.open, self.cost)

    # ------------------------------------------------------------------ answers

    def _offered(self, cells: Cells) -> bool:
        """Keep the choice if it is accepted and the cheapest so far; whether all is known about it."""
        key = cells.tobytes()
        if key not in self.known:
            self.known[key] = self.offer(cells)
        cost, settled = self.known[key]
        if cost < self.cost:
            self.best, self.cost = cells.copy(), cost
        return settled

    def _first_answers(self) -> Iterator[bool]:
        """Change the column with the best gain for its cost until it is enough; then again without one of those."""
        home, self.until = self.problem.home, self.deadline.share(_BOUNDS)
        for power in _GREEDY if home.size else ():
            yield self._greedy(home, power)
        self.until = self.deadline.share(_OPENING)
        if self.best is None and self.margins is not None and home.size:
            # Where bounds promise too much, or too little at once, rows are asked about.
            self.profile = self._sampled
            yield self._greedy(home, 1.0)
            if self.problem.most is None:
                drawn = np.random.default_rng(0).integers(
                    self.problem.sizes, size=(_DRAWN, home.size)
                )
                yield self._greedy(drawn[self.margins(drawn).argmax()], 1.0)
        for _ in range(_ROUNDS):
            if self.best is None or self.until.over:
                return
            before, base = self.cost, self.best
            for column in np.flatnonzero(base != home).tolist():
                start = base.copy()
                start[column] = home[column]
                yield self._greedy(start, 1.0, column)
                yield self._greedy(start, 0.5, column)
                yield self._greedy(home, 1.0, column)
            if self.cost >= before:
                return

    def _greedy(self, start: Cells, power: float, without: int = -1) -> bool:
        problem, cells = self.problem, start.copy()
        for _ in range(_MOST_MOVES):
            if self.until.over:
                break
            least, here = self.profile(cells)
            if here > 0.0:
                return self._cheaper(cells)
            paid = problem.price(cells)
            more = problem.flat - paid[problem.column]
            can = (paid.sum() + more < self.cost) & (problem.column != without)
            if problem.most is not None:
                changed = problem.changed(cells)
                can &= changed[problem.column] | (changed.sum() < problem.most)
            enough = np.flatnonzero((least > 0.0) & can)
            if enough.size:
                place = int(enough[more[enough].argmin()])
            else:
                gain = least - here
                rate = np.where(can & (gain > _TINY), gain / np.maximum(more, 1e-6) ** power, -1.0)
                place = int(rate.argmax())
                if rate[place] <= 0.0:
                    return False
            cells[problem.column[place]] = problem.cell[place]
        return False

    def _cheaper(self, cells: Cells) -> bool:
        """Bring columns back one by one as long as it is enough, then ask."""
        problem = self.problem
        while True:
            least, _ = self.profile(cells)
            more = problem.flat - problem.price(cells)[problem.column]
            good = np.flatnonzero((least > 0.0) & (more < -_TINY))
            if not good.size or self.until.over:
                before = self.cost
                if problem.cost(cells) < before:
                    self._offered(cells)
                return self.cost < before
            place = good[more[good].argmin()]
            cells[problem.column[place]] = problem.cell[place]

    def _sampled(self, cells: Cells) -> tuple[Floats, float]:
        """As `Problem.profile`, of cells near by, ever further apart, and of some spread over each column."""
        problem = self.problem
        away = np.abs(problem.cell - cells[problem.column])
        spread = np.maximum(problem.sizes // _SPREAD, 1)[problem.column]
        asked = ((away & (away - 1)) == 0) | (problem.cell % spread == 0)
        places = np.flatnonzero(asked | (problem.cell == problem.home[problem.column]))
        rows = np.repeat(cells[None, :], places.size + 1, axis=0)
        rows[np.arange(places.size), problem.column[places]] = problem.cell[places]
        least = np.full(problem.flat.size, -np.inf)
        assert self.margins is not None
        *least[places], here = self.margins(rows)
        return least, here

    # ------------------------------------------------------------------ the tree

    def _tree(self, root: CellBox, radius: float, any_will_do: bool) -> bool:
        """Search all that costs less than the radius; whether to go on further out."""
        serial = itertools.count()
        heap = [(root.bound, next(serial), root)]
        while heap:
            bound, _, box = heapq.heappop(heap)
            limit = min(self.cost, radius)
            if bound >= limit * (1.0 - _PROVEN):
                break
            self.bound = max(self.bound, min(bound, self.open))
            if self.deadline.over or (any_will_do and self.best is not None):
                return False
            for child in self._look(box, limit):
                if child.bound < min(self.cost, limit):
                    heapq.heappush(heap, (child.bound, next(serial), child))
        self.bound = max(self.bound, min(self.cost, radius, self.open))
        return radius < self.cost

    def _look(self, box: CellBox, limit: float) -> list[CellBox]:
        """The parts that a box is split into; none where it is done with."""
        problem = self.problem
        shrunk = self._shrunk(box, limit)
        if shrunk is None:
            return []
        box, cut = shrunk
        corner = np.clip(problem.home, box.low, box.high)
        single = bool((box.low == box.high).all())
        if single or (problem.margins(corner) > 0.0).all():
            settled = self._offered(corner)
            if single and not settled:
                self.open = min(self.open, problem.cost(corner))
            if single or self.cost <= box.bound * (1.0 + _PROVEN):
                return []
        if self._priced_out(box, limit):
            return []
        column, cell = self._where(box, limit, cut)
        halves = []
        for low, high in ((box.low[column], cell), (cell + 1, box.high[column])):
            ends = box.low.copy(), box.high.copy()
            ends[0][column], ends[1][column] = low, high
            bound = max(box.bound, problem.cost(np.clip(problem.home, *ends)))
            halves.append(replace(self._narrowed(box, *ends), bound=bound))
        return halves

    def _where(self, box: CellBox, limit: float, cut: Cut) -> tuple[int, int]:
        """The column, and the last cell of its lower part: where both parts are nearest to being done with."""
        problem = self.problem
        room = max(limit - box.bound, _TINY)
        column, cell = problem.column, problem.cell
        places = np.flatnonzero((cell >= box.low[column]) & (cell < box.high[column]))
        column, cell = column[places], cell[places]
        home, start = np.clip(problem.home, box.low, box.high)[column], problem.start[column]
        paid = problem.flat[start + home]
        lower = (problem.flat[start + np.minimum(home, cell)] - paid) / room
        upper = (problem.flat[start + np.maximum(home, cell + 1)] - paid) / room
        lower = np.clip(np.maximum(lower, 1.0 - cut.below[places]), 1e-3, 1.0)
        upper = np.clip(np.maximum(upper, 1.0 - cut.above[places + 1]), 1e-3, 1.0)
        best = int((lower * upper).argmax())
        return int(column[best]), int(cell[best])

    # ------------------------------------------------------------------ bounds

    def _reach(self, box: CellBox) -> float:
        """The least radius whose leaves add up to enough: no choice is cheaper than any leaf that it takes."""
        far, least = self.problem.leaf_costs(box.alive, box.low, box.high), 0.0
        for rival in self.problem.rivals:
            costs = far[rival.leaves]
            low, high = 0.0, float(costs.max(initial=0.0))
            if rival.bound(costs <= high) < 0.0:
                return np.inf
            for _ in range(30):
                middle = (low + high) / 2.0
                low, high = (middle, high) if rival.bound(costs <= middle) < 0.0 else (low, middle)
            least = max(least, low)
        return least

    def _shrunk(self, box: CellBox, limit: float) -> tuple[CellBox, Cut] | None:
        """The box without what cannot be part of an answer within the limit; None where nothing is left."""
        problem = self.problem
        for _ in range(_PASSES):
            held = self._held(box)
            if held is None:
                return None
            home = problem.price(np.clip(problem.home, held.low, held.high))
            bound = max(box.bound, float(home.sum()))
            if bound >= limit:
                return None
            near = problem.leaf_costs(held.alive, held.low, held.high) < limit
            box = replace(held, bound=bound, alive=held.alive[near])
            made = self._cut(box)
            if made is None:
                return None
            cut = made
            room = limit - float(home.sum())
            # Whatever ends below a cell is not enough, so the answer lies beyond; likewise from above.
            near = problem.flat - home[problem.column] < room
            low = problem.first(near & (cut.below > 0.0), box.low, box.high)
            high = problem.last(near & (cut.above > 0.0), box.low, box.high)
            if (low > high).any():
                return None
            if (low == box.low).all() and (high == box.high).all():
                break
            box = self._narrowed(box, low, high)
        return box, cut

    def _narrowed(self, box: CellBox, low: Cells, high: Cells) -> CellBox:
        """A part of a box, with the leaves that it meets."""
        alive = box.alive
        for column in np.flatnonzero((low > box.low) | (high < box.high)).tolist():
            alive = alive[self.problem.meets(alive, column, low[column], high[column])]
        return replace(box, low=low, high=high, alive=alive)

    def _held(self, box: CellBox) -> CellBox | None:
        """The box within the rules and the number of columns that may change."""
        problem = self.problem
        if not problem.fits(box.low, box.high):
            return None
        if problem.most is None:
            return box
        can_stay = problem.stays & (box.low <= problem.home) & (problem.home <= box.high)
        changed = int((~can_stay).sum())
        if changed > problem.most:
            return None
        if changed < problem.most:
            return box
        ends = (np.where(can_stay, problem.home, end) for end in (box.low, box.high))
        return self._narrowed(box, *ends)

    def _cut(self, box: CellBox) -> Cut | None:
        """Bounds of the parts of a box; None where the whole of it is not enough."""
        problem = self.problem
        there = np.zeros(problem.tree.size, dtype=np.bool_)
        there[box.alive] = True
        below, above = np.ones(problem.flat.size), np.ones(problem.flat.size)
        columns = np.flatnonzero(box.low < box.high)
        first, last = box.low[columns], box.high[columns]
        longest = int((last - first).max(initial=0)) + 1
        # The cells of the box, by column and by how far they are from either end of it.
        inside = (problem.cell >= box.low[problem.column]) & (
            problem.cell <= box.high[problem.column]
        )
        cells = np.flatnonzero(inside & (box.low < box.high)[problem.column])
        at = np.searchsorted(columns, problem.column[cells])
        ahead, back = problem.cell[cells] - first[at], last[at] - problem.cell[cells]
        for rival in problem.rivals:
            kept = there[rival.leaves]
            leaves, tree, worth = rival.leaves[kept], rival.place[kept], rival.worth[kept]
            best = np.full(rival.n_trees, -np.inf)
            best[tree] = worth
            whole = float(rival.total(best))
            if not whole >= 0.0:
                return None
            # A tree of which one leaf is left adds the same everywhere.
            count = np.bincount(tree, minlength=rival.n_trees)
            fixed, loose = best[count == 1], count[tree] > 1
            number = np.cumsum(count > 1) - 1
            leaves, tree, worth = leaves[loose], number[tree[loose]], worth[loose]
            size = whole if whole > 0.0 else 1.0
            low = problem.low[leaves][:, columns] - first
            high = last - problem.high[leaves][:, columns]
            shape = (columns.size, longest, int(count[count > 1].size))
            for table, ends in ((below, low), (above, high)):
                part = rival.running(shape, np.maximum(ends, 0), tree, worth, fixed) / size
                table[cells] = np.minimum(
                    table[cells], part[at, (back if table is above else ahead)]
                )
        return Cut(below, above)

    def _priced_out(self, box: CellBox, limit: float) -> bool:
        """Whether prices on the columns prove that no choice within the limit is enough for some rival.

        With prices p_tc >= 0, for each column c shared out among the trees t so that they add up to P,

            sum_t worth_t(x)  <=  P * room + sum_t max over leaves (worth - sum_c p_tc cost_c(leaf))

        for every x that costs at most `room` more than the box itself.
        """
        problem = self.problem
        home = np.clip(problem.home, box.low, box.high)
        room = limit - problem.cost(home)
        if not 0.0 < room < np.inf:
            return room <= 0.0
        extra = problem.leaf_prices(box.alive, box.low, box.high) - problem.price(home)
        used = np.flatnonzero(extra.any(axis=0))
        place = np.full(problem.tree.size, -1, dtype=np.intp)
        place[box.alive] = np.arange(box.alive.size)
        return any(_dear(rival, place, extra[:, used], room) for rival in problem.rivals)


def _dear(rival: Rival, place: Cells, extra: Floats, room: float) -> bool:
    """Whether some prices show that this rival cannot be won within the room; `place` finds a leaf's row of `extra`."""
    leaves, tree, worth = rival.by_tree
    at = place[leaves]
    kept = at >= 0
    tree, worth, cost = tree[kept], worth[kept], extra[at[kept]]
    if not tree.size:
        return False
    first = np.flatnonzero(np.diff(tree, prepend=-1))
    size = np.diff(np.append(first, tree.size))
    row = np.repeat(np.arange(first.size), size)
    # Each tree that asks anything of a column pays for it to begin with.
    shares = np.maximum.reduceat((cost > 0.0).astype(np.float64), first, axis=0) + _TINY
    shares /= shares.sum(axis=0)
    price = float(rival.total(np.maximum.reduceat(worth, first))) / room
    for step in range(_STEPS):
        paid = np.einsum("lc,lc->l", cost, shares[row])
        score = worth - price * paid
        top = np.maximum.reduceat(score, first)
        if float(rival.total(top)) + price * room < 0.0:
            return True
        hit = np.flatnonzero(score == top[row])
        chosen = hit[np.flatnonzero(np.diff(row[hit], prepend=-1))]
        asked = cost[chosen]
        pace = 4.0 / (1.0 + 0.3 * step) / np.maximum(asked.max(axis=0), _TINY)
        shares = shares * np.exp(np.minimum(pace * asked, 30.0))
        shares /= shares.sum(axis=0)
        spent = float((shares * asked).sum())
        price *= float(np.exp(np.clip(0.5 * (spent - room) / room, -0.5, 0.5)))
    return False
