"""What a person's page has apart from the advice: reasons, other proven ways, probabilities, certificates."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import softmax

from holdfast._files import Place, without_apostrophes
from holdfast._network import Floats, Network
from holdfast.errors import InvalidInputError
from holdfast.features import Feature, FeatureSpace
from holdfast.features._describe import NOT_STATED
from holdfast.generators import Recourse
from holdfast.generators._stated import advice_ids
from holdfast.presentation.letters._compose import reasons_in_words
from holdfast.presentation.report._contents import Counted, CounterModel, OtherWay, Person, Value
from holdfast.presentation.report._words import for_people


def people_of(
    recourse: Recourse,
    shown: Sequence[Feature],
    keys: Sequence[str],
    radii: Floats,
    counters: Mapping[int, CounterModel],
    wanted: str,
    *more: Sequence[Any],
) -> tuple[Person, ...]:
    """One for each row; `shown` are the columns on their pages; all else has an entry for each row."""
    n = len(recourse)
    rows = recourse.answered
    worst = np.full(n, np.nan)
    after = list[tuple[Value, ...]]([()] * n)
    if recourse.certificates is not None:
        worst[rows] = recourse.certificates.margin_lower
    told = _rows(recourse.space, shown, recourse.answers)
    for row, values in zip(rows.tolist(), told, strict=True):
        after[row] = values
    columns = (
        keys,
        _rows(recourse.space, shown, recourse.people.numbers),
        after,
        [_unbroken(advice, recourse.space) for advice in recourse.advice],
        recourse.verdict_names.fillna(""),
        finite(recourse.cost_l1),
        finite(radii),
        finite(recourse.optimality_gap),
        finite(worst),
        (for_people(reason, recourse.space, wanted) for reason in recourse.reason),
        map(counters.get, range(n)),
        zip(
            finite(chances(recourse, recourse.people.points)),
            finite(chances(recourse, recourse.points)),
            strict=True,
        ),
        *more,
    )
    return tuple(starmap(Person, zip(*columns, strict=True)))


def _rows(
    space: FeatureSpace, shown: Sequence[Feature], numbers: Floats
) -> list[tuple[Value, ...]]:
    """The shown columns of a table as people write them, row by row."""
    columns = (
        values_of(space, feature, numbers[:, space.names.index(feature.name)]) for feature in shown
    )
    return list(zip(*columns, strict=True))


def finite(values: ArrayLike) -> list[float | None]:
    """The numbers, None for nan and infinities."""
    numbers = np.asarray(values, dtype=np.float64)
    plain = numbers.astype(object)
    plain[~np.isfinite(numbers)] = None
    return list(plain)


def values_of(space: FeatureSpace, feature: Feature, numbers: Floats) -> list[Value]:
    """A column's numbers as people write them."""
    if feature.labelled:
        labels: list[Value] = []
        for label in feature.categories:
            value = label.item() if isinstance(label, np.generic) else label
            word = space.notes.word(feature.name, label)
            labels.append(
                value if isinstance(value, bool | int | float) and word == str(label) else word
            )
        return [NOT_STATED if math.isnan(code) else labels[int(code)] for code in numbers]
    known = numbers[~np.isnan(numbers)]
    whole = feature.precision == "integer" or bool(
        (feature.step or 0.5) % 1.0 == 0.0 and (known % 1.0 == 0.0).all()
    )
    return [
        NOT_STATED if math.isnan(number) else int(number) if whole else float(number)
        for number in numbers
    ]


def counted(recourse: Recourse, shown: Sequence[Feature]) -> list[tuple[Counted, ...]]:
    """Each person's main reasons in the letter's words, by the place of the column that is shown."""
    return [
        tuple(
            Counted(shown.index(one.feature), sentence, one.margin, stays)
            for one, (sentence, stays) in zip(mine, said, strict=False)
        )
        for mine, said in zip(recourse.against, reasons_in_words(recourse), strict=True)
    ]


def _unbroken(advice: Sequence[str], space: FeatureSpace) -> tuple[str, ...]:
    r"""Advice with a no-break space between each number and its unit.

    >>> space = FeatureSpace.from_frame(pd.DataFrame({"income": [1, 2]}), units={"income": "€ a year"})
    >>> _unbroken(["raise income from 1 to 2 € a year"], space)
    ('raise income from 1 to 2\xa0€ a year',)
    """
    units = {space.notes.word(one.name, one.unit) for one in space.features if one.unit}
    if not units:
        return tuple(advice)
    before_unit = re.compile(rf"(?<=\d) (?=(?:{'|'.join(map(re.escape, units))}))")
    return tuple(before_unit.sub("\u00a0", text) for text in advice)


