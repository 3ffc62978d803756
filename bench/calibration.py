"""Does a calibrated delta keep its word? Retrainings that calibration has not seen, counted.

    python bench/calibration.py --quick                               two tables, fewer repeats
    python bench/calibration.py --out docs/benchmarks-calibration.md  everything

For each table the paper's network is trained on one half of the rows with the paper's settings. The other half is new
data, in two parts: on the first delta is chosen, the second is what comes afterwards. A retraining is one pass of
`partial_fit` over a tenth of a part. Tables: $HOLDFAST_DATA, or shared/data next to the repository.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

import holdfast as hf
from holdfast._network import Floats
from holdfast.calibration import delta_calibrated
from holdfast.datasets import load
from holdfast.retraining import retrain
from report import Table, parser, publish

# The paper's settings: neurons in each of two hidden layers, and epochs.
PAPER = {"adult": (20, 15), "compas": (8, 20), "gmc": (6, 4), "heloc": (15, 10)}
SHARE, COVERAGE, CONFIDENCE = 0.1, 0.9, 0.95
REPEATED, DISJOINT, HELD_OUT, OBSERVED_BY_THE_PAPER = 40, 10, 20, 5


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


def trials(name: str, models: int, calibrations: int) -> list[Trial]:
    """Every calibration on one table."""
    data = load(name)
    points, labels = data.space.encode(data.frame), data.target.to_numpy()
    found = []
    for seed in range(models):
        old, new = np.array_split(np.random.default_rng(seed).permutation(len(points)), 2)
        today = fitted(*PAPER[name], points[old], labels[old], seed)
        for again in range(calibrations):
            rng = np.random.default_rng([seed, again])
            known, later = (
                partial(_layers, today, points[part], labels[part], seed=int(rng.integers(2**31)))
                for part in np.array_split(rng.permutation(new), 2)
            )
            found.append(_trial(known, later))
    return found


def fitted(
    width: int, epochs: int, points: np.ndarray, labels: np.ndarray, seed: int
) -> MLPClassifier:
    model = MLPClassifier(
        (width, width),
        learning_rate_init=0.01,
        batch_size=256,
        alpha=1e-4,
        max_iter=epochs,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(points, labels)


def _layers(
    today: MLPClassifier,
    points: np.ndarray,
    labels: np.ndarray,
    n: int,
    *,
    disjoint: bool,
    seed: int,
) -> Floats:
    """How far each layer moves in each of `n` retrainings."""
    models = retrain(
        today, points, labels, how="incremental", share=SHARE, disjoint=disjoint, n=n, seed=seed
    )
    return models.distances(per_layer=True)


def _trial(known: Callable[..., Floats], later: Callable[..., Floats]) -> Trial:
    drawn, apart = known(REPEATED + HELD_OUT, disjoint=False), known(DISJOINT, disjoint=True)
    calibration, held_out, to_come = (
        drawn[:REPEATED],
        drawn[REPEATED:],
        later(DISJOINT, disjoint=True),
    )
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
                " / ".join(f"{radius:.3f}" for radius in np.atleast_1d(radii))
                if counted[0].radii
                else "-",
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
hidden layers, its sizes, epochs and optimiser) learns from one half of the rows; the other half is new data. Delta
is chosen on one part of the new data; *later rows* are the other part. A retraining is one pass of `partial_fit`
over a tenth of a part. The requested probability of `delta_calibrated` is {COVERAGE:g}.

- *mean of 5* is the paper's way: about half of the retrainings lie beyond it.
- *{REPEATED} draws* draw their rows from the same part again and again. The guarantee is then about further draws from
  that part, not about later rows: retrainings on the same rows are more alike than retrainings on new rows.
- *with confidence {CONFIDENCE:g}*: {CONFIDENCE:.0%} of all histories reach the requested coverage, instead of the
average over histories.
- *{DISJOINT} disjoint draws* (`retrain(..., disjoint=True)`) share no row with each other, so a retraining on later
  rows is exchangeable with them, and the guarantee covers it.
- *by layer* has a radius for each layer; *within all layers* counts a retraining if every layer is within its own.

± is the standard error over the calibrations: chance differences between a share and its probability are of this
size."""


def main() -> None:
    """Count and print; write a document if asked."""
    arguments = parser(__doc__)
    arguments.add_argument("--tables", nargs="+", default=list(PAPER), choices=list(PAPER))
    arguments.add_argument("--models", type=int, default=5)
    arguments.add_argument("--calibrations", type=int, default=8, help="for each model")
    options = arguments.parse_args()
    os.environ["HOLDFAST_DATA"] = options.data
    names = ["compas", "heloc"] if options.quick else options.tables
    models, calibrations = (2, 4) if options.quick else (options.models, options.calibrations)
    rows, every = [], []
    began = time.process_time()
    with threadpool_limits(1):
        for name in names:
            found = trials(name, models, calibrations)
            rows += rows_of(name, found)
            every += found
            print(name, f"{time.process_time() - began:.0f} CPU s", flush=True)
    rows += rows_of("all", every)
    for row in rows[-len(KINDS) :]:
        row[2:4] = "-", "-"
    guaranteed = {
        kind: min(getattr(trial, kind).guaranteed for trial in every)
        for kind in ("repeated", "disjoint")
    }
    note = (
        f"{models} networks for each table, {calibrations} calibrations for each network and kind; {HELD_OUT} "
        f"retrainings on the same rows and {DISJOINT} on later ones counted for each. Guaranteed: "
        f"{100 * guaranteed['repeated']:.1f}% by {REPEATED} draws for the same rows, "
        f"{100 * guaranteed['disjoint']:.1f}% by {DISJOINT} disjoint draws for later rows. "
        f"{time.process_time() - began:.0f} CPU seconds, holdfast {hf.__version__}."
    )
    publish([Table("Retrainings within delta", COLUMNS, rows, note)], PREFACE, options.out)


if __name__ == "__main__":
    main()
