"""The report as a file."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from holdfast.calibration.result import ChosenDelta
from holdfast.errors import InvalidInputError
from holdfast.files import check_place, write_text
from holdfast.generators import Recourse
from holdfast.promises.ledger import Ledger
from holdfast.report.gather import gather
from holdfast.report.groups import Groups
from holdfast.report.page import render


def write_report(
    recourse: Recourse,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    name: str | None = None,
    outcome: str | None = None,
    others: Mapping[str, Recourse] | None = None,
    calibrated: ChosenDelta | float | None = None,
    groups: Groups = (),
    keys: Sequence[Any] | pd.Index | None = None,
    date: str | datetime.date | None = None,
    radii: bool = True,
    counter_models: bool | int = True,
    progress: bool | None = None,
    accepted: pd.DataFrame | None = None,
    alternatives: pd.DataFrame | None = None,
    retrained: Iterable[object] = (),
    certificates: str | os.PathLike[str] | None = None,
    ledger: Ledger | str | None = None,
    letters: str | os.PathLike[str] | None = None,
) -> Path:
    """Write what was promised, and how sure it is, as one HTML page that needs nothing else.

    Parameters
    ----------
    recourse
        What `explain` returned.
    path
        Where the page goes, in a folder that exists; a page that is there already is replaced.
    title, name
        The page's heading, and what the method is called.
    outcome
        What the promised class gives people, in words such as "a loan"; otherwise the page speaks of "class 1".
    others
        Other methods' recourse for the same people and model, to compare costs and survival with. What was made under
        another Δ is certified anew under this one's.
    calibrated
        The delta that retraining was measured to stay within: what `delta_calibrated` and its like return, or a number.
    groups
        Attributes to compare people by, beside the space's protected ones: columns of the people's table, or
        ``{"sex": labels}`` with a label for each person. Numbers are cut into a few bands.
    keys
        What each person is called; their index by default.
    date
        When it was written; today by default. The same date gives the same page.
    radii
        Compute certified radii, which the curves are drawn from; a large model may take long.
    counter_models
        True: for everyone with an answer, the model that comes closest to breaking it. A number: for so many of the
        most fragile.
    progress
        Show a progress bar on stderr; by default for long tables if stderr is a terminal.
    accepted
        A table of people to learn from what accepted ones have, for what counts against each person: see
        `main_reasons`.
    alternatives
        What `alternatives` returned for the same people: each person's other ways.
    retrained
        Models that were retrained in fact: what they did with the promises stands beside what is proven. Each is used
        once, so that a generator of models will do.
    certificates
        A folder or file that `write_certificates` wrote: ids stand on people's pages.
    ledger
        The ledger that the promises are in, or its head, which the page then states.
    letters
        A folder that `write_letters` wrote: each person's page leads to the letter.

    Returns
    -------
    pathlib.Path
        The page.
    """
    target = Path(path)
    check_place(target)
    contents = gather(
        recourse, title=title, name=name, outcome=outcome, others=others, calibrated=calibrated, groups=groups,
        keys=keys, date=date, radii=radii, counter_models=counter_models, progress=progress, accepted=accepted,
        alternatives=alternatives, retrained=retrained, certificates=certificates, ledger=ledger,
        letters={} if letters is None else _links(Path(letters), target),
    )  # fmt: skip
    write_text(render(contents), target)
    return target


def _links(folder: Path, page: Path) -> dict[str, str]:
    """Where the page finds each person's letter, by their key."""
    try:
        manifest = pd.read_csv(folder / "manifest.csv", dtype=str, keep_default_na=False)
        written = dict(zip(manifest["key"], manifest["file"], strict=True))
    except (OSError, KeyError, ValueError) as error:
        raise InvalidInputError(f"letters: expected a folder that write_letters wrote, got: {error}") from error
    place = Path(os.path.relpath(folder.absolute(), page.absolute().parent)).as_posix()
    return {key: quote(f"{place}/{file}") for key, file in written.items() if file}
