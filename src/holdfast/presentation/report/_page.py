"""The page: contents in, one HTML document out, with nothing to fetch from anywhere; and the report as a file."""

from __future__ import annotations

import base64
import datetime
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import pandas as pd
from markupsafe import Markup

from holdfast import _numbers as numbers
from holdfast._files import Place, check_place, given_path, write_text
from holdfast._given import check_options
from holdfast._parallel import jobs
from holdfast.calibration import ChosenDelta
from holdfast.errors import InvalidInputError
from holdfast.generators import Recourse
from holdfast.presentation.report._charts import Scale, survival
from holdfast.presentation.report._contents import Contents
from holdfast.presentation.report._gather import gather
from holdfast.presentation.report._gauge import plain
from holdfast.presentation.report._groups import Groups
from holdfast.presentation.report._people import people_json
from holdfast.presentation.report._words import tenths

if TYPE_CHECKING:
    from jinja2 import Environment

    from holdfast.promises._ledger import Ledger

# How many people are on the page without its script.
FIRST_ROWS = 50
# What the browser may do: apply this style, run this script, and fetch nothing.
_POLICY = "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'"


def render(contents: Contents) -> str:
    """The report as one HTML document.

    The page contains its style and script and names them by their hashes, so that a browser runs no other script. Every
    text of the contents is escaped.
    """
    people, encoding = people_json(contents)
    texts, hashes = [], []
    for name in ("report.css", "report.js"):
        text = (Path(__file__).parent / "static" / name).read_text(encoding="utf-8")
        texts.append(Markup(text))
        hashes.append(
            f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        )
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            contents=contents,
            style=texts[0],
            script=texts[1],
            policy=_POLICY.format(*hashes),
            people=people,
            encoding=encoding,
            survival=survival(contents),
            deltas=""
            if contents.delta is None
            else numbers.deltas(contents.least_delta, contents.delta),
            first_rows=contents.people[:FIRST_ROWS],
            kinds={
                person.verdict or "uncertified" * bool(person.after) for person in contents.people
            },
        )
    )


def _px(place: float) -> str:
    """A place in a drawing, as an attribute."""
    return f"{place:.1f}".removesuffix(".0")


def _breakable(name: str) -> Markup:
    """A column's name with line breaks allowed between its words: NumTotalTrades, months_of_history."""
    return Markup("<wbr>").join(re.split(r"(?<=[a-z0-9])(?=[A-Z])|(?<=_)(?=[^_])", name))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("holdfast.presentation.report", "static"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    for formatter in (
        numbers.figure,
        numbers.radius,
        numbers.about,
        numbers.share,
        numbers.part_of,
        numbers.change,
    ):
        environment.filters[formatter.__name__] = formatter
    environment.filters.update(
        {
            "px": _px,
            "at": "{:.1f}".format,
            "count": "{:,}".format,
            "plain": plain,
            "tenths": tenths,
            "breakable": _breakable,
        }
    )
    environment.globals["scale"] = Scale
    return environment


class ReportOptions(TypedDict, total=False):
    """The options of `report`, which explains them."""

    title: str | None
    name: str | None
    outcome: str | None
    others: Mapping[str, Recourse] | None
    calibrated: ChosenDelta | float | None
    groups: Groups
    keys: Sequence[Any] | pd.Index | None
    date: str | datetime.date | None
    radii: bool
    counter_models: bool | int
    progress: bool | None
    alternatives: Recourse | None
    retrained: Iterable[object]
    certificates: Place | None
    ledger: Ledger | str | None
    letters: Place | None


def report(
    recourse: Recourse,
    path: Place,
    *,
    n_jobs: int | None = None,
    **options: Unpack[ReportOptions],
) -> Path:
    """Write the promises, and how sure they are, as one HTML page that needs no other file.

    Parameters
    ----------
    recourse
        The result of `explain` or `alternatives`; of the latter the further proven answers are people's other ways.
    path
        The file to write, with a name that ends in .html, in a folder that exists; an existing page is replaced.
    title, name
        The page's heading, and the name of the method.
    outcome
        The promised class in words such as "a loan"; otherwise the page says "class 1".
    others
        Other methods' recourse for the same people and model, to compare with. Advice that was made under another Δ is
        certified again under this one's.
    calibrated
        The delta that measured updates stay within: the result of `delta_calibrated` or `delta_incremental`, or a
        number. With a result the page shows how far each proof reaches in units of these updates.
    groups
        Attributes to compare people by, with the space's protected ones: columns of the people's table, or
        ``{"sex": labels}`` with a label for each person. Numbers are cut into a few bands.
    keys
        A key for each person; their index by default.
    date
        The date of the page; today by default. The same date gives the same page.
    radii
        Compute certified radii, which gauges and curves need; a large model may take long.
    counter_models
        True: for each piece of advice, the model that comes closest to breaking it. A number: for that number of the
        most fragile.
    progress
        Show a progress bar on stderr; by default for long tables if stderr is a terminal.
    alternatives
        The result of `alternatives` for the same people: the proven ones are each person's other ways.
    retrained
        Models that were really retrained: the page says which share of the promises they keep. Each is used once, so
        that a generator of models will do.
    certificates
        A folder or file that `write_certificates` wrote: people's pages quote the ids.
    ledger
        The ledger that the promises are in, or its head, which the page then states.
    letters
        A folder that `letters` wrote: each person's page leads to the letter.
    n_jobs
        Number of parallel jobs for radii and verdicts, as for `certify`.

    Returns
    -------
    pathlib.Path
        The page.
    """
    check_options("report", options, ReportOptions.__annotations__)
    target = given_path(path, "path")
    check_place(target)
    if target.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(
            f"path: the report is a web page; expected a name that ends in .html, got {path}"
        )
    with jobs(n_jobs):
        write_text(render(gather(recourse, page=target, **options)), target)
    return target
