"""NNCE and RNCE against a search through every candidate, and what the paper's remarks promise of them."""

import pickle

import numpy as np
import pandas as pd
import pytest

import holdfast as hf
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators import NNCE, RNCE, Robust, explain
from holdfast.generators import _rnce as rnce
from holdfast.generators._candidates import Candidates
from recourse_cases import NETWORKS, SPACES, make_case

CASES = [(network, space) for network in NETWORKS for space in SPACES]
CONFIGURATIONS = [(certified, line) for certified in (None, False, True) for line in (False, True)]
cases = pytest.mark.parametrize(("network", "space"), CASES)


def ask(case, generator, space=None, changes=None):
    return explain(
        case.network,
        case.people,
        target=case.target,
        changes=changes,
        generator=generator,
        space=space or case.space,
    )


def brute_force(case, space, row, changes):
    """The cost of the cheapest candidate that is accepted once the person's constraints are put in; None if none is.

    All candidates for one person, without any order among them.
    """
    person = case.people.iloc[[row]]
    others = space.encode(case.candidates)
    points = space.project(others[case.network.predict(others) == case.target], person)
    fine = space.satisfied(points, person) & (case.network.predict(points) == case.target)
    if changes is not None:
        fine &= hf.certify(case.network, points, case.target, changes).robust
    return space.cost_l1(points, space.encode(person))[fine].min() if fine.any() else None


@cases
@pytest.mark.parametrize("delta", [None, 0.01, 0.1, 1.0])
def test_rnce_is_the_nearest_robust_candidate(network, space, delta):
    case = make_case(network, space, n_candidates=80, n_people=4)
    # On a coarse grid, and where rules move other columns, a neighbour's distance is not yet what it costs.
    free = case.space.constrained(steps={"income": 100} if space == "mixed" else {}, rules=())
    changes = None if delta is None else hf.PlausibleChanges(delta)
    results = [
        ask(case, RNCE(case.candidates), free, changes),
        ask(case, NNCE(case.candidates), free),
    ]
    for result, held_against in zip(results, [changes, None], strict=True):
        for row in (0, 1, 3):
            least = brute_force(case, free, row, held_against)
            assert result.found[row] == (least is not None)
            if least is not None:
                assert result.cost_l1[row] == pytest.approx(least, rel=1e-12)
            else:
                assert "candidates classified as" in result.reason[row]


@cases
@pytest.mark.parametrize(("certified", "line"), CONFIGURATIONS)
def test_complete_whatever_the_configuration(network, space, certified, line):
    """An answer wherever some candidate, taken as far as the constraints allow, is robust; none where none is."""
    case = make_case(network, space, seed=1, n_candidates=80, n_people=4)
    for delta in (0.02, 0.3):
        changes = hf.PlausibleChanges(delta)
        plain = ask(case, RNCE(case.candidates), changes=changes)
        result = ask(case, RNCE(case.candidates, certified, line), changes=changes)
        assert result.found.tolist() == plain.found.tolist()
        assert result.robust.tolist() == result.found.tolist()
        for row in (0, 1, 3):
            assert result.found[row] == (brute_force(case, case.space, row, changes) is not None)


@cases
def test_line_search_is_never_dearer_and_often_cheaper(network, space):
    case = make_case(network, space, n_people=12)
    for changes in (None, case.changes):
        plain = ask(case, RNCE(case.candidates), changes=changes)
        line = ask(case, RNCE(case.candidates, line_search=True), changes=changes)
        assert (line.cost_l1[plain.found] <= plain.cost_l1[plain.found]).all()
        if space != "categorical":
            assert line.cost_l1[plain.found].sum() < plain.cost_l1[plain.found].sum()


@cases
@pytest.mark.parametrize("certified", [False, True])
def test_rnce_without_changes_is_nnce(network, space, certified):
    case = make_case(network, space)
    nearest = ask(case, NNCE(case.candidates)).to_frame()
    pd.testing.assert_frame_equal(
        ask(case, RNCE(case.candidates, certified)).to_frame(), nearest, check_exact=True
    )


