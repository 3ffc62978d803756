"""From a `Recourse` to what its report says."""

from __future__ import annotations

import datetime
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from holdfast.calibration.result import ChosenDelta
from holdfast.changes import PlausibleChanges
from holdfast.dates import iso_date
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace, describe
from holdfast.features.codec import differs
from holdfast.features.feature import Feature
from holdfast.features.kinds import Direction
from holdfast.generators import Recourse
from holdfast.generators.base import ReasonKind
from holdfast.generators.radii import Radii, least_radius
from holdfast.given import whole_number
from holdfast.metrics.rows import valid_rows
from holdfast.network import Floats, Network
from holdfast.presentation.report.beside import (
    Beside,
    certificate_ids,
    chances,
    counted,
    evidence_of,
    letter_links,
    numbers_of,
    other_ways,
    values_of,
)
from holdfast.presentation.report.comparison import alike, method_of
from holdfast.presentation.report.contents import (
    Calibrated,
    Column,
    Contents,
    CounterModel,
    Missing,
    Moves,
    Person,
    Refits,
    Slices,
)
from holdfast.presentation.report.counter import closest_counter_models
from holdfast.presentation.report.groups import Groups, slices_of
from holdfast.presentation.report.radii import shown_radii
from holdfast.presentation.report.words import capital, cost_of, facts_of, limits_of, promise_of
from holdfast.progress import progress_bar
from holdfast.promises.ledger import Ledger

_TITLE, _NAME = "What was promised, and how sure it is", "the advice given"
_UNRECORDED = "A table that was read; the method is not recorded"
_MOST_SWAPS, _MOST_REASONS = 5, 20
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
    accepted: pd.DataFrame | None = None,
    alternatives: pd.DataFrame | None = None,
    retrained: Iterable[object] = (),
    certificates: str | os.PathLike[str] | None = None,
    ledger: Ledger | str | None = None,
    letters: str | os.PathLike[str] | None = None,
    page: Path = Path(),
) -> Contents:
    """Everything that the report says about this recourse; the arguments are those of `report`.

    `page` is where the page will be, from where its links to letters lead.

    Examples
    --------
    >>> from holdfast.generators import NNCE, explain
    >>> from holdfast.changes import PlausibleChanges
    >>> from holdfast.network import Network
    >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
    >>> people, others = [[0.7, 0.5], [0.9, 0.6]], [[0.7, 0.9], [0.3, 0.31]]
    >>> advice = explain(net, people, target=1, changes=PlausibleChanges(0.02), generator=NNCE(others))
    >>> contents = gather(advice, name="nearest neighbour", date="2026-11-16")
    >>> contents.promise[1].split(",")[0]
    'All 2 promises are proven to hold under every model in Δ'
    >>> contents.people[0].advice, round(contents.people[0].counter.distance, 6)
    (('raise x1 from 0.5 to 0.9',), 0.076923)
    """
    if not isinstance(recourse, Recourse):
        raise InvalidInputError(f"recourse: expected what `explain` returns, got {type(recourse).__name__}")
    if len(recourse) == 0:
        raise InvalidInputError("recourse: expected at least one person, got none")
    when, names = iso_date(date, "date"), _keys(recourse, keys)
    method = _NAME if recourse.generator is None else type(recourse.generator).__name__
    main = method if name is None else str(name)
    known, measured = _calibrated(calibrated, recourse), shown_radii(recourse, wanted=radii)
    methods = [method_of(main, recourse, measured)]
    compared = {str(name): alike(recourse, other, str(name)) for name, other in (others or {}).items()}
    methods += [method_of(name, same, shown_radii(same, wanted=radii)) for name, same in compared.items()]
    if len({method.name for method in methods}) != len(methods):
        raise InvalidInputError(f"others: expected a name of its own for each method, got {main!r} twice")
    today = recourse.people.points
    needed = (recourse.classifier.predict_index(today) != recourse.targets) | recourse.found
    counters, left_out = _counters(recourse, measured, counter_models, progress)
    before, after = numbers_of(recourse)
    moved = np.any(differs(before, after)[recourse.found], axis=0, keepdims=True)[0]
    # A protected attribute is nobody's business on a person's page, unless the advice itself touches it.
    shown = [i for i, f in enumerate(recourse.space.features) if moved[i] or f.name not in recourse.space.protected]
    columns = tuple(_column(recourse.space, recourse.space.features[i]) for i in shown)
    kept, refits = _refits(recourse, retrained)
    beside = Beside(
        against=counted(recourse, shown, accepted),
        others=other_ways(recourse, compared, alternatives),
        certificates=certificate_ids(recourse, certificates),
        letters=letter_links(letters, page, names),
        kept=kept,
    )
    cost = cost_of(recourse.space)
    slices = slices_of(recourse, groups, needed=needed, radii=measured.lower)
    limits = [*limits_of(recourse, methods[0], measured, needed=needed, before=today), *left_out]
    limits += _not_compared(recourse, slices)
    return Contents(
        title=_TITLE if title is None else str(title),
        date=when,
        facts=facts_of(recourse, name or _UNRECORDED, when, outcome, cost, evidence_of(beside, ledger)),
        promise=promise_of(recourse, methods[0], known, needed, outcome, refits),
        delta=None if recourse.changes is None else recourse.changes.size,
        calibrated=known,
        methods=tuple(methods),
        columns=columns,
        moves=_moves(recourse, shown, columns, before, after),
        slices=slices,
        missing=_missing(recourse),
        people=_people(recourse, names, shown, (before, after), measured, counters, beside),
        limits=tuple(limits),
        least_delta=least_radius(recourse.changes),
        unit=measured.along.unit,
        fall=measured.along.in_words(lambda _: "{}").replace("at most ", "") if measured.along.unit == "margin" else "",
        cost=cost,
        refits=refits,
        threshold=recourse.model.threshold if isinstance(recourse.model.threshold, float) else None,
    )


