"""People, spaces and networks to ask for recourse; what every generator is run against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from holdfast import FeatureSpace, Network, PlausibleChanges
from random_networks import random_network, shift_last_bias

JOBS = ["none", "part", "full"]
HOMES = ["owner", "rent", "family"]

# hidden layers and outputs
NETWORKS = {
    "logistic regression": ((), 1),
    "one layer": ((8,), 1),
    "two layers": ((8, 6), 1),
    "three layers": ((6, 6, 4), 1),
    "three classes": ((8, 6), 3),
}


def continuous_people(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Numbers of very different sizes."""
    scales = np.array([1.0, 100.0, 5e4, 1e-3])
    return pd.DataFrame(rng.uniform(-1.0, 1.0, (n, 4)) * scales, columns=["a", "b", "c", "d"])


def mixed_people(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Every kind of column that there is."""
    history = rng.integers(12, 400, n)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "income": 100.0 * rng.integers(80, 900, n),
            "savings": rng.gamma(1.5, 4000.0, n).round(2),
            "months_of_history": history,
            "months_in_job": (history * rng.uniform(0, 1, n)).astype(int),
            "job": rng.choice(JOBS, n),
            "home": rng.choice(HOMES, n),
            "guarantor": rng.random(n) < 0.3,
        }
    )


def categorical_people(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Not a single number."""
    return pd.DataFrame({name: rng.choice(HOMES + JOBS, n) for name in ("p", "q", "r", "s")})


def continuous_space(people: pd.DataFrame) -> FeatureSpace:
    return FeatureSpace.from_frame(people, increasing=["a"], immutable=["d"])


def mixed_space(people: pd.DataFrame) -> FeatureSpace:
    return FeatureSpace.from_frame(
        people,
        ordinal={"job": JOBS},
        immutable=["age"],
        increasing=["months_of_history", "job"],
        steps={"income": 250},
        costs={"income": 2.0},
        rules=["months_in_job <= months_of_history"],
    )


def categorical_space(people: pd.DataFrame) -> FeatureSpace:
    return FeatureSpace.from_frame(people, immutable=["p"])


SPACES = {
    "continuous": (continuous_people, continuous_space),
    "mixed": (mixed_people, mixed_space),
    "categorical": (categorical_people, categorical_space),
}


@dataclass(frozen=True)
class Case:
    """A network that accepts a third of the people, and a few of those whom it does not."""

    network: Network
    space: FeatureSpace
    candidates: pd.DataFrame
    people: pd.DataFrame
    target: int
    changes: PlausibleChanges


def make_case(
    network: str, space: str, seed: int = 0, n_candidates: int = 300, n_people: int = 8
) -> Case:
    """The third row of `people` has the target class already; labels of the index are repeated."""
    rng = np.random.default_rng(
        [seed, sorted(NETWORKS).index(network), sorted(SPACES).index(space)]
    )
    make_people, make_space = SPACES[space]
    table = make_people(n_candidates, rng)
    features = make_space(table)
    hidden, outputs = NETWORKS[network]
    net = _steep(random_network(rng, features.n_variables, hidden, outputs, awkward=False))
    target = outputs - 1 if outputs > 1 else 1
    points = features.encode(table)
    logits = net.logits(points)
    margin = (
        logits[:, target] - np.delete(logits, target, axis=1).max(axis=1)
        if outputs > 1
        else logits[:, 0]
    )
    net = shift_last_bias(net, target if outputs > 1 else 0, -float(np.quantile(margin, 0.67)))
    has_it = net.predict(points) == target
    denied, granted = np.flatnonzero(~has_it)[: n_people - 1], np.flatnonzero(has_it)[:1]
    people = table.iloc[np.insert(denied, 2, granted)]
    people = people.set_axis([f"person {i // 2}" for i in range(n_people)])
    return Case(net, features, table, people, target, PlausibleChanges(0.005))


def _steep(network: Network) -> Network:
    """Weights twice as large: fewer people live at the edge of a decision, so that some are robust."""
    return Network([2.0 * weight for weight in network.weights], network.biases)
