"""Counter-models: for each piece of advice the model that comes closest to breaking it, and what it does to do so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.changes import PlausibleChanges, parameter_distance
from holdfast.classifier import Classifier
from holdfast.errors import HoldfastError
from holdfast.features import FeatureSpace
from holdfast.generators import Recourse
from holdfast.generators.radii import RADIUS_TOLERANCE, Radii
from holdfast.network import Floats, Network
from holdfast.presentation.report.contents import CounterModel, ParameterChange
from holdfast.verify import Verdict
from holdfast.verify.certify import certify_points
from holdfast.verify.deciders import decider_for
from holdfast.verify.margins import least_margins

# How many of its changes a counter-model shows: on a page for very many people, fewer of each.
SHOWN_CHANGES, SHOWN_FOR_MANY, MANY = 4, 2, 2000
# A counter-model exists at `upper`; just beyond it there is room for one that survives being rounded and replayed.
_BEYOND = (1e-9, 1e-6, 1e-3)


@dataclass(frozen=True)
class CostlyChange:
    """One parameter, today and in the counter-model, and what its change alone does to one person's margin.

    `source` is what the parameter weighs; a column may be called "bias" as well, so `bias` says which of them is one.
    """

    layer: int
    source: str
    neuron: int
    today: float
    changed: float
    effect: float
    bias: bool = False


def closest_counter_models(
    recourse: Recourse,
    radii: Radii,
    *,
    rows: NDArray[np.intp],
    advance: Callable[[int], object] | None = None,
) -> dict[int, CounterModel]:
    """The counter-models of these rows, each replayed through its own forward pass.

    The closest one known: at the certified radius, or inside Δ where the certificate has one there. A row for which
    neither is known is left out.
    """
    place = np.cumsum(recourse.found) - 1
    shown = SHOWN_CHANGES if rows.size <= MANY else SHOWN_FOR_MANY
    seen: dict[tuple[int, bytes], CounterModel | None] = {}
    result: dict[int, CounterModel] = {}
    for row in rows.tolist():
        same = (int(recourse.targets[row]), recourse.points[row].tobytes())
        if same not in seen:
            witness = _witness(recourse, radii, row, int(place[row]))
            seen[same] = None if witness is None else _counter_model(recourse, radii, row, *witness, shown)
        counter = seen[same]
        if counter is not None:
            result[row] = counter
        if advance is not None:
            advance(1)
    return result


def _witness(recourse: Recourse, radii: Radii, row: int, place: int) -> tuple[Classifier, float] | None:
    """The model itself, just beyond the radius, and inside Δ for whoever Δ breaks; and how far away it is."""
    changes = recourse.changes
    near = _just_beyond(recourse, radii, row)
    if changes is None or recourse.certificates is None:
        return near
    verdict = recourse.certificates.verdict[place]
    inside = near is not None and _inside(recourse, *near)
    if verdict is Verdict.ROBUST and inside:
        raise HoldfastError(
            f"row {row}: a counter-model lies within a Δ that is proven safe; please report this as a bug"
        )
    if verdict is Verdict.NOT_ROBUST and not inside:
        broken = recourse.certificates.witness(place)
        return broken, _distance(recourse, radii, broken, changes.size)
    return near


def _just_beyond(recourse: Recourse, radii: Radii, row: int) -> tuple[Classifier, float] | None:
    upper = float(radii.upper[row])
    if not np.isfinite(upper):
        return None
    for beyond in _BEYOND:
        size = max(upper * (1.0 + beyond), 1e-12)
        decider = decider_for(recourse.model, radii.along.resized(size))
        witness = certify_points(decider, recourse.points[row : row + 1], recourse.targets[row : row + 1]).witness(0)
        if witness is not None:
            return witness, _distance(recourse, radii, witness, size)
    return None


def _distance(recourse: Recourse, radii: Radii, witness: Classifier, size: float) -> float:
    """How far away a model is that was found in a Δ of this size: between parameters measured, else that size."""
    if not isinstance(radii.along, PlausibleChanges) or not isinstance(witness, Network):
        return size
    return parameter_distance(recourse.network, witness, radii.along.norm)


def _inside(recourse: Recourse, witness: Classifier, distance: float) -> bool:
    changes = recourse.changes
    if isinstance(changes, PlausibleChanges) and isinstance(witness, Network):
        return changes.contains(recourse.network, witness)
    return changes is not None and distance <= changes.size


def _counter_model(
    recourse: Recourse, radii: Radii, row: int, witness: Classifier, distance: float, shown: int
) -> CounterModel:
    target, point = int(recourse.targets[row]), recourse.points[row]
    if witness.predict_index(point[None])[0] == target:
        raise HoldfastError(f"row {row}: the counter-model did not replay; please report this as a bug")
    changes: list[ParameterChange] = []
    # Where the margin falls, whatever the parameters do, they have nothing to tell.
    if isinstance(witness, Network) and radii.along.unit != "margin":
        network, names = recourse.network, _called(recourse.space)
        direction = margin_direction(witness, point, target)
        changes = [
            ParameterChange(_where(network, change), change.today, change.changed, change.effect)
            for change in costliest_changes(network, witness, point, names, shown, direction=direction)
        ]
    return CounterModel(
        distance=distance,
        inside=_inside(recourse, witness, distance),
        margin_today=float(least_margins(recourse.classifier, target, point[None])[0]),
        margin_counter=float(least_margins(witness, target, point[None])[0]),
        changes=tuple(changes),
        # No model closer than the radius breaks the promise; nan where none is known.
        closest=bool(distance <= (1.0 + 2.0 * _BEYOND[-1]) * radii.measured[row] + 2.0 * RADIUS_TOLERANCE),
    )


def _called(space: FeatureSpace) -> list[str]:
    """What people call the model's variables; a protected attribute is not named."""
    names = list(space.variables)
    for feature in space.features:
        label = space.label(feature.name)
        for variable in feature.variables:
            if feature.name in space.protected:
                names[variable] = "a protected attribute"
            else:
                names[variable] = names[variable].replace(str(feature.name), label, 1)
        for value, cell in zip(feature.categories, feature.cells, strict=False):
            if cell >= 0 and feature.name not in space.protected:
                names[feature.variables[cell]] = f"{label}={space.notes.word(feature.name, value)}"
    return names


