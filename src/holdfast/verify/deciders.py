"""Who decides: a row for each kind of change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.changes import Changes, Ellipsoid, EnsembleShift, PlausibleChanges, PlausibleShift
from holdfast.importers import Model
from holdfast.verify.closed_form import ClosedForm
from holdfast.verify.ellipsoid import InEllipsoid
from holdfast.verify.engine import Engine
from holdfast.verify.shift import Shift

Decider = Engine | ClosedForm

_CLOSED_FORMS: dict[type[Changes], Callable[[Model, Any], ClosedForm]] = {
    PlausibleShift: Shift,
    EnsembleShift: Shift,
    Ellipsoid: InEllipsoid,
}


def decider_for(model: Model, changes: Changes, device: str | None = None) -> Decider:
    """Who decides about this model under these changes; raises where the two do not go together."""
    if isinstance(changes, PlausibleChanges):
        return Engine(model.network, changes, device)
    return _CLOSED_FORMS[type(changes)](model, changes)
