"""The share of promises kept through k retrainings, counted over a history of models of any kind.

At each start the promises are those that its model would make: they are robust under their changes there. Each window
of k retrainings gives one number, the share of promises that all its k models keep; windows do not overlap. If the
windows and the next k retrainings are independent and alike, the expected share q has a lower bound with probability p:
the least q with

    n KL(m, q) <= log(1 / (1 - p)),     KL(m, q) = m log(m / q) + (1 - m) log((1 - m) / (1 - q)),

where m is the mean of the n shares (Hoeffding 1963, theorem 1). Promises of one model are not independent, so windows
are counted instead of promises. Without broken promises the bound is Clopper's and Pearson's. It is measured, and
proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from holdfast._network import Bools, Floats, Ints, Values
from holdfast._scored import Scored
from holdfast.changes import Changes, EnsembleShift, PlausibleShift
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators import Recourse
from holdfast.generators._reading import own_columns
from holdfast.importers import Model, load_model
from holdfast.importers._thresholds import HALF
from holdfast.promises._ledger import Ledger
from holdfast.verify import certify


@dataclass(frozen=True, eq=False)
class KeptShare:
    """The chance that a promise is still kept after k = 1, 2, ... retrainings, from a history of models: not a proof.

    Attributes
    ----------
    share
        The mean share of promises kept through k retrainings; nan if the history has no such window.
    at_least
        The lower bound of the expected share, with the confidence.
    windows
        Number of windows of k retrainings in the history with a robust promise at their start.
    promises, confidence
        Number of promises counted, and the given confidence.
    """

    share: Floats
    at_least: Floats
    windows: Ints
    promises: int
    confidence: float

    def describe(self, k: int = 1) -> str:
        """Describe the chance of being kept through k retrainings."""
        if not 1 <= k <= len(self.share):
            raise InvalidInputError(
                f"k: expected a number of retrainings from 1 to {len(self.share)}, got {k!r}"
            )
        n = int(self.windows[k - 1])
        many = f"{k} retrainings" if k > 1 else "retraining"
        if n == 0:
            return f"the history has no {many} after a model with a robust promise"
        return (
            f"{100 * self.share[k - 1]:.3g}% of such promises were kept through the next {many}, on average over {n} "
            f"in the history; at least {100 * self.at_least[k - 1]:.3g}% are expected to be kept, with confidence "
            f"{100 * self.confidence:.4g}% (measured, not proven)"
        )

    def to_frame(self) -> pd.DataFrame:
        """A table with one row for each number of retrainings."""
        index = pd.RangeIndex(1, len(self.share) + 1, name="retrainings")
        columns = {"share": self.share, "at_least": self.at_least, "windows": self.windows}
        return pd.DataFrame(columns, index=index)

    def __str__(self) -> str:
        return self.describe()


class _UnderTerms(NamedTuple):
    """Promises made under the same terms, in raw units."""

    rows: pd.DataFrame
    labels: Values
    changes: Changes | None
    space: FeatureSpace
    threshold: Any


def kept_share(
    promises: Recourse | Ledger, history: Iterable[Any], horizon: int, confidence: float
) -> KeptShare:
    """Count promises; see `promise_expiry`. Only one model of the history is in memory at a time."""
    parts = list(_parts(promises))
    count = sum(len(part.rows) for part in parts)
    if not count:
        raise InvalidInputError("promises: expected at least one, got none")
    made, kept = [], []
    for model in history:
        if isinstance(promises, Ledger) and load_model(model).calibration is not None:
            raise InvalidInputError(
                "history: expected models without calibration, because a ledger does not store a threshold on "
                "calibrated probabilities; pass the result of explain instead of the ledger"
            )
        made.append(np.concatenate([_holding(model, part, part.changes) for part in parts]))
        kept.append(np.concatenate([_holding(model, part, None) for part in parts]))
    if len(kept) < 2:
        raise InvalidInputError(
            "history: expected at least two models, each the retraining of the one before"
        )
    share = np.full(horizon, np.nan)
    at_least = np.full(horizon, np.nan)
    windows = np.zeros(horizon, dtype=np.intp)
    for k in range(1, min(horizon, len(kept) - 1) + 1):
        starts = [i for i in range((len(kept) - 1) % k, len(kept) - k, k) if made[i].any()]
        shares = [float(np.all(kept[i + 1 : i + k + 1], axis=0)[made[i]].mean()) for i in starts]
        windows[k - 1] = len(shares)
        if shares:
            share[k - 1] = float(np.mean(shares))
            at_least[k - 1] = least_mean(share[k - 1], len(shares), confidence)
    return KeptShare(share, at_least, windows, count, confidence)


def least_mean(mean: float, n: int, confidence: float) -> float:
    """The lower bound, with the confidence, of the expectation of n independent numbers in [0, 1] with this mean.

    Examples
    --------
    >>> round(least_mean(1.0, 19, 0.95), 4), round(0.05 ** (1 / 19), 4)
    (0.8541, 0.8541)
    """

    def far(q: float) -> bool:
        parts = ((mean, q), (1.0 - mean, 1.0 - q))
        return n * sum(a * math.log(a / b) for a, b in parts if a > 0.0) > -math.log1p(-confidence)

    low, high = 0.0, mean
    while high - low > 1e-12:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if far(middle) else (low, middle)
    return low


def _parts(promises: Recourse | Ledger) -> Iterator[_UnderTerms]:
    if isinstance(promises, Recourse):
        labels = promises.classifier.classes[promises.targets]
        found = promises.found
        yield _UnderTerms(
            promises.counterfactuals[found],
            labels[found],
            promises.changes,
            promises.space,
            promises.model.by_label,
        )
        return
    for batch in promises.promises():
        changes = batch.terms.changes
        # Without its models an ensemble asks what the row was recorded for already, and that the model accepts.
        known = None if isinstance(changes, EnsembleShift) else changes
        # A ledger knows no other half than where logits are equal.
        own = Model(batch.terms.classifier, threshold=batch.terms.threshold)
        threshold = None if batch.terms.threshold == HALF else own.by_label
        yield _UnderTerms(batch.counterfactuals, batch.targets, known, batch.terms.space, threshold)


def _holding(model: Any, part: _UnderTerms, changes: Changes | None) -> Bools:
    """Mask of the promises that are robust around a model; without changes, of those that the model accepts."""
    loaded = load_model(model, part.threshold)
    rows = part.rows
    space = None if loaded.preprocess is not None else part.space
    kind = PlausibleShift(0.0) if changes is None else changes.bare
    if isinstance(loaded.classifier, Scored):
        asked, points = loaded.classifier.about(rows)
        return certify(asked, points, part.labels, kind).robust
    return certify(loaded, own_columns(loaded, rows), part.labels, kind, space=space).robust
