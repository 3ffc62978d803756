"""Verbs over batches: the same answers as for the whole table, whatever moves the batches."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.neural_network import MLPClassifier

import holdfast as hf
from holdfast.datasets import make_loans
from holdfast.errors import InvalidInputError

CHANGES = hf.PlausibleChanges(0.01)


@pytest.fixture(scope="module")
def loans():
    """People with a key, a space and a model that reads it."""
    table = make_loans(700)
    X, y = table.drop(columns="accepted"), table["accepted"]
    space = hf.FeatureSpace.from_frame(X, immutable=["age"], steps={"income": 250})
    model = MLPClassifier((8, 8), max_iter=1000, tol=1e-3, random_state=0).fit(space.encode(X), y)
    X.insert(0, "id", [f"p{i}" for i in range(len(X))])
    return X, space, model


def options(loans, verb):
    """The arguments of a verb on this table."""
    X, space, _ = loans
    asked = {"target": 1, "space": space}
    if verb == "certified_radius":
        return asked
    asked["changes"] = CHANGES
    return asked | ({"generator": hf.RNCE(X.head(300))} if verb == "explain" else {})


def function(loans, verb, **others):
    X, _, model = loans
    return hf.over_batches(verb, model, X, keep=["id"], **options(loans, verb), **others)


def whole(loans, verb, n):
    """The verb itself on the first `n` people."""
    X, _, model = loans
    result = getattr(hf, verb)(model, X.drop(columns="id").head(n), **options(loans, verb))
    return result.to_frame()


def same(ours, theirs):
    """Equal to the last bit, but for bounds: margins are sums, rounded otherwise in other lengths; radii have a tol."""
    ours = ours[list(theirs.columns)]
    for name in theirs.columns:
        one, other = ours[name].to_numpy(object), theirs[name].to_numpy(object)
        if str(name).startswith(("margin", "radius")):
            tol = 1e-9 if name.startswith("margin") else 1e-6
            np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=0, atol=tol)
        else:
            gone = pd.isna(one)
            assert (gone == pd.isna(other)).all(), name
            assert (one[~gone] == other[~gone]).all(), name


ROWS = {"certify": 700, "certified_radius": 60, "explain": 120}


@pytest.mark.parametrize("verb", ROWS)
@pytest.mark.parametrize("size", [50, 33])
def test_batches_say_what_the_verb_says_of_the_whole_table(loans, verb, size):
    n, answer = ROWS[verb], function(loans, verb)
    X = loans[0].head(n)
    parts = [answer(X.iloc[i : i + size]) for i in range(0, n, size)]
    assert all((part.dtypes == answer.meta.dtypes).all() for part in parts)
    ours = pd.concat(parts)
    assert (ours.index == X.index).all()
    assert ours["id"].tolist() == X["id"].tolist()
    same(ours, whole(loans, verb, n))


@pytest.mark.parametrize("verb", ROWS)
def test_what_comes_back_is_what_went_in_by_the_declared_schema(loans, verb):
    answer, X = function(loans, verb), loans[0].head(20)
    table = pa.Table.from_pandas(X, preserve_index=False)
    (batch,) = table.to_batches()
    for given in (table, batch, batch.slice(0, 0)):
        result = answer(given)
        assert type(result) is type(given)
        assert result.schema == answer.schema
        assert result.num_rows == given.num_rows
    assert answer(table).to_pandas()["id"].tolist() == X["id"].tolist()
    by_schema = hf.over_batches(verb, loans[2], table.schema, keep=["id"], **options(loans, verb))
    assert by_schema.schema == answer.schema


def test_factuals_are_columns_beside_the_points(loans):
    X, space, model = loans
    X = X.drop(columns="id").head(40)
    both = pd.concat([X, X.add_prefix("was_")], axis=1)
    answer = hf.over_batches(
        "certify", model, both, target=1, changes=CHANGES, space=space, factuals="was_"
    )
    same(answer(both), hf.certify(model, X, 1, CHANGES, space=space, factuals=X).to_frame())


def test_it_pickles_without_what_it_prepared_and_prepares_once(loans, monkeypatch):
    from holdfast.scale import _batches

    answer, X = function(loans, "certify"), loans[0].head(5)
    before = len(pickle.dumps(answer))
    ours = answer(X)
    # The cached columns and schema are all that may be added.
    assert len(pickle.dumps(answer)) < before + 10_000
    made = []
    monkeypatch.setattr(_batches, "prepare", lambda *_, **__: made.append(1))
    again = pickle.loads(pickle.dumps(answer))
    pd.testing.assert_frame_equal(again(X), ours)
    assert made == []


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X: X.drop(columns="income"), "batch: expected the column 'income', got"),
        (
            lambda X: X.assign(income="much"),
            "expected whole numbers in the column 'income'.*got labels",
        ),
        (
            lambda X: X.assign(age=X["age"] + 0.5),
            "expected whole numbers in the column 'age'.*got numbers",
        ),
    ],
)
def test_a_batch_that_is_not_as_declared_is_refused_by_name(loans, spoil, message):
    answer = function(loans, "certify")
    with pytest.raises(InvalidInputError, match=message):
        answer(spoil(loans[0].head(3)))


def test_what_is_asked_wrongly_is_refused_before_any_batch_comes(loans):
    X, space, model = loans
    for arguments, message in (
        (("audition", model, X), "verb: expected one of certify"),
        (("certify", model, 3), "like: expected a DataFrame or an Arrow schema, got 3"),
        (("certify", model, X), "options: expected those of certify, got: missing"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            hf.over_batches(*arguments)
    with pytest.raises(InvalidInputError, match="got an unexpected keyword argument 'delta'"):
        function(loans, "certify", delta=0.1)
    with pytest.raises(InvalidInputError, match="keep: expected columns of the table, got 'key'"):
        hf.over_batches("certify", model, X, keep=["key"], target=1, changes=CHANGES)
    with pytest.raises(InvalidInputError, match="keep: expected names that the answer does not"):
        hf.over_batches(
            "certify",
            model,
            X.assign(verdict=""),
            keep=["verdict"],
            target=1,
            changes=CHANGES,
            space=space,
        )
