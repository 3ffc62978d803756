"""The arithmetic underneath: scalings that can be undone to the last bit, grids that are exact."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidInputError
from holdfast.features._grid import Grid
from holdfast.features._scaling import Scaling, hold_inward

constants = st.floats(1e-3, 1e6)
scalings = st.one_of(
    st.builds(lambda a, b: Scaling((("subtract", a), ("divide", b))), st.floats(-1e6, 1e6), constants),
    st.builds(lambda a, b: Scaling((("multiply", 1 / a), ("add", b))), constants, st.floats(-10, 10)),
    st.builds(
        lambda a, b, c, d: Scaling((("multiply", 1 / a), ("add", b), ("subtract", c), ("divide", d))),
        constants, st.floats(-2, 2), st.floats(-2, 2), st.floats(0.1, 10),
    ),
)  # fmt: skip


@given(scalings, st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
@settings(deadline=None, max_examples=300)
def test_every_encoded_value_has_an_exact_original(scaling: Scaling, values: list[float]) -> None:
    encoded = scaling.apply(np.array(values))
    raw = scaling.invert(encoded, "float64")
    assert scaling.apply(raw).tobytes() == encoded.tobytes()
    assert scaling.invert(scaling.apply(raw), "float64").tobytes() == raw.tobytes()


@given(
    st.floats(-1e4, 1e4),
    st.floats(1.0, 1e4),
    st.lists(st.integers(-(10**9), 10**9), min_size=1),
    st.integers(0, 6),
)
@settings(deadline=None, max_examples=200)
def test_numbers_with_few_digits_come_back(
    shift: float, width: float, digits: list[int], decimals: int
) -> None:
    scaling = Scaling((("subtract", shift), ("divide", width)))
    values = np.array([float(Decimal(k).scaleb(-decimals)) for k in digits])
    assert scaling.invert(scaling.apply(values), "float64").tolist() == values.tolist()


@given(scalings, st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.integers(0, 17))
@settings(deadline=None, max_examples=400)
def test_the_promised_digits_come_back(
    scaling: Scaling, values: list[float], decimals: int
) -> None:
    """At the promise's edge: as many decimals as are worth more than 1e-14 of the largest number on the way."""
    numbers = np.array([float(round(Decimal(value), decimals)) for value in values])
    encoded = scaling.apply(numbers)
    promised = 10.0**-decimals > 1e-14 * np.maximum(scaling.magnitude(encoded), np.abs(numbers))
    assert scaling.invert(encoded, "float64")[promised].tolist() == numbers[promised].tolist()


@given(scalings, st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1))
@settings(deadline=None)
def test_scalings_keep_the_order(scaling: Scaling, pairs: list[tuple[float, float]]) -> None:
    values = np.sort(np.array(pairs), axis=1)
    low, high = scaling.apply(values[:, 0]), scaling.apply(values[:, 1])
    assert (low <= high).all()


def test_affine_is_the_inverse_by_hand() -> None:
    assert Scaling((("subtract", 3.0), ("divide", 4.0))).affine() == (4.0, 3.0)
    assert Scaling((("multiply", 0.25), ("add", 1.0))).affine() == (4.0, -4.0)


@pytest.mark.parametrize(
    "operations",
    [(("divide", 0.0),), (("multiply", -1.0),), (("sine", 2.0),), (("add", math.nan),)],
)
def test_scalings_that_lose_the_order_are_refused(
    operations: tuple[tuple[str, float], ...],
) -> None:
    with pytest.raises(InvalidInputError, match="scaling"):
        Scaling(operations)


@given(
    st.sampled_from([1.0, 250.0, 0.1, 0.01, 0.25, 1 / 3, 7.0, 1e-6, 12.5, math.pi]),
    st.floats(-1000, 1000),
    st.floats(0, 1000),
    st.lists(st.floats(-3000, 3000), min_size=1),
)
@example(1 / 3, 682.9999999999999, 0.0, [0.0])
@settings(deadline=None, max_examples=300)
def test_grid_against_fractions(
    step: float, lower: float, width: float, values: list[float]
) -> None:
    try:
        grid = Grid.over(step, lower, lower + width)
    except InvalidInputError:
        # A step of many digits is multiplied in floats.
        short = Decimal(repr(step)).as_tuple().exponent > -8  # type: ignore[operator]
        near = math.floor((lower + width) / step)
        for k in range(near - 2, near + 4):
            value = float(Fraction(Decimal(repr(step))) * k) if short else step * k
            assert not lower <= value <= lower + width
        return
    ends = grid.value(np.array([grid.first - 1, grid.first, grid.last, grid.last + 1], dtype=float))
    assert ends[0] < lower <= ends[1] <= ends[2] <= lower + width < ends[3]
    points = np.array(values)
    below, above = grid.value(grid.floor(points)), grid.value(grid.ceil(points))
    assert (below <= points).all()
    assert (points <= above).all()
    assert (grid.value(grid.floor(points) + 1) > points).all()
    assert (grid.value(grid.ceil(points) - 1) < points).all()
    nearest = grid.value(grid.nearest(points))
    assert (np.abs(nearest - points) <= step * 0.5000001 + 1e-12).all()
    assert (grid.value(grid.nearest(nearest)) == nearest).all()
    if Decimal(repr(step)).as_tuple().exponent > -8:  # type: ignore[operator]
        k = grid.nearest(points)
        assert nearest.tolist() == [float(Fraction(Decimal(repr(step))) * int(i)) + 0.0 for i in k]


def test_ranges_are_rounded_inward() -> None:
    assert hold_inward(0.2, 4.7, "integer") == (1.0, 4.0)
    low, high = hold_inward(0.1, 0.3, "float32")
    assert 0.1 <= low < high <= 0.3
    assert (low, high) == (float(np.float32(low)), float(np.float32(high)))
    assert hold_inward(-math.inf, math.inf, "integer") == (-math.inf, math.inf)


def test_the_ends_of_a_range_are_on_its_grid() -> None:
    """0.7 as a float is less than 7/10 and 0.1 is more than 1/10; both are written like a multiple of 0.1."""
    grid = Grid.over(0.1, 0.1, 0.7)
    assert (grid.first, grid.last) == (1, 7)
    values = np.array([0.1, 0.3, 0.7, 0.35])
    assert (grid.value(grid.nearest(values)) == values).tolist() == [True, True, True, False]
