"""GCE, PROTO and ROAR against what is known without them: linear programs, optimality conditions, enumeration."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq, linprog
from scipy.spatial.distance import cdist

import holdfast as hf
from holdfast.generators import GCE, PROTO, RBR, ROAR, STCE, Closest, Robust, explain
from holdfast.generators._candidates import Candidates
from holdfast.generators._gradient import RelaxedSpace, hinge_loss, logistic_loss
from holdfast.generators._proto import nearest_means
from holdfast.generators._reading import read_question
from holdfast.verify._margins import least_margins, margin_slopes
from random_networks import random_network
from recourse_cases import make_case

N_COLUMNS = 5


def linear_case(seed, outputs=1, n_people=6):
    """A linear model that accepts few, columns of different cost, and people who do not have the last class."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.uniform(-1.0, 1.0, (400, N_COLUMNS)), columns=list("abcde"))
    space = hf.FeatureSpace.from_frame(
        table, costs={"b": 2.0, "c": 0.5}, immutable=["e"], scale="none"
    )
    network = hf.Network(
        [rng.normal(0.0, 2.0, (outputs, N_COLUMNS))], [rng.normal(-1.0, 0.3, outputs)]
    )
    target = max(1, outputs - 1)
    people = table[network.predict(space.encode(table)) != target].head(n_people)
    return network, space, people, target


def half_planes(network, target):
    """rows, offsets: rows @ x + offsets >= 0 in every row is the class."""
    if network.n_outputs == 1:
        return network.weights[0], network.biases[0]
    rivals = np.delete(np.arange(network.n_outputs), target)
    return network.weights[0][target] - network.weights[0][rivals], network.biases[0][
        target
    ] - network.biases[0][rivals]


def cheapest_by_linear_program(network, space, own, target, delta=0.0):
    """The least weighted l1 distance to a worst margin >= 0 over the box of radius delta; None if there is none.

    x = p - n with p, n >= 0 and x - own = up - down with up, down >= 0.
    """
    rows, offsets = half_planes(network, target)
    both = 2.0 * delta if network.n_outputs > 1 else delta
    d, eye, none = own.size, np.eye(own.size), np.zeros((own.size, own.size))
    lower, upper = space.bounds_for(own)
    blank = np.zeros(rows.shape)
    solved = linprog(
        np.concatenate([np.zeros(2 * d), space.weights, space.weights]),
        A_ub=np.block(
            [
                [both - rows, both + rows, blank, blank],
                [eye, -eye, none, none],
                [-eye, eye, none, none],
            ]
        ),
        b_ub=np.concatenate([offsets - both, upper, -lower]),
        A_eq=np.block([eye, -eye, -eye, eye]),
        b_eq=own,
        bounds=[(0.0, None)] * (4 * d),
    )
    return solved.fun / d if solved.status == 0 else None


def compare_with_linear_program(generator, seed, outputs, tolerance, delta=0.0):
    network, space, people, target = linear_case(seed, outputs)
    result = explain(network, people, target=target, generator=generator, space=space)
    compared = 0
    for i, own in enumerate(space.encode(people)):
        best = cheapest_by_linear_program(network, space, own, target, delta)
        assert result.found[i] == (best is not None), result.reason[i]
        if best is not None:
            assert best * (1.0 - 1e-7) <= result.cost_l1[i] <= best * (1.0 + tolerance) + 1e-12
            compared += 1
    assert compared >= 3
    return result


# ------------------------------------------------------------------ GCE


