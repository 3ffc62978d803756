"""Margins of trees against the libraries' own; verdicts against brute force, sampled ensembles, witnesses in files."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import xgboost

import holdfast as hf

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from report import Table
from tree_cases import LIBRARIES, SIZES, TABLES, fitted, own_margins, replayed, world
from tree_changes import sampled

LABELS = [f"c{i:02d}" for i in range(40)]
# Rows of a table that a model learns from, and that are compared.
FIT, READ = 8000, 20_000


def table(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Eight columns of numbers, three of them with gaps, and one of categories."""
    X = pd.DataFrame(rng.normal(size=(n, 8)).round(2), columns=list("abcdefgh"))
    for name in "abc":
        X.loc[rng.random(n) < 0.1, name] = np.nan
    return X.assign(k=pd.Categorical(rng.choice(LABELS, n), categories=LABELS))


def random_model(library: str, rng: np.random.Generator) -> Any:
    """A fitted model of random settings."""
    classes, trees, depth = (int(rng.integers(*ends)) for ends in ((2, 4), (1, 40), (1, 7)))
    X = table(rng, 2000)
    score = X["d"] + 0.5 * X["e"] * X["f"] + 0.03 * X["k"].cat.codes + rng.normal(0.0, 0.5, 2000)
    y = np.digitize(score, [0.5, 1.5][: classes - 1])
    seed = int(rng.integers(2**31))
    if library == "xgboost":
        dart = {"booster": "dart", "rate_drop": 0.3} if rng.random() < 0.5 else {}
        model: Any = xgboost.XGBClassifier(
            n_estimators=trees, max_depth=depth, n_jobs=1, enable_categorical=True, random_state=seed,
            max_cat_to_onehot=int(rng.choice([1, 4])), num_parallel_tree=int(rng.choice([1, 1, 3])), subsample=0.7,
            **dart,
        )  # fmt: skip
    else:
        model = lightgbm.LGBMClassifier(
            n_estimators=trees, num_leaves=2**depth, n_jobs=1, verbose=-1, random_state=seed,
            boosting_type=str(rng.choice(["gbdt", "dart"])), min_data_per_group=5,
            zero_as_missing=bool(rng.random() < 0.3), use_missing=bool(rng.random() < 0.8),
        )  # fmt: skip
    return model.fit(X, y)


def _differences(model: Any, X: pd.DataFrame) -> tuple[int, int]:
    """How many sums are not the library's to the last bit, and how many classes are not."""
    trees = hf.load_model(model).classifier
    sums = trees.forest.sums(trees.score.matrix(X))
    differ = int((sums != own_margins(model, X).reshape(sums.shape)).sum())
    said = trees.classes[trees.winners(trees.score.logits(sums))]
    return differ, int((said != model.predict(X)).sum())


def margins(ensembles: int, rows: int) -> Table:
    """Random ensembles on one table, then the public tables."""
    lines = []
    for library in LIBRARIES:
        rng = np.random.default_rng(0)
        X = table(rng, rows)
        found = np.array([_differences(random_model(library, rng), X) for _ in range(ensembles)])
        lines.append(
            [f"{library}, random", str(ensembles), f"{rows:,}", *map(str, found.sum(axis=0))]
        )
    for name, library in product(TABLES, LIBRARIES):
        here = world(name)
        frame = here.frame.head(READ)
        found = np.array(
            [
                _differences(fitted(library, *here.part(slice(FIT)), *size), frame)
                for size in SIZES
            ]
        )  # fmt: skip
        lines.append(
            [f"{library}, {name}", str(len(SIZES)), f"{len(frame):,}", *map(str, found.sum(axis=0))]
        )
    note = (
        "Random: 1 to 39 rounds, 2 or 3 classes, gbtree, gbdt and dart, parallel trees, gaps and 40 "
        f"categories. On the tables: {', '.join(f'{n} x {d}' for n, d in SIZES)} (trees x depth). Bit for bit, "
        "rounding included."
    )
    columns = ["library", "ensembles", "rows of each", "sums that differ", "classes that differ"]
    return Table("Margins against the library's own", columns, lines, note)


def _every_ensemble(
    forest: Any, radii: Any, low: Any, high: Any, X: Any, dropped: int
) -> tuple[Any, int]:
    """The least margin of each row over every ensemble of a grid, by an evaluator of its own; how many there are."""
    spread = []
    for tree in range(forest.n_trees):
        nodes = np.flatnonzero(forest.tree_of == tree)
        inner = nodes[forest.feature[nodes] >= 0]
        sums = []
        for ends in product(*[{low[i], forest.threshold[i], high[i]} for i in inner]):
            at, cut = np.full(len(X), forest.roots[tree]), forest.threshold.copy()
            cut[inner] = ends
            while (forest.feature[at] >= 0).any():
                x = X[np.arange(len(X)), np.maximum(forest.feature[at], 0)]
                left = x.astype(np.float32) < cut[at] if forest.single else x <= cut[at]
                left = np.where(np.isnan(x), forest.missing_left[at], left)
                at = np.where(
                    forest.feature[at] < 0, at, np.where(left, forest.left[at], forest.right[at])
                )
            sums += [forest.values[at, 0] + end * radii[at] for end in (-1.0, 0.0, 1.0)]
        spread.append(np.array(sums + [np.zeros(len(X))] * bool(dropped)))
    least, count = np.full(len(X), np.inf), 0
    for parts in product(*(range(len(sums)) for sums in spread)):
        gone = sum(
            bool(dropped) and part == len(sums) - 1
            for part, sums in zip(parts, spread, strict=True)
        )
        if gone <= dropped:
            count += 1
            whole = forest.base[0] + sum(
                sums[part] for part, sums in zip(parts, spread, strict=True)
            )
            least = np.minimum(least, whole)
    return least, count


