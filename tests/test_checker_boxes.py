"""The checker where every parameter has its own radius, with and without ReLU, against a reference in fractions."""

from __future__ import annotations

import copy
import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from holdfast import checker

# --- the reference: the least margin of two hidden layers, by every vertex --------------------------------------------


STILL = {"delta": 2.0**-60, "norm": "inf", "biases": False}


def _layers(model, entry):
    """The least and the greatest of every parameter, rows with the bias at the end."""
    found = []
    for i, (weights, biases) in enumerate(zip(model.weights, model.biases, strict=True)):
        delta, own = entry["delta"], entry["biases"]
        if _depth(delta) < 2:
            radius = delta[i] if isinstance(delta, list) else delta
            rows = (
                np.full(np.shape(weights), radius).tolist(),
                np.full(len(biases), radius * own).tolist(),
            )
            sides = [rows, rows]
        else:
            first = delta[i] if _depth(delta) == 4 else [delta[i]] * 2
            second = (
                [[0.0] * len(biases)] * 2
                if own is False
                else own[i]
                if _depth(own) == 3
                else [own[i]] * 2
            )
            sides = list(zip(first, second, strict=True))
        layer = []
        for sign, (by_weight, by_bias) in zip((-1, 1), sides, strict=True):
            today = np.column_stack([weights, biases]).tolist()
            radii = np.column_stack([by_weight, by_bias]).tolist()
            rows = [zip(*pair, strict=True) for pair in zip(today, radii, strict=True)]
            layer.append([[Fraction(w) + sign * Fraction(r) for w, r in row] for row in rows])
        found.append(tuple(layer))
    return found


def _depth(value):
    return 1 + _depth(value[0]) if isinstance(value, list) else 0


def _ends(low, high, values):
    """The least and the greatest of a neuron's preactivation."""
    pairs = [(a * v, b * v) for a, b, v in zip(low, high, [*values, 1], strict=True)]
    return sum(map(min, pairs)), sum(map(max, pairs))


def _solve(rows, right):
    """The point on all these planes, or None where it is not one point."""
    system = [list(map(Fraction, (*row, value))) for row, value in zip(rows, right, strict=True)]
    for i in range(len(system)):
        pivot = next((k for k in range(i, len(system)) if system[k][i]), None)
        if pivot is None:
            return None
        system[i], system[pivot] = system[pivot], system[i]
        system[i] = [v / system[i][i] for v in system[i]]
        for k in range(len(system)):
            if k != i:
                system[k] = [
                    a - system[k][i] * b for a, b in zip(system[k], system[i], strict=True)
                ]
    return [row[-1] for row in system]


def _margin_row(layer, target, rival):
    low, high = layer
    if len(low) == 1:
        return (low[0], high[0]) if target == 1 else ([-w for w in high[0]], [-w for w in low[0]])
    return tuple(
        [a - b for a, b in zip(x[target], y[rival], strict=True)]
        for x, y in ((low, high), (high, low))
    )


def least_margin(model, entry, point, target, rival):
    """The least margin in fractions: a vertex of the box, cut where a value or a preactivation's end changes sign."""
    first, second, last = _layers(model, entry)
    low, high = _margin_row(last, target, rival)
    relu = [kind == "relu" for kind in model.activations]
    box = [_ends(*rows, list(map(Fraction, point))) for rows in zip(*first, strict=True)]
    if relu[0]:
        box = [(max(a, 0), max(b, 0)) for a, b in box]
    sides = [[(a, b)] if a >= 0 or b <= 0 else [(a, 0), (0, b)] for a, b in box]

    def value(v):
        total = low[-1]
        for j, rows in enumerate(zip(*second, strict=True)):
            ends = _ends(*rows, v)
            total += min(
                low[j] * max(z, 0) if relu[1] else min(low[j] * z, high[j] * z) for z in ends
            )
        return total

    least = math.inf
    for cell in itertools.product(*sides):
        planes = [
            ([int(i == j) for j in range(len(cell))], end)
            for i, ends in enumerate(cell)
            for end in set(ends)
        ]
        for a, b in zip(*second, strict=True):
            for one, other in ((a, b), (b, a)):
                normal = [
                    x if end[1] > 0 else y for x, y, end in zip(one, other, cell, strict=False)
                ]
                planes.append((normal, -one[-1]))
        for chosen in itertools.combinations(planes, len(cell)):
            v = _solve(*zip(*chosen, strict=True))
            if v is not None and all(a <= x <= b for x, (a, b) in zip(v, cell, strict=True)):
                least = min(least, value(v))
    return least


