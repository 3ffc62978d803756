"""Compare our figures with the paper's: differences beyond the spread of the two, in sentences, with reasons.

A reason is shown only with a difference that it explains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from holdfast.study.paper._printed import Figure, Printed
from holdfast.study.paper._results import CELL, METRICS, Results, groups
from holdfast.study.paper._settings import DELTA_VAL, HEADINGS, LR, MULTI, at_delta

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
    """One row for each figure of the quality tables that both have: the cell, the metric, `ours`, `paper`, `side`."""
    rows = []
    for row in results.mean_and_spread().to_dict("records"):
        cell = (row["model"], row["dataset"], row["block"], row["method"])
        for metric in METRICS:
            ours = Figure(row[metric], row[f"{metric}_std"])
            paper = printed.quality(*cell, metric)
            rows.append([*cell, metric, ours, paper, side_of(ours, paper, metric)])
    frame = pd.DataFrame(rows, columns=[*CELL, "metric", "ours", "paper", "side"])
    return frame[frame["side"] != ""]


def side_of(ours: Figure, paper: Figure, metric: str) -> str:
    """The side of our figure: "higher", "lower", or "within" two standard deviations of both (and printed digits).

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
    """A mean and its spread as text; shares in percent.

    Examples
    --------
    >>> figure_text(Figure(0.9874, 0.02), "validity_retrained"), figure_text(Figure(0.0214), "cost_l1")
    ('98.7 ± 2.0', '0.021')
    """
    if math.isnan(figure.mean):
        return NONE
    scale, digits = (100.0, 1) if metric in SHARES else (1.0, 2 if metric == "lof" else 3)
    return " ± ".join(f"{scale * value:.{digits}f}" for value in figure if not math.isnan(value))


def with_paper(ours: Figure, paper: Figure, metric: str) -> str:
    """Our figure, and the paper's in brackets; bold with an arrow if they differ by more than their spread.

    Examples
    --------
    >>> with_paper(Figure(0.021, 0.001), Figure(0.031, 0.002), "cost_l1")
    '**0.021 ± 0.001** ↓ (0.031 ± 0.002)'
    """
    text = figure_text(ours, metric)
    side = side_of(ours, paper, metric)
    mine = f"**{text}** {ARROWS[side]}" if side in ARROWS else text
    return mine if math.isnan(paper.mean) else f"{mine} ({figure_text(paper, metric)})"


def speed(ours: float, paper: Figure) -> str:
    """Our seconds, the paper's, and the ratio.

    Examples
    --------
    >>> speed(0.0125, Figure(15.64))
    '0.0125 (15.6), 1,251×'
    """
    if math.isnan(ours):
        return NONE
    if math.isnan(paper.mean):
        return seconds_text(ours)
    ratio = paper.mean / ours
    times = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"
    return f"{seconds_text(ours)} ({seconds_text(paper.mean)}), {times}×"


def seconds_text(seconds: float) -> str:
    """Seconds with three digits."""
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.3g}"


