"""The worlds of `tiny_worlds` in odd units, with layers that have no activation, and with Δ in other norms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

import holdfast as hf
from tiny_worlds import World, random_world


def odd_world(
    seed: int, *, units: bool = False, identity: bool = False, norm: float = np.inf
) -> World:
    """A tiny world; with `units` each column is in units of 1e-8 to 1e8, and the model reads it as it is."""
    world, rng = random_world(seed), np.random.default_rng(seed)
    network, space, person = world.network, world.space, world.person
    if identity:
        kinds = [str(rng.choice(["relu", "identity"])) for _ in network.hidden]
        network = hf.Network(network.weights, network.biases, network.classes, kinds)
    if units:
        space, person, scales = _in_units(space, person, rng)
        # What the model makes of a person stays the same, up to rounding.
        network = network.with_parameters(
            [network.weights[0] / scales, *network.weights[1:]], network.biases
        )
        radii = (world.changes.size / scales.max(), *(world.changes.size,) * len(network.hidden))
        world = replace(world, changes=hf.PlausibleChanges(radii, biases=world.changes.biases))
    changes = world.changes
    if norm != np.inf:
        changes = replace(changes, norm=norm, delta=3.0 * changes.size)
    own = int(network.predict_index(space.encode(person))[0])
    world = replace(world, network=network, space=space, person=person, changes=changes)
    if own == world.target:
        world = replace(world, target=(own + 1) % len(network.classes))
    return world


def _in_units(
    space: hf.FeatureSpace, person: pd.DataFrame, rng: np.random.Generator
) -> tuple[hf.FeatureSpace, pd.DataFrame, np.ndarray]:
    """The same columns in other units, without rules, as the model's own variables; and each variable's unit."""
    numbers = [feature for feature in space.features if not feature.labelled]
    units = {feature.name: float(10.0 ** rng.integers(-8, 9)) for feature in numbers}
    person = person.assign(**{name: person[name] * unit for name, unit in units.items()})
    table = pd.DataFrame(
        {f.name: [f.lower * units[f.name], f.upper * units[f.name]] for f in numbers}
    )
    labels = [feature for feature in space.features if feature.labelled]
    for feature in labels:
        table = pd.concat(
            [table.assign(**{feature.name: label}) for label in feature.categories],
            ignore_index=True,
        )
    directions = {
        way: [f.name for f in space.features if f.direction.value == way]
        for way in ("immutable", "increasing", "decreasing")
    }
    raw = hf.FeatureSpace.from_frame(
        table, categorical=[f.name for f in labels], scale="none",
        ranges={f.name: (f.lower * units[f.name], f.upper * units[f.name]) for f in numbers},
        steps={f.name: f.step * units[f.name] for f in numbers}, **directions,
    )  # fmt: skip
    scales = np.ones(raw.n_variables)
    for feature in numbers:
        scales[list(raw[feature.name].variables)] = units[feature.name]
    return raw, person, scales
