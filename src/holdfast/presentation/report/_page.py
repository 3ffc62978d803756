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
from holdfast.presentation.pictures._drawing import may_change
from holdfast.presentation.report._charts import Scale, radii, survival, trade
from holdfast.presentation.report._contents import Contents
from holdfast.presentation.report._gather import gather
from holdfast.presentation.report._groups import Groups
from holdfast.presentation.report._people import people_json

if TYPE_CHECKING:
    from jinja2 import Environment

    from holdfast.promises._ledger import Ledger

# How many people are on the page without its script.
FIRST_ROWS = 50
# What the browser may do: apply this style, run this script, and fetch nothing.
_POLICY = "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'"


def render(contents: Contents) -> str:
    """The report as one HTML document.

    Style and script stand inside and are named by their hashes, so that a browser runs nothing else; every text of the
    contents is escaped.
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
            trade=trade(contents),
            radii=radii(contents),
            free=may_change(contents.unit),
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
    """A column's name that may go on in the next line where its words meet: NumTotalTrades, months_of_history."""
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
        {"px": _px, "at": "{:.1f}".format, "count": "{:,}".format, "breakable": _breakable}
    )
    environment.globals["scale"] = Scale
    return environment


class ReportOptions(TypedDict, total=False):
    """What can be said to `report`, which explains it."""

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
    """Write what was promised, and how sure it is, as one HTML page that needs nothing else.

    Parameters
    ----------
    recourse
        What `explain` or `alternatives` returned; of the latter the further answers are people's other ways.
    path
        Where the page goes, a name that ends in .html, in a folder that exists; a page that is there is replaced.
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
        A folder that `letters` wrote: each person's page leads to the letter.
    n_jobs
        How many groups of rows at once where radii and verdicts are computed, as for `certify`.

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
