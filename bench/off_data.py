"""What it costs to leave the data: the same proof, with answers anywhere, between rows, or at rows.

    python bench/off_data.py            four tables, 60 people each, eight other models
    python bench/off_data.py --quick    heloc alone

Each answer is proven for the same delta, then put to networks of other architectures trained on the same rows. Tables:
$HOLDFAST_DATA, or shared/data next to the repository.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

import holdfast as hf
from holdfast import datasets, metrics
from holdfast._network import Floats
from holdfast.generators._density import Density

ROWS, PEOPLE, DELTA = 6000, 60, 0.005
TODAY = (15, 15)
OTHERS = ((30,), (60,), (8, 8), (20, 10), (32, 32), (10, 10, 10), (15, 15), (6,))
COLUMNS = (
    "table",
    "method",
    "cost_l1",
    "median outlier factor",
    "% far off",
    "% kept by other models",
    "s a person",
)


def trained(hidden: tuple[int, ...], points: Floats, y: object, seed: int) -> hf.Network:
    """A network of this shape."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = MLPClassifier(hidden, max_iter=30, alpha=0.01, random_state=seed).fit(points, y)
    return hf.load_network(fitted)


def rows_of(name: str) -> list[tuple[str, ...]]:
    """A line for each way to look for an answer."""
    table = datasets.load(name, actionability="carla", kinds="carla")
    drawn = np.random.default_rng(0).permutation(len(table.X))[:ROWS]
    X, y = table.X.iloc[drawn], np.asarray(table.y)[drawn]
    points = table.space.encode(X)
    today = trained(TODAY, points, y, 0)
    others = [trained(hidden, points, y, seed) for seed, hidden in enumerate(OTHERS, start=1)]
    people = X[today.predict(points) != table.wanted].head(PEOPLE)
    density, lines = Density(points[:5000]), []
    ways = {
        "Closest()": hf.Closest(),
        "Closest(plausible=X)": hf.Closest(plausible=X),
        "RNCE(X)": hf.RNCE(X),
    }
    for method, generator in ways.items():
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", hf.HoldfastWarning)
            found = hf.explain(
                today, people, target=table.wanted, changes=hf.PlausibleChanges(DELTA), generator=generator,
                space=table.space, time_limit=10.0, progress=False,
            )  # fmt: skip
        seconds = (time.process_time() - began) / len(people)
        there = np.flatnonzero(found.found)
        far = density.far_off(found.points[there], table.space.encode(people)[there])
        kept = metrics.validity_retrained(found, others)
        factor = np.median(density.outlier_factor(found.points[there]))
        figures = (
            f"{found.cost_l1[there].mean():.3f}",
            f"{factor:.2f}",
            f"{100 * far.mean():.0f}",
            f"{100 * kept:.0f}",
        )
        lines.append((name, f"`{method}`", *figures, f"{seconds:.3f}"))
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    os.environ.setdefault(
        "HOLDFAST_DATA", str(Path(__file__).resolve().parents[2] / "shared" / "data")
    )
    with threadpool_limits(1):
        lines = [
            line
            for name in (["heloc"] if quick else ["heloc", "compas", "adult", "gmc"])
            for line in rows_of(name)
        ]
    table = "\n".join(
        f"| {' | '.join(line)} |" for line in (COLUMNS, ("---",) * len(COLUMNS), *lines)
    )
    Console(soft_wrap=True).print(table, markup=False, highlight=False)


if __name__ == "__main__":
    main()
