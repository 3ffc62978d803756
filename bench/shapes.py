"""What the shape of the set of models is worth: rows that can be promised something, at the same coverage.

    python bench/shapes.py --quick                          two tables, one model each
    python bench/shapes.py --out docs/benchmarks-shapes.md  everything

A network is fine-tuned, a logistic regression retrained from scratch; each set is just large enough to contain the
next model with probability 0.9, by the same rule. Tables: $HOLDFAST_DATA, or shared/data next to the repository.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import holdfast as hf
from calibration import COVERAGE, PAPER, REPEATED, SHARE, fitted, percent
from holdfast._network import Floats
from holdfast.changes import Changes
from report import Table, parser, publish

# Rows that a regression is fitted on, accepted rows that are certified, and models that are counted.
FITTED, ROWS, HELD_OUT = 4000, 1000, 60
MODELS = 5
COLUMNS = ("table", "shape", "% of held-out models inside", "% of accepted rows robust")
Set = Callable[[hf.Network, Sequence[hf.Network]], Changes]


@dataclass(frozen=True)
class Measured:
    """The shares of held-out models in a set, and of accepted rows that every model in it accepts."""

    within: float
    robust: float


def calibrated(**options: object) -> Set:
    """A box or a ball, by `delta_calibrated`."""
    return lambda today, history: (
        hf.delta_calibrated(history, coverage=COVERAGE, origin=today, **options).changes
    )


def ellipsoid(points: Floats) -> Set:
    """The curvature of the loss, by the same rule on its own distances."""

    def made(today: hf.Network, history: Sequence[hf.Network]) -> Changes:
        shape = hf.Ellipsoid.of(today, points)
        radius = hf.delta_calibrated(
            [shape.distance(today, one) for one in history], coverage=COVERAGE
        )
        return shape.resized(float(radius))

    return made


def measured(
    today: hf.Network, models: Sequence[hf.Network], points: Floats, sets: dict[str, Set]
) -> dict[str, Measured]:
    """Each set from the first models, counted on the others."""
    history, others = models[:REPEATED], models[REPEATED:]
    accepted = points[today.predict_index(points) == 1][:ROWS]
    found = {}
    for name, made in sets.items():
        changes = made(today, history)
        within = np.mean([changes.contains(today, other) for other in others])
        robust = hf.certify(
            today, accepted, today.classes[1], changes, time_limit=20.0
        ).robust.mean()
        found[name] = Measured(float(within), float(robust))
    return found


def refitted(points: Floats, labels: np.ndarray, seed: int) -> dict[str, Measured]:
    """A logistic regression on some rows, and on as many others again and again."""
    rng = np.random.default_rng(seed)
    size = min(FITTED, len(points) // 3)
    drawn = [rng.choice(len(points), size, replace=False) for _ in range(1 + REPEATED + HELD_OUT)]
    fits = [
        hf.load_network(LogisticRegression(max_iter=1000).fit(points[rows], labels[rows]))
        for rows in drawn
    ]
    sets = {
        "one radius": calibrated(),
        "a radius for each parameter": calibrated(shape="parameter"),
        "a ball (norm 2)": calibrated(norm=2.0),
        "an ellipsoid": ellipsoid(points[drawn[0]]),
    }
    return measured(fits[0], fits[1:], points[rng.permutation(len(points))], sets)


def fine_tuned(name: str, points: Floats, labels: np.ndarray, seed: int) -> dict[str, Measured]:
    """The paper's network on one half of the rows, and one pass over a tenth of the other."""
    old, new = np.array_split(np.random.default_rng(seed).permutation(len(points)), 2)
    today = fitted(*PAPER[name], points[old], labels[old], seed)
    drawn = hf.retrain(
        today,
        points[new],
        labels[new],
        how="incremental",
        share=SHARE,
        n=REPEATED + HELD_OUT,
        seed=seed,
    )
    sets = {
        "one radius": calibrated(),
        "a radius for each layer": calibrated(shape="layer"),
        "a radius for each parameter": calibrated(shape="parameter"),
    }
    return measured(drawn.today, drawn.networks, points[new], sets)


def lines(name: str, found: list[dict[str, Measured]]) -> Iterator[list[str]]:
    """The lines of one table."""
    for shape in found[0]:
        of_shape = [one[shape] for one in found]
        yield [
            name,
            shape,
            percent([one.within for one in of_shape]),
            percent([one.robust for one in of_shape]),
        ]


PREFACE = f"""# The shape of the set, counted

Written by `python bench/shapes.py --out docs/benchmarks-shapes.md`. A promise covers every model in a set around
today's. The size of the set is such that it contains the next model with probability {COVERAGE:g}, by the same rule for
every shape (`delta_calibrated` on {REPEATED} models; {HELD_OUT} more are counted). A shape is better if more of the
rows that today's model accepts are robust under it.

- *From scratch*: logistic regressions, each on {FITTED:,} rows drawn from the table (fewer if it is small). The
  *ellipsoid* is `Ellipsoid.of(model, X)`, the curvature of the loss; its radius is the ranked `Ellipsoid.distance`.
- *Fine-tuned*: the paper's networks, one pass of `partial_fit` over a tenth of the new rows.

Models of a table are drawn from the same rows, so the probability is about further draws from them. ± is the standard
error over {MODELS} of today's models for each table."""


def main() -> None:
    """Count and print; write a document if asked."""
    arguments = parser(__doc__)
    options = arguments.parse_args()
    os.environ["HOLDFAST_DATA"] = options.data
    refits, tuned, began = [], [], time.process_time()
    with threadpool_limits(1):
        for name in ("compas", "heloc") if options.quick else PAPER:
            data = hf.datasets.load(name)
            points, labels = data.space.encode(data.frame), data.target.to_numpy()
            seeds = range(1 if options.quick else MODELS)
            refits += lines(name, [refitted(points, labels, seed) for seed in seeds])
            tuned += lines(name, [fine_tuned(name, points, labels, seed) for seed in seeds])
            print(name, f"{time.process_time() - began:.0f} CPU s", flush=True)
    note = f"Up to {ROWS:,} accepted rows. {time.process_time() - began:.0f} CPU seconds, holdfast {hf.__version__}."
    tables = [
        Table("Logistic regressions, retrained from scratch", COLUMNS, refits, note),
        Table("Networks, fine-tuned", COLUMNS, tuned, note),
    ]
    publish(tables, PREFACE, options.out)


if __name__ == "__main__":
    main()
