"""`Dataset`: a table, its feature space, its labels, and what a person has to know before trusting a figure from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from holdfast.datasets._catalogue import Facts
from holdfast.features import FeatureSpace


@dataclass(frozen=True, eq=False)
class Dataset(Facts):
    """A table to try things on; unpacks as ``X, space, y = load(...)``.

    Attributes
    ----------
    name, title
        What it is called.
    frame
        The features in raw units, one row a person. Also `X`.
    space
        Kinds, ranges and what a person can change; ``space.encode(frame)`` is what a model sees.
    target
        The label of each row, on the index of `frame`. Also `y`.
    wanted
        The class to ask for: ``explain(model, data.X, target=data.wanted, ...)``.
    classes
        What each label means.
    caveats
        What to know before trusting a figure from this table.
    licence, source, derivation
        Whose it is, where it comes from, and what was done to it on the way.
    path
        The file it was read from; None where none was needed.
    """

    frame: pd.DataFrame
    space: FeatureSpace
    target: pd.Series[Any]
    path: Path | None

    @property
    def X(self) -> pd.DataFrame:  # noqa: N802
        """The features: `frame` under the name that scikit-learn's users give it."""
        return self.frame

    @property
    def y(self) -> pd.Series[Any]:
        """The labels: `target` under the name that scikit-learn's users give it."""
        return self.target

    @property
    def description(self) -> str:
        """Everything but the numbers, as text."""
        counts = self.target.value_counts()
        lines = [
            self.title,
            f"{len(self.frame):,} rows, {len(self.frame.columns)} features, label {self.target.name!r}:",
            *(
                f"  {label} {meaning}: {counts.get(label, 0):,} rows{' (wanted)' if label == self.wanted else ''}"
                for label, meaning in self.classes.items()
            ),
            f"From {self.source}. {self.derivation}",
            f"Licence: {self.licence}.",
            *(f"Caveat: {caveat}" for caveat in self.caveats),
        ]
        return "\n".join(lines)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.frame, self.space, self.target))

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {len(self.frame):,} rows, {len(self.frame.columns)} features, "
            f"{len(self.classes)} classes, wanted {self.wanted})"
        )