def test_certified_candidates_answer_as_the_others_where_everything_may_move():
    case = make_case("two layers", "continuous", n_people=40)
    free = case.space.constrained(free=case.space.names)
    for delta in (0.01, 0.05):
        changes = hf.PlausibleChanges(delta)
        results = [
            ask(case, RNCE(case.candidates, certified), free, changes)
            for certified in (False, True)
        ]
        pd.testing.assert_frame_equal(
            results[0].to_frame(), results[1].to_frame(), check_exact=True
        )


def test_rnce_chooses_by_itself_and_answers_the_same(monkeypatch: pytest.MonkeyPatch):
    """Free columns: the table is certified as soon as that is less work; constraints: each candidate as it is met."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {
            "a": rng.integers(0, 40, 900),
            "b": rng.random(900).round(2),
            "c": rng.random(900).round(2),
        }
    )
    network = hf.Network(
        [rng.normal(size=(6, 3)), rng.normal(size=(1, 6))], [rng.normal(size=6), [-0.3]]
    )
    asked = []
    real = rnce.certify_points
    monkeypatch.setattr(
        rnce, "certify_points", lambda *a, **k: asked.append(len(a[1])) or real(*a, **k)
    )
    for constraints, delta in (
        ({}, 0.005),
        ({}, 0.02),
        ({"increasing": ["b"], "immutable": ["a"]}, 0.02),
    ):
        space = FeatureSpace.from_frame(table, **constraints)
        people = table[network.predict(space.encode(table)) == 0].head(250)
        accepted = int((network.predict(space.encode(table)) == 1).sum())
        question = {"target": 1, "changes": hf.PlausibleChanges(delta), "space": space}
        asked.clear()
        chosen = hf.explain(network, people, generator=RNCE(table), **question)
        assert asked == ([] if constraints else [accepted])
        one_by_one = hf.explain(
            network, people, generator=RNCE(table, certified_candidates=False), **question
        )
        assert asked == ([] if constraints else [accepted])
        assert chosen.found.sum() > 0
        pd.testing.assert_frame_equal(chosen.to_frame(), one_by_one.to_frame())


def test_the_table_is_certified_once_for_whoever_has_no_near_answer(monkeypatch):
    """Each of many people would have to be asked about each of many candidates."""
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"age": rng.integers(0, 3, 1500), "a": rng.random(1500)})
    table["b"] = rng.random(1500)
    space = FeatureSpace.from_frame(table, immutable=["age"])
    network = hf.Network([[[0.5, 1.0, 1.0]]], [[-1.2]])
    monkeypatch.setattr(rnce, "_NEAREST", 64)
    asked, whole = [], []
    project, certified = FeatureSpace.project, rnce.certify_points
    monkeypatch.setattr(FeatureSpace, "project", lambda *a: asked.append(len(a[1])) or project(*a))
    monkeypatch.setattr(
        rnce, "certify_points", lambda *a, **k: whole.append(len(a[1])) or certified(*a, **k)
    )
    classes = network.predict(space.encode(table))
    people, accepted = table[classes == 0].head(40), int((classes == 1).sum())
    question = {"target": 1, "space": space}
    for delta, robust in ((0.09, True), (0.5, False)):
        asked.clear()
        changes = hf.PlausibleChanges(delta)
        chosen = hf.explain(network, people, generator=RNCE(table), changes=changes, **question)
        assert whole.pop() == accepted
        assert not whole
        assert robust or sum(asked) == 64 * len(people)
        every = hf.explain(
            network,
            people,
            generator=RNCE(table, certified_candidates=False),
            changes=changes,
            **question,
        )
        assert chosen.found.tolist() == every.found.tolist()
        assert chosen.found.any() == robust
        for row in np.flatnonzero(~chosen.found):
            assert "tried: the nearest 64, and all that are robust" in chosen.reason[row]


def test_a_candidate_without_a_value_is_not_handed_out_as_it_is():
    table = pd.DataFrame({"a": [0.0, 1.0, np.nan], "b": [0.0, 1.0, 0.5]})
    free, gaps = (
        FeatureSpace.from_frame(table[["b"]]),
        FeatureSpace.from_frame(table, missing=["a"]),
    )
    assert Candidates.of(free.encode(table[["b"]]), free).handed_out_as_they_are
    assert not Candidates.of(gaps.encode(table), gaps).handed_out_as_they_are


def test_certified_candidates_are_kept_and_reused():
    case = make_case("two layers", "mixed")
    arguments = {"changes": case.changes, "space": case.space}
    kept = RNCE(case.candidates).prepare(case.network, target=case.target, **arguments)
    kept = pickle.loads(pickle.dumps(kept))
    expected = ask(case, RNCE(case.candidates, certified_candidates=True), changes=case.changes)
    # The reasons compare with the table, which is not kept.
    frame = expected.to_frame().drop(columns="main_reasons")
    result = ask(case, RNCE(kept), changes=case.changes)
    pd.testing.assert_frame_equal(
        result.to_frame().drop(columns="main_reasons"), frame, check_exact=True
    )
    # They know their space.
    alone = explain(
        case.network, case.people, target=case.target, changes=case.changes, generator=RNCE(kept)
    )
    pd.testing.assert_frame_equal(
        alone.to_frame().drop(columns="main_reasons"), frame, check_exact=True
    )
    points = case.space.encode(case.candidates)
    accepted = points[case.network.predict(points) == case.target]
    robust = hf.certify(
        case.network, case.space.settle(accepted)[0], case.target, case.changes
    ).robust
    assert (
        repr(kept)
        == f"CertifiedCandidates(300 rows; 1: {len(accepted)} accepted, {robust.sum()} robust)"
    )


def test_certified_candidates_refuse_another_question():
    case = make_case("two layers", "mixed")
    kept = RNCE(case.candidates).prepare(
        case.network, target=1, changes=case.changes, space=case.space
    )
    other = case.space.constrained(immutable=["income"])
    with pytest.raises(InvalidInputError, match="certified for this changes"):
        ask(case, RNCE(kept), changes=hf.PlausibleChanges(0.02))
    with pytest.raises(InvalidInputError, match="certified for this space"):
        ask(case, RNCE(kept), other, case.changes)
    with pytest.raises(InvalidInputError, match="certified for class 0"):
        explain(case.network, case.people, target=0, changes=case.changes, generator=RNCE(kept))
    with pytest.raises(InvalidInputError, match="certified already"):
        RNCE(kept).prepare(case.network, target=1, changes=case.changes)


def test_targets_row_by_row():
    case = make_case("three classes", "continuous", n_people=9)
    classes = case.network.predict(case.space.encode(case.people))
    targets = (classes + np.array([1, 2, 0] * 3)) % 3
    for generator in (NNCE(case.candidates), RNCE(case.candidates, True, True)):
        result = explain(
            case.network,
            case.people,
            target=targets,
            changes=case.changes,
            generator=generator,
            space=case.space,
        )
        assert not result.found[[2, 5, 8]].any()
        found = np.flatnonzero(result.found)
        assert found.size > 0
        np.testing.assert_array_equal(case.network.predict(result.points[found]), targets[found])
        for row in found:
            alone = explain(
                case.network, case.people.iloc[[row]], target=targets[row], changes=case.changes, generator=generator,
                space=case.space,
            )  # fmt: skip
            np.testing.assert_array_equal(alone.points[0], result.points[row])


def test_robust_over_nnce_walks_the_same_neighbours_as_rnce():
    case = make_case("two layers", "continuous", n_candidates=100, n_people=8)
    changes = hf.PlausibleChanges(0.02)
    walked = ask(case, Robust(NNCE(case.candidates), max_rounds=40), changes=changes)
    asked = ask(case, RNCE(case.candidates), changes=changes)
    assert asked.robust.any()
    np.testing.assert_array_equal(walked.points[asked.found], asked.points[asked.found])
    for row in np.flatnonzero(~asked.found & walked.found):
        assert walked.verdict[row] is hf.Verdict.NOT_ROBUST
        assert walked.reason[row].startswith("not robust after ")


def test_robust_tests_the_bases_own_answer_first():
    case = make_case("one layer", "continuous", n_people=20)
    tiny = hf.PlausibleChanges(1e-9)
    base = ask(case, NNCE(case.candidates), changes=tiny)
    once = ask(case, Robust(NNCE(case.candidates), max_rounds=1), changes=tiny)
    assert base.robust.any()
    np.testing.assert_array_equal(base.points, once.points)
    assert set(once.reason[once.robust]) == {""}


def test_robust_needs_something_to_raise():
    with pytest.raises(InvalidInputError, match="RNCE has no parameter"):
        Robust(RNCE([[0.0]]))
    with pytest.raises(InvalidInputError, match="a whole number >= 1, got 0"):
        Robust(NNCE([[0.0]]), max_rounds=0)


@pytest.mark.parametrize("n_people", [20, 300])
@pytest.mark.parametrize("decimals", [0, 1, 6])
def test_the_first_neighbours_are_those_of_the_whole_order(decimals: int, n_people: int):
    rng = np.random.default_rng(0)
    # Whole numbers make many ties, one decimal some.
    table = pd.DataFrame(rng.uniform(0, 6, (2000, 3)).round(decimals), columns=["a", "b", "c"])
    space = hf.FeatureSpace.from_frame(table, costs={"b": 3.0}, immutable=["c"])
    candidates = Candidates.of(space.encode(table), space)
    factuals = candidates.points(slice(n_people))
    for quick, slow in zip(
        candidates.first(factuals, 90), candidates.first(factuals, len(table)), strict=True
    ):
        np.testing.assert_array_equal(quick, slow[:90])
    # A tree is worth building for many people only.
    assert ("_tree" in candidates.__dict__) == (n_people == 300)


def test_ties_go_to_the_earlier_candidate():
    net = hf.Network([[[1.0, 1.0]]], [[-1.0]])
    for others in ([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]):
        result = explain(net, [[0.0, 0.0]], target=1, generator=NNCE(others))
        assert result.points[0].tolist() == others[0]


def test_line_search_gives_categories_back():
    """The category makes the candidate no better, so the person keeps their own."""
    people = pd.DataFrame({"home": ["rent", "own"], "income": [0.0, 1.0]})
    space = hf.FeatureSpace.from_frame(people)
    net = hf.Network([[[0.0, 0.0, 1.0]]], [[-0.5]])
    generator = RNCE(people, line_search=True)
    result = explain(net, people.head(1), target=1, generator=generator, space=space)
    assert result.counterfactuals["home"].tolist() == ["rent"]
    assert result.counterfactuals["income"].item() == pytest.approx(0.5, abs=1e-5)


def test_a_table_is_read_once_and_as_it_was_when_it_was_given(monkeypatch):
    case = make_case("two layers", "mixed")
    read, encode = [], hf.FeatureSpace.encode
    monkeypatch.setattr(
        hf.FeatureSpace, "encode", lambda space, X: read.append(len(X)) or encode(space, X)
    )
    table = case.candidates.copy()
    generator = RNCE(table)
    asked = {
        "target": case.target,
        "changes": case.changes,
        "generator": generator,
        "space": case.space,
    }
    first = explain(case.network, case.people, **asked)
    table[:] = table.iloc[[0] * len(table)].to_numpy()
    second = explain(case.network, case.people, **asked)
    pd.testing.assert_frame_equal(first.to_frame(), second.to_frame())
    assert first.found.sum() > 1
    assert read.count(len(table)) == 1
