"""The conditions under which trees accept a row, as sums over trees: linear in the values of their leaves.

    boosted trees    sum_target - sum_rival >= demand
    shares           share_target >= e^demand share_rival,  as log-odds say

A row that is accepted, as the library computes it, fulfils all of them up to `slack`; the judge tests the
reverse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast._classifier import Floats
from holdfast._trees import TreeEnsemble

# Relatively, what logarithms and sums in float64 may do to a form.
_ROUNDING = 1e-11


@dataclass(frozen=True)
class LinearForms:
    """One form for each rival.

    Attributes
    ----------
    worth
        What each leaf adds at worst, (nodes, rivals).
    offsets
        What each form begins with, the slack included, (rivals,): where a form is below 0, a row is not accepted.
    slack
        How much of that is for rounding.
    low, high
        Between which values the cut of each node may lie, (nodes,).
    dropped
        How many trees may be taken out, the worst ones.
    """

    worth: Floats
    offsets: Floats
    slack: Floats
    low: Floats
    high: Floats
    dropped: int = 0


def forms_of(
    ensemble: TreeEnsemble,
    factors: Floats,
    constants: Floats,
    *,
    radii: Floats | None = None,
    cuts: tuple[Floats, Floats] | None = None,
    dropped: int = 0,
) -> LinearForms:
    """The forms  factors · sums + constants,  with leaves that may move by their radii and cuts within their ends."""
    forest = ensemble.forest
    spread = np.zeros(forest.feature.size) if radii is None else radii
    worth = np.column_stack([forest.worth(rival, spread) for rival in factors])
    worth = np.where(forest.leaves[:, None], worth, 0.0) / forest.divisor
    offsets = (factors @ forest.base) / forest.divisor + constants
    # What the library's own sums may round, and what this module's and a search's sums may.
    slack = 4.0 * np.abs(factors) @ forest.rounding(np.abs(forest.values) + spread[:, None])
    largest = np.zeros(forest.n_trees)
    np.maximum.at(largest, np.maximum(forest.tree_of, 0), np.abs(worth).max(axis=1, initial=0.0))
    slack = slack + _ROUNDING * (1.0 + np.abs(offsets) + largest.sum()) + 2.0 * ensemble.score.doubt
    low, high = (forest.cut, forest.cut) if cuts is None else cuts
    return LinearForms(worth, offsets + slack, slack, low, high, dropped)


def demanded(ensemble: TreeEnsemble, target: int, demand: float) -> tuple[Floats, Floats]:
    """For a margin in logits: how much each output counts, (rivals, outputs), and what is added, (rivals,)."""
    votes, k = ensemble.score, len(ensemble.labels)
    off = np.array(votes.off) if votes.off else np.zeros(1 if k == 2 else k)
    if votes.bar is not None:
        off = off + (np.log(votes.bar) - np.log1p(-votes.bar)) * (-1.0 if votes.first else 1.0)
    if k == 2:
        sign = 1.0 if target == 1 else -1.0
        needed = np.array([demand + sign * float(off[0])])
        if not votes.shares:
            return np.full((1, 1), sign), -needed
        return _shares(np.array([1 - target]), target, needed, ensemble.forest.n_outputs)
    rivals = np.delete(np.arange(k), target)
    needed = demand + off[target] - off[rivals]
    if votes.shares:
        return _shares(rivals, target, needed, k)
    factors = np.zeros((k - 1, k))
    factors[np.arange(k - 1), rivals], factors[:, target] = -1.0, 1.0
    return factors, -needed


def _shares(
    rivals: NDArray[np.intp], target: int, needed: Floats, n_outputs: int
) -> tuple[Floats, Floats]:
    """share_target >= e^needed share_rival, both sides divided so that neither factor is above 1."""
    odds = np.exp(np.clip(needed, -700.0, 700.0))
    own, other = 1.0 / (1.0 + odds), odds / (1.0 + odds)
    rows = np.arange(len(rivals))
    if n_outputs == 1:
        # Only the share of class 1 is known: the other is what is missing to 1.
        sign = 1.0 if target == 1 else -1.0
        return np.full((1, 1), sign), (-other if target == 1 else own)
    factors = np.zeros((len(rivals), n_outputs))
    factors[rows, rivals], factors[rows, target] = -other, own
    return factors, np.zeros(len(rivals))
