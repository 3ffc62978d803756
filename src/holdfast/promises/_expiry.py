"""A promise's radius as a time: kept through so many retrainings, with a stated probability.

A promise is kept through the next k retrainings if none of the k models lies as far from today's as its radius. The
history is cut into windows of k retrainings that do not overlap; each gives one number,

    s = max over j <= k of  distance(model at the start, model after j retrainings).

If the windows and the next k retrainings are exchangeable, the next s is at most the ceil((n + 1) p)-th smallest of the
n numbers with probability at least p (`delta_calibrated`), and then every promise with a larger radius is kept.

Models that are no networks have no such distance; there, and under every kind of change, the promises themselves can be
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
    """How long promises last.

    Attributes
    ----------
    radius
        The radii asked about.
    drift
        For k = 1, 2, ..., horizon: what the model's drift over the next k retrainings does not exceed, with the
        confidence; nan where the history is too short to say.
    windows
        How many windows of k retrainings the history has.
    needed
        How many retrainings the history would have to have.
    confidence, period
        What was asked for.
    start
        When the last model of the history came into use; None if not given.
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
        """How many retrainings ahead the history reaches."""
        return int(np.isfinite(self.drift).sum())

    @property
    def retrainings(self) -> Ints:
        """Through how many of the next retrainings each promise is kept, as far as the history reaches."""
        kept = self.radius[:, None] > self.drift[None, : self.known]
        return np.asarray(np.cumprod(kept, axis=1).sum(axis=1), dtype=np.intp)

    @property
    def limited(self) -> Bools:
        """Which promises may well last longer, but the history is too short to say so."""
        return np.asarray((self.retrainings == self.known) & (self.known < len(self.drift)))

    @property
    def through(self) -> list[datetime.date | None]:
        """The date of the last retraining that each promise is known to survive; None without a start."""
        if self.start is None:
            return [None] * len(self.radius)
        _, step = _PERIODS[self.period]
        dates = [(pd.Timestamp(self.start) + k * step).date() for k in range(self.known + 1)]
        return [dates[k] for k in self.retrainings]

    def describe(self, row: int) -> str:
        """One promise in words: through how many retrainings it is kept, and how far the model moves in these."""
        row = int(np.arange(len(self.radius))[row])
        count = int(self.retrainings[row])
        how_often = _PERIODS[self.period][0]
        sure = f"{100 * self.confidence:.4g}%"
        if self.known == 0:
            return f"{self.needed[0]} retrainings are needed to say it with {sure}, the history has {self.windows[0]}"
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
        """One row for each promise."""
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
        """The share of promises kept through the next 1, 2, ... retrainings, as far as the history reaches."""
        from holdfast.promises._plots import draw_expiry

        return draw_expiry(self, ax)

    def __repr__(self) -> str:
        kept = int((self.retrainings >= 1).sum()) if self.known else 0
        ahead = f"{kept} kept through the next retraining, {self.known} of {len(self.drift)} retrainings in sight"
        return f"Expiry({len(self.radius)} promises with {100 * self.confidence:.4g}%: {ahead})"

    def overview(self) -> Summary:
        """What a notebook shows."""
        kept = int((self.retrainings >= 1).sum()) if self.known else 0
        head = replace(self, radius=self.radius[:HEAD])
        said = [head.describe(row) for row in range(len(head.radius))]
        facts = [
            ("probability", f"{100 * self.confidence:.4g}%"),
            ("retrainings that the history can speak of", f"{self.known} of {len(self.drift)}"),
            ("how often", f"one a {self.period}"),
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
    """Through how many retrainings is each promise kept, with a stated probability?

    Of radii it is said which are never reached by models that drift like those of the history. Of promises themselves,
    whatever the models and the kind of change, it is counted how many were kept: a `KeptShare`.

    It rests on *exchangeability*: the next k retrainings together are no different from k successive ones in the
    history. That holds for retrainings done in the same way on data that come in the same way. It fails where models
    drift faster over time, where the way of training changes, and for a model trained from scratch where the history
    was fine-tuned. The probability is over history and future together. It is that of a statement about a number of
    retrainings fixed beforehand: with it, *all* promises whose radius exceeds ``drift[k - 1]`` are kept through the
    next k. To look for the largest such k afterwards, promise by promise, is convenient and a little optimistic.

    Parameters
    ----------
    radius
        Certified radii around the *last* model of the history, distances between parameters: what
        ``audit(..., radius=True)`` gives as ``radius_left`` for promises under `PlausibleChanges` whose biases may
        move: a radius with fixed biases is no distance between models whose biases moved. Or the promises:
        what `explain` returned, or a `Ledger`; then no radius is needed, and the history is one of models, which may be
        a generator of them.
    history
        Models in the order in which they were in use (anything that `load_model` takes), all of one shape and with the
        same preprocessing, else they are refused. Where they know their columns by name, these have to be the same;
        columns in another order are put right. Or n numbers, the distance of each from the one before; the distance
        over several retrainings is then at most their sum. Or a table of n rows: independent runs, with the distance
        from the start after 1, 2, ... retrainings, as one gets by simulating them.
    horizon
        How many retrainings to look ahead at most.
    confidence
        The probability p. For k retrainings ahead it takes k p / (1 - p) in the history: 19 k for 0.95, 9 k for 0.9.
    period
        How often the model is retrained: "day", "week", "month", "quarter" or "year".
    start
        When the last model came into use; then `Expiry.through` has dates.
    norm
        The norm in which models are compared, which must be that of the radii.

    Examples
    --------
    >>> distances = [0.010, 0.012, 0.008, 0.011, 0.009, 0.013, 0.010, 0.012, 0.011, 0.010, 0.009, 0.014]
    >>> expiry = promise_expiry([0.012, 0.02, 0.05], distances, horizon=3, confidence=0.8, start="2026-11-16")
    >>> expiry.drift.round(4)
    array([0.013, 0.023, 0.033])
    >>> [expiry.describe(row) for row in range(3)][2]
    'kept through the next 3 monthly retrainings, to 2027-02-16, if the model moves by less than 0.05: with 80% it \
moves by up to 0.033 in a number of retrainings fixed beforehand'
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
    """For each k the drifts over k retrainings, and whether the history is one of independent runs."""
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
    """The networks with their variables in the order of the last model that names them, where that is known.

    A parameter is compared with the one in its place, so that the same place has to mean the same thing.
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
                f"history: expected models with the same preprocessing, got another in number {i + 1}: behind a scaler "
                "or encoder that was fitted anew, parameters mean something else and their distances nothing"
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