# A reason, and the differences it can be a reason for.
NOTES: tuple[tuple[str, dict[str, Sequence[str]]], ...] = (
    (
        "The authors' MCE puts no bounds on numbers, so MCE and MCE-R may leave the range of the data, even below 0. "
        "There their test of robustness, (W ± δ) x, accepts points that are not robust. Ours stay in the ranges and "
        "are tested exactly. If the margin cannot be raised further within the ranges, our MCE-R ends without a "
        "robust counterfactual.",
        {"method": ("MCE", "MCE-R")},
    ),
    (
        "The authors' GCE has one weight for the distance and requires a probability of 0.53. Ours adapts the weight "
        "to each person and ends just across the boundary. Theirs may also leave the ranges, or use a third of a "
        "category, which is impossible in a table.",
        {"method": ("GCE", "GCE-R"), "metric": ("cost_l1", "lof", "validity_retrained")},
    ),
    (
        "The authors run PROTO without the pull towards prototypes (θ = 0). Ours has it, and goes further, to places "
        "among accepted people.",
        {"method": ("PROTO", "PROTO-R"), "metric": ("cost_l1", "lof", "validity_retrained")},
    ),
    (
        "The authors' GCE-R tries six levels of probability up to 0.97, and their PROTO-R three. Ours raise the margin "
        "for up to fifty rounds.",
        {"method": ("GCE-R", "PROTO-R"), "metric": (*SHARES, "cost_l1")},
    ),
    (
        "The authors' ROAR is CARLA's: it fits a linear model once around the person and crosses its threshold without "
        "bounds on the features, so its points leave the range of the data. Ours follows the tangent at the point "
        "itself and stays in the ranges.",
        {"method": ("ROAR",)},
    ),
    (
        "RBR's kernels have a standard deviation of 1 in the authors' runs, so the odds are nearly flat on variables "
        "in [0, 1]. Ours have 0.2: the points are further on the favourable side, more often valid, and cost more.",
        {"method": ("RBR",)},
    ),
    (
        "The authors choose ST-CE's threshold for each draw of inputs, as the least at which other retrained models "
        "accept most counterfactuals, and search at most 8,000 rows. Ours has one threshold and searches all rows.",
        {"method": ("ST-CE",)},
    ),
    (
        "The authors' line search mixes categories in any proportion and stops at twentieths. Ours takes each category "
        "from the candidate or from the person, and continues the search between the twentieths.",
        {"method": ("RNCE-FT",), "metric": ("cost_l1", "lof")},
    ),
    (
        "The authors' line search stops at twentieths, so most of its points keep some distance from the boundary. "
        "Ours ends closer to it. The points cost less, but are robust only a little beyond the δ that was asked for, "
        "and fewer of them stay valid after retraining.",
        {"method": ("RNCE-FT",), "metric": SHARES, "model": (LR,), "side": ("lower",)},
    ),
    (
        "A point that is robust at δ is robust at every smaller δ. For the logistic regression on heloc δ_inc is "
        "smaller than δ_val, so points that are Δ-valid at δ_val are Δ-valid at δ_inc. The paper prints 0%.",
        {
            "method": ("RNCE-FT",),
            "metric": ("delta_validity_inc",),
            "model": (LR,),
            "dataset": ("heloc",),
            "block": (DELTA_VAL,),
        },
    ),
    (
        "The authors search at most 12,000 accepted rows, drawn at random. We search all accepted rows, and find "
        "nearer ones.",
        {
            "method": ("RNCE-FF", "RNCE-FT"),
            "metric": ("cost_l1",),
            "dataset": ("adult", "gmc"),
            "side": ("lower",),
        },
    ),
    (
        "Repeated rows count once in our local outlier factor, because the density among equal rows is infinite. "
        "Adult, compas, gmc and iris have such rows, and the paper's figure depends on their order.",
        {"metric": ("lof",), "dataset": ("adult", "compas", "gmc", "iris")},
    ),
    (
        "For several classes the authors' code measures plausibility among rows of class 1, although the target is "
        "class 2. Ours measures it among rows of class 2.",
        {"metric": ("lof",), "model": (MULTI,)},
    ),
    (
        "The authors' networks for several classes apply softmax before a loss that applies softmax too, and have 5 "
        "neurons a layer on iris. Ours apply it once, and have 10 neurons there.",
        {"metric": (*SHARES, "cost_l1"), "model": (MULTI,)},
    ),
)


def explained(comparisons: pd.DataFrame) -> dict[str, Any]:
    """The number of differences beyond the spread, each of them in words, their reasons, and those without a reason."""
    differences = comparisons[comparisons["side"].isin(ARROWS)]
    better = (differences["side"] == "higher") == differences["metric"].isin(SHARES)
    covered = {text: differences[list(where)].isin(where).all(axis=1) for text, where in NOTES}
    left = differences[~pd.DataFrame(covered).any(axis=1)]
    return {
        "compared": len(comparisons),
        "different": len(differences),
        "better": int(better.sum()),
        "reasons": {
            text: _places(differences[rows]) for text, rows in covered.items() if rows.any()
        },
        "left": len(left),
        "places_left": _places(left),
        "statements": list(_statements(differences)),
    }


def _statements(differences: pd.DataFrame) -> Iterator[str]:
    """One line for each model, method, δ and metric: the data sets where ours is higher or lower, with the figures."""
    by = ["model", "block", "method", "metric", "side"]
    for (model, block, method, metric, side), part in groups(
        differences.sort_values(by, kind="stable"), by
    ):
        places = ", ".join(
            f"{dataset} ({figure_text(ours, metric)} against {figure_text(paper, metric)})"
            for dataset, ours, paper in part[["dataset", "ours", "paper"]].itertuples(index=False)
        )
        yield f"{model}, {method}{at_delta(block)}: {HEADINGS[metric]} is {side} on {places}."


def _places(differences: pd.DataFrame) -> str:
    by = ["method", "metric", "model"]
    return "; ".join(
        f"{method} {HEADINGS[metric]} ({model}: {', '.join(part['dataset'].unique())})"
        for (method, metric, model), part in groups(differences.sort_values(by, kind="stable"), by)
    )
