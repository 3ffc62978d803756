"""One table, one model, one seed: the halves of the data, today's model, its successors and the people it rejects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import train_test_split

from holdfast._classifier import Classifier, Values
from holdfast._files import Document
from holdfast._given import whole_number
from holdfast._network import Ints, Network
from holdfast._scored import Scored
from holdfast.errors import InvalidInputError
from holdfast.importers import load_model
from holdfast.importers._model import as_network
from holdfast.importers._thresholds import at_threshold
from holdfast.metrics import Density
from holdfast.retraining import Retrain, retrain
from holdfast.retraining._trainers import quietly, random_states
from holdfast.study._store import NO_STORE, StudyStore, describe, digest
from holdfast.study._tables import Learned, StudyTable

# The paper's fifteen.
PAPER_RETRAINED: Mapping[str, int] = {"complete": 5, "leave_one_out": 5, "incremental": 5}


@dataclass(frozen=True)
class Protocol:
    """How a study splits, retrains and draws.

    Parameters
    ----------
    inputs
        How many rejected people are asked about; all of them where there are fewer.
    retrained
        How many models for each way to retrain: "complete", "leave_one_out", "incremental".
    share
        How much of the new data an incremental run sees.
    test_share
        How much of each half is kept from training.
    drawn_from
        Where the people come from: "test" (the test part of the half that the model learned from), "new" (that of the
        half that comes later) or "all".
    origin
        The class that the people have today; None: any but the target.
    threshold
        The probability from which on all models say class 1, or one for each of several classes; see `load_model`.
    fine_tune
        What an incremental run does in place of scikit-learn's `partial_fit`; see `holdfast.retrain`.
    """

    inputs: int = 20
    retrained: Mapping[str, int] = field(default_factory=lambda: dict(PAPER_RETRAINED))
    share: float = 0.1
    test_share: float = 0.2
    drawn_from: Literal["test", "new", "all"] = "test"
    origin: Any = None
    threshold: Any = None
    fine_tune: Retrain | None = None

    def __post_init__(self) -> None:
        whole_number(self.inputs, "inputs", least=1)
        if self.drawn_from not in ("test", "new", "all"):
            raise InvalidInputError(
                f"drawn_from: expected 'test', 'new' or 'all', got {self.drawn_from!r}"
            )
        known = list(PAPER_RETRAINED)
        for how, count in self.retrained.items():
            if how not in known or not isinstance(count, int | np.integer) or count < 0:
                raise InvalidInputError(
                    f"retrained: expected numbers of models for {known}, got {how!r}: {count!r}"
                )


@dataclass(frozen=True)
class Halves:
    """Rows of the table: training and test part of the data at hand, and of the data that come later."""

    train: Ints
    test: Ints
    new_train: Ints
    new_test: Ints

    @classmethod
    def of(cls, y: Values, seed: int, test_share: float) -> Halves:
        """Random halves with the classes in proportion."""
        halves = train_test_split(np.arange(len(y)), test_size=0.5, random_state=seed, stratify=y)
        parts = [
            train_test_split(h, test_size=test_share, random_state=seed, stratify=y[h])
            for h in halves
        ]
        return cls(*(np.sort(rows) for part in parts for rows in part))


@dataclass(frozen=True)
class TrainedModels:
    """Today's model, its accuracy on the test part, its successors, and whether they had been kept."""

    classifier: Classifier
    accuracy: float
    retrained: tuple[Classifier, ...]
    reused: bool

    @property
    def network(self) -> Network:
        """Today's model as a network; raises where it is none."""
        return as_network(self.classifier)


