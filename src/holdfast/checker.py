"""Check certificate files with plain Python: without a solver, numpy or holdfast. Copy this file anywhere.

    python checker.py certificate.json --model model.npz [--space space.json] [--row row.json]

A certificate states that every network in Δ gives a point a class (ROBUST), or that some network in Δ does not
(NOT_ROBUST). This module repeats the proof from the certificate, the model's parameters and six facts:

    interval   a neuron's weights move independently, and the minimum of  w v  is at ends of the ranges of w and of v
    ball       in the p-norm a neuron moves by at most  radius ||(v, 1)||_q,  1/p + 1/q = 1;  a margin moves by this
               times the slopes of the activations and the weights in between. A price on the radius separates neurons
               and layers. A cut: a neuron of one hidden layer shifts by at most a given number, or by more
    cases      a neuron's preactivation z is between L and U, its minimum and maximum for the values before it. The
               bound is for a sum of f(z), with one slope below 0 (none for ReLU) and another above. For l >= 0 and any
               u,  f(z) >= l L + u U + k,  k the minimum of  f(z) - l L - u U.  The minimum is at a corner: for ReLU U
               at an end of its range or 0, and L = U or 0; without ReLU (and with u <= 0) z at an end of its range or
               0. Such lines pull a margin back, layer by layer, to the first hidden layer, where z is in a box. A split
               says U <= 0 or U >= 0 (z without ReLU).
    witness    exact arithmetic says whether a network is in Δ, and whether it gives the point the class
    closed     if a margin m may fall by s, the point is robust iff  m >= s;  if the parameters of a linear model may
    form       move by d with  dᵀ H d <= r²,  it is robust iff  m >= 0  and  m² >= r² gᵀ H⁻¹ g,  g the gradient of m
    trees      each tree adds the minimum of  value - radius  over the leaves that the row can reach when thresholds
               move, or 0 if it may be dropped; the sum has to exceed its possible rounding error

Floats are fractions whose denominator is a power of two, so all arithmetic is on integers. Only the square roots of
the 2-norm and, from the third hidden layer on, the ranges are rounded: outwards. See docs/certificates.md.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import struct
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from operator import add, mul, neg, sub
from pathlib import Path
from typing import Any, NamedTuple, TextIO

FORMAT, VERSION = "holdfast-certificate", 1
# What certificates, proofs and models are made of, as `fit` reads it.
_HASHES = {"model": str, "point": str, "space": Any, "row": Any}
_HEAD = {
    "format": str,
    "version": int,
    "id": str,
    "statement": str,
    "verdict": str,
    "about": dict,
    "proof": dict,
}
_BODY = {
    "target": {"index": int, "label": Any},
    "changes": dict,
    "hashes": _HASHES,
    "point": [float],
}
_PARAMETERS = {"weights": [[[float]]], "biases": [[float]]}
_MODEL = {**_PARAMETERS, "activations": list, "classes": list}
# What may change; Δ itself says no kind. A chance is measured: it may stand beside any of them, and is not checked.
_KINDS: dict[Any, dict[str, Any]] = {
    "parameters": {"delta": Any, "norm": Any, "biases": Any},
    "shift": {"kind": str, "margin": float},
    "ensemble": {"kind": str, "margin": float, "models": [{**_PARAMETERS, "activations": list}]},
    "ellipsoid": {"kind": str, "radius": float, "shape": [[float]]},
    "trees": {
        "kind": str,
        "leaves": Any,
        "thresholds": Any,
        "dropped": int,
        "shift": float,
        "factor": float,
    },
}
# Trees: a place for each node, then what the trees have in common. `reading` is how a table becomes a row, for others.
_NODES = {
    "feature": [int],
    "threshold": [Any],
    "left": [int],
    "right": [int],
    "missing_left": [bool],
    "category": [int],
    "values": [[float]],
}
_TREES = {
    **_NODES,
    "format": str,
    "version": int,
    "classes": list,
    "columns": [str],
    "sets": list,
    "roots": [int],
    "output": [int],
    "base": [float],
    "divisor": float,
    "precision": int,
    "shares": bool,
    "band": float,
    "zero": float,
    "missing": list,
    "compare": str,
    "reading": dict,
}
# The probability from which on the model's user says class 1, or one for each class; and what it takes off each logit.
_THRESHOLD = {"probability": Any, "offsets": [float]}
# What rounding may take from an offset where it is taken off a network's bias.
_LOST_AT_MOST = 1e-9
_UNMOVED = {"leaves": 0.0, "thresholds": 0.0, "dropped": 0, "factor": 1.0}
_CHANCE = {
    "broken": float,
    "models": int,
    "probability": Any,
    "how": str,
    "people": int,
    "loss": Any,
    "worse": Any,
    "record": Any,
}
_INSIDE = {"rank": int, "models": int, "coverage": Any, "confidence": Any, "record": Any}
_MEASURED = ("chance", "inside")
_PART = {"rival": int, "method": str, "bound": float}
_CASES, _WITNESS = {**_PART, "tree": dict}, {**_PART, **_PARAMETERS}
_SPLIT = {"split": [int], "below": dict, "above": dict}
_LEAF = {"lower": [[int]], "upper": [[int]], "denominator": int}
# Of a ball: the cut of a neuron's shift, and the prices of what is left of it.
_CUT = {"cut": int, "at": float, "below": dict, "above": dict}
_PRICE, _PRICES = {"price": float, "shared": bool}, {"prices": [float]}
# How far the parameters of a layer move: all weights and all biases, or each on its own down and up. Δ: that for every
# layer, in which p-norm, and whether for all layers together.
Radii = tuple[tuple[Any, Any], ...]
Changes = tuple[Radii, float, bool]
Row = list[int]
Rows = list[Row]
# The least and the greatest of every value. For each hidden layer the ranges of U, or of z itself in the first and
# without ReLU. For each hidden layer but the first: multipliers of L and of U.
Box = tuple[Row, Row]
Ranges = list[list[tuple[int, int]]]
Lines = list[tuple[Row, Row]]
# Of each neuron of one hidden layer, the least and the most that it shifts in a part of a ball.
Cell = list[tuple[Fraction, Fraction]]


class CheckError(ValueError):
    """A certificate, or a file, is not valid; the message says why."""


class Report(NamedTuple):
    """The result of a check: `accepted`, the statement or the reason, and the parts that were not compared."""

    accepted: bool
    reason: str
    not_checked: tuple[str, ...] = ()


def check(
    certificate: Any, model: PlainModel | PlainTrees, *, space: Any = None, row: Any = None
) -> Report:
    """Check a certificate (a value, or its JSON as bytes) for this model, and if given for this `space` and `row`."""
    given = {"space": space, "row": row}
    try:
        certificate = strict_json(certificate) if isinstance(certificate, bytes) else certificate
        _check(certificate, model, given)
    except (ValueError, RecursionError, OverflowError, MemoryError) as error:
        return Report(
            False,
            str(error) if isinstance(error, CheckError) else f"too large: {type(error).__name__}",
        )
    measured = [
        f"the {name}, which is measured" for name in certificate["changes"] if name in _MEASURED
    ]
    return Report(
        True,
        certificate["statement"],
        ("about", *(name for name in given if given[name] is None), *measured),
    )


def _check(certificate: Any, model: PlainModel | PlainTrees, given: dict[str, Any]) -> None:
    moved: dict[str, Any] = {}
    if isinstance(certificate, dict) and "threshold" in certificate:
        stated = certificate["threshold"]
        first = isinstance(stated, dict) and "first" in stated
        moved = {"threshold": {**_THRESHOLD, **({"first": bool} if first else {})}}
    trees = isinstance(model, PlainTrees)
    # A tree knows where a row goes that lacks a value.
    gaps = {"point": [Any]} if trees else {}
    parts = fit(certificate, {**_HEAD, **_BODY, **gaps, **moved}, "certificate")
    parts["point"] = [
        value if trees and value is None else fit(value, float, "certificate.point")
        for value in parts["point"]
    ]
    hashes, point, index = parts["hashes"], parts["point"], parts["target"]["index"]
    same("format and version", [FORMAT, VERSION], [parts["format"], parts["version"]])
    same(
        "id: the sha256 of the certificate with an empty id",
        sha256({**certificate, "id": ""}),
        parts["id"],
    )
    same("hashes.model: the sha256 of the model's parameters", model.sha256, hashes["model"])
    same("point: the model's number of variables", model.width, len(point))
    same("hashes.point: the sha256 of the point", sha256(point), hashes["point"])
    for name, thing in given.items():
        if thing is not None:
            digest = space_sha256(thing) if name == "space" else sha256(thing)
            same(f"hashes.{name}: the sha256 of the {name} that was given", digest, hashes[name])
        elif hashes[name] is not None and len(fit(hashes[name], str, f"hashes.{name}")) != 64:
            raise CheckError(f"hashes.{name}: expected a sha256 or null, got {hashes[name]!r:.80}")
    names = dict(enumerate(map(canonical, model.classes)))
    same(
        "target.label: the name of the class with this index",
        names.get(index),
        canonical(parts["target"]["label"]),
    )
    kind, changes = parts["changes"].get("kind", "parameters"), dict(parts["changes"])
    if "chance" in changes:
        fit(changes.pop("chance"), _CHANCE, "changes.chance")
    if "inside" in changes:
        fit(changes.pop("inside"), _INSIDE, "changes.inside")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise CheckError(f"changes.kind: expected one of {list(_KINDS)}, got {kind!r:.80}")
    if "threshold" in changes:
        _check_hardest(
            fit(changes.pop("threshold"), [float], "changes.threshold"),
            parts.get("threshold"),
            index,
        )
    changes = fit(changes, _KINDS[kind], "changes")
    same("statement", statement(certificate), parts["statement"])
    if isinstance(model, PlainTrees) and kind == "shift" and not model.parts["shares"]:
        kind, changes = "trees", {**_UNMOVED, "shift": changes["margin"]}
    same("changes.kind: trees, for trees alone, or a shift of their sums", trees, kind == "trees")
    if not isinstance(model, PlainTrees):
        model = model.at(parts.get("threshold"))
    if isinstance(model, PlainTrees):
        same("proof", {"method": "closed form"}, parts["proof"])
        verdict = trees_verdict(changes, model, point, index, parts.get("threshold"))
        same("verdict: what the closed form says", verdict, parts["verdict"])
    elif kind == "parameters":
        prove = _check_robust if parts["verdict"] == "ROBUST" else _check_not_robust
        prove(parts["proof"], model, read_changes(changes, model), point, index)
    else:
        same("proof", {"method": "closed form"}, parts["proof"])
        holds = closed_form(changes, model, point, index, parts.get("threshold"))
        verdict = "ROBUST" if holds else "NOT_ROBUST"
        same("verdict: what the closed form says", verdict, parts["verdict"])


def statement(certificate: dict[str, Any]) -> str:
    """The statement of a certificate, as one sentence."""
    if certificate["verdict"] not in ("ROBUST", "NOT_ROBUST"):
        raise CheckError(
            f"verdict: expected ROBUST or NOT_ROBUST, got {certificate['verdict']!r:.80}"
        )
    who, gives = (
        ("Every", "gives") if certificate["verdict"] == "ROBUST" else ("Some", "does not give")
    )
    trees = certificate["changes"].get("kind") == "trees"
    how = "by more than its sums can round" if trees else "in exact arithmetic"
    return (
        f"{who} {_which(certificate['changes'])} {gives} the point the class "
        f"{json.dumps(certificate['target']['label'])}{_policy(certificate)}, {how}."
    )


def _policy(certificate: dict[str, Any]) -> str:
    """The threshold of the statement, unless it is where the logits are equal."""
    if "threshold" not in certificate:
        return ""
    chance, low_high = (
        certificate["threshold"]["probability"],
        certificate["changes"].get("threshold"),
    )
    where = (
        f"its logits less {certificate['threshold']['offsets']}"
        if chance is None
        else f"the threshold {chance!r}"
        + " on the first class" * ("first" in certificate["threshold"])
    )
    return f" at {where}, to within {_LOST_AT_MOST!r} of log-odds" + (
        "" if low_high is None else f", the hardest from {low_high[0]!r} to {low_high[1]!r}"
    )


def _check_hardest(ends: list[float], threshold: Any, index: int) -> None:
    """Check that a range of thresholds is stated at its hardest: the highest for class 1, the lowest for class 0."""
    chance = threshold["probability"] if isinstance(threshold, dict) else 0.5
    if (
        len(ends) != 2
        or "first" in (threshold or ())
        or not isinstance(chance, float)
        or not ends[0] <= ends[1]
        or chance != ends[1 if index == 1 else 0]
    ):
        raise CheckError(
            f"threshold: expected the hardest of {ends!r:.80} for class {index}, got {chance!r:.80}"
        )


def _which(changes: dict[str, Any]) -> str:
    """The models of the statement."""
    kind, falls = (
        changes.get("kind", "parameters"),
        "a margin over each other class at the point that is at most",
    )
    if kind == "shift":
        return f"model that reads its logits as this one does, with {falls} {changes['margin']!r} below this one's,"
    if kind == "ensemble":
        mean = f"below the mean of the {len(changes['models'])} models in `changes`"
        return f"model that is this one, or reads its logits as it does with {falls} {changes['margin']!r} {mean},"
    if kind == "ellipsoid":
        within = f"by a d with dᵀHd at most the square of {changes['radius']!r}, H the shape in `changes`,"
        return f"network of the model's build whose weights and then biases differ from the model's {within}"
    if kind == "trees":
        leaves, thresholds, dropped, shift, factor = (
            changes[name] for name in ("leaves", "thresholds", "dropped", "shift", "factor")
        )
        near = "the radii in `changes`" if isinstance(leaves, list) else repr(leaves)
        return (
            f"ensemble of the model's trees whose leaves differ from the model's by at most {near}, its thresholds by "
            f"at most {json.dumps(thresholds, sort_keys=True)}, with up to {dropped!r} trees dropped and trees added "
            f"that take at most {shift!r} off the margin, or off a forest's probability, all but the number dropped "
            f"times {factor!r},"
        )
    delta, norm, biases = (changes[name] for name in ("delta", "norm", "biases"))
    layered = isinstance(delta, list)
    own = layered and any(isinstance(part, list) for part in delta)
    how = ("layer by layer " if layered and not own else "") + (
        "each" if norm == "inf" else "together"
    )
    unit = "" if norm == "inf" else f" in the {norm!r}-norm"
    within = (
        "the radius that `changes` states for it and for the direction"
        if own
        else json.dumps(delta) + unit
    )
    moving, fixed = (
        ("weights and biases", "") if biases else ("weights", " and whose biases are the same")
    )
    return f"network of the model's build whose {moving} {how} differ from the model's by at most {within}{fixed}"


def canonical(value: Any) -> str:
    """JSON with sorted keys, without blanks; floats as the shortest decimals that read back as the same float."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CheckError(f"expected JSON without NaN or infinity: {error}") from error


