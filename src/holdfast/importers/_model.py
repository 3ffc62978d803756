"""A classifier together with the steps from the caller's table to the variables that it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from holdfast._classifier import Classifier
from holdfast._given import given_array, given_floats, given_number, row_words
from holdfast._network import Floats, Network
from holdfast._scored import Scored
from holdfast._trees import TreeEnsemble, steps_digest
from holdfast.errors import HoldfastError, InvalidInputError, UnsupportedModelError
from holdfast.features import FeatureSpace
from holdfast.features._space import Decoder
from holdfast.importers._thresholds import (
    HALF,
    Sigmoid,
    Threshold,
    at_threshold,
    check_threshold,
    lowered,
    offsets,
)

# What an argument asks of a network alone, and what to take for any other model, and for trees.
_NEEDED = {
    "changes": (
        "PlausibleChanges is", "PlausibleShift(margin); risk_calibrated finds a margin",
        "PlausibleShift(margin), for which risk_calibrated finds a margin, or TreeChanges(leaves)",
    ),
    "generator": ("this one is", "RNCE, NNCE or STCE", "Closest, MCE, RNCE, NNCE or STCE"),
}  # fmt: skip
_LIBRARIES = {"lightgbm": "LightGBM", "xgboost": "XGBoost"}


@dataclass(frozen=True)
class Model:
    """A classifier, and how a raw table becomes the variables that it reads.

    Parameters
    ----------
    classifier
        The classifier itself: a `Network`, or another model given by its scores.
    preprocess
        Function applied to a raw table first, such as the earlier steps of a scikit-learn pipeline. It is never merged
        into the network's parameters, because Δ is about the parameters of the classifier as it was trained.
    feature_names
        The columns of the raw table, if the model knows them.
    estimator
        The classifier without preprocessing that the network was read from; a pipeline may contain it.
    decode
        Function from points to rows of the caller's table, if the model is given points of a space.
    threshold
        The probability from which the model decides for class 1, or one for each class; None: the model's own decision.
        It is applied in `classifier`; `trained` is without it.
    calibration
        Function from a threshold on the model's probabilities to the logit of the inner classifier that corresponds to
        it, if the model's probabilities differ from those of the inner classifier.
    odds
        True if the logits are log-odds of probabilities: only then does a probability threshold correspond to a logit.

    Examples
    --------
    >>> import pandas as pd
    >>> model = Model(Network([[[1.0, -1.0]]], [[0.0]]), feature_names=("income", "debt"))
    >>> model.variables(pd.DataFrame({"debt": [1.0, 2.0], "income": [5.0, 6.0]}))
    array([[5., 1.],
           [6., 2.]])
    """

    classifier: Classifier
    preprocess: Callable[[Any], Any] | None = None
    feature_names: tuple[str, ...] | None = None
    estimator: Any = field(default=None, compare=False, repr=False)
    decode: Decoder | None = field(default=None, compare=False, repr=False)
    threshold: Threshold | None = None
    as_trained: Classifier | None = field(default=None, compare=False, repr=False)
    calibration: Sigmoid | None = field(default=None, compare=False, repr=False)
    odds: bool = field(default=True, compare=False, repr=False)

    @property
    def trained(self) -> Classifier:
        """The classifier as it was trained, without any threshold."""
        return self.classifier if self.as_trained is None else self.as_trained

    @property
    def recorded(self) -> tuple[Classifier, Threshold]:
        """The classifier and the threshold on its probabilities, as a record stores them.

        A threshold on calibrated probabilities has no exact counterpart on the inner classifier's probabilities, to the
        last bit: it stays in the classifier.
        """
        if self.as_trained is None or self.threshold is None or self.calibration is not None:
            return self.classifier, HALF
        return self.as_trained, self.threshold

    @property
    def offsets(self) -> tuple[float, ...]:
        """The amounts that the threshold subtracts from the logits of `trained`."""
        if self.as_trained is None or self.threshold is None:
            return ()
        if self.calibration is not None and isinstance(self.threshold, float):
            return (self.calibration(self.threshold),)
        return tuple(offsets(self.threshold))

    @property
    def by_label(self) -> Any:
        """The threshold for another model, which may have its classes in another order."""
        if not isinstance(self.threshold, tuple):
            return self.threshold
        return dict(zip(self.classifier.classes.tolist(), self.threshold, strict=True))

    @property
    def unread(self) -> frozenset[str]:
        """The columns that the preprocessing drops; a table does not need them."""
        before = self.preprocess or getattr(getattr(self.classifier, "score", None), "before", None)
        return getattr(before, "unread", frozenset())

    def with_unread(self, table: Any) -> Any:
        """The table, with placeholder values in the columns that are dropped."""
        gone = [name for name in self.unread if name not in table.columns]
        return (
            table.assign(**dict.fromkeys(gone, 0.0))
            if gone and isinstance(table, pd.DataFrame)
            else table
        )

    def at(self, threshold: Any) -> Model:
        """The model at a threshold; None leaves it as it is."""
        if threshold is None:
            # A calibrated model's own half is not that of the classifier inside.
            return (
                self if self.calibration is None or self.as_trained is not None else self.at(HALF)
            )
        checked = check_threshold(threshold, self.classifier)
        if self.threshold is not None and checked != self.threshold:
            raise InvalidInputError(
                f"threshold: expected the model's own {self.threshold}, got {threshold!r}; to choose another "
                "threshold, pass the classifier inside the model"
            )
        if self.as_trained is not None:
            return self
        if self.calibration is not None and isinstance(checked, float):
            moved = lowered(self.classifier, [self.calibration(checked)])
        elif not self.odds and checked != HALF:
            raise InvalidInputError(
                f"threshold: expected a model whose scores are log-odds of probabilities, got {threshold!r} for one "
                "with other scores; CalibratedClassifierCV(FrozenEstimator(model)) gives it probabilities"
            )
        else:
            moved = at_threshold(self.classifier, checked)
        return replace(self, classifier=moved, threshold=checked, as_trained=self.classifier)

    @property
    def network(self) -> Network:
        """The classifier as a network; raises for a model that is known only by its scores."""
        return as_network(self.classifier)

    def logits(self, X: Any) -> Floats:
        """The scores of a raw table, preprocessing included, (n, n_outputs)."""
        return self.classifier.logits(self.variables(X))

    def in_space(self, space: FeatureSpace, table: Any = None) -> Model:
        """The model for points of this space, such as the rows of `table`.

        Networks read points. Any other model reads the rows that the points represent (rows of the table to the last
        bit), unless it was fitted on an array, or on the space's own variables.
        """
        scored = self.classifier
        decode = Decoder(space, None if table is None else space.rows(table))
        if not isinstance(scored, Scored):
            return replace(self, decode=decode)
        names = tuple(map(str, space.names))
        encoded = not scored.raw or (scored.columns == space.variables != names)
        columns = scored.columns
        if encoded:
            if scored.width not in (None, space.n_variables):
                raise InvalidInputError(
                    f"space: expected one with the {scored.width} variables of a model that was fitted on an array, "
                    f"got {space.n_variables}; a model that was fitted on a table with column names reads the table "
                    "itself"
                )
            if isinstance(scored, TreeEnsemble):
                _check_scale(scored, space)
        elif columns is not None:
            # What preprocessing drops may be missing.
            columns = tuple(name for name in columns if name in names or name not in self.unread)
            missing = [name for name in columns if name not in names]
            if missing:
                raise InvalidInputError(
                    f"space: expected the model's column {missing[0]!r}, got {list(names)}"
                )
        reads: dict[str, Any] = {
            "decode": None if encoded else decode,
            "width": space.n_variables,
            "columns": columns,
        }
        reading, trained = replace(scored, **reads), self.as_trained
        if isinstance(trained, Scored):
            trained = replace(trained, **reads)
        return replace(self, classifier=reading, decode=decode, as_trained=trained)

    def beside(self, today: Model) -> Classifier:
        """The model's classifier for the points that today's model reads."""
        scored = self.classifier
        if isinstance(scored, Network) and self.preprocess is not None:
            # Its preprocessing may be its own, so it reads the rows that the points stand for.
            read = tuple(name for name in self.feature_names or () if name not in self.unread)
            scored = Scored(self.logits, tuple(scored.classes.tolist()), read or None)
        if not isinstance(scored, Scored):
            return scored
        if today.decode is not None:
            own = replace(self, classifier=scored)
            return own.in_space(today.decode.space, today.decode.known).classifier
        if today.preprocess is not None:
            raise InvalidInputError(
                "space: expected a FeatureSpace, because these models prepare a table in different ways; got None"
            )
        if today.feature_names is None or scored.columns is None:
            return scored
        if not set(scored.columns) <= set(today.feature_names):
            raise InvalidInputError(
                f"models: expected the columns {list(today.feature_names)}, got {list(scored.columns)}"
            )
        return scored.reading(
            partial(pd.DataFrame, columns=today.feature_names), today.classifier.n_features
        )

    def check_numbers(self, X: Any) -> None:
        """Refuse a table with labels if nothing converts them to numbers."""
        if isinstance(self.classifier, Scored) and isinstance(X, pd.DataFrame):
            other = [
                name for name, dtype in X.dtypes.items() if not pd.api.types.is_numeric_dtype(dtype)
            ]
            if other:
                raise InvalidInputError(
                    f"space: the column {other[0]!r} has labels; pass space=FeatureSpace.from_frame(X_train), with "
                    "missing=[...] where there are gaps"
                )

    def variables(self, X: Any) -> Floats:
        """X in the variables that the classifier reads, a float64 array (n, n_features).

        Parameters
        ----------
        X
            A table: a DataFrame, whose columns are matched by name if the model knows its names, or an array, whose
            columns are taken in the model's order.
        """
        self.check_numbers(X)
        if self.feature_names is not None and hasattr(X, "columns"):
            X = _in_order(self.with_unread(X), self.feature_names)
        table = X
        if self.preprocess is not None:
            if isinstance(X, list | tuple | np.ndarray):
                X = given_array(X, "X")
            if self.feature_names is not None and not hasattr(X, "columns"):
                X = _named(X, self.feature_names)
            try:
                X = self.preprocess(X)
            except HoldfastError:
                raise
            # A pipeline step may be anyone's code and raise anything; to the caller it is the table that did not fit.
            except Exception as error:
                raise InvalidInputError(
                    f"X: expected a table that the model's preprocessing accepts, got {type(error).__name__}: {error}"
                ) from error
        points = dense(X)
        # Trees know where a row without a value goes.
        if isinstance(table, pd.DataFrame) and not isinstance(self.classifier, TreeEnsemble):
            points = given_floats(points, "X")
            _refuse_gaps(table, points)
        return self.classifier.check_points(points)


def same_preprocessing(a: Model, b: Model) -> bool:
    """True if two models prepare a raw table alike: the same steps, fitted to the same numbers.

    After a refitted scaler every parameter has another meaning, so a distance between parameters says nothing about the
    models' decisions. Two copies are compared by the hash of all that was fitted. Steps without a hash, such as foreign
    code, count as different.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from holdfast.importers import load_model
    >>> today, refitted = (
    ...     load_model(make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, [0, 0, 1]))
    ...     for rows in ([[1.0], [2.0], [3.0]], [[1.0], [2.0], [4.0]])
    ... )
    >>> same_preprocessing(today, today), same_preprocessing(today, refitted)
    (True, False)
    """
    if (
        a.feature_names is not None
        and b.feature_names is not None
        and a.feature_names != b.feature_names
    ):
        return False
    if a.preprocess == b.preprocess:
        return True
    digest = steps_digest(a.preprocess)
    return digest is not None and digest == steps_digest(b.preprocess)


def _refuse_gaps(table: pd.DataFrame, points: Floats) -> None:
    """Name the column of the caller's table, and the row, with a missing or infinite value."""
    finite = np.isfinite(points)
    if points.ndim != 2 or finite.all():
        return
    row = int(np.argwhere(~finite)[0][0])
    for name, value in table.iloc[row].items():
        number = np.nan if pd.isna(value) else given_number(value)
        if number is not None and not np.isfinite(number):
            where = row_words(row, table.index)
            raise InvalidInputError(
                f"X: expected finite numbers, got {number} in {where}, column {name!r}"
            )


