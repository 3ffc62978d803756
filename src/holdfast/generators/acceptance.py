"""Who has to accept a point: today's model, or every model in Δ. And which model objects, if one does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import balls
from holdfast.bounds.layers import Margin
from holdfast.changes import PlausibleChanges
from holdfast.deadline import Deadline
from holdfast.importers.model import as_network
from holdfast.milp.acceptor import Acceptor
from holdfast.milp.domain import Domain
from holdfast.network import Floats, Network
from holdfast.verify.attack import attack
from holdfast.verify.closed_form import ClosedForm
from holdfast.verify.deciders import Decider, toward
from holdfast.verify.engine import Engine
from holdfast.verify.margins import least_margins, rounding_of_margins
from holdfast.verify.verdict import ROBUST, Outcome
from holdfast.verify.witness import build_witness

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
class ClosedFormJudge(Judge):
    """Every model that another kind of change allows gives the target class: the worst of them is a closed form."""

    praise: ClassVar[str] = "accepted by every model in Δ"

    decider: ClosedForm
    target: int

    @property
    def network(self) -> Network:  # type: ignore[override]
        """Today's model."""
        return as_network(self.decider.classifier)

    def accepts(self, points: Floats, *, seconds: float | None = None) -> NDArray[np.bool_]:
        """Which points hold."""
        return np.asarray(self.decider.settle(points, self.target).verdict == ROBUST)

    def clears(self, points: Floats) -> NDArray[np.bool_]:
        """Which points hold without the need of fractions."""
        return np.asarray(self.decider.worst(points, self.target)[0] > 0.0)

    def objections(
        self, point: Floats, domain: Domain, *, thorough: bool = False, seconds: float | None = None
    ) -> list[Objection]:
        """The worst models for this point."""
        critics = self.decider.critics(point, self.target)
        found = [Objection(one, float(least_margins(one, self.target, point[None, :])[0])) for one in critics]
        return sorted(found, key=lambda objection: objection.margin)

    def opening(self, domain: Domain) -> list[Acceptor]:
        """Counter-models will tell."""
        return []


def judge_of(decider: Decider, target: int) -> Judge:
    """Who has to accept a point under any kind of change."""
    decider = toward(decider, target)
    if isinstance(decider, Engine):
        return EveryModel(decider, target)
    return ClosedFormJudge(decider, target)


@dataclass(frozen=True)
class EveryModel(Judge):
    """Every model in Δ gives the target class."""

    praise: ClassVar[str] = "accepted by every model in Δ"

    engine: Engine
    target: int

    @property
    def network(self) -> Network:  # type: ignore[override]
        """Today's model."""
        return self.engine.network

    @property
    def changes(self) -> PlausibleChanges:
        """Δ."""
        return self.engine.changes

    def accepts(self, points: Floats, *, seconds: float | None = None) -> NDArray[np.bool_]:
        """Which points are proven Δ-robust."""
        if seconds == 0.0:
            return np.zeros(points.shape[0], dtype=np.bool_)
        return np.asarray(self._settled(points, seconds).verdict == ROBUST)

    def _settled(self, points: Floats, seconds: float | None) -> Outcome:
        return self.engine.settle(points, self.target, deadline=Deadline.after(seconds), keep=False)

    def clears(self, points: Floats) -> NDArray[np.bool_]:
        """Which points keep a margin under best responses."""
        prepared = self.engine.prepared(self.target)
        if self.engine.ball or not self.network.hidden:
            reached = [
                np.array([self._worst(k, x, np.sign(x))[1] for x in points]) for k in range(len(prepared.margins))
            ]
        else:
            reached = [attack(layers, points)[0] for layers in prepared.layers]
        return np.asarray(np.min(reached, axis=0) > _HAIRLINE * rounding_of_margins(self.network, points))

    def objections(
        self, point: Floats, domain: Domain, *, thorough: bool = False, seconds: float | None = None
    ) -> list[Objection]:
        """For each rival the worst model that best responses reach; then, if need be, the engine's counter-model."""
        # Where a variable is 0 its weight does not matter here; for the points around it the worst is what counts.
        signs = np.where((point > 0.0) | ((point == 0.0) & (domain.upper > 0.0)), 1.0, -1.0)
        rivals = range(len(self.engine.prepared(self.target).margins))
        found = [self._objection(self._worst(k, point, signs)[0], point) for k in rivals]
        found.sort(key=lambda objection: objection.margin)
        if thorough and found[0].margin >= 0.0 and seconds != 0.0:
            breaker = self._settled(point[None, :], seconds).breaker(0)
            if breaker is not None:
                margin, chosen = breaker
                witness = chosen if isinstance(chosen, Network) else self._on_sides(margin, point, chosen, signs)
                found = [self._objection(witness, point), *found]
        return found

    def _objection(self, network: Network, point: Floats) -> Objection:
        return Objection(network, float(least_margins(network, self.target, point[None, :])[0]))

    def _on_sides(self, margin: Margin, point: Floats, chosen: Floats, signs: Floats) -> Network:
        return build_witness(self.network, self.engine.radii, margin, point, chosen, signs)

    def _worst(self, k: int, point: Floats, signs: Floats) -> tuple[Network, float]:
        """The model in Δ with the least margin over the k-th rival that best responses reach, and that margin."""
        prepared, points = self.engine.prepared(self.target), point[None, :]
        margin, layers = prepared.margins[k], prepared.layers[k]
        if self.engine.ball:
            worst = balls.worst(self.network, self.changes, point, margin)
        elif layers.hidden:
            _, chosen = attack(layers, points, _RESPONSES)
            worst = self._on_sides(margin, point, chosen[0].astype(np.float64), signs)
        else:
            worst = self._on_sides(margin, point, np.zeros(0), signs)
        return worst, float(margin.of_logits(worst.logits(points))[0])

    def opening(self, domain: Domain) -> list[Acceptor]:
        """The interval bound where it is exact; else counter-models will tell."""
        if not self.engine.ball and self.network.rectified and len(self.network.hidden) <= 1:
            return [Acceptor.interval(self.network, self.changes, self.target, domain)]
        return []