@pytest.mark.parametrize("seed", range(8))
def test_gce_crosses_a_straight_boundary_at_the_least_price(seed):
    compare_with_linear_program(GCE(), seed, outputs=1, tolerance=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_gce_is_near_the_cheapest_crossing_between_several_half_planes(seed):
    compare_with_linear_program(GCE(), seed, outputs=3, tolerance=0.2)


def test_gce_moves_the_one_variable_with_the_best_slope_for_its_cost():
    network = hf.Network([[[1.0, 3.0, -2.0]]], [[-2.0]])
    result = explain(network, [[0.0, 0.0, 0.0]], target=1, generator=GCE(margin=0.4))
    np.testing.assert_allclose(result.points, [[0.0, 0.8, 0.0]], atol=1e-6)
    assert network.logits(result.points)[0, 0] >= 0.4


@pytest.mark.parametrize("target", [0, 1])
def test_either_class_can_be_wanted(target):
    network = hf.Network([[[4.0, 1.0]]], [[-2.0]], classes=["no", "yes"])
    own = [[0.9, 0.5]] if target == 0 else [[0.1, 0.5]]
    result = explain(network, own, target=network.classes[target], generator=GCE())
    np.testing.assert_allclose(result.points, [[0.375, 0.5]], atol=1e-6)
    assert network.predict_index(result.points)[0] == target


def test_more_margin_costs_more():
    case = make_case("two layers", "mixed", n_people=6)
    costs, least = [], []
    for step in (0, 3, 6):
        generator = GCE(raise_by=0.1).harder(step)
        result = explain(
            case.network, case.people, target=case.target, generator=generator, space=case.space
        )
        reached = least_margins(
            case.network, result.targets[result.found], result.points[result.found]
        )
        assert (reached >= generator.margin).all()
        costs.append(result.cost_l1)
        least.append(generator.margin)
    assert least == pytest.approx([0.0, 0.345, 0.78])
    both = ~np.isnan(costs[0]) & ~np.isnan(costs[2])
    assert costs[0][both].mean() < costs[2][both].mean()


def test_categories_alone_find_the_cheapest_combination():
    case = make_case("logistic regression", "categorical", n_people=5)
    labels = [feature.categories for feature in case.space.features]
    everything = pd.DataFrame(list(product(*labels)), columns=case.space.names)
    points = case.space.encode(everything)
    accepted = points[case.network.predict(points) == case.target]
    result = explain(
        case.network, case.people, target=case.target, generator=GCE(), space=case.space
    )
    for i, own in enumerate(case.space.encode(case.people)):
        if i == 2:
            continue
        allowed = accepted[case.space.satisfied(accepted, own[None, :])]
        assert result.cost_l1[i] == pytest.approx(case.space.cost_l1(allowed, own[None, :]).min())


def test_where_there_is_no_slope_an_answer_is_found_nevertheless():
    """relu(a - 0.5) - 0.1 is flat up to a = 0.5, and class 1 begins at 0.6."""
    network = hf.Network([[[1.0, 0.0]], [[1.0]]], [[-0.5], [-0.1]])
    table = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 1.0]})
    space = hf.FeatureSpace.from_frame(table)
    for generator in (GCE(), PROTO(), ROAR(delta_max=0.0)):
        result = explain(
            network,
            pd.DataFrame({"a": [0.2], "b": [0.3]}),
            target=1,
            generator=generator,
            space=space,
        )
        assert result.found[0]
        assert result.counterfactuals["a"].iloc[0] >= 0.6
    assert explain(network, table.head(1), target=1, generator=GCE(), space=space).points[
        0
    ] == pytest.approx([0.6, 0.0])


@pytest.mark.parametrize("base", [GCE(raise_by=0.3), PROTO(raise_by=0.3)], ids=["GCE", "PROTO"])
def test_robust_makes_the_answers_robust(base):
    case = make_case("three layers", "mixed", n_people=8)
    plain, robust = (
        explain(
            case.network,
            case.people,
            target=case.target,
            changes=case.changes,
            generator=generator,
            space=case.space,
        ).robust.sum()
        for generator in (base, Robust(base, max_rounds=12))
    )
    assert plain <= 2
    assert robust >= 6


# ------------------------------------------------------------------ PROTO


