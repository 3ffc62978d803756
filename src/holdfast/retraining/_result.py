"""`RetrainedModels`: the models from several training runs, and their distances from today's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from holdfast._classifier import Classifier
from holdfast._network import Floats, Network
from holdfast._shown import Shown, Summary
from holdfast._trees import TreeEnsemble
from holdfast.changes import parameter_distance
from holdfast.changes._parameters import flat, p_norm, part_ends
from holdfast.errors import InvalidInputError
from holdfast.importers._model import as_network

# Ends the sentence about parameters that cannot be compared.
SAME_PREPROCESSING = (
    "with the same preprocessing, so that their parameters can be compared, got refitted or other "
    "preprocessing; fit the scaler once and keep it, or choose delta with delta_validation"
)
# What the next model has to be drawn as, so that what was measured holds for it.
SHARED_ROWS = "these share rows with each other, so this is about other draws of the same rows only"
AS_NEW_ROWS = "half as many rows, drawn with replacement, imitate as many new rows"
# So many rows are kept, to tell models apart and to see what they leave people.
SOME = 500


@dataclass(frozen=True, eq=False)
class RetrainedModels(Shown, Sequence[Any]):
    """A sequence of models retrained from one model, with the settings of the runs.

    Attributes
    ----------
    classifier
        The original model: its network, or else its scores.
    models
        The retrained models, of the same kind as the model given to `retrain`.
    classifiers
        The same models, as networks or scores.
    how
        The way of training: "incremental", "complete", "leave_one_out", "refit" or "continue".
    seeds
        The seed of each run, for its rows and its training.
    n_rows
        The number of rows of each run.
    disjoint
        Whether all runs used different rows.
    comparable
        Whether all are networks with today's preprocessing. Otherwise their parameters mean something else, or are
        unknown, and distances are undefined.
    steps
        The number of optimiser steps of each run, if known.
    share, bootstrap
        The share of the rows that each run drew, and whether with replacement.
    some_rows
        Some of the rows from which the runs drew, as the model reads them.
    """

    classifier: Classifier
    models: tuple[Any, ...]
    classifiers: tuple[Classifier, ...]
    how: str
    seeds: tuple[int, ...]
    n_rows: int
    disjoint: bool = False
    comparable: bool = True
    steps: int | None = None
    share: float = 1.0
    bootstrap: bool = False
    some_rows: Any = None

    @property
    def made(self) -> str:
        """How each model was made, as the end of a sentence."""
        ways = {
            "complete": "trained from scratch",
            "incremental": "fine-tuned",
            "refit": "refitted",
            "continue": "trained further",
        }
        size = "half" if self.share == 0.5 else f"{self.share:.0%}"
        drawn = f" on rows drawn with replacement, {size} as many"
        return ways.get(self.how, "trained without some rows") + drawn * self.bootstrap

    @property
    def caveats(self) -> list[str]:
        """Notes: how the next model has to be drawn, and how many of these are copies."""
        drawn = AS_NEW_ROWS if self.bootstrap and self.share <= 0.5 else SHARED_ROWS
        return [drawn] * (not self.disjoint) + copies(self.classifiers)

    def distances(self, norm: float = math.inf, *, per_layer: bool = False) -> Floats:
        """The distance of each network from today's: (n,), or (n, layers) with one distance for each layer."""
        today = self.today
        if not self.comparable:
            raise InvalidInputError(f"retrain: expected models {SAME_PREPROCESSING}")
        distance: Callable[..., Any] = layer_distances if per_layer else parameter_distance
        return np.array([distance(today, network, norm) for network in self.networks])

    @property
    def today(self) -> Network:
        """The original network; raises for other models."""
        return as_network(self.classifier)

    @property
    def networks(self) -> tuple[Network, ...]:
        """The retrained networks; raises for other models."""
        return tuple(map(as_network, self.classifiers))

    def __len__(self) -> int:
        return len(self.models)

    def __getitem__(self, index: Any) -> Any:
        return self.models[index]

    def to_frame(self, norm: float = math.inf) -> pd.DataFrame:
        """One row for each model: its seed, and if known its distance and that of each layer (layer_1, ...)."""
        frame = pd.DataFrame({"seed": self.seeds}, index=pd.RangeIndex(len(self), name="model"))
        if self.comparable and len(self):
            layers = self.distances(norm, per_layer=True)
            frame["distance"] = self.distances(norm)
            frame[[f"layer_{i + 1}" for i in range(layers.shape[1])]] = layers
        return frame

    @property
    def _apart(self) -> str:
        """The distances from today's model, in words."""
        if self.comparable and len(self):
            far = self.distances()
            return f"{far.min():.3g} to {far.max():.3g} from today's"
        moves = leaf_moves([(self.classifier, one) for one in self.classifiers])
        if moves is not None:
            far = moves.max(axis=1)
            return f"today's trees with leaves moved by up to {far.min():.3g} to {far.max():.3g}"
        words: dict[Any, str] = {
            None: "none",
            Network: "with preprocessing of their own",
            TreeEnsemble: "trees of another structure",
        }
        return words.get(next(map(type, self.classifiers), None), "known by their scores")

    def __repr__(self) -> str:
        said = "; ".join([self._apart, *copies(self.classifiers)])
        return f"RetrainedModels({len(self)} x {self.how} on {self.n_rows} rows: {said})"

    def overview(self) -> Summary:
        """The summary that a notebook shows."""
        facts = [
            ("how", self.how.replace("_", " ")),
            ("rows each learned from", self.n_rows),
            ("steps of the optimiser", self.steps),
            ("today", repr(self.classifier)),
        ]
        # Seeds are names, not quantities.
        table = self.to_frame().astype({"seed": str})
        title = f"{len(self)} retrained models, {self._apart}"
        return Summary(title, facts, table, rows="models", notes=self.caveats)


