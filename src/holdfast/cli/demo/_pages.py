"""What the demo says, in the order in which it says it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.text import Text

import holdfast as hf
from holdfast.calibration import CalibratedDelta
from holdfast.cli._screens import say, show_shares, show_table
from holdfast.cli.demo._lender import FIXED, MONTHS, MOST_SAVINGS, NEW_APPLICANTS, Lender
from holdfast.presentation.report._counter import costliest_changes, parameter_name

SHOWN_CHANGES = 5


def tell(text: str, rule: str = "") -> None:
    """A paragraph, below a heading if there is one."""
    console = Console(highlight=False)
    if rule:
        console.rule(rule)
    console.print(text)


def show_lender(lender: Lender) -> None:
    """The model and the table it learned from."""
    network = lender.network
    tell(
        f"A neural network ({' + '.join(map(str, network.hidden))} hidden neurons, {network.n_parameters} parameters) "
        f"learned from {len(lender.applicants):,} made-up loan applicants whom to accept; it is right about "
        f"{lender.accuracy:.0%} of new ones.",
        "The lender",
    )


def show_updates(calibrated: CalibratedDelta, delta: float, asked: float | None) -> None:
    """How far updates move the model, and the delta that follows from it."""
    least, middle, most = calibrated.evidence["distance"].quantile([0.0, 0.5, 1.0])
    tell(
        f"Every month the model learns on from {NEW_APPLICANTS} new applicants. {MONTHS} such updates of today's "
        f"model, no applicant in two of them, each moved some parameter by {least:.4f} to {most:.4f} "
        f"({middle:.4f} in the median). So the next update moves none by more than "
        f"[bold]delta = {delta:g}[/bold], with a probability of at least {calibrated.guaranteed:.0%} if its "
        "applicants come as these did.",
        "How far does the model move?",
    )
    if asked is not None:
        tell(f"You asked for delta = {asked:g} instead.")


def show_verdicts(certificates: pd.DataFrame, delta: float) -> None:
    """How many promises survive, and who decided."""
    n = len(certificates)
    robust = certificates["robust"]
    tell(
        f"{n} rejected applicants are each told: become like the nearest accepted applicant "
        f"({', '.join(FIXED).replace('_', ' ')} left as they are) and you will be accepted. "
        "Today's model accepts every one of these.",
        "The promises",
    )
    tell(
        f"Then the model is updated. Which promises does every model keep whose parameters each lie within "
        f"delta = {delta:g} of today's?"
    )
    tell(
        f"\n[bold]{robust.sum()} of {n} promises survive every such model ({robust.mean():.0%}).[/bold]"
    )
    interval = robust & (certificates["decided_by"] == "interval")
    tell(f"Interval arithmetic alone would have proven {interval.sum()} of them.")
    show_shares(Counter(certificates["verdict"]), "verdict")
    show_shares(Counter(certificates["decided_by"]), "decided by")


def show_broken(
    lender: Lender, promises: hf.Recourse, row: int, witness: hf.Network, radius: float
) -> None:
    """One promise that does not survive, with the model that breaks it."""
    network = lender.network
    point = promises.points[row]
    Console().rule(f"A promise that breaks: applicant {promises.factuals.index[row]}")
    _show_advice(promises.space, promises.factuals.iloc[row], promises.counterfactuals.iloc[row])
    rows = []
    for name, model in (("today's model", network), ("counter-model", witness)):
        margin = float(model.logits(point[None])[0, 0])
        decision = "accepted" if margin >= 0 else Text("rejected", "bold")
        rows.append((name, f"{margin:+.3f}", f"{1 / (1 + np.exp(-margin)):.1%}", decision))
    show_table(
        ("", "margin (logit)", "probability", "decision"), rows, right=("margin (logit)", "probability"),
        title="what they say to an applicant who followed it",
    )  # fmt: skip
    tell(
        f"The counter-model is as plausible as any other in Δ: none of its {witness.n_parameters} parameters is "
        f"further than {hf.parameter_distance(network, witness):.3g} from today's. The promise is safe only while "
        f"they stay within {radius:.4f}."
    )
    names = [name.replace("_", " ") for name in lender.variable_names()]
    changes = []
    for change in costliest_changes(network, witness, point, 1, SHOWN_CHANGES):
        signed = (f"{number:+.3f}" for number in (change.today, change.changed, change.effect))
        changes.append((parameter_name(network, names, change), *signed))
    numbers = ("today", "counter-model", "effect")
    title = "the changes that cost this applicant most"
    show_table(("parameter", *numbers), changes, right=numbers, title=title)


def _show_advice(space: hf.FeatureSpace, before: pd.Series, after: pd.Series) -> None:
    """Before and after in raw units; what stays as it is has an equals sign."""
    rows = []
    for name in before.index:
        old, new = (
            value if isinstance(value, str) else f"{value:,}"
            for value in (before[name], after[name])
        )
        rows.append(
            (
                name.replace("_", " "),
                old,
                "=" if old == new else Text(new, "bold"),
                space[name].unit,
            )
        )
    columns = ("today", "promised if")
    show_table(("", *columns, "unit"), rows, right=columns, title="the advice")


def show_advice(closest: hf.Recourse, neighbour: hf.Recourse, delta: float) -> None:
    """For a few applicants the cheapest robust change and the nearest robust neighbour, in words."""
    tell(
        f"The same question, asked so that the answer survives every model within delta = {delta:g}: what is the least "
        "that these applicants could change? Age and dependants stay, a credit history only grows, income and savings "
        f"only rise (savings to {MOST_SAVINGS:,} € at most), debt, card utilisation and missed payments only fall; "
        "euros come in round steps. A higher income and a longer history count ten times, as they are the hardest to "
        "come by, savings five times.",
        "Promises that hold",
    )
    for row, applicant in enumerate(closest.factuals.index):
        tell(f"\n[bold]Applicant {applicant}[/bold]")
        say(f"  cheapest:  {_answer(closest, row)}")
        say(f"  neighbour: {_answer(neighbour, row)}")
    both = closest.found & neighbour.found
    if both.any():
        saved = 1 - closest.cost_l1[both].sum() / neighbour.cost_l1[both].sum()
        tell(
            f"\nCheapest: no robust change costs less, proven up to the gap. Neighbour: another applicant's row, moved "
            f"back as far as Δ allows. The cheapest changes cost {saved:.0%} less."
        )


def _answer(recourse: hf.Recourse, row: int) -> str:
    if not recourse.found[row]:
        return recourse.describe(row)
    gap = recourse.optimality_gap[row]
    proof = (
        ""
        if gap != gap
        else ", proven cheapest"
        if gap <= 1e-4
        else f", at most {gap:.0%} above the cheapest"
    )
    return f"{recourse.describe(row)} ({recourse.verdict[row]}, cost {recourse.cost_l1[row]:.3f}{proof})"


def show_files(out: Path, delta: float, seconds: float) -> None:
    """Where the picture and the report are, and what to try next."""
    Console().rule("To look at")
    say(f"picture  {out}/demo.png")
    say(f"report   {out}/report.html  (open it in a browser)")
    say("the same from the command line:")
    say(
        f"  holdfast certify --model {out}/model.npz --data {out}/promises.csv --index applicant --target 1 "
        f"--delta {delta:g}"
    )
    say(f"({seconds:.1f} s)")