# --- random questions and random trees --------------------------------------------------------------------------------


def _model(rng, sizes, kinds):
    """Weights in eighths, so that ties and zeros are common."""
    weights = [(rng.integers(-12, 13, (b, a)) / 8).tolist() for a, b in itertools.pairwise(sizes)]
    biases = [(rng.integers(-6, 7, b) / 8).tolist() for b in sizes[1:]]
    classes = list(range(max(2, sizes[-1])))
    return checker.PlainModel.read(
        {"weights": weights, "biases": biases, "activations": kinds, "classes": classes}
    )


def _entry(rng, model, size):
    """Δ as a certificate writes it, in all its forms."""
    form = rng.integers(5)
    if form == 0:
        return {"delta": size, "norm": "inf", "biases": bool(rng.integers(2))}
    if form == 1:
        return {
            "delta": [size * float(r) for r in rng.random(len(model.weights))],
            "norm": "inf",
            "biases": True,
        }

    def one(part):
        radii = size * rng.random(np.shape(part)) * (rng.random(np.shape(part)) < 0.8)
        radii.flat[0] = size
        return radii.tolist()

    delta = [one(part) if form < 4 else [one(part), one(part)] for part in model.weights]
    both = rng.integers(2)
    biases = [one(part) if both else [one(part), one(part)] for part in model.biases]
    return {"delta": delta, "norm": "inf", "biases": False if form == 2 else biases}


def _question(rng, depth=2):
    sizes = [
        int(rng.integers(1, 4)),
        *rng.integers(1, 4, depth).tolist(),
        int(rng.choice([1, 1, 2, 3])),
    ]
    model = _model(rng, sizes, [str(rng.choice(["relu", "identity"])) for _ in range(depth)])
    entry = _entry(rng, model, float(2.0 ** rng.integers(-6, 1)))
    point = (rng.integers(-8, 9, sizes[0]) / 8).tolist()
    target = int(rng.integers(len(model.classes)))
    rival = int(rng.choice([c for c in range(len(model.classes)) if c != target]))
    return model, entry, point, target, rival


def _asked(model, entry, point, target):
    return checker.Question(model, checker.read_changes(entry, model), point, target)


def _tree(rng, question, case, rival):
    """Any tree with any multipliers: most prove little, and none may prove too much."""
    open_ = [
        (i, j)
        for i, layer in enumerate(case)
        for j, (low, high) in enumerate(layer)
        if low < 0 < high
    ]
    if open_ and rng.random() < 0.7:
        i, j = open_[rng.integers(len(open_))]
        node = {"split": [i, j]}
        for name, ends in (("below", (case[i][j][0], 0)), ("above", (0, case[i][j][1]))):
            cut = [list(layer) for layer in case]
            cut[i][j] = ends
            node[name] = _tree(rng, question, cut, rival)
        return node
    return {} if rng.random() < 0.3 else _leaf(rng, question, case, rival)


def _leaf(rng, question, case, rival):
    """Multipliers without sense, or slopes between the two of the function that the line is to be below."""
    unit, guided = int(rng.choice([1, 7, 16])), rng.random() < 0.7
    lower, upper = [], []
    above, below = (np.array(row) / 2**question.shift for row in question.margin(rival))
    for layer, ranges in zip(question.layers[-2:0:-1], case[:0:-1], strict=True):
        n, p = (0 if layer.relu else below[:-1]), above[:-1]
        slopes = n + (p - n) * rng.choice([0, 0.5, 1, rng.random()], len(ranges))
        if not guided:
            slopes = rng.integers(-2, 3, len(ranges))
        # Multipliers of L and of U at once, for a neuron now and then.
        spare = rng.random(len(ranges)) * (rng.random(len(ranges)) < 0.2)
        low, up = (
            np.maximum(slopes, 0) + spare,
            np.minimum(slopes, 0) - spare + layer.relu * spare * rng.choice([0, 1, 2]),
        )
        lower.insert(0, [max(0, round(v)) for v in (low * unit).tolist()])
        upper.insert(0, [round(v) for v in (up * unit).tolist()])
        least, most = (np.array(rows) / 2**question.shift for rows in (layer.low, layer.high))
        above, below = low @ least + up @ most, low @ most + up @ least
    return {"lower": lower, "upper": upper, "denominator": unit}


