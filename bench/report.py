"""What was measured, as tables for a terminal and for a document."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as RichTable

import holdfast as hf
from cases import Case
from holdfast._network import Floats

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Comparison:
    """One MILP per row on a sample: mean CPU seconds, how many hit their limit, and the rows that say otherwise."""

    rows: int
    seconds: float
    unfinished: int
    disagree: tuple[int, ...]


# Forward passes that `certify` may take on rows that the network accepts today, 2x20, delta 0.02.
ACCEPTED = {"adult": 11.5, "heloc": 22.5, "gmc": 2.0}


@dataclass(frozen=True)
class Tail:
    """Seconds of single rows, by a prepared model and by `certify`; of those searched, and their branches."""

    prepared: Floats
    certify: Floats
    # Of the prepared model, the best of five: rows by the stage that settles them.
    quick: dict[str, Floats]
    searched: Floats
    nodes: NDArray[np.int64]


@dataclass(frozen=True)
class Measurement:
    """One network, table and delta. `forward` is in seconds per row, the next three are multiples of it."""

    case: Case
    delta: float
    forward: float
    interval: float
    general: float
    certify: float
    certificates: hf.Certificates
    interval_robust: float
    comparison: Comparison
    tail: Tail

    @property
    def speedup(self) -> float:
        """How many rows `certify` does in the time of one MILP."""
        return self.comparison.seconds / (self.certify * self.forward)

    @property
    def at_least(self) -> str:
        """A sign for what is only a lower bound."""
        return ">= " if self.comparison.unfinished else ""

    @property
    def times_faster(self) -> str:
        """The speed-up for people; none where `certify` ran into its own limit."""
        return "unsettled" if self.unknown else f"{self.at_least}{self.speedup:,.0f}"

    @property
    def stages(self) -> Counter[str]:
        """Rows by the stage that decided them."""
        return Counter(self.certificates.decided_by.tolist())

    @property
    def unknown(self) -> int:
        """Rows left UNKNOWN."""
        return self.certificates.counts()[hf.Verdict.UNKNOWN]

    @property
    def to_the_end(self) -> int:
        """Rows that branch and bound left open: for whole numbers, or for lack of time."""
        return self.stages["exact"] + self.unknown

    @property
    def name(self) -> list[str]:
        """The first columns of every table."""
        return [self.case.dataset, self.case.size, self.case.rows, f"{self.delta:g}"]


@dataclass(frozen=True)
class RadiusTimes:
    """Seconds per row of `certified_radius`: medians and worst of batches and of single rows."""

    case: Case
    rows: int
    batch: float
    slowest_batch: float
    single: float
    slowest_single: float
    median_radius: float
    widest: float


@dataclass(frozen=True)
class Table:
    """A titled table of texts."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def for_terminal(self) -> RichTable:
        """As rich draws it."""
        table = RichTable(
            title=self.title,
            caption=self.note or None,
            title_justify="left",
            caption_justify="left",
        )
        for i, column in enumerate(self.columns):
            table.add_column(column, justify="left" if i == 0 else "right")
        for row in self.rows:
            table.add_row(*row)
        return table

    def for_document(self) -> str:
        """As Markdown."""
        lines = [
            f"## {self.title}",
            "",
            *([self.note, ""] if self.note else []),
            "| " + " | ".join(self.columns) + " |",
            "|" + "|".join(["---", *["---:"] * (len(self.columns) - 1)]) + "|",
            *("| " + " | ".join(row) + " |" for row in self.rows),
        ]
        return "\n".join(lines)


def tables(measured: Sequence[Measurement], radii: Sequence[RadiusTimes]) -> list[Table]:
    """Everything that is printed, the summary first."""
    return [
        _goals(measured, radii),
        _speed(measured),
        _deciders(measured),
        _tails(measured),
        _radii(radii),
        _networks(measured),
    ]


def parser(words: str) -> argparse.ArgumentParser:
    """What every count on public tables can be told; ``$HOLDFAST_DATA`` or shared/data says where the tables are."""
    made = argparse.ArgumentParser(
        description=words, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--data", default=os.environ.get("HOLDFAST_DATA", str(ROOT.parent / "shared" / "data"))
    )
    made.add_argument("--quick", action="store_true")
    made.add_argument("--out", type=Path)
    return made


