"""The summary of a result; `holdfast.presentation` makes HTML and pictures of it.

That package registers with `html` and `draw`, so that no result imports a library for drawing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import pandas as pd

# So many rows are shown of a longer table.
HEAD = 20


@dataclass(frozen=True)
class Summary:
    """The summary that a notebook shows of a result.

    Attributes
    ----------
    headline
        The result in one sentence.
    facts
        (name, value) pairs; those without a value are left out.
    table
        The rows to show, at most the first `most`; a cell that is a tuple has one line for each part.
    total, rows
        Number of rows in all (by default, those of the table), and their name.
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
    """HTML of a result for a notebook."""
    raise TypeError(f"expected a result that can be shown, got {type(result).__name__}")


@singledispatch
def draw(result: object, *given: Any, **options: Any) -> Any:
    """Draw a picture of a result."""
    raise TypeError(f"expected a result that can be drawn, got {type(result).__name__}")
