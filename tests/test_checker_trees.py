"""Certificates of trees whose leaves and thresholds may move: what certify says, by other means; hard to forge."""

from __future__ import annotations

import contextlib
import copy
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast import checker
from holdfast._tree_document import of_tree_document, tree_document
from holdfast.importers import Model
from holdfast.promises import (
    NoCertificateError,
    certificate,
    check_certificate,
    write_certificates,
    write_parameters,
)
from holdfast.verify._certify import certify_points
from holdfast.verify._deciders import decider_for
from test_checker import _faults
from test_trees import FULL, GAPS, MODELS, NUMBERS, Y, xgb
from tree_changes import changes_for
from tree_forgeries import accepted, count, true

CASES = [
    ("xgboost, sets", 2),
    ("xgboost, base", 3),
    ("lightgbm, zeros", 2),
    ("lightgbm, no gaps", 2),
    ("histogram", 3),
    ("random forest", 2),
    ("a tree", 3),
]


@pytest.mark.parametrize(("name", "classes"), CASES)
def test_certificates_say_what_certify_says(name: str, classes: int, root: Path) -> None:
    schema = json.loads((root / "docs" / "certificate.schema.json").read_text(encoding="utf-8"))
    make, X = MODELS[name]
    model = make(classes)
    today = hf.load_model(model).classifier
    again = of_tree_document(json.loads(json.dumps(tree_document(today))))
    matrix = today.score.matrix(X)
    np.testing.assert_array_equal(again.forest.sums(matrix), today.forest.sums(matrix))
    asked, points = today.about(X.iloc[:5].reset_index(drop=True))
    targets, seen = asked.predict_index(points), []
    for changes in changes_for(today.forest, np.random.default_rng(classes)):
        certs = certify_points(decider_for(Model(asked), changes), points, targets)
        for row in range(len(points)):
            try:
                document = certificate(certs, row)
            except NoCertificateError:
                continue
            seen.append(document["verdict"])
            assert document["verdict"] == str(certs.verdict[row])
            assert [*_faults(document, schema, schema)] == []
            report = check_certificate(document, model)
            assert report.accepted, report
            assert "by more than its sums can round" in report.reason
            other = {"ROBUST": "NOT_ROBUST", "NOT_ROBUST": "ROBUST"}[document["verdict"]]
            assert "closed form" in forged(document, model, {"verdict": other}).reason
    assert {*seen} == {"ROBUST", "NOT_ROBUST"}
    assert len(seen) >= 12


def forged(document: Any, model: Any, change: dict[str, Any]) -> checker.Report:
    """What the checker says of a certificate with other entries, and hashes, a statement and an id to match."""
    changed = copy.deepcopy(document) | change
    with contextlib.suppress(checker.CheckError, KeyError, TypeError):
        changed["hashes"]["point"] = checker.sha256(changed["point"])
        changed["statement"] = checker.statement(changed)
    changed["id"] = checker.sha256({**changed, "id": ""})
    if isinstance(model, checker.PlainTrees):
        return checker.check(changed, model)
    return check_certificate(changed, model)


@pytest.fixture(scope="module")
def promised() -> tuple[Any, hf.TreeChanges, Any]:
    """A model, what may change, and the certificates of rows that it accepts."""
    model, X = MODELS["gradient boosting"][0](2), FULL[NUMBERS]
    changes = hf.TreeChanges(leaves=0.02, thresholds={"b": 0.01}, dropped=1, shift=0.01)
    rows = X[model.predict(X) == "yes"].head(40)
    return model, changes, hf.certify(model, rows, "yes", changes)


def test_whoever_promises_more_is_noticed(promised: Any) -> None:
    model, _, certs = promised
    row = int(np.flatnonzero(certs.robust)[0])
    document = certificate(certs, row)
    changes, point = document["changes"], document["point"]
    wider = [
        {"leaves": 5.0},
        {"thresholds": 100.0},
        {"dropped": 6},
        {"shift": 9.0},
        {"factor": 200.0},
    ]
    for entry in wider:
        assert "closed form" in forged(document, model, {"changes": changes | entry}).reason, entry
    for entry, why in (
        ({"leaves": -0.1}, ">= 0"),
        ({"leaves": [0.1]}, "one for each leaf"),
        ({"leaves": "x"}, "finite float"),
        ({"thresholds": {"z": 0.1}}, "columns of the model"),
        ({"dropped": 0.5}, "finite int"),
        ({"dropped": -1}, ">= 0"),
        ({"kind": "shift"}, "changes"),
    ):
        assert why in forged(document, model, {"changes": changes | entry}).reason, entry
    denied = FULL[NUMBERS][model.predict(FULL[NUMBERS]) == "no"].iloc[0].tolist()
    assert "closed form" in forged(document, model, {"point": denied}).reason
    assert not forged(document, model, {"point": point[:-1]}).accepted
    assert not check_certificate(document | {"point": denied}, model).accepted
    assert not forged(document, model, {"target": {"index": 0, "label": "no"}}).accepted
    for other in (MODELS["gradient boosting"][0](3), xgb(2), hf.Network([[[1.0] * 4]], [[0.0]])):
        assert "hashes.model" in forged(document, other, {}).reason


