"""A few thousand random statements against the exact reference; `bench/fuzz.py` asks for as many as you like."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import holdfast as hf
from fuzz import run
from random_networks import random_network
from reference import Radii, Scaled, exact_logits, inside, least_logit, least_row, robust


@pytest.mark.parametrize("seed", range(4))
def test_nothing_false(seed: int) -> None:
    """Where one stage or one verdict had everything, the others would go unchecked: enough of each is met as well."""
    tally = run(seed, 900)
    assert not tally.false, f"{len(tally.false)} of {tally.statements}:\n" + "\n\n".join(
        tally.false[:3]
    )
    for kind in ("verdict", "witness", "margin", "radius", "range", "certificate", "optimum"):
        assert tally.count(kind) >= 4, (kind, tally.answers)
    verdicts = {answer: n for (kind, answer), n in tally.answers.items() if kind == "verdict"}
    assert sum(n for answer, n in verdicts.items() if answer.startswith("ROBUST")) >= 25, verdicts
    assert (
        sum(n for a, n in verdicts.items() if a.startswith("NOT_ROBUST") and "forward" not in a)
        >= 15
    ), verdicts
    assert len(verdicts) >= 6, verdicts
    assert min(tally.answers["radius", "met"], tally.answers["range", "met"]) >= 10, tally.answers
    assert tally.notes["unknown", "ordinary, box"] <= 2


# --- the reference itself; test_oracle holds it against a MILP --------------------------------------------------------


def test_the_reference_agrees_with_the_corners_of_an_identity_network() -> None:
    """Without ReLU a logit is linear in each parameter alone, so it is least at a corner of the box, of any shape."""
    rng = np.random.default_rng(2)
    compared = 0
    for _ in range(40):
        sizes = [*rng.integers(1, 3, int(rng.integers(2, 5))).tolist(), 1]
        weights = [rng.normal(size=(b, a)) for a, b in itertools.pairwise(sizes)]
        network = hf.Network(
            weights,
            [rng.normal(size=b) for b in sizes[1:]],
            activations=["identity"] * (len(sizes) - 2),
        )
        x, moving = rng.normal(size=sizes[0]), [rng.random(w.shape) < 0.4 for w in weights]
        places = [(i, tuple(place)) for i, mask in enumerate(moving) for place in np.argwhere(mask)]
        ends = [
            rng.uniform(0.0, 1.0, (2, *w.shape)) * mask
            for w, mask in zip(weights, moving, strict=True)
        ]
        if len(places) > 8:
            continue
        radii = [
            Radii((end[0], end[1]), (b * 0.0, b * 0.0))
            for end, b in zip(ends, network.biases, strict=True)
        ]
        scaled = Scaled.of(network, x, radii)
        exact = scaled.fraction(least_row(scaled, scaled.layers[-1][0]))
        corners = []
        for sides in itertools.product((0, 1), repeat=len(places)):
            moved = [w.copy() for w in weights]
            for (i, place), side in zip(places, sides, strict=True):
                moved[i][place] += (2 * side - 1) * ends[i][side][place]
            corners.append(
                float(exact_logits(network.with_parameters(moved, network.biases), x)[0])
            )
        assert float(exact) == pytest.approx(min(corners), rel=1e-9, abs=1e-9)
        compared += 1
    assert compared >= 20


@pytest.mark.parametrize("norm", [1.0, 1.0001, 1.5, 2.0, 50.0, math.inf])
def test_the_closed_form_is_reached_and_not_passed(norm: float) -> None:
    """The change that Hölder's inequality names lies in the ball and takes the margin to its least value."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        network, x = random_network(rng, 3, (), 1), rng.normal(size=3)
        changes = hf.PlausibleChanges(0.25, norm=norm)
        low, high = least_logit(network, x, 0, 1, changes)
        assert low <= high
        one = np.array([*x, 1.0])
        shape = np.abs(one / np.abs(one).max()) ** (
            0.0 if norm == math.inf else 1.0 / max(norm - 1.0, 1e-9)
        )
        length = 1.0 if norm == math.inf else (shape**norm).sum() ** (1.0 / norm)
        step = -0.25 * (1.0 - 1e-12) * np.sign(one) * shape / length
        moved = hf.Network([network.weights[0] + step[:3]], [network.biases[0] + step[3:]])
        assert inside(network, changes, moved)
        assert float(exact_logits(moved, x)[0]) == pytest.approx(float(low), rel=1e-9, abs=1e-9)
        beyond = hf.Network(
            [network.weights[0] + 1.001 * step[:3]], [network.biases[0] + 1.001 * step[3:]]
        )
        assert not inside(network, changes, beyond)


def test_ties_are_told_apart() -> None:
    zero = (Fraction(0), Fraction(0))
    assert robust({None: zero}, 1) is True
    assert robust({None: zero}, 0) is False
    assert robust({1: zero}, 0) is True
    assert robust({0: zero}, 1) is False
    assert robust({None: (Fraction(-1, 10**60), Fraction(1, 10**60))}, 1) is None
