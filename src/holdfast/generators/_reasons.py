"""The main reasons for a rejection: the details that count most against a person.

    margin that a column would win  =  margin(x with this column as accepted people have it) - margin(x)

Columns that the person can change come first, each moved as far as the person can get. If none of these counts alone,
the reasons are columns that the person cannot change; if no column counts alone, the columns that the advice changes.
Accepted people have the median of a column, or its commonest label. A protected attribute is never a reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from holdfast._files import Place
from holdfast._given import whole_number
from holdfast._network import Bools, Floats, Ints
from holdfast.errors import InvalidInputError
from holdfast.features import Feature, FeatureSpace, Kind
from holdfast.features._codec import Rows, differs
from holdfast.generators._recourse import Recourse, check_recourse
from holdfast.verify._margins import least_margins

# The number of people from whom usual values are learned; more would not change them.
_ENOUGH = 5000
# The source of a reason's `usual`.
ACCEPTED, MIDDLE, ADVICE = "accepted", "middle", "advice"


@dataclass(frozen=True)
class Against:
    """A detail that counts against a person.

    Attributes
    ----------
    feature, own
        The column and the person's value.
    usual
        The value that `own` is compared with.
    margin
        The margin that the column alone would win, moved towards `usual` as far as the person can get.
    within_reach
        Whether the person can change the column that way.
    compared
        The source of `usual`: "accepted" people; the "middle" of the column's range, without a table of people; the
        "advice", if no column counts alone (`margin` is then 0).
    """

    feature: Feature
    own: float
    usual: float
    margin: float
    within_reach: bool = True
    compared: str = ACCEPTED


def main_reasons(
    recourse: Recourse,
    *,
    language: str = "en",
    most: int | None = None,
    templates: Place | None = None,
) -> pd.DataFrame:
    """The details that count most against each rejected person, as a table of sentences.

    Parameters
    ----------
    recourse
        The result of `explain`. The values of accepted people are learned from its `data`, else from the generator's
        candidates; the model says which of these people it accepts. Without such a table, the comparison is with the
        middle of each column's range, and the sentence says so. The reasons are computed once and stored, so that
        letters, report and `to_frame` state the same.
    language, templates
        The language of the texts: "en", "de", or one for which the folder `templates` has the words of letters.
    most
        The largest number of reasons for each person.

    Returns
    -------
    pandas.DataFrame
        With the people's index, the weightiest reason first:

        - `sentence`: the reason in words, with the code and text of the column's adverse-action reason;
        - `column`, `code` and `text` (the column's label if it has no adverse-action reason);
        - `value`, `usual`: the person's value, and the value it is compared with;
        - `margin`: the margin that the column alone would win, moved as far as the person can get;
        - `within_reach`: whether the person can change it. Other columns are named only if no such column counts alone;
        - `compared`: the source of `usual`: "accepted" people, the "middle" of the range, or the "advice" (if no
          column counts alone).

        Accepted people have no row.

    Examples
    --------
    >>> import holdfast as hf
    >>> people = pd.DataFrame({"debt": [9000, 1000, 2000], "savings": [0, 5000, 3000], "age": [20, 50, 40]})
    >>> space = hf.FeatureSpace.from_frame(people, protected="age", reasons={"debt": ("19", "Too much debt")})
    >>> network = hf.Network([[[-2.0, 1.0, 1.0]]], [[0.0]])
    >>> advice = hf.explain(network, people.head(1), target=1, generator=hf.NNCE(people), space=space)
    >>> reasons = main_reasons(advice)
    >>> print(*reasons["sentence"], sep="\\n")
    Too much debt (code 19). Your debt of 9,000 is high; accepted applicants usually have 1,500.
    You have 0 savings, which is low; accepted applicants usually have 4,000.
    >>> reasons[["column", "code", "value", "usual", "margin"]]
        column code  value  usual  margin
    0     debt   19  9,000  1,500   1.875
    0  savings           0  4,000   0.800
    """
    from holdfast.presentation.letters._language import Language
    from holdfast.presentation.letters._wording import Wording

    space = check_recourse(recourse, "recourse").space
    most = None if most is None else whole_number(most, "most", least=1)
    wording = Wording(space, Language.find(language, templates))
    table = []
    for row, counted in enumerate(recourse.against):
        for one in counted[:most]:
            said = wording.reason(one, 1.0)
            values = (said.code, said.text, wording.sentence(said), said.value, said.usual)
            table.append(
                (row, one.feature.name, *values, one.margin, one.within_reach, one.compared)
            )
    names = [
        "row", "column", "code", "text", "sentence", "value", "usual", "margin", "within_reach", "compared"
    ]  # fmt: skip
    frame = pd.DataFrame(table, columns=names)
    return frame.set_index(recourse.factuals.index[frame.pop("row").to_numpy(dtype=np.intp)])


def against(recourse: Recourse) -> list[list[Against]]:
    """For each row the reasons for the rejection, the weightiest first; an empty list for accepted people."""
    if recourse.main_reasons is not None:
        return [_read(recourse, *row) for row in enumerate(recourse.main_reasons)]
    space, targets, own = recourse.space, recourse.targets, recourse.people
    refused = recourse.classifier.predict_index(own.points) != targets
    usual = np.empty(own.numbers.shape)
    known = np.empty(own.numbers.shape, dtype=np.bool_)
    for target in np.unique(targets).tolist():
        usual[targets == target], known[targets == target] = _usual(recourse, target)
    wanted = space.encode_numbers(np.where(np.isnan(usual), own.numbers, usual))
    # A person may be unable to get to the usual value, and a range may end before it: it is what it is.
    whole = [feature.labelled or feature.precision == "integer" for feature in space.features]
    usual = np.where(whole, np.round(usual), usual)
    counted: list[list[Against]] = [[] for _ in targets]
    for within_reach in (True, False):
        places = np.flatnonzero(refused & np.array([not mine for mine in counted], dtype=np.bool_))
        if not places.size:
            continue
        mine = own.take(places)
        reached = space.nearest_numbers(wanted[places], mine, directed=within_reach)
        for place, i, margin in _won(recourse, mine, reached, targets[places]):
            row = places[place]
            if usual[row, i] != own.numbers[row, i]:
                compared = ACCEPTED if known[row, i] else MIDDLE
                values = (own.numbers[row, i], usual[row, i], margin, within_reach, compared)
                counted[row].append(Against(space.features[i], *values))
    for row in np.flatnonzero(refused).tolist():
        counted[row] = counted[row] or _advised(recourse, row)
    return [sorted(mine, key=attrgetter("margin"), reverse=True) for mine in counted]


def written(mine: Sequence[Against]) -> str:
    """The reasons as a cell of a table: JSON, an entry [column, usual, margin, within reach, compared] for each."""
    entries = []
    for one in mine:
        categories = one.feature.categories
        usual = str(categories[int(one.usual)]) if one.feature.labelled else float(one.usual)
        name = str(one.feature.name)
        entries.append([name, usual, one.margin, one.within_reach, one.compared])
    return json.dumps(entries, ensure_ascii=False)


def _read(recourse: Recourse, row: int, text: Any) -> list[Against]:
    """The reasons that `written` wrote of this row."""
    names = [str(name) for name in recourse.space.names]
    mine = []
    try:
        for name, usual, margin, within_reach, compared in (
            json.loads(text) if isinstance(text, str) else ()
        ):
            i = names.index(name)
            feature = recourse.space.features[i]
            code = [*map(str, feature.categories)].index(usual) if feature.labelled else usual
            own = recourse.people.numbers[row, i]
            if compared not in (ACCEPTED, MIDDLE, ADVICE):
                raise ValueError(compared)
            values = (own, float(code), float(margin), bool(within_reach), compared)
            mine.append(Against(feature, *values))
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"main_reasons: row {row} has {text!r:.80}, which to_frame did not write; write the file again"
        ) from error
    return mine


def _won(
    recourse: Recourse, own: Rows, numbers: Floats, targets: Ints
) -> Iterator[tuple[int, int, float]]:
    """For each unprotected column and row: the margin won if this column alone is as in `numbers`."""
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
                yield place, i, margin


def _advised(recourse: Recourse, row: int) -> list[Against]:
    """The columns that a person's first advice changes, the costliest first; empty without advice."""
    space = recourse.space
    row_of_first = row - int(recourse.answer[row]) + 1
    if not recourse.found[row_of_first]:
        return []
    before = recourse.people.numbers[row]
    after = recourse.answers[np.searchsorted(recourse.answered, row_of_first)]
    moved = differs(after, before)
    spent = space.weights * np.abs(recourse.points[row_of_first] - recourse.people.points[row])
    costs = [-float(spent[feature.places].sum()) for feature in space.features]
    return [
        Against(space.features[i], before[i], after[i], 0.0, compared=ADVICE)
        for i in np.argsort(costs, kind="stable").tolist()
        if moved[i] and space.names[i] not in space.protected
    ]


def _usual(recourse: Recourse, target: int) -> tuple[Floats, Bools]:
    """The usual value of accepted people in each column, else the middle of its range, and which of the two it is."""
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
    stated = np.any(~np.isnan(people), axis=0)
    for i, feature in enumerate(recourse.space.features):
        known = people[~np.isnan(people[:, i]), i]
        if feature.kind not in (Kind.CATEGORICAL, Kind.BINARY):
            usual[i] = np.median(known) if known.size else (feature.lower + feature.upper) / 2.0
        elif known.size:
            usual[i] = np.bincount(known.astype(np.intp)).argmax()
    return np.where(np.isfinite(usual), usual, np.nan), np.asarray(stated)
