"""``holdfast demo``: loan applicants, the advice they were given, and how much of it survives retraining."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from holdfast.cli.demo import pages
from holdfast.cli.demo.figure import draw
from holdfast.cli.demo.recourse import find_advice, report_advice, show_advice
from holdfast.cli.demo.story import examine, make_promises, pick_broken, train_lender, watch_updates


def run_demo(out: Path, *, applicants: int, promises: int, delta: float | None, seed: int) -> None:
    """Tell the story on stdout, and leave the picture, the report, the network and the promises in the folder `out`.

    Without a delta the one that the lender's own updates calibrate.
    """
    started = time.perf_counter()
    console = Console(highlight=False)
    lender = train_lender(applicants, seed)
    pages.show_lender(console, lender)
    updates = watch_updates(lender, seed)
    pages.show_updates(console, updates, delta)
    delta = updates.delta if delta is None else delta
    advice = make_promises(lender, promises)
    findings = examine(lender, advice, updates, delta)
    pages.show_verdicts(console, lender, advice, findings)
    broken = pick_broken(advice, findings)
    if broken is not None:
        pages.show_broken(console, lender, advice, findings, broken)
    show_advice(console, find_advice(lender, advice, delta), delta)
    out.mkdir(parents=True, exist_ok=True)
    draw(findings, out / "demo.png")
    report_advice(lender, advice, updates, delta, out / "report.html")
    lender.network.save(out / "model.npz")
    lender.variables_frame(advice.after).to_csv(out / "promises.csv")
    pages.show_files(console, out, delta, time.perf_counter() - started)
