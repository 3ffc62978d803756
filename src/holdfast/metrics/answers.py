"""`Answers`: counterfactuals from anywhere, row by row beside the people they are for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from holdfast.classifier import Classifier
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.features.codec import Table
from holdfast.generators import Recourse
from holdfast.generators.reading import own_variables
from holdfast.given import given_floats
from holdfast.importers import Model, load_model
from holdfast.network import Floats
from holdfast.verify.inputs import read_targets


@dataclass(frozen=True, eq=False)
class Answers:
    """One counterfactual, or none, for each of `n` people; every metric takes them, or a `Recourse`.

    Build them with `of`. Whatever is measured is measured on the rows with an answer and put back at its place: a row
    without one is never dropped and never shifts another.

    Attributes
    ----------
    points
        (n, d) in the model's variables; rows of nan where there is no answer.
    factuals
        The people: a table in the caller's units, or points.
    targets
        The class each row was to get, an index of ``network.classes``.
    counterfactuals
        The answers in the caller's units, where they are known.
    index
        The labels of the rows.
    """

    points: Floats
    factuals: Table
    targets: NDArray[np.intp]
    model: Model
    space: FeatureSpace
    counterfactuals: pd.DataFrame | None = None
    index: pd.Index | None = None

    @classmethod
    def of(
        cls,
        model: object,
        points: ArrayLike,
        factuals: Table,
        *,
        target: Any,
        space: FeatureSpace | None = None,
        threshold: Any = None,
    ) -> Answers:
        """Points of another library, or from a file, beside their factuals.

        Parameters
        ----------
        model
            Today's model; anything `load_network` takes.
        points
            (n, d) in the model's variables, a row of nan where there is no answer.
        factuals
            The people, in the same order: a DataFrame in the caller's units, or points.
        target
            The class wanted: one label, or one for each row.
        space
            Columns, units and what a person can change; without it the model's own variables, free and unbounded.
        threshold
            As for `explain`.

        Examples
        --------
        >>> from holdfast import Network
        >>> net = Network([[[-1.0, 1.0]]], [[0.0]])
        >>> answers = Answers.of(net, [[0.5, 0.75], [np.nan, np.nan]], [[0.5, 0.25], [0.9, 0.1]], target=1)
        >>> answers.found
        array([ True, False])
        """
        loaded = load_model(model, threshold)
        space = own_variables(loaded, factuals) if space is None else space
        values = given_floats(points, "points").copy()
        loaded = loaded.in_space(space)
        if values.ndim != 2 or not values.shape[1] == space.n_variables == loaded.classifier.n_features:
            raise InvalidInputError(
                f"points: expected a table with {loaded.classifier.n_features} columns, one for each variable of the "
                f"model and of the space, got shape {values.shape}"
            )
        if np.shape(factuals)[0] != values.shape[0]:
            raise InvalidInputError(
                f"factuals: expected one for each of the {values.shape[0]} rows, got {np.shape(factuals)[0]}"
            )
        missing = np.isnan(values)
        half = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
        if half.size or np.isinf(values).any():
            row = half[0] if half.size else np.argwhere(np.isinf(values))[0, 0]
            raise InvalidInputError(f"points: expected finite numbers, or a whole row of nan, got row {row} otherwise")
        index = factuals.index if isinstance(factuals, pd.DataFrame) else pd.RangeIndex(values.shape[0])
        targets = read_targets(loaded.classifier, target, values.shape[0])
        return cls(values, factuals, targets, loaded, space, index=index)

    @classmethod
    def read(cls, answers: Recourse | Answers) -> Answers:
        """What `explain` returned, or answers as they are."""
        if isinstance(answers, Answers):
            return answers
        if not isinstance(answers, Recourse):
            raise InvalidInputError(
                f"answers: expected what explain returns, or Answers.of(...), got {type(answers).__name__}"
            )
        return cls(
            answers.points,
            answers.factuals,
            answers.targets,
            answers.model,
            answers.space,
            answers.counterfactuals,
            answers.factuals.index,
        )

    def __len__(self) -> int:
        return int(self.points.shape[0])

    @property
    def classifier(self) -> Classifier:
        """Today's model."""
        return self.model.classifier

    @property
    def found(self) -> NDArray[np.bool_]:
        """Which rows have an answer."""
        return np.asarray(~np.isnan(self.points).any(axis=1))

    def tables(self) -> tuple[Table, Table]:
        """Answers and factuals of the rows with an answer, in the caller's units where those are known."""
        rows = np.flatnonzero(self.found)
        before = (
            self.factuals.iloc[rows] if isinstance(self.factuals, pd.DataFrame) else np.asarray(self.factuals)[rows]
        )
        if self.counterfactuals is None:
            return self.points[rows], before
        # A column of whole numbers with a missing row holds fractions; without that row it is whole again.
        names = list(self.space.names)
        return self.counterfactuals[names].iloc[rows].infer_objects(), before

    def spread(self, values: ArrayLike) -> Floats:
        """Values of the rows with an answer at their places; nan elsewhere."""
        result = np.full(len(self), np.nan)
        result[self.found] = np.asarray(values, dtype=np.float64)
        return result
