"""Points within a few ulps of the boundary, decided against exact fractions: nothing false, in any stage.

The last bias enters the margin as it is, so it can be chosen to leave a least margin of exactly zero (with dyadic
numbers) or as near to zero as floating point allows, and then be moved by single ulps.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

import holdfast as hf
from holdfast._deadline import Deadline
from holdfast.bounds._layers import forward_error
from holdfast.verify._attack import attack
from holdfast.verify._engine import Engine
from holdfast.verify._search import Search
from oracle import exact_class, inside_exactly, least_margins_exact, radii_of, robust_exactly
from random_networks import random_network

ULPS = (-3, -2, -1, 0, 0, 0, 1, 2)
SHAPES = [(), (2,), (4,), (2, 2), (3, 3), (2, 3)]
BATCHES, PER_BATCH = int(os.environ.get("HOLDFAST_LAST_BIT_BATCHES", "10")), 105


class Edge(NamedTuple):
    network: hf.Network
    x: np.ndarray
    target: int
    changes: hf.PlausibleChanges
    margins: dict[int | None, Fraction]

    @property
    def truth(self) -> bool:
        return robust_exactly(self.margins, self.target)


def _edges(seed: int, n: int = PER_BATCH, shapes: list[tuple[int, ...]] = SHAPES) -> Iterator[Edge]:
    rng = np.random.default_rng([9, seed])
    for k in range(n):
        outputs = int(rng.choice([1, 1, 2, 3]))
        network = random_network(
            rng, 3, shapes[rng.integers(0, len(shapes))], outputs, awkward=False
        )
        x = rng.normal(0.0, 1.0, 3)
        delta = float(10.0 ** rng.uniform(-2.5, -0.7))
        if rng.random() < 0.5:
            network, x, delta = (
                _dyadic(network),
                np.round(x * 16) / 16,
                2.0 ** -int(rng.integers(3, 8)),
            )
        changes = hf.PlausibleChanges(delta, biases=bool(rng.random() < 0.8))
        target = int(rng.integers(0, max(2, outputs)))
        yield _on_the_boundary(network, x, target, changes, ULPS[k % len(ULPS)])


def _dyadic(network: hf.Network) -> hf.Network:
    """The same network on a coarse binary grid, where sums and products have no rounding error."""
    weights, biases = (
        [np.round(a * 64) / 64 for a in arrays] for arrays in (network.weights, network.biases)
    )
    return hf.Network(weights, biases)


def _on_the_boundary(
    network: hf.Network, x: np.ndarray, target: int, changes: hf.PlausibleChanges, ulps: int
) -> Edge:
    """The network with the output bias that makes the least margin zero to the last bit, moved on by `ulps`."""
    single = network.n_outputs == 1
    output, sign = (0, 1 if target == 1 else -1) if single else (target, 1)
    least = min(least_margins_exact(network, x, target, changes).values())
    last = network.biases[-1].copy()
    last[output] = float(Fraction(float(last[output])) - sign * least)
    for _ in range(abs(ulps)):
        last[output] = np.nextafter(last[output], np.copysign(np.inf, sign * ulps))
    moved = hf.Network(network.weights, [*network.biases[:-1], last], network.classes)
    return Edge(moved, x, target, changes, least_margins_exact(moved, x, target, changes))


def _float_witness(edge: Edge) -> hf.Network | None:
    """A network of Δ in float64 that flips the class exactly and in floating point, each neuron at an end of its range.

    Not all such networks are tried: a better search may find more, but what is found is never false.
    """
    radii = radii_of(edge.network, edge.changes)
    for signs in product((-1.0, 1.0), repeat=sum(edge.network.hidden)):
        for rival in range(edge.network.n_outputs):
            if edge.network.n_outputs > 1 and rival == edge.target:
                continue
            witness = _push(edge, radii, np.array(signs), rival)
            flips = exact_class(witness, edge.x) != edge.target
            if flips and witness.predict_index(edge.x[None])[0] != edge.target:
                assert inside_exactly(edge.network, edge.changes, witness)
                return witness
    return None


def _push(edge: Edge, radii, signs: np.ndarray, rival: int) -> hf.Network:
    weights, biases = [], []
    start, inputs = 0, np.sign(edge.x)
    for i, (weight, bias) in enumerate(zip(edge.network.weights, edge.network.biases, strict=True)):
        if i < len(edge.network.hidden):
            side = signs[start : start + len(bias)]
            start += len(bias)
        elif edge.network.n_outputs == 1:
            side = np.array([-1.0 if edge.target == 1 else 1.0])
        else:
            side = np.zeros(len(bias))
            side[edge.target], side[rival] = -1.0, 1.0
        weights.append(_inwards(weight, radii.weights[i] * side[:, None] * inputs))
        biases.append(_inwards(bias, radii.biases[i] * side))
        inputs = np.ones(len(bias))
    return hf.Network(weights, biases, edge.network.classes)


def _inwards(center: np.ndarray, step: np.ndarray) -> np.ndarray:
    """center + step, one ulp nearer to center where rounding has gone beyond."""
    moved = center + step
    for index in np.ndindex(moved.shape):
        if abs(Fraction(moved[index]) - Fraction(center[index])) > abs(Fraction(step[index])):
            moved[index] = np.nextafter(moved[index], center[index])
    return moved


def test_the_edges_are_edges():
    """Exact zeros with both kinds of tie, both signs of a single ulp, robust and not: enough of each."""
    edges = list(_edges(0)) + list(_edges(1))
    zeros = [edge for edge in edges if min(edge.margins.values()) == 0]
    assert sum(edge.truth for edge in zeros) >= 10
    assert sum(not edge.truth for edge in zeros) >= 10
    assert 0.3 < np.mean([edge.truth for edge in edges]) < 0.7
    assert max(abs(min(edge.margins.values())) for edge in edges) < Fraction(1, 10**14)


def _false_verdicts(edges: Iterable[Edge], outcomes: Counter[str]) -> list[tuple[Edge, str]]:
    """What `certify` got wrong; UNKNOWN is right only for a broken point that no network of ours flips.

    Or for one whose proof takes multipliers finer than any that are tried: from two hidden layers on, where the least
    margin is nearer to 0 than a few units in the last place of 1.
    """
    wrong = []
    for edge in edges:
        certs = hf.certify(edge.network, edge.x[None], edge.target, edge.changes)
        verdict = certs.verdict[0]
        outcomes[verdict.name] += 1
        if verdict is hf.Verdict.UNKNOWN:
            fine = (
                edge.truth
                and len(edge.network.hidden) > 1
                and 0 < min(edge.margins.values()) < 1e-15
            )
            outcomes["too fine"] += fine
            false = not fine and (edge.truth or _float_witness(edge) is not None)
        else:
            false = (verdict is hf.Verdict.ROBUST) != edge.truth
        if verdict is hf.Verdict.NOT_ROBUST:
            witness = certs.witness(0)
            false |= not inside_exactly(edge.network, edge.changes, witness)
            false |= exact_class(witness, edge.x) == edge.target
            false |= bool(witness.predict_index(edge.x[None])[0] == edge.target)
        if false:
            wrong.append((edge, f"{verdict.name} by {certs.decided_by[0]}"))
    return wrong


@pytest.mark.parametrize("seed", range(BATCHES))
def test_nothing_false_at_the_last_bit(seed: int):
    """1,050 in all."""
    outcomes: Counter[str] = Counter()
    assert _false_verdicts(_edges(seed), outcomes) == []
    assert outcomes["ROBUST"] >= 25
    assert outcomes["NOT_ROBUST"] >= 15
    assert outcomes["UNKNOWN"] <= 35
    assert outcomes["too fine"] <= 5


def test_nothing_false_at_the_last_bit_with_three_hidden_layers():
    """Where the best multipliers of two layers are fractions together, a proof may be missed, but never faked."""
    outcomes: Counter[str] = Counter()
    wrong = _false_verdicts(_edges(100, 40, [(1, 2, 2), (2, 1, 2), (2, 2, 2)]), outcomes)
    assert [what for _, what in wrong if not what.startswith("UNKNOWN")] == []
    assert len(wrong) <= 4
    assert outcomes["ROBUST"] >= 10


def test_margins_are_bounds_at_the_last_bit():
    for edge in _edges(70, 140):
        certs = hf.certify(edge.network, edge.x[None], edge.target, edge.changes)
        least = min(edge.margins.values())
        lower, upper = float(certs.margin_lower[0]), float(certs.margin_upper[0])
        assert lower == -np.inf or Fraction(lower) <= least
        assert upper == np.inf or least <= Fraction(upper)


@pytest.mark.parametrize("seed", [200, 201])
def test_every_stage_is_sound_by_itself(seed: int):
    """What each stage alone believes of the least margin, with its allowance for rounding, against the fraction."""
    for edge in _edges(seed, 100, [(2,), (4,), (2, 2), (3, 3), (2, 3)]):
        prepared, points = Engine(edge.network, edge.changes).prepared(edge.target), edge.x[None]
        interval = prepared.least(points)[0]
        for k, margin in enumerate(prepared.margins):
            exact, layers = (
                edge.margins[None if edge.network.n_outputs == 1 else margin.below],
                prepared.layers[k],
            )
            error = np.asarray(forward_error(layers.norms, np.abs(points).max(axis=1)))
            assert Fraction(float(interval[k] - error[0])) <= exact
            assert Fraction(float(attack(layers, points)[0][0] + error[0])) >= exact
            if len(edge.network.hidden) > 1:
                search = Search(layers, points, np.array([np.inf]), error, gap=np.array([1e-9]))
                search.run(2**12, Deadline.after(None))
                assert Fraction(float(search.root_bound[0])) <= exact
                assert Fraction(float(search.lower[0])) <= exact <= Fraction(float(search.upper[0]))
                assert search.upper[0] - search.lower[0] <= 1e-8


@pytest.mark.parametrize("method", ["joint", "separate", "interval"])
def test_no_method_calls_a_broken_point_robust_at_the_last_bit(method: str):
    for edge in _edges(50, 140):
        certs = hf.certify(edge.network, edge.x[None], edge.target, edge.changes, method=method)
        assert edge.truth or not certs.robust[0]


@pytest.mark.parametrize("method", ["exact", "interval"])
def test_output_bounds_are_sound_at_the_last_bit(method: str):
    """A single logit's least and greatest value in fractions lie inside the floating-point bounds."""
    for edge in _edges(60, 70):
        if edge.network.n_outputs > 1:
            continue
        bounds = hf.output_bounds(edge.network, edge.x[None], edge.changes, method=method)
        least = least_margins_exact(edge.network, edge.x, 1, edge.changes)[None]
        greatest = -least_margins_exact(edge.network, edge.x, 0, edge.changes)[None]
        assert (
            Fraction(float(bounds.lower[0, 0]))
            <= least
            <= greatest
            <= Fraction(float(bounds.upper[0, 0]))
        )


