"""Certificates of promises under a shift of the margin or an ellipsoid: redone in fractions, and hard to forge."""

from __future__ import annotations

import contextlib
import copy
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import holdfast as hf
from holdfast import checker
from holdfast.changes import Chance
from holdfast.promises import NoCertificateError, certificate, check_certificate, write_certificates
from oracle import exact_class
from random_networks import random_network
from test_checker import _faults, _numbers

KINDS = ["shift", "ensemble", "ellipsoid"]


def stated(network, X, label, changes, chance):
    """A point as `explain` hands it out where the chance was measured for this question."""
    told = hf.Recourse.of(network, X, np.asarray(X) - 9.0, target=label).under(changes)
    return replace(told, changes=changes.calibrated(chance), measured=told.found)


def random_shape(rng, size):
    """Symmetric and positive definite, with entries of very different sizes."""
    factor = rng.normal(size=(size, size)) * 10.0 ** rng.uniform(-1.0, 1.0, size)
    shape = factor @ factor.T + 0.01 * np.eye(size)
    return (shape + shape.T) / 2.0


def random_case(rng, kind, size=None):
    """A model, points, their classes today and what may change."""
    outputs = int(rng.choice([1, 2, 3]))
    hidden = () if kind == "ellipsoid" else [(), (3,), (3, 2)][rng.integers(3)]
    network = random_network(rng, 3, hidden, outputs)
    X = rng.normal(size=(4, 3))
    size = float(10.0 ** rng.uniform(-2.0, 0.5)) if size is None else size
    if kind == "shift":
        changes = hf.PlausibleShift(size)
    elif kind == "ensemble":
        builds = [hidden if rng.random() < 0.5 or outputs == 2 else (2,) for _ in range(3)]
        changes = hf.EnsembleShift(
            [random_network(rng, 3, build, outputs) for build in builds], size
        )
    else:
        changes = hf.Ellipsoid(random_shape(rng, network.n_parameters), size)
    return network, X, network.predict(X), changes


def logits_exactly(network, x):
    values = [Fraction(float(v)) for v in x]
    for weight, bias, kind in zip(
        network.weights, network.biases, (*network.activations, ""), strict=True
    ):
        values = [
            sum((Fraction(w) * v for w, v in zip(row, values, strict=True)), Fraction(b))
            for row, b in zip(weight.tolist(), bias.tolist(), strict=True)
        ]
        values = [max(v, Fraction(0)) for v in values] if kind == "relu" else values
    return values if len(values) > 1 else [Fraction(0), values[0]]


def margins_exactly(network, x, target):
    logits = logits_exactly(network, x)
    return {c: logits[target] - logits[c] for c in range(len(logits)) if c != target}


def solved_exactly(shape, g):
    """gᵀ H⁻¹ g by Gauss and Jordan, pivots wherever they are."""
    n = len(g)
    rows = [
        [Fraction(v) for v in row] + [Fraction(b)] for row, b in zip(shape.tolist(), g, strict=True)
    ]
    for k in range(n):
        best = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[best] = rows[best], rows[k]
        rows[k] = [v / rows[k][k] for v in rows[k]]
        for i in range(n):
            if i != k and rows[i][k]:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    return sum(Fraction(b) * row[-1] for b, row in zip(g, rows, strict=True))


def holds_exactly(network, x, target, changes):
    today = margins_exactly(network, x, target)
    lost = {c: (target == 0 if network.n_outputs == 1 else c < target) for c in today}

    def wins(c, margin):
        return margin > 0 or (margin == 0 and not lost[c])

    size = Fraction(changes.size)
    if isinstance(changes, hf.Ellipsoid):
        for c, margin in today.items():
            signs = (
                [1]
                if network.n_outputs == 1
                else [(k == target) - (k == c) for k in range(network.n_outputs)]
            )
            g = [sign * Fraction(v) for sign in signs for v in x.tolist()] + [
                Fraction(sign) for sign in signs
            ]
            if margin < 0 or not wins(c, margin**2 - size**2 * solved_exactly(changes.shape, g)):
                return False
        return True
    center = today
    if isinstance(changes, hf.EnsembleShift):
        others = [margins_exactly(other, x, target) for other in changes.models]
        center = {c: sum(other[c] for other in others) / len(others) for c in today}
    return all(wins(c, margin) and wins(c, center[c] - size) for c, margin in today.items())


