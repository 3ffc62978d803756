"""The search for the cheapest row for trees against brute force: every row of a grid, on small random ensembles.

    python bench/tree_check.py 300               about ten minutes
    python bench/tree_check.py 300 --problems 20000

Problems of the search alone (tests/tree_problems.py): every choice of small random ones is tried. Worlds
(tests/tree_grids.py): library, columns, classes, space and Δ drawn at random; every admissible row is judged by the
library's own `predict` (today's trees) or by `certify` (Δ), and the cheapest of them compared with the results of
`MCE` and `Closest`: their advice, "proven: none exists", and lower bounds under tiny time limits; once as they
are, and once without the first answers that they begin with, so that bounds alone lead there. Regions are
checked with rows inside the box, at its ends too, under today's trees, `certify`, and ensembles drawn from Δ.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

import holdfast as hf

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from tree_changes import sampled
from tree_grids import KINDS, World, compared, drawn
from tree_problems import cut_off, dear, faults

DRAWN = 8


class Check:
    """Counts what was compared, and what was false."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.false: list[str] = []

    def hold(self, what: str, fine: bool, where: object) -> None:
        """One comparison."""
        self.seen[what] += 1
        if not fine:
            self.false.append(f"{what}: {where}")

    def problem(self, seed: int) -> None:
        """One problem of the search alone."""
        cut, _ = cut_off(seed)
        self.hold("search", not (said := faults(seed)), said)
        self.hold("boxes", not cut, cut)
        self.hold("prices", not (said := dear(seed)), said)

    def world(self, seed: int) -> None:
        """Everything about one ensemble."""
        for what, fine, where in compared(seed):
            self.hold(what, fine, where)
        world = drawn(seed)
        # The first regions of columns of numbers.
        if world is not None and not {"grade", "job"} & {*world.frame}:
            for under in (False, True):
                self._regions(world, under, seed)

    def _regions(self, world: World, under: bool, seed: int) -> None:
        space, rng = world.space, np.random.default_rng(seed)
        full, loaded = world.explained(under), world.loaded
        for row, lines in full.regions.groupby("row"):
            answer, where = full.counterfactuals.iloc[row], (seed, row, under)
            choices = [[float(answer[name])] for name in space.names]
            for line in lines.itertuples():
                value, whole = float(answer[line.column]), line.column in ("months", "flag")
                low = value - 50.0 if np.isnan(line.at_least) else line.at_least
                high = value + 50.0 if np.isnan(line.at_most) else line.at_most
                self.hold("region has its answer", low <= value <= high, where)
                if np.isnan(value) or line.column == "flag":
                    continue
                within = rng.uniform(min(low, high), max(low, high), 3)
                within = np.clip(np.rint(within), np.ceil(low), np.floor(high)) if whole else within
                ends = [np.ceil(low), np.floor(high)] if whole else [low, high]
                choices[space.names.index(line.column)] += [*ends, *within]
            every = np.array([*itertools.product(*choices)])
            rows = pd.DataFrame(every, columns=[*space.names]).astype(world.frame.dtypes)
            asked, points = loaded.classifier.about(rows)
            fine = bool((asked.predict_index(points) == world.target).all())
            self.hold("region, today", fine, where)
            if not under:
                continue
            robust = hf.certify(loaded, rows, target=world.target, changes=world.changes).robust
            self.hold("region, certified", bool(robust.all()), where)
            if isinstance(world.changes, hf.TreeChanges):
                for _ in range(DRAWN):
                    other = sampled(asked, world.changes, rng)
                    said = other.predict_index(points) == world.target
                    self.hold("region, drawn", bool(said.all()), where)


def main() -> None:
    """Print what was compared."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ensembles", type=int, nargs="?", default=300)
    parser.add_argument("--problems", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given, check = parser.parse_args(), Check()
    for seed in range(given.first, given.first + given.problems):
        check.problem(seed)
    for seed in range(given.first, given.first + given.ensembles):
        check.world(seed)
    print(f"{given.problems} problems; {given.ensembles} ensembles of {', '.join(KINDS)}")
    for what, count in check.seen.items():
        false = sum(line.startswith(what + ":") for line in check.false)
        print(f"{what}: {count:,} compared, {false} false")
    for line in check.false[:20]:
        print(line)


if __name__ == "__main__":
    main()