def elastic_optimum(own, prototype, normal, offset, weights, lower, upper, beta, theta):
    """min beta |x - own|_w + |x - own|_w^2 + theta |x - proto|^2 with normal @ x + offset >= 0 in the box.

    For a multiplier mu of the half-plane every variable has its own parabola with a kink; mu is where the margin is 0.
    """

    def point(mu):
        # The slope at `own` without the kink, and how far it carries beyond the kink.
        slope = mu * normal - 2.0 * theta * (own - prototype)
        change = (
            np.sign(slope)
            * np.maximum(np.abs(slope) - beta * weights, 0.0)
            / (2.0 * (weights + theta))
        )
        return np.clip(own + change, lower, upper)

    def margin(mu):
        return normal @ point(mu) + offset

    return point(0.0) if margin(0.0) >= 0.0 else point(brentq(margin, 0.0, 1e4, xtol=1e-12))


@pytest.mark.parametrize("theta", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_proto_on_a_linear_model_meets_the_optimality_conditions(seed, theta):
    network, space, people, _ = linear_case(seed)
    candidates = pd.DataFrame(
        np.random.default_rng(seed).uniform(-1, 1, (300, N_COLUMNS)), columns=list("abcde")
    )
    beta, kappa = 0.05, 0.2
    generator = PROTO(candidates, kappa=kappa, beta=beta, theta=theta, neighbours=3)
    result = explain(network, people, target=1, generator=generator, space=space)
    points = space.encode(candidates)
    accepted = Candidates.of(points[network.predict(points) == 1], space)
    owns = space.encode(people)
    prototypes = nearest_means(accepted, owns, 3)
    lower, upper = space.bounds_for(people)
    assert result.found.sum() >= 3
    for i in np.flatnonzero(result.found):
        best = elastic_optimum(
            owns[i], prototypes[i], network.weights[0][0], network.biases[0][0] - kappa, space.weights, lower[i],
            upper[i], beta, theta,
        )  # fmt: skip

        def price(x, i=i):
            change = x - owns[i]
            pulled = theta * ((x - prototypes[i]) ** 2).sum()
            return space.weights @ (beta * np.abs(change) + change**2) + pulled

        assert network.logits(result.points[i : i + 1])[0, 0] >= kappa
        assert price(result.points[i]) <= price(best) * (1.0 + 1e-3) + 1e-9
        np.testing.assert_allclose(result.points[i], best, atol=0.02)


def test_a_strong_pull_leads_to_the_prototype():
    network, space, people, _ = linear_case(1)
    free = space.constrained(free=["e"])
    prototype = people.head(1).assign(a=0.5, b=-0.5, c=0.25, d=-0.75, e=0.1)
    network = hf.Network(network.weights, [2.0 - network.weights[0] @ prototype.to_numpy()[0]])
    denied = people[network.predict(space.encode(people)) == 0]
    assert len(denied) >= 1
    generator = PROTO(prototype, theta=1e5, neighbours=4)
    result = explain(network, denied, target=1, generator=generator, space=free)
    np.testing.assert_allclose(
        result.points, np.repeat(prototype.to_numpy(), len(denied), axis=0), atol=1e-3
    )


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("n_candidates", [30, 900])
def test_prototypes_are_the_means_of_the_nearest(n_candidates, k):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(0, 1, (n_candidates, 3)), columns=list("abc"))
    space = hf.FeatureSpace.from_frame(
        table, costs={"b": 3.0}, ranges=dict.fromkeys("abc", (0.0, 1.0))
    )
    owns = rng.uniform(0, 1, (7, 3))
    distances = cdist(owns * space.weights, table.to_numpy() * space.weights, metric="cityblock")
    expected = [table.to_numpy()[np.argsort(row)[:k]].mean(axis=0) for row in distances]
    np.testing.assert_allclose(
        nearest_means(Candidates.of(table.to_numpy(), space), owns, k), expected
    )


def test_without_candidates_there_is_no_pull():
    case = make_case("two layers", "continuous", n_people=5)
    results = [
        explain(
            case.network, case.people, target=case.target, generator=generator, space=case.space
        ).points
        for generator in (
            PROTO(),
            PROTO(case.candidates, theta=0.0),
            PROTO(case.candidates, theta=5.0),
        )
    ]
    np.testing.assert_array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2], equal_nan=True)


