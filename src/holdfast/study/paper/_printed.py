"""The figures that the paper prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from holdfast._files import read_json
from holdfast.errors import FileFormatError
from holdfast.study.paper._settings import (
    BASELINE,
    DELTA_VAL,
    MULTI,
    OTHER_DELTAS,
    Block,
    ModelKind,
)

NEEDED = ("quality_NN", "quality_LR", "runtime_s_20_inputs", "multiclass", "datasets")


class Figure(NamedTuple):
    """A mean and a standard deviation; nan if missing."""

    mean: float = math.nan
    std: float = math.nan


@dataclass(frozen=True)
class Printed:
    """The paper's tables, from `figures.json` or a file of the same form; nan for figures that are not printed.

    Examples
    --------
    >>> printed = Printed.load()
    >>> printed.quality("NN", "adult", "delta_val", "MCE-R", "cost_l1")
    Figure(mean=0.021, std=0.001)
    >>> printed.quality("LR", "adult", "delta_val", "MCE-R", "cost_l1")
    Figure(mean=nan, std=nan)
    >>> printed.delta("NN", "gmc", "delta_val"), printed.delta_used("NN", "gmc", "delta_val")
    (0.02, 0.045)
    """

    tables: Mapping[str, Any] = field(repr=False)

    @classmethod
    def load(cls, path: Path | None = None) -> Printed:
        """Load the package's own copy, or another file."""
        source = files(__package__) / "figures.json" if path is None else path
        tables = read_json(source, "the paper's tables as JSON")
        missing = [name for name in NEEDED if not isinstance(tables, dict) or name not in tables]
        if missing:
            raise FileFormatError(
                f"{source}: expected the paper's tables; {', '.join(missing)} are missing"
            )
        return cls(tables)

    def quality(
        self, model: ModelKind, dataset: str, block: Block, method: str, metric: str
    ) -> Figure:
        """A cell of the quality tables."""
        if model != MULTI:
            return self._figure(f"quality_{model}", dataset, block, method, metric)
        has_row = block == (BASELINE if method == "NNCE" else DELTA_VAL)
        return self._figure("multiclass", dataset, method, metric) if has_row else Figure()

    def seconds(self, model: ModelKind, dataset: str, block: Block, method: str) -> Figure:
        """The seconds of a method for twenty inputs."""
        row = method if block == BASELINE else f"{method}@{block}"
        return self._figure("runtime_s_20_inputs", model, row, dataset)

    def robust_init(self, table: str, row: str, dataset: str, model: ModelKind) -> Figure:
        """The seconds of RNCE for many inputs; `table` is "100_inputs" or "all_inputs"."""
        return self._figure(f"robust_init_s_{table}", row, dataset, model)

    def accuracy(self, dataset: str, model: ModelKind) -> Figure:
        """The accuracy in cross-validation."""
        if model == MULTI:
            return self._figure("multiclass", "accuracy", dataset)
        name = f"{model.lower()}_accuracy"
        return Figure(*(self._number("datasets", dataset, part) for part in (name, f"{name}_std")))

    def size(self, dataset: str) -> tuple[int, int] | None:
        """The numbers of rows and attributes."""
        entry = self.tables["datasets"].get(dataset)
        return None if entry is None else (entry["rows"], entry["attributes"])

    def delta(self, model: ModelKind, dataset: str, block: Block) -> float | None:
        """The δ that the paper prints; None if it prints none."""
        if model == MULTI:
            delta = self._number("multiclass", block, dataset) if block == DELTA_VAL else math.nan
        else:
            delta = self._number(f"quality_{model}", dataset, "targets", block)
        return None if math.isnan(delta) else delta

    def delta_used(self, model: ModelKind, dataset: str, block: Block) -> float | None:
        """The δ of the paper's figures."""
        return OTHER_DELTAS.get((model, dataset, block), self.delta(model, dataset, block))

    def _figure(self, table: str, *place: str) -> Figure:
        return Figure(self._number(table, *place), self._number(f"{table}-std", *place))

    def _number(self, *place: str) -> float:
        entry: Any = self.tables
        for key in place:
            entry = entry.get(key) if isinstance(entry, Mapping) else None
        return float(entry) if isinstance(entry, int | float) else math.nan
