"""Several answers for each person: different, constrained and certified like any other."""

import numpy as np
import pandas as pd
import pytest
from sklearn.neural_network import MLPClassifier

import holdfast as hf
from holdfast.datasets import make_loans
from holdfast.errors import InvalidInputError

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
    )
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
    )
    pd.testing.assert_frame_equal(found[list(X.columns)], own.counterfactuals)


def test_a_row_without_an_answer_keeps_its_place_and_its_reason(world):
    clf, X, space, denied = world
    accepted = X[clf.predict(space.encode(X)) == 1].head(1)
    both = pd.concat([accepted, denied.head(1)])
    found = hf.alternatives(
        clf, both, target=1, changes=CHANGES, generator=hf.RNCE(X), space=space, n_answers=2
    )
    assert found.index[0] == accepted.index[0]
    assert not found["found"].iloc[0]
    assert found["reason"].iloc[0].startswith("already classified")


def test_bad_input(world):
    clf, X, space, denied = world
    with pytest.raises(InvalidInputError, match="n_answers: expected a whole number >= 1, got 0"):
        hf.alternatives(clf, denied, target=1, generator=hf.RNCE(X), space=space, n_answers=0)
    with pytest.raises(InvalidInputError, match="X: expected a DataFrame, got ndarray"):
        hf.alternatives(clf, denied.to_numpy(), target=1, generator=hf.RNCE(X), space=space)
