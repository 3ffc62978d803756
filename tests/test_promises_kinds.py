"""Ledger, audit, expiry and witness files under every kind of change, with networks, regressions and trees."""

from __future__ import annotations

import json
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import holdfast as hf
from holdfast import checker
from holdfast.changes import Chance
from holdfast.cli._app import app
from holdfast.errors import FileFormatError, InvalidInputError
from holdfast.importers import Model
from holdfast.promises import KeptShare, Ledger, Terms, audit, promise_expiry, save_witness
from holdfast.promises._kept_share import least_mean
from holdfast.verify._fingerprint import fingerprint
from ledger_cases import random_people

NAMES = ["income", "children", "debt"]


def table(n, seed, jobs=("no", "part", "full")):
    people = random_people(n, seed, jobs=jobs)
    people["debt"] = people["debt"].astype(np.float64)
    rng = np.random.default_rng(seed + 100)
    score = people["income"] / 800.0 - 3.0 - 2.0 * people["debt"] + 0.5 * (people["job"] == "full")
    return people, (score + rng.logistic(0.0, 0.3, n) > 0).astype(int).to_numpy()


def trees(seed=0, n=300, jobs=("no", "part", "full")):
    """Boosted trees that read the table themselves, categories and all."""
    people, y = table(n, seed, jobs)
    encoder = OneHotEncoder().fit(people[["job"]])
    steps = make_pipeline(
        Encoded(encoder), GradientBoostingClassifier(n_estimators=15, random_state=seed)
    )
    return steps.fit(people, y)


class Encoded:
    """Numbers as they are and one column for each job; a job that it has not seen is an error."""

    def __init__(self, encoder=None):
        self.encoder = encoder

    def get_params(self, deep=True):
        return {"encoder": self.encoder}

    def set_params(self, **given):
        self.encoder = given.get("encoder", self.encoder)
        return self

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.hstack([X[NAMES].to_numpy(float), self.encoder.transform(X[["job"]]).toarray()])


@pytest.fixture(scope="module")
def people():
    return table(120, 1)[0]


@pytest.fixture(scope="module")
def space(people):
    return hf.FeatureSpace.from_frame(table(600, 2)[0])


@pytest.fixture(scope="module")
def regressions(space):
    """Refits of one regression, each on other rows."""
    tables = [table(400, seed) for seed in range(3, 9)]
    return [LogisticRegression(C=10.0).fit(space.encode(X), y) for X, y in tables]


def kinds(regressions, space):
    today = hf.load_network(regressions[0])
    return {
        "shift": hf.PlausibleShift(0.5),
        "ensemble": hf.EnsembleShift(regressions[1:4], 0.5),
        "ellipsoid": hf.Ellipsoid.of(today, space.encode(table(400, 3)[0]), 2.0),
        "parameters": hf.PlausibleChanges(0.05),
    }


KINDS = ["shift", "ensemble", "ellipsoid", "parameters"]


