"""`Closest` against looking at every point, and what it does with constraints, time and impossible wishes."""

from __future__ import annotations

import pickle
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline

import holdfast as hf
from holdfast._deadline import Deadline
from holdfast.generators import explain
from holdfast.generators._acceptance import judge_of
from holdfast.generators._closest import Closest
from holdfast.generators._cutting import PROVEN
from holdfast.verify._engine import Engine
from odd_worlds import odd_world
from random_networks import random_network
from tiny_worlds import World, random_world

# People who are out of the ranges are what some of these worlds are about.
pytestmark = pytest.mark.filterwarnings("ignore:X. column:holdfast.errors.HoldfastWarning")

CLOSE = 1e-9


def _ask(world: World, generator: Closest | None = None, **options: object) -> tuple[float, object]:
    generator = Closest() if generator is None else generator
    result = explain(
        world.network, world.person, target=world.network.classes[world.target], changes=world.changes,
        generator=generator, space=world.space, **options,
    )  # fmt: skip
    return (float(result.cost_l1[0]) if result.found[0] else np.inf), result


def _robust(world: World) -> np.ndarray:
    points, label = world.points, world.network.classes[world.target]
    if not len(points):
        return np.zeros(0, dtype=bool)
    return hf.certify(world.network, points, label, world.changes).robust


@pytest.mark.parametrize("block", range(8))
def test_equals_brute_force_on_grids(block: int) -> None:
    none, some = 0, 0
    for seed in range(25 * block, 25 * block + 25):
        world = random_world(seed)
        expected = world.cheapest(_robust(world))
        cost, result = _ask(world)
        assert cost == pytest.approx(expected, abs=CLOSE), f"world {seed}"
        if np.isfinite(expected):
            some += 1
            assert result.verdict[0] is hf.Verdict.ROBUST
            assert result.lower_bound[0] <= expected + CLOSE, f"world {seed}"
            assert result.optimality_gap[0] <= 1e-6, f"world {seed}"
            assert world.space.satisfied(result.counterfactuals, world.person).all()
        else:
            none += 1
            assert result.reason[0].startswith("proven: "), f"world {seed}: {result.reason[0]}"
    assert none >= 2
    assert some >= 2


def test_at_most_k_columns_changed_equals_brute_force() -> None:
    dearer = 0
    for seed in range(300, 320):
        world = random_world(seed)
        robust = _robust(world)
        expected = world.cheapest(robust, max_changed=1)
        cost, _ = _ask(world, Closest(max_features_changed=1))
        assert cost == pytest.approx(expected, abs=CLOSE), f"world {seed}"
        dearer += cost > world.cheapest(robust) + CLOSE
    assert dearer >= 1


@pytest.mark.parametrize(
    ("kind", "seeds"),
    [
        ({"units": True}, range(1000, 1020)),
        ({"identity": True}, range(1020, 1040)),
        ({"units": True, "identity": True}, range(1040, 1050)),
        ({"norm": 2.0}, range(1050, 1065)),
        ({"norm": 1.0}, range(1065, 1075)),
    ],
    ids=str,
)
def test_nothing_false_is_said_of_odd_worlds(kind: dict[str, object], seeds: range) -> None:
    proven = 0
    for seed in seeds:
        world = odd_world(seed, **kind)
        if not len(world.points):
            continue
        expected = world.cheapest(_robust(world))
        cost, result = _ask(world)
        close = 1e-12 * (expected if np.isfinite(expected) else 1.0)
        assert cost <= expected * (1.0 + PROVEN) + close, f"world {seed}"
        assert not result.lower_bound[0] > expected + close, f"world {seed}"
        assert np.isinf(expected) or not result.reason[0].startswith("proven"), f"world {seed}"
        proven += result.reason[0].startswith("proven") or result.optimality_gap[0] <= PROVEN
    assert proven >= 0.6 * len(seeds)


