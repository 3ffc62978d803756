"""`retrain`: retrain today's model as later training runs might."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from holdfast._classifier import Classifier, Values
from holdfast._given import given_share, whole_number
from holdfast._network import Ints, Network
from holdfast._parallel import jobs, spread
from holdfast._progress import progress_bar
from holdfast._scored import Scored
from holdfast.errors import InvalidInputError, UnsupportedModelError
from holdfast.features import FeatureSpace
from holdfast.importers import Model, load_model
from holdfast.importers._model import same_preprocessing
from holdfast.retraining._result import SOME, RetrainedModels
from holdfast.retraining._trainers import (
    WAYS,
    can_train,
    fine_tune,
    library_of,
    optimiser_steps,
    train_anew,
    train_on,
    train_whole,
)
from holdfast.verify._inputs import read_table

How = Literal["incremental", "complete", "leave_one_out", "refit", "continue"]
# These learn from the new data, and keep what they were.
_ON = ("incremental", "refit", "continue")
# (model, X, y, seed) -> the retrained model
Retrain = Callable[[Any, Any, Any, int], Any]
# A table and its labels.
Labelled = tuple[Any, Values]
# With fewer runs one rarely waits.
_LONG = 20


def retrain(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    how: How,
    X_new: Any = None,
    y_new: Any = None,
    share: float | None = None,
    bootstrap: bool | None = None,
    disjoint: bool = False,
    removed: float = 0.01,
    n: int = 5,
    seed: int = 0,
    epochs: int | None = None,
    space: FeatureSpace | None = None,
    retrain: Retrain | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> RetrainedModels:
    """Retrain today's model `n` times, as the next training run might.

    =================  ==========================================================================================
    ``incremental``    a few gradient steps from today's parameters, on a random share of the new data
    ``complete``       from scratch with the same settings and another seed, on rows drawn with replacement from the old
                       data and the new, half as many
    ``leave_one_out``  from scratch with the same settings and another seed, on the old data without some rows
    ``refit``          trees of LightGBM (``refit``) and XGBoost (``refresh``): the same splits, new leaves
    ``continue``       trees of LightGBM and XGBoost: more rounds of boosting, on a random share of the new data
    =================  ==========================================================================================

    Parameters
    ----------
    model
        A fitted scikit-learn ``MLPClassifier`` or ``LogisticRegression``, or a pipeline that ends in one: only this
        last step is trained. The preprocessing stays as fitted, because parameters behind another scaler are not
        comparable. Any other estimator that scikit-learn can clone, such as boosted trees, is cloned whole and
        fitted from scratch; for ``refit`` and ``continue`` its last step is trained further. Any other model that
        `load_model` takes needs a function `retrain`.
    X, y
        The training data of the model: a table and its labels. The table is in the caller's units if the model has
        preprocessing or a space is given, else in the model's variables. For a model that is not a network, the
        table as it was fitted. For ``incremental`` they may be the new data.
    how
        One of the five ways above.
    X_new, y_new
        The new data; ``incremental`` uses only this.
    share
        The share of the rows that a run draws. The default is a tenth of the new data for runs that start from
        today's model, and one half for ``complete``. Reason for one half: today's model and the next one saw
        different rows, which gives a variance of 2σ²; a bootstrap of all rows gives only σ². Half as many rows,
        drawn with replacement, give 2σ² and so imitate as many new rows. ``share=1.0`` gives other draws of the
        same rows; these models are nearer to today's than a model of new rows will be.
    bootstrap
        For ``complete``: draw rows with replacement (the default). False draws each row at most once, and all rows
        if `share` is not given. Models that ignore their seed, such as most boosted trees, are then copies of each
        other.
    disjoint
        True gives each incremental run its own rows of the new data, so ``n * share <= 1``. The runs then differ
        from each other as much as the next run, on unseen data, will differ from them. Runs that share rows are
        more alike. Use it for `delta_calibrated`.
    removed
        The share of the old data that a ``leave_one_out`` run leaves out.
    n
        The number of runs.
    seed
        The seed from which each run's own seed is drawn, for its rows and its training. A larger `n` keeps the
        first runs, and a larger `share` adds rows to those of a smaller one.
    epochs
        Passes over the rows. The default is one for ``incremental``, as in ``MLPClassifier.partial_fit``; it gives
        the order of magnitude of the paper's distances. From scratch, the model's own settings decide. For
        ``continue`` it is the number of boosting rounds, 20 by default.
    space
        The feature space that encodes the tables.
    retrain
        For models outside scikit-learn: a function ``retrain(model, X, y, seed)`` that trains and returns a model.
        It fine-tunes for ``incremental`` and starts from scratch otherwise. X and y are the drawn rows: encoded by
        the space if there is one and the model has no own preprocessing, else rows of the given tables. A returned
        pipeline with refitted preprocessing works for `delta_validation`, but has no distance from today's model. A
        returned model without preprocessing must read the same input as the last step of today's pipeline.
    n_jobs
        The number of runs in parallel, as in joblib. The result does not depend on it.
    progress
        Show a progress bar on stderr. By default it shows from 20 runs on if stderr is a terminal.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((400, 2))
    >>> y = (X.sum(axis=1) + rng.normal(0.0, 0.2, 400) > 1.0).astype(int)
    >>> classifier = LogisticRegression().fit(X[:200], y[:200])
    >>> updated = retrain(classifier, X[200:], y[200:], how="incremental", share=0.5, n=3)
    >>> updated
    RetrainedModels(3 x incremental on 100 rows: 0.01 to 0.01 from today's)
    >>> retrain(classifier, X[:200], y[:200], X_new=X[200:], y_new=y[200:], how="complete").n_rows
    200
    """
    if how not in get_args(How):
        raise InvalidInputError(f"how: expected one of {', '.join(get_args(How))}, got {how!r}")
    loaded = load_model(model)
    if not callable(retrain) and (retrain is not None or not can_train(model)):
        raise InvalidInputError(
            f"retrain: a {type(model).__name__} needs a function retrain=(model, X, y, seed), got {retrain!r:.80}; "
            "only models that scikit-learn can clone work without one"
        )
    if isinstance(loaded.classifier, Scored) and retrain is None:
        if how in WAYS:
            retrain = partial(train_on, how=how, rounds=20 if epochs is None else epochs)
        elif how == "incremental" or epochs is not None:
            asked = f"{how!r}" if epochs is None else f"epochs = {epochs}"
            also = "'refit', 'continue', " * (library_of(model) is not None)
            raise InvalidInputError(
                f"how: expected {also}'complete' or 'leave_one_out' for a {type(model).__name__}, got {asked}; or pass "
                "retrain=, a function that trains it"
            )
        retrain = retrain or train_whole
    encoded = retrain is None or (space is not None and loaded.preprocess is None)
    read = partial(_read, loaded, space=space, encoded=encoded)
    table, labels = _training_data(read, how, X, y, X_new, y_new)
    seeds = run_seeds(seed, n)
    removed = given_share(removed, "removed", or_one=True)
    if (bootstrap is not None and how != "complete") or (
        share is not None and how == "leave_one_out"
    ):
        name = "share" if bootstrap is None else "bootstrap"
        raise InvalidInputError(
            f"{name}: leave it out for how={how!r}, which draws rows in its own way"
        )
    bootstrap = how == "complete" and bootstrap is not False
    usual = 0.5 if bootstrap else 0.1 if how in _ON else 1.0
    share = usual if share is None else given_share(share, "share", or_one=True)
    if disjoint:
        rows = _disjoint(how, len(labels), share, seed, n)
        size = len(rows[0])
    else:
        without = max(1, round(removed * len(labels))) if how == "leave_one_out" else 0
        size = max(1, round(share * len(labels)) - without)
        rows = [_drawn(how, len(labels), size, bootstrap, one) for one in seeds]
    epochs = None if epochs is None else whole_number(epochs, "epochs", least=1)
    steps = None
    if retrain is not None:
        train = retrain
    elif how == "incremental":
        train = partial(fine_tune, epochs=epochs or 1)
        steps = optimiser_steps(model, size, epochs or 1)
    else:
        train = partial(train_anew, epochs=epochs)
    runs = (
        (train, model, table.take(part, axis=0), labels[part], loaded, one)
        for part, one in zip(rows, seeds, strict=True)
    )
    done = []
    with jobs(n_jobs), progress_bar("retrain", n, wanted=progress, long=_LONG) as advance:
        for result in spread(_run, runs):
            done.append(result)
            advance(1)
    models, classifiers, comparable = zip(*done, strict=True)
    return RetrainedModels(
        loaded.classifier, models, classifiers, how, seeds, size, disjoint=disjoint, comparable=all(comparable),
        steps=steps, share=share, bootstrap=bootstrap,
        some_rows=table.take(np.arange(min(len(labels), SOME)), axis=0),
    )  # fmt: skip


def run_seeds(seed: int, n: int) -> tuple[int, ...]:
    """A seed for each of `n` runs; a larger `n` keeps the first seeds."""
    n = whole_number(n, "n", least=1)
    start = whole_number(seed, "seed", least=0)
    return tuple(int(state) for state in np.random.SeedSequence(start).generate_state(n))


def _drawn(how: str, n_rows: int, size: int, bootstrap: bool, seed: int) -> Ints:
    """The rows of a run."""
    rng = np.random.default_rng(seed)
    if bootstrap:
        return rng.integers(0, n_rows, size)
    order = rng.permutation(n_rows)[:size]
    return order if how in _ON else np.sort(order)


def _disjoint(how: str, n_rows: int, share: float, seed: int, n: int) -> list[Ints]:
    """Different rows for each run."""
    size = math.floor(share * n_rows + 1e-9)
    if how not in _ON or n * share > 1.0 + 1e-9 or size < 1:
        raise InvalidInputError(
            "disjoint: expected incremental runs with n * share <= 1 and at least a row each, "
            f"got {how} with n = {n} and share = {share:g} of {n_rows} rows"
        )
    return np.split(np.random.default_rng(seed).permutation(n_rows)[: n * size], n)


def _run(run: tuple[Retrain, Any, Any, Any, Model, int]) -> tuple[Any, Classifier, bool]:
    """One training run: the model, its network or scores, and whether its parameters are comparable with today's.

    It uses one thread, so that sums are equal in every process.
    """
    train, model, X, y, today, seed = run
    with threadpool_limits(1):
        retrained = train(model, X, y, seed)
    try:
        loaded = load_model(retrained)
    except (InvalidInputError, UnsupportedModelError) as error:
        raise InvalidInputError(
            f"retrain: the function must return the retrained model; it returned {type(retrained).__name__}: {error}"
        ) from error
    ours = today.classifier
    theirs = loaded.classifier
    if not np.array_equal(theirs.classes, ours.classes) or _shape(theirs) != _shape(ours):
        raise InvalidInputError(
            f"retrain: expected a model with the shape and the classes of today's, {ours!r}, got {theirs!r}"
        )
    alike = isinstance(ours, Network) and (
        loaded.preprocess is None or same_preprocessing(today, loaded)
    )
    return retrained, theirs, alike


def _shape(classifier: Classifier) -> object:
    """The properties that two models must share: the shapes of their layers, or the columns that they read."""
    if isinstance(classifier, Network):
        return [weight.shape for weight in classifier.weights]
    return getattr(classifier, "columns", None), getattr(classifier, "width", None)


def _training_data(
    read: Callable[..., Labelled], how: str, X: Any, y: Any, X_new: Any, y_new: Any
) -> Labelled:
    """The rows from which the runs draw."""
    if how in _ON and X_new is not None:
        return read(X_new, y_new, name="X_new")
    old, labels = read(X, y, name="X")
    if how != "complete" or X_new is None:
        return old, labels
    new, new_labels = read(X_new, y_new, name="X_new")
    frames = isinstance(old, pd.DataFrame) and isinstance(new, pd.DataFrame)
    table = pd.concat([old, new]) if frames else np.concatenate([old, new])
    return table, np.concatenate([labels, new_labels])


def _read(
    loaded: Model, X: Any, y: Any, *, space: FeatureSpace | None, encoded: bool, name: str
) -> Labelled:
    """A checked table and its labels: in the model's variables if `encoded`, else in the caller's units."""
    labels_name = name.replace("X", "y")
    if X is None or y is None:
        raise InvalidInputError(
            f"{name if X is None else labels_name}: expected data to train on, got None"
        )
    labels = np.asarray(y)
    scored = isinstance(loaded.classifier, Scored)
    if scored and space is not None:
        loaded = loaded.in_space(space)
    points = _own_table(loaded, X, space) if scored else read_table(loaded, X, space, name).points
    n = len(points)
    if labels.shape != (n,):
        raise InvalidInputError(
            f"{labels_name}: expected a label for each of the {n} rows of {name}, got shape {labels.shape}"
        )
    classes = loaded.classifier.classes.tolist()
    unknown = sorted(set(labels.tolist()) - set(classes), key=str)
    if unknown:
        raise InvalidInputError(
            f"{labels_name}: expected the model's classes {classes}, got {unknown[0]!r}"
        )
    if encoded or scored:
        return points, labels
    return X if isinstance(X, pd.DataFrame) else np.asarray(X), labels


def _own_table(loaded: Model, X: Any, space: FeatureSpace | None) -> Any:
    """The table for a model that is not a network: its own columns, or a space's variables."""
    scored = loaded.classifier
    assert isinstance(scored, Scored)
    if space is not None and scored.decode is None:
        points = space.encode(X)
        return (
            points if scored.columns is None else pd.DataFrame(points, columns=list(scored.columns))
        )
    if scored.columns is None or not isinstance(X, pd.DataFrame):
        return np.asarray(X)
    missing = [name for name in scored.columns if name not in X.columns]
    if missing:
        raise InvalidInputError(
            f"X: the model's column {missing[0]!r} is missing; X has {list(X.columns)}"
        )
    return X[list(scored.columns)]
