"""What each generator's recourse costs, whether it survives Δ, and how long it takes, on public tables.

    python bench/recourse.py --quick                              five inputs for each table
    python bench/recourse.py --out docs/benchmarks-recourse.md    everything

For each table a network with two hidden layers of the paper's size, twenty rejected inputs and two deltas; what may
change is what CARLA and the paper allow. Seconds are CPU seconds of this one process, one thread. A row is Δ-valid if
`certify` proves it after the generator is done. Tables: $HOLDFAST_DATA, or shared/data next to the repository.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits

import holdfast as hf
from holdfast.generators import Generator, explain
from paper_recourse import printed
from recourse_cases import WIDTHS, Case, load_case, methods
from report import Table, publish

ROOT = Path(__file__).resolve().parent.parent
DELTAS = (0.005, 0.02)
SECONDS = 60.0
# A gap up to this counts as proven; a row is more expensive only beyond it.
PROVEN = 1e-4
# The paper's seconds are for so many.
PAPER_INPUTS = 20


@dataclass(frozen=True)
class Measured:
    """One generator on one case: a value for each input."""

    method: str
    found: np.ndarray
    robust: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    seconds: np.ndarray


def measure(
    case: Case, changes: hf.PlausibleChanges, name: str, generator: Generator, alone: bool
) -> Measured:
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
    above = (
        f"{100 * (found.cost[both] / closest.cost[both] - 1).mean():+.1f}%" if both.any() else "-"
    )
    proven = (
        np.mean(found.gap[found.found] <= PROVEN)
        if np.isfinite(found.gap[found.found]).any()
        else np.nan
    )
    return [
        case.name,
        f"{delta:g}",
        found.method,
        f"{found.found.sum()}/{len(found.found)}",
        f"{100 * found.robust.mean():.0f}%",
        f"{np.nanmean(found.cost):.4f}" if found.found.any() else "-",
        above,
        "-" if np.isnan(proven) else f"{100 * proven:.0f}%",
        f"{np.median(found.seconds):.3f}",
        f"{found.seconds.max():.2f}",
        f"{found.seconds.sum():.2f}",
        *paper_of(case, delta, found),
    ]


def paper_of(case: Case, delta: float, found: Measured) -> list[str]:
    """The paper's Δ-validity, cost and seconds for this method, and how many times faster twenty inputs are here."""
    paper = printed(found.method, case.name, delta)
    if paper is None:
        return ["-"] * 4
    faster = paper.seconds / (found.seconds.mean() * PAPER_INPUTS)
    return [
        f"{100 * paper.delta_validity:.0f}%",
        f"{paper.cost_l1:.3f}",
        f"{paper.seconds:g}",
        f"{faster:,.0f}" if faster >= 10 else f"{faster:.1f}",
    ]


def never_above(all_found: Sequence[Measured], closest: Measured) -> tuple[int, int]:
    """Rows compared, and rows on which `Closest` costs more than another's robust answer."""
    compared, worse = 0, 0
    for other in all_found:
        rows = other.robust & (other.method != "Closest")
        compared += int(rows.sum())
        worse += int(
            (
                ~closest.robust[rows]
                | (closest.cost[rows] > other.cost[rows] * (1.0 + 1e-6) + 1e-9)
            ).sum()
        )
    return compared, worse


PREFACE = """# Recourse, measured

Written by `python bench/recourse.py --out docs/benchmarks-recourse.md` on 2 cores of a shared server, one thread; CPU
seconds. Twenty rejected people of each table, networks of the paper's size, every method on the same feature space.
"Above Closest" compares robust advice only, row by row. [Which method should I use](methods.md) describes each
method.

The last four columns are the paper's figures for its neural networks, at its delta_val of 0.02. Read them with care:

- Other networks. The paper's are not published, and these are trained here. The share of plain advice that
  is Δ-valid depends on the steepness of the network: compare the order of the methods, not the digits.
- Other machines, and other solvers. "Times faster" is the paper's seconds (on their machine) over ours, for
  twenty inputs. Ours include reading the tables, rounding to the caller's units, checking the constraints and
  certifying the advice, which is most of the time of NNCE. MCE and MCE-R solve with HiGHS here, with Gurobi there.
  Below 1, the paper's is faster.
- Other constraints. Here all advice is a possible row of the table: whole numbers are whole, each category is one of
  the table's, and CARLA's immutable columns stay. That makes some advice more expensive.
- Other settings. RBR, ROAR, ST-CE and PROTO have several, and the paper prints none; these are the defaults of
  holdfast. The settings of RBR (sigma and the two epsilons, of eight tried) and of ST-CE (tau, of three) were chosen
  with these people and the paper's figures in view, so their closeness to the paper is not independent evidence. Our
  ROAR follows the tangent of the network at each step, not one linear model fitted around the person, and costs much
  less.
- gmc: the paper has each row of class 0 three times, we have it once."""


def main() -> None:
    """Measure and print; write a document if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("HOLDFAST_DATA", ROOT.parent / "shared" / "data"),
    )
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
                by_name = {one.method: one for one in found}
                closest = by_name["Closest"]
                lines += [row_of(case, delta, one, closest) for one in found]
                compared, worse = never_above(found, closest)
                speed = np.median(by_name["MCE-R"].seconds) / np.median(closest.seconds)
                notes.append(
                    f"{name}, delta {delta:g}: Closest costs more than other robust advice on {worse} of "
                    f"{compared} rows; MCE-R takes {speed:.1f} times as long (medians)"
                )
                console.print(notes[-1])
    columns = (
        "table", "delta", "method", "found", "Δ-valid", "cost_l1", "above Closest", "proven 1e-4", "median s", "max s",
        "all s", "paper: Δ-valid", "paper: cost_l1", "paper: s", "times faster",
    )  # fmt: skip
    table = Table("Recourse", columns, lines, "\n\n".join(notes))
    publish([table], PREFACE, options.out, width=180)


if __name__ == "__main__":
    main()
