"""The checker on its own: what it proves is never more than the exact least margin, and no forgery gets past it."""

from __future__ import annotations

import ast
import copy
import importlib.util
import json
import re
import sys
from fractions import Fraction

import numpy as np
import pytest

import holdfast as hf
from holdfast import checker
from holdfast.promises import NoCertificateError, certificate, check_certificate
from holdfast.promises._certificate import plain_model
from oracle import exact_class, inside_exactly, least_margins_exact, robust_exactly
from random_networks import random_changes, random_network, random_points


@pytest.fixture(scope="module")
def bench(root):
    """The benchmark's own makers and forgers, on a smaller scale."""
    spec = importlib.util.spec_from_file_location("bench_checker", root / "bench" / "checker.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_checker_imports_the_standard_library_alone(root):
    tree = ast.parse((root / "src" / "holdfast" / "checker.py").read_text(encoding="utf-8"))
    modules = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    modules |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in modules} <= sys.stdlib_module_names


def test_certificates_agree_with_certify_and_forgeries_are_rejected(bench, example):
    tally = bench.Tally()
    made = bench.make(300, 7, tally)
    assert tally.disagreements == []
    assert {kind.split(",")[0] for kind in tally.made} == {"ROBUST", "NOT_ROBUST"}
    bench.forge(800, 7, made, tally)
    branched = bench.Made(example[1], example[0], "ROBUST, cases with splits")
    bench.forge(300, 8, [branched, *(one for one in made if "cases" in one.kind)], tally)
    bench.forge(200, 9, [*_priced(bench)], tally)
    assert tally.false_accepted == []
    assert tally.stale_accepted == []
    assert len(tally.forged) == len(bench.FORGERIES)
    # Some changes make another true certificate, such as a smaller delta; most do not.
    assert 0 < tally.still_true.total() < 0.6 * tally.forged.total()


def _priced(bench):
    """Certificates whose proofs have prices, for one radius that is shared."""
    network = hf.Network(
        [[[1.0, 0.5], [-0.5, 1.0], [0.25, -1.0]], [[1.0, 0.5, -1.0]]], [[0.0, 0.25, 0.5], [0.25]]
    )
    for delta, kind in ((0.45, "price"), (0.5, "prices")):
        certs = hf.certify(network, [[1.0, 0.5]], 1, hf.PlausibleChanges(delta, norm=2.0))
        document = certificate(certs, 0)
        assert kind in document["proof"]["parts"][0]["tree"]
        yield bench.Made(document, network, "ROBUST, ball with prices")


SHAPES = [(), (2,), (3,), (2, 2), (3, 2), (2, 2, 2)]


def test_verdicts_and_bounds_against_exact_fractions():
    """Small networks, exactly: a certificate exists where the verdict is true, and states no more than is so."""
    rng = np.random.default_rng(5)
    seen = set()
    for k in range(60):
        hidden = SHAPES[k % len(SHAPES)]
        network = random_network(rng, 2, hidden, int(rng.choice([1, 1, 2, 3])))
        X = random_points(rng, 3, 2)
        changes = random_changes(rng, len(hidden) + 1)
        certs = hf.certify(network, X, network.predict(X), changes)
        for i, x in enumerate(X):
            document = certificate(certs, i)
            target = document["target"]["index"]
            least = least_margins_exact(network, x, target, changes)
            assert (document["verdict"] == "ROBUST") == robust_exactly(least, target)
            seen.add(document["verdict"])
            if document["verdict"] == "ROBUST":
                rivals = (
                    [None]
                    if network.n_outputs == 1
                    else [part["rival"] for part in document["proof"]["parts"]]
                )
                for part, rival in zip(document["proof"]["parts"], rivals, strict=True):
                    assert Fraction(part["bound"]) <= least[rival]
                    if len(hidden) < 2:
                        assert np.nextafter(part["bound"], np.inf) > least[rival]
            elif document["proof"]["method"] == "witness":
                witness = network.with_parameters(
                    document["proof"]["weights"], document["proof"]["biases"]
                )
                assert inside_exactly(network, changes, witness)
                assert exact_class(witness, x) == document["proof"]["rival"] != target
    assert seen == {"ROBUST", "NOT_ROBUST"}


