"""``holdfast demo``: loan applicants, the advice they were given, and how much of it survives retraining."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pandas as pd

import holdfast as hf
from holdfast.cli.demo import _pages as pages
from holdfast.cli.demo._lender import (
    make_promises,
    pick_broken,
    rounded_up,
    train_lender,
    watch_updates,
)
from holdfast.generators._stated import recourse_from
from holdfast.presentation.pictures._drawing import new_figure

# For how many applicants the cheapest advice is looked for, and for how long.
APPLICANTS = 4
SECONDS_EACH = 5.0


def run_demo(out: Path, *, applicants: int, promises: int, delta: float | None, seed: int) -> None:
    """Tell the story on stdout, and leave the picture, the report, the network and the promises in the folder `out`.

    Without a delta the one that the lender's own updates calibrate.
    """
    started = time.perf_counter()
    lender = train_lender(applicants, seed)
    pages.show_lender(lender)
    calibrated = watch_updates(lender, seed)
    measured = rounded_up(float(calibrated))
    pages.show_updates(calibrated, measured, delta)
    delta = measured if delta is None else delta
    changes = hf.PlausibleChanges(delta)
    space = lender.space()
    before, after = make_promises(lender, promises)
    promised = recourse_from(lender.pipeline, before, after, target=1, changes=changes, space=space)
    radius = promised.radii.lower
    certificates = promised.certificates
    assert certificates is not None
    pages.show_verdicts(certificates.to_frame(), delta)
    broken = pick_broken(promised)
    if broken is not None and (witness := certificates.witness(broken)) is not None:
        pages.show_broken(lender, promised, broken, witness, float(radius[broken]))
    advise = partial(
        hf.explain, lender.pipeline, target=1, changes=changes, space=space, progress=False
    )
    few = before.head(APPLICANTS)
    neighbours = hf.RNCE(lender.applicants, line_search=True)
    neighbour = advise(few, generator=neighbours)
    closest = advise(few, generator=hf.Closest(), time_limit=SECONDS_EACH)
    pages.show_advice(closest, neighbour, delta)
    out.mkdir(parents=True, exist_ok=True)
    # Every promise, today and in the worst case; then how many survive which delta, and how far the updates moved.
    figure = new_figure("the demo's picture", (13.5, 5.2), w_pad=0.15, h_pad=0.1, wspace=0.04)
    left, right = figure.subplots(1, 2, width_ratios=[1.15, 1])
    certificates.plot(left)
    deltas = (delta / 2, delta, 2 * delta)
    promised.plot("survival", right, delta=deltas, moved=calibrated.evidence["distance"])
    figure.savefig(out / "demo.png", dpi=150)
    hf.report(
        advise(before, generator=neighbours), out / "report.html", title="Advice to rejected loan applicants",
        name="robust neighbour", outcome="a loan", others={"nearest neighbour": promised}, calibrated=calibrated,
        progress=False,
    )  # fmt: skip
    lender.network.save(out / "model.npz")
    variables = pd.DataFrame(promised.points, index=after.index, columns=lender.variable_names())
    variables.to_csv(out / "promises.csv")
    pages.show_files(out, delta, time.perf_counter() - started)
