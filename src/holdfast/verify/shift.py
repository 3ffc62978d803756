"""Who decides under a shift of the margin: below today's, or below the mean of some models."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from holdfast.changes import EnsembleShift, PlausibleShift, move_within
from holdfast.classifier import Classifier
from holdfast.errors import InvalidInputError
from holdfast.importers import Model, load_model
from holdfast.importers.preprocessing import same_preprocessing
from holdfast.network import Floats, Network
from holdfast.scored import Scored
from holdfast.verify.closed_form import ClosedForm, Margins
from holdfast.verify.search import WITNESS_SAFETY


class Shift(ClosedForm):
    """Margins may fall by so much: below today's, or below the mean of some models."""

    def __init__(self, model: Model, changes: PlausibleShift | EnsembleShift) -> None:
        self.classifier, self.changes = model.classifier, changes
        self.today = Margins(model.classifier)
        # Of several models the sum is a model; its margins are as many times the mean's.
        self.count = 1
        self.center = self.today
        if isinstance(changes, EnsembleShift):
            self.count = len(changes.models)
            self.center = Margins(_sum_of(model, changes))

    def worst(self, points: Floats, target: int) -> tuple[Floats, Floats]:
        """The margin less the shift; no more than today's."""
        ends = [self._ends(self.center, points, target, self.count, self.changes.size)]
        if self.center is not self.today:
            ends.append(self._ends(self.today, points, target, 1, 0.0))
        return np.min([low for low, _ in ends], axis=0), np.min([high for _, high in ends], axis=0)

    @staticmethod
    def _ends(margins: Margins, points: Floats, target: int, count: int, shift: float) -> tuple[Floats, Floats]:
        values, error = margins.each(points, target)
        value = values.min(axis=1) / count - shift
        # The division, the difference, and a witness's own forward pass round too.
        rounded = (error > 0.0) | (count > 1)
        spare = error / count + 4.0 * np.finfo(np.float64).eps * (np.abs(value) + shift) * rounded
        return value - WITNESS_SAFETY * spare, value + WITNESS_SAFETY * spare

    def holds(self, point: Floats, target: int) -> bool:
        """Each margin in fractions."""
        shift = Fraction(self.changes.size) * self.count
        asked = [(margin - shift, lost) for margin, lost in self.center.exactly(point, target)]
        asked += self.today.exactly(point, target)
        return all(margin > 0 or (margin == 0 and not lost) for margin, lost in asked)

    def counter_model(self, point: Floats, target: int) -> Classifier | None:
        """Today's model with its scores lowered to the least that is allowed, or today's as it is."""
        x = point[None, :]
        if int(self.classifier.predict_index(x)[0]) != target:
            return self.classifier
        least = min(margin for margin, _ in self.center.exactly(point, target)) / self.count
        today = min(margin for margin, _ in self.today.exactly(point, target))
        # How far today's scores fall until their margin is the least allowed one, rounded towards none.
        fall = float(today - (least - Fraction(self.changes.size)))
        for amount in (fall, float(np.nextafter(fall, -np.inf))):
            if Fraction(amount) <= today - (least - Fraction(self.changes.size)):
                lowered = _lowered(self.classifier, target, amount)
                if int(lowered.predict_index(x)[0]) != target:
                    return lowered
        return None

    def allows(self, other: Classifier, point: Floats, target: int) -> bool:
        """Whether `other` is what today's model may become at this point: its margin is not too far below."""
        new, old = (min(m for m, _ in own.exactly(point, target)) for own in (Margins(other), self.center))
        return other == self.classifier or new >= old / self.count - Fraction(self.changes.size)

    def radius(self, points: Floats, target: int) -> tuple[Floats, Floats]:
        """The margin itself."""
        lower, upper = self._ends(self.center, points, target, self.count, 0.0)
        if self.center is not self.today:
            today = self._ends(self.today, points, target, 1, 0.0)
            lower = np.where(today[0] < 0.0, -np.inf, lower)
            upper = np.where(today[1] < 0.0, -np.inf, upper)
        return np.maximum(lower, 0.0), np.maximum(upper, 0.0)

    def critics(self, point: Floats, target: int) -> list[Network]:
        """The same whatever the point: the model, or the sum of models, with its scores lowered."""
        found = [self.center.classifier] if self.center is self.today else [self.center.classifier, self.classifier]
        networks = [one for one in found if isinstance(one, Network)]
        if len(networks) != len(found):
            raise InvalidInputError(
                "models: expected networks that read what today's reads, for a generator that computes with them, got "
                f"{found[0]!r}; RNCE takes any"
            )
        amount = self.count * self.changes.size
        lowered = _lowered(networks[0], target, amount if self.count == 1 else float(np.nextafter(amount, 0.0)))
        assert isinstance(lowered, Network)
        return [lowered, *networks[1:]]


