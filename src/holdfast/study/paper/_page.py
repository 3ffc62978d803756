"""The page: every table of the paper with our figures and the paper's. A pure function of the results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from holdfast.study._markdown import filled_page, table
from holdfast.study.paper._claims import check_claims
from holdfast.study.paper._compare import (
    NONE,
    SPREADS,
    compare,
    explained,
    figure_text,
    speed,
    with_paper,
)
from holdfast.study.paper._printed import Figure, Printed
from holdfast.study.paper._results import CELL, METRICS, Results, groups
from holdfast.study.paper._settings import BASELINE, DELTA_NAMES, HEADINGS, MULTI, TITLES, at_delta
from holdfast.study.paper._worse import worse_cells


def render(
    results: Results,
    printed: Printed,
    *,
    command: str,
    seeds: int,
    inputs: int,
    machine: str,
    missing: Sequence[str] = (),
    images: str | None = None,
) -> str:
    """The page as Markdown; a section without results is left out.

    Parameters
    ----------
    results, printed
        Our figures and the paper's.
    command
        The command that repeats the run.
    seeds, inputs
        The numbers of seeds and inputs of the quality tables.
    machine
        The machine of the run, in words.
    missing
        Parts that could not be run, as sentences.
    images
        The folder of the pictures, relative to the page; None without pictures.
    """
    claims = check_claims(results, printed)
    worse, not_worse = worse_cells(results, printed, claims)
    return filled_page(
        "paper.md.j2", command=command, seeds=seeds, inputs=inputs, machine=machine, missing=missing, images=images,
        spreads=SPREADS, claims=claims, worse=worse, not_worse=not_worse, accuracy=_accuracy(results, printed),
        deltas=_deltas(results, printed), quality=list(_quality(results, printed)), seconds=_seconds(results, printed),
        robust_init=list(_robust_init(results, printed)), **explained(compare(results, printed)),
    )  # fmt: skip


def _accuracy(results: Results, printed: Printed) -> str:
    """Table 1."""
    rows = []
    for (dataset,), part in groups(results.accuracy, ["dataset"]):
        sizes = [f"{int(part[what].iloc[0]):,}" for what in ("rows", "attributes")]
        theirs = printed.size(dataset)
        if theirs is not None:
            sizes = [f"{ours} ({paper:,})" for ours, paper in zip(sizes, theirs, strict=True)]
        cells = [
            with_paper(
                _figure(part[part["model"] == model]["accuracy"]),
                printed.accuracy(dataset, model),
                "accuracy",
            )
            for model in TITLES
        ]
        rows.append([dataset, *sizes, *cells])
    headings = ["data", "rows", "attributes", *(f"accuracy: {title}" for title in TITLES.values())]
    return table(headings, rows) if rows else ""


def _deltas(results: Results, printed: Printed) -> str:
    """The δ of both methods."""
    rows = []
    for (model, dataset), part in groups(results.calibrated, ["model", "dataset"]):
        cells = []
        for block in DELTA_NAMES:
            ours = part[part["block"] == block]
            short = len(ours) - int(ours["reached"].astype(bool).sum())
            note = f" ({short} of {len(ours)} not reached)" if short else ""
            theirs = (
                printed.delta(model, dataset, block),
                printed.delta_used(model, dataset, block),
            )
            cells += [*map(_delta, theirs), figure_text(_figure(ours["delta"]), "delta") + note]
        rows.append([f"{model} {dataset}", *cells])
    headings = [
        "",
        *(
            f"{name} {what}"
            for name in DELTA_NAMES.values()
            for what in ("printed", "used", "ours")
        ),
    ]
    return table(headings, rows) if rows else ""


def _quality(results: Results, printed: Printed) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The quality tables of each kind of model, one for each data set."""
    frame = results.mean_and_spread()
    for model, title in TITLES.items():
        tables = []
        for (dataset,), part in groups(frame[frame["model"] == model], ["dataset"]):
            metrics = [metric for metric in METRICS if part[metric].notna().any()]
            rows = []
            for (block,), of_block in groups(part, ["block"]):
                if block != BASELINE:
                    used = _delta(printed.delta_used(model, dataset, block))
                    rows.append(
                        [f"*target {DELTA_NAMES[block]} = {used}*", *[""] * (len(metrics) + 1)]
                    )
                for row in of_block.to_dict("records"):
                    method = row["method"]
                    unknown = max(row["delta_unknown_val"], row["delta_unknown_inc"])
                    papers = {
                        metric: printed.quality(model, dataset, block, method, metric)
                        for metric in metrics
                    }
                    cells = [
                        with_paper(Figure(row[m], row[f"{m}_std"]), paper, m)
                        for m, paper in papers.items()
                    ]
                    note = f" ({100 * unknown:.1f}% UNKNOWN)" if unknown > 0 else ""
                    rows.append([method, *cells, f"{100 * row['coverage']:.0f}%{note}"])
            tables.append(
                (
                    dataset,
                    table(["method", *(HEADINGS[metric] for metric in metrics), "coverage"], rows),
                )
            )
        if tables:
            yield title, tables


def _seconds(results: Results, printed: Printed) -> str:
    """The runtime table."""
    frame = results.mean_and_spread()
    frame = frame[frame["model"] != MULTI]
    rows, texts = [], []
    for model, dataset, block, method, ours in frame[[*CELL, "seconds"]].itertuples(index=False):
        texts.append(speed(ours, printed.seconds(model, dataset, block, method)))
        rows.append(f"{model} {method}{at_delta(block).removeprefix(' at')}")
    return _wide(rows, frame["dataset"], texts) if rows else ""


def _robust_init(results: Results, printed: Printed) -> Iterator[str]:
    """The two tables on robustInit."""
    for (name,), part in groups(results.robust_init, ["table"]):
        columns, texts = [], []
        for row in part.to_dict("records"):
            dataset = row["dataset"]
            model = row["model"]
            texts.append(
                speed(row["seconds"], printed.robust_init(str(name), row["row"], dataset, model))
            )
            columns.append(f"{dataset} {model}, {row['inputs']:,} inputs")
        yield _wide(part["row"], columns, texts)


def _wide(rows: Iterable[str], columns: Iterable[str], texts: list[str]) -> str:
    """A table of texts by row and column."""
    frame = pd.DataFrame({"row": list(rows), "column": list(columns), "text": texts})
    wide = frame.pivot_table("text", "row", "column", aggfunc="first", sort=False).fillna(NONE)
    return table(["", *wide.columns], wide.reset_index().to_numpy().tolist())


def _figure(values: pd.Series) -> Figure:
    """Mean and spread; a single value has no spread."""
    return Figure(values.mean(), values.std(ddof=0) if len(values) > 1 else math.nan)


def _delta(value: float | None) -> str:
    return NONE if value is None else f"{value:g}"
