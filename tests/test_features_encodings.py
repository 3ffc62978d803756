"""Any preprocessing of single columns: rows handed out are accepted by the user's own pipeline and obey raw units."""

from __future__ import annotations

import itertools
import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectKBest, SelectPercentile, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
    TargetEncoder,
)

import holdfast as hf

JOBS = ["none", "part", "full", "boss"]
CITIES = list("abcdefg")
BINS = {"n_bins": 4, "quantile_method": "averaged_inverted_cdf"}

NUMBERS: dict[str, Any] = {
    "standard": StandardScaler,
    "log": lambda: make_pipeline(FunctionTransformer(np.log1p), StandardScaler()),
    "root": lambda: FunctionTransformer(np.sqrt),
    "power": PowerTransformer,
    "box-cox": lambda: PowerTransformer(method="box-cox"),
    "uniform ranks": lambda: QuantileTransformer(n_quantiles=20),
    "normal ranks": lambda: QuantileTransformer(n_quantiles=20, output_distribution="normal"),
    "bins": lambda: KBinsDiscretizer(encode="onehot-dense", **BINS),
    "bin numbers": lambda: make_pipeline(
        KBinsDiscretizer(encode="ordinal", **BINS), MinMaxScaler()
    ),
    "imputed": lambda: make_pipeline(SimpleImputer(), StandardScaler()),
    "flagged": lambda: make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True), StandardScaler()
    ),
}
LABELS: dict[str, Any] = {
    "one-hot": lambda: OneHotEncoder(sparse_output=False),
    "without the first": lambda: OneHotEncoder(drop="first", sparse_output=False),
    "rare together": lambda: OneHotEncoder(min_frequency=0.12, sparse_output=False),
    "places": OrdinalEncoder,
    "target means": TargetEncoder,
    "imputed": lambda: make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(sparse_output=False)
    ),
}


# Every one of either kind, twice and more, without every pair of them.
PAIRS = [(n, list(LABELS)[(i + k) % len(LABELS)]) for i, n in enumerate(NUMBERS) for k in (0, 2)]
PAIRS += [("imputed", "imputed"), ("flagged", "imputed")]
BRUTE = [
    ("standard", "rare together"),
    ("log", "one-hot"),
    ("power", "target means"),
    ("uniform ranks", "one-hot"),
    ("bins", "without the first"),
    ("bins", "imputed"),
    ("bin numbers", "target means"),
    ("flagged", "imputed"),
]


def _people(
    rng: np.random.Generator, n: int = 200, missing: float = 0.0
) -> tuple[pd.DataFrame, Any]:
    people = pd.DataFrame(
        {
            "income": rng.lognormal(8.0, 0.6, n).round(0),
            "age": rng.integers(18, 80, n).astype(float),
            "job": rng.choice(JOBS, n, p=[0.2, 0.3, 0.45, 0.05]),
            "city": rng.choice(CITIES, n, p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02]),
        }
    )
    score = (
        (np.log(people["income"]) - 8.0) * 2.0 + (people["job"] == "full") - 0.01 * people["age"]
    )
    y = (score + rng.normal(0.0, 0.4, n) > 0.0).astype(int)
    if missing:
        people = people.mask(rng.random(people.shape) < missing)
    return people, y


def _pipeline(number: str, label: str, *, hidden: bool = False) -> Pipeline:
    steps = ColumnTransformer(
        [
            ("number", NUMBERS[number](), ["income", "age"]),
            ("label", LABELS[label](), ["job", "city"]),
        ]
    )
    end = (
        MLPClassifier((4,), max_iter=300, random_state=0)
        if hidden
        else LogisticRegression(max_iter=500)
    )
    return make_pipeline(steps, end)


def _check(
    pipeline: Pipeline, space: hf.FeatureSpace, denied: pd.DataFrame, result: hf.Recourse
) -> None:
    """What was handed out is accepted by the pipeline itself and obeys every constraint in raw units."""
    found = np.flatnonzero(result.found)
    after, before = result.counterfactuals.iloc[found], denied.iloc[found]
    if found.size:
        assert (pipeline.predict(after) == 1).all()
    assert space.violations(after, before) == [[]] * found.size
    assert (after["age"].eq(before["age"]) | after["age"].isna() & before["age"].isna()).all()
    rank = {label: i for i, label in enumerate(JOBS)}
    both = before["job"].notna()
    assert (after["job"][both].map(rank) >= before["job"][both].map(rank)).all()
    moved = {
        (a, b) for a, b in zip(before["city"], after["city"], strict=True) if a == a and a != b
    }
    assert moved <= {("a", "b"), ("b", "c"), ("d", "a")}
    assert after.isna().equals(before.isna())


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(("number", "label"), PAIRS)
def test_rows_are_accepted_by_the_users_own_pipeline(number: str, label: str) -> None:
    seed = list(NUMBERS).index(number) * len(LABELS) + list(LABELS).index(label)
    rng = np.random.default_rng(seed)
    gaps = number in ("imputed", "flagged") and label == "imputed"
    people, y = _people(rng, missing=0.1 if gaps else 0.0)
    pipeline = _pipeline(number, label, hidden=bool(seed % 2)).fit(people, y)
    space = hf.FeatureSpace.from_pipeline(
        pipeline, people, ordinal={"job": JOBS}, increasing=["job"], immutable=["age"],
        allowed={"city": [("a", "b"), ("b", "c"), ("d", "a")]}, steps={"income": 50}, ranges={"income": (50, 20000)},
    )  # fmt: skip
    assert hf.FeatureSpace.from_dict(json.loads(json.dumps(space.to_dict()))) == space
    denied = people[pipeline.predict(people) == 0].head(4)
    changes = hf.PlausibleChanges(0.002)
    for generator in (hf.RNCE(people, line_search=True), hf.Closest(), hf.GCE()):
        result = hf.explain(
            pipeline,
            denied,
            target=1,
            changes=changes,
            generator=generator,
            space=space,
            time_limit=5.0,
        )
        assert result.found.any()
        _check(pipeline, space, denied, result)


