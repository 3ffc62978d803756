"""Which values a column may take for one person, and the nearest of them to what a search would like.

    { the factual's own value }  ∪  (grid ∩ range ∩ the allowed direction)

A value that does not change is always allowed, also one outside the range or off the grid: nobody is told that what
they are is impossible. A value that changes has to land in the range and on the grid.
"""

from __future__ import annotations

import numpy as np

from holdfast.features.feature import Feature
from holdfast.features.kinds import Direction
from holdfast.features.scaling import hold
from holdfast.network import Floats


def reach(feature: Feature, own: Floats | None, n_rows: int, directed: bool = True) -> tuple[Floats, Floats]:
    """The least and the largest value a change can lead to; low > high where there is none."""
    low, high = np.full(n_rows, feature.lower), np.full(n_rows, feature.upper)
    if own is not None and directed:
        if feature.direction is Direction.IMMUTABLE:
            return np.full(n_rows, np.inf), np.full(n_rows, -np.inf)
        if feature.direction is Direction.INCREASING:
            low = np.maximum(low, own)
        elif feature.direction is Direction.DECREASING:
            high = np.minimum(high, own)
    if feature.grid is not None:
        low, high = feature.grid.value(feature.grid.ceil(low)), feature.grid.value(feature.grid.floor(high))
    return low, high


def nearest(feature: Feature, wanted: Floats, own: Floats | None, directed: bool = True) -> Floats:
    """The admissible number nearest to each wanted one; the own value on a tie. `directed`: mind the direction."""
    if feature.one_hot:
        fixed = own is not None and directed and feature.direction is Direction.IMMUTABLE
        return own if own is not None and fixed else wanted
    low, high = reach(feature, own, wanted.shape[0], directed)
    moved = np.minimum(np.maximum(wanted, low), high)
    if feature.grid is not None:
        grid = feature.grid
        moved = np.where(low <= high, np.clip(grid.value(grid.nearest(moved)), low, np.maximum(low, high)), moved)
    else:
        moved = hold(moved, feature.precision)
    if own is not None:
        closer = (low <= high) & (np.abs(moved - wanted) < np.abs(own - wanted))
        moved = np.where(closer, moved, own)
    return canonical(feature, moved, own)


def canonical(feature: Feature, numbers: Floats, own: Floats | None) -> Floats:
    """Of all numbers that the model cannot tell apart the one that is handed out; the own value if it is among them."""
    if feature.grid is not None and own is None:
        return numbers
    encoded = feature.encode(numbers)
    if feature.grid is None:
        numbers = feature.decode(encoded)
    if own is None:
        return numbers
    return np.where((encoded == feature.encode(own)).all(axis=1), own, numbers)


def wanted_codes(feature: Feature, block: Floats, own: Floats | None) -> Floats:
    """For a one-hot column, the label with the most weight; the own label on a tie."""
    scores = feature.scores(block)
    best = scores.argmax(axis=1)
    if own is not None:
        rows, codes = np.arange(block.shape[0]), own.astype(np.intp)
        best = np.where(scores[rows, codes] == scores[rows, best], codes, best)
    return np.asarray(best.astype(np.float64))


def wanted_numbers(feature: Feature, block: Floats, own: Floats | None) -> Floats:
    """What a point asks for in this column, before any constraint; exactly the own value where nothing changed."""
    if feature.one_hot:
        return wanted_codes(feature, block, own)
    # Off the grid only an exact inverse keeps a settled point where it is.
    wanted = feature.decode(block) if feature.grid is None else feature.scaling.estimate(block[:, 0])
    if own is None:
        return wanted
    return np.where(block[:, 0] == feature.scaling.apply(own), own, wanted)
