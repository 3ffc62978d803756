"""Counter-models: for each piece of advice the model that comes closest to breaking it, and what it does to do so."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from holdfast._classifier import Classifier
from holdfast._network import Floats, Ints, Network
from holdfast._progress import Advance
from holdfast.changes import PlausibleChanges, parameter_distance
from holdfast.errors import HoldfastError
from holdfast.features import FeatureSpace
from holdfast.generators import Recourse
from holdfast.generators._radii import RADIUS_TOLERANCE, Radii
from holdfast.presentation.report._contents import CounterModel, ParameterChange
from holdfast.verify import Verdict
from holdfast.verify._certify import certify_points
from holdfast.verify._deciders import decider_for
from holdfast.verify._margins import least_margins

# How many of its changes a counter-model shows: on a page for very many people, fewer of each.
SHOWN_CHANGES = 4
SHOWN_FOR_MANY = 2
MANY = 2000
# A counter-model exists at `upper`; just beyond it there is room for one that survives being rounded and replayed.
_BEYOND = (1e-9, 1e-6, 1e-3)


class CostlyChange(NamedTuple):
    """One parameter, today and in the counter-model, and what its change alone does to one person's margin.

    `source` is the place of what the parameter weighs among the inputs of its layer; a bias comes after all of them.
    """

    layer: int
    neuron: int
    source: int
    today: float
    changed: float
    effect: float


def closest_counter_models(
    recourse: Recourse, radii: Radii, *, rows: Ints, advance: Advance
) -> dict[int, CounterModel]:
    """The counter-models of these rows, each replayed through its own forward pass.

    The closest one known: at the certified radius, or inside Δ where the certificate has one there. A row for which
    neither is known is left out.
    """
    place = np.cumsum(recourse.found) - 1
    names = _called(recourse.space)
    shown = SHOWN_CHANGES if rows.size <= MANY else SHOWN_FOR_MANY
    seen: dict[tuple[int, bytes], CounterModel | None] = {}
    result: dict[int, CounterModel] = {}
    for row in rows.tolist():
        same = (int(recourse.targets[row]), recourse.points[row].tobytes())
        if same not in seen:
            seen[same] = _counter_model(recourse, radii, row, int(place[row]), names, shown)
        if (counter := seen[same]) is not None:
            result[row] = counter
        advance(1)
    return result


def _witness(
    recourse: Recourse, radii: Radii, row: int, place: int
) -> tuple[Classifier, float, bool] | None:
    """The model just beyond the radius, or one inside Δ that breaks the promise; its distance, and if it is inside."""
    changes = recourse.changes
    upper = float(radii.upper[row])
    near = None
    for beyond in _BEYOND if np.isfinite(upper) else ():
        size = max(upper * (1.0 + beyond), 1e-12)
        decider = decider_for(recourse.model, radii.along.resized(size))
        witness = certify_points(
            decider, recourse.points[row : row + 1], recourse.targets[row : row + 1]
        ).witness(0)
        if witness is not None:
            near = (witness, *_measured(recourse, radii, witness, size))
            break
    if changes is None or recourse.certificates is None:
        return near
    verdict = recourse.certificates.verdict[place]
    inside = near is not None and near[2]
    if verdict is Verdict.ROBUST and inside:
        raise HoldfastError(
            f"row {row}: a counter-model lies within a Δ that is proven safe; please report this as a bug"
        )
    if verdict is Verdict.NOT_ROBUST and not inside:
        broken = recourse.certificates.witness(place)
        return broken, *_measured(recourse, radii, broken, changes.size)
    return near


def _measured(
    recourse: Recourse, radii: Radii, witness: Classifier, size: float
) -> tuple[float, bool]:
    """How far away a model is that was met in a Δ of this size, and whether the advice's own Δ has it.

    Between parameters the distance is measured; elsewhere it is that size.
    """
    changes = recourse.changes
    distance = size
    if isinstance(radii.along, PlausibleChanges) and isinstance(witness, Network):
        distance = parameter_distance(recourse.network, witness, radii.along.norm)
    if isinstance(changes, PlausibleChanges) and isinstance(witness, Network):
        return distance, changes.contains(recourse.network, witness)
    return distance, changes is not None and distance <= changes.size


def _counter_model(
    recourse: Recourse, radii: Radii, row: int, place: int, names: Sequence[str], shown: int
) -> CounterModel | None:
    near = _witness(recourse, radii, row, place)
    if near is None:
        return None
    witness, distance, inside = near
    target = int(recourse.targets[row])
    point = recourse.points[row]
    if witness.predict_index(point[None])[0] == target:
        raise HoldfastError(
            f"row {row}: the counter-model did not replay; please report this as a bug"
        )
    changes: list[ParameterChange] = []
    # Where the margin falls, whatever the parameters do, they have nothing to tell.
    if isinstance(witness, Network) and radii.along.unit != "margin":
        for change in costliest_changes(recourse.network, witness, point, target, shown):
            where = parameter_name(recourse.network, names, change)
            changes.append(ParameterChange(where, change.today, change.changed, change.effect))
    return CounterModel(
        distance=distance,
        inside=inside,
        margin_today=float(least_margins(recourse.classifier, target, point[None])[0]),
        margin_counter=float(least_margins(witness, target, point[None])[0]),
        changes=tuple(changes),
        # No model closer than the radius breaks the promise; nan where none is known.
        closest=bool(
            distance <= (1.0 + 2.0 * _BEYOND[-1]) * radii.measured[row] + 2.0 * RADIUS_TOLERANCE
        ),
    )


def _called(space: FeatureSpace) -> list[str]:
    """What people call the model's variables; a protected attribute is not named."""
    names, notes = list(space.variables), space.notes
    for feature in space.features:
        label = notes.label(feature.name)
        protected = feature.name in notes.protected
        for variable in feature.variables:
            own = names[variable].replace(str(feature.name), label, 1)
            names[variable] = "a protected attribute" if protected else own
        for value, cell in zip(feature.categories, feature.cells, strict=False):
            if cell >= 0 and not protected:
                names[feature.variables[cell]] = f"{label}={notes.word(feature.name, value)}"
    return names


