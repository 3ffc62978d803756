"""Every kind of plausible change with every kind of model: one table of cases, and fractions to hold the answers against.

Nothing here shares code with what it tests: worst margins are computed by elimination in fractions, or minimised.
"""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import holdfast as hf
from holdfast.changes import Chance, Changes, changes_from_dict
from reference import exact_logits

Exact = list[Fraction]


# --- what is true ----------------------------------------------------------------------------------------------------


def logits_of(model: Any, x: np.ndarray) -> Exact:
    """The scores of a model at a point, exactly."""
    if isinstance(model, hf.Network):
        return exact_logits(model, x)
    return [Fraction(score) for score in model.logits(x[None])[0].tolist()]


def rivals_of(logits: Exact, target: int, tie: int) -> list[tuple[Fraction, bool]]:
    """The margin over each rival, and whether a tie with it is lost."""
    if len(logits) == 1:
        return [(logits[0] if target else -logits[0], target != tie)]
    return [(logits[target] - logit, rival < target) for rival, logit in enumerate(logits) if rival != target]


def accepts(model: Any, x: np.ndarray, target: int) -> bool:
    """Whether a model gives the class, in exact arithmetic."""
    return all(m > 0 or (m == 0 and not lost) for m, lost in rivals_of(logits_of(model, x), target, model.tie))


def inverse_square(shape: np.ndarray, direction: list[Fraction]) -> Fraction:
    """gᵀ H⁻¹ g by plain elimination in fractions."""
    rows = [[Fraction(h) for h in row] + [g] for row, g in zip(shape.tolist(), direction, strict=True)]
    total = Fraction(0)
    for i, pivot in enumerate(rows):
        for row in rows[i + 1 :]:
            factor = row[i] / pivot[i]
            row[i:] = [a - factor * b for a, b in zip(row[i:], pivot[i:], strict=True)]
        total += pivot[-1] ** 2 / pivot[i]
    return total


def directions(network: hf.Network, x: np.ndarray, target: int) -> list[list[Fraction]]:
    """For each rival g with  margin = gᵀθ,  θ the weights, output by output, and then the biases."""
    point, k = [Fraction(v) for v in x.tolist()], network.n_outputs
    signs = (
        [[1 if target else -1]]
        if k == 1
        else [[int(o == target) - int(o == rival) for o in range(k)] for rival in range(k) if rival != target]
    )
    return [[s * v for s in row for v in point] + [Fraction(s) for s in row] for row in signs]


def worst_of(model: Any, changes: Changes, x: np.ndarray, target: int) -> tuple[bool, Fraction, Fraction]:
    """Whether the promise holds; and an enclosure of the worst margin."""
    today = rivals_of(logits_of(model, x), target, model.tie)
    if isinstance(changes, hf.Ellipsoid):
        holds, ends = True, []
        for (margin, lost), g in zip(today, directions(model, x, target), strict=True):
            square = Fraction(changes.radius) ** 2 * inverse_square(changes.shape, g)
            holds = holds and margin >= 0 and (margin**2 > square or (margin**2 == square and not lost))
            low = root(square)
            ends.append((margin - low * (1 + Fraction(1, 2**200)), margin - low))
        return holds, min(low for low, _ in ends), min(high for _, high in ends)
    models = list(changes.models) if isinstance(changes, hf.EnsembleShift) else [model]
    each = [rivals_of(logits_of(one, x), target, model.tie) for one in models]
    least = min(sum(m for m, _ in rival) / len(models) for rival in zip(*each, strict=True)) - Fraction(changes.size)
    # Whatever has that margin may become of the model: also one with a tie that is lost, if any is.
    lost = any(lost for _, lost in today)
    kept = (least > 0 or (least == 0 and not lost)) and accepts(model, x, target)
    least = min(least, *(m for m, _ in today))
    return kept, least, least


