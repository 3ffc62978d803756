"""`prepare`: a model and Δ read once, asked many times."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import GradientBoostingClassifier

import holdfast as hf
from holdfast.datasets import make_loans
from holdfast.errors import InvalidInputError
from holdfast.verify import _search
from holdfast.verify._trees import MovingTrees
from random_networks import random_network, random_points

CHANGES = hf.PlausibleChanges(0.05)


def _same(ours: hf.Certificates, theirs: hf.Certificates) -> None:
    pd.testing.assert_frame_equal(ours.to_frame(), theirs.to_frame())
    for row in np.flatnonzero(ours.verdict == hf.Verdict.NOT_ROBUST):
        assert ours.witness(row) == theirs.witness(row)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("norm", [np.inf, 2.0])
def test_what_it_says_is_what_certify_says(outputs, norm):
    rng = np.random.default_rng([1, outputs])
    network, X = random_network(rng, 4, (6, 5), outputs), random_points(rng, 20, 4)
    changes = hf.PlausibleChanges(0.05, norm)
    prepared = hf.prepare(network, changes)
    # Twice, with other targets in between: nothing of an earlier question is left.
    for target in (network.predict(X), 0, network.predict(X)):
        _same(prepared.certify(X, target), hf.certify(network, X, target, changes))


def test_what_was_worked_out_from_trees_is_kept(monkeypatch):
    frame = make_loans(300)
    y, frame = frame.pop("accepted"), frame.select_dtypes("number").astype(float)
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(frame, y)
    space, changes = hf.FeatureSpace.from_frame(frame), hf.TreeChanges(leaves=0.01, thresholds=1.0)
    prepared = hf.prepare(model, changes, space=space)
    theirs = [hf.certify(model, part, 1, changes, space=space) for part in (frame, frame[5:9])]
    monkeypatch.setattr(MovingTrees, "__init__", lambda *_: pytest.fail("made anew"))
    ours = [prepared.certify(part, 1) for part in (frame, frame[5:9])]
    for one, other in zip(ours, theirs, strict=True):
        _same(one, other)


def test_one_row_at_a_time_gives_the_verdicts_of_the_table():
    rng = np.random.default_rng(2)
    network, X = random_network(rng, 4, (6, 5), 1), random_points(rng, 40, 4)
    prepared = hf.prepare(network, CHANGES)
    together = prepared.certify(X, 1)
    assert set(together.verdict) == {"ROBUST", "NOT_ROBUST"}
    assert [prepared.certify(x[None], 1).verdict[0] for x in X] == together.verdict.tolist()


def test_raw_units_factuals_and_methods():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"income": rng.uniform(0, 9000, 30), "home": rng.choice(["rent", "own"], 30)}
    )
    space = hf.FeatureSpace.from_frame(frame, categorical=["home"])
    network = random_network(rng, space.encode(frame).shape[1], (4,), 1)
    prepared = hf.prepare(network, CHANGES, space=space)
    ours = prepared.certify(frame, 1, factuals=frame, method="interval")
    _same(
        ours, hf.certify(network, frame, 1, CHANGES, space=space, factuals=frame, method="interval")
    )
    assert ours.sound is not None
    with pytest.raises(
        InvalidInputError, match="expected one row for each of the 30 rows of X, got 3"
    ):
        prepared.certify(frame, 1, factuals=frame[:3])
    with pytest.raises(InvalidInputError, match="time_limit"):
        prepared.certify(frame, 1, time_limit=-1.0)


def test_it_can_be_sent_to_a_worker():
    rng = np.random.default_rng(4)
    network, X = random_network(rng, 3, (4, 4), 1), random_points(rng, 10, 3)
    prepared = hf.prepare(network, CHANGES)
    _same(pickle.loads(pickle.dumps(prepared)).certify(X, 1), prepared.certify(X, 1))
    # And after it was used.
    _same(pickle.loads(pickle.dumps(prepared)).certify(X, 1), prepared.certify(X, 1))


def test_a_device_that_is_not_there_is_named_at_once():
    with pytest.raises(InvalidInputError, match=r"device: expected one of .*cpu.*, got 'nowhere'"):
        hf.prepare("a model that nobody has read yet", CHANGES, device="nowhere")


def test_points_may_be_a_tensor():
    rng = np.random.default_rng(5)
    network, X = random_network(rng, 3, (4, 4), 1), random_points(rng, 10, 3)
    _same(
        hf.prepare(network, CHANGES).certify(torch.from_numpy(X), 1),
        hf.certify(network, X, 1, CHANGES),
    )
    with pytest.raises(InvalidInputError, match=r"a kind that numpy has, got torch\.bfloat16"):
        hf.certify(network, torch.from_numpy(X).bfloat16(), 1, CHANGES)


@pytest.mark.parametrize("hidden", [(7,), (6, 5), (6, 5, 4)], ids=str)
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_table_gets_the_verdicts_of_its_rows(hidden, outputs):
    """Of many rows one network breaks most: each verdict is as without it, and each broken row has a witness."""
    rng = np.random.default_rng([4, len(hidden), outputs])
    network = random_network(rng, 4, hidden, outputs, awkward=False)
    X = rng.normal(0.0, 0.7, (3000, 4))
    # Points of one sign take another pass.
    X[:1500] = np.abs(X[:1500])
    # A class that is neither rare nor everywhere.
    target = int(np.abs(np.bincount(network.predict(X), minlength=outputs) - 1500).argmin())
    together, some = hf.certify(network, X, target, CHANGES), np.arange(0, len(X), 50)
    alone = [hf.certify(network, X[i : i + 1], target, CHANGES) for i in some]
    assert [one.verdict[0] for one in alone] == together.verdict[some].tolist()
    assert "attack" in together.stages or len(hidden) == 2
    broken = np.flatnonzero(together.verdict == hf.Verdict.NOT_ROBUST)
    assert broken.size > 16
    for row in broken[:: len(broken) // 40 + 1]:
        witness = together.witness(row)
        assert CHANGES.contains(network, witness)
        assert witness.predict(X[row : row + 1])[0] != target
    assert (together.margin_lower <= together.margin_upper).all()
    assert (together.margin_upper[broken] < 0.0).all()
    proven = np.flatnonzero(together.decided_by == "interval")
    logits = network.logits(X[proven])
    today = logits[:, 0] if target else -logits[:, 0]
    if outputs > 1:
        today = logits[:, target] - np.delete(logits, target, axis=1).max(axis=1)
    np.testing.assert_allclose(together.margin_upper[proven], today, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("hidden", [(8,), (7, 6), (6, 5, 4)], ids=str)
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_row_gets_the_same_answer_in_any_batch(hidden, outputs):
    """Verdict, stage and bounds belong to the row: in one batch, in small ones, one by one, and shuffled."""
    rng = np.random.default_rng([5, len(hidden), outputs])
    network = random_network(rng, 4, hidden, outputs, awkward=False)
    X = rng.normal(0.0, 0.7, (3000, 4))
    targets = rng.integers(0, max(outputs, 2), 3000)
    whole = hf.certify(network, X, targets, CHANGES)
    assert len(whole.stages) >= 3 + (len(hidden) > 1)

    ready, shuffled = hf.prepare(network, CHANGES), rng.permutation(3000)
    # Shuffled in one batch, in batches of seven, and one by one.
    batches = [shuffled, *np.split(shuffled[:700], 100), *rng.choice(3000, (300, 1))]
    for rows in batches:
        part = ready.certify(X[rows], targets[rows])
        assert part.verdict.tolist() == whole.verdict[rows].tolist()
        assert part.decided_by.tolist() == whole.decided_by[rows].tolist()
        # Bounds differ by the rounding of sums alone.
        for name in ("margin_lower", "margin_upper"):
            ours, theirs = getattr(part, name), getattr(whole, name)[rows]
            np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("batch", [4, 256])
def test_a_search_does_not_look_at_the_rows_beside(monkeypatch, batch):
    """Pieces of a search are cut and joined by rows: the bounds are those of a row alone."""
    monkeypatch.setattr(_search, "_BATCH", batch)
    rng = np.random.default_rng(7)
    network = random_network(rng, 4, (24, 24, 24), 1, awkward=False)
    X = rng.normal(0.0, 0.7, (400, 4))
    ready = hf.prepare(network, hf.PlausibleChanges(0.02))
    whole = ready.certify(X, 1)
    hard = np.flatnonzero(whole.decided_by == "branch and bound")
    assert hard.size > 20
    for rows in [*hard[:, None], *np.array_split(rng.permutation(hard), 4)]:
        part = ready.certify(X[rows], 1)
        assert part.verdict.tolist() == whole.verdict[rows].tolist()
        for name in ("margin_lower", "margin_upper"):
            ours, theirs = getattr(part, name), getattr(whole, name)[rows]
            np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("hidden", [(), (6,), (6, 5)], ids=str)
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_row_is_settled_as_alone_beside_one_that_is_far_larger(hidden, outputs):
    """Margins near 0, that the rounding of the large row would hide."""
    rng = np.random.default_rng([9, len(hidden), outputs])
    network = random_network(rng, 3, hidden, outputs, awkward=False)
    X = rng.normal(0.0, 1.0, (1, 3)) * 10.0 ** rng.uniform(-12.0, 0.0, (60, 1))
    still = [np.zeros_like(bias) for bias in network.biases]
    network = network.with_parameters(network.weights, still)
    changes = hf.PlausibleChanges(1e-5, biases=False)
    ready, beside = hf.prepare(network, changes), np.concatenate([X, np.full((1, 3), 1e14)])
    for target in range(max(outputs, 2)):
        alone = [ready.certify(x[None], target) for x in X]
        together = ready.certify(beside, target)
        for name in ("verdict", "decided_by"):
            assert getattr(together, name)[:60].tolist() == [getattr(one, name)[0] for one in alone]
