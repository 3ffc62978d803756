"""From a `Recourse` to what its report says."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from holdfast.calibration.result import ChosenDelta
from holdfast.changes import PlausibleChanges
from holdfast.dates import iso_date
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace, describe
from holdfast.features.feature import Feature
from holdfast.features.kinds import Direction
from holdfast.generators import Recourse
from holdfast.network import Floats, Network
from holdfast.progress import progress_bar
from holdfast.report.comparison import alike, method_of
from holdfast.report.contents import Calibrated, Column, Contents, CounterModel, Missing, Moves, Person, Slices, Value
from holdfast.report.counter import closest_counter_models
from holdfast.report.groups import Groups, slices_of
from holdfast.report.radii import Radii, least_radius, radii_of
from holdfast.report.words import capital, facts_of, limits_of, promise_of
from holdfast.verify.inputs import whole_number

_TITLE, _NAME = "What was promised, and how sure it is", "the advice"
_MOST_SWAPS, _MOST_REASONS = 5, 20
_PROVEN, _ALREADY = "proven: ", "already classified as "
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
) -> Contents:
    """Everything that the report says about this recourse; the arguments are those of `write_report`.

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
    main = _NAME if name is None else str(name)
    known, measured = _calibrated(calibrated, recourse), radii_of(recourse, wanted=radii)
    methods = [method_of(main, recourse, measured)]
    for other_name, other in (others or {}).items():
        same = alike(recourse, other, str(other_name))
        methods.append(method_of(str(other_name), same, radii_of(same, wanted=radii)))
    if len({method.name for method in methods}) != len(methods):
        raise InvalidInputError(f"others: expected a name of its own for each method, got {main!r} twice")
    today = recourse.space.encode(recourse.factuals)
    needed = (recourse.classifier.predict_index(today) != recourse.targets) | recourse.found
    counters, left_out = _counters(recourse, measured, counter_models, progress)
    before, after = _numbers(recourse)
    columns = tuple(_column(recourse.space, feature) for feature in recourse.space.features)
    slices = slices_of(recourse, groups, needed=needed, radii=measured.lower)
    limits = [*limits_of(recourse, methods[0], measured, needed=needed, before=today), *left_out]
    limits += _not_compared(recourse, slices)
    return Contents(
        title=_TITLE if title is None else str(title),
        date=when,
        facts=facts_of(recourse, methods[0], when, outcome),
        promise=promise_of(recourse, methods[0], known, needed, outcome),
        delta=None if recourse.changes is None else recourse.changes.size,
        calibrated=known,
        methods=tuple(methods),
        columns=columns,
        moves=_moves(recourse.space, columns, before, after),
        slices=slices,
        missing=_missing(recourse),
        people=_people(recourse, names, before, after, measured, counters),
        limits=tuple(limits),
        least_delta=least_radius(recourse.changes),
        unit=measured.along.unit,
        fall=measured.along.in_words(lambda _: "{}").replace("at most ", "") if measured.along.unit == "margin" else "",
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


def _numbers(recourse: Recourse) -> tuple[Floats, Floats]:
    """Each column's numbers before and after; rows of nan where there is no answer."""
    space, rows = recourse.space, np.flatnonzero(recourse.found)
    before = space.numbers(recourse.factuals)
    after = np.full(before.shape, np.nan)
    if rows.size:
        after[rows] = space.numbers(recourse.counterfactuals.iloc[rows])
    return before, after


def _column(space: FeatureSpace, feature: Feature) -> Column:
    moves = _DIRECTIONS[feature.direction]
    if feature.labelled and feature.direction is Direction.FREE:
        moves = "any category"
    if feature.step is not None and feature.step != 1.0 and feature.direction is not Direction.IMMUTABLE:
        moves += f", in steps of {feature.step:,g}"
    return Column(str(feature.name), space.label(feature.name), feature.unit, not feature.labelled, moves)


def _values(feature: Feature, numbers: Floats) -> list[Value]:
    """A column's numbers as the caller writes them."""
    if feature.labelled:
        labels: list[Value] = [_plain(label) for label in feature.categories]
        return [labels[int(code)] for code in numbers]
    if feature.precision == "integer" or bool((feature.step or 0.5) % 1.0 == 0.0 and (numbers % 1.0 == 0.0).all()):
        return [int(number) for number in numbers]
    return [float(number) for number in numbers]


def _plain(label: Any) -> Value:
    value = label.item() if isinstance(label, np.generic) else label
    return value if isinstance(value, bool | int | float | str) else str(value)


def _moves(space: FeatureSpace, columns: Sequence[Column], before: Floats, after: Floats) -> tuple[Moves, ...]:
    """What the advice does with each column that can move, the one that moves most often first."""
    found = ~np.isnan(after).any(axis=1)
    result = []
    for i, (feature, column) in enumerate(zip(space.features, columns, strict=True)):
        old, new = before[found, i], after[found, i]
        changed = old != new
        if feature.direction is Direction.IMMUTABLE and not changed.any():
            continue
        if feature.labelled:
            result.append(Moves(column, int(changed.sum()), swaps=_swaps(feature, old[changed], new[changed])))
            continue
        step = (new - old)[changed]
        low, middle, high = np.quantile(step, [0.1, 0.5, 0.9]).tolist() if step.size else (None, None, None)
        up = int((step > 0).sum())
        result.append(Moves(column, int(step.size), up, int(step.size) - up, middle, low, high))
    return tuple(sorted(result, key=lambda moves: -moves.changed))


def _swaps(feature: Feature, old: Floats, new: Floats) -> tuple[tuple[str, str, int], ...]:
    pairs, counts = np.unique(np.column_stack([old, new]), axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_SWAPS]
    return tuple(
        (describe.readable(feature, pairs[k, 0]), describe.readable(feature, pairs[k, 1]), int(counts[k]))
        for k in order
    )


def _missing(recourse: Recourse) -> tuple[Missing, ...]:
    """The reasons, the commonest first; rare ones beyond the first few are put together."""
    counts = pd.Series(recourse.reason[~recourse.found], dtype=object).value_counts(sort=False)
    ordered = sorted(((str(text), int(count)) for text, count in counts.items()), key=lambda item: (-item[1], item[0]))
    result = [
        Missing(text.removeprefix(_PROVEN), people, text.startswith(_PROVEN), not text.startswith("already "))
        for text, people in ordered[:_MOST_REASONS]
    ]
    for proven in (True, False):
        rest = [people for text, people in ordered[_MOST_REASONS:] if text.startswith(_PROVEN) is proven]
        if rest:
            result.append(Missing(f"{len(rest):,} other reasons, each on the person's page", sum(rest), proven))
    return tuple(result)


def _people(
    recourse: Recourse,
    names: Sequence[str],
    before: Floats,
    after: Floats,
    radii: Radii,
    counters: Mapping[int, CounterModel],
) -> tuple[Person, ...]:
    space, found = recourse.space, recourse.found
    labels = [space.label(name) for name in space.names]
    rows = np.flatnonzero(found)
    old = list(zip(*(_values(feature, before[:, i]) for i, feature in enumerate(space.features)), strict=True))
    new = list(zip(*(_values(feature, after[rows, i]) for i, feature in enumerate(space.features)), strict=True))
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
                advice=tuple(describe.describe_change(space.features, labels, before[row], after[row]))
                if answered
                else (),
                verdict="" if verdict is None else verdict.name,
                cost=finite(recourse.cost_l1[row]),
                radius=finite(radii.lower[row]),
                gap=finite(recourse.optimality_gap[row]),
                worst_margin=finite(worst),
                reason=str(recourse.reason[row]),
                counter=counters.get(row),
            )
        )
    return tuple(people)


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
