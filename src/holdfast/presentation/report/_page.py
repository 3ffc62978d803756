"""The page: contents in, one HTML document out, with nothing to fetch from anywhere."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from markupsafe import Markup

from holdfast import _numbers as numbers
from holdfast.presentation.pictures._drawing import may_change
from holdfast.presentation.report._charts import Scale, radii, survival, trade
from holdfast.presentation.report._contents import Contents
from holdfast.presentation.report._people import people_json

if TYPE_CHECKING:
    from jinja2 import Environment

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
        text = (
            files("holdfast.presentation.report")
            .joinpath("static", name)
            .read_text(encoding="utf-8")
        )
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
