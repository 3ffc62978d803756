"""Checks certificate files with nothing but Python: no solver, no numpy, nothing of holdfast. Copy this file anywhere.

    python checker.py certificate.json --model model.npz [--space space.json] [--row row.json]

A certificate states that every network in Δ gives a point a class (ROBUST), or that some network in Δ does not
(NOT_ROBUST). This module redoes the proof from the certificate, the model's parameters and four facts:

    interval   a neuron's weights move on their own, and  w v - radius |v|  is least at one of the ends of v's range
    ball       in the p-norm a neuron moves by at most  radius ||(v, 1)||_q,  1/p + 1/q = 1
    cases      a neuron's value lies between relu(L) and relu(U), L and U the lowest and the highest preactivation:
               v >= alpha L for any alpha in [0, 1], and v <= s U + t for any slope s, where t makes the line lie above
               relu at both ends of U's range. With these lines a margin is pulled back, layer by layer, to the first
               hidden layer, whose values form a box. A split says U <= 0 in one case and U >= 0 in the other, and
               a multiple of U with the right sign may be added there.
    witness    a network is in Δ or not, and gives the point a class or another

Floats are fractions whose denominator is a power of two: all arithmetic is on integers, and nothing is rounded but the
square roots of the 2-norm (upwards). docs/certificates.md describes the format.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import os
import struct
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import mul
from typing import Any

FORMAT, VERSION = "holdfast-certificate", 1
# The denominator of the multipliers that the checker chooses itself.
DEFAULT_DENOMINATOR = 2**40
# The 2-norm is rounded up in units of this power of two.
_ROOT_SHIFT = 64


class CheckError(ValueError):
    """A certificate, or a file, that does not hold; the message says why."""


@dataclass(frozen=True)
class Report:
    """What came of checking one certificate."""

    accepted: bool
    # Why it was rejected; the statement that holds where it was not.
    reason: str
    # What was not looked at, because nothing to compare it with was given.
    not_checked: tuple[str, ...] = ()


def check(certificate: Any, model: Model, *, space: Any = None, row: Any = None) -> Report:
    """Whether the certificate holds for this model; with `space` or `row`, whether it was made from these too."""
    try:
        unseen = _check(certificate, model, space, row)
    except CheckError as error:
        return Report(False, str(error))
    except (RecursionError, OverflowError, MemoryError) as error:
        return Report(False, f"proof: too large or too deep to be checked ({type(error).__name__})")
    return Report(True, certificate["statement"], unseen)


def _check(certificate: Any, model: Model, space: Any, row: Any) -> tuple[str, ...]:
    _keys(certificate, "certificate", "format version id statement verdict hashes point target changes proof about")
    _same("format", FORMAT, certificate["format"])
    _same("version", VERSION, certificate["version"])
    _object(certificate["about"], "about")
    _same("id: the sha256 of the rest of the certificate", content_id(certificate), certificate["id"])
    hashes = certificate["hashes"]
    _keys(hashes, "hashes", "model point space row")
    _same("hashes.model: the sha256 of the model's parameters", model.sha256, hashes["model"])
    point = _floats(certificate["point"], "point")
    _same("point: the model's number of variables", len(model.weights[0][0]), len(point))
    _same("hashes.point: the sha256 of the point", point_sha256(point), hashes["point"])
    unseen = ["about"]
    for name, given in (("space", space), ("row", row)):
        if given is None:
            stated = hashes[name]
            if stated is not None and not (isinstance(stated, str) and len(stated) == 64):
                raise CheckError(f"hashes.{name}: expected a sha256 or null, got {_short(stated)}")
            unseen.append(name)
        else:
            found = space_sha256(given) if name == "space" else sha256(given)
            _same(f"hashes.{name}: the sha256 of the {name} that was given", found, hashes[name])
    target = certificate["target"]
    _keys(target, "target", "index label")
    index = _index(target["index"], len(model.classes), "target.index")
    _same("target.label: the model's name of the class", canonical(model.classes[index]), canonical(target["label"]))
    changes = Changes.read(certificate["changes"], len(model.weights))
    _same("statement", statement(certificate["verdict"], target["label"], changes), certificate["statement"])
    _object(certificate["proof"], "proof")
    if certificate["verdict"] == "ROBUST":
        _check_robust(certificate["proof"], model, changes, point, index)
    else:
        _check_broken(certificate["proof"], model, changes, point, index)
    return tuple(unseen)


# --- what a certificate says ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Changes:
    """Δ: one radius or one for each layer, the norm p (inf or >= 1), and whether biases move."""

    delta: tuple[float, ...]
    per_layer: bool
    norm: float
    biases: bool

    @classmethod
    def read(cls, entry: Any, layers: int) -> Changes:
        """Δ as a certificate writes it."""
        _keys(entry, "changes", "delta norm biases")
        per_layer = isinstance(entry["delta"], list)
        delta = _floats(entry["delta"] if per_layer else [entry["delta"]], "changes.delta")
        if min(delta, default=-1.0) < 0.0 or max(delta) == 0.0 or (per_layer and len(delta) != layers):
            raise CheckError(f"changes.delta: expected a radius > 0, or one >= 0 for each of {layers} layers")
        norm = math.inf if entry["norm"] == "inf" else _floats([entry["norm"]], "changes.norm")[0]
        if norm < 1.0 or not isinstance(entry["biases"], bool):
            raise CheckError("changes: expected a norm of at least 1 or 'inf', and biases true or false")
        return cls(tuple(delta), per_layer, norm, entry["biases"])

    def radii(self, layers: int) -> Radii:
        """How far the weights and the biases of each layer may move."""
        radii = self.delta if self.per_layer else self.delta * layers
        return tuple((radius, radius if self.biases else 0.0) for radius in radii)


def statement(verdict: str, label: Any, changes: Changes) -> str:
    """What a certificate guarantees, in one sentence."""
    delta = json.dumps(list(changes.delta) if changes.per_layer else changes.delta[0])
    each = "layer by layer " if changes.per_layer else ""
    each += "each " if changes.norm == math.inf else "together "
    how = "" if changes.norm == math.inf else f" in the {changes.norm!r}-norm"
    moving = "weights and biases" if changes.biases else "weights"
    fixed = "" if changes.biases else " and whose biases are the same"
    who = f"of the model's build whose {moving} {each}differ from the model's by at most {delta}{how}{fixed}"
    if verdict == "ROBUST":
        return f"Every network {who} gives the point the class {json.dumps(label)}, in exact arithmetic."
    if verdict == "NOT_ROBUST":
        return f"Some network {who} does not give the point the class {json.dumps(label)}, in exact arithmetic."
    raise CheckError(f"verdict: expected ROBUST or NOT_ROBUST, got {verdict!r}")


def canonical(value: Any) -> str:
    """JSON with sorted keys and no blanks; floats as the shortest decimals that read back as the same float."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CheckError(f"expected JSON without NaN or infinity: {error}") from error


