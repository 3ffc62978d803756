"""Advice in a file of `holdfast explain --out`, with its people, certified again."""

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

AdviceFile = Annotated[Path, Argument(help="The file that `holdfast explain --out` wrote.", **FILE)]


@dataclass(frozen=True, kw_only=True)
class Advised(Points):
    """A file with advice, its model and its people, and the class that they were promised."""

    recourse: AdviceFile

    def read_advice(
        self, people: pd.DataFrame, path: Path | None = None, *, like: hf.Recourse | None = None
    ) -> hf.Recourse:
        """The advice for these people; with a `path` the advice of another method, for the people of `like`."""
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
                f"--accepted: {path} has the main reasons already, in its column main_reasons; leave out --accepted"
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
    """Advice in words, with the main reasons against each person."""

    accepted: Annotated[
        Path | None,
        FILE,
        "A table with accepted people, to find each person's main reasons; not needed if the advice has them.",
    ] = None
