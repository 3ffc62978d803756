"""Every stated chance, simulated: each printed sentence is checked for the person who reads it.

    python bench/chances.py                                  # 2,000 runs of each world; took an hour on 2 busy cores
    python bench/chances.py --quick                          # 100 runs of each
    python bench/chances.py --only delta expiry --worlds 9000

A world draws models, people and rows; a run of it calls the public functions and gets a sentence, or no answer. Models
that no call has seen say how often the sentence fails. The sentence decides how it is judged:

    "... counts as kept"                  over all runs; a run without an answer fails nothing
    "if they are at least every second"   over the runs with an answer, where these are at least every second
    neither                               over the runs with an answer, however rare

A sentence is violated if it fails more often than it says by more than three standard errors; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

import holdfast as hf
from holdfast.generators import MCE
from report import Table, publish

Rng = np.random.Generator
# Models that no call has seen, in each run.
NEXT = 20
# How many standard errors count as more.
ERRORS = 3.0


# ------------------------------------------------------------------ the judge


@dataclass(frozen=True)
class Claim:
    """What a sentence says: `about` fails at most with `allowed`, on average over which runs."""

    about: str
    allowed: float
    # "all", "answered", or "often": answered, where these are at least every second.
    over: str


@dataclass(frozen=True)
class Run:
    """What one run printed, and how often what it says failed; without a sentence there was no answer."""

    sentence: str = ""
    failed: dict[str, float] = field(default_factory=dict)


SHARE = r"(1 in \d+|[\d.]+%)"
# What a sentence may say, what it is about, and how often that may fail.
SAID: list[tuple[str, str, Callable[..., float]]] = [
    (
        rf"at most {SHARE}(?: of such promises)? is expected to be broken",
        "promises",
        lambda a: share(a),
    ),
    (
        r"with probability (?:at least )?([\d.]+) the next model breaks",
        "promises",
        lambda p: 1 - float(p),
    ),
    (r"stays within (?:it|Δ) with probability at least ([\d.]+)", "inside", lambda p: 1 - float(p)),
    (
        r"with confidence ([\d.]+) at least [\d.]+ of the retrainings",
        "inside",
        lambda c: 1 - float(c),
    ),
    (
        r"with probability ([\d.]+)% (?:it|the model) moves by up to",
        "drift",
        lambda p: 1 - float(p) / 100,
    ),
    (r"are expected to be kept, with confidence ([\d.]+)%", "share", lambda p: 1 - float(p) / 100),
]
GIVEN = rf"(?:it is at most {SHARE}|the probability is at least ([\d.]+)), if they are at least every second"


def share(words: str) -> float:
    """The number in "1 in 10" or "12%"."""
    return 1 / int(words[5:]) if words.startswith("1 in") else float(words.rstrip("%")) / 100


def claims(sentence: str) -> list[Claim]:
    """What a sentence says, read literally."""
    over = "all" if re.search("count(?:s|ed) as ke(pt|eping)", sentence) else "answered"
    found = []
    for pattern, about, allowed in SAID:
        said = re.search(pattern, sentence)
        if said:
            found.append(
                Claim(about, allowed(said[1]), over if about == "promises" else "answered")
            )
    often = re.search(GIVEN, sentence)
    if often:
        most = share(often[1]) if often[1] else 1 - float(often[2])
        found.append(Claim("promises", most, "often"))
    if not found:
        raise ValueError(f"expected a chance in the sentence, got {sentence!r}")
    return found


@dataclass(frozen=True)
class Judged:
    """One claim, judged on the runs of a world."""

    claim: Claim
    runs: int
    answered: int
    # Mean and standard error over all runs, and over those with an answer.
    in_all: tuple[float, float]
    given: tuple[float, float]

    @property
    def verdict(self) -> str:
        """Whether the claim is kept, violated, or says nothing of this world."""
        if not self.answered:
            return "no answer"
        if self.claim.over == "often" and self.answered < self.runs / 2:
            return "says nothing"
        mean, error = self.in_all if self.claim.over == "all" else self.given
        return "VIOLATED" if mean > self.claim.allowed + ERRORS * error + 1e-9 else "kept"


def judge(runs: Sequence[Run]) -> list[Judged]:
    """Each claim that the sentences of a world make, and whether it is kept."""
    answers = [run for run in runs if run.sentence]
    judged = []
    for claim in dict.fromkeys(claim for run in answers for claim in claims(run.sentence)):
        given = np.array(
            [run.failed[claim.about] for run in answers if claim in claims(run.sentence)]
        )
        in_all = np.concatenate([given, np.zeros(len(runs) - len(given))])
        judged.append(Judged(claim, len(runs), len(given), summary(in_all), summary(given)))
    return judged


def summary(values: np.ndarray) -> tuple[float, float]:
    """The mean and its standard error; of few values never less than one more failure would give."""
    n = len(values)
    if not n:
        return 0.0, 0.0
    mean = float(values.mean())
    padded = np.append(values, [0.0, 1.0])
    return mean, max(float(values.std()), float(padded.std()) if n < 30 else 0.0) / math.sqrt(n)


# ------------------------------------------------------------------ models one number wide


def line(bias: float, weight: float = 1.0) -> hf.Network:
    """Accepts x where weight x + bias > 0."""
    return hf.Network([[[weight]]], [[bias]])


TODAY = line(-0.5)
ROWS = np.linspace(0.5, 1.2, 15)[:, None]
NEAR = np.array([[0.51], [0.6], [0.7]])
# How far the next model's bias lies below today's.
LAWS: dict[str, Callable[..., np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy": lambda rng, n: rng.standard_t(1.2, n),
    # Copies are refused: ties differ by nothing that matters.
    "ties": lambda rng, n: rng.choice([-1.0, 0.0, 1.0, 2.0], n) + 1e-9 * rng.random(n),
    # One month is calm and another wild: exchangeable, not independent.
    "months": lambda rng, n: rng.choice([0.2, 1.0, 3.0]) * rng.normal(size=n),
    "rarely": lambda rng, n: (
        (rng.random(n) < 0.12) * rng.exponential(size=n) + 1e-9 * rng.random(n)
    ),
    "kinder": lambda rng, n: rng.normal(-1.8, 1.0, n),
}


def risk(
    rng: Rng, *, n: int = 20, law: str = "normal", spread: float = 0.1, settings: Any = (0.0, 0.1, 0.2, 0.4, 0.6),
    people: int = 4, generator: Any = None, family: Any = None, probability: float | None = None, broken: float = 0.1,
) -> Run:  # fmt: skip
    """Calibrated promises to some people, and how many of them the next models break."""
    models = [line(-0.5 - move) for move in spread * LAWS[law](rng, n + NEXT)]
    asked = rng.uniform(0.0, 0.45, (people, 1))
    return promised(
        TODAY, asked, models[:n], models[n:], generator or hf.RNCE(ROWS), settings, broken=broken,
        probability=probability, family=hf.PlausibleShift if family is None else family(rng, spread),
    )  # fmt: skip


def promised(
    today: Any, people: np.ndarray, judges: Any, later: Sequence[Any], generator: Any, settings: Any,
    family: Any = hf.PlausibleShift, refits: Sequence[Any] = (), broken: float = 0.1, probability: float | None = None,
) -> Run:  # fmt: skip
    """Advice under a calibrated setting, how much of it later models break, and how many later refits lie outside."""
    try:
        found = hf.risk_calibrated(
            today, people, target=1, retrained=judges, generator=generator, family=family, settings=settings,
            broken=broken, probability=probability, coverage=0.5,
        )  # fmt: skip
    except hf.HoldfastError as error:
        if "expected advice for at least one" in str(error):
            return Run()
        raise
    if not found.reached:
        return Run()
    advice = hf.explain(today, people, target=1, changes=found.changes, generator=generator)
    points = advice.points[advice.found]
    lost = np.array([np.mean(hf.load_model(one).classifier.predict(points) != 1) for one in later])
    lost = lost if probability is None else lost > broken
    outside = [not found.changes.contains(today, one) for one in refits]
    return Run(
        str(found), {"promises": float(lost.mean()), "inside": float(np.mean(outside or [0]))}
    )


def box(rng: Rng, spread: float) -> Any:
    """Parameters within delta."""
    return hf.PlausibleChanges


def ensemble(rng: Rng, spread: float) -> hf.EnsembleShift:
    """The mean of five models that are none of the judges."""
    return hf.EnsembleShift([line(-0.5 - move) for move in spread * rng.normal(size=5)], 0.0)


def ellipsoid(rng: Rng, spread: float) -> hf.Ellipsoid:
    """The curvature of today's loss."""
    return hf.Ellipsoid.of(TODAY, np.linspace(0.0, 1.0, 20)[:, None])


