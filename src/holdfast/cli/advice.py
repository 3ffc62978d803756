"""Advice in a file: what `holdfast explain --out` wrote, with the people it is for, certified anew."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

import holdfast as hf
from holdfast.changes import Changes
from holdfast.cli import tables
from holdfast.cli.options import FILE
from holdfast.errors import InvalidInputError
from holdfast.generators.stated import recourse_from
from holdfast.importers import Model

AdviceFile = Annotated[
    Path, typer.Argument(help="What `holdfast explain --out` wrote: .csv, .csv.gz or .parquet.", **FILE)
]
Promised = Annotated[str, typer.Option(help="The class that the people were promised.")]
Accepted = Annotated[
    Path | None,
    typer.Option(
        help="A table of people, to learn from what accepted ones have which details count against someone.", **FILE
    ),
]


@dataclass(frozen=True)
class AdviceReader:
    """What files with advice have in common.

    Attributes
    ----------
    people, data, index
        The people, the file they came from, and the name of their key.
    label
        The class that they were promised.
    """

    classifier: Model
    space: hf.FeatureSpace | None
    people: pd.DataFrame
    data: Path
    index: str
    label: Any
    changes: Changes | None

    def read(self, path: Path, first: hf.Recourse | None = None) -> hf.Recourse:
        """The advice in a file; for a further method in the order of the first one's people, who must be the same."""
        advice = tables.read_table(path, index=self.index, space=self.space)
        if first is not None:
            if len(advice) != len(first):
                raise InvalidInputError(
                    f"{path}: expected advice for the same {len(first):,} people, got {len(advice):,}"
                )
            advice = tables.rows_by_key(advice, first.factuals, path, self.index, "the recourse")
        factuals = tables.rows_by_key(self.people, advice, self.data, self.index, "the recourse")
        missing = [column for column in factuals.columns if column not in advice.columns]
        if self.space is None and missing:
            raise InvalidInputError(f"{path}: expected the column {missing[0]!r}, got {list(advice.columns)}")
        found = advice.get("recourse_found", advice.get("found"))
        stated = advice[[column for column in advice.columns if column in factuals.columns]]
        if found is not None:
            stated = stated.where(np.broadcast_to(found.to_numpy(dtype=np.bool_)[:, None], stated.shape))
        return recourse_from(
            self.classifier, factuals, stated, target=self.label, changes=self.changes, space=self.space,
            reasons=advice.get("recourse_reason", advice.get("reason")),
        )  # fmt: skip
