"""Worlds small enough to look at every point: a random network over a few grid-valued columns, and one person in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd

import holdfast as hf
from random_networks import random_network

HIDDEN = ((), (3,), (4,), (3, 3), (4, 2))


@dataclass(frozen=True)
class World:
    """A network, a space, a person and the class they want."""

    network: hf.Network
    space: hf.FeatureSpace
    person: pd.DataFrame
    target: int
    changes: hf.PlausibleChanges

    @property
    def points(self) -> np.ndarray:
        """Every point the person can get to, the encoding of every admissible row."""
        choices = []
        for feature in self.space.features:
            if feature.labelled:
                values = list(feature.categories)
            else:
                grid = feature.grid
                values = grid.value(np.arange(grid.first, grid.last + 1, dtype=float)).tolist()
            choices.append({*values, self.person[feature.name].iloc[0]})
        rows = pd.DataFrame(list(product(*choices)), columns=list(self.space.names))
        rows = rows[self.space.satisfied(rows, self.person)]
        return self.space.encode(rows)

    def cheapest(self, good: np.ndarray, max_changed: int | None = None) -> float:
        """The least cost_l1 among the good points, inf if there is none."""
        points, own = self.points[good], self.space.encode(self.person)
        if max_changed is not None:
            points = points[self.space.changed(points, own) <= max_changed]
        return float(self.space.cost_l1(points, own).min(initial=np.inf))


def random_world(seed: int) -> World:
    """A world in which the person's class is another than the one they want."""
    rng = np.random.default_rng(seed)
    space, person = _random_space(rng)
    hidden = HIDDEN[rng.integers(len(HIDDEN))]
    network = random_network(rng, space.n_variables, hidden, 1 if rng.random() < 0.6 else 3)
    changes = hf.PlausibleChanges(
        float(10.0 ** rng.uniform(-3.5, -1.3)), biases=bool(rng.random() < 0.8)
    )
    own = int(network.predict_index(space.encode(person))[0])
    others = [c for c in range(len(network.classes)) if c != own]
    world = World(network, space, person, others[rng.integers(len(others))], changes)
    # Mostly a class that some point has, so that worlds with an answer and worlds without are about as many.
    points = world.points
    reachable = sorted({*network.predict_index(points).tolist()} - {own}) if len(points) else []
    if reachable and rng.random() < 0.9:
        world = replace(world, target=reachable[rng.integers(len(reachable))])
    return world


def _random_space(rng: np.random.Generator) -> tuple[hf.FeatureSpace, pd.DataFrame]:
    """Two or three columns: numbers with steps, scaled or of both signs, perhaps a category; directions and rules."""
    names = ["a", "b", "c"][: rng.integers(2, 4)]
    sizes = {name: int(rng.integers(3, 9)) for name in names}
    step = {name: float(rng.choice([0.25, 0.5, 1.0])) for name in names}
    start = {name: float(step[name] * rng.integers(-4, 2)) for name in names}
    ranges = {name: (start[name], start[name] + step[name] * sizes[name]) for name in names}
    table = pd.DataFrame({name: list(ranges[name]) for name in names})
    # Now and then a person whose own value is on no grid point, or out of the range.
    off = {name: float(rng.choice([0.0, 0.0, 0.1, -3.0])) for name in names}
    row = {
        name: [start[name] + step[name] * float(rng.integers(0, sizes[name] + 1)) + off[name]]
        for name in names
    }
    options: dict[str, list[str]] = {"immutable": [], "increasing": [], "decreasing": []}
    for name in names:
        kind = rng.choice(["free", "free", "free", "immutable", "increasing", "decreasing"])
        if kind != "free":
            options[kind].append(name)
    costs = {name: float(rng.choice([1.0, 1.0, 2.0, 0.5])) for name in names}
    categorical = []
    if rng.random() < 0.4:
        table["job"] = ["x", "y"]
        table = pd.concat([table, table.assign(job="z")], ignore_index=True)
        row["job"] = [str(rng.choice(["x", "y", "z"]))]
        categorical.append("job")
    rules = ["a + b <= 1.5"] if rng.random() < 0.3 else []
    try:
        space = hf.FeatureSpace.from_frame(
            table, categorical=categorical, ranges=ranges, steps=step, costs=costs,
            scale=str(rng.choice(["minmax", "none"])), **options,
        ).constrained(rules=rules)  # fmt: skip
    except hf.HoldfastError:
        # The rule does not go with the ranges.
        return _random_space(rng)
    return space, pd.DataFrame(row)