def sha256(value: Any) -> str:
    """The hash of a value's canonical JSON: of a feature space, of a row."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def space_sha256(space: Any) -> str:
    """The hash of a feature space without its notes: labels and the like change no point."""
    return sha256({key: part for key, part in space.items() if key != "notes"} if isinstance(space, dict) else space)


def point_sha256(point: Sequence[float]) -> str:
    """The hash of the point as little-endian float64."""
    return hashlib.sha256(_bytes(point)).hexdigest()


def content_id(certificate: dict[str, Any]) -> str:
    """The hash of everything in a certificate but its id."""
    return sha256({key: value for key, value in certificate.items() if key != "id"})


# --- the model --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Model:
    """Affine layers, ReLU (or nothing) between them, logits at the end, as plain floats; weights[i] is (out, in)."""

    weights: Sequence[Sequence[Sequence[float]]]
    biases: Sequence[Sequence[float]]
    activations: Sequence[str]
    classes: Sequence[Any]

    @classmethod
    def read(cls, entry: Any) -> Model:
        """The model of plain lists, shapes and numbers checked."""
        weights, biases = _parameters(entry, "model")
        activations = entry.get("activations", ["relu"] * (len(weights) - 1))
        n_classes = max(2, len(biases[-1]))
        classes = entry.get("classes", list(range(n_classes)))
        known = isinstance(activations, list) and all(kind in ("relu", "identity") for kind in activations)
        if not known or len(activations) != len(weights) - 1:
            raise CheckError(f"model: expected 'relu' or 'identity' for each hidden layer, got {_short(activations)}")
        if _length(classes) != n_classes or len({canonical(label) for label in classes}) != n_classes:
            raise CheckError(f"model: expected {n_classes} different classes, got {classes}")
        return cls(weights, biases, activations, classes)

    @cached_property
    def sha256(self) -> str:
        """The hash of the build and, layer by layer, of the weights and biases as little-endian float64."""
        shapes = [[len(weight), len(weight[0])] for weight in self.weights]
        digest = hashlib.sha256(canonical({"activations": list(self.activations), "shapes": shapes}).encode() + b"\n")
        for weight, bias in zip(self.weights, self.biases, strict=True):
            for row in (*weight, bias):
                digest.update(_bytes(row))
        return digest.hexdigest()

    @property
    def outputs(self) -> int:
        """How many logits there are: 1 for two classes, otherwise one for each."""
        return len(self.biases[-1])

    @property
    def rectified(self) -> bool:
        """Whether every hidden layer ends in a ReLU."""
        return "identity" not in self.activations


def load_model(path: str | os.PathLike[str]) -> Model:
    """A model from a file that `Network.save` wrote (.npz), or from JSON with weights, biases, activations, classes."""
    if zipfile.is_zipfile(path):
        return Model.read(_read_npz(path))
    return Model.read(read_json(path))


def _read_npz(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            header = _strict_json(_npy(archive.read("header.npy"))[0])
            layers = range(int(header["layers"]))
            weights = [_npy(archive.read(f"weight_{i}.npy")) for i in layers]
            biases = [_npy(archive.read(f"bias_{i}.npy")) for i in layers]
    # Damaged bytes surface as BadZipFile, zlib.error, KeyError, SyntaxError, struct.error and others.
    except Exception as error:
        raise CheckError(f"{os.fspath(path)}: expected a network saved by holdfast: {error}") from error
    return {**header, "weights": weights, "biases": biases}


def _npy(content: bytes) -> list[Any]:
    """A .npy part: little-endian float64 in one or two dimensions, or one text in UTF-32."""
    if content[:6] != b"\x93NUMPY" or content[6] not in (1, 2, 3):
        raise ValueError("a part is not in the .npy format")
    width = 2 if content[6] == 1 else 4
    start = 8 + width + int.from_bytes(content[8 : 8 + width], "little")
    header = ast.literal_eval(content[8 + width : start].decode("latin1").strip())
    kind, shape, data = header["descr"], header["shape"], content[start:]
    if kind.startswith("<U") and shape == ():
        return [data.decode("utf-32-le").rstrip("\0")]
    if kind != "<f8" or header["fortran_order"] or len(shape) not in (1, 2) or math.prod(shape) * 8 != len(data):
        raise ValueError(f"expected float64 rows, got {kind} with shape {shape}")
    values = list(struct.unpack(f"<{len(data) // 8}d", data))
    return values if len(shape) == 1 else [values[i * shape[1] : (i + 1) * shape[1]] for i in range(shape[0])]


# --- integers over powers of two --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer and how far it may move, in integers over 2**shift; `count` rows of parameters make up one row here."""

    rows: list[list[int]]
    bias: list[int]
    reach: int
    bias_reach: int
    shift: int
    relu: bool
    count: int = 1

    @cached_property
    def columns(self) -> list[tuple[int, ...]]:
        """The weights by the neuron that they read."""
        return list(zip(*self.rows, strict=True))