@pytest.mark.parametrize("seed", range(4))
def test_no_proof_exceeds_the_least_margin(seed):
    rng = np.random.default_rng(seed)
    met = 0
    for _ in range(60):
        model, entry, point, target, rival = _question(rng)
        question, least = (
            _asked(model, entry, point, target),
            least_margin(model, entry, point, target, rival),
        )
        assert question.bound({"rival": rival, "method": "interval"}) <= least
        for _ in range(8):
            tree = _tree(rng, question, question.ranges, rival)
            bound = question.bound({"rival": rival, "method": "cases", "tree": tree})
            assert bound <= least
            met += bound == least
    assert met > 60


def test_no_proof_exceeds_what_a_search_finds_in_deeper_networks():
    rng = np.random.default_rng(9)
    tight = 0
    for k in range(40):
        model, entry, point, target, rival = _question(rng, 3 + k % 2)
        question, found = (
            _asked(model, entry, point, target),
            _searched(rng, model, entry, point, target, rival),
        )
        for _ in range(8):
            tree = _tree(rng, question, question.ranges, rival)
            bound = question.bound({"rival": rival, "method": "cases", "tree": tree})
            assert bound <= found
            tight += float(found - bound) < 1e-9
    assert tight > 20


def _searched(rng, model, entry, point, target, rival):
    """A margin that some network in Δ has: every preactivation somewhere in its range, moved as long as that helps."""
    *hidden, last = _layers(model, entry)
    low, high = _margin_row(last, target, rival)

    def margin(places):
        values = list(map(Fraction, point))
        for layer, kind, share in zip(hidden, model.activations, places, strict=True):
            ends = [_ends(*rows, values) for rows in zip(*layer, strict=True)]
            values = [a + (b - a) * part for (a, b), part in zip(ends, share, strict=True)]
            values = [max(v, Fraction(0)) for v in values] if kind == "relu" else values
        return _ends(low, high, values)[0]

    best = math.inf
    for _ in range(3):
        places = [rng.integers(0, 2, len(layer[0])).tolist() for layer in hidden]
        for i, j, part in itertools.product(range(len(hidden)), range(3), (0, 1, Fraction(1, 2))):
            if j < len(places[i]):
                moved = copy.deepcopy(places)
                moved[i][j] = part
                places = min(places, moved, key=margin)
        best = min(best, margin(places))
    return best


def test_the_least_of_a_function_with_two_slopes():
    rng = np.random.default_rng(4)
    for below, above, bottom, width in rng.integers(-5, 6, (500, 4)).tolist():
        values = [above * z if z > 0 else below * z for z in range(bottom, bottom + abs(width) + 1)]
        assert checker.lowest(below, above, bottom, bottom + abs(width)) == min(values)


# --- certificates, made by a small prover and forged ------------------------------------------------------------------


def _prove(rng, question, rival, case, budget):
    """A tree that is enough, or None: the checker's own lines, some others, and then two cases."""
    budget[0] -= 1
    open_ = [
        (i, j)
        for i, layer in enumerate(case)
        for j, (low, high) in enumerate(layer)
        if low < 0 < high
    ]
    # Now and then more cases than it takes, for the forger to work on.
    if not open_ or rng.random() < 0.6:
        leaves = [{}, *(_leaf(rng, question, case, rival) for _ in range(3))]
        for leaf in leaves[:: rng.choice([-1, 1])]:
            if question.suffices(
                rival, min(question.tree(leaf, *question.margin(rival), case, ""))
            ):
                return leaf
    if not open_ or budget[0] < 0:
        return None
    i, j = open_[rng.integers(len(open_))]
    node = {"split": [i, j]}
    for name, ends in (("below", (case[i][j][0], 0)), ("above", (0, case[i][j][1]))):
        cut = [list(layer) for layer in case]
        cut[i][j] = ends
        node[name] = _prove(rng, question, rival, cut, budget)
        if node[name] is None:
            return None
    return node


def _certificate(model, entry, point, target, verdict, proof):
    document = {
        "format": checker.FORMAT, "version": checker.VERSION, "id": "", "statement": "", "verdict": verdict,
        "target": {"index": target, "label": model.classes[target]}, "changes": entry,
        "hashes": {"model": model.sha256, "point": checker.sha256(point), "space": None, "row": None},
        "point": point, "proof": proof, "about": {},
    }  # fmt: skip
    return _signed(document)


