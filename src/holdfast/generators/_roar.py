"""`ROAR`: the worst that a bounded change of a local linear model can do, in the loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from holdfast._network import Floats, Ints, Pair
from holdfast.changes import PlausibleChanges
from holdfast.generators._base import Generator, Proposals, Task
from holdfast.generators._gradient import Aim, logistic_loss
from holdfast.generators._polish import answer_by_descent


@dataclass(frozen=True)
class ROAR(Generator):
    """Adversarial descent on a linear model of the model: costly advice, quick, robust by experience but not by proof.

        minimise over x'    max over ||change|| <= delta_max of  log(1 + exp(-m(x' + change)))  +  lambda * distance

    (`Upadhyay, Joshi and Lakkaraju 2021 <https://arxiv.org/abs/2102.13620>`_). A linear model's least margin under the
    change of its coefficients and intercept is known in closed form,

        m(x') - delta_max * ||(x', 1)||_1        for the box; the dual norm in general,

    with 2^(1/q) delta_max between two classes that have a row each. A network is replaced by its tangent at x', which
    has its margin and slope there: the original fits a linear model to samples around x once, and stays with it when x'
    has moved on. That a changed tangent resembles a changed network is experience, not proof; `explain`
    certifies the points under Δ as always. `Closest` and `RNCE` find proven points.

    Parameters
    ----------
    delta_max
        How far each coefficient may move. It is the method's own; the points are certified under Δ.
    cost_weight
        lambda, the weight of the weighted l1 distance in the model's variables. It is lowered for people who do not
        reach a worst margin of 0. A smaller lambda gives points further beyond the boundary.
    norm
        The norm of the change.
    raise_by
        The delta_max that a round of `Robust` adds; later rounds add more.

    Examples
    --------
    >>> import holdfast as hf
    >>> from holdfast.generators import explain
    >>> net = hf.Network([[[-1.0, 2.0]]], [[0.0]])
    >>> changes = hf.PlausibleChanges(0.1)
    >>> result = explain(net, [[0.8, 0.3]], target=1, changes=changes, generator=ROAR(delta_max=0.1, cost_weight=10.0))
    >>> print(result.verdict[0], result.points.round(3).tolist())
    ROBUST [[0.8, 0.516]]
    """

    name = "roar"
    good_for = "often robust by experience, expensive, in no time; without a proof of its own"
    paper = "Upadhyay, Joshi and Lakkaraju 2021, Towards robust and reliable algorithmic recourse"
    uses_changes = False
    raises = "delta_max"

    delta_max: float = 0.02
    cost_weight: float = 0.1
    norm: float = math.inf
    raise_by: float = 0.02

    def __post_init__(self) -> None:
        self.check_numbers(positive=["cost_weight", "raise_by"], non_negative=["delta_max"])
        PlausibleChanges(1.0, self.norm)

    def propose(self, task: Task) -> Proposals:
        """A point that the worst of the changed tangents accepts, for each row, all rows at once."""
        # Beyond the boundary the price is flat: where it is least is worth few moves.
        return answer_by_descent(
            task, self._aim, logistic_loss(), least=1.0 / self.cost_weight, rounds=8, moves_back=3
        )

    def _aim(self, task: Task) -> Aim:
        dual = PlausibleChanges(1.0, self.norm).dual_norm
        both = 2.0 ** (1.0 / dual) if task.network.n_outputs > 1 else 1.0
        return WorstTangent(
            task,
            task.space.weights,
            radius=self.delta_max * both,
            dual=dual,
            multiplier=1.0 / self.cost_weight,
        )


@dataclass(frozen=True)
class WorstTangent(Aim):
    """The margin that the worst change leaves of the tangent at each point; the loss itself is part of the price."""

    radius: float = 0.0
    dual: float = 1.0
    multiplier: float = 1.0

    def margins(self, points: Floats, rows: Ints) -> Floats:
        """m(x') - radius * ||(x', 1)||_q."""
        size = _sizes(points, self.dual)
        return super().margins(points, rows) - self.radius * size

    def slopes(self, points: Floats, rows: Ints) -> Pair:
        """These margins, and their gradients as far as the tangent's slope stays what it is."""
        values, gradients = super().slopes(points, rows)
        size = _sizes(points, self.dual)
        return values - self.radius * size, gradients - self.radius * _norm_slopes(
            points, size, self.dual
        )

    def price(self, points: Floats, rows: Ints) -> Floats:
        """The whole objective over lambda: also beyond a worst margin of 0 the loss counts."""
        return super().price(points, rows) + self.multiplier * np.logaddexp(
            0.0, -self.margins(points, rows)
        )


def _sizes(points: Floats, order: float) -> Floats:
    """||(x, 1)||: a bias is the weight of a variable that is always 1. Powers of a high order would overflow."""
    largest = np.maximum(np.abs(points).max(axis=1, keepdims=True, initial=0.0), 1.0)
    scaled = np.column_stack([points, np.ones(len(points))]) / largest
    return np.asarray(largest[:, 0] * np.linalg.norm(scaled, order, axis=1))


def _norm_slopes(points: Floats, size: Floats, order: float) -> Floats:
    """The gradient of ||(x, 1)|| with respect to x; `size` is the norm."""
    if order == math.inf:
        return np.asarray(np.sign(points) * (np.abs(points) == size[:, None]))
    return np.sign(points) * (np.abs(points) / size[:, None]) ** (order - 1.0)
