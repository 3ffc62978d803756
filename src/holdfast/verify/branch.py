"""Branch and bound over the lines that a linear bound was unsure of, many points and many branches at a time.

A branch replaces a neuron's chord by `v <= U` or by `v <= 0` (see `bounds.linear`). Branches wait on a stack, the last
ones are taken in batches, so memory stays bounded. A point is settled when every branch's bound lies above its cutoff,
or when a network below it is met. What proves a point is the set of its leaves: choices and multipliers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.arrays import array_namespace, to_numpy
from holdfast.bounds.interval import Ranges, first_layer_box, joined_ranges
from holdfast.bounds.linear import (
    FREE,
    LINEAR,
    ZERO,
    Multipliers,
    Relaxation,
    pull_back,
    relax,
    value_box,
    walk_forward,
    with_multipliers,
)
from holdfast.network import Floats
from holdfast.verify.ascent import Tightened, tighten
from holdfast.verify.problem import WITNESS_SAFETY, Problem
from holdfast.verify.programs import program_bound

_BATCH = 2048
# A tighter range takes a matrix for each point.
_REFINE_BATCH = 256


@dataclass(frozen=True)
class Leaf:
    """One closed branch: FREE, LINEAR or ZERO for each later neuron, and the multipliers that prove its bound."""

    decided: tuple[NDArray[np.int8], ...]
    # Floats, or fractions where only those prove the branch.
    alphas: tuple[NDArray[Any], ...]
    stretches: tuple[Floats, ...]
    bound: float


@dataclass
class BranchResult:
    """For each point: the least margin lies in [lower, upper]; `open` where the search gave up."""

    lower: Floats
    upper: Floats
    open: NDArray[np.bool_]
    nodes: NDArray[np.int64]
    # Where `upper` was met, if the search lowered it: first-layer values, then the later neurons' sides.
    values: Floats
    leaves: dict[int, list[Leaf]] = field(default_factory=dict)


def sides_of(problem: Problem, values: Floats) -> Floats:
    """What `BranchResult.values` records as sides alone: the first layer's values become sides too."""
    first = problem.network.hidden[0]
    low, high = (to_numpy(end) for end in first_layer_box(problem.net, problem.points))
    center, reach = 0.5 * (low + high), 0.5 * (high - low)
    wanted = values[:, :first]
    offset = np.clip((wanted - center) / np.where(reach > 0.0, reach, 1.0), -1.0, 1.0)
    # A value of 0 is reached from the lowest side.
    return np.concatenate([np.where(wanted > 0.0, offset, -1.0), values[:, first:]], axis=1)


@dataclass
class _Nodes:
    """Branches in waiting, as parallel arrays."""

    row: NDArray[np.intp]
    decided: tuple[NDArray[np.int8], ...]
    # A negative alpha stands for 'not chosen yet'.
    multipliers: Multipliers
    retried: NDArray[np.bool_]

    def take(self, index: NDArray[np.intp] | slice) -> _Nodes:
        return _Nodes(
            self.row[index],
            tuple(choice[index] for choice in self.decided),
            Multipliers(
                tuple(alpha[index] for alpha in self.multipliers.alphas),
                tuple(stretch[index] for stretch in self.multipliers.stretches),
            ),
            self.retried[index],
        )

    def joined(self, other: _Nodes) -> _Nodes:
        return _Nodes(
            np.concatenate([self.row, other.row]),
            tuple(np.concatenate(pair) for pair in zip(self.decided, other.decided, strict=True)),
            Multipliers(
                tuple(map(np.concatenate, zip(self.multipliers.alphas, other.multipliers.alphas, strict=True))),
                tuple(map(np.concatenate, zip(self.multipliers.stretches, other.multipliers.stretches, strict=True))),
            ),
            np.concatenate([self.retried, other.retried]),
        )


