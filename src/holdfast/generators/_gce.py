"""`GCE`: gradient descent to just across the boundary."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.generators._base import ByMargin, Proposals, Task
from holdfast.generators._gradient import Aim, logistic_loss
from holdfast.generators._polish import answer_by_descent


@dataclass(frozen=True)
class GCE(ByMargin):
    """Gradient descent on the target's log-loss and the distance: cheap, quick, and just across the boundary.

        minimise over x'    log(1 + exp(margin - m(x'))) + lambda * sum_v weight_v |x'_v - x_v|

    with m(x') the target's logit minus its strongest rival's (`Wachter, Mittelstadt and Russell 2017
    <https://arxiv.org/abs/1711.00399>`_, with the scaled l1 distance of `cost_l1` for their median absolute deviation).
    lambda is adapted for each person: the largest with which m(x') still reaches the margin. `Robust(GCE())` is the
    paper's GCE-R.

    Parameters
    ----------
    margin
        The least difference, in logits, between the target class and every other; for a binary model log(p / (1 - p))
        demands the probability p.
    raise_by
        The margin that a round of `Robust` adds; later rounds add more.

    Examples
    --------
    >>> import holdfast as hf
    >>> from holdfast.generators import explain
    >>> net = hf.Network([[[-1.0, 2.0]]], [[0.0]])
    >>> result = explain(net, [[0.8, 0.3]], target=1, generator=GCE())
    >>> result.points.round(6).tolist(), bool(net.logits(result.points)[0, 0] >= 0.0)
    ([[0.8, 0.4]], True)
    """

    name = "gce"
    good_for = "cheap advice by gradient descent, in no time and on large networks; rarely robust"
    paper = (
        "Wachter, Mittelstadt and Russell 2017, Counterfactual explanations without opening the box"
    )

    def propose(self, task: Task) -> Proposals:
        """A cheap point with the margin for each row, all rows at once."""
        return answer_by_descent(task, self._aim, logistic_loss())

    def _aim(self, task: Task) -> Aim:
        return Aim(task, task.space.weights, self.margin)
