"""The command ``schema``: a file about the columns of a table, for people to edit."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from pathlib import Path
from typing import Annotated

import pandas as pd

import holdfast as hf
from holdfast._files import Document, write_text
from holdfast.cli import _tables as tables
from holdfast.cli._options import FILE, Constraints, DataFile, Reading, Texts, command, spelled
from holdfast.cli._screens import say
from holdfast.errors import HoldfastWarning, InvalidInputError
from holdfast.features import Direction
from holdfast.features._schema import schema_document
from holdfast.generators._reading import find_space
from holdfast.importers import Model

_WAYS = (Direction.IMMUTABLE, Direction.INCREASING, Direction.DECREASING)


@command
def schema(
    data: DataFile,
    out: Annotated[Path, "The schema to write, as JSON."],
    limits: Constraints,
    reading: Reading,
    *,
    model: Annotated[
        Path | None,
        FILE,
        "The classifier, if it has preprocessing: .skops, or a pickle with --trust-pickle.",
    ] = None,
    label: Annotated[
        str | None,
        "COLUMN",
        "The column of --data with the classes.",
    ] = None,
    scale: Annotated[
        str,
        "none|minmax|standard",
        "The scaling of numbers, if the model has no preprocessing.",
    ] = "none",
    protected: Annotated[
        Texts,
        "COLUMN",
        "A protected attribute: no advice changes it.",
    ] = None,
    overwrite: Annotated[bool, "Replace --out, even if it was edited."] = False,
) -> None:
    """Write what each column is and what a person can change: a file to edit.

    Directions are proposed from names that are understood: age is immutable, debt goes down. Check them, and decide the
    columns that the file calls undecided.

        $ holdfast schema --model model.npz --data people.csv --index id --out schema.json
    """
    tables.check_output(out, table=False)
    if out.exists() and not overwrite:
        raise InvalidInputError(
            f"--out: {out} exists and may have been edited; add --overwrite to replace it"
        )
    frame = reading.table_in(data)
    labels = None
    if label is not None:
        labels = tables.column_of(frame, label, data, "--label")
        frame = frame.drop(columns=labels.name)
    loaded = None if model is None else reading.model_in(model)
    space = limits.over(_space(frame, loaded, scale, labelled=label is not None), frame)
    others = [str(name) for name in frame.columns if name not in space.names]
    if unknown := [name for name in protected or () if name not in frame.columns]:
        raise InvalidInputError(
            f"--protected: the table has no column {unknown[0]!r}; it has {list(frame.columns)}"
        )
    own = [name for name in protected or () if name in space.names]
    space = space.constrained(protected=protected or (), immutable=own)
    space = space.with_proposals()
    document = schema_document(
        space.features,
        space.rules,
        space.notes,
        name=data.name.partition(".")[0],
        target=label,
        auxiliary=others,
    )
    write_text(_text(document), out)
    _show(space, others, out)
    if loaded is not None and labels is not None:
        _compare(loaded, space, frame, labels)


def _space(
    frame: pd.DataFrame, loaded: Model | None, scale: str, *, labelled: bool
) -> hf.FeatureSpace:
    """The space of the model's preprocessing; without preprocessing, each column by itself."""
    if loaded is not None and loaded.preprocess is not None:
        return find_space(loaded, frame, None, frame)
    names = [
        name for name in (loaded and loaded.feature_names) or frame.columns if name in frame.columns
    ]
    gaps = [name for name in names if frame[name].isna().any()]
    space = hf.FeatureSpace.from_frame(frame[names], scale=scale, missing=gaps)
    if loaded is None:
        return space
    if not labelled and space.n_variables > loaded.classifier.n_features:
        raise InvalidInputError(
            f"--data: expected the model's {loaded.classifier.n_features} variables, got {space.n_variables}; "
            "if a column is the label, name it, such as --label accepted; --drop leaves out other columns"
        )
    return find_space(loaded, frame, space)


def _compare(loaded: Model, space: hf.FeatureSpace, frame: pd.DataFrame, labels: pd.Series) -> None:
    """Say for how many rows the model, read with this schema, gives the row's label; warn if these are few."""
    stated = labels.notna().to_numpy()
    classes = loaded.classifier.classes.tolist()
    wanted = [spelled(str(label), classes) for label in labels[stated]]
    if not wanted or any(label not in classes for label in wanted):
        return
    rows = space.rows(frame[stated])
    given = loaded.in_space(space, rows).classifier.predict(rows.points)
    share = sum(one == label for one, label in zip(given, wanted, strict=True)) / len(wanted)
    say(f"The model gives {share:.0%} of the rows their label.")
    most = max(Counter(wanted).values()) / len(wanted)
    if share <= most < 1.0:
        warnings.warn(
            f"{most:.0%} of the rows have the most frequent label, and the model gives only {share:.0%} their label; "
            "check the encoding: --scale minmax, or --model with the pipeline file",
            HoldfastWarning,
            stacklevel=2,
        )


def _text(document: Document) -> str:
    """JSON with a line for each entry of a column."""

    def listed(entries: Document, indent: str) -> str:
        lines = (
            f"{indent} {json.dumps(key)}: {json.dumps(value)}" for key, value in entries.items()
        )
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"

    columns = ",\n  ".join(listed(column, "  ") for column in document["columns"])
    said = {key: value for key, value in document.items() if key != "columns"}
    head = listed(said | {"help": "?"}, "").replace('"?"', listed(document["help"], " "))
    return f'{head[:-2]},\n "columns": [\n  {columns}\n ]\n}}\n'


def _show(space: hf.FeatureSpace, others: list[str], out: Path) -> None:
    labelled = sum(feature.labelled for feature in space.features)
    gaps = [str(feature.name) for feature in space.features if feature.missing]
    say(
        f"{len(space):,} columns, {labelled:,} of them with labels; the model has {space.n_variables} variables."
    )
    if gaps:
        say(f"Columns with missing values: {', '.join(gaps)}.")
    if others:
        say(f"The model does not read: {', '.join(others)}.")
    for way in _WAYS:
        if names := [str(name) for name, one in space.proposed.items() if one == way]:
            say(f"Proposed {way}, from the names: {', '.join(names)}.")
    if space.unstated:
        say(f'Left free, please decide ("actionability"): {", ".join(map(str, space.unstated))}.')
    say(f"schema: {out}")
