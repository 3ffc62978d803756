"""A mixed-integer program written down variable by variable and row by row."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from holdfast.milp._relaxation import Program


class ProgramBuilder:
    """Collects variables and rows; `build` gives the `Program`, in which `binaries` may be anything from 0 to 1.

    Examples
    --------
    >>> builder = ProgramBuilder()
    >>> x, y = builder.variable(0.0, 1.0, cost=1.0), builder.binary()
    >>> builder.row([x, y], [1.0, -0.5], lower=0.0)
    0
    >>> builder.binaries, builder.build().rows
    ([1], array([[ 1. , -0.5]]))
    """

    def __init__(self) -> None:
        self.binaries: list[int] = []
        self._variables: list[tuple[float, float, float, float]] = []
        self._rows: list[tuple[ArrayLike, ArrayLike, float, float]] = []

    def variable(self, lower: float, upper: float, *, cost: float = 0.0, start: float = 0.0) -> int:
        """Add a variable at  cost * (variable - start)  and return its number."""
        self._variables.append((cost, lower, upper, start))
        return len(self._variables) - 1

    def binary(self) -> int:
        """Add a variable that is 0 or 1."""
        self.binaries.append(self.variable(0.0, 1.0))
        return self.binaries[-1]

    def row(
        self,
        columns: ArrayLike,
        values: ArrayLike,
        lower: float = -np.inf,
        upper: float = np.inf,
    ) -> int:
        """Add  lower <= values . x[columns] <= upper  and return the row's number; a column may come twice."""
        self._rows.append((columns, values, lower, upper))
        return len(self._rows) - 1

    def build(self) -> Program:
        """Everything so far as plain arrays."""
        rows = np.zeros((len(self._rows), len(self._variables)))
        for row, (columns, values, _, _) in zip(rows, self._rows, strict=True):
            np.add.at(row, np.asarray(columns, dtype=np.intp), values)
        cost, lower, upper, start = np.array(self._variables, dtype=np.float64).T
        bottom, top = np.array([ends for _, _, *ends in self._rows]).T
        # What the starts take off the cost, rounded down.
        paid = -cost * start
        constant = math.fsum([*paid, *(-np.finfo(np.float64).eps * np.abs(paid))])
        return Program(cost, lower, upper, rows, bottom, top, constant)
