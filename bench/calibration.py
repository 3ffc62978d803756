"""Does a calibrated delta keep its word? Retrainings that calibration has not seen, counted.

    python bench/calibration.py --quick                               two tables, fewer repeats
    python bench/calibration.py --out docs/benchmarks-calibration.md  everything

For each table the paper's network is trained on one half of the rows with the paper's settings. The other half is new
data, in two parts: on the first delta is chosen, the second is what comes afterwards. A retraining is one pass of
`partial_fit` over a tenth of a part. Tables: $HOLDFAST_DATA, or shared/data beside the repository.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

import holdfast as hf
from holdfast.calibration import delta_calibrated
from holdfast.changes import down_up
from holdfast.datasets import load
from holdfast.network import Floats
from holdfast.retraining import retrain
from report import Table

ROOT = Path(__file__).resolve().parent.parent
# The paper's settings: neurons in each of two hidden layers, and epochs.
PAPER = {"adult": (20, 15), "compas": (8, 20), "gmc": (6, 4), "heloc": (15, 10)}
SHARE, COVERAGE, CONFIDENCE = 0.1, 0.9, 0.95
REPEATED, DISJOINT, HELD_OUT, OBSERVED_BY_THE_PAPER = 40, 10, 20, 5
# So many of the accepted rows are tried under each shape of Δ.
ROWS = 5000


@dataclass(frozen=True)
class Counted:
    """A delta of one calibration, and the share of other retrainings within it, all layers together and each."""

    delta: float
    radii: tuple[float, ...]
    guaranteed: float
    within: float
    within_layers: float


@dataclass(frozen=True)
class Trial:
    """One calibration of each kind."""

    mean: Counted
    repeated: Counted
    confident: Counted
    repeated_later: Counted
    disjoint: Counted


@dataclass(frozen=True)
class Shaped:
    """A Δ of one shape: its largest radius, and the shares of other retrainings in it and of rows robust under it."""

    largest: float
    within: float
    robust: float


def trials(name: str, models: int, calibrations: int) -> tuple[list[Trial], list[dict[str, Shaped]]]:
    """Every calibration on one table, and for each model one of each shape."""
    data = load(name)
    points, labels = data.space.encode(data.frame), data.target.to_numpy()
    found, shapes = [], []
    for seed in range(models):
        old, new = np.array_split(np.random.default_rng(seed).permutation(len(points)), 2)
        today = fitted(*PAPER[name], points[old], labels[old], seed)
        shapes.append(_shaped(today, points[new], labels[new], seed))
        for again in range(calibrations):
            rng = np.random.default_rng([seed, again])
            known, later = (
                partial(_layers, today, points[part], labels[part], seed=int(rng.integers(2**31)))
                for part in np.array_split(rng.permutation(new), 2)
            )
            found.append(_trial(known, later))
    return found, shapes


def fitted(width: int, epochs: int, points: np.ndarray, labels: np.ndarray, seed: int) -> MLPClassifier:
    model = MLPClassifier(
        (width, width), learning_rate_init=0.01, batch_size=256, alpha=1e-4, max_iter=epochs, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(points, labels)


def _layers(
    today: MLPClassifier, points: np.ndarray, labels: np.ndarray, n: int, *, disjoint: bool, seed: int
) -> Floats:
    """How far each layer moves in each of `n` retrainings."""
    models = retrain(today, points, labels, how="incremental", share=SHARE, disjoint=disjoint, n=n, seed=seed)
    return models.distances(per_layer=True)


def _trial(known: Callable[..., Floats], later: Callable[..., Floats]) -> Trial:
    drawn, apart = known(REPEATED + HELD_OUT, disjoint=False), known(DISJOINT, disjoint=True)
    calibration, held_out, to_come = drawn[:REPEATED], drawn[REPEATED:], later(DISJOINT, disjoint=True)
    mean = float(calibration[:OBSERVED_BY_THE_PAPER].max(axis=1).mean())
    within_mean = float((held_out.max(axis=1) <= mean).mean())
    return Trial(
        mean=Counted(mean, (), np.nan, within_mean, np.nan),
        repeated=_counted(calibration, held_out),
        confident=_counted(calibration, held_out, CONFIDENCE),
        repeated_later=_counted(calibration, to_come),
        disjoint=_counted(apart, to_come),
    )


def _counted(calibration: Floats, others: Floats, confidence: float | None = None) -> Counted:
    whole = delta_calibrated(calibration, coverage=COVERAGE, confidence=confidence)
    layered = delta_calibrated(calibration, coverage=COVERAGE, confidence=confidence, shape="layer")
    return Counted(
        float(whole),
        layered.delta,
        min(whole.guaranteed, layered.guaranteed),
        float((others.max(axis=1) <= whole.delta).mean()),
        float((others <= layered.delta).all(axis=1).mean()),
    )


def _shaped(today: MLPClassifier, points: np.ndarray, labels: np.ndarray, seed: int) -> dict[str, Shaped]:
    """Every shape calibrated on the same retrainings."""
    drawn = retrain(today, points, labels, how="incremental", share=SHARE, n=REPEATED + HELD_OUT, seed=seed)
    network, history, others = drawn.today, drawn.networks[:REPEATED], drawn.networks[REPEATED:]
    accepted = points[network.logits(points)[:, 0] >= 0.0][:ROWS]
    found = {}
    for shape in SHAPES:
        changes = delta_calibrated(history, coverage=COVERAGE, shape=shape, origin=network).changes
        within = np.mean([changes.contains(network, other) for other in others])
        robust = np.mean(interval_lower(network, changes, accepted) >= 0.0)
        found[shape] = Shaped(changes.largest, float(within), float(robust))
    return found


def interval_lower(network: hf.Network, changes: hf.PlausibleChanges, points: np.ndarray) -> Floats:
    """The least logit by interval propagation, in floats: enough to count."""
    low = high = points
    for i, (weight, bias, radius) in enumerate(
        zip(network.weights, network.biases, changes.layer_radii(network), strict=True)
    ):
        low, high = (low, high) if i == 0 else (np.maximum(low, 0.0), np.maximum(high, 0.0))
        (down, up), (bias_down, bias_up) = map(down_up, radius)
        least, most = weight - down, weight + up
        # Inputs below 0 are today's point alone, where low is high; after a ReLU there are none.
        below, low, high = np.minimum(low, 0.0), np.maximum(low, 0.0), np.maximum(high, 0.0)
        low, high = (
            low @ np.maximum(least, 0.0).T + high @ np.minimum(least, 0.0).T + below @ most.T + bias - bias_down,
            high @ np.maximum(most, 0.0).T + low @ np.minimum(most, 0.0).T + below @ least.T + bias + bias_up,
        )
    return low[:, 0]


SHAPES = {"uniform": "one radius", "layer": "a radius for each layer", "parameter": "a radius for each parameter"}
SHAPE_COLUMNS = ("table", "shape", "largest radius", "% within", "% of accepted rows robust")


def shape_rows(name: str, found: list[dict[str, Shaped]]) -> list[list[str]]:
    """The lines of one table."""
    return [
        [
            name,
            words,
            f"{np.mean([one[shape].largest for one in found]):.3f}",
            percent([one[shape].within for one in found]),
            percent([one[shape].robust for one in found]),
        ]
        for shape, words in SHAPES.items()
    ]


KINDS = {
    "mean": "mean of 5 (the paper), counted on the same rows",
    "repeated": f"{REPEATED} draws, counted on the same rows",
    "confident": f"{REPEATED} draws with confidence {CONFIDENCE:g}, counted on the same rows",
    "repeated_later": f"{REPEATED} draws, counted on later rows",
    "disjoint": f"{DISJOINT} disjoint draws, counted on later rows",
}


def rows_of(name: str, found: list[Trial]) -> list[list[str]]:
    """The lines of one table."""
    lines = []
    for kind, words in KINDS.items():
        counted: list[Counted] = [getattr(trial, kind) for trial in found]
        radii = np.mean([one.radii for one in counted], axis=0)
        lines.append(
            [
                name,
                words,
                f"{np.mean([one.delta for one in counted]):.3f}",
                " / ".join(f"{radius:.3f}" for radius in np.atleast_1d(radii)) if counted[0].radii else "-",
                percent([one.within for one in counted]),
                percent([one.within_layers for one in counted]) if counted[0].radii else "-",
            ]
        )
    return lines


def percent(shares: list[float]) -> str:
    error = np.std(shares, ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else np.nan
    return f"{100 * np.mean(shares):.1f} ± {100 * error:.1f}"


COLUMNS = (
    "table",
    "how delta was chosen, and on what it is counted",
    "delta",
    "by layer",
    "% within",
    "% within all layers",
)

PREFACE = f"""# A calibrated delta, counted

