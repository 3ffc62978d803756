"""Tree ensembles as models: boosted trees, forests and single trees of any library, read exactly."""

from __future__ import annotations

import hashlib
import io
import math
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Any

import joblib
import numpy as np
import pandas as pd

from holdfast._classifier import Floats
from holdfast._forest import Forest, check_codes
from holdfast._given import given_floats
from holdfast._scored import Scored, log_odds
from holdfast.errors import InvalidInputError

# What steps before trees may be made of, so that a hash says all about them.
_LIBRARIES = {
    "_codecs", "builtins", "collections", "copyreg", "functools", "holdfast", "numpy", "scipy", "sklearn",
}  # fmt: skip


@dataclass(frozen=True)
class Votes:
    """Function from a table to the logits of trees.

    Parameters
    ----------
    forest
        The trees.
    columns
        The names of the columns, if the model knows them.
    labels
        For each column the categories in the order of their codes, if the model knows them; otherwise None.
    before
        Function applied to the table first: the earlier steps of a pipeline.
    shares
        True if the sums are probabilities, as in forests: the logits are then their log-odds.
    band
        Margins of two classes above 0 by at most this count as 0: the library's own probability is one half. For
        several classes, differences of at most this may be a tie in the library.
    off
        The amounts that a threshold subtracts from the logits; for shares the threshold itself is `bar`.
    odds
        True if the logits are log-odds of probabilities.
    """

    forest: Forest
    columns: tuple[str, ...] | None = None
    labels: tuple[tuple[Any, ...] | None, ...] = ()
    before: Callable[[Any], Any] | None = None
    shares: bool = False
    band: float = 0.0
    off: tuple[float, ...] = ()
    bar: float | None = None
    first: bool = False
    odds: bool = True

    def matrix(self, table: Any) -> Floats:
        """The values that the trees read of a table: a number, a code, or NaN in every place."""
        if self.before is not None:
            table = self.before(table)
        table = table.toarray() if hasattr(table, "toarray") else table
        if isinstance(table, pd.DataFrame) and self.columns is not None and self.before is None:
            table = table[list(self.columns)]
        if isinstance(table, pd.DataFrame):
            X = (
                np.column_stack([self._column(table.iloc[:, i], i) for i in range(table.shape[1])])
                if table.shape[1]
                else np.empty((len(table), 0))
            )
        else:
            X = given_floats(table, "X")
        if X.ndim != 2 or X.shape[1] != self.forest.width:
            raise InvalidInputError(
                f"X: expected a table with the {self.forest.width} columns of the trees, got shape {X.shape}"
            )
        check_codes(X, self.forest, self.labels, self.columns)
        return np.ascontiguousarray(X)

    def _column(self, values: pd.Series[Any], place: int) -> Floats:
        labels = self.labels[place] if place < len(self.labels) else None
        if labels is None:
            if isinstance(values.dtype, pd.CategoricalDtype) and not pd.api.types.is_numeric_dtype(
                values.cat.categories.dtype
            ):
                raise InvalidInputError(
                    f"X: expected numbers in {values.name!r}, got the categories "
                    f"{values.cat.categories.tolist()[:3]}: the model does not know their order"
                )
            return pd.to_numeric(values).to_numpy(dtype=np.float64, na_value=np.nan)
        gaps = values.isna().to_numpy()
        codes = pd.Index(list(labels)).get_indexer(pd.Index(values.astype(object)))
        unknown = np.flatnonzero((codes < 0) & ~gaps)
        if unknown.size:
            raise InvalidInputError(
                f"X: expected a category that the model has seen in {values.name!r}, {list(labels)[:8]}, "
                f"got {values.iloc[int(unknown[0])]!r}"
            )
        return np.where(gaps, np.nan, codes.astype(np.float64))

    def __call__(self, table: Any) -> Floats:
        return self.logits(self.forest.sums(self.matrix(table)))

    def logits(self, sums: Floats) -> Floats:
        """The logits of the sums of leaves."""
        if self.shares:
            logits = log_odds(np.clip(sums, 0.0, 1.0), self.bar, self.first)
            logits = logits[:, None] if logits.ndim == 1 else logits
            # Leaves that were moved may leave the range of probabilities; the greatest sum wins all the same.
            out = np.any((sums < 0.0) | (sums > 1.0), axis=1, keepdims=True)
            logits = np.where(out, self._plain(sums), logits)
        else:
            tied = (sums > 0.0) & (sums <= self.band) & (sums.shape[1] == 1)
            logits = np.where(tied, 0.0, sums)
        return logits - np.array(self.off) if self.off else logits

    def _plain(self, shares: Floats) -> Floats:
        """The difference of shares that decides the class, without any rounding."""
        if shares.shape[1] > 2:
            return shares
        if self.bar is None:
            return shares[:, [1]] - shares[:, [0]]
        return self.bar - shares[:, [0]] if self.first else shares[:, [1]] - self.bar

    @property
    def doubt(self) -> float:
        """The value that a margin must exceed: the band, or at a threshold the rounding of the library's probability.

        That probability is within 8 units of rounding of the true p, and  d logit = dp / (p (1 - p)).
        """
        if not self.off:
            return self.band
        unit = 2.0**-24 if self.forest.single else 2.0**-53
        far = min(float(np.abs(self.off).max()), 700.0)
        return max(self.band, 8.0 * unit * (2.0 + 2.0 * math.cosh(far)))

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the trees' columns, if known."""
        return self.columns if self.before is None else None

    def odds_at(self, threshold: float | None, first: bool = False) -> Votes:
        """The same logits at a threshold."""
        return replace(self, bar=threshold, first=first)