def _random_tree(rng, ranges):
    """Any tree with any multipliers: most prove little, and none may prove too much."""
    open_ = [
        (i, j)
        for i, layer in enumerate(ranges)
        for j, (low, high) in enumerate(layer)
        if low < 0 < high
    ]
    if open_ and rng.random() < 0.6:
        i, j = open_[rng.integers(len(open_))]
        low, high = ranges[i][j]
        node = {"split": [i, j]}
        for name, ends in (("below", (low, 0)), ("above", (0, high))):
            case = [list(layer) for layer in ranges]
            case[i][j] = ends
            node[name] = _random_tree(rng, case)
        return node
    if rng.random() < 0.3:
        return {}
    unit = int(rng.choice([1, 7, 16]))
    # Some below zero: as a multiplier of L it is refused, as one of U it is as good as any other.
    lower = [
        rng.integers(-(rng.random() < 0.1), 3 * unit, len(layer)).tolist() for layer in ranges[1:]
    ]
    upper = [rng.integers(-3 * unit, 2 * unit, len(layer)).tolist() for layer in ranges[1:]]
    return {"lower": lower, "upper": upper, "denominator": unit}


def test_no_tree_proves_more_than_the_least_margin():
    rng = np.random.default_rng(6)
    bounds = refused = 0
    for k in range(24):
        hidden = [(2, 2), (3, 3), (2, 2, 2)][k % 3]
        network = random_network(rng, 2, hidden, 1, awkward=k % 2 == 0)
        x = random_points(rng, 1, 2)[0]
        delta = float(10.0 ** rng.uniform(-2.0, -0.3))
        least = least_margins_exact(network, x, 1, hf.PlausibleChanges(delta))[None]
        radii = ((delta, delta),) * (len(hidden) + 1)
        question = checker.Question(plain_model(network), (radii, np.inf, True), x.tolist(), 1)
        for _ in range(50):
            try:
                part = {"rival": 0, "method": "cases", "tree": _random_tree(rng, question.ranges)}
                assert question.bound(part) <= least
                bounds += 1
            except checker.CheckError:
                refused += 1
    assert bounds > 300
    assert refused > 10


def test_multipliers_are_lines_below_every_point_of_a_neuron():
    """The inequality of the proof by cases, against points drawn from what it claims to hold for."""
    rng = np.random.default_rng(8)
    for _ in range(60):
        network = random_network(rng, 2, (3, 3), 1)
        x, delta = random_points(rng, 1, 2)[0], 0.25
        radii = ((delta, delta),) * 3
        question = checker.Question(plain_model(network), (radii, np.inf, True), x.tolist(), 1)
        unit = 8
        row = [int(v) for v in rng.integers(-20, 20, 4)]
        lines = [(rng.integers(0, 20, 3).tolist(), rng.integers(-20, 20, 3).tolist())]
        proven = question.least(row, row, question.ranges, lines, unit)
        low, high = question.boxes(np.inf)[1]
        scale = Fraction(1, 2**question.shift)
        layer = question.layers[1]
        for _ in range(20):
            v = [Fraction(int(rng.integers(0, 5)), 4) for _ in low[:-1]]
            before = [
                (a + (b - a) * share) / low[-1]
                for a, b, share in zip(low, high, [*v, 0], strict=True)
            ]
            values = []
            for weights in zip(layer.low, layer.high, strict=True):
                ends = [
                    sum(w * scale * v for w, v in zip(row, before, strict=True)) for row in weights
                ]
                bottom, top = (max(end, Fraction(0)) for end in ends)
                values.append(bottom + (top - bottom) * Fraction(int(rng.integers(0, 3)), 2))
            assert proven <= sum(w * scale * v for w, v in zip(row, [*values, 1], strict=True))


