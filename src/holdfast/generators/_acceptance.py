"""The models that have to accept a point: today's model, or every model in Δ; and a model that rejects it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from holdfast._classifier import Classifier
from holdfast._deadline import NO_LIMIT, Deadline
from holdfast._network import Bools, Floats, Network
from holdfast._trees import TreeEnsemble
from holdfast.bounds import _balls as balls
from holdfast.features import FeatureSpace
from holdfast.features._codec import Rows
from holdfast.generators._cutting import CuttingPlanes
from holdfast.generators._exact import Searcher
from holdfast.generators._tree_judge import TreesToday, trees_under
from holdfast.importers._model import as_network
from holdfast.milp._acceptor import Acceptor
from holdfast.milp._domain import Domain
from holdfast.milp._people import PointLimits
from holdfast.verify._attack import attack
from holdfast.verify._deciders import Decider, MovingThreshold, toward
from holdfast.verify._engine import Engine
from holdfast.verify._margins import least_margins, rounding_of_margins
from holdfast.verify._verdict import NOT_ROBUST, ROBUST
from holdfast.verify._witness import build_witness

# Margins nearer to zero than so many rounding errors are left to fractions by `certify`, which takes its time.
_HAIRLINE = 2e3
_RESPONSES = 4


@dataclass(frozen=True)
class Judge(Searcher):
    """A model that has to accept a point: it gives the target class a margin of at least `demand` in the logits."""

    network: Network
    target: int
    demand: float = field(default=0.0, kw_only=True)

    def search(
        self,
        space: FeatureSpace,
        person: Rows,
        limits: PointLimits,
        deadline: Deadline,
        *,
        any_will_do: bool = False,
    ) -> tuple[Floats | None, float]:
        """By cutting planes: the models that object become cuts."""
        return CuttingPlanes(self, space, person, limits, deadline, any_will_do).run()

    @abstractmethod
    def accepts(self, points: Floats, deadline: Deadline = NO_LIMIT) -> Bools:
        """Which points pass, proven."""

    @abstractmethod
    def clears(self, points: Floats) -> Bools:
        """Which points may well pass, and not so near the edge that proof needs fractions."""

    @abstractmethod
    def critics(self, point: Floats) -> list[Network]:
        """Models that have to accept the point, the worst of them as far as that is soon known; at least one."""

    def breakers(self, point: Floats, deadline: Deadline) -> list[Network]:
        """A model that rejects the point, except the critics, if one is found in time."""
        return []

    def first(self, points: Floats, deadline: Deadline, *, hairline: bool = False) -> int | None:
        """The first point that passes, proven; without `hairline`, that clears too."""
        rows = np.arange(len(points)) if hairline else np.flatnonzero(self.clears(points))
        block = 1
        # Most that clear pass, so that the first few usually hold the answer.
        while rows.size:
            some, rows = np.split(rows, [block])
            passed = some[self.accepts(points[some], deadline)]
            if passed.size:
                return int(passed[0])
            block *= 2
        return None

    def objections(
        self, point: Floats, thorough: Deadline | None = None
    ) -> list[tuple[float, Network]]:
        """Models that have to accept the point with their margins there, the most critical first; at least one.

        With a deadline: if any model at all rejects the point, one that does comes first, given the time.
        """
        critics = self.weighed(point, self.critics(point))
        if thorough is not None and critics[0][0] >= 0.0 and not thorough.over:
            critics = self.weighed(point, self.breakers(point, thorough)) + critics
        return critics

    def weighed(self, point: Floats, networks: list[Network]) -> list[tuple[float, Network]]:
        """What each model leaves beyond the demand, negative where it rejects the point; the least first."""
        margins = [
            float(least_margins(one, self.target, point[None, :])[0]) - self.demand
            for one in networks
        ]
        return sorted(zip(margins, networks, strict=True), key=itemgetter(0))

    def opening(self, domain: Domain) -> list[Acceptor]:
        """What is known to have to accept any point, before one has been looked at; else counter-models will tell."""
        return []


@dataclass(frozen=True)
class Today(Judge):
    """Today's model alone."""

    who = "today's model"

    def accepts(
        self, points: Floats, deadline: Deadline = NO_LIMIT, spare: Floats | float = 0.0
    ) -> Bools:
        """Which points have the class and the margin."""
        fine = self.network.predict_index(points) == self.target
        return np.asarray(
            fine & (least_margins(self.network, self.target, points) - self.demand >= spare)
        )

    def clears(self, points: Floats) -> Bools:
        """The same by more than rounding could undo."""
        return self.accepts(points, spare=rounding_of_margins(self.network, points))

    def critics(self, point: Floats) -> list[Network]:
        """Today's model itself."""
        return [self.network]

    def opening(self, domain: Domain) -> list[Acceptor]:
        """Today's model is all there is."""
        return [Acceptor.of(self.network, self.target, self.demand)]


