"""The demo's words, in the order of the story."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

import holdfast as hf
from holdfast._network import Floats
from holdfast.calibration import CalibratedDelta
from holdfast.cli._screens import say, show_table
from holdfast.cli.demo._lender import MONTHS, MOST_RAISE, MOST_SAVINGS, NEW_APPLICANTS, Lender
from holdfast.features._describe import readable
from holdfast.presentation.report._counter import costliest_changes, parameter_name

SHOWN_CHANGES = 5
# Of the reasons for no advice, the commonest are printed.
SHOWN_REASONS = 3


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
        f"A lender decides with a neural network ({' + '.join(map(str, network.hidden))} hidden neurons, "
        f"{network.n_parameters} parameters). It learned from {len(lender.applicants):,} made-up applicants and "
        f"is right about {lender.accuracy:.0%} of new ones.",
        "The lender",
    )


def show_updates(calibrated: CalibratedDelta, delta: float, asked: float | None) -> None:
    """The distances that updates moved the model, and delta."""
    distances = calibrated.evidence["distance"]
    least, middle, most = distances.quantile([0.0, 0.5, 1.0])
    within = int((distances <= delta).sum())
    tell(
        f"Each month the lender updates the model with {NEW_APPLICANTS} new applicants. In {MONTHS} such updates the "
        f"largest change of a parameter was {least:.4f} to {most:.4f} (median {middle:.4f}); {within} of the {MONTHS} "
        f"stayed within [bold]delta = {delta:g}[/bold]. The next update stays within delta with a probability of at "
        f"least {calibrated.guaranteed:.0%}, if its applicants come from the same population.",
        "How far does the model move?",
    )
    if asked is not None:
        tell(f"You asked for delta = {asked:g} instead.")


def show_cheapest(cheapest: hf.Recourse, delta: float) -> None:
    """The advice that looks at today's model only."""
    n = len(cheapest)
    found, robust = int(cheapest.found.sum()), int(cheapest.robust.sum())
    tell(
        f"{n} rejected applicants ask what they could change. The lender's schema keeps age, dependants, missed "
        "payments, credit history, employment and housing as they are. Debt and card utilisation only go down. Income "
        f"rises by {MOST_RAISE:.0%} at most, savings to {MOST_SAVINGS:,} € at most. Each cost is the average change "
        "of a variable as a share of its range; income counts ten times, savings five times.",
        "The cheapest advice",
    )
    tell(
        f"{found} of {n} people get the cheapest advice that today's model accepts. Then the model is updated, and "
        f"each parameter may move by up to delta = {delta:g}."
    )
    tell(f"\n[bold]{robust} of {found} promises are proven for every such model.[/bold]")


def show_broken(lender: Lender, advice: hf.Recourse, row: int) -> None:
    """One promise that a plausible update breaks, with the model that breaks it."""
    network, point = lender.network, advice.points[row]
    certificates = advice.certificates
    place = int(np.searchsorted(advice.answered, row))
    witness = None if certificates is None else certificates.witness(place)
    assert isinstance(witness, hf.Network)
    radius = float(advice.radii.lower[row])
    Console().rule(f"A promise that can be broken: applicant {advice.factuals.index[row]}")
    _show_changes(advice.space, advice.people.numbers[row], advice.answers[place])
    rows = []
    for name, model in (("today's model", network), ("counter-model", witness)):
        margin = float(model.logits(point[None])[0, 0])
        decision = "accepted" if margin >= 0 else Text("rejected", "bold")
        rows.append((name, f"{margin:+.3f}", f"{1 / (1 + np.exp(-margin)):.1%}", decision))
    show_table(
        ("", "margin (logit)", "probability", "decision"), rows, right=("margin (logit)", "probability"),
        title="decisions about an applicant who followed the advice",
    )  # fmt: skip
    tell(
        f"Each of the counter-model's {witness.n_parameters} parameters is within "
        f"{hf.parameter_distance(network, witness):.3g} of today's. The promise is proven only for updates within "
        f"{radius:.2g}."
    )
    names = [name.replace("_", " ") for name in lender.variable_names()]
    changes = []
    for change in costliest_changes(network, witness, point, 1, SHOWN_CHANGES):
        signed = (f"{number:+.3f}" for number in (change.today, change.changed, change.effect))
        changes.append((parameter_name(network, names, change), *signed))
    numbers = ("today", "counter-model", "effect")
    title = "the changes of parameters that lower the margin most"
    show_table(("parameter", *numbers), changes, right=numbers, title=title)


def _show_changes(space: hf.FeatureSpace, before: Floats, after: Floats) -> None:
    """Before and after in raw units; an equals sign for columns that stay."""
    rows = []
    for feature, old, new in zip(space.features, before.tolist(), after.tolist(), strict=True):
        today, promised = (readable(feature, number, space.notes) for number in (old, new))
        changed = "=" if old == new else Text(promised, "bold")
        rows.append((space.label(feature.name), today, changed, feature.unit))
    columns = ("today", "promised if")
    show_table(("", *columns, "unit"), rows, right=columns, title="the advice")


def show_robust(robust: hf.Recourse, cheapest: hf.Recourse, n: int) -> None:
    """The cheapest advice that every model in Δ accepts, a few people of it, and who gets none."""
    proven, kept = int(robust.robust.sum()), robust.found & cheapest.found
    tell(
        f"{robust.found.sum()} of {len(robust)} people get the cheapest advice that every model within delta accepts.",
        "The robust advice",
    )
    dearer = ""
    if kept.any():
        more = robust.cost_l1[kept].sum() / cheapest.cost_l1[kept].sum() - 1
        dearer = f" For the {kept.sum()} people with both, it costs {more:.0%} more than the cheapest advice."
    tell(f"\n[bold]{proven} of {robust.found.sum()} promises are proven.[/bold]{dearer}")
    for row in np.flatnonzero(robust.found)[:n].tolist():
        tell(f"\n[bold]Applicant {robust.factuals.index[row]}[/bold]")
        say(f"  cheapest: {_advice(cheapest, row)}")
        say(f"  robust:   {_advice(robust, row)}")
    reasons = Counter(str(reason).partition(";")[0] for reason in robust.reason[~robust.found])
    if reasons:
        tell(f"\n{sum(reasons.values())} people get no advice, each with a reason:")
    for reason, count in reasons.most_common(SHOWN_REASONS):
        say(f"  {count} people: {reason}")


def _advice(recourse: hf.Recourse, row: int) -> str:
    if not recourse.found[row]:
        return recourse.describe(row)
    verdict = "proven" if recourse.robust[row] else "can be broken"
    return f"{recourse.describe(row)} ({verdict}, cost {recourse.cost_l1[row]:.3f})"


def show_files(out: Path, delta: float, seconds: float) -> None:
    """The picture, the report, and the next command to try."""
    Console().rule("Look at")
    say(f"picture  {out}/demo.png")
    say(f"report   {out}/report.html  (open it in a browser)")
    say("Certify the cheapest advice again from the command line:")
    say(
        f"  holdfast certify --model {out}/model.npz --data {out}/promises.csv --index applicant --target 1 "
        f"--delta {delta:g}"
    )
    say(f"({seconds:.1f} s)")