def test_a_model_that_was_touched_is_another_or_breaks_the_proof(promised: Any) -> None:
    model, _, certs = promised
    document = certificate(certs, int(np.flatnonzero(certs.robust)[0]))
    plain = json.loads(json.dumps(tree_document(hf.load_model(model).classifier)))
    assert checker.check(document, checker.PlainTrees(plain)).accepted
    leaves = [i for i, feature in enumerate(plain["feature"]) if feature < 0]
    root = plain["roots"][0]

    def swapped(changed: Any) -> None:
        changed["left"][root], changed["right"][root] = (
            changed["right"][root],
            changed["left"][root],
        )

    touches = {
        "a leaf": lambda changed: changed["values"].__setitem__(leaves[0], [9.0]),
        "leaves": lambda changed: [changed["values"].__setitem__(i, [-1.0]) for i in leaves],
        "a threshold": lambda changed: changed["threshold"].__setitem__(root, 9.0),
        "a child": swapped,
        "base": lambda changed: changed["base"].__setitem__(0, -9.0),
        "precision": lambda changed: changed.update(precision=24),
        "comparison": lambda changed: changed.update(compare="float64 <="),
        "band": lambda changed: changed.update(band=9.0),
    }
    for name, touch in touches.items():
        changed = copy.deepcopy(plain)
        touch(changed)
        other = checker.PlainTrees(changed)
        assert "hashes.model" in checker.check(document, other).reason, name
        if name in ("leaves", "base", "band"):
            # Even under the name of the other model.
            hashes = document["hashes"] | {"model": other.sha256}
            assert not forged(document, other, {"hashes": hashes}).accepted, name
    for entry in (
        {"left": [root] * len(plain["left"])},
        {"roots": [0, 0]},
        {"feature": [99] * len(plain["feature"])},
        {"sets": [[1]]},
        {"sets": 5},
        {"precision": 8},
        {"divisor": 0.0},
        {"missing": ["x"] * 4},
        {"compare": "<"},
        {"values": plain["values"][:-1]},
        {"threshold": ["nan"] * len(plain["threshold"])},
    ):
        with pytest.raises(checker.CheckError):
            checker.PlainTrees({**plain, **entry})


@pytest.mark.parametrize(("name", "classes"), [CASES[0], CASES[2]])
def test_no_forgery_that_is_false_is_accepted(name: str, classes: int) -> None:
    """Leaves, thresholds, rows, radii, what is no number; the truth is worked out by another walk."""
    make, X = MODELS[name]
    today = hf.load_model(make(classes)).classifier
    plain = json.loads(json.dumps(tree_document(today)))
    asked, points = today.about(X.iloc[:4].reset_index(drop=True))
    targets, documents = asked.predict_index(points), []
    for changes in changes_for(today.forest, np.random.default_rng(classes)):
        certs = certify_points(decider_for(Model(asked), changes), points, targets)
        for row in range(len(points)):
            with contextlib.suppress(NoCertificateError):
                documents.append(json.loads(json.dumps(certificate(certs, row))))
    assert all(accepted(plain, one) and true(plain, one) for one in documents)
    taken, false = count(plain, documents, 100, classes)
    assert false == []
    assert 10 < taken < 70


