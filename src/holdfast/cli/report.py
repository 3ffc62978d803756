"""The command ``report``: advice in a file, as one page on what was promised and how sure it is."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape

import holdfast as hf
from holdfast.cli import tables
from holdfast.cli.options import (
    FILE,
    DataFile,
    Debug,
    Drop,
    Index,
    ModelFile,
    NoBiases,
    Norm,
    TrustPickle,
    changes_of,
    label_of,
    plain_errors,
)
from holdfast.cli.recourse import read_schema
from holdfast.errors import InvalidInputError
from holdfast.generators.stated import recourse_from
from holdfast.importers import Model
from holdfast.importers.files import read_model


def report(
    recourse: Annotated[
        Path, typer.Argument(help="What `holdfast explain --out` wrote: .csv, .csv.gz or .parquet.", **FILE)
    ],
    model: ModelFile,
    data: DataFile,
    target: Annotated[str, typer.Option(help="The class that the people were promised.")],
    out: Annotated[Path, typer.Option(help="Where the page goes: one HTML file that needs nothing else.")],
    schema: Annotated[
        Path | None,
        typer.Option(help="The columns and units, as for `explain`: FeatureSpace.to_dict() as JSON.", **FILE),
    ] = None,
    delta: Annotated[
        list[float] | None, typer.Option(help="How far each parameter may move; repeat it for one radius per layer.")
    ] = None,
    norm: Norm = math.inf,
    no_biases: NoBiases = False,
    name: Annotated[str | None, typer.Option(help="What the method is called that gave the advice.")] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="Another method's advice for the same people; may be repeated."),
    ] = None,
    calibrated: Annotated[
        float | None, typer.Option(metavar="DELTA", help="The delta that retraining was measured to stay within.")
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column of the data to compare people by; may be repeated."),
    ] = None,
    no_radius: Annotated[
        bool, typer.Option("--no-radius", help="Do not compute certified radii, which takes long for large models.")
    ] = False,
    title: Annotated[str | None, typer.Option(help="The page's heading.")] = None,
    date: Annotated[str | None, typer.Option(help="When it was written, 2026-11-16; today if not given.")] = None,
    index: Index = None,
    drop: Drop = None,
    trust_pickle: TrustPickle = False,
    debug: Debug = False,
) -> None:
    """What was promised and how sure it is, as one page; the advice is certified anew."""
    from holdfast.report import check_folder, write_report

    with plain_errors(debug):
        check_folder(out)
        started = time.perf_counter()
        others = [_named_file(text) for text in compare or []]
        classifier = read_model(model, trust_pickle=trust_pickle)
        space, label_column = (None, None) if schema is None else read_schema(schema)
        people = tables.read_table(data, index=index, drop=drop or [])
        groups = {column: _column(people, column, data) for column in group or []}
        if label_column in people.columns:
            people = people.drop(columns=str(label_column))
        reader = _Reader(
            classifier, space, people, data, index or "row", label_of(target, classifier.network),
            changes_of(delta, norm, no_biases) if delta else None, tuple(groups),
        )  # fmt: skip
        told = reader.read(recourse)
        aligned = {
            column: tables.rows_by_key(values.to_frame(), told.factuals, data, index or "row", "the recourse")[column]
            for column, values in groups.items()
        }
        written = write_report(
            told, out, title=title, name=name, others={name: reader.read(path, told) for name, path in others},
            calibrated=calibrated, groups=aligned, date=date, radii=not no_radius,
        )  # fmt: skip
        console = Console(highlight=False)
        proven = f", {int(told.robust.sum()):,} of them proven to survive Δ" if told.changes is not None else ""
        console.print(f"{len(told):,} people, {int(told.found.sum()):,} with advice{proven}.")
        console.print(
            f"report: {escape(str(written))} ({written.stat().st_size / 1e6:.2g} MB, "
            f"{time.perf_counter() - started:.1f} s)",
            soft_wrap=True,
        )


@dataclass(frozen=True)
class _Reader:
    """What the files with advice have in common."""

    classifier: Model
    space: hf.FeatureSpace | None
    people: pd.DataFrame
    data: Path
    index: str
    label: Any
    changes: hf.PlausibleChanges | None
    groups: tuple[str, ...]

    def read(self, path: Path, first: hf.Recourse | None = None) -> hf.Recourse:
        """The advice in a file; for a further method in the order of the first one's people, who must be the same."""
        advice = tables.read_table(path, index=self.index)
        if first is not None:
            if len(advice) != len(first):
                raise InvalidInputError(
                    f"{path}: expected advice for the same {len(first):,} people, got {len(advice):,}"
                )
            advice = tables.rows_by_key(advice, first.factuals, path, self.index, "the recourse")
        factuals = tables.rows_by_key(self._own(self.people), advice, self.data, self.index, "the recourse")
        missing = [column for column in factuals.columns if column not in advice.columns]
        if self.space is None and missing:
            raise InvalidInputError(f"{path}: expected the column {missing[0]!r}, got {list(advice.columns)}")
        found = advice.get("recourse_found", advice.get("found"))
        reasons = advice.get("recourse_reason", advice.get("reason"))
        stated = advice[[column for column in advice.columns if column in factuals.columns]]
        if found is not None:
            answered = np.repeat(found.to_numpy(dtype=np.bool_)[:, None], len(stated.columns), axis=1)
            stated = stated.where(answered)
        return recourse_from(
            self.classifier, factuals, stated, target=self.label, changes=self.changes, space=self.space,
            reasons=reasons,
        )  # fmt: skip

    def _own(self, people: pd.DataFrame) -> pd.DataFrame:
        """Without a schema every column is one of the model's; those that only name groups are then none of them."""
        if self.space is not None or self.classifier.preprocess is not None:
            return people
        surplus = [column for column in self.groups if len(people.columns) > self.classifier.network.n_features]
        return people.drop(columns=surplus)


def _named_file(text: str) -> tuple[str, Path]:
    name, sign, path = text.partition("=")
    if not (name and sign and path):
        raise InvalidInputError(f"--compare: expected NAME=FILE, got {text!r}")
    if not Path(path).is_file():
        raise InvalidInputError(f"--compare: expected a file, got {path!r}, which is not there")
    return name, Path(path)


def _column(people: pd.DataFrame, name: str, data: Path) -> pd.Series:
    if name not in people.columns:
        raise InvalidInputError(f"{data}: expected a column {name!r} for --group, got {list(people.columns)}")
    return people[name]
