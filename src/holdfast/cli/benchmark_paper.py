"""`holdfast benchmark paper`: every table and figure of the paper's experiments, ours beside the paper's."""

from __future__ import annotations

import os
import platform
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import FILE, command
from holdfast.cli.screens import say, show_table


@command
def paper(
    out: Annotated[
        Path,
        typer.Option(file_okay=False, help="The folder for results and pictures; a run that was killed goes on there."),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="One seed and five inputs: a few minutes.")] = False,
    page: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Where the page goes; by default OUT/paper.md.")
    ] = None,
    tables: Annotated[
        Path | None, typer.Option(help="The paper's figures as JSON, in place of holdfast's own copy.", **FILE)
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds, each with its own models.")] = None,
    datasets: Annotated[
        list[str] | None, typer.Option(help="adult, compas, gmc, heloc, iris or california_housing; may be repeated.")
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option(help="A method by its name in the paper; may be repeated.")
    ] = None,
    n_jobs: Annotated[int, typer.Option(help="How many tables, models and seeds at a time.")] = 1,
    progress: Annotated[bool | None, typer.Option(help="Show a progress bar; by default on a terminal.")] = None,
) -> None:
    """Repeat the paper's experiments and write a page with our figures beside the paper's.

    The tables of data are looked for in $HOLDFAST_DATA, then in the cache, and downloaded otherwise.
    """
    from holdfast.study.paper.claims import check_claims
    from holdfast.study.paper.page import render
    from holdfast.study.paper.pictures import draw
    from holdfast.study.paper.preface import Run
    from holdfast.study.paper.printed import Printed
    from holdfast.study.paper.run import run_paper
    from holdfast.study.paper.settings import FULL, QUICK

    printed = Printed.load(tables)
    extent = QUICK if quick else FULL
    if seeds is not None:
        extent = replace(extent, seeds=seeds)
    results, missing = run_paper(
        out, extent=extent, printed=printed, datasets=datasets, methods=methods, n_jobs=n_jobs, progress=progress
    )
    results.write(out)
    page = out / "paper.md" if page is None else page
    images = page.parent / "images"
    page.parent.mkdir(parents=True, exist_ok=True)
    pictures = draw(results, printed, images)
    run = Run(
        _command(quick=quick, page=page, seeds=seeds, datasets=datasets, methods=methods),
        extent.seeds,
        extent.inputs,
        f"one thread of {platform.machine()} for each of {n_jobs} jobs" if n_jobs != 1 else "one thread",
        missing,
        "images" if pictures else None,
    )
    page.write_text(render(results, printed, run), encoding="utf-8")
    rows = (
        (claim.text, claim.verdict, f"{claim.checked - len(claim.broken)} of {claim.checked}")
        for claim in check_claims(results, printed)
    )
    show_table(("statement", "", "cells that obey"), rows, title="Does the paper's pattern hold?")
    for line in [*(f"not run: {sentence}" for sentence in missing), *(f"wrote {path}" for path in (page, *pictures))]:
        say(line)


def _command(
    *, quick: bool, page: Path, seeds: int | None, datasets: list[str] | None, methods: list[str] | None
) -> str:
    """The command as a reader would type it: what changes the figures, and where the page goes."""
    words = ["holdfast", "benchmark", "paper", "--out", "out/paper"]
    words += ["--quick"] if quick else []
    words += [] if seeds is None else ["--seeds", str(seeds)]
    for option, values in (("--datasets", datasets), ("--methods", methods)):
        words += [word for value in values or () for word in (option, value)]
    return shlex.join([*words, "--page", os.path.relpath(page).replace(os.sep, "/")])