def brute_force(library: str, ensembles: int) -> list[str]:
    """Small ensembles: every one of a grid of leaves, thresholds and trees dropped."""
    rng, counts, false, grid = np.random.default_rng(3), [0, 0, 0], 0, 0
    for _ in range(ensembles):
        X = table(rng, 400).drop(columns="k")
        y = (X["d"] + X["e"] + rng.normal(0.0, 0.5, 400) > 0).astype(int)
        small = fitted(library, X, y, 2, 2, int(rng.integers(1000)))
        trees = hf.load_model(small).classifier
        changes = hf.TreeChanges(
            leaves=rng.random(int(trees.forest.leaves.sum())) * 0.08,
            thresholds=float(rng.choice([0.0, 0.05, 0.3])),
            dropped=int(rng.integers(0, 3)),
        )
        asked, points = trees.about(X.head(60))
        certs = hf.certify(asked, points, 1, changes)
        low, high = trees.forest.around(changes.threshold_radii(trees))
        radii = changes.leaf_radii(trees)
        seen = trees.forest.seen(trees.score.matrix(X.head(60)))
        least, count = _every_ensemble(trees.forest, radii, low, high, seen, changes.dropped)
        grid += count
        for verdict, margin in zip(certs.verdict, least, strict=True):
            counts[["ROBUST", "NOT_ROBUST", "UNKNOWN"].index(str(verdict))] += 1
            clear = abs(margin) > 1e-6
            false += bool(clear and str(verdict) != ("ROBUST" if margin > 0.0 else "NOT_ROBUST"))
    return [
        f"{library}, {ensembles} of 2 x 2",
        *map(str, counts),
        f"{grid:,} (all of a grid)",
        "-",
        str(false),
    ]


def _asked(
    model: Any, X: pd.DataFrame, changes: hf.TreeChanges, samples: int, files: int, rng: Any
) -> Any:
    """Verdicts by kind, witnesses replayed and what is false, of one ensemble."""
    trees = hf.load_model(model).classifier
    asked, points = trees.about(X)
    targets = asked.predict_index(points)
    certs = hf.certify(asked, points, asked.classes[targets], changes)
    found = np.array([str(verdict) for verdict in certs.verdict])
    robust, false = np.flatnonzero(certs.robust), 0
    for _ in range(samples if robust.size else 0):
        said = sampled(asked, changes, rng).predict_index(points[robust])
        false += int((said != targets[robust]).sum())
    broken = np.flatnonzero(found == "NOT_ROBUST")[:files]
    for row in broken.tolist():
        witness = certs.witness(row)
        false += int(witness.predict_index(points[[row]])[0]) == targets[row]
        false += replayed(witness, X.iloc[[row]]) == targets[row]
    kinds = [int((found == kind).sum()) for kind in ("ROBUST", "NOT_ROBUST", "UNKNOWN")]
    return [*kinds, samples if robust.size else 0, broken.size, false]


def _drawn(trees: Any, rng: Any) -> hf.TreeChanges:
    size = float(np.abs(trees.forest.values[trees.forest.leaves]).mean())
    return hf.TreeChanges(
        leaves=rng.random(int(trees.forest.leaves.sum())) * size * 0.3,
        thresholds=float(rng.choice([0.0, 0.02])),
        dropped=int(rng.integers(0, 3)),
        shift=float(rng.choice([0.0, 0.02])),
    )


def verdicts(ensembles: int, samples: int) -> Table:
    """Small ensembles against all of a grid, random and real ones against samples; witnesses through files."""
    lines = [brute_force(library, max(2, ensembles // 10)) for library in LIBRARIES]
    every: list[list[int]] = []
    for library in LIBRARIES:
        rng, found = np.random.default_rng(1), []
        for _ in range(ensembles):
            model = random_model(library, rng)
            changes = _drawn(hf.load_model(model).classifier, rng)
            found.append(_asked(model, table(rng, 40), changes, samples // (2 * ensembles), 3, rng))
        lines.append(_line(f"{library}, random", found))
        every += found
    for name, library in product(TABLES, LIBRARIES):
        here, rng, found = world(name), np.random.default_rng(2), []
        for size in SIZES:
            model = fitted(library, *here.part(slice(FIT)), *size)
            X = here.frame.iloc[FIT : FIT + 40].reset_index(drop=True)
            # Radii at which about half of the rows hold.
            changes = _drawn(hf.load_model(model).classifier, rng)
            asked, points = hf.load_model(model).classifier.about(X)
            targets = asked.classes[asked.predict_index(points)]
            middle = np.median(hf.certified_radius(asked, points, targets, changes=changes).lower)
            found.append(_asked(model, X, changes.resized(float(middle)), samples // 1000, 5, rng))
        lines.append(_line(f"{library}, {name}", found))
        every += found
    drawn, files, false = (sum(counts[i] for counts in every) for i in (3, 4, 5))
    note = (
        "Changes drawn at random: a radius for each leaf, thresholds, up to two trees dropped, a shift; on "
        "the tables scaled so that half of the rows are robust. A robust row is false if any sampled ensemble "
        "flips it; a witness is false if it does not flip its row after the library loads it from its file. Together "
        f"{drawn:,} sampled ensembles and {files:,} witnesses from files, {false} false."
    )
    columns = [
        "library",
        "ROBUST",
        "NOT_ROBUST",
        "UNKNOWN",
        "ensembles tried",
        "witnesses from files",
        "false",
    ]
    return Table("Verdicts against the ensembles themselves", columns, lines, note)


def _line(name: str, found: list[Any]) -> list[str]:
    return [name, *(f"{count:,}" for count in np.array(found).sum(axis=0).tolist())]
