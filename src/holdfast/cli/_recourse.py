"""The commands ``explain``, ``alternatives`` and ``methods``: advice for a table of people, and how to find it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

import holdfast as hf
from holdfast._files import write_table
from holdfast.cli import _tables as tables
from holdfast.cli._advice import Advised
from holdfast.cli._options import COUNT, FILE, Constraints, Jobs, Out, Points, command
from holdfast.cli._parts import answers, peeked, question_of
from holdfast.cli._screens import SHOWN, WIDE, finish, say, say_entry, show_shares, show_table
from holdfast.errors import InvalidInputError
from holdfast.generators import Generator
from holdfast.generators import alternatives as find_alternatives
from holdfast.generators._reading import find_space
from holdfast.generators._recourse import ADDED_COLUMNS, added_column
from holdfast.generators._registry import METHODS, make_generator
from holdfast.importers import Model
from holdfast.promises import write_certificates
from holdfast.scale import BatchFunction
from holdfast.verify._fingerprint import known_of

# People in a batch.
_PEOPLE = 256
# People from whom usual values are learned.
_ENOUGH = 5000


@dataclass(frozen=True, kw_only=True)
class Searching(Constraints):
    """How to find advice, and what a person can change."""

    method: Annotated[str, "NAME", "How to find advice, see `holdfast methods`."] = "closest"
    candidates: Annotated[Path | None, FILE, "Other people, for methods that need them."] = None
    seed: Annotated[int, "Seed of random methods."] = 0

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
                f"--method {self.method} also needs --candidates (a table of other people)"
            )
        people = others if frame is None else frame
        generator = make_generator(self.method, others)
        known = find_space(loaded, people, space, others)
        return generator, self.over(known, people if others is None else others), others


@dataclass(frozen=True, kw_only=True)
class Asked(Points, Searching):
    """The people who get advice, and how to find it."""

    rows: Annotated[int | None, COUNT, "Only the first NUMBER people without the class."] = None
    time_limit: Annotated[float | None, "SECONDS", "The limit for each person."] = None

    @cached_property
    def elsewhere(self) -> Collection[str]:
        """The columns of the candidates."""
        read = self.drop and self.candidates
        return tables.read_table(read).columns if read else ()

    def question(self, frame: pd.DataFrame | None = None) -> dict[str, Any]:
        """The arguments of `explain`, for these people or for all."""
        changes = self.read()
        frame = self.table if frame is None else frame
        generator, space, others = self.way(self.loaded, self.space, frame)
        return {
            "model": self.loaded, "X": pd.concat(self.people([frame], space)), "target": self.label, "changes": changes,
            "generator": generator, "space": space, "seed": self.seed, "time_limit": self.time_limit,
            "data": self._usual(space, others) if generator.example_table() is None else None,
        }  # fmt: skip

    def _usual(self, space: hf.FeatureSpace, others: pd.DataFrame | None) -> pd.DataFrame | None:
        """The table from which usual values are learned: the other people, else the people, if some are accepted."""
        if others is not None:
            return others
        people = next(self.batches(_ENOUGH))
        given = self.loaded.in_space(space).classifier.predict(space.encode(people))
        return people if (given == self.label).any() else None

    def people(
        self, batches: Iterable[pd.DataFrame], space: hf.FeatureSpace
    ) -> Iterator[pd.DataFrame]:
        """The people who get advice, batch by batch; if all have the class, the first few of them."""
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
        """The same batches; a repeated key is an error."""
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
def explain(
    asked: Asked,
    *,
    out: Out = None,
    certificates: Annotated[Path | None, "Write proofs of --out here: a folder or .jsonl."] = None,
    n_jobs: Jobs = 1,
) -> None:
    """Find advice for each person, with a proof that it survives retraining.

        $ holdfast explain --model model.npz --data people.csv --schema schema.json --index id \\
            --target 1 --delta 0.02 --out recourse.csv
    """
    if certificates is not None and out is None:
        raise InvalidInputError("--certificates also needs --out (a file for the advice)")
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
        say(f"{counts.robust:,} of these promises are proven for {changes.every_model}.")
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
        show_shares(counts.reasons, "no advice because")
    counts.show_advice()
    finish(f"{n:,} people", seconds, out)
    if certificates is not None and out is not None and changes is not None:
        shared = {field.name: getattr(asked, field.name) for field in fields(Points)}
        advised = Advised(recourse=out, **shared)
        written = write_certificates(advised.read_advice(advised.table), certificates)
        say(f"{written['certificate'].notna().sum():,} certificates: {certificates}")
    elif certificates is not None and certificates.is_file():
        certificates.unlink()
        say(f"Without Δ there are no certificates: the earlier {certificates} is removed.")


@command
def alternatives(
    asked: Asked,
    *,
    answers: Annotated[int, COUNT, "Pieces of advice for each person."] = 3,
    out: Out = None,
) -> None:
    """Find several different pieces of advice for each person.

    Each one leaves alone the column that the earlier ones changed most.

        $ holdfast alternatives --model model.npz --data people.csv --schema schema.json \\
            --index id --target 1 --delta 0.02 --answers 3 --out alternatives.csv
    """
    tables.check_output(out)
    question = asked.question()
    people = question["X"]
    started = time.perf_counter()
    result = find_alternatives(**question, n_answers=answers)
    seconds = time.perf_counter() - started
    keys = result.factuals.index
    advice = ["; ".join(parts) for parts in result.advice]
    given = keys[result.found]
    say(
        f"{len(given):,} pieces of advice for {len(people):,} people who want class {asked.target}."
    )
    if len(given):
        counts = given.value_counts().map(lambda n: f"{n} piece{'s' * (n != 1)} of advice")
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
    if len(given):
        say(_first(len(shown), given.nunique()))
    for key, answer, left_alone, words, verdict in told:
        if words and key in shown:
            proven = f" [{verdict}]" if verdict else ""
            alone = f" (without {left_alone})" if left_alone else ""
            say(f"{keys.name or 'row'} {key}, advice {answer}{alone}: {words}{proven}")
    if out is not None:
        # A person without advice has empty cells, which must not turn everyone's whole numbers into fractions.
        whole = {
            name: "Int64" for name in people.columns if pd.api.types.is_integer_dtype(people[name])
        }
        write_table(result.to_frame().assign(advice=advice).astype(whole), out)
    finish(f"{len(people):,} people", seconds, out)


@command
def methods() -> None:
    """List the methods that find advice, and when to take which.

    $ holdfast methods
    """
    longest = max(len(method.name) for method in METHODS)
    for method in METHODS:
        say_entry(method.name, method.good_for, longest)
        if method.needs_candidates or method.takes_candidates:
            say_entry(
                "", f"{'needs' if method.needs_candidates else 'takes'} --candidates", longest
            )
    say("`--method NAME` takes one of them; the page on methods names their papers.")


def _first(shown: int, n: int) -> str:
    """How many of the people with advice are shown."""
    return f"All {n:,} with advice:" if shown == n else f"First {shown} of {n:,} with advice:"


class _Counts:
    """The figures of all people together, summed over the batches."""

    def __init__(self, function: BatchFunction) -> None:
        self.column = {name: added_column(name, function.like.columns) for name in ADDED_COLUMNS}
        self.chance = added_column("chance", function.like.columns)
        self.n = self.found = self.robust = self.measured = 0
        self.cost = self.dearest = self.widest = 0.0
        # Advice with a proven gap, and advice that is proven to be the cheapest.
        self.gaps = self.cheapest = 0
        self.reasons = Counter[str]()
        self.lines = list[str]()

    def add(self, part: pd.DataFrame) -> None:
        """Count another batch."""
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

    def show_advice(self) -> None:
        """The first pieces of advice, and how many there are."""
        if self.found:
            say(_first(len(self.lines), self.found))
        for line in self.lines:
            say(line)

    def show(self, seconds: float, *, certified: bool) -> None:
        """The figures as a table."""
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
