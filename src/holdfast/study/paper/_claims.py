"""The statements of the paper, each checked on all its cells; cells that break a statement are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from holdfast.study.paper._printed import Printed
from holdfast.study.paper._results import CELL, Results, groups
from holdfast.study.paper._settings import (
    BASELINE,
    DELTA_NAMES,
    MULTI,
    NN,
    NOT_ROBUST,
    TARGETS,
    Block,
    ModelKind,
    at_delta,
)

POINT = 0.01
SURVIVES = 0.99
FAR = 0.5
FASTER = 10.0
RNCE_FASTER = 100.0
# Two costs closer than this, relatively, are the same to a solver.
SAME_COST = 1e-6
RNCE_ROWS = ("RNCE-FF", "RNCE-FT")
SAFE_ROWS = ("MCE-R", *RNCE_ROWS)


PaperCell = tuple[ModelKind, str, Block, str]


class Check(NamedTuple):
    """Whether one cell obeys a statement, its name with our figure, and the figure that the statement is about."""

    holds: bool
    name: str
    cell: PaperCell
    metric: str


@dataclass(frozen=True)
class Claim:
    """A statement, the number of its cells, and the checks that failed."""

    text: str
    checked: int
    failed: tuple[Check, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of the cells that break it."""
        return tuple(check.name for check in self.failed)

    @property
    def verdict(self) -> str:
        """The result in words; a statement without cells is neither true nor false."""
        if self.checked == 0:
            return "not checked"
        return "does not hold" if self.broken else "holds"


def check_claims(results: Results, printed: Printed) -> list[Claim]:
    """Check every statement, in the order of the page."""
    table = Cells(results, printed)
    claims = []
    for text, check in _CLAIMS:
        checks = list(check(table))
        claims.append(Claim(text, len(checks), tuple(check for check in checks if not check.holds)))
    return claims


class Cells:
    """Our figures and the paper's, by cell."""

    def __init__(self, results: Results, printed: Printed) -> None:
        self.results = results
        self.printed = printed
        self.means = results.mean_and_spread().set_index(CELL)
        self.cells: list[PaperCell] = list(self.means.index)
        # Those of methods that are to be robust, at a δ that they were given.
        self.safe = [cell for cell in self.cells if cell[3] in SAFE_ROWS and cell[2] != BASELINE]

    def ours(self, cell: PaperCell, metric: str) -> float:
        """Our mean; nan if the cell was not run."""
        return float(self.means[metric].get(cell, np.nan))


def _name(cell: PaperCell, *extra: str) -> str:
    model, dataset, block, method = cell
    return " ".join([f"{model} {dataset} {method}{at_delta(block)}", *extra])


def _percent(share: float) -> str:
    return "(none found)" if np.isnan(share) else f"({share:.1%})"


def _accuracies(table: Cells) -> Iterator[Check]:
    for (model, dataset), part in groups(table.results.accuracy, ["model", "dataset"]):
        ours = part["accuracy"].mean()
        paper = table.printed.accuracy(dataset, model)
        if not np.isnan(paper.mean) and model != MULTI:
            yield Check(
                bool(abs(ours - paper.mean) <= POINT + 1e-9),
                f"{model} {dataset} ({ours:.3f} against {paper.mean:.3f})",
                (model, dataset, BASELINE, ""),
                "accuracy",
            )


def _reaches_its_delta(table: Cells) -> Iterator[Check]:
    for cell in table.safe:
        metric = cell[2].replace("delta", "delta_validity")
        share = table.ours(cell, metric)
        yield Check(share == 1.0, _name(cell, _percent(share)), cell, metric)


def _survives(table: Cells) -> Iterator[Check]:
    for cell in table.safe:
        if table.printed.quality(*cell, "validity_retrained").mean >= SURVIVES:
            share = table.ours(cell, "validity_retrained")
            name = _name(cell, _percent(share))
            yield Check(share >= SURVIVES, name, cell, "validity_retrained")