def test_ball_bounds_are_the_dual_norm_without_hidden_layers():
    network = hf.Network([[[0.5, -1.0]]], [[0.25]])
    x = [2.0, -1.0]
    for norm, reach in ((1.0, 2.0), (2.0, np.sqrt(6.0))):
        delta = 0.3
        certs = hf.certify(network, [x], 1, hf.PlausibleChanges(delta, norm))
        document = certificate(certs, 0)
        (part,) = document["proof"]["parts"]
        assert part["method"] == ("interval" if 2.25 - delta * 4.0 > 0 else "ball")
        wider = hf.PlausibleChanges(2.25 / reach * 0.999, norm)
        (part,) = certificate(hf.certify(network, [x], 1, wider), 0)["proof"]["parts"]
        assert part["method"] == "ball"
        assert part["bound"] == pytest.approx(2.25 - wider.delta * reach, abs=1e-12)


def test_a_witness_in_another_norm_is_measured_exactly():
    network = hf.Network([[[1.0, 0.0]]], [[0.0]])
    for norm in (1.0, 2.0):
        certs = hf.certify(network, [[1.0, 0.0]], 1, hf.PlausibleChanges(1.1, norm))
        document = certificate(certs, 0)
        assert document["verdict"] == "NOT_ROBUST"
        assert check_certificate(document, network).accepted
        # The same witness is outside a smaller ball.
        document["changes"]["delta"] = 0.5
        document["statement"] = document["statement"].replace("1.1", "0.5")
        document["id"] = checker.sha256({**document, "id": ""})
        assert "outside Δ" in check_certificate(document, network).reason


def test_a_norm_without_an_exact_rule_is_refused_clearly():
    network = hf.Network([[[1.0, 0.0]]], [[0.0]])
    certs = hf.certify(network, [[1.0, 0.0]], 1, hf.PlausibleChanges(1.5, 3.0))
    with pytest.raises(NoCertificateError, match="checked for the norms 1, 2 and inf"):
        certificate(certs, 0)


def test_a_margin_of_exactly_zero_counts_for_class_one_only():
    network = hf.Network([[[1.0]]], [[0.0]])
    changes = hf.PlausibleChanges(0.5)
    # Least logit 1 - 0.5 (1 + 1) = 0.
    document = certificate(hf.certify(network, [[1.0]], 1, changes), 0)
    assert (document["verdict"], document["proof"]["parts"][0]["bound"]) == ("ROBUST", 0.0)
    mirrored = hf.Network([[[-1.0]]], [[0.0]])
    assert certificate(hf.certify(mirrored, [[1.0]], 0, changes), 0)["verdict"] == "NOT_ROBUST"


@pytest.fixture(scope="module")
def example():
    rng = np.random.default_rng(11)
    weights = [1.3 * rng.normal(size=(b, a)) / np.sqrt(a) for a, b in ((6, 14), (14, 14), (14, 1))]
    network = hf.Network(weights, [0.3 * rng.normal(size=size) for size in (14, 14, 1)])
    X = rng.normal(size=(200, 6))
    radius = hf.certified_radius(network, X, network.predict(X)).lower
    for row in np.argsort(-radius):
        certs = hf.certify(
            network, X[[row]], network.predict(X[[row]]), hf.PlausibleChanges(0.999 * radius[row])
        )
        document = certificate(certs, 0)
        if "split" in document["proof"]["parts"][0]["tree"]:
            return network, document
    raise AssertionError("no proof with cases")


def test_any_digit_that_is_changed_in_the_text_is_noticed(example):
    network, document = example
    model, text = plain_model(network), json.dumps(document)
    assert checker.check(json.loads(text), model).accepted
    digits = [match.start() for match in re.finditer(r"[0-9]", text)]
    rng = np.random.default_rng(0)
    for place in rng.choice(digits, 150, replace=False):
        digit = str((int(text[place]) + int(rng.integers(1, 10))) % 10)
        try:
            changed = json.loads(text[:place] + digit + text[place + 1 :])
        except ValueError:
            continue
        # The last of seventeen digits may be changed without the number being another.
        same = changed == document
        assert checker.check(changed, model).accepted == same, text[place - 20 : place + 20]