def _signed(document):
    document["statement"] = checker.statement(document)
    document["id"] = checker.sha256({**document, "id": ""})
    return document


def _robust(rng):
    """A certificate with a proof by cases of a margin that is close to zero, and its model; None if none is found."""
    model, entry, point, target, _ = _question(rng)
    rivals = [c for c in range(len(model.classes)) if c != target]
    if any(
        not _asked(model, STILL, point, target).bound({"rival": c, "method": "interval"}) > 0
        for c in rivals
    ):
        return None
    while not all(least_margin(model, entry, point, target, c) > 0 for c in rivals):
        entry = {**entry, "delta": _scaled(entry["delta"], 0.9)}
        if isinstance(entry["biases"], list):
            entry["biases"] = _scaled(entry["biases"], 0.9)
    question, parts = _asked(model, entry, point, target), []
    for rival in rivals:
        tree = _prove(rng, question, rival, question.ranges, [40])
        if tree is None:
            return None
        part = {"rival": rival, "method": "cases", "tree": tree}
        parts.append({**part, "bound": checker.float_below(question.bound(part))})
    return _certificate(model, entry, point, target, "ROBUST", {"parts": parts}), model


def _scaled(value, factor):
    return [_scaled(item, factor) for item in value] if isinstance(value, list) else value * factor


def _nodes(tree):
    return [
        tree,
        *(node for key in ("below", "above") if key in tree for node in _nodes(tree[key])),
    ]


def _radius(rng, document):
    """One radius, wherever it is, becomes larger or smaller."""
    changes = document["changes"]
    holder, key = (
        changes,
        "delta" if not isinstance(changes["biases"], list) or rng.integers(2) else "biases",
    )
    while isinstance(holder[key], list):
        holder = holder[key]
        key = int(rng.integers(len(holder)))
    holder[key] = float(holder[key] * rng.choice([0.5, 1.1, 2.0]) + rng.choice([0, 0.1]))


def _directions(rng, document):
    """Down becomes up, or the radii of biases are said to be none."""
    changes = document["changes"]
    if not isinstance(changes["biases"], list):
        changes["biases"] = not changes["biases"]
    elif rng.random() < 0.2:
        changes["biases"] = False
    elif _depth(changes["delta"]) == 4:
        changes["delta"] = [part[::-1] for part in changes["delta"]]


def _node(rng, document):
    """A node becomes another: cut off, of another neuron, its sides swapped, its numbers moved."""
    nodes = [node for part in document["proof"]["parts"] for node in _nodes(part["tree"])]
    node = nodes[rng.integers(len(nodes))]
    kind = rng.integers(3)
    if kind == 0:
        node.clear()
    elif "split" in node:
        node["split"] = rng.integers(0, 3, 2).tolist() if kind == 1 else node["split"]
        node["below"], node["above"] = node["above"], node["below"]
    elif "lower" in node:
        line = node["lower" if rng.integers(2) else "upper"][-1]
        line[rng.integers(len(line))] += int(rng.choice([-5, -1, 1, 5]))


def test_forgeries_are_accepted_only_where_they_are_true():
    rng = np.random.default_rng(12)
    made, accepted, rejected, trees = 0, 0, 0, set()
    while made < 60:
        found = _robust(rng)
        if found is None:
            continue
        document, model = found
        made += 1
        trees |= {
            key
            for part in document["proof"]["parts"]
            for node in _nodes(part["tree"])
            for key in node
        }
        report = checker.check(json.dumps(document).encode(), model)
        assert report.accepted, report.reason
        for forge in (_radius, _radius, _directions, _node, _node, _node, _node):
            changed = copy.deepcopy(document)
            forge(rng, changed)
            if changed == document:
                continue
            assert not checker.check(changed, model).accepted
            target = changed["target"]["index"]
            try:
                question = _asked(model, changed["changes"], changed["point"], target)
                for part in changed["proof"]["parts"]:
                    part["bound"] = checker.float_below(question.bound(part))
            except checker.CheckError:
                pass
            if checker.check(_signed(changed), model).accepted:
                accepted += 1
                for part in changed["proof"]["parts"]:
                    least = least_margin(
                        model, changed["changes"], changed["point"], target, part["rival"]
                    )
                    assert least >= Fraction(part["bound"])
                    assert question.suffices(part["rival"], least)
            else:
                rejected += 1
    assert trees == {"split", "below", "above", "lower", "upper", "denominator"}
    assert min(accepted, rejected) > 30


