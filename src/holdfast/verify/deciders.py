"""Who decides: a row for each kind of change."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from holdfast.changes import Changes, Ellipsoid, EnsembleShift, PlausibleChanges, PlausibleShift
from holdfast.importers import Model
from holdfast.verify.closed_form import ClosedForm
from holdfast.verify.ellipsoid import InEllipsoid
from holdfast.verify.engine import Engine
from holdfast.verify.policy import MovingThreshold
from holdfast.verify.shift import Shift

Decider = Engine | ClosedForm | MovingThreshold

_CLOSED_FORMS: dict[type[Changes], Callable[[Model, Any], ClosedForm]] = {
    PlausibleShift: Shift,
    EnsembleShift: Shift,
    Ellipsoid: InEllipsoid,
}


def decider_for(model: Model, changes: Changes, device: str | None = None) -> Decider:
    """Who decides about this model under these changes; raises where the two do not go together."""
    if changes.threshold is not None:
        return MovingThreshold(model, changes, partial(_decider, device=device))
    return _decider(model, changes, device)


def toward(decider: Decider, targets: ArrayLike) -> Engine | ClosedForm:
    """Who decides about these classes: where the threshold may move, at the hardest one."""
    found: Engine | ClosedForm = decider.toward(targets) if isinstance(decider, MovingThreshold) else decider
    return found


def _decider(model: Model, changes: Changes, device: str | None = None) -> Engine | ClosedForm:
    decider: Engine | ClosedForm
    if isinstance(changes, PlausibleChanges):
        decider = Engine(model.network, changes, device)
    else:
        decider = _CLOSED_FORMS[type(changes)](model, changes)
    decider.model = model
    return decider
