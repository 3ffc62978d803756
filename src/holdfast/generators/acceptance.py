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
from holdfast.changes import LayerRadius, PlausibleChanges
from holdfast.milp.acceptor import Acceptor
from holdfast.milp.domain import Domain
from holdfast.network import Floats, Network
from holdfast.verify import certify
from holdfast.verify.attack import best_response
from holdfast.verify.margins import least_margins, rounding_of_margins
from holdfast.verify.problem import Problem

# Margins nearer to zero than this are left to fractions by `certify`, which takes its time.
_HAIRLINE = 2e-9


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
    def accepts(self, points: Floats, *, hairline: bool = True, seconds: float | None = None) -> NDArray[np.bool_]:
        """Which points pass, proven; without `hairline`, not those so near the edge that proof needs fractions."""

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

    def accepts(self, points: Floats, *, hairline: bool = True, seconds: float | None = None) -> NDArray[np.bool_]:
        """Which points have the class and the margin; unless a hairline will do, by more than rounding could undo."""
        fine = self.network.predict_index(points) == self.target
        spare = 0.0 if hairline else rounding_of_margins(self.network, points)
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
    def box(self) -> PlausibleChanges:
        """Δ itself for norm inf, else the box around it: robust there is robust in Δ."""
        return self.changes if self.changes.norm == math.inf else replace(self.changes, norm=math.inf)

    @property
    def interval_is_exact(self) -> bool:
        """Whether the interval bound accepts exactly the Δ-robust points."""
        return len(self.network.hidden) <= 1

    @cached_property
    def _questions(self) -> tuple[IntervalNetwork, list[Margin], list[LayerRadius]]:
        net = IntervalNetwork.of(self.network, self.box)
        return net, margins_for(self.network, self.target), self.box.layer_radii(self.network)

    def accepts(self, points: Floats, *, hairline: bool = True, seconds: float | None = None) -> NDArray[np.bool_]:
        """Which points are proven Δ-robust."""
        label = self.network.classes[self.target]
        rows = np.arange(points.shape[0]) if hairline else np.flatnonzero(self._attacked(points) > _HAIRLINE)
        robust = np.zeros(points.shape[0], dtype=np.bool_)
        if rows.size and seconds != 0.0:
            certificates = certify(self.network, points[rows], label, self.changes, time_limit=seconds, progress=False)
            robust[rows] = certificates.robust
        return robust

    def _attacked(self, points: Floats) -> Floats:
        """The least margin that best responses reach, (n,)."""
        net, margins, _ = self._questions
        if not net.depth:
            return np.full(points.shape[0], np.inf)
        reached = [best_response(Problem.of(self.network, net, margin, points)).margin for margin in margins]
        return np.asarray(np.min(reached, axis=0))

    def objections(
        self, point: Floats, domain: Domain, *, thorough: bool = False, seconds: float | None = None
    ) -> list[Objection]:
        """For each rival the worst model that best responses reach; then, if need be, the certificate's witness."""
        net, margins, radii = self._questions
        # Where a variable is 0 its weight does not matter here; for the points around it the worst is what counts.
        signs = np.where((point > 0.0) | ((point == 0.0) & (domain.upper > 0.0)), 1.0, -1.0)
        found = []
        for margin in margins:
            if net.depth:
                sides = best_response(Problem.of(self.network, net, margin, point[None, :]), rounds=4).sides[0]
            else:
                sides = np.zeros(0)
            worst = counter_model(self.network, radii, margin, signs, sides.astype(np.float64))
            found.append(Objection(worst, float(least_margins(worst, self.target, point[None, :])[0])))
        found.sort(key=lambda objection: objection.margin)
        if thorough and found[0].margin >= 0.0 and seconds != 0.0:
            label = self.network.classes[self.target]
            certificates = certify(self.network, point[None, :], label, self.box, time_limit=seconds, progress=False)
            witness = certificates.witness(0)
            if witness is not None:
                margin_there = float(least_margins(witness, self.target, point[None, :])[0])
                found.insert(0, Objection(witness, margin_there))
        return found

    def opening(self, domain: Domain) -> list[Acceptor]:
        """The interval bound where it is exact; else counter-models will tell."""
        if self.interval_is_exact:
            return [Acceptor.interval(self.network, self.box, self.target, domain)]
        return []


def counter_model(network: Network, radii: list[LayerRadius], margin: Margin, signs: Floats, sides: Floats) -> Network:
    """The model in Δ whose hidden neurons sit on `sides` for inputs of these signs, its output rows at their worst."""
    weights, biases = [], []
    layers = np.split(sides, np.cumsum(network.hidden)) if network.hidden else [sides]
    for i, (weight, bias) in enumerate(zip(network.weights[:-1], network.biases[:-1], strict=True)):
        weights.append(weight + np.outer(layers[i] * radii[i].weight, signs))
        biases.append(bias + layers[i] * radii[i].bias)
        signs = np.ones(weight.shape[0])
    step = np.zeros(network.n_outputs)
    if margin.above >= 0:
        step[margin.above] = -1.0
    if margin.below >= 0:
        step[margin.below] = 1.0
    weights.append(network.weights[-1] + np.outer(step * radii[-1].weight, signs))
    biases.append(network.biases[-1] + step * radii[-1].bias)
    return Network(weights, biases, network.classes)
