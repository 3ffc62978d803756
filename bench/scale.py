"""Tables larger than memory, and machines more than one: what it costs, and that the answers are the same.

    python bench/scale.py file --rows 20000000           `holdfast certify` on a Parquet file: memory, rows a second
    python bench/scale.py kills --rows 4000000           killed with -9 ten times and resumed: the same bytes
    python bench/scale.py dask --rows 5000000            four workers, one killed half way: the same answers
    python bench/scale.py spark --rows 200000            mapInArrow: the same answers; so does `ray`
    python bench/scale.py curves                         all that follow, and docs/images/cost.png
    python bench/scale.py rates                          rows a second of certify, RNCE and Closest on one core
    python bench/scale.py shares                         what they spend it on
    python bench/scale.py workers                        one worker and two: explain(Closest), radius, certify
    python bench/scale.py picture                        docs/images/scale.png, out of `rates` and `workers`

The rows are those of the heloc table over and over, each entry moved a little.
The network has two hidden layers of 20, delta is 0.01. Files go to --store.
Each command prints its figures and writes them to docs/benchmarks-scale.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import statistics
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
from threadpoolctl import threadpool_limits

import holdfast as hf
from cases import TARGET, case

ROOT = Path(__file__).resolve().parent.parent
PAGE, HOUSE = ROOT / "docs" / "benchmarks-scale.md", Path(hf.__file__).parent
HIDDEN, CHANGES = (20, 20), hf.PlausibleChanges(0.01)
# Rows that are written at once, and rows of a partition.
BLOCK = 2**17
# Runs on a file.
REPEATS = 5


class Bench:
    """The network, and rows of heloc's shape, as many as are asked for."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.store, self.said = options, options.store, list[str]()
        self.store.mkdir(parents=True, exist_ok=True)
        heloc = case(options.data, options.store, "heloc", HIDDEN, "all")
        self.network, self.points = heloc.network, heloc.points
        self.model = self.store / "model.npz"
        self.network.save(self.model)
        self.columns = [f"x{i}" for i in range(self.points.shape[1])]

    def say(self, line: str) -> None:
        """Print a line, and keep it for the page."""
        print(line, flush=True)
        self.said.append(line)

    def run(self, part: Callable[[Bench], None]) -> None:
        """Measure one part; its sentences go into docs/benchmarks-scale.md, below its command."""
        self.said = []
        part(self)
        if self.said:
            self.write_block(part.__name__, "".join(f"- {line}\n" for line in self.said))

    def write_block(self, name: str, content: str) -> None:
        """A part of docs/benchmarks-scale.md between its two marks; at the end, where it has none yet."""
        text = PAGE.read_text(encoding="utf-8")
        known = re.compile(f"<!-- {name} -->\n.*?<!-- end of {name} -->\n", re.DOTALL)
        place = known.search(text) or re.compile(r"\Z").search(text)
        assert place is not None
        # Where files lie on this machine is nobody's business.
        words = re.sub(r" --(store|data)[ =]\S+", "", " ".join(sys.argv[1:]))
        command = f"By `python bench/scale.py {words}`:\n\n"
        block = f"<!-- {name} -->\n{command}{content}<!-- end of {name} -->\n"
        text = text[: place.start()] + block + text[place.end() :]
        PAGE.write_text(text, encoding="utf-8", newline="\n")

    def block(self, number: int, rows: int = BLOCK) -> pd.DataFrame:
        """One block of rows, the same whenever it is asked for."""
        rng = np.random.default_rng([1, number])
        own = self.points[rng.integers(0, len(self.points), rows)]
        frame = pd.DataFrame(own + rng.uniform(0.0, 0.01, own.shape), columns=self.columns)
        frame.insert(0, "id", np.arange(number * BLOCK, number * BLOCK + rows))
        return frame

    def blocks(self, rows: int) -> Iterator[pd.DataFrame]:
        """Blocks with `rows` rows in all."""
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

    def verbs(self) -> Iterator[tuple[str, pd.DataFrame, Callable[[], list[float]]]]:
        """certify, RNCE and Closest, each with its rows and what works through them; everything that is read once
        is read.

        What works through them says the processor time of every batch.
        """
        for what, function, rows, size in (
            ("certify", self.certify(), pd.concat(self.blocks(8 * BLOCK)), BLOCK),
            ("RNCE", self.explain(hf.RNCE(self.points)), self.rejected(self.options.people), 256),
            ("Closest", self.explain(hf.Closest()), self.rejected(self.options.closest), 1),
        ):
            function(rows.head(2))

            def run(
                function: Any = function, rows: pd.DataFrame = rows, size: int = size
            ) -> list[float]:
                seconds = []
                for start in range(0, len(rows), size):
                    before = time.process_time()
                    function(rows[start : start + size])
                    seconds.append(time.process_time() - before)
                return seconds

            yield what, rows, run

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
    most, gone = 0.0, 0
    # The kernel's own maximum begins with the memory of whoever starts the process.
    while not gone:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
        most = max(most, float(found[1]) / 2**20 if found else 0.0)
        time.sleep(0.02)
        gone, status, usage = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, most