def test_the_file_alone_checks_it(promised: Any, tmp_path: Path, root: Path) -> None:
    model, _, certs = promised
    table = write_certificates(certs, tmp_path / "trees.jsonl")
    written = int(table["certificate"].notna().sum())
    assert written >= 30
    write_parameters(model, tmp_path / "trees.json")
    shutil.copy(root / "src" / "holdfast" / "checker.py", tmp_path / "alone.py")
    command = [sys.executable, "-I", "-S", "alone.py", "trees.jsonl", "--model", "trees.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"{written} accepted, 0 rejected" in done.stdout


def test_thresholds_and_pipelines() -> None:
    X, y = FULL[NUMBERS], Y[2]
    forest = RandomForestClassifier(7, max_depth=4, random_state=0).fit(X, y)
    # A step before the trees is not checked: the row is what the trees read.
    for model in (forest, make_pipeline(StandardScaler(), forest).fit(X, y)):
        loaded = hf.load_model(model, threshold=0.3)
        certs = hf.certify(loaded, X[:30], 1, hf.TreeChanges(leaves=0.02))
        assert certs.robust.any()
        for row in np.flatnonzero(certs.robust)[:3].tolist():
            document = certificate(certs, row)
            assert document["threshold"]["probability"] == 0.3
            assert check_certificate(document, model).accepted
            harder = {
                "threshold": {"probability": 0.9, "offsets": [float(np.log(0.9) - np.log1p(-0.9))]}
            }
            assert not forged(document, model, harder).accepted
            fewer = {"changes": document["changes"] | {"dropped": 1}}
            assert "another mean" in forged(document, model, fewer).reason


def test_a_threshold_on_the_first_class_is_checked(root: Path) -> None:
    schema = json.loads((root / "docs" / "certificate.schema.json").read_text(encoding="utf-8"))
    X, y = FULL[NUMBERS], Y[2]
    forest = RandomForestClassifier(7, max_depth=4, random_state=0)
    model = FixedThresholdClassifier(forest, threshold=0.3, pos_label=0).fit(X, y)
    certs = hf.certify(model, X[:60], 1, hf.TreeChanges(leaves=0.02))
    seen = []
    for row in range(60):
        try:
            document = certificate(certs, row)
        except NoCertificateError:
            continue
        seen.append(document["verdict"])
        assert document["threshold"] | {"offsets": []} == {
            "probability": 0.3, "offsets": [], "first": True,
        }  # fmt: skip
        assert [*_faults(document, schema, schema)] == []
        report = check_certificate(document, model)
        assert report.accepted, report
        assert "at the threshold 0.3 on the first class" in report.reason
        # What is proven: the least share of the first class that any ensemble can give stays below 0.3.
        share = forest.fit(X, y).predict_proba(X[row : row + 1])[0, 0]
        assert (document["verdict"] == "ROBUST") == (share + 0.02 < 0.3)
    assert {*seen} == {"ROBUST", "NOT_ROBUST"}
    stated = document["threshold"]
    for wrong in (
        stated | {"first": False},
        stated | {"probability": 0.9},
        {name: stated[name] for name in ("probability", "offsets")},
        1.0,
        "first",
        ["first"],
    ):
        assert not forged(document, model, {"threshold": wrong}).accepted
    boosted = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1).fit(X, y)
    known = certificate(hf.certify(boosted, X[:1], 0, hf.TreeChanges(leaves=0.1)), 0)
    half = {"threshold": {"probability": 0.5, "offsets": [0.0], "first": True}}
    assert "forests of two classes" in forged(known, boosted, half).reason


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "histogram"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_shift_of_trees_is_checked(name: str, classes: int, root: Path) -> None:
    schema = json.loads((root / "docs" / "certificate.schema.json").read_text(encoding="utf-8"))
    make, X = MODELS[name]
    today = hf.load_model(make(classes)).classifier
    asked, points = today.about(X.iloc[:12].reset_index(drop=True))
    targets, seen = asked.predict_index(points), []
    logits = asked.logits(points)
    for size in (0.0, 0.5, 2.0):
        decider = decider_for(Model(asked), hf.PlausibleShift(size))
        certs = certify_points(decider, points, targets)
        for row in range(len(points)):
            document = certificate(certs, row)
            seen.append(document["verdict"])
            assert [*_faults(document, schema, schema)] == []
            assert check_certificate(document, today).accepted
            own = logits[row]
            least = abs(own[0]) if classes == 2 else own.max() - np.delete(own, targets[row]).max()
            assert (document["verdict"] == "ROBUST") == (least > size)
            other = {"ROBUST": "NOT_ROBUST", "NOT_ROBUST": "ROBUST"}[document["verdict"]]
            assert "closed form" in forged(document, today, {"verdict": other}).reason
    assert {*seen} == {"ROBUST", "NOT_ROBUST"}


def test_a_shift_of_shares_has_no_certificate() -> None:
    model = MODELS["a tree"][0](2)
    X = GAPS[NUMBERS].iloc[:2].fillna(0.0)
    certs = hf.certify(model, X, model.predict(X), hf.PlausibleShift(0.1))
    with pytest.raises(NoCertificateError, match="logarithm of its shares"):
        certificate(certs, 0)