# --- witnesses and hostile radii --------------------------------------------------------------------------------------

MODEL = checker.PlainModel.read(
    {
        "weights": [[[1.0, -2.0], [0.5, 1.0]], [[1.0, 1.0]]], "biases": [[0.0, 0.25], [-0.5]],
        "activations": ["identity"], "classes": [0, 1],
    }
)  # fmt: skip
DOWN, UP = [[[0.25, 0.0], [0.0, 0.0]], [[0.0, 0.5]]], [[[0.0, 0.125], [0.0, 0.0]], [[0.0, 0.0]]]
SHIFTS = [[0.0, 0.0], [0.25]]
PAIRS = {"delta": list(map(list, zip(DOWN, UP, strict=True))), "norm": "inf", "biases": SHIFTS}


def test_each_parameter_moves_down_and_up_by_its_own_radius():
    # Least: 0.75 * 2 - 2 * 0 = 1.5 and 0.5 * 2 + 0.25 = 1.25; then 1.5 + 0.5 * 1.25 - 0.75 = 1.375.
    assert _asked(MODEL, PAIRS, [2.0, 0.0], 1).bound({"rival": 0, "method": "interval"}) == 1.375
    # The other way up: 2 + 1.25 + (-0.5 + 0.25) = 3 at the most.
    assert _asked(MODEL, PAIRS, [2.0, 0.0], 0).bound({"rival": 1, "method": "interval"}) == -3
    # A value below zero turns a weight round: -1.25 is least with the weight as it is, 1.0, and not with 0.5.
    assert (
        _asked(MODEL, PAIRS, [-3.0, 0.0], 1).bound({"rival": 0, "method": "interval"})
        == -3 - 1.25 - 0.75
    )


@pytest.mark.parametrize(
    ("weight", "bias", "inside"),
    [
        (0.75, -0.75, True),
        (1.0, -0.5, True),
        (0.7, -0.5, False),
        (1.01, -0.5, False),
        (1.0, -0.2, False),
    ],
)
def test_a_witness_lies_between_the_radii_down_and_up(weight, bias, inside):
    weights, biases = [[[weight, -2.0], [0.5, 1.0]], [[1.0, 1.0]]], [[0.0, 0.25], [bias]]
    proof = {
        "rival": 1,
        "method": "witness",
        "bound": -2 * weight - 1.25 - bias,
        "weights": weights,
        "biases": biases,
    }
    document = _certificate(MODEL, PAIRS, [2.0, 0.0], 0, "NOT_ROBUST", proof)
    report = checker.check(document, MODEL)
    assert report.accepted == inside
    assert inside or "outside Δ" in report.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"delta": DOWN, "biases": True}, "changes.biases: expected arrays"),
        ({"delta": DOWN, "biases": []}, "changes.biases: expected arrays"),
        ({"delta": DOWN, "biases": 0}, "changes.biases: expected arrays"),
        ({"delta": DOWN, "biases": [[0.0, 0.0]]}, "changes.biases: expected arrays"),
        ({"delta": DOWN, "biases": [[0.0, 0.0], 0.25]}, "changes.biases: expected arrays"),
        ({"delta": 0.1, "biases": SHIFTS}, "changes.biases: expected a finite bool"),
        ({"delta": DOWN, "biases": SHIFTS, "norm": 2.0}, "changes.delta: expected a finite float"),
        ({"delta": DOWN[:1]}, "changes.delta: expected arrays"),
        ({"delta": [DOWN[0], 0.1]}, "changes.delta: expected arrays"),
        ({"delta": [0.1, DOWN[1]]}, "changes.delta: expected arrays"),
        (
            {"delta": [[DOWN[0], UP[0], UP[0]], [DOWN[1], UP[1], UP[1]]]},
            "changes.delta: expected arrays",
        ),
        ({"delta": [[], []]}, "changes.delta: expected arrays"),
        ({"delta": []}, "not empty"),
        ({"delta": [[[0.25], [0.0]], [[0.0, 0.5]]]}, "changes.delta: expected arrays"),
        ({"delta": [[[0.25, -0.1], [0.0, 0.0]], [[0.0, 0.5]]]}, "radii >= 0"),
        ({"delta": [[[0.25, True], [0.0, 0.0]], [[0.0, 0.5]]]}, "finite float"),
        ({"delta": [[[0.25, "1"], [0.0, 0.0]], [[0.0, 0.5]]]}, "finite float"),
        ({"delta": [[[0.25, None], [0.0, 0.0]], [[0.0, 0.5]]]}, "finite float"),
        ({"delta": [[[0.25, 10**400], [0.0, 0.0]], [[0.0, 0.5]]]}, "finite float"),
        ({"delta": [[[0.25, math.inf], [0.0, 0.0]], [[0.0, 0.5]]]}, "finite float"),
        ({"delta": [[[0.25, math.nan], [0.0, 0.0]], [[0.0, 0.5]]]}, "finite float"),
        ({"delta": [[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0]]], "biases": False}, "not all 0"),
    ],
)
def test_radii_that_do_not_fit_the_model_are_refused(changes, reason):
    with pytest.raises(checker.CheckError, match=reason):
        checker.read_changes({"norm": "inf", "biases": SHIFTS, **changes}, MODEL)


