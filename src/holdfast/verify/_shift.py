"""Decider for a shift of the margin: below today's, or below the mean of some models."""

from __future__ import annotations

import sys
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag

from holdfast._classifier import Classifier
from holdfast._network import Floats, Network, Pair
from holdfast._scored import Scored
from holdfast.changes import EnsembleShift, PlausibleShift
from holdfast.changes._parameters import move_within
from holdfast.errors import InvalidInputError
from holdfast.importers import Model, load_model
from holdfast.importers._model import as_network, same_preprocessing
from holdfast.verify._closed_form import ClosedForm, Margins, accepted, upper_end
from holdfast.verify._search import WITNESS_SAFETY

_EPSILON = float(np.finfo(np.float64).eps)


class Shift(ClosedForm):
    """Decider for margins that may fall by at most `changes.size`: below today's, or below the mean of some models.

    A model is in the set if its margin at the point is large enough, so its least margin may be over any rival. At a
        margin of exactly 0 the target is therefore kept only if it wins every tie.
    """

    def __init__(self, model: Model, changes: PlausibleShift | EnsembleShift) -> None:
        self.classifier = model.classifier
        self.changes = changes
        self.today = Margins(model.classifier)
        self.center = [self.today]
        if isinstance(changes, EnsembleShift):
            if not changes.models:
                raise InvalidInputError(
                    "models: a file records only the names of the retrained models; pass the models themselves, "
                    "EnsembleShift(models, margin)"
                )
            models = (load_model(one, model.threshold) for one in changes.models)
            self.center = [Margins(_beside(model, one)) for one in models]

    def worst(self, points: Floats, target: int) -> Pair:
        """The margin less the shift, at most today's margin."""
        ends = [_ends(self.center, points, target, self.changes.size)]
        if self.center != [self.today]:
            ends.append(_ends([self.today], points, target, 0.0))
        return np.min([low for low, _ in ends], axis=0), np.min([high for _, high in ends], axis=0)

    def _least(self, point: Floats, target: int) -> tuple[Fraction, bool]:
        """The least allowed margin, exactly, and whether a tie with some rival is lost."""
        each = [one.exactly(point, target) for one in self.center]
        least = min(
            sum((margin for margin, _ in rival), Fraction(0)) for rival in zip(*each, strict=True)
        )
        return least / len(each) - Fraction(self.changes.size), any(lost for _, lost in each[0])

    def holds(self, point: Floats, target: int) -> bool:
        """Whether the least allowed margin and today's are positive; False if the order of sums could decide."""
        if any(one.spare for one in (self.today, *self.center)):
            return False
        return accepted([self._least(point, target), *self.today.exactly(point, target)])

    def counter_model(self, point: Floats, target: int) -> Classifier | None:
        """Today's model, today's model with lowered scores, or a constant model with the least allowed margin."""
        least, _ = self._least(point, target)
        fall = min(
            min(margin for margin, _ in self.today.exactly(point, target)) - least,
            Fraction(sys.float_info.max),
        )
        amounts = [float(fall), float(np.nextafter(float(fall), -np.inf))]
        lowest = (
            -float(np.nextafter(-float(least), -np.inf)) if least > float(least) else float(least)
        )
        lowered = (_moved(self.classifier, target, -amount) for amount in amounts)
        for other in (
            self.classifier,
            *lowered,
            _moved(self.classifier, target, lowest, scores=0.0),
        ):
            kept = accepted(Margins(other).exactly(point, target)) or not self.allows(
                other, point, target
            )
            if not kept and int(other.predict_index(point[None, :])[0]) != target:
                return other
        return None

    def allows(self, other: Classifier, point: Floats, target: int) -> bool:
        """Whether `other` is in Δ at this point: its margin is at least the least allowed margin."""
        new = min(margin for margin, _ in Margins(other).exactly(point, target))
        return other == self.classifier or new >= self._least(point, target)[0]

    def radius(self, points: Floats, target: int) -> Pair:
        """The margin itself; 0 if today's model rejects."""
        lower, upper = _ends(self.center, points, target, 0.0)
        if self.center != [self.today]:
            today = _ends([self.today], points, target, 0.0)
            lower = np.where(today[0] > 0.0, lower, 0.0)
            upper = np.where(today[1] < 0.0, -1.0, upper)
        return np.maximum(lower, 0.0), upper_end(upper)

    def critics(self, point: Floats, target: int) -> list[Network]:
        """The same networks for every point: the model, or the sum of models, with lowered scores; and today's."""
        if self.center == [self.today]:
            return [as_network(_moved(self._sum, target, -self.changes.size))]
        amount = float(np.nextafter(len(self.center) * self.changes.size, 0.0))
        return [as_network(_moved(self._sum, target, -amount)), as_network(self.classifier)]

    @cached_property
    def _sum(self) -> Network:
        """The model, or a network whose logits are the sums of the models' logits."""
        networks = [one.classifier for one in self.center if isinstance(one.classifier, Network)]
        if (
            len(networks) < len(self.center)
            or len({(len(net.hidden), net.activations) for net in networks}) > 1
        ):
            raise InvalidInputError(
                "models: this generator needs networks with equal numbers of layers, and these models differ; "
                "use RNCE, which takes any models"
            )
        return networks[0] if len(networks) == 1 else _wide(networks)


