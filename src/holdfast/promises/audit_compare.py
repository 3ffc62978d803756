"""How far a new model lies from the model of a promise, in the variables of the promise.

A refitted scaler reads the same raw value x as another number: u = s x + o then, v = a u + c now, with a and c exact
fractions. As networks over the old variables u, the new model is

    W' = W diag(a),    b' = W c + b        (first layer)
    b'_L = b_L - log(t / (1 - t))          (last layer, decision threshold t)

and it is this network that must lie in Δ. Both encodings round, so that the v which the model reads is off from a u + c
by some e; W e is one more change of the first bias. Everything here is an upper bound on how far each parameter moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from holdfast.changes import PlausibleChanges
from holdfast.features import FeatureSpace
from holdfast.features.feature import Feature
from holdfast.features.scaling import Scaling
from holdfast.network import Floats, Network
from holdfast.promises.ledger_terms import Terms, logit

_UNIT = 2.0**-53
_TINY = 1e-290
# Rounding bounds are computed in floats themselves; this pays for it many times over.
_SAFE = 4.0


@dataclass(frozen=True, eq=False)
class Comparison:
    """What separates a new model from the model of some promises.

    Attributes
    ----------
    how
        "parameters" where both read the same variables at the same threshold, "folded" where a changed scaling,
        encoder or threshold went into the parameters, "" where the two cannot be compared.
    why_not
        Why they cannot be compared.
    deviations
        For each layer an upper bound on how far each weight and each bias moved.
    exact
        The two networks themselves where nothing had to be folded: their distance is decided in exact arithmetic.
    """

    how: str
    why_not: str = ""
    deviations: tuple[tuple[Floats, Floats], ...] = ()
    exact: tuple[Network, Network] | None = None

    def distance(self, norm: float, biases: bool) -> float:
        """An upper bound on the distance; infinite where the models cannot be compared, or a fixed bias moved."""
        if not self.deviations:
            return math.inf
        if not biases and any(bias.any() for _, bias in self.deviations):
            return math.inf
        parts = np.concatenate([part.ravel() for layer in self.deviations for part in layer])
        return float(np.linalg.norm(parts, norm)) * (1.0 + _SAFE * (parts.size + 4) * _UNIT)

    def within(self, changes: PlausibleChanges) -> bool:
        """Whether the new model certainly lies in Δ."""
        if self.exact is not None:
            return changes.contains(*self.exact)
        if not self.deviations or (isinstance(changes.delta, tuple) and len(changes.delta) != len(self.deviations)):
            return False
        if not isinstance(changes.delta, tuple):
            return self.distance(changes.norm, changes.biases) <= changes.delta
        layers = (replace(self, deviations=(layer,)) for layer in self.deviations)
        return all(
            layer.distance(changes.norm, changes.biases) <= radius
            for layer, radius in zip(layers, changes.delta, strict=True)
        )


def compare(
    terms: Terms,
    network: Network,
    threshold: float,
    space: FeatureSpace | None,
    reach: Callable[[], Floats],
) -> Comparison:
    """Compare a new model with that of some promises.

    Parameters
    ----------
    network, threshold, space
        The new model, its threshold, and how it reads raw values; None if that is not known.
    reach
        Gives the largest |u| of each variable over the promises in question; asked only if the encoding changed.
    """
    if space is None:
        return Comparison("", "the new model's preprocessing is not one that a feature space can describe")
    old = terms.network
    if not np.array_equal(old.classes, network.classes):
        return Comparison("", f"other classes: {network.classes.tolist()} for {old.classes.tolist()}")
    if old.hidden != network.hidden or old.n_outputs != network.n_outputs or old.activations != network.activations:
        return Comparison("", f"another build: {network!r} for {old!r}")
    plain = terms.threshold == threshold == 0.5
    if same_encoding(terms.space, space):
        if plain:
            deviations = tuple(
                (np.abs(w2 - w1) * (1.0 + _SAFE * _UNIT), np.abs(b2 - b1) * (1.0 + _SAFE * _UNIT))
                for w1, w2, b1, b2 in zip(old.weights, network.weights, old.biases, network.biases, strict=True)
            )
            return Comparison("parameters", deviations=deviations, exact=(old, network))
        weight, bias = network.weights[0], network.biases[0]
        weight_error, bias_error = np.zeros_like(weight), np.zeros_like(bias)
    else:
        folded = _fold(terms.space, space, network, reach)
        if isinstance(folded, str):
            return Comparison("", folded)
        weight, bias, weight_error, bias_error = folded
    moved = network.with_parameters([weight, *network.weights[1:]], [bias, *network.biases[1:]])
    errors = [(np.zeros_like(w), np.zeros_like(b)) for w, b in zip(old.weights, old.biases, strict=True)]
    errors[0] = (weight_error, bias_error)
    moved, error = _shifted(moved, threshold)
    errors[-1] = (errors[-1][0], errors[-1][1] + error)
    today = terms.decision
    return Comparison(
        "folded",
        deviations=tuple(
            (_beyond(w1, w2, w_error), _beyond(b1, b2, b_error))
            for w1, w2, b1, b2, (w_error, b_error) in zip(
                today.weights, moved.weights, today.biases, moved.biases, errors, strict=True
            )
        ),
    )


def same_encoding(a: FeatureSpace, b: FeatureSpace) -> bool:
    """Whether every row of raw values is the same point in both, bit for bit."""

    def reading(feature: Feature) -> tuple[object, ...]:
        return feature.name, feature.variables, feature.categories, feature.one_hot, feature.scaling

    return a.n_variables == b.n_variables and {*map(reading, a.features)} == {*map(reading, b.features)}


def _beyond(old: Floats, new: Floats, error: Floats) -> Floats:
    """|new - old| + error, rounded up; exactly 0 where nothing moved."""
    distance = np.abs(new - old)
    return np.asarray(np.where((distance == 0.0) & (error == 0.0), 0.0, (distance + error) * (1.0 + _SAFE * _UNIT)))


def _shifted(network: Network, threshold: float) -> tuple[Network, Floats]:
    """The new threshold in the last bias, and how far that bias may be off from the real number."""
    if threshold == 0.5:
        return network, np.zeros_like(network.biases[-1])
    bias = network.biases[-1] - logit(threshold)
    # A logarithm is good to an ulp or two of the larger of its two parts.
    size = abs(math.log(threshold)) + abs(math.log1p(-threshold))
    error = 2.0 * _SAFE * _UNIT * (size + np.abs(bias)) + _TINY
    return network.with_parameters(network.weights, [*network.biases[:-1], bias]), np.asarray(error)


def _fold(
    old: FeatureSpace, new: FeatureSpace, network: Network, reach: Callable[[], Floats]
) -> tuple[Floats, Floats, Floats, Floats] | str:
    """The new first layer over the old variables with its error bounds, or why there is none.

    A column that the new model does not read has weight 0 in it. A category that is new to it is 0 for every promise.
    """
    largest = reach()
    n_old, n_new = old.n_variables, new.n_variables
    weights, offset = network.weights[0], np.zeros(n_new)
    folded, weight_error = np.zeros((weights.shape[0], n_old)), np.zeros((weights.shape[0], n_old))
    noise, rounded_offset = np.zeros(n_new), np.zeros(n_new)
    for feature in new.features:
        if feature.name not in old.names:
            return f"the new model reads the column {feature.name!r}, which these promises do not record"
        before = old[feature.name]
        pairs = _paired(before, feature)
        if pairs is None:
            return f"column {feature.name!r} is encoded in another way than one scaled number or the same categories"
        for u, v in pairs:
            if feature.one_hot or before.scaling == feature.scaling:
                folded[:, u] = weights[:, v]
                continue
            slope, constant = _change(before.scaling, feature.scaling)
            folded[:, u] = weights[:, v] * float(slope)
            weight_error[:, u] = _SAFE * _UNIT * np.abs(folded[:, u]) + _TINY
            offset[v] = float(constant)
            rounded_offset[v] = abs(offset[v])
            noise[v] = _encoding_error(before.scaling, feature.scaling, float(largest[u]))
    bias = network.biases[0] + weights @ offset
    size = np.abs(network.biases[0]) + np.abs(weights) @ rounded_offset
    moved = bool(noise.any())
    rounding = _SAFE * (n_new + 4) * _UNIT * size + _TINY if moved else np.zeros_like(bias)
    return folded, bias, weight_error, np.asarray(rounding + (np.abs(weights) @ noise) * (1.0 + _SAFE * n_new * _UNIT))


def _paired(before: Feature, after: Feature) -> list[tuple[int, int]] | None:
    """The (old, new) variables of a column that hold the same thing; None if no affine map joins the two encodings."""
    if before.one_hot != after.one_hot:
        return None
    if not before.one_hot:
        return [(before.variables[0], after.variables[0])] if before.categories == after.categories else None
    if before.drops_first != after.drops_first:
        return None
    if before.drops_first and before.categories[0] != after.categories[0]:
        return None
    places = [dict(zip(f.categories[f.drops_first :], f.variables, strict=True)) for f in (before, after)]
    if not set(places[0]) <= set(places[1]):
        return None
    return [(u, places[1][label]) for label, u in places[0].items()]


def _line(scaling: Scaling) -> tuple[Fraction, Fraction]:
    """(s, o) with encoded = s raw + o, exactly."""
    slope, offset = Fraction(1), Fraction(0)
    for operation, constant in scaling.operations:
        exact = Fraction(constant)
        if operation in ("multiply", "divide"):
            factor = exact if operation == "multiply" else 1 / exact
            slope, offset = slope * factor, offset * factor
        else:
            offset += exact if operation == "add" else -exact
    return slope, offset


def _change(before: Scaling, after: Scaling) -> tuple[Fraction, Fraction]:
    """(a, c) with v = a u + c, exactly."""
    (s_old, o_old), (s_new, o_new) = _line(before), _line(after)
    return s_new / s_old, o_new - s_new / s_old * o_old


def _encoding_error(before: Scaling, after: Scaling, largest: float) -> float:
    """How far the rounded v may be from a u + c with the rounded u, where |u| <= largest."""
    # In raw units no number on the way to u exceeds `size`, and none on the way to v exceeds that plus v's own shifts.
    size = float(before.magnitude(np.array([largest]))[0]) * (1.0 + 1e-9)
    onward = size + float(after.magnitude(np.array([0.0]))[0]) * (1.0 + 1e-9)
    slope = float(_line(after)[0])
    steps = (len(before.operations) + 1) * size + (len(after.operations) + 1) * onward
    return _SAFE * _UNIT * steps * slope * (1.0 + 1e-9) + _TINY