def test_each_layer_may_have_one_radius_for_both_ways_or_two():
    mixed, pairs = (
        checker.read_changes(
            {"norm": "inf", "biases": SHIFTS, "delta": [first, [DOWN[1], UP[1]]]}, MODEL
        )
        for first in (DOWN[0], [DOWN[0], DOWN[0]])
    )
    assert mixed == pairs


def test_arrays_nested_without_end_are_rejected():
    document = _certificate(MODEL, PAIRS, [2.0, 0.0], 1, "ROBUST", {"parts": []})
    deep = 0.5
    for _ in range(100_000):
        deep = [deep]
    document["changes"] = {**PAIRS, "delta": deep}
    assert checker.check(document, MODEL).reason == "too large: RecursionError"


def test_what_may_be_given_up_or_down_is_said_in_the_statement():
    document = _certificate(MODEL, PAIRS, [2.0, 0.0], 1, "ROBUST", {"parts": []})
    assert document["statement"] == (
        "Every network of the model's build whose weights and biases each differ from the model's by at most the "
        "radius that `changes` states for it and for the direction gives the point the class 1, in exact arithmetic."
    )
    document["changes"] = {**PAIRS, "biases": False}
    assert "for the direction and whose biases are the same gives" in checker.statement(document)


# --- what a tree may not say ------------------------------------------------------------------------------------------

DEEP = checker.PlainModel.read(
    {
        "weights": [[[1.0], [-1.0]], [[1.0, 0.5], [0.5, -1.0]], [[1.0, 1.0]]],
        "biases": [[0.25, 0.0], [0.0, 0.125], [1.0]], "activations": ["identity", "identity"], "classes": [0, 1],
    }
)  # fmt: skip
LINES = {"lower": [[1, 1]], "upper": [[0, 0]], "denominator": 1}


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ({**LINES, "lower": [[-1, 1]]}, "expected lower >= 0"),
        ({**LINES, "upper": [[1, 0]]}, "<= 0 without ReLU"),
        ({**LINES, "lower": [[1]]}, "for each neuron"),
        ({**LINES, "lower": [[1, 1], [1, 1]], "upper": [[0, 0], [0, 0]]}, "for each neuron"),
        ({**LINES, "denominator": 0}, "over one > 0"),
        ({"split": [0, 0], "below": [], "above": {}}, "finite dict"),
        ({"tighten": LINES}, "expected the entries lower"),
        ({"split": [0, 2], "below": {}, "above": {}}, "either side of zero"),
        ({"split": [2, 0], "below": {}, "above": {}}, "either side of zero"),
        ({"split": [-1, 0], "below": {}, "above": {}}, "either side of zero"),
        ({"split": [0], "below": {}, "above": {}}, "either side of zero"),
        (
            {"split": [0, 0], "below": {"split": [0, 0], "below": {}, "above": {}}, "above": {}},
            "below.split",
        ),
    ],
)
def test_trees_that_say_too_much_are_refused(tree, reason):
    question = _asked(DEEP, {"delta": 0.5, "norm": "inf", "biases": True}, [0.25], 1)
    assert all(bottom < 0 < top for layer in question.ranges for bottom, top in layer)
    assert question.bound({"rival": 0, "method": "cases", "tree": LINES}) < 0
    with pytest.raises(checker.CheckError, match=reason):
        question.bound({"rival": 0, "method": "cases", "tree": tree})
