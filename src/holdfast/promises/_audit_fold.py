"""A new model as a network over the stored variables of the promises, if a scaler or an encoder changed.

A refitted scaler reads the same raw value x as another number: u = s x + o before, v = a u + c now, with exact
fractions a and c. Over the old variables u the new model's first layer is

    W' = W diag(a),    b' = W c + b

up to rounding of W' and b', and of both encodings. Because of the encodings, the v that the model reads differs from a
u + c by some e, and W e is a further change of the first bias. All these errors are bounded from above.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from holdfast._network import Floats, Network
from holdfast.features import Feature, FeatureSpace
from holdfast.features._scaling import Scaling
from holdfast.importers._model import as_network
from holdfast.importers._thresholds import Threshold, at_threshold

UNIT = 2.0**-53
TINY = 1e-290
# Rounding bounds are computed in floats themselves; this pays for it many times over.
SAFE = 4.0


@dataclass(frozen=True, eq=False)
class Fold:
    """A first layer over the old variables, with bounds on its error.

    Attributes
    ----------
    network
        The new model with this first layer.
    weight_error, bias_error
        Upper bounds on the difference of each parameter from the exact first layer; the bound of the bias also covers
        the rounding of both encodings.
    original
        The new model itself.
    reach, new_reach
        The largest |u| and |v| of each variable, old and new, over the promises.
    """

    network: Network
    weight_error: Floats
    bias_error: Floats
    original: Network
    reach: Floats
    new_reach: Floats

    def at(self, threshold: Threshold) -> Fold:
        """The same with the decision threshold in the last bias of both networks, identical to the last bit."""
        return replace(
            self,
            network=as_network(at_threshold(self.network, threshold)),
            original=as_network(at_threshold(self.original, threshold)),
        )

    @property
    def margin_error(self) -> float:
        """Largest difference of a margin of `network`, run on u, from that of `original`, run on v, both in float64.

        Each layer has an upper bound on the difference of the two values and one on the size of each value. A layer
        multiplies the difference of its inputs by |W| and adds the rounding of its own sums, in both networks. The
        result is nan or infinite if numbers get too large; it then says nothing about the margins.
        """
        size = np.zeros(0)
        error = np.zeros(0)
        with np.errstate(over="ignore", invalid="ignore"):
            for i, (weight, bias) in enumerate(
                zip(self.original.weights, self.original.biases, strict=True)
            ):
                gamma = SAFE * (max(weight.shape[1], len(self.reach)) + 4) * UNIT
                if i == 0:
                    folded = self.network.weights[0], self.network.biases[0]
                    size = np.abs(weight) @ self.new_reach + np.abs(bias)
                    size = np.maximum(size, np.abs(folded[0]) @ self.reach + np.abs(folded[1]))
                    error = (self.weight_error @ self.reach + self.bias_error) * (1.0 + gamma)
                else:
                    error = (np.abs(weight) @ error) * (1.0 + gamma)
                    size = np.abs(weight) @ size + np.abs(bias)
                size = size * (1.0 + gamma)
                error = error + 2.0 * gamma * size + TINY
            # A margin between two classes is a difference of two logits, and rounded once more.
            return float(2.0 * error.max() * (1.0 + SAFE * UNIT) + 4.0 * SAFE * UNIT * size.max())


def fold(old: FeatureSpace, new: FeatureSpace, network: Network, reach: Floats) -> Fold | str:
    """The new model over the old variables, or the reason why there is no such network.

    A column that the new model does not read gets weight 0. A category that only the new model has is 0 in every
    promise.

    Parameters
    ----------
    old, new
        The feature spaces of the promises and of the new model.
    reach
        The largest |u| of each variable over the promises.
    """
    n_old = old.n_variables
    n_new = new.n_variables
    weights = network.weights[0]
    offset = np.zeros(n_new)
    folded = np.zeros((weights.shape[0], n_old))
    weight_error = np.zeros((weights.shape[0], n_old))
    noise = np.zeros(n_new)
    new_reach = np.zeros(n_new)
    for feature in new.features:
        if feature.name not in old.names:
            return (
                f"the new model reads the column {feature.name!r}, which the promises do not record"
            )
        before = old[feature.name]
        if narrower(before, feature):
            return f"column {feature.name!r} holds whole numbers only now; the promises may hold others"
        pairs = _paired(before, feature)
        if pairs is None:
            return f"column {feature.name!r} has an encoding other than one scaled number or the same categories"
        for u, v in pairs:
            if feature.one_hot or before.scaling == feature.scaling:
                folded[:, u] = weights[:, v]
                new_reach[v] = reach[u]
                continue
            try:
                slope, offset[v] = map(float, _change(before.scaling, feature.scaling))
            except OverflowError:
                return f"column {feature.name!r} has a scale too large for a float"
            folded[:, u] = weights[:, v] * slope
            weight_error[:, u] = SAFE * UNIT * np.abs(folded[:, u]) + TINY
            noise[v] = _encoding_error(before.scaling, feature.scaling, float(reach[u]))
            new_reach[v] = (slope * reach[u] + abs(offset[v])) * (1.0 + SAFE * UNIT) + noise[v]
    bias = network.biases[0] + weights @ offset
    bias_error = (np.abs(weights) @ noise) * (1.0 + SAFE * n_new * UNIT)
    if noise.any():
        size = np.abs(network.biases[0]) + np.abs(weights) @ np.abs(offset)
        bias_error = bias_error + SAFE * (n_new + 4) * UNIT * size + TINY
    if not (np.isfinite(folded).all() and np.isfinite(bias).all()):
        return "over the old variables the new model has parameters too large for a float"
    moved = network.with_parameters([folded, *network.weights[1:]], [bias, *network.biases[1:]])
    return Fold(moved, weight_error, bias_error, network, reach, new_reach)


def narrower(before: Feature, after: Feature) -> bool:
    """True if a column that could hold any number now holds whole numbers only, so that some rows cannot be read."""
    return after.precision == "integer" and before.precision != "integer"


def _paired(before: Feature, after: Feature) -> list[tuple[int, int]] | None:
    """The (old, new) variables of a column with the same meaning; None if no affine map connects the encodings."""
    if before.one_hot != after.one_hot or not (before.scaling.linear and after.scaling.linear):
        return None
    # What stands for a missing value is on no line with the others.
    if before.missing or after.missing or (before.one_hot and (before.edges or after.edges)):
        return None
    if not before.one_hot:
        alike = (before.categories, before.values, before.edges) == (
            after.categories,
            after.values,
            after.edges,
        )
        return [(before.variables[0], after.variables[0])] if alike else None
    codes = [f.categories or tuple(range(f.n_codes)) for f in (before, after)]
    cells = [
        dict(zip(code, f.cells, strict=True))
        for code, f in zip(codes, (before, after), strict=True)
    ]
    if not set(cells[0]) <= set(cells[1]):
        return None
    # A label without a variable has to have none in both, and labels that share one, the same company.
    pairs = {
        (before.variables[cell], after.variables[cells[1][label]])
        for label, cell in cells[0].items()
        if cell >= 0
    }
    bare = {label for label, cell in cells[0].items() if (cell < 0) != (cells[1][label] < 0)}
    together = len({old for old, _ in pairs}) == len(pairs) == len({new for _, new in pairs})
    return None if bare or not together else sorted(pairs)


def _change(before: Scaling, after: Scaling) -> tuple[Fraction, Fraction]:
    """The exact (a, c) with v = a u + c."""
    (s_old, o_old) = before.line()
    (s_new, o_new) = after.line()
    return s_new / s_old, o_new - s_new / s_old * o_old


def _encoding_error(before: Scaling, after: Scaling, largest: float) -> float:
    """Largest difference of the rounded v from a u + c with the rounded u, for |u| <= largest."""
    # In raw units no number on the way to u exceeds `size`, and none on the way to v exceeds that plus v's own shifts.
    # Where u is so small that floats lose bits, it is off by more than a share of itself.
    size = float(before.magnitude(np.array([largest + TINY]))[0]) * (1.0 + 1e-9)
    onward = size + float(after.magnitude(np.array([0.0]))[0]) * (1.0 + 1e-9)
    slope = float(after.line()[0])
    steps = (len(before.operations) + 1) * size + (len(after.operations) + 1) * onward
    return SAFE * UNIT * steps * slope * (1.0 + 1e-9) + TINY