@dataclass(frozen=True, eq=False)
class Situation:
    """A table, an estimator and a seed, and all that follows from them under a protocol.

    Parameters
    ----------
    table, model_name, estimator, seed, protocol
        What to train on what, and how.
    store
        Where trained networks are kept.
    """

    table: StudyTable
    model_name: str
    estimator: BaseEstimator
    seed: int
    protocol: Protocol
    store: StudyStore = NO_STORE

    @property
    def place(self) -> Document:
        """What distinguishes it from the others of a study."""
        return {"dataset": self.table.name, "model": self.model_name, "seed": self.seed}

    @cached_property
    def identity(self) -> str:
        """A name for the networks: everything that they depend on."""
        return digest(self.specification)

    @property
    def specification(self) -> Document:
        """What the networks depend on."""
        protocol = self.protocol
        rarely = {"threshold": protocol.threshold, "fine_tune": protocol.fine_tune}
        return {
            "version": version("holdfast"),
            "table": self.table.identity,
            "estimator": self.seeded_estimator,
            "seed": self.seed,
            "test_share": protocol.test_share,
            "retrained": {how: int(n) for how, n in protocol.retrained.items() if n},
            "share": protocol.share,
            **{name: value for name, value in rarely.items() if value is not None},
        }

    @cached_property
    def seeded_estimator(self) -> Any:
        """A fresh copy whose randomness, unless the caller fixed it, comes from the seed."""
        estimator = clone(self.estimator)
        loose = [name for name, value in random_states(estimator).items() if value is None]
        return estimator.set_params(**dict.fromkeys(loose, self.seed))

    @cached_property
    def halves(self) -> Halves:
        """Which rows are for what."""
        return Halves.of(self.table.y, self.seed, self.protocol.test_share)

    @cached_property
    def learned(self) -> Learned:
        """What today's model learned from, and what has come since."""
        return Learned(
            *self.table.labelled(self.halves.train), *self.table.labelled(self.halves.new_train)
        )

    @cached_property
    def fitted(self) -> Any:
        """Today's model, trained on the first half."""
        with quietly():
            return clone(self.seeded_estimator).fit(self.learned.X, self.learned.y)

    @cached_property
    def models(self) -> TrainedModels:
        """Today's model and its successors, each at the protocol's threshold: from the store, or trained and kept."""
        kept = self.store.read("models", self.identity)
        threshold = self.protocol.threshold
        networks = None if kept is None else self.store.read_networks(kept["networks"])
        if kept is not None and networks:
            models = list[Classifier](networks)
            accuracy = kept["accuracy"]
        else:
            models, accuracy = self._train()
        if threshold is not None:
            models = [at_threshold(one, threshold) for one in models]
        return TrainedModels(models[0], accuracy, tuple(models[1:]), reused=bool(networks))

    def _train(self) -> tuple[list[Classifier], float]:
        """Today's model and its successors as they are trained, and the accuracy of today's; networks are kept."""
        loaded = load_model(self.fitted)
        if loaded.preprocess is not None:
            raise InvalidInputError(
                "models: expected a network without preprocessing, since the space encodes the table for it, "
                f"got {type(self.estimator).__name__}"
            )
        # The models of a study learn from points, whatever they do to them first.
        models = [
            replace(one, raw=False) if isinstance(one, Scored) else one
            for one in (
                loaded.classifier,
                *self._retrain(anew=isinstance(loaded.classifier, Scored)),
            )
        ]
        X_test, y_test = self.table.labelled(self.halves.test)
        accuracy = float(np.mean(models[0].predict(X_test) == y_test))
        if not isinstance(models[0], Scored):
            names = self.store.write_networks(list(map(as_network, models)))
            content = {
                "networks": names,
                "accuracy": accuracy,
                "specification": describe(self.specification),
            }
            self.store.write("models", self.identity, content)
        return models, accuracy

    def _retrain(self, *, anew: bool) -> Iterator[Classifier]:
        """The successors, a fixed order of ways to retrain; only networks are trained on from where they are."""
        data = self.learned
        protocol = self.protocol
        for how in PAPER_RETRAINED:
            if protocol.retrained.get(how, 0) and not (anew and how == "incremental"):
                on = how == "incremental"
                models = retrain(
                    self.fitted, data.X, data.y, how=how,  # type: ignore[arg-type]
                    X_new=data.X_new, y_new=data.y_new, share=protocol.share if on else None,
                    bootstrap=False if how == "complete" else None, n=int(protocol.retrained[how]),
                    seed=self.seed, retrain=protocol.fine_tune if on else None, progress=False,
                )  # fmt: skip
                yield from models.classifiers

    def rejects(self, rows: Ints) -> Ints:
        """Those whom today's model keeps from the target; where the protocol names a class, by giving that."""
        today = self.models.classifier.predict(self.table.points[rows])
        origin = self.protocol.origin
        return np.asarray(rows[today != self.table.target if origin is None else today == origin])

    @cached_property
    def drawn(self) -> Ints:
        """The rows of the people asked about: drawn from those whom today's model rejects."""
        every = np.arange(len(self.table.y))
        rows = {"test": self.halves.test, "new": self.halves.new_test, "all": every}[
            self.protocol.drawn_from
        ]
        rejected = self.rejects(rows)
        if not rejected.size:
            part = {"test": "first", "new": "second"}.get(self.protocol.drawn_from)
            which = (
                "rows of the table"
                if part is None
                else f"rows that the {part} half keeps from training"
            )
            raise InvalidInputError(
                f"inputs: expected people whom the model rejects, got none among the {rows.size} {which}"
            )
        return np.random.default_rng(self.seed).permutation(rejected)[: self.protocol.inputs]

    @cached_property
    def people(self) -> pd.DataFrame:
        """The people asked about, in raw units."""
        return self.table.X.iloc[self.drawn]

    @property
    def training_table(self) -> pd.DataFrame:
        """The people whom today's model learned from, in raw units."""
        return self.table.X.iloc[self.halves.train]

    @cached_property
    def density(self) -> Density:
        """Where the people of the target class live, among those whom today's model learned from."""
        return Density(self.learned.X[self.learned.y == self.table.target])