def sha256(value: Any) -> str:
    """The hash of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def space_sha256(space: Any) -> str:
    """The hash of a feature space without its notes (such as labels), which do not change points."""
    return sha256(
        {key: part for key, part in space.items() if key != "notes"}
        if isinstance(space, dict)
        else space
    )


def read_changes(entry: Any, model: PlainModel) -> Changes:
    """Read Δ from a certificate, for this model."""
    delta, biases, layers = entry["delta"], entry["biases"], len(model.weights)
    norm = math.inf if entry["norm"] == "inf" else fit(entry["norm"], float, "changes.norm")
    if (
        norm == math.inf
        and isinstance(delta, list)
        and any(isinstance(part, list) for part in delta)
    ):
        biases = [[0.0] * len(bias) for bias in model.biases] if biases is False else biases
        sides = (
            _sides(delta, model.weights, "changes.delta"),
            _sides(biases, model.biases, "changes.biases"),
        )
        # Down, then up, laid out like a model's parameters.
        radii: Radii = tuple(
            zip(
                *(PlainModel(*side, [], []).layers for side in zip(*sides, strict=True)),
                strict=True,
            )
        )
        values = fit(
            [v for pair in radii for rows in pair for row in rows for v in row], [float], "changes"
        )
    else:
        values = fit(
            delta if isinstance(delta, list) else [delta] * layers, [float], "changes.delta"
        )
        same("changes.delta: the number of layers", layers, len(values))
        radii = tuple(
            (radius, radius if fit(biases, bool, "changes.biases") else 0.0) for radius in values
        )
    if min(values) < 0 or max(values) == 0 or norm < 1:
        raise CheckError("changes: expected radii >= 0, not all 0, and a norm >= 1 or 'inf'")
    return radii, norm, not isinstance(delta, list)


def _sides(entry: Any, like: list[Any], name: str) -> list[Any]:
    """The radii down and the radii up of all layers; a certificate may give one for both."""
    same_length = isinstance(entry, list) and len(entry) == len(like)
    layers = zip(entry, like, strict=True) if same_length else []
    pairs = [[part, part] if outline(part) == outline(one) else part for part, one in layers]
    if outline(pairs) != outline([[part, part] for part in like]):
        raise CheckError(
            f"{name}: expected arrays of radii shaped like the model's, one for each layer or down and up"
        )
    return list(zip(*pairs, strict=True))


def outline(value: Any) -> Any:
    """The shape of nested lists, with None for every other value."""
    return list(map(outline, value)) if isinstance(value, list) else None


@dataclass(frozen=True, eq=False)
class PlainModel:
    """Affine layers with ReLU or identity between them, then logits, as plain floats; weights[i] is (out, in)."""

    weights: list[list[list[float]]]
    biases: list[list[float]]
    activations: list[str]
    classes: list[Any]

    @classmethod
    def read(cls, entry: Any, name: str = "model") -> PlainModel:
        """Read the model from a JSON object, with checked shapes and numbers; it may state its format."""
        parts = {"format": "holdfast-network", "version": 1, **fit(entry, dict, name)}
        same(
            f"{name}: format and version",
            ["holdfast-network", 1],
            [parts.pop("format"), parts.pop("version")],
        )
        model = cls(**fit(parts, _MODEL, name))
        widths = [len(model.weights[0][0]), *map(len, model.biases)]
        rows = [[widths[i]] * size for i, size in enumerate(widths[1:])]
        same(
            f"{name}.weights: the lengths of rows, by the biases",
            rows,
            [list(map(len, w)) for w in model.weights],
        )
        if len(model.activations) != len(widths) - 2 or not all(
            a in ("relu", "identity") for a in model.activations
        ):
            raise CheckError(f"{name}.activations: expected relu or identity for each hidden layer")
        if not len(set(map(canonical, model.classes))) == len(model.classes) == max(2, widths[-1]):
            raise CheckError(f"{name}.classes: expected {max(2, widths[-1])} different ones")
        return model

    @property
    def width(self) -> int:
        """The number of variables that the model reads."""
        return len(self.weights[0][0])

    @property
    def layers(self) -> tuple[tuple[tuple[float, ...], ...], ...]:
        """For each layer, the weights of each neuron followed by its bias."""
        pairs = zip(self.weights, self.biases, strict=True)
        return tuple(tuple((*row, b) for row, b in zip(*pair, strict=True)) for pair in pairs)

    def at(self, threshold: Any) -> PlainModel:
        """The model at a threshold: its last biases less the offsets, rounded to floats."""
        if threshold is None:
            return self
        _check_first(threshold, False)
        offsets = read_offsets(threshold, len(self.biases[-1]))
        last = [bias - offset for bias, offset in zip(self.biases[-1], offsets, strict=True)]
        for moved, bias, offset in zip(last, self.biases[-1], offsets, strict=True):
            # Of several logits two are held against each other.
            lost = abs(Fraction(moved) - Fraction(bias) + Fraction(offset)) * min(len(last), 2)
            if lost > _LOST_AT_MOST:
                raise CheckError(
                    f"threshold.offsets: the model's bias {bias} is too large for {offset}"
                )
        return PlainModel(self.weights, [*self.biases[:-1], last], self.activations, self.classes)

    @cached_property
    def sha256(self) -> str:
        """The hash of the model's parameters, without the names of its classes."""
        return sha256(
            {"activations": self.activations, "biases": self.biases, "weights": self.weights}
        )


