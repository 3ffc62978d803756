"""`NNCE`: become like the nearest person whom the model accepts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from holdfast._given import whole_number
from holdfast.features import Direction
from holdfast.generators._base import Generator, Proposals, Task
from holdfast.generators._candidates import accepted_candidates, check_candidates, read_candidates
from holdfast.generators._walk import walk


@dataclass(frozen=True, eq=False)
class NNCE(Generator):
    """The nearest accepted neighbour.

    Of the candidates that today's model gives the target class, the nearest by `cost_l1` that keeps it once the
    person's own immutable columns, directions, steps and rules are put in (`FeatureSpace.project`). A candidate that
    obeys them already comes back as it is. It says nothing about other models: `RNCE` does.

    Parameters
    ----------
    candidates
        A table in raw units, such as the training table; columns that the space does not have are ignored. Without a
        space: an array in the model's variables.
    skip
        How many accepted neighbours to pass over.

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

    name: ClassVar[str] = "nnce"
    good_for: ClassVar[str] = (
        "plausible advice in no time: a real person's row; often broken by retraining"
    )
    paper: ClassVar[str] = "Nearest neighbour, as in Brughmans, Leyman and Martens 2023 (NICE)"
    uses_changes: ClassVar[bool] = False
    keeps_to_rows: ClassVar[bool] = True

    candidates: Any
    skip: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", check_candidates(self.candidates))
        whole_number(self.skip, "skip", least=0)

    def propose(self, task: Task) -> Proposals:
        """The nearest accepted neighbour of each row."""
        points = read_candidates(self.candidates, task.space, task.classifier)
        proposals = task.nothing()
        for target in np.unique(task.targets).tolist():
            rows = np.flatnonzero(task.targets == target)
            candidates = accepted_candidates(points, task.space, task.classifier, target)
            nearest = walk(task, rows, candidates, task.deadline(rows.size), skip=self.skip)
            proposals.fill(rows, nearest, why_none(task, len(points), len(candidates), target))
        return proposals

    def harder(self, step: float) -> NNCE:
        """The next accepted neighbour but `step`."""
        return replace(self, skip=self.skip + int(step))


def why_none(
    task: Task, n_candidates: int, n_accepted: int, target: int, *, holds: str = "accepted"
) -> str:
    """Why no candidate would do."""
    label = task.classifier.classes[target]
    if n_accepted == 0:
        return f"none of the {n_candidates:,} candidates is classified as {label}"
    kept = [str(f.name) for f in task.space.features if f.direction is not Direction.FREE]
    once = f" with {', '.join(kept)} as they may be" if kept else ""
    return f"none of the {n_accepted:,} candidates classified as {label} is {holds}{once}"
