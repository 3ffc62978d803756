"""Ours beside the paper's: is the difference more than the spread of the two?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from holdfast.study.paper.printed import Figure, Printed, rounding
from holdfast.study.paper.results import METRICS, Results
from holdfast.study.paper.settings import Block, ModelKind

# A difference counts from so many standard deviations of the two means on, taken together.
SPREADS = 2.0
HIGHER_IS_BETTER = {"validity_retrained", "delta_validity_val", "delta_validity_inc", "accuracy"}


class Side(StrEnum):
    """Where our figure lies."""

    WITHIN = "within the spread"
    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True)
class Comparison:
    """One figure of ours and the paper's."""

    model: ModelKind
    dataset: str
    block: Block
    method: str
    metric: str
    ours: Figure
    paper: Figure

    @property
    def side(self) -> Side:
        """Within two standard deviations of both (and of the last printed digit), or where.

        Examples
        --------
        >>> Comparison("NN", "adult", "baseline", "GCE", "lof", Figure(1.40, 0.02), Figure(1.29, 0.036)).side
        <Side.HIGHER: 'higher'>
        >>> Comparison("NN", "adult", "baseline", "GCE", "lof", Figure(1.30, 0.02), Figure(1.29, 0.036)).side
        <Side.WITHIN: 'within the spread'>
        """
        return side_of(self.ours, self.paper, rounding(self.metric))

    @property
    def better(self) -> bool:
        """Whether ours is the better one of two that differ."""
        return self.side is (Side.HIGHER if self.metric in HIGHER_IS_BETTER else Side.LOWER)


def side_of(ours: Figure, paper: Figure, rounded: float) -> Side:
    """Where our figure lies; nan is nowhere, so it is not within."""
    known = [std for std in (ours.std, paper.std) if std is not None and not math.isnan(std)]
    spread = SPREADS * math.hypot(*known) + rounded
    difference = ours.mean - paper.mean
    # The printed figures are decimal fractions: what lies on the edge of the spread has to count as within it.
    if abs(difference) <= spread + 1e-9:
        return Side.WITHIN
    return Side.HIGHER if difference > 0 else Side.LOWER


def compare(results: Results, printed: Printed) -> list[Comparison]:
    """Every figure of the quality tables that both have."""
    comparisons = []
    for row in results.mean_and_spread().to_dict("records"):
        for metric in METRICS:
            place = (row["model"], row["dataset"], row["block"], row["method"])
            paper = printed.quality(*place, metric)
            if paper is not None and not pd.isna(row[metric]):
                ours = Figure(row[metric], row[f"{metric}_std"])
                comparisons.append(Comparison(*place, metric, ours, paper))
    return comparisons
