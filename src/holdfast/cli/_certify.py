"""The commands ``certify`` and ``radius``: the rows that keep their class while the model changes, and how far."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

import holdfast as hf
from holdfast._numbers import at_most
from holdfast.changes import Changes
from holdfast.cli import _tables as tables
from holdfast.cli._options import BROKEN, FILE, Jobs, Out, Points, command
from holdfast.cli._parts import answers, peeked, question_of
from holdfast.cli._running import Shares, Smallest
from holdfast.cli._screens import complain, finish, say, show_shares, show_table
from holdfast.errors import InvalidInputError
from holdfast.verify._inputs import read_table

# Rows that are certified at once, and rows whose radii are computed at once.
_ROWS, _FEWER_ROWS = 2**17, 2**12
# The prefix of the factuals' columns, next to those of the points.
_WAS = "factual: "


@command
def certify(
    asked: Points,
    *,
    factuals: Annotated[
        Path | None,
        FILE,
        "The rows before the advice: also certify that they keep their class.",
    ] = None,
    time_limit: Annotated[
        float | None, "SECONDS", "The limit for all rows; undecided rows are UNKNOWN."
    ] = None,
    method: Annotated[
        str,
        "joint|separate|interval",
        "joint is exact; the others are weaker, for comparison.",
    ] = "joint",
    out: Out = None,
    n_jobs: Jobs = 1,
    fail_if_broken: Annotated[
        bool,
        "Exit with code 3 unless every row is ROBUST.",
    ] = False,
) -> None:
    """Certify for each row of a table that it keeps the class under every model in Δ.

    $ holdfast certify --model model.npz --data points.csv --index id --target 1 --delta 0.02
    """
    tables.check_output(out)
    changes = asked.needed()
    total = len(asked.file)
    today = _Today(asked, changes, method)
    first, points = peeked(today.kept(_points(asked, _ROWS, factuals)))
    function = hf.over_batches(
        "certify", asked.loaded, first, target=asked.label, changes=changes, space=asked.space, method=method,
        factuals=None if factuals is None else _WAS,
        time_limit=None if time_limit is None else time_limit * min(1.0, _ROWS / total),
    )  # fmt: skip
    question = question_of("certify", asked, factuals=factuals, limit=time_limit, method=method)
    started = time.perf_counter()
    n = 0
    robust = 0
    sound = 0
    both = 0
    verdicts = Counter[str]()
    deciders = Counter[str]()
    smallest = Smallest()
    for part in answers(
        function.coded, points, verb="certify", like=function.meta, total=total, out=out, question=question,
        n_jobs=n_jobs,
    ):  # fmt: skip
        n += len(part)
        today.add(part)
        # Columns without their keys: pandas would look names of its own up among these.
        holds = part["robust"].to_numpy()
        robust += int(holds.sum())
        for counts, column in ((verdicts, "verdict"), (deciders, "decided_by")):
            shares = pd.Series(part[column].array).value_counts()
            counts.update({str(name): n for name, n in shares.items() if n})
        smallest.add(part["margin_lower"], holds)
        if "sound" in part:
            kept = part["sound"].to_numpy()
            sound += int(kept.sum())
            both += int((kept & holds).sum())
    seconds = time.perf_counter() - started
    say(f"{robust:,} of {n:,} rows provably keep class {asked.target} under {changes.every_model}.")
    if factuals is not None:
        say(
            f"Every such model keeps the class of {sound:,} of the factuals; both are proven for {both:,} rows."
        )
    lines = {
        "rejected today": today.rejected,
        "can be broken by a model in Δ": verdicts["NOT_ROBUST"] - today.rejected,
        "proven (ROBUST)": verdicts["ROBUST"],
        "undecided (UNKNOWN)": verdicts["UNKNOWN"],
    }
    show_shares(lines, "the class under Δ", order=list(lines))
    show_shares(deciders, "decided by")
    if robust:
        smallest.show("smallest certified margins", "margin at least")
    finish(f"{n:,} rows", seconds, out)
    if fail_if_broken and robust < n:
        complain(f"{n - robust} of {n} rows are not ROBUST (--fail-if-broken)")
        raise typer.Exit(BROKEN)


@command
def radius(asked: Points, *, out: Out = None, n_jobs: Jobs = 1) -> None:
    """Compute how far the model may move before each row loses its class.

    With --delta, --margin or --changes the radius is in that unit, and the rows that allow that much are counted.

        $ holdfast radius --model model.npz --data points.csv --index id --target 1
    """
    tables.check_output(out)
    given = asked.read()
    total = len(asked.file)
    changes: Changes = (
        hf.PlausibleChanges(1.0, asked.norm, not asked.no_biases) if given is None else given
    )
    first, points = peeked(_points(asked, _FEWER_ROWS))
    function = hf.over_batches(
        "certified_radius", asked.loaded, first, target=asked.label, space=asked.space, changes=changes
    )  # fmt: skip
    started = time.perf_counter()
    n = 0
    enough = 0
    radii = Shares()
    smallest = Smallest()
    for part in answers(
        function, points, verb="radius", like=function.meta, total=total, out=out,
        question=question_of("radius", asked), n_jobs=n_jobs,
    ):  # fmt: skip
        lower = part["radius_lower"]
        n += len(part)
        enough += 0 if given is None else int((lower > given.size).sum())
        radii.add(lower)
        smallest.add(lower, lower.to_numpy() > 0)
    seconds = time.perf_counter() - started
    norm = getattr(changes, "norm", 2.0)
    far = {
        "margin": "How far the margin may fall",
        "factor": f"By what factor changes ({changes.words}) may grow",
    }.get(changes.unit, f"How far the model may move (norm {norm:g})")
    say(f"{far} before each row loses class {asked.target}:")
    if given is not None:
        say(f"{enough:,} of {n:,} rows allow {at_most(given.size)}.")
    least = "radius at least"
    shares = (1.0, 0.95, 0.75, 0.5, 0.25, 0.05)
    rows = ((f"{share:.0%}", f"{radii.least(share):.4g}") for share in shares)
    show_table(("of the rows", least), rows, right=(least,), title="certified radius")
    without = radii.counts[0.0]
    if without:
        say(f"{without:,} of {n:,} rows do not have the class today, or barely: radius 0.")
    if without < n:
        smallest.show("smallest radii above 0" if without else "smallest radii", least)
    finish(f"{n:,} rows", seconds, out)


class _Today:
    """Counts the rows that today's model itself rejects, among those that are not robust."""

    def __init__(self, asked: Points, changes: Changes, method: str) -> None:
        self.asked = asked
        self.rejected = 0
        # The first stage for networks is today's model. Other kinds have no such stage, so the model is run.
        self.known = (
            isinstance(changes, hf.PlausibleChanges)
            and isinstance(asked.loaded.classifier, hf.Network)
            and changes.threshold is None
            and method == "joint"
        )
        self.waiting = deque[pd.DataFrame]()

    def kept(self, batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """The same batches, each kept until its verdicts come."""
        for frame in batches:
            if not self.known:
                self.waiting.append(frame)
            yield frame

    def add(self, part: pd.DataFrame) -> None:
        """Count the next batch."""
        broken = (part["verdict"] == "NOT_ROBUST").to_numpy()
        if self.known:
            self.rejected += int((broken & (part["decided_by"] == "forward pass").to_numpy()).sum())
            return
        frame = self.waiting.popleft()[broken]
        if len(frame):
            frame = frame[[name for name in frame.columns if not str(name).startswith(_WAS)]]
            table = read_table(self.asked.loaded, frame, self.asked.space)
            labels = table.model.classifier.predict(table.points)
            self.rejected += int((labels != self.asked.label).sum())


def _points(asked: Points, size: int, factuals: Path | None = None) -> Iterator[pd.DataFrame]:
    """The points, in raw units if there is a schema; of a file of advice, the rows that have advice.

    With factuals, their columns are next to the points'.
    """
    before = None
    if factuals is not None:
        before = tables.read_table(factuals, index=asked.index, space=asked.space)
        before = before.drop(columns=asked.drop or [], errors="ignore")
    count = 0
    for table in asked.batches(size):
        frame = tables.own_columns(tables.answered(table), asked.loaded, asked.data, asked.space)
        if before is not None and factuals is not None:
            own = before.iloc[count : count + len(frame)]
            if asked.index is not None:
                own = tables.rows_by_key(before, frame, factuals, "the data")
            elif len(own) < len(frame):
                raise InvalidInputError(
                    f"--factuals {factuals}: expected {count + len(frame)} rows or more, one for each row of --data, "
                    f"got {len(before)}; --index COLUMN pairs them by key"
                )
            own = tables.own_columns(own, asked.loaded, factuals, asked.space)
            own = own.set_axis(frame.index, axis=0).add_prefix(_WAS)
            frame = frame.assign(**{name: own[name] for name in own.columns})
        count += len(frame)
        yield frame
    if before is not None and asked.index is None and len(before) != count:
        raise InvalidInputError(
            f"--factuals {factuals}: expected {count} rows, one for each row of --data, got {len(before)}; "
            "--index COLUMN pairs them by key"
        )
