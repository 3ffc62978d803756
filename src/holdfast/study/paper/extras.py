"""What the study's engine does not measure: accuracies, distances, δ of our own, certified radii, robustInit.

Each piece of work is kept in the store as soon as it is done, under a name that says what it depends on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold

from holdfast.calibration import delta_incremental, delta_validation
from holdfast.changes import PlausibleChanges
from holdfast.generators import RNCE, explain
from holdfast.study.paper.settings import (
    ARRIVED_SHARE,
    DELTA_INC,
    DELTA_VAL,
    Extent,
    ModelKind,
    PaperTable,
)
from holdfast.study.paper.training import FineTune, fitted
from holdfast.study.situation import Situation
from holdfast.study.specification import describe, digest
from holdfast.verify import certified_radius

Records = list[dict[str, Any]]
# Streams of a seed, apart from those that the engine draws from.
_MANY, _CALIBRATION = 1001, 1002


def kept(here: Situation, kind: str, settings: dict[str, Any], compute: Callable[[], Records]) -> Records:
    """The records of one piece of work: read if they are there, else computed and kept."""
    specification = {"situation": here.identity, **describe(settings)}
    key = digest(specification)
    found = here.store.read(kind, key)
    if found is None:
        found = {"records": compute(), "specification": specification}
        here.store.write(kind, key, found)
    records: Records = found["records"]
    return records


def accuracies(here: Situation, table: PaperTable, kind: ModelKind, extent: Extent) -> Records:
    """Cross-validation on the first half, as in the paper."""

    def compute() -> Records:
        rows = np.sort(np.concatenate([here.halves.train, here.halves.test]))
        points, labels = here.table.points, here.table.y
        folds = KFold(extent.folds, shuffle=True, random_state=here.seed).split(rows)
        place = {"model": kind, "dataset": table.name, "rows": len(labels), "attributes": len(here.table.X.columns)}
        records = []
        for fold, (train, test) in enumerate(folds):
            model = fitted(clone(here.seeded_estimator), points[rows[train]], labels[rows[train]])
            accuracy = float(np.mean(model.predict(points[rows[test]]) == labels[rows[test]]))
            records.append(place | {"fold": fold, "accuracy": accuracy})
        return records

    return kept(here, "accuracy", {"folds": extent.folds}, compute)


def distances(here: Situation, table: PaperTable, kind: ModelKind, extent: Extent) -> Records:
    """How far training on a share of what arrived moves the model, for each share: the curve of Figure 4."""
    training = table.training[kind]
    batch = training.delta_batch or training.batch

    def compute() -> Records:
        curve = _incremental(here, list(extent.shares), extent.retrained, batch).evidence
        place = {"model": kind, "dataset": table.name, "seed": here.seed}
        return [
            place | {"share": float(share), "distance": float(distance)}
            for share, distance in zip(curve["share"], curve["distance"], strict=True)
        ]

    return kept(here, "distances", {"shares": extent.shares, "n": extent.retrained, "batch": batch}, compute)


def calibrated(here: Situation, table: PaperTable, kind: ModelKind, extent: Extent) -> Records:
    """δ_inc and δ_val as the paper's two ways give them on this model."""
    training = table.training[kind]
    batch = training.delta_batch or training.batch

    def compute() -> Records:
        place = {"model": kind, "dataset": table.name, "seed": here.seed}
        incremental = _incremental(here, ARRIVED_SHARE, extent.retrained, batch)
        records = [place | {"block": DELTA_INC, "delta": float(incremental), "reached": True}]
        rows = here.halves.train if table.anywhere else here.halves.test
        people = rejected(here, rows, extent.calibration_inputs, _CALIBRATION)
        if people.empty:
            return records
        # The first two of the three ways to retrain: trained anew on everything, and without a hundredth of the rows.
        anew = here.models.retrained[: 2 * extent.retrained]
        found = delta_validation(
            here.models.network, people, retrained=anew, generator=RNCE(here.table.X), target=table.target,
            space=here.table.space, deltas=extent.calibration_deltas, seed=here.seed, progress=False,
        )  # fmt: skip
        tried = float(found.evidence["delta"].max())
        delta = float(found) if found.reached else tried
        return [*records, place | {"block": DELTA_VAL, "delta": delta, "reached": bool(found.reached)}]

    settings = {"n": extent.retrained, "batch": batch, "deltas": extent.calibration_deltas}
    return kept(here, "calibrated", settings | {"inputs": extent.calibration_inputs}, compute)


def radii(here: Situation, cells: Iterable[str]) -> Records:
    """The certified radius of every answer of these cells: one record for each input of each cell."""

    def compute(key: str) -> Records:
        content = here.store.read("cells", key)
        if content is None:
            return []
        found = np.array([row for row, point in enumerate(content["points"]) if point is not None], dtype=np.intp)
        values: list[float | None] = [None] * len(content["points"])
        if found.size:
            points = np.array([content["points"][row] for row in found.tolist()], dtype=np.float64)
            radius = certified_radius(here.models.network, points, here.table.target)
            for row, value in zip(found.tolist(), radius.lower.tolist(), strict=True):
                values[row] = value
        return [{"cell": key, "row": row, "radius": value} for row, value in enumerate(values)]

    done = [kept(here, "radii", {"cell": key}, partial(compute, key)) for key in dict.fromkeys(cells)]
    return [record for records in done for record in records]


def robust_init(here: Situation, table: PaperTable, kind: ModelKind, delta: float, extent: Extent) -> Records:
    """Seconds of RNCE-FF and RNCE-TF, for some and for all of the training rows that the model rejects."""

    def compute() -> Records:
        records: Records = []
        for name, n in (("100_inputs", extent.many_inputs), ("all_inputs", None)):
            people = rejected(here, here.halves.train, n, _MANY)
            if people.empty:
                continue
            place = {"model": kind, "dataset": table.name, "table": name, "inputs": len(people)}
            records += [place | {"row": row, "seconds": used} for row, used in _timed(here, people, delta).items()]
        return records

    return kept(here, "robust_init", {"delta": delta, "inputs": extent.many_inputs}, compute)


def rejected(here: Situation, rows: NDArray[np.intp], n: int | None, stream: int) -> pd.DataFrame:
    """People among these rows whom today's model puts in class 0: `n` of them, or all."""
    those = rows[here.models.network.predict(here.table.points[rows]) == 0]
    return here.table.X.iloc[np.random.default_rng([here.seed, stream]).permutation(those)[:n]]


def _timed(here: Situation, people: pd.DataFrame, delta: float) -> dict[str, float]:
    """CPU seconds of each row of the paper's table."""
    network, space, target, changes = here.models.network, here.table.space, here.table.target, PlausibleChanges(delta)

    def ask(generator: RNCE) -> float:
        began = time.process_time()
        explain(network, people, target=target, changes=changes, generator=generator, space=space, progress=False)
        return time.process_time() - began

    unsure = ask(RNCE(here.table.X))
    began = time.process_time()
    certified = RNCE(here.table.X).prepare(network, target=target, changes=changes, space=space)
    tree = time.process_time() - began
    after = ask(RNCE(certified))
    return {"RNCE-FF": unsure, "RNCE-TF including the tree": tree + after, "RNCE-TF after the tree": after}


def _incremental(here: Situation, share: Any, n: int, batch: int) -> Any:
    points, labels, arrived = here.table.points, here.table.y, here.halves.new_train
    return delta_incremental(
        here.fitted, points[arrived], labels[arrived], share=share, n=n, seed=here.seed, retrain=FineTune(batch),
        progress=False,
    )  # fmt: skip
