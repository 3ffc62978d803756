"""What must hold for every feature space and every point: exact constraints, exact round trips."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidInputError
from holdfast.features import Direction, FeatureSpace

LABELS = ["a", "b", "c", "d"]
COLUMN_KINDS = [
    "float",
    "decimal",
    "float32",
    "int",
    "stepped",
    "coarse",
    "bool",
    "text",
    "pair",
    "ordinal",
    "category",
]


def column(kind: str, rng: np.random.Generator, n: int) -> Any:
    scale = 10.0 ** rng.integers(-3, 6)
    shift = scale * rng.integers(-2, 3)
    if kind == "float":
        return rng.normal(shift, scale, n)
    if kind in ("decimal", "stepped"):
        return np.round(rng.normal(shift, scale, n), 2)
    if kind == "float32":
        return rng.normal(shift, scale, n).astype(np.float32)
    if kind in ("int", "coarse"):
        return rng.integers(-50, 2000, n)
    if kind == "bool":
        return rng.random(n) < 0.5
    labels = rng.choice(LABELS[:2] if kind == "pair" else LABELS, n)
    return pd.Categorical(labels, categories=LABELS) if kind == "category" else pd.Series(labels)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[FeatureSpace, pd.DataFrame, np.ndarray]:
    """A random space, factuals (some out of range, some off the grid) and wild points beside them."""
    kinds = draw(st.lists(st.sampled_from(COLUMN_KINDS), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    names = [f"{kind}-{i}" for i, kind in enumerate(kinds)]
    table = pd.DataFrame(
        {name: column(kind, rng, 40) for name, kind in zip(names, kinds, strict=True)}
    )
    people, factuals = table.iloc[:30], table.iloc[30:]
    directions: dict[str, list[str]] = {
        "free": [],
        "immutable": [],
        "increasing": [],
        "decreasing": [],
    }
    for name, kind in zip(names, kinds, strict=True):
        ordered = kind not in ("text", "pair", "category")
        directions[
            draw(st.sampled_from(list(directions) if ordered else ["free", "immutable"]))
        ].append(name)
    del directions["free"]
    spread = {
        name: float(table[name].max() - table[name].min())
        for name in names
        if name.startswith("stepped")
    }
    space = FeatureSpace.from_frame(
        people,
        ordinal={name: LABELS for name in names if name.startswith("ordinal")},
        steps={name: 7 for name in names if name.startswith("coarse")}
        | {name: max(float(f"{width / 9:.1g}"), 1e-9) for name, width in spread.items()},
        scale=draw(st.sampled_from(["minmax", "standard", "none"])),
        encoding=draw(st.sampled_from(["onehot", "binary"])),
        **directions,
    )
    points = space.encode(factuals) + rng.normal(
        0, draw(st.sampled_from([0.0, 1e-9, 0.3, 5.0])), (10, space.n_variables)
    )
    return space, factuals, points


relaxed = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@given(worlds())
@relaxed
def test_projected_points_obey_every_constraint_exactly(
    world: tuple[FeatureSpace, pd.DataFrame, np.ndarray],
) -> None:
    space, factuals, points = world
    projected = space.project(points, factuals)
    assert space.violations(projected, factuals) == [[] for _ in range(10)]
    frame = space.decode(projected, factuals=factuals)
    assert space.violations(frame, factuals) == [[] for _ in range(10)]
    assert space.satisfied(projected, space.encode(factuals)).all()
    for group in space.groups:
        assert (projected[:, group].sum(axis=1) == 1.0).all()
        assert np.isin(projected[:, group], [0.0, 1.0]).all()
    own = space.encode(factuals)
    for feature in space.features:
        columns = list(feature.variables)
        if feature.direction is Direction.IMMUTABLE:
            assert projected[:, columns].tobytes() == own[:, columns].tobytes()
            assert (frame[feature.name] == factuals[feature.name]).all()
    lower, upper = space.bounds_for(factuals)
    assert ((lower <= projected) & (projected <= upper)).all()


@given(worlds())
@relaxed
def test_what_is_settled_is_exactly_the_encoding_of_what_is_handed_out(
    world: tuple[FeatureSpace, pd.DataFrame, np.ndarray],
) -> None:
    space, factuals, points = world
    for given_factuals in (None, factuals):
        settled, frame = space.settle(points, given_factuals)
        assert space.encode(frame).tobytes() == settled.tobytes()
        again, same = space.settle(settled, given_factuals)
        assert again.tobytes() == settled.tobytes()
        pd.testing.assert_frame_equal(same, frame, check_exact=True)
        assert frame.dtypes.to_dict() == factuals.dtypes.to_dict()
    _, unchanged = space.settle(space.encode(factuals), factuals)
    pd.testing.assert_frame_equal(unchanged, factuals, check_exact=True)


@given(worlds())
@relaxed
def test_projection_is_idempotent_and_survives_the_round_trip(
    world: tuple[FeatureSpace, pd.DataFrame, np.ndarray],
) -> None:
    space, factuals, points = world
    projected = space.project(points, factuals)
    assert space.encode(space.decode(projected)).tobytes() == projected.tobytes()
    assert space.encode(space.decode(projected, factuals=factuals)).tobytes() == projected.tobytes()
    assert space.project(projected, factuals).tobytes() == projected.tobytes()


@given(worlds())
@relaxed
def test_tables_come_back_as_they_were(
    world: tuple[FeatureSpace, pd.DataFrame, np.ndarray],
) -> None:
    space, factuals, _ = world
    points = space.encode(factuals)
    pd.testing.assert_frame_equal(
        space.decode(points, factuals=factuals), factuals, check_exact=True
    )
    decoded = space.decode(points, factuals.index)
    assert space.encode(decoded).tobytes() == points.tobytes()
    short = [name for name in space.names if not str(name).startswith("float-")]
    pd.testing.assert_frame_equal(decoded[short], factuals[short], check_exact=True)
    assert (space.changed(factuals, factuals) == 0).all()
    assert (space.cost_l1(factuals, factuals) == 0).all()
    assert space.satisfied(points, factuals).all()


@given(worlds())
@relaxed
def test_projection_is_nearest_in_each_column(
    world: tuple[FeatureSpace, pd.DataFrame, np.ndarray],
) -> None:
    """No other settled, allowed value of a column lies nearer than the projection by more than rounding."""
    space, factuals, points = world
    own, projected = space.encode(factuals), space.project(points, factuals)
    others = [
        space.settle(points, factuals)[0],
        own,
        space.settle(space.encode(factuals.sample(frac=1.0)), factuals)[0],
    ]
    for other in others:
        for feature in space.features:
            columns = list(feature.variables)
            mixed = own.copy()
            mixed[:, columns] = other[:, columns]
            allowed = space.satisfied(mixed, factuals)
            near = np.abs(projected[:, columns] - points[:, columns]).sum(axis=1)
            far = np.abs(other[:, columns] - points[:, columns]).sum(axis=1)
            assert (near <= far * (1 + 1e-9) + 1e-9)[allowed].all()


@given(worlds())
@relaxed
def test_copies_are_equal(world: tuple[FeatureSpace, pd.DataFrame, np.ndarray]) -> None:
    space, factuals, _ = world
    for copy in (
        pickle.loads(pickle.dumps(space)),
        FeatureSpace.from_dict(json.loads(json.dumps(space.to_dict()))),
    ):
        assert copy == space
        assert hash(copy) == hash(space)
        assert copy.encode(factuals).tobytes() == space.encode(factuals).tobytes()


@given(worlds())
@relaxed
def test_grids_describe_the_settled_values(
    world: tuple[FeatureSpace, pd.DataFrame, np.ndarray],
) -> None:
    space, _, points = world
    settled, _ = space.settle(points)
    for grid in space.grids:
        k = np.rint((settled[:, grid.variable] - grid.offset) / (grid.step or 1.0))
        assert ((k >= 0) & (k <= grid.n_steps)).all()
        np.testing.assert_allclose(
            settled[:, grid.variable], grid.offset + k * grid.step, rtol=1e-12, atol=1e-9
        )
    assert (settled >= space.lower).all()
    assert (settled <= space.upper).all()


@pytest.mark.parametrize("scale", ["minmax", "standard", "none"])
def test_long_fractions_at_the_last_bit(scale: str) -> None:
    """Full 53-bit values, where several share one encoding: settled points stay, range ends and factuals are kept."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame(rng.normal(10.0 ** rng.integers(-3, 6, 20), 3.0, (3000, 20))).rename(
        columns="c{}".format
    )
    space = FeatureSpace.from_frame(people, scale=scale)
    points = space.encode(people)
    settled, frame = space.settle(points)
    assert settled.tobytes() == points.tobytes()
    assert space.encode(frame).tobytes() == points.tobytes()
    pd.testing.assert_frame_equal(space.settle(points, people)[1], people, check_exact=True)
    far = 10.0 * np.abs(points).max()
    _, ends = space.settle(np.array([[-far] * 20, [far] * 20]))
    assert ends.to_numpy().tolist() == [people.min().tolist(), people.max().tolist()]
    middle = people.median().to_frame().T
    moved = space.constrained(increasing=space.names).project(points, middle)
    assert (space.decode(moved, factuals=middle) >= middle.iloc[0]).all(axis=None)