Box = tuple[list[int], list[int]]
# For each neuron: least and greatest of L, least and greatest of U.
Sides = list[tuple[int, int, int, int]]
# For each layer how far its weights and its biases may move.
Radii = tuple[tuple[float, float], ...]


def interval_layers(model: Model, radii: Radii) -> list[Layer]:
    """Every layer of the model with its radii."""
    kinds = [*model.activations, "identity"]
    return [
        _layer(weight, bias, *radius, kind == "relu")
        for weight, bias, radius, kind in zip(model.weights, model.biases, radii, kinds, strict=True)
    ]


def _layer(
    weight: Sequence[Sequence[float]], bias: Sequence[float], radius: float, bias_radius: float, relu: bool
) -> Layer:
    numbers, shift = _integers([radius, bias_radius, *bias, *(value for row in weight for value in row)])
    start, width = 2 + len(bias), len(weight[0])
    rows = [numbers[i : i + width] for i in range(start, len(numbers), width)]
    return Layer(rows, numbers[2:start], numbers[0], numbers[1], shift, relu)


def _integers(values: Sequence[float], least_shift: int = 0) -> tuple[list[int], int]:
    """n_i and s with values_i = n_i / 2**s."""
    ratios = [value.as_integer_ratio() for value in values]
    shift = max(least_shift, max(below.bit_length() for _, below in ratios) - 1)
    return [above << (shift - below.bit_length() + 1) for above, below in ratios], shift


# A model is shared by many certificates, mostly with one Δ.
_shared_layers = lru_cache(maxsize=8)(interval_layers)


@lru_cache(maxsize=64)
def margin_layer(model: Model, radii: Radii, target: int, rival: int) -> Layer:
    """The last layer as the one row that must stay >= 0: the target's logit minus the rival's, or ± the only logit."""
    last = _shared_layers(model, radii)[-1]
    if model.outputs == 1:
        sign = 1 if target == 1 else -1
        return replace(last, rows=[[sign * w for w in last.rows[0]]], bias=[sign * last.bias[0]])
    row = [a - b for a, b in zip(last.rows[target], last.rows[rival], strict=True)]
    return replace(last, rows=[row], bias=[last.bias[target] - last.bias[rival]], count=2)


def is_strict(model: Model, target: int, rival: int) -> bool:
    """Whether a margin of 0 is not enough: a single logit of 0 is class 1, and the lower index wins a tie."""
    return target == 0 if model.outputs == 1 else rival < target