def root(square: Fraction) -> Fraction:
    """The square root of a fraction, from below, to 2**-200 relatively."""
    if not square:
        return square
    shift = 2 * (210 + max(0, square.denominator.bit_length() - square.numerator.bit_length()))
    return Fraction(math.isqrt((square.numerator << shift) // square.denominator), 2 ** (shift // 2))


def belongs(model: Any, changes: Changes, x: np.ndarray, target: int, witness: Any) -> bool:
    """Whether a counter-model is one of those that may come, in exact arithmetic."""
    if witness is model:
        return True
    if isinstance(changes, hf.Ellipsoid):
        ours, theirs = (np.append(net.weights[0], net.biases[0]).tolist() for net in (model, witness))
        step = [Fraction(b) - Fraction(a) for a, b in zip(ours, theirs, strict=True)]
        shape = changes.shape.tolist()
        length = sum(
            step[i] * sum(Fraction(h) * s for h, s in zip(shape[i], step, strict=True)) for i in range(len(step))
        )
        return bool(length <= Fraction(changes.radius) ** 2)
    own = min(m for m, _ in rivals_of(logits_of(witness, x), target, model.tie))
    models = list(changes.models) if isinstance(changes, hf.EnsembleShift) else [model]
    each = [rivals_of(logits_of(one, x), target, model.tie) for one in models]
    least = min(sum(m for m, _ in rival) / len(models) for rival in zip(*each, strict=True))
    return bool(own >= least - Fraction(changes.size))


# --- the table of cases ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A model, a kind of change, and points with the classes that they should keep."""

    model: Any
    changes: Changes
    points: np.ndarray
    targets: np.ndarray


def _network(rng: np.random.Generator, hidden: tuple[int, ...], outputs: int, d: int, kind: str = "relu") -> hf.Network:
    sizes = [d, *hidden, outputs]
    weights = [rng.normal(size=(b, a)) for a, b in zip(sizes, sizes[1:], strict=False)]
    biases = [rng.normal(size=b) * 0.3 for b in sizes[1:]]
    return hf.Network(weights, biases, activations=[kind] * len(hidden))


MODELS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "linear": lambda rng, d: _network(rng, (), 1, d),
    "several classes": lambda rng, d: _network(rng, (), 3, d),
    "network": lambda rng, d: _network(rng, (3, 2), 1, d),
    "network of several classes": lambda rng, d: _network(rng, (3,), 3, d),
    "identity layers": lambda rng, d: _network(rng, (2, 2), 2, d, "identity"),
    "scores": lambda rng, d: hf.scored(_Line(rng.normal(size=(1, d))), output="margin"),
    "scores of several classes": lambda rng, d: hf.scored(
        _Line(rng.normal(size=(3, d))), classes=(0, 1, 2), output="margin"
    ),
}


@dataclass(frozen=True)
class _Line:
    """A score that no reader looks into."""

    weight: np.ndarray

    def __call__(self, table: Any) -> np.ndarray:
        # A sum that does not depend on how many rows there are.
        return np.sum(np.asarray(table, dtype=float)[:, None, :] * self.weight, axis=2)


def _shift(rng: np.random.Generator, make: Callable[[], Any], model: Any) -> Changes:
    return hf.PlausibleShift(float(10.0 ** rng.uniform(-3, 0.5)) * rng.integers(0, 3))


def _ensemble(rng: np.random.Generator, make: Callable[[], Any], model: Any) -> Changes:
    return hf.EnsembleShift([make() for _ in range(int(rng.integers(1, 4)))], float(10.0 ** rng.uniform(-3, 0.3)))


def _ellipsoid(rng: np.random.Generator, make: Callable[[], Any], model: Any, spread: float = 1.5) -> Changes:
    """A shape with eigenvalues that lie so many powers of ten apart, and more."""
    n = model.n_parameters
    turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
    shape = (turn * 10.0 ** rng.uniform(-spread, spread, n)) @ turn.T
    return hf.Ellipsoid((shape + shape.T) / 2.0, float(10.0 ** rng.uniform(-3, 0.5)))


KINDS = {"shift": _shift, "ensemble": _ensemble, "ellipsoid": _ellipsoid}
TABLE = [
    (kind, model, scale)
    for kind in KINDS
    for model in MODELS
    for scale in ("ordinary", "dyadic", "extreme", "ill")
    if kind != "ellipsoid" or model in ("linear", "several classes")
    if kind == "ellipsoid" or scale != "ill"
]


def question(kind: str, model: str, seed: int, scale: str) -> Question:
    """Points and parameters of any size, half of them moved to where the answer turns."""
    rng = np.random.default_rng([seed, *map(ord, kind + model)])
    d = int(rng.integers(1, 4))
    make = lambda: MODELS[model](rng, d)  # noqa: E731
    today = make()
    changes = KINDS[kind](rng, make, today) if scale != "ill" else _ellipsoid(rng, make, today, 5.0)
    points = rng.normal(size=(4, d)) * (rng.random((4, d)) > 0.1)
    if scale == "dyadic":
        points = np.round(4 * points) / 4
        today, changes = _dyadic(today, changes)
    elif scale == "extreme":
        today, changes, points = _extreme(rng, today, changes, points)
    targets = today.predict_index(points)
    if rng.random() < 0.2:
        targets = rng.integers(0, len(today.classes), 4)
    return Question(today, _at_the_edge(rng, today, changes, points[0], int(targets[0]), scale), points, targets)


def _dyadic(model: Any, changes: Changes) -> tuple[Any, Changes]:
    """Few bits in everything, so that margins meet shifts exactly."""
    if isinstance(changes, hf.Ellipsoid):
        changes = hf.Ellipsoid(np.diag(4.0 ** np.round(np.log2(np.diag(changes.shape)) / 2.0)), 0.25)
    elif isinstance(changes, hf.EnsembleShift):
        changes = hf.EnsembleShift([_rounded(one) for one in changes.models], round(4 * changes.size) / 4)
    else:
        changes = changes.resized(round(4 * changes.size) / 4)
    return _rounded(model), changes


def _rounded(model: Any) -> Any:
    if not isinstance(model, hf.Network):
        return hf.scored(_Line(np.round(2 * model.score.weight) / 2), classes=model.labels, output="margin")
    weights, biases = ([np.round(2 * part) / 2 for part in parts] for parts in (model.weights, model.biases))
    return model.with_parameters(weights, biases)


def _extreme(
    rng: np.random.Generator, model: Any, changes: Changes, points: np.ndarray
) -> tuple[Any, Changes, np.ndarray]:
    """Columns in units from 1e-30 to 1e30."""
    units = 10.0 ** rng.uniform(-30, 30, points.shape[1])
    if isinstance(model, hf.Network):
        size = 10.0 ** rng.uniform(-30, 30)
        weights = [model.weights[0] / units, *model.weights[1:]]
        weights[-1] = weights[-1] * size
        model = model.with_parameters(weights, [*model.biases[:-1], model.biases[-1] * size])
        if isinstance(changes, hf.Ellipsoid):
            each = size / np.append(np.tile(units, model.n_outputs), np.ones(model.n_outputs))
            each *= 10.0 ** rng.uniform(-6, 6)
            changes = hf.Ellipsoid(changes.shape / each / each[:, None], changes.radius)
        elif not isinstance(changes, hf.EnsembleShift):
            changes = changes.resized(changes.size * size)
    return model, changes, points * units


def _at_the_edge(
    rng: np.random.Generator, model: Any, changes: Changes, x: np.ndarray, target: int, scale: str
) -> Changes:
    """The size at which the answer for one point turns, or a hair beside it; else the changes as they are."""
    if rng.random() < 0.4:
        return changes
    lower, upper = hf.certified_radius(model, x[None], model.classes[target], changes=changes).to_frame().iloc[0]
    if not 0.0 < upper < 1e200:
        return changes
    size = 0.5 * (lower + upper) * (1.0 + rng.choice([-1.0, 1.0]) * rng.choice([0.0, 1e-16, 1e-15, 1e-13, 1e-9, 0.1]))
    return changes.resized(
        round(64 * size) / 64 if scale == "dyadic" and not isinstance(changes, hf.Ellipsoid) else size
    )


@pytest.mark.parametrize(("kind", "model", "scale"), TABLE)
def test_what_is_said_is_true(kind: str, model: str, scale: str) -> None:
    """Verdicts, bounds, counter-models and radii against fractions; and enough of each verdict is met."""
    met: dict[str, int] = {}
    for seed in range(25):
        asked = question(kind, model, seed, scale)
        labels = asked.model.classes[asked.targets]
        certs = hf.certify(asked.model, asked.points, labels, asked.changes)
        radii = hf.certified_radius(asked.model, asked.points, labels, changes=asked.changes)
        for i, (x, target) in enumerate(zip(asked.points, asked.targets.tolist(), strict=True)):
            about = f"question({kind!r}, {model!r}, {seed}, {scale!r}), row {i}"
            holds, low, high = worst_of(asked.model, asked.changes, x, target)
            verdict = certs.verdict[i].name
            met[verdict] = met.get(verdict, 0) + 1
            assert verdict == "UNKNOWN" or (verdict == "ROBUST") == holds, about
            assert Fraction(certs.margin_lower[i]) <= high, about
            assert Fraction(certs.margin_upper[i]) >= low, about
            size = float(max(abs(m) for m, _ in rivals_of(logits_of(asked.model, x), target, 0)))
            if scale == "ordinary":
                assert certs.margin_lower[i] == pytest.approx(float(low), rel=1e-9, abs=1e-9 * size), about
            assert verdict != "UNKNOWN" or scale in ("extreme", "ill") or abs(high) <= 1e-10 * size + 1e-200, about
            if verdict == "NOT_ROBUST":
                witness = certs.witness(i)
                assert int(witness.predict_index(x[None])[0]) != target, about
                assert not accepts(witness, x, target), about
                assert belongs(asked.model, asked.changes, x, target, witness), about
            _check_radius(asked, x, target, float(radii.lower[i]), float(radii.upper[i]), about)
            if scale == "ordinary" and radii.lower[i] > 0.0:
                assert radii.upper[i] == pytest.approx(radii.lower[i], rel=1e-6), about
    assert met.get("ROBUST", 0) >= 8, met
    assert met.get("NOT_ROBUST", 0) >= 8, met


def _check_radius(asked: Question, x: np.ndarray, target: int, lower: float, upper: float, about: str) -> None:
    """It holds below the lower end, and is broken from the upper end on."""
    assert 0.0 <= lower <= upper
    below = math.nextafter(lower, 0.0)
    if lower > 0.0:
        assert worst_of(asked.model, asked.changes.resized(below), x, target)[0], about
    if upper < math.inf:
        assert not worst_of(asked.model, asked.changes.resized(upper), x, target)[0], about


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_worst_margin_of_an_ellipsoid_is_a_numerical_minimum(outputs: int) -> None:
    """Minimised over the ellipsoid itself, in coordinates where it is a ball."""
    rng = np.random.default_rng(outputs)
    for _ in range(15):
        network, x = _network(rng, (), outputs, 3), rng.normal(size=3)
        changes = _ellipsoid(rng, lambda: network, network)
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
            least = min(least, float(np.array(g, dtype=float) @ theta) + changes.radius * float(found.fun))
        certs = hf.certify(network, x[None], target, changes)
        for end in (certs.margin_lower[0], certs.margin_upper[0]):
            assert end == pytest.approx(least, rel=1e-9, abs=1e-9 * changes.radius)


def test_the_curvature_is_the_second_derivative_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    for outputs in (1, 3):
        network, table = _network(rng, (), outputs, 2), rng.normal(size=(40, 2))
        theta = np.append(network.weights[0], network.biases[0])

        def loss(step: np.ndarray, network: hf.Network = network, table: np.ndarray = table) -> float:
            z = hf.Ellipsoid.moved(network, step).logits(table)
            z = np.hstack([0.0 * z, z]) if network.n_outputs == 1 else z
            return float(np.log(np.exp(z).sum(axis=1)).sum())

        size, unit = theta.size, np.eye(theta.size) * 1e-4
        numeric = [[(loss(a + b) - loss(a - b) - loss(b - a) + loss(-a - b)) / 4e-8 for b in unit] for a in unit]
        assert np.array(numeric).reshape(size, size) == pytest.approx(hf.Ellipsoid.of(network, table).shape, abs=1e-4)


def test_columns_in_other_units_are_the_same_question() -> None:
    """H in any units, however far apart: the same radii."""
    rng = np.random.default_rng(5)
    network, table = _network(rng, (), 1, 3), rng.normal(size=(200, 3))
    units = np.array([1e-20, 1.0, 1e25])
    other = hf.Network([network.weights[0] / units], network.biases)
    points, targets = table[:20], network.predict(table[:20])
    radii = hf.certified_radius(network, points, targets, changes=hf.Ellipsoid.of(network, table))
    again = hf.certified_radius(other, points * units, targets, changes=hf.Ellipsoid.of(other, table * units))
    assert again.lower == pytest.approx(radii.lower, rel=1e-6)


# --- values ----------------------------------------------------------------------------------------------------------

NET = hf.Network([[[-1.0, 1.0]]], [[0.0]])
VALUES: list[Changes] = [
    hf.PlausibleChanges(0.1),
    hf.PlausibleShift(0.5),
    hf.EnsembleShift([NET, hf.Network([[[-1.0, 2.0]]], [[0.0]])], 0.25),
    hf.Ellipsoid(np.diag([1.0, 4.0, 4.0]), 0.5),
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
SCORES = hf.scored(_Line(np.ones((1, 2))), output="margin")
NAMED = hf.scored(_Line(np.ones((1, 2))), output="margin", columns=("a", "b"))
OTHERS = hf.scored(_Line(np.ones((1, 2))), output="margin", columns=("a", "c"))
EYE = np.eye(3)

BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: hf.Ellipsoid(np.ones((3, 3)), 1.0), "positive definite by more than rounding, got .* eigenvalues from"),
    (lambda: hf.Ellipsoid(np.diag([1.0, -1.0]), 1.0), "positive definite"),
    (lambda: hf.Ellipsoid(np.zeros((2, 2)), 1.0), "Ellipsoid.of"),
    (lambda: hf.Ellipsoid([[1.0, 0.5], [0.0, 1.0]], 1.0), "symmetric matrix, got one that differs by 0.5"),
    (lambda: hf.Ellipsoid(np.ones((2, 3)), 1.0), "square matrix, got shape"),
    (lambda: hf.Ellipsoid(np.zeros((0, 0)), 1.0), "square matrix, got shape"),
    (lambda: hf.Ellipsoid([[1.0, math.nan], [math.nan, 1.0]], 1.0), "finite numbers, got nan"),
    (lambda: hf.Ellipsoid([["a"]], 1.0), "shape: expected numbers"),
    (lambda: hf.Ellipsoid(EYE, -1.0), "radius: expected a number >= 0 and finite, got -1.0"),
    (lambda: hf.Ellipsoid(EYE, math.inf), "radius: expected a number >= 0 and finite, got inf"),
    (lambda: hf.Ellipsoid.of(NET, np.zeros((0, 2))), "at least one row, got an empty table"),
    (lambda: hf.Ellipsoid.of(DEEP, [[1.0, 2.0]]), "expected a linear model such as a logistic regression, got"),
    (lambda: hf.certify(DEEP, [[1.0, 2.0]], 1, hf.Ellipsoid(np.eye(5), 1.0)), "expected a linear model"),
    (lambda: hf.certify(NET, [[1.0, 2.0]], 1, hf.Ellipsoid(np.eye(4), 1.0)), "model's 3 parameters, .* got 4"),
    (lambda: hf.certify(SCORES, [[1.0, 2.0]], 1, hf.Ellipsoid(EYE, 1.0)), "PlausibleShift and EnsembleShift"),
    (lambda: hf.certify(SCORES, [[1.0, 2.0]], 1, hf.PlausibleChanges(0.1)), "PlausibleShift and EnsembleShift"),
    (lambda: hf.PlausibleShift(-0.5), "margin: expected a number >= 0 and finite, got -0.5"),
    (lambda: hf.PlausibleShift(math.nan), "margin: expected a number >= 0 and finite, got nan"),
    (lambda: hf.PlausibleShift(True), "margin: expected a number >= 0 and finite, got True"),
    (lambda: hf.PlausibleShift("a"), "margin: expected a number >= 0 and finite, got 'a'"),  # type: ignore[arg-type]
    (lambda: hf.EnsembleShift([], 0.5), "at least one retrained model, got none"),
    (lambda: hf.EnsembleShift(7, 0.5), "several retrained models, got 7"),  # type: ignore[arg-type]
    (lambda: hf.certify(NET, [[1.0, 2.0]], 1, hf.EnsembleShift([THREE], 0.5)), r"classes \[0, 1\], got \[0, 1, 2\]"),
    (
        lambda: hf.certify(NET, [[1.0, 2.0]], 1, hf.EnsembleShift([hf.Network([[[1.0]]], [[0.0]])], 0.5)),
        "of 2 variables",
    ),
    (lambda: hf.certify(NET, [[1.0, 2.0]], 1, hf.EnsembleShift([SCORES], 0.5)), "expected networks, .* hf.scored"),
    (lambda: hf.certify(NAMED, [[1.0, 2.0]], 1, hf.EnsembleShift([OTHERS], 0.5)), r"columns \['a', 'b'\], got"),
    (lambda: hf.certify(NET, [[1.0, 2.0]], 1, changes_from_dict(VALUES[2].to_dict())), "got only their names"),
    (lambda: hf.certify(NET, [[1.0, 2.0]], 1, hf.EnsembleShift(["model"], 0.5)), "expected"),
    (lambda: hf.certify(object(), [[1.0, 2.0]], 1, hf.PlausibleShift(0.5)), "expected"),
    (
        lambda: hf.certify(hf.scored(lambda t: t[:, 0] / 0, output="margin"), [[1.0]], 1, VALUES[1]),
        "a finite score for",
    ),
    (lambda: changes_from_dict({"kind": "storm"}), r"one of the kinds \[.*\], got 'storm'"),
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
            lambda rows: rows["a"] * weights[0] + rows["b"] * weights[1], output="margin", columns=("a", "b")
        )

    changes = hf.EnsembleShift([score((1.0, 0.0)), score((3.0, 0.5))], 20.0)
    certs = hf.certify(score((1.0, 0.1)), table, 1, changes, space=space)
    assert certs.margin_lower == pytest.approx([5.0, 40.0, 29.0], abs=1e-6)
