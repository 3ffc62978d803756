"""Who has to accept a point: today's model, or every model in Δ. And which model objects, if one does."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds.abstraction import IntervalNetwork, Margin, margins_for
from holdfast.bounds.rounding import RoundingModel, magnitude
from holdfast.changes import LayerRadius, PlausibleChanges, move_within, p_norm
from holdfast.milp.acceptor import Acceptor
from holdfast.milp.domain import Domain
from holdfast.network import Floats, Network
from holdfast.verify import Certificates, certify
from holdfast.verify.attack import best_response
from holdfast.verify.margins import least_margins, rounding_of_margins
from holdfast.verify.problem import Problem

# Margins nearer to zero than so many rounding errors are left to fractions by `certify`, which takes its time.
_HAIRLINE = 2e3
_RESPONSES = 4


@dataclass(frozen=True)
class Objection:
    """A concrete model, and its least margin at the point it was asked about (negative: it rejects the point)."""

    network: Network
    margin: float


class Judge(ABC):
    """What a point has to pass."""

    network: Network
    target: int
    # What a point that passes can be called.
    praise: ClassVar[str]

    @abstractmethod
    def accepts(self, points: Floats, *, seconds: float | None = None) -> NDArray[np.bool_]:
        """Which points pass, proven."""

    @abstractmethod
    def clears(self, points: Floats) -> NDArray[np.bool_]:
        """Which points may well pass, and not so near the edge that proof needs fractions."""

    def first(self, points: Floats, *, hairline: bool = False, seconds: float | None = None) -> int | None:
        """The first point that passes, proven; without `hairline`, that clears too."""
        rows = np.arange(points.shape[0]) if hairline else np.flatnonzero(self.clears(points))
        start, block = 0, 1
        # Most that clear pass, so that the first few usually hold the answer.
        while start < rows.size:
            passed = np.flatnonzero(self.accepts(points[rows[start : start + block]], seconds=seconds))
            if passed.size:
                return int(rows[start + passed[0]])
            start, block = start + block, 2 * block
        return None

    @abstractmethod
    def objections(
        self, point: Floats, domain: Domain, *, thorough: bool = False, seconds: float | None = None
    ) -> list[Objection]:
        """Models that have to accept the point, the most critical first; at least one.

        `thorough`: if any model at all rejects the point, one that does is among them, given the `seconds` it takes.
        """

    @abstractmethod
    def opening(self, domain: Domain) -> list[Acceptor]:
        """What is known to have to accept any point, before one has been looked at."""

    def cut(self, network: Network) -> Acceptor:
        """A model that has to accept the point, as constraints."""
        return Acceptor.of(network, self.target)


@dataclass(frozen=True)
class Today(Judge):
    """Today's model gives the target class, with a margin of at least `demand` in its logits."""

    praise: ClassVar[str] = "accepted by today's model"

    network: Network
    target: int
    demand: float = 0.0

    def accepts(self, points: Floats, *, seconds: float | None = None) -> NDArray[np.bool_]:
        """Which points have the class and the margin."""
        return self._exceeds(points, np.zeros(points.shape[0]))

    def clears(self, points: Floats) -> NDArray[np.bool_]:
        """The same by more than rounding could undo."""
        return self._exceeds(points, rounding_of_margins(self.network, points))

    def _exceeds(self, points: Floats, spare: Floats) -> NDArray[np.bool_]:
        fine = self.network.predict_index(points) == self.target
        return np.asarray(fine & (least_margins(self.network, self.target, points) - self.demand >= spare))

    def objections(
        self, point: Floats, domain: Domain, *, thorough: bool = False, seconds: float | None = None
    ) -> list[Objection]:
        """Today's model itself."""
        margin = float(least_margins(self.network, self.target, point[None, :])[0])
        return [Objection(self.network, margin - self.demand)]

    def opening(self, domain: Domain) -> list[Acceptor]:
        """Today's model is all there is."""
        return [self.cut(self.network)]

    def cut(self, network: Network) -> Acceptor:
        """The model as constraints, the demanded margin taken off."""
        plain = Acceptor.of(network, self.target)
        return replace(plain, offsets=plain.offsets - self.demand)


