"""`RBR`: the least posterior odds against a point, at worst over all kernels near those estimated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from holdfast._deadline import Deadline
from holdfast._network import Bools, Floats, Ints, Pair
from holdfast._progress import no_bar
from holdfast.generators._base import Proposals, Task
from holdfast.generators._candidates import Candidates, FromTable
from holdfast.generators._gradient import halved
from holdfast.generators._likelihood import Odds
from holdfast.generators._nearest import counts, why_none
from holdfast.generators._walk import walk

# The way to each of so many neighbours is looked at for the nearest point of the boundary.
_NEIGHBOURS = 200
_FRACTIONS = np.linspace(0.0, 1.0, 11)[1:]
_HALVINGS = 6
# The first step, relative to the radius of the ball beyond the boundary; later ones shrink with the square root.
_FIRST_STEP = 0.25
# How many people at once: every iterate of each is kept.
_ROWS = 128


@dataclass(frozen=True, eq=False)
class RBR(FromTable):
    """Robust Bayesian recourse: a point that would be favourable also if the data had come out a little differently.

    Samples around the nearest boundary point, labelled by the model, are the centres of Gaussian kernels. The odds

        max sum_unfavourable N(x'; m_i, S_i²)  /  min sum_favourable N(x'; m_i, S_i²)

    are the worst over all means and covariances within reach of the kernels (see `holdfast.generators._likelihood`).
    Projected gradient steps minimise them within a ball of cost around the person. The result is the best iterate that
    obeys the constraints and has the target class. If the ball has none, because a category or a step costs more, it
    grows to the nearest accepted neighbour. With several classes: the target against the rest. The method proves
    nothing about Δ.

    Parameters
    ----------
    candidates
        As for `NNCE`: the boundary is looked for on the way to the nearest of these that are accepted.
    samples
        The number of kernels.
    radius
        The samples are drawn from a Euclidean ball of this radius around the boundary point.
    sigma
        The kernels' standard deviation.
    epsilon_unfavourable, epsilon_favourable
        How far, in the Wasserstein distance, the kernels of each class may differ from the estimated ones. Public
        implementations use a sigma of 1 with half of it and all of it, or with no ambiguity at all. On variables in
        [0, 1] the former lets every kernel reach every point, so that the odds are nearly flat: hence a smaller sigma,
        with the same proportions.
    delta_plus
        The largest distance of the point beyond the boundary point, in the sum of absolute changes (times the columns'
        costs).
    steps
        The number of gradient steps.

    Examples
    --------
    >>> import holdfast as hf
    >>> from holdfast.generators import explain
    >>> net = hf.Network([[[-1.0, 1.0]]], [[0.0]])
    >>> result = explain(net, [[0.7, 0.5]], target=1, generator=RBR([[0.6, 0.9], [0.7, 0.8]]))
    >>> result.counterfactuals.round(1)
        x0   x1
    0  0.6  0.8
    """

    name = "rbr"
    good_for = "a little beyond the boundary, where the model is locally sure; often broken by Δ"
    paper = "Nguyen, Bui, Nguyen, Yue and Nguyen 2022, Robust Bayesian recourse"
    uses_changes = False

    samples: int = 200
    radius: float = 0.2
    sigma: float = 0.2
    epsilon_unfavourable: float = 0.1
    epsilon_favourable: float = 0.2
    delta_plus: float = 0.2
    steps: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_numbers(
            positive=["radius", "sigma", "delta_plus"],
            non_negative=["epsilon_unfavourable", "epsilon_favourable"],
            counts=["samples", "steps"],
        )

    def propose(self, task: Task) -> Proposals:
        """The least worst odds near each row."""
        proposals = task.nothing()
        for target, candidates in self.accepted(task).items():
            rows = np.flatnonzero(task.targets == target)
            deadline = task.deadline(rows.size)
            nearest = walk(replace(task, advance=no_bar), rows, candidates, deadline)
            proposals.fill(rows, nearest, why_none(task, target, deadline, counts(candidates)))
            task.advance(rows.size - len(nearest))
            served = np.array(sorted(nearest), dtype=np.intp)
            # By their places in the table, so that a caller who asks for whole blocks gets the same.
            ends = np.flatnonzero(np.diff(served // _ROWS)) + 1
            for part in np.split(served, ends) if served.size else ():
                proposals.points[part] = _OddsDescent(
                    self, task, part, candidates, proposals.points[part]
                ).run()
                task.advance(part.size)
        return proposals

    def harder(self, step: float) -> RBR:
        """A larger ball: half of `delta_plus` more for each step."""
        return replace(self, delta_plus=self.delta_plus * (1.0 + 0.5 * step))


class _OddsDescent:
    """Projected gradient steps for some rows at once; all points are moves from where the people are."""

    def __init__(
        self, settings: RBR, task: Task, rows: Ints, candidates: Candidates, neighbours: Floats
    ) -> None:
        self.settings = settings
        self.task = task
        self.rows = rows
        self.own = task.factuals[rows]
        self.weights = task.space.weights
        self.neighbours = neighbours - self.own
        self.bounds = [end - self.own for end in task.space.bounds_for(task.people.take(rows))]
        self.boundary = self._nearest_boundary(candidates)
        self.offsets = _in_a_ball(
            settings.samples, task.space.n_variables, settings.radius, task.seed
        )
        # The boundary point itself, the first of the samples, is favourable, and the person, the last one, never is.
        samples = (self.boundary[:, None, :] + self.offsets).reshape(-1, self.own.shape[1])
        favourable = self._has_class(samples, np.repeat(np.arange(rows.size), len(self.offsets)))
        self.favourable = np.pad(favourable.reshape(rows.size, -1), ((0, 0), (0, 1)))
        # The kernels' extremes up to the largest distance that can occur: a move of the neighbour's cost and more.
        far = np.abs(self.neighbours).sum(axis=1) + np.abs(self.boundary).sum(axis=1)
        reach = 2.0 * float(far.max(initial=0.0)) + settings.radius + settings.delta_plus
        epsilon = settings.epsilon_unfavourable, settings.epsilon_favourable
        self.odds = Odds.of(settings.sigma, epsilon, self.own.shape[1], reach)
        self.best = np.full_like(self.own, np.nan)

    def run(self) -> Floats:
        """The best points; in the ball around the boundary, else in that of the nearest accepted neighbour."""
        deadline = self.task.deadline(self.rows.size)
        reach = np.abs(self.boundary) @ self.weights + self.settings.delta_plus
        self._keep_best(np.arange(self.rows.size), self.boundary, reach, deadline)
        left = np.flatnonzero(np.isnan(self.best).any(axis=1))
        if left.size:
            # The neighbour is on the edge of its ball, up to rounding.
            reach = np.abs(self.neighbours[left]) @ self.weights * (1.0 + 1e-9)
            self._keep_best(left, self.neighbours[left], reach, deadline)
        return self.best

    def _keep_best(self, people: Ints, start: Floats, reach: Floats, deadline: Deadline) -> None:
        """For each person the iterate with the least odds that obeys the constraints and has the class."""
        iterates = [self.neighbours[people], *self._iterates(people, start, reach, deadline)]
        people = np.tile(people, len(iterates))
        reach = np.tile(reach, len(iterates))
        points = self.task.project(self.rows[people], self.own[people] + np.concatenate(iterates))
        moves = points - self.own[people]
        fine = self.task.allowed(np.abs(moves) @ self.weights <= reach, self.rows[people], points)
        people = people[fine]
        points = points[fine]
        moves = moves[fine]
        order = np.lexsort([self._worst_odds(people, moves)[0], people])
        served, first = np.unique(people[order], return_index=True)
        self.best[served] = points[order[first]]

    def _iterates(
        self, people: Ints, moves: Floats, reach: Floats, deadline: Deadline
    ) -> Iterator[Floats]:
        """Where the gradient of the odds leads to within the ball, step by step."""
        lower, upper = (end[people] for end in self.bounds)
        for step in range(self.settings.steps):
            yield moves
            if deadline.over:
                return
            slope = self._worst_odds(people, moves)[1]
            norm = np.linalg.norm(slope, axis=1, keepdims=True)
            slope = np.divide(slope, norm, where=norm > 0.0, out=np.zeros_like(slope))
            length = _FIRST_STEP * self.settings.delta_plus / math.sqrt(step + 1.0)
            moves = _into_ball(moves - length * slope, lower, upper, self.weights, reach)
        yield moves

    def _worst_odds(self, people: Ints, moves: Floats) -> Pair:
        """log of the worst odds at points for these people, and its gradient."""
        beside = moves - self.boundary[people]
        # |y - o|² for all pairs at once; the last column is the person.
        squares = (
            (beside**2).sum(axis=1)[:, None]
            - 2.0 * beside @ self.offsets.T
            + (self.offsets**2).sum(axis=1)
        )
        distance = np.sqrt(np.column_stack([np.maximum(squares, 0.0), (moves**2).sum(axis=1)]))
        value, slope = self.odds.log_odds(distance, self.favourable[people])
        slope = np.divide(slope, distance, where=distance > 0.0, out=np.zeros_like(slope))
        towards = slope[:, :-1].sum(axis=1)[:, None] * beside - slope[:, :-1] @ self.offsets
        return value, towards + slope[:, -1:] * moves

    def _has_class(self, moves: Floats, people: Ints) -> Bools:
        """Which moves take these people to their target class."""
        classes = self.task.network.predict_index(self.own[people] + moves)
        return np.asarray(classes == self.task.targets[self.rows[people]])

    def _nearest_boundary(self, candidates: Candidates) -> Floats:
        """The cheapest accepted point on the straight ways to the nearest accepted neighbours."""
        orders = candidates.first(self.own, _NEIGHBOURS)
        people = np.repeat(np.arange(self.rows.size), [order.size for order in orders])
        ends = (
            self.task.project(self.rows[people], candidates.points(np.concatenate(orders)))
            - self.own[people]
        )
        people = np.append(np.arange(self.rows.size), people)
        ends = np.concatenate([self.neighbours, ends])
        high = np.full(people.size, np.inf)
        for fraction in _FRACTIONS:
            left = np.flatnonzero(np.isinf(high))
            high[left[self._has_class(fraction * ends[left], people[left])]] = fraction
        # A candidate that is refused once it is projected leads nowhere; a person's own nearest neighbour is accepted.
        leads = np.flatnonzero(np.isfinite(high))
        people = people[leads]
        ends = ends[leads]
        high = high[leads]
        _, high = halved(
            lambda share: self._has_class(share[:, None] * ends, people),
            high - _FRACTIONS[0],
            high,
            _HALVINGS,
        )
        moves = high[:, None] * ends
        order = np.lexsort([np.abs(moves) @ self.weights, people])
        return moves[order[np.unique(people[order], return_index=True)[1]]]


def _in_a_ball(n: int, dimension: int, radius: float, seed: int) -> Floats:
    """The centre of a Euclidean ball and n points drawn uniformly from it; the same for everybody."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((n, dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    offsets = radius * rng.random((n, 1)) ** (1.0 / dimension) * directions
    return np.concatenate([np.zeros((1, dimension)), offsets])


def _into_ball(
    moves: Floats, lower: Floats, upper: Floats, weights: Floats, reach: Floats
) -> Floats:
    """The nearest moves between the bounds whose weighted sum of absolute values is at most `reach`.

    By its optimality conditions clip(soft threshold of the move at θ times the weights) for one θ >= 0.
    """

    def shrunk(theta: Floats) -> Floats:
        softened = np.sign(moves) * np.maximum(np.abs(moves) - theta[:, None] * weights, 0.0)
        return np.asarray(np.clip(softened, lower, upper))

    none = np.zeros(len(moves))
    plain = shrunk(none)
    outside = np.abs(plain) @ weights > reach
    if not outside.any():
        return plain
    most = np.divide(np.abs(moves), weights, where=weights > 0.0, out=np.zeros_like(moves)).max(
        axis=1, initial=0.0
    )
    _, theta = halved(lambda theta: np.abs(shrunk(theta)) @ weights <= reach, none, most, 40)
    return np.where(outside[:, None], shrunk(theta), plain)
