"""CPU time of competing functions, measured so that a busy machine does not tilt the ratio between them.

Time is the process's own (`time.process_time`), the contestants take turns, and the best of many turns counts: what
other processes do to caches and clock rates only ever adds time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

# A turn repeats its function until it takes about this long, so that the clock's own grain does not show.
_TURN = 0.01


def race(
    contestants: Mapping[str, Callable[[], object]], *, rounds: int, patience: float
) -> dict[str, float]:
    """Best seconds of one call of each; rounds stop early once `patience` seconds are spent.

    The call that warms up a slow function (longer than `patience`) is the only one it gets.
    """
    best = {name: cpu_seconds(run) for name, run in contestants.items()}
    repeats = {
        name: max(1, math.ceil(_TURN / max(seconds, 1e-9))) for name, seconds in best.items()
    }
    entered = [name for name, seconds in best.items() if seconds < patience]
    spent = 0.0
    for _ in range(rounds):
        for name in entered:
            seconds = cpu_seconds(contestants[name], repeats[name])
            best[name] = min(best[name], seconds)
            spent += seconds * repeats[name]
        if spent > patience:
            break
    return best


def cpu_seconds(run: Callable[[], object], repeats: int = 1) -> float:
    """CPU seconds of one call, from `repeats` calls in a row."""
    start = time.process_time()
    for _ in range(repeats):
        run()
    return (time.process_time() - start) / repeats
