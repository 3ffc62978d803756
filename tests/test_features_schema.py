"""The schema files of the benchmark data load as they are, and the data passes through unharmed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features import Direction, FeatureSpace, Kind, Schema

DATASETS = ["adult", "california_housing", "compas", "gmc", "heloc"]


def data_folder() -> Path:
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("HOLDFAST_DATA", default))


def load(name: str) -> tuple[Path, Schema, pd.DataFrame]:
    path = data_folder() / f"{name}.schema.json"
    schema = Schema.load(path)
    return path, schema, pd.read_csv(data_folder() / schema.data_file)


@pytest.mark.parametrize("name", DATASETS)
def test_data_passes_through_bit_for_bit(name: str) -> None:
    path, schema, data = load(name)
    space = FeatureSpace.from_schema(path)
    people = data[list(schema.feature_names)]
    assert schema.target not in space.names
    points = space.encode(data)
    assert points.shape == (len(data), space.n_variables)
    assert points.min() == 0.0
    assert points.max() == 1.0
    back = space.decode(points, factuals=people)
    np.testing.assert_array_equal(back.to_numpy(), people.to_numpy())
    assert space.encode(space.decode(points)).tobytes() == points.tobytes()
    rng = np.random.default_rng(0)
    sample = people.sample(300, random_state=0)
    wild = space.encode(sample) + rng.normal(0, 0.3, (300, space.n_variables))
    projected = space.project(wild, sample)
    assert space.violations(projected, sample) == [[] for _ in range(300)]
    assert space.satisfied(space.decode(projected, factuals=sample), sample).all()


@pytest.mark.parametrize("name", ["adult", "compas", "gmc"])
def test_dtypes_come_back(name: str) -> None:
    path, schema, data = load(name)
    people = data[list(schema.feature_names)].head(500)
    space = FeatureSpace.from_schema(path)
    pd.testing.assert_frame_equal(space.decode(space.encode(people)), people, check_exact=True)


def test_what_the_file_says() -> None:
    path, schema, _ = load("adult")
    assert (schema.name, schema.target, schema.desirable) == ("adult", "income", 1)
    assert dict(schema.classes)["1"] == "income > 50K"
    space = FeatureSpace.from_schema(path)
    assert space.n_variables == len(space) == 13
    education = space["education-num"]
    assert (education.kind, education.direction, education.step) == (
        Kind.ORDINAL,
        Direction.INCREASING,
        1.0,
    )
    assert (education.lower, education.upper, education.unit) == (1.0, 16.0, "level 1-16")
    assert space["sex"].categories == ("Female", "Male")
    assert space["sex"].direction is Direction.IMMUTABLE
    assert "sex=Male" in space.variables
    assert FeatureSpace.from_schema(path, encoding="onehot").n_variables == 20


def test_auxiliary_columns_and_binary_numbers() -> None:
    assert (
        "MedHouseVal"
        not in FeatureSpace.from_schema(data_folder() / "california_housing.schema.json").names
    )
    recid = FeatureSpace.from_schema(data_folder() / "compas.schema.json")["two_year_recid"]
    assert recid.kind is Kind.BINARY
    assert recid.categories == (0, 1)
    assert recid.storage.dtype == "int64"


def test_whose_word_counts() -> None:
    path, _, data = load("compas")
    carla = FeatureSpace.from_schema(path, actionability="carla", kinds="carla")
    fixed = {feature.name for feature in carla.features if feature.direction is Direction.IMMUTABLE}
    assert fixed == {"age", "race", "sex"}
    assert carla["priors_count"].kind is Kind.CONTINUOUS
    own = FeatureSpace.from_schema(path)
    assert own["priors_count"].direction is Direction.INCREASING
    free = FeatureSpace.from_schema(
        path, actionability="free", immutable=["age"], steps={"length_of_stay": 7}
    )
    assert [f.name for f in free.features if f.direction is not Direction.FREE] == ["age"]
    assert own.encode(data).tobytes() == carla.encode(data).tobytes() == free.encode(data).tobytes()


def test_narrower_ranges_and_rules_on_top_of_the_file() -> None:
    path, _, data = load("gmc")
    rule = "NumberOfTimes90DaysLate <= `NumberOfTime60-89DaysPastDueNotWorse` + 10"
    space = FeatureSpace.from_schema(
        path, ranges={"MonthlyIncome": (0, 9000)}, steps={"MonthlyIncome": 250}, rules=rule
    )
    rich = data[data["MonthlyIncome"] > 9000].head(20)
    assert space.encode(rich).tobytes() == FeatureSpace.from_schema(path).encode(rich).tobytes()
    assert space.satisfied(rich, rich).all()
    raised = rich.assign(MonthlyIncome=rich["MonthlyIncome"] + 250)
    assert not space.satisfied(raised, rich).any()


def test_a_large_table_is_quick() -> None:
    path, _, data = load("gmc")
    space = FeatureSpace.from_schema(path)
    start = time.perf_counter()
    space.encode(data)
    assert time.perf_counter() - start < 1.0


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"name": "x", "target": {"column": "y"}, "columns": [{"name": "a"}]},
        {
            "name": "x",
            "target": {"column": "y"},
            "columns": [{"name": "a", "role": "feature", "kind": "odd"}],
        },
        {"name": "x", "target": "y", "columns": []},
        [],
    ],
)
def test_broken_files(broken: Any, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps(broken), encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"x\.json"):
        FeatureSpace.from_schema(tmp_path / "x.json")


def test_other_refusals(tmp_path: Path) -> None:
    path = data_folder() / "california_housing.schema.json"
    with pytest.raises(FileFormatError, match="carla_immutable"):
        FeatureSpace.from_schema(path, actionability="carla")
    with pytest.raises(InvalidInputError, match="actionability"):
        FeatureSpace.from_schema(path, actionability="mine")
    with pytest.raises(InvalidInputError, match="scale"):
        FeatureSpace.from_schema(path, scale="standard")
    with pytest.raises(InvalidInputError, match="'Garden'"):
        FeatureSpace.from_schema(path, immutable=["Garden"])
    (tmp_path / "x.json").write_text("{", encoding="utf-8")
    with pytest.raises(FileFormatError, match="JSON"):
        FeatureSpace.from_schema(tmp_path / "x.json")
    column = {
        "name": "a",
        "role": "feature",
        "kind": "integer",
        "min": 0,
        "max": 1,
        "actionability": "sometimes",
    }
    (tmp_path / "x.json").write_text(
        json.dumps({"name": "x", "target": {"column": "y"}, "columns": [column]})
    )
    with pytest.raises(FileFormatError, match="sometimes"):
        FeatureSpace.from_schema(tmp_path / "x.json")


def test_the_unit_of_cost_is_the_range_in_the_file_or_one() -> None:
    column = {"role": "feature", "kind": "continuous", "actionability": "mutable"}
    columns = [
        {"name": "a", "min": 0, "max": 5000, **column},
        {"name": "b", "min": None, "max": None, **column},
    ]
    schema = Schema.from_dict({"name": "x", "columns": columns})
    space = FeatureSpace.from_schema(schema, scale="none")
    assert space.weights.tolist() == [1 / 5000, 1.0]
    assert [feature.ranged for feature in space.features] == [True, False]
    # A narrower range is no other unit.
    narrow = FeatureSpace.from_schema(schema, scale="none", ranges={"a": (0, 100)})
    assert narrow.weights.tolist() == space.weights.tolist()
    with pytest.raises(InvalidInputError, match=r"'b': a schema without 'min' and 'max' .*none"):
        FeatureSpace.from_schema(schema)


@pytest.mark.parametrize(
    ("entry", "meant"),
    [
        ("maxchange", "max_change"), ("Max-Change", "max_change"), ("actionabilty", "actionability"),
        ("Unit", "unit"), ("fillble", "fillable"),
    ],
)  # fmt: skip
def test_an_entry_with_a_typo_is_refused(entry, meant) -> None:
    column = {"name": "income", "role": "feature", "kind": "continuous", "min": 0, "max": 9}
    document = {"name": "x", "columns": [{**column, "actionability": "mutable", entry: 0.4}]}
    said = f"^s.json: column 'income': unknown entry '{entry}'; did you mean '{meant}'[?]$"
    with pytest.raises(FileFormatError, match=said):
        Schema.from_dict(document, "s.json")


def test_other_entries_are_notes_of_the_file() -> None:
    column = {"name": "income", "role": "feature", "kind": "continuous", "min": 0, "max": 9}
    notes = {
        "description": "before tax",
        "median": 4,
        "p99": 8,
        "owner": "risk",
        "integer_valued": True,
    }
    document = {"name": "x", "columns": [{**column, "actionability": "mutable", **notes}]}
    assert Schema.from_dict(document).feature_names == ("income",)
