"""A model known only by its scores: boosted trees, forests, calibrated ensembles, a remote service.

Its margin is the number that the library itself computes: log-odds if it gives probabilities, otherwise its decision
function. The parameters are unknown, so no proof about them is possible. A promise can state how far the *margin* may
fall.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from holdfast._classifier import Bools, Classifier, Floats, Ints, Values
from holdfast._given import whole_number
from holdfast.errors import HoldfastError, InvalidInputError, UnsupportedModelError

# Probabilities nearer to 0 than this are taken for it: log-odds stay finite, and below 37.
_LEAST_PROBABILITY = 2.0**-53
# So many points' scores are known at most.
_KNOWN = 500_000
# So many rows are held against the model's own `predict` when it first scores a table.
CHECKED = 256


@dataclass
class Tally:
    """Number of calls of a model, and of rows scored; shared by all copies of the model."""

    calls: int = 0
    rows: int = 0
    agreed: bool = False

    def since(self, before: Tally) -> Tally:
        """The calls and rows since an earlier copy."""
        return Tally(self.calls - before.calls, self.rows - before.rows, self.agreed)

    def __str__(self) -> str:
        return f"{self.calls:,} calls, {self.rows:,} rows"


@dataclass(frozen=True, eq=False)
class Scored(Classifier):
    """A model as a function from a table to logits.

    Parameters
    ----------
    score
        Function from a table, as the model reads it, to logits: (n,) for two classes, (n, k) for several.
    labels
        The class labels, in the order of the logits.
    columns
        The names of the columns that the model reads, if known.
    width
        Number of columns, if known.
    predict_labels
        The model's own prediction, compared with the logits; None if it has none.
    why
        Why the model is not a network, for error messages.
    batch
        Largest number of rows in one call.
    decode
        Function from points to the table that the model reads; None if the model reads points.
    raw
        True if the model reads the caller's table, False if it reads a space's variables, as networks do.
    tie
        The class, of two, that a score of exactly 0 means.
    """

    score: Callable[[Any], Any]
    labels: tuple[Any, ...]
    columns: tuple[str, ...] | None = None
    width: int | None = None
    predict_labels: Callable[[Any], Any] | None = None
    why: str = "the model is known by its scores alone"
    batch: int | None = None
    decode: Callable[[Floats], pd.DataFrame] | None = None
    raw: bool = True
    tie: int = 0
    tally: Tally = field(default_factory=Tally, repr=False)
    # What was asked, and the scores of points so far: for whoever asks about the same points of one space many times.
    known: tuple[Any, dict[bytes, list[float]]] | None = field(default=None, repr=False)

    @property
    def classes(self) -> Values:  # type: ignore[override]
        """The class labels."""
        return np.array(self.labels)

    @property
    def n_features(self) -> int:
        """Number of variables that the model reads."""
        if self.width is None:
            raise InvalidInputError(
                "space: expected a FeatureSpace, because a function of a table does not know its columns"
            )
        return self.width

    @property
    def n_outputs(self) -> int:
        """Number of scores: 1 for two classes, otherwise one for each class."""
        return 1 if len(self.labels) == 2 else len(self.labels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scored) and self._key == other._key

    def __hash__(self) -> int:
        return hash((self.labels, self.columns))

    @property
    def _key(self) -> tuple[object, ...]:
        return self.score, self.labels, self.columns, self.width, self.batch

    def reading(self, decode: Callable[[Floats], pd.DataFrame] | None, width: int) -> Scored:
        """The same model for points that represent rows of a table."""
        return replace(self, decode=decode, width=width, known=None)

    def doubts(self, points: Floats, frame: pd.DataFrame, classes: Ints) -> list[str]:
        """Why the class of a point's scores is not valid for its row of the caller's table, or \"\", for each point."""
        reasons = np.full(points.shape[0], "", dtype=object)
        if points.shape[0] and self.predict_labels is not None:
            theirs = np.asarray(self.predict_labels(self._table(points))).ravel().astype(str)
            reasons[theirs != self.classes[classes].astype(str)] = (
                "the model's own prediction differs from the class of its scores"
            )
        for row in np.flatnonzero(self.other_rows(points, frame)):
            reasons[row] = self.why_other(frame.iloc[row])
        return list(reasons)

    def why_other(self, own: pd.Series) -> str:
        """Why the model's score is not valid for this row: a different row was scored."""
        gaps = [str(name) for name in self.columns or own.index if pd.isna(own[name])]
        if not gaps:
            return "the space cannot tell this row from another row; a space with scale='none' can"
        return f"{gaps[0]} is missing for this person; FeatureSpace.from_frame(X, missing={gaps}) allows gaps"

    def other_rows(self, points: Floats, frame: pd.DataFrame) -> Bools:
        """Mask of the points whose scored row differs in any bit from the caller's row."""
        if self.decode is None or not points.shape[0]:
            return np.zeros(points.shape[0], dtype=np.bool_)
        scored = self.decode(points)
        other = [
            (scored[name].to_numpy() != frame[name].to_numpy())
            & ~(scored[name].isna().to_numpy() & frame[name].isna().to_numpy())
            for name in scored.columns
        ]
        return np.asarray(np.logical_or.reduce(other), dtype=np.bool_)

    def about(self, rows: pd.DataFrame) -> tuple[Scored, Floats]:
        """The same model for exactly these rows: a point is the number of a row."""
        numbered = self.reading(lambda numbers: rows.iloc[numbers[:, 0].astype(np.intp)], 1)
        return numbered, np.arange(len(rows), dtype=np.float64)[:, None]

    def moved(self, by: Sequence[float], scores: float = 1.0) -> Scored:
        """The model with a constant added to a multiple of each of its scores."""
        return replace(self, score=_Moved(self.score, tuple(by), scores), predict_labels=None)

    def at(self, offsets: Sequence[float], threshold: float | None, first: bool = False) -> Scored:
        """The model at a threshold: its scores less these constants, class 1 from 0 on.

        If there are probabilities, they decide at the threshold, to the last bit. With `first` the threshold is for the
        first of two classes.
        """
        odds = getattr(self.score, "odds_at", None)
        asked = self if odds is None else replace(self, score=odds(threshold, first))
        moved = odds is None or threshold is None
        return replace(
            asked.moved([-part for part in offsets]) if moved else asked, tie=1, predict_labels=None
        )

    def check_points(self, X: ArrayLike) -> Floats:
        """Check points as for every model; a function of arrays takes any number of columns."""
        if self.width is None and np.ndim(X) == 2:
            return replace(self, width=int(np.shape(X)[1])).check_points(X)
        return super().check_points(X)

    def logits(self, X: ArrayLike) -> Floats:
        """The model's scores, (n, n_outputs)."""
        points = self.check_points(X)
        if self.known is not None and self.known[0] is self.score and points.size:
            return self._recalled(points, self.known[1])
        size = max(1, self.batch or points.shape[0])
        parts = [
            self._scores(self._table(points[i : i + size])) for i in range(0, points.shape[0], size)
        ]
        return np.concatenate(parts) if parts else np.empty((0, self.n_outputs))

    def _recalled(self, points: Floats, known: dict[bytes, list[float]]) -> Floats:
        """The scores; only rows that are new are computed."""
        keys = [point.tobytes() for point in points]
        new = {key: place for place, key in enumerate(keys) if key not in known}
        if new:
            scores = replace(self, known=None).logits(points[list(new.values())])
            if len(known) > _KNOWN:
                known.clear()
            known |= zip(new, scores.tolist(), strict=True)
        return np.array([known[key] for key in keys])

    def _table(self, points: Floats) -> Any:
        if self.decode is not None:
            table = self.decode(points)
            missing = [name for name in self.columns or () if name not in table.columns]
            if missing:
                raise InvalidInputError(
                    f"X: expected the model's column {missing[0]!r}, got {list(table.columns)}"
                )
            return table if self.columns is None else table[list(self.columns)]
        return points if self.columns is None else pd.DataFrame(points, columns=list(self.columns))

    def _scores(self, table: Any) -> Floats:
        n = len(table)
        self.tally.calls, self.tally.rows = self.tally.calls + 1, self.tally.rows + n
        try:
            scores = np.asarray(self.score(table), dtype=np.float64)
        except HoldfastError:
            raise
        # The model may be anyone's code and raise anything; to the caller it is the table that did not fit.
        except Exception as error:
            raise InvalidInputError(
                f"X: expected a table that the model can score, got {type(error).__name__}: {error}"
            ) from error
        scores = scores.reshape(n, -1) if scores.size == n * self.n_outputs else scores
        if scores.shape != (n, self.n_outputs) or not np.isfinite(scores).all():
            raise InvalidInputError(
                f"model: expected a finite score for each of {n} rows and {self.n_outputs} outputs, got {_came(scores)}"
            )
        if not self.tally.agreed and self.predict_labels is not None and n:
            self._compare(table[:CHECKED], scores[:CHECKED])
        return scores

    def _compare(self, table: Any, scores: Floats) -> None:
        """Refuse a model whose class is not the one with the highest score, such as a model with its own threshold."""
        assert self.predict_labels is not None
        theirs = np.asarray(self.predict_labels(table))
        ours = self.classes[self.winners(scores)]
        theirs = theirs.ravel() if theirs.size == ours.size else theirs
        if theirs.shape != ours.shape:
            raise UnsupportedModelError(
                f"expected one class for each row, got predictions of shape {theirs.shape}"
            )
        differ = np.flatnonzero(theirs.astype(str) != ours.astype(str))
        if differ.size:
            row = int(differ[0])
            raise UnsupportedModelError(
                f"expected a model that predicts the class with the highest score, got one that predicts "
                f"{theirs[row]!r} where its scores {scores[row].tolist()} say {ours[row]!r}"
            )
        self.tally.agreed = True

    def __repr__(self) -> str:
        return f"Scored({len(self.labels)} classes, {'any number of' if self.width is None else self.width} variables)"


