"""A space from fitted scikit-learn preprocessing sees the same bits as production."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace, Kind


@pytest.fixture
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "income": np.round(rng.gamma(3, 900, 200), 2),
            "months": rng.integers(0, 240, 200),
            "job": rng.choice(["none", "part", "full"], 200),
            "sex": rng.choice(["f", "m"], 200),
            "school": rng.choice(["low", "mid", "high"], 200),
            "owner": rng.random(200) < 0.4,
            "id": np.arange(200),
        },
        index=np.arange(1000, 1200),
    )


NUMBERS = ["income", "months"]
MIXED = {
    "standard, one-hot, ordinal, rest passed on": ColumnTransformer(
        [
            ("jobs", OneHotEncoder(), ["job"]),
            ("numbers", StandardScaler(), NUMBERS),
            ("sex", OneHotEncoder(drop="if_binary"), ["sex"]),
            ("school", OrdinalEncoder(categories=[["low", "mid", "high"]]), ["school"]),
            ("id", "drop", ["id"]),
        ],
        remainder="passthrough",
    ),
    "minmax, first dropped, sparse": ColumnTransformer(
        [
            ("numbers", MinMaxScaler((-1, 1)), make_column_selector(dtype_include=np.number)),
            ("labels", OneHotEncoder(drop="first"), [2, 3]),
        ],
        sparse_threshold=1.0,
    ),
    "chains": ColumnTransformer(
        [
            (
                "numbers",
                make_pipeline(SimpleImputer(), MinMaxScaler(), StandardScaler()),
                slice(0, 2),
            ),
            ("school", make_pipeline(OrdinalEncoder(), MinMaxScaler()), ["school"]),
            ("jobs", OneHotEncoder(drop=["part"], sparse_output=False), ["job"]),
        ]
    ),
    "robust and maxabs": ColumnTransformer(
        [
            ("a", RobustScaler(), ["income"]),
            ("b", MaxAbsScaler(), ["months"]),
            ("c", OneHotEncoder(), ["sex", "job"]),
        ],
        verbose_feature_names_out=False,
    ),
}


@pytest.mark.parametrize("name", list(MIXED))
def test_the_same_bits_as_production(name: str, people: pd.DataFrame) -> None:
    transformer = MIXED[name].fit(people)
    space = FeatureSpace.from_pipeline(
        transformer, people, immutable=["sex"] if name[0] != "c" else []
    )
    made = transformer.transform(people)
    made = made.toarray() if hasattr(made, "toarray") else made
    np.testing.assert_array_equal(space.encode(people), made.astype(float))
    pd.testing.assert_frame_equal(
        space.decode(made.astype(float), people.index), people[list(space.names)]
    )

    rng = np.random.default_rng(1)
    points = space.project(space.encode(people) + rng.normal(size=(200, space.n_variables)), people)
    handed_out = people.copy()
    handed_out[list(space.names)] = space.decode(points, factuals=people)
    again = transformer.transform(handed_out)
    np.testing.assert_array_equal(again.toarray() if hasattr(again, "toarray") else again, points)
    assert space.satisfied(points, people).all()
    assert space == FeatureSpace.from_dict(space.to_dict())


def test_what_the_columns_become(people: pd.DataFrame) -> None:
    space = FeatureSpace.from_pipeline(
        MIXED["standard, one-hot, ordinal, rest passed on"].fit(people), people
    )
    assert space.variables == (
        "job=full", "job=none", "job=part", "income", "months", "sex=m", "school", "owner",
    )  # fmt: skip
    assert [feature.kind for feature in space.features] == [
        Kind.CONTINUOUS, Kind.INTEGER, Kind.CATEGORICAL, Kind.CATEGORICAL, Kind.ORDINAL, Kind.BINARY,
    ]  # fmt: skip
    assert [group.tolist() for group in space.groups] == [[0, 1, 2]]
    first_dropped = FeatureSpace.from_pipeline(
        MIXED["minmax, first dropped, sparse"].fit(people), people
    )
    assert [group.tolist() for group in first_dropped.partial_groups] == [[3, 4]]
    assert first_dropped.groups == []


def test_a_classifier_at_the_end_is_left_out(people: pd.DataFrame) -> None:
    model = make_pipeline(MIXED["robust and maxabs"], LogisticRegression()).fit(
        people, people["owner"]
    )
    space = FeatureSpace.from_pipeline(model, people)
    np.testing.assert_array_equal(space.encode(people), model[:-1].transform(people))


def test_a_plain_scaler_fitted_on_an_array(people: pd.DataFrame) -> None:
    scaler = StandardScaler().fit(people[NUMBERS].to_numpy())
    space = FeatureSpace.from_pipeline(scaler, people[NUMBERS], steps={"income": 250})
    np.testing.assert_array_equal(
        space.encode(people), scaler.transform(people[NUMBERS].to_numpy())
    )
    with pytest.raises(InvalidInputError, match="2 columns"):
        FeatureSpace.from_pipeline(scaler, people)


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (PolynomialFeatures(), "PolynomialFeatures"),
        (PCA(1), "PCA"),
        (FunctionTransformer(np.abs), "FunctionTransformer"),
        (FunctionTransformer(lambda X: X + 1.0), "FunctionTransformer"),
        (MinMaxScaler(clip=True), "MinMaxScaler.*clip"),
        (SimpleImputer(missing_values=0), "SimpleImputer"),
        (make_pipeline(StandardScaler(), OneHotEncoder()), "OneHotEncoder.*before"),
        (
            make_pipeline(OneHotEncoder(sparse_output=False), StandardScaler()),
            "StandardScaler.*one-hot",
        ),
        (ColumnTransformer([("a", StandardScaler(), [0]), ("b", MinMaxScaler(), [0])]), "twice"),
    ],
)
def test_what_cannot_be_represented_is_named(
    transformer: Any, message: str, people: pd.DataFrame
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        FeatureSpace.from_pipeline(
            transformer.fit(people[NUMBERS], people["owner"]), people[NUMBERS]
        )


def test_other_refusals(people: pd.DataFrame) -> None:
    with pytest.raises(InvalidInputError, match="fitted StandardScaler"):
        FeatureSpace.from_pipeline(StandardScaler(), people[NUMBERS])
    with pytest.raises(InvalidInputError, match="'months'"):
        FeatureSpace.from_pipeline(StandardScaler().fit(people[NUMBERS]), people[["income"]])
    narrow = people[["income"]].astype(np.float32)
    with pytest.raises(InvalidInputError, match="float32"):
        FeatureSpace.from_pipeline(StandardScaler().fit(narrow), narrow)
    with pytest.raises(InvalidInputError, match="integer"):
        FeatureSpace.from_pipeline(
            OneHotEncoder().fit(people[["job"]]), people[["job"]], integer=["job"]
        )
    with pytest.raises(InvalidInputError, match="model alone"):
        FeatureSpace.from_pipeline(Pipeline([("model", LogisticRegression())]), people)
    passed = ColumnTransformer([("all", "passthrough", ["job"])]).fit(people)
    with pytest.raises(InvalidInputError, match="'job'"):
        FeatureSpace.from_pipeline(passed, people)


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [StandardScaler()],
        [MinMaxScaler((-1, 1))],
        [RobustScaler()],
        [MaxAbsScaler()],
        [SimpleImputer(add_indicator=True), StandardScaler()],
    ],
    ids=lambda steps: " ".join(type(step).__name__ for step in steps) or "none",
)
def test_a_scaler_does_not_change_the_cost(steps: list[Any], people: pd.DataFrame) -> None:
    frame = people.drop(columns="id").astype({"months": float})
    given = {}
    if len(steps) > 1:
        frame.loc[1000:1010, "months"] = np.nan
        given = {"missing": {"months": frame["months"].mean()}}
    numbers = make_pipeline(*steps) if steps else "passthrough"
    encoder = ColumnTransformer(
        [
            ("numbers", numbers, NUMBERS),
            ("labels", OneHotEncoder(), ["job", "sex"]),
            ("school", OrdinalEncoder(categories=[["low", "mid", "high"]]), ["school"]),
            ("owner", "passthrough", ["owner"]),
        ]
    ).fit(frame)
    own = {"ordinal": {"school": ["low", "mid", "high"]}, "costs": {"months": 3.0}}
    piped = FeatureSpace.from_pipeline(encoder, frame, **own, ranges={"income": (0, 99_000)})
    plain = FeatureSpace.from_frame(frame, **own, ranges={"income": (0, 99_000)}, **given)
    assert piped.n_variables == plain.n_variables
    other = frame.sample(frac=1.0, random_state=0).set_index(frame.index)
    np.testing.assert_allclose(piped.cost_l1(other, frame), plain.cost_l1(other, frame), rtol=1e-12)
    assert FeatureSpace.from_dict(piped.to_dict()) == piped
