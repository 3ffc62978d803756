"""The measurements as frames; every figure on the page is computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from holdfast.study.paper._settings import BASELINE, TARGETS, Block, ModelKind

METRICS = ("validity_retrained", "delta_validity_val", "delta_validity_inc", "cost_l1", "lof")
CELL = ["model", "dataset", "block", "method"]
SEEDED = [*CELL, "seed"]
_BLOCK_ORDER = {block: place for place, block in enumerate((BASELINE, *TARGETS))}
_COLUMNS = {
    "accuracy": ["model", "dataset", "fold", "accuracy", "rows", "attributes"],
    "inputs": [
        *SEEDED, "input", "delta", "found", "valid", "valid_retrained", "verdict_val", "verdict_inc", "cost_l1", "lof",
        "radius",
    ],
    "seconds": [*SEEDED, "inputs", "seconds"],
    "distances": ["model", "dataset", "seed", "share", "distance"],
    "calibrated": ["model", "dataset", "seed", "block", "delta", "reached"],
    "robust_init": ["model", "dataset", "table", "row", "inputs", "seconds"],
}  # fmt: skip


@dataclass(frozen=True)
class Results:
    """The frames of a run.

    Parameters
    ----------
    accuracy
        A row for each fold: model, dataset, fold, accuracy, rows, attributes.
    inputs
        A row for each input of each method: model, dataset, block, method, seed, input, delta, found, valid,
        valid_retrained, verdict_val, verdict_inc, cost_l1, lof, radius.
    seconds
        A row for each method and seed: model, dataset, block, method, seed, inputs, seconds.
    distances
        A row for each model retrained on new rows: model, dataset, seed, share, distance.
    calibrated
        A row for each δ of our models: model, dataset, seed, block, delta, reached.
    robust_init
        A row for each variant of RNCE on many inputs: model, dataset, table, row, inputs, seconds.
    """

    accuracy: pd.DataFrame
    inputs: pd.DataFrame
    seconds: pd.DataFrame
    distances: pd.DataFrame
    calibrated: pd.DataFrame
    robust_init: pd.DataFrame

    @classmethod
    def of(cls, records: Mapping[str, Iterable[Mapping[str, Any]]]) -> Results:
        """Build the frames from plain records; a part without records is an empty frame."""
        frames = {
            part: pd.DataFrame(list(records.get(part, ())), columns=_COLUMNS[part])
            for part in _COLUMNS
        }
        return cls(**frames)

    def write(self, folder: Path) -> None:
        """Write each frame as a CSV file."""
        for part in _COLUMNS:
            getattr(self, part).to_csv(folder / f"{part}.csv", index=False)

    def mean_and_spread(self) -> pd.DataFrame:
        """The mean and population standard deviation of each metric over the seeds, as in the paper.

        As in the paper, shares and means are over the inputs with a counterfactual; `coverage` is the share of
        these inputs.
        """
        # 1 where the answer has this verdict, else 0; nan where there is no answer or no such δ.
        shares = {
            f"delta_{what}_{label}": (verdicts == verdict).astype(float).where(verdicts.notna())
            for label in ("val", "inc")
            for verdicts in [self.inputs[f"verdict_{label}"]]
            for what, verdict in (("validity", "ROBUST"), ("unknown", "UNKNOWN"))
        }
        rows = self.inputs.assign(
            coverage=self.inputs["found"].astype(float),
            validity_retrained=self.inputs["valid_retrained"].astype(float),
            **shares,
        )
        values = ["coverage", *METRICS, "delta_unknown_val", "delta_unknown_inc"]
        cells = rows.groupby(SEEDED, sort=False, as_index=False)[values].mean()
        cells = cells.merge(self.seconds, on=SEEDED, how="left")
        cells["seconds"] *= 20 / cells["inputs"]
        grouped = cells.groupby(CELL, sort=False)[[*values, "seconds"]]
        # One seed has no spread, which is not a spread of 0.
        mean = grouped.mean()
        std = grouped.std(ddof=0).where(grouped.count() > 1)
        joined = mean.join(std.add_suffix("_std")).reset_index()
        return joined.sort_values(
            "block", key=lambda blocks: blocks.map(_BLOCK_ORDER), kind="stable"
        )

    def cell(self, model: ModelKind, dataset: str, block: Block, method: str) -> pd.DataFrame:
        """The inputs of one method, over all seeds."""
        return self.inputs.query(
            "model == @model and dataset == @dataset and block == @block and method == @method"
        )


def groups(frame: pd.DataFrame, by: list[str]) -> Iterator[tuple[Any, pd.DataFrame]]:
    """The parts of a frame, in the order of their first rows, each with its tuple of keys."""
    yield from frame.groupby(by, sort=False)
