"""The pictures of docs/mathematics.md, each from a network small enough to draw, in black and white.

    python docs/figures/mathematics.py    writes docs/images/math-*.png and prints the figures that the page quotes

Seeded: the same pictures and the same figures each time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from methods import DELTA, ROBUST_SHADE, make_people
from rich.console import Console
from sklearn.neural_network import MLPClassifier

import holdfast as hf

IMAGES = Path(__file__).resolve().parent.parent / "images"
GRID = 200
MIDDLE = "0.45"
SAY = Console(width=120, highlight=False).print


def main() -> None:
    """Draw everything."""
    draw_changes()
    draw_neuron()
    draw_two_layers()
    people, paid = make_people(1200)
    space = hf.FeatureSpace.from_frame(
        people,
        ranges={"income": (0, 60), "savings": (0, 30)},
        steps={"income": 0.5, "savings": 0.25},
    )
    training = {
        "alpha": 1e-3,
        "max_iter": 400,
        "learning_rate_init": 0.02,
        "tol": 1e-6,
        "n_iter_no_change": 50,
    }
    deep, flat = (
        hf.load_network(
            MLPClassifier(hidden, random_state=3, **training).fit(space.encode(people), paid)
        )
        for hidden in ((6, 6, 6), (8, 8))
    )
    draw_radius(deep, space)
    draw_closest(flat, space)


def draw_changes() -> None:
    """Δ in the plane of two weights, and what it does to the line that a model draws between people."""
    today, delta = hf.Network([[[1.2, 1.0]]], [[-1.1]]), 0.12
    changes = hf.PlausibleChanges(delta, biases=False)
    figure, (left, right) = picture(1, 2, (9.0, 4.2))
    weights = today.weights[0][0]
    left.add_patch(
        Rectangle(weights - delta, 2 * delta, 2 * delta, facecolor=ROBUST_SHADE, edgecolor="black")
    )
    left.plot(*weights, "o", color="black")
    left.annotate("today's model", weights, xytext=(0, 7), textcoords="offset points", ha="center")
    left.text(
        weights[0], weights[1] - delta - 0.015, "Δ: each weight within δ", ha="center", va="top"
    )
    left.set(
        xlim=(0.9, 1.5),
        ylim=(0.7, 1.3),
        xlabel="weight of income",
        ylabel="weight of savings",
        aspect="equal",
    )
    left.set_title("models", loc="left", fontweight="bold")
    x, y = np.meshgrid(np.linspace(0, 1, GRID), np.linspace(0, 1, GRID))
    points = np.column_stack([x.ravel(), y.ravel()])
    robust = hf.certify(today, points, 1, changes, progress=False).robust.reshape(GRID, GRID)
    right.contourf(x, y, robust.astype(float), levels=[0.5, 1.5], colors=[ROBUST_SHADE])
    for other in changes.sample(today, 40, seed=1):
        right.contour(
            x,
            y,
            other.logits(points).reshape(GRID, GRID),
            levels=[0],
            colors=[MIDDLE],
            linewidths=0.4,
        )
    right.contour(
        x, y, today.logits(points).reshape(GRID, GRID), levels=[0], colors="black", linewidths=1.6
    )
    right.plot(0.62, 0.75, "o", color="black", markersize=8)
    right.plot(0.5, 0.55, "X", color="black", markersize=9, markeredgecolor="white")
    right.annotate("robust", (0.62, 0.75), xytext=(8, 4), textcoords="offset points")
    right.annotate(
        "accepted today,\nnot robust",
        (0.49, 0.54),
        xytext=(0.05, 0.25),
        arrowprops={"arrowstyle": "-"},
        va="top",
    )
    right.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="income, scaled", ylabel="savings, scaled", aspect="equal"
    )
    right.set_title("people", loc="left", fontweight="bold")
    save(figure, "changes")


def draw_neuron() -> None:
    """What one neuron can receive over Δ, and the encoding that is right for x >= 0 alone."""
    weight, bias, delta = 0.6, 0.2, 0.25
    x = np.linspace(-2, 2, 401)
    figure, axes = picture(1, 1, (6.4, 3.6))
    (panel,) = axes
    reach = delta * (np.abs(x) + 1)
    panel.fill_between(x, weight * x + bias - reach, weight * x + bias + reach, color=ROBUST_SHADE)
    panel.plot(x, weight * x + bias, color="black", linewidth=1.6)
    for sign, style in ((-1, "--"), (1, ":")):
        panel.plot(
            x,
            (weight + sign * delta) * x + bias + sign * delta,
            color="black",
            linestyle=style,
            linewidth=1,
        )
    panel.annotate("today: wx + b", (1.0, 0.8), xytext=(0.9, -0.6), arrowprops={"arrowstyle": "-"})
    panel.text(-1.95, 0.45, "shaded: wx + b ± δ(|x| + 1)", va="bottom")
    panel.annotate(
        "(w − δ)x + b − δ", (-1.5, -0.575), xytext=(-0.9, -1.3), arrowprops={"arrowstyle": "-"}
    )
    panel.annotate(
        "(w + δ)x + b + δ", (-1.75, -1.04), xytext=(-1.95, -1.95), arrowprops={"arrowstyle": "-"}
    )
    panel.set(xlabel="input x", ylabel="what the neuron receives", xlim=(-2, 2), ylim=(-2.2, 2.2))
    save(figure, "neuron")


def two_layers() -> tuple[hf.Network, np.ndarray, hf.PlausibleChanges]:
    """One neuron, then two that read it with opposite signs, then their sum."""
    network = hf.Network([[[1.0]], [[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0], [0.0, 2.0], [-1.2]])
    return network, np.array([[1.0]]), hf.PlausibleChanges(0.1)


def draw_two_layers() -> None:
    """What the two neurons of the second layer can be together, and what intervals believe."""
    network, x, changes = two_layers()
    delta = float(changes.delta)
    values = np.linspace(*(float((1.0 + s * delta) * 1.0 + s * delta) for s in (-1, 1)), 60)
    first, second = values, 2.0 - values
    reach = delta * (values + 1.0)
    figure, (panel,) = picture(1, 1, (5.4, 4.6))
    for one, other, radius in zip(first, second, reach, strict=True):
        panel.add_patch(
            Rectangle(
                (one - radius, other - radius), 2 * radius, 2 * radius, facecolor=ROBUST_SHADE
            )
        )
    box = (first[0] - reach[0], second[-1] - reach[-1], first[-1] + reach[-1], second[0] + reach[0])
    panel.add_patch(
        Rectangle(
            box[:2],
            box[2] - box[0],
            box[3] - box[1],
            fill=False,
            edgecolor="black",
            linestyle="--",
            linewidth=1.2,
        )
    )
    worst = np.linspace(0, 2.2, 2)
    panel.plot(worst, (1.2 + delta) / (1 - delta) - worst, color="black", linewidth=1.4)
    panel.text(0.43, 0.86, "worst margin = 0", rotation=-45, ha="center", va="center")
    panel.text(box[0] + 0.02, box[3] + 0.02, "what intervals believe", va="bottom")
    panel.text(1.0, 1.0, "what can happen", ha="center", va="center")
    panel.set(xlabel="first neuron of layer 2", ylabel="second neuron of layer 2", aspect="equal")
    panel.set(xlim=(0.3, 1.7), ylim=(0.3, 1.7))
    save(figure, "two-layers")
    exact = hf.output_bounds(network, x, changes).lower[0, 0]
    interval = hf.output_bounds(network, x, changes, method="interval").lower[0, 0]
    verdicts = [
        hf.certify(network, x, 1, changes, method=method).verdict[0]
        for method in ("joint", "interval")
    ]
    SAY(
        f"two layers: least logit {exact:.3f} exactly, {interval:.3f} by intervals; {verdicts[0]}, {verdicts[1]}"
    )


def draw_radius(network: hf.Network, space: hf.FeatureSpace) -> None:
    """The least margin over Δ as delta grows, by intervals and exactly: where it meets zero is the radius."""
    point = space.encode(pd.DataFrame({"income": [30.0], "savings": [16.0]}))
    deltas = np.linspace(0, 0.08, 81)
    curves = {
        method: [
            float(network.logits(point)[0, 0])
            if delta == 0
            else hf.output_bounds(network, point, hf.PlausibleChanges(delta), method=method).lower[
                0, 0
            ]
            for delta in deltas
        ]
        for method in ("exact", "interval")
    }
    radius = hf.certified_radius(network, point, 1).lower[0]
    figure, (panel,) = picture(1, 1, (6.4, 3.6))
    panel.axhline(0, color=MIDDLE, linewidth=0.8)
    panel.plot(deltas, curves["exact"], color="black", linewidth=1.6)
    panel.plot(deltas, curves["interval"], color="black", linewidth=1.2, linestyle="--")
    panel.plot(radius, 0, "o", color="black")
    panel.annotate(f"radius {radius:.3f}", (radius, 0), xytext=(6, 8), textcoords="offset points")
    panel.text(0.03, np.interp(0.03, deltas, curves["exact"]) + 0.4, "exact")
    panel.text(
        0.03,
        np.interp(0.03, deltas, curves["interval"]) - 0.5,
        "by intervals",
        ha="right",
        va="top",
    )
    panel.set(
        xlabel="δ",
        ylabel="least margin over Δ",
        xlim=(0, 0.08),
        ylim=(-4, curves["exact"][0] + 0.6),
    )
    save(figure, "radius")
    reached = deltas[np.array(curves["interval"]) > 0].max()
    SAY(f"radius: {radius:.4f}; intervals prove up to about {reached:.3f}")


def draw_closest(network: hf.Network, space: hf.FeatureSpace) -> None:
    """`Closest`, by trying every point of a grid: each counter-model cuts away a region, until the answer survives."""
    person = pd.DataFrame({"income": [16.0], "savings": [6.0]})
    income, savings = np.meshgrid(np.linspace(0, 60, 121), np.linspace(0, 30, 121))
    points = space.encode(pd.DataFrame({"income": income.ravel(), "savings": savings.ravel()}))
    cost = np.abs(points - space.encode(person)).mean(axis=1)
    robust = hf.certify(network, points, 1, DELTA, progress=False).robust.reshape(income.shape)
    models, rounds = [network], []
    while True:
        accepted = np.all([model.predict(points) == 1 for model in models], axis=0)
        best = int(np.where(accepted, cost, np.inf).argmin())
        rounds.append((list(models), best))
        witness = hf.certify(network, points[[best]], 1, DELTA).witness(0)
        if witness is None:
            break
        models.append(witness)
    figure, panels = picture(1, len(rounds), (3.3 * len(rounds), 3.5), sharey=True)
    for i, (panel, (known, best)) in enumerate(zip(panels, rounds, strict=True)):
        panel.contourf(
            income, savings, robust.astype(float), levels=[0.5, 1.5], colors=[ROBUST_SHADE]
        )
        for k, model in enumerate(known):
            logits = model.logits(points).reshape(income.shape)
            panel.contour(
                income,
                savings,
                logits,
                levels=[0],
                colors="black",
                linewidths=1.4 if k == 0 else 0.8,
            )
        panel.plot(person["income"], person["savings"], "o", color="black", markerfacecolor="white")
        end = (income.ravel()[best], savings.ravel()[best])
        last = i == len(rounds) - 1
        style = {"marker": "o"} if last else {"marker": "X", "markeredgecolor": "white"}
        panel.plot(*end, color="black", linestyle="none", markersize=9, **style)
        panel.set(xlim=(5, 45), ylim=(0, 30), xlabel="income, thousands a year")
        panel.set_title(
            f"{len(known)} model{'s' * (len(known) > 1)}", loc="left", fontweight="bold"
        )
        panel.set_title(f"cost {cost[best]:.3f}", loc="right", fontsize="small")
        SAY(
            f"closest: {len(known)} models known, cost {cost[best]:.4f}, {'robust' if last else 'broken'}"
        )
    panels[0].set_ylabel("savings, thousands")
    save(figure, "closest")


def picture(
    rows: int, columns: int, size: tuple[float, float], sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """An empty figure and its panels."""
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, sharey=sharey, squeeze=False)
    for panel in panels.flat:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, list(panels.flat)


def save(figure: Figure, name: str) -> None:
    """Into the folder of the pictures."""
    figure.savefig(IMAGES / f"math-{name}.png", dpi=130)


if __name__ == "__main__":
    main()
