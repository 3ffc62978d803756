"""The leaves behind a ROBUST verdict: they cover every case, and each proves its bound in exact arithmetic."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import holdfast as hf
from holdfast.bounds.abstraction import IntervalNetwork
from holdfast.bounds.linear import FREE
from holdfast.errors import InvalidInputError
from holdfast.verify.problem import Problem
from holdfast.verify.rational import RationalNetwork


def _network(rng: np.random.Generator, *sizes: int) -> hf.Network:
    weights = [1.3 * rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairwise(sizes)]
    return hf.Network(weights, [0.3 * rng.normal(size=size) for size in sizes[1:]])


def _cases_covered(leaves) -> Fraction:
    """The share of all cases that the leaves cover, given that no two share one."""
    choices = [np.concatenate(leaf.decided) for leaf in leaves]
    for i, mine in enumerate(choices):
        for other in choices[:i]:
            assert ((mine != other) & (mine != FREE) & (other != FREE)).any(), "two leaves share a case"
    return sum((Fraction(1, 2 ** int((choice != FREE).sum())) for choice in choices), Fraction(0))


@pytest.mark.parametrize("sizes", [(6, 14, 14, 1), (3, 6, 6, 3), (4, 6, 6, 6, 1)])
def test_leaves_cover_every_case_and_prove_it_in_fractions(sizes):
    rng = np.random.default_rng(11)
    network = _network(rng, *sizes)
    X = rng.normal(size=(300, sizes[0]))
    targets = network.predict(X)
    radius = hf.certified_radius(network, X, targets).lower
    # Just inside the radius interval bounds no longer suffice, so the proofs have something to say.
    branched = 0
    for row in np.argsort(-radius)[:25]:
        changes = hf.PlausibleChanges(0.999 * radius[row])
        certs = hf.certify(network, X[row : row + 1], targets[row], changes)
        assert certs.robust[0]
        for part in certs.proof(0):
            assert part.bound > 0.0
            if not part.leaves:
                continue
            assert _cases_covered(part.leaves) == 1
            branched += len(part.leaves) > 1
            problem = Problem.of(network, IntervalNetwork.of(network, changes), part.margin, X[row : row + 1])
            exact = RationalNetwork(problem, changes.layer_radii(network))
            for leaf in part.leaves:
                proven = exact.bound(X[row], leaf.decided, leaf.alphas, leaf.stretches)
                if len(network.hidden) == 2:
                    assert proven >= Fraction(leaf.bound)
    assert branched >= 3


def test_an_interval_bound_needs_no_leaves():
    network = hf.Network([[[1.0, 0.0], [0.0, 1.0]], [[1.0, -1.0]]], [[0.0, 0.0], [0.0]])
    certs = hf.certify(network, [[3.0, 1.0]], 1, hf.PlausibleChanges(0.05))
    (part,) = certs.proof(0)
    assert part.leaves == ()
    assert part.bound == pytest.approx(float(certs.margin_lower[0]))


def test_only_a_robust_row_has_a_proof():
    network = hf.Network([[[-1.0, 1.0]]], [[0.0]])
    certs = hf.certify(network, [[0.7, 0.7]], 1, hf.PlausibleChanges(0.1))
    with pytest.raises(InvalidInputError, match="row 0, which is NOT_ROBUST"):
        certs.proof(0)
