"""Sets Δ of plausible changes of today's model, one file for each kind.

parameters  PlausibleChanges   every network whose parameters lie within delta of today's
shift       PlausibleShift     every model whose margin at a promised point is at most `margin` below today's
            EnsembleShift      the same below the mean of some retrained models
ellipsoid   Ellipsoid          every linear model whose parameters lie in an ellipsoid around today's
trees       TreeChanges        every tree ensemble of today's structure whose leaves and thresholds lie near today's

kind        Changes            the base class of all kinds
            Chance, Inside     measured chances: of broken promises, and of the next model being in Δ
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.changes._ellipsoid import Ellipsoid
from holdfast.changes._kind import Chance, Changes, Inside
from holdfast.changes._parameters import (
    PlausibleChanges,
    parameter_distance,
)
from holdfast.changes._shift import EnsembleShift, PlausibleShift
from holdfast.changes._trees import TreeChanges
from holdfast.errors import FileFormatError

__all__ = [
    "Chance",
    "Changes",
    "Ellipsoid",
    "EnsembleShift",
    "Inside",
    "PlausibleChanges",
    "PlausibleShift",
    "TreeChanges",
    "changes_from_dict",
    "parameter_distance",
]

KINDS: dict[str, type[Changes]] = {
    kind.kind: kind
    for kind in (PlausibleChanges, PlausibleShift, EnsembleShift, Ellipsoid, TreeChanges)
}


def changes_from_dict(document: Mapping[str, Any]) -> Changes:
    """Read plausible changes of any kind, as `to_dict` wrote them.

    Examples
    --------
    >>> changes_from_dict(PlausibleShift(0.5).to_dict())
    PlausibleShift(0.5)
    """
    kind = document.get("kind", PlausibleChanges.kind)
    if kind not in KINDS:
        raise FileFormatError(
            f"changes: expected one of the kinds {', '.join(KINDS)}, got {kind!r}"
        )
    return KINDS[kind].from_dict(document)
