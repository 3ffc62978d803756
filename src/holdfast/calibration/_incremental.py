"""`delta_incremental`: the distance by which fine-tuning on new data moves the parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from holdfast._network import Floats
from holdfast._shown import draw
from holdfast.calibration._result import SINGLE_STEP, ChosenDelta, outward
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.retraining import Retrain, RetrainedModels, retrain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Statistic = str | float


@dataclass(frozen=True, eq=False, repr=False)
class IncrementalDelta(ChosenDelta):
    """The result of `delta_incremental`: a delta from fine-tuned models.

    Attributes
    ----------
    evidence
        One row for each retrained model: share, rows, seed, distance and the distance of each layer (layer_1, ...).
    share
        The share of the new data to which `delta` belongs.
    statistic
        "mean", "max" or a quantile.
    retrained
        The models retrained on that share.
    """

    share: float
    statistic: Statistic
    retrained: RetrainedModels

    @property
    def name(self) -> str:
        """The label in plots."""
        return f"{in_words(self.statistic)} of the fine-tuned models"

    @property
    def inside(self) -> int:
        """The number of models, retrained on that share, that lie within delta."""
        return sum(
            self.changes.contains(self.retrained.today, network)
            for network in self.retrained.networks
        )

    def curve(self) -> pd.Series:
        """The statistic at each share, over all layers together."""
        groups = self.evidence.groupby("share")["distance"]
        return groups.apply(
            lambda distances: _summary(distances.to_numpy(), self.statistic)
        ).rename("delta")

    def plot(self, ax: Axes | None = None, *, also: Iterable[ChosenDelta] = ()) -> Axes:
        """Plot delta against the share of new data, and the chosen value (the paper's Figure 4).

        Each retrained model is a dot. `also` draws deltas from other methods as lines.
        """
        picture: Axes = draw(self, ax, also)
        return picture

    def __str__(self) -> str:
        n = len(self.retrained)
        models = f"{n} model" + "s" * (n != 1)
        where = f"{models} fine-tuned on {self.share:.0%} of the new data ({self.retrained.n_rows} rows)"
        held = (
            f"; {self.inside} of them lie{'s' * (self.inside == 1)} within it"
            if float(self) > 0.0
            else ""
        )
        held += f"; {SINGLE_STEP}" if self.retrained.steps == 1 else ""
        return f"delta = {self.shown}: the {in_words(self.statistic)} distance from today's of {where}{held}"


def delta_incremental(
    model: Any,
    X_new: Any,
    y_new: Any,
    *,
    share: float | Iterable[float] = 0.1,
    at: float | None = None,
    n: int = 5,
    statistic: Statistic = "mean",
    norm: float = math.inf,
    space: FeatureSpace | None = None,
    seed: int = 0,
    epochs: int | None = None,
    retrain: Retrain | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> IncrementalDelta:
    """Find the distance by which fine-tuning on new data moves the model: the paper's delta_inc.

    Use it for a model that is updated by a few gradient steps. The result describes the tried retrainings, not the
    next one: about half of the retrainings lie beyond their mean. Use ``statistic="max"`` to cover all tried
    retrainings, or `delta_calibrated` for a stated probability.

    Parameters
    ----------
    model, X_new, y_new
        Today's model and the new data, as for `retrain`.
    share
        The share of the new data that a retraining uses. Several shares show how delta grows.
    at
        The share to which delta belongs, one of `share`; by default the largest.
    n
        The number of models for each share.
    statistic
        "mean" (as in the paper), "max", or a number between 0 and 1: at least this share of the observed
        retrainings lies within delta.
    norm
        The p of the norm, at least 1.
    space, seed, epochs, retrain, n_jobs, progress
        As for `holdfast.retraining._retrain`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((600, 2))
    >>> y = (X.sum(axis=1) + rng.normal(0.0, 0.2, 600) > 1.0).astype(int)
    >>> classifier = LogisticRegression().fit(X[:300], y[:300])
    >>> chosen = delta_incremental(classifier, X[300:], y[300:], share=[0.1, 1.0], at=0.1, statistic="max")
    >>> print(chosen)
    delta = 0.01: the largest distance from today's of 5 models fine-tuned on 10% of the new data (30 rows); 5 of them \
lie within it; each was a single step of the optimiser, so the distance says more about its learning rate than about \
the data
    >>> all(chosen.changes.contains(chosen.retrained.today, network) for network in chosen.retrained.networks)
    True
    >>> chosen.curve().round(3).to_dict()
    {0.1: 0.01, 1.0: 0.02}
    """
    known = (
        statistic in ("mean", "max") if isinstance(statistic, str) else 0.0 < float(statistic) < 1.0
    )
    if not known:
        raise InvalidInputError(
            f"statistic: expected 'mean', 'max' or a number between 0 and 1, got {statistic!r}"
        )
    shares = sorted({float(s) for s in (share if isinstance(share, Iterable) else [share])})
    chosen = max(shares, default=math.nan) if at is None else float(at)
    if chosen not in shares:
        raise InvalidInputError(f"at: expected one of the shares {shares}, got {at}")
    runs = {
        one: _retrain(
            model, X_new, y_new, how="incremental", share=one, n=n, seed=seed, epochs=epochs, space=space,
            retrain=retrain, n_jobs=n_jobs, progress=progress,
        )
        for one in shares
    }  # fmt: skip
    retrained = runs[chosen]
    delta = _radius(retrained.distances(norm), statistic, norm)
    frames = {(one, models.n_rows): models.to_frame(norm) for one, models in runs.items()}
    evidence = pd.concat(frames, names=["share", "rows"]).reset_index().drop(columns="model")
    return IncrementalDelta(delta, float(norm), evidence, chosen, statistic, retrained)


# The verb; inside `delta_incremental` its name is the caller's function.
_retrain = retrain


def _summary(distances: Floats, statistic: Statistic) -> float:
    if isinstance(statistic, str):
        return float(distances.mean() if statistic == "mean" else distances.max())
    return float(np.quantile(distances, statistic, method="higher"))


def _radius(distances: Floats, statistic: Statistic, norm: float) -> float:
    """The mean unchanged, to compare with the paper; an observed distance rounded so that its model is inside."""
    value = _summary(distances, statistic)
    return value if statistic == "mean" else float(outward(value, norm))


def in_words(statistic: Statistic) -> str:
    """The name of the statistic."""
    if isinstance(statistic, str):
        return {"mean": "mean", "max": "largest"}[statistic]
    return f"{statistic:g}-quantile"
