"""How far a proof reaches, in units that people know: the updates of the model that were measured."""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, Context
from statistics import median
from typing import Any, TypeGuard

import numpy as np

from holdfast._numbers import figure
from holdfast.calibration import CalibratedDelta, ChosenDelta, IncrementalDelta
from holdfast.changes import Changes, EnsembleShift, PlausibleChanges
from holdfast.presentation.report._contents import Calibrated, Gauge

# Some advice no model breaks; a radius is a number that a page can show.
FAR = 1e6
# The bar of the gauge ends somewhat beyond its last mark.
_BEYOND = 1.6


def history_of(
    given: ChosenDelta, changes: Changes | None, factor: float | None = None
) -> tuple[tuple[float, ...], int]:
    """The sizes of the updates behind a delta, in rising order, and how many at least lie within it.

    The size of an update is that of the least Δ of its shape that holds it: with one radius the distance, with one
    for each layer the largest distance relative to its radius. None are known if the evidence does not say this.

    `factor`: for leaf radii, by how much those of Δ must grow to hold the calibrated ones; sizes are then such factors.

    Examples
    --------
    >>> from holdfast.calibration import delta_calibrated
    >>> history_of(delta_calibrated([0.03, 0.01, 0.02, 0.04], coverage=0.5), PlausibleChanges(0.01))
    ((0.01, 0.02, 0.03, 0.04), 3)
    >>> by_layer = [[0.01, 0.02], [0.02, 0.01], [0.03, 0.06]]
    >>> history_of(delta_calibrated(by_layer, coverage=0.5), PlausibleChanges((0.01, 0.04)))
    ((0.04, 0.08, 0.12), 2)
    """
    if isinstance(given, IncrementalDelta):
        if changes is not None and not uniform(changes):
            return (), 0
        return _sorted(given.retrained.distances(given.norm)), given.inside
    if not isinstance(given, CalibratedDelta):
        return (), 0
    rank, evidence = given.rank, given.evidence
    if "ratio" in evidence:
        rank = int((evidence["ratio"] <= 1.0).sum())
    if factor is not None:
        return _sorted(factor * evidence["ratio"]), rank
    if changes is None or uniform(changes):
        return _sorted(evidence["distance"]), rank
    if "ratio" in evidence and changes.digest == given.changes.digest:
        return _sorted(changes.size * evidence["ratio"]), rank
    layers = evidence.filter(regex="^layer_").to_numpy()
    if isinstance(changes, PlausibleChanges) and changes.per_layer:
        radii = np.asarray(changes.delta, dtype=np.float64)
        if layers.shape[1] == radii.size and radii.all():
            return _sorted(changes.size * (layers / radii).max(axis=1)), rank
    return (), 0


def models_of(changes: Changes | None, known: Calibrated | None) -> str:
    """The models that the proof is about, for people: measured in updates where a history is known.

    Examples
    --------
    >>> models_of(PlausibleChanges(0.00519996), None)
    'every model in which no number moves by more than 0.00519'
    >>> models_of(PlausibleChanges(0.02), Calibrated(0.02, "", True, "", (0.01, 0.02, 0.03), 2))
    'every model that moves no further than 2 of the 3 measured updates did'
    """
    if changes is None:
        return ""
    within, updates = updates_within(changes, known)
    if within:
        largest = known.updates[-1] if known is not None and known.updates else 0.0
        if uniform(changes) and within == updates and changes.size >= 1.1 * largest > 0.0:
            times = plain(changes.size / largest)
            which = f"the largest of the {updates:,} measured updates"
            return f"every model that moves at most {times} times as far as {which} did{changes.policy}"
        which = (
            f"{within:,} of the {updates:,} measured updates"
            if within < updates
            else f"the largest of the {updates:,} measured updates"
            if updates > 1
            else "the measured update"
        )
        return f"every model that moves no further than {which} did{changes.policy}"
    if isinstance(changes, EnsembleShift):
        return (
            f"today's model and every model that scores the person at most {plain(changes.margin)} below the mean of "
            f"{len(changes.digests)} retrained models{changes.policy}"
        )
    if changes.unit == "margin":
        falls = plain(changes.size)
        return f"every model that lowers the person's score by at most {falls}{changes.policy}"
    if uniform(changes) and changes.norm == math.inf:
        moved = "number" if changes.biases else "weight"
        stays = "" if changes.biases else " and each bias stays as it is"
        return (
            f"every model in which no {moved} moves by more than {plain(changes.size)}{stays}"
            f"{changes.policy}"
        )
    return changes.every_model