def test_malformed_certificates_are_rejected_and_never_crash(example):
    network, document = example
    model = plain_model(network)
    rng = np.random.default_rng(1)
    junk = [
        None,
        True,
        -1,
        3.5,
        "x",
        [],
        [[]],
        float("nan"),
        float("inf"),
        10**400,
        {"split": [1, 0]},
        [1, "2"],
    ]
    for _ in range(400):
        changed = copy.deepcopy(document)
        node, key = changed, str(rng.choice(list(changed)))
        while isinstance(node[key], dict | list) and len(node[key]) and rng.random() < 0.7:
            node = node[key]
            key = (
                int(rng.integers(len(node)))
                if isinstance(node, list)
                else str(rng.choice(list(node)))
            )
        old = node[key]
        node[key] = junk[rng.integers(len(junk))]
        if node[key] == old or key in ("about", "id"):
            continue
        try:
            changed["id"] = checker.sha256({**changed, "id": ""})
        except checker.CheckError:
            continue
        assert not checker.check(changed, model).accepted, (key, node[key])
    for key in document["changes"]:
        for thing in (thing for thing in junk if document["changes"][key] != thing):
            changed = {**document, "changes": {**document["changes"], key: thing}}
            try:
                changed["id"] = checker.sha256({**changed, "id": ""})
            except checker.CheckError:
                continue
            assert not checker.check(changed, model).accepted, (key, thing)
    for thing in (None, [], "certificate", {}, 7):
        assert not checker.check(thing, model).accepted


def test_numbers_too_long_to_be_written_are_rejected(example):
    network, document = example
    for path in (
        ("version",),
        ("target", "index"),
        ("proof", "parts", 0, "bound"),
        ("about", "note"),
    ):
        changed = copy.deepcopy(document)
        node = changed
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = 10**5000
        assert not checker.check(changed, plain_model(network)).accepted, path


@pytest.mark.parametrize("tiny", [1e-310, 5e-324])
def test_weights_that_are_almost_zero_do_not_stop_a_proof_by_cases(example, tiny):
    """Dead neurons of trained networks have such weights, and their integers are beyond any float."""
    network, document = example
    weights = [weight.copy() for weight in network.weights]
    weights[0][0, 0] = weights[1][0, 0] = tiny
    near = hf.Network(weights, network.biases)
    x = [document["point"]]
    radius = hf.certified_radius(near, x, near.predict(x)).lower[0]
    certs = hf.certify(near, x, near.predict(x), hf.PlausibleChanges(0.999 * radius))
    proof = certificate(certs, 0)["proof"]
    assert proof["parts"][0]["tree"]


def test_a_proof_that_is_too_long_says_how_to_allow_more(example):
    network, document = example
    label = network.classes[document["target"]["index"]]
    certs = hf.certify(
        network, [document["point"]], label, hf.PlausibleChanges(document["changes"]["delta"])
    )
    with pytest.raises(NoCertificateError, match="the proof needs more than 2 cases"):
        certificate(certs, 0, max_cases=2)


def test_a_tree_that_leaves_a_case_out_is_rejected(example):
    network, document = example
    changed = copy.deepcopy(document)
    del changed["proof"]["parts"][0]["tree"]["below"]
    changed["id"] = checker.sha256({**changed, "id": ""})
    assert "expected the entries split below above" in check_certificate(changed, network).reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": 1, "a": 2}', "every key once"), (b"{", "JSON"), (b"[" * 5000, "JSON"), (b"\xff", "utf-8"),
        (b'{"a": NaN}', "expected the entries"), (b"", "JSON"),
    ],
)  # fmt: skip
def test_ambiguous_json_is_rejected(text, reason):
    report = checker.check(text, plain_model(hf.Network([[[1.0]]], [[0.0]])))
    assert not report.accepted
    assert reason in report.reason


