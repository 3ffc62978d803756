"""The people as the page's script reads them: column by column, texts once, and of the advice only what changes.

10,000 people with 21 columns have to fit into three megabytes. Small data stay plain JSON that anyone can read out of
the page; larger ones are compressed, and the browser unpacks them.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import defaultdict
from collections.abc import Hashable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from itertools import count
from math import isfinite
from typing import Any

from markupsafe import Markup

from holdfast._numbers import deltas, share
from holdfast.presentation.report._contents import Contents, CounterModel, Person, Value

# More characters of JSON than this are compressed.
MOST_PLAIN = 600_000
# Of a counter-model the costliest changes; the rest is in the model itself.
MOST_CHANGES = 8
_DIGITS = 6
# The number of each text among those that came before it.
Codes = defaultdict[Hashable, int]
# Columns of the data that are often empty.
_RARE = ("others", "against", "chances", "certificates", "letters", "accepted", "kept")
# Inside <script> a text must not end it, nor open a comment; JSON reads these as the same characters.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def people_json(contents: Contents) -> tuple[Markup, str]:
    """The data, ready to stand inside <script>, and their encoding: "json" or "gzip"."""
    people = contents.people
    # Texts and parameters in the order in which they first come, each once.
    reasons: Codes = defaultdict(count().__next__)
    words: Codes = defaultdict(count().__next__)
    parameters: Codes = defaultdict(count().__next__)
    sentences: Codes = defaultdict(count().__next__)
    lasting: Codes = defaultdict(count().__next__)
    gauge = contents.gauge
    table: dict[str, Any] = {
        "fall": contents.fall,
        "symbol": contents.symbol,
        "delta": contents.delta,
        "deltas": "" if contents.delta is None else deltas(contents.least_delta, contents.delta),
        "models": contents.models,
        "wanted": contents.wanted,
        "gives": contents.gives,
        "unlisted": [contents.unlisted, int(contents.unlisted_with_time)],
        "gauge": gauge
        and [_short(gauge.end), [[_short(size), text] for size, text in gauge.marks]],
        "cost": contents.cost,
        "threshold": contents.threshold,
        "refits": contents.refits.models if contents.refits else 0,
        "columns": [
            [c.label, c.unit, c.moves, c.code, c.reason, int(c.with_time)] for c in contents.columns
        ],
        "keys": [person.key for person in people],
        "verdicts": [person.verdict for person in people],
        "costs": [_short(person.cost) for person in people],
        "radii": [_short(person.radius, ROUND_DOWN) for person in people],
        "gaps": [_short(person.gap, ROUND_CEILING) for person in people],
        "worst": [_short(person.worst_margin, ROUND_FLOOR) for person in people],
        "reasons": [reasons[person.reason] for person in people],
        "before": [
            _column([person.before[i] for person in people]) for i in range(len(contents.columns))
        ],
        "after": [_changed(person) for person in people],
        "advice": [[*map(words.__getitem__, person.advice)] for person in people],
        "others": [
            [[way.name, [*map(words.__getitem__, way.advice)]] for way in person.others]
            for person in people
        ],
        "against": [
            [
                [one.column, sentences[one.sentence], _short(one.margin), sentences[one.stays]]
                for one in person.against
            ]
            for person in people
        ],
        "chances": [
            ["" if chance is None else share(chance) for chance in person.probability]
            for person in people
        ],
        "certificates": [person.certificate for person in people],
        "letters": [person.letter for person in people],
        "kept": [person.kept for person in people],
        "accepted": [int(person.accepted) for person in people],
        "lasts": [lasting[person.lasts] for person in people],
        "texts": {
            "reasons": list(reasons),
            "advice": list(words),
            "against": list(sentences),
            "lasts": list(lasting),
        },
        "counters": {
            "rows": [person.counter and _counter(person.counter, parameters) for person in people],
            "parameters": list(parameters),
        },
    }
    for name in _RARE:
        # Columns without an entry need no place.
        table[name] = (
            table[name]
            if any(one not in (None, 0, "", [], ["", ""]) for one in table[name])
            else []
        )
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if len(text) <= MOST_PLAIN:
        return Markup(text.translate(_ESCAPES)), "json"
    packed = gzip.compress(text.encode(), compresslevel=9, mtime=0)
    return Markup(base64.b64encode(packed).decode()), "gzip"


def _column(values: list[Value]) -> list[Any] | dict[str, list[Any]]:
    """A column of numbers as it is; one with texts as codes and the texts they stand for."""
    shown = list(map(_value, values))
    if str not in set(map(type, values)):
        return shown
    texts: Codes = defaultdict(count().__next__)
    return {"codes": [*map(texts.__getitem__, shown)], "texts": list(texts)}


def _changed(person: Person) -> list[Any] | None:
    """Which columns the advice changes, and to what: [column, value, column, value, ...]; None without advice."""
    if not person.after:
        return None
    pairs = enumerate(zip(person.before, person.after, strict=True))
    return [
        item
        for i, (before, after) in pairs
        if before != after
        for item in (i, _value(after, before))
    ]


def _counter(counter: CounterModel, parameters: Codes) -> list[Any]:
    """A counter-model; a parameter of today's model is written once for all of them."""
    changes: list[Any] = []
    for change in counter.changes[:MOST_CHANGES]:
        parameter = parameters[change.where, _short(change.today)]
        changes += [parameter, _short(change.changed), _short(change.effect)]
    margins = [_short(counter.margin_today), _short(counter.margin_counter)]
    distance = _short(counter.distance, ROUND_DOWN if counter.inside else ROUND_CEILING)
    return [
        distance,
        int(counter.inside),
        *margins,
        len(counter.changes),
        changes,
        int(counter.closest),
    ]


def _short(number: float | None, rounding: str = ROUND_HALF_EVEN) -> float | int | None:
    """Six significant digits: more than is shown, so that what is sorted and what is shown agree.

    What is proven is rounded so that it says no more: a radius and a least margin downwards, a greatest gap upwards.
    """
    if number is None or not isfinite(number):
        return None
    return _whole(
        float(Context(prec=_DIGITS, rounding=rounding).create_decimal(repr(float(number))))
    )


def _value(value: Value, other: Value = None) -> Value:
    """A value as it is shown: whole, or to seven digits, unless it would then look unchanged."""
    if value is None or isinstance(value, str | bool):
        return value
    if not isfinite(value):
        return None
    short = float(value) if float(value).is_integer() else float(f"{value:.7g}")
    return _whole(float(value) if short == other else short)


def _whole(number: float) -> float | int:
    return int(number) if number.is_integer() and abs(number) < 1e15 else number
