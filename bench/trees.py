"""Trees: margins bit for bit, verdicts against sampled ensembles and the libraries, and what certify costs.

    python bench/trees.py --quick                    a few ensembles, a minute
    python bench/trees.py --ensembles 200 --rows 100000 --samples 100000

Prints one line for each library and setting. Processor time, one thread, both sides interleaved.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import xgboost
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import holdfast as hf
from holdfast.importers._tree_files import suffixes, write_trees

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from tree_changes import sampled

LABELS = [f"c{i:02d}" for i in range(40)]


def table(rng: np.random.Generator, n: int, categories: bool = True) -> pd.DataFrame:
    X = pd.DataFrame(rng.normal(size=(n, 8)).round(2), columns=list("abcdefgh"))
    for name in "abc":
        X.loc[rng.random(n) < 0.1, name] = np.nan
    if categories:
        X["k"] = pd.Categorical(rng.choice(LABELS, n), categories=LABELS)
    return X


def labels(rng: np.random.Generator, X: pd.DataFrame, classes: int) -> np.ndarray:
    codes = X["k"].cat.codes if "k" in X else 0.0
    score = X["d"] + 0.5 * X["e"] * X["f"] + 0.03 * codes
    return np.digitize(score + rng.normal(0.0, 0.5, len(X)), [0.5, 1.5][: classes - 1])


def random_model(library: str, rng: np.random.Generator) -> tuple[Any, bool, int]:
    """A fitted model of random settings, whether it reads categories, and of how many classes."""
    classes, trees, depth = (
        int(rng.integers(2, 4)),
        int(rng.integers(1, 40)),
        int(rng.integers(1, 7)),
    )
    categories = library != "forest"
    X = table(rng, 2000, categories)
    y = labels(rng, X, classes)
    seed = int(rng.integers(2**31))
    if library == "xgboost":
        model = xgboost.XGBClassifier(
            n_estimators=trees, max_depth=depth, n_jobs=1, enable_categorical=True, random_state=seed,
            max_cat_to_onehot=int(rng.choice([1, 4])), booster=str(rng.choice(["gbtree", "dart"])),
            rate_drop=0.3, num_parallel_tree=int(rng.choice([1, 1, 3])), subsample=0.7,
        )  # fmt: skip
    elif library == "lightgbm":
        model = lightgbm.LGBMClassifier(
            n_estimators=trees, num_leaves=2**depth, n_jobs=1, verbose=-1, random_state=seed,
            boosting_type=str(rng.choice(["gbdt", "dart"])), min_data_per_group=5,
            zero_as_missing=bool(rng.random() < 0.3), use_missing=bool(rng.random() < 0.8),
        )  # fmt: skip
    elif library == "histogram":
        model = HistGradientBoostingClassifier(max_iter=trees, max_depth=depth, random_state=seed)
    else:
        model = RandomForestClassifier(trees, max_depth=depth, random_state=seed)
    return model.fit(X, y), categories, classes


def own(model: Any, X: pd.DataFrame) -> np.ndarray:
    if isinstance(model, xgboost.XGBClassifier):
        return np.asarray(model.predict(X, output_margin=True))
    if isinstance(model, lightgbm.LGBMClassifier):
        return np.asarray(model.predict(X, raw_score=True))
    return np.asarray(getattr(model, "decision_function", model.predict_proba)(X))


def margins(library: str, ensembles: int, rows: int) -> str:
    rng = np.random.default_rng(0)
    X = {flag: table(rng, rows, flag) for flag in (True, False)}
    differ = others = 0
    for _ in range(ensembles):
        model, categories, _ = random_model(library, rng)
        trees = hf.load_model(model).classifier
        sums = trees.forest.sums(trees.score.matrix(X[categories]))
        theirs = own(model, X[categories]).astype(np.float64).reshape(sums.shape)
        differ += int((sums != theirs).sum())
        said = trees.classes[trees.winners(trees.score(X[categories][:2000]))]
        others += int((said != model.predict(X[categories][:2000])).sum())
    return f"margins   {library:10s} {ensembles} ensembles, {rows:,} rows: {differ} sums and {others} classes differ"


def verdicts(library: str, ensembles: int, samples: int) -> str:
    rng = np.random.default_rng(1)
    counts = {"ROBUST": 0, "NOT_ROBUST": 0, "UNKNOWN": 0}
    false = replayed = 0
    for _ in range(ensembles):
        model, categories, _ = random_model(library, rng)
        trees = hf.load_model(model).classifier
        X = table(rng, 40, categories)
        asked, points = trees.about(X)
        size = float(np.abs(trees.forest.values[trees.forest.leaves]).mean())
        changes = hf.TreeChanges(
            leaves=rng.random(int(trees.forest.leaves.sum())) * size * 0.3,
            thresholds=float(rng.choice([0.0, 0.02])),
            dropped=int(rng.integers(0, 3)),
        )
        targets = asked.predict_index(points)
        certs = hf.certify(asked, points, asked.classes[targets], changes)
        for verdict in certs.verdict:
            counts[str(verdict)] += 1
        for _ in range(samples // ensembles):
            pred = sampled(asked, changes, rng).predict_index(points)
            false += int(((pred != targets) & certs.robust).sum())
        broken = np.flatnonzero([str(verdict) == "NOT_ROBUST" for verdict in certs.verdict])
        for row in broken[:3].tolist():
            witness = certs.witness(row)
            false += int(witness.predict_index(points[[row]])[0]) == targets[row]
            if trees.origin is None:
                continue
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"witness{suffixes(trees)[0]}"
                write_trees(witness, path)
                false += _predicted(path, X.iloc[[row]]) == targets[row]
                replayed += 1
    seen = f"{samples:,} sampled ensembles, {replayed} witnesses from files"
    return f"verdicts  {library:10s} {counts}, {seen}: {false} false"


def _predicted(path: Path, row: pd.DataFrame) -> int:
    if path.suffix == ".txt":
        shares = lightgbm.Booster(model_file=str(path)).predict(row)
        return int(shares[0] > 0.5) if shares.ndim == 1 else int(shares.argmax())
    model = xgboost.XGBClassifier()
    model.load_model(path)
    return int(model.predict(row)[0])


def _own_pass(model: Any, array: np.ndarray) -> Any:
    if isinstance(model, xgboost.XGBClassifier):
        return model.get_booster().inplace_predict(
            array, predict_type="margin", validate_features=False
        )
    return model.booster_.predict(array, raw_score=True, num_threads=1)


def costs(rows: int, repeats: int) -> list[str]:
    lines, rng = [], np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(rows, 18)), columns=[f"x{i}" for i in range(18)])
    y = (X["x0"] + X["x1"] * X["x2"] + rng.normal(size=rows) > 0).astype(int)
    fit = slice(0, min(rows, 10_000))
    for trees, depth in ((100, 4), (100, 6)):
        for model in (
            xgboost.XGBClassifier(n_estimators=trees, max_depth=depth, n_jobs=1),
            lightgbm.LGBMClassifier(n_estimators=trees, num_leaves=2**depth, n_jobs=1, verbose=-1),
        ):
            model.fit(X[fit], y[fit])
            array = X.to_numpy()
            own_pass = partial(_own_pass, model, array)
            kinds = {
                "leaves": hf.TreeChanges(leaves=0.01),
                "thresholds": hf.TreeChanges(leaves=0.01, thresholds=0.01),
            }
            asked = {
                name: partial(hf.prepare(model, changes).certify, array, 1)
                for name, changes in kinds.items()
            }
            taken: dict[str, float] = dict.fromkeys(["own", *asked], np.inf)
            for _ in range(repeats):
                for name, work in {"own": own_pass, **asked}.items():
                    start = time.process_time()
                    work()
                    taken[name] = min(taken[name], time.process_time() - start)
            passes = ", ".join(f"{name} {taken[name] / taken['own']:.2f} passes" for name in asked)
            what = f"{type(model).__name__} {trees} x {depth}, {rows:,} rows"
            lines.append(f"certify   {what}: own pass {taken['own']:.2f} s, {passes}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--ensembles", type=int, default=20)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--samples", type=int, default=2_000)
    parser.add_argument("--cost-rows", type=int, default=100_000)
    given = parser.parse_args()
    if given.quick:
        given.ensembles, given.rows, given.samples, given.cost_rows = 4, 5_000, 200, 20_000
    for library in ("xgboost", "lightgbm", "histogram", "forest"):
        print(margins(library, given.ensembles, given.rows), flush=True)
        print(verdicts(library, max(2, given.ensembles // 2), given.samples), flush=True)
    for line in costs(given.cost_rows, 2):
        print(line, flush=True)


if __name__ == "__main__":
    main()
