"""How far the model may move before each piece of advice breaks, in agreement with the verdicts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from holdfast.changes import Changes, PlausibleChanges
from holdfast.errors import HoldfastError
from holdfast.generators import Recourse
from holdfast.network import Floats, Network
from holdfast.presentation.report.contents import Curve
from holdfast.verify import Verdict

# Some advice no model breaks; a radius is a number that a page can show.
FAR = 1e6
RADIUS_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Radii:
    """For each row: proven safe for every size < `lower`; a counter-model exists at `upper`; nan where not known.

    `found` is `lower` before the verdicts had their say. `along` is the kind of change that they are measured along,
    whatever its size. `unknown` says why there are none, in a sentence; "" where there are.
    """

    lower: Floats
    upper: Floats
    found: Floats
    along: Changes
    unknown: str = ""

    @property
    def slack(self) -> float:
        """How far a true radius may lie above `lower`: the tolerance of the search, or more where it gave up early."""
        known = np.isfinite(self.upper)
        return max(float(np.max(self.upper[known] - self.found[known], initial=0.0)), RADIUS_TOLERANCE)

    @property
    def known(self) -> bool:
        """Whether radii were computed."""
        return not self.unknown


def radii_of(recourse: Recourse, *, wanted: bool = True) -> Radii:
    """The certified radii of the rows with an answer, along the recourse's kind of change."""
    n, along = len(recourse), recourse.changes
    if along is None:
        along = PlausibleChanges(1.0)
    elif isinstance(along, PlausibleChanges):
        # Radii by layer or by parameter are measured by one radius for all.
        along = PlausibleChanges(1.0, along.norm, bool(along.biases))
    nothing = Radii(np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan), along)
    unknown = _why_unknown(recourse, along) if wanted else "Certified radii were not asked for."
    if unknown:
        return replace(nothing, unknown=unknown)
    rows = np.flatnonzero(recourse.found)
    if not rows.size:
        return nothing
    # Many people may be told the same.
    asked = np.column_stack([recourse.points[rows], recourse.targets[rows]])
    _, firsts, places = np.unique(asked, axis=0, return_index=True, return_inverse=True)
    found = recourse.certified_radius(rows[firsts])
    lower, upper = nothing.lower.copy(), nothing.upper.copy()
    lower[rows], upper[rows] = found.lower[places.ravel()], found.upper[places.ravel()]
    return replace(nothing, lower=_in_agreement(recourse, np.minimum(lower, FAR)), upper=upper, found=lower)


def _why_unknown(recourse: Recourse, along: Changes) -> str:
    """Why no radius is known along this kind of change; "" where there is one."""
    if not isinstance(along, PlausibleChanges):
        return ""
    if not isinstance(recourse.classifier, Network):
        return "No set of plausible models was stated, and a model known by its scores alone has no other radius."
    if not recourse.network.rectified:
        return (
            "No certified radius is known for a model with a hidden layer that has no activation, so there is "
            "no curve over delta; the verdicts stand."
        )
    if recourse.network.hidden and along.norm != np.inf:
        return (
            "With hidden layers a certified radius is known for changes in the norm ∞ only, not in norm "
            f"{along.norm:g}, so there is no curve over delta; the verdicts stand."
        )
    return ""


def least_radius(changes: Changes | None) -> float | None:
    """The least radius where layers or parameters have their own, else None."""
    return changes.least if isinstance(changes, PlausibleChanges) and isinstance(changes.delta, tuple) else None


def _in_agreement(recourse: Recourse, lower: Floats) -> Floats:
    """The radii with what the verdicts prove beside them; what is UNKNOWN is never counted as safe.

    A radius is found to within a tolerance, a verdict is not: advice that is ROBUST at a size is safe for every size up
    to and including it.
    """
    if recourse.changes is None:
        return lower
    several, most = least_radius(recourse.changes), recourse.changes.size
    least = most if several is None else several
    robust = recourse.robust
    broken = np.array([verdict is Verdict.NOT_ROBUST for verdict in recourse.verdict], dtype=np.bool_)
    undecided = np.array([verdict is Verdict.UNKNOWN for verdict in recourse.verdict], dtype=np.bool_)
    if (lower[broken] > most).any():
        row = int(np.flatnonzero(broken)[np.argmax(lower[broken])])
        raise HoldfastError(f"row {row}: its radius contradicts its counter-model; please report this as a bug")
    result = lower.copy()
    result[robust] = np.maximum(lower[robust], np.nextafter(least, np.inf))
    result[undecided] = np.minimum(lower[undecided], most)
    return result


def survival_curve(radii: Floats) -> Curve | None:
    """For every size the share of these radii that exceed it.

    Examples
    --------
    >>> survival_curve(np.array([0.25, 0.0, 0.5, 0.25]))
    Curve(x=(0.0, 0.25, 0.5), y=(0.75, 0.25, 0.0))
    """
    if radii.size == 0:
        return None
    ordered = np.sort(radii)
    steps = np.unique(np.append(0.0, ordered[ordered < FAR]))
    above = ordered.size - np.searchsorted(ordered, steps, side="right")
    return Curve(tuple(steps.tolist()), tuple((above / ordered.size).tolist()))