@pytest.mark.parametrize("kind", KINDS)
def test_certificates_agree_with_certify_and_with_fractions(kind, root):
    rng = np.random.default_rng(3)
    schema = json.loads((root / "docs" / "certificate.schema.json").read_text(encoding="utf-8"))
    seen = set()
    for _ in range(30):
        network, X, targets, changes = random_case(rng, kind)
        certs = hf.certify(network, X, targets, changes)
        for i, x in enumerate(X):
            document = certificate(certs, i)
            target = document["target"]["index"]
            assert exact_class(network, x) == target
            assert (document["verdict"] == "ROBUST") == holds_exactly(network, x, target, changes)
            assert [*_faults(document, schema, schema)] == []
            # No word of the verdict that certify gave: the other one is refused.
            other = {"ROBUST": "NOT_ROBUST", "NOT_ROBUST": "ROBUST"}[document["verdict"]]
            assert "closed form" in forged(document, network, {"verdict": other}).reason
            seen.add(document["verdict"])
    assert seen == {"ROBUST", "NOT_ROBUST"}


def forged(document, network, change):
    """What the checker says of a certificate with other entries, and a statement and an id to match."""
    changed = copy.deepcopy(document) | change
    with contextlib.suppress(checker.CheckError, KeyError, TypeError, AttributeError):
        changed["statement"] = checker.statement(changed)
    changed["id"] = checker.sha256({**changed, "id": ""})
    return check_certificate(changed, network)


def test_the_last_bit_and_ties_decide():
    network = hf.Network([[[1.0, 0.0]]], [[0.0]])
    above = float(np.nextafter(0.5, 1.0))
    for x, margin, verdict in (
        (0.5, 0.5, "ROBUST"),
        (0.5, above, "NOT_ROBUST"),
        (above, above, "ROBUST"),
    ):
        document = certificate(hf.certify(network, [[x, 0.0]], 1, hf.PlausibleShift(margin)), 0)
        assert document["verdict"] == verdict
    mirrored = hf.Network([[[-1.0, 0.0]]], [[0.0]])
    assert (
        certificate(hf.certify(mirrored, [[0.5, 0.0]], 0, hf.PlausibleShift(0.5)), 0)["verdict"]
        == "NOT_ROBUST"
    )
    # The margin is 3, and the reach of (2, 1, 1) is sqrt(4 + 1 + 4).
    shape, whole, x = np.diag([1.0, 1.0, 0.25]), hf.Network([[[1.0, 1.0]]], [[0.0]]), [[2.0, 1.0]]
    document = certificate(hf.certify(whole, x, 1, hf.Ellipsoid(shape, 1.0)), 0)
    assert document["verdict"] == "ROBUST"
    # No float64 counter-model is that near, and still there is one.
    wider = {"changes": document["changes"] | {"radius": float(np.nextafter(1.0, 2.0))}}
    assert "closed form" in forged(document, whole, wider).reason
    assert forged(document, whole, wider | {"verdict": "NOT_ROBUST"}).accepted


def _paths(node, path=()):
    """Every entry of a certificate, whatever it holds."""
    yield path
    if isinstance(node, dict | list):
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _paths(item, (*path, key))


def put(document, path, value):
    changed = copy.deepcopy(document)
    node = changed
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return changed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verdict", ["ROBUST", "NOT_ROBUST"])
def test_every_field_that_is_tampered_with_is_noticed(kind, verdict):
    rng = np.random.default_rng(4)
    while True:
        network, X, targets, changes = random_case(rng, kind, 0.1 if verdict == "ROBUST" else 1.0)
        label = network.classes[targets[0]]
        document = certificate(stated(network, X[:1], label, changes, Chance(0.1, 20)), 0)
        if document["verdict"] == verdict:
            break
    report = check_certificate(document, network)
    assert report.accepted
    assert report.not_checked[-1] == "the chance, which is measured"
    junk = [
        None,
        True,
        -1,
        3.5,
        "x",
        [],
        [[]],
        {},
        10**400,
        {"kind": "shift"},
        [1, "2"],
        ["ROBUST"],
    ]
    for path in list(_paths(document))[1:]:
        for value in junk:
            changed = put(document, path, value)
            if changed == document:
                continue
            assert not check_certificate(changed, network).accepted, path
            unread = {"chance", "space", "row"} & set(path)
            if path[0] in ("id", "about", "statement") or unread:
                continue
            try:
                report = forged(changed, network, {})
            except checker.CheckError:
                continue
            # Numbers may be others for which the same is true: that is another true certificate.
            number = (
                path in set(_numbers(document))
                and isinstance(value, int | float)
                and path[0] == "changes"
            )
            assert not report.accepted or number, (path, value, report)
            if report.accepted:
                still_true(network, put(document, path, value), verdict)


