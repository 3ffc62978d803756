"""The speed of `certify` on public tables, compared with a plain forward pass and with one MILP per row.

    python bench/certify.py --quick                       a minute or two
    python bench/certify.py --out docs/benchmarks.md      everything

For each network, delta and table, in one run and on one thread: the time per row of `network.logits`, of the interval
bound, of `certify` (the public function, input checks included), and of the paper's mixed-integer program on a random
sample of rows, whose verdicts are compared. Then one row at a time, as a service asks, the tail of the search, and
`certified_radius`. `bench/cost.py` draws how the cost grows. Tables: $HOLDFAST_DATA, or shared/data next to the
repository.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits

import holdfast as hf
from cases import TARGET, Case, cases, training_in_words
from holdfast._deadline import Deadline
from holdfast._network import CHUNK, Floats
from holdfast.bounds._layers import forward_error
from holdfast.verify._engine import Engine
from holdfast.verify._search import Search
from paper_encoding import PaperAnswer, least_output
from report import Comparison, Measurement, RadiusTimes, Tail, publish, tables
from stopwatch import cpu_seconds, race

ROOT = Path(__file__).resolve().parent.parent
DELTAS = (0.005, 0.01, 0.02, 0.05)
# The paper's constant M lets HiGHS cheat by M times its integrality tolerance of 1e-6 at every neuron.
MILP_TOLERANCE = 5e-3


@dataclass(frozen=True)
class Effort:
    """How much to spend on each part."""

    rounds: int = 25
    patience: float = 2.0
    milp_rows: int = 20
    deep_milp_rows: int = 2
    deep_rows: int = 1000
    deep_deltas: tuple[float, ...] = DELTAS[:3]
    radius_rows: int = 2000
    single_rows: int = 200


QUICK = Effort(
    rounds=10, patience=1.0, milp_rows=10, deep_milp_rows=1, deep_rows=200, deep_deltas=DELTAS[:1], radius_rows=1000,
    single_rows=50,
)  # fmt: skip


def main() -> None:
    """Measure, print, and write if asked to."""
    arguments = _arguments()
    effort = QUICK if arguments.quick else Effort()
    console = Console(stderr=True)
    measured: list[Measurement] = []
    radii: list[RadiusTimes] = []
    for case in cases(
        arguments.data, arguments.store, quick=arguments.quick, deep_rows=effort.deep_rows
    ):
        for delta in effort.deep_deltas if case.deep else DELTAS:
            console.print(f"{case.dataset} {case.size}, {case.rows}, delta {delta:g}", style="dim")
            measured.append(
                measure(case, delta, effort, arguments.time_limit, arguments.milp_limit)
            )
        if not case.deep:
            console.print(f"{case.dataset} {case.size}, {case.rows}, radii", style="dim")
            radii.append(measure_radius(case, effort))
    found = tables(measured, radii)
    publish(found, _preface(arguments, effort), arguments.out, width=160)


def _preface(arguments: argparse.Namespace, effort: Effort) -> str:
    """How the figures came about."""
    return f"""\
# Benchmarks

Written by `{shlex.join(["python", "bench/certify.py", *sys.argv[1:]])}` on 2 cores of a shared server, one thread.
Ratios compare measurements of the same run, taken in turns; times are CPU time, the best of up to {effort.rounds}
turns.

{training_in_words()} Rows: those labelled 1, the whole table ("all"), or what the network accepts
today; for 3x64 a random sample of {effort.deep_rows:,}.