def box_sides(layer: Layer, low: list[int], high: list[int], scale: int) -> Sides:
    """The sides of each neuron for values in [low, high] over 2**scale, each parameter moving on its own."""
    reach, bias_reach = layer.count * layer.reach, layer.count * layer.bias_reach
    at_low, at_high = [reach * abs(v) for v in low], [reach * abs(v) for v in high]
    sides = []
    for row, bias in zip(layer.rows, layer.bias, strict=True):
        lower_min = lower_max = (bias - bias_reach) << scale
        upper_min = upper_max = (bias + bias_reach) << scale
        for w, lo, hi, r_lo, r_hi in zip(row, low, high, at_low, at_high, strict=True):
            a, b, c, d = w * lo - r_lo, w * hi - r_hi, w * lo + r_lo, w * hi + r_hi
            lower_min, lower_max = (lower_min + a, lower_max + b) if a < b else (lower_min + b, lower_max + a)
            upper_min, upper_max = (upper_min + c, upper_max + d) if c < d else (upper_min + d, upper_max + c)
        sides.append((lower_min, lower_max, upper_min, upper_max))
    return sides


def ball_sides(norm: float) -> Callable[[Layer, list[int], list[int], int], Sides]:
    """The same where the parameters move together in the 1- or 2-norm; only the outer ends are meant."""

    def sides(layer: Layer, low: list[int], high: list[int], scale: int) -> Sides:
        sizes = [max(abs(lo), abs(hi)) for lo, hi in zip(low, high, strict=True)]
        sizes += [1 << scale] if layer.bias_reach else []
        square = layer.count * sum(size * size for size in sizes)
        root = math.isqrt(square)
        reach = layer.reach * (max(sizes) if norm == 1.0 else root + (root * root < square))
        ends = []
        for row, bias in zip(layer.rows, layer.bias, strict=True):
            least = sum(min(w * lo, w * hi) for w, lo, hi in zip(row, low, high, strict=True)) + (bias << scale)
            most = sum(max(w * lo, w * hi) for w, lo, hi in zip(row, low, high, strict=True)) + (bias << scale)
            ends.append((least - reach, least - reach, most + reach, most + reach))
        return ends

    return sides


def propagate(
    layers: Sequence[Layer], point: Sequence[float], sides: Callable[..., Sides] = box_sides
) -> Iterator[tuple[Box, int]]:
    """The box of what each layer reads, the point first, with its scale; at last that of the outputs."""
    values, scale = _integers(point, _ROOT_SHIFT if sides is not box_sides else 0)
    low, high = values, values
    yield (low, high), scale
    for layer in layers:
        ends = sides(layer, low, high, scale)
        low, high, scale = [end[0] for end in ends], [end[3] for end in ends], scale + layer.shift
        if layer.relu:
            low, high = [max(v, 0) for v in low], [max(v, 0) for v in high]
        yield (low, high), scale


# --- ROBUST -----------------------------------------------------------------------------------------------------------


def _check_robust(proof: Any, model: Model, changes: Changes, point: list[float], target: int) -> None:
    _keys(proof, "proof", "parts")
    rivals = [c for c in range(len(model.classes)) if c != target]
    if not isinstance(proof["parts"], list) or len(proof["parts"]) != len(rivals):
        raise CheckError(f"proof.parts: expected one for each of the {len(rivals)} other classes")
    prover = Prover(model, changes, point, target)
    for part, rival in zip(proof["parts"], rivals, strict=True):
        name = f"proof.parts[{rivals.index(rival)}]"
        _object(part, name)
        _keys(part, name, "rival method bound" + (" tree" if part.get("method") == "cases" else ""))
        _same(f"{name}.rival", rival, part["rival"])
        above, below = prover.bound(rival, part["method"], part.get("tree"), name)
        if not prover.suffices(rival, above):
            raise CheckError(f"{name}: the margin that is proven, {above / below:.6g}, is too small")
        _same(f"{name}.bound: what the proof proves", float_below(above, below), _floats([part["bound"]], name)[0])