def publish(found: Sequence[Table], preface: str, out: Path | None, width: int = 140) -> None:
    """Print the tables; write them below the preface as a Markdown page, if asked."""
    for table in found:
        Console(width=max(width, Console().width)).print(table.for_terminal(), "\n")
    if out:
        parts = [preface, *(table.for_document() for table in found)]
        out.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _speed(measured: Sequence[Measurement]) -> Table:
    rows = []
    for m in measured:
        c = m.comparison
        rows.append(
            [
                *m.name,
                f"{len(m.certificates):,}",
                f"{m.forward * 1e9:.0f}",
                f"{m.interval:.2f}",
                f"{m.general:.2f}",
                f"{m.certify:.1f}",
                f"{m.certify * m.forward * 1e6:.2f}",
                f"{m.at_least}{c.seconds * 1e3:.1f}",
                m.times_faster,
                f"{c.rows - len(c.disagree)}/{c.rows}"
                + (f" ({c.unfinished} at limit)" if c.unfinished else ""),
            ]
        )
    columns = [
        "table",
        "net",
        "rows",
        "delta",
        "n",
        "forward ns/row",
        "interval, x >= 0",
        "interval, general",
    ]
    columns += ["certify", "certify us/row", "MILP ms/row", "times faster", "verdicts agree"]
    note = "Interval and certify as multiples of a forward pass (`network.logits`); certify against one MILP per row."
    return Table("Speed", columns, rows, note)


def _deciders(measured: Sequence[Measurement]) -> Table:
    names = ["forward pass", "interval", "attack", "linear bound", "branch and bound"]
    rows = []
    for m in measured:
        n, stages = len(m.certificates), m.stages
        rows.append(
            [
                *m.name,
                *(f"{100 * stages[name] / n:.2f}" for name in names),
                str(stages["exact"]),
                str(m.unknown),
                f"{100 * m.certificates.robust.mean():.1f}",
                f"{100 * m.interval_robust:.1f}",
            ]
        )
    columns = ["table", "net", "rows", "delta", *(f"{name} %" for name in names), "exact rows"]
    columns += ["UNKNOWN rows", "robust %", "robust by interval alone %"]
    return Table("Who decides", columns, rows, "Share of rows by the stage that settled them.")


def _tails(measured: Sequence[Measurement]) -> Table:
    rows = []
    for m in measured:
        t = m.tail
        searched = (
            [_quantiles(1e3 * t.searched, ".2f"), _quantiles(t.nodes, ",.0f")]
            if t.nodes.size
            else ["-", "-"]
        )
        parts = (t.prepared, *t.quick.values(), t.certify)
        singles = [f"{1e6 * np.median(part):.0f}" if part.size else "-" for part in parts]
        rows.append(
            [*m.name, *singles, f"{1e3 * t.certify.max():.2f}", str(t.nodes.size), *searched]
        )
    columns = [
        "table",
        "net",
        "rows",
        "delta",
        "prepared us",
        "by forward pass",
        "by interval",
        "certify us",
        "slowest ms",
        "searched rows",
    ]
    columns += ["ms: median, 90%, 99%, most", "branches: median, 90%, 99%, most"]
    note = "One row at a time: random rows by `prepare(...).certify` and by `certify`; rows that came to a search."
    return Table("Single rows, and the tail of the search", columns, rows, note)


def _quantiles(values: Floats, form: str) -> str:
    return ", ".join(format(value, form) for value in np.quantile(values, [0.5, 0.9, 0.99, 1.0]))


def _radii(radii: Sequence[RadiusTimes]) -> Table:
    rows = [
        [
            r.case.dataset,
            r.case.size,
            r.case.rows,
            str(r.rows),
            f"{r.batch * 1e3:.2f}",
            f"{r.slowest_batch * 1e3:.2f}",
            f"{r.single * 1e3:.2f}",
            f"{r.slowest_single * 1e3:.1f}",
            f"{r.median_radius:.4f}",
            f"{r.widest:.1e}",
        ]
        for r in radii
    ]
    columns = [
        "table",
        "net",
        "rows",
        "n",
        "ms/row, batches of 1,000: median",
        "slowest batch",
        "one by one: median",
    ]
    columns += ["slowest row", "median radius", "widest upper - lower"]
    note = "`certified_radius` at tol 1e-6, on random rows that the network accepts today."
    return Table("Certified radius", columns, rows, note)


