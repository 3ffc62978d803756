"""The demo's last part: recourse for rejected applicants that is certified as it is handed out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

import holdfast as hf
from holdfast.cli.demo.story import Lender, Promises, Updates
from holdfast.generators import RNCE, Closest, Recourse, explain
from holdfast.generators.stated import recourse_from

APPLICANTS = 4
_SECONDS_EACH = 5.0
_UNITS: dict[str | int, str] = {
    "income": "€ a year",
    "debt": "€",
    "savings": "€",
    "card_utilisation": "percent",
    "age": "years",
    "months_of_history": "months",
}
_LABELS: dict[str | int, str] = {
    "card_utilisation": "card utilisation",
    "missed_payments": "missed payments",
    "months_of_history": "months of credit history",
}
# Nobody is told to save up what few applicants have.
_MOST_SAVINGS = 40_000


@dataclass(frozen=True)
class Advice:
    """For a few applicants: the nearest robust neighbour, and the cheapest robust change that there is."""

    neighbour: Recourse
    closest: Recourse


def loan_space(lender: Lender) -> hf.FeatureSpace:
    """What an applicant can change: nobody grows younger, sends a dependant away or shortens a credit history."""
    return hf.FeatureSpace.from_pipeline(
        lender.pipeline,
        lender.applicants,
        immutable=["age", "dependants"],
        increasing=["income", "savings", "months_of_history"],
        decreasing=["debt", "card_utilisation", "missed_payments"],
        steps={"income": 250, "debt": 100, "savings": 50},
        ranges={"savings": (0, _MOST_SAVINGS)},
        costs={"income": 10.0, "months_of_history": 10.0, "savings": 5.0},
        units=_UNITS,
        labels=_LABELS,
        protected=["age"],
    )


def find_advice(lender: Lender, promises: Promises, delta: float) -> Advice:
    """Recourse for the first of those who got a promise."""
    people, space, changes = promises.before.head(APPLICANTS), loan_space(lender), hf.PlausibleChanges(delta)
    neighbour = explain(
        lender.pipeline, people, target=1, changes=changes, generator=RNCE(lender.applicants, line_search=True),
        space=space,
    )  # fmt: skip
    closest = explain(
        lender.pipeline, people, target=1, changes=changes, generator=Closest(), space=space,
        time_limit=_SECONDS_EACH, progress=False,
    )  # fmt: skip
    return Advice(neighbour, closest)


def report_advice(lender: Lender, promises: Promises, updates: Updates, delta: float, path: Path) -> Path:
    """The report on robust advice for everyone who got a promise, beside the promises that only look at today."""
    space, changes = loan_space(lender), hf.PlausibleChanges(delta)
    robust = explain(
        lender.pipeline, promises.before, target=1, changes=changes, space=space,
        generator=RNCE(lender.applicants, line_search=True), progress=False,
    )  # fmt: skip
    naive = recourse_from(lender.pipeline, promises.before, promises.after, target=1, changes=changes, space=space)
    return hf.report(
        robust, path, title="Advice to rejected loan applicants", name="robust neighbour", outcome="a loan",
        others={"nearest neighbour": naive}, calibrated=updates.calibrated, progress=False,
    )  # fmt: skip


def show_advice(console: Console, advice: Advice, delta: float) -> None:
    """Each applicant's two ways, in words."""
    console.rule("Promises that hold")
    console.print(
        f"The same question, asked so that the answer survives every model within delta = {delta:g}: what is the least "
        "that these applicants could change? Age and dependants stay, a credit history only grows, income and savings "
        f"only rise (savings to {_MOST_SAVINGS:,} € at most), debt, card utilisation and missed payments only fall; "
        "euros come in round steps. A higher income and a longer history count ten times, as they are the hardest to "
        "come by, savings five times."
    )
    for row in range(len(advice.closest)):
        console.print(f"\n[bold]Applicant {advice.closest.counterfactuals.index[row]}[/bold]")
        for title, recourse in (("cheapest", advice.closest), ("neighbour", advice.neighbour)):
            console.print(f"  {title + ':':10} {escape(_answer(recourse, row))}", soft_wrap=True)
    both = advice.closest.found & advice.neighbour.found
    if both.any():
        saved = 1 - advice.closest.cost_l1[both].sum() / advice.neighbour.cost_l1[both].sum()
        console.print(
            f"\nCheapest: no robust change costs less, proven up to the gap. Neighbour: another applicant's row, moved "
            f"back as far as Δ allows. The cheapest changes cost {saved:.0%} less."
        )


def _answer(recourse: Recourse, row: int) -> str:
    if not recourse.found[row]:
        return recourse.describe(row)
    gap = recourse.optimality_gap[row]
    proof = "" if gap != gap else ", proven cheapest" if gap <= 1e-4 else f", at most {gap:.0%} above the cheapest"
    return f"{recourse.describe(row)} ({recourse.verdict[row]}, cost {recourse.cost_l1[row]:.3f}{proof})"
