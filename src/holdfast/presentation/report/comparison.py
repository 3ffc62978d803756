"""Methods side by side: the same people, the same model, the same Δ."""

from __future__ import annotations

import numpy as np

from holdfast.errors import InvalidInputError
from holdfast.generators import Recourse
from holdfast.generators.radii import Radii
from holdfast.network import Floats
from holdfast.presentation.report.contents import Method
from holdfast.presentation.report.groups import mean, median
from holdfast.presentation.report.radii import survival_curve
from holdfast.verify import Verdict


def method_of(name: str, recourse: Recourse, radii: Radii) -> Method:
    """What a method did, in figures."""
    found, lower = recourse.found, radii.lower
    return Method(
        name=name,
        found=int(found.sum()),
        robust=int(recourse.robust.sum()),
        unknown=sum(verdict is Verdict.UNKNOWN for verdict in recourse.verdict),
        mean_cost=mean(recourse.cost_l1[found]),
        median_cost=median(recourse.cost_l1[found]),
        median_radius=median(lower[found]),
        survival=survival_curve(lower[found]) if radii.known else None,
        costs=_numbers(recourse.cost_l1),
        radii=_numbers(lower),
    )


def alike(recourse: Recourse, other: Recourse, name: str) -> Recourse:
    """The other method's answers under the same Δ: certified anew if they were made under another, or under none."""
    where = f"others[{name!r}]"
    if not isinstance(other, Recourse):
        raise InvalidInputError(f"{where}: expected what `explain` returns, got {type(other).__name__}")
    if len(other) != len(recourse):
        raise InvalidInputError(f"{where}: expected the same {len(recourse)} people, got {len(other)}")
    if other.classifier != recourse.classifier:
        raise InvalidInputError(f"{where}: expected advice for the same model, got another model's")
    if not np.array_equal(other.targets, recourse.targets):
        raise InvalidInputError(f"{where}: expected the same target classes, got others")
    if not other.factuals.index.equals(recourse.factuals.index):
        raise InvalidInputError(f"{where}: expected the same people in the same order, got other keys")
    if not np.array_equal(other.people.points, recourse.people.points):
        raise InvalidInputError(f"{where}: expected the same people in the same order, got other values")
    if other.changes == recourse.changes:
        return other
    return other.under(recourse.changes)


def _numbers(values: Floats) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(value) else float(value) for value in values)