def today(classifier: Classifier, target: int, demand: float) -> Searcher:
    """Today's model alone, of any kind."""
    if isinstance(classifier, TreeEnsemble):
        return TreesToday(classifier, target, demand=demand)
    return Today(as_network(classifier, "generator"), target, demand=demand)


def judge_of(decider: Decider, target: int) -> Searcher:
    """Who has to accept a point under any kind of change."""
    if isinstance(decider, MovingThreshold):
        decider.check_today(target)
    one = toward(decider, target)
    if isinstance(one, Engine):
        return EveryNetwork(one.network, target, one)
    return trees_under(one, target) or EveryModel(
        as_network(one.classifier, "generator"), target, one
    )


@dataclass(frozen=True)
class EveryModel(Judge):
    """Every model that a change allows, where the worst of them is a closed form."""

    decider: Any

    def accepts(self, points: Floats, deadline: Deadline = NO_LIMIT) -> Bools:
        """Which points are proven to hold."""
        outcome = self.decider.settle(points, self.target, deadline=deadline, keep=False)
        return np.asarray(outcome.verdict == ROBUST)

    def clears(self, points: Floats) -> Bools:
        """Which points hold without the need of fractions."""
        return np.asarray(self.decider.worst(points, self.target)[0] > 0.0)

    def critics(self, point: Floats) -> list[Network]:
        """The worst models for this point."""
        return list(self.decider.critics(point, self.target))


@dataclass(frozen=True)
class EveryNetwork(EveryModel):
    """Every network whose parameters lie in Δ."""

    decider: Engine

    def clears(self, points: Floats) -> Bools:
        """Which points keep a margin under best responses."""
        if self.decider.ball:
            reached = np.array([self.objections(x)[0][0] for x in points])
        else:
            prepared = self.decider.prepared(self.target).layers
            margins = [
                attack(one, points)[0] if one.hidden else one.reached(points) for one in prepared
            ]
            reached = np.min(margins, axis=0)
        return reached > _HAIRLINE * rounding_of_margins(self.network, points)

    def critics(self, point: Floats) -> list[Network]:
        """For each rival the model in Δ with the least margin over it that best responses reach."""
        prepared = self.decider.prepared(self.target)
        critics = []
        for margin, layers in zip(prepared.margins, prepared.layers, strict=True):
            if self.decider.ball:
                critics.append(balls.worst(self.network, self.decider.changes, point, margin))
                continue
            chosen = np.zeros(0)
            if layers.hidden:
                chosen = attack(layers, point[None, :], _RESPONSES)[1][0].astype(np.float64)
            critics.append(build_witness(self.network, self.decider.radii, margin, point, chosen))
        return critics

    def breakers(self, point: Floats, deadline: Deadline) -> list[Network]:
        """The engine's counter-model."""
        outcome = self.decider.settle(point[None, :], self.target, deadline=deadline, keep=False)
        broken = outcome.verdict[0] == NOT_ROBUST
        witness = self.decider.witness(outcome, 0, point, self.target) if broken else None
        return [] if witness is None else [witness]

    def opening(self, domain: Domain) -> list[Acceptor]:
        """The interval bound where it is exact."""
        if not self.decider.ball and self.network.rectified and len(self.network.hidden) <= 1:
            return [Acceptor.interval(self.network, self.decider.changes, self.target, domain)]
        return []
