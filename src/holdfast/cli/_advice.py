"""Advice in a file: what `holdfast explain --out` wrote, with the people it is for, certified anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from typer import Argument

import holdfast as hf
from holdfast._files import without_apostrophes
from holdfast.cli import _tables as tables
from holdfast.cli._options import FILE, Points
from holdfast.errors import InvalidInputError
from holdfast.generators._stated import recourse_from

AdviceFile = Annotated[
    Path, Argument(help="What `holdfast explain --out` wrote: .csv, .csv.gz or .parquet.", **FILE)
]
Promised = Annotated[str, "The class that the people were promised."]


@dataclass(frozen=True, kw_only=True)
class Advised(Points):
    """A file with advice, the model and the people that it is about, and the class that they were promised."""

    recourse: AdviceFile
    target: Promised

    def read_advice(
        self, people: pd.DataFrame, path: Path | None = None, *, like: hf.Recourse | None = None
    ) -> hf.Recourse:
        """The advice for these people; with a `path` that of another method, for the same people as `like`."""
        path = self.recourse if path is None else path
        advice = tables.read_table(path, index=self.index or "row", space=self.space)
        if ".csv" in path.suffixes:
            advice = without_apostrophes(advice)
        if like is not None:
            if len(advice) != len(like):
                raise InvalidInputError(
                    f"{path}: expected advice for the same {len(like):,} people, got {len(advice):,}"
                )
            advice = tables.rows_by_key(advice, like.factuals, path, "the recourse")
        factuals = tables.rows_by_key(people, advice, self.data, "the recourse")
        missing = [column for column in factuals.columns if column not in advice.columns]
        if self.space is None and missing:
            raise InvalidInputError(
                f"{path}: expected the column {missing[0]!r}, got {list(advice.columns)}"
            )

        def added(name: str) -> Any:
            return advice.get(f"recourse_{name}", advice.get(name))

        against = added("main_reasons")
        usual = getattr(self, "accepted", None)
        if against is not None and usual is not None:
            raise InvalidInputError(
                f"--accepted: {path} states the main reasons already, in its column main_reasons; leave out --accepted"
            )
        answered = added("found")
        stated = advice[[column for column in advice.columns if column in factuals.columns]]
        if answered is not None:
            stated = stated.where(
                np.broadcast_to(answered.to_numpy(dtype=np.bool_)[:, None], stated.shape)
            )
        told = recourse_from(
            self.loaded, factuals, stated, target=self.label, changes=self.read(), space=self.space,
            reasons=added("reason"),
            marks=added("chance"),
        )  # fmt: skip
        alone = tables.advice_name(advice, "left_alone")
        return replace(
            told,
            data=None if usual is None else tables.read_table(usual, space=self.space),
            main_reasons=None if against is None else against.to_numpy(dtype=object),
            left_alone=None if alone is None else advice[alone].fillna("").to_numpy(dtype=object),
        )


@dataclass(frozen=True, kw_only=True)
class Explained(Advised):
    """Advice that is put into words, with what counts against each person."""

    accepted: Annotated[
        Path | None,
        FILE,
        "For advice without a column main_reasons: a table of people, to learn from what accepted ones have which "
        "details count against someone.",
    ] = None
