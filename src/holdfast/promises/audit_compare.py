"""How far a new model lies from the model of a promise, in the variables of the promise.

A changed scaler or encoder goes into the first layer (`audit_fold`), a moved decision threshold t into the last bias,

    b'_L = b_L - log(t / (1 - t)),

and it is this network that must lie in Δ. Everything here is an upper bound on how far each parameter moved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from holdfast.changes import PlausibleChanges, p_norm
from holdfast.features import FeatureSpace
from holdfast.features.feature import Feature
from holdfast.network import Floats, Network
from holdfast.promises.audit_fold import SAFE, TINY, UNIT, Fold, narrower
from holdfast.promises.ledger_terms import Terms, logit


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
        return p_norm(parts, norm) * (1.0 + SAFE * (parts.size + 4) * UNIT)

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
    folded: Fold | str | None,
) -> Comparison:
    """Compare a new model with that of some promises.

    Parameters
    ----------
    network, threshold, space
        The new model, its threshold, and how it reads raw values; None if that is not known.
    folded
        The new model over the variables of the promises, or why there is no such thing; None if it reads the same.
    """
    if space is None:
        return Comparison("", "the new model's preprocessing is not one that a feature space can describe")
    old = terms.network
    if not np.array_equal(old.classes, network.classes):
        return Comparison("", f"other classes: {network.classes.tolist()} for {old.classes.tolist()}")
    if old.hidden != network.hidden or old.n_outputs != network.n_outputs or old.activations != network.activations:
        return Comparison("", f"another build: {network!r} for {old!r}")
    if folded is None and terms.threshold == threshold == 0.5:
        deviations = tuple(
            (np.abs(w2 - w1) * (1.0 + SAFE * UNIT), np.abs(b2 - b1) * (1.0 + SAFE * UNIT))
            for w1, w2, b1, b2 in zip(old.weights, network.weights, old.biases, network.biases, strict=True)
        )
        return Comparison("parameters", deviations=deviations, exact=(old, network))
    if isinstance(folded, str):
        return Comparison("", folded)
    errors = [(np.zeros_like(w), np.zeros_like(b)) for w, b in zip(old.weights, old.biases, strict=True)]
    moved = network
    if folded is not None:
        moved, errors[0] = folded.network, (folded.weight_error, folded.bias_error)
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
    """Whether every row of raw values that `a` reads is the same point in `b`, bit for bit."""

    def reading(feature: Feature) -> tuple[object, ...]:
        return feature.name, feature.variables, feature.categories, feature.one_hot, feature.scaling

    if a.n_variables != b.n_variables or {*map(reading, a.features)} != {*map(reading, b.features)}:
        return False
    return not any(narrower(a[feature.name], feature) for feature in b.features)


def _beyond(old: Floats, new: Floats, error: Floats) -> Floats:
    """|new - old| + error, rounded up; exactly 0 where nothing moved."""
    distance = np.abs(new - old)
    return np.asarray(np.where((distance == 0.0) & (error == 0.0), 0.0, (distance + error) * (1.0 + SAFE * UNIT)))


def _shifted(network: Network, threshold: float) -> tuple[Network, Floats]:
    """The new threshold in the last bias, and how far that bias may be off from the real number."""
    if threshold == 0.5:
        return network, np.zeros_like(network.biases[-1])
    bias = network.biases[-1] - logit(threshold)
    # A logarithm is good to an ulp or two of the larger of its two parts.
    size = abs(math.log(threshold)) + abs(math.log1p(-threshold))
    error = 2.0 * SAFE * UNIT * (size + np.abs(bias)) + TINY
    return network.with_parameters(network.weights, [*network.biases[:-1], bias]), np.asarray(error)