def test_no_number_that_is_not_finite_is_read(example):
    network, document = example
    for value in (float("nan"), float("inf")):
        changed = {**document, "about": {"note": value}}
        assert (
            "without NaN"
            in checker.check(json.dumps(changed).encode(), plain_model(network)).reason
        )
    entry = {
        "weights": [[[1.0, float("nan")]]],
        "biases": [[0.0]],
        "activations": [],
        "classes": [0, 1],
    }
    with pytest.raises(checker.CheckError, match="finite"):
        checker.PlainModel.read(entry)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"biases": [[0.0, 1.0]]}, "rows"),
        ({"biases": []}, "not empty"),
        ({"weights": [[[1.0], [1.0, 2.0]]]}, "rows"),
        ({"weights": [[[1.0]], [[1.0]]]}, "rows"),
        ({"activations": ["relu"]}, "each hidden layer"),
        ({"classes": [0, 0]}, "different"),
        ({"classes": [0, 1, 2]}, "different"),
        ({"weights": [[[True]]]}, "finite float"),
    ],
)
def test_a_model_that_does_not_fit_together_is_refused(change, reason):
    entry = {"weights": [[[1.0]]], "biases": [[0.0]], "activations": [], "classes": [0, 1]}
    assert checker.PlainModel.read(entry).classes == [0, 1]
    with pytest.raises(checker.CheckError, match=reason):
        checker.PlainModel.read({**entry, **change})


def _numbers(node, path=()):
    """The path of every number in a certificate."""
    if isinstance(node, dict | list):
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _numbers(item, (*path, key))
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield path


@pytest.mark.parametrize("kind", ["splits", "witness"])
def test_every_number_is_looked_at(example, kind):
    """A number that changes is noticed by the id; with a new id it is noticed unless what is proven is the same."""
    network, document = example
    if kind == "witness":
        delta = 1.5 * document["changes"]["delta"]
        x = np.array([document["point"]])
        document = certificate(hf.certify(network, x, network.classes[document["target"]["index"]],
                                          hf.PlausibleChanges(delta)), 0)  # fmt: skip
        assert document["proof"]["method"] == "witness"
    model = plain_model(network)
    paths = list(_numbers(document))
    assert len(paths) > 50
    free = {"lower", "upper", "denominator", "weights", "biases"}
    for path in paths:
        for factor in (-1, 2):
            changed = copy.deepcopy(document)
            node = changed
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = node[path[-1]] * factor + (1 if node[path[-1]] == 0 else 0)
            assert not checker.check(changed, model).accepted
            changed["id"] = checker.sha256({**changed, "id": ""})
            # Other multipliers in a case with room to spare, and another witness in Δ, may prove the same.
            assert not checker.check(changed, model).accepted or (
                path[0] == "proof" and free & set(path)
            ), path


def test_the_checker_is_short(root):
    """Small enough to be read by whoever relies on it."""
    text = (root / "src" / "holdfast" / "checker.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 1550


def test_models_are_read_as_network_save_wrote_them(tmp_path):
    rng = np.random.default_rng(2)
    network = hf.Network(
        [rng.normal(size=(3, 2)), rng.normal(size=(3, 3))], [rng.normal(size=3) * 1e-300, rng.normal(size=3)],
        ["nein", "já", "ok"],
    )  # fmt: skip
    network.save(tmp_path / "model.npz")
    model = checker.load_model(tmp_path / "model.npz")
    assert hf.Network(model.weights, model.biases, model.classes, model.activations) == network
    assert model.sha256 == plain_model(network).sha256
    whole = (tmp_path / "model.npz").read_bytes()
    for place in range(0, len(whole), 7):
        (tmp_path / "broken.npz").write_bytes(
            whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :]
        )
        try:
            damaged = checker.load_model(tmp_path / "broken.npz")
        except checker.CheckError:
            continue
        # What a damaged byte leaves as it was, such as a date in the archive, is no damage.
        assert damaged.sha256 == model.sha256
    (tmp_path / "broken.npz").write_bytes(whole[:-30])
    with pytest.raises(checker.CheckError):
        checker.load_model(tmp_path / "broken.npz")