def _check_first(threshold: Any, shares: Any) -> None:
    """Check that a threshold on the first class is for a forest of two classes, whose shares may not sum to 1."""
    if "first" in (threshold or ()) and not (shares and threshold["first"]):
        raise CheckError("threshold.first: only forests of two classes may have it")


def read_offsets(threshold: Any, logits: int) -> list[float]:
    """Read the offsets that a threshold subtracts from each logit, checked against the stated probability."""
    chance, offsets = threshold["probability"], threshold["offsets"]
    same("threshold.offsets: one for each logit", logits, len(offsets))
    if chance is not None:
        shares = fit(
            chance if isinstance(chance, list) else [chance], [float], "threshold.probability"
        )
        if len(shares) != len(offsets) or not all(0.0 < p < 1.0 for p in shares):
            raise CheckError(
                f"threshold.probability: expected one between 0 and 1, or one a class, got {shares}"
            )
        less = [0.0 if isinstance(chance, list) else math.log1p(-p) for p in shares]
        logs = [math.log(p) - part for p, part in zip(shares, less, strict=True)]
        logs = [-log for log in logs] if "first" in threshold else logs
        # Logarithms differ by no more than their last digits from machine to machine.
        near = [1e-15 * (abs(math.log(p)) + abs(b)) for p, b in zip(shares, less, strict=True)]
        if any(abs(a - b) > c for a, b, c in zip(offsets, logs, near, strict=True)):
            raise CheckError(
                f"threshold.offsets: expected the logits {logs} of the probability, got {offsets}"
            )
    return list(offsets)


