"""The picture of docs/methods.md: every method's answer for the same person, with income and savings alone to see it.

    python docs/figures/methods.py        writes docs/images/methods.png and prints the figures that the page quotes

Seeded: the same picture and the same figures each time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from rich.console import Console
from sklearn.neural_network import MLPClassifier

import holdfast as hf
from holdfast.generators import (
    GCE,
    MCE,
    NNCE,
    PROTO,
    RBR,
    RNCE,
    ROAR,
    STCE,
    Closest,
    Generator,
    Robust,
)
from holdfast.presentation.pictures._drawing import new_figure

OUT = Path(__file__).resolve().parent.parent / "images" / "methods.png"
DELTA = hf.PlausibleChanges(0.04)
STEPS = {"income": 0.1, "savings": 0.1}
TRAINING_ROWS, CANDIDATES = 1200, 200
GRID = 240
ROBUST_SHADE, EDGE = "0.84", "0.35"


def make_people(n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Income and savings, and who paid back: a little of the one takes much of the other."""
    rng = np.random.default_rng(7)
    people = pd.DataFrame(
        {"income": rng.beta(2.0, 2.2, n) * 60, "savings": rng.beta(1.6, 2.4, n) * 30}
    ).round(1)
    score = people["income"] / 60 * people["savings"] / 30
    return people, (score + rng.normal(0.0, 0.02, n) > 0.15).to_numpy(dtype=int)


def methods(people: pd.DataFrame) -> dict[str, Generator]:
    """In the order of the panels: first those that look at today's model alone, then those that look further."""
    return {
        "NNCE": NNCE(people),
        "GCE": GCE(),
        "PROTO": PROTO(people),
        "MCE": MCE(),
        "ST-CE": STCE(people),
        "RBR": RBR(people),
        "ROAR": ROAR(),
        "Robust(GCE)": Robust(GCE()),
        "RNCE": RNCE(people),
        "RNCE, line search": RNCE(people, line_search=True),
        "Robust(MCE)": Robust(MCE()),
        "Closest": Closest(),
    }


def main() -> None:
    """Train, ask every method, draw and print."""
    people, paid = make_people(TRAINING_ROWS)
    space = hf.FeatureSpace.from_frame(
        people, ranges={"income": (0, 60), "savings": (0, 30)}, steps=STEPS
    )
    clf = MLPClassifier(
        (8, 8),
        alpha=1e-3,
        max_iter=400,
        learning_rate_init=0.02,
        tol=1e-6,
        n_iter_no_change=50,
        random_state=3,
    ).fit(space.encode(people), paid)
    people = people.head(CANDIDATES)
    person = pd.DataFrame({"income": [16.0], "savings": [6.0]})
    answers = {
        name: hf.explain(clf, person, target=1, changes=DELTA, generator=generator, space=space)
        for name, generator in methods(people).items()
    }
    draw(clf, space, people, person, answers)
    for name, answer in answers.items():
        Console(width=120).print(
            f"{name:18} {answer.describe(0):64} cost_l1 {answer.cost_l1[0]:.3f}  {answer.verdict[0]}",
            highlight=False,
        )


def draw(
    clf: MLPClassifier,
    space: hf.FeatureSpace,
    people: pd.DataFrame,
    person: pd.DataFrame,
    answers: dict[str, hf.Recourse],
) -> None:
    """Small multiples, one for each method."""
    income, savings = np.meshgrid(np.linspace(0, 60, GRID), np.linspace(0, 30, GRID))
    everywhere = space.encode(pd.DataFrame({"income": income.ravel(), "savings": savings.ravel()}))
    network = hf.load_network(clf)
    today = network.logits(everywhere).reshape(GRID, GRID)
    robust = hf.certify(network, everywhere, 1, DELTA, progress=False).robust.reshape(GRID, GRID)
    accepted = network.predict(space.encode(people)) == 1
    figure = new_figure("the picture of the methods", (10.4, 8.8))
    panels = figure.subplots(3, 4, sharex=True, sharey=True)
    for axes, (name, answer) in zip(panels.flat, answers.items(), strict=True):
        axes.contourf(
            income, savings, robust.astype(float), levels=[0.5, 1.5], colors=[ROBUST_SHADE]
        )
        axes.contour(income, savings, today, levels=[0.0], colors="black", linewidths=1.2)
        axes.plot(
            people["income"][accepted], people["savings"][accepted], ".", color=EDGE, markersize=2.5
        )
        draw_answer(axes, name, person, answer)
        axes.set(xlim=(0, 60), ylim=(0, 30), xticks=[0, 20, 40, 60], yticks=[0, 10, 20, 30])
    for axes in panels[-1]:
        axes.set_xlabel("income, thousands a year", fontsize="small")
    for axes in panels[:, 0]:
        axes.set_ylabel("savings, thousands", fontsize="small")
    figure.legend(
        handles=legend(), loc="outside lower center", ncols=3, frameon=False, fontsize="small"
    )
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=130)


def draw_answer(axes: Axes, name: str, person: pd.DataFrame, answer: hf.Recourse) -> None:
    """The way from the person to the answer; filled where Δ accepts it, a cross where it can be broken."""
    start, end = person.iloc[0], answer.counterfactuals.iloc[0].astype(float)
    holds = answer.verdict[0] is hf.Verdict.ROBUST
    axes.plot(
        [start["income"], end["income"]],
        [start["savings"], end["savings"]],
        "-",
        color="black",
        linewidth=1,
    )
    axes.plot(
        start["income"], start["savings"], "o", color="black", markerfacecolor="white", markersize=6
    )
    marker = (
        {"marker": "o", "markersize": 8}
        if holds
        else {"marker": "X", "markersize": 9, "markeredgecolor": "white"}
    )
    axes.plot(end["income"], end["savings"], color="black", linestyle="none", **marker)
    axes.set_title(name, loc="left", fontweight="bold", fontsize="medium")
    axes.set_title(f"cost {answer.cost_l1[0]:.3f}", loc="right", fontsize="small")


def legend() -> list[Line2D | Patch]:
    """What the marks mean."""
    mark = {"color": "black", "linestyle": "none"}
    return [
        Line2D([], [], marker="o", markerfacecolor="white", label="the person, rejected", **mark),
        Line2D(
            [],
            [],
            marker="o",
            markersize=8,
            label="answer, robust: every model in Δ accepts",
            **mark,
        ),
        Line2D(
            [],
            [],
            marker="X",
            markersize=8,
            label="answer, not robust: some model in Δ rejects",
            **mark,
        ),
        Line2D([], [], color="black", linewidth=1.2, label="decision boundary of today's network"),
        Patch(color=ROBUST_SHADE, label=f"Δ-robust, delta = {DELTA.delta:g}"),
        Line2D(
            [],
            [],
            color=EDGE,
            marker=".",
            linestyle="none",
            label="people whom the network accepts",
        ),
    ]


if __name__ == "__main__":
    main()
