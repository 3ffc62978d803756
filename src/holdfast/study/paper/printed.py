"""The figures that the paper prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from holdfast.errors import FileFormatError
from holdfast.files import read_json
from holdfast.study.paper.settings import BASELINE, DELTA_VAL, MULTI, OTHER_DELTAS, Block, ModelKind

NEEDED = ("quality_NN", "quality_LR", "runtime_s_20_inputs", "multiclass", "datasets")


@dataclass(frozen=True)
class Figure:
    """A mean and a standard deviation; None where the paper prints none."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class Printed:
    """The paper's tables, as `figures.json` or a file of the same form has them; None for what is not printed.

    Examples
    --------
    >>> printed = Printed.load()
    >>> printed.quality("NN", "adult", "delta_val", "MCE-R", "cost_l1")
    Figure(mean=0.021, std=0.001)
    >>> printed.quality("LR", "adult", "delta_val", "MCE-R", "cost_l1") is None
    True
    >>> printed.delta("NN", "gmc", "delta_val"), printed.delta_used("NN", "gmc", "delta_val")
    (0.02, 0.045)
    """

    tables: Mapping[str, Any] = field(repr=False)

    @classmethod
    def load(cls, path: Path | None = None) -> Printed:
        """The package's own copy, or another file."""
        source = files(__package__) / "figures.json" if path is None else path
        tables = read_json(source, "the paper's tables as JSON")
        missing = [name for name in NEEDED if not isinstance(tables, dict) or name not in tables]
        if missing:
            raise FileFormatError(f"{source}: expected the paper's tables, got none called {', '.join(missing)}")
        return cls(tables)

    def quality(self, model: ModelKind, dataset: str, block: Block, method: str, metric: str) -> Figure | None:
        """A cell of the quality tables."""
        if model == MULTI:
            has_row = block == (BASELINE if method == "NNCE" else DELTA_VAL)
            return self._figure("multiclass", (dataset, method, metric)) if has_row else None
        return self._figure(f"quality_{model}", (dataset, block, method, metric))

    def seconds(self, model: ModelKind, dataset: str, block: Block, method: str) -> Figure | None:
        """Of a method for twenty inputs."""
        row = method if block == BASELINE else f"{method}@{block}"
        return self._figure("runtime_s_20_inputs", (model, row, dataset))

    def robust_init(self, table: str, row: str, dataset: str, model: ModelKind) -> Figure | None:
        """Of RNCE for many inputs; `table` is "100_inputs" or "all_inputs"."""
        return self._figure(f"robust_init_s_{table}", (row, dataset, model))

    def accuracy(self, dataset: str, model: ModelKind) -> Figure | None:
        """In cross-validation."""
        if model == MULTI:
            return self._figure("multiclass", ("accuracy", dataset))
        entry = self.tables["datasets"].get(dataset, {})
        mean = entry.get(f"{model.lower()}_accuracy")
        return None if mean is None else Figure(mean, entry.get(f"{model.lower()}_accuracy_std"))

    def size(self, dataset: str) -> tuple[int, int] | None:
        """Rows and attributes."""
        entry = self.tables["datasets"].get(dataset)
        return None if entry is None else (entry["rows"], entry["attributes"])

    def delta(self, model: ModelKind, dataset: str, block: Block) -> float | None:
        """The δ that the paper prints."""
        if model == MULTI:
            return _at(self.tables, ("multiclass", block, dataset)) if block == DELTA_VAL else None
        return _at(self.tables, (f"quality_{model}", dataset, "targets", block))

    def delta_used(self, model: ModelKind, dataset: str, block: Block) -> float | None:
        """The δ that the paper's figures were made with."""
        return OTHER_DELTAS.get((model, dataset, block), self.delta(model, dataset, block))

    def _figure(self, table: str, path: tuple[str, ...]) -> Figure | None:
        mean = _at(self.tables, (table, *path))
        return None if mean is None else Figure(mean, _at(self.tables, (f"{table}-std", *path)))


def _at(tables: Any, path: tuple[str, ...]) -> float | None:
    for key in path:
        tables = tables.get(key) if isinstance(tables, Mapping) else None
    return float(tables) if isinstance(tables, int | float) else None