def _baselines_far_below(table: Cells) -> Iterator[Check]:
    for cell in table.cells:
        model, dataset, _, method = cell
        if model == NN and method in NOT_ROBUST:
            for block in TARGETS:
                metric = block.replace("delta", "delta_validity")
                ours = table.ours(cell, metric)
                robust = table.ours((model, dataset, block, "RNCE-FF"), metric)
                if not np.isnan(ours + robust):
                    name = _name(cell, f"({ours:.0%} at {DELTA_NAMES[block]})")
                    yield Check(robust - ours >= FAR, name, cell, metric)


def _cost_order(table: Cells) -> Iterator[Check]:
    datasets = dict.fromkeys(dataset for model, dataset, _, _ in table.cells if model == NN)
    for dataset in datasets:
        for block in TARGETS:
            rising = [(NN, dataset, block, method) for method in SAFE_ROWS[:1] + SAFE_ROWS[:0:-1]]
            rising.append((NN, dataset, BASELINE, "ROAR"))
            for lower, upper in pairwise(rising):
                low = table.ours(lower, "cost_l1")
                high = table.ours(upper, "cost_l1")
                equal_is_fine = upper[3] == "RNCE-FF"
                holds = low <= high * (1 + SAME_COST) if equal_is_fine else low < high
                if not np.isnan(low + high):
                    label = f"({low:.3f}, and {upper[3]} {high:.3f})"
                    yield Check(bool(holds), _name(lower, label), lower, "cost_l1")


def _closest_is_cheapest(table: Cells) -> Iterator[Check]:
    """Compare input by input, among robust counterfactuals only: these promise the same."""
    for cell in table.safe:
        model, dataset, block, method = cell
        verdict = f"verdict_{block.removeprefix('delta_')}"
        other, closest = (
            table.results.cell(model, dataset, block, name).set_index(["seed", "input"])
            for name in (method, "Closest")
        )
        if closest.empty:
            continue
        both = other[other[verdict] == "ROBUST"].join(closest.add_suffix("_closest"), how="left")
        cheaper = both["cost_l1_closest"] <= both["cost_l1"] * (1 + SAME_COST) + 1e-9
        worse = ~((both[f"{verdict}_closest"] == "ROBUST") & cheaper)
        name = _name(cell, f"({worse.sum()} of {len(both)} inputs)")
        yield Check(not worse.any(), name, (model, dataset, block, "Closest"), "cost_l1")


def _seconds(table: Cells, wanted: Callable[[str], bool], times: float) -> Iterator[Check]:
    for cell in table.cells:
        ours = table.ours(cell, "seconds")
        paper = table.printed.seconds(*cell).mean
        if not np.isnan(paper) and wanted(cell[3]):
            name = _name(cell, f"({paper / ours:.1f} times: {ours:.3g} s, {paper:g} s)")
            yield Check(bool(ours * times <= paper), name, cell, "seconds")


_CLAIMS: tuple[tuple[str, Callable[[Cells], Iterator[Check]]], ...] = (
    ("Accuracies lie within a point of Table 1.", _accuracies),
    ("RNCE-FF, RNCE-FT and MCE-R are 100% Δ-valid at their δ.", _reaches_its_delta),
    (
        "They are at least 99% valid after retraining, if the paper's are.",
        _survives,
    ),
    (
        "The baselines without Δ (GCE, PROTO, MCE, NNCE; neural networks) are at least 50 points of Δ-validity below "
        "RNCE.",
        _baselines_far_below,
    ),
    ("Neural networks: cost rises from MCE-R to RNCE-FT to RNCE-FF to ROAR.", _cost_order),
    (
        "`Closest` costs at most as much as a robust counterfactual of MCE-R, RNCE-FF or RNCE-FT, input by input.",
        _closest_is_cheapest,
    ),
    (
        "Every method is at least 10 times as fast as the paper's.",
        lambda table: _seconds(table, lambda _: True, FASTER),
    ),
    (
        "RNCE is at least 100 times as fast as the paper's.",
        lambda table: _seconds(table, lambda method: method in RNCE_ROWS, RNCE_FASTER),
    ),
)