@dataclass(frozen=True)
class EveryModel(Judge):
    """Every model in Δ gives the target class."""

    praise: ClassVar[str] = "accepted by every model in Δ"

    network: Network
    target: int
    changes: PlausibleChanges

    @cached_property
    def _margins(self) -> list[Margin]:
        return margins_for(self.network, self.target)

    @cached_property
    def _interval(self) -> tuple[IntervalNetwork, RoundingModel]:
        net = IntervalNetwork.of(self.network, self.changes)
        return net, RoundingModel.of(self.network, net)

    def accepts(self, points: Floats, *, seconds: float | None = None) -> NDArray[np.bool_]:
        """Which points are proven Δ-robust."""
        if seconds == 0.0:
            return np.zeros(points.shape[0], dtype=np.bool_)
        return np.asarray(self._certified(points, seconds).robust)

    def _certified(self, points: Floats, seconds: float | None) -> Certificates:
        label = self.network.classes[self.target]
        return certify(self.network, points, label, self.changes, time_limit=seconds, progress=False)

    def clears(self, points: Floats) -> NDArray[np.bool_]:
        """Which points keep a margin under best responses."""
        if self.changes.norm == math.inf and self.network.hidden and self.network.rectified:
            net, rounding = self._interval
            sizes = magnitude(points)
            problems = [Problem(self.network, net, margin, rounding, points, sizes) for margin in self._margins]
            reached = [best_response(problem).margin for problem in problems]
        else:
            reached = [np.array([self._worst(margin, x, np.sign(x))[1] for x in points]) for margin in self._margins]
        return np.asarray(np.min(reached, axis=0) > _HAIRLINE * rounding_of_margins(self.network, points))

    def objections(
        self, point: Floats, domain: Domain, *, thorough: bool = False, seconds: float | None = None
    ) -> list[Objection]:
        """For each rival the worst model that best responses reach; then, if need be, the certificate's witness."""
        # Where a variable is 0 its weight does not matter here; for the points around it the worst is what counts.
        signs = np.where((point > 0.0) | ((point == 0.0) & (domain.upper > 0.0)), 1.0, -1.0)
        found = [self._objection(self._worst(margin, point, signs)[0], point) for margin in self._margins]
        found.sort(key=lambda objection: objection.margin)
        if thorough and found[0].margin >= 0.0 and seconds != 0.0:
            witness = self._certified(point[None, :], seconds).witness(0)
            if witness is not None and self.changes.contains(self.network, witness):
                found.insert(0, self._objection(witness, point))
        return found

    def _objection(self, network: Network, point: Floats) -> Objection:
        return Objection(network, float(least_margins(network, self.target, point[None, :])[0]))

    def _worst(self, margin: Margin, point: Floats, signs: Floats) -> tuple[Network, float]:
        """Answer today's model by the worst for its slopes, that one by the worst for its own, and so on.

        The model with the least margin, and that.
        """
        worst, least, current = self.network, np.inf, self.network
        for _ in range(_RESPONSES if self.network.hidden else 1):
            current = self._response(current, margin, point, signs)
            reached = float(margin.of_logits(current.logits(point[None, :]))[0])
            if reached >= least:
                break
            worst, least = current, reached
        return worst, least

    def _response(self, current: Network, margin: Margin, point: Floats, signs: Floats) -> Network:
        """The model in Δ with the least margin at the point, were every neuron as active as it is in `current`."""
        ends = np.zeros(current.n_outputs)
        for output, sign in ((margin.above, 1.0), (margin.below, -1.0)):
            ends[output] = sign if output >= 0 else ends[output]
        values, active, slopes = slopes_at(current, ends, point)
        if self.changes.norm != math.inf:
            signals = [slope * on for slope, on in zip(slopes, active, strict=True)]
            moved = ball_model(self.network, self.changes, values, [*signals, ends])
            return moved if self.changes.contains(self.network, moved) else self.network
        sides = [np.where(slope > 0.0, -1.0, 1.0) for slope in slopes]
        return counter_model(self.network, self.changes.layer_radii(self.network), point, [*sides, -ends], signs)

    def opening(self, domain: Domain) -> list[Acceptor]:
        """The interval bound where it is exact; else counter-models will tell."""
        if self.changes.norm == math.inf and self.network.rectified and len(self.network.hidden) <= 1:
            return [Acceptor.interval(self.network, self.changes, self.target, domain)]
        return []