# --- the published schema ---------------------------------------------------------------------------------------------

TYPES = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
    "null": type(None),
}  # fmt: skip


def _faults(value, schema, root, where="$"):
    """What a value breaks of a schema; the keywords that ours uses, and an error for any other."""
    known = {
        "$ref",
        "type",
        "const",
        "enum",
        "anyOf",
        "properties",
        "required",
        "additionalProperties",
        "items",
    }
    known |= {
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "pattern",
        "description",
    }
    assert set(schema) <= known | {"$schema", "title", "$defs"}
    if "$ref" in schema:
        yield from _faults(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, where)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    fits = [
        isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
        for kind in kinds
    ]
    simple = [
        (not kinds or any(fits), "type"),
        ("const" not in schema or (value == schema["const"] and type(value) is type(schema["const"])), "const"),
        ("enum" not in schema or value in schema["enum"], "enum"),
        ("pattern" not in schema or re.search(schema["pattern"], str(value)), "pattern"),
        ("minimum" not in schema or value >= schema["minimum"], "minimum"),
        ("maximum" not in schema or value <= schema["maximum"], "maximum"),
        ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"], "exclusiveMinimum"),
        ("exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"], "exclusiveMaximum"),
        ("anyOf" not in schema or any(not [*_faults(value, s, root)] for s in schema.get("anyOf", ())), "anyOf"),
    ] if not kinds or any(fits) else [(False, "type")]  # fmt: skip
    yield from (f"{where}: {name}" for fine, name in simple if not fine)
    if isinstance(value, list) and kinds == ["array"]:
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{where}: length"
        for i, item in enumerate(value):
            yield from _faults(item, schema.get("items", {}), root, f"{where}[{i}]")
    if isinstance(value, dict) and kinds == ["object"]:
        properties = schema.get("properties", {})
        yield from (
            f"{where}: {key} is missing" for key in schema.get("required", ()) if key not in value
        )
        for key, item in value.items():
            if key in properties:
                yield from _faults(item, properties[key], root, f"{where}.{key}")
            elif schema.get("additionalProperties", True) is False:
                yield f"{where}: {key} is unknown"


def test_every_kind_of_certificate_obeys_the_published_schema(root, bench, example):
    schema = json.loads((root / "docs" / "certificate.schema.json").read_text(encoding="utf-8"))
    made = bench.make(200, 3, bench.Tally())
    documents = {one.kind: one.document for one in made} | {"splits": example[1]}
    assert {"NOT_ROBUST, today", "NOT_ROBUST, witness", "ROBUST, interval", "splits"} <= set(
        documents
    )
    for kind, document in documents.items():
        assert [*_faults(document, schema, schema)] == [], kind
    # A radius for each weight and bias, and a proof by cases.
    part = {
        "rival": 0,
        "method": "cases",
        "bound": 0.5,
        "tree": {"split": [0, 1], "below": {}, "above": {}},
    }
    own = {**example[1], "proof": {"parts": [part]}}
    matrices, vectors = [[[0.0, 0.5]], [[0.25]]], [[0.0], [0.5]]
    twice = [[matrix, matrix] for matrix in matrices]
    for delta, biases in (
        (matrices, False),
        (matrices, vectors),
        (twice, vectors),
        (twice, [[v, v] for v in vectors]),
    ):
        assert [
            *_faults(
                {**own, "changes": {"delta": delta, "norm": "inf", "biases": biases}},
                schema,
                schema,
            )
        ] == []
    for delta, biases in (
        (matrices, [0.5]),
        ([[[-0.5]]], False),
        ([[0.5]], False),
        ([[[matrices]]], False),
    ):
        assert [
            *_faults(
                {**own, "changes": {"delta": delta, "norm": "inf", "biases": biases}},
                schema,
                schema,
            )
        ]
    broken = {**example[1], "verdict": "UNKNOWN", "extra": 1}
    assert [*_faults(broken, schema, schema)] == ["$.verdict: enum", "$: extra is unknown"]
