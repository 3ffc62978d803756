"""Bounds of linear programs hold in exact arithmetic, whatever the solver says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from holdfast.milp._builder import ProgramBuilder
from holdfast.milp._relaxation import Relaxation


def _program(
    rng: np.random.Generator, spread: int
) -> tuple[ProgramBuilder, np.ndarray, list[float]]:
    """Variables and rows in units of 2^-spread to 2^spread, a point that just satisfies the rows, and the costs."""
    n, m = int(rng.integers(2, 6)), int(rng.integers(1, 6))
    units = 2.0 ** rng.integers(-spread, spread + 1, n)
    point = rng.integers(-8, 9, n) * units
    builder, costs = ProgramBuilder(), (rng.integers(-4, 5, n) / units).tolist()
    for x, unit, cost in zip(point, units, costs, strict=True):
        builder.variable(x - unit * rng.integers(0, 3), x + unit * rng.integers(0, 3), cost=cost)
    for _ in range(m):
        values = rng.integers(-8, 9, n) / units
        side = float(values @ point)
        low, high = [(side, np.inf), (-np.inf, side), (side, side)][rng.integers(3)]
        builder.row(np.arange(n), values, low, high)
    return builder, point, costs


@pytest.mark.parametrize("spread", [0, 3, 40])
def test_no_bound_is_above_the_cost_of_a_point_on_the_edge(spread: int) -> None:
    rng = np.random.default_rng(spread)
    tight = 0
    for _ in range(200):
        builder, point, costs = _program(rng, spread)
        program = builder.build()
        relaxation = Relaxation(program)
        solved = relaxation.solve(program.lower, program.upper)
        cost = sum(Fraction(c) * Fraction(x) for c, x in zip(costs, point.tolist(), strict=True))
        assert solved.bound <= cost
        assert solved.values is not None
        reached = float(program.cost @ solved.values)
        tight += abs(solved.bound - reached) <= 1e-9 * (1.0 + abs(reached))
    assert tight >= 180


def test_multipliers_from_nowhere_prove_nothing_false() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        builder, point, costs = _program(rng, 20)
        program = builder.build()
        relaxation = Relaxation(program)
        multipliers = rng.normal(0.0, 10.0 ** rng.uniform(-3, 12), program.row_lower.size)
        low, high = program.lower / relaxation.units, program.upper / relaxation.units
        bound = relaxation._bound(multipliers, relaxation.program.cost, low, high)[0]
        cost = sum(Fraction(c) * Fraction(x) for c, x in zip(costs, point.tolist(), strict=True))
        assert Fraction(bound) <= cost * Fraction(relaxation.cost_unit)
        assert relaxation._bound(multipliers, np.zeros(point.size), low, high)[0] <= 0.0


def test_scaling_rounds_nothing() -> None:
    rng = np.random.default_rng(2)
    program = _program(rng, 30)[0].build()
    scaled = Relaxation(program)
    result, units, row_units = scaled.program, scaled.units, scaled.row_units
    np.testing.assert_array_equal(result.rows / row_units[:, None] / units, program.rows)
    np.testing.assert_array_equal(result.cost / units / scaled.cost_unit, program.cost)
    np.testing.assert_array_equal(result.lower * units, program.lower)
    assert np.abs(result.rows).max() <= 1.0
