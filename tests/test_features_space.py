"""FeatureSpace from a table: kinds, constraints, costs, texts and errors, on cases worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from holdfast.errors import FileFormatError, HoldfastWarning, InvalidInputError
from holdfast.features import Direction, FeatureSpace, Kind


@pytest.fixture
def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [20, 40, 60],
            "savings": [0.0, 1200.0, 4000.0],
            "job": ["none", "full", "part"],
            "school": ["low", "high", "mid"],
            "owner": [True, False, False],
            "rating": pd.Categorical(["B", "A", "C"], categories=["C", "B", "A"], ordered=True),
        },
        index=["x", "y", "z"],
    )


@pytest.fixture
def space(people: pd.DataFrame) -> FeatureSpace:
    return FeatureSpace.from_frame(
        people,
        ordinal={"school": ["low", "mid", "high"]},
        immutable=["age"],
        increasing=["school"],
        ranges={"savings": (0, 5000)},
        steps={"savings": 250},
        units={"savings": "USD"},
    )


def test_kinds_and_encoding_by_hand(space: FeatureSpace, people: pd.DataFrame) -> None:
    assert [feature.kind for feature in space.features] == [
        Kind.INTEGER, Kind.CONTINUOUS, Kind.CATEGORICAL, Kind.ORDINAL, Kind.BINARY, Kind.ORDINAL,
    ]  # fmt: skip
    assert space.variables == (
        "age",
        "savings",
        "job=full",
        "job=none",
        "job=part",
        "school",
        "owner",
        "rating",
    )
    assert space.encode(people).tolist() == [
        [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.5],
        [0.5, 0.24, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0],
        [1.0, 0.8, 0.0, 0.0, 1.0, 0.5, 0.0, 0.0],
    ]
    pd.testing.assert_frame_equal(
        space.decode(space.encode(people), people.index), people, check_exact=True
    )
    assert space.encode(people.to_numpy()).tolist() == space.encode(people).tolist()
    assert space.lower.tolist() == [0.0] * 8
    assert space.upper.tolist() == [1.0] * 8
    assert [group.tolist() for group in space.groups] == [[2, 3, 4]]
    assert {grid.variable: (grid.offset, grid.step, grid.n_steps) for grid in space.grids}[1] == (
        0.0,
        0.05,
        20,
    )
    assert len(space) == 6
    assert space["age"].direction is Direction.IMMUTABLE


def test_an_unchanged_value_may_stay_and_a_changed_one_goes_to_the_grid(
    space: FeatureSpace, people: pd.DataFrame
) -> None:
    """1,200 is no multiple of 250: it may stay; a small push leaves it, a larger one reaches 1,250."""
    factual = people.loc[["y"]]
    for push, expected in (
        (0.0, 1200.0),
        (10.0, 1200.0),
        (40.0, 1250.0),
        (-180.0, 1000.0),
        (9999.0, 5000.0),
    ):
        point = space.encode(factual)
        point[0, 1] += push / 5000
        assert space.decode(space.project(point, factual))["savings"].tolist() == [expected]
    rich = factual.assign(savings=9000.0)
    point = space.encode(rich)
    assert space.satisfied(rich, rich).all()
    assert space.decode(space.project(point, rich))["savings"].tolist() == [9000.0]
    point[0, 1] -= 3500 / 5000
    assert space.decode(space.project(point, rich))["savings"].tolist() == [5000.0]
    assert space.violations(rich.assign(savings=8000.0), rich) == [
        ["savings has the range [0, 5000]: 9000 -> 8000"]
    ]


def test_bounds_for_a_person(space: FeatureSpace, people: pd.DataFrame) -> None:
    lower, upper = space.bounds_for(people)
    assert lower[:, 0].tolist() == upper[:, 0].tolist() == [0.0, 0.5, 1.0]
    assert lower[:, 5].tolist() == [0.0, 1.0, 0.5]
    assert upper[:, 5].tolist() == [1.0, 1.0, 1.0]
    low, high = space.bounds_for(space.encode(people)[1])
    assert low.tolist() == lower[1].tolist()
    assert high.tolist() == upper[1].tolist()
    fixed = space.constrained(immutable=["job"])
    own = fixed.encode(people)
    assert fixed.bounds_for(people)[0][:, 2:5].tolist() == own[:, 2:5].tolist()
    assert fixed.bounds_for(people)[1][:, 2:5].tolist() == own[:, 2:5].tolist()
    falling = space.constrained(decreasing=["savings"])
    assert falling.bounds_for(people.assign(savings=9000.0))[1][:, 1].tolist() == [1.8] * 3
    stuck = space.constrained(increasing=["savings"]).bounds_for(people.assign(savings=9000.0))
    assert stuck[0][:, 1].tolist() == stuck[1][:, 1].tolist() == [1.8] * 3


def test_violations_are_sentences(space: FeatureSpace, people: pd.DataFrame) -> None:
    factual = people.loc[["y"]]
    after = factual.assign(age=41, savings=1300.0, school="mid", job="part")
    assert space.violations(after, factual) == [
        [
            "age is immutable: 40 -> 41",
            "savings has steps of 250: 1200 -> 1300",
            "school may only increase: high -> mid",
        ]
    ]
    assert space.satisfied(after, factual).tolist() == [False]
    falling = space.constrained(decreasing=["owner"])
    assert falling.violations(factual.assign(owner=True), factual) == [
        ["owner may only decrease: False -> True"]
    ]


def test_points_that_are_no_row_are_told_apart(space: FeatureSpace, people: pd.DataFrame) -> None:
    point = space.encode(people.loc[["y"]])
    point[0, 2:5] = [0.6, 0.4, 0.0]
    [[message]] = space.violations(point, people.loc[["y"]])
    assert (
        message
        == "job has no value with job=full = 0.6, job=none = 0.4, job=part = 0.0; the nearest is full"
    )
    settled, frame = space.settle(point, people.loc[["y"]])
    assert settled[0, 2:5].tolist() == [1.0, 0.0, 0.0]
    assert frame.index.tolist() == ["y"]


def test_a_tie_between_labels_goes_to_the_own_one(
    space: FeatureSpace, people: pd.DataFrame
) -> None:
    point = space.encode(people.loc[["z"]])
    point[0, 2:5] = [0.4, 0.4, 0.4]
    assert space.decode(space.project(point, people.loc[["z"]]))["job"].tolist() == ["part"]
    assert space.settle(point)[1]["job"].tolist() == ["full"]


def test_costs(space: FeatureSpace, people: pd.DataFrame) -> None:
    before, after = (
        people.loc[["y"]],
        people.loc[["y"]].assign(savings=2200.0, job="part", owner=True),
    )
    assert space.cost_l1(after, before).tolist() == pytest.approx([(0.2 + 2.0 + 1.0) / 8])
    assert space.changed(after, before).tolist() == [3]
    weighted = space.constrained(costs={"job": 0.5, "owner": 3.0})
    assert weighted.cost_l1(space.encode(after), space.encode(before)).tolist() == pytest.approx(
        [(0.2 + 1.0 + 3.0) / 8]
    )
    assert space.cost_l1(people, people.loc[["y"]])[1] == 0.0


def test_changes_in_words(people: pd.DataFrame) -> None:
    frame = people.assign(use=[30.0, 48.0, 0.123456789])
    space = FeatureSpace.from_frame(
        frame,
        units={"savings": "USD", "use": "percent"},
        ordinal={"school": ["low", "mid", "high"]},
    )
    after = frame.loc["y"].to_dict() | {
        "savings": 1750.0,
        "use": 30.0,
        "owner": True,
        "job": "part",
        "school": "mid",
    }
    assert space.describe_change(frame.loc["y"], after) == [
        "raise savings from 1,200 to 1,750 USD",
        "change job from full to part",
        "lower school from high to mid",
        "change owner from no to yes",
        "lower use from 48% to 30%",
    ]
    assert space.describe_change(
        frame.loc[["y"]], frame.loc["y"].to_dict() | {"use": 0.123456789}
    ) == ["lower use from 48% to about 0.123457%"]


def test_two_categories_as_one_variable(people: pd.DataFrame) -> None:
    frame = people.assign(sex=["f", "m", "f"])
    assert FeatureSpace.from_frame(frame[["sex"]]).variables == ("sex=f", "sex=m")
    for encoding in ("binary", {"sex": "binary"}):
        space = FeatureSpace.from_frame(frame[["sex", "job"]], encoding=encoding)
        assert space.variables == ("sex=m", "job=full", "job=none", "job=part")
        assert space.encode(frame)[:, 0].tolist() == [0.0, 1.0, 0.0]
        assert space.decode(space.encode(frame))["sex"].tolist() == ["f", "m", "f"]


def test_standard_scale_and_none(people: pd.DataFrame) -> None:
    standard = FeatureSpace.from_frame(people, scale="standard").encode(people)
    np.testing.assert_allclose(standard[:, :2].mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(standard[:, :2].std(axis=0), 1)
    none = FeatureSpace.from_frame(people[["age", "savings", "owner"]], scale="none")
    assert none.encode(people).tolist() == [[20, 0, 1], [40, 1200, 0], [60, 4000, 0]]


@pytest.mark.parametrize(
    "values",
    [
        pd.array([1, 2, 3], dtype="Int64"),
        pd.array([1.5, 2.25, 3], dtype="Float64"),
        pd.array([True, False, True], dtype="boolean"),
        np.array([1, 2, 3], dtype=np.int8),
        np.array([0.1, 0.2, 0.3], dtype=np.float32),
        np.array([0.1, 0.2, 0.3], dtype=np.float16),
        pd.array(["a", "b", "a"], dtype="string"),
        np.array(["a", "b", "a"], dtype=object),
        pd.Categorical([1, 2, 1], categories=[1, 2, 3]),
        np.array([7, 7, 7]),
    ],
)
def test_dtypes_come_back(values: Any) -> None:
    frame = pd.DataFrame({"c": values})
    space = FeatureSpace.from_frame(frame)
    pd.testing.assert_frame_equal(space.decode(space.encode(frame)), frame, check_exact=True)
    wild = space.encode(frame) + np.random.default_rng(0).normal(0, 0.3, (3, space.n_variables))
    points, settled = space.settle(wild)
    assert settled.dtypes.equals(frame.dtypes)
    assert space.encode(settled).tobytes() == points.tobytes()


def test_numbers_named_otherwise(people: pd.DataFrame) -> None:
    frame = people.assign(flag=[1, 2, 1], level=[1.0, 2.0, 3.0])
    space = FeatureSpace.from_frame(
        frame,
        categorical=["age"],
        binary="flag",
        integer=["level"],
        continuous=(),
        ordinal={"school": ["low", "mid", "high"]},
    )
    assert space["age"].categories == (20, 40, 60)
    assert space["flag"].categories == (1, 2)
    assert space["level"].step == 1.0
    assert space.decode(space.encode(frame))["level"].tolist() == [1.0, 2.0, 3.0]
    pd.testing.assert_frame_equal(space.decode(space.encode(frame), frame.index), frame)
    loose = FeatureSpace.from_frame(people[["age"]], continuous=["age"])
    assert loose.decode([[0.26]])["age"].tolist() == [30.4]


def test_steps_are_decimal() -> None:
    """0.1 * 3 is 0.30000000000000004 in floats; the third step of 0.1 is 0.3."""
    frame = pd.DataFrame({"rate": [0.0, 1.0]})
    space = FeatureSpace.from_frame(frame, steps={"rate": 0.1})
    _, settled = space.settle([[0.31], [0.58], [0.74]])
    assert settled["rate"].tolist() == [0.3, 0.6, 0.7]


def test_it_can_be_looked_at(space: FeatureSpace) -> None:
    assert "savings" in repr(space)
    assert "<table" in space._repr_html_()
    table = space.to_frame()
    assert table.loc["savings", "step"] == 250.0
    assert table.loc["job", "categories"] == "full, none, part"
    ruled = space.constrained(rules=["age <= savings + 100"])
    assert "age &lt;= savings + 100" in ruled._repr_html_()
    assert repr(ruled).startswith("FeatureSpace(6 features, 8 variables, 1 rules)")


def test_a_damaged_description_is_refused(space: FeatureSpace) -> None:
    for damage in (
        {"format": "other"},
        {"features": []},
        {"features": [{}]},
        {"rules": ["x <= 1"]},
        {"features": space.to_dict()["features"][1:]},
    ):
        with pytest.raises(FileFormatError):
            FeatureSpace.from_dict(space.to_dict() | damage)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"immutable": ["agee"]}, "'agee'"),
        ({"categorical": ["jobs"]}, "'jobs'"),
        ({"ranges": {"x": (0, 1)}}, "'x'"),
        ({"immutable": ["age"], "increasing": ["age"]}, "'age' is in both"),
        ({"increasing": ["age"], "decreasing": ["age"]}, "'age' is in both"),
        ({"categorical": ["age"], "integer": ["age"]}, "'age' is in both"),
        ({"ranges": {"age": (50, 20)}}, "lower <= upper"),
        ({"ranges": {"age": 50}}, r"\(lower, upper\)"),
        ({"ranges": {"age": (0, "x")}}, "'x'"),
        ({"ranges": {"age": (20.2, 20.8)}}, "lower <= upper"),
        ({"ranges": {"job": (0, 1)}}, "categorical"),
        ({"ranges": [1]}, "mapping"),
        ({"steps": {"savings": 0}}, "step > 0"),
        ({"steps": {"savings": -5}}, "step > 0"),
        ({"steps": {"savings": float("nan")}}, "nan"),
        ({"steps": {"age": 0.5}}, "whole step"),
        ({"steps": {"age": 100}}, "multiple of the step"),
        ({"steps": {"savings": 10}, "ranges": {"savings": (0, float("inf"))}}, "finite range"),
        ({"ranges": {"age": (0, float("inf"))}}, "finite range"),
        ({"costs": {"age": -1}}, "cost"),
        ({"scale": "log"}, "'log'"),
        ({"encoding": "dummy"}, "'dummy'"),
        ({"encoding": {"job": "binary"}}, "two categories"),
        ({"encoding": {"age": "binary"}}, "'age'"),
        ({"increasing": ["job"]}, "order"),
        ({"ordinal": {"school": ["low", "high"]}}, "'mid'"),
        ({"ordinal": {"school": ["low", "low"]}}, "different labels"),
        ({"ordinal": ["school"]}, "order"),
        ({"integer": ["job"]}, "'none'"),
        ({"binary": ["age"]}, "two values"),
        ({"immutable": 3.5}, "column names"),
        ({"rules": ["age <="]}, "age <="),
    ],
)
def test_arguments_that_make_no_sense(
    arguments: dict[str, Any], message: str, people: pd.DataFrame
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        FeatureSpace.from_frame(people, **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": [20.5, 1, 1]}, "'age'.*whole"),
        ({"age": ["a", "b", "c"]}, "'age'.*'a'"),
        ({"savings": [1.0, np.nan, 2.0]}, "'savings'.*nan in row 1"),
        ({"savings": [1.0, np.inf, 2.0]}, "'savings'.*inf in row 1"),
        ({"job": ["none", "boss", "full"]}, r"'job'.*\['full', 'none', 'part'\].*'boss'"),
        ({"job": ["none", None, "full"]}, "'job'.*row 1"),
        ({"owner": ["yes", "no", "no"]}, "'owner'.*'yes'"),
    ],
)
def test_tables_that_do_not_fit(
    change: dict[str, Any], message: str, space: FeatureSpace, people: pd.DataFrame
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        space.encode(people.assign(**change))


def test_other_refusals(space: FeatureSpace, people: pd.DataFrame) -> None:
    with pytest.raises(InvalidInputError, match="'savings'"):
        space.encode(people.drop(columns="savings"))
    with pytest.raises(InvalidInputError, match="6 columns"):
        space.encode(people.to_numpy()[:, 1:])
    with pytest.raises(InvalidInputError, match="8 columns"):
        space.decode(np.zeros((1, 7)))
    with pytest.raises(InvalidInputError, match="nan in row 0, 'savings'"):
        space.decode([[0, np.nan, 0, 0, 0, 0, 0, 0]])
    with pytest.raises(InvalidInputError, match="1 row or 3"):
        space.project(space.encode(people), people.head(2))
    with pytest.raises(InvalidInputError, match="at least one row"):
        FeatureSpace.from_frame(people.head(0))
    with pytest.raises(InvalidInputError, match="DataFrame"):
        FeatureSpace.from_frame(people.to_numpy())  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="distinct"):
        FeatureSpace.from_frame(people[["age", "age"]])
    with pytest.raises(InvalidInputError, match=r"'when'.*datetime"):
        FeatureSpace.from_frame(people.assign(when=pd.Timestamp("2020-01-01")))
    with pytest.raises(InvalidInputError, match="'nobody'"):
        space["nobody"]
    with pytest.raises(InvalidInputError, match="one row"):
        space.describe_change(people, people)
    with pytest.raises(InvalidInputError, match="convert the column to strings"):
        FeatureSpace.from_frame(people.assign(band=pd.cut(people["age"], 2)))


def test_unusual_tables(people: pd.DataFrame, space: FeatureSpace) -> None:
    numbered = pd.DataFrame([[0.5, 1.0], [0.25, 3.0]])
    plain = FeatureSpace.from_frame(numbered, immutable=[1], rules="`0` <= 1")
    pd.testing.assert_frame_equal(plain.decode(plain.encode(numbered)), numbered)
    assert FeatureSpace.from_dict(plain.to_dict()) == plain
    nobody = people.head(0)
    assert space.encode(nobody).shape == (0, 8)
    assert space.project(space.encode(nobody), nobody).shape == (0, 8)
    assert space.violations(nobody, nobody) == []
    open_ended = FeatureSpace.from_frame(people[["savings"]], ranges={"savings": (0, float("inf"))})
    assert open_ended.upper.tolist() == [float("inf")]
    assert open_ended.encode(people).tolist() == [[0.0], [0.3], [1.0]]
    assert open_ended.settle([[7.5]])[1]["savings"].tolist() == [30000.0]
    assert FeatureSpace.from_dict(open_ended.to_dict()) == open_ended


def test_further_columns_are_left_alone(space: FeatureSpace, people: pd.DataFrame) -> None:
    assert (
        space.encode(people.assign(label=1)[["label", *people.columns[::-1]]]).tolist()
        == space.encode(people).tolist()
    )


@pytest.mark.parametrize("scale", ["minmax", "standard", "none"])
def test_settled_points_are_those_of_settle(scale: str):
    """Without decoding what encodes a number already: in range and out of it, on values of the column and off them."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "amount": rng.normal(0.0, 1e4, 300),
            "ratio": rng.normal(0.0, 1.0, 300).astype(np.float32),
            "count": rng.integers(0, 50, 300),
            "kind": rng.choice(["a", "b", "c"], 300),
        }
    )
    space = FeatureSpace.from_frame(table, scale=scale, ranges={"amount": (-9000, 9000)})
    for points in (
        space.encode(table),
        space.encode(table) * rng.uniform(0.5, 1.5, (300, space.n_variables)),
    ):
        assert space.settled_points(points).tobytes() == space.settle(points)[0].tobytes()
    people = space.rows(table)
    np.testing.assert_array_equal(space.project(points, people), space.project(points, table))
    np.testing.assert_array_equal(space.satisfied(points, people), space.satisfied(points, table))


