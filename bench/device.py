"""The same questions on a GPU: how fast the interval bound is there, the whole table of stages, and the same verdicts.

    python bench/device.py --device cuda
    python bench/device.py --device cuda --rows 1000000 --seconds 10      less of everything

In one run: the interval bound and a forward pass of a 13-20-20-1 network on the device, in rows a second; `certify` on
`--rows` rows (of the adult table, over and over, each moved a little); the verdicts of a tenth of them against those of
the processor; and networks of four layers of 128, on the device and on one core, as far as `--seconds` take them.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch

import holdfast as hf
from cases import TARGET, case
from holdfast._deadline import Deadline
from holdfast._network import Floats
from holdfast.verify._engine import Engine
from holdfast.verify._verdict import Outcome

ROOT = Path(__file__).resolve().parent.parent
WIDE = (128, 128, 128, 128)
# Rows that are on the device at once while passes are timed.
BLOCK = 2**22


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    print(f"torch {torch.__version__} on {_name(arguments.device)}")
    adult = case(arguments.data, arguments.store, "adult", (20, 20))
    points = _many(adult.points, arguments.rows)
    passes(adult.network, points[:BLOCK], arguments.device)
    whole(adult.network, points, arguments.device)
    for name in ("adult", "compas"):
        wide = case(arguments.data, arguments.store, name, WIDE, at_most=1000)
        for delta in (0.002, 0.005):
            for device in (arguments.device, None):
                patience(
                    f"{name} 4x128", wide.network, wide.points, delta, device, arguments.seconds
                )


def _many(points: Floats, n: int) -> Floats:
    """`n` rows: the table over and over, each entry moved up by at most 0.01."""
    rng = np.random.default_rng(0)
    return np.resize(points, (n, points.shape[1])) + rng.uniform(0.0, 0.01, (n, points.shape[1]))


def passes(network: hf.Network, points: Floats, device: str) -> None:
    """The interval bound and a forward pass, both on the device."""
    engine = Engine(network, hf.PlausibleChanges(0.02), device)
    prepared = engine.prepared(TARGET)
    there = engine.convert(points)
    forward = _seconds(lambda: prepared.today(there), device)
    general = _seconds(lambda: prepared.least(there - 0.5), device)
    interval = _seconds(lambda: prepared.least(there), device)
    n = points.shape[0]
    print(f"forward pass      {n / forward / 1e6:8.0f} million rows a second")
    print(
        f"interval, x >= 0  {n / interval / 1e6:8.0f} million rows a second, {interval / forward:.2f} passes"
    )
    print(
        f"interval          {n / general / 1e6:8.0f} million rows a second, {general / forward:.2f} passes"
    )


def whole(network: hf.Network, points: Floats, device: str) -> None:
    """All stages on all rows, and a tenth of them on the processor."""
    changes = hf.PlausibleChanges(0.02)
    start = time.perf_counter()
    there = hf.certify(network, points, TARGET, changes, device=device, progress=False)
    seconds = time.perf_counter() - start
    print(
        f"certify {points.shape[0]:,} rows on {device}: {seconds:.1f} s, {seconds / points.shape[0] * 1e9:.0f} ns a row"
    )
    print("  ", {**{str(k): v for k, v in there.counts().items()}, **there.stages})
    some = slice(0, points.shape[0] // 10)
    start = time.perf_counter()
    here = hf.certify(network, points[some], TARGET, changes, progress=False)
    seconds = time.perf_counter() - start
    same = int((here.outcome.verdict == there.outcome.verdict[some]).sum())
    print(
        f"on the processor {len(here):,} rows: {seconds:.1f} s; {same:,} of {len(here):,} verdicts are the same"
    )


def patience(
    name: str, network: hf.Network, points: Floats, delta: float, device: str | None, seconds: float
) -> None:
    """What is left open after some seconds."""
    engine = Engine(network, hf.PlausibleChanges(delta), device)
    start = time.perf_counter()
    outcome: Outcome = engine.settle(points, TARGET, deadline=Deadline.after(seconds), keep=False)
    counts = np.bincount(outcome.verdict, minlength=3)
    print(
        f"{name}, delta {delta:g}, {device or 'one core'}: {counts[1]} robust, {counts[2]} not, {counts[0]} open of "
        f"{points.shape[0]} after {time.perf_counter() - start:.0f} s"
    )


def _seconds(run: object, device: str) -> float:
    """The median of several runs, after some that warm up."""
    assert callable(run)
    times = []
    for i in range(15):
        _wait(device)
        start = time.perf_counter()
        run()
        _wait(device)
        times += [time.perf_counter() - start] if i >= 5 else []
    return float(np.median(times))


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def _name(device: str) -> str:
    return torch.cuda.get_device_name() if device.startswith("cuda") else device


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    data = Path(os.environ.get("HOLDFAST_DATA") or ROOT.parent / "shared" / "data")
    parser.add_argument("--device", default="cuda", help="as torch names it (default cuda)")
    parser.add_argument(
        "--data", type=Path, default=data, help="folder with the tables and their schemas"
    )
    parser.add_argument(
        "--store", type=Path, default=ROOT / "out" / "bench", help="where trained networks are kept"
    )
    parser.add_argument(
        "--rows", type=int, default=10_000_000, help="rows for the whole table of stages"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="for each network of four layers"
    )
    return parser.parse_args()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
