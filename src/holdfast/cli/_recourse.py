"""The commands ``explain``, ``alternatives`` and ``methods``: recourse for a table of people, and how to find it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

import holdfast as hf
from holdfast._files import write_table
from holdfast.cli import _tables as tables
from holdfast.cli._options import COUNT, FILE, Constraints, Jobs, Out, Points, command
from holdfast.cli._parts import answers, peeked, question_of
from holdfast.cli._screens import SHOWN, WIDE, finish, say, show_shares, show_table
from holdfast.errors import InvalidInputError
from holdfast.generators import Generator
from holdfast.generators import alternatives as find_alternatives
from holdfast.generators._reading import find_space
from holdfast.generators._recourse import ADDED_COLUMNS, added_column
from holdfast.generators._registry import METHODS, make_generator
from holdfast.importers import Model
from holdfast.scale import BatchFunction
from holdfast.verify._fingerprint import known_of

# People who are asked about at once.
_PEOPLE = 256


@dataclass(frozen=True, kw_only=True)
class Searching(Constraints):
    """How advice is to be looked for, and what a person can change."""

    method: Annotated[str, "How to look for recourse; `holdfast methods` lists them."] = "rnce"
    candidates: Annotated[
        Path | None,
        FILE,
        "Other people, such as the training table, for methods that need them.",
    ] = None
    seed: Annotated[int, "For whatever is random in the method."] = 0

    def way(
        self, loaded: Model, space: hf.FeatureSpace | None, frame: pd.DataFrame | None = None
    ) -> tuple[Generator, hf.FeatureSpace, pd.DataFrame | None]:
        """The generator, the space with what a person can change, and the other people."""
        others = None
        if self.candidates is not None:
            others = tables.read_table(self.candidates, space=space)
            others = others.drop(columns=getattr(self, "drop", None) or [], errors="ignore")
        elif any(known.name == self.method and known.needs_candidates for known in METHODS):
            raise InvalidInputError(
                f"--method {self.method}: expected --candidates with a table of people, got none"
            )
        people = others if frame is None else frame
        generator = make_generator(self.method, others)
        known = find_space(loaded, people, space, others)
        return generator, self.over(known, people if others is None else others), others


@dataclass(frozen=True, kw_only=True)
class Asked(Points, Searching):
    """Who asks for what, and how it is to be looked for."""

    target: Annotated[str, "The class that the people want."]
    rows: Annotated[
        int | None,
        COUNT,
        "Only the first so many people who do not have the class yet.",
    ] = None
    time_limit: Annotated[float | None, "SECONDS", "For each person."] = None

    @cached_property
    def elsewhere(self) -> Collection[str]:
        """The columns of the candidates."""
        read = self.drop and self.candidates
        return tables.read_table(read).columns if read else ()

    def question(self, frame: pd.DataFrame | None = None) -> dict[str, Any]:
        """The same as arguments of `explain`, about these people, or about all."""
        changes = self.read()
        frame = self.table if frame is None else frame
        generator, space, others = self.way(self.loaded, self.space, frame)
        return {
            "model": self.loaded, "X": pd.concat(self.people([frame], space)), "target": self.label, "changes": changes,
            "generator": generator, "space": space, "seed": self.seed, "time_limit": self.time_limit,
            "data": others if generator.example_table() is None else None,
        }  # fmt: skip

    def people(
        self, batches: Iterable[pd.DataFrame], space: hf.FeatureSpace
    ) -> Iterator[pd.DataFrame]:
        """Those who are asked about, batch by batch; where nobody is without the class, the first few who have it."""
        batches = self._once(batches)
        if self.rows is None:
            yield from batches
            return
        classifier = self.loaded.in_space(space).classifier
        first = None
        left = self.rows
        for frame in batches:
            first = frame if first is None else first
            own = frame[classifier.predict(space.encode(frame)) != self.label].head(left)
            left -= len(own)
            if len(own):
                yield own
            if not left:
                return
        if left == self.rows and first is not None:
            yield first.head(left)

    def _once(self, batches: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """The same batches; a key that comes twice is refused."""
        seen = set[object]()
        for frame in batches:
            for key in () if self.index is None else frame.index:
                if key in seen:
                    raise InvalidInputError(
                        f"{self.data}: expected each {self.index!r} once, got {key!r} twice"
                    )
                seen.add(key)
            yield frame


@command
def explain(asked: Asked, *, out: Out = None, n_jobs: Jobs = 1) -> None:
    """What could each person change to get the class, and does that survive retraining?"""
    tables.check_output(out)
    first, batches = peeked(asked.batches(_PEOPLE))
    question = asked.question(first)
    model = question.pop("model")
    _ = question.pop("X")
    changes = question["changes"]
    function = hf.over_batches("explain", model, first, **question)
    total = len(asked.file)
    counts = _Counts(function)
    started = time.perf_counter()
    for part in answers(
        function, asked.people(batches, question["space"]), verb="explain", like=function.meta,
        total=min(total, asked.rows or total), out=out, question=question_of("explain", asked), n_jobs=n_jobs,
    ):  # fmt: skip
        counts.add(part)
    seconds = time.perf_counter() - started
    n, found = counts.n, counts.found
    say(f"{found:,} of {n:,} people can reach class {asked.target} ({asked.method}).")
    if changes is not None:
        say(f"{counts.robust:,} of these promises hold under {changes.every_model}.")
        inside = known_of(model, changes.calibrated(None), "").inside
        for one in (inside, changes.chance if counts.measured else None):
            if one is not None:
                say(f"Measured, not proven: {one}.")
    else:
        say(
            "Nothing is certified: the next model may reject this advice. Add --delta, --margin or --changes."
        )
    counts.show(seconds, certified=changes is not None)
    if found < n:
        show_shares(counts.reasons, "no answer because")
    for line in counts.lines:
        say(line)
    finish(f"{n:,} people", seconds, out)


@command
def alternatives(
    asked: Asked,
    *,
    answers: Annotated[int, COUNT, "How many answers to look for, for each person."] = 3,
    out: Out = None,
) -> None:
    """Several different answers for each person: each leaves alone the column that those before leaned on most."""
    tables.check_output(out)
    question = asked.question()
    people = question["X"]
    started = time.perf_counter()
    result = find_alternatives(**question, n_answers=answers)
    seconds = time.perf_counter() - started
    keys = result.factuals.index
    advice = ["; ".join(parts) for parts in result.advice]
    given = keys[result.found]
    say(f"{len(given):,} answers for {len(people):,} people who want class {asked.target}.")
    if len(given):
        counts = given.value_counts().map(lambda n: f"{n} answer{'s' * (n != 1)}")
        show_shares(Counter(counts), "people with")
    told = zip(
        keys,
        result.answer,
        np.asarray(result.left_alone),
        advice,
        result.verdict_names,
        strict=True,
    )
    shown = given.unique()[:SHOWN]
    for key, answer, left_alone, words, verdict in told:
        if words and key in shown:
            proven = f" [{verdict}]" if verdict else ""
            alone = f" (without {left_alone})" if left_alone else ""
            say(f"{keys.name or 'row'} {key}, answer {answer}{alone}: {words}{proven}")
    if out is not None:
        # A person without an answer has empty cells, which must not turn everyone's whole numbers into fractions.
        whole = {
            name: "Int64" for name in people.columns if pd.api.types.is_integer_dtype(people[name])
        }
        write_table(result.to_frame().assign(advice=advice).astype(whole), out)
    finish(f"{len(people):,} people", seconds, out)


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


class _Counts:
    """What is said of all people together, from what came of each batch of them."""

    def __init__(self, function: BatchFunction) -> None:
        self.column = {name: added_column(name, function.like.columns) for name in ADDED_COLUMNS}
        self.chance = added_column("chance", function.like.columns)
        self.n = self.found = self.robust = self.measured = 0
        self.cost = self.dearest = self.widest = 0.0
        # Answers with a proven gap, and those that are proven to be the cheapest.
        self.gaps = self.cheapest = 0
        self.reasons = Counter[str]()
        self.lines = list[str]()

    def add(self, part: pd.DataFrame) -> None:
        """Some more people."""
        found, verdict, cost, gap, reason = (
            part[self.column[name]]
            for name in ("found", "verdict", "cost_l1", "optimality_gap", "reason")
        )
        found = found.astype(bool)
        self.n += len(part)
        self.found += int(found.sum())
        self.robust += int((verdict == "ROBUST").sum())
        if self.chance in part:
            self.measured += int((part[self.chance] != "").sum())
        if found.any():
            self.cost += float(cost[found].sum())
            self.dearest = max(self.dearest, float(cost[found].max()))
        known = gap.dropna()
        self.gaps += len(known)
        self.cheapest += int((known <= 1e-4).sum())
        self.widest = max([self.widest, *known])
        self.reasons.update(reason[~found].fillna("").tolist())
        for key in np.flatnonzero(found)[: SHOWN - len(self.lines)]:
            proven = verdict.iloc[key]
            said = f" [{proven}]" if isinstance(proven, str) else ""
            name = part.index.name or "row"
            self.lines.append(f"{name} {part.index[key]}: {part['advice'].iloc[key]}{said}")

    def show(self, seconds: float, *, certified: bool) -> None:
        """A table of it."""
        rows = [("found", f"{self.found:,} of {self.n:,}")]
        if self.found:
            if certified:
                rows.append(("robust, of these", f"{self.robust:,} of {self.found:,}"))
            rows += [
                ("mean cost_l1", f"{self.cost / self.found:.4g}"),
                ("largest cost_l1", f"{self.dearest:.4g}"),
            ]
        if self.gaps:
            rows += [
                ("proven cheapest", f"{self.cheapest / self.gaps:.1%}"),
                ("largest gap", f"{self.widest:.2%}"),
            ]
        rows.append(("seconds a person", f"{seconds / self.n:.3g}"))
        show_table(("", "value"), rows, right=("value",), first_width=WIDE, show_header=False)