The MILP is the paper's: two-sided rows, a binary for every hidden neuron, and one constant M = 1000. HiGHS builds and
solves it for each row of a random sample, with default tolerances on one thread. A MILP that reaches its limit
of {arguments.milp_limit:g} s (by the clock) counts with its CPU time until then, and the ratio is marked ">=".
`certify` has {arguments.time_limit:g} s of processor time for a whole table; open rows are then UNKNOWN, and no ratio
is given."""


def measure(
    case: Case, delta: float, effort: Effort, time_limit: float, milp_limit: float
) -> Measurement:
    """Everything about one network, table and delta."""
    network, points, changes = case.network, case.points, hf.PlausibleChanges(delta)
    engine, either_sign = Engine(network, changes), points - 0.5
    kept: list[hf.Certificates] = []

    def run_certify() -> None:
        kept[:] = [hf.certify(network, points, TARGET, changes, time_limit=time_limit)]

    best = race(
        {
            "forward": lambda: network.logits(points),
            "interval": lambda: interval_bound(engine, points),
            "general": lambda: interval_bound(engine, either_sign),
            "certify": run_certify,
        },
        rounds=effort.rounds,
        patience=effort.patience,
    )
    by_interval = hf.certify(network, points, TARGET, changes, method="interval")
    n_milp = effort.deep_milp_rows if case.deep else effort.milp_rows
    return Measurement(
        case=case,
        delta=delta,
        forward=best["forward"] / points.shape[0],
        interval=best["interval"] / best["forward"],
        general=best["general"] / best["forward"],
        certify=best["certify"] / best["forward"],
        certificates=kept[0],
        interval_robust=float(by_interval.robust.mean()),
        comparison=compare(case, delta, kept[0], n_milp, milp_limit),
        tail=measure_tail(case, engine, kept[0], effort.single_rows, time_limit),
    )


def interval_bound(engine: Engine, points: Floats) -> Floats:
    """The interval bound of a whole table in chunks, with the same check of its input as `logits` makes."""
    prepared = engine.prepared(TARGET)
    points = engine.network.check_points(points)
    lower = np.empty((points.shape[0], len(prepared.margins)))
    for start in range(0, points.shape[0], CHUNK):
        part = slice(start, start + CHUNK)
        lower[part] = prepared.least(points[part])
    return lower


def measure_tail(
    case: Case, engine: Engine, certificates: hf.Certificates, n: int, limit: float
) -> Tail:
    """One row at a time, prepared and not; and the rows that came to a search, with the branches that it took."""
    rng = np.random.default_rng(3)
    rows = rng.choice(len(certificates), min(n, len(certificates)), replace=False)
    late = np.flatnonzero(~np.isin(certificates.decided_by, ["forward pass", "interval", "attack"]))
    late = rng.choice(late, min(n, late.size), replace=False)
    layers, nodes = engine.prepared(TARGET).layers[0], []
    for row in late:
        x = case.points[row : row + 1]
        error = np.asarray(forward_error(layers.norms, np.abs(x).max(axis=1)))
        search = Search(layers, x, np.full(1, np.inf), error)
        search.run(2**18, Deadline.after(limit))
        nodes.append(int(search.nodes[0]))

    ready = hf.prepare(case.network, engine.changes)

    def alone(row: int) -> float:
        x = case.points[row : row + 1]
        return cpu_seconds(lambda: ready.certify(x, TARGET, time_limit=limit))

    def whole(row: int) -> float:
        x = case.points[row : row + 1]
        return cpu_seconds(
            lambda: hf.certify(case.network, x, TARGET, engine.changes, time_limit=limit)
        )

    prepared, certify = (np.array([time(int(row)) for row in rows]) for time in (alone, whole))
    quick = {}
    for stage in ("forward pass", "interval"):
        easy = np.flatnonzero(certificates.decided_by == stage)[:n]
        quick[stage] = np.array([min(alone(int(row)) for _ in range(5)) for row in easy])
    searched = np.array([alone(int(row)) for row in late])
    return Tail(prepared, certify, quick, searched, np.array(nodes))


def compare(
    case: Case, delta: float, certificates: hf.Certificates, n: int, limit: float
) -> Comparison:
    """One MILP in the paper's encoding for each of `n` random rows: its time, and whether it says the same."""
    rows = np.random.default_rng(1).choice(
        case.points.shape[0], min(n, case.points.shape[0]), replace=False
    )
    seconds, unfinished, disagree = [], 0, []
    for row in rows:
        answers: list[PaperAnswer] = []
        x = case.points[row]
        seconds.append(
            cpu_seconds(
                lambda x=x, into=answers: into.append(
                    least_output(case.network, x, delta, time_limit=limit)
                )
            )
        )
        unfinished += not answers[0].finished
        if not _agrees(answers[0], certificates, int(row)):
            disagree.append(int(row))
    return Comparison(len(rows), float(np.mean(seconds)), unfinished, tuple(disagree))


def _agrees(answer: PaperAnswer, certificates: hf.Certificates, row: int) -> bool:
    """Same sign, and a least output inside our margins; of an unfinished program only what it has proven is held."""
    verdict = certificates.verdict[row]
    if answer.bound > MILP_TOLERANCE and verdict is hf.Verdict.NOT_ROBUST:
        return False
    if answer.least < -MILP_TOLERANCE and verdict is hf.Verdict.ROBUST:
        return False
    above = answer.least >= certificates.margin_lower[row] - MILP_TOLERANCE
    below = answer.bound <= certificates.margin_upper[row] + MILP_TOLERANCE
    return bool(above and below)


def measure_radius(case: Case, effort: Effort, batch: int = 1000) -> RadiusTimes:
    """`certified_radius` at tol 1e-6 on rows that the network accepts today: in batches, and one row at a time."""
    accepted = case.points[case.network.predict(case.points) == TARGET]
    rng = np.random.default_rng(2)
    points = accepted[
        rng.choice(accepted.shape[0], min(effort.radius_rows, accepted.shape[0]), replace=False)
    ]
    radius = hf.certified_radius(case.network, points, TARGET)
    parts = [points[start : start + batch] for start in range(0, points.shape[0], batch)]
    batches = [_radius_seconds(case, part) / part.shape[0] for part in parts]
    singles = [
        _radius_seconds(case, points[i : i + 1])
        for i in range(min(effort.single_rows, points.shape[0]))
    ]
    return RadiusTimes(
        case=case,
        rows=points.shape[0],
        batch=float(np.median(batches)),
        slowest_batch=max(batches),
        single=float(np.median(singles)),
        slowest_single=max(singles),
        median_radius=float(np.median(radius.lower)),
        widest=float((radius.upper - radius.lower).max()),
    )


def _radius_seconds(case: Case, points: Floats) -> float:
    return race(
        {"radius": lambda: hf.certified_radius(case.network, points, TARGET)},
        rounds=3,
        patience=0.3,
    )["radius"]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    data = Path(os.environ.get("HOLDFAST_DATA") or ROOT.parent / "shared" / "data")
    parser.add_argument(
        "--data", type=Path, default=data, help="folder with the tables and their schemas"
    )
    parser.add_argument(
        "--store", type=Path, default=ROOT / "out" / "bench", help="where trained networks are kept"
    )
    parser.add_argument("--out", type=Path, help="write the tables as Markdown to this file")
    parser.add_argument("--quick", action="store_true", help="fewer tables, networks and repeats")
    parser.add_argument(
        "--time-limit",
        type=float,
        default=30.0,
        help="seconds for one call of certify (default 30)",
    )
    parser.add_argument(
        "--milp-limit", type=float, default=20.0, help="seconds for one MILP (default 20)"
    )
    arguments = parser.parse_args()
    if not (arguments.data / "adult.csv.gz").exists():
        parser.error(
            f"--data: expected adult.csv.gz and others in {arguments.data}, found none; or set HOLDFAST_DATA"
        )
    return arguments


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
