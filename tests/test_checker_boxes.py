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


def _layers(model, radii):
    """The least and the greatest of every parameter, rows with the bias at the end."""
    found = []
    for layer, radius in zip(model.layers, radii, strict=True):
        down, up = radius
        if isinstance(down, float):
            down = up = [[radius[0]] * (len(layer[0]) - 1) + [radius[1]]] * len(layer)
        found.append(
            tuple(
                [[Fraction(w) + sign * Fraction(r) for w, r in zip(*rows, strict=True)] for rows in zip(layer, side)]
                for sign, side in ((-1, down), (1, up))
            )
        )
    return found


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
                system[k] = [a - system[k][i] * b for a, b in zip(system[k], system[i], strict=True)]
    return [row[-1] for row in system]


def _margin_row(layer, target, rival):
    low, high = layer
    if len(low) == 1:
        return (low[0], high[0]) if target == 1 else ([-w for w in high[0]], [-w for w in low[0]])
    return [a - b for a, b in zip(low[target], high[rival])], [a - b for a, b in zip(high[target], low[rival])]


def least_margin(model, radii, point, target, rival):
    """The least margin in fractions: a vertex of the box, cut where a value or a preactivation's end changes sign."""
    first, second, last = _layers(model, radii)
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
            total += min(low[j] * max(z, 0) if relu[1] else min(low[j] * z, high[j] * z) for z in ends)
        return total

    least = math.inf
    for cell in itertools.product(*sides):
        planes = [([int(i == j) for j in range(len(cell))], end) for i, ends in enumerate(cell) for end in set(ends)]
        for a, b in zip(*second, strict=True):
            for one, other in ((a, b), (b, a)):
                normal = [x if end[1] > 0 else y for x, y, end in zip(one, other, cell, strict=False)]
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
    return checker.Model.read({"weights": weights, "biases": biases, "activations": kinds, "classes": classes})


def _entry(rng, model, size):
    """Δ as a certificate writes it, in all its forms."""
    form = rng.integers(5)
    if form == 0:
        return {"delta": size, "norm": "inf", "biases": bool(rng.integers(2))}
    if form == 1:
        return {"delta": [size * float(r) for r in rng.random(len(model.weights))], "norm": "inf", "biases": True}

    def one(part):
        radii = size * rng.random(np.shape(part)) * (rng.random(np.shape(part)) < 0.8)
        radii.flat[0] = size
        return radii.tolist()

    delta = [one(part) if form < 4 else [one(part), one(part)] for part in model.weights]
    both = rng.integers(2)
    biases = [one(part) if both else [one(part), one(part)] for part in model.biases]
    return {"delta": delta, "norm": "inf", "biases": False if form == 2 else biases}


def _question(rng, depth=2):
    sizes = [int(rng.integers(1, 4)), *rng.integers(1, 4, depth).tolist(), int(rng.choice([1, 1, 2, 3]))]
    model = _model(rng, sizes, [str(rng.choice(["relu", "identity"])) for _ in range(depth)])
    entry = _entry(rng, model, float(2.0 ** rng.integers(-6, 1)))
    point = (rng.integers(-8, 9, sizes[0]) / 8).tolist()
    target = int(rng.integers(len(model.classes)))
    rival = int(rng.choice([c for c in range(len(model.classes)) if c != target]))
    return model, checker.read_changes(entry, model), point, target, rival


def _tree(rng, question, case, depth=0):
    """Any tree with any multipliers: most prove little, and none may prove too much."""
    if any(bottom > top for layer in case for bottom, top in layer):
        return {}
    if rng.random() < 0.3 and depth < 6:
        return {"tighten": _tree(rng, question, question.tightened(case), depth + 1)}
    open_ = [(i, j) for i, layer in enumerate(case) for j, (low, high) in enumerate(layer) if low < 0 < high]
    if open_ and rng.random() < 0.7:
        i, j = open_[rng.integers(len(open_))]
        node = {"split": [i, j]}
        for name, ends in (("below", (case[i][j][0], 0)), ("above", (0, case[i][j][1]))):
            cut = [list(layer) for layer in case]
            cut[i][j] = ends
            node[name] = _tree(rng, question, cut, depth + 1)
        return node
    if rng.random() < 0.5:
        return {}
    unit = int(rng.choice([1, 7, 16]))
    lower, upper = [], []
    for layer, ranges in zip(question.layers[1:], case[1:], strict=False):
        lower.append((rng.integers(0, 2 * unit, len(ranges)) * (rng.random(len(ranges)) < 0.6)).tolist())
        upper.append((rng.integers(-2 * unit, 1 + layer.relu * unit, len(ranges))).tolist())
    return {"lower": lower, "upper": upper, "denominator": unit}


def test_no_proof_exceeds_the_least_margin():
    rng = np.random.default_rng(0)
    close = 0
    for _ in range(150):
        model, changes, point, target, rival = _question(rng)
        question = checker.Question(model, changes, point, target)
        least = least_margin(model, changes[0], point, target, rival)
        assert question.bound({"rival": rival, "method": "interval"}) <= least
        for _ in range(8):
            tree = _tree(rng, question, question.ranges)
            bound = question.bound({"rival": rival, "method": "cases", "tree": tree})
            assert bound <= least
            close += bound == least
    assert close > 30