class Prover:
    """One question, does the point keep the class `target` under Δ, and what each method proves of it."""

    def __init__(self, model: Model, changes: Changes, point: Sequence[float], target: int) -> None:
        self.model, self.changes, self.point, self.target = model, changes, point, target
        self.radii = changes.radii(len(model.weights))
        self.layers = _shared_layers(model, self.radii)

    def suffices(self, rival: int, above: int) -> bool:
        """Whether a margin of `above` / something positive is on the right side."""
        return above > 0 or (above == 0 and not is_strict(self.model, self.target, rival))

    def bound(self, rival: int, method: Any, tree: Any = None, name: str = "proof") -> tuple[int, int]:
        """The least margin against a rival that a method proves, as a fraction; CheckError where it proves nothing."""
        margin = margin_layer(self.model, self.radii, self.target, rival)
        if method == "interval":
            (low, high), scale = self.boxes[-1]
            return box_sides(margin, low, high, scale)[0][0], 1 << (scale + margin.shift)
        if method == "ball":
            if self.changes.norm not in (1.0, 2.0):
                raise CheckError(f"{name}.method: 'ball' is for the norms 1 and 2, got {self.changes.norm}")
            (low, high), scale = self.ball_boxes[-1]
            return ball_sides(self.changes.norm)(margin, low, high, scale)[0][0], 1 << (scale + margin.shift)
        if method == "cases" and self.model.rectified and len(self.layers) > 2:
            return self.cases(rival).bound(tree, f"{name}.tree")
        raise CheckError(f"{name}.method: expected one that fits the model and the norm, got {method!r}")

    def cases(self, rival: int) -> Cases:
        """The walk behind a proof by cases; for models with two hidden layers or more, all of them with ReLU."""
        return Cases(self.layers[:-1], *self.boxes[1], margin_layer(self.model, self.radii, self.target, rival))

    @cached_property
    def boxes(self) -> list[tuple[Box, int]]:
        """What each layer reads; a ball of any p-norm lies in the box of the same radius."""
        return list(propagate(self.layers[:-1], self.point))

    @cached_property
    def ball_boxes(self) -> list[tuple[Box, int]]:
        """The same where the norm is 1 or 2."""
        return list(propagate(self.layers[:-1], self.point, ball_sides(self.changes.norm)))


# (layer, neuron) -> whether U >= 0 in this case; layers are counted from 0, and U belongs to the layers from 1 on.
Decided = dict[tuple[int, int], bool]
# What to multiply the sides of a layer's neurons with, and what to add of U, over one denominator; given the layer, the
# coefficients of its neurons over one denominator, and their sides.
Choose = Callable[[int, list[int], int, Sides], tuple[list[int], list[int], int]]


