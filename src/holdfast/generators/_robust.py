"""`Robust`: ask a generator for more, round by round, until Δ-robust; the paper's Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from holdfast._progress import no_bar
from holdfast.errors import InvalidInputError
from holdfast.generators._base import Generator, Proposals, Task
from holdfast.generators._explain import finish
from holdfast.verify import Verdict

# Where a whole step is more than the base can do, smaller ones are tried, down to this.
_FINEST = 1.0 / 16.0


@dataclass(frozen=True)
class Robust(Generator):
    """The base's own point if it is Δ-robust, else its points for ever harder demands.

    Round 1 tests the base's own, cheapest point; each further round asks ``base.harder(round - 1)`` for the rows that
    are not robust yet, or a smaller step if that finds no point. If no round passes, the last counterfactual is
    returned, as in the paper, with its verdict and a reason.

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

    name = "robust"
    good_for = "making another generator's answers robust, at its own pace and price"
    paper = "Jiang, Leofante, Rago and Toni, Algorithm 1"

    base: Generator
    max_rounds: int = 50

    def __post_init__(self) -> None:
        if not isinstance(self.base, Generator):
            raise InvalidInputError(f"base: expected a generator such as MCE(), got {self.base!r}")
        self.check_numbers(counts=["max_rounds"])
        self.base.harder(1)

    def propose(self, task: Task) -> Proposals:
        """For each row the first of the base's points that is Δ-robust, or its last point and a reason."""
        if task.changes is None:
            raise InvalidInputError(
                "changes: expected PlausibleChanges(delta) for Robust to test against, got None"
            )
        kept, n = task.nothing(), len(task)
        open_ = np.ones(n, dtype=bool)
        step = np.zeros(n)
        # The demand that the last answer met, and the least that none met.
        met = np.full(n, -1.0)
        unmet = np.full(n, np.inf)
        for n_rounds in range(1, self.max_rounds + 1):
            for demand in np.unique(step[open_]).tolist():
                rows = np.flatnonzero(open_ & (step == demand))
                part = replace(task.take(rows), advance=no_bar, last=kept.points[rows])
                deadline = part.deadline(rows.size)
                proposals = (self.base.harder(demand) if demand else self.base).propose(part)
                late = deadline.over
                judged = finish(part, proposals)
                kept.points[rows[judged.found]] = judged.points[judged.found]
                met[rows[judged.found]] = demand
                unmet[rows[~judged.found & (met[rows] >= 0.0)]] = demand
                proven = (met[rows] < 0.0) & [reason.kind.proven for reason in judged.reason]
                ended = unmet[rows] - met[rows] <= _FINEST
                for i, row in enumerate(rows.tolist()):
                    kept.reason[row] = judged.reason[i]
                    if met[row] >= 0.0:
                        kept.reason[row] = (
                            ""
                            if judged.robust[i]
                            else f"not {'proven ' * (judged.verdict[i] is Verdict.UNKNOWN)}"
                            f"robust after {n_rounds} round{'s' * (n_rounds > 1)}{' in time' * late}"
                        )
                    if not late and ended[i] and not judged.robust[i] and not proven[i]:
                        kept.reason[row] += ", and the method can be asked for no more"
                open_[rows] = ~(judged.robust | proven | ended)
                between = (met[rows] + unmet[rows]) / 2.0
                step[rows] = np.where(np.isinf(between), demand + 1.0, between)
                task.advance(int((~open_[rows]).sum()))
            if not open_.any():
                break
        task.advance(int(open_.sum()))
        return kept

    def harder(self, step: float) -> Robust:
        """The same with `step` more rounds."""
        return replace(self, max_rounds=self.max_rounds + int(step))

    def example_table(self) -> object:
        """The base's table."""
        return self.base.example_table()