def file(bench: Bench) -> None:
    """A file through the command line at a quarter, a half and all of the rows, and the call in memory.

    The call in memory runs before and after each run on a file, which has just been read once, so that it comes from
    the system's cache. What is printed are medians, and of the share the least and the greatest.
    """
    blank = [sys.executable, "-c", "import holdfast.cli._app, pyarrow.dataset"]
    base = min(child(blank) for _ in range(3))[2]
    single = bench.command(bench.file(1), bench.store / "verdict.parquet")
    start = min(child(single) for _ in range(3))[0]
    some = [bench.block(i)[bench.columns] for i in range(8)]

    def in_memory() -> float:
        started = time.perf_counter()
        for frame in some:
            hf.certify(bench.network, frame, TARGET, CHANGES).to_frame()
        return (time.perf_counter() - started) / (8 * BLOCK)

    in_memory()
    total = bench.options.rows
    files = {rows: bench.file(rows) for rows in (total // 4, total // 2, total)}
    for rows, data in files.items():
        runs = []
        before = in_memory()
        for _ in range(REPEATS):
            # How fast a disk is does not belong here.
            with data.open("rb") as content:
                while content.read(2**24):
                    pass
            wall, cpu, most = child(bench.command(data, bench.store / f"verdicts-{rows}.parquet"))
            after = in_memory()
            each, rate = (before + after) / 2, rows / (wall - start)
            runs.append((rate * each, wall, rate, 1 / each, cpu, most))
            before = after
        share, wall, rate, beside, cpu, _ = map(statistics.median, zip(*runs, strict=True))
        shares, most = [run[0] for run in runs], max(run[-1] for run in runs)
        bench.say(
            f"{rows:,} rows, {REPEATS} times: {wall:.1f} s, of which a single row takes {start:.1f} s; "
            f"{rate:,.0f} rows a second, {share:.0%} ({min(shares):.0%} to {max(shares):.0%}) of the {beside:,.0f} of "
            f"the call in memory; {cpu:.0f} s of processor time; {most - base:.2f} GiB above the import's {base:.2f}; "
            "the file had been read before"
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
    child(bench.command(data, whole))
    rng, parts = random.Random(0), -(-rows // BLOCK)

    def so_far() -> list[Path]:
        return sorted(bench.store.glob(f".{out.name}.*/0*"))

    killed = 0
    while killed < times:
        # At any moment from where it was, up to the last part.
        goal = rng.randint(len(so_far()), parts)
        process = subprocess.Popen(bench.command(data, out), stdout=subprocess.DEVNULL)
        while process.poll() is None and len(so_far()) < goal:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.5))
        process.send_signal(signal.SIGKILL)
        if process.wait() == 0:
            assert out.read_bytes() == whole.read_bytes()
            out.unlink()
            continue
        killed += 1
        print(f"killed ({killed}): {len(so_far())} parts of {parts} are kept", flush=True)
        # Nearly all over again where little is left to do.
        for part in so_far()[rng.randint(0, 3) :] if len(so_far()) > parts - 3 else ():
            part.unlink()
    child(bench.command(data, out))
    assert out.read_bytes() == whole.read_bytes()
    bench.say(
        f"{rows:,} rows, killed with SIGKILL {killed} times and resumed: the same {out.stat().st_size:,} bytes as of a "
        "run that was left alone"
    )


def same(ours: pd.DataFrame, theirs: pd.DataFrame) -> None:
    """Equal to the last bit, in the order of the ids."""
    ours, theirs = (frame.sort_values("id").reset_index(drop=True) for frame in (ours, theirs))
    pd.testing.assert_frame_equal(ours[list(theirs.columns)], theirs, check_exact=True)


def dask(bench: Bench) -> None:
    """Four workers, one of them killed half way."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    rows = bench.options.rows
    # A worker is told what to do by a pickle; it has to find this module.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "bench"), os.environ.get("PYTHONPATH", "")]
    )
    with (
        LocalCluster(4, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def run(what: str, function: Any, table: Any, serial: Callable[[], pd.DataFrame]) -> None:
            started = time.perf_counter()
            parts = table.map_partitions(function, meta=function.meta)
            future, half = client.compute(parts), parts.npartitions // 2
            done = 0
            while done < half and future.status == "pending":
                done = len({key for keys in client.has_what().values() for key in keys})
                time.sleep(0.02)
            victim = next(iter(client.run(os.getpid).values()))
            early = future.status == "pending"
            os.kill(victim, signal.SIGKILL)
            result = future.result()
            seconds = time.perf_counter() - started
            assert early, "it was over before a worker was killed"
            same(result, serial())
            bench.say(
                f"{what}: {len(result):,} rows in {parts.npartitions} partitions, four workers, one killed after "
                f"{done} of them, {seconds:.0f} s: identical to the serial run"
            )

        certify = bench.certify()
        count = -(-rows // BLOCK)
        sizes = [min(BLOCK, rows - i * BLOCK) for i in range(count)]
        table = dd.from_map(bench.block, range(count), sizes, meta=bench.block(0, 1).iloc[:0])
        run("certify", certify, table, lambda: pd.concat(map(certify, bench.blocks(rows))))
        for what, generator, n, size in (
            ("RNCE", hf.RNCE(bench.points), bench.options.people, 500),
            ("Closest", hf.Closest(), bench.options.closest, 5),
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
    compare(bench, ours, certify(frame), "certify on Spark")


def ray(bench: Bench) -> None:
    """The same through Ray Data."""
    import ray as engine

    engine.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    certify, frame = bench.certify(), pd.concat(bench.blocks(bench.options.rows))
    table = engine.data.read_parquet(str(bench.file(bench.options.rows)))
    ours = table.map_batches(certify, batch_format="pyarrow", batch_size=20_000).to_pandas()
    engine.shutdown()
    compare(bench, ours.sort_values("id").reset_index(drop=True), certify(frame), "certify on Ray")


def compare(bench: Bench, ours: pd.DataFrame, theirs: pd.DataFrame, what: str) -> None:
    """Verdicts and stages equal; bounds up to the rounding of sums, since these engines cut batches as they like."""
    theirs = theirs.reset_index(drop=True)
    for name in ("id", "verdict", "robust", "decided_by"):
        assert (ours[name] == theirs[name]).all(), name
    apart = float(np.abs(ours["margin_lower"] - theirs["margin_lower"]).max())
    bench.say(
        f"{what}: {len(ours):,} rows, the same verdicts and stages; bounds at most {apart:.1g} apart"
    )


def digits(value: float, count: int) -> str:
    """A number with `count` digits, without an exponent."""
    return f"{float(f'{value:.{count}g}'):,.12g}"


def rates(bench: Bench) -> None:
    """Processor time a row on one core."""
    measured, note = {}, ""
    table = "| | rows measured | time a row | core-hours for 10⁶ | 10⁸ | 10⁹ |\n|---|---|---|---|---|---|\n"
    for what, rows, run in bench.verbs():
        seconds = run()
        each = sum(seconds) / len(rows)
        measured[what] = each, len(rows)
        hours = [digits(each * count / 3600, 2) for count in (1e6, 1e8, 1e9)]
        cost = f"{digits(1e6 * each, 3)} µs"
        print(f"{what}: {len(rows):,} rows measured, {cost} a row on one core", flush=True)
        table += f"| {what} | {len(rows):,} | {cost} | {' | '.join(hours)} |\n"
        if len(seconds) == len(rows):
            note += (
                f"\nOf {what}'s {len(rows):,} people half take at most {statistics.median(seconds):.2g} s, one in "
                f"twenty more than {np.quantile(seconds, 0.95):.2g} s, and the longest {max(seconds):.0f} s, which is "
                f"{max(seconds) / sum(seconds):.0%} of the time of all.\n"
            )
    bench.write_block("rates table", table + note)
    kept(bench, rates=measured)


# Where the time goes: the stages of the engine, or the rooms of the house, in words.
STAGES = {
    "_plain": "forward pass and interval bound",
    "_attack": "attack",
    "_linear": "linear bound",
    "_branch": "branch and bound",
}
ROOMS = {
    "milp": "programs, in HiGHS for the most part",
    "verify": "asking the engine about points",
    "generators": "choosing among rows or points",
    "features": "between the table and the model's variables",
}


def shares(bench: Bench) -> None:
    """What certify spends its time on, by stages of the engine; RNCE and Closest, by rooms of the house."""
    for what, _, run in bench.verbs():
        total, spent = sampled(run, by_stage if what == "certify" else by_room)
        most = sorted(spent.items(), key=lambda item: -item[1])
        bench.say(f"{what}: " + ", ".join(f"{name} {own / total:.0%}" for name, own in most))


def by_stage(stack: list[tuple[str, str]]) -> str:
    """The stage of the engine that is at work."""
    return next((STAGES[name] for _, name in stack if name in STAGES), "the table, in and out")


def by_room(stack: list[tuple[str, str]]) -> str:
    """The room at work; numpy and HiGHS count for the room that called them."""
    rooms = (room.replace("bounds", "verify") for room, _ in stack)
    return next((ROOMS[room] for room in rooms if room in ROOMS), "the table, in and out")


def sampled(
    run: Callable[[], object], label: Callable[[list[tuple[str, str]]], str]
) -> tuple[float, dict[str, float]]:
    """Processor time of a run, and of each label that the stack got a few hundred times a second.

    A signal waits until a call into C is over: what has passed since the last one belongs to that call.
    """
    spent: dict[str, float] = {}
    last = started = time.process_time()

    def look(_: int, frame: Any) -> None:
        nonlocal last
        stack = []
        while frame is not None:
            where = Path(frame.f_code.co_filename)
            if where.is_relative_to(HOUSE):
                stack.append((where.relative_to(HOUSE).parts[0], frame.f_code.co_name))
            frame = frame.f_back
        now, name = time.process_time(), label(stack)
        spent[name], last = spent.get(name, 0.0) + now - last, now

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, 0.003, 0.003)
    try:
        run()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    return time.process_time() - started, spent


def worker(network: hf.Network, frame: pd.DataFrame) -> int:
    """The process that was given a small task, long enough for the next task to go to another one."""
    hf.certify(network, frame, TARGET, CHANGES)
    time.sleep(0.1)
    return os.getpid()


def workers(bench: Bench) -> None:
    """Seconds on the wall with one worker and with two, at best; it takes a quiet machine."""
    import joblib

    closest = bench.rejected(bench.options.closest)[bench.columns]
    frame = pd.concat(bench.blocks(32 * BLOCK))[bench.columns]
    accepted = frame[bench.network.predict(frame) == TARGET].head(bench.options.radii)
    asked: dict[str, Callable[[int], object]] = {
        "explain(Closest)": lambda n: hf.explain(
            bench.network, closest, target=TARGET, changes=CHANGES, generator=hf.Closest(), n_jobs=n
        ),
        "radius": lambda n: hf.certified_radius(bench.network, accepted, TARGET, n_jobs=n),
        "certify": lambda n: hf.certify(bench.network, frame, TARGET, CHANGES, n_jobs=n),
    }
    most = len(os.sched_getaffinity(0))
    counts = [2**i for i in range(most.bit_length()) if 2**i <= most]
    result = {}
    for what, run in asked.items():
        seconds = dict.fromkeys(counts, np.inf)
        # Taking turns, and the best of three: other guests of the machine come and go.
        for n in counts * 3:
            # Workers that are up already, as they are in a run that lasts.
            up = set[int]()
            while len(up) < n:
                task = joblib.delayed(worker)(bench.network, frame[:10])
                up |= {*joblib.Parallel(n)(task for _ in range(2 * n))}
            started = time.perf_counter()
            run(n)
            seconds[n] = min(seconds[n], time.perf_counter() - started)
        result[what] = {n: seconds[1] / own for n, own in seconds.items()}
        rest = ", ".join(
            f"{own:.1f} s with {n}: {seconds[1] / own:.2f} times"
            for n, own in seconds.items()
            if n > 1
        )
        bench.say(f"{what}: {seconds[1]:.1f} s with one worker, {rest}")
    kept(bench, workers=result)


def kept(bench: Bench, **new: Any) -> dict[str, Any]:
    """What was measured so far."""
    path = bench.store / "scale.json"
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | new))
    return known | new


def picture(bench: Bench) -> None:
    """Core-hours by number of rows, and the speed of two workers, as `rates` and `workers` measured them."""
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
        for (what, curve), color in zip(
            faster.items(), (colors[2], colors[1], colors[0]), strict=True
        ):
            right.plot([int(n) for n in curve], list(curve.values()), "o-", color=color, label=what)
        ends = [1, max(int(n) for n in next(iter(faster.values())))]
        right.plot(ends, ends, "--", color="#8a8a8a", lw=1, label="as many times as workers")
        right.set(xlabel="workers", xticks=sorted(int(n) for n in next(iter(faster.values()))))
        right.set_title("times as fast as with one worker", fontsize="medium")
        right.legend(frameon=False, fontsize="small")
    for ax in (left, *rest):
        ax.grid(visible=True, color="#e5e5e5", lw=0.5)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(ROOT / "docs" / "images" / "scale.png", dpi=150)


def curves(bench: Bench) -> None:
    """Over rows, features, width, depth and delta, and over workers: both pictures of docs/benchmarks-scale.md."""
    command = [sys.executable, str(ROOT / "bench" / "cost.py"), "--data", str(bench.options.data)]
    subprocess.run([*command, "--store", str(bench.store)], check=True)
    for part in (rates, shares, workers, picture):
        bench.run(part)


PARTS = {
    run.__name__: run
    for run in (file, kills, dask, spark, ray, curves, rates, shares, workers, picture)
}


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
    parser.add_argument("--radii", type=int, default=20_000, help="rows for radius")
    parser.add_argument("--times", type=int, default=10, help="kills")
    options = parser.parse_args()
    # One thread for each process, those that are started from here as well.
    os.environ["OMP_NUM_THREADS"] = "1"
    with threadpool_limits(1):
        Bench(options).run(PARTS[options.part])


if __name__ == "__main__":
    main()
