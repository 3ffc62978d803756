"""The trees that have to accept a row, with a search for the cheapest row that they accept."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast._classifier import Floats
from holdfast._deadline import Deadline
from holdfast._forest import Forest
from holdfast._trees import TreeEnsemble
from holdfast.changes import EnsembleShift
from holdfast.features import FeatureSpace
from holdfast.features._codec import Rows
from holdfast.generators._exact import Searcher
from holdfast.generators._tree_forms import LinearForms, demanded, forms_of
from holdfast.generators._tree_person import PersonChoices, filled_gaps
from holdfast.generators._tree_pieces import Pieces, pieces_of
from holdfast.generators._tree_problem import Cells, Problem
from holdfast.generators._tree_reading import Questions, TreeReader
from holdfast.generators._tree_search import TreeSearch
from holdfast.milp._people import PointLimits
from holdfast.verify._closed_form import ClosedForm
from holdfast.verify._margins import least_margins
from holdfast.verify._shift import Shift
from holdfast.verify._trees import MovingTrees, rivals
from holdfast.verify._verdict import NOT_ROBUST, ROBUST

Mask = NDArray[np.bool_]
# A cost so near to what its cells cost, relatively, is theirs.
_SAME = 1e-9
# Where rounding takes a number to the wrong side of a threshold, it is moved on by so many of its last bits.
_NUDGES = (0, 1, 2, 4, 16)
# The share of the time that may go into splitting trees.
_SPLITTING = 0.3
# How far from being accepted a row is that breaks a rule.
_FAR = 1e100


@dataclass
class Worst:
    """The worst that trees can become, over the columns of a space: what a search needs to know of a model and Δ."""

    asked: Questions
    forms: LinearForms
    forest: Forest
    n_columns: int
    known: Pieces | None = None

    def pieces(self, deadline: Deadline) -> Pieces:
        """The boxes that trees fall into: as far as a share of the time allows; what time cut off is not kept."""
        until = deadline.share(_SPLITTING)
        pieces = self.known or pieces_of(
            self.forest, self.forms.worth, self.asked, self.n_columns, until
        )
        if not until.over:
            self.known = pieces
        return pieces


@dataclass
class TreeJudge(Searcher):
    """Trees, and the set of their plausible changes."""

    ensemble: TreeEnsemble
    target: int
    # What was worked out for a space, which many people have in common.
    seen: list[tuple[FeatureSpace, TreeReader, Worst]] = field(default_factory=list, repr=False)

    @abstractmethod
    def judged(self, points: Floats, deadline: Deadline) -> tuple[Mask, Mask]:
        """Which points are accepted, and of which that is known for certain."""

    @abstractmethod
    def margins(self, points: Floats) -> Floats:
        """How sure each point is to be accepted: it is above 0."""

    @abstractmethod
    def forms(self) -> LinearForms:
        """What each leaf adds at worst, over which cuts, and what may be taken off: see `LinearForms`."""

    def search(
        self,
        space: FeatureSpace,
        person: Rows,
        limits: PointLimits,
        deadline: Deadline,
        *,
        any_will_do: bool = False,
    ) -> tuple[Floats | None, float]:
        """As `Searcher.search`."""
        worst = self.worst(space, person)
        pieces = worst.pieces(deadline)
        asking = _Asking(self, space, person, limits, deadline)
        bound = np.inf
        for filled in filled_gaps(space, person):
            choices = PersonChoices(space, person, worst.asked, filled)
            if not all(options.number.size for options in choices.options):
                continue
            problem = choices.problem(worst.asked, pieces, worst.forms, limits.max_changed)
            asking.turn_to(choices, problem, trusted=pieces.exact and not space.rules)
            bound = min(bound, asking.run(any_will_do) + choices.apart)
            if any_will_do and asking.point is not None:
                break
        # The costs that this is compared with are sums of rounded numbers.
        bound *= 1.0 - 8.0 * space.n_variables * np.finfo(np.float64).eps
        return asking.point, min(bound, asking.cost)

    def worst(self, space: FeatureSpace, person: Rows) -> Worst:
        """What a search needs to know, worked out once for all people of a space."""
        for known, reader, worst in self.seen:
            if known is space and reader.covers(person):
                return worst
        reader, forms = TreeReader(self.ensemble, space, person), self.forms()
        asked = reader.questions(forms.low, forms.high)
        worst = Worst(asked, forms, self.ensemble.forest, len(space.features))
        self.seen.append((space, reader, worst))
        return worst


@dataclass
class _Asking:
    """Asks the judge about one person's choices, in the caller's units, and keeps the cheapest row that is accepted."""

    judge: TreeJudge
    space: FeatureSpace
    person: Rows
    limits: PointLimits
    deadline: Deadline
    point: Floats | None = None
    cost: float = np.inf

    def turn_to(self, choices: PersonChoices, problem: Problem, *, trusted: bool) -> None:
        """Ask about these choices from now on; the trees' own sums are taken for an answer where they are `trusted`."""
        self.choices, self.problem, self.trusted = choices, problem, trusted
        self.known: dict[bytes, tuple[float, bool]] = {}
        self.unsure: set[bytes] = set()

    def run(self, any_will_do: bool) -> float:
        """Search, and hold what was found against the judge; what only seemed to be an answer is none in the next."""
        while True:
            ceiling = self.cost - self.choices.apart
            search = TreeSearch(self.problem, self, self.deadline, ceiling, self.margins)
            best, bound = search.run(any_will_do=any_will_do)
            if best is None or best.tobytes() in self.known:
                return bound
            self.known[best.tobytes()] = cost, settled = self._asked(best)
            if settled and cost <= search.cost * (1.0 + _SAME):
                return min(bound, cost)

    def margins(self, choices: Cells) -> Floats:
        """How sure the cheapest row of each choice is to be accepted, as the judge says: above 0 it is."""
        points = self.space.encode_numbers(self.choices.numbers(choices))
        margins = self.judge.margins(points)
        if not self.space.rules:
            return margins
        fine = self.space.satisfied(points, self.person.take(np.zeros(len(points), np.intp)))
        return np.where(fine, margins, -_FAR)

    def __call__(self, cells: Cells) -> tuple[float, bool]:
        """What the cheapest accepted row of a choice costs, and whether there is none cheaper in it."""
        key = cells.tobytes()
        if key not in self.known:
            if self.trusted and self.problem.clear(cells):
                return self.problem.cost(cells), True
            self.known[key] = self._asked(cells)
        return self.known[key]

    def _asked(self, cells: Cells) -> tuple[float, bool]:
        margins = self.problem.margins(cells).tobytes()
        if margins in self.unsure:
            # A tie like one of which nobody can say who wins it: to ask again and again takes all the time.
            return np.inf, False
        numbers = self.choices.numbers(cells[None, :])[0]
        exact = self.space.encode_numbers(numbers[None, :])
        accepted, known = self.judge.judged(exact, self.deadline)
        if not accepted[0] and self._reads(exact, numbers):
            # Whatever is in the same cells reads the same.
            self.unsure |= set() if known[0] else {margins}
            return np.inf, bool(known[0])
        if self.choices.breaks_rules(numbers, cells):
            return np.inf, True
        cheapest = self._cost(exact)
        for points in self._rows(exact):
            if points.shape[0] and self.judge.judged(points, self.deadline)[0][0]:
                cost = self._cost(points)
                if cost < self.cost:
                    self.point, self.cost = points[0], cost
                return cost - self.choices.apart, cost <= cheapest * (1.0 + _SAME)
        return np.inf, False

    def _cost(self, points: Floats) -> float:
        return float(np.abs(points[0] - self.person.points[0]) @ self.space.weights)

    def _rows(self, exact: Floats) -> Any:
        """The row of a choice as it is handed out; then with numbers moved a little further on."""
        own = self.person.points[0]
        away = np.where(exact > own, np.inf, -np.inf)
        moved = exact
        for more in np.diff(_NUDGES, prepend=0).tolist():
            for _ in range(more):
                moved = np.where(exact == own, exact, np.nextafter(moved, away))
            points = self.space.project(moved, self.person)
            if self.space.rules:
                points = points[self.space.satisfied(points, self.person)]
            if self.limits.max_changed is not None:
                few = self.space.changed(points, self.person) <= self.limits.max_changed
                points = points[few]
            yield points

    def _reads(self, points: Floats, numbers: Floats) -> bool:
        """Whether the row that the trees are asked about is the one that was meant, to the last bit."""
        decode = self.judge.ensemble.decode
        if decode is None:
            return True
        read = self.space.numbers(decode(points))[0]
        return bool(((read == numbers) | (np.isnan(read) & np.isnan(numbers))).all())