def chances(recourse: Recourse, points: Floats) -> Floats:
    """The model's probability of the class that each person was promised; nan where it has none."""
    model = recourse.model
    result = np.full(len(points), np.nan)
    rows = np.flatnonzero(np.isfinite(points).all(axis=1))
    # Scores are log-odds; those of a support vector machine are not, unless they were calibrated.
    odds = model.calibration is not None or model.odds
    if not isinstance(model.trained, Network):
        odds = bool(getattr(getattr(model.trained, "score", None), "odds", False))
    if not odds or not rows.size:
        return result
    logits = model.trained.logits(points[rows])
    if model.calibration is not None:
        logits = model.calibration.log_odds(logits)
    if logits.shape[1] == 1:
        logits = np.column_stack([np.zeros(rows.size), logits])
    result[rows] = softmax(logits, axis=1)[np.arange(rows.size), recourse.targets[rows]]
    return result


def other_ways(
    recourse: Recourse, others: Mapping[str, Recourse], alternatives: Recourse | None
) -> list[tuple[OtherWay, ...]]:
    """The proven advice of other methods, and the proven ways that `alternatives` found."""
    result: list[list[OtherWay]] = [[] for _ in range(len(recourse))]
    for name, other in others.items():
        for row in np.flatnonzero(other.found & other.robust).tolist():
            result[row].append(OtherWay(name, _unbroken(other.advice[row], recourse.space)))
    if alternatives is not None:
        keys = recourse.factuals.index
        alone = getattr(alternatives, "left_alone", None)
        if alone is None or not keys.is_unique or not set(alternatives.factuals.index) <= set(keys):
            raise InvalidInputError(
                "alternatives: expected what `alternatives` returns for the same people, each with a key of their own, "
                f"got {type(alternatives).__name__ if alone is None else 'other or repeated keys'}"
            )
        rows = keys.get_indexer(alternatives.factuals.index).tolist()
        told = zip(rows, alone, alternatives.advice, alternatives.robust, strict=True)
        for row, names, advice, robust in told:
            if names and robust:
                labels = " and ".join(map(recourse.space.label, names.split(", ")))
                ways = _unbroken(advice, recourse.space)
                result[row].append(OtherWay(f"leaving {labels} alone", ways))
    return [tuple(ways) for ways in result]


def certificate_ids(recourse: Recourse, path: Place | None) -> list[str]:
    """The ids of the certificates in a file or folder that prove these promises; "" without one."""
    result = [""] * len(recourse)
    if path is None or recourse.changes is None:
        return result
    from holdfast import checker
    from holdfast.promises._certificate import read_certificates, row_document
    from holdfast.verify._fingerprint import fingerprint

    if not Path(path).exists():
        raise InvalidInputError(
            f"certificates: expected a file or a folder, got {str(path)!r}, which is not there"
        )
    trained = recourse.model.trained
    off = recourse.model.offsets
    model = fingerprint(trained) if isinstance(trained, Network) else None
    about = (
        "ROBUST",
        _without_models(recourse.changes.to_dict()),
        model,
        list(off) if any(off) else [],
    )
    ids: dict[object, str] = {}
    for document in read_certificates(path):
        hashes = document.get("hashes", {})
        threshold = document.get("threshold", {})
        changes = _without_models(document.get("changes", {}))
        if (
            document.get("verdict"),
            changes,
            hashes.get("model"),
            threshold.get("offsets", []),
        ) == about:
            point = (hashes["point"], document["target"]["index"])
            # People may be told the same: each has a certificate of their own where their row is in one.
            ids[point] = ids[(*point, hashes["row"])] = str(document["id"])
    for row in np.flatnonzero(recourse.robust).tolist():
        point = (checker.sha256(recourse.points[row].tolist()), int(recourse.targets[row]))
        own = checker.sha256(row_document(recourse.factuals.iloc[row]))
        result[row] = ids.get((*point, own), ids.get(point, ""))
    return result


def letter_links(
    recourse: Recourse, folder: Place | None, page: Path, keys: Sequence[str]
) -> tuple[list[str], int]:
    """Where a page finds each person's letter, "" where there is none; and how many are of other advice, left out."""
    if folder is None:
        return [""] * len(keys), 0
    try:
        manifest = without_apostrophes(
            pd.read_csv(Path(folder) / "manifest.csv", dtype=str, keep_default_na=False)
        )
        if "advice" not in manifest and "file" in manifest:
            raise InvalidInputError(
                f"letters: {Path(folder).name}/manifest.csv has no column 'advice'; write the letters again: "
                "`holdfast letters`"
            )
        told = manifest.loc[manifest["file"] != "", ["key", "file", "advice"]]
        files = {key: (file, advice) for key, file, advice in told.itertuples(index=False)}
    except InvalidInputError:
        raise
    except (OSError, KeyError, ValueError) as error:
        raise InvalidInputError(
            f"letters: expected a folder that letters wrote, got: {error}"
        ) from error
    place = Path(os.path.relpath(Path(folder).absolute(), page.absolute().parent)).as_posix()
    links = [""] * len(keys)
    foreign = 0
    for row, (key, own) in enumerate(zip(keys, advice_ids(recourse), strict=True)):
        file, advice = files.get(key, ("", own))
        if advice != own:
            foreign += 1
        elif file:
            links[row] = quote(f"{place}/{file}")
    return links, foreign


def _without_models(changes: Mapping[str, Any]) -> dict[str, Any]:
    """A certificate has the models of an ensemble in full."""
    return {name: value for name, value in changes.items() if name != "models"}
