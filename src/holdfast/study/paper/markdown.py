"""Numbers and tables as Markdown."""

from __future__ import annotations

import math

from holdfast.study.paper.compare import Side, side_of
from holdfast.study.paper.printed import Figure, rounding

SHARES = {"validity_retrained", "delta_validity_val", "delta_validity_inc"}
ARROWS = {Side.HIGHER: "↑", Side.LOWER: "↓"}
NONE = "–"


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
    side = side_of(ours, paper, rounding(metric))
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
    return (
        f"{_seconds(ours)} ({_seconds(paper.mean)}), {ratio:,.0f}×"
        if ratio >= 10
        else (f"{_seconds(ours)} ({_seconds(paper.mean)}), {ratio:.1f}×")
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.3g}"