@dataclass(frozen=True)
class Recorded:
    """The steps before some trees, known only by the hash of all that was fitted; they cannot be run."""

    digest: str

    def __call__(self, table: Any) -> Any:
        raise InvalidInputError("model: expected steps before the trees, got only their hash")


def steps_digest(before: Callable[[Any], Any] | None) -> str | None:
    """A hash of steps before trees, with all that they were fitted to; None if they contain foreign code.

    Equal hashes mean equal steps of the same versions of the same libraries. Objects that pickle by name, such as a
    function of the caller's, may change under the same name.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> first, second = (StandardScaler().fit([[1.0], [b]]).transform for b in (2.0, 3.0))
    >>> steps_digest(first) == steps_digest(first), steps_digest(first) == steps_digest(second)
    (True, False)
    >>> steps_digest(lambda table: table) is None
    True
    """
    if isinstance(before, Recorded):
        return before.digest
    try:
        _Known(io.BytesIO(pickle.dumps(before))).load()
        found: str = joblib.hash(before, hash_name="sha1")
        versions = [import_module(name).__version__ for name in ("numpy", "scipy", "sklearn")]
    # Anyone's code may be in it, and raise anything.
    except Exception:
        return None
    return hashlib.sha256(" ".join([found, *versions]).encode()).hexdigest()


class _Known(pickle.Unpickler):
    """Unpickler that reads only objects of libraries with known versions."""

    def find_class(self, module: str, name: str) -> Any:
        """Look up a class or a function by its name."""
        if module.partition(".")[0] not in _LIBRARIES:
            raise pickle.UnpicklingError(module)
        return super().find_class(module, name)


@dataclass(frozen=True, eq=False)
class Gapped(Scored):
    """A model that knows where a row with a missing value goes."""

    def check_points(self, X: Any) -> Floats:
        """Check points as for every model; values may be missing."""
        if self.decode is not None:
            return super().check_points(X)
        points = given_floats(X, "X")
        gaps = np.isnan(points)
        super().check_points(np.where(gaps, 0.0, points) if gaps.any() else points)
        return points