def _reachable(
    space: hf.FeatureSpace, people: pd.DataFrame, person: pd.DataFrame, incomes: list[float]
) -> pd.DataFrame:
    """Every row that this person can become, by brute force."""
    own = person.iloc[0]
    jobs = [own["job"]] if pd.isna(own["job"]) else JOBS
    cities = [own["city"]] if pd.isna(own["city"]) else list(space["city"].categories)
    values = [own["income"]] if pd.isna(own["income"]) else [own["income"], *incomes]
    rows = pd.DataFrame(
        [
            (income, own["age"], job, city)
            for income, job, city in itertools.product(values, jobs, cities)
        ],
        columns=people.columns,
    )
    return rows[space.satisfied(rows, person)]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("number", "label"), BRUTE)
def test_the_cheapest_is_the_cheapest_by_brute_force(number: str, label: str) -> None:
    rng = np.random.default_rng(len(number) * 31 + len(label))
    gaps = number == "flagged" and label == "imputed"
    people, y = _people(rng, missing=0.15 if gaps else 0.0)
    pipeline = _pipeline(number, label).fit(people, y)
    space = hf.FeatureSpace.from_pipeline(
        pipeline, people, ordinal={"job": JOBS}, increasing=["job"], immutable=["age"],
        allowed={"city": [("a", "b"), ("b", "c"), ("d", "a")]}, steps={"income": 500}, ranges={"income": (0, 12000)},
    )  # fmt: skip
    denied = people[pipeline.predict(people) == 0].head(3)
    changes = hf.PlausibleChanges(0.01)
    result = hf.explain(
        pipeline, denied, target=1, changes=changes, generator=hf.Closest(), space=space
    )
    incomes = [500.0 * k for k in range(25)]
    for i in range(len(denied)):
        person = denied.iloc[[i]]
        rows = _reachable(space, people, person, incomes)
        robust = hf.certify(pipeline, rows, 1, changes, space=space).robust
        costs = space.cost_l1(rows, pd.concat([person] * len(rows)))[robust]
        if not costs.size:
            assert not result.found[i]
        else:
            assert result.found[i]
            assert result.cost_l1[i] == pytest.approx(costs.min(), rel=1e-5)
            assert result.lower_bound[i] <= costs.min() * (1.0 + 1e-9)


@pytest.mark.parametrize(
    "selector", [SelectKBest(k=6), SelectPercentile(percentile=60), VarianceThreshold(0.02)]
)
def test_selected_variables(selector: Any) -> None:
    rng = np.random.default_rng(3)
    people, y = _people(rng)
    steps = ColumnTransformer(
        [("n", StandardScaler(), ["income", "age"]), ("l", LABELS["one-hot"](), ["job", "city"])]
    )
    pipeline = make_pipeline(steps, selector, LogisticRegression()).fit(people, y)
    space = hf.FeatureSpace.from_pipeline(
        pipeline, people, immutable=["age"] if "age" in _kept(pipeline) else ()
    )
    denied = people[pipeline.predict(people) == 0].head(8)
    result = hf.explain(
        pipeline,
        denied,
        target=1,
        changes=hf.PlausibleChanges(0.01),
        generator=hf.RNCE(people),
        space=space,
    )
    after = denied.copy()
    after[list(space.names)] = result.counterfactuals[list(space.names)]
    assert result.found.all()
    assert (pipeline.predict(after) == 1).all()


def _kept(pipeline: Pipeline) -> set[str]:
    names = pipeline[:-1].get_feature_names_out()
    return {str(name).partition("__")[2].partition("_")[0] for name in names}


