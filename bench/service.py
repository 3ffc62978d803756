"""The service under load, under nonsense, and killed: requests a second, no 500, no promise lost.

    python bench/service.py --priority -10 --out docs/benchmarks-service.md     # 60 seconds for each number of clients
    python bench/service.py --seconds 5 --malformed 2000 --kills 3

The service is a process of its own, `holdfast serve`, kept to one core; the clients are another, kept to another core
where there is one, and speak HTTP/1.1 over connections that stay open. Everything goes to 127.0.0.1, is bounded in
count and time, and stops by itself. The model is a network of two hidden layers of 20 on the heloc table, delta 0.005;
a request is about one person of the table, for `explain` one that the model turns down, with 5,000 rows as candidates.
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
import textwrap
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
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
    clf = MLPClassifier((20, 20), max_iter=200, random_state=0).fit(
        data.space.encode(table), data.y
    )
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
    files = "--model model.npz --schema space.json --candidates candidates.csv --port 0"
    asked = f"--target 1 --delta {DELTA}"
    command = [sys.executable, "-m", "holdfast", "serve", *files.split(), *asked.split(), *options]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
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
                raise SystemExit(
                    f"expected an address, got {line!r}: {(folder / 'log.jsonl').read_text()}"
                )
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
    length = f"{more}content-length: {len(body)}\r\n\r\n"
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\n{length}"
    return head.encode("latin-1", "replace") + body


def asked(person: dict[str, Any], **more: Any) -> bytes:
    """A question about one person."""
    return json.dumps({"people": [person], **more}).encode()


# ---------------------------------------------------------------- load


def load(
    port: int, path: str, people: list[dict[str, Any]], clients: int, seconds: float
) -> dict[str, Any]:
    """Clients that ask one question after the other: the number of answers, and the time of each."""
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
    return {
        name: float(value)
        for name, value in (
            line.split(" ") for line in lines if " " in line and "{" not in line and line[0] != "#"
        )
    }


# ---------------------------------------------------------------- nonsense

JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 10**400, 2**53 + 1, 1e308, -1e308, "", "x" * 5000, "\ud800", "\x00", "NaN", "' OR 1=1 --",
    [], {}, [[]], [None], {"a": {"b": []}}, [1, "a", {}], "2026-02-30", "\u202e\U0001f600",
)  # fmt: skip
TEXTS = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
    "9" * 5000,
    "0" * 400 + "1",
    "1e-999999999",
    "0x10",
    "1_0",
    "'a'",
)
KINDS = (
    "text/plain",
    "application/xml",
    "multipart/form-data",
    "",
    "application/jsonp",
    "\u00e9",
    "application/x-www-form-urlencoded",
)


def nonsense(rng: random.Random, person: dict[str, Any]) -> tuple[str, bytes]:
    """A request that is wrong somewhere: what is wrong with it, and its bytes."""
    path = rng.choice(["/certify", "/explain", "/audit"])
    good = {"people": [person], "keys": ["A-1"], "target": 1, "time_limit": 1.0}
    text, name = json.dumps(good), rng.choice(list(person))
    how = rng.choice(
        [
            "broken",
            "bytes",
            "type",
            "number",
            "nested",
            "column",
            "twice",
            "kind",
            "chunked",
            "large",
            "path",
            "http",
            "network",
        ]
    )
    if how == "broken":
        return how, post(path, text[: rng.randrange(len(text))].encode())
    if how == "bytes":
        body = bytearray(text.encode())
        for _ in range(rng.randint(1, 8)):
            body[rng.randrange(len(body))] = rng.randrange(256)
        return how, post(path, bytes(body))
    if how == "type":
        place, junk = (
            rng.choice([(good, field) for field in good] + [(person, name)] * 3),
            rng.choice(JUNK),
        )
        other = (
            {**good, "people": [{**person, name: junk}]}
            if place[0] is person
            else {**good, place[1]: junk}
        )
        return how, post(path, json.dumps(other).encode())
    if how == "number":
        return how, post(
            path,
            json.dumps({**good, "people": [{**person, name: "@"}]})
            .replace('"@"', rng.choice(TEXTS))
            .encode(),
        )
    if how == "nested":
        depth, (left, right) = rng.choice([50, 5_000, 100_000]), rng.choice(["[]", ('{"a":', "}")])
        return how, post(path, (left * depth + "1" + right * rng.choice([0, depth])).encode())
    if how == "column":
        fewer = {key: value for key, value in person.items() if key != name or rng.random() < 0.3}
        return how, post(
            path,
            json.dumps(
                {**good, "people": [{**fewer, rng.choice([name + " ", "", "id"]): 1}]}
            ).encode(),
        )
    if how == "twice":
        return how, post(
            path,
            text.replace(
                "{", f'{{"{rng.choice(["target", name])}": 1, ', rng.choice([1, 2])
            ).encode(),
        )
    if how == "kind":
        return how, post(path, text.encode(), rng.choice(KINDS))
    if how == "chunked":
        size = rng.choice([b"5", b"zz", b"-1", b"ffffffffff", b"0"])
        head = post(path, b"", more="transfer-encoding: chunked\r\n")
        head = head.replace(b"content-length: 0\r\n", b"")
        return how, head + size + b'\r\n{"a":\r\n0\r\n\r\n'
    if how == "large":
        many = json.dumps({**good, "people": [person] * rng.choice([1001, 5000])}).encode()
        return how, rng.choice(
            [post(path, many), post(path, b"", more="content-length: 99999999999\r\n")]
        )
    if how == "path":
        verb, where = (
            rng.choice(["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"]),
            rng.choice([path, "/../etc", "//", "/%00", "/é"]),
        )
        return how, post(where, text.encode()).replace(b"POST", verb.encode(), 1)
    if how == "network":
        tiny: dict[str, Any] = {"weights": [[[1.0]]], "biases": [[0.0]]}
        junk = rng.choice(JUNK)
        odd = [
            junk,
            tiny,
            {**tiny, "weights": junk},
            {**tiny, "biases": junk},
            {**tiny, "classes": junk},
        ]
        return how, post("/audit", json.dumps({"network": rng.choice(odd)}).encode())
    odd_bytes = [
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\r\n\r\n",
        rng.randbytes(60) + b"\r\n\r\n",
        b"POST /certify HTTP/9.9\r\n\r\n",
        post(path, text.encode(), more="content-length: 3\r\n"),
        post(path, text.encode(), more="x" * 70_000 + ": 1\r\n"),
    ]
    return how, rng.choice(odd_bytes)


def malformed(
    port: int, people: list[dict[str, Any]], count: int, slow: int = 8
) -> tuple[Counter[tuple[str, int]], list[str]]:
    """Send malformed requests, some of which stop half way: the answers to each kind, and wrong ones."""
    rng, answers, wrong = random.Random(0), Counter[tuple[str, int]](), list[str]()

    async def one(connection: Connection, how: str, request: bytes) -> None:
        try:
            status, body = await asyncio.wait_for(connection.send(request), 30)
        except TimeoutError:
            status, body = 0, b""
            connection.close()
        answers[how, status] += 1
        # A server may hang up on what is no HTTP; whoever speaks it gets an answer, and never a 500.
        if status == 500 or (status == 0 and how not in ("http", "chunked")):
            wrong.append(f"{how}: {status} for {request[:300]!r}")
        if status == 422 and "error" not in json.loads(body):
            wrong.append(f"{how}: no reason in {body!r}")

    async def client(requests: list[tuple[str, bytes]]) -> None:
        connection = Connection(port)
        for how, request in requests:
            await one(connection, how, request)
            if how in ("http", "chunked", "large", "path"):
                connection.close()
        connection.close()

    async def all_of_them() -> None:
        requests = [nonsense(rng, rng.choice(people)) for _ in range(count - slow)]
        half = [("slow", post("/certify", asked(people[0]))[:-20])] * slow
        await asyncio.gather(
            *(client(requests[i::4]) for i in range(4)), *(client([one]) for one in half)
        )

    asyncio.run(all_of_them())
    status, _ = asyncio.run(Connection(port).send(post("/certify", asked(people[0]))))
    return answers, wrong + [f"afterwards a good request got {status}"] * (status != 200)


# ---------------------------------------------------------------- killed


def killed(
    folder: Path, people: list[dict[str, Any]], kills: int, seconds: float
) -> dict[str, int]:
    """Eight clients who are promised something, while the service is killed and started again; what the ledger has."""
    rng, promised, refused = random.Random(1), dict[str, dict[str, Any]](), Counter[int]()
    numbers = itertools.count()

    async def client(port: int, end: float) -> None:
        connection = Connection(port)
        while time.perf_counter() < end:
            number = next(numbers)
            key = f"person {number}"
            status, body = await connection.send(
                post("/explain", asked(people[number % len(people)], keys=[key]))
            )
            if status == 0:
                break
            refused[status] += status != 200
            answer = json.loads(body)["people"][0] if status == 200 else {}
            if answer.get("found"):
                promised[key] = answer
        connection.close()

    async def until_killed(process: subprocess.Popen[str], port: int, after: float) -> None:
        clients = [
            asyncio.create_task(client(port, time.perf_counter() + after + 30)) for _ in range(8)
        ]
        await asyncio.sleep(after)
        process.send_signal(signal.SIGKILL)
        await asyncio.gather(*clients)

    for _ in range(kills):
        with service(folder, "--ledger", "promises.ledger") as (process, port):
            asyncio.run(until_killed(process, port, seconds * rng.uniform(0.5, 1.5)))
    with hf.Ledger(folder / "promises.ledger", create=False) as ledger:
        assert ledger.verify().intact
        recorded = {
            json.loads(key) if key.startswith('"') else key: row
            for part in ledger.promises()
            for key, row in zip(part.keys, part.counterfactuals.to_dict("records"), strict=True)
        }
    lost = [key for key in promised if key not in recorded]
    other = [
        key
        for key in promised
        if key in recorded and recorded[key] != promised[key]["counterfactual"]
    ]
    return {
        "kills": kills,
        "promised": len(promised),
        "recorded": len(recorded),
        "lost": len(lost),
        "different": len(other),
        "refused": sum(refused.values()),
    }


# ---------------------------------------------------------------- the page


def report(
    command: str,
    loads: list[dict[str, Any]],
    answers: Counter[tuple[str, int]],
    wrong: list[str],
    fate: dict[str, int],
) -> str:
    """What was measured, as a page."""
    text = partial(textwrap.fill, width=118)
    names = ("path", "clients", "requests", "a second", "p50 ms", "p95 ms", "p99 ms")
    names += ("processor ms each", "not 200", "MiB before", "MiB after")
    lines = [
        "# The service, measured",
        "",
        f"Written by `python {command}`.",
        "",
        "## Under load",
        "",
        text(
            "One process on one core, clients in another. A request is about one person of heloc (21 columns), a "
            "network of two hidden layers of 20, delta 0.005; `explain` is RNCE over 5,000 candidates. Seconds are by "
            f"the clock, {loads[0]['seconds']:.0f} for each line, on a machine of "
            f"{os.cpu_count()} cores that other work shares (load average "
            f"{os.getloadavg()[0]:.1f} at the end); the processor time of a request is what a quiet core needs for it."
        ),
        "",
        f"| {' | '.join(names)} |",
        "|---" * len(names) + "|",
    ]
    for one in loads:
        times = " | ".join(f"{one[name]:.1f}" for name in ("rate", "p50", "p95", "p99"))
        memory = " | ".join(f"{size:.0f}" for size in one["memory"])
        lines.append(
            f"| `{one['path']}` | {one['clients']} | {one['requests']:,} | {times} | {one['cpu_ms']:.2f} | "
            f"{one['errors']} | {memory} |"
        )
    failed = sum(count for (_, code), count in answers.items() if code == 500)
    lines += [
        "",
        "## Malformed requests",
        "",
        text(
            f"{failed} of {sum(answers.values()):,} malformed requests got the status 500. Status 0: the server closed "
            "a connection that is not HTTP. Status 200: the request is valid after all, for example with another "
            "number. Status 503: an audit during another audit, or of a ledger without promises."
        ),
        "",
        "| what is wrong | answers |",
        "|---|---|",
    ]
    for how in sorted({how for how, _ in answers}):
        counts = sorted((code, n) for (kind, code), n in answers.items() if kind == how)
        lines.append(f"| {how} | {', '.join(f'{code}: {n:,}' for code, n in counts)} |")
    lines += [
        "",
        "## Killed",
        "",
        text(
            "Eight clients ask `/explain` of a service that writes to a ledger; it is killed with SIGKILL "
            f"{fate['kills']} times at random moments and started again. {fate['promised']:,} promises were answered, "
            f"and {fate['recorded']:,} are in the ledger, whose chain is intact. Of the answered promises "
            f"{fate['lost']} are lost and {fate['different']} differ. A kill can cut off the answer after a promise is "
            "recorded; if the client repeats the request on the same day, the promise is not recorded twice."
        ),
        "",
    ]
    return "\n".join([*lines, *(f"WRONG: {line}" for line in wrong)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="for each number of clients")
    parser.add_argument(
        "--priority",
        type=int,
        default=0,
        help="of service and clients, as nice has it, while they are measured",
    )
    parser.add_argument("--malformed", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        people = lender(folder)
        autogroup = Path("/proc/self/autogroup")
        if given.priority:
            os.setsid()
            autogroup.write_text(str(given.priority))
        with service(folder) as (_, port):
            loads = []
            for path, clients in itertools.product(("certify", "explain"), CLIENTS):
                loads.append(load(port, f"/{path}", people[path], clients, given.seconds))
                print(loads[-1], flush=True)
        if given.priority:
            autogroup.write_text("0")
        (folder / "auditor").write_text("auditors of the bench", encoding="utf-8")
        options = "--ledger nonsense.ledger --audit-token-file auditor --max-seconds 2"
        with service(folder, *options.split()) as (_, port):
            answers, wrong = malformed(port, people["explain"], given.malformed)
            print(answers, wrong[:5], flush=True)
        fate = killed(folder, people["explain"], given.kills, 3.0)
        print(fate)
        page = report(" ".join(sys.argv), loads, answers, wrong, fate)
    if given.out is not None:
        given.out.write_text(page, encoding="utf-8")
    print(page)
    if wrong or fate["lost"] or fate["different"] or any(one["errors"] for one in loads):
        raise SystemExit("something is wrong: see above")


if __name__ == "__main__":
    main()
