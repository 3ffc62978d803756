"""`delta_validation`: the least delta whose recourse is accepted by models that were really retrained."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from holdfast._given import given_share, positive_number
from holdfast._network import Ints
from holdfast._progress import progress_bar
from holdfast.calibration._result import ChosenDelta
from holdfast.changes import PlausibleChanges
from holdfast.errors import InvalidInputError
from holdfast.features import FeatureSpace
from holdfast.generators import RNCE, Generator, Recourse, Task, explain
from holdfast.generators._reading import read_question
from holdfast.importers import Model, load_model
from holdfast.metrics._rows import valid_rows
from holdfast.retraining._result import each_model

_GROWTH = 1.25
# No grid is so long that a bar is worth it unless it is asked for: each step is soon done.
_LONG = 1000
# Counts are compared with shares of them: 0.9 of 10 is 9.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class ValidationDelta(ChosenDelta):
    """The result of `delta_validation`; delta is nan if no tried delta is enough.

    Attributes
    ----------
    evidence
        One row for each tried delta: delta, asked (people who need recourse), found, robust, surviving (recourse
        that every retrained model accepts), validity (surviving / found), validity_mean (over people and models),
        coverage (found / asked), cost_l1, enough.
    n_models
        The number of retrained models that evaluated the recourse.
    required
        The share of recourse that every retrained model has to accept.
    """

    n_models: int
    required: float

    @property
    def reached(self) -> bool:
        """Whether one of the tried deltas was enough."""
        return not math.isnan(float(self))

    @property
    def name(self) -> str:
        """The label in plots."""
        return "by validation"

    def __str__(self) -> str:
        models = f"{self.n_models} retrained model" + "s" * (self.n_models != 1)
        if self.reached:
            row = self.evidence.iloc[-1]
            start = f"delta = {self.shown}: the least of the deltas tried at which "
            share = (
                "all recourse is accepted by"
                if self.required == 1.0
                else f"{self.required:.3g} of recourse is accepted by"
            )
            return f"{start}{share} {models}; recourse was found for {row['found']} of {row['asked']} people"
        best = self.evidence.iloc[int(self.evidence["surviving"].argmax())]
        tried = f"none of {len(self.evidence)} deltas from {self.evidence['delta'].min():.3g}"
        return (
            f"no delta: {tried} to {self.evidence['delta'].max():.3g} is enough. The best is {best['delta']:.3g}: "
            f"recourse was found for {best['found']} of {best['asked']} people, and accepted "
            f"by {models} for {best['surviving']}"
        )


def delta_validation(
    model: Any,
    X_validation: Any,
    *,
    retrained: Sequence[Any],
    generator: Generator | None = None,
    candidates: Any = None,
    target: Any = 1,
    space: FeatureSpace | None = None,
    deltas: Iterable[float] | None = None,
    start: float = 0.001,
    step: float | None = None,
    stop: float = 0.5,
    required: float = 1.0,
    coverage: float | None = None,
    norm: float = math.inf,
    seed: int = 0,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    threshold: Any = None,
    progress: bool | None = None,
) -> ValidationDelta:
    """Find the least delta at which really retrained models accept all recourse: the paper's delta_val.

    The paper's four steps: retrain some models (`retrained`); find recourse that is robust at a small delta; count
    the recourse that every retrained model accepts; raise delta until all of it is accepted. Use it for models
    trained from scratch, whose parameters can be arbitrarily far away. The result is empirical: other people, or
    other retrained models, may need a larger delta.

    Parameters
    ----------
    model
        Today's model: any model that `load_network` takes.
    X_validation
        People to validate on, as for `explain`; people who already have the target class are left out.
    retrained
        The retrained models: the result of `retrain`, several results, or any models that `load_network` takes.
        Models with their own preprocessing read the caller's units.
    generator
        The generator of recourse; by default ``RNCE(candidates)``, as in the paper.
    candidates
        The table in which RNCE searches; by default the validation table itself.
    target, space, seed, time_limit, n_jobs, threshold
        As for `explain`; retrained models use the same threshold.
    deltas
        The deltas to try, in rising order. By default from `start` to `stop`, each `step` above the last, or 25%
        above it without a `step`.
    required
        The share of the found recourse that every retrained model has to accept.
    coverage
        The share of the people for whom recourse has to be found. By default everyone with recourse at the smallest
        delta must keep it. It prevents a delta so large that hardly any point is robust.
    norm
        The p of the norm, at least 1.
    progress
        Show a progress bar on stderr.

    Examples
    --------
    >>> from holdfast._network import Network
    >>> today, tomorrow = (Network([[[1.0]]], [[-bias]]) for bias in (0.5, 0.6))
    >>> chosen = delta_validation(
    ...     today, [[0.0], [0.2]], retrained=[tomorrow], candidates=[[0.52], [0.58], [0.62], [0.9]],
    ...     deltas=[0.01, 0.03, 0.05, 0.07, 0.1],
    ... )
    >>> print(chosen)
    delta = 0.07: the least of the deltas tried at which all recourse is accepted by 1 retrained model; recourse was \
