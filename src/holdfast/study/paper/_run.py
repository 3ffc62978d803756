"""Run the paper's experiments: quality, seconds, radii, accuracies, δ and robustInit; killed runs can be resumed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from holdfast._parallel import jobs, spread
from holdfast._progress import progress_bar
from holdfast.study._run import run_situation
from holdfast.study._store import StudyStore
from holdfast.study._tables import some_of
from holdfast.study.paper._measure import PaperModel, Records
from holdfast.study.paper._printed import Printed
from holdfast.study.paper._results import Results
from holdfast.study.paper._settings import (
    BASELINE,
    DELTA_VAL,
    METHODS,
    MULTI,
    NN,
    TABLES,
    PaperExtent,
)


def run_paper(
    out: Path | None,
    *,
    extent: PaperExtent,
    printed: Printed,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> tuple[Results, list[str]]:
    """Run everything for the page; also returns sentences about parts that could not be run.

    Parameters
    ----------
    out
        A folder. Each piece of work is stored there as soon as it is done, so that a killed run can continue. None
        stores nothing.
    extent
        The sizes of the run.
    printed
        The paper's figures, which give its δ.
    datasets, methods
        Names of the paper's tables (or their names in `holdfast.datasets`), and names of methods; None means all.
    n_jobs
        The number of situations (table, model, seed) in parallel, as in joblib.
    progress
        Show a progress bar on stderr. By default it shows if stderr is a terminal.
    """
    names = {table.source: table.name for table in TABLES}
    asked = None if datasets is None else [names.get(name, name) for name in datasets]
    tables = some_of([table.name for table in TABLES], asked, "datasets")
    labels = some_of([method.name for method in METHODS], methods, "methods")
    store = StudyStore.open(out)
    models = [
        PaperModel(table, kind, seed, extent, store)
        for table in TABLES
        if table.name in tables
        for seed in range(extent.seeds)
        for kind in table.training
    ]
    work = partial(_measured, printed=printed, labels=labels)
    parts: dict[str, Records] = defaultdict(list)
    missing: dict[str, None] = {}
    bar = progress_bar("paper", len(models), wanted=progress, long=2)
    with jobs(n_jobs), bar as advance:
        for measured, errors in spread(work, models):
            for part, records in measured.items():
                parts[part] += records
            missing |= dict.fromkeys(errors)
            advance(1)
    return Results.of(parts), list(missing)


def _measured(
    model: PaperModel, *, printed: Printed, labels: Sequence[str]
) -> tuple[dict[str, Records], list[str]]:
    """Records for each frame of `Results`, the quality cells first, and the errors as sentences."""
    name, kind = model.table.name, model.kind
    outcome = run_situation(model.situation, model.plan(printed, labels))
    errors = [
        f"{name} {kind} {row['method']}: {row['error']}" for row in outcome.rows if row["error"]
    ]
    parts = {"calibrated": model.calibrated()}
    if outcome.details:
        radii = [model.radii(cell) if kind == NN else None for _, cell, _ in outcome.asked]
        cells = zip(outcome.details, radii, strict=True)
        inputs = pd.concat(
            [frame.assign(radius=radius) for frame, radius in cells], ignore_index=True
        )
        verdicts = {f"verdict_{end}": inputs.get(f"verdict_delta_{end}") for end in ("val", "inc")}
        parts["inputs"] = _with_blocks(inputs.assign(**verdicts))
        # Once for each method and δ that it was given, and not for each δ that it was certified at.
        rows = pd.DataFrame([row for row in outcome.rows if not row["error"]])
        parts["seconds"] = _with_blocks(rows.drop_duplicates(["method", "delta_label"]))
    if model.seed == 0:
        parts["accuracy"] = model.accuracies()
        if kind == NN:
            parts["distances"] = model.distances()
        delta = printed.delta_used(kind, name, DELTA_VAL)
        if kind != MULTI and delta is not None:
            parts["robust_init"] = model.robust_init(delta)
    return parts, errors


def _with_blocks(frame: pd.DataFrame) -> Records:
    """Records with the block of the table: that of their δ, or the baselines'."""
    blocks = frame["delta_label"].replace("", BASELINE)
    records: list[Any] = frame.assign(block=blocks).to_dict("records")
    return records