def advised(model, people, space, changes):
    denied = people[
        hf.load_model(model).in_space(space).classifier.predict_index(space.encode(people)) == 0
    ]
    return hf.explain(
        model, denied, target=1, changes=changes, generator=hf.NNCE(people), space=space
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threshold", [0.5, 0.6])
def test_promises_of_every_kind_are_recorded_read_and_audited(
    kind, threshold, regressions, people, space, tmp_path
):
    changes = kinds(regressions, space)[kind]
    advice = advised(regressions[0], people, space, changes)
    decided = hf.load_network(regressions[0]).logits(advice.points[advice.found])[:, 0] > 0.5
    rows = np.flatnonzero(advice.found)[decided]
    with Ledger(tmp_path / "one.ledger") as ledger:
        ledger.add_frame(regressions[0], advice.factuals.iloc[rows], advice.counterfactuals.iloc[rows], target=1,
                         changes=changes, space=space, threshold=threshold)  # fmt: skip
        assert ledger.verify().intact
        (terms,) = ledger.terms
        assert (terms.changes.kind, terms.changes.chance) == (kind, changes.chance)
        assert terms.changes.to_dict() == changes.to_dict()
        batch = next(ledger.promises())
        for model in regressions:
            found = audit(ledger, model, threshold=threshold, radius=True)
            network = hf.load_network(model)
            kept = network.logits(batch.points)[:, 0] >= np.log(threshold / (1.0 - threshold))
            np.testing.assert_array_equal(~found.broken, kept)
            certain = found.status == "KEPT_FOR_CERTAIN"
            (group,) = found.groups
            json.dumps(found.to_dict())
            if kind in ("shift", "ensemble"):
                # Before the model is asked nothing is known, even of today's own.
                assert not certain.any()
                assert group.why_not.endswith("it must be run on the promised row")
                margins = network.logits(batch.points)[:, 0] - np.log(threshold / (1.0 - threshold))
                np.testing.assert_allclose(found.radius_left[kept], margins[kept], atol=1e-9)
            else:
                assert (
                    certain.any()
                    or model is not regressions[0]
                    or (threshold != 0.5 and kind == "ellipsoid")
                )
                inside = threshold == 0.5 and changes.contains(
                    hf.load_network(regressions[0]), network
                )
                robust = batch.verdicts == "ROBUST"
                assert certain[robust].all() or not inside
        axes = found.plot()
        assert "promises are" in axes.get_title(loc="left")
        pyplot.close(axes.figure)


def test_radii_of_an_ellipsoid_are_held_against_its_own_distance(
    regressions, people, space, tmp_path
):
    """A radius in the shape of an ellipsoid says nothing about the largest move of a parameter."""
    today = hf.load_network(regressions[0])
    shape = hf.Ellipsoid(1e-6 * np.eye(today.n_parameters), 1e-4)
    advice = advised(regressions[0], people, space, shape)
    with Ledger(tmp_path / "one.ledger") as ledger:
        ledger.add(advice)
        batch = next(ledger.promises())
        for step in (0.0, 1e-3, 0.05, 1.0, 5.0):
            later = today.with_parameters(today.weights, [today.biases[0] - step])
            found = audit(ledger, later)
            assert found.groups[0].distance == pytest.approx(1e-3 * step)
            certain = found.status == "KEPT_FOR_CERTAIN"
            inside = (batch.verdicts == "ROBUST") & (1e-3 * step <= 1e-4)
            np.testing.assert_array_equal(certain, (batch.radius > 1e-3 * step) | inside)
            assert (later.predict(batch.points)[certain] == 1).all()


def test_trees_promise_and_are_audited_by_the_rows_themselves(people, space, tmp_path):
    models = [trees(seed) for seed in range(4)]
    advice = advised(models[0], people, space, hf.PlausibleShift(0.4))
    with Ledger(tmp_path / "trees.ledger") as ledger:
        receipt = ledger.add(advice, date="2026-11-16")
        assert receipt.added == int(advice.found.sum()) > 10
        again = ledger.add(advice, date="2026-11-16")
        assert (again.added, again.repeated) == (0, receipt.added)
        assert ledger.verify().intact
        (terms,) = ledger.terms
        assert terms.model_hash == fingerprint(hf.load_model(models[0]).classifier)
        batch = next(ledger.promises())
        margins = models[0].decision_function(batch.counterfactuals)
        np.testing.assert_allclose(batch.radius, margins)
        np.testing.assert_array_equal(batch.verdicts == "ROBUST", margins >= 0.4)
        for model in models:
            for threshold in (0.5, 0.7):
                found = audit(ledger, model, threshold=threshold)
                kept = model.predict_proba(batch.counterfactuals)[:, 1] > threshold
                np.testing.assert_array_equal(~found.broken, kept)
                assert not (found.status == "KEPT_FOR_CERTAIN").any()
        # A network may follow trees, and trees a network.
        network = LogisticRegression(C=10.0).fit(space.encode(table(300, 3)[0]), table(300, 3)[1])
        np.testing.assert_array_equal(
            ~audit(ledger, network, space=space).broken,
            network.predict(space.encode(batch.counterfactuals)) == 1,
        )
        with pytest.raises(
            InvalidInputError, match="space: expected None for a model that reads the table itself"
        ):
            audit(ledger, models[1], space=space)
        assert audit(ledger, models[1]).model != audit(ledger, models[0]).model == terms.model_hash
    with Ledger(tmp_path / "other.ledger") as ledger:
        denied = people[network.predict(space.encode(people)) == 0]
        advice = hf.explain(network, denied, target=1, changes=hf.PlausibleChanges(0.01), generator=hf.NNCE(people),
                            space=space)  # fmt: skip
        ledger.add(advice)
        found = audit(ledger, models[0], radius=True)
        assert "known by its scores alone" in found.groups[0].why_not
        assert np.isnan(found.radius_left).all()


def test_a_row_that_trees_cannot_read_is_unreadable_and_a_service_that_fails_is_an_error(
    people, space, tmp_path
):
    advice = advised(trees(), people, space, hf.PlausibleShift(0.1))
    with Ledger(tmp_path / "one.ledger") as ledger:
        ledger.add(advice)
        found = audit(ledger, trees(3, jobs=("no", "part")))
        full = (next(ledger.promises()).counterfactuals["job"] == "full").to_numpy()
        np.testing.assert_array_equal(found.status == "UNREADABLE", full)
        assert 0 < full.sum() < len(full)

        def down(rows):
            raise ConnectionError("no route to host")

        with pytest.raises(InvalidInputError, match="no route to host"):
            audit(ledger, hf.scored(down))
        service = hf.scored(lambda rows: np.full(len(rows), 0.9), batch=7)
        assert audit(ledger, service).kept
        assert service.tally.rows == len(found)
        assert audit(ledger, service).model == "unknown"


def test_statements_say_what_is_proven_and_what_was_measured(people, space, tmp_path):
    advice = advised(trees(), people, space, hf.PlausibleShift(0.4))
    # As `explain` states it, where the chance was measured for this question.
    changes = advice.changes.calibrated(Chance(0.1, 20))
    advice = replace(advice, changes=changes, measured=advice.found)
    with Ledger(tmp_path / "one.ledger") as ledger:
        ledger.add(advice)
        frame = ledger.find(advice.factuals.index[advice.found][0])
        every = next(ledger.promises()).to_frame()
    proven = "by its margin: every model whose margin at the promised point is at most 0.4 below today's accepts"
    measured = "measured, not proven: at most 1 in 10 of such promises is expected to be broken by the next model"
    assert set(every["verdict"]) == {"ROBUST", "NOT_ROBUST"}
    for verdict, statement in zip(every["verdict"], every["statement"], strict=True):
        if verdict == "ROBUST":
            assert statement.startswith(f"{proven}; {measured}")
        else:
            assert statement.startswith("the model of that day accepts; it is not ")
            assert "proven" not in statement
    assert frame["delta"].tolist() == ["a margin at most 0.4 below today's"]
    assert frame["norm"].tolist() == [""]


def test_terms_of_every_kind_survive_the_file_and_nothing_else_does(regressions, space):
    today = hf.load_network(regressions[0])
    for classifier in (today, hf.load_model(trees()).classifier):
        for changes in kinds(regressions, space).values():
            terms = Terms(classifier, space, changes)
            objects = terms.objects()
            again = Terms.read(terms.hash, objects.__getitem__)
            assert (again.hash, again.model_hash) == (terms.hash, terms.model_hash)
            assert again.changes.to_dict() == changes.to_dict()
            for name, content in objects.items():
                changed = json.loads(content)
                changed["version"] = 7
                with pytest.raises(FileFormatError):
                    Terms.read(
                        terms.hash,
                        (objects | {name: checker.canonical(changed).encode()}).__getitem__,
                    )
    with pytest.raises(InvalidInputError, match="the ledger has only its name"):
        again.classifier.about(pd.DataFrame({"a": [1.0]}))[0].logits([[0.0]])


# --- how long ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["trees", *KINDS])
def test_kept_shares_are_what_counting_says(kind, regressions, people, space, tmp_path):
    models = [trees(seed) for seed in range(6)] if kind == "trees" else regressions
    changes = hf.PlausibleShift(0.3) if kind == "trees" else kinds(regressions, space)[kind]
    advice = advised(models[-1], people, space, changes)
    found = promise_expiry(advice, iter(models), horizon=7, confidence=0.9)
    assert isinstance(found, KeptShare)
    rows = advice.counterfactuals[advice.found]

    def accepted(model):
        own = hf.load_model(model).in_space(space)
        return own.classifier.predict_index(space.encode(rows)) == 1

    for k in range(1, 6):
        shares = []
        for i in range(5 - k, -1, -k):
            made = hf.certify(models[i], rows, 1, changes, space=space).robust
            if made.any():
                through = np.all([accepted(models[i + j]) for j in range(1, k + 1)], axis=0)
                shares.append(through[made].mean())
        assert found.windows[k - 1] == len(shares)
        if shares:
            assert found.share[k - 1] == pytest.approx(np.mean(shares))
            assert found.at_least[k - 1] == pytest.approx(
                least_mean(np.mean(shares), len(shares), 0.9)
            )
    assert found.windows[5:].tolist() == [0, 0]
    assert np.isnan(found.share[5:]).all()
    assert "measured, not proven" in found.describe(1)
    assert "no 7 retrainings" in found.describe(7)
    with Ledger(tmp_path / "one.ledger") as ledger:
        ledger.add(advice)
        again = promise_expiry(ledger, models, horizon=7, confidence=0.9)
    if kind != "ensemble":
        np.testing.assert_allclose(again.share, found.share)
    assert again.promises == found.promises == int(advice.found.sum())


def test_the_bound_on_a_mean_holds_as_often_as_it_says():
    rng = np.random.default_rng(0)
    for n, mean in ((5, 0.9), (20, 0.97), (20, 0.5)):
        # Shares that are 0 or 1 are the hardest case.
        held = sum(
            least_mean(float((rng.random(n) < mean).mean()), n, 0.9) <= mean for _ in range(1000)
        )
        assert held / 1000 >= 0.9
    assert least_mean(0.0, 10, 0.9) == 0.0
    assert least_mean(1.0, 10, 0.9) == pytest.approx(0.1**0.1)


def test_an_empty_history_and_no_promises_are_refused(regressions, people, space):
    advice = advised(regressions[0], people, space, hf.PlausibleShift(0.3))
    with pytest.raises(InvalidInputError, match="at least two models"):
        promise_expiry(advice, regressions[:1])
    with pytest.raises(InvalidInputError, match="k: expected a number of retrainings from 1 to 2"):
        promise_expiry(advice, regressions, horizon=2).describe(3)


# --- the command line -------------------------------------------------------------------------------------------------


def test_commands_take_trees_and_margins(people, tmp_path):
    from sklearn.tree import DecisionTreeClassifier

    numbers = people[NAMES].rename_axis("person")
    models = []
    for seed in range(3):
        X, y = table(300, seed)
        models.append(tmp_path / f"tree-{seed}.joblib")
        joblib.dump(
            DecisionTreeClassifier(max_depth=3, random_state=0).fit(X[NAMES], y), models[-1]
        )
    today = joblib.load(models[0])
    # One row that every tree accepts with a margin, for all who are denied.
    best = numbers[
        np.all([joblib.load(path).predict(numbers) == 1 for path in models], axis=0)
    ].iloc[0]
    denied = numbers[today.predict(numbers) == 0]
    numbers.to_csv(tmp_path / "people.csv")
    pd.DataFrame([best] * len(denied), index=denied.index).to_csv(tmp_path / "advice.csv")
    space = hf.FeatureSpace.from_frame(numbers)
    (tmp_path / "space.json").write_text(json.dumps(space.to_dict()), encoding="utf-8")
    ledger, runner = str(tmp_path / "promises.ledger"), CliRunner()
    add = ["ledger", "add", str(tmp_path / "advice.csv"), "--ledger", ledger, "--model", str(models[0]), "--data",
           str(tmp_path / "people.csv"), "--schema", str(tmp_path / "space.json"), "--index", "person", "--target", "1",
           "--trust-pickle"]  # fmt: skip
    both = runner.invoke(app, [*add, "--margin", "0.2", "--delta", "0.1"])
    assert both.exit_code == 2
    done = runner.invoke(app, [*add, "--margin", "0.2"])
    assert done.exit_code == 0, done.output
    done = runner.invoke(app, ["ledger", "show", "--ledger", ledger, "--key", str(denied.index[0])])
    assert (
        "by its margin: every model whose margin at the promised point is at most 0.2 below today's"
        in done.output
    )
    assert runner.invoke(app, ["ledger", "show", "--ledger", ledger]).exit_code == 0
    report = tmp_path / "audit.json"
    done = runner.invoke(app, ["audit", str(models[2]), "--ledger", ledger, "--history", str(models[0]),
                               "--history", str(models[1]), "--trust-pickle", "--json", str(report)])  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "100% of such promises were kept through the next retraining" in done.output
    assert "Margin left: least" in done.output
    written = json.loads(report.read_text(encoding="utf-8"))
    assert written["kept_share"]["retrainings"][0]["share"] == 1.0
    assert written["groups"][0]["changes"] == {"kind": "shift", "margin": 0.2}


# --- witness files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_witnesses_of_every_kind_break_the_promise_in_their_own_stack(
    kind, regressions, people, space, tmp_path
):
    pytest.importorskip("skops")
    changes = kinds(regressions, space)[kind]
    X = space.encode(people)
    certs = hf.certify(regressions[0], X, regressions[0].predict(X), changes)
    rows = np.flatnonzero(certs.verdict == "NOT_ROBUST")[:3]
    assert rows.size
    for row in rows:
        target = regressions[0].predict(X[[row]])[0]
        saved = save_witness(certs.witness(row), regressions[0], tmp_path / "w.skops", point=X[row], target=target,
                             changes=changes)  # fmt: skip
        assert saved.predicted != target
        further = (
            changes.resized(0.5 * changes.size) if kind != "ensemble" else hf.PlausibleShift(1e-9)
        )
        if hf.certify(regressions[0], X[[row]], target, further).robust[0]:
            with pytest.raises(hf.HoldfastError, match="the witness is outside Δ"):
                save_witness(certs.witness(row), regressions[0], tmp_path / "w.skops", point=X[row], target=target,
                             changes=further)  # fmt: skip


