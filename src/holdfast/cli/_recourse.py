"""The commands ``explain``, ``alternatives`` and ``methods``: recourse for a table of people, and how to find it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from typer import Option

import holdfast as hf
from holdfast.cli import _tables as tables
from holdfast.cli._options import Constraints, Out, Points, command, existing_file
from holdfast.cli._screens import SHOWN, WIDE, finish, say, show_shares, show_table
from holdfast.errors import InvalidInputError
from holdfast.generators import alternatives as find_alternatives
from holdfast.generators._reading import find_space
from holdfast.generators._registry import METHODS, make_generator


@dataclass(frozen=True, kw_only=True)
class Asked(Points, Constraints):
    """Who asks for what, and how it is to be looked for."""

    target: Annotated[str, "The class that the people want."]
    method: Annotated[str, "How to look for recourse; `holdfast methods` lists them."] = "rnce"
    candidates: Annotated[
        Path | None,
        existing_file("Other people, such as the training table, for methods that need them."),
    ] = None
    rows: Annotated[
        int | None,
        Option(min=1, help="Only the first so many people who do not have the class yet."),
    ] = None
    time_limit: Annotated[float | None, Option(metavar="SECONDS", help="For each person.")] = None
    seed: Annotated[int, "For whatever is random in the method."] = 0

    def question(self) -> dict[str, Any]:
        """The same as arguments of `explain`."""
        changes, frame = self.read(), self.table
        others = (
            None
            if self.candidates is None
            else tables.read_table(self.candidates, space=self.space)
        )
        if others is None and any(
            known.name == self.method and known.needs_candidates for known in METHODS
        ):
            raise InvalidInputError(
                f"--method {self.method}: expected --candidates with a table of people, got none"
            )
        generator = make_generator(self.method, others)
        space = self.over(find_space(self.loaded, frame, self.space, others))
        if self.rows is not None:
            without = (
                self.loaded.in_space(space).classifier.predict(space.encode(frame)) != self.label
            )
            frame = (frame[without] if without.any() else frame).head(self.rows)
        return {
            "model": self.loaded, "X": frame, "target": self.label, "changes": changes, "generator": generator,
            "space": space, "seed": self.seed, "time_limit": self.time_limit,
            "data": others if generator.example_table() is None else None,
        }  # fmt: skip


@command
def explain(asked: Asked, *, out: Out = None) -> None:
    """What could each person change to get the class, and does that survive retraining?"""
    tables.check_output(out)
    question = asked.question()
    started = time.perf_counter()
    result = hf.explain(**question)
    seconds = time.perf_counter() - started
    n, found, names = len(result), int(result.found.sum()), result.counterfactuals.index
    say(f"{found:,} of {n:,} people can reach class {asked.target} ({asked.method}).")
    if result.changes is not None:
        say(f"{result.robust.sum():,} of these promises hold under {result.changes.every_model}.")
        if result.changes.chance is not None:
            say(f"Measured, not proven: {result.changes.chance}.")
    _show_summary(result, seconds)
    if found < n:
        show_shares(pd.Series(result.reason)[~result.found], "no answer because")
    for row in np.flatnonzero(result.found)[:SHOWN]:
        verdict = "" if result.verdict[row] is None else f" [{result.verdict[row]}]"
        say(f"{names.name or 'row'} {names[row]}: {result.describe(row)}{verdict}")
    full = None
    if out is not None:
        advice = [result.describe(row) if result.found[row] else "" for row in range(n)]
        full = _whole(result.to_frame().assign(advice=advice), question["X"])
    finish(f"{n:,} people", seconds, full, out)


@command
def alternatives(
    asked: Asked,
    *,
    answers: Annotated[
        int, Option(min=1, help="How many answers to look for, for each person.")
    ] = 3,
    out: Out = None,
) -> None:
    """Several different answers for each person: each leaves alone the column that those before leaned on most."""
    tables.check_output(out)
    question = asked.question()
    space, people = question["space"], question["X"]
    names = list(space.names)
    if not people.index.is_unique:
        raise InvalidInputError(
            f"{asked.data}: expected each {people.index.name!r} once, got repeated ones"
        )
    started = time.perf_counter()
    result = find_alternatives(**question, n_answers=answers)
    seconds = time.perf_counter() - started
    before = people.loc[result.index, names]
    found = result[tables.advice_name(result, "found") or "found"].to_numpy(dtype=np.bool_)
    advice = [
        "; ".join(space.describe_change(before.iloc[row], result[names].iloc[row]))
        if found[row]
        else ""
        for row in range(len(result))
    ]
    result = result.assign(advice=advice)
    given = result[result["advice"] != ""]
    say(f"{len(given):,} answers for {len(people):,} people who want class {asked.target}.")
    if len(given):
        counts = given.groupby(level=0).size().map(lambda n: f"{n} answer{'s' * (n != 1)}")
        show_shares(counts, "people with")
    verdict = tables.advice_name(result, "verdict") or "verdict"
    for key, row in given[given.index.isin(given.index.unique()[:SHOWN])].iterrows():
        proven = f" [{row[verdict]}]" if isinstance(row[verdict], str) else ""
        alone = f" (without {row['left_alone']})" if row["left_alone"] else ""
        say(
            f"{result.index.name or 'row'} {key}, answer {row['answer']}{alone}: {row['advice']}{proven}"
        )
    finish(f"{len(people):,} people", seconds, _whole(result, people), out)


def methods() -> None:
    """The ways to find recourse, and what each is good for."""
    rows = []
    for method in METHODS:
        needs = (
            "--candidates"
            if method.needs_candidates
            else "(--candidates)"
            if method.takes_candidates
            else ""
        )
        rows.append((method.name, method.good_for, needs, method.paper))
    longest = max(len(method.name) for method in METHODS)
    show_table(("method", "good for", "needs", "from"), rows, first_width=longest, show_lines=True)


def _whole(result: pd.DataFrame, people: pd.DataFrame) -> pd.DataFrame:
    """A person without an answer has empty cells, which must not turn everyone's whole numbers into fractions."""
    whole = {
        name: "Int64" for name in people.columns if pd.api.types.is_integer_dtype(people[name])
    }
    return result.astype(whole)


def _show_summary(result: hf.Recourse, seconds: float) -> None:
    found, cost = result.found, result.cost_l1[result.found]
    rows = [("found", f"{found.sum():,} of {len(found):,}")]
    if found.any():
        if result.changes is not None:
            rows.append(("robust, of these", f"{result.robust.sum():,} of {found.sum():,}"))
        rows += [("mean cost_l1", f"{cost.mean():.4g}"), ("largest cost_l1", f"{cost.max():.4g}")]
    gap = result.optimality_gap[~np.isnan(result.optimality_gap)]
    if gap.size:
        rows += [
            ("proven cheapest", f"{(gap <= 1e-4).mean():.1%}"),
            ("largest gap", f"{gap.max():.2%}"),
        ]
    rows.append(("seconds a person", f"{seconds / len(result):.3g}"))
    show_table(("", "value"), rows, right=("value",), first_width=WIDE, show_header=False)