def test_layers_without_activation_are_not_taken_for_relus() -> None:
    data = hf.datasets.load("loans")
    points, classes = data.space.encode(data.X), data.y.to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MLPClassifier((5, 5), activation="identity", random_state=0, max_iter=30).fit(
            points, classes
        )
    network, changes = hf.load_network(model), hf.PlausibleChanges(0.01)
    denied = data.X[network.predict_index(points) == 0].head(6)
    options = {"target": 1, "changes": changes, "space": data.space}
    rows = explain(network, denied, generator=hf.RNCE(data.X), **options)
    assert rows.found.sum() >= 3
    denied = denied[rows.found]
    rows = explain(network, denied, generator=hf.RNCE(data.X), **options)
    closest = explain(network, denied, generator=Closest(), time_limit=1.0, **options)
    nearest = explain(network, denied, generator=hf.MCE(), time_limit=1.0, **options)
    assert rows.found.all()
    assert closest.found.all()
    assert (closest.cost_l1 <= rows.cost_l1).all()
    assert (closest.lower_bound <= rows.cost_l1).all()
    assert (nearest.lower_bound <= closest.cost_l1).all()
    assert (nearest.optimality_gap <= PROVEN).all()


def test_units_far_from_one_lose_no_coefficient() -> None:
    # Class 1 from a = 1e9 on, reached by a weight that solvers take for 0.
    network = hf.Network([[[1e-9]], [[1.0]]], [[0.0], [-1.0]])
    space = hf.FeatureSpace.from_frame(pd.DataFrame({"a": [0.0, 5e9]}), scale="none")
    person, changes = pd.DataFrame({"a": [1e6]}), hf.PlausibleChanges(1e-12)
    result = explain(network, person, target=1, changes=changes, generator=Closest(), space=space)
    # (1 - delta) ((1e-9 - delta) a - delta) = 1 + delta, and a's range is 5e9.
    wanted = (((1.0 + 1e-12) / (1.0 - 1e-12) + 1e-12) / (1e-9 - 1e-12) - 1e6) / 5e9
    assert result.cost_l1[0] == pytest.approx(wanted, rel=1e-6)
    assert result.lower_bound[0] <= wanted * (1.0 + 1e-9)
    assert result.optimality_gap[0] <= PROVEN