class PlainTrees:
    """Trees as plain lists with one entry for each node, as in `_TREES`; a node without a feature is a leaf."""

    def __init__(self, entry: Any, name: str = "model") -> None:
        parts = fit(entry, {**_TREES, "sets": Any}, name)
        same(
            f"{name}: format and version",
            ["holdfast-trees", 1],
            [parts["format"], parts["version"]],
        )
        self.sha256, self.parts, self.classes = sha256(entry), parts, parts["classes"]
        self.width, self.outputs = len(parts["columns"]), len(parts["base"])
        self.nodes = list(zip(*(parts[key] for key in _NODES), strict=False))
        self._check_shapes(name)
        self.thresholds = [
            math.inf
            if t == "inf"
            else -math.inf
            if t == "-inf"
            else fit(t, float, f"{name}.threshold")
            for t in parts["threshold"]
        ]
        leaves = [i for i, feature in enumerate(parts["feature"]) if feature < 0]
        self.leaf_places = {node: place for place, node in enumerate(leaves)}

    def _check_shapes(self, name: str) -> None:
        parts, size = self.parts, len(self.nodes)
        same(f"{name}: the lengths of its lists", {size}, {len(parts[key]) for key in _NODES})
        widths = {len(row) for row in parts["values"]}
        inner = [node for node in self.nodes if node[0] >= 0]
        below = parts["roots"] + [child for node in inner for child in node[2:4]]
        sets = parts["sets"]
        wrong = {
            "classes": not len(set(map(canonical, self.classes))) == len(self.classes) >= 2
            or self.outputs != (2 if parts["shares"] and len(self.classes) == 2 else self.logits),
            "columns": len(set(parts["columns"])) != self.width,
            "values": widths not in ({1}, {self.outputs}),
            # No node is below two others, nor below itself.
            "left, right": len(set(below)) != len(below) or not all(0 <= i < size for i in below),
            "feature": any(node[0] >= self.width for node in inner),
            "output": len(parts["output"]) != len(parts["roots"])
            or not all(0 <= i < self.outputs for i in parts["output"]),
            "sets": not isinstance(sets, list)
            or not all(
                isinstance(row, list) and row and all(type(v) is bool for v in row) for row in sets
            ),
            "category": isinstance(sets, list) and any(node[5] >= len(sets) for node in inner),
            "precision": parts["precision"] not in (24, 53),
            "divisor": not parts["divisor"] > 0.0,
            "band": not (parts["band"] >= 0.0 and parts["zero"] >= 0.0),
            "missing": len(parts["missing"]) not in (0, self.width)
            or not all(how in ("nan", "zero", "none") for how in parts["missing"]),
            "compare": parts["compare"]
            not in ("float32 <", "float32 <=", "float64 <", "float64 <="),
        }
        for key, fault in wrong.items():
            if fault:
                raise CheckError(
                    f"{name}.{key}: expected the values that holdfast writes for trees"
                )

    @property
    def logits(self) -> int:
        """The number of logits: 1 for two classes, else one for each class."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    def margins(self, target: int, threshold: Any) -> list[tuple[list[int], Fraction]]:
        """The margin over each rival: the weight of each sum, and a constant."""
        off = [0.0] * self.logits if threshold is None else read_offsets(threshold, self.logits)
        sign, shares = 1 if target == 1 else -1, self.parts["shares"]
        _check_first(threshold, shares and self.logits == 1)
        if self.logits > 1:
            if shares and threshold is not None:
                raise CheckError("threshold: expected none for a forest of several classes")
            return [
                (
                    [(c == target) - (c == rival) for c in range(self.logits)],
                    Fraction(off[rival]) - Fraction(off[target]),
                )
                for rival in range(self.logits)
                if rival != target
            ]
        if not shares:
            return [([sign], -sign * Fraction(off[0]))]
        if threshold is None:
            return [([-sign, sign], Fraction(0))]
        # Probabilities are held against the threshold as they are.
        at = Fraction(fit(threshold["probability"], float, "threshold.probability"))
        return [([-sign, 0], sign * at) if "first" in threshold else ([0, sign], -sign * at)]

    def seen(self, point: list[Any]) -> list[Any]:
        """The row as the library reads it: its zeros, its missing values, its precision."""
        row, single = [], self.parts["compare"].startswith("float32")
        hows = self.parts["missing"] or ["nan"] * self.width
        for value, how in zip(point, hows, strict=True):
            if value is None:
                value = 0.0 if how == "none" else None
            elif abs(value) <= self.parts["zero"]:
                value = 0.0
            if value == 0.0 and how == "zero":
                value = None
            row.append(float32(value) if single and value is not None else value)
        return row

    def reached(self, root: int, row: list[Any], reach: list[Fraction]) -> Iterator[int]:
        """The leaves of a tree that a row can reach if thresholds move by `reach`."""
        front = [root]
        while front:
            node = front.pop()
            feature, _, left, right, missing_left, category, _ = self.nodes[node]
            if feature < 0:
                yield node
                continue
            value, ways = row[feature], (False, False)
            if value is None:
                ways = (missing_left, not missing_left)
            elif category >= 0:
                codes = self.parts["sets"][category]
                inside = codes[int(value) if 0 <= value < len(codes) - 1 else -1]
                ways = (inside, not inside)
            else:
                ways = self.ways(value, self.thresholds[node], reach[feature])
            front += [child for child, way in zip((left, right), ways, strict=True) if way]

    def ways(self, value: float, threshold: float, reach: Fraction) -> tuple[bool, bool]:
        """Whether a threshold within reach, representable by the library, sends a value left, and whether right."""
        strict, single = self.parts["compare"].endswith("<"), "32" in self.parts["compare"]
        if not reach or math.isinf(threshold):
            left = value < threshold if strict else value <= threshold
            return left, not left
        low, high = Fraction(threshold) - reach, Fraction(threshold) + reach
        if strict:
            after = float32_after(value) if single else math.nextafter(value, math.inf)
            return value < math.inf and after <= high, value >= low
        return value <= high, math.nextafter(value, -math.inf) >= low


def trees_verdict(
    changes: dict[str, Any], trees: PlainTrees, point: list[Any], target: int, threshold: Any
) -> str:
    """ROBUST or NOT_ROBUST; raises if the margin is within rounding."""
    radii, reach, shift = read_tree_changes(changes, trees)
    row, parts = trees.seen(point), trees.parts
    found: list[list[tuple[list[Fraction], Fraction]]] = []
    leaves = [list(trees.reached(root, row, reach)) for root in parts["roots"]]
    divisor, verdicts = Fraction(parts["divisor"]), []
    if changes["dropped"] and divisor != 1 and threshold is not None:
        raise CheckError(
            "changes.dropped: expected 0 for a mean of trees with a threshold, because fewer trees have another mean"
        )
    # The sizes of what is added to each sum, at most.
    sizes = [abs(Fraction(base)) + shift * divisor for base in parts["base"]]
    for output, nodes in zip(parts["output"], leaves, strict=True):
        found.append(
            [(list(map(Fraction, parts["values"][i])), radii[trees.leaf_places[i]]) for i in nodes]
        )
        for place in range(len(found[-1][0][0])):
            size = max(abs(values[place]) + radius for values, radius in found[-1])
            sizes[place if len(found[-1][0][0]) > 1 else output] += size
    # n numbers are added in any order with an error of at most  n u / (1 - n u)  times their sizes; a few steps follow.
    n, unit, small = len(leaves) + 3, Fraction(1, 2 ** parts["precision"]), Fraction(1, 2**51)
    if n * unit >= 1:
        raise CheckError("model: expected fewer trees than a sum in its precision can have")
    tiny = Fraction(1, 2**1074) if divisor != 1 else 0
    for weights, constant in trees.margins(target, threshold):
        terms: list[Fraction] = []
        for output, some in zip(parts["output"], found, strict=True):
            mine = weights if len(some[0][0]) > 1 else [weights[output]]
            terms.append(
                min(
                    sum(w * v for w, v in zip(mine, values, strict=True))
                    - sum(map(abs, mine)) * radius
                    for values, radius in some
                )
            )
        gone = sorted(terms, reverse=True)[: changes["dropped"]]
        total = sum(w * Fraction(b) for w, b in zip(weights, parts["base"], strict=True)) + sum(
            terms
        )
        # Of forests the shift is one of probabilities: where two are compared, one may fall and the other rise.
        lost = shift * (sum(map(abs, weights)) if parts["shares"] else 1)
        worst = (total - sum(max(term, Fraction(0)) for term in gone)) / divisor + constant - lost
        weighted = sum(abs(w) * size for w, size in zip(weights, sizes, strict=True)) / divisor
        error = weighted * n * unit / (1 - n * unit) + small * (
            sum(sizes) / divisor + abs(constant)
        )
        error += Fraction(parts["band"]) + tiny * sum(map(abs, weights))
        verdicts.append("ROBUST" if worst > error else "NOT_ROBUST" if worst < -error else "")
    if "NOT_ROBUST" in verdicts:
        return "NOT_ROBUST"
    if "" in verdicts:
        raise CheckError(
            "verdict: the worst margin is within rounding of 0, so neither verdict is proven"
        )
    return "ROBUST"


def read_tree_changes(
    changes: dict[str, Any], trees: PlainTrees
) -> tuple[list[Fraction], list[Fraction], Fraction]:
    """Read the radius of each leaf, the radius of each column's thresholds, and the shift by added trees."""
    given, columns, count = changes["thresholds"], trees.parts["columns"], len(trees.leaf_places)
    leaves = (
        changes["leaves"] if isinstance(changes["leaves"], list) else [changes["leaves"]] * count
    )
    same("changes.leaves: one for each leaf", count, len(leaves))
    if isinstance(given, dict):
        if not set(given) <= set(columns):
            raise CheckError(
                f"changes.thresholds: expected columns of the model, got {list(given)!r:.80}"
            )
        given = [given.get(name, 0.0) for name in columns]
    else:
        given = [given] * len(columns)
    sizes = [
        fit(part, [float], "changes")
        for part in (leaves, given, [changes["shift"], changes["factor"]])
    ]
    if min(map(min, sizes)) < 0.0 or changes["dropped"] < 0:
        raise CheckError("changes: expected radii, shift, factor and number of dropped trees >= 0")
    factor = Fraction(sizes[2][1])
    radii, reach, (shift, _) = ([Fraction(size) * factor for size in part] for part in sizes)
    return radii, reach, shift


def float32(value: float) -> float:
    """The nearest number of 32 bits."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def float32_after(value: float) -> float:
    """The next number of 32 bits above one."""
    (bits32,) = struct.unpack("<i", struct.pack("<f", value if value else 0.0))
    # Below 0 a greater pattern is a smaller number.
    return float(
        struct.unpack("<f", struct.pack("<i", bits32 + 1 if value >= 0.0 else bits32 - 1))[0]
    )


def load_model(path: Path) -> PlainModel | PlainTrees:
    """Load a model from a file of `Network.save` (.npz), or from JSON: a network's parameters, or trees."""
    try:
        if not zipfile.is_zipfile(path):
            entry = strict_json(path.read_bytes())
            trees = isinstance(entry, dict) and entry.get("format") == "holdfast-trees"
            return PlainTrees(entry) if trees else PlainModel.read(entry)
        with zipfile.ZipFile(path) as archive:
            if sum(part.file_size for part in archive.infolist()) > path.stat().st_size:
                raise ValueError(
                    "expected uncompressed parts, because a small compressed file may hide a huge one"
                )
            members, header = archive.namelist(), strict_json(_npy(archive.read("header.npy")))
            layers = min(header.pop("layers"), len(members))
            names = [f"{kind}_{i}.npy" for kind in ("weight", "bias") for i in range(layers)]
            # One part more, and numpy may read another model out of the same file.
            same("the parts", sorted(["header.npy", *names]), sorted(members))
            parts = [_npy(archive.read(name)) for name in names]
        return PlainModel.read({**header, "weights": parts[:layers], "biases": parts[layers:]})
    # Damaged bytes surface as BadZipFile, zlib.error, KeyError, SyntaxError, struct.error and others.
    except Exception as error:
        raise CheckError(f"{path}: expected a model that was saved by holdfast: {error}") from error


