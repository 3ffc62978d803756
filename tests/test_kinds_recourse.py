"""Recourse under every kind of plausible change: `Closest` against other solvers, every generator against `certify`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import holdfast as hf
from holdfast.changes import Changes
from random_networks import random_network
from recourse_cases import Case, make_case
from test_generators import GENERATORS
from tiny_worlds import random_world

# People who are out of the ranges are what some of these worlds are about.
pytestmark = pytest.mark.filterwarnings("ignore:X. column:holdfast.errors.HoldfastWarning")

CLOSE = 1e-6


def _shape(rng: np.random.Generator, n: int) -> np.ndarray:
    turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
    shape = (turn * 10.0 ** rng.uniform(-1.0, 2.0, n)) @ turn.T
    return np.asarray((shape + shape.T) / 2.0)


def _conic(
    network: hf.Network, changes: hf.Ellipsoid, own: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    """The cheapest point of the unit box whose worst margin is not negative; and the greatest worst margin there is."""
    d, theta = own.size, np.append(network.weights[0], network.biases[0])
    inverse = np.linalg.inv(changes.shape)

    def worst(v: np.ndarray) -> float:
        g = np.append(own + v[:d] - v[d:], 1.0)
        return float(theta @ g - changes.radius * np.sqrt(g @ inverse @ g))

    def slope(v: np.ndarray) -> np.ndarray:
        g = np.append(own + v[:d] - v[d:], 1.0)
        back = (theta - changes.radius * inverse @ g / np.sqrt(g @ inverse @ g))[:d]
        return np.concatenate([back, -back])

    room = np.concatenate([1.0 - own, own])
    options = {"ftol": 1e-14, "maxiter": 500}
    cost, most = np.inf, -np.inf
    rng = np.random.default_rng(0)
    for start in (np.zeros(2 * d), *(rng.random((3, 2 * d)) * room)):
        high = minimize(
            lambda v: -worst(v), start, jac=lambda v: -slope(v), bounds=list(zip(0.0 * room, room, strict=True)),
            method="SLSQP", options=options,
        )  # fmt: skip
        most = max(most, -float(high.fun))
        for begin in (start, high.x):
            found = minimize(
                lambda v: (weights @ v, weights), begin, jac=True, bounds=list(zip(0.0 * room, room, strict=True)),
                constraints={"type": "ineq", "fun": worst, "jac": slope}, method="SLSQP", options=options,
            )  # fmt: skip
            if found.success and worst(found.x) >= -1e-10:
                cost = min(cost, float(weights @ found.x))
    return cost, most


@pytest.mark.parametrize("block", range(4))
def test_closest_in_an_ellipsoid_is_the_conic_optimum(block: int) -> None:
    found, impossible = 0, 0
    for seed in range(25 * block, 25 * block + 25):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(2, 5))
        costs = {f"x{i}": float(rng.choice([1.0, 2.0, 0.5])) for i in range(d)}
        frame = pd.DataFrame(
            np.vstack([np.zeros(d), np.ones(d), rng.random(d)]), columns=list(costs)
        )
        space = hf.FeatureSpace.from_frame(
            frame, ranges=dict.fromkeys(costs, (0.0, 1.0)), costs=costs
        )
        network = random_network(rng, d, (), 1)
        changes = hf.Ellipsoid(_shape(rng, d + 1), float(10.0 ** rng.uniform(-2, 0.5)))
        person, own = frame.tail(1), frame.to_numpy()[-1]
        target = 1
        if network.predict_index(own[None])[0] == 1:
            network = hf.Network([-network.weights[0]], [-network.biases[0]])
        result = hf.explain(
            network, person, target=target, changes=changes, generator=hf.Closest(), space=space
        )
        weights = np.tile(np.array(list(costs.values())), 2)
        cost, most = _conic(network, changes, own, weights / d)
        if result.found[0]:
            found += 1
            assert result.verdict[0] is hf.Verdict.ROBUST
            gap = float(result.optimality_gap[0])
            assert gap <= 1e-4, f"case {seed}"
            assert result.cost_l1[0] == pytest.approx(cost, rel=1e-5, abs=CLOSE), f"case {seed}"
            assert result.lower_bound[0] <= cost + 1e-9, f"case {seed}"
        else:
            impossible += result.reason[0].startswith("proven: ")
            assert most <= 1e-9, f"case {seed}: {result.reason[0]}"
    assert found >= 5
    assert impossible >= 3


def test_closest_under_a_shift_is_mce_with_that_margin() -> None:
    compared = 0
    for seed in range(30):
        world = random_world(seed)
        margin = float(10.0 ** np.random.default_rng(seed).uniform(-2, 0))
        options = {"target": world.network.classes[world.target], "space": world.space}
        ours = hf.explain(
            world.network,
            world.person,
            changes=hf.PlausibleShift(margin),
            generator=hf.Closest(),
            **options,
        )
        theirs = hf.explain(
            world.network, world.person, changes=None, generator=hf.MCE(margin=margin), **options
        )
        assert ours.found[0] == theirs.found[0], f"world {seed}"
        assert ours.found[0] or ours.reason[0].startswith("proven: ")
        compared += bool(ours.found[0])
        if ours.found[0]:
            assert ours.cost_l1[0] == pytest.approx(theirs.cost_l1[0], rel=1e-5, abs=1e-9), (
                f"world {seed}"
            )
    assert compared >= 6


def _kind(kind: str, network: hf.Network, rng: np.random.Generator) -> Changes:
    """A value of this kind for a network: small enough that something holds, now and then too large."""
    if kind == "ellipsoid":
        return hf.Ellipsoid(_shape(rng, network.n_parameters), float(10.0 ** rng.uniform(-2, 0.3)))
    if kind == "shift":
        return hf.PlausibleShift(float(10.0 ** rng.uniform(-2.5, -0.2)))
    moved = hf.PlausibleChanges(0.3).sample(network, 3, seed=int(rng.integers(2**31)))
    return hf.EnsembleShift(moved, float(10.0 ** rng.uniform(-2.5, -0.2)))


@pytest.mark.parametrize("kind", ["shift", "ensemble", "ellipsoid"])
def test_closest_equals_brute_force_on_grids(kind: str) -> None:
    """Whole numbers, steps, categories, rules and directions; "proven: none" is looked up point by point."""
    some, none = 0, 0
    for seed in range(400, 440):
        world, rng = random_world(seed), np.random.default_rng(seed)
        if kind == "ellipsoid":
            network = random_network(rng, world.space.n_variables, (), world.network.n_outputs)
            world = replace(world, network=network)
            if network.predict_index(world.space.encode(world.person))[0] == world.target:
                continue
        changes, points, label = (
            _kind(kind, world.network, rng),
            world.points,
            world.network.classes[world.target],
        )
        if not len(points):
            continue
        expected = world.cheapest(hf.certify(world.network, points, label, changes).robust)
        result = hf.explain(
            world.network,
            world.person,
            target=label,
            changes=changes,
            generator=hf.Closest(),
            space=world.space,
        )
        cost = float(result.cost_l1[0]) if result.found[0] else np.inf
        assert cost == pytest.approx(expected, abs=1e-9), f"world {seed}"
        if np.isfinite(expected):
            some += 1
            assert result.verdict[0] is hf.Verdict.ROBUST
            assert result.optimality_gap[0] <= 1e-6
            assert result.lower_bound[0] <= expected + 1e-9
        else:
            none += 1
            assert result.reason[0].startswith("proven: "), f"world {seed}: {result.reason[0]}"
    assert some >= 4
    assert none >= 3


# --- every generator under every kind it can take --------------------------------------------------------------------

TABLE = [
    (kind, network)
    for kind in ("shift", "ensemble", "ellipsoid")
    for network in ("logistic regression", "two layers", "three classes")
    if kind != "ellipsoid" or network == "logistic regression"
]


@pytest.fixture(scope="module", params=TABLE, ids=" ".join)
def asked(request: Any) -> tuple[Case, Changes]:
    kind, network = request.param
    case = make_case(network, "mixed", n_people=4)
    if kind == "ellipsoid":
        return case, hf.Ellipsoid.of(case.network, case.space.encode(case.candidates), 0.2)
    moved = hf.PlausibleChanges(0.02).sample(case.network, 3, seed=0)
    return case, hf.PlausibleShift(0.05) if kind == "shift" else hf.EnsembleShift(moved, 0.05)


@pytest.mark.parametrize("name", GENERATORS)
def test_every_generator_is_judged(asked: tuple[Case, Changes], name: str) -> None:
    case, changes = asked
    make, always = GENERATORS[name]
    result = hf.explain(
        case.network, case.people, target=case.target, changes=changes, generator=make(case), space=case.space,
        time_limit=5.0,
    )  # fmt: skip
    assert result.found.any(), result.reason
    points = result.points[result.found]
    assert (case.network.predict(points) == case.target).all()
    again = hf.certify(case.network, points, case.target, changes)
    assert again.verdict.tolist() == result.verdict[result.found].tolist()
    assert "UNKNOWN" not in {verdict.name for verdict in again.verdict}
    if always or name.startswith("Robust(MCE"):
        assert again.robust.all(), result.reason
    radii = result.certified_radius(np.flatnonzero(result.found))
    assert ((radii.lower <= changes.size) | again.robust).all()
    assert ((radii.upper >= changes.size) | ~again.robust).all()


@pytest.mark.parametrize(
    "name", ["NNCE", "RNCE", "RNCE certified", "RNCE line", "Closest", "MCE", "GCE"]
)
def test_generators_that_need_a_network_say_so(name: str) -> None:
    case = make_case("logistic regression", "mixed", n_people=4)
    make: Callable[[Case], Any] = GENERATORS[name][0]
    space, network = case.space, case.network
    model = hf.scored(lambda rows: network.logits(space.encode(rows))[:, 0], output="margin")
    options = {
        "target": case.target,
        "changes": hf.PlausibleShift(0.05),
        "generator": make(case),
        "space": space,
    }
    if name in ("Closest", "MCE", "GCE"):
        with pytest.raises(hf.HoldfastError, match="known by its scores alone: use RNCE"):
            hf.explain(model, case.people, **options)
        return
    result, same = (hf.explain(one, case.people, **options) for one in (model, network))
    pd.testing.assert_frame_equal(result.counterfactuals, same.counterfactuals)
    assert result.verdict.tolist() == same.verdict.tolist()
