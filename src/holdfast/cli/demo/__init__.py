"""``holdfast demo``: advice to loan applicants, and which of it is proven to outlast the next model update."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pandas as pd

import holdfast as hf
from holdfast.cli.demo import _pages as pages
from holdfast.cli.demo._lender import pick_broken, rounded_up, train_lender, watch_updates
from holdfast.presentation.pictures._drawing import new_figure

SECONDS_EACH = 5.0
# Applicants whose advice is printed.
SHOWN = 4


def run_demo(out: Path, *, applicants: int, promises: int, delta: float | None, seed: int) -> None:
    """Tell the story on stdout, and leave the picture, the report, the network and the advice in the folder `out`.

    Without a delta, the lender's own updates calibrate it.
    """
    started = time.perf_counter()
    lender = train_lender(applicants, seed)
    pages.show_lender(lender)
    calibrated = watch_updates(lender, seed)
    measured = rounded_up(float(calibrated))
    pages.show_updates(calibrated, measured, delta)
    delta = measured if delta is None else delta
    people = lender.rejected(promises)
    advise = partial(
        hf.explain, lender.pipeline, people, target=1, changes=hf.PlausibleChanges(delta), space=lender.space(),
        time_limit=SECONDS_EACH, progress=False,
    )  # fmt: skip
    cheapest = advise(generator=hf.MCE())
    pages.show_cheapest(cheapest, delta)
    broken = pick_broken(cheapest)
    if broken is not None:
        pages.show_broken(lender, cheapest, broken)
    robust = advise(generator=hf.Closest(), data=lender.applicants)
    pages.show_robust(robust, cheapest, SHOWN)
    out.mkdir(parents=True, exist_ok=True)
    # The same people twice: each dot is today, each line goes down to the worst model in Δ.
    figure = new_figure("the demo's picture", (13.5, 5.2), w_pad=0.15, h_pad=0.1, wspace=0.04)
    for advice, ax, name in zip(
        (cheapest, robust), figure.subplots(1, 2, sharey=True), ("Cheapest", "Robust"), strict=True
    ):
        if advice.certificates is not None and advice.found.any():
            advice.certificates.plot(ax)
        ax.set_title(
            f"{name} advice: {advice.robust.sum()} of {advice.found.sum()} proven", loc="left"
        )
    figure.savefig(out / "demo.png", dpi=150)
    hf.report(
        robust, out / "report.html", title="Advice to rejected loan applicants", name="robust advice",
        outcome="a loan", others={"cheapest advice": cheapest}, calibrated=calibrated, progress=False,
    )  # fmt: skip
    lender.network.save(out / "model.npz")
    found = cheapest.answered
    variables = pd.DataFrame(
        cheapest.points[found], index=people.index[found], columns=lender.variable_names()
    )
    variables.to_csv(out / "promises.csv")
    pages.show_files(out, delta, time.perf_counter() - started)