def branch_and_bound(
    problem: Problem,
    upper: Floats,
    *,
    gap: float | None = None,
    max_nodes: int | None = None,
    deadline: float | None = None,
    keep_leaves: bool = False,
) -> BranchResult:
    """Settle the sign of each point's least margin, or with `gap` its value to within that.

    Parameters
    ----------
    upper
        A margin known to be reached by a network in Δ, for each point.
    max_nodes
        Branches per point after which the point is left open; by default about as many as a mixed-integer program on
        a network of this size would pay for.
    """
    if max_nodes is None:
        max_nodes = int(400 * max(1.0, sum(problem.network.hidden[1:]) / 20) ** 2)
    search = _Search(problem, upper, gap, max_nodes, keep_leaves)
    nodes = search.refined(search.roots())
    while nodes.row.shape[0]:
        if deadline is not None and time.monotonic() > deadline:
            search.give_up(np.unique(nodes.row))
            break
        batch, nodes = nodes.take(slice(-_BATCH, None)), nodes.take(slice(0, -_BATCH))
        nodes = nodes.joined(search.expand(batch))
        alive = ~search.done[nodes.row]
        nodes = nodes.take(np.flatnonzero(alive))
    return search.result


class _Search:
    """The state of one branch and bound."""

    def __init__(self, problem: Problem, upper: Floats, gap: float | None, max_nodes: int, keep_leaves: bool) -> None:
        n, hidden = len(problem), problem.network.hidden
        self.problem, self.gap, self.max_nodes, self.keep_leaves = problem, gap, max_nodes, keep_leaves
        self.error = to_numpy(problem.error)
        self.box = value_box(problem.net, problem.points, problem.rounding, problem.sizes)
        self.done = np.zeros(n, dtype=bool)
        self.root_bound = np.full(n, -np.inf)
        # Tighter ranges of the points that need them, and where each point's are.
        self.known: tuple[Ranges, ...] | None = None
        self.known_row = np.zeros(n, dtype=np.intp)
        self.result = BranchResult(
            lower=np.full(n, np.inf),
            upper=upper.copy(),
            open=np.zeros(n, dtype=bool),
            nodes=np.zeros(n, dtype=np.int64),
            values=np.zeros((n, sum(hidden))),
        )

    def roots(self) -> _Nodes:
        """One branch for each point, nothing decided."""
        n, later = len(self.problem), self.problem.network.hidden[1:]
        return _Nodes(
            np.arange(n),
            tuple(np.full((n, size), FREE, dtype=np.int8) for size in later),
            self._unchosen(n),
            np.zeros(n, dtype=bool),
        )

    def _unchosen(self, n: int) -> Multipliers:
        later = self.problem.network.hidden[1:]
        return Multipliers(
            tuple(np.full((n, size), -1.0) for size in later), tuple(np.ones((n, size)) for size in later)
        )

    def refined(self, nodes: _Nodes) -> _Nodes:
        """From the third hidden layer on: close what the plain bound can, and find tighter ranges for the rest."""
        if self.problem.net.depth < 3:
            return nodes
        self.result.nodes[nodes.row] = 1
        nodes, _, _ = self._bound(nodes, rounds=(1, 3))
        parts = []
        for start in range(0, nodes.row.shape[0], _REFINE_BATCH):
            rows = nodes.row[start : start + _REFINE_BATCH]
            xp = array_namespace(self.box[0])
            chosen = xp.asarray(rows)
            problem = self.problem.take(chosen)
            box = (xp.take(self.box[0], chosen, axis=0), xp.take(self.box[1], chosen, axis=0))
            parts.append(relax(problem.net, box, problem.rounding, problem.sizes, refine=True)[1])
        if parts:
            self.known = tuple(joined_ranges(layer) for layer in zip(*parts, strict=True))
            self.known_row[nodes.row] = np.arange(nodes.row.shape[0])
        self.result.nodes[nodes.row] = 0
        return replace(nodes, multipliers=self._unchosen(nodes.row.shape[0]))

    def expand(self, nodes: _Nodes) -> _Nodes:
        """Bound a batch, close what is settled, and return the children of the rest."""
        np.add.at(self.result.nodes, nodes.row, 1)
        # Most branches close at once; the others get a few steps, and those that no branching could help a program.
        fresh, stale = nodes.take(np.flatnonzero(~nodes.retried)), nodes.take(np.flatnonzero(nodes.retried))
        fresh, bound, looseness = self._bound(fresh, rounds=(1, 3))
        solved = self._solve(stale)
        tired = self.result.nodes[fresh.row] >= self.max_nodes
        self._give_up_nodes(fresh.take(np.flatnonzero(tired)))
        alive = ~self.done[fresh.row]
        gap = np.maximum(self.result.upper[fresh.row] - bound, 1e-12)
        worth = looseness > 1e-3 * gap[:, None]
        clear = worth.any(axis=1)
        again = fresh.take(np.flatnonzero(alive & ~clear))
        again.retried[:] = True
        split = np.flatnonzero(alive & clear)
        children = fresh.take(split)
        scores = np.where(worth, looseness, 0.0)[split]
        # A small batch costs as much as a large one, so it may as well go down several levels at once.
        for _ in range(1 if split.size > 256 else 2 if split.size > 64 else 3):
            children, scores = self._children(children, scores)
        return again.joined(children).joined(solved)

    def _solve(self, nodes: _Nodes) -> _Nodes:
        """Branches none of whose lines is loose, one by one with the multipliers of a linear program."""
        children = nodes.take(slice(0, 0))
        for i in range(nodes.row.shape[0]):
            one = nodes.take(slice(i, i + 1))
            row = one.row[0]
            if self.done[row]:
                continue
            problem, relaxation, ranges = self._relaxed(one)
            found = program_bound(problem, relaxation, ranges, tuple(choice[0] for choice in one.decided))
            if found is None:
                self.give_up(one.row)
                continue
            one = replace(one, multipliers=found.multipliers)
            bound = np.array([found.bound - found.error])
            if bound[0] > self._cutoff(one.row)[0]:
                self._close(one, bound)
                continue
            walked = pull_back(
                problem.net, with_multipliers(relaxation, found.multipliers), problem.row, problem.offset
            )
            start = found.values[0][None, :]
            reached = walk_forward(problem.net, start, walked.coefficients, problem.offset, None)
            sides = tuple(1.0 - 2.0 * (coefficient > 0.0) for coefficient in walked.coefficients[1:])
            self._meet(one.row, Tightened(walked.bound, found.multipliers, reached.margin, start, sides, walked.bound))
            if found.excess.max() > 1e-9:
                split, _ = self._children(one, np.maximum(found.excess, 0.0)[None, :])
                children = children.joined(replace(split, retried=np.zeros(split.row.shape[0], dtype=bool)))
            elif not self.done[row]:
                self.give_up(one.row)
        return children

    def _give_up_nodes(self, nodes: _Nodes) -> None:
        self.give_up(np.unique(nodes.row[~self.done[nodes.row]]))

    def give_up(self, rows: NDArray[np.intp]) -> None:
        """Leave these points open; their bound is that of the root."""
        self.done[rows] = True
        self.result.open[rows] = True
        self.result.lower[rows] = self.root_bound[rows]

    def _bound(self, nodes: _Nodes, rounds: tuple[int, ...]) -> tuple[_Nodes, Floats, Floats]:
        """Bound the branches, each of `rounds` on those the ones before left open.

        Return what stays open with better multipliers, its bounds, and how loose each undecided line is.
        """
        bound, looseness = np.zeros(0), np.zeros((0, 1))
        if not nodes.row.shape[0]:
            return nodes, bound, looseness
        xp = array_namespace(self.box[0])
        problem, relaxation, ranges = self._relaxed(nodes)
        alphas = tuple(
            xp.where(xp.asarray(kept) < 0.0, line.alpha, xp.asarray(kept))
            for kept, line in zip(nodes.multipliers.alphas, relaxation.lines, strict=True)
        )
        multipliers = Multipliers(alphas, tuple(xp.asarray(stretch) for stretch in nodes.multipliers.stretches))
        unsure = np.concatenate([to_numpy((r.upper_min < 0.0) & (r.upper_max > 0.0)) for r in ranges], axis=1)
        unsure &= np.concatenate(nodes.decided, axis=1) == FREE
        for steps in rounds:
            upper = xp.asarray(self.result.upper[nodes.row])
            tightened = tighten(problem, relaxation, multipliers, upper, steps)
            self._meet(nodes.row, tightened)
            bound = to_numpy(tightened.bound) - self.error[nodes.row]
            nodes = replace(nodes, multipliers=tightened.multipliers.to_numpy())
            # Every branch lies inside its root, so the best root bound holds for all of them.
            root = self.result.nodes[nodes.row] == 1
            self.root_bound[nodes.row[root]] = np.maximum(self.root_bound[nodes.row[root]], bound[root])
            closed = bound > self._cutoff(nodes.row)
            self._close(nodes.take(np.flatnonzero(closed)), bound[closed])
            rest = np.flatnonzero(~closed & ~self.done[nodes.row])
            looseness = np.where(unsure[rest], to_numpy(tightened.looseness)[rest], 0.0)
            nodes, bound, unsure = nodes.take(rest), bound[rest], unsure[rest]
            if not rest.size:
                break
            chosen = xp.asarray(rest)
            problem, relaxation = problem.take(chosen), relaxation.take(chosen)
            multipliers = tightened.multipliers.take(chosen)
        return nodes, bound, looseness

    def _relaxed(self, nodes: _Nodes) -> tuple[Problem, Relaxation, tuple[Ranges, ...]]:
        """The branches' problem and relaxation, with the choices made and the tighter ranges that are known."""
        xp = array_namespace(self.box[0])
        rows = xp.asarray(nodes.row)
        problem = self.problem.take(rows)
        box = (xp.take(self.box[0], rows, axis=0), xp.take(self.box[1], rows, axis=0))
        decided = tuple(xp.asarray(choice) for choice in nodes.decided)
        known = None
        if self.known is not None:
            places = xp.asarray(self.known_row[nodes.row])
            known = tuple(ranges.take(places) for ranges in self.known)
        return problem, *relax(problem.net, box, problem.rounding, problem.sizes, decided=decided, known=known)

    def _cutoff(self, rows: NDArray[np.intp]) -> Floats:
        if self.gap is None:
            return np.zeros(rows.shape[0])
        return np.asarray(self.result.upper[rows] - self.gap)

    def _meet(self, rows: NDArray[np.intp], tightened: Tightened) -> None:
        """Record networks with a smaller margin than was known, best last so that it stays."""
        margin = to_numpy(tightened.margin)
        better = np.flatnonzero(margin < self.result.upper[rows])
        better = better[np.argsort(-margin[better], kind="stable")]
        values = np.concatenate([to_numpy(part) for part in (tightened.corner, *tightened.sides)], axis=1)
        self.result.upper[rows[better]] = margin[better]
        self.result.values[rows[better]] = values[better]
        if self.gap is None:
            self.done |= self.result.upper < -WITNESS_SAFETY * self.error

    def _close(self, nodes: _Nodes, bound: Floats) -> None:
        np.minimum.at(self.result.lower, nodes.row, bound)
        if self.keep_leaves:
            for i, row in enumerate(nodes.row):
                leaf = Leaf(
                    tuple(choice[i] for choice in nodes.decided),
                    tuple(alpha[i] for alpha in nodes.multipliers.alphas),
                    tuple(stretch[i] for stretch in nodes.multipliers.stretches),
                    float(bound[i]),
                )
                self.result.leaves.setdefault(int(row), []).append(leaf)

    def _children(self, nodes: _Nodes, scores: Floats) -> tuple[_Nodes, Floats]:
        """Two branches for each node, on its loosest neuron (numbered through the layers); one if none is loose."""
        loosest = scores.argmax(axis=1)
        loose = scores[np.arange(loosest.shape[0]), loosest] > 0.0
        parents = np.repeat(np.arange(loosest.shape[0]), np.where(loose, 2, 1))
        second = np.concatenate([[False], parents[1:] == parents[:-1]]) if parents.size else np.zeros(0, dtype=bool)
        choices = np.concatenate(nodes.decided, axis=1)[parents]
        places = np.flatnonzero(loose[parents])
        choices[places, loosest[parents][places]] = np.where(second[places], ZERO, LINEAR)
        scores = scores[parents]
        scores[places, loosest[parents][places]] = 0.0
        ends = np.cumsum([choice.shape[1] for choice in nodes.decided])[:-1]
        return replace(nodes.take(parents), decided=tuple(np.split(choices, ends, axis=1))), scores
