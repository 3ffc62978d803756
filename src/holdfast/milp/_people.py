"""A person's variables in a linear program: ranges, labels, rules, and what a change costs.

Grids, and own values that no change could lead to, are no rows: the search splits a range at the gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast._network import Floats
from holdfast.milp._builder import ProgramBuilder
from holdfast.milp._domain import Domain

# Rules are known up to so many roundings of the largest number in them.
_ROUNDINGS = 64.0 * float(np.finfo(np.float64).eps)
# A point this near to the hull, relatively, is in it.
_IN_HULL = 1e-9


@dataclass(frozen=True)
class PointLimits:
    """Demands on a point beyond the domain.

    Attributes
    ----------
    max_changed
        The largest number of columns that may change, or None.
    hull
        Points (k, d) whose convex hull has to contain the new point, or None.
    last
        The point found for a weaker demand, where the search starts; or None.
    """

    max_changed: int | None = None
    hull: Floats | None = None
    last: Floats | None = None


def add_person(builder: ProgramBuilder, domain: Domain, limits: PointLimits) -> None:
    """The variables x, the program's first, with everything that is asked of them.

    They cost  sum_i weight_i |x_i - own_i|.
    """
    ends = np.column_stack([domain.own, domain.lower, domain.upper, domain.weights])
    for own, lower, upper, weight in ends.tolist():
        side = float(lower >= own) - float(upper <= own)
        builder.variable(lower, upper, cost=side * weight, start=own)
    for x, (own, lower, upper, weight) in enumerate(ends.tolist()):
        if lower < own < upper:
            # Up and down apart where both are possible.
            up = builder.variable(0.0, np.nextafter(upper - own, np.inf), cost=weight)
            down = builder.variable(0.0, np.nextafter(own - lower, np.inf), cost=weight)
            builder.row([x, up, down], [1.0, -1.0, 1.0], own, own)
    for group in domain.groups:
        builder.row(group, np.ones(group.size), 1.0, 1.0)
    for group in domain.partial_groups:
        builder.row(group, np.ones(group.size), upper=1.0)
    largest = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
    for row, bound, size in domain.rules:
        used = np.flatnonzero(row)
        slack = _ROUNDINGS * (float(np.abs(row[used]) @ largest[used]) + size)
        builder.row(used, row[used], upper=bound + slack)
    if limits.max_changed is not None:
        _count_changes(builder, domain, limits.max_changed)
    if limits.hull is not None:
        _stay_in_hull(builder, limits.hull)


def _count_changes(builder: ProgramBuilder, domain: Domain, most: int) -> None:
    """At most `most` columns differ from the own values."""
    switches = []
    for variables in domain.features:
        free = variables[domain.lower[variables] < domain.upper[variables]]
        if free.size:
            switches.append(builder.binary())
        for x in free:
            own = domain.own[x]
            up = np.nextafter(own - domain.upper[x], -np.inf)
            down = np.nextafter(own - domain.lower[x], np.inf)
            builder.row([x, switches[-1]], [1.0, up], upper=own)
            builder.row([x, switches[-1]], [1.0, down], lower=own)
    builder.row(switches, np.ones(len(switches)), upper=float(most))


def _stay_in_hull(builder: ProgramBuilder, hull: Floats) -> None:
    """x = sum_k share_k point_k, shares >= 0 that sum to one."""
    shares = [builder.variable(0.0, 1.0) for _ in hull]
    builder.row(shares, np.ones(len(shares)), 1.0, 1.0)
    for x, values in enumerate(hull.T):
        near = _IN_HULL * float(np.abs(values).max())
        builder.row([x, *shares], [1.0, *(-values)], -near, near)
