"""The paper's tables, models and methods, as the study's engine takes them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from holdfast.classifier import Classifier
from holdfast.datasets import load
from holdfast.features import FeatureSpace
from holdfast.retraining import retrain
from holdfast.study.methods import StudyMethod
from holdfast.study.paper.printed import Printed
from holdfast.study.paper.settings import (
    ARRIVED_SHARE,
    DELTA_INC,
    METHODS,
    TARGETS,
    TEST_SHARE,
    Extent,
    ModelKind,
    PaperTable,
    ROARAt,
)
from holdfast.study.paper.training import FineTune, classifier
from holdfast.study.run import Plan
from holdfast.study.situation import Protocol, Situation
from holdfast.study.specification import describe
from holdfast.study.store import Store
from holdfast.study.tables import StudyTable


def study_table(table: PaperTable, rows: int | None) -> StudyTable:
    """The table as the authors' methods search in it.

    Nothing is immutable, whole numbers may take any value in between and two categories are one 0/1 variable, whatever
    CARLA says cannot change: none of the authors' methods looks at CARLA's list of immutable columns.
    """
    return _loaded(table.name, table.source, table.target, table.anywhere, rows)


@cache
def _loaded(name: str, source: str, target: int, own_space: bool, rows: int | None) -> StudyTable:
    if own_space:
        data = load(source, progress=False)
        space = FeatureSpace.from_frame(data.frame, continuous=list(data.frame.columns))
    else:
        data = load(source, actionability="free", kinds="carla", as_in_paper=True, progress=False)
        space = data.space
    X, y = data.frame.reset_index(drop=True), data.target.to_numpy()
    if rows is not None and rows < len(X):
        kept, _ = train_test_split(np.arange(len(X)), train_size=rows, stratify=y, random_state=0)
        X, y = X.iloc[kept].reset_index(drop=True), y[kept]
    return StudyTable(name, X, y, space, target)


@dataclass(frozen=True, eq=False)
class PaperSituation(Situation):
    """The engine's situation, except that training on with new rows is done as the authors do it."""

    fine_tune: FineTune

    @property
    def specification(self) -> dict[str, Any]:
        """What the networks depend on."""
        return super().specification | {"fine_tune": describe(self.fine_tune)}

    def _retrain(self) -> list[Classifier]:
        n = int(self.protocol.retrained["incremental"])
        arrived = self.halves.new_train
        tuned = retrain(
            self.fitted, self.table.points[arrived], self.table.y[arrived], how="incremental",
            share=self.protocol.share, n=n, seed=self.seed, retrain=self.fine_tune, progress=False,
        )  # fmt: skip
        # The engine's own come last; they are quick, and these take their place.
        return [*super()._retrain()[:-n], *tuned.networks]


def situation(table: PaperTable, kind: ModelKind, seed: int, extent: Extent, store: Store) -> PaperSituation:
    """One table, one kind of model, one seed."""
    people = study_table(table, extent.rows)
    training = table.training[kind]
    protocol = Protocol(
        inputs=extent.inputs,
        retrained=dict.fromkeys(("complete", "leave_one_out", "incremental"), extent.retrained),
        share=ARRIVED_SHARE,
        test_share=TEST_SHARE,
        drawn_from="all" if table.anywhere else "new",
        origin=0,
    )
    least = int(len(people.y) * 0.5 * (1 - TEST_SHARE) * 0.9)
    estimator, fine_tune = classifier(training, least), FineTune(training.batch)
    return PaperSituation(people, kind, estimator, seed, protocol, version("holdfast"), store, fine_tune)


def plan(table: PaperTable, kind: ModelKind, printed: Printed, extent: Extent, labels: Collection[str]) -> Plan:
    """Those of the methods that are run on this kind of model, and the δ that they are given and certified at."""
    deltas = {block: printed.delta_used(kind, table.name, block) for block in TARGETS}
    known = {str(block): delta for block, delta in deltas.items() if delta is not None}
    methods = tuple(
        StudyMethod(
            method.label,
            replace(method.make, delta=deltas[DELTA_INC]) if isinstance(method.make, ROARAt) else method.make,
            deltas=tuple(known) if method.targeted else None,
            whole_table=not method.only_first_half,
        )
        for method in METHODS
        if kind in method.models and method.label in labels
    )
    return Plan(methods, known, extent.time_limit)