@pytest.mark.parametrize("scale", ["minmax", "standard", "none"])
def test_the_unit_of_cost_is_the_range(people: pd.DataFrame, scale: str) -> None:
    frame = people[["age", "savings", "owner"]].assign(late=[0.1, 0.4, np.nan], same=7.0)
    space = FeatureSpace.from_frame(frame, scale=scale, missing=["late"])
    # From one end of its range to the other, each column costs as much; so does the flag of a gap.
    ends = frame.assign(age=[20, 60, 60], savings=[0.0, 4000.0, 4000.0], late=[0.1, 0.4, 0.4])
    assert space.weights @ np.abs(space.encode(ends)[1] - space.encode(ends)[0]) == pytest.approx(4)
    own, other = frame.iloc[[0]], frame.iloc[[0]].assign(savings=1000.0)
    cost = [0.25 / space.n_variables]
    assert space.cost_l1(other, own).tolist() == pytest.approx(cost)
    # A narrower range changes what is possible and not what it costs.
    narrow = space.constrained(ranges={"savings": (0, 1500)})
    assert narrow.cost_l1(other, own).tolist() == pytest.approx(cost)
    assert FeatureSpace.from_dict(narrow.to_dict()).cost_l1(other, own).tolist() == pytest.approx(
        cost
    )
    declared = FeatureSpace.from_frame(
        frame, scale=scale, missing=["late"], ranges={"savings": (0, 8000)}
    )
    assert declared.cost_l1(other, own).tolist() == pytest.approx([cost[0] / 2])


def test_a_column_of_very_many_labels_is_named() -> None:
    tail = pd.DataFrame({"tailnum": [f"N{i}" for i in range(300)], "distance": range(300)})
    with pytest.warns(HoldfastWarning, match=r"'tailnum': 300 labels become 300 variables.*out"):
        FeatureSpace.from_frame(tail)


def test_a_rule_that_rows_break_is_counted(people: pd.DataFrame) -> None:
    with pytest.warns(HoldfastWarning, match=r"'age >= 40': 1 of 3 rows of the table break it"):
        FeatureSpace.from_frame(people[["age", "savings"]], rules="age >= 40")


def test_a_truth_value_is_no_number(people: pd.DataFrame) -> None:
    space = FeatureSpace.from_frame(people[["age", "savings", "owner"]])
    assert space.encode(people)[0, 2] == 1.0
    for wrong in (people.assign(age=True), people.assign(age=[20, True, 30])):
        with pytest.raises(InvalidInputError, match=r"'age': expected numbers, got True in row"):
            space.encode(wrong)
