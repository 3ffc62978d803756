"""`holdfast benchmark paper` and `holdfast benchmark changes`: studies on public tables, each with a page about it."""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from holdfast.cli._options import COUNT, FILE, Texts, command
from holdfast.cli._screens import say, show_table

AtATime = Annotated[int, "Tables, models and seeds at a time."]


@dataclass(frozen=True, kw_only=True)
class Study:
    """The places of results and page, and the running of the study."""

    out: Annotated[
        Path,
        {"file_okay": False},
        "The folder for results and pictures; an interrupted run continues there.",
    ]
    page: Annotated[
        Path | None,
        {"dir_okay": False},
        "The page to write. [default: paper.md or changes.md in --out]",
    ] = None
    n_jobs: AtATime = 1

    def place(self, name: str) -> Path:
        """The place of the page with this name; its folder is made."""
        page = self.out / f"{name}.md" if self.page is None else self.page
        page.parent.mkdir(parents=True, exist_ok=True)
        return page


def _typed(name: str, page: Path, **options: object) -> str:
    """The command as a reader would type it: what changes the figures, and where the page goes."""
    words = ["holdfast", "benchmark", name, "--out", f"out/{name}"]
    for option, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            if one not in (None, False):
                words += [f"--{option}"] if one is True else [f"--{option}", str(one)]
    return shlex.join([*words, "--page", os.path.relpath(page).replace(os.sep, "/")])


@command
def paper(
    study: Study,
    *,
    quick: Annotated[bool, "One seed and five inputs: a few minutes."] = False,
    tables: Annotated[
        Path | None, FILE, "The paper's figures as JSON, instead of our copy."
    ] = None,
    seeds: Annotated[int | None, COUNT, "Number of seeds, each with its own models."] = None,
    datasets: Annotated[
        Texts,
        "NAME",
        "adult, compas, gmc, heloc, iris or california_housing.",
    ] = None,
    methods: Annotated[Texts, "NAME", "A method by its name in the paper."] = None,
) -> None:
    """Repeat the paper's experiments, and write a page that compares our figures with the paper's.

    Tables come from $HOLDFAST_DATA, the cache or a download.

        $ holdfast benchmark paper --quick --out paper
    """
    from holdfast.presentation.pictures._paper import draw
    from holdfast.study.paper._claims import check_claims
    from holdfast.study.paper._page import render
    from holdfast.study.paper._printed import Printed
    from holdfast.study.paper._run import run_paper
    from holdfast.study.paper._settings import FULL, QUICK

    printed = Printed.load(tables)
    extent = QUICK if quick else FULL
    if seeds is not None:
        extent = replace(extent, seeds=seeds)
    results, missing = run_paper(
        study.out, extent=extent, printed=printed, datasets=datasets, methods=methods, n_jobs=study.n_jobs,
    )  # fmt: skip
    results.write(study.out)
    page = study.place("paper")
    pictures = draw(results, printed, page.parent / "images")
    threads = f"one thread of {platform.machine()} for each of {study.n_jobs} jobs"
    text = render(
        results, printed, seeds=extent.seeds, inputs=extent.inputs, missing=missing,
        command=_typed("paper", page, quick=quick, seeds=seeds, datasets=datasets, methods=methods),
        machine="one thread" if study.n_jobs == 1 else threads, images="images" if pictures else None,
    )  # fmt: skip
    page.write_text(text, encoding="utf-8")
    rows = (
        (claim.text, claim.verdict, f"{claim.checked - len(claim.broken)} of {claim.checked}")
        for claim in check_claims(results, printed)
    )
    show_table(("statement", "", "cells that obey"), rows, title="Does the paper's pattern hold?")
    for line in [
        *(f"not run: {sentence}" for sentence in missing),
        *(f"wrote {path}" for path in (page, *pictures)),
    ]:
        say(line)


@command
def changes(
    study: Study,
    *,
    quick: Annotated[bool, "One base model, few people and variants: minutes."] = False,
    datasets: Annotated[Texts, "NAME", "heloc, compas, adult, gmc or breast_cancer."] = None,
    variants: Annotated[int | None, COUNT, "Number of changed models of each kind."] = None,
) -> None:
    """Change models in eleven ways, and write a page on the promises that survive and their cost.

    Tables come from $HOLDFAST_DATA, the cache or a download; breast_cancer comes with scikit-learn.

        $ holdfast benchmark changes --quick --out changes
    """
    from holdfast.study._changes_page import FULL, QUICK, draw, render, run_changes

    extent = QUICK if quick else FULL
    if variants is not None:
        extent = replace(extent, variants=variants)
    results = run_changes(study.out, extent=extent, names=datasets, n_jobs=study.n_jobs)
    page = study.place("changes")
    drawable = importlib.util.find_spec("matplotlib") is not None
    pictures = draw(results, page.parent / "images") if drawable else []
    typed = _typed("changes", page, quick=quick, datasets=datasets, variants=variants)
    names = [f"images/{path.name}" for path in pictures]
    page.write_text(render(results, typed, extent, names), encoding="utf-8")
    for result in results.values():
        say(f"{result!r} {result.survival!r}")
    for path in (page, *pictures):
        say(f"wrote {path}")
