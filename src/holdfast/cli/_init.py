"""The command ``init``: the project file that the other commands read."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast._files import write_text
from holdfast.cli import _project as project
from holdfast.cli import _tables as tables
from holdfast.cli._options import (
    FILE,
    DataFile,
    Deciding,
    Drop,
    Index,
    ModelFile,
    Opening,
    command,
    spelled,
)
from holdfast.cli._screens import say
from holdfast.errors import InvalidInputError
from holdfast.importers._model import as_network

_PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth")


@command
def init(
    context: typer.Context,
    model: ModelFile,
    data: DataFile,
    target: Annotated[str, "The class that people want."],
    *,
    index: Index = None,
    label: Annotated[str | None, "COLUMN", "The column of --data with the classes, if any."] = None,
    drop: Drop = None,
    deciding: Deciding,
    candidates: Annotated[Path | None, FILE, "Other people, for methods that need them."] = None,
    delta: Annotated[list[float] | None, "How far parameters may move; repeat for layers."] = None,
    margin: Annotated[float | None, "Or, for any model: how far the margin may fall."] = None,
    changes: Annotated[Path | None, "Or: the file of `holdfast delta` or `risk`."] = None,
    sender: Annotated[str | None, "The sender of the letters; \\n begins a new line."] = None,
    subject: Annotated[str | None, 'The subject of the letters: "your loan application".'] = None,
    opening: Opening,
    force: Annotated[bool, "Replace an existing holdfast.toml."] = False,
) -> None:
    """Write holdfast.toml, which the other commands read for options that are not typed.

    It keeps the model, the table, the class, how far the model may change, and the names of the files that commands
    write. Edit it at will; options override it.

        $ holdfast init --model model.npz --data people.csv --index id --target 1 --delta 0.02
    """
    place = context.find_root().params.get("config") or Path(project.NAME)
    if place.exists() and not force:
        raise InvalidInputError(f"{place} exists and may have been edited; --force replaces it")
    given = {"delta": delta, "margin": margin, "changes": changes}
    said = [f"--{name}" for name, value in given.items() if value not in (None, [])]
    if len(said) > 1:
        raise InvalidInputError(f"{' and '.join(said)} exclude each other; keep one of them")
    columns = next(tables.TableFile(data).batches(1)).columns
    for option, names in (("--index", [index]), ("--label", [label]), ("--drop", drop or [])):
        for name in names:
            if name is not None and name not in columns:
                raise InvalidInputError(
                    f"{option}: {data} has no column {name!r}; it has {', '.join(map(str, columns))}"
                )
    _check_model(target, model, deciding, opening, networks_only=bool(delta))

    def relative(path: Path | None) -> str | None:
        return None if path is None else Path(os.path.relpath(path, place.parent)).as_posix()

    values: dict[str, Any] = {
        "model": relative(model), "data": relative(data), "index": index, "target": _number(target), "label": label,
        "drop": drop or None, "threshold": _one(deciding.threshold), "candidates": relative(candidates),
        "delta": _one(delta), "margin": margin, "changes": relative(changes),
        "sender": sender and sender.replace("\\n", "\n"), "subject": subject,
    }  # fmt: skip
    values |= {key: project.KEYS[key].example for key in project.CHAIN}
    text = project.text_of(values)
    assert tomllib.loads(text) == {key: value for key, value in values.items() if value is not None}
    write_text(text, place)
    say(f"written: {place}")
    say("next: `holdfast schema`")


def _check_model(
    target: str, path: Path, deciding: Deciding, opening: Opening, *, networks_only: bool
) -> None:
    """Refuse a class that the model does not have, and --delta without a network; --trust-pickle opens pickles."""
    if path.suffix.lower() in _PICKLES and not opening.trust_pickle:
        return
    classifier = deciding.at(opening.model_in(path)).classifier
    if networks_only:
        as_network(classifier, "changes")
    labels = classifier.classes.tolist()
    if spelled(target, labels) not in labels:
        raise InvalidInputError(
            f"--target: the model has no class {target!r}; it has {', '.join(map(str, labels))}"
        )


def _number(text: str) -> str | int:
    return int(text) if text.isdecimal() and str(int(text)) == text else text


def _one(values: list[Any] | None) -> Any:
    return values[0] if values and len(values) == 1 else values or None
