"""Certificates of trees, forged at random, with hashes and words to match; and what is true of them, by another walk.

The truth is computed here from the documents alone, one tree after the other, in fractions: no code of the checker.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np

from holdfast import checker

# What a number may be replaced by: near ones, far ones, and what is none.
ODD: list[Any] = [
    0, 0.0, -0.0, 1, -1, True, None, "1", "inf", math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 2**70,
    -(10**400), 10**5000, [], [0.1], {}, [[1.0]],
]  # fmt: skip


def _single(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def worst_margins(model: dict[str, Any], certificate: dict[str, Any]) -> list[Fraction]:
    """The least margin over each rival that any ensemble of the set can have, in fractions, no rounding counted."""
    changes, point = certificate["changes"], certificate["point"]
    factor, single = Fraction(changes["factor"]), model["compare"].startswith("float32")
    leaves = [i for i, feature in enumerate(model["feature"]) if feature < 0]
    given = (
        changes["leaves"]
        if isinstance(changes["leaves"], list)
        else [changes["leaves"]] * len(leaves)
    )
    radius = {node: Fraction(size) * factor for node, size in zip(leaves, given, strict=True)}
    each = changes["thresholds"]
    far = [
        Fraction(each.get(name, 0.0) if isinstance(each, dict) else each) * factor for name in model["columns"]
    ]  # fmt: skip

    def read(i: int) -> float | None:
        how, value = (model["missing"] or ["nan"] * len(point))[i], point[i]
        if value is None:
            return 0.0 if how == "none" else None
        value = 0.0 if abs(value) <= model["zero"] else value
        if value == 0.0 and how == "zero":
            return None
        return _single(value) if single else value

    def below(node: int) -> list[int]:
        """The leaves that can be reached from a node; a threshold is tried at its ends and between."""
        feature = model["feature"][node]
        if feature < 0:
            return [node]
        x, left, right = read(feature), model["left"][node], model["right"][node]
        if x is None:
            return below(left if model["missing_left"][node] else right)
        if model["category"][node] >= 0:
            codes = model["sets"][model["category"][node]]
            return below(left if codes[int(x) if 0 <= x < len(codes) - 1 else -1] else right)
        cut = float(model["threshold"][node])
        ends = [Fraction(cut)] if math.isfinite(cut) else [cut]
        if far[feature] and math.isfinite(cut):
            ends += [
                ends[0] - far[feature],
                ends[0] + far[feature],
                Fraction(x) if math.isfinite(x) else ends[0],
            ]
            ends = [end for end in ends if abs(end - ends[0]) <= far[feature]]
        strict = model["compare"].endswith("<")
        ways = {left if (x < end if strict else x <= end) else right for end in ends}
        return [leaf for way in ways for leaf in below(way)]

    reached = [[*{*below(root)}] for root in model["roots"]]
    k, target = len(model["classes"]), certificate["target"]["index"]
    outputs, sign = len(model["base"]), 1 if target == 1 else -1
    weights = [[sign]] if outputs == 1 else [[-sign, sign]]
    if k > 2:
        weights = [
            [(c == target) - (c == other) for c in range(k)]
            for other in range(k)
            if other != target
        ]
    margins = []
    for weight in weights:
        terms = []
        for output, nodes in zip(model["output"], reached, strict=True):
            parts = []
            for node in nodes:
                mine = weight if len(model["values"][node]) > 1 else [weight[output]]
                values = sum(
                    (w * Fraction(v) for w, v in zip(mine, model["values"][node], strict=True)),
                    Fraction(0),
                )
                parts.append(values - sum(map(abs, mine)) * radius[node])
            terms.append(min(parts))
        gone = sorted(terms)[::-1][: changes["dropped"]]
        start = sum(
            (w * Fraction(b) for w, b in zip(weight, model["base"], strict=True)), Fraction(0)
        )
        total = start + sum(terms) - sum(max(term, Fraction(0)) for term in gone)
        # Of forests a shift is one of probabilities: one of two may fall, the other rise.
        lost = (
            Fraction(changes["shift"]) * factor * (sum(map(abs, weight)) if model["shares"] else 1)
        )
        margins.append(total / Fraction(model["divisor"]) - lost)
    return margins


def true(model: dict[str, Any], certificate: dict[str, Any]) -> bool:
    """Whether a verdict is what fractions say; of numbers that are none nothing is."""
    try:
        least = min(worst_margins(model, certificate))
    except (TypeError, ValueError, KeyError, IndexError, OverflowError, AttributeError):
        return False
    return bool(least > 0 if certificate["verdict"] == "ROBUST" else least < 0)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a document."""
    found = [path] if path else []
    if isinstance(value, dict):
        found += [place for key in value for place in _places(value[key], (*path, key))]
    elif isinstance(value, list):
        # A few of many.
        found += [
            place for i in range(min(len(value), 40)) for place in _places(value[i], (*path, i))
        ]
    return found


def _changed(value: Any, rng: Any) -> Any:
    coin = rng.random()
    if isinstance(value, list) and len(value) > 1 and coin < 0.5:
        other = [*value]
        i, j = rng.integers(0, len(other), 2)
        other[i], other[j] = other[j], other[i]
        return other if coin < 0.4 else other[:-1]
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)) and abs(value) < 1e300 and coin < 0.7:
        moves = [value + 1, value - 1, -value, value * 2, value * 1.001, value + 1e-9, value * 1e6]
        return moves[int(rng.integers(len(moves)))]
    return copy.deepcopy(ODD[int(rng.integers(len(ODD)))])


def forged(model: dict[str, Any], certificate: dict[str, Any], rng: Any) -> tuple[Any, Any]:
    """A model and a certificate, one of them touched, with hashes, words and an id to match."""
    model, certificate = copy.deepcopy(model), copy.deepcopy(certificate)
    whole = model if rng.random() < 0.3 else certificate
    for _ in range(int(rng.integers(1, 3))):
        places = [p for p in _places(whole) if p[0] not in ("id", "statement", "hashes", "reading")]
        if whole is certificate and rng.random() < 0.6:
            places = [p for p in places if p[0] in ("changes", "point", "target", "verdict")]
        *way, last = places[int(rng.integers(len(places)))]
        at = whole
        for step in way:
            at = at[step]
        at[last] = _changed(at[last], rng)
    if rng.random() < 0.2:
        certificate["verdict"] = "NOT_ROBUST" if certificate["verdict"] == "ROBUST" else "ROBUST"
    with contextlib.suppress(Exception):
        certificate["hashes"]["model"] = checker.sha256(model)
    with contextlib.suppress(Exception):
        certificate["hashes"]["point"] = checker.sha256(certificate["point"])
    with contextlib.suppress(Exception):
        certificate["statement"] = checker.statement(certificate)
    with contextlib.suppress(Exception):
        certificate["id"] = checker.sha256({**certificate, "id": ""})
    return model, certificate


def accepted(model: Any, certificate: Any) -> bool:
    """What the checker says; anything that it cannot read is refused by name."""
    try:
        plain = checker.PlainTrees(model)
    except checker.CheckError:
        return False
    return bool(checker.check(certificate, plain).accepted)


def count(model: Any, certificates: list[Any], n: int, seed: int) -> tuple[int, list[str]]:
    """Of n forgeries how many were accepted, and those of them that are false."""
    rng, taken, false = np.random.default_rng(seed), 0, []
    for _ in range(n):
        other, certificate = forged(model, certificates[int(rng.integers(len(certificates)))], rng)
        if accepted(other, certificate):
            taken += 1
            if not true(other, certificate):
                false.append(json.dumps([other, certificate], default=str)[:2000])
    return taken, false
