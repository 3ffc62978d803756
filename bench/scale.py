"""Tables larger than memory, and machines more than one: what it costs, and that the answers are the same.

    python bench/scale.py rates                          rows a second of certify, RNCE and Closest on one core
    python bench/scale.py file --rows 20000000           `holdfast certify` on a Parquet file: memory, rows a second
    python bench/scale.py kills --rows 1000000           killed with -9 ten times and resumed: the same bytes
    python bench/scale.py dask --rows 5000000            four workers, one killed half way: the same answers
    python bench/scale.py spark --rows 200000            mapInArrow: the same answers; so does `ray`
    python bench/scale.py workers                        one worker and two: explain(Closest), radius, certify
    python bench/scale.py picture                        docs/images/scale.png, out of `rates` and `workers`

The rows are those of the heloc table over and over, each entry moved a little; the network has two hidden layers of 20,
delta is 0.01. Files go to --store.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import holdfast as hf
from cases import TARGET, case

ROOT = Path(__file__).resolve().parent.parent
HIDDEN, CHANGES = (20, 20), hf.PlausibleChanges(0.01)
# Rows that are written at once, and rows of a partition.
BLOCK = 2**17


class Bench:
    """The network, and rows of heloc's shape, as many as are asked for."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.store = options, options.store
        self.store.mkdir(parents=True, exist_ok=True)
        heloc = case(options.data, options.store, "heloc", HIDDEN, "all")
        self.network, self.points = heloc.network, heloc.points
        self.model = self.store / "model.npz"
        self.network.save(self.model)
        self.columns = [f"x{i}" for i in range(self.points.shape[1])]

    def block(self, number: int, rows: int = BLOCK) -> pd.DataFrame:
        """One block of rows, the same whenever it is asked for."""
        rng = np.random.default_rng([1, number])
        own = self.points[rng.integers(0, len(self.points), rows)]
        frame = pd.DataFrame(own + rng.uniform(0.0, 0.01, own.shape), columns=self.columns)
        frame.insert(0, "id", np.arange(number * BLOCK, number * BLOCK + rows))
        return frame

    def blocks(self, rows: int) -> Iterator[pd.DataFrame]:
        """So many rows."""
        for number, start in enumerate(range(0, rows, BLOCK)):
            yield self.block(number, min(BLOCK, rows - start))

    def file(self, rows: int) -> Path:
        """The same as a Parquet file."""
        path = self.store / f"heloc-{rows}.parquet"
        if not path.exists():
            beside = path.with_suffix(".partial")
            schema = pa.Schema.from_pandas(self.block(0, 1), preserve_index=False)
            with pq.ParquetWriter(beside, schema) as writer:
                for frame in self.blocks(rows):
                    writer.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))
            beside.rename(path)
        return path

    def certify(self, **options: Any) -> Any:
        """`certify` over batches."""
        return hf.over_batches(
            "certify", self.network, self.block(0, 1), keep=["id"], target=TARGET, changes=CHANGES, **options
        )  # fmt: skip

    def explain(self, generator: Any) -> Any:
        """`explain` over batches."""
        return hf.over_batches(
            "explain", self.network, self.block(0, 1), keep=["id"], target=TARGET, changes=CHANGES, generator=generator
        )  # fmt: skip

    def rejected(self, n: int) -> pd.DataFrame:
        """People whom the network does not accept."""
        frame = pd.concat(self.blocks(4 * n))
        return frame[self.network.predict(frame[self.columns]) != TARGET].head(n)

    def command(self, data: Path, out: Path) -> list[str]:
        """`holdfast certify` on a file."""
        files = ["--model", str(self.model), "--data", str(data), "--out", str(out)]
        said = ["--target", "1", "--delta", "0.01", "--index", "id"]
        return [sys.executable, "-m", "holdfast", "certify", *files, *said]


