"""The command ``report``: advice in a file, as one page on what was promised and how sure it is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import holdfast as hf
from holdfast._files import check_place
from holdfast.cli import _tables as tables
from holdfast.cli._advice import Explained
from holdfast.cli._options import FILE, NAMED_FILE, THERE, Texts, command, named
from holdfast.cli._screens import say
from holdfast.errors import InvalidInputError


@command
def report(
    advised: Explained,
    out: Annotated[Path, "Where the page goes: one HTML file that needs nothing else."],
    *,
    name: Annotated[str | None, "What the method is called that gave the advice."] = None,
    outcome: Annotated[
        str | None, 'What the promised class gives people, in words: "a loan".'
    ] = None,
    compare: Annotated[
        Texts,
        NAMED_FILE,
        "Another method's advice for the same people; may be repeated.",
    ] = None,
    calibrated: Annotated[
        float | None,
        "DELTA",
        "The delta that retraining was measured to stay within.",
    ] = None,
    group: Annotated[
        Texts,
        "COLUMN",
        "A column of the data to compare people by; may be repeated.",
    ] = None,
    no_radius: Annotated[
        bool,
        "Do not compute certified radii, which takes long for large models.",
    ] = False,
    retrained: Annotated[
        list[Path] | None,
        FILE,
        "A model retrained in fact, to say whether it keeps the promises; may be repeated.",
    ] = None,
    certificates: Annotated[
        Path | None,
        THERE,
        "The promises' certificates, a folder or .jsonl: the page quotes ids.",
    ] = None,
    ledger: Annotated[Path | None, FILE, "The promises' ledger: the page states its head."] = None,
    letters: Annotated[
        Path | None,
        THERE,
        "What `holdfast letters` wrote: the page leads to them.",
    ] = None,
    title: Annotated[str | None, "The page's heading."] = None,
    date: Annotated[str | None, "When it was written, 2026-11-16; today if not given."] = None,
) -> None:
    """What was promised and how sure it is, as one page; the advice is certified anew."""
    from holdfast.promises import Ledger

    check_place(out)
    started = time.perf_counter()
    others = [_named_file(text) for text in compare or []]
    people = advised.table
    columns = [
        tables.column_of(people, column, advised.data, "--group").name for column in group or []
    ]
    groups = people[columns]
    if advised.space is None and advised.loaded.preprocess is None:
        # Where every column is one of the model's, those that only name groups are none of them.
        features = advised.loaded.classifier.n_features
        people = people.drop(columns=columns) if len(people.columns) > features else people
    told = advised.read_advice(people)
    result = told.first
    aligned = tables.rows_by_key(groups, result.factuals, advised.data, "the recourse")
    written = hf.report(
        result, out, alternatives=None if told.left_alone is None else told,
        ledger=None if ledger is None else Ledger(ledger, create=False), certificates=certificates, letters=letters,
        retrained=map(advised.model_in, retrained or ()),
        title=title, name=name, outcome=outcome, calibrated=calibrated, groups=dict(aligned.items()), date=date,
        others={name: advised.read_advice(people, path, like=result) for name, path in others}, radii=not no_radius,
    )  # fmt: skip
    say(f"{len(result):,} people, {result.found.sum():,} with advice.")
    if result.changes is not None:
        say(f"{result.robust.sum():,} of these promises hold under {result.changes.every_model}.")
    size = written.stat().st_size / 1e6
    seconds = time.perf_counter() - started
    say(f"report: {written} ({size:.2g} MB, {seconds:.1f} s)")


def _named_file(text: str) -> tuple[str, Path]:
    name, path = named(text, f"--compare {NAMED_FILE}")
    if not Path(path).is_file():
        raise InvalidInputError(f"--compare: expected a file, got {path!r}, which is not there")
    return name, Path(path)
