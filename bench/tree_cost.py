"""What `certify` costs on trees, in the library's own one-thread passes; a million rows; RNCE of many people."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import xgboost

import holdfast as hf
from report import Table
from tree_cases import LIBRARIES, SIZES, TABLES, World, fitted, world

FIT, MILLION = 8000, 1_000_000


def _codes(here: World, rows: int) -> tuple[Any, Any]:
    """Rows of a table as numbers, drawn with repetition: what both sides read; and whether they were accepted."""
    frame = here.frame.copy()
    for column in frame.select_dtypes("category"):
        frame[column] = frame[column].cat.codes.astype(float)
    drawn = np.random.default_rng(0).integers(0, len(frame), rows)
    return np.ascontiguousarray(frame.to_numpy(dtype=np.float64)[drawn]), here.y[drawn]


def _own_pass(model: Any, array: Any) -> Any:
    if isinstance(model, xgboost.XGBClassifier):
        return model.get_booster().inplace_predict(
            array, predict_type="margin", validate_features=False
        )
    return model.booster_.predict(array, raw_score=True, num_threads=1)


def _asked(model: Any, array: Any) -> dict[str, Any]:
    spread = np.std(array, axis=0)
    each = {str(i): 0.01 * float(size) for i, size in enumerate(spread)}
    kinds = {
        "leaves": hf.TreeChanges(leaves=0.001),
        "thresholds": hf.TreeChanges(leaves=0.001, thresholds=each),
    }
    return {
        kind: partial(hf.prepare(model, changes).certify, array, 1)
        for kind, changes in kinds.items()
    }


def timed(model: Any, array: Any, repeats: int) -> dict[str, float]:
    """Best seconds of the library's own pass and of both kinds of certify, interleaved."""
    works = {"own": partial(_own_pass, model, array), **_asked(model, array)}
    taken = dict.fromkeys(works, np.inf)
    for _ in range(repeats):
        for name, work in works.items():
            start = time.process_time()
            work()
            taken[name] = min(taken[name], time.process_time() - start)
    return taken


def passes(rows: int, repeats: int) -> Table:
    """A line for each table, library and size; then a million rows in a process of their own."""
    lines = []
    for name, library in product(TABLES, LIBRARIES):
        here = world(name)
        array, y = _codes(here, rows)
        for trees, depth in SIZES:
            model = fitted(library, array[:FIT], y[:FIT], trees, depth)
            taken = timed(model, array, repeats)
            own = taken["own"]
            lines.append(
                [
                    f"{name}, {library}, {trees} x {depth}", f"{rows:,}", f"{own:.3f}",
                    *(f"{taken[kind] / own:.2f}" for kind in ("leaves", "thresholds")), "-",
                ]
            )  # fmt: skip
    for library in LIBRARIES:
        command = [sys.executable, __file__, library, str(MILLION if repeats > 1 else 10 * rows)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        lines.append(run.stdout.strip().split("|"))
    note = (
        "Passes: processor seconds of `certify` over those of the library's own prediction of the same rows in "
        "one thread, both the best of several, in turns. The aims are 2 for leaf radii alone, and 8 for thresholds "
        "that move by a hundredth of their column's standard deviation. Peak: the additional memory of a process "
        "that certifies, with rows and model already in memory."
    )
    columns = [
        "table, library, trees x depth",
        "rows",
        "own pass, s",
        "leaves: passes",
        "thresholds: passes",
        "peak",
    ]
    return Table("certify, in passes of the library's own prediction", columns, lines, note)


def _million(library: str, rows: int) -> str:
    here = world("heloc")
    array, y = _codes(here, rows)
    model = fitted(library, array[:FIT], y[:FIT], 100, 6)
    _own_pass(model, array[:1000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    works = _asked(model, array)
    works["leaves"]()
    works["thresholds"]()
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    taken = timed(model, array, 1)
    shares = "|".join(f"{taken[kind] / taken['own']:.2f}" for kind in ("leaves", "thresholds"))
    return f"heloc, {library}, 100 x 6|{rows:,}|{taken['own']:.3f}|{shares}|{peak:,.0f} MB"


def nearest(people: int) -> Table:
    """`RNCE` under leaf radii, the whole table to choose from."""
    lines = []
    for name, library in product(TABLES, LIBRARIES):
        here = world(name)
        model = fitted(library, *here.part(slice(FIT)), 100, 4)
        rows = here.frame.head(FIT)
        denied = here.frame.iloc[FIT:]
        denied = denied[model.predict(denied) == 0].head(people)
        changes = hf.TreeChanges(leaves=0.001)
        options: dict[str, Any] = {"target": 1, "changes": changes, "space": here.space}
        start = time.process_time()
        found = hf.explain(model, denied, generator=hf.RNCE(rows), **options)
        spent = time.process_time() - start
        lines.append(
            [
                f"{name}, {library}, 100 x 4", f"{len(denied):,}", f"{len(rows):,}", f"{spent:.2f}",
                f"{found.found.mean():.1%}",
            ]
        )  # fmt: skip
    note = (
        "The whole of `explain`, with reading the model and certifying all advice. The aim is 2 s for "
        "1,000 people."
    )
    columns = [
        "table, library, trees x depth",
        "people",
        "rows to choose from",
        "seconds",
        "answered",
    ]
    return Table("RNCE", columns, lines, note)


if __name__ == "__main__":
    print(_million(sys.argv[1], int(sys.argv[2])))