def log_odds(probabilities: Any, threshold: float | None = None, first: bool = False) -> Floats:
    """Logits of probabilities: (n,) or (n, 1) of the second of two classes, (n, 2), or (n, k) for several.

    With a `threshold`, its log-odds are subtracted: the result is >= 0 exactly if the probability of the second class
    is at least the threshold, or, with `first`, that of the first class is below it.

    Examples
    --------
    >>> log_odds([[0.25, 0.75], [0.5, 0.5]]).round(4)
    array([1.0986, 0.    ])
    """
    shares = np.asarray(probabilities, dtype=np.float64)
    shares = shares[:, None] if shares.ndim == 1 else shares
    if shares.ndim != 2 or not ((shares >= 0.0) & (shares <= 1.0)).all():
        raise InvalidInputError(
            f"model: expected probabilities between 0 and 1, got {_came(shares)}"
        )
    if shares.shape[1] == 1:
        shares = np.hstack([1.0 - shares, shares])
    logs = np.log(np.maximum(shares, _LEAST_PROBABILITY))
    best = shares.argmax(axis=1)
    # Two probabilities may share a logarithm; the greater one wins all the same.
    if threshold is not None:
        off = (math.log(threshold) - math.log1p(-threshold)) * (-1.0 if first else 1.0)
        logit = logs[:, 1] - logs[:, 0] - off
        second = shares[:, 0] < threshold if first else shares[:, 1] >= threshold
        return np.where(second, np.maximum(logit, 0.0), np.minimum(logit, -_LEAST_PROBABILITY))
    lost = np.flatnonzero(logs.argmax(axis=1) != best)
    logs[lost, best[lost]] = np.nextafter(logs[lost].max(axis=1), np.inf)
    return logs[:, 1] - logs[:, 0] if shares.shape[1] == 2 else logs


