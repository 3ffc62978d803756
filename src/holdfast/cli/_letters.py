"""The command ``letters``: advice in a file, as a letter to each person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from typer import Option

import holdfast as hf
from holdfast.cli import _tables as tables
from holdfast.cli._advice import Explained
from holdfast.cli._options import FILE, command, plain_errors
from holdfast.cli._screens import say
from holdfast.errors import InvalidInputError

_KINDS = {
    "guaranteed": "with a guarantee",
    "chance": "with a chance",
    "not_guaranteed": "with advice that is not guaranteed",
    "no_answer": "without advice",
}
FOLDER = {"exists": True, "file_okay": False, "readable": True}


def _write_templates(folder: Path | None) -> None:
    """``--write-templates`` copies our templates and ends the command, whatever else was given."""
    if folder is None:
        return
    from holdfast.presentation.letters import write_templates

    with plain_errors(debug=False):
        for path in write_templates(folder):
            typer.echo(path)
    raise typer.Exit


@command
def letters(
    advised: Explained,
    out: Annotated[Path, "A new or empty folder for the letters and their manifest.csv."],
    *,
    until: Annotated[
        str | None,
        "DATE",
        "Until when you commit to what is guaranteed: 2027-01-31.",
    ] = None,
    history: Annotated[
        list[Path] | None,
        FILE,
        "A model that was in use before --model, the oldest first; repeat it. The letters then say through "
        "how many retrainings a guarantee lasts.",
    ] = None,
    confidence: Annotated[float, "With --history: how sure that is to be."] = 0.95,
    period: Annotated[
        str,
        "day|week|month|quarter|year",
        "With --history: how often it is retrained.",
    ] = "month",
    language: Annotated[str, "en, de, or one that --templates has."] = "en",
    templates: Annotated[
        Path | None,
        FOLDER,
        "A folder with templates of your own, see --write-templates.",
    ] = None,
    sender: Annotated[str | None, "Who writes; \\n begins a new line."] = None,
    subject: Annotated[
        str | None,
        'What about: "your loan application"; in German "Ihren Kreditantrag".',
    ] = None,
    name: Annotated[str | None, "COLUMN", "The column of --data with people's names."] = None,
    date: Annotated[str | None, "The letters' date, 2026-11-16; today if not given."] = None,
    no_certificates: Annotated[
        bool,
        "Do not make a certificate for each guarantee and quote its id.",
    ] = False,
    write_templates: Annotated[
        Path | None,
        Option(
            callback=_write_templates,
            is_eager=True,
            metavar="DIR",
            help="Copy our templates to a folder, and stop.",
        ),
    ] = None,
) -> None:
    """A letter to each person on what was decided and what to change; the advice is certified anew."""
    if until is not None and history:
        raise InvalidInputError("--until: expected a date or --history, got both")
    changes = advised.read()
    if history and not isinstance(changes, hf.PlausibleChanges | None):
        raise InvalidInputError(
            f"--history: expected --delta beside it, because it says how far models move, got {changes.words}"
        )
    names, people = None, advised.table
    if name is not None:
        named = tables.column_of(people, name, advised.data, "--name")
        names = {str(key): value for key, value in named.items()}
        people = people if advised.space is not None else people.drop(columns=name)
    result = advised.read_advice(people)
    expiry = None
    if history:
        earlier = [advised.model_in(path) for path in history]
        expiry = hf.promise_expiry(
            _radii(result, [past.network for past in earlier]), [*earlier, advised.loaded], confidence=confidence,
            period=period, norm=advised.norm,
        )  # fmt: skip
    manifest = hf.letters(
        result, out, names=names, sender=sender and sender.replace("\\n", "\n"), subject=subject,
        date=date, until=until, expiry=expiry, language=language, templates=templates, certified=not no_certificates,
    )  # fmt: skip
    count = manifest["outcome"].value_counts()
    listed = ", ".join(f"{count.get(outcome, 0):,} {words}" for outcome, words in _KINDS.items())
    say(f"{(manifest['file'] != '').sum():,} letters: {listed}.")
    if count.get("already_accepted", 0):
        say(f"{count['already_accepted']:,} people have the class already and get none.")
    say(f"letters and manifest.csv: {out}")


def _radii(result: hf.Recourse, earlier: Sequence[hf.Network]) -> np.ndarray:
    """The certified radius of what is guaranteed, 0 for everything else.

    Where retrainings have moved the biases, it lets them move, even if Δ does not: it is held against those moves.
    """
    if not isinstance(result.changes, hf.PlausibleChanges):
        return np.zeros(len(result))
    moved = any(
        not all(map(np.array_equal, past.biases, result.network.biases)) for past in earlier
    )
    changes = replace(result.changes, biases=result.changes.biases or moved)
    return np.where(result.robust, replace(result, changes=changes).radii.measured, 0.0)
