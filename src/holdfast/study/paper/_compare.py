"""Ours beside the paper's: is the difference more than the spread of the two?"""

from __future__ import annotations

import math

import pandas as pd

from holdfast.study.paper._printed import Figure, Printed
from holdfast.study.paper._results import CELL, METRICS, Results

# A difference counts from so many standard deviations of the two means on, taken together.
SPREADS = 2.0
# In percent, and the higher the better.
SHARES = ("validity_retrained", "delta_validity_val", "delta_validity_inc")
# Half a unit in the last digit that the paper prints.
ROUNDING = {"lof": 0.005}
OTHER_ROUNDING = 0.0005
NONE = "–"
ARROWS = {"higher": "↑", "lower": "↓"}


def compare(results: Results, printed: Printed) -> pd.DataFrame:
    """A row for each figure of the quality tables that both have: the cell, the metric, `ours`, `paper` and `side`."""
    rows = []
    for row in results.mean_and_spread().to_dict("records"):
        cell = (row["model"], row["dataset"], row["block"], row["method"])
        for metric in METRICS:
            ours, paper = Figure(row[metric], row[f"{metric}_std"]), printed.quality(*cell, metric)
            rows.append([*cell, metric, ours, paper, side_of(ours, paper, metric)])
    frame = pd.DataFrame(rows, columns=[*CELL, "metric", "ours", "paper", "side"])
    return frame[frame["side"] != ""]


def side_of(ours: Figure, paper: Figure, metric: str) -> str:
    """Where our figure lies: "within" two standard deviations of both (and of the last printed digit), or where.

    Examples
    --------
    >>> side_of(Figure(1.40, 0.02), Figure(1.29, 0.036), "lof"), side_of(Figure(1.30), Figure(1.29, 0.036), "lof")
    ('higher', 'within')
    >>> side_of(Figure(1.40), Figure(), "lof")
    ''
    """
    difference = ours.mean - paper.mean
    if math.isnan(difference):
        return ""
    spread = SPREADS * math.hypot(*(std for std in (ours.std, paper.std) if not math.isnan(std)))
    # The printed figures are decimal fractions: what lies on the edge of the spread has to count as within it.
    if abs(difference) <= spread + ROUNDING.get(metric, OTHER_ROUNDING) + 1e-9:
        return "within"
    return "higher" if difference > 0 else "lower"


def figure_text(figure: Figure, metric: str) -> str:
    """A mean and its spread for people: shares in percent.

    Examples
    --------
    >>> figure_text(Figure(0.9874, 0.02), "validity_retrained"), figure_text(Figure(0.0214), "cost_l1")
    ('98.7 ± 2.0', '0.021')
    """
    if math.isnan(figure.mean):
        return NONE
    scale, digits = (100.0, 1) if metric in SHARES else (1.0, 2 if metric == "lof" else 3)
    return " ± ".join(f"{scale * value:.{digits}f}" for value in figure if not math.isnan(value))


def beside(ours: Figure, paper: Figure, metric: str) -> str:
    """Ours and the paper's in brackets; bold, with an arrow, where they differ by more than their spread.

    Examples
    --------
    >>> beside(Figure(0.021, 0.001), Figure(0.031, 0.002), "cost_l1")
    '**0.021 ± 0.001** ↓ (0.031 ± 0.002)'
    """
    text, side = figure_text(ours, metric), side_of(ours, paper, metric)
    mine = f"**{text}** {ARROWS[side]}" if side in ARROWS else text
    return mine if math.isnan(paper.mean) else f"{mine} ({figure_text(paper, metric)})"


def speed(ours: float, paper: Figure) -> str:
    """Our seconds, the paper's, and how many times as fast ours are.

    Examples
    --------
    >>> speed(0.0125, Figure(15.64))
    '0.0125 (15.6), 1,251×'
    """
    if math.isnan(ours):
        return NONE
    if math.isnan(paper.mean):
        return _seconds(ours)
    ratio = paper.mean / ours
    times = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"
    return f"{_seconds(ours)} ({_seconds(paper.mean)}), {times}×"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.3g}"
