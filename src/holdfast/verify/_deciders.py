"""The decider for each kind of change; a threshold that may move is set to its hardest value.

two classes, class 1 from the probability t on, t in [low, high]:    for class 1 the hardest is high, for class 0 low
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from holdfast._classifier import Classifier
from holdfast.changes import (
    Changes,
    Ellipsoid,
    EnsembleShift,
    PlausibleChanges,
    PlausibleShift,
    TreeChanges,
)
from holdfast.errors import InvalidInputError
from holdfast.importers import Model
from holdfast.importers._model import as_network
from holdfast.importers._thresholds import HALF
from holdfast.verify._closed_form import ClosedForm
from holdfast.verify._ellipsoid import InEllipsoid
from holdfast.verify._engine import Engine
from holdfast.verify._shift import Shift
from holdfast.verify._trees import MovingTrees

_CLOSED_FORMS: dict[type[Changes], Callable[[Model, Any], ClosedForm]] = {
    PlausibleShift: Shift,
    EnsembleShift: Shift,
    Ellipsoid: InEllipsoid,
    TreeChanges: MovingTrees,
}


@dataclass(frozen=True)
class MovingThreshold:
    """Decider for changes that also let the threshold move."""

    model: Model
    changes: Changes
    device: str | None

    @property
    def classifier(self) -> Classifier:
        """Today's model, at today's threshold."""
        return self.model.classifier

    def check_today(self, target: int) -> None:
        """Raise if today's threshold is harder than every threshold in the range that is searched."""
        own, ends = self.model.threshold or HALF, self.changes.threshold
        assert isinstance(own, float)
        assert ends is not None
        if own > ends[1] if target == 1 else own < ends[0]:
            raise InvalidInputError(
                f"threshold: today's threshold {own:g} is harder than every threshold from {ends[0]:g} to {ends[1]:g}; "
                f"for Closest extend the range to {own:g}, or use RNCE"
            )


Decider = Engine | ClosedForm | MovingThreshold


def decider_for(model: Model, changes: Changes, device: str | None = None) -> Decider:
    """The decider for this model and these changes; raises if they do not fit together."""
    if changes.threshold is not None:
        if model.classifier.n_outputs > 1:
            raise InvalidInputError(
                "threshold: a threshold that may move needs a model of two classes, got several classes"
            )
        return MovingThreshold(model, changes, device)
    decider: Engine | ClosedForm
    if isinstance(changes, PlausibleChanges):
        decider = Engine(as_network(model.classifier, "changes"), changes, device)
    else:
        decider = _CLOSED_FORMS[type(changes)](model, changes)
    decider.model = model
    return decider


def asked_about(decider: Decider, model: Model) -> Decider:
    """The same decider for other rows; results that were worked out from trees are kept."""
    if not isinstance(decider, MovingTrees):
        return decider_for(model, decider.changes)
    other = copy(decider)
    vars(other).update(classifier=model.classifier, model=model)
    return other


def toward(decider: Decider, targets: ArrayLike) -> Engine | ClosedForm:
    """The decider for these classes; a threshold that may move is set to its hardest value."""
    if not isinstance(decider, MovingThreshold):
        return decider
    model, changes = decider.model, decider.changes
    wanted = np.unique(targets)
    if wanted.size != 1:
        raise InvalidInputError(
            "target: a threshold that may move needs one target class for all rows, got several"
        )
    # Thresholds are the caller's probabilities: of a calibrated model the calibrated ones, which `at` minds.
    trained = replace(model, classifier=model.trained, threshold=None, as_trained=None)
    assert changes.threshold is not None
    # For every threshold that today's model may have.
    at_hardest = trained.at(changes.threshold[int(wanted[0])])
    settled = decider_for(at_hardest, changes.moving(None), decider.device)
    assert not isinstance(settled, MovingThreshold)
    # What is stated is about all of the thresholds.
    settled.changes = changes
    return settled