def rows(rng: Rng, *, share: float, new: bool) -> Run:
    """Judges by `retrain`, from the rows of today; the next models have as many new rows, or draw those of today."""

    def drawn() -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(200, 2))
        return X, (X.sum(axis=1) + rng.logistic(size=200) > 0.0).astype(int)

    X, y = drawn()
    today = LogisticRegression().fit(X, y)
    seeds = rng.integers(0, 2**31, 2).tolist()
    judges = hf.retrain(today, X, y, how="complete", n=20, share=share, seed=seeds[0])
    again = partial(hf.retrain, today, X, y, how="complete", n=5, share=share, seed=seeds[1])
    later = [LogisticRegression().fit(*drawn()) for _ in range(5)] if new else again()
    people = X[today.predict(X) == 0][:6]
    return promised(today, people, judges, list(later), hf.RNCE(X), (0.0, 0.1, 0.2, 0.4, 0.8))


# ------------------------------------------------------------------ trees


@cache
def forest() -> Any:
    """Trees on one column, with leaves in three thirds."""
    rng = np.random.default_rng(0)
    X = np.linspace(0.0, 1.2, 300)[:, None]
    model = GradientBoostingClassifier(n_estimators=6, max_depth=1, learning_rate=0.5)
    return hf.load_model(model.fit(X, X[:, 0] + 0.4 * rng.normal(size=300) > 0.5)).classifier


