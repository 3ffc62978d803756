"""Does risk control keep its word? Promises against retrained models that calibration has not seen, counted.

    python bench/risk.py --quick                          one table, fewer models
    python bench/risk.py --out docs/benchmarks-risk.md    everything; goes on where it was stopped

For each table, kind of model and way to retrain: promises of `RNCE` at every setting of `PlausibleShift`, and which of
them each retrained model keeps, are measured once and kept under out/risk. Then some of the models calibrate and the
others are counted, again and again. Tables: $HOLDFAST_DATA, or shared/data next to the repository.
"""

from __future__ import annotations

import copy
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits
from xgboost import XGBClassifier

import holdfast as hf
from holdfast._network import Floats
from holdfast.calibration import risk_bounds
from report import ROOT, Table, parser, publish

TABLES = ("adult", "compas", "gmc", "heloc", "breast_cancer")
MODELS = ("network", "xgboost")
WAYS = ("from scratch", "fine-tuned")
# Who may change what, on which tables, and how many must keep their advice: anyone anything as in the paper; and what
# the tables' schemas say. Under that of compas nobody can do enough.
FREE, OWN = ("free", TABLES, 1.0), ("schema", ("adult", "gmc", "heloc"), 0.9)
# Rows to learn from, new rows, and people who ask; breast_cancer has fewer and gives shares of what it has.
ROWS, PEOPLE = 1500, 60
BROKEN, PROBABILITY, CALIBRATING, SPLITS = 0.1, 0.9, 20, 200


@dataclass(frozen=True)
class World:
    """A table in parts: what today's model learned from, what came since, and everyone else."""

    space: hf.FeatureSpace
    old: tuple[pd.DataFrame, np.ndarray]
    new: tuple[pd.DataFrame, np.ndarray]
    others: pd.DataFrame
    wanted: int