def as_network(classifier: Classifier, argument: str = "") -> Network:
    """The classifier as a network, or an error; `argument` is the caller's argument that needs a network."""
    if isinstance(classifier, Network):
        return classifier
    trees = isinstance(classifier, TreeEnsemble)
    if argument:
        library = getattr(getattr(classifier, "origin", None), "library", "")
        kind = "an ensemble of trees" if trees else "a model known by its scores alone"
        what, *instead = _NEEDED[argument]
        raise UnsupportedModelError(
            f"{argument}: {what} for networks; this is {_LIBRARIES.get(library, kind)}: use {instead[trees]}"
        )
    why = classifier.why if isinstance(classifier, Scored) else repr(classifier)
    if trees:
        raise UnsupportedModelError(
            f"{why}; for trees, which have no gradient, use TreeChanges, PlausibleShift or EnsembleShift as changes, "
            "and Closest, MCE, RNCE, NNCE or STCE as the generator"
        )
    raise UnsupportedModelError(
        f"{why}; without a network only margins are known: use PlausibleShift or EnsembleShift as changes, and NNCE, "
        "RNCE or STCE as the generator"
    )


def _in_order(frame: Any, names: tuple[str, ...]) -> Any:
    """The columns `names` of the frame in that order; raises unless the frame has exactly these columns."""
    columns = list(frame.columns)
    missing = [name for name in names if name not in columns]
    extra = [column for column in columns if column not in names]
    if missing or extra:
        faults = [f"missing {missing}"] * bool(missing) + [f"unknown to the model {extra}"] * bool(
            extra
        )
        raise InvalidInputError(
            f"X: expected the columns {list(names)}, got {columns}: {', '.join(faults)}"
        )
    if len(columns) != len(names):
        twice = sorted({str(column) for column in columns if columns.count(column) > 1})
        raise InvalidInputError(f"X: expected each column once, got {twice} more than once")
    return frame[list(names)]


