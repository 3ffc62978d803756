"""Ours beside the paper's: is the difference more than the spread of the two?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from holdfast.study.paper.printed import Figure, Printed
from holdfast.study.paper.results import METRICS, Results
from holdfast.study.paper.settings import Block, ModelKind

# A difference counts from so many standard deviations of the two means on, taken together.
SPREADS = 2.0
# In percent, and the higher the better.
SHARES = ("validity_retrained", "delta_validity_val", "delta_validity_inc")


# Half a unit in the last digit that the paper prints.
ROUNDING = {"lof": 0.005}
OTHER_ROUNDING = 0.0005
NONE = "–"


class Side(StrEnum):
    """Where our figure lies."""

    WITHIN = "within the spread"
    HIGHER = "higher"
    LOWER = "lower"


ARROWS = {Side.HIGHER: "↑", Side.LOWER: "↓"}


@dataclass(frozen=True)
class ComparedFigure:
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
        >>> ComparedFigure("NN", "adult", "baseline", "GCE", "lof", Figure(1.40, 0.02), Figure(1.29, 0.036)).side
        <Side.HIGHER: 'higher'>
        >>> ComparedFigure("NN", "adult", "baseline", "GCE", "lof", Figure(1.30, 0.02), Figure(1.29, 0.036)).side
        <Side.WITHIN: 'within the spread'>
        """
        return side_of(self.ours, self.paper, self.metric)

    @property
    def better(self) -> bool:
        """Whether ours is the better one of two that differ."""
        return self.side is (Side.HIGHER if self.metric in SHARES else Side.LOWER)


def side_of(ours: Figure, paper: Figure, metric: str) -> Side:
    """Where our figure lies; nan is nowhere, so it is not within."""
    rounded = ROUNDING.get(metric, OTHER_ROUNDING)
    known = [std for std in (ours.std, paper.std) if std is not None and not math.isnan(std)]
    spread = SPREADS * math.hypot(*known) + rounded
    difference = ours.mean - paper.mean
    # The printed figures are decimal fractions: what lies on the edge of the spread has to count as within it.
    if abs(difference) <= spread + 1e-9:
        return Side.WITHIN
    return Side.HIGHER if difference > 0 else Side.LOWER


def compare(results: Results, printed: Printed) -> list[ComparedFigure]:
    """Every figure of the quality tables that both have."""
    comparisons = []
    for row in results.mean_and_spread().to_dict("records"):
        for metric in METRICS:
            place = (row["model"], row["dataset"], row["block"], row["method"])
            paper = printed.quality(*place, metric)
            if paper is not None and not pd.isna(row[metric]):
                ours = Figure(row[metric], row[f"{metric}_std"])
                comparisons.append(ComparedFigure(*place, metric, ours, paper))
    return comparisons


def figure_text(figure: Figure | None, metric: str) -> str:
    """A mean and its spread for people: shares in percent.

    Examples
    --------
    >>> figure_text(Figure(0.9874, 0.02), "validity_retrained"), figure_text(Figure(0.0214), "cost_l1")
    ('98.7 ± 2.0', '0.021')
    """
    if figure is None or math.isnan(figure.mean):
        return NONE
    scale, digits = (100.0, 1) if metric in SHARES else (1.0, 2 if metric == "lof" else 3)
    mean = f"{scale * figure.mean:.{digits}f}"
    if figure.std is None or math.isnan(figure.std):
        return mean
    return f"{mean} ± {scale * figure.std:.{digits}f}"


def beside(ours: Figure | None, paper: Figure | None, metric: str) -> str:
    """Ours and the paper's in brackets; bold, with an arrow, where they differ by more than their spread.

    Examples
    --------
    >>> beside(Figure(0.021, 0.001), Figure(0.031, 0.002), "cost_l1")
    '**0.021 ± 0.001** ↓ (0.031 ± 0.002)'
    """
    if ours is None or math.isnan(ours.mean):
        return NONE if paper is None else f"{NONE} ({figure_text(paper, metric)})"
    text = figure_text(ours, metric)
    if paper is None:
        return text
    side = side_of(ours, paper, metric)
    mine = text if side is Side.WITHIN else f"**{text}** {ARROWS[side]}"
    return f"{mine} ({figure_text(paper, metric)})"


def speed(ours: float | None, paper: Figure | None) -> str:
    """Our seconds, the paper's, and how many times as fast ours are.

    Examples
    --------
    >>> speed(0.0125, Figure(15.64))
    '0.0125 (15.6), 1,251×'
    """
    if ours is None or math.isnan(ours):
        return NONE
    if paper is None:
        return _seconds(ours)
    ratio = paper.mean / ours
    times = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"
    return f"{_seconds(ours)} ({_seconds(paper.mean)}), {times}×"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.3g}"
