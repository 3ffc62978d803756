"""The distance of a new model from the model of a promise, in the variables of the promise.

A changed scaler or encoder goes into the first layer (`audit_fold`), a moved decision threshold t into the last bias,

    b'_L = b_L - log(t / (1 - t)),

and this network must be in Δ. All distances here are upper bounds on the change of each parameter.
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
    """The differences between a new model and the model of some promises.

    Attributes
    ----------
    how
        The value "parameters" if both read the same variables at the same threshold, "folded" if a changed scaling,
        encoder or threshold is included in the parameters, "" if the models cannot be compared.
    why_not
        The reason why the models cannot be compared.
    deviations
        For each layer upper bounds on the change of each weight and each bias, [down, up].
    models
        The network or the trees of the promises, and the new model over their variables. If nothing had to be folded,
        this is the new model itself, and exact arithmetic decides if it is in Δ.
    """

    how: str
    why_not: str = ""
    deviations: tuple[Pair, ...] = ()
    models: tuple[Any, Any] | None = None

    def distance(self, norm: float, biases: bool) -> float:
        """Upper bound of the distance; infinite if the models cannot be compared, or a fixed bias moved."""
        if not self.deviations:
            return math.inf
        if not biases and any(bias.any() for _, bias in self.deviations):
            return math.inf
        parts = [part.max(axis=0).ravel() for layer in self.deviations for part in layer]
        return float(p_norm_above(np.concatenate(parts), norm))

    def measured(self, terms: Terms) -> float:
        """Upper bound of the distance, in the unit of the radius that promises under these terms record."""
        if isinstance(terms.changes, Ellipsoid):
            exact = self.models if self.how == "parameters" else None
            return math.inf if exact is None else terms.changes.distance(*exact)
        along = PlausibleChanges(1.0) if terms.changes is None else terms.changes
        if not isinstance(along, PlausibleChanges):
            return math.inf
        return self.distance(along.norm, bool(along.biases))

    def within(self, changes: Changes) -> bool:
        """True if the new model is proven to be in Δ."""
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
        The new model, its threshold, and its feature space; None if the space is not known.
    folded
        The new model over the variables of the promises, or the reason why this is impossible; None if it reads the
        same.
    """
    moving = None if terms.changes is None else terms.changes.threshold
    if moving is not None and not (
        isinstance(terms.threshold, float) and moving[0] <= terms.threshold <= moving[1]
    ):
        return ModelComparison(
            "",
            f"the promise is proven for thresholds from {moving[0]:g} to {moving[1]:g} but was made at "
            f"{terms.threshold}",
        )
    if isinstance(terms.changes, TreeChanges):
        return _compare_trees(terms, network, threshold)
    if not isinstance(terms.changes, PlausibleChanges | Ellipsoid | None):
        return ModelComparison(
            "",
            f"to check that a model is within {terms.changes.words}, it must be run on the promised row",
        )
    old = terms.classifier
    if not isinstance(old, Network) or not isinstance(network, Network):
        return ModelComparison(
            "", "a model that is known by its scores alone has no parameters to compare"
        )
    if space is None:
        return ModelComparison("", "no feature space can describe the new model's preprocessing")
    if not np.array_equal(old.classes, network.classes):
        return ModelComparison(
            "",
            f"different classes: {network.classes.tolist()}, the promises have {old.classes.tolist()}",
        )
    if (
        old.hidden != network.hidden
        or old.n_outputs != network.n_outputs
        or old.activations != network.activations
    ):
        return ModelComparison("", f"different layers: {_against(network, old)}")
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
    """Compare trees that read rows alike; otherwise give the reason. `TreeChanges.contains` checks the rest."""
    old, why = terms.classifier, ""
    if not isinstance(old, TreeEnsemble):
        why = "the trees of the promises have an earlier step without a complete hash, or are not known in full"
    elif not isinstance(new, TreeEnsemble):
        why = f"a different kind of model: {new!r}, the promises have {old!r}"
    elif new.labels != old.labels:
        why = f"different classes: {list(new.labels)}, the promises have {list(old.labels)}"
    elif threshold != terms.threshold:
        why = f"a different threshold: {threshold}, the promises have {terms.threshold}"
    elif not old.reads_like(new):
        why = "the new trees read a table in another way: other columns or categories, or a step before them"
    elif not old.forest.same_structure(new.forest):
        why = f"a different structure: {_against(new, old)}"
    if why:
        return ModelComparison("", why)
    return ModelComparison("parameters", models=(old, new))


def _against(new: Classifier, old: Classifier) -> str:
    """Both models in short, or if these texts are the same, what they do not show."""
    if repr(new) != repr(old):
        return f"{new!r}, the promises have {old!r}"
    if isinstance(new, Network):
        return f"both have the sizes of {new!r}, with other activations"
    return f"both are {new!r}, but the trees split in other columns or places"


def same_encoding(a: FeatureSpace, b: FeatureSpace) -> bool:
    """True if every row of raw values that `a` reads is the same point in `b`, bit for bit."""

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
    """Bounds on the change down and up to `new`, known up to `error`; exactly 0 where nothing changed."""
    up = new - old
    room = error + SAFE * UNIT * (np.abs(up) + error)
    return np.maximum(np.stack([room - up, room + up]), 0.0)


def _shifted(network: Network, threshold: Threshold) -> tuple[Network, Floats]:
    """Put the new threshold in the last bias; also returns a bound on that bias's rounding error."""
    if threshold == 0.5:
        return network, np.zeros_like(network.biases[-1])
    off = np.array(offsets(threshold))
    bias = network.biases[-1] - off
    # A logarithm is good to an ulp or two of the larger of its two parts.
    parts = (*threshold, 0.5) if isinstance(threshold, tuple) else (threshold, 1.0 - threshold)
    size = sum(abs(math.log(part)) for part in parts)
    error = 2.0 * SAFE * UNIT * (size + np.abs(bias)) + TINY
    return network.with_parameters(network.weights, [*network.biases[:-1], bias]), np.asarray(error)
