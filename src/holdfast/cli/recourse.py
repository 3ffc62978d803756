"""The commands ``explain``, ``alternatives`` and ``methods``: recourse for a table of people, and how to find it."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

import holdfast as hf
from holdfast.cli import recourse_screens, tables
from holdfast.cli.options import (
    FILE,
    Constraints,
    DataFile,
    Debug,
    Deciding,
    Drop,
    Index,
    MayChange,
    ModelFile,
    Out,
    Schema,
    TrustPickle,
    label_of,
    plain_errors,
    spread,
)
from holdfast.errors import InvalidInputError
from holdfast.features.schema import Schema as SchemaFile
from holdfast.features.serial import FORMAT
from holdfast.files import read_json, write_table
from holdfast.generators import alternatives as find_alternatives
from holdfast.generators import explain as find_recourse
from holdfast.generators.reading import find_space
from holdfast.generators.registry import METHODS, make_generator
from holdfast.importers import Model
from holdfast.importers.files import read_model


@dataclass(frozen=True, kw_only=True)
class Asked(MayChange, Deciding, Constraints):
    """Who asks for what, and how it is to be looked for."""

    model: ModelFile
    data: DataFile
    target: Annotated[str, typer.Option(help="The class that the people want.")]
    schema: Schema = None
    method: Annotated[str, typer.Option(help="How to look for recourse; `holdfast methods` lists them.")] = "rnce"
    candidates: Annotated[
        Path | None, typer.Option(help="Other people, such as the training table, for methods that need them.", **FILE)
    ] = None
    rows: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many people who do not have the class yet.")
    ] = None
    time_limit: Annotated[float | None, typer.Option(metavar="SECONDS", help="For each person.")] = None
    seed: Annotated[int, typer.Option(help="For whatever is random in the method.")] = 0
    index: Index = None
    drop: Drop = None
    trust_pickle: TrustPickle = False

    def question(self) -> dict[str, Any]:
        """The same as arguments of `explain`."""
        changes = self.read()
        given, frame = read_people(self.data, self.schema, self.index, self.drop)
        others = None if self.candidates is None else tables.read_table(self.candidates, space=given)
        if others is None and any(known.name == self.method and known.needs_candidates for known in METHODS):
            raise InvalidInputError(f"--method {self.method}: expected --candidates with a table of people, got none")
        generator = make_generator(self.method, others)
        classifier = self.at(read_model(self.model, trust_pickle=self.trust_pickle))
        space = self.over(find_space(classifier, frame, given, others))
        label = label_of(self.target, classifier.classifier)
        if self.rows is not None:
            frame = _first_without(frame, classifier, space, label, self.rows)
        return {
            "model": classifier, "X": frame, "target": label, "changes": changes, "generator": generator,
            "space": space, "seed": self.seed, "time_limit": self.time_limit,
            "data": others if generator.example_table() is None else None,
        }  # fmt: skip


@spread
def explain(asked: Asked, *, out: Out = None, debug: Debug = False) -> None:
    """What could each person change to get the class, and does that survive retraining?"""
    with plain_errors(debug):
        tables.check_output(out)
        question = asked.question()
        started = time.perf_counter()
        result = find_recourse(**question)
        seconds = time.perf_counter() - started
        if out is not None:
            advice = [result.describe(row) if result.found[row] else "" for row in range(len(result))]
            _write(result.to_frame().assign(advice=advice), question["X"], out)
        recourse_screens.show_recourse(result, target=asked.target, method=asked.method, seconds=seconds, out=out)


@spread
def alternatives(
    asked: Asked,
    *,
    answers: Annotated[int, typer.Option(min=1, help="How many answers to look for, for each person.")] = 3,
    out: Out = None,
    debug: Debug = False,
) -> None:
    """Several different answers for each person: each leaves alone the column that those before leaned on most."""
    with plain_errors(debug):
        tables.check_output(out)
        question = asked.question()
        space, people = question["space"], question["X"]
        names = list(space.names)
        if not people.index.is_unique:
            raise InvalidInputError(f"{asked.data}: expected each {people.index.name!r} once, got repeated ones")
        started = time.perf_counter()
        result = find_alternatives(**question, n_answers=answers)
        seconds = time.perf_counter() - started
        before = people.loc[result.index, names]
        found = result[tables.advice_name(result, "found") or "found"].to_numpy(dtype=np.bool_)
        advice = [
            "; ".join(space.describe_change(before.iloc[row], result[names].iloc[row])) if found[row] else ""
            for row in range(len(result))
        ]
        result = result.assign(advice=advice)
        if out is not None:
            _write(result, people, out)
        recourse_screens.show_alternatives(result, len(people), target=asked.target, seconds=seconds, out=out)


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
    """The feature space that `FeatureSpace.to_dict` wrote, or that of a schema with its label column."""
    data = read_json(path)
    if isinstance(data, dict) and data.get("format") == FORMAT:
        return hf.FeatureSpace.from_dict(data), None
    return hf.FeatureSpace.from_schema(path), SchemaFile.from_dict(data, str(path)).target


def _write(result: pd.DataFrame, people: pd.DataFrame, out: Path) -> None:
    # A person without an answer has empty cells, which must not turn everyone's whole numbers into fractions.
    whole = {name: "Int64" for name in people.columns if pd.api.types.is_integer_dtype(people[name])}
    write_table(result.astype(whole), out)


def _first_without(
    frame: pd.DataFrame, classifier: Model, space: hf.FeatureSpace, label: object, rows: int
) -> pd.DataFrame:
    without = classifier.in_space(space).classifier.predict(space.encode(frame)) != label
    return frame.iloc[np.flatnonzero(without)[:rows]] if without.any() else frame.head(rows)
