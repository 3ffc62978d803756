"""The certified radii as a page can show them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from holdfast.generators import Recourse
from holdfast.generators.radii import Radii, radii_of
from holdfast.network import Floats
from holdfast.presentation.report.contents import Curve

# Some advice no model breaks; a radius is a number that a page can show.
FAR = 1e6


def shown_radii(recourse: Recourse, *, wanted: bool = True) -> Radii:
    """The certified radii of the rows with an answer, none of them infinite."""
    radii = recourse.radii if wanted else radii_of(recourse, "Certified radii were not asked for.")
    return replace(radii, lower=np.minimum(radii.lower, FAR))


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
