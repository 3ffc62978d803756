"""One table, one kind of model, one seed of the paper: for the study's engine, with further measurements.

Each piece of work is stored as soon as it is done, under a name that depends on its inputs.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, cross_val_score, train_test_split
from sklearn.neural_network import MLPClassifier

from holdfast._files import Document
from holdfast._network import Floats, Ints, Values
from holdfast.calibration import IncrementalDelta, delta_incremental, delta_validation
from holdfast.changes import PlausibleChanges
from holdfast.datasets import load
from holdfast.features import FeatureSpace
from holdfast.generators import RNCE, ROAR, explain
from holdfast.retraining._trainers import quietly
from holdfast.study._cells import Cell, plain_numbers
from holdfast.study._run import Plan
from holdfast.study._situation import Protocol, Situation
from holdfast.study._store import NO_STORE, StudyStore
from holdfast.study._tables import StudyTable
from holdfast.study.paper._printed import Printed
from holdfast.study.paper._settings import (
    ARRIVED_SHARE,
    DELTA_INC,
    DELTA_VAL,
    LEARNING_RATE,
    METHODS,
    PENALTY_PER_ROW,
    TARGETS,
    TEST_SHARE,
    ModelKind,
    PaperExtent,
    PaperTable,
    Training,
)
from holdfast.verify import certified_radius

Records = list[Document]
# Streams of a seed, apart from those that the engine draws from.
_MANY, _CALIBRATION = 1001, 1002


def classifier(training: Training, rows: int) -> MLPClassifier:
    """A network trained by a fixed number of passes of Adam; without hidden layers a logistic regression, as theirs.

    `rows` is the number of rows of its smallest training: scikit-learn warns about a larger batch.
    """
    return MLPClassifier(
        training.hidden,
        alpha=PENALTY_PER_ROW * training.batch,
        batch_size=min(training.batch, rows),
        learning_rate_init=LEARNING_RATE,
        max_iter=training.epochs,
        n_iter_no_change=training.epochs,
    )


@dataclass(frozen=True)
class FineTune:
    """One more pass over other rows, with a fresh Adam optimiser.

    scikit-learn's `partial_fit` continues with the running means of the training. The authors' optimiser starts
    without them: its first steps move every parameter by the whole learning rate, which explains the size of δ_inc.
    """

    batch: int

    def __call__(self, model: MLPClassifier, X: Floats, y: Values, seed: int) -> MLPClassifier:
        tuned = copy.deepcopy(model)
        vars(tuned).pop("_optimizer", None)
        tuned.set_params(random_state=seed, batch_size=min(self.batch, len(X)))
        return tuned.partial_fit(X, y)


@cache
def study_table(
    name: str, source: str, target: int, own_space: bool, rows: int | None
) -> StudyTable:
    """A table in the form that the authors' methods search.

    All columns are free, whole numbers may take any value in between, and two categories are one 0/1 variable. The
    authors' methods do not use CARLA's list of immutable columns.
    """
    if own_space:
        data = load(source, progress=False)
        space = FeatureSpace.from_frame(data.frame, continuous=list(data.frame.columns))
    else:
        data = load(source, actionability="free", kinds="carla", as_in_paper=True, progress=False)
        space = data.space
    X = data.frame.reset_index(drop=True)
    y = data.target.to_numpy()
    if rows is not None and rows < len(X):
        kept, _ = train_test_split(np.arange(len(X)), train_size=rows, stratify=y, random_state=0)
        X = X.iloc[kept].reset_index(drop=True)
        y = y[kept]
    return StudyTable(name, X, y, space, target)


@dataclass(frozen=True)
class PaperModel:
    """One table, one kind of model, one seed, and the measurements in addition to the quality of methods."""

    table: PaperTable
    kind: ModelKind
    seed: int
    extent: PaperExtent
    store: StudyStore = NO_STORE

    @cached_property
    def situation(self) -> Situation:
        """The situation for the study's engine; fine-tuning follows the authors."""
        table = self.table
        extent = self.extent
        training = self.table.training[self.kind]
        people = study_table(table.name, table.source, table.target, table.anywhere, extent.rows)
        protocol = Protocol(
            inputs=extent.inputs,
            retrained=dict.fromkeys(("complete", "leave_one_out", "incremental"), extent.retrained),
            share=ARRIVED_SHARE,
            test_share=TEST_SHARE,
            drawn_from="all" if table.anywhere else "new",
            origin=0,
            fine_tune=FineTune(training.batch),
        )
        least = int(len(people.y) * 0.5 * (1 - TEST_SHARE) * 0.9)
        return Situation(
            people, self.kind, classifier(training, least), self.seed, protocol, self.store
        )

    def plan(self, printed: Printed, labels: Collection[str]) -> Plan:
        """The methods for this kind of model, and the δ for methods and certificates."""
        deltas = {block: printed.delta_used(self.kind, self.table.name, block) for block in TARGETS}
        known = {str(block): delta for block, delta in deltas.items() if delta is not None}
        methods = []
        for method in METHODS:
            if self.kind in method.models and method.name in labels:
                if isinstance(method.make, ROAR):
                    make = replace(method.make, delta_max=deltas[DELTA_INC] or 0.0)
                    method = replace(method, make=make)
                methods.append(method)
        return Plan(tuple(methods), known, self.extent.time_limit)

    def accuracies(self) -> Records:
        """Cross-validation on the first half, as in the paper."""
        here = self.situation
        folds = self.extent.folds
        sizes = {"rows": len(here.table.y), "attributes": len(here.table.X.columns)}

        def compute() -> Records:
            rows = np.sort(np.concatenate([here.halves.train, here.halves.test]))
            split = KFold(folds, shuffle=True, random_state=here.seed)
            with quietly():
                scores = cross_val_score(
                    here.seeded_estimator, *here.table.labelled(rows), cv=split
                )
            return [{"fold": fold, "accuracy": score} for fold, score in enumerate(scores.tolist())]

        return [sizes | record for record in self._remember("accuracy", {"folds": folds}, compute)]

    def distances(self) -> Records:
        """The distance by which fine-tuning moves the model, for each share of the new data: the curve of Figure 4."""
        shares = list(self.extent.shares)

        def compute() -> Records:
            curve: list[Any] = (
                self._incremental(shares).evidence[["share", "distance"]].to_dict("records")
            )
            return curve

        return self._remember("distances", {"shares": shares, **self._fine_tuning}, compute)

    def calibrated(self) -> Records:
        """δ_inc and δ_val of this model, by the paper's two methods."""
        here = self.situation
        extent = self.extent

        def compute() -> Records:
            records = [
                {
                    "block": DELTA_INC,
                    "delta": float(self._incremental(ARRIVED_SHARE)),
                    "reached": True,
                }
            ]
            rows = here.halves.train if self.table.anywhere else here.halves.test
            people = self._rejected(rows, extent.calibration_inputs, _CALIBRATION)
            if people.empty:
                return records
            # The first two ways to retrain: trained anew on everything, and without a hundredth of the rows.
            anew = here.models.retrained[: 2 * extent.retrained]
            chosen = delta_validation(
                here.models.network, people, retrained=anew, generator=RNCE(here.table.X), target=self.table.target,
                space=here.table.space, deltas=extent.calibration_deltas, seed=here.seed, progress=False,
            )  # fmt: skip
            delta = float(chosen) if chosen.reached else float(chosen.evidence["delta"].max())
            return [*records, {"block": DELTA_VAL, "delta": delta, "reached": chosen.reached}]

        settings = {"deltas": extent.calibration_deltas, "inputs": extent.calibration_inputs}
        return self._remember("calibrated", settings | self._fine_tuning, compute)

    def radii(self, cell: Cell) -> Floats:
        """The certified radius of every counterfactual of a cell; nan without one."""
        here = self.situation
        found = cell.found

        def compute() -> Document:
            values = np.full(found.size, np.nan)
            if found.any():
                values[found] = certified_radius(
                    here.models.network, cell.points[found], here.table.target
                ).lower
            return {"radius": plain_numbers(values)}

        content, _ = here.store.remember("radii", {"cell": cell.key}, compute)
        return np.array(content["radius"], dtype=np.float64)

    def robust_init(self, delta: float) -> Records:
        """Seconds of RNCE-FF and RNCE-TF, for some and for all of the training rows that the model rejects."""
        many = self.extent.many_inputs

        def compute() -> Records:
            records: Records = []
            for name, n in (("100_inputs", many), ("all_inputs", None)):
                people = self._rejected(self.situation.halves.train, n, _MANY)
                if len(people):
                    place = {"table": name, "inputs": len(people)}
                    records += [
                        place | {"row": row, "seconds": used}
                        for row, used in self._timed(people, delta)
                    ]
            return records

        return self._remember("robust_init", {"delta": delta, "inputs": many}, compute)

    def _remember(self, kind: str, settings: Document, compute: Callable[[], Records]) -> Records:
        """The records of one piece of work, read from the store, or computed and stored."""
        specification = {"situation": self.situation.identity, **settings}
        content, _ = self.store.remember(kind, specification, lambda: {"records": compute()})
        return [self.situation.place | record for record in content["records"]]

    def _rejected(self, rows: Ints, n: int | None, stream: int) -> pd.DataFrame:
        """People among these rows whom today's model puts in class 0: `n` of them, or all."""
        here = self.situation
        return here.table.X.iloc[
            np.random.default_rng([here.seed, stream]).permutation(here.rejects(rows))[:n]
        ]

    def _timed(self, people: pd.DataFrame, delta: float) -> list[tuple[str, float]]:
        """CPU seconds of each row of the paper's table."""
        network = self.situation.models.network
        table = self.situation.table
        changes = PlausibleChanges(delta)
        asked: Document = {"target": table.target, "changes": changes, "space": table.space}

        def seconds(work: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[float, Any]:
            began = time.process_time()
            result = work(*arguments, **asked | options)
            return time.process_time() - began, result

        unsure, _ = seconds(explain, network, people, generator=RNCE(table.X), progress=False)
        tree, certified = seconds(RNCE(table.X).prepare, network)
        after, _ = seconds(explain, network, people, generator=RNCE(certified), progress=False)
        including = ("RNCE-TF including the tree", tree + after)
        return [("RNCE-FF", unsure), including, ("RNCE-TF after the tree", after)]

    @property
    def _fine_tuning(self) -> dict[str, int]:
        """The number of models for δ_inc, and the rows in a batch."""
        training = self.table.training[self.kind]
        return {"n": self.extent.retrained, "batch": training.delta_batch or training.batch}

    def _incremental(self, share: float | list[float]) -> IncrementalDelta:
        here = self.situation
        fine_tuning = self._fine_tuning
        return delta_incremental(
            here.fitted, here.learned.X_new, here.learned.y_new, share=share, n=fine_tuning["n"], seed=here.seed,
            retrain=FineTune(fine_tuning["batch"]), progress=False,
        )  # fmt: skip
