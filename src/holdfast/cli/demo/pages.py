"""What the demo says, in the order in which it says it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import holdfast as hf
from holdfast.cli import screens
from holdfast.cli.demo.story import (
    FIXED,
    MONTHS,
    NEW_APPLICANTS,
    Findings,
    Lender,
    Promises,
    Updates,
)
from holdfast.presentation.report.counter import costliest_changes

UNITS = {
    "income": "€ a year",
    "debt": "€",
    "card_utilisation": "% of limit",
    "missed_payments": "in 24 months",
    "months_of_history": "months",
    "age": "years",
    "dependants": "people",
    "savings": "€",
}
SHOWN_CHANGES = 5


def show_lender(console: Console, lender: Lender) -> None:
    """The model and the table it learned from."""
    network = lender.network
    console.rule("The lender")
    console.print(
        f"A neural network ({' + '.join(map(str, network.hidden))} hidden neurons, {network.n_parameters} parameters) "
        f"learned from {len(lender.applicants):,} made-up loan applicants whom to accept; it is right about "
        f"{lender.accuracy:.0%} of new ones."
    )


def show_updates(console: Console, updates: Updates, asked: float | None) -> None:
    """How far updates move the model, and the delta that follows from it."""
    least, middle, most = (float(np.quantile(updates.distances, q)) for q in (0.0, 0.5, 1.0))
    console.rule("How far does the model move?")
    console.print(
        f"Every month the model learns on from {NEW_APPLICANTS} new applicants. {MONTHS} such updates of today's "
        f"model, no applicant in two of them, each moved some parameter by {least:.4f} to {most:.4f} "
        f"({middle:.4f} in the median). So the next update moves none by more than "
        f"[bold]delta = {updates.delta:g}[/bold], with a probability of at least {updates.guaranteed:.0%} if its "
        "applicants come as these did."
    )
    if asked is not None:
        console.print(f"You asked for delta = {asked:g} instead.")


def show_verdicts(console: Console, lender: Lender, promises: Promises, findings: Findings) -> None:
    """How many promises survive, and who decided."""
    result = findings.certificates.to_frame()
    console.rule("The promises")
    console.print(
        f"{len(promises.after)} rejected applicants are each told: become like the nearest accepted applicant "
        f"({', '.join(FIXED).replace('_', ' ')} left as they are) and you will be accepted. "
        "Today's model accepts every one of these."
    )
    console.print(
        f"Then the model is updated. Which promises does every model keep whose parameters each lie within "
        f"delta = {findings.delta:g} of today's?"
    )
    robust = int(result["robust"].sum())
    console.print(
        f"\n[bold]{robust} of {len(result)} promises survive every such model ({robust / len(result):.0%}).[/bold]"
    )
    interval = int((result["robust"] & (result["decided_by"] == "interval")).sum())
    console.print(f"Interval arithmetic alone would have proven {interval} of them.")
    console.print(screens.shares(result["verdict"], "verdict"))
    console.print(screens.shares(result["decided_by"], "decided by"))


def show_broken(console: Console, lender: Lender, promises: Promises, findings: Findings, row: int) -> None:
    """One promise that does not survive, with the model that breaks it."""
    witness = findings.certificates.witness(row)
    if witness is None:
        return
    applicant = promises.after.index[row]
    point = lender.variables(promises.after)[row]
    console.rule(f"A promise that breaks: applicant {applicant}")
    console.print(_advice(promises, row))
    console.print(_two_models(lender.network, witness, point))
    distance = hf.parameter_distance(lender.network, witness)
    console.print(
        f"The counter-model is as plausible as any other in Δ: none of its {witness.n_parameters} parameters is "
        f"further than {distance:.3g} from today's. The promise is safe only while they stay "
        f"within {findings.radius[row]:.4f}."
    )
    console.print(_costliest(lender, witness, point))


def show_files(console: Console, out: Path, delta: float, seconds: float) -> None:
    """Where the picture and the report are, and what to try next."""
    folder = escape(str(out))
    console.rule("To look at")
    console.print(f"picture  {folder}/demo.png", soft_wrap=True)
    console.print(f"report   {folder}/report.html  (open it in a browser)", soft_wrap=True)
    console.print("the same from the command line:")
    console.print(
        f"  holdfast certify --model {folder}/model.npz --data {folder}/promises.csv --index applicant --target 1 "
        f"--delta {delta:g}",
        soft_wrap=True,
    )
    console.print(f"({seconds:.1f} s)")


def _advice(promises: Promises, row: int) -> Table:
    """Before and after in raw units; what stays as it is comes without an arrow."""
    before, after = promises.before.iloc[row], promises.after.iloc[row]
    table = Table(title="the advice", title_justify="left")
    for heading in ("", "today", "promised if", "unit"):
        table.add_column(heading, justify="right" if heading in ("today", "promised if") else "left")
    for name in promises.after.columns:
        old, new = _amount(before[name]), _amount(after[name])
        table.add_row(name.replace("_", " "), old, "=" if old == new else f"[bold]{new}[/bold]", UNITS.get(name, ""))
    return table


def _two_models(network: hf.Network, witness: hf.Network, point: np.ndarray) -> Table:
    table = Table(title="what they say to an applicant who followed it", title_justify="left")
    for heading in ("", "margin (logit)", "probability", "decision"):
        table.add_column(heading, justify="left" if heading in ("", "decision") else "right")
    for name, model in (("today's model", network), ("counter-model", witness)):
        margin = float(model.logits(point[None])[0, 0])
        decision = "accepted" if margin >= 0 else "[bold]rejected[/bold]"
        table.add_row(name, f"{margin:+.3f}", f"{1 / (1 + np.exp(-margin)):.1%}", decision)
    return table


def _costliest(lender: Lender, witness: hf.Network, point: np.ndarray) -> Table:
    table = Table(title="the changes that cost this applicant most", title_justify="left")
    for heading in ("layer", "from", "to", "today", "counter-model", "effect"):
        table.add_column(heading, justify="left" if heading in ("layer", "from", "to") else "right")
    n_layers = len(witness.weights)
    changes = costliest_changes(lender.network, witness, point, lender.variable_names(), SHOWN_CHANGES)
    for change in changes:
        to = "score" if change.layer == n_layers - 1 else f"neuron {change.neuron + 1}"
        table.add_row(
            str(change.layer + 1),
            change.source.replace("_", " "),
            to,
            f"{change.today:+.3f}",
            f"{change.changed:+.3f}",
            f"{change.effect:+.3f}",
        )
    return table


def _amount(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float | np.number) else str(value)
