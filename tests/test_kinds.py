"""Every kind of plausible change: what is said under it is true, its values are values, bad input gets a sentence."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import holdfast as hf
from fuzz import Tally, check_kinds
from holdfast.changes import Chance, Changes, changes_from_dict
from kinds import TABLE, Line, directions, random_ellipsoid, random_model


@pytest.mark.parametrize(("kind", "model", "scale"), TABLE)
def test_what_is_said_is_true(kind: str, model: str, scale: str) -> None:
    """Verdicts, bounds, counter-models and radii against fractions; and enough of each is met."""
    tally = Tally()
    for seed in range(12 if kind == "trees" else 25):
        check_kinds(kind, model, scale, seed, tally)
    assert not tally.false, "\n\n".join(tally.false[:3])
    assert not [note for note in tally.notes if note[0] == "refused"], tally.notes
    verdicts = {answer.split()[0]: 0 for kind, answer in tally.answers if kind == "verdict"}
    for (what, answer), count in tally.answers.items():
        if what == "verdict":
            verdicts[answer.split()[0]] += count
    assert (
        min(verdicts["ROBUST"], verdicts["NOT_ROBUST"], tally.answers["witness", "replays"]) >= 8
    ), verdicts
    if scale in ("ordinary", "dyadic"):
        assert verdicts.get("UNKNOWN", 0) <= 0.15 * sum(verdicts.values()), verdicts


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_worst_margin_of_anrandom_ellipsoid_is_a_numerical_minimum(outputs: int) -> None:
    """Minimised over the ellipsoid itself, in coordinates where it is a ball."""
    rng = np.random.default_rng(outputs)
    for _ in range(15):
        network, x = random_model(rng, (), outputs, 3), rng.normal(size=3)
        changes = random_ellipsoid(rng, None, network)
        assert isinstance(changes, hf.Ellipsoid)
        target = int(network.predict_index(x[None])[0])
        half = np.linalg.inv(np.linalg.cholesky(changes.shape)).T
        theta = np.append(network.weights[0], network.biases[0])
        least = math.inf
        for g in directions(network, x, target):
            line, start = half.T @ np.array(g, dtype=float), rng.normal(size=theta.size)
            ball = {"type": "ineq", "fun": lambda s: 1.0 - s @ s, "jac": lambda s: -2.0 * s}
            found = minimize(
                lambda s, line=line: (line @ s, line), start, jac=True, constraints=ball, method="SLSQP",
                options={"ftol": 1e-15, "maxiter": 500},
            )  # fmt: skip
            least = min(
                least, float(np.array(g, dtype=float) @ theta) + changes.radius * float(found.fun)
            )
        certs = hf.certify(network, x[None], target, changes)
        for end in (certs.margin_lower[0], certs.margin_upper[0]):
            assert end == pytest.approx(least, rel=1e-9, abs=1e-9 * changes.radius)


def test_the_curvature_is_the_second_derivative_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    for outputs in (1, 3):
        network, table = random_model(rng, (), outputs, 2), rng.normal(size=(40, 2))
        theta = np.append(network.weights[0], network.biases[0])

        def loss(
            step: np.ndarray, network: hf.Network = network, table: np.ndarray = table
        ) -> float:
            z = hf.Ellipsoid.moved(network, step).logits(table)
            z = np.hstack([0.0 * z, z]) if network.n_outputs == 1 else z
            return float(np.log(np.exp(z).sum(axis=1)).sum())

        size, unit = theta.size, np.eye(theta.size) * 1e-4
        numeric = [
            [(loss(a + b) - loss(a - b) - loss(b - a) + loss(-a - b)) / 4e-8 for b in unit]
            for a in unit
        ]
        assert np.array(numeric).reshape(size, size) == pytest.approx(
            hf.Ellipsoid.of(network, table).shape, abs=1e-4
        )


def test_columns_in_other_units_are_the_same_question() -> None:
    """H in any units, however far apart: the same radii."""
    rng = np.random.default_rng(5)
    network, table = random_model(rng, (), 1, 3), rng.normal(size=(200, 3))
    units = np.array([1e-20, 1.0, 1e25])
    other = hf.Network([network.weights[0] / units], network.biases)
    points, targets = table[:20], network.predict(table[:20])
    radii = hf.certified_radius(network, points, targets, changes=hf.Ellipsoid.of(network, table))
    again = hf.certified_radius(
        other, points * units, targets, changes=hf.Ellipsoid.of(other, table * units)
    )
    assert again.lower == pytest.approx(radii.lower, rel=1e-6)


# --- values ----------------------------------------------------------------------------------------------------------

NET = hf.Network([[[-1.0, 1.0]]], [[0.0]])
VALUES: list[Changes] = [
    hf.PlausibleChanges(0.1),
    hf.PlausibleShift(0.5),
    hf.EnsembleShift([NET, hf.Network([[[-1.0, 2.0]]], [[0.0]])], 0.25),
    hf.Ellipsoid(np.diag([1.0, 4.0, 4.0]), 0.5),
    hf.TreeChanges(leaves=[0.1, 0.2], thresholds={"a": 1.0}, dropped=1, shift=0.25),
]


@pytest.mark.parametrize("changes", VALUES, ids=lambda changes: changes.kind)
def test_values_survive_files_and_processes(changes: Changes) -> None:
    for one in (changes, changes.calibrated(Chance(0.1, 20, 0.9, "fine-tuned"))):
        read = changes_from_dict(json.loads(json.dumps(one.to_dict())))
        assert read == one
        assert hash(read) == hash(one)
        copy = pickle.loads(pickle.dumps(one))
        assert (copy, hash(copy), copy.chance) == (one, hash(one), one.chance)
        assert copy.resized(2.0 * one.size).size == 2.0 * one.size
        assert copy.resized(one.size) == changes
        assert one.words in repr(one) or repr(one).startswith(type(one).__name__)
    assert changes != changes.calibrated(Chance(0.1, 20))
    assert len({*VALUES, changes}) == len(VALUES)


# --- bad input -------------------------------------------------------------------------------------------------------

DEEP = hf.Network([[[1.0, 1.0]], [[1.0]]], [[0.0], [0.0]])
THREE = hf.Network([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]], [[0.0, 0.0, 0.0]])
SCORES = hf.scored(Line(np.ones((1, 2))), output="margin")
NAMED = hf.scored(Line(np.ones((1, 2))), output="margin", columns=("a", "b"))
OTHERS = hf.scored(Line(np.ones((1, 2))), output="margin", columns=("a", "c"))
EYE = np.eye(3)

BAD: list[tuple[Callable[[], object], str]] = [
    (
        lambda: hf.Ellipsoid(np.ones((3, 3)), 1.0),
        "positive definite matrix, got eigenvalues from",
    ),
    (lambda: hf.Ellipsoid(np.diag([1.0, -1.0]), 1.0), "positive definite"),
    (lambda: hf.Ellipsoid(np.zeros((2, 2)), 1.0), "Ellipsoid.of"),
    (
        lambda: hf.Ellipsoid([[1.0, 0.5], [0.0, 1.0]], 1.0),
        "symmetric matrix; this one differs from its transpose by 0.5",
    ),
    (lambda: hf.Ellipsoid(np.ones((2, 3)), 1.0), "square matrix, got shape"),
    (lambda: hf.Ellipsoid(np.zeros((0, 0)), 1.0), "square matrix, got shape"),
    (lambda: hf.Ellipsoid([[1.0, math.nan], [math.nan, 1.0]], 1.0), "finite numbers, got nan"),
    (lambda: hf.Ellipsoid([["a"]], 1.0), "shape: expected numbers"),
    (lambda: hf.Ellipsoid(EYE, -1.0), "radius: expected a number >= 0 and finite, got -1.0"),
    (lambda: hf.Ellipsoid(EYE, math.inf), "radius: expected a number >= 0 and finite, got inf"),
    (lambda: hf.Ellipsoid.of(NET, np.zeros((0, 2))), "at least one row, got an empty table"),
    (
        lambda: hf.Ellipsoid.of(DEEP, [[1.0, 2.0]]),
        "expected a linear model such as a logistic regression, got",
    ),
    (
        lambda: hf.certify(DEEP, [[1.0, 2.0]], 1, hf.Ellipsoid(np.eye(5), 1.0)),
        "expected a linear model",
    ),
    (
        lambda: hf.certify(NET, [[1.0, 2.0]], 1, hf.Ellipsoid(np.eye(4), 1.0)),
        "model's 3 parameters, .* got 4",
    ),
    (
        lambda: hf.certify(SCORES, [[1.0, 2.0]], 1, hf.Ellipsoid(EYE, 1.0)),
        "use PlausibleShift or EnsembleShift as changes",
    ),
    (
        lambda: hf.certify(SCORES, [[1.0, 2.0]], 1, hf.PlausibleChanges(0.1)),
        "known by its scores alone: use PlausibleShift",
    ),
    (lambda: hf.PlausibleShift(-0.5), "margin: expected a number >= 0 and finite, got -0.5"),
    (lambda: hf.PlausibleShift(math.nan), "margin: expected a number >= 0 and finite, got nan"),
    (lambda: hf.PlausibleShift(True), "margin: expected a number >= 0 and finite, got True"),
    (lambda: hf.PlausibleShift("a"), "margin: expected a number >= 0 and finite, got 'a'"),  # type: ignore[arg-type]
    (lambda: hf.EnsembleShift([], 0.5), "at least one retrained model, got none"),
    (lambda: hf.EnsembleShift(7, 0.5), "a list of retrained models, got int"),  # type: ignore[arg-type]
    (
        lambda: hf.certify(NET, [[1.0, 2.0]], 1, hf.EnsembleShift([THREE], 0.5)),
        r"classes \[0, 1\], got \[0, 1, 2\]",
    ),
    (
        lambda: hf.certify(
            NET, [[1.0, 2.0]], 1, hf.EnsembleShift([hf.Network([[[1.0]]], [[0.0]])], 0.5)
        ),
        "of 2 variables",
    ),
    (
        lambda: hf.certify(NAMED, [[1.0, 2.0]], 1, hf.EnsembleShift([OTHERS], 0.5)),
        r"columns \['a', 'b'\], got",
    ),
    (
        lambda: hf.certify(NET, [[1.0, 2.0]], 1, changes_from_dict(VALUES[2].to_dict())),
        "only the names of the retrained models",
    ),
    (lambda: hf.certify(NET, [[1.0, 2.0]], 1, hf.EnsembleShift(["model"], 0.5)), "expected"),
    (lambda: hf.certify(object(), [[1.0, 2.0]], 1, hf.PlausibleShift(0.5)), "expected"),
    (
        lambda: hf.certify(
            hf.scored(lambda t: t[:, 0] / 0, output="margin"), [[1.0]], 1, VALUES[1]
        ),
        "a finite score for",
    ),
    (lambda: changes_from_dict({"kind": "storm"}), r"one of the kinds .*, got 'storm'"),
    (lambda: Chance(0.0, 3), "broken: expected a share above 0 and below 1, got 0.0"),
    (lambda: Chance(0.1, 3, 1.5), "probability: expected a share above 0 and below 1, got 1.5"),
]


@pytest.mark.parametrize(("bad", "sentence"), BAD)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_bad_input_gets_a_sentence(bad: Callable[[], object], sentence: str) -> None:
    with pytest.raises(hf.HoldfastError, match=sentence):
        bad()


def test_models_of_the_ensemble_read_what_todays_reads() -> None:
    """Points of a space are turned back into rows for every model; columns by name."""
    table = pd.DataFrame({"a": [0.0, 10.0, 4.0], "b": [100.0, 300.0, 250.0]})
    space = hf.FeatureSpace.from_frame(table)

    def score(weights: tuple[float, float]) -> hf.Classifier:
        return hf.scored(
            lambda rows: rows["a"] * weights[0] + rows["b"] * weights[1],
            output="margin",
            columns=("a", "b"),
        )

    changes = hf.EnsembleShift([score((1.0, 0.0)), score((3.0, 0.5))], 20.0)
    certs = hf.certify(score((1.0, 0.1)), table, 1, changes, space=space)
    assert certs.margin_lower == pytest.approx([5.0, 40.0, 29.0], abs=1e-6)