@pytest.mark.parametrize("norm", [np.inf, 2.0, 1.0, 3.0])
def test_models_that_object_are_in_the_set(norm: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(15):
        hidden = [(), (3,), (4, 3)][rng.integers(3)]
        plain = random_network(rng, 3, hidden, int(rng.choice([1, 3])))
        kinds = [str(rng.choice(["relu", "identity"])) for _ in hidden]
        network = hf.Network(plain.weights, plain.biases, plain.classes, kinds)
        changes = hf.PlausibleChanges(
            float(10.0 ** rng.uniform(-3.0, -1.0)), norm=norm, biases=bool(rng.integers(2))
        )
        judge = judge_of(Engine(network, changes), int(rng.integers(len(network.classes))))
        point = rng.normal(size=3) * (rng.random(3) < 0.8)
        for _, critic in judge.objections(point, Deadline.after(None)):
            assert changes.contains(network, critic)


def _loans(seed: int = 0) -> tuple[hf.Network, hf.FeatureSpace, pd.DataFrame]:
    """Four columns of three kinds, a network of two hidden layers and sixty people."""
    rng = np.random.default_rng(seed)
    people = pd.DataFrame(
        {
            "age": rng.integers(18, 80, 60),
            "income": rng.integers(4, 40, 60) * 250.0,
            "ratio": rng.uniform(0.0, 2.0, 60),
            "job": rng.choice(["none", "part", "full"], 60),
        }
    )
    space = hf.FeatureSpace.from_frame(
        people, immutable=["age"], increasing=["income"], steps={"income": 250}
    )
    return random_network(rng, space.n_variables, (8, 8), 1, awkward=False), space, people


def _rejected(network: hf.Network, space: hf.FeatureSpace, people: pd.DataFrame) -> pd.DataFrame:
    return people[network.predict_index(space.encode(people)) == 0]


def _some_loans() -> tuple[hf.Network, hf.FeatureSpace, pd.DataFrame]:
    for seed in range(100):
        network, space, people = _loans(seed)
        rejected = _rejected(network, space, people)
        if 10 <= len(rejected) <= 50:
            return network, space, people
    raise AssertionError("no seed has both classes")


def test_mixed_columns_obey_every_constraint_and_are_robust() -> None:
    network, space, people = _some_loans()
    rejected = _rejected(network, space, people).head(8)
    changes = hf.PlausibleChanges(0.005)
    result = explain(network, rejected, target=1, changes=changes, generator=Closest(), space=space)
    found = result.found
    assert found.any()
    answers = result.counterfactuals[found]
    assert space.satisfied(answers, rejected[found]).all()
    assert (answers["age"] == rejected["age"][found]).all()
    assert (answers["income"] % 250 == 0).all()
    assert hf.certify(network, answers, 1, changes, space=space).robust.all()
    assert (result.optimality_gap[found] < 1e-5).all()
    assert all(reason.startswith("proven: ") for reason in result.reason[~found])


def test_no_robust_neighbour_is_cheaper() -> None:
    network, space, people = _some_loans()
    rejected = _rejected(network, space, people).head(8)
    changes = hf.PlausibleChanges(0.005)
    result = explain(network, rejected, target=1, changes=changes, generator=Closest(), space=space)
    for row in range(len(rejected)):
        mine = rejected.iloc[[row]]
        others = space.project(space.encode(people), mine)
        robust = hf.certify(network, others, 1, changes).robust
        least = space.cost_l1(others[robust], mine).min(initial=np.inf)
        assert not robust.any() or result.found[row]
        assert not result.found[row] or result.cost_l1[row] <= least + CLOSE
        assert not result.lower_bound[row] > least + CLOSE


def test_plausible_answers_lie_in_the_hull_of_robust_people() -> None:
    network, space, people = _some_loans()
    rejected = _rejected(network, space, people).head(4)
    changes = hf.PlausibleChanges(0.002)
    free = explain(network, rejected, target=1, changes=changes, generator=Closest(), space=space)
    near = explain(
        network,
        rejected,
        target=1,
        changes=changes,
        generator=Closest(people, neighbours=3),
        space=space,
    )
    both = free.found & near.found
    assert both.any()
    assert (near.cost_l1[both] >= free.cost_l1[both] - CLOSE).all()
    for row in np.flatnonzero(both):
        mine = rejected.iloc[[row]]
        others = np.unique(space.project(space.encode(people), mine), axis=0)
        others = others[hf.certify(network, others, 1, changes).robust]
        others = others[np.argsort(space.cost_l1(others, mine), kind="stable")][:3]
        assert (near.points[row] >= others.min(axis=0) - 1e-6).all()
        assert (near.points[row] <= others.max(axis=0) + 1e-6).all()
        assert near.cost_l1[row] <= space.cost_l1(others, mine).min() + CLOSE


def test_time_limit_gives_an_honest_answer_soon() -> None:
    rng = np.random.default_rng(5)
    network = random_network(rng, 12, (40, 40, 40), 1, awkward=False)
    space = hf.FeatureSpace.from_frame(
        pd.DataFrame(rng.uniform(0, 1, (50, 12)), columns=list("abcdefghijkl"))
    )
    points = rng.uniform(0.2, 0.8, (50, 12))
    own = points[:1]
    target = 1 - int(network.predict_index(own)[0])
    person = pd.DataFrame(own, columns=list("abcdefghijkl"))
    began = time.process_time()
    result = explain(
        network, person, target=target, changes=hf.PlausibleChanges(0.01), generator=Closest(), space=space,
        time_limit=1.0,
    )  # fmt: skip
    assert time.process_time() - began < 4.0
    assert result.found[0] or result.reason[0]
    if result.found[0]:
        assert result.verdict[0] is hf.Verdict.ROBUST
        assert 0.0 <= result.lower_bound[0] <= result.cost_l1[0]


def test_a_row_without_an_answer_names_what_is_in_the_way() -> None:
    network = hf.Network([[[1.0, 1.0]]], [[-1.5]])
    frame = pd.DataFrame({"age": [0.0, 1.0], "savings": [0.0, 1.0]})
    space = hf.FeatureSpace.from_frame(frame, immutable=["age"])
    person = pd.DataFrame({"age": [0.2], "savings": [0.1]})
    changes = hf.PlausibleChanges(0.01)
    result = explain(network, person, target=1, changes=changes, generator=Closest(), space=space)
    assert not result.found[0]
    assert result.reason[0].startswith(
        "proven: no point within the constraints is accepted by every model in Δ"
    )
    assert "age (immutable)" in result.reason[0]
    assert "savings may leave the range" in result.reason[0]
    assert np.isposinf(result.lower_bound[0]) or np.isnan(result.optimality_gap[0])


def test_unbounded_variables_of_both_signs() -> None:
    rng = np.random.default_rng(11)
    for hidden in ((), (5,), (4, 4)):
        network = random_network(rng, 3, hidden, 1, awkward=False)
        own = rng.normal(0.0, 1.0, (1, 3))
        target = 1 - int(network.predict_index(own)[0])
        changes = hf.PlausibleChanges(0.005)
        result = explain(network, own, target=target, changes=changes, generator=Closest())
        if result.found[0]:
            assert hf.certify(network, result.points, target, changes).robust[0]
            assert result.optimality_gap[0] < 1e-5


def test_linear_model_meets_the_closed_form() -> None:
    # margin(x) - delta (x1 + x2 + 1) >= 0 for x >= 0; the steeper slope is bought first.
    network = hf.Network([[[2.0, 1.0]]], [[-1.0]])
    frame = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 1.0]})
    space = hf.FeatureSpace.from_frame(frame)
    person = pd.DataFrame({"a": [0.1], "b": [0.1]})
    result = explain(
        network,
        person,
        target=1,
        changes=hf.PlausibleChanges(0.05),
        generator=Closest(),
        space=space,
    )
    wanted = (1.05 - 0.95 * 0.1) / 1.95
    assert result.counterfactuals["a"].iloc[0] == pytest.approx(wanted, abs=1e-6)
    assert result.counterfactuals["b"].iloc[0] == 0.1


