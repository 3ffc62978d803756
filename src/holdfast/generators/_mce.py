"""`MCE`: the nearest point that today's model accepts, by mixed-integer programming."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from holdfast.generators._acceptance import today
from holdfast.generators._base import ByMargin, Proposals, Task
from holdfast.generators._exact import search_rows
from holdfast.milp._people import PointLimits


@dataclass(frozen=True)
class MCE(ByMargin):
    """The cheapest change that today's model accepts, proven so.

    The proof is about today's model only. `Robust(MCE())` is the paper's MCE-R; `Closest` finds robust points.

    Parameters
    ----------
    margin
        The least difference, in logits, between the target class and every other.
    raise_by
        The margin that a round of `Robust` adds; later rounds add more.

    Examples
    --------
    >>> import holdfast as hf
    >>> from holdfast.generators import explain
    >>> net = hf.Network([[[-1.0, 1.0]]], [[0.0]])
    >>> result = explain(net, [[0.7, 0.5]], target=1, changes=None, generator=MCE(margin=0.1))
    >>> round(float(result.cost_l1[0]), 4), bool(result.optimality_gap[0] < 1e-6)
    (0.15, True)
    """

    name = "mce"
    good_for = "the cheapest change that today's model accepts, as a yardstick; not robust"
    paper = (
        "Mohammadi, Karimi, Barthe and Valera 2021, Scaling guarantees for nearest counterfactuals"
    )
    row_by_row = True

    def propose(self, task: Task) -> Proposals:
        """The nearest accepted point of each row, with its gap."""
        judge_of = partial(today, task.classifier, demand=self.margin)
        return search_rows(task, judge_of, PointLimits())
