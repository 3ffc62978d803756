"""The command ``audit``: the promises that a new model keeps and breaks."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from typer import Argument, Option

from holdfast._files import write_json, write_table
from holdfast._network import Network
from holdfast.changes import Changes, PlausibleChanges
from holdfast.cli import _tables as tables
from holdfast.cli._ledger import LedgerFile
from holdfast.cli._options import BROKEN, COUNT, FILE, Deciding, Jobs, Opening, Out, command
from holdfast.cli._parts import answers, question_of
from holdfast.cli._running import Shares
from holdfast.cli._screens import complain, say, show_table
from holdfast.generators._radii import measured_along, why_no_radius
from holdfast.importers import Model
from holdfast.promises import Expiry, Group, KeptShare, Ledger, Status, promise_expiry
from holdfast.promises._audit import AuditPlan
from holdfast.promises._audit_result import STATUSES, AuditTotals


@command
def audit(
    ledger: LedgerFile,
    model: Annotated[Path, Argument(help="The new classifier.", **FILE)],
    deciding: Deciding,
    *,
    schema: Annotated[
        Path | None,
        FILE,
        "The new model's schema, if it reads the columns in another way.",
    ] = None,
    radius: Annotated[
        bool,
        "Also compute how far the model may move before a kept promise can break.",
    ] = False,
    history: Annotated[
        list[Path] | None,
        FILE,
        "An earlier model, the oldest first: estimate how long the promises last.",
    ] = None,
    confidence: Annotated[float, "With --history: the probability of the estimate."] = 0.95,
    horizon: Annotated[int, COUNT, "With --history: retrainings to look ahead."] = 12,
    period: Annotated[str, "day|week|month|quarter|year", "Time between retrainings."] = "month",
    out: Out = None,
    report: Annotated[
        Path | None, Option("--json", dir_okay=False, help="Write the totals here, as JSON.")
    ] = None,
    contacts: Annotated[
        Path | None, "Write the people whose promise is broken here, as a table."
    ] = None,
    opening: Opening,
    n_jobs: Jobs = 1,
) -> None:
    """Find the promises that a new model breaks. Exit code 3 if there is one.

    $ holdfast audit new.npz --ledger promises.ledger --contacts to-contact.csv
    """
    for path in (out, contacts):
        tables.check_output(path)
    tables.check_output(report, table=False)
    models = list(map(opening.model_in, (*(history or ()), model)))
    new = deciding.at(models[-1])
    space = tables.read_schema(schema)[0]
    expiry: Expiry | KeptShare | None = None
    ahead: dict[str, Any] = {"horizon": horizon, "confidence": confidence}
    started = time.perf_counter()
    with Ledger(ledger, create=False) as book:
        plan = AuditPlan.of(book, new, space=space, threshold=None, radius=radius)
        kinds = {measured_along(own.terms.changes).moving(None) for own in plan.auditors}
        soon = not any(why_no_radius(new.classifier, kind) for kind in kinds)
        wanted = radius or (bool(history) and soon)
        plan = replace(plan, radius=wanted)
        norm = _drifting(models, kinds) if history and soon else None
        if norm is not None:
            expiry = promise_expiry([], models, period=period, norm=norm, **ahead)
        elif history and plan.last:
            expiry = promise_expiry(book, models, **ahead)
    judge = _Judge(plan, expiry if isinstance(expiry, Expiry) else None)
    question = question_of(
        "audit", deciding, head=plan.nothing.head, model=model, schema=schema, radius=wanted, period=period,
        history=history, **ahead,
    )  # fmt: skip
    counts = _AuditCounts(plan)
    parts = answers(
        judge, plan.parts, verb="audit", like=judge.like, total=plan.last, out=out, question=question, n_jobs=n_jobs
    )  # fmt: skip
    for part, frame in zip(plan.parts, parts, strict=True):
        counts.add(part, frame)
    result = counts.totals
    seconds = time.perf_counter() - started
    if contacts is not None:
        write_table(pd.concat(counts.broken), contacts)
    if report is not None:
        _write_json(result, expiry, report)
    _show(counts, expiry, seconds, [path for path in (out, contacts, report) if path is not None])
    if not result.kept:
        complain(result.words)
        raise typer.Exit(BROKEN)


def _drifting(models: list[Model], kinds: set[Changes]) -> float | None:
    """The norm of the promises' radii, if all are distances between networks; else None, and promises are counted."""
    if len(kinds) != 1 or not all(isinstance(model.classifier, Network) for model in models):
        return None
    (kind,) = kinds
    # A radius with fixed biases is no distance between models whose biases moved.
    return kind.norm if isinstance(kind, PlausibleChanges) and kind.biases else None


