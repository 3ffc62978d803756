"""A promise's radius as a time: the number of retrainings that it is kept through, with a stated probability.

A promise is kept through the next k retrainings if all k models are closer to today's than its radius. The history is
cut into windows of k retrainings that do not overlap; each window gives one number,

    s = max over j <= k of  distance(model at the start, model after j retrainings).

If the windows and the next k retrainings are exchangeable, the next s is at most the ceil((n + 1) p)-th smallest of the
n numbers with probability at least p (`delta_calibrated`). Every promise with a larger radius is then kept.

Models other than networks have no such distance. For these, and for every kind of change, the kept promises can be
counted: `kept_share`.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from holdfast._dates import read_day
from holdfast._given import given_share, whole_number
from holdfast._network import Bools, Floats, Ints, Network
from holdfast._shown import HEAD, Shown, Summary
from holdfast.calibration import delta_calibrated, least_history
from holdfast.changes import parameter_distance
from holdfast.errors import InvalidInputError
from holdfast.generators import Recourse
from holdfast.importers import Model, load_model
from holdfast.importers._model import same_preprocessing
from holdfast.promises._kept_share import KeptShare, kept_share
from holdfast.promises._ledger import Ledger

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# How often a model is retrained: as an adjective, and from one date to the next.
_PERIODS = {
    "day": ("daily", pd.DateOffset(days=1)),
    "week": ("weekly", pd.DateOffset(weeks=1)),
    "month": ("monthly", pd.DateOffset(months=1)),
    "quarter": ("quarterly", pd.DateOffset(months=3)),
    "year": ("yearly", pd.DateOffset(years=1)),
}


@dataclass(frozen=True, eq=False, repr=False)
class Expiry(Shown):
    """The number of retrainings that promises last.

    Attributes
    ----------
    radius
        The given radii.
    drift
        For k = 1, 2, ..., horizon: an upper bound of the model's drift over the next k retrainings, with the
        confidence; nan if the history is too short.
    windows
        Number of windows of k retrainings in the history.
    needed
        Number of retrainings that the history needs for each k.
    confidence, period
        The given confidence and period.
    start
        The day from which the last model of the history is in use; None if not given.
    """

    radius: Floats
    drift: Floats
    windows: Ints
    needed: Ints
    confidence: float
    period: str
    start: datetime.date | None

    @property
    def known(self) -> int:
        """Number of retrainings ahead that the history covers."""
        return int(np.isfinite(self.drift).sum())

    @property
    def retrainings(self) -> Ints:
        """Number of the next retrainings that each promise is kept through, as far as the history covers them."""
        kept = self.radius[:, None] > self.drift[None, : self.known]
        return np.asarray(np.cumprod(kept, axis=1).sum(axis=1), dtype=np.intp)

    @property
    def limited(self) -> Bools:
        """Mask of the promises that may last longer than the history can show."""
        return np.asarray((self.retrainings == self.known) & (self.known < len(self.drift)))

    @property
    def through(self) -> list[datetime.date | None]:
        """The date of the last retraining that each promise is kept through, with the confidence."""
        if self.start is None:
            return [None] * len(self.radius)
        _, step = _PERIODS[self.period]
        dates = [(pd.Timestamp(self.start) + k * step).date() for k in range(self.known + 1)]
        return [dates[k] for k in self.retrainings]

    def describe(self, row: int) -> str:
        """Describe one promise: the retrainings that it is kept through, and the model's drift over these."""
        row = int(np.arange(len(self.radius))[row])
        count = int(self.retrainings[row])
        how_often = _PERIODS[self.period][0]
        sure = f"probability {100 * self.confidence:.4g}%"
        if self.known == 0:
            return (
                f"{self.needed[0]} retrainings are needed for a statement with {sure}, "
                f"the history has {self.windows[0]}"
            )
        if count == 0:
            return (
                f"may break at the next {how_often} retraining: with {sure} the model moves by up to "
                f"{self.drift[0]:.3g}, and the radius is {self.radius[row]:.3g}"
            )
        many = f"{count} {how_often} retrainings" if count > 1 else f"{how_often} retraining"
        until = "" if self.start is None else f", to {self.through[row]}"
        more = ""
        if self.limited[row]:
            more = f"; {self.needed[self.known]} retrainings are needed to look further ahead"
        # True of the drift over so many retrainings, whether or not it is less than the radius.
        return (
            f"kept through the next {many}{until}, if the model moves by less than {self.radius[row]:.3g}: with {sure} "
            f"it moves by up to {self.drift[count - 1]:.3g} in a number of retrainings fixed beforehand{more}"
        )

    def to_frame(self) -> pd.DataFrame:
        """A table with one row for each promise."""
        columns = {
            "radius": self.radius,
            "retrainings": self.retrainings,
            "limited_by_history": self.limited,
        }
        frame = pd.DataFrame(columns)
        return (
            frame
            if self.start is None
            else frame.assign(through=np.array(self.through, dtype=object))
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of promises kept through the next 1, 2, ... retrainings, as far as the history covers them."""
        from holdfast.promises._plots import draw_expiry

        return draw_expiry(self, ax)

    def __repr__(self) -> str:
        kept = int((self.retrainings >= 1).sum()) if self.known else 0
        ahead = f"{kept} kept through the next retraining, {self.known} of {len(self.drift)} retrainings covered"
        return f"Expiry({len(self.radius)} promises with probability {100 * self.confidence:.4g}%: {ahead})"

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
        kept = int((self.retrainings >= 1).sum()) if self.known else 0
        head = replace(self, radius=self.radius[:HEAD])
        said = [head.describe(row) for row in range(len(head.radius))]
        facts = [
            ("probability", f"{100 * self.confidence:.4g}%"),
            ("retrainings that the history covers", f"{self.known} of {len(self.drift)}"),
            ("frequency", f"one a {self.period}"),
            ("last model in use since", self.start),
        ]
        headline = f"{kept:,} of {len(self.radius):,} promises are kept through the next retraining"
        table = pd.DataFrame({"radius": head.radius, "the promise is": said})
        return Summary(headline, facts, table, total=len(self.radius), rows="promises")


@overload
def promise_expiry(
    radius: Recourse | Ledger, history: Any, *, horizon: int = 12, confidence: float = 0.95
) -> KeptShare: ...


@overload
def promise_expiry(
    radius: ArrayLike,
    history: Any,
    *,
    horizon: int = 12,
    confidence: float = 0.95,
    period: str = "month",
    start: datetime.date | str | None = None,
    norm: float = math.inf,
) -> Expiry: ...


def promise_expiry(
    radius: ArrayLike | Recourse | Ledger,
    history: Any,
    *,
    horizon: int = 12,
    confidence: float = 0.95,
    period: str = "month",
    start: datetime.date | str | None = None,
    norm: float = math.inf,
) -> Expiry | KeptShare:
    """Compute the number of retrainings that each promise is kept through, with a stated probability.

    Given radii, it returns the ones that the next retrainings stay below if they drift like the history. Given
    promises, of any model and kind of change, it counts the promises kept over the history and returns a `KeptShare`.

    The statement needs *exchangeability*: the next k retrainings are like k successive retrainings of the history. That
    is true if retraining is done in the same way, on data that arrive in the same way. It is false if drift
    accelerates, if the way of training changes, or for a model trained from scratch after a history of fine-tuning. The
    probability is over history and future together, for a number of retrainings fixed beforehand: with it, *all*
    promises whose radius exceeds ``drift[k - 1]`` are kept through the next k. Choosing the largest such k afterwards,
    promise by promise, is convenient and a little optimistic.

    Parameters
    ----------
    radius
        Certified radii around the *last* model of the history, as distances between parameters: ``radius_left`` of
        ``audit(..., radius=True)``, for promises under `PlausibleChanges` whose biases may move (a radius with fixed
        biases is no distance between models whose biases moved). Or the promises: the result of `explain`, or a
        `Ledger`. Then no radius is needed, and the history is one of models, which may be a generator of models.
    history
        Models in the order of their use (any models that `load_model` takes), all of one shape and with the same
        preprocessing. If they know their columns by name, the names must be equal; the order of columns is adjusted. Or
        n numbers, the distance of each model from the one before; the distance over several retrainings is then at most
        their sum. Or a table of n rows of independent runs, such as simulations: the distance from the start after 1,
        2, ... retrainings.
    horizon
        Largest number of retrainings to look ahead.
    confidence
        The probability p. Looking k retrainings ahead needs k p / (1 - p) of them: 19 k for 0.95, 9 k for 0.9.
    period
        The frequency of retraining: "day", "week", "month", "quarter" or "year".
    start
        The day from which the last model is in use; `Expiry.through` then has dates.
    norm
        The norm in which models are compared; it must be the norm of the radii.

    Examples
    --------
    >>> distances = [0.010, 0.012, 0.008, 0.011, 0.009, 0.013, 0.010, 0.012, 0.011, 0.010, 0.009, 0.014]
    >>> expiry = promise_expiry([0.012, 0.02, 0.05], distances, horizon=3, confidence=0.8, start="2026-11-16")
    >>> expiry.drift.round(4)
    array([0.013, 0.023, 0.033])
    >>> [expiry.describe(row) for row in range(3)][2]
    'kept through the next 3 monthly retrainings, to 2027-02-16, if the model moves by less than 0.05: with \
probability 80% it moves by up to 0.033 in a number of retrainings fixed beforehand'
    >>> expiry.retrainings
    array([0, 1, 3])
    """
    confidence = given_share(confidence, "confidence")
    horizon = whole_number(horizon, "horizon", least=1)
    if isinstance(radius, Recourse | Ledger):
        return kept_share(radius, history, horizon, confidence)
    try:
        radii = np.atleast_1d(np.asarray(radius, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"radius: expected numbers >= 0, one for each promise, got {error}"
        ) from error
    if radii.ndim != 1 or (radii < 0.0).any():
        raise InvalidInputError("radius: expected numbers >= 0, one for each promise")
    if period not in _PERIODS:
        raise InvalidInputError(f"period: expected one of {list(_PERIODS)}, got {period!r}")
    drifts, independent = _windows(history, norm)
    least = least_history(confidence)
    drift = np.full(horizon, np.nan)
    counts = np.zeros(horizon, np.intp)
    needed = np.zeros(horizon, np.intp)
    for k in range(1, horizon + 1):
        scores = drifts(k)
        counts[k - 1] = len(scores)
        needed[k - 1] = least * (1 if independent else k)
        if len(scores) >= least and (k == 1 or np.isfinite(drift[k - 2])):
            found = delta_calibrated(scores.tolist(), coverage=confidence)
            # Different windows: a quantile over more retrainings may come out below that over fewer.
            drift[k - 1] = np.fmax(found.delta, drift[k - 2] if k > 1 else 0.0)
    return Expiry(
        np.nan_to_num(radii),
        drift,
        counts,
        needed,
        float(confidence),
        period,
        None if start is None else read_day(start, "start"),
    )


def _windows(history: Any, norm: float) -> tuple[Callable[[int], Floats], bool]:
    """Function from k to the drifts over k retrainings, and True if the history is one of independent runs."""
    items = list(history)
    if not items:
        raise InvalidInputError("history: expected models or distances, got none")
    if all(isinstance(item, int | float | np.number) for item in items):
        steps = _distances(items)
        return lambda k: steps[len(steps) % k :].reshape(-1, k).sum(axis=1) * (1.0 + 1e-12), False
    if all(isinstance(item, Sequence | np.ndarray) and not isinstance(item, str) for item in items):
        runs = _distances(items)
        if runs.ndim != 2:
            raise InvalidInputError(
                f"history: expected rows of distances of one length, got shape {runs.shape}"
            )
        return lambda k: runs[:, :k].max(axis=1) if k <= runs.shape[1] else np.empty(0), True
    networks = _alike([load_model(model) for model in items])
    if len(networks) < 2:
        raise InvalidInputError(
            "history: expected at least two models, each the retraining of the one before"
        )

    def between(k: int) -> Floats:
        # The windows end at the newest model: where the history does not divide by k, its oldest part is left out.
        starts = range((len(networks) - 1) % k, len(networks) - k, k)
        far = [
            max(parameter_distance(networks[i], networks[i + j], norm) for j in range(1, k + 1))
            for i in starts
        ]
        return np.array(far) * (1.0 + 1e-12)

    return between, False


def _alike(models: list[Model]) -> list[Network]:
    """The networks with their variables in the order of the last model that names them, if any does.

    Parameters are compared by position, so a position must have the same meaning in all models.
    """
    named = next(
        (model for model in reversed(models) if model.feature_names is not None), models[-1]
    )
    names = named.feature_names or ()
    networks = []
    for i, model in enumerate(models):
        network = model.network
        own = model.feature_names
        if not np.array_equal(network.classes, models[-1].network.classes):
            raise InvalidInputError(
                f"history: expected models with the classes {models[-1].network.classes.tolist()} in this order, got "
                f"{network.classes.tolist()} in number {i + 1}"
            )
        if own is not None and own != names:
            if (
                model.preprocess is not None
                or sorted(own) != sorted(names)
                or len(set(own)) != len(own)
            ):
                raise InvalidInputError(
                    f"history: expected models that read the same columns, got {list(own)} in number {i + 1} and "
                    f"{list(names)} later"
                )
            order = [own.index(name) for name in names]
            weights = [network.weights[0][:, order], *network.weights[1:]]
            network = network.with_parameters(weights, network.biases)
            model = replace(model, feature_names=names)
        if not same_preprocessing(model, models[-1]):
            raise InvalidInputError(
                f"history: expected models with the same preprocessing, got another in number {i + 1}: after a "
                "refitted scaler or encoder, distances between parameters have no meaning"
            )
        networks.append(network)
    return networks


def _distances(items: list[Any]) -> Floats:
    try:
        numbers = np.asarray(items, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"history: expected distances, got {error}") from error
    if not (np.isfinite(numbers) & (numbers >= 0.0)).all():
        raise InvalidInputError("history: expected finite distances >= 0")
    return numbers
