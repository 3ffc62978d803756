"""Small lenders for the tests of the ledger and the audit."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

import holdfast as hf

DELTA = 0.01


@dataclass(frozen=True)
class Lender:
    """A model over a table of mixed columns, and promises that it keeps today."""

    network: hf.Network
    space: hf.FeatureSpace
    people: pd.DataFrame
    promised: pd.DataFrame
    changes: hf.PlausibleChanges


def random_people(n, seed=0, *, jobs=("no", "part", "full")):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": rng.normal(2500.0, 800.0, n).round(2),
            "children": rng.integers(0, 5, n),
            "job": rng.choice(list(jobs), n),
            "debt": rng.random(n).astype(np.float32),
        },
        index=[f"p{i}" for i in range(n)],
    )


def random_network(n_inputs, seed=0, hidden=(6,), outputs=1):
    rng = np.random.default_rng(seed)
    sizes = [n_inputs, *hidden, outputs]
    weights = [rng.normal(0.0, 1.0, (b, a)) / np.sqrt(a) for a, b in pairwise(sizes)]
    return hf.Network(weights, [rng.normal(0.0, 0.3, size) for size in sizes[1:]])


def make_lender(n=40, seed=0, hidden=(6,), scale="minmax", delta=DELTA):
    people = random_people(n * 4, seed)
    space = hf.FeatureSpace.from_frame(people, scale=scale)
    network = random_network(space.n_variables, seed, hidden)
    middle = np.median(network.logits(space.encode(people)))
    network = network.with_parameters(
        network.weights, [*network.biases[:-1], network.biases[-1] - middle]
    )
    accepted = people[network.predict(space.encode(people)) == 1]
    denied = people[network.predict(space.encode(people)) == 0]
    size = min(n, len(accepted), len(denied))
    promised = accepted.iloc[:size].set_axis(denied.index[:size])
    return Lender(network, space, denied.iloc[:size], promised, hf.PlausibleChanges(delta))


def record(ledger, lender, **options):
    options = {
        "target": 1,
        "changes": lender.changes,
        "space": lender.space,
        "date": "2026-11-16",
    } | options
    return ledger.add_frame(lender.network, lender.people, lender.promised, **options)