def _networks(measured: Sequence[Measurement]) -> Table:
    seen = {(m.case.dataset, m.case.size, m.case.rows): m.case for m in measured}
    rows = [
        [
            c.dataset,
            c.size,
            c.rows,
            str(c.network.n_features),
            f"{100 * c.accuracy:.1f}",
            f"{100 * c.accepted:.1f}",
        ]
        for c in seen.values()
    ]
    return Table(
        "Networks",
        ["table", "net", "rows", "variables", "held-out accuracy %", "accepted today %"],
        rows,
    )


def _goals(measured: Sequence[Measurement], radii: Sequence[RadiusTimes]) -> Table:
    """What was aimed for, and what came."""
    shallow = [m for m in measured if not m.case.deep]
    deep = [m for m in measured if m.case.deep and m.delta <= 0.01]
    adult = [m for m in shallow if m.case.rows == "all" and m.delta <= 0.02]
    n = sum(len(m.certificates) for m in measured)
    last = sum(m.to_the_end for m in measured)
    shallow_n = sum(len(m.certificates) for m in shallow)
    shallow_last = sum(m.to_the_end for m in shallow)
    unknown = sum(m.unknown for m in measured)
    disagree = sum(len(m.comparison.disagree) for m in measured)
    compared = sum(m.comparison.rows for m in measured)
    slow = max(r.batch for r in radii) * 1e3
    left, deep_n = sum(m.unknown for m in deep), sum(len(m.certificates) for m in deep)
    ready = [1e6 * np.median(q) for m in shallow for q in m.tail.quick.values() if q.size]
    passes = {
        m.case.dataset: m.certify for m in shallow if m.case.rows == "accepted" and m.delta == 0.02
    }
    asked = {name: limit for name, limit in ACCEPTED.items() if name in passes}
    rows = [
        _most("interval, x >= 0, two hidden layers", "<= 1.5 passes", [m.interval for m in shallow], 1.5),
        _most("interval in general, two hidden layers", "<= 3 passes", [m.general for m in shallow], 3.0),
        _most("certify, all of adult, 2x20, delta <= 0.02", "<= 6 passes", [m.certify for m in adult], 6.0),
        *(_most(f"certify, rows of {name} that 2x20 accepts, delta 0.02", f"<= {limit:g} passes", [passes[name]], limit)
          for name, limit in asked.items()),
        _most("a prepared row, forward pass or interval, two hidden layers", "<= 50 us", ready, 50.0),
        _least("against one MILP per row, two hidden layers", ">= 3,000 times", shallow, 3000.0),
        _least("against one MILP per row, 3x64, delta <= 0.01", ">= 500 times", deep, 500.0),
        ["rows past branch and bound, two hidden layers", "< 1 in 10,000", f"{shallow_last} of {shallow_n:,}",
         _met(shallow_last * 10_000 < shallow_n)],
        ["rows past branch and bound, all networks", "< 1 in 10,000", f"{last} of {n:,}", _met(last * 10_000 < n)],
        ["rows left UNKNOWN, 3x64, delta <= 0.01", "0", f"{left} of {deep_n:,}", _met(left == 0)],
        ["rows left UNKNOWN", "0", f"{unknown} of {n:,}", _met(unknown == 0)],
        ["radius, batches of 1,000, two hidden layers", "median <= 1 ms", f"{slow:.2f} ms at worst", _met(slow <= 1.0)],
        ["verdicts unlike the MILP's", "0", f"{disagree} of {compared}", _met(disagree == 0)],
    ]  # fmt: skip
    return Table("Aims", ["what", "aim", "measured", "met"], rows)


def _most(what: str, aim: str, values: Sequence[float], limit: float) -> list[str]:
    share = f"{sum(v <= limit for v in values)} of {len(values)}"
    return [
        what,
        aim,
        f"{np.median(values):.2f} (median), {max(values):.2f} (worst)",
        _met(max(values) <= limit, share),
    ]


def _least(what: str, aim: str, measured: Sequence[Measurement], limit: float) -> list[str]:
    settled = [m for m in measured if not m.unknown]
    values = [m.speedup for m in settled]
    sign = ">= " if any(m.comparison.unfinished for m in settled) else ""
    text = (
        f"{sign}{np.median(values):,.0f} (median), {sign}{min(values):,.0f} (worst)"
        if values
        else "-"
    )
    if len(settled) < len(measured):
        text += f", {len(measured) - len(settled)} unsettled"
    good = sum(value >= limit for value in values)
    return [what, aim, text, _met(good == len(measured), f"{good} of {len(measured)}")]


def _met(yes: bool, share: str = "") -> str:
    return "yes" if yes else f"in {share}" if share else "no"