def leaf_moves(pairs: Sequence[tuple[Any, Any]]) -> Floats | None:
    """The move of each leaf between the models of a pair, (pairs, leaves); None unless all have one structure."""
    every = [one for pair in pairs for one in pair]
    if not every or not all(isinstance(one, TreeEnsemble) for one in every):
        return None
    first = every[0].forest
    if not all(first.same_structure(one.forest) for one in every):
        return None
    moves = [after.forest.values - before.forest.values for before, after in pairs]
    return np.array(np.abs(moves)[:, first.leaves].max(axis=2))


def copies(classifiers: Sequence[Any]) -> list[str]:
    """The number of distinct models, in words, if some are copies (copies are no evidence)."""
    distinct, n = len({getattr(one, "forest", one) for one in classifiers}), len(classifiers)
    return [f"only {distinct} of these {n} models are distinct"] * (distinct < n)


def each_model(retrained: Any) -> Iterator[Any]:
    """Iterate over the models of a list, an iterator, a `RetrainedModels`, or several of these in a list."""
    # A pipeline, a forest or a torch.nn.Sequential is a model that happens to be iterable.
    is_model = hasattr(retrained, "predict") or hasattr(retrained, "forward")
    if (
        not isinstance(retrained, Iterable)
        or isinstance(retrained, str | bytes | Mapping)
        or is_model
    ):
        raise InvalidInputError(
            f"retrained: expected a list of models or the result of retrain, got {type(retrained).__name__}"
        )
    return _flat(retrained)


def _flat(some: Iterable[Any]) -> Iterator[Any]:
    for one in some:
        if isinstance(one, RetrainedModels | list | tuple):
            yield from _flat(one)
        else:
            yield one


def layer_distances(a: Network, b: Network, norm: float = math.inf) -> Floats:
    """The p-distance between two networks of the same shape, one number for each layer.

    Examples
    --------
    >>> a = Network([[[1.0]], [[2.0]]], [[0.0], [0.0]])
    >>> b = Network([[[1.5]], [[2.0]]], [[0.0], [0.25]])
    >>> layer_distances(a, b)
    array([0.5 , 0.25])
    """
    parameter_distance(
        a, b, norm
    )  # refuses networks of different shapes before they are taken apart
    layers = np.split(flat(a) - flat(b), part_ends(a)[1::2])
    return np.array([p_norm(layer, norm) for layer in layers])