Written by `python bench/calibration.py --out docs/benchmarks-calibration.md`. For each table the paper's network (two
hidden layers, its sizes, epochs and optimiser) learns from one half of the rows; the other half is new data. Delta is
chosen on one part of the new data, *later rows* are the other part. A retraining is one pass of `partial_fit` over a
tenth of a part. `delta_calibrated` is asked for a probability of {COVERAGE:g}.

- *mean of 5* is the paper's way: about half of the retrainings lie beyond it.
- *{REPEATED} draws* draw their rows from the same part again and again. The guarantee then speaks of further draws from
  that part. It does not speak of later rows: retrainings on the same rows are more alike than those on new ones.
- *with confidence {CONFIDENCE:g}*: not on average over histories, but {CONFIDENCE:.0%} of all histories cover as much.
- *{DISJOINT} disjoint draws* (`retrain(..., disjoint=True)`) share no row with each other, so a retraining on later
  rows is exchangeable with them, and the guarantee speaks of it.
- *by layer* has a radius for each layer; *within all layers* counts a retraining if every layer is within its own.
- *A radius for each parameter* (`shape="parameter"`) is learnt on a quarter of the draws and scaled on the others, so
  that it covers as much as one radius does. Usually more can be proven under it, though not for every network.

± is the standard error over the calibrations: a share may miss its probability by so much by chance."""


def main() -> None:
    """Count and print; write a document if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("HOLDFAST_DATA", str(ROOT.parent / "shared" / "data")))
    parser.add_argument("--tables", nargs="+", default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--models", type=int, default=5)
    parser.add_argument("--calibrations", type=int, default=8, help="for each model")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ["HOLDFAST_DATA"] = options.data
    names = ["compas", "heloc"] if options.quick else options.tables
    models, calibrations = (2, 4) if options.quick else (options.models, options.calibrations)
    rows, every, shapes = [], [], []
    began = time.process_time()
    with threadpool_limits(1):
        for name in names:
            found, shaped = trials(name, models, calibrations)
            rows += rows_of(name, found)
            shapes += shape_rows(name, shaped)
            every += found
            print(name, f"{time.process_time() - began:.0f} CPU s", flush=True)
    rows += rows_of("all", every)
    for row in rows[-len(KINDS) :]:
        row[2:4] = "-", "-"
    guaranteed = {kind: min(getattr(trial, kind).guaranteed for trial in every) for kind in ("repeated", "disjoint")}
    note = (
        f"{models} networks for each table, {calibrations} calibrations for each network and kind; {HELD_OUT} "
        f"retrainings on the same rows and {DISJOINT} on later ones counted for each. Guaranteed: "
        f"{100 * guaranteed['repeated']:.1f}% by {REPEATED} draws for the same rows, "
        f"{100 * guaranteed['disjoint']:.1f}% by {DISJOINT} disjoint draws for later rows. "
        f"{time.process_time() - began:.0f} CPU seconds, holdfast {hf.__version__}."
    )
    shape_note = (
        f"One Δ of each shape for each network, from the same {REPEATED} draws, {HELD_OUT} more counted. Rows: up to "
        f"{ROWS:,} of the new data that today's model accepts; robust by interval propagation alone."
    )
    tables = [
        Table("Retrainings within delta", COLUMNS, rows, note),
        Table("What each shape of Δ lets be proven", SHAPE_COLUMNS, shapes, shape_note),
    ]
    for table in tables:
        Console(width=140).print(table.for_terminal())
    if options.out:
        written = "\n\n".join([PREFACE, *(table.for_document() for table in tables)])
        options.out.write_text(f"{written}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
