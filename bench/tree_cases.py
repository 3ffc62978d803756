"""Tables, models and sets of changes that the counts on trees have in common."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import xgboost

import holdfast as hf
from holdfast.importers._tree_files import suffixes, write_trees

TABLES, LIBRARIES = ("heloc", "adult", "gmc"), ("xgboost", "lightgbm")
SIZES = ((100, 4), (100, 6), (500, 4), (500, 6))


@dataclass(frozen=True)
class World:
    """A table: its rows as the trees read them (labels are categories), whether they were accepted, its space."""

    name: str
    frame: pd.DataFrame
    y: Any
    space: hf.FeatureSpace

    def part(self, rows: Any) -> tuple[pd.DataFrame, Any]:
        """Some rows, and whether these were accepted."""
        return self.frame.iloc[rows].reset_index(drop=True), self.y[rows]


def world(name: str) -> World:
    """A public table, shuffled once; 1 is what people want."""
    data = hf.datasets.load(name, actionability="free")
    frame = data.frame.copy()
    for column in frame.select_dtypes(exclude="number"):
        frame[column] = frame[column].astype("category")
    order = np.random.default_rng(0).permutation(len(frame))
    space = hf.FeatureSpace.from_frame(frame)
    y = (data.target.to_numpy() == data.wanted).astype(int)
    return World(name, frame.iloc[order].reset_index(drop=True), y[order], space)


def fitted(library: str, frame: pd.DataFrame, y: Any, trees: int, depth: int, seed: int = 0) -> Any:
    """A model of one library, one thread."""
    if library == "xgboost":
        model: Any = xgboost.XGBClassifier(
            n_estimators=trees, max_depth=depth, learning_rate=0.1, n_jobs=1, random_state=seed,
            enable_categorical=True, subsample=0.8,
        )  # fmt: skip
    else:
        model = lightgbm.LGBMClassifier(
            n_estimators=trees, max_depth=depth, num_leaves=2**depth, learning_rate=0.1, n_jobs=1, random_state=seed,
            verbose=-1, subsample=0.8, subsample_freq=1,
        )  # fmt: skip
    return model.fit(frame, y)


def own_margins(model: Any, X: Any) -> Any:
    """What the library itself adds up to."""
    if isinstance(model, xgboost.XGBClassifier):
        return np.asarray(model.predict(X, output_margin=True), dtype=np.float64)
    return np.asarray(model.predict(X, raw_score=True))


def replayed(witness: hf.TreeEnsemble, row: pd.DataFrame) -> int:
    """The class that the library gives a row, from the file of an ensemble."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"witness{suffixes(witness)[0]}"
        write_trees(witness, path)
        if path.suffix == ".txt":
            shares = np.asarray(lightgbm.Booster(model_file=str(path)).predict(row))
            return int(shares[0] > 0.5) if shares.ndim == 1 else int(shares.argmax())
        model = xgboost.XGBClassifier()
        model.load_model(path)
        return int(model.predict(row)[0])
