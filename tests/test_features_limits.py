"""`max_change`: the exact limit, everywhere that a person's reachable values are used."""

import json
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
)

import holdfast as hf
import test_generators
import tree_grids
from holdfast.checker import space_sha256
from holdfast.datasets import make_loans
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.features import Feature, Kind, Schema
from holdfast.features._limits import share_limits
from holdfast.features._schema import schema_document
from holdfast.generators._candidates import Candidates
from recourse_cases import make_case
from tiny_worlds import random_world

# People out of the ranges, tables that break rules, and the ends of scikit-learn's curves.
pytestmark = pytest.mark.filterwarnings(
    "ignore:X. column:holdfast.errors.HoldfastWarning",
    "ignore:rule:holdfast.errors.HoldfastWarning",
    "ignore:invalid value encountered in power:RuntimeWarning",
)

CLOSE = 1e-9
SHARES = (0.07, 0.25, 0.3, 0.5, 1.0, 1.7)


def within(own, new, down, up):
    """The definition, in fractions of the decimals as written."""
    own, new = Fraction(repr(float(own))), Fraction(repr(float(new)))
    low = None if down is None else own - Fraction(repr(down)) * abs(own)
    high = None if up is None else own + Fraction(repr(up)) * abs(own)
    return own == new or ((low is None or low <= new) and (high is None or new <= high))


# ---------------------------------------------------------------------- the limit itself


@pytest.mark.parametrize("seed", range(20))
def test_limits_are_the_last_floats_within(seed):
    rng = np.random.default_rng(seed)
    own = rng.normal(size=50) * 10.0 ** rng.integers(-12, 15)
    own[:20] = np.round(own[:20], int(rng.integers(0, 8)))
    own[:3] = 0.0, 1e308, 5e-324
    down, up = (float(np.round(rng.random() * 3, int(rng.integers(1, 17)))) for _ in "du")
    low, high = share_limits((down, up), own)
    for mine, least, most in zip(own.tolist(), low.tolist(), high.tolist(), strict=True):
        assert np.isinf(least) or within(mine, least, down, None)
        assert np.isinf(most) or within(mine, most, None, up)
        if mine and abs(mine) < 1e300:
            assert not within(mine, np.nextafter(least, -np.inf), down, None)
            assert not within(mine, np.nextafter(most, np.inf), None, up)


@pytest.mark.parametrize(
    ("own", "shares", "expected"),
    [
        (1000.0, (0.7, 0.7), (300.0, 1700.0)),
        (21_000.0, (0.0, 0.4), (21_000.0, 29_400.0)),
        (0.3, (None, 0.5), (-np.inf, 0.45)),
        (-50.0, (0.1, 0.2), (-55.0, -40.0)),
        (0.0, (0.5, 0.5), (0.0, 0.0)),
        (np.nan, (0.5, 0.5), (np.nan, np.nan)),
    ],
)
def test_limits_by_hand(own, shares, expected):
    np.testing.assert_array_equal(np.ravel(share_limits(shares, np.array([own]))), expected)


TRANSFORMERS = {
    "power": PowerTransformer,
    "ranks": lambda: QuantileTransformer(n_quantiles=20),
    "bins": lambda: KBinsDiscretizer(5, encode="ordinal"),
    "one-hot bins": lambda: KBinsDiscretizer(5, encode="onehot-dense"),
    "minmax": MinMaxScaler,
}


def table_of(rng, n=60):
    """Numbers of many sizes: short and long decimals, whole, float32, positive, far from zero, with zeros."""
    size = 10.0 ** rng.integers(-3, 7)
    x = rng.normal(size=n) * size
    kinds = [
        np.round(x, 2),
        np.rint(10.0 * x),
        x.astype("float32"),
        np.abs(x) + 1e-3,
        x + rng.choice([1e6, -1e6]),
        np.where(rng.random(n) < 0.3, 0.0, x),
    ]
    return pd.DataFrame({"a": kinds[rng.integers(len(kinds))], "b": rng.normal(size=n)}), size


def space_of(rng, table, size):
    down, up = (
        None if rng.random() < 0.15 else float(np.round(rng.random() * 1.5 + 0.01, 3)) for _ in "du"
    )
    more = {"max_change": {"a": (down, up)}}
    if rng.random() < 0.3 and table["a"].dtype == np.float64:
        more["steps"] = {"a": float(size * rng.choice([0.1, 0.25, 0.01]))}
    if rng.random() < 0.3:
        more["increasing"] = ["a"]
    how = ["minmax", "standard", "none", *TRANSFORMERS][rng.integers(8)]
    if how not in TRANSFORMERS or "steps" in more or table["a"].dtype != np.float64:
        scale = how if how not in TRANSFORMERS else "minmax"
        return hf.FeatureSpace.from_frame(table, scale=scale, **more), down, up
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = TRANSFORMERS[how]().fit(table)
    return hf.FeatureSpace.from_pipeline(step, table, **more), down, up