def costliest_changes(
    network: Network, witness: Network, point: Floats, target: int, n: int
) -> list[CostlyChange]:
    """The `n` parameter changes that lower this point's margin most, each measured alone and to first order.

    The margin is that of `target` over its strongest rival in the counter-model.
    """
    rivals = witness.logits(point[None])[0]
    # Of the margin, with respect to the preactivations of each layer.
    gradient = np.zeros(network.n_outputs)
    if network.n_outputs == 1:
        gradient[0] = 1.0 if target == 1 else -1.0
    else:
        rivals[target] = -np.inf
        gradient[target] = 1.0
        gradient[int(rivals.argmax())] = -1.0
    values, active = [point], []
    for weight, bias, activation in zip(
        network.weights, network.biases, (*network.activations, ""), strict=True
    ):
        reached = weight @ values[-1] + bias
        active.append((reached > 0.0) | (activation != "relu"))
        values.append(np.where(active[-1], reached, 0.0))
    costly: list[CostlyChange] = []
    for layer in reversed(range(len(network.weights))):
        weight = network.weights[layer]
        today = np.column_stack([weight, network.biases[layer]])
        changed = np.column_stack([witness.weights[layer], witness.biases[layer]])
        effect = np.outer(gradient, np.append(values[layer], 1.0)) * (changed - today)
        for place in np.argsort(effect, axis=None, kind="stable")[:n].tolist():
            if effect.flat[place] < 0.0:
                neuron, source = divmod(place, effect.shape[1])
                numbers = np.stack([today, changed, effect])[:, neuron, source].tolist()
                costly.append(CostlyChange(layer, neuron, source, *numbers))
        gradient = (gradient @ weight) * (active[layer - 1] if layer else 1.0)
    return sorted(costly, key=attrgetter("effect", "layer"))[:n]


def parameter_name(network: Network, names: Sequence[str], change: CostlyChange) -> str:
    """Which parameter a change is of, in words; `names` are what people call the model's variables."""
    if change.layer == len(network.weights) - 1:
        of = (
            "the score"
            if network.n_outputs == 1
            else f"the score of class {network.classes[change.neuron]}"
        )
    else:
        of = f"neuron {change.neuron + 1} of layer {change.layer + 1}"
    if change.source == network.weights[change.layer].shape[1]:
        return f"bias of {of}"
    source = (
        f"neuron {change.source + 1} of layer {change.layer}"
        if change.layer
        else names[change.source]
    )
    return f"weight of {source} in {of}"