def refit(steps: np.ndarray) -> Any:
    """Today's trees with each leaf moved."""
    trees = forest()
    values = trees.forest.values.copy()
    values[trees.forest.leaves, 0] += steps
    return trees.with_forest(replace(trees.forest, values=values))


def leaf_steps(rng: Rng, n: int, moving: float = 1.0, spread: float = 0.1) -> np.ndarray:
    """Steps of each leaf in each refit; those of the last third are zero except in a share of the refits."""
    leaves = int(forest().forest.leaves.sum())
    steps = rng.normal(size=(n, leaves)) * spread
    steps[:, -leaves // 3 :] *= rng.random((n, 1)) < moving
    return steps


def tree_risk(rng: Rng, *, n: int = 20, spread: float = 0.2, both: bool = False) -> Run:
    """Risk over the size of leaf radii; these may be calibrated on refits before."""
    models = [refit(step) for step in leaf_steps(rng, n + NEXT, spread=spread)]
    family, settings, later = hf.TreeChanges(leaves=0.05), (0.0, 0.5, 1.0, 2.0, 4.0), []
    if both:
        refits = [refit(step) for step in leaf_steps(rng, 6 + NEXT, spread=0.02)]
        family = hf.delta_calibrated(refits[:6], coverage=0.8, origin=forest()).changes
        settings, later = (1.0, 2.0, 4.0), refits[6:]
    people = rng.uniform(0.0, 0.45, (4, 1))
    return promised(
        forest(), people, models[:n], models[n:], hf.RNCE(ROWS), settings, family, later
    )


# ------------------------------------------------------------------ delta


def layers(
    rng: Rng, *, n: int, coverage: float, shape: str = "layer", law: str = "normal", moving: float = 1.0,
    confidence: float | None = None,
) -> Run:  # fmt: skip
    """Distances of three layers, of which the third moves in a share of the retrainings; or of the whole."""
    moves = np.abs([LAWS[law](rng, 3 * (n + NEXT))]).reshape(-1, 3) * [1.0, 0.1, 5.0]
    moves[:, 2] *= rng.random(n + NEXT) < moving
    history = moves[:n] if shape == "layer" else moves[:n].max(axis=1)
    found = hf.delta_calibrated(
        history.tolist(),
        coverage=coverage,
        confidence=confidence,
        shape=None if shape == "uniform" else shape,
    )
    radii = np.broadcast_to(found.delta, 3)
    if confidence is None:
        return Run(str(found), {"inside": float((moves[n:] > radii).any(axis=1).mean())})
    # The share of all that may come: each layer's normal distribution, and an atom at 0.
    within = 2 * norm.cdf(radii / [1.0, 0.1, 5.0]) - 1
    within[2] = 1 - moving + moving * within[2]
    return Run(str(found), {"inside": float(within.prod() < coverage)})


def parameters(
    rng: Rng,
    *,
    n: int,
    coverage: float,
    moving: float = 1.0,
    confidence: float | None = None,
    law: str = "normal",
) -> Run:
    """Networks whose last weights move in a share of the retrainings."""
    steps = LAWS[law](rng, 9 * (n + NEXT)).reshape(-1, 9) * np.logspace(0, -1, 9)
    steps[:, 3:6] *= rng.random((n + NEXT, 1)) < moving
    # Two layers: 2 x 2 and 2 biases, then 2 and 1.
    networks = [
        hf.Network([step[:4].reshape(2, 2), step[4:6][None]], [step[6:8], step[8:]])
        for step in [np.zeros(9), *steps]
    ]
    today, history, later = networks[0], networks[1 : n + 1], networks[n + 1 :]
    found = hf.delta_calibrated(
        history, coverage=coverage, confidence=confidence, shape="parameter", origin=today
    )
    changes = found.changes
    if confidence is None:
        return Run(
            str(found),
            {"inside": float(np.mean([not changes.contains(today, one) for one in later]))},
        )
    weights, biases = found.delta, found.biases
    down, up = (np.concatenate([weights[0][i].ravel(), weights[1][i].ravel(), biases[0][i], biases[1][i]])
                for i in range(2))  # fmt: skip
    scale = np.logspace(0, -1, 9)
    within = norm.cdf(up / scale) - norm.cdf(-down / scale)
    still, apart = np.r_[0:3, 6:9], np.r_[3:6]
    share_inside = within[still].prod() * (1 - moving + moving * within[apart].prod())
    return Run(str(found), {"inside": float(share_inside < coverage)})


def leaves(
    rng: Rng,
    *,
    n: int,
    coverage: float,
    moving: float = 1.0,
    confidence: float | None = None,
    chain: bool = False,
) -> Run:
    """Refitted trees whose last leaves move in a share of the refits; all from one model, or each from the last."""
    steps = leaf_steps(rng, n + NEXT, moving)
    if chain:
        path = np.cumsum(np.vstack([np.zeros_like(steps[0]), steps[:n]]), axis=0)
        found = hf.delta_calibrated(
            [refit(step) for step in path], coverage=coverage, confidence=confidence
        )
        today, start = refit(path[-1]), path[-1]
    else:
        refits = [refit(step) for step in steps[:n]]
        found = hf.delta_calibrated(
            refits, coverage=coverage, confidence=confidence, origin=forest()
        )
        today, start = forest(), 0.0
    if confidence is None:
        outside = [not found.changes.contains(today, refit(start + step)) for step in steps[n:]]
        return Run(str(found), {"inside": float(np.mean(outside))})
    within = 2 * norm.cdf(found.changes.leaves / 0.1) - 1
    cut = -(len(within) // 3) if len(within) % 3 == 0 else -(len(within) // 3) - 1
    share_inside = within[:cut].prod() * (1 - moving + moving * within[cut:].prod())
    return Run(str(found), {"inside": float(share_inside < coverage)})


# ------------------------------------------------------------------ time


def expiry(
    rng: Rng, *, n: int, ahead: int, confidence: float, kind: str, radius: float = 9.0
) -> Run:
    """How far models drift over a number of retrainings, told to a promise of some radius."""
    steps = 0.1 * rng.normal(size=(n + NEXT * ahead, 1))
    future = steps[n:].reshape(NEXT, ahead)
    if kind == "walk":
        history: Any = [line(bias) for bias in np.cumsum([0.0, *steps[:n, 0]])]
        drifts = np.maximum.accumulate(np.abs(np.cumsum(future, axis=1)), axis=1)
    elif kind == "numbers":
        history, drifts = np.abs(steps[:n, 0]).tolist(), np.cumsum(np.abs(future), axis=1)
    else:
        walks = np.abs(np.cumsum(0.1 * rng.normal(size=(n + NEXT, ahead)), axis=1))
        history, drifts = walks[:n].tolist(), np.maximum.accumulate(walks[n:], axis=1)
    found = hf.promise_expiry([radius], history, horizon=ahead, confidence=confidence)
    said = found.describe(0)
    # A number that is chosen after a look at the radius is not one that was fixed beforehand.
    told = ahead if "fixed beforehand" in said else max(int(found.retrainings[0]), 1)
    beyond = drifts[:, told - 1] > found.drift[told - 1]
    return Run(said, {"drift": float(beyond.mean())})


def kept(rng: Rng, *, n: int, ahead: int, confidence: float, spread: float = 0.1) -> Run:
    """The share of promises that are kept through some retrainings, counted over a history."""
    models = [line(-0.5 - move) for move in spread * rng.normal(size=n)]
    found = hf.promise_expiry(advised(), models, horizon=ahead, confidence=confidence)
    if not found.windows[ahead - 1]:
        return Run()
    return Run(
        found.describe(ahead), {"share": float(found.at_least[ahead - 1] > expected(ahead, spread))}
    )


@cache
def advised() -> hf.Recourse:
    """Promises to three people under a margin."""
    people = np.array([[0.0], [0.2], [0.4]])
    return hf.explain(
        TODAY,
        people,
        target=1,
        changes=hf.PlausibleShift(0.05),
        generator=hf.RNCE(np.array([[0.6], [0.7]])),
    )


@cache
def expected(ahead: int, spread: float) -> float:
    """The expected share of the promises that hold at a start, kept through some retrainings."""
    points = advised().points[:, 0]
    z = (
        points[:, None]
        - 0.5
        - spread * np.random.default_rng(0).normal(size=(200_000, 1, ahead + 1))
    )
    holds, kept_by_all = z[:, :, 0] > 0.05, (z[:, :, 1:] > 0.0).all(axis=2)
    some = holds.any(axis=1)
    return float(((kept_by_all & holds).sum(axis=1)[some] / holds.sum(axis=1)[some]).mean())


# ------------------------------------------------------------------ the worlds

FEW = (0.0, 0.19)
WORLDS: dict[str, Callable[[Rng], Run]] = {
    "risk: RNCE": risk,
    "risk: RNCE, settings of its own": partial(risk, n=20, settings=None, people=2),
    "risk: NNCE": partial(risk, generator=hf.NNCE(np.linspace(0.58, 1.2, 9)[:, None]), settings=FEW),
    "risk: Closest": partial(risk, generator=hf.Closest(), people=2, settings=(0.0, 0.15, 0.4)),
    "risk: Closest, rare success": partial(risk, generator=hf.Closest(), people=2, n=9, spread=0.2, settings=FEW),
    "risk: MCE, models grow kinder": partial(risk, generator=MCE(), law="kinder", people=2, settings=FEW),
    "risk: few models, few people, rare success": partial(risk, n=9, spread=0.2, settings=FEW, people=2),
    "risk: the same with a probability": partial(risk, n=9, spread=0.2, settings=FEW, people=2, probability=0.9),
    "risk: a probability": partial(risk, n=20, probability=0.9, people=10),
    "risk: 20 models, rows end too soon": partial(risk, spread=0.15, settings=FEW, generator=hf.RNCE(NEAR)),
    "risk: 40 models, rows end too soon": partial(risk, n=40, settings=FEW, generator=hf.RNCE(NEAR)),
    "risk: 5%": partial(risk, n=19, broken=0.05),
    "risk: one person": partial(risk, people=1),
    "risk: ties": partial(risk, law="ties"),
    "risk: ties, few models": partial(risk, n=9, law="ties", spread=0.15, settings=FEW),
    "risk: heavy tails": partial(risk, law="heavy"),
    "risk: calm and wild months": partial(risk, law="months"),
    "risk: models rarely move": partial(risk, n=9, law="rarely", spread=0.3),
    "risk: all break together": partial(risk, n=9, people=10, spread=0.2, settings=(0.3,)),
    "risk: PlausibleChanges": partial(risk, family=box, settings=(0.01, 0.05, 0.1, 0.2)),
    "risk: PlausibleChanges, rare success": partial(
        risk, n=9, spread=0.2, people=2, family=box, settings=(0.01, 0.1)
    ),
    "risk: EnsembleShift": partial(risk, family=ensemble),
    "risk: EnsembleShift, rare success": partial(risk, n=9, spread=0.2, people=2, family=ensemble, settings=FEW),
    "risk: Ellipsoid": partial(risk, family=ellipsoid, settings=(0.01, 0.2, 0.4, 0.8)),
    "risk: half as many rows, then new rows": partial(rows, share=0.5, new=True),
    "risk: as many rows, then other draws of them": partial(rows, share=1.0, new=False),
    "risk: TreeChanges": tree_risk,
    "risk: TreeChanges, few models": partial(tree_risk, n=9, spread=0.5),
    "risk: leaf radii of refits": partial(tree_risk, both=True),
    "delta: uniform": partial(layers, n=9, coverage=0.9, shape="uniform"),
    "delta: uniform, ties": partial(layers, n=9, coverage=0.8, shape="uniform", law="ties"),
    "delta: uniform, heavy tails": partial(layers, n=5, coverage=0.8, shape="uniform", law="heavy"),
    "delta: uniform, calm and wild months": partial(layers, n=9, coverage=0.8, shape="uniform", law="months"),
    "delta: uniform, confidence": partial(layers, n=40, coverage=0.9, shape="uniform", confidence=0.9),
    "delta: layer": partial(layers, n=12, coverage=0.8),
    "delta: layer, 5, a third rarely": partial(layers, n=5, coverage=0.8, moving=0.3),
    "delta: layer, 5, hardly ever": partial(layers, n=5, coverage=0.8, moving=0.1),
    "delta: layer, 12, hardly ever": partial(layers, n=12, coverage=0.8, moving=0.1),
    "delta: layer, 20, hardly ever": partial(layers, n=20, coverage=0.9, moving=0.1),
    "delta: layer, heavy tails": partial(layers, n=12, coverage=0.8, law="heavy", moving=0.3),
    "delta: layer, calm and wild months": partial(layers, n=12, coverage=0.8, law="months", moving=0.3),
    "delta: layer, confidence": partial(layers, n=20, coverage=0.8, confidence=0.8, moving=0.1),
    "delta: parameter": partial(parameters, n=12, coverage=0.8),
    "delta: parameter, 5, a third rarely": partial(parameters, n=5, coverage=0.8, moving=0.3),
    "delta: parameter, 20, hardly ever": partial(parameters, n=20, coverage=0.9, moving=0.1),
    "delta: parameter, heavy tails": partial(parameters, n=12, coverage=0.8, moving=0.3, law="heavy"),
    "delta: parameter, confidence": partial(parameters, n=20, coverage=0.8, confidence=0.8, moving=0.1),
    "delta: leaves": partial(leaves, n=12, coverage=0.8),
    "delta: leaves, 5, a third rarely": partial(leaves, n=5, coverage=0.8, moving=0.3),
    "delta: leaves, 12, hardly ever": partial(leaves, n=12, coverage=0.8, moving=0.1),
    "delta: leaves, each from the one before": partial(leaves, n=6, coverage=0.8, moving=0.3, chain=True),
    "delta: leaves, confidence": partial(leaves, n=20, coverage=0.8, confidence=0.8, moving=0.1),
    "expiry: models, 3 ahead": partial(expiry, n=12, ahead=3, confidence=0.8, kind="walk"),
    "expiry: distances, 2 ahead": partial(expiry, n=8, ahead=2, confidence=0.8, kind="numbers"),
    "expiry: runs, 3 ahead": partial(expiry, n=9, ahead=3, confidence=0.9, kind="runs"),
    "expiry: models, a radius": partial(expiry, n=12, ahead=3, confidence=0.8, kind="walk", radius=0.25),
    "expiry: distances, a radius": partial(expiry, n=30, ahead=3, confidence=0.9, kind="numbers", radius=0.45),
    "expiry: runs, a radius": partial(expiry, n=9, ahead=3, confidence=0.9, kind="runs", radius=0.3),
    "expiry: runs, a small radius": partial(expiry, n=9, ahead=1, confidence=0.9, kind="runs", radius=0.12),
    "kept share: 1 ahead": partial(kept, n=12, ahead=1, confidence=0.9),
    "kept share: 2 ahead, rarely kept": partial(kept, n=14, ahead=2, confidence=0.9, spread=0.2),
    "kept share: nearly always kept": partial(kept, n=10, ahead=1, confidence=0.95, spread=0.05),
}  # fmt: skip


def some_runs(task: tuple[str, int, int]) -> list[Run]:
    """The runs of a world from one number to another, each with a seed of its own."""
    name, first, last = task
    place = list(WORLDS).index(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [WORLDS[name](np.random.default_rng([place, i])) for i in range(first, last)]


COLUMNS = (
    "world",
    "runs",
    "answered",
    "failed in all",
    "given an answer",
    "stated",
    "over",
    "verdict",
)


def row(name: str, one: Judged) -> list[str]:
    """One line of the table."""
    over = {"all": "all", "answered": "answered", "often": "answered, if often"}[one.claim.over]
    all_runs, given = (f"{mean:.3f} ± {error:.3f}" for mean, error in (one.in_all, one.given))
    answered = f"{one.answered / one.runs:.2f}"
    stated = f"{one.claim.about}: {one.claim.allowed:.3g}"
    return [name, str(one.runs), answered, all_runs, given, stated, over, one.verdict]


def main() -> int:
    """Run the worlds, print a line for each claim, and say whether one is violated."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--worlds", type=int, default=2000, help="runs of each world")
    made.add_argument("--quick", action="store_true", help="100 runs of each world")
    made.add_argument("--only", nargs="*", default=[""], help="worlds with one of these words")
    made.add_argument("--jobs", type=int, default=os.cpu_count())
    options = made.parse_args()
    runs = 100 if options.quick else options.worlds
    names = [name for name in WORLDS if any(word in name for word in options.only)]
    step, lines, violated, began = max(1, math.ceil(runs / 8)), [], 0, time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        tasks = [(name, i, min(i + step, runs)) for name in names for i in range(0, runs, step)]
        found: dict[str, list[Run]] = {name: [] for name in names}
        for task, part in zip(tasks, pool.imap(some_runs, tasks), strict=True):
            found[task[0]] += part
            if task[2] == runs:
                judged = judge(found[task[0]])
                violated += sum(one.verdict == "VIOLATED" for one in judged)
                new = [row(task[0], one) for one in judged] or [
                    [task[0], str(runs), "0.00", *"-----"]
                ]
                lines += new
                for told in new:
                    print(f"{time.monotonic() - began:5.0f} s", *told, file=sys.stderr, flush=True)
    publish([Table("Stated chances, simulated", COLUMNS, lines)], "", None, 190)
    return int(violated > 0)


if __name__ == "__main__":
    sys.exit(main())