def test_what_is_missing_stays_missing_unless_it_can_be_stated() -> None:
    rng = np.random.default_rng(5)
    people, y = _people(rng, missing=0.3)
    space = hf.FeatureSpace.from_frame(
        people, missing=list(people.columns), fillable=["income"], immutable=["age"]
    )
    classifier = LogisticRegression(max_iter=1000).fit(space.encode(people), y)
    assert space.decode(space.encode(people)).isna().equals(people.isna())
    denied = people[classifier.predict(space.encode(people)) == 0].head(40)
    result = hf.explain(classifier, denied, target=1, generator=hf.NNCE(people), space=space)
    after, before = result.counterfactuals[result.found], denied[result.found]
    assert (classifier.predict(space.encode(after)) == 1).all()
    filled = before.isna() & after.notna()
    assert filled["income"].any()
    assert not filled.drop(columns="income").any(axis=None)
    assert not (before.notna() & after.isna()).any(axis=None)
    row = int(np.flatnonzero(filled["income"])[0])
    assert "state income: " in result.describe(int(np.flatnonzero(result.found)[row]))
    with pytest.raises(hf.HoldfastError, match="cannot fill in a missing value"):
        hf.explain(
            classifier,
            denied[denied["income"].isna()].head(1),
            target=1,
            generator=hf.MCE(),
            space=space,
        )


def test_violations_about_missing_values_and_moves() -> None:
    people, _ = _people(np.random.default_rng(1), missing=0.2)
    space = hf.FeatureSpace.from_frame(
        people, missing=list(people.columns), allowed={"city": [("a", "b")]}
    )
    before = pd.DataFrame({"income": [np.nan], "age": [30.0], "job": ["full"], "city": ["a"]})
    after = pd.DataFrame({"income": [2000.0], "age": [np.nan], "job": ["full"], "city": ["c"]})
    assert space.violations(after, before) == [
        [
            "income is missing and cannot be filled in: missing -> 2000",
            "age has a value and cannot become missing: 30 -> missing",
            "city has no allowed move: a -> c",
        ]
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allowed": {"income": [(1.0, 2.0)]}}, "column with labels"),
        ({"allowed": {"city": [("a", "z")]}}, "expected labels of"),
        ({"allowed": {"city": ["ab"]}}, "pairs of labels"),
        ({"fillable": ["income"]}, "may be missing"),
        ({"missing": ["salary"]}, "expected columns of the table"),
        ({"missing": {"job": "chief"}}, "expected one of"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    people, _ = _people(np.random.default_rng(0))
    with pytest.raises(hf.HoldfastError, match=message):
        hf.FeatureSpace.from_frame(people, **options)


def test_an_order_in_a_pipeline_has_to_be_of_its_labels() -> None:
    people, y = _people(np.random.default_rng(0))
    pipeline = _pipeline("standard", "one-hot").fit(people, y)
    with pytest.raises(hf.HoldfastError, match=r"ordinal\['job'\]: expected the labels"):
        hf.FeatureSpace.from_pipeline(pipeline, people, ordinal={"job": ["low", "high"]})


def test_a_missing_value_may_be_stated_as_what_stood_for_it() -> None:
    people = pd.DataFrame({"savings": [np.nan, 2000.0, 5000.0], "debt": [1.0, 2.0, 3.0]})
    space = hf.FeatureSpace.from_frame(people, missing={"savings": 2000.0}, fillable=["savings"])
    stated = people.head(1).assign(savings=2000.0)
    point = space.encode(stated)
    for points in (space.settle(point, people.head(1))[0], space.project(point, people.head(1))):
        assert np.array_equal(points, point)
    kept = space.encode(people.head(1))
    assert np.array_equal(space.settle(kept, people.head(1))[0], kept)


@pytest.mark.parametrize("encode", ["ordinal", "onehot-dense"])
def test_a_column_that_is_left_with_one_bin_does_not_matter(encode):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300), "late": rng.random(300) < 0.02, "age": 3.0})
    X["late"] = X["late"].astype(float)
    X["rare"] = 40.0 * X["late"] + 1.0
    bins = KBinsDiscretizer(encode=encode, **BINS)
    pipeline = make_pipeline(bins, LogisticRegression())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.fit(X, X["a"] > 0.2)
    assert bins.n_bins_[1:].tolist() == [1, 1, 1]
    space = hf.FeatureSpace.from_pipeline(pipeline, X)
    other = X.assign(late=1.0 - X["late"], age=-7.0, rare=60.0)
    np.testing.assert_array_equal(space.encode(other), bins.transform(other))
    denied = other[~pipeline.predict(other)].head(9)
    options = {"target": True, "changes": hf.PlausibleChanges(0.01), "space": space}
    for generator in (hf.Closest(), hf.RNCE(X), hf.generators.MCE()):
        advice = hf.explain(pipeline, denied, generator=generator, **options)
        assert advice.robust.all() or isinstance(generator, hf.generators.MCE)
        assert pipeline.predict(advice.counterfactuals).all()
        # What the model cannot see stays as it is.
        assert (advice.counterfactuals[["late", "age"]] == denied[["late", "age"]]).all(axis=None)
