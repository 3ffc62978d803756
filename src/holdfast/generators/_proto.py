"""`PROTO`: across the boundary and towards a prototype of the target class."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np

from holdfast._network import Floats, Ints
from holdfast.generators._base import Proposals, Task
from holdfast.generators._candidates import Candidates, FromTable
from holdfast.generators._gradient import Aim, hinge_loss
from holdfast.generators._polish import answer_by_descent

# The hinge's kink is rounded off over this many logits.
_WIDTH = 0.5
# Neighbours at the same distance are left out by the tree: ask it for more.
_SPARE = 4


@dataclass(frozen=True, eq=False)
class PROTO(FromTable):
    """An elastic net for the distance, and a pull towards people like those who have the class already.

        minimise over x'    c * max(0, kappa - m(x')) + beta ||x' - x||_1 + ||x' - x||_2^2 + theta ||x' - proto||_2^2

    with m(x') the target's logit minus its strongest rival's (`Van Looveren and Klaise 2021
    <https://arxiv.org/abs/1907.02584>`_). Each person's prototype is the mean of the nearest candidates that today's
    model gives the target class, found with a k-d tree. The steps are those of FISTA, shrinking and thresholding; c is
    adapted for each person, to the least with which m(x') reaches kappa. `Robust(PROTO(X))` is the paper's PROTO-R.

    Parameters
    ----------
    candidates
        A table in raw units, such as the training table, as for `NNCE`. Without it there is no prototype, and the last
        term falls away.
    kappa
        The least difference, in logits, between the target class and every other.
    beta, theta
        The weights of the l1 distance and of the pull towards the prototype. Columns count with their cost weights in
        the two distances from x.
    neighbours
        The number of candidates of a prototype.
    raise_by
        The kappa that a round of `Robust` adds; later rounds add more.

    Examples
    --------
    >>> import holdfast as hf
    >>> from holdfast.generators import explain
    >>> net = hf.Network([[[-1.0, 2.0]]], [[0.0]])
    >>> accepted = [[0.6, 0.9], [0.9, 0.2]]
    >>> for theta in (0.0, 1000.0):
    ...     result = explain(net, [[0.8, 0.3]], target=1, generator=PROTO(accepted, theta=theta, neighbours=1))
    ...     print(result.points.round(3).tolist())
    [[0.78, 0.39]]
    [[0.6, 0.899]]
    """

    name = "proto"
    good_for = (
        "advice on the way to people who are accepted: more plausible than gce; rarely robust"
    )
    paper = "Van Looveren and Klaise 2021, Interpretable counterfactual explanations by prototypes"
    uses_changes = False
    raises = "kappa"

    candidates: Any = None
    kappa: float = 0.0
    beta: float = 0.1
    theta: float = 1.0
    neighbours: int = 5
    raise_by: float = 0.1

    def __post_init__(self) -> None:
        if self.candidates is not None:
            super().__post_init__()
        self.check_numbers(
            positive=["raise_by"], non_negative=["kappa", "beta", "theta"], counts=["neighbours"]
        )

    def propose(self, task: Task) -> Proposals:
        """A point with the margin kappa for each row, all rows at once."""
        pulled = self.candidates is not None and self.theta > 0.0
        accepted = self.accepted(task) if pulled else {}
        return answer_by_descent(task, partial(self._aim, accepted), hinge_loss(_WIDTH))

    def _aim(self, accepted: dict[int, Candidates], task: Task) -> Aim:
        prototypes = task.factuals.copy()
        pull = np.zeros(len(task))
        for target, candidates in accepted.items():
            rows = np.flatnonzero(task.targets == target)
            if len(candidates) and rows.size:
                prototypes[rows] = nearest_means(candidates, task.factuals[rows], self.neighbours)
                pull[rows] = self.theta
        return NearPrototype(
            task, self.beta * task.space.weights, self.kappa,
            curvature=2.0 * float(task.space.weights.max() + pull.max()),
            squares=task.space.weights, prototypes=prototypes, pull=pull,
        )  # fmt: skip


def nearest_means(candidates: Candidates, factuals: Floats, k: int) -> Floats:
    """For each factual the mean of the k candidates that it costs the least to become like, (n, d)."""
    means = np.empty(factuals.shape)
    for i, near in enumerate(candidates.first(factuals, k + _SPARE)):
        chosen = near[:k]
        if chosen.size < min(k, len(candidates)):
            chosen = candidates.first(factuals[i : i + 1], k)[0]
        means[i] = candidates.points(chosen).mean(axis=0)
    return means


@dataclass(frozen=True)
class NearPrototype(Aim):
    """Today's margin, at the least elastic-net distance from the factual and the least distance from a prototype."""

    _: KW_ONLY
    squares: Floats
    prototypes: Floats
    pull: Floats

    def price(self, points: Floats, rows: Ints) -> Floats:
        """beta ||x' - x||_1 + ||x' - x||_2^2 + theta ||x' - proto||_2^2."""
        squared = (points - self.task.factuals[rows]) ** 2 @ self.squares
        pulled = self.pull[rows] * ((points - self.prototypes[rows]) ** 2).sum(axis=1)
        return np.asarray(super().price(points, rows) + squared + pulled)

    def smooth_slopes(self, points: Floats, rows: Ints) -> Floats:
        """The gradient of the two squares."""
        back = self.squares * (points - self.task.factuals[rows])
        return 2.0 * (back + self.pull[rows, None] * (points - self.prototypes[rows]))