def _npy(content: bytes) -> Any:
    """Read a part in the .npy format, version 1: rows of little-endian float64, or a text in UTF-32."""
    start = 10 + int.from_bytes(content[8:10], "little")
    header, data = ast.literal_eval(content[10:start].decode("latin1")), content[start:]
    kind, shape, known = header["descr"], header["shape"], content[:7] == b"\x93NUMPY\x01"
    if known and kind.startswith("<U") and shape == ():
        return data.decode("utf-32-le").rstrip("\0").encode()
    if not known or kind != "<f8" or header["fortran_order"] or len(shape) not in (1, 2):
        raise ValueError(f"expected rows of float64, got {kind} with shape {shape}")
    values = list(struct.unpack(f"<{math.prod(shape)}d", data))
    return (
        values
        if len(shape) == 1
        else [values[i : i + shape[1]] for i in range(0, len(values), shape[1])]
    )


def bits(values: Iterable[float]) -> int:
    """The least s such that all values are whole multiples of 2**-s."""
    return max(value.as_integer_ratio()[1] for value in values).bit_length() - 1


def whole(values: Iterable[float], shift: int) -> list[int]:
    """The values in units of 2**-shift."""
    return [
        above << (shift + 1 - below.bit_length())
        for above, below in (v.as_integer_ratio() for v in values)
    ]


class IntegerLayer(NamedTuple):
    """In integers, the least and the greatest of each neuron's weights and bias; and whether a ReLU follows."""

    low: Rows
    high: Rows
    relu: bool


@lru_cache(maxsize=16)
def integer_layers(model: PlainModel, radii: Radii) -> tuple[list[IntegerLayer], int]:
    """The model with its radii in units of 2**-shift, and the shift; cached, because certificates share models."""
    parts = []
    for layer, (down, up) in zip(model.layers, radii, strict=True):
        alike = isinstance(down, float) and [[down] * (len(layer[0]) - 1) + [up]]
        parts.append((layer, alike or down, alike or up))
    shift, layers = bits(v for part in parts for rows in part for row in rows for v in row), []
    for part, kind in zip(parts, (*model.activations, "identity"), strict=True):
        today, down, up = ([whole(row, shift) for row in rows] for rows in part)
        copies = len(today) // len(down)
        low = [list(map(sub, *rows)) for rows in zip(today, down * copies, strict=True)]
        high = [list(map(add, *rows)) for rows in zip(today, up * copies, strict=True)]
        layers.append(IntegerLayer(low, high, kind == "relu"))
    return layers, shift