def world(name: str, actionability: str) -> World:
    """Read a table and shuffle it."""
    if name == "breast_cancer":
        frame, labels = load_breast_cancer(return_X_y=True, as_frame=True)
        space, wanted = hf.FeatureSpace.from_frame(frame, scale="standard"), 1
        # The page's costs are in standard deviations.
        space = space.constrained(costs={one.name: one.span for one in space.features})
    else:
        data = hf.datasets.load(name, actionability=actionability)
        frame, labels, space, wanted = data.frame, data.target, data.space, data.wanted
    order = np.random.default_rng(0).permutation(len(frame))
    size = min(ROWS, len(frame) // 2)
    parts = [order[:size], order[size : 2 * size], order[size:]]
    old, new, others = ((frame.iloc[part], labels.to_numpy()[part]) for part in parts)
    return World(space, old, new, others[0], wanted)


def fitted(
    kind: str, space: hf.FeatureSpace, frame: pd.DataFrame, labels: np.ndarray, seed: int
) -> Any:
    """A model of this kind, trained from scratch: networks read the space's variables, trees the raw table."""
    if kind == "network":
        return MLPClassifier((16, 16), learning_rate_init=0.01, max_iter=40, random_state=seed).fit(
            space.encode(frame), labels
        )
    trees = XGBClassifier(
        n_estimators=60, max_depth=3, learning_rate=0.2, subsample=0.8, random_state=seed, n_jobs=1
    )
    return make_pipeline(FunctionTransformer(space.encode), trees).fit(frame, labels)


def later(kind: str, way: str, today: Any, here: World, n: int) -> Iterator[Any]:
    """Retrained models, one after the other: on a bootstrap of the rows, or going on from today's on some new rows."""
    for seed in range(1, n + 1):
        rng = np.random.default_rng(seed)
        if way == "from scratch":
            rows = rng.integers(0, len(here.old[1]), len(here.old[1]))
            yield fitted(kind, here.space, here.old[0].iloc[rows], here.old[1][rows], seed)
            continue
        rows = rng.choice(len(here.new[1]), len(here.new[1]) // 5, replace=False)
        frame, labels = here.space.encode(here.new[0].iloc[rows]), here.new[1][rows]
        if kind == "network":
            model = copy.deepcopy(today).set_params(learning_rate_init=0.003, random_state=seed)
            for _ in range(5):
                model.partial_fit(frame, labels)
            yield model
        else:
            more = copy.deepcopy(today[-1]).set_params(n_estimators=30, random_state=seed)
            yield make_pipeline(
                today[0], more.fit(frame, labels, xgb_model=today[-1].get_booster())
            )


@dataclass(frozen=True)
class Cell:
    """What was measured of one table, kind of model and way to retrain: a column for each setting."""

    losses: Floats
    usable: np.ndarray
    settings: Floats
    times: Floats
    coverage: Floats
    people: int


def cell(
    name: str, kind: str, way: str, n: int, kept: Path, actionability: str, coverage: float
) -> Cell:
    """Measure, or read what was measured before."""
    path = kept / f"{name}-{actionability}-{kind}-{way.replace(' ', '-')}-{n}.npz"
    if not path.exists():
        here = world(name, actionability)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            today = fitted(kind, here.space, *here.old, 0)
            given = today.predict(
                here.space.encode(here.others) if kind == "network" else here.others
            )
            asking = here.others[given != here.wanted].head(PEOPLE)
            found = hf.risk_calibrated(
                today, asking, target=here.wanted, retrained=later(kind, way, today, here, n), broken=BROKEN,
                generator=hf.RNCE(here.old[0]), space=here.space, coverage=coverage,
            )  # fmt: skip
        rows = found.evidence
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {
            name: rows[name].to_numpy()
            for name in ("setting", "bound", "times", "coverage", "promises")
        }
        np.savez(path, losses=found.losses, **columns)
    with np.load(path) as file:
        usable = ~np.isnan(file["bound"])
        return Cell(
            file["losses"],
            usable,
            file["setting"],
            file["times"],
            file["coverage"],
            int(file["promises"][0]),
        )


@dataclass(frozen=True)
class Counted:
    """What came of many splits: nan for those in which no setting passed."""

    setting: Floats
    broken: Floats
    over: Floats
    times: Floats
    coverage: Floats

    @property
    def promised(self) -> float:
        """The share of splits in which a setting passed."""
        return float(np.mean(~np.isnan(self.setting)))


def counted(measured: Cell, probability: float | None) -> Counted:
    """Calibrate on some of the models and count the others, again and again."""
    rows = []
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(measured.losses))
        known, others = measured.losses[order[:CALIBRATING]], measured.losses[order[CALIBRATING:]]
        bounds = risk_bounds(known, BROKEN, probability, measured.usable)
        allowed = BROKEN if probability is None else 1.0 - probability
        passes = np.flatnonzero(measured.usable & (bounds <= allowed + 1e-9))
        if not passes.size:
            rows.append([np.nan] * 5)
            continue
        place = passes[0]
        broken = others[:, place]
        ends = measured.times[place], measured.coverage[place]
        rows.append([measured.settings[place], broken.mean(), (broken > BROKEN).mean(), *ends])
    return Counted(*np.array(rows).T)


COLUMNS = (
    "table, model, retrained",
    "nearest row: broken",
    "models over",
    "margin",
    "broken",
    "cost",
    "coverage",
    "promised",
    "p: margin",
    "models over",
    "cost",
    "coverage",
    "promised",
)


def row_of(name: str, measured: Cell) -> list[str]:
    """One line: the nearest row without control, then the share controlled on average, and with a probability."""
    nearest, line = measured.losses[:, 0], [name]
    line += [_percent(nearest), _percent(nearest > BROKEN)]
    for probability in (None, PROBABILITY):
        found = counted(measured, probability)
        lost = found.broken if probability is None else found.over
        line += [_mean(found.setting), _percent(lost), _mean(found.times), _percent(found.coverage)]
        line += [_percent(~np.isnan(found.setting))]
    return line


def _percent(shares: np.ndarray) -> str:
    return "-" if np.isnan(shares).all() else f"{100 * np.nanmean(shares):.1f}%"


def _mean(values: Floats) -> str:
    return "-" if np.isnan(values).all() else f"{np.nanmean(values):.2f}"


PREFACE = f"""# Risk control, counted

Written by `python bench/risk.py --out docs/benchmarks-risk.md`. `risk_calibrated` finds a margin
at which the next model breaks at most {BROKEN:.0%} of the promises: first on average, then with probability
{PROBABILITY:g}. It uses {CALIBRATING} of the retrained models. The others are the next models; they have no part in
the choice of the margin.

- *Models*: scikit-learn networks (two hidden layers of 16) on the encoded table, XGBoost (60 trees of depth 3) on the
  raw one; up to {ROWS:,} rows to learn from. Up to {PEOPLE} rejected people who are not among these rows.
- *From scratch*: a bootstrap of the rows and a new seed. *Fine-tuned*: networks get five
  passes of `partial_fit`, trees 30 more rounds, on new rows (a fifth as many), with a separate draw for each model.
- *Nearest row*: the promise of `NNCE`, which is the nearest row that today's model accepts, without control.
- *Broken*: the share of promises that the next models break; at most {BROKEN:.0%} was asked for. *Models over*: the
  share of models that break more than {BROKEN:.0%}; with a probability (*p*) at most {1 - PROBABILITY:.0%} was asked
  for.
- *Cost*: relative to the nearest row of the same people. *Coverage*: the share of the people with a
  nearest row who still have advice at the margin. Means over the splits.
- *Promised*: the share of splits in which a margin passes. The other splits make no promise, and the result says so.
  The other columns leave them out, but the guarantee counts them as splits without broken promises. If few splits
  pass, these are lucky ones, and they break more."""


def measure(actionability: str, tables: list[str], coverage: float, n: int, kept: Path) -> Table:
    """Every kind of model and way to retrain on some tables."""
    rows, people = [], set()
    for name in tables:
        for kind in MODELS:
            for way in WAYS:
                measured = cell(name, kind, way, n, kept, actionability, coverage)
                people.add(measured.people)
                rows.append(row_of(f"{name}, {kind}, {way}", measured))
                print(*rows[-1], f"({time.process_time():.0f} CPU s)", flush=True)
    who = (
        "Everybody can change everything"
        if actionability == "free"
        else "People can change what the schemas let them"
    )
    note = (
        f"{n} retrained models in each line, {SPLITS} splits into {CALIBRATING} that calibrate and {n - CALIBRATING} "
        f"that are counted; at least {min(people)} people with advice, `coverage={coverage:g}`. "
        f"holdfast {hf.__version__}."
    )
    return Table(who, COLUMNS, rows, note)


def main() -> None:
    """Measure, count and print; write a document if asked."""
    arguments = parser(__doc__)
    arguments.add_argument("--models", type=int, default=80)
    arguments.add_argument(
        "--kept", type=Path, default=ROOT / "out" / "risk", help="where what was measured is kept"
    )
    options = arguments.parse_args()
    os.environ["HOLDFAST_DATA"] = options.data
    studies = [("free", ("breast_cancer",), 1.0)] if options.quick else [FREE, OWN]
    n = 40 if options.quick else options.models
    with threadpool_limits(1):
        tables = [
            measure(who, list(names), coverage, n, options.kept) for who, names, coverage in studies
        ]
    publish(tables, PREFACE, options.out, width=170)


if __name__ == "__main__":
    main()
