"""Counters of the service, in the text format of Prometheus; none is about a person."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

TEXT = "text/plain; version=0.0.4; charset=utf-8"
# Upper ends of the bins of response times, in seconds.
BINS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_HELP = {
    "holdfast_info": "gauge The service: its version and the hash of its model.",
    "holdfast_requests_total": "counter Requests by path and status.",
    "holdfast_request_seconds": "histogram Seconds from the first byte of a request to the last byte of its response.",
    "holdfast_people_total": "counter People in requests, by path and verdict; none: without advice.",
    "holdfast_promises_total": "counter Promises written to the ledger.",
    "holdfast_waiting": "gauge Requests that wait for their turn.",
    "process_cpu_seconds_total": "counter Processor seconds of this process, user and system.",
    "process_resident_memory_bytes": "gauge Memory of this process.",
    "process_start_time_seconds": "gauge Start of this process, in seconds since 1970.",
}


class Metrics:
    """Counters of one process; each worker has its own."""

    def __init__(self, **facts: str) -> None:
        self.started, self.facts = time.time(), facts
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds: Counter[str] = Counter()
        self.bins: Counter[tuple[str, float]] = Counter()
        self.people: Counter[tuple[str, str]] = Counter()
        self.promises = 0

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a response."""
        self.requests[path, status] += 1
        self.seconds[path] += seconds  # type: ignore[assignment]  # seconds are not whole numbers, but add up
        self.bins[path, next((end for end in BINS if seconds <= end), float("inf"))] += 1

    def said(self, path: str, answer: Mapping[str, Any]) -> None:
        """Count the people and promises of a response."""
        for person in answer.get("people", ()):
            self.people[path, person.get("verdict", "none")] += 1
        self.promises += answer.get("ledger", {}).get("added", 0)

    def text(self, waiting: int) -> str:
        """The counters as Prometheus reads them."""
        lines: dict[str, list[str]] = {name: [] for name in _HELP}
        for name, value in self._values(waiting):
            family = name.partition("{")[0]
            family = family if family in lines else family.rpartition("_")[0]
            lines[family].append(f"{name} {value}")
        parts = []
        for family, help_text in _HELP.items():
            kind, _, words = help_text.partition(" ")
            parts += [f"# HELP {family} {words}", f"# TYPE {family} {kind}", *lines[family]]
        return "\n".join(parts) + "\n"

    def _values(self, waiting: int) -> Iterator[tuple[str, float]]:
        yield f"holdfast_info{{{_labels(**self.facts)}}}", 1
        for (path, status), count in sorted(self.requests.items()):
            yield f"holdfast_requests_total{{{_labels(path=path, status=status)}}}", count
        for path in sorted(self.seconds):
            below = 0
            for end in (*BINS, float("inf")):
                below += self.bins[path, end]
                le = "+Inf" if end == float("inf") else f"{end:g}"
                yield f"holdfast_request_seconds_bucket{{{_labels(path=path, le=le)}}}", below
            yield f"holdfast_request_seconds_sum{{{_labels(path=path)}}}", self.seconds[path]
            yield f"holdfast_request_seconds_count{{{_labels(path=path)}}}", below
        for (path, verdict), count in sorted(self.people.items()):
            yield f"holdfast_people_total{{{_labels(path=path, verdict=verdict)}}}", count
        yield "holdfast_promises_total", self.promises
        yield "holdfast_waiting", waiting
        used = os.times()
        yield "process_cpu_seconds_total", round(used.user + used.system, 3)
        yield "process_resident_memory_bytes", resident_memory()
        yield "process_start_time_seconds", round(self.started, 3)


def resident_memory() -> int:
    """Bytes of memory of this process; 0 if the system does not report them."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _labels(**labels: object) -> str:
    """Labels as Prometheus writes them; ours have no quotes."""
    return ",".join(f'{name}="{value}"' for name, value in labels.items())
