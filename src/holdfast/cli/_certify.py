"""The commands ``certify`` and ``radius``: do points keep their class while the model changes, and for how long?"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from typer import Option

import holdfast as hf
from holdfast._numbers import at_most
from holdfast.changes import Changes
from holdfast.cli import _screens as screens
from holdfast.cli import _tables as tables
from holdfast.cli._options import BROKEN, Out, Points, command, existing_file
from holdfast.errors import InvalidInputError


@command
def certify(
    asked: Points,
    *,
    factuals: Annotated[
        Path | None,
        existing_file("The rows that the points explain: also ask whether Δ keeps their class."),
    ] = None,
    time_limit: Annotated[
        float | None, Option(metavar="SECONDS", help="Rows undecided by then are UNKNOWN.")
    ] = None,
    method: Annotated[
        str,
        Option(
            metavar="joint|separate|interval",
            help="joint is exact; separate ranges and interval bounds are weaker, to compare.",
        ),
    ] = "joint",
    out: Out = None,
    fail_if_broken: Annotated[
        bool,
        "Exit with 3 unless every row is ROBUST; UNKNOWN is not ROBUST.",
    ] = False,
) -> None:
    """Does each point keep its class under every model within delta of this one, or under a lower margin?"""
    tables.check_output(out)
    changes = asked.needed()
    frame = _points(asked)
    before = None if factuals is None else _factuals(asked, factuals, frame)
    way: Any = method
    started = time.perf_counter()
    certificates = hf.certify(
        asked.loaded,
        frame,
        asked.label,
        changes,
        space=asked.space,
        factuals=before,
        time_limit=time_limit,
        method=way,
    )
    seconds = time.perf_counter() - started
    result = certificates.to_frame()
    robust = result["robust"]
    screens.say(
        f"{robust.sum():,} of {len(result):,} rows provably keep class {asked.target} under {changes.every_model}."
    )
    if "sound" in result:
        sound, both = result["sound"].sum(), (result["sound"] & robust).sum()
        screens.say(
            f"Every such model keeps the class of {sound:,} of the factuals; in {both:,} rows both hold."
        )
    screens.show_shares(result["verdict"], "verdict", order=["ROBUST", "NOT_ROBUST", "UNKNOWN"])
    screens.show_shares(result["decided_by"], "decided by")
    if robust.any():
        _show_smallest(
            result[robust], "margin_lower", "smallest certified margins", "margin at least"
        )
    screens.finish(f"{len(result):,} rows", seconds, result, out)
    if fail_if_broken and not robust.all():
        screens.complain(
            f"{(~robust).sum()} of {len(result)} rows are not ROBUST (--fail-if-broken)"
        )
        raise typer.Exit(BROKEN)


@command
def radius(asked: Points, *, out: Out = None) -> None:
    """How far may the model move, or its margin fall, before each point loses its class?

    With --delta, --margin or --changes it is measured in that way, and one also sees how many rows allow as much.
    """
    tables.check_output(out)
    given = asked.read()
    changes: Changes = (
        hf.PlausibleChanges(1.0, asked.norm, not asked.no_biases) if given is None else given
    )
    frame = _points(asked)
    started = time.perf_counter()
    result = hf.certified_radius(
        asked.loaded, frame, asked.label, space=asked.space, changes=changes
    ).to_frame()
    seconds = time.perf_counter() - started
    norm = getattr(changes, "norm", 2.0)
    moves = f"the model may move (norm {'inf' if norm == math.inf else f'{norm:g}'})"
    far = "the margin may fall" if changes.unit == "margin" else moves
    screens.say(f"How far {far} before each row loses class {asked.target}:")
    radii = result["radius_lower"]
    if given is not None:
        screens.say(
            f"{(radii > given.size).sum():,} of {len(result):,} rows allow {at_most(given.size)}."
        )
    least = "radius at least"
    rows = (
        (f"{share:.0%}", f"{radii.quantile(1 - share, interpolation='lower'):.6g}")
        for share in (1.0, 0.95, 0.75, 0.5, 0.25, 0.05)
    )
    screens.show_table(("of the rows", least), rows, right=(least,), title="certified radius")
    _show_smallest(result, "radius_lower", "smallest radii", least)
    screens.finish(f"{len(result):,} rows", seconds, result, out)


def _points(asked: Points) -> pd.DataFrame:
    """The points, in raw units where a schema says how the model reads them; of advice, those that there are."""
    return tables.own_columns(tables.answered(asked.table), asked.loaded, asked.data, asked.space)


def _factuals(asked: Points, path: Path, frame: pd.DataFrame) -> pd.DataFrame:
    """The factuals in the order of `frame`: by key if the tables have one, otherwise row by row."""
    factuals = tables.read_table(path, index=asked.index, space=asked.space)
    factuals = factuals.drop(
        columns=[column for column in asked.drop or () if column in factuals.columns]
    )
    if asked.index is not None:
        factuals = tables.rows_by_key(factuals, frame, path, "the data")
    elif len(factuals) != len(frame):
        raise InvalidInputError(
            f"{path}: expected {len(frame)} rows, one for each row of data, got {len(factuals)}"
        )
    return tables.own_columns(factuals, asked.loaded, path, asked.space)


def _show_smallest(result: pd.DataFrame, column: str, title: str, heading: str) -> None:
    rows = ((key, f"{value:.6g}") for key, value in result[column].nsmallest(screens.SHOWN).items())
    key = str(result.index.name or "row")
    screens.show_table(
        (key, heading), rows, right=(heading,), first_width=screens.WIDE, title=title
    )
