"""`holdfast benchmark changes`: which promises survive which kind of change, on public tables."""

from __future__ import annotations

import importlib.util
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import command
from holdfast.cli.screens import say


@command
def changes(
    out: Annotated[
        Path,
        typer.Option(file_okay=False, help="The folder for results and pictures; a run that was killed goes on there."),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="One base model, few people and variants: minutes.")] = False,
    page: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Where the page goes; by default OUT/changes.md.")
    ] = None,
    datasets: Annotated[
        list[str] | None, typer.Option(help="heloc, compas, adult, gmc or breast_cancer; may be repeated.")
    ] = None,
    variants: Annotated[int | None, typer.Option(min=1, help="Changed models of each kind.")] = None,
    n_jobs: Annotated[int, typer.Option(help="How many tables and seeds at a time.")] = 1,
    progress: Annotated[bool | None, typer.Option(help="Show a progress bar; by default on a terminal.")] = None,
) -> None:
    """Change models in eleven ways, see which promises they keep and what those cost, and write a page about it.

    The tables of data are looked for in $HOLDFAST_DATA, then in the cache, and downloaded otherwise; breast_cancer
    comes with scikit-learn.
    """
    from holdfast.study.changes_page import FULL, QUICK, draw, render, run_changes

    extent = QUICK if quick else FULL
    if variants is not None:
        extent = replace(extent, variants=variants)
    results = run_changes(out, extent=extent, names=datasets, n_jobs=n_jobs, progress=progress)
    page = out / "changes.md" if page is None else page
    page.parent.mkdir(parents=True, exist_ok=True)
    drawable = importlib.util.find_spec("matplotlib") is not None
    pictures = draw(results, page.parent / "images") if drawable else []
    words = ["holdfast", "benchmark", "changes", "--out", "out/changes", *["--quick"] * quick]
    words += [word for name in datasets or () for word in ("--datasets", name)]
    words += [] if variants is None else ["--variants", str(variants)]
    command = shlex.join([*words, "--page", os.path.relpath(page).replace(os.sep, "/")])
    names = [f"images/{path.name}" for path in pictures]
    page.write_text(render(results, command, extent, names), encoding="utf-8")
    for result in results.values():
        say(f"{result!r} {result.survival!r}")
    for path in (page, *pictures):
        say(f"wrote {path}")
