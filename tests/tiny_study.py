"""A study that takes a second, and how to run it in a process that is killed on the way.

As a script: ``python tiny_study.py FOLDER [N]`` runs it, and with N the process kills itself, as kill -9 would, in the
middle of writing its N-th file.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from pathlib import Path

from sklearn.neural_network import MLPClassifier

from holdfast import FeatureSpace
from holdfast import _files as files
from holdfast.datasets import make_loans
from holdfast.study import BenchmarkResult, benchmark

METHODS = ("nnce", "mce", "rnce")
DELTAS = (0.01, 0.05)
NET = MLPClassifier((8,), max_iter=40, learning_rate_init=0.02)


def loans(n: int = 300):
    """A table of one's own: people, labels, what can change."""
    people = make_loans(n)[["income", "debt", "savings", "age", "accepted"]]
    X, y = people.drop(columns="accepted"), people["accepted"]
    return (
        X,
        y,
        FeatureSpace.from_frame(
            X, immutable=["age"], free=["income", "debt", "savings"], steps={"income": 100}
        ),
    )


def run(out=None, **options) -> BenchmarkResult:
    """The study; any part of it can be another."""
    whole = {
        "models": {"net": NET},
        "methods": METHODS,
        "deltas": DELTAS,
        "seeds": 2,
        "inputs": 4,
        "retrained": {"complete": 1, "leave_one_out": 1, "incremental": 1},
        "out": out,
        "progress": False,
    }
    return benchmark(options.pop("datasets", {"loans": loans()}), **whole | options)


def kill_in_the_middle_of_file(number: int) -> None:
    """Write half of that file, then die without a word."""
    written, rename = 0, os.replace

    def replace(partial, target):
        nonlocal written
        written += 1
        if written == number:
            content = Path(partial).read_bytes()
            Path(partial).write_bytes(content[: len(content) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        rename(partial, target)

    files.os.replace = replace


if __name__ == "__main__":
    warnings.simplefilter("error")
    if len(sys.argv) > 2:
        kill_in_the_middle_of_file(int(sys.argv[2]))
    run(sys.argv[1])
