"""One table, one model, one seed: the halves of the data, today's model, retrained models and rejected people."""

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
    """The settings for splitting, retraining and drawing people.

    Parameters
    ----------
    inputs
        The number of rejected people; all of them if there are fewer.
    retrained
        The number of models for each way to retrain: "complete", "leave_one_out", "incremental".
    share
        The share of the new data that an incremental run uses.
    test_share
        The share of each half that is not used for training.
    drawn_from
        The source of the people: "test" (the test part of the first half), "new" (the test part of the second half)
        or "all".
    origin
        The class of the people today; None means every class except the target.
    threshold
        The decision threshold of all models: the least probability for class 1, or one probability for each of
        several classes; see `load_model`.
    fine_tune
        A function for incremental runs, instead of scikit-learn's `partial_fit`; see `holdfast.retrain`.
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
                    f"retrained: expected numbers of models for {known}, got {how!r}: {count!r:.80}"
                )


@dataclass(frozen=True)
class Halves:
    """Rows of the table: training and test part of the first half, and of the second half, which comes later."""

    train: Ints
    test: Ints
    new_train: Ints
    new_test: Ints

    @classmethod
    def of(cls, y: Values, seed: int, test_share: float) -> Halves:
        """Random halves with equal shares of the classes."""
        halves = train_test_split(np.arange(len(y)), test_size=0.5, random_state=seed, stratify=y)
        parts = [
            train_test_split(h, test_size=test_share, random_state=seed, stratify=y[h])
            for h in halves
        ]
        return cls(*(np.sort(rows) for part in parts for rows in part))


@dataclass(frozen=True)
class TrainedModels:
    """Today's model, its accuracy on the test part, the retrained models, and whether all came from the store."""

    classifier: Classifier
    accuracy: float
    retrained: tuple[Classifier, ...]
    reused: bool

    @property
    def network(self) -> Network:
        """Today's model as a network; raises for other models."""
        return as_network(self.classifier)


@dataclass(frozen=True, eq=False)
class Situation:
    """A table, an estimator and a seed, with the models and people that follow from them.

    Parameters
    ----------
    table, model_name, estimator, seed, protocol
        The table, the estimator with its name, the seed, and the settings.
    store
        The store for trained networks.
    """

    table: StudyTable
    model_name: str
    estimator: BaseEstimator
    seed: int
    protocol: Protocol
    store: StudyStore = NO_STORE

    @property
    def place(self) -> Document:
        """The columns that identify the situation in a study."""
        return {"dataset": self.table.name, "model": self.model_name, "seed": self.seed}

    @cached_property
    def identity(self) -> str:
        """A name for the networks, a hash of their specification."""
        return digest(self.specification)

    @property
    def specification(self) -> Document:
        """The inputs of the training."""
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
        """A fresh copy, seeded with the situation's seed unless the caller fixed a random state."""
        estimator = clone(self.estimator)
        loose = [name for name, value in random_states(estimator).items() if value is None]
        return estimator.set_params(**dict.fromkeys(loose, self.seed))

    @cached_property
    def halves(self) -> Halves:
        """The rows of each half and part."""
        return Halves.of(self.table.y, self.seed, self.protocol.test_share)

    @cached_property
    def learned(self) -> Learned:
        """The training data of today's model, and the new data."""
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
        """Today's model and the retrained models, at the protocol's threshold: read from the store, or trained."""
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
        """Train today's model and its retrained models, measure today's accuracy, and store networks."""
        loaded = load_model(self.fitted)
        if loaded.preprocess is not None:
            raise InvalidInputError(
                "models: expected a network without preprocessing, because the space encodes the table, "
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
        """The retrained models, in a fixed order of ways to retrain; only networks are fine-tuned."""
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
        """The rows that today's model rejects; if the protocol names a class, the rows with this class today."""
        today = self.models.classifier.predict(self.table.points[rows])
        origin = self.protocol.origin
        return np.asarray(rows[today != self.table.target if origin is None else today == origin])

    @cached_property
    def drawn(self) -> Ints:
        """The rows of the people, drawn from the rows that today's model rejects."""
        every = np.arange(len(self.table.y))
        rows = {"test": self.halves.test, "new": self.halves.new_test, "all": every}[
            self.protocol.drawn_from
        ]
        rejected = self.rejects(rows)
        if not rejected.size:
            part = {"test": "first", "new": "second"}.get(self.protocol.drawn_from)
            which = (
                "rows of the table" if part is None else f"rows in the test part of the {part} half"
            )
            raise InvalidInputError(
                f"inputs: the model rejects none of the {rows.size} {which}, so there are no people to advise"
            )
        return np.random.default_rng(self.seed).permutation(rejected)[: self.protocol.inputs]

    @cached_property
    def people(self) -> pd.DataFrame:
        """The people, in raw units."""
        return self.table.X.iloc[self.drawn]

    @property
    def training_table(self) -> pd.DataFrame:
        """The training rows of today's model, in raw units."""
        return self.table.X.iloc[self.halves.train]

    @cached_property
    def density(self) -> Density:
        """The density of the target class among the training rows of today's model."""
        return Density(self.learned.X[self.learned.y == self.table.target])
