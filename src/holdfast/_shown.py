"""How results are shown: each gives a plain summary, from which `holdfast.presentation` makes HTML and pictures.

That package registers with `html` and `draw`, so that no result imports anything that draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import pandas as pd

# The number of rows that are shown of a longer table.
HEAD = 20


@dataclass(frozen=True)
class Summary:
    """The summary of a result that a notebook shows.

    Attributes
    ----------
    headline
        The result in one sentence.
    facts
        (name, value) pairs; those without a value are left out.
    table
        The rows to show, of which the first `most` are taken; a cell that is a tuple has one line for each part.
    total, rows
        The number of rows in all (the table's, by default), and their name.
    notes
        Sentences below the table.
    """

    headline: str
    facts: Iterable[tuple[str, object]] = ()
    table: pd.DataFrame | None = None
    total: int | None = None
    rows: str = "rows"
    most: int = HEAD
    notes: Iterable[str] = ()


class Shown(ABC):
    """A result that a notebook can show."""

    @abstractmethod
    def overview(self) -> Summary:
        """The summary of the result."""

    def _repr_html_(self) -> str:
        return html(self)


@singledispatch
def html(result: object) -> str:
    """A result as a notebook shows it."""
    raise TypeError(f"expected a result that can be shown, got {type(result).__name__}")


@singledispatch
def draw(result: object, *given: Any, **options: Any) -> Any:
    """The picture of a result."""
    raise TypeError(f"expected a result that can be drawn, got {type(result).__name__}")
