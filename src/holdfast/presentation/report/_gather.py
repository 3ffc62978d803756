"""From a `Recourse` to what its report says."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from holdfast._dates import iso_date
from holdfast._files import Place
from holdfast._given import given_list, given_number, whole_number
from holdfast._network import Network
from holdfast._progress import progress_bar
from holdfast.calibration import CalibratedDelta, ChosenDelta, IncrementalDelta
from holdfast.changes import Changes, Inside, PlausibleChanges, TreeChanges
from holdfast.errors import InvalidInputError
from holdfast.features import Direction, Feature, FeatureSpace
from holdfast.features._limits import limit_words
from holdfast.generators import ReasonKind, Recourse
from holdfast.generators._radii import Radii, least_radius, radii_of
from holdfast.generators._recourse import check_recourse
from holdfast.metrics._rows import valid_rows
from holdfast.presentation.letters._wording import changes_with_time
from holdfast.presentation.pictures._certified import survival
from holdfast.presentation.report._beside import (
    certificate_ids,
    counted,
    finite,
    letter_links,
    other_ways,
    people_of,
)
from holdfast.presentation.report._contents import (
    Calibrated,
    Column,
    Contents,
    CounterModel,
    Curve,
    Figures,
    Missing,
    Moves,
    Refits,
)
from holdfast.presentation.report._counter import closest_counter_models
from holdfast.presentation.report._gauge import FAR, gauge_of, history_of, lasts, models_of
from holdfast.presentation.report._groups import Groups, figures_of, slices_of
from holdfast.presentation.report._words import (
    PROVEN,
    capital,
    classes_of,
    cost_of,
    facts_of,
    figures_for,
    for_people,
    limits_of,
    promise_of,
    technical_of,
)

if TYPE_CHECKING:
    from holdfast.promises._ledger import Ledger

_TITLE = "Promises, and how sure they are"
_NAME = "the advice given"
_UNRECORDED = "A table that was read; the method is not recorded"
_MOST_REASONS = 20
# With fewer people the counter-models are there before a bar could be read.
_LONG_TABLE = 1000
_DIRECTIONS = {
    Direction.FREE: "up or down",
    Direction.IMMUTABLE: "fixed",
    Direction.INCREASING: "only up",
    Direction.DECREASING: "only down",
}


def gather(
    recourse: Recourse,
    *,
    title: str | None = None,
    name: str | None = None,
    outcome: str | None = None,
    others: Mapping[str, Recourse] | None = None,
    calibrated: ChosenDelta | float | None = None,
    groups: Groups = (),
    keys: Sequence[Any] | pd.Index | None = None,
    date: str | datetime.date | None = None,
    radii: bool = True,
    counter_models: bool | int = True,
    progress: bool | None = None,
    alternatives: Recourse | None = None,
    retrained: Iterable[object] = (),
    certificates: Place | None = None,
    ledger: Ledger | str | None = None,
    letters: Place | None = None,
    page: Path = Path(),
) -> Contents:
    """Everything that the report says about this recourse; the arguments are those of `report`.

    `page` is where the page will be, from where its links to letters lead.

    Examples
    --------
    >>> from holdfast.generators import NNCE, explain
    >>> from holdfast.changes import PlausibleChanges
    >>> from holdfast._network import Network
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> people, others = [[0.7, 0.5], [0.9, 0.6]], [[0.7, 0.9], [0.3, 0.31]]
    >>> advice = explain(net, people, target=1, changes=PlausibleChanges(0.02), generator=NNCE(others))
    >>> contents = gather(advice, name="nearest neighbour", date="2026-11-16")
    >>> contents.promise[1]
    'Each promise is proven for every model in which no number moves by more than 0.02.'
    >>> contents.people[0].advice, round(contents.people[0].counter.distance, 6)
    (('raise x1 from 0.5 to 0.9',), 0.076923)
    """
    if len(check_recourse(recourse, "recourse")) == 0:
        raise InvalidInputError("recourse: expected at least one person, got none")
    if recourse.left_alone is not None:
        alternatives, recourse = alternatives or recourse, recourse.first
    head = getattr(ledger, "head", ledger)
    for given, kind, words in (
        (others, Mapping, "others: expected a mapping from a method's name to its advice"),
        (retrained, Iterable, "retrained: expected a list of models"),
        (head, str, "ledger: expected a Ledger, or its head"),
    ):
        if given is not None and not isinstance(given, kind):
            raise InvalidInputError(f"{words}, got {given!r:.80}")
    when = iso_date(date, "date")
    names = _keys(recourse, keys)
    maker = _NAME if recourse.generator is None else type(recourse.generator).__name__
    main = maker if name is None else str(name)
    known = None if calibrated is None else _calibrated(calibrated, recourse)
    method, measured = _method(main, recourse, radii)
    inside = _inside(recourse, calibrated, known)
    models = models_of(recourse.changes, known)
    wanted = outcome or classes_of(recourse)
    compared = {
        str(name): _alike(recourse, other, f"others[{name!r}]")
        for name, other in (others or {}).items()
    }
    if main in compared:
        raise InvalidInputError(
            f"others: expected a name of its own for each method, got {main!r} twice"
        )
    methods = (method, *[_method(name, same, radii)[0] for name, same in compared.items()])
    already = (
        recourse.classifier.predict_index(recourse.people.points) == recourse.targets
    ).tolist()
    needed = np.logical_not(already) | recourse.found
    counters, left_out = _counters(recourse, measured, counter_models, progress)
    space = recourse.space
    moves = recourse.moves
    moved = [move.feature.name for move in moves]
    # A protected attribute has no place on a person's page, unless the advice itself touches it.
    shown = [
        feature
        for feature in space.features
        if feature.name in moved or feature.name not in space.notes.protected
    ]
    columns = {feature.name: _column(space, feature) for feature in shown}
    told = []
    for move in moves:
        middle, low, high = finite([move.median, move.low, move.high])
        counts = (move.changed, move.up, move.down)
        told.append(Moves(columns[move.feature.name], *counts, middle, low, high, move.swaps))
    told += [
        Moves(columns[one.name], 0)
        for one in shown
        if one.name not in moved and one.direction is not Direction.IMMUTABLE
    ]
    kept, refits = _refits(recourse, retrained or ())
    proofs = certificate_ids(recourse, certificates)
    links, foreign = letter_links(recourse, letters, page, names)
    radius = finite(measured.lower)
    verdicts = recourse.verdict_names.fillna("")
    people = people_of(
        recourse,
        shown,
        names,
        measured.lower,
        counters,
        outcome or "a yes",
        counted(recourse, shown),
        other_ways(recourse, compared, alternatives),
        proofs,
        links,
        kept,
        already,
        [lasts(*own, recourse.changes, known) for own in zip(radius, verdicts, strict=True)],
    )
    along, fall = measured.along, ""
    if along.unit == "factor":
        fall = "moves of up to {} times Δ's radii"
    elif along.unit == "margin":
        fall = along.in_words(lambda _: "{}").replace("at most ", "")
    cost = cost_of(space)
    slices = slices_of(recourse, groups, needed=needed, radii=measured.lower)
    limits = [*limits_of(recourse, method, needed, inside, wanted)]
    if foreign:
        limits.append(f"Letters of other advice are left out: {foreign:,}.")
    for attribute in space.notes.protected:
        if attribute not in recourse.factuals.columns and not any(
            one.attribute == str(attribute) for one in slices
        ):
            label = space.label(attribute)
            limits.append(
                f"“{label}” is protected, but not in the people's table: they are not compared by it."
            )
    return Contents(
        title=_TITLE if title is None else str(title),
        date=when,
        facts=facts_of(
            recourse,
            name or _UNRECORDED,
            when,
            outcome,
            cost,
            certificates=proofs,
            ledger=head,
            calibrated=known,
            symbol="δ" if along.unit == "delta" else along.unit,
        ),
        promise=tuple(
            promise_of(
                recourse,
                methods,
                compared,
                measured,
                known,
                needed,
                models=models,
                inside=inside,
                wanted=wanted,
                refits=refits,
            )
        ),
        figures=tuple(
            figures_for(method, recourse.changes, inside, refits, int(needed.sum()), told)
        ),
        models=models,
        wanted=wanted,
        gives="says yes" if outcome is None else f"gives {outcome}",
        unlisted=len(hidden := [one for one in space.features if one.name not in columns]),
        unlisted_with_time=any(changes_with_time(space, one) for one in hidden),
        delta=None if recourse.changes is None else recourse.changes.size,
        calibrated=known,
        methods=methods,
        columns=tuple(columns.values()),
        moves=tuple(told),
        slices=slices,
        missing=_missing(recourse, outcome or "a yes"),
        people=people,
        limits=tuple(limits),
        technical=(*technical_of(recourse, method, measured), *left_out),
        gauge=gauge_of(recourse.changes, known) if measured.known else None,
        least_delta=least_radius(recourse.changes),
        unit=along.unit,
        fall=fall,
        cost=cost,
        refits=refits,
        threshold=_threshold(recourse),
    )


def _threshold(recourse: Recourse) -> float | None:
    """The probability from which on the decision is a yes; None where that is not one number."""
    threshold = recourse.model.threshold
    if threshold is None:
        return 0.5 if len(recourse.classifier.classes) == 2 else None
    return threshold if isinstance(threshold, float) else None


def _inside(
    recourse: Recourse, given: ChosenDelta | float | None, known: Calibrated | None
) -> Inside | None:
    """How probably the next update lies in Δ: as Δ itself says, or as was calibrated on updates of this model."""
    if recourse.changes is None:
        return None
    if recourse.changes.stated_inside is not None:
        return recourse.changes.stated_inside
    if known is None or not known.covered or not isinstance(given, CalibratedDelta):
        return None
    return given.changes.inside if _same_model(given, recourse) else None


def _same_model(given: ChosenDelta | float, recourse: Recourse) -> bool:
    """Whether the updates were measured around this model, as far as is known: distances name no model."""
    from holdfast.verify._fingerprint import fingerprint

    today = given.today if isinstance(given, CalibratedDelta) else ""
    if isinstance(given, IncrementalDelta):
        today = fingerprint(given.retrained.classifier)
    return today in ("", fingerprint(recourse.model.trained))


def _counters(
    recourse: Recourse, radii: Radii, wanted: bool | int, progress: bool | None
) -> tuple[dict[int, CounterModel], list[str]]:
    """The counter-models of the most fragile people, and sentences about the others."""
    rows = recourse.answered
    most = rows.size if wanted is True else whole_number(wanted or 0, "counter_models", least=0)
    # Where no radius is known, people whose promise a model in Δ breaks come first.
    fragility = np.where(np.isnan(radii.upper[rows]), recourse.robust[rows], radii.upper[rows])
    chosen = np.sort(rows[np.argsort(fragility, kind="stable")[:most]])
    with progress_bar("report", chosen.size, wanted=progress, long=_LONG_TABLE) as advance:
        counters = closest_counter_models(recourse, radii, rows=chosen, advance=advance)
    said = []
    if most < rows.size:
        said.append(
            f"Counter-models were computed for the {most:,} most fragile promises only."
            if most
            else "No counter-models were computed."
        )
    without = chosen.size - len(counters)
    if without:
        said.append(f"For {without:,} of the promises no counter-model is known.")
    return counters, said


def _column(space: FeatureSpace, feature: Feature) -> Column:
    notes = space.notes
    moves = _DIRECTIONS[feature.direction]
    if feature.labelled and feature.direction is Direction.FREE:
        moves = "any category"
    if feature.step not in (None, 1.0) and feature.direction is not Direction.IMMUTABLE:
        moves += f", in steps of {feature.step:,g}"
    if feature.max_change and feature.direction is not Direction.IMMUTABLE:
        moves += f", {limit_words(feature.max_change)}"
    reason = notes.reason(feature.name)
    unit = notes.word(feature.name, feature.unit)
    why = () if reason is None else (reason.code, reason.text)
    return Column(
        str(feature.name), notes.label(feature.name), unit, not feature.labelled, moves, *(why or ("", "")),
        with_time=changes_with_time(space, feature),
    )  # fmt: skip


def _missing(recourse: Recourse, wanted: str) -> tuple[Missing, ...]:
    """The reasons, the commonest first; rare ones beyond the first few are put together."""
    counts = Counter(recourse.reason[~recourse.found].tolist())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    result = [
        Missing(
            for_people(reason, recourse.space, wanted).replace(PROVEN, ""),
            people,
            reason.kind.proven,
            reason.kind is not ReasonKind.ACCEPTED,
        )
        for reason, people in ordered[:_MOST_REASONS]
    ]
    for proven in (True, False):
        rest = [
            people for reason, people in ordered[_MOST_REASONS:] if reason.kind.proven is proven
        ]
        if rest:
            result.append(
                Missing(
                    f"{len(rest):,} other reasons, each on the person's page", sum(rest), proven
                )
            )
    return tuple(result)


def _refits(
    recourse: Recourse, retrained: Iterable[object]
) -> tuple[list[int | None], Refits | None]:
    """How many of the retrained models keep each promise, and what they do together; each model is used once."""
    kept: list[int | None] = [None] * len(recourse)
    valid = np.array([valid_rows(recourse, model)[recourse.found] for model in retrained])
    if not valid.size:
        return kept, None
    by_person = valid.sum(axis=0).astype(np.intp)
    shares = valid.mean(axis=1)
    for row, models in zip(recourse.answered.tolist(), by_person.tolist(), strict=True):
        kept[row] = models
    by_all = int((by_person == len(valid)).sum())
    return kept, Refits(len(valid), float(shares.mean()), float(shares.min()), by_all)


def _method(name: str, recourse: Recourse, wanted: bool) -> tuple[Figures, Radii]:
    """The figures of a method, and the certified radii of the rows with advice, none of them infinite."""
    known = recourse.radii if wanted else radii_of(recourse, "Certified radii were not asked for.")
    radii = replace(known, lower=np.minimum(known.lower, FAR))
    figures = figures_of(name, recourse, np.ones(len(recourse), dtype=np.bool_), radii.lower)
    if radii.unknown or not figures.found:
        return figures, radii
    steps, shares = survival(np.where(radii.lower < FAR, radii.lower, np.inf)[recourse.found])
    return replace(figures, survival=Curve(tuple(steps.tolist()), tuple(shares.tolist()))), radii


def _alike(recourse: Recourse, other: Recourse, where: str) -> Recourse:
    """The other method's advice under the same Δ: certified again if it was made under another, or under none."""
    if len(check_recourse(other, where)) != len(recourse):
        raise InvalidInputError(
            f"{where}: expected the same {len(recourse)} people, got {len(other)}"
        )
    if other.classifier != recourse.classifier:
        raise InvalidInputError(f"{where}: expected advice for the same model, got another model's")
    if not np.array_equal(other.targets, recourse.targets):
        raise InvalidInputError(f"{where}: expected the same target classes, got others")
    if not other.factuals.index.equals(recourse.factuals.index):
        raise InvalidInputError(
            f"{where}: expected the same people in the same order, got other keys"
        )
    if not np.array_equal(other.people.points, recourse.people.points):
        raise InvalidInputError(
            f"{where}: expected the same people in the same order, got other values"
        )
    # A chance is about the advice of one method alone.
    shared = recourse.changes and recourse.changes.calibrated(None)
    return other if other.changes == shared else other.under(shared)


