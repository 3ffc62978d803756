"""The paper's figures for its neural networks, to compare with ours: the package's own copy.

The methods that take a delta at delta_val, for which the paper prints 0.02 on all four tables.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

from holdfast.study.paper import _printed as paper
from holdfast.study.paper._settings import BASELINE, DELTA_VAL

_DELTA = 0.02


class Printed(NamedTuple):
    """Seconds for 20 inputs, the share that is Δ-valid at delta_val, and cost_l1."""

    seconds: float
    delta_validity: float
    cost_l1: float


def printed(method: str, table: str, delta: float) -> Printed | None:
    """The paper's figures for this method; None where it prints none for this delta."""
    return _at_delta_val(method, table) if delta == _DELTA else None


@cache
def _at_delta_val(method: str, table: str) -> Printed | None:
    tables = paper.Printed.load()
    for block in (BASELINE, DELTA_VAL):
        figures = [
            tables.seconds("NN", table, block, method),
            tables.quality("NN", table, block, method, "delta_validity_val"),
            tables.quality("NN", table, block, method, "cost_l1"),
        ]
        means = [figure.mean for figure in figures]
        if not any(map(math.isnan, means)):
            return Printed(*means)
    return None
