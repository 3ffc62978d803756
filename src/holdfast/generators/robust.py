"""`Robust`: ask a generator for more, round by round, until Δ-robust; the paper's Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidInputError
from holdfast.generators.base import Generator, Proposals, Task
from holdfast.generators.explain import finish
from holdfast.generators.recourse import Recourse

# Where a whole step is more than the base can do, smaller ones are tried, down to this.
_FINEST = 1.0 / 16.0


@dataclass(frozen=True)
class Robust(Generator):
    """The base's own answer if it is Δ-robust, else its answers to ever harder demands.

    Round 1 tests the base's own, cheapest answer; each further round asks ``base.harder(round - 1)``, for the rows that
    are not robust yet, and where that is more than can be had, something in between. When no round passes, the last
    counterfactual found comes back, as in the paper, with its honest verdict and a reason.

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
        self.check_numbers(counts=["max_rounds"])
        self.base.harder(1)

    def propose(self, task: Task) -> Proposals:
        """For each row the first of the base's answers that is Δ-robust, or its last answer and a reason."""
        if task.changes is None:
            raise InvalidInputError("changes: expected PlausibleChanges(delta) for Robust to test against, got None")
        rounds = _Rounds(task)
        for n_rounds in range(1, self.max_rounds + 1):
            for step, rows in rounds.due():
                part = replace(task.take(rows), advance=None)
                proposals = (self.base.harder(step) if step else self.base).propose(part)
                rounds.take(rows, finish(part, proposals), n_rounds)
            if not rounds.open.any():
                break
        task.report(int(rounds.open.sum()))
        return rounds.kept

    def harder(self, step: float) -> Robust:
        """So many rounds more."""
        return replace(self, max_rounds=self.max_rounds + int(step))

    def example_table(self) -> object:
        """The base's."""
        return self.base.example_table()


class _Rounds:
    """Where each row stands: its last answer, the demand it met, the least that nothing met, and the next to try."""

    def __init__(self, task: Task) -> None:
        n = len(task)
        self.task = task
        self.kept = Proposals.of(np.full(task.factuals.shape, np.nan), [""] * n)
        self.open = np.ones(n, dtype=np.bool_)
        self.step, self.met, self.unmet = np.zeros(n), np.full(n, -1.0), np.full(n, np.inf)

    def due(self) -> list[tuple[float, NDArray[np.intp]]]:
        """What to ask in this round, and of which rows."""
        steps = np.unique(self.step[self.open]).tolist()
        return [(step, np.flatnonzero(self.open & (self.step == step))) for step in steps]

    def take(self, rows: NDArray[np.intp], judged: Recourse, n_rounds: int) -> None:
        """Keep a round's answers to these rows; close those that are robust, or of which no more can be asked."""
        found, robust = judged.found, judged.robust
        self.kept.points[rows[found]] = judged.points[found]
        after = "1 round" if n_rounds == 1 else f"{n_rounds} rounds"
        for i, row in enumerate(rows.tolist()):
            if found[i]:
                self.met[row] = self.step[row]
                self.kept.reason[row] = "" if robust[i] else f"not robust after {after}"
            elif self.met[row] >= 0.0:
                self.unmet[row] = self.step[row]
                self.kept.reason[row] = f"not robust after {after}"
            else:
                self.kept.reason[row] = judged.reason[i]
            impossible = self.met[row] < 0.0 and judged.reason[i].kind.proven
            if robust[i] or impossible or self.unmet[row] - self.met[row] <= _FINEST:
                self.open[row] = False
                if not robust[i] and not impossible:
                    self.kept.reason[row] += ", and the method can be asked for no more"
        between = (self.met[rows] + self.unmet[rows]) / 2.0
        self.step[rows] = np.where(np.isinf(between), self.step[rows] + 1.0, between)
        self.task.report(int((~self.open[rows]).sum()))