def _calibrated(given: ChosenDelta | float, recourse: Recourse) -> Calibrated:
    changes = recourse.changes
    if isinstance(changes, TreeChanges) and isinstance(given, ChosenDelta):
        factor = _tree_factor(changes, given.changes)
        covered = factor <= changes.factor
        alike = _same_model(given, recourse)
        updates = history_of(given, changes, factor) if alike else ((), 0)
        return Calibrated(factor, _evidence(given), covered, given.changes.words, *updates, alike)
    if changes is not None and not isinstance(changes, PlausibleChanges):
        raise InvalidInputError(
            "calibrated: expected a delta with PlausibleChanges, or leaf radii with TreeChanges, got one with "
            f"{changes!r}"
        )
    norm = math.inf if changes is None else changes.norm
    sentence = "It was given with the report; how it was measured is not recorded here."
    delta = given_number(given)
    if isinstance(given, ChosenDelta):
        sentence = _evidence(given)
        if given.norm != norm:
            raise InvalidInputError(
                f"calibrated: expected a delta in the norm {norm:g}, got one in norm {given.norm:g}"
            )
    if delta is None or not 0.0 < delta < math.inf:
        raise InvalidInputError(
            f"calibrated: expected a delta > 0 or what delta_calibrated returns, got {given!r}"
        )
    measured = given.changes if isinstance(given, ChosenDelta) else PlausibleChanges(delta, norm)
    if not isinstance(measured, PlausibleChanges):
        raise InvalidInputError(
            f"calibrated: expected a delta for networks, got {measured!r}; promises state it as their changes"
        )
    several = measured.words if isinstance(measured.delta, tuple) else ""
    covered = changes is not None and _covers(changes, measured, recourse.network)
    same = _same_model(given, recourse)
    # Updates move the biases too: where these stay, distances do not compare.
    compares = same and isinstance(given, ChosenDelta) and (changes is None or bool(changes.biases))
    updates = history_of(given, changes) if compares and isinstance(given, ChosenDelta) else ((), 0)
    # By several radii, the largest says nothing of a set of another shape.
    alike = same and (changes is None or not (isinstance(changes.delta, tuple) or several))
    return Calibrated(delta, sentence, covered, several, *updates, alike)