# ------------------------------------------------------------------ ROAR


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_roar_on_a_linear_model_is_robust_at_almost_the_least_price(seed, outputs):
    delta = 0.1
    generator = ROAR(delta_max=delta, cost_weight=1e4)
    result = compare_with_linear_program(
        generator, seed, outputs, tolerance=0.2 if outputs > 1 else 1e-3, delta=delta
    )
    found = result.points[result.found]
    assert hf.certify(
        result.network, found, result.targets[0], hf.PlausibleChanges(delta)
    ).robust.all()
    assert not hf.certify(
        result.network, found, result.targets[0], hf.PlausibleChanges(delta * 1.1)
    ).robust.any()


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0])
def test_roar_in_other_norms_is_at_the_dual_norms_edge(norm):
    network, space, people, _ = linear_case(3)
    result = explain(
        network, people, target=1, generator=ROAR(0.1, cost_weight=1e4, norm=norm), space=space
    )
    assert result.found.sum() >= 3
    for x in result.points[result.found]:
        worst = network.logits(x[None, :])[0, 0] - 0.1 * np.linalg.norm(
            [*x, 1.0], norm / (norm - 1.0) if norm > 1 else np.inf
        )
        assert 0.0 <= worst < 1e-3


def test_roar_goes_further_the_less_distance_weighs_and_the_larger_the_change():
    case = make_case("two layers", "mixed", n_people=6)

    def mean_margin(generator):
        result = explain(
            case.network, case.people, target=case.target, generator=generator, space=case.space
        )
        return least_margins(
            case.network, result.targets[result.found], result.points[result.found]
        ).mean()

    by_weight = [mean_margin(ROAR(cost_weight=weight)) for weight in (100.0, 1.0, 0.01)]
    assert by_weight == sorted(by_weight)
    assert by_weight[2] > by_weight[0] + 0.5
    assert mean_margin(ROAR(cost_weight=100.0).harder(4)) > by_weight[0]


# ------------------------------------------------------------------ what they share


@pytest.mark.parametrize("outputs", [1, 3])
def test_margin_slopes_agree_with_differences(outputs):
    rng = np.random.default_rng(1)
    network = random_network(rng, 4, (8, 6), outputs, awkward=False)
    points = rng.normal(size=(50, 4))
    targets = rng.integers(0, max(2, outputs), 50)
    values, slopes = margin_slopes(network, targets, points)
    logits = network.logits(points)
    for i, target in enumerate(targets):
        rivals = np.delete(logits[i], target) if outputs > 1 else [0.0]
        own = logits[i, target] if outputs > 1 else logits[i, 0] * (1 if target == 1 else -1)
        assert values[i] == pytest.approx(own - max(rivals))
    step = 1e-6
    for column in range(4):
        moved = step * np.eye(4)[column]
        difference = least_margins(network, targets, points + moved) - least_margins(
            network, targets, points - moved
        )
        agrees = np.abs(difference / (2 * step) - slopes[:, column]) < 1e-5
        # A kink within the step is rare.
        assert agrees.mean() > 0.95


@pytest.mark.parametrize("loss", [logistic_loss(), hinge_loss(0.5)], ids=["logistic", "hinge"])
def test_losses_press_less_the_larger_the_margin_and_no_faster_than_they_say(loss):
    grid = np.linspace(-6.0, 6.0, 2001)
    pressure = loss.pressure(grid)
    assert pressure[0] > 0.99
    assert pressure[-1] < 0.01
    falls = -np.diff(pressure) / np.diff(grid)
    assert (falls >= 0.0).all()
    assert falls.max() <= loss.curvature * (1.0 + 1e-9)


def task_of(case):
    return read_question(
        case.network, case.people, target=case.target, changes=None, generator=GCE(), space=case.space, seed=0,
        time_limit=None,
    )  # fmt: skip


