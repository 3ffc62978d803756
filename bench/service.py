"""The service under load, under nonsense, and killed: requests a second, no 500, no promise lost.

    python bench/service.py --out docs/benchmarks-service.md     # 60 seconds for each number of clients
    python bench/service.py --seconds 5 --malformed 2000 --kills 3

The service is a process of its own, `holdfast serve`, kept to one core; the clients are another, kept to another core
where there is one, and speak HTTP/1.1 over connections that stay open. Everything goes to 127.0.0.1, is bounded in
count and time, and stops by itself. The model is a network of two hidden layers of 20 on the heloc table, delta 0.005; a
request is about one person of the table, for `explain` one that the model turns down, with 5,000 rows as candidates.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neural_network import MLPClassifier

import holdfast as hf

DELTA, CLIENTS = 0.005, (1, 8, 32)
PEOPLE = 2000


def lender(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Files for the service, and people to ask about: some for certify, some for explain."""
    data = hf.datasets.load("heloc")
    table = data.X.astype(float)
    clf = MLPClassifier((20, 20), max_iter=200, random_state=0).fit(data.space.encode(table), data.y)
    network = hf.load_network(clf)
    network.save(folder / "model.npz")
    (folder / "space.json").write_text(json.dumps(data.space.to_dict()))
    table.head(5000).to_csv(folder / "candidates.csv", index=False)
    accepted = network.predict(data.space.encode(table)) == 1
    return {
        name: json.loads(table[mask].head(PEOPLE).to_json(orient="records", double_precision=15))
        for name, mask in (("certify", accepted), ("explain", ~accepted))
    }


@contextmanager
def service(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The running service on one core, and its port."""
    command = [sys.executable, "-m", "holdfast", "serve", "--model", "model.npz", "--schema", "space.json",
               "--candidates", "candidates.csv", "--target", "1", "--delta", str(DELTA), "--port", "0", *options]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with (folder / "log.jsonl").open("a") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]),
        )  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r":(\d+)\s*$", line)
            if found is None:
                raise SystemExit(f"expected an address, got {line!r}: {(folder / 'log.jsonl').read_text()}")
            yield process, int(found[1])
        finally:
            process.kill()
            process.wait()


class Connection:
    """An HTTP/1.1 connection that stays open, with no more to it than a load needs."""

    def __init__(self, port: int) -> None:
        self.port, self.streams = port, None

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Send the bytes of a request; the status and the body of the answer, 0 where the connection ends first."""
        try:
            if self.streams is None:
                self.streams = await asyncio.open_connection("127.0.0.1", self.port)
            reader, writer = self.streams
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
            body = await (reader.read() if length is None else reader.readexactly(int(length[1])))
            if length is None or b"connection: close" in head.lower():
                self.close()
            return int(head[9:12]), body
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return 0, b""

    def close(self) -> None:
        """The next request opens it again."""
        if self.streams is not None:
            self.streams[1].close()
        self.streams = None


def post(path: str, body: bytes, kind: str = "application/json", more: str = "") -> bytes:
    """The bytes of a request."""
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\n{more}content-length: {len(body)}\r\n\r\n"
    return head.encode("latin-1", "replace") + body


def asked(person: dict[str, Any], **more: Any) -> bytes:
    """A question about one person."""
    return json.dumps({"people": [person], **more}).encode()


# ---------------------------------------------------------------- load


def load(port: int, path: str, people: list[dict[str, Any]], clients: int, seconds: float) -> dict[str, Any]:
    """So many clients that ask one question after the other: how many were answered, and how long each took."""
    times: list[float] = []
    statuses: Counter[int] = Counter()
    bodies = itertools.cycle([asked(person) for person in people])

    async def client(end: float) -> None:
        connection = Connection(port)
        while (started := time.perf_counter()) < end:
            status, _ = await connection.send(post(path, next(bodies)))
            times.append(time.perf_counter() - started)
            statuses[status] += 1
        connection.close()

    async def all_of_them() -> None:
        end = time.perf_counter() + seconds
        await asyncio.gather(*(client(end) for _ in range(clients)))

    before, started = metrics(port), time.perf_counter()
    asyncio.run(all_of_them())
    spent, after = time.perf_counter() - started, metrics(port)
    p50, p95, p99 = (1000 * np.quantile(times, [0.5, 0.95, 0.99])).tolist()
    cpu, memory = "process_cpu_seconds_total", "process_resident_memory_bytes"
    return {
        "path": path, "clients": clients, "seconds": spent, "requests": len(times), "rate": len(times) / spent,
        "cpu_ms": 1000 * (after[cpu] - before[cpu]) / len(times), "p50": p50, "p95": p95, "p99": p99,
        "errors": len(times) - statuses[200], "memory": (before[memory] / 2**20, after[memory] / 2**20),
    }  # fmt: skip


def metrics(port: int) -> dict[str, float]:
    """The service's own metrics without labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.split(" ") for line in lines if " " in line and "{" not in line and line[0] != "#")}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        people = lender(folder)
        with service(folder) as (process, port):
            for path in ("certify", "explain"):
                for n in CLIENTS:
                    print(load(port, f"/{path}", people[path], n, given.seconds), flush=True)
