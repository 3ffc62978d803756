"""What each generator's recourse costs, whether it survives Δ, and how long it takes, on public tables.

    python bench/recourse.py --quick                              five inputs for each table
    python bench/recourse.py --out docs/benchmarks-recourse.md    everything

For each table a network with two hidden layers of the paper's size, twenty rejected inputs and two deltas; what may
change is what CARLA and the paper allow. Seconds are CPU seconds of this one process, one thread. A row is Δ-valid if
`certify` proves it after the generator is done. Tables: $HOLDFAST_DATA, or shared/data beside the repository.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

import holdfast as hf
from holdfast.generators import NNCE, RNCE, Generator, Robust, explain
from holdfast.generators.closest import Closest
from holdfast.generators.mce import MCE
from report import Table

ROOT = Path(__file__).resolve().parent.parent
WIDTHS = {"compas": 8, "heloc": 15, "adult": 20, "gmc": 6}
DELTAS = (0.005, 0.02)
SECONDS = 60.0
# A gap up to this counts as proven; a row is dearer only beyond it.
PROVEN = 1e-4
TRAINING_ROWS = 15_000


@dataclass(frozen=True)
class Case:
    """A table, its network, the rejected people and everybody else."""

    name: str
    network: hf.Network
    space: hf.FeatureSpace
    people: pd.DataFrame
    candidates: pd.DataFrame
    accuracy: float


@dataclass(frozen=True)
class Measured:
    """One generator on one case: a value for each input."""

    method: str
    found: np.ndarray
    robust: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    seconds: np.ndarray


def load_case(name: str, folder: Path, inputs: int) -> Case:
    """Train the network, and draw the people it rejects."""
    schema = json.loads((folder / f"{name}.schema.json").read_text(encoding="utf-8"))
    frame = pd.read_csv(folder / schema["data_file"])
    space = hf.FeatureSpace.from_schema(folder / f"{name}.schema.json", actionability="carla")
    labels, points = frame[schema["target"]["column"]].to_numpy(), space.encode(frame)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(frame))
    n_train = min(TRAINING_ROWS, int(0.8 * len(frame)))
    train, held_out = order[:n_train], order[n_train:]
    width = WIDTHS[name]
    model = MLPClassifier(
        (width, width), alpha=1e-3, max_iter=60, random_state=0, learning_rate_init=3e-3, batch_size=64
    )
    network = hf.load_network(_fitted(model, points[train], labels[train]))
    accuracy = float((network.predict_index(points[held_out]) == labels[held_out]).mean())
    rejected = rng.permutation(np.flatnonzero(network.predict_index(points) == 0))[:inputs]
    return Case(name, network, space, frame.iloc[rejected], frame.iloc[train], accuracy)


def _fitted(model: MLPClassifier, points: np.ndarray, labels: np.ndarray) -> MLPClassifier:
    with warnings.catch_warnings():
        # Sixty epochs are what the benchmark means, converged or not.
        warnings.simplefilter("ignore")
        return model.fit(points, labels)


def methods(case: Case) -> list[tuple[str, Generator, bool]]:
    """Name, generator, and whether it works row by row, so that each input can be timed alone."""
    return [
        ("NNCE", NNCE(case.candidates), False),
        ("MCE", MCE(), True),
        ("MCE-R", Robust(MCE()), True),
        ("RNCE-FF", RNCE(case.candidates), False),
        ("RNCE-FT", RNCE(case.candidates, line_search=True), False),
        ("RNCE-TF", RNCE(case.candidates, certified_candidates=True), False),
        ("RNCE-TT", RNCE(case.candidates, certified_candidates=True, line_search=True), False),
        ("Closest", Closest(), True),
    ]


def measure(case: Case, changes: hf.PlausibleChanges, name: str, generator: Generator, alone: bool) -> Measured:
    """Run one generator; all rows at once, or one by one."""
    blocks = [case.people.iloc[[i]] for i in range(len(case.people))] if alone else [case.people]
    results, seconds = [], []
    for block in blocks:
        began = time.process_time()
        results.append(
            explain(
                case.network, block, target=1, changes=changes, generator=generator, space=case.space,
                time_limit=SECONDS, progress=False,
            )
        )  # fmt: skip
        seconds += [(time.process_time() - began) / len(block)] * len(block)
    return Measured(
        name,
        np.concatenate([result.found for result in results]),
        np.concatenate([result.verdict == hf.Verdict.ROBUST for result in results]),
        np.concatenate([result.cost_l1 for result in results]),
        np.concatenate([result.optimality_gap for result in results]),
        np.array(seconds),
    )


def row_of(case: Case, delta: float, found: Measured, closest: Measured) -> list[str]:
    """One line of the table; cost relative to `Closest` over the rows where both are robust."""
    both = found.robust & closest.robust
    dearer = f"{100 * (found.cost[both] / closest.cost[both] - 1).mean():+.1f}%" if both.any() else "-"
    proven = np.mean(found.gap[found.found] <= PROVEN) if np.isfinite(found.gap[found.found]).any() else np.nan
    return [
        case.name,
        f"{delta:g}",
        found.method,
        f"{found.found.sum()}/{len(found.found)}",
        f"{100 * found.robust.mean():.0f}%",
        f"{np.nanmean(found.cost):.4f}" if found.found.any() else "-",
        dearer,
        "-" if np.isnan(proven) else f"{100 * proven:.0f}%",
        f"{np.median(found.seconds):.3f}",
        f"{found.seconds.max():.2f}",
        f"{found.seconds.sum():.2f}",
    ]


def never_dearer(all_found: Sequence[Measured], closest: Measured) -> tuple[int, int]:
    """Rows compared, and rows on which `Closest` costs more than another's robust answer."""
    compared, worse = 0, 0
    for other in all_found:
        rows = other.robust & (other.method != "Closest")
        compared += int(rows.sum())
        worse += int((~closest.robust[rows] | (closest.cost[rows] > other.cost[rows] * (1.0 + 1e-6) + 1e-9)).sum())
    return compared, worse


