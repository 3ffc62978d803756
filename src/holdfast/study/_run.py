"""`benchmark`: run methods on tables, models, deltas and seeds; runs can be interrupted and resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from holdfast._files import Document, Place
from holdfast._given import positive_number, whole_number
from holdfast._parallel import check_jobs, jobs, spread, workers
from holdfast._progress import Advance, no_bar, progress_bar
from holdfast.changes import Changes
from holdfast.errors import InvalidInputError
from holdfast.generators import NNCE
from holdfast.study._asked import Delta, StudyMethod, read_deltas, read_methods, resolve
from holdfast.study._cells import answer, cell_frame, judge, verdict_shares
from holdfast.study._recipes import Recipe, read_recipes
from holdfast.study._result import METRICS, BenchmarkResult, write_result
from holdfast.study._situation import PAPER_RETRAINED, Protocol, Situation
from holdfast.study._store import StudyStore
from holdfast.study._survival import Asked, Survival, fates
from holdfast.study._tables import read_tables

T = TypeVar("T")
# What was asked.
_ASKED = ["dataset", "model", "seed", "method", "delta_label", "delta"]
# What a row has where there is nothing to say.
_BLANK = {
    "delta_label": "",
    "delta": np.nan,
    "verified_label": "",
    "verified_delta": np.nan,
    "error": "",
}


def benchmark(
    datasets: Any,
    *,
    models: BaseEstimator | Mapping[str, BaseEstimator],
    methods: Any,
    deltas: Any,
    seeds: int | Iterable[int] = range(5),
    inputs: int = 20,
    target: Any = None,
    retrained: Mapping[str, int] = PAPER_RETRAINED,
    changes_of: Any = None,
    variants: int = 12,
    out: Place | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    time_limit: float | None = None,
    protocol: Protocol | None = None,
    threshold: Any = None,
) -> BenchmarkResult:
    """Compare the cost and the robustness of each method's advice, on your tables or public ones.

    For each table and seed, as in the paper:

    1. The rows are split into two halves, and a model learns from the first. 2. The model is retrained on the
    second half, on both, and on the first without some rows. 3. Rejected people are drawn from the first half's
    test part. 4. Each method advises them: at each delta if it uses Δ, else once. 5. All advice is certified at
    every delta, and evaluated by all retrained models.

    Parameters
    ----------
    datasets
        Names for `holdfast.datasets.load`, or your own tables, ``{"loans": (X, y, space)}``.
    models
        scikit-learn classifiers by name, or a single one. Each is cloned and trained on ``space.encode(X)``; the
        seed replaces a `random_state` of None.
    methods
        Names (``holdfast methods``), or a mapping such as ``{"mine": generator}``. Instead of a generator you can
        give a function that takes the training table and returns one, or a `StudyMethod`.
    deltas
        Numbers, or "inc" and "val" (the paper's two ways to measure a delta for each table, model and seed). Or a
        mapping from labels, ``{"small": 0.01, "paper": "inc"}``. A value may also be another kind of change, such
        as ``PlausibleShift(0.8)``, a number for each table, ``{"adult": 0.05, "heloc": 0.03}``, or a function from
        the `Situation` to any of these.
    seeds
        The number of seeds, or a list of seeds.
    inputs
        The number of rejected people for each table, model and seed.
    target
        The target class; by default the data set's own, or the last label.
    retrained
        The number of models for each way to retrain; by default the paper's 5, 5 and 5. ``{}`` retrains none.
        Models that are not networks are only retrained from scratch.
    changes_of
        Further kinds of change that evaluate the advice: names of recipes, `Recipe` values, or functions ``(model,
        data, seed) -> model`` by name; ``holdfast.study.RECIPES`` has eleven. `BenchmarkResult.survival` has the
        result.
    variants
        The number of models of each kind.
    out
        A folder for finished work and for results.csv, timings.csv and other tables. A killed run continues from
        there when it is started again; so do runs with more seeds, methods or deltas.
    n_jobs
        The number of situations (table, model, seed) in parallel, as in joblib. The results do not depend on it.
    progress
        Show a progress bar on stderr. By default it shows if stderr is a terminal.
    time_limit
        Seconds for each person. The advice then depends on the machine.
    protocol
        Details of splitting and drawing; the arguments `inputs` and `retrained` override its own.
    threshold
        The decision threshold of all models: the least probability for class 1; see `load_model`.

    Returns
    -------
    BenchmarkResult
        `results` has one row for each table, model, seed, method, delta of the method and delta of the
        certificates. A method that raises an error has rows with the text of the error, and the next run tries it
        again. The same holds for a delta that cannot be measured, such as "val" if no tried delta is enough.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from holdfast.datasets import make_loans
    >>> from holdfast.features import FeatureSpace
    >>> loans = make_loans(400)
    >>> X, y = loans.drop(columns="accepted"), loans["accepted"]
    >>> tables = {"loans": (X, y, FeatureSpace.from_frame(X, immutable=["age"]))}
    >>> models = {"logistic": LogisticRegression()}
    >>> study = benchmark(tables, models=models, methods=["nnce", "rnce"], deltas=[0.1], seeds=2, inputs=5)
    >>> study.results[["method", "seed", "delta", "coverage", "delta_validity"]]
      method  seed  delta  coverage  delta_validity
    0   nnce     0    NaN       1.0             0.6
    1   rnce     0    0.1       1.0             1.0
    2   nnce     1    NaN       1.0             0.4
    3   rnce     1    0.1       1.0             1.0
    """
    check_jobs(n_jobs)
    labelled = read_deltas(deltas)
    plan = Plan(
        methods=read_methods(methods, labelled),
        deltas=labelled,
        time_limit=None if time_limit is None else positive_number(time_limit, "time_limit"),
        recipes=read_recipes(changes_of),
        variants=whole_number(variants, "variants", least=1),
    )
    protocol = replace(protocol or Protocol(), inputs=inputs, retrained=dict(retrained))
    protocol = protocol if threshold is None else replace(protocol, threshold=threshold)
    tables = read_tables(datasets, target)
    estimators = _read_models(models)
    runs = _read_seeds(seeds)
    store = StudyStore.open(out)
    for table in tables:
        # Named here, once, and not again for each model and seed.
        _ = table.identity
    situations = [
        Situation(table, name, estimator, seed, protocol, store)
        for table in tables
        for name, estimator in estimators.items()
        for seed in runs
    ]
    outcomes = []
    bar = progress_bar("benchmark", len(situations) * plan.steps, wanted=progress, long=2)
    with jobs(n_jobs), bar as advance:
        alone = workers() == 1 or len(situations) == 1
        # A bar cannot be moved by another process.
        within, after = (advance, 0) if alone else (no_bar, plan.steps)
        work = partial(run_situation, plan=plan, advance=within)
        for outcome in map(work, situations) if alone else spread(work, situations):
            outcomes.append(outcome)
            advance(after)
    result = _gather(outcomes, store)
    if store.folder is not None:
        write_result(result, store.folder)
    return result


@dataclass(frozen=True)
class Plan:
    """The work in every situation."""

    methods: tuple[StudyMethod, ...]
    deltas: Mapping[str, Delta]
    time_limit: float | None
    recipes: tuple[Recipe, ...] = ()
    variants: int = 12

    @property
    def steps(self) -> int:
        """The number of pieces of work in a situation, for the progress bar."""
        return len(self.methods) + len(self.recipes)


@dataclass
class SituationOutcome:
    """The outcome of one situation."""

    rows: list[Document] = field(default_factory=list)
    details: list[pd.DataFrame] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    survival: list[Survival] = field(default_factory=list)
    model: Document = field(default_factory=dict)
    # How many pieces of work of each kind, and whether they were found done.
    counts: Counter[tuple[str, bool]] = field(default_factory=Counter)


class Failure(str):
    """The error of a failed piece of work."""


def _attempt(work: Callable[..., T], *arguments: Any) -> T | Failure:
    """Run work that may raise any error (users' estimators and functions do), so that the study continues."""
    try:
        return work(*arguments)
    except Exception as error:
        return Failure(f"{type(error).__name__}: {error}")


def run_situation(situation: Situation, plan: Plan, advance: Advance = no_bar) -> SituationOutcome:
    """Run every method in one situation, on one thread, so that sums are equal in every process."""
    outcome = SituationOutcome()
    where = _BLANK | situation.place
    with threadpool_limits(1):
        ready = _attempt(lambda: (situation.models, len(situation.people)))
        if isinstance(ready, Failure):
            outcome.rows = [
                where | {"method": method.name, "inputs": 0, "error": ready}
                for method in plan.methods
            ]
            advance(plan.steps)
            return outcome
        models, inputs = ready
        outcome.counts["models", models.reused] += 1
        outcome.model = situation.place | {"accuracy": models.accuracy, "inputs": inputs}
        # A delta that cannot be had leaves the others alone.
        deltas = {
            label: _attempt(resolve, delta, situation) for label, delta in plan.deltas.items()
        }
        for method in plan.methods:
            this = where | {"method": method.name, "inputs": inputs}
            _run_method(situation, method, deltas, plan.time_limit, this, outcome)
            advance(1)
        if plan.recipes:
            # Every answer under every kind of change, beside what the nearest accepted row costs each person.
            nearest = answer(situation, NNCE(situation.training_table), None, plan.time_limit)
            for recipe in plan.recipes:
                part, reused = fates(situation, outcome.asked, recipe, plan.variants, nearest)
                outcome.survival.append(part)
                outcome.counts["kinds", reused] += 1
                advance(1)
    return outcome


def _run_method(
    situation: Situation,
    method: StudyMethod,
    deltas: Mapping[str, Changes | Failure],
    time_limit: float | None,
    this: Mapping[str, Any],
    outcome: SituationOutcome,
) -> None:
    """A method's rows: for each of its deltas, one for each delta of the certificates."""
    generator = _attempt(method.generator, situation)
    if isinstance(generator, Failure):
        outcome.rows.append({**this, "error": generator})
        return
    for label in method.asked(generator, deltas):
        changes = None if label is None else deltas[label]
        asked = {**this, "delta_label": label or "", "delta": getattr(changes, "size", np.nan)}
        cell = (
            changes
            if isinstance(changes, Failure)
            else _attempt(answer, situation, generator, changes, time_limit)
        )
        if isinstance(cell, Failure) or isinstance(changes, Failure):
            outcome.rows.append(asked | {"error": cell})
            continue
        outcome.counts["cells", cell.reused] += 1
        verdicts: dict[str, list[str | None]] = {}
        for name, held_to in deltas.items():
            held = {"verified_label": name, "verified_delta": getattr(held_to, "size", np.nan)}
            certified = asked | held | {"seconds": cell.seconds}
            judged = (
                held_to
                if isinstance(held_to, Failure)
                else _attempt(judge, situation, cell, held_to, time_limit)
            )
            if isinstance(judged, Failure):
                outcome.rows.append(certified | {"error": judged})
                continue
            verdicts[name], reused = judged
            outcome.counts["verdicts", reused] += 1
            outcome.rows.append(certified | cell.summary() | verdict_shares(verdicts[name]))
        keys = {name: asked[name] for name in _ASKED}
        outcome.details.append(cell_frame(situation, cell, verdicts).assign(**keys))
        outcome.asked.append((keys, cell, changes))


def _gather(outcomes: Sequence[SituationOutcome], store: StudyStore) -> BenchmarkResult:
    """All outcomes as frames with fixed columns."""
    keys = [*_ASKED, "verified_label", "verified_delta"]
    results = pd.DataFrame(
        [row for outcome in outcomes for row in outcome.rows], columns=[*keys, *METRICS, "error"]
    )
    counts = sum((outcome.counts for outcome in outcomes), Counter())
    details = [frame for outcome in outcomes for frame in outcome.details]
    people = pd.concat(details, ignore_index=True) if details else pd.DataFrame(columns=_ASKED)
    return BenchmarkResult(
        results=results.astype(
            dict.fromkeys(("delta", "verified_delta", *METRICS), "float64") | {"inputs": "int64"}
        ),
        details=people[[*_ASKED, *people.columns.difference(_ASKED, sort=False)]],
        models=pd.DataFrame([outcome.model for outcome in outcomes if outcome.model]),
        out=store.folder,
        computed={kind: n for (kind, reused), n in counts.items() if not reused},
        reused={kind: n for (kind, reused), n in counts.items() if reused},
        survival=Survival.joined([part for outcome in outcomes for part in outcome.survival]),
    )


def _read_models(models: Any) -> dict[str, BaseEstimator]:
    named = models if isinstance(models, Mapping) else {type(models).__name__: models}
    for name, estimator in named.items():
        if not isinstance(estimator, BaseEstimator) or not hasattr(estimator, "fit"):
            raise InvalidInputError(
                f"models[{name!r}]: expected a scikit-learn classifier, got {estimator!r:.80}"
            )
    if not named:
        raise InvalidInputError("models: expected at least one, got none")
    return {str(name): estimator for name, estimator in named.items()}


def _read_seeds(seeds: Any) -> list[int]:
    several = range(seeds) if isinstance(seeds, int) and not isinstance(seeds, bool) else seeds
    chosen = list(several) if isinstance(several, Iterable) and not isinstance(several, str) else []
    whole = all(isinstance(seed, int | np.integer) and seed >= 0 for seed in chosen)
    if not chosen or not whole or len(set(chosen)) != len(chosen):
        raise InvalidInputError(
            f"seeds: expected a number of seeds, or different whole numbers >= 0, got {seeds!r}"
        )
    return [int(seed) for seed in chosen]
