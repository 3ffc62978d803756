"""Random problems of the search for trees, small enough for every choice to be tried, and what is true of them.

Worths are whole numbers, so that sums are exact, and what a sum begins with lies halfway between two: no ties. Costs
are whole too, with many ties. Trees ask ordered columns and listed ones; trees may be dropped, rules forbid choices,
and whoever judges refuses some choices that the sums accept, or cannot say.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast._deadline import NO_LIMIT, Deadline
from holdfast.generators._tree_problem import Problem, Rival
from holdfast.generators._tree_search import CellBox, TreeSearch


@dataclass(frozen=True)
class Drawn:
    """A problem; all its choices, what they cost, which are accepted, and of which nobody can say."""

    problem: Problem
    choices: Any
    costs: Any
    accepted: Any
    open: Any

    @property
    def least(self) -> float:
        """What the cheapest accepted choice costs."""
        return float(self.costs[self.accepted].min(initial=np.inf))

    @property
    def below(self) -> float:
        """No lower bound may be above this."""
        return float(self.costs[self.accepted | self.open].min(initial=np.inf))

    def search(self, ceiling: float = np.inf, deadline: Any = NO_LIMIT) -> TreeSearch:
        """A search that asks whether choices are accepted."""
        known = {choice.tobytes(): i for i, choice in enumerate(self.choices)}

        def offer(cells: Any) -> tuple[float, bool]:
            i = known[np.asarray(cells, dtype=np.intp).tobytes()]
            return (self.costs[i] if self.accepted[i] else np.inf), not self.open[i]

        return TreeSearch(self.problem, offer, deadline, ceiling)


class Turns(Deadline):
    """A limit that is over after so many looks at it."""

    def __init__(self, turns: int) -> None:
        object.__setattr__(self, "end", None)
        object.__setattr__(self, "turns", [turns])

    @property
    def over(self) -> bool:
        """Counts down."""
        self.turns[0] -= 1  # type: ignore[attr-defined]
        return bool(self.turns[0] < 0)  # type: ignore[attr-defined]


def drawn(seed: int) -> Drawn:
    """A problem at random, and the truth about it."""
    rng = np.random.default_rng(seed)
    n_columns = int(rng.integers(2, 7))
    sizes = rng.integers(2, {2: 12, 3: 9, 4: 7, 5: 5, 6: 4}[n_columns] + 1, n_columns)
    listed = rng.random(n_columns) < 0.3
    home, costs = _costs(rng, sizes, listed)
    trees = [_tree(rng, sizes, listed, int(rng.integers(1, 5))) for _ in range(rng.integers(2, 13))]
    boxes = [box for tree in trees for box in tree]
    tree = np.repeat(np.arange(len(trees)), [len(boxes) for boxes in trees])
    low = np.array([[part.argmax() for part in box] for box in boxes], dtype=np.intp)
    high = np.array(
        [[part.size - 1 - part[::-1].argmax() for part in box] for box in boxes], dtype=np.intp
    )
    among = {
        c: np.array([np.append(0, np.cumsum(box[c])) for box in boxes], dtype=np.intp)
        for c in np.flatnonzero(listed).tolist()
    }  # fmt: skip
    choices = np.array([*itertools.product(*(range(size) for size in sizes))], dtype=np.intp)
    leaf = _leaves(boxes, tree, len(trees), choices)
    dropped = int(rng.choice([0, 0, 0, 1, 2, 20]))
    accepted, rivals = np.ones(len(choices), dtype=bool), []
    for _ in range(int(rng.choice([1, 1, 2, 3]))):
        worth = rng.integers(-9, 10, len(boxes)).astype(float) * 4.0 ** rng.integers(0, 3)
        worth[np.isin(tree, np.flatnonzero(rng.random(len(trees)) < 0.15))] = 0.0
        terms = worth[leaf]
        sums = terms.sum(axis=1)
        if dropped:
            sums -= np.sort(np.maximum(terms, 0.0), axis=1)[:, ::-1][:, :dropped].sum(axis=1)
        # Few choices are enough, or none.
        offset = 0.5 - float(np.quantile(sums, rng.choice([0.5, 0.9, 0.97, 0.995, 1.0])))
        offset = np.floor(offset) + 0.5 - float(rng.choice([0.0, 0.0, 1.0]))
        accepted &= sums + offset > 0.0
        order = np.argsort(worth, kind="stable")
        order = order[np.isin(tree[order], tree[worth != 0.0])]
        rivals.append(Rival(order, tree[order], worth[order], offset, 0.01, dropped))
    stays = rng.random(n_columns) < 0.85
    most = None if rng.random() < 0.6 else int(rng.integers(1, n_columns + 1))
    if most is not None:
        accepted &= ((choices != home) | ~stays).sum(axis=1) <= most
    weights, bound = _rule(rng, choices)
    accepted &= choices @ weights <= bound

    def fits(low: Any, high: Any) -> bool:
        return bool(np.where(weights > 0.0, low, high) @ weights <= bound)

    problem = Problem(tree, low, high, among, rivals, costs, home, stays, most, fits)
    priced = sum(cost[choices[:, c]] for c, cost in enumerate(costs))
    doubt = accepted & (rng.random(len(choices)) < rng.choice([0.0, 0.0, 0.3]))
    unsure = doubt & (rng.random(len(choices)) < rng.choice([0.0, 0.5]))
    return Drawn(problem, choices, priced, accepted & ~doubt, unsure)


def _costs(rng: Any, sizes: Any, listed: Any) -> tuple[Any, list[Any]]:
    """Costs that never fall on the way from home; of listed columns the cheapest first."""
    home = np.where(listed, 0, rng.integers(0, sizes)).astype(np.intp)
    costs = []
    for size, at in zip(sizes, home, strict=True):
        up = np.cumsum(rng.integers(0, 4, size)).astype(float)
        down = np.cumsum(rng.integers(0, 4, size)).astype(float)
        far = np.arange(size) - at
        cost = np.where(far > 0, up[np.abs(far) - 1], np.where(far < 0, down[np.abs(far) - 1], 0.0))
        costs.append(cost * 3.0 ** rng.integers(0, 2))
    return home, costs


def _tree(rng: Any, sizes: Any, listed: Any, depth: int) -> list[list[Any]]:
    """The leaves of a tree, each with the cells that it takes of every column."""
    done, todo = [], [([np.ones(size, dtype=bool) for size in sizes], depth)]
    while todo:
        box, left = todo.pop()
        column = int(rng.integers(len(sizes)))
        cells = np.flatnonzero(box[column])
        if not left or cells.size < 2:
            done.append(box)
            continue
        if listed[column]:
            cells = rng.permutation(cells)
        ours = np.isin(np.arange(sizes[column]), cells[: rng.integers(1, cells.size)])
        for side in (ours, ~ours):
            part = [*box]
            part[column] = box[column] & side
            todo.append((part, left - 1))
    return done


def _leaves(boxes: list[list[Any]], tree: Any, n_trees: int, choices: Any) -> Any:
    """The leaf that each choice reaches in each tree."""
    leaf = np.full((len(choices), n_trees), -1)
    for i, box in enumerate(boxes):
        inside = np.all([part[choices[:, c]] for c, part in enumerate(box)], axis=0)
        assert (leaf[inside, tree[i]] == -1).all()
        leaf[inside, tree[i]] = i
    assert (leaf >= 0).all()
    return leaf


def _rule(rng: Any, choices: Any) -> tuple[Any, float]:
    if rng.random() < 0.7:
        return np.zeros(choices.shape[1]), 0.0
    weights = rng.integers(-2, 3, choices.shape[1]).astype(float)
    return weights, float(np.quantile(choices @ weights, rng.choice([0.1, 0.3, 0.6])))


def faults(seed: int) -> list[str]:
    """What a search says of a problem that is not true: to the end, from below a ceiling, and stopped on the way."""
    case, said = drawn(seed), []
    # Without first answers nothing but bounds and boxes can find the cheapest choice.
    for first in (True, False):
        for way, ceiling, deadline in (
            ("whole", np.inf, NO_LIMIT),
            ("below", case.least + 0.5 if np.isfinite(case.least) else 1e6, NO_LIMIT),
            ("stopped", np.inf, Turns(seed % 13)),
        ):
            search = case.search(ceiling, deadline)
            if not first:
                search._first_answers = lambda: iter(())  # type: ignore[method-assign]
            best, bound = search.run()
            cost = np.inf if best is None else case.problem.cost(best)
            what = f"{seed} {way} {first}: cost {cost} bound {bound}, {case.least} {case.below}"
            if bound > min(case.below, ceiling) * (1.0 + 1e-9) or cost < case.least:
                said.append(f"bound {what}")
            elif way != "stopped":
                # A choice that stays open takes nothing but the proof away.
                wanted = case.least if case.least < ceiling else np.inf
                if cost != wanted or bound < min(wanted, ceiling, case.below) * (1.0 - 1e-8):
                    said.append(f"answer {what}")
    return said


def cut_off(seed: int, boxes: int = 30) -> tuple[list[str], int]:
    """What is cut off boxes although it holds an accepted choice below a limit; how many boxes prices ruled out."""
    case, said, ruled_out = drawn(seed), [], 0
    rng, problem = np.random.default_rng(seed), case.problem
    search = case.search()
    for _ in range(boxes):
        ends = np.sort(rng.integers(0, problem.sizes, (2, problem.sizes.size)), axis=0)
        low, high = np.where(rng.random((2, 1)) < 0.5, ends, [ends[0] * 0, problem.sizes - 1])
        alive = np.arange(problem.tree.size)
        for column in range(low.size):
            alive = alive[problem.meets(alive, column, low[column], high[column])]
        inside = ((case.choices >= low) & (case.choices <= high)).all(axis=1)
        fine = inside & (case.accepted | case.open)
        least = float(case.costs[fine].min(initial=np.inf))
        # Right above the cheapest choice, where every bound is put to the test; and where there is none to be found.
        limit = least + 0.25 if np.isfinite(least) else float(rng.uniform(1.0, 20.0))
        box = CellBox(problem.cost(np.clip(problem.home, low, high)), low, high, alive)
        shrunk, what = search._shrunk(box, limit), f"{seed}: {low} {high} below {limit}"
        kept = fine & (case.costs < limit)
        if shrunk is None:
            said += [f"shrunk away {what}"] * bool(kept.any())
        else:
            part = shrunk[0]
            held = ((case.choices >= part.low) & (case.choices <= part.high)).all(axis=1)
            said += [f"shrunk {what}"] * bool((kept & ~held).any() or part.bound > least)
        for part in (box, *(shrunk or ())[:1]):
            # A box of which the best leaves are not enough has no prices.
            if search._cut(part) is not None and search._priced_out(part, limit):
                ruled_out += 1
                said += [f"priced out {what}"] * bool(kept.any())
    return said, ruled_out


def dear(seed: int) -> list[str]:
    """What prices rule out although it is just enough: of each rival the best choice within some limits."""
    case, said = drawn(seed), []
    problem, tiny = case.problem, 1e-6
    whole = CellBox(0.0, problem.home * 0, problem.sizes - 1, np.arange(problem.tree.size))
    leaf = np.array([problem.inside(choice).all(axis=1) for choice in case.choices])
    for rival in problem.rivals:
        sums = np.array([rival.bound(there[rival.leaves]) for there in leaf])
        for limit in np.unique(case.costs)[1:8] + 1e-3:
            best = float(sums[case.costs < limit].max())
            problem.rivals = [replace(rival, offset=rival.offset - best + tiny)]
            if case.search()._priced_out(whole, limit):
                said.append(f"{seed}: below {limit}")
    return said