@dataclass(frozen=True, eq=False)
class _Judge:
    """A part of the ledger as a table with the status of its promises; keys and classes are text, as in files."""

    plan: AuditPlan
    expiry: Expiry | None

    def __call__(self, part: tuple[int, int]) -> pd.DataFrame:
        frame = self.plan.judge(part).to_frame()
        if self.expiry is not None:
            radii = np.nan_to_num(frame["radius_left"].to_numpy())
            frame = frame.assign(retrainings=replace(self.expiry, radius=radii).retrainings)
        return frame.astype(self.like.dtypes.to_dict())

    @property
    def like(self) -> pd.DataFrame:
        """The columns and types."""
        types: dict[str, Any] = dict.fromkeys(("key", "date", "target", "status"), "str")
        types["margin"] = float
        if self.plan.radius:
            types["radius_left"] = float
        if self.expiry is not None:
            types["retrainings"] = np.int64
        columns = {name: pd.Series(dtype=dtype) for name, dtype in types.items()}
        return pd.DataFrame(columns, index=pd.Index([], dtype=np.int64, name="number"))


class _AuditCounts:
    """The figures of all promises together, summed over the parts of the ledger."""

    def __init__(self, plan: AuditPlan) -> None:
        self.plan = plan
        self.groups: list[tuple[Group, ...]] = []
        # The people whose promise is not kept.
        self.broken: list[pd.DataFrame] = []
        self.left = Shares()
        # The number of kept promises by the number of retrainings that they last.
        self.lasting = Counter[int]()

    def add(self, part: tuple[int, int], frame: pd.DataFrame) -> None:
        """Count another part."""
        codes = pd.Categorical(frame["status"], list(map(str, STATUSES))).codes
        self.groups.append(self.plan.groups(part, codes, frame["margin"].to_numpy()))
        broken = np.isin(codes, [STATUSES.index(Status.BROKEN), STATUSES.index(Status.UNREADABLE)])
        self.broken.append(frame.loc[broken, ["key", "date", "target", "status", "margin"]])
        if "radius_left" in frame:
            self.left.add(frame.loc[~broken, "radius_left"].dropna())
        if "retrainings" in frame:
            self.lasting.update(frame.loc[~broken, "retrainings"].tolist())

    @property
    def totals(self) -> AuditTotals:
        """The totals of the audit."""
        return self.plan.totals(self.groups)


def _write_json(result: AuditTotals, expiry: Expiry | KeptShare | None, path: Path) -> None:
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
    counts: _AuditCounts, expiry: Expiry | KeptShare | None, seconds: float, written: list[Path]
) -> None:
    result = counts.totals
    rows = (
        (status.name, f"{count:,}", status.meaning)
        for status, count in result.totals.items()
        if count or status is not Status.ERASED
    )
    show_table(("status", "promises", "meaning"), rows, right=("promises",))
    for group in result.groups:
        say(_sentence(group))
    units = {
        "delta" if own.terms.changes is None else own.terms.changes.unit for own in result.groups
    }
    if counts.left.counts and len(units) == 1:
        what = "Margin" if units == {"margin"} else "Radius"
        least, median = (counts.left.least(share) for share in (1.0, 0.5))
        say(f"{what} left: least {least:.4g}, median {median:.4g}.")
    if isinstance(expiry, KeptShare):
        for k in range(1, int((expiry.windows > 0).sum()) + 1):
            say(expiry.describe(k))
    elif expiry is not None:
        if expiry.known == 0:
            say(
                f"How long they last: not known. A probability of {expiry.confidence:.4g} needs "
                f"{expiry.needed[0]} retrainings; the history has {expiry.windows[0]}."
            )
        for k in range(1, expiry.known + 1):
            count = sum(n for lasting, n in counts.lasting.items() if lasting >= k)
            say(
                f"Through the next {k} (one a {expiry.period}): {count:,} promises, with probability at least "
                f"{expiry.confidence:.4g} if the next retrainings are like those in the history."
            )
    say(f"{len(result):,} promises in {seconds:.2f} s; ledger head {result.head.split()[-1]}")
    for path in written:
        say(f"written: {path}")


def _sentence(group: Group) -> str:
    changes = group.terms.changes
    count = sum(group.totals.values())
    start = f"{count:,} promises under model {group.terms.model_hash[:12]}"
    if not group.how:
        return f"{start}: not comparable with the new model ({group.why_not}), so the new model was run."
    folded = "" if group.how == "parameters" else ", with changed preprocessing or threshold"
    where = (
        "they have no Δ"
        if changes is None
        else f"{'inside' if group.inside else 'outside'} their {changes.words.removeprefix('a ')}"
    )
    # Trees have no single distance.
    far = f" at distance {group.distance:.4g}{folded};" if math.isfinite(group.distance) else ""
    return f"{start}: the new model is{far} {where}."