def _evidence(given: ChosenDelta) -> str:
    """Where a delta comes from, without its value."""
    return f"{capital(str(given).removeprefix(f'delta = {given.shown}').lstrip(':;, '))}."


def _tree_factor(changes: TreeChanges, measured: Changes) -> float:
    """By how much Δ's leaf radii must grow to hold those that were calibrated."""
    if not isinstance(measured, TreeChanges) or np.shape(measured.leaves) != np.shape(
        changes.leaves
    ):
        raise InvalidInputError(
            f"calibrated: expected leaf radii of the same trees, got {measured!r}"
        )
    theirs = np.asarray(measured.leaves * measured.factor)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(theirs > 0.0, theirs / changes.leaves, 0.0), initial=0.0))


def _covers(changes: PlausibleChanges, measured: PlausibleChanges, network: Network) -> bool:
    """Whether Δ holds every model within the calibrated delta; retraining moves the biases too."""
    if not changes.biases:
        return False
    # One radius for everything lies within those of the layers in any norm; the other way round in the norm inf only.
    if measured.per_layer and not changes.per_layer and changes.norm != math.inf:
        return False
    try:
        pairs = list(zip(measured.layer_radii(network), changes.layer_radii(network), strict=True))
    except InvalidInputError:
        return False
    return all(
        bool(np.all(np.less_equal(*parts))) for pair in pairs for parts in zip(*pair, strict=True)
    )


def _keys(recourse: Recourse, keys: Sequence[Any] | pd.Index | None) -> list[str]:
    given = given_list(recourse.factuals.index if keys is None else keys, "keys")
    if len(given) != len(recourse):
        raise InvalidInputError(
            f"keys: expected one for each of the {len(recourse)} people, got {len(given)}"
        )
    return [" / ".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in given]
