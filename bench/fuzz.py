"""Whether anything that holdfast says is false: random questions at every scale against an exact reference.

    python bench/fuzz.py --statements 100000 --seed 1

Prints how many statements of each kind got which answer, what was refused or left open, and a reproducer for each
false statement, if there is one; the exit code is then 1. tests/reference.py says what is true. The questions are asked
in a process of their own: a solver that takes its process down is a finding too.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from fuzz import Tally, run

# How many statements a process answers for, and how many processes a seed may need.
EACH, PARTS = 2000, 10_000


def main() -> None:
    """Ask, count, and show."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--statements", type=int, default=100_000, help="how many statements to check"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    arguments = parser.parse_args()
    start, tally = time.monotonic(), Tally()
    for part in itertools.count():
        if tally.statements >= arguments.statements or time.monotonic() - start > arguments.seconds:
            break
        seed = PARTS * arguments.seed + part
        with ProcessPoolExecutor(1) as pool:
            try:
                tally.add(pool.submit(run, seed, min(EACH, arguments.statements)).result())
            except BrokenProcessPool:
                tally.say("process", "died", False, f"run({seed}, {EACH}) of tests/fuzz.py")
    show(tally, time.monotonic() - start)
    sys.exit(1 if tally.false else 0)


def show(tally: Tally, seconds: float) -> None:
    """The counts as tables, then every false statement."""
    console = Console()
    asked = sum(tally.seconds.values())
    title = f"{tally.statements:,} statements in {seconds:.0f} s, {asked:.0f} s of it in holdfast"
    table = Table("statement", "answer", "how often", title=title)
    for (kind, answer), count in sorted(tally.answers.items()):
        if count:
            table.add_row(kind, answer, f"{count:,}")
    notes = Table("note", "what", "how often", title="open, refused, warned")
    for (kind, what), count in sorted(tally.notes.items()):
        notes.add_row(kind, what, f"{count:,}")
    console.print(table, notes)
    console.print(f"{len(tally.false)} false statements")
    for number, text in enumerate(tally.false, 1):
        print(f"\n--- {number}: {text}")


if __name__ == "__main__":
    main()