def updates_within(changes: Changes, known: Calibrated | None) -> tuple[int, int]:
    """How many measured updates at least lie in Δ, and of how many; (0, 0) where that is not known."""
    if known is not None and known.updates:
        within = sum(size <= changes.size for size in known.updates)
        if known.covered and not uniform(changes):
            within = max(within, known.rank)
        return within, len(known.updates)
    if changes.stated_inside is not None:
        return changes.stated_inside.rank, changes.stated_inside.models
    return 0, 0


def gauge_of(changes: Changes | None, known: Calibrated | None) -> Gauge | None:
    """The scale of the page; None where there is neither a Δ nor a history."""
    size = 0.0 if changes is None else changes.size
    if known is not None and known.updates and known.updates[-1] > 0.0:
        updates = known.updates
        middle = float(median(updates))
        marks = ((middle, "typical update"), (updates[-1], f"largest of {len(updates):,}"))
        return Gauge(
            _BEYOND * max(updates[-1], size), marks[len(updates) == 1 :], middle or None, updates
        )
    if changes is None or size == 0.0:
        return None
    within, updates_in_all = updates_within(changes, known)
    words = f"{within:,} of {updates_in_all:,} updates" if within else "the promise"
    return Gauge(_BEYOND * size, ((size, words),))


def lasts(
    radius: float | None,
    verdict: str,
    changes: Changes | None,
    known: Calibrated | None,
) -> str:
    """How far the proof of one piece of advice reaches, in a few words.

    Examples
    --------
    >>> known = Calibrated(0.02, "", True, "", (0.01, 0.02, 0.03), 2)
    >>> [lasts(size, "", PlausibleChanges(0.02), known) for size in (0.025, 0.5)]
    ['2 of 3 updates', 'all 3 updates']
    >>> lasts(0.0123, "NOT_ROBUST", PlausibleChanges(0.02), None)
    '61% of the promise'
    >>> [lasts(size, "ROBUST", PlausibleChanges(0.02), None) for size in (0.0201, 0.035, 0.059, 0.07)]
    ['as far as promised', '1.5 times as far as promised', 'twice as far as promised', '3 times as far as promised']
    """
    robust = verdict == "ROBUST"
    within, of = (0, 0) if changes is None or not robust else updates_within(changes, known)
    if radius is not None and radius >= FAR:
        return "any model"
    if known is not None and known.updates and radius is not None:
        of = len(known.updates)
        within = max(within, sum(size < radius for size in known.updates))
        return _counted(within, of)
    if within:
        return _counted(within, of)
    if radius is None:
        return "as promised" * robust
    if changes is None or changes.size == 0.0:
        return ""
    part = radius / changes.size
    if part < 0.01:
        return "<1% of the promise"
    if part < 1.0:
        return f"{math.floor(100.0 * part)}% of the promise"
    if part < 1.5:
        return "as far as promised"
    times = "1.5 times" if part < 2.0 else "twice" if part < 3.0 else f"{math.floor(part):,} times"
    return f"{times} as far as promised"


def uniform(changes: Changes) -> TypeGuard[PlausibleChanges]:
    """Δ lets every parameter move by one delta."""
    return isinstance(changes, PlausibleChanges) and not isinstance(changes.delta, tuple)


def plain(number: float) -> str:
    """Three significant digits without an exponent, never more than the number.

    >>> plain(0.0000519996), plain(1234.5), plain(2.0)
    ('0.0000519', '1,234', '2')
    """
    if abs(number) >= 1e-4 or number == 0.0:
        return figure(number, rounding=ROUND_DOWN)
    exact = Context(prec=3, rounding=ROUND_DOWN).create_decimal(repr(float(number)))
    return f"{exact:f}".rstrip("0")


def _counted(within: int, of: int) -> str:
    if within < of:
        return f"{within:,} of {of:,} updates"
    return f"all {of:,} updates" if of > 1 else "the one update"


def _sorted(sizes: Any) -> tuple[float, ...]:
    return tuple(np.sort(np.asarray(sizes, dtype=np.float64)).tolist())
