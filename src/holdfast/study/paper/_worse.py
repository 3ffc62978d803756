"""Cells that break a statement and are worse than the paper's: both figures, and reasons that the results support."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from holdfast.study.paper._claims import Cells, Check, Claim
from holdfast.study.paper._compare import NOTES, SHARES, SPREADS, figure_text, seconds_text, side_of
from holdfast.study.paper._printed import Figure, Printed
from holdfast.study.paper._results import CELL, METRICS, Results
from holdfast.study.paper._settings import BASELINE, DELTA_NAMES, HEADINGS, at_delta

HIGHER_IS_BETTER = (*SHARES, "accuracy")
# Reasons for seconds, and the methods that they are about; none names all methods.
SECONDS_NOTES: tuple[tuple[str, Sequence[str]], ...] = (
    (
        "Our clock covers all of `explain`: it encodes the people, searches, and checks class and constraints of each "
        "result.",
        (),
    ),
    (
        "Ours solves one mixed-integer program for each person with HiGHS, up to a proven optimum; the authors use "
        "Gurobi.",
        ("MCE", "MCE-R"),
    ),
)


def worse_cells(
    results: Results, printed: Printed, claims: Sequence[Claim]
) -> tuple[list[str], int]:
    """Each cell that is worse than the paper's, as Markdown, and the number of other cells that break a statement.

    Cells without a figure in the paper do not count.
    """
    cells = Cells(results, printed)
    failed = {(check.cell, check.metric): check for claim in claims for check in claim.failed}
    lines, others = [], 0
    for check in failed.values():
        ours, paper = _figures(cells, check)
        if math.isnan(ours.mean - paper.mean):
            continue
        if not _is_worse(check.metric, ours, paper):
            others += 1
            continue
        model, dataset, block, method = check.cell
        name = f"{model} {dataset} {method}{at_delta(block)}".strip()
        figures = f"{_text(ours, check.metric)}, and the paper's {_text(paper, check.metric)}"
        what = HEADINGS.get(check.metric, check.metric)
        lines.append(
            f"**{name}**, {what}: {figures}. {' '.join(_reasons(cells, check, ours, paper))}"
        )
    return lines, others


def _figures(cells: Cells, check: Check) -> tuple[Figure, Figure]:
    """Our figure and the paper's."""
    model, dataset, _, _ = check.cell
    if check.metric == "accuracy":
        frame = cells.results.accuracy
        ours = frame[(frame["model"] == model) & (frame["dataset"] == dataset)]["accuracy"]
        return Figure(ours.mean(), ours.std(ddof=0)), cells.printed.accuracy(dataset, model)
    figure = Figure(
        *(cells.ours(check.cell, name) for name in (check.metric, f"{check.metric}_std"))
    )
    if check.metric == "seconds":
        return figure, cells.printed.seconds(*check.cell)
    return figure, cells.printed.quality(*check.cell, check.metric)


def _is_worse(metric: str, ours: Figure, paper: Figure) -> bool:
    """Whether our mean is worse than the paper's, beyond the last printed digit."""
    worse = paper.mean - ours.mean if metric in HIGHER_IS_BETTER else ours.mean - paper.mean
    return worse > (0.0 if metric == "seconds" else 0.0005)


def _text(figure: Figure, metric: str) -> str:
    return f"{seconds_text(figure.mean)} s" if metric == "seconds" else figure_text(figure, metric)


def _reasons(cells: Cells, check: Check, ours: Figure, paper: Figure) -> Iterator[str]:
    """Sentences; each is computed from the results, or is a note on a difference between the methods."""
    if check.metric == "seconds":
        for text, methods in SECONDS_NOTES:
            if not methods or check.cell[3] in methods:
                yield text
        return
    if side_of(ours, paper, check.metric) == "within":
        yield f"The difference is within {SPREADS:g} standard deviations of the two{_by_seed(cells, check)}."
    if check.metric.startswith("delta_validity"):
        yield from _not_proven(cells, check)
    if check.metric == "validity_retrained":
        yield from _rejected(cells, check)
    # Differences between the methods are reasons only beyond the spread of the paper's own figure.
    place = dict(zip(CELL, check.cell, strict=True))
    place |= {"metric": check.metric, "side": side_of(Figure(ours.mean), paper, check.metric)}
    if place["side"] != "within" and check.metric in ("cost_l1", *SHARES[1:]):
        yield from (text for text, where in NOTES if all(place[key] in where[key] for key in where))


