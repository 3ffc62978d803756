"""What is measured: public tables, networks trained on them once, and the rows to certify."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import holdfast as hf
from holdfast._network import Floats
from holdfast.features._schema import Schema

DATASETS = ("adult", "compas", "gmc", "heloc")
PAPER_SIZES = ((10, 10), (15, 15), (20, 20))
DEEP = (64, 64, 64)
TARGET = 1

# The paper's settings for two hidden layers; for the deep network what one would try first, chosen once.
_COMMON = {"solver": "adam", "batch_size": 256, "alpha": 1e-4, "random_state": 0}
_PAPER_TRAINING = {"learning_rate_init": 0.01, "max_iter": 20}
_DEEP_TRAINING = {"learning_rate_init": 0.001, "max_iter": 100, "early_stopping": True}


@dataclass(frozen=True)
class Case:
    """One network and the points to certify for class 1."""

    dataset: str
    network: hf.Network
    points: Floats
    rows: str
    # Share of the held-out fifth that the network gets right, and share of `points` that it accepts today.
    accuracy: float
    accepted: float

    @property
    def size(self) -> str:
        """The hidden layers as people write them: 2x20."""
        hidden = self.network.hidden
        return f"{len(hidden)}x{hidden[0]}"

    @property
    def deep(self) -> bool:
        """Whether this is the network beyond the paper's size."""
        return self.network.hidden == DEEP


def cases(data: Path, store: Path, *, quick: bool, deep_rows: int) -> Iterator[Case]:
    """Every case; networks are trained on first use and kept in `store`."""
    for name in ("compas", "heloc") if quick else DATASETS:
        for hidden in PAPER_SIZES[-1:] if quick else PAPER_SIZES:
            yield case(data, store, name, hidden, "class 1")
    yield case(data, store, "adult", PAPER_SIZES[-1], "all")
    for name in ("heloc",) if quick else DATASETS:
        yield case(data, store, name, PAPER_SIZES[-1], "accepted")
    for name in ("compas",) if quick else DATASETS:
        yield case(data, store, name, DEEP, "class 1", at_most=deep_rows)


def case(
    data: Path,
    store: Path,
    name: str,
    hidden: tuple[int, ...],
    rows: str = "class 1",
    at_most: int | None = None,
) -> Case:
    """A network of this size for a table, and the rows to certify."""
    points, labels = _table(data, name)
    network = _network(data, store, name, hidden)
    _, held_out = _split(labels)
    accuracy = float((network.predict(points[held_out]) == labels[held_out]).mean())
    chosen = points if rows == "all" else points[labels == TARGET]
    if rows == "accepted":
        chosen = points[network.predict(points) == TARGET]
    if at_most is not None and chosen.shape[0] > at_most:
        chosen = chosen[np.random.default_rng(0).choice(chosen.shape[0], at_most, replace=False)]
        rows = f"{rows}, sample"
    accepted = float((network.predict(chosen) == TARGET).mean())
    return Case(name, network, np.ascontiguousarray(chosen), rows, accuracy, accepted)


@cache
def _table(data: Path, name: str) -> tuple[Floats, NDArray[np.int64]]:
    """The table in the model's variables, scaled to [0, 1] by the schema's ranges, and its labels."""
    schema = data / f"{name}.schema.json"
    frame = pd.read_csv(data / f"{name}.csv.gz")
    labels = frame[Schema.load(schema).target].to_numpy()
    return hf.FeatureSpace.from_schema(schema).encode(frame), labels


def _split(labels: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Four fifths to train on, one to measure accuracy."""
    train, held_out = train_test_split(
        np.arange(labels.shape[0]), test_size=0.2, stratify=labels, random_state=0
    )
    return train, held_out


def _network(data: Path, store: Path, name: str, hidden: tuple[int, ...]) -> hf.Network:
    path = store / f"{name}-{'-'.join(map(str, hidden))}.npz"
    if path.exists():
        return hf.Network.load(path)
    points, labels = _table(data, name)
    train, _ = _split(labels)
    settings = _COMMON | (_DEEP_TRAINING if len(hidden) > 2 else _PAPER_TRAINING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier = MLPClassifier(hidden, **settings).fit(points[train], labels[train])
    network = hf.load_network(classifier)
    store.mkdir(parents=True, exist_ok=True)
    network.save(path)
    return network


def training_in_words() -> str:
    """How the networks were trained, for the report."""
    return (
        "Networks: scikit-learn's MLPClassifier on four fifths of the rows (stratified, seed 0), Adam, batches of 256, "
        f"alpha {_COMMON['alpha']:g}; two hidden layers: learning rate {_PAPER_TRAINING['learning_rate_init']:g}, "
        f"{_PAPER_TRAINING['max_iter']} epochs; 3x64: learning rate {_DEEP_TRAINING['learning_rate_init']:g}, early "
        f"stopping, at most {_DEEP_TRAINING['max_iter']} epochs. Features scaled to [0, 1], two-valued categories as "
        "one 0/1 variable."
    )