def _lowered(classifier: Classifier, target: int, amount: float) -> Classifier:
    """The model with every margin of the target lower by `amount`."""
    signs = np.zeros(classifier.n_outputs)
    signs[0 if classifier.n_outputs == 1 else target] = 1.0 if classifier.n_outputs > 1 or target == 1 else -1.0
    if isinstance(classifier, Network):
        # Never by more than the amount, whatever rounding does.
        last = move_within(classifier.biases[-1], -signs * amount, amount)
        return classifier.with_parameters(classifier.weights, [*classifier.biases[:-1], last])
    assert isinstance(classifier, Scored)
    return classifier.moved((-signs * amount).tolist())


@dataclass(frozen=True)
class _Sum:
    """The sum of the logits of several models."""

    parts: tuple[Scored, ...]

    def __call__(self, table: Any) -> Floats:
        total: Floats = np.sum([np.asarray(part.score(table)).reshape(len(table), -1) for part in self.parts], axis=0)
        return total


def _sum_of(today: Model, changes: EnsembleShift) -> Classifier:
    """The sum of the models: one wide network where they are networks that read the same, else their scores summed."""
    if not changes.models:
        raise InvalidInputError("models: expected the retrained models, got only their names from a file")
    loaded = [load_model(model) for model in changes.models]
    for one in loaded:
        if not np.array_equal(one.classifier.classes.astype(str), today.classifier.classes.astype(str)):
            raise InvalidInputError(
                f"models: expected the classes {today.classifier.classes.tolist()}, "
                f"got {one.classifier.classes.tolist()}"
            )
        if today.preprocess is None and one.preprocess is not None:
            raise InvalidInputError("models: expected models that read what today's reads, got one with preprocessing")
    if all(isinstance(one.classifier, Network) for one in [today, *loaded]):
        networks = [one.network for one in loaded]
        alike = all(one.preprocess is None or same_preprocessing(today, one) for one in loaded)
        if {net.n_features for net in networks} != {today.classifier.n_features}:
            raise InvalidInputError(
                f"models: expected models of {today.classifier.n_features} variables, "
                f"got {sorted({net.n_features for net in networks})}"
            )
        if not alike:
            raise InvalidInputError(
                "models: expected models with today's preprocessing, got one whose preprocessing was fitted anew; "
                "wrap them with hf.scored to take them as functions of the table"
            )
        if len({(len(net.hidden), net.activations) for net in networks}) == 1:
            return _wide(networks)
    scores = tuple(_as_scores(one, today) for one in loaded)
    return Scored(_Sum(scores), tuple(today.classifier.classes.tolist()), *_reading(today))


def _reading(today: Model) -> tuple[Any, ...]:
    """Columns, width and how points become a table, as today's model has them."""
    if isinstance(today.classifier, Scored):
        own = today.classifier
        return own.columns, own.width, None, "a sum of models", own.batch, own.decode
    return None, today.classifier.n_features, None, "a sum of networks of different builds"


def _as_scores(one: Model, today: Model) -> Scored:
    """A model as a function of what today's model reads."""
    if isinstance(one.classifier, Scored):
        return one.classifier
    score = one.classifier.logits if not isinstance(today.classifier, Scored) else one.logits
    return Scored(score, tuple(one.classifier.classes.tolist()))


def _wide(networks: list[Network]) -> Network:
    """One network whose logits are the sums of theirs, exactly: all layers side by side, then an adding one."""
    first, k = networks[0], networks[0].n_outputs
    weights = [np.vstack([net.weights[0] for net in networks])]
    weights += [block_diag(*(net.weights[i] for net in networks)) for i in range(1, len(first.weights))]
    biases = [np.concatenate([net.biases[i] for net in networks]) for i in range(len(first.weights))]
    adding = np.tile(np.eye(k), len(networks))
    return Network([*weights, adding], [*biases, np.zeros(k)], first.classes, [*first.activations, "identity"])
