"""Verbs over batches: the same answers as for the whole table, whatever moves the batches."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.neural_network import MLPClassifier

import holdfast as hf
from holdfast.datasets import make_loans
from holdfast.errors import InvalidInputError
from holdfast.promises import _audit
from holdfast.verify import _engine
from random_networks import random_network, random_points

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


@pytest.mark.parametrize("verb", ["certify", "certified_radius"])
@pytest.mark.parametrize(
    "gaps", [[pd.NA], pa.nulls(1).to_pylist(), [np.nan]], ids=["NA", "None", "nan"]
)
def test_what_is_missing_is_named_with_its_row(loans, verb, gaps):
    X, answer = loans[0].head(4).reset_index(drop=True), function(loans, verb)
    for name in ("income", "card_utilisation", "housing"):
        values = X[name].tolist()
        for column, row in (([*values[:2], *gaps, values[3]], 2), (gaps * 4, 0)):
            spoilt = X.assign(**{name: pd.Series(column, dtype=object).infer_objects()})
            said = f"column '{name}': expected a value in every row, got .* in row {row}"
            with pytest.raises(InvalidInputError, match=said):
                answer(spoilt)
            with pytest.raises(InvalidInputError, match=said):
                answer(pa.Table.from_pandas(spoilt, preserve_index=False))


def test_a_column_may_have_gaps_in_one_batch_where_the_space_allows_them():
    X = pd.DataFrame({"a": [1.0, 2.0, np.nan, 5.0], "b": [1, 2, 3, 4]})
    space = hf.FeatureSpace.from_frame(X, missing=["a"])
    model = hf.Network([np.ones((1, space.n_variables))], [[0.0]])
    like = X.astype({"a": "Int64"})[:1].astype({"a": int})
    answer = hf.over_batches("certify", model, like, target=1, changes=CHANGES, space=space)
    same(answer(X), hf.certify(model, X, 1, CHANGES, space=space).to_frame())


def test_a_kept_key_may_be_missing_where_its_type_can_say_so(loans):
    X, space, model = loans
    X = X.head(3).assign(id=[2**60 + 1, 2, 3])
    asked = {"keep": ["id"], "target": 1, "space": space, "changes": CHANGES}
    answer = hf.over_batches("certify", model, X, **asked)
    for keys in ([2**60 + 1, None, 3], [None] * 3):
        table = pa.Table.from_pandas(X, preserve_index=False)
        table = table.set_column(0, "id", pa.array(keys, pa.int64() if any(keys) else pa.null()))
        assert answer(table)["id"].to_pylist() == keys
        gone = X.assign(id=pd.array(keys, dtype="Int64"))
        with pytest.raises(
            InvalidInputError, match=r"column 'id'.* in row .*; declare it as Int64"
        ):
            answer(gone)
        declared = hf.over_batches("certify", model, gone, **asked)
        assert declared(gone)["id"].equals(gone["id"])


@pytest.mark.parametrize(
    "given", [np.ones((2, 2)), {"a": [1]}, None, [], pd.Series([1.0]), pa.array([1])]
)
def test_what_is_no_table_is_refused(loans, given):
    with pytest.raises(InvalidInputError, match="batch: expected a DataFrame, an Arrow record"):
        function(loans, "certify")(given)


def test_a_type_too_narrow_for_a_value_is_refused_and_no_number_of_numpy_is_shown(loans):
    X, space, model = loans
    asked = {"target": 1, "space": space, "changes": CHANGES}
    narrow = hf.over_batches(
        "certify", model, X.drop(columns="id").astype({"income": "int16"}), **asked
    )
    with pytest.raises(
        InvalidInputError, match=r"expected int16 in the column 'income'.*got 70000$"
    ):
        narrow(X.assign(income=70_000))
    with pytest.raises(InvalidInputError, match=r"got numbers: 0\.5$"):
        narrow(X.assign(income=0.5))


@pytest.mark.parametrize("verb", ["certify", "certified_radius"])
def test_a_column_is_both_kept_and_read(loans, verb):
    X, _, model = loans
    answer = hf.over_batches(verb, model, X, keep=["id", "income"], **options(loans, verb))
    result = answer(X.head(30))
    assert result["income"].tolist() == X["income"].head(30).tolist()
    same(result, whole(loans, verb, 30))


def test_what_is_asked_wrongly_is_refused_before_any_batch_comes(loans):
    X, space, model = loans
    for arguments, message in (
        (("audition", model, X), "verb: expected one of certify"),
        (("certify", model, 3), "like: expected a DataFrame or an Arrow schema, got 3"),
        (("certify", model, X), "options: expected those of certify, got: missing"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            hf.over_batches(*arguments)
    twice = pd.concat([X, X[["income"]]], axis=1)
    for table, others, message in (
        (X, {"chnges": CHANGES}, "options: .* got an unexpected keyword argument 'chnges'"),
        (X, {"changes": CHANGES, "target": 7}, "target: expected one of .*, got 7"),
        (X, {"keep": "id", "changes": CHANGES}, "a list of columns, such as .*, got 'id'"),
        (twice, {"changes": CHANGES}, "like: expected the column 'income' once"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            hf.over_batches("certify", model, table, **{"target": 1, "space": space, **others})
    with pytest.raises(InvalidInputError, match="batch: expected the column 'income' once"):
        function(loans, "certify")(twice)
    with pytest.raises(InvalidInputError, match="got an unexpected keyword argument 'delta'"):
        function(loans, "certify", delta=0.1)
    with pytest.raises(InvalidInputError, match="keep: expected columns of the table, got 'key'"):
        hf.over_batches("certify", model, X, keep=["key"], target=1, changes=CHANGES)
    with pytest.raises(InvalidInputError, match="keep: 'verdict' is also a column of the result"):
        hf.over_batches(
            "certify",
            model,
            X.assign(verdict=""),
            keep=["verdict"],
            target=1,
            changes=CHANGES,
            space=space,
        )


# ---------------------------------------------------------------- one machine, several workers


GENERATORS = {
    "rnce": hf.RNCE,
    "nnce": hf.NNCE,
    "stce": lambda X: hf.STCE(X, tau=0.4),
    "rbr": lambda X: hf.RBR(X, steps=5),
    "gce": lambda _: hf.GCE(),
    "proto": hf.PROTO,
    "roar": lambda _: hf.ROAR(),
    "mce": lambda _: hf.MCE(),
    "closest": lambda _: hf.Closest(),
    "robust": lambda X: hf.Robust(hf.NNCE(X), 3),
    "robust mce": lambda _: hf.Robust(hf.MCE(), 3),
}
# Those that ask a solver, person by person.
SLOW = ("mce", "closest", "robust mce")


@pytest.mark.filterwarnings("ignore:.*are far off the data")
@pytest.mark.parametrize("name", GENERATORS)
def test_advice_does_not_depend_on_the_number_of_workers(loans, name):
    X, space, model = loans
    people = X.drop(columns="id")
    denied = people[model.predict(space.encode(people)) == 0]
    denied = denied.head(6) if name in SLOW else denied
    asked = {"target": 1, "changes": CHANGES, "space": space, "generator": GENERATORS[name](people)}
    alone = hf.explain(model, denied, **asked)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        together = hf.explain(model, denied, **asked)
    if name not in ("robust", *SLOW):
        assert len(denied) > 256, "expected more than one part"
    pd.testing.assert_frame_equal(alone.to_frame(), together.to_frame(), check_exact=True)
    for row in range(0, len(denied), 40):
        said = "; ".join(alone.advice[row])
        assert said == (alone.describe(row) if alone.found[row] else "")


@pytest.mark.filterwarnings("ignore:.*are far off the data")
@pytest.mark.parametrize("name", GENERATORS)
def test_advice_does_not_depend_on_the_size_of_batches(loans, name):
    X, space, model = loans
    people = X.drop(columns="id")
    denied = people[model.predict(space.encode(people)) == 0].head(5 if name in SLOW else 20)
    answer = hf.over_batches(
        "explain", model, people, target=1, changes=CHANGES, space=space, generator=GENERATORS[name](people)
    )  # fmt: skip
    whole = answer(denied)
    assert whole["found"].any()
    found = whole["found"].to_numpy()
    columns = list(people.columns)
    for size in (7,) if name not in SLOW else (2,):
        parts = pd.concat([answer(denied[i : i + size]) for i in range(0, len(denied), size)])
        for column in ("found", "verdict", "reason"):
            assert parts[column].fillna("").tolist() == whole[column].fillna("").tolist()
        ours, theirs = (
            space.encode(frame.loc[found, columns].astype(people.dtypes.to_dict()))
            for frame in (parts, whole)
        )
        # Sums over a batch are rounded otherwise in other lengths, and whoever descends along them says it in steps.
        np.testing.assert_allclose(
            ours, theirs, rtol=0, atol=1e-4 if name in ("rbr", "roar") else 0
        )


def test_processes_say_to_the_last_bit_what_one_says(monkeypatch, tmp_path):
    # Few rows are searched together here, so that few rows make many groups.
    monkeypatch.setattr(_engine, "_WIDE", 2**10)
    monkeypatch.setattr(_audit, "_PART", 1)
    rng = np.random.default_rng(0)
    network, points = random_network(rng, 4, (20, 20, 20), 3), random_points(rng, 120, 4)
    targets, changes = network.predict(points), hf.PlausibleChanges(0.005)
    alone, together = (
        hf.certify(network, points, targets, changes, factuals=points, n_jobs=n) for n in (1, 2)
    )
    frame = alone.to_frame()
    hard = frame["decided_by"].isin(["linear bound", "branch and bound"])
    assert hard.sum() > alone.decider.group, "expected more than are searched together"
    pd.testing.assert_frame_equal(frame, together.to_frame(), check_exact=True)
    for row in np.flatnonzero(~alone.robust)[::10]:
        assert alone.witness(row) == together.witness(row)
    for row in np.flatnonzero(hard & alone.robust)[::10]:
        assert alone.proof(row) == together.proof(row)
    some = alone.robust.nonzero()[0][:40]
    one, two = (hf.certified_radius(network, points[some], targets[some], n_jobs=n) for n in (1, 2))
    pd.testing.assert_frame_equal(one.to_frame(), two.to_frame(), check_exact=True)
    tables = [
        hf.write_certificates(alone, tmp_path / f"{n}.jsonl", rows=range(40), n_jobs=n)
        for n in (1, 2)
    ]
    pd.testing.assert_frame_equal(*tables)
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()
    people = pd.DataFrame(points, columns=list("abcd"))
    moved = changes.sample(network, 1, seed=3)[0]
    with hf.Ledger(tmp_path / "promises.ledger") as ledger:
        for start in range(0, 120, 20):
            own = slice(start, start + 20)
            ledger.add_frame(
                network,
                people[own],
                people[own],
                target=targets[own],
                changes=changes,
                radius=False,
            )
        audits = [hf.audit(ledger, moved, batch=20, n_jobs=n) for n in (1, 2)]
    pd.testing.assert_frame_equal(*(found.to_frame() for found in audits), check_exact=True)
    assert audits[0].to_dict() == audits[1].to_dict()
