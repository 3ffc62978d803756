"""One cell of a study: a method's answers to the people of one situation, measured, and their verdicts under each Δ.

Answers and verdicts are kept apart: a further delta asks nobody again, and a method that ignores Δ answers once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from holdfast.changes import Changes
from holdfast.generators import Generator, Recourse, explain
from holdfast.generators.candidates import read_ahead
from holdfast.metrics import per_row
from holdfast.metrics.means import mean_of_answered
from holdfast.network import Floats
from holdfast.study.situation import Situation
from holdfast.study.specification import describe, digest
from holdfast.verify import Verdict

ROW_METRICS = ("valid", "valid_retrained", "cost_l1", "lof", "changed", "violations")


@dataclass(frozen=True)
class Cell:
    """A method's answers in one situation, row by row.

    Attributes
    ----------
    key
        The name under which they are kept: ``cells/<key>.json``.
    points
        The answers in the model's variables; rows of nan where there is none.
    reason
        Why a person has none, or "".
    gap
        `optimality_gap`.
    metrics
        `ROW_METRICS`, each a number for each person.
    seconds
        CPU seconds for all of them.
    reused
        Whether they had been kept.
    """

    key: str
    points: Floats
    reason: list[str]
    gap: Floats
    metrics: Mapping[str, Floats]
    seconds: float
    reused: bool

    @property
    def found(self) -> Any:
        """Which people have an answer."""
        return ~np.isnan(self.points).any(axis=1)

    def summary(self) -> dict[str, Any]:
        """The averages; see `holdfast.metrics.means` for what they are over."""
        mean = {name: mean_of_answered(self.metrics[name]) for name in ROW_METRICS}
        return {
            "inputs": len(self.points),
            "coverage": float(self.found.mean()),
            "validity": mean["valid"],
            "validity_retrained": mean["valid_retrained"],
            "cost_l1": mean["cost_l1"],
            "lof": mean["lof"],
            "sparsity": mean["changed"],
            "violations": mean["violations"],
        }


def answer(situation: Situation, generator: Generator, changes: Changes | None, time_limit: float | None) -> Cell:
    """What a method answers in a situation, from the store or asked for, measured and kept."""
    specification = {
        "situation": situation.identity,
        "people": describe(situation.people[list(situation.table.space.names)]),
        "generator": describe(generator),
        "changes": describe(changes),
        "time_limit": time_limit,
    }
    key = digest(specification)
    kept = situation.store.read("cells", key)
    if kept is not None:
        return _read_cell(key, kept)
    # The authors' tables are arrays in the model's variables from the start, so reading ours is not timed.
    read_ahead(generator, situation.table.space, situation.models.classifier)
    began = time.process_time()
    recourse = explain(
        situation.models.classifier,
        situation.people,
        target=situation.table.target,
        changes=changes,
        generator=generator,
        space=situation.table.space,
        seed=situation.seed,
        time_limit=time_limit,
        progress=False,
    )
    seconds = time.process_time() - began
    frame = per_row(recourse, retrained=situation.models.retrained, density=situation.density)
    metrics = {name: frame[name].to_numpy() if name in frame else np.full(len(frame), math.nan) for name in ROW_METRICS}
    reason = [str(text) for text in recourse.reason]
    cell = Cell(key, recourse.points, reason, recourse.optimality_gap, metrics, seconds, reused=False)
    situation.store.write("cells", key, _cell_content(cell, specification))
    return cell


@dataclass(frozen=True)
class Verdicts:
    """The verdicts on a cell's answers under one Δ: names, None where there is no answer."""

    names: list[str | None]
    reused: bool

    def summary(self) -> dict[str, float]:
        """The shares of the answers that are proven robust, and that are undecided."""
        given = [name for name in self.names if name is not None]
        share = {verdict: given.count(verdict.name) / len(given) if given else math.nan for verdict in Verdict}
        return {"delta_validity": share[Verdict.ROBUST], "delta_unknown": share[Verdict.UNKNOWN]}


def judge(situation: Situation, cell: Cell, changes: Changes, time_limit: float | None) -> Verdicts:
    """Whether each answer of a cell survives Δ, from the store or certified and kept."""
    specification = {"cell": cell.key, "changes": describe(changes), "time_limit": time_limit}
    key = digest(specification)
    kept = situation.store.read("verdicts", key)
    if kept is not None:
        return Verdicts(kept["verdict"], reused=True)
    table = situation.table
    answers = Recourse.of(
        situation.models.classifier, cell.points, situation.people, target=table.target, space=table.space
    )
    limit = None if time_limit is None else time_limit * len(answers)
    names = answers.under(changes, time_limit=limit).verdict_names.tolist()
    situation.store.write("verdicts", key, {"verdict": names, "specification": specification})
    return Verdicts(names, reused=False)


def cell_frame(situation: Situation, cell: Cell, verdicts: Mapping[str, Verdicts]) -> pd.DataFrame:
    """The cell row by row: one row for each person, with the people's index as a column."""
    columns: dict[str, Any] = {"input": situation.people.index, "found": cell.found, "reason": cell.reason}
    columns |= dict(cell.metrics) | {"optimality_gap": cell.gap}
    frame = pd.DataFrame(columns)
    for label, given in verdicts.items():
        frame[f"verdict_{label}"] = pd.Series(given.names, dtype=object)
    return frame.assign(cell=cell.key)


def _cell_content(cell: Cell, specification: dict[str, Any]) -> dict[str, Any]:
    return {
        "points": [None if math.isnan(point[0]) else point.tolist() for point in cell.points],
        "variables": int(cell.points.shape[1]),
        "reason": cell.reason,
        "optimality_gap": _numbers(cell.gap),
        "metrics": {name: _numbers(values) for name, values in cell.metrics.items()},
        "seconds": cell.seconds,
        "specification": specification,
    }


def _read_cell(key: str, content: Mapping[str, Any]) -> Cell:
    nothing = [math.nan] * content["variables"]
    points = np.array([nothing if point is None else point for point in content["points"]], dtype=np.float64)
    metrics = {name: np.array(content["metrics"][name], dtype=np.float64) for name in ROW_METRICS}
    gap = np.array(content["optimality_gap"], dtype=np.float64)
    return Cell(key, points, content["reason"], gap, metrics, content["seconds"], reused=True)


def _numbers(values: Floats) -> list[float | None]:
    """Numbers for JSON, which has no nan."""
    return [None if math.isnan(value) else value for value in values.tolist()]
