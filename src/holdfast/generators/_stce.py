"""`STCE`: the nearest candidate around which the model's probability is high and even."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.special import expit, softmax

from holdfast._classifier import Classifier
from holdfast._network import Bools, Floats, Ints, Network
from holdfast.errors import InvalidInputError
from holdfast.generators._base import Proposals, Task
from holdfast.generators._candidates import FromTable
from holdfast.generators._nearest import counts, why_none
from holdfast.generators._walk import for_the_first_time, walk

# How many neighbours are looked at in one go: what is computed of them stays in the cache.
_BLOCK = 1 << 13
# How many points are screened together, so that what is known of their neighbours fits in memory.
_POINTS = 1 << 10
# A mean over at least so many neighbours that lies so many standard errors below tau will not reach it with all.
_FEWEST = 30
_HOPELESS = 5.0
# What closes each time that `harder` asks for more, of the way from tau to certainty.
_RAISE = 0.15


@dataclass(frozen=True)
class Stability:
    """The height and evenness of a class's probability around a point.

    With m the probability of the class and x_i = x + noise_i, the mean over i of m(x_i) - gamma |m(x_i) - m(x)|.

    Parameters
    ----------
    noise
        The differences between a point and its neighbours, (k, d); the same for every point.
    """

    classifier: Classifier
    target: int
    noise: Floats
    gamma: float

    def __call__(self, points: Floats) -> Floats:
        """The stability of each point."""
        return np.asarray(self._terms(points, slice(None)).mean(axis=1))

    def at_most(self, points: Floats) -> Floats:
        """An upper bound that asks for no neighbours: m - gamma |m - m(x)| is greatest at m = 1, or at m(x)."""
        own = self._probability(self.classifier.logits(points))
        return 1.0 - min(self.gamma, 1.0) * (1.0 - own)

    def reaches(self, points: Floats, tau: float) -> Bools:
        """Which points have at least this stability; a part of the neighbours rules out most of the others."""
        k = len(self.noise)
        enough = np.zeros(len(points), dtype=bool)
        hopeful = np.flatnonzero(self.at_most(points) >= tau)
        for start in range(0, hopeful.size, _POINTS):
            left = hopeful[start : start + _POINTS]
            terms = np.empty((left.size, 0))
            for seen in [part for part in (k // 16, k // 4) if part >= _FEWEST] + [k]:
                terms = np.hstack([terms, self._terms(points[left], slice(terms.shape[1], seen))])
                spare = _HOPELESS * terms.std(axis=1) / math.sqrt(seen) if seen < k else 0.0
                still = terms.mean(axis=1) + spare >= tau
                left = left[still]
                terms = terms[still]
            enough[left] = True
        return enough

    def _terms(self, points: Floats, which: slice) -> Floats:
        """What these neighbours add to the mean, (points, neighbours)."""
        to_sums, noise, to_logits = self._layers
        starts = to_sums(points)
        moves = noise[which]
        own = self._probability(self.classifier.logits(points))[:, None]
        terms = np.empty((len(points), len(moves)))
        size = max(1, _BLOCK // max(len(moves), 1))
        for start in range(0, len(points), size):
            around = (starts[start : start + size, None, :] + moves).reshape(-1, moves.shape[1])
            terms[start : start + size] = self._probability(to_logits(around)).reshape(
                -1, len(moves)
            )
        terms -= self.gamma * np.abs(terms - own)
        return terms

    @cached_property
    def _layers(self) -> tuple[Callable[[Floats], Floats], Floats, Callable[[Floats], Floats]]:
        """From points to what noise is added to, that noise, and from there to logits, overwriting.

        The first layer of a network is linear: W (x + e) + b = (W x + b) + W e, and the noise is the same for all.
        """
        network = self.classifier
        if not isinstance(network, Network):
            return np.asarray, self.noise, network.logits
        weight = network.weights[0]
        bias = network.biases[0]
        later = None
        relu = "relu" in network.activations[:1]
        if network.hidden:
            later = Network(
                network.weights[1:], network.biases[1:], network.classes, network.activations[1:]
            )

        def to_logits(sums: Floats) -> Floats:
            sums = np.maximum(sums, 0.0, out=sums) if relu else sums
            return sums if later is None else later.logits(sums)

        return lambda points: points @ weight.T + bias, self.noise @ weight.T, to_logits

    def _probability(self, logits: Floats) -> Floats:
        if self.classifier.n_outputs == 1:
            return np.asarray(expit(logits[:, 0] if self.target == 1 else -logits[:, 0]))
        return np.asarray(softmax(logits, axis=1)[:, self.target])


@dataclass(frozen=True, eq=False)
class STCE(FromTable):
    """The nearest candidate that is stable: around it, the probability of the class is high and even.

    The stability of a point is the mean over Gaussian neighbours of the probability of the target class, less gamma
    times how far that probability is from the point's own. Candidates are met in order of distance, as with `NNCE`, and
    the point under the person's constraints has to be stable. The paper's promise is a likely one, about models that
    differ as retrained models do. It is not about Δ; `RNCE` gives a proof.

    Parameters
    ----------
    candidates
        As for `NNCE`.
    k
        The number of neighbours.
    sigma
        Their standard deviation in each of the model's variables.
    gamma
        The weight of a deviation.
    tau
        The least stability, below 1.

    Examples
    --------
    >>> import holdfast as hf
    >>> from holdfast.generators import explain
    >>> net = hf.Network([[[-8.0, 8.0]]], [[0.0]])
    >>> others = [[0.7, 0.72], [0.7, 0.8], [0.5, 0.9]]
    >>> result = explain(net, [[0.7, 0.5]], target=1, generator=STCE(others, tau=0.6))
    >>> result.counterfactuals
        x0   x1
    0  0.5  0.9
    """

    name = "st-ce"
    good_for = "a real person's row where the model is locally sure: likely to hold, no proof"
    paper = "Hamman, Noorani, Mishra, Magazzeni and Dutta 2023, T-Rex:NN"
    uses_changes = False
    keeps_to_rows = True

    k: int = 1000
    sigma: float = 0.1
    gamma: float = 1.0
    tau: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_numbers(non_negative=["sigma", "gamma"], counts=["k"])
        if not (isinstance(self.tau, int | float | np.number) and self.tau < 1.0):
            raise InvalidInputError(f"tau: expected a number below 1, got {self.tau!r}")

    def propose(self, task: Task) -> Proposals:
        """The nearest stable neighbour of each row."""
        noise = self.sigma * np.random.default_rng(task.seed).standard_normal(
            (self.k, task.space.n_variables)
        )
        proposals = task.nothing()
        for target, candidates in self.accepted(task).items():
            rows = np.flatnonzero(task.targets == target)
            test = partial(
                stable_until_first, Stability(task.classifier, target, noise, self.gamma), self.tau
            )
            deadline = task.deadline(rows.size)
            nearest = walk(task, rows, candidates, deadline, test=test)
            task.advance(rows.size - len(nearest))
            holds = f"of stability {self.tau:g} or more"
            proposals.fill(
                rows, nearest, why_none(task, target, deadline, counts(candidates), holds=holds)
            )
        return proposals

    def harder(self, step: float) -> STCE:
        """A higher tau, ever closer to 1."""
        return replace(self, tau=1.0 - (1.0 - self.tau) * (1.0 - _RAISE) ** step)


def stable_until_first(
    stability: Stability,
    tau: float,
    task: Task,
    fine: Bools,
    rows: Ints,
    points: Floats,
    begin: Ints,
) -> Bools:
    """Which points are stable, for each person at least up to the first; later points are not tested."""
    stable = np.zeros(fine.size, dtype=bool)
    hopeful = fine.copy()
    hopeful[fine] = stability.at_most(points[fine]) >= tau
    asked = np.flatnonzero(for_the_first_time(hopeful, rows, points))
    size = 1
    while asked.size:
        # The next few of each person, ever more at a time.
        turn = np.arange(asked.size) - np.searchsorted(begin[asked], begin[asked])
        now = asked[turn < size]
        stable[now] = stability.reaches(points[now], tau)
        served = np.isin(begin[asked], begin[now[stable[now]]])
        asked = asked[~served & (turn >= size)]
        size *= 2
    return stable
