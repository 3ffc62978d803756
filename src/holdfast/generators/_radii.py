"""How far the model may move before each piece of advice can break, in agreement with the verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holdfast._classifier import Classifier
from holdfast._network import Floats, Network
from holdfast.changes import Changes, PlausibleChanges
from holdfast.errors import HoldfastError
from holdfast.verify import Verdict

if TYPE_CHECKING:
    from holdfast.generators._recourse import Recourse

RADIUS_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Radii:
    """For each row: proven safe for every size < `lower`; a counter-model exists at `upper`; nan where not known.

    `measured` is `lower` before the verdicts had their say. `along` is the kind of change that they are measured along,
    of any size. `unknown` says why there are none, in a sentence; "" where there are.
    """

    lower: Floats
    upper: Floats
    measured: Floats
    along: Changes
    unknown: str = ""

    @property
    def slack(self) -> float:
        """How far a true radius may lie above `lower`: the tolerance of the search, or more where it gave up early."""
        known = np.isfinite(self.upper)
        return max(
            float(np.max(self.upper[known] - self.measured[known], initial=0.0)), RADIUS_TOLERANCE
        )

    @property
    def known(self) -> bool:
        """Whether radii were computed."""
        return not self.unknown


def radii_of(recourse: Recourse, unwanted: str = "") -> Radii:
    """The certified radii of the rows with an answer; `unwanted` says why none are to be computed."""
    along = measured_along(recourse.changes)
    unknown = unwanted or why_no_radius(recourse.classifier, along)
    nothing = np.full(len(recourse), np.nan)
    rows = recourse.answered
    if unknown or not rows.size:
        return Radii(nothing, nothing, nothing, along, unknown)
    # Many people may be told the same.
    asked = np.column_stack([recourse.points[rows], recourse.targets[rows]])
    _, firsts, places = np.unique(asked, axis=0, return_index=True, return_inverse=True)
    radius = recourse.certified_radius(rows[firsts])
    measured, upper = nothing.copy(), nothing.copy()
    measured[rows] = radius.lower[places.ravel()]
    upper[rows] = radius.upper[places.ravel()]
    return Radii(_in_agreement(recourse, measured), upper, measured, along)


def measured_along(changes: Changes | None) -> Changes:
    """The kind of change that radii are measured along; those by layer or by parameter by one radius for all."""
    if changes is None:
        return PlausibleChanges(1.0)
    if isinstance(changes, PlausibleChanges):
        return PlausibleChanges(
            1.0, changes.norm, bool(changes.biases), threshold=changes.threshold
        )
    return changes.bare


def why_no_radius(classifier: Classifier, along: Changes) -> str:
    """Why no radius along this kind of change is computed unasked; "" where it takes less than a second a row."""
    if not isinstance(along, PlausibleChanges):
        return ""
    if not isinstance(classifier, Network):
        return "No set of plausible models was stated, and a model known by its scores alone has no other radius."
    if len(classifier.hidden) > 1 and along.norm != np.inf:
        return (
            f"A certified radius in norm {along.norm:g} takes up to two seconds a row with two or more hidden layers, "
            "so none was computed and there is no curve over delta; `certified_radius` computes it for the rows it is "
            "asked for. The verdicts stand."
        )
    return ""


def least_radius(changes: Changes | None) -> float | None:
    """The least radius where layers or parameters have their own, else None."""
    return (
        changes.least
        if isinstance(changes, PlausibleChanges) and isinstance(changes.delta, tuple)
        else None
    )


def _in_agreement(recourse: Recourse, lower: Floats) -> Floats:
    """The radii, in agreement with the verdicts; UNKNOWN is never counted as proven.

    A radius is found to within a tolerance, a verdict is not: advice that is ROBUST at a size is safe for every size up
    to and including it.
    """
    if recourse.changes is None:
        return lower
    several = least_radius(recourse.changes)
    most = recourse.changes.size
    least = most if several is None else several
    broken = recourse.verdict == Verdict.NOT_ROBUST
    undecided = recourse.verdict == Verdict.UNKNOWN
    if (lower[broken] > most).any():
        row = int(np.flatnonzero(broken)[np.argmax(lower[broken])])
        raise HoldfastError(
            f"row {row}: its radius contradicts its counter-model; please report this as a bug"
        )
    result = lower.copy()
    result[recourse.robust] = np.maximum(lower[recourse.robust], np.nextafter(least, np.inf))
    result[undecided] = np.minimum(lower[undecided], most)
    return result
