"""`Robust`: ask a generator for more, round by round, until Δ-robust; the paper's Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidInputError
from holdfast.generators.base import Generator, Proposals, Task
from holdfast.generators.finish import Finished, finish

_PROVEN = "proven: "


@dataclass(frozen=True)
class Robust(Generator):
    """The base's own answer if it is Δ-robust, else its answers to ever harder demands.

    Round 1 tests the base's own, cheapest answer; each further round asks ``base.harder(round - 1)``, for the rows that
    are not robust yet. When no round passes, the last counterfactual found comes back, as in the paper, with its honest
    verdict and a reason.

    Parameters
    ----------
    base
        A generator with a parameter that trades cost for validity, such as `MCE` (the paper's MCE-R) or `NNCE`.
    max_rounds
        The paper's t.

    Examples
    --------
    >>> import holdfast as hf
    >>> from holdfast.generators import NNCE, explain
    >>> net = hf.Network([[[-1.0, 1.0]]], [[0.0]])
    >>> changes = hf.PlausibleChanges(0.1, biases=False)
    >>> base = NNCE([[0.7, 0.7], [0.7, 0.75], [0.6, 0.9]])
    >>> for rounds in (2, 3):
    ...     result = explain(net, [[0.7, 0.5]], target=1, changes=changes, generator=Robust(base, rounds))
    ...     print(result.verdict[0], result.reason)
    NOT_ROBUST ['not robust after 2 rounds']
    ROBUST ['']
    """

    name: ClassVar[str] = "robust"
    good_for: ClassVar[str] = "making another generator's answers robust, at its own pace and price"
    paper: ClassVar[str] = "Jiang, Leofante, Rago and Toni, Algorithm 1"

    base: Generator
    max_rounds: int = 50

    def __post_init__(self) -> None:
        if not isinstance(self.base, Generator):
            raise InvalidInputError(f"base: expected a generator such as MCE(), got {self.base!r}")
        if self.max_rounds < 1:
            raise InvalidInputError(f"max_rounds: expected at least 1, got {self.max_rounds}")
        self.base.harder(1)

    def propose(self, task: Task) -> Proposals:
        """For each row the first of the base's answers that is Δ-robust, or its last answer and a reason."""
        if task.changes is None:
            raise InvalidInputError("changes: expected PlausibleChanges(delta) for Robust to test against, got None")
        kept = Proposals.of(np.full(task.factuals.shape, np.nan), [""] * len(task))
        rows: NDArray[np.intp] = np.arange(len(task))
        n_rounds = 0
        while rows.size and n_rounds < self.max_rounds:
            part = replace(task.take(rows), advance=None)
            proposals = (self.base.harder(n_rounds) if n_rounds else self.base).propose(part)
            n_rounds += 1
            closed = _keep(kept, rows, finish(part, proposals), n_rounds)
            task.report(int(closed.sum()))
            rows = rows[~closed]
        task.report(rows.size)
        return kept

    def harder(self, step: int) -> Robust:
        """So many rounds more."""
        return replace(self, max_rounds=self.max_rounds + step)

    def example_table(self) -> object:
        """The base's."""
        return self.base.example_table()


def _keep(kept: Proposals, rows: NDArray[np.intp], finished: Finished, n_rounds: int) -> NDArray[np.bool_]:
    """Keep this round's answers, and say which rows need no further round."""
    closed = np.zeros(rows.size, dtype=np.bool_)
    rounds = "1 round" if n_rounds == 1 else f"{n_rounds} rounds"
    for i, row in enumerate(rows.tolist()):
        known = not np.isnan(kept.points[row]).any()
        kept.reason[row] = f"not robust after {rounds}" if known else finished.reason[i]
        closed[i] = finished.reason[i].startswith(_PROVEN)
    if finished.certificates is not None:
        kept.points[rows[finished.rows]] = finished.points
        closed[finished.rows] = finished.certificates.robust
        for row, robust in zip(rows[finished.rows].tolist(), finished.certificates.robust, strict=True):
            kept.reason[row] = "" if robust else f"not robust after {rounds}"
    return closed
