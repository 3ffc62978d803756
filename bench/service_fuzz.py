"""Requests made from the service's own OpenAPI document, with the ledger on: no 500, none longer than --max-seconds.

    python -m venv fuzz-env && fuzz-env/bin/pip install schemathesis
    python bench/service_fuzz.py --schemathesis fuzz-env/bin/schemathesis

schemathesis is a client in a process and an environment of its own. It asks with the advisor's token and with the
auditor's. Status and time of each request come from the log of the service; the time is by the clock. Between runs a
real person is advised, so that the ledger has promises to audit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import service as served

SECONDS = 2.0
TOKENS = {"advise": "advisors of the bench", "audit": "auditors of the bench"}
PATHS = {"advise": ["/certify", "/explain"], "audit": ["/audit"]}


def lines(folder: Path) -> list[dict[str, Any]]:
    """What the service logged about requests so far."""
    said = map(json.loads, (folder / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return [line for line in said if "path" in line]


def fuzzed(folder: Path, schemathesis: Path, people: list[dict[str, Any]], count: int) -> int:
    """Ask until enough requests are answered; the number of promises in the ledger."""
    seed = 0
    options = ["--ledger", "fuzz.ledger", "--max-seconds", str(SECONDS)]
    for role, option in (("advise", "--token-file"), ("audit", "--audit-token-file")):
        (folder / role).write_text(TOKENS[role], encoding="utf-8")
        options += [option, role]
    with served.service(folder, *options) as (_, port):
        url = f"http://127.0.0.1:{port}"
        while len(lines(folder)) < count:
            for role in TOKENS:
                subprocess.run(
                    [
                        str(schemathesis), "run", f"{url}/openapi.json", "-H", f"Authorization: Bearer {TOKENS[role]}",
                        "--checks", "not_a_server_error", "--max-examples", "500", "--continue-on-failure",
                        "--phases", "examples,coverage,fuzzing", "--seed", str(seed), "--no-shrink", "--no-color",
                        "--request-timeout", "60", "--generation-database", "none",
                        *(part for path in PATHS[role] for part in ("--include-path", path)),
                    ],
                    stdout=(folder / "client.txt").open("a"), check=False, cwd=folder,
                )  # fmt: skip
            good = served.post(
                "/explain",
                served.asked(people[seed % len(people)], keys=[f"=P-{seed}"]),
                more=f"authorization: Bearer {TOKENS['advise']}\r\n",
            )
            served.asyncio.run(served.Connection(port).send(good))
            seed += 1
            print(seed, len(lines(folder)), flush=True)
    with served.hf.Ledger(folder / "fuzz.ledger", create=False) as ledger:
        assert ledger.verify(recheck=True).intact
        return len(ledger)


def main() -> None:
    """Ask, count, and fail where an answer is a 500 or took too long."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--schemathesis", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        people = served.lender(folder)["explain"]
        promises = fuzzed(folder, given.schemathesis, people, given.requests)
        asked = lines(folder)
        for path in sorted({line["path"] for line in asked}):
            own = [line for line in asked if line["path"] == path]
            statuses = dict(sorted(Counter(line["status"] for line in own).items()))
            print(path, statuses, f"longest {max(line['seconds'] for line in own):.3f} s")
        longest = max(line["seconds"] for line in asked)
        errors = [line for line in asked if line["status"] in (0, 500)]
        print(f"{len(asked)} requests, {promises} promises, longest {longest:.3f} s of {SECONDS:g}")
        if errors or longest > SECONDS:
            raise SystemExit(f"something is wrong: {errors[:5]}, {longest} s")


if __name__ == "__main__":
    main()