def test_rows_side_by_side_are_rows_one_by_one() -> None:
    network, space, people = _some_loans()
    rejected = _rejected(network, space, people).head(4)
    options = {
        "target": 1,
        "changes": hf.PlausibleChanges(0.005),
        "generator": Closest(),
        "space": space,
    }
    alone = explain(network, rejected, **options)
    together = explain(network, rejected, n_jobs=2, **options)
    np.testing.assert_array_equal(alone.points, together.points)
    assert list(alone.reason) == list(together.reason)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"neighbours": 0}, "neighbours: expected a whole number >= 1, got 0"),
        ({"max_features_changed": 0}, "max_features_changed: expected a whole number >= 1, got 0"),
        ({"plausible": [1.0, 2.0]}, "candidates: expected a table"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(hf.HoldfastError, match=message):
        Closest(**options)


def test_needs_changes_and_pickles() -> None:
    network = hf.Network([[[1.0, 1.0]]], [[-1.5]])
    with pytest.raises(hf.HoldfastError, match="changes: expected"):
        explain(network, [[0.0, 0.0]], target=1, changes=None, generator=Closest())
    assert pickle.loads(pickle.dumps(Closest(max_features_changed=2))).max_features_changed == 2


def test_a_missing_value_that_may_not_move_is_not_filled_in() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.uniform(0.0, 4.0, 200), "b": rng.uniform(0.0, 1.0, 200)})
    classes = (table["a"] > 2.5).astype(int)
    table.loc[::7, "a"] = np.nan
    model = make_pipeline(SimpleImputer(), LogisticRegression()).fit(table, classes)
    person = table[table["a"].isna() & (model.predict(table) == 0)].iloc[:1]
    for immutable, possible in (([], True), (["a"], False)):
        space = hf.FeatureSpace.from_pipeline(model, table, fillable=["a"], immutable=immutable)
        result = explain(
            model, person, target=1, changes=hf.PlausibleChanges(0.001), generator=Closest(), space=space
        )  # fmt: skip
        assert result.found[0] == possible
        assert possible or "no point within the constraints" in result.reason[0]
