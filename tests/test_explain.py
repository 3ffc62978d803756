"""`explain`: DataFrames and arrays, order and index, what generators cannot get away with, and bad input."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import holdfast as hf
from holdfast.errors import HoldfastError, HoldfastWarning, InvalidInputError
from holdfast.generators import NNCE, RNCE, Generator, Proposals, explain
from holdfast.importers import Model, load_model
from recourse_cases import make_case

NET = hf.Network([[[1.0, 1.0]]], [[-1.0]])
DELTA = hf.PlausibleChanges(0.01)


@dataclass(frozen=True)
class Fixed(Generator):
    """Proposes the same point for everyone, whatever anyone says."""

    name: ClassVar[str] = "fixed"
    good_for: ClassVar[str] = "tests"
    paper: ClassVar[str] = "none"

    point: tuple[float, ...]
    bound: float = np.nan
    gap: float = np.nan

    def propose(self, task):
        n = len(task)
        return Proposals(
            np.tile(self.point, (n, 1)).astype(float),
            [""] * n,
            np.full(n, self.gap),
            np.full(n, self.bound),
        )


@pytest.fixture(scope="module")
def case():
    return make_case("two layers", "mixed")


# ------------------------------------------------------------------ a generator only proposes


def test_a_proposal_that_breaks_a_constraint_is_not_handed_out():
    people = pd.DataFrame({"a": [0.0, 1.0], "b": [0.2, 1.0]})
    space = hf.FeatureSpace.from_frame(people, immutable=["a"])
    result = explain(NET, people.head(1), target=1, generator=Fixed((1.0, 1.0)), space=space)
    assert not result.found[0]
    assert result.reason[0] == "the point found breaks a constraint: a is immutable: 0 -> 1"
    assert result.counterfactuals.isna().all(axis=None)


def test_a_proposal_of_another_class_is_not_handed_out():
    result = explain(NET, [[0.0, 0.0]], target=1, generator=Fixed((0.1, 0.1)))
    assert (result.found[0], result.reason[0]) == (
        False,
        "the point found is classified as 0 once it is expressed in the caller's units",
    )


@pytest.mark.parametrize("point", [(np.nan, 0.0), (np.inf, 0.0), (np.nan, np.nan)])
def test_no_point_without_a_reason_gets_one(point):
    result = explain(NET, [[0.0, 0.0]], target=1, generator=Fixed(point))
    assert result.reason[0] == "the method found no counterfactual"


def test_a_generator_cannot_declare_itself_robust_or_optimal():
    result = explain(
        NET,
        [[0.0, 0.0]],
        target=1,
        changes=DELTA,
        generator=Fixed((0.5, 0.5001), bound=0.25, gap=0.0),
    )
    assert result.verdict[0] is hf.Verdict.NOT_ROBUST
    assert result.cost_l1[0] == pytest.approx(0.50005)
    assert result.optimality_gap[0] == pytest.approx(1 - 0.25 / 0.50005)
    assert result.certificates.witness(0).predict([[0.5, 0.5001]]) == [0]


def test_a_lower_bound_is_never_above_the_cost():
    result = explain(NET, [[0.0, 0.0]], target=1, generator=Fixed((1.0, 1.0), bound=1.0 + 1e-12))
    assert result.lower_bound[0] <= result.cost_l1[0]
    assert result.optimality_gap[0] == 0.0


def test_a_generator_that_answers_for_others_is_a_bug():
    class Short(Fixed):
        def propose(self, task):
            return Proposals.of(np.zeros((1, 2)), [""])

    with pytest.raises(HoldfastError, match="a proposal for each of 2 rows"):
        explain(NET, [[0.0, 0.0]] * 2, target=1, generator=Short((1.0, 1.0)))


# ------------------------------------------------------------------ tables in, tables out


def test_arrays_are_the_models_own_variables():
    result = explain(
        NET, np.zeros((2, 2)), target=1, changes=DELTA, generator=NNCE(np.ones((1, 2)))
    )
    assert list(result.counterfactuals.columns) == ["x0", "x1"]
    np.testing.assert_array_equal(result.counterfactuals, np.ones((2, 2)))
    assert result.cost_l1.tolist() == [1.0, 1.0]


def test_arrays_with_a_space_are_raw_values():
    people = pd.DataFrame({"a": [0.0, 10.0], "b": [0.0, 200.0]})
    space = hf.FeatureSpace.from_frame(people)
    result = explain(NET, [[1.0, 20.0]], target=1, generator=NNCE(people), space=space)
    assert result.counterfactuals.to_dict("records") == [{"a": 10.0, "b": 200.0}]


def test_a_frame_keeps_columns_order_index_and_what_the_model_does_not_read(case):
    people = case.people[case.people.columns[::-1]].assign(name=list("abcdefgh"))
    result = explain(
        case.network,
        people,
        target=1,
        changes=DELTA,
        generator=RNCE(case.candidates),
        space=case.space,
    )
    assert list(result.counterfactuals.columns) == list(people.columns)
    assert result.counterfactuals.index.equals(people.index)
    assert result.counterfactuals["name"].tolist() == list("abcdefgh")
    expected = explain(
        case.network,
        case.people,
        target=1,
        changes=DELTA,
        generator=RNCE(case.candidates),
        space=case.space,
    )
    np.testing.assert_array_equal(result.points, expected.points)
    np.testing.assert_array_equal(result.cost_l1, expected.cost_l1)


def test_dtypes_stay_where_every_row_has_an_answer(case):
    people = case.people.iloc[[0, 1, 3]]
    result = explain(
        case.network, people, target=1, generator=NNCE(case.candidates), space=case.space
    )
    assert result.found.all()
    assert result.counterfactuals.dtypes.tolist() == case.candidates.dtypes.tolist()


def test_rows_do_not_depend_on_each_other(case):
    arguments = {
        "target": 1,
        "changes": DELTA,
        "generator": RNCE(case.candidates, True, True),
        "space": case.space,
    }
    together = explain(case.network, case.people, **arguments)
    shuffled = explain(case.network, case.people.iloc[::-1], **arguments)
    np.testing.assert_array_equal(shuffled.points[::-1], together.points)


def test_to_frame_and_describe(case):
    result = explain(
        case.network,
        case.people,
        target=1,
        changes=DELTA,
        generator=RNCE(case.candidates),
        space=case.space,
    )
    frame = result.to_frame()
    assert frame.columns[-7:].tolist() == [
        "found",
        "verdict",
        "cost_l1",
        "optimality_gap",
        "lower_bound",
        "reason",
        "main_reasons",
    ]
    assert frame.index.equals(case.people.index)
    assert frame["verdict"].tolist() == [None if v is None else v.name for v in result.verdict]
    assert "8 rows" in repr(result)
    assert "<table" in result._repr_html_()
    assert result.describe(2) == "already classified as 1"
    row = int(np.flatnonzero(result.found)[0])
    changed = case.people.iloc[row] != result.counterfactuals.iloc[row]
    assert all(name in result.describe(row) for name in case.people.columns[changed])
    assert len(result.describe(row).split("; ")) == changed.sum()
    with pytest.raises(hf.errors.InvalidInputError, match="one of the 8 rows"):
        result.describe(8)


def test_a_column_of_the_callers_is_not_overwritten():
    people = pd.DataFrame({"found": [0.0], "b": [0.0]})
    frame = explain(NET, people, target=1, generator=NNCE([[1.0, 1.0]])).to_frame()
    assert frame["found"].tolist() == [1.0]
    assert frame["recourse_found"].tolist() == [True]


def test_a_table_to_hold_answers_against_is_read_before_the_search(case, monkeypatch):
    monkeypatch.setattr(NNCE, "propose", lambda *_: pytest.fail("searched first"))
    generator, few = NNCE(case.candidates), case.candidates.drop(columns="income")
    with pytest.raises(hf.HoldfastError, match="income"):
        explain(
            case.network, case.people, target=1, generator=generator, space=case.space, data=few
        )


def test_progress_goes_to_stderr(case, capsys):
    explain(
        case.network,
        case.people,
        target=1,
        generator=NNCE(case.candidates),
        space=case.space,
        progress=True,
    )
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "explain" in captured.err


def test_labels_of_any_kind():
    net = hf.Network(NET.weights, NET.biases, ["no", "yes"])
    result = explain(
        net, [[0.0, 0.0], [1.0, 1.0]], target="yes", changes=DELTA, generator=NNCE([[1.0, 1.0]])
    )
    assert result.found.tolist() == [True, False]
    assert result.reason[1] == "already classified as yes"


# ------------------------------------------------------------------ pipelines


@pytest.fixture(scope="module")
def pipeline():
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {"income": rng.normal(30.0, 9.0, 200).round(1), "home": rng.choice(["own", "rent"], 200)}
    )
    encode = ColumnTransformer(
        [("n", StandardScaler(), ["income"]), ("c", OneHotEncoder(), ["home"])]
    )
    label = people["income"] + 5 * (people["home"] == "own") > 32
    return make_pipeline(encode, LogisticRegression()).fit(people, label.astype(int)), people


def test_a_pipeline_brings_its_own_space_where_there_are_candidates(pipeline):
    model, people = pipeline
    denied = people[model.predict(people) == 0].head(5)
    alone = explain(model, denied, target=1, changes=DELTA, generator=RNCE(people))
    space = hf.FeatureSpace.from_pipeline(model, people)
    given = explain(model, denied, target=1, changes=DELTA, generator=RNCE(people), space=space)
    pd.testing.assert_frame_equal(alone.to_frame(), given.to_frame(), check_exact=True)
    assert given.robust.all()
    np.testing.assert_array_equal(model.predict(given.counterfactuals), 1)


def test_no_rows_for_a_pipeline_are_named_in_our_own_words(pipeline):
    model, people = pipeline
    space = hf.FeatureSpace.from_pipeline(model, people)
    with pytest.raises(InvalidInputError, match="X: expected at least one row, got an empty table"):
        explain(model, people.head(0), target=1, generator=NNCE(people), space=space)


def test_a_pipeline_without_a_space_says_what_to_do(pipeline):
    model, people = pipeline
    with pytest.raises(InvalidInputError, match=r"FeatureSpace\.from_pipeline"):
        explain(model, people, target=1, generator=Fixed((0.0, 0.0, 1.0)))


def test_a_space_that_encodes_otherwise_than_the_pipeline_is_refused(pipeline):
    model, people = pipeline
    with pytest.raises(
        InvalidInputError, match="encodes rows differently from the model's own preprocessing"
    ) as error:
        explain(
            model,
            people,
            target=1,
            generator=NNCE(people),
            space=hf.FeatureSpace.from_frame(people),
        )
    assert "last step" not in str(error.value)


def test_a_classifier_cut_out_of_a_pipeline_is_refused_with_another_space(pipeline):
    model, people = pipeline
    denied, arguments = people[model.predict(people) == 0].head(5), {"target": 1, "changes": DELTA}
    other = hf.FeatureSpace.from_frame(people[["home", "income"]])
    for call in (
        lambda: explain(model[-1], denied, generator=RNCE(people), space=other, **arguments),
        lambda: hf.certify(model[-1], denied, space=other, **arguments),
        lambda: RNCE(people).prepare(model[-1], space=other, **arguments),
    ):
        with pytest.raises(
            InvalidInputError,
            match=r"that ends in this classifier; .*FeatureSpace\.from_pipeline\(pipeline, X\)",
        ):
            call()
    own = hf.FeatureSpace.from_pipeline(model, people)
    cut = explain(model[-1], denied, generator=RNCE(people), space=own, **arguments)
    whole = explain(model, denied, generator=RNCE(people), space=own, **arguments)
    pd.testing.assert_frame_equal(cut.to_frame(), whole.to_frame(), check_exact=True)


def test_a_classifier_cut_out_of_a_pipeline_fitted_on_arrays_is_held_against_it_too():
    people, accepted = two_columns()
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(people.to_numpy(), accepted)
    own = hf.FeatureSpace.from_pipeline(model, people)
    assert len(hf.certify(model[-1], people, 1, DELTA, space=own)) == len(people)
    with pytest.raises(InvalidInputError, match="that ends in this classifier"):
        hf.certify(model[-1], people, 1, DELTA, space=hf.FeatureSpace.from_frame(people))


def test_a_classifier_fitted_on_encoded_rows_may_stand_in_a_pipeline_that_is_not_fitted():
    people, accepted = two_columns()
    space = hf.FeatureSpace.from_frame(people)
    model = LogisticRegression().fit(space.encode(people), accepted)
    unfitted = make_pipeline(StandardScaler(), model)
    assert len(hf.certify(unfitted[-1], people, 1, DELTA, space=space)) == len(people)


def test_a_classifier_is_looked_at_again_once_a_pipeline_has_fitted_it_anew(monkeypatch):
    people, accepted = two_columns()
    space = hf.FeatureSpace.from_frame(people)
    model = LogisticRegression().fit(space.encode(people), accepted)
    hf.certify(model, people, 1, DELTA, space=space)
    with monkeypatch.context() as watched:
        watched.setattr("gc.get_referrers", lambda *_: pytest.fail("looked again"))
        hf.certify(model, people, 1, DELTA, space=space)
    around = make_pipeline(StandardScaler(), model).fit(people.to_numpy(), accepted)
    with pytest.raises(InvalidInputError, match="that ends in this classifier"):
        hf.certify(around[-1], people, 1, DELTA, space=space)


# ------------------------------------------------------------------ bad input


def test_several_spaces_are_named_by_their_type():
    space = hf.FeatureSpace.from_frame(pd.DataFrame({"a": [0.0, 1.0]}))
    with pytest.raises(InvalidInputError, match=r"^space: expected a FeatureSpace, got list$"):
        explain(NET, [[0.0]], target=1, generator=hf.MCE(), space=[space] * 3)


def test_values_that_the_table_never_shows_are_named():
    table = pd.DataFrame({"age": [19, 75, 40], "amount": [250.0, 18_424.0, 3000.0]})
    space = hf.FeatureSpace.from_frame(table, steps={"amount": 50})
    model = hf.Network([[[1.0, -1.0]]], [[-0.2]])
    options = {"target": 1, "changes": None, "generator": hf.MCE(), "space": space}
    # A little outside is what new people are.
    explain(model, table.assign(age=[18, 78, 40]), **options)
    for wrong in (-4, 190):
        with pytest.warns(
            HoldfastWarning, match=rf"'age' is {wrong} in row 1, .*\[19, 75\].*1 here"
        ):
            explain(model, table.assign(age=[20, wrong, 40]), **options)
    with pytest.raises(InvalidInputError, match=r"'amount' is 1000000000000 in row 2, .*18424\]"):
        explain(model, table.assign(amount=[300.0, 300.0, 1e12]), **options)


def test_units_that_are_far_apart_are_named_where_no_table_says_the_ranges():
    X = pd.DataFrame({"income": [0.0, 40_000.0, 90_000.0], "rate": [0.1, 0.2, 0.3]})
    model = hf.Network([[[1e-5, -1.0]]], [[-0.5]])
    options = {"target": 1, "changes": None, "generator": hf.MCE()}
    with pytest.warns(HoldfastWarning, match=r"'income' is 450,000 times that of 'rate'.*space="):
        explain(model, X, **options)
    explain(model, X, space=hf.FeatureSpace.from_frame(X, scale="none"), **options)


ONES = NNCE(np.ones((1, 2)))
BAD = {
    "generator is a class": ({"generator": NNCE}, "expected one such as RNCE"),
    "changes is a number": ({"changes": 0.02}, "expected PlausibleChanges"),
    "space is a table": ({"space": pd.DataFrame()}, "expected a FeatureSpace"),
    "unknown target": ({"target": 7}, r"expected one of \[0, 1\]"),
    "a target too many": ({"target": [1, 1]}, "one class for each of the 1 rows"),
    "time limit": ({"time_limit": -1.0}, "time_limit"),
    "no rows": ({"X": np.empty((0, 2))}, "at least one row"),
    "a column too many": ({"X": [[0.0, 0.0, 0.0]]}, "2 columns"),
    "not a number": ({"X": [[np.nan, 0.0]]}, "expected"),
    "text": ({"X": [["a", "b"]]}, "expected numbers"),
    "no candidates": (
        {"generator": NNCE(np.empty((0, 2)))},
        "candidates: expected at least one row",
    ),
    "candidates of another width": (
        {"generator": RNCE(np.ones((3, 4)))},
        "candidates: expected a table with 2",
    ),
    "candidates with nan": ({"generator": RNCE([[np.nan, 0.0]])}, "candidates: "),
    "candidates without a column": (
        {
            "X": pd.DataFrame({"a": [0.0], "b": [0.0]}),
            "generator": NNCE(pd.DataFrame({"a": [1.0]})),
        },
        "candidates: expected the column 'b'",
    ),
    "a column twice": (
        {"X": pd.DataFrame([[0.0, 0.0, 1.0]], columns=["a", "b", "b"]), "space": "ab"},
        "'b' more than once",
    ),
    "a missing column": (
        {"X": pd.DataFrame({"a": [0.0]}), "space": "ab"},
        "expected the column 'b'",
    ),
    "a space of another width": ({"space": "abc"}, "the model's 2 variables, got 3"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    arguments, message = BAD[name]
    arguments = {"X": [[0.0, 0.0]], "target": 1, "generator": ONES} | arguments
    if isinstance(arguments.get("space"), str):
        table = pd.DataFrame([[0.0] * 3, [1.0] * 3], columns=list("abc"))
        arguments["space"] = hf.FeatureSpace.from_frame(table[list(arguments["space"])])
    with pytest.raises(InvalidInputError, match=message):
        explain(NET, arguments.pop("X"), **arguments)


def test_candidates_have_to_be_a_table():
    for bad in ([1.0, 2.0], "train.csv", None):
        with pytest.raises(InvalidInputError, match="candidates: expected a table"):
            NNCE(bad)
    with pytest.raises(InvalidInputError, match="skip"):
        NNCE([[0.0]], skip=-1)


def test_a_category_never_seen_is_named(case):
    stranger = case.people.assign(home="castle")
    with pytest.raises(InvalidInputError, match=r"'home'.*got 'castle'"):
        explain(case.network, stranger, target=1, generator=NNCE(case.candidates), space=case.space)
    with pytest.raises(InvalidInputError, match=r"candidates: .*'home'.*got 'castle'"):
        explain(case.network, case.people, target=1, generator=NNCE(stranger), space=case.space)


def test_a_factual_in_the_target_class_is_no_silent_copy(case):
    accepted = case.people.iloc[[2]]
    result = explain(
        case.network, accepted, target=1, generator=NNCE(case.candidates), space=case.space
    )
    assert not result.found.any()
    assert result.counterfactuals.isna().all(axis=None)


def test_candidates_with_none_robust_say_so(case):
    everything = hf.PlausibleChanges(50.0)
    for generator in (RNCE(case.candidates), RNCE(case.candidates, True, True)):
        result = explain(
            case.network,
            case.people,
            target=1,
            changes=everything,
            generator=generator,
            space=case.space,
        )
        assert not result.found.any()
        assert "is proven to stay so under every plausible model" in result.reason[0]


def test_candidates_with_none_accepted_say_so():
    result = explain(NET, [[0.0, 0.0]], target=1, generator=NNCE(np.zeros((3, 2))))
    assert result.reason[0] == "none of the 3 candidates is classified as 1"


# ------------------------------------------------------------------ a model that knows its columns by name


def two_columns():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"debt": rng.uniform(0, 1, 200), "income": rng.uniform(0, 1, 200)})
    return people, (people["income"] > people["debt"]).astype(int)


def test_a_space_in_another_order_than_the_models_own_columns_is_refused():
    people, accepted = two_columns()
    space = hf.FeatureSpace.from_frame(people, scale="none")
    model = LogisticRegression().fit(people[["income", "debt"]], accepted)
    asked = people[accepted == 0].head(3)
    message = r"space: 'income' is not at its place: .* fitted on income, debt, and the space has debt, income"
    with pytest.raises(InvalidInputError, match=message):
        explain(model, asked, target=1, changes=DELTA, generator=RNCE(people), space=space)
    with pytest.raises(InvalidInputError, match=message):
        RNCE(people).prepare(model, target=1, changes=DELTA, space=space)
    for verb in (hf.certify, hf.certified_radius):
        with pytest.raises(InvalidInputError, match=message):
            verb(model, asked, 1, **({"changes": DELTA} if verb is hf.certify else {}), space=space)
    kept = RNCE(people).prepare(load_model(model).network, target=1, changes=DELTA, space=space)
    with pytest.raises(InvalidInputError, match=message):
        explain(model, asked, target=1, changes=DELTA, generator=RNCE(kept))


@pytest.mark.parametrize("names", [["debt", "income"], None])
def test_a_model_of_the_spaces_variables_is_taken(names):
    people, accepted = two_columns()
    space = hf.FeatureSpace.from_frame(people, scale="none")
    encoded = space.encode(people)
    model = LogisticRegression().fit(
        encoded if names is None else pd.DataFrame(encoded, columns=names), accepted
    )
    asked = people[accepted == 0].head(3)
    result = explain(model, asked, target=1, changes=DELTA, generator=RNCE(people), space=space)
    assert result.robust.any()
    answers = space.encode(result.counterfactuals[result.found])
    assert (hf.load_network(model).predict(answers) == 1).all()


@pytest.mark.parametrize(
    ("names", "scale", "message"),
    [
        (
            ["first", "second"],
            "none",
            "'first' is not at its place: the model was fitted on first, second, and the space has debt, income",
        ),
        (
            ["debt", "income"],
            "minmax",
            r"scales 'debt', but the model was fitted on the unscaled columns",
        ),
    ],
)
def test_a_model_fitted_on_columns_that_the_space_does_not_read_so_is_refused(
    names, scale, message
):
    people, accepted = two_columns()
    people = 100.0 * people
    space = hf.FeatureSpace.from_frame(people, scale=scale)
    model = LogisticRegression().fit(people.set_axis(names, axis=1), accepted)
    with pytest.raises(InvalidInputError, match=message):
        explain(model, people.head(3), target=1, changes=DELTA, generator=RNCE(people), space=space)
    with pytest.raises(InvalidInputError, match=message):
        hf.certify(model, people, 1, DELTA, space=space)
    # Whoever knows better says so.
    assert len(hf.certify(hf.load_network(model), people, 1, DELTA, space=space)) == len(people)


def test_the_names_of_one_hot_variables_count_too(case):
    names = list(case.space.variables)
    model = load_model(case.network)
    right, wrong = (
        Model(model.network, feature_names=tuple(order)) for order in (names, names[::-1])
    )
    assert len(hf.certify(right, case.people, 1, DELTA, space=case.space)) == len(case.people)
    with pytest.raises(InvalidInputError, match="is not at its place"):
        hf.certify(wrong, case.people, 1, DELTA, space=case.space)


def test_the_frame_is_the_point_that_was_certified_when_a_table_has_more_digits_than_the_space() -> (
    None
):
    """A space of float32 columns and a table of float64, as a file gives it back: no number may be rounded."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"income": rng.random(300), "debt": rng.random(300).astype(np.float32)})
    space = hf.FeatureSpace.from_frame(people, free=["income", "debt"])
    network = hf.Network([[[0.9, -0.5]]], [[-0.2]])
    wide = people.head(100).assign(debt=rng.random(100))
    assert (wide["debt"].astype(np.float32) != wide["debt"]).any()
    changes = hf.PlausibleChanges(0.01)
    advice = hf.explain(
        network, wide, target=1, changes=changes, generator=hf.Closest(), space=space
    )
    assert (advice.robust & (advice.counterfactuals["debt"] == wide["debt"])).sum() > 20
    points = space.encode(advice.counterfactuals[advice.found])
    np.testing.assert_array_equal(points, advice.points[advice.found])
    certs = hf.certify(network, points, target=1, changes=changes)
    assert certs.robust.all()
