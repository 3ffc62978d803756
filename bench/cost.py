"""How the cost of `certify` grows: the picture of docs/cascade.md.

    python bench/cost.py                                 docs/images/cost.png
    python bench/cost.py --rows 200 --out cost.png       quicker, elsewhere

Networks for the heloc table, trained as in `bench/certify.py`; CPU time a row on one thread, with that of a plain
forward
pass. Each panel varies one thing and leaves the others: 1,000 rows, two hidden layers of 20, delta 0.01. Where the
number of features varies, weights and rows are random.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from threadpoolctl import threadpool_limits

import holdfast as hf
from cases import TARGET, case
from stopwatch import race

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Setting:
    """What is certified."""

    rows: int = 1000
    hidden: tuple[int, ...] = (20, 20)
    delta: float = 0.01
    # None: heloc's; else random weights of the usual size, and rows at random in [0, 1].
    features: int | None = None


@dataclass(frozen=True)
class Cost:
    """Seconds a row of `certify` and of a forward pass, and the share of rows that no limit left open."""

    certify: float
    forward: float
    settled: float


def measure(setting: Setting, data: Path, store: Path, limit: float) -> Cost:
    """One point of a curve."""
    if setting.features is None:
        heloc = case(data, store, "heloc", setting.hidden, "all")
        network, points = heloc.network, heloc.points
    else:
        network, points = random_case(setting)
    rows = np.random.default_rng(4).choice(
        points.shape[0], setting.rows, replace=setting.rows > points.shape[0]
    )
    X, changes = np.ascontiguousarray(points[rows]), hf.PlausibleChanges(setting.delta)
    kept: list[hf.Certificates] = []

    def run() -> None:
        kept[:] = [hf.certify(network, X, TARGET, changes, time_limit=limit)]

    best = race({"certify": run, "forward": lambda: network.logits(X)}, rounds=5, patience=1.0)
    settled = 1.0 - kept[0].counts()[hf.Verdict.UNKNOWN] / len(X)
    return Cost(best["certify"] / len(X), best["forward"] / len(X), settled)


def random_case(setting: Setting) -> tuple[hf.Network, np.ndarray]:
    """An untrained network, for a number of columns that no table has."""
    assert setting.features is not None
    rng, sizes = np.random.default_rng(5), (setting.features, *setting.hidden, 1)
    weights = [
        rng.normal(0.0, np.sqrt(2.0 / inner), (outer, inner)) for inner, outer in pairwise(sizes)
    ]
    points = rng.uniform(0.0, 1.0, (setting.rows, setting.features))
    return hf.Network(weights, [np.zeros(len(weight)) for weight in weights]), points


def panels(rows: int) -> dict[str, dict[float, Setting]]:
    """What varies, with its values."""
    plain = Setting(rows)
    sizes = [n for n in (1, 10, 100, 1000, 10_000, 100_000) if n <= 100 * rows]
    return {
        "rows": {n: replace(plain, rows=n) for n in sizes},
        "features": {n: replace(plain, features=n) for n in (5, 20, 80, 320)},
        "neurons in each of 2 layers": {
            n: replace(plain, hidden=(n, n)) for n in (5, 10, 20, 40, 64)
        },
        "hidden layers of 20": {n: replace(plain, hidden=(20,) * n) for n in (1, 2, 3, 4)},
        "delta": {delta: replace(plain, delta=delta) for delta in (0.001, 0.003, 0.01, 0.03, 0.1)},
    }


def draw(curves: dict[str, dict[float, Cost]], limit: float) -> Figure:
    """A panel for each thing that varies; hollow where a limit left rows open."""
    figure = Figure(figsize=(11.0, 3.0), layout="constrained")
    axes: Sequence[mpl.axes.Axes] = figure.subplots(1, len(curves), sharey=True)
    for ax, (name, curve) in zip(axes, curves.items(), strict=True):
        x = list(curve)
        for what, color in (("certify", "#0b6e4f"), ("forward", "#8a8a8a")):
            ax.plot(
                x,
                [1e6 * getattr(cost, what) for cost in curve.values()],
                "o-",
                color=color,
                ms=4,
                lw=1.5,
            )
        late = [(value, 1e6 * cost.certify) for value, cost in curve.items() if cost.settled < 1.0]
        if late:
            ax.plot(*zip(*late, strict=True), "o", color="#0b6e4f", mfc="white", ms=5)
        if name != "hidden layers of 20":
            ax.set_xscale("log")
        ticks = x[::2] if name == "rows" else x
        ax.set_xticks(ticks, labels=[f"{value:,g}" for value in ticks])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_yscale("log")
        ax.set_xlabel(name)
        ax.grid(visible=True, color="#e5e5e5", lw=0.5)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("CPU time a row, µs")
    first = next(iter(curves.values()))
    last = max(first)
    for what, text, shift in (("certify", "certify", 6), ("forward", "forward pass", -12)):
        place = (last, 1e6 * getattr(first[last], what))
        axes[0].annotate(text, place, (0, shift), textcoords="offset points", ha="right")
    if any(cost.settled < 1.0 for curve in curves.values() for cost in curve.values()):
        figure.supxlabel(
            f"hollow: rows left UNKNOWN after {limit:g} s", fontsize="small", x=0.99, ha="right"
        )
    return figure


def main() -> None:
    """Measure, draw, and say what was measured."""
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
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "cost.png")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument(
        "--time-limit",
        type=float,
        default=30.0,
        help="seconds for one call of certify (default 30)",
    )
    options = parser.parse_args()
    curves: dict[str, dict[float, Cost]] = {}
    for name, settings in panels(options.rows).items():
        curves[name] = {}
        for value, setting in settings.items():
            cost = measure(setting, options.data, options.store, options.time_limit)
            curves[name][value] = cost
            print(
                f"{name} {value:g}: {1e6 * cost.certify:.2f} us a row, {cost.settled:.1%} settled"
            )
    draw(curves, options.time_limit).savefig(options.out, dpi=150)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
