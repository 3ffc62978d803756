"""`RNCE`: the nearest neighbour that every plausible model accepts; the paper's Algorithms 2 to 4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from holdfast._classifier import Classifier
from holdfast._deadline import Deadline
from holdfast._network import Bools, Floats, Ints
from holdfast.changes import Changes
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace, Kind
from holdfast.generators._base import Proposals, Task
from holdfast.generators._candidates import (
    Candidates,
    FromTable,
    accepted_candidates,
    read_candidates,
)
from holdfast.generators._nearest import counts, why_none
from holdfast.generators._reading import find_space
from holdfast.generators._walk import robust_until_first, walk
from holdfast.importers import load_model
from holdfast.verify._certify import certify_points
from holdfast.verify._deciders import Decider, decider_for

# How many candidates are certified at a time.
_ROWS = 16_384
# Beyond so many, each as far as the person's constraints allow, only those are met that are robust as they are.
_NEAREST = 2048
# To find a person's next candidate and to certify it takes about so many times as long as to certify one of a table.
_DEARER = 4
# The paper walks in steps of 0.05; what lies between the last good and the next step is then looked at ever closer.
_STEPS = 20
_CLOSER = 8
_ROUNDS = 5

# The accepted candidates in the order in which a person meets them: first those that are robust, where that is known.
Turns = tuple[Candidates, ...]


@dataclass(frozen=True, eq=False)
class CertifiedCandidates:
    """Candidates with a verdict each, to store, pickle and use for any number of people.

    `RNCE.prepare` makes them, ``RNCE(kept)`` uses them. They are for one network, one Δ and one space.
    """

    classifier: Classifier
    changes: Changes | None
    space: FeatureSpace
    points: Floats
    by_target: Mapping[int, Turns]

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        parts = [
            f"{self.classifier.classes[target]}: {sum(map(len, turns))} accepted, {len(turns[0])} robust"
            for target, turns in self.by_target.items()
        ]
        return f"CertifiedCandidates({len(self)} rows; {'; '.join(parts)})"

    def check(self, task: Task) -> None:
        """An error if they were certified for another task."""
        for what, ours, theirs in (
            ("model", self.classifier, task.classifier),
            # What was measured of them plays no part in what is certified.
            ("changes", self.changes and self.changes.bare, task.changes and task.changes.bare),
            ("space", self.space, task.space),
        ):
            if ours != theirs:
                raise InvalidInputError(
                    f"candidates: expected ones certified for this {what}, got others; prepare them again"
                )
        for target in np.unique(task.targets).tolist():
            if target not in self.by_target:
                label = task.classifier.classes[target]
                known = [self.classifier.classes[t] for t in self.by_target]
                raise InvalidInputError(
                    f"candidates: expected ones certified for class {label}, got {known}"
                )


@dataclass(frozen=True, eq=False)
class RNCE(FromTable):
    """The nearest candidate that is Δ-robust.

    Sound: its points are certified. Complete: if a candidate obeys the person's constraints and is Δ-robust, it finds
    advice, with any parameters. Without Δ and without the line search it is `NNCE`. As there, a candidate is moved as
    far as the constraints allow, and the resulting point is certified.

    Parameters
    ----------
    candidates
        As for `NNCE`, or what `prepare` made of them.
    certified_candidates
        The paper's robustInit. False: meet the accepted candidates in order of distance and certify until one is
        robust. True: certify the whole table once; the robust candidates are tried first, the others only if the
        constraints rule all of those out. By default the results are those of False among the nearest 2,048 candidates
        of each person; then the whole table is certified, once for all people, and only robust candidates are tried. If
        constraints change no candidate, the table is certified as soon as that is less work.
    line_search
        The paper's optimal: move from the candidate back towards the person as far as Δ allows; categories are the
        candidate's or the person's.

    Examples
    --------
    >>> import holdfast as hf
    >>> from holdfast.generators import explain
    >>> net = hf.Network([[[-1.0, 1.0]]], [[0.0]])
    >>> changes = hf.PlausibleChanges(0.1, biases=False)
    >>> others = [[0.7, 0.75], [0.5, 0.9], [0.7, 0.6]]
    >>> generator = RNCE(others, line_search=True)
    >>> result = explain(net, [[0.7, 0.5]], target=1, changes=changes, generator=generator)
    >>> result.counterfactuals.round(2)
         x0    x1
    0  0.59  0.72
    >>> print(result.verdict[0])
    ROBUST
    >>> kept = RNCE(others).prepare(net, target=1, changes=changes)
    >>> kept
    CertifiedCandidates(3 rows; 1: 2 accepted, 1 robust)
    """

    name = "rnce"
    good_for = "robust and plausible advice for many people: a real person's row, proven under Δ"
    paper = "Jiang, Leofante, Rago and Toni, Algorithms 2-4"
    keeps_to_rows = True

    certified_candidates: bool | None = None
    line_search: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.candidates, CertifiedCandidates):
            super().__post_init__()

    def prepare(
        self,
        model: object,
        *,
        target: Any,
        changes: Changes | None,
        space: FeatureSpace | None = None,
        threshold: Any = None,
    ) -> CertifiedCandidates:
        """Certify the whole table of candidates for one target class or several, once for all people."""
        if isinstance(self.candidates, CertifiedCandidates):
            raise InvalidInputError(
                "candidates: expected a table to certify, got one that is certified already"
            )
        loaded = load_model(model, threshold)
        space = find_space(loaded, self.candidates, space, self.candidates)
        loaded = loaded.in_space(space)
        labels = list(target) if isinstance(target, list | tuple | set | np.ndarray) else [target]
        targets = [loaded.classifier.class_index(label) for label in labels]
        decider = None if changes is None else decider_for(loaded, changes)
        return self._certified(loaded.classifier, decider, space, targets, Deadline.after(None))

    def propose(self, task: Task) -> Proposals:
        """The nearest Δ-robust neighbour of each row."""
        deadline = task.deadline(len(task))
        by_target = self._by_target(task, deadline)
        proposals = task.nothing()
        holds = (
            "accepted" if task.changes is None else "proven to stay so under every plausible model"
        )
        test = partial(robust_until_first, deadline=deadline)
        for target in list(by_target):
            turns = by_target.pop(target)
            rows = np.flatnonzero(task.targets == target)
            known = counts(*turns)
            chooses = self.certified_candidates is None and len(turns) == 1
            as_they_are = chooses and turns[0].handed_out_as_they_are
            chooses &= as_they_are or len(turns[0]) > _NEAREST
            most = len(turns[0]) // _DEARER if as_they_are else np.inf
            last = _NEAREST if chooses and not as_they_are else None
            found = walk(task, rows, turns[0], deadline, test=test, most=most, last=last)
            later = turns[1:]
            if chooses and len(found) < rows.size:
                # Nobody needs the others, and they are not kept.
                later = turns = (
                    turns[0].where(_are_robust(task.decider, turns[0], target, deadline)),
                )
            for others in later:
                left = np.setdiff1d(rows, [*found])
                if chooses or not others.handed_out_as_they_are:
                    found |= walk(task, left, others, deadline, test=test)
            task.advance(rows.size - len(found))
            none = why_none(task, target, deadline, known, holds=holds)
            if last and task.changes is not None and not deadline.over:
                none += (
                    f" (tried: the nearest {last:,}, and all that are robust as they are; certified_candidates=False "
                    "tries every candidate)"
                )
            proposals.fill(rows, found, none)
        if self.line_search:
            rows = np.flatnonzero(proposals.found)
            proposals.points[rows] = line_search(task, rows, proposals.points[rows], deadline)
        return proposals

    def example_table(self) -> object:
        """The candidates, or the space that they were certified in."""
        known = self.candidates
        return known.space if isinstance(known, CertifiedCandidates) else known

    def _by_target(self, task: Task, deadline: Deadline) -> dict[int, Turns]:
        targets = np.unique(task.targets).tolist()
        known = self.candidates
        if isinstance(known, CertifiedCandidates):
            known.check(task)
        elif self.certified_candidates:
            known = self._certified(task.classifier, task.decider, task.space, targets, deadline)
        else:
            return {target: (mine,) for target, mine in self.accepted(task).items()}
        return {target: known.by_target[target] for target in targets}

    def _certified(
        self,
        classifier: Classifier,
        decider: Decider | None,
        space: FeatureSpace,
        targets: list[int],
        deadline: Deadline,
    ) -> CertifiedCandidates:
        """Algorithm 2 with robustInit: which candidates does every model in Δ accept, as far as time allows to say?"""
        points = read_candidates(self.candidates, space, classifier)
        by_target = {}
        accepted = accepted_candidates(self.candidates, space, classifier, targets)
        for target, mine in accepted.items():
            robust = _are_robust(decider, mine, target, deadline)
            by_target[target] = (mine.where(robust), mine.where(~robust))
        changes = None if decider is None else decider.changes
        return CertifiedCandidates(classifier, changes, space, points, by_target)


def _are_robust(
    decider: Decider | None, candidates: Candidates, target: int, deadline: Deadline
) -> Bools:
    """Which candidates every model in Δ accepts, as far as time allows to say."""
    if decider is None or not len(candidates) or deadline.over:
        return np.full(len(candidates), decider is None)
    parts = (
        candidates.settled(slice(start, start + _ROWS))
        for start in range(0, len(candidates), _ROWS)
    )
    certified = (
        certify_points(decider, part, np.full(len(part), target), deadline=deadline)
        for part in parts
    )
    return np.concatenate([certificates.robust for certificates in certified])


def line_search(task: Task, rows: Ints, points: Floats, deadline: Deadline) -> Floats:
    """For accepted points of these rows, accepted points that cost no more.

    On what may move: numbers slide along the line and settle on their grid; a category is the factual's or the
    counterfactual's, never in between. Every point looked at is tested as it would be handed out.

    Parameters
    ----------
    rows
        The rows of the task that the points belong to, each at most once.
    points
        Points that the network, or every network in Δ where Δ is given, gives the target class, as rows of the table.
    deadline
        The end of the search; the best point by then is the result.
    """
    best = points.copy()
    factuals = task.factuals[rows]
    everyone = np.arange(rows.size)
    categories: list[Ints] = []
    sliding: list[int] = []
    for feature in task.space.features:
        if feature.listed or feature.kind in (Kind.CATEGORICAL, Kind.BINARY):
            categories.append(np.array(feature.variables, dtype=np.intp))
        else:
            sliding += feature.variables
    # The factual's categories back: all at once where that is accepted, otherwise one column after the other.
    for block in [np.concatenate(categories), *categories] if categories else []:
        places = np.flatnonzero((best[:, block] != factuals[:, block]).any(axis=1))
        trials = best[places]
        trials[:, block] = factuals[np.ix_(places, block)]
        _offer(task, rows, best, places, trials, deadline)
    ends = best.copy()
    low = np.zeros(rows.size)
    high = np.ones(rows.size)
    parts = _STEPS
    # The least fraction of the way that is accepted, to the paper's step and then closer.
    for _ in range(_ROUNDS + 1):
        steps = np.arange(1, parts) / parts
        places = np.repeat(everyone, steps.size)
        fractions = (low[:, None] + np.outer(high - low, steps)).ravel()
        trials = ends[places]
        start = factuals[places][:, sliding]
        trials[:, sliding] = start + fractions[:, None] * (trials[:, sliding] - start)
        taken = _offer(task, rows, best, places, trials, deadline)
        width = (high - low) / parts
        high[places[taken]] = fractions[taken]
        low = np.maximum(high - width, 0.0)
        parts = _CLOSER
    return best


def _offer(
    task: Task,
    rows: Ints,
    best: Floats,
    places: Ints,
    trials: Floats,
    deadline: Deadline,
) -> Ints:
    """For each place the cheapest of its trials that is allowed, accepted and cheaper; which of them were taken."""
    if deadline.over or not places.size:
        return np.empty(0, dtype=np.intp)
    whose = rows[places]
    trials = task.project(whose, trials)
    cost, before = (
        np.abs(x - task.factuals[whose]) @ task.space.weights for x in (trials, best[places])
    )
    better = task.allowed(cost < before, whose, trials)
    better = task.robust(better, whose, trials, deadline)
    order = np.lexsort((cost, places))
    order = order[better[order]]
    first = order[np.unique(places[order], return_index=True)[1]]
    best[places[first]] = trials[first]
    return first
