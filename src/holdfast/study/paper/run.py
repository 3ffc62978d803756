"""Run the paper's experiments: quality, seconds, radii, accuracies, δ and robustInit; killed and resumed at will."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

from holdfast.errors import InvalidInputError
from holdfast.given import check_jobs
from holdfast.progress import progress_bar
from holdfast.study.paper import extras
from holdfast.study.paper.printed import Printed
from holdfast.study.paper.results import Results
from holdfast.study.paper.settings import (
    BASELINE,
    DELTA_VAL,
    METHODS,
    MULTI,
    NN,
    TABLES,
    Extent,
    ModelKind,
    PaperTable,
)
from holdfast.study.paper.situations import plan, situation
from holdfast.study.run import run_situation
from holdfast.study.store import Store

TARGETED = {method.label for method in METHODS if method.targeted}


@dataclass
class Found:
    """What one job measured: records for each frame of `Results`, and what went wrong as sentences."""

    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def add(self, part: str, records: list[dict[str, Any]]) -> None:
        """More records of a frame."""
        self.records.setdefault(part, []).extend(records)


def run_paper(
    out: Path | None,
    *,
    extent: Extent,
    printed: Printed,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> tuple[Results, list[str]]:
    """Everything that the page shows, and sentences on what could not be run.

    Parameters
    ----------
    out
        A folder. Each piece of work is kept there as soon as it is done, so that a run that was killed goes on where it
        was; None keeps nothing.
    extent
        How much of everything.
    printed
        The paper's figures, for its δ.
    datasets, methods
        Names of the paper's tables, or those that `holdfast.datasets` has for them, and labels of methods; None: all.
    n_jobs
        How many tables, models and seeds at a time, as in joblib.
    progress
        Show a progress bar on stderr; by default if stderr is a terminal.
    """
    names = {table.source: table.name for table in TABLES}
    asked = None if datasets is None else [names.get(name, name) for name in datasets]
    tables = _chosen([table.name for table in TABLES], asked, "datasets")
    labels = _chosen([method.label for method in METHODS], methods, "methods")
    # Seeds in the inner loop: large tables come first, so that no long job is left for the end.
    jobs = [
        (table, kind, seed)
        for table in sorted((t for t in TABLES if t.name in tables), key=_weight)
        for kind in table.training
        for seed in range(extent.seeds)
    ]
    work = partial(_run_job, extent=extent, printed=printed, labels=labels, store=Store.open(out))
    done: dict[int, Found] = {}
    with progress_bar("paper", len(jobs), wanted=progress, long=2) as advance:
        for number, found in _results(work, jobs, check_jobs(n_jobs)):
            done[number] = found
            if advance is not None:
                advance(1)
    order = sorted(range(len(jobs)), key=lambda number: _page_order(jobs[number]))
    return _gathered([done[number] for number in order])


def _results(work: Any, jobs: Sequence[Any], n_jobs: int | None) -> Iterator[tuple[int, Found]]:
    """Each job's number and what it found, as they finish."""
    if n_jobs in (None, 1):
        yield from ((number, work(job)) for number, job in enumerate(jobs))
        return
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    yield from parallel(joblib.delayed(_numbered)(work, number, job) for number, job in enumerate(jobs))


def _numbered(work: Any, number: int, job: Any) -> tuple[int, Found]:
    return number, work(job)


def _run_job(
    job: tuple[PaperTable, ModelKind, int], *, extent: Extent, printed: Printed, labels: Sequence[str], store: Store
) -> Found:
    """Everything that is measured on one model: the quality cells first, then what belongs to the model alone."""
    table, kind, seed = job
    here, found = situation(table, kind, seed, extent, store), Found()
    outcome = run_situation(here, plan(table, kind, printed, extent, labels))
    found.errors = [f"{table.name} {kind} {row['method']}: {row['error']}" for row in outcome.rows if row.get("error")]
    if outcome.details:
        details = pd.concat(outcome.details, ignore_index=True)
        found.add("inputs", _inputs(details, extras.radii(here, details["cell"]) if kind == NN else []))
        found.add("seconds", _seconds(outcome.rows))
    found.add("calibrated", extras.calibrated(here, table, kind, extent))
    if seed == 0:
        found.add("accuracy", extras.accuracies(here, table, kind, extent))
        if kind == NN:
            found.add("distances", extras.distances(here, table, kind, extent))
        delta = printed.delta_used(kind, table.name, DELTA_VAL)
        if kind != MULTI and delta is not None:
            found.add("robust_init", extras.robust_init(here, table, kind, delta, extent))
    return found


def _inputs(details: pd.DataFrame, radii: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A record for each input of each method, with the paper's names."""
    known = {(record["cell"], record["row"]): record["radius"] for record in radii}
    row = details.groupby(["method", "delta_label"], sort=False).cumcount()
    frame = details.assign(
        block=_blocks(details),
        verdict_val=details.get("verdict_delta_val"),
        verdict_inc=details.get("verdict_delta_inc"),
        radius=pd.Series([known.get(key) for key in zip(details["cell"], row, strict=True)], dtype=object),
        input=details["input"].astype(int),
    )
    return _records(frame.replace({np.nan: None}))


def _seconds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A record for each method, once and not for each δ that it was certified at."""
    frame = pd.DataFrame([row for row in rows if not row.get("error")])
    frame = frame.assign(block=_blocks(frame)).drop_duplicates(["method", "block"])
    return _records(frame[["model", "dataset", "block", "method", "seed", "inputs", "seconds"]])


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False, name=None)]


def _blocks(frame: pd.DataFrame) -> list[str]:
    """The part of the table that a row belongs to: that of its δ, or the baselines'."""
    pairs = zip(frame["method"], frame["delta_label"], strict=True)
    return [label if method in TARGETED else BASELINE for method, label in pairs]


def _gathered(found: Sequence[Found]) -> tuple[Results, list[str]]:
    parts = dict.fromkeys(part for one in found for part in one.records)
    records = {part: [record for one in found for record in one.records.get(part, [])] for part in parts}
    errors = list(dict.fromkeys(error for one in found for error in one.errors))
    return Results.of(records), errors


def _page_order(job: tuple[PaperTable, ModelKind, int]) -> tuple[int, int]:
    table, _, seed = job
    return [one.name for one in TABLES].index(table.name), seed


def _weight(table: PaperTable) -> int:
    return ("adult", "gmc", "heloc", "housing", "compas", "iris").index(table.name)


def _chosen(known: list[str], wanted: Sequence[str] | None, what: str) -> list[str]:
    unknown = [name for name in wanted or () if name not in known]
    if unknown or wanted == []:
        raise InvalidInputError(f"{what}: expected some of {', '.join(known)}, got {', '.join(unknown) or 'none'}")
    return known if wanted is None else list(wanted)
