"""A million promises: writing, verifying, auditing and erasing them; writers that are killed; files that are forged.

    python bench/ledger.py --out docs/benchmarks-ledger.md

The promises are rows of the heloc table, sampled until there are enough. Seconds are CPU seconds, user and system, of a
process forked for each step, next to those of a plain forward pass over the same points; the peak of its memory is what
the operating system counted for it. The kills are of real processes, by SIGKILL, at random moments. A forged file is a
small ledger, with erasures in it, in which one thing was changed by someone who knows how it is built.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sqlite3
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
from holdfast.promises._pages import ERASED, Page

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


def fill(
    path: Path, n: int, network: hf.Network, space: hf.FeatureSpace, accepted: pd.DataFrame
) -> dict[str, Any]:
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


def forward(
    network: hf.Network, space: hf.FeatureSpace, accepted: pd.DataFrame, n: int
) -> dict[str, Any]:
    """One pass over as many points, already in memory: the best of five."""
    points = space.encode(accepted)[np.random.default_rng(0).integers(0, len(accepted), n)]
    best = np.inf
    for _ in range(5):
        started = time.process_time()
        network.predict_index(points)
        best = min(best, time.process_time() - started)
    return {"seconds": best}


def audited(
    path: Path, model: object, *, times: int = 3, contacts: bool = False, **options: Any
) -> dict[str, Any]:
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
    return {
        "seconds": best,
        "totals": totals,
        "inside": group.inside,
        "how": group.how or group.why_not,
    }


def found(path: Path, n: int) -> dict[str, Any]:
    """Twenty people's promises, one by one."""
    with Ledger(path) as ledger:
        started = time.process_time()
        rows = sum(len(ledger.find(f"person-{i}")) for i in range(0, n, max(1, n // 20)))
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
    for turn in range(times):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            with Ledger(path) as ledger:
                while True:
                    receipt = ledger.add_frame(
                        network, batch, batch, target=1, changes=hf.PlausibleChanges(DELTA), space=space, radius=False,
                        keys=[f"{len(ledger)}-{i}" for i in range(len(batch))],
                    )  # fmt: skip
                    os.write(writing, receipt.total.to_bytes(8, "little"))
        os.close(writing)
        # Three of four are killed at work, however slow the machine is; the others while they start.
        first = os.read(reading, 8) if turn % 4 else b""
        time.sleep(wait.uniform(0.0, 0.2))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as pipe:
            said = first + pipe.read()
        if said:
            committed = int.from_bytes(said[-8:], "little")
        during += Path(f"{path}-journal").exists()
        with Ledger(path) as ledger:
            count = len(ledger)
        if not committed <= count <= committed + len(batch) or count % len(batch):
            raise SystemExit(f"{count} promises where {committed} were committed")
        committed = count
    with Ledger(path) as ledger:
        return {
            "kills": times,
            "during": during,
            "promises": committed,
            "intact": ledger.verify().intact,
        }


def erased(path: Path, n: int) -> dict[str, Any]:
    """One person out of many."""
    with Ledger(path) as ledger:
        started = time.process_time()
        numbers = ledger.erase(f"person-{n // 2}")
        return {"seconds": time.process_time() - started, "rows": len(numbers)}


def killed_erasures(
    folder: Path, times: int, network: hf.Network, accepted: pd.DataFrame, **options: Any
) -> int:
    """Erase someone with promises in many pages, and be killed; returns how often nothing had happened yet."""
    path, wait, before = folder / "erased.ledger", random.Random(1), 0
    batch = accepted.head(20)
    for turn in range(times):
        person = f"p{turn}"
        with Ledger(path) as ledger:
            for day in range(20):
                ledger.add_frame(
                    network, batch, batch, target=1, radius=False, date=f"2026-11-{day + 1:02}",
                    keys=[person, *(f"{turn}-{i}" for i in range(19))], **options,
                )  # fmt: skip
        child = os.fork()
        if child == 0:
            with Ledger(path) as ledger:
                ledger.erase(person)
            os._exit(0)
        time.sleep(wait.uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with Ledger(path) as ledger:
            left, result = len(ledger.find(person)), ledger.verify()
            if left not in (0, 20) or not result.intact or result.erased % 20:
                raise SystemExit(f"{left} promises of 20 after a kill: {result}")
            before += left == 20
    return before


FIXED = {"targets": 2, "verdicts": 1, "radii": 8, "salts": 32}
LINES = ("keys", "factuals", "counterfactuals")


def forged(pages: list[Page], rng: random.Random) -> tuple[str, list[Page]]:
    """One thing changed: a value, a promise moved or exchanged, a page moved, cut out or put in, an erasure forged."""
    kind = rng.choice(
        [
            "value",
            "text",
            "column",
            "exchange",
            "blank",
            "restore",
            "note",
            "erasure",
            "page",
            "order",
        ]
    )
    place = rng.choice([i for i, page in enumerate(pages) if page.size])
    page, pages = pages[place], list(pages)
    row = rng.choice([i for i, verdict in enumerate(page.verdicts) if verdict != ERASED])
    if kind == "value":
        column = rng.choice([*FIXED, "points", "commitments", "hash", "reach"])
        content = bytearray(getattr(page, column))
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        pages[place] = page._replace(**{column: bytes(content)})
    elif kind == "text":
        column = rng.choice(LINES)
        content = list(getattr(page, column))
        content[rng.randrange(len(content))] = rng.choice("abcdefgh0123456789")
        pages[place] = page._replace(**{column: "".join(content)})
    elif kind == "column":
        pages[place] = page._replace(**rng.choice([
            {"date": "2020-01-01"}, {"size": page.size - 1}, {"first": page.first + 1}, {"terms": page.terms[::-1]},
            {"note": "x"}, {"keys": page.keys[:-1]}, {"points": page.points[:-8]}, {"salts": page.salts[:-32]},
        ]))  # fmt: skip
    elif kind == "exchange":
        source = rng.choice([one for one in pages if one.size])
        pages[place] = exchanged(page, row, source, rng.randrange(source.size))
    elif kind == "blank":
        pages[place] = page.blanked(np.array([row]))
    elif kind == "restore":
        gone = next(i for i, one in enumerate(pages) if ERASED in one.verdicts)
        blank = pages[gone].verdicts.index(ERASED)
        pages[gone] = exchanged(pages[gone], blank, page, row)
    elif kind == "note":
        place = next(i for i, one in enumerate(pages) if not one.size)
        pages[place] = pages[place]._replace(
            note=pages[place].note.replace("[", f"[{rng.randrange(1, 40)},")
        )
    elif kind == "erasure":
        last = pages[-1]
        made = Page.erasure([page.first + row], "00" * 8, "2026-11-17", "forged").linked(
            last.number + 1, last.first + last.size, rng.randbytes(32)
        )  # fmt: skip
        pages[place] = page.blanked(np.array([row]))
        pages.append(made)
    elif kind == "page":
        del pages[rng.randrange(len(pages) - 1)]
    else:
        first, second = rng.sample(range(len(pages)), 2)
        numbers = pages[first].number, pages[second].number
        pages[first], pages[second] = (
            pages[first]._replace(number=numbers[1]), pages[second]._replace(number=numbers[0]),
        )  # fmt: skip
    return kind, pages


def exchanged(page: Page, row: int, source: Page, other: int) -> Page:
    """The page with another promise in the place of one, its salt and its point as well."""
    changed: dict[str, Any] = {}
    for column in (*FIXED, "points"):
        mine, theirs = bytearray(getattr(page, column)), getattr(source, column)
        width = len(mine) // page.size
        mine[row * width : (row + 1) * width] = theirs[other * width : (other + 1) * width]
        changed[column] = bytes(mine)
    for column in LINES:
        lines = getattr(page, column).split("\n")
        lines[row] = getattr(source, column).split("\n")[other]
        changed[column] = "\n".join(lines)
    return page._replace(**changed)


def tampered(
    folder: Path, times: int, network: hf.Network, space: hf.FeatureSpace, accepted: pd.DataFrame
) -> dict[str, Any]:
    """Forge small ledgers, and count which forgeries `verify` does not see; what changes nothing is left out."""
    path, rng = folder / "forged.ledger", random.Random(2)
    with Ledger(path) as ledger:
        for i in range(4):
            batch = accepted.iloc[10 * i : 10 * i + 10]
            ledger.add_frame(
                network,
                batch,
                batch,
                target=1,
                space=space,
                radius=False,
                keys=[f"p{i}-{k}" for k in range(10)],
            )
            ledger.erase(f"p{i}-3", why="asked for")
    with sqlite3.connect(path) as connection:
        pages = [Page(*row) for row in connection.execute("SELECT * FROM pages ORDER BY number")]
    connection.close()
    marks, counts, seen, unseen = ", ".join("?" * len(Page._fields)), 0, 0, []
    started = time.process_time()
    with Ledger(path) as ledger, sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        while counts < times:
            kind, other = forged(pages, rng)
            if other == pages:
                continue
            connection.execute("BEGIN")
            connection.execute("DELETE FROM pages")
            connection.executemany(f"INSERT INTO pages VALUES ({marks})", other)
            connection.execute("COMMIT")
            counts += 1
            if ledger.verify().intact:
                unseen.append(kind)
            else:
                seen += 1
    return {
        "files": counts,
        "noticed": seen,
        "unseen": unseen,
        "seconds": time.process_time() - started,
    }


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--promises", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument(
        "--forged", type=int, default=10_000, help="how many files are tampered with"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=None,
        help="where the ledger goes; a temporary folder if not given",
    )
    parser.add_argument("--out", type=Path, default=None, help="the page to write")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        text = run(Path(temporary), options.promises, options.kills, options.forged)
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


def run(folder: Path, n: int, times: int, forgeries: int) -> str:
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
    rows.append(
        ("twenty people's promises, by key", found_rows, f"{found_rows['rows']:,} promises")
    )
    unfoldable = Model(
        outside, preprocess=new_space.encode, feature_names=tuple(map(str, space.names))
    )
    for name, work in {
        "audit inside Δ": lambda: audited(path, inside),
        "audit outside Δ": lambda: audited(path, outside),
        "audit outside Δ, and the list of whom to contact": lambda: audited(
            path, outside, contacts=True
        ),
        "audit of another build": lambda: audited(path, other),
        "audit, scaler refitted, inside Δ": lambda: audited(path, same, space=new_space),
        "audit, scaler refitted, outside Δ": lambda: audited(path, outside, space=new_space),
        "audit, threshold 0.5 to 0.6": lambda: audited(path, inside, threshold=0.6),
        "audit, preprocessing that no feature space describes": lambda: audited(
            path, unfoldable, times=1
        ),
    }.items():
        step = measured(work)
        print(name, step, flush=True)
        rows.append((name, step, ", ".join(f"{c:,} {s}" for s, c in step["totals"].items() if c)))
    killed = kills(folder, times, network, space, accepted)
    gone = measured(lambda: erased(path, n))
    rows.append(("one person erased", gone, f"{gone['rows']} promise"))
    unharmed = killed_erasures(
        folder, times, network, accepted, space=space, changes=hf.PlausibleChanges(DELTA)
    )
    forgery = tampered(folder, forgeries, network, space, accepted)
    print("forged", forgery, flush=True)
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
        f"none was lost, none was half written, and the chain is intact: {killed['intact']}. Of {times} erasures that "
        f"were killed {unharmed} left everything in its place and {times - unharmed} had erased all of it; none "
        "stopped half way.",
        "",
        f"{forgery['files']:,} ledgers were tampered with: a bit or a letter changed, promises exchanged within a page "
        "and between pages, blanked or put back after an erasure, erasures altered and forged, pages cut out and "
        "moved. "
        f"`verify` noticed {forgery['noticed']:,} of them.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
