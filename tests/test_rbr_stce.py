"""RBR and STCE against closed forms, brute force and what their papers define."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import multivariate_normal

import holdfast as hf
from holdfast.errors import InvalidInputError
from holdfast.generators import NNCE, RBR, STCE, explain
from holdfast.generators._likelihood import Odds, greatest, least
from holdfast.generators._rbr import _into_ball
from holdfast.generators._stce import Stability
from recourse_cases import make_case

CONSTANT = np.log(2.0 * np.pi)  # of a Gaussian in two dimensions


def log_density(parameters, distance, sigma):
    """log N of a point at this distance along the first axis: mean, two widenings and the angle of their axes."""
    mean, root, angle = parameters[:2], sigma + np.abs(parameters[2:4]), parameters[4]
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    standard = turn @ (np.array([distance, 0.0]) - mean) / root
    return -CONSTANT - np.log(root).sum() - 0.5 * standard @ standard


def extreme_by_search(distance, sigma, epsilon, sign, starts=12):
    """The greatest (sign 1) or least (sign -1) of all Gaussians in the ambiguity set, by a general solver."""
    rng = np.random.default_rng(0)
    inside = {"type": "ineq", "fun": lambda v: epsilon**2 - (v[:4] ** 2).sum()}
    best = -np.inf
    for _ in range(starts):
        start = rng.normal(size=5)
        start[:4] *= 0.9 * epsilon / np.linalg.norm(start[:4])
        found = minimize(
            lambda v: -sign * log_density(v, distance, sigma), start, method="SLSQP", constraints=inside,
            bounds=[(None, None), (None, None), (0.0, None), (0.0, None), (None, None)],
        )  # fmt: skip
        # Whatever the solver says of itself: a point of the set, and what it is worth.
        end = found.x.copy()
        end[:4] *= min(1.0, epsilon / np.linalg.norm(end[:4]))
        best = max(best, sign * log_density(end, distance, sigma))
    return sign * best


@pytest.mark.parametrize("distance", [0.05, 0.3, 0.9, 2.0])
@pytest.mark.parametrize(("sigma", "epsilon"), [(0.2, 0.1), (0.5, 0.4), (1.0, 0.5)])
def test_extreme_likelihoods_are_those_of_a_general_solver(distance, sigma, epsilon):
    at = np.array([distance])
    assert greatest(at, sigma, epsilon, 2).value[0] - CONSTANT == pytest.approx(
        extreme_by_search(distance, sigma, epsilon, 1.0), abs=1e-4
    )
    assert least(at, sigma, epsilon, 2).value[0] - CONSTANT == pytest.approx(
        extreme_by_search(distance, sigma, epsilon, -1.0), abs=1e-4
    )


@pytest.mark.parametrize("dimension", [1, 2, 6])
def test_without_ambiguity_both_extremes_are_the_kernel_itself(dimension):
    at = np.array([0.0, 0.4, 1.7])
    expected = [
        multivariate_normal(np.zeros(dimension), 0.49 * np.eye(dimension)).logpdf(
            np.eye(dimension)[0] * c
        )
        for c in at
    ]
    for extreme in (greatest, least):
        found = extreme(at, 0.7, 0.0, dimension)
        np.testing.assert_allclose(found.value - dimension * CONSTANT / 2.0, expected, atol=1e-12)
        np.testing.assert_allclose(found.slope, -at / 0.49, atol=1e-12)


@pytest.mark.parametrize("extreme", [greatest, least])
def test_slopes_are_those_of_the_values(extreme):
    at, step = np.linspace(0.31, 3.0, 40), 1e-5
    slope = (extreme(at + step, 0.5, 0.3, 4).value - extreme(at - step, 0.5, 0.3, 4).value) / (
        2.0 * step
    )
    np.testing.assert_allclose(extreme(at, 0.5, 0.3, 4).slope, slope, atol=1e-4)


def test_in_one_dimension_the_least_moves_the_mean_away_where_the_kernel_is_narrow():
    # With the mean alone free the least is at c + ε; widening can only help further.
    at = np.array([0.1])
    angles = np.linspace(0.0, np.pi / 2, 100_001)
    wider = 0.2 + 0.1 * np.sin(angles)
    expected = (-np.log(wider) - 0.5 * ((0.1 + 0.1 * np.cos(angles)) / wider) ** 2).min()
    assert least(at, 0.2, 0.1, 1).value[0] == pytest.approx(expected, abs=1e-9)


def test_odds_of_a_mixture_are_its_likelihood_ratio():
    rng = np.random.default_rng(1)
    samples, point = rng.normal(size=(40, 3)), rng.normal(size=3)
    favourable = rng.random(40) < 0.4
    kernel = [multivariate_normal(sample, 0.36 * np.eye(3)).pdf(point) for sample in samples]
    ratio = np.sum(np.array(kernel)[~favourable]) / np.sum(np.array(kernel)[favourable])
    distance = np.linalg.norm(samples - point, axis=1)[None, :]
    value, slope = Odds.of(0.6, (0.0, 0.0), 3, 10.0).log_odds(distance, favourable[None, :])
    assert value[0] == pytest.approx(np.log(ratio), abs=1e-6)
    assert (slope[0][~favourable] < 0.0).all()
    assert (slope[0][favourable] > 0.0).all()


def test_tabulated_odds_are_close_to_exact_ones():
    distance = np.random.default_rng(2).uniform(0.0, 3.0, (30, 20))
    favourable = np.tile(np.arange(20) < 8, (30, 1))
    found, _ = Odds.of(0.2, (0.1, 0.2), 7, 3.0).log_odds(distance, favourable)
    worst = [
        greatest(row[8:], 0.2, 0.1, 7).value for row in distance
    ], [least(row[:8], 0.2, 0.2, 7).value for row in distance]  # fmt: skip
    expected = np.log(np.exp(worst[0]).sum(axis=1)) - np.log(np.exp(worst[1]).sum(axis=1))
    np.testing.assert_allclose(found, expected, atol=1e-2)


def test_projection_into_the_ball_is_that_of_a_general_solver():
    rng = np.random.default_rng(3)
    move, weights = rng.normal(size=(6, 4)), np.array([1.0, 2.0, 0.5, 1.0])
    lower, upper = -rng.uniform(0.0, 0.6, (6, 4)), rng.uniform(0.0, 0.6, (6, 4))
    reach = np.array([0.1, 0.3, 0.5, 0.7, 0.9, 9.0])
    found = _into_ball(move, lower, upper, weights, reach)
    assert (np.abs(found) @ weights <= reach + 1e-12).all()
    for i in range(6):
        # Rises and falls apart, so that the cost is linear.
        solved = minimize(
            lambda v, i=i: ((v[:4] - v[4:] - move[i]) ** 2).sum(), np.zeros(8), method="SLSQP",
            bounds=[*zip(np.zeros(4), upper[i], strict=True), *zip(np.zeros(4), -lower[i], strict=True)],
            constraints={"type": "ineq", "fun": lambda v, i=i: reach[i] - (v[:4] + v[4:]) @ weights},
            options={"ftol": 1e-12},
        )  # fmt: skip
        np.testing.assert_allclose(found[i], solved.x[:4] - solved.x[4:], atol=1e-4)


def test_rbr_walks_straight_from_the_boundary_of_a_linear_model():
    # By symmetry the odds fall along the normal; the l1 ball ends the walk at delta_plus beyond the boundary.
    net = hf.Network([[[1.0, 1.0]]], [[-1.0]])
    candidates = np.random.default_rng(4).uniform(0.0, 1.0, (300, 2))
    for delta_plus in (0.1, 0.2):
        generator = RBR(candidates, samples=2000, delta_plus=delta_plus, epsilon_favourable=0.0)
        result = explain(net, [[0.3, 0.4]], target=1, generator=generator)
        spent = 2.0 * result.cost_l1[0]
        assert 0.3 + 0.8 * delta_plus < spent <= 0.3 + delta_plus + 0.01
        assert result.points[0].sum() == pytest.approx(0.7 + spent, abs=1e-6)


def test_rbr_hands_out_better_odds_than_the_boundary_and_harder_goes_further():
    case = make_case("two layers", "continuous")
    base = RBR(case.candidates)
    costs = [
        explain(
            case.network,
            case.people,
            target=case.target,
            generator=base.harder(step),
            space=case.space,
        ).cost_l1
        for step in (0, 4)
    ]
    assert base.harder(0).delta_plus == base.delta_plus
    assert np.nanmean(costs[1]) > np.nanmean(costs[0])


def test_rbr_where_a_category_is_dearer_than_the_ball():
    case = make_case("one layer", "categorical")
    result = explain(
        case.network, case.people, target=case.target, generator=RBR(case.candidates, delta_plus=0.01),
        space=case.space,
    )  # fmt: skip
    neighbours = explain(
        case.network,
        case.people,
        target=case.target,
        generator=NNCE(case.candidates),
        space=case.space,
    )
    np.testing.assert_array_equal(result.found, neighbours.found)
    assert (result.cost_l1[result.found] <= neighbours.cost_l1[result.found] + 1e-9).all()


# ---------------------------------------------------------------------------------------------------- stability


@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_stability_of_a_linear_model_is_a_gaussian_integral(target, gamma):
    # w.(x + σ n) + b is Gaussian with mean w.x + b and deviation σ |w|: one integral, by Gauss-Hermite.
    weight, bias, sigma = np.array([2.0, -1.0, 0.5]), 0.3, 0.2
    network = hf.Network([weight[None, :]], [[bias]])
    points = np.random.default_rng(5).normal(size=(20, 3))
    noise = sigma * np.random.default_rng(6).standard_normal((40_000, 3))
    logit = (points @ weight + bias) * (1 if target else -1)
    grid = np.linspace(-8.0, 8.0, 20_001)
    density = np.exp(-0.5 * grid**2) / np.sqrt(2.0 * np.pi) * (grid[1] - grid[0])
    around = expit(logit[:, None] + sigma * np.linalg.norm(weight) * grid)
    expected = (around - gamma * np.abs(around - expit(logit)[:, None])) @ density
    found = Stability(network, target, noise, gamma)(points)
    np.testing.assert_allclose(found, expected, atol=3e-3)


@pytest.mark.parametrize("network", ["two layers", "three classes"])
@pytest.mark.parametrize("gamma", [0.3, 1.0, 1.7])
def test_stability_stays_below_its_bound_and_early_endings_change_nothing(network, gamma):
    case = make_case(network, "mixed")
    points = case.space.encode(case.candidates)
    noise = 0.1 * np.random.default_rng(7).standard_normal((960, points.shape[1]))
    stability = Stability(case.network, case.target, noise, gamma)
    values = stability(points)
    assert (values <= stability.at_most(points) + 1e-12).all()
    for tau in np.quantile(values, [0.2, 0.5, 0.9]):
        np.testing.assert_array_equal(stability.reaches(points, tau), values >= tau)


def test_stce_is_the_nearest_stable_candidate():
    case = make_case("two layers", "continuous")
    free = hf.FeatureSpace.from_frame(case.candidates)
    points, people = free.encode(case.candidates), free.encode(case.people)
    noise = 0.1 * np.random.default_rng(0).standard_normal((200, points.shape[1]))
    around = expit(
        case.network.logits((points[:, None] + noise).reshape(-1, points.shape[1]))
    ).reshape(len(points), -1)
    stability = (around - np.abs(around - expit(case.network.logits(points)))).mean(axis=1)
    tau = float(np.quantile(stability, 0.93))
    result = explain(
        case.network,
        case.people,
        target=1,
        generator=STCE(case.candidates, k=200, tau=tau),
        space=free,
        seed=0,
    )
    for row in np.flatnonzero(result.found):
        costs = np.where(stability >= tau, np.abs(points - people[row]).mean(axis=1), np.inf)
        assert result.cost_l1[row] == pytest.approx(costs.min(), rel=1e-9)
    assert result.found.sum() == len(case.people) - 1


def test_what_stce_hands_out_is_stable_after_projection_and_nearest_is_cheaper():
    case = make_case("two layers", "mixed")
    generator = STCE(case.candidates, k=200, tau=0.45)
    result = explain(
        case.network, case.people, target=1, generator=generator, space=case.space, seed=0
    )
    noise = 0.1 * np.random.default_rng(0).standard_normal((200, case.space.n_variables))
    assert (Stability(case.network, 1, noise, 1.0)(result.points[result.found]) >= 0.45).all()
    plain = explain(
        case.network, case.people, target=1, generator=NNCE(case.candidates), space=case.space
    )
    both = result.found & plain.found
    assert (plain.cost_l1[both] <= result.cost_l1[both] + 1e-12).all()
    assert (plain.cost_l1[both] < result.cost_l1[both] - 1e-6).any()


def test_harder_asks_for_more_and_says_so_in_vain():
    case = make_case("one layer", "continuous")
    base = STCE(case.candidates, k=64, tau=0.2)
    assert base.harder(0).tau == pytest.approx(0.2)
    assert 0.2 < base.harder(1).tau < base.harder(30).tau < 1.0
    result = explain(
        case.network, case.people, target=1, generator=base.harder(60), space=case.space
    )
    assert not result.found.any()
    assert "of stability 0.99" in result.reason[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: STCE(t, k=0), "k: expected a whole number >= 1, got 0"),
        (lambda t: STCE(t, tau=1.0), "tau: expected a number below 1, got 1.0"),
        (lambda t: STCE(t, sigma=-0.1), "sigma: expected a number >= 0, got -0.1"),
        (lambda t: RBR(t, samples=0), "samples: expected a whole number >= 1, got 0"),
        (lambda t: RBR(t, sigma=0.0), "sigma: expected a number > 0, got 0.0"),
        (
            lambda t: RBR(t, epsilon_favourable=float("nan")),
            "epsilon_favourable: expected a number >= 0, got nan",
        ),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make([[0.0, 1.0]])