def margin_direction(network: Network, point: Floats, target: int) -> Floats:
    """How the margin of `target` over its strongest rival at this point is made of the logits."""
    if network.n_outputs == 1:
        return np.array([1.0 if target == 1 else -1.0])
    rivals = network.logits(point[None])[0]
    rivals[target] = -np.inf
    direction = np.zeros(network.n_outputs)
    direction[target], direction[int(rivals.argmax())] = 1.0, -1.0
    return direction


def costliest_changes(
    network: Network,
    witness: Network,
    point: Floats,
    names: Sequence[str],
    n: int,
    *,
    direction: Floats | None = None,
) -> list[CostlyChange]:
    """The `n` parameter changes that lower this point's margin most, each measured alone and to first order.

    Parameters
    ----------
    names
        The model's variables.
    direction
        The margin as a linear function of the logits; by default the logit of a binary model.
    """
    values, active = [point], []
    for weight, bias, activation in zip(network.weights, network.biases, (*network.activations, ""), strict=True):
        reached = weight @ values[-1] + bias
        active.append(reached > 0.0 if activation == "relu" else np.ones(reached.shape, dtype=np.bool_))
        values.append(np.where(active[-1], reached, 0.0))
    costly: list[CostlyChange] = []
    # Of the margin, with respect to the preactivations of each layer.
    gradient = np.ones(1) if direction is None else direction
    for layer in reversed(range(len(network.weights))):
        weight = network.weights[layer]
        today = np.column_stack([weight, network.biases[layer]])
        changed = np.column_stack([witness.weights[layer], witness.biases[layer]])
        effect = np.outer(gradient, np.append(values[layer], 1.0)) * (changed - today)
        sources = [*(names if layer == 0 else [f"neuron {i + 1}" for i in range(weight.shape[1])]), "bias"]
        for neuron, column in _smallest(effect, n).tolist():
            cell, is_bias = (neuron, column), column == weight.shape[1]
            numbers = (float(today[cell]), float(changed[cell]), float(effect[cell]))
            costly.append(CostlyChange(layer, sources[column], neuron, *numbers, is_bias))
        gradient = (gradient @ weight) * (active[layer - 1] if layer else 1.0)
    return sorted((one for one in costly if one.effect < 0.0), key=lambda one: (one.effect, one.layer))[:n]


def _smallest(effect: Floats, n: int) -> NDArray[np.intp]:
    order = np.argsort(effect, axis=None, kind="stable")[:n]
    return np.column_stack(np.unravel_index(order, effect.shape))


def _where(network: Network, change: CostlyChange) -> str:
    last = change.layer == len(network.weights) - 1
    if last:
        of = "the score" if network.n_outputs == 1 else f"the score of class {network.classes[change.neuron]}"
    else:
        of = f"neuron {change.neuron + 1} of layer {change.layer + 1}"
    if change.bias:
        return f"bias of {of}"
    source = change.source if change.layer == 0 else f"{change.source} of layer {change.layer}"
    return f"weight of {source} in {of}"