@dataclass(frozen=True, eq=False)
class TreeEnsemble(Gapped):
    """Boosted trees, a forest or a single tree, with all that they compute.

    It reads the caller's table, as models known by their scores do. Its leaves and thresholds are also known, so that
    `TreeChanges` can be proven about it. `load_model` reads such models from XGBoost, LightGBM, scikit-learn and
    others.

    Attributes
    ----------
    score
        The trees, and how a table becomes the values that they read: `Votes`.
    origin
        The library of the model, and the data needed to write it in that library's format.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from holdfast import load_model
    >>> tree = DecisionTreeClassifier(max_depth=1).fit([[1.0], [2.0], [3.0]], ["no", "yes", "yes"])
    >>> load_model(tree).classifier
    TreeEnsemble(1 tree, 2 leaves, 2 classes, 1 variable)
    """

    score: Votes
    origin: Any = None

    @property
    def forest(self) -> Forest:
        """The trees."""
        return self.score.forest

    def sums(self, X: Any) -> Floats:
        """The sums of the leaves at points, bit for bit as the library computes them, (n, outputs of the trees)."""
        return self.forest.sums(self.matrix(X))

    def matrix(self, X: Any) -> Floats:
        """The values that the trees read at points."""
        return self.score.matrix(self._table(self.check_points(X)))

    def predict(self, X: Any) -> Any:
        """The class label of each row of points, or of a table with the model's columns."""
        if isinstance(X, pd.DataFrame) and self.raw:
            return self.classes[self.winners(self.score(X))]
        return super().predict(X)

    def row(self, point: Floats) -> list[float | None]:
        """The values that the trees read at a point; None where a value is missing."""
        read = self.matrix(point[None, :])[0].tolist()
        return [None if value != value else value for value in read]

    def reads_like(self, other: TreeEnsemble) -> bool:
        """True if another ensemble prepares a table in the same way, and makes the same logits of the sums."""
        ours, theirs = (
            replace(one.score, forest=self.forest, before=None) for one in (self, other)
        )
        if ours != theirs or (self.raw, self.tie) != (other.raw, other.tie):
            return False
        before = [one.score.before for one in (self, other)]
        if before[0] is before[1]:
            return True
        digests = [steps_digest(step) for step in before]
        return digests[0] is not None and digests[0] == digests[1]

    def with_forest(self, forest: Forest) -> TreeEnsemble:
        """The same model with other trees."""
        return replace(self, score=replace(self.score, forest=forest), predict_labels=None)

    def behind(
        self, before: Callable[[Any], Any], columns: tuple[str, ...] | None, width: int | None
    ) -> TreeEnsemble:
        """The same trees after steps that are applied to a table first."""
        votes = replace(self.score, before=before, columns=columns)
        return replace(self, score=votes, columns=columns, width=width, raw=True)

    def at(
        self, offsets: Sequence[float], threshold: float | None, first: bool = False
    ) -> TreeEnsemble:
        """The model at a threshold: class 1 from the logit 0 on."""
        if self.score.shares and threshold is not None:
            moved = self.score.odds_at(threshold, first)
        else:
            moved = replace(self.score, off=tuple(offsets))
        # The class of the threshold has what is exactly at it; where shares are compared, that is in the logit.
        tie = 0 if first and not self.score.shares else 1
        return replace(self, score=moved, tie=tie, predict_labels=None)

    def moved(self, by: Sequence[float], scores: float = 1.0) -> Scored:
        """A model with a constant added to a multiple of each score; its leaves are no longer known."""
        own = {part.name: getattr(self, part.name) for part in fields(Scored)}
        return Gapped(**own).moved(by, scores)

    def __repr__(self) -> str:
        forest, k = self.forest, len(self.labels)
        trees = f"{forest.n_trees} tree{'s' * (forest.n_trees != 1)}"
        width = f"{self.width} variable{'s' * (self.width != 1)}"
        return f"TreeEnsemble({trees}, {int(forest.leaves.sum())} leaves, {k} classes, {width})"