@pytest.mark.parametrize("block", range(6))
@pytest.mark.filterwarnings("ignore:Bins whose width:UserWarning")
def test_projections_obey_and_checks_agree_with_the_definition(block):
    moved, refused = 0, 0
    for seed in range(30 * block, 30 * block + 30):
        rng = np.random.default_rng(seed)
        table, size = table_of(rng)
        try:
            space, down, up = space_of(rng, table, size)
        except InvalidInputError as error:
            # A grid without a point in the range, a transformer that is not repeated bit for bit.
            if "step" in str(error) or "bit for bit" in str(error):
                continue
            raise
        own = table.iloc[rng.integers(0, len(table), 100)].reset_index(drop=True)
        noise = rng.normal(size=(100, space.n_variables)) * rng.choice([1e-9, 0.1, 1.0, 10.0])
        points = space.project(space.encode(own) + noise, own)
        settled, frame = space.settle(points, own)
        np.testing.assert_array_equal(points, settled)
        where = f"seed {seed}, {down}, {up}"
        assert space.violations(frame, own) == [[]] * len(own), where
        assert all(map(within, own["a"], frame["a"], [down] * 100, [up] * 100)), where
        lower, upper = space.bounds_for(own)
        assert ((points >= lower) & (points <= upper)).all(), where
        moved += int((frame["a"] != own["a"]).sum())
        # Values at the limits, to the last bit, and beyond.
        share = rng.choice([one for one in (down, up, 0.3) if one is not None], 100)
        wish = own.assign(
            a=(own["a"] * (1.0 + rng.choice([-1, 1], 100) * share)).astype(own["a"].dtype)
        )
        wish["a"] = wish["a"].clip(table["a"].min(), table["a"].max())
        for mine, new, said in zip(own["a"], wish["a"], space.violations(wish, own), strict=True):
            beyond = any("may change by at most" in one for one in said)
            assert beyond != within(mine, new, down, up), where
            refused += beyond
    assert moved > 100
    assert refused > 100


def test_values_out_of_the_range_zero_and_missing():
    table = pd.DataFrame({"a": [0.0, 40.0, 100.0, np.nan], "b": [1.0, 2.0, 3.0, 4.0]})
    space = hf.FeatureSpace.from_frame(
        table, missing=["a"], fillable=["a"], max_change={"a": 0.5}, steps={"a": 10}
    )
    far = pd.DataFrame({"a": [0.0, 150.0, 300.0, np.nan], "b": [1.0] * 4})
    wish = far.assign(a=[100.0, 20.0, 20.0, 100.0])
    _, frame = space.settle(space.project(space.encode(wish), far), far)
    # 0 has no share; 150 goes down to 75, rounded inward; 300 cannot reach the range; a gap has no base.
    assert frame["a"].tolist() == [0.0, 80.0, 300.0, 100.0]
    assert space.satisfied(frame, far).all()
    assert space.violations(wish, far)[0] == ["a may change by at most 50% of its value: 0 -> 100"]


# ---------------------------------------------------------------------- what is refused, and what files say