def _named(X: Any, names: tuple[str, ...]) -> pd.DataFrame:
    """An array as the frame that the first step was fitted on: a column transformer finds columns by name."""
    values = given_array(dense(X), "X")
    if values.ndim != 2 or values.shape[1] != len(names):
        raise InvalidInputError(
            f"X: expected a table with the columns {list(names)}, got shape {values.shape}"
        )
    return pd.DataFrame(values, columns=list(names))


def dense(X: Any) -> Any:
    """A table as a dense array or frame."""
    return X.toarray() if hasattr(X, "toarray") else X


def qualified_name(model: object) -> str:
    """The full class name of an object, for error messages."""
    return f"{type(model).__module__}.{type(model).__qualname__}"


def _check_scale(trees: TreeEnsemble, space: FeatureSpace) -> None:
    """Refuse a space that most of the trees' thresholds are outside of: it has other numbers than the trees."""
    forest = trees.forest
    asked = forest.numeric & np.isfinite(forest.threshold)
    column, cut = forest.feature[asked], forest.threshold[asked]
    outside = (cut < space.lower[column]) | (cut > space.upper[column])
    if outside.sum() > 0.5 * outside.size:
        first = int(column[outside.argmax()])
        raise InvalidInputError(
            f"space: expected the numbers that the trees were fitted on, got {space.variables[first]!r} from "
            f"{space.lower[first]:g} to {space.upper[first]:g}, where a threshold is {cut[outside.argmax()]:g}; "
            "build the space with scale='none', which leaves numbers as they are, or fit the trees on a table with "
            "column names, which they then read directly"
        )