def scored(
    function: Callable[[Any], Any],
    *,
    classes: Sequence[Any] = (0, 1),
    output: str = "probability",
    batch: int | None = None,
    columns: Sequence[str] | None = None,
) -> Scored:
    """Wrap a function of a table as a model: a remote service, or a library that holdfast does not know.

    Parameters
    ----------
    function
        Function from a table (a DataFrame if a space or `columns` are given, otherwise an array) to its scores.
    classes
        The labels, in the order of the scores.
    output
        "probability": of the second of two classes, (n,), or of every class, (n, k). "margin": logits, (n,) or (n, k);
        of two classes the second wins where its logit is above 0.
    batch
        Largest number of rows in one call.
    columns
        The names of the columns that the function reads.

    Examples
    --------
    >>> model = scored(lambda X: 1.0 / (1.0 + np.exp(X[:, 0] - X[:, 1])), classes=("no", "yes"))
    >>> model.predict([[0.2, 0.4], [0.9, 0.1]])
    array(['yes', 'no'], dtype='<U3')
    """
    if not callable(function):
        raise InvalidInputError(f"function: expected a function of a table, got {function!r}")
    if output not in ("probability", "margin"):
        raise InvalidInputError(f"output: expected 'probability' or 'margin', got {output!r}")
    if len(set(classes)) != len(classes) or len(classes) < 2:
        raise InvalidInputError(
            f"classes: expected at least two different labels, got {list(classes)}"
        )
    if batch is not None:
        whole_number(batch, "batch", least=1)
    score = _Odds(function) if output == "probability" else function
    width = None if columns is None else len(columns)
    return Scored(
        score, tuple(classes), None if columns is None else tuple(columns), width, batch=batch
    )


@dataclass(frozen=True)
class _Odds:
    """Log-odds of a function's probabilities."""

    function: Callable[[Any], Any]
    threshold: float | None = None
    first: bool = False
    odds: ClassVar[bool] = True

    def __call__(self, table: Any) -> Floats:
        return log_odds(self.function(table), self.threshold, self.first)

    def odds_at(self, threshold: float | None, first: bool = False) -> _Odds:
        """The same log-odds at a threshold."""
        return replace(self, threshold=threshold, first=first)


@dataclass(frozen=True)
class _Moved:
    """A multiple of a score plus a constant for each output."""

    score: Callable[[Any], Any]
    by: tuple[float, ...]
    times: float = 1.0

    def __call__(self, table: Any) -> Floats:
        scores = self.times * np.asarray(self.score(table), dtype=np.float64)
        return scores + np.array(self.by) if scores.ndim == 2 else scores + self.by[0]


def _came(scores: Floats) -> str:
    known = scores[~np.isnan(scores)]
    ends = f", from {known.min():.4g} to {known.max():.4g}" if known.size else ""
    gone = scores.size - known.size
    missing = f", {gone} of them not a number" if gone else ""
    return f"shape {scores.shape}{ends}{missing}"