def extremes(
    low: Rows, high: Rows, box: Box, norm: float = math.inf, count: int = 1
) -> list[tuple[int, int]]:
    """The minimum and the maximum of each row over a box, with roots rounded up; `count` rows move in each."""
    if norm != math.inf:
        # Here all rows have the same radii.
        ends = zip(low[0], high[0], *box, strict=True)
        sizes = [(b - a) // (2 * count) * max(abs(start), abs(end)) for a, b, start, end in ends]
        spread = dual(sizes, norm, count)
        today = [
            [(a + b) // 2 for a, b in zip(*rows, strict=True)]
            for rows in zip(low, high, strict=True)
        ]
        return [(least - spread, most + spread) for least, most in extremes(today, today, box)]
    # Where v is negative,  w v  is least for the greatest w.
    return [
        (sum(map(lowest, b, a, *box)), -sum(map(lowest, map(neg, a), map(neg, b), *box)))
        for a, b in zip(low, high, strict=True)
    ]


def dual(values: Row, norm: float, count: int = 1) -> int:
    """The norm dual to the 1-norm or to the 2-norm of `count` copies of a vector, rounded up."""
    if norm == 1:
        return max(map(abs, values))
    square = count * sum(map(mul, values, values))
    return math.isqrt(square - 1) + 1 if square else 0


def lowest(below: int, above: int, bottom: int, top: int) -> int:
    """The minimum on [bottom, top] of a function that is 0 at 0, with these slopes below and above 0."""
    if bottom >= 0:
        return above * (bottom if above > 0 else top)
    return (
        below * (bottom if below > 0 else top) if top <= 0 else min(below * bottom, above * top, 0)
    )


def chord(below: int, above: int, bottom: int, top: int) -> int:
    """The slope of the chord of this function over [bottom, top], widened to contain 0; rounded down."""
    left, right = min(bottom, 0), max(top, 0)
    return (above * right - below * left) // (right - left) if left < right else 0


def combine(multipliers: Row, rows: Rows) -> Row:
    """The sum of the rows, each times its multiplier."""
    pairs = [pair for pair in zip(multipliers, rows, strict=True) if pair[0]] or [(0, rows[0])]
    factors, chosen = zip(*pairs, strict=True)
    return [sum(map(mul, factors, column)) for column in zip(*chosen, strict=True)]


def _check_robust(
    proof: Any, model: PlainModel, changes: Changes, point: list[float], target: int
) -> None:
    question, parts = (
        Question(model, changes, point, target),
        fit(proof, {"parts": [dict]}, "proof")["parts"],
    )
    rivals = [c for c in range(len(model.classes)) if c != target]
    same(
        "proof.parts: one for each other class, in order",
        rivals,
        [part.get("rival") for part in parts],
    )
    for i, rival in enumerate(rivals):
        part, name = parts[i], f"proof.parts[{i}]"
        bound = question.bound(fit(part, _CASES if "tree" in part else _PART, name), name)
        if not question.suffices(rival, bound):
            raise CheckError(f"{name}: the margin that is proven, {float(bound):.6g}, is too small")
        same(f"{name}.bound: what the proof proves", float_below(bound), part["bound"])


class Question:
    """Does the point keep the class `target` under Δ? Parameters are over 2**shift, ranges over 2**fine."""

    def __init__(
        self, model: PlainModel, changes: Changes, point: Sequence[float], target: int
    ) -> None:
        self.radii, self.norm, self.together = changes
        self.target, (self.layers, self.shift) = target, integer_layers(model, self.radii)
        # No fewer than 64 bits, for the square roots; the 1 at the end is for the bias, here and in every box.
        scale = max(64, bits(point))
        self.point, self.fine = [*whole(point, scale), 1 << scale], scale + 2 * self.shift
        self._boxes: dict[float, list[Box]] = {}

    def boxes(self, norm: float) -> list[Box]:
        """The box of each layer's input; the box of the maximum norm is valid for every p-norm."""
        if norm not in self._boxes:
            boxes = self._boxes[norm] = [(self.point, self.point)]
            for layer in self.layers[:-1]:
                ends, one = (
                    extremes(layer.low, layer.high, boxes[-1], norm),
                    boxes[-1][0][-1] << self.shift,
                )
                low, high = (
                    [max(v, 0) if layer.relu else v for v in end] for end in zip(*ends, strict=True)
                )
                boxes.append(([*low, one], [*high, one]))
        return self._boxes[norm]

    def suffices(self, rival: int, bound: Fraction) -> bool:
        """Whether the target wins by this margin: a single logit of 0 is class 1, and the lower index wins a tie."""
        loses_ties = self.target == 0 if len(self.layers[-1].low) == 1 else rival < self.target
        return bound > 0 or (bound == 0 and not loses_ties)

    def margin(self, rival: int) -> tuple[Row, Row]:
        """The ends of the row that must stay >= 0: the target's logit minus the rival's; one logit is class 1's."""
        low, high = ([[0] * len(rows[0])] * (2 - len(rows)) + rows for rows in self.layers[-1][:2])
        return list(map(sub, low[self.target], high[rival])), list(
            map(sub, high[self.target], low[rival])
        )

    def bound(self, part: dict[str, Any], name: str = "proof") -> Fraction:
        """The lower bound of the margin over a rival that a part proves; raises CheckError if it proves none."""
        low, high = self.margin(part["rival"])
        if "tree" in part and part["method"] == "ball" and self.norm in (1, 2):
            row = [(a + b) // 2 for a, b in zip(low, high, strict=True)]
            return min(Ball(self, row).tree(part["tree"], f"{name}.tree"))
        if "tree" in part:
            same(f"{name}.method", "cases", part["method"])
            if len(self.layers) < 3:
                raise CheckError(f"{name}.method: 'cases' is for two or more hidden layers")
            return min(self.tree(part["tree"], low, high, self.ranges, f"{name}.tree"))
        norm = self.norm if part["method"] == "ball" else math.inf
        if part["method"] not in ("ball", "interval") or (
            part["method"] == "ball" and norm not in (1, 2)
        ):
            raise CheckError(
                f"{name}.method: expected interval, cases, or ball for a norm of 1 or 2"
            )
        box = self.boxes(norm)[-1]
        ((least, _),) = extremes([low], [high], box, norm, min(len(self.layers[-1].low), 2))
        return Fraction(least, box[0][-1] << self.shift)

    def tree(self, node: Any, low: Row, high: Row, case: Ranges, name: str) -> Iterator[Fraction]:
        """The bound that each leaf proves for a row; by the splits, every network is in the case of some leaf."""
        if node == {}:
            yield self.least(low, high, case)
        elif "split" in node:
            places = {(i, j): ends for i, layer in enumerate(case) for j, ends in enumerate(layer)}
            split = tuple(fit(node, _SPLIT, name)["split"])
            bottom, top = places.get(split, (0, 0))
            if not bottom < 0 < top:
                raise CheckError(
                    f"{name}.split: expected [layer, neuron] of one that can be on either side of zero"
                )
            i, j = split
            for side, ends in (("below", (bottom, 0)), ("above", (0, top))):
                cut = [list(layer) for layer in case]
                cut[i][j] = ends
                yield from self.tree(node[side], low, high, cut, f"{name}.{side}")
        else:
            leaf = fit(node, _LEAF, name)
            lower, upper, unit = leaf["lower"], leaf["upper"], leaf["denominator"]
            wrong = any(list(map(len, side)) != list(map(len, case[1:])) for side in (lower, upper))
            signs = [
                0 if layer.relu else max(line)
                for line, layer in zip(upper, self.layers[1:-1], strict=False)
            ]
            if wrong or min(map(min, lower)) < 0 or max(signs) > 0 or unit <= 0:
                raise CheckError(
                    f"{name}: expected lower >= 0 and upper (<= 0 without ReLU) for each neuron, over one > 0"
                )
            yield self.least(low, high, case, list(zip(lower, upper, strict=True)), unit)

    def least(
        self, above: Row, below: Row, case: Ranges, lines: Lines | None = None, unit: int = 2**64
    ) -> Fraction:
        """A lower bound, in a case, of a row with slopes `above` for values >= 0 and `below` for values <= 0."""
        return Fraction(
            self._walk(above, below, case, lines, unit), unit << (self.shift + self.fine)
        )

    def _walk(
        self, above: Row, below: Row, case: Ranges, lines: Lines | None = None, unit: int = 2**64
    ) -> int:
        # Slopes are over unit * 2**shift, the total over 2**fine times that.
        p, n, total, shift = [w * unit for w in above], [w * unit for w in below], 0, self.shift
        for i in range(len(case) - 1, 0, -1):
            total, layer = total + (p.pop() << self.fine), self.layers[i]
            n = [0] * len(p) if layer.relu else n[: len(p)]
            if lines:
                lower, upper = lines[i - 1]
            else:
                slopes = [
                    chord(a, b, *ends) >> shift for a, b, ends in zip(n, p, case[i], strict=True)
                ]
                lower, upper = (
                    [max(slope, 0) for slope in slopes],
                    [min(slope, 0) for slope in slopes],
                )
            for under, over, low, up, ends in zip(n, p, lower, upper, case[i], strict=True):
                low, up = low << shift, up << shift
                # ReLU: L = U, or L = 0 where U is above. Identity: L = U = z.
                rise = min(over - low, 0) if layer.relu else over - low
                total += lowest(under - low - up, rise - up, *ends)
            p = combine(lower + upper, layer.low + layer.high)
            n = p if self.layers[i - 1].relu else combine(lower + upper, layer.high + layer.low)
        # With ReLU no value of the first layer is below zero.
        return total + (p.pop() << self.fine) + sum(map(lowest, n, p, *zip(*case[0], strict=True)))

    @cached_property
    def ranges(self) -> Ranges:
        """The case before splits: a box for the first hidden layer, a walk back for each end of later ranges."""
        low, high = ([value << self.shift for value in end[:-1]] for end in self.boxes(math.inf)[1])
        case, digits = [list(zip(low, high, strict=True))], 64 + self.shift
        for i, layer in enumerate(self.layers[1:-1], 1):
            (*starts, _), (*ends, one) = self.boxes(math.inf)[i + 1]
            ranges = []
            for low, high, start, end in zip(layer.low, layer.high, starts, ends, strict=True):
                bottom = self._walk(*((high, low) if layer.relu else (low, high)), case) >> digits
                minus_top = self._walk(list(map(neg, high)), list(map(neg, low)), case) >> digits
                # The same from intervals, which know U's least only from below by L's.
                bottom = bottom if layer.relu else max(bottom, (start << self.fine) // one)
                ranges.append((bottom, -max(minus_top, (-end << self.fine) // one)))
            case.append(ranges)
        return case


class Ball:
    """A margin over a ball of the 1-norm or the 2-norm, `row` over 2**shift; all numbers are fractions or integers.

    Around the values of today's network: a layer i that reads v' moves by E_i (v', 1), and with D_i the slopes of the
    activations between today's value and the changed one the margin moves by the sum of  g_i E_i (v', 1),
    g_i = row D W ... W D_i, at most  ||E_i||_p s_i,  s_i = ||g_i||_q ||(v', 1)||_q.
    """

    def __init__(self, question: Question, row: Row) -> None:
        self.norm, self.layers, self.shift = question.norm, question.layers, question.shift
        self.point, self.row = question.point, row
        radii = [Fraction(radius) for radius, _ in question.radii]
        self.shared = radii[0] if question.together else None
        self.bias = int(any(bias > 0 for _, bias in question.radii))
        # How many times the output layer's change counts in a margin.
        self.count = min(len(self.layers[-1].low), 2)
        # A network with one hidden layer is cut by how far its neurons shift.
        self.one = len(self.layers) == 2
        self.whole: Cell = [(Fraction(-1), Fraction(1))] * (len(self.layers[0].low) * self.one)
        # The values of every layer: today's, their ranges, their slopes.
        self.radii, self.hidden = radii, []
        *self.centre, self.one_is = self.point
        self.ranges = [(value, value) for value in self.centre]
        self.size = self.dual([*self.centre, self.one_is * self.bias], self.one_is)
        for i, layer in enumerate(self.layers[:-1], 1):
            rows = [
                [(a + b) // 2 for a, b in zip(*ends, strict=True)]
                for ends in zip(*layer[:2], strict=True)
            ]
            one, ends, slopes = self.one_is << self.shift, [], []
            for row in rows:
                z = self.at(row)
                low, high = (
                    math.ceil(one * self.reach([sign * weight for weight in row[:-1]], self.size))
                    for sign in (1, -1)
                )
                ends.append((z, z - low, z + high))
                slopes.append(slopes_between(*ends[-1]) if layer.relu else (1 << 64,) * 3)
            self.hidden.append((rows, slopes, self.size))
            before, self.one_is = self.size, one
            if layer.relu:
                ends = [(max(z, 0), max(low, 0), max(high, 0)) for z, low, high in ends]
            self.centre = [z for z, _, _ in ends]
            self.ranges = [(low, high) for _, low, high in ends]
            one = one * self.bias
            self.size = self.dual(
                [*(max(abs(low), abs(high)) for low, high in self.ranges), one], self.one_is
            )
            if i == 1:
                # Neurons share the radius:  ||v' - v||_q <= ||v' - v||_p <= ||E||_p ||(x, 1)||_q  for p <= 2.
                moved = radii[0] * before
                self.size = min(self.size, self.dual([*self.centre, one], self.one_is) + moved)

    def dual(self, values: Row, one: int, count: int = 1) -> Fraction:
        """The dual norm of values over `one`, rounded up."""
        return Fraction(dual([value << 64 for value in values], self.norm, count), one << 64)

    def at(self, row: Row) -> int:
        """A row times today's values, over one_is << shift."""
        return sum(map(mul, row, [*self.centre, self.one_is]))

    def fall(self, row: Row, digits: int) -> list[Fraction]:
        """The largest fall of  row v'  below  row v  for each unit that a layer moves; the row is over 2**digits.

        For a positive coefficient today's slope is valid, because a ReLU lies above its tangents.
        """
        low, high, parts = row, row, []
        for rows, slopes, size in reversed(self.hidden):
            pairs = []
            for a, b, (least, greatest, tangent) in zip(low, high, slopes, strict=True):
                least, greatest = (tangent, tangent) if a > 0 else (least, greatest)
                pairs.append((a * greatest, b * (greatest if b > 0 else least)))
            digits += 64
            parts.append(size * self.dual([max(abs(a), abs(b)) for a, b in pairs], 1 << digits))
            middle = combine([a + b for a, b in pairs], rows)
            half = combine([b - a for a, b in pairs], [list(map(abs, row)) for row in rows])
            low, high = list(map(sub, middle, half))[:-1], list(map(add, middle, half))[:-1]
            digits += self.shift + 1
        return parts[::-1]

    def most(self, parts: list[Fraction]) -> Fraction:
        """The maximum of the sum of  ||E_i||_p s_i."""
        most = sum(map(mul, self.radii, parts), Fraction(0))
        return most if self.shared is None else min(most, self.shared * self.length(parts))

    def length(self, parts: list[Fraction]) -> Fraction:
        """||s||_q, rounded up."""
        one = max(part.denominator for part in parts)
        return self.dual([math.ceil(part * one) for part in parts], one)

    def reach(self, row: Row, own: Fraction) -> Fraction:
        """The largest fall of  row v'  while the row moves too: all layers together, or each value in its range."""
        ranges = zip(row, self.centre, self.ranges, strict=True)
        alone = sum(w * (v - low) if w > 0 else w * (v - high) for w, v, (low, high) in ranges)
        single = Fraction(alone, self.one_is << self.shift) + self.radii[len(self.hidden)] * own
        return min(single, self.most([*self.fall(row, self.shift), own]))

    def tree(self, node: Any, name: str, cell: Cell | None = None) -> Iterator[Fraction]:
        """The bound that each leaf proves; by the cuts, every network of the ball is in some leaf."""
        cell = cell or self.whole
        if "cut" not in fit(node, dict, name):
            yield self.leaf(node, name, cell)
            return
        cut = fit(node, _CUT, name)
        j, at = cut["cut"], Fraction(cut["at"])
        if not (0 <= j < len(cell) and cell[j][0] < at < cell[j][1]):
            raise CheckError(f"{name}.cut: expected a neuron of one hidden layer, and where")
        for side, ends in (("below", (cell[j][0], at)), ("above", (at, cell[j][1]))):
            yield from self.tree(cut[side], f"{name}.{side}", [*cell[:j], ends, *cell[j + 1 :]])

    def leaf(self, node: Any, name: str, cell: Cell) -> Fraction:
        """A lower bound of the margin in a part of the ball, from its leaf."""
        root = self.dual([1], 1, self.count)
        if node == {}:
            return Fraction(self.at(self.row), self.one_is << self.shift) - self.reach(
                self.row[:-1], root * self.size
            )
        if "prices" in node:
            first, *last = map(Fraction, fit(node, _PRICES, name)["prices"])
            if (
                len(last) != 1
                or min(first, *last) <= 0
                or not self.one
                or (self.shared is not None and first != last[0])
            ):
                raise CheckError(
                    f"{name}.prices: expected two above 0, the same for a radius that is shared, with one hidden layer"
                )
            return self.shifted(cell, first, last[0], root)
        leaf = fit(node, _PRICE, name)
        if leaf["price"] <= 0 or not self.hidden or (leaf["shared"] and self.shared is None):
            raise CheckError(
                f"{name}.price: expected one above 0 for a hidden layer, shared only where the radius is"
            )
        return self.priced(Fraction(leaf["price"]), leaf["shared"], root)

    def taken(self, gain: Fraction, price: Fraction) -> Fraction:
        """The maximum of  gain r - price r**p  over shares r of a radius, from 0 to 1."""
        if self.norm == 1 or gain > 2 * price:
            return max(gain - price, Fraction(0))
        return gain * gain / (4 * price)

    def priced(self, price: Fraction, shared: bool, root: Fraction) -> Fraction:
        """The bound with a price on the output layer's radius: a weight's gain is below a chord, added to the row."""
        one, row = self.one_is, list(self.row[:-1])
        limit = self.shared if shared else None
        pull = root * (self.radii[-1] if limit is None else limit)
        bound = (
            Fraction(self.row[-1], 1 << self.shift) - price - self.taken(pull * self.bias, price)
        )
        digits = self.shift + 64
        for j, (low, high) in enumerate(self.ranges):
            at_low, at_high = (
                self.taken(pull * Fraction(abs(end), one), price) for end in (low, high)
            )
            chord = (
                int((at_high - at_low) * one / (high - low) * (1 << digits)) if low < high else 0
            )
            bound -= max(
                at - Fraction(chord * end, one << digits)
                for at, end in ((at_low, low), (at_high, high))
            )
            row[j] = (row[j] << 64) - chord
        bound += Fraction(sum(map(mul, row, self.centre)), one << digits)
        parts = self.fall(row, digits)
        cost = self.most(parts)
        if limit is not None:
            cost = min(cost, self.taken(limit * self.length(parts), price))
        return bound - cost

    def shifted(self, cell: Cell, first: Fraction, last: Fraction, root: Fraction) -> Fraction:
        """The bound for one hidden layer with prices on both radii: each neuron leaves a function of its own shift."""
        rows, _, size = self.hidden[0]
        move, pull, one = self.radii[0] * size, root * self.radii[1], self.point[-1] << self.shift
        bound = Fraction(self.row[-1], 1 << self.shift) - self.taken(pull * self.bias, last)
        bound -= first if self.shared is not None else first + last
        for weight, row, ends in zip(self.row[:-1], rows, cell, strict=True):
            today = Fraction(sum(map(mul, row, self.point)), one)
            slope = Fraction(weight, 1 << self.shift)

            def priced(
                shift: Fraction, today: Fraction = today, slope: Fraction = slope
            ) -> Fraction:
                value = today + move * shift
                value = max(value, Fraction(0)) if self.layers[0].relu else value
                paid = first * abs(shift) ** int(self.norm)
                return slope * value - self.taken(pull * abs(value), last) + paid

            far = 2 * last / pull if pull else 0
            kinks = [(end - today) / move for end in (0, far, -far)] if move else []
            places = [*ends, *(s for s in (Fraction(0), *kinks) if ends[0] < s < ends[1])]
            bound += least_of(priced, sorted(places))
        return bound


def slopes_between(z: int, low: int, high: int) -> tuple[int, int, int]:
    """Slopes of max(z, 0) from z to [low, high], in units of 2**-64: least, greatest, and of a line below."""
    unit = 1 << 64
    if low >= 0 or high <= 0:
        return (unit * (high > 0),) * 3
    if z > 0:
        return (z << 64) // (z - low), unit, unit
    return 0, -((-high << 64) // (high - z)), 0


def least_of(function: Callable[[Fraction], Fraction], places: list[Fraction]) -> Fraction:
    """The minimum of a function from the first place to the last, quadratic or concave between neighbours."""
    values = list(map(function, places))
    least = min(values)
    for (a, at_a), (b, at_b) in pairwise(zip(places, values, strict=True)):
        middle = function((a + b) / 2)
        bend = at_a + at_b - 2 * middle
        if abs(at_b - at_a) < 2 * bend:
            least = min(least, middle - (at_b - at_a) ** 2 / (8 * bend))
    return least


def unmoved(
    model: PlainModel, point: Sequence[float], target: int
) -> tuple[Question, dict[int, Fraction]]:
    """The question for today's model, and its margins over each other class."""
    question = Question(model, (((0.0, 0.0),) * len(model.weights), math.inf, True), point, target)
    rivals = [c for c in range(len(model.classes)) if c != target]
    return question, {c: question.bound({"method": "interval", "rival": c}) for c in rivals}


def closed_form(
    changes: dict[str, Any],
    model: PlainModel,
    point: list[float],
    target: int,
    threshold: Any = None,
) -> bool:
    """Whether every model that `changes` allows keeps the class, for closed forms; the model includes the threshold."""
    question, today = unmoved(model, point, target)
    size = Fraction(changes["radius" if changes["kind"] == "ellipsoid" else "margin"])
    if size < 0:
        raise CheckError(f"changes: expected a margin or radius >= 0, got {float(size)}")
    if changes["kind"] == "ellipsoid":
        reach = squared_reach(changes["shape"], model, point, target)
        return all(
            m >= 0 and question.suffices(c, m * m - size * size * reach[c])
            for c, m in today.items()
        )
    center, count = today, len(changes.get("models", [0]))
    if changes["kind"] == "ensemble":
        others, ends = [], [len(model.weights[0][0]), len(model.biases[-1])]
        for i, entry in enumerate(changes["models"]):
            one = PlainModel.read({**entry, "classes": model.classes}, f"changes.models[{i}]")
            same(
                f"changes.models[{i}]: variables and logits",
                ends,
                [len(one.weights[0][0]), len(one.biases[-1])],
            )
            others.append(unmoved(one.at(threshold), point, target)[1])
        center = {c: sum((other[c] for other in others), Fraction(0)) / count for c in today}
    # Nothing but its margin is known of a model: it may have it over any rival, so every tie has to be won.
    least = min(center.values()) - size
    return all(question.suffices(c, min(today[c], least)) for c in today)


def squared_reach(
    shape: list[list[float]], model: PlainModel, point: list[float], target: int
) -> dict[int, Fraction]:
    """The value gᵀ H⁻¹ g for each other class; g is the gradient of its margin: all weights, then all biases.

    With c the last entry of  [[H, g], [gᵀ, 0]]  after elimination, it is  -c / det H.
    """
    outputs, width = len(model.biases[-1]), len(point)
    size = outputs * (width + 1)
    same("changes: a model without hidden layers", 1, len(model.weights))
    same("changes.shape: a row for each parameter", [size] * size, list(map(len, shape)))
    (rows, shift), scale, squares = eliminated(tuple(map(tuple, shape))), bits(point), {}
    x = whole(point, scale)
    for rival in (c for c in range(len(model.classes)) if c != target):
        signs = [(c == target) - (c == rival) for c in range(outputs)] if outputs > 1 else [1]
        g = [sign * v for sign in signs for v in x] + [sign << scale for sign in signs]
        corner, before = 0, 1
        for k, row in enumerate(rows):
            corner = (row[k] * corner - g[k] * g[k]) // before
            g[k + 1 :] = [
                (row[k] * v - w * g[k]) // before
                for v, w in zip(g[k + 1 :], row[k + 1 :], strict=True)
            ]
            before = row[k]
        squares[rival] = Fraction(-corner << shift, before << 2 * scale)
    return squares


@lru_cache(maxsize=4)
def eliminated(shape: tuple[tuple[float, ...], ...]) -> tuple[Rows, int]:
    """Eliminate a symmetric matrix in units of 2**-shift without fractions: its rows from the diagonal, the shift.

    The diagonal then has the leading minors; all are above 0 iff the matrix is positive definite.
    """
    shift, before = bits(v for row in shape for v in row), 1
    if shape != tuple(zip(*shape, strict=True)):
        raise CheckError("changes.shape: expected a symmetric matrix")
    rows = [whole(row, shift) for row in shape]
    for k, row in enumerate(rows):
        if row[k] <= 0:
            raise CheckError("changes.shape: expected a positive definite matrix")
        for i in range(k + 1, len(rows)):
            ends = zip(rows[i][i:], row[i:], strict=True)
            rows[i][i:] = [(row[k] * v - row[i] * w) // before for v, w in ends]
        before = row[k]
    return rows, shift


def _check_not_robust(
    proof: Any, model: PlainModel, changes: Changes, point: list[float], target: int
) -> None:
    part = fit(proof, _WITNESS if "weights" in proof else _PART, "proof")
    same("proof.method", "witness" if "weights" in proof else "today", part["method"])
    witness = model
    if part["method"] == "witness":
        witness = PlainModel.read(
            {key: part.get(key, getattr(model, key)) for key in _MODEL}, "proof"
        )
        _check_inside(model, witness, changes)
    question, margins = unmoved(witness, point, target)
    if part["rival"] not in margins:
        raise CheckError(
            f"proof.rival: expected another of {len(model.classes)} classes, got {part['rival']}"
        )
    if question.suffices(part["rival"], margins[part["rival"]]):
        raise CheckError(
            f"proof: the witness keeps the target class against the class {part['rival']}"
        )
    same(
        "proof.bound: the target's margin over the rival",
        float_below(margins[part["rival"]]),
        part["bound"],
    )


def _check_inside(model: PlainModel, witness: PlainModel, changes: Changes) -> None:
    radii, norm, together = changes
    if norm not in (1, 2, math.inf):
        raise CheckError(
            f"changes.norm: witnesses can be checked for the norms 1, 2 and inf, got {norm}"
        )
    same(
        "proof: the shapes of the witness's layers",
        outline(model.weights),
        outline(witness.weights),
    )
    layers, shift = integer_layers(model, radii)
    spare = max(0, bits(v for layer in witness.layers for row in layer for v in row) - shift)
    sizes, power = [], 1 if norm == math.inf else int(norm)
    for i, (new, (low, high, _)) in enumerate(zip(witness.layers, layers, strict=True)):
        ends = zip((whole(row, shift + spare) for row in new), low, high, strict=True)
        room = [
            (w - (a << spare), (b << spare) - w)
            for rows in ends
            for w, a, b in zip(*rows, strict=True)
        ]
        # In no norm does one parameter move further than the radius.
        if any(min(pair) < 0 for pair in room):
            raise CheckError(f"proof: the witness lies outside Δ, in layer {i}")
        # Twice the distance, as the radius is the same down and up.
        sizes.append(sum(abs(above - below) ** power for above, below in room))
    if norm != math.inf:
        limits = [
            (2 * limit) ** power for limit in whole((radius for radius, _ in radii), shift + spare)
        ]
        sizes, limits = ([sum(sizes)], limits[:1]) if together else (sizes, limits)
        if any(size > limit for size, limit in zip(sizes, limits, strict=True)):
            raise CheckError("proof: the witness lies outside Δ, all parameters together")


def float_below(value: Fraction) -> float:
    """The greatest float that does not exceed the value."""
    nearest = float(value)
    return nearest if nearest <= value else math.nextafter(nearest, -math.inf)


def fit(value: Any, shape: Any, name: str) -> Any:
    """The value, if it has this shape: {key: shape} with these keys only, [shape] for a non-empty list, or a type."""
    if isinstance(shape, dict):
        if not isinstance(value, dict) or set(value) != set(shape):
            got = sorted(map(str, value)) if isinstance(value, dict) else value
            raise CheckError(f"{name}: expected the entries {' '.join(shape)}, got {got!r:.200}")
        return {key: fit(value[key], inner, f"{name}.{key}") for key, inner in shape.items()}
    if isinstance(shape, list):
        if not isinstance(value, list) or not value:
            raise CheckError(f"{name}: expected a list that is not empty, got {value!r:.80}")
        return [fit(item, shape[0], name) for item in value]
    if shape is float and type(value) is int and abs(value) <= 2**53:
        return float(value)
    if shape is not Any and (
        type(value) is not shape or (shape is float and not math.isfinite(value))
    ):
        raise CheckError(f"{name}: expected a finite {shape.__name__}, got {value!r:.80}")
    return value


def same(name: str, expected: Any, got: Any) -> None:
    """Raise CheckError unless the stated value is the expected one."""
    if expected != got:
        raise CheckError(f"{name}: expected {expected!r:.80}, got {got!r:.80}")


def strict_json(content: bytes) -> Any:
    """Read JSON in UTF-8; raises for a repeated key, which readers interpret differently."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("expected every key once, got one twice")
        return dict(pairs)

    try:
        return json.loads(content.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise CheckError(f"expected JSON: {error}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: exit 0 if all certificates are accepted, 1 if one is rejected, 2 if a file cannot be read."""
    parser = argparse.ArgumentParser(
        prog="checker",
        description="Check certificates without trusting the program that made them.",
    )
    parser.add_argument(
        "certificates",
        nargs="+",
        type=Path,
        help="certificates: one in a file (.json), or one on each line (.jsonl)",
    )
    parser.add_argument(
        "--model", required=True, type=Path, help="the parameters: .npz of Network.save, or .json"
    )
    parser.add_argument(
        "--space", type=Path, help="the feature space, FeatureSpace.to_dict() as JSON"
    )
    parser.add_argument(
        "--row", type=Path, help="the row of data that the advice was for, as a JSON object"
    )
    options = parser.parse_args(arguments)
    try:
        model = load_model(options.model)
        space, row = (
            path and strict_json(path.read_bytes()) for path in (options.space, options.row)
        )
        texts = [(path, path.read_bytes()) for path in options.certificates]
    except (OSError, CheckError) as error:
        say(f"error: {error}", sys.stderr)
        return 2
    results = []
    for path, text in texts:
        for line in (path.suffix == ".jsonl" and list(filter(bytes.strip, text.split(b"\n")))) or [
            text
        ]:
            report = check(line, model, space=space, row=row)
            results.append(report.accepted)
            unseen = f" (not checked: {', '.join(report.not_checked)})" if report.accepted else ""
            say(
                f"{path}: {'ACCEPTED' if report.accepted else 'REJECTED'}: {report.reason}{unseen}",
                sys.stdout,
            )
    say(f"{sum(results)} accepted, {len(results) - sum(results)} rejected", sys.stdout)
    return 0 if all(results) else 1


def say(line: str, where: TextIO) -> None:
    """Print exactly one line, with every other character of file names and messages escaped."""
    text, code = line if line.isprintable() else repr(line), where.encoding or "ascii"
    where.write(text.encode(code, "backslashreplace").decode(code) + "\n")


if __name__ == "__main__":
    sys.exit(main())
