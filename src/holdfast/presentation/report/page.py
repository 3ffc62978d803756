"""The page: contents in, one HTML document out, with nothing to fetch from anywhere."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from holdfast import _numbers as numbers
from holdfast.presentation.drawing import may_change
from holdfast.presentation.report.charts import Look, radii, survival, trade
from holdfast.presentation.report.contents import Contents, Method, Person
from holdfast.presentation.report.people import people_json

# How many people are on the page without its script.
FIRST_ROWS = 50
# Each verdict: a sign that needs no colour, a few words, and the sentence on a person's page.
VERDICTS = {
    "ROBUST": ("●", "proven to survive"),
    "NOT_ROBUST": ("○", "can be broken"),
    "UNKNOWN": ("◐", "undecided"),
    "": ("–", "no advice"),
}
_UNCERTIFIED = ("◌", "not certified")


def render(contents: Contents) -> str:
    """The report as one HTML document.

    Style and script stand inside and are named by their hashes, so that a browser runs nothing else; every text of the
    contents is escaped.
    """
    people, encoding = people_json(contents)
    style, script = _static("report.css"), _static("report.js")
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            contents=contents,
            style=style,
            script=script,
            policy=_policy(style, script),
            people=people,
            encoding=encoding,
            looks=[Look(i) for i in range(len(contents.methods))],
            survival=survival(contents),
            trade=trade(contents),
            radii=radii(contents),
            figures=_key_figures(contents),
            free=may_change(contents.unit),
            deltas="" if contents.delta is None else numbers.deltas(contents.least_delta, contents.delta),
            first_rows=contents.people[:FIRST_ROWS],
            kinds=sorted({_verdict(person) for person in contents.people}, key=_order.index),
            moved=sorted(contents.moves, key=lambda move: -move.changed),
            missing=sum(one.people for one in contents.missing),
        )
    )


def _key_figures(contents: Contents) -> list[tuple[str, str, str]]:
    """What to read first: a name, a number, and what the number is out of."""
    everyone = len(contents.people)
    result = [("People", f"{everyone:,}", "in this report")]
    if not contents.methods:
        return result
    first: Method = contents.methods[0]
    result.append(("With advice", f"{first.found:,}", f"{numbers.part_of(first.found, everyone)} of all"))
    if contents.delta is not None:
        of = (
            f"{numbers.part_of(first.robust, first.found)} of those with advice" if first.found else "nobody has advice"
        )
        name = "Clear by the margin" if contents.symbol == "margin" else "Proven to survive"
        result.append((name, f"{first.robust:,}", of))
    if contents.refits is not None:
        many, worst = contents.refits.models, numbers.share(contents.refits.worst)
        beside = f"by {f'{many:,}'} real refits; by the worst {worst}" if many > 1 else "by one real refit"
        result.append(("Kept", numbers.share(contents.refits.mean), f"of the promises {beside}"))
    if first.median_radius is not None:
        beside = ""
        if contents.delta is not None:
            beside = f"{contents.symbol} is {numbers.deltas(contents.least_delta, contents.delta)}"
        result.append(("Median radius", numbers.radius(first.median_radius), beside))
    if first.median_cost is not None:
        result.append(("Median cost", numbers.figure(first.median_cost), f"mean {numbers.figure(first.mean_cost)}"))
    return result


_order = ["ROBUST", "NOT_ROBUST", "UNKNOWN", "uncertified", ""]


def _verdict(person: Person) -> str:
    """The verdict, with advice that nobody certified kept apart from no advice."""
    return "uncertified" if person.after and not person.verdict else person.verdict


def _sign(kind: str) -> tuple[str, str]:
    return _UNCERTIFIED if kind == "uncertified" else VERDICTS[kind]


def _px(place: float) -> str:
    """A place in a drawing, as an attribute."""
    return f"{place:.1f}".removesuffix(".0")


def _breakable(name: str) -> Markup:
    """A column's name that may go on in the next line where its words meet: NumTotalTrades, months_of_history."""
    return Markup("<wbr>").join(re.split(r"(?<=[a-z0-9])(?=[A-Z])|(?<=_)(?=[^_])", name))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("holdfast.presentation.report", "static"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    names = ("figure", "radius", "about", "share", "part_of", "change")
    environment.filters.update({name: getattr(numbers, name) for name in names})
    environment.filters.update({"px": _px, "at": "{:.1f}".format, "count": "{:,}".format})
    environment.filters.update({"verdict": _verdict, "sign": _sign, "breakable": _breakable})
    return environment


def _static(name: str) -> Markup:
    """A file of ours, as it is."""
    return Markup(files("holdfast.presentation.report").joinpath("static", name).read_text(encoding="utf-8"))


def _policy(style: str, script: str) -> str:
    """What the browser may do: apply this style, run this script, and fetch nothing."""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
