"""What a chance was measured for, held against the advice that it is to be stated of: `misfits` alone decides.

A chance is about promises that one generator made, for one model, space, threshold, kind and size of change, to people
like those of whom it was measured. It is stated where all of these are the same, of people who are not plainly unlike.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import pandas as pd

from holdfast import checker
from holdfast._files import Document
from holdfast._given import row_words
from holdfast._network import Bools
from holdfast.changes import Changes
from holdfast.generators._base import Generator, Task
from holdfast.generators._candidates import read_candidates
from holdfast.verify._fingerprint import fingerprint, leave_out

if TYPE_CHECKING:
    from holdfast.generators._recourse import Recourse

# Each part of a record, and what it is called where it differs.
_PARTS = {
    "generator": "the generator",
    "rows": "the rows that the generator looks in",
    "space": "the feature space (columns, units, or what a person can change)",
    "model": "the model",
    "threshold": "the threshold",
    "target": "the target",
    "changes": "the kind, size or shape of change",
}


def settings_of(generator: Generator) -> str:
    """The method and its settings; a table by how many rows it has."""
    said = []
    for name, value in vars(generator).items():
        if value is None:
            continue
        if isinstance(value, Generator):
            text = f"({settings_of(value)})"
        elif isinstance(value, bool):
            text = "on" if value else "off"
        elif isinstance(value, str) or not hasattr(value, "__len__"):
            text = str(value)
        else:
            text = f"of {len(value):,} rows"
        said.append(f"{name.replace('_', ' ')} {text}")
    return f"{type(generator).__name__}{' with ' if said else ''}{', '.join(said)}"


def record_of(task: Task | Recourse, generator: Generator | None, changes: Changes) -> Document:
    """All that a chance belongs to but people, as plain JSON-able data; without a generator, what else is known."""
    classifier, threshold = task.model.recorded
    name = fingerprint(classifier)
    record = {
        # What nobody can tell from others by its content is told by being the same object.
        "model": f"object {id(getattr(classifier, 'score', classifier))}"
        if name == "unknown"
        else name,
        "threshold": list(threshold) if isinstance(threshold, tuple) else threshold,
        "target": task.classifier.classes[np.unique(task.targets)].tolist(),
        "changes": checker.sha256({**changes.to_dict(), "chance": None, "inside": None}),
    }
    if generator is None:
        return record
    return record | {
        "generator": settings_of(generator),
        "rows": joblib.hash(list(_tables(generator, task)), hash_name="sha1"),
        "space": checker.space_sha256(task.space.to_dict()),
    }


def _tables(generator: Generator, task: Task | Recourse) -> Iterator[Any]:
    """What a generator looks in, a table of people in the model's variables."""
    for name, value in vars(generator).items():
        if isinstance(value, Generator):
            yield from _tables(value, task)
        elif name in ("candidates", "plausible") and isinstance(value, pd.DataFrame | np.ndarray):
            yield np.ascontiguousarray(read_candidates(value, task.space, task.classifier))
        elif hasattr(value, "__len__") and not isinstance(value, str):
            yield getattr(value, "points", value)


def people_record(recourse: Recourse) -> list[list[float | None]]:
    """For each column the labels that were seen, or between which ends a number is not plainly unlike; None for gaps.

    The ends are as far beyond the least and the greatest as these are apart, and rounded outwards: nobody's own number
    can be read from them.
    """
    record = []
    for feature, values in zip(
        recourse.space.features, recourse.people.numbers[recourse.found].T, strict=True
    ):
        known, gaps = values[~np.isnan(values)], [None] * bool(np.isnan(values).any())
        seen: list[float] = np.unique(known).tolist()
        if not feature.labelled and seen:
            low, high = seen[0], seen[-1]
            width = high - low
            unit = 10.0 ** (math.floor(math.log10(width)) - 1) if width else 1.0
            seen = [
                math.floor((low - width) / unit) * unit,
                math.ceil((high + width) / unit) * unit,
            ]
            seen = seen if width else [low, high]
        record.append([*seen, *gaps])
    return record


def unlike(recourse: Recourse, record: Iterable[list[float | None]]) -> Bools:
    """Who is plainly unlike those of whom a chance was measured."""
    odd = np.zeros(len(recourse), dtype=np.bool_)
    features, columns = recourse.space.features, recourse.people.numbers.T
    for feature, values, seen in zip(features, columns, record, strict=True):
        known = [number for number in seen if number is not None]
        gaps = np.isnan(values)
        like = (
            np.isin(values, known)
            if feature.labelled or not known
            else (values >= known[0]) & (values <= known[-1])
        )
        odd |= np.where(gaps, None not in seen, ~like)
    return odd


def misfits(changes: Changes, task: Task | Recourse, generator: Generator | None) -> list[str]:
    """Why the chance of these changes is not about such advice; nothing where it is."""
    assert changes.chance is not None
    record = changes.chance.record
    if record is None:
        return ["it does not say what it was measured for"]
    now, reasons = record_of(task, generator, changes), []
    for name, ours in now.items():
        theirs = record.get(name)
        same = set(ours) <= set(theirs or ()) if name == "target" else ours == theirs
        if not same:
            said = [str(one) for one in (theirs, ours)]
            told = said[0] != said[1] and name in ("generator", "threshold", "target")
            reasons.append(f"{_PARTS[name]} differs" + f": {said[0]}, not {said[1]}" * told)
    return reasons


def stated(
    recourse: Recourse, changes: Changes | None, generator: Generator | None, marks: Any = None
) -> Recourse:
    """The advice with the chance of these changes where it fits; a warning says why it is left out, and of whom.

    Without a generator the rows must bear the `marks` that they had when the advice was found.
    """
    chance = None if changes is None else changes.chance
    if chance is None or recourse.changes is None or not recourse.found.any():
        return recourse
    told = replace(recourse, changes=recourse.changes.calibrated(chance), measured=recourse.found)
    assert told.changes is not None
    reasons, measured = misfits(told.changes, recourse, generator), recourse.found
    if not reasons and generator is None:
        measured = np.array(marks_of(told)) == ("" if marks is None else np.asarray(marks))
        measured &= recourse.found
        if not measured.any():
            reasons = ["the table does not say that `explain` stated it of these rows"]
    elif not reasons:
        odd = measured & unlike(recourse, chance.record["people"])  # type: ignore[index]
        measured = measured & ~odd
        if odd.any():
            row = row_words(int(odd.argmax()), recourse.factuals.index)
            n = int(recourse.found.sum())
            why = "they are plainly unlike those of whom it was measured"
            leave_out(
                f"chance of {int(odd.sum())} of {n} people, such as {row},", why, "risk_calibrated"
            )
    if reasons:
        leave_out("chance", "; ".join(reasons), "risk_calibrated")
    return recourse if reasons or not measured.any() else replace(told, measured=measured)


def marks_of(recourse: Recourse) -> list[str]:
    """For each row a hash of the chance and of the advice that it is about; "" where none is stated."""
    rows = zip(recourse.measured, recourse.people.points, recourse.points, strict=True)
    about = checker.sha256(None if recourse.changes is None else recourse.changes.to_dict())
    return [
        hashlib.sha256(about.encode() + before.tobytes() + after.tobytes()).hexdigest()[:16]
        * bool(of)
        for of, before, after in rows
    ]
