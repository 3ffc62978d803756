"""`MCE` against looking at every point; its margin, and `Robust(MCE())`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import holdfast as hf
from holdfast.generators import GCE, Robust, explain
from holdfast.generators._base import Proposals, Task
from holdfast.generators._closest import Closest
from holdfast.generators._mce import MCE
from odd_worlds import odd_world
from recourse_cases import make_case
from tiny_worlds import random_world

# People who are out of the ranges are what some of these worlds are about.
pytestmark = pytest.mark.filterwarnings("ignore:X. column:holdfast.errors.HoldfastWarning")

CLOSE = 1e-9


@pytest.mark.parametrize("block", range(4))
def test_equals_brute_force_on_grids(block: int) -> None:
    none, some = 0, 0
    for seed in range(500 + 15 * block, 515 + 15 * block):
        world = random_world(seed)
        points = world.points
        accepted = (
            world.network.predict_index(points) == world.target
            if len(points)
            else np.zeros(0, dtype=bool)
        )
        expected = world.cheapest(accepted)
        label = world.network.classes[world.target]
        result = explain(
            world.network,
            world.person,
            target=label,
            changes=None,
            generator=MCE(),
            space=world.space,
        )
        cost = float(result.cost_l1[0]) if result.found[0] else np.inf
        assert cost == pytest.approx(expected, abs=CLOSE), f"world {seed}"
        if result.found[0]:
            some += 1
            assert result.optimality_gap[0] <= 1e-6, f"world {seed}"
            assert world.space.satisfied(result.counterfactuals, world.person).all()
            assert world.network.predict_index(result.points)[0] == world.target
        else:
            none += 1
            assert result.reason[0].startswith("proven: "), f"world {seed}: {result.reason[0]}"
    assert none >= 1
    assert some >= 2


@pytest.mark.parametrize(
    "kind", [{"units": True}, {"identity": True}, {"units": True, "identity": True}], ids=str
)
def test_equals_brute_force_in_odd_worlds(kind: dict[str, bool]) -> None:
    some = 0
    for seed in range(800, 820):
        world = odd_world(seed, **kind)
        points, label = world.points, world.network.classes[world.target]
        if not len(points):
            continue
        expected = world.cheapest(world.network.predict_index(points) == world.target)
        result = explain(
            world.network,
            world.person,
            target=label,
            changes=None,
            generator=MCE(),
            space=world.space,
        )
        if np.isinf(expected):
            assert result.reason[0].startswith("proven: "), f"world {seed}: {result.reason[0]}"
        else:
            some += 1
            assert result.cost_l1[0] == pytest.approx(expected, rel=1e-9), f"world {seed}"
            assert result.lower_bound[0] <= expected * (1.0 + 1e-12), f"world {seed}"
            assert result.optimality_gap[0] <= 1e-6, f"world {seed}"
    assert some >= 3


def test_a_rule_about_a_flag_with_two_variables() -> None:
    people = pd.DataFrame({"flag": [0, 1], "a": [0.0, 3.0]})
    space = hf.FeatureSpace.from_frame(
        people, categorical=["flag"], steps={"a": 0.5}, rules=["a <= 1 + 2 * flag"]
    )
    weight = np.array([float(name == "a") for name in space.variables])
    network = hf.Network([weight[None, :]], [[-0.7]])
    result = explain(network, people.head(1), target=1, changes=None, generator=MCE(), space=space)
    assert result.counterfactuals.iloc[0].to_dict() == {"flag": 1, "a": 2.5}
    assert result.optimality_gap[0] <= 1e-6


def test_margin_is_kept_and_costs_more() -> None:
    for seed in range(600, 615):
        world = random_world(seed)
        label = world.network.classes[world.target]
        costs = []
        for margin in (0.0, 0.2, 0.6):
            generator = MCE(margin=margin)
            result = explain(
                world.network,
                world.person,
                target=label,
                changes=None,
                generator=generator,
                space=world.space,
            )
            costs.append(float(result.cost_l1[0]) if result.found[0] else np.inf)
            if result.found[0]:
                logits = world.network.logits(result.points)[0]
                rivals = (
                    np.delete(logits, world.target)
                    if len(logits) > 1
                    else -logits * (1 if label else -1)
                )
                own = logits[world.target] if len(logits) > 1 else logits[0] * (1 if label else -1)
                least = (own - rivals).min() if len(logits) > 1 else own
                assert least >= margin
        assert costs == sorted(costs)


def test_harder_asks_for_more_each_time() -> None:
    margins = [MCE(margin=0.5).harder(step).margin for step in range(30)]
    assert margins[0] == 0.5
    assert (np.diff(margins) > 0.0).all()


def test_robust_mce_is_never_cheaper_than_closest() -> None:
    compared = 0
    for seed in range(700, 715):
        world = random_world(seed)
        label = world.network.classes[world.target]
        options = {"target": label, "changes": world.changes, "space": world.space}
        ours = explain(world.network, world.person, generator=Closest(), **options)
        theirs = explain(
            world.network, world.person, generator=Robust(MCE(), max_rounds=15), **options
        )
        if theirs.found[0] and theirs.verdict[0] is hf.Verdict.ROBUST:
            compared += 1
            assert ours.found[0]
            assert ours.cost_l1[0] <= theirs.cost_l1[0] + CLOSE, f"world {seed}"
    assert compared >= 3


class Watched(MCE):
    """Asks each question twice: beginning at the last answer, and from nothing."""

    rounds: ClassVar[list[tuple[Task, Proposals, Proposals]]] = []

    def propose(self, task: Task) -> Proposals:
        both = super().propose(task), super().propose(replace(task, last=None))
        self.rounds.append((task, *both))
        return both[0]


@pytest.mark.parametrize(
    ("network", "space"),
    [("one layer", "continuous"), ("two layers", "mixed"), ("three classes", "continuous")],
)
def test_rounds_begin_at_the_last_answer_and_end_where_they_would_without(
    network: str, space: str
) -> None:
    case, began = make_case(network, space, n_people=4), 0
    Watched.rounds.clear()
    generator = Robust(Watched(raise_by=0.03), max_rounds=5)
    explain(
        case.network, case.people, target=case.target, changes=case.changes, generator=generator,
        space=case.space,
    )  # fmt: skip
    for task, ours, plain in Watched.rounds:
        assert ours.found.tolist() == plain.found.tolist()
        began += 0 if task.last is None else int(np.isfinite(task.last).all(axis=1).sum())
        assert task.space.cost_l1(
            ours.points[ours.found], task.factuals[ours.found]
        ) == pytest.approx(
            task.space.cost_l1(plain.points[ours.found], task.factuals[ours.found]), abs=CLOSE
        )
    assert began >= 4


def test_one_hot_labels_stay_labels() -> None:
    people = pd.DataFrame({"job": ["none", "part", "full"], "savings": [0.0, 5.0, 10.0]})
    space = hf.FeatureSpace.from_frame(people, categorical=["job"], ranges={"savings": (0, 10)})
    order = [space.variables.index(f"job={label}") for label in ("none", "part", "full")]
    weight = np.zeros(4)
    weight[order] = [-1.0, 0.0, 1.0]
    weight[space.variables.index("savings")] = 0.5
    network = hf.Network([weight[None, :]], [[-0.9]])
    result = explain(network, people.head(1), target=1, changes=None, generator=MCE(), space=space)
    assert result.counterfactuals["job"].iloc[0] == "full"
    assert result.counterfactuals["savings"].iloc[0] == 0.0


def test_a_column_out_of_its_range_stays_or_comes_back() -> None:
    frame = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 1.0]})
    space = hf.FeatureSpace.from_frame(frame)
    network = hf.Network([[[-1.0, 1.0]]], [[-0.2]])
    person = pd.DataFrame({"a": [3.0], "b": [0.5]})
    result = explain(network, person, target=1, changes=None, generator=MCE(), space=space)
    assert space.satisfied(result.counterfactuals, person).all()
    assert result.counterfactuals["a"].iloc[0] == pytest.approx(0.3, abs=1e-5)
    assert result.optimality_gap[0] <= 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": -1.0}, "margin: expected a number >= 0, got -1.0"),
        ({"margin": float("nan")}, "margin: expected a number >= 0, got nan"),
        ({"raise_by": 0.0}, "raise_by: expected a number > 0, got 0.0"),
    ],
)
def test_bad_options_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(hf.HoldfastError, match=message):
        MCE(**options)


def test_robust_asks_for_less_where_a_whole_step_is_too_much() -> None:
    # One logit, x - 0.1 on [0, 1]: the margin cannot exceed 0.9.
    network = hf.Network([[[1.0]]], [[-0.1]])
    space = hf.FeatureSpace.from_frame(pd.DataFrame({"x": [0.0, 1.0]}))
    person, generator = pd.DataFrame({"x": [0.0]}), Robust(MCE(raise_by=0.5))
    # Steps ask for margins of 0, 0.525 and 1.1. All of Δ accepts where x - 0.1 >= delta (x + 1): from 0.5 / 0.6 on.
    result = explain(
        network,
        person,
        target=1,
        changes=hf.PlausibleChanges(0.4),
        generator=generator,
        space=space,
    )
    assert result.verdict.tolist() == [hf.Verdict.ROBUST]
    assert result.points[0, 0] >= 0.5 / 0.6
    # Beyond delta = 0.45 not even x = 1 is robust.
    result = explain(
        network,
        person,
        target=1,
        changes=hf.PlausibleChanges(0.46),
        generator=generator,
        space=space,
    )
    assert result.verdict.tolist() == [hf.Verdict.NOT_ROBUST]
    assert re.fullmatch(
        r"not robust after \d+ rounds, and the method can be asked for no more", result.reason[0]
    )


@pytest.mark.parametrize(
    ("network", "space"),
    [
        ("logistic regression", "continuous"),
        ("one layer", "continuous"),
        ("three classes", "mixed"),
    ],
)
def test_no_answer_hangs_on_the_order_of_a_sum(network: str, space: str) -> None:
    # Whether the last bit of a logit is above zero may depend on how many rows are multiplied at once.
    case = make_case(network, space, n_people=8)
    for generator in (MCE(), GCE()):
        result = explain(
            case.network, case.people, target=case.target, generator=generator, space=case.space
        )
        assert np.delete(result.found, 2).all()


@pytest.mark.parametrize("generator", [MCE(), Closest()], ids=["MCE", "Closest"])
def test_raw_units_cost_what_scaled_ones_do(generator: hf.Generator) -> None:
    rng = np.random.default_rng(5)
    people = pd.DataFrame(rng.random((12, 3)), columns=["income", "rate", "months"]).assign(
        income=lambda frame: 50_000.0 * frame["income"], months=lambda frame: 90.0 * frame["months"]
    )
    low, width = people.min().to_numpy(), np.ptp(people.to_numpy(), axis=0)
    weights, bias = rng.normal(size=(4, 3)), rng.normal(size=4)
    # Of the second network's first layer, which reads raw units, nothing may move.
    changes = hf.PlausibleChanges([0.0, 0.01])
    answers = [
        explain(
            hf.Network([first, [[1.0, -1.0, 1.0, -1.0]]], [shift, [-0.3]]), people, target=1, generator=generator,
            changes=changes, space=hf.FeatureSpace.from_frame(people, scale=scale),
        )
        for first, shift, scale in (
            (weights, bias, "minmax"),
            (weights / width, bias - weights / width @ low, "none"),
        )
    ]  # fmt: skip
    assert answers[0].found.sum() > 3
    np.testing.assert_allclose(answers[1].cost_l1, answers[0].cost_l1, rtol=1e-6)
    assert (answers[1].optimality_gap[answers[1].found] <= 1e-4).all()