@pytest.mark.parametrize(
    ("given", "more", "message"),
    [
        (
            {"income": 40},
            {},
            r"max_change\['income'\]: expected a share such as 0.4 for 40%, got 40;",
        ),
        ({"income": (0.1, 10.5)}, {}, r"expected a share such as 0.4 for 40%, got 10.5;"),
        ({"income": -0.4}, {}, r"max_change\['income'\]: a share is 0 or more, got -0.4; the pair"),
        ({"income": (-0.2, 0.4)}, {}, "a share is 0 or more, got -0.2"),
        ({"income": np.nan}, {}, "expected a share of the own value, such as 0.4 for 40%, got nan"),
        ({"income": np.inf}, {}, "expected a share"),
        (
            {"income": "40%"},
            {},
            "expected a share of the own value, such as 0.4 for 40%, got '40%'",
        ),
        ({"income": True}, {}, "expected a share"),
        ({"income": (0.1,)}, {}, r"a pair is \(down, up\)"),
        ({"income": (0.4, 0.0)}, {"increasing": ["income"]}, r"no room; the pair is \(down, up\)"),
        ({"debt": (0, 0.4)}, {"decreasing": ["debt"]}, r"no room; the pair is \(down, up\)"),
        ({"housing": 0.4}, {}, r"max_change\['housing'\]: the column is categorical"),
        ({"dependants": 0.4}, {"ordinal": ["dependants"]}, "the column is ordinal"),
        ({"incme": 0.4}, {}, "max_change: expected columns of the table, got 'incme'"),
        (0.4, {}, "max_change: expected a mapping"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(given, more, message):
    people = make_loans(50).drop(columns="accepted")
    with pytest.raises(InvalidInputError, match=message):
        hf.FeatureSpace.from_frame(people, max_change=given, **more)


def test_a_feature_by_hand_is_checked_too():
    with pytest.raises(InvalidInputError, match="max_change"):
        Feature("a", Kind.CONTINUOUS, 0.0, 1.0, (0,), max_change=(0.1, 0.2, 0.3))
    with pytest.raises(InvalidInputError, match="no max_change for a categorical column"):
        Feature("a", Kind.CATEGORICAL, 0.0, 1.0, (0,), categories=("x", "y"), max_change=(0, 1))


def test_limits_are_kept_in_dicts_schemas_hashes_and_overviews():
    people = make_loans(100).drop(columns="accepted")
    plain = hf.FeatureSpace.from_frame(people)
    space = plain.constrained(max_change={"income": 0.4, "debt": (None, 0.25)})
    assert space["income"].max_change == (0.4, 0.4)
    assert space.constrained(max_change={"income": None})["income"].max_change == ()
    assert space.constrained(steps={"income": 250})["income"].max_change == (0.4, 0.4)
    again = hf.FeatureSpace.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again == space
    assert "max_change" not in plain.to_frame()
    assert space.to_frame().loc[["income", "debt", "age"], "max_change"].tolist() == [
        "at most 40%",
        "at most 25% up",
        "",
    ]
    # Certificates name a space by what it allows; a space without limits is named as before.
    assert space_sha256(space.to_dict()) != space_sha256(plain.to_dict())
    assert not any("max_change" in feature for feature in plain.to_dict()["features"])
    document = schema_document(
        space.features, space.rules, space.notes, name="loans", target=None, auxiliary=()
    )
    columns = {column["name"]: column for column in document["columns"]}
    assert columns["debt"]["max_change"] == [None, 0.25]
    assert hf.FeatureSpace.from_schema(Schema.from_dict(json.loads(json.dumps(document)))) == space
    columns["income"]["max_change"] = 0.1
    edited = hf.FeatureSpace.from_schema(Schema.from_dict(document))
    assert edited["income"].max_change == (0.1, 0.1)
    columns["income"]["max_change"] = 40
    with pytest.raises(InvalidInputError, match=r"share such as 0.4 for 40%, got 40;"):
        hf.FeatureSpace.from_schema(Schema.from_dict(document))
    columns["income"]["max_change"] = "a lot"
    with pytest.raises((InvalidInputError, FileFormatError), match=r"max_change\['income'\]"):
        hf.FeatureSpace.from_schema(Schema.from_dict(document))


# ---------------------------------------------------------------------- generators


@pytest.fixture(scope="module", params=[("one layer", "continuous"), ("three classes", "mixed")])
def limited(request):
    """A case of the generators' tests whose numbers have limits, some on columns with a direction."""
    case = make_case(*request.param, n_people=6)
    shares = {"a": (None, 0.8), "b": 0.5, "c": (0.9, 0.6), "savings": (0.0, 1.5), "income": 0.35}
    known = {name: share for name, share in shares.items() if name in case.space.names}
    return replace(case, space=case.space.constrained(max_change=known))


@pytest.mark.parametrize("name", test_generators.GENERATORS)
def test_every_generator_obeys(limited, name):
    result = test_generators.ask(limited, test_generators.GENERATORS[name][0](limited))
    found = result.found
    answers = result.counterfactuals[found].astype(limited.people.dtypes)
    for feature in limited.space.features:
        if feature.max_change:
            pairs = zip(limited.people[found][feature.name], answers[feature.name], strict=True)
            assert all(within(own, new, *feature.max_change) for own, new in pairs)
    assert not any("breaks a constraint" in reason for reason in result.reason)
    if name in ("RNCE", "NNCE", "Closest", "MCE"):
        assert found.any()


def test_distances_to_candidates_are_the_costs_of_projections(limited):
    space, people = limited.space, limited.people
    points = space.encode(limited.candidates)
    candidates = Candidates.of(points, space)
    assert not candidates.handed_out_as_they_are
    distances = candidates.distances(space.encode(people))
    free = space.constrained(rules=[])
    for row in range(len(people)):
        person = people.iloc[[row]]
        costs = free.cost_l1(free.project(candidates.settled(), person), person)
        np.testing.assert_allclose(distances[row], costs, atol=1e-9)


@pytest.mark.parametrize("block", range(4))
def test_closest_is_the_cheapest_of_every_row(block):
    found, none, dearer = 0, 0, 0
    for seed in range(2000 + 20 * block, 2020 + 20 * block):
        world, rng = random_world(seed), np.random.default_rng(seed)
        names = [f.name for f in world.space.features if not f.labelled]
        shares = {name: float(rng.choice(SHARES)) for name in names if rng.random() < 0.7}
        narrow = replace(world, space=world.space.constrained(max_change=shares))
        points = narrow.points
        label = world.network.classes[world.target]
        robust = np.zeros(0, dtype=bool)
        if len(points):
            robust = hf.certify(world.network, points, label, world.changes).robust
        expected = narrow.cheapest(robust)
        result = hf.explain(
            world.network, world.person, target=label, changes=world.changes, generator=hf.Closest(),
            space=narrow.space,
        )  # fmt: skip
        if np.isfinite(expected):
            found += 1
            assert result.cost_l1[0] == pytest.approx(expected, abs=CLOSE), f"world {seed}"
            assert result.lower_bound[0] <= expected + CLOSE, f"world {seed}"
        else:
            none += 1
            assert not result.found[0], f"world {seed}"
            assert result.reason[0].startswith("proven: "), f"world {seed}: {result.reason[0]}"
        dearer += len(points) < len(world.points)
    assert min(found, none, dearer) >= 2


def test_closest_is_the_cheapest_of_every_row_for_trees():
    found, none = 0, 0
    for seed in range(500, 530):
        world, rng = tree_grids.drawn(seed), np.random.default_rng(seed)
        if world is None:
            continue
        shares = {name: float(rng.choice(SHARES)) for name in ("months", "debt", "share")}
        world = replace(world, space=world.space.constrained(max_change=shares))
        for under in (False, True):
            result = world.explained(under)
            for i in range(len(world.people)):
                least, below = world.truth(i, under)
                where = f"seed {seed}, person {i}, under Δ {under}"
                found += bool(result.found[i])
                none += not result.found[i]
                for _, true, said in tree_grids._answer(result, i, least, below, where, False):
                    assert true, said
    assert min(found, none) >= 5


def test_a_scored_model_and_a_linear_one_obey():
    people = make_loans(600, seed=3)
    X, y = people.drop(columns="accepted"), people["accepted"]
    space = hf.FeatureSpace.from_frame(
        X, increasing=["income"], immutable=["age"], max_change={"income": 0.1, "debt": 0.3},
        steps={"debt": 100}, free=["savings"],
    )  # fmt: skip
    points = space.encode(X)
    weights = np.linalg.lstsq(points - points.mean(axis=0), y - y.mean(), rcond=None)[0]
    net = hf.Network([[10.0 * weights]], [[-10.0 * float(np.median(points @ weights))]])
    denied = X[net.predict(points) == 0].head(15)
    scored = hf.load_model(lambda rows: 1 / (1 + np.exp(-net.logits(space.encode(rows))[:, 0])))
    for model, generator in ((net, hf.Closest()), (scored, hf.NNCE(X)), (net, hf.MCE())):
        changes = hf.PlausibleChanges(0.001) if isinstance(generator, hf.Closest) else None
        result = hf.explain(
            model, denied, target=1, generator=generator, space=space, changes=changes
        )
        assert result.found.any()
        for name, share in (("income", 0.1), ("debt", 0.3)):
            pairs = zip(
                denied[result.found][name], result.counterfactuals[result.found][name], strict=True
            )
            assert all(within(own, new, share, share) for own, new in pairs)


def test_stated_advice_beyond_a_limit_is_named_and_alternatives_obey():
    net = hf.Network([[[1.0, -1.0]]], [[-0.3]])
    table = pd.DataFrame({"income": [0.4, 1.0, 0.0], "debt": [0.6, 0.0, 1.0]})
    space = hf.FeatureSpace.from_frame(table, max_change={"income": 0.5, "debt": 0.9})
    person = table.head(1)
    both = hf.alternatives(net, person, target=1, generator=hf.MCE(), space=space)
    for row in np.flatnonzero(both.found):
        after = both.counterfactuals.iloc[[row]]
        assert space.violations(after, both.factuals.iloc[[row]]) == [[]]
    assert space.violations(table.iloc[[1]], person) == [
        [
            "income may change by at most 50% of its value: 0.4 -> 1",
            "debt may change by at most 90% of its value: 0.6 -> 0",
        ]
    ]


def test_a_limit_in_the_way_is_named():
    net = hf.Network([[[1.0]]], [[-0.8]])
    space = hf.FeatureSpace.from_frame(
        pd.DataFrame({"income": [0.0, 1.0]}), increasing=["income"], max_change={"income": 0.4}
    )
    result = hf.explain(
        net, pd.DataFrame({"income": [0.5]}), target=1, generator=hf.MCE(), space=space
    )
    assert result.reason[0].startswith("proven: ")
    assert "if income may change by more than max_change" in result.reason[0]