def test_relaxed_points_are_the_nearest_within_reach():
    case = make_case("logistic regression", "categorical")
    relaxed = RelaxedSpace.of(task_of(case))
    rng = np.random.default_rng(0)
    rows = np.arange(len(case.people))
    wished = rng.normal(0.3, 1.0, relaxed.factuals.shape)
    points = relaxed.inside(wished, rows)
    fixed, *others = relaxed.groups
    np.testing.assert_array_equal(points[:, fixed], relaxed.factuals[:, fixed])
    for group in others:
        block, wish = points[:, group], np.clip(wished[:, group], 0.0, 1.0)
        np.testing.assert_allclose(block.sum(axis=1), 1.0)
        assert (block >= 0.0).all()
        # No other weights are nearer.
        for other in rng.dirichlet(np.ones(group.size), 200):
            assert (
                ((block - wish) ** 2).sum(axis=1) <= ((other - wish) ** 2).sum(axis=1) + 1e-12
            ).all()


@pytest.mark.parametrize("generator", [GCE(), PROTO(), ROAR()], ids=["GCE", "PROTO", "ROAR"])
def test_out_of_time_is_said_and_no_error(generator):
    case = make_case("two layers", "continuous", n_people=6)
    result = explain(
        case.network,
        case.people,
        target=case.target,
        generator=generator,
        space=case.space,
        time_limit=1e-6,
    )
    assert len(result) == 6
    missing = ~result.found & (result.reason != f"already classified as {case.target}")
    assert all("in time" in reason for reason in result.reason[missing])


BAD = {
    "GCE margin": (lambda: GCE(margin=-1.0), "margin: expected a number >= 0, got -1.0"),
    "GCE raise_by": (lambda: GCE(raise_by=0.0), "raise_by: expected a number > 0, got 0.0"),
    "GCE margin in words": (lambda: GCE(margin="a"), "^margin: expected a number >= 0, got 'a'$"),
    "GCE margin as text": (
        lambda: GCE(margin="1.0"),
        "^margin: expected a number >= 0, got '1.0'$",
    ),
    "GCE nothing": (lambda: GCE(raise_by=None), "^raise_by: expected a number > 0, got None$"),
    "PROTO in words": (
        lambda: PROTO(neighbours="many"),
        "^neighbours: expected a whole number >= 1, got 'many'$",
    ),
    "PROTO half a neighbour": (
        lambda: PROTO(neighbours=1.5),
        "^neighbours: expected a whole number >= 1, got 1.5$",
    ),
    "ROAR in words": (
        lambda: ROAR(cost_weight="low"),
        "^cost_weight: expected a number > 0, got 'low'$",
    ),
    "RBR in words": (
        lambda: RBR([[0.0]], sigma="wide"),
        "^sigma: expected a number > 0, got 'wide'$",
    ),
    "STCE in words": (
        lambda: STCE([[0.0]], tau="high"),
        "^tau: expected a number below 1, got 'high'$",
    ),
    "Robust in words": (
        lambda: Robust(GCE(), max_rounds="many"),
        "^max_rounds: expected a whole number >= 1",
    ),
    "Closest in words": (
        lambda: Closest(neighbours="all"),
        "^neighbours: expected a whole number >= 1, got 'all'$",
    ),
    "PROTO theta": (lambda: PROTO(theta=np.nan), "theta: expected a number >= 0, got nan"),
    "PROTO neighbours": (
        lambda: PROTO(neighbours=0),
        "neighbours: expected a whole number >= 1, got 0",
    ),
    "PROTO candidates": (lambda: PROTO([1.0, 2.0]), "candidates: expected a table"),
    "ROAR delta_max": (lambda: ROAR(delta_max=-0.1), "delta_max: expected a number >= 0, got -0.1"),
    "ROAR cost_weight": (
        lambda: ROAR(cost_weight=0.0),
        "cost_weight: expected a number > 0, got 0.0",
    ),
    "ROAR norm": (lambda: ROAR(norm=0.5), "norm: expected p >= 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_refused(name):
    make, message = BAD[name]
    with pytest.raises(hf.HoldfastError, match=message):
        make()
