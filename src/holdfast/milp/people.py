"""A person's variables in a mixed-integer program: ranges, grids, labels, rules, and what a change costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.milp.builder import ProgramBuilder
from holdfast.milp.domain import Domain
from holdfast.network import Floats

# More grid points than this within reach: first as if there were no grid, then rounded.
WIDE = 40


@dataclass(frozen=True)
class Limits:
    """What is asked of a point beyond the domain.

    Attributes
    ----------
    max_changed
        How many columns may change, or None.
    hull
        Points (k, d) whose convex hull the answer has to lie in, or None.
    """

    max_changed: int | None = None
    hull: Floats | None = None


NO_LIMITS = Limits()


def wide_grids(domain: Domain) -> NDArray[np.bool_]:
    """The variables whose grid is too fine to be worth a solver's branching at once."""
    stepped = domain.step > 0.0
    return np.asarray(stepped & (domain.high - domain.low > WIDE * np.where(stepped, domain.step, 1.0)))


def add_person(builder: ProgramBuilder, domain: Domain, limits: Limits, relaxed: NDArray[np.bool_]) -> list[int]:
    """The variables x with everything that is asked of them; grids of `relaxed` variables are left out.

    The program's cost becomes sum_i weight_i |x_i - own_i|.
    """
    labels = {int(v) for group in (*domain.groups, *domain.partial_groups) for v in group}
    detached = domain.detached
    columns = []
    for i in range(domain.own.shape[0]):
        if domain.lower[i] >= domain.upper[i]:
            columns.append(builder.variable(domain.own[i], domain.own[i]))
        elif i in labels:
            columns.append(_label(builder, domain, i))
        elif detached[i]:
            columns.append(_own_or_reach(builder, domain, i, bool(relaxed[i])))
        else:
            columns.append(_number(builder, domain, i, bool(relaxed[i])))
    x = np.array(columns)
    for group in domain.groups:
        builder.row(x[group], np.ones(group.size), 1.0, 1.0)
    for group in domain.partial_groups:
        builder.row(x[group], np.ones(group.size), upper=1.0)
    for row, bound in zip(domain.rule_matrix, domain.rule_bounds, strict=True):
        builder.row(x, row, upper=bound)
    if limits.max_changed is not None:
        _count_changes(builder, domain, columns, limits.max_changed)
    if limits.hull is not None:
        _stay_in_hull(builder, columns, limits.hull)
    return columns


def _label(builder: ProgramBuilder, domain: Domain, i: int) -> int:
    """A one-hot variable: |x - own| is x where own = 0 and 1 - x where own = 1."""
    x = builder.binary()
    builder.pay_from(x, domain.own[i], domain.weights[i] if domain.own[i] < 0.5 else -domain.weights[i])
    return x


def _number(builder: ProgramBuilder, domain: Domain, i: int, relaxed: bool) -> int:
    """x in [lower, upper], on the grid through the own value."""
    own, step = domain.own[i], domain.step[i]
    x = builder.variable(domain.lower[i], domain.upper[i])
    if step > 0.0 and not relaxed:
        first, last = np.rint((domain.lower[i] - own) / step), np.rint((domain.upper[i] - own) / step)
        count = builder.variable(first, last, integer=True)
        builder.row([x, count], [1.0, -step], own, own)
    _pay(builder, domain, i, x)
    return x


def _own_or_reach(builder: ProgramBuilder, domain: Domain, i: int, relaxed: bool) -> int:
    """x = own, or x in [low, high] on the grid that starts at low: a binary `same` chooses.

    x = own * same + y,   low (1 - same) <= y <= high (1 - same),   y = low (1 - same) + step * count
    """
    own, low, high, step = domain.own[i], domain.low[i], domain.high[i], domain.step[i]
    x, same = builder.variable(domain.lower[i], domain.upper[i]), builder.binary()
    builder.row([x, same], [1.0, low - own], lower=low)
    builder.row([x, same], [1.0, high - own], upper=high)
    if step > 0.0 and not relaxed:
        most = np.rint((high - low) / step)
        count = builder.variable(0.0, most, integer=True)
        builder.row([x, same, count], [1.0, low - own, -step], low, low)
    _pay(builder, domain, i, x)
    return x


def _pay(builder: ProgramBuilder, domain: Domain, i: int, x: int) -> None:
    """weight |x - own|; up and down apart where both are possible."""
    own, weight = domain.own[i], domain.weights[i]
    if domain.lower[i] >= own:
        builder.pay_from(x, own, weight)
    elif domain.upper[i] <= own:
        builder.pay_from(x, own, -weight)
    else:
        up = builder.variable(0.0, domain.upper[i] - own, cost=weight)
        down = builder.variable(0.0, own - domain.lower[i], cost=weight)
        builder.row([x, up, down], [1.0, -1.0, 1.0], own, own)


def _count_changes(builder: ProgramBuilder, domain: Domain, columns: list[int], most: int) -> None:
    """At most so many columns differ from the own values."""
    switches = []
    for variables in domain.features:
        free = [int(v) for v in variables if domain.lower[v] < domain.upper[v]]
        if not free:
            continue
        switch = builder.binary()
        switches.append(switch)
        for v in free:
            own, lower, upper = domain.own[v], domain.lower[v], domain.upper[v]
            builder.row([columns[v], switch], [1.0, own - upper], upper=own)
            builder.row([columns[v], switch], [1.0, own - lower], lower=own)
    builder.row(switches, np.ones(len(switches)), upper=float(most))


def _stay_in_hull(builder: ProgramBuilder, columns: list[int], hull: Floats) -> None:
    """x = sum_k share_k point_k, shares >= 0 that sum to one."""
    shares = [builder.variable(0.0, 1.0) for _ in hull]
    builder.row(shares, np.ones(len(shares)), 1.0, 1.0)
    for x, values in zip(columns, hull.T, strict=True):
        if np.ptp(values) > 0.0:
            builder.row([x, *shares], [1.0, *(-values)], 0.0, 0.0)
        else:
            builder.row([x], [1.0], float(values[0]), float(values[0]))