def child(command: list[str]) -> tuple[float, float, float]:
    """Seconds on the wall, seconds of processor time and GiB at most of a process."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20


def file(bench: Bench) -> None:
    """A file through the command line, at a quarter of the rows and at all of them, beside the call in memory."""
    blank = "import holdfast.cli._app, pyarrow.dataset"
    _, imported, base = child([sys.executable, "-c", blank])
    print(f"import: {imported:.1f} s of processor time, {base:.2f} GiB")
    some = [bench.block(i) for i in range(8)]
    started = time.process_time()
    for frame in some:
        hf.certify(bench.network, frame[bench.columns], TARGET, CHANGES).to_frame()
    each = (time.process_time() - started) / (8 * BLOCK)
    print(f"in memory: {1 / each:,.0f} rows a second of processor time")
    for rows in (bench.options.rows // 4, bench.options.rows):
        data, out = bench.file(rows), bench.store / f"verdicts-{rows}.parquet"
        wall, cpu, most = child(bench.command(data, out))
        rate = rows / (cpu - imported)
        print(
            f"{rows:,} rows: {wall:.0f} s, {cpu:.0f} s of processor time, {most - base:.2f} GiB above the import; "
            f"{rate:,.0f} rows a second of processor time, {rate * each:.0%} of the call in memory"
        )


def kills(bench: Bench) -> None:
    """Killed at random moments and resumed."""
    rows, times = bench.options.rows, bench.options.times
    data, whole, out = (
        bench.file(rows),
        bench.store / "whole.parquet",
        bench.store / "killed.parquet",
    )
    for path in (whole, out):
        path.unlink(missing_ok=True)
    wall, _, _ = child(bench.command(data, whole))
    rng, killed = random.Random(0), 0
    while killed < times:
        process = subprocess.Popen(bench.command(data, out), stdout=subprocess.DEVNULL)
        try:
            process.wait(rng.uniform(0.5, 1.0) * wall)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
            parts = len(list(bench.store.glob(f".{out.name}.*/0*")))
            print(f"killed ({killed}): {parts} parts of {-(-rows // BLOCK)} are kept")
            if rng.random() < 0.5:
                continue
            # Half of the times all over again, so that every kill does not come after the last part.
            for folder in bench.store.glob(f".{out.name}.*"):
                for part in sorted(folder.iterdir())[rng.randint(0, 3) :]:
                    part.unlink()
        else:
            same = out.read_bytes() == whole.read_bytes()
            print(f"came to its end after {killed} kills: the same bytes: {same}")
            assert same
            out.unlink()
    child(bench.command(data, out))
    same = out.read_bytes() == whole.read_bytes()
    print(f"{killed} kills, resumed: the same {len(whole.read_bytes()):,} bytes: {same}")
    assert same


def same(ours: pd.DataFrame, theirs: pd.DataFrame, what: str) -> None:
    """Equal to the last bit, in the order of the ids."""
    ours, theirs = (frame.sort_values("id").reset_index(drop=True) for frame in (ours, theirs))
    pd.testing.assert_frame_equal(ours[list(theirs.columns)], theirs, check_exact=True)
    print(f"{what}: {len(ours):,} rows, identical to the serial run")


def dask(bench: Bench) -> None:
    """Four workers, one of them killed half way."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    rows = bench.options.rows
    with (
        LocalCluster(4, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def run(what: str, function: Any, table: Any, serial: Callable[[], pd.DataFrame]) -> None:
            started = time.perf_counter()
            future = client.compute(table.map_partitions(function, meta=function.meta))
            while not any(client.has_what().values()):
                time.sleep(0.05)
            time.sleep(2.0)
            victim = next(iter(client.run(os.getpid).values()))
            early = future.status == "pending"
            os.kill(victim, signal.SIGKILL)
            result = future.result()
            seconds = time.perf_counter() - started
            print(f"{what}: {seconds:.0f} s with four workers; one killed while it ran: {early}")
            same(result, serial(), what)

        certify = bench.certify()
        table = dd.from_map(bench.block, range(rows // BLOCK), meta=bench.block(0, 1).iloc[:0])
        blocks = (bench.block(i) for i in range(rows // BLOCK))
        run("certify", certify, table, lambda: pd.concat(map(certify, blocks)))
        for what, generator, n, size in (
            ("RNCE", hf.RNCE(bench.points), bench.options.people, 500),
            ("Closest", hf.Closest(), bench.options.closest, 10),
        ):
            people, function = bench.rejected(n), bench.explain(generator)
            table = dd.from_pandas(people, npartitions=-(-n // size))
            parts = [table.get_partition(i).compute() for i in range(table.npartitions)]
            run(what, function, table, lambda f=function, p=parts: pd.concat(map(f, p)))


def spark(bench: Bench) -> None:
    """The same through Spark."""
    from pyspark.sql import SparkSession
    from pyspark.sql.pandas.types import from_arrow_schema

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    certify, frame = bench.certify(), pd.concat(bench.blocks(bench.options.rows))
    table = session.read.parquet(str(bench.file(bench.options.rows))).repartition(4)
    result = table.mapInArrow(lambda parts: map(certify, parts), from_arrow_schema(certify.schema))
    ours = result.toPandas().sort_values("id").reset_index(drop=True)
    session.stop()
    compare(ours, certify(frame), "certify on Spark")


def ray(bench: Bench) -> None:
    """The same through Ray Data."""
    import ray as engine

    engine.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    certify, frame = bench.certify(), pd.concat(bench.blocks(bench.options.rows))
    table = engine.data.read_parquet(str(bench.file(bench.options.rows)))
    ours = table.map_batches(certify, batch_format="pyarrow", batch_size=20_000).to_pandas()
    engine.shutdown()
    compare(ours.sort_values("id").reset_index(drop=True), certify(frame), "certify on Ray")


def compare(ours: pd.DataFrame, theirs: pd.DataFrame, what: str) -> None:
    """Verdicts and stages equal; bounds up to the rounding of sums, since these engines cut batches as they like."""
    theirs = theirs.reset_index(drop=True)
    for name in ("id", "verdict", "robust", "decided_by"):
        assert (ours[name] == theirs[name]).all(), name
    apart = float(np.abs(ours["margin_lower"] - theirs["margin_lower"]).max())
    print(
        f"{what}: {len(ours):,} rows, the same verdicts and stages; bounds at most {apart:.1g} apart"
    )


def rates(bench: Bench) -> None:
    """Processor time a row on one core."""
    frame = pd.concat(bench.blocks(8 * BLOCK))
    measured = {}
    for what, function, table in (
        ("certify", bench.certify(), frame),
        ("RNCE", bench.explain(hf.RNCE(bench.points)), bench.rejected(bench.options.people)),
        ("Closest", bench.explain(hf.Closest()), bench.rejected(bench.options.closest)),
    ):
        function(table.head(2))
        size = BLOCK if what == "certify" else 256
        started = time.process_time()
        for start in range(0, len(table), size):
            function(table[start : start + size])
        each = (time.process_time() - started) / len(table)
        measured[what] = each, len(table)
        hours = [each * rows / 3600 for rows in (1e6, 1e8, 1e9)]
        print(
            f"{what}: {len(table):,} rows measured, {1e6 * each:.3g} us a row; core-hours for 1e6, 1e8, 1e9 "
            f"rows: {', '.join(f'{hour:.3g}' for hour in hours)}"
        )
    kept(bench, rates=measured)


def workers(bench: Bench) -> None:
    """Seconds on the wall with one worker and with two; it takes a quiet machine."""
    import joblib

    closest = bench.rejected(bench.options.closest)[bench.columns]
    frame = pd.concat(bench.blocks(32 * BLOCK))[bench.columns]
    accepted = frame[bench.network.predict(frame) == TARGET].head(40_000)
    asked: dict[str, Callable[[int], object]] = {
        "explain(Closest)": lambda n: hf.explain(
            bench.network, closest, target=TARGET, changes=CHANGES, generator=hf.Closest(), n_jobs=n
        ),
        "radius": lambda n: hf.certified_radius(bench.network, accepted, TARGET, n_jobs=n),
        "certify": lambda n: hf.certify(bench.network, frame, TARGET, CHANGES, n_jobs=n),
    }
    # Workers that are up already, as they are in a run that lasts.
    joblib.Parallel(2)(
        joblib.delayed(hf.certify)(bench.network, frame[:10], TARGET, CHANGES) for _ in range(4)
    )
    result = {}
    for what, run in asked.items():
        seconds = {}
        for n in (1, 2):
            started = time.perf_counter()
            run(n)
            seconds[n] = time.perf_counter() - started
        result[what] = seconds[1] / seconds[2]
        print(
            f"{what}: {seconds[1]:.1f} s with one worker, {seconds[2]:.1f} s with two: {result[what]:.2f} times"
        )
    kept(bench, workers=result)


def kept(bench: Bench, **new: Any) -> dict[str, Any]:
    """What was measured so far."""
    path = bench.store / "scale.json"
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | new))
    return known | new


def picture(bench: Bench) -> None:
    """Core-hours for so many rows, and how two workers share the work: what `rates` and `workers` measured."""
    from matplotlib.figure import Figure

    known = kept(bench)
    if "rates" not in known:
        sys.exit("expected `rates` to have been run, and `workers` for the panel on the right")
    figure = Figure(figsize=(10.0, 3.2), layout="constrained")
    faster = known.get("workers", {})
    left, *rest = figure.subplots(1, 1 + bool(faster), squeeze=False)[0]
    rows = np.logspace(1, 9, 33)
    colors = ("#0b6e4f", "#2a6f97", "#b5541c")
    for (what, (each, measured)), color in zip(known["rates"].items(), colors, strict=True):
        hours, seen = rows * each / 3600, rows <= measured
        left.plot(rows, hours, "--", color=color, lw=1.2)
        left.plot(rows[seen], hours[seen], "-", color=color, lw=3)
        left.annotate(
            what,
            (rows[-6], hours[-6]),
            (-6, 4),
            textcoords="offset points",
            ha="right",
            color=color,
        )
    left.set(xscale="log", yscale="log", xlabel="rows", ylabel="core-hours")
    left.set_title("one core; thick: measured, dashed: extrapolated", fontsize="medium")
    for right in rest:
        right.barh(list(faster), list(faster.values()), color=colors[0], height=0.5)
        right.axvline(2.0, color="#8a8a8a", lw=1)
        right.set_title("times as fast with two workers", fontsize="medium")
    for ax in (left, *rest):
        ax.grid(visible=True, color="#e5e5e5", lw=0.5)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(ROOT / "docs" / "images" / "scale.png", dpi=150)


PARTS = {run.__name__: run for run in (rates, file, kills, dask, spark, ray, workers, picture)}


def main() -> None:
    """Measure one of them, and print what was measured."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    data = Path(os.environ.get("HOLDFAST_DATA") or ROOT.parent / "shared" / "data")
    parser.add_argument("part", choices=PARTS)
    parser.add_argument(
        "--data", type=Path, default=data, help="folder with the tables and their schemas"
    )
    parser.add_argument("--store", type=Path, default=ROOT / "out" / "bench", help="where files go")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--people", type=int, default=20_000, help="for RNCE")
    parser.add_argument("--closest", type=int, default=200, help="people for Closest")
    parser.add_argument("--times", type=int, default=10, help="kills")
    options = parser.parse_args()
    PARTS[options.part](Bench(options))


if __name__ == "__main__":
    main()
