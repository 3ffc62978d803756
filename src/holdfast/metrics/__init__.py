"""The quality of recourse: validity, robustness, cost, plausibility, coverage."""

from holdfast.generators._density import Density
from holdfast.generators._recourse import Recourse as Answers
from holdfast.metrics._rows import (
    cost_l1,
    coverage,
    delta_unknown,
    delta_validity,
    lof,
    per_row,
    sparsity,
    validity,
    validity_retrained,
    violations,
)

__all__ = [
    "Answers",
    "Density",
    "cost_l1",
    "coverage",
    "delta_unknown",
    "delta_validity",
    "lof",
    "per_row",
    "sparsity",
    "validity",
    "validity_retrained",
    "violations",
]