@pytest.mark.parametrize(("target", "robust"), [(0, False), (1, True)])
def test_a_margin_of_exactly_zero_with_one_logit(target: int, robust: bool):
    """z = 0 is class 1: a least margin of zero keeps target 1 and loses target 0."""
    sign = 1.0 if target == 1 else -1.0
    network = hf.Network([[[sign]]], [[sign * 0.5]])
    verdicts = [(np.nextafter(2.0, 0.0), True), (2.0, robust), (np.nextafter(2.0, 3.0), False)]
    for delta, expected in verdicts:
        certs = hf.certify(network, [[0.5]], target, hf.PlausibleChanges(delta, biases=False))
        assert certs.robust.tolist() == [expected]


@pytest.mark.parametrize(("target", "robust"), [(0, True), (1, False)])
def test_a_margin_of_exactly_zero_with_two_logits(target: int, robust: bool):
    """The lower index wins a tie."""
    bias = [2.0, 0.0] if target == 0 else [0.0, 2.0]
    network = hf.Network([[[0.0], [0.0]]], [bias])
    certs = hf.certify(network, [[1.0]], target, hf.PlausibleChanges(0.5))
    assert certs.robust.tolist() == [robust]
    assert hf.certify(
        network, [[1.0]], target, hf.PlausibleChanges(np.nextafter(0.5, 0.0))
    ).robust.tolist() == [True]


