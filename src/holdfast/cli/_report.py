"""The command ``report``: advice in a file, as one page on the promises and their proofs."""

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
    out: Annotated[Path, "The page to write: one HTML file."],
    *,
    name: Annotated[str | None, "The name of the method on the page."] = None,
    outcome: Annotated[str | None, 'The promised class in words: "a loan".'] = None,
    compare: Annotated[
        Texts,
        NAMED_FILE,
        "Another method's advice for the same people.",
    ] = None,
    calibrated: Annotated[
        float | None,
        "DELTA",
        "The measured delta of retraining.",
    ] = None,
    group: Annotated[
        Texts,
        "COLUMN",
        "A column of --data that makes groups to compare.",
    ] = None,
    no_radius: Annotated[
        bool,
        "Compute no certified radii, which are slow for large models.",
    ] = False,
    retrained: Annotated[
        list[Path] | None,
        FILE,
        "A retrained model, to count the promises that it keeps.",
    ] = None,
    certificates: Annotated[
        Path | None,
        THERE,
        "The promises' certificates (a folder or .jsonl), to quote their ids.",
    ] = None,
    ledger: Annotated[Path | None, FILE, "The promises' ledger, to quote its head."] = None,
    letters: Annotated[
        Path | None,
        THERE,
        "The folder of `holdfast letters`, to link to them.",
    ] = None,
    title: Annotated[str | None, "The heading of the page."] = None,
    date: Annotated[str | None, "YYYY-MM-DD", "The date on the page. [default: today]"] = None,
) -> None:
    """Write one page on all advice: the people, the promises and what is proven.

        $ holdfast report recourse.csv --model model.npz --data people.csv --index id --target 1 \\
            --delta 0.02 --out report.html
    """
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
        # If the model reads every other column, the group columns are not the model's.
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
        say(
            f"{result.robust.sum():,} of these promises are proven for {result.changes.every_model}."
        )
    size = written.stat().st_size / 1e6
    seconds = time.perf_counter() - started
    say(f"report: {written} ({size:.2g} MB, {seconds:.1f} s)")


def _named_file(text: str) -> tuple[str, Path]:
    name, path = named(text, f"--compare {NAMED_FILE}")
    if not Path(path).is_file():
        raise InvalidInputError(f"--compare: the file {path!r} does not exist")
    return name, Path(path)
