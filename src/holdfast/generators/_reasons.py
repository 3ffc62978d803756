"""The main reasons for a refusal: which details count most against a person.

    what the margin would win  =  margin(x with one column as accepted people have it) - margin(x)

for each column that the person can change, as far as the person can get there; where none of these counts, for the
others. Accepted people have the median of a column, or its commonest label. A protected attribute is never a reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from holdfast._given import whole_number
from holdfast._network import Floats, Ints
from holdfast.errors import InvalidInputError
from holdfast.features import Feature, FeatureSpace, Kind
from holdfast.features._codec import Rows, differs
from holdfast.features._describe import readable
from holdfast.generators._recourse import Recourse, check_recourse
from holdfast.verify._margins import least_margins

# So many people tell what is usual; more of them would not change it.
_ENOUGH = 5000


@dataclass(frozen=True)
class Against:
    """A detail that counts against a person: its value, that of accepted people, and the margin that this would win.

    `usual` is as near to that of accepted people as the person can get; where it is not `within_reach`, they cannot.
    """

    feature: Feature
    own: float
    usual: float
    margin: float
    within_reach: bool = True


def main_reasons(
    recourse: Recourse, *, language: str = "en", most: int | None = None
) -> pd.DataFrame:
    """What counts most against each person who was refused, with advice or without, as a table.

    Parameters
    ----------
    recourse
        What `explain` returned. What accepted people have is learned from its `data`, else from the generator's
        candidates, and the model says which of them it accepts; without such a table it is the middle of each column's
        range. The reasons are computed once and kept, so that letters, report and `to_frame` state the same.
    language
        The language of `text`.
    most
        At most so many reasons for each person.

    Returns
    -------
    pandas.DataFrame
        With the people's index, the weightiest reason first: `column`, `code` and `text` of its adverse-action reason
        (its label where it has none), `value`, `usual` (what accepted people have, as far as the person can get
        there), `margin` (what the margin would win) and `within_reach`: whether the person can change it. What they
        cannot change is named only where nothing else counts. Whoever is accepted has no row, and neither has someone
        against whom no column counts by itself.

    Examples
    --------
    >>> import holdfast as hf
    >>> people = pd.DataFrame({"debt": [9000, 1000, 2000], "savings": [0, 5000, 3000], "age": [20, 50, 40]})
    >>> space = hf.FeatureSpace.from_frame(people, protected="age", reasons={"debt": ("19", "Too much debt")})
    >>> network = hf.Network([[[-2.0, 1.0, 1.0]]], [[0.0]])
    >>> advice = hf.explain(network, people.head(1), target=1, generator=hf.NNCE(people), space=space)
    >>> main_reasons(advice)[["column", "code", "text", "value", "usual", "margin"]]
        column code           text  value  usual  margin
    0     debt   19  Too much debt  9,000  1,500   1.875
    0  savings             savings      0  4,000   0.800
    """
    notes = check_recourse(recourse, "recourse").space.notes
    most = None if most is None else whole_number(most, "most", least=1)
    table = []
    for row, counted in enumerate(recourse.against):
        for one in counted[:most]:
            name = one.feature.name
            reason = notes.reason(name, language)
            said = (
                ("", notes.label(name, language)) if reason is None else (reason.code, reason.text)
            )
            values = (readable(one.feature, number, notes) for number in (one.own, one.usual))
            table.append((row, name, *said, *values, one.margin, one.within_reach))
    names = ["row", "column", "code", "text", "value", "usual", "margin", "within_reach"]
    frame = pd.DataFrame(table, columns=names)
    return frame.set_index(recourse.factuals.index[frame.pop("row").to_numpy(dtype=np.intp)])


def against(recourse: Recourse) -> list[list[Against]]:
    """For each row what counts against the person, the weightiest first; nothing for who is accepted.

    Where nothing counts that the person can change, it is what they cannot change: a refusal has reasons.
    """
    if recourse.main_reasons is not None:
        return [_read(recourse, *row) for row in enumerate(recourse.main_reasons)]
    space, targets, own = recourse.space, recourse.targets, recourse.people
    refused = recourse.classifier.predict_index(own.points) != targets
    usual = np.empty(own.numbers.shape)
    for target in np.unique(targets).tolist():
        usual[targets == target] = _usual(recourse, target)
    wanted = space.encode_numbers(np.where(np.isnan(usual), own.numbers, usual))
    counted: list[list[Against]] = [[] for _ in targets]
    for within_reach in (True, False):
        places = np.flatnonzero(refused & np.array([not mine for mine in counted], dtype=np.bool_))
        if places.size:
            numbers = space.nearest_numbers(wanted[places], own.take(places), directed=within_reach)
            for place, one in _won(
                recourse, own.take(places), numbers, targets[places], within_reach
            ):
                counted[places[place]].append(one)
    return [sorted(mine, key=attrgetter("margin"), reverse=True) for mine in counted]


def written(mine: Sequence[Against]) -> str:
    """The reasons as a cell of a table: JSON, an entry [column, usual, margin, within reach] for each."""
    entries = []
    for one in mine:
        categories = one.feature.categories
        usual = str(categories[int(one.usual)]) if one.feature.labelled else float(one.usual)
        entries.append([str(one.feature.name), usual, one.margin, one.within_reach])
    return json.dumps(entries, ensure_ascii=False)


def _read(recourse: Recourse, row: int, text: Any) -> list[Against]:
    """What `written` wrote of this row."""
    names = [str(name) for name in recourse.space.names]
    mine = []
    try:
        for name, usual, margin, within_reach in json.loads(text) if isinstance(text, str) else ():
            i = names.index(name)
            feature = recourse.space.features[i]
            code = [*map(str, feature.categories)].index(usual) if feature.labelled else usual
            own = recourse.people.numbers[row, i]
            mine.append(Against(feature, own, float(code), float(margin), bool(within_reach)))
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"main_reasons: expected what to_frame wrote, got {text!r:.80} in row {row}"
        ) from error
    return mine


def _won(
    recourse: Recourse, own: Rows, numbers: Floats, targets: Ints, within_reach: bool
) -> Iterator[tuple[int, Against]]:
    """For each unprotected column and row: what the margin wins if this column alone is as in `numbers`."""
    space = recourse.space
    there = recourse.space.encode_numbers(numbers)
    today = least_margins(recourse.classifier, targets, own.points)
    for i, feature in enumerate(space.features):
        moved = np.flatnonzero(differs(numbers[:, i], own.numbers[:, i]))
        if feature.name in space.notes.protected or not moved.size:
            continue
        points = own.points[moved]
        columns = feature.places
        points[:, columns] = there[moved][:, columns]
        won = least_margins(recourse.classifier, targets[moved], points) - today[moved]
        for place, margin in zip(moved.tolist(), won.tolist(), strict=True):
            # The last bits depend on how many rows are asked about at once, the reasons must not.
            margin = float(f"{margin:.9g}")
            if margin > 0.0:
                yield (
                    place,
                    Against(
                        feature, own.numbers[place, i], numbers[place, i], margin, within_reach
                    ),
                )


def _usual(recourse: Recourse, target: int) -> Floats:
    """The usual value of accepted people in each column, else the middle of its range; nan where neither is known."""
    table = recourse.data
    if table is None and recourse.generator is not None:
        table = recourse.generator.example_table()
    people = np.empty((0, len(recourse.space.features)))
    if table is not None and not isinstance(table, FeatureSpace):
        some = np.unique(np.linspace(0, len(table) - 1, min(len(table), _ENOUGH)).astype(np.intp))
        people = recourse.space.numbers(
            table.iloc[some] if isinstance(table, pd.DataFrame) else np.asarray(table)[some]
        )
        points = recourse.space.encode_numbers(people)
        people = people[recourse.classifier.predict_index(points) == target]
    usual = np.full(people.shape[1], np.nan)
    for i, feature in enumerate(recourse.space.features):
        known = people[~np.isnan(people[:, i]), i]
        if feature.kind not in (Kind.CATEGORICAL, Kind.BINARY):
            usual[i] = np.median(known) if known.size else (feature.lower + feature.upper) / 2.0
        elif known.size:
            usual[i] = np.bincount(known.astype(np.intp)).argmax()
    return np.where(np.isfinite(usual), usual, np.nan)
