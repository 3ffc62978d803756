"""What ``explain`` and ``methods`` show."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.cli.screens import SHOWN, shares
from holdfast.generators import Recourse
from holdfast.generators.registry import Method


def show_recourse(result: Recourse, *, target: str, method: str, seconds: float, out: Path | None) -> None:
    """How many people have recourse and of how many it is proven, at what cost, why not, and a few in words."""
    console = Console(highlight=False)
    n, found, robust = len(result), int(result.found.sum()), int(result.robust.sum())
    console.print(f"{found:,} of {n:,} people can reach class {escape(target)} ({escape(method)}).")
    if result.changes is not None:
        console.print(f"{robust:,} of these promises hold under {escape(result.changes.every_model)}.")
        if result.changes.chance is not None:
            console.print(escape(f"Measured, not proven: {result.changes.chance}."))
    console.print(_summary(result, seconds))
    missing = pd.Series(result.reason)[~result.found]
    if len(missing):
        console.print(shares(missing, "no answer because"))
    for row in np.flatnonzero(result.found)[:SHOWN]:
        console.print(_in_words(result, int(row)), soft_wrap=True)
    console.print(f"{n:,} people in {seconds:.2f} s")
    if out is not None:
        console.print(f"full result: {escape(str(out))}", soft_wrap=True)


def show_alternatives(result: pd.DataFrame, people: int, *, target: str, seconds: float, out: Path | None) -> None:
    """How many people have how many answers, and those of the first few in words."""
    console = Console(highlight=False)
    answers = result[result["advice"] != ""]
    console.print(f"{len(answers):,} answers for {people:,} people who want class {escape(target)}.")
    if len(answers):
        counts = answers.groupby(level=0).size().map(lambda n: f"{n} answer{'s' * (n != 1)}")
        console.print(shares(counts, "people with"))
    verdict = next(name for name in ("recourse_verdict", "verdict") if name in result.columns)
    for key, row in answers[answers.index.isin(answers.index.unique()[:SHOWN])].iterrows():
        proven = f" [{row[verdict]}]" if isinstance(row[verdict], str) else ""
        alone = f" (without {row['left_alone']})" if row["left_alone"] else ""
        name = result.index.name or "row"
        console.print(escape(f"{name} {key}, answer {row['answer']}{alone}: {row['advice']}{proven}"), soft_wrap=True)
    console.print(f"{people:,} people in {seconds:.2f} s")
    if out is not None:
        console.print(f"full result: {escape(str(out))}", soft_wrap=True)


def show_methods(methods: Iterable[Method]) -> None:
    """One row for each way to find recourse."""
    table = Table(show_lines=True)
    for heading in ("method", "good for", "needs", "from"):
        table.add_column(heading, no_wrap=heading == "method")
    for method in methods:
        needs = "--candidates" if method.needs_candidates else "(--candidates)" if method.takes_candidates else ""
        table.add_row(escape(method.name), escape(method.good_for), needs, escape(method.paper))
    Console(highlight=False).print(table)


def _summary(result: Recourse, seconds: float) -> Table:
    found = result.found
    table = Table(show_header=False)
    table.add_column(min_width=18)
    table.add_column(justify="right")
    table.add_row("found", f"{int(found.sum()):,} of {len(found):,}")
    if result.changes is not None and found.any():
        table.add_row("robust, of these", f"{int(result.robust.sum()):,} of {int(found.sum()):,}")
    if found.any():
        table.add_row("mean cost_l1", f"{result.cost_l1[found].mean():.4g}")
        table.add_row("largest cost_l1", f"{result.cost_l1[found].max():.4g}")
    gap = result.optimality_gap[~np.isnan(result.optimality_gap)]
    if gap.size:
        table.add_row("proven cheapest", f"{(gap <= 1e-4).mean():.1%}")
        table.add_row("largest gap", f"{gap.max():.2%}")
    table.add_row("seconds a person", f"{seconds / len(result):.3g}")
    return table


def _in_words(result: Recourse, row: int) -> str:
    verdict = "" if result.verdict[row] is None else f" [{result.verdict[row]}]"
    key = f"{result.counterfactuals.index.name or 'row'} {result.counterfactuals.index[row]}"
    return escape(f"{key}: {result.describe(row)}{verdict}")