def _by_seed(cells: Cells, check: Check) -> str:
    """The least and the greatest mean of a seed, to end a sentence; empty for accuracies and single seeds."""
    if check.metric not in METRICS:
        return ""
    rows = cells.results.cell(*check.cell)
    if check.metric.startswith("delta_validity"):
        verdicts = rows[check.metric.replace("delta_validity", "verdict")]
        values = (verdicts == "ROBUST").astype(float).where(verdicts.notna())
    else:
        values = rows["valid_retrained" if check.metric in SHARES else check.metric].astype(float)
    means = values.groupby(rows["seed"]).mean().dropna()
    if len(means) < 2:
        return ""
    least, most = (figure_text(Figure(end), check.metric) for end in (means.min(), means.max()))
    return f"; our seeds range from {least} to {most}"


def _not_proven(cells: Cells, check: Check) -> Iterator[str]:
    """The verdicts of counterfactuals that are not Δ-valid, and whether `Closest` finds a robust point there."""
    model, dataset, block, method = check.cell
    verdict = check.metric.replace("delta_validity", "verdict")
    rows = cells.results.cell(model, dataset, block, method)
    rows = rows[rows[verdict].notna()]
    unknown, broken = rows[rows[verdict] == "UNKNOWN"], rows[rows[verdict] == "NOT_ROBUST"]
    if len(unknown):
        yield (
            f"{len(unknown)} of {len(rows)} counterfactuals are UNKNOWN: neither a proof nor a counter-model was "
            "found. They count as not Δ-valid."
        )
    if len(broken):
        yield (
            f"{len(broken)} of {len(rows)} counterfactuals are NOT_ROBUST: a counter-model was found. All are from "
            f"{broken['seed'].nunique()} of {rows['seed'].nunique()} seeds."
        )
        closest = cells.results.cell(model, dataset, block, "Closest")
        if len(closest):
            same = broken[["seed", "input"]].merge(closest, on=["seed", "input"])
            robust = int((same[verdict] == "ROBUST").sum())
            many = {len(broken): "all", 0: "none"}.get(robust, f"{robust}")
            yield f"`Closest` finds a robust point for {many} of these inputs."


def _rejected(cells: Cells, check: Check) -> Iterator[str]:
    """Counterfactuals that a retrained model rejects: the proven ones show that this model is outside Δ."""
    model, dataset, block, method = check.cell
    rows = cells.results.cell(model, dataset, block, method)
    rows = rows[rows["valid_retrained"].notna()]
    rejected = rows[rows["valid_retrained"] < 1.0]
    if block == BASELINE or not len(rejected):
        return
    proven = int((rejected[block.replace("delta", "verdict")] == "ROBUST").sum())
    used = cells.printed.delta_used(model, dataset, block)
    yield (
        f"{len(rejected)} of {len(rows)} counterfactuals are rejected by at least one retrained model. "
        f"{'All' if proven == len(rejected) else proven} of them are proven for {DELTA_NAMES[block]} = {used:g}, so "
        "these retrained models are outside Δ."
    )
    chosen = cells.results.calibrated.query(
        "model == @model and dataset == @dataset and block == @block"
    )
    own = chosen["delta"]
    if used is not None and own.mean() > used:
        yield (
            f"{DELTA_NAMES[block]} of our models is {own.min():.3g} to {own.max():.3g} (mean {own.mean():.3g}), and "
            f"the paper's {used:g} is used here."
        )
