"""The batched mathematics keeps to the array API standard: it runs on a library that offers nothing else."""

from itertools import pairwise

import array_api_strict
import numpy as np
import pytest

import holdfast as hf
from holdfast.arrays import to_numpy
from holdfast.bounds.abstraction import IntervalNetwork, margins_for
from holdfast.bounds.interval import IntervalPass
from holdfast.bounds.linear import Multipliers, pull_back, relax, value_box, with_multipliers
from holdfast.bounds.rounding import RoundingModel, magnitude
from holdfast.verify.ascent import tighten
from holdfast.verify.attack import best_response
from holdfast.verify.problem import Problem


@pytest.fixture(params=[(4, 6, 1), (4, 6, 5, 1), (4, 5, 4, 3, 3)])
def case(request):
    rng = np.random.default_rng(2)
    sizes = request.param
    weights = [rng.normal(size=(b, a)) for a, b in pairwise(sizes)]
    network = hf.Network(weights, [rng.normal(size=size) for size in sizes[1:]])
    return network, hf.PlausibleChanges(0.03), rng.normal(size=(40, sizes[0]))


def _problem(network, changes, points, xp):
    margin = margins_for(network, 0)[0]
    strict = type(margin)(
        xp.asarray(margin.row), margin.offset, margin.count, margin.strict, margin.above, margin.below
    )
    net = IntervalNetwork.of(network, changes, xp)
    return Problem(network, net, strict, RoundingModel.of(network, net), points, magnitude(points))


def test_interval_bound(case):
    network, changes, X = case
    margins = margins_for(network, 0)
    ours = IntervalPass.of(IntervalNetwork.of(network, changes), margins).lower(X, nonnegative=False)
    strict = IntervalPass.of(IntervalNetwork.of(network, changes), margins, array_api_strict)
    theirs = strict.lower(array_api_strict.asarray(X), nonnegative=False)
    np.testing.assert_allclose(to_numpy(theirs), ours, atol=1e-12)


def test_linear_bound_ascent_and_attack(case):
    network, changes, X = case
    results = []
    for xp in (np, array_api_strict):
        problem = _problem(network, changes, xp.asarray(X), xp)
        box = value_box(problem.net, problem.points, problem.rounding, problem.sizes)
        relaxation, _ = relax(problem.net, box, problem.rounding, problem.sizes, refine=True)
        found = [to_numpy(best_response(problem).margin)]
        if problem.net.depth > 1:
            multipliers = Multipliers.start(relaxation)
            walked = pull_back(problem.net, with_multipliers(relaxation, multipliers), problem.row, problem.offset)
            upper = xp.asarray(found[0])
            tightened = tighten(problem, relaxation, multipliers, upper, 4)
            found += [to_numpy(walked.bound), to_numpy(tightened.bound), to_numpy(tightened.looseness)]
        results.append(found)
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-10)