@dataclass
class TreesUnder(TreeJudge):
    """Every ensemble that some change allows: the decider has the last word."""

    decider: Any = None

    def judged(self, points: Floats, deadline: Deadline) -> tuple[Mask, Mask]:
        """The decider's verdicts, where they are any."""
        verdict = self.decider.settle(points, self.target, deadline=deadline, keep=False).verdict
        return np.asarray(verdict == ROBUST), np.asarray(
            (verdict == ROBUST) | (verdict == NOT_ROBUST)
        )

    def margins(self, points: Floats) -> Floats:
        """The worst margins, from below."""
        return np.asarray(self.decider.worst(points, self.target)[0])

    def forms(self) -> LinearForms:
        """The trees with their leaves, cuts and margins at their worst."""
        return _FORMS[type(self.decider)](self.decider, self.target)


def _shifted(decider: Shift, target: int) -> LinearForms:
    ensemble = decider.classifier
    assert isinstance(ensemble, TreeEnsemble)
    return forms_of(ensemble, *demanded(ensemble, target, decider.changes.size))


def _moving(decider: MovingTrees, target: int) -> LinearForms:
    ensemble, over = decider.classifier, rivals(decider.classifier, target)
    return forms_of(
        ensemble,
        over.weights,
        over.constants - over.lost * decider.shift,
        radii=decider.radii,
        cuts=decider.cuts,
        dropped=decider.changes.dropped,
    )