def test_a_witness_without_parameters_is_refused(people, space, tmp_path):
    model = trees()
    loaded = hf.load_model(model).in_space(space)
    certs = hf.certify(model, people.head(20), 1, hf.PlausibleShift(3.0), space=space)
    row = int(np.flatnonzero(certs.verdict == "NOT_ROBUST")[0])
    with pytest.raises(InvalidInputError, match="known by its scores alone has no parameters"):
        save_witness(certs.witness(row), model, tmp_path / "w.skops", point=certs.points[row], target=1,
                     changes=hf.PlausibleShift(3.0))  # fmt: skip
    assert isinstance(loaded, Model)


def test_a_model_with_the_same_text_is_said_to_differ(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0, 1, (200, 2)), columns=["a", "b"])
    space = hf.FeatureSpace.from_frame(X, scale="none")
    today, other = (DecisionTreeClassifier(max_depth=1).fit(X, X[name] > 0.5) for name in "ab")
    layers = [[[1.0, 1.0]], [[1.0]]], [[-0.5], [-0.2]]
    pairs = [
        (today, other, hf.TreeChanges(leaves=0.01), "the trees split in other columns or places"),
        (
            hf.Network(*layers), hf.Network(*layers, activations=["identity"]), hf.PlausibleChanges(0.01),
            "with other activations",
        ),
    ]  # fmt: skip
    for number, (old, new, changes, words) in enumerate(pairs):
        target = hf.load_model(old).classifier.classes.tolist()[1]
        rejected = X[hf.load_model(old).classifier.predict(X.to_numpy()) != target].head(3)
        advice = hf.explain(
            old, rejected, target=target, changes=changes, generator=hf.NNCE(X), space=space
        )
        with Ledger(tmp_path / f"{number}.ledger") as ledger:
            ledger.add(advice, radius=False)
            known = space if isinstance(new, hf.Network) else None
            why = audit(ledger, new, space=known).groups[0].why_not
        assert why.endswith(words)
        assert "the promises have" not in why
