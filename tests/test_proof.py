"""What a ROBUST verdict stands on: the checker accepts it, trees cover every case, nothing is searched for twice."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import holdfast as hf
from holdfast import checker
from holdfast.errors import InvalidInputError
from holdfast.verify._exact import Exact, NoProofError, plain_model

SIZES = [(6, 14, 14, 1), (3, 6, 6, 3), (4, 6, 6, 6, 1)]


def _network(
    rng: np.random.Generator, *sizes: int, activations: tuple[str, ...] = ()
) -> hf.Network:
    weights = [1.3 * rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairwise(sizes)]
    biases = [0.3 * rng.normal(size=size) for size in sizes[1:]]
    return hf.Network(weights, biases, activations=activations or None)


def _question(certs: hf.Certificates, row: int) -> checker.Question:
    model = plain_model(certs.network)
    changes = checker.read_changes(certs.changes.to_dict(), model)
    return checker.Question(model, changes, certs.points[row].tolist(), int(certs.targets[row]))


def _assert_accepted(certs: hf.Certificates, row: int) -> list[dict]:
    """Every rival has its part, and in exact arithmetic each part proves what it states, which is enough."""
    question, parts = _question(certs, row), certs.proof(row)
    outputs = max(certs.network.n_outputs, 2)
    assert [part["rival"] for part in parts] == [
        c for c in range(outputs) if c != certs.targets[row]
    ]
    for part in parts:
        bound = question.bound(part)
        assert Fraction(part["bound"]) <= bound
        assert question.suffices(part["rival"], Fraction(part["bound"]))
    return parts


def _covered(node: dict, decided: frozenset[tuple[int, int]] = frozenset()) -> Fraction:
    """The share of all cases that the leaves cover: each split has both of its cases, and none comes twice on a way."""
    if "split" not in node:
        return Fraction(1, 2 ** len(decided))
    place = tuple(node["split"])
    assert place not in decided
    return sum(
        (_covered(node[side], decided | {place}) for side in ("below", "above")), Fraction(0)
    )


@pytest.fixture
def searches(monkeypatch):
    """How often a proof had to be searched for."""
    found: Counter[str] = Counter()
    for name in ("settle", "proposed"):
        plain = getattr(Exact, name)

        def counted(self, *args, plain=plain, name=name):
            found[name] += 1
            return plain(self, *args)

        monkeypatch.setattr(Exact, name, counted)
    return found


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_trees_cover_every_case_and_the_checker_accepts_them(sizes, searches):
    rng = np.random.default_rng(11)
    network = _network(rng, *sizes)
    X = rng.normal(size=(300, sizes[0]))
    targets = network.predict(X)
    radius = hf.certified_radius(network, X, targets).lower
    # Just inside the radius interval bounds no longer suffice, so the proofs have something to say.
    branched = 0
    for row in np.argsort(-radius)[:25]:
        certs = hf.certify(
            network, X[row : row + 1], targets[row], hf.PlausibleChanges(0.999 * radius[row])
        )
        assert certs.robust[0]
        searches.clear()
        for part in _assert_accepted(certs, 0):
            assert part["method"] in ("interval", "cases")
            if part["method"] == "cases":
                assert _covered(part["tree"]) == 1
                branched += "split" in part["tree"]
        assert searches.total() == 0
    assert branched >= 3


@pytest.mark.parametrize(
    "changes",
    [hf.PlausibleChanges((0.01, 0.03, 0.02)), hf.PlausibleChanges(0.02, biases=False)],
    ids=str,
)
@pytest.mark.parametrize(
    "activations", [("relu", "relu"), ("relu", "identity"), ("identity", "relu")], ids=str
)
def test_every_robust_row_has_a_proof_that_needs_no_search(changes, activations, searches):
    rng = np.random.default_rng(3)
    network = _network(rng, 4, 8, 7, 1, activations=activations)
    X = rng.normal(size=(80, 4))
    certs = hf.certify(network, X, network.predict(X), changes)
    robust = np.flatnonzero(certs.robust)
    assert robust.size >= 10
    searches.clear()
    for row in robust:
        _assert_accepted(certs, int(row))
    assert searches.total() == 0


@pytest.mark.parametrize(("norm", "delta"), [(1.0, 0.03), (2.0, 0.025)])
def test_every_robust_row_of_a_ball_has_a_proof_that_needs_no_search(norm, delta, searches):
    rng = np.random.default_rng(3)
    network = _network(rng, 4, 8, 7, 1)
    X = rng.normal(size=(80, 4))
    certs = hf.certify(network, X, network.predict(X), hf.PlausibleChanges(delta, norm))
    assert certs.stages["interval"] > 0
    assert certs.stages["ball bound"] > 0
    searches.clear()
    for row in np.flatnonzero(certs.robust).tolist():
        _assert_accepted(certs, row)
    assert searches.total() == 0


def test_what_only_the_ball_of_another_norm_proves_has_no_certificate_and_says_so():
    rng = np.random.default_rng(3)
    network = _network(rng, 4, 8, 7, 1)
    X = rng.normal(size=(80, 4))
    certs = hf.certify(network, X, network.predict(X), hf.PlausibleChanges(0.026, 1.5))
    accepted, refused = Counter(), []
    for row in np.flatnonzero(certs.robust).tolist():
        try:
            _assert_accepted(certs, row)
            accepted[certs.decided_by[row]] += 1
        except NoProofError:
            refused.append(row)
    assert set(certs.decided_by[refused]) == {"ball bound"}
    with pytest.raises(NoProofError, match="no form that the checker reads"):
        certs.proof(refused[0])
    assert accepted["interval"] == certs.stages["interval"] > 0


def test_with_the_branches_forgotten_a_proof_is_searched_for(searches):
    rng = np.random.default_rng(11)
    network = _network(rng, *SIZES[0])
    X = rng.normal(size=(200, SIZES[0][0]))
    targets = network.predict(X)
    certs = hf.certify(network, X, targets, hf.PlausibleChanges(0.02))
    row = int(np.flatnonzero(certs.robust & (certs.decided_by == "linear bound"))[0])
    certs.outcome.leaves.clear()
    searches.clear()
    (part,) = _assert_accepted(certs, row)
    assert part["method"] == "cases"
    assert searches["settle"] == 1
    with pytest.raises(NoProofError, match="a larger max_cases="):
        certs.proof(row, max_cases=0)


def test_an_interval_bound_is_named_and_no_more():
    network = hf.Network([[[1.0, 0.0], [0.0, 1.0]], [[1.0, -1.0]]], [[0.0, 0.0], [0.0]])
    certs = hf.certify(network, [[3.0, 1.0]], 1, hf.PlausibleChanges(0.05))
    (part,) = certs.proof(0)
    assert part == {"rival": 0, "method": "interval", "bound": part["bound"]}
    assert part["bound"] == pytest.approx(float(certs.margin_lower[0]))


def test_only_a_robust_row_has_a_proof():
    network = hf.Network([[[-1.0, 1.0]]], [[0.0]])
    certs = hf.certify(network, [[0.7, 0.7]], 1, hf.PlausibleChanges(0.1))
    with pytest.raises(InvalidInputError, match="row 0 is NOT_ROBUST"):
        certs.proof(0)
