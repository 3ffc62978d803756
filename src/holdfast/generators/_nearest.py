"""`NNCE`: become like the nearest person whom the model accepts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from holdfast._deadline import Deadline
from holdfast._given import whole_number
from holdfast.features import Direction
from holdfast.generators._base import Proposals, Task
from holdfast.generators._candidates import Candidates, FromTable
from holdfast.generators._walk import walk


@dataclass(frozen=True, eq=False)
class NNCE(FromTable):
    """The nearest accepted neighbour.

    The nearest by `cost_l1` of the candidates with the target class that keep it under the person's immutable columns,
    directions, steps and rules (`FeatureSpace.project`). A candidate that obeys them stays as it is. The method is
    about today's model only; `RNCE` is about every model in Δ.

    Parameters
    ----------
    candidates
        A table in raw units, such as the training table; columns that the space does not have are ignored. Without a
        space: an array in the model's variables.
    skip
        The number of accepted neighbours to skip.

    Examples
    --------
    >>> import holdfast as hf
    >>> from holdfast.generators import explain
    >>> net = hf.Network([[[-1.0, 1.0]]], [[0.0]])
    >>> result = explain(net, [[0.7, 0.5]], target=1, generator=NNCE([[0.7, 0.75], [0.6, 0.9], [0.7, 0.6]]))
    >>> result.counterfactuals
        x0    x1
    0  0.7  0.75
    """

    name = "nnce"
    good_for = "plausible advice in no time: a real person's row; often broken by retraining"
    paper = "Nearest neighbour, as in Brughmans, Leyman and Martens 2023 (NICE)"
    uses_changes = False
    keeps_to_rows = True

    skip: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number(self.skip, "skip", least=0)

    def propose(self, task: Task) -> Proposals:
        """The nearest accepted neighbour of each row."""
        proposals = task.nothing()
        for target, candidates in self.accepted(task).items():
            rows = np.flatnonzero(task.targets == target)
            deadline = task.deadline(rows.size)
            nearest = walk(task, rows, candidates, deadline, skip=self.skip)
            task.advance(rows.size - len(nearest))
            proposals.fill(rows, nearest, why_none(task, target, deadline, counts(candidates)))
        return proposals

    def harder(self, step: float) -> NNCE:
        """The next accepted neighbour but `step`."""
        return replace(self, skip=self.skip + int(step))


def counts(*turns: Candidates) -> tuple[int, int]:
    """How many candidates have the class, and how many there are."""
    return sum(map(len, turns)), len(turns[0].table)


def why_none(
    task: Task, target: int, deadline: Deadline, known: tuple[int, int], *, holds: str = "accepted"
) -> str:
    """Why no candidate would do, of those that have the class; said once the search is over."""
    label = task.classifier.classes[target]
    accepted, every = known
    if accepted == 0:
        return f"none of the {every:,} candidates is classified as {label}"
    kept = [str(f.name) for f in task.space.features if f.direction is not Direction.FREE]
    once = f" with {', '.join(kept)} as they may be" if kept else ""
    these = f"of the {accepted:,} candidates classified as {label}"
    if deadline.over:
        return f"the time ran out before one {these} was {holds}{once}"
    return f"none {these} is {holds}{once}"
