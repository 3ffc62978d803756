"""A margin of exactly 0: every verdict about it is what the library itself predicts there, for both classes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.tree import DecisionTreeClassifier

import holdfast as hf
from onnx_trees import graph, run

X = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 10, axis=0)
Y = ((X[:, 0] > 0.5) ^ (np.arange(40) % 7 == 0)).astype(int)
ROW = X[:1]
# Exact in float32: what a leaf adds, or a radius.
STEP = 0.125
Leaves = list[tuple[float, float]]


def xgb(leaves: Leaves) -> Any:
    """The trees of every maker ask whether the first column is below 0.5; `leaves` are what is left and right."""
    model = xgboost.XGBClassifier(n_estimators=len(leaves), max_depth=1, base_score=0.5, n_jobs=1)
    document = json.loads(bytes(model.fit(X, Y).get_booster().save_raw("json")))
    trees = document["learner"]["gradient_booster"]["model"]["trees"]
    for tree, numbers in zip(trees, leaves, strict=True):
        tree["split_conditions"] = [0.5, *numbers]
    model.load_model(bytearray(json.dumps(document).encode()))
    return model


def lgb(leaves: Leaves) -> Any:
    model = lightgbm.LGBMClassifier(n_estimators=len(leaves), num_leaves=2, verbose=-1, n_jobs=1)
    text, left = model.fit(X, Y).booster_.model_to_string(), iter(leaves)
    text = re.sub(r"\ntree_sizes=[^\n]*", "", text)
    text = re.sub(
        r"\nleaf_value=[^\n]*", lambda _: "\nleaf_value={!r} {!r}".format(*next(left)), text
    )
    model._Booster = lightgbm.Booster(
        model_str=re.sub(r"\nthreshold=[^\n]*", "\nthreshold=0.5", text)
    )
    return model


def boosted(leaves: Leaves) -> Any:
    model = GradientBoostingClassifier(
        n_estimators=len(leaves), max_depth=1, learning_rate=1.0, init="zero"
    ).fit(X, Y)
    for (tree,), numbers in zip(model.estimators_, leaves, strict=True):
        tree.tree_.value[1:, 0, 0] = numbers
    return model


def histogram(leaves: Leaves) -> Any:
    model = HistGradientBoostingClassifier(max_iter=len(leaves), max_depth=1, min_samples_leaf=1)
    model.fit(X, Y)._baseline_prediction = np.zeros((1, 1))
    for (tree,), numbers in zip(model._predictors, leaves, strict=True):
        tree.nodes["value"][1:] = numbers
    return model


def averaged(model: Any) -> Callable[[Leaves], Any]:
    """Shares of the two classes that differ by what a leaf is to add."""

    def make(leaves: Leaves) -> Any:
        if hasattr(model, "n_estimators"):
            model.set_params(n_estimators=len(leaves), random_state=0)
        trees = getattr(model.fit(X, Y), "estimators_", [model])
        for tree, numbers in zip(trees, leaves, strict=False):
            tree.tree_.feature[0], tree.tree_.threshold[0] = 0, 0.5
            tree.tree_.value[1:, 0] = [[0.5 - v / 2.0, 0.5 + v / 2.0] for v in numbers]
        return model

    return make


def runtime(post: str) -> Callable[[Leaves], Any]:
    def make(leaves: Leaves) -> Any:
        # A negative weight, far away: else onnxruntime would compare with 1/2.
        weights = [[[low], [-1.0], [high]] for low, high in leaves]
        return graph(weights, [(0.5, 50.0)] * len(leaves), post=post)

    return make


# Who makes the trees, and the class that the library gives a margin of exactly 0.
LIBRARIES: dict[str, tuple[Callable[[Leaves], Any], int]] = {
    "xgboost": (xgb, 0),
    "lightgbm": (lgb, 0),
    "boosted": (boosted, 1),
    "histogram": (histogram, 0),
    "forest": (averaged(RandomForestClassifier(max_depth=1, max_features=None)), 0),
    "extra": (averaged(ExtraTreesClassifier(max_depth=1, max_features=None)), 0),
    "tree": (averaged(DecisionTreeClassifier(max_depth=1)), 0),
    "onnx": (runtime("NONE"), 0),
    "onnx, logistic": (runtime("LOGISTIC"), 0),
}
SHARES = ("forest", "extra", "tree")
FILES = {"xgboost": ".ubj", "lightgbm": ".txt"}


def by_the_library(path: Path) -> int:
    if path.suffix == ".txt":
        return int(lightgbm.Booster(model_file=path).predict(ROW)[0] > 0.5)
    return int(xgboost.Booster(model_file=path).predict(xgboost.DMatrix(ROW))[0] > 0.5)


def predicted(model: Any) -> int:
    return int((run(model, ROW)[0] if hasattr(model, "graph") else model.predict(ROW))[0])


def worst_zero(name: str, sign: float) -> list[tuple[Leaves, Any]]:
    """Leaves and Δ, of which the worst for the class of this sign has a margin of exactly 0."""
    half = 2.0 if name in SHARES else 1.0
    sets: list[tuple[Leaves, Any]] = [
        ([(sign * STEP, -1.0)], hf.TreeChanges(leaves=STEP / half)),
        ([(sign * STEP, -1.0)], hf.TreeChanges(shift=STEP / half)),
        ([(sign * STEP, 0.0)], hf.TreeChanges(thresholds=1.0)),
    ]
    if name != "tree":
        sets.append(([(sign * STEP, -1.0), (0.0, 1.0)], hf.TreeChanges(dropped=1)))
    if name not in SHARES:
        sets.append(([(sign * STEP, -1.0)], hf.PlausibleShift(STEP)))
    return sets


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_margin_of_exactly_0_is_the_librarys(name: str, tmp_path: Path) -> None:
    make, tie = LIBRARIES[name]
    model = make([(0.0, -1.0)] if name == "tree" else [(0.25, -1.0), (-0.25, 1.0)])
    trees: Any = hf.load_model(model).classifier
    sums = [Fraction(value) for value in trees.sums(ROW)[0].tolist()]
    assert sums[-1] == (sums[0] if name in SHARES else 0)
    assert predicted(model) == int(trees.predict_index(ROW)[0]) == trees.tie == tie
    for target in (0, 1):
        # Nothing moves that the row meets: the library's own class, for certain where it adds in one order.
        (verdict,) = hf.certify(model, ROW, target, hf.TreeChanges()).verdict
        said = hf.Verdict.ROBUST if target == tie else hf.Verdict.NOT_ROBUST
        assert verdict == (said if trees.forest.ordered else hf.Verdict.UNKNOWN)
        for leaves, changes in worst_zero(name, 1.0 if target else -1.0):
            other = make(leaves)
            certs = hf.certify(other, ROW, target, changes)
            wrong = hf.Verdict.NOT_ROBUST if target == tie else hf.Verdict.ROBUST
            assert certs.verdict[0] != wrong
            if isinstance(changes, hf.PlausibleShift):
                continue
            # At the factor 1 the tie is lost, or it is not.
            radius = hf.certified_radius(other, ROW, target=target, changes=changes)
            assert target == tie or radius.lower[0] < 1.0
            if name in FILES and certs.verdict[0] == hf.Verdict.NOT_ROBUST:
                path, given = tmp_path / f"worst{FILES[name]}", {"point": ROW, "target": target}
                hf.save_witness(certs.witness(0), other, path, changes=changes, **given)
                assert by_the_library(path) != target


@pytest.mark.parametrize("threshold", [0.25, 0.3, 0.5, 0.6, 0.75, 0.9])
@pytest.mark.parametrize("name", [name for name in LIBRARIES if not name.startswith("onnx")])
def test_at_a_threshold_no_verdict_is_other_than_the_librarys(name: str, threshold: float) -> None:
    """Its own probability is rounded, and may be on the other side of the threshold than the margin."""
    make, _ = LIBRARIES[name]
    logit = float(np.log(threshold) - np.log1p(-threshold))
    at = 2.0 * threshold - 1.0 if name in SHARES else logit
    for one in (at, np.nextafter(at, -9.0), np.nextafter(at, 9.0), at - 1e-3, at + 1e-3):
        inner = make([(float(one), -1.0)])
        model = FixedThresholdClassifier(FrozenEstimator(inner), threshold=threshold).fit(X, Y)
        own = int(model.predict(ROW)[0])
        for target in (0, 1):
            (verdict,) = hf.certify(model, ROW, target, hf.TreeChanges()).verdict
            assert verdict != (hf.Verdict.NOT_ROBUST if target == own else hf.Verdict.ROBUST)
            assert abs(one - at) < 1e-4 or verdict != hf.Verdict.UNKNOWN
