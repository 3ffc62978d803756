"""Changes of trees to try, and ensembles drawn from them."""

from __future__ import annotations

from typing import Any

import numpy as np

import holdfast as hf


def changes_for(forest: Any, rng: np.random.Generator) -> list[hf.TreeChanges]:
    size = float(np.abs(forest.values[forest.leaves]).mean())
    each = rng.random(int(forest.leaves.sum())) * size
    return [
        hf.TreeChanges(),
        hf.TreeChanges(leaves=0.3 * size, dropped=2),
        hf.TreeChanges(leaves=each, thresholds={"b": 0.3, "a": 0.1}),
        hf.TreeChanges(leaves=0.05 * size, thresholds=0.05, dropped=1, shift=0.02),
    ]


def sampled(today: hf.TreeEnsemble, changes: hf.TreeChanges, rng: np.random.Generator) -> Any:
    """An ensemble of the set, mostly at its ends."""
    # A hair inside, since sums round.
    forest, radii = today.forest, changes.leaf_radii(today)[:, None] * (1.0 - 2.0**-40)
    low, high = forest.around(changes.threshold_radii(today))
    ends = rng.choice([-1.0, 1.0], forest.values.shape)
    values = forest.values + (ends if rng.random() < 0.5 else ends * rng.random(ends.shape)) * radii
    if forest.single:
        values = values.astype(np.float32).astype(np.float64)
    inside = (np.abs(values - forest.values) <= radii) & forest.leaves[:, None]
    values = np.where(inside, values, forest.values)
    coin = rng.random(low.shape)
    threshold = np.where(coin < 0.3, low, np.where(coin < 0.6, high, forest.threshold))
    gone = rng.choice(forest.n_trees, min(forest.n_trees, changes.dropped), replace=False)
    values[np.isin(forest.tree_of, gone)] = 0.0
    other = forest.changed(values, threshold)
    if changes.shift:
        part = np.float32(rng.choice([-0.999, 0.999]) * changes.shift * forest.divisor)
        other = other.with_constant(int(rng.integers(forest.n_outputs)), float(part))
    return today.with_forest(other)
