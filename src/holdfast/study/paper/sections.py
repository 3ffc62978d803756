"""The tables of the page, each a pure function of the results and of what the paper prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from holdfast.study.markdown import table
from holdfast.study.paper.claims import Claim
from holdfast.study.paper.compare import NONE, beside, figure_text, speed
from holdfast.study.paper.printed import Figure, Printed
from holdfast.study.paper.results import CELL, METRICS, Results, groups
from holdfast.study.paper.settings import BASELINE, DELTA_NAMES, LR, MULTI, NN, Block, ModelKind

HEADINGS = {
    "validity_retrained": "valid after retraining",
    "delta_validity_val": "Δ-valid at δ_val",
    "delta_validity_inc": "Δ-valid at δ_inc",
    "cost_l1": "cost",
    "lof": "lof",
}
TITLES: dict[ModelKind, str] = {NN: "neural networks", LR: "logistic regression", MULTI: "several classes"}
SHOWN_BROKEN = 12


@dataclass(frozen=True)
class Run:
    """How the results came about.

    Parameters
    ----------
    command
        What a reader types to get them again.
    seeds, inputs
        Of the quality tables.
    machine
        What it ran on, in words.
    missing
        What could not be run, as sentences.
    images
        Where the pictures lie, as seen from the page; None without pictures.
    """

    command: str
    seeds: int
    inputs: int
    machine: str
    missing: Sequence[str] = ()
    images: str | None = None


def claims_section(claims: Sequence[Claim]) -> str:
    """The summary: what holds, what does not, and where."""
    rows = []
    for claim in claims:
        more = len(claim.broken) - SHOWN_BROKEN
        where = [*claim.broken[:SHOWN_BROKEN], *([f"and {more} more"] if more > 0 else [])]
        obey = f"{claim.checked - len(claim.broken)} of {claim.checked}"
        rows.append([claim.text, f"**{claim.verdict}**", obey, "; ".join(where)])
    headings = ["statement", "", "cells that obey", "cells that do not"]
    return f"## Does the paper's pattern hold?\n\n{table(headings, rows)}"


def accuracy_section(results: Results, printed: Printed) -> str:
    """Table 1."""
    if results.accuracy.empty:
        return ""
    rows = []
    for (dataset,), part in groups(results.accuracy, ["dataset"]):
        sizes = [f"{int(part[what].iloc[0]):,}" for what in ("rows", "attributes")]
        theirs = printed.size(dataset)
        if theirs is not None:
            sizes = [f"{ours} ({paper:,})" for ours, paper in zip(sizes, theirs, strict=True)]
        cells = [
            beside(_figure(part[part["model"] == model]["accuracy"]), printed.accuracy(dataset, model), "accuracy")
            for model in TITLES
        ]
        rows.append([dataset, *sizes, *cells])
    headings = ["data", "rows", "attributes", *(f"accuracy: {title}" for title in TITLES.values())]
    return f"{_ACCURACY}\n\n{table(headings, rows)}"


def deltas_section(results: Results, printed: Printed, run: Run) -> str:
    """Figure 4 and the δ that both ways give."""
    if results.calibrated.empty:
        return ""
    rows = []
    for (model, dataset), part in groups(results.calibrated, ["model", "dataset"]):
        cells = []
        for block in DELTA_NAMES:
            ours = part[part["block"] == block]
            short = len(ours) - int(ours["reached"].astype(bool).sum())
            note = f" ({short} of {len(ours)} not reached)" if short else ""
            theirs = (printed.delta(model, dataset, block), printed.delta_used(model, dataset, block))
            cells += [*map(_delta, theirs), figure_text(_figure(ours["delta"]), "delta") + note]
        rows.append([f"{model} {dataset}", *cells])
    headings = ["", *(f"{name} {what}" for name in DELTA_NAMES.values() for what in ("printed", "used", "ours"))]
    parts = [_DELTAS, _picture(run, "deltas", "δ against the share of the second half"), table(headings, rows)]
    return "\n\n".join(part for part in parts if part)


def curves_section(run: Run) -> str:
    """Figure 5."""
    picture = _picture(run, "survival", "Δ-validity against δ, a panel for each data set")
    return f"{_CURVES}\n\n{picture}" if picture else ""


def quality_section(results: Results, printed: Printed, model: ModelKind) -> str:
    """The quality table of one kind of model, a table for each data set."""
    frame = results.mean_and_spread()
    frame = frame[frame["model"] == model]
    parts = [] if frame.empty else [f"## Quality: {TITLES[model]}"]
    for (dataset,), part in groups(frame, ["dataset"]):
        metrics = [metric for metric in METRICS if part[metric].notna().any()]
        rows = []
        for (block,), of_block in groups(part, ["block"]):
            if block != BASELINE:
                used = _delta(printed.delta_used(model, dataset, block))
                rows.append([f"*target {DELTA_NAMES[block]} = {used}*", *[""] * (len(metrics) + 1)])
            rows += [_quality_row(row, printed, metrics) for row in of_block.to_dict("records")]
        headings = ["method", *(HEADINGS[metric] for metric in metrics), "coverage"]
        parts.append(f"### {dataset}\n\n{table(headings, rows)}")
    return "\n\n".join(parts)


def seconds_section(results: Results, printed: Printed) -> str:
    """The runtime table."""
    frame = results.mean_and_spread()
    frame = frame[frame["model"] != MULTI]
    rows, texts = [], []
    for model, dataset, block, method, ours in frame[[*CELL, "seconds"]].itertuples(index=False):
        texts.append(speed(ours, printed.seconds(model, dataset, block, method)))
        rows.append(f"{model} {method}{at_delta(block).removeprefix(' at')}")
    return "" if frame.empty else f"{_SECONDS}\n\n{_wide(rows, frame['dataset'], texts)}"


def robust_init_section(results: Results, printed: Printed) -> str:
    """The two tables on robustInit."""
    parts = [] if results.robust_init.empty else [_ROBUST_INIT]
    for (name,), part in groups(results.robust_init, ["table"]):
        columns, texts = [], []
        for row in part.to_dict("records"):
            dataset, model = row["dataset"], row["model"]
            texts.append(speed(row["seconds"], printed.robust_init(str(name), row["row"], dataset, model)))
            columns.append(f"{dataset} {model}, {row['inputs']:,} inputs")
        parts.append(_wide(part["row"], columns, texts))
    return "\n\n".join(parts)


def _wide(rows: Iterable[str], columns: Iterable[str], texts: list[str]) -> str:
    """A table of texts, each at its row and column."""
    frame = pd.DataFrame({"row": list(rows), "column": list(columns), "text": texts})
    wide = frame.pivot_table("text", "row", "column", aggfunc="first", sort=False).fillna(NONE)
    return table(["", *wide.columns], wide.reset_index().to_numpy().tolist())


def at_delta(block: Block) -> str:
    """The δ that a method was given, behind its name; nothing for a baseline."""
    return "" if block == BASELINE else f" at {DELTA_NAMES[block]}"


def _figure(values: pd.Series) -> Figure | None:
    """Mean and spread, which one value has not."""
    if values.empty:
        return None
    return Figure(float(values.mean()), float(values.std(ddof=0)) if len(values) > 1 else None)


def _quality_row(row: Mapping[Any, Any], printed: Printed, metrics: Sequence[str]) -> list[str]:
    model, dataset, block, method = (row[name] for name in CELL)
    cells = []
    for metric in metrics:
        paper = printed.quality(model, dataset, block, method, metric)
        cells.append(beside(Figure(row[metric], row[f"{metric}_std"]), paper, metric))
    unknown = max(row["delta_unknown_val"], row["delta_unknown_inc"])
    note = f" ({100 * unknown:.1f}% UNKNOWN)" if unknown > 0 else ""
    return [method, *cells, f"{100 * row['coverage']:.0f}%{note}"]


def _delta(value: float | None) -> str:
    return NONE if value is None else f"{value:g}"


def _picture(run: Run, name: str, text: str) -> str:
    return "" if run.images is None else f"![{text}]({run.images}/paper-{name}.png)"


_ACCURACY = """\
## Table 1: data and accuracies

Five-fold cross-validation on the first half; gmc with its rows of class 0 three times, as the authors' code has it."""

_DELTAS = """\
## Figure 4: how large is δ?

δ_inc is the mean distance between today's model and its successors after a tenth of the second half; δ_val the least δ
tried at which every RNCE-FF answer for the validation inputs survives all models trained anew. "Used" is what every
other table here is made with; "ours" is what the two ways give on our models."""

_CURVES = """\
## Figure 5: Δ-validity against δ

For every δ the share of counterfactuals that are proven robust, read off their certified radii, so that the curves are
exact everywhere; the paper's end at δ_inc. Robust methods were given δ_inc."""

_SECONDS = """\
## Seconds for twenty inputs

Ours, the paper's in brackets, and how many times as fast ours are. The clock starts when the table of candidates has
been read, as the authors' arrays have. The paper's machine and solver (Gurobi) are others;
ours is one thread."""

_ROBUST_INIT = """\
## robustInit: certify every candidate first?

Seconds of RNCE-FF, which certifies neighbours until one is robust, and of RNCE-TF, which certifies the whole table
once, with δ_val; the paper's in brackets. Inputs are training rows that the model puts in class 0. "After the tree":
once the table is certified."""
