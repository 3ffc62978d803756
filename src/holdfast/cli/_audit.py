"""The command ``audit``: which of the promises made so far does a new model keep?"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from typer import Option

from holdfast._files import write_json, write_table
from holdfast._network import Network
from holdfast.cli import _tables as tables
from holdfast.cli._ledger import LedgerFile
from holdfast.cli._options import BROKEN, COUNT, FILE, Deciding, Jobs, Out, TrustPickle, command
from holdfast.cli._screens import complain, say, show_table
from holdfast.cli._tables import read_schema
from holdfast.importers import Model, read_model
from holdfast.promises import Audit, Expiry, Group, KeptShare, Ledger, Status, promise_expiry
from holdfast.promises._audit import audit as audit_ledger


@command
def audit(
    ledger: LedgerFile,
    model: Annotated[Path, FILE, "The new classifier: .onnx, .skops or .npz."],
    deciding: Deciding,
    *,
    schema: Annotated[
        Path | None,
        FILE,
        "How the new model reads raw values, if that has changed: FeatureSpace.to_dict().",
    ] = None,
    radius: Annotated[
        bool,
        "Also how far the model may move from here before a kept promise can break.",
    ] = False,
    history: Annotated[
        list[Path] | None,
        FILE,
        "An earlier model; repeat it, the oldest first: how long the promises will last.",
    ] = None,
    confidence: Annotated[float, "With --history: the probability to state."] = 0.95,
    horizon: Annotated[int, COUNT, "With --history: how many retrainings to look ahead."] = 12,
    period: Annotated[str, "day|week|month|quarter|year", "How often one retrains."] = "month",
    out: Out = None,
    report: Annotated[
        Path | None, Option("--json", dir_okay=False, help="Where the totals go, as JSON.")
    ] = None,
    contacts: Annotated[
        Path | None, "Where the people whose promise is broken go, as a table."
    ] = None,
    trust_pickle: TrustPickle = False,
    n_jobs: Jobs = 1,
) -> None:
    """Which promises does a new model keep? Exit code 3 if any is broken."""
    for path in (out, contacts):
        tables.check_output(path)
    new = read_model(model, trust_pickle=trust_pickle)
    earlier = [read_model(path, trust_pickle=trust_pickle) for path in history or ()]
    space = None if schema is None else read_schema(schema)[0]
    started = time.perf_counter()
    result = audit_ledger(
        ledger, deciding.at(new), space=space, radius=radius or bool(earlier), n_jobs=n_jobs
    )
    expiry = None
    if earlier and len(result):
        models = [*earlier, new]
        expiry = _expiry(
            ledger, result, models, horizon=horizon, confidence=confidence, period=period
        )
    seconds = time.perf_counter() - started
    if out is not None:
        frame = result.to_frame()
        write_table(
            frame.assign(retrainings=expiry.retrainings) if isinstance(expiry, Expiry) else frame,
            out,
        )
    if contacts is not None:
        write_table(result.contact_list(), contacts)
    if report is not None:
        _write_json(result, expiry, report)
    _show(result, expiry, seconds, [path for path in (out, contacts, report) if path is not None])
    if not result.kept:
        complain(f"{int(result.broken.sum()):,} of {len(result):,} promises are not kept")
        raise typer.Exit(BROKEN)


def _expiry(
    ledger: Path,
    result: Audit,
    models: list[Model],
    *,
    horizon: int,
    confidence: float,
    period: str,
) -> Expiry | KeptShare:
    """By radii where all promises have one in the parameters of networks; else the promises themselves are counted."""
    networks = all(isinstance(model.classifier, Network) for model in models)
    if (
        networks
        and result.radius_left is not None
        and all(group.terms.norm is not None for group in result.groups)
    ):
        return promise_expiry(
            result.radius_left, models, horizon=horizon, confidence=confidence, period=period
        )
    with Ledger(ledger, create=False) as book:
        return promise_expiry(book, models, horizon=horizon, confidence=confidence)


def _write_json(result: Audit, expiry: Expiry | KeptShare | None, path: Path) -> None:
    document = result.to_dict()
    if isinstance(expiry, KeptShare):
        known = expiry.to_frame()[expiry.windows > 0].reset_index()
        document["kept_share"] = {
            "confidence": expiry.confidence,
            "retrainings": known.to_dict("records"),
        }
    elif expiry is not None:
        drift = [None if value != value else value for value in expiry.drift.tolist()]
        document["expiry"] = {
            "confidence": expiry.confidence,
            "period": expiry.period,
            "drift": drift,
            "retrainings_needed": expiry.needed.tolist(),
            "retrainings_in_history": int(expiry.windows[0]),
        }
    write_json(document, path)


def _show(
    result: Audit, expiry: Expiry | KeptShare | None, seconds: float, written: list[Path]
) -> None:
    counts = {
        status: count
        for status, count in result.totals.items()
        if count or status is not Status.ERASED
    }
    rows = ((status.name, f"{count:,}", status.meaning) for status, count in counts.items())
    show_table(("status", "promises", "meaning"), rows, right=("promises",))
    for group in result.groups:
        say(_sentence(group))
    left = np.empty(0) if result.radius_left is None else result.radius_left[~result.broken]
    units = {
        "delta" if own.terms.changes is None else own.terms.changes.unit for own in result.groups
    }
    if np.isfinite(left).any() and len(units) == 1:
        what = "Margin" if units == {"margin"} else "Radius"
        say(f"{what} left: least {np.nanmin(left):.4g}, median {np.nanmedian(left):.4g}.")
    if isinstance(expiry, KeptShare):
        for k in range(1, int((expiry.windows > 0).sum()) + 1):
            say(expiry.describe(k))
    elif expiry is not None:
        _show_expiry(result, expiry)
    say(f"{len(result):,} promises in {seconds:.2f} s; ledger head {result.head}")
    for path in written:
        say(f"written: {path}")


def _sentence(group: Group) -> str:
    changes = group.terms.changes
    count = sum(group.totals.values())
    start = f"{count:,} promises under model {group.terms.model_hash[:12]}"
    if not group.how:
        return f"{start}: not comparable with the new model ({group.why_not}), so it was run."
    folded = "" if group.how == "parameters" else ", changed preprocessing or threshold taken in"
    where = (
        "they have no Δ"
        if changes is None
        else f"{'inside' if group.inside else 'outside'} their {changes.words}"
    )
    # Of trees there is no one distance.
    far = f" at distance {group.distance:.4g}{folded};" if math.isfinite(group.distance) else ""
    return f"{start}: the new model is{far} {where}."


def _show_expiry(result: Audit, expiry: Expiry) -> None:
    kept = ~result.broken
    if expiry.known == 0:
        say(
            f"How long: {expiry.needed[0]} retrainings are needed to say anything with {expiry.confidence:.4g}, "
            f"the history has {expiry.windows[0]}."
        )
        return
    for k in range(1, expiry.known + 1):
        count = int((kept & (expiry.retrainings >= k)).sum())
        say(
            f"Through the next {k} (one a {expiry.period}): {count:,} promises, with probability at least "
            f"{expiry.confidence:.4g} if the next retrainings are like those in the history."
        )