def _ends(models: list[Margins], points: Floats, target: int, shift: float) -> Pair:
    """Bounds of the least mean margin, less the shift, (n,) each."""
    values, errors = zip(*(one.each(points, target) for one in models), strict=True)
    sizes = np.sum(np.abs(values), axis=0).max(axis=1)
    value = np.sum(values, axis=0).min(axis=1) / len(models) - shift
    # The sum, the division, the difference, and a witness's own forward pass round too.
    spare = WITNESS_SAFETY * (
        np.sum(errors, axis=0) + (len(models) + 4.0) * _EPSILON * (sizes + shift)
    )
    return value - spare, value + spare


def _moved(classifier: Classifier, target: int, by: float, *, scores: float = 1.0) -> Classifier:
    """The model with every margin of the target moved by `by`, after its scores are multiplied by `scores`."""
    signs = np.zeros(classifier.n_outputs)
    signs[0 if classifier.n_outputs == 1 else target] = (
        1.0 if classifier.n_outputs > 1 or target == 1 else -1.0
    )
    if isinstance(classifier, Network):
        # Never by more than that, whatever rounding does.
        last = move_within(scores * classifier.biases[-1], signs * by, abs(by))
        weights = [*classifier.weights[:-1], scores * classifier.weights[-1]]
        return classifier.with_parameters(weights, [*classifier.biases[:-1], last])
    assert isinstance(classifier, Scored)
    return classifier.moved((signs * by).tolist(), scores)


def _beside(today: Model, one: Model) -> Classifier:
    """A model as a classifier of the same input as today's; raises if it reads another input."""
    ours = today.classifier
    theirs = one.classifier
    if theirs.classes.astype(str).tolist() != ours.classes.astype(str).tolist():
        raise InvalidInputError(
            f"models: expected today's classes {ours.classes.tolist()}, got {theirs.classes.tolist()}"
        )
    alike = one.preprocess is None or same_preprocessing(today, one)
    if not (isinstance(ours, Network) and isinstance(theirs, Network) and alike):
        return one.beside(today)
    if theirs.n_features != ours.n_features:
        raise InvalidInputError(
            f"models: expected models of {ours.n_features} variables like today's, got {theirs.n_features}"
        )
    return theirs


def _wide(networks: list[Network]) -> Network:
    """One network whose logits are exactly the sums of theirs: all layers side by side, then a layer that adds."""
    first = networks[0]
    k = first.n_outputs
    weights = [np.vstack([net.weights[0] for net in networks])]
    weights += [
        block_diag(*(net.weights[i] for net in networks)) for i in range(1, len(first.weights))
    ]
    biases = [
        np.concatenate([net.biases[i] for net in networks]) for i in range(len(first.weights))
    ]
    adding = np.tile(np.eye(k), len(networks))
    return Network(
        [*weights, adding], [*biases, np.zeros(k)], first.classes, [*first.activations, "identity"]
    )
