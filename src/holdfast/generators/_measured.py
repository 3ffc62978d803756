"""The question that a chance was measured for, compared with the advice that it is stated of: `misfits` decides.

A chance is about promises that one generator made, for one model, space, threshold, kind and size of change, to people
like those of whom it was measured. It is stated where all of these are the same, of people who are not plainly unlike.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast._files import Document
from holdfast._given import row_words
from holdfast._network import Bools, Ints
from holdfast.changes import Changes
from holdfast.features import FeatureSpace
from holdfast.generators._base import Generator
from holdfast.generators._candidates import read_candidates
from holdfast.importers import Model
from holdfast.verify._fingerprint import fingerprint, leave_out, sha256

if TYPE_CHECKING:
    from holdfast.generators._recourse import Recourse

# Parts of a record that are said, and those that are only named.
_SAID = ("generator", "threshold", "target")
_NAMES = {
    "rows": "table that the generator looks in",
    "space": "feature space (columns, units, or what a person can change)",
    "changes": "kind, size or shape of change",
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


def record_of(
    generator: Generator, changes: Changes, model: Model, space: FeatureSpace, targets: Ints
) -> Document:
    """All that a chance belongs to but people, as plain JSON-able data."""
    classifier, threshold = model.recorded
    rows = hashlib.sha256()
    for table in (generator.example_table(), getattr(generator, "plausible", None)):
        if table is not None and not isinstance(table, FeatureSpace):
            rows.update(read_candidates(table, space, model.classifier).tobytes())
    return {
        "generator": settings_of(generator),
        "rows": rows.hexdigest(),
        "model": fingerprint(classifier),
        "threshold": list(threshold) if isinstance(threshold, tuple) else threshold,
        "target": model.classifier.classes[np.unique(targets)].tolist(),
        "space": sha256(space.to_dict(notes=False)),
        "changes": sha256(changes.bare.to_dict()),
    }


def people_record(recourse: Recourse) -> list[list[float | None]]:
    """For each column the labels that were seen, or the ends beyond which a number is plainly unlike; None for gaps.

    The ends are as far beyond the least and the greatest number as these are apart.
    """
    record: list[list[float | None]] = []
    features, columns = recourse.space.features, recourse.people.numbers[recourse.found].T
    for feature, values in zip(features, columns, strict=True):
        seen = np.unique(values[~np.isnan(values)])
        if seen.size and not feature.labelled:
            width = seen[-1] - seen[0]
            seen = np.array([seen[0] - width, seen[-1] + width])
        record.append([*seen.tolist(), *[None] * bool(np.isnan(values).any())])
    return record


def _unlike(recourse: Recourse, record: list[list[float | None]]) -> Bools:
    """Who is plainly unlike those of whom a chance was measured."""
    odd = np.zeros(len(recourse), dtype=bool)
    columns = zip(recourse.space.features, recourse.people.numbers.T, record, strict=True)
    for feature, values, seen in columns:
        known = [number for number in seen if number is not None]
        like = np.isin(values, known)
        if known and not feature.labelled:
            like = (values >= known[0]) & (values <= known[-1])
        odd |= ~np.where(np.isnan(values), None in seen, like)
    return odd


def misfits(
    generator: Generator, changes: Changes, model: Model, space: FeatureSpace, targets: Ints
) -> list[str]:
    """Why the chance of these changes is not about such advice; nothing where it is."""
    record = changes.chance and changes.chance.record
    if not record or "people" not in record:
        return ["it does not say what it was measured for"]
    reasons = []
    for name, ours in record_of(generator, changes, model, space, targets).items():
        theirs = record.get(name)
        # Nobody can tell an unknown model from others.
        same = ours == theirs != "unknown"
        if name == "target":
            same = set(ours) <= set(theirs or ())
        if not same:
            reasons.append(
                f"it was measured for the {name} {theirs}, not {ours}"
                if name in _SAID
                else f"it was measured for another {_NAMES.get(name, name)}"
            )
    return reasons


def stated(recourse: Recourse, changes: Changes | None, marks: Any = None) -> Recourse:
    """The advice with the chance of these changes where it fits; a warning says why it is left out, and of whom.

    Advice from a table bears the `marks` that it had when it was found.
    """
    chance, n = changes and changes.chance, int(recourse.found.sum())
    if not chance or recourse.changes is None or not n:
        return recourse
    own = recourse.changes.calibrated(chance)
    told = replace(recourse, changes=own, measured=recourse.found)
    if recourse.generator is None:
        like = np.array(marks_of(told), dtype=object) == np.asarray(marks, dtype=object)
        why = "the table does not say that it was stated of these rows"
    else:
        why = "; ".join(misfits(recourse.generator, own, told.model, told.space, told.targets))
        like = ~told.found if why else ~_unlike(told, (chance.record or {})["people"])
        why = why or "they are plainly unlike those of whom it was measured"
    odd = np.flatnonzero(told.found & ~like)
    if odd.size:
        row = row_words(int(odd[0]), told.factuals.index)
        some = f" of {odd.size} of {n} people, such as {row}," * (odd.size < n)
        leave_out(f"chance{some}", why)
    return recourse if odd.size == n else replace(told, measured=told.found & like)


def marks_of(recourse: Recourse) -> list[str]:
    """For each row a hash of the chance and of the advice that it is about; "" where none is stated."""
    if recourse.measured is None or recourse.changes is None:
        return [""] * len(recourse)
    classifier, threshold = recourse.model.recorded
    about = [recourse.changes.to_dict(), fingerprint(classifier), threshold]
    text = sha256(about).encode()
    parts = np.column_stack([recourse.people.points, recourse.points, recourse.targets])
    # A letter before it keeps a table's reader from taking it for a number.
    return [
        "c" + hashlib.sha256(text + part.tobytes()).hexdigest()[:16] if stated else ""
        for part, stated in zip(parts, recourse.measured, strict=True)
    ]