found for 2 of 2 people
    >>> chosen.evidence[["delta", "found", "surviving"]]
       delta  found  surviving
    0   0.01      2          0
    1   0.03      2          0
    2   0.05      2          0
    3   0.07      2          2
    """
    given_share(required, "required", or_one=True)
    if coverage is not None:
        given_share(coverage, "coverage", or_one=True)
    grid = _grid(deltas, start, step, stop)
    models = [load_model(one) for one in each_model(retrained)]
    if not models:
        raise InvalidInputError("retrained: expected at least one retrained model, got none")
    if generator is None:
        generator = RNCE(X_validation if candidates is None else candidates)
    _, asked, ask = rejected_people(
        model, X_validation, name="X_validation", target=target, generator=generator, space=space, seed=seed,
        time_limit=time_limit, n_jobs=n_jobs, threshold=threshold,
    )  # fmt: skip
    rows: list[dict[str, Any]] = []
    with progress_bar("delta_validation", len(grid), wanted=progress, long=_LONG) as advance:
        for delta in grid:
            recourse = ask(changes=PlausibleChanges(delta, norm), progress=False)
            row = _measured(delta, recourse, models)
            rows.append(row)
            survives = row["surviving"] >= required * row["found"] - _ROUNDING
            least = rows[0]["found"] if coverage is None else coverage * asked.size
            row["enough"] = bool(
                row["found"] > 0 and survives and row["found"] >= least - _ROUNDING
            )
            advance(1)
            if row["enough"] or row["found"] == 0:
                break
    chosen = float(row["delta"]) if row["enough"] else math.nan
    return ValidationDelta(chosen, float(norm), pd.DataFrame(rows), len(models), float(required))


def _grid(
    deltas: Iterable[float] | None, start: float, step: float | None, stop: float
) -> list[float]:
    """The deltas to try, in rising order."""
    if deltas is not None:
        given = [positive_number(delta, "deltas") for delta in deltas]
        if not given or given != sorted(set(given)):
            raise InvalidInputError(f"deltas: expected some, in rising order, got {given}")
        return given
    if not positive_number(start, "start") <= positive_number(stop, "stop"):
        raise InvalidInputError(f"stop: expected at least start, {start:g}, got {stop:g}")
    if step is not None:
        n_steps = math.floor((stop - start) / positive_number(step, "step") + _ROUNDING)
        return [start + k * step for k in range(n_steps + 1)]
    n_steps = math.floor(math.log(stop / start) / math.log(_GROWTH) + _ROUNDING)
    return [float(f"{start * _GROWTH**k:.3g}") for k in range(n_steps + 1)]


def rejected_people(
    model: Any,
    X: Any,
    *,
    name: str,
    target: Any,
    generator: Generator,
    space: FeatureSpace | None,
    n_jobs: int | None = None,
    **options: Any,
) -> tuple[Task, Ints, Callable[..., Recourse]]:
    """The people without their target class today: as a task, their rows, and a function that calls `explain`.

    Raises if there are none. The function takes the changes, and whether to show progress.
    """
    task = read_question(
        model, X, target=target, changes=None, generator=generator, space=space, **options
    )
    asked = np.flatnonzero(task.classifier.predict_index(task.factuals) != task.targets)
    if asked.size == 0:
        raise InvalidInputError(
            f"{name}: the model gives everyone {target!r} already; pass people who need recourse"
        )
    targets = task.classifier.classes[task.targets[asked]]
    people = task.frame.iloc[asked]
    ask = partial(
        explain, model, people, target=targets, generator=generator, space=task.space, n_jobs=n_jobs, **options
    )  # fmt: skip
    return task.take(asked), asked, ask


def _measured(delta: float, recourse: Recourse, models: list[Model]) -> dict[str, Any]:
    """Steps 2 and 3: the recourse at this delta, and the decisions of every retrained model about it."""
    found = recourse.answered
    accepted = np.array([valid_rows(recourse, model)[found] == 1.0 for model in models])
    surviving = int(accepted.all(axis=0).sum())
    return {
        "delta": delta,
        "asked": len(recourse),
        "found": found.size,
        "robust": int(recourse.robust.sum()),
        "surviving": surviving,
        "validity": surviving / found.size if found.size else math.nan,
        "validity_mean": float(accepted.mean()) if found.size else math.nan,
        "coverage": found.size / len(recourse),
        "cost_l1": float(recourse.cost_l1[found].mean()) if found.size else math.nan,
    }