class Cases:
    """The backward walk over the hidden layers of a network whose values are >= 0, case by case."""

    def __init__(self, hidden: Sequence[Layer], box: Box, scale: int, margin: Layer) -> None:
        self.hidden, self.box, self.margin = hidden, box, margin
        # scales[i] is that of the values of hidden layer i.
        self.scales = [scale]
        for layer in hidden[1:]:
            self.scales.append(self.scales[-1] + layer.shift)

    def bound(self, tree: Any, name: str) -> tuple[int, int]:
        """The least that any leaf of the tree proves; the tree's splits see to it that every case has a leaf."""
        lowest: tuple[int, int] | None = None
        waiting: list[tuple[Any, Decided, list[Sides] | None, str]] = [(tree, {}, None, name)]
        while waiting:
            node, decided, known, here = waiting.pop()
            _object(node, here)
            if "refine" in node:
                _same(f"{here}.refine", True, node["refine"])
                known = self.ranges(decided, known, refine=True)
            if "split" in node:
                split = self._split(node, decided, here)
                waiting.append((node["below"], {**decided, split: False}, known, f"{here}.below"))
                waiting.append((node["above"], {**decided, split: True}, known, f"{here}.above"))
                continue
            above, below = self.leaf(self.ranges(decided, known), self._chooser(node, decided, here))
            if lowest is None or above * lowest[1] < lowest[0] * below:
                lowest = above, below
        assert lowest is not None
        return lowest

    def _split(self, node: Any, decided: Decided, here: str) -> tuple[int, int]:
        _keys(node, here, "split below above" + " refine" * ("refine" in node))
        if not isinstance(node["split"], list) or len(node["split"]) != 2:
            raise CheckError(f"{here}.split: expected [layer, neuron], got {node['split']!r}")
        layer = _index(node["split"][0], len(self.hidden), f"{here}.split")
        if layer == 0:
            raise CheckError(f"{here}.split: expected a hidden layer after the first (layer 0)")
        split = layer, _index(node["split"][1], len(self.hidden[layer].bias), f"{here}.split")
        if split in decided:
            raise CheckError(f"{here}.split: this neuron is decided already")
        return split

    def _chooser(self, node: Any, decided: Decided, here: str) -> Choose:
        """A leaf's own multipliers, or where it has none those that follow from the ranges."""
        if "multipliers" not in node:
            _keys(node, here, "refine" * ("refine" in node))
            return default_multipliers
        _keys(node, here, "multipliers denominators" + "".join(f" {k}" for k in ("constraints", "refine") if k in node))
        sizes = [len(layer.bias) for layer in self.hidden[1:]]
        constraints = node.get("constraints", [[0] * size for size in sizes])
        for name, parts in (("multipliers", node["multipliers"]), ("constraints", constraints)):
            if not isinstance(parts, list) or not all(map(_whole, parts)) or [len(part) for part in parts] != sizes:
                raise CheckError(f"{here}.{name}: expected lists of {sizes} whole numbers")
        denominators = node["denominators"]
        if not _whole(denominators) or len(denominators) != len(sizes) or min(denominators) <= 0:
            raise CheckError(f"{here}.denominators: expected {len(sizes)} whole numbers > 0")
        for i, part in enumerate(constraints, 1):
            for j, n in enumerate(part):
                side = {True: -1, False: 1, None: 0}[decided.get((i, j))]
                if n * side < 0 or (n and not side):
                    raise CheckError(f"{here}.constraints[{i - 1}][{j}]: expected what the case allows, got {n}")

        def choose(i: int, coefficients: list[int], below: int, _: Sides) -> tuple[list[int], list[int], int]:
            numerators, denominator = node["multipliers"][i - 1], denominators[i - 1]
            for j, (c, n) in enumerate(zip(coefficients, numerators, strict=True)):
                if c > 0 and not 0 <= n <= denominator:
                    raise CheckError(f"{here}.multipliers[{i - 1}][{j}]: expected one in [0, 1], got {n}/{denominator}")
            return numerators, constraints[i - 1], denominator

        return choose

    def ranges(self, decided: Decided, known: list[Sides] | None = None, *, refine: bool = False) -> list[Sides]:
        """The sides of every neuron after the first layer, within a case and within what is known already.

        `refine` walks back from each neuron of the third hidden layer and later, which is tighter.
        """
        low, high = self.box
        found: list[Sides] = []
        for i in range(1, len(self.hidden)):
            sides = box_sides(self.hidden[i], low, high, self.scales[i - 1])
            if known is not None:
                sides = _within(sides, known[i - 1])
            if refine and i > 1:
                sides = _within(sides, self._walked(i, found))
            for j in range(len(sides)):
                if (i, j) in decided:
                    least, most, bottom, top = sides[j]
                    ends = (max(bottom, 0), top) if decided[i, j] else (bottom, min(top, 0))
                    sides[j] = (least, most, *ends)
            low, high = [max(side[0], 0) for side in sides], [max(side[3], 0) for side in sides]
            # U <= 0 leaves nothing but 0.
            low = [0 if decided.get((i, j)) is False else v for j, v in enumerate(low)]
            found.append(sides)
        return found

    def _walked(self, i: int, found: list[Sides]) -> Sides:
        """Each end of both sides of layer i by its own backward walk."""
        layer, result = self.hidden[i], []
        for row, bias in zip(layer.rows, layer.bias, strict=True):
            ends = []
            for reach, bias_reach in ((-layer.reach, -layer.bias_reach), (layer.reach, layer.bias_reach)):
                for sign in (1, -1):
                    start = [sign * (w + reach) for w in row]
                    above, below = self._pull(i - 1, start, sign * (bias + bias_reach), layer.shift, found)
                    # Outwards to whole units of the layer's scale.
                    ends.append(sign * ((above << self.scales[i]) // below))
            result.append((ends[0], ends[1], ends[2], ends[3]))
        return result

    def leaf(self, ranges: list[Sides], choose: Choose) -> tuple[int, int]:
        """The least margin that these multipliers prove in a case."""
        margin = self.margin
        row = [w - margin.count * margin.reach for w in margin.rows[0]]
        constant = margin.bias[0] - margin.count * margin.bias_reach
        return self._pull(len(self.hidden) - 1, row, constant, margin.shift, ranges, choose)

    def _pull(
        self, i: int, row: list[int], constant: int, shift: int, ranges: list[Sides], choose: Choose | None = None
    ) -> tuple[int, int]:
        """The least value, as a fraction, of (row . v + constant) / 2**shift, v the values of hidden layer i."""
        choose = choose or default_multipliers
        coefficients, below, constant = row, 1 << shift, constant << self.scales[i]
        # Coefficients are over `below`, the constant over below * 2**scales[i].
        for k in range(i, 0, -1):
            layer, sides = self.hidden[k], ranges[k - 1]
            numerators, extra, denominator = choose(k, coefficients, below, sides)
            constant *= denominator
            pulled, turned = [], 0
            for c, n, e, (_, _, bottom, top) in zip(coefficients, numerators, extra, sides, strict=True):
                pulled.append(c * n + e * below)
                # Parameters move down on a lower side and up on an upper one.
                turned += e * below + (-c * n if c > 0 else c * n)
                if c < 0:
                    constant += c * max(denominator * max(bottom, 0) - n * bottom, denominator * max(top, 0) - n * top)
            constant += (sum(map(mul, pulled, layer.bias)) + turned * layer.bias_reach) << self.scales[k - 1]
            coefficients = [sum(map(mul, pulled, column)) + turned * layer.reach for column in layer.columns]
            below *= denominator << layer.shift
        low, high = self.box
        least = sum(c * (lo if c > 0 else hi) for c, lo, hi in zip(coefficients, low, high, strict=True))
        return least + constant, below << self.scales[0]


def default_multipliers(i: int, coefficients: list[int], below: int, sides: Sides) -> tuple[list[int], list[int], int]:
    """alpha by the share of L's range above 0, the slope of the chord over U's range."""
    numerators = []
    for c, (least, most, bottom, top) in zip(coefficients, sides, strict=True):
        positive, negative = (max(most, 0), max(-least, 0)) if c > 0 else (max(top, 0), max(-bottom, 0))
        width = positive + negative
        whole = (c > 0 and negative == 0) or width == 0
        numerators.append(DEFAULT_DENOMINATOR if whole else positive * DEFAULT_DENOMINATOR // width)
    return numerators, [0] * len(numerators), DEFAULT_DENOMINATOR


def _within(sides: Sides, others: Sides) -> Sides:
    """What both allow."""
    return [
        (max(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), min(a[3], b[3])) for a, b in zip(sides, others, strict=True)
    ]


# --- NOT_ROBUST -------------------------------------------------------------------------------------------------------


def _check_broken(proof: Any, model: Model, changes: Changes, point: list[float], target: int) -> None:
    witness = model
    if proof.get("method") == "today":
        _keys(proof, "proof", "method class margin")
    else:
        _keys(proof, "proof", "method class margin weights biases")
        _same("proof.method", "witness", proof["method"])
        weights, biases = _parameters(proof, "proof")
        witness = replace(model, weights=weights, biases=biases)
        _check_inside(model, witness, changes)
    given = _index(proof["class"], len(model.classes), "proof.class")
    found, (above, below) = exact_class(witness, point, target)
    _same("proof.class: the class that the witness gives the point", found, given)
    if found == target:
        raise CheckError(f"proof: the witness gives the point the class {found}, as was promised")
    _same("proof.margin", float_below(above, below), _floats([proof["margin"]], "proof.margin")[0])


def exact_class(network: Model, point: Sequence[float], target: int) -> tuple[int, tuple[int, int]]:
    """The class in exact arithmetic, and the target's margin over it (over the best other class if it is the same)."""
    still = ((0.0, 0.0),) * len(network.weights)
    *_, ((logits, _), scale) = propagate(interval_layers(network, still), point)
    if len(logits) == 1:
        return int(logits[0] >= 0), (logits[0] if target == 1 else -logits[0], 1 << scale)
    order = sorted(range(len(logits)), key=lambda c: -logits[c])
    rival = order[0] if order[0] != target else order[1]
    return order[0], (logits[target] - logits[rival], 1 << scale)


def _check_inside(model: Model, witness: Model, changes: Changes) -> None:
    """Whether every parameter, or all of them together, moved by no more than Δ allows."""
    total, radii = 0, changes.radii(len(model.weights))
    shapes = [[(len(weight), len(weight[0])) for weight in network.weights] for network in (model, witness)]
    _same("proof: the shapes of the witness's weights", *shapes)
    if changes.norm not in (1.0, 2.0, math.inf):
        raise CheckError(f"changes.norm: whether a witness is inside is decided for 1, 2 and inf, got {changes.norm}")
    for i, (radius, bias_radius) in enumerate(radii):
        if not changes.biases and list(model.biases[i]) != list(witness.biases[i]):
            raise CheckError(f"proof.biases[{i}]: expected the model's own")
        ours, theirs = ([v for row in (*net.weights[i], net.biases[i]) for v in row] for net in (model, witness))
        numbers, shift = _integers([radius, bias_radius, *ours, *theirs])
        limit, middle = numbers[0], 2 + len(ours)
        moved = [abs(a - b) for a, b in zip(numbers[2:middle], numbers[middle:], strict=True)]
        if changes.norm == math.inf:
            inside = max(moved) <= limit
        else:
            power = int(changes.norm)
            size = sum(step**power for step in moved)
            inside = size <= limit**power
            total += size << (power * (_SMALLEST - shift))
        if not inside:
            raise CheckError(f"proof: the witness lies outside Δ, in layer {i}")
    if changes.norm != math.inf and not changes.per_layer:
        above, below = changes.delta[0].as_integer_ratio()
        power = int(changes.norm)
        if total * below**power > above**power << (power * _SMALLEST):
            raise CheckError("proof: the witness lies outside Δ, all layers together")


# Every finite float64 is a whole multiple of 2**-1074.
_SMALLEST = 1074


def float_below(above: int, below: int) -> float:
    """The greatest float that does not exceed above / below."""
    value = above / below
    top, bottom = value.as_integer_ratio()
    return value if top * below <= above * bottom else math.nextafter(value, -math.inf)


# --- reading ----------------------------------------------------------------------------------------------------------


def _parameters(entry: Any, name: str) -> tuple[list[list[list[float]]], list[list[float]]]:
    _object(entry, name)
    weights, biases = entry.get("weights"), entry.get("biases")
    if _length(weights) < 1 or _length(biases) != len(weights) or min(map(_length, weights)) < 1:
        raise CheckError(f"{name}: expected as many lists of biases as of weights, and at least one")
    matrices = [[_floats(row, f"{name}.weights[{i}]") for row in weight] for i, weight in enumerate(weights)]
    vectors = [_floats(bias, f"{name}.biases[{i}]") for i, bias in enumerate(biases)]
    width = len(matrices[0][0])
    for i, (matrix, vector) in enumerate(zip(matrices, vectors, strict=True)):
        if len(matrix) != len(vector) or width == 0 or any(len(row) != width for row in matrix):
            raise CheckError(f"{name}.weights[{i}]: expected {len(vector)} rows of {width} numbers")
        width = len(vector)
    return matrices, vectors


def _floats(values: Any, name: str) -> list[float]:
    """Finite float64 numbers; a whole number stands for itself."""
    if not isinstance(values, list):
        raise CheckError(f"{name}: expected a list of numbers, got {_short(values)}")
    for value in values:
        if type(value) not in (int, float) or not abs(value) <= sys.float_info.max or float(value) != value:
            raise CheckError(f"{name}: expected finite numbers that a float64 holds, got {_short(value)}")
    return [float(value) for value in values]


def _bytes(values: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def _whole(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(v, int) and not isinstance(v, bool) for v in values)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else -1


def _index(value: Any, size: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < size:
        raise CheckError(f"{name}: expected a whole number from 0 to {size - 1}, got {_short(value)}")
    return value


def _object(value: Any, name: str) -> None:
    if not isinstance(value, dict):
        raise CheckError(f"{name}: expected an object, got {_short(value)}")


def _keys(value: Any, name: str, expected: str) -> None:
    """Every key that is expected and no other, so that nothing is stated that is not looked at."""
    _object(value, name)
    if set(value) != set(expected.split()):
        raise CheckError(
            f"{name}: expected the entries {expected or '(none)'}, got {' '.join(sorted(map(str, value)))}"
        )


def _same(name: str, expected: Any, got: Any) -> None:
    if type(expected) is not type(got) or expected != got:
        raise CheckError(f"{name}: expected {_short(expected)}, got {_short(got)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}..."


def read_json(path: str | os.PathLike[str]) -> Any:
    """The JSON in a file; no key twice, no NaN."""
    return _strict_json(_text(path))


def _text(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        content = file.read()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise CheckError(f"{os.fspath(path)}: expected text in UTF-8: {error}") from error


def _strict_json(text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise CheckError("expected JSON with every key once, got one twice")
        return dict(pairs)

    def constant(name: str) -> Any:
        raise CheckError(f"expected finite numbers, got {name}")

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, CheckError) else CheckError(f"expected JSON: {error}") from error


def read_certificates(path: str | os.PathLike[str]) -> Iterator[tuple[str, Any]]:
    """Every certificate in a file (.json), in a file of lines (.jsonl) or in a folder, each with where it was found."""
    name = os.fspath(path)
    if os.path.isdir(name):
        for entry in sorted(os.listdir(name)):
            if entry.endswith((".json", ".jsonl")):
                yield from read_certificates(os.path.join(name, entry))
        return
    try:
        text = _text(name)
    except CheckError as error:
        yield name, error
        return
    many = name.endswith(".jsonl")
    for number, part in enumerate(text.split("\n") if many else [text], 1):
        where = f"{name}:{number}" if many else name
        try:
            if part.strip() or not many:
                yield where, _strict_json(part)
        except CheckError as error:
            yield where, error


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 where every certificate is accepted, 1 where one is rejected, 2 where a file cannot be read."""
    parser = argparse.ArgumentParser(prog="checker", description="Check certificates without trusting who made them.")
    parser.add_argument("certificates", nargs="+", help="certificate files (.json, .jsonl) or folders of them")
    parser.add_argument("--model", required=True, help="the parameters: .npz as Network.save writes it, or .json")
    parser.add_argument("--space", help="the feature space, FeatureSpace.to_dict() as JSON")
    parser.add_argument("--row", help="the row of data that the advice was for, an object of JSON")
    options = parser.parse_args(arguments)
    try:
        model = load_model(options.model)
        space, row = (None if name is None else read_json(name) for name in (options.space, options.row))
        found = [entry for path in options.certificates for entry in read_certificates(path)]
    except (OSError, CheckError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    rejected, started = 0, time.process_time()
    for where, certificate in found:
        if isinstance(certificate, CheckError):
            report = Report(False, str(certificate))
        else:
            report = check(certificate, model, space=space, row=row)
        rejected += not report.accepted
        unseen = f" (not checked: {', '.join(report.not_checked)})" if report.accepted else ""
        sys.stdout.write(f"{where}: {'ACCEPTED' if report.accepted else 'REJECTED'}: {report.reason}{unseen}\n")
    each = (time.process_time() - started) / max(1, len(found))
    sys.stdout.write(f"{len(found) - rejected} accepted, {rejected} rejected, {1e3 * each:.2f} ms each\n")
    return 1 if rejected or not found else 0


if __name__ == "__main__":
    sys.exit(main())
