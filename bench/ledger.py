"""A million promises: writing, verifying and auditing them; and a writer that is killed two hundred times.

    python bench/ledger.py --out docs/benchmarks-ledger.md

The promises are rows of the heloc table, sampled until there are enough. Seconds are CPU seconds, user and system, of a
process forked for each step, beside those of a plain forward pass over the same points; the peak of its memory is what
the operating system counted for it. The kills are of real processes, by SIGKILL, at random moments.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.neural_network import MLPClassifier

import holdfast as hf
from holdfast.importers import Model
from holdfast.promises import Ledger, audit

DELTA = 0.005
CHUNK = 50_000


def measured(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run in a forked process: what it returns, its CPU seconds and the peak of its memory in MB."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        started = time.process_time()
        found = work()
        found["seconds"] = found.get("seconds", time.process_time() - started)
        found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit("a step failed")
    return dict(json.loads(content))


def lender() -> tuple[hf.Network, hf.FeatureSpace, pd.DataFrame]:
    """A network of two hidden layers of 20 on heloc, and the rows that it accepts."""
    data = hf.datasets.load("heloc")
    points = data.space.encode(data.X)
    classifier = MLPClassifier((20, 20), tol=1e-3, max_iter=500, random_state=0).fit(points, data.y)
    network = hf.load_network(classifier)
    return network, data.space, data.X[network.predict(points) == 1]


def fill(path: Path, n: int, network: hf.Network, space: hf.FeatureSpace, accepted: pd.DataFrame) -> dict[str, Any]:
    """Promises in chunks, each one transaction; what is proven of a row is proven once for each chunk."""
    rng = np.random.default_rng(0)
    started = time.process_time()
    with Ledger(path) as ledger:
        for start in range(0, n, CHUNK):
            rows = rng.integers(0, len(accepted), min(CHUNK, n - start))
            promised = accepted.iloc[rows]
            ledger.add_frame(
                network, promised, promised, target=1, changes=hf.PlausibleChanges(DELTA), space=space,
                keys=[f"person-{i}" for i in range(start, start + len(rows))],
            )  # fmt: skip
    return {"seconds": time.process_time() - started, "mb": path.stat().st_size / 1e6}


def forward(network: hf.Network, space: hf.FeatureSpace, accepted: pd.DataFrame, n: int) -> dict[str, Any]:
    """One pass over as many points, already in memory: the best of five."""
    points = space.encode(accepted)[np.random.default_rng(0).integers(0, len(accepted), n)]
    best = np.inf
    for _ in range(5):
        started = time.process_time()
        network.predict_index(points)
        best = min(best, time.process_time() - started)
    return {"seconds": best}


def audited(path: Path, model: object, *, times: int = 3, contacts: bool = False, **options: Any) -> dict[str, Any]:
    """What an audit finds, and the best of some times that it takes, as for the forward pass."""
    best = np.inf
    for _ in range(times):
        started = time.process_time()
        result = audit(path, model, **options)
        if contacts:
            result.contact_list()
        best = min(best, time.process_time() - started)
    group = result.groups[0]
    totals = {str(status): count for status, count in result.totals.items()}
    return {"seconds": best, "totals": totals, "inside": group.inside, "how": group.how or group.why_not}


def found(path: Path, n: int) -> dict[str, Any]:
    """A thousand people's promises, one by one."""
    with Ledger(path) as ledger:
        started = time.process_time()
        rows = sum(len(ledger.find(f"person-{i}")) for i in range(0, n, max(1, n // 1000)))
        return {"seconds": time.process_time() - started, "rows": rows}


def refitted(space: hf.FeatureSpace, network: hf.Network) -> tuple[hf.FeatureSpace, hf.Network]:
    """Every scaler's range 0.01% wider, and the weights that make up for most of it."""
    document = space.to_dict()
    for feature in document["features"]:
        feature["scaling"] = [
            [operation, constant * 1.0001 if operation == "divide" else constant]
            for operation, constant in feature["scaling"]
        ]
    return hf.FeatureSpace.from_dict(document), network


def verified(path: Path) -> dict[str, Any]:
    """The whole chain, every row encoded again."""
    with Ledger(path) as ledger:
        return {"intact": ledger.verify().intact}


def kills(
    folder: Path, times: int, network: hf.Network, space: hf.FeatureSpace, accepted: pd.DataFrame
) -> dict[str, Any]:
    """Add 20 promises at a time until killed; then count what is there."""
    path, batch, wait = folder / "killed.ledger", accepted.head(20), random.Random(0)
    committed, during = 0, 0
    for _ in range(times):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            with Ledger(path) as ledger:
                while True:
                    receipt = ledger.add_frame(
                        network, batch, batch, target=1, changes=hf.PlausibleChanges(DELTA), space=space, radius=False
                    )
                    os.write(writing, receipt.total.to_bytes(8, "little"))
        os.close(writing)
        time.sleep(wait.uniform(0.02, 0.3))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        if said:
            committed = int.from_bytes(said[-8:], "little")
        during += Path(f"{path}-journal").exists()
        with Ledger(path) as ledger:
            count = len(ledger)
        if not committed <= count <= committed + len(batch) or count % len(batch):
            raise SystemExit(f"{count} promises where {committed} were committed")
        committed = count
    with Ledger(path) as ledger:
        return {"kills": times, "during": during, "promises": committed, "intact": ledger.verify().intact}


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--promises", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the ledger goes; a temporary folder if not given"
    )
    parser.add_argument("--out", type=Path, default=None, help="the page to write")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        text = run(Path(temporary), options.promises, options.kills)
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


def run(folder: Path, n: int, times: int) -> str:
    """Every step in turn, as a page."""
    network, space, accepted = lender()
    path = folder / "promises.ledger"
    empty = measured(dict)
    written = measured(lambda: fill(path, n, network, space, accepted))
    plain = measured(lambda: forward(network, space, accepted, n))
    inside = hf.PlausibleChanges(DELTA).sample(network, 1, seed=0)[0]
    outside = hf.PlausibleChanges(50 * DELTA).sample(network, 1, seed=0)[0]
    new_space, same = refitted(space, network)
    other = hf.Network([w[:15] if i == 0 else w[:, :15] if i == 1 else w for i, w in enumerate(outside.weights)],
                       [outside.biases[0][:15], *outside.biases[1:]])  # fmt: skip
    rows = [
        ("written, in transactions of 50,000", written, f"{written['mb']:,.0f} MB"),
        (
            "verified: chain, models, encodings",
            verify := measured(lambda: verified(path)),
            f"intact: {verify['intact']}",
        ),
    ]
    found_rows = measured(lambda: found(path, n))
    rows.append(("a thousand people's promises, by key", found_rows, f"{found_rows['rows']:,} promises"))
    unfoldable = Model(outside, preprocess=new_space.encode, feature_names=tuple(map(str, space.names)))
    for name, work in {
        "audit inside Δ": lambda: audited(path, inside),
        "audit outside Δ": lambda: audited(path, outside),
        "audit outside Δ, and the list of whom to contact": lambda: audited(path, outside, contacts=True),
        "audit of another build": lambda: audited(path, other),
        "audit, scaler refitted, inside Δ": lambda: audited(path, same, space=new_space),
        "audit, scaler refitted, outside Δ": lambda: audited(path, outside, space=new_space),
        "audit, threshold 0.5 to 0.6": lambda: audited(path, inside, threshold=0.6),
        "audit, preprocessing that no feature space describes": lambda: audited(path, unfoldable, times=1),
    }.items():
        step = measured(work)
        print(name, step, flush=True)
        rows.append((name, step, ", ".join(f"{c:,} {s}" for s, c in step["totals"].items() if c)))
    killed = kills(folder, times, network, space, accepted)
    base = plain["seconds"]
    lines = [
        "# The ledger in figures",
        "",
        f"{n:,} promises on heloc ({space.n_variables} variables), a network of two hidden layers of 20, one thread. "
        f"A forward pass over as many points in memory takes {base:.2f} s. CPU seconds, of forward passes and audits "
        f"the best of several; the process without any work has {empty['peak_mb']:.0f} MB. Written by "
        "`python bench/ledger.py --out docs/benchmarks-ledger.md`.",
        "",
        "| step | seconds | forward passes | peak memory, MB | |",
        "|---|---:|---:|---:|---|",
        *(
            f"| {name} | {step['seconds']:.2f} | {step['seconds'] / base:.1f} | {step['peak_mb']:.0f} | {note} |"
            for name, step, note in rows
        ),
        "",
        f"A writer that adds 20 promises at a time was killed {killed['kills']} times with SIGKILL, "
        f"{killed['during']} of them in the middle of a transaction. {killed['promises']:,} promises were committed; "
        f"none was lost, none was half written, and the chain is intact: {killed['intact']}.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