_FORMS: dict[type[ClosedForm], Callable[[Any, int], LinearForms]] = {
    Shift: _shifted,
    MovingTrees: _moving,
}


def trees_under(decider: ClosedForm, target: int) -> TreesUnder | None:
    """Who has to accept a row where trees may change in a way that is known here; else None."""
    if not isinstance(decider.classifier, TreeEnsemble) or type(decider) not in _FORMS:
        return None
    if isinstance(decider.changes, EnsembleShift):
        # Its margin is the mean of models whose trees are not today's.
        return None
    return TreesUnder(decider.classifier, target, decider=decider)


@dataclass
class TreesToday(TreeJudge):
    """Today's trees alone, with a margin of at least `demand` in logits."""

    who = "today's model"

    demand: float = 0.0

    def judged(self, points: Floats, deadline: Deadline) -> tuple[Mask, Mask]:
        """The class and the margin, as the library computes them."""
        fine = self.ensemble.predict_index(points) == self.target
        if self.demand:
            fine = fine & (least_margins(self.ensemble, self.target, points) >= self.demand)
        return np.asarray(fine), np.ones(points.shape[0], dtype=np.bool_)

    def margins(self, points: Floats) -> Floats:
        """Today's margins."""
        return least_margins(self.ensemble, self.target, points) - self.demand

    def forms(self) -> LinearForms:
        """The trees as they are."""
        return forms_of(self.ensemble, *demanded(self.ensemble, self.target, self.demand))
