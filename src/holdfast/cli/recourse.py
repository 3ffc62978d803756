"""The commands ``explain`` and ``methods``: recourse for a table of people, and the ways to find it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

import holdfast as hf
from holdfast.cli import recourse_screens, tables
from holdfast.cli.options import (
    FILE,
    DataFile,
    Debug,
    Delta,
    Drop,
    Index,
    Margin,
    ModelFile,
    NoBiases,
    Norm,
    Out,
    TrustPickle,
    changes_of,
    label_of,
    plain_errors,
)
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features.schema import Schema
from holdfast.features.serial import FORMAT
from holdfast.generators import explain as find_recourse
from holdfast.generators.reading import find_space
from holdfast.generators.registry import METHODS, make_generator
from holdfast.importers import Model
from holdfast.importers.files import read_model


def explain(
    model: ModelFile,
    data: DataFile,
    target: Annotated[str, typer.Option(help="The class that the people want.")],
    schema: Annotated[
        Path | None,
        typer.Option(
            help="Columns, kinds, ranges and what a person can change: FeatureSpace.to_dict() as JSON.", **FILE
        ),
    ] = None,
    delta: Delta = None,
    margin: Margin = None,
    norm: Norm = math.inf,
    no_biases: NoBiases = False,
    method: Annotated[str, typer.Option(help="How to look for recourse; `holdfast methods` lists them.")] = "rnce",
    candidates: Annotated[
        Path | None, typer.Option(help="Other people, such as the training table, for methods that need them.", **FILE)
    ] = None,
    immutable: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column that cannot change; may be repeated.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many people who do not have the class yet.")
    ] = None,
    time_limit: Annotated[float | None, typer.Option(metavar="SECONDS", help="For each person.")] = None,
    seed: Annotated[int, typer.Option(help="For whatever is random in the method.")] = 0,
    index: Index = None,
    drop: Drop = None,
    out: Out = None,
    trust_pickle: TrustPickle = False,
    debug: Debug = False,
) -> None:
    """What could each person change to get the class, and does that survive retraining?"""
    with plain_errors(debug):
        tables.check_output(out)
        changes = changes_of(delta, norm, no_biases, margin)
        given, frame = read_people(data, schema, index, drop)
        others = None if candidates is None else tables.read_table(candidates, space=given)
        if others is None and any(known.name == method and known.needs_candidates for known in METHODS):
            raise InvalidInputError(f"--method {method}: expected --candidates with a table of people, got none")
        generator = make_generator(method, others)
        classifier = read_model(model, trust_pickle=trust_pickle)
        space = find_space(classifier, frame, given, others).constrained(immutable=immutable or ())
        label = label_of(target, classifier.classifier)
        if rows is not None:
            frame = _first_without(frame, classifier, space, label, rows)
        started = time.perf_counter()
        result = find_recourse(
            classifier, frame, target=label, changes=changes, generator=generator, space=space,
            seed=seed, time_limit=time_limit,
        )  # fmt: skip
        seconds = time.perf_counter() - started
        if out is not None:
            advice = [result.describe(row) if result.found[row] else "" for row in range(len(result))]
            # A person without an answer has empty cells, which must not turn everyone's whole numbers into fractions.
            whole = {name: "Int64" for name in frame.columns if pd.api.types.is_integer_dtype(frame[name])}
            tables.write_table(result.to_frame().astype(whole).assign(advice=advice), out)
        recourse_screens.show_recourse(result, target=target, method=method, seconds=seconds, out=out)


def methods() -> None:
    """The ways to find recourse, and what each is good for."""
    recourse_screens.show_methods(METHODS)


def read_people(
    data: Path, schema: Path | None, index: str | None, drop: Sequence[str] | None
) -> tuple[hf.FeatureSpace | None, pd.DataFrame]:
    """The feature space in a schema file, if one is given, and the table of people without its label."""
    space, label_column = (None, None) if schema is None else read_schema(schema)
    people = tables.read_table(data, index=index, drop=drop or (), space=space)
    return space, people.drop(columns=label_column) if label_column in people.columns else people


def read_schema(path: Path) -> tuple[hf.FeatureSpace, Hashable]:
    """The feature space that `FeatureSpace.to_dict` wrote, or a dataset's schema with its label column."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path}: expected a schema as JSON, got: {error}") from error
    if isinstance(data, dict) and data.get("format") == FORMAT:
        return hf.FeatureSpace.from_dict(data), None
    return hf.FeatureSpace.from_schema(path), Schema.load(path).target


def _first_without(
    frame: pd.DataFrame, classifier: Model, space: hf.FeatureSpace, label: object, rows: int
) -> pd.DataFrame:
    without = classifier.in_space(space).classifier.predict(space.encode(frame)) != label
    return frame.iloc[np.flatnonzero(without)[:rows]] if without.any() else frame.head(rows)