@pytest.mark.parametrize("step", [1 / 3, np.pi, 0.1, 1e-3])
@pytest.mark.parametrize("scale", ["minmax", "standard"])
def test_steps_come_back_exactly_also_if_they_are_no_decimals(step: float, scale: str) -> None:
    people = pd.DataFrame({"x": np.random.default_rng(0).normal(3.0, 40.0, 2000)})
    space = FeatureSpace.from_frame(people, steps={"x": step}, scale=scale)
    points, frame = space.settle(space.encode(people))
    pd.testing.assert_frame_equal(space.decode(points), frame, check_exact=True)
    assert space.satisfied(frame, people).all()


@given(st.integers(0, 2**32 - 1))
@relaxed
def test_if_the_factual_obeys_the_rules_so_does_the_projection(seed: int) -> None:
    """Random rules that may well pull in opposite directions, and columns that may not move."""
    rng = np.random.default_rng(seed)
    names = ["a", "b", "c", "d"]
    people = pd.DataFrame({"a": rng.integers(0, 20, 30), "b": rng.integers(0, 20, 30)})
    people = people.assign(c=rng.normal(5, 9, 30), d=np.round(rng.normal(5, 9, 30), 1))
    rules = []
    for _ in range(rng.integers(1, 5)):
        chosen = rng.choice(names, rng.integers(1, 4), replace=False)
        factors = rng.choice([-3.0, -1.0, -0.1, 0.7, 1.0, 2.0], len(chosen))
        bound = float((people[chosen] * factors).sum(axis=1).median())
        rules.append(
            " + ".join(f"{f} * {name}" for f, name in zip(factors, chosen, strict=True))
            + f" <= {bound!r}"
        )
    directions = rng.choice(["free", "immutable", "increasing", "decreasing"], 4)
    groups = {
        d: [n for n, at in zip(names, directions, strict=True) if at == d]
        for d in set(directions) - {"free"}
    }
    try:
        space = FeatureSpace.from_frame(people, steps={"d": 0.1}, **groups).constrained(rules=rules)
    except InvalidInputError:
        # Rules at random may leave nothing; then, at least, nobody in the table obeys them.
        assert not people.eval(" and ".join(f"({rule})" for rule in rules)).any()
        return
    fine = people[space.satisfied(people, people)]
    if len(fine):
        points = space.encode(fine) + rng.normal(0, 1.0, (len(fine), 4))
        projected = space.project(points, fine)
        assert space.violations(projected, fine) == [[] for _ in range(len(fine))]
        assert space.encode(space.decode(projected)).tobytes() == projected.tobytes()
