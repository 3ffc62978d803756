"""How far a new model lies from the model of a promise, in the variables of the promise.

A changed scaler or encoder goes into the first layer (`audit_fold`), a moved decision threshold t into the last bias,

    b'_L = b_L - log(t / (1 - t)),

and it is this network that must lie in Δ. Everything here is an upper bound on how far each parameter moved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast._classifier import Classifier
from holdfast._network import Floats, Network, Pair
from holdfast._trees import TreeEnsemble
from holdfast.changes import Changes, Ellipsoid, PlausibleChanges, TreeChanges
from holdfast.changes._parameters import p_norm_above
from holdfast.features import Feature, FeatureSpace
from holdfast.importers._model import as_network
from holdfast.importers._thresholds import Threshold, offsets
from holdfast.promises._audit_fold import SAFE, TINY, UNIT, Fold, narrower
from holdfast.promises._terms import Terms


@dataclass(frozen=True, eq=False)
class ModelComparison:
    """What separates a new model from the model of some promises.

    Attributes
    ----------
    how
        "parameters" where both read the same variables at the same threshold, "folded" where a changed scaling,
        encoder or threshold went into the parameters, "" where the two cannot be compared.
    why_not
        Why they cannot be compared.
    deviations
        For each layer upper bounds on how far each weight and each bias moved, [down, up].
    models
        The network, or the trees, of the promises, and what the new one is over their variables. Where nothing had to
        be folded it is the new one itself, and whether it lies in Δ is decided in exact arithmetic.
    """

    how: str
    why_not: str = ""
    deviations: tuple[Pair, ...] = ()
    models: tuple[Any, Any] | None = None

    def distance(self, norm: float, biases: bool) -> float:
        """An upper bound on the distance; infinite where the models cannot be compared, or a fixed bias moved."""
        if not self.deviations:
            return math.inf
        if not biases and any(bias.any() for _, bias in self.deviations):
            return math.inf
        parts = [part.max(axis=0).ravel() for layer in self.deviations for part in layer]
        return float(p_norm_above(np.concatenate(parts), norm))

    def measured(self, terms: Terms) -> float:
        """An upper bound on the distance, in the unit of the radius that promises under these terms record."""
        if isinstance(terms.changes, Ellipsoid):
            exact = self.models if self.how == "parameters" else None
            return math.inf if exact is None else terms.changes.distance(*exact)
        along = PlausibleChanges(1.0) if terms.changes is None else terms.changes
        if not isinstance(along, PlausibleChanges):
            return math.inf
        return self.distance(along.norm, bool(along.biases))

    def within(self, changes: Changes) -> bool:
        """Whether the new model certainly lies in Δ."""
        if self.models is None:
            return False
        if self.how == "parameters":
            return changes.contains(*self.models)
        if not isinstance(changes, PlausibleChanges):
            return False
        radii = changes.layer_radii(self.models[0])
        if changes.norm == math.inf:
            pairs = zip(self.deviations, radii, strict=True)
            return all(
                bool(np.all(moved <= reach))
                for pair in pairs
                for moved, reach in zip(*pair, strict=True)
            )
        layers = (
            [replace(self, deviations=(layer,)) for layer in self.deviations]
            if changes.per_layer
            else [self]
        )
        return all(
            layer.distance(changes.norm, bool(changes.biases)) <= radius.weight
            for layer, radius in zip(layers, radii, strict=False)
        )


def compare(
    terms: Terms,
    network: Classifier,
    threshold: Threshold,
    space: FeatureSpace | None,
    folded: Fold | str | None,
) -> ModelComparison:
    """Compare a new model with that of some promises.

    Parameters
    ----------
    network, threshold, space
        The new model, its threshold, and how it reads raw values; None if that is not known.
    folded
        The new model over the variables of the promises, or why there is no such thing; None if it reads the same.
    """
    moving = None if terms.changes is None else terms.changes.threshold
    if moving is not None and not (
        isinstance(terms.threshold, float) and moving[0] <= terms.threshold <= moving[1]
    ):
        return ModelComparison(
            "",
            f"the promise is proven for thresholds from {moving[0]:g} to {moving[1]:g} and was made at another: "
            f"{terms.threshold}",
        )
    if isinstance(terms.changes, TreeChanges):
        return _compare_trees(terms, network, threshold)
    if not isinstance(terms.changes, PlausibleChanges | Ellipsoid | None):
        return ModelComparison(
            "", f"whether a model lies within {terms.changes.words} is seen at the promised row"
        )
    old = terms.classifier
    if not isinstance(old, Network) or not isinstance(network, Network):
        return ModelComparison(
            "", "a model that is known by its scores alone has no parameters to compare"
        )
    if space is None:
        return ModelComparison(
            "", "the new model's preprocessing is not one that a feature space can describe"
        )
    if not np.array_equal(old.classes, network.classes):
        return ModelComparison(
            "", f"other classes: {network.classes.tolist()} for {old.classes.tolist()}"
        )
    if (
        old.hidden != network.hidden
        or old.n_outputs != network.n_outputs
        or old.activations != network.activations
    ):
        return ModelComparison("", f"another build: {network!r} for {old!r}")
    if isinstance(folded, str):
        return ModelComparison("", folded)
    errors: list[tuple[Floats | float, Floats | float]] = [(0.0, 0.0)] * len(old.weights)
    how = "parameters"
    today = old
    moved = network
    if folded is not None or not terms.threshold == threshold == 0.5:
        how = "folded"
        today = as_network(terms.decision)
        if folded is not None:
            moved = folded.network
            errors[0] = (folded.weight_error, folded.bias_error)
        moved, error = _shifted(moved, threshold)
        errors[-1] = (errors[-1][0], errors[-1][1] + error)
    deviations = []
    for i, (weight_error, bias_error) in enumerate(errors):
        weight = _moved(today.weights[i], moved.weights[i], weight_error)
        deviations.append((weight, _moved(today.biases[i], moved.biases[i], bias_error)))
    return ModelComparison(how, deviations=tuple(deviations), models=(today, moved))


def _compare_trees(terms: Terms, new: Classifier, threshold: Threshold) -> ModelComparison:
    """Trees that read rows as those of the promises do, or why they do not; `TreeChanges.contains` does the rest."""
    old, why = terms.classifier, ""
    if not isinstance(old, TreeEnsemble):
        why = "the trees of the promises have a step before them that no hash says all of, or are not known in full"
    elif not isinstance(new, TreeEnsemble):
        why = f"another kind of model: {new!r} for {old!r}"
    elif new.labels != old.labels:
        why = f"other classes: {list(new.labels)} for {list(old.labels)}"
    elif threshold != terms.threshold:
        why = f"another threshold: {threshold} for {terms.threshold}"
    elif not old.reads_like(new):
        why = "the new trees read a table in another way: other columns or categories, or a step before them"
    elif not old.forest.same_structure(new.forest):
        why = f"another structure: {new!r} for {old!r}"
    if why:
        return ModelComparison("", why)
    return ModelComparison("parameters", models=(old, new))


def same_encoding(a: FeatureSpace, b: FeatureSpace) -> bool:
    """Whether every row of raw values that `a` reads is the same point in `b`, bit for bit."""

    def reading(feature: Feature) -> tuple[object, ...]:
        # A value that these promises cannot lack may be read in any way where it is missing.
        gap = feature.missing if a[feature.name].missing else ()
        return (
            feature.name, feature.variables, feature.categories, feature.one_hot, feature.scaling, feature.cells,
            feature.values, feature.edges, feature.flags, gap,
        )  # fmt: skip

    if a is b:
        return True
    if a.n_variables != b.n_variables or {*a.names} != {*b.names}:
        return False
    if {*map(reading, a.features)} != {*map(reading, b.features)}:
        return False
    return not any(narrower(a[feature.name], feature) for feature in b.features)


def _moved(old: Floats, new: Floats, error: Floats | float) -> Floats:
    """At least how far down and how far up `new` lies, itself known up to `error`; exactly 0 where nothing moved."""
    up = new - old
    room = error + SAFE * UNIT * (np.abs(up) + error)
    return np.maximum(np.stack([room - up, room + up]), 0.0)


def _shifted(network: Network, threshold: Threshold) -> tuple[Network, Floats]:
    """The new threshold in the last bias, and how far that bias may be off from the real number."""
    if threshold == 0.5:
        return network, np.zeros_like(network.biases[-1])
    off = np.array(offsets(threshold))
    bias = network.biases[-1] - off
    # A logarithm is good to an ulp or two of the larger of its two parts.
    parts = (*threshold, 0.5) if isinstance(threshold, tuple) else (threshold, 1.0 - threshold)
    size = sum(abs(math.log(part)) for part in parts)
    error = 2.0 * SAFE * UNIT * (size + np.abs(bias)) + TINY
    return network.with_parameters(network.weights, [*network.biases[:-1], bias]), np.asarray(error)