def _not_compared(recourse: Recourse, slices: tuple[Slices, ...]) -> list[str]:
    compared = {one.attribute for one in slices}
    return [
        f"“{recourse.space.label(attribute)}” is protected, but not in the people's table: they are not compared by it."
        for attribute in recourse.space.protected
        if str(attribute) not in compared
    ]


def _counters(
    recourse: Recourse, radii: Radii, wanted: bool | int, progress: bool | None
) -> tuple[dict[int, CounterModel], list[str]]:
    """The counter-models of the most fragile people, and what is to be said about the others."""
    rows = np.flatnonzero(recourse.found)
    most = rows.size if wanted is True else whole_number(int(wanted), "counter_models", least=0)
    # Where no radius is known, whoever a model in Δ breaks comes first.
    fragility = np.where(np.isnan(radii.upper[rows]), recourse.robust[rows], radii.upper[rows])
    chosen = np.sort(rows[np.argsort(fragility, kind="stable")[:most]])
    with progress_bar("report", chosen.size, wanted=progress, long=_LONG_TABLE) as advance:
        found = closest_counter_models(recourse, radii, rows=chosen, advance=advance)
    said = []
    if most < rows.size:
        which = f"the {most:,} most fragile promises only" if most else "no promise"
        said.append(f"Counter-models were looked for for {which}.")
    without = chosen.size - len(found)
    if without:
        said.append(f"For {without:,} of the promises no counter-model is known.")
    return found, said


def _column(space: FeatureSpace, feature: Feature) -> Column:
    moves = _DIRECTIONS[feature.direction]
    if feature.labelled and feature.direction is Direction.FREE:
        moves = "any category"
    if feature.step is not None and feature.step != 1.0 and feature.direction is not Direction.IMMUTABLE:
        moves += f", in steps of {feature.step:,g}"
    reason, unit = space.reason(feature.name), space.notes.word(feature.name, feature.unit)
    why = () if reason is None else (reason.code, reason.text)
    return Column(str(feature.name), space.label(feature.name), unit, not feature.labelled, moves, *why)


def _moves(
    recourse: Recourse, shown: Sequence[int], columns: Sequence[Column], before: Floats, after: Floats
) -> tuple[Moves, ...]:
    """What the advice does with each column that can move, the one that moves most often first."""
    space, result = recourse.space, []
    for i, column in zip(shown, columns, strict=True):
        feature, old, new = space.features[i], before[recourse.found, i], after[recourse.found, i]
        changed = differs(old, new)
        if feature.direction is Direction.IMMUTABLE and not changed.any():
            continue
        if feature.labelled:
            swaps = _swaps(space, feature, old[changed], new[changed])
            result.append(Moves(column, int(changed.sum()), swaps=swaps))
            continue
        step = (new - old)[changed & ~np.isnan(old)]
        # Whole units stay whole: of these the quantiles are changes that somebody was told.
        how = "nearest" if feature.grid is not None else "linear"
        low, middle, high = np.quantile(step, [0.1, 0.5, 0.9], method=how).tolist() if step.size else (None,) * 3  # type: ignore[call-overload]
        up, down = int((step > 0).sum()), int((step < 0).sum())
        result.append(Moves(column, int(changed.sum()), up, down, middle, low, high))
    return tuple(sorted(result, key=lambda moves: -moves.changed))


def _swaps(space: FeatureSpace, feature: Feature, old: Floats, new: Floats) -> tuple[tuple[str, str, int], ...]:
    told = Counter(
        tuple(describe.readable(feature, number, space.notes) for number in pair) for pair in zip(old, new, strict=True)
    )
    return tuple((*pair, many) for pair, many in told.most_common(_MOST_SWAPS))  # type: ignore[misc]