def still_true(network, document, verdict):
    entry = document["changes"]
    if entry["kind"] == "shift":
        changes = hf.PlausibleShift(entry["margin"])
    elif entry["kind"] == "ensemble":
        models = [
            hf.Network(m["weights"], m["biases"], activations=m["activations"])
            for m in entry["models"]
        ]
        changes = hf.EnsembleShift(models, entry["margin"])
    else:
        changes = hf.Ellipsoid(entry["shape"], entry["radius"])
    target = document["target"]["index"]
    assert holds_exactly(network, np.array(document["point"]), target, changes) == (
        verdict == "ROBUST"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"shape": [[1.0, 0.0], [0.0, 1.0]]}, "a row for each parameter"),
        ({"shape": [[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]}, "symmetric"),
        ({"shape": [[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]}, "positive definite"),
        ({"shape": [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]}, "positive definite"),
        ({"shape": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]]}, "positive definite"),
        ({"radius": -0.1}, ">= 0"),
        ({"kind": "sphere"}, "changes.kind"),
        ({"kind": "shift"}, "expected the entries kind margin"),
        ({"kind": "parameters"}, "expected the entries delta norm biases"),
    ],
)
def test_a_shape_that_is_none_is_refused(change, reason):
    network = hf.Network([[[1.0, 1.0]]], [[0.0]])
    document = certificate(hf.certify(network, [[2.0, 1.0]], 1, hf.Ellipsoid(np.eye(3), 0.1)), 0)
    assert reason in forged(document, network, {"changes": document["changes"] | change}).reason


def test_an_ellipsoid_of_a_network_with_hidden_layers_is_refused():
    deep = hf.Network([[[1.0]], [[1.0]]], [[0.0], [0.5]])
    certs = hf.certify(deep, [[1.0]], 1, hf.PlausibleShift(0.1))
    changes = {"kind": "ellipsoid", "radius": 0.1, "shape": np.eye(4).tolist()}
    assert (
        "without hidden layers" in forged(certificate(certs, 0), deep, {"changes": changes}).reason
    )


def test_models_of_an_ensemble_read_what_todays_reads():
    network = hf.Network([[[1.0, 0.0]]], [[0.0]])
    document = certificate(
        hf.certify(network, [[2.0, 1.0]], 1, hf.EnsembleShift([network], 0.5)), 0
    )
    for weights, biases in (([[[1.0]]], [[0.0]]), ([[[1.0, 0.0], [0.0, 1.0]]], [[0.0, 0.0]])):
        models = [{"weights": weights, "biases": biases, "activations": []}]
        changes = document["changes"] | {"models": models}
        assert "variables and logits" in forged(document, network, {"changes": changes}).reason


def test_a_chance_is_stated_and_not_checked(tmp_path, root):
    network = hf.Network([[[1.0, 0.0]]], [[0.0]])
    record = {"generator": "RNCE", "people": [[0.0, 9.0]]}
    chance = Chance(0.1, 20, 0.9, "each on other rows", 30, 0.05, 1, record)
    for changes in (hf.PlausibleShift(0.5), hf.PlausibleChanges(0.01)):
        certs = stated(network, [[2.0, 1.0]], 1, changes, chance)
        document = certificate(certs, 0)
        assert document["changes"]["chance"]["models"] == 20
        # Nobody's numbers are handed out.
        assert document["changes"]["chance"]["record"] == {"generator": "RNCE"}
        assert "chance" not in document["statement"]
        assert "the chance, which is measured" in check_certificate(document, network).not_checked
    write_certificates(certs, tmp_path / "one.jsonl")
    network.save(tmp_path / "model.npz")
    shutil.copy(root / "src" / "holdfast" / "checker.py", tmp_path / "alone.py")
    command = [sys.executable, "-I", "-S", "alone.py", "one.jsonl", "--model", "model.npz"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "not checked: about, space, row, the chance, which is measured" in done.stdout


def test_a_model_known_by_its_scores_has_no_certificate(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    forest = RandomForestClassifier(5, random_state=0).fit(X, X[:, 0] > 0)
    certs = hf.certify(forest, X[:3], forest.predict(X[:3]), hf.PlausibleShift(0.1))
    with pytest.raises(
        NoCertificateError, match="it takes a network, whose numbers others can check"
    ):
        certificate(certs, 0)
    table = write_certificates(certs, tmp_path / "none.jsonl")
    assert table["certificate"].isna().all()
    assert table["reason"].str.contains("takes a network").all()
    network = hf.load_network(LogisticRegression().fit(X, X[:, 0] > 0))
    mixed = hf.certify(network, X[:3], network.predict(X[:3]), hf.EnsembleShift([forest], 0.1))
    with pytest.raises(NoCertificateError, match="it takes a network"):
        certificate(mixed, 0)
