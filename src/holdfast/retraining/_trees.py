"""How trees are trained on with their structure kept: the libraries' own calls, no more.

Of a pipeline the last step is trained, behind the others as they are.

refit       LightGBM's `refit`, with its `refit_decay_rate`; XGBoost's `process_type="update"` with `refresh`
continue    more rounds of boosting on top of today's
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from holdfast.errors import InvalidInputError


def library_of(model: Any) -> str | None:
    """Which library trains these trees, or those that a pipeline ends in, on; None where no known one does."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    names = (base.__module__.partition(".")[0] for base in type(last).__mro__)
    known = (name for name in names if name in ("xgboost", "lightgbm") and hasattr(last, "fit"))
    return next(known, None)


def refit(model: Any, table: Any, y: Any, seed: int, rounds: int) -> Any:
    """The same splits, with leaves from these rows."""
    if library_of(model) == "lightgbm":
        fitted = copy.copy(model)
        fitted._Booster = model.booster_.refit(
            table,
            model._le.transform(y),
            decay_rate=model.get_params().get("refit_decay_rate", 0.9),
        )
        return fitted
    import xgboost

    booster, fitted = model.get_booster(), copy.copy(model)
    settings = {"process_type": "update", "updater": "refresh", "refresh_leaf": True}
    rows = xgboost.DMatrix(table, label=y, enable_categorical=bool(model.enable_categorical))
    with warnings.catch_warnings():
        # That updaters are named is the point.
        warnings.filterwarnings("ignore", message=".*updater.*", category=UserWarning)
        fitted._Booster = xgboost.train(
            {**model.get_xgb_params(), **settings},
            rows,
            booster.num_boosted_rounds(),
            xgb_model=booster,
        )
    best = booster.attr("best_iteration")
    if best is not None:
        fitted._Booster.set_attr(best_iteration=best)
    return fitted


def more_rounds(model: Any, table: Any, y: Any, seed: int, rounds: int) -> Any:
    """So many rounds on top of today's trees."""
    settings: dict[str, Any] = {"n_estimators": rounds, "random_state": seed % 2**31}
    if library_of(model) == "lightgbm":
        return clone(model).set_params(**settings).fit(table, y, init_model=model)
    again = clone(model).set_params(**settings, early_stopping_rounds=None)
    return again.fit(table, y, xgb_model=model.get_booster())


WAYS: dict[str, Callable[..., Any]] = {"refit": refit, "continue": more_rounds}


def train_on(model: Any, table: Any, y: Any, seed: int, *, how: str, rounds: int) -> Any:
    """Trees, or the trees that a pipeline ends in, trained on in one of the ways."""
    if library_of(model) is None:
        raise InvalidInputError(
            f"how: expected an XGBClassifier or an LGBMClassifier for {how!r}, got a {type(model).__name__}"
        )
    if not isinstance(model, Pipeline):
        return WAYS[how](model, table, y, seed, rounds)
    trained, (name, last) = copy.copy(model), model.steps[-1]
    again = WAYS[how](last, model[:-1].transform(table), y, seed, rounds)
    trained.steps = [*model.steps[:-1], (name, again)]
    return trained
