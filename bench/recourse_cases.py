"""Tables, networks, rejected people and generators for `recourse.py`."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.neural_network import MLPClassifier

import holdfast as hf
from holdfast.generators import (
    GCE,
    MCE,
    NNCE,
    PROTO,
    RBR,
    RNCE,
    ROAR,
    STCE,
    Closest,
    Generator,
    Robust,
)

WIDTHS = {"compas": 8, "heloc": 15, "adult": 20, "gmc": 6}
TRAINING_ROWS = 15_000


@dataclass(frozen=True)
class Case:
    """A table, its network, the rejected people and everybody else."""

    name: str
    network: hf.Network
    space: hf.FeatureSpace
    people: pd.DataFrame
    candidates: pd.DataFrame
    accuracy: float


def load_case(name: str, folder: Path, inputs: int) -> Case:
    """Train the network, and draw the people it rejects."""
    schema = json.loads((folder / f"{name}.schema.json").read_text(encoding="utf-8"))
    frame = pd.read_csv(folder / schema["data_file"])
    space = hf.FeatureSpace.from_schema(folder / f"{name}.schema.json", actionability="carla")
    labels, points = frame[schema["target"]["column"]].to_numpy(), space.encode(frame)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(frame))
    n_train = min(TRAINING_ROWS, int(0.8 * len(frame)))
    train, held_out = order[:n_train], order[n_train:]
    width = WIDTHS[name]
    model = MLPClassifier(
        (width, width),
        alpha=1e-3,
        max_iter=60,
        random_state=0,
        learning_rate_init=3e-3,
        batch_size=64,
    )
    network = hf.load_network(_fitted(model, points[train], labels[train]))
    accuracy = float((network.predict_index(points[held_out]) == labels[held_out]).mean())
    rejected = rng.permutation(np.flatnonzero(network.predict_index(points) == 0))[:inputs]
    return Case(name, network, space, frame.iloc[rejected], frame.iloc[train], accuracy)


def _fitted(model: MLPClassifier, points: np.ndarray, labels: np.ndarray) -> MLPClassifier:
    with warnings.catch_warnings():
        # Sixty epochs are what the benchmark means, converged or not.
        warnings.simplefilter("ignore")
        return model.fit(points, labels)


def methods(case: Case) -> list[tuple[str, Generator, bool]]:
    """Name, generator, and whether it works row by row, so that each input can be timed alone."""
    others = case.candidates
    return [
        ("NNCE", NNCE(others), False),
        ("GCE", GCE(), False),
        ("PROTO", PROTO(others), False),
        ("MCE", MCE(), True),
        ("ST-CE", STCE(others), False),
        ("RBR", RBR(others), False),
        ("ROAR", ROAR(), False),
        ("GCE-R", Robust(GCE()), False),
        ("PROTO-R", Robust(PROTO(others)), False),
        ("MCE-R", Robust(MCE()), True),
        ("RNCE-FF", RNCE(others), False),
        ("RNCE-FT", RNCE(others, line_search=True), False),
        ("RNCE-TF", RNCE(others, certified_candidates=True), False),
        ("RNCE-TT", RNCE(others, certified_candidates=True, line_search=True), False),
        ("Closest", Closest(), True),
    ]
