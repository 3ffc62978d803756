"""Δ with a radius for each parameter, through everything that proves, stores and says something about it."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import holdfast as hf
from holdfast.changes._parameters import down_up
from holdfast.cli import app
from holdfast.milp._acceptor import Acceptor
from holdfast.milp._domain import Domain
from holdfast.promises import Ledger, audit
from ledger_cases import make_lender, record
from random_networks import random_network, random_points, shift_last_bias
from tiny_worlds import random_world

# People who are out of the ranges are what some of these worlds are about.
pytestmark = pytest.mark.filterwarnings("ignore:X. column:holdfast.errors.HoldfastWarning")


def random_sides(network, rng, size):
    """A radius for each parameter, down and up, a fifth of them 0; now and then the biases stay."""
    parts = [
        size * rng.random((2, *part.shape)) * (rng.random((2, *part.shape)) < 0.8)
        for part in (*network.weights, *network.biases)
    ]
    layers = len(network.weights)
    return hf.PlausibleChanges(
        parts[:layers], biases=parts[layers:] if rng.random() < 0.8 else False
    )


def ends(parameters, radius):
    """The least and the largest value of each parameter, in fractions."""
    down, up = (np.broadcast_to(side, parameters.shape) for side in down_up(radius))
    exact = np.vectorize(Fraction, otypes=[object])
    return exact(parameters) - exact(down), exact(parameters) + exact(up)


def exact_range(network, changes, x):
    """The least and the largest logit of a network with at most one hidden layer, in fractions.

    Each neuron owns its parameters, so that nothing is lost neuron by neuron: products of two ranges lie between the
    products of their ends.
    """
    low = high = np.array([Fraction(value) for value in x.tolist()], dtype=object)
    for i, (weight, bias, radius) in enumerate(
        zip(network.weights, network.biases, changes.layer_radii(network), strict=True)
    ):
        if i:
            low, high = np.maximum(low, 0), np.maximum(high, 0)
        (w_low, w_high), (b_low, b_high) = ends(weight, radius.weight), ends(bias, radius.bias)
        corners = np.array([w_low * low, w_low * high, w_high * low, w_high * high])
        low, high = (
            corners.min(axis=0).sum(axis=1) + b_low,
            corners.max(axis=0).sum(axis=1) + b_high,
        )
    return low, high


def assert_true(network, points, target, changes, certificates):
    """No verdict is false: counter-models are in Δ and break, and no sample breaks what is proven."""
    samples = changes.sample(network, 100, seed=0)
    for row, verdict in enumerate(certificates.verdict):
        if verdict is hf.Verdict.ROBUST:
            assert all(other.predict_index(points[row : row + 1])[0] == target for other in samples)
        elif verdict is hf.Verdict.NOT_ROBUST:
            witness = certificates.witness(row)
            assert changes.contains(network, witness)
            assert witness.predict_index(points[row : row + 1])[0] != target


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("hidden", [(), (4,)])
def test_verdicts_and_bounds_are_those_of_the_exact_range(seed, hidden):
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, hidden, 1)
    points, changes = (
        random_points(rng, 12, 3),
        random_sides(network, rng, 10.0 ** rng.uniform(-3, -0.5)),
    )
    exact = [exact_range(network, changes, x) for x in points]
    for target in (0, 1):
        certificates = hf.certify(network, points, target, changes)
        for (low, high), verdict in zip(exact, certificates.verdict, strict=True):
            robust = low[0] >= 0 if target == 1 else high[0] < 0
            assert verdict is (hf.Verdict.ROBUST if robust else hf.Verdict.NOT_ROBUST)
        assert_true(network, points, target, changes, certificates)
    for method in ("interval", "exact"):
        bounds = hf.output_bounds(network, points, changes, method=method)
        for row, (low, high) in enumerate(exact):
            assert bounds.lower[row, 0] <= low[0] <= bounds.lower[row, 0] + Fraction(1e-6)
            assert bounds.upper[row, 0] - Fraction(1e-6) <= high[0] <= bounds.upper[row, 0]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("hidden", "outputs"), [((4, 3), 1), ((5,), 3), ((3, 3), 3), ((), 3)])
def test_no_verdict_is_false_in_deeper_networks_and_with_more_classes(seed, hidden, outputs):
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, hidden, outputs)
    points, changes = (
        random_points(rng, 10, 3),
        random_sides(network, rng, 10.0 ** rng.uniform(-3, -0.5)),
    )
    target = int(network.predict_index(points)[0])
    certificates = hf.certify(network, points, target, changes)
    assert_true(network, points, target, changes, certificates)
    # A box inside proves at least as much, a box around at most as much.
    inner, outer = (
        changes.scaled(0.5),
        hf.PlausibleChanges(changes.size, biases=bool(changes.biases)),
    )
    assert not (
        certificates.robust & (hf.certify(network, points, target, inner).verdict == "NOT_ROBUST")
    ).any()
    assert not (
        hf.certify(network, points, target, outer).robust & (certificates.verdict == "NOT_ROBUST")
    ).any()
    for method in ("interval", "exact"):
        bounds = hf.output_bounds(network, points, changes, method=method)
        for other in changes.sample(network, 100, seed=1):
            logits = other.logits(points)
            assert ((bounds.lower <= logits + 1e-12) & (logits - 1e-12 <= bounds.upper)).all()


@pytest.mark.parametrize("hidden", [(), (5,), (5, 4)])
@pytest.mark.parametrize("radii", [0.03, (0.02, 0.0, 0.05)])
@pytest.mark.parametrize("biases", [True, False])
def test_equal_radii_are_one_radius(hidden, radii, biases):
    rng = np.random.default_rng(3)
    network = random_network(rng, 4, hidden, 1)
    points = random_points(rng, 40, 4)
    plain = hf.PlausibleChanges(
        radii if isinstance(radii, float) else radii[: len(hidden) + 1], biases=biases
    )
    layers = plain.layer_radii(network)
    arrays = hf.PlausibleChanges(
        [
            np.full(weight.shape, radius.weight)
            for weight, radius in zip(network.weights, layers, strict=True)
        ],
        biases=[
            np.full(bias.shape, radius.bias)
            for bias, radius in zip(network.biases, layers, strict=True)
        ],
    )
    for target in (0, 1):
        verdicts = [
            hf.certify(network, points, target, changes).verdict.tolist()
            for changes in (plain, arrays)
        ]
        assert verdicts[0] == verdicts[1]
    ours, theirs = (hf.output_bounds(network, points, changes) for changes in (plain, arrays))
    np.testing.assert_allclose(ours.lower, theirs.lower, atol=1e-6)
    np.testing.assert_allclose(ours.upper, theirs.upper, atol=1e-6)


@pytest.mark.parametrize("hidden", [(), (4,)])
def test_the_interval_bound_as_a_network_is_the_exact_range(hidden):
    rng = np.random.default_rng(5)
    points = np.column_stack(
        [rng.uniform(*ends, 20) for ends in ((-2.0, -1.0), (-1.0, 1.0), (0.0, 2.0))]
    )
    space = hf.FeatureSpace.from_frame(pd.DataFrame(points, columns=list("abc")), scale="none")
    domain = Domain.of(space, space.rows(points[:1]))
    for _ in range(5):
        network = random_network(rng, 3, hidden, 1)
        changes = random_sides(network, rng, 0.2)
        accepted, refused = (
            Acceptor.interval(network, changes, k, domain).layers(points)[1] for k in (1, 0)
        )
        for x, lower, upper in zip(points, accepted[:, 0], -refused[:, 0], strict=True):
            low, high = exact_range(network, changes, x)
            assert [lower, upper] == pytest.approx(
                [float(low[0]), float(high[0])], rel=1e-12, abs=1e-12
            )


def test_the_closest_robust_point_equals_brute_force():
    found = 0
    for seed in range(40):
        world = random_world(seed)
        changes = random_sides(world.network, np.random.default_rng(seed), 2.0 * world.changes.size)
        robust = hf.certify(world.network, world.points, world.target, changes).robust
        answer = hf.explain(
            world.network,
            world.person,
            target=world.target,
            changes=changes,
            generator=hf.Closest(),
            space=world.space,
        )
        assert answer.found[0] == robust.any()
        found += int(answer.found[0])
        if answer.found[0]:
            assert answer.cost_l1[0] == pytest.approx(world.cheapest(robust), rel=1e-6)
    assert 10 < found < 40


def test_one_weight_that_moves_one_way():
    """w = (1, 1), x = (-1, 1.25): the logit is 0.25 and falls by d only if the first weight goes up."""
    network, x = hf.Network([[[1.0, 1.0]]], [[0.0]]), [[-1.0, 1.25]]
    for down, up, robust in ((1.0, 0.25, True), (0.0, 0.3, False), (5.0, 0.0, True)):
        changes = hf.PlausibleChanges([[[[down, 0.0]], [[up, 0.0]]]], biases=False)
        assert hf.certify(network, x, 1, changes).robust.tolist() == [robust]
    changes = hf.PlausibleChanges([[[0.0, 0.0]]], biases=[[[0.26], [0.0]]])
    assert hf.certify(network, x, 1, changes).verdict.tolist() == ["NOT_ROBUST"]


@pytest.mark.parametrize("hidden", [(), (4,), (12, 10)])
def test_certificates_are_accepted_and_a_larger_radius_is_not(hidden):
    rng = np.random.default_rng(12)
    network = random_network(rng, 3, hidden, 1, awkward=False)
    points, changes = random_points(rng, 100, 3), random_sides(network, rng, 0.1)
    network = shift_last_bias(network, 0, -float(np.median(network.logits(points))))
    certificates = hf.certify(network, points, 1, changes)
    assert set(certificates.verdict) == {"ROBUST", "NOT_ROBUST"}
    assert len(hidden) < 2 or {"interval", "linear bound", "branch and bound"} <= set(
        certificates.stages
    )
    for row in range(len(points)):
        document = hf.certificate(certificates, row)
        assert hf.PlausibleChanges.from_dict(document["changes"]) == changes
        assert hf.check_certificate(json.loads(json.dumps(document)), network).accepted
        if document["verdict"] == "ROBUST":
            document["changes"] = changes.scaled(40.0).to_dict()
            assert not hf.check_certificate(document, network).accepted


@pytest.fixture
def lender():
    plain = make_lender()
    rng = np.random.default_rng(0)
    sides = [
        0.02 * rng.random((2, *part.shape))
        for part in (*plain.network.weights, *plain.network.biases)
    ]
    layers = len(plain.network.weights)
    changes = hf.PlausibleChanges(sides[:layers], biases=sides[layers:])
    return type(plain)(plain.network, plain.space, plain.people, plain.promised, changes)


def test_promises_are_stored_audited_and_shown(tmp_path, lender):
    path, runner = tmp_path / "promises.ledger", CliRunner()
    with Ledger(path) as ledger:
        record(ledger, lender)
        (terms,) = ledger.terms
        assert terms.changes == lender.changes
        told = next(ledger.promises()).to_frame()
        assert (told["delta"] == lender.changes.words).all()
        robust = (told["verdict"] == "ROBUST").to_numpy()
        assert robust.any()
        inside = lender.changes.sample(lender.network, 1, seed=0)[0]
        found = audit(ledger, inside)
        assert found.groups[0].inside
        assert (found.status[robust] == "KEPT_FOR_CERTAIN").all()
        # One weight goes further than it may, though not as far as others may.
        weights = [weight.copy() for weight in lender.network.weights]
        place = np.unravel_index(lender.changes.delta[0][1].argmin(), weights[0].shape)
        weights[0][place] += 1.01 * lender.changes.delta[0][1][place]
        outside = lender.network.with_parameters(weights, lender.network.biases)
        assert not audit(ledger, outside).groups[0].inside
        document = json.loads(json.dumps(audit(ledger, outside).to_dict()))["groups"][0]
        assert document["delta"] == lender.changes.to_dict()["delta"]
        assert document["biases"] == lender.changes.to_dict()["biases"]
        assert ledger.verify().intact
    outside.save(tmp_path / "outside.npz")
    for command in (
        ["audit", tmp_path / "outside.npz", "--ledger", path],
        ["ledger", "show", "--ledger", path],
        ["ledger", "show", "--ledger", path, "--key", lender.people.index[0]],
    ):
        told = runner.invoke(app, [str(part) for part in command], env={"COLUMNS": "200"})
        assert "radius for each parameter, at most 0.0" in told.output


def test_advice_and_what_is_said_of_it(lender, tmp_path):
    advice = hf.explain(
        lender.network, lender.people, target=1, changes=lender.changes, generator=hf.RNCE(lender.promised),
        space=lender.space,
    )  # fmt: skip
    assert advice.robust.any()
    rows = np.flatnonzero(advice.robust)
    certificates = hf.certify(lender.network, advice.points[rows], 1, lender.changes)
    assert certificates.robust.all()
    advice.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "a radius for each parameter, at most 0.0" in page
    letter = advice.letter(int(rows[0]))
    assert "depending on the number" in " ".join(letter.text.split())


def test_calibrated_radii_prove_more_than_one_radius_does():
    """Half of the parameters hardly move: a radius for each lets more points be robust at the same probability."""
    rng = np.random.default_rng(0)
    today = random_network(rng, 6, (6,), 1, awkward=False)
    scales = [
        10.0 ** rng.uniform(-4.0, -1.5, part.shape) for part in (*today.weights, *today.biases)
    ]
    networks = []
    for _ in range(40):
        moved = [part + scale * rng.normal(size=part.shape)
                 for part, scale in zip((*today.weights, *today.biases), scales, strict=True)]  # fmt: skip
        networks.append(today.with_parameters(moved[:2], moved[2:]))
    points = rng.normal(size=(200, 6))
    target = today.predict(points)
    shares = {
        shape: hf.certify(
            today,
            points,
            target,
            hf.delta_calibrated(networks, coverage=0.9, shape=shape, origin=today).changes,
        ).robust.mean()
        for shape in ("uniform", "parameter")
    }
    assert shares["parameter"] > shares["uniform"]