@pytest.mark.parametrize("seed", range(4))
def test_numbers_of_every_size(seed: int):
    """Layers, points and radii scaled by powers of two up to 2^±60, and a few denormal numbers: still nothing false."""
    rng = np.random.default_rng([11, seed])
    verdicts: Counter[hf.Verdict] = Counter()
    for _ in range(60):
        outputs = int(rng.choice([1, 3]))
        network = random_network(rng, 3, SHAPES[rng.integers(0, len(SHAPES))], outputs)
        scales = 2.0 ** rng.integers(-60, 61, len(network.weights))
        weights = [w * s for w, s in zip(network.weights, scales, strict=True)]
        biases = [b * s for b, s in zip(network.biases, np.cumprod(scales), strict=True)]
        weights[0][rng.random(weights[0].shape) < 0.1] = 5e-324
        network = hf.Network(weights, biases)
        x = rng.normal(0.0, 1.0, 3) * 2.0 ** int(rng.integers(-2, 3))
        changes = hf.PlausibleChanges(
            tuple((scales * 10.0 ** rng.uniform(-3.0, -0.5)).tolist()), biases=False
        )
        target = int(network.predict_index(x[None])[0])
        margins = least_margins_exact(network, x, target, changes)
        certs = hf.certify(network, x[None], target, changes)
        verdicts[certs.verdict[0]] += 1
        assert (certs.verdict[0] is hf.Verdict.ROBUST) == robust_exactly(margins, target)
        assert Fraction(float(certs.margin_lower[0])) <= min(margins.values())
    assert verdicts[hf.Verdict.UNKNOWN] == 0
    assert min(verdicts[hf.Verdict.ROBUST], verdicts[hf.Verdict.NOT_ROBUST]) >= 5


@pytest.mark.parametrize("hidden", [(2,), (2, 2)], ids=str)
def test_a_network_of_zeros_is_on_every_boundary(hidden: tuple[int, ...]):
    """All parameters 0, z = 0: class 1 today, and lost under any change at all; the least margin is -delta."""
    sizes = [2, *hidden, 1]
    shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
    network = hf.Network(
        [np.zeros(shape) for shape in shapes], [np.zeros(shape[0]) for shape in shapes]
    )
    for target in (0, 1):
        certs = hf.certify(network, [[1.0, -1.0], [0.0, 0.0]], target, hf.PlausibleChanges(5e-324))
        assert not certs.robust.any()
        certs = hf.certify(network, [[1.0, -1.0], [0.0, 0.0]], target, hf.PlausibleChanges(0.5))
        assert certs.verdict.tolist() == [hf.Verdict.NOT_ROBUST] * 2
