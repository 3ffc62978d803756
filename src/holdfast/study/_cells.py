"""One cell of a study: a method's advice for the people of one situation, its metrics, and its verdicts under each Δ.

Advice and verdicts are stored separately: a further delta needs no new search if the method ignores Δ.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from holdfast._files import Document
from holdfast._network import Bools, Floats
from holdfast.changes import Changes
from holdfast.generators import Generator, Recourse, explain
from holdfast.generators._candidates import read_ahead
from holdfast.metrics import per_row
from holdfast.metrics._rows import mean_of_answered
from holdfast.study._situation import Situation
from holdfast.study._store import digest

# What a study calls the mean of a metric over the answers.
_MEANS = {
    "valid": "validity",
    "valid_retrained": "validity_retrained",
    "cost_l1": "cost_l1",
    "lof": "lof",
    "changed": "sparsity",
    "violations": "violations",
}
_NUMBERS = [*_MEANS, "optimality_gap"]


@dataclass(frozen=True)
class Cell:
    """A method's advice in one situation.

    Attributes
    ----------
    key
        The name of the cell, a hash of its inputs.
    points
        The advice in the model's variables; rows of nan without advice.
    rows
        One row for each person: reason (why there is no advice, or ""), the metrics, optimality_gap.
    seconds
        CPU seconds for all people.
    reused
        Whether the cell was read from the store.
    """

    key: str
    points: Floats
    rows: pd.DataFrame
    seconds: float
    reused: bool

    @property
    def found(self) -> Bools:
        """True for people with advice."""
        return np.asarray(~np.isnan(self.points).any(axis=1))

    def summary(self) -> Document:
        """The averages; `holdfast.metrics._rows` states their denominators."""
        means = {
            mean: mean_of_answered(self.rows[name].to_numpy()) for name, mean in _MEANS.items()
        }
        return {"inputs": len(self.points), "coverage": float(self.found.mean()), **means}


def answer(
    situation: Situation, generator: Generator, changes: Changes | None, time_limit: float | None
) -> Cell:
    """A method's advice in a situation: read from the store, or computed, measured and stored."""
    specification = {
        "situation": situation.identity,
        "people": situation.people[list(situation.table.space.names)],
        "generator": generator,
        "changes": changes,
        "time_limit": time_limit,
    }

    def compute() -> Document:
        classifier = situation.models.classifier
        space = situation.table.space
        # The authors' tables are arrays in the model's variables from the start, so reading ours is not timed.
        read_ahead(generator, space, classifier)
        began = time.process_time()
        recourse = explain(
            classifier, situation.people, target=situation.table.target, changes=changes, generator=generator,
            space=space, seed=situation.seed, time_limit=time_limit, progress=False,
        )  # fmt: skip
        seconds = time.process_time() - began
        metrics = per_row(recourse, retrained=situation.models.retrained, density=situation.density)
        metrics = metrics.assign(optimality_gap=recourse.optimality_gap).reindex(columns=_NUMBERS)
        return {
            "points": plain_numbers(recourse.points),
            "reason": [str(text) for text in recourse.reason],
            "metrics": {name: plain_numbers(metrics[name]) for name in _NUMBERS},
            "seconds": seconds,
        }

    content, reused = situation.store.remember("cells", specification, compute)
    points = np.array(content["points"], dtype=np.float64)
    rows = pd.DataFrame(content["metrics"], dtype=np.float64)
    rows.insert(0, "reason", content["reason"])
    return Cell(digest(content["specification"]), points, rows, content["seconds"], reused)


def judge(
    situation: Situation, cell: Cell, changes: Changes, time_limit: float | None
) -> tuple[list[str | None], bool]:
    """The verdict on each advice of a cell (None without advice), and whether it was read from the store."""

    def compute() -> Document:
        table = situation.table
        answers = Recourse.of(
            situation.models.classifier,
            cell.points,
            situation.people,
            target=table.target,
            space=table.space,
        )
        limit = None if time_limit is None else time_limit * len(answers)
        return {"verdict": answers.under(changes.bare, time_limit=limit).verdict_names.tolist()}

    specification = {"cell": cell.key, "changes": changes, "time_limit": time_limit}
    content, reused = situation.store.remember("verdicts", specification, compute)
    return content["verdict"], reused


def verdict_shares(verdicts: list[str | None]) -> dict[str, float]:
    """The shares of advice with the verdicts ROBUST and UNKNOWN."""
    given = pd.Series(verdicts, dtype=object).dropna()
    return {
        "delta_validity": (given == "ROBUST").mean(),
        "delta_unknown": (given == "UNKNOWN").mean(),
    }


def cell_frame(
    situation: Situation, cell: Cell, verdicts: Mapping[str, list[str | None]]
) -> pd.DataFrame:
    """The cell as a frame: one row for each person, with the people's index as a column."""
    columns = {
        f"verdict_{label}": pd.Series(names, dtype=object) for label, names in verdicts.items()
    }
    frame = cell.rows.assign(**columns, cell=cell.key)
    frame.insert(0, "input", situation.people.index)
    frame.insert(1, "found", cell.found)
    return frame


def plain_numbers(values: Any) -> list[Any]:
    """Numbers for JSON, with None instead of nan."""
    plain = np.array(values, dtype=object)
    plain[np.isnan(values)] = None
    return list(plain.tolist())
