"""A mixed-integer program written down variable by variable and row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.milp.solve import Program
from holdfast.network import Floats


class ProgramBuilder:
    """Collects variables and rows; `build` gives the `Program`.

    Examples
    --------
    >>> builder = ProgramBuilder()
    >>> x, y = builder.variable(0.0, 1.0, cost=1.0), builder.binary()
    >>> builder.row([x, y], [1.0, -0.5], lower=0.0)
    0
    >>> builder.build().integer.tolist()
    [False, True]
    """

    def __init__(self) -> None:
        self._cost: list[float] = []
        self._lower: list[float] = []
        self._upper: list[float] = []
        self._integer: list[bool] = []
        self._starts: list[int] = [0]
        self._columns: list[NDArray[np.int32]] = []
        self._values: list[Floats] = []
        self._row_lower: list[float] = []
        self._row_upper: list[float] = []
        self._paid: list[float] = []

    def variable(self, lower: float, upper: float, *, cost: float = 0.0) -> int:
        """Add a variable and return its number."""
        self._lower.append(float(lower))
        self._upper.append(float(upper))
        self._cost.append(float(cost))
        self._integer.append(False)
        return len(self._cost) - 1

    def binary(self) -> int:
        """Add a variable that is 0 or 1."""
        number = self.variable(0.0, 1.0)
        self._integer[number] = True
        return number

    def pay_from(self, variable: int, start: float, rate: float) -> None:
        """Add  rate * (variable - start)  to the cost."""
        self._cost[variable] += rate
        self._paid.append(-rate * start)

    @property
    def constant(self) -> float:
        """What has to be added to the program's cost, rounded down."""
        return math.fsum([*self._paid, *(-np.finfo(np.float64).eps * abs(part) for part in self._paid)])

    def row(
        self,
        columns: Sequence[int] | NDArray[np.intp],
        values: Sequence[float] | Floats,
        lower: float = -np.inf,
        upper: float = np.inf,
    ) -> int:
        """Add  lower <= values . x[columns] <= upper  and return the row's number; a column may come twice."""
        numbers, coefficients = np.asarray(columns, dtype=np.int32), np.asarray(values, dtype=np.float64)
        unique, place = np.unique(numbers, return_inverse=True)
        if unique.size < numbers.size:
            # Two neurons with the same weights are one variable; HiGHS never returns from a row that names it twice.
            numbers, coefficients = unique, np.bincount(place, weights=coefficients).astype(np.float64)
        used = coefficients != 0.0
        self._columns.append(numbers[used])
        self._values.append(coefficients[used])
        self._starts.append(self._starts[-1] + int(used.sum()))
        self._row_lower.append(float(lower))
        self._row_upper.append(float(upper))
        return len(self._row_lower) - 1

    def build(self) -> Program:
        """Everything so far as plain arrays."""
        none: list[Floats] = [np.empty(0)]
        return Program(
            cost=np.array(self._cost),
            lower=np.array(self._lower),
            upper=np.array(self._upper),
            starts=np.array(self._starts, dtype=np.int32),
            columns=np.concatenate([*self._columns, *none]).astype(np.int32),
            values=np.concatenate([*self._values, *none]),
            row_lower=np.array(self._row_lower),
            row_upper=np.array(self._row_upper),
            integer=np.array(self._integer, dtype=np.bool_),
        )