PREFACE = """# Recourse, measured

Written by `python bench/recourse.py --out docs/benchmarks-recourse.md` on 2 cores of a shared server, one thread; CPU
seconds. Twenty rejected people of each table, networks of the paper's size, every method on the same feature space.
"Above Closest" compares robust answers only, row by row."""


def main() -> None:
    """Measure and print; write a document if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("HOLDFAST_DATA", ROOT.parent / "shared" / "data"))
    parser.add_argument("--tables", nargs="+", default=list(WIDTHS), choices=list(WIDTHS))
    parser.add_argument("--inputs", type=int, default=20)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    console = Console()
    lines, notes = [], []
    with threadpool_limits(1):
        for name in options.tables:
            case = load_case(name, Path(options.data), 5 if options.quick else options.inputs)
            notes.append(
                f"{name}: {case.network!r}, held-out accuracy {case.accuracy:.3f}, {len(case.candidates)} candidates"
            )
            for delta in DELTAS:
                changes = hf.PlausibleChanges(delta)
                found = [measure(case, changes, *method) for method in methods(case)]
                closest = found[-1]
                lines += [row_of(case, delta, one, closest) for one in found]
                compared, worse = never_dearer(found, closest)
                speed = np.median(found[2].seconds) / np.median(closest.seconds)
                notes.append(
                    f"{name}, delta {delta:g}: Closest dearer than another robust answer on {worse} of {compared} "
                    f"rows; MCE-R takes {speed:.1f} times as long (medians)"
                )
                console.print(notes[-1])
    columns = (
        "table", "delta", "method", "found", "Δ-valid", "cost_l1", "above Closest", "proven 1e-4", "median s", "max s",
        "all s",
    )  # fmt: skip
    table = Table("Recourse", columns, lines, "\n\n".join(notes))
    Console(width=140).print(table.for_terminal())
    if options.out:
        options.out.write_text(f"{PREFACE}\n\n{table.for_document()}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