def _missing(recourse: Recourse) -> tuple[Missing, ...]:
    """The reasons, the commonest first; rare ones beyond the first few are put together."""
    counts = Counter(recourse.reason[~recourse.found].tolist())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    result = [
        Missing(reason.bare, people, reason.kind.proven, reason.kind is not ReasonKind.ACCEPTED)
        for reason, people in ordered[:_MOST_REASONS]
    ]
    for proven in (True, False):
        rest = [people for reason, people in ordered[_MOST_REASONS:] if reason.kind.proven is proven]
        if rest:
            result.append(Missing(f"{len(rest):,} other reasons, each on the person's page", sum(rest), proven))
    return tuple(result)


def _people(
    recourse: Recourse,
    names: Sequence[str],
    shown: Sequence[int],
    numbers: tuple[Floats, Floats],
    radii: Radii,
    counters: Mapping[int, CounterModel],
    beside: Beside,
) -> tuple[Person, ...]:
    space, found, (before, after) = recourse.space, recourse.found, numbers
    rows = np.flatnonzero(found)
    old, new = (
        list(zip(*(values_of(space, space.features[i], table[:, i]) for i in shown), strict=True))
        for table in (before, after[rows])
    )
    today, then = chances(recourse, space.encode_numbers(before)), chances(recourse, recourse.points)
    place = np.cumsum(found) - 1
    people = []
    for row, key in enumerate(names):
        answered, verdict, worst = bool(found[row]), recourse.verdict[row], math.nan
        if answered and recourse.certificates is not None:
            worst = float(recourse.certificates.margin_lower[place[row]])
        people.append(
            Person(
                key=key,
                before=old[row],
                after=new[place[row]] if answered else (),
                advice=tuple(describe.describe_change(space.features, space.notes, before[row], after[row]))
                if answered
                else (),
                verdict="" if verdict is None else verdict.name,
                cost=finite(recourse.cost_l1[row]),
                radius=finite(radii.lower[row]),
                gap=finite(recourse.optimality_gap[row]),
                worst_margin=finite(worst),
                reason=str(recourse.reason[row]),
                counter=counters.get(row),
                probability=(finite(today[row]), finite(then[row])),
                against=beside.against[row],
                others=beside.others[row],
                certificate=beside.certificates[row],
                letter=beside.letters[row],
                kept=int(beside.kept[row]) if answered and beside.kept is not None else None,
            )
        )
    return tuple(people)


def _refits(recourse: Recourse, retrained: Iterable[object]) -> tuple[NDArray[np.intp] | None, Refits | None]:
    """How many of the retrained models keep each promise, and what they do together; each model is used once."""
    kept, shares = np.zeros(len(recourse), dtype=np.intp), []
    for model in retrained:
        valid = valid_rows(recourse, model)[recourse.found]
        kept[recourse.found] += valid.astype(np.intp)
        shares.append(float(valid.mean()) if valid.size else 1.0)
    if not shares or not recourse.found.any():
        return None, None
    by_all = int((kept[recourse.found] == len(shares)).sum())
    return kept, Refits(len(shares), float(np.mean(shares)), min(shares), by_all)


def finite(number: float) -> float | None:
    """The number, or None for nan and infinities."""
    return float(number) if math.isfinite(number) else None


def _calibrated(given: ChosenDelta | float | None, recourse: Recourse) -> Calibrated | None:
    if given is None:
        return None
    changes = recourse.changes
    if changes is not None and not isinstance(changes, PlausibleChanges):
        raise InvalidInputError(
            f"calibrated: expected a delta only beside PlausibleChanges, got one beside {changes!r}, whose evidence is "
            "its own chance"
        )
    norm = math.inf if changes is None else changes.norm
    if isinstance(given, ChosenDelta):
        if given.norm != norm:
            raise InvalidInputError(
                f"calibrated: expected a delta in the norm {norm:g}, got one in norm {given.norm:g}"
            )
        delta, told = float(given), str(given)
        # What it is stands beside it: what remains is where it comes from.
        sentence = f"{capital(told.removeprefix(f'delta = {given.shown}').lstrip(':;, '))}."
    else:
        if isinstance(given, bool) or not isinstance(given, int | float | np.number):
            raise InvalidInputError(f"calibrated: expected a delta > 0 or what delta_calibrated returns, got {given!r}")
        delta, sentence = float(given), "It was given with the report; how it was measured is not recorded here."
    if not (math.isfinite(delta) and delta > 0.0):
        raise InvalidInputError(f"calibrated: expected a delta > 0, got {given}")
    measured = given.changes if isinstance(given, ChosenDelta) else PlausibleChanges(delta, norm)
    several = measured.words if isinstance(measured.delta, tuple) else ""
    covered = changes is not None and _covers(changes, measured, recourse.network)
    return Calibrated(delta, sentence, covered, several)


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
    return all(bool(np.all(np.less_equal(*parts))) for pair in pairs for parts in zip(*pair, strict=True))


def _keys(recourse: Recourse, keys: Sequence[Any] | pd.Index | None) -> list[str]:
    given = list(recourse.factuals.index if keys is None else keys)
    if len(given) != len(recourse):
        raise InvalidInputError(f"keys: expected one for each of the {len(recourse)} people, got {len(given)}")
    return [" / ".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in given]
