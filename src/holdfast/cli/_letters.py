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
    """``--write-templates`` copies our templates and ends the command."""
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
    out: Annotated[
        Path, {"file_okay": False}, "A new or empty folder for the letters and manifest.csv."
    ],
    *,
    until: Annotated[
        str | None,
        "DATE",
        "The end of your commitment: 2027-01-31.",
    ] = None,
    history: Annotated[
        list[Path] | None,
        FILE,
        "An earlier model, the oldest first: the letters say how many retrainings a guarantee lasts.",
    ] = None,
    confidence: Annotated[float, "With --history: the probability of that statement."] = 0.95,
    period: Annotated[
        str,
        "day|week|month|quarter|year",
        "With --history: the time between retrainings.",
    ] = "month",
    language: Annotated[str, "en, de, or a language of --templates."] = "en",
    templates: Annotated[
        Path | None,
        FOLDER,
        "A folder with your own templates, see --write-templates.",
    ] = None,
    sender: Annotated[str | None, "The sender; \\n begins a new line."] = None,
    subject: Annotated[
        str | None,
        'The subject: "your loan application", in German "Ihren Kreditantrag".',
    ] = None,
    name: Annotated[str | None, "COLUMN", "The column of --data with people's names."] = None,
    date: Annotated[str | None, "YYYY-MM-DD", "The letters' date. [default: today]"] = None,
    no_certificates: Annotated[
        bool,
        "Make no certificates, and quote no ids.",
    ] = False,
    write_templates: Annotated[
        Path | None,
        Option(
            callback=_write_templates,
            is_eager=True,
            metavar="FOLDER",
            help="Only copy our templates to a folder.",
        ),
    ] = None,
) -> None:
    """Write a letter to each person: the decision, its reasons and what to change.

        $ holdfast letters recourse.csv --model model.npz --data people.csv --index id --target 1 \\
            --delta 0.02 --sender "Example Bank" --out letters
    """
    if until is not None and history:
        raise InvalidInputError("--until and --history exclude each other; keep one of them")
    changes = advised.read()
    if history and not isinstance(changes, hf.PlausibleChanges | None):
        raise InvalidInputError(
            f"--history needs --delta, which says how far models move; it cannot be used with {changes.words}"
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
        say(f"{count['already_accepted']:,} people have the class already and get no letter.")
    say(f"letters and manifest.csv: {out}")


def _radii(result: hf.Recourse, earlier: Sequence[hf.Network]) -> np.ndarray:
    """The certified radius of guaranteed advice, 0 for other rows.

    If earlier retrainings moved the biases, the radius lets them move too, even if Δ does not.
    """
    if not isinstance(result.changes, hf.PlausibleChanges):
        return np.zeros(len(result))
    moved = any(
        not all(map(np.array_equal, past.biases, result.network.biases)) for past in earlier
    )
    changes = replace(result.changes, biases=result.changes.biases or moved)
    return np.where(result.robust, replace(result, changes=changes).radii.measured, 0.0)