def slopes_at(network: Network, ends: Floats, point: Floats) -> tuple[list[Floats], list[Floats], list[Floats]]:
    """What each layer reads, which hidden neurons are on, and how much `ends . logits` grows with each one's value.

    A neuron that is off has its slope too: which way to push it, should it come on.
    """
    values, active = [point], []
    for weight, bias, activation in zip(network.weights[:-1], network.biases[:-1], network.activations, strict=True):
        before = weight @ values[-1] + bias
        active.append(np.ones(before.size) if activation == "identity" else (before > 0.0).astype(np.float64))
        values.append(before * active[-1])
    slopes, after = [], ends
    for i in range(len(active), 0, -1):
        slopes.append(after @ network.weights[i])
        after = slopes[-1] * active[i - 1]
    return values, active, slopes[::-1]


def counter_model(network: Network, radii: list[LayerRadius], x: Floats, sides: list[Floats], signs: Floats) -> Network:
    """The model in Δ whose neurons, the outputs too, sit on `sides`, layer by layer.

    `signs` are those of x, with a choice where x is 0. Rounding goes towards today's parameters: a model that leaves Δ
    by one bit need not accept, and would make a false bound.
    """
    weights, biases, values = [], [], x
    for i, (side, radius) in enumerate(zip(sides, radii, strict=True)):
        weight, bias = network.weights[i], network.biases[i]
        weights.append(move_within(weight, side[:, None] * radius.weight * signs, radius.weight))
        biases.append(move_within(bias, side * radius.bias, radius.bias))
        values = weights[i] @ values + biases[i]
        if i < len(network.activations) and network.activations[i] == "relu":
            values = np.maximum(values, 0.0)
        signs = np.where(values < 0.0, -1.0, 1.0)
    return network.with_parameters(weights, biases)


def ball_model(network: Network, changes: PlausibleChanges, values: list[Floats], signals: list[Floats]) -> Network:
    """Today's model moved to the edge of a p-ball, a hair inside, against the gradient  signals x (values, 1)."""
    radii, bias = changes.layer_radii(network), float(changes.biases)
    steps = [np.outer(signal, np.append(value, bias)) for signal, value in zip(signals, values, strict=True)]
    for group in [[i] for i in range(len(steps))] if changes.per_layer else [list(range(len(steps)))]:
        largest = max(np.abs(steps[i]).max() for i in group)
        if largest == 0.0:
            continue
        for i in group:
            # The direction of the unit p-ball with the greatest product; for p = 1 all goes into the largest slopes.
            size = np.abs(steps[i]) / largest
            power = math.inf if changes.norm == 1.0 else 1.0 / (changes.norm - 1.0)
            steps[i] = np.sign(steps[i]) * size**power
        length = p_norm(np.concatenate([steps[i].ravel() for i in group]), changes.norm)
        for i in group:
            steps[i] = -radii[i].weight * (1.0 - 1e-12) / length * steps[i]
    weights = [weight + step[:, :-1] for weight, step in zip(network.weights, steps, strict=True)]
    return network.with_parameters(weights, [b + step[:, -1] for b, step in zip(network.biases, steps, strict=True)])
