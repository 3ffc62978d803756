"""The picture of README.md: the same applicant with the cheapest advice and with holdfast's.

    python docs/figures/first.py        writes docs/images/first.png and prints the figures that README quotes

Lines are decisions of real models: today's, and each of 20 monthly updates of it. Seeded: the same picture each time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from rich.console import Console
from sklearn.neural_network import MLPClassifier

import holdfast as hf
from holdfast.datasets import make_loans
from holdfast.presentation.pictures._drawing import new_figure

OUT = Path(__file__).resolve().parent.parent / "images" / "first.png"
DELTA, MONTHS, PEOPLE, APPLICANT = 0.01, 20, 50, 15
DEBTS, INCOMES, GRID = (15_000.0, 28_000.0), (62_000.0, 70_000.0), 200
TODAY, UPDATE, REFUSED, KEPT, PROVEN = "black", "0.55", "#c00000", "#005a9c", "#dbe9f6"


def main() -> None:
    """Train as README does, advise, retrain, draw and print."""
    loans = make_loans(2000)
    X, accepted = loans.drop(columns="accepted"), loans["accepted"]
    space = hf.FeatureSpace.from_frame(
        X,
        immutable=[
            "age", "dependants", "missed_payments", "months_of_history", "employment", "housing"
        ],
        increasing=["income", "savings"],
        decreasing=["debt", "card_utilisation"],
        max_change={"income": 0.4},
        steps={"income": 250, "debt": 100, "savings": 50},
    ).constrained(ranges={"savings": (0, 40_000)})  # fmt: skip
    clf = MLPClassifier((8,), max_iter=1000, random_state=0).fit(space.encode(X), accepted)
    rejected = X[clf.predict(space.encode(X)) == 0].head(PEOPLE)
    new = make_loans(MONTHS * 1000, seed=1)
    updates = hf.retrain(
        clf, space.encode(new.drop(columns="accepted")), new["accepted"], how="incremental",
        share=1 / MONTHS, n=MONTHS, disjoint=True,
    )  # fmt: skip
    changes = hf.PlausibleChanges(DELTA)
    advice = {
        "cheapest advice": hf.explain(
            clf, rejected, target=1, changes=changes, generator=hf.MCE(), space=space
        ),
        "holdfast": hf.explain(
            clf, rejected, target=1, changes=changes, generator=hf.Closest(), space=space
        ),
    }
    cheap, robust = (told.cost_l1[advice["holdfast"].found].mean() for told in advice.values())
    models = [hf.load_network(model) for model in updates.models]
    console = Console()
    console.print(hf.delta_calibrated(updates, coverage=0.9))
    today = hf.load_network(clf)
    within = sum(hf.parameter_distance(today, model) <= DELTA for model in models)
    console.print(f"{within} of {MONTHS} updates move no parameter by more than {DELTA}")
    for name, told in advice.items():
        refused = sum(model.predict(told.points[told.found]) == 0 for model in models)
        console.print(name, told, f"{np.mean(refused) / MONTHS:.1%} refused by an update")
        console.print(told.describe(told.factuals.index.get_loc(APPLICANT)))
    console.print(f"proven advice costs {robust / cheap - 1:.1%} more for the same people")
    helped = int(advice["cheapest advice"].found.sum())
    figure = new_figure("the picture", (9.2, 5.9), w_pad=0.12)
    notes = (" ", f"{robust / cheap - 1:.0%} more cost")
    for ax, (name, told), more in zip(
        figure.subplots(1, 2, sharey=True), advice.items(), notes, strict=True
    ):
        draw(ax, name, told, space, [today, *models], helped, more)
    figure.savefig(OUT, dpi=110)


def draw(
    ax: Axes,
    name: str,
    told: hf.Recourse,
    space: hf.FeatureSpace,
    models: list[hf.Network],
    helped: int,
    more: str,
) -> None:
    """One panel: the lines of today's model (the first) and its updates, and the step that a person is asked for."""
    row = told.factuals.index.get_loc(APPLICANT)
    person, goal = told.factuals.loc[APPLICANT], told.counterfactuals.loc[APPLICANT]
    debts, incomes = np.linspace(*DEBTS, GRID).round(), np.linspace(*INCOMES, GRID).round()
    plane = told.counterfactuals.loc[[APPLICANT] * (GRID * GRID)].reset_index(drop=True)
    plane["debt"], plane["income"] = np.tile(debts, GRID), np.repeat(incomes, GRID)
    points = space.encode(plane)
    proven = hf.output_bounds(models[0], points, hf.PlausibleChanges(DELTA)).lower[:, 0] >= 0
    where = (debts / 1000, incomes / 1000)
    ax.contourf(*where, proven.reshape(GRID, GRID), [0.5, 1.5], colors=[PROVEN])
    for model in models[::-1]:
        logits = model.logits(points)[:, 0].reshape(GRID, GRID)
        look = (TODAY, 3.5) if model is models[0] else (UPDATE, 1.2)
        ax.contour(*where, logits, [0.0], colors=look[0], linewidths=look[1])
    start, end = ((one["debt"] / 1000, one["income"] / 1000) for one in (person, goal))
    refused = sum(int(model.predict(told.points[[row]])[0] == 0) for model in models[1:])
    colour = REFUSED if refused else KEPT
    ax.plot(*zip(start, end, strict=True), color=colour, linewidth=4)
    ax.plot(*start, "o", color=TODAY, markersize=13)
    ax.plot(
        *end, "X" if refused else "*", color=colour, markersize=22 if refused else 28, mec="white"
    )
    proven_people = sum(verdict is hf.Verdict.ROBUST for verdict in told.verdict)
    ax.set_title(name, fontsize=26, fontweight="bold", color=colour)
    ax.set_xlabel(
        f"debt {person['debt']:,.0f} → {goal['debt']:,.0f} €\naccepted today and\n"
        f"by {MONTHS - refused} of {MONTHS} next models\n{proven_people} of {helped} people proven\n{more}",
        fontsize=24,
        color=colour,
    )
    corner = {"transform": ax.transAxes, "fontsize": 18}
    ax.text(0.03, 0.97, "proven:\nevery model\nwithin δ\naccepts", va="top", color=KEPT, **corner)
    ax.text(0.98, 0.03, "today\nand 20\nupdates", va="bottom", ha="right", **corner)
    ax.set_xticks([])
    ax.set_yticks([])


if __name__ == "__main__":
    main()
