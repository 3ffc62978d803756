"""Several answers for each person: different, constrained and certified like any other."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.neural_network import MLPClassifier

import holdfast as hf
from holdfast.datasets import make_loans
from holdfast.errors import InvalidInputError
from holdfast.presentation.report._gather import gather

CHANGES = hf.PlausibleChanges(0.01)


@pytest.fixture(scope="module")
def world():
    loans = make_loans(800)
    X = loans.drop(columns="accepted")
    space = hf.FeatureSpace.from_frame(X, immutable=["age", "dependants"], steps={"income": 250})
    clf = MLPClassifier((6,), max_iter=2000, random_state=0).fit(space.encode(X), loans["accepted"])
    return clf, X, space, X[clf.predict(space.encode(X)) == 0].head(6)


@pytest.mark.parametrize("make", [lambda X: hf.RNCE(X, line_search=True), lambda X: hf.Closest()])
def test_answers_differ_obey_the_constraints_and_are_robust(world, make):
    clf, X, space, denied = world
    found = hf.alternatives(
        clf, denied, target=1, changes=CHANGES, generator=make(X), space=space, n_answers=3
    ).to_frame()
    assert (found["answer"] == 2).any()
    assert list(found.index.unique()) == list(denied.index)
    for person, answers in found.groupby(level=0, sort=False):
        factual = denied.loc[[person]]
        answers = answers[answers["found"]]
        table = answers[list(X.columns)].astype(X.dtypes)
        assert not any(space.violations(table, factual))
        assert (answers["verdict"] == "ROBUST").all()
        again = hf.certify(clf, space.encode(table), 1, CHANGES)
        assert again.robust.all()
        assert not table.duplicated().any()
        for _, answer in answers.iterrows():
            for column in filter(None, answer["left_alone"].split(", ")):
                assert answer[column] == factual.iloc[0][column]
        costs = answers["cost_l1"].to_numpy()
        if isinstance(make(X), hf.Closest):
            # Each condition comes on top of the ones before, so the best under it cannot be cheaper.
            assert (np.diff(costs) >= -1e-6).all()


def test_the_first_answer_is_the_generators_own(world):
    clf, X, space, denied = world
    own = hf.explain(clf, denied, target=1, changes=CHANGES, generator=hf.RNCE(X), space=space)
    found = hf.alternatives(
        clf, denied, target=1, changes=CHANGES, generator=hf.RNCE(X), space=space, n_answers=1
    ).to_frame()
    pd.testing.assert_frame_equal(found[list(X.columns)], own.counterfactuals)


def test_a_row_without_an_answer_keeps_its_place_and_its_reason(world):
    clf, X, space, denied = world
    accepted = X[clf.predict(space.encode(X)) == 1].head(1)
    both = pd.concat([accepted, denied.head(1)])
    found = hf.alternatives(
        clf, both, target=1, changes=CHANGES, generator=hf.RNCE(X), space=space, n_answers=2
    ).to_frame()
    assert found.index[0] == accepted.index[0]
    assert not found["found"].iloc[0]
    assert found["reason"].iloc[0].startswith("already classified")


def test_bad_input(world):
    clf, X, space, denied = world
    with pytest.raises(InvalidInputError, match="n_answers: expected a whole number >= 1, got 0"):
        hf.alternatives(clf, denied, target=1, generator=hf.RNCE(X), space=space, n_answers=0)
    with pytest.raises(InvalidInputError, match="X: expected a DataFrame, got ndarray"):
        hf.alternatives(clf, denied.to_numpy(), target=1, generator=hf.RNCE(X), space=space)
    with pytest.raises(
        InvalidInputError, match=r"n: alternatives has no such option; it has .*n_answers"
    ):
        hf.alternatives(clf, denied, target=1, generator=hf.RNCE(X), space=space, n=5)
    with pytest.raises(InvalidInputError, match="space: expected a FeatureSpace, got int"):
        hf.alternatives(clf, denied, target=1, generator=hf.RNCE(X), space=5)


def test_without_a_space_it_is_that_of_explain():
    net = hf.Network([[[1.0, 1.0]]], [[-1.0]])
    people = pd.DataFrame({"a": [0.0, 0.2], "b": [0.1, 0.0]})
    asked = {"target": [1, 1], "changes": CHANGES, "generator": hf.Closest(), "space": None}
    found = hf.alternatives(net, people, n_answers=2, **asked)
    assert found.first.points.tolist() == hf.explain(net, people, **asked).points.tolist()
    assert found.answer.tolist() == [1, 2, 1, 2]
    assert found.left_alone.tolist()[::2] == ["", ""]
    for row in (1, 3):
        alone = found.left_alone[row]
        assert found.counterfactuals[alone].iloc[row] == found.factuals[alone].iloc[row]
        assert found.robust[row]


def test_letters_ledger_and_report_take_alternatives(world, tmp_path):
    """Each answer is a letter and a promise to the same person; on the page they are other ways."""
    clf, X, space, denied = world
    people = denied.head(3).set_axis(["A", "B", "C"])
    found = hf.alternatives(
        clf, people, target=1, changes=CHANGES, generator=hf.RNCE(X), space=space, n_answers=2
    )
    assert isinstance(found, hf.Recourse)
    keys, n = found.factuals.index.tolist(), int(found.found.sum())
    assert keys == sorted(keys)
    manifest = hf.letters(found, tmp_path / "letters", date="2026-11-16")
    assert manifest["key"].tolist() == [
        key if answer == 1 else f"{key} ({answer})"
        for key, answer in zip(keys, found.answer, strict=True)
    ]
    row = int(np.flatnonzero(found.answer == 2)[0])
    assert found.letter(row).key == f"{keys[row]} (2)"
    reasons = [found.letter(one).contents.reasons for one in (row, row - 1)]
    # The same reasons; whether the advice leaves one alone differs between the two.
    assert [replace(one, stays="") for one in reasons[0]] == [
        replace(one, stays="") for one in reasons[1]
    ]
    with hf.Ledger(tmp_path / "promises.ledger") as ledger:
        assert ledger.add(found).added == n
        assert len(ledger.find("B")) == keys.count("B")
        assert len(ledger.erase("B")) == keys.count("B")
    first = hf.explain(clf, people, target=1, changes=CHANGES, generator=hf.RNCE(X), space=space)
    pd.testing.assert_frame_equal(found.first.to_frame(), first.to_frame())
    page = gather(found, date="2026-11-16")
    assert page == gather(first, date="2026-11-16", alternatives=found)
    assert [len(person.others) for person in page.people] == [keys.count(key) - 1 for key in "ABC"]
    assert hf.write_certificates(found, tmp_path / "proofs.jsonl")["certificate"].notna().sum() == n
    found.report(tmp_path / "report.html", radii=False, counter_models=False)
